//! Errors that prevent the start of a run of any kind.

use steplatch_access::PinError;
use steplatch_ids::RunId;
use steplatch_project::DiskError;
use steplatch_store::StorageError;
use tokio::task::JoinError;

use crate::nodes::InvalidNodes;

/// Failure to start a prepared run. Each variant has its own remedy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The daemon is stopping. The next daemon accepts the request.
    #[error("the daemon is stopping; try again")]
    Stopping,
    /// Too many runs are in progress. Cancelling one permits another start.
    #[error("{limit} runs are in progress, which is the limit; cancel one with cancel_run")]
    TooManyRuns {
        /// The limit.
        limit: usize,
    },
    /// The journal cannot store the start.
    #[error("the run was not started, because it cannot be stored: {0}")]
    NotStored(#[source] StorageError),
    /// The run that began under the same key or id no longer exists. The client can repeat the request.
    #[error("run {run} was just deleted; try again")]
    Forgotten {
        /// The deleted run.
        run: RunId,
    },
    /// The run that began under the same key or id is unreadable.
    #[error("failed to read run {run}: {cause}")]
    Unreadable {
        /// The run.
        run: RunId,
        /// The reason.
        #[source]
        cause: StorageError,
    },
    /// A definition that the run needs has changed since the root run began. A new root run uses the new definition.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// A project or a library does not answer.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Nodes that the run may call have invalid declarations.
    #[error(transparent)]
    Nodes(#[from] InvalidNodes),
    /// The task that starts the run panicked.
    #[error("the run could not be started: {0}")]
    Interrupted(#[source] JoinError),
}

impl StartError {
    /// Returns whether a later attempt can succeed once disk space is free.
    pub(crate) fn lacks_room(&self) -> bool {
        matches!(self, Self::NotStored(StorageError::Full(_)))
    }
}
