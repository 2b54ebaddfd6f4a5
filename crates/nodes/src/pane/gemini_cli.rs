//! The reader of Gemini CLI's panes.
//!
//! Answers begin with `✦`, uses of tools are in frames that begin with the sign of their state, typed input begins with
//! `>`. While the program works, a line shows a spinner of dots; otherwise there is a prompt in a frame.

use super::frame::{Block, is_selection, split_blocks};
use super::{Reading, SectionBuilder, SectionKind};

/// Signs of a tool's state: done, running, waiting, asking, cancelled, failed.
const STATE_SIGNS: [char; 8] = ['✔', '✓', '⊷', '⊶', 'o', '?', '-', 'x'];

pub(super) fn read(pane: &str) -> Reading {
    let mut builder = SectionBuilder::default();
    let (mut has_prompt, mut is_working, mut has_question) = (false, false, false);
    for block in split_blocks(pane) {
        match block {
            Block::Framed(lines) if is_selection(&lines) => {
                has_question = true;
                builder.begin_section(SectionKind::Question, lines.join("\n").trim());
                builder.close_section();
            }
            Block::Framed(lines) if is_prompt(&lines) => {
                builder.close_section();
                has_prompt = true;
            }
            Block::Framed(lines) => read_tools(&lines, &mut builder),
            Block::Line(line) if is_busy(line) => {
                is_working = true;
                builder.begin_section(SectionKind::Status, line.trim());
                builder.close_section();
            }
            // The line below the prompt: directory, sandbox, model.
            Block::Line(_) if has_prompt => {}
            Block::Line(line) => read_line(line, &mut builder),
        }
    }
    builder.finish(has_prompt && !is_working && !has_question)
}

fn read_line(line: &str, builder: &mut SectionBuilder) {
    let trimmed = line.trim_start();
    let indent = line.len() - trimmed.len();
    if let Some(text) = trimmed.strip_prefix("✦ ") {
        builder.begin_section(SectionKind::Text, text);
    } else if let Some(text) = trimmed.strip_prefix("> ").filter(|_| indent <= 1) {
        builder.begin_section(SectionKind::Input, text);
    } else {
        builder.add_line(line);
    }
}

/// Adds a frame with uses of tools, each with its result below. Other frames belong to the program itself.
fn read_tools(lines: &[&str], builder: &mut SectionBuilder) {
    builder.close_section();
    let mut in_tool = false;
    for line in lines {
        let trimmed = line.trim_start();
        let state = trimmed.chars().next().filter(|first| STATE_SIGNS.contains(first));
        let name = state.and_then(|state| trimmed[state.len_utf8()..].strip_prefix("  "));
        match name.map(str::trim) {
            Some(name) if name.starts_with(|first: char| first.is_uppercase()) => {
                builder.begin_section(SectionKind::ToolCall, name);
                builder.close_section();
                in_tool = true;
            }
            _ if in_tool && builder.open_kind().is_none() && !trimmed.is_empty() => {
                builder.begin_section(SectionKind::ToolResult, trimmed);
            }
            _ if in_tool && builder.open_kind().is_some() => builder.add_line(line),
            _ => {}
        }
    }
    builder.close_section();
}

/// Returns whether a line reports current work: it begins with a spinner of dots.
fn is_busy(line: &str) -> bool {
    line.contains("(esc to cancel") || line.trim_start().starts_with(|first| ('\u{2801}'..='\u{28ff}').contains(&first))
}

fn is_prompt(lines: &[&str]) -> bool {
    lines.first().is_some_and(|line| line.trim_start().starts_with(['>', '!', '*']))
}
