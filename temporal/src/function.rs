//! A run of a function: the daemon of its host executes it, and this workflow performs its calls and waits.
//!
//! The function itself, its variables and its journal are on the host. The workflow requests a turn from the daemon,
//! and gets the work that the run then waits for: calls become activities, times become timers, nested runs become
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

use crate::run::{CHILD_END_TIMEOUT, Context, SearchAttributes, SteplatchRun};
use crate::tasks::Tasks;
use crate::wire::{DECISION_TIMEOUT, PassedInput, RunInput, TakenInput, TaskInput, TaskOutput, queue_of};

/// Time limit of one attempt of a task. A call has its own limits, and missing heartbeats reveal a lost worker.
const TASK_TIMEOUT: Duration = Duration::from_secs(30 * 86_400);

/// Maximum size of the inputs of a turn as JSON, in bytes: a payload in Temporal has at most 2 MB. A turn always has at
/// least one input, and the daemon returns outcomes of at most 1.9 MB.
const MAX_TURN_BYTES: usize = 1_900_000;

/// Maximum time by which the armed timer may be later than a deadline.
const DEADLINE_TOLERANCE: Duration = Duration::from_millis(500);

/// Result of ended work.
enum WorkResult {
    /// An input for the daemon's next turn.
    Input(FunctionInput),
    /// No input, but the daemon needs another turn.
    Turn,
    Nothing,
}

