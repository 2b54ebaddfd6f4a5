//! The shape of a definition, as types.
//!
//! No code builds these types: a handwritten reader reports all problems of a document at once. The types have two
//! other uses: the reader takes its known keys from them, and the generator makes the JSON Schema and the documentation
//! for authors from them. The keys of a condition are in `condition/test.rs`.
#![allow(dead_code, clippy::large_enum_variant, reason = "these types are described, never built")]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, json_schema};
use serde_json::{Map, Value};

use crate::condition::{ConditionKeys, Word};
use crate::contract::KEYWORDS;
use crate::dialogue::{MAX_ANSWERS, MAX_RULES, MAX_TIMEOUT_SECONDS};
use crate::rehearsal::StubFile;

pub(super) const MAX_STATES: usize = 100;
pub(super) const MAX_TRANSITIONS: usize = 20;
pub(super) const MAX_VARIABLES: usize = 20;
pub(super) const MAX_NAME_CHARS: usize = 64;
pub(super) const MAX_VARIABLE_NAME_CHARS: usize = 64;
pub(crate) const MAX_DESCRIPTION_CHARS: usize = 500;

/// A machine: named states with one action each, and conditional transitions between them.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Machine {
    /// URL of this schema, for editors
    #[serde(rename = "$schema")]
    editor_schema: Option<String>,
    /// Name of the workflow
    #[schemars(regex(pattern = "^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$"))]
    name: Option<String>,
    /// Purpose of the workflow, in a sentence
    #[schemars(length(max = MAX_DESCRIPTION_CHARS))]
    description: Option<String>,
    /// Start values of a run, for {NAME}; a name in capitals is also an environment variable of the shell
    #[schemars(default, schema_with = "arguments")]
    arguments: Option<BTreeMap<String, Variable>>,
    /// Environment variables that the shell must have after the last state
    #[schemars(default, schema_with = "contract")]
    return_values: Option<BTreeMap<String, Variable>>,
    /// Configured name of the host on which the terminals are opened; a state may name another host
    host: Option<String>,
    /// First state of a run
    initial_state: String,
    /// State that cleans up when the run completes or fails; the run ends with the path from this state
    #[serde(rename = "finally")]
    finally_state: Option<String>,
    /// States, by name
    #[schemars(schema_with = "states")]
    states: BTreeMap<String, State>,
}

/// Purpose of a variable of a contract, or its full entry.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum Variable {
    /// Purpose of the variable
    Described(String),
    Entry(VariableEntry),
}

/// A variable of a contract.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct VariableEntry {
    /// Name of the variable; must equal its key, and may be omitted
    name: Option<String>,
    /// Purpose of the variable
    description: Option<String>,
    /// True if the variable must be set (default true)
    required: Option<bool>,
    /// Value if the shell has none
    #[schemars(default, schema_with = "any_value")]
    default: Option<Value>,
    /// True if the value must not be shown
    secret: Option<bool>,
    /// For a return value: template with variables for the value; without it, the value is read from the shell
    from: Option<String>,
    /// For an argument: true to export it to the environment of the terminal (default true; false for a secret, which {NAME} inserts)
    export: Option<bool>,
    /// JSON Schema of the value as text
    #[schemars(default, schema_with = "value_schema")]
    schema: Option<Map<String, Value>>,
}

