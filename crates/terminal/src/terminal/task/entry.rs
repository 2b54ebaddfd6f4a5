//! One entry at the prompt of a program without marks, and its output.
//!
//! The program is an interpreter, a debugger, or a shell without the integration. The entry ends when the program shows
//! its prompt and reads again. There is no exit code. The terminal types a text of several lines line by line, when the
//! program requests the next line. A line typed ahead might answer a question, and its echo would look like output.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;
use unicode_width::UnicodeWidthStr as _;

use super::Task;
use super::running::{Entering, Reply};
use crate::command::{self, CommandResult, InputRequest, RunError};
use crate::history::Zone;
use crate::limit::Limit;
use crate::process::{InputState, executable_name};
use crate::prompt::{LearnedPrompt, RowKind, unfinished_line_bytes};
use crate::python_entry;
use crate::screen::Size;
use crate::terminal::excerpt;

/// An entry with a waiting caller.
pub(super) struct PromptEntry {
    reply: Reply,
    /// The entry in the log of inputs.
    log_number: u64,
    limit: Limit,
    /// True if the entry ends when the program requests other input.
    input: bool,
    deadline: Instant,
    prompt: LearnedPrompt,
    /// Foreground process group that shows the prompt.
    group: Option<rustix::process::Pid>,
    /// Number of prompts of the shell around the program at the start.
    prompts: u64,
    /// The next lines to type, when the program requests them.
    pending_lines: VecDeque<String>,
    /// The output of the previous parts.
    outputs: Vec<Range<u64>>,
    /// Offset of the output at the entry of the current part.
    part_start: u64,
    /// The text of the current part.
    part_text: String,
    /// Number of line ends in the echo of the current part.
    echo_lines: usize,
    /// End offset of the echo.
    echo_end: Option<u64>,
    /// True if the terminal has entered an empty line after the current part.
    is_closed: bool,
    /// True if the entry was incomplete and the terminal has pressed Ctrl-C.
    is_discarded: bool,
    /// True if the editor of Python 3.13 draws the entry row by row.
    is_drawn_in_rows: bool,
    next_check: Instant,
    pause: Duration,
}

/// Required silence for each kind of row and state of the program.
const PROMPT_SILENCE: Duration = Duration::from_millis(15);
const UNKNOWN_SILENCE: Duration = Duration::from_millis(150);
const CONTINUATION_SILENCE: Duration = Duration::from_millis(120);
const UNKNOWN_CONTINUATION_SILENCE: Duration = Duration::from_millis(400);
const QUESTION_SILENCE: Duration = Duration::from_millis(150);

/// Timeout for the marks of an integrated shell's first prompt. After this silence, the prompt counts as a prompt
/// without marks.
const MARK_TIMEOUT: Duration = Duration::from_secs(1);

/// The minimum and maximum pause between two checks.
const MIN_PAUSE: Duration = Duration::from_millis(30);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Maximum time for a program to discard an incomplete entry.
const DISCARD_TIMEOUT: Duration = Duration::from_millis(500);

/// Meaning of the cursor's row and the program's state for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Complete,
    Incomplete,
    AwaitsOtherInput,
    NotYet,
}

/// Evaluates a row that has not changed for `silent`. `has_more` is true if further lines remain to be typed.
fn evaluate_row(row: RowKind, state: InputState, silent: Duration, has_more: bool) -> Verdict {
    let (required_silence, verdict) = match (row, state) {
        (_, InputState::Works) => return Verdict::NotYet,
        (RowKind::Prompt { .. }, InputState::Awaits) => (PROMPT_SILENCE, Verdict::Complete),
        (RowKind::Prompt { .. }, _) => (UNKNOWN_SILENCE, Verdict::Complete),
        (RowKind::Continuation, InputState::Awaits) if has_more => (PROMPT_SILENCE, Verdict::Incomplete),
        (RowKind::Continuation, _) if has_more => (UNKNOWN_SILENCE, Verdict::Incomplete),
        (RowKind::Continuation, InputState::Awaits) => (CONTINUATION_SILENCE, Verdict::Incomplete),
        (RowKind::Continuation, _) => (UNKNOWN_CONTINUATION_SILENCE, Verdict::Incomplete),
        (RowKind::Other, InputState::Awaits) => (QUESTION_SILENCE, Verdict::AwaitsOtherInput),
        (RowKind::Other, _) => return Verdict::NotYet,
    };
    if silent >= required_silence { verdict } else { Verdict::NotYet }
}

