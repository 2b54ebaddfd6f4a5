//! Wire format of a worker.
//!
//! Lines of JSON: [`RequestLine`] to the worker, [`ResponseLine`] from it. The worker answers every request once and in
//! order, and may first report that it is still busy. A new field or request is compatible; any other change requires a
//! new [`WIRE_VERSION`].

use std::io::{self, BufRead, Read};

use serde::{Deserialize, Serialize};

use crate::call::{Answer, Entry};
use crate::declaration::Declaration;
use crate::divergence::Divergence;
use crate::failure::Failure;
use crate::limits::Limits;
use crate::progress::{Progress, Start};

/// Version of the protocol. A worker sends it first.
pub const WIRE_VERSION: u32 = 1;

/// Exit code of a worker that exceeded its memory limit.
pub const OUT_OF_MEMORY: i32 = 65;

/// Maximum length of a line in bytes. It has room for an escaped value of the default memory limit.
pub const MAX_LINE_BYTES: u64 = 256 << 20;

/// A line to a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestLine {
    /// Number of the request, repeated by the reply.
    pub number: u64,
    /// The request itself.
    #[serde(rename = "ask")]
    pub request: Request,
}

/// A request to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Read the declarations of this file. → [`Reply::Declares`] or [`Reply::Refused`]
    Load {
        /// Name of the file in failures.
        file: String,
        /// Text of the file.
        text: String,
    },
    /// Begin an execution, or restore it from its history. → [`Reply::Progressed`], [`Reply::Refused`] or
    /// [`Reply::Diverged`]
    Begin(Box<Begin>),
    /// Answer a call. → [`Reply::Progressed`] or [`Reply::Unknown`]. A waiting state in the reply omits its calls:
    /// there may be thousands, and the client knows them
    Answer {
        /// Number of the execution.
        execution: u64,
        /// Ordinal of the call.
        ordinal: u64,
        /// The answer to the call.
        answer: Answer,
    },
    /// Let the execution answer a call itself. → The same replies as for an answer
    Inline {
        /// Number of the execution.
        execution: u64,
        /// Ordinal of the call.
        ordinal: u64,
    },
    /// Forget an execution that has not ended. → [`Reply::Forgotten`]
    Forget {
        /// Number of the execution.
        execution: u64,
    },
}

/// An execution to begin or to restore.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// Number of the execution, chosen by the client.
    pub execution: u64,
    /// Name of the file in failures.
    pub file: String,
    /// Text of the file.
    pub text: String,
    /// Initial values of the execution.
    pub start: Start,
    /// Limits of the execution.
    pub limits: Limits,
    /// Recorded history; empty for a new execution.
    pub history: Vec<Entry>,
}

impl Request {
    /// Returns the execution of the request.
    #[must_use]
    pub fn execution(&self) -> Option<u64> {
        match self {
            Self::Load { .. } => None,
            Self::Begin(begin) => Some(begin.execution),
            Self::Answer { execution, .. } | Self::Inline { execution, .. } | Self::Forget { execution } => {
                Some(*execution)
            }
        }
    }
}

/// A line from a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseLine {
    /// The greeting, as the first line.
    Hello {
        /// The worker's version of the protocol.
        wire: u32,
    },
    /// The worker is still busy with the request of this number.
    #[serde(rename = "still_at")]
    Busy(u64),
    /// The reply to a request.
    Replied {
        /// Number of the request.
        number: u64,
        /// The reply to it.
        reply: Reply,
        /// Memory in use by the worker, in bytes.
        memory: usize,
    },
}

/// The reply of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The file's declarations.
    Declares(Vec<Declaration>),
    /// The progress of the execution.
    Progressed(Progress),
    /// The file cannot be used.
    Refused(Failure),
    /// The function does not follow its history.
    Diverged(Box<Divergence>),
    /// The worker has no such execution.
    Unknown,
    /// The execution is forgotten, if it was known.
    Forgotten,
}

/// Reads a line. Returns `None` at the end of the stream.
///
/// # Errors
/// If reading fails, or the line is too long.
pub fn read_line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    reader.take(MAX_LINE_BYTES).read_line(&mut line)?;
    match line.pop() {
        None => Ok(None),
        Some('\n') => Ok(Some(line)),
        Some(_) if line.len() as u64 + 1 >= MAX_LINE_BYTES => {
            Err(io::Error::new(io::ErrorKind::InvalidData, format!("a line is longer than {MAX_LINE_BYTES} bytes")))
        }
        // The sender ended in the middle of a line.
        Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Encodes a value as a line.
pub fn encode_line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("all messages have string keys");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use steplatch_golden::{Tag, check_enum, check_struct};

    use super::*;

    /// Returns the values of one field as lines.
    fn field_lines(golden: &str, field_of: impl Fn(&serde_json::Value) -> Option<&serde_json::Value>) -> String {
        let lines = golden.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.filter_map(|line| field_of(&line).map(|value| format!("{value}\n"))).collect()
    }

    #[test]
    fn messages_match_the_golden_files() {
        let (requests, responses) = (include_str!("../golden/asked.jsonl"), include_str!("../golden/said.jsonl"));
        check_struct::<RequestLine>(requests);
        check_enum::<Request>(&field_lines(requests, |line| line.get("ask")), Tag::Outside);
        check_enum::<ResponseLine>(responses, Tag::Outside);
        check_enum::<Reply>(&field_lines(responses, |line| line.get("replied")?.get("reply")), Tag::Outside);
    }
}
