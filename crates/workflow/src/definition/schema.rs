//! The documentation of definitions for their authors: a JSON Schema and a Markdown page.
//!
//! The schema and the page are generated from the types in `shape.rs` and `condition/test.rs`, and from the catalog's
//! descriptions of tools. JSON Schema 2020-12, <https://json-schema.org/draft/2020-12>.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::ToolCatalog;
use super::shape::{self, Machine, State, Transition, VariableEntry, schema_of};
use crate::condition::{ConditionKeys, Word};
use crate::tool;

/// Returns the JSON Schema (2020-12) of a machine over these tools.
///
/// A document without errors in [`Definition::parse`](crate::Definition::parse) matches the schema. A document that
/// matches may still have errors, because a schema does not check state names and patterns.
#[must_use]
pub fn schema(tools: &dyn ToolCatalog) -> Value {
    let mut schema = schema_of::<Machine>();
    let actions: Vec<Value> = action_schemas(tools)
        .into_iter()
        .map(|(tool, params)| {
            let mut branch = json!({
                "type": "object",
                "properties": {"tool": {"const": tool}, "params": templated(&params)},
                "required": ["tool"],
                "additionalProperties": false
            });
            if let Some(description) = params.get("description") {
                branch["description"] = description.clone();
            }
            if params["required"].as_array().is_some_and(|required| !required.is_empty()) {
                branch["required"] = json!(["tool", "params"]);
            }
            branch
        })
        .collect();
    if let Some(action) = schema.pointer_mut("/$defs/Action") {
        *action = json!({"description": "What a state does.", "oneOf": actions});
    }
    if !tools.has_judges()
        && let Some(Value::Object(keys)) = schema.pointer_mut("/$defs/Condition/properties")
    {
        keys.shift_remove("description");
    }
    schema
}

/// Returns the documentation of machines over these tools, as Markdown.
#[must_use]
pub fn documentation(tools: &dyn ToolCatalog) -> String {
    let mut page = String::from("# Machines\n");
    for (title, schema) in [
        ("Document", schema_of::<Machine>()),
        ("State", schema_of::<State>()),
        ("Transition", schema_of::<Transition>()),
        ("Condition: all keys must hold", schema_of::<ConditionKeys>()),
    ] {
        write_section(&mut page, 2, title, &schema);
    }
    page.push_str("\n## Condition in one word\n\n| word | holds when |\n|---|---|\n");
    for word in schema_of::<Word>()["oneOf"].as_array().into_iter().flatten() {
        let text = |key: &str| word[key].as_str().unwrap_or_default().to_owned();
        let _ = writeln!(page, "| `{}` | {} |", text("const"), text("description"));
    }
    write_section(&mut page, 2, "Variable of a contract", &schema_of::<VariableEntry>());
    page.push_str("\n## Actions\n");
    for (tool, params) in action_schemas(tools) {
        write_section(&mut page, 3, &tool, &params);
    }
    page
}

/// Returns a short Markdown reference of all actions and their parameters.
#[must_use]
pub fn action_reference(tools: &dyn ToolCatalog) -> String {
    let mut page = String::new();
    for (tool, params) in action_schemas(tools) {
        let _ = write!(page, "\n## {tool}\n\n");
        let required =
            |name: &str| params["required"].as_array().is_some_and(|all| all.iter().any(|required| required == name));
        for (name, property) in params["properties"].as_object().into_iter().flatten() {
            // The run supplies its terminal.
            if name == "session_id" && !required(name) {
                continue;
            }
            let suffix = if required(name) { ", required" } else { "" };
            let summary = property["description"].as_str().unwrap_or_default();
            let summary = summary.split_once(". ").map_or(summary, |(first, _)| first).replace('\n', " ");
            let _ = writeln!(page, "- `{name}` ({}{suffix}): {summary}{}", kind(property), bounds(property));
        }
    }
    page
}

