//! Origin of a run's definition, and targets of names and requests.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use steplatch_access::PinError;
use steplatch_ids::WorkflowName;
use steplatch_library::Signature;
use steplatch_project::{FindError, FunctionWorkflow, KeepError, SavedMachine};
use steplatch_protocol::ToolInfo;
use steplatch_workflow::{Definition, Timestamp};

use crate::kind::Kind;

/// Origin of a definition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum DefinitionSource {
    /// The caller provided the definition, and no library saves it.
    #[default]
    Given,
    /// The definition is a function, whose text is in the history.
    Function,
    /// The definition is a function. Its text is in the history and in this library, and the library counts its runs.
    SavedFunction {
        /// The library.
        #[serde(rename = "folder")]
        directory: PathBuf,
        /// Name of the function's file in the library.
        file: WorkflowName,
        /// The digest of the file.
        hash: Signature,
    },
    /// The definition is a workflow of a remote service.
    Remote {
        /// The service.
        service: String,
    },
    /// The caller provided the definition, and this library saves it if the run completes.
    ToKeep {
        /// The library.
        #[serde(rename = "folder")]
        directory: PathBuf,
    },
    /// The definition is in this library, and the library counts its runs.
    Saved {
        /// The library.
        #[serde(rename = "folder")]
        directory: PathBuf,
        /// Name of the workflow in the library.
        name: WorkflowName,
    },
}

/// A definition's copy in the library after its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LibraryCopy {
    /// True if this run saved the copy.
    pub(super) saved: bool,
    /// The name in the library.
    pub(super) name: WorkflowName,
}

/// Result of saving a definition, for a reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Saving {
    /// Name of the definition that this run saved.
    pub(super) saved: Option<String>,
    /// Existing equivalent workflow. Because of it, the library did not save the definition.
    pub(super) duplicate_of: Option<String>,
    /// The library's reason for not saving the definition, as a sentence.
    pub(super) error: Option<String>,
}

/// End of a run, for the library.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunEnding {
    pub(super) completed: bool,
    pub(super) states: u32,
    pub(super) at: Timestamp,
    /// True if another daemon may already have handled the end.
    pub(super) is_repeated: bool,
}

/// Target that a caller requests to run.
pub(super) enum RunTarget {
    Machine(Box<Definition>, DefinitionSource),
    Function(Box<FunctionWorkflow>),
    Remote(Box<ToolInfo>),
}

/// Target of a name.
pub(super) enum ResolvedTarget {
    /// A saved machine.
    Machine(SavedMachine),
    /// A function.
    Function(Box<FunctionWorkflow>),
    /// A workflow of a remote service, by the name of its tool.
    Remote(Box<ToolInfo>),
}

impl DefinitionSource {
    /// Returns the source of a function in a library.
    pub(super) fn of_function(workflow: &FunctionWorkflow) -> Self {
        let FunctionWorkflow { library, loaded, .. } = workflow;
        Self::SavedFunction { directory: library.clone(), file: loaded.name.clone(), hash: loaded.hash.clone() }
    }

    /// Returns the kind of a run with this source.
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Function | Self::SavedFunction { .. } => Kind::Function,
            Self::Remote { .. } => Kind::Remote,
            Self::Given | Self::ToKeep { .. } | Self::Saved { .. } => Kind::Machine,
        }
    }

    /// Returns the result of saving the definition, for a reply. `save_error` is the library's reason for not saving
    /// it.
    pub(super) fn saving(&self, copy: Option<&LibraryCopy>, save_error: Option<&str>) -> Saving {
        let is_to_keep = matches!(self, Self::ToKeep { .. });
        let name = |saved: bool| copy.filter(|copy| copy.saved == saved).map(|copy| copy.name.to_string());
        Saving {
            saved: name(true),
            duplicate_of: name(false).filter(|_| is_to_keep),
            error: save_error.map(|error| format!("Workflow succeeded but saving failed: {error}")),
        }
    }

    /// Returns whether the end of the run changes the library.
    pub(super) fn changes_library(&self, has_completed: bool) -> bool {
        match self {
            Self::Given | Self::Function | Self::SavedFunction { .. } | Self::Remote { .. } => false,
            Self::ToKeep { .. } => has_completed,
            Self::Saved { .. } => true,
        }
    }
}

/// Failure to resolve a name to a target that a run may execute.
#[derive(Debug, thiserror::Error)]
pub(super) enum TargetError {
    /// No usable workflow has the name.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The name referred to another target at the start of the root run. A new root run uses the new target.
    #[error(transparent)]
    Pin(#[from] PinError),
}

/// Failure to save the definition of a completed run.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnsavedError {
    /// The definition contains a secret. Its author can replace the secret by an argument.
    #[error(
        "the definition contains a secret, and libraries are shared. Make it an argument with \"secret\": true, or set \
         save_on_success: false."
    )]
    Secret,
    /// The library refuses it.
    #[error(transparent)]
    Library(#[from] KeepError),
}
