//! The decisions of a graph.
//!
//! Pure: the time arrives with an input, and this module reads nothing else. The caller appends the events first, then
//! performs the effects, and brings their outcomes back as the next inputs.

use std::time::Duration;

use serde_json::Value;
use steplatch_workflow::{Timestamp, substitute};

use super::event::{Ending, GraphEvent, StepOutcome};
use super::progress::{Progress, Status};
use super::{Graph, OnFailure, Step};
use crate::node::{NodeId, Seconds};
use crate::outcome::ErrorType;

/// Something that happened to a graph from outside.
#[derive(Debug, Clone, PartialEq)]
pub enum GraphInput {
    /// The graph starts.
    Start {
        /// Its input.
        input: Value,
    },
    /// An attempt ended.
    AttemptEnded {
        /// The step.
        step: NodeId,
        /// The number of the attempt.
        attempt: u32,
        /// Its outcome.
        outcome: StepOutcome,
    },
    /// The time of an effect `Wait` has come.
    DelayOver {
        /// The step.
        step: NodeId,
    },
    /// The graph continues: the caller may perform the decisions held back by [`hold`].
    Continue,
}

/// A request that the driver of a graph performs.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// A call of a node.
    Run {
        /// The step.
        step: NodeId,
        /// The number of the attempt, counted from 1. Step and attempt name the call on every replay.
        attempt: u32,
        /// The node.
        node: NodeId,
        /// Its input.
        input: Value,
        /// Its time limit.
        timeout: Option<Duration>,
        /// True if an earlier daemon may have called it already.
        again: bool,
    },
    /// A wake-up at a point in time.
    Wait {
        /// The step.
        step: NodeId,
        /// Time of the wake-up.
        until: Timestamp,
    },
}

/// The result of a decision.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decision {
    /// Events that happened, to append first.
    pub events: Vec<GraphEvent>,
    /// Effects to perform afterwards.
    pub effects: Vec<Effect>,
}

/// Returns the decision that follows from an input, given the progress of a graph.
///
/// An input that does not fit (a second start, the end of an attempt that has ended) changes nothing.
#[must_use]
pub fn decide(graph: &Graph, progress: &Progress, input: GraphInput, now: Timestamp) -> Decision {
    decided(graph, progress, input, now, true)
}

/// Returns the decision that follows from an input during a pause of the graph. The rest follows from
/// [`GraphInput::Continue`].
#[must_use]
pub fn hold(graph: &Graph, progress: &Progress, input: GraphInput, now: Timestamp) -> Decision {
    decided(graph, progress, input, now, false)
}

fn decided(graph: &Graph, progress: &Progress, input: GraphInput, now: Timestamp, begins: bool) -> Decision {
    let mut deciding = Deciding { graph, progress: progress.clone(), decision: Decision::default() };
    if progress.ended.is_some() {
        return deciding.decision;
    }
    match input {
        GraphInput::Start { input } if progress.input.is_none() => deciding.record_event(GraphEvent::Started { input }),
        GraphInput::AttemptEnded { step, attempt, outcome } if runs(progress, &step, attempt) => {
            deciding.record_event(GraphEvent::AttemptEnded { step: step.clone(), attempt, outcome: outcome.clone() });
            deciding.follow(step, attempt, outcome, now);
        }
        GraphInput::DelayOver { step } if matches!(progress.status(&step), Some(Status::Delayed { .. })) => {
            deciding.record_event(GraphEvent::RetryDue { step });
        }
        GraphInput::Continue => {}
        GraphInput::Start { .. } | GraphInput::AttemptEnded { .. } | GraphInput::DelayOver { .. } => {
            return deciding.decision;
        }
    }
    if begins && deciding.progress.input.is_some() {
        deciding.advance();
    }
    deciding.decision
}

/// Returns the effects that a history requests and has no outcome of, for a driver that takes over.
#[must_use]
pub fn resume(graph: &Graph, progress: &Progress) -> Vec<Effect> {
    if progress.ended.is_some() {
        return Vec::new();
    }
    let asked = graph.steps.iter().zip(&progress.steps).filter_map(|(step, at)| match &at.status {
        Status::Running { node, input } => Some(Effect::Run {
            step: step.id.clone(),
            attempt: at.attempts,
            node: node.clone(),
            input: (**input).clone(),
            timeout: limit(step, node),
            again: true,
        }),
        Status::Delayed { due } => Some(Effect::Wait { step: step.id.clone(), until: *due }),
        Status::Waiting | Status::Again | Status::Fallback | Status::Returned | Status::Ended(_) => None,
    });
    asked.collect()
}

fn runs(progress: &Progress, step: &NodeId, attempt: u32) -> bool {
    let at = progress.steps.iter().find(|at| at.id == *step);
    at.is_some_and(|at| at.attempts == attempt && matches!(at.status, Status::Running { .. }))
}

/// Each attempt of the step's own node has its own limit.
fn limit(step: &Step, node: &NodeId) -> Option<Duration> {
    let own = step.on_error.retry.as_ref().filter(|_| *node == step.node);
    own.and_then(|retry| retry.timeout).map(Seconds::duration)
}

struct Deciding<'g> {
    graph: &'g Graph,
    /// Including the events decided so far.
    progress: Progress,
    decision: Decision,
}

