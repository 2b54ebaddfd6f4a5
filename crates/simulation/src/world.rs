//! The simulated world: its clock, its messages and disk, the faults, and the rules that hold at the end.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use steplatch_ids::RunId;
use steplatch_ledger::{Effect, EffectKey};
use steplatch_python_api::Progress;
use steplatch_workflow::{Definition, Event, History, Timestamp};

use crate::daemon::{Daemon, TimerEnd};
use crate::functions::{self, FunctionEvent, FunctionHistory, Worker, WorkerRequest};
use crate::host::{Ask, Host, Next, Reply, ReplyTo, Work};
use crate::limits::{self, Outage};
use crate::machines::{self, FUNCTIONS, MAX_DEPTH};
use crate::random::Random;
use crate::tools::CachedTools;

/// A rule in a wrong version, which the simulation has to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// An opening ends with the connection that requested it. The next opening of its step is in no ledger, and each
    /// terminal has its own ledger of commands.
    OpeningEndsWithItsConnection,
    /// The shell of a single command closes before the record of its result.
    ClosedBeforeRecorded,
    /// The daemon settles a step before the record of its result.
    SettledBeforeRecorded,
    /// A daemon does not settle the steps that an earlier one has recorded.
    NothingSettledAtStart,
    /// The daemon calls a node again that an earlier daemon called.
    NodesRepeated,
    /// A host without terminals ends although it has results that no daemon has recorded.
    HostEndsWithResults,
    /// A daemon does not record that a host has ended with effects in progress.
    LostHostForgotten,
    /// The daemon performs the calls of a function before their record.
    CallsBeforeRecorded,
    /// A new worker replays the history of a function without the answer that is not recorded yet.
    ReplayWithoutLastAnswer,
    /// The daemon writes a fetched file itself, and not its host, which has a ledger.
    CopiesWrittenByDaemon,
    /// The replies that arrive at a stopped daemon are lost.
    RepliesLostWhileStopped,
    /// A daemon does not limit the steps that an earlier one has begun.
    LimitsLostAtStart,
}

impl Mutation {
    /// Every one of them.
    pub const ALL: [Self; 12] = [
        Self::OpeningEndsWithItsConnection,
        Self::ClosedBeforeRecorded,
        Self::SettledBeforeRecorded,
        Self::NothingSettledAtStart,
        Self::NodesRepeated,
        Self::HostEndsWithResults,
        Self::LostHostForgotten,
        Self::CallsBeforeRecorded,
        Self::ReplayWithoutLastAnswer,
        Self::CopiesWrittenByDaemon,
        Self::RepliesLostWhileStopped,
        Self::LimitsLostAtStart,
    ];
}

/// Figures of a schedule that broke no rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Runs that ended.
    pub runs: u32,
    /// Effects that changed the world.
    pub effects: u32,
    /// Outcomes with an unknown result in the journal.
    pub unknown: u32,
    /// Kills, restarts and stops of the daemon, kills and stops of hosts and workers, cuts of the link, and times of a
    /// full disk.
    pub faults: u32,
    /// Things that happened until the last run was over.
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
                let place = if *is_remote { " on another machine" } else { "" };
                write!(formatter, "{action}{place}, {fault:?} at instant {instant}")
            }
        }
    }
}

/// One fault at one instant of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interruption {
    /// The action of the language, or `function` for a run of a function.
    pub action: &'static str,
    /// True if it acts on the other machine.
    pub is_remote: bool,
    /// The fault. None happens if the instant is behind the end.
    pub fault: Fault,
    /// Number of things that happen before the fault.
    pub instant: u32,
}

/// A broken rule.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The schedule that replays it.
    pub origin: Origin,
    /// The rule, and the step or run that broke it.
    pub rule: String,
    /// The schedule: one line for each thing that happened.
    pub schedule: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}: {}", self.origin, self.rule)?;
        self.schedule.iter().try_for_each(|line| writeln!(formatter, "  {line}"))
    }
}

impl std::error::Error for Violation {}

