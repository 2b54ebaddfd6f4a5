//! The registry of workflows that are tools: of the library, and of remote services.
//!
//! All listings of tools come from here. Names, descriptions and schemas of remote ones are foreign text that was
//! cleaned on receipt; those of the library are made from what its authors wrote.

mod files;
mod listed;
mod schema;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use steplatch_access::Caller;
use steplatch_project::Workflows;
use steplatch_protocol::{DescribeWorkflowReply, ListTools, ListToolsReply, RunReply, ToolInfo, ToolScope};
use steplatch_services::{RemoteServices, check};
use tokio::sync::watch::Receiver;

use crate::changes::ChangeHub;
use crate::configuration::Configuration;
use files::Files;
pub(crate) use watch::ToolSubscription;

/// The longest description of a tool, in characters: some clients cut at 2,048 bytes.
const LONGEST_DESCRIPTION: usize = 1000;

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
        let listed = match verb.scope.unwrap_or(ToolScope::Offered) {
            ToolScope::Offered => self.offered(caller).await,
            ToolScope::Library => self.library(caller).await,
        };
        match listed {
            Ok(tools) => ListToolsReply { success: true, tools, error: None },
            Err(error) => ListToolsReply { error: Some(error), ..ListToolsReply::default() },
        }
    }

    async fn offered(&self, caller: &Caller) -> Result<Vec<ToolInfo>, String> {
        let mut tools = self.remotes.tools();
        if self.configuration.borrow().library_tools {
            tools.extend(self.library(caller).await?);
            tools.sort_by(|one, other| one.name.cmp(&other.name));
        }
        Ok(tools)
    }

    async fn library(&self, caller: &Caller) -> Result<Vec<ToolInfo>, String> {
        let proven = self.workflows.proven(caller).await.map_err(|error| error.to_string())?;
        let names: Vec<String> = proven.iter().filter_map(|workflow| workflow.name.clone()).collect();
        let tools = self.remotes.library_names(names).await;
        Ok(of_library(proven, &tools))
    }

    /// Returns the tool with the name that `caller` calls, after a check of its arguments.
    ///
    /// # Errors
    ///
    /// With whole sentences: when there is no such tool, with the available ones; or with every problem of the
    /// arguments.
    pub(crate) async fn called(
        &self,
        caller: &Caller,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<ToolInfo, CallRejected> {
        if let Some(tool) = self.remotes.tool(name) {
            // Its arguments are checked where its run begins, whichever command starts it.
            return Ok(tool);
        }
        let tools = self.offered(caller).await.map_err(CallRejected::Unknown)?;
        let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
            return Err(CallRejected::Unknown(unknown(name, &tools)));
        };
        check(tool, arguments).map_err(|error| CallRejected::Arguments(error.to_string()))?;
        Ok(tool.clone())
    }
}

/// Why a tool call is rejected.
#[derive(Debug)]
pub(crate) enum CallRejected {
    /// There is no tool with that name.
    Unknown(String),
    /// The arguments do not match the schema.
    Arguments(String),
}

impl CallRejected {
    /// Returns the reply with this error.
    pub(crate) fn into_reply(self) -> RunReply {
        let (final_state, error) = match self {
            Self::Unknown(error) => ("workflow_not_found", error),
            Self::Arguments(error) => ("validation_failed", error),
        };
        RunReply {
            status: "failed".to_owned(),
            final_state: Some(final_state.to_owned()),
            error: Some(error),
            ..RunReply::default()
        }
    }
}

/// Returns the sentence that there is no such tool, with the available ones.
fn unknown(name: &str, tools: &[ToolInfo]) -> String {
    let shown: String = name.chars().take(80).collect();
    match tools {
        [] => format!("There is no tool '{shown}': no workflow is a tool now; run_workflow runs saved ones by name"),
        some => {
            let names: Vec<&str> = some.iter().take(20).map(|tool| tool.name.as_str()).collect();
            let more = some.len().saturating_sub(names.len());
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("There is no tool '{shown}'; there are {}{more}", names.join(", "))
        }
    }
}

/// Converts saved workflows to tools, sorted by name.
fn of_library(proven: Vec<DescribeWorkflowReply>, names: &BTreeMap<String, String>) -> Vec<ToolInfo> {
    let tool = |workflow: DescribeWorkflowReply| {
        let name = workflow.name.clone()?;
        let description = workflow.description.as_deref().map(str::trim).filter(|text| !text.is_empty());
        let description = description.map_or_else(|| format!("Workflow {name}"), str::to_owned);
        Some(ToolInfo {
            name: names.get(&name)?.clone(),
            description: description.chars().take(LONGEST_DESCRIPTION).collect(),
            input_schema: schema::of(&workflow),
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
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    tools
}
