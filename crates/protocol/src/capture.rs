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
    /// Its description
    pub description: Option<String>,
    /// First input log entry to include
    pub from: Option<u64>,
    /// Last one
    pub to: Option<u64>,
    /// Only inputs since this time (ISO 8601, UTC)
    pub since: Option<String>,
    /// Number of last commands to include
    #[serde(rename = "last")]
    pub last_commands: Option<u32>,
    /// Typed values that become arguments: {name: value}
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// Terminals to compare with: differences become arguments
    #[serde(default, rename = "against", skip_serializing_if = "Vec::is_empty")]
    pub compare_with: Vec<String>,
    /// Files that must exist at the end
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<String>,
    /// Keep read-only commands
    #[serde(default, rename = "keep", skip_serializing_if = "std::ops::Not::not")]
    pub keep_read_only_commands: bool,
    /// Save the workflow
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub save: bool,
    /// Replace a saved one of this name
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwrite_existing: bool,
    /// Logs made from recordings of other programs, instead of terminals
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imported: Vec<Value>,
}

/// A captured workflow.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CaptureWorkflowReply {
    /// True if a workflow was captured, and saved if requested
    pub success: bool,
    /// The captured workflow
    #[serde(default)]
    #[schemars(with = "Map<String, Value>")]
    pub workflow_definition: Value,
    /// Assumptions, state by state
    #[serde(default)]
    pub guesses: Vec<CaptureGuess>,
    /// Inputs that are not in the workflow
    #[serde(default)]
    pub left_out: Vec<CaptureOmission>,
    /// Decisions to make before the workflow is used
    #[serde(default)]
    pub undecided: Vec<String>,
    /// Warnings for the author
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Path of the saved workflow
    pub path: Option<String>,
    /// Path of the recorded output of each state, beside the saved workflow
    pub golden_path: Option<String>,
    /// Suggested next step
    pub next_step: Option<String>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// An assumption of a capture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureGuess {
    /// State that the assumption concerns
    pub state: String,
    /// The assumption
    pub guess: String,
    /// Reason for the assumption
    pub reason: String,
}

/// An input that a capture left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureOmission {
    /// The omitted input
    pub input: String,
    /// Reason for the omission
    pub reason: String,
}