/// Simulates one schedule. Deterministic: the same seed and mutation give the same result in every build.
///
/// # Errors
/// If a rule is broken.
pub fn simulate(seed: u64, mutation: Option<Mutation>) -> Result<Report, Violation> {
    let mut world = World::new(seed, mutation);
    world.add_runs();
    world.add_faults();
    world.finish(Origin::Seed(seed))
}

/// Simulates the schedule of one action with one fault. Deterministic, as [`simulate`].
///
/// # Errors
/// If a rule is broken.
pub fn interrupt(interruption: Interruption, mutation: Option<Mutation>) -> Result<Report, Violation> {
    let Interruption { action, is_remote, fault, instant } = interruption;
    let mut world = World::new(0, mutation);
    let inner = machines::scenario("run_command", is_remote);
    world.workflows = [("m0".to_owned(), inner), ("f0".to_owned(), functions::scenario("m0"))].into();
    let definition = match action {
        "function" => world.workflows["f0"].clone(),
        action => machines::scenario(action, is_remote),
    };
    world.add_run(0, definition, 100);
    world.interruption = Some((instant, fault));
    world.finish(Origin::Interruption(interruption))
}

/// Returns every scenario with the faults that concern it: the actions of the language, those with an effect also on
/// the other machine, and a run of a function.
pub fn scenarios() -> Vec<(&'static str, bool, Vec<Fault>)> {
    let local = machines::ACTIONS.into_iter().chain(["function"]).map(|action| (action, false));
    let remote = machines::REMOTE_ACTIONS.into_iter().map(|action| (action, true));
    let faults = |(action, is_remote)| {
        let has_worker = matches!(action, "function" | "run_graph");
        let concerns = |fault: &Fault| match fault {
            Fault::KillHost(OTHER) | Fault::StopHost(OTHER) | Fault::CutLink | Fault::EndLink => is_remote,
            Fault::KillWorker | Fault::StopWorker => has_worker,
            _ => true,
        };
        (action, is_remote, Fault::ALL.into_iter().filter(concerns).collect())
    };
    local.chain(remote).map(faults).collect()
}

/// Hosts: that of the daemon's machine, and one over a link.
pub(crate) const HOSTS: usize = 2;

/// Number of the host on the other machine.
pub(crate) const OTHER: usize = 1;

/// End of the time in which faults happen, in milliseconds.
const FAULTS_UNTIL: u64 = 60_000;

/// Time within which every run has to be over, in milliseconds.
const RUNS_UNTIL: u64 = 3 * 3_600_000;

/// Maximum number of definitions that are kept for further schedules.
const MAX_PARSED: usize = 1000;

/// Maximum time of a write to the journal, in milliseconds.
pub(crate) const MAX_WRITE: u64 = 2000;

/// Lifetime of a host without terminals and clients, in milliseconds.
const LINGER: u64 = 10_000;

/// Time for which a link waits for a new connection, in milliseconds.
const LINK_LEASE: u64 = 120_000;

/// An event at some moment.
#[derive(Debug, Clone)]
pub(crate) enum Happening {
    StartDaemon,
    Recover { daemon: u64 },
    Begin { run: RunId, definition: Value },
    Deliver { host: usize, life: u64, to: ReplyTo, ask: Ask },
    Reply { host: usize, to: ReplyTo, reply: Reply },
    Work { host: usize, life: u64, work: Work },
    Linger { host: usize, life: u64 },
    Append { daemon: u64, entry: Entry },
    Execute { daemon: u64, life: u64, run: RunId, request: WorkerRequest },
    Progressed { daemon: u64, run: RunId, progress: Option<Progress> },
    Timer { daemon: u64, run: RunId, end: TimerEnd },
    CallNode { daemon: u64, key: EffectKey },
    Fault(Fault),
}

impl Happening {
    /// Returns whether it waits while the daemon is stopped.
    fn is_of_daemon(&self) -> bool {
        match self {
            Self::Recover { .. }
            | Self::Reply { .. }
            | Self::Append { .. }
            | Self::Progressed { .. }
            | Self::Timer { .. }
            | Self::CallNode { .. } => true,
            Self::StartDaemon
            | Self::Begin { .. }
            | Self::Deliver { .. }
            | Self::Work { .. }
            | Self::Linger { .. }
            | Self::Execute { .. }
            | Self::Fault(_) => false,
        }
    }
}

