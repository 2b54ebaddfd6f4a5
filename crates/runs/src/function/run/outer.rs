//! A function whose calls an outer engine schedules: it continues here, in turns that the engine requests.
//!
//! The engine delivers outcomes of calls, ends of timers and of nested runs, and answers of people. The function
//! continues with these, and the driver records its new calls and answers the engine with the work that the run then
//! waits for. The journal has the same entries as for a function that this daemon decides alone, so reports, gates and
//! restarts work in the same way.

use std::time::{Duration, Instant};

use steplatch_library::Signature;
use steplatch_python_api::{Answer, Call, CallKind};
use steplatch_workflow::{EngineAnswer, EngineTask, FunctionInput, FunctionTurn, FunctionWorkKind, Input};
use tokio::sync::oneshot;

use crate::child::ABANDONED_REASON;
use crate::engine::{Attempt, Handled, RunKind as _};
use crate::function::calls::{CallTarget, child_run_id, child_step};
use crate::function::child;
use crate::function::entry::{CallLabel, Entry};
use crate::function::outer_work::OuterWork;
use crate::function::run::cancel::CALLS_END_TIMEOUT;
use crate::function::run::{FunctionEvent, FunctionRun};
use crate::function::work::{CallOutcome, remaining_wait};
use crate::outer::{InputEnd, Mirror, MirrorMessage, NOT_SERVED};
use crate::time_span::TimeSpan;

/// Maximum calls of one run: nodes, graphs, gates, sleeps and nested runs. A call takes up to 20 events of a history in
/// Temporal, and a history has at most 51,200 events.
pub(in crate::function) const MAX_CALLS: u64 = 2000;

/// Maximum bytes of the outcomes of one run's calls. A history in Temporal has each outcome twice, and at most 50 MB.
pub(in crate::function) const MAX_BYTES: u64 = 16_000_000;

/// Maximum wait for the end of a nested run here once the engine has its result.
const CHILD_END_TIMEOUT: Duration = Duration::from_secs(30);

/// Tolerance for an early timer of the engine.
const TIMER_TOLERANCE: Duration = Duration::from_millis(500);

impl FunctionRun {
    /// Waits for the next event of a run whose calls the engine schedules. Safe to drop and call again.
    pub(in crate::function) async fn next_outer_event(&mut self) -> FunctionEvent {
        let Some(mirror) = &mut self.mirror else { return std::future::pending().await };
        let is_ready = self.work.is_ready();
        let outer = self.work.outer.as_ref();
        let turn_is_over = outer.is_some_and(|outer| outer.is_turn_over(is_ready, Instant::now()));
        let continues = is_ready && !outer.is_some_and(OuterWork::is_between_turns);
        tokio::select! {
            biased;
            Some((number, outcome)) = self.work.next() => FunctionEvent::Performed { number, outcome },
            message = mirror.inbox.next() => FunctionEvent::Outer(message),
            () = std::future::ready(()), if turn_is_over => FunctionEvent::TurnOver,
            () = std::future::ready(()), if continues => match self.work.next_ready() {
                Some((number, outcome)) => FunctionEvent::Outcome { number, outcome, by: None },
                // Not reached: an outcome was ready.
                None => FunctionEvent::TurnOver,
            },
        }
    }

    /// Handles a message of the engine. Returns false when this daemon must no longer drive the run.
    pub(in crate::function) async fn receive(&mut self, message: MirrorMessage) -> bool {
        match message {
            MirrorMessage::Started(started) => {
                self.set_blocked_reason(started.err());
                true
            }
            MirrorMessage::Lost(how) => {
                let reason = Mirror::lost(&how);
                self.cancel_at_once(self.recorder.shared.clock.now(), reason).await
            }
            MirrorMessage::Task(task, reply) => {
                self.set_blocked_reason(None);
                self.take_task(task, reply).await
            }
            // A function receives no events from the engine. Dropping the reply reports that.
            MirrorMessage::Events(_) => true,
        }
    }

    async fn take_task(&mut self, task: EngineTask, reply: oneshot::Sender<EngineAnswer>) -> bool {
        let Some(outer) = &mut self.work.outer else { return true };
        match task {
            EngineTask::Advance { turn, inputs } => {
                if !outer.begin_turn(turn, reply, Instant::now()) {
                    return true;
                }
                for input in inputs {
                    let Some(taken) = self.take_input(input).await else { return false };
                    if let Some(outer) = &mut self.work.outer {
                        outer.record_taken(taken);
                    }
                    if self.is_over() {
                        break;
                    }
                }
                true
            }
            EngineTask::Call { number, repeated } => {
                if outer.request_call(number, reply) {
                    self.perform_requested(number, repeated);
                }
                true
            }
            EngineTask::BeginRun { number } => {
                self.begin_child(number, reply);
                true
            }
            // Tasks of machines.
            EngineTask::Perform { .. } | EngineTask::ReadScreens { .. } | EngineTask::Record => true,
        }
    }

