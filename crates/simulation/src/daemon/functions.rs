//! Runs of functions: the calls of each are recorded, and then performed.

use std::collections::VecDeque;

use serde_json::{Value, json};
use steplatch_ids::{RunId, StepId};
use steplatch_ledger::{Effect as Kind, EffectKey};
use steplatch_python_api::{Answer, Call, CallKind, Entry as Step, Progress, State};
use steplatch_workflow::{Input, Outcome};

use super::{Daemon, TimerEnd, finished};
use crate::functions::{FunctionEnd, FunctionEvent, FunctionHistory, WorkerRequest, divergence};
use crate::world::{Entry, Happening, Mutation, Recorded, World};

/// Place of the steps of a function's nodes.
const NODE: &str = "node";

/// Place of the steps that start runs.
const WORKFLOW: &str = "workflow";

/// The driver of one function.
pub(super) struct FunctionDriver {
    pub(super) history: FunctionHistory,
    answers: VecDeque<(u64, Answer)>,
    turn: Turn,
    is_cancelled: bool,
}

/// Present work of a driver.
#[derive(Debug, Clone, PartialEq)]
enum Turn {
    Idle,
    /// The worker continues the function, with this answer or from its beginning.
    Executing(Option<(u64, Answer)>),
    /// The journal writes the events.
    Recording,
}

impl FunctionDriver {
    fn new(history: FunctionHistory) -> Self {
        Self { history, answers: VecDeque::new(), turn: Turn::Idle, is_cancelled: false }
    }
}

fn step_of(run: &RunId, place: &str, ordinal: u64) -> StepId {
    StepId { run: run.clone(), place: place.to_owned(), visit: u32::try_from(ordinal).unwrap_or(u32::MAX) }
}

impl Daemon {
    pub(super) fn begin_function(&mut self, world: &mut World, run: RunId, function: &Value, parent: Option<StepId>) {
        self.functions.insert(run.clone(), FunctionDriver::new(FunctionHistory::default()));
        self.record_function(world, &run, vec![FunctionEvent::Started { function: function.clone(), parent }], None);
    }

    /// Takes over a function that an earlier daemon left.
    pub(super) fn adopt_function(&mut self, run: RunId, history: FunctionHistory) {
        self.functions.insert(run, FunctionDriver::new(history));
    }

    /// Resumes a function: repeats the calls that do no harm, and has a worker restore its execution.
    pub(super) fn resume_function(&mut self, world: &mut World, run: &RunId) {
        let Some(driver) = self.functions.get(run) else { return };
        let open = driver.history.open.clone();
        // Answers wait until the worker has restored the execution.
        self.replay(world, run, None);
        for (ordinal, (at, kind)) in open {
            let since = world.timestamp().0.saturating_sub(at.0).unsigned_abs() / 1000;
            self.perform_call(world, run, ordinal, since, &kind, true);
        }
    }

    fn replay(&mut self, world: &mut World, run: &RunId, last: Option<(u64, Answer)>) {
        let Some(driver) = self.functions.get_mut(run) else { return };
        driver.turn = Turn::Executing(last.clone());
        let mut steps = driver.history.steps.clone();
        if !world.is_mutated(Mutation::ReplayWithoutLastAnswer) {
            steps.extend(last.map(|(ordinal, answer)| Step::Answered { ordinal, answer }));
        }
        let function = driver.history.function.clone();
        if let Some(call) = divergence(&function, &steps) {
            world.break_rule(|| format!("{run} does not make {call:?} in its replay"));
        }
        world.ask_worker(self.number, run.clone(), WorkerRequest::Replay { function, steps });
    }

    /// Takes the answer to a call.
    pub(super) fn answer_call(&mut self, world: &mut World, run: &RunId, ordinal: u64, answer: Answer) {
        if let Some(driver) = self.functions.get_mut(run) {
            driver.answers.push_back((ordinal, answer));
            self.next_turn(world, run);
        }
    }

    pub(super) fn cancel_function(&mut self, world: &mut World, run: &RunId) {
        if let Some(driver) = self.functions.get_mut(run) {
            driver.is_cancelled = true;
            self.next_turn(world, run);
        }
    }