/// A write to the journal: events of a run and the outcome of a step that they record.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) run: RunId,
    pub(crate) events: Vec<Event>,
    /// Events of a function's run.
    pub(crate) function: Vec<FunctionEvent>,
    pub(crate) ended: Option<(String, Recorded)>,
}

/// An outcome in the form of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Recorded {
    Succeeded(Option<Effect>),
    Failed(String),
    Unknown(String),
    TimedOut,
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The daemon is killed.
    KillDaemon,
    /// The daemon ends and starts again.
    RestartDaemon,
    /// The daemon is stopped for a time (SIGSTOP).
    StopDaemon,
    /// A terminal host is killed: that of the daemon's machine (0), or the other one (1).
    KillHost(usize),
    /// A terminal host is stopped for a time.
    StopHost(usize),
    /// The worker of functions is killed.
    KillWorker,
    /// The worker of functions is stopped for a time.
    StopWorker,
    /// The link to the other machine is cut for a short time.
    CutLink,
    /// The link to the other machine is cut for so long that its session ends.
    EndLink,
    /// The disk is full for a time.
    FillDisk,
}

impl Fault {
    /// Every one of them, for each host.
    pub const ALL: [Self; 12] = [
        Self::KillDaemon,
        Self::RestartDaemon,
        Self::StopDaemon,
        Self::KillHost(0),
        Self::KillHost(OTHER),
        Self::StopHost(0),
        Self::StopHost(OTHER),
        Self::KillWorker,
        Self::StopWorker,
        Self::CutLink,
        Self::EndLink,
        Self::FillDisk,
    ];
}

/// The world of one schedule.
pub(crate) struct World {
    pub(crate) now: u64,
    order: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    pub(crate) random: Random,
    pub(crate) mutation: Option<Mutation>,
    hosts: [Option<Host>; HOSTS],
    /// Number of hosts that have lived before, each.
    lives: [u64; HOSTS],
    /// Lives that daemons have noted on disk.
    noted: [BTreeSet<u64>; HOSTS],
    stopped_until: [u64; HOSTS],
    /// Time at which the last request arrives.
    delivered_until: [u64; HOSTS],
    cut_until: u64,
    disk_full_until: u64,
    daemon_stopped_until: u64,
    worker: Worker,
    /// Number of workers that have lived before.
    workers: u64,
    worker_stopped_until: u64,
    /// Times in which the daemon could not act.
    outages: Vec<Outage>,
    /// Time at which the daemon ended, while there is none.
    down_since: Option<u64>,
    interruption: Option<(u32, Fault)>,
    /// Number of things that have happened.
    instants: u32,
    pub(crate) journal: BTreeMap<RunId, Vec<Event>>,
    /// The journal of functions.
    pub(crate) functions: BTreeMap<RunId, Vec<FunctionEvent>>,
    /// Saved workflows, by name.
    pub(crate) workflows: BTreeMap<String, Value>,
    definitions: BTreeMap<RunId, Value>,
    begun: Vec<RunId>,
    daemon: Option<Daemon>,
    daemons: u64,
    performed: BTreeMap<EffectKey, u32>,
    recorded: BTreeMap<String, Recorded>,
    host_kills: u32,
    report: Report,
    schedule: Vec<String>,
    /// The first rule that was broken on the way.
    broken: Option<String>,
}

impl World {
    fn new(seed: u64, mutation: Option<Mutation>) -> Self {
        let mut world = Self {
            now: 0,
            order: 0,
            queue: BTreeMap::new(),
            random: Random::new(seed),
            mutation,
            hosts: [None, None],
            lives: [0; HOSTS],
            noted: [BTreeSet::new(), BTreeSet::new()],
            stopped_until: [0; HOSTS],
            delivered_until: [0; HOSTS],
            cut_until: 0,
            disk_full_until: 0,
            daemon_stopped_until: 0,
            worker: Worker::default(),
            workers: 0,
            worker_stopped_until: 0,
            outages: Vec::new(),
            down_since: None,
            interruption: None,
            instants: 0,
            journal: BTreeMap::new(),
            functions: BTreeMap::new(),
            workflows: BTreeMap::new(),
            definitions: BTreeMap::new(),
            begun: Vec::new(),
            daemon: None,
            daemons: 0,
            performed: BTreeMap::new(),
            recorded: BTreeMap::new(),
            host_kills: 0,
            report: Report::default(),
            schedule: Vec::new(),
            broken: None,
        };
        world.at(0, Happening::StartDaemon);
        world
    }

