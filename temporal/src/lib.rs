//! Runs on Temporal.
//!
//! Owns the workflow of a run ([`run`]): it decides a machine, or does what a function waits for (`function`). Owns the activity
//! that has tasks performed by the daemon of a host ([`tasks`]), and the worker that connects both ([`worker`]). The rules of
//! machines are those of the crate `workflow`, and functions continue in the daemon: nothing here decides.

mod backoff;
pub mod codec;
pub mod daemon;
mod function;
pub mod run;
pub mod tasks;
pub mod wire;
pub mod worker;
