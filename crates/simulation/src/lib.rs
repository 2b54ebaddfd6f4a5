//! Simulation of the product under a seeded schedule of faults: a daemon, its terminal hosts, and a link to a remote host.
//!
//! Owns the simulated world: its clock, its disk, its sockets, and the number of occurrences of each effect. Everything
//! between the contract of the daemon and the requests to a terminal is product code: its engine, recovery, sessions,
//! the client and the server of a terminal host with its ledger, and the link. Simulated are the programs in terminals
//! ([`steplatch_terminal::Simulation`]), the disk of the journal, the latency of sockets, and the relay on the remote
//! computer.
//!
//! Each process has its own runtime on one thread, with a paused clock. The world moves the clocks in steps, lets the
//! processes run one after another, carries the bytes between them with random delays, and kills, stops or cuts between
//! two steps. A kill drops the runtime: no part of the process runs, and its sockets close. Like `turmoil` this
//! simulates whole processes and their network below tokio; it carries bytes over real sockets in this process, because
//! the product's own sockets are unix sockets with peers that the kernel knows. `madsim` would replace tokio in the
//! whole workspace, and `shuttle` explores threads, but each process here has only one.
//!
//! Two kinds of schedules: random ones, by a seed ([`simulate`]), and schedules of one action with one fault at one
//! instant ([`interrupt`]), enumerated by a test.

mod client;
mod computer;
mod disk;
mod functions;
mod limits;
mod machines;
mod network;
mod process;
mod random;
mod rules;
mod stage;
mod world;

pub use world::{Fault, Interruption, Origin, Report, Violation, interrupt, scenarios, simulate};

#[cfg(test)]
use world::schedule;

#[cfg(test)]
mod tests;
