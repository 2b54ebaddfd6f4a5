//! Verbs about saved workflows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

fn most_listed() -> u32 {
    200
}

/// Check a workflow and save it under its name, to be run with run_workflow {"workflow_name": …}.
///
/// A workflow is a JSON state machine over the terminal tools; get_workflow_schema shows how to write one. Every mistake is
/// listed in validation_errors with its place; nothing is saved then. warnings name traps. The file lies in
/// .terminal_control_workflows of the project.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CreateWorkflow {
    /// The workflow, with name and description
    #[schemars(with = "Map<String, Value>")]
    pub workflow_definition: Value,
    /// Replace one of that name
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwrite_existing: bool,
    /// The reason, for its history
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Result of saving a workflow.
///
/// The fields of *terminal-control-mcp* are always written: null, an empty text, list or object where there is nothing.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CreateWorkflowReply {
    /// True if it was saved
    pub success: bool,
    /// Its name
    #[serde(default)]
    pub workflow_name: String,
    /// The name of its file in the library
    #[serde(default)]
    pub stored_file: String,
    /// Its file, as a whole path
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its version, from 1; 0 where nothing was saved
    #[serde(default)]
    pub version: u32,
    /// Its contract, {arguments, return_values, description}: each variable as {name, description, required}. Empty where
    /// nothing was saved
    #[serde(default)]
    pub workflow_signature: Map<String, Value>,
    /// Everything that keeps it from being saved; mistakes in it each with a JSON pointer to their place
    #[serde(default)]
    pub validation_errors: Vec<String>,
    /// Warnings for its author; it can run with them
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// True if it was not saved because a saved workflow has its name
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub name_taken: bool,
    /// The error and what to do
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub error: Option<String>,
}

/// Load a file of functions: check it, and keep it in the library, so that its declarations are found by their ids.
///
/// A file that was loaded before is loaded again, and from then on whenever it has changed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct LoadFunctions {
    /// The file, whose name ends in .py; a relative path begins at the caller's folder
    pub file: String,
    /// Replace another file of the same name, or one that was edited in the library
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwrite: bool,
    /// Only report its problems
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub check_only: bool,
}

/// Result of loading a file of functions.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct LoadFunctionsReply {
    /// True if it has no problems, and is kept unless it was only to be checked
    pub success: bool,
    /// The file, as a whole path
    pub file: String,
    /// Place where it is kept
    pub stored_file: Option<String>,
    /// loaded, reloaded or unchanged
    pub outcome: Option<String>,
    /// Its declarations, in order
    #[serde(default)]
    pub declares: Vec<DeclarationInfo>,
    /// Everything that is wrong with it
    #[serde(default)]
    pub problems: Vec<FileProblem>,
    /// Warnings for its author; it can be used with them
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<FileProblem>,
    /// The error and what to do
    pub error: Option<String>,
}

/// Something that a file declares, in short.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeclarationInfo {
    /// Its id
    pub id: String,
    /// workflow, graph, or the type of a node
    pub kind: String,
    /// Its purpose
    pub description: Option<String>,
    /// Its line, from 1
    pub line: Option<u32>,
}

/// A problem of a file, for its author.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileProblem {
    /// The line, from 1
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The problem; if the interpreter reports it, with the place and a mark under it, on several lines
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
    /// First steps, with two whole examples
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
    /// Whole workflows
    Examples,
    /// The JSON Schema of machines
    JsonSchema,
}

/// Rules for writing workflows.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetWorkflowSchemaReply {
    /// A page to read, in Markdown
    pub documentation: String,
    /// The actions that states may have
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
    #[serde(default = "most_listed")]
    #[schemars(range(min = 1, max = 10_000))]
    pub limit: u32,
}

impl Default for ListWorkflows {
    fn default() -> Self {
        Self { containing: None, limit: most_listed() }
    }
}

