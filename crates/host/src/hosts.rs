//! All terminal hosts of a daemon, behind one interface.
//!
//! Usually there is one host. After an upgrade there may also be an older host. It opens no new terminals and ends with
//! its last terminal. The daemon sends no requests to a host of another protocol version, and only lists that host in
//! the status.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use parking_lot::Mutex;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::de::DeserializeOwned;
use steplatch_ids::{TerminalId, random_name};
use steplatch_ledger::names_step;
use steplatch_terminal::{Description, Options, SecretText, Spec, TERMINAL_VARIABLE, Terminals};
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::{AskError, Host, OnSecret};
use crate::files::MachineFiles;
use crate::records::{self, HostRecord};
use crate::remote::{
    CLIENT_CONNECT_TIMEOUT, HostTarget, Opening, RemoteError, RemoteHostConfig, RemoteHostStatus, RemoteHosts,
    RemotePlace, RemoteSetup,
};
use crate::server::{Identity, serve};
use crate::terminal::{HostedTerminal, Keeper};
use crate::wire::{
    HostRequest, OpenRefused, OpenRequest, OpenedTerminal, PlacePolicy, Refusal, Role, START_TIME, is_of_run,
};

/// Method of starting a host.
#[derive(Debug, Clone)]
pub enum Starter {
    /// As a separate process with the listening socket as its standard input.
    Program {
        /// The program, usually the current executable.
        program: PathBuf,
        /// Arguments that start it as a host.
        arguments: Vec<OsString>,
        /// Fallback program and its arguments, used if the first program fails to start a host, but not if that program
        /// is only slow.
        fallback: Option<(PathBuf, Vec<OsString>)>,
        /// Path of its log.
        log: PathBuf,
        /// Time limit for its first answer.
        start_time: Duration,
    },
    /// As a task of this process, for tests. Its terminals end with the process.
    InProcess(Box<Options>),
    /// By this starter, for simulations.
    Custom(Arc<dyn HostStarter>),
}

/// Custom starter of hosts.
pub trait HostStarter: fmt::Debug + Send + Sync {
    /// Starts a host that serves the clients of `listener`.
    ///
    /// # Errors
    /// If its start fails.
    fn start(&self, listener: StdUnixListener) -> io::Result<()>;
}

impl Starter {
    /// Returns the starter with the fallback program, if there is one.
    fn fallback(&self) -> Option<Self> {
        match self {
            Self::Program { fallback: Some((program, arguments)), log, start_time, .. } => Some(Self::Program {
                program: program.clone(),
                arguments: arguments.clone(),
                fallback: None,
                log: log.clone(),
                start_time: *start_time,
            }),
            Self::Program { fallback: None, .. } | Self::InProcess(_) | Self::Custom(_) => None,
        }
    }
}

/// Reason why no host opened the terminal.
#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    /// The host did not start.
    #[error("the terminal host could not be started: {0}")]
    NotStarted(#[source] io::Error),
    /// The host did not open the terminal.
    #[error(transparent)]
    Refused(#[from] OpenRefused),
    /// The host did not answer.
    #[error(transparent)]
    HostRequest(#[from] AskError),
    /// The connection to the machine failed.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

/// An ended host, whose terminals ended with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostHost {
    /// The process id, on its machine.
    pub pid: u32,
    /// The machine of the terminal, unless it is this one.
    pub machine: Option<String>,
}

/// Entry of a list of terminals.
#[derive(Debug, Clone)]
pub struct ListedTerminal {
    /// The state.
    pub description: Description,
    /// Machine of the terminal, if it is not this one.
    pub place: Option<RemotePlace>,
}

/// The role of a host for its daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostState {
    /// New terminals open there.
    Current,
    /// The host is of another version and only keeps its existing terminals.
    Older,
    /// The host speaks another protocol version; its terminals cannot be reached.
    Foreign,
    /// The host does not answer; its terminals cannot be reached.
    Silent,
}

/// The status of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostStatus {
    /// Process id.
    pub pid: u32,
    /// The version of its program.
    pub version: String,
    /// The version of the protocol that it speaks.
    pub wire: u32,
    /// Open terminals.
    pub terminals: usize,
    /// The role for this daemon.
    pub state: HostState,
}

/// The hosts of one daemon. Cheap to clone.
#[derive(Clone)]
pub struct Hosts {
    shared: Arc<Shared>,
}

impl fmt::Debug for Hosts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Hosts").field("socket_dir", &self.shared.socket_dir).finish_non_exhaustive()
    }
}

struct Shared {
    role: Role,
    /// Directory of the sockets of new hosts.
    socket_dir: PathBuf,
    /// Directory with a record of each host. Unlike `socket_dir`, this directory is persistent.
    records_dir: PathBuf,
    starter: Starter,
    version: String,
    on_secret: OnSecret,
    table: Mutex<Table>,
    /// True if an ended host may have performed any step of the last daemon.
    has_missed_steps: AtomicBool,
    /// Steps with an unknown outcome because a host has ended.
    uncertain_steps: Mutex<UncertainSteps>,
    /// Unsettled steps that an earlier daemon may have begun.
    repeated_steps: Mutex<BTreeSet<String>>,
    /// Locked while a host starts, so that only one starts at a time.
    starting: tokio::sync::Mutex<()>,
    /// Number of changes to the hosts of the table.
    changed: watch::Sender<u64>,
    /// Remote terminal hosts.
    remote: OnceLock<RemoteHosts>,
}

/// Steps of runs whose effects an ended host may have performed. The records of such hosts stay until the journal has
/// the outcome of each step, so that the next daemon does not perform a begun step again.
#[derive(Debug, Default)]
struct UncertainSteps {
    /// Records of the hosts that had ended when this daemon started.
    records: Vec<HostRecord>,
    /// Sockets of hosts that have ended since.
    sockets: Vec<PathBuf>,
    /// The steps. `None` until this daemon knows the runs of the last one.
    steps: Option<BTreeSet<String>>,
}

#[derive(Default)]
struct Table {
    hosts: Vec<KnownHost>,
    /// Hosts of known terminals.
    host_by_terminal: HashMap<TerminalId, Host>,
    /// Hosts that have neither answered nor ended since this daemon started.
    silent: Vec<SilentHost>,
    /// Terminals that ended with their host, and the host's process id, oldest first.
    lost: VecDeque<(TerminalId, u32)>,
}

/// A host that listens but does not answer, such as a stopped process.
#[derive(Debug, Clone)]
struct SilentHost {
    socket: PathBuf,
    record: Option<HostRecord>,
}

