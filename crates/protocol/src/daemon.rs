//! Verbs about the daemon itself.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Network address of the person who makes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Begin a connection: identify the client, and pass the context that its terminals inherit.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Hello {
    /// Newest version of the contract that the client supports
    pub protocol_version: u32,
    /// Client name, shown as opened_by
    #[serde(default)]
    pub client: String,
    /// Working directory of the client: terminals start there, and relative paths begin there
    pub cwd: Option<String>,
    /// Environment of the client, which its terminals inherit
    pub environment: Option<BTreeMap<String, String>>,
    /// True if a person makes the requests, not a program on its own
    #[serde(default)]
    pub person: bool,
    /// Network address of that person, if the client is a server that acts for them
    #[schemars(with = "Option<String>")]
    pub peer: Option<SocketAddr>,
    /// Surface that the person uses, recorded with their answers: cli, commander, mcp
    pub surface: Option<String>,
}

/// Environment variables with access tokens of this program, which its terminals and commands do not inherit.
pub const TOKEN_VARIABLES: [&str; 2] = ["STEPLATCH_HTTP_TOKEN", "WORKFLOWS_API_TOKEN"];

impl Hello {
    /// Returns the hello of the program `client`, with the working directory and environment of this process.
    #[must_use]
    pub fn for_process(client: &str) -> Self {
        // JSON cannot represent variables that are not UTF-8; terminals rarely need them.
        let environment: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(key, _)| !TOKEN_VARIABLES.contains(&key.as_str()))
            .collect();
        Self {
            protocol_version: crate::PROTOCOL_VERSION,
            client: client.to_owned(),
            cwd: std::env::current_dir().ok().map(|directory| directory.display().to_string()),
            environment: Some(environment),
            ..Self::default()
        }
    }
}

/// Identity of the daemon.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct HelloReply {
    /// Version of the contract that this connection uses
    pub protocol_version: u32,
    /// Version of the daemon
    pub version: String,
    /// Process id of the daemon
    pub pid: u32,
}

/// Report the status of the daemon.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DaemonStatus {}

/// Status of the daemon.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonStatusReply {
    /// Process id
    pub pid: u32,
    /// Version
    pub version: String,
    /// Version of the contract
    pub protocol_version: u32,
    /// Socket on which the daemon listens
    pub socket: String,
    /// State directory
    pub state_dir: String,
    /// Number of open terminals
    pub terminals: usize,
    /// Number of unfinished runs
    pub runs: usize,
    /// Number of connected clients
    pub clients: usize,
    /// Seconds since the daemon started
    pub uptime_seconds: f64,
    /// Terminal hosts of this computer
    #[serde(default)]
    pub hosts: Vec<HostInfo>,
}

/// A terminal host: a process that keeps terminals.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostInfo {
    /// Process id
    pub pid: u32,
    /// Version
    pub version: String,
    /// Number of open terminals
    pub terminals: usize,
    /// current, older (keeps its terminals and opens no new ones), foreign (other protocol version) or silent (does not
    /// respond)
    pub state: String,
    /// Consequence for its terminals, with a suggested next step; none for a current host
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// Returns the consequence of a terminal host's state for its terminals, and what to do. `None` for a current host.
#[must_use]
pub fn host_advice(state: &str) -> Option<&'static str> {
    match state {
        "older" => Some("older version: keeps its terminals, opens no new ones, and exits after its last terminal"),
        "silent" => Some("does not respond: its terminals cannot be reached; stop it with: steplatch daemon stop"),
        "foreign" => Some(
            "protocol version differs: its terminals keep running but cannot be reached; stop it with: steplatch daemon stop",
        ),
        _ => None,
    }
}

/// Stop the daemon. Its terminals are closed unless keep_terminals is set, and its runs are suspended.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct StopDaemon {
    /// Leave the terminals to the next daemon
    #[serde(default)]
    pub keep_terminals: bool,
}

/// Numbers of terminals and runs that the stop affects.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct StopDaemonReply {
    /// Process id of the stopping daemon
    pub pid: u32,
    /// Number of local terminals that are closed, or kept
    pub terminals: usize,
    /// Number of terminals on remote hosts, which stay open
    #[serde(default)]
    pub remote_terminals: usize,
    /// Number of runs that the next daemon continues
    #[serde(default)]
    pub runs: usize,
}
