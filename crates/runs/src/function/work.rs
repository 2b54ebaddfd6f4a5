//! Work that a run waits for: its calls and timers.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steplatch_clock::Clock;
use steplatch_nodes::graph::StepOutcome;
use steplatch_nodes::{ErrorType, NodeId, NodeResult};
use steplatch_python_api::Answer;
use steplatch_workflow::{FunctionWorkKind, Timestamp};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::outer_work::{MAX_OUTCOME_BYTES, OuterWork};
use crate::time_span::TimeSpan;

/// The pending work.
pub(super) struct PendingWork {
    clock: Clock,
    /// Work of the outer engine, if one schedules the calls of the run.
    pub(super) outer: Option<OuterWork>,
    tasks: JoinSet<(u64, CallOutcome)>,
    /// Tokens that interrupt calls, by the numbers of the calls.
    interrupts: HashMap<u64, CancellationToken>,
    /// Outcomes that are ready.
    ready: VecDeque<(u64, CallOutcome)>,
}

/// The outcome of a call, or the next event of a frame. Outer engines store it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallOutcome {
    /// The result of a node.
    Node(Box<NodeResult>),
    /// Any other answer to a function.
    Answer(Answer),
    /// The call exceeded its caller's time limit, with this message.
    TimedOut(String),
    /// The frame with this number starts, or is restored at its beginning.
    Begin,
    /// A step of the graph with this number is due for a retry.
    DelayOver(NodeId),
    /// The outcome does not fit in the outer engine.
    TooLarge {
        /// Size of the outcome.
        bytes: usize,
    },
}

impl CallOutcome {
    pub(super) fn node(result: NodeResult) -> Self {
        Self::Node(Box::new(result))
    }

    pub(super) fn refused(message: impl Into<String>) -> Self {
        Self::Answer(Answer::refused(message))
    }

    pub(super) fn value(value: impl Into<Value>) -> Self {
        Self::Answer(Answer::Value(value.into()))
    }

    /// Returns the outcome as a function's answer.
    pub(super) fn into_answer(self) -> Answer {
        match self {
            Self::Node(result) => Answer::Value(serde_json::to_value(result).expect("a result contains only JSON")),
            Self::Answer(answer) => answer,
            Self::TimedOut(message) => Answer::timed_out(message),
            Self::Begin | Self::DelayOver(_) | Self::TooLarge { .. } => Answer::Value(Value::Null),
        }
    }

    /// Returns the outcome as an outer engine stores it.
    pub(super) fn passed(&self) -> Value {
        let json = |outcome: &Self| serde_json::to_value(outcome).expect("an outcome contains only JSON");
        let passed = json(self);
        match passed.to_string().len() {
            bytes if bytes > MAX_OUTCOME_BYTES => json(&Self::TooLarge { bytes }),
            _ => passed,
        }
    }

    /// Returns the outcome as the outcome of a graph's step.
    pub(super) fn into_outcome(self) -> StepOutcome {
        match self {
            Self::Node(result) if result.error_type == Some(ErrorType::Unknown) => StepOutcome::Unknown,
            Self::Node(result) => StepOutcome::Finished { result },
            Self::TimedOut(_) => StepOutcome::TimedOut,
            Self::Answer(_) | Self::Begin | Self::DelayOver(_) | Self::TooLarge { .. } => StepOutcome::Unknown,
        }
    }
}

impl PendingWork {
    pub(super) fn new(clock: Clock) -> Self {
        let (tasks, interrupts, ready) = (JoinSet::new(), HashMap::new(), VecDeque::new());
        Self { clock, outer: None, tasks, interrupts, ready }
    }

