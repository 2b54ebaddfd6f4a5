//! The frames that programs draw around prompts and questions.

/// A line of a pane, or a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Block<'p> {
    /// A line outside all frames.
    Line(&'p str),
    /// The lines inside a frame, without its sides.
    Framed(Vec<&'p str>),
}

/// Splits a pane at its frames: boxes with corners, and pairs of rules across the pane.
pub(super) fn split_blocks(pane: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let lines: Vec<&str> = pane.lines().collect();
    let mut index = 0;
    while index < lines.len() {
        let end = if is_top(lines[index]) {
            lines[index + 1..].iter().position(|line| is_bottom(line) || is_top(line)).map(|offset| index + 1 + offset)
        } else {
            None
        };
        let inside = end.filter(|end| is_bottom(lines[*end])).map(|end| (end, &lines[index + 1..end]));
        match inside {
            Some((end, inside)) if inside.iter().all(|line| strip_sides(line).is_some()) => {
                blocks.push(Block::Framed(inside.iter().filter_map(|line| strip_sides(line)).collect()));
                index = end + 1;
            }
            _ => {
                let prompt_lines = ruled_prompt_lines(&lines[index..]);
                if prompt_lines > 0 {
                    blocks.push(Block::Framed(lines[index + 1..=index + prompt_lines].to_vec()));
                    index += prompt_lines + 2;
                } else {
                    blocks.push(Block::Line(lines[index]));
                    index += 1;
                }
            }
        }
    }
    blocks
}

/// Maximum number of lines between two rules that count as a prompt.
const MAX_PROMPT_LINES: usize = 40;

/// Returns the number of lines between a rule in the first line and the next rule, if they are a prompt; else 0.
fn ruled_prompt_lines(lines: &[&str]) -> usize {
    if !lines.first().is_some_and(|line| is_rule(line)) {
        return 0;
    }
    let prompt_lines = lines[1..].iter().take(MAX_PROMPT_LINES + 1).position(|line| is_rule(line)).unwrap_or(0);
    let is_prompt = lines.get(1).is_some_and(|line| line.trim_start().starts_with(['>', '❯']));
    if is_prompt { prompt_lines } else { 0 }
}

fn is_top(line: &str) -> bool {
    let line = line.trim();
    (line.starts_with('╭') && line.ends_with('╮')) || (line.starts_with('┌') && line.ends_with('┐'))
}

fn is_bottom(line: &str) -> bool {
    let line = line.trim();
    (line.starts_with('╰') && line.ends_with('╯')) || (line.starts_with('└') && line.ends_with('┘'))
}

/// Returns whether a line is a horizontal rule across the pane.
pub(super) fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.chars().count() >= 10 && line.chars().all(|character| matches!(character, '─' | '━' | '▀' | '▄'))
}

fn strip_sides(line: &str) -> Option<&str> {
    let line = line.trim();
    let inside = line.strip_prefix('│')?.strip_suffix('│')?;
    Some(inside.strip_prefix(' ').unwrap_or(inside).trim_end())
}

/// Returns whether the lines are a menu: numbered entries, one of them marked.
pub(super) fn is_selection(lines: &[&str]) -> bool {
    let is_numbered = |line: &&&str| {
        let line = line.trim_start_matches(['❯', '●', '>', ' ']);
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        (1..=2).contains(&digits) && line[digits..].starts_with(". ")
    };
    let is_marked = |line: &&str| line.trim_start().starts_with(['❯', '●', '>']) && is_numbered(&line);
    lines.iter().filter(is_numbered).count() >= 2 && lines.iter().any(is_marked)
}