impl PromptEntry {
    /// Returns the time of the next check.
    pub(super) fn due(&self) -> Instant {
        self.next_check.min(self.deadline)
    }

    /// Records output; it may change the row.
    pub(super) fn record_output(&mut self, now: Instant) {
        self.pause = MIN_PAUSE;
        self.next_check = now + PROMPT_SILENCE;
    }
}

impl Task {
    /// Returns the foreground program's prompt for an entry, if the prompt has no marks.
    pub(super) fn prompt_without_marks(&self) -> Option<LearnedPrompt> {
        // The process of an inner shell may be `ssh`. It stays in the foreground during all remote commands.
        let is_own_shell = self.shell.integration.is_some()
            && !self.shell.is_replaced()
            && !(self.shell.is_inner && self.shell.running)
            // A shell may never print marks, because the variables of the marks are read-only. Such a shell is like any
            // other program.
            && (self.shell.is_reporting() || Instant::now() < self.last_output + MARK_TIMEOUT)
            && self.pty.foreground() == Some(self.shell_process());
        let is_taken = self.running.is_some() || self.entry.is_some() || self.typed_line.is_some();
        if self.is_over() || is_own_shell || is_taken || !self.outgoing.is_empty() || self.pty.has_unread() {
            return None;
        }
        let states = self.states();
        if states.password || states.awaiting_input != Some(true) || self.intake.screen.modes().alternate_screen {
            return None;
        }
        let row = self.row_before_cursor();
        // Output without a final newline may precede a known prompt.
        let known = self.last_prompt.as_ref().filter(|known| known.follows_output(&row)).cloned();
        known
            .or_else(|| LearnedPrompt::learn(&row, self.foreground_name().as_deref()))
            .or_else(|| self.last_prompt.clone().filter(|_| row.is_empty() && self.is_still_at_prompt()))
    }

    /// Returns whether there was no input since the program returned to its prompt after the last entry. Later output,
    /// for example of background work, may have moved the cursor.
    fn is_still_at_prompt(&self) -> bool {
        self.reached_prompt
            .is_some_and(|reached| Some(reached) == self.pty.foreground().map(|group| (group, self.last_input)))
    }

    /// Returns whether the prompt of the last entry, or a prompt of the foreground program, is at the cursor. The
    /// program is then about to read: line editors run their own code after each prompt.
    pub(super) fn shows_known_prompt(&self) -> bool {
        let is_taken = self.running.is_some() || self.entry.is_some() || self.typed_line.is_some();
        let row = self.row_before_cursor();
        // Background work of a program may have moved the cursor, and may delay its next read.
        let is_known = || {
            self.last_prompt.as_ref().is_some_and(|known| matches!(known.classify_row(&row), RowKind::Prompt { .. }))
                || self.is_still_at_prompt()
        };
        !is_taken && (is_known() || LearnedPrompt::learn(&row, self.foreground_name().as_deref()).is_some())
    }

    /// Returns the unentered text at a prompt without marks: text after the cursor, or the typed end of the row.
    pub(super) fn typed_at_prompt(&self) -> Option<String> {
        let (text_before, text_after) = (self.row_before_cursor(), self.row_after_cursor());
        // Text after a gap is a right prompt.
        let is_prompt = text_after.starts_with("    ") || text_after.trim().is_empty();
        if !is_prompt {
            return Some(text_after.trim_end().to_owned());
        }
        let draft = self.shell.draft.text();
        let typed = draft.trim();
        // The echo of text typed ahead is above the prompt.
        let is_held = self.shell.draft.is_held && self.collects_lines();
        (!typed.is_empty() && (is_held || text_before.trim_end().ends_with(typed))).then(|| typed.to_owned())
    }