    /// Adds an outcome that is ready now.
    pub(super) fn add_ready(&mut self, number: u64, outcome: CallOutcome) {
        self.ready.push_back((number, outcome));
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn next_ready(&mut self) -> Option<(u64, CallOutcome)> {
        self.ready.pop_front()
    }

    /// Returns the next outcome. `None` when there is no pending work. Safe to drop and call again.
    pub(super) async fn next(&mut self) -> Option<(u64, CallOutcome)> {
        loop {
            match self.tasks.join_next().await? {
                Ok(done) => return Some(done),
                // The failed task has logged its error already.
                Err(error) => tracing::error!(%error, "the task of a call panicked or was aborted"),
            }
        }
    }

    /// Starts a task for whose outcome the run waits.
    pub(super) fn spawn(&mut self, number: u64, work: impl Future<Output = CallOutcome> + Send + 'static) {
        self.tasks.spawn(async move { (number, work.await) });
    }

    pub(super) fn interrupt_for(&mut self, number: u64) -> CancellationToken {
        let interrupt = CancellationToken::new();
        self.interrupts.insert(number, interrupt.clone());
        interrupt
    }

    /// Ends the work of a call, if it still runs.
    pub(super) fn interrupt(&mut self, number: u64) {
        if let Some(interrupt) = self.interrupts.remove(&number) {
            interrupt.cancel();
        }
        if let Some(outer) = &mut self.outer {
            outer.remove(number);
        }
    }

    /// Adds an outcome that is ready `wait` after `at`, unless the call ends first.
    pub(super) fn add_later(&mut self, number: u64, at: Timestamp, wait: Option<TimeSpan>, outcome: CallOutcome) {
        if let Some(outer) = &mut self.outer {
            if let Some(after) = remaining_wait(&self.clock, at, wait) {
                outer.add_timer(number, None, after, outcome);
            }
            return;
        }
        let (interrupt, time_passed) = (self.interrupt_for(number), after(&self.clock, at, wait));
        self.spawn(number, async move {
            tokio::select! {
                () = time_passed => {}
                () = interrupt.cancelled() => {}
            }
            outcome
        });
    }

    /// Adds the end of a graph step's retry delay: at `due`, or once `waits` is cancelled.
    pub(super) fn delay(&mut self, number: u64, step: NodeId, due: Timestamp, waits: CancellationToken) {
        if let Some(outer) = &mut self.outer {
            let part = format!("{step}/{}", due.0);
            outer.add_timer(number, Some(part), due.since(self.clock.now()), CallOutcome::DelayOver(step));
            return;
        }
        let delay_passed = self.clock.sleep_until(due);
        self.spawn(number, async move {
            tokio::select! {
                () = delay_passed => {}
                () = waits.cancelled() => {}
            }
            CallOutcome::DelayOver(step)
        });
    }

    /// Registers a call as work of the outer engine, unless the engine already requests it. Returns whether to perform
    /// the call here now.
    pub(super) fn must_perform_here(&mut self, number: u64) -> bool {
        match &mut self.outer {
            Some(outer) if !outer.is_requested(number) => {
                outer.add(number, FunctionWorkKind::Call { number });
                false
            }
            _ => true,
        }
    }

    /// Ends all running work and drops its outcomes. Returns once the work has ended, or after `timeout`.
    pub(super) async fn settle(&mut self, timeout: Duration) {
        for (_, interrupt) in self.interrupts.drain() {
            interrupt.cancel();
        }
        if let Some(outer) = &mut self.outer {
            outer.clear();
        }
        let all_finished = async { while self.tasks.join_next().await.is_some() {} };
        // The end of the run waits for the remaining tasks.
        let _ = tokio::time::timeout(timeout, all_finished).await;
    }

    /// Ends all work and drops all outcomes. Returns once the work has ended.
    pub(super) async fn end(&mut self) {
        self.ready.clear();
        for (_, interrupt) in self.interrupts.drain() {
            interrupt.cancel();
        }
        if let Some(outer) = &mut self.outer {
            outer.clear();
        }
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Returns the remaining time of a wait that began at `at`; `None` if the wait is endless.
pub(super) fn remaining_wait(clock: &Clock, at: Timestamp, wait: Option<TimeSpan>) -> Option<Duration> {
    let timer = wait.and_then(TimeSpan::timer)?;
    let now = clock.now();
    Some(at.end_of(timer, now).since(now))
}

/// Waits until `wait` after `at`; without a time, forever.
pub(super) fn after(clock: &Clock, at: Timestamp, wait: Option<TimeSpan>) -> impl Future<Output = ()> + Send + use<> {
    let timer = wait.and_then(TimeSpan::timer);
    clock.deadline(timer.map(|timer| at.end_of(timer, clock.now())))
}
