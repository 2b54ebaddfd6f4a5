//! Workflows as async functions in Python syntax.
//!
//! Owns the reading of a file ([`Program`]) and the execution of its functions ([`Execution`]). A function has no
//! effects: it makes requests through its context, the requests become [`Call`](steplatch_python_api::Call)s, and the
//! caller returns their answers. After a crash, the function runs again from the start, against its history, up to the
//! same point.
//!
//! Knows nothing of runs, nodes or journals. No clock, no files, no randomness: the same file and the same answers give
//! the same calls. An interpreter may abort its process, so executions belong in a separate process ([`worker`]), whose
//! client is [`steplatch_python_api::client`].

mod execution;
mod interpreter;
mod program;
mod source;
mod value;
pub mod worker;

pub use execution::Execution;
pub use program::Program;
