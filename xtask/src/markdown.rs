//! The parts of a Markdown page that chores read: fenced blocks, links, headings and the first sentence.
//!
//! Covers the Markdown that this repository writes. Links are `[text](target)`, headings begin with `#`; indented code
//! and reference links do not occur.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A fenced block of code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block<'a> {
    /// Line of the opening fence, from 1.
    pub(crate) line: usize,
    /// Text after the opening fence: the language, then attributes, separated by spaces.
    pub(crate) info: &'a str,
    /// Content, without the indentation of the fence.
    pub(crate) code: String,
    /// True if the block has a closing fence.
    pub(crate) is_closed: bool,
}

/// A link or a picture.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link<'a> {
    /// Line of the target, from 1.
    pub(crate) line: usize,
    /// Target, with the anchor.
    pub(crate) target: &'a str,
    /// Byte offset of the target in the page.
    pub(crate) place: Range<usize>,
}

/// Part of a page: a fenced block with its source, or a line of text.
enum Part<'a> {
    Block(Block<'a>, &'a str),
    Text(&'a str),
}

/// Returns the character and the length of the fence that a line begins with.
fn fence(line: &str) -> Option<(char, usize)> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|mark| ['`', '~'].contains(mark))?;
    let length = line.chars().take_while(|character| *character == mark).count();
    // Code within a line may begin and end with three backquotes.
    let is_fence = length >= 3 && !(mark == '`' && line[length..].contains('`'));
    is_fence.then_some((mark, length))
}

/// Splits a page into its blocks and the lines between them.
fn split_parts(page: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut lines = page.split_inclusive('\n').enumerate();
    let mut start = 0;
    while let Some((index, line)) = lines.next() {
        let mut end = start + line.len();
        let Some((mark, length)) = fence(line) else {
            parts.push(Part::Text(line));
            start = end;
            continue;
        };
        let indentation = line.len() - line.trim_start().len();
        let info = line.trim().trim_start_matches(mark).trim();
        let mut block = Block { line: index + 1, info, code: String::new(), is_closed: false };
        for (_, line) in lines.by_ref() {
            end += line.len();
            let closes = fence(line).is_some_and(|(other, count)| other == mark && count >= length);
            if closes && line.trim().trim_start_matches(mark).is_empty() {
                block.is_closed = true;
                break;
            }
            let leading_spaces = line.len() - line.trim_start_matches(' ').len();
            block.code.push_str(&line[leading_spaces.min(indentation)..]);
        }
        parts.push(Part::Block(block, &page[start..end]));
        start = end;
    }
    parts
}

/// Returns the fenced blocks of a page.
pub(crate) fn blocks(page: &str) -> Vec<Block<'_>> {
    let block = |part| match part {
        Part::Block(block, _) => Some(block),
        Part::Text(_) => None,
    };
    split_parts(page).into_iter().filter_map(block).collect()
}

/// Returns the page with its code replaced by the same number of spaces, so that positions stay the same.
fn without_code(page: &str) -> String {
    let text = |part| match part {
        Part::Block(_, source) => spaces(source),
        Part::Text(line) => line.to_owned(),
    };
    without_code_spans(&split_parts(page).into_iter().map(text).collect::<String>())
}

/// Returns the text with the code within its paragraphs replaced by the same number of spaces.
fn without_code_spans(text: &str) -> String {
    let mut plain = String::new();
    let mut remaining = text;
    while let Some(start) = remaining.find('`') {
        let marks =
            &remaining[start..start + remaining[start..].len() - remaining[start..].trim_start_matches('`').len()];
        let (before, code) = remaining.split_at(start);
        plain.push_str(before);
        let end = closing_marks(code, marks.len()).unwrap_or(marks.len());
        plain.push_str(&spaces(&code[..end]));
        remaining = &code[end..];
    }
    plain.push_str(remaining);
    plain
}

/// Returns the end of the code that begins with a number of backquotes. A paragraph without its closing marks has none.
fn closing_marks(code: &str, length: usize) -> Option<usize> {
    let paragraph = code.find("\n\n").unwrap_or(code.len());
    let mut at = length;
    while let Some(found) = code.get(at..paragraph)?.find('`') {
        let start = at + found;
        let count = code[start..].chars().take_while(|character| *character == '`').count();
        if count == length {
            return Some(start + count);
        }
        at = start + count;
    }
    None
}

/// Returns one space for each byte of the text. Line breaks stay.
fn spaces(text: &str) -> String {
    text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
}

/// Returns the links and pictures of a page, except in code.
pub(crate) fn links(page: &str) -> Vec<Link<'_>> {
    let text = without_code(page);
    let mut links = Vec::new();
    for (middle, _) in text.match_indices("](") {
        let start = middle + "](".len();
        let end = text[start..].find([')', ' ', '\n']).map_or(text.len(), |length| start + length);
        let line = text[..start].matches('\n').count() + 1;
        links.push(Link { line, target: &page[start..end], place: start..end });
    }
    links
}