    /// Adds random runs: machines, and functions.
    fn add_runs(&mut self) {
        let machines: Vec<String> = (0..FUNCTIONS).map(|number| format!("m{number}")).collect();
        for name in &machines {
            let machine = machines::machine(&mut self.random, 0);
            self.workflows.insert(name.clone(), machine);
        }
        for number in 0..FUNCTIONS {
            let function = functions::function(&mut self.random, &machines);
            self.workflows.insert(format!("f{number}"), function);
        }
        for number in 0..1 + self.random.below(5) {
            let definition = if self.random.one_in(4) {
                functions::function(&mut self.random, &machines)
            } else {
                let mut machine = machines::machine(&mut self.random, MAX_DEPTH);
                if self.random.one_in(6) {
                    machine["execution_timeout"] = (1 + self.random.below(20)).into();
                }
                machine
            };
            let at = 100 + self.random.below(3000);
            self.add_run(number, definition, at);
        }
    }

    fn add_run(&mut self, number: u64, definition: Value, at: u64) {
        let run = format!("run_{number:0>16}").parse().expect("digits are letters of an id");
        self.at(at, Happening::Begin { run, definition });
    }

    fn add_faults(&mut self) {
        for _ in 0..self.random.below(12) {
            let fault = match self.random.below(16) {
                0..=4 => Fault::KillDaemon,
                5..=6 => Fault::RestartDaemon,
                // A killed host excuses unknown outcomes, so most schedules have none.
                7 if self.random.one_in(3) => Fault::KillHost(usize::from(self.random.one_in(2))),
                7..=8 => Fault::StopHost(usize::from(self.random.one_in(2))),
                9 => Fault::CutLink,
                10 => Fault::EndLink,
                11..=12 => Fault::StopDaemon,
                13 => Fault::KillWorker,
                14 => Fault::StopWorker,
                _ => Fault::FillDisk,
            };
            let span = if self.random.one_in(3) { FAULTS_UNTIL } else { 4000 };
            let at = 100 + self.random.below(span);
            self.at(at, Happening::Fault(fault));
        }
    }

    /// Simulates up to the end, and checks the rules.
    fn finish(mut self, origin: Origin) -> Result<Report, Violation> {
        self.run();
        match self.broken_rule() {
            None => Ok(self.report),
            Some(rule) => Err(Violation { origin, rule, schedule: self.schedule }),
        }
    }

    /// Has something happen after `delay` milliseconds.
    pub(crate) fn at(&mut self, delay: u64, happening: Happening) {
        self.order += 1;
        self.queue.insert((self.now + delay, self.order), happening);
    }

    pub(crate) fn timestamp(&self) -> Timestamp {
        Timestamp(1_700_000_000_000_000 + i64::try_from(self.now * 1000).unwrap_or(i64::MAX))
    }

    pub(crate) fn is_mutated(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Returns the definition of a generated machine.
    pub(crate) fn definition(document: &Value) -> Arc<Definition> {
        thread_local! {
            /// Definitions of earlier schedules: to parse one takes longer than the rest of a schedule.
            static PARSED: RefCell<BTreeMap<String, Arc<Definition>>> = const { RefCell::new(BTreeMap::new()) };
        }
        let text = document.to_string();
        PARSED.with_borrow_mut(|parsed| {
            if parsed.len() >= MAX_PARSED {
                parsed.clear();
            }
            let parse = || {
                let definition = Definition::parse(document, &CachedTools);
                Arc::new(definition.unwrap_or_else(|problems| panic!("a generated machine is valid: {problems}")))
            };
            parsed.entry(text).or_insert_with(parse).clone()
        })
    }

    /// Records that a rule is broken.
    pub(crate) fn break_rule(&mut self, rule: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(rule());
        }
    }

