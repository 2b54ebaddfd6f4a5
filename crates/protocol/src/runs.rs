//! Verbs about runs of workflows.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::approver::Passphrase;
use crate::engine::EngineKind;
use crate::passkey::PasskeyAssertion;
use crate::visible;

/// Deserializes a present value, which may be null.
fn some_value<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn yes() -> bool {
    true
}

/// Default number of seconds for which a start of a run waits for its end.
pub const RUN_WAIT_SECONDS: f64 = 20.0;

/// Run a workflow: a JSON state machine over terminal actions, the same way every time.
///
/// get_workflow_schema shows how to write one. Returns when the run ends or waits at a gate, or after wait_seconds with its
/// run_id: then call get_run. The run continues without you.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunWorkflow {
    /// The workflow itself, as an object
    #[schemars(with = "Option<Map<String, Value>>")]
    pub workflow_definition: Option<Value>,
    /// Name of a saved workflow, instead of workflow_definition
    pub workflow_name: Option<String>,
    /// Path of its file: JSON, or a function in .py
    pub workflow_file: Option<String>,
    /// Terminal to work in (default: its own)
    pub session_id: Option<String>,
    /// Initial variables
    pub initial_variables: Option<std::collections::BTreeMap<String, Value>>,
    /// States at most (default 100)
    #[schemars(range(min = 1, max = 1000))]
    pub max_states: Option<u32>,
    /// Seconds that the run may take, without gates and pauses (default 1800)
    #[schemars(range(min = 1.0, max = 7200.0))]
    pub execution_timeout: Option<f64>,
    /// Leave its terminals open when it ends
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_terminals: bool,
    /// Save a workflow_definition that completes
    #[serde(default = "yes")]
    pub save_on_success: bool,
    /// Seconds to wait for its end or a gate (default 20)
    #[schemars(range(min = 0.0, max = 7200.0))]
    pub wait_seconds: Option<f64>,
    /// The same key returns the same run
    pub idempotency_key: Option<String>,
    /// The engine that decides it
    pub engine: Option<EngineKind>,
    /// Level of detail
    pub detail: Option<RunDetail>,
    /// Play a machine with these results and run nothing, see topic machines
    pub rehearse: Option<Map<String, Value>>,
    /// Run this run again, with its input; a workflow beside it is the definition to use
    pub again: Option<RerunRequest>,
}

impl Default for RunWorkflow {
    fn default() -> Self {
        Self {
            workflow_definition: None,
            workflow_name: None,
            workflow_file: None,
            session_id: None,
            initial_variables: None,
            max_states: None,
            execution_timeout: None,
            keep_terminals: false,
            save_on_success: true,
            wait_seconds: None,
            idempotency_key: None,
            engine: None,
            detail: None,
            rehearse: None,
            again: None,
        }
    }
}

/// An ended run to run again.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RerunRequest {
    /// The run
    pub run_id: String,
    /// State to begin at, with the results recorded before it (NAME, or NAME/2 for its second visit)
    pub from_state: Option<String>,
    /// Perform again what cannot be taken back
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeat_irreversible: bool,
}

/// Run a saved workflow by its name. Returns the run's id at once, or its result.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ExecuteWorkflow {
    /// Name of the workflow
    pub workflow_id: String,
    /// Its input: ctx.input of a function, the variable called input of a machine
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Its parameters: ctx.params of a function, the variables of a machine
    pub params: Option<Map<String, Value>>,
    /// The session that has the workflow: `default` or the name of the project, which both mean the project; of a machine,
    /// also the terminal to work in
    pub session_id: Option<String>,
    /// The same as session_id, without terminals
    pub workspace: Option<String>,
    /// Wait for its end
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait: bool,
    /// Wait for this or the end, whichever comes first. Needs no `wait`
    pub until: Option<Until>,
    /// Seconds that the run may take, gates and pauses not counted (machines: default 1800)
    #[schemars(range(min = 1.0, max = 7200.0))]
    pub timeout: Option<f64>,
    /// The same as timeout
    #[schemars(range(min = 1.0, max = 7200.0))]
    pub execution_timeout: Option<f64>,
    /// A name for this request: repeated with the same name, it returns the run that it started
    pub idempotency_key: Option<String>,
}

/// Event that ends a wait for a run besides its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// A gate that waits for an answer
    Gate,
}

