//! The history of a run, folded: what is open, and how it ended.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use steplatch_ids::{RunId, StepId};
use steplatch_nodes::NodeId;
use steplatch_nodes::graph::{GraphEvent, StepOutcome};
use steplatch_python_api::{Answer, Call, CallKind};
use steplatch_workflow::{Pause, Timestamp};

use super::cancel::Cancel;
use super::entry::{Asked, Entry};
use super::inline::InlineExecution;
use super::open_calls::OpenCalls;
use crate::run::RunState;

/// The frame that the run itself is.
pub(super) const ROOT: u64 = 0;

/// What has to be remembered of a run to go on with it.
#[derive(Debug, Default)]
pub(super) struct Folded {
    /// The number of the last call.
    pub(super) last: u64,
    /// Calls that have no answer and are still waited for, by their numbers.
    pub(super) open: OpenCalls,
    pub(super) end: Option<End>,
    /// Whether function nodes share the variables of the function that calls them.
    pub(super) one_heap: bool,
    /// The cancel of the run, until it is over.
    pub(super) cancel: Option<Cancel>,
    /// Since when nothing new is begun, and who wants that.
    pub(super) paused: Option<Pause>,
    /// Whether it ever was.
    pub(super) was_paused: bool,
    /// Terminals that nodes had, by node.
    pub(super) terminals: BTreeMap<String, String>,
    clock: Clock,
}

/// A call that is waited for.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) at: Timestamp,
    /// Whose call it is.
    pub(super) frame: u64,
    /// The call of a node within which it is made, where the frame executes that node itself.
    pub(super) within: Option<u64>,
    pub(super) what: What,
    /// How far it is, where the frame executes it itself.
    pub(super) inlined: Option<InlineExecution>,
}

/// What is called.
#[derive(Debug, Clone)]
pub(super) enum What {
    /// What a function asks for.
    Call(Call),
    /// A node, for a step of a graph.
    Step { step: NodeId, attempt: u32, node: NodeId, input: Value },
}

/// How a run ended.
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

/// How long a run has been at work: not counted is when it waited for somebody, or was paused.
#[derive(Debug, Default)]
struct Clock {
    before: Duration,
    /// Since when it runs; not while it stands.
    since: Option<Timestamp>,
}

impl Folded {
    pub(super) fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Started(started) => self.one_heap = started.one_heap,
            Entry::Called { at, number, frame, within, call } => {
                self.last = *number;
                self.apply_inline(*frame, call);
                if call.kind.wants_answer() {
                    let what = What::Call(call.clone());
                    self.open.insert(*number, Open { within: *within, ..Open::new(*at, *frame, what) });
                }
            }
            Entry::Inlined { number, .. } => {
                self.open.set_inlined(*number, InlineExecution::Begun);
            }
            Entry::Answered { number, answer, .. } => {
                self.open.remove(*number);
                if let Answer::Value(result) = answer
                    && let Some(terminal) = result.pointer("/attributes/session_id").and_then(Value::as_str)
                    && let Some(node) = result.get("node_id").and_then(Value::as_str)
                {
                    self.terminals.insert(node.to_owned(), terminal.to_owned());
                }
            }
            Entry::Abandoned { number, .. } => {
                self.open.remove(*number);
            }
            Entry::Graph { at, frame, number: Some(number), event, .. } => match event {
                GraphEvent::AttemptStarted { step, attempt, node, input } => {
                    self.last = *number;
                    let (step, node) = (step.clone(), node.clone());
                    let what = What::Step { step, attempt: *attempt, node, input: input.clone() };
                    self.open.insert(*number, Open::new(*at, *frame, what));
                }
                GraphEvent::AttemptEnded { outcome: StepOutcome::Finished { result }, .. } => {
                    self.open.remove(*number);
                    if let Some(terminal) = result.attributes.get("session_id").and_then(Value::as_str) {
                        self.terminals.insert(result.node_id.clone(), terminal.to_owned());
                    }
                }
                _ => {
                    self.open.remove(*number);
                }
            },
            Entry::Graph { number: None, .. } | Entry::Told { .. } => {}
            Entry::Paused { at, by, above } => {
                self.paused = Some(Pause { since: *at, by: by.clone(), above: *above });
                self.was_paused = true;
            }
            Entry::Resumed { .. } => self.paused = None,
            // It is not held back from its end.
            Entry::Cancelling { reason, .. } => {
                self.paused = None;
                self.cancel = Some(Cancel { reason: reason.clone(), is_told: false });
            }
            Entry::Interrupted { .. } => {
                if let Some(cancel) = &mut self.cancel {
                    cancel.is_told = true;
                }
            }
            Entry::Completed { at, result } => {
                self.end(End { result: Some(result.clone()), ..End::new(*at, RunState::Completed) });
            }
            Entry::Failed { at, error, traceback } => {
                let (error, traceback) = (Some(error.clone()), traceback.clone());
                self.end(End { error, traceback, ..End::new(*at, RunState::Failed) });
            }
            Entry::Cancelled { at, .. } => self.end(End::new(*at, RunState::Cancelled)),
        }
        let stands = self.paused.is_some() || self.state() != RunState::Running;
        self.clock.apply(entry.at(), stands);
    }

    fn end(&mut self, end: End) {
        self.open.clear();
        self.end = Some(end);
    }

    pub(super) fn state(&self) -> RunState {
        match &self.end {
            Some(end) => end.state,
            None if self.open.is_waiting() => RunState::Waiting,
            None => RunState::Running,
        }
    }

    /// Counts the time from `now` on at the latest, so that a clock which was set back holds no limit up.
    pub(super) fn begins_by(&mut self, now: Timestamp) {
        self.clock.since = self.clock.since.map(|since| since.min(now));
    }

    /// Returns when a run has been at work for so many seconds, if it goes on without a pause; `None` while it stands.
    pub(super) fn at_work_for(&self, seconds: f64) -> Option<Timestamp> {
        let limit = Duration::try_from_secs_f64(seconds).ok()?;
        Some(self.clock.since?.after(limit.saturating_sub(self.clock.before)))
    }

    /// Returns the entries that end a run: every gate that still waits is cancelled before.
    pub(super) fn ended_by(&self, run: &RunId, at: Timestamp, end: Entry) -> Vec<Entry> {
        let gates = self.open.waiting().filter(|(number, open)| open.asked(run, *number) == Asked::Gate);
        let cancelled = gates.map(|(number, _)| Entry::Abandoned { at, number, asked: Asked::Gate });
        cancelled.chain([end]).collect()
    }
}

