//! Verbs about terminals.
//!
//! Six of them are the tools of *terminal-control-mcp*, with the same names and
//! fields; all other fields are optional. A reply with `success: false` and an `error`
//! reports a failure. Only invalid parameters are refused before the verb is executed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::RemoteHostInfo;
use crate::approver::Passphrase;

fn default_shell() -> String {
    "bash".to_owned()
}

const fn default_cols() -> u16 {
    120
}

const fn default_rows() -> u16 {
    40
}

const fn default_true() -> bool {
    true
}

const fn default_timeout() -> f64 {
    10.0
}

/// Open a real terminal with a shell or any other program. Returns when the shell is at its prompt.
///
/// The terminal stays open until exit_terminal, also when this connection ends. Then: run_command for one command,
/// send_input with until for interactive programs.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct OpenTerminal {
    /// Shell to start, with arguments if needed
    #[serde(default = "default_shell")]
    pub shell: String,
    /// Directory to start in (default: the client's)
    pub working_directory: Option<String>,
    /// Environment variables to add
    pub environment: Option<BTreeMap<String, String>>,
    /// Program and arguments to start instead, such as ["python3", "-q"]
    pub command: Option<Vec<String>>,
    /// Columns
    #[serde(default = "default_cols")]
    #[schemars(range(min = 2, max = 1000))]
    pub cols: u16,
    /// Rows
    #[serde(default = "default_rows")]
    #[schemars(range(min = 2, max = 1000))]
    pub rows: u16,
    /// A name to use in place of the session_id
    pub name: Option<String>,
    /// Reuse the terminal or service of the name
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reuse: bool,
    /// Wait for the first prompt before returning
    #[serde(default = "default_true")]
    pub wait_ready: bool,
    /// Remote host: one of hosts of list_terminal_sessions
    pub host: Option<String>,
}

/// Result of opening a terminal.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct OpenTerminalReply {
    /// True if a terminal was opened
    pub success: bool,
    /// Id of the terminal, for all other calls
    #[serde(default)]
    pub session_id: String,
    /// Command line that runs in the terminal
    #[serde(default)]
    pub shell: String,
    /// Address of a page that shows the terminal
    pub web_url: Option<String>,
    /// The screen
    pub screen_content: Option<String>,
    /// Time at which the screen was read (ISO 8601, UTC)
    pub timestamp: Option<String>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
    /// Process id of the program
    pub pid: Option<i32>,
    /// Columns
    pub cols: Option<u16>,
    /// Rows
    pub rows: Option<u16>,
    /// Was open
    pub reused: Option<bool>,
    /// True if the request may or may not have taken effect
    pub outcome_unknown: Option<bool>,
}

/// Part of the screen that a reply returns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScreenMode {
    /// New lines, or for a full-screen program the changed rows, since the input or this client's last read
    Auto,
    /// Lines printed since the input or this client's last read
    New,
    /// The whole screen
    #[default]
    Full,
    /// Nothing
    None,
}

/// Part of the screen that a reply contains, if it is not the whole screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScreenPart {
    /// The output since the input or this client's last read
    New,
    /// The rows that changed since this client's last read, each after its number
    Changed,
    /// The rows with more than frames and spaces, each after its number
    Text,
}

/// Highlighted text on the screen, such as a selected item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HighlightInfo {
    /// Row, counted from 0
    pub row: u16,
    /// The text
    pub text: String,
}

/// Type text or press keys in a terminal. Nothing is appended: end a command with \n to press Enter.
///
/// Text is sent unchanged; JSON escapes reach control characters (\u0003 is Ctrl-C). With until or pattern the call
/// also waits, as await_output does, from the moment of the input; prefer that to two calls. Without, it returns at the
/// next prompt or after 50 ms.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SendInput {
    /// Terminal to type into
    pub session_id: String,
    /// Text to type; \n is Enter, {secret:NAME} a secret, also in run_command
    #[serde(default)]
    pub input_text: String,
    /// Keys to press after the text: enter, tab, escape, up, f5, ctrl-c, click:LABEL …
    pub keys: Option<Vec<String>>,
    /// Action of the mouse, without text and keys; refused if the program would not receive it
    pub mouse: Option<MouseGesture>,
    /// The text is a secret, hidden in all that is returned or stored
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
    /// Wait for so many milliseconds without output (0: no wait)
    #[schemars(range(max = 30_000))]
    pub wait_for_quiet_ms: Option<u32>,
    /// Wait for this regular expression
    pub pattern: Option<String>,
    /// Wait for this, as in await_output
    pub until: Option<AwaitUntil>,
    /// Maximum wait in seconds (default 10)
    #[schemars(range(min = 0.0, max = 3600.0))]
    pub timeout: Option<f64>,
    /// Part of the screen to return
    pub screen: Option<ScreenMode>,
    /// Also end when the program waits for other input
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stop_at_input: bool,
    /// A match ends the wait only once the program reads input: line, shown, hidden or any
    pub reads: Option<InputReading>,
    /// Rows of a match on the screen that are not plain, with their styles, such as `beta: bold`, and the cursor as `▏`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub highlighted: Vec<String>,
}

