//! The tools, generated from the table of verbs.

use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::Value;
use steplatch_protocol::{VERBS, VerbInfo};

/// Every tool with its verb, sorted by name. The same for every client and every connection.
static TOOLS: LazyLock<Vec<(Tool, &'static VerbInfo)>> = LazyLock::new(|| {
    let mut tools: Vec<_> = VERBS.iter().filter_map(|verb| Some((tool(verb, verb.tool?), verb))).collect();
    tools.sort_by(|(left, _), (right, _)| left.name.cmp(&right.name));
    tools
});

/// Returns every tool, sorted by name.
pub(super) fn all() -> Vec<Tool> {
    TOOLS.iter().map(|(tool, _)| tool.clone()).collect()
}

/// Returns the tool `name`.
pub(super) fn find_tool(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|(tool, _)| tool.name == name).map(|(tool, _)| tool)
}

/// Returns the verb of the tool `name`.
pub(super) fn verb(name: &str) -> Option<&'static VerbInfo> {
    TOOLS.iter().find(|(tool, _)| tool.name == name).map(|(_, verb)| *verb)
}

fn tool(verb: &'static VerbInfo, name: &'static str) -> Tool {
    let mut parameters = object((verb.parameters)());
    // Move the description out of the schema: repeating it would cost its tokens twice.
    let description = match parameters.remove("description") {
        Some(Value::String(description)) => description,
        _ => String::new(),
    };
    shorten(&mut parameters);
    remove_parameters(
        &mut parameters,
        HIDDEN_PARAMETERS.iter().filter(|(tool, _)| *tool == name).flat_map(|(_, names)| *names),
    );
    let traits = verb.traits;
    Tool::new(name, description, Arc::new(parameters))
        .with_title(verb.title)
        .with_raw_output_schema(Arc::new(outline(&(verb.reply)())))
        .with_annotations(
            ToolAnnotations::new()
                .read_only(traits.read_only)
                .destructive(traits.destructive)
                .idempotent(traits.idempotent)
                .open_world(traits.open_world),
        )
}

/// Accepted parameters that the list of tools omits, because only people and captured workflows use them: they would
/// cost every model tokens.
const HIDDEN_PARAMETERS: [(&str, &[&str]); 5] = [
    ("await_output", &["stop_at_input", "reads", "highlighted"]),
    ("capture_workflow", &["against", "imported", "since", "last", "expect", "keep", "overwrite_existing"]),
    ("get_file", &["overwrite"]),
    ("run_command", &["environment"]),
    ("send_input", &["stop_at_input", "reads", "highlighted"]),
];

/// Removes parameters from a schema.
fn remove_parameters<'n>(parameters: &mut JsonObject, names: impl Iterator<Item = &'n &'n str>) {
    let Some(Value::Object(fields)) = parameters.get_mut("properties") else { return };
    for name in names {
        fields.remove(*name);
    }
}

/// Removes the parts of a schema that a model does not need for a call: bounds (error messages state them), and the
/// descriptions of self-explanatory parameters.
fn shorten(parameters: &mut JsonObject) {
    let required = parameters.get("required").cloned().unwrap_or_default();
    let is_required = |name: &str| required.as_array().is_some_and(|all| all.iter().any(|known| known == name));
    let Some(Value::Object(fields)) = parameters.get_mut("properties") else { return };
    for (name, field) in fields {
        let Value::Object(field) = field else { continue };
        field.retain(|keyword, value| {
            !matches!(keyword.as_str(), "minimum" | "maximum") && !permits_any_field(keyword, value)
        });
        if name == "reason" || matches!(name.as_str(), "session_id" | "run_id") && is_required(name) {
            field.remove("description");
        }
    }
}

/// Returns whether a keyword of a schema permits any further field, as schemas without it do.
fn permits_any_field(keyword: &str, value: &Value) -> bool {
    keyword == "additionalProperties" && *value == true
}

/// Returns a short form of a reply's schema: an object whose description lists its fields.
///
/// Clients check every reply against this schema, and some validate the schema itself each time: with a property for
/// each field, the Python SDK took 2.7 ms for a reply that arrived in 0.2 ms. The description therefore states the
/// fields as a TypeScript type, because models read this more easily. Nested fields are omitted: replies show them, and
/// they would cost more tokens than the tools themselves.
fn outline(schema: &Value) -> JsonObject {
    let fields = schema.get("properties").and_then(Value::as_object);
    let required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|known| known == name));
    let fields = fields.into_iter().flatten().map(|(name, field)| {
        let optional = if required(name) { "" } else { "?" };
        format!("{name}{optional}: {}", typescript_type(field))
    });
    let fields: Vec<String> = fields.collect();
    let description = format!("{{{}}}", fields.join(", "));
    JsonObject::from_iter([("type".to_owned(), "object".into()), ("description".to_owned(), description.into())])
}

/// Returns the TypeScript type of a field.
fn typescript_type(schema: &Value) -> String {
    let list = |key: &str| schema.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if !list("anyOf").is_empty() {
        return list("anyOf").iter().map(typescript_type).collect::<Vec<_>>().join(" | ");
    }
    if !list("enum").is_empty() {
        return list("enum").iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("integer" | "number") => "number".to_owned(),
        Some("array") => format!("{}[]", typescript_type(&schema["items"])),
        Some(plain) => plain.to_owned(),
        None => "any".to_owned(),
    }
}

fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(object) => object,
        other => unreachable!("the schema of a verb is an object, not {other}"),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::*;

    /// Maximum size of all tool definitions, in bytes. Raise it only with a reason.
    const MAX_LIST_BYTES: usize = 29_000;

    /// Maximum size of the text that clients pass to a model, in bytes: names, descriptions and parameters. About 4.0k
    /// tokens, including 0.2k for capture, 0.3k for files, 0.1k for repairs, 0.1k for reruns, 0.1k for passwords,
    /// 60 for hosts and 30 for the engine of a run.
    const MAX_MODEL_TEXT_BYTES: usize = 16_300;

    #[test]
    fn list_of_tools_matches_the_committed_file() {
        let tools = serde_json::to_string_pretty(&all()).unwrap();
        expect_file!["../../tools.json"].assert_eq(&format!("{tools}\n"));
    }

    #[test]
    fn tool_definitions_stay_within_their_size_limits() {
        let bytes = serde_json::to_string(&all()).unwrap().len();
        assert!(bytes <= MAX_LIST_BYTES, "{bytes} bytes");
        let tools = all();
        let model_text_sizes = tools.iter().map(|tool| {
            let schema = serde_json::to_string(&tool.input_schema).unwrap().len();
            tool.name.len() + tool.description.as_ref().map_or(0, |text| text.len()) + schema
        });
        let model_text_bytes: usize = model_text_sizes.sum();
        assert!(model_text_bytes <= MAX_MODEL_TEXT_BYTES, "{model_text_bytes} bytes");
    }

    #[test]
    fn every_tool_has_annotations_and_an_output_schema() {
        for tool in all() {
            let annotations = tool.annotations.unwrap();
            assert!(annotations.read_only_hint.is_some() && annotations.destructive_hint.is_some());
            assert!(annotations.idempotent_hint.is_some() && annotations.open_world_hint.is_some());
            assert!(tool.output_schema.is_some(), "{}", tool.name);
            assert!(tool.description.is_some_and(|text| (20..2048).contains(&text.len())), "{}", tool.name);
        }
    }
}
