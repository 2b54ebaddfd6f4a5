//! Verbs about files of this and other machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const fn default_true() -> bool {
    true
}

/// Write a file here or on a remote host, atomically. Give content, content_base64 or from.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct PutFile {
    /// Path; on a host, relative to the home directory
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
    /// Host, as in open_terminal
    pub host: Option<String>,
}

/// Read a file here or on a remote host: content for text, content_base64 for bytes; continue at next_offset. Or copy
/// it to a local file.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetFile {
    /// Path; on a host, relative to the home directory
    pub path: String,
    /// Local file to copy it to instead
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
    /// Host, as in open_terminal
    pub host: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) const fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Copy a file or a directory from one host to another, and report the progress as events.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CopyFile {
    /// Host of the source (default: this computer)
    pub from_host: Option<String>,
    /// Path of the source
    pub from: String,
    /// Host of the target (default: this computer)
    pub to_host: Option<String>,
    /// Path of the target; within a directory, the copy keeps the name of the source
    pub to: String,
    /// Replace files with other content
    #[serde(default = "default_true")]
    pub overwrite: bool,
    /// Copy a directory with all its content
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recursive: bool,
}

/// A written file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrittenFile {
    /// Remote host of the file; none for this computer
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Absolute path
    pub path: String,
    /// Size in bytes
    pub size: u64,
    /// SHA-256 digest
    pub sha256: String,
    /// Permissions
    pub mode: String,
    /// True if another file was replaced
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaced: bool,
    /// True if the file already had this content
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unchanged: bool,
}

/// The written file, or the error.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct PutFileReply {
    /// True if the file has been written
    pub success: bool,
    /// The file
    pub file: Option<WrittenFile>,
    /// Error message, with a suggested next step
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
    /// Absolute path
    #[serde(default)]
    pub path: String,
    /// Size in bytes
    #[serde(default)]
    pub size: u64,
    /// Permissions
    #[serde(default)]
    pub mode: String,
    /// Time of the last change of the content (ISO 8601, UTC)
    pub modified: Option<String>,
    /// SHA-256 digest of the whole file (up to 256 MiB), in the first and the last reply
    pub sha256: Option<String>,
    /// Text, starting at the requested offset
    pub content: Option<String>,
    /// Bytes in base64, starting at the requested offset, if they are not text
    pub content_base64: Option<String>,
    /// Offset of the next byte, if there is more
    pub next_offset: Option<u64>,
    /// The local file that was written
    pub saved: Option<WrittenFile>,
    /// Error message, with a suggested next step
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
    /// Total size in bytes
    #[serde(default)]
    pub size: u64,
    /// Error message, with a suggested next step
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
    /// A file has been written.
    FileCopied {
        /// The written file.
        file: WrittenFile,
    },
    /// A link, device, socket or pipe in a copied directory was skipped.
    FileSkipped {
        /// Path of the skipped entry.
        path: String,
    },
    /// All files have been written.
    CopyEnded,
    /// The copy ended early. Files that were copied before remain.
    CopyFailed {
        /// Error message, with a suggested next step.
        error: String,
    },
}