/// An action of the mouse: a click, a drag, or a turn of the wheel in the middle of the screen.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MouseGesture {
    /// Place to click, or where a drag begins
    pub click: Option<MousePlace>,
    /// Button of the click or drag: left unless given
    pub button: Option<MouseButton>,
    /// Place where a drag ends
    pub drag_to: Option<MousePlace>,
    /// Steps of the wheel: down, or up if negative
    #[schemars(range(min = -100, max = 100))]
    pub wheel: Option<i8>,
}

/// A place on the screen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum MousePlace {
    /// The whole label of a button, menu entry or link, once on the screen
    Label(String),
    /// A cell, counted from 0 like the cursor
    Cell {
        /// The row
        row: u16,
        /// The column
        #[serde(alias = "col")]
        column: u16,
    },
}

/// Button of a mouse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MouseButton {
    /// The left button
    #[default]
    Left,
    /// The middle button
    Middle,
    /// The right button
    Right,
}

impl MouseGesture {
    /// Maximum number of steps of the wheel in one action.
    pub const MAX_WHEEL_STEPS: u8 = 100;

    /// Returns the names of the action's keys, such as `click:OK`; see [`SendInput::keys`].
    ///
    /// # Errors
    /// If the action is neither a click nor a turn of the wheel, or both.
    pub fn key_names(&self) -> Result<Vec<String>, InvalidGesture> {
        let place = |place: &MousePlace| match place {
            MousePlace::Label(label) => format!(":{label}"),
            MousePlace::Cell { row, column } => format!("@{row},{column}"),
        };
        let button = match self.button.unwrap_or_default() {
            MouseButton::Left => "",
            MouseButton::Middle => "middle-",
            MouseButton::Right => "right-",
        };
        match (&self.click, &self.drag_to, self.wheel) {
            (Some(at), None, None) => Ok(vec![format!("{button}click{}", place(at))]),
            (Some(from), Some(to), None) => Ok(vec![
                format!("{button}press{}", place(from)),
                format!("{button}drag{}", place(to)),
                format!("{button}release{}", place(to)),
            ]),
            (None, None, Some(steps)) if steps != 0 && steps.unsigned_abs() <= Self::MAX_WHEEL_STEPS => {
                let name = if steps < 0 { "wheel-up" } else { "wheel-down" };
                Ok(vec![name.to_owned(); usize::from(steps.unsigned_abs())])
            }
            _ => Err(InvalidGesture),
        }
    }
}

/// Error for an action of the mouse that is none of the possible ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "mouse is one of: {{\"click\": \"LABEL\"}} or {{\"click\": {{\"row\": 0, \"column\": 0}}}}, each with drag_to to drag; or \
     {{\"wheel\": STEPS}} from -100 to 100, not 0"
)]
pub struct InvalidGesture;

/// The way in which a program reads typed input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InputReading {
    /// The program reads a whole line, which is shown
    Line,
    /// The program shows what is typed, or reads single keys
    Shown,
    /// The program reads a line without showing it, such as a password
    Hidden,
    /// Any of the above
    Any,
}

/// Output that a reply omits.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OmittedOutput {
    /// Number of bytes between the text and tail
    pub bytes: u64,
    /// Position of the first omitted byte, to continue reading there with content_mode: history
    pub offset: u64,
    /// End of the output, after the omitted bytes
    pub tail: Option<String>,
    /// Position before which output is no longer available
    pub lost_before: Option<u64>,
}

impl OmittedOutput {
    /// Returns the omission of all output before this position, which is no longer held.
    #[must_use]
    pub fn lost(before: u64) -> Self {
        Self { offset: before, lost_before: Some(before), ..Self::default() }
    }
}

