//! Errors of reading a library or project, and of finding, saving, loading or removing a workflow.
//!
//! Clients show the messages of these errors unchanged.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use steplatch_ids::{InvalidId, WorkflowName};
use steplatch_library::{CreateError, DirectoryError, LookupError, ReplaceError, VersionError};
use steplatch_workflow::Problems;
use tokio::task::JoinError;

use crate::text_file::FileReadError;
use crate::workers::WorkersError;

/// Maximum number of names that an error suggests.
const MAX_NAMES: usize = 20;

/// Failure of work on files.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The thread that works on a library has stopped.
    #[error("The library of workflows could not be read: {0}.")]
    LibraryInterrupted(JoinError),
    /// A library did not answer within the time limit. The work may still finish later.
    #[error(
        "The library of workflows did not answer for {} s, so the outcome is unknown: its disk hangs, or another \
         program holds its lock (the file .lock in its directory).",
        .limit.as_secs()
    )]
    LibraryTimeout {
        /// The time limit.
        limit: Duration,
    },
    /// The thread that reads a project has stopped.
    #[error("The nodes of the project could not be read: {0}.")]
    ProjectInterrupted(JoinError),
    /// Reading the files of a project took longer than the time limit.
    #[error("The disk did not answer for {} s when the nodes of '{}' were read.", .limit.as_secs(), .directory.display())]
    ProjectTimeout {
        /// The directory of the caller.
        directory: PathBuf,
        /// The time limit.
        limit: Duration,
    },
}

/// Error about a name that refers to no usable saved workflow.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// Disk access failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// No workflow has the name.
    #[error(transparent)]
    NotFound(Box<WorkflowNotFound>),
    /// The workflow's declaration is invalid.
    #[error("Workflow '{name}' cannot be used; correct its declaration in {}:\n{reason}", .file.display())]
    Declaration {
        /// The name, at most 80 characters.
        name: String,
        /// The file of the declaration.
        file: PathBuf,
        /// The problems of the declaration, one per line.
        reason: String,
    },
    /// The file of the workflow is invalid.
    #[error("Workflow '{name}' cannot be read: {}. Correct or remove the file.", with_causes(.cause))]
    Broken {
        /// The name.
        name: WorkflowName,
        /// The defect of the file.
        cause: LookupError,
    },
    /// The directory of a library is unreadable.
    #[error("{}", with_causes(.0))]
    Library(LookupError),
    /// The workflow has no such version.
    #[error(transparent)]
    Version(VersionError),
    /// The workflow is a function; only machines have versions.
    #[error("'{name}' is a function, and only machines have versions. Its file is {}", .file.display())]
    OfFunction {
        /// The workflow.
        name: WorkflowName,
        /// The file.
        file: PathBuf,
    },
}

/// A name that no saved workflow has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowNotFound {
    /// The name, at most 80 characters.
    pub name: String,
    /// Error about a name that no workflow can have.
    pub invalid: Option<InvalidId>,
    /// The name that is probably intended.
    pub nearest: Option<String>,
    /// The names of all available workflows, sorted.
    pub available: Vec<String>,
}

impl std::error::Error for WorkflowNotFound {}

impl fmt::Display for WorkflowNotFound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Workflow '{}' not found", self.name)?;
        match (&self.invalid, &self.nearest) {
            (Some(invalid), _) => write!(out, ": {invalid}.")?,
            (None, Some(nearest)) => write!(out, ". Did you mean '{nearest}'?")?,
            (None, None) => out.write_str(".")?,
        }
        out.write_str(" Available workflows: ")?;
        match self.available.as_slice() {
            [] => out.write_str("none; create_workflow saves one"),
            few if few.len() <= MAX_NAMES => out.write_str(&few.join(", ")),
            many => {
                let omitted = many.len() - MAX_NAMES;
                write!(out, "{} and {omitted} more; list_workflows lists them", many[..MAX_NAMES].join(", "))
            }
        }
    }
}

/// Error of saving a workflow that ran to completion.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// Disk access failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The library refuses the workflow.
    #[error("{}", with_causes(.0))]
    Library(CreateError),
}

