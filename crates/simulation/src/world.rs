//! The simulated world: its processes, its clock, its faults, and the end of a schedule.

use std::fmt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steplatch_daemon::{
    Clock, Configuration, Daemon, Options, RetentionPolicy, ShutdownHandle, ShutdownMode, Substitutes, WorkerStarter,
};
use steplatch_host::{RemoteHostConfig, Starter};
use steplatch_protocol::DaemonPaths;
use steplatch_workflow::Timestamp;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::client::{self, Plan, PlannedWorkflow};
use crate::computer::{self, HostProcess, Hosts, Link, Requests};
use crate::disk::{Disk, SimulatedJournal};
use crate::functions::{self, WorkerProcess, Workers};
use crate::limits::Outage;
use crate::machines::{self, FILES_DIRECTORY, MAX_DEPTH, REMOTE};
use crate::network::Connection;
use crate::process::Process;
use crate::random::Random;
use crate::rules;
use crate::stage::Stage;

/// The name of the scenario of a function.
const FUNCTION_SCENARIO: &str = "function";

/// Number of the remote computer. The daemon's computer is 0.
pub(crate) const REMOTE_COMPUTER: usize = 1;

/// Initial time of the world.
pub(crate) const START_TIME: Timestamp = Timestamp(1_700_000_000_000_000);

/// Latest times of a fault and of an early fault, in milliseconds.
const MAX_FAULT_MS: u64 = 60_000;
const MAX_EARLY_FAULT_MS: u64 = 4000;

/// Time limit for all runs.
const RUNS_TIMEOUT: Duration = Duration::from_secs(3 * 3600);

/// Time after the end of the last run for pending work, and time after the end of the last daemon for hosts without
/// terminals to end.
const SETTLE_TIME: Duration = Duration::from_secs(30);
const LINGER_TIME: Duration = Duration::from_secs(1000);

/// A host's retention period of results for the next daemon. No daemon connects to a remote host only to discard
/// results there.
const RESULT_TIME: Duration = Duration::from_secs(24 * 3600);

/// Minimum step of the clock, and the maximum steps: in general, after [`IDLE_TIME`] without an event, and after that
/// time without a daemon.
const MIN_STEP: Duration = Duration::from_millis(1);
const MAX_STEP: Duration = Duration::from_millis(25);
const MAX_IDLE_STEP: Duration = Duration::from_secs(1);
const MAX_DOWN_STEP: Duration = Duration::from_secs(20);

/// Time without an event before longer steps.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// Time that a link keeps its session without a connection, in milliseconds.
const LINK_LEASE_MS: u64 = 900_000;

/// Statistics of a schedule that broke no rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Runs that ended.
    pub runs: u32,
    /// Effects that changed the world.
    pub effects: u32,
    /// Outcomes with an unknown result in the journal.
    pub unknown: u32,
    /// Kills, restarts and stops of the daemon, kills and stops of hosts and workers, cuts of the link, and periods with a
    /// full disk.
    pub faults: u32,
    /// Number of events until the last run ended.
    pub instants: u32,
}

/// A schedule that can be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The random schedule of a seed.
    Seed(u64),
    /// The schedule of one action with one fault.
    Interruption(Interruption),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seed(seed) => write!(formatter, "seed {seed}"),
            Self::Interruption(Interruption { action, is_remote, fault, instant }) => {
                let place = if *is_remote { " on the remote computer" } else { "" };
                write!(formatter, "{action}{place}, {fault:?} at instant {instant}")
            }
        }
    }
}

/// One fault at one instant of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interruption {
    /// The action of the language.
    pub action: &'static str,
    /// True if the action uses the remote computer.
    pub is_remote: bool,
    /// The fault. No fault happens if the schedule ends before the instant.
    pub fault: Fault,
    /// Number of events before the fault.
    pub instant: u32,
}

/// A broken rule.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The schedule that replays it.
    pub origin: Origin,
    /// The rule, and the step or run that broke it.
    pub rule: String,
    /// The schedule: one line for each event.
    pub schedule: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}: {}", self.origin, self.rule)?;
        self.schedule.iter().try_for_each(|line| writeln!(formatter, "  {line}"))
    }
}

