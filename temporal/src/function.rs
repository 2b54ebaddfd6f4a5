//! A run of a function: the daemon of its host continues it, and this workflow does what it waits for.
//!
//! The function itself, its variables and its journal are on the host. The workflow requests a turn from the daemon,
//! and gets the things that the run waits for then: calls become activities, times become timers, nested runs become
//! child workflows. Their outcomes go into the next turn, in the order of their arrival. This module decides nothing.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, UNIX_EPOCH};

use futures::FutureExt as _;
use futures::future::{LocalBoxFuture, poll_fn};
use steplatch_ids::{RunId, StepId};
use steplatch_workflow::{
    EngineAnswer, EngineTask, Event, FunctionInput, FunctionTurn, FunctionWork, FunctionWorkKind, Input, Outcome,
};
use temporalio_common::RetryPolicy;
use temporalio_sdk::{
    ActivityOptions, CancellableFuture as _, ChildWorkflowOptions, ParentClosePolicy, SignalWorkflowOptions,
    TimerOptions, WaitConditionOptions, WorkflowCancellationToken, WorkflowIdReusePolicy,
};

use crate::run::{CHILD_END_TIMEOUT, Context, Shown, SteplatchRun};
use crate::tasks::Tasks;
use crate::wire::{DECISION_TIMEOUT, PassedInput, RunInput, TakenInput, TaskInput, TaskOutput, queue_of};

/// Time limit of one attempt of a task. A call has limits of its own, and missing heartbeats show a lost worker.
const TASK_TIMEOUT: Duration = Duration::from_secs(30 * 86_400);

/// Maximum size of the inputs of a turn as JSON, in bytes: a payload in Temporal has at most 2 MB. One input is always
/// brought, and the daemon answers with outcomes of at most 1.9 MB.
const MAX_TURN_BYTES: usize = 1_900_000;

/// Time by which a deadline may be later than the armed one, without a timer of its own.
const DEADLINE_TOLERANCE: Duration = Duration::from_millis(500);

/// Result of ended work.
enum Ended {
    /// An input for the daemon's next turn.
    Input(FunctionInput),
    /// The daemon has something to report.
    Turn,
    Nothing,
}

struct Pending<'a> {
    /// The name of the work; `None` of what the function does not wait for.
    id: Option<String>,
    token: WorkflowCancellationToken,
    /// True if it is a nested run, whose end the workflow awaits even when the function does not.
    is_run: bool,
    future: LocalBoxFuture<'a, Ended>,
}

pub(crate) struct FunctionDriver<'a> {
    ctx: &'a Context,
    run: RunId,
    host: String,
    lost_after: Duration,
    parent: Option<StepId>,
    turn: u64,
    /// Inputs of the next turn, each with the number of the update that waits for its answer.
    inputs: Vec<(Option<u64>, FunctionInput)>,
    pending: Vec<Pending<'a>>,
    /// Time at which the timer of the deadline ends, since 1970.
    deadline: Option<Duration>,
    is_cancelled: bool,
    /// The actor of the run's present pause.
    paused: Rc<RefCell<Option<String>>>,
    /// True if the run above knows that this one waits.
    reported_waiting: bool,
    shown: Shown,
}

impl<'a> FunctionDriver<'a> {
    pub(crate) fn new(ctx: &'a Context) -> Self {
        let (host, lost_after, parent) =
            ctx.state(|run| (run.input().host.clone(), run.input().lost_after, run.input().parent.clone()));
        Self {
            ctx,
            run: ctx.workflow_id().parse().expect("the id of a workflow is that of its run"),
            host,
            lost_after: Duration::try_from_secs_f64(lost_after).unwrap_or(Duration::from_secs(10)),
            parent,
            turn: 0,
            inputs: Vec::new(),
            pending: Vec::new(),
            deadline: None,
            is_cancelled: false,
            paused: Rc::default(),
            reported_waiting: false,
            shown: Shown::default(),
        }
    }

