//! All terminals of a process, by id.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use steplatch_ids::TerminalId;
use tokio::sync::{mpsc, watch};

use crate::activity::Activity;
use crate::hidden_input::HiddenInputLog;
use crate::history::{Disk, History};
use crate::integration::{Integration, IntegrationSession};
use crate::memory::MemoryReturn;
use crate::process::{Child, Orphans, Program, Pty, SpawnError, Streams, TERMINAL_VARIABLE};
use crate::screen::{Emulator, Size};
#[cfg(feature = "simulation")]
use crate::simulated::{self, SimulatedEffect, Simulation};
use crate::terminal::{Closing, Description, Lifecycle, Open, OutputScheduler, Request, Terminal, TerminalParts, run};
use crate::transcript::Transcript;

/// Options for every terminal of a process.
#[derive(Debug, Clone)]
pub struct Options {
    /// Maximum number of open terminals.
    pub max_terminals: usize,
    /// Retention period after the end of a terminal's program; the terminal stays readable until then.
    pub grace: Duration,
    /// Idle timeout: without a user, a watcher or output, a terminal closes after this time. `None` for no limit.
    pub idle: Option<Duration>,
    /// Memory for the compressed older output of each terminal, in bytes.
    pub history_budget: usize,
    /// Directory for output beyond the memory budget. `None` to drop such output. Each terminal has an unnamed file
    /// there. No other user can read the file, and the system removes it at the end of this process.
    pub history_directory: Option<PathBuf>,
    /// Disk space for the compressed older output of each terminal, in bytes.
    pub history_on_disk: usize,
    /// True to log the requests to each terminal: typed input, waits and commands, with their senders.
    pub logs_inputs: bool,
    /// Installed shell integration. `None` for shells without marks.
    pub integration: Option<Integration>,
    /// Maximum number of open descriptors of a program in a terminal. `None` for the limit of this process.
    pub descriptors: Option<u64>,
    /// True if this process adopts the orphans of terminals. Only for a process that starts all of its children through
    /// [`Terminals`].
    pub adopt_orphans: bool,
    /// The simulation of all terminals; they have no programs.
    #[cfg(feature = "simulation")]
    pub simulation: Option<Arc<dyn Simulation>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_terminals: 50,
            grace: Duration::from_secs(600),
            idle: None,
            history_budget: 16 << 20,
            history_directory: None,
            history_on_disk: 64 << 20,
            logs_inputs: true,
            integration: None,
            descriptors: None,
            adopt_orphans: false,
            #[cfg(feature = "simulation")]
            simulation: None,
        }
    }
}

/// A terminal to open.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The program and its arguments.
    pub arguments: Vec<OsString>,
    /// Command line for display to people.
    pub command: String,
    /// The working directory.
    pub directory: PathBuf,
    /// The inherited environment. Variables that describe another terminal are removed.
    pub inherited: Vec<(OsString, OsString)>,
    /// Additional variables, set unchanged.
    pub environment: Vec<(OsString, OsString)>,
    /// The size.
    pub size: Size,
    /// A name in addition to the id.
    pub name: Option<String>,
    /// The client or run that opens it.
    pub opened_by: Option<String>,
    /// The id of the step that opens it, for the ledger of the terminal host.
    pub step: Option<String>,
}

/// Variables of the connection that started the host of a machine. They are invalid after the end of the connection.
const CONNECTION_VARIABLES: &[&str] =
    &["SSH_AUTH_SOCK", "SSH_CLIENT", "SSH_CONNECTION", "SSH_ORIGINAL_COMMAND", "SSH_TTY", "XDG_SESSION_ID"];

impl Spec {
    /// Returns the description of its terminal at the opening.
    fn description(&self, id: TerminalId) -> Description {
        let description = Description::new(id, self.command.clone(), self.size, SystemTime::now());
        Description { name: self.name.clone(), opened_by: self.opened_by.clone(), ..description }
    }

    /// Adapts a request from a remote host to this computer: sets the inherited environment, and resolves a relative
    /// directory, or a directory with `~`, from the home directory.
    #[must_use]
    pub fn at_home(mut self, environment: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let is_lasting =
            |(key, _): &(OsString, OsString)| !CONNECTION_VARIABLES.iter().any(|of_connection| key == of_connection);
        self.inherited = environment.into_iter().filter(is_lasting).collect();
        let home = self.inherited.iter().find(|(key, _)| key == "HOME").map(|(_, home)| PathBuf::from(home));
        if let Some(home) = home {
            let directory = self.directory.strip_prefix("~").unwrap_or(&self.directory);
            self.directory = home.join(directory);
        }
        self
    }
}

