//! Verbs about other machines on which terminals can be opened.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// List the other machines on which terminals can be opened, and how they are reached.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListHosts {}

/// The machines, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListHostsReply {
    /// Always true
    pub success: bool,
    /// The machines
    #[serde(default)]
    pub hosts: Vec<RemoteHostInfo>,
}

/// Another machine on which terminals can be opened.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RemoteHostInfo {
    /// Its name
    pub name: String,
    /// Its destination, as ssh takes it
    pub ssh: String,
    /// idle (not needed yet), connecting, connected, or lost
    pub state: String,
    /// Time since which it is not connected (ISO 8601, UTC)
    pub since: Option<String>,
    /// Reason for the missing connection, and what to do
    pub error: Option<String>,
    /// Version of the terminal host there, once it was reached
    pub version: Option<String>,
    /// Open terminals there, as they were last seen
    #[serde(default)]
    pub terminals: usize,
}

/// Connect to a machine now, and start its terminal host if there is none.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CheckHost {
    /// Its name
    pub host: String,
    /// Its destination, if it was just added to the configuration: first waits until the daemon has read it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh: Option<String>,
    /// Maximum wait in seconds
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 600))]
    pub timeout_seconds: u32,
}

fn default_timeout() -> u32 {
    60
}

/// Ask a person a question of ssh. Only an ssh that the daemon started can.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AskSshQuestion {
    /// Ticket of the connection
    pub ticket: String,
    /// The question, in the words of ssh
    pub question: String,
}

/// The answer of the person.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AskSshQuestionReply {
    /// True if it was answered
    pub success: bool,
    /// The answer
    pub answer: Option<String>,
    /// Reason for a missing answer
    pub error: Option<String>,
}

/// The machine, or why it is not reached.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckHostReply {
    /// True if it is connected
    pub success: bool,
    /// The machine
    pub host: Option<RemoteHostInfo>,
    /// Run that asks a person what ssh asks. The connection waits for the answer
    pub question: Option<String>,
    /// The error and what to do
    pub error: Option<String>,
}
