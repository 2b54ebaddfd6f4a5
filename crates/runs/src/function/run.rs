//! A function, or a call of a node, as a kind of run: it records its calls and their answers, then performs them.

pub(super) mod cancel;
pub(super) mod frame;
pub(super) mod inline;
pub(super) mod outer;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use steplatch_ids::{RunId, StepId};
use steplatch_nodes::graph::GraphInput;
use steplatch_python_api::{Answer, Call, CallKind};
use steplatch_store::Record;
use steplatch_workflow::{By, Input};

use super::calls::{CallTarget, PendingCall, ROOT, call_step, child_run_id, child_step};
use super::entry::{CallLabel, Entry, Started};
use super::gate::{is_for_person, open_gate};
use super::history::FunctionState;
use super::node::DeclaredNodes;
use super::outer_work::OuterWork;
use super::work::{CallOutcome, PendingWork};
use crate::child::close_left_open;
use crate::definition_source::DefinitionSource;
use crate::engine::{Attempt, Handled, Recorder, Recovery, RecoveryError, RunKind, StoredRun};
use crate::engine_state::Engine;
use crate::event::HistoryError;
use crate::origin::Environment;
use crate::outer::{Mirror, MirrorMessage};
use crate::run::{RunHeader, RunInputs, RunState, RunStatus};
use crate::seal::Seal;
use crate::time_span::TimeSpan;
use cancel::CancelProgress;
use frame::Frame;
use outer::PassedInput;

/// One run of functions and graphs.
pub(crate) struct FunctionRun {
    pub(super) recorder: Recorder,
    pub(super) declared: Arc<DeclaredNodes>,
    /// The callers within the run, by the numbers of the calls that they execute.
    pub(super) frames: HashMap<u64, Frame>,
    pub(super) function_state: FunctionState,
    pub(super) work: PendingWork,
    /// Frames that start once the run resumes.
    pub(super) to_begin: Vec<u64>,
    pub(super) depth: u32,
    /// The run's time limit.
    pub(super) timeout: Option<TimeSpan>,
    /// The file of the run, in its executed form; `None` for a call of a node.
    pub(super) file: Option<Arc<OwnFile>>,
    /// True if the library has counted the run, whose end another daemon recorded.
    pub(super) counted: bool,
    /// Progress of a cancellation.
    pub(super) cancel_progress: CancelProgress,
    /// Connection to the outer engine, if one schedules the calls of the run.
    pub(super) mirror: Option<Mirror>,
    /// Input in transit to the outer engine.
    pub(super) passed_input: Option<PassedInput>,
    /// Number of the last call that another daemon recorded.
    pub(super) last_recorded_call: u64,
    /// Approximate number of outcome bytes received from the outer engine.
    pub(super) outcome_bytes: u64,
}

/// The file of a run at its start.
#[derive(Debug)]
pub(crate) struct OwnFile {
    pub(super) name: String,
    pub(super) text: Arc<str>,
}

/// An event that makes a run continue.
pub(crate) enum FunctionEvent {
    Outcome {
        number: u64,
        outcome: CallOutcome,
        by: Option<By>,
    },
    Child {
        number: u64,
        waits: bool,
    },
    Cancelled {
        reason: String,
    },
    CleanupTimedOut,
    Paused {
        by: String,
        above: bool,
    },
    Resumed {
        by: String,
    },
    ChildBegan {
        number: u64,
    },
    TimedOut,
    /// A message of the outer engine.
    Outer(MirrorMessage),
    /// This daemon performed a call for the outer engine.
    Performed {
        number: u64,
        outcome: CallOutcome,
    },
    /// The function cannot continue any further in this turn.
    TurnOver,
}

/// Data of a function's run in the journal.
pub(crate) struct FunctionHistory {
    started: Box<Started>,
    function_state: FunctionState,
    declared: DeclaredNodes,
    file: Option<Arc<OwnFile>>,
    frame: Frame,
    counted: bool,
    /// Total bytes of the entries.
    bytes: u64,
}

