//! State of a shell, according to its marks.
//!
//! Owns no text and no process: marks and typed lines go in, and whether the shell is at its prompt
//! comes out.

use std::time::Duration;

use tokio::time::Instant;

use super::draft::Draft;
use crate::integration::{IntegrationSession, Kind};
use crate::process::{ProcessImage, name_of};
use crate::transcript::Mark;

/// The state of the shell, as derived from its marks.
#[derive(Debug, Default)]
pub(super) struct Shell {
    /// The agreement with it; none if the program is not a reporting shell, or no longer one.
    pub(super) integration: Option<IntegrationSession>,
    /// Its process, and the program in it at its first prompt. Of an inner shell, the first process of the foreground
    /// group when the terminal entered it: the shell itself, or the program that passes on what it prints.
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
    /// The shell has shown a prompt, and no command has begun since. Lines typed ahead may belong to it.
    pub(super) shows_prompt: bool,
    /// The text at the prompt, not entered yet.
    pub(super) draft: Draft,
    /// The shell has not come back to its prompt since the last Enter.
    pub(super) sent: bool,
    /// Typed lines that the shell has not taken according to its marks.
    untaken: usize,
    /// A command has begun since the last prompt.
    took: bool,
    /// The shell took a line or a command ended since the last prompt, so that the next one is not the same drawn
    /// again.
    fresh: bool,
    /// The prompt is there and the line editor is about to begin: zsh reports that a moment later.
    begins: bool,
    /// The shell took a line since the last prompt, with a command or without.
    line_taken: bool,
    /// A prompt at which the shell may not read yet.
    pub(super) doubt: Option<Doubt>,
    pub(super) running: bool,
    /// Start time of the last command.
    pub(super) began: Option<Instant>,
    pub(super) last_exit: Option<i32>,
    /// True if it runs within the terminal's own program, such as `ssh` or another shell.
    pub(super) is_inner: bool,
    /// `last_exit` is that of the last entered line: not if the shell ran nothing of it.
    pub(super) knows_exit: bool,
    /// The directory that the running command, or a program that reports nothing else, has reported (OSC 7).
    pub(super) folder: Option<String>,
}

/// A prompt that counts once the shell reads at it.
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
    /// The prompt appeared while lines were untaken: typed ahead, or read by a program. Or zsh is about to begin its
    /// editor, which it does not report where the user has turned pastes off.
    Shown,
    /// A command may have printed its mark, or its end has no mark.
    Claimed,
}

impl Doubt {
    /// Time in which a shell takes the next line typed ahead, and begins to read after its prompt.
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

    /// Returns whether there was no look at it yet: the reader may be the shell then, at its prompt.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }
}

/// Time after its beginning at which a command that replaces the shell has usually done so. Each further look takes
/// twice as long, because a busy machine may start the program late.
const REPLACES_SHELL: Duration = Duration::from_millis(100);

/// The longest time between two looks; the look after it is the last.
const LAST_LOOK: Duration = Duration::from_secs(13);

impl Shell {
    pub(super) fn new(integration: Option<IntegrationSession>, pid: i32) -> Self {
        Self { integration, pid, ..Self::default() }
    }

    /// Enters a shell within `outer`, which shows its prompt. The count of prompts continues.
    pub(super) fn enter(integration: IntegrationSession, pid: i32, outer: &Self) -> Self {
        let (folder, prompts) = (None, outer.prompts);
        Self { integration: Some(integration), pid, folder, prompts, fresh: true, is_inner: true, ..Self::default() }
    }

    /// Goes back to this shell, in which `inner` has ended.
    pub(super) fn resume(&mut self, inner: &Self) {
        self.prompts = inner.prompts;
    }

    /// Returns whether the program of an inner shell has ended. A shell that the terminal itself started is its own
    /// program.
    pub(super) fn has_left(&self) -> bool {
        self.is_inner && ProcessImage::read(self.pid).is_none()
    }

    /// Returns whether it reports its state.
    pub(super) fn is_reporting(&self) -> bool {
        self.integration.is_some() && self.prompts > 0
    }

    /// Returns whether it waits for a command.
    pub(super) fn is_idle(&self) -> bool {
        self.is_reporting() && self.at_prompt && !self.sent && !self.running
    }

    /// Returns whether its command seems to have ended. fish reads keys again before it reports that.
    pub(super) fn is_between_commands(&self) -> bool {
        !self.running || self.integration.as_ref().is_some_and(|integration| integration.kind == Kind::Fish)
    }

    /// Returns whether there are typed lines that the shell has not taken.
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
                // A command without a report of its end has ended anyway, with an unknown exit code.
                if self.running {
                    self.last_exit = None;
                }
                self.running = false;
                self.look_at = None;
                // An inner shell reports its own directory with its prompt.
                if !self.is_inner {
                    self.folder = None;
                }
                // The shell takes an empty line without a command. An unread line is not taken.
                let is_taken = std::mem::take(&mut self.line_taken);
                if !std::mem::take(&mut self.took) && is_taken {
                    self.untaken = self.untaken.saturating_sub(1);
                }
                if self.untaken > 0 {
                    // Lines typed ahead, or lines that a program has read: which, the next moment shows.
                    let pause = if self.is_inner { Doubt::RELAYED } else { Doubt::FIRST_PAUSE };
                    self.doubt = Some(Doubt::new(DoubtfulPrompt::Shown, pause));
                } else if self.integration.as_ref().is_some_and(|integration| integration.kind == Kind::Zsh) {
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

    /// Records that the shell shows its prompt, and has taken all typed lines.
    pub(super) fn come_to_prompt(&mut self) {
        if self.image.is_none() {
            self.image = ProcessImage::read(self.pid);
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
        self.running && self.image.is_some() && ProcessImage::read(self.pid).is_some_and(|now| Some(now) != self.image)
    }

    /// Returns whether a process is the shell itself once more, or no program yet: a fork for a command that it has not
    /// executed.
    pub(super) fn is_forked(&self, pid: i32) -> bool {
        self.image.is_some() && ProcessImage::read(pid).is_none_or(|image| Some(image) == self.image)
    }

    /// Records it if another program has taken the place of the shell: there will be no more prompts.
    pub(super) fn notice_replacement(&mut self) {
        if self.is_replaced() {
            self.replaced_by = Some(name_of(self.pid).unwrap_or_default());
            self.integration = None;
            self.running = false;
            self.sent = false;
            self.last_exit = None;
            self.doubt = None;
            self.look_at = None;
        }
    }
}