impl std::error::Error for Violation {}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The daemon is killed.
    KillDaemon,
    /// The daemon ends and starts again.
    RestartDaemon,
    /// The daemon is stopped for a time (SIGSTOP).
    StopDaemon,
    /// The terminal host of the daemon's computer (0) or of the remote computer (1) is killed.
    KillHost(usize),
    /// A terminal host is stopped for a time.
    StopHost(usize),
    /// The workers of functions are killed.
    KillWorkers,
    /// The workers of functions are stopped for a time.
    StopWorkers,
    /// The link to the remote computer is cut for a short time.
    CutLink,
    /// The link to the remote computer is cut until its session ends.
    EndLink,
    /// The disk is full for a time.
    FillDisk,
}

impl Fault {
    /// Every fault, for each host.
    pub const ALL: [Self; 12] = [
        Self::KillDaemon,
        Self::RestartDaemon,
        Self::StopDaemon,
        Self::KillHost(0),
        Self::KillHost(REMOTE_COMPUTER),
        Self::StopHost(0),
        Self::StopHost(REMOTE_COMPUTER),
        Self::KillWorkers,
        Self::StopWorkers,
        Self::CutLink,
        Self::EndLink,
        Self::FillDisk,
    ];

    /// Returns whether the fault concerns the remote computer.
    fn is_remote(self) -> bool {
        matches!(
            self,
            Self::KillHost(REMOTE_COMPUTER) | Self::StopHost(REMOTE_COMPUTER) | Self::CutLink | Self::EndLink
        )
    }
}

/// Simulates one schedule. Deterministic: the same seed gives the same result in every build.
///
/// # Errors
/// If a rule is broken.
pub fn simulate(seed: u64) -> Result<Report, Violation> {
    random_world(seed).finish(Origin::Seed(seed))
}

fn random_world(seed: u64) -> World {
    let mut random = Random::new(seed);
    let plan = Plan::default();
    for number in 0..1 + random.below(5) {
        let workflow = match random.one_in(4) {
            true => PlannedWorkflow::Function(functions::function(&mut random)),
            false => PlannedWorkflow::Machine(machines::machine(&mut random, MAX_DEPTH)),
        };
        #[allow(clippy::cast_precision_loss, reason = "a few seconds")]
        let limit = random.one_in(6).then(|| (1 + random.below(20)) as f64);
        plan.add(number, Duration::from_millis(100 + random.below(3000)), workflow, limit);
    }
    let faults = random_faults(&mut random);
    World::new(random, plan, Faults::AtTimes(faults))
}

/// Returns the schedule of a seed.
#[cfg(test)]
pub(crate) fn schedule(seed: u64) -> Vec<String> {
    let mut world = random_world(seed);
    let rule = world.run().err();
    world.stage.schedule().into_iter().chain(rule).collect()
}

/// Simulates the schedule of one action with one fault. Deterministic, like [`simulate`].
///
/// # Errors
/// If a rule is broken.
pub fn interrupt(interruption: Interruption) -> Result<Report, Violation> {
    let Interruption { action, is_remote, fault, instant } = interruption;
    let plan = Plan::default();
    let workflow = match action {
        FUNCTION_SCENARIO => PlannedWorkflow::Function(functions::scenario()),
        action => PlannedWorkflow::Machine(machines::scenario(action, is_remote)),
    };
    plan.add(0, Duration::from_millis(100), workflow, None);
    World::new(Random::new(0), plan, Faults::AtInstant(instant, fault)).finish(Origin::Interruption(interruption))
}

/// Returns every scenario with the faults that concern it: the actions of the language; actions with an effect also run
/// on the remote computer.
pub fn scenarios() -> Vec<(&'static str, bool, Vec<Fault>)> {
    let local = machines::ACTIONS.into_iter().chain([FUNCTION_SCENARIO]).map(|action| (action, false));
    let remote = machines::REMOTE_ACTIONS.into_iter().map(|action| (action, true));
    let faults = |(action, is_remote)| {
        let has_worker = action == FUNCTION_SCENARIO;
        let is_relevant = |fault: &Fault| match fault {
            Fault::KillWorkers | Fault::StopWorkers => has_worker,
            fault => is_remote || !fault.is_remote(),
        };
        let faults = Fault::ALL.into_iter().filter(is_relevant).collect();
        (action, is_remote, faults)
    };
    local.chain(remote).map(faults).collect()
}

