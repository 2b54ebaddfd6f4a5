//! The process that owns terminals and runs, and serves the contract.
//!
//! Owns every effect: it is the only one that types, starts, waits and ends. Runs
//! are decided in `workflow`, remembered in `store` and performed here. Front-ends
//! are clients of the contract, over a socket or over a pipe in the same process.

mod answer;
mod approver;
mod backlog;
mod caller;
mod changes;
mod configuration;
mod connection;
mod daemon;
mod ending;
mod event_sink;
mod library;
mod lock;
mod moment;
mod nodes;
mod peer;
mod pins;
mod remotes;
mod runs;
mod secrets;
mod service;
mod sessions;
mod standing;
mod tools;
mod workers;

pub use configuration::Configuration;
pub use daemon::{Daemon, Options, StartError, Stopper};
pub use ending::Ending;
pub use lock::LockError;
pub use runs::KeptRuns;
pub use sessions::action_catalog::TerminalTools;
pub use workers::{Execution, Function, Gone, WorkerStarter, Workers, WorkersError};
