//! The messages of the socket: JSON, one object each.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steplatch_protocol::{MouseEvent, PageSecret, ScreenRow, ScreenState};

/// A message of a tab.
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
    /// Watch it no more.
    Leave { terminal: String },
    /// The page has painted a frame.
    Ack { terminal: String, version: u64 },
    /// The tab is visible, or hidden: a hidden one receives no frames.
    Visible { visible: bool },
    /// Receive the lists of terminals, gates and runs whenever they change.
    Lists,
    /// Follow the events of a run from a number on.
    Follow { run: String, from: u64 },
    /// Follow it no more.
    Unfollow { run: String },
    /// Hold a terminal, under a key that the tab has drawn.
    Hold { terminal: String, key: String },
    /// Give it back, with a note to the agent.
    HandBack {
        terminal: String,
        key: String,
        #[serde(default)]
        note: Option<String>,
    },
    /// Type into it. `n` names the input: the same one again types nothing.
    Type {
        terminal: String,
        #[serde(default)]
        key: Option<String>,
        n: String,
        #[serde(flatten)]
        input: TypedByTab,
    },
    /// Give it another size.
    Size { terminal: String, cols: u16, rows: u16 },
}

/// Typed input: one of these.
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

/// Rate at which a tab wants to see a screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Rate {
    /// As it changes.
    #[default]
    Live,
    /// Twice a second.
    Thumb,
}

/// A message to a tab.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum ToTab {
    /// The tab has a session. `daemon` is true if the daemon runs.
    Hello { build: &'static str, daemon: bool },
    /// The daemon came or went.
    Daemon { here: bool },
    /// A screen changed.
    Screen(Frame),
    /// A terminal is closed, or there is none.
    Gone { terminal: String, error: Option<String> },
    /// The tab holds a terminal now, or why not.
    Held { terminal: String, success: bool, error: Option<String> },
    /// The tab has released a terminal, or why not.
    HandedBack { terminal: String, error: Option<String> },
    /// The terminal received an input, or why not.
    Typed { terminal: String, n: String, error: Option<String> },
    /// An event of a run that the tab follows.
    Event { event: Value },
    /// Following a run is impossible.
    Unfollowed { run: String, error: Option<String> },
    /// The terminals, the runs that wait at gates, and the newest runs.
    Lists { terminals: Value, waiting: Value, runs: Value },
}

impl ToTab {
    /// Returns the message in its sent form.
    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("a message has only JSON in it")
    }
}

/// Difference of a screen from its last frame.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Frame {
    pub(super) terminal: String,
    /// The tab acknowledges this.
    pub(super) version: u64,
    pub(super) cols: u16,
    pub(super) rows: u16,
    /// True if `changed` has all rows.
    pub(super) whole: bool,
    pub(super) changed: Vec<ScreenRow>,
    pub(super) state: ScreenState,
}
