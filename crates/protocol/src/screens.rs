//! Verbs that watch screens. They send the changed rows as cells, so that viewers need no terminal emulator.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Watch the screen of a terminal: all rows now, and the rows that change, as events on this connection. Secrets are
/// redacted.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct WatchScreen {
    /// Terminal to watch
    pub session_id: String,
    /// Minimum time between two events in milliseconds; a change after a longer silence is sent at once
    #[serde(default)]
    pub interval_ms: u64,
}

/// Result of watching a screen.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct WatchScreenReply {
    /// True if the terminal exists
    pub success: bool,
    /// Id of the terminal, even if the request has its name
    #[serde(default)]
    pub session_id: String,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Read the screen of a terminal and its scrollback, as cells. Secrets are redacted.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReadScrollback {
    /// Terminal to read
    pub session_id: String,
    /// Maximum number of scrollback rows (default 1000, the most that are kept with colours)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub rows: Option<u16>,
}

/// A screen and its scrollback, as cells.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReadScrollbackReply {
    /// True if the terminal exists
    pub success: bool,
    /// Columns
    #[serde(default)]
    pub cols: u16,
    /// Rows, oldest first, ending with those of the screen
    #[serde(default)]
    #[schemars(with = "Vec<serde_json::Value>")]
    pub lines: Vec<ScreenRow>,
    /// Default text colour, as `#rrggbb`
    #[serde(default)]
    pub foreground: String,
    /// Default background colour, as `#rrggbb`
    #[serde(default)]
    pub background: String,
    /// Palette colours that the program has changed
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<serde_json::Value>")]
    pub palette: Vec<(u8, String)>,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Watch the states of all terminals: an event on this connection reports that some may have changed. Events are
/// delayed, and one may stand for many changes. A program may begin to wait for input without an event.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct WatchTerminals {}

/// Result of watching the states.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct WatchTerminalsReply {
    /// True if the states are watched
    pub success: bool,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An event of the watched states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event_type", rename_all = "snake_case")]
pub enum TerminalsEvent {
    /// The states of some terminals may have changed.
    TerminalsChanged,
}

/// Hold a terminal until this request is cancelled: input without the key is refused in the meantime.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct HoldTerminal {
    /// Terminal to hold
    pub session_id: String,
    /// Key, chosen by the client; a request with the same key continues the hold
    pub hold_key: String,
}

/// Result of holding a terminal.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct HoldTerminalReply {
    /// True if the terminal is held
    pub success: bool,
    /// Id of the terminal, even if the request has its name
    #[serde(default)]
    pub session_id: String,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An event of a watched screen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event_type", rename_all = "snake_case")]
pub enum ScreenEvent {
    /// The screen changed; the first event has the whole screen.
    ScreenChanged(Box<ScreenChange>),
    /// The terminal was closed.
    ScreenClosed,
}

/// Difference from the previous screen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenChange {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
    /// True if `changed` has all rows and replaces the previous ones.
    pub whole: bool,
    /// The rows that differ.
    pub changed: Vec<ScreenRow>,
    /// State of the screen besides its rows.
    pub state: ScreenState,
}

/// State of a screen besides its rows.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenState {
    /// The cursor, unless the program hides it.
    pub cursor: Option<ScreenCursor>,
    /// Default colour of text, as `#rrggbb`.
    pub foreground: String,
    /// Default colour of the background, as `#rrggbb`.
    pub background: String,
    /// Palette colours that the program has changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub palette: Vec<(u8, String)>,
    /// The title that the program set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// True if a full-screen program uses the alternate screen.
    #[serde(default)]
    pub alternate: bool,
    /// True if pasted text is bracketed.
    #[serde(default)]
    pub bracketed_paste: bool,
    /// Mouse events that the program requests: buttons, drags (also movement with a pressed button) or moves.
    pub mouse: Option<String>,
    /// The exit code of the program, once it has exited.
    pub exit_code: Option<i32>,
}

/// Cursor of a screen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenCursor {
    /// Row, counted from 0.
    pub row: u16,
    /// Column, counted from 0.
    pub col: u16,
    /// Shape: block, underline or bar.
    pub shape: String,
}

/// A row of a screen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenRow {
    /// Number of the row, counted from 0 at the top.
    pub row: u16,
    /// Runs of cells with the same style, from left to right. Empty cells are omitted.
    pub runs: Vec<ScreenRun>,
    /// Hyperlinks of runs (OSC 8): the index of the run, and the address in printable ASCII.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<(u16, String)>,
}

/// Adjacent cells of a row with the same style: first column, number of columns, text, and style. Each character takes
/// one column, or two if there are twice as many columns as characters. The text of one cell may have several
/// characters.
///
/// A style is a list of words separated by commas, and empty for plain text. `fN` and `bN` are palette colours of text
/// and background, `f#rrggbb` and `b#rrggbb` other colours. `B` is bold, `D` dim, `I` italic, `S` struck through, `R`
/// reverse video, `H` hidden. `U1` to `U5` are underlines (single, double, curled, dotted, dashed), `uN` and
/// `u#rrggbb` their colour. `W` marks characters of two columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenRun(pub u16, pub u16, pub String, pub String);
