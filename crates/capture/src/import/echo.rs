//! Whether what was typed stands in the output: at the place where a terminal echoes it, and nowhere else.
//!
//! A text that is not found, or only in part, is a secret. The same text further on in the output may be another one.

use super::asks_for_secret;

/// The most characters at the beginning of a text for a full-screen program that may be commands, which are not shown.
const MOST_COMMANDS: usize = 2;

/// Commands of full-screen programs that are often repeated.
const REPEATED: &str = "hjklnNuxpGdyg.<> ";

/// The most bytes of commands before a text.
const LONGEST_COMMANDS: usize = 200;

/// Signs that a program shows in place of a secret.
pub(super) const MASKS: [char; 4] = ['*', '•', '●', '∗'];

/// Returns the line of a text that begins at a byte, without its first characters, and the byte behind it.
pub(super) fn rest_of_line(text: &str, begin: usize, column: usize) -> (&str, usize) {
    let line = text[begin..].split('\n').next().unwrap_or_default();
    let rest = line.char_indices().nth(column).map_or("", |(at, _)| &line[at..]);
    (rest, begin + line.len())
}

/// Whether a line is what was typed, or begins with it as a whole.
pub(super) fn stands_in(line: &str, typed: &str) -> bool {
    let behind = line.strip_prefix(typed).or_else(|| line.strip_prefix(typed.trim_end()));
    behind.is_some_and(|rest| !rest.starts_with(|sign: char| sign.is_alphanumeric() || MASKS.contains(&sign)))
}

/// Whether a line has all pieces of what was typed, in their order.
pub(super) fn has_pieces(line: &str, pieces: &[String]) -> bool {
    let mut rest = line;
    pieces.iter().all(|piece| {
        let found = rest.find(piece.as_str());
        found.map(|at| rest = &rest[at + piece.len()..]).is_some()
    })
}

/// Returns the byte behind a line that was typed at once with others before it: it stands at `from`, or in a later line behind
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

/// Whether a text for a full-screen program is shown by it, but for a few commands before it. `drawn` is what the program drew before
/// the next input.
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
    ends.take(LONGEST_COMMANDS).any(|end| {
        let (commands, text) = typed.split_at(end);
        let is_text = text.is_empty() || is_shown(text) && (end == 0 || text.chars().count() > 1);
        let single = single_commands(commands);
        is_text && (single <= 1 || single <= MOST_COMMANDS && is_changed)
    })
}

/// Returns how many characters of commands are none that are repeated.
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