    pub(crate) fn log(&mut self, line: impl FnOnce() -> String) {
        let line = line();
        self.schedule.push(format!("{:>7} {line}", self.now));
    }

    fn run(&mut self) {
        while let Some(((at, _), happening)) = self.queue.pop_first() {
            if at > RUNS_UNTIL {
                break;
            }
            self.now = at;
            if let Some((instant, fault)) = self.interruption
                && instant == self.instants
            {
                self.fail(fault);
            }
            self.instants += 1;
            self.happen(happening);
        }
    }

    fn happen(&mut self, happening: Happening) {
        if self.now < self.daemon_stopped_until && happening.is_of_daemon() {
            if matches!(happening, Happening::Reply { .. }) && self.is_mutated(Mutation::RepliesLostWhileStopped) {
                return;
            }
            // In the order in which it would have happened.
            return self.at(self.daemon_stopped_until - self.now, happening);
        }
        match happening {
            Happening::StartDaemon => self.start_daemon(),
            Happening::Recover { daemon } => {
                if self.daemons == daemon
                    && self.daemon.is_some()
                    && let Some(since) = self.down_since.take()
                {
                    self.outages.push(Outage { from: since, until: self.now });
                }
                self.with_daemon(daemon, Daemon::recover);
            }
            Happening::Begin { run, definition } => self.begin(run, definition),
            Happening::Deliver { host, life, to, ask } => self.deliver(host, life, to, ask),
            Happening::Reply { host, to: (daemon, request), reply } => {
                if host == OTHER && self.now < self.cut_until {
                    // The link keeps it until its next connection.
                    let delay = self.cut_until - self.now + self.random.below(50);
                    return self.at(delay, Happening::Reply { host, to: (daemon, request), reply });
                }
                self.with_daemon(daemon, |daemon, world| daemon.take_reply(world, request, reply));
            }
            Happening::Work { host, life, work } => {
                if self.now < self.stopped_until[host] {
                    let delay = self.stopped_until[host] - self.now + self.random.below(20);
                    return self.at(delay, Happening::Work { host, life, work });
                }
                if self.lives[host] == life
                    && let Some(next) = self.hosts[host].as_mut().map(|host| host.work(work))
                {
                    self.follow(host, next);
                }
            }
            Happening::Linger { host, life } => {
                let has_results = !self.is_mutated(Mutation::HostEndsWithResults)
                    && self.hosts[host].as_ref().is_some_and(Host::has_unsettled);
                let is_empty = self.hosts[host].as_ref().is_some_and(|host| host.open.is_empty());
                if self.lives[host] == life && self.daemon.is_none() && is_empty && !has_results {
                    self.log(|| format!("host {host} ends"));
                    self.hosts[host] = None;
                    self.lives[host] += 1;
                    // A host that ends on its own removes its note.
                    self.noted[host].remove(&life);
                }
            }
            Happening::Append { daemon, entry } => {
                if self.now < self.disk_full_until {
                    let delay = self.disk_full_until - self.now + self.random.below(50);
                    return self.at(delay, Happening::Append { daemon, entry });
                }
                if self.daemons == daemon && self.daemon.is_some() {
                    self.write(entry.clone());
                    self.with_daemon(daemon, |daemon, world| daemon.recorded(world, &entry));
                }
            }
            Happening::Execute { daemon, life, run, request } => {
                if self.now < self.worker_stopped_until && self.workers == life {
                    let delay = self.worker_stopped_until - self.now;
                    return self.at(delay, Happening::Execute { daemon, life, run, request });
                }
                // A request to a worker that has ended fails, as a request for an execution that it does not have.
                let progress = if self.workers == life { self.worker.take(&run, request) } else { None };
                let delay = self.random.below(20);
                self.at(delay, Happening::Progressed { daemon, run, progress });
            }
            Happening::Progressed { daemon, run, progress } => {
                self.with_daemon(daemon, |daemon, world| daemon.worker_replied(world, &run, progress));
            }
            Happening::Timer { daemon, run, end } => {
                self.with_daemon(daemon, |daemon, world| daemon.timer_ended(world, &run, end));
            }
            Happening::CallNode { daemon, key } => {
                if self.daemons == daemon && self.daemon.is_some() {
                    self.count(&key);
                    self.with_daemon(daemon, |daemon, world| daemon.node_called(world, &key));
                }
            }
            Happening::Fault(fault) => self.fail(fault),
        }
    }

