//! Effects on the world that carry the name of a step, each performed at most once.
//!
//! Owns the state of every effect that a process performs for the steps of its clients: in progress, performed with a
//! result, or performed with a dropped result. The process that performs an effect keeps the ledger, and not the
//! process that requests the effect. So a repeated request finds the same entry, even over another connection, by
//! another daemon, or for a terminal that has closed in the meantime.
//!
//! Pure: no I/O, no clock, no tasks. The terminal host has a ledger, and so does the daemon.

mod desk;
mod effect;
mod ledger;

pub use desk::{Admission, EffectDesk, EffectEnd};
pub use effect::{Effect, EffectKey, names_step};
pub use ledger::{EffectState, Ledger, LedgerLimits};
