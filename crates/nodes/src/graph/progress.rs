//! The progress of a graph, folded from its history.

use std::sync::Arc;

use serde_json::Value;
use steplatch_workflow::Timestamp;
use steplatch_workflow::substitute::Lookup;

use super::event::{Ending, GraphEvent, StepOutcome};
use super::{Graph, plan};
use crate::node::NodeId;
use crate::result::NodeResult;

/// The progress of a graph. Cheap to clone, since clones share outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The graph's input, once the graph has started.
    pub(super) input: Option<Arc<Value>>,
    pub(super) steps: Vec<StepProgress>,
    /// Started steps, oldest first.
    pub(super) started_steps: Vec<NodeId>,
    /// Success of a finished graph.
    pub(super) ended: Option<bool>,
}

/// The progress of a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StepProgress {
    pub(super) id: NodeId,
    pub(super) status: Status,
    /// Number of started attempts.
    pub(super) attempts: u32,
    /// The outcome of the last attempt.
    pub(super) last_outcome: Option<Arc<StepOutcome>>,
    /// True if the fallback takes over.
    pub(super) in_fallback: bool,
}

/// The state of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    /// The step waits for its dependencies, or for a free slot.
    Waiting,
    /// The step waits for a free slot for a retry.
    Again,
    /// The step waits for a free slot for its fallback.
    Fallback,
    /// A call of a node is in progress.
    Running {
        /// The node.
        node: NodeId,
        /// The input.
        input: Arc<Value>,
    },
    /// The step waits for the time of a retry.
    Delayed {
        /// Time of the retry.
        due: Timestamp,
    },
    /// An attempt has finished; the next action is yet to be decided.
    Returned,
    /// The step has finished.
    Ended(Ending),
}

impl Progress {
    /// Returns the progress of a graph that has not started.
    #[must_use]
    pub fn new(graph: &Graph) -> Self {
        let step = |step: &super::Step| StepProgress {
            id: step.id.clone(),
            status: Status::Waiting,
            attempts: 0,
            last_outcome: None,
            in_fallback: false,
        };
        Self { input: None, steps: graph.steps().iter().map(step).collect(), started_steps: Vec::new(), ended: None }
    }

    /// Returns the progress after a history.
    #[must_use]
    pub fn from_history(graph: &Graph, history: &[GraphEvent]) -> Self {
        let mut progress = Self::new(graph);
        for event in history {
            progress.apply(event);
        }
        progress
    }

    /// Applies an event.
    pub fn apply(&mut self, event: &GraphEvent) {
        match event {
            GraphEvent::Started { input } => self.input = Some(Arc::new(input.clone())),
            GraphEvent::AttemptStarted { step, attempt, node, input } => {
                if !self.started_steps.contains(step) {
                    self.started_steps.push(step.clone());
                }
                self.update_step(step, |progress| {
                    progress.attempts = *attempt;
                    progress.status = Status::Running { node: node.clone(), input: Arc::new(input.clone()) };
                });
            }
            GraphEvent::AttemptEnded { step, outcome, .. } => self.update_step(step, |progress| {
                progress.last_outcome = Some(Arc::new(outcome.clone()));
                progress.status = Status::Returned;
            }),
            GraphEvent::RetryPlanned { step, due } => {
                self.update_step(step, |progress| progress.status = Status::Delayed { due: *due });
            }
            GraphEvent::RetryDue { step } => self.update_step(step, |progress| progress.status = Status::Again),
            GraphEvent::FallbackPlanned { step } => self.update_step(step, |progress| {
                progress.status = Status::Fallback;
                progress.in_fallback = true;
            }),
            GraphEvent::StepEnded { step, ending } => {
                self.update_step(step, |progress| progress.status = Status::Ended(ending.clone()));
            }
            GraphEvent::Ended { success } => self.ended = Some(*success),
        }
    }

    fn update_step(&mut self, step: &NodeId, change: impl FnOnce(&mut StepProgress)) {
        if let Some(progress) = self.steps.iter_mut().find(|progress| progress.id == *step) {
            change(progress);
        }
    }

    /// Returns the state of a step.
    #[must_use]
    pub fn status(&self, step: &NodeId) -> Option<&Status> {
        self.steps.iter().find(|progress| progress.id == *step).map(|progress| &progress.status)
    }

    /// Returns whether the graph has started.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.input.is_some()
    }

    /// Returns the success of a finished graph: true if no step failed. `None` while it runs.
    #[must_use]
    pub fn ended(&self) -> Option<bool> {
        self.ended
    }

    /// Returns the number of calls in progress.
    #[must_use]
    pub fn running(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step.status, Status::Running { .. })).count()
    }
}

impl StepProgress {
    pub(super) fn result(&self) -> Option<&NodeResult> {
        match self.last_outcome.as_deref() {
            Some(StepOutcome::Finished { result }) => Some(result),
            Some(StepOutcome::TimedOut | StepOutcome::Unknown) | None => None,
        }
    }

    /// Returns the output that dependent steps receive.
    pub(super) fn output(&self) -> Option<&Value> {
        match &self.status {
            Status::Ended(Ending::Completed) => self.result().map(|result| &result.output),
            Status::Ended(Ending::Skipped { value }) => Some(value),
            _ => None,
        }
    }
}

/// `{input}` is the graph's input, and `{step_id}` the output of a finished step.
impl Lookup for Progress {
    fn get(&self, name: &str) -> Option<&Value> {
        if name == plan::INPUT {
            return self.input.as_deref();
        }
        self.steps.iter().find(|step| step.id.as_str() == name)?.output()
    }
}