    /// Calls the daemon of this number, if it is alive.
    fn with_daemon(&mut self, number: u64, act: impl FnOnce(&mut Daemon, &mut Self)) {
        if self.daemons == number
            && let Some(mut daemon) = self.daemon.take()
        {
            act(&mut daemon, self);
            self.daemon = Some(daemon);
        }
    }

    fn start_daemon(&mut self) {
        if self.daemon.is_some() {
            return;
        }
        self.daemons += 1;
        let lost = std::array::from_fn(|host| {
            let living = self.hosts[host].as_ref().map(|_| self.lives[host]);
            self.noted[host].iter().any(|life| Some(*life) != living)
        });
        self.log(|| format!("daemon starts, hosts lost: {lost:?}"));
        let mut daemon = Daemon::new(self.daemons, lost);
        for host in 0..HOSTS {
            if self.hosts[host].is_some() {
                daemon.ask_unsettled(self, host);
            }
        }
        self.daemon = Some(daemon);
        self.end_worker();
        let number = self.daemons;
        self.at(200, Happening::Recover { daemon: number });
    }

    fn begin(&mut self, run: RunId, definition: Value) {
        self.begun.push(run.clone());
        self.definitions.insert(run.clone(), definition);
        self.begin_again(run);
    }

    /// Begins a run. A client repeats the request until a daemon has recorded it.
    fn begin_again(&mut self, run: RunId) {
        if self.is_recorded(&run) {
            return;
        }
        let definition = self.definitions[&run].clone();
        let number = self.daemons;
        let retry = Happening::Begin { run: run.clone(), definition: definition.clone() };
        self.begun.retain(|begun| *begun != run);
        self.begun.push(run.clone());
        self.with_daemon(number, |daemon, world| daemon.begin(world, run, &definition));
        self.at(2000, retry);
    }

    fn deliver(&mut self, host: usize, life: u64, to: ReplyTo, ask: Ask) {
        let wait = self.stopped_until[host].max(if host == OTHER { self.cut_until } else { 0 });
        if self.now < wait {
            // In the order of their sending.
            return self.at(wait - self.now, Happening::Deliver { host, life, to, ask });
        }
        if self.lives[host] != life {
            return;
        }
        if let Some(next) = self.hosts[host].as_mut().map(|host| host.take(to, ask)) {
            self.follow(host, next);
        }
    }

    fn follow(&mut self, host: usize, next: Next) {
        let life = self.lives[host];
        if let Some(key) = next.acted {
            self.count(&key);
            self.log(|| format!("host {host} performs {:?} of {}", key.effect, key.step));
        }
        for work in next.work {
            let delay = self.random.below(if self.random.clone().one_in(5) { 3000 } else { 60 });
            self.at(delay, Happening::Work { host, life, work });
        }
        for (to, reply) in next.replies {
            let delay = self.latency(host);
            self.at(delay, Happening::Reply { host, to, reply });
        }
    }

    fn count(&mut self, key: &EffectKey) {
        *self.performed.entry(key.clone()).or_default() += 1;
        self.report.effects += 1;
    }

    fn latency(&mut self, host: usize) -> u64 {
        self.random.below(if host == OTHER { 120 } else { 4 })
    }

    /// Sends a request to a host. Starts one if there is none.
    pub(crate) fn send(&mut self, host: usize, to: ReplyTo, ask: Ask) {
        if self.hosts[host].is_none() {
            self.lives[host] += 1;
            let first = self.lives[host] * 1000;
            self.hosts[host] = Some(Host::new(first, self.mutation));
            self.stopped_until[host] = 0;
        }
        self.noted[host].insert(self.lives[host]);
        let (life, latency) = (self.lives[host], self.latency(host));
        // A connection keeps the order of its messages.
        self.delivered_until[host] = self.delivered_until[host].max(self.now + latency);
        self.at(self.delivered_until[host] - self.now, Happening::Deliver { host, life, to, ask });
    }

