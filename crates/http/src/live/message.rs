//! Messages of the socket: one JSON object each.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steplatch_protocol::{MouseEvent, PageSecret, ScreenRow, ScreenState};

/// A message from a tab.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum FromTab {
    /// Begins the connection.
    Hello {
        /// Half of the session bound to the origin.
        half: PageSecret,
    },
    /// Watch a terminal, or change the rate.
    Watch {
        terminal: String,
        #[serde(default)]
        rate: Rate,
    },
    /// Stop watching a terminal.
    Leave { terminal: String },
    /// Acknowledge a painted frame.
    Ack { terminal: String, version: u64 },
    /// The tab became visible or hidden. A hidden tab receives no frames.
    Visible { visible: bool },
    /// Receive the lists of terminals, gates and runs whenever they change.
    Lists,
    /// Follow the events of a run, beginning at number `from`.
    Follow { run: String, from: u64 },
    /// Stop following a run.
    Unfollow { run: String },
    /// Hold a terminal under a random key of the tab.
    Hold { terminal: String, key: String },
    /// Release a terminal, with a note to the agent.
    HandBack {
        terminal: String,
        key: String,
        #[serde(default)]
        note: Option<String>,
    },
    /// Type into a terminal. `n` is the name of the input: an input with a repeated name is not typed again.
    Type {
        terminal: String,
        #[serde(default)]
        key: Option<String>,
        n: String,
        #[serde(flatten)]
        input: TypedByTab,
    },
    /// Resize a terminal.
    Size { terminal: String, cols: u16, rows: u16 },
}

/// Typed input: one of these fields.
#[derive(Debug, Default, Deserialize)]
pub(super) struct TypedByTab {
    #[serde(default)]
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) keys: Vec<String>,
    #[serde(default)]
    pub(super) paste: Option<String>,
    #[serde(default)]
    pub(super) mouse: Vec<MouseEvent>,
}

/// A tab's rate of receiving a screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Rate {
    /// At each change.
    #[default]
    Live,
    /// Twice a second.
    Thumb,
}

/// A message to a tab.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum ToTab {
    /// The tab has a session. `daemon` is true if the daemon is running.
    Hello { build: &'static str, daemon: bool },
    /// The daemon started or stopped.
    Daemon { here: bool },
    /// A screen changed.
    Screen(Frame),
    /// A terminal was closed or does not exist.
    Gone { terminal: String, error: Option<String> },
    /// Result of holding a terminal.
    Held { terminal: String, success: bool, error: Option<String> },
    /// Result of releasing a terminal.
    HandedBack { terminal: String, error: Option<String> },
    /// Result of typing an input.
    Typed { terminal: String, n: String, error: Option<String> },
    /// An event of a run that the tab follows.
    Event { event: Value },
    /// The run cannot be followed.
    Unfollowed { run: String, error: Option<String> },
    /// The terminals, the runs that wait at gates, and the newest runs.
    Lists { terminals: Value, waiting: Value, runs: Value },
}

impl ToTab {
    /// Serializes the message for the socket.
    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("a message contains only JSON")
    }
}

/// Changes of a screen since the tab's last frame.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Frame {
    pub(super) terminal: String,
    /// The version that the tab acknowledges.
    pub(super) version: u64,
    pub(super) cols: u16,
    pub(super) rows: u16,
    /// True if `changed` has all rows.
    pub(super) whole: bool,
    pub(super) changed: Vec<ScreenRow>,
    pub(super) state: ScreenState,
}
