//! State of a shell, derived from its marks.
//!
//! Owns no text and no process. Marks and typed lines show whether the shell is at its prompt.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::draft::Draft;
use crate::integration::{IntegrationSession, Kind};
use crate::process::{ProcessImage, process_name};
use crate::transcript::Mark;

/// The state of a shell.
#[derive(Debug, Default)]
pub(super) struct Shell {
    /// The integration session. `None` if the program is not a reporting shell, or no longer.
    pub(super) integration: Option<IntegrationSession>,
    /// The process. For an inner shell, the first process of the foreground group when the terminal entered it: the
    /// shell itself, or a relay of its output.
    pub(super) pid: i32,
    /// The program in its process at the first prompt.
    image: Option<ProcessImage>,
    /// The program that has replaced the shell in its process.
    pub(super) replaced_by: Option<String>,
    /// Time of the next check for a replacement.
    pub(super) next_check: Option<Instant>,
    /// The pause between the next check and the following one.
    check_pause: Duration,
    /// Number of prompts so far.
    pub(super) prompts: u64,
    pub(super) at_prompt: bool,
    /// True if the shell has shown a prompt and no command has begun since. Lines typed ahead may belong to it.
    pub(super) shows_prompt: bool,
    /// The unentered text at the prompt.
    pub(super) draft: Draft,
    /// True if the shell has not returned to its prompt since the last Enter.
    pub(super) sent: bool,
    /// Number of typed lines that the shell has not read according to its marks.
    unread_lines: usize,
    /// Number of all lines typed so far.
    lines: u64,
    /// The last lines of clients and runs, oldest first.
    last_lines: VecDeque<ClientLine>,
    /// True if a command has begun since the last prompt.
    has_begun: bool,
    /// True if the shell read a line or a command ended since the last prompt, so the next prompt is not a redraw.
    expects_new_prompt: bool,
    /// True if the prompt is shown and the line editor has not begun. zsh reports its line editor a moment later.
    awaits_editor: bool,
    /// True if the shell read a line since the last prompt, with or without a command.
    line_taken: bool,
    /// A prompt that may not be the awaited one.
    pub(super) doubt: Option<UnconfirmedPrompt>,
    pub(super) running: bool,
    /// Start time of the last command.
    pub(super) command_start: Option<Instant>,
    pub(super) last_exit: Option<i32>,
    /// True if the shell runs within the terminal's own program, such as `ssh` or another shell.
    pub(super) is_inner: bool,
    /// True if `last_exit` belongs to the last entered line. False if the shell ran no part of this line.
    pub(super) is_exit_current: bool,
    /// True if the last typed line contains something to run.
    has_text: bool,
    /// True if a command has begun between the last typed line and the following prompt.
    has_run: bool,
    /// True at the prompt after a line that contained something to run, if the shell ran no part of it.
    ran_nothing: bool,
    /// The directory reported by the running command, or by a program without other marks (OSC 7).
    pub(super) directory: Option<String>,
}

/// The last line or command of a client or run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientLine {
    by: String,
    /// The offset of the output at its input.
    offset: u64,
    /// The number among all lines.
    number: u64,
    /// True if the line contains something to run.
    has_text: bool,
    /// The exit code at the prompt after the line, once the prompt was shown.
    outcome: Option<Option<i32>>,
    /// True if the line contains something to run, but the shell ran no part of it.
    ran_nothing: bool,
}

/// Maximum number of stored lines of clients.
const MAX_LAST_LINES: usize = 64;

/// A prompt that counts once the shell reads input at it.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnconfirmedPrompt {
    pub(super) prompt: DoubtfulPrompt,
    pub(super) next_check: Instant,
    pause: Duration,
    is_new: bool,
}

/// Reason why a prompt may not be the awaited one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DoubtfulPrompt {
    /// The prompt appeared before the shell read all lines: they were typed ahead, or read by a program. Or the shell
    /// is about to start its editor: ksh does not report that, nor does zsh if the user has disabled pastes.
    Shown,
    /// A command may have printed the mark of the prompt, or the end of the prompt has no mark.
    Claimed,
}

