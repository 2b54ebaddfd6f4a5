//! Saved workflows: found by name, listed, saved, counted.
//!
//! Owns the choice of the library ([`directories`]), its loaded contents ([`functions`]) and the wording of its errors.
//! A pool of a few blocking threads does all work on files, with a time limit, so that a hanging directory blocks
//! nothing else. Readers and writers have separate threads, because readers need no lock.

mod capture;
mod directories;
mod disk;
mod error;
mod function_verbs;
mod functions;
mod guide;
mod load;
mod nesting;
mod node_not_found;
mod node_verbs;
mod origin;
mod project;
mod projects;
mod proven;
pub mod python;
mod repair;
mod text_file;
mod verbs;
mod versions;
mod workers;
mod workflows;

pub use error::{DiskError, FindError, KeepError, SessionError, WorkflowNotFound};
pub use nesting::called_nodes;
pub use node_not_found::NodeNotFound;
pub use node_verbs::node_kind;
pub use project::{FunctionWorkflow, InvalidDeclaration, NodeDeclaration, Project};
pub use projects::Projects;
pub use repair::{RecordingCheck, RecordingError, SaveRepairError};
pub use steplatch_diagram::{collapsed_svg, svg};
pub use workers::{Execution, Function, WorkerExited, WorkerSource, WorkerStarter, Workers, WorkersError};
pub use workflows::{SavedMachine, WorkflowRef, Workflows};