    /// Returns whether the foreground program accepts a tab as text, rather than as the key that completes words.
    pub(super) fn takes_tabs(&self) -> bool {
        self.collects_lines() || self.intake.screen.modes().bracketed_paste
    }

    /// Returns whether the foreground program is a Python that compiles a pasted text as one statement.
    fn reads_single_statements(&self) -> bool {
        let program = self.pty.foreground().and_then(|group| executable_name(group.as_raw_nonzero().get()));
        program.is_some_and(|program| python_entry::takes_single_statements(&program))
    }

    /// Enters text at a prompt without marks.
    pub(super) fn begin_entry(&mut self, entering: Entering, prompt: LearnedPrompt) {
        let text = match command::normalize(&entering.request.command) {
            Ok(text) => text,
            Err(error) => return entering.refuse(&error),
        };
        if entering.request.working_directory.is_some() {
            return entering.refuse(&RunError::NoDirectory);
        }
        let program = self.shell_name();
        if prompt.may_be_shell() && command::may_expand(&text, program.as_deref()) {
            return entering.refuse(&RunError::Expanded);
        }
        let is_fish = program.as_deref().is_some_and(|name| name.trim_start_matches('-') == "fish");
        // fish drops tabs in pasted text.
        if text.contains('\t') && (is_fish || !self.takes_tabs()) {
            return entering.refuse(&RunError::Control(u32::from('\t')));
        }
        if let Err(error) = self.check_width(&text) {
            return entering.refuse(&error);
        }
        let modes = self.intake.screen.modes();
        let is_edited = modes.bracketed_paste;
        let is_paste =
            (text.contains('\n') || text.contains('\t')) && prompt.takes_pastes() && !self.reads_single_statements();
        // The editor of Python 3.13 and later sets application cursor keys, unlike readline.
        let is_drawn_in_rows = is_edited && prompt.takes_statements() && modes.application_cursor;
        let entries = match is_paste && is_edited {
            true => Ok(vec![format!("\x1b[200~{text}\x1b[201~")]),
            // The line editors of shells show pasted text twice.
            false if is_edited => prompt.split_entries(&text.replace('\t', QUOTED_TAB)),
            false => prompt.split_entries(&text),
        };
        let mut pending_lines = match entries {
            Ok(entries) => VecDeque::from(entries),
            Err(meaning) => {
                let program = program.unwrap_or_else(|| "the program".to_owned());
                return entering.refuse(&RunError::EmptyLine { program, meaning: meaning.to_owned() });
            }
        };
        if let Some(error) = pending_lines.iter().find_map(|entry| self.check_lines(entry.as_bytes()).err()) {
            return entering.refuse(&error.into());
        }
        let Some(first) = pending_lines.pop_front() else { return entering.refuse(&RunError::Incomplete) };
        let log_number = self.log_command(&entering.request);
        let now = Instant::now();
        let offset = self.intake.transcript.history().end();
        self.input_offset = offset;
        self.last_input = now;
        self.last_prompt = Some(prompt.clone());
        self.entry = Some(PromptEntry {
            reply: entering.reply,
            log_number,
            limit: entering.request.limit,
            input: entering.request.input,
            deadline: entering.deadline,
            prompt,
            group: self.pty.foreground(),
            prompts: self.shell.prompts,
            pending_lines,
            outputs: Vec::new(),
            part_start: offset,
            part_text: String::new(),
            echo_lines: 0,
            echo_end: None,
            is_closed: false,
            is_discarded: false,
            is_drawn_in_rows,
            next_check: now + PROMPT_SILENCE,
            pause: MIN_PAUSE,
        });
        self.type_entry(&first);
    }

    /// Checks that the line editor of a shell does not wrap a text. Its echo would look like output.
    ///
    /// # Errors
    /// If the editor wraps the text.
    pub(super) fn check_width(&self, text: &str) -> Result<(), RunError> {
        let Size { cols, rows } = self.intake.screen.size();
        let before = self.row_before_cursor().width();
        let shell = self.shell_name().unwrap_or_default();
        match !self.collects_lines() && command::is_broken_by_editor(text, &shell, before, cols, rows) {
            true => Err(RunError::Wrapped { cols }),
            false => Ok(()),
        }
    }

