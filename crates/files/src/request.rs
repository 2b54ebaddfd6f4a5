//! Requests to the computer with a file, and the replies.

use std::path::PathBuf;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::digest::FileDigest;

/// Maximum length of a piece, in bytes.
pub const MAX_PIECE_BYTES: usize = 1 << 20;

/// Maximum number of entries of a listed directory.
pub const MAX_DIRECTORY_ENTRIES: usize = 100_000;

/// Maximum length of the name of a directory entry, in bytes (`NAME_MAX`). A name that is not UTF-8 is longer in a
/// listing.
const MAX_NAME_BYTES: usize = 3 * 255;

/// Returns whether a directory entry can have this name: one component of a path, and neither `.` nor `..`.
#[must_use]
pub fn is_entry_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']) && name.len() <= MAX_NAME_BYTES
}

/// A request about a file of one computer.
///
/// A path is absolute, or begins with `~`, or is relative to the home directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileRequest {
    /// Describe a file or directory. Follows symbolic links. → `Result<FileFacts, FileError>`
    Describe(PathBuf),
    /// List a directory, sorted by name. → `Result<Vec<DirectoryEntry>, FileError>`
    List(PathBuf),
    /// Create a directory and its missing ancestors. → `Result<(), FileError>`
    MakeDirectory(PathBuf),
    /// Read a piece of a file. → `Result<FilePiece, FileError>`
    Read {
        /// The file.
        path: PathBuf,
        /// The described file.
        identity: FileIdentity,
        /// Offset of the piece, in bytes.
        offset: u64,
        /// The length in bytes, at most [`MAX_PIECE_BYTES`].
        limit: usize,
    },
    /// Compute the digest of the first `length` bytes of a file. → `Result<FileDigest, FileError>`
    Digest {
        /// The file.
        path: PathBuf,
        /// The described file.
        identity: FileIdentity,
        /// Length in bytes.
        length: u64,
    },
    /// Write a piece of the unfinished copy of a file. → `Result<(), FileError>`
    Write {
        /// The file.
        target: WriteTarget,
        /// Offset of the piece, in bytes.
        offset: u64,
        /// The piece.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Check the unfinished copy and move it into place. → `Result<FileWritten, FileError>`
    Finish {
        /// The file.
        target: WriteTarget,
        /// The length in bytes.
        length: u64,
        /// The digest.
        digest: FileDigest,
        /// The permissions; `None` keeps the replaced file's permissions, or sets 0644.
        mode: Option<u32>,
        /// True if the write may replace a file with other content.
        replace: bool,
        /// The step that writes the file, exactly once. A host of an older version ignores it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<String>,
    },
    /// Return the file that a step has written, if any. → `Result<Option<FileWritten>, FileError>`
    Written(String),
    /// Remove the unfinished copy of a file. → `Result<(), FileError>`
    Abandon(WriteTarget),
}

/// The target of a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WriteTarget {
    /// The path.
    pub path: PathBuf,
    /// The name of the transfer: 1 to 64 letters and digits.
    pub transfer: String,
}

/// Kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A device, a socket or a pipe.
    Other,
}

/// An entry of a directory. Does not follow symbolic links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// The name.
    pub name: String,
    /// The kind. `None` for a symbolic link, and for a name that is not UTF-8, because `name` does not represent it
    /// exactly.
    pub kind: Option<FileKind>,
    /// The length in bytes.
    pub size: u64,
}

/// The description of a file or directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// The absolute path, for people: bytes that are not UTF-8 are replaced.
    pub path: String,
    /// The kind.
    pub kind: FileKind,
    /// The length in bytes. 0 for files without a length, such as the files of `/proc`.
    pub size: u64,
    /// The permissions: the lower 12 bits of `st_mode`.
    pub mode: u32,
    /// Time of the last change of the content.
    pub modified: Option<SystemTime>,
    /// Identity of the file; a replacement has another identity.
    pub identity: FileIdentity,
}

/// Identity of a file. It differs from the identity of a later file at the same path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePiece {
    /// The bytes; fewer than the limit only at the end of the file.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// A written file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileWritten {
    /// The absolute path, for people: bytes that are not UTF-8 are replaced.
    pub path: String,
    /// The permissions.
    pub mode: u32,
    /// True if the write replaced another file.
    pub replaced: bool,
    /// True if the file had this content already.
    pub unchanged: bool,
    /// The length in bytes and its digest; `None` from a host of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<(u64, FileDigest)>,
}

/// Error of a request about a file. Paths have the form of [`FileFacts::path`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum FileError {
    /// The path does not exist.
    #[error("'{0}' does not exist")]
    NotFound(String),
    /// The directory of the path does not exist.
    #[error("directory '{0}' does not exist")]
    NoDirectory(String),
    /// The path is a directory.
    #[error("'{0}' is a directory")]
    IsDirectory(String),
    /// The path is not a directory.
    #[error("'{0}' is not a directory")]
    NotDirectory(String),
    /// The path is neither a file nor a directory.
    #[error("'{0}' is not a regular file")]
    NotRegular(String),
    /// The file exists with different content, and the request does not replace it.
    #[error("'{0}' already exists with different content")]
    Exists(String),
    /// During the read, the file was replaced or became shorter.
    #[error("'{0}' changed while it was read")]
    Changed(String),
    /// The written file has another length or digest than the sent one.
    #[error("'{0}' was not written: the copy differs from the sent file")]
    Damaged(String),
    /// The unfinished copy was removed.
    #[error("'{0}' was not written: its unfinished copy was removed")]
    Lost(String),
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// A system call failed.
    #[error("'{path}': {reason}")]
    System {
        /// The path.
        path: String,
        /// The system's message.
        #[serde(rename = "why")]
        reason: String,
    },
}