fn random_faults(random: &mut Random) -> Vec<(Duration, Fault)> {
    let mut faults: Vec<(Duration, Fault)> = (0..random.below(12))
        .map(|_| {
            let fault = match random.below(16) {
                0..=4 => Fault::KillDaemon,
                5..=6 => Fault::RestartDaemon,
                // A killed host excuses unknown outcomes, so most schedules have none.
                7 if random.one_in(3) => Fault::KillHost(usize::from(random.one_in(2))),
                7..=8 => Fault::StopHost(usize::from(random.one_in(2))),
                9 => Fault::CutLink,
                10 => Fault::EndLink,
                11..=12 => Fault::StopDaemon,
                13 => Fault::KillWorkers,
                14 => Fault::StopWorkers,
                _ => Fault::FillDisk,
            };
            let max = if random.one_in(3) { MAX_FAULT_MS } else { MAX_EARLY_FAULT_MS };
            (Duration::from_millis(100 + random.below(max)), fault)
        })
        .collect();
    faults.sort_by_key(|(at, _)| *at);
    faults.reverse();
    faults
}

/// The faults of a schedule.
#[derive(Debug)]
enum Faults {
    /// Faults at these times, latest first.
    AtTimes(Vec<(Duration, Fault)>),
    /// One fault, after this number of events.
    AtInstant(u32, Fault),
}

/// The daemon.
#[derive(Debug)]
struct DaemonProcess {
    process: Process,
    shutdown: Arc<Mutex<Option<ShutdownHandle>>>,
}

/// The world of one schedule.
pub(crate) struct World {
    pub(crate) stage: Arc<Stage>,
    pub(crate) disk: Arc<Disk>,
    plan: Arc<Plan>,
    faults: Faults,
    directory: TempDir,
    requests: Arc<Requests>,
    daemon: Option<DaemonProcess>,
    /// Start time of the next daemon, while none runs.
    daemon_due: Option<Duration>,
    hosts: Vec<HostProcess>,
    relays: Process,
    workers: Vec<WorkerProcess>,
    workers_stopped_until: Duration,
    connections: Vec<Connection>,
    /// Number of hosts so far, for the names of their sockets.
    started_host_count: usize,
    disk_full_until: Duration,
    cut_until: Duration,
    /// Periods of the daemon's inability to act.
    pub(crate) outages: Vec<Outage>,
    down_since: Option<Duration>,
    /// True if an event happened in the last step.
    is_active: bool,
    /// Time of the last event.
    last_event_at: Duration,
    /// True if a host was killed.
    pub(crate) has_killed_hosts: bool,
    /// True if the link was cut for longer than the daemon's connection timeout.
    pub(crate) has_lost_link: bool,
    fault_count: u32,
}

impl World {
    fn new(random: Random, plan: Plan, faults: Faults) -> Self {
        let stage = Arc::new(Stage::new(random));
        let directory = tempfile::tempdir().expect("the temporary directory is creatable");
        let files = directory.path().join("files");
        let created = std::fs::create_dir(&files).and_then(|()| std::fs::write(files.join("report"), "x"));
        created.and_then(|()| functions::declare_project(directory.path())).expect("the new directory is writable");
        plan.replace(FILES_DIRECTORY, &files.display().to_string());
        Self {
            stage,
            disk: Arc::default(),
            plan: Arc::new(plan),
            faults,
            directory,
            requests: Arc::default(),
            daemon: None,
            daemon_due: Some(Duration::ZERO),
            hosts: Vec::new(),
            relays: Process::start(Duration::ZERO, std::future::pending),
            workers: Vec::new(),
            workers_stopped_until: Duration::ZERO,
            connections: Vec::new(),
            started_host_count: 0,
            disk_full_until: Duration::ZERO,
            cut_until: Duration::ZERO,
            outages: Vec::new(),
            down_since: None,
            is_active: true,
            last_event_at: Duration::ZERO,
            has_killed_hosts: false,
            has_lost_link: false,
            fault_count: 0,
        }
    }

    /// Simulates the schedule to its end and checks the rules.
    fn finish(mut self, origin: Origin) -> Result<Report, Violation> {
        match self.run() {
            Ok(report) => Ok(report),
            Err(rule) => Err(Violation { origin, rule, schedule: self.stage.schedule() }),
        }
    }

