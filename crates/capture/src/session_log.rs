//! Source of a capture: the log of inputs of a terminal, and the output between its entries.

use serde::{Deserialize, Serialize};
use steplatch_protocol::InputRecord;

/// Placeholder for a secret in texts.
pub(crate) const MASK: &str = "••••••";

/// The log of one terminal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionLog {
    /// The id of the terminal.
    pub terminal: String,
    /// The command line of the terminal.
    pub shell: String,
    /// The directory at its start.
    pub directory: String,
    /// The entries, oldest first.
    pub moments: Vec<Moment>,
    /// True for a recording by another program: exit codes are unknown, prompts are guesses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_imported: bool,
}

/// An entry of the log, and the output before the next entry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// The entry.
    pub input: InputRecord,
    /// The output, with the final text of each line.
    pub printed: String,
    /// Output of a command, from its beginning to its end.
    pub output: Option<String>,
}

/// Known facts about the host and the person, to recognise them in texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownFacts {
    /// The home directory.
    pub home: String,
    /// The directory of the client that captures.
    pub directory: String,
    /// The name of the user.
    pub user: String,
    /// The name of the host.
    pub host: String,
    /// Words that differ in another capture of the same procedure, each with its other form.
    pub varying: Vec<(String, String)>,
}