    /// Types a part of the entry and Enter.
    fn type_entry(&mut self, text: &str) {
        let now = Instant::now();
        let offset = self.intake.transcript.history().end();
        let Some(entry) = &mut self.entry else { return };
        entry.echo_lines += text.matches('\n').count() + 1;
        entry.echo_end = None;
        entry.is_closed = false;
        entry.next_check = now + PROMPT_SILENCE;
        entry.pause = MIN_PAUSE;
        self.last_input = now;
        let echo = text.trim_start_matches("\x1b[200~").trim_end_matches("\x1b[201~");
        echo.clone_into(&mut entry.part_text);
        self.echo.expect(&format!("{echo}\n"), offset);
        self.outgoing.extend(text.bytes().map(|byte| if byte == b'\n' { b'\r' } else { byte }));
        self.outgoing.extend(*b"\r");
        self.write_input();
    }

    /// Types the next part of the entry, unless a client holds the terminal. The current part ends if the program is at
    /// its prompt.
    fn type_next_entry(&mut self, is_at_prompt: bool) {
        if self.write_lock.admits(None).is_err() {
            return self.end_entry(|_| {});
        }
        let output = self.entry.as_ref().filter(|_| is_at_prompt).map(|entry| self.entry_output(entry));
        let end = self.intake.transcript.history().end();
        let Some(entry) = &mut self.entry else { return };
        if let Some(output) = output {
            entry.outputs.push(output);
            entry.part_start = end;
            entry.echo_lines = 0;
        }
        if let Some(next) = entry.pending_lines.pop_front() {
            self.type_entry(&next);
        }
    }

    /// Checks the entry and replies to the caller if the entry has ended or its time limit has passed.
    pub(super) fn check_entry(&mut self) {
        let Some(entry) = &self.entry else { return };
        let now = Instant::now();
        let history = self.intake.transcript.history();
        if let Some(exit) = self.exit() {
            return self.end_entry(|result| result.ended = Some(exit));
        }
        // The program has ended, and its outer shell is at the prompt.
        if self.shell.prompts > entry.prompts && self.shell.is_idle() {
            let exit_code = self.shell.last_exit;
            return self.end_entry(|result| result.exit_code = exit_code);
        }
        if now >= entry.deadline {
            if entry.is_discarded {
                return self.refuse_unfinished();
            }
            return self.end_entry(|result| result.timed_out = true);
        }
        if now < entry.next_check {
            return;
        }
        // Ignore all output before the echo of the entered lines.
        let echo_end = entry.echo_end.or_else(|| nth_line_end(history, entry.part_start, entry.echo_lines));
        let verdict = match echo_end {
            Some(_) if !self.has_traffic() => {
                let row = self.row_before_cursor();
                let mut kind = entry.prompt.classify_row(&row);
                let foreground = self.pty.foreground();
                let is_other_program = foreground != entry.group;
                if kind != (RowKind::Prompt { output_bytes: 0 })
                    && is_other_program
                    && LearnedPrompt::learn(&row, None).is_some()
                {
                    kind = RowKind::Prompt { output_bytes: 0 };
                }
                // The outer shell reports its prompt by marks.
                if is_other_program && self.shell.is_reporting() && foreground == Some(self.shell_process()) {
                    kind = RowKind::Other;
                }
                let has_more = !entry.pending_lines.is_empty() && !is_other_program;
                if has_more && kind == RowKind::Other && entry.prompt.may_continue(&row) {
                    kind = RowKind::Continuation;
                }
                let state = match self.input_state() {
                    InputState::Awaits if entry.prompt.reads_during_execution() && row.is_empty() => {
                        InputState::Unknown
                    }
                    state => state,
                };
                evaluate_row(kind, state, now.saturating_duration_since(self.last_output), has_more)
            }
            _ => Verdict::NotYet,
        };
        let full_screen = self.intake.screen.modes().alternate_screen;
        let Some(entry) = &mut self.entry else { return };
        entry.echo_end = echo_end;
        entry.next_check = now + entry.pause;
        entry.pause = (2 * entry.pause).min(MAX_PAUSE);
        match verdict {
            Verdict::NotYet => {}
            Verdict::Complete if entry.is_discarded => self.refuse_entry(&RunError::Incomplete),
            Verdict::Complete if !entry.pending_lines.is_empty() => self.type_next_entry(true),
            Verdict::Complete => {
                self.reached_prompt = entry.group.map(|group| (group, self.last_input));
                let lacks_exit_code = entry.prompt.may_be_shell();
                self.end_entry(|result| result.lacks_exit_code = lacks_exit_code);
            }
            Verdict::Incomplete
                if !entry.pending_lines.is_empty() && !entry.is_discarded && !entry.prompt.takes_statements() =>
            {
                self.type_next_entry(false);
            }
            // An empty line ends a block, even on a single line such as `for x in y: print(x)`.
            Verdict::Incomplete if !entry.is_closed && entry.prompt.ends_with_empty_line(&entry.part_text) => {
                entry.is_closed = true;
                entry.echo_lines += 1;
                entry.echo_end = None;
                self.press(b"\r");
            }
            Verdict::Incomplete | Verdict::AwaitsOtherInput if entry.is_discarded => {
                if now >= self.last_input + DISCARD_TIMEOUT {
                    self.refuse_unfinished();
                }
            }
            Verdict::Incomplete => {
                entry.is_discarded = true;
                self.press(b"\x03");
            }
            Verdict::AwaitsOtherInput if entry.input => {
                let asks = InputRequest {
                    program: self.reader_name(),
                    full_screen,
                    password: self.states().password,
                    screen: self.intake.screen.text(),
                };
                self.end_entry(|result| result.asks = Some(asks));
            }
            Verdict::AwaitsOtherInput => {}
        }
    }