    /// Applies an input of the engine. Returns whether it had an effect; `None` when this daemon must no longer drive
    /// the run.
    async fn take_input(&mut self, input: FunctionInput) -> Option<bool> {
        let event = match input {
            FunctionInput::Called { number, outcome } => {
                self.outcome_bytes += outcome.to_string().len() as u64;
                let outcome = serde_json::from_value(outcome);
                let outcome = outcome
                    .unwrap_or_else(|error| CallOutcome::refused(format!("its outcome cannot be read: {error}")));
                Some(FunctionEvent::Outcome { number, outcome, by: None })
            }
            FunctionInput::TimerEnded { id } => {
                let timer_outcome = self.work.outer.as_mut().and_then(|outer| outer.take_timer(&id));
                timer_outcome.map(|(number, outcome)| FunctionEvent::Outcome { number, outcome, by: None })
            }
            FunctionInput::RunEnded { number, late, error } => {
                let outcome = self.outcome_of_child(number, late, error).await;
                outcome.map(|outcome| FunctionEvent::Outcome { number, outcome, by: None })
            }
            FunctionInput::DeadlinePassed => self.expired_limit(),
            // This run is already being cancelled.
            FunctionInput::Passed { input }
                if matches!(*input, Input::Cancel { .. }) && self.function_state.cancel.is_some() =>
            {
                None
            }
            FunctionInput::Passed { input } => {
                let event = self.function_state.event_for_input(&self.recorder.run.id, (*input).clone());
                if event.is_some()
                    && let Some(passed) = self.passed_input.as_mut().filter(|passed| passed.input == *input)
                {
                    passed.is_taken = true;
                }
                event
            }
        };
        match event {
            Some(FunctionEvent::Outcome { number, outcome: CallOutcome::TooLarge { bytes }, .. }) => {
                let limit = crate::function::outer_work::MAX_OUTCOME_BYTES;
                let error = format!(
                    "the outcome of call {number} has {bytes} bytes, and one of a run on Temporal has at most {limit}; have it \
                     written to a file, or run the workflow with --on sqlite"
                );
                self.end_failed(error).await.then_some(true)
            }
            Some(event) => Box::pin(self.apply_event(event)).await.then_some(true),
            None => Some(false),
        }
    }

    /// Ends the turn once the function cannot continue.
    pub(in crate::function) async fn end_turn(&mut self) -> bool {
        if let Some(error) = self.beyond_limits() {
            return self.end_failed(error).await;
        }
        let label = self.function_state.open.iter().last().map(|(number, open)| {
            match open.label(&self.recorder.run.id, number) {
                CallLabel::Node(node) => node,
                CallLabel::Run { workflow, .. } => workflow,
                CallLabel::Gate => "gate".to_owned(),
                CallLabel::Other => "sleep".to_owned(),
            }
        });
        let turn = FunctionTurn {
            deadline: self.deadline(),
            shown: label.unwrap_or_default(),
            gate: self.function_state.open.is_waiting(),
            waits: self.function_state.open.is_waiting() || !self.function_state.waiting_children.is_empty(),
            paused: self.function_state.paused.as_ref().map(|pause| pause.by.clone()),
            ..FunctionTurn::default()
        };
        let is_ready = self.work.is_ready();
        if let Some(outer) = &mut self.work.outer {
            outer.end_turn(turn, is_ready);
        }
        true
    }

