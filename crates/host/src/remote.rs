//! Terminals on remote hosts: the configured hosts, and the connections to their terminal hosts.
//!
//! A machine has a terminal host that only this installation uses. A relay ([`crate::relay`]) starts or finds that
//! host, in the version installed on the machine. Without a connection, the daemon lists the terminals in their last
//! known state from its notes ([`notes`]).

mod connection;
mod failure;
mod machine;
mod notes;
mod reply;
mod target;
mod transport;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use parking_lot::Mutex;
use steplatch_ids::TerminalId;
use steplatch_terminal::{Description, SecretText};
use tokio::sync::watch;

pub use self::connection::RECONNECT_TIMEOUT;
pub(crate) use self::connection::RemoteHost;
pub use self::failure::ConnectFailure;
use self::machine::Machine;
pub use self::notes::client_on;
pub(crate) use self::notes::{Opening, as_requested};
pub(crate) use self::reply::{ColouredView, Reply, StateChange};
pub use self::target::{FixedConnection, HostTarget};
pub use self::transport::{
    Channel, ConnectionGuard, DialFuture, DialedTargets, ErrorText, INSTALLED, OpenSsh, SshEnvironment, TargetFuture,
    Transport, ssh_arguments,
};
use crate::client::Host;
use crate::terminal::HostedTerminal;

/// Maximum wait of a client's request for a machine without a connection.
pub const CLIENT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum wait of a run's action for a machine without a connection.
pub const RUN_CONNECT_TIMEOUT: Duration = Duration::from_secs(600);

/// Configuration of a machine for terminals.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RemoteHostConfig {
    /// Name of the machine in the configuration.
    pub name: String,
    /// The destination for `ssh`: `user@machine`, or an alias of the user's configuration.
    pub ssh: String,
}

/// Questions of `ssh` that wait for a person.
pub trait QuestionWatch: fmt::Debug + Send + Sync {
    /// Returns the number of questions of the connections to a host so far.
    fn question_count(&self, host: &str) -> u64;
    /// Returns whether a question waits for its answer.
    fn is_open(&self, host: &str) -> bool;
}

/// Receiver of texts to hide, from remote hosts. The texts are hidden only in the terminals of their machine.
pub trait MachineSecretSink: fmt::Debug + Send + Sync {
    /// Records that a terminal is on a machine.
    fn place(&self, terminal: &TerminalId, machine: &str);
    /// Hides a text in the terminals of a machine, or in one of them.
    fn hide_on(&self, machine: &str, secret: SecretText);
    /// Forgets the hidden texts of a closed terminal.
    fn forget(&self, terminal: &TerminalId);
}

/// [`QuestionWatch`] of connections without questions.
#[derive(Debug, Clone, Copy)]
pub struct NoQuestions;

impl QuestionWatch for NoQuestions {
    fn question_count(&self, _: &str) -> u64 {
        0
    }

    fn is_open(&self, _: &str) -> bool {
        false
    }
}

/// State of the connection to a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteHostState {
    /// No request has needed the connection yet.
    Idle,
    /// The connection is in progress.
    Connecting,
    /// The host has a connection.
    Connected,
    /// The connection was lost, or failed.
    Lost {
        /// Time of the loss.
        since: SystemTime,
        /// Reason.
        reason: ConnectFailure,
    },
}

/// The status of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteHostStatus {
    /// The name and destination.
    pub config: RemoteHostConfig,
    /// State of its connection.
    pub state: RemoteHostState,
    /// The version of the terminal host there, after the first connection.
    pub version: Option<String>,
    /// Number of its terminals at the last report.
    pub terminals: usize,
}

/// The machine of a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemotePlace {
    /// The name.
    pub host: String,
    /// Time of the connection's loss, if there is no connection. The description dates from that time.
    pub lost_since: Option<SystemTime>,
}

/// Reason why a machine is unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// No machine has this name.
    #[error("there is no host '{name}'; {}", describe_known_hosts(.hosts))]
    Unknown {
        /// The name.
        name: String,
        /// The configured names.
        hosts: Vec<String>,
    },
    /// The connection failed.
    #[error("host '{host}' was not reached: {reason}")]
    Failed {
        /// The name.
        host: String,
        /// Reason.
        reason: ConnectFailure,
    },
}

fn describe_known_hosts(hosts: &[String]) -> String {
    match hosts {
        [] => "add one with 'steplatch hosts add NAME --ssh TARGET'".to_owned(),
        names => format!("known hosts: {}", names.join(", ")),
    }
}

/// Settings of the connections to remote hosts.
#[derive(Debug, Clone)]
pub struct RemoteSetup {
    /// The directory of the notes.
    pub notes: PathBuf,
    /// Transport to a machine.
    pub transport: Arc<dyn Transport>,
    /// Questions of the connections.
    pub questions: Arc<dyn QuestionWatch>,
    /// Receives the texts to hide from the machines.
    pub secrets: Arc<dyn MachineSecretSink>,
}

/// The machines of a daemon. Cheap to clone.
#[derive(Clone)]
pub(crate) struct RemoteHosts {
    shared: Arc<Shared>,
}

struct Shared {
    setup: RemoteSetup,
    machines: Mutex<BTreeMap<String, Arc<Machine>>>,
    /// Number of changes of the connections.
    changed: Arc<watch::Sender<u64>>,
}