/// Reason why no terminal opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The maximum number of terminals is open.
    #[error("{max_terminals} terminals are open, which is the limit")]
    TooMany {
        /// The limit.
        max_terminals: usize,
    },
    /// Another terminal has this name.
    #[error("the name '{name}' is taken by {by}")]
    NameTaken {
        /// The name.
        name: String,
        /// The terminal that has it.
        by: TerminalId,
    },
    /// The maximum number of terminals was open during the whole wait.
    #[error("{max_terminals} terminals are open, which is the limit, and none was closed within {} s", .waited.as_secs_f64())]
    NonePlaced {
        /// The limit.
        max_terminals: usize,
        /// Duration of the wait.
        waited: Duration,
    },
    /// The name looks like the id of a terminal.
    #[error("the name '{name}' looks like the id of a terminal")]
    NameLikeId {
        /// The name.
        name: String,
    },
    /// The program did not start.
    #[error(transparent)]
    Program(#[from] SpawnError),
}

/// A newly opened terminal.
#[derive(Debug)]
pub struct Opened {
    /// The terminal.
    pub terminal: Terminal,
    /// True if the terminal's shell reports the beginning of each prompt.
    pub integrated: bool,
}

/// The open terminals. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Terminals {
    options: Arc<Options>,
    orphans: Orphans,
    open: Arc<Mutex<Open>>,
    names: Arc<Mutex<HashMap<String, TerminalId>>>,
    /// Locked by the next request that waits for a place.
    waiting: Arc<tokio::sync::Mutex<()>>,
    hidden_log: HiddenInputLog,
    scheduler: OutputScheduler,
    memory: MemoryReturn,
    count: Arc<watch::Sender<usize>>,
    activity: Activity,
}

impl Terminals {
    /// Creates an empty set of terminals.
    ///
    /// # Errors
    /// If the options request the adoption of orphans and the system refuses.
    pub fn new(options: Options) -> std::io::Result<Self> {
        let orphans = Orphans::default();
        if options.adopt_orphans {
            orphans.adopt()?;
        }
        Ok(Self {
            options: Arc::new(options),
            orphans,
            open: Arc::default(),
            names: Arc::default(),
            waiting: Arc::default(),
            hidden_log: HiddenInputLog::default(),
            scheduler: OutputScheduler::default(),
            memory: MemoryReturn::default(),
            count: Arc::new(watch::Sender::new(0)),
            activity: Activity::default(),
        })
    }

    /// Opens a terminal and starts its program. Returns once the program runs, before it has printed anything.
    ///
    /// # Errors
    /// If the limit leaves no place, another terminal has the name, or the program does not start.
    pub async fn open(&self, spec: Spec) -> Result<Opened, OpenError> {
        let id = TerminalId::random();
        let reservation = match self.reserve(&id, spec.name.as_deref()) {
            // At the limit, close a terminal whose program has ended.
            Err(OpenError::TooMany { .. }) if self.close_oldest_ended().await => {
                self.reserve(&id, spec.name.as_deref())?
            }
            reserved => reserved?,
        };
        self.start(reservation, spec).await
    }