    /// Removes the notes of hosts that have ended: no step is in doubt because of them.
    pub(crate) fn forget_lost(&mut self, host: usize) {
        let living = self.hosts[host].as_ref().map(|_| self.lives[host]);
        self.noted[host].retain(|life| Some(*life) == living);
    }

    /// Returns whether a host runs.
    pub(crate) fn has_host(&self, host: usize) -> bool {
        self.hosts[host].is_some()
    }

    /// Has the disk append events to the journal, which takes a while.
    pub(crate) fn append(&mut self, daemon: u64, entry: Entry) {
        let delay = if self.random.one_in(10) { self.random.below(MAX_WRITE) } else { self.random.below(15) };
        self.at(delay, Happening::Append { daemon, entry });
    }

    /// Returns whether the journal has a run.
    pub(crate) fn is_recorded(&self, run: &RunId) -> bool {
        self.journal.contains_key(run) || self.functions.contains_key(run)
    }

    /// Sends a request to the worker.
    pub(crate) fn ask_worker(&mut self, daemon: u64, run: RunId, request: WorkerRequest) {
        let (delay, life) = (self.random.below(20), self.workers);
        self.at(delay, Happening::Execute { daemon, life, run, request });
    }

    /// Ends the worker. The next one has no executions.
    fn end_worker(&mut self) {
        self.workers += 1;
        self.worker = Worker::default();
        self.worker_stopped_until = 0;
    }

    /// Returns whether every run is over.
    fn is_over(&self) -> bool {
        let is_over = |run| {
            let machine = self.journal.get(run).map(|events| events.iter().collect::<History>());
            let function = self.functions.get(run).map(|events| events.iter().collect::<FunctionHistory>());
            machine.is_some_and(|history| history.is_over()) || function.is_some_and(|history| history.end.is_some())
        };
        !self.begun.is_empty() && self.begun.iter().all(is_over)
    }

    /// Appends events to the journal.
    fn write(&mut self, entry: Entry) {
        if let Some((step, recorded)) = entry.ended {
            self.log(|| format!("{step} is recorded as {recorded:?}"));
            self.recorded.insert(step, recorded);
        }
        if entry.function.is_empty() {
            self.journal.entry(entry.run).or_default().extend(entry.events);
        } else {
            self.functions.entry(entry.run).or_default().extend(entry.function);
        }
        if self.interruption.is_some_and(|(instant, _)| instant > self.instants) && self.is_over() {
            self.report.instants = self.instants;
        }
    }

    fn fail(&mut self, fault: Fault) {
        self.report.faults += 1;
        self.log(|| format!("{fault:?}"));
        match fault {
            Fault::KillDaemon => self.end_daemon(false),
            Fault::RestartDaemon => self.end_daemon(true),
            Fault::KillHost(host) => {
                if self.hosts[host].take().is_some() {
                    self.host_kills += 1;
                    self.lives[host] += 1;
                    let number = self.daemons;
                    self.with_daemon(number, |daemon, world| daemon.host_lost(world, host));
                }
            }
            // A further stop or cut ends no earlier than the one before: what waits arrives in its order.
            Fault::StopHost(host) => {
                let until = self.now + self.random.below(15_000);
                self.stopped_until[host] = self.stopped_until[host].max(until);
            }
            Fault::StopDaemon => {
                if self.daemon.is_some() {
                    let until = self.now + self.random.below(15_000);
                    self.daemon_stopped_until = self.daemon_stopped_until.max(until);
                    self.outages.push(Outage { from: self.now, until });
                }
            }
            Fault::KillWorker => self.end_worker(),
            Fault::StopWorker => {
                self.worker_stopped_until = self.now + self.random.below(15_000);
                self.outages.push(Outage { from: self.now, until: self.worker_stopped_until });
            }
            Fault::CutLink => self.cut_until = self.cut_until.max(self.now + self.random.below(20_000)),
            Fault::EndLink => {
                self.cut_until = self.cut_until.max(self.now + LINK_LEASE + self.random.below(60_000));
                self.break_link();
            }
            Fault::FillDisk => {
                self.disk_full_until = self.now + self.random.below(20_000);
                self.outages.push(Outage { from: self.now, until: self.disk_full_until });
            }
        }
    }

