//! Resolution of the target of a run, and updates of the library at its end.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use steplatch_access::Caller;
use steplatch_library::Signature;
use steplatch_project::{DiskError, FindError, WorkflowRef};
use steplatch_protocol::{RunReply, RunWorkflow};
use steplatch_sessions::TerminalTools;
use steplatch_workflow::{Definition, MAX_DOCUMENT_BYTES};

use super::pins;
use crate::definition_source::{
    DefinitionSource, LibraryCopy, ResolvedTarget, RunEnding, RunTarget, TargetError, UnsavedError,
};
use crate::engine_state::Engine;
use crate::not_started::not_started;
use crate::seal::Seal;

/// Maximum bytes to read of a file, enough for a definition with much white space.
const MAX_FILE_BYTES: u64 = 4 * MAX_DOCUMENT_BYTES as u64;

/// The prefix of the error of an invalid definition, in the words of document 001, line 1240.
pub(super) const INVALID: &str = "Workflow definition validation failed";

/// Reads a file. Refuses a file that is too long for a definition.
pub(super) async fn read_definition_file(path: PathBuf) -> io::Result<String> {
    let reading = tokio::task::spawn_blocking(move || {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        if length > MAX_FILE_BYTES {
            return Err(io::Error::other(format!("it has {length} bytes, at most {MAX_DOCUMENT_BYTES} are read")));
        }
        let mut text = String::new();
        file.take(MAX_FILE_BYTES).read_to_string(&mut text).map(|_| text)
    });
    reading.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

impl Engine {
    /// Returns the target of a name for `caller`: a saved workflow, else the tool of a remote workflow.
    ///
    /// # Errors
    ///
    /// If there is no target; if its file is broken; or if the caller is a run, and the name referred to another target
    /// at the start of that run.
    pub(super) async fn resolve_name(&self, caller: &Caller, name: &str) -> Result<ResolvedTarget, TargetError> {
        let found = self.to_target(name, self.workflows.find(caller, name).await)?;
        caller.pins.as_ref().map_or(Ok(()), |pins| pins::check_workflow(pins, name, &found, &self.remotes))?;
        Ok(found)
    }

    /// Returns the current targets of these names, like [`Self::resolve_name`], in their order.
    ///
    /// # Errors
    ///
    /// If reading the disk fails.
    pub(super) async fn resolve_names(
        &self,
        caller: &Caller,
        names: Vec<String>,
    ) -> Result<Vec<Result<ResolvedTarget, FindError>>, DiskError> {
        let found = self.workflows.find_each(caller, names.clone()).await?;
        Ok(names.iter().zip(found).map(|(name, found)| self.to_target(name, found)).collect())
    }

    /// Returns the target of a name: a workflow of the library, else the tool of a remote service.
    fn to_target(&self, name: &str, found: Result<WorkflowRef, FindError>) -> Result<ResolvedTarget, FindError> {
        match found {
            Ok(WorkflowRef::Machine(saved)) => Ok(ResolvedTarget::Machine(saved)),
            Ok(WorkflowRef::Function(workflow)) => Ok(ResolvedTarget::Function(workflow)),
            Err(error @ FindError::NotFound(_)) => {
                let tool = self.remotes.tool(name).map(|tool| ResolvedTarget::Remote(Box::new(tool)));
                tool.ok_or(error)
            }
            // Do not fall back to a service for a name that the library may have, because its file is broken, or the
            // disk does not answer.
            Err(error) => Err(error),
        }
    }

    /// Returns the workflow to run.
    ///
    /// # Errors
    ///
    /// Returns a reply with the reason that no workflow can run.
    pub(super) async fn requested_target(
        &self,
        caller: &Arc<Caller>,
        verb: &RunWorkflow,
    ) -> Result<RunTarget, Box<RunReply>> {
        let invalid = |problems: String| not_started("definition_invalid", problems);
        let location_count = [&verb.workflow_name, &verb.workflow_file].into_iter().flatten().count()
            + usize::from(verb.workflow_definition.is_some());
        if location_count > 1 {
            let error = match (&verb.workflow_name, &verb.workflow_file) {
                (Some(_), None) => "Provide either 'workflow_definition' OR 'workflow_name', not both",
                _ => "Provide one of 'workflow_definition', 'workflow_name' and 'workflow_file'",
            };
            return Err(invalid(error.to_owned()));
        }
        let parsed = match (&verb.workflow_definition, &verb.workflow_name, &verb.workflow_file) {
            (Some(document), ..) => Definition::parse(document, &TerminalTools),
            (None, Some(name), _) => {
                let resolved = self.resolve_name(caller, name).await;
                let saved = match resolved.map_err(|error| not_started("workflow_not_found", error.to_string()))? {
                    ResolvedTarget::Machine(saved) => saved,
                    ResolvedTarget::Function(workflow) => return Ok(RunTarget::Function(workflow)),
                    ResolvedTarget::Remote(tool) => return Ok(RunTarget::Remote(tool)),
                };
                let definition = Definition::parse(&saved.definition, &TerminalTools).map_err(|problems| {
                    invalid(format!("{INVALID}: the workflow '{}' is not valid:\n{problems}", saved.name))
                })?;
                let source = DefinitionSource::Saved { directory: saved.directory, name: saved.name };
                return Ok(RunTarget::Machine(Box::new(definition), source));
            }
            (None, None, Some(file)) => {
                let path = caller.directory.join(file);
                let unreadable =
                    |error: String| invalid(format!("workflow file '{}' cannot be read: {error}", path.display()));
                let text = read_definition_file(path.clone()).await;
                Definition::from_text(&text.map_err(|error| unreadable(error.to_string()))?, &TerminalTools)
            }
            (None, None, None) => {
                let error = "Either 'workflow_definition' or 'workflow_name' must be provided";
                return Err(invalid(error.to_owned()));
            }
        };
        let definition = parsed.map_err(|problems| invalid(format!("{INVALID}:\n{problems}")))?;
        let source = self.inline_source(caller, verb.save_on_success).await;
        Ok(RunTarget::Machine(Box::new(definition), source))
    }

    /// Returns the source of a definition that the caller provides in full. The caller's library saves it if the run
    /// completes, unless `save_on_success` is false.
    pub(super) async fn inline_source(&self, caller: &Arc<Caller>, save_on_success: bool) -> DefinitionSource {
        if !save_on_success {
            return DefinitionSource::Given;
        }
        let (workflows, caller) = (self.workflows.clone(), caller.clone());
        let directory = tokio::task::spawn_blocking(move || workflows.directory(&caller)).await;
        directory.map_or(DefinitionSource::Given, |directory| DefinitionSource::ToKeep { directory })
    }

    /// Updates the library after the end of the run. Returns the copy of the definition in the library, if there is
    /// one.
    ///
    /// # Errors
    ///
    /// If saving a definition fails.
    pub(super) async fn update_library(
        &self,
        source: &DefinitionSource,
        definition: &Definition,
        seal: &Seal,
        ending: RunEnding,
    ) -> Result<Option<LibraryCopy>, UnsavedError> {
        let RunEnding { completed, states, at, is_repeated } = ending;
        let (directory, mut copy) = match source {
            DefinitionSource::Given
            | DefinitionSource::Function
            | DefinitionSource::SavedFunction { .. }
            | DefinitionSource::Remote { .. } => return Ok(None),
            DefinitionSource::Saved { directory, name } => {
                (directory, LibraryCopy { saved: false, name: name.clone() })
            }
            DefinitionSource::ToKeep { .. } if !completed => return Ok(None),
            DefinitionSource::ToKeep { directory } => {
                if seal.hides_some_of(&definition.document().to_string()) {
                    tracing::info!("a workflow with a secret in it is not saved, since libraries are shared");
                    return Err(UnsavedError::Secret);
                }
                let outcome = self.workflows.keep_definition(directory, definition.shared_document()).await;
                let outcome = outcome.inspect_err(|error| {
                    tracing::warn!(error = error.to_string(), "failed to save a workflow that has completed");
                })?;
                (directory, LibraryCopy { saved: outcome.saved, name: outcome.name })
            }
        };
        let signature = Signature::of_value(definition.document());
        let at = UNIX_EPOCH + Duration::from_micros(u64::try_from(at.0).unwrap_or(0));
        if is_repeated && let Some(metadata) = self.workflows.metadata(directory, &copy.name).await {
            // An earlier daemon may have saved the definition, and stopped before it recorded the copy.
            let is_ours = matches!(source, DefinitionSource::ToKeep { .. }) && metadata.is_created_since(at);
            copy.saved |= is_ours;
            if metadata.counts(at) {
                return Ok(Some(copy));
            }
        }
        self.workflows.record_run(directory, &copy.name, &signature, completed, u64::from(states), at).await;
        Ok(Some(copy))
    }
}
