//! Errors of starting the child run of a step.

use steplatch_ids::{RunId, WorkflowName};
use steplatch_project::WorkersError;
use steplatch_services::InvalidArguments;
use steplatch_sessions::LookupError;
use steplatch_store::StorageError;
use steplatch_workflow::{InvalidVariables, Problems};

use crate::definition_source::TargetError;
use crate::engine::StartError;
use crate::quota::QuotaExceeded;
use crate::source::INVALID;

/// Failure to find or start the child run of a step.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChildError {
    /// The journal is unreadable.
    #[error("failed to read run {run}: {cause}")]
    Unreadable {
        /// The run of the step.
        run: RunId,
        /// The reason.
        #[source]
        cause: StorageError,
    },
    /// Too many runs are in progress below the root of the run.
    #[error(transparent)]
    QuotaExceeded(#[from] QuotaExceeded),
    /// The runs are nested too deeply.
    #[error("Maximum recursion depth ({0}) exceeded")]
    TooDeep(u32),
    /// The run did not start.
    #[error(transparent)]
    NotStarted(#[from] ChildStartError),
}

impl ChildError {
    /// Returns whether a later attempt can succeed once disk space is free.
    pub(super) fn lacks_room(&self) -> bool {
        matches!(self, Self::NotStarted(ChildStartError::Start(error)) if error.lacks_room())
    }
}

/// Failure to start the run of a step.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChildStartError {
    /// The name refers to no executable workflow.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The definition is invalid. Its author can correct it.
    #[error("{INVALID}:\n{0}")]
    Definition(#[source] Problems),
    /// The definition of a saved workflow is invalid. Its author can correct it.
    #[error("the workflow '{name}' is not valid:\n{cause}")]
    SavedDefinition {
        /// The name of the workflow.
        name: WorkflowName,
        /// Problems of the definition.
        #[source]
        cause: Problems,
    },
    /// No worker could read the file of the function that starts the run.
    #[error(transparent)]
    File(#[from] WorkersError),
    /// The remote workflow does not accept the arguments.
    #[error(transparent)]
    Arguments(#[from] InvalidArguments),
    /// The machine does not accept the variables.
    #[error(transparent)]
    Variables(#[from] InvalidVariables),
    /// The terminal of the run is unusable.
    #[error(transparent)]
    Terminal(#[from] LookupError),
    /// The engine does not start the run.
    #[error(transparent)]
    Start(#[from] StartError),
}