    pub(crate) async fn drive(mut self) -> Outcome {
        loop {
            let count = self.portion();
            let FunctionTurn { whole, begun, ended, taken, deadline, shown, gate, waits, paused, over } =
                self.advance(count).await;
            // With the end, what was not brought any more has no effect, and its senders wait.
            let answered = if over.is_some() { self.inputs.len() } else { count };
            for (place, (update, _)) in self.inputs.drain(..answered).enumerate() {
                if let Some(update) = update {
                    let taken = taken.get(place).copied().unwrap_or_default();
                    self.ctx.state_mut(|run| run.answer(update, TakenInput { taken, ..TakenInput::default() }));
                }
            }
            if let Some(outcome) = over {
                return self.finish(outcome).await;
            }
            *self.paused.borrow_mut() = paused;
            self.leave(whole, &begun, &ended);
            for work in begun {
                if !self.pending.iter().any(|pending| pending.id.as_deref() == Some(&work.id)) {
                    self.begin(work);
                }
            }
            self.arm(deadline);
            self.shown.show(self.ctx, shown, gate);
            self.notify_parent(waits);
            if self.inputs.is_empty() {
                self.wake().await;
            }
        }
    }

    /// Returns how many inputs the next turn brings.
    fn portion(&self) -> usize {
        let mut bytes = 0;
        let fits = |(_, input): &&(Option<u64>, FunctionInput)| {
            bytes += serde_json::to_string(input).map_or(0, |text| text.len());
            bytes <= MAX_TURN_BYTES
        };
        self.inputs.iter().take_while(fits).count().max(1).min(self.inputs.len())
    }

    /// Has the daemon make a turn with the first inputs. Waits for a host that is away.
    async fn advance(&mut self, count: usize) -> FunctionTurn {
        self.turn += 1;
        let inputs = self.inputs.iter().take(count).map(|(_, input)| input.clone()).collect();
        let input = self.task(EngineTask::Advance { turn: self.turn, inputs });
        loop {
            let options = self.options(WorkflowCancellationToken::new());
            if let Ok(TaskOutput { answer: EngineAnswer::Advanced { turn }, .. }) =
                self.ctx.execute_activity(Tasks::perform, input.clone(), options).await
            {
                return *turn;
            }
        }
    }

    /// Ends what the function does not wait for any longer.
    fn leave(&mut self, whole: bool, begun: &[FunctionWork], ended: &[String]) {
        let is_left = |id: &String| match whole {
            true => !begun.iter().any(|work| work.id == *id),
            false => ended.contains(id),
        };
        for pending in &mut self.pending {
            if pending.id.as_ref().is_some_and(is_left) {
                pending.id = None;
                pending.token.cancel();
            }
        }
        self.pending.retain(|pending| pending.id.is_some() || pending.is_run || !pending.token.is_cancelled());
    }

    fn begin(&mut self, FunctionWork { id, kind }: FunctionWork) {
        let (token, is_run) = (WorkflowCancellationToken::new(), matches!(kind, FunctionWorkKind::Run { .. }));
        let ctx = self.ctx;
        let future = match kind {
            FunctionWorkKind::Timer { after } => {
                let options = TimerOptions::builder(after).cancellation_token(token.clone()).build();
                let (timer, id) = (ctx.timer(options), id.clone());
                timer.map(|_| Ended::Input(FunctionInput::TimerEnded { id })).boxed_local()
            }
            FunctionWorkKind::Call { number } => {
                let (first, second) = (self.call(number, false), self.call(number, true));
                let (options, again) = (self.options(token.clone()), self.options(token.clone()));
                let cancelled = token.clone();
                async move {
                    let mut performed = ctx.execute_activity(Tasks::perform, first, options).await;
                    if performed.is_err() && !cancelled.is_cancelled() {
                        performed = ctx.execute_activity(Tasks::perform, second, again).await;
                    }
                    match performed {
                        Ok(TaskOutput { answer: EngineAnswer::Called { outcome }, .. }) => {
                            Ended::Input(FunctionInput::Called { number, outcome })
                        }
                        _ => Ended::Turn,
                    }
                }
                .boxed_local()
            }
            FunctionWorkKind::Run { number, step, limit } => {
                let (input, options) = (
                    self.task(EngineTask::BeginRun { number }),
                    // A run that has begun at its host starts also when nothing waits for it any longer; the workflow
                    // cancels it then.
                    self.options(WorkflowCancellationToken::new()),
                );
                let beginning = ctx.execute_activity(Tasks::perform, input, options);
                let child = Child { number, step, limit, token: token.clone(), paused: self.paused.clone() };
                beginning
                    .then(async move |begun| match begun {
                        Ok(TaskOutput { answer: EngineAnswer::Begun { workflow, events, function }, .. }) => {
                            Ended::Input(child.run(ctx, workflow, events, function).await)
                        }
                        Ok(TaskOutput { answer: EngineAnswer::Called { outcome }, .. }) => {
                            Ended::Input(FunctionInput::Called { number, outcome })
                        }
                        _ => Ended::Turn,
                    })
                    .boxed_local()
            }
        };
        self.pending.push(Pending { id: Some(id), token, is_run, future });
    }

