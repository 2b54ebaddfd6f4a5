//! Verbs about the services of a project: programs that stay up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Start services of the project, with those that they need, and wait until they are ready. A service that runs is left
/// alone.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct StartServices {
    /// Names of the services (default: all of the project)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Return at once, without waiting
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detach: bool,
}

/// Stop services of the project. Those that need them are stopped first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct StopServices {
    /// Names of the services (default: all of the project)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// Stop services and start them again, as they are declared now.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RestartServices {
    /// Names of the services (default: all of the project that run)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// List the services of the project, with their states and ports.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListServices {
    /// Also list the running services of other projects
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

/// Services with their states.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServicesReply {
    /// True if the services are in the requested state
    pub success: bool,
    /// The services
    #[serde(default)]
    pub services: Vec<ServiceInfo>,
    /// Problems of the declarations
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// State of a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// Not started
    #[default]
    Down,
    /// Waiting for the services that it needs
    Waiting,
    /// Started, but not ready yet
    Starting,
    /// Ready
    Ready,
    /// Running; its declaration has no condition to be ready
    Running,
    /// Running without output for longer than declared
    Stalled,
    /// Ended, and started again after a pause
    BackingOff,
    /// Being stopped
    Stopping,
    /// Ended by itself; its declaration does not restart it
    Ended,
    /// Not running, and not started again; reason states the cause
    Failed,
}

impl ServiceState {
    /// Returns the name in replies.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Stalled => "stalled",
            Self::BackingOff => "backing_off",
            Self::Stopping => "stopping",
            Self::Ended => "ended",
            Self::Failed => "failed",
        }
    }

    /// Returns true if others can use the service.
    #[must_use]
    pub fn is_up(self) -> bool {
        matches!(self, Self::Ready | Self::Running | Self::Stalled)
    }
}

/// A service.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceInfo {
    /// Name
    pub name: String,
    /// Directory of the project
    pub project: String,
    /// State
    pub state: ServiceState,
    /// Purpose
    pub description: Option<String>,
    /// Terminal of the service
    pub session_id: Option<String>,
    /// Name of the terminal
    pub terminal: Option<String>,
    /// Process id of the program
    pub pid: Option<i32>,
    /// TCP ports on which its processes listen
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// Time of the last start (ISO 8601, UTC)
    pub started_at: Option<String>,
    /// Number of restarts since it last worked for a minute
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restarts: u32,
    /// Exit code of its last end
    pub exit_code: Option<i32>,
    /// Reason of its last end, or of its failure
    pub reason: Option<String>,
}

// serde requires this signature.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u32) -> bool {
    *count == 0
}
