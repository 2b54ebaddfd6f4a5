//! Runs of workflows: started, driven, looked at, cancelled.
//!
//! Owns every run of this daemon. What happens next is decided in `workflow`; a
//! task for each run appends the events, performs the effects, and brings their
//! outcomes back. A run goes on whoever asked for it, and with the next daemon when
//! this one ends.

mod act;
mod begin;
mod catalog;
mod child;
mod contract;
mod drive;
mod event;
mod gate;
mod origin;
mod report;
mod run;
mod seal;
mod source;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use steplatch_ids::RunId;
use steplatch_library::Signature;
use steplatch_protocol::{
    CancelWorkflow, CancelWorkflowReply, GetRun, GetWorkflowRun, GetWorkflowRunReply, ListWorkflowRuns,
    ListWorkflowRunsReply, RunRecord, RunReply, RunWorkflow, Subscribe, SubscribeReply,
};
use steplatch_store::{
    Append, AppendError, Appended, Journal, KnownRun, OpenError, Retention, RunFilter, SqliteJournal, SqliteOptions,
    StorageError,
};
use steplatch_workflow::{InvalidLimits, Limits, Start};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use event::RunEvents;

use crate::caller::Caller;
use crate::library::Workflows;
use crate::moment;
use crate::secrets::Secrets;
use crate::sessions::Sessions;
use begin::Beginning;
pub use catalog::TerminalTools;
use drive::ENTRY_VERSION;
use run::{Progress, Run, RunState};
use seal::Seal;

/// How long a start waits for the end of its run unless it says otherwise.
const USUAL_WAIT: f64 = 20.0;

/// How long anybody may wait in one go, in seconds.
const LONGEST_WAIT: f64 = 7200.0;

/// How long the end of a run that is cancelled is waited for.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// Runs that are listed unless another number is given.
const USUALLY_LISTED: usize = 50;

/// How long what a run kept for itself may stay in the log after its end.
const EMPTIED_WITHIN: Duration = Duration::from_secs(2);

/// Of so many finished runs, one gives way at a time when the journal is full.
const GIVEN_WAY: usize = 16;

/// Long histories that are read at the same time.
const READERS: usize = 2;

/// Runs that are looked through at a time.
const PAGE: usize = 200;

/// So many runs end before those that are not kept are forgotten.
const FORGET_EVERY: usize = 50;

/// Which finished runs are kept. A run goes when either rule lets it go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptRuns {
    /// So many that finished last.
    pub most: usize,
    /// Those that finished within this time.
    pub time: Option<Duration>,
    /// How large the journal may become, in bytes; the oldest finished runs give way.
    pub disk: Option<u64>,
}

impl Default for KeptRuns {
    fn default() -> Self {
        Self { most: 1000, time: Some(Duration::from_secs(90 * 86_400)), disk: None }
    }
}

/// All runs.
#[derive(Debug)]
pub(crate) struct Runs {
    shared: Arc<Shared>,
}

