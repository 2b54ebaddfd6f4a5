//! Verbs about saved workflows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::approver::Passphrase;

fn default_limit() -> u32 {
    200
}

/// Check a workflow and save it under its name, to be run with run_workflow {"workflow_name": …}.
///
/// A workflow is a JSON state machine over the terminal tools; get_workflow_schema shows how to write one. Every mistake is
/// listed in validation_errors with its place; then nothing is saved. warnings name traps.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CreateWorkflow {
    /// The workflow, with name and description
    #[schemars(with = "Map<String, Value>")]
    pub workflow_definition: Value,
    /// Replace one of that name
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwrite_existing: bool,
    /// Reason, for its history
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Result of saving a workflow.
///
/// The fields of *terminal-control-mcp* are always written: null, or an empty string, list or object, if there is no value.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CreateWorkflowReply {
    /// True if the workflow was saved
    pub success: bool,
    /// Name of the workflow
    #[serde(default)]
    pub workflow_name: String,
    /// Name of the file in the library
    #[serde(default)]
    pub stored_file: String,
    /// Absolute path of the file
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Version, from 1; 0 if nothing was saved
    #[serde(default)]
    pub version: u32,
    /// Contract, {arguments, return_values, description}: each variable as {name, description, required}. Empty if
    /// nothing was saved
    #[serde(default)]
    pub workflow_signature: Map<String, Value>,
    /// All problems that prevent saving; those of the definition have a JSON pointer to their place
    #[serde(default)]
    pub validation_errors: Vec<String>,
    /// Warnings for the author; the workflow can still run
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// True if the workflow was not saved because its name is taken
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub name_taken: bool,
    /// Error message, with a suggested next step
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub error: Option<String>,
}

/// Save an edited state machine as the newest version of its workflow.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct EditWorkflow {
    /// Name of the workflow
    pub name: String,
    /// The edited definition; the name stays
    #[schemars(with = "Map<String, Value>")]
    pub definition: Value,
    /// The definition that was edited. Nothing is saved if another one has replaced it since
    #[schemars(with = "Map<String, Value>")]
    pub edited: Value,
    /// Reason, for its history
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The approver's passphrase, if one is set
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passphrase: Option<Passphrase>,
}

/// Result of saving an edited workflow.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct EditWorkflowReply {
    /// True if the workflow was saved
    pub success: bool,
    /// Version, from 1; 0 if nothing was saved
    #[serde(default)]
    pub version: u32,
    /// False if only the description differs, which begins no version
    #[serde(default)]
    pub is_new_version: bool,
    /// All problems that prevent saving; those of the definition have a JSON pointer to their place
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub validation_errors: Vec<String>,
    /// Warnings for the author; the workflow can still run
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// True if the passphrase is missing or wrong
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passphrase_wanted: bool,
    /// Seconds until a passphrase is checked again; set if this one was not checked because of earlier wrong ones
    pub retry_after_seconds: Option<u64>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// Load a file of functions: check it and copy it to the library, so that its declarations are available by their ids.
///
/// A file that was loaded before is reloaded now, and later whenever it has changed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct LoadFunctions {
    /// File with a name that ends in .py; a relative path begins at the caller's working directory
    pub file: String,
    /// Replace another file of the same name, or one that was edited in the library
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwrite: bool,
    /// Only report problems
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub check_only: bool,
}

/// Result of loading a file of functions.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct LoadFunctionsReply {
    /// True if the file has no problems, and was kept unless check_only was set
    pub success: bool,
    /// Absolute path of the file
    pub file: String,
    /// Path of the copy in the library
    pub stored_file: Option<String>,
    /// loaded, reloaded or unchanged
    pub outcome: Option<String>,
    /// Declarations of the file, in order
    #[serde(default)]
    pub declares: Vec<DeclarationInfo>,
    /// All problems of the file
    #[serde(default)]
    pub problems: Vec<FileProblem>,
    /// Warnings for the author; the file can still be used
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<FileProblem>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// Summary of a declaration in a file.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeclarationInfo {
    /// Id of the declaration
    pub id: String,
    /// workflow, graph, or the type of a node
    pub kind: String,
    /// Description
    pub description: Option<String>,
    /// Line number, from 1
    pub line: Option<u32>,
}

/// A problem of a file, for its author.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileProblem {
    /// Line number, from 1
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Description; if the interpreter reports the problem, several lines with the source line and a mark below it
    pub message: String,
}

/// Read how workflows are written: an overview with two whole examples, and topics. Read it before your first workflow.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetWorkflowSchema {
    /// Topic to read about
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<WorkflowTopic>,
}