/// Returns all actions, each with the schema of its parameters.
fn action_schemas(tools: &dyn ToolCatalog) -> Vec<(String, Value)> {
    let of_catalog = tools.tools().into_iter().map(|tool| {
        let mut params = tools.schema(&tool).unwrap_or_else(|| json!({"type": "object"}));
        if tools.takes_session(&tool) {
            make_session_optional(&mut params);
        }
        (tool, params)
    });
    let of_machines = [
        (tool::DIALOGUE.to_owned(), schema_of::<shape::Dialogue>()),
        (tool::SLEEP.to_owned(), schema_of::<shape::Sleep>()),
        (tool::SET.to_owned(), schema_of::<shape::Set>()),
        (tool::RETURN.to_owned(), schema_of::<shape::Return>()),
        (tool::FAIL.to_owned(), schema_of::<shape::Fail>()),
        (tool::GATE.to_owned(), schema_of::<shape::Gate>()),
        (tool::RUN_WORKFLOW.to_owned(), schema_of::<shape::RunWorkflow>()),
        (tool::PARALLEL.to_owned(), schema_of::<shape::Parallel>()),
    ];
    of_catalog.chain(of_machines).collect()
}

/// Makes the parameter `session_id` optional, because the run supplies its terminal.
fn make_session_optional(params: &mut Value) {
    if let Some(Value::Array(required)) = params.get_mut("required") {
        required.retain(|name| name != "session_id");
    }
    if let Some(Value::String(description)) = params.pointer_mut("/properties/session_id/description") {
        description.push_str("; auto-injected if left out: the run's terminal");
    }
}

/// Turns the schema of a tool's parameters into the schema of an action's parameters, where any value may also come
/// from a variable.
fn templated(params: &Value) -> Value {
    let mut properties = Map::new();
    for (name, schema) in params["properties"].as_object().into_iter().flatten() {
        // A null is considered missing, and a string with a variable may become any value.
        let alternatives = json!([schema, {"type": "string", "pattern": r"\{"}, {"type": "null"}]);
        let mut schema = json!({ "anyOf": alternatives });
        if let Some(description) = params["properties"][name].get("description") {
            schema["description"] = description.clone();
        }
        properties.insert(name.clone(), schema);
    }
    let required: Vec<&Value> = params["required"].as_array().into_iter().flatten().collect();
    let known = params.get("properties").is_some();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": !known})
}

fn write_section(page: &mut String, level: usize, title: &str, schema: &Value) {
    let _ = write!(page, "\n{} {title}\n", "#".repeat(level));
    if let Some(description) = schema["description"].as_str() {
        let _ = write!(page, "\n{description}\n");
    }
    let Some(properties) = schema["properties"].as_object().filter(|properties| !properties.is_empty()) else {
        return;
    };
    page.push_str("\n| key | type | what |\n|---|---|---|\n");
    let required = |name: &str| {
        schema["required"].as_array().is_some_and(|required| required.iter().any(|required| required == name))
    };
    for (name, property) in properties {
        let suffix = if required(name) { ", required" } else { "" };
        let summary = property["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|");
        let _ = writeln!(page, "| `{name}` | {}{suffix} | {summary}{} |", kind(property), bounds(property));
    }
}

fn kind(schema: &Value) -> String {
    let type_name = |value: &Value| value.as_str().filter(|name| *name != "null").map(str::to_owned);
    let kinds: Vec<String> = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(type_name).collect(),
        kind => type_name(kind).into_iter().collect(),
    };
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    }
    let words = ["$ref", "anyOf", "oneOf", "allOf", "const", "properties"];
    match &kinds[..] {
        [] if words.iter().all(|word| schema.get(word).is_none()) => "any".to_owned(),
        [] => "object".to_owned(),
        kinds => kinds.join(", "),
    }
}

/// Returns the bounds of a value and its default.
fn bounds(schema: &Value) -> String {
    let bound = |word: &str| schema.get(word).filter(|bound| bound.is_number()).map(ToString::to_string);
    let range = match (bound("minimum"), bound("maximum")) {
        (Some(min), Some(max)) => Some(format!("{min} to {max}")),
        (Some(min), None) => Some(format!("at least {min}")),
        (None, Some(max)) => Some(format!("at most {max}")),
        (None, None) => None,
    };
    // Some descriptions already mention the default.
    let is_described = schema["description"].as_str().is_some_and(|description| description.contains("default"));
    let is_notable = |default: &&Value| !matches!(default, Value::Null | Value::Bool(false)) && **default != "";
    let default = schema.get("default").filter(is_notable).filter(|_| !is_described).map(|default| {
        let text = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
        format!("default {text}")
    });
    let parts: Vec<String> = range.into_iter().chain(default).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}
