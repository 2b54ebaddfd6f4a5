//! The workflow: one run, of a machine here, or of a [function](crate::function).
//!
//! The workflow folds the events into a [`History`] and calls [`decide`] for every input, like the daemon's own engine.
//! Both are pure, so a replay makes the same commands. Effects become activities, timers and child workflows, and their
//! ends become inputs. Events go to the journal of the run's host with its next task, before the effect of the task
//! begins.
#![allow(missing_docs, reason = "what the macros of the SDK write has no comments")]

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, UNIX_EPOCH};

use futures::FutureExt as _;
use futures::future::{LocalBoxFuture, poll_fn};
use std::task::Poll;
use steplatch_actions::TerminalTools;
use steplatch_ids::{RunId, StepId};
use steplatch_workflow::{
    Decision, Definition, Effect, EngineAnswer, EngineTask, Event, History, Input, LastScreen, Outcome,
    SEMANTICS_VERSION, Status, Timestamp, child_outcome, decide, resume, wants_last_screens, wants_screen,
};
use temporalio_common::RetryPolicy;
use temporalio_common::error::ApplicationFailure;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{
    ActivityOptions, CancellableFuture as _, ChildWorkflowOptions, ParentClosePolicy, SignalWorkflowOptions,
    StartedChildWorkflow, SyncWorkflowContext, TimerOptions, WaitConditionOptions, WorkflowCancellationToken,
    WorkflowContext, WorkflowContextView, WorkflowIdReusePolicy, WorkflowResult,
};

use crate::function::FunctionDriver;
use crate::tasks::Tasks;
use crate::wire::{
    DECISION_TIMEOUT, GATE_OPEN, PassedInput, RunInput, RunOutput, STATE, TakenInput, TaskInput, TaskOutput, WORKFLOW,
    queue_of,
};

/// Time limit of a task without its own limit: longer than any run.
const TASK_TIMEOUT: Duration = Duration::from_secs(3 * 3600);

/// Time that a task may take beyond the limit of its effect, which the daemon enforces.
const TASK_MARGIN: Duration = Duration::from_secs(60);

/// Maximum time of attempts to close a terminal.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum wait for the end of a cancelled child.
pub(crate) const CHILD_END_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum wait for the screens of a failed run.
const SCREENS_TIMEOUT: Duration = Duration::from_secs(8);

/// Time that an ended run waits for its host to take over its last events.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(30 * 86_400);

/// Maximum size of the events of one task, in bytes. Further events are sent before the task.
const MAX_TASK_EVENT_BYTES: usize = 512 * 1024;

/// Maximum length of the name of a state in the search attributes, in characters.
const MAX_STATE_CHARS: usize = 200;

/// Reason for the cancellation of a run whose parent continues without it.
const ABANDONED_REASON: &str = "the run that started it went on without it";

/// One run.
#[workflow]
pub struct SteplatchRun {
    input: RunInput,
    definition: Result<Definition, String>,
    history: History,
    events: Vec<Event>,
    /// Number of events that the host has.
    recorded: usize,
    /// Arrived inputs, each with the number of its update.
    inbox: VecDeque<(Option<u64>, Input)>,
    /// Number of inputs so far.
    input_count: u64,
    /// Effects of the inputs, by the numbers of their updates.
    taken: BTreeMap<u64, TakenInput>,
}

impl SteplatchRun {
    pub(crate) fn input(&self) -> &RunInput {
        &self.input
    }

    /// Returns whether an unprocessed input has arrived.
    pub(crate) fn has_arrived(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Takes the next arrived input, with the number of its update.
    pub(crate) fn next_arrived(&mut self) -> Option<(Option<u64>, Input)> {
        self.inbox.pop_front()
    }

    /// Answers an update with the effect of its input.
    pub(crate) fn answer(&mut self, update: u64, taken: TakenInput) {
        self.taken.insert(update, taken);
    }

    /// Answers the updates that arrived too late for the run: they have no effect, and their senders wait.
    pub(crate) async fn answer_remaining(ctx: &Context) {
        while let Some((update, _)) = ctx.state_mut(Self::next_arrived) {
            if let Some(update) = update {
                ctx.state_mut(|run| run.answer(update, TakenInput::default()));
            }
        }
        let options = WaitConditionOptions::builder().cancellation_token(WorkflowCancellationToken::new()).build();
        let _ = ctx.wait_condition_with_options(|_: &Self| ctx.all_handlers_finished(), options).await;
    }
}

#[workflow_methods]
impl SteplatchRun {
    #[init]
    pub fn new(_ctx: &WorkflowContextView, input: RunInput) -> Self {
        let history = History::from_iter(&input.events);
        let definition = history.definition().ok_or_else(|| "the run has no definition".to_owned());
        let definition = definition
            .and_then(|document| Definition::parse(document, &TerminalTools).map_err(|problems| problems.to_string()));
        let events = input.events.clone();
        Self {
            input,
            definition,
            history,
            events,
            recorded: 0,
            inbox: VecDeque::new(),
            input_count: 0,
            taken: BTreeMap::new(),
        }
    }

