//! State that all runs of a daemon share: their journal, their drivers, and the retention of finished runs.
//!
//! Owns the journal of the daemon. A run in progress is in memory; any other run is only in the journal.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use steplatch_access::{Approver, Caller, Passkeys, Redactor, is_sealed};
use steplatch_clock::Clock;
use steplatch_ids::{RunId, StepId};
use steplatch_project::{Projects, Workers, Workflows};
use steplatch_services::RemoteServices;
use steplatch_sessions::{Sessions, ShutdownMode};
use steplatch_store::{
    Append, AppendError, Appended, Journal, KnownRun, OpenError, Retention, RunFilter, SqliteJournal, SqliteOptions,
    StorageError,
};
use steplatch_terminal::MemoryReturn;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::function::OwnFile;
use super::locked::LockedRuns;
use super::machine::DefinitionCache;
use super::run::{Run, RunState, RunStatus};
use crate::dependencies::{EnginePolicy, RunDependencies, RunListener};
use crate::engine::{ENTRY_VERSION, RecoveryError, StartError};
use crate::nodes::{ExecutorFactory, Nodes};
use crate::outer::{OuterEngine, WorkerToken};
use crate::secret_answers::SecretAnswers;

/// Maximum number of workflow names in a reply.
const MAX_NAMED_WORKFLOWS: usize = 50;

/// Maximum number of runs in progress. Each run needs memory until it finishes.
const MAX_RUNS: usize = 10_000;

/// Time that the private data of a finished run may stay in the log.
const EMPTY_LOG_DELAY: Duration = Duration::from_secs(2);

/// Maximum attempts to empty the log while something reads it.
const MAX_EMPTY_ATTEMPTS: usize = 60;

/// First and maximum delay before a retry of a failed write to the journal.
pub(super) const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Inverse of the fraction of finished runs to delete at a time when the journal is full.
const EVICTION_DIVISOR: usize = 16;

/// Number of finished runs between two deletions of expired runs.
const RUNS_PER_CLEANUP: usize = 50;

/// Maximum number of long histories to read at the same time.
const MAX_READERS: usize = 2;

/// Rules for keeping finished runs. The daemon deletes a run when either rule no longer keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Maximum number of finished runs to keep, newest first.
    pub max_runs: usize,
    /// Maximum age of a finished run.
    pub time: Option<Duration>,
    /// Maximum size of the journal, in bytes. The daemon deletes the oldest finished runs to stay below it.
    pub disk: Option<u64>,
}

impl Default for RetentionPolicy {
    fn default() -> Self {
        Self { max_runs: 1000, time: Some(Duration::from_secs(90 * 86_400)), disk: None }
    }
}

/// The state that all runs of a daemon share.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) journal: Arc<dyn Journal>,
    /// The clock of runs, for deadlines, pauses and histories.
    pub(super) clock: Clock,
    pub(super) sessions: Sessions,
    pub(super) secrets: Arc<Redactor>,
    pub(super) workflows: Workflows,
    pub(super) workers: Workers,
    /// Nodes that machines call.
    pub(super) nodes: Arc<Nodes>,
    pub(super) projects: Projects,
    pub(super) executors: ExecutorFactory,
    pub(super) approver: Arc<Approver>,
    /// The keys that sign answers.
    pub(super) passkeys: Arc<Passkeys>,
    /// Services of remote workflows.
    pub(super) remotes: RemoteServices,
    /// Receives the progress of runs.
    pub(super) listener: Arc<dyn RunListener>,
    /// Number of descendants in progress of each root run.
    pub(super) descendants: Mutex<HashMap<RunId, usize>>,
    /// Files of functions, for the runs in progress.
    pub(super) files: Mutex<Vec<Weak<OwnFile>>>,
    /// Definitions of machines, for the runs in progress.
    pub(super) definitions: DefinitionCache,
    /// The runs in progress.
    pub(super) driven: Mutex<HashMap<RunId, Arc<Run>>>,
    /// Unfinished runs that cannot continue, with the reasons.
    pub(super) broken: Mutex<HashMap<RunId, RecoveryError>>,
    /// Runs that wait for a person and continue once a client sends the approver's passphrase.
    pub(super) locked: LockedRuns,
    /// The values of secret fields of gates.
    pub(super) secret_answers: SecretAnswers,
    /// The outer engine. It decides some of the runs.
    pub(super) outer: Arc<OuterEngine>,
    /// Chooses the engine of runs that specify none.
    pub(super) engine_policy: Arc<dyn EnginePolicy>,
    /// Admits workers of the outer engine.
    pub(super) worker_token: WorkerToken,
    /// Cancelled when the daemon stops: the next one continues the runs.
    pub(super) stopping: CancellationToken,
    /// Returns the unused memory of runs to the system.
    memory: MemoryReturn,
    /// Stops the daemon.
    stop: watch::Sender<Option<ShutdownMode>>,
    pub(super) drivers: TaskTracker,
    pub(super) retention: RetentionPolicy,
    /// Set if a task is about to empty the log.
    pub(super) emptying: AtomicBool,
    /// Limits the concurrent readers of long histories, so that they block no other work.
    pub(super) readers: Arc<Semaphore>,
    /// Number of runs that finished since the last deletion.
    pub(super) finished_count: AtomicUsize,
}

