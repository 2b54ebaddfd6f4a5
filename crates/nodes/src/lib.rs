//! Nodes: the actions of runs, except the driving of terminals, and graphs of nodes.
//!
//! Owns the declarations of nodes ([`Node`]) and the table of their kinds ([`NodeKind`]), their calls ([`Nodes`]) and
//! results ([`NodeResult`]), the order of graphs ([`graph`]), and the readers of terminal panes ([`pane`]). A failed
//! call is a result like any other. The caller provides terminals, functions in Python syntax, graphs with a history
//! and secrets through traits.
//! Does not depend on the daemon, the journal or the front-ends.

mod call;
mod context;
pub mod graph;
mod host;
mod kind;
mod node;
mod nodes;
mod outcome;
pub mod pane;
mod result;
mod secrets;
mod template;

pub use call::{Call, OnText};
pub use context::NodeEnvironment;
pub use host::{HostCommand, HostCommandEnd, HostCommands, NoHosts, Running};
pub use kind::*;
pub use node::{InvalidNodeId, Node, NodeId, Seconds, schema};
pub use nodes::{NodeFailure, Nodes};
pub use outcome::{ErrorType, MAX_OUTPUT_BYTES};
pub use result::NodeResult;
pub use secrets::{MASK, Resolving, Secrets};
