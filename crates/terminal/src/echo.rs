//! Finds the parts of the output that only echo the input.
//!
//! A user who types `password` must not satisfy a wait for `password`. Where the shell integration marks the command
//! line, the marks show the echo. Elsewhere this module recognises it: output that follows an input and repeats it
//! character by character, line by line. A line is treated as an echo once it is complete; text that differs from the
//! input is output.

use std::collections::VecDeque;
use std::ops::Range;

/// Follows the output and finds the echo of typed text.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    /// Complete echoes, oldest first.
    confirmed: VecDeque<Range<u64>>,
    awaited: Option<AwaitedEcho>,
}

#[derive(Debug)]
struct AwaitedEcho {
    /// Lines without a complete echo, including their line ends. The first line is in progress.
    lines: VecDeque<String>,
    /// Number of echoed bytes of the first line.
    matched_bytes: usize,
    /// Offset of their echo.
    start: u64,
    /// Number of spaces after the echoed text of the first line.
    spaces: usize,
}

/// The result of following more output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FollowResult {
    /// Earlier results are still valid.
    Nothing,
    /// The text starting at this offset is output, although an earlier result treated it as an echo.
    Withdrawn(u64),
}

/// Maximum number of remembered echoes. No wait searches further back.
const MAX_CONFIRMED: usize = 64;

/// Maximum length of an input whose echo is recognised, in bytes.
const MAX_FOLLOWED_BYTES: usize = 16 * 1024;

impl Echo {
    /// Records the text to type next, while the output ends at `offset`.
    pub(crate) fn expect(&mut self, text: &str, offset: u64) {
        // The effect of a control character on the line is unknown, so follow only the text before it.
        let is_control = |character: char| character.is_control() && !matches!(character, '\n' | '\r');
        let plain = text.trim_start_matches(is_control).split(is_control).next().unwrap_or_default();
        let unified = plain.replace("\r\n", "\n").replace('\r', "\n");
        let lines: VecDeque<String> = unified.split_inclusive('\n').map(str::to_owned).collect();
        self.awaited = (!lines.is_empty() && unified.len() <= MAX_FOLLOWED_BYTES).then_some(AwaitedEcho {
            lines,
            matched_bytes: 0,
            start: offset,
            spaces: 0,
        });
    }

    /// Follows output: `text` begins at `offset`.
    pub(crate) fn follow(&mut self, offset: u64, text: &str) -> FollowResult {
        let mut position = offset;
        for character in text.chars() {
            let Some(awaited) = &mut self.awaited else { return FollowResult::Nothing };
            let line = &awaited.lines[0];
            let expected = line[awaited.matched_bytes..].chars().next();
            if awaited.matched_bytes == 0 {
                awaited.start = position;
            }
            position += character.len_utf8() as u64;
            match character {
                // Programs that wrap lines insert carriage returns, and a progress bar may precede the echo.
                '\r' => continue,
                // After a full row, line editors draw a space, and then the last character again.
                ' ' if expected == Some('\n') => {
                    awaited.spaces += 1;
                    continue;
                }
                '\x08' if awaited.spaces > 0 => {
                    awaited.spaces -= 1;
                    continue;
                }
                '\x08' if awaited.matched_bytes > 0 => {
                    awaited.matched_bytes -=
                        line[..awaited.matched_bytes].chars().next_back().map_or(0, char::len_utf8);
                    continue;
                }
                '\n' => awaited.spaces = 0,
                _ => {}
            }
            if awaited.spaces > 0 || expected != Some(character) {
                let withdrawn = awaited.start;
                let has_matched = awaited.matched_bytes > 0;
                self.awaited = None;
                return if has_matched { FollowResult::Withdrawn(withdrawn) } else { FollowResult::Nothing };
            }
            awaited.matched_bytes += character.len_utf8();
            if awaited.matched_bytes == line.len() {
                self.confirmed.push_back(awaited.start..position);
                if self.confirmed.len() > MAX_CONFIRMED {
                    self.confirmed.pop_front();
                }
                awaited.lines.pop_front();
                awaited.matched_bytes = 0;
                if awaited.lines.is_empty() {
                    self.awaited = None;
                }
            }
        }
        FollowResult::Nothing
    }

    /// Returns whether an echo is still incomplete.
    pub(crate) fn is_following(&self) -> bool {
        self.awaited.is_some()
    }

    /// Returns the parts of `range` that are an echo or may be the beginning of an echo, in order.
    pub(crate) fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let open = self
            .awaited
            .as_ref()
            .filter(|awaited| awaited.matched_bytes > 0)
            .map(|awaited| awaited.start..awaited.start + awaited.matched_bytes as u64);
        self.confirmed
            .iter()
            .cloned()
            .chain(open)
            .map(move |echo| echo.start.max(range.start)..echo.end.min(range.end))
            .filter(|echo| !echo.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(typed: &str, output: &[&str]) -> (Vec<Range<u64>>, Vec<FollowResult>) {
        let mut echo = Echo::default();
        echo.expect(typed, 0);
        let mut at = 0;
        let mut results = Vec::new();
        for piece in output {
            results.push(echo.follow(at, piece));
            at += piece.len() as u64;
        }
        (echo.within(0..u64::MAX).collect(), results)
    }

    #[test]
    fn returned_line_is_echo_and_later_output_is_not() {
        assert_eq!(after("hello\n", &["hel", "lo\nhello\n"]).0, [0..6]);
    }

    #[test]
    fn line_drawn_twice_at_the_margin_is_echo() {
        assert_eq!(after("abc\n", &["abc ", "\x08\x08c\n", "abc\n"]).0, [0..8]);
        assert_eq!(after("abc\n", &["abc \rd\n"]).0, [], "output after a space is not an echo");
        assert_eq!(after("foo\n", &["\rfoo\n"]).0, [1..5], "the echo overwrites a progress bar");
    }

    #[test]
    fn prefix_counts_as_echo_until_it_differs() {
        assert_eq!(after("yes\n", &["ye"]).0, [0..2]);
        let (echo, followed) = after("yes\n", &["ye", "ar"]);
        assert!(echo.is_empty());
        assert_eq!(followed, [FollowResult::Nothing, FollowResult::Withdrawn(0)]);
    }

    #[test]
    fn output_of_a_program_without_echo_is_kept() {
        assert!(after("secret\n", &["\n", "secret was wrong\n"]).0.is_empty());
    }

    #[test]
    fn several_lines_are_followed_in_order() {
        assert_eq!(after("a\nbc\n", &["a\nbc\nout"]).0, [0..2, 2..5]);
    }

    #[test]
    fn tab_ends_the_predictable_part() {
        assert_eq!(after("ls /us\t", &["ls /usr/"]).0, [0..6]);
    }
}