/// Result of an input.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SendInputReply {
    /// True if the input was sent
    pub success: bool,
    /// The terminal
    pub session_id: String,
    /// Description of the outcome
    pub message: String,
    /// Changes while a person held the terminal, who has handed it back
    pub handed_back: Option<AbsenceInfo>,
    /// The screen afterwards
    pub screen_content: Option<String>,
    /// Output omitted from screen_content
    pub omitted: Option<OmittedOutput>,
    /// Time at which the screen was read (ISO 8601, UTC)
    pub timestamp: Option<String>,
    /// True if the program is still running
    pub process_running: Option<bool>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
    /// Name of the terminal
    pub name: Option<String>,
    /// End of the wait, if pattern or until requested one
    pub waited: Option<WaitInfo>,
    /// Part of the screen in screen_content, unless it is the whole screen
    pub screen_part: Option<ScreenPart>,
    /// Cursor of a full-screen program
    pub cursor: Option<CursorPosition>,
    /// True if a full-screen program uses the alternate screen
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alternate_screen: bool,
    /// Highlighted text on the screen of a full-screen program
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub highlighted: Vec<HighlightInfo>,
    /// Text that was typed at the shell's prompt and not entered
    pub typed: Option<String>,
    /// Position in the output just before the input, for since of await_output
    pub offset: Option<u64>,
    /// True if a command runs in the foreground, if the shell reports it
    pub busy: Option<bool>,
    /// Exit code of the last command, if the shell reports it
    pub exit_code: Option<i32>,
    /// True if the program waits for typed input; absent if unknown
    pub awaiting_input: Option<bool>,
    /// True if the program reads a line without showing it, such as a password
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub password: bool,
    /// True if the request may or may not have taken effect
    pub outcome_unknown: Option<bool>,
    /// Warning about the typed text
    pub warning: Option<String>,
}

/// End of the wait of an input.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitInfo {
    /// Reason for the end of the wait
    pub reason: AwaitReason,
    /// Text that the pattern matched
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_text: Option<String>,
    /// Text that each group of the pattern matched, group 1 first
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<serde_json::Value>")]
    pub groups: Vec<Option<String>>,
    /// Seconds waited
    pub elapsed_time: f64,
    /// Start position for the next wait: just after the match
    pub offset: u64,
    /// True if the pattern matches only the echo of the input, which does not count
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_echo: bool,
    /// True if the shell is at its prompt and has run no command of the line
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ran_nothing: bool,
}

/// Text that await_output searches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AwaitTarget {
    /// All output, including what scrolled away
    #[default]
    Output,
    /// The screen as drawn, for full-screen programs
    Screen,
}

/// Condition that ends await_output besides a match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AwaitUntil {
    /// Only the exit of the program and the timeout
    #[default]
    Match,
    /// The shell's prompt, or a program that asks for input
    Prompt,
    /// The program asks for input: a question, a prompt, an editor
    Input,
    /// The exit of the program
    Exit,
    /// Half a second without output
    Quiet,
}

/// Number of terminals that must match before a wait of several ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AwaitMode {
    /// The first one
    #[default]
    Any,
    /// All of them
    All,
}

/// Position where a wait begins to search: an offset in the output, `"input"` (the last input into the terminal), or
/// `"last"` (after the last match of the same client, or after its last read).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// Position in the output, as in the `offset` of replies.
    Offset(u64),
    /// After the last match of the same client.
    Last,
    /// The last input into the terminal, even if a later wait has matched.
    Input,
}

impl Serialize for Since {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Offset(offset) => serializer.serialize_u64(*offset),
            Self::Last => serializer.serialize_str("last"),
            Self::Input => serializer.serialize_str("input"),
        }
    }
}

impl<'de> Deserialize<'de> for Since {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let is_offset = |number: f64| number >= 0.0 && number.fract() == 0.0 && number < 9e15;
        match &value {
            serde_json::Value::String(text) if text.trim() == "last" => Ok(Self::Last),
            serde_json::Value::String(text) if text.trim() == "input" => Ok(Self::Input),
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be a whole number")]
            serde_json::Value::Number(number) if number.as_f64().is_some_and(is_offset) => {
                Ok(Self::Offset(number.as_u64().or_else(|| number.as_f64().map(|number| number as u64)).unwrap_or(0)))
            }
            serde_json::Value::String(text) if text.trim().parse::<u64>().is_ok() => {
                Ok(Self::Offset(text.trim().parse().unwrap_or(0)))
            }
            other => {
                Err(serde::de::Error::custom(format!("since must be a position, \"input\" or \"last\", not {other}")))
            }
        }
    }
}

impl JsonSchema for Since {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Since".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"anyOf": [{"type": "integer"}, {"type": "string"}]})
    }
}

/// Reason why await_output returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AwaitReason {
    /// The pattern was found
    Match,
    /// The shell is at its prompt
    Prompt,
    /// The program exited
    Exit,
    /// Another program replaced the shell, as with exec; the shell shows no further prompt
    Replaced,
    /// There was no output for a while
    Quiet,
    /// The program asks for input
    Input,
    /// A run ended or waits at a gate; see run
    Run,
    /// The timeout expired
    Timeout,
    /// The wait failed; error states the reason
    #[default]
    Error,
}

