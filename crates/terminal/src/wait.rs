//! Waits for output of a terminal.
//!
//! Owns the conditions that end a wait and the search of the output. A wait first searches the existing output starting
//! at its offset, and then every new portion; it never polls. Each pass begins at the end of the last pass, or a little
//! earlier if a match may cross the border.

use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::time::Duration;

use steplatch_pattern::{Match, Pattern, TooMuchWork};

use crate::echo::Echo;
use crate::history::{History, Zone, ceil_char_boundary, floor_char_boundary};
use crate::lines::settled;
use crate::process::Exit;

/// Target and time limit of a wait.
#[derive(Debug, Clone, Default)]
pub struct Wait {
    /// Patterns to search for; the first match ends the wait. May be empty if `until` names another event.
    pub patterns: Vec<Pattern>,
    /// Text to search.
    pub target: Target,
    /// Start offset of the search; by default, the offset of the last input.
    pub since: Option<u64>,
    /// Event that ends the wait, in addition to a match and the end of the program.
    pub until: Until,
    /// Set if the wait also ends when the program waits for typed input, see [`Reason::Input`].
    pub input: Option<InputWait>,
    /// Set if a match ends the wait only when the program waits for typed input in this mode. Output in the meantime
    /// may remove the match.
    pub reads: Option<InputReading>,
    /// True if the program must read whole lines for `reads`, from the terminal or a line editor. In a program that
    /// reads keys, Enter might answer the question after the matched question.
    pub reads_lines: bool,
    /// The required styled rows of a match on the screen, with their styles and the cursor, from top to bottom. They
    /// show the selected entry. Older versions record the highlighted texts of the entire screen.
    pub highlighted: Vec<String>,
    /// Time limit of the wait.
    pub timeout: Duration,
    /// The client or run that waits. A wait without it is not in the log of inputs.
    pub by: Option<String>,
    /// The line whose prompt ends the wait, see [`Sent::line`](crate::Sent::line). `None` for the last line of `by` at
    /// or before `since`, unless its prompt was already shown.
    pub line: Option<u64>,
}

/// Text that a wait searches for its patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Target {
    /// The output as text, including scrolled text.
    #[default]
    Output,
    /// The drawn screen, for full-screen programs.
    Screen,
}

/// Event that ends a wait, in addition to a match, the end of the program, and the time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Until {
    /// No other event.
    #[default]
    Match,
    /// The shell's prompt.
    Prompt,
    /// No other event: the wait is for the end of the program.
    Exit,
    /// A period without output.
    Quiet(Quiet),
}

/// Condition of a program's wait for typed input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputWait {
    /// The kernel shows that the program sleeps in a read of the terminal, and no input remains.
    Known,
    /// Same as [`Self::Known`], or the kernel does not show the state, as for event loops, and the program is quiet.
    KnownOrQuiet,
}

/// Reading mode of a program that waits for input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputReading {
    /// The program echoes typed input, or reads keys.
    Shown,
    /// The program reads a line without echo, such as a password.
    Hidden,
    /// Either mode.
    Any,
}

impl InputReading {
    /// Returns whether this mode includes a read without echo (`hides_input`), or with echo.
    pub(crate) fn includes(self, hides_input: bool) -> bool {
        match self {
            Self::Shown => !hides_input,
            Self::Hidden => hides_input,
            Self::Any => true,
        }
    }
}

/// Minimum silence of a quiet terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quiet {
    /// After some output.
    pub after_output: Duration,
    /// Without any output since the wait began.
    pub without_output: Duration,
}

impl Quiet {
    /// Returns the same silence with and without output.
    #[must_use]
    pub fn for_duration(duration: Duration) -> Self {
        Self { after_output: duration, without_output: duration }
    }
}

/// Reason why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// A pattern matched.
    Match,
    /// The shell is at its prompt.
    Prompt,
    /// The program has ended, or another program has replaced the shell of the awaited prompt, see
    /// [`Waited::replaced_by`]. A wait with [`InputWait::KnownOrQuiet`] continues after a replacement.
    Exit,
    /// There was no output for the requested time.
    Quiet,
    /// The foreground program waits for typed input, or the shell waits for the rest of a line.
    Input,
    /// The time limit passed.
    Timeout,
}

