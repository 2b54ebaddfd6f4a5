//! What is spoken with a process that executes functions in Python syntax.
//!
//! Owns the types of a conversation (what a file declares, how an execution begins, its calls and their answers, how far it may go and
//! how it fails), their wire ([`wire`]), and the asking side ([`client`]). Has no interpreter.

mod call;
pub mod client;
mod declaration;
mod divergence;
mod failure;
mod limits;
mod progress;
pub mod wire;

pub use call::{Answer, CANCELLED, Call, CallKind, Entry};
pub use declaration::{Declaration, Kind};
pub use divergence::Divergence;
pub use failure::{Failure, FailureKind, Frame};
pub use limits::{Limits, PATIENCE};
pub use progress::{Progress, Start, State};