    /// Drives the run to its end.
    #[run(name = "steplatch_run")]
    pub async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<RunOutput> {
        let is_function = ctx.state(|run| run.input.function);
        if let Some(error) = ctx.state(|run| run.definition.as_ref().err().cloned()).filter(|_| !is_function) {
            return Err(ApplicationFailure::new(error).into());
        }
        // A failed workflow task goes to another worker, or to this one after its update.
        let version = ctx.state(|run| run.input.semantics_version);
        assert!(
            version <= SEMANTICS_VERSION,
            "the run began under version {version} of the rules, and this worker knows {SEMANTICS_VERSION}: update Steplatch here",
        );
        if is_function {
            return Ok(RunOutput { outcome: FunctionDriver::new(ctx).drive().await });
        }
        // The host has the first events, because it decided them.
        ctx.state_mut(|run| run.recorded = run.events.len());
        let outcome = Driver::new(ctx).drive().await;
        Ok(RunOutput { outcome })
    }

    /// Refuses an input that has no effect: an answer to an answered gate, a pause of a paused run.
    #[update_validator(pass)]
    pub fn validate(
        &self,
        _ctx: &WorkflowContextView,
        passed: &PassedInput,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        if self.input.function {
            // The daemon has checked the input, and knows the state of the function.
            return Ok(());
        }
        let Ok(definition) = &self.definition else { return Err("the run has no definition".into()) };
        let now = self.events.last().map_or(Timestamp(0), Event::time);
        match decide(definition, &self.history, passed.input.clone(), now).events[..] {
            [] => Err("it has no effect in the state of the run".into()),
            [..] => Ok(()),
        }
    }

    /// Processes an input and returns its effect.
    #[update(name = "pass")]
    pub async fn pass(ctx: &mut WorkflowContext<Self>, passed: PassedInput) -> TakenInput {
        let key = ctx.state_mut(|run| {
            run.input_count += 1;
            run.inbox.push_back((Some(run.input_count), passed.input));
            run.input_count
        });
        let options = WaitConditionOptions::builder().cancellation_token(WorkflowCancellationToken::new()).build();
        let _ = ctx.wait_condition_with_options(|run: &Self| run.taken.contains_key(&key), options).await;
        ctx.state(|run| run.taken.get(&key).cloned().unwrap_or_default())
    }

    /// Receives an input from the parent or from a child run.
    #[signal(name = "notify")]
    pub fn notify(&mut self, _ctx: &mut SyncWorkflowContext<Self>, passed: PassedInput) {
        self.inbox.push_back((None, passed.input));
    }
}

pub(crate) type Context = WorkflowContext<SteplatchRun>;

/// The search attributes of a run: its state, and true if a gate is open.
#[derive(Default)]
pub(crate) struct SearchAttributes(Option<(String, bool)>);

impl SearchAttributes {
    /// Updates the search attributes, if the namespace has them.
    pub(crate) fn update(&mut self, ctx: &Context, state: String, is_gate: bool) {
        let (is_searchable, workflow) = ctx.state(|run| (run.input.searchable, run.input.workflow.clone()));
        let state: String = state.chars().take(MAX_STATE_CHARS).collect();
        if !is_searchable || self.0.as_ref().is_some_and(|shown| *shown == (state.clone(), is_gate)) {
            return;
        }
        let mut updates = vec![STATE.value_set(state.clone()), GATE_OPEN.value_set(is_gate)];
        if self.0.is_none() {
            updates.push(WORKFLOW.value_set(workflow));
        }
        ctx.upsert_search_attributes(updates);
        self.0 = Some((state, is_gate));
    }
}

/// Identity of pending work.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Key {
    /// The step that waits for it.
    Step(StepId),
    /// The child run of a step, once it has begun.
    Child(StepId),
    /// The time limit of a gate.
    Expiry(StepId),
    /// The deadline of the run.
    Deadline,
    /// A handover of events is in progress.
    Record,
    /// A notification of another run.
    Notice,
}

