//! One tool for the tools outside the core: it lists them, describes one, and calls one.
//!
//! A client that loads all tools pays for each definition in every conversation; most conversations need the core only.

use std::fmt::Write as _;
use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// Name of the tool.
pub(super) const MORE_TOOLS: &str = "more_tools";

const DESCRIPTION: &str = "\
Use the tools that are not in this list: files here and on other hosts, answers to runs (decide), lists and ends of runs, saved \
and remote workflows, captures, recordings, passwords of a person, signals and sizes of terminals. Without arguments it lists them, \
with tool it shows the parameters of one (also of those in this list), with arguments it calls it.";

/// A call of the tool.
#[derive(Debug, PartialEq)]
pub(super) enum Request {
    /// List the tools.
    List,
    /// Describe a tool.
    Describe(String),
    /// Call a tool.
    Call(String, JsonObject),
}

impl Request {
    /// Parses the arguments of a call.
    ///
    /// # Errors
    /// If they name no tool, or are no object. The text names the next step.
    pub(super) fn parse(mut given: JsonObject) -> Result<Self, String> {
        // Some models write null for what they leave out.
        given.retain(|_, value| !value.is_null());
        let tool = match given.remove("tool").or_else(|| given.remove("name")) {
            None if given.is_empty() => return Ok(Self::List),
            Some(Value::String(tool)) => tool,
            _ => return Err(format!("{MORE_TOOLS} needs the name of a tool as tool; without arguments it lists them")),
        };
        let arguments = given.remove("arguments").unwrap_or(Value::Null);
        if let Some(name) = given.keys().next() {
            return Err(format!("{MORE_TOOLS} takes tool and arguments, and not '{name}'; put it into arguments"));
        }
        match arguments {
            Value::Null => Ok(Self::Describe(tool)),
            Value::Object(arguments) => Ok(Self::Call(tool, arguments)),
            // Some models write nested arguments as text.
            Value::String(text) => match serde_json::from_str(&text) {
                Ok(Value::Object(arguments)) => Ok(Self::Call(tool, arguments)),
                _ => Err("arguments must be an object".to_owned()),
            },
            _ => Err("arguments must be an object".to_owned()),
        }
    }
}

/// Returns the tool.
pub(super) fn tool() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "tool": {"type": "string"},
            "arguments": {"type": "object", "description": "Its arguments; {} if it needs none"}
        }
    });
    let Value::Object(schema) = schema else { unreachable!("the schema is an object") };
    // The called tool may have any effect.
    let annotations = ToolAnnotations::new().read_only(false).destructive(true).idempotent(false).open_world(true);
    Tool::new(MORE_TOOLS, DESCRIPTION, Arc::new(schema)).with_title("Use another tool").with_annotations(annotations)
}

/// Lists tools with the first sentence of each description.
pub(super) fn list<'t>(tools: impl Iterator<Item = &'t Tool>) -> String {
    let mut text = String::new();
    for tool in tools {
        let description = tool.description.as_deref().unwrap_or_default();
        let sentence = description.split_inclusive(". ").next().unwrap_or_default().trim();
        // Writing to a String does not fail.
        let _ = writeln!(text, "{}: {}", tool.name, sentence.lines().next().unwrap_or_default());
    }
    text
}

/// Returns the error about an unknown tool, with the names of `tools`.
pub(super) fn unknown_tool_error<'t>(name: &str, tools: impl Iterator<Item = &'t Tool>) -> String {
    let names: Vec<&str> = tools.map(|tool| &*tool.name).collect();
    let name: String = name.chars().filter(|character| !character.is_control()).take(80).collect();
    format!("{MORE_TOOLS}: there is no tool '{name}'; there are {}", names.join(", "))
}

/// Describes a tool with its parameters.
pub(super) fn describe(tool: &Tool) -> Value {
    json!({"tool": tool.name, "description": tool.description, "arguments": *tool.input_schema})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: Value) -> Result<Request, String> {
        Request::parse(arguments.as_object().unwrap().clone())
    }

    #[test]
    fn arguments_are_a_list_a_description_or_a_call() {
        assert_eq!(parse(json!({})), Ok(Request::List));
        assert_eq!(parse(json!({"tool": null})), Ok(Request::List));
        assert_eq!(parse(json!({"tool": null, "arguments": null})), Ok(Request::List));
        assert_eq!(parse(json!({"tool": "get_run"})), Ok(Request::Describe("get_run".to_owned())));
        let call = Request::Call("get_run".to_owned(), json!({"run_id": "run_1"}).as_object().unwrap().clone());
        for arguments in [
            json!({"tool": "get_run", "arguments": {"run_id": "run_1"}}),
            json!({"name": "get_run", "arguments": {"run_id": "run_1"}}),
            json!({"tool": "get_run", "arguments": "{\"run_id\": \"run_1\"}"}),
        ] {
            assert_eq!(parse(arguments.clone()).as_ref(), Ok(&call), "{arguments}");
        }
        assert_eq!(parse(json!({"tool": "x", "arguments": {}})), Ok(Request::Call("x".to_owned(), JsonObject::new())));
        for (arguments, part) in [
            (json!({"tool": 5}), "needs the name"),
            (json!({"arguments": {}}), "needs the name"),
            (json!({"tool": "get_run", "run_id": "run_1"}), "put it into arguments"),
            (json!({"tool": "get_run", "arguments": [1]}), "must be an object"),
            (json!({"tool": "get_run", "arguments": "run_1"}), "must be an object"),
        ] {
            let error = parse(arguments.clone()).unwrap_err();
            assert!(error.contains(part), "{arguments}: {error}");
        }
    }
}