impl Engine {
    /// Returns the first names of workflows that `caller` may run: saved workflows, then workflows of remote services.
    pub(super) async fn available_workflows(&self, caller: &Caller) -> Vec<String> {
        let mut names = self.workflows.available(caller).await;
        let room = MAX_NAMED_WORKFLOWS.saturating_sub(names.len());
        names.extend(self.remotes.names().into_iter().take(room));
        names
    }

    /// Creates the state, without runs in progress. `state` is the directory with the token of workers.
    pub(super) fn new(
        journal: Arc<dyn Journal>,
        state: &Path,
        dependencies: RunDependencies,
        retention: RetentionPolicy,
    ) -> Self {
        let RunDependencies {
            sessions,
            workflows,
            workers,
            nodes,
            projects,
            executors,
            approver,
            passkeys,
            remotes,
            secrets,
            listener,
            stop,
            clock,
            engine_policy,
        } = dependencies;
        let worker_token = WorkerToken::new(state);
        Self {
            journal,
            clock,
            sessions,
            secrets,
            workflows,
            workers,
            nodes,
            projects,
            executors,
            approver,
            passkeys,
            remotes,
            listener,
            descendants: Mutex::default(),
            files: Mutex::default(),
            definitions: DefinitionCache::default(),
            driven: Mutex::default(),
            broken: Mutex::default(),
            locked: LockedRuns::default(),
            secret_answers: SecretAnswers::default(),
            outer: Arc::new(OuterEngine::new(worker_token.exists())),
            worker_token,
            engine_policy,
            stopping: CancellationToken::new(),
            memory: MemoryReturn::default(),
            stop,
            drivers: TaskTracker::new(),
            retention,
            emptying: AtomicBool::new(false),
            readers: Arc::new(Semaphore::new(MAX_READERS)),
            finished_count: AtomicUsize::new(0),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Arc<Run>>> {
        self.driven.lock()
    }

    pub(super) fn descendants(&self) -> MutexGuard<'_, HashMap<RunId, usize>> {
        self.descendants.lock()
    }

    pub(super) fn broken(&self) -> MutexGuard<'_, HashMap<RunId, RecoveryError>> {
        self.broken.lock()
    }

    /// Registers a run in progress. Returns the existing run with the same id, if there is one.
    ///
    /// # Errors
    ///
    /// If too many runs are in progress.
    pub(super) fn register(&self, run: &Arc<Run>) -> Result<Option<Arc<Run>>, StartError> {
        let mut driven = self.lock();
        if let Some(run) = driven.get(&run.id) {
            return Ok(Some(run.clone()));
        }
        if driven.len() >= MAX_RUNS {
            return Err(StartError::TooManyRuns { limit: MAX_RUNS });
        }
        driven.insert(run.id.clone(), run.clone());
        Ok(None)
    }

    /// Returns the run that began before under the same key or id.
    ///
    /// # Errors
    ///
    /// If the run no longer exists, or reading the journal fails.
    pub(super) async fn known(&self, id: &RunId) -> Result<Arc<Run>, StartError> {
        match self.find(id).await {
            Ok(Some(run)) => Ok(run),
            Ok(None) => Err(StartError::Forgotten { run: id.clone() }),
            Err(cause) => Err(StartError::Unreadable { run: id.clone(), cause }),
        }
    }

    /// Returns a run in progress.
    pub(super) fn driven(&self, id: &RunId) -> Option<Arc<Run>> {
        self.lock().get(id).cloned()
    }

