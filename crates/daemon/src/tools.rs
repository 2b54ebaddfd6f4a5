//! The registry of workflows that are tools, from the library and from remote services.
//!
//! All lists of tools come from here. Names, descriptions and schemas of remote tools are foreign text, cleaned on
//! receipt. Texts of library tools come from the library's authors.

mod files;
mod listed;
mod schema;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use steplatch_access::Caller;
use steplatch_project::{DiskError, Workflows};
use steplatch_protocol::{DescribeWorkflowReply, ListTools, ListToolsReply, RunReply, ToolInfo, ToolScope};
use steplatch_services::{InvalidArguments, RemoteServices, check};
use tokio::sync::watch::Receiver;

use crate::changes::ChangeHub;
use crate::configuration::Configuration;
use crate::read_commands::AllowedCommand;
use files::Files;
pub(crate) use watch::ToolSubscription;

/// Maximum length of the description of a tool, in characters: some clients cut at 2,048 bytes.
const MAX_DESCRIPTION_CHARS: usize = 1000;

/// Maximum number of names that the error about an unknown tool suggests.
const MAX_SUGGESTED_NAMES: usize = 20;

/// All workflows that are tools. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Tools {
    workflows: Workflows,
    remotes: RemoteServices,
    configuration: Receiver<Configuration>,
    changes: ChangeHub,
    files: Arc<Files>,
}

impl Tools {
    pub(crate) fn new(
        workflows: Workflows,
        remotes: RemoteServices,
        configuration: Receiver<Configuration>,
        changes: ChangeHub,
    ) -> Self {
        let files = Arc::new(Files::new(changes.clone()));
        Self { workflows, remotes, configuration, changes, files }
    }

    /// Lists the tools that `caller` may use, or that this instance offers to others.
    pub(crate) async fn list(&self, caller: &Caller, verb: ListTools) -> ListToolsReply {
        let result = match verb.scope.unwrap_or(ToolScope::Offered) {
            ToolScope::Offered => self.offered_tools(caller).await,
            ToolScope::Library => self.library_tools(caller).await,
        };
        match result {
            Ok(tools) => {
                let configuration = self.configuration.borrow();
                let read_commands = configuration.read_commands.iter().map(ToString::to_string).collect();
                let list_size = configuration.tool_list_size;
                ListToolsReply { success: true, tools, list_size, read_commands, error: None }
            }
            Err(error) => ListToolsReply { error: Some(error.to_string()), ..ListToolsReply::default() },
        }
    }

    async fn offered_tools(&self, caller: &Caller) -> Result<Vec<ToolInfo>, DiskError> {
        let mut tools = self.remotes.tools();
        if self.configuration.borrow().library_tools {
            tools.extend(self.library_tools(caller).await?);
            tools.sort_by(|first, second| first.name.cmp(&second.name));
        }
        Ok(tools)
    }

    async fn library_tools(&self, caller: &Caller) -> Result<Vec<ToolInfo>, DiskError> {
        let proven = self.workflows.proven(caller).await?;
        let names: Vec<String> = proven.iter().filter_map(|workflow| workflow.name.clone()).collect();
        let tools = self.remotes.library_names(names).await;
        Ok(to_tools(proven, &tools))
    }

    /// Returns the user's list of commands that only read.
    pub(crate) fn read_commands(&self) -> Vec<AllowedCommand> {
        self.configuration.borrow().read_commands.clone()
    }

    /// Finds the tool that `caller` calls and checks the arguments.
    ///
    /// # Errors
    ///
    /// If there is no such tool, if the arguments are invalid, or if the disk does not answer.
    pub(crate) async fn find_checked(
        &self,
        caller: &Caller,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<ToolInfo, CallRejected> {
        if let Some(tool) = self.remotes.tool(name) {
            // The start of the run checks the arguments.
            return Ok(tool);
        }
        let tools = self.offered_tools(caller).await?;
        let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
            return Err(ToolNotFound::new(name, &tools).into());
        };
        check(tool, arguments)?;
        Ok(tool.clone())
    }
}

/// Reason for the rejection of a tool call.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallRejected {
    /// The library is unreadable. The caller can repeat the call.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// There is no tool with that name.
    #[error(transparent)]
    NotFound(#[from] ToolNotFound),
    /// The arguments do not match the schema.
    #[error(transparent)]
    Arguments(#[from] InvalidArguments),
}

/// An unknown name of a tool.
#[derive(Debug)]
pub(crate) struct ToolNotFound {
    /// The name, at most 80 characters.
    name: String,
    /// The names of the first available tools.
    available: Vec<String>,
    /// Number of further available tools.
    omitted_count: usize,
}

impl CallRejected {
    /// Returns the reply with this error.
    pub(crate) fn into_reply(self) -> RunReply {
        let final_state = match &self {
            Self::Disk(_) | Self::NotFound(_) => "workflow_not_found",
            Self::Arguments(_) => "validation_failed",
        };
        RunReply {
            status: "failed".to_owned(),
            final_state: Some(final_state.to_owned()),
            error: Some(self.to_string()),
            ..RunReply::default()
        }
    }
}

impl ToolNotFound {
    /// Creates the error for a name that is not in `tools`.
    fn new(name: &str, tools: &[ToolInfo]) -> Self {
        let available: Vec<String> = tools.iter().take(MAX_SUGGESTED_NAMES).map(|tool| tool.name.clone()).collect();
        let omitted_count = tools.len() - available.len();
        Self { name: name.chars().take(80).collect(), available, omitted_count }
    }
}

impl std::error::Error for ToolNotFound {}

impl fmt::Display for ToolNotFound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, available, omitted_count } = self;
        if available.is_empty() {
            let reason = "no workflow is a tool now; run_workflow runs saved ones by name";
            return write!(out, "There is no tool '{name}': {reason}");
        }
        write!(out, "There is no tool '{name}'; there are {}", available.join(", "))?;
        if *omitted_count > 0 { write!(out, " and {omitted_count} more") } else { Ok(()) }
    }
}

/// Converts saved workflows to tools, sorted by name.
fn to_tools(proven: Vec<DescribeWorkflowReply>, names: &BTreeMap<String, String>) -> Vec<ToolInfo> {
    let tool = |workflow: DescribeWorkflowReply| {
        let name = workflow.name.clone()?;
        let description = workflow.description.as_deref().map(str::trim).filter(|text| !text.is_empty());
        let description = description.map_or_else(|| format!("Workflow {name}"), str::to_owned);
        Some(ToolInfo {
            name: names.get(&name)?.clone(),
            description: description.chars().take(MAX_DESCRIPTION_CHARS).collect(),
            input_schema: schema::for_workflow(&workflow),
            source: "library".to_owned(),
            version: workflow.metadata.as_ref().map(|metadata| metadata.version.to_string()),
            category: Some("workflow".to_owned()),
            workflow_id: name.clone(),
            title: name,
            remote: None,
            sync: false,
        })
    };
    let mut tools: Vec<ToolInfo> = proven.into_iter().filter_map(tool).collect();
    tools.sort_by(|first, second| first.name.cmp(&second.name));
    tools
}