impl UnconfirmedPrompt {
    /// Pause for a shell to read the next line typed ahead, and to begin to read after its prompt.
    const MIN_PAUSE: Duration = Duration::from_millis(30);
    /// [`Self::MIN_PAUSE`] of a shell behind a relay, because the shell's state is not visible.
    const RELAYED_PAUSE: Duration = Duration::from_millis(300);
    /// Pause for a shell to set the terminal's modes after its prompt.
    const MODES_PAUSE: Duration = Duration::from_millis(3);
    /// Pause for a shell to draw its prompt again after Ctrl-C.
    const INTERRUPT_PAUSE: Duration = Duration::from_millis(300);
    const MAX_PAUSE: Duration = Duration::from_secs(1);

    fn new(prompt: DoubtfulPrompt, pause: Duration) -> Self {
        Self { prompt, next_check: Instant::now() + pause, pause, is_new: true }
    }

    /// Postpones the next check by a doubled pause.
    pub(super) fn postpone(self) -> Self {
        Self { is_new: false, ..Self::new(self.prompt, (2 * self.pause).min(Self::MAX_PAUSE)) }
    }

    /// Returns whether no check was postponed yet. The reader may then be the shell at its prompt.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }
}

/// Delay of the first check for a replacement of the shell. The pauses between further checks double, because a busy
/// machine may start the program late.
const REPLACEMENT_TIME: Duration = Duration::from_millis(100);

/// Maximum pause between two checks. The check after this pause is the last.
const MAX_CHECK_PAUSE: Duration = Duration::from_secs(13);

impl Shell {
    pub(super) fn new(integration: Option<IntegrationSession>, pid: i32) -> Self {
        Self { integration, pid, ..Self::default() }
    }

    /// Enters an inner shell that shows its prompt. Continues the count of prompts of `outer`.
    pub(super) fn enter(integration: IntegrationSession, pid: i32, outer: &Self) -> Self {
        let (directory, prompts) = (None, outer.prompts);
        Self {
            integration: Some(integration),
            pid,
            directory,
            prompts,
            expects_new_prompt: true,
            is_inner: true,
            ..Self::default()
        }
    }

    /// Returns to this shell after the end of `inner`.
    pub(super) fn resume(&mut self, inner: &Self) {
        self.prompts = inner.prompts;
    }