/// Returns the page with each target of a link replaced by the result of a function; `None` leaves it unchanged.
pub(crate) fn replace_links(page: &str, mut replace: impl FnMut(&str) -> Option<String>) -> String {
    let mut replaced = String::new();
    let mut end = 0;
    for link in links(page) {
        replaced.push_str(&page[end..link.place.start]);
        replaced.push_str(&replace(link.target).unwrap_or_else(|| link.target.to_owned()));
        end = link.place.end;
    }
    replaced.push_str(&page[end..]);
    replaced
}

/// Returns the anchors of the headings, as git hosts and mdBook name them.
pub(crate) fn anchors(page: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut numbered = |heading: String| {
        let is_part = |character: &char| character.is_alphanumeric() || ['-', '_', ' '].contains(character);
        let anchor: String = heading.to_lowercase().chars().filter(is_part).collect();
        let anchor = anchor.replace(' ', "-");
        let count = counts.entry(anchor.clone()).or_default();
        *count += 1;
        if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
    };
    headings(page).map(&mut numbered).collect()
}

/// Returns the texts of the headings, without marks.
fn headings(page: &str) -> impl Iterator<Item = String> {
    let text = |part| match part {
        Part::Text(line) => Some(line),
        Part::Block(..) => None,
    };
    let lines = split_parts(page).into_iter().filter_map(text);
    lines.filter_map(|line| {
        let heading = line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'))?;
        Some(plain_text(heading.trim()).replace(['`', '*'], ""))
    })
}

/// Returns the first sentence of the first paragraph. `None` if the page has no paragraph.
pub(crate) fn first_sentence(page: &str) -> Option<String> {
    let is_prose = |paragraph: &&str| {
        let first = paragraph.trim_start().chars().next();
        first.is_some_and(|character| character.is_alphanumeric() || ['`', '*', '['].contains(&character))
    };
    let texts: String = split_parts(page)
        .into_iter()
        .map(|part| match part {
            Part::Text(line) => line,
            Part::Block(..) => "\n",
        })
        .collect();
    let paragraph = texts.split("\n\n").find(is_prose)?;
    let text = plain_text(paragraph).split_whitespace().collect::<Vec<_>>().join(" ");
    let end = text.find(". ").map_or(text.len(), |dot| dot + 1);
    Some(text[..end].trim_end_matches(':').to_owned())
}

/// Returns text with the labels of links in the place of the links.
fn plain_text(text: &str) -> String {
    let mut plain = String::new();
    let mut remaining = text;
    while let Some((before, link)) = remaining.split_once('[') {
        let Some((label, (_, after))) =
            link.split_once("](").and_then(|(label, target)| Some((label, target.split_once(')')?)))
        else {
            break;
        };
        plain.push_str(before);
        plain.push_str(label);
        remaining = after;
    }
    plain.push_str(remaining);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A `page` of [notes](a.md)\n\nIt has [a\nlink](b.md#c). It has `[no](link)`.\n\n\
                        - a list:\n\n  ```json fragment\n  \"a\": [1](2)\n    \"b\"\n  ```\n\n## A page\n## A page\n";

    #[test]
    fn block_in_a_list_loses_the_indentation_of_its_fence() {
        let code = "\"a\": [1](2)\n  \"b\"\n".to_owned();
        assert_eq!(blocks(PAGE), [Block { line: 8, info: "json fragment", code, is_closed: true }]);
        assert!(!blocks("```sh\nls\n").iter().any(|block| block.is_closed));
        assert_eq!(blocks("````markdown\n```sh\nls\n```\n````\n")[0].code, "```sh\nls\n```\n");
        assert_eq!(blocks("```` ``` ```` is a fence\n"), []);
    }

    #[test]
    fn link_in_code_is_ignored() {
        let targets: Vec<(usize, &str)> = links(PAGE).iter().map(|link| (link.line, link.target)).collect();
        assert_eq!(targets, [(1, "a.md"), (4, "b.md#c")]);
        let replaced = replace_links(PAGE, |target| (target == "a.md").then(|| "x.md".to_owned()));
        assert_eq!(replaced, PAGE.replace("a.md", "x.md"));
    }

    #[test]
    fn single_backquote_does_not_hide_a_link() {
        assert_eq!(links("a ` b [c](d.md)\n\ne ` f\n").len(), 1);
        assert_eq!(links("an ö in `code ö` and [c](d.md)").len(), 1);
    }

    #[test]
    fn repeated_heading_has_a_numbered_anchor() {
        assert_eq!(anchors(PAGE).into_iter().collect::<Vec<_>>(), ["a-page", "a-page-1", "a-page-of-notes"]);
    }

    #[test]
    fn first_sentence_is_from_the_first_paragraph() {
        assert_eq!(first_sentence(PAGE).unwrap(), "It has a link.");
        let page = "# Title\n\n![A picture](a.png)\n\n```sh\nls -l. And\n```\n\n- one\n\nVersion 1.2 ends:\n";
        assert_eq!(first_sentence(page).unwrap(), "Version 1.2 ends");
        assert_eq!(first_sentence("# Title\n"), None);
    }
}