    /// Ends the session of the link: messages to the other machine may arrive late, and the link loses those on the way
    /// back. The daemon repeats its requests.
    fn break_link(&mut self) {
        let random = &mut self.random;
        self.queue.retain(|_, happening| match happening {
            Happening::Deliver { host: OTHER, .. } => random.one_in(2),
            Happening::Reply { host: OTHER, .. } => false,
            _ => true,
        });
        let number = self.daemons;
        self.with_daemon(number, |daemon, world| daemon.repeat_requests(world, OTHER));
    }

    /// Ends the daemon, by its own will or not. Requests under way may not arrive, and writes of a killed daemon may
    /// not last.
    fn end_daemon(&mut self, is_clean: bool) {
        let Some(daemon) = self.daemon.take() else { return };
        self.daemon_stopped_until = 0;
        self.down_since.get_or_insert(self.now);
        let mut kept = Vec::new();
        let random = &mut self.random;
        self.queue.retain(|_, happening| match happening {
            Happening::Append { daemon: number, entry } if *number == daemon.number => {
                if is_clean || random.one_in(2) {
                    kept.push(entry.clone());
                }
                false
            }
            Happening::Deliver { to: (number, _), .. } if *number == daemon.number => random.one_in(2),
            Happening::Reply { to: (number, _), .. } => *number != daemon.number,
            Happening::Execute { daemon: number, .. } | Happening::Progressed { daemon: number, .. } => {
                *number != daemon.number
            }
            _ => true,
        });
        for entry in kept {
            self.write(entry);
        }
        for host in 0..HOSTS {
            if let Some(alive) = &mut self.hosts[host] {
                alive.disconnect(daemon.openings(host));
                let life = self.lives[host];
                self.at(LINGER, Happening::Linger { host, life });
            }
        }
        let delay = if self.random.one_in(6) { 30_000 } else { 5 + self.random.below(600) };
        self.at(delay, Happening::StartDaemon);
    }

    /// Returns a rule that does not hold at the end.
    fn broken_rule(&mut self) -> Option<String> {
        if let Some(rule) = self.broken.take() {
            return Some(rule);
        }
        if let Some((key, count)) = self.performed.iter().find(|(_, count)| **count > 1) {
            return Some(format!("{:?} of {} was performed {count} times", key.effect, key.step));
        }
        for (step, recorded) in &self.recorded {
            let done = |effect| self.performed.contains_key(&EffectKey::new(effect, step.as_str()));
            match recorded {
                Recorded::Succeeded(Some(effect)) if !done(*effect) => {
                    return Some(format!("{step} is recorded as a success and was not performed"));
                }
                Recorded::Failed(error) if error != "closed" || done(Effect::Run) || done(Effect::Type) => {
                    return Some(format!("{step} is recorded as a failure ({error}) because of a restart"));
                }
                Recorded::Unknown(tool) if self.host_kills == 0 && tool != "run_node" => {
                    return Some(format!("{step} ({tool}) is recorded as unknown, and nothing was lost"));
                }
                Recorded::Unknown(_) => self.report.unknown += 1,
                Recorded::Succeeded(_) | Recorded::Failed(_) | Recorded::TimedOut => {}
            }
        }
        for run in &self.begun {
            if let Some(events) = self.functions.get(run) {
                if events.iter().collect::<FunctionHistory>().end.is_none() {
                    return Some(format!("{run}, a function, is not over"));
                }
                self.report.runs += 1;
                continue;
            }
            let history: History = self.journal.get(run).map(|events| events.iter().collect()).unwrap_or_default();
            if !history.is_over() {
                return Some(format!("{run} is not over: {:?}", history.status()));
            }
            self.report.runs += 1;
        }
        if let Some(rule) = limits::broken(&self.journal, &self.functions, &self.outages) {
            return Some(rule);
        }
        for (number, host) in self.hosts.iter().enumerate() {
            let Some(host) = host else { continue };
            if let Some(shell) = host.shells.first() {
                return Some(format!("shell {shell} of host {number} is left open"));
            }
            if host.has_unsettled() {
                return Some(format!("host {number} keeps results for nothing"));
            }
        }
        None
    }
}
