//! Runs, a daemon, its terminal hosts and the link between two machines, under one seeded schedule of faults.
//!
//! Owns the simulated world: its clock, its messages, its disk, and the number of times that each effect took place in
//! it. What decides is the code of the product where that is pure: machines ([`steplatch_workflow::decide`] and
//! [`steplatch_workflow::resume`]) and the ledger of a terminal host ([`steplatch_ledger::EffectDesk`]). What acts is a
//! model of it: terminals, files, the journal's disk and the connections are a few lines each, so that a schedule takes
//! about a millisecond and each seed replays exactly. The daemon is a model, too, and so are the driver of a function
//! and its worker: their decisions are private to the crate `runs`, between its journal, its nodes and its sessions.
//! The calls, answers and histories of functions are those of the product ([`steplatch_python_api`]).
//!
//! Two kinds of schedules: random ones, by a seed ([`simulate`]), and those of one action with one fault at one instant
//! ([`interrupt`]), which a test enumerates for every action of the language, every fault and every instant.
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
mod functions;
mod host;
mod limits;
mod machines;
mod random;
mod tools;
mod world;

pub use world::{Fault, Interruption, Mutation, Origin, Report, Violation, interrupt, scenarios, simulate};

#[cfg(test)]
mod tests;
