//! Verbs about the daemon itself.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Network address of the person who makes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Begin a connection: identify yourself, and pass the context that your terminals inherit.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Hello {
    /// The newest version of the contract that the client speaks
    pub protocol_version: u32,
    /// The client's name, shown as opened_by
    #[serde(default)]
    pub client: String,
    /// The client's folder: where terminals start, and which files are meant
    pub cwd: Option<String>,
    /// The client's environment, which terminals that it opens inherit
    pub environment: Option<BTreeMap<String, String>>,
    /// A person makes the requests, not a program on its own
    #[serde(default)]
    pub person: bool,
    /// The address from which that person is served over the network, where the client is a server that acts for them
    #[schemars(with = "Option<String>")]
    pub peer: Option<SocketAddr>,
    /// Surface that the person uses, recorded with their answers: cli, commander, mcp
    pub surface: Option<String>,
}

/// Variables with tokens of this program, which its terminals do not inherit.
const TOKEN_VARIABLES: [&str; 2] = ["STEPLATCH_HTTP_TOKEN", "WORKFLOWS_API_TOKEN"];

impl Hello {
    /// Returns the hello of the program `client`, with the directory and the environment of this process.
    #[must_use]
    pub fn of_process(client: &str) -> Self {
        // JSON cannot hold variables that are not UTF-8; terminals rarely need them.
        let environment: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(key, _)| !TOKEN_VARIABLES.contains(&key.as_str()))
            .collect();
        Self {
            protocol_version: crate::PROTOCOL_VERSION,
            client: client.to_owned(),
            cwd: std::env::current_dir().ok().map(|folder| folder.display().to_string()),
            environment: Some(environment),
            ..Self::default()
        }
    }
}

/// Identity of the daemon.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct HelloReply {
    /// The version of the contract that is spoken from now on
    pub protocol_version: u32,
    /// The daemon's version
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
    /// Socket on which it listens
    pub socket: String,
    /// Folder of its state
    pub state_dir: String,
    /// Open terminals
    pub terminals: usize,
    /// Runs that have not ended
    pub runs: usize,
    /// Connected clients
    pub clients: usize,
    /// Seconds since it started
    pub uptime_seconds: f64,
    /// The processes that keep the terminals
    #[serde(default)]
    pub hosts: Vec<HostInfo>,
}

/// A process that keeps terminals.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostInfo {
    /// Process id
    pub pid: u32,
    /// Version
    pub version: String,
    /// Open terminals
    pub terminals: usize,
    /// current, older (keeps its terminals and opens no new ones), foreign (speaks another version) or silent (does not answer)
    pub state: String,
    /// Consequence for its terminals and what to do; none for a current one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// Returns the consequence of a terminal host's state for its terminals, and what to do. `None` for a current host.
#[must_use]
pub fn host_advice(state: &str) -> Option<&'static str> {
    match state {
        "older" => Some("older version: keeps its terminals, opens no new ones, and ends with its last terminal"),
        "silent" => Some("does not answer: its terminals cannot be reached; end it with: steplatch daemon stop"),
        "foreign" => Some(
            "protocol version differs: its terminals keep running but cannot be reached; end it with: steplatch daemon stop",
        ),
        _ => None,
    }
}

/// Stop the daemon. Its terminals are closed, unless they are to be kept, and its runs end.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct StopDaemon {
    /// Leave the terminals to the next daemon
    #[serde(default)]
    pub keep_terminals: bool,
}

/// Parts that the stop ends or leaves.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct StopDaemonReply {
    /// Process id of the daemon that stops
    pub pid: u32,
    /// Terminals of this machine that are closed, or kept
    pub terminals: usize,
    /// Terminals on other machines, which stay open
    #[serde(default)]
    pub remote_terminals: usize,
    /// Runs that the next daemon continues
    #[serde(default)]
    pub runs: usize,
}