impl Recovery for FunctionRun {
    type History = FunctionHistory;

    async fn read(
        shared: &Arc<Engine>,
        header: &RunHeader,
        run: &RunId,
        records: Vec<Record>,
        seal: Seal,
    ) -> Result<StoredRun<FunctionHistory>, RecoveryError> {
        let mut entries = Vec::with_capacity(records.len());
        for record in &records {
            entries.push(Entry::read(record, &seal)?);
        }
        let mut function_state = FunctionState::default();
        entries.iter().for_each(|entry| function_state.apply(entry));
        let Some(Entry::Started(started)) = entries.into_iter().next() else {
            return Err(RecoveryError::NoStart);
        };
        let declared = DeclaredNodes::read(&started.nodes, &shared.executors, run)?;
        declared.adopt(std::mem::take(&mut function_state.terminals));
        let file = shared.shared_file(&started);
        let frame = shared.root_frame(&started, file.as_deref());
        // Look this up before any run continues, since continuing runs change the counts of the library.
        let counted = match (&header.source, &function_state.end) {
            (DefinitionSource::SavedFunction { directory, file, .. }, Some(_)) => {
                shared.workflows.has_counted(directory, file, &header.workflow, run).await
            }
            _ => false,
        };
        let bytes = records.iter().map(|record| record.text.len() as u64).sum();
        let history = FunctionHistory { started, function_state, declared, file, frame, counted, bytes };
        Ok(StoredRun { history, seal, environment: Environment::Whole })
    }

    fn resume(history: FunctionHistory, recorder: Recorder) -> Self {
        let FunctionHistory { started, function_state, declared, file, frame, counted, bytes } = history;
        let (last_recorded_call, ended_before) = (function_state.last, function_state.end.is_some());
        let mut run = Self::new(recorder, &started, function_state, Arc::new(declared), file, frame);
        if ended_before {
            run.mirror = None;
        }
        Self { counted, last_recorded_call, outcome_bytes: bytes, ..run }
    }

    fn awaits(&self, step: &StepId) -> bool {
        self.function_state.open.iter().any(|(number, _)| child_step(&self.recorder.run.id, number) == *step)
    }

    /// Returns `None`: later calls may find programs in terminals by their own steps.
    fn pending_steps(&self) -> Option<Vec<StepId>> {
        None
    }
}

impl RunKind for FunctionRun {
    type Entry = Entry;
    type Event = FunctionEvent;

    fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn recorder_mut(&mut self) -> &mut Recorder {
        &mut self.recorder
    }

    fn is_over(&self) -> bool {
        self.function_state.end.is_some()
    }

    /// The run is considered finished once all its children have finished and its programs have exited.
    fn leaves_work(&self) -> bool {
        true
    }

    fn own_secrets(&self) -> BTreeSet<String> {
        self.declared.secrets()
    }

    fn progress(&self) -> RunStatus {
        let end = self.function_state.end.as_ref();
        RunStatus {
            state: self.function_state.state(),
            ended: end.map(|end| end.at),
            error: self.recorder.shared.secrets.masked_if(end.and_then(|end| end.error.clone())),
            traceback: self.recorder.shared.secrets.masked_if(end.and_then(|end| end.traceback.clone())),
            result: end
                .and_then(|end| end.result.clone())
                .map(|result| Arc::new(self.recorder.shared.secrets.masked_value(result))),
            paused: self.function_state.paused.clone(),
            gates: self
                .function_state
                .open
                .waiting()
                .filter_map(|(number, open)| open_gate(&self.recorder.run.id, number, open))
                .collect(),
            waiting_children: self.waiting_children().collect(),
            asks_person: self.asks_person(),
            returned: end.and_then(|end| end.result.clone()).map(Arc::new),
            blocked_reason: self.mirror.as_ref().and_then(|mirror| mirror.blocked_reason.clone()),
            ..RunStatus::default()
        }
    }