/// A page about workflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowTopic {
    /// First steps, with two complete examples
    Overview,
    /// States, variables, arguments, limits
    Machines,
    /// Tests of a transition
    Conditions,
    /// Every action with its parameters
    Actions,
    /// Workflows in Python syntax
    Functions,
    /// Questions to people and agents
    Gates,
    /// Errors and their causes
    Errors,
    /// Complete workflows
    Examples,
    /// The JSON Schema of machines
    JsonSchema,
}

/// Rules for writing workflows.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetWorkflowSchemaReply {
    /// Page to read, in Markdown
    pub documentation: String,
    /// Actions that states can have
    pub available_tools: Vec<String>,
    /// Version of the rules
    pub schema_version: String,
    /// JSON Schema (2020-12) of workflows
    #[schemars(with = "Map<String, Value>")]
    pub json_schema: Value,
}

/// List the saved workflows: those of this project, and your user's own. Run one with run_workflow {"workflow_name": …}.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListWorkflows {
    /// Only those with this text in their name or description
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containing: Option<String>,
    /// Maximum number to list
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 10_000))]
    pub limit: u32,
}

impl Default for ListWorkflows {
    fn default() -> Self {
        Self { containing: None, limit: default_limit() }
    }
}

/// The saved workflows.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListWorkflowsReply {
    /// True if a library could be read
    pub success: bool,
    /// The workflows, sorted by name
    pub workflows: Vec<WorkflowInfo>,
    /// Number of workflows, listed or not
    pub total: usize,
    /// Files that are not workflows, with the reason
    #[serde(default)]
    pub broken: Vec<BrokenWorkflow>,
    /// Directory in which new workflows are saved
    pub library: String,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Summary of a saved workflow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowInfo {
    /// Id of the workflow, which is its name
    #[serde(default)]
    pub id: String,
    /// Name of the workflow
    pub name: String,
    /// machine, function (an async function in Python syntax) or remote (run by another service)
    pub kind: String,
    /// Description of the workflow; empty if the author has not given one
    #[serde(default)]
    pub description: Option<String>,
    /// Time of the first save or load (ISO 8601, UTC); null if unknown
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub created_at: Option<String>,
    /// draft, or proven (a run completed without changes); remote for workflows of other services
    pub status: String,
    /// Version of a machine, from 1; 0 for other workflows
    #[serde(default)]
    pub version: u32,
    /// Number of finished runs
    pub run_count: u64,
    /// Number of successful runs
    pub success_count: u64,
    /// End time of the last run
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub last_run: Option<String>,
    /// Time of the first save (ISO 8601, UTC); empty if unknown
    #[serde(default)]
    pub created: String,
    /// Arguments of a machine: {NAME: {name, description, required}}, with long descriptions shortened
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// Return values of a machine, in the same form
    #[serde(default)]
    pub return_values: Map<String, Value>,
    /// Number of states of a machine
    #[serde(default)]
    pub state_count: usize,
    /// Path of the file, or the service that has the workflow
    pub file: String,
    /// True if the name means another workflow, in the project's library
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// Note for the user: the original file is missing or no longer valid
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A file of the library that is not a workflow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrokenWorkflow {
    /// Path of the file
    pub file: String,
    /// Description of the problem
    pub reason: String,
}

/// Describe a saved workflow: definition, arguments, results, last runs and a diagram.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DescribeWorkflow {
    /// Its name, or NAME@2
    pub name: String,
}

/// A saved workflow.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DescribeWorkflowReply {
    /// True if the workflow exists and can be read, even with problems
    pub success: bool,
    /// Name of the workflow
    pub name: Option<String>,
    /// machine, or function (an async function in Python syntax)
    pub kind: Option<String>,
    /// Description of the workflow
    pub description: Option<String>,
    /// Path of the file
    pub file: Option<String>,
    /// Arguments of the workflow
    #[serde(default)]
    pub arguments: Vec<ContractVariable>,
    /// Return values of the workflow
    #[serde(default)]
    pub return_values: Vec<ContractVariable>,
    /// JSON Schema of the arguments as a tool
    #[schemars(with = "Option<Map<String, Value>>")]
    pub input_schema: Option<Value>,
    /// Metadata of the workflow
    pub metadata: Option<WorkflowMetadata>,
    /// Problems, each with a JSON pointer to its place
    #[serde(default)]
    pub problems: Vec<String>,
    /// Source file of a function
    pub source: Option<FunctionSource>,
    /// Definition of a machine
    #[schemars(with = "Option<Map<String, Value>>")]
    pub definition: Option<Value>,
    /// Diagram in Mermaid syntax; none if the workflow is not valid
    pub graph: Option<String>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// Draw a state machine: a saved one, or that of a run as it was when the run began.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DrawWorkflow {
    /// Name of a saved workflow
    pub name: Option<String>,
    /// Run to draw, instead of a name
    pub run_id: Option<String>,
}

