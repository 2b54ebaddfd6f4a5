//! SavedMachine workflows, for whoever asks: found by name, listed, saved, counted.
//!
//! Owns which library is meant ([`folders`]), what is loaded in it ([`functions`]) and
//! the words in which it fails. All work on files is done on threads that may block,
//! a few at a time and not for ever, so that a folder that hangs holds up nothing
//! else. Readers and writers take turns apart: a reader needs no lock, and waits for
//! none.

mod disk;
mod folders;
mod function_verbs;
mod functions;
mod load;
mod nesting;
mod node_verbs;
mod origin;
mod project;
mod projects;
mod proven;
pub mod python;
mod verbs;
mod workers;
mod workflows;

pub use nesting::calls;
pub use node_verbs::{node_kind, node_not_found};
pub use project::{FunctionWorkflow, InvalidDeclaration, NodeDeclaration, Project};
pub use projects::Projects;
pub use workers::{Execution, Function, WorkerExited, WorkerStarter, Workers, WorkersError};
pub use workflows::{SavedMachine, WorkflowRef, Workflows};
