//! MCP nodes. A call uses a tool of another MCP server.
//!
//! If the server disappears during a call, it is unknown whether the call happened: the result of the node has an
//! unknown outcome, and the call is not repeated.

mod server;
mod servers;

use std::collections::BTreeMap;

use rmcp::ServiceError;
use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock, ResourceContents};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_workflow::Problem;

pub(crate) use servers::Servers;

use super::NodeSettings;
use crate::context::{CallContext, NodeEnvironment};
use crate::node::{read_object, schema_of};
use crate::outcome::{ErrorType, ExecutorOutcome, Failure};
use crate::template::TemplateValues;

/// Calls a tool of another MCP server; the output is its structured content, otherwise its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mcp {
    /// The server
    pub server: McpServer,
    /// Tool to call; by default the input is {"tool": …, "args": {…}}
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Arguments of the tool; {input} is the input. By default the input is the arguments
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Map<String, Value>>,
}

/// Location of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum McpServer {
    /// Program that communicates over its standard streams
    Program(McpProgram),
    /// Address that serves streamable HTTP
    Address(McpAddress),
}

/// An MCP server that is a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpProgram {
    /// The program
    pub command: String,
    /// Arguments of the program
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Working directory (default: the workspace)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Environment variables; {secret:NAME} is a secret by reference
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// An MCP server behind an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpAddress {
    /// URL of the server
    pub url: String,
    /// Headers of every request; {secret:NAME} is a secret by reference
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

impl NodeSettings for Mcp {
    fn read(fields: &Map<String, Value>, common_keys: &[String], problems: &mut Vec<Problem>) -> Option<Self> {
        let server = read_server(fields.get("server"), problems);
        let mcp = read_object(fields, "", "an mcp node", common_keys, problems);
        // The message of `read_server` is better than `read_object`'s: it names both forms of a server.
        if server.is_none() && fields.contains_key("server") {
            return None;
        }
        mcp
    }

    fn schema() -> Value {
        schema_of::<Self>()
    }

    async fn perform(&self, context: &CallContext<'_>) -> ExecutorOutcome {
        let CallContext { limit, template_values, servers, node_environment, .. } = context;
        // The future that connects to a server is large; boxed, so that other calls do not reserve its size.
        limit.run_within(Box::pin(run(self, template_values, servers, node_environment))).await
    }
}

fn read_server(declared: Option<&Value>, problems: &mut Vec<Problem>) -> Option<McpServer> {
    let pointer = "/server";
    let message = "a server must have a 'command' or a 'url'";
    match declared? {
        Value::Object(fields) if fields.contains_key("command") => {
            read_object::<McpProgram>(fields, pointer, "a server", &[], problems).map(McpServer::Program)
        }
        Value::Object(fields) if fields.contains_key("url") => {
            read_object::<McpAddress>(fields, pointer, "a server", &[], problems).map(McpServer::Address)
        }
        _ => {
            problems.push(Problem::error(pointer, message));
            None
        }
    }
}

async fn run(
    mcp: &Mcp,
    template_values: &TemplateValues,
    servers: &Servers,
    node_environment: &NodeEnvironment,
) -> ExecutorOutcome {
    match call(mcp, template_values, servers, node_environment).await {
        Ok(outcome) => outcome,
        Err(failure) => failure.into(),
    }
}

async fn call(
    mcp: &Mcp,
    template_values: &TemplateValues,
    servers: &Servers,
    node_environment: &NodeEnvironment,
) -> Result<ExecutorOutcome, Failure> {
    let (tool, args) = requested_call(mcp, template_values)?;
    let params = CallToolRequestParams::new(tool.clone()).with_arguments(args.clone());
    let server = servers.get(&mcp.server, template_values, node_environment).await?;
    let outcome = match server.call(params).await {
        Ok(result) => outcome(result),
        Err(ServiceError::McpError(error)) => {
            Failure::new(ErrorType::Tool, format!("The server refused the call: {}", error.message)).into()
        }
        Err(ServiceError::UnexpectedResponse | ServiceError::InputRequiredRoundsExceeded { .. }) => {
            let message = format!("Tool '{tool}' requires input that a node cannot provide.");
            Failure::new(ErrorType::Protocol, message).into()
        }
        Err(error) => {
            servers.forget(&server).await;
            let message =
                format!("The connection to the server was lost during the call, so its outcome is unknown: {error}.");
            Failure::new(ErrorType::Unknown, message).into()
        }
    };
    Ok(outcome.with("tool", tool).with("args", args))
}

/// Returns the tool of the call and its arguments.
fn requested_call(mcp: &Mcp, template_values: &TemplateValues) -> Result<(String, Map<String, Value>), Failure> {
    let invalid = |message: &str| Failure::new(ErrorType::InvalidInput, message);
    let Some(tool) = &mcp.tool else {
        let message = "The node names no tool, so its input must be {\"tool\": …, \"args\": {…}}.";
        let Value::Object(fields) = template_values.input() else { return Err(invalid(message)) };
        let tool = fields.get("tool").and_then(Value::as_str).ok_or_else(|| invalid(message))?;
        let args = match fields.get("args") {
            Some(Value::Object(args)) => args.clone(),
            None | Some(Value::Null) => Map::new(),
            Some(_) => return Err(invalid(message)),
        };
        return Ok((tool.to_owned(), args));
    };
    let args = match (&mcp.args, template_values.input()) {
        (Some(args), _) => template_values.map(args),
        (None, Value::Object(input)) => input.clone(),
        (None, Value::Null) => Map::new(),
        (None, _) => {
            return Err(invalid("The node has no arguments, so its input must be an object with the arguments."));
        }
    };
    Ok((tool.clone(), args))
}

fn outcome(result: CallToolResult) -> ExecutorOutcome {
    let text: Vec<&str> = result.content.iter().filter_map(block_text).collect();
    let text = text.join("\n");
    let failure = (result.is_error == Some(true)).then(|| {
        let message =
            if text.is_empty() { "The tool failed without an error message.".to_owned() } else { text.clone() };
        Failure::new(ErrorType::Tool, message)
    });
    let content = serde_json::to_value(&result.content).unwrap_or_default();
    let output = result.structured_content.unwrap_or_else(|| text.into());
    ExecutorOutcome { output, failure, attributes: Map::new() }.with("content", content)
}

fn block_text(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(text) => Some(&text.text),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { text, .. } => Some(text),
            _ => None,
        },
        _ => None,
    }
}
