//! The decisions of a graph.
//!
//! Pure: the time arrives with an input, and this module reads nothing else. The caller appends the events first, then
//! performs the effects, and returns their outcomes as the next inputs.

use std::time::Duration;

use serde_json::Value;
use steplatch_workflow::{Timestamp, substitute};

use super::event::{Ending, GraphEvent, StepOutcome};
use super::progress::{Progress, Status};
use super::{Graph, OnFailure, Step};
use crate::node::{NodeId, Seconds};
use crate::outcome::ErrorType;

/// External event for a graph.
#[derive(Debug, Clone, PartialEq)]
pub enum GraphInput {
    /// The graph starts.
    Start {
        /// The input.
        input: Value,
    },
    /// An attempt finished.
    AttemptEnded {
        /// The step.
        step: NodeId,
        /// The number of the attempt.
        attempt: u32,
        /// The outcome.
        outcome: StepOutcome,
    },
    /// The time of a `Wait` effect has come.
    DelayOver {
        /// The step.
        step: NodeId,
    },
    /// The graph resumes with the decisions that [`hold`] held back.
    Continue,
}

/// Action that the driver of a graph performs.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// A call of a node.
    Run {
        /// The step.
        step: NodeId,
        /// Number of the attempt, starting at 1. Step and attempt name the call on every replay.
        attempt: u32,
        /// The node.
        node: NodeId,
        /// The input.
        input: Value,
        /// The time limit.
        timeout: Option<Duration>,
        /// True if an earlier daemon may already have made this call.
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
    /// Events to append first.
    pub events: Vec<GraphEvent>,
    /// Effects to perform afterwards.
    pub effects: Vec<Effect>,
}

/// Returns the decision that follows from an input, given the progress of a graph.
/// An inapplicable input (a second start, the end of an attempt that has already finished) changes nothing.
#[must_use]
pub fn decide(graph: &Graph, progress: &Progress, input: GraphInput, now: Timestamp) -> Decision {
    decide_input(graph, progress, input, now, true)
}

/// Returns the decision that follows from an input during a pause of the graph. The remaining decisions follow from
/// [`GraphInput::Continue`].
#[must_use]
pub fn hold(graph: &Graph, progress: &Progress, input: GraphInput, now: Timestamp) -> Decision {
    decide_input(graph, progress, input, now, false)
}

fn decide_input(graph: &Graph, progress: &Progress, input: GraphInput, now: Timestamp, may_advance: bool) -> Decision {
    let mut decider = Decider { graph, progress: progress.clone(), decision: Decision::default() };
    if progress.ended.is_some() {
        return decider.decision;
    }
    match input {
        GraphInput::Start { input } if progress.input.is_none() => decider.record_event(GraphEvent::Started { input }),
        GraphInput::AttemptEnded { step, attempt, outcome } if is_running(progress, &step, attempt) => {
            decider.record_event(GraphEvent::AttemptEnded { step: step.clone(), attempt, outcome: outcome.clone() });
            decider.handle_attempt_end(step, attempt, outcome, now);
        }
        GraphInput::DelayOver { step } if matches!(progress.status(&step), Some(Status::Delayed { .. })) => {
            decider.record_event(GraphEvent::RetryDue { step });
        }
        GraphInput::Continue => {}
        GraphInput::Start { .. } | GraphInput::AttemptEnded { .. } | GraphInput::DelayOver { .. } => {
            return decider.decision;
        }
    }
    if may_advance && decider.progress.input.is_some() {
        decider.advance();
    }
    decider.decision
}

/// Returns the effects that a history requests but has no outcome for; a driver that takes over performs them.
#[must_use]
pub fn resume(graph: &Graph, progress: &Progress) -> Vec<Effect> {
    if progress.ended.is_some() {
        return Vec::new();
    }
    let effects =
        graph.steps.iter().zip(&progress.steps).filter_map(|(step, progress_of_step)| match &progress_of_step.status {
            Status::Running { node, input } => Some(Effect::Run {
                step: step.id.clone(),
                attempt: progress_of_step.attempts,
                node: node.clone(),
                input: (**input).clone(),
                timeout: attempt_timeout(step, node),
                again: true,
            }),
            Status::Delayed { due } => Some(Effect::Wait { step: step.id.clone(), until: *due }),
            Status::Waiting | Status::Again | Status::Fallback | Status::Returned | Status::Ended(_) => None,
        });
    effects.collect()
}

