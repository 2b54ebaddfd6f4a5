//! Verbs about files of this and other machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const fn default_true() -> bool {
    true
}

/// Write a file here or on another machine, atomically. Give content or content_base64 (up to 1 MiB), or from (up to
/// 256 MiB).
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct PutFile {
    /// Path of the file; on another machine, relative to the home directory
    pub path: String,
    /// Text
    pub content: Option<String>,
    /// Bytes
    pub content_base64: Option<String>,
    /// Local file to copy
    pub from: Option<String>,
    /// Permissions, such as 0755
    pub mode: Option<String>,
    /// Replace a file with other content
    #[serde(default = "default_true")]
    pub overwrite: bool,
    /// Another machine, as in open_terminal
    pub host: Option<String>,
}

/// Read a file of this or another machine: content for text, content_base64 for bytes; continue at next_offset. Or copy
/// it to a local file.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetFile {
    /// Path of the file; on another machine, relative to the home directory
    pub path: String,
    /// Local file to copy it to instead (up to 256 MiB)
    pub to: Option<String>,
    /// Byte to begin at
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: u64,
    /// Maximum number of bytes (default 32768)
    #[schemars(range(min = 1, max = 1_048_576))]
    pub limit: Option<u32>,
    /// Replace the file in to if its content differs
    #[serde(default = "default_true")]
    pub overwrite: bool,
    /// Another machine, as in open_terminal
    pub host: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Copy a file or a directory from one machine to another, and report the progress as events.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CopyFile {
    /// Machine of the source (default: this one)
    pub from_host: Option<String>,
    /// The source
    pub from: String,
    /// Machine of the target (default: this one)
    pub to_host: Option<String>,
    /// The target; in a directory it keeps the name of its source
    pub to: String,
    /// Replace files with other content
    #[serde(default = "default_true")]
    pub overwrite: bool,
    /// Copy a directory with everything in it
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recursive: bool,
}

/// A written file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrittenFile {
    /// Its machine, if it is another one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its absolute path
    pub path: String,
    /// Its length in bytes
    pub size: u64,
    /// Its SHA-256 digest
    pub sha256: String,
    /// Its permissions
    pub mode: String,
    /// True if it replaced another file
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaced: bool,
    /// True if the file had this content already
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unchanged: bool,
}

/// The written file, or the error.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct PutFileReply {
    /// True if the file is in its place
    pub success: bool,
    /// The file
    pub file: Option<WrittenFile>,
    /// The error and what to do
    pub error: Option<String>,
    /// True if the outcome is unknown: the file may have been written
    pub outcome_unknown: Option<bool>,
}

/// The content of a file, or the copy that was written.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetFileReply {
    /// True if the file was read
    pub success: bool,
    /// Its absolute path
    #[serde(default)]
    pub path: String,
    /// Its length in bytes
    #[serde(default)]
    pub size: u64,
    /// Its permissions
    #[serde(default)]
    pub mode: String,
    /// Time of the last change of its content (ISO 8601, UTC)
    pub modified: Option<String>,
    /// SHA-256 digest of the whole file, up to 256 MiB; with the first and the last part
    pub sha256: Option<String>,
    /// The text from offset on
    pub content: Option<String>,
    /// The bytes from offset on in base64, if they are not text
    pub content_base64: Option<String>,
    /// Offset of the next byte, if there is more
    pub next_offset: Option<u64>,
    /// The local file that was written
    pub saved: Option<WrittenFile>,
    /// The error and what to do
    pub error: Option<String>,
    /// True if the outcome is unknown: the file may have been written
    pub outcome_unknown: Option<bool>,
}

/// Start of a copy.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CopyFileReply {
    /// True if the copy has begun
    pub success: bool,
    /// Number of files to copy
    #[serde(default)]
    pub files: u64,
    /// Their total length in bytes
    #[serde(default)]
    pub size: u64,
    /// The error and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An event of a copy. The last one is [`CopyEvent::CopyEnded`] or [`CopyEvent::CopyFailed`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event_type", rename_all = "snake_case")]
pub enum CopyEvent {
    /// A part was copied.
    CopyProgress {
        /// Number of bytes copied so far, over all files.
        copied: u64,
        /// Source of the current file.
        path: String,
    },
    /// A file is in its place.
    FileCopied {
        /// The file.
        file: WrittenFile,
    },
    /// A link, a device, a socket or a pipe in a copied directory was left out.
    FileSkipped {
        /// Its path.
        path: String,
    },
    /// All files are in their places.
    CopyEnded,
    /// The copy ended early. Files that were copied before stay.
    CopyFailed {
        /// The error and what to do.
        error: String,
    },
}
