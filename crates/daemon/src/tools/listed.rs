//! Workflows of remote services among the saved workflows, for lists and descriptions.

use steplatch_access::Caller;
use steplatch_protocol::{
    DescribeWorkflow, DescribeWorkflowReply, ListWorkflows, ListWorkflowsReply, ToolInfo, WorkflowInfo,
};

use super::{Tools, schema};

/// The kind and the status of remote workflows.
const REMOTE: &str = "remote";

impl Tools {
    /// Lists the workflows that `caller` may run by name: saved workflows, and workflows of remote services by the
    /// names of their tools.
    pub(crate) async fn list_workflows(&self, caller: &Caller, verb: ListWorkflows) -> ListWorkflowsReply {
        let query = verb.containing.as_deref().unwrap_or_default().to_lowercase();
        let limit = usize::try_from(verb.limit).unwrap_or(usize::MAX);
        let mut reply = self.workflows.list(caller, verb).await;
        let matches_query = |tool: &ToolInfo| {
            [&tool.name, &tool.title, &tool.description].iter().any(|text| text.to_lowercase().contains(&query))
        };
        let remote: Vec<ToolInfo> = self.remotes.tools().into_iter().filter(matches_query).collect();
        reply.total += remote.len();
        reply.workflows.extend(remote.into_iter().map(workflow_info));
        reply.workflows.sort_by(|first, second| (&first.name, first.hidden).cmp(&(&second.name, second.hidden)));
        reply.workflows.truncate(limit);
        for workflow in &mut reply.workflows {
            workflow.id.clone_from(&workflow.name);
            workflow.description.get_or_insert_default();
        }
        reply
    }

    /// Returns the full description of a workflow.
    pub(crate) async fn describe(&self, caller: &Caller, verb: DescribeWorkflow) -> DescribeWorkflowReply {
        let remote = self.remotes.tool(&verb.name);
        let reply = self.workflows.describe(caller, verb).await;
        match remote {
            _ if reply.success => DescribeWorkflowReply { input_schema: Some(schema::for_workflow(&reply)), ..reply },
            Some(tool) => DescribeWorkflowReply {
                success: true,
                name: Some(tool.name),
                kind: Some(REMOTE.to_owned()),
                description: Some(tool.description),
                file: tool.remote,
                input_schema: Some(tool.input_schema),
                ..DescribeWorkflowReply::default()
            },
            None => reply,
        }
    }
}

fn workflow_info(tool: ToolInfo) -> WorkflowInfo {
    WorkflowInfo {
        name: tool.name,
        kind: REMOTE.to_owned(),
        description: Some(tool.description),
        status: REMOTE.to_owned(),
        file: tool.remote.unwrap_or_default(),
        ..WorkflowInfo::default()
    }
}
