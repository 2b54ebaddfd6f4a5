//! The processes in which functions are executed.
//!
//! Owns them all: starts one when there is something to execute and the others are
//! busy, replaces one that ended, and kills one that is silent for too long. What was
//! in it is lost and not missed: an execution is begun again by its history. Whose
//! fault an end was is known, because a worker does one thing at a time.

mod worker;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use steplatch_python_api::wire::{Ask, Begin, Reply};
use steplatch_python_api::{Answer, Declaration, Divergence, Entry, Failure, Limits, Progress, Start};

use worker::Worker;
pub use worker::{WorkerExited, WorkerStarter};

/// Workers that compute at the same time, unless all of them are held up: the machine is not theirs alone.
const USUAL: usize = 2;

/// Workers at the most. Each is held up for as long as one function may compute without a call, and no longer.
const MOST: usize = 8;

/// Files of functions that have overrun their time are remembered for so long, and so many of them.
const SUSPECTED_FOR: Duration = Duration::from_secs(600);
const MOST_SUSPECTED: usize = 1000;

/// Deaths that one execution may cause; it fails with the last one.
const DEATHS: u32 = 2;

/// All workers. Cheap to clone; they end with the last clone.
#[derive(Debug, Clone)]
pub struct Workers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    starter: WorkerStarter,
    workers: Mutex<Vec<Arc<Worker>>>,
    executions: AtomicU64,
    /// Files that have overrun their time, with when that was. Their executions leave one worker to all others.
    suspected: Mutex<HashMap<Arc<str>, Instant>>,
}

/// What is executed: a function of a file, with what it begins with.
#[derive(Debug, Clone)]
pub struct Function {
    /// How failures name the file.
    pub file: String,
    /// What stands in it.
    pub text: Arc<str>,
    /// The function, and what it is given.
    pub start: Start,
    /// How far it may go.
    pub limits: Limits,
}

/// One execution, wherever it is. It is forgotten when this is dropped.
#[derive(Debug)]
pub struct Execution {
    workers: Workers,
    function: Function,
    id: u64,
    /// The worker that has it; none after one was lost.
    worker: Option<Arc<Worker>>,
    deaths: u32,
}

