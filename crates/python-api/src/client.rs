//! The client side of the conversation with a worker.
//!
//! [`WorkerProtocol`] is its state, without a thread or a socket: the caller reads and writes in its own way.

use std::collections::VecDeque;
use std::io;
use std::process::ExitStatus;

use crate::wire::{Ask, OUT_OF_MEMORY, Reply, RequestLine, ResponseLine, WIRE_VERSION, line_of};

/// The requests to one worker and its answers.
#[derive(Debug, Default)]
pub struct WorkerProtocol {
    greeted: bool,
    last: u64,
    /// The requests without an answer, with the execution concerned.
    open: VecDeque<(u64, Option<u64>)>,
    memory: usize,
}

/// Meaning of a line from a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerEvent {
    /// The worker is alive, and has no answer yet.
    Alive,
    /// The worker answers the request of this number.
    Reply(u64, Reply),
}

/// Reason why a line cannot be from a worker of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConversationError {
    /// Workers do not send it, or not now.
    #[error("a worker said what makes no sense: {0}")]
    Senseless(String),
    /// The worker is of another version.
    #[error("a worker speaks version {0}, and this program speaks {WIRE_VERSION}; restart the daemon")]
    Version(u32),
}

impl WorkerProtocol {
    /// Begins one with a worker that was just started.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a request. Returns its number, and the line to write.
    pub fn ask(&mut self, ask: Ask) -> (u64, Vec<u8>) {
        self.last += 1;
        let number = self.last;
        self.open.push_back((number, ask.execution()));
        (number, line_of(&RequestLine { number, ask }))
    }

    /// Takes a line from the worker.
    ///
    /// # Errors
    /// If no worker of ours sends such a line. The worker is unusable then.
    pub fn receive(&mut self, line: &str) -> Result<WorkerEvent, ConversationError> {
        let senseless = |what: &dyn std::fmt::Display| ConversationError::Senseless(what.to_string());
        match serde_json::from_str(line).map_err(|error| senseless(&error))? {
            ResponseLine::Hello { wire: WIRE_VERSION } if !self.greeted => {
                self.greeted = true;
                Ok(WorkerEvent::Alive)
            }
            ResponseLine::Hello { wire } if !self.greeted => Err(ConversationError::Version(wire)),
            ResponseLine::StillAt(number) if self.open.front().is_some_and(|open| open.0 == number) => {
                Ok(WorkerEvent::Alive)
            }
            ResponseLine::Replied { number, reply, memory }
                if self.open.front().is_some_and(|open| open.0 == number) =>
            {
                self.open.pop_front();
                self.memory = memory;
                Ok(WorkerEvent::Reply(number, reply))
            }
            said => Err(senseless(&format!("{said:?}").chars().take(200).collect::<String>())),
        }
    }

    /// Returns whether it owes an answer, and the execution that it is busy with then. A worker that dies or stays
    /// silent for long does so because of that execution; all others can continue elsewhere, by their histories.
    #[must_use]
    pub fn busy_with(&self) -> Option<Option<u64>> {
        self.open.front().map(|(_, execution)| *execution)
    }

    /// Returns the bytes that the worker had in use when it answered last.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.memory
    }
}

/// Reason why a worker does not answer any more.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The worker had no memory left for its work.
    #[error("the worker ran out of memory")]
    Memory,
    /// The worker ended for another reason.
    #[error("the worker ended ({0})")]
    Ended(ExitStatus),
    /// Its lines make no sense.
    #[error(transparent)]
    Conversation(#[from] ConversationError),
    /// Reading from it failed.
    #[error("the worker cannot be asked")]
    Io(#[from] io::Error),
}

impl WorkerError {
    /// Returns the reason that a worker was lost, from the end of its process.
    #[must_use]
    pub fn from_exit_status(status: ExitStatus) -> Self {
        if status.code() == Some(OUT_OF_MEMORY) { Self::Memory } else { Self::Ended(status) }
    }
}
