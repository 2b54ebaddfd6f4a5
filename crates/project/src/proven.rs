//! The saved workflows that ran to their end as they are, with what they take.

use steplatch_access::Caller;
use steplatch_library::Status;
use steplatch_protocol::{DescribeWorkflowReply, ListWorkflows};

use super::folders::{LibraryPaths, LibrarySearch};
use super::verbs::{describe, list, name_of};
use crate::project::Project;
use crate::workflows::Workflows;

/// The most that are told: each is read and checked.
const MOST: usize = 500;

impl Workflows {
    /// Returns the proven workflows that `caller` may run by name, sorted by name. A broken one is left out.
    ///
    /// # Errors
    /// In a whole sentence, when the library can not be read.
    pub async fn proven(&self, caller: &Caller) -> Result<Vec<DescribeWorkflowReply>, String> {
        let asker = LibrarySearch::of(caller);
        let project = self.projects().of(caller).await?;
        self.disk.reading(move || proven(&asker.folders(), &project)).await
    }

    /// Returns the folders in which `caller`'s workflows lie, whether they are there or not. Blocks for a few looks at the
    /// file system.
    pub fn folders(&self, caller: &Caller) -> Vec<std::path::PathBuf> {
        LibrarySearch::of(caller).libraries()
    }
}

fn proven(folders: &LibraryPaths, project: &Project) -> Vec<DescribeWorkflowReply> {
    let all = ListWorkflows { limit: u32::MAX, ..ListWorkflows::default() };
    let listed = list(folders, project, &all).workflows.into_iter();
    listed
        .filter(|workflow| workflow.status == name_of(Status::Proven) && !workflow.hidden)
        .take(MOST)
        // Which one is meant by a name may have changed since.
        .filter_map(|workflow| describe(folders, project, &workflow.name).ok())
        .collect()
}