impl Deciding<'_> {
    fn record_event(&mut self, event: GraphEvent) {
        self.progress.apply(&event);
        self.decision.events.push(event);
    }

    /// Decides the next action for a step whose attempt has ended.
    fn follow(&mut self, id: NodeId, attempt: u32, outcome: StepOutcome, now: Timestamp) {
        let Some(index) = self.graph.index(&id) else { return };
        let step = &self.graph.steps[index];
        let is_unknown = outcome == StepOutcome::Unknown;
        let Some((error, error_type)) = failure(outcome, limit(step, &step.node)) else {
            return self.record_event(GraphEvent::StepEnded { step: id, ending: Ending::Completed });
        };
        let retries = step.on_error.retry.as_ref().map_or(0, |retry| u32::from(retry.count));
        let was_fallback = self.progress.steps[index].in_fallback;
        match (&step.on_error.retry, &step.on_error.otherwise) {
            // Does not repeat an attempt that may have happened.
            (Some(retry), _) if !was_fallback && attempt <= retries && !is_unknown => {
                let due = now.after(retry.delay_after(attempt));
                self.record_event(GraphEvent::RetryPlanned { step: id.clone(), due });
                self.decision.effects.push(Effect::Wait { step: id, until: due });
            }
            (_, OnFailure::Fallback { .. }) if !was_fallback => {
                self.record_event(GraphEvent::FallbackPlanned { step: id });
            }
            (_, OnFailure::Skip { value }) => {
                self.record_event(GraphEvent::StepEnded { step: id, ending: Ending::Skipped { value: value.clone() } });
            }
            (_, OnFailure::Fail | OnFailure::Fallback { .. }) => {
                self.record_event(GraphEvent::StepEnded { step: id, ending: Ending::Failed { error, error_type } });
            }
        }
    }

    /// Begins every step that can begin, and ends every step that cannot.
    fn advance(&mut self) {
        for &index in self.graph.plan.order() {
            let step = &self.graph.steps[index];
            let node = match self.progress.steps[index].status {
                Status::Waiting => match self.readiness(index) {
                    Readiness::NotYet => continue,
                    Readiness::Never(because) => {
                        let ending = Ending::NotRun { because };
                        self.record_event(GraphEvent::StepEnded { step: step.id.clone(), ending });
                        continue;
                    }
                    Readiness::Now => &step.node,
                },
                Status::Again => &step.node,
                Status::Fallback => step.on_error.fallback().unwrap_or(&step.node),
                Status::Running { .. } | Status::Delayed { .. } | Status::Returned | Status::Ended(_) => continue,
            };
            if self.graph.max_parallel.is_some_and(|max| self.progress.running() >= usize::from(max.get())) {
                continue;
            }
            self.begin(step, index, node.clone());
        }
        let over = |status: &Status| matches!(status, Status::Ended(_));
        if self.progress.steps.iter().all(|step| over(&step.status)) {
            let failed =
                |status: &Status| matches!(status, Status::Ended(Ending::Failed { .. } | Ending::NotRun { .. }));
            let success = !self.progress.steps.iter().any(|step| failed(&step.status));
            self.record_event(GraphEvent::Ended { success });
        }
    }

    fn readiness(&self, index: usize) -> Readiness {
        let mut ready = Readiness::Now;
        for &dependency in self.graph.plan.before(index) {
            match &self.progress.steps[dependency].status {
                Status::Ended(Ending::Completed | Ending::Skipped { .. }) => {}
                Status::Ended(Ending::Failed { .. }) => {
                    return Readiness::Never(self.graph.steps[dependency].id.clone());
                }
                // The step that failed, rather than one in between that did not run.
                Status::Ended(Ending::NotRun { because }) => return Readiness::Never(because.clone()),
                _ => ready = Readiness::NotYet,
            }
        }
        ready
    }

    fn begin(&mut self, step: &Step, index: usize, node: NodeId) {
        let attempt = self.progress.steps[index].attempts + 1;
        let input = substitute::value(&step.input, &self.progress, true);
        let (id, timeout) = (step.id.clone(), limit(step, &node));
        self.record_event(GraphEvent::AttemptStarted {
            step: id.clone(),
            attempt,
            node: node.clone(),
            input: input.clone(),
        });
        self.decision.effects.push(Effect::Run { step: id, attempt, node, input, timeout, again: false });
    }
}

enum Readiness {
    Now,
    NotYet,
    Never(NodeId),
}

/// Returns the reason that an attempt failed, if it did.
fn failure(outcome: StepOutcome, limit: Option<Duration>) -> Option<(String, ErrorType)> {
    match outcome {
        StepOutcome::Finished { result } if result.success => None,
        StepOutcome::Finished { result } => {
            let error = result.error.unwrap_or_else(|| "The node failed and did not say why.".to_owned());
            Some((error, result.error_type.unwrap_or(ErrorType::Step)))
        }
        StepOutcome::TimedOut => {
            let limit = limit.map(|limit| format!("{} s, which is its limit", limit.as_secs_f64()));
            let error = format!("It took longer than {}.", limit.unwrap_or_else(|| "it may".to_owned()));
            Some((error, ErrorType::Timeout))
        }
        StepOutcome::Unknown => {
            let error = "Whether the node was called is not known, and it is not called again for that.";
            Some((error.to_owned(), ErrorType::Unknown))
        }
    }
}
