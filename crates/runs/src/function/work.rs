//! What a run waits for: the work that it has started, and timers.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde_json::Value;
use steplatch_clock::Clock;
use steplatch_nodes::graph::StepOutcome;
use steplatch_nodes::{ErrorType, NodeId, NodeResult};
use steplatch_python_api::Answer;
use steplatch_workflow::Timestamp;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::time_span::TimeSpan;

/// The pending work.
pub(super) struct PendingWork {
    clock: Clock,
    tasks: JoinSet<(u64, CallOutcome)>,
    /// Ends a call, by its number.
    interrupts: HashMap<u64, CancellationToken>,
    /// Outcomes that are ready.
    ready: VecDeque<(u64, CallOutcome)>,
}

/// The outcome of a call, or the event with which a frame continues.
#[derive(Debug)]
pub(crate) enum CallOutcome {
    /// The result of a node.
    Node(Box<NodeResult>),
    /// Any other answer to a function.
    Answer(Answer),
    /// The call exceeded its caller's time limit, with this message.
    TimedOut(String),
    /// The frame with this number starts, or is restored at its beginning.
    Begin,
    /// A step of the graph with this number is to be retried.
    DelayOver(NodeId),
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
            Self::Node(result) => Answer::Value(serde_json::to_value(result).expect("a result has only JSON in it")),
            Self::Answer(answer) => answer,
            Self::TimedOut(message) => Answer::timed_out(message),
            Self::Begin | Self::DelayOver(_) => Answer::Value(Value::Null),
        }
    }

    /// Returns the outcome as that of a graph's step.
    pub(super) fn into_outcome(self) -> StepOutcome {
        match self {
            Self::Node(result) if result.error_type == Some(ErrorType::Unknown) => StepOutcome::Unknown,
            Self::Node(result) => StepOutcome::Finished { result },
            Self::TimedOut(_) => StepOutcome::TimedOut,
            Self::Answer(_) | Self::Begin | Self::DelayOver(_) => StepOutcome::Unknown,
        }
    }
}

impl PendingWork {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, tasks: JoinSet::new(), interrupts: HashMap::new(), ready: VecDeque::new() }
    }

    /// Adds an outcome that is ready now.
    pub(super) fn add_ready(&mut self, number: u64, came: CallOutcome) {
        self.ready.push_back((number, came));
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
                // The task that failed has logged its error already.
                Err(error) => tracing::error!(%error, "the task of a call panicked or was aborted"),
            }
        }
    }

    /// Starts a task whose outcome is waited for.
    pub(super) fn spawn(&mut self, number: u64, work: impl Future<Output = CallOutcome> + Send + 'static) {
        self.tasks.spawn(async move { (number, work.await) });
    }

    pub(super) fn interrupt_for(&mut self, number: u64) -> CancellationToken {
        let interrupt = CancellationToken::new();
        self.interrupts.insert(number, interrupt.clone());
        interrupt
    }

    /// Ends what a call started, if it still runs.
    pub(super) fn interrupt(&mut self, number: u64) {
        if let Some(interrupt) = self.interrupts.remove(&number) {
            interrupt.cancel();
        }
    }

    /// Adds an outcome that is ready so long after `at`, unless the call ends first.
    pub(super) fn later(&mut self, number: u64, at: Timestamp, wait: Option<TimeSpan>, came: CallOutcome) {
        let (interrupt, over) = (self.interrupt_for(number), after(&self.clock, at, wait));
        self.spawn(number, async move {
            tokio::select! {
                () = over => {}
                () = interrupt.cancelled() => {}
            }
            came
        });
    }

    /// Ends all running work, and returns when it has ended or after `longest`. Its outcomes are dropped.
    pub(super) async fn settle(&mut self, longest: Duration) {
        for (_, interrupt) in self.interrupts.drain() {
            interrupt.cancel();
        }
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        // The remaining tasks are waited for at the end of the run.
        let _ = tokio::time::timeout(longest, ended).await;
    }

    /// Ends everything, and returns when it has ended.
    pub(super) async fn end(&mut self) {
        self.ready.clear();
        for (_, interrupt) in self.interrupts.drain() {
            interrupt.cancel();
        }
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Waits until so long after `at`; without a time, forever.
pub(super) fn after(clock: &Clock, at: Timestamp, wait: Option<TimeSpan>) -> impl Future<Output = ()> + Send + use<> {
    let timer = wait.and_then(TimeSpan::timer);
    clock.deadline(timer.map(|timer| at.end_of(timer, clock.now())))
}