impl Open {
    fn new(at: Timestamp, frame: u64, what: What) -> Self {
        Self { at, frame, within: None, what, inlined: None }
    }

    /// Returns the call as whose answer it is made.
    pub(super) fn parent(&self) -> u64 {
        self.within.unwrap_or(self.frame)
    }

    pub(super) fn waits_for_somebody(&self) -> bool {
        matches!(&self.what, What::Call(call) if waits_for_somebody(&call.kind))
    }

    /// Returns the seconds that a call of a function may take.
    pub(super) fn timeout(&self) -> Option<f64> {
        let What::Call(call) = &self.what else { return None };
        match &call.kind {
            CallKind::Run { timeout, .. }
            | CallKind::Gate { timeout, .. }
            | CallKind::RunWorkflow { timeout, .. }
            | CallKind::RunGraph { timeout, .. } => *timeout,
            _ => None,
        }
    }

    /// Returns what is asked for, in a few words.
    pub(super) fn asked(&self, run: &RunId, number: u64) -> Asked {
        match &self.what {
            What::Step { node, .. } => Asked::Node(node.to_string()),
            What::Call(call) => match &call.kind {
                CallKind::Run { node, .. } => Asked::Node(node.clone()),
                CallKind::RunGraph { graph, .. } => Asked::Node(graph.clone()),
                CallKind::Gate { .. } => Asked::Gate,
                CallKind::RunWorkflow { workflow, .. } => {
                    Asked::Run { workflow: workflow.clone(), run: child_of(run, number) }
                }
                _ => Asked::Other,
            },
        }
    }
}

impl Clock {
    fn apply(&mut self, at: Timestamp, stands: bool) {
        match (self.since, stands) {
            (Some(since), true) => {
                self.before += at.since(since);
                self.since = None;
            }
            (None, false) => self.since = Some(at),
            _ => {}
        }
    }
}

/// Whether anybody has the time to answer this.
pub(super) fn waits_for_somebody(kind: &CallKind) -> bool {
    matches!(kind, CallKind::Gate { timeout, .. } if timeout.is_none_or(|seconds| seconds > 0.0))
}

/// Returns the name of the step that starts a run.
pub(super) fn child_step(run: &RunId, number: u64) -> StepId {
    named(run, "workflow", number)
}

/// Returns the name of the step that calls a node.
pub(super) fn call_step(run: &RunId, number: u64) -> StepId {
    named(run, "node", number)
}

/// Returns the name of a step; one run has fewer calls than that.
pub(super) fn named(run: &RunId, place: &str, number: u64) -> StepId {
    StepId { run: run.clone(), place: place.to_owned(), visit: u32::try_from(number).unwrap_or(u32::MAX) }
}

/// Returns the run that a call starts.
pub(super) fn child_of(run: &RunId, number: u64) -> RunId {
    RunId::started_by(&child_step(run, number))
}
