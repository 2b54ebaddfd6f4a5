//! The declarations of a file.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Something that a file declares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Declaration {
    /// Its id: a letter, then letters, digits, `_` and `-`. Unique within the file.
    pub id: String,
    /// What it is.
    pub kind: Kind,
    /// The function behind a workflow or a function node.
    pub function: Option<String>,
    /// Its description: as given, else the function's docstring.
    pub description: Option<String>,
    /// What its author keeps with it.
    pub metadata: Value,
    /// Everything else that it was declared with; a node or graph in it is given by its id. Not checked here.
    pub settings: Map<String, Value>,
    /// The line on which it is declared or, if its id is computed, on which its function is. From 1.
    pub line: Option<u32>,
}

/// What is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `Workflow`: a function that runs execute.
    Workflow,
    /// `FunctionNode`
    Function,
    /// `BashNode`
    Bash,
    /// `PTYNode`
    Pty,
    /// `HttpNode`
    Http,
    /// `McpNode`
    Mcp,
    /// `LLMNode`
    Llm,
    /// `Graph`, with its `steps` among the settings.
    Graph,
}