    /// Reserves a place for a terminal, and its name if it has one. At the limit, waits at most `timeout` for other
    /// terminals to close. Waiting requests get their places in order.
    ///
    /// # Errors
    /// If no place became free in time, or another terminal has the name.
    pub async fn reserve_place(&self, name: Option<&str>, timeout: Duration) -> Result<Place<'_>, OpenError> {
        let waiting = async {
            let _turn = self.waiting.lock().await;
            let mut count = self.follow_count();
            loop {
                match self.reserve(&TerminalId::random(), name) {
                    Err(OpenError::TooMany { .. }) if self.close_oldest_ended().await => {}
                    // Ignore the error: it cannot occur, because `self` owns the sender.
                    Err(OpenError::TooMany { .. }) => drop(count.changed().await),
                    reserved => return reserved,
                }
            }
        };
        let none_placed = |_| OpenError::NonePlaced { max_terminals: self.options.max_terminals, waited: timeout };
        Ok(Place(tokio::time::timeout(timeout, waiting).await.map_err(none_placed)??))
    }

    /// Same as [`Self::open`], at a place reserved for the name.
    ///
    /// # Errors
    /// If the program does not start.
    pub async fn open_at(&self, place: Place<'_>, spec: Spec) -> Result<Opened, OpenError> {
        self.start(place.0, spec).await
    }

    async fn start(&self, reservation: Reservation<'_>, spec: Spec) -> Result<Opened, OpenError> {
        let id = reservation.id.clone().expect("a reservation has its id until it is consumed");
        #[cfg(feature = "simulation")]
        if let Some(simulation) = self.options.simulation.clone() {
            tokio::time::sleep(simulation.delay()).await;
            simulation.record(SimulatedEffect::Open, &id, spec.step.as_deref());
            let description = Description { pid: simulated::SIMULATED_PID, ..spec.description(id) };
            return Ok(self.start_simulated(reservation, description, simulation));
        }
        let description = spec.description(id.clone());
        let mut arguments = spec.arguments;
        let mut environment = terminal_environment(spec.inherited, spec.environment, &id);
        let integration = self
            .options
            .integration
            .as_ref()
            .and_then(|integration| integration.prepare(&mut arguments, &mut environment));
        let descriptors = self.options.descriptors;
        let program = Program { arguments, directory: spec.directory, environment, descriptors };
        let orphans = self.orphans.clone();
        let handle = tokio::runtime::Handle::current();
        let started = tokio::task::spawn_blocking(move || {
            // Registration with the reactor needs its context, and the start of a program blocks until the exec.
            let _context = handle.enter();
            let (pty, slave) = Pty::open(spec.size)?;
            let child = Child::start(&program, Streams::Terminal(slave), &orphans)?;
            Ok::<_, SpawnError>((pty, child))
        });
        let (pty, child) = started.await.map_err(std::io::Error::other).map_err(SpawnError::from)??;
        let pid = child.pid().as_raw_nonzero().get();
        let integrated = integration.is_some();
        let nonce = integration.as_ref().map(|integration| integration.nonce.clone());
        let life = Lifecycle::default();
        let directory = self.options.history_directory.clone();
        let disk = directory.map(|directory| Disk { directory, budget: self.options.history_on_disk });
        let history = History::new(self.options.history_budget).with_disk(disk);
        let parts = TerminalParts {
            pty,
            child,
            screen: Box::new(Emulator::new(spec.size)),
            transcript: Transcript::new(history, nonce),
            description: Description { pid, ..description },
            integration: integration.clone(),
            grace: self.options.grace,
            logs_inputs: self.options.logs_inputs,
            idle: self.options.idle,
            hidden_log: self.hidden_log.clone(),
            scheduler: self.scheduler.clone(),
            activity: self.activity.clone(),
            life: life.clone(),
        };
        let (terminal, requests) = self.insert(reservation, pid, life, integration);
        let terminals = self.clone();
        let memory = self.memory.clone();
        tokio::spawn(async move {
            run(parts, requests, move || terminals.remove(&id)).await;
            memory.record_freed();
        });
        Ok(Opened { terminal, integrated })
    }

    /// Starts a terminal without a program.
    #[cfg(feature = "simulation")]
    fn start_simulated(
        &self,
        reservation: Reservation<'_>,
        description: Description,
        simulation: Arc<dyn Simulation>,
    ) -> Opened {
        let life = Lifecycle::default();
        let (terminal, requests) = self.insert(reservation, description.pid, life.clone(), None);
        let terminals = self.clone();
        tokio::spawn(async move {
            let id = description.id.clone();
            simulated::run(description, requests, &*simulation, life).await;
            terminals.remove(&id);
        });
        Opened { terminal, integrated: true }
    }

    /// Adds a terminal at its reserved place. Returns the terminal and the receiver of its requests.
    fn insert(
        &self,
        reservation: Reservation<'_>,
        pid: i32,
        life: Lifecycle,
        integration: Option<IntegrationSession>,
    ) -> (Terminal, mpsc::UnboundedReceiver<Request>) {
        let id = reservation.into_id();
        let (sender, requests) = mpsc::unbounded_channel();
        let terminal = Terminal::new(id.clone(), pid, life, sender).with_integration(integration);
        self.lock().insert(id, terminal.clone());
        self.activity.record_event();
        (terminal, requests)
    }

    /// Returns the terminal with this id or name.
    #[must_use]
    pub fn get(&self, id_or_name: &str) -> Option<Terminal> {
        // A name never looks like an id.
        let find_by_name = || self.names.lock().get(id_or_name).cloned();
        let id = id_or_name.parse().ok().or_else(find_by_name)?;
        self.lock().get(&id).filter(|terminal| terminal.is_open()).cloned()
    }

    /// Returns the log of lines typed without echo.
    #[must_use]
    pub fn hidden_log(&self) -> &HiddenInputLog {
        &self.hidden_log
    }

    /// Returns a receiver of the number of terminals, including opening and closing ones.
    #[must_use]
    pub fn follow_count(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    /// Returns a receiver of the count of events that may have changed the state of a terminal: output, input, an
    /// opening, an end, a hold.
    #[must_use]
    pub fn follow_activity(&self) -> watch::Receiver<u64> {
        self.activity.follow()
    }

    /// Returns all open terminals, in no order.
    #[must_use]
    pub fn all(&self) -> Vec<Terminal> {
        self.lock().values().filter(|terminal| terminal.is_open()).cloned().collect()
    }

    /// Closes all terminals and ends their processes.
    pub async fn close_all(&self) {
        let closing_tasks: Vec<_> = self
            .all()
            .into_iter()
            .map(|terminal| tokio::spawn(async move { terminal.close(Closing::default()).await }))
            .collect();
        for closed in closing_tasks {
            // Ignore the error, because another caller has closed the terminal in the meantime.
            let _ = closed.await;
        }
    }

    /// Closes the terminal whose program ended first. Returns false if no program has ended.
    async fn close_oldest_ended(&self) -> bool {
        let ended = self.all().into_iter().filter_map(|terminal| Some((terminal.ended()?, terminal)));
        let Some((_, oldest)) = ended.min_by_key(|(ended, _)| *ended) else { return false };
        // Ignore the error, because another caller has closed the terminal.
        let _ = oldest.close(Closing::default()).await;
        true
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Open> {
        self.open.lock()
    }

    /// Reserves a place and a name before the program starts, so that concurrent openings cannot share them.
    fn reserve(&self, id: &TerminalId, name: Option<&str>) -> Result<Reservation<'_>, OpenError> {
        let mut open = self.lock();
        if open.len() >= self.options.max_terminals {
            return Err(OpenError::TooMany { max_terminals: self.options.max_terminals });
        }
        if let Some(name) = name {
            if name.parse::<TerminalId>().is_ok() {
                return Err(OpenError::NameLikeId { name: name.to_owned() });
            }
            let mut names = self.names.lock();
            if let Some(by) = names.get(name) {
                return Err(OpenError::NameTaken { name: name.to_owned(), by: by.clone() });
            }
            names.insert(name.to_owned(), id.clone());
        }
        open.insert(id.clone(), Terminal::new(id.clone(), 0, Lifecycle::default(), mpsc::unbounded_channel().0));
        self.count.send_replace(open.len());
        Ok(Reservation { terminals: self, id: Some(id.clone()) })
    }

    fn remove(&self, id: &TerminalId) {
        self.hidden_log.forget(id);
        let mut open = self.lock();
        open.remove(id);
        self.count.send_replace(open.len());
        drop(open);
        self.names.lock().retain(|_, named| named != id);
        self.activity.record_event();
    }
}

