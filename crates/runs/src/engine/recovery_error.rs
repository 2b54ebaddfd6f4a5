//! Errors that prevent the continuation of an earlier daemon's run.

use steplatch_store::StorageError;
use steplatch_workflow::Problems;

use crate::event::Unreadable;
use crate::nodes::InvalidNodes;

/// Failure to resume a run that an earlier daemon left. The run stays unchanged until a client writes it off, or a
/// later daemon can resume it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecoveryError {
    /// No known passphrase unseals the private part. Setting the earlier passphrase again resolves this.
    #[error("its stored secrets are sealed with a passphrase other than the approver's current one")]
    OtherKey,
    /// Reading the private part failed.
    #[error("its history cannot be read: {0}")]
    PrivatePart(#[source] StorageError),
    /// The private part is invalid.
    #[error("its stored secrets cannot be read: {0}")]
    ResumeContext(#[source] serde_json::Error),
    /// The history is damaged, or a newer version wrote it.
    #[error("its history cannot be read: {0}")]
    History(#[from] Unreadable),
    /// The first entry of the history is not the start of a run.
    #[error("its history does not begin with the start of the run")]
    NoStart,
    /// This version does not accept the definition.
    #[error("its definition is not valid for this version:\n{0}")]
    Definition(#[source] Problems),
    /// This version does not accept the nodes.
    #[error(transparent)]
    Nodes(#[from] InvalidNodes),
}
