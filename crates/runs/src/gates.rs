//! Gates of runs: their form for clients, and their answers.

mod answer;
mod closed_gate;
mod error;
mod open_gate;

pub use answer::GateAnswer;
pub(crate) use answer::{GateProof, VerifiedAnswer};
pub(crate) use closed_gate::{ClosedGate, GateEnd};
pub(crate) use error::{AmbiguousGate, AnswerError, ClosedGateError, NotWaiting};
pub(crate) use open_gate::{OpenGate, shorten_for_report};