impl SilentHost {
    /// Returns the process id of the host; 0 if it is unknown.
    fn pid(&self) -> u32 {
        self.record.as_ref().map_or(0, |record| record.pid)
    }
}

#[derive(Clone)]
struct KnownHost {
    host: Host,
    state: HostState,
    /// The name of its socket.
    socket: String,
}

/// Time limit for the exit of a host.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of remembered lost terminals.
const MAX_LOST_TERMINALS: usize = 1000;

/// Poll interval for a host that sends no events: an older or a silent one.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Time limit for an answer that does not concern one terminal. Every client of the daemon may wait for the answer, and
/// a stopped host never sends it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends a request and waits at most [`ANSWER_TIMEOUT`] for the answer.
pub(crate) async fn ask_with_timeout<T: DeserializeOwned + Send + 'static>(
    host: &Host,
    request: &HostRequest,
) -> Result<T, AskError> {
    let pid = host.greeting().pid;
    tokio::time::timeout(ANSWER_TIMEOUT, host.ask(request)).await.unwrap_or_else(|_| {
        tracing::warn!(pid, "a terminal host does not answer");
        Err(AskError::HostSilent { pid })
    })
}

/// Time limit for a list of a host that did not answer the previous list request. Longer than the round trip to a
/// distant machine.
const SILENT_LIST_TIMEOUT: Duration = Duration::from_secs(2);

/// Requests the terminals of a remote host, see [`ask_with_timeout`]. Waits for a silent host at most
/// [`SILENT_LIST_TIMEOUT`]. A later answer still ends the silence, so that the next list waits longer for a slow host.
pub(crate) async fn list_with_timeout<T: DeserializeOwned + Send + 'static>(host: &Host) -> Result<T, AskError> {
    let silent_error = || AskError::HostSilent { pid: host.greeting().pid };
    let was_silent = host.is_silent();
    let listing = tokio::spawn({
        let host = host.clone();
        async move {
            let reply = ask_with_timeout(&host, &HostRequest::List).await;
            host.record_silence(matches!(reply, Err(AskError::HostSilent { .. })));
            reply
        }
    });
    let reply = match was_silent {
        true => tokio::time::timeout(SILENT_LIST_TIMEOUT, listing).await.map_err(|_| silent_error())?,
        false => listing.await,
    };
    reply.map_err(|_| silent_error())?
}

/// Returns the first terminal that a host on this computer finds.
async fn find_terminal(hosts: Vec<Host>, request: HostRequest) -> Result<Option<HostedTerminal>, AskError> {
    let request = Arc::new(request);
    let mut requests = JoinSet::new();
    for host in hosts {
        let request = request.clone();
        requests.spawn(async move {
            let id = ask_with_timeout::<Option<TerminalId>>(&host, &request).await;
            id.map(|id| id.map(|id| HostedTerminal::new(host, id)))
        });
    }
    let mut silent = None;
    while let Some(Ok(found)) = requests.join_next().await {
        match found {
            Ok(Some(found)) => return Ok(Some(found)),
            Err(error @ AskError::HostSilent { .. }) => silent = Some(error),
            // An ended host has no terminals, and an older host may not know the request.
            Ok(None) | Err(_) => {}
        }
    }
    silent.map_or(Ok(None), Err)
}

/// State that a client has seen with [`Hosts::watch_activity`].
#[derive(Debug, Default)]
pub struct SeenActivity {
    /// Activity count of each host, by the number of its connection.
    counts: HashMap<u64, u64>,
    /// Number of changes of the table's hosts, and of the connections to remote hosts.
    table: Option<(u64, u64)>,
}

/// Value of [`TERMINAL_VARIABLE`] in the environment of a host.
const HOST_MARK: &str = "host";

