//! The declarations of nodes.
//!
//! A [`Node`] was read by [`Node::parse`] or built from values that are each valid. This module performs nothing; see
//! [`Nodes`](crate::Nodes).

mod id;
mod read;
mod schema;
mod seconds;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use id::{InvalidNodeId, NodeId};
pub(crate) use read::checked;
pub use schema::schema;
pub(crate) use schema::with_word;
pub use seconds::Seconds;

use crate::graph::Graph;

/// Something that a run can do, by name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Node {
    /// Its name, unique in its workspace
    pub id: NodeId,
    /// What it is for, in a sentence
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Seconds that one call of it may take
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Seconds>,
    /// What it does
    #[serde(flatten)]
    pub kind: NodeKind,
}

/// What a node does.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum NodeKind {
    /// Returns its input.
    Identity(Identity),
    /// Runs one command line.
    Bash(Bash),
    /// Types into a program that stays.
    Pty(Pty),
    /// Calls a function in Python syntax.
    Function(Function),
    /// Makes one HTTP request.
    Http(Http),
    /// Calls a tool of another MCP server.
    Mcp(Mcp),
    /// Asks a model behind an OpenAI-compatible endpoint.
    Llm(Llm),
    /// Runs steps in the order of their dependencies.
    Graph(Graph),
}

/// The kinds of nodes, as results name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "each is the variant of `NodeKind` of that name")]
pub enum NodeType {
    Identity,
    Bash,
    Pty,
    Function,
    Http,
    Mcp,
    Llm,
    Graph,
}

impl NodeType {
    /// All of them, with the word that a declaration has for each.
    pub(crate) const ALL: [(Self, &'static str); 8] = [
        (Self::Identity, "identity"),
        (Self::Bash, "bash"),
        (Self::Pty, "pty"),
        (Self::Function, "function"),
        (Self::Http, "http"),
        (Self::Mcp, "mcp"),
        (Self::Llm, "llm"),
        (Self::Graph, "graph"),
    ];
}

impl NodeKind {
    /// Returns which of the kinds it is.
    #[must_use]
    pub fn node_type(&self) -> NodeType {
        match self {
            Self::Identity(_) => NodeType::Identity,
            Self::Bash(_) => NodeType::Bash,
            Self::Pty(_) => NodeType::Pty,
            Self::Function(_) => NodeType::Function,
            Self::Http(_) => NodeType::Http,
            Self::Mcp(_) => NodeType::Mcp,
            Self::Llm(_) => NodeType::Llm,
            Self::Graph(_) => NodeType::Graph,
        }
    }
}

/// Returns its input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {}

/// Runs one command line with bash; success is exit code 0, and the output is what it printed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Bash {
    /// The command line; {input|sh} is the input, quoted for the shell. Left out, the input is the command line
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Folder to run it in; left out, the workspace's
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables that are set for it; {secret:NAME} is a secret by reference
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What it reads on standard input; {input} is the input
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
}

/// Types its input into a program that stays; the output is what that printed until it was ready again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pty {
    /// Command line of the program
    pub command: String,
    /// Folder to start it in; left out, the workspace's
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables that are set for it; {secret:NAME} is a secret by reference
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// When it is ready for the next input
    #[serde(default)]
    pub ready: Ready,
    /// How what it shows is read
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parser: Option<crate::pane::Parser>,
}

/// When a program that stays is ready for the next input.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    /// Its shell tells that it is at its prompt
    #[default]
    Shell,
    /// It has printed nothing for a while
    Quiet,
    /// Its output ends with this pattern
    Pattern(String),
}

/// Calls a function in Python syntax.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Function {
    /// Name of the function
    pub function: String,
    /// The source it stands in; left out, the file that declares the node
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// How failures name the source
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// Makes one HTTP request; success is a status from 200 to 299, and the output is the body: JSON as a value, else text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Http {
    /// Method, GET when left out
    #[serde(default)]
    pub method: Method,
    /// URL; {input} is the input, percent-encoded unless the URL begins with it
    pub url: String,
    /// Headers; {secret:NAME} is a secret by reference
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// JSON to send
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// Text to send instead
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Redirects that are followed (default 5)
    #[serde(default = "five_redirects")]
    #[schemars(range(max = 20))]
    pub max_redirects: u8,
    /// Bytes of the body that are taken; more is an error (default 4 MiB)
    #[serde(default = "four_mebibytes")]
    #[schemars(range(max = 67_108_864))]
    pub max_bytes: u32,
}

fn five_redirects() -> u8 {
    5
}

fn four_mebibytes() -> u32 {
    4 << 20
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs, reason = "they are the words of HTTP")]
pub enum Method {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

/// Calls a tool of another MCP server; the output is its structured content, or else its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mcp {
    /// The server
    pub server: McpServer,
    /// Tool to call; left out, the input is {"tool": …, "args": {…}}
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Its arguments; {input} is the input. Left out, they are the input
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Map<String, Value>>,
}

/// Where an MCP server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum McpServer {
    /// A program that speaks on its standard streams
    Program(McpProgram),
    /// An address that speaks streamable HTTP
    Address(McpAddress),
}

/// An MCP server that is a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpProgram {
    /// The program
    pub command: String,
    /// Its arguments
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Folder to start it in; left out, the workspace's
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables that are set for it; {secret:NAME} is a secret by reference
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// An MCP server behind an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpAddress {
    /// Its URL
    pub url: String,
    /// Headers of every request; {secret:NAME} is a secret by reference
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// Asks a model behind an OpenAI-compatible endpoint; the output is the text of its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Llm {
    /// Where the endpoint is: what stands before /chat/completions
    pub base_url: String,
    /// Its key, as {secret:NAME}
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// The model
    pub model: String,
    /// What the model is told first
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// What it is asked; {input} is the input. Left out, the input is the question, or a list of messages
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Whether the answer is sent as it comes
    #[serde(default)]
    pub stream: bool,
    /// Further fields of the request: temperature, max_tokens, tools, …
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
    /// How often it is asked again after 429, 5xx or a lost connection (default 3)
    #[serde(default = "three_retries")]
    #[schemars(range(max = 10))]
    pub retries: u8,
    /// Seconds before it is asked again, doubled each time, where the endpoint names none (default 1)
    #[serde(default = "one_second")]
    pub retry_delay: Seconds,
}

fn three_retries() -> u8 {
    3
}

fn one_second() -> Seconds {
    Seconds::ONE
}
