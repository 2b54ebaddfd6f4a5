//! What a run waits for: everything that it had begun, and times that are to come.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde_json::Value;
use steplatch_clock as clock;
use steplatch_nodes::graph::StepOutcome;
use steplatch_nodes::{ErrorType, NodeId, NodeResult};
use steplatch_python_api::Answer;
use steplatch_workflow::Timestamp;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The longest time that anybody waits for anything: what is longer has no end.
const LONGEST: f64 = 1e9;

/// What is being waited for.
#[derive(Default)]
pub(super) struct PendingWork {
    tasks: JoinSet<(u64, CallOutcome)>,
    /// Ends a call, by its number.
    interrupts: HashMap<u64, CancellationToken>,
    /// What needs no waiting.
    ready: VecDeque<(u64, CallOutcome)>,
}

/// What came of a call, or what goes on in a frame.
#[derive(Debug)]
pub(crate) enum CallOutcome {
    /// The result of a node.
    Node(Box<NodeResult>),
    /// Anything else that a function is answered.
    Answer(Answer),
    /// It took longer than whoever asked waits, in these words.
    TimedOut(String),
    /// The frame of this number begins, or is found at its beginning.
    Begin,
    /// A step of the graph of this number is to be tried again.
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

    /// What a function is told of it.
    pub(super) fn into_answer(self) -> Answer {
        match self {
            Self::Node(result) => Answer::Value(serde_json::to_value(result).expect("a result has only JSON in it")),
            Self::Answer(answer) => answer,
            Self::TimedOut(message) => Answer::timed_out(message),
            Self::Begin | Self::DelayOver(_) => Answer::Value(Value::Null),
        }
    }

    /// What a step of a graph is told of it.
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
    /// Has something come at once.
    pub(super) fn came(&mut self, number: u64, came: CallOutcome) {
        self.ready.push_back((number, came));
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn next_ready(&mut self) -> Option<(u64, CallOutcome)> {
        self.ready.pop_front()
    }

    /// Returns what comes next. `None` when nothing is waited for. Safe to drop and call again.
    pub(super) async fn next(&mut self) -> Option<(u64, CallOutcome)> {
        loop {
            match self.tasks.join_next().await? {
                Ok(done) => return Some(done),
                // One that broke off has said why, and nobody can be told more.
                Err(error) => tracing::error!(%error, "what a call started broke off"),
            }
        }
    }

    /// Waits for something.
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

    /// Has something come a time after `at`, unless the call is over before.
    pub(super) fn later(&mut self, number: u64, at: Timestamp, seconds: Option<f64>, came: CallOutcome) {
        let interrupt = self.interrupt_for(number);
        self.spawn(number, async move {
            tokio::select! {
                () = after(at, seconds) => {}
                () = interrupt.cancelled() => {}
            }
            came
        });
    }

    /// Ends everything that runs, and returns when it has ended or that takes longer. What comes of it is not told.
    pub(super) async fn settle(&mut self, longest: Duration) {
        for (_, interrupt) in self.interrupts.drain() {
            interrupt.cancel();
        }
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        // The others are waited for at the end of the run.
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

/// Waits until so many seconds after `at`; without any, for ever.
pub(super) async fn after(at: Timestamp, seconds: Option<f64>) {
    match seconds.filter(|seconds| *seconds < LONGEST) {
        Some(seconds) => until(at.end_of(Duration::from_secs_f64(seconds.max(0.0)), clock::now())).await,
        None => std::future::pending().await,
    }
}

/// Waits for a point in time.
pub(crate) async fn until(at: Timestamp) {
    tokio::time::sleep(at.since(clock::now())).await;
}

/// The same, or for ever without one.
pub(crate) async fn due(at: Option<Timestamp>) {
    match at {
        Some(at) => until(at).await,
        None => std::future::pending().await,
    }
}
