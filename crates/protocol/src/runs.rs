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

fn default_true() -> bool {
    true
}

/// Default number of seconds to wait for the end of a new run.
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
    /// Terminal to use (default: its own)
    pub session_id: Option<String>,
    /// Initial variables
    pub initial_variables: Option<std::collections::BTreeMap<String, Value>>,
    /// Maximum number of states (default 100)
    #[schemars(range(min = 1, max = 1000))]
    pub max_states: Option<u32>,
    /// Time limit in seconds, without gates and pauses (default 1800)
    #[schemars(range(min = 1.0, max = 7200.0))]
    pub execution_timeout: Option<f64>,
    /// Leave its terminals open when it ends
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_terminals: bool,
    /// Save a workflow_definition that completes
    #[serde(default = "default_true")]
    pub save_on_success: bool,
    /// Seconds to wait for its end or a gate (default 20)
    #[schemars(range(min = 0.0, max = 7200.0))]
    pub wait_seconds: Option<f64>,
    /// The same key returns the same run
    pub idempotency_key: Option<String>,
    /// Engine that decides it
    pub engine: Option<EngineKind>,
    /// Level of detail
    pub detail: Option<RunDetail>,
    /// Simulate a machine with these results, see topic machines
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

/// A finished run to run again.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RerunRequest {
    /// The run
    pub run_id: String,
    /// State to begin at, with the results recorded before it (NAME, or NAME/2 for its second visit)
    pub from_state: Option<String>,
    /// Repeat irreversible actions
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeat_irreversible: bool,
}

/// Run a saved workflow by its name. Returns the run id at once, or the result.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ExecuteWorkflow {
    /// Name of the workflow
    pub workflow_id: String,
    /// Input: ctx.input of a function, the variable called input of a machine
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Parameters: ctx.params of a function, the variables of a machine
    pub params: Option<Map<String, Value>>,
    /// Session that has the workflow: `default` or the name of the project, which both mean the project; for a machine,
    /// alternatively the terminal to use
    pub session_id: Option<String>,
    /// Same as session_id, but never a terminal
    pub workspace: Option<String>,
    /// Wait for the end of the run
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait: bool,
    /// Wait for this or the end, whichever comes first. Does not need `wait`
    pub until: Option<Until>,
    /// Time limit in seconds, without gates and pauses (machines: default 1800)
    #[schemars(range(min = 1.0, max = 7200.0))]
    pub timeout: Option<f64>,
    /// Same as timeout
    #[schemars(range(min = 1.0, max = 7200.0))]
    pub execution_timeout: Option<f64>,
    /// Key of this request: a repetition with the same key returns the same run
    pub idempotency_key: Option<String>,
}

/// Event that ends a wait before the run ends.
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
    /// True if the run was started, or found; state reports its outcome
    pub success: bool,
    /// The run
    #[serde(default)]
    pub run_id: String,
    /// running, waiting (at a gate), completed, failed or cancelled
    #[serde(default)]
    pub state: String,
    /// Return value of a function, or the return values of a machine
    pub result: Option<Value>,
    /// Reason why nothing was started, or the run failed; for a function, the exception message
    pub error: Option<String>,
    /// Place in the file of a function where the exception was raised
    pub traceback: Option<String>,
}

/// Get a run: its progress, or its result.
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
    /// Run to compare it with
    pub compare_with: Option<String>,
}

/// Difference of a run from another one. Numbers, identifiers and temporary paths in outputs are considered equal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunComparison {
    /// Ids of this run and the other one
    pub runs: Vec<String>,
    /// True if both runs had the same input and did the same
    pub same: bool,
    /// Input of each run
    pub inputs: Vec<Value>,
    /// Seconds that the states of each run took
    pub elapsed_time: Vec<f64>,
    /// Differences of the other run, in order; at most 100
    pub differences: Vec<RunDifference>,
    /// Reason why the runs cannot be compared
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A state in which two runs differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunDifference {
    /// The state
    pub state: String,
    /// Kind of difference: state, exit_code, output, or match (text found by a wait)
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
    /// Summary of the changes of each state
    Brief,
    /// Everything
    #[default]
    Full,
}

