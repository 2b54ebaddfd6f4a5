//! The reader of Claude Code's panes.
//!
//! Answers and uses of tools begin with a bullet (`●`, `⏺`), results of tools with `⎿`, thoughts with `✻ Thinking…`,
//! typed input with `>`. While it works, a line ends in `esc to interrupt)`; otherwise there is a prompt in a frame.

use super::frame::{Block, blocks, is_rule, is_selection};
use super::{PaneMatch, Reading, SectionKind};

pub(super) fn read(pane: &str) -> Reading {
    let mut found = PaneMatch::default();
    let (mut prompts, mut busy, mut asked) = (false, false, false);
    let blocks = blocks(pane);
    let open_question = open_question(&blocks);
    for (index, block) in blocks.iter().enumerate() {
        match block {
            Block::Framed(lines) if is_selection(lines) => {
                asked = true;
                found.begin(SectionKind::Question, lines.join("\n").trim());
                found.close();
            }
            Block::Framed(lines) if is_prompt(lines) => {
                found.close();
                prompts = true;
            }
            // A greeting, or a message of the program itself.
            Block::Framed(_) => found.close(),
            Block::Line(line) if open_question.is_some_and(|begin| index >= begin) => {
                asked = true;
                match found.kind() {
                    Some(SectionKind::Question) => found.line(line),
                    _ => found.begin(SectionKind::Question, line.trim()),
                }
            }
            Block::Line(line) => {
                if is_busy(line) {
                    busy = true;
                    found.begin(SectionKind::Status, line.trim());
                    found.close();
                } else if prompts && !line.trim().is_empty() {
                    // Hints below the prompt.
                    found.close();
                } else {
                    read_line(line, &mut found);
                }
            }
        }
    }
    found.finish(prompts && !busy && !asked)
}

fn read_line(line: &str, found: &mut PaneMatch) {
    let outer = !line.starts_with("  ");
    let trimmed = line.trim_start();
    if is_rule(line) {
        found.close();
    } else if let Some(text) = after(trimmed, &['●', '⏺']).filter(|_| outer) {
        let kind = if is_tool(text) { SectionKind::ToolCall } else { SectionKind::Text };
        found.begin(kind, text);
    } else if let Some(text) = after(trimmed, &['⎿']) {
        found.begin(SectionKind::ToolResult, text);
    } else if let Some(text) = after(trimmed, &['✻', '✽', '∴']).filter(|_| outer) {
        found.begin(SectionKind::Thinking, text);
    } else if let Some(text) = after(trimmed, &['>', '❯']).filter(|_| outer) {
        found.begin(SectionKind::Input, text);
    } else {
        found.line(line);
    }
}

fn after<'l>(line: &'l str, signs: &[char]) -> Option<&'l str> {
    let rest = line.strip_prefix(signs)?;
    rest.strip_prefix([' ', '\u{a0}']).map(str::trim_start)
}

/// Returns whether a text is a tool with its arguments: `Read(src/lib.rs)`, `github - search (MCP)(…)`.
fn is_tool(text: &str) -> bool {
    let name = text.split('(').next().unwrap_or_default();
    let words = name.trim_end().split(' ').count();
    let is_name = name.chars().all(|character| character.is_alphanumeric() || "_-: .".contains(character));
    let capital = name.chars().next().is_some_and(char::is_uppercase);
    text.contains('(') && is_name && ((capital && words == 1) || text.contains("(MCP)"))
}

fn is_busy(line: &str) -> bool {
    line.contains("esc to interrupt") && !line.trim_start().starts_with(['●', '⏺', '⎿', '>'])
}

fn is_prompt(lines: &[&str]) -> bool {
    lines.first().is_some_and(|line| line.trim_start().starts_with(['>', '❯']))
}

/// Returns the beginning of a question without a frame at the end of a pane.
fn open_question(blocks: &[Block<'_>]) -> Option<usize> {
    let tail: Vec<(usize, &str)> = blocks
        .iter()
        .enumerate()
        .rev()
        .map_while(|(index, block)| match block {
            Block::Line(line) => Some((index, *line)),
            Block::Framed(_) => None,
        })
        .take(30)
        .collect();
    let (begin, _) = *tail.iter().find(|(_, line)| {
        let line = line.trim();
        line.starts_with("Do you want") || line.starts_with("Would you like")
    })?;
    let behind: Vec<&str> = tail.iter().filter(|(index, _)| *index >= begin).map(|(_, line)| *line).collect();
    // The subject of the question is above it, below a rule.
    let rule = tail.iter().find(|(index, line)| *index < begin && is_rule(line));
    is_selection(&behind).then_some(rule.map_or(begin, |(index, _)| index + 1))
}
