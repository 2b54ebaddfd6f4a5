//! The files `llms.txt` and `llms-full.txt`, in the form of llmstxt.org.

use anyhow::Context as _;

use super::SitePage;
use crate::markdown;

/// The part that a reader with limited context may skip. Its name has this meaning in the format.
const OPTIONAL: (&str, &str) = ("For contributors", "Optional");

/// Returns the list of all pages, each with its first sentence. Links begin with `url`.
pub(super) fn index(parts: &[(String, Vec<SitePage>)], url: &str) -> anyhow::Result<String> {
    let first = parts.iter().find_map(|(_, pages)| pages.first()).context("The summary has no page.")?;
    let summary = markdown::first_sentence(&first.text).context("The first page has no paragraph.")?;
    let mut text = format!("# Steplatch\n\n> {summary}\n");
    let base = if url.is_empty() || url.ends_with('/') { url.to_owned() } else { format!("{url}/") };
    for (title, pages) in parts.iter().filter(|(_, pages)| !pages.is_empty()) {
        let title = match &**title {
            "" => "Overview",
            title if title == OPTIONAL.0 => OPTIONAL.1,
            title => title,
        };
        text.push_str(&format!("\n## {title}\n\n"));
        for page in pages {
            let description = markdown::first_sentence(&page.text).map(|sentence| format!(": {sentence}"));
            let description = description.unwrap_or_default();
            text.push_str(&format!("- [{}]({base}{}){description}\n", page.title, page.path.display()));
        }
    }
    Ok(text)
}

/// Returns the texts of all pages, each after a line with its path.
pub(super) fn full(parts: &[(String, Vec<SitePage>)]) -> String {
    let pages = parts.iter().flat_map(|(_, pages)| pages);
    let texts = pages.map(|page| format!("<!-- {} -->\n\n{}\n", page.path.display(), page.text.trim_end()));
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_has_its_first_sentence() {
        let page = |title: &str, path: &str, text: &str| SitePage {
            title: title.to_owned(),
            path: path.into(),
            text: text.to_owned(),
        };
        let parts = [
            (String::new(), vec![page("Steplatch", "index.md", "# steplatch\n\nIt has terminals.\n")]),
            ("For contributors".to_owned(), vec![page("Recipes", "a/recipes.md", "# Recipes\n\n| a | b |\n")]),
        ];
        let expected = "# Steplatch\n\n> It has terminals.\n\n## Overview\n\n\
                        - [Steplatch](https://example.org/index.md): It has terminals.\n\n## Optional\n\n\
                        - [Recipes](https://example.org/a/recipes.md)\n";
        assert_eq!(index(&parts, "https://example.org").unwrap(), expected);
        assert!(index(&parts, "").unwrap().contains("(a/recipes.md)"));
        let full = full(&parts);
        assert!(full.contains("terminals.\n\n<!-- a/recipes.md -->\n\n# Recipes"), "{full}");
        assert!(index(&[], "").is_err());
    }
}
