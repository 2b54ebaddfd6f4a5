//! Library errors, grouped by how a caller can react.

use std::io;
use std::path::{Path, PathBuf};

use steplatch_ids::{InvalidId, WorkflowName};

/// Error of reading or changing the directory. The directory is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The directory is read-only.
    #[error("the library '{}' is read-only", .directory.display())]
    ReadOnly {
        /// The directory.
        directory: PathBuf,
        /// The error of the system.
        #[source]
        cause: io::Error,
    },
    /// The disk or a quota is full.
    #[error("no disk space for '{}'", .file.display())]
    NoRoom {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        #[source]
        cause: io::Error,
    },
    /// Another system error.
    #[error("'{}' cannot be used", .file.display())]
    Failed {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        #[source]
        cause: io::Error,
    },
}

impl DirectoryError {
    /// Classifies a system error about `file`.
    pub(crate) fn from_io(file: &Path, cause: io::Error) -> Self {
        let file = file.to_owned();
        match cause.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::ReadOnly { directory: file.parent().map(Path::to_owned).unwrap_or(file), cause }
            }
            // A limit on the size of files is treated as a full disk.
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::NoRoom { file, cause }
            }
            _ => Self::Failed { file, cause },
        }
    }
}

/// Error of saving a workflow. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The name is in use.
    #[error("Workflow '{name}' already exists. Use overwrite_existing=true to replace.")]
    Exists {
        /// The name.
        name: WorkflowName,
    },
    /// The definition has no name to save it under.
    #[error("a saved workflow needs a 'name'")]
    NoName,
    /// The name is not a valid workflow name.
    #[error(transparent)]
    InvalidName(#[from] InvalidId),
    /// The name is reserved for a file of the library itself.
    #[error("'{name}' is the name of a file of the library itself")]
    ReservedName {
        /// The name.
        name: WorkflowName,
    },
    /// The definition is not a JSON object.
    #[error("a definition must be a JSON object")]
    NotAnObject,
    /// The definition is too long.
    #[error("the definition takes {bytes} bytes, more than the limit of {max_bytes} for a saved workflow")]
    TooLarge {
        /// The size.
        bytes: usize,
        /// The maximum size.
        max_bytes: usize,
    },
    /// Writing to the directory failed.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

/// Error of replacing a workflow.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// The workflow was removed, or its file is broken.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// Writing the new definition failed.
    #[error(transparent)]
    Write(#[from] CreateError),
}

/// Defect of one file of a library; its text follows "is broken: ".
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file name is not a valid workflow name.
    #[error("its name cannot be that of a workflow: {0}")]
    Name(InvalidId),
    /// The path is a directory, a pipe or a device.
    #[error("it is not a file")]
    NotFile,
    /// The system refuses to read it.
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
    /// The file exceeds the limit of its kind.
    #[error("it has more than {max_bytes} bytes")]
    TooLarge {
        /// The maximum size, in bytes.
        max_bytes: usize,
    },
    /// The file is a file of functions that is not UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// The file is not JSON.
    #[error("this is not JSON: {0}")]
    NotJson(serde_json::Error),
    /// The file is JSON, but not an object.
    #[error("this is not a JSON object")]
    NotObject,
    /// The file does not have the structure of a saved workflow.
    #[error("{0}")]
    Form(serde_json::Error),
    /// The definition in the file is not an object.
    #[error("its 'definition' is not a JSON object")]
    Definition,
}

/// Error of looking up a saved workflow.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// There is no workflow of that name.
    #[error("there is no workflow '{name}' in the library")]
    NotFound {
        /// The name.
        name: WorkflowName,
    },
    /// The file of the workflow is invalid.
    #[error("the file '{}' is broken: {reason}", .file.display())]
    Broken {
        /// The file.
        file: PathBuf,
        /// The defect.
        reason: FileError,
    },
    /// Reading or writing the directory failed.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}
