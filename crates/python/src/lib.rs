//! Workflows as async functions in Python syntax.
//!
//! Owns how a file is read ([`Program`]), how one of its functions is executed
//! ([`Execution`]). A function does nothing by
//! itself: what it wants goes through its context and comes out as [`Call`](steplatch_python_api::Call)s, whose
//! answers its caller brings back. After a crash it is executed again from the
//! start, against its history, up to where it was.
//!
//! Knows nothing of runs, nodes or journals. No clock, no files, no randomness: the
//! same file and the same answers give the same calls. An interpreter may abort its
//! process, so executions belong into a process of their own ([`worker`]), of
//! which [`steplatch_python_api::client`] is the other side.

mod execution;
mod interpreter;
mod program;
mod source;
mod value;
pub mod worker;

pub use execution::Execution;
pub use program::Program;