/// A run that was started by name.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ExecuteWorkflowReply {
    /// True if the run was started, or found; its state reports how it ended
    pub success: bool,
    /// The run
    #[serde(default)]
    pub run_id: String,
    /// running, waiting (at a gate), completed, failed or cancelled
    #[serde(default)]
    pub state: String,
    /// Return value of a function, or the return values of a machine
    pub result: Option<Value>,
    /// Reason for which nothing was started, or the run failed: of a function, the text of its exception
    pub error: Option<String>,
    /// Place in a function's file at which the exception was raised
    pub traceback: Option<String>,
}

/// Look at a run: how far it is, or how it ended.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetRun {
    /// The run
    pub run_id: String,
    /// Seconds to wait for its end (default 0)
    #[schemars(range(min = 0.0, max = 7200.0))]
    pub wait_seconds: Option<f64>,
    /// Level of detail
    pub detail: Option<RunDetail>,
    /// Another run, to compare it with
    pub compare_with: Option<String>,
}

/// Difference of a run from another one. Numbers, identifiers and temporary paths in outputs count as equal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunComparison {
    /// This run and the other one
    pub runs: Vec<String>,
    /// True if they began with the same and did the same
    pub same: bool,
    /// Inputs that each was started with
    pub inputs: Vec<Value>,
    /// Seconds that the states of each took
    pub elapsed_time: Vec<f64>,
    /// Differences of the other run, the first one first; at most 100
    pub differences: Vec<RunDifference>,
    /// Reason for which they cannot be compared
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A state in which two runs differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunDifference {
    /// The state
    pub state: String,
    /// Kind of the difference: state, exit_code, output, or match (what a wait found)
    pub what: String,
    /// Behaviour of the run
    pub recorded: String,
    /// Behaviour of the other run
    pub observed: String,
}

/// Level of detail of a reply about a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunDetail {
    /// The changes of each state, in short
    Brief,
    /// Everything
    #[default]
    Full,
}

/// A run and its progress.
///
/// The fields of *terminal-control-mcp* are always written: null, an empty text, list or object where there is nothing.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunReply {
    /// True if it completed; false as long as it continues
    pub success: bool,
    /// The run
    #[serde(default)]
    pub run_id: String,
    /// running, waiting (at a gate), completed, failed or cancelled
    #[serde(default)]
    pub status: String,
    /// Name of the workflow
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub workflow_name: Option<String>,
    /// The state executed last, or validation_failed, return_validation_failed, workflow_not_found, definition_invalid
    /// or execution_error
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub final_state: Option<String>,
    /// States executed
    #[serde(default)]
    pub states_executed: u32,
    /// Seconds since it began, or that it took
    #[serde(default)]
    pub total_elapsed_time: f64,
    /// Log of the states, in order
    #[serde(default)]
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub execution_log: Vec<Value>,
    /// The variables at the end
    #[serde(default)]
    pub final_variables: Map<String, Value>,
    /// True if long texts, or entries and variables, are omitted in the two; steplatch runs events has everything
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
    /// Values of the two that are not whole; those of the variables come first
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortened_values: Vec<ShortenedValue>,
    /// Return values of the workflow
    #[serde(default)]
    pub return_values: Map<String, Value>,
    /// Its return value, if it is a function
    #[serde(default, deserialize_with = "some_value", skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The terminal it worked in last
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub session_id: Option<String>,
    /// Difference of another run from it, if requested
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub comparison: Option<RunComparison>,
    /// The end of the screen of the terminal that a failed machine worked in; its terminals may be closed
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_screen: Option<String>,
    /// The same of all its terminals by session_id, where there are several
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub last_screens: BTreeMap<String, String>,
    /// Its contract, {arguments, return_values, description}: each variable as {name, description, required}. Empty where
    /// the workflow has none or is not known
    #[serde(default)]
    pub workflow_signature: Map<String, Value>,
    /// True if the definition was saved because it ran to its end
    #[serde(default)]
    pub workflow_saved: bool,
    /// The name under which it was saved; null unless this run saved it
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub saved_workflow_name: Option<String>,
    /// The saved workflow that does the same, because of which the definition was not saved again
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<String>,
    /// Workflows that can be run by name
    #[serde(default)]
    pub available_workflows: Vec<String>,
    /// Deepest level of nested workflows
    #[serde(default)]
    pub recursion_depth: u32,
    /// The question that the run waits for
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_gate: Option<GateInfo>,
    /// Next step for a run that has neither completed nor failed: wait on, answer its gate, resume or start it again
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_step: Option<String>,
    /// Start of its pause, and who paused it, while it is paused
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseInfo>,
    /// Patches of its machine that a person accepted while it ran
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<RepairInfo>,
    /// The error and what to do; of a run that completed, the reason why its definition was not saved
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub error: Option<String>,
    /// Irreversible actions of the earlier run that would happen again; again.repeat_irreversible permits them
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub irreversible: Vec<String>,
    /// Place in a function's file at which the exception was raised that error reports
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceback: Option<String>,
}

