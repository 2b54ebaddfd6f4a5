//! Reader of shells' panes: lines that begin with a prompt, and the output below them.

use super::{Reading, SectionBuilder, SectionKind};

/// Reads a pane of a shell.
///
/// The last character identifies a prompt. A line with `%` or `#` counts only if the pane ends with a similar prompt,
/// because percentages and comments are common.
pub(super) fn read(pane: &str) -> Reading {
    let lines: Vec<&str> = pane.trim_end_matches(['\n', ' ']).lines().collect();
    let last = lines.last().copied().unwrap_or_default();
    let is_ready = split_prompt(last).is_some_and(|(_, command)| command.is_empty());
    let shape = split_prompt(last).filter(|_| is_ready).map(|(prompt, _)| PromptShape::from_prompt(prompt));
    let mut builder = SectionBuilder::default();
    for (index, line) in lines.iter().enumerate() {
        let typed = split_prompt(line).filter(|(prompt, _)| match shape {
            Some(shape) => PromptShape::from_prompt(prompt) == shape,
            None => prompt.trim_end().ends_with(['$', '❯', '➜']),
        });
        match typed {
            Some((_, "")) if index + 1 == lines.len() => builder.close_section(),
            Some((_, command)) => {
                builder.begin_section(SectionKind::Input, command);
                builder.close_section();
            }
            None => builder.add_line(line),
        }
    }
    builder.finish(is_ready)
}

/// Features of a prompt that stay the same while directories and branches change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PromptShape {
    sign: char,
    /// The first character, unless it is a letter, a digit, `~` or `/`.
    first: Option<char>,
    has_user: bool,
}

impl PromptShape {
    fn from_prompt(prompt: &str) -> Self {
        let sign = if prompt.starts_with(ARROW) { ARROW } else { prompt.trim_end().chars().last().unwrap_or_default() };
        let first = prompt.chars().next().filter(|first| !first.is_alphanumeric() && !matches!(first, '~' | '/'));
        Self { sign, first, has_user: prompt.contains('@') }
    }
}

/// First character of the prompts of the best-known zsh theme; other prompts end with a sign.
const ARROW: char = '➜';

/// Splits a line into a prompt and the text typed after it.
fn split_prompt(line: &str) -> Option<(&str, &str)> {
    const MAX_PROMPT_CHARS: usize = 160;
    if line.starts_with(ARROW) {
        return Some(line.split_at(arrow_prompt_length(line))).map(|(prompt, typed)| (prompt, typed.trim()));
    }
    let prompt_end = line.char_indices().take(MAX_PROMPT_CHARS).find_map(|(index, character)| {
        let end = index + character.len_utf8();
        let following = &line[end..];
        let is_sign = matches!(character, '$' | '#' | '%' | '❯' | '>');
        (is_sign && (following.is_empty() || following.starts_with(' ')) && is_prompt_like(&line[..index], character))
            .then_some(end)
    })?;
    Some((&line[..prompt_end], line[prompt_end..].trim()))
}

/// Returns the length of a prompt that begins with an arrow. A directory follows, and possibly a branch and a sign for
/// its changes.
fn arrow_prompt_length(line: &str) -> usize {
    let mut end = ARROW.len_utf8();
    for word_index in 0..3 {
        let following = &line[end..];
        let word_start = following.len() - following.trim_start_matches(' ').len();
        let word = following[word_start..].split(' ').next().unwrap_or_default();
        if word_index > 0 && !word.starts_with("git:(") && word != "✗" {
            break;
        }
        end += word_start + word.len();
    }
    end
}

/// Returns whether `before` can precede the final character of a prompt: nothing, a version, or a user in a directory.
fn is_prompt_like(before: &str, sign: char) -> bool {
    let before = before.trim_end();
    match sign {
        '❯' => true,
        // A percentage ends this way.
        '%' if before.ends_with(|last: char| last.is_ascii_digit()) => false,
        '>' => before.ends_with("fish") || before.contains('@') && (before.contains('~') || before.contains('/')),
        _ => {
            let has_version = |shell: &str| before.strip_prefix(shell).is_some_and(|rest| rest.starts_with('-'));
            before.is_empty()
                || has_version("bash")
                || has_version("sh")
                || before.contains('@')
                || before.starts_with(['~', '/', '['])
                || before.ends_with(['~', ']'])
        }
    }
}
