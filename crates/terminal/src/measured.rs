//! Parts of a terminal without a terminal, for benchmarks.
//!
//! Not part of the crate's API: the module is public only because benchmarks are separate crates, and may change at any
//! time.

use steplatch_pattern::Pattern;

use crate::echo::Echo;
use crate::history::History;
use crate::intake::OutputPipeline;
use crate::screen::{Emulator, Size};
use crate::transcript::Transcript;
use crate::wait::{EchoZones, Pass, Search};

/// The parsers of a program's output, in the same order as in a terminal.
pub struct Typescript {
    intake: OutputPipeline,
    echo: Echo,
}

impl std::fmt::Debug for Typescript {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Typescript").field("end", &self.end()).finish_non_exhaustive()
    }
}

impl Default for Typescript {
    fn default() -> Self {
        Self::new()
    }
}

impl Typescript {
    /// Creates an empty screen of the default size, and a history with the default budget.
    #[must_use]
    pub fn new() -> Self {
        let transcript = Transcript::new(History::new(crate::Options::default().history_budget), None);
        let screen = Box::new(Emulator::new(Size::default()));
        Self { intake: OutputPipeline::new(transcript, screen), echo: Echo::default() }
    }

    /// Processes the output of one read.
    pub fn print(&mut self, bytes: &[u8]) {
        self.intake.take_in(bytes, &mut Vec::new());
        self.intake.transcript.settle();
    }

    /// Returns the offset after all output so far.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.intake.transcript.history().end()
    }
}

/// The search of one wait.
#[derive(Debug)]
pub struct Searching(Search);

impl Searching {
    /// Begins to search at `from`.
    #[must_use]
    pub fn new(patterns: Vec<Pattern>, from: u64) -> Self {
        Self(Search::new(patterns, from))
    }

    /// Searches the output since the last call. Returns whether a pattern matched.
    pub fn advance(&mut self, typescript: &Typescript) -> bool {
        let echo = EchoZones { recognised: &typescript.echo, open_line_was_sent: false };
        loop {
            match self.0.advance(typescript.intake.transcript.history(), echo) {
                Ok(Pass::Found(_)) => return true,
                Ok(Pass::More) => {}
                Ok(Pass::Nothing) | Err(_) => return false,
            }
        }
    }
}
