//! One machine: its terminal hosts, usually one, and what is noted of them.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use steplatch_ids::TerminalId;
use steplatch_terminal::Description;
use tokio::sync::watch;

use super::connection::{Connection, Dialed, Reached, RemoteHost, Route};
use super::failure::ConnectFailure;
use super::notes::MachineNotes;
use super::{RemoteError, RemoteHostConfig, RemoteHostState, RemoteHostStatus, RemotePlace, RemoteSetup};
use crate::client::{AskError, Host, OnSecret};
use crate::relay::RelayRequest;

/// How much longer than its patience a request waits for the reason why there is no connection.
const SURPLUS: Duration = Duration::from_millis(500);

/// Lost terminals that are remembered.
const MOST_LOST: usize = 1000;

/// A machine.
#[derive(Debug)]
pub(crate) struct Machine {
    route: Arc<Route>,
    notes: Mutex<MachineNotes>,
    folder: PathBuf,
    on_secret: SecretSink,
    hosts: Mutex<Vec<RemoteHost>>,
    /// Held while a host is asked for, so that only one connection is begun at a time.
    connecting: tokio::sync::Mutex<()>,
    /// The version that is installed over there, and the last failure to reach the machine at all.
    contact: Mutex<ContactState>,
    /// Terminals that ended with their host, oldest first, and its process id.
    lost: Mutex<VecDeque<(TerminalId, u32)>>,
    /// Held while notes are written, so that older ones do not follow newer ones.
    writing: tokio::sync::Mutex<()>,
    changed: Arc<watch::Sender<u64>>,
    this: Weak<Self>,
}

/// A callback without a form for people.
struct SecretSink(OnSecret);

impl std::fmt::Debug for SecretSink {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SecretSink")
    }
}

/// What is known of a machine besides its hosts.
#[derive(Debug, Default)]
struct ContactState {
    version: Option<String>,
    failure: Option<(SystemTime, ConnectFailure)>,
    is_connecting: bool,
}

impl Machine {
    /// Takes over a machine. One that has terminals is connected to at once.
    pub(crate) fn new(
        config: RemoteHostConfig,
        setup: &RemoteSetup,
        on_secret: OnSecret,
        changed: Arc<watch::Sender<u64>>,
    ) -> Arc<Self> {
        let folder = setup.notes.clone();
        let mut notes = MachineNotes::read(&folder, &config.name);
        if notes.ssh != config.ssh {
            // Another machine has the name now.
            notes.terminals.clear();
            notes.ssh.clone_from(&config.ssh);
        }
        let route = Arc::new(Route {
            config,
            client: notes.client.clone(),
            client_id: notes.client_id(),
            transport: setup.transport.clone(),
            questions: setup.questions.clone(),
        });
        let sockets: Vec<String> = notes
            .terminals
            .iter()
            .filter(|(_, terminals)| !terminals.is_empty())
            .map(|(socket, _)| socket.clone())
            .collect();
        let machine = Arc::new_cyclic(|this| Self {
            route,
            notes: Mutex::new(notes),
            folder,
            on_secret: SecretSink(on_secret),
            hosts: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            contact: Mutex::default(),
            lost: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
            changed,
            this: this.clone(),
        });
        for socket in sockets {
            machine.adopt(socket, None);
        }
        machine
    }

    pub(crate) fn config(&self) -> &RemoteHostConfig {
        &self.route.config
    }

    pub(crate) fn hosts(&self) -> Vec<RemoteHost> {
        self.hosts.lock().clone()
    }

    /// Takes a host into the table and follows its connection.
    fn adopt(&self, socket: String, reached: Option<Reached>) -> RemoteHost {
        let host = RemoteHost::new(self.route.clone(), socket, reached, self.on_secret.0.clone());
        self.hosts.lock().push(host.clone());
        let (mut follow, machine) = (host.follow(), self.this.clone());
        let socket = host.socket().to_owned();
        tokio::spawn(async move {
            loop {
                let over = match &*follow.borrow_and_update() {
                    Connection::Over { pid } => Some(*pid),
                    _ => None,
                };
                let Some(machine) = machine.upgrade() else { return };
                if let Some(pid) = over {
                    machine.host_ended(&socket, pid).await;
                }
                machine.changed.send_modify(|changed| *changed += 1);
                drop(machine);
                if over.is_some() || follow.changed().await.is_err() {
                    return;
                }
            }
        });
        host
    }

