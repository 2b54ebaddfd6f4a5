//! Runs of machines on Temporal.
//!
//! Owns the workflow that decides a run ([`run`]), the activity that has its effects performed by the daemon of a host ([`tasks`]), and
//! the worker that connects both ([`worker`]). The rules are those of the crate `workflow`, and nothing here decides.

mod backoff;
pub mod codec;
pub mod daemon;
pub mod run;
pub mod tasks;
pub mod wire;
pub mod worker;
