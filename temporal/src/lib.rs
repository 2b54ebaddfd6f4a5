//! Runs on Temporal.
//!
//! Owns the workflow of a run ([`run`]): it decides a machine, or performs the calls of a function (`function`). Owns
//! the activity that sends tasks to the daemon of a host ([`tasks`]), and the worker that connects both ([`worker`]).
//! The rules of machines are in the crate `workflow`, and functions run in the daemon: nothing here decides.

mod backoff;
pub mod codec;
pub mod daemon;
mod function;
pub mod run;
pub mod tasks;
pub mod wire;
pub mod worker;
