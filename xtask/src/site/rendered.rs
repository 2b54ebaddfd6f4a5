//! The link check of the finished site: each link resolves to a file and, with an anchor, to an element of that file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::documentation::{is_address, resolve};

/// Pages of mdBook whose links begin at the address of the site or are moved by a script.
const EXCEPTIONS: [&str; 2] = ["404.html", "toc.html"];

/// The links and anchors of a page.
#[derive(Debug, Default)]
struct Rendered {
    links: BTreeSet<String>,
    anchors: BTreeSet<String>,
}

/// Checks the links of every page in a directory and lists the broken ones.
pub(super) fn check(site: &Path) -> anyhow::Result<()> {
    let mut pages = BTreeMap::new();
    collect(site, Path::new(""), &mut pages)?;
    let mut broken = Vec::new();
    for (page, rendered) in &pages {
        for link in &rendered.links {
            if !resolves(site, &pages, page, link) {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    if !broken.is_empty() {
        bail!("These links of the site are broken:\n{}", broken.join("\n"));
    }
    Ok(())
}

/// Reads the pages in a directory and its subdirectories.
fn collect(site: &Path, directory: &Path, pages: &mut BTreeMap<PathBuf, Rendered>) -> anyhow::Result<()> {
    let path = site.join(directory);
    for entry in fs::read_dir(&path).with_context(|| format!("{} is unreadable.", path.display()))? {
        let path = directory.join(entry?.file_name());
        let is_html = path.extension().is_some_and(|extension| extension == "html");
        if site.join(&path).is_dir() {
            collect(site, &path, pages)?;
        } else if is_html && !EXCEPTIONS.iter().any(|exception| path == Path::new(exception)) {
            let text = fs::read_to_string(site.join(&path))?;
            pages.insert(path, parse(&text));
        }
    }
    Ok(())
}

/// Returns the links and anchors of a page: only attributes of its tags.
fn parse(html: &str) -> Rendered {
    let mut rendered = Rendered::default();
    for tag in html.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
        let value = |name: &str| {
            let value = tag.split_once(&format!(" {name}=\"")).and_then(|(_, rest)| rest.split('"').next());
            value.map(|value| value.replace("&amp;", "&"))
        };
        rendered.links.extend(value("href").into_iter().chain(value("src")));
        rendered.anchors.extend(value("id"));
    }
    rendered
}

fn resolves(site: &Path, pages: &BTreeMap<PathBuf, Rendered>, page: &Path, link: &str) -> bool {
    if is_address(link) || link.starts_with("data:") {
        return true;
    }
    let Some((path, anchor)) = resolve(page, link) else { return false };
    match (pages.get(&path), anchor) {
        (Some(linked), Some(anchor)) => anchor.is_empty() || linked.anchors.contains(anchor),
        _ => site.join(&path).exists(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_without_its_anchor_or_file_is_broken() {
        let html = "<h1 id=\"a\">A</h1><a class=\"x\" href=\"b.html#b\">b</a><a href=\"#a\">a</a> a href=\"no.html\"";
        let pages =
            BTreeMap::from([(PathBuf::from("a.html"), parse(html)), (PathBuf::from("b.html"), parse("<p id=\"b\">"))]);
        let leads = |link| resolves(Path::new("/nowhere"), &pages, Path::new("a.html"), link);
        assert!(pages[Path::new("a.html")].links.iter().all(|link| leads(link)));
        assert!(!leads("b.html#c") && !leads("c.html") && !leads("../b.html") && leads("https://example.org"));
    }
}
