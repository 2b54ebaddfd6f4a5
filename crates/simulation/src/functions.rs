//! Functions: the stages of one, the worker that executes it, and the history of its run.
//!
//! The types of the conversation with a worker are those of the product. The driver of a function
//! ([`crate::daemon::functions`]) is a model of that in the crate `runs`, as the daemon is one: its decisions are
//! private to that crate, between its journal, its nodes and its sessions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use steplatch_ids::{RunId, StepId};
use steplatch_python_api::{Answer, Call, CallKind, Entry as Step, Failure, FailureKind, Progress, State};
use steplatch_workflow::Timestamp;

use crate::random::Random;

/// The node that a function calls.
const NODE: &str = "note";

/// An event of a function's run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FunctionEvent {
    Started { function: Value, parent: Option<StepId> },
    Called { at: Timestamp, call: Call },
    Answered { at: Timestamp, ordinal: u64, answer: Answer },
    Ended { end: FunctionEnd },
}

/// End of a function's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FunctionEnd {
    Completed,
    Failed,
    Cancelled,
}

/// The state of a function's run, folded from its events.
#[derive(Debug, Clone, Default)]
pub(crate) struct FunctionHistory {
    pub(crate) function: Value,
    pub(crate) parent: Option<StepId>,
    pub(crate) steps: Vec<Step>,
    /// Calls without an answer, by their numbers.
    pub(crate) open: BTreeMap<u64, (Timestamp, CallKind)>,
    pub(crate) end: Option<FunctionEnd>,
}

impl FunctionHistory {
    pub(crate) fn apply(&mut self, event: &FunctionEvent) {
        match event {
            FunctionEvent::Started { function, parent } => {
                (self.function, self.parent) = (function.clone(), parent.clone());
            }
            FunctionEvent::Called { at, call } => {
                if call.kind.wants_answer() {
                    self.open.insert(call.ordinal, (*at, call.kind.clone()));
                }
                self.steps.push(Step::Called(call.clone()));
            }
            FunctionEvent::Answered { ordinal, answer, .. } => {
                self.open.remove(ordinal);
                self.steps.push(Step::Answered { ordinal: *ordinal, answer: answer.clone() });
            }
            FunctionEvent::Ended { end } => self.end = Some(*end),
        }
    }
}

impl<'a> FromIterator<&'a FunctionEvent> for FunctionHistory {
    fn from_iter<T: IntoIterator<Item = &'a FunctionEvent>>(events: T) -> Self {
        let mut history = Self::default();
        events.into_iter().for_each(|event| history.apply(event));
        history
    }
}

/// A request to a worker.
#[derive(Debug, Clone)]
pub(crate) enum WorkerRequest {
    /// Continue an execution with an answer.
    Answer(u64, Answer),
    /// Restore an execution from its history, or begin it.
    Replay { function: Value, steps: Vec<Step> },
}

/// A process that executes functions, and forgets them with its end.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    executions: BTreeMap<RunId, (Value, Vec<Step>)>,
}

impl Worker {
    /// Continues an execution. Returns `None` if the worker has no such execution: an earlier one had it.
    pub(crate) fn take(&mut self, run: &RunId, request: WorkerRequest) -> Option<Progress> {
        match request {
            WorkerRequest::Answer(ordinal, answer) => {
                let (_, steps) = self.executions.get_mut(run)?;
                steps.push(Step::Answered { ordinal, answer });
            }
            WorkerRequest::Replay { function, steps } => drop(self.executions.insert(run.clone(), (function, steps))),
        }
        let (function, steps) = self.executions.get_mut(run)?;
        let mut progress = progress(function, steps);
        let made: BTreeSet<u64> = steps.iter().filter_map(called).map(|call| call.ordinal).collect();
        progress.calls.retain(|call| !made.contains(&call.ordinal));
        steps.extend(progress.calls.iter().cloned().map(Step::Called));
        Some(progress)
    }
}

