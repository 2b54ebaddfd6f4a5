//! Verbs about other machines on which terminals can be opened.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// List the remote hosts on which terminals can be opened, with the state of their connections.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListHosts {}

/// The remote hosts, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListHostsReply {
    /// Always true
    pub success: bool,
    /// The remote hosts
    #[serde(default)]
    pub hosts: Vec<RemoteHostInfo>,
}

/// A remote host on which terminals can be opened.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RemoteHostInfo {
    /// Name of the host
    pub name: String,
    /// Destination for ssh
    pub ssh: String,
    /// idle (not needed yet), connecting, connected, or lost
    pub state: String,
    /// Time since which the connection is missing (ISO 8601, UTC)
    pub since: Option<String>,
    /// Reason for the missing connection, with a suggested next step
    pub error: Option<String>,
    /// Version of its terminal host, known after the first connection
    pub version: Option<String>,
    /// Number of open terminals at the last report
    #[serde(default)]
    pub terminals: usize,
}

/// Connect to a remote host now, and start its terminal host if none is running.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CheckHost {
    /// Name of the host
    pub host: String,
    /// Destination for ssh, for a host that was just added to the configuration: first waits until the daemon has read
    /// it
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

/// Ask a person a question from ssh. Only for an ssh process that the daemon started.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AskSshQuestion {
    /// Ticket of the connection
    pub ticket: String,
    /// Question from ssh
    pub question: String,
}

/// Ask a person for the password that a program reads. Only for an askpass program that sudo, ssh or git started.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AskPassword {
    /// Prompt of the program
    pub prompt: String,
}

/// Answer of a person to a question of a program.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct QuestionReply {
    /// True if the person answered
    pub success: bool,
    /// The answer
    pub answer: Option<String>,
    /// Reason for a missing answer
    pub error: Option<String>,
}

/// The remote host, or the error.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckHostReply {
    /// True if the host is connected
    pub success: bool,
    /// The remote host
    pub host: Option<RemoteHostInfo>,
    /// Id of the run that asks a person the question from ssh. The connection waits for the answer
    pub question: Option<String>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}
