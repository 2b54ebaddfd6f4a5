//! The saved workflows that have run to completion in their current form, with their parameters.

use async_recursion::async_recursion as boxed;
use steplatch_access::Caller;
use steplatch_library::Status;
use steplatch_protocol::{DescribeWorkflowReply, ListWorkflows};

use super::folders::{LibraryPaths, LibrarySearch};
use super::verbs::{describe, list, name_of};
use crate::error::DiskError;
use crate::project::Project;
use crate::workflows::Workflows;

/// Maximum number of workflows in a reply, since each costs a read and a check.
const MAX_WORKFLOWS: usize = 500;

impl Workflows {
    /// Returns the proven workflows that `caller` may run by name, sorted by name. Omits a broken one.
    ///
    /// # Errors
    ///
    /// If the disk does not answer.
    #[boxed]
    pub async fn proven(&self, caller: &Caller) -> Result<Vec<DescribeWorkflowReply>, DiskError> {
        let asker = LibrarySearch::for_caller(caller);
        let project = self.projects().find_project(caller).await?;
        self.disk.reading(move || proven(&asker.folders(), &project)).await
    }

    /// Returns the directories of `caller`'s workflows, whether they exist or not. Blocks for a few file system calls.
    pub fn folders(&self, caller: &Caller) -> Vec<std::path::PathBuf> {
        LibrarySearch::for_caller(caller).libraries()
    }
}

fn proven(folders: &LibraryPaths, project: &Project) -> Vec<DescribeWorkflowReply> {
    let all = ListWorkflows { limit: u32::MAX, ..ListWorkflows::default() };
    let listed = list(folders, project, &all).workflows.into_iter();
    listed
        .filter(|workflow| workflow.status == name_of(Status::Proven) && !workflow.hidden)
        .take(MAX_WORKFLOWS)
        // The meaning of a name may have changed since.
        .filter_map(|workflow| describe(folders, project, &workflow.name).ok())
        .collect()
}