/// Error of updating a loaded file from its changed original.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TakeOverError {
    /// Disk access failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Another client changed the file of the library at the same time.
    #[error("another program changed it at the same time")]
    Conflict,
    /// The library refuses the text.
    #[error("{}", with_causes(.0))]
    Library(CreateError),
}

/// Error of removing a saved workflow.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeleteError {
    /// Disk access failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The name refers to no usable workflow.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The library has no file of functions with the name.
    #[error("There is no file '{file}' in the library; steplatch workflow list shows all files")]
    NoFile {
        /// The name of the file.
        file: String,
    },
    /// The file of the function also declares other workflows.
    #[error(
        "Workflow '{id}' is declared in {} together with {}. Remove it from the file, or remove all of them: steplatch workflow rm {file}",
        .path.display(), .other_workflows.join(", ")
    )]
    Shared {
        /// The workflow.
        id: String,
        /// The path of its file.
        path: PathBuf,
        /// The other workflows of the file.
        other_workflows: Vec<String>,
        /// The name of the file.
        file: String,
    },
    /// The library refuses to remove a machine.
    #[error("Workflow '{name}' was not removed: {}", with_causes(.cause))]
    Machine {
        /// The workflow.
        name: WorkflowName,
        /// The reason.
        cause: LookupError,
    },
    /// The library refuses to remove a file of functions.
    #[error("'{name}' was not removed: {}", with_causes(.cause))]
    Functions {
        /// The workflow or the file, as the client named it.
        name: String,
        /// The reason.
        cause: LookupError,
    },
}

/// Error of loading a file of functions.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// Disk access failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The name of the file does not end in `.py`.
    #[error("'{}' is not a file of functions, whose name must end in .py.", .file.display())]
    NotFunctions {
        /// The file.
        file: PathBuf,
    },
    /// The file's name is not valid as the name of a workflow.
    #[error("The file '{}' cannot be kept under its name: {cause}. Rename it.", .file.display())]
    Name {
        /// The file.
        file: PathBuf,
        /// The defect of its name.
        cause: InvalidId,
    },
    /// The file cannot be read.
    #[error("The file '{}' was not loaded: {cause}.", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The reason.
        cause: FileReadError,
    },
    /// No worker could check the file.
    #[error("The file '{}' was not loaded: {cause}.", .file.display())]
    Worker {
        /// The file.
        file: PathBuf,
        /// The reason.
        cause: WorkersError,
    },
    /// The library's file of that name was edited after it was loaded.
    #[error(
        "The file '{}' was not loaded: {} was edited after it was loaded. To replace it with the file: --overwrite",
        .file.display(), .copy.display()
    )]
    Edited {
        /// The file.
        file: PathBuf,
        /// The file in the library.
        copy: PathBuf,
    },
    /// The library's file of that name was loaded from another path.
    #[error(
        "The file '{}' was not loaded: {} was loaded from {}. To replace it: --overwrite",
        .file.display(), .copy.display(), .original.display()
    )]
    OtherOriginal {
        /// The file.
        file: PathBuf,
        /// The file in the library.
        copy: PathBuf,
        /// The original of the file in the library.
        original: PathBuf,
    },
    /// The library has a file of that name without an original.
    #[error("The file '{}' was not loaded: {} already exists. To replace it: --overwrite", .file.display(), .copy.display())]
    Exists {
        /// The file.
        file: PathBuf,
        /// The file in the library.
        copy: PathBuf,
    },
    /// The file in the library is invalid, or not readable.
    #[error("'{}' was not loaded: {}. To replace it: --overwrite", .file.display(), with_causes(.cause))]
    Broken {
        /// The file.
        file: PathBuf,
        /// The defect of the file in the library.
        cause: LookupError,
    },
    /// Removing the invalid file in the library fails.
    #[error("'{}' was not loaded: {}", .file.display(), with_causes(.cause))]
    NotReplaced {
        /// The file.
        file: PathBuf,
        /// The reason.
        cause: LookupError,
    },
    /// Another client loads a file of that name at the same time.
    #[error("The file '{}' was not loaded: another client loads a file of this name; try again.", .file.display())]
    Conflict {
        /// The file.
        file: PathBuf,
    },
    /// The library refuses the file.
    #[error("The file '{}' was not loaded: {}", .file.display(), with_causes(.cause))]
    NotStored {
        /// The file.
        file: PathBuf,
        /// The reason.
        cause: CreateError,
    },
}