/// A value in a reply that is a part of the whole one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShortenedValue {
    /// Its place in the reply, as a JSON Pointer
    pub path: String,
    /// Number of characters of a text, or of entries of an object or a list, that it lacks
    pub left_out: u64,
    /// True if the text is the end of the whole one, as of a screen; otherwise its beginning
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_end: bool,
}

/// A question that a run waits for.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateInfo {
    /// Its id
    pub gate_id: String,
    /// The run that waits
    pub run_id: String,
    /// The question
    pub prompt: String,
    /// Possible answers; null where any text or a form is accepted
    #[serde(default, serialize_with = "null_if_empty::serialize", deserialize_with = "null_if_empty::deserialize")]
    #[schemars(with = "Option<Vec<String>>")]
    pub choices: Vec<String>,
    /// Those choices that only a person takes, because they lead past a gate for a person
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices_for_person: Vec<String>,
    /// Form to fill in: a JSON Schema of an object with flat fields
    #[schemars(with = "Option<Map<String, Value>>")]
    pub form: Option<Value>,
    /// Those who may answer: human, agent or anyone
    pub answered_by: String,
    /// Time since which it waits (ISO 8601, UTC)
    pub created_at: String,
    /// Time until which an answer counts (ISO 8601, UTC)
    pub expires_at: Option<String>,
    /// Context to judge
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub context: Map<String, Value>,
    /// True if parts of the context are left out here
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
    /// Values of the context that are not whole here
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortened_values: Vec<ShortenedValue>,
    /// True if parts of it are hidden as secrets
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub masked: bool,
    /// Input that people have typed since the question into the terminals of the run
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub typed: Vec<TypedInput>,
    /// The weakest proof of a person that it accepts, if that is not none
    pub requires: Option<String>,
    /// Digest of the whole question, and of the workflow that asks it
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
}

/// Serialization of an empty list as null.
mod null_if_empty {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(list: &[String], serializer: S) -> Result<S::Ok, S::Error> {
        Some(list).filter(|list| !list.is_empty()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or_default())
    }
}

/// Amount of input that one person has typed into one terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TypedInput {
    /// The terminal
    pub session_id: String,
    /// Person who typed
    pub by: String,
    /// Number of bytes; a key may be several
    pub bytes: u64,
    /// Time at which the last of it was typed (ISO 8601, UTC)
    pub last_at: String,
}

/// Field of a gate's context that states the consequence of no answer: `after TIME, …`, with the time of
/// `expires_at`.
pub const WITHOUT_ANSWER: &str = "without an answer";

impl GateInfo {
    /// Returns the gate's name in commands. It has the beginning of the digest, so that the answer applies only to the
    /// shown question.
    #[must_use]
    pub fn name_with_digest(&self) -> String {
        match self.digest.get(..8) {
            Some(digest) => format!("{}@{digest}", self.gate_id),
            None => self.gate_id.clone(),
        }
    }

