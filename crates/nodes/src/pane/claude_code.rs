//! The reader of Claude Code's panes.
//!
//! Answers and tool uses begin with a bullet (`●`, `⏺`), results of tools with `⎿`, thoughts with `✻ Thinking…`, typed
//! input with `>`. While the program works, a line ends in `esc to interrupt)`; otherwise there is a prompt in a frame.

use super::frame::{Block, is_rule, is_selection, split_blocks};
use super::{Reading, SectionBuilder, SectionKind};

pub(super) fn read(pane: &str) -> Reading {
    let mut builder = SectionBuilder::default();
    let (mut has_prompt, mut is_working, mut has_question) = (false, false, false);
    let blocks = split_blocks(pane);
    let open_question = open_question(&blocks);
    for (index, block) in blocks.iter().enumerate() {
        match block {
            Block::Framed(lines) if is_selection(lines) => {
                has_question = true;
                builder.begin_section(SectionKind::Question, lines.join("\n").trim());
                builder.close_section();
            }
            Block::Framed(lines) if is_prompt(lines) => {
                builder.close_section();
                has_prompt = true;
            }
            // A greeting, or a message of the program itself.
            Block::Framed(_) => builder.close_section(),
            Block::Line(line) if open_question.is_some_and(|begin| index >= begin) => {
                has_question = true;
                match builder.open_kind() {
                    Some(SectionKind::Question) => builder.add_line(line),
                    _ => builder.begin_section(SectionKind::Question, line.trim()),
                }
            }
            Block::Line(line) => {
                if is_busy(line) {
                    is_working = true;
                    builder.begin_section(SectionKind::Status, line.trim());
                    builder.close_section();
                } else if has_prompt && !line.trim().is_empty() {
                    // Hints below the prompt.
                    builder.close_section();
                } else {
                    read_line(line, &mut builder);
                }
            }
        }
    }
    builder.finish(has_prompt && !is_working && !has_question)
}

fn read_line(line: &str, builder: &mut SectionBuilder) {
    let is_unindented = !line.starts_with("  ");
    let trimmed = line.trim_start();
    if is_rule(line) {
        builder.close_section();
    } else if let Some(text) = strip_sign(trimmed, &['●', '⏺']).filter(|_| is_unindented) {
        let kind = if is_tool(text) { SectionKind::ToolCall } else { SectionKind::Text };
        builder.begin_section(kind, text);
    } else if let Some(text) = strip_sign(trimmed, &['⎿']) {
        builder.begin_section(SectionKind::ToolResult, text);
    } else if let Some(text) = strip_sign(trimmed, &['✻', '✽', '∴']).filter(|_| is_unindented) {
        builder.begin_section(SectionKind::Thinking, text);
    } else if let Some(text) = strip_sign(trimmed, &['>', '❯']).filter(|_| is_unindented) {
        builder.begin_section(SectionKind::Input, text);
    } else {
        builder.add_line(line);
    }
}

fn strip_sign<'l>(line: &'l str, signs: &[char]) -> Option<&'l str> {
    let following = line.strip_prefix(signs)?;
    following.strip_prefix([' ', '\u{a0}']).map(str::trim_start)
}

/// Returns whether `text` is a tool with its arguments: `Read(src/lib.rs)`, `github - search (MCP)(…)`.
fn is_tool(text: &str) -> bool {
    let name = text.split('(').next().unwrap_or_default();
    let words = name.trim_end().split(' ').count();
    let is_name = name.chars().all(|character| character.is_alphanumeric() || "_-: .".contains(character));
    let is_capitalized = name.chars().next().is_some_and(char::is_uppercase);
    text.contains('(') && is_name && ((is_capitalized && words == 1) || text.contains("(MCP)"))
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
    let (question_start, _) = *tail.iter().find(|(_, line)| {
        let line = line.trim();
        line.starts_with("Do you want") || line.starts_with("Would you like")
    })?;
    let question_lines: Vec<&str> =
        tail.iter().filter(|(index, _)| *index >= question_start).map(|(_, line)| *line).collect();
    // The subject of the question is above it, below a rule.
    let rule = tail.iter().find(|(index, line)| *index < question_start && is_rule(line));
    is_selection(&question_lines).then_some(rule.map_or(question_start, |(index, _)| index + 1))
}
