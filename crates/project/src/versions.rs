//! Handlers of the verbs about versions of machines.

use async_recursion::async_recursion as boxed;
use serde_json::Value;
use steplatch_access::Caller;
use steplatch_ids::WorkflowName;
use steplatch_library::{
    Author, CreateError, Library, LookupError, Metadata, SavedVersion, Signature, Status, Stored, VersionError,
};
use steplatch_protocol::{
    DescribeWorkflowReply, ForgetWorkflowVersions, ForgetWorkflowVersionsReply, ListWorkflowVersions,
    ListWorkflowVersionsReply, RevertWorkflow, RevertWorkflowReply, WorkflowVersion,
};
use steplatch_sessions::TerminalTools;
use steplatch_workflow::Definition;

use crate::directories::{LibraryPaths, LibrarySearch};
use crate::error::{DiskError, FindError, with_causes};
use crate::project::Project;
use crate::verbs::{author, describe_machine};
use crate::workflows::{ResolvedWorkflow, Workflows, look_up, not_found};

/// Error of making an earlier version the current one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RevertError {
    /// Disk access failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The name has no versions.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The current version is the first one.
    #[error("Workflow '{name}' has no version before {version}")]
    First {
        /// The workflow.
        name: WorkflowName,
        /// The current version.
        version: u32,
    },
    /// The version is not valid for this steplatch.
    #[error("Version {version} of '{name}' is not valid, so it was not saved; its problems are in validation_errors")]
    Invalid {
        /// The workflow.
        name: WorkflowName,
        /// The version.
        version: u32,
        /// The problems, each with its place.
        problems: Vec<String>,
    },
    /// The library refuses the version.
    #[error("The workflow was not saved: {}", with_causes(.0))]
    Library(CreateError),
}

impl Workflows {
    /// Lists the versions of a machine, the newest first.
    #[boxed]
    pub async fn list_versions(&self, caller: &Caller, verb: ListWorkflowVersions) -> ListWorkflowVersionsReply {
        let (library_search, name) = (LibrarySearch::for_caller(caller), verb.name.clone());
        let lookup = async {
            let project = self.projects().find_project(caller).await?;
            self.disk.run_read(move || find_versions(&library_search.directories(), &project, &name)).await?
        };
        let workflow_name = verb.name;
        match lookup.await {
            Ok((_, _, versions)) => {
                let versions = versions.into_iter().map(version_info).collect();
                ListWorkflowVersionsReply { success: true, workflow_name, versions, error: None }
            }
            Err(error) => {
                let error: FindError = error;
                let error = Some(error.to_string());
                ListWorkflowVersionsReply { workflow_name, error, ..ListWorkflowVersionsReply::default() }
            }
        }
    }

    /// Makes an earlier version of a machine the current one.
    #[boxed]
    pub async fn revert(&self, caller: &Caller, verb: RevertWorkflow) -> RevertWorkflowReply {
        let library_search = LibrarySearch::for_caller(caller);
        let author = author(caller, verb.reason.clone()).await;
        let workflow_name = verb.name.clone();
        let reverted = async {
            let project = self.projects().find_project(caller).await?;
            self.disk.run_write(move || revert(&library_search.directories(), &project, &verb, author)).await?
        };
        match reverted.await {
            Ok((version, equals)) => {
                RevertWorkflowReply { success: true, workflow_name, version, equals, ..RevertWorkflowReply::default() }
            }
            Err(error) => {
                let message = error.to_string();
                let validation_errors = match error {
                    RevertError::Invalid { problems, .. } => problems,
                    _ => Vec::new(),
                };
                let error = Some(message);
                RevertWorkflowReply { workflow_name, validation_errors, error, ..RevertWorkflowReply::default() }
            }
        }
    }

    /// Removes the versions of a machine, except the current one.
    #[boxed]
    pub async fn forget_versions(&self, caller: &Caller, verb: ForgetWorkflowVersions) -> ForgetWorkflowVersionsReply {
        let (library_search, name) = (LibrarySearch::for_caller(caller), verb.name.clone());
        let forgotten = async {
            let project = self.projects().find_project(caller).await?;
            let forget = move || {
                let (library, name, _) = find_versions(&library_search.directories(), &project, &name)?;
                library.forget_versions(&name).map_err(|error| FindError::Library(error.into()))
            };
            self.disk.run_write(forget).await?
        };
        let workflow_name = verb.name;
        match forgotten.await {
            Ok(forgotten) => ForgetWorkflowVersionsReply { success: true, workflow_name, forgotten, error: None },
            Err(error) => {
                let error: FindError = error;
                let error = Some(error.to_string());
                ForgetWorkflowVersionsReply { workflow_name, error, ..ForgetWorkflowVersionsReply::default() }
            }
        }
    }
}