    /// Returns a run, in progress or finished.
    pub(super) async fn find(&self, id: &RunId) -> Result<Option<Arc<Run>>, StorageError> {
        if let Some(run) = self.driven(id).or_else(|| self.locked.get(id)) {
            return Ok(Some(run));
        }
        Ok(self.journal.find(id).await?.map(|known| self.to_run(known)))
    }

    /// Returns the run of a journal record.
    pub(super) fn to_run(&self, known: KnownRun) -> Arc<Run> {
        if let Some(run) = self.driven(&known.run) {
            return run;
        }
        if let Some(run) = self.locked.get(&known.run) {
            return run;
        }
        let reason = self.broken().get(&known.run).map(ToString::to_string);
        let Some(reason) = reason else { return Arc::new(Run::from_journal(known)) };
        let blocked_reason = Some(format!("{reason}; cancel the run to write it off"));
        Arc::new(Run::from_journal(known).with_changed_progress(|now| RunStatus { blocked_reason, ..now }))
    }

    /// Removes a finished run from the runs in progress. Its end is in the journal.
    pub(super) fn remove_finished(self: &Arc<Self>, id: &RunId, had_secrets: bool) {
        self.lock().remove(id);
        let shared = self.clone();
        if had_secrets {
            tokio::spawn(async move { shared.empty_log().await });
        } else if !self.emptying.swap(true, Ordering::Relaxed) {
            // One task removes the private data of all runs that end at about this time.
            tokio::spawn(async move {
                tokio::time::sleep(EMPTY_LOG_DELAY).await;
                shared.emptying.store(false, Ordering::Relaxed);
                shared.empty_log().await;
                shared.memory.record_freed();
            });
        }
        if (self.finished_count.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(RUNS_PER_CLEANUP) {
            let shared = self.clone();
            tokio::spawn(async move { shared.forget_finished().await });
        }
    }

    /// Removes the private data of finished runs from the log of the journal.
    pub(super) async fn empty_log(&self) {
        for _ in 0..MAX_EMPTY_ATTEMPTS {
            match self.journal.empty_log().await {
                Ok(true) => return,
                Ok(false) => tokio::time::sleep(RETRY_PAUSES.0).await,
                Err(error) => return tracing::warn!(%error, "failed to empty the log of the journal"),
            }
        }
        tracing::warn!("failed to empty the log of the journal, because another process reads it");
    }

    /// Deletes finished runs that the rules do not keep.
    pub(super) async fn forget_finished(&self) {
        let since = self.retention.time.map(|time| {
            let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
            u64::try_from(self.clock.now().0.saturating_sub(micros) / 1000).unwrap_or(0)
        });
        let retention = Retention { keep: self.retention.max_runs, finished_since: since };
        if let Err(error) = self.journal.forget_finished(retention).await {
            tracing::warn!(%error, "failed to delete expired finished runs");
        }
    }

    /// Deletes some of the oldest finished runs, to make room for runs in progress. Returns whether there were any.
    pub(super) async fn make_room(&self) -> bool {
        let finished = RunFilter { finished: Some(true), ..RunFilter::default() };
        let count = self.journal.runs(finished).await.map_or(0, |runs| runs.len());
        let retention = Retention { keep: count - count.div_ceil(EVICTION_DIVISOR), finished_since: None };
        match self.journal.forget_finished(retention).await {
            Ok(removed) if !removed.is_empty() => {
                tracing::warn!(runs = removed.len(), "the journal is full: the oldest finished runs are deleted");
                true
            }
            Ok(_) => false,
            Err(error) => {
                tracing::warn!(%error, "the journal is full, and no finished run can be deleted");
                false
            }
        }
    }

    /// Appends the start of a run. Retries on a full journal as long as deletions make room.
    pub(super) async fn write_first(&self, append: Append) -> Result<Appended, AppendError> {
        loop {
            match self.journal.write(append.clone()).await {
                Err(AppendError::Storage(StorageError::Full(_))) if self.make_room().await => {}
                Err(error @ AppendError::Storage(StorageError::NotOwner { .. })) => {
                    self.give_way();
                    return Err(error);
                }
                result => return result,
            }
        }
    }

    /// Appends to the journal. While the journal is full, waits and reports that in `progress`. Returns the number of
    /// the last entry, or `None` when this daemon must no longer drive the run.
    pub(super) async fn append_retrying(
        self: &Arc<Self>,
        append: Append,
        progress: &watch::Sender<RunStatus>,
    ) -> Option<u64> {
        let run = append.run.clone();
        let mut pause = RETRY_PAUSES.0;
        loop {
            match self.journal.write(append.clone()).await {
                Ok(Appended::Written { last }) => {
                    if append.private.as_deref().is_some_and(is_sealed) {
                        // The log contains earlier private data in plain form until a task empties the log.
                        let shared = self.clone();
                        tokio::spawn(async move { shared.empty_log().await });
                    }
                    return Some(last);
                }
                Ok(Appended::Existing { run: existing }) => {
                    tracing::error!(%run, %existing, "the journal treated an append without a key as a repeated start");
                    return None;
                }
                Err(AppendError::Storage(StorageError::NotOwner { .. })) => {
                    self.give_way();
                    return None;
                }
                Err(error @ AppendError::Conflict { .. }) => {
                    tracing::error!(%run, %error, "two daemons drive the same run");
                    return None;
                }
                Err(AppendError::Storage(StorageError::Closed)) => return None,
                Err(AppendError::Storage(StorageError::Full(_))) if self.make_room().await => continue,
                Err(AppendError::Storage(error)) => {
                    tracing::warn!(%run, %error, "a run waits for its journal");
                    let blocked_reason = format!("the run continues when its next step can be stored: {error}");
                    progress.send_modify(|progress| progress.blocked_reason = Some(blocked_reason));
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(RETRY_PAUSES.1),
                () = self.stopping.cancelled() => return None,
            }
        }
    }

    /// Ends this daemon, because another one has taken over the journal. This happens after the removal of the lock
    /// file.
    fn give_way(&self) {
        tracing::error!("another daemon has taken over this state directory; stopping");
        self.stop.send_replace(Some(ShutdownMode::GiveWay));
    }

    /// Records the cancellation of a run that cannot resume.
    ///
    /// # Errors
    ///
    /// If the journal does not store it.
    pub(super) async fn write_off(&self, run: &Run) -> Result<(), AppendError> {
        let RunStatus { seq, error, blocked_reason, .. } = run.progress();
        let (state, ended) = (RunState::Cancelled, Some(self.clock.now()));
        let progress = RunStatus { seq, state, ended, error: blocked_reason.or(error), ..RunStatus::default() };
        self.write_summary(run, &progress).await?;
        self.broken().remove(&run.id);
        Ok(())
    }

    /// Records the end of a run without a driver.
    ///
    /// # Errors
    ///
    /// If the journal does not store it.
    pub(super) async fn write_summary(&self, run: &Run, progress: &RunStatus) -> Result<(), AppendError> {
        let mut append = Append::new(run.id.clone(), progress.seq, ENTRY_VERSION, Vec::new());
        append.summary = Some(progress.summary(&run.header));
        self.journal.write(append).await.map(drop)
    }

    /// Performs slow work on a blocking thread. A semaphore limits the number of concurrent calls.
    pub(super) async fn run_blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let permit = self.readers.clone().acquire_owned().await.expect("the semaphore is never closed");
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        match task.await {
            Ok(result) => result,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Returns whether the parent run is locked.
    pub(super) fn is_parent_locked(&self, parent: Option<&StepId>) -> bool {
        parent.is_some_and(|step| self.locked.contains(&step.run))
    }

    /// Waits until the parent run is unlocked and can receive the run's result. Returns false when the daemon stops
    /// first.
    pub(super) async fn wait_until_parent_opens(&self, parent: Option<&StepId>) -> bool {
        let Some(step) = parent else { return true };
        tokio::select! {
            () = self.locked.wait_until_unlocked(&step.run) => true,
            () = self.stopping.cancelled() => false,
        }
    }
}

/// Opens the journal in a file. Creates a missing journal.
///
/// # Errors
///
/// If opening the journal fails.
pub(super) async fn open_journal(path: PathBuf, max_bytes: Option<u64>) -> Result<SqliteJournal, OpenError> {
    let options = SqliteOptions { newest_version: ENTRY_VERSION, max_bytes };
    let opening = path.clone();
    let result = tokio::task::spawn_blocking(move || SqliteJournal::open(&opening, &options)).await;
    result.unwrap_or_else(|error| Err(OpenError::File { path, cause: std::io::Error::other(error) }))
}
