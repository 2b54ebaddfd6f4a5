//! Search for the echo of typed text, only at the position where a terminal prints it.
//!
//! A text without a complete echo is a secret. An equal text later in the output may have another origin.

use super::requests_secret;

/// Maximum number of single-key commands before a text. Commands of a full-screen program have no echo.
const MAX_SINGLE_COMMANDS: usize = 2;

/// Commands of full-screen programs that are often repeated.
const REPEATABLE_COMMANDS: &str = "hjklnNuxpGdyg.<> ";

/// Maximum number of characters of commands before text.
const MAX_COMMAND_CHARS: usize = 200;

/// Characters that a program shows in place of a secret.
pub(super) const MASKS: [char; 4] = ['*', '•', '●', '∗'];

/// Returns the line at a byte index without its first `column` characters, and the index of its end.
pub(super) fn rest_of_line(text: &str, begin: usize, column: usize) -> (&str, usize) {
    let line = text[begin..].split('\n').next().unwrap_or_default();
    let rest = line.char_indices().nth(column).map_or("", |(start, _)| &line[start..]);
    (rest, begin + line.len())
}

/// Returns whether a line begins with the typed text as separate words.
pub(super) fn is_echo(line: &str, typed: &str) -> bool {
    let after = line.strip_prefix(typed).or_else(|| line.strip_prefix(typed.trim_end()));
    after.is_some_and(|rest| {
        !rest.starts_with(|character: char| character.is_alphanumeric() || MASKS.contains(&character))
    })
}

/// Returns whether a line contains all pieces of the typed text in order.
pub(super) fn has_pieces(line: &str, pieces: &[String]) -> bool {
    let mut rest = line;
    pieces.iter().all(|piece| {
        let start = rest.find(piece.as_str());
        start.map(|start| rest = &rest[start + piece.len()..]).is_some()
    })
}

/// Returns the index after the echo of a line that was pasted together with earlier lines: at `from`, or in a later
/// line after the same row.
pub(super) fn end_of_pasted_echo(text: &str, from: usize, end: usize, row: &str, typed: &str) -> Option<usize> {
    let (line, line_end) = rest_of_line(text, from, 0);
    if is_echo(line, typed) {
        return Some(line_end);
    }
    let mut index = from;
    for line in text.get(from..end)?.split('\n') {
        let has_echo = !row.trim().is_empty() && line.strip_prefix(row).is_some_and(|rest| is_echo(rest, typed));
        if has_echo {
            return Some(index + line.len());
        }
        index += line.len() + 1;
    }
    None
}

/// Returns whether a full-screen program shows a typed text, except for a few commands before the text. `drawn` is
/// the text that the program drew before the next input.
pub(super) fn is_on_screen(typed: &str, before: &str, after: &str, drawn: &str) -> bool {
    let masks = |text: &str| text.matches(MASKS).count();
    let is_masked = masks(after) > masks(before) + masks(typed) || masks(drawn) > masks(typed);
    if is_masked || requests_secret(before) {
        return false;
    }
    let is_new = |part: &str| after.matches(part).count() > before.matches(part).count();
    let is_shown = |part: &str| is_new(part) || part.len() > 1 && drawn.contains(part);
    let is_changed = after.trim() != before.trim();
    let ends = typed.char_indices().map(|(start, _)| start).chain([typed.len()]);
    ends.take(MAX_COMMAND_CHARS).any(|end| {
        let (commands, text) = typed.split_at(end);
        let is_text = text.is_empty() || is_shown(text) && (end == 0 || text.chars().count() > 1);
        let single_count = count_single_commands(commands);
        is_text && (single_count <= 1 || single_count <= MAX_SINGLE_COMMANDS && is_changed)
    })
}

/// Returns the number of commands that are not repetitions.
fn count_single_commands(commands: &str) -> usize {
    let (mut count, mut rest) = (0, commands);
    while let Some(character) = rest.chars().next() {
        let after = rest.trim_start_matches(character);
        let run_length = (rest.len() - after.len()) / character.len_utf8();
        count += if run_length > 1 && REPEATABLE_COMMANDS.contains(character) { 0 } else { run_length };
        rest = after;
    }
    count
}
