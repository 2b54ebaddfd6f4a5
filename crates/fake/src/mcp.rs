//! A minimal MCP server with one tool (revision 2025-11-25, Streamable HTTP without sessions).

use serde_json::{Value, json};

use crate::state::State;

/// Returns the reply to a message; `None` for a notification.
pub(crate) fn reply(state: &State, message: &Value) -> Option<Value> {
    let id = message.get("id")?;
    let method = message["method"].as_str().unwrap_or_default();
    let result = match method {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "fake", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [{ "name": "workflows-list-tool", "inputSchema": { "type": "object" } }] }),
        "tools/call" if message["params"]["name"] == "workflows-list-tool" => {
            let list = Value::Array(state.entries.clone());
            json!({ "content": [{ "type": "text", "text": list.to_string() }] })
        }
        _ => {
            let error = json!({ "code": -32601, "message": "Method not found" });
            return Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
    };
    Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}
