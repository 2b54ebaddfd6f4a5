//! A remote machine: its terminal hosts (usually one), and the notes about them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use parking_lot::Mutex;
use steplatch_ids::TerminalId;
#[cfg(doc)]
use steplatch_ledger::names_step;
use steplatch_terminal::{Description, SecretText, Spec};
use tokio::sync::watch;
use tokio::time::Instant;

use super::connection::{Awaited, Connection, Dialed, Reached, RemoteHost, Route};
use super::failure::ConnectFailure;
use super::notes::{MachineNotes, Opening};
use super::reply::Reply as _;
use super::{
    CLIENT_CONNECT_TIMEOUT, MachineSecretSink, RemoteError, RemoteHostConfig, RemoteHostState, RemoteHostStatus,
    RemotePlace, RemoteSetup,
};
use crate::client::{AskError, Host, OnSecret};
use crate::hosts::{HostsError, ask_with_timeout, list_with_timeout};
use crate::relay::RelayRequest;
use crate::terminal::HostedTerminal;
use crate::wire::is_of_run;
use crate::wire::{BoundedList, HostRequest, OpenedTerminal, Refusal};

/// Maximum wait of a request, after its timeout, for the reason of a failed connection.
const REASON_TIMEOUT: Duration = Duration::from_millis(500);

/// First pause between connection attempts of a request; each pause is twice as long as the last.
const MIN_RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Maximum pause between connection attempts of a request.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(10);

/// Maximum number of remembered lost terminals.
const MAX_LOST_TERMINALS: usize = 1000;

/// Maximum number of terminal hosts of a machine: the current host, and hosts of older versions that still keep
/// terminals. Each host has its own connection.
const MAX_HOSTS: usize = 8;

/// Maximum number of terminals that a host lists.
const MAX_LISTED: usize = 1000;

/// Maximum number of unanswered openings that a list request looks up.
const MAX_LOOKED_UP: usize = 16;

/// Time limit of the look-ups after the answer of one list.
const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(2);

/// A remote host that the daemon opens terminals on.
#[derive(Debug)]
pub(crate) struct Machine {
    route: Arc<Route>,
    notes: Mutex<MachineNotes>,
    directory: PathBuf,
    secrets: Arc<dyn MachineSecretSink>,
    hosts: Mutex<Vec<RemoteHost>>,
    /// Locked while a host is requested, so that only one connection attempt runs at a time.
    connect_lock: tokio::sync::Mutex<()>,
    /// The version installed on the machine, and the last failure to connect to it.
    contact: Mutex<ContactState>,
    /// Steps that are opening a terminal.
    opening: Mutex<HashSet<String>>,
    /// Terminals that ended with their host, oldest first, with the host's process id.
    lost_terminals: Mutex<VecDeque<(TerminalId, u32)>>,
    /// Locked while the notes are written, so that older notes do not replace newer ones.
    write_lock: tokio::sync::Mutex<()>,
    changed: Arc<watch::Sender<u64>>,
    weak_self: Weak<Self>,
}

/// An opening of a terminal in progress.
#[derive(Debug)]
pub(crate) struct OpeningGuard {
    machine: Arc<Machine>,
    step: String,
    /// True if the notes had no earlier opening of this step.
    pub(crate) is_first: bool,
}

impl Drop for OpeningGuard {
    fn drop(&mut self) {
        self.machine.opening.lock().remove(&self.step);
    }
}

/// State of a machine, except its hosts.
#[derive(Debug, Default)]
struct ContactState {
    version: Option<String>,
    failure: Option<(SystemTime, ConnectFailure)>,
    is_connecting: bool,
}

