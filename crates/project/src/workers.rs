//! The worker processes. They execute functions.
//!
//! Owns all workers: starts one if all others are busy, replaces a worker that has exited, and kills an unresponsive
//! one. Executions of a lost worker are restored from their histories. A worker processes one request at a time, so a
//! crash identifies its request.

mod worker;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;
use parking_lot::Mutex;
use steplatch_python_api::wire::{Begin, Reply, Request};
use steplatch_python_api::{Answer, Declaration, Divergence, Entry, Failure, Limits, Progress, Start};

use worker::Worker;
pub use worker::{WorkerExited, WorkerSource, WorkerStarter};

/// Maximum number of workers while they are responsive, because other processes also need the processors. A blocked
/// worker does not count.
const MAX_RESPONSIVE_WORKERS: usize = 2;

/// Maximum number of workers. A function blocks a worker for at most its time limit between two calls.
const MAX_WORKERS: usize = 8;

/// Suspicion period of a file that has exceeded its time limit.
const SUSPICION_TIME: Duration = Duration::from_secs(600);

/// Maximum number of suspected files.
const MAX_SUSPECTED_FILES: usize = 1000;

/// Number of worker crashes that make their execution fail.
const MAX_CRASHES: u32 = 2;

/// All workers. Cheap to clone; they exit when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Workers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    starter: WorkerStarter,
    workers: Mutex<Vec<Arc<Worker>>>,
    next_execution: AtomicU64,
    /// Times of exceeded time limits, by the text of the file. Executions of suspected files do not use the reserved
    /// worker.
    suspected: Mutex<HashMap<Arc<str>, Instant>>,
}

/// A function of a file, with its input.
#[derive(Debug, Clone)]
pub struct Function {
    /// The name of the file in errors.
    pub file: String,
    /// The source text.
    pub text: Arc<str>,
    /// The function to call, and its input.
    pub start: Start,
    /// The limits.
    pub limits: Limits,
}

/// An execution, on any worker. The worker discards a dropped execution.
#[derive(Debug)]
pub struct Execution {
    workers: Workers,
    function: Function,
    id: u64,
    /// The worker with the execution; `None` before the first replay and after the worker is lost.
    worker: Option<Arc<Worker>>,
    crashes: u32,
}

/// Error of an execution.
#[derive(Debug, thiserror::Error)]
pub enum WorkersError {
    /// The file is unusable.
    #[error("{0}")]
    Refused(Failure),
    /// The function's calls differ from its history.
    #[error("{0}")]
    Diverged(Box<Divergence>),
    /// The function crashed its worker twice.
    #[error("the function crashed its worker process twice: {0}; make it do less work per call")]
    CrashedTwice(WorkerExited),
    /// The function computed for too long in one operation.
    #[error(
        "the function was stopped: {0}, in an operation that the interpreter cannot interrupt; use smaller numbers"
    )]
    Overrun(WorkerExited),
    /// A worker could not start, or sent a reply that does not match its request.
    #[error(transparent)]
    WorkerExited(#[from] WorkerExited),
}

