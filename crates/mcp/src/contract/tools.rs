//! The tools, generated from the table of verbs.

use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::Value;
use steplatch_protocol::{VERBS, VerbInfo};

/// A tool in the forms in which clients receive it.
struct Entry {
    verb: &'static VerbInfo,
    /// The tool as the full list has it, without rare parameters.
    tool: Tool,
    /// The tool with all its parameters.
    complete: Tool,
    /// The tool as the core has it, if it belongs to the core.
    core: Option<Tool>,
}

/// Every tool, sorted by name. The same for every client and every connection.
static TOOLS: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let mut tools: Vec<_> = VERBS.iter().filter_map(|verb| Some(entry(verb, verb.tool?))).collect();
    tools.sort_by(|left, right| left.tool.name.cmp(&right.tool.name));
    tools
});

/// The tools that most tasks need: those of terminals, `run_command`, and those with which a workflow is written, started and
/// awaited. A client without loading on demand is offered these and [`more_tools`](super::more_tools).
const CORE: [&str; 11] = [
    "await_output",
    "create_workflow",
    "exit_terminal",
    "get_run",
    "get_screen_content",
    "get_workflow_schema",
    "list_terminal_sessions",
    "open_terminal",
    "run_command",
    "run_workflow",
    "send_input",
];

/// The tool that is listed only if the settings have commands for it.
pub(super) const READ_COMMAND: &str = "read_command";

/// Returns every tool, except [`READ_COMMAND`], sorted by name.
pub(super) fn all() -> impl Iterator<Item = &'static Tool> {
    TOOLS.iter().map(|entry| &entry.tool).filter(|tool| tool.name != READ_COMMAND)
}

/// Returns [`READ_COMMAND`] with the entries of the user's list in its description; `None` without entries.
pub(super) fn read_command(entries: &[String]) -> Option<Tool> {
    let mut tool = find_tool(READ_COMMAND).filter(|_| !entries.is_empty())?.clone();
    let mut list = entries.join("; ");
    if list.len() > MAX_ENTRIES_BYTES {
        list.truncate(list.floor_char_boundary(MAX_ENTRIES_BYTES));
        list.push_str(" … (a refused call lists all)");
    }
    let description = tool.description.as_deref().unwrap_or_default();
    tool.description = Some(
        format!("{description} The list, with * for an argument and ** for any number, none an option: {list}").into(),
    );
    Some(tool)
}

/// Returns the tools of the core, sorted by name.
pub(super) fn core() -> impl Iterator<Item = &'static Tool> {
    TOOLS.iter().filter_map(|entry| entry.core.as_ref())
}

/// Returns the tools outside the core, sorted by name.
pub(super) fn outside_core() -> impl Iterator<Item = &'static Tool> {
    TOOLS.iter().filter(|entry| entry.core.is_none() && entry.tool.name != READ_COMMAND).map(|entry| &entry.tool)
}

/// Maximum length of the user's list in a description, in bytes.
const MAX_ENTRIES_BYTES: usize = 600;

fn find(name: &str) -> Option<&'static Entry> {
    TOOLS.iter().find(|entry| entry.tool.name == name)
}

/// Returns the tool `name`.
pub(super) fn find_tool(name: &str) -> Option<&'static Tool> {
    find(name).map(|entry| &entry.tool)
}

/// Returns the tool `name` with all its parameters.
pub(super) fn find_complete_tool(name: &str) -> Option<&'static Tool> {
    find(name).map(|entry| &entry.complete)
}

/// Returns the verb of the tool `name`.
pub(super) fn verb(name: &str) -> Option<&'static VerbInfo> {
    find(name).map(|entry| entry.verb)
}

fn entry(verb: &'static VerbInfo, name: &'static str) -> Entry {
    let complete = complete_tool(verb, name);
    let tool = without_parameters(&complete, &RARE_PARAMETERS);
    let core = CORE.contains(&name).then(|| without_parameters(&tool, &PARAMETERS_OUTSIDE_CORE));
    Entry { verb, tool, complete, core }
}

fn complete_tool(verb: &'static VerbInfo, name: &'static str) -> Tool {
    let mut parameters = object((verb.parameters)());
    // Move the description out of the schema: repeating it would cost its tokens twice.
    let description = match parameters.remove("description") {
        Some(Value::String(description)) => description,
        _ => String::new(),
    };
    shorten(&mut parameters);
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

/// Parameters of tools, by the names of the tools.
type ParametersByTool<'p> = [(&'p str, &'p [&'p str])];

/// Accepted parameters that no list of tools has, because few tasks, only people or only captured workflows need them: they
/// would cost every model tokens. [`find_complete_tool`] has them.
const RARE_PARAMETERS: [(&str, &[&str]); 13] = [
    ("await_output", &["stop_at_input", "reads", "highlighted", "target", "screen"]),
    (
        "capture_workflow",
        &["against", "imported", "since", "last", "expect", "keep", "overwrite_existing", "from", "to"],
    ),
    ("get_file", &["overwrite"]),
    ("get_run", &["compare_with"]),
    ("get_screen_content", &["context", "crop"]),
    ("list_runs", &["since", "until", "before"]),
    ("list_workflows", &["limit"]),
    ("open_terminal", &["wait_ready"]),
    ("put_file", &["overwrite"]),
    ("record_terminal", &["idle_limit", "max_bytes"]),
    ("run_command", &["environment"]),
    ("run_workflow", &["detail", "engine", "execution_timeout", "max_states"]),
    ("send_input", &["stop_at_input", "reads", "highlighted", "screen", "mouse"]),
];

