//! A byte stream between two machines that survives the loss of its connections.
//!
//! Two programs exchange bytes through a [`Session`]. The session outlives each connection that carries it: both sides keep
//! what the other one has not consumed, and a new connection begins where the last one stopped. So the programs see one
//! stream, without a byte lost or doubled, however often the network fails.
//!
//! A connection begins with a [`Hello`] of the client, which the server answers with a welcome or a [`Refusal`]
//! ([`greet`], [`read_hello`], [`welcome`], [`refuse`]). Then both sides [`pump`] until the connection ends.
//!
//! Each side may have [`WINDOW`] bytes under way that the other side has not consumed. This bounds memory, and a slow
//! reader slows the writer down. A silence of [`SILENCE_TIMEOUT`] counts as the loss of the other side.
//!
//! A general transport does not serve here: multipath and migrating protocols (QUIC, MPTCP) need their own port, and
//! the connection is one of OpenSSH, which brings the keys, the jumps and the questions of its user.

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