impl Hosts {
    /// Finds the hosts that listen in `socket_dir`, and the hosts with a record in `records_dir`. Starts no host.
    /// `on_secret` receives every text that users have hidden in the hosts' terminals.
    ///
    /// # Errors
    /// If reading a directory fails.
    #[boxed]
    pub async fn find(
        role: Role,
        socket_dir: &Path,
        records_dir: &Path,
        starter: Starter,
        version: &str,
        on_secret: impl Fn(SecretText) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let hosts = Self {
            shared: Arc::new(Shared {
                role,
                socket_dir: socket_dir.to_owned(),
                records_dir: records_dir.to_owned(),
                starter,
                version: version.to_owned(),
                on_secret: Arc::new(on_secret),
                table: Mutex::default(),
                has_missed_steps: AtomicBool::new(false),
                uncertain_steps: Mutex::default(),
                repeated_steps: Mutex::default(),
                starting: tokio::sync::Mutex::default(),
                changed: watch::Sender::default(),
                remote: OnceLock::new(),
            }),
        };
        let mut sockets: Vec<PathBuf> = std::fs::read_dir(socket_dir)?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_socket))
            .collect();
        let known_records = records::all(records_dir)?;
        sockets.extend(known_records.iter().map(|record| record.socket.clone()));
        sockets.sort();
        sockets.dedup();
        for socket in sockets {
            let record = known_records.iter().find(|record| record.socket == socket);
            if let Some(record) = record.filter(|record| !record.socket.exists() && record.is_alive()) {
                // The directory of its socket was removed, as by a logout.
                record.listen_again().await;
            }
            let mut connected = Host::connect(&socket, role, &hosts.shared.on_secret).await;
            // The socket exists shortly before the host listens.
            for _ in 0..records::MAX_POLLS {
                let is_refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
                match (&connected, record.filter(|record| record.is_alive())) {
                    (Err(error), Some(record)) if is_refused(error) => record.wait_poll_interval().await,
                    _ => break,
                }
                connected = Host::connect(&socket, role, &hosts.shared.on_secret).await;
            }
            match connected {
                Ok(host) => hosts.adopt(host, None, socket).await,
                Err(error) if has_ended(&error) => hosts.shared.record_ended(&socket, record),
                Err(error) => {
                    tracing::warn!(%error, socket = %socket.display(), "a terminal host does not answer");
                    let silent = SilentHost { socket, record: record.cloned() };
                    hosts.lock().silent.push(silent.clone());
                    tokio::spawn(Shared::follow_silent(Arc::downgrade(&hosts.shared), silent));
                }
            }
        }
        Ok(hosts)
    }

    /// Starts a host if there is none for new terminals, so that the first terminal opens faster.
    ///
    /// # Errors
    /// If its start fails.
    #[boxed]
    pub async fn prepare(&self) -> Result<(), HostsError> {
        self.current().await.map(drop)
    }

    /// Enables connections to remote hosts. Called once.
    pub fn enable_remote(&self, setup: RemoteSetup) {
        // Ignore a second setup, because the connections of the first setup would lose their owner.
        let _ = self.shared.remote.set(RemoteHosts::new(setup));
    }

    /// Sets the configured machines and connects to the machines with terminals.
    pub fn configure_remotes(&self, configs: &[RemoteHostConfig]) {
        if let Some(remote) = self.shared.remote.get() {
            remote.configure(configs);
        }
    }

    /// Waits until the configuration contains this remote host.
    #[boxed]
    pub async fn await_remote(&self, config: &RemoteHostConfig) {
        let Some(remote) = self.shared.remote.get() else { return };
        let mut remote_changed = remote.follow();
        while !remote.status().iter().any(|status| status.config == *config) {
            // `changed` cannot fail: `remote` owns the sender.
            let _ = remote_changed.changed().await;
        }
    }

    /// Returns the status of the configured machines.
    #[must_use]
    pub fn remote_status(&self) -> Vec<RemoteHostStatus> {
        self.shared.remote.get().map(RemoteHosts::status).unwrap_or_default()
    }

    /// Connects to a machine, unless it is connected, and starts a terminal host there if there is none.
    ///
    /// # Errors
    /// If there is no such machine, it cannot be reached within `timeout`, or a person has to act first.
    #[boxed]
    pub async fn reach_remote(&self, name: &str, timeout: Duration) -> Result<(), RemoteError> {
        self.remote(name)?.find_machine(name)?.current(timeout).await.map(drop)
    }

    /// Connects to a machine immediately, for a person, and reports any failure.
    ///
    /// # Errors
    /// If there is no such machine, or the first attempt does not reach it within `timeout`.
    #[boxed]
    pub async fn check_remote(&self, name: &str, timeout: Duration) -> Result<RemoteHostStatus, RemoteError> {
        self.remote(name)?.check(name, timeout).await
    }

    /// Returns the current target of a connection to a machine.
    ///
    /// # Errors
    /// If there is no such machine, or `ssh` does not report it.
    #[boxed]
    pub async fn remote_target(&self, name: &str) -> Result<HostTarget, RemoteError> {
        self.remote(name)?.target(name).await
    }

    /// Returns the target of the last connection to a machine, if known.
    ///
    /// # Errors
    /// If there is no such machine.
    pub fn dialed_target(&self, name: &str) -> Result<Option<HostTarget>, RemoteError> {
        self.remote(name)?.dialed(name)
    }

    /// Returns the remote host of a terminal, if this computer has a record of the terminal.
    #[must_use]
    pub fn machine_of(&self, id_or_name: &str) -> Option<String> {
        self.shared.remote.get()?.find_noted_terminal(id_or_name)?.machine().map(str::to_owned)
    }

    fn remote(&self, name: &str) -> Result<&RemoteHosts, RemoteError> {
        let unknown = || RemoteError::Unknown { name: name.to_owned(), hosts: Vec::new() };
        self.shared.remote.get().ok_or_else(unknown)
    }

    /// Opens a terminal on this computer.
    ///
    /// # Errors
    /// If no host starts, or the host does not open the terminal.
    #[boxed]
    pub async fn open(&self, spec: Spec) -> Result<(HostedTerminal, OpenedTerminal), HostsError> {
        self.open_on(spec, None, CLIENT_CONNECT_TIMEOUT, PlacePolicy::AtOnce).await
    }

    /// Opens a terminal, on a remote host if `machine` names one. `timeout` is the time to wait for a machine
    /// without a connection.
    ///
    /// # Errors
    /// If the machine cannot be reached, no host starts, or the host does not open the terminal.
    #[boxed]
    pub async fn open_on(
        &self,
        spec: Spec,
        machine: Option<&str>,
        timeout: Duration,
        place: PlacePolicy,
    ) -> Result<(HostedTerminal, OpenedTerminal), HostsError> {
        // If the step was begun before, its own terminal may have the name already.
        let is_known = spec
            .step
            .as_deref()
            .is_some_and(|step| self.has_requested_opening(step) || self.host_with_step(step).is_some());
        if let Some(name) = spec.name.as_ref().filter(|_| !is_known) {
            let (mut others, remote_terminal) =
                (self.older(), self.shared.remote.get().and_then(|remote| remote.find_noted_terminal(name)));
            if machine.is_some() {
                others.extend(self.find_current());
            }
            let name_holder = match remote_terminal {
                Some(terminal) => Some(terminal.id().clone()),
                None => {
                    find_terminal(others, HostRequest::Find(name.clone())).await?.map(|terminal| terminal.id().clone())
                }
            };
            if let Some(by) = name_holder {
                return Err(OpenRefused::NameTaken { name: name.clone(), by }.into());
            }
        }
        let Some(machine) = machine else {
            let step = spec.step.clone();
            let request = HostRequest::Open(Box::new(OpenRequest::from(spec).at(place)));
            let (host, terminal) = loop {
                let host = self.host_for(step.as_deref()).await?;
                match host.ask::<Result<OpenedTerminal, OpenRefused>>(&request).await {
                    // An earlier daemon has retired this host.
                    Err(AskError::Refused(Refusal::Retiring)) => {
                        self.set_older(&host);
                        step.iter().for_each(|step| host.forget_step(step));
                    }
                    result => break (host, result??),
                }
            };
            self.lock().host_by_terminal.insert(terminal.id.clone(), host.clone());
            return Ok((HostedTerminal::new(host, terminal.id.clone()), terminal));
        };
        self.open_remote(spec, machine, timeout, place).await
    }

    /// Opens a terminal on a remote host. Records the opening before the request, because only recorded terminals are
    /// accepted from that machine.
    async fn open_remote(
        &self,
        spec: Spec,
        machine: &str,
        timeout: Duration,
        place: PlacePolicy,
    ) -> Result<(HostedTerminal, OpenedTerminal), HostsError> {
        let remote = self.remote(machine)?;
        let machine = remote.find_machine(machine)?;
        let step = spec.step.clone().unwrap_or_else(random_name);
        let host = machine.host_for(&step, timeout).await?;
        let opening = machine.begin_opening(&step, &host, &spec).await;
        let spec = Spec { step: Some(step.clone()), ..spec };
        let request = OpenRequest::for_remote_host(spec.clone()).at(place);
        let request = HostRequest::Open(Box::new(request));
        let keeper = Keeper::Remote(host.clone());
        let terminal = match keeper.ask::<Result<OpenedTerminal, OpenRefused>>(&request, timeout).await {
            Ok(Ok(terminal)) => terminal,
            Ok(Err(refusal)) => {
                machine.abandon_opening(&step).await;
                return Err(refusal.into());
            }
            Err(error) => {
                // Only the host's refusal proves that it has executed no earlier request.
                if error.is_answer() || (opening.is_first && !error.is_outcome_unknown()) {
                    machine.abandon_opening(&step).await;
                }
                // The host retires and has not received the request of an earlier daemon: try another host.
                if matches!(error, AskError::Refused(Refusal::Retiring)) && !host.opens_new() {
                    return Box::pin(self.open_remote(spec, machine.config().name.as_str(), timeout, place)).await;
                }
                return Err(error.into());
            }
        };
        let name = machine.config().name.as_str();
        // `is_here` also covers known terminals of silent hosts.
        let is_here = self.is_here(&terminal.id)
            || find_terminal(self.reachable(), HostRequest::Find(terminal.id.to_string()))
                .await
                .is_ok_and(|found| found.is_some());
        let is_taken = |id: &TerminalId| is_here || remote.is_elsewhere(id, name);
        machine.record_opened(&step, &terminal, is_taken).await.map_err(|what| keeper.implausible(what))?;
        let requested = Opening::new(host.socket(), &spec).description(terminal.id.clone(), terminal.pid);
        Ok((HostedTerminal::on_machine(host, requested), terminal))
    }

    /// Returns whether this computer has a terminal with this id, open or lost.
    fn is_here(&self, id: &TerminalId) -> bool {
        let table = self.lock();
        table.host_by_terminal.contains_key(id) || table.lost.iter().any(|(lost, _)| lost == id)
    }

    /// Returns the files of this or a remote host. `timeout` is the time that a request waits for a machine without a
    /// connection. `step` is the step that writes one of the files; the terminal host of the machine ensures that the
    /// step writes only once.
    ///
    /// # Errors
    /// If the machine cannot be reached, or has no terminal host.
    #[boxed]
    pub async fn files(
        &self,
        machine: Option<&str>,
        timeout: Duration,
        step: Option<String>,
    ) -> Result<MachineFiles, HostsError> {
        let Some(machine) = machine else {
            return Ok(match step {
                Some(step) => {
                    let host = self.host_for(Some(&step)).await?;
                    MachineFiles::written_once(Keeper::Local(host), timeout, step)
                }
                None => MachineFiles::local(),
            });
        };
        let machine = self.remote(machine)?.find_machine(machine)?;
        let host = match &step {
            Some(step) => machine.host_for(step, timeout).await?,
            None => machine.current(timeout).await?,
        };
        let is_first = match &step {
            Some(step) => machine.begin_write(step, &host).await,
            None => true,
        };
        Ok(MachineFiles::remote(host, timeout, step, is_first))
    }

    /// Returns the steps of runs whose results the connected hosts keep, and the steps of ended remote hosts. `queried`
    /// has the numbers of connections that were queried before; their hosts are skipped.
    #[boxed]
    pub async fn unsettled(&self, queried: &mut BTreeSet<u64>) -> Vec<String> {
        let mut steps = self.shared.remote.get().map(RemoteHosts::lost_steps).unwrap_or_default();
        for host in self.connected().into_iter().filter(|host| queried.insert(host.number())) {
            match tokio::time::timeout(ANSWER_TIMEOUT, host.unsettled()).await {
                Ok(Ok(unsettled)) => steps.extend(unsettled),
                // The host keeps the results for a later query.
                Ok(Err(_)) | Err(_) => tracing::warn!(pid = host.greeting().pid, "a terminal host does not answer"),
            }
        }
        steps
    }

    /// Records that this daemon has stored the results of `steps`, or has abandoned the steps. `steps` is one step, or
    /// a prefix of steps that ends with `/`. Closes the terminals of their single commands. Does not wait for the
    /// hosts.
    pub fn settle(&self, steps: &str) {
        self.reachable().iter().for_each(|host| host.settle(steps));
        if let Some(remote) = self.shared.remote.get() {
            remote.settle(steps);
        }
        self.shared.repeated_steps.lock().retain(|step| !names_step(steps, step));
        let mut uncertain_steps = self.shared.uncertain_steps.lock();
        if let Some(doubted) = &mut uncertain_steps.steps {
            doubted.retain(|step| !names_step(steps, step));
        }
        self.shared.remove_settled_records(&mut uncertain_steps);
    }

    /// Records the steps that the runs of the last daemon wait for; they are in doubt if a host has ended since. With
    /// `are_all`, later daemons consider no other steps uncertain because of the hosts that have ended so far.
    pub fn mark_uncertain(&self, pending: BTreeSet<String>, are_all: bool) {
        let mut uncertain_steps = self.shared.uncertain_steps.lock();
        for record in uncertain_steps.records.iter_mut().filter(|record| are_all && record.doubted.is_none()) {
            record.doubted = Some(pending.clone());
            if let Err(error) = records::record_uncertain_steps(&self.shared.records_dir, record) {
                tracing::warn!(%error, "failed to record the steps of an ended terminal host");
            }
        }
        uncertain_steps.steps.get_or_insert_default().extend(pending);
        self.shared.remove_settled_records(&mut uncertain_steps);
    }

    /// Abandons a step: cancels its effects in progress if possible, and closes the shells of its single commands. Does
    /// not wait for the hosts. Sends the step of a run to a remote host only if the step was requested there, because a
    /// third machine may have claimed the name of the step.
    pub fn give_up(&self, step: &str) {
        let hosts = match self.shared.remote.get() {
            Some(remote) if is_of_run(step) => {
                let opening = remote.opening(step).into_iter().flat_map(|machine| machine.sessions());
                self.reachable().into_iter().chain(opening).collect()
            }
            _ => self.connected(),
        };
        hosts.iter().for_each(|host| host.give_up(step));
    }

    /// Records that an earlier daemon may have begun a step.
    pub fn record_repeated(&self, step: &str) {
        self.shared.repeated_steps.lock().insert(step.to_owned());
    }

    /// Undoes [`Self::record_repeated`].
    pub fn forget_repeated(&self, step: &str) {
        self.shared.repeated_steps.lock().remove(step);
    }

    /// Returns whether an earlier daemon may have begun an unsettled step. If the step's host cannot be reached, the
    /// outcome is unknown.
    #[must_use]
    pub fn is_repeated(&self, step: &str) -> bool {
        self.shared.repeated_steps.lock().contains(step)
    }

    /// Returns whether a step has requested a terminal on a remote host, and the host has not refused the request.
    #[must_use]
    pub fn has_requested_opening(&self, step: &str) -> bool {
        self.shared.remote.get().is_some_and(|remote| remote.opening(step).is_some())
    }

    /// Returns the host on this computer that has an unsettled effect of this step.
    fn host_with_step(&self, step: &str) -> Option<Host> {
        self.reachable().into_iter().find(|host| host.knows(step))
    }

    /// Returns the host with an unsettled effect of this step, else the current host.
    ///
    /// # Errors
    /// If no host starts, or a host that may have begun a repeated step does not answer or has ended.
    async fn host_for(&self, step: Option<&str>) -> Result<Host, HostsError> {
        let unknown = || HostsError::HostRequest(AskError::Refused(Refusal::OutcomeUnknown));
        let repeated = step.filter(|step| self.is_repeated(step));
        if repeated.is_some() {
            self.await_silent_briefly().await.map_err(|_| unknown())?;
        }
        if let Some(host) = step.and_then(|step| self.host_with_step(step)) {
            return Ok(host);
        }
        if let Some(step) = repeated {
            if let Some(host) = self.find_older_with_step(step).await.map_err(|_| unknown())? {
                return Ok(host);
            }
            if self.is_in_doubt(step) {
                return Err(unknown());
            }
        }
        self.current().await
    }

    /// Returns the older host that has performed an effect of a step for an earlier daemon. Queries the hosts, because
    /// lists of unsettled steps lack the steps of clients.
    ///
    /// # Errors
    /// If an older host does not answer, or does not know the request.
    async fn find_older_with_step(&self, step: &str) -> Result<Option<Host>, AskError> {
        for host in self.older() {
            if ask_with_timeout(&host, &HostRequest::HasStep(step.to_owned())).await? {
                return Ok(Some(host));
            }
        }
        Ok(None)
    }

    /// Waits until each host that was silent at the start of this daemon has answered or ended. Until then, a silent
    /// host may have performed any step of an earlier daemon.
    #[boxed]
    pub async fn await_silent(&self) {
        let mut changed = self.shared.changed.subscribe();
        while self.silent_pid().is_some() {
            // `changed` cannot fail: `self` owns the sender.
            let _ = changed.changed().await;
        }
    }

    /// Waits for silent hosts, at most [`ANSWER_TIMEOUT`].
    ///
    /// # Errors
    /// If one of the hosts still does not answer.
    async fn await_silent_briefly(&self) -> Result<(), AskError> {
        let Some(pid) = self.silent_pid() else { return Ok(()) };
        tokio::time::timeout(ANSWER_TIMEOUT, self.await_silent()).await.map_err(|_| AskError::HostSilent { pid })
    }

    /// Returns the process id of a host that has been silent since the start of this daemon; 0 if unknown.
    #[must_use]
    pub fn silent_pid(&self) -> Option<u32> {
        self.lock().silent.first().map(SilentHost::pid)
    }

    /// Returns whether the result of a step of the last daemon may be lost with its host.
    #[must_use]
    pub fn is_in_doubt(&self, step: &str) -> bool {
        let is_recorded = || {
            let uncertain_steps = self.shared.uncertain_steps.lock();
            uncertain_steps
                .records
                .iter()
                .any(|record| record.doubted.as_ref().is_some_and(|steps| steps.contains(step)))
        };
        // Only hosts on this computer count, not the claims of remote hosts.
        (self.shared.has_missed_steps.load(Ordering::Relaxed) || is_recorded()) && self.host_with_step(step).is_none()
    }

    /// Returns the reachable hosts on this computer, and the hosts on connected machines.
    fn connected(&self) -> Vec<Host> {
        let mut hosts = self.reachable();
        hosts.extend(
            self.shared.remote.get().map(RemoteHosts::connected).unwrap_or_default().into_iter().map(|(_, host)| host),
        );
        hosts
    }

    /// Returns the terminal with this id or name; a terminal found by its id may have closed. Terminals of this
    /// computer take precedence. Other machines receive no request: their terminals are found in the records of this
    /// computer.
    ///
    /// # Errors
    /// If no host has such a terminal, and a host that may have it does not answer.
    #[boxed]
    pub async fn get(&self, id_or_name: &str) -> Result<Option<HostedTerminal>, AskError> {
        let reachable = self.reachable();
        let remote = self.shared.remote.get().and_then(|remote| remote.find_noted_terminal(id_or_name));
        if let Ok(id) = id_or_name.parse::<TerminalId>() {
            if let Some(host) = self.lock().host_by_terminal.get(&id).cloned() {
                return Ok(Some(HostedTerminal::new(host, id)));
            }
            // Records of remote terminals never have the id of a terminal here.
            if remote.is_some() {
                return Ok(remote);
            }
            if let ([host], None) = (reachable.as_slice(), self.silent_pid()) {
                return Ok(Some(HostedTerminal::new(host.clone(), id)));
            }
        }
        let request = HostRequest::Find(id_or_name.to_owned());
        let found = match remote.is_some() || self.is_lost(id_or_name) {
            true => find_terminal(reachable, request).await,
            false => self.find_with_silent(request).await,
        };
        match found {
            Ok(None) => Ok(remote),
            // A silent host does not matter, because the name was free here when the remote terminal received it.
            Err(_) if remote.is_some() => Ok(remote),
            found => found,
        }
    }

    /// Returns the terminal that a step opened, even if it has closed since on this computer. Waits for an opening in
    /// progress. An older host that does not know the request is assumed to have opened none.
    ///
    /// # Errors
    /// If no host knows the step, and a host that may have opened its terminal does not answer.
    #[boxed]
    pub async fn opened_by(&self, step: &str) -> Result<Option<HostedTerminal>, AskError> {
        let remote = self.shared.remote.get();
        if let Some((remote, machine)) = remote.and_then(|remote| Some((remote, remote.opening(step)?))) {
            let name = machine.config().name.as_str();
            return machine.opened_by(step, |id| self.is_here(id) || remote.is_elsewhere(id, name)).await;
        }
        self.find_with_silent(HostRequest::OpenedBy(step.to_owned())).await
    }

    /// Returns the first terminal that a host of this computer finds. If none does, waits briefly for silent hosts and
    /// tries again.
    async fn find_with_silent(&self, request: HostRequest) -> Result<Option<HostedTerminal>, AskError> {
        let found = find_terminal(self.reachable(), request.clone()).await?;
        if found.is_some() || self.silent_pid().is_none() {
            return Ok(found);
        }
        self.await_silent_briefly().await?;
        find_terminal(self.reachable(), request).await
    }

    /// Returns whether this terminal ended with its host.
    fn is_lost(&self, id: &str) -> bool {
        self.lock().lost.iter().any(|(lost, _)| lost.as_str() == id)
    }

    /// Returns the ended host that took this terminal with it, if any.
    #[must_use]
    pub fn lost_host(&self, id: &str) -> Option<LostHost> {
        let here = self.lock().lost.iter().find(|(lost, _)| lost.as_str() == id).map(|(_, pid)| *pid);
        match here {
            Some(pid) => Some(LostHost { pid, machine: None }),
            None => {
                let (machine, pid) = self.shared.remote.get()?.lost_with(id)?;
                Some(LostHost { pid, machine: Some(machine) })
            }
        }
    }

    /// Describes all open terminals, oldest first. Terminals on a machine without a connection have their last known
    /// state.
    #[boxed]
    pub async fn list(&self) -> Vec<ListedTerminal> {
        let mut all = Vec::new();
        for host in self.reachable() {
            // Skip a host that has just ended, or is stopped.
            let Ok(descriptions) = ask_with_timeout::<Vec<Description>>(&host, &HostRequest::List).await else {
                continue;
            };
            // A terminal that its host no longer lists has closed. Such a terminal will not be treated as lost with the
            // host.
            let pid = host.greeting().pid;
            self.lock().host_by_terminal.retain(|id, keeper| {
                keeper.greeting().pid != pid || descriptions.iter().any(|terminal| terminal.id == *id)
            });
            all.extend(descriptions.into_iter().map(|description| ListedTerminal { description, place: None }));
        }
        if let Some(remote) = self.shared.remote.get() {
            let remote_terminals = remote.list(&|id| self.is_here(id)).await.into_iter();
            all.extend(remote_terminals.map(|(description, place)| ListedTerminal { description, place: Some(place) }));
        }
        all.sort_by_key(|terminal| terminal.description.created);
        all
    }

    /// Waits until something may have changed the state of a terminal since the last call with the same `seen`. Safe to
    /// drop and call again.
    #[boxed]
    pub async fn watch_activity(&self, seen: &mut SeenActivity) {
        loop {
            let mut changed = self.shared.changed.subscribe();
            let remote = self.shared.remote.get();
            let mut remote_changed = remote.map(RemoteHosts::follow);
            let mut hosts = self.reachable();
            hosts.extend(remote.map(RemoteHosts::connected).unwrap_or_default().into_iter().map(|(_, host)| host));
            let table = (
                *changed.borrow_and_update(),
                remote_changed.as_mut().map_or(0, |changed| *changed.borrow_and_update()),
            );
            if seen.table != Some(table) {
                seen.table = Some(table);
                seen.counts.retain(|number, _| hosts.iter().any(|host| host.number() == *number));
                return;
            }
            let mut requests = JoinSet::new();
            for host in hosts {
                let number = host.number();
                let known = seen.counts.get(&number).copied();
                requests.spawn(async move {
                    match host.ask::<u64>(&HostRequest::WatchActivity(known)).await {
                        Ok(count) => (number, count),
                        Err(AskError::Refused(Refusal::NotUnderstood)) => {
                            tokio::time::sleep(POLL_INTERVAL).await;
                            (number, 0)
                        }
                        // The table changes soon after the end of the host.
                        Err(_) => std::future::pending().await,
                    }
                });
            }
            tokio::select! {
                Some(Ok((number, count))) = requests.join_next() => {
                    seen.counts.insert(number, count);
                    return;
                }
                // `changed` cannot fail: `self` owns the senders.
                _ = changed.changed() => {}
                () = async {
                    match &mut remote_changed {
                        Some(remote_changed) => drop(remote_changed.changed().await),
                        None => std::future::pending().await,
                    }
                } => {}
            }
        }
    }

    /// Returns a future that ends at the first change of the hosts, here or on remote hosts, after this call.
    pub fn changed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut changed = self.shared.changed.subscribe();
        let mut remote_changed = self.shared.remote.get().map(RemoteHosts::follow);
        async move {
            let remote_change = async {
                match &mut remote_changed {
                    Some(remote_changed) => drop(remote_changed.changed().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = changed.changed() => {}
                () = remote_change => {}
            }
        }
    }

    /// Hides texts in all output, also for later daemons. A stopped host executes the requests once it continues,
    /// before any later request.
    #[boxed]
    pub async fn remember(&self, secrets: &[SecretText]) {
        let mut requests = JoinSet::new();
        for host in self.reachable() {
            for secret in secrets {
                let (host, request) = (host.clone(), HostRequest::Remember(secret.clone()));
                // Ignore the error, because an ended host sends no output.
                requests.spawn(async move { drop(ask_with_timeout::<()>(&host, &request).await) });
            }
        }
        requests.join_all().await;
    }

    /// Returns the status of the hosts.
    #[boxed]
    pub async fn status(&self) -> Vec<HostStatus> {
        let (hosts, silent) = {
            let table = self.lock();
            (table.hosts.clone(), table.silent.clone())
        };
        let mut status = Vec::with_capacity(hosts.len() + silent.len());
        for KnownHost { host, state, .. } in hosts {
            let greeting = host.greeting();
            let terminals = match state {
                HostState::Foreign => greeting.terminals,
                _ => ask_with_timeout::<Vec<Description>>(&host, &HostRequest::List).await.map_or(0, |all| all.len()),
            };
            let (pid, version, wire) = (greeting.pid, greeting.version.clone(), greeting.wire);
            status.push(HostStatus { pid, version, wire, terminals, state });
        }
        status.extend(silent.iter().map(|silent| HostStatus {
            pid: silent.pid(),
            version: String::new(),
            wire: 0,
            terminals: 0,
            state: HostState::Silent,
        }));
        status
    }

    /// Returns the names of the sockets of the hosts that answer, and their roles.
    pub(crate) fn listening(&self) -> Vec<(String, HostState)> {
        let table = self.lock();
        table.hosts.iter().map(|known| (known.socket.clone(), known.state)).collect()
    }

    /// Returns the process ids of all known hosts, also of silent and foreign ones.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let table = self.lock();
        let hosts = table.hosts.iter().map(|known| known.host.greeting().pid);
        hosts.chain(table.silent.iter().map(SilentHost::pid)).collect()
    }

    /// Closes every terminal and ends every host, also hosts of another protocol version. A host that does not answer
    /// receives SIGTERM and SIGCONT.
    #[boxed]
    pub async fn shut_down(&self) {
        let (hosts, silent) = {
            let mut table = self.lock();
            (std::mem::take(&mut table.hosts), std::mem::take(&mut table.silent))
        };
        silent.iter().map(SilentHost::pid).filter(|pid| *pid != 0).for_each(end_process);
        let ending = hosts.into_iter().map(|KnownHost { host, state, .. }| {
            tokio::spawn(async move {
                // Other errors mean that the host has ended already.
                let silent = || async {
                    matches!(
                        ask_with_timeout::<()>(&host, &HostRequest::Shutdown).await,
                        Err(AskError::HostSilent { .. })
                    )
                };
                if state == HostState::Foreign || silent().await {
                    end_process(host.greeting().pid);
                }
                if tokio::time::timeout(SHUTDOWN_TIMEOUT, host.wait_until_lost()).await.is_err() {
                    tracing::error!(
                        pid = host.greeting().pid,
                        "a terminal host does not exit; its terminals stay open"
                    );
                }
            })
        });
        for request in ending.collect::<Vec<_>>() {
            let _ = request.await;
        }
    }

    /// Records that a host opens no new terminals.
    fn set_older(&self, host: &Host) {
        let mut table = self.lock();
        let known = table.hosts.iter_mut().find(|known| known.host.number() == host.number());
        known.into_iter().for_each(|known| known.state = HostState::Older);
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Table> {
        self.shared.table.lock()
    }

    fn reachable(&self) -> Vec<Host> {
        let table = self.lock();
        table.hosts.iter().filter(|known| known.state != HostState::Foreign).map(|known| known.host.clone()).collect()
    }

    fn older(&self) -> Vec<Host> {
        let table = self.lock();
        table.hosts.iter().filter(|known| known.state == HostState::Older).map(|known| known.host.clone()).collect()
    }

    fn find_current(&self) -> Option<Host> {
        let table = self.lock();
        let current = table.hosts.iter().find(|known| known.state == HostState::Current && !known.host.is_lost());
        current.map(|known| known.host.clone())
    }

    async fn current(&self) -> Result<Host, HostsError> {
        if let Some(host) = self.find_current() {
            return Ok(host);
        }
        let _start_guard = self.shared.starting.lock().await;
        if let Some(host) = self.find_current() {
            return Ok(host);
        }
        let starter = &self.shared.starter;
        match (self.start_and_connect(starter).await, starter.fallback()) {
            (Err(error), Some(fallback)) if error.kind() != io::ErrorKind::TimedOut => {
                tracing::warn!(%error, "the first program did not start a terminal host; starting the fallback");
                self.start_and_connect(&fallback).await
            }
            (started, _) => started,
        }
        .map_err(HostsError::NotStarted)
    }

    /// Starts a host and connects to it. Removes the files of a failed host, but not of a slow one, because a later
    /// search finds a slow host.
    async fn start_and_connect(&self, starter: &Starter) -> io::Result<Host> {
        let socket = self.shared.socket_dir.join(socket_name());
        let mut child = self.start(starter, &socket)?;
        let pid = child.as_ref().map_or_else(std::process::id, Child::id);
        records::add(&self.shared.records_dir, &socket, pid)?;
        let start_time = match starter {
            Starter::Program { start_time, .. } => *start_time,
            Starter::InProcess(_) | Starter::Custom(_) => START_TIME,
        };
        match Host::connect_within(start_time, &socket, self.shared.role, &self.shared.on_secret).await {
            Ok(host) => {
                self.adopt(host.clone(), child, socket).await;
                Ok(host)
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(error),
            Err(error) => {
                // The host has failed, so no process listens on the socket.
                let _ = std::fs::remove_file(&socket);
                records::remove(&self.shared.records_dir, &socket);
                if let Some(mut child) = child.take() {
                    // Ignore the error, because the process may have ended already.
                    let _ = child.kill();
                    let _ = tokio::task::spawn_blocking(move || child.wait()).await;
                }
                Err(error)
            }
        }
    }

    /// Starts a host that listens at `socket`. The socket is created first, so that it accepts connections immediately.
    fn start(&self, starter: &Starter, socket: &Path) -> io::Result<Option<Child>> {
        let listener = StdUnixListener::bind(socket)?;
        std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
        match starter {
            Starter::Program { program, arguments, log, .. } => {
                let log = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
                let child = Command::new(program)
                    .args(arguments)
                    .current_dir("/")
                    // The host does not belong to a terminal, even if it is started in one. The mark tells every daemon
                    // that descendants of the host run in a kept terminal.
                    .env(TERMINAL_VARIABLE, HOST_MARK)
                    .stdin(Stdio::from(OwnedFd::from(listener)))
                    .stdout(Stdio::null())
                    .stderr(Stdio::from(log))
                    .spawn();
                if child.is_err() {
                    // Clients would wait for a host on this socket.
                    let _ = std::fs::remove_file(socket);
                }
                child.map(Some)
            }
            Starter::InProcess(options) => {
                listener.set_nonblocking(true)?;
                let listener = UnixListener::from_std(listener)?;
                let terminals = Terminals::new((**options).clone())?;
                let identity = Identity { version: self.shared.version.clone() };
                tokio::spawn(serve(listener, terminals, identity, Arc::default()));
                Ok(None)
            }
            Starter::Custom(starter) => starter.start(listener).map(|()| None),
        }
    }

    /// Adds a host to the table and watches for its end.
    async fn adopt(&self, host: Host, child: Option<Child>, socket: PathBuf) {
        let greeting = host.greeting();
        // Use a host that was just started, even if the program on disk has another version already.
        let is_compatible = greeting.version == self.shared.version || child.is_some();
        let state = match (host.is_understood(), is_compatible, self.find_current()) {
            (false, ..) => HostState::Foreign,
            (true, true, None) => HostState::Current,
            (true, ..) => HostState::Older,
        };
        match state {
            HostState::Current | HostState::Silent => {}
            HostState::Older => {
                tracing::info!(
                    pid = greeting.pid,
                    version = greeting.version,
                    "a terminal host of an older version runs until its last terminal ends"
                );
                // Ignore the error, because the host has ended, or executes the request once it continues.
                let _ = ask_with_timeout::<()>(&host, &HostRequest::Retire).await;
            }
            HostState::Foreign => tracing::warn!(
                pid = greeting.pid,
                version = greeting.version,
                wire = greeting.wire,
                terminals = greeting.terminals,
                "a terminal host speaks another version; its terminals continue and can be reached with that version"
            ),
        }
        if state != HostState::Foreign {
            let terminals: Vec<Description> = ask_with_timeout(&host, &HostRequest::List).await.unwrap_or_default();
            self.lock().host_by_terminal.extend(terminals.into_iter().map(|terminal| (terminal.id, host.clone())));
        }
        let name = socket.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.lock().hosts.push(KnownHost { host: host.clone(), state, socket: name });
        self.shared.changed.send_modify(|changed| *changed += 1);
        let hosts = Arc::downgrade(&self.shared);
        let (pid, lost_host) = (greeting.pid, host.clone());
        drop(host);
        tokio::spawn(async move {
            lost_host.wait_until_lost().await;
            if let Some(mut child) = child {
                // The host has closed its socket and is ending. Wait for the process, so that no zombie is left.
                let _ = tokio::task::spawn_blocking(move || child.wait()).await;
            }
            if let Some(shared) = hosts.upgrade() {
                let steps = lost_host.steps();
                let is_daemon = shared.role == Role::Daemon;
                if is_daemon {
                    // Ignore the error, because the host may have removed its socket.
                    let _ = std::fs::remove_file(&socket);
                }
                // Without an end mark, the host may have performed any step of a client.
                let has_lost_steps = is_daemon && std::fs::remove_file(records::end_mark(&socket)).is_err();
                shared.has_missed_steps.fetch_or(has_lost_steps || !steps.is_empty(), Ordering::Relaxed);
                let mut uncertain_steps = shared.uncertain_steps.lock();
                uncertain_steps.sockets.push(socket);
                if !steps.is_empty() {
                    uncertain_steps.steps.get_or_insert_default().extend(steps);
                }
                shared.remove_settled_records(&mut uncertain_steps);
                drop(uncertain_steps);
                Self { shared }.forget(pid);
            }
        });
    }

    /// Removes an ended host from the table and records its terminals as lost.
    fn forget(&self, pid: u32) {
        let mut table = self.lock();
        table.hosts.retain(|known| known.host.greeting().pid != pid || !known.host.is_lost());
        let Table { host_by_terminal, lost, .. } = &mut *table;
        host_by_terminal.retain(|id, host| {
            let ended = host.is_lost();
            if ended {
                lost.push_back((id.clone(), host.greeting().pid));
            }
            !ended
        });
        let surplus = lost.len().saturating_sub(MAX_LOST_TERMINALS);
        lost.drain(..surplus);
        drop(table);
        self.shared.changed.send_modify(|changed| *changed += 1);
    }

    /// Records that a terminal was closed, so that it is not treated as lost later.
    #[boxed]
    pub async fn record_closed(&self, id: &TerminalId) {
        self.lock().host_by_terminal.remove(id);
        if let Some(remote) = self.shared.remote.get() {
            remote.record_closed(id).await;
        }
    }
}

impl Shared {
    /// Waits until a silent host answers or ends.
    async fn follow_silent(shared: Weak<Self>, silent: SilentHost) {
        let SilentHost { socket, record } = silent;
        loop {
            let Some((role, on_secret)) = shared.upgrade().map(|shared| (shared.role, shared.on_secret.clone())) else {
                return;
            };
            let connect = async {
                let host = Host::connect_without_limit(&socket, role, &on_secret).await?;
                if host.is_understood() {
                    // Load the steps that the host has performed, because callers look them up.
                    host.unsettled().await.map_err(io::Error::other)?;
                }
                Ok(host)
            };
            let connected = connect.await;
            let Some(shared) = shared.upgrade() else { return };
            match connected {
                Ok(host) => Hosts { shared: shared.clone() }.adopt(host, None, socket.clone()).await,
                Err(error) if has_ended(&error) => shared.record_ended(&socket, record.as_ref()),
                Err(error) => {
                    tracing::warn!(%error, socket = %socket.display(), "a terminal host does not answer");
                    drop(shared);
                    tokio::time::sleep(POLL_INTERVAL).await;
                    continue;
                }
            }
            shared.table.lock().silent.retain(|silent| silent.socket != socket);
            return shared.changed.send_modify(|changed| *changed += 1);
        }
    }

    /// Records that the host at `socket` has ended. The results of the host are lost unless it left an end mark.
    fn record_ended(&self, socket: &Path, record: Option<&HostRecord>) {
        let _ = std::fs::remove_file(socket);
        if std::fs::remove_file(records::end_mark(socket)).is_ok() {
            records::remove(&self.records_dir, socket);
        } else if let Some(record) = record {
            // Without recorded steps, the host may have performed any step.
            self.has_missed_steps.fetch_or(record.doubted.is_none(), Ordering::Relaxed);
            self.uncertain_steps.lock().records.push(record.clone());
        }
    }

    /// Removes the records of ended hosts if no step is in doubt.
    fn remove_settled_records(&self, uncertain_steps: &mut UncertainSteps) {
        if uncertain_steps.steps.as_ref().is_some_and(BTreeSet::is_empty) {
            let sockets =
                uncertain_steps.records.drain(..).map(|record| record.socket).chain(uncertain_steps.sockets.drain(..));
            sockets.for_each(|socket| records::remove(&self.records_dir, &socket));
        }
    }
}

/// Returns whether a connection error means that no host listens on the socket.
fn has_ended(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

/// Maximum socket name length, in bytes.
const MAX_SOCKET_NAME_BYTES: usize = 64;

/// Returns whether this is the name of a host's socket.
pub(crate) fn is_socket(name: &str) -> bool {
    let own = name.strip_prefix("host-").and_then(|rest| rest.strip_suffix(".sock"));
    own.is_some_and(|own| own.bytes().all(|byte| byte.is_ascii_alphanumeric())) && name.len() <= MAX_SOCKET_NAME_BYTES
}

fn socket_name() -> String {
    let mut bytes = [0u8; 4];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    format!("host-{:08x}.sock", u32::from_be_bytes(bytes))
}

/// Sends SIGTERM to a host that no request can reach.
fn end_process(pid: u32) {
    let process = Pid::from_raw(pid.cast_signed()).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    if let Some(process) = process {
        // Ignore errors, because the process may have ended. A stopped process handles SIGTERM only after SIGCONT.
        let _ = pidfd_send_signal(&process, Signal::TERM);
        let _ = pidfd_send_signal(&process, Signal::CONT);
    }
}
