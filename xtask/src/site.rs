//! `cargo xtask site`: the documentation as a web site, and as two files for language models.
//!
//! The pages of the repository are the source. The chore copies the pages of `docs/SUMMARY.md` to `site-src` of the
//! target directory, with the links of the site, and adds pages generated from documents of the contract. mdBook writes
//! the site to `site`. Finally, the chore checks every link of the site.

mod layout;
mod llms;
mod mdbook;
mod reference;
mod rendered;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::documentation::{read, summary};
use crate::repository::Repository;
use crate::step;
use layout::Layout;

/// A page of the site, ready for mdBook.
#[derive(Debug)]
struct SitePage {
    /// Title in the table of contents.
    title: String,
    /// Path in the site, with the extension `md`.
    path: PathBuf,
    /// Text with the links of the site.
    text: String,
}

/// Makes the site in `site` of the target directory. With `--url`, links in the files for models begin with its address.
pub(crate) fn run(repository: &Repository, arguments: &[&str]) -> anyhow::Result<()> {
    let url = match arguments {
        [] => "",
        ["--url", url] => url,
        _ => bail!("Usage: cargo xtask site [--url URL]"),
    };
    let mdbook = step::work("mdbook", || mdbook::ensure(repository))?;
    let sources = repository.target().join("site-src");
    let site = repository.target().join("site");
    let (contents, parts) = step::work("pages", || {
        let layout = Layout::read(repository.root())?;
        let parts = make_pages(&layout, repository.root())?;
        let contents = write_sources(&layout, repository.root(), &sources, &parts)?;
        Ok((contents, parts))
    })?;
    step::run("site", &mut mdbook::build(&mdbook, &sources, &site))?;
    step::work("files for models", || {
        write(&site.join("llms.txt"), &llms::index(&parts, url)?)?;
        write(&site.join("llms-full.txt"), llms::full(&parts))?;
        let mut pages = parts.iter().flat_map(|(_, pages)| pages);
        pages.try_for_each(|page| write(&site.join(&page.path), &page.text))
    })?;
    step::work("links of the site", || rendered::check(&site))?;
    eprintln!("xtask: {contents} pages in {}", site.display());
    Ok(())
}

/// Makes the pages of all parts, each part with its title.
fn make_pages(layout: &Layout, root: &Path) -> anyhow::Result<Vec<(String, Vec<SitePage>)>> {
    let page = |entry: &summary::Entry| {
        let text = match reference::generated(&entry.source) {
            Some(generated) => generated.make(&read(root, &entry.source)?)?,
            None => layout.relink(&entry.source, &read(root, &entry.source)?)?,
        };
        Ok(SitePage { title: entry.title.clone(), path: layout.path(&entry.source), text })
    };
    let part =
        |part: &summary::Part| Ok((part.title.clone(), part.entries.iter().map(page).collect::<anyhow::Result<_>>()?));
    layout.summary().parts.iter().map(part).collect()
}

/// Writes the input of mdBook to a new directory and returns the number of pages.
fn write_sources(
    layout: &Layout,
    root: &Path,
    sources: &Path,
    parts: &[(String, Vec<SitePage>)],
) -> anyhow::Result<usize> {
    if sources.exists() {
        fs::remove_dir_all(sources).with_context(|| format!("{} could not be removed.", sources.display()))?;
    }
    let directory = sources.join(mdbook::SOURCE);
    write(&sources.join("book.toml"), mdbook::CONFIGURATION)?;
    write(&directory.join("SUMMARY.md"), &layout.relinked_summary(root)?)?;
    let mut files = BTreeSet::new();
    for (_, pages) in parts {
        for page in pages {
            write(&directory.join(&page.path), &page.text)?;
        }
    }
    for source in layout.summary().sources() {
        if reference::generated(source).is_none() {
            files.extend(layout.linked_files(source, &read(root, source)?)?);
        }
    }
    for file in files {
        copy(layout, root, &file, &directory)?;
    }
    Ok(parts.iter().map(|(_, pages)| pages.len()).sum())
}

/// Copies a file that pages link to. Of a directory, copies the files and makes a list of them.
fn copy(layout: &Layout, root: &Path, source: &Path, directory: &Path) -> anyhow::Result<()> {
    let target = directory.join(layout.path(source));
    if !root.join(source).is_dir() {
        let content = fs::read(root.join(source)).with_context(|| format!("{} is unreadable.", source.display()))?;
        return write(&target, content);
    }
    let entries = fs::read_dir(root.join(source)).with_context(|| format!("{} is unreadable.", source.display()))?;
    let mut names = entries.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<Vec<_>>>()?;
    names.sort();
    let mut list = format!("<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>{0}</title>\n", source.display());
    for name in names {
        let file = source.join(name);
        if root.join(&file).is_file() {
            let link = layout.path(&file);
            let name = link.file_name().unwrap_or_default().display();
            list.push_str(&format!("<p><a href=\"{name}\">{name}</a>\n"));
            copy(layout, root, &file, directory)?;
        }
    }
    // The target of a directory is its list.
    write(&target, list)
}

/// Writes a file and creates its directory.
fn write(path: &Path, content: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let directory = path.parent().context("A file is in a directory.")?;
    fs::create_dir_all(directory).with_context(|| format!("{} could not be created.", directory.display()))?;
    fs::write(path, content).with_context(|| format!("{} could not be written.", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_of_the_summary_is_made() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let layout = Layout::read(root).unwrap();
        let directory = test_directory();
        let parts = make_pages(&layout, root).unwrap();
        let count = write_sources(&layout, root, &directory, &parts).unwrap();
        assert_eq!(count, layout.summary().entries().count());
        let index = llms::index(&parts, "").unwrap();
        for (_, pages) in &parts {
            for page in pages {
                assert!(directory.join(mdbook::SOURCE).join(&page.path).exists(), "{page:?}");
                assert!(index.contains(&format!("]({}): ", page.path.display())), "{:?} has no sentence", page.path);
            }
        }
        fs::remove_dir_all(directory).unwrap();
    }

    /// Returns a directory of this process for a test.
    fn test_directory() -> PathBuf {
        std::env::temp_dir().join(format!("steplatch-site-{}", std::process::id()))
    }
}
