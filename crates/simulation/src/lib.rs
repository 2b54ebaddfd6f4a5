//! Runs, a daemon, its terminal hosts and the link between two machines, under one seeded schedule of faults.
//!
//! Owns the simulated world: its clock, its messages, its disk, and the number of times that each effect took place in
//! it. What decides is the code of the product: machines ([`steplatch_workflow::decide`] and
//! [`steplatch_workflow::resume`]) and the ledger of a terminal host ([`steplatch_ledger::EffectDesk`]). What acts is a
//! model of it: terminals, files, the journal's disk and the connections are a few lines each, so that a schedule takes
//! less than a millisecond and each seed replays exactly.
//!
//! The model has an advantage over a simulated runtime below the real daemon (as `turmoil` and `madsim` provide it):
//! pseudo-terminals, processes, SQLite and `/proc` are outside of such a runtime, so that its schedules would not
//! replay. The stories of the whole binary kill the real programs at random. `shuttle` explores the interleavings of
//! threads; here each component is one task, and the interleavings are those of messages, as in the simulators of
//! FoundationDB and TigerBeetle.
//!
//! A [`Mutation`] puts one rule back to a wrong one. The tests demand a violation for each, since a simulation that
//! finds nothing may also look at nothing.

mod daemon;
mod host;
mod machines;
mod random;
mod world;

pub use world::{Mutation, Report, Violation, simulate};

#[cfg(test)]
mod tests;
