//! Terminals on other machines: the machines that the user has named, and the connections to the terminal hosts on them.
//!
//! A machine has a terminal host like this one, which belongs to this installation alone: started once through a relay
//! ([`crate::relay`]), found again, and of the version that the machine has. The daemon knows a machine by its notes
//! ([`notes`]) also without a connection: it lists the terminals with their last known state.

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

/// Time that a request of a client waits for a machine without a connection.
pub const CLIENT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that a run waits for a machine without a connection, before its action fails.
pub const RUN_CONNECT_TIMEOUT: Duration = Duration::from_secs(600);

/// A machine for terminals.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RemoteHostConfig {
    /// Its name here.
    pub name: String,
    /// Its destination, as `ssh` takes it: `user@machine`, or an alias of the user's configuration.
    pub ssh: String,
}

/// Questions of `ssh` that wait for a person.
pub trait QuestionWatch: fmt::Debug + Send + Sync {
    /// Returns the number of questions of the connections to a host so far.
    fn question_count(&self, host: &str) -> u64;
    /// Returns whether one of them waits for its answer.
    fn is_open(&self, host: &str) -> bool;
}

/// Receives the texts that other machines want hidden. What a machine wants hidden counts for its own terminals.
pub trait MachineSecretSink: fmt::Debug + Send + Sync {
    /// Records that a terminal is on a machine.
    fn place(&self, terminal: &TerminalId, machine: &str);
    /// Hides a text in the terminals of a machine, or in one of them.
    fn hide_on(&self, machine: &str, secret: SecretText);
    /// Forgets the hidden texts of one terminal, which has closed.
    fn forget(&self, terminal: &TerminalId);
}

/// For connections without questions.
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
    /// No request has needed it yet.
    Idle,
    /// The connection is in progress.
    Connecting,
    /// The host has a connection.
    Connected,
    /// The host has no connection, since then, for this reason.
    Lost {
        /// Since when.
        since: SystemTime,
        /// Reason.
        why: ConnectFailure,
    },
}

/// The status of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteHostStatus {
    /// Its name and destination.
    pub config: RemoteHostConfig,
    /// State of its connection.
    pub state: RemoteHostState,
    /// The version of the terminal host there, after the first connection.
    pub version: Option<String>,
    /// Terminals there, as they were last seen.
    pub terminals: usize,
}

/// The machine of a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemotePlace {
    /// Its name.
    pub host: String,
    /// Time of the loss of its connection, if there is none: the description is as of then.
    pub lost_since: Option<SystemTime>,
}

/// Reason why a machine is unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// No machine has this name.
    #[error("there is no host '{name}'; {}", known(.hosts))]
    Unknown {
        /// The name.
        name: String,
        /// The names that there are.
        hosts: Vec<String>,
    },
    /// The connection failed.
    #[error("host '{host}' was not reached: {why}")]
    Failed {
        /// Its name.
        host: String,
        /// Reason.
        why: ConnectFailure,
    },
}

fn known(hosts: &[String]) -> String {
    match hosts {
        [] => "add one with 'steplatch hosts add NAME --ssh TARGET'".to_owned(),
        names => format!("known hosts: {}", names.join(", ")),
    }
}

/// The way to the machines, and the place of the notes about them.
#[derive(Debug, Clone)]
pub struct RemoteSetup {
    /// The directory of the notes.
    pub notes: PathBuf,
    /// The way to a machine.
    pub transport: Arc<dyn Transport>,
    /// Questions of the connections.
    pub questions: Arc<dyn QuestionWatch>,
    /// Receives what the machines want hidden.
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
    /// Counts changes of the connections.
    changed: Arc<watch::Sender<u64>>,
}

impl RemoteHosts {
    pub(crate) fn new(setup: RemoteSetup) -> Self {
        let changed = Arc::new(watch::Sender::new(0));
        Self { shared: Arc::new(Shared { setup, machines: Mutex::default(), changed }) }
    }

