//! Runs of workflows: starting, driving, inspecting and cancelling them.
//!
//! Owns every run of this daemon. The crate `workflow` decides what happens next; a task for each run (its driver)
//! appends the events, performs the effects, and returns their outcomes. A run does not depend on the connection that
//! started it. When this daemon ends, the next daemon resumes the run.

mod call;
mod child;
mod definition_source;
mod dependencies;
mod dispatch;
mod engine;
mod engine_state;
mod event;
mod function;
mod gates;
mod kind;
mod locked;
mod lookup;
mod machine;
mod nodes;
mod not_started;
mod origin;
mod outer;
mod pins;
mod quota;
mod remote;
mod result_error;
mod run;
mod runs;
mod seal;
mod secret_answers;
mod source;
mod start_key;
mod time_span;

pub use crate::nodes::{ExecutorFactory, Nodes};
pub use dependencies::{EnginePolicy, RunDependencies, RunListener};
pub use engine_state::RetentionPolicy;
pub use event::RunEvents;
pub use gates::GateAnswer;
pub use outer::{WorkerRequests, WorkerToken};
pub use runs::Runs;
