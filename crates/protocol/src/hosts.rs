//! Verbs about other machines on which terminals can be opened.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// List the other machines on which terminals can be opened, with the state of their connections.
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
    /// Its destination for ssh
    pub ssh: String,
    /// idle (not needed yet), connecting, connected, or lost
    pub state: String,
    /// Start time of the missing connection (ISO 8601, UTC)
    pub since: Option<String>,
    /// Reason for the missing connection, and what to do
    pub error: Option<String>,
    /// Version of its terminal host, after the first connection
    pub version: Option<String>,
    /// Number of its open terminals at the last report
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

/// Ask a person a question of ssh. Only for an ssh process that the daemon started.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AskSshQuestion {
    /// Ticket of the connection
    pub ticket: String,
    /// The question of ssh
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

/// The machine, or the error.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckHostReply {
    /// True if it is connected
    pub success: bool,
    /// The machine
    pub host: Option<RemoteHostInfo>,
    /// Run with the question of ssh for a person. The connection waits for the answer
    pub question: Option<String>,
    /// The error and what to do
    pub error: Option<String>,
}
