//! A byte stream between two hosts that survives the loss of its connections.
//!
//! Two programs exchange bytes through a [`Session`]. The session outlives each connection that carries it: each side
//! keeps the bytes that the other side has not consumed, and a new connection continues where the last one stopped. The
//! programs see one stream, without lost or repeated bytes, however often the network fails.
//!
//! A connection begins with a [`Hello`] of the client. The server answers with a welcome or a [`Refusal`] ([`greet`],
//! [`read_hello`], [`welcome`], [`refuse`]). Then both sides [`pump`] until the connection ends.
//!
//! Each side may send [`WINDOW`] bytes that the other side has not consumed. This limits memory, and a slow reader
//! slows the writer down. A connection without data for [`SILENCE_TIMEOUT`] is considered lost.
//!
//! Other resumable transports (QUIC, MPTCP) require a port of their own. The connections of a link use OpenSSH, and so
//! its keys, jump hosts and prompts.

#[cfg(test)]
mod fuzz;
mod greeting;
mod pump;
mod record;
mod session;

pub use greeting::{GreetError, Hello, Refusal, greet, read_hello, refuse, welcome};
pub use pump::{Ended, SILENCE_TIMEOUT, pump};
pub use record::{BadRecord, SessionId};
pub use session::{Session, Violation, WINDOW};
