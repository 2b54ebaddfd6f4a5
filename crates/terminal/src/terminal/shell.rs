//! What a shell is doing, as its marks tell it.
//!
//! Owns no text and no process: marks and lines that were typed go in, and
//! whether the shell stands at its prompt comes out.

use std::time::Duration;

use tokio::time::Instant;

use crate::transcript::Mark;

/// What the marks tell of the shell.
#[derive(Debug, Default)]
pub(super) struct Shell {
    pub(super) integrated: bool,
    /// Prompts seen so far.
    pub(super) prompts: u64,
    pub(super) at_prompt: bool,
    /// Enter was typed and the shell has not come back to its prompt since.
    pub(super) sent: bool,
    /// Lines that were typed and that the shell has not been seen to take.
    pub(super) untaken: usize,
    /// A command has begun since the last prompt.
    pub(super) took: bool,
    /// A prompt was shown while lines were still untaken; it counts unless the shell takes one by then.
    pub(super) doubtful: Option<Instant>,
    pub(super) running: bool,
    pub(super) last_exit: Option<i32>,
}

/// How soon a shell takes the next line that was typed ahead.
const TAKES_NEXT_LINE: Duration = Duration::from_millis(30);

impl Shell {
    pub(super) fn send_off(&mut self, lines: usize) {
        self.sent = true;
        self.at_prompt = false;
        self.untaken += lines;
    }

    pub(super) fn take(&mut self, mark: &Mark) {
        match mark {
            Mark::PromptReady => {
                // A command whose end was not told is over all the same, and nobody knows how.
                if self.running {
                    self.last_exit = None;
                }
                self.running = false;
                // An empty line is taken without a command.
                if !std::mem::take(&mut self.took) {
                    self.untaken = self.untaken.saturating_sub(1);
                }
                if self.untaken == 0 {
                    self.come_to_prompt();
                } else {
                    // Lines typed ahead, or lines that a program has read: which, the next moment shows.
                    self.doubtful = Some(Instant::now() + TAKES_NEXT_LINE);
                }
            }
            Mark::CommandStarted => {
                self.running = true;
                self.at_prompt = false;
                self.took = true;
                self.doubtful = None;
                self.untaken = self.untaken.saturating_sub(1);
            }
            // The first prompt of a shell reports an end of nothing.
            Mark::CommandEnded(code) if self.running => {
                self.running = false;
                self.last_exit = *code;
            }
            Mark::CommandEnded(_) => {}
        }
    }

    /// The prompt stands, and nothing that was typed is still to be taken.
    pub(super) fn come_to_prompt(&mut self) {
        self.prompts += 1;
        self.at_prompt = true;
        self.sent = false;
        self.untaken = 0;
        self.doubtful = None;
    }
}