/// A state: an action, and its transitions.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct State {
    /// Action of the state
    action: Action,
    /// Transitions from the state: the first one that holds is taken. If none holds, the run completes, or fails if the action failed
    #[schemars(length(max = MAX_TRANSITIONS))]
    transitions: Option<Vec<Transition>>,
    /// Host on which the state opens its terminal, instead of the workflow's host
    host: Option<String>,
    /// Time limit of the state in seconds
    #[schemars(range(min = 0.1, max = 7200.0))]
    timeout: Option<f64>,
    /// Alias of timeout
    #[schemars(range(min = 0.1, max = 7200.0))]
    timeout_seconds: Option<f64>,
    /// Maximum number of visits to the state; {visits} is the number so far
    #[schemars(range(min = 1, max = 1000))]
    max_visits: Option<u32>,
    /// Next state when the maximum number of visits is reached; without it, the run fails
    on_exhausted: Option<String>,
    /// Items for which the state is executed in turn: {item} is the current one, {STATE_results} has the results
    for_each: Option<AnyForEach>,
    /// Next state after the time limit, and if no transition holds after a failure of the action or a wait without a match
    on_timeout: Option<String>,
    /// Reaction if the state would fail or none of its transitions holds: ask at a gate how the run continues
    on_unknown: Option<OnUnknown>,
}

/// Reaction of a state to an unexpected result.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[allow(dead_code, reason = "this type is described, never built")]
enum OnUnknown {
    /// A person or an agent decides how the run continues
    Ask,
    /// The run fails
    Fail,
}

/// A list, or text with one item per line; or an object with more keys.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum AnyForEach {
    Text(String),
    List(Vec<Value>),
    Object(ForEach),
}

/// The items for which a state is executed.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ForEach {
    /// A list, or text with one item per line; variables are replaced
    items: Value,
    /// Variable of the current item (default item)
    r#as: Option<String>,
    /// Maximum number of items (default 100)
    #[schemars(range(min = 1, max = 1000))]
    max_items: Option<u32>,
    /// For a run_workflow: number of concurrent runs, each with its own terminal (default: one after the other)
    #[schemars(range(min = 1, max = 32))]
    max_parallel: Option<u32>,
    /// With max_parallel: the first failure cancels the other runs (default false)
    fail_fast: Option<bool>,
}

/// Action of a state.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Action {
    /// Name of the tool
    tool: String,
    /// Parameters of the tool; {name} is a variable
    params: Option<Map<String, Value>>,
}

/// A transition to another state, with its condition.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(extend("if" = {"properties": {"condition": {"enum": ["pattern_match", "pattern_no_match"]}}, "required": ["condition"]}))]
#[schemars(extend("then" = {"properties": {"pattern": {"type": "string"}}, "required": ["pattern"]}))]
pub(super) struct Transition {
    /// Condition for the transition; {} always holds
    condition: AnyCondition,
    /// Pattern for the words pattern_match and pattern_no_match
    pattern: Option<String>,
    /// Next state
    next_state: String,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum AnyCondition {
    Keys(ConditionKeys),
    Word(Word),
}

/// Answer the questions of the program in the terminal by rules, in any order. Succeeds when `until` is
/// found; fails at a question that no rule answers, if the program exits, and at the timeout.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Dialogue {
    /// Answers to questions: [{"when": pattern, "type": "text\n"}, …]; a rule may also have press (keys, after the text), secret (true, or instead of type the name of a secret argument, which is typed with Enter) and times (maximum number of answers)
    #[schemars(length(min = 1, max = MAX_RULES))]
    rules: Vec<Rule>,
    /// Pattern or patterns that end the dialogue; test which one matched with {"field_equals": {"pattern": …}}. Without it, the shell's prompt or the exit of the program ends the dialogue, and the exit code must be 0
    #[schemars(default, schema_with = "patterns")]
    until: Option<Value>,
    /// Text to type first, such as the command that asks the questions
    input_text: Option<String>,
    /// Maximum total time in seconds (default 60)
    #[schemars(range(min = 0.1, max = MAX_TIMEOUT_SECONDS))]
    timeout: Option<f64>,
    /// Maximum number of answers (default 20)
    #[schemars(range(min = 1, max = MAX_ANSWERS))]
    max_answers: Option<u32>,
    /// Terminal to work in (default: the terminal of the run)
    session_id: Option<String>,
}