/// Returns a call that differs from the one that the function makes in a replay.
pub(crate) fn divergence(function: &Value, steps: &[Step]) -> Option<Call> {
    let calls = progress(function, steps).calls;
    steps.iter().filter_map(called).find(|call| !calls.contains(call)).cloned()
}

fn called(step: &Step) -> Option<&Call> {
    match step {
        Step::Called(call) => Some(call),
        Step::Answered { .. } | Step::Inlined { .. } | Step::Cancelled => None,
    }
}

/// Returns the progress of a function with this history, and all calls that it has made.
fn progress(function: &Value, steps: &[Step]) -> Progress {
    let stages: Vec<Vec<CallKind>> =
        serde_json::from_value(function["stages"].clone()).expect("a generated function has calls of the language");
    let answers: BTreeMap<u64, &Answer> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Answered { ordinal, answer } => Some((*ordinal, answer)),
            Step::Called(_) | Step::Inlined { .. } | Step::Cancelled => None,
        })
        .collect();
    let mut calls: Vec<Call> = Vec::new();
    for stage in stages {
        let first = calls.len();
        for (ordinal, kind) in (first as u64 + 1..).zip(stage) {
            calls.push(Call { ordinal, within: None, kind });
        }
        let wanted = || calls[first..].iter().filter(|call| call.kind.wants_answer()).map(|call| call.ordinal);
        let waits: Vec<u64> = wanted().filter(|ordinal| !answers.contains_key(ordinal)).collect();
        let raised = wanted().any(|ordinal| matches!(answers.get(&ordinal), Some(Answer::Raise { .. })));
        if raised {
            let (exception, message) = ("TimeoutError".to_owned(), String::new());
            let failure = Failure { kind: FailureKind::Raised, exception, message, frames: Vec::new() };
            return Progress { calls, abandoned: waits, state: State::Failed(failure) };
        }
        if !waits.is_empty() {
            return Progress { calls, abandoned: Vec::new(), state: State::Waiting(waits) };
        }
    }
    Progress { calls, abandoned: Vec::new(), state: State::Completed(Value::Null) }
}

/// Returns a random function: stages of calls, of which each waits for all of its answers. `machines` are the names of
/// the machines that it may run.
pub(crate) fn function(random: &mut Random, machines: &[String]) -> Value {
    let mut stages = Vec::new();
    for _ in 0..1 + random.below(3) {
        let calls = 1 + random.below(3);
        stages.push((0..calls).map(|_| call(random, machines)).collect::<Vec<_>>());
    }
    json!({ "stages": stages })
}

/// Returns a function with every kind of call.
pub(crate) fn scenario(machine: &str) -> Value {
    let node = json!({"call": "run", "node": NODE, "input": "x", "timeout": null, "kwargs": {}});
    let gate = json!({"call": "gate", "prompt": "Go on?", "timeout": null, "choices": null, "form": null,
        "answered_by": null, "context": null});
    let run = json!({"call": "run_workflow", "workflow": machine, "input": null, "params": {}, "timeout": null});
    let (sleep, now, log) =
        (json!({"call": "sleep", "seconds": 0.2}), json!({"call": "now"}), json!({"call": "log", "text": "x"}));
    json!({"stages": [[node, gate], [log, node, run], [sleep, now], [node]]})
}

fn call(random: &mut Random, machines: &[String]) -> Value {
    let timeout = if random.one_in(8) { json!(1.0) } else { Value::Null };
    match random.below(10) {
        0..=4 => json!({"call": "run", "node": NODE, "input": "x", "timeout": timeout, "kwargs": {}}),
        5 => json!({"call": "gate", "prompt": "Go on?", "timeout": timeout, "choices": null, "form": null,
            "answered_by": null, "context": null}),
        6 => json!({"call": "sleep", "seconds": 0.2}),
        7 => json!({"call": "now"}),
        8 => json!({"call": "log", "text": "x"}),
        _ => {
            let machine = machines.get(usize::from(random.one_in(2)).min(machines.len() - 1));
            json!({"call": "run_workflow", "workflow": machine, "input": null, "params": {}, "timeout": timeout})
        }
    }
}