/// Why nothing came of an execution.
#[derive(Debug, thiserror::Error)]
pub enum WorkersError {
    /// The file can not be used.
    #[error("{0}")]
    Refused(Failure),
    /// The function does not follow its history.
    #[error("{0}")]
    Diverged(Box<Divergence>),
    /// It took its worker down, twice.
    #[error("the function ended the process that executes it, twice: {0}; it takes too much at once")]
    Deadly(WorkerExited),
    /// It computed for too long in one operation.
    #[error("the function was ended: {0}, which no limit of the interpreter interrupts; make its numbers smaller")]
    Overrun(WorkerExited),
    /// No worker can be had.
    #[error(transparent)]
    WorkerExited(#[from] WorkerExited),
}

impl Workers {
    /// Begins without a worker.
    #[must_use]
    pub fn new(starter: WorkerStarter) -> Self {
        let shared =
            Shared { starter, workers: Mutex::default(), executions: AtomicU64::new(0), suspected: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Returns what a file declares. `file` is how failures name it.
    ///
    /// # Errors
    /// When it can not be used, or nobody can tell.
    pub async fn load(&self, file: &str, text: &str) -> Result<Vec<Declaration>, WorkersError> {
        let mut deaths = 0;
        loop {
            let ask = Ask::Load { file: file.to_owned(), text: text.to_owned() };
            match self.worker(text)?.ask(ask, &Limits::default()).await {
                Ok(Some(Reply::Declares(declared))) => return Ok(declared),
                Ok(Some(Reply::Refused(failure))) => return Err(WorkersError::Refused(failure)),
                Ok(Some(reply)) => return Err(WorkerExited::senseless(&reply).into()),
                // Another one has the time.
                Ok(None) => {}
                Err(gone) => self.count_death(text, &mut deaths, gone)?,
            }
        }
    }

    /// Returns an execution of `function`, which begins when it goes on for the first time.
    #[must_use]
    pub fn execution(&self, function: Function) -> Execution {
        let id = self.shared.executions.fetch_add(1, Ordering::Relaxed);
        Execution { workers: self.clone(), function, id, worker: None, deaths: 0 }
    }

    /// Returns the worker that has the least to do, a new one where all of them are busy and another may be. `text` is the file
    /// that is to be executed.
    fn worker(&self, text: &str) -> Result<Arc<Worker>, WorkerExited> {
        let is_suspected = self.is_suspected(text);
        let mut workers = self.shared.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.retain(|worker| !worker.is_gone());
        let usable = workers.iter().filter(|worker| !is_suspected || !worker.is_reserved());
        let least = usable.min_by_key(|worker| (worker.is_held_up(), worker.open(), worker.memory()));
        let most = if is_suspected { MOST - 1 } else { MOST };
        let at_work = workers.iter().filter(|worker| !worker.is_held_up()).count();
        match least {
            Some(least) if least.open() == 0 || at_work >= USUAL || workers.len() >= most => Ok(least.clone()),
            _ => {
                let worker = Arc::new(Worker::start(&self.shared.starter, workers.len() + 1 == MOST)?);
                workers.push(worker.clone());
                Ok(worker)
            }
        }
    }
}

impl Workers {
    /// Counts the end of a worker against what it was busy with.
    fn count_death(&self, text: &str, deaths: &mut u32, gone: WorkerExited) -> Result<(), WorkersError> {
        if gone.overran() {
            self.suspect(text);
            return Err(WorkersError::Overrun(gone));
        }
        if !gone.was_busy_with_this() {
            return Ok(());
        }
        *deaths += 1;
        if *deaths < DEATHS {
            tracing::warn!(%gone, "a worker is replaced");
            return Ok(());
        }
        Err(WorkersError::Deadly(gone))
    }

    fn suspect(&self, text: &str) {
        let mut suspected = self.shared.suspected.lock().unwrap_or_else(PoisonError::into_inner);
        suspected.retain(|_, since| since.elapsed() < SUSPECTED_FOR);
        if suspected.len() < MOST_SUSPECTED {
            suspected.insert(text.into(), Instant::now());
        }
    }

    /// Whether a file has overrun its time lately.
    fn is_suspected(&self, text: &str) -> bool {
        let suspected = self.shared.suspected.lock().unwrap_or_else(PoisonError::into_inner);
        suspected.get(text).is_some_and(|since| since.elapsed() < SUSPECTED_FOR)
    }
}

impl Execution {
    /// Brings it to where its history leads, on whatever worker there is. Returns what the history does not have yet.
    ///
    /// # Errors
    /// When the function can not be executed, or not like this.
    pub async fn replay(&mut self, history: Vec<Entry>) -> Result<Progress, WorkersError> {
        loop {
            let Function { file, text, start, limits } = self.function.clone();
            let text = text.to_string();
            let begin = Begin { execution: self.id, file, text, start, limits, history: history.clone() };
            let worker = self.workers.worker(&self.function.text)?;
            let reply = worker.ask(Ask::Begin(Box::new(begin)), &self.function.limits).await;
            self.worker = Some(worker);
            match reply {
                Ok(Some(Reply::Progressed(progress))) => return Ok(progress),
                Ok(Some(Reply::Refused(failure))) => return Err(WorkersError::Refused(failure)),
                Ok(Some(Reply::Diverged(divergence))) => return Err(WorkersError::Diverged(divergence)),
                Ok(Some(reply)) => return Err(WorkerExited::senseless(&reply).into()),
                Ok(None) => self.leave(),
                Err(gone) => {
                    self.worker = None;
                    self.workers.count_death(&self.function.text, &mut self.deaths, gone)?;
                }
            }
        }
    }

    /// Answers a call. Returns `None` when its worker is lost: it has to be replayed then, by a history with this answer.
    ///
    /// # Errors
    /// When the function can not be executed any more.
    pub async fn answer(&mut self, ordinal: u64, answer: Answer) -> Result<Option<Progress>, WorkersError> {
        self.go_on(Ask::Answer { execution: self.id, ordinal, answer }).await
    }

    /// Leaves a call to the execution itself. Returns as [`Self::answer`].
    ///
    /// # Errors
    /// When the function can not be executed any more.
    pub async fn inline(&mut self, ordinal: u64) -> Result<Option<Progress>, WorkersError> {
        self.go_on(Ask::Inline { execution: self.id, ordinal }).await
    }

    async fn go_on(&mut self, ask: Ask) -> Result<Option<Progress>, WorkersError> {
        let Some(worker) = &self.worker else { return Ok(None) };
        match worker.ask(ask, &self.function.limits).await {
            Ok(Some(Reply::Progressed(progress))) => Ok(Some(progress)),
            Ok(Some(Reply::Unknown)) => {
                self.worker = None;
                Ok(None)
            }
            Ok(Some(reply)) => Err(WorkerExited::senseless(&reply).into()),
            // It is held up by another execution; where it goes on, its history leads to the same place.
            Ok(None) => {
                self.leave();
                Ok(None)
            }
            Err(gone) => {
                self.worker = None;
                self.workers.count_death(&self.function.text, &mut self.deaths, gone)?;
                Ok(None)
            }
        }
    }

    /// Returns the text of the file that is executed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.function.text
    }
}

impl Execution {
    /// Leaves its worker, if it has one.
    fn leave(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.forget(self.id);
        }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.leave();
    }
}
