//! The protocol of a worker: a process that executes functions in Python syntax.
//!
//! Owns the types of a conversation (declarations of a file, the start of an execution, calls and answers, limits and
//! failures), their wire format ([`wire`]), and the client side ([`client`]). Has no interpreter.

mod call;
pub mod client;
mod declaration;
mod divergence;
mod failure;
mod limits;
mod progress;
pub mod wire;

pub use call::{Answer, CANCELLED, Call, CallKind, Entry, InvalidCall};
pub use declaration::{Declaration, Kind};
pub use divergence::Divergence;
pub use failure::{Failure, FailureKind, Frame};
pub use limits::{Limits, REPLAY_TIME_FACTOR};
pub use progress::{Progress, Start, State};