    fn next_turn(&mut self, world: &mut World, run: &RunId) {
        let Some(driver) = self.functions.get_mut(run) else { return };
        if driver.turn != Turn::Idle || driver.history.end.is_some() {
            return;
        }
        if driver.is_cancelled {
            let ended = FunctionEvent::Ended { end: FunctionEnd::Cancelled };
            return self.record_function(world, run, vec![ended], None);
        }
        // The answer of a call that the function no longer waits for has no effect.
        while let Some((ordinal, answer)) = driver.answers.pop_front() {
            if driver.history.open.contains_key(&ordinal) {
                driver.turn = Turn::Executing(Some((ordinal, answer.clone())));
                return world.ask_worker(self.number, run.clone(), WorkerRequest::Answer(ordinal, answer));
            }
        }
    }

    /// Takes the progress of a function; `None` if the worker is another one than that of the last turn.
    pub(crate) fn worker_replied(&mut self, world: &mut World, run: &RunId, progress: Option<Progress>) {
        let Some(driver) = self.functions.get_mut(run) else { return };
        let Turn::Executing(last) = driver.turn.clone() else { return };
        let Some(Progress { calls, state, .. }) = progress else { return self.replay(world, run, last) };
        let (at, mut events, mut ended) = (world.timestamp(), Vec::new(), None);
        if let Some((ordinal, answer)) = last {
            if matches!(driver.history.open.get(&ordinal), Some((_, CallKind::Run { .. }))) {
                ended = Some((step_of(run, NODE, ordinal).to_string(), recorded_as(&answer)));
            }
            events.push(FunctionEvent::Answered { at, ordinal, answer });
        }
        events.extend(calls.iter().map(|call| FunctionEvent::Called { at, call: call.clone() }));
        match state {
            State::Waiting(_) => {}
            State::Completed(_) => events.push(FunctionEvent::Ended { end: FunctionEnd::Completed }),
            State::Failed(_) => events.push(FunctionEvent::Ended { end: FunctionEnd::Failed }),
        }
        if events.is_empty() {
            // A restored function that waits for the calls in its history.
            driver.turn = Turn::Idle;
            return self.next_turn(world, run);
        }
        if world.is_mutated(Mutation::CallsBeforeRecorded) {
            self.perform_calls(world, run, &calls);
        }
        self.record_function(world, run, events, ended);
    }

    fn record_function(
        &mut self,
        world: &mut World,
        run: &RunId,
        events: Vec<FunctionEvent>,
        ended: Option<(String, Recorded)>,
    ) {
        if let Some(driver) = self.functions.get_mut(run) {
            driver.turn = Turn::Recording;
        }
        let entry = Entry { run: run.clone(), events: Vec::new(), function: events, ended };
        world.append(self.number, entry);
    }

    /// Goes on after a write.
    pub(super) fn function_recorded(&mut self, world: &mut World, entry: &Entry) {
        let run = &entry.run;
        let Some(driver) = self.functions.get_mut(run) else { return };
        let open = driver.history.open.clone();
        entry.function.iter().for_each(|event| driver.history.apply(event));
        driver.turn = Turn::Idle;
        let (parent, end) = (driver.history.parent.clone(), driver.history.end);
        let calls: Vec<Call> = entry
            .function
            .iter()
            .filter_map(|event| match event {
                FunctionEvent::Called { call, .. } => Some(call.clone()),
                _ => None,
            })
            .collect();
        if let Some(end) = end {
            for ordinal in open.keys() {
                let child = RunId::started_by(&step_of(run, WORKFLOW, *ordinal));
                self.cancel_run(world, &child);
            }
            if let Some(step) = parent {
                self.end_of_child(world, step, outcome_of(end));
            }
            return;
        }
        if matches!(entry.function.first(), Some(FunctionEvent::Started { .. })) {
            return self.replay(world, run, None);
        }
        // A call that takes too long is answered, and what it started ends.
        for event in &entry.function {
            if let FunctionEvent::Answered { ordinal, answer: Answer::Raise { .. }, .. } = event {
                self.cancel_run(world, &RunId::started_by(&step_of(run, WORKFLOW, *ordinal)));
            }
        }
        if !world.is_mutated(Mutation::CallsBeforeRecorded) {
            self.perform_calls(world, run, &calls);
        }
        self.next_turn(world, run);
    }