    fn run(&mut self) -> Result<Report, String> {
        let mut step = MIN_STEP;
        while !(self.plan.is_begun() && rules::is_over(&self.disk) && self.has_no_more_faults()) {
            if self.stage.now() > RUNS_TIMEOUT {
                return Err(rules::unfinished(&self.disk));
            }
            step = self.step(step);
        }
        let instants = self.stage.event_count();
        self.advance(SETTLE_TIME);
        // The last daemon exits, and hosts without terminals and results follow.
        self.end_daemon(false);
        self.daemon_due = None;
        self.advance(LINGER_TIME);
        let report = rules::check(self)?;
        rules::check_hosts(self, 0)?;
        self.advance(RESULT_TIME);
        rules::check_hosts(self, REMOTE_COMPUTER)?;
        Ok(Report { faults: self.fault_count, instants, ..report })
    }

    /// Simulates a period of time.
    fn advance(&mut self, time: Duration) {
        let until = self.stage.now() + time;
        let mut step = MIN_STEP;
        while self.stage.now() < until {
            step = self.step(step.min(until - self.stage.now()));
        }
    }

    fn has_no_more_faults(&self) -> bool {
        match &self.faults {
            Faults::AtTimes(faults) => faults.is_empty(),
            Faults::AtInstant(..) => true,
        }
    }

    /// Advances the clock and runs each process up to the new time. Returns the length of the next step.
    fn step(&mut self, length: Duration) -> Duration {
        self.stage.advance(length);
        let now = self.stage.now();
        if self.daemon_due.is_some_and(|due| due <= now) {
            self.start_daemon();
        }
        self.disk.write_due(&self.stage, now < self.disk_full_until);
        if let Some(daemon) = &mut self.daemon {
            daemon.process.run_until(now, self.is_active);
            if daemon.process.is_over() {
                self.handle_daemon_end();
            }
        }
        self.run_hosts();
        self.stage.count_files(&self.directory.path().join("files"));
        self.relays.run_until(now, self.is_active);
        self.serve_requests();
        if now >= self.workers_stopped_until {
            let stage = &self.stage;
            self.workers.retain_mut(|worker| worker.run(stage));
        }
        self.join_connections();
        let (stage, cut_until) = (&self.stage, self.cut_until);
        self.connections.retain_mut(|connection| {
            let cut_until = if connection.is_link { cut_until } else { Duration::ZERO };
            connection.transfer(stage, cut_until)
        });
        self.perform_due_faults();
        self.is_active = self.stage.take_activity();
        if self.is_active {
            self.last_event_at = now;
            return MIN_STEP;
        }
        let max_step = match now < self.last_event_at + IDLE_TIME {
            true => MAX_STEP,
            false if self.daemon.is_some() || self.daemon_due.is_some() => MAX_IDLE_STEP,
            false => MAX_DOWN_STEP,
        };
        (length * 2).clamp(MIN_STEP, max_step)
    }

    fn run_hosts(&mut self) {
        let now = self.stage.now();
        let is_active = self.is_active;
        self.hosts.iter_mut().for_each(|host| host.process.run_until(now, is_active));
        while let Some(at) = self.hosts.iter().position(|host| host.process.is_over()) {
            let host = self.hosts.remove(at);
            self.stage.log(|| format!("host {} exits by itself", host.number));
            self.handle_host_end(host);
        }
    }

    /// Closes the connections of a host that has exited.
    fn handle_host_end(&mut self, host: HostProcess) {
        let daemon_listener =
            host.daemon_listener.as_ref().and_then(|daemon_listener| daemon_listener.local_addr().ok());
        if let Some(path) = daemon_listener.as_ref().and_then(|daemon_listener| daemon_listener.as_pathname())
            && std::fs::remove_file(&host.host_socket).is_err()
        {
            // The host ended cleanly and removed its socket: remove the other socket. A killed host leaves its files.
            let end_marker = |socket: &Path| socket.with_extension("over");
            let _ = std::fs::rename(end_marker(&host.host_socket), end_marker(path));
            let _ = std::fs::remove_file(path);
        }
        self.stage.record_activity();
        self.stage.lose_terminals(host.number);
        if host.computer == REMOTE_COMPUTER {
            self.requests.remote.lock().host = None;
        }
        self.connections.retain(|connection| connection.host != host.number);
    }