/// A reserved place for a terminal, released on drop unless a terminal opens at it.
#[derive(Debug)]
pub struct Place<'a>(Reservation<'a>);

/// A place among the open terminals, released on drop unless it is converted into an id.
#[derive(Debug)]
struct Reservation<'a> {
    terminals: &'a Terminals,
    id: Option<TerminalId>,
}

impl Reservation<'_> {
    fn into_id(mut self) -> TerminalId {
        self.id.take().expect("a reservation is consumed once")
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.terminals.remove(id);
        }
    }
}

/// Returns the environment of a terminal's program: the inherited variables except another terminal's variables, the
/// variables of this terminal, and the requested variables.
fn terminal_environment(
    inherited: Vec<(OsString, OsString)>,
    requested: Vec<(OsString, OsString)>,
    id: &TerminalId,
) -> Vec<(OsString, OsString)> {
    // Variables that describe another terminal.
    const FOREIGN_VARIABLES: [&str; 9] = [
        "TERM",
        "LINES",
        "COLUMNS",
        "TERMCAP",
        "TERM_PROGRAM",
        "TERM_PROGRAM_VERSION",
        "TMUX",
        "TMUX_PANE",
        "VTE_VERSION",
    ];
    let terminal_variables = [("TERM", "xterm-256color"), ("COLORTERM", "truecolor")];
    let mark = (TERMINAL_VARIABLE.into(), id.as_str().into());
    let mut environment: Vec<(OsString, OsString)> =
        inherited.into_iter().filter(|(key, _)| !FOREIGN_VARIABLES.iter().any(|foreign| key == foreign)).collect();
    environment.extend(terminal_variables.map(|(key, value)| (key.into(), value.into())));
    environment.extend(requested);
    environment.push(mark);
    environment
}