    fn perform_calls(&mut self, world: &mut World, run: &RunId, calls: &[Call]) {
        for call in calls {
            self.perform_call(world, run, call.ordinal, 0, &call.kind, false);
        }
    }

    /// Performs a call that was recorded `since` milliseconds ago.
    fn perform_call(
        &mut self,
        world: &mut World,
        run: &RunId,
        ordinal: u64,
        since: u64,
        kind: &CallKind,
        is_repeated: bool,
    ) {
        let answer = |answer| TimerEnd::Answered(ordinal, answer);
        let value = |value: Value| answer(Answer::Value(value));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
        let left = |seconds: f64| ((seconds * 1000.0) as u64).saturating_sub(since);
        if let CallKind::Run { timeout: Some(seconds), .. }
        | CallKind::Gate { timeout: Some(seconds), .. }
        | CallKind::RunWorkflow { timeout: Some(seconds), .. } = kind
            && !(is_repeated && world.is_mutated(Mutation::LimitsLostAtStart))
        {
            self.timer(world, run, left(*seconds), answer(Answer::timed_out("too long")));
        }
        match kind {
            CallKind::Run { .. } if is_repeated && !world.is_mutated(Mutation::NodesRepeated) => {
                self.timer(world, run, 0, value(json!({"success": false, "error_type": "unknown"})));
            }
            CallKind::Run { .. } => {
                let key = EffectKey::new(Kind::Call, step_of(run, NODE, ordinal).to_string());
                let delay = world.random.below(500);
                world.at(delay, Happening::CallNode { daemon: self.number, key });
            }
            CallKind::Gate { .. } => {
                let delay = 50 + world.random.below(3000);
                self.timer(world, run, delay, value("yes".into()));
            }
            CallKind::Sleep { seconds } => self.timer(world, run, left(*seconds), value(Value::Null)),
            CallKind::Now {} | CallKind::Random {} => self.timer(world, run, 0, value(json!(world.now))),
            CallKind::RunWorkflow { workflow, .. } => {
                self.start_named(world, step_of(run, WORKFLOW, ordinal), workflow);
            }
            CallKind::RunGraph { .. } | CallKind::Emit { .. } | CallKind::Log { .. } | CallKind::Ended { .. } => {}
        }
    }

    /// Takes the end of a node that a function called. Returns whether it was one.
    pub(super) fn called_by_function(&self, world: &mut World, step: &StepId) -> bool {
        let is_of_function = step.place == NODE && self.functions.contains_key(&step.run);
        if is_of_function {
            let delay = world.random.below(300);
            let result = Answer::Value(json!({"success": true, "output": "x"}));
            self.timer(world, &step.run, delay, TimerEnd::Answered(u64::from(step.visit), result));
        }
        is_of_function
    }

    /// Cancels a run, if this daemon drives it.
    pub(super) fn cancel_run(&mut self, world: &mut World, run: &RunId) {
        if self.functions.contains_key(run) {
            self.cancel_function(world, run);
        } else {
            self.feed(world, run, Input::Cancel { reason: "given up".to_owned() });
        }
    }
}

/// Returns the outcome of a function for the machine that runs it.
pub(super) fn outcome_of(end: FunctionEnd) -> Outcome {
    let (success, status) = match end {
        FunctionEnd::Completed => (true, "completed"),
        FunctionEnd::Failed => (false, "failed"),
        FunctionEnd::Cancelled => (false, "cancelled"),
    };
    finished(json!({"success": success, "status": status}))
}

/// Returns the answer for a function whose call is a run with this outcome.
pub(super) fn answer_of(outcome: Outcome) -> Answer {
    match outcome {
        Outcome::Finished { result } if result.get("success") == Some(&Value::Bool(true)) => {
            Answer::Value(Value::Object(result))
        }
        _ => Answer::Raise { exception: "RuntimeError".to_owned(), message: "the run did not complete".to_owned() },
    }
}

fn recorded_as(answer: &Answer) -> Recorded {
    match answer {
        Answer::Value(result) if result["success"] == Value::Bool(true) => Recorded::Succeeded(Some(Kind::Call)),
        Answer::Value(_) => Recorded::Unknown("run_node".to_owned()),
        Answer::Raise { .. } => Recorded::TimedOut,
    }
}