/// The saved workflows.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListWorkflowsReply {
    /// True if a library could be read
    pub success: bool,
    /// The workflows, by name
    pub workflows: Vec<WorkflowInfo>,
    /// Number of workflows, listed or not
    pub total: usize,
    /// Files that are not workflows, and why
    #[serde(default)]
    pub broken: Vec<BrokenWorkflow>,
    /// The folder in which new ones are saved
    pub library: String,
    /// The error and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A saved workflow, in short.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowInfo {
    /// Its id, which is its name
    #[serde(default)]
    pub id: String,
    /// Its name
    pub name: String,
    /// machine, function (an async function in Python syntax) or remote (done by another service)
    pub kind: String,
    /// Its purpose; empty where its author does not state it
    #[serde(default)]
    pub description: Option<String>,
    /// Time at which it was first saved or loaded (ISO 8601, UTC); null where that is not known
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub created_at: Option<String>,
    /// draft, or proven: it ran to its end unchanged; remote, of those whose runs others do
    pub status: String,
    /// The version of a machine, from 1; 0 of others
    #[serde(default)]
    pub version: u32,
    /// Runs of it that have ended
    pub run_count: u64,
    /// Those that achieved its purpose
    pub success_count: u64,
    /// End time of the last of them
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    pub last_run: Option<String>,
    /// Time at which it was first saved (ISO 8601, UTC); empty where that is not known
    #[serde(default)]
    pub created: String,
    /// The variables that a machine takes: {NAME: {name, description, required}}, long descriptions cut
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// The variables that a machine leaves, in the same form
    #[serde(default)]
    pub return_values: Map<String, Value>,
    /// States of a machine
    #[serde(default)]
    pub state_count: usize,
    /// Its file, or the service that has it
    pub file: String,
    /// True if the name means another workflow, which lies in the project
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// Note for its user: the file that it was loaded from is gone, or is not valid any more
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A file of the library that is not a workflow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrokenWorkflow {
    /// The file
    pub file: String,
    /// Its problem
    pub reason: String,
}

/// Look at a saved workflow: its definition, arguments, results, last runs and a diagram.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DescribeWorkflow {
    /// Its name, or NAME@2
    pub name: String,
}

/// A saved workflow.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DescribeWorkflowReply {
    /// True if there is one that can be read; it may have problems
    pub success: bool,
    /// Its name
    pub name: Option<String>,
    /// machine, or function: an async function in Python syntax
    pub kind: Option<String>,
    /// Its purpose
    pub description: Option<String>,
    /// Its file
    pub file: Option<String>,
    /// Variables that it takes
    #[serde(default)]
    pub arguments: Vec<VariableOfContract>,
    /// Variables that it leaves
    #[serde(default)]
    pub return_values: Vec<VariableOfContract>,
    /// JSON Schema of its arguments as a tool
    #[schemars(with = "Option<Map<String, Value>>")]
    pub input_schema: Option<Value>,
    /// Its metadata
    pub metadata: Option<WorkflowMetadata>,
    /// Its problems, each with a JSON pointer to its place
    #[serde(default)]
    pub problems: Vec<String>,
    /// The file of a function
    pub source: Option<FunctionSource>,
    /// The definition of a machine
    #[schemars(with = "Option<Map<String, Value>>")]
    pub definition: Option<Value>,
    /// A diagram, in Mermaid's language; none when it is not valid
    pub graph: Option<String>,
    /// The error and what to do
    pub error: Option<String>,
}

/// Draw a machine: a saved one, or the one that a run executes, as it was when the run began.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DrawWorkflow {
    /// The name of a saved workflow
    pub name: Option<String>,
    /// A run, instead of a name
    pub run_id: Option<String>,
}

/// A machine as a picture.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DrawWorkflowReply {
    /// True if there is such a machine
    pub success: bool,
    /// The picture, in SVG 1.1; a card for each state, with its name
    pub svg: Option<String>,
    /// The same with one card for each chain of states, where there is one; the title of such a card has their names, one per line
    pub collapsed_svg: Option<String>,
    /// The definition that is drawn
    #[schemars(with = "Option<Map<String, Value>>")]
    pub definition: Option<Value>,
    /// The error and what to do
    pub error: Option<String>,
}

