//! The paths of the site, and the links between them.
//!
//! A page of `docs` has its path without that directory, and any other file has its path in the repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};

use super::reference;
use crate::documentation::summary::{SUMMARY, Summary};
use crate::documentation::{DIRECTORY, is_address, is_page, read, resolve};
use crate::markdown;

/// The pages of the site and their places.
#[derive(Debug)]
pub(super) struct Layout {
    summary: Summary,
    /// Paths in the site of the pages and of linked directories, by their sources.
    paths: BTreeMap<PathBuf, PathBuf>,
    /// The directory of the repository.
    root: PathBuf,
}

impl Layout {
    /// Reads the summary of a repository.
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        Ok(Self::new(root, Summary::read(root)?))
    }

    fn new(root: &Path, summary: Summary) -> Self {
        let path = |source: &Path| match reference::generated(source) {
            Some(generated) => PathBuf::from(generated.page),
            None if source.ends_with("README.md") => site_path(source).with_file_name("index.md"),
            None => site_path(source),
        };
        let paths = summary.sources().into_iter().map(|source| (source.to_owned(), path(source))).collect();
        Self { summary, paths, root: root.to_owned() }
    }

    /// Returns the order of the pages.
    pub(super) fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Returns the path of a source in the site.
    pub(super) fn path(&self, source: &Path) -> PathBuf {
        if let Some(path) = self.paths.get(source) {
            return path.clone();
        }
        let path = site_path(source);
        if self.root.join(source).is_dir() {
            return path.join("index.html");
        }
        // A page that is not in the summary is copied as text, because mdBook would skip it.
        if is_page(&path) { path.with_extension("txt") } else { path }
    }

    /// Returns the text of a page with the links of the site.
    pub(super) fn relink(&self, source: &Path, text: &str) -> anyhow::Result<String> {
        let from = self.path(source);
        let mut failure = None;
        let relinked = markdown::replace_links(text, |target| match self.target(source, target) {
            Ok(Some((linked, anchor))) => {
                let anchor = anchor.map(|anchor| format!("#{anchor}")).unwrap_or_default();
                Some(format!("{}{anchor}", relative(&from, &self.path(&linked))))
            }
            Ok(None) => None,
            Err(error) => {
                failure.get_or_insert(error);
                None
            }
        });
        failure.map_or(Ok(relinked), Err)
    }

    /// Returns the summary with the links of the site.
    pub(super) fn relinked_summary(&self, root: &Path) -> anyhow::Result<String> {
        let summary = Path::new(SUMMARY);
        self.relink(summary, &read(root, summary)?)
    }

    /// Returns the files and directories that a page links to and that are not pages of the site.
    pub(super) fn linked_files(&self, source: &Path, text: &str) -> anyhow::Result<BTreeSet<PathBuf>> {
        let mut files = BTreeSet::new();
        for link in markdown::links(text) {
            files.extend(self.target(source, link.target)?.map(|(linked, _)| linked));
        }
        files.retain(|file| !self.paths.contains_key(file));
        Ok(files)
    }

    /// Returns the source that a link leads to and its anchor. `None` for an address and for a place in the same page.
    fn target<'a>(&self, source: &Path, target: &'a str) -> anyhow::Result<Option<(PathBuf, Option<&'a str>)>> {
        if is_address(target) || target.starts_with('#') {
            return Ok(None);
        }
        let (linked, anchor) = resolve(source, target)
            .with_context(|| format!("The link of {} to '{target}' is outside of the repository.", source.display()))?;
        // A link to a directory leads to its page, if it has one in the site.
        let page = linked.join("README.md");
        let linked = if self.paths.contains_key(&page) { page } else { linked };
        if !self.root.join(&linked).exists() {
            bail!("The link of {} to '{target}' leads to no file.", source.display());
        }
        Ok(Some((linked, anchor)))
    }
}

/// Returns the path of a source without the directory of the documentation.
fn site_path(source: &Path) -> PathBuf {
    source.strip_prefix(DIRECTORY).unwrap_or(source).to_owned()
}

/// Returns the relative link from a page to a file.
fn relative(page: &Path, file: &Path) -> String {
    let directory: Vec<Component<'_>> = page.parent().into_iter().flat_map(Path::components).collect();
    let parts: Vec<Component<'_>> = file.components().collect();
    let common = directory.iter().zip(&parts).take_while(|(left, right)| left == right).count();
    let up = directory[common..].iter().map(|_| "..".to_owned());
    let down = parts[common..].iter().map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout::read(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()).unwrap()
    }

    #[test]
    fn links_lead_to_the_paths_of_the_site() {
        let relink = |source: &str, target: &str| layout().relink(Path::new(source), &format!("[a]({target})"));
        for (source, target, expected) in [
            ("README.md", "docs/gates.md#mcp", "gates.md#mcp"),
            ("docs/tour.md", "../README.md", "index.md"),
            ("docs/design/gates.md", "../gates.md", "../gates.md"),
            ("docs/design/gates.md", "#why", "#why"),
            ("ARCHITECTURE.md", "docs/design/", "design/index.md"),
            ("docs/tour.md", "../examples/tour", "examples/tour/index.html"),
            ("docs/tour.md", "../examples/hello.json", "examples/hello.json"),
            ("docs/mcp.md", "../crates/mcp/tools.json", "reference/tools.md"),
            ("README.md", "crates/picture/fonts/README.md", "crates/picture/fonts/README.txt"),
            ("README.md", "https://example.org/a.md", "https://example.org/a.md"),
        ] {
            assert_eq!(relink(source, target).unwrap(), format!("[a]({expected})"));
        }
        assert!(relink("README.md", "nothing.md").is_err());
        assert!(relink("README.md", "../nothing.md").is_err());
    }

    #[test]
    fn files_beside_the_pages_are_found() {
        let text = "[a](../examples/hello.json) [b](gates.md) ![c](pictures/gate.png)";
        let files: Vec<PathBuf> = layout().linked_files(Path::new("docs/tour.md"), text).unwrap().into_iter().collect();
        assert_eq!(files, [Path::new("docs/pictures/gate.png"), Path::new("examples/hello.json")]);
    }
}
