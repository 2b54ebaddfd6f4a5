//! The state of a run, folded from its history: its open calls and its end.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use steplatch_ids::RunId;
use steplatch_nodes::graph::{GraphEvent, StepOutcome};
use steplatch_python_api::{Answer, CallKind};
use steplatch_workflow::{Pause, Timestamp};

use super::calls::{CallTarget, InlineExecution, PendingCall, takes_time};
use super::entry::{CallLabel, Entry};
use super::open_calls::OpenCalls;
use crate::engine::WorkClock;
use crate::run::RunState;
use crate::time_span::TimeSpan;

/// A cancel, in the history of a run that has not finished.
#[derive(Debug, Clone)]
pub(super) struct Cancel {
    /// Reason for the cancel.
    pub(super) reason: String,
    /// True if the driver raised the exception in the function.
    pub(super) is_raised: bool,
}

/// State of a run, the starting point of its driver.
#[derive(Debug, Default)]
pub(super) struct FunctionState {
    /// The number of the last call.
    pub(super) last: u64,
    /// Number of calls that waited for work outside the driver.
    pub(super) external_calls: u64,
    /// Calls that have no answer and are still needed, by their numbers.
    pub(super) open: OpenCalls,
    pub(super) end: Option<End>,
    /// True if function nodes share the variables of the function that calls them.
    pub(super) one_heap: bool,
    /// The cancellation in progress, if there is one.
    pub(super) cancel: Option<Cancel>,
    /// Time and client of the current pause.
    pub(super) paused: Option<Pause>,
    /// True if the run was ever paused.
    pub(super) was_paused: bool,
    /// Terminals of nodes, by node id; `None` for an unknown terminal that a call without a result may have opened.
    pub(super) terminals: BTreeMap<String, Option<String>>,
    /// Calls of workflows, whose runs leave their terminals to this run.
    pub(super) workflows: Vec<u64>,
    /// Calls whose child runs or their descendants wait for a person.
    pub(super) waiting_children: BTreeSet<u64>,
    clock: WorkClock,
}

/// End of a run.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) at: Timestamp,
    pub(super) state: RunState,
    pub(super) result: Option<Value>,
    pub(super) error: Option<String>,
    pub(super) traceback: Option<String>,
}

impl End {
    fn new(at: Timestamp, state: RunState) -> Self {
        Self { at, state, result: None, error: None, traceback: None }
    }
}

