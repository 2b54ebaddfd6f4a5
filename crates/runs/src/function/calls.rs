//! The calls of a function, with their numbers, targets and steps.

use serde_json::Value;
use steplatch_ids::{RunId, StepId};
use steplatch_nodes::NodeId;
use steplatch_python_api::{Call, CallKind};
use steplatch_workflow::Timestamp;

use super::entry::CallLabel;
use crate::time_span::TimeSpan;

/// Number of the root frame.
pub(super) const ROOT: u64 = 0;

/// A call that the run waits for.
#[derive(Debug, Clone)]
pub(super) struct PendingCall {
    pub(super) at: Timestamp,
    /// Frame that made the call.
    pub(super) frame: u64,
    /// Enclosing call of a node, if the frame executes that node itself.
    pub(super) within: Option<u64>,
    pub(super) target: CallTarget,
    /// Progress of the execution, if the frame executes the call itself.
    pub(super) inlined: Option<InlineExecution>,
}

/// The target of a call.
#[derive(Debug, Clone)]
pub(super) enum CallTarget {
    /// A request of a function.
    Call(Call),
    /// A node, for a step of a graph.
    Step { step: NodeId, attempt: u32, node: NodeId, input: Value },
}

/// The progress of a call that its caller executes itself.
#[derive(Debug, Clone)]
pub(super) enum InlineExecution {
    /// The execution is in progress.
    Begun,
    /// The execution has finished, and the call has no answer yet.
    Ended(Box<CallKind>),
}

impl PendingCall {
    pub(super) fn new(at: Timestamp, frame: u64, target: CallTarget) -> Self {
        Self { at, frame, within: None, target, inlined: None }
    }

    /// Returns the call (or frame) that needs the answer.
    pub(super) fn parent(&self) -> u64 {
        self.within.unwrap_or(self.frame)
    }

    pub(super) fn waits_for_answer(&self) -> bool {
        matches!(&self.target, CallTarget::Call(call) if waits_for_answer(&call.kind))
    }

    /// Returns the time limit of a call of a function.
    pub(super) fn timeout(&self) -> Option<TimeSpan> {
        let CallTarget::Call(call) = &self.target else { return None };
        let timeout = match &call.kind {
            CallKind::Run { timeout, .. }
            | CallKind::Gate { timeout, .. }
            | CallKind::RunWorkflow { timeout, .. }
            | CallKind::RunGraph { timeout, .. } => *timeout,
            _ => None,
        };
        timeout.map(TimeSpan::from_seconds)
    }

    /// Returns a short description of the request.
    pub(super) fn label(&self, run: &RunId, number: u64) -> CallLabel {
        match &self.target {
            CallTarget::Step { node, .. } => CallLabel::Node(node.to_string()),
            CallTarget::Call(call) => match &call.kind {
                CallKind::Run { node, .. } => CallLabel::Node(node.clone()),
                CallKind::RunGraph { graph, .. } => CallLabel::Node(graph.clone()),
                CallKind::Gate { .. } => CallLabel::Gate,
                CallKind::RunWorkflow { workflow, .. } => {
                    CallLabel::Run { workflow: workflow.clone(), run: child_run_id(run, number) }
                }
                _ => CallLabel::Other,
            },
        }
    }
}

/// Returns whether a call waits for something other than the driver of its run.
pub(super) fn takes_time(kind: &CallKind) -> bool {
    match kind {
        CallKind::Run { .. }
        | CallKind::RunGraph { .. }
        | CallKind::RunWorkflow { .. }
        | CallKind::Gate { .. }
        | CallKind::Sleep { .. } => true,
        CallKind::Now {}
        | CallKind::Random {}
        | CallKind::Emit { .. }
        | CallKind::Log { .. }
        | CallKind::Ended { .. } => false,
    }
}

/// Returns whether a call is a gate that can still be answered in time.
pub(super) fn waits_for_answer(kind: &CallKind) -> bool {
    matches!(kind, CallKind::Gate { timeout, .. } if timeout.is_none_or(|seconds| !TimeSpan::from_seconds(seconds).is_elapsed()))
}

/// Returns the name of the step that starts a run.
pub(super) fn child_step(run: &RunId, number: u64) -> StepId {
    numbered_step(run, "workflow", number)
}

/// Returns the name of the step that calls a node.
pub(super) fn call_step(run: &RunId, number: u64) -> StepId {
    numbered_step(run, "node", number)
}

/// Returns the name of a numbered step. A run has fewer calls than the maximum of `u32`.
pub(super) fn numbered_step(run: &RunId, place: &str, number: u64) -> StepId {
    StepId { run: run.clone(), place: place.to_owned(), visit: u32::try_from(number).unwrap_or(u32::MAX) }
}

/// Returns the id of the run that a call starts.
pub(super) fn child_run_id(run: &RunId, number: u64) -> RunId {
    RunId::started_by(&child_step(run, number))
}