/// Wait until a pattern appears in a terminal's output.
///
/// Begins after your last input or match, in a run after its last input; your echo does not match.
/// Python regular expressions; ^ and $ match at lines. A timeout is success: true with match_text: null.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AwaitOutput {
    /// Terminal to watch
    #[serde(default)]
    pub session_id: String,
    /// Regular expression to wait for; not needed with another until
    #[serde(default)]
    pub pattern: String,
    /// Maximum wait in seconds
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 0.0, max = 3600.0))]
    pub timeout: f64,
    /// Offset to start at, or "input": the last input
    pub since: Option<Since>,
    /// Text to search
    #[serde(default)]
    pub target: AwaitTarget,
    /// Other condition that ends the wait
    #[serde(default)]
    pub until: AwaitUntil,
    /// More patterns
    pub patterns: Option<Vec<String>>,
    /// More terminals to watch
    pub session_ids: Option<Vec<String>>,
    /// Runs to watch, until one ends or asks
    pub run_ids: Option<Vec<String>>,
    /// Terminals that end the wait: one, or all
    #[serde(default)]
    pub mode: AwaitMode,
    /// Part of the screen to return
    pub screen: Option<ScreenMode>,
    /// Also end when the program waits for other input
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stop_at_input: bool,
    /// A match ends the wait only once the program reads input: line, shown, hidden or any
    pub reads: Option<InputReading>,
    /// Rows of a match on the screen that are not plain, with their styles, such as `beta: bold`, and the cursor as `▏`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub highlighted: Vec<String>,
}

/// End of the wait in one of several terminals.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TerminalWait {
    /// The terminal
    pub session_id: String,
    /// Name of the terminal
    pub name: Option<String>,
    /// Reason for the end of the wait
    pub reason: AwaitReason,
    /// Text that the pattern matched
    pub match_text: Option<String>,
    /// Exit code of the program once it has exited, or of the last command at a prompt
    pub exit_code: Option<i32>,
    /// Start position for the next wait
    pub offset: u64,
    /// True if the shell is at its prompt and has run no command of your last line
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ran_nothing: bool,
}

/// A run that ended a wait.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunWait {
    /// The run; get_run returns its result and its gate
    pub run_id: String,
    /// waiting (at a gate), completed, failed or cancelled
    pub status: String,
}

/// End of a wait.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AwaitOutputReply {
    /// True if the wait ended without an error; also true on a timeout
    pub success: bool,
    /// The terminal; with several, the one that ended the wait
    pub session_id: String,
    /// Changes while a person held the terminal, who has handed it back
    pub handed_back: Option<AbsenceInfo>,
    /// Text that the pattern matched; null without a match
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    #[serialize_always]
    pub match_text: Option<String>,
    /// The screen
    #[serde(default)]
    pub screen_content: String,
    /// Output omitted from screen_content
    pub omitted: Option<OmittedOutput>,
    /// Seconds waited
    #[serde(default)]
    pub elapsed_time: f64,
    /// End time of the wait (ISO 8601, UTC)
    #[serde(default)]
    pub timestamp: String,
    /// Error message, with a suggested next step
    pub error: Option<String>,
    /// Text that each group of the pattern matched, group 1 first
    #[serde(default)]
    #[schemars(with = "Vec<serde_json::Value>")]
    pub groups: Vec<Option<String>>,
    /// Reason for the end of the wait
    #[serde(default)]
    pub reason: AwaitReason,
    /// Start position for the next wait: just after the match
    #[serde(default)]
    pub offset: u64,
    /// Exit code of the program once it has exited, or of the last command at a prompt
    pub exit_code: Option<i32>,
    /// True if the timeout expired before another condition ended the wait
    #[serde(default)]
    pub timeout_occurred: bool,
    /// The pattern that matched, if there are several
    pub pattern: Option<String>,
    /// Name of the terminal
    pub name: Option<String>,
    /// The run that ended the wait
    pub run: Option<RunWait>,
    /// With mode all, the end of the wait in each terminal
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub terminals: Vec<TerminalWait>,
    /// Lines around the match, if screen_content omits them
    pub match_context: Option<String>,
    /// Part of the screen in screen_content, unless it is the whole screen
    pub screen_part: Option<ScreenPart>,
    /// Cursor of a full-screen program
    pub cursor: Option<CursorPosition>,
    /// True if a full-screen program uses the alternate screen
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alternate_screen: bool,
    /// Highlighted text on the screen of a full-screen program
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub highlighted: Vec<HighlightInfo>,
    /// Text that was typed at the shell's prompt and not entered
    pub typed: Option<String>,
    /// True if the pattern matches only the echo of the input, which does not count
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_echo: bool,
    /// True if the shell is at its prompt and has run no command of your last line
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ran_nothing: bool,
    /// True if the program waits for typed input; absent if unknown
    pub awaiting_input: Option<bool>,
    /// True if the program reads a line without showing it, such as a password
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub password: bool,
}