struct Pending<'a> {
    /// Name of the work; `None` if the function does not wait for it.
    id: Option<String>,
    token: WorkflowCancellationToken,
    /// True for a nested run, whose end the workflow awaits even if the function does not.
    is_run: bool,
    future: LocalBoxFuture<'a, WorkResult>,
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
    /// The actor that has paused the run.
    paused: Rc<RefCell<Option<String>>>,
    /// True if the parent run knows that this run waits.
    reported_waiting: bool,
    search_attributes: SearchAttributes,
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
            search_attributes: SearchAttributes::default(),
        }
    }

    pub(crate) async fn drive(mut self) -> Outcome {
        loop {
            let count = self.count_turn_inputs();
            let FunctionTurn { whole, begun, ended, taken, deadline, shown, gate, waits, paused, over } =
                self.advance(count).await;
            // At the end of the run, the remaining inputs have no effect. Answer them, because their senders wait.
            let answered = if over.is_some() { self.inputs.len() } else { count };
            for (index, (update, _)) in self.inputs.drain(..answered).enumerate() {
                if let Some(update) = update {
                    let taken = taken.get(index).copied().unwrap_or_default();
                    self.ctx.state_mut(|run| run.answer(update, TakenInput { taken, ..TakenInput::default() }));
                }
            }
            if let Some(outcome) = over {
                return self.finish(outcome).await;
            }
            *self.paused.borrow_mut() = paused;
            self.drop_ended_work(whole, &begun, &ended);
            for work in begun {
                if !self.pending.iter().any(|pending| pending.id.as_deref() == Some(&work.id)) {
                    self.begin(work);
                }
            }
            self.arm_deadline(deadline);
            self.search_attributes.update(self.ctx, shown, gate);
            self.notify_parent(waits);
            if self.inputs.is_empty() {
                self.wait_for_input().await;
            }
        }
    }

    /// Returns the number of inputs of the next turn.
    fn count_turn_inputs(&self) -> usize {
        let mut bytes = 0;
        let fits = |(_, input): &&(Option<u64>, FunctionInput)| {
            bytes += serde_json::to_string(input).map_or(0, |text| text.len());
            bytes <= MAX_TURN_BYTES
        };
        self.inputs.iter().take_while(fits).count().max(1).min(self.inputs.len())
    }

    /// Requests a turn with the first inputs from the daemon. Waits for an unreachable host.
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

    /// Cancels work that the function no longer waits for.
    fn drop_ended_work(&mut self, is_complete: bool, begun: &[FunctionWork], ended: &[String]) {
        let is_left = |id: &String| match is_complete {
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
                timer.map(|_| WorkResult::Input(FunctionInput::TimerEnded { id })).boxed_local()
            }
            FunctionWorkKind::Call { number } => {
                let (first, second) = (self.call(number, false), self.call(number, true));
                let (options, second_options) = (self.options(token.clone()), self.options(token.clone()));
                let cancelled = token.clone();
                async move {
                    let mut performed = ctx.execute_activity(Tasks::perform, first, options).await;
                    if performed.is_err() && !cancelled.is_cancelled() {
                        performed = ctx.execute_activity(Tasks::perform, second, second_options).await;
                    }
                    match performed {
                        Ok(TaskOutput { answer: EngineAnswer::Called { outcome }, .. }) => {
                            WorkResult::Input(FunctionInput::Called { number, outcome })
                        }
                        _ => WorkResult::Turn,
                    }
                }
                .boxed_local()
            }
            FunctionWorkKind::Run { number, step, limit } => {
                let (input, options) = (
                    self.task(EngineTask::BeginRun { number }),
                    // A run that has begun at its host starts even if the function no longer waits for it. The
                    // workflow then cancels it.
                    self.options(WorkflowCancellationToken::new()),
                );
                let beginning = ctx.execute_activity(Tasks::perform, input, options);
                let child = Child { number, step, limit, token: token.clone(), paused: self.paused.clone() };
                beginning
                    .then(async move |begun| match begun {
                        Ok(TaskOutput { answer: EngineAnswer::Begun { workflow, events, function }, .. }) => {
                            WorkResult::Input(child.run(ctx, workflow, events, function).await)
                        }
                        Ok(TaskOutput { answer: EngineAnswer::Called { outcome }, .. }) => {
                            WorkResult::Input(FunctionInput::Called { number, outcome })
                        }
                        _ => WorkResult::Turn,
                    })
                    .boxed_local()
            }
        };
        self.pending.push(Pending { id: Some(id), token, is_run, future });
    }

    fn call(&self, number: u64, is_repeated: bool) -> TaskInput {
        self.task(EngineTask::Call { number, repeated: is_repeated })
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

    /// Sets the timer of the deadline. Keeps an earlier timer: the daemon then gets a turn before the deadline.
    fn arm_deadline(&mut self, after: Option<Duration>) {
        let Some(after) = after else { return };
        let now = self.ctx.workflow_time().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        let at = now + after;
        if self.deadline.is_some_and(|armed| armed <= at + DEADLINE_TOLERANCE) {
            return;
        }
        let token = WorkflowCancellationToken::new();
        let timer = self.ctx.timer(TimerOptions::builder(after).cancellation_token(token.clone()).build());
        let future = timer.map(|_| WorkResult::Input(FunctionInput::DeadlinePassed)).boxed_local();
        self.pending.push(Pending { id: None, token, is_run: false, future });
        self.deadline = Some(at);
    }

    /// Waits until the next turn has an input, or the daemon needs a turn. Polls all work in a fixed order.
    async fn wait_for_input(&mut self) {
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
                self.add_input(None, Input::Cancel { reason });
                return;
            }
            while let Some((update, input)) = ctx.state_mut(SteplatchRun::next_arrived) {
                self.add_input(update, input);
            }
            let mut wants_turn = false;
            for (id, end) in ended {
                wants_turn |= self.handle_end(id, end);
            }
            if wants_turn || !self.inputs.is_empty() {
                return;
            }
        }
    }

    fn add_input(&mut self, update: Option<u64>, input: Input) {
        self.inputs.push((update, FunctionInput::Passed { input: Box::new(input) }));
    }

    /// Handles the result of ended work. Returns whether the daemon needs a turn.
    fn handle_end(&mut self, id: Option<String>, end: WorkResult) -> bool {
        match end {
            WorkResult::Input(FunctionInput::DeadlinePassed) => {
                self.deadline = None;
                self.inputs.push((None, FunctionInput::DeadlinePassed));
            }
            // The function no longer waits for this work.
            _ if id.is_none() => {}
            WorkResult::Input(input) => self.inputs.push((None, input)),
            WorkResult::Turn => return true,
            WorkResult::Nothing => {}
        }
        false
    }

    /// Notifies the parent run when this run starts or stops waiting: the parent's clock stops in the meantime.
    fn notify_parent(&mut self, waits: bool) {
        let Some(step) = self.parent.clone().filter(|_| waits != self.reported_waiting) else { return };
        self.reported_waiting = waits;
        let token = WorkflowCancellationToken::new();
        let options = SignalWorkflowOptions::builder().cancellation_token(token.clone()).build();
        let parent_run = self.ctx.external_workflow(step.run.to_string(), None);
        let sending =
            parent_run.signal(SteplatchRun::notify, PassedInput { input: Input::ChildWaits { step, waits } }, options);
        // An ended run needs no notice.
        let future = sending.map(|_| WorkResult::Nothing).boxed_local();
        self.pending.push(Pending { id: None, token, is_run: false, future });
    }

    /// Cancels all pending work and returns the outcome for the parent run.
    async fn finish(mut self, outcome: Outcome) -> Outcome {
        let ctx = self.ctx;
        for pending in &self.pending {
            pending.token.cancel();
        }
        let mut runs: Vec<Pending<'a>> = self.pending.drain(..).filter(|pending| pending.is_run).collect();
        if !runs.is_empty() {
            let token = WorkflowCancellationToken::new();
            let mut timeout =
                Box::pin(ctx.timer(TimerOptions::builder(CHILD_END_TIMEOUT).cancellation_token(token).build()));
            poll_fn(|cx| {
                runs.retain_mut(|run| run.future.poll_unpin(cx).is_pending());
                if runs.is_empty() { Poll::Ready(()) } else { timeout.poll_unpin(cx).map(drop) }
            })
            .await;
            timeout.cancel();
        }
        self.search_attributes.update(ctx, String::new(), false);
        SteplatchRun::answer_remaining(ctx).await;
        outcome
    }
}

