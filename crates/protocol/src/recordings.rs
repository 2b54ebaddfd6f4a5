//! Verbs about recordings of terminals: their list, and their screens at any time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ScreenChange;

/// List the recordings of terminals that `steplatch terminal record` has made on this machine and whose files exist.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListRecordings {
    /// Only those of the terminal with this id
    pub session_id: Option<String>,
    /// Maximum number of recordings (default 200)
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
}

/// The recordings, newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListRecordingsReply {
    /// True if they can be listed
    pub success: bool,
    /// The recordings
    #[serde(default)]
    pub recordings: Vec<RecordingInfo>,
    /// The error and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A recording.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordingInfo {
    /// Its id
    pub recording_id: String,
    /// The terminal
    pub session_id: String,
    /// The name of the terminal, or another title
    pub title: Option<String>,
    /// Its file
    pub file: String,
    /// Length of the file in bytes
    pub bytes: u64,
    /// Start time (ISO 8601, UTC)
    pub began: String,
    /// Time of the last write to the file (ISO 8601, UTC), which is the end of its content
    pub changed: String,
    /// Columns of the screen at the beginning
    pub cols: Option<u16>,
    /// Its rows; without them, the file is no recording any more
    pub rows: Option<u16>,
}

/// Read a stretch of a recording as screens: the whole screen at a time, and changes after it. Secrets are redacted.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReadRecording {
    /// Recording to read
    pub recording_id: String,
    /// Time since the beginning in milliseconds (default 0)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
}

/// A stretch of a recording.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReadRecordingReply {
    /// True if the recording can be read
    pub success: bool,
    /// The recording
    pub recording: Option<RecordingInfo>,
    /// Its length in milliseconds, as far as it can be read
    #[serde(default)]
    pub duration_ms: u64,
    /// Maximum pause of a replay in milliseconds, if the recording has one
    pub idle_limit_ms: Option<u64>,
    /// The places that it has marked
    #[serde(default)]
    pub markers: Vec<RecordingMarker>,
    /// The screens: the first one is whole, and further ones are changes
    #[serde(default)]
    #[schemars(with = "Vec<serde_json::Value>")]
    pub frames: Vec<RecordedFrame>,
    /// Start of the next stretch; none at the end of the recording
    pub next_ms: Option<u64>,
    /// Reason for which the recording cannot be read to its end, if it cannot
    pub damage: Option<String>,
    /// The error and what to do
    pub error: Option<String>,
}

/// A place that a recording has marked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordingMarker {
    /// Time since the beginning in milliseconds
    pub at_ms: u64,
    /// Its label
    pub label: String,
}

/// A screen of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFrame {
    /// Time since the beginning in milliseconds.
    pub at_ms: u64,
    /// Difference from the screen before.
    #[serde(flatten)]
    pub change: ScreenChange,
}