/// Result of ended work.
#[allow(clippy::large_enum_variant, reason = "a value is moved once, from its future to the driver")]
enum WorkResult {
    Input(Input),
    /// A task ended; the journal has the events up to this number.
    Task(TaskOutput),
    /// A child run has begun at its host and is due to start.
    Begun {
        step: StepId,
        workflow: String,
        events: Vec<Event>,
        function: bool,
        limit: Option<Duration>,
    },
    /// A child run has started.
    Started {
        step: StepId,
        workflow: String,
        child: Box<StartedChildWorkflow<steplatch_run::Run>>,
        limit: Option<Duration>,
    },
    Nothing,
}

struct Pending<'a> {
    key: Key,
    token: WorkflowCancellationToken,
    future: LocalBoxFuture<'a, WorkResult>,
}

/// Reason why the driver continues.
#[allow(clippy::large_enum_variant, reason = "a value is moved once, from its future to the driver")]
enum Wake {
    Inbox,
    Cancelled(String),
    Ended(Key, WorkResult),
}

struct Driver<'a> {
    ctx: &'a Context,
    run: RunId,
    host: String,
    lost_after: Duration,
    pending: Vec<Pending<'a>>,
    /// Inputs that are available without a wait.
    ready: VecDeque<Input>,
    is_cancelled: bool,
    /// Number of events that pending tasks send to the host.
    sent_count: usize,
    /// True if the parent run knows that this run waits.
    reported_waiting: bool,
    search_attributes: SearchAttributes,
}

impl<'a> Driver<'a> {
    fn new(ctx: &'a Context) -> Self {
        let (host, lost_after) = ctx.state(|run| (run.input.host.clone(), run.input.lost_after));
        let run = ctx
            .state(|run| run.history.run().cloned())
            .unwrap_or_else(|| ctx.workflow_id().parse().expect("the id of a workflow is that of its run"));
        let lost_after = Duration::try_from_secs_f64(lost_after).unwrap_or(Duration::from_secs(10));
        Self {
            ctx,
            run,
            host,
            lost_after,
            pending: Vec::new(),
            ready: VecDeque::new(),
            is_cancelled: false,
            sent_count: 0,
            reported_waiting: false,
            search_attributes: SearchAttributes::default(),
        }
    }