impl FunctionState {
    pub(super) fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Started(started) => self.one_heap = started.one_heap,
            Entry::Called { at, number, frame, within, call } => {
                self.last = *number;
                self.external_calls += u64::from(takes_time(&call.kind));
                self.apply_inline(*frame, call);
                if let CallKind::Run { node, .. } = &call.kind {
                    // The call may open a terminal before the daemon ends.
                    self.record_terminal(node, None);
                }
                if matches!(call.kind, CallKind::RunWorkflow { .. }) {
                    self.workflows.push(*number);
                }
                if call.kind.wants_answer() {
                    let target = CallTarget::Call(call.clone());
                    self.open.insert(*number, PendingCall { within: *within, ..PendingCall::new(*at, *frame, target) });
                }
            }
            Entry::Inlined { number, .. } => {
                self.open.set_inlined(*number, InlineExecution::Begun);
            }
            Entry::ChildWaits { number, .. } => {
                self.waiting_children.insert(*number);
            }
            Entry::ChildContinues { number, .. } => {
                self.waiting_children.remove(number);
            }
            Entry::Answered { number, answer, .. } => {
                self.open.remove(*number);
                self.waiting_children.remove(number);
                if let Answer::Value(result) = answer
                    && let Some(node) = result.get("node_id").and_then(Value::as_str)
                {
                    self.record_terminal(node, result.pointer("/attributes/session_id"));
                }
            }
            Entry::Abandoned { number, .. } => {
                self.open.remove(*number);
                self.waiting_children.remove(number);
            }
            Entry::Graph { at, frame, number: Some(number), event, .. } => match event {
                GraphEvent::AttemptStarted { step, attempt, node, input } => {
                    self.last = *number;
                    self.external_calls += 1;
                    // The call may open a terminal before the daemon ends.
                    self.record_terminal(node.as_str(), None);
                    let (step, node) = (step.clone(), node.clone());
                    let target = CallTarget::Step { step, attempt: *attempt, node, input: input.clone() };
                    self.open.insert(*number, PendingCall::new(*at, *frame, target));
                }
                GraphEvent::AttemptEnded { outcome: StepOutcome::Finished { result }, .. } => {
                    self.open.remove(*number);
                    self.record_terminal(&result.node_id, result.attributes.get("session_id"));
                }
                _ => {
                    self.open.remove(*number);
                }
            },
            Entry::Graph { number: None, .. } | Entry::AnswerDelivered { .. } => {}
            Entry::Paused { at, by, above } => {
                self.paused = Some(Pause { since: *at, by: by.clone(), above: *above });
                self.was_paused = true;
            }
            Entry::Resumed { .. } => self.paused = None,
            // A cancel also ends a pause.
            Entry::Cancelling { reason, .. } => {
                self.paused = None;
                self.cancel = Some(Cancel { reason: reason.clone(), is_raised: false });
            }
            Entry::Interrupted { .. } => {
                if let Some(cancel) = &mut self.cancel {
                    cancel.is_raised = true;
                }
            }
            Entry::Completed { at, result } => {
                self.end(End { result: Some(result.clone()), ..End::new(*at, RunState::Completed) });
            }
            Entry::Failed { at, error, traceback, result } => {
                let (error, traceback, result) = (Some(error.clone()), traceback.clone(), result.clone());
                self.end(End { error, traceback, result, ..End::new(*at, RunState::Failed) });
            }
            Entry::Cancelled { at, .. } => self.end(End::new(*at, RunState::Cancelled)),
        }
        let is_at_work = self.paused.is_none() && self.state() == RunState::Running;
        self.clock.apply(entry.time(), is_at_work);
    }

    /// Records the terminal of a node's program. A failed call may have opened a terminal, or used the known terminal.
    fn record_terminal(&mut self, node: &str, terminal: Option<&Value>) {
        let terminal_entry = self.terminals.entry(node.to_owned()).or_default();
        if let Some(terminal) = terminal.and_then(Value::as_str) {
            *terminal_entry = Some(terminal.to_owned());
        }
    }

    fn end(&mut self, end: End) {
        self.open.clear();
        self.waiting_children.clear();
        self.end = Some(end);
    }

    pub(super) fn state(&self) -> RunState {
        match &self.end {
            Some(end) => end.state,
            None if self.open.is_waiting() || !self.waiting_children.is_empty() => RunState::Waiting,
            None => RunState::Running,
        }
    }

    /// Moves a start of work after `now` to `now`, so that a clock that was set back does not extend the limit.
    pub(super) fn limit_start_to(&mut self, now: Timestamp) {
        self.clock.begin_by(now);
    }

    /// Returns the end of the working time `limit`, if no pause follows; `None` while its clock does not run.
    pub(super) fn work_deadline(&self, limit: TimeSpan) -> Option<Timestamp> {
        self.clock.deadline(limit.duration()?)
    }

    /// Returns the entries that end a run: cancellations of the open gates, then `end`.
    pub(super) fn ended_by(&self, run: &RunId, at: Timestamp, end: Entry) -> Vec<Entry> {
        let gates = self.open.waiting().filter(|(number, open)| open.label(run, *number) == CallLabel::Gate);
        let cancelled = gates.map(|(number, _)| Entry::Abandoned { at, number, label: CallLabel::Gate });
        cancelled.chain([end]).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};
    use steplatch_python_api::Limits;

    use super::super::entry::Started;
    use steplatch_python_api::Call;

    use super::*;
    use crate::function::calls::ROOT;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * 1_000_000)
    }

    fn started() -> Entry {
        Entry::Started(Box::new(Started {
            at: at(0),
            run: RunId::random(),
            workflow: "outer".to_owned(),
            is_call: false,
            file: "outer.py".to_owned(),
            text: String::new(),
            input: Value::Null,
            params: Map::new(),
            limits: Limits::default(),
            nodes: Vec::new(),
            depth: 0,
            timeout: None,
            one_heap: true,
        }))
    }

    #[test]
    fn waiting_time_of_a_nested_run_is_not_working_time() {
        let call = json!({"ordinal": 1, "call": "run_workflow", "workflow": "inner", "input": null, "params": {}, "timeout": null});
        let call: Call = serde_json::from_value(call).unwrap();
        let called = |number| Entry::Called { at: at(1), number, frame: ROOT, within: None, call: call.clone() };
        let mut run = FunctionState::default();
        for entry in [started(), called(1), called(2), Entry::ChildWaits { at: at(10), number: 1 }] {
            run.apply(&entry);
        }
        assert_eq!((run.work_deadline(TimeSpan::from_seconds(60.0)), run.state()), (None, RunState::Waiting));
        run.apply(&Entry::ChildWaits { at: at(20), number: 2 });
        run.apply(&Entry::ChildContinues { at: at(30), number: 1 });
        assert_eq!(run.work_deadline(TimeSpan::from_seconds(60.0)), None, "the clock stops while the other call waits");
        let answer = Answer::Value(Value::Null);
        let label = run.open.get(2).unwrap().label(&RunId::random(), 2);
        run.apply(&Entry::Answered { at: at(100), number: 2, label, answer, by: None, timeout: None });
        assert_eq!((run.work_deadline(TimeSpan::from_seconds(60.0)), run.state()), (Some(at(150)), RunState::Running));
    }
}
