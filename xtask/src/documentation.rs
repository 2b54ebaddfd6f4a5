//! The documentation check: the code blocks of all pages parse, the links resolve, and the summary lists all pages.
//!
//! The language of a block is the first word after its fence. The further word `fragment` marks a block that does not
//! parse alone, such as two keys of an object. Such a block is not checked.

mod code;
pub(crate) mod summary;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::markdown::{self, Block};
use crate::repository::Repository;
use code::Language;
use summary::Summary;

/// The directory of the pages.
pub(crate) const DIRECTORY: &str = "docs";

/// The attribute of a block that does not parse alone.
const FRAGMENT: &str = "fragment";

/// A mistake in a page.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    /// Page, from the root of the repository.
    page: PathBuf,
    line: usize,
    text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.page.display(), self.line, self.text)
    }
}

/// Checks the blocks and the links of every page and lists all mistakes.
pub(crate) fn check(repository: &Repository) -> anyhow::Result<()> {
    let problems = problems(repository.root())?;
    if problems.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    bail!("The documentation has mistakes:\n{}", lines.join("\n"))
}

/// Returns the mistakes of all pages.
fn problems(root: &Path) -> anyhow::Result<Vec<Problem>> {
    let mut problems = unlisted_pages(root)?;
    let mut pieces = Vec::new();
    for page in pages(root)? {
        let text = read(root, &page)?;
        for link in markdown::links(&text) {
            if let Some(text) = link_problem(root, &page, link.target)? {
                problems.push(Problem { page: page.clone(), line: link.line, text });
            }
        }
        for block in markdown::blocks(&text) {
            if !block.is_closed {
                let text = "this block has no closing fence".to_owned();
                problems.push(Problem { page: page.clone(), line: block.line, text });
            } else if let Some(language) = checked_language(&block) {
                pieces.push((page.clone(), block.line, language, block.code));
            }
        }
    }
    let checked: Vec<(Language, &str)> = pieces.iter().map(|(_, _, language, code)| (*language, &**code)).collect();
    for ((page, line, ..), error) in pieces.iter().zip(code::errors(&checked)?) {
        if let Some(error) = error {
            let text = format!("this block does not parse: {error}. A part of a document is marked with '{FRAGMENT}'");
            problems.push(Problem { page: page.clone(), line: *line, text });
        }
    }
    Ok(problems)
}

/// Returns a mistake for each page in the directory of the documentation that the summary does not list.
fn unlisted_pages(root: &Path) -> anyhow::Result<Vec<Problem>> {
    let summary = Summary::read(root)?;
    let sources = summary.sources();
    let is_unlisted = |page: &PathBuf| {
        page.starts_with(DIRECTORY) && page != Path::new(summary::SUMMARY) && !sources.contains(page.as_path())
    };
    let problem = |page| Problem { page, line: 1, text: format!("the page is not listed in {}", summary::SUMMARY) };
    Ok(pages(root)?.into_iter().filter(is_unlisted).map(problem).collect())
}

/// Returns the language of a block that has to parse.
fn checked_language(block: &Block<'_>) -> Option<Language> {
    let mut words = block.info.split_whitespace();
    let language = Language::parse(words.next()?)?;
    (!words.any(|word| word == FRAGMENT)).then_some(language)
}

/// Returns the paths of the pages in the directory of the documentation and in the root directory.
fn pages(root: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    let mut pages = BTreeSet::new();
    let mut directories = vec![PathBuf::from(DIRECTORY)];
    while let Some(directory) = directories.pop() {
        for path in entries(root, &directory)? {
            if root.join(&path).is_dir() {
                directories.push(path);
            } else if is_page(&path) {
                pages.insert(path);
            }
        }
    }
    pages.extend(entries(root, Path::new(""))?.into_iter().filter(|path| is_page(path)));
    Ok(pages)
}

/// Returns the paths in a directory, from the root.
fn entries(root: &Path, directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(root.join(directory)).with_context(|| format!("{} is unreadable.", directory.display()))?;
    entries.map(|entry| Ok(directory.join(entry?.file_name()))).collect()
}

/// Returns whether a file is in Markdown.
pub(crate) fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

/// Returns the text of a file of the repository.
pub(crate) fn read(root: &Path, path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("{} is unreadable.", path.display()))
}

/// Returns whether a target is an address instead of a path.
pub(crate) fn is_address(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// Returns the path of a target, from the root of the repository, and its anchor. `None` if the target is outside of
/// the repository.
pub(crate) fn resolve<'a>(page: &Path, target: &'a str) -> Option<(PathBuf, Option<&'a str>)> {
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    if path.is_empty() {
        return Some((page.to_owned(), anchor));
    }
    let mut resolved = page.parent()?.to_owned();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if !resolved.pop() {
                    return None;
                }
            }
            part => resolved.push(part),
        }
    }
    Some((resolved, anchor))
}

/// Returns the mistake of a link. Addresses are not requested.
fn link_problem(root: &Path, page: &Path, target: &str) -> anyhow::Result<Option<String>> {
    if is_address(target) {
        return Ok(None);
    }
    let Some((path, anchor)) = resolve(page, target) else {
        return Ok(Some(format!("the link to '{target}' leads out of the repository")));
    };
    if !root.join(&path).exists() {
        return Ok(Some(format!("the link to '{target}' leads to no file")));
    }
    let Some(anchor) = anchor.filter(|_| is_page(&path)) else { return Ok(None) };
    let anchors = markdown::anchors(&read(root, &path)?);
    Ok((!anchors.contains(anchor)).then(|| format!("the link to '{target}' leads to no heading")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn all_blocks_parse_and_all_links_resolve() {
        let problems: Vec<String> = problems(root()).unwrap().iter().map(ToString::to_string).collect();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn broken_links_are_reported() {
        let problem = |target| link_problem(root(), Path::new("docs/design/README.md"), target).unwrap();
        assert_eq!(problem("gates.md"), None);
        assert_eq!(problem("../../CONTRIBUTING.md#the-first-hour"), None);
        assert_eq!(problem("#blueprint"), None);
        assert_eq!(problem("https://example.org/nothing"), None);
        assert_eq!(problem("gate.md").unwrap(), "the link to 'gate.md' leads to no file");
        assert_eq!(problem("gates.md#x").unwrap(), "the link to 'gates.md#x' leads to no heading");
        assert_eq!(problem("../../../x").unwrap(), "the link to '../../../x' leads out of the repository");
    }
}