    fn now(&self) -> Timestamp {
        let since = self.ctx.workflow_time().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn is_over(&self) -> bool {
        self.ctx.state(|run| run.history.is_over())
    }

    async fn drive(mut self) -> Outcome {
        let now = self.now();
        let effects = self.ctx.state(|run| resume(&run.history, now));
        self.perform_all(effects).await;
        self.notify_parent();
        while !self.is_over() {
            if let Some(input) = self.ready.pop_front() {
                self.process(input).await;
                continue;
            }
            match self.wait_for_work().await {
                Wake::Inbox => {
                    let Some((key, input)) = self.ctx.state_mut(|run| run.inbox.pop_front()) else { continue };
                    let from = self.ctx.state(|run| run.events.len());
                    self.process(input).await;
                    if let Some(key) = key {
                        self.ctx.state_mut(|run| {
                            let taken =
                                TakenInput { from: from as u64, events: run.events[from..].to_vec(), taken: true };
                            run.taken.insert(key, taken);
                        });
                    }
                }
                Wake::Cancelled(reason) => {
                    self.is_cancelled = true;
                    let reason = if reason.is_empty() { "cancelled in Temporal".to_owned() } else { reason };
                    self.process(Input::Cancel { reason }).await;
                }
                Wake::Ended(key, work_result) => self.handle_result(key, work_result).await,
            }
        }
        self.finish().await
    }

    fn update_search_attributes(&mut self) {
        let (state, gate) = self.ctx.state(|run| {
            let state = run.history.current().map(|current| current.step.place.as_str()).or(run.history.last_state());
            (state.unwrap_or_default().to_owned(), run.history.gate().is_some())
        });
        self.search_attributes.update(self.ctx, state, gate);
    }

    /// Waits for the first input or result. Polls all work in a fixed order.
    async fn wait_for_work(&mut self) -> Wake {
        self.update_search_attributes();
        let ctx = self.ctx;
        let options = WaitConditionOptions::builder().cancellation_token(WorkflowCancellationToken::new()).build();
        let mut arrived =
            Box::pin(ctx.wait_condition_with_options(|run: &SteplatchRun| !run.inbox.is_empty(), options));
        let is_cancelled = self.is_cancelled;
        let mut cancelled = Box::pin(ctx.cancelled());
        let pending = &mut self.pending;
        poll_fn(|cx| {
            if !is_cancelled && let Poll::Ready(reason) = cancelled.poll_unpin(cx) {
                return Poll::Ready(Wake::Cancelled(reason.unwrap_or_default()));
            }
            if arrived.poll_unpin(cx).is_ready() {
                return Poll::Ready(Wake::Inbox);
            }
            for index in 0..pending.len() {
                if let Poll::Ready(work_result) = pending[index].future.poll_unpin(cx) {
                    let Pending { key, .. } = pending.remove(index);
                    return Poll::Ready(Wake::Ended(key, work_result));
                }
            }
            Poll::Pending
        })
        .await
    }

    async fn handle_result(&mut self, key: Key, work_result: WorkResult) {
        match work_result {
            WorkResult::Input(input) => self.process(input).await,
            WorkResult::Task(TaskOutput { recorded, answer }) => {
                self.note_recorded(recorded);
                match (answer, key) {
                    (EngineAnswer::Input { input }, _) => self.process(input).await,
                    (_, Key::Record) => self.hand_over(),
                    _ => {}
                }
            }
            WorkResult::Begun { step, workflow, events, function, limit } => {
                self.start_child(step, workflow, events, function, limit);
            }
            WorkResult::Started { step, workflow, child, limit } => {
                self.await_child(step.clone(), *child, limit);
                self.process(Input::ChildBegan { step, workflow }).await;
            }
            WorkResult::Nothing => {}
        }
    }

    /// Decides the events and effects of an input and performs the effects.
    async fn process(&mut self, input: Input) {
        if let Input::Outcome { step, outcome } = &input
            && let Some(session_id) =
                self.ctx.state(|run| wants_screen(run.definition.as_ref().ok()?, &run.history, step, outcome))
        {
            let screen = self.screens(vec![session_id.clone()]).await.into_iter().next().flatten();
            let read = self.decide(Input::ScreenRead { step: step.clone(), session_id, screen });
            self.append(read.events);
        }
        let gate = match &input {
            Input::GateAnswered { step, .. } => Some(step.clone()),
            _ => None,
        };
        let Decision { mut events, effects } = self.decide(input);
        if events.is_empty() && effects.is_empty() {
            return;
        }
        if let Some(gate) = gate {
            self.drop_pending(&Key::Expiry(gate));
        }
        let wants_screens = self.ctx.state_mut(|run| {
            run.history.extend(&events);
            wants_last_screens(&run.history, &events)
        });
        if wants_screens && let Some(screens_event) = self.last_screens().await {
            self.ctx.state_mut(|run| run.history.apply(&screens_event));
            events.insert(0, screens_event);
        }
        self.ctx.state_mut(|run| run.events.extend(events));
        self.perform_all(effects).await;
        self.notify_parent();
    }

    fn decide(&self, input: Input) -> Decision {
        let now = self.now();
        self.ctx.state(|run| match &run.definition {
            Ok(definition) => decide(definition, &run.history, input, now),
            Err(_) => Decision::default(),
        })
    }

    fn append(&self, events: Vec<Event>) {
        self.ctx.state_mut(|run| {
            run.history.extend(&events);
            run.events.extend(events);
        });
    }

    /// Reads the screens of the run's terminals, which close after the failure of the run.
    async fn last_screens(&self) -> Option<Event> {
        let terminals = self.ctx.state(|run| {
            let current_session = run.history.session_id();
            let other_sessions = run.history.sessions().filter(|session| Some(*session) != current_session);
            current_session
                .into_iter()
                .chain(other_sessions)
                .take(LastScreen::MAX_PER_RUN)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        });
        if terminals.is_empty() {
            return None;
        }
        let screens = self.screens(terminals.clone()).await;
        let screens: Vec<LastScreen> = terminals
            .into_iter()
            .zip(screens)
            .filter_map(|(terminal, screen)| Some((terminal, screen.filter(|screen| !screen.trim().is_empty())?)))
            .map(|(terminal, screen)| LastScreen::new(terminal, &screen))
            .collect();
        (!screens.is_empty()).then(|| Event::ScreensKept { at: self.now(), screens })
    }

    async fn screens(&self, sessions: Vec<String>) -> Vec<Option<String>> {
        let options = ActivityOptions::with_schedule_to_close_timeout(SCREENS_TIMEOUT)
            .task_queue(queue_of(&self.host))
            .cancellation_token(WorkflowCancellationToken::new())
            .build();
        let input = TaskInput { events: Vec::new(), ..self.task_input(EngineTask::ReadScreens { sessions }) };
        match self.ctx.execute_activity(Tasks::perform, input, options).await {
            Ok(TaskOutput { answer: EngineAnswer::Screens { screens }, .. }) => screens,
            _ => Vec::new(),
        }
    }

    /// Performs the effects, stage by stage.
    async fn perform_all(&mut self, effects: Vec<Effect>) {
        for stage in Effect::split_into_stages(effects) {
            let mut closing = Vec::new();
            for effect in stage {
                self.perform(effect, &mut closing).await;
            }
            join_all(closing).await;
        }
        self.hand_over();
    }

    async fn perform(&mut self, effect: Effect, closing: &mut Vec<LocalBoxFuture<'a, ()>>) {
        match effect {
            Effect::Perform { ref step, ref tool, ref params, limit } => {
                let (step, once) = (step.clone(), must_not_repeat(tool));
                let own = params.get("timeout").and_then(serde_json::Value::as_f64);
                let own = own.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                let within = limit.into_iter().chain(own).max().map_or(TASK_TIMEOUT, |limit| limit + TASK_MARGIN);
                self.task(Key::Step(step), effect, within, once).await;
            }
            Effect::SetVariables { ref step, .. } | Effect::ReadVariables { ref step, .. } => {
                let step = step.clone();
                self.task(Key::Step(step), effect, TASK_MARGIN * 2, false).await;
            }
            Effect::StartRun { ref step, .. } => {
                let step = step.clone();
                self.task(Key::Step(step), effect, TASK_MARGIN * 2, false).await;
            }
            Effect::Sleep { step, until, limit } => {
                let left = until.since(self.now());
                let (after, outcome) = match limit {
                    Some(limit) if limit < left => (limit, Outcome::TimedOut),
                    _ => (left, Outcome::Finished { result: serde_json::Map::new() }),
                };
                let input = Input::Outcome { step: step.clone(), outcome };
                if after.is_zero() {
                    self.ready.push_back(input);
                } else {
                    self.timer(Key::Step(step), after, input);
                }
            }
            Effect::Answer { step, outcome } => self.ready.push_back(Input::Outcome { step, outcome }),
            // A gate is part of the events; its answer arrives as an input.
            Effect::OpenGate { .. } => {}
            Effect::ExpireGate { step, at } => {
                let input = Input::Outcome { step: step.clone(), outcome: Outcome::TimedOut };
                self.timer(Key::Expiry(step), at.since(self.now()), input);
            }
            Effect::ArmDeadline { after } => {
                self.drop_pending(&Key::Deadline);
                self.timer(Key::Deadline, after, Input::DeadlinePassed);
            }
            Effect::DisarmDeadline => self.drop_pending(&Key::Deadline),
            Effect::PauseChild { step, by } => self.notify(&RunId::started_by(&step), Input::Pause { by, above: true }),
            Effect::ResumeChild { step, by } => {
                self.notify(&RunId::started_by(&step), Input::Resume { by, above: true });
            }
            Effect::Abandon { step } => {
                self.drop_pending(&Key::Step(step.clone()));
                self.drop_pending(&Key::Expiry(step.clone()));
                if let Some(child) = self.remove_pending(&Key::Child(step)) {
                    closing.push(self.give_up_child(child));
                }
            }
            Effect::CloseTerminal { .. } | Effect::CloseOpened { .. } => closing.push(self.close(effect)),
        }
    }

    /// Starts a task that performs an effect at the host and sends the events that the host does not have.
    async fn task(&mut self, key: Key, effect: Effect, within: Duration, is_once: bool) {
        if self.unrecorded_bytes() > MAX_TASK_EVENT_BYTES {
            self.hand_over_now().await;
        }
        let limit = match &effect {
            Effect::StartRun { limit, .. } => *limit,
            _ => None,
        };
        let input = |repeated| self.task_input(EngineTask::Perform { effect: Box::new(effect.clone()), repeated });
        let (first, second) = (input(false), input(true));
        self.sent_count = self.ctx.state(|run| run.events.len());
        let token = WorkflowCancellationToken::new();
        let (ctx, queue, lost_after, task_token) = (self.ctx, queue_of(&self.host), self.lost_after, token.clone());
        let step = match &key {
            Key::Step(step) => Some(step.clone()),
            _ => None,
        };
        let options = move |attempts: u32| {
            let retry = RetryPolicy::builder()
                .initial_interval(Duration::from_millis(200))
                .maximum_interval(Duration::from_secs(5))
                .maximum_attempts(attempts)
                .build();
            ActivityOptions::with_start_to_close_timeout(within)
                .task_queue(queue.clone())
                .heartbeat_timeout(lost_after)
                .retry_policy(retry)
                .cancellation_token(task_token.clone())
                .do_not_eagerly_execute(true)
                .build()
        };
        let cancelled = token.clone();
        let future = async move {
            // A step that must not be repeated has one attempt. After a loss of its worker, the workflow requests the
            // state of the step from the host.
            let first = ctx.execute_activity(Tasks::perform, first, options(u32::from(is_once))).await;
            let output = match first {
                Ok(output) => Ok(output),
                Err(_) if cancelled.is_cancelled() => return WorkResult::Nothing,
                Err(_) => ctx.execute_activity(Tasks::perform, second, options(0)).await,
            };
            match (output, step) {
                (Ok(TaskOutput { answer: EngineAnswer::Begun { workflow, events, function }, .. }), Some(step)) => {
                    WorkResult::Begun { step, workflow, events, function, limit }
                }
                (Ok(output), _) => WorkResult::Task(output),
                (Err(_), Some(step)) if !cancelled.is_cancelled() => {
                    WorkResult::Input(Input::Outcome { step, outcome: Outcome::Unknown })
                }
                _ => WorkResult::Nothing,
            }
        };
        self.pending.push(Pending { key, token, future: future.boxed_local() });
    }

    fn task_input(&self, task: EngineTask) -> TaskInput {
        let (from, events) = self.ctx.state(|run| (run.recorded as u64, run.events[run.recorded..].to_vec()));
        TaskInput { run: self.run.to_string(), from, events, task }
    }

    fn unrecorded_bytes(&self) -> usize {
        self.ctx.state(|run| {
            let bytes = |event: &Event| serde_json::to_string(event).map_or(0, |text| text.len());
            run.events[run.recorded..].iter().map(bytes).sum()
        })
    }

    fn note_recorded(&self, recorded: u64) {
        self.ctx.state_mut(|run| {
            let recorded = usize::try_from(recorded).unwrap_or(usize::MAX).min(run.events.len());
            run.recorded = run.recorded.max(recorded);
        });
    }

    /// Hands over events that no pending task sends.
    fn hand_over(&mut self) {
        let (recorded, count) = self.ctx.state(|run| (run.recorded, run.events.len()));
        let is_recording = self.pending.iter().any(|pending| pending.key == Key::Record);
        if recorded.max(self.sent_count) >= count || is_recording || self.is_over() {
            return;
        }
        let input = self.next_record_task();
        let token = WorkflowCancellationToken::new();
        let future = self.record(input, token.clone(), HANDOVER_TIMEOUT);
        let future = future.map(|output| output.map_or(WorkResult::Nothing, WorkResult::Task)).boxed_local();
        self.pending.push(Pending { key: Key::Record, token, future });
    }

    /// Hands over all events and waits for the end of the handover.
    async fn hand_over_now(&self) {
        while self.ctx.state(|run| run.recorded < run.events.len()) {
            let input = self.next_record_task();
            match self.record(input, WorkflowCancellationToken::new(), HANDOVER_TIMEOUT).await {
                Some(TaskOutput { recorded, .. }) => self.note_recorded(recorded),
                None => return,
            }
        }
    }

    /// Returns a task with the next events for the journal, up to the size limit.
    fn next_record_task(&self) -> TaskInput {
        let mut input = self.task_input(EngineTask::Record);
        let mut bytes = 0;
        let fits = |event: &Event| {
            bytes += serde_json::to_string(event).map_or(0, |text| text.len());
            bytes <= MAX_TASK_EVENT_BYTES
        };
        // Take at least one event, because no result of a state exceeds the limit of a payload.
        let count = input.events.iter().map(fits).take_while(|fits| *fits).count().max(1);
        input.events.truncate(count);
        input
    }

    fn record(
        &self,
        input: TaskInput,
        token: WorkflowCancellationToken,
        within: Duration,
    ) -> impl Future<Output = Option<TaskOutput>> + use<'a> {
        let retry = RetryPolicy::builder()
            .initial_interval(Duration::from_millis(200))
            .maximum_interval(Duration::from_secs(10))
            .build();
        let options = ActivityOptions::with_schedule_to_close_timeout(within)
            .task_queue(queue_of(&self.host))
            .heartbeat_timeout(self.lost_after)
            .retry_policy(retry)
            .cancellation_token(token)
            .do_not_eagerly_execute(true)
            .build();
        let ctx = self.ctx;
        async move { ctx.execute_activity(Tasks::perform, input, options).await.ok() }
    }