    /// Returns remarks besides the question for a person who answers, a sentence each.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let masked_remark = "parts of this are hidden as secrets (••••••): who typed them as secret could see them";
        let typed_remark = |input: &TypedInput| {
            let TypedInput { session_id, by, bytes, last_at } = input;
            let unit = if *bytes == 1 { "byte" } else { "bytes" };
            // Omit the date of the timestamp.
            let at = last_at.split_once('T').and_then(|(_, time)| time.get(..8)).unwrap_or(last_at);
            visible(&format!("since the question, {by} typed {bytes} {unit} into {session_id}, the last at {at} UTC"))
        };
        let masked = self.masked.then(|| masked_remark.to_owned());
        masked.into_iter().chain(self.typed.iter().map(typed_remark)).collect()
    }

    /// Returns the fields of the context as text, by name. For an agent's question about a screen, returns only the
    /// screen; the other fields describe the reading of the terminal.
    #[must_use]
    pub fn to_judge(&self) -> Vec<(&str, String)> {
        let screens = ["screen_content", "match_text"];
        let screen = screens.iter().find_map(|name| self.context.get_key_value(*name));
        match screen.filter(|_| self.answered_by == "agent") {
            Some((name, screen)) => as_text(screen).map(|screen| (name.as_str(), screen)).into_iter().collect(),
            None => self.context.iter().filter_map(|(name, value)| Some((name.as_str(), as_text(value)?))).collect(),
        }
    }
}

/// Returns a value as text for people; `None` for null.
fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.trim_end().to_owned()),
        other => Some(other.to_string()),
    }
}

/// Show a question that a run waits for, whole.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetGate {
    /// The run
    pub run_id: String,
    /// The gate; may be left out while only one waits
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_id: Option<String>,
}

/// The question, with nothing left out.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetGateReply {
    /// True if it waits
    pub success: bool,
    /// The question
    pub gate: Option<GateInfo>,
    /// True if the run asked something before
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked_before: bool,
    /// The error and what to do
    pub error: Option<String>,
}

/// Answer a run's pending_gate, if its answered_by is agent or anyone. A gate for a human is answered by a person, with
/// steplatch gates answer.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Decide {
    /// The run
    pub run_id: String,
    /// The gate; may be left out while only one waits
    pub gate_id: Option<String>,
    /// One of its choices
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub answer: String,
    /// The fields of its form, if it has one
    pub form: Option<Map<String, Value>>,
}

/// Propose a repair for a run that stopped at a screen its machine does not know. A person accepts it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ProposePatch {
    /// The run, which waits at such a gate
    pub run_id: String,
    /// JSON Patch (RFC 6902) of its definition, such as [{"op": "replace", "path": "/states/NAME/action/params/pattern", "value": "OLD|NEW"}]
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub patch: Value,
    /// The reason, for the person who decides
    pub reason: String,
}

/// Results of checking a patch.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ProposePatchReply {
    /// True if the patch is valid, every recording passes, and a person is asked about it
    pub success: bool,
    /// The run that waits: the one named, or one below it
    pub run_id: String,
    /// The gate where a person accepts it or not
    pub gate_id: Option<String>,
    /// The lines that differ
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub difference: String,
    /// Parts that it weakens, or may weaken, each with its place
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weakens: Vec<String>,
    /// The checks that were made
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checked: Vec<String>,
    /// The next step
    pub next_step: Option<String>,
    /// Reason for its refusal; the run waits as before
    pub error: Option<String>,
}

/// A patch of the machine of a run that a person accepted.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepairInfo {
    /// The state that the run had stopped in
    pub state: String,
    /// Reason for the proposal
    pub reason: String,
    /// Author of the proposal
    pub proposed_by: String,
    /// Person who accepted it
    pub accepted_by: String,
    /// Time of the acceptance (ISO 8601, UTC)
    pub accepted_at: String,
    /// The version of the workflow in the library since then
    pub version: Option<u32>,
    /// Reason for which the library did not take it; the run continues with it
    pub error: Option<String>,
}

/// Answer a gate that a run waits for. A gate for a human is answered only by a person, as stated in HELLO.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AnswerGate {
    /// The run
    pub run_id: String,
    /// The gate; may be left out while only one waits
    pub gate_id: Option<String>,
    /// One of its choices, any text where it has none, or its form as JSON
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub answer: String,
    /// The number of that choice, from 1: tells choices apart that are shown alike
    pub number: Option<usize>,
    /// The fields of its form, instead of answer
    pub form: Option<Map<String, Value>>,
    /// The approver's passphrase, where one is set
    pub passphrase: Option<Passphrase>,
    /// A signature of this answer by a passkey, instead of the passphrase. It signs `answer` and `number`, and needs the whole digest
    pub passkey: Option<Box<PasskeyAssertion>>,
    /// The digest of the gate as it was shown, or eight digits of its beginning or more; an answer to a gate that is shown otherwise
    /// by now is refused
    pub digest: Option<String>,
}