impl RemoteHosts {
    pub(crate) fn new(setup: RemoteSetup) -> Self {
        let changed = Arc::new(watch::Sender::new(0));
        Self { shared: Arc::new(Shared { setup, machines: Mutex::default(), changed }) }
    }

    /// Sets the configured machines. Disconnects machines that are no longer configured; their terminals continue.
    pub(crate) fn configure(&self, configs: &[RemoteHostConfig]) {
        let mut machines = self.shared.machines.lock();
        let is_configured = |machine: &Machine| configs.contains(machine.config());
        machines.values().filter(|machine| !is_configured(machine)).for_each(|machine| machine.retire());
        machines.retain(|_, machine| is_configured(machine));
        for config in configs {
            machines.entry(config.name.clone()).or_insert_with(|| {
                let Shared { setup, changed, .. } = &*self.shared;
                Machine::new(config.clone(), setup, changed.clone())
            });
        }
        drop(machines);
        self.shared.changed.send_modify(|changed| *changed += 1);
    }

    fn all(&self) -> Vec<Arc<Machine>> {
        self.shared.machines.lock().values().cloned().collect()
    }

    /// Returns the machine with this name.
    pub(crate) fn find_machine(&self, name: &str) -> Result<Arc<Machine>, RemoteError> {
        let machines = self.shared.machines.lock();
        machines.get(name).cloned().ok_or_else(|| RemoteError::Unknown {
            name: name.chars().take(80).collect(),
            hosts: machines.keys().cloned().collect(),
        })
    }

    /// Returns a receiver that counts changes of the connections.
    pub(crate) fn follow(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// Connects to a machine that is not connected, and returns the status of the machine.
    pub(crate) async fn check(&self, name: &str, timeout: Duration) -> Result<RemoteHostStatus, RemoteError> {
        let machine = self.find_machine(name)?;
        machine.check(timeout).await?;
        Ok(machine.status())
    }

    /// Returns the current target of a connection to a machine.
    pub(crate) async fn target(&self, name: &str) -> Result<HostTarget, RemoteError> {
        let config = self.find_machine(name)?.config().clone();
        let target = self.shared.setup.transport.target(&config).await;
        target.map_err(|reason| RemoteError::Failed { host: name.to_owned(), reason })
    }

    /// Returns the target of the last connection to a machine, if known.
    pub(crate) fn dialed(&self, name: &str) -> Result<Option<HostTarget>, RemoteError> {
        Ok(self.shared.setup.transport.dialed(self.find_machine(name)?.config()))
    }

    /// Returns the status of all machines.
    pub(crate) fn status(&self) -> Vec<RemoteHostStatus> {
        self.all().iter().map(|machine| machine.status()).collect()
    }

    /// Returns the terminal with this id or name from the notes.
    pub(crate) fn find_noted_terminal(&self, id_or_name: &str) -> Option<HostedTerminal> {
        self.all().iter().find_map(|machine| machine.find_noted_terminal(id_or_name))
    }

    /// Returns the connected hosts, each with its session.
    pub(crate) fn connected(&self) -> Vec<(RemoteHost, Host)> {
        let hosts = self.all().into_iter().flat_map(|machine| machine.hosts());
        hosts.filter_map(|host| host.connected_session().map(|session| (host, session))).collect()
    }

    /// Records that the daemon has stored the results of `steps`, or has abandoned the steps. Does not wait for the
    /// machines.
    pub(crate) fn settle(&self, steps: &str) {
        self.all().iter().for_each(|machine| machine.settle(steps));
    }

    /// Returns the unsettled steps of runs whose remote terminal hosts have ended.
    pub(crate) fn lost_steps(&self) -> Vec<String> {
        self.all().iter().flat_map(|machine| machine.lost_steps()).collect()
    }

    /// Returns the machine of the terminal that a step has requested.
    pub(crate) fn opening(&self, step: &str) -> Option<Arc<Machine>> {
        self.all().into_iter().find(|machine| machine.has_opening(step))
    }

    /// Returns whether the notes have this terminal on a machine other than `machine`.
    pub(crate) fn is_elsewhere(&self, id: &TerminalId, machine: &str) -> bool {
        self.all().iter().any(|other| other.config().name != machine && other.has_terminal(id))
    }

    /// Describes the terminals of all machines. `is_here` recognises terminals of this computer.
    pub(crate) async fn list(&self, is_here: &(dyn Fn(&TerminalId) -> bool + Sync)) -> Vec<(Description, RemotePlace)> {
        // List all machines at once, so that a silent machine does not delay the others.
        let machines = self.all();
        let listing = machines.iter().map(|machine| {
            let name = machine.config().name.clone();
            machine.list(move |id: &TerminalId| is_here(id) || self.is_elsewhere(id, &name))
        });
        join_all(listing).await.into_iter().flatten().collect()
    }

    /// Records that a terminal was closed.
    pub(crate) async fn record_closed(&self, id: &TerminalId) {
        for machine in self.all() {
            machine.forget(id).await;
        }
    }

    /// Returns the machine and the process id of the ended host that took a terminal with it, if any.
    pub(crate) fn lost_with(&self, id: &str) -> Option<(String, u32)> {
        self.all().iter().find_map(|machine| Some((machine.config().name.clone(), machine.lost_with(id)?)))
    }
}
