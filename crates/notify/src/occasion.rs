//! Occasions: the reasons to notify a person.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use steplatch_clock::Timestamp;

/// The kind of an occasion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A gate waits for a person.
    Gate,
    /// A program in a terminal reads a password, and no client is attached.
    Password,
    /// An AI agent in a terminal asks for a decision, and no client is attached.
    AgentAsks,
    /// A person holds a terminal, so that nothing else can type there.
    Held,
    /// A remote host is not reachable.
    HostLost,
    /// A schedule could not start its last run.
    ScheduleFailed,
    /// A service has failed, and is not started again.
    ServiceFailed,
    /// A run failed.
    RunFailed,
    /// A run completed.
    RunCompleted,
    /// A run completed after a patch of its machine.
    RunRepaired,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Gate,
        Self::Password,
        Self::AgentAsks,
        Self::Held,
        Self::HostLost,
        Self::ScheduleFailed,
        Self::ServiceFailed,
        Self::RunFailed,
        Self::RunCompleted,
        Self::RunRepaired,
    ];

    /// Returns the name in settings and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gate => "gate",
            Self::Password => "password",
            Self::AgentAsks => "agent_asks",
            Self::Held => "held",
            Self::HostLost => "host_lost",
            Self::ScheduleFailed => "schedule_failed",
            Self::ServiceFailed => "service_failed",
            Self::RunFailed => "run_failed",
            Self::RunCompleted => "run_completed",
            Self::RunRepaired => "run_repaired",
        }
    }

    /// Returns whether the occasion is about a run.
    #[must_use]
    pub fn is_about_run(self) -> bool {
        matches!(self, Self::Gate | Self::RunFailed | Self::RunCompleted | Self::RunRepaired)
    }

    /// Returns whether the occasion is about a terminal.
    #[must_use]
    pub fn is_about_terminal(self) -> bool {
        matches!(self, Self::Password | Self::AgentAsks | Self::Held)
    }
}

/// Names for the subject of an occasion.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Subject {
    /// Name of the workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Id of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Id of the gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate_id: Option<String>,
    /// Groups of approvers of the gate, each with the seconds until its notification.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub approvers: BTreeMap<String, u64>,
    /// Id of the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_id: Option<String>,
    /// Name of the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal: Option<String>,
    /// Name of the remote host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Name of the schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Name of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Client that holds the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Prompt of the gate, with secrets masked. Present only if a rule includes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// An occasion as seen at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Kind of the occasion.
    pub kind: Kind,
    /// Identity of the subject among occasions of the same kind: the id of a gate, terminal or run.
    pub key: String,
    /// Beginning of the occasion. `None` if unknown; the occasion then begins with the first observation.
    pub since: Option<Timestamp>,
    /// Names for the message.
    pub subject: Subject,
}

/// An occasion with its beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occasion {
    /// Kind of the occasion.
    pub kind: Kind,
    /// See [`Observation::key`].
    pub key: String,
    /// Beginning of the occasion.
    pub since: Timestamp,
    /// Names for the message.
    pub subject: Subject,
}

impl Occasion {
    /// Returns the identity of the occasion, the same over restarts of the daemon.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}:{}:{}", self.kind.name(), self.key, self.since.0)
    }
}
