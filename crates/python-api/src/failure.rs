//! Failures of files and of functions.
//!
//! Displayed as Python tracebacks with file, line and carets, because authors of these files know that form. Frames of
//! the prelude are omitted.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A failure of a file or of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The name of the exception, such as `ValueError`.
    pub exception: String,
    /// The message, without the exception's name.
    pub message: String,
    /// The call stack in the file, with the outermost call first, without the prelude.
    pub frames: Vec<Frame>,
}

/// The kind of a failure, as a code that callers can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The file is not Python, or uses a feature that the interpreter does not support.
    Unreadable,
    /// The file, or the function, raised an exception.
    Raised,
    /// The function raised `asyncio.CancelledError`, or did not catch it.
    Cancelled,
    /// The result cannot be represented as JSON.
    NotJson,
    /// The function exceeded its memory limit.
    Memory,
    /// The function exceeded its time limit between two calls.
    Time,
    /// The function exceeded its recursion limit.
    Recursion,
    /// The function exceeded the limit for bytes of calls, events and output at once.
    #[serde(rename = "told")]
    SentBytes,
    /// The function exceeded its limit of calls.
    Calls,
    /// The file has no function with this id.
    Unknown,
    /// The function waits without an open call.
    Stuck,
}

/// A stack frame of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// The name of the file as loaded.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The first column, from 1, in characters.
    pub column: u32,
    /// The column after the last one, or after the end of the line if the frame has several lines.
    pub end_column: u32,
    /// The function, or `None` in the file itself.
    pub function: Option<String>,
    /// The line's text, without its indentation.
    pub text: Option<String>,
    /// The columns to underline in `text`, from 0, if known.
    pub marked: Option<(u32, u32)>,
}

/// Maximum number of frames in the report of a deep recursion, half from each end of the call stack.
const MAX_FRAMES: usize = 20;

impl Failure {
    /// Creates a failure that has no frames yet.
    #[must_use]
    pub fn new(kind: FailureKind, exception: &str, message: impl Into<String>) -> Self {
        Self { kind, exception: exception.to_owned(), message: message.into(), frames: Vec::new() }
    }

    /// Adds frames. Keeps only both ends of a long call stack.
    pub fn with_frames(mut self, mut frames: Vec<Frame>) -> Self {
        if frames.len() > MAX_FRAMES {
            frames.drain(MAX_FRAMES / 2..frames.len() - MAX_FRAMES / 2);
        }
        self.frames = frames;
        self
    }

    /// Returns the exception and its message, on one line unless the message has several lines.
    #[must_use]
    pub fn summary(&self) -> String {
        if self.message.is_empty() { self.exception.clone() } else { format!("{}: {}", self.exception, self.message) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.frames.is_empty() && self.kind != FailureKind::Unreadable {
            writeln!(f, "Traceback (most recent call last):")?;
        }
        for frame in &self.frames {
            write!(f, "  File \"{}\", line {}", frame.file, frame.line)?;
            match &frame.function {
                Some(function) => writeln!(f, ", in {function}")?,
                None => writeln!(f)?,
            }
            let Some(text) = &frame.text else { continue };
            writeln!(f, "    {text}")?;
            // Carets under the whole line add nothing, unless the error is about its text.
            let is_whole_line = |marked: &(u32, u32)| *marked == (0, text.chars().count() as u32);
            if let Some((from, to)) =
                frame.marked.filter(|marked| self.kind == FailureKind::Unreadable || !is_whole_line(marked))
            {
                let (from, to) = (from as usize, to.max(from + 1) as usize);
                writeln!(f, "    {}{}", " ".repeat(from), "^".repeat(to - from))?;
            }
        }
        f.write_str(&self.summary())
    }
}

impl std::error::Error for Failure {}