    /// Starts the hosts, workers and relays that processes have requested.
    fn serve_requests(&mut self) {
        let listeners = std::mem::take(&mut *self.requests.hosts.lock());
        for daemon_listener in listeners {
            self.start_host(0, Some(daemon_listener));
        }
        let wants_host = std::mem::take(&mut self.requests.remote.lock().wants_host);
        if wants_host && self.requests.remote.lock().host.is_none() {
            self.start_host(REMOTE_COMPUTER, None);
        }
        for stream in std::mem::take(&mut *self.requests.workers.lock()) {
            self.stage.record_activity();
            self.workers.push(WorkerProcess::start(&self.stage, stream).expect("the worker starts"));
        }
        let dials = std::mem::take(&mut *self.requests.dials.lock());
        for daemon_end in dials {
            let (host_end, relay_end) = UnixStream::pair().expect("a pair of sockets is available");
            let connection =
                Connection::new(0, true, daemon_end, host_end).expect("the sockets support non-blocking mode");
            self.connections.push(connection);
            self.relays.spawn(computer::relay(relay_end, self.requests.clone()));
        }
    }

    fn start_host(&mut self, computer: usize, daemon_listener: Option<std::os::unix::net::UnixListener>) {
        self.started_host_count += 1;
        let name = format!("host-{}.sock", self.started_host_count);
        let host_socket = self.directory.path().join(&name);
        self.stage.log(|| format!("host {} of computer {computer} starts", self.started_host_count));
        self.stage.record_activity();
        if computer == REMOTE_COMPUTER {
            self.requests.remote.lock().host = Some((name, host_socket.clone()));
        }
        self.hosts.push(HostProcess::start(
            &self.stage,
            (self.started_host_count, computer),
            daemon_listener,
            host_socket,
        ));
    }

    /// Connects new clients to the terminal hosts of the daemon's computer.
    fn join_connections(&mut self) {
        for host in &self.hosts {
            let Some(daemon_listener) = &host.daemon_listener else { continue };
            while let Ok((daemon_end, _)) = daemon_listener.accept() {
                let host_end = UnixStream::connect(&host.host_socket).expect("a live host listens");
                let connection = Connection::new(host.number, false, daemon_end, host_end)
                    .expect("the sockets support non-blocking mode");
                self.connections.push(connection);
                self.stage.record_activity();
            }
        }
    }

    fn start_daemon(&mut self) {
        self.daemon_due = None;
        let now = self.stage.now();
        if let Some(since) = self.down_since.take() {
            self.outages.push(Outage { from: since, until: now });
        }
        self.stage.log(|| "a daemon starts".to_owned());
        self.stage.record_activity();
        let directory = self.directory.path().to_owned();
        let (stage, plan, requests) = (self.stage.clone(), self.plan.clone(), self.requests.clone());
        let journal = Arc::new(SimulatedJournal { disk: self.disk.clone(), stage: self.stage.clone() });
        let shutdown = Arc::<Mutex<Option<ShutdownHandle>>>::default();
        let handle = shutdown.clone();
        let process = Process::start(now, move || async move {
            let hosts = vec![RemoteHostConfig { name: REMOTE.to_owned(), ssh: REMOTE.to_owned() }];
            let options = Options {
                paths: DaemonPaths::new(directory.join("state"), directory.join("run")),
                host: Starter::Custom(Arc::new(Hosts(requests.clone()))),
                workers: WorkerStarter::Custom(Arc::new(Workers(requests.clone()))),
                runs: RetentionPolicy::default(),
                configuration: watch::channel(Configuration { hosts, ..Configuration::default() }).1,
                clock: Clock::of_runtime(START_TIME.after(now)),
                substitutes: Substitutes { journal: Some(journal), transport: Some(Arc::new(Link(requests))) },
            };
            let daemon = Daemon::start(options).await.expect("the daemon starts");
            stage.log(|| "the daemon has recovered its runs".to_owned());
            *handle.lock() = Some(daemon.stopper());
            let (run_client, gate_client) = (daemon.client(), daemon.client());
            tokio::spawn(async move {
                // The daemon may exit before it answers.
                if run_client.call(client::hello(&directory)).await.is_ok()
                    && gate_client.call(client::hello(&directory)).await.is_ok()
                {
                    tokio::spawn(client::answer_gates(gate_client));
                    client::begin_runs(run_client, plan, stage, directory).await;
                }
            });
            daemon.serve().await.expect("the daemon serves");
        });
        self.daemon = Some(DaemonProcess { process, shutdown });
    }