/// Answer to a question.
#[derive(JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(super) struct Rule {
    /// Pattern of the question, searched after the line of the previous question
    when: String,
    /// Text to type; \n is Enter, {groups.1} and named groups are the matches of the groups of the pattern
    #[serde(rename = "type")]
    text: Option<String>,
    /// Key, or list of keys, to press after the text
    #[schemars(default, schema_with = "patterns")]
    press: Option<Value>,
    /// true: the text is hidden. A name: the secret argument to type, followed by Enter
    #[schemars(default, schema_with = "secret")]
    secret: Option<Value>,
    /// Maximum number of uses of the rule
    #[schemars(default, schema_with = "times")]
    times: Option<u32>,
}

/// Wait for time to pass.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Sleep {
    /// Seconds to wait
    #[schemars(range(min = 0.0, max = 7200.0))]
    seconds: f64,
}

/// Set variables to values of any form: each parameter is a variable. Later states use it as {name}.
#[derive(JsonSchema)]
pub(super) struct Set {}

/// End the run as completed, with a result of any form. Return values of the contract are returned beside it.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Return {
    /// Result of the run
    #[schemars(default, schema_with = "anything")]
    result: Option<Value>,
}

/// Fail: without a transition for the failure, the run fails with this message.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Fail {
    /// Message for readers: the reason for the failure
    message: String,
}

/// Ask a person or an agent, and wait for the answer, which is the result's `answer` and the variable `answer`.
/// Without an answer in time, the state times out. The clock of the run is stopped in the meantime.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Gate {
    /// Question to ask
    prompt: String,
    /// Possible answers; if omitted, any text is an answer
    choices: Option<Vec<String>>,
    /// Form to fill in instead: {"type": "object", "properties": {NAME: {"type": "string" | "number" | "integer" |
    /// "boolean", "title"?, "description"?, "default"?, "enum"?}}, "required": [NAME]}; each field is part of the result
    form: Option<Map<String, Value>>,
    /// Seconds to wait (0 to 31536000; default: no limit)
    timeout: Option<f64>,
    /// Person or agent that may answer: human (default), agent or anyone
    answered_by: Option<String>,
    /// Groups of notification rules that send at once: a name, or a list of names
    #[schemars(with = "Option<Value>")]
    approvers: Option<Value>,
    /// Groups of notification rules that send later, with seconds: {"leads": 3600}
    escalate_after: Option<Map<String, Value>>,
}

/// Run another workflow; its outcome is the result. Specify either workflow_definition or workflow_name.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct RunWorkflow {
    /// Inline definition of the workflow; its placeholders belong to the nested run
    #[schemars(default, schema_with = "whole_machine")]
    workflow_definition: Option<Map<String, Value>>,
    /// Name of a saved workflow
    workflow_name: Option<String>,
    /// Terminal to work in (default: the terminal of this run)
    session_id: Option<String>,
    /// Initial variables of the nested run; it has no others
    initial_variables: Option<Map<String, Value>>,
    /// Maximum number of states to execute (default 100)
    #[schemars(range(min = 1, max = 1000))]
    max_states: Option<u32>,
    /// Time limit in seconds (default 1800)
    #[schemars(range(min = 1.0, max = 7200.0))]
    execution_timeout: Option<f64>,
    /// Leave the terminals open when the nested run fails or is cancelled
    keep_terminals: Option<bool>,
    /// Save a workflow_definition in the library on completion (default true, unless the outer run has false)
    save_on_success: Option<bool>,
}

/// Run several workflows at once; succeeds when all complete. Each has its own terminal
/// unless it names one.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Parallel {
    /// A list, or an object with a name for each; each has the parameters of run_workflow. {STATE_results} has their return values, in the same form
    #[schemars(schema_with = "workflows")]
    workflows: Value,
    /// Maximum number of concurrent runs (default 4)
    #[schemars(range(min = 1, max = 32))]
    max_parallel: Option<u32>,
    /// The first failure cancels the other runs (default false: all runs finish)
    fail_fast: Option<bool>,
}

