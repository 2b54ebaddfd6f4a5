//! Requests to the machine of a file, and its answers.

use std::path::PathBuf;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::digest::FileDigest;

/// Maximum length of a piece, in bytes.
pub const MAX_PIECE_BYTES: usize = 1 << 20;

/// Maximum number of entries of a listed directory.
pub const MAX_DIRECTORY_ENTRIES: usize = 100_000;

/// Maximum length of the name of a directory's entry, in bytes (`NAME_MAX`). One that is not UTF-8 is longer in a listing.
const MAX_NAME_BYTES: usize = 3 * 255;

/// Returns whether a name is that of an entry of a directory: one component of a path, without a special meaning.
#[must_use]
pub fn is_entry_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']) && name.len() <= MAX_NAME_BYTES
}

/// A request about a file of one machine.
///
/// A path is absolute, or begins with `~`, or is relative to the home directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileAsk {
    /// Describe a file or directory. Follows symbolic links. → `Result<FileFacts, FileError>`
    Describe(PathBuf),
    /// List a directory, sorted by name. → `Result<Vec<DirectoryEntry>, FileError>`
    List(PathBuf),
    /// Make a directory and the missing ones above it. → `Result<(), FileError>`
    MakeDirectory(PathBuf),
    /// Read a piece of a file. → `Result<FilePiece, FileError>`
    Read {
        /// The file.
        path: PathBuf,
        /// The described file.
        identity: FileIdentity,
        /// Offset of the piece, in bytes.
        offset: u64,
        /// Its length in bytes, at most [`MAX_PIECE_BYTES`].
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
    /// Write a piece of a file that is not in its place yet. → `Result<(), FileError>`
    Write {
        /// The file.
        target: WriteTarget,
        /// Offset of the piece, in bytes.
        offset: u64,
        /// The piece.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Check a written file and put it in its place. → `Result<FileWritten, FileError>`
    Finish {
        /// The file.
        target: WriteTarget,
        /// Its length in bytes.
        length: u64,
        /// Its digest.
        digest: FileDigest,
        /// Its permissions; none for those of the file that it replaces, or 0644.
        mode: Option<u32>,
        /// True if it may replace a file with another content.
        replace: bool,
        /// The step that writes the file, which does so once. A host of an older version overlooks it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<String>,
    },
    /// Return the file that a step has put in its place; none if it has not. → `Result<Option<FileWritten>, FileError>`
    Written(String),
    /// Remove the unfinished copy of a file that is not in its place. → `Result<(), FileError>`
    Abandon(WriteTarget),
}

/// A file in the course of its copy.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WriteTarget {
    /// Its place.
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
    /// A device, a socket, a pipe.
    Other,
}

/// An entry of a directory. Does not follow symbolic links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// Its name.
    pub name: String,
    /// Its kind. None for a symbolic link, and for a name that is not UTF-8, whose bytes `name` does not have.
    pub kind: Option<FileKind>,
    /// Its length in bytes.
    pub size: u64,
}

/// The description of a file or directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// Its absolute path, for people: with replacements of bytes that are not UTF-8.
    pub path: String,
    /// Its kind.
    pub kind: FileKind,
    /// Its length in bytes. 0 for files without a length, such as those of `/proc`.
    pub size: u64,
    /// Its permissions: the lower 12 bits of `st_mode`.
    pub mode: u32,
    /// Time of the last change of its content.
    pub modified: Option<SystemTime>,
    /// Tells it from a file that takes its place later.
    pub identity: FileIdentity,
}

/// Tells a file from a file that takes its place later.
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
    /// The bytes. Fewer than the limit only at the end of the file.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// A file that is in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileWritten {
    /// Its absolute path, for people: with replacements of bytes that are not UTF-8.
    pub path: String,
    /// Its permissions.
    pub mode: u32,
    /// True if it replaced another file.
    pub replaced: bool,
    /// A file with this content was there already.
    pub unchanged: bool,
    /// Its length in bytes and its digest. None from a host of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<(u64, FileDigest)>,
}

/// Error of a request about a file. Paths are those of [`FileFacts::path`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum FileError {
    /// There is nothing at the path.
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
    /// A file with another content is there, and the request does not replace it.
    #[error("'{0}' exists with another content")]
    Exists(String),
    /// Another file took its place, or it became shorter, during the read.
    #[error("'{0}' changed while it was read")]
    Changed(String),
    /// The written file has another length or digest than the sent one.
    #[error("'{0}' was not written: the copy differs from what was sent")]
    Damaged(String),
    /// The unfinished copy is not there any more.
    #[error("'{0}' was not written: its unfinished copy is gone")]
    Lost(String),
    /// The request is out of its bounds.
    #[error("{0}")]
    Invalid(String),
    /// The system refused.
    #[error("'{path}': {why}")]
    System {
        /// The path.
        path: String,
        /// The reason, in the words of the system.
        why: String,
    },
}
