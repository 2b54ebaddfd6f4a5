//! The kinds of nodes.
//!
//! The table at the end of this file lists them. Each kind has a file with its settings; the settings implement
//! [`NodeSettings`]. Everything else about nodes is the same for all kinds.

mod bash;
mod function;
mod http;
mod identity;
mod llm;
mod mcp;
mod pty;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_workflow::Problem;

pub use bash::Bash;
pub(crate) use bash::last_line;
pub use function::Function;
pub(crate) use http::HttpClient;
pub use http::{Http, Method};
pub use identity::Identity;
pub use llm::Llm;
pub(crate) use mcp::Servers;
pub use mcp::{Mcp, McpAddress, McpProgram, McpServer};
pub use pty::{Pty, Ready};

use crate::context::CallContext;
use crate::graph::Graph;
use crate::outcome::{ErrorType, ExecutorOutcome, Failure};

/// Settings of one kind of node, with their parsing and the node's behaviour.
pub(crate) trait NodeSettings: Sized {
    /// True if [`Nodes`](crate::Nodes) performs nodes of this kind. The daemon performs the others.
    const IS_PERFORMED_HERE: bool = true;

    /// Reads the settings from the fields of a declaration and reports their problems. Every kind has the
    /// `common_keys`; these are not in `fields`.
    fn read(fields: &Map<String, Value>, common_keys: &[String], problems: &mut Vec<Problem>) -> Option<Self>;

    /// Returns the JSON Schema of the settings.
    fn schema() -> Value;

    /// Returns warnings for the author; the node can run.
    fn warnings(&self) -> Vec<Problem> {
        Vec::new()
    }

    /// Performs one call.
    async fn perform(&self, _context: &CallContext<'_>) -> ExecutorOutcome {
        Failure::new(ErrorType::Unsupported, "Nodes of this kind cannot be performed here.").into()
    }
}

macro_rules! kinds {
    ($( $(#[$doc:meta])* $kind:ident = $word:literal; )*) => {
        /// The action of a node.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        pub enum NodeKind {
            $( $(#[$doc])* $kind($kind), )*
        }

        /// Kind of a node, as named in results.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum NodeType {
            $( $(#[$doc])* $kind, )*
        }

        impl NodeType {
            /// All kinds, each with its name in declarations.
            pub(crate) const ALL: &[(Self, &'static str)] = &[$( (Self::$kind, $word), )*];

            /// Reads the settings of a node of this kind.
            pub(crate) fn read(
                self,
                fields: &Map<String, Value>,
                common_keys: &[String],
                problems: &mut Vec<Problem>,
            ) -> Option<NodeKind> {
                match self {
                    $( Self::$kind => <$kind as NodeSettings>::read(fields, common_keys, problems).map(NodeKind::$kind), )*
                }
            }

            /// Returns the JSON Schema of the settings.
            pub(crate) fn schema(self) -> Value {
                match self {
                    $( Self::$kind => <$kind as NodeSettings>::schema(), )*
                }
            }

            /// Returns whether [`Nodes`](crate::Nodes) performs nodes of this kind.
            pub(crate) fn is_performed_here(self) -> bool {
                match self {
                    $( Self::$kind => <$kind as NodeSettings>::IS_PERFORMED_HERE, )*
                }
            }
        }

        impl NodeKind {
            /// Returns the type of the node.
            #[must_use]
            pub fn node_type(&self) -> NodeType {
                match self {
                    $( Self::$kind(_) => NodeType::$kind, )*
                }
            }

            pub(crate) fn warnings(&self) -> Vec<Problem> {
                match self {
                    $( Self::$kind(settings) => settings.warnings(), )*
                }
            }

            pub(crate) async fn perform(&self, context: &CallContext<'_>) -> ExecutorOutcome {
                match self {
                    $( Self::$kind(settings) => settings.perform(context).await, )*
                }
            }
        }
    };
}

kinds! {
    /// Returns its input.
    Identity = "identity";
    /// Runs one command line.
    Bash = "bash";
    /// Types into a persistent program.
    Pty = "pty";
    /// Calls a function in Python syntax.
    Function = "function";
    /// Makes one HTTP request.
    Http = "http";
    /// Calls a tool of another MCP server.
    Mcp = "mcp";
    /// Queries a model behind an OpenAI-compatible endpoint.
    Llm = "llm";
    /// Runs steps in the order of their dependencies.
    Graph = "graph";
}