/// A nested run, from its start to its end.
struct Child {
    number: u64,
    /// The step of the run.
    step: StepId,
    /// Maximum time to wait for the run.
    limit: Option<Duration>,
    /// Cancels the run when the function no longer waits for it.
    token: WorkflowCancellationToken,
    /// The actor that has paused the parent run.
    paused: Rc<RefCell<Option<String>>>,
}

impl Child {
    async fn run(self, ctx: &Context, workflow: String, events: Vec<Event>, is_function: bool) -> FunctionInput {
        let Self { number, step, limit, token, paused } = self;
        let id = RunId::started_by(&step).to_string();
        let input = ctx.state(|run| RunInput {
            workflow,
            events,
            function: is_function,
            parent: Some(step),
            ..run.input().clone()
        });
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
        let mut timeout = match limit {
            Some(limit) => {
                let options = TimerOptions::builder(limit).cancellation_token(token.clone()).build();
                ctx.timer(options).map(drop).boxed_local()
            }
            None => std::future::pending().boxed_local(),
        };
        let mut abandoned = token.cancelled().boxed_local();
        let mut result = Box::pin(child.result());
        let mut is_late = false;
        let error = poll_fn(|cx| {
            if let Poll::Ready(result) = result.poll_unpin(cx) {
                return Poll::Ready(result.err().map(|error| error.to_string()));
            }
            if !is_late && (timeout.poll_unpin(cx).is_ready() || abandoned.poll_unpin(cx).is_ready()) {
                is_late = true;
                // Await the end of the run, because it closes its terminals.
                result.cancel();
            }
            Poll::Pending
        })
        .await;
        FunctionInput::RunEnded { number, late: is_late, error }
    }
}