/// Splits `NAME@2`. `None` for a name without a version.
pub(super) fn split_version(name: &str) -> Option<(&str, u32)> {
    let (name, version) = name.rsplit_once('@')?;
    Some((name, version.parse().ok()?))
}

/// Returns the full description of one version of a machine.
pub(super) fn describe(
    directories: &LibraryPaths,
    project: &Project,
    name: &str,
    version: u32,
) -> Result<DescribeWorkflowReply, FindError> {
    let (library, name, versions) = find_versions(directories, project, name)?;
    let available = versions.iter().map(|version| version.version).collect();
    let Some(found) = versions.into_iter().find(|found| found.version == version) else {
        return Err(FindError::Version(VersionError::NoVersion { name, version, available }));
    };
    if found.is_current
        && let Ok(stored) = library.get(&name)
    {
        return Ok(describe_machine(&library, stored));
    }
    // The library counts only runs of the current version.
    let SavedVersion { definition, hash, saved_at, .. } = found;
    let created = saved_at.unwrap_or_default();
    let metadata = Metadata { hash, created, version, status: Status::Draft, ..Metadata::default() };
    Ok(describe_machine(&library, Stored { name, definition, metadata }))
}

/// Returns the versions of a machine, and their library: the library with the machine, else the first one with versions
/// of a removed machine.
fn find_versions(
    directories: &LibraryPaths,
    project: &Project,
    name: &str,
) -> Result<(Library, WorkflowName, Vec<SavedVersion>), FindError> {
    let workflow_name: WorkflowName = name.parse().map_err(|_| not_found(directories, project, name))?;
    match look_up(directories, project, name) {
        Ok(ResolvedWorkflow::Machine(library, _)) => {
            let versions = library.versions(&workflow_name).map_err(FindError::Library)?;
            Ok((library, workflow_name, versions))
        }
        Ok(ResolvedWorkflow::Function(workflow)) => {
            Err(FindError::OfFunction { name: workflow_name, file: workflow.loaded.path.clone() })
        }
        Err(error @ FindError::NotFound(_)) => {
            for directory in directories.iter() {
                let library = Library::open(directory);
                match library.versions(&workflow_name) {
                    Ok(versions) => return Ok((library, workflow_name, versions)),
                    Err(LookupError::NotFound { .. }) => {}
                    Err(error) => return Err(FindError::Library(error)),
                }
            }
            Err(error)
        }
        Err(error) => Err(error),
    }
}

/// Saves a version again. Returns its new number and its old number.
fn revert(
    directories: &LibraryPaths,
    project: &Project,
    verb: &RevertWorkflow,
    author: Author,
) -> Result<(u32, u32), RevertError> {
    let (library, name, versions) = find_versions(directories, project, &verb.name)?;
    let current = versions.iter().find(|version| version.is_current).map(|version| version.version);
    let available = versions.iter().map(|version| version.version).collect();
    let selected = match verb.version {
        Some(number) => versions.into_iter().find(|version| version.version == number).ok_or_else(|| {
            FindError::Version(VersionError::NoVersion { name: name.clone(), version: number, available })
        })?,
        None => {
            let mut earlier = versions.into_iter().filter(|version| current.is_none_or(|now| version.version < now));
            earlier.next().ok_or(RevertError::First { name: name.clone(), version: current.unwrap_or(0) })?
        }
    };
    let mut definition = selected.definition;
    definition["name"] = Value::from(name.as_str());
    if let Err(problems) = Definition::parse(&definition, &TerminalTools) {
        let problems = crate::verbs::problem_lines(&problems.iter().collect::<Vec<_>>());
        return Err(RevertError::Invalid { name, version: selected.version, problems });
    }
    let note = format!("as version {}", selected.version);
    let reason = Some(author.reason.map_or_else(|| note.clone(), |reason| format!("{note}: {reason}")));
    let saved = library.create(&definition, true, &Author { reason, ..author }).map_err(RevertError::Library)?;
    Ok((saved.metadata.version, selected.version))
}

fn version_info(version: SavedVersion) -> WorkflowVersion {
    let SavedVersion { version, hash, saved_at, author, is_current, definition: _ } = version;
    let Author { by, through, reason } = author;
    let hash: &Signature = &hash;
    WorkflowVersion { version, is_current, saved_at, by, through, reason, hash: hash.to_string() }
}