/// Error about a session name that does not refer to the caller's project.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Disk access failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The caller's project has another name.
    #[error("Session not found: {name}")]
    NotFound {
        /// The name, at most 80 characters.
        name: String,
    },
}

/// Error about a project file without usable declarations.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DocumentError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileReadError),
    /// The file is not JSON.
    #[error("it is not valid JSON: {0}")]
    Json(serde_json::Error),
    /// The file is not TOML.
    #[error("it is not valid TOML: {message}{}", position_suffix(.position))]
    Toml {
        /// The reason.
        message: String,
        /// Line and column, counted from 1.
        position: Option<(usize, usize)>,
    },
    /// The file has values that JSON lacks.
    #[error("{}", .0.message())]
    TomlValue(toml::de::Error),
    /// The file is not an object.
    #[error("it must be an object with 'nodes', 'graphs' or 'services'")]
    NotTables,
}

fn position_suffix(position: &Option<(usize, usize)>) -> String {
    position.map(|(line, column)| format!(" at line {line} column {column}")).unwrap_or_default()
}

/// Reason for the refusal of one declaration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeclarationError {
    /// The id exists already.
    #[error("ID '{id}' conflicts with existing {kind}")]
    Conflict {
        /// The id.
        id: String,
        /// Kind of the id's owner: `node` or `graph`.
        kind: &'static str,
    },
    /// The declaration is not an object.
    #[error("a node must be an object")]
    NotObject,
    /// An entry under `graphs` has a type other than `graph`.
    #[error("/type: entries of 'graphs' must have type 'graph', not {kind}")]
    NotGraph {
        /// The type.
        kind: Value,
    },
    /// The id of the declaration differs from its name.
    #[error("/id: the entry is named '{name}', so its id cannot be {id}; omit the id")]
    OtherId {
        /// The name.
        name: String,
        /// The id.
        id: Value,
    },
    /// A workflow has an invalid name.
    #[error(transparent)]
    Name(#[from] InvalidId),
    /// The node is invalid; lists its problems, one per line.
    #[error(transparent)]
    Node(#[from] Problems),
}

/// An error of a library operation.
pub(crate) trait DirectoryCause: std::error::Error {
    /// Returns the error of the directory, if it is the cause.
    fn directory_error(&self) -> Option<&DirectoryError>;
}

impl DirectoryCause for DirectoryError {
    fn directory_error(&self) -> Option<&DirectoryError> {
        Some(self)
    }
}

impl DirectoryCause for CreateError {
    fn directory_error(&self) -> Option<&DirectoryError> {
        if let Self::Directory(error) = self { Some(error) } else { None }
    }
}

impl DirectoryCause for LookupError {
    fn directory_error(&self) -> Option<&DirectoryError> {
        if let Self::Directory(error) = self { Some(error) } else { None }
    }
}

impl DirectoryCause for ReplaceError {
    fn directory_error(&self) -> Option<&DirectoryError> {
        match self {
            Self::Lookup(error) => error.directory_error(),
            Self::Write(error) => error.directory_error(),
        }
    }
}

/// Describes an error of a library, its causes, and a known remedy.
pub(crate) fn with_causes(error: &impl DirectoryCause) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    match error.directory_error() {
        Some(DirectoryError::ReadOnly { .. }) => {
            format!("{message}. Set STEPLATCH_LIBRARY to a writable directory, or change the permissions of this one.")
        }
        Some(DirectoryError::NoRoom { .. }) => format!("{message}. Free disk space there, and try again."),
        Some(DirectoryError::Failed { .. }) | None => message,
    }
}