/// A run and its progress.
///
/// The fields of *terminal-control-mcp* are always written: null, or an empty string, list or object, if there is no value.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunReply {
    /// True if the run completed; false while it continues
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
    /// Last executed state, or validation_failed, return_validation_failed, workflow_not_found, definition_invalid or
    /// execution_error
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub final_state: Option<String>,
    /// Number of executed states
    #[serde(default)]
    pub states_executed: u32,
    /// Duration in seconds, so far if the run continues
    #[serde(default)]
    pub total_elapsed_time: f64,
    /// Log of the states, in order
    #[serde(default)]
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub execution_log: Vec<Value>,
    /// The variables at the end
    #[serde(default)]
    pub final_variables: Map<String, Value>,
    /// True if execution_log or final_variables are shortened; steplatch runs events has everything
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
    /// Shortened values of execution_log and final_variables; those of the variables come first
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortened_values: Vec<ShortenedValue>,
    /// Return values of the workflow
    #[serde(default)]
    pub return_values: Map<String, Value>,
    /// Return value of a function
    #[serde(default, deserialize_with = "some_value", skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Last terminal of the run
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub session_id: Option<String>,
    /// Comparison with another run, if requested
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub comparison: Option<RunComparison>,
    /// End of the last screen of a failed machine; its terminals may be closed
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_screen: Option<String>,
    /// End of the last screen of each terminal, by session_id, if there are several
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub last_screens: BTreeMap<String, String>,
    /// Contract, {arguments, return_values, description}: each variable as {name, description, required}. Empty if the
    /// workflow has none or is unknown
    #[serde(default)]
    pub workflow_signature: Map<String, Value>,
    /// True if the definition was saved because the run completed
    #[serde(default)]
    pub workflow_saved: bool,
    /// Name of the saved workflow; null unless this run saved it
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub saved_workflow_name: Option<String>,
    /// Saved workflow with the same behaviour, because of which the definition was not saved again
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<String>,
    /// Workflows that can be run by name
    #[serde(default)]
    pub available_workflows: Vec<String>,
    /// Maximum nesting depth of workflows
    #[serde(default)]
    pub recursion_depth: u32,
    /// Gate that the run waits for
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_gate: Option<GateInfo>,
    /// Last answer to a gate of the run with its reason, if it has one: `stop, because a test fails`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<String>,
    /// Suggested next step for a run that has neither completed nor failed: wait, answer its gate, resume or restart it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_step: Option<String>,
    /// Time and author of the pause, while the run is paused
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseInfo>,
    /// Patches of the machine that a person accepted during the run
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<RepairInfo>,
    /// Error message, with a suggested next step; for a completed run, the reason why its definition was not saved
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub error: Option<String>,
    /// Irreversible actions of the earlier run that would be repeated; again.repeat_irreversible permits them
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub irreversible: Vec<String>,
    /// Place in the file of a function where the exception in error was raised
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceback: Option<String>,
}

/// A shortened value in a reply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShortenedValue {
    /// Place in the reply, as a JSON Pointer
    pub path: String,
    /// Number of omitted characters of text, or omitted entries of an object or a list
    pub left_out: u64,
    /// True if the end of the text is kept, as for a screen; otherwise its beginning
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_end: bool,
}

/// A question that a run waits for.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateInfo {
    /// Id of the gate
    pub gate_id: String,
    /// The waiting run
    pub run_id: String,
    /// The question
    pub prompt: String,
    /// Possible answers; null if any text or a form is accepted
    #[serde(default, serialize_with = "null_if_empty::serialize", deserialize_with = "null_if_empty::deserialize")]
    #[schemars(with = "Option<Vec<String>>")]
    pub choices: Vec<String>,
    /// Choices that only a person can take, because they lead past a gate for a person
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices_for_person: Vec<String>,
    /// Form to fill in: a JSON Schema of an object with flat fields
    #[schemars(with = "Option<Map<String, Value>>")]
    pub form: Option<Value>,
    /// Who may answer: human, agent or anyone
    pub answered_by: String,
    /// Groups of notification rules for the gate, each with the seconds until its notification
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub approvers: BTreeMap<String, u64>,
    /// Time at which the gate was opened (ISO 8601, UTC)
    pub created_at: String,
    /// Deadline for an answer (ISO 8601, UTC)
    pub expires_at: Option<String>,
    /// Context for the decision
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub context: Map<String, Value>,
    /// True if parts of the context are omitted here
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
    /// Shortened values of the context
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortened_values: Vec<ShortenedValue>,
    /// True if parts of the context are hidden as secrets
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub masked: bool,
    /// Input that people have typed into the terminals of the run since the gate was opened
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub typed: Vec<TypedInput>,
    /// Weakest proof of a person that the gate accepts, if it requires one
    pub requires: Option<String>,
    /// Digest of the complete question, and of its workflow
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
    /// Person who typed the input
    pub by: String,
    /// Number of bytes; one key may send several
    pub bytes: u64,
    /// Time of the last input (ISO 8601, UTC)
    pub last_at: String,
}

