//! State of a shell, according to its marks.
//!
//! Owns no text and no process: marks and lines that were typed go in, and whether the shell is at
//! its prompt comes out.

use std::time::Duration;

use tokio::time::Instant;

use super::draft::Draft;
use crate::integration::{IntegrationSession, Kind};
use crate::process::{ProcessImage, name_of};
use crate::transcript::Mark;

/// The state of the shell, as derived from its marks.
#[derive(Debug, Default)]
pub(super) struct Shell {
    /// The agreement with it; nothing where the program is no reporting shell, or no longer one.
    pub(super) agreed: Option<IntegrationSession>,
    /// Its process, and the program in it at its first prompt. Of an inner shell, the first process of the foreground
    /// group when it was entered: the shell itself, or the program that passes on what it prints.
    pub(super) pid: i32,
    image: Option<ProcessImage>,
    /// The program that has taken the place of the shell in its process.
    pub(super) replaced_by: Option<String>,
    /// Time at which to see whether the command that has begun is such a program.
    pub(super) look_at: Option<Instant>,
    /// The time from that look to the next one.
    look_again: Duration,
    /// Prompts seen so far.
    pub(super) prompts: u64,
    pub(super) at_prompt: bool,
    /// A prompt was shown last, and no command has begun since. It may be one for which lines were typed ahead.
    pub(super) shows_prompt: bool,
    /// The text at the prompt, not entered yet.
    pub(super) draft: Draft,
    /// Enter was typed and the shell has not come back to its prompt since.
    pub(super) sent: bool,
    /// Lines that were typed and that the shell has not been seen to take.
    untaken: usize,
    /// A command has begun since the last prompt.
    took: bool,
    /// A line was taken or a command ended since the last prompt, so that the next one is not the same drawn again.
    fresh: bool,
    /// The prompt is shown and the line editor is about to begin: zsh reports that a moment later.
    begins: bool,
    /// A line was taken since the last prompt, whatever came of it.
    line_taken: bool,
    /// A prompt of which it is not known yet whether the shell reads at it.
    pub(super) doubt: Option<Doubt>,
    pub(super) running: bool,
    /// Start time of the last command.
    pub(super) began: Option<Instant>,
    pub(super) last_exit: Option<i32>,
    /// It runs within the terminal's own program, such as `ssh` or another shell.
    pub(super) is_inner: bool,
    /// `last_exit` is that of the last line that was entered: not if the shell ran nothing of it.
    pub(super) knows_exit: bool,
    /// The directory that was reported (OSC 7), by the running command or by a program that reports nothing else.
    pub(super) folder: Option<String>,
}

/// A prompt that counts once the shell is seen to read at it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Doubt {
    pub(super) prompt: DoubtfulPrompt,
    pub(super) look_at: Instant,
    pause: Duration,
    is_new: bool,
}

/// Reason why a prompt may not be the awaited one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DoubtfulPrompt {
    /// It was shown while lines were untaken: typed ahead, or read by a program. Or zsh is about to begin its editor,
    /// which it does not report where the user has turned pastes off.
    Shown,
    /// Its mark may have been printed by a command, or its end has no mark.
    Claimed,
}

impl Doubt {
    /// Time in which a shell takes the next line that was typed ahead, and begins to read behind its prompt.
    const FIRST_PAUSE: Duration = Duration::from_millis(30);
    /// The same where another machine or terminal is between, so that nothing but time shows it.
    const RELAYED: Duration = Duration::from_millis(300);
    const MAX_PAUSE: Duration = Duration::from_secs(1);

    fn new(prompt: DoubtfulPrompt, pause: Duration) -> Self {
        Self { prompt, look_at: Instant::now() + pause, pause, is_new: true }
    }

    /// Looks again after a longer pause.
    pub(super) fn again(self) -> Self {
        Self { is_new: false, ..Self::new(self.prompt, (2 * self.pause).min(Self::MAX_PAUSE)) }
    }

    /// Returns whether it was not looked at yet: what reads then may be the shell, at its prompt.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }
}

/// Time after its beginning at which a command that replaces the shell has usually done so. Each further look takes
/// twice as long, because a busy machine may start the program late.
const REPLACES_SHELL: Duration = Duration::from_millis(100);

/// The longest time between two looks; after that one, nothing is looked for any more.
const LAST_LOOK: Duration = Duration::from_secs(13);

impl Shell {
    pub(super) fn new(agreed: Option<IntegrationSession>, pid: i32) -> Self {
        Self { agreed, pid, ..Self::default() }
    }

    /// Enters a shell within `outer`, which shows its prompt. Prompts are counted on.
    pub(super) fn enter(agreed: IntegrationSession, pid: i32, outer: &Self) -> Self {
        let (folder, prompts) = (None, outer.prompts);
        Self { agreed: Some(agreed), pid, folder, prompts, fresh: true, is_inner: true, ..Self::default() }
    }

    /// Goes back to this shell, in which `inner` has ended.
    pub(super) fn resume(&mut self, inner: &Self) {
        self.prompts = inner.prompts;
    }

    /// Returns whether the program that was entered is gone. A shell that the terminal itself started is its own
    /// program.
    pub(super) fn has_left(&self) -> bool {
        self.is_inner && ProcessImage::of(self.pid).is_none()
    }