/// What runs have in common.
#[derive(Debug)]
struct Shared {
    journal: SqliteJournal,
    sessions: Sessions,
    secrets: Arc<Secrets>,
    workflows: Workflows,
    /// The runs that are under way.
    driven: Mutex<HashMap<RunId, Arc<Run>>>,
    /// Runs that are not over and can not go on, and why.
    broken: Mutex<HashMap<RunId, String>>,
    /// Cancelled when the daemon stops: runs are left to the next one.
    stopping: CancellationToken,
    drivers: TaskTracker,
    keep: KeptRuns,
    /// Whether the log is about to be emptied.
    emptying: AtomicBool,
    /// Who reads long histories stands in line, so that they hold up nobody else.
    readers: Arc<Semaphore>,
    /// Runs that ended since some were forgotten.
    ended: AtomicUsize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Arc<Run>>> {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn broken(&self) -> MutexGuard<'_, HashMap<RunId, String>> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a run that is under way.
    fn driven(&self, id: &RunId) -> Option<Arc<Run>> {
        self.lock().get(id).cloned()
    }

    /// Returns a run, however far it is.
    async fn find(&self, id: &RunId) -> Result<Option<Arc<Run>>, StorageError> {
        if let Some(run) = self.driven(id) {
            return Ok(Some(run));
        }
        Ok(self.journal.find(id).await?.map(|known| self.told(known)))
    }

    /// Returns a run from what the journal tells.
    fn told(&self, known: KnownRun) -> Arc<Run> {
        if let Some(run) = self.driven(&known.run) {
            return run;
        }
        let trouble = self.broken().get(&known.run).map(|why| format!("{why}; cancel the run to write it off"));
        Arc::new(Run::told(known).in_trouble(trouble))
    }

    /// Notes that a run is over and written down as that.
    fn ended(self: &Arc<Self>, id: &RunId, had_secrets: bool) {
        self.lock().remove(id);
        let shared = self.clone();
        if had_secrets {
            tokio::spawn(async move { shared.empty_log().await });
        } else if !self.emptying.swap(true, Ordering::Relaxed) {
            // What else it kept for itself goes with that of others that end about now.
            tokio::spawn(async move {
                tokio::time::sleep(EMPTIED_WITHIN).await;
                shared.emptying.store(false, Ordering::Relaxed);
                shared.empty_log().await;
            });
        }
        if (self.ended.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(FORGET_EVERY) {
            let shared = self.clone();
            tokio::spawn(async move { shared.forget_finished().await });
        }
    }

    /// Sees to it that what runs kept for themselves is in no file.
    async fn empty_log(&self) {
        if let Err(error) = self.journal.empty_log().await {
            tracing::warn!(%error, "the log of the journal is not emptied");
        }
    }

    /// Forgets finished runs that are not kept.
    async fn forget_finished(&self) {
        let since = self.keep.time.map(|time| {
            let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
            u64::try_from(moment::now().0.saturating_sub(micros) / 1000).unwrap_or(0)
        });
        let retention = Retention { keep: self.keep.most, finished_since: since };
        if let Err(error) = self.journal.forget_finished(retention).await {
            tracing::warn!(%error, "finished runs are kept longer than they should be");
        }
    }

    /// Forgets some of the finished runs, the oldest, because there is no room for what goes on now. Returns whether
    /// there were any.
    async fn make_room(&self) -> bool {
        let finished = RunFilter { finished: Some(true), ..RunFilter::default() };
        let count = self.journal.runs(finished).await.map_or(0, |runs| runs.len());
        let retention = Retention { keep: count - count.div_ceil(GIVEN_WAY), finished_since: None };
        match self.journal.forget_finished(retention).await {
            Ok(gone) if !gone.is_empty() => {
                tracing::warn!(runs = gone.len(), "the journal is full: the oldest finished runs are forgotten");
                true
            }
            Ok(_) => false,
            Err(error) => {
                tracing::warn!(%error, "the journal is full, and nothing can be forgotten");
                false
            }
        }
    }

    /// Appends the beginning of a run, again whenever room was made for it.
    async fn write_first(&self, append: Append) -> Result<Appended, AppendError> {
        loop {
            match self.journal.write(append.clone()).await {
                Err(AppendError::Storage(StorageError::Full(_))) if self.make_room().await => {}
                written => return written,
            }
        }
    }

    /// Writes down that a run is cancelled which nobody can go on with.
    async fn write_off(&self, run: &Run) -> Result<(), String> {
        let Progress { seq, error, trouble, .. } = run.progress();
        let (state, ended) = (RunState::Cancelled, Some(moment::now()));
        let progress = Progress { seq, state, ended, error: trouble.or(error), ..Progress::default() };
        let mut append = Append::new(run.id.clone(), progress.seq, ENTRY_VERSION, Vec::new());
        append.summary = Some(progress.summary(&run.about));
        self.journal.write(append).await.map_err(|error| error.to_string())?;
        self.broken().remove(&run.id);
        Ok(())
    }
}

impl Runs {
    /// Opens the journal, made when it is not there.
    ///
    /// # Errors
    /// When the journal can not be used.
    pub(crate) async fn open(
        path: PathBuf,
        sessions: Sessions,
        workflows: Workflows,
        secrets: Arc<Secrets>,
        keep: KeptRuns,
    ) -> Result<Self, OpenError> {
        let journal = open_journal(path, keep.disk).await?;
        let shared = Shared {
            journal,
            sessions,
            secrets,
            workflows,
            driven: Mutex::default(),
            broken: Mutex::default(),
            stopping: CancellationToken::new(),
            drivers: TaskTracker::new(),
            keep,
            emptying: AtomicBool::new(false),
            readers: Arc::new(Semaphore::new(READERS)),
            ended: AtomicUsize::new(0),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Goes on with what the last daemon left.
    pub(crate) async fn recover(&self) {
        self.shared.recover().await;
        let shared = self.shared.clone();
        tokio::spawn(async move { shared.forget_finished().await });
    }

    pub(crate) fn count_under_way(&self) -> usize {
        self.shared.lock().len()
    }

    /// Leaves every run where it is, for the next daemon to go on.
    pub(crate) async fn leave(&self) {
        self.shared.stopping.cancel();
        self.shared.drivers.close();
        // One that closes terminals may take its time, and the next daemon does the rest.
        let _ = tokio::time::timeout(ENDS_WITHIN, self.shared.drivers.wait()).await;
        self.shared.empty_log().await;
    }

    /// Starts a run and waits for its end, or for a gate, as long as was asked. Asked for again as the same `step`,
    /// the run that it started is the answer.
    pub(crate) async fn run(&self, caller: &Arc<Caller>, verb: RunWorkflow, step: Option<String>) -> RunReply {
        let wait = verb.wait_seconds.unwrap_or(USUAL_WAIT).clamp(0.0, LONGEST_WAIT);
        let reply = match self.start(caller, verb, step).await {
            Ok(run) => {
                self.at_rest(&run, Duration::from_secs_f64(wait)).await;
                self.report(&run).await
            }
            Err(reply) => *reply,
        };
        RunReply { available_workflows: self.shared.workflows.available(caller).await, ..reply }
    }

    async fn start(
        &self,
        caller: &Arc<Caller>,
        verb: RunWorkflow,
        step: Option<String>,
    ) -> Result<Arc<Run>, Box<RunReply>> {
        let key = match (&verb.idempotency_key, step) {
            (Some(key), _) => Some(format!("key {key}")),
            (None, step) => step.map(|step| format!("step {step}")),
        };
        let begun = match &key {
            Some(key) => self.begun_before(key).await,
            None => None,
        };
        let asked = self.shared.definition(caller, &verb).await;
        if let Some(run) = begun {
            // What can not be found any more was what the run began with.
            let other = asked.is_ok_and(|(definition, _)| {
                run.about.signature.as_ref().is_some_and(|known| *known != Signature::of(definition.document()))
            });
            return match &verb.idempotency_key {
                Some(key) if other => {
                    let (id, workflow) = (&run.id, &run.about.workflow);
                    let error = format!(
                        "idempotency_key '{key}' belongs to run {id} of '{workflow}', which does something else; choose \
                         another key"
                    );
                    Err(not_started("execution_error", error))
                }
                _ => Ok(run),
            };
        }
        let (definition, source) = asked?;
        let limits = limits(&verb).map_err(|error| not_started("execution_error", error.to_string()))?;
        if let Some(session) = &verb.session_id {
            let found = self.shared.sessions.exists(session).await;
            found.map_err(|error| not_started("execution_error", error))?;
        }
        let variables = verb.initial_variables.unwrap_or_default();
        let start = Start {
            run: RunId::random(),
            session_id: verb.session_id,
            variables: variables.into_iter().map(|(name, value)| (name, Value::String(value))).collect(),
            limits,
            keep_terminals: verb.keep_terminals,
            parent: None,
            depth: 0,
        };
        let begun = self.shared.begin(caller, Beginning { definition, source, start, key }).await;
        begun.map_err(|error| not_started("execution_error", error))
    }

    async fn begun_before(&self, key: &str) -> Option<Arc<Run>> {
        // A journal that can not read is found out when the run is written down.
        let id = self.shared.journal.run_with_key(key).await.ok()??;
        self.shared.find(&id).await.ok()?
    }

    pub(crate) async fn look_at(&self, verb: GetRun) -> RunReply {
        match self.find(&verb.run_id).await {
            Ok(run) => {
                if let Some(wait) = verb.wait_seconds {
                    self.at_rest(&run, Duration::from_secs_f64(wait.clamp(0.0, LONGEST_WAIT))).await;
                }
                self.report(&run).await
            }
            Err(error) => RunReply { run_id: verb.run_id, error: Some(error), ..RunReply::default() },
        }
    }

    pub(crate) async fn cancel(&self, verb: CancelWorkflow) -> CancelWorkflowReply {
        let run_id = verb.run_id;
        let refused =
            |error: String| CancelWorkflowReply { run_id: run_id.clone(), error: Some(error), ..Default::default() };
        let run = match self.find(&run_id).await {
            Ok(run) => run,
            Err(error) => return refused(error),
        };
        let before = run.state();
        let mut state = before;
        if !before.is_over() && run.is_driven() {
            run.cancel("cancelled on request");
            run.over(ENDS_WITHIN).await;
            state = run.state();
        } else if !before.is_over() {
            match self.shared.write_off(&run).await {
                Ok(()) => state = RunState::Cancelled,
                Err(error) => return refused(format!("the run can not be cancelled: {error}")),
            }
        }
        let message = match (before, state) {
            (before, _) if before.is_over() => format!("Run was already over: {}", before.name()),
            (_, RunState::Cancelled) => "Run cancelled".to_owned(),
            (_, state) if state.is_over() => format!("Run was already over: {}", state.name()),
            _ => {
                let trouble = run.progress().trouble;
                let why = trouble.unwrap_or_else(|| "what is in flight has not ended yet".to_owned());
                return refused(format!("the run is asked to end, and has not yet: {why}"));
            }
        };
        CancelWorkflowReply {
            success: true,
            run_id: run.id.to_string(),
            state: state.name().to_owned(),
            message,
            error: None,
        }
    }

    pub(crate) async fn record(&self, verb: &GetWorkflowRun) -> GetWorkflowRunReply {
        match self.find(&verb.run_id).await {
            Ok(run) => GetWorkflowRunReply { success: true, run: Some(self.told(&run)), error: None },
            Err(error) => GetWorkflowRunReply { error: Some(error), ..GetWorkflowRunReply::default() },
        }
    }

    pub(crate) async fn list(&self, verb: &ListWorkflowRuns) -> ListWorkflowRunsReply {
        let refused = |error: String| ListWorkflowRunsReply { error: Some(error), ..ListWorkflowRunsReply::default() };
        if let Some(name) = verb.state.as_deref().filter(|name| RunState::named(name).is_none()) {
            let known = RunState::ALL.map(RunState::name).join(", ");
            return refused(format!("Invalid state: {name}; states are {known}"));
        }
        let most = verb.limit.map_or(USUALLY_LISTED, |limit| limit as usize);
        let mut runs = Vec::new();
        let mut before = None;
        while runs.len() < most {
            let filter = RunFilter { state: verb.state.clone(), before, limit: Some(PAGE), ..RunFilter::default() };
            let page = match self.shared.journal.runs(filter).await {
                Ok(page) => page,
                Err(error) => return refused(format!("the runs can not be read: {error}")),
            };
            before = page.last().map(|known| known.number);
            let is_last = page.len() < PAGE;
            let told = page.into_iter().map(|known| self.shared.told(known));
            let wanted =
                told.filter(|run| verb.workflow_id.as_ref().is_none_or(|wanted| *wanted == run.about.workflow));
            runs.extend(wanted.map(|run| self.told(&run)));
            if is_last {
                break;
            }
        }
        runs.truncate(most);
        ListWorkflowRunsReply { success: true, runs, error: None }
    }

    pub(crate) async fn subscribe(&self, verb: &Subscribe) -> (SubscribeReply, Option<RunEvents>) {
        match self.find(&verb.run_id).await {
            Ok(run) => {
                let events = RunEvents::new(self.shared.clone(), run, verb.from_seq.unwrap_or(1));
                (SubscribeReply { success: true, error: None }, Some(events))
            }
            Err(error) => (SubscribeReply { success: false, error: Some(error) }, None),
        }
    }

    async fn find(&self, id: &str) -> Result<Arc<Run>, String> {
        let known = match id.parse::<RunId>() {
            Ok(id) => self.shared.find(&id).await.map_err(|error| format!("the runs can not be read: {error}"))?,
            Err(_) => None,
        };
        known.ok_or_else(|| {
            let shown: String = id.chars().take(80).collect();
            format!("Run '{shown}' not found; list_runs tells which there are")
        })
    }

    /// Waits until a run is over or there is a gate to be answered, or the time is up.
    async fn at_rest(&self, run: &Arc<Run>, at_most: Duration) {
        let mut progress = run.follow();
        let resting = async {
            loop {
                let state = progress.borrow_and_update().state;
                // A run below may have its answer already, and this one not know it yet.
                let mut below = self.deepest(run).follow();
                below.mark_unchanged();
                if state.is_over() || (state == RunState::Waiting && self.gate_of(run).is_some()) {
                    return;
                }
                let gone = tokio::select! {
                    changed = progress.changed() => changed.is_err(),
                    // One that is over changes no more, and the run above it is told.
                    Ok(()) = below.changed() => false,
                };
                if gone {
                    return;
                }
            }
        };
        // Either way the run is as far as it is.
        let _ = tokio::time::timeout(at_most, resting).await;
    }

    fn told(&self, run: &Arc<Run>) -> RunRecord {
        run.record(self.pending_gate(run), &self.shared.secrets)
    }

    async fn report(&self, run: &Arc<Run>) -> RunReply {
        let (gate, progress) = (self.pending_gate(run), run.progress());
        let unreadable = |error: &dyn std::fmt::Display| RunReply {
            run_id: run.id.to_string(),
            status: run.state().name().to_owned(),
            workflow_name: Some(run.about.workflow.clone()),
            error: Some(format!("the history of the run can not be read: {error}")),
            ..RunReply::default()
        };
        let records = match self.shared.journal.read(&run.id, 1).await {
            Ok(records) => records,
            Err(error) => return unreadable(&error),
        };
        let (told, secrets) = (run.clone(), self.shared.secrets.clone());
        let report = self.shared.at_length(move || report::of(&told, progress, records, gate, &secrets)).await;
        report.unwrap_or_else(|error| unreadable(&error))
    }
}

async fn open_journal(path: PathBuf, at_most: Option<u64>) -> Result<SqliteJournal, OpenError> {
    let options = SqliteOptions { newest_version: ENTRY_VERSION, at_most };
    let opening = path.clone();
    let opened = tokio::task::spawn_blocking(move || SqliteJournal::open(&opening, &options)).await;
    opened.unwrap_or_else(|error| Err(OpenError::File { path, cause: std::io::Error::other(error) }))
}

fn limits(verb: &RunWorkflow) -> Result<Limits, InvalidLimits> {
    let usual = Limits::default();
    Limits::new(
        verb.max_states.unwrap_or(usual.max_states()),
        verb.execution_timeout.unwrap_or(usual.execution_timeout().as_secs_f64()),
    )
}

fn not_started(final_state: &str, error: String) -> Box<RunReply> {
    Box::new(RunReply {
        status: "failed".to_owned(),
        final_state: Some(final_state.to_owned()),
        error: Some(error),
        ..RunReply::default()
    })
}