    /// Ends the daemon, by a clean shutdown or a kill.
    fn end_daemon(&mut self, is_clean: bool) {
        let Some(daemon) = &self.daemon else { return };
        self.down_since.get_or_insert(self.stage.now());
        if is_clean {
            let handle = daemon.shutdown.lock().clone();
            if let Some(handle) = handle {
                return handle.stop(ShutdownMode::KeepTerminals);
            }
        }
        self.handle_daemon_end();
    }

    fn handle_daemon_end(&mut self) {
        self.daemon = None;
        let pending = self.disk.pending();
        let written_count = self.stage.random(|random| random.below(pending as u64 + 1));
        self.disk.crash(&self.stage, usize::try_from(written_count).unwrap_or(pending));
        self.stage.record_activity();
        self.down_since.get_or_insert(self.stage.now());
        let downtime_ms = self.stage.random(|random| if random.one_in(6) { 30_000 } else { 5 + random.below(600) });
        self.daemon_due = Some(self.stage.now() + Duration::from_millis(downtime_ms));
    }

    /// Performs the faults that are due.
    fn perform_due_faults(&mut self) {
        loop {
            let (now, instants) = (self.stage.now(), self.stage.event_count());
            let fault = match &mut self.faults {
                Faults::AtTimes(faults) => faults.pop_if(|(at, _)| *at <= now).map(|(_, fault)| fault),
                Faults::AtInstant(instant, _) if instants < *instant => None,
                Faults::AtInstant(_, fault) => {
                    let fault = *fault;
                    self.faults = Faults::AtTimes(Vec::new());
                    Some(fault)
                }
            };
            let Some(fault) = fault else { return };
            self.fault_count += 1;
            self.stage.log(|| format!("{fault:?}"));
            self.perform(fault);
        }
    }

    fn perform(&mut self, fault: Fault) {
        let now = self.stage.now();
        let within = |max_ms: u64| now + Duration::from_millis(self.stage.random(|random| random.below(max_ms)));
        match fault {
            Fault::KillDaemon => self.end_daemon(false),
            Fault::RestartDaemon => self.end_daemon(true),
            Fault::KillHost(computer) => {
                while let Some(at) = self.hosts.iter().position(|host| host.computer == computer) {
                    self.has_killed_hosts = true;
                    let host = self.hosts.remove(at);
                    self.handle_host_end(host);
                }
            }
            Fault::StopHost(computer) => {
                let until = within(15_000);
                let stopped = self.hosts.iter_mut().filter(|host| host.computer == computer);
                stopped.for_each(|host| host.process.stop_until(until));
            }
            Fault::StopDaemon => {
                let until = within(15_000);
                if let Some(daemon) = &mut self.daemon {
                    daemon.process.stop_until(until);
                    self.outages.push(Outage { from: now, until });
                }
            }
            Fault::KillWorkers => self.workers.clear(),
            Fault::StopWorkers => self.workers_stopped_until = self.workers_stopped_until.max(within(15_000)),
            Fault::CutLink => self.cut_until = self.cut_until.max(within(20_000)),
            Fault::EndLink => {
                self.has_lost_link = true;
                self.cut_until = self.cut_until.max(within(60_000) + Duration::from_millis(LINK_LEASE_MS));
                self.connections.retain(|connection| !connection.is_link);
            }
            Fault::FillDisk => {
                self.disk_full_until = self.disk_full_until.max(within(20_000));
                self.outages.push(Outage { from: now, until: self.disk_full_until });
            }
        }
    }

    /// Returns the numbers of the hosts that run on a computer.
    pub(crate) fn running_hosts(&self, computer: usize) -> impl Iterator<Item = usize> {
        self.hosts.iter().filter(move |host| host.computer == computer).map(|host| host.number)
    }
}
