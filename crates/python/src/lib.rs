//! Workflows as async functions in Python syntax.
//!
//! Owns how a file is read ([`Program`]), how one of its functions is executed
//! ([`Execution`]) and how far it may go ([`Limits`]). A function does nothing by
//! itself: what it wants goes through its context and comes out as [`Call`]s, whose
//! answers its caller brings back. After a crash it is executed again from the
//! start, against its history, up to where it was.
//!
//! Knows nothing of runs, nodes or journals. No clock, no files, no randomness: the
//! same file and the same answers give the same calls. An interpreter may abort its
//! process, so executions belong into a process of their own ([`worker`]), of
//! which [`client`] is the other side.

mod call;
pub mod client;
mod declaration;
mod execution;
mod failure;
mod interpreter;
mod limits;
mod program;
mod source;
mod value;
pub mod wire;
pub mod worker;

pub use call::{Answer, Call, CallKind, Entry};
pub use declaration::{Declaration, Kind};
pub use execution::{Divergence, Execution, Progress, Start, State};
pub use failure::{Failure, FailureKind, Frame};
pub use limits::Limits;
pub use program::Program;