/// A match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatternMatch {
    /// Index of the pattern, counted from 0.
    pub pattern: usize,
    /// Text of the match.
    pub text: String,
    /// Matches of its groups, beginning with group 1.
    pub groups: Vec<Option<String>>,
    /// Offsets of the match in the output; `None` for a match on the screen.
    pub range: Option<Range<u64>>,
    /// True if the match is in the echo of the input. Such a match does not end the wait, and is returned only if there
    /// was no other match.
    pub in_echo: bool,
}

impl PatternMatch {
    fn new(pattern: usize, text: &str, found: &Match, base: Option<u64>) -> Self {
        Self {
            pattern,
            text: text[found.range.clone()].to_owned(),
            groups: found.groups.iter().map(|group| group.clone().map(|range| text[range].to_owned())).collect(),
            range: base.map(|base| base + found.range.start as u64..base + found.range.end as u64),
            in_echo: false,
        }
    }
}

/// Outcome of a wait.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Waited {
    /// Reason why the wait ended.
    pub reason: Reason,
    /// The match, if any. After the time limit or the end of the program, this may be a match in the echo of the input,
    /// see [`PatternMatch::in_echo`].
    pub found: Option<PatternMatch>,
    /// Start offset of the next wait's search: after the match, or after all output.
    pub offset: u64,
    /// The exit of the program, if it has ended.
    pub exit: Option<Exit>,
    /// The pattern whose search was aborted.
    pub gave_up: Option<TooMuchWork>,
    /// Offset of the oldest stored output at the start of the wait, if it is after the requested offset.
    pub missed_before: Option<u64>,
    /// The program that replaced the shell of the awaited prompt, as after `exec`. No prompt follows, and the
    /// reason is [`Reason::Exit`] although the terminal is open.
    pub replaced_by: Option<String>,
    /// True if the shell ran no part of the line before the awaited prompt, for example after a syntax error. False for
    /// a shell without marks, and for a line that contains nothing to run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ran_nothing: bool,
}

/// Maximum size of the text of one pass, in bytes. The terminal serves other requests between two passes.
const MAX_PASS_BYTES: u64 = 1 << 20;

/// Maximum length of a multi-line match before the border of two passes, in bytes.
const MAX_OVERLAP_BYTES: u64 = 16 * 1024;

/// Maximum distance to search back for the beginning of a line, in bytes.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// Maximum length of the end of an overwritten line to search, in bytes.
const MAX_DRAWN_BYTES: usize = 16 * 1024;

/// The search of one wait through the output.
#[derive(Debug)]
pub(crate) struct Search {
    patterns: Vec<Pattern>,
    spans_lines: bool,
    from: u64,
    /// Offset of the end of the searched text.
    searched_end: u64,
}

/// Progress of one pass.
#[derive(Debug)]
pub(crate) enum Pass {
    Found(PatternMatch),
    /// All text is searched.
    Nothing,
    /// Unsearched text remains.
    More,
}

impl Search {
    pub(crate) fn new(patterns: Vec<Pattern>, from: u64) -> Self {
        let spans_lines = patterns.iter().any(|pattern| may_span_lines(pattern.as_str()));
        Self { patterns, spans_lines, from, searched_end: from }
    }

    /// Repeats the search starting at `from`.
    pub(crate) fn restart_from(&mut self, from: u64) {
        self.searched_end = self.searched_end.min(from.max(self.from));
    }

    /// Searches at most `MAX_PASS_BYTES` of the new text.
    pub(crate) fn advance(&mut self, history: &History, echo: EchoZones<'_>) -> Result<Pass, TooMuchWork> {
        if self.patterns.is_empty() || self.searched_end > history.end() {
            return Ok(Pass::Nothing);
        }
        self.from = self.from.max(history.start());
        self.searched_end = self.searched_end.max(self.from);
        let stop = history.end().min(self.searched_end + MAX_PASS_BYTES);
        // Search the line at the border again, because it may be longer now.
        let overlap_bytes = if self.spans_lines { MAX_OVERLAP_BYTES } else { MAX_LINE_BYTES as u64 };
        let search_start = self.searched_end.saturating_sub(overlap_bytes).max(self.from);
        let (base, text) = text_between(history, search_start, stop);
        let text = text.as_ref();
        let border = ceil_char_boundary(text, (self.searched_end - base) as usize);
        let begin = if self.spans_lines { 0 } else { text[..border].rfind('\n').map_or(0, |newline| newline + 1) };
        for part in echo.output_ranges(history, base + begin as u64..stop) {
            if let Some(found) = self.find_first(text, base, part)? {
                return Ok(Pass::Found(found));
            }
        }
        if let Some(found) = self.find_in_settled_lines(history, echo, base, &text[begin..], begin)? {
            return Ok(Pass::Found(found));
        }
        self.searched_end = stop;
        Ok(if stop < history.end() { Pass::More } else { Pass::Nothing })
    }

