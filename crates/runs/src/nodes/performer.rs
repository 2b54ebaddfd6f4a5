//! Performs nodes for one caller: for calls of nodes, and for runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steplatch_access::{Caller, NamedSecrets, add_askpass_without_terminal};
use steplatch_nodes::{Call, ErrorType, Node, NodeEnvironment, NodeKind, NodeResult, Resolving};
use steplatch_sessions::Sessions;
use steplatch_terminal::Programs;
use tokio::sync::Semaphore;

use super::host_shells::HostShells;
use super::panes::PtyNodes;

/// Maximum number of calls in progress in the whole daemon; further calls wait for a permit.
const MAX_CONCURRENT_CALLS: usize = 64;

/// Factory of the executors of nodes. The executors share programs, secrets and call permits. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ExecutorFactory {
    programs: Programs,
    named_secrets: Arc<dyn NamedSecrets>,
    call_permits: Arc<Semaphore>,
    pub(super) sessions: Sessions,
}

/// Performs the kinds of nodes that make no calls of other nodes: everything but functions and graphs. The MCP servers
/// that it starts run until [`Self::close`].
pub(crate) struct NodeExecutor {
    nodes: steplatch_nodes::Nodes,
    call_permits: Arc<Semaphore>,
    caller: Arc<Caller>,
    panes: Arc<PtyNodes>,
    resolved: Resolved,
}

/// The values of the secrets read so far.
type Resolved = Arc<Mutex<BTreeSet<String>>>;

/// Secrets by reference, of one caller.
struct CallerSecrets {
    caller: Arc<Caller>,
    named_secrets: Arc<dyn NamedSecrets>,
    /// The owner of the calls, such as a run.
    owner: String,
    resolved: Resolved,
    /// The values that are used again, by name.
    kept: tokio::sync::Mutex<BTreeMap<String, String>>,
}

impl steplatch_nodes::Secrets for CallerSecrets {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        Box::pin(async move {
            // Calls in parallel wait for the first one instead of asking a person twice.
            let mut kept = self.kept.lock().await;
            if let Some(value) = kept.get(name) {
                return Ok(value.clone());
            }
            let purpose = format!("for {}", self.owner);
            let secret = self.named_secrets.resolve(&self.caller, name, &purpose).await;
            let secret = secret.map_err(|error| error.to_string())?;
            self.resolved.lock().insert(secret.value.clone());
            if secret.is_kept_in_run {
                kept.insert(name.to_owned(), secret.value.clone());
            }
            Ok(secret.value)
        })
    }
}

/// Time limit for reaping an exited child of the daemon: a worker, a terminal host, a token program. The component that
/// started the child waits for it, so reaping takes milliseconds.
const REAP_TIMEOUT: Duration = Duration::from_secs(5);

impl ExecutorFactory {
    /// Creates a factory. `named_secrets` are the secrets that calls refer to.
    pub fn new(sessions: Sessions, named_secrets: Arc<dyn NamedSecrets>) -> Self {
        Self {
            programs: Programs::new(),
            named_secrets,
            call_permits: Arc::new(Semaphore::new(MAX_CONCURRENT_CALLS)),
            sessions,
        }
    }

    /// Returns the secrets that definitions refer to.
    pub(crate) fn named_secrets(&self) -> &dyn NamedSecrets {
        &*self.named_secrets
    }

    /// Makes this process the parent of processes that programs of nodes leave behind. Then such processes never count
    /// as a person's, regardless of their environment.
    ///
    /// # Errors
    /// If the system does not allow a process to adopt its descendants or to be notified of their exit.
    pub fn adopt_orphans(&self) -> std::io::Result<()> {
        self.programs.adopt_orphans_beside_others(REAP_TIMEOUT)
    }

    /// Terminates the processes that an earlier daemon left for a step.
    pub(crate) async fn end_left(&self, step: &str) {
        for survivor in self.programs.end_left(step).await {
            tracing::warn!(
                step,
                pid = survivor.pid,
                name = survivor.name,
                "failed to terminate a program of the last daemon"
            );
        }
    }

    /// Returns the terminals of nodes that keep running, named after their owner.
    pub(crate) fn panes(&self, owner: String) -> Arc<PtyNodes> {
        Arc::new(PtyNodes::new(self.sessions.clone(), owner))
    }

    /// Returns an executor of nodes for `caller` in `directory`. Programs that keep running are in `panes`.
    pub(crate) fn performer(&self, caller: &Arc<Caller>, directory: PathBuf, panes: Arc<PtyNodes>) -> NodeExecutor {
        let resolved = Resolved::default();
        let secrets = CallerSecrets {
            caller: caller.clone(),
            named_secrets: self.named_secrets.clone(),
            owner: panes.owner().to_owned(),
            resolved: resolved.clone(),
            kept: tokio::sync::Mutex::default(),
        };
        let mut variables = caller.environment.to_vec();
        add_askpass_without_terminal(&mut variables);
        let nodes = steplatch_nodes::Nodes::new(NodeEnvironment {
            directory,
            environment: variables,
            programs: self.programs.clone(),
            secrets: Arc::new(secrets),
            hosts: Arc::new(HostShells { sessions: self.sessions.clone(), caller: caller.clone() }),
        });
        NodeExecutor { nodes, call_permits: self.call_permits.clone(), caller: caller.clone(), panes, resolved }
    }
}

impl NodeExecutor {
    /// Performs one call. `step` is the name of the call: the executor types the input once under that name, and finds
    /// the processes by that name.
    pub(crate) async fn run(&self, node: &Node, call: Call, step: &str) -> NodeResult {
        let call = Call { family: Some(step.to_owned()), ..call };
        let permit = tokio::select! {
            permit = self.call_permits.acquire() => permit,
            () = call.interrupt.cancelled() => {
                return NodeResult::failed(node, call.input, ErrorType::Interrupted, "The call was interrupted.");
            }
        };
        let _permit = permit.expect("the semaphore is never closed");
        match &node.kind {
            NodeKind::Pty(pty) => Box::pin(self.panes.run(&self.caller, &self.nodes, node, pty, call, step)).await,
            _ => self.nodes.run(node, call).await,
        }
    }

    /// Returns the values of the secrets that calls have referred to so far.
    pub(crate) fn resolved(&self) -> BTreeSet<String> {
        self.resolved.lock().clone()
    }

    /// Stops the started MCP servers.
    pub(crate) async fn close(&self) {
        self.nodes.close().await;
    }
}
