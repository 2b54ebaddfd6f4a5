//! The declarations of a file.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Something that a file declares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Declaration {
    /// Its id: a letter, then letters, digits, `_` and `-`. Unique within the file.
    pub id: String,
    /// The kind.
    pub kind: Kind,
    /// The function behind a workflow or a function node.
    pub function: Option<String>,
    /// The description: as given, else the function's docstring.
    pub description: Option<String>,
    /// Data of its author.
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

            /// Returns the word for the kind; for nodes, the word for their type.
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
    /// A function that runs execute.
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
    /// A question to a model.
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
