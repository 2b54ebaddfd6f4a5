//! The process that owns terminals and runs, and serves the contract.
//!
//! Owns every effect: only this process types, starts programs, waits and ends them. `workflow` decides runs, `store`
//! stores them, and this crate performs them. Front-ends are clients of the contract, over a socket or a pipe in the
//! same process.

mod askpass;
mod changes;
mod configuration;
mod connection;
mod daemon;
mod dispatcher;
mod lock;
mod named_secrets;
mod notifications;
mod read_commands;
mod schedules;
mod ssh_environment;
mod ssh_questions;
mod supervision;
mod tools;
mod waiting;

pub use steplatch_clock::Clock;
pub use steplatch_project::{Function, WorkerExited, WorkerSource, WorkerStarter, Workers, WorkersError};
pub use steplatch_runs::RetentionPolicy;
pub use steplatch_sessions::{ShutdownMode, TerminalTools};

pub use configuration::Configuration;
pub use daemon::{Daemon, Options, ShutdownHandle, StartError, Substitutes};
pub use lock::LockError;
pub use named_secrets::{SecretKeep, SecretOrigin, SecretSetting};
pub use read_commands::{AllowedCommand, InvalidEntry};
pub use ssh_environment::QUESTION_VARIABLE;
