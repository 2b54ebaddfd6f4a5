//! Nodes: what a run can do besides driving terminals, and graphs of them.
//!
//! Owns the declarations of nodes ([`Node`]), their calls ([`Nodes`]) and what
//! these come to ([`NodeResult`]), the order of graphs ([`graph`]), and how what a
//! program shows is read ([`pane`]). A call that goes wrong is a result like any
//! other. What only others can do (terminals, functions in Python syntax, graphs
//! with a history) comes in as a trait, and so do secrets.
//!
//! Knows nothing of daemons, journals and front-ends.

mod bash;
mod call;
pub mod graph;
mod http;
mod llm;
mod mcp;
mod node;
mod nodes;
pub mod pane;
mod result;
mod secrets;
mod template;

pub use call::{Call, OnText};
pub use node::{
    Bash, Function, Http, Identity, InvalidNodeId, Llm, Mcp, McpAddress, McpProgram, McpServer, Method, Node, NodeId,
    NodeKind, NodeType, Pty, Ready, Seconds, schema,
};
pub use nodes::{NodeFailure, Nodes, Surroundings};
pub use result::{ErrorType, NodeResult};
pub use secrets::{MASK, Resolving, Secrets};