/// A period in which a person held a terminal and no other client could type.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AbsenceInfo {
    /// Person who held the terminal
    pub by: String,
    /// Start time (ISO 8601, UTC)
    pub since: String,
    /// End time (ISO 8601, UTC)
    pub until: String,
    /// Note from that person to you
    pub note: Option<String>,
    /// Output that was printed in that period
    pub output: String,
    /// Output omitted from output
    pub omitted: Option<OmittedOutput>,
}

/// Part of a terminal to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContentMode {
    /// The screen as drawn
    #[default]
    Screen,
    /// All output since the terminal was opened
    History,
    /// Output after the last input
    SinceInput,
    /// The last lines of the output
    Tail,
}

/// Format of a screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScreenFormat {
    /// Plain text
    #[default]
    Text,
    /// Text with colour sequences (screen only)
    Ansi,
    /// A `<pre>` with colours (screen only)
    Html,
    /// An image (screen only)
    Png,
}

/// Field of a reply that holds an image. Front-ends may return it as an image instead.
pub const PNG_FIELD: &str = "png";

/// Read a terminal: its screen, or its output by position.
///
/// If output exceeds limit, omitted has its tail; next_offset continues after its head.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetScreenContent {
    /// Terminal to read
    pub session_id: String,
    /// screen, history, since_input or tail
    #[serde(default)]
    pub content_mode: ContentMode,
    /// Lines for tail (default 50)
    pub line_count: Option<u32>,
    /// Position in the output to read history from
    pub offset: Option<u64>,
    /// Maximum number of characters (default 10000)
    #[schemars(range(min = 1, max = 10_000_000))]
    pub limit: Option<u32>,
    /// text, or a screen with its colours
    #[serde(default)]
    pub format: ScreenFormat,
    /// Regular expression: lines of the output to return
    pub search: Option<String>,
    /// Lines around each match of search (default 2)
    #[schemars(range(max = 50))]
    pub context: Option<u32>,
    /// Cut a png to the part of the screen that is used
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub crop: bool,
}

/// A line of the output that matches a search.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SearchMatch {
    /// Position of the line in the output
    pub offset: u64,
    /// The line, with its surrounding lines
    pub text: String,
}

/// Position of the cursor, counted from 0 at the top left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CursorPosition {
    /// Row
    pub row: u16,
    /// Column
    pub col: u16,
    /// True if the program shows the cursor
    pub visible: bool,
}

/// Content of a terminal.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetScreenContentReply {
    /// True if the terminal could be read
    pub success: bool,
    /// The terminal
    pub session_id: String,
    /// True if the program is still running
    pub process_running: bool,
    /// Changes while a person held the terminal, who has handed it back
    pub handed_back: Option<AbsenceInfo>,
    /// The text
    pub screen_content: Option<String>,
    /// Output omitted from screen_content
    pub omitted: Option<OmittedOutput>,
    /// Content mode to use instead, if the text lacks the screen of a full-screen program
    pub hint: Option<String>,
    /// The image in base 64 (RFC 4648), instead of the text. Agents receive it as an image, so no tool has this field.
    #[schemars(skip)]
    pub png: Option<String>,
    /// Time of the read (ISO 8601, UTC)
    pub timestamp: Option<String>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
    /// The cursor
    pub cursor: Option<CursorPosition>,
    /// The title that the program set
    pub title: Option<String>,
    /// Working directory of the program
    pub cwd: Option<String>,
    /// True if a full-screen program uses the alternate screen
    pub alternate_screen: Option<bool>,
    /// True if a command runs in the foreground, if the shell reports it
    pub busy: Option<bool>,
    /// Exit code of the program once it has exited, otherwise of the last command, if the shell reports it
    pub exit_code: Option<i32>,
    /// True if the program waits for typed input; absent if unknown
    pub awaiting_input: Option<bool>,
    /// True if the program reads a line without showing it, such as a password
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub password: bool,
    /// True if output is omitted
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Position at which to continue reading
    pub next_offset: Option<u64>,
    /// Name of the terminal
    pub name: Option<String>,
    /// Lines that match the search
    pub matches: Option<Vec<SearchMatch>>,
    /// Highlighted text on the screen of a full-screen program
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub highlighted: Vec<HighlightInfo>,
    /// Text that was typed at the shell's prompt and not entered
    pub typed: Option<String>,
}

/// List the terminals, also exited ones that can still be read.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListTerminalSessions {}

/// Activity of an AI agent in a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentActivity {
    /// It thinks, answers or executes a tool
    Working,
    /// It waits for a decision, such as a permission
    Asks,
    /// It waits for the next task
    Idle,
}