    /// Passes an input of a person, an agent or a parent to the engine, and applies the result.
    pub(in crate::function) async fn forward_input(&mut self, input: Input) -> Handled {
        let is_in_turn = self.work.outer.as_ref().is_some_and(OuterWork::is_in_turn);
        let (shared, run) = (self.recorder.shared.clone(), self.recorder.run.id.clone());
        match &input {
            // The engine waits for this turn, whose answer contains the work of the run after it. The engine receives
            // no second cancel, since the first one is in progress there, too.
            Input::Cancel { reason } if is_in_turn || self.function_state.cancel.is_some() => {
                let event = FunctionEvent::Cancelled { reason: reason.clone() };
                return Handled::recorded(Box::pin(self.apply_event(event)).await);
            }
            Input::Cancel { reason } => {
                if !shared.outer.cancel(&run, reason.clone()) {
                    self.set_blocked_reason(Some(NOT_SERVED.to_owned()));
                }
                return Handled::Unanswered;
            }
            Input::GateAnswered { .. } | Input::Pause { .. } | Input::Resume { .. } => {}
            // All other inputs come from the engine.
            _ => return Handled::Ignored,
        }
        if self.function_state.event_for_input(&run, input.clone()).is_none() {
            return Handled::Ignored;
        }
        // The key is the same for an answer that is repeated because its first reply was lost, and new for the next
        // pause.
        let key = Signature::of_text(&format!("{}{}", self.recorder.published().seq, serde_json::json!(input)));
        self.passed_input = Some(PassedInput { input: input.clone(), is_taken: false });
        let delivery = async move { shared.outer.pass(&run, key.to_string(), &input).await };
        tokio::pin!(delivery);
        let handled = loop {
            if self.passed_input.as_ref().is_some_and(|passed| passed.is_taken) {
                break Handled::Recorded;
            }
            if self.is_over() {
                break Handled::Ignored;
            }
            tokio::select! {
                end = &mut delivery => break match end {
                    InputEnd::Taken { .. } => Handled::Recorded,
                    InputEnd::Ignored => Handled::Ignored,
                    InputEnd::Unknown(blocked_reason) => {
                        self.set_blocked_reason(Some(blocked_reason));
                        Handled::Unanswered
                    }
                },
                event = self.next_outer_event() => {
                    if !Box::pin(self.apply_event(event)).await {
                        break Handled::Lost;
                    }
                }
            }
        };
        self.passed_input = None;
        handled
    }

    /// Cancels the runs that open calls have started in the engine and waits a moment for their ends. Nested runs that
    /// this daemon waits for itself end with their calls.
    pub(in crate::function) fn end_children(&self) -> impl Future<Output = ()> + use<> {
        let starts_run = |target: &CallTarget| {
            matches!(target, CallTarget::Call(Call { kind: CallKind::RunWorkflow { .. }, .. })) && self.mirror.is_some()
        };
        let open = self.function_state.open.iter().filter(|(_, open)| starts_run(&open.target));
        let children =
            open.filter_map(|(number, _)| self.recorder.shared.driven(&child_run_id(&self.recorder.run.id, number)));
        let children: Vec<_> = children.collect();
        async move {
            for child in &children {
                child.cancel(ABANDONED_REASON);
            }
            let all_finished = async {
                for child in &children {
                    child.finished().await;
                }
            };
            // A child that takes longer ends after this run.
            let _ = tokio::time::timeout(CALLS_END_TIMEOUT, all_finished).await;
        }
    }

    fn set_blocked_reason(&mut self, blocked_reason: Option<String>) {
        if Mirror::set_blocked_reason(&mut self.mirror, blocked_reason) {
            self.publish();
        }
    }

    /// Performs a call that the engine requests. If the request is repeated and the call is older than this daemon,
    /// another daemon may have begun the call.
    fn perform_requested(&mut self, number: u64, is_repeated: bool) {
        let Some(open) = self.function_state.open.get(number).cloned() else { return };
        let attempt =
            if is_repeated && number <= self.last_recorded_call { Attempt::AfterRestart } else { Attempt::First };
        match open.target {
            CallTarget::Call(call) => self.perform(number, open.at, call.kind, attempt),
            CallTarget::Step { step, node, input, .. } => {
                let timeout = self.attempt_timeout(open.frame, &step, &node);
                self.call_node(number, open.at, node.as_str(), input, timeout, attempt);
            }
        }
        // A call that ends immediately, such as one past its time limit, is ready and needs no outcome of the engine.
    }

    /// Begins the run of a call in the journal. The engine then starts it there.
    fn begin_child(&self, number: u64, reply: oneshot::Sender<EngineAnswer>) {
        let open = self.function_state.open.get(number);
        let Some(CallTarget::Call(Call { kind: CallKind::RunWorkflow { workflow, input, params, timeout }, .. })) =
            open.map(|open| open.target.clone())
        else {
            let _ = reply.send(EngineAnswer::Done);
            return;
        };
        let at = open.map_or_else(|| self.recorder.shared.clock.now(), |open| open.at);
        let request = child::ChildRequest {
            step: child_step(&self.recorder.run.id, number),
            workflow,
            input,
            params,
            depth: self.depth + 1,
            called_at: at,
            timeout: timeout.map(TimeSpan::from_seconds),
        };
        let start = child::begin_for_outer_engine(
            self.recorder.shared.clone(),
            self.recorder.caller.clone(),
            self.file.clone(),
            request,
        );
        tokio::spawn(async move {
            // The engine may have disconnected; it repeats the request and finds the same run.
            let _ = reply.send(start.await);
        });
    }