impl Workers {
    /// Creates the pool without a worker.
    #[must_use]
    pub fn new(starter: WorkerStarter) -> Self {
        let shared = Shared {
            starter,
            workers: Mutex::default(),
            next_execution: AtomicU64::new(0),
            suspected: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the declarations of a file. `file` is its name in errors.
    ///
    /// # Errors
    ///
    /// If the file is unusable, or cannot be checked.
    #[boxed]
    pub async fn load(&self, file: &str, text: &str) -> Result<Vec<Declaration>, WorkersError> {
        let mut crashes = 0;
        loop {
            let ask = Request::Load { file: file.to_owned(), text: text.to_owned() };
            match self.choose_worker(text)?.ask(ask, &Limits::default()).await {
                Ok(Some(Reply::Declares(declarations))) => return Ok(declarations),
                Ok(Some(Reply::Refused(failure))) => return Err(WorkersError::Refused(failure)),
                Ok(Some(reply)) => return Err(WorkerExited::mismatched_reply(&reply).into()),
                // Another execution blocks this worker. Try another worker.
                Ok(None) => {}
                Err(exited) => self.count_crash(text, &mut crashes, exited)?,
            }
        }
    }

    /// Returns an execution of `function`. The execution starts when it is first resumed.
    #[must_use]
    pub fn execution(&self, function: Function) -> Execution {
        let id = self.shared.next_execution.fetch_add(1, Ordering::Relaxed);
        Execution { workers: self.clone(), function, id, worker: None, crashes: 0 }
    }

    /// Returns the worker with the fewest requests, or a new one if all of them are busy and there are fewer than the
    /// maximum. `text` is the file to execute.
    fn choose_worker(&self, text: &str) -> Result<Arc<Worker>, WorkerExited> {
        let is_suspected = self.is_suspected(text);
        let mut workers = self.shared.workers.lock();
        workers.retain(|worker| !worker.has_exited());
        let usable = workers.iter().filter(|worker| !is_suspected || !worker.is_reserved());
        let least_busy = usable.min_by_key(|worker| (worker.is_held_up(), worker.pending_requests(), worker.memory()));
        let max_workers = if is_suspected { MAX_WORKERS - 1 } else { MAX_WORKERS };
        let responsive_workers = workers.iter().filter(|worker| !worker.is_held_up()).count();
        match least_busy {
            Some(worker)
                if worker.pending_requests() == 0
                    || responsive_workers >= MAX_RESPONSIVE_WORKERS
                    || workers.len() >= max_workers =>
            {
                Ok(worker.clone())
            }
            _ => {
                let worker = Arc::new(Worker::start(&self.shared.starter, workers.len() + 1 == MAX_WORKERS)?);
                workers.push(worker.clone());
                Ok(worker)
            }
        }
    }
}

impl Workers {
    /// Counts a worker's exit if this execution caused it. Fails at the maximum.
    fn count_crash(&self, text: &str, crashes: &mut u32, exited: WorkerExited) -> Result<(), WorkersError> {
        if exited.overran() {
            self.suspect(text);
            return Err(WorkersError::Overrun(exited));
        }
        if !exited.was_busy_with_this() {
            return Ok(());
        }
        *crashes += 1;
        if *crashes < MAX_CRASHES {
            tracing::warn!(reason = %exited, "a worker exited and is replaced");
            return Ok(());
        }
        Err(WorkersError::CrashedTwice(exited))
    }

    fn suspect(&self, text: &str) {
        let mut suspected = self.shared.suspected.lock();
        suspected.retain(|_, since| since.elapsed() < SUSPICION_TIME);
        if suspected.len() < MAX_SUSPECTED_FILES {
            suspected.insert(text.into(), Instant::now());
        }
    }

    /// Returns whether a file has recently exceeded its time limit.
    fn is_suspected(&self, text: &str) -> bool {
        let suspected = self.shared.suspected.lock();
        suspected.get(text).is_some_and(|since| since.elapsed() < SUSPICION_TIME)
    }
}

impl Execution {
    /// Restores an execution from its history, on any worker. Returns its progress after the history.
    ///
    /// # Errors
    ///
    /// If the function cannot be executed, or does not follow this history.
    #[boxed]
    pub async fn replay(&mut self, history: Vec<Entry>) -> Result<Progress, WorkersError> {
        loop {
            let Function { file, text, start, limits } = self.function.clone();
            let text = text.to_string();
            let begin = Begin { execution: self.id, file, text, start, limits, history: history.clone() };
            let worker = self.workers.choose_worker(&self.function.text)?;
            let reply = worker.ask(Request::Begin(Box::new(begin)), &self.function.limits).await;
            self.worker = Some(worker);
            match reply {
                Ok(Some(Reply::Progressed(progress))) => return Ok(progress),
                Ok(Some(Reply::Refused(failure))) => return Err(WorkersError::Refused(failure)),
                Ok(Some(Reply::Diverged(divergence))) => return Err(WorkersError::Diverged(divergence)),
                Ok(Some(reply)) => return Err(WorkerExited::mismatched_reply(&reply).into()),
                Ok(None) => self.leave_worker(),
                Err(exited) => {
                    self.worker = None;
                    self.workers.count_crash(&self.function.text, &mut self.crashes, exited)?;
                }
            }
        }
    }

    /// Answers a call. Returns `None` once its worker is lost. The caller then replays the execution with a history
    /// that includes this answer.
    ///
    /// # Errors
    ///
    /// If the function can no longer be executed.
    #[boxed]
    pub async fn answer(&mut self, ordinal: u64, answer: Answer) -> Result<Option<Progress>, WorkersError> {
        self.resume(Request::Answer { execution: self.id, ordinal, answer }).await
    }

    /// Makes the execution perform a call itself. Returns the same as [`Self::answer`].
    ///
    /// # Errors
    ///
    /// If the function can no longer be executed.
    #[boxed]
    pub async fn inline(&mut self, ordinal: u64) -> Result<Option<Progress>, WorkersError> {
        self.resume(Request::Inline { execution: self.id, ordinal }).await
    }

    async fn resume(&mut self, ask: Request) -> Result<Option<Progress>, WorkersError> {
        let Some(worker) = &self.worker else { return Ok(None) };
        match worker.ask(ask, &self.function.limits).await {
            Ok(Some(Reply::Progressed(progress))) => Ok(Some(progress)),
            Ok(Some(Reply::Unknown)) => {
                self.worker = None;
                Ok(None)
            }
            Ok(Some(reply)) => Err(WorkerExited::mismatched_reply(&reply).into()),
            // Another execution blocks this worker; a replay on another worker reaches the same state.
            Ok(None) => {
                self.leave_worker();
                Ok(None)
            }
            Err(exited) => {
                self.worker = None;
                self.workers.count_crash(&self.function.text, &mut self.crashes, exited)?;
                Ok(None)
            }
        }
    }

    /// Returns the text of the executed file.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.function.text
    }
}

impl Execution {
    /// Makes the worker, if any, discard the execution.
    fn leave_worker(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.forget(self.id);
        }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.leave_worker();
    }
}
