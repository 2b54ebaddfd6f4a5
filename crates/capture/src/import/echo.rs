//! Search for typed text in the output: at the place where a terminal echoes it, and nowhere else.
//!
//! A text without an echo, or with only a part of one, is a secret. The same text further on in the output may be
//! another one.

use super::asks_for_secret;

/// Maximum characters at the beginning of a text for a full-screen program that may be commands, which have no echo.
const MAX_COMMANDS: usize = 2;

/// Commands of full-screen programs that are often repeated.
const REPEATED: &str = "hjklnNuxpGdyg.<> ";

/// Maximum characters of commands before a text.
const MAX_COMMAND_CHARS: usize = 200;

/// Signs that a program shows in place of a secret.
pub(super) const MASKS: [char; 4] = ['*', '•', '●', '∗'];

/// Returns the line of a text that begins at a byte, without its first characters, and the byte behind it.
pub(super) fn rest_of_line(text: &str, begin: usize, column: usize) -> (&str, usize) {
    let line = text[begin..].split('\n').next().unwrap_or_default();
    let rest = line.char_indices().nth(column).map_or("", |(at, _)| &line[at..]);
    (rest, begin + line.len())
}

/// Returns whether a line is the typed text, or begins with it as a whole.
pub(super) fn stands_in(line: &str, typed: &str) -> bool {
    let behind = line.strip_prefix(typed).or_else(|| line.strip_prefix(typed.trim_end()));
    behind.is_some_and(|rest| !rest.starts_with(|sign: char| sign.is_alphanumeric() || MASKS.contains(&sign)))
}

/// Returns whether a line has all pieces of the typed text, in their order.
pub(super) fn has_pieces(line: &str, pieces: &[String]) -> bool {
    let mut rest = line;
    pieces.iter().all(|piece| {
        let found = rest.find(piece.as_str());
        found.map(|at| rest = &rest[at + piece.len()..]).is_some()
    })
}

/// Returns the byte behind a line typed at once with others before it: it stands at `from`, or in a later line behind
/// the same row as they do.
pub(super) fn end_of_pasted(text: &str, from: usize, end: usize, row: &str, typed: &str) -> Option<usize> {
    let (line, behind) = rest_of_line(text, from, 0);
    if stands_in(line, typed) {
        return Some(behind);
    }
    let mut at = from;
    for line in text.get(from..end)?.split('\n') {
        let is_echo = !row.trim().is_empty() && line.strip_prefix(row).is_some_and(|rest| stands_in(rest, typed));
        if is_echo {
            return Some(at + line.len());
        }
        at += line.len() + 1;
    }
    None
}

/// Returns whether a full-screen program shows a text typed into it, but for a few commands before it. `drawn` is the
/// text that the program drew before the next input.
pub(super) fn is_on_screen(typed: &str, before: &str, after: &str, drawn: &str) -> bool {
    let masks = |text: &str| text.matches(MASKS).count();
    let is_masked = masks(after) > masks(before) + masks(typed) || masks(drawn) > masks(typed);
    if is_masked || asks_for_secret(before) {
        return false;
    }
    let is_new = |part: &str| after.matches(part).count() > before.matches(part).count();
    let is_shown = |part: &str| is_new(part) || part.len() > 1 && drawn.contains(part);
    let is_changed = after.trim() != before.trim();
    let ends = typed.char_indices().map(|(at, _)| at).chain([typed.len()]);
    ends.take(MAX_COMMAND_CHARS).any(|end| {
        let (commands, text) = typed.split_at(end);
        let is_text = text.is_empty() || is_shown(text) && (end == 0 || text.chars().count() > 1);
        let single = single_commands(commands);
        is_text && (single <= 1 || single <= MAX_COMMANDS && is_changed)
    })
}

/// Returns the number of characters of unrepeated commands.
fn single_commands(commands: &str) -> usize {
    let (mut count, mut rest) = (0, commands);
    while let Some(sign) = rest.chars().next() {
        let behind = rest.trim_start_matches(sign);
        let repeated = (rest.len() - behind.len()) / sign.len_utf8();
        count += if repeated > 1 && REPEATED.contains(sign) { 0 } else { repeated };
        rest = behind;
    }
    count
}