    async fn start(&mut self, attempt: Attempt) -> bool {
        if let Some(mirror) = &mut self.mirror {
            mirror.start(&self.recorder, attempt);
        }
        if attempt == Attempt::First {
            self.work.add_ready(ROOT, CallOutcome::Begin);
            self.publish();
            return true;
        }
        self.function_state.limit_start_to(self.recorder.shared.clock.now());
        if let Err(error) = Box::pin(self.resume_open_calls()).await {
            let error = error.to_string();
            tracing::error!(run = %self.recorder.run.id, error, "failed to resume the open calls of a run");
            if !self.append(vec![Entry::failed(self.recorder.shared.clock.now(), error)]).await {
                return false;
            }
        }
        // The last daemon may have stopped between learning a secret and sealing it.
        if !self.record(&[]).await || !Box::pin(self.resume_cancel()).await {
            return false;
        }
        self.publish();
        true
    }

    async fn next_event(&mut self) -> FunctionEvent {
        if self.mirror.is_some() {
            return self.next_outer_event().await;
        }
        let clock = self.recorder.shared.clock.clone();
        let out_of_time = self.timeout.and_then(|timeout| self.function_state.work_deadline(timeout));
        if out_of_time.is_some_and(|at| at <= self.recorder.shared.clock.now()) {
            return FunctionEvent::TimedOut;
        }
        loop {
            // Polls ready results last, so that a function whose calls all complete at once does not starve its limits.
            let is_ready = self.work.is_ready();
            tokio::select! {
                biased;
                Some((number, outcome)) = self.work.next() => return FunctionEvent::Outcome { number, outcome, by: None },
                () = clock.deadline(out_of_time) => return FunctionEvent::TimedOut,
                () = clock.deadline(self.cancel_progress.cleanup_deadline) => return FunctionEvent::CleanupTimedOut,
                () = std::future::ready(()), if is_ready => if let Some((number, outcome)) = self.work.next_ready() {
                    return FunctionEvent::Outcome { number, outcome, by: None };
                },
            }
        }
    }

    async fn handle_event(&mut self, event: FunctionEvent) -> bool {
        self.apply_event(event).await
    }

    async fn handle_input(&mut self, input: Input) -> Handled {
        if self.mirror.is_some() {
            return Box::pin(self.forward_input(input)).await;
        }
        match self.function_state.event_for_input(&self.recorder.run.id, input) {
            Some(event) => Handled::recorded(self.apply_event(event).await),
            None => Handled::Ignored,
        }
    }

    async fn close(&mut self, _: &mut RunInputs) -> bool {
        // The engine repeats the request, and receives the end once the journal has stored it.
        self.mirror = None;
        self.work.end().await;
        self.declared.close(&self.recorder.caller).await;
        let (shared, caller) = (&self.recorder.shared, &self.recorder.caller);
        for number in &self.function_state.workflows {
            if let Ok(Some(child)) = shared.find(&child_run_id(&self.recorder.run.id, *number)).await {
                close_left_open(shared, caller, &child).await;
            }
        }
        true
    }

    /// Makes the library count the run, if it has the workflow.
    async fn settle(&mut self) {
        let DefinitionSource::SavedFunction { directory, file, hash } = &self.recorder.header.source else { return };
        let Some(end) = self.function_state.end.as_ref().filter(|_| !self.counted) else { return };
        let succeeded = end.state == RunState::Completed;
        let at = UNIX_EPOCH + Duration::from_micros(u64::try_from(end.at.0).unwrap_or(0));
        let workflow_run = (self.recorder.header.workflow.as_str(), &self.recorder.run.id);
        self.recorder.shared.workflows.record_function(directory, file, workflow_run, hash, succeeded, at).await;
    }
}