    /// Searches overwritten lines in their final state.
    ///
    /// `text` begins `begin` bytes after the offset `base`.
    fn find_in_settled_lines(
        &self,
        history: &History,
        echo: EchoZones<'_>,
        base: u64,
        text: &str,
        begin: usize,
    ) -> Result<Option<PatternMatch>, TooMuchWork> {
        if !text.contains(['\r', '\x08']) {
            return Ok(None);
        }
        let mut offset = base + begin as u64;
        for line in text.split_inclusive('\n') {
            let range = offset..offset + line.len() as u64;
            offset = range.end;
            if !line.contains(['\r', '\x08']) || !echo.echo_ranges(history, range.clone()).is_empty() {
                continue;
            }
            // Only the last drawings of a line are visible.
            let last_drawing = &line[ceil_char_boundary(line, line.len().saturating_sub(MAX_DRAWN_BYTES))..];
            let final_line = settled(last_drawing.trim_end_matches('\n'));
            if let Some(found) = self.find_first(&final_line, 0, 0..final_line.len() as u64)? {
                return Ok(Some(PatternMatch { range: Some(range), ..found }));
            }
        }
        Ok(None)
    }

    /// Searches the echo, for a wait whose patterns match no other text.
    pub(crate) fn find_in_echo(&self, history: &History, echo: EchoZones<'_>) -> Option<PatternMatch> {
        let stop = history.end();
        let from = self.from.max(history.start());
        for part in echo.echo_ranges(history, from..stop) {
            // A match that begins in the echo may end after it.
            let (base, text) = text_between(history, part.start, (part.end + MAX_OVERLAP_BYTES).min(stop));
            let text: &str = text.as_ref();
            let found = self.find_first(text, base, base..base + text.len() as u64).ok().flatten();
            if let Some(found) = found
                && found.range.as_ref().is_some_and(|range| range.start < part.end)
            {
                // A match that ends after the echo contains untyped text.
                let in_echo = found.range.as_ref().is_some_and(|range| range.end <= part.end);
                return Some(PatternMatch { in_echo, ..found });
            }
        }
        None
    }

    /// Returns the first match within `part`. Of matches at the same offset, returns the match of the first pattern.
    fn find_first(&self, text: &str, base: u64, part: Range<u64>) -> Result<Option<PatternMatch>, TooMuchWork> {
        let stop = floor_char_boundary(text, (part.end - base) as usize);
        let start = ceil_char_boundary(text, (part.start - base) as usize);
        let visible = &text[..stop];
        let mut first: Option<(usize, Match)> = None;
        for (index, pattern) in self.patterns.iter().enumerate() {
            if let Some(found) = pattern.find_at(visible, start)?
                && first.as_ref().is_none_or(|(_, best)| found.range.start < best.range.start)
            {
                first = Some((index, found));
            }
        }
        Ok(first.map(|(index, found)| PatternMatch::new(index, visible, &found, Some(base))))
    }
}

/// Searches a screen for the first match and returns it with its rows.
pub(crate) fn search_screen(
    patterns: &[Pattern],
    screen: &str,
) -> Result<Option<(PatternMatch, Range<usize>)>, TooMuchWork> {
    let search = Search { patterns: patterns.to_vec(), spans_lines: true, from: 0, searched_end: 0 };
    let found = search.find_first(screen, 0, 0..screen.len() as u64)?;
    Ok(found.map(|found| {
        let row = |at: u64| screen[..floor_char_boundary(screen, at as usize)].matches('\n').count();
        let rows = found.range.as_ref().map_or(0..0, |range| row(range.start)..row(range.end) + 1);
        (PatternMatch { range: None, ..found }, rows)
    }))
}