/// A listed terminal.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SessionInfo {
    /// Id of the terminal
    pub session_id: String,
    /// Command line that runs in the terminal
    pub command: String,
    /// active, or exited
    pub state: String,
    /// Opening time (seconds since 1970)
    pub created_at: f64,
    /// Time of the last input or output (seconds since 1970)
    pub last_activity: f64,
    /// Address of a page that shows the terminal
    pub web_url: Option<String>,
    /// Name of the terminal
    pub name: Option<String>,
    /// The title that the program set
    pub title: Option<String>,
    /// Working directory of the program
    pub cwd: Option<String>,
    /// True if a command runs in the foreground, if the shell reports it
    pub busy: Option<bool>,
    /// True if the program waits for typed input; absent if unknown
    pub awaiting_input: Option<bool>,
    /// True if the program reads a line without showing it, such as a password
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub password: bool,
    /// Program that reads such a line, or relay behind which one asks for a password; `(root)` follows its name if it runs
    /// as another user, as sudo does
    pub password_program: Option<String>,
    /// Request of an agent that a person types such a line
    pub secret_request: Option<SecretRequestInfo>,
    /// AI agent that runs in the foreground, such as claude
    pub agent: Option<String>,
    /// Activity of the agent; absent if its screen does not tell
    pub agent_activity: Option<AgentActivity>,
    /// Number of bells that programs have rung
    #[serde(default, skip_serializing_if = "crate::files::is_zero")]
    pub bell_count: u64,
    /// Exit code, as in get_screen_content
    pub exit_code: Option<i32>,
    /// Columns
    pub cols: u16,
    /// Rows
    pub rows: u16,
    /// Process id of the program
    pub pid: i32,
    /// Client that opened the terminal
    pub opened_by: Option<String>,
    /// Number of attached clients
    #[serde(default)]
    pub attached: usize,
    /// Client that holds the terminal, in which others cannot type
    pub held_by: Option<String>,
    /// Remote host of the terminal; none for this computer
    pub host: Option<String>,
    /// Time since which the remote host is unreachable (ISO 8601, UTC): the listed state is from then, and the terminal
    /// continues there
    pub host_lost_since: Option<String>,
}

impl SessionInfo {
    /// Returns whether `name` is the id or the name of the terminal.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.session_id == name || self.name.as_deref() == Some(name)
    }
}

/// The open terminals, oldest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListTerminalSessionsReply {
    /// Always true
    pub success: bool,
    /// The terminals
    pub sessions: Vec<SessionInfo>,
    /// Number of terminals
    pub total_sessions: usize,
    /// Remote hosts on which terminals can be opened
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<RemoteHostInfo>,
}

/// Request of an agent that a person types a hidden line, such as a password.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretRequestInfo {
    /// Reason of the agent
    pub reason: Option<String>,
    /// Client that waits
    pub requested_by: Option<String>,
    /// Time of the request (ISO 8601, UTC)
    pub since: String,
}

fn default_secret_timeout() -> f64 {
    300.0
}

/// Ask a person to type the password that the program of a terminal reads (`password: true`). You do not learn it.
///
/// Returns once the person has decided; then read the terminal with await_output.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RequestSecret {
    /// Terminal whose program reads the line
    pub session_id: String,
    /// Reason, for the person
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Maximum wait in seconds
    #[serde(default = "default_secret_timeout")]
    #[schemars(range(min = 0.0, max = 3600.0))]
    pub timeout: f64,
}

/// Outcome of a request for a hidden line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecretOutcome {
    /// A person has typed it
    Entered,
    /// A client has typed a hidden line into the terminal itself: `by` names it
    Typed,
    /// A person refuses
    Refused,
    /// No person has answered in time
    Timeout,
    /// The program no longer reads a hidden line, and none was typed
    Gone,
}

/// Result of a request for a hidden line.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RequestSecretReply {
    /// True if a person has typed the line
    pub success: bool,
    /// The terminal
    pub session_id: String,
    /// The outcome
    pub outcome: Option<SecretOutcome>,
    /// The person who decided, or the client that typed
    pub by: Option<String>,
    /// Reason of the person who refuses
    pub reason: Option<String>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// Type a hidden line, such as a password, into a terminal whose program reads one; or refuse the request for it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct EnterSecret {
    /// Terminal whose program reads the line
    pub session_id: String,
    /// The line; without one, the request of an agent is refused
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Passphrase>,
    /// Program that the person was shown (`password_program`). Nothing is typed if another one reads
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Reason of a refusal, for the agent
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Result of typing a hidden line, or of a refusal.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct EnterSecretReply {
    /// True if the line was typed, or the request refused
    pub success: bool,
    /// The terminal
    #[serde(default)]
    pub session_id: String,
    /// Warning about a line that is hidden incompletely
    pub warning: Option<String>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// Close a terminal and end everything that was started in it, background jobs included.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ExitTerminal {
    /// Terminal to close
    pub session_id: String,
    /// Signal to begin with (default: HUP)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Kill at once, without a signal to exit
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// A process that could not be killed, or that may belong to another terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Survivor {
    /// Process id
    pub pid: i32,
    /// Process name
    pub name: String,
    /// True if the process was not killed because another terminal may have started it
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub doubtful: bool,
}

