//! MCP nodes, which call a tool of another MCP server.
//!
//! If the server is lost during a call, it is unknown whether the call was performed: its result reports that, and the
//! call is not repeated.

mod server;
mod servers;

use rmcp::ServiceError;
use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Map, Value};

pub(crate) use servers::Servers;

use crate::node::Mcp;
use crate::nodes::Surroundings;
use crate::result::{ErrorType, ExecutorOutcome, Failure};
use crate::template::TemplateValues;

pub(crate) async fn run(
    mcp: &Mcp,
    filling: &TemplateValues,
    servers: &Servers,
    surroundings: &Surroundings,
) -> ExecutorOutcome {
    match call(mcp, filling, servers, surroundings).await {
        Ok(came) => came,
        Err(failure) => failure.into(),
    }
}

async fn call(
    mcp: &Mcp,
    filling: &TemplateValues,
    servers: &Servers,
    surroundings: &Surroundings,
) -> Result<ExecutorOutcome, Failure> {
    let (tool, args) = requested_call(mcp, filling)?;
    let params = CallToolRequestParams::new(tool.clone()).with_arguments(args.clone());
    let server = servers.get(&mcp.server, filling, surroundings).await?;
    let came = match server.call(params).await {
        Ok(result) => outcome(result),
        Err(ServiceError::McpError(error)) => {
            Failure::new(ErrorType::Tool, format!("The server refused the call: {}", error.message)).into()
        }
        Err(ServiceError::UnexpectedResponse | ServiceError::InputRequiredRoundsExceeded { .. }) => {
            let message = format!("Tool '{tool}' asks for something that a node can not give.");
            Failure::new(ErrorType::Protocol, message).into()
        }
        Err(error) => {
            servers.forget(&server).await;
            let message = format!("The server was lost during the call, which it may have done or not: {error}.");
            Failure::new(ErrorType::Unknown, message).into()
        }
    };
    Ok(came.with("tool", tool).with("args", args))
}

/// Returns which tool is called, and with what.
fn requested_call(mcp: &Mcp, filling: &TemplateValues) -> Result<(String, Map<String, Value>), Failure> {
    let invalid = |message: &str| Failure::new(ErrorType::InvalidInput, message);
    let Some(tool) = &mcp.tool else {
        let message = "The node names no tool, so its input must be {\"tool\": …, \"args\": {…}}.";
        let Value::Object(fields) = filling.input() else { return Err(invalid(message)) };
        let tool = fields.get("tool").and_then(Value::as_str).ok_or_else(|| invalid(message))?;
        let args = match fields.get("args") {
            Some(Value::Object(args)) => args.clone(),
            None | Some(Value::Null) => Map::new(),
            Some(_) => return Err(invalid(message)),
        };
        return Ok((tool.to_owned(), args));
    };
    let args = match (&mcp.args, filling.input()) {
        (Some(args), _) => filling.map(args),
        (None, Value::Object(input)) => input.clone(),
        (None, Value::Null) => Map::new(),
        (None, _) => return Err(invalid("The node names no arguments, so its input must be an object with them.")),
    };
    Ok((tool.clone(), args))
}

fn outcome(result: CallToolResult) -> ExecutorOutcome {
    let text: Vec<&str> = result.content.iter().filter_map(text_of).collect();
    let text = text.join("\n");
    let failure = (result.is_error == Some(true)).then(|| {
        let message = if text.is_empty() { "The tool failed and did not say why.".to_owned() } else { text.clone() };
        Failure::new(ErrorType::Tool, message)
    });
    let content = serde_json::to_value(&result.content).unwrap_or_default();
    let output = result.structured_content.unwrap_or_else(|| text.into());
    ExecutorOutcome { output, failure, attributes: Map::new() }.with("content", content)
}

fn text_of(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(text) => Some(&text.text),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { text, .. } => Some(text),
            _ => None,
        },
        _ => None,
    }
}