    fn call(&self, number: u64, repeated: bool) -> TaskInput {
        self.task(EngineTask::Call { number, repeated })
    }

    fn task(&self, task: EngineTask) -> TaskInput {
        TaskInput { run: self.run.to_string(), from: 0, events: Vec::new(), task }
    }

    fn options(&self, token: WorkflowCancellationToken) -> ActivityOptions {
        let retry = RetryPolicy::builder()
            .initial_interval(Duration::from_millis(200))
            .maximum_interval(Duration::from_secs(5))
            .build();
        ActivityOptions::with_start_to_close_timeout(TASK_TIMEOUT)
            .task_queue(queue_of(&self.host))
            .heartbeat_timeout(self.lost_after)
            .retry_policy(retry)
            .cancellation_token(token)
            .do_not_eagerly_execute(true)
            .build()
    }

    /// Sets the timer of the deadline. An earlier one stays: the daemon then gets a request, and sees that it is early.
    fn arm(&mut self, after: Option<Duration>) {
        let Some(after) = after else { return };
        let now = self.ctx.workflow_time().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        let at = now + after;
        if self.deadline.is_some_and(|armed| armed <= at + DEADLINE_TOLERANCE) {
            return;
        }
        let token = WorkflowCancellationToken::new();
        let timer = self.ctx.timer(TimerOptions::builder(after).cancellation_token(token.clone()).build());
        let future = timer.map(|_| Ended::Input(FunctionInput::DeadlinePassed)).boxed_local();
        self.pending.push(Pending { id: None, token, is_run: false, future });
        self.deadline = Some(at);
    }

    /// Waits until the next turn has something to bring, or the daemon has something to tell. Polls all in a fixed
    /// order.
    async fn wake(&mut self) {
        loop {
            let ctx = self.ctx;
            let options = WaitConditionOptions::builder().cancellation_token(WorkflowCancellationToken::new()).build();
            let mut arrived = Box::pin(ctx.wait_condition_with_options(SteplatchRun::has_arrived, options));
            let is_cancelled = self.is_cancelled;
            let mut cancelled = Box::pin(ctx.cancelled());
            let pending = &mut self.pending;
            let (cancel, ended) = poll_fn(|cx| {
                if !is_cancelled && let Poll::Ready(reason) = cancelled.poll_unpin(cx) {
                    return Poll::Ready((Some(reason.unwrap_or_default()), Vec::new()));
                }
                let has_arrived = arrived.poll_unpin(cx).is_ready();
                let mut ended = Vec::new();
                pending.retain_mut(|pending| match pending.future.poll_unpin(cx) {
                    Poll::Ready(end) => {
                        ended.push((pending.id.take(), end));
                        false
                    }
                    Poll::Pending => true,
                });
                if has_arrived || !ended.is_empty() { Poll::Ready((None, ended)) } else { Poll::Pending }
            })
            .await;
            drop((arrived, cancelled));
            if let Some(reason) = cancel {
                self.is_cancelled = true;
                let reason = if reason.is_empty() { "cancelled in Temporal".to_owned() } else { reason };
                self.pass(None, Input::Cancel { reason });
                return;
            }
            while let Some((update, input)) = ctx.state_mut(SteplatchRun::next_arrived) {
                self.pass(update, input);
            }
            let mut wants_turn = false;
            for (id, end) in ended {
                wants_turn |= self.has_ended(id, end);
            }
            if wants_turn || !self.inputs.is_empty() {
                return;
            }
        }
    }

    fn pass(&mut self, update: Option<u64>, input: Input) {
        self.inputs.push((update, FunctionInput::Passed { input: Box::new(input) }));
    }

    /// Takes what has ended. Returns whether the daemon has something to tell.
    fn has_ended(&mut self, id: Option<String>, end: Ended) -> bool {
        match end {
            Ended::Input(FunctionInput::DeadlinePassed) => {
                self.deadline = None;
                self.inputs.push((None, FunctionInput::DeadlinePassed));
            }
            // The function does not wait for it any longer.
            _ if id.is_none() => {}
            Ended::Input(input) => self.inputs.push((None, input)),
            Ended::Turn => return true,
            Ended::Nothing => {}
        }
        false
    }