    /// Returns whether it reports its state.
    pub(super) fn is_reporting(&self) -> bool {
        self.agreed.is_some() && self.prompts > 0
    }

    /// Returns whether it waits for a command.
    pub(super) fn is_idle(&self) -> bool {
        self.is_reporting() && self.at_prompt && !self.sent && !self.running
    }

    /// Returns whether its command has ended, as far as is known. fish reads keys again before it reports that.
    pub(super) fn is_between_commands(&self) -> bool {
        !self.running || self.agreed.as_ref().is_some_and(|agreed| agreed.kind == Kind::Fish)
    }

    /// Returns whether lines were typed that the shell has not taken.
    pub(super) fn has_untaken_lines(&self) -> bool {
        self.untaken > 0
    }

    pub(super) fn send_off(&mut self, lines: usize) {
        self.sent = true;
        self.knows_exit = false;
        self.at_prompt = false;
        self.untaken += lines;
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
            // Line editors draw their prompt again when the screen changes; nothing has happened then.
            Mark::PromptReady if !std::mem::take(&mut self.fresh) => {}
            Mark::PromptReady => {
                // A command whose end was not reported has ended all the same, with an unknown exit code.
                if self.running {
                    self.last_exit = None;
                }
                self.running = false;
                self.look_at = None;
                // An inner shell reports its own directory with its prompt.
                if !self.is_inner {
                    self.folder = None;
                }
                // An empty line is taken without a command. An unread line is not taken.
                let is_taken = std::mem::take(&mut self.line_taken);
                if !std::mem::take(&mut self.took) && is_taken {
                    self.untaken = self.untaken.saturating_sub(1);
                }
                if self.untaken > 0 {
                    // Lines typed ahead, or lines that a program has read: which, the next moment shows.
                    let pause = if self.is_inner { Doubt::RELAYED } else { Doubt::FIRST_PAUSE };
                    self.doubt = Some(Doubt::new(DoubtfulPrompt::Shown, pause));
                } else if self.agreed.as_ref().is_some_and(|agreed| agreed.kind == Kind::Zsh) {
                    self.begins = true;
                    self.doubt = Some(Doubt::new(DoubtfulPrompt::Shown, Doubt::FIRST_PAUSE));
                } else {
                    self.come_to_prompt();
                }
            }
            Mark::PromptClaimed => {
                self.fresh = true;
                self.doubt = Some(Doubt::new(DoubtfulPrompt::Claimed, Doubt::FIRST_PAUSE));
            }
            Mark::CommandStarted => {
                self.running = true;
                self.began = Some(Instant::now());
                self.knows_exit = false;
                self.at_prompt = false;
                self.took = true;
                self.begins = false;
                if !self.is_inner {
                    self.folder = None;
                }
                self.untaken = self.untaken.saturating_sub(1);
                self.look_at = Some(Instant::now() + REPLACES_SHELL);
                self.look_again = 2 * REPLACES_SHELL;
            }
            Mark::CommandEnded(code) => {
                self.fresh = true;
                // The first prompt of a shell reports an end of nothing.
                if std::mem::take(&mut self.running) {
                    self.knows_exit = true;
                    self.last_exit = *code;
                }
            }
            Mark::LineTaken => {
                self.fresh = true;
                self.line_taken = true;
            }
            Mark::EditorReady => {
                if self.begins {
                    self.come_to_prompt();
                }
            }
            Mark::Folder(folder) => self.folder = Some(folder.clone()),
            Mark::MoreWanted | Mark::Answered | Mark::InnerShellEnded | Mark::LineRefused => {}
        }
    }

    /// Looks for a program in the place of the shell, and plans the next look. Another program may have the foreground
    /// before: nothing reports that it has ended and the next one takes the place of the shell.
    pub(super) fn look_for_replacement(&mut self) {
        self.look_at = None;
        self.notice_replacement();
        if self.running && self.look_again <= LAST_LOOK {
            self.look_at = Some(Instant::now() + self.look_again);
            self.look_again *= 2;
        }
    }

    /// Notes that the prompt is shown, and nothing that was typed is still to be taken.
    pub(super) fn come_to_prompt(&mut self) {
        if self.image.is_none() {
            self.image = ProcessImage::of(self.pid);
        }
        self.prompts += 1;
        self.at_prompt = true;
        self.sent = false;
        self.untaken = 0;
        self.begins = false;
        self.doubt = None;
        self.draft.comes_to_prompt();
    }

    /// Returns whether its process runs another program by now, as after `exec sh`; looked up while a command runs.
    pub(super) fn is_replaced(&self) -> bool {
        self.running && self.image.is_some() && ProcessImage::of(self.pid).is_some_and(|now| Some(now) != self.image)
    }

    /// Returns whether a process is the shell itself once more, or no program yet: it was forked for a command and has not
    /// executed that.
    pub(super) fn is_forked(&self, pid: i32) -> bool {
        self.image.is_some() && ProcessImage::of(pid).is_none_or(|image| Some(image) == self.image)
    }

    /// Notes it if another program has taken the place of the shell: there will be no more prompts.
    pub(super) fn notice_replacement(&mut self) {
        if self.is_replaced() {
            self.replaced_by = Some(name_of(self.pid).unwrap_or_default());
            self.agreed = None;
            self.running = false;
            self.sent = false;
            self.last_exit = None;
            self.doubt = None;
            self.look_at = None;
        }
    }
}