/// Field of a gate's context that states the consequence of a missing answer: `after TIME, …`, with the time of
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

    /// Returns remarks on the question for the person who answers, a sentence each.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let masked_remark = "parts of this are hidden as secrets (••••••), known only to those who typed them";
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
    pub fn context_to_judge(&self) -> Vec<(&str, String)> {
        let screen_fields = ["screen_content", "match_text"];
        let screen = screen_fields.iter().find_map(|name| self.context.get_key_value(*name));
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

/// Show a question that a run waits for in full.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetGate {
    /// The run
    pub run_id: String,
    /// The gate; optional if only one is open
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_id: Option<String>,
}

/// The complete question.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetGateReply {
    /// True if the gate is open
    pub success: bool,
    /// The question
    pub gate: Option<GateInfo>,
    /// True if an earlier gate of the run was open
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked_before: bool,
    /// Error message, with a suggested next step
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
    /// JSON Patch of its definition: [{"op": "replace", "path": "/states/NAME/action/params/pattern", "value": "OLD|NEW"}]
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub patch: Value,
    /// The reason, for the person who decides
    pub reason: String,
}

/// Results of checking a patch.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ProposePatchReply {
    /// True if the patch is valid, every recording passes, and a person is asked to accept it
    pub success: bool,
    /// The waiting run: the requested one, or one of its children
    pub run_id: String,
    /// Gate at which a person accepts or rejects the patch
    pub gate_id: Option<String>,
    /// Diff of the definition
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub difference: String,
    /// Parts that the patch weakens, or may weaken, each with its place
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weakens: Vec<String>,
    /// Checks that were made
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checked: Vec<String>,
    /// Suggested next step
    pub next_step: Option<String>,
    /// Reason for the refusal; the run waits as before
    pub error: Option<String>,
}

/// An accepted patch of the machine of a run.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepairInfo {
    /// State in which the run had stopped
    pub state: String,
    /// Reason for the proposal
    pub reason: String,
    /// Author of the proposal
    pub proposed_by: String,
    /// Person who accepted the patch
    pub accepted_by: String,
    /// Time of the acceptance (ISO 8601, UTC)
    pub accepted_at: String,
    /// Version of the workflow in the library that has the patch
    pub version: Option<u32>,
    /// Reason why the library does not have the patch; the run continues with it
    pub error: Option<String>,
}

/// Answer a gate that a run waits for. Only a person, as declared in HELLO, can answer a gate for a human.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AnswerGate {
    /// The run
    pub run_id: String,
    /// The gate; optional if only one is open
    pub gate_id: Option<String>,
    /// One of the choices, any text if there are none, or the form as JSON
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub answer: String,
    /// Number of the choice, from 1: distinguishes choices that look alike
    pub number: Option<usize>,
    /// Fields of the form, instead of answer
    pub form: Option<Map<String, Value>>,
    /// The approver's passphrase, if one is set
    pub passphrase: Option<Passphrase>,
    /// A passkey's signature of this answer, instead of the passphrase. It signs `answer` and `number`, and requires
    /// the complete digest
    pub passkey: Option<Box<PasskeyAssertion>>,
    /// Digest of the gate as it was shown, or at least its first eight digits. The answer is refused if the gate has
    /// changed since then
    pub digest: Option<String>,
    /// Reason of the answer, for the run, its agent and the record: one line of at most 500 characters
    pub reason: Option<String>,
}

/// Result of an answer.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AnswerGateReply {
    /// True if the answer was accepted
    pub success: bool,
    /// The run
    pub run_id: String,
    /// Current state of the run
    #[serde(default)]
    pub status: String,
    /// True if the answer was refused because the approver's passphrase is missing or wrong
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passphrase_wanted: bool,
    /// Seconds until a passphrase is checked again; set if this one was not checked because of earlier wrong ones
    pub retry_after_seconds: Option<u64>,
    /// True if the answer does not fit the gate: it is not one of the choices, or the form is invalid. Nothing was
    /// recorded and the gate is still open; correct the answer and send it again
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub misread: bool,
    /// Parts of the terminals that are not checked before the run performs the approved action, a sentence each
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// Cancel a run. Actions in progress are abandoned and the run's own terminals are closed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CancelWorkflow {
    /// The run
    pub run_id: String,
}

/// Result of cancelling.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CancelWorkflowReply {
    /// True if the run exists
    pub success: bool,
    /// The run
    pub run_id: String,
    /// Current state of the run
    #[serde(default)]
    pub state: String,
    /// Description of the outcome
    #[serde(default)]
    pub message: String,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Delete the record of a finished run and of the runs that it started. Only a person can delete records. The
/// idempotency key of the run is deleted too.
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
    /// Number of deleted records, including those of the runs that it started
    #[serde(default)]
    pub deleted: u64,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Pause a run: actions in progress end, none begins, and its time limit is suspended. Runs that it started are paused