    /// Notifies the run above whenever this one begins or ceases to wait: its clock stands still meanwhile.
    fn notify_parent(&mut self, waits: bool) {
        let Some(step) = self.parent.clone().filter(|_| waits != self.reported_waiting) else { return };
        self.reported_waiting = waits;
        let token = WorkflowCancellationToken::new();
        let options = SignalWorkflowOptions::builder().cancellation_token(token.clone()).build();
        let above = self.ctx.external_workflow(step.run.to_string(), None);
        let sending =
            above.signal(SteplatchRun::notify, PassedInput { input: Input::ChildWaits { step, waits } }, options);
        // A run that has ended needs no notice.
        let future = sending.map(|_| Ended::Nothing).boxed_local();
        self.pending.push(Pending { id: None, token, is_run: false, future });
    }

    /// Ends what is in flight, and returns the outcome for the run above.
    async fn finish(mut self, outcome: Outcome) -> Outcome {
        let ctx = self.ctx;
        for pending in &self.pending {
            pending.token.cancel();
        }
        let mut runs: Vec<Pending<'a>> = self.pending.drain(..).filter(|pending| pending.is_run).collect();
        if !runs.is_empty() {
            let token = WorkflowCancellationToken::new();
            let mut late =
                Box::pin(ctx.timer(TimerOptions::builder(CHILD_END_TIMEOUT).cancellation_token(token).build()));
            poll_fn(|cx| {
                runs.retain_mut(|run| run.future.poll_unpin(cx).is_pending());
                if runs.is_empty() { Poll::Ready(()) } else { late.poll_unpin(cx).map(drop) }
            })
            .await;
            late.cancel();
        }
        self.shown.show(ctx, String::new(), false);
        SteplatchRun::answer_late(ctx).await;
        outcome
    }
}

/// A nested run, from its start to its end.
struct Child {
    number: u64,
    /// The step of the run.
    step: StepId,
    /// Maximum time of the wait for it.
    limit: Option<Duration>,
    /// Cancels it at the end of the wait for it.
    token: WorkflowCancellationToken,
    /// The actor that has paused the run above it.
    paused: Rc<RefCell<Option<String>>>,
}

impl Child {
    async fn run(self, ctx: &Context, workflow: String, events: Vec<Event>, function: bool) -> FunctionInput {
        let Self { number, step, limit, token, paused } = self;
        let id = RunId::started_by(&step).to_string();
        let input = ctx.state(|run| RunInput { workflow, events, function, parent: Some(step), ..run.input().clone() });
        let options = ChildWorkflowOptions::builder()
            .workflow_id(id.clone())
            .cancellation_token(WorkflowCancellationToken::new())
            // A run that ends cancels its children and waits for them.
            .parent_close_policy(ParentClosePolicy::RequestCancel)
            .id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)
            .task_timeout(DECISION_TIMEOUT)
            .build();
        let child = match ctx.start_child_workflow(SteplatchRun::run, input, options).await {
            Ok(child) => child,
            Err(error) => return FunctionInput::RunEnded { number, late: false, error: Some(error.to_string()) },
        };
        let by = paused.borrow().clone();
        if let Some(by) = by {
            let options = SignalWorkflowOptions::builder().cancellation_token(WorkflowCancellationToken::new()).build();
            let input = PassedInput { input: Input::Pause { by, above: true } };
            // A run that has ended needs no pause.
            drop(ctx.external_workflow(id, None).signal(SteplatchRun::notify, input, options).await);
        }
        let mut late = match limit {
            Some(limit) => {
                let options = TimerOptions::builder(limit).cancellation_token(token.clone()).build();
                ctx.timer(options).map(drop).boxed_local()
            }
            None => std::future::pending().boxed_local(),
        };
        let mut given_up = token.cancelled().boxed_local();
        let mut result = Box::pin(child.result());
        let mut is_late = false;
        let error = poll_fn(|cx| {
            if let Poll::Ready(result) = result.poll_unpin(cx) {
                return Poll::Ready(result.err().map(|error| error.to_string()));
            }
            if !is_late && (late.poll_unpin(cx).is_ready() || given_up.poll_unpin(cx).is_ready()) {
                is_late = true;
                // Awaits its end, because it closes its terminals.
                result.cancel();
            }
            Poll::Pending
        })
        .await;
        FunctionInput::RunEnded { number, late: is_late, error }
    }
}
