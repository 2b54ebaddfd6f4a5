//! The declarations of a file.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A workflow, node or graph that a file declares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Declaration {
    /// Id of the declaration: a letter, then letters, digits, `_` and `-`. Unique within the file.
    pub id: String,
    /// Kind of the declaration.
    pub kind: Kind,
    /// Name of the function of a workflow or function node.
    pub function: Option<String>,
    /// Description of the declaration, by default the docstring of its function.
    pub description: Option<String>,
    /// Arbitrary data from the author.
    pub metadata: Value,
    /// All other arguments of the declaration, unchecked. Nodes and graphs appear as their ids.
    pub settings: Map<String, Value>,
    /// Line of the declaration, from 1; the line of the function if the id is computed.
    pub line: Option<u32>,
}

macro_rules! kinds {
    ($( $(#[$doc:meta])* $kind:ident = $word:literal, $class:literal; )*) => {
        /// Kind of a declaration.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Kind {
            $( $(#[$doc])* $kind, )*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Self] = &[$( Self::$kind, )*];

            /// Returns the name of the kind; for nodes, the name of their type.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $( Self::$kind => $word, )*
                }
            }

            /// Returns the name of the class that declares it in a file.
            #[must_use]
            pub fn class(self) -> &'static str {
                match self {
                    $( Self::$kind => $class, )*
                }
            }
        }
    };
}

kinds! {
    /// A function that a run executes.
    Workflow = "workflow", "Workflow";
    /// A function as a node.
    Function = "function", "FunctionNode";
    /// A command line.
    Bash = "bash", "BashNode";
    /// A long-running program in a terminal.
    Pty = "pty", "PTYNode";
    /// An HTTP request.
    Http = "http", "HttpNode";
    /// A tool of an MCP server.
    Mcp = "mcp", "McpNode";
    /// A request to a language model.
    Llm = "llm", "LLMNode";
    /// A graph, with its `steps` among the settings.
    Graph = "graph", "Graph";
}

impl Kind {
    /// Returns whether the kind has only settings, without a function or steps.
    #[must_use]
    pub fn has_only_settings(self) -> bool {
        !matches!(self, Self::Workflow | Self::Function | Self::Graph)
    }
}