    /// Presses keys that belong to the entry, unless a client holds the terminal.
    fn press(&mut self, keys: &[u8]) {
        if self.write_lock.admits(None).is_err() {
            return;
        }
        self.last_input = Instant::now();
        self.outgoing.extend(keys.iter().copied());
        self.write_input();
    }

    /// Refuses an entry that the program has not discarded.
    fn refuse_unfinished(&mut self) {
        let row = format!("{}{}", self.row_before_cursor(), self.row_after_cursor()).trim_end().to_owned();
        self.refuse_entry(&RunError::Unfinished { row });
    }

    fn refuse_entry(&mut self, error: &RunError) {
        if let Some(entry) = self.entry.take() {
            self.report_result(entry.log_number, entry.reply, Err(error.clone()));
        }
    }

    fn end_entry(&mut self, fill: impl FnOnce(&mut CommandResult)) {
        let Some(entry) = self.entry.take() else { return };
        let history = self.intake.transcript.history();
        let mut ranges = entry.outputs.clone();
        ranges.push(self.entry_output(&entry));
        let mut excerpt = excerpt::read_printed(history, &ranges, Zone::Output, entry.limit);
        // Remove an entry that the line editor has redrawn.
        if entry.outputs.is_empty() {
            let drawn_bytes = match entry.is_drawn_in_rows && entry.part_text.contains('\n') {
                true => entry.prompt.drawn_entry_rows(&excerpt.head, &entry.part_text),
                false => entry.prompt.redrawn_entry(&excerpt.head, &entry.part_text),
            };
            excerpt.head.drain(..drawn_bytes);
            let text = excerpt.tail.as_mut().unwrap_or(&mut excerpt.head);
            // The editor moves the cursor up and down before its prompt, and this looks like an empty line.
            if entry.is_drawn_in_rows && (text.ends_with("\n\n") || text == "\n") {
                text.pop();
            }
        }
        entry.prompt.trim_prompt(excerpt.tail.as_mut().unwrap_or(&mut excerpt.head));
        let mut result = CommandResult {
            output: excerpt.head,
            tail: excerpt.tail,
            left_out: excerpt.left_out,
            next: excerpt.next,
            dropped_before: excerpt.dropped_before,
            exit_code: None,
            timed_out: false,
            ended: None,
            replaced_by: None,
            not_entered: (!entry.pending_lines.is_empty()).then(|| Vec::from(entry.pending_lines).join("\n")),
            asks: None,
            is_unreported: false,
            is_piped: false,
            lacks_exit_code: false,
            offset: ranges.first().map_or(0, |range| range.start),
            end: ranges.last().map_or(0, |range| range.end),
            version: Some(self.screen_version),
        };
        self.mark_screen();
        fill(&mut result);
        self.report_result(entry.log_number, entry.reply, Ok(result));
    }