/// Result of closing a terminal.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ExitTerminalReply {
    /// True if the terminal existed
    pub success: bool,
    /// The terminal
    pub session_id: String,
    /// Description of the outcome
    pub message: String,
    /// Exit code of the program
    pub exit_code: Option<i32>,
    /// Remaining processes
    #[serde(default)]
    pub survivors: Vec<Survivor>,
    /// True if the request may or may not have taken effect
    pub outcome_unknown: Option<bool>,
}

fn default_command_timeout() -> f64 {
    30.0
}

/// Run one command in a shell and return exactly what it printed, and its exit code.
///
/// With session_id at the prompt of that terminal's shell, whose directory and variables stay; within ssh, su or a REPL
/// one entry at its prompt, without an exit code. Without session_id in a fresh shell, closed afterwards.
/// Returns at once when the command asks or opens an editor (awaiting_input: true): answer with send_input. A longer
/// one continues: wait with await_output until: prompt.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunCommand {
    /// Terminal to run it in
    pub session_id: Option<String>,
    /// Command, one line or many, in the shell's language
    pub command: String,
    /// Seconds to wait for its end
    #[serde(default = "default_command_timeout")]
    #[schemars(range(min = 0.1, max = 3600.0))]
    pub timeout: f64,
    /// Directory to change to first
    pub working_directory: Option<String>,
    /// In a shell within ssh, su or docker: report exit codes from now on
    pub integrate: Option<bool>,
    /// Most characters of output: its head, with its tail in omitted
    #[schemars(range(min = 1, max = 10_000_000))]
    pub limit: Option<u32>,
    /// Without session_id: remote host, as in open_terminal
    pub host: Option<String>,
    /// Without session_id: variables to set
    pub environment: Option<BTreeMap<String, String>>,
}

/// Result of a command.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunCommandReply {
    /// True if the command finished, even with an exit code other than 0
    pub success: bool,
    /// The terminal; none if a fresh shell was closed
    pub session_id: Option<String>,
    /// Output of the command
    #[serde(default)]
    pub output: String,
    /// Output omitted from output
    pub omitted: Option<OmittedOutput>,
    /// Exit code; null while the command is running, and for an entry in a program that reports none
    #[serde(default)]
    #[schemars(extend("nullable" = true))]
    #[serialize_always]
    pub exit_code: Option<i32>,
    /// True if the timeout expired; the command is still running
    #[serde(default)]
    pub timed_out: bool,
    /// Duration in seconds
    #[serde(default)]
    pub elapsed_time: f64,
    /// Error message, with a suggested next step
    pub error: Option<String>,
    /// Position in the terminal's output where the output of the command begins
    pub offset: Option<u64>,
    /// True if output is omitted
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Name of the terminal
    pub name: Option<String>,
    /// True if the command waits for input; it is still running
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaiting_input: bool,
    /// True if the command reads a line without showing it, such as a password
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub password: bool,
    /// Screen of a full-screen program that waits for input, such as an editor
    pub screen_content: Option<String>,
    /// True if the request may or may not have taken effect
    pub outcome_unknown: Option<bool>,
    /// True if the command finished in a shell that reports no exit codes, so it may have failed; integrate: true makes
    /// the shell report them
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exit_code_unknown: bool,
}

/// Read variables of the live shell in a terminal, exported or not, without a trace on its screen.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetVariables {
    /// Terminal whose shell to query; it must be at its prompt
    pub session_id: String,
    /// Names of variables
    pub names: Vec<String>,
}

/// A variable of a shell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VariableInfo {
    /// Value; secrets are hidden
    pub value: String,
    /// True if programs inherit the variable
    pub exported: bool,
}

/// Variables that the shell reported.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetVariablesReply {
    /// True if the shell could be queried
    pub success: bool,
    /// Variables by name; null for a variable that is not set
    #[serde(default)]
    pub variables: BTreeMap<String, Option<VariableInfo>>,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Set variables of the live shell in a terminal, without a trace on its screen.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SetVariables {
    /// Terminal whose shell to change; it must be at its prompt
    pub session_id: String,
    /// Values by name
    pub variables: BTreeMap<String, String>,
    /// Export the variables to programs that the shell starts
    #[serde(default = "default_true")]
    pub export: bool,
}