/// A diagram of a state machine.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DrawWorkflowReply {
    /// True if the machine exists
    pub success: bool,
    /// Diagram in SVG 1.1, with a card for each state
    pub svg: Option<String>,
    /// The same diagram with one card for each chain of states, if it has chains; the card's title has the states' names, one per line
    pub collapsed_svg: Option<String>,
    /// Definition of the machine
    #[schemars(with = "Option<Map<String, Value>>")]
    pub definition: Option<Value>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// The source file of a function.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionSource {
    /// Source code
    pub text: String,
    /// Line of the workflow, from 1
    pub line: Option<u32>,
    /// All declarations of the file, in order
    pub declares: Vec<DeclarationInfo>,
    /// Path of the original file
    pub loaded_from: Option<String>,
    /// Note for the user about the original file
    pub note: Option<String>,
    /// Metadata in the declaration of the workflow
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// An argument or a return value of a workflow: a variable of the shell.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContractVariable {
    /// Name of the variable
    pub name: String,
    /// Description of the variable
    pub description: Option<String>,
    /// True if a value must be given, because there is no default
    pub required: bool,
    /// Default value
    pub default: Option<String>,
    /// True if the value is never shown
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
    /// True if the run's terminals have the variable in their environment; absent if not declared, in which case all
    /// variables except secrets are exported
    pub export: Option<bool>,
    /// JSON Schema of the value as text
    #[schemars(with = "Option<Map<String, Value>>")]
    pub schema: Option<Value>,
}

/// Metadata of a saved workflow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowMetadata {
    /// Signature of the workflow
    pub hash: String,
    /// Time of the first save
    pub created: String,
    /// Version, counted from 1: the number of changes of behaviour
    pub version: u32,
    /// draft or proven
    pub status: String,
    /// Number of finished runs
    pub run_count: u64,
    /// Number of successful runs
    pub success_count: u64,
    /// End time of the last run
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<String>,
    /// Number of states executed by the last run
    pub total_states: u64,
}

/// Remove a saved workflow. Its runs, versions and the file of a function stay.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeleteWorkflow {
    /// Its name, or the name of a file of functions, which ends in .py
    pub name: String,
}

/// List the versions of a machine, even of a removed one, until they are deleted.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListWorkflowVersions {
    /// Name of the workflow
    pub name: String,
}

/// The versions, newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListWorkflowVersionsReply {
    /// True if the workflow has versions
    pub success: bool,
    /// Name of the workflow
    #[serde(default)]
    pub workflow_name: String,
    /// The versions
    #[serde(default)]
    pub versions: Vec<WorkflowVersion>,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A version of a workflow.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowVersion {
    /// Version number, from 1
    pub version: u32,
    /// True if this is the current version
    pub is_current: bool,
    /// Time of the save (ISO 8601, UTC); none if the file was edited, or is older than the list of versions
    pub saved_at: Option<String>,
    /// Person, client or run that saved the version
    pub by: Option<String>,
    /// Surface that was used
    pub through: Option<String>,
    /// Reason, in the author's words
    pub reason: Option<String>,
    /// Signature of the version
    pub hash: String,
}

/// Make an earlier version of a machine the current one, as a new version with the same definition. Also restores a
/// removed machine.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RevertWorkflow {
    /// Name of the workflow
    pub name: String,
    /// Version to restore (default: the one before the current one, or the newest of a removed machine)
    pub version: Option<u32>,
    /// Reason, for the version history
    pub reason: Option<String>,
}

/// Result of the revert.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RevertWorkflowReply {
    /// True if the workflow was reverted
    pub success: bool,
    /// Name of the workflow
    #[serde(default)]
    pub workflow_name: String,
    /// Number of the new version
    #[serde(default)]
    pub version: u32,
    /// Number of the restored version
    #[serde(default)]
    pub equals: u32,
    /// Problems that prevent saving
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub validation_errors: Vec<String>,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Delete the versions of a machine, except the current one.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ForgetWorkflowVersions {
    /// Name of the workflow
    pub name: String,
}

/// Number of deleted versions.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ForgetWorkflowVersionsReply {
    /// True if no version except the current one is left
    pub success: bool,
    /// Name of the workflow
    #[serde(default)]
    pub workflow_name: String,
    /// Number of deleted versions
    #[serde(default)]
    pub forgotten: usize,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Result of the removal.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeleteWorkflowReply {
    /// True if the workflow existed and was removed
    pub success: bool,
    /// Name of the workflow
    pub workflow_name: String,
    /// The removed file
    pub file: Option<String>,
    /// Other declarations of the file, removed with it
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed_besides: Vec<DeclarationInfo>,
    /// Another workflow with the same name, which the name now means
    pub remaining: Option<String>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}