    /// Returns the output of the current part of an entry, without the echo and the following prompt.
    fn entry_output(&self, entry: &PromptEntry) -> Range<u64> {
        let history = self.intake.transcript.history();
        let start = entry
            .echo_end
            .or_else(|| nth_line_end(history, entry.part_start, entry.echo_lines))
            .unwrap_or_else(|| history.end());
        let row = self.row_before_cursor();
        let is_at_prompt = matches!(entry.prompt.classify_row(&row), RowKind::Prompt { .. });
        let mut end = history.end();
        if is_at_prompt || self.shell.prompts > entry.prompts || self.pty.foreground() != entry.group {
            let open_line = history.open_line();
            let output_bytes = match (
                unfinished_line_bytes(open_line, self.intake.screen.size().cols),
                entry.prompt.classify_row(open_line),
            ) {
                (0, RowKind::Prompt { output_bytes }) => output_bytes,
                (unfinished, _) => unfinished,
            };
            end = end - open_line.len() as u64 + output_bytes as u64;
        }
        start..end.max(start)
    }
}

/// A tab for a line editor, after the key of `quoted-insert` (readline and ZLE, with the keys of Emacs or of vi).
const QUOTED_TAB: &str = "\x16\t";

/// Maximum size of an echo, in bytes. A line editor may redraw a long line many times.
const MAX_ECHO_BYTES: u64 = 4 << 20;

/// Returns the offset after the `nth` line end after `from`, counted from 1.
fn nth_line_end(history: &crate::history::History, from: u64, nth: usize) -> Option<u64> {
    let (start, text) = history.read(from..history.end().min(from + MAX_ECHO_BYTES));
    let mut ends = memchr::memchr_iter(b'\n', text.as_bytes());
    ends.nth(nth.checked_sub(1)?).map(|at| start + at as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_ends_when_its_prompt_is_stable() {
        let prompt = RowKind::Prompt { output_bytes: 0 };
        let milliseconds = Duration::from_millis;
        let cases = [
            (prompt, InputState::Awaits, 14, Verdict::NotYet),
            (prompt, InputState::Awaits, 15, Verdict::Complete),
            (prompt, InputState::Relays, 100, Verdict::NotYet),
            (prompt, InputState::Relays, 150, Verdict::Complete),
            (prompt, InputState::Works, 10_000, Verdict::NotYet),
            (RowKind::Continuation, InputState::Awaits, 120, Verdict::Incomplete),
            (RowKind::Continuation, InputState::Relays, 300, Verdict::NotYet),
            (RowKind::Continuation, InputState::Relays, 400, Verdict::Incomplete),
            (RowKind::Other, InputState::Awaits, 150, Verdict::AwaitsOtherInput),
            (RowKind::Other, InputState::Relays, 10_000, Verdict::NotYet),
            (RowKind::Other, InputState::Unknown, 10_000, Verdict::NotYet),
        ];
        for (row, state, silent, expected) in cases {
            assert_eq!(evaluate_row(row, state, milliseconds(silent), false), expected, "{row:?} {state:?} {silent}");
        }
        // The next line is typed as soon as the continuation prompt is shown.
        let continued = |state, silent| evaluate_row(RowKind::Continuation, state, milliseconds(silent), true);
        assert_eq!(continued(InputState::Awaits, 14), Verdict::NotYet);
        assert_eq!(continued(InputState::Awaits, 15), Verdict::Incomplete);
        assert_eq!(continued(InputState::Relays, 150), Verdict::Incomplete);
    }
}