    fn timer(&mut self, key: Key, after: Duration, input: Input) {
        let token = WorkflowCancellationToken::new();
        let options = TimerOptions::builder(after).cancellation_token(token.clone()).build();
        let (timer, cancelled) = (self.ctx.timer(options), token.clone());
        let future = async move {
            timer.await;
            if cancelled.is_cancelled() { WorkResult::Nothing } else { WorkResult::Input(input) }
        };
        self.pending.push(Pending { key, token, future: future.boxed_local() });
    }

    fn remove_pending(&mut self, key: &Key) -> Option<Pending<'a>> {
        let index = self.pending.iter().position(|pending| pending.key == *key)?;
        Some(self.pending.remove(index))
    }

    fn drop_pending(&mut self, key: &Key) {
        if let Some(pending) = self.remove_pending(key) {
            pending.token.cancel();
        }
    }

    fn close(&self, effect: Effect) -> LocalBoxFuture<'a, ()> {
        let task = EngineTask::Perform { effect: Box::new(effect), repeated: false };
        let input = TaskInput { events: Vec::new(), ..self.task_input(task) };
        close_terminal(self.ctx, queue_of(&self.host), self.lost_after, input).boxed_local()
    }

    fn start_child(
        &mut self,
        step: StepId,
        workflow: String,
        events: Vec<Event>,
        function: bool,
        limit: Option<Duration>,
    ) {
        let token = WorkflowCancellationToken::new();
        let input = self.ctx.state(|run| RunInput {
            workflow: workflow.clone(),
            events,
            function,
            parent: Some(step.clone()),
            ..run.input.clone()
        });
        let options = ChildWorkflowOptions::builder()
            .workflow_id(RunId::started_by(&step).to_string())
            .cancellation_token(token.clone())
            // A run that ends cancels its children and waits for them.
            .parent_close_policy(ParentClosePolicy::RequestCancel)
            .id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)
            .task_timeout(DECISION_TIMEOUT)
            .build();
        let starting = self.ctx.start_child_workflow(SteplatchRun::run, input, options);
        let key = Key::Child(step.clone());
        let future = async move {
            match starting.await {
                Ok(child) => WorkResult::Started { step, workflow, child: Box::new(child), limit },
                Err(error) => WorkResult::Input(Input::Outcome { step, outcome: failed_outcome(&error.to_string()) }),
            }
        };
        self.pending.push(Pending { key, token, future: future.boxed_local() });
    }

    fn await_child(&mut self, step: StepId, child: StartedChildWorkflow<steplatch_run::Run>, limit: Option<Duration>) {
        let token = WorkflowCancellationToken::new();
        let ctx = self.ctx;
        let (key, cancelled) = (Key::Child(step.clone()), token.clone());
        let future = async move {
            let mut timeout = match limit {
                Some(limit) => {
                    let options = TimerOptions::builder(limit).cancellation_token(cancelled.clone()).build();
                    ctx.timer(options).map(drop).boxed_local()
                }
                None => std::future::pending().boxed_local(),
            };
            let mut abandoned = cancelled.cancelled().boxed_local();
            let mut result = Box::pin(child.result());
            let mut is_late = false;
            let outcome = poll_fn(|cx| {
                if let Poll::Ready(result) = result.poll_unpin(cx) {
                    return Poll::Ready(match result {
                        Ok(RunOutput { outcome }) => outcome,
                        Err(error) => failed_outcome(&error.to_string()),
                    });
                }
                if !is_late && (timeout.poll_unpin(cx).is_ready() || abandoned.poll_unpin(cx).is_ready()) {
                    is_late = true;
                    // Await the end of the child, because it closes its terminals.
                    result.cancel();
                }
                Poll::Pending
            })
            .await;
            let outcome = if is_late && !cancelled.is_cancelled() { Outcome::TimedOut } else { outcome };
            WorkResult::Input(Input::Outcome { step, outcome })
        };
        self.pending.push(Pending { key, token, future: future.boxed_local() });
    }

    /// Cancels a child and waits for its end. Closes the terminals that it has left to this run.
    fn give_up_child(&self, child: Pending<'a>) -> LocalBoxFuture<'a, ()> {
        let (ctx, keep) = (self.ctx, self.ctx.state(|run| run.history.keep_terminals()));
        child.token.cancel_with_reason(ABANDONED_REASON);
        let (host, run, lost_after) = (self.host.clone(), self.run.clone(), self.lost_after);
        async move {
            let mut ended = child.future;
            let mut timeout = Box::pin(ctx.timer(
                TimerOptions::builder(CHILD_END_TIMEOUT).cancellation_token(WorkflowCancellationToken::new()).build(),
            ));
            let work_result = poll_fn(|cx| match ended.poll_unpin(cx) {
                Poll::Ready(work_result) => Poll::Ready(Some(work_result)),
                Poll::Pending => timeout.poll_unpin(cx).map(|_| None),
            })
            .await;
            timeout.cancel();
            let Some(WorkResult::Input(Input::Outcome { outcome: Outcome::Finished { result }, .. })) = work_result
            else {
                return;
            };
            if keep || result.get("status").and_then(serde_json::Value::as_str) != Some("completed") {
                return;
            }
            let open = result.get("open_terminals").and_then(serde_json::Value::as_array).into_iter().flatten();
            for session_id in open.filter_map(|open| open.as_str()).map(str::to_owned).collect::<Vec<_>>() {
                let task =
                    EngineTask::Perform { effect: Box::new(Effect::CloseTerminal { session_id }), repeated: false };
                let input = TaskInput { run: run.to_string(), from: 0, events: Vec::new(), task };
                close_terminal(ctx, queue_of(&host), lost_after, input).await;
            }
        }
        .boxed_local()
    }

    fn notify(&mut self, run: &RunId, input: Input) {
        let token = WorkflowCancellationToken::new();
        let options = SignalWorkflowOptions::builder().cancellation_token(token.clone()).build();
        let workflow = self.ctx.external_workflow(run.to_string(), None);
        let sending = workflow.signal(SteplatchRun::notify, PassedInput { input }, options);
        // An ended run needs no notice.
        let future = sending.map(|_| WorkResult::Nothing).boxed_local();
        self.pending.push(Pending { key: Key::Notice, token, future });
    }

    /// Notifies the parent run when this run starts or stops waiting: the parent's clock stops in the meantime.
    fn notify_parent(&mut self) {
        let (parent, waits) = self
            .ctx
            .state(|run| (run.history.parent().cloned(), run.history.gate().is_some() || run.history.child_waits()));
        let Some(step) = parent.filter(|_| waits != self.reported_waiting) else { return };
        self.reported_waiting = waits;
        let parent = step.run.clone();
        self.notify(&parent, Input::ChildWaits { step, waits });
    }

    /// Cancels pending work, hands over the last events, and returns the outcome for the parent run.
    async fn finish(mut self) -> Outcome {
        for pending in self.pending.drain(..).filter(|pending| pending.key != Key::Record) {
            pending.token.cancel();
        }
        self.update_search_attributes();
        self.hand_over_now().await;
        let ctx = self.ctx;
        SteplatchRun::answer_remaining(ctx).await;
        let mut outcome = ctx.state(|run| child_outcome(&run.history, status_name(run.history.status())));
        if let Outcome::Finished { result } = &mut outcome {
            result.insert("workflow_name".to_owned(), ctx.state(|run| run.input.workflow.clone()).into());
        }
        outcome
    }
}