impl Machine {
    /// Creates a machine from its configuration and its notes. Connects immediately if the notes list terminals.
    pub(crate) fn new(config: RemoteHostConfig, setup: &RemoteSetup, changed: Arc<watch::Sender<u64>>) -> Arc<Self> {
        let directory = setup.notes.clone();
        let mut notes = MachineNotes::read(&directory, &config.name);
        if notes.ssh != config.ssh {
            // The name now denotes a different machine. It must not repeat a step begun on the former machine.
            notes.terminals.clear();
            notes.openings.retain(|step, opening| is_of_run(step) && !opening.is_settled);
            notes.ssh.clone_from(&config.ssh);
        }
        let route = Arc::new(Route {
            config,
            client: notes.client.clone(),
            client_id: notes.client_id(),
            transport: setup.transport.clone(),
            questions: setup.questions.clone(),
        });
        let sockets = notes.sockets();
        for terminal in notes.terminals.values().flatten() {
            setup.secrets.place(&terminal.id, &route.config.name);
        }
        let machine = Arc::new_cyclic(|this| Self {
            route,
            notes: Mutex::new(notes),
            directory,
            secrets: setup.secrets.clone(),
            hosts: Mutex::default(),
            connect_lock: tokio::sync::Mutex::default(),
            contact: Mutex::default(),
            opening: Mutex::default(),
            lost_terminals: Mutex::default(),
            write_lock: tokio::sync::Mutex::default(),
            changed,
            weak_self: this.clone(),
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

    /// Adds a host to the table and watches its connection.
    fn adopt(&self, socket: String, reached: Option<Reached>) -> RemoteHost {
        let (secrets, name) = (self.secrets.clone(), self.config().name.clone());
        let on_secret: OnSecret = Arc::new(move |secret: SecretText| secrets.hide_on(&name, secret));
        let host = RemoteHost::new(self.route.clone(), socket, reached, on_secret);
        self.hosts.lock().push(host.clone());
        let (mut follow, machine) = (host.follow(), self.weak_self.clone());
        let socket = host.socket().to_owned();
        tokio::spawn(async move {
            loop {
                let ended_pid = match &*follow.borrow_and_update() {
                    Connection::Ended { pid } => Some(*pid),
                    _ => None,
                };
                let Some(machine) = machine.upgrade() else { return };
                if let Some(pid) = ended_pid {
                    machine.host_ended(&socket, pid).await;
                }
                machine.changed.send_modify(|changed| *changed += 1);
                drop(machine);
                if ended_pid.is_some() || follow.changed().await.is_err() {
                    return;
                }
            }
        });
        host
    }

    /// Removes a host that has ended and records the terminals that ended with it.
    async fn host_ended(&self, socket: &str, pid: u32) {
        self.hosts.lock().retain(|known| known.socket() != socket);
        let ended = self.notes.lock().forget_host(socket);
        ended.iter().for_each(|terminal| self.secrets.forget(terminal));
        {
            let mut lost_terminals = self.lost_terminals.lock();
            lost_terminals.extend(ended.into_iter().map(|terminal| (terminal, pid)));
            let surplus = lost_terminals.len().saturating_sub(MAX_LOST_TERMINALS);
            lost_terminals.drain(..surplus);
        }
        self.write_notes().await;
    }

    /// Returns the connected host that opens new terminals. With a long timeout, such as a run's, retries after a
    /// temporary failure. An unknown host name is considered temporary only if the machine was connected before.
    ///
    /// # Errors
    /// If the machine is unreachable for that long, or a person has to act first.
    pub(crate) async fn current(&self, timeout: Duration) -> Result<RemoteHost, RemoteError> {
        let began = Instant::now();
        let mut pause = MIN_RETRY_PAUSE;
        loop {
            let remaining = timeout.saturating_sub(began.elapsed());
            match self.connect(remaining, Awaited::Connection).await {
                Err(RemoteError::Failed { reason, .. })
                    if reason.is_temporary()
                        && !(matches!(reason, ConnectFailure::UnknownHost { .. })
                            && self.contact.lock().version.is_none())
                        && timeout > CLIENT_CONNECT_TIMEOUT
                        && pause < timeout.saturating_sub(began.elapsed()) =>
                {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(MAX_RETRY_PAUSE);
                }
                connected => return connected,
            }
        }
    }

    /// Connects, and returns the first failure of any kind.
    ///
    /// # Errors
    /// If the attempt fails or times out.
    pub(crate) async fn check(&self, timeout: Duration) -> Result<(), RemoteError> {
        self.connect(timeout, Awaited::FirstFailure).await.map(drop)
    }

    /// Makes one connection attempt. The attempt continues after this call has timed out, because a person may answer a
    /// question of `ssh` later.
    async fn connect(&self, timeout: Duration, until: Awaited) -> Result<RemoteHost, RemoteError> {
        let Some(machine) = self.weak_self.upgrade() else { return Err(self.not_connected_error(timeout)) };
        let connecting = tokio::spawn(async move { machine.connect_alone(timeout, until).await });
        match tokio::time::timeout(timeout + REASON_TIMEOUT, connecting).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(_)) | Err(_) => Err(self.not_connected_error(timeout)),
        }
    }

    /// Returns the error for a connection that was not established in time.
    fn not_connected_error(&self, timeout: Duration) -> RemoteError {
        let host = self.config().name.clone();
        let reason = match self.route.questions.is_open(&host) {
            true => ConnectFailure::Unanswered { host: host.clone() },
            false => match self.contact.lock().failure.clone() {
                Some((_, reason)) => reason,
                None => {
                    let seconds = timeout.as_secs();
                    let ssh = &self.config().ssh;
                    let reason =
                        format!("'{ssh}' has not answered within {seconds} s; the attempt to connect continues");
                    ConnectFailure::Connection(reason)
                }
            },
        };
        RemoteError::Failed { host, reason }
    }

    async fn connect_alone(&self, timeout: Duration, until: Awaited) -> Result<RemoteHost, RemoteError> {
        let _guard = self.connect_lock.lock().await;
        let current = self.hosts().into_iter().find(|host| host.opens_new() && !host.has_ended());
        let host = match current {
            Some(host) => host,
            None => self.find_current().await?,
        };
        match host.wait_for(timeout, until).await {
            Ok(_) => {
                self.contact.lock().failure = None;
                Ok(host)
            }
            // The host has ended in the meantime; start another one.
            Err(AskError::RemoteHostLost { .. }) => {
                let host = self.find_current().await?;
                host.wait_for(timeout, until).await.map_err(|error| self.connect_error(&host, &error))?;
                Ok(host)
            }
            Err(error) => Err(self.connect_error(&host, &error)),
        }
    }

    fn connect_error(&self, host: &RemoteHost, error: &AskError) -> RemoteError {
        let reason = match host.connection() {
            Connection::Down(interruption) | Connection::Up { interrupted: Some(interruption), .. } => {
                interruption.reason
            }
            _ => ConnectFailure::Connection(error.to_string()),
        };
        RemoteError::Failed { host: self.config().name.clone(), reason }
    }

    /// Requests the host for new terminals. The relay starts one if none is running.
    async fn find_current(&self) -> Result<RemoteHost, RemoteError> {
        self.contact.lock().is_connecting = true;
        self.changed.send_modify(|changed| *changed += 1);
        let dialed = self.route.dial(&RelayRequest::OpenCurrent).await;
        let to_error = |reason: ConnectFailure| RemoteError::Failed { host: self.config().name.clone(), reason };
        {
            let mut contact = self.contact.lock();
            contact.is_connecting = false;
            contact.failure = dialed.as_ref().err().map(|reason| (SystemTime::now(), reason.clone()));
        }
        self.changed.send_modify(|changed| *changed += 1);
        let reached = match dialed {
            Ok(Dialed::Reached(reached)) => reached,
            Ok(Dialed::Gone) => {
                return Err(to_error(ConnectFailure::Host("the relay found no terminal host".to_owned())));
            }
            Err(reason) => return Err(to_error(reason)),
        };
        self.contact.lock().version = Some(reached.version.clone());
        let known = self.hosts().into_iter().find(|host| host.socket() == reached.socket);
        // A known host already has a connection.
        if let Some(known) = known {
            return Ok(known);
        }
        self.make_room().map_err(to_error)?;
        let host = self.adopt(reached.socket.clone(), Some(*reached));
        // The next daemon must find this host even if it has no terminal yet.
        self.write_notes().await;
        Ok(host)
    }

    /// Disconnects from hosts without terminals, if there are too many.
    fn make_room(&self) -> Result<(), ConnectFailure> {
        let mut hosts = self.hosts.lock();
        if hosts.len() >= MAX_HOSTS {
            let notes = self.notes.lock();
            hosts.retain(|host| notes.terminals.get(host.socket()).is_some_and(|terminals| !terminals.is_empty()));
        }
        match hosts.len() < MAX_HOSTS {
            true => Ok(()),
            false => {
                Err(ConnectFailure::Host(format!("{MAX_HOSTS} terminal hosts with open terminals already run there")))
            }
        }
    }

    pub(crate) fn status(&self) -> RemoteHostStatus {
        let contact = self.contact.lock();
        let connections: Vec<Connection> = self.hosts().iter().map(RemoteHost::connection).collect();
        let interruption = connections.iter().find_map(|connection| match connection {
            Connection::Up { interrupted: Some(interruption), .. } | Connection::Down(interruption) => {
                Some(RemoteHostState::Lost { since: interruption.since, reason: interruption.reason.clone() })
            }
            _ => None,
        });
        let failure = contact.failure.clone().map(|(since, reason)| RemoteHostState::Lost { since, reason });
        let is_up = connections.iter().any(|connection| matches!(connection, Connection::Up { interrupted: None, .. }));
        let is_connecting =
            contact.is_connecting || connections.iter().any(|connection| matches!(connection, Connection::Connecting));
        let state = match (interruption, is_up, is_connecting, failure) {
            (Some(interruption), ..) => interruption,
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

    /// Finds the host of a terminal in the notes.
    pub(crate) fn find_noted_terminal(&self, id_or_name: &str) -> Option<HostedTerminal> {
        let (socket, noted) = self.notes.lock().find(id_or_name)?;
        let host = self.hosts().into_iter().find(|host| host.socket() == socket)?;
        Some(HostedTerminal::on_machine(host, noted))
    }

    /// Returns whether a terminal was opened on this remote host.
    pub(crate) fn has_terminal(&self, id: &TerminalId) -> bool {
        self.notes.lock().has(id)
    }

    /// Returns whether a step has requested a terminal here.
    pub(crate) fn has_opening(&self, step: &str) -> bool {
        self.notes.lock().openings.contains_key(step)
    }

    /// Records an opening before requesting it from a host, so that the next daemon finds it.
    pub(crate) async fn begin_opening(self: &Arc<Self>, step: &str, host: &RemoteHost, spec: &Spec) -> OpeningGuard {
        self.opening.lock().insert(step.to_owned());
        let is_first = self.notes.lock().begin(step, Opening::new(host.socket(), spec));
        let guard = OpeningGuard { machine: self.clone(), step: step.to_owned(), is_first };
        self.write_notes().await;
        guard
    }

    /// Records that a step of a run writes a file on a host, so that the next daemon repeats the request on that host
    /// only. Returns whether it is the first request of the step.
    pub(crate) async fn begin_write(&self, step: &str, host: &RemoteHost) -> bool {
        if !is_of_run(step) {
            return false;
        }
        let is_first = self.notes.lock().writes.insert(step.to_owned(), host.socket().to_owned()).is_none();
        if is_first {
            self.write_notes().await;
        }
        is_first
    }

    /// Returns the host that performs the effects of a step: the host of its earlier request, else the current host.
    ///
    /// # Errors
    /// If the machine is unreachable, or the host of the step has ended and its results are lost.
    pub(crate) async fn host_for(&self, step: &str, timeout: Duration) -> Result<RemoteHost, HostsError> {
        let Some(socket) = self.notes.lock().socket_of(step).map(str::to_owned) else {
            return Ok(self.current(timeout).await?);
        };
        let known = self.hosts().into_iter().find(|host| host.socket() == socket && !host.has_ended());
        known.ok_or_else(|| AskError::Refused(Refusal::OutcomeUnknown).into())
    }

    /// Records that the daemon has stored the results of `steps` (see [`names_step`] for the pattern), or has abandoned
    /// them. Does not wait for the machine.
    pub(crate) fn settle(self: &Arc<Self>, steps: &str) {
        let hosts = self.hosts();
        hosts.iter().filter_map(RemoteHost::session).for_each(|host| host.settle(steps));
        let is_changed = self.notes.lock().settle(steps, |socket| hosts.iter().any(|host| host.socket() == socket));
        if is_changed && let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let machine = self.clone();
            runtime.spawn(async move { machine.write_notes().await });
        }
    }

    /// Returns the connected hosts.
    pub(crate) fn sessions(&self) -> Vec<Host> {
        self.hosts().iter().filter_map(RemoteHost::session).collect()
    }

    /// Returns the unsettled steps of runs whose hosts here have ended.
    pub(crate) fn lost_steps(&self) -> Vec<String> {
        let hosts = self.hosts();
        self.notes.lock().lost_steps(|socket| hosts.iter().any(|host| host.socket() == socket))
    }

    /// Records the terminal that a step has opened. `is_taken` returns whether an id is already in use on any machine.
    ///
    /// # Errors
    /// If the id does not belong to a new terminal of this remote host.
    pub(crate) async fn record_opened(
        &self,
        step: &str,
        terminal: &OpenedTerminal,
        is_taken: impl Fn(&TerminalId) -> bool,
    ) -> Result<(), &'static str> {
        if is_taken(&terminal.id) {
            return Err("the id of a terminal of another machine");
        }
        self.notes.lock().record_opened(step, &terminal.id, terminal.pid)?;
        self.secrets.place(&terminal.id, &self.config().name);
        self.write_notes().await;
        Ok(())
    }

    /// Records that a step has not opened a terminal.
    pub(crate) async fn abandon_opening(&self, step: &str) {
        let is_changed = {
            let mut notes = self.notes.lock();
            let is_open = notes.openings.get(step).is_some_and(|opening| opening.terminal.is_some());
            !is_open && notes.openings.remove(step).is_some()
        };
        if is_changed {
            self.write_notes().await;
        }
    }

    /// Returns the terminal that a step has opened here.
    ///
    /// # Errors
    /// If the terminal is not in the notes and the machine does not answer.
    pub(crate) async fn opened_by(
        &self,
        step: &str,
        is_taken: impl Fn(&TerminalId) -> bool,
    ) -> Result<Option<HostedTerminal>, AskError> {
        let opening = self.notes.lock().openings.get(step).cloned();
        let Some(opening) = opening else { return Ok(None) };
        let Some(host) = self.hosts().into_iter().find(|host| host.socket() == opening.socket) else { return Ok(None) };
        if let Some(id) = opening.terminal.clone() {
            return Ok(Some(HostedTerminal::on_machine(host, opening.description(id, 0))));
        }
        let session = host.connected_session().ok_or_else(|| host.connection_error())?;
        let found = self.look_up(&host, &session, step, &is_taken).await?;
        Ok(found.map(|id| HostedTerminal::on_machine(host, opening.description(id, 0))))
    }

    /// Requests the terminal of a step whose opening has no answer.
    async fn look_up(
        &self,
        host: &RemoteHost,
        session: &Host,
        step: &str,
        is_taken: &impl Fn(&TerminalId) -> bool,
    ) -> Result<Option<TerminalId>, AskError> {
        let Some(id) = ask_with_timeout::<Option<TerminalId>>(session, &HostRequest::OpenedBy(step.to_owned())).await?
        else {
            self.abandon_opening(step).await;
            return Ok(None);
        };
        let terminal = OpenedTerminal { id, pid: 0, integrated: false };
        self.record_opened(step, &terminal, is_taken).await.map_err(|what| host.implausible(what))?;
        Ok(Some(terminal.id))
    }

    /// Describes the terminals: in their current state if the host is connected, otherwise in their last known state.
    /// Lists only terminals that this installation has opened, regardless of the machine's report.
    pub(crate) async fn list(&self, is_taken: impl Fn(&TerminalId) -> bool) -> Vec<(Description, RemotePlace)> {
        let hosts = self.hosts();
        let listing = hosts.iter().map(|host| self.list_host(host, &is_taken));
        join_all(listing).await.into_iter().flatten().collect()
    }

    async fn list_host(
        &self,
        host: &RemoteHost,
        is_taken: &impl Fn(&TerminalId) -> bool,
    ) -> Vec<(Description, RemotePlace)> {
        let ids_of = |terminals: Option<&Vec<Description>>| -> Vec<TerminalId> {
            terminals.into_iter().flatten().map(|terminal| terminal.id.clone()).collect()
        };
        let known_before = ids_of(self.notes.lock().terminals.get(host.socket()));
        let session = host.connected_session();
        let descriptions = match &session {
            Some(session) => list_with_timeout::<BoundedList<Description, MAX_LISTED>>(session).await.ok(),
            None => None,
        };
        let check_list = |descriptions: BoundedList<Description, MAX_LISTED>| match descriptions.is_cut {
            false => descriptions.entries.checked(),
            true => Err("a list that is too long"),
        };
        let descriptions = descriptions.and_then(|descriptions| match check_list(descriptions) {
            Ok(descriptions) => {
                Some(descriptions.into_iter().map(|terminal| (terminal.id.clone(), terminal)).collect())
            }
            Err(what) => {
                tracing::warn!(host = self.config().name, what, "a machine sent an invalid list of terminals");
                None
            }
        });
        let lost_since = match (&descriptions, host.connection()) {
            (Some(_), _) => None,
            (None, Connection::Down(interruption) | Connection::Up { interrupted: Some(interruption), .. }) => {
                Some(interruption.since)
            }
            // The host had no connection since the start of the daemon, or does not answer.
            (None, _) => Some(SystemTime::now()),
        };
        if let (Some(descriptions), Some(session)) = (descriptions, &session) {
            self.look_up_missing(host, session, &descriptions, is_taken).await;
            self.update(host.socket(), &known_before, descriptions).await;
        }
        let place = RemotePlace { host: self.config().name.clone(), lost_since };
        let terminals = self.notes.lock().terminals.get(host.socket()).cloned().unwrap_or_default();
        terminals.into_iter().map(|terminal| (terminal, place.clone())).collect()
    }

    /// Looks up the terminals of unanswered openings, if the host lists terminals that are not in the notes.
    async fn look_up_missing(
        &self,
        host: &RemoteHost,
        session: &Host,
        descriptions: &HashMap<TerminalId, Description>,
        is_taken: &impl Fn(&TerminalId) -> bool,
    ) {
        let unanswered: Vec<String> = {
            let (notes, opening) = (self.notes.lock(), self.opening.lock());
            if descriptions.keys().all(|id| notes.has(id)) {
                return;
            }
            let openings = notes.openings.iter().filter(|(step, known)| {
                known.socket == host.socket() && known.terminal.is_none() && !opening.contains(*step)
            });
            openings.map(|(step, _)| step.clone()).take(MAX_LOOKED_UP).collect()
        };
        // Look up all at once, because each answer may take the whole time limit.
        let looking_up = unanswered.iter().map(|step| async move {
            if let Err(error) = self.look_up(host, session, step, is_taken).await {
                tracing::warn!(%error, step, "failed to look up the terminal of a step");
            }
        });
        if tokio::time::timeout(LOOK_UP_TIMEOUT, join_all(looking_up)).await.is_err() {
            session.record_silence(true);
        }
    }

    /// Updates the notes about a host's terminals from its list.
    async fn update(&self, socket: &str, before: &[TerminalId], descriptions: HashMap<TerminalId, Description>) {
        let closed = self.notes.lock().update(socket, before, descriptions);
        if !closed.is_empty() {
            closed.iter().for_each(|terminal| self.secrets.forget(terminal));
            self.write_notes().await;
        }
    }

    /// Records that a terminal was closed.
    pub(crate) async fn forget(&self, id: &TerminalId) {
        let is_known = self.notes.lock().forget(id);
        if is_known {
            self.secrets.forget(id);
            self.write_notes().await;
        }
    }

    /// Removes the notes of the machine, unless a later daemon needs them to find its terminals.
    pub(crate) fn retire(&self) {
        if is_unused(&self.notes.lock()) {
            MachineNotes::remove(&self.directory, &self.config().name);
        }
    }

    /// Returns the process id of the ended host that took a terminal with it, if any.
    pub(crate) fn lost_with(&self, id: &str) -> Option<u32> {
        self.lost_terminals.lock().iter().find(|(terminal, _)| terminal.as_str() == id).map(|(_, pid)| *pid)
    }

    async fn write_notes(&self) {
        let _guard = self.write_lock.lock().await;
        let (notes, directory, name) = (self.notes.lock().clone(), self.directory.clone(), self.config().name.clone());
        let written = tokio::task::spawn_blocking(move || notes.write(&directory, &name)).await;
        if let Err(error) = written.map_err(std::io::Error::other).and_then(|written| written) {
            tracing::warn!(%error, "failed to write the notes of a remote host");
        }
    }
}

/// Returns whether these notes have nothing that a later daemon needs.
fn is_unused(notes: &MachineNotes) -> bool {
    notes.openings.is_empty() && notes.writes.is_empty() && notes.terminals.values().all(Vec::is_empty)
}
