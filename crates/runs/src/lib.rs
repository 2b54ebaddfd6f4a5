//! Runs of workflows: started, driven, looked at, cancelled.
//!
//! Owns every run of this daemon. What happens next is decided in `workflow`; a
//! task for each run appends the events, performs the effects, and brings their
//! outcomes back. A run goes on whoever asked for it, and with the next daemon when
//! this one ends.

mod call;
mod child;
mod engine;
mod event;
mod function;
mod gates;
mod kind;
mod list;
mod locked;
mod machine;
mod nodes;
mod origin;
mod pause;
mod pins;
mod quota;
mod remote;
mod run;
mod runs;
mod seal;
mod shared;
mod source;
mod start_key;

pub use crate::nodes::{ExecutorFactory, Nodes};
pub use event::RunEvents;
pub use gates::GateAnswer;
pub use runs::{RunDependencies, RunListener, Runs};
pub use shared::RetentionPolicy;