    /// Forgets a host that has ended, and remembers what ended with it.
    async fn host_ended(&self, socket: &str, pid: u32) {
        self.hosts.lock().retain(|known| known.socket() != socket);
        let ended = self.notes.lock().terminals.remove(socket).unwrap_or_default();
        {
            let mut lost = self.lost.lock();
            lost.extend(ended.into_iter().map(|terminal| (terminal.id, pid)));
            let surplus = lost.len().saturating_sub(MOST_LOST);
            lost.drain(..surplus);
        }
        self.write_notes().await;
    }

    /// Returns the host that opens new terminals, with a connection. Connecting goes on when this ends early: a question of `ssh` may
    /// wait for its answer longer than a request does.
    pub(crate) async fn current(&self, patience: Duration) -> Result<RemoteHost, RemoteError> {
        let Some(machine) = self.this.upgrade() else { return Err(self.late()) };
        let connecting = tokio::spawn(async move { machine.connected(patience).await });
        match tokio::time::timeout(patience + SURPLUS, connecting).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(_)) | Err(_) => Err(self.late()),
        }
    }

    /// Returns that there is no connection yet.
    fn late(&self) -> RemoteError {
        let host = self.config().name.clone();
        let why = match self.route.questions.is_open(&host) {
            true => ConnectFailure::Unanswered { host: host.clone() },
            false => ConnectFailure::Connection("it is still being connected to; try again in a moment".to_owned()),
        };
        RemoteError::Failed { host, why }
    }

    async fn connected(&self, patience: Duration) -> Result<RemoteHost, RemoteError> {
        let _alone = self.connecting.lock().await;
        let current = self.hosts().into_iter().find(|host| host.opens_new() && !host.is_over());
        let host = match current {
            Some(host) => host,
            None => self.find_current().await?,
        };
        match host.reached(patience).await {
            Ok(_) => {
                self.contact.lock().failure = None;
                Ok(host)
            }
            // It has ended meanwhile, so another one is started.
            Err(AskError::RemoteHostLost { .. }) => {
                let host = self.find_current().await?;
                host.reached(patience).await.map_err(|error| self.failed(&host, &error))?;
                Ok(host)
            }
            Err(error) => Err(self.failed(&host, &error)),
        }
    }

    fn failed(&self, host: &RemoteHost, error: &AskError) -> RemoteError {
        let why = match host.connection() {
            Connection::Down(interruption) | Connection::Up { interrupted: Some(interruption), .. } => interruption.why,
            _ => ConnectFailure::Connection(error.to_string()),
        };
        RemoteError::Failed { host: self.config().name.clone(), why }
    }

    /// Asks the machine for the host that opens new terminals, which is started if there is none.
    async fn find_current(&self) -> Result<RemoteHost, RemoteError> {
        self.contact.lock().is_connecting = true;
        self.changed.send_modify(|changed| *changed += 1);
        let dialed = self.route.dial(&RelayRequest::OpenCurrent).await;
        let failed = |why: ConnectFailure| RemoteError::Failed { host: self.config().name.clone(), why };
        {
            let mut contact = self.contact.lock();
            contact.is_connecting = false;
            contact.failure = dialed.as_ref().err().map(|why| (SystemTime::now(), why.clone()));
        }
        self.changed.send_modify(|changed| *changed += 1);
        let reached = match dialed {
            Ok(Dialed::Reached(reached)) => reached,
            Ok(Dialed::Gone) => return Err(failed(ConnectFailure::Host("the relay found none".to_owned()))),
            Err(why) => return Err(failed(why)),
        };
        self.contact.lock().version = Some(reached.version.clone());
        for other in &reached.others {
            if !self.hosts().iter().any(|host| host.socket() == other) {
                self.adopt(other.clone(), None);
            }
        }
        let known = self.hosts().into_iter().find(|host| host.socket() == reached.socket);
        // A known one has a connection of its own.
        if let Some(known) = known {
            return Ok(known);
        }
        let host = self.adopt(reached.socket.clone(), Some(*reached));
        // The next daemon is the same client, and finds this host, also before there is a terminal.
        self.write_notes().await;
        Ok(host)
    }

    pub(crate) fn status(&self) -> RemoteHostStatus {
        let contact = self.contact.lock();
        let connections: Vec<Connection> = self.hosts().iter().map(RemoteHost::connection).collect();
        let lost = connections.iter().find_map(|connection| match connection {
            Connection::Up { interrupted: Some(interruption), .. } | Connection::Down(interruption) => {
                Some(RemoteHostState::Lost { since: interruption.since, why: interruption.why.clone() })
            }
            _ => None,
        });
        let failure = contact.failure.clone().map(|(since, why)| RemoteHostState::Lost { since, why });
        let is_up = connections.iter().any(|connection| matches!(connection, Connection::Up { interrupted: None, .. }));
        let is_connecting =
            contact.is_connecting || connections.iter().any(|connection| matches!(connection, Connection::Connecting));
        let state = match (lost, is_up, is_connecting, failure) {
            (Some(lost), ..) => lost,
            (None, true, ..) => RemoteHostState::Connected,
            (None, false, true, _) => RemoteHostState::Connecting,
            (None, false, false, Some(failure)) => failure,
            (None, false, false, None) => RemoteHostState::Idle,
        };
        let version = connections.iter().find_map(|connection| match connection {
            Connection::Up { host, .. } => Some(host.greeting().version.clone()),
            _ => None,
        });
        let terminals = self.notes.lock().terminals.values().map(Vec::len).sum();
        let config = self.config().clone();
        RemoteHostStatus { config, state, version: version.or_else(|| contact.version.clone()), terminals }
    }

    /// Returns the host that keeps a terminal, by what is noted.
    pub(crate) fn noted(&self, id_or_name: &str) -> Option<(RemoteHost, TerminalId)> {
        let (socket, id) = self.notes.lock().find(id_or_name)?;
        Some((self.hosts().into_iter().find(|host| host.socket() == socket)?, id))
    }

    /// Describes the terminals: of a host that is connected as they are, else as they were last seen.
    pub(crate) async fn list(
        &self,
        ask: &impl AsyncFn(&Host) -> Option<Vec<Description>>,
    ) -> Vec<(Description, RemotePlace)> {
        let name = self.config().name.clone();
        let mut all = Vec::new();
        for host in self.hosts() {
            let listed = match host.up() {
                Some(up) => ask(&up).await,
                None => None,
            };
            let lost_since = match host.connection() {
                Connection::Down(interruption) | Connection::Up { interrupted: Some(interruption), .. } => {
                    Some(interruption.since)
                }
                // It is not connected since the daemon has started.
                Connection::Connecting => Some(SystemTime::now()),
                _ => None,
            };
            let (terminals, lost_since) = match listed {
                Some(listed) => {
                    self.note(host.socket(), |terminals| terminals.clone_from(&listed)).await;
                    (listed, None)
                }
                None => (self.notes.lock().terminals.get(host.socket()).cloned().unwrap_or_default(), lost_since),
            };
            let place = RemotePlace { host: name.clone(), lost_since };
            all.extend(terminals.into_iter().map(|terminal| (terminal, place.clone())));
        }
        all
    }

    /// Changes what is noted of the terminals of a host. It is written if it has other terminals then.
    pub(crate) async fn note(&self, socket: &str, change: impl FnOnce(&mut Vec<Description>)) {
        let ids = |terminals: &[Description]| -> Vec<TerminalId> {
            terminals.iter().map(|terminal| terminal.id.clone()).collect()
        };
        let is_changed = {
            let mut notes = self.notes.lock();
            let terminals = notes.terminals.entry(socket.to_owned()).or_default();
            let before = ids(terminals);
            change(terminals);
            ids(terminals) != before
        };
        if is_changed {
            self.write_notes().await;
        }
    }

    /// Notes that a terminal was closed.
    pub(crate) async fn forget(&self, id: &TerminalId) {
        let noted = self.notes.lock().find(id.as_str());
        if let Some((socket, id)) = noted {
            self.note(&socket, |terminals| terminals.retain(|terminal| terminal.id != id)).await;
        }
    }

    /// Forgets the machine, unless it has terminals, which would not be found again.
    pub(crate) fn retire(&self) {
        if self.notes.lock().terminals.values().all(Vec::is_empty) {
            MachineNotes::remove(&self.folder, &self.config().name);
        }
    }

    /// Returns the process id of the host that a terminal ended with.
    pub(crate) fn lost(&self, id: &str) -> Option<u32> {
        self.lost.lock().iter().find(|(lost, _)| lost.as_str() == id).map(|(_, pid)| *pid)
    }

    async fn write_notes(&self) {
        let _alone = self.writing.lock().await;
        let (notes, folder, name) = (self.notes.lock().clone(), self.folder.clone(), self.config().name.clone());
        let written = tokio::task::spawn_blocking(move || notes.write(&folder, &name)).await;
        if let Err(error) = written.map_err(std::io::Error::other).and_then(|written| written) {
            tracing::warn!(%error, "what is known of another machine can not be noted");
        }
    }
}