/// Returns the stored text between two offsets, borrowed if it is contiguous.
fn text_between(history: &History, from: u64, end: u64) -> (u64, std::borrow::Cow<'_, str>) {
    let (hot_start, hot) = history.newest();
    if from >= hot_start {
        let low = ceil_char_boundary(hot, (from - hot_start) as usize);
        let high = floor_char_boundary(hot, (end - hot_start) as usize).max(low);
        (hot_start + low as u64, std::borrow::Cow::Borrowed(&hot[low..high]))
    } else {
        let (base, text) = history.read(from..end);
        (base, std::borrow::Cow::Owned(text))
    }
}

/// Returns whether a match of this pattern may contain a line end. The result may be a false positive, never a false
/// negative.
fn may_span_lines(pattern: &str) -> bool {
    const LINE_END_SYNTAX: [&str; 10] = ["\n", r"\n", r"\s", r"\S", r"\W", r"\D", r"\x", r"\u", "[^", "(?"];
    LINE_END_SYNTAX.iter().any(|syntax| pattern.contains(syntax))
}

/// The echo in the output, for a search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EchoZones<'a> {
    /// The recognised echo.
    pub(crate) recognised: &'a Echo,
    /// True if the open command line was entered, so that the whole line is echo.
    pub(crate) open_line_was_sent: bool,
}

