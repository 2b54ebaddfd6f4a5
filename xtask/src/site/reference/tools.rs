//! The tools of the MCP server.

use anyhow::Context as _;
use serde_json::Value;

use super::schema::{escape, format_code, property_table};

const INTRODUCTION: &str = "\
# Tools of the MCP server

The name, the description and the parameters of each tool, as `tools/list` returns them. [MCP](../mcp.md) explains
their use.
";

/// Makes the page from the recorded list of tools.
pub(super) fn page(document: &str) -> anyhow::Result<String> {
    let tools: Vec<Value> = serde_json::from_str(document).context("The tool list is not a JSON array.")?;
    let mut page = INTRODUCTION.to_owned();
    for tool in &tools {
        let name = tool["name"].as_str().context("A tool has no name.")?;
        page.push_str(&format!("\n## {name}\n\n{}.\n", escape(tool["title"].as_str().unwrap_or(name))));
        if let Some(description) = tool["description"].as_str() {
            page.push_str(&format!("\n{}\n", escape(description)));
        }
        if let Some(table) = property_table(&tool["inputSchema"], "parameter") {
            page.push_str(&format!("\n{table}"));
        }
        if let Some(reply) = tool["outputSchema"]["description"].as_str() {
            page.push_str(&format!("\nReply: {}\n", format_code(reply)));
        }
        let hints = hints(&tool["annotations"]);
        if !hints.is_empty() {
            page.push_str(&format!("\nHints: {}.\n", hints.join(", ")));
        }
    }
    Ok(page)
}

/// Returns the hints that hold, in words.
fn hints(annotations: &Value) -> Vec<&'static str> {
    const HINTS: [(&str, &str); 4] = [
        ("readOnlyHint", "only reads"),
        ("destructiveHint", "may destroy"),
        ("idempotentHint", "a repetition changes nothing"),
        ("openWorldHint", "acts outside of steplatch"),
    ];
    HINTS.iter().filter(|(key, _)| annotations[key] == true).map(|(_, words)| *words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_has_parameters_and_hints() {
        let document = r#"[{"name": "wait", "title": "Wait", "description": "Wait for <text>.", "inputSchema":
            {"properties": {"id": {"type": "string", "description": "Terminal"}}, "required": ["id"]},
            "annotations": {"readOnlyHint": true, "openWorldHint": false}}]"#;
        let expected = "\n## wait\n\nWait.\n\nWait for \\<text>.\n\n| parameter | type | default | |\n|---|---|---|---|\n\
                        | `id` | string | required | Terminal |\n\nHints: only reads.\n";
        assert_eq!(page(document).unwrap().strip_prefix(INTRODUCTION), Some(expected));
    }
}