    /// Takes over the machines that the user has named. Disconnects machines without a name now; their terminals
    /// continue.
    pub(crate) fn configure(&self, configs: &[RemoteHostConfig]) {
        let mut machines = self.shared.machines.lock();
        let is_named = |machine: &Machine| configs.contains(machine.config());
        machines.values().filter(|machine| !is_named(machine)).for_each(|machine| machine.retire());
        machines.retain(|_, machine| is_named(machine));
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

    /// Returns a receiver of a count of changes of the connections.
    pub(crate) fn follow(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// Connects to a machine, or to it again, and returns its status.
    pub(crate) async fn check(&self, name: &str, timeout: Duration) -> Result<RemoteHostStatus, RemoteError> {
        let machine = self.find_machine(name)?;
        machine.check(timeout).await?;
        Ok(machine.status())
    }

    /// Returns the current target of a connection to a machine.
    pub(crate) async fn target(&self, name: &str) -> Result<HostTarget, RemoteError> {
        let config = self.find_machine(name)?.config().clone();
        let target = self.shared.setup.transport.target(&config).await;
        target.map_err(|why| RemoteError::Failed { host: name.to_owned(), why })
    }

    /// Returns the target of the last connection to a machine, if there is a known one.
    pub(crate) fn dialed(&self, name: &str) -> Result<Option<HostTarget>, RemoteError> {
        Ok(self.shared.setup.transport.dialed(self.find_machine(name)?.config()))
    }

    /// Returns the status of all machines.
    pub(crate) fn status(&self) -> Vec<RemoteHostStatus> {
        self.all().iter().map(|machine| machine.status()).collect()
    }

    /// Returns a terminal by the notes.
    pub(crate) fn find_noted_terminal(&self, id_or_name: &str) -> Option<HostedTerminal> {
        self.all().iter().find_map(|machine| machine.find_noted_terminal(id_or_name))
    }

    /// Returns the hosts that accept requests now.
    pub(crate) fn up(&self) -> Vec<(RemoteHost, Host)> {
        let hosts = self.all().into_iter().flat_map(|machine| machine.hosts());
        hosts.filter_map(|host| host.up().map(|up| (host, up))).collect()
    }

    /// Records that the daemon has stored the results of `steps`, or has given the steps up. Does not wait for the
    /// machines.
    pub(crate) fn settle(&self, steps: &str) {
        self.all().iter().for_each(|machine| machine.settle(steps));
    }

    /// Returns the unsettled steps of runs whose hosts on other machines have ended.
    pub(crate) fn lost_steps(&self) -> Vec<String> {
        self.all().iter().flat_map(|machine| machine.lost_steps()).collect()
    }

    /// Returns the machine on which a step has requested a terminal.
    pub(crate) fn opening(&self, step: &str) -> Option<Arc<Machine>> {
        self.all().into_iter().find(|machine| machine.has_opening(step))
    }

    /// Returns whether the notes have a terminal for another machine than this one.
    pub(crate) fn is_elsewhere(&self, id: &TerminalId, machine: &str) -> bool {
        self.all().iter().any(|other| other.config().name != machine && other.has_terminal(id))
    }

    /// Describes the terminals of all machines. `is_here` recognises terminals of this machine.
    pub(crate) async fn list(&self, is_here: &(dyn Fn(&TerminalId) -> bool + Sync)) -> Vec<(Description, RemotePlace)> {
        // A machine that does not answer holds up no other one.
        let machines = self.all();
        let listing = machines.iter().map(|machine| {
            let name = machine.config().name.clone();
            machine.list(move |id: &TerminalId| is_here(id) || self.is_elsewhere(id, &name))
        });
        join_all(listing).await.into_iter().flatten().collect()
    }

    /// Records the close of a terminal.
    pub(crate) async fn closed(&self, id: &TerminalId) {
        for machine in self.all() {
            machine.forget(id).await;
        }
    }

    /// Returns the machine that a terminal ended with, if its host over there has ended, and the process id of that.
    pub(crate) fn lost_with(&self, id: &str) -> Option<(String, u32)> {
        self.all().iter().find_map(|machine| Some((machine.config().name.clone(), machine.lost_with(id)?)))
    }
}
