//! Workflows that are asked for by name.

use serde_json::Value;
use steplatch_ids::WorkflowName;

use crate::caller::Caller;

/// Where workflows are kept by name.
pub(crate) trait NamedWorkflows: std::fmt::Debug + Send + Sync {
    /// Returns the definition that is saved under `name`, for somebody who works in the folder of `caller`.
    ///
    /// # Errors
    /// In whole sentences, when there is none or it can not be read.
    fn find(&self, caller: &Caller, name: &WorkflowName) -> Result<Value, String>;
}

/// Keeps nothing.
#[derive(Debug)]
pub(crate) struct NoLibrary;

impl NamedWorkflows for NoLibrary {
    fn find(&self, _: &Caller, name: &WorkflowName) -> Result<Value, String> {
        Err(format!(
            "Workflow '{name}' not found: this version keeps no library of workflows; give the workflow itself as \
             workflow_definition"
        ))
    }
}