impl FunctionRun {
    pub(super) fn new(
        recorder: Recorder,
        started: &Started,
        function_state: FunctionState,
        declared: Arc<DeclaredNodes>,
        file: Option<Arc<OwnFile>>,
        frame: Frame,
    ) -> Self {
        let mirror = Mirror::connect(&recorder, true, Vec::new());
        let mut work = PendingWork::new(recorder.shared.clock.clone());
        work.outer = mirror.is_some().then(OuterWork::default);
        Self {
            recorder,
            declared,
            frames: HashMap::from([(ROOT, frame)]),
            function_state,
            work,
            to_begin: Vec::new(),
            depth: started.depth,
            timeout: started.limit(),
            file,
            counted: false,
            cancel_progress: CancelProgress::default(),
            mirror,
            passed_input: None,
            last_recorded_call: 0,
            outcome_bytes: 0,
        }
    }

    /// Records an event and performs what follows from it. Returns false when this daemon must no longer drive the run.
    pub(super) async fn apply_event(&mut self, event: FunctionEvent) -> bool {
        let at = self.recorder.shared.clock.now();
        match event {
            FunctionEvent::Outer(message) => Box::pin(self.receive(message)).await,
            FunctionEvent::Performed { number, outcome } => {
                if let Some(outer) = &mut self.work.outer {
                    outer.complete_call(number, outcome);
                }
                true
            }
            FunctionEvent::TurnOver => self.end_turn().await,
            FunctionEvent::Cancelled { reason } => self.cancel(at, reason).await,
            FunctionEvent::CleanupTimedOut => self.cancel_at_once(at, String::new()).await,
            FunctionEvent::TimedOut => {
                let limit = self.timeout.unwrap_or_default();
                let error = format!("the run was at work for {limit} s, which is its limit");
                let entries = self.function_state.ended_by(&self.recorder.run.id, at, Entry::failed(at, error));
                self.append(entries).await
            }
            FunctionEvent::Paused { by, above } => {
                if !self.append(vec![Entry::Paused { at, by: by.clone(), above }]).await {
                    return false;
                }
                self.notify_children(|| Input::Pause { by: by.clone(), above: true });
                true
            }
            FunctionEvent::ChildBegan { number } => {
                if let Some(pause) = self.function_state.paused.clone()
                    && let Some(child) = self.recorder.shared.driven(&child_run_id(&self.recorder.run.id, number))
                {
                    child.send(Input::Pause { by: pause.by, above: true });
                }
                true
            }
            FunctionEvent::Resumed { by } => {
                if !self.append(vec![Entry::Resumed { at, by: by.clone() }]).await {
                    return false;
                }
                self.notify_children(|| Input::Resume { by: by.clone(), above: true });
                for number in std::mem::take(&mut self.to_begin) {
                    self.work.add_ready(number, CallOutcome::Begin);
                }
                self.resume_all().await
            }
            FunctionEvent::Child { number, waits } => {
                match self.function_state.child_wait_entry(at, number, waits) {
                    Some(entry) => self.append(vec![entry]).await,
                    // The child may have begun or stopped waiting for a person.
                    None => self.record(&[]).await,
                }
            }
            FunctionEvent::Outcome { number, outcome: CallOutcome::Begin, .. } => {
                if self.function_state.paused.is_some() {
                    self.to_begin.push(number);
                    return true;
                }
                self.begin_frame(number).await
            }
            FunctionEvent::Outcome { number, outcome: CallOutcome::DelayOver(step), .. } => {
                self.resume_graph(number, Vec::new(), GraphInput::DelayOver { step }, None).await
            }
            FunctionEvent::Outcome { number, outcome, by } => {
                let open = self.function_state.open.get(number).cloned();
                let starts_run =
                    |open: &PendingCall| matches!(open.label(&self.recorder.run.id, number), CallLabel::Run { .. });
                let child = open.as_ref().is_none_or(starts_run).then(|| child_run_id(&self.recorder.run.id, number));
                let is_alive = match open {
                    Some(open) => self.deliver_outcome(number, open, outcome, by).await,
                    // The call was interrupted, so its late result is dropped.
                    None => true,
                };
                if let Some(child) = child.and_then(|child| self.recorder.shared.driven(&child)).filter(|_| is_alive) {
                    child.result_taken.cancel();
                }
                is_alive
            }
        }
    }

