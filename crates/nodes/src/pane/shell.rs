//! Reader of shells' panes: lines that begin with a prompt, and the output below them.

use super::{PaneMatch, Reading, SectionKind};

/// Reads a pane of a shell.
///
/// The last character identifies a prompt. A line with `%` or `#` counts only if the pane ends with a similar prompt,
/// because percentages and comments are common.
pub(super) fn read(pane: &str) -> Reading {
    let lines: Vec<&str> = pane.trim_end_matches(['\n', ' ']).lines().collect();
    let last = lines.last().copied().unwrap_or_default();
    let is_ready = prompt(last).is_some_and(|(_, command)| command.is_empty());
    let shape = prompt(last).filter(|_| is_ready).map(|(prompt, _)| Shape::from_prompt(prompt));
    let mut found = PaneMatch::default();
    for (index, line) in lines.iter().enumerate() {
        let typed = prompt(line).filter(|(prompt, _)| match shape {
            Some(shape) => Shape::from_prompt(prompt) == shape,
            None => prompt.trim_end().ends_with(['$', '❯', '➜']),
        });
        match typed {
            Some((_, "")) if index + 1 == lines.len() => found.close(),
            Some((_, command)) => {
                found.begin(SectionKind::Input, command);
                found.close();
            }
            None => found.line(line),
        }
    }
    found.finish(is_ready)
}

/// Common part of the prompts of one shell while folders and branches change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    sign: char,
    /// The first character, where it is not a letter or a digit.
    first: Option<char>,
    names_somebody: bool,
}

impl Shape {
    fn from_prompt(prompt: &str) -> Self {
        let sign = if prompt.starts_with(ARROW) { ARROW } else { prompt.trim_end().chars().last().unwrap_or_default() };
        let first = prompt.chars().next().filter(|first| !first.is_alphanumeric() && !matches!(first, '~' | '/'));
        Self { sign, first, names_somebody: prompt.contains('@') }
    }
}

/// The sign that the best-known theme of zsh begins its prompts with, rather than ending them.
const ARROW: char = '➜';

/// Splits a line into a prompt and the text typed after it.
fn prompt(line: &str) -> Option<(&str, &str)> {
    const MAX_PROMPT_CHARS: usize = 160;
    if line.starts_with(ARROW) {
        return Some(line.split_at(arrow_prompt(line))).map(|(prompt, typed)| (prompt, typed.trim()));
    }
    let at = line.char_indices().take(MAX_PROMPT_CHARS).find_map(|(at, character)| {
        let end = at + character.len_utf8();
        let behind = &line[end..];
        let sign = matches!(character, '$' | '#' | '%' | '❯' | '>');
        (sign && (behind.is_empty() || behind.starts_with(' ')) && is_prompt_like(&line[..at], character))
            .then_some(end)
    })?;
    Some((&line[..at], line[at..].trim()))
}

/// Returns the length of a prompt that begins with its sigil: a folder follows, a branch perhaps, and perhaps that
/// there are changes on it.
fn arrow_prompt(line: &str) -> usize {
    let mut end = ARROW.len_utf8();
    for place in 0..3 {
        let rest = &line[end..];
        let begin = rest.len() - rest.trim_start_matches(' ').len();
        let word = rest[begin..].split(' ').next().unwrap_or_default();
        if place > 0 && !word.starts_with("git:(") && word != "✗" {
            break;
        }
        end += begin + word.len();
    }
    end
}

/// Returns whether a text can precede the final character of a prompt: nothing, a version, or a user in a directory.
fn is_prompt_like(before: &str, sign: char) -> bool {
    let before = before.trim_end();
    match sign {
        '❯' => true,
        // Percentages end this way.
        '%' if before.ends_with(|last: char| last.is_ascii_digit()) => false,
        '>' => before.ends_with("fish") || before.contains('@') && (before.contains('~') || before.contains('/')),
        _ => {
            let versioned = |shell: &str| before.strip_prefix(shell).is_some_and(|rest| rest.starts_with('-'));
            before.is_empty()
                || versioned("bash")
                || versioned("sh")
                || before.contains('@')
                || before.starts_with(['~', '/', '['])
                || before.ends_with(['~', ']'])
        }
    }
}
