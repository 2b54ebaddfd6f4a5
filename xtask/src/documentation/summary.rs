//! The order of the pages in `docs/SUMMARY.md`.
//!
//! The file has mdBook's form: headings are parts, and list items are pages. The links lead to the sources, so that the
//! file is a table of contents on a git host as well.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::{read, resolve};
use crate::markdown;

/// The file with the order of the pages.
pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";

/// The pages in their order, by parts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Parts in the order of reading. The first one has the pages before the first heading.
    pub(crate) parts: Vec<Part>,
}

/// Pages under one heading.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// Heading; empty for the pages before the first one.
    pub(crate) title: String,
    /// Pages in the order of reading.
    pub(crate) entries: Vec<Entry>,
}

/// A page of the summary.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Title in the table of contents.
    pub(crate) title: String,
    /// Source, from the root of the repository.
    pub(crate) source: PathBuf,
}

impl Summary {
    /// Reads the summary of a repository.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        Self::parse(&read(root, Path::new(SUMMARY))?)
    }

    /// Parses a summary. Lines without a link and without a heading are skipped.
    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut parts = vec![Part::default()];
        // The first heading is the title of the file.
        for line in text.lines().skip(1) {
            if let Some(title) = line.strip_prefix("# ") {
                parts.push(Part { title: title.to_owned(), ..Part::default() });
                continue;
            }
            let links = markdown::links(line);
            let Some(link) = links.first() else { continue };
            let title = line.trim_start_matches([' ', '-', '[']).split("](").next().unwrap_or_default().to_owned();
            let Some((source, None)) = resolve(Path::new(SUMMARY), link.target) else {
                bail!("{SUMMARY} has the link '{}', which leads to no page.", link.target);
            };
            let part = parts.last_mut().context("A summary has a part.")?;
            part.entries.push(Entry { title, source });
        }
        Ok(Self { parts })
    }

    /// Returns the entries of all parts.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.parts.iter().flat_map(|part| &part.entries)
    }

    /// Returns the sources of the entries.
    pub(crate) fn sources(&self) -> BTreeSet<&Path> {
        self.entries().map(|entry| &*entry.source).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_pages_below_their_heading() {
        let text = "# Summary\n\n[Start](../README.md)\n\n# Learn\n\n- [A tour](tour.md)\n  - [More](a/b.md)\n";
        let entry = |title: &str, source: &str| Entry { title: title.to_owned(), source: source.into() };
        let parts = Summary::parse(text).unwrap().parts;
        let start = Part { title: String::new(), entries: vec![entry("Start", "README.md")] };
        let entries = vec![entry("A tour", "docs/tour.md"), entry("More", "docs/a/b.md")];
        assert_eq!(parts, [start, Part { title: "Learn".to_owned(), entries }]);
        assert!(Summary::parse("# Summary\n- [x](tour.md#a)\n").is_err());
    }
}
