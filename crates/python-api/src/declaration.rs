//! The declarations of a file.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Something that a file declares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Declaration {
    /// Its id: a letter, then letters, digits, `_` and `-`. Unique within the file.
    pub id: String,
    /// Its kind.
    pub kind: Kind,
    /// The function behind a workflow or a function node.
    pub function: Option<String>,
    /// Its description: as given, else the function's docstring.
    pub description: Option<String>,
    /// The data that its author keeps with it.
    pub metadata: Value,
    /// Everything else that it was declared with; a node or graph in it is given by its id. Not checked here.
    pub settings: Map<String, Value>,
    /// The line on which it is declared or, if its id is computed, on which its function is. From 1.
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
            /// All of them.
            pub const ALL: &[Self] = &[$( Self::$kind, )*];

            /// Returns the word for it: for nodes, that of their type.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $( Self::$kind => $word, )*
                }
            }

            /// Returns the name by which a file declares one.
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
    /// A function that is called as a node.
    Function = "function", "FunctionNode";
    /// A command line.
    Bash = "bash", "BashNode";
    /// A program that stays.
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
    /// Returns whether it is declared with settings only: it has no function and no steps.
    #[must_use]
    pub fn has_only_settings(self) -> bool {
        !matches!(self, Self::Workflow | Self::Function | Self::Graph)
    }
}