    /// Returns whether the program of an inner shell has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.is_inner && ProcessImage::read(self.pid).is_none()
    }

    /// Returns whether the shell reports its state.
    pub(super) fn is_reporting(&self) -> bool {
        self.integration.is_some() && self.prompts > 0
    }

    /// Returns whether the shell waits for a command.
    pub(super) fn is_idle(&self) -> bool {
        self.is_reporting() && self.at_prompt && !self.sent && !self.running
    }

    /// Returns whether its command may have ended. fish reads keys again before it reports the end.
    pub(super) fn is_between_commands(&self) -> bool {
        !self.running || self.integration.as_ref().is_some_and(|integration| integration.kind == Kind::Fish)
    }

    /// Returns whether there are typed lines that the shell has not read.
    pub(super) fn has_unread_lines(&self) -> bool {
        self.unread_lines > 0
    }

    /// Records lines typed by a client or run `by`, whose input began at `offset` of the output. `has_text` is false if
    /// they contain nothing to run.
    pub(super) fn record_lines(&mut self, lines: usize, has_text: bool, by: Option<&str>, offset: u64) {
        // Before the first prompt, startup files of the shell may read the lines.
        let has_text = has_text && self.prompts > 0;
        (self.has_text, self.has_run, self.ran_nothing) = (has_text, false, false);
        self.sent = true;
        self.is_exit_current = false;
        self.at_prompt = false;
        // The editor that is about to begin may read these lines first, so its mark no longer confirms the prompt.
        self.awaits_editor = false;
        self.unread_lines += lines;
        self.lines += lines as u64;
        if let Some(by) = by {
            let (by, number) = (by.to_owned(), self.lines);
            self.last_lines.push_back(ClientLine { by, offset, number, has_text, outcome: None, ran_nothing: false });
            if self.last_lines.len() > MAX_LAST_LINES {
                self.last_lines.pop_front();
            }
        }
    }

    /// Returns the number of the last line.
    pub(super) fn last_line(&self) -> u64 {
        self.lines
    }

    /// Returns the number of the last line that a client typed at or before offset `since`, unless its prompt was
    /// shown.
    pub(super) fn line_before(&self, by: &str, since: u64) -> Option<u64> {
        let line = self.last_lines.iter().rev().find(|line| line.by == by && line.offset <= since)?;
        line.outcome.is_none().then_some(line.number)
    }

    /// Returns the exit code at the prompt after a client's line, if the prompt was shown.
    pub(super) fn line_outcome(&self, number: u64) -> Option<Option<i32>> {
        self.last_lines.iter().find(|line| line.number == number).and_then(|line| line.outcome)
    }

    /// Returns whether the shell ran no part of a client's line, although it contains something to run.
    pub(super) fn line_ran_nothing(&self, number: u64) -> bool {
        self.last_lines.iter().any(|line| line.number == number && line.ran_nothing)
    }

    /// Returns whether this client typed the last line, and the shell ran no part of it.
    pub(super) fn last_line_ran_nothing(&self, by: &str) -> bool {
        self.ran_nothing && self.last_lines.back().is_some_and(|line| line.by == by && line.number == self.lines)
    }

    /// Records that Ctrl-C cancels the line at the prompt. The shell then shows a new prompt, except fish at an empty
    /// line.
    pub(super) fn expect_prompt(&mut self) {
        if self.at_prompt && !self.running {
            (self.at_prompt, self.expects_new_prompt) = (false, true);
            self.doubt = Some(UnconfirmedPrompt::new(DoubtfulPrompt::Shown, UnconfirmedPrompt::INTERRUPT_PAUSE));
        }
    }

    /// Records Ctrl-C, the cancellation of a line that the shell has not run.
    pub(super) fn give_up_line(&mut self) {
        (self.has_text, self.ran_nothing) = (false, false);
        self.last_lines.iter_mut().filter(|line| line.outcome.is_none()).for_each(|line| line.has_text = false);
    }

    /// Returns whether the prompt after a client's line was shown, and the shell runs or has further lines.
    pub(super) fn is_past(&self, number: u64) -> bool {
        self.line_outcome(number).is_some() && (self.running || self.unread_lines > 0)
    }

    /// Records the outcome of all lines that the shell has read.
    fn record_outcomes(&mut self, exit_code: Option<i32>, has_run: bool) {
        let read_lines = self.lines - self.unread_lines as u64;
        for line in self.last_lines.iter_mut().filter(|line| line.number <= read_lines && line.outcome.is_none()) {
            line.outcome = Some(exit_code);
            line.ran_nothing = line.has_text && !has_run;
        }
    }

    pub(super) fn apply(&mut self, mark: &Mark) {
        match mark {
            Mark::PromptReady => self.shows_prompt = true,
            Mark::CommandStarted => self.shows_prompt = false,
            _ => {}
        }
        if matches!(mark, Mark::LineTaken | Mark::CommandStarted | Mark::CommandEnded(_)) {
            self.doubt = None;
        }
        match mark {
            // Ignore a redraw of the prompt, as after a change of the size.
            Mark::PromptReady if !std::mem::take(&mut self.expects_new_prompt) => {}
            Mark::PromptReady => {
                // A command without a mark of its end has ended with an unknown exit code.
                if self.running {
                    self.last_exit = None;
                }
                self.running = false;
                self.next_check = None;
                // An inner shell reports its own directory with its prompt.
                if !self.is_inner {
                    self.directory = None;
                }
                // The shell reads an empty line without running a command.
                let was_read = std::mem::take(&mut self.line_taken);
                let has_begun = std::mem::take(&mut self.has_begun);
                if !has_begun && was_read {
                    self.unread_lines = self.unread_lines.saturating_sub(1);
                }
                if has_begun {
                    self.has_run = true;
                } else if was_read && self.sent {
                    // The exit code belongs to an earlier command.
                    (self.has_run, self.is_exit_current) = (false, false);
                }
                self.record_outcomes(self.last_exit.filter(|_| has_begun), self.has_run);
                if self.unread_lines > 0 {
                    // The lines were typed ahead, or a program has read them. A later check decides.
                    let pause =
                        if self.is_inner { UnconfirmedPrompt::RELAYED_PAUSE } else { UnconfirmedPrompt::MIN_PAUSE };
                    self.doubt = Some(UnconfirmedPrompt::new(DoubtfulPrompt::Shown, pause));
                } else {
                    match self.integration.as_ref().map(|integration| integration.kind) {
                        Some(Kind::Zsh) => {
                            self.awaits_editor = true;
                            self.doubt =
                                Some(UnconfirmedPrompt::new(DoubtfulPrompt::Shown, UnconfirmedPrompt::MIN_PAUSE));
                        }
                        // ksh sets the terminal's modes after its prompt. Before that, the kernel would echo typed
                        // lines.
                        Some(Kind::Posix) => {
                            self.doubt =
                                Some(UnconfirmedPrompt::new(DoubtfulPrompt::Shown, UnconfirmedPrompt::MODES_PAUSE));
                        }
                        Some(Kind::Bash | Kind::Fish) | None => self.record_prompt(),
                    }
                }
            }
            Mark::PromptClaimed => {
                self.expects_new_prompt = true;
                self.doubt = Some(UnconfirmedPrompt::new(DoubtfulPrompt::Claimed, UnconfirmedPrompt::MIN_PAUSE));
            }
            Mark::CommandStarted => {
                // A shell may run the next line typed ahead without a prompt before it.
                if self.has_begun && !self.running {
                    self.record_outcomes(self.last_exit, true);
                }
                self.running = true;
                self.command_start = Some(Instant::now());
                self.is_exit_current = false;
                self.at_prompt = false;
                self.has_begun = true;
                self.awaits_editor = false;
                if !self.is_inner {
                    self.directory = None;
                }
                self.unread_lines = self.unread_lines.saturating_sub(1);
                self.next_check = Some(Instant::now() + REPLACEMENT_TIME);
                self.check_pause = 2 * REPLACEMENT_TIME;
            }
            Mark::CommandEnded(code) => {
                self.expects_new_prompt = true;
                // At its first prompt, a shell reports an end without a command.
                if std::mem::take(&mut self.running) {
                    self.is_exit_current = true;
                    self.last_exit = *code;
                }
            }
            Mark::LineTaken => {
                self.expects_new_prompt = true;
                self.line_taken = true;
            }
            Mark::EditorReady => {
                if self.awaits_editor {
                    self.record_prompt();
                }
            }
            Mark::Directory(directory) => self.directory = Some(directory.clone()),
            Mark::MoreWanted
            | Mark::Answered
            | Mark::InnerShellEnded
            | Mark::LineRefused
            | Mark::HookBegan
            | Mark::HookEnded
            | Mark::OutputPiped => {}
        }
    }

    /// Checks for a program that has replaced the shell and schedules the next check. No mark reports a replacement.
    pub(super) fn check_replacement(&mut self) {
        self.next_check = None;
        self.record_replacement();
        if self.running && self.check_pause <= MAX_CHECK_PAUSE {
            self.next_check = Some(Instant::now() + self.check_pause);
            self.check_pause *= 2;
        }
    }

    /// Records that the shell shows its prompt and has read all typed lines.
    pub(super) fn record_prompt(&mut self) {
        if self.image.is_none() {
            self.image = ProcessImage::read(self.pid);
        }
        self.prompts += 1;
        self.at_prompt = true;
        let has_run = self.has_run || self.is_exit_current;
        self.ran_nothing = self.sent && self.has_text && !has_run;
        self.sent = false;
        self.unread_lines = 0;
        self.record_outcomes(self.last_exit.filter(|_| self.is_exit_current), has_run);
        self.awaits_editor = false;
        self.doubt = None;
        self.draft.record_prompt();
    }

    /// Returns whether its process now runs another program, as after `exec sh`. False unless a command runs.
    pub(super) fn is_replaced(&self) -> bool {
        self.running
            && self.image.is_some()
            && ProcessImage::read(self.pid).is_some_and(|image| Some(image) != self.image)
    }

    /// Returns whether a process is the shell itself, or a fork that has not executed its command yet.
    pub(super) fn is_forked(&self, pid: i32) -> bool {
        self.image.is_some() && ProcessImage::read(pid).is_none_or(|image| Some(image) == self.image)
    }

    /// Records a replacement of the shell by another program, without prompts.
    pub(super) fn record_replacement(&mut self) {
        if self.is_replaced() {
            self.replaced_by = Some(process_name(self.pid).unwrap_or_default());
            self.integration = None;
            self.running = false;
            self.sent = false;
            self.last_exit = None;
            self.doubt = None;
            self.next_check = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell_showing_its_prompt(kind: Kind) -> Shell {
        let integration = IntegrationSession { kind, nonce: String::new(), files: None };
        let mut shell = Shell { expects_new_prompt: true, ..Shell::new(Some(integration), 0) };
        shell.apply(&Mark::PromptReady);
        shell
    }

    /// Returns a shell at its prompt.
    fn shell_at_prompt() -> Shell {
        let shell = shell_showing_its_prompt(Kind::Bash);
        assert!(shell.is_idle());
        shell
    }

    fn apply(shell: &mut Shell, marks: impl IntoIterator<Item = Mark>) {
        for mark in marks {
            shell.apply(&mark);
        }
    }

    fn command(exit_code: i32) -> [Mark; 3] {
        [Mark::LineTaken, Mark::CommandStarted, Mark::CommandEnded(Some(exit_code))]
    }

    #[test]
    fn shell_setting_modes_after_its_prompt_is_busy_until_it_reads() {
        for kind in [Kind::Zsh, Kind::Posix] {
            let mut shell = shell_showing_its_prompt(kind);
            assert!(!shell.is_idle() && shell.doubt.is_some(), "{kind:?}");
            shell.record_prompt();
            assert!(shell.is_idle() && shell.doubt.is_none(), "{kind:?}");
        }
    }

    /// A client types between the prompt and the mark of the line editor.
    #[test]
    fn line_typed_before_the_editor_starts_stays_pending() {
        let mut shell = shell_showing_its_prompt(Kind::Zsh);
        shell.record_lines(1, true, Some("one"), 10);
        let line = shell.line_before("one", 10).unwrap();
        shell.apply(&Mark::EditorReady);
        assert!(!shell.is_idle() && shell.has_unread_lines(), "the line is still unread");
        assert!(shell.doubt.is_some(), "a doubtful prompt is checked");
        apply(&mut shell, command(4));
        apply(&mut shell, [Mark::PromptReady, Mark::EditorReady]);
        assert!(shell.is_idle());
        assert_eq!(shell.line_outcome(line), Some(Some(4)));
    }

    /// Two clients type one line each before the first command ends.
    #[test]
    fn each_client_has_the_outcome_of_its_own_line() {
        for has_prompt_between in [true, false] {
            let mut shell = shell_at_prompt();
            shell.record_lines(1, true, Some("one"), 10);
            shell.record_lines(1, true, Some("other"), 20);
            let lines = [("one", 10), ("other", 20)].map(|(by, offset)| shell.line_before(by, offset).unwrap());
            let outcomes = |shell: &Shell| lines.map(|line| shell.line_outcome(line));
            apply(&mut shell, command(1));
            if has_prompt_between {
                shell.apply(&Mark::PromptReady);
                assert_eq!(outcomes(&shell), [Some(Some(1)), None]);
                assert_eq!(lines.map(|line| shell.is_past(line)), [true, false]);
            }
            apply(&mut shell, command(0));
            shell.apply(&Mark::PromptReady);
            assert_eq!(outcomes(&shell), [Some(Some(1)), Some(Some(0))]);
            assert!(shell.is_idle(), "no line is left to run");
        }
    }

    #[test]
    fn line_read_by_a_program_has_its_outcome() {
        let mut shell = shell_at_prompt();
        shell.record_lines(1, true, Some("one"), 10);
        apply(&mut shell, [Mark::LineTaken, Mark::CommandStarted]);
        shell.record_lines(1, true, Some("one"), 20);
        let answer = shell.line_before("one", 20).unwrap();
        apply(&mut shell, [Mark::CommandEnded(Some(4)), Mark::PromptReady]);
        assert_eq!(shell.line_outcome(answer), None, "the line may still be unread");
        shell.record_prompt();
        assert_eq!(shell.line_outcome(answer), Some(Some(4)));
    }

    #[test]
    fn line_without_effect_is_recognised_at_the_next_prompt() {
        let nothing = [Mark::LineTaken, Mark::CommandEnded(Some(0)), Mark::PromptReady];
        let sent = |shell: &mut Shell, has_text| {
            shell.record_lines(1, has_text, Some("one"), 10);
            shell.line_before("one", 10).unwrap()
        };
        for (has_text, is_given_up, expected) in [(true, false, true), (false, false, false), (true, true, false)] {
            let mut shell = shell_at_prompt();
            let line = sent(&mut shell, has_text);
            if is_given_up {
                shell.give_up_line();
            }
            apply(&mut shell, nothing.clone());
            assert_eq!(shell.line_outcome(line), Some(None));
            assert_eq!((shell.line_ran_nothing(line), shell.last_line_ran_nothing("one")), (expected, expected));
            assert!(!shell.last_line_ran_nothing("other"));
        }
        // Typed while a command runs, with a prompt in the meantime.
        let mut shell = shell_at_prompt();
        shell.record_lines(1, true, Some("other"), 5);
        apply(&mut shell, [Mark::LineTaken, Mark::CommandStarted]);
        let line = sent(&mut shell, true);
        apply(&mut shell, [Mark::CommandEnded(Some(0)), Mark::PromptReady]);
        apply(&mut shell, nothing);
        assert_eq!((shell.line_outcome(line), shell.line_ran_nothing(line)), (Some(None), true));
        // A command without an end mark has run.
        let line = sent(&mut shell, true);
        apply(&mut shell, [Mark::LineTaken, Mark::CommandStarted, Mark::PromptReady]);
        assert!(!shell.line_ran_nothing(line) && !shell.last_line_ran_nothing("one"));
        // The start-up files of a shell may read a line before its first prompt.
        let mut shell = Shell { expects_new_prompt: true, ..Shell::new(shell.integration, 0) };
        let line = sent(&mut shell, true);
        apply(&mut shell, [Mark::PromptReady]);
        shell.record_prompt();
        assert!(!shell.line_ran_nothing(line));
    }

    #[test]
    fn wait_begins_at_the_last_line_of_its_client() {
        let mut shell = shell_at_prompt();
        for (by, offset) in [("one", 10), ("other", 20), ("one", 30)] {
            shell.record_lines(1, true, Some(by), offset);
        }
        for (by, since, line) in
            [("one", 9, None), ("one", 10, Some(1)), ("one", 29, Some(1)), ("one", 30, Some(3)), ("other", 90, Some(2))]
        {
            assert_eq!(shell.line_before(by, since), line, "{by} {since}");
        }
    }
}
