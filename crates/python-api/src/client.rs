//! Client side of the worker protocol.
//!
//! [`WorkerProtocol`] has the state of the protocol and performs no I/O: the caller reads and writes the lines.

use std::collections::VecDeque;
use std::io;
use std::process::ExitStatus;

use crate::wire::{OUT_OF_MEMORY, Reply, Request, RequestLine, ResponseLine, WIRE_VERSION, encode_line};

/// The requests to a worker and its replies.
#[derive(Debug, Default)]
pub struct WorkerProtocol {
    has_greeted: bool,
    last_number: u64,
    /// Requests without a reply, each with its execution.
    open_requests: VecDeque<(u64, Option<u64>)>,
    memory: usize,
}

/// Meaning of a line from a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerEvent {
    /// The worker is still busy.
    Alive,
    /// The reply to the request with this number.
    Reply(u64, Reply),
}

/// Protocol error of a worker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConversationError {
    /// The line is invalid or unexpected.
    #[error("a worker sent an invalid line: {0}")]
    InvalidLine(String),
    /// The worker has another version of the protocol.
    #[error(
        "a worker uses version {0} of its protocol, but this program uses version {WIRE_VERSION}; restart the daemon"
    )]
    Version(u32),
}

impl WorkerProtocol {
    /// Creates the state for a new worker.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a request. Returns its number, and the line to write.
    pub fn add_request(&mut self, request: Request) -> (u64, Vec<u8>) {
        self.last_number += 1;
        let number = self.last_number;
        self.open_requests.push_back((number, request.execution()));
        (number, encode_line(&RequestLine { number, request }))
    }

    /// Processes a line from the worker.
    ///
    /// # Errors
    /// If the line is invalid. The worker is then unusable.
    pub fn receive(&mut self, line: &str) -> Result<WorkerEvent, ConversationError> {
        let invalid_line = |reason: &dyn std::fmt::Display| ConversationError::InvalidLine(reason.to_string());
        match serde_json::from_str(line).map_err(|error| invalid_line(&error))? {
            ResponseLine::Hello { wire: WIRE_VERSION } if !self.has_greeted => {
                self.has_greeted = true;
                Ok(WorkerEvent::Alive)
            }
            ResponseLine::Hello { wire } if !self.has_greeted => Err(ConversationError::Version(wire)),
            ResponseLine::Busy(number) if self.open_requests.front().is_some_and(|open| open.0 == number) => {
                Ok(WorkerEvent::Alive)
            }
            ResponseLine::Replied { number, reply, memory }
                if self.open_requests.front().is_some_and(|open| open.0 == number) =>
            {
                self.open_requests.pop_front();
                self.memory = memory;
                Ok(WorkerEvent::Reply(number, reply))
            }
            response => Err(invalid_line(&format!("{response:?}").chars().take(200).collect::<String>())),
        }
    }

    /// Returns the execution of the oldest open request, if any. That execution is the cause if a worker exits or
    /// becomes silent. All others can continue on other workers, by their histories.
    #[must_use]
    pub fn busy_with(&self) -> Option<Option<u64>> {
        self.open_requests.front().map(|(_, execution)| *execution)
    }

    /// Returns the memory in use by the worker at its last reply, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.memory
    }
}

/// Loss of a worker.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The worker ran out of memory.
    #[error("the worker ran out of memory")]
    Memory,
    /// The worker exited for another reason.
    #[error("the worker exited ({0})")]
    Ended(ExitStatus),
    /// The worker violated the protocol.
    #[error(transparent)]
    Conversation(#[from] ConversationError),
    /// Reading or writing failed.
    #[error("the connection to the worker failed")]
    Io(#[from] io::Error),
}

impl WorkerError {
    /// Returns the loss for the exit status of a worker.
    #[must_use]
    pub fn from_exit_status(status: ExitStatus) -> Self {
        if status.code() == Some(OUT_OF_MEMORY) { Self::Memory } else { Self::Ended(status) }
    }
}