/// Further parameters that the core leaves out.
const PARAMETERS_OUTSIDE_CORE: [(&str, &[&str]); 5] = [
    ("await_output", &["mode", "patterns", "run_ids", "session_ids"]),
    ("create_workflow", &["reason"]),
    ("get_screen_content", &["format"]),
    ("run_command", &["host", "integrate", "limit"]),
    ("run_workflow", &["again", "idempotency_key", "keep_terminals", "rehearse", "save_on_success", "session_id"]),
];

/// Returns a tool without some of its parameters.
fn without_parameters(tool: &Tool, parameters: &ParametersByTool<'_>) -> Tool {
    let mut schema = JsonObject::clone(&tool.input_schema);
    let names = parameters.iter().filter(|(name, _)| tool.name == *name).flat_map(|(_, names)| *names);
    remove_parameters(&mut schema, names);
    let mut tool = tool.clone();
    tool.input_schema = Arc::new(schema);
    tool
}

/// Removes parameters from a schema.
fn remove_parameters<'n>(parameters: &mut JsonObject, names: impl Iterator<Item = &'n &'n str>) {
    let Some(Value::Object(fields)) = parameters.get_mut("properties") else { return };
    for name in names {
        fields.remove(*name);
    }
}

/// Maximum length of a description that only repeats the name of its parameter, such as "Save the workflow", in bytes.
const MAX_EVIDENT_BYTES: usize = 17;

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
        if let Some(fields) = field.remove("properties") {
            // Models write nested fields correctly from a TypeScript type, which takes a third of the tokens.
            let description = field.get("description").and_then(Value::as_str).unwrap_or_default();
            let fields = typescript_fields(&fields, field.get("required").unwrap_or(&Value::Null));
            let description = format!("{description}: {fields}");
            field.remove("required");
            field.insert("description".to_owned(), description.into());
        }
        let is_evident = |text: &Value| text.as_str().is_some_and(|text| text.len() <= MAX_EVIDENT_BYTES);
        if name == "reason"
            || matches!(name.as_str(), "session_id" | "run_id") && is_required(name)
            || field.get("description").is_some_and(is_evident)
        {
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
    let description = typescript_fields(&schema["properties"], &schema["required"]);
    JsonObject::from_iter([("type".to_owned(), "object".into()), ("description".to_owned(), description.into())])
}

/// Returns the TypeScript type of an object with these fields.
fn typescript_fields(fields: &Value, required: &Value) -> String {
    let is_required = |name: &str| required.as_array().is_some_and(|all| all.iter().any(|known| known == name));
    let fields = fields.as_object().into_iter().flatten().map(|(name, field)| {
        let optional = if is_required(name) { "" } else { "?" };
        format!("{name}{optional}: {}", typescript_type(field))
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
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

    use super::super::more_tools;
    use super::*;

    /// Maximum size of the text that clients pass to a model, in bytes: names, descriptions and parameters. 2,000 tokens
    /// for the core with `more_tools`, and 3,500 for the full list, of 4.15 bytes each (o200k_base). Raise them only with
    /// a reason.
    const MAX_CORE_TEXT_BYTES: usize = 7_700;
    const MAX_FULL_TEXT_BYTES: usize = 14_400;

    fn assert_list_matches(tools: &[Tool], file: &expect_test::ExpectFile, max_text_bytes: usize) {
        file.assert_eq(&format!("{}\n", serde_json::to_string_pretty(tools).unwrap()));
        let text_sizes = tools.iter().map(|tool| {
            let schema = serde_json::to_string(&tool.input_schema).unwrap().len();
            tool.name.len() + tool.description.as_ref().map_or(0, |text| text.len()) + schema
        });
        let text_bytes: usize = text_sizes.sum();
        assert!(text_bytes <= max_text_bytes, "{text_bytes} bytes");
    }

    #[test]
    fn lists_of_tools_match_the_committed_files_and_stay_within_their_sizes() {
        let full: Vec<Tool> = all().cloned().collect();
        assert_list_matches(&full, &expect_file!["../../tools.json"], MAX_FULL_TEXT_BYTES);
        let core: Vec<Tool> = core().cloned().chain([more_tools::tool()]).collect();
        assert_list_matches(&core, &expect_file!["../../core_tools.json"], MAX_CORE_TEXT_BYTES);
    }

    #[test]
    fn every_parameter_that_is_left_out_exists() {
        for (name, parameters) in RARE_PARAMETERS.iter().chain(&PARAMETERS_OUTSIDE_CORE) {
            let schema = &find_complete_tool(name).unwrap().input_schema;
            for parameter in *parameters {
                assert!(schema["properties"].get(parameter).is_some(), "{name}: {parameter}");
            }
        }
        assert_eq!(core().count(), CORE.len());
    }

    #[test]
    fn every_tool_has_annotations_and_an_output_schema() {
        for tool in all() {
            let annotations = tool.annotations.as_ref().unwrap();
            assert!(annotations.read_only_hint.is_some() && annotations.destructive_hint.is_some());
            assert!(annotations.idempotent_hint.is_some() && annotations.open_world_hint.is_some());
            assert!(tool.output_schema.is_some(), "{}", tool.name);
            assert!(tool.description.as_ref().is_some_and(|text| (20..2048).contains(&text.len())), "{}", tool.name);
        }
    }
}