fn workflows(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    json_schema!({
        "type": ["array", "object"], "items": {"type": "object"}, "additionalProperties": {"type": "object"},
        "maxItems": crate::parallel::MAX_BRANCHES, "maxProperties": crate::parallel::MAX_BRANCHES
    })
}

fn contract(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    contract_of(generator, "^[A-Z][A-Z0-9_]*$")
}

fn arguments(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    contract_of(generator, "^[A-Za-z][A-Za-z0-9_]*$")
}

fn contract_of(generator: &mut schemars::SchemaGenerator, names: &str) -> schemars::Schema {
    let variable = generator.subschema_for::<Variable>();
    json_schema!({
        "type": ["object", "null"],
        "propertyNames": {"pattern": names, "maxLength": MAX_VARIABLE_NAME_CHARS},
        "maxProperties": MAX_VARIABLES,
        "additionalProperties": variable
    })
}

fn states(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let state = generator.subschema_for::<State>();
    json_schema!({
        "type": "object",
        "propertyNames": {"pattern": "^[A-Za-z0-9_]+$", "maxLength": MAX_NAME_CHARS},
        "minProperties": 1,
        "maxProperties": MAX_STATES,
        "additionalProperties": state
    })
}

fn any_value(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    json_schema!({"type": ["string", "number", "boolean", "array", "object", "null"]})
}

fn value_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    json_schema!({"type": ["object", "null"], "propertyNames": {"enum": KEYWORDS}})
}

fn patterns(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    json_schema!({"type": ["string", "array", "null"], "items": {"type": "string"}})
}

fn times(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    json_schema!({"type": ["integer", "string", "null"], "minimum": 1, "maximum": MAX_ANSWERS})
}

fn secret(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    json_schema!({"type": ["boolean", "string", "null"]})
}

fn anything(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    json_schema!({})
}

fn whole_machine(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    json_schema!({"$ref": "#"})
}

/// Returns the schema of a type and of all types in it (JSON Schema 2020-12).
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value();
    drop_null_defaults(&mut schema);
    schema
}

/// Removes null defaults, because they only mark an optional key.
fn drop_null_defaults(schema: &mut Value) {
    match schema {
        Value::Object(words) => {
            if words.get("default").is_some_and(Value::is_null) {
                words.shift_remove("default");
            }
            words.values_mut().for_each(drop_null_defaults);
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(drop_null_defaults),
        _ => {}
    }
}

/// Returns the keys that an object of this type may have, in their order.
fn keys<T: JsonSchema>() -> Vec<String> {
    let schema = schema_of::<T>();
    schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
}

macro_rules! known_keys {
    ($($name:ident = $of:ty;)*) => {
        $(pub(crate) static $name: LazyLock<Vec<String>> = LazyLock::new(keys::<$of>);)*
    };
}

known_keys! {
    DOCUMENT_KEYS = Machine;
    VARIABLE_KEYS = VariableEntry;
    STATE_KEYS = State;
    FOR_EACH_KEYS = ForEach;
    ACTION_KEYS = Action;
    TRANSITION_KEYS = Transition;
    CONDITION_KEYS = ConditionKeys;
    DIALOGUE_KEYS = Dialogue;
    RULE_KEYS = Rule;
    SLEEP_KEYS = Sleep;
    RETURN_KEYS = Return;
    FAIL_KEYS = Fail;
    GATE_KEYS = Gate;
    RUN_WORKFLOW_KEYS = RunWorkflow;
    PARALLEL_KEYS = Parallel;
    STUB_KEYS = StubFile;
}

/// The conditions that are words.
pub(crate) static CONDITION_WORDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let schema = schema_of::<Word>();
    let word = |choice: &Value| choice["const"].as_str().map(str::to_owned);
    schema["oneOf"].as_array().into_iter().flatten().filter_map(word).collect()
});