/// Requests a host to close a terminal. Gives up after [`CLOSE_TIMEOUT`].
async fn close_terminal(ctx: &Context, queue: String, lost_after: Duration, input: TaskInput) {
    let options = ActivityOptions::with_schedule_to_close_timeout(CLOSE_TIMEOUT)
        .task_queue(queue)
        .heartbeat_timeout(lost_after)
        .cancellation_token(WorkflowCancellationToken::new())
        .do_not_eagerly_execute(true)
        .build();
    drop(ctx.execute_activity(Tasks::perform, input, options).await);
}

/// Returns whether an action has an effect that must not happen twice, such as typing.
fn must_not_repeat(tool: &str) -> bool {
    !matches!(tool, "await_output" | "get_screen_content" | "list_terminal_sessions" | "exit_terminal")
}

fn status_name(status: &Status) -> &'static str {
    match status {
        Status::NotStarted | Status::Running => "running",
        Status::Waiting => "waiting",
        Status::Completed => "completed",
        Status::Failed { .. } => "failed",
        Status::Cancelled { .. } => "cancelled",
    }
}

fn failed_outcome(error: &str) -> Outcome {
    let fields = [("success".to_owned(), false.into()), ("error".to_owned(), error.into())];
    Outcome::Finished { result: fields.into_iter().collect() }
}

async fn join_all(futures: Vec<LocalBoxFuture<'_, ()>>) {
    temporalio_sdk::workflows::join_all(futures).await;
}