    /// Returns the outcome of a call that has started a run, once the engine no longer waits for that run.
    async fn outcome_of_child(&self, number: u64, is_late: bool, error: Option<String>) -> Option<CallOutcome> {
        let open = self.function_state.open.get(number)?;
        let CallTarget::Call(Call { kind: CallKind::RunWorkflow { workflow, timeout, .. }, .. }) = &open.target else {
            return None;
        };
        if is_late {
            let limit = timeout.unwrap_or_default();
            return Some(CallOutcome::TimedOut(format!("Workflow '{workflow}' took longer than {limit} s")));
        }
        let (shared, id) = (&self.recorder.shared, child_run_id(&self.recorder.run.id, number));
        let failed = |error: String| {
            let message = format!("Workflow '{workflow}' ({id}) {error}");
            Some(CallOutcome::Answer(Answer::Raise { exception: "RuntimeError".to_owned(), message }))
        };
        if let Some(error) = &error {
            // The child does not continue without the engine.
            _ = shared.outer.send(&id, MirrorMessage::Lost(error.clone()));
        }
        let run = match shared.find(&id).await {
            Ok(Some(run)) => run,
            Ok(None) => return failed(error.unwrap_or_else(|| "is not known here".to_owned())),
            Err(error) => return failed(error.to_string()),
        };
        run.wait_until_over(CHILD_END_TIMEOUT).await;
        if !run.state().is_over() {
            return failed("has ended in Temporal and not here".to_owned());
        }
        Some(child::call_outcome(shared, &run, workflow).await)
    }

    /// Returns the time until a limit of the run expires: its working time, or the cleanup after a cancel.
    fn deadline(&self) -> Option<Duration> {
        let now = self.recorder.shared.clock.now();
        let run_deadline = self.timeout.and_then(|timeout| self.function_state.work_deadline(timeout));
        let next = run_deadline.into_iter().chain(self.cancel_progress.cleanup_deadline).min();
        next.map(|at| at.since(now))
    }

    /// Returns the event of an expired limit, if there is one. A timer of the engine may belong to an earlier limit.
    fn expired_limit(&self) -> Option<FunctionEvent> {
        let now = self.recorder.shared.clock.now().after(TIMER_TOLERANCE);
        if self.cancel_progress.cleanup_deadline.is_some_and(|at| at <= now) {
            return Some(FunctionEvent::CleanupTimedOut);
        }
        let run_deadline = self.timeout.and_then(|timeout| self.function_state.work_deadline(timeout));
        run_deadline.is_some_and(|at| at <= now).then_some(FunctionEvent::TimedOut)
    }

    /// Returns the limit of a run on Temporal that this one exceeds, and a remedy.
    fn beyond_limits(&self) -> Option<String> {
        let remedy =
            "run the workflow with --on sqlite, or move parts of it to workflows that it calls with ctx.run_workflow";
        if self.function_state.external_calls > MAX_CALLS {
            return Some(format!(
                "a function on Temporal can make at most {MAX_CALLS} calls, and this one made more; {remedy}"
            ));
        }
        (self.outcome_bytes > MAX_BYTES).then(|| {
            format!(
                "the outcomes of a function on Temporal can have at most {MAX_BYTES} bytes in total, and these have \
                 more; {remedy}"
            )
        })
    }

    async fn end_failed(&mut self, error: String) -> bool {
        let at = self.recorder.shared.clock.now();
        let entries = self.function_state.ended_by(&self.recorder.run.id, at, Entry::failed(at, error));
        self.append(entries).await
    }

    /// Makes the engine start a run for a call and wait for its end.
    pub(in crate::function) fn start_outer_run(
        &mut self,
        number: u64,
        at: steplatch_workflow::Timestamp,
        timeout: Option<TimeSpan>,
    ) {
        let limit = remaining_wait(&self.recorder.shared.clock, at, timeout);
        let step = child_step(&self.recorder.run.id, number);
        if let Some(outer) = &mut self.work.outer {
            outer.add(number, FunctionWorkKind::Run { number, step, limit });
        }
    }
}

/// An input in transit to the engine. The engine returns the input in a turn.
#[derive(Debug)]
pub(in crate::function) struct PassedInput {
    input: Input,
    is_taken: bool,
}