/// Result of setting variables.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SetVariablesReply {
    /// True if all variables were set
    pub success: bool,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Change the size of a terminal. Its program is notified.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ResizeTerminal {
    /// Terminal to resize
    pub session_id: String,
    /// Columns
    #[schemars(range(min = 2, max = 1000))]
    pub cols: u16,
    /// Rows
    #[schemars(range(min = 2, max = 1000))]
    pub rows: u16,
}

/// Result of resizing.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ResizeTerminalReply {
    /// True if the terminal now has that size
    pub success: bool,
    /// The terminal
    pub session_id: String,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Send a signal to the program in the foreground of a terminal.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SendSignal {
    /// Terminal whose program to signal
    pub session_id: String,
    /// INT, TERM, HUP, QUIT, KILL, STOP, CONT, USR1, USR2 or WINCH
    pub signal: String,
}

/// Result of signalling.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SendSignalReply {
    /// True if the signal was sent
    pub success: bool,
    /// The terminal
    pub session_id: String,
    /// Description of the outcome
    pub message: String,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Attach to a terminal: returns its screen, and sends its output as events on this connection.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AttachTerminal {
    /// Terminal to attach to
    pub session_id: String,
    /// Key, chosen by the client, to hold the terminal: others cannot type until the terminal is handed back or the
    /// client disconnects
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_key: Option<String>,
    /// Hide secrets in the output: for clients that store or forward it
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub masked: bool,
}

/// Initial screen for an attached client.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AttachTerminalReply {
    /// True if the terminal exists
    pub success: bool,
    /// Id of the terminal, even if the request has its name
    pub session_id: String,
    /// Escape sequences that draw the screen
    #[serde(default)]
    pub snapshot: String,
    /// Columns
    #[serde(default)]
    pub cols: u16,
    /// Rows
    #[serde(default)]
    pub rows: u16,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Hand back a held terminal.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct HandBackTerminal {
    /// Terminal to hand back
    pub session_id: String,
    /// Key with which the terminal is held
    pub hold_key: String,
    /// Note to the program that types into the terminal next
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Result of handing back.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct HandBackTerminalReply {
    /// True if no client holds the terminal with that key any more
    pub success: bool,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An event for an attached client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event_type", rename_all = "snake_case")]
pub enum TerminalEvent {
    /// The program wrote output.
    TerminalOutput {
        /// The bytes in base 64 (RFC 4648); they may not be text.
        bytes: String,
    },
    /// The client fell behind; the current screen replaces the omitted output.
    TerminalRedrawn {
        /// Escape sequences that draw the screen.
        snapshot: String,
    },
    /// The size of the terminal changed.
    TerminalResized {
        /// Columns.
        cols: u16,
        /// Rows.
        rows: u16,
    },
    /// The program exited; no event follows.
    TerminalEnded {
        /// Exit code, unless the terminal was closed.
        exit_code: Option<i32>,
    },
}

/// Write unchanged bytes to a terminal, as a person's own terminal produced them.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct WriteTerminal {
    /// Terminal to write to
    pub session_id: String,
    /// The bytes, in base 64 (RFC 4648)
    #[serde(default)]
    pub bytes: String,
    /// Keys by name, typed before the bytes
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Text that a person pasted, sent before the keys and bytes; bracketed if the program requests it
    pub paste: Option<String>,
    /// Mouse actions of a person, sent after the keys; omitted for a program that does not request them
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mouse: Vec<MouseEvent>,
    /// Key with which the terminal is held, if it is held
    pub hold_key: Option<String>,
}

/// A mouse action at a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MouseEvent {
    /// The action
    pub action: MouseAction,
    /// Button: 0 left, 1 middle, 2 right
    #[serde(default)]
    pub button: u8,
    /// Column of the cell, counted from 0
    pub col: u16,
    /// Row of the cell, counted from 0
    pub row: u16,
    /// True if shift was pressed
    #[serde(default)]
    pub shift: bool,
    /// True if alt was pressed
    #[serde(default)]
    pub alt: bool,
    /// True if ctrl was pressed
    #[serde(default)]
    pub ctrl: bool,
}

/// Kind of mouse action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MouseAction {
    /// A button is pressed.
    Press,
    /// A button is released.
    Release,
    /// The mouse moves while a button is pressed.
    Drag,
    /// The mouse moves.
    Move,
    /// The wheel is turned up by one step.
    WheelUp,
    /// The wheel is turned down by one step.
    WheelDown,
}

/// Result of writing.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct WriteTerminalReply {
    /// True if the bytes were accepted
    pub success: bool,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
