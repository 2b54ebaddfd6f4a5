//! The verb that turns actions in terminals into a workflow.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Make a workflow of what was just done in terminals. Read guesses and undecided before you save it.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CaptureWorkflow {
    /// Terminals
    pub session_ids: Vec<String>,
    /// Name of the workflow
    pub name: String,
    /// Its purpose
    pub description: Option<String>,
    /// First entry of the log of inputs
    pub from: Option<u64>,
    /// Last entry
    pub to: Option<u64>,
    /// Only what was typed since this moment (ISO 8601, UTC)
    pub since: Option<String>,
    /// Number of the last commands to use
    pub last: Option<u32>,
    /// Typed values that become arguments: {name: value}
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// Terminals of another time: differences become arguments
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<String>,
    /// Files that must exist at the end
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<String>,
    /// Keep commands that only look around
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
    /// Save it
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub save: bool,
    /// Replace a saved workflow of that name
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwrite_existing: bool,
    /// Logs that a client made of recordings by other programs, instead of those of terminals
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imported: Vec<Value>,
}

/// A captured workflow.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CaptureWorkflowReply {
    /// True if a workflow was made, and saved where that was requested
    pub success: bool,
    /// The workflow
    #[serde(default)]
    #[schemars(with = "Map<String, Value>")]
    pub workflow_definition: Value,
    /// Assumptions, state by state
    #[serde(default)]
    pub guesses: Vec<CaptureGuess>,
    /// Inputs that are not in the workflow
    #[serde(default)]
    pub left_out: Vec<CaptureOmission>,
    /// Decisions to make before it is used
    #[serde(default)]
    pub undecided: Vec<String>,
    /// Warnings for its author
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Its file, once it is saved
    pub path: Option<String>,
    /// Path of the output of each state when it was recorded, beside that file
    pub golden_path: Option<String>,
    /// The next step
    pub next_step: Option<String>,
    /// The error and what to do
    pub error: Option<String>,
}

/// An assumption of a capture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureGuess {
    /// The state
    pub state: String,
    /// The assumption
    pub guess: String,
    /// Its reason
    pub reason: String,
}

/// An input that a capture left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureOmission {
    /// The input
    pub input: String,
    /// The reason
    pub reason: String,
}
