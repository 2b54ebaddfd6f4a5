//! The reader of Gemini CLI's panes.
//!
//! Answers begin with `✦`, uses of tools are in frames that begin with the sign of their state, typed input begins with
//! `>`. While it works, a spinner of dots turns in a line; otherwise there is a prompt in a frame.

use super::frame::{Block, blocks, is_selection};
use super::{PaneMatch, Reading, SectionKind};

/// The signs of a tool's state: done, at it, waiting, asking, cancelled, failed.
const STATES: [char; 8] = ['✔', '✓', '⊷', '⊶', 'o', '?', '-', 'x'];

pub(super) fn read(pane: &str) -> Reading {
    let mut found = PaneMatch::default();
    let (mut prompts, mut busy, mut asked) = (false, false, false);
    for block in blocks(pane) {
        match block {
            Block::Framed(lines) if is_selection(&lines) => {
                asked = true;
                found.begin(SectionKind::Question, lines.join("\n").trim());
                found.close();
            }
            Block::Framed(lines) if is_prompt(&lines) => {
                found.close();
                prompts = true;
            }
            Block::Framed(lines) => tools(&lines, &mut found),
            Block::Line(line) if is_busy(line) => {
                busy = true;
                found.begin(SectionKind::Status, line.trim());
                found.close();
            }
            // The line below the prompt: folder, sandbox, model.
            Block::Line(_) if prompts => {}
            Block::Line(line) => read_line(line, &mut found),
        }
    }
    found.finish(prompts && !busy && !asked)
}

fn read_line(line: &str, found: &mut PaneMatch) {
    let trimmed = line.trim_start();
    let indent = line.len() - trimmed.len();
    if let Some(text) = trimmed.strip_prefix("✦ ") {
        found.begin(SectionKind::Text, text);
    } else if let Some(text) = trimmed.strip_prefix("> ").filter(|_| indent <= 1) {
        found.begin(SectionKind::Input, text);
    } else {
        found.line(line);
    }
}

/// Adds a frame with uses of tools, each with its result below. Other frames belong to the program itself.
fn tools(lines: &[&str], found: &mut PaneMatch) {
    found.close();
    let mut in_tool = false;
    for line in lines {
        let trimmed = line.trim_start();
        let state = trimmed.chars().next().filter(|first| STATES.contains(first));
        let name = state.and_then(|state| trimmed[state.len_utf8()..].strip_prefix("  "));
        match name.map(str::trim) {
            Some(name) if name.starts_with(|first: char| first.is_uppercase()) => {
                found.begin(SectionKind::ToolCall, name);
                found.close();
                in_tool = true;
            }
            _ if in_tool && found.kind().is_none() && !trimmed.is_empty() => {
                found.begin(SectionKind::ToolResult, trimmed);
            }
            _ if in_tool && found.kind().is_some() => found.line(line),
            _ => {}
        }
    }
    found.close();
}

/// Returns whether a line reports current work: it begins with a spinner of dots.
fn is_busy(line: &str) -> bool {
    line.contains("(esc to cancel") || line.trim_start().starts_with(|first| ('\u{2801}'..='\u{28ff}').contains(&first))
}

fn is_prompt(lines: &[&str]) -> bool {
    lines.first().is_some_and(|line| line.trim_start().starts_with(['>', '!', '*']))
}