/// Result of an answer.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AnswerGateReply {
    /// True if the answer was taken
    pub success: bool,
    /// The run
    pub run_id: String,
    /// Its state now
    #[serde(default)]
    pub status: String,
    /// True if it was not taken because the approver's passphrase is missing or wrong
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passphrase_wanted: bool,
    /// Seconds until a passphrase is checked again; set where this one was not checked, because wrong ones came before it
    pub retry_after_seconds: Option<u64>,
    /// True if the answer does not fit the gate, such as a text that is none of its choices, or an invalid form. Nothing was recorded
    /// and the gate still waits; correct the answer and send it again
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub misread: bool,
    /// Parts of the terminals that are not compared before the run does what was approved, a sentence each
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// The error and what to do
    pub error: Option<String>,
}

/// Cancel a run. What is in flight is abandoned and the run's own terminals are closed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CancelWorkflow {
    /// The run
    pub run_id: String,
}

/// Result of cancelling.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CancelWorkflowReply {
    /// True if there is such a run
    pub success: bool,
    /// The run
    pub run_id: String,
    /// Its state now
    #[serde(default)]
    pub state: String,
    /// The outcome, in words
    #[serde(default)]
    pub message: String,
    /// The error and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Delete the record of a run that has ended, with the runs that it started. Only a person deletes records. A key of
/// the run that protected against a second start is deleted with it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeleteRun {
    /// The run
    pub run_id: String,
}

/// Result of deleting.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeleteRunReply {
    /// True if the record is deleted
    pub success: bool,
    /// The run
    #[serde(default)]
    pub run_id: String,
    /// Number of deleted records: this one, and those of the runs that it started
    #[serde(default)]
    pub deleted: u64,
    /// The error and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Pause a run: work in flight ends, nothing new begins, and its time stands still. Runs that it started are paused
/// with it. A gate can be answered meanwhile, and the run cancelled.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct PauseWorkflow {
    /// The run
    pub run_id: String,
}

/// Resume a paused run, and with it those that are paused because of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ResumeWorkflow {
    /// The run
    pub run_id: String,
}

/// Result of pausing or resuming.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct PauseWorkflowReply {
    /// True if the run is now in the requested state
    pub success: bool,
    /// The run
    pub run_id: String,
    /// Its state
    #[serde(default)]
    pub state: String,
    /// Start of its pause, and who paused it
    pub paused: Option<PauseInfo>,
    /// The outcome, in words
    #[serde(default)]
    pub message: String,
    /// The error and what to do
    pub error: Option<String>,
}

/// A pause of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PauseInfo {
    /// Start time (ISO 8601, UTC)
    pub since: String,
    /// Person or client that paused it
    pub by: String,
}

/// The record of a run, without its log.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetWorkflowRun {
    /// The run
    pub run_id: String,
}

/// One run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// Its id
    pub run_id: String,
    /// Name of the workflow
    pub workflow_id: String,
    /// running, waiting (at a gate), completed, failed or cancelled
    pub state: String,
    /// Start time (ISO 8601, UTC)
    pub started_at: String,
    /// End time (ISO 8601, UTC); null until then
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub completed_at: Option<String>,
    /// Its input, of any kind; of a machine that was given variables, these
    #[serde(default)]
    pub input: Value,
    /// The parameters that it was given besides
    #[serde(default)]
    pub params: Map<String, Value>,
    /// Return value of a function, or the return values of a machine; null unless it is completed
    #[serde(default)]
    pub result: Value,
    /// True if result is shortened, as long ones are in lists: its texts, or the beginning of its JSON as a text. The record
    /// of the run has the whole
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub result_shortened: bool,
    /// Reason for its failure, of a function the text of its exception; null unless it failed
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub error: Option<String>,
    /// Place in a function's file at which the exception was raised
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceback: Option<String>,
    /// Questions that it waits for, the oldest first
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_gates: Vec<GateInfo>,
    /// Start of its pause, and who paused it, while it is paused
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseInfo>,
    /// The oldest of them; null while it waits for none
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub pending_gate: Option<GateInfo>,
    /// The run that started it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// The run that it runs again
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<RerunInfo>,
    /// The outer engine that decides it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineKind>,
    /// Patches of its machine that were accepted while it ran
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<RepairInfo>,
    /// True if it waits for a person and continues only after 'steplatch approver unlock'
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub locked: bool,
}