impl EchoZones<'_> {
    /// Returns the parts of `range` that are echo, in order and without overlaps.
    fn echo_ranges(self, history: &History, range: Range<u64>) -> Vec<Range<u64>> {
        let end = history.end();
        let echo = history.zones(range.clone()).filter_map(|(part, zone)| {
            let open = part.end == end && history.zone() == Zone::Input;
            (zone == Zone::Input && (!open || self.open_line_was_sent)).then_some(part)
        });
        let mut parts: Vec<Range<u64>> = echo.chain(self.recognised.within(range)).collect();
        parts.sort_unstable_by_key(|part| part.start);
        let mut merged: Vec<Range<u64>> = Vec::with_capacity(parts.len());
        for part in parts {
            match merged.last_mut() {
                Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
                _ => merged.push(part),
            }
        }
        merged
    }

    /// Returns the parts of `range` that are not echo, in order.
    fn output_ranges(self, history: &History, range: Range<u64>) -> Vec<Range<u64>> {
        let mut parts = Vec::new();
        let mut offset = range.start;
        for echo in self.echo_ranges(history, range.clone()) {
            if offset < echo.start {
                parts.push(offset..echo.start);
            }
            offset = echo.end;
        }
        if offset < range.end || parts.is_empty() && offset == range.end && range.is_empty() {
            parts.push(offset..range.end);
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Typescript {
        history: History,
        echo: Echo,
        search: Search,
    }

    impl Typescript {
        fn waiting_for(pattern: &str) -> Self {
            let search = Search::new(vec![Pattern::new(pattern).unwrap()], 0);
            Self { history: History::new(1 << 20), echo: Echo::default(), search }
        }

        fn typed(mut self, text: &str) -> Self {
            self.echo.expect(text, self.history.end());
            self
        }

        fn print_output(&mut self, text: &str) -> Option<String> {
            let at = self.history.end();
            self.history.push_str(text);
            if let crate::echo::FollowResult::Withdrawn(from) = self.echo.follow(at, text) {
                self.search.restart_from(from);
            }
            self.history.settle();
            loop {
                let echo = EchoZones { recognised: &self.echo, open_line_was_sent: true };
                match self.search.advance(&self.history, echo).unwrap() {
                    Pass::Found(found) => return Some(found.text),
                    Pass::Nothing => return None,
                    Pass::More => {}
                }
            }
        }

        fn find_in_echo(&self) -> Option<PatternMatch> {
            let echo = EchoZones { recognised: &self.echo, open_line_was_sent: true };
            self.search.find_in_echo(&self.history, echo)
        }
    }

    #[test]
    fn match_may_cross_two_reads() {
        let mut wait = Typescript::waiting_for("pass(word|phrase):");
        assert_eq!(wait.print_output("enter pass"), None);
        assert_eq!(wait.print_output("word: "), Some("password:".into()));
    }

    #[test]
    fn match_may_span_lines_across_reads() {
        let mut wait = Typescript::waiting_for(r"one\ntwo");
        assert_eq!(wait.print_output("one\n"), None);
        assert_eq!(wait.print_output("two\n"), Some("one\ntwo".into()));
    }

    #[test]
    fn echo_of_the_input_does_not_match_but_its_output_does() {
        let mut wait = Typescript::waiting_for("hello").typed("echo hello\n");
        assert_eq!(wait.print_output("echo hello\n"), None);
        assert_eq!(wait.print_output("hello\n"), Some("hello".into()));
    }

    #[test]
    fn output_that_starts_like_the_echo_is_found() {
        let mut wait = Typescript::waiting_for("yesterday").typed("yes\n");
        assert_eq!(wait.print_output("yes"), None);
        assert_eq!(wait.print_output("terday\n"), Some("yesterday".into()));
    }

    #[test]
    fn echo_counts_as_a_last_resort_and_is_reported() {
        let mut wait = Typescript::waiting_for("hello").typed("hello\n");
        assert_eq!(wait.print_output("hello\n$ "), None);
        let found = wait.find_in_echo().unwrap();
        assert!(found.in_echo);
        assert_eq!((found.text.as_str(), found.range), ("hello", Some(0..5)));
    }

    #[test]
    fn marked_command_line_does_not_match_but_the_prompt_does() {
        let mut wait = Typescript::waiting_for(r"make|\$ $");
        wait.history.begin_zone(Zone::Input);
        assert_eq!(wait.print_output("make\n"), None);
        wait.history.begin_zone(Zone::Output);
        assert_eq!(wait.print_output("done\n"), None);
        wait.history.begin_zone(Zone::Prompt);
        assert_eq!(wait.print_output("$ "), Some("$ ".into()));
    }

    #[test]
    fn overwritten_line_is_found_in_its_final_form() {
        let mut wait = Typescript::waiting_for(r"^done \d$");
        assert_eq!(wait.print_output("working 1\rworking 2"), None);
        assert_eq!(wait.print_output("\r\rdone 5\n"), Some("done 5".into()));
        assert_eq!(Typescript::waiting_for("^xycd$").print_output("abcd\rxy\n"), Some("xycd".into()));
        assert_eq!(Typescript::waiting_for("working 1").print_output("working 1\rworking 2"), Some("working 1".into()));
    }

    #[test]
    fn earliest_match_of_several_patterns_wins() {
        let patterns = ["never", "b+", "a"].map(|pattern| Pattern::new(pattern).unwrap());
        let (found, rows) = search_screen(&patterns, "xx bb a").unwrap().unwrap();
        assert_eq!(rows, 0..1);
        assert_eq!((found.pattern, found.text.as_str()), (1, "bb"));
    }

    #[test]
    fn earlier_output_is_searched() {
        let mut wait = Typescript::waiting_for("^line 17$");
        wait.search.patterns = vec![Pattern::new("nothing like it").unwrap()];
        for line in 0..100_000 {
            wait.history.push_str(&format!("line {line}\n"));
            wait.history.settle();
        }
        wait.search = Search::new(vec![Pattern::new("^line 17$").unwrap()], 0);
        assert_eq!(wait.print_output(""), Some("line 17".into()));
    }

    proptest! {
        #[test]
        fn match_is_the_same_for_any_division_of_the_output(
            text in "[ab\n]{0,200}",
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
            pattern in prop::sample::select(vec!["aab", "^a$", "b\\nb", "ab\na", "a[^b]b"]),
        ) {
            let outcome = Typescript::waiting_for(pattern).print_output(&text);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.sort_unstable();
            cuts.push(text.len());
            let mut wait = Typescript::waiting_for(pattern);
            let mut last = 0;
            let mut piecewise = None;
            for cut in cuts {
                piecewise = piecewise.or(wait.print_output(&text[last..cut]));
                last = cut;
            }
            // A `$` may match at a cut that turns out not to be the end of a line: an earlier match is allowed, a
            // missing one is not.
            if outcome.is_some() || pattern != "^a$" {
                prop_assert_eq!(piecewise, outcome);
            }
        }
    }
}
