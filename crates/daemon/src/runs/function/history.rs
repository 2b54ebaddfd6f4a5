//! The history of a function, folded: what is open, and how it ended.

use std::collections::BTreeMap;

use serde_json::Value;
use steplatch_python::{Call, CallKind};
use steplatch_workflow::Timestamp;

use super::entry::{Asked, Entry};
use crate::runs::run::RunState;

/// What has to be remembered of a run to go on with it.
#[derive(Debug, Default)]
pub(super) struct Folded {
    /// Calls that have no answer and are still waited for, with when they were made.
    pub(super) open: BTreeMap<u64, (Timestamp, Call)>,
    pub(super) end: Option<End>,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) at: Timestamp,
    pub(super) state: RunState,
    pub(super) result: Option<Value>,
    pub(super) error: Option<String>,
}

impl Folded {
    pub(super) fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Started(_) => {}
            Entry::Called { at, call } => {
                if call.kind.wants_answer() {
                    self.open.insert(call.ordinal, (*at, call.clone()));
                }
            }
            Entry::Answered { ordinal, .. } | Entry::Abandoned { ordinal, .. } => {
                self.open.remove(ordinal);
            }
            Entry::Completed { at, result } => {
                self.end(End { at: *at, state: RunState::Completed, result: Some(result.clone()), error: None });
            }
            Entry::Failed { at, error } => {
                self.end(End { at: *at, state: RunState::Failed, result: None, error: Some(error.clone()) });
            }
            Entry::Cancelled { at, .. } => {
                self.end(End { at: *at, state: RunState::Cancelled, result: None, error: None });
            }
        }
    }

    fn end(&mut self, end: End) {
        self.open.clear();
        self.end = Some(end);
    }

    pub(super) fn state(&self) -> RunState {
        let asks = |(_, call): &(Timestamp, Call)| waits_for_somebody(&call.kind);
        match &self.end {
            Some(end) => end.state,
            None if self.open.values().any(asks) => RunState::Waiting,
            None => RunState::Running,
        }
    }
}

/// Whether anybody has the time to answer this.
pub(super) fn waits_for_somebody(kind: &CallKind) -> bool {
    matches!(kind, CallKind::Gate { timeout, .. } if timeout.is_none_or(|seconds| seconds > 0.0))
}

impl Asked {
    pub(super) fn of(kind: &CallKind) -> Self {
        match kind {
            CallKind::Run { node, .. } => Self::Node(node.clone()),
            CallKind::Gate { .. } => Self::Gate,
            _ => Self::Other,
        }
    }
}