/// The file in which a function stands.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionSource {
    /// Its text
    pub text: String,
    /// The line of the workflow, from 1
    pub line: Option<u32>,
    /// Everything that it declares, in its order
    pub declares: Vec<DeclarationInfo>,
    /// The file that it was loaded from
    pub loaded_from: Option<String>,
    /// Note for its user about that file
    pub note: Option<String>,
    /// The metadata that the workflow is declared with
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// A variable of the shell that a workflow takes or leaves.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariableOfContract {
    /// Its name
    pub name: String,
    /// Its purpose
    pub description: Option<String>,
    /// True if it must be set, and has no default that sets it
    pub required: bool,
    /// Its value where nothing else is given
    pub default: Option<String>,
    /// True if its value is shown nowhere
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
    /// True if the run's terminals have it in their environment, where that is declared; without it all but secrets are there
    pub export: Option<bool>,
    /// JSON Schema of the value as text
    #[schemars(with = "Option<Map<String, Value>>")]
    pub schema: Option<Value>,
}

/// Metadata of a saved workflow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowMetadata {
    /// Its signature
    pub hash: String,
    /// Time at which it was first saved
    pub created: String,
    /// Number of changes of its behaviour, counted from 1
    pub version: u32,
    /// draft or proven
    pub status: String,
    /// Runs of it that have ended
    pub run_count: u64,
    /// Those that achieved its purpose
    pub success_count: u64,
    /// End time of the last of them
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<String>,
    /// States that the last of them executed
    pub total_states: u64,
}

/// Remove a saved workflow. Its runs, versions and the file of a function stay.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeleteWorkflow {
    /// Its name; or the name of a file of functions, which ends in .py
    pub name: String,
}

/// List the versions of a machine. One that was removed has versions as well, until they are forgotten.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListWorkflowVersions {
    /// Its name
    pub name: String,
}

/// The versions, the newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListWorkflowVersionsReply {
    /// True if there are some
    pub success: bool,
    /// Its name
    #[serde(default)]
    pub workflow_name: String,
    /// The versions
    #[serde(default)]
    pub versions: Vec<WorkflowVersion>,
    /// The error and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A version of a workflow.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowVersion {
    /// Its number, from 1
    pub version: u32,
    /// True if the name means it now
    pub is_current: bool,
    /// Time of the save (ISO 8601, UTC); nothing where its file was edited, or is older than the list of versions
    pub saved_at: Option<String>,
    /// The person, the client or the run that saved it
    pub by: Option<String>,
    /// The surface that was used
    pub through: Option<String>,
    /// The reason, in the author's words
    pub reason: Option<String>,
    /// Its signature
    pub hash: String,
}

/// Make an earlier version of a machine the current one: a new version that equals it. One that was removed is back.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RevertWorkflow {
    /// Its name
    pub name: String,
    /// The version; without it the one before the current one, or the newest of one that was removed
    pub version: Option<u32>,
    /// The reason, for its history
    pub reason: Option<String>,
}

/// Result of the revert.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RevertWorkflowReply {
    /// True if the name means that version now
    pub success: bool,
    /// Its name
    #[serde(default)]
    pub workflow_name: String,
    /// The new version
    #[serde(default)]
    pub version: u32,
    /// The version that it equals
    #[serde(default)]
    pub equals: u32,
    /// Problems that keep it from being saved
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub validation_errors: Vec<String>,
    /// The error and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Forget the versions of a machine, except the current one.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ForgetWorkflowVersions {
    /// Its name
    pub name: String,
}

/// Number of versions that were forgotten.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ForgetWorkflowVersionsReply {
    /// True if none is left but the current one
    pub success: bool,
    /// Its name
    #[serde(default)]
    pub workflow_name: String,
    /// Number of forgotten versions
    #[serde(default)]
    pub forgotten: usize,
    /// The error and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Result of the removal.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeleteWorkflowReply {
    /// True if there was one, and is none any more
    pub success: bool,
    /// Its name
    pub workflow_name: String,
    /// The file that was removed
    pub file: Option<String>,
    /// Other declarations of the file that were removed with it
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed_besides: Vec<DeclarationInfo>,
    /// Another workflow of the name, which is meant by it now
    pub remaining: Option<String>,
    /// The error and what to do
    pub error: Option<String>,
}
