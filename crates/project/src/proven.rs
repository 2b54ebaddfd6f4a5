//! Proven workflows: saved workflows that have run to completion in their current form.

use async_recursion::async_recursion as boxed;
use steplatch_access::Caller;
use steplatch_library::Status;
use steplatch_protocol::{DescribeWorkflowReply, ListWorkflows};

use super::directories::{LibraryPaths, LibrarySearch};
use super::verbs::{describe, list, status_name};
use crate::error::DiskError;
use crate::project::Project;
use crate::workflows::Workflows;

/// Maximum number of workflows in a reply, because each is read and checked.
const MAX_WORKFLOWS: usize = 500;

impl Workflows {
    /// Returns the proven workflows that `caller` may run by name, sorted by name. Omits broken workflows.
    ///
    /// # Errors
    ///
    /// If disk access fails.
    #[boxed]
    pub async fn proven(&self, caller: &Caller) -> Result<Vec<DescribeWorkflowReply>, DiskError> {
        let library_search = LibrarySearch::for_caller(caller);
        let project = self.projects().find_project(caller).await?;
        self.disk.run_read(move || proven(&library_search.directories(), &project)).await
    }

    /// Returns the directories of `caller`'s workflows, whether they exist or not. Blocks for a few file system calls.
    pub fn directories(&self, caller: &Caller) -> Vec<std::path::PathBuf> {
        LibrarySearch::for_caller(caller).libraries()
    }
}

fn proven(directories: &LibraryPaths, project: &Project) -> Vec<DescribeWorkflowReply> {
    let all = ListWorkflows { limit: u32::MAX, ..ListWorkflows::default() };
    let workflows = list(directories, project, &all).workflows.into_iter();
    workflows
        .filter(|workflow| workflow.status == status_name(Status::Proven) && !workflow.hidden)
        .take(MAX_WORKFLOWS)
        // The workflow may have been removed since it was listed.
        .filter_map(|workflow| describe(directories, project, &workflow.name).ok())
        .collect()
}
