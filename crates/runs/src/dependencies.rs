//! The parts of the daemon that runs use.

use std::sync::Arc;

use steplatch_access::{Approver, Passkeys, Redactor};
use steplatch_clock::Clock;
use steplatch_ids::RunId;
use steplatch_project::{Projects, Workers, Workflows};
use steplatch_protocol::EngineKind;
use steplatch_services::RemoteServices;
use steplatch_sessions::{Sessions, ShutdownMode};
use tokio::sync::watch;

use crate::nodes::{ExecutorFactory, Nodes};

/// Listener that is notified when a run has changed.
pub trait RunListener: std::fmt::Debug + Send + Sync {
    /// Handles a change of a run. Must not block.
    fn run_changed(&self, run: &RunId);
}

/// Chooses the engine for runs that specify none.
pub trait EnginePolicy: std::fmt::Debug + Send + Sync {
    /// Returns the engine for a run that specifies none.
    fn default_engine(&self) -> EngineKind;
}

/// The dependencies of runs.
#[derive(Debug, Clone)]
pub struct RunDependencies {
    /// Terminals that actions use.
    pub sessions: Sessions,
    /// Saved workflows.
    pub workflows: Workflows,
    /// Executes functions.
    pub workers: Workers,
    /// Calls of nodes that are not runs.
    pub nodes: Arc<Nodes>,
    /// The declarations of callers' projects.
    pub projects: Projects,
    /// Creates the executors of nodes.
    pub executors: ExecutorFactory,
    /// Checks people's answers.
    pub approver: Arc<Approver>,
    /// The keys that sign answers.
    pub passkeys: Arc<Passkeys>,
    /// Remote services.
    pub remotes: RemoteServices,
    /// Values to redact.
    pub secrets: Arc<Redactor>,
    /// Notified whenever a run has changed.
    pub listener: Arc<dyn RunListener>,
    /// Stops the daemon.
    pub stop: watch::Sender<Option<ShutdownMode>>,
    /// Clock of runs.
    pub clock: Clock,
    /// Engine policy for runs that specify no engine.
    pub engine_policy: Arc<dyn EnginePolicy>,
}