/// The earlier run of a run that runs it again.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RerunInfo {
    /// The earlier run
    pub run_id: String,
    /// The state at which this run began, with the results of the earlier run before it
    pub from_state: Option<String>,
    /// Number of events that were taken over from the earlier run; they follow the start of this run
    pub taken_over_events: Option<u64>,
}

/// A run's record.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetWorkflowRunReply {
    /// True if there is such a run
    pub success: bool,
    /// The record
    pub run: Option<RunRecord>,
    /// The error and what to do
    pub error: Option<String>,
}

/// List runs, newest first.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListWorkflowRuns {
    /// Of this workflow
    pub workflow_id: Option<String>,
    /// In this state: running, waiting, completed, failed or cancelled
    pub state: Option<String>,
    /// Begun then or later (ISO 8601)
    pub since: Option<String>,
    /// Begun before that
    pub until: Option<String>,
    /// Before this one, the last of a page
    pub before: Option<String>,
    /// Maximum number of runs (default 50)
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
}

/// Runs, newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListWorkflowRunsReply {
    /// True if the request was understood
    pub success: bool,
    /// The runs
    #[serde(default)]
    pub runs: Vec<RunRecord>,
    /// The error and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Follow the events of a run, from its first or from a later one, as events on this connection.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Subscribe {
    /// The run
    pub run_id: String,
    /// Number of the first event wanted (default 1)
    pub from_seq: Option<u64>,
    /// Maximum number of events, after which no more come (default: all up to the run's end)
    #[schemars(range(min = 1))]
    pub at_most: Option<u64>,
}

/// Result of subscribing.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SubscribeReply {
    /// True if there is such a run
    pub success: bool,
    /// Number of the newest event so far: all up to it come without waiting
    #[serde(default)]
    pub newest_seq: u64,
    /// The error and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunEvent {
    /// Its number within the run, from 1.
    pub seq: u64,
    /// The run.
    pub run_id: String,
    /// Name of the workflow.
    pub workflow_id: String,
    /// Type of the event, such as `state_entered`.
    pub event_type: String,
    /// The particulars.
    pub data: Map<String, Value>,
    /// Time (ISO 8601, UTC).
    pub timestamp: String,
}

impl RunEvent {
    /// Type of the event that replaces the unreadable end of a history.
    pub const UNREADABLE: &str = "history_unreadable";

    /// Returns whether events of this type come from the run itself, and not from its author's code.
    #[must_use]
    pub fn is_own(event_type: &str) -> bool {
        let own_prefixes =
            ["workflow_", "nested_workflow_", "node_", "gate_", "state_", "graph_", "contract_", "branch_", "items_"];
        let names = ["transition", "question_answered", "log", Self::UNREADABLE];
        own_prefixes.iter().any(|prefix| event_type.starts_with(prefix)) || names.contains(&event_type)
    }

    /// Returns whether this is the last event of the run.
    #[must_use]
    pub fn is_last(&self) -> bool {
        let last_types = ["workflow_completed", "workflow_failed", "workflow_cancelled", Self::UNREADABLE];
        last_types.contains(&self.event_type.as_str())
    }

    /// Returns whether an earlier run performed the step of this event.
    #[must_use]
    pub fn is_taken_over(&self) -> bool {
        // The data of other events comes from authors, who may use this name.
        Self::is_own(&self.event_type) && self.data.get("taken_over") == Some(&Value::Bool(true))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn question_without_choices_has_null_choices() {
        for (choices, written) in [(vec![], json!(null)), (vec!["yes".to_owned()], json!(["yes"]))] {
            let gate = GateInfo { choices, ..GateInfo::default() };
            let value = serde_json::to_value(&gate).unwrap();
            assert_eq!(value["choices"], written);
            assert_eq!(serde_json::from_value::<GateInfo>(value).unwrap(), gate);
        }
        let mut older = serde_json::to_value(GateInfo::default()).unwrap();
        older["choices"] = json!([]);
        assert_eq!(serde_json::from_value::<GateInfo>(older).unwrap(), GateInfo::default());
    }
}