fn is_running(progress: &Progress, step: &NodeId, attempt: u32) -> bool {
    let progress_of_step = progress.steps.iter().find(|progress_of_step| progress_of_step.id == *step);
    progress_of_step.is_some_and(|progress_of_step| {
        progress_of_step.attempts == attempt && matches!(progress_of_step.status, Status::Running { .. })
    })
}

/// Returns the time limit of an attempt; only attempts of the step's own node have one.
fn attempt_timeout(step: &Step, node: &NodeId) -> Option<Duration> {
    let retry = step.on_error.retry.as_ref().filter(|_| *node == step.node);
    retry.and_then(|retry| retry.timeout).map(Seconds::duration)
}

struct Decider<'g> {
    graph: &'g Graph,
    /// The progress after the events decided so far.
    progress: Progress,
    decision: Decision,
}

impl Decider<'_> {
    fn record_event(&mut self, event: GraphEvent) {
        self.progress.apply(&event);
        self.decision.events.push(event);
    }

    /// Decides the next action of a step after an attempt.
    fn handle_attempt_end(&mut self, id: NodeId, attempt: u32, outcome: StepOutcome, now: Timestamp) {
        let Some(index) = self.graph.index(&id) else { return };
        let step = &self.graph.steps[index];
        let is_unknown = outcome == StepOutcome::Unknown;
        let Some((error, error_type)) = failure(outcome, attempt_timeout(step, &step.node)) else {
            return self.record_event(GraphEvent::StepEnded { step: id, ending: Ending::Completed });
        };
        let retries = step.on_error.retry.as_ref().map_or(0, |retry| u32::from(retry.count));
        let is_in_fallback = self.progress.steps[index].in_fallback;
        match (&step.on_error.retry, &step.on_error.on_failure) {
            // An attempt that may have happened is not repeated.
            (Some(retry), _) if !is_in_fallback && attempt <= retries && !is_unknown => {
                let due = now.after(retry.delay_after(attempt));
                self.record_event(GraphEvent::RetryPlanned { step: id.clone(), due });
                self.decision.effects.push(Effect::Wait { step: id, until: due });
            }
            (_, OnFailure::Fallback { .. }) if !is_in_fallback => {
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

    /// Starts every step that is ready and ends every step that can never start.
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
            self.begin_attempt(step, index, node.clone());
        }
        let has_ended = |status: &Status| matches!(status, Status::Ended(_));
        if self.progress.steps.iter().all(|step| has_ended(&step.status)) {
            let has_failed =
                |status: &Status| matches!(status, Status::Ended(Ending::Failed { .. } | Ending::NotRun { .. }));
            let success = !self.progress.steps.iter().any(|step| has_failed(&step.status));
            self.record_event(GraphEvent::Ended { success });
        }
    }

    fn readiness(&self, index: usize) -> Readiness {
        let mut readiness = Readiness::Now;
        for &dependency in self.graph.plan.dependencies(index) {
            match &self.progress.steps[dependency].status {
                Status::Ended(Ending::Completed | Ending::Skipped { .. }) => {}
                Status::Ended(Ending::Failed { .. }) => {
                    return Readiness::Never(self.graph.steps[dependency].id.clone());
                }
                // Name the failed step, not an intermediate step that did not run.
                Status::Ended(Ending::NotRun { because }) => return Readiness::Never(because.clone()),
                _ => readiness = Readiness::NotYet,
            }
        }
        readiness
    }

    fn begin_attempt(&mut self, step: &Step, index: usize, node: NodeId) {
        let attempt = self.progress.steps[index].attempts + 1;
        let input = substitute::value(&step.input, &self.progress, true);
        let (id, timeout) = (step.id.clone(), attempt_timeout(step, &node));
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

/// Returns the error of an attempt, if it failed.
fn failure(outcome: StepOutcome, limit: Option<Duration>) -> Option<(String, ErrorType)> {
    match outcome {
        StepOutcome::Finished { result } if result.success => None,
        StepOutcome::Finished { result } => {
            let error = result.error.unwrap_or_else(|| "The node failed without an error message.".to_owned());
            Some((error, result.error_type.unwrap_or(ErrorType::Step)))
        }
        StepOutcome::TimedOut => {
            let limit = limit.map(|limit| format!("its time limit of {} s", limit.as_secs_f64()));
            let error = format!("The call exceeded {}.", limit.unwrap_or_else(|| "its time limit".to_owned()));
            Some((error, ErrorType::Timeout))
        }
        StepOutcome::Unknown => {
            let error = "It is unknown whether the call took place, so it is not repeated.";
            Some((error.to_owned(), ErrorType::Unknown))
        }
    }
}
