//! Verbs about recordings of terminals: their list, and their screens at any time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ScreenChange, WrittenFile};

/// List the recordings that `steplatch terminal record` has made on this computer and whose files exist.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListRecordings {
    /// Only recordings of this terminal
    pub session_id: Option<String>,
    /// Maximum number of recordings (default 200)
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
}

/// The recordings, newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListRecordingsReply {
    /// True if the recordings could be listed
    pub success: bool,
    /// The recordings
    #[serde(default)]
    pub recordings: Vec<RecordingInfo>,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A recording.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordingInfo {
    /// Id of the recording
    pub recording_id: String,
    /// The recorded terminal
    pub session_id: String,
    /// Name of the terminal, or another title
    pub title: Option<String>,
    /// Path of the recording
    pub file: String,
    /// File size in bytes
    pub bytes: u64,
    /// Start time (ISO 8601, UTC)
    pub began: String,
    /// Time of the last write to the file (ISO 8601, UTC), which is the end of its content
    pub changed: String,
    /// Initial number of columns of the screen
    pub cols: Option<u16>,
    /// Initial number of rows of the screen; missing if the file is not a valid recording
    pub rows: Option<u16>,
}

/// Read a part of a recording as screens: a whole screen, and the changes after it. Secrets are redacted.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReadRecording {
    /// Recording to read
    pub recording_id: String,
    /// Time since the beginning in milliseconds (default 0)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
}

/// A part of a recording.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReadRecordingReply {
    /// True if the recording can be read
    pub success: bool,
    /// The recording
    pub recording: Option<RecordingInfo>,
    /// Readable length in milliseconds
    #[serde(default)]
    pub duration_ms: u64,
    /// Maximum pause of a replay in milliseconds, if the recording sets one
    pub idle_limit_ms: Option<u64>,
    /// Markers of the recording
    #[serde(default)]
    pub markers: Vec<RecordingMarker>,
    /// The screens: the first one is complete, the others are changes
    #[serde(default)]
    #[schemars(with = "Vec<serde_json::Value>")]
    pub frames: Vec<RecordedFrame>,
    /// Start of the next part; missing at the end of the recording
    pub next_ms: Option<u64>,
    /// Error that prevents reading the recording to its end
    pub damage: Option<String>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// A marker of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordingMarker {
    /// Time since the beginning in milliseconds
    pub at_ms: u64,
    /// Label of the marker
    pub label: String,
}

/// A screen of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFrame {
    /// Time since the beginning in milliseconds.
    pub at_ms: u64,
    /// Difference from the previous screen.
    #[serde(flatten)]
    pub change: ScreenChange,
}

/// Save what a terminal has shown as an animation, with secrets hidden: evidence of what was done.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RecordTerminal {
    /// Terminal
    pub session_id: String,
    /// New file to write
    pub path: String,
    /// Default: by the ending of path, else apng
    pub format: Option<RecordingFormat>,
    /// Seconds ago to begin at
    #[schemars(range(min = 0.0))]
    pub since: Option<f64>,
    /// Only the last commands of the shell
    #[schemars(range(min = 1))]
    pub commands: Option<u32>,
    /// Maximum pause in seconds (default 2)
    #[schemars(range(min = 0.05, max = 3600.0))]
    pub idle_limit: Option<f64>,
    /// Maximum size of the file (default 5 MB)
    #[schemars(range(min = 1, max = 100_000_000))]
    pub max_bytes: Option<u64>,
}

/// Format of a recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordingFormat {
    /// An animated PNG
    #[default]
    Apng,
    /// An animated SVG, whose text is text
    Svg,
    /// A recording for asciinema (asciicast v3)
    Cast,
}

/// Result of saving a recording.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RecordTerminalReply {
    /// True if the file has been written
    pub success: bool,
    /// Terminal
    pub session_id: String,
    /// The file
    pub file: Option<WrittenFile>,
    /// Time of the first screen (ISO 8601, UTC)
    pub begins_at: Option<String>,
    /// Duration in seconds, with shortened pauses
    pub duration: Option<f64>,
    /// Number of different screens; of a cast, of events
    pub frames: Option<u64>,
    /// True if older output is no longer held, so that the recording may begin later than requested
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}