/// too. Its gates can still be answered, and the run can be cancelled.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct PauseWorkflow {
    /// The run
    pub run_id: String,
}

/// Resume a paused run, and the runs that were paused because of it.
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
    /// Current state of the run
    #[serde(default)]
    pub state: String,
    /// Time and author of the pause
    pub paused: Option<PauseInfo>,
    /// Description of the outcome
    #[serde(default)]
    pub message: String,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// A pause of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PauseInfo {
    /// Start time (ISO 8601, UTC)
    pub since: String,
    /// Person or client that paused the run
    pub by: String,
}

/// Get the record of a run, without its log.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetWorkflowRun {
    /// The run
    pub run_id: String,
}

/// Record of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// Id of the run
    pub run_id: String,
    /// Name of the workflow
    pub workflow_id: String,
    /// running, waiting (at a gate), completed, failed or cancelled
    pub state: String,
    /// Start time (ISO 8601, UTC)
    pub started_at: String,
    /// End time (ISO 8601, UTC); null until the run ends
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub completed_at: Option<String>,
    /// Input, of any type; for a machine that was given variables, these
    #[serde(default)]
    pub input: Value,
    /// Additional parameters
    #[serde(default)]
    pub params: Map<String, Value>,
    /// Return value of a function, or the return values of a machine; null unless the run completed
    #[serde(default)]
    pub result: Value,
    /// True if result is shortened, as in lists: strings are cut, or it is the beginning of its JSON as a string. The
    /// record of the run has the complete result
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub result_shortened: bool,
    /// Reason for the failure (for a function, the exception message); null unless the run failed
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub error: Option<String>,
    /// Place in the file of a function where the exception was raised
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceback: Option<String>,
    /// Open gates, oldest first
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_gates: Vec<GateInfo>,
    /// Time and author of the pause, while the run is paused
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseInfo>,
    /// The oldest open gate; null if there is none
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub pending_gate: Option<GateInfo>,
    /// Run that started this run
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// Earlier run that this run repeats
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<RerunInfo>,
    /// Schedule that started the run
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// External engine that decides the run
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineKind>,
    /// Patches of the machine that were accepted during the run
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<RepairInfo>,
    /// True if the run waits for a person and continues only after 'steplatch approver unlock'
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub locked: bool,
}

/// The earlier run that a run repeats.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RerunInfo {
    /// The earlier run
    pub run_id: String,
    /// State at which this run began, with the earlier run's results before it
    pub from_state: Option<String>,
    /// Number of events copied from the earlier run; they follow the start of this run
    pub taken_over_events: Option<u64>,
}

/// Record of a run.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetWorkflowRunReply {
    /// True if the run exists
    pub success: bool,
    /// The record
    pub run: Option<RunRecord>,
    /// Error message, with a suggested next step
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
    /// Started at or after this time (ISO 8601)
    pub since: Option<String>,
    /// Started before this time
    pub until: Option<String>,
    /// Older than this run, the last of a page
    pub before: Option<String>,
    /// Maximum number of runs (default 50)
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
}

/// Runs, newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListWorkflowRunsReply {
    /// True if the request was valid
    pub success: bool,
    /// The runs
    #[serde(default)]
    pub runs: Vec<RunRecord>,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Follow the events of a run, starting at a given event, as events on this connection.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Subscribe {
    /// The run
    pub run_id: String,
    /// Number of the first event (default 1)
    pub from_seq: Option<u64>,
    /// Maximum number of events (default: all until the end of the run)
    #[schemars(range(min = 1))]
    pub at_most: Option<u64>,
}

/// Result of subscribing.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SubscribeReply {
    /// True if the run exists
    pub success: bool,
    /// Number of the newest event so far; events up to it arrive without waiting
    #[serde(default)]
    pub newest_seq: u64,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunEvent {
    /// Number within the run, from 1.
    pub seq: u64,
    /// Id of the run.
    pub run_id: String,
    /// Name of the workflow.
    pub workflow_id: String,
    /// Type of the event, such as `state_entered`.
    pub event_type: String,
    /// Details of the event.
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
    fn empty_choices_are_serialized_as_null() {
        for (choices, expected) in [(vec![], json!(null)), (vec!["yes".to_owned()], json!(["yes"]))] {
            let gate = GateInfo { choices, ..GateInfo::default() };
            let value = serde_json::to_value(&gate).unwrap();
            assert_eq!(value["choices"], expected);
            assert_eq!(serde_json::from_value::<GateInfo>(value).unwrap(), gate);
        }
        let mut older_form = serde_json::to_value(GateInfo::default()).unwrap();
        older_form["choices"] = json!([]);
        assert_eq!(serde_json::from_value::<GateInfo>(older_form).unwrap(), GateInfo::default());
    }
}