    /// Resumes the open calls of a recovered run. Repeats no action that may have happened.
    ///
    /// # Errors
    ///
    /// If reading the history fails.
    async fn resume_open_calls(&mut self) -> Result<(), HistoryError> {
        let open: Vec<_> = self.function_state.open.iter().map(|(number, open)| (number, open.clone())).collect();
        // Calls are in the order of their starts, so a frame precedes its calls.
        for (number, open) in open {
            match open.target {
                CallTarget::Call(call) => self.perform(number, open.at, call.kind, Attempt::AfterRestart),
                CallTarget::Step { step, node, input, .. } => {
                    let timeout = self.attempt_timeout(open.frame, &step, &node);
                    self.call_node(number, open.at, node.as_str(), input, timeout, Attempt::AfterRestart);
                }
            }
        }
        // The driver raises the cancel in the function next, and drops withheld answers.
        if self.function_state.cancel.as_ref().is_some_and(|cancel| !cancel.is_raised) {
            return Ok(());
        }
        let frames: Vec<u64> = self.frames.keys().copied().collect();
        for number in frames {
            self.resume_frame(number).await?;
        }
        // The run had resumed, but the last daemon stopped before it delivered the withheld answers.
        if self.function_state.was_paused && self.function_state.paused.is_none() && self.function_state.end.is_none() {
            self.resume_all().await;
        }
        Ok(())
    }

    /// Applies entries and records them. Returns false when this daemon must no longer drive the run.
    pub(super) async fn append(&mut self, entries: Vec<Entry>) -> bool {
        if entries.is_empty() {
            return true;
        }
        let entries = self.function_state.with_cancelled_end(entries, self.cancel_progress.raised);
        for entry in &entries {
            self.function_state.apply(entry);
        }
        if !self.record(&entries).await {
            return false;
        }
        let run = &self.recorder.run.id;
        for number in entries.iter().filter_map(Entry::ended_call) {
            let step = call_step(run, number).to_string();
            // The answers of a conversation have steps below the step of their call.
            self.recorder.shared.sessions.settle(&format!("{step}/"));
            self.recorder.shared.sessions.settle(&step);
        }
        true
    }

    /// Returns whether the run or a descendant needs a person's answer.
    fn asks_person(&self) -> bool {
        let mut waiting = self.function_state.open.waiting();
        waiting.any(|(_, open)| matches!(&open.target, CallTarget::Call(call) if is_for_person(&call.kind)))
            || self.recorder.shared.any_asks_person(&self.waiting_children().collect::<Vec<_>>())
    }

    /// Returns the child runs that wait for a person.
    fn waiting_children(&self) -> impl Iterator<Item = RunId> {
        self.function_state.waiting_children.iter().map(|number| child_run_id(&self.recorder.run.id, *number))
    }

    /// Sends an input to all child runs.
    fn notify_children(&self, input: impl Fn() -> Input) {
        for (number, open) in self.function_state.open.iter() {
            if matches!(&open.target, CallTarget::Call(Call { kind: CallKind::RunWorkflow { .. }, .. }))
                && let Some(child) = self.recorder.shared.driven(&child_run_id(&self.recorder.run.id, number))
            {
                child.send(input());
            }
        }
    }

    /// Returns the answer for a missing node or graph.
    pub(super) fn not_found(what: &str, id: &str) -> CallOutcome {
        CallOutcome::Answer(Answer::refused(format!("{what} '{id}' not found in session")))
    }
}
