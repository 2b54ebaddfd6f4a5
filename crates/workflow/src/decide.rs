//! The decision function of machine runs.
//!
//! [`decide`] takes the history and one input, and returns the events to append and the effects to perform afterwards.
//! It never fails and never waits: an input that does not apply (such as the outcome of an earlier step, or an input to
//! a run that has ended) gives an empty decision.

mod approval;
mod contract;
mod dialogue;
mod gate;
mod names;
mod parallel;
mod pause;
mod repair;
mod rerun;
mod stages;
mod unknown;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_clock::Timestamp;
use steplatch_ids::{RunId, StepId};

use crate::child::{self, Child, MAX_LEVELS, ParentRun};
use crate::condition::{ConditionError, Ending};
use crate::contract::typed_argument;
use crate::definition::{Action, Definition, State};
use crate::event::{
    Branch, By, ChildEnd, Choice, Continuation, DialogueAnswer, Event, FailureReason, Limits, Outcome,
    SEMANTICS_VERSION, ShellAnswer,
};
use crate::gateless::GatelessNames;
use crate::history::{CurrentStep, Exchange, History, Status, Terminals};
use crate::items::{self, ItemLoop, ItemsError};
use crate::parallel::{WORKFLOWS, resolve_branches};
use crate::repair::Proposal;
use crate::result::judge_outcome;
use crate::substitute::{self, Lookup};
use crate::time;
use crate::tool;
use crate::variables::{VISITS, Variables};
use parallel::EntryError;
pub use repair::{accepted_patch, asks_about_patch};
pub use rerun::{RecordedPart, TakeOverError, begin_from};
pub(crate) use unknown::choices as continuation_choices;

/// External event that a run reacts to.
///
/// A daemon sends the serialized form to an engine that decides elsewhere, and the engine stores it: new fields need a
/// default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Input {
    /// The run begins.
    Start(Start),
    /// The action of a step ended.
    Outcome {
        /// The step that requested the action.
        step: StepId,
        /// The outcome.
        outcome: Outcome,
    },
    /// The driver has read the screen that [`wants_screen`] names for the end of a step. Precedes the outcome.
    ScreenRead {
        /// The step.
        step: StepId,
        /// The terminal.
        session_id: String,
        /// The screen of the terminal; `None` if reading failed.
        screen: Option<String>,
    },
    /// The shell set or reported the requested variables, or was not available.
    ShellAnswered {
        /// The step of the request.
        step: StepId,
        /// The result.
        answer: ShellAnswer,
    },
    /// A gate has an answer.
    GateAnswered {
        /// The step of the gate.
        step: StepId,
        /// One of the gate's choices, or its filled-in form as JSON. Any other string has no effect.
        choice: String,
        /// Person or agent that answered.
        by: By,
    },
    /// A proposal of a patch of the machine. Ignored unless the gate of this step asks where the run continues.
    PatchProposed {
        /// The step of the gate.
        step: StepId,
        /// The checked patch.
        proposal: Box<Proposal>,
    },
    /// The library saved an accepted patch, or refused it. Arrives at any time after the answer.
    PatchSaved {
        /// The step of the proposal.
        step: StepId,
        /// The version of the patched workflow in the library.
        version: Option<u32>,
        /// The error of a refusal.
        error: Option<String>,
    },
    /// The child run that a step requested has begun.
    ChildBegan {
        /// The step that started the child.
        step: StepId,
        /// The name of the child's workflow.
        workflow: String,
    },
    /// The child run of a step began to wait for an answer, or stopped waiting.
    ChildWaits {
        /// The step that started the child.
        step: StepId,
        /// True if the child waits.
        waits: bool,
    },
    /// A person, an agent or the parent run pauses this run.
    Pause {
        /// Requester of the pause.
        by: String,
        /// True if the parent run requests the pause.
        above: bool,
    },
    /// A person, an agent or the parent run resumes this run.
    Resume {
        /// Requester of the resumption.
        by: String,
        /// True if the parent run requests the resumption. A directly paused run then stays paused.
        above: bool,
    },
    /// The deadline of the whole run has passed.
    DeadlinePassed,
    /// Cancels the run.
    Cancel {
        /// The requester's reason.
        reason: String,
    },
}

/// Parameters of a run's start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The run's id.
    pub run: RunId,
    /// The terminal of the run's actions, unless an action names another.
    pub session_id: Option<String>,
    /// The initial variables. Numbers and booleans become strings. A string becomes a list or object if its argument has
    /// that type.
    pub variables: Map<String, Value>,
    /// The limits of the run.
    pub limits: Limits,
    /// True if the run's terminals stay open when it fails or is cancelled.
    pub keep_terminals: bool,
    /// True if the library saves nested workflows, at any depth, when they complete, unless their action specifies
    /// otherwise.
    pub save_on_success: bool,
    /// The step of the parent run that starts this run.
    pub parent: Option<StepId>,
    /// Depth below the outermost run: 0 for a run without a parent.
    pub depth: u32,
    /// Workflows, nodes and graphs that the run starts by name and that never ask a person.
    #[serde(default)]
    pub gateless: GatelessNames,
}

/// The result of [`decide`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// Events to append to the history atomically.
    pub events: Vec<Event>,
    /// Effects to perform after the events are appended.
    pub effects: Vec<Effect>,
}

/// A request that the driver performs.
///
/// An engine that decides elsewhere stores its serialized form: new fields need a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Effect {
    /// Perform an action, and return its outcome as an input.
    Perform {
        /// The requesting step. The action of a step must never be performed twice.
        step: StepId,
        /// The tool.
        tool: String,
        /// The tool's parameters, with all variables replaced.
        params: Map<String, Value>,
        /// Timeout of the action. Afterwards, the outcome is [`Outcome::TimedOut`]. `None` if the action has its own
        /// limit.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "time::optional_seconds")]
        limit: Option<Duration>,
    },
    /// Wait for a point in time, then return a finished outcome with `success: true`.
    Sleep {
        /// The requesting step.
        step: StepId,
        /// Wake-up time; the same after a restart.
        until: Timestamp,
        /// As for [`Effect::Perform`], counted from the entry of the state.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "time::optional_seconds")]
        limit: Option<Duration>,
    },
    /// Start another run, and return its outcome ([`child_outcome`](crate::child_outcome)).
    StartRun {
        /// The requesting step. A step starts at most one run.
        step: StepId,
        /// The run to start.
        child: Box<Child>,
        /// As for [`Effect::Perform`]; on expiry, the child is cancelled.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "time::optional_seconds")]
        limit: Option<Duration>,
    },
    /// Return this outcome, known without an action.
    Answer {
        /// The step.
        step: StepId,
        /// The outcome of the step.
        outcome: Outcome,
    },
    /// Open a gate: show its question or choices, and return [`Input::GateAnswered`].
    OpenGate {
        /// The requesting step.
        step: StepId,
        /// The question.
        prompt: String,
        /// The choices. If empty, any text is an answer.
        choices: Vec<String>,
        /// The form to fill in instead of choices, in the form of [`crate::Form::schema`].
        form: Option<Value>,
        /// Basis of the answer: the result of the state's action, including its screen.
        context: Map<String, Value>,
    },
    /// Return [`Outcome::TimedOut`] at this time if the gate has no answer.
    ExpireGate {
        /// The requesting step.
        step: StepId,
        /// Time of the expiry; the same after a restart.
        at: Timestamp,
    },
    /// Set and export variables of a shell, invisibly, and return [`Input::ShellAnswered`]. Idempotent.
    SetVariables {
        /// The requesting step.
        step: StepId,
        /// The terminal of the shell.
        session_id: String,
        /// The variables, with their values.
        variables: BTreeMap<String, String>,
    },
    /// Read variables of a shell, invisibly, and return [`Input::ShellAnswered`].
    ReadVariables {
        /// The requesting step.
        step: StepId,
        /// The terminal of the shell.
        session_id: String,
        /// The names of the variables.
        names: Vec<String>,
    },
    /// Pause the run that a step started, and the runs below, if they are in progress. Idempotent.
    PauseChild {
        /// The step.
        step: StepId,
        /// Requester of the pause.
        by: String,
    },
    /// Resume the run that a step started, except after a direct pause.
    ResumeChild {
        /// The step.
        step: StepId,
        /// Requester of the resumption.
        by: String,
    },
    /// Stop waiting for a step, and cancel the run that it started. A later outcome of the step has no effect.
    Abandon {
        /// The step.
        step: StepId,
    },
    /// Return [`Input::DeadlinePassed`] after this time.
    ArmDeadline {
        /// The time, counted from now.
        #[serde(with = "time::seconds")]
        after: Duration,
    },
    /// Disarm [`Input::DeadlinePassed`] until the next [`Effect::ArmDeadline`].
    DisarmDeadline,
    /// Close a terminal that the run opened.
    CloseTerminal {
        /// The terminal's id.
        session_id: String,
    },
    /// Close the terminal that a step opened, if any. The outcome of the step never reached the run.
    CloseOpened {
        /// The step.
        step: StepId,
    },
}

/// Returns the decision that follows from `input`, given all earlier events.
///
/// Pure: the same arguments always give the same decision, also on replay.
#[must_use]
pub fn decide(definition: &Definition, history: &History, input: Input, now: Timestamp) -> Decision {
    match (history.status(), input) {
        (Status::NotStarted, Input::Start(start)) => begin(definition, start, now),
        (Status::Running, Input::Outcome { step, outcome }) => match history.current() {
            Some(current) if current.step == step => DecisionBuilder::new(definition, history, now).complete(current, outcome),
            Some(current) => match history.open_branch(&step) {
                Some(number) => DecisionBuilder::new(definition, history, now).end_branch(current, number, outcome),
                None if history.awaited_steps().contains(&step) => {
                    DecisionBuilder::new(definition, history, now).end_turn(current, outcome)
                }
                None => Decision::default(),
            },
            None => Decision::default(),
        },
        (Status::Running, Input::ScreenRead { step, session_id, screen }) => match history.current() {
            Some(current) if current.step == step && !history.has_read_screen(&step) => {
                let events = vec![Event::ScreenRead { at: now, step, session_id, screen }];
                Decision { events, effects: Vec::new() }
            }
            _ => Decision::default(),
        },
        (Status::Running, Input::ShellAnswered { step, answer }) => match history.exchange() {
            Some(exchange) if exchange.step == step => DecisionBuilder::new(definition, history, now).handle_shell_answer(exchange, answer),
            _ => Decision::default(),
        },
        (Status::Waiting, Input::GateAnswered { step, choice, by }) => match history.gate() {
            Some(gate) if gate.step == step => DecisionBuilder::new(definition, history, now).pass_gate(gate, choice, by),
            _ => Decision::default(),
        },
        (Status::Waiting, Input::Outcome { step, outcome: Outcome::TimedOut }) => match history.gate() {
            Some(gate) if gate.step == step => DecisionBuilder::new(definition, history, now).expire_gate(gate),
            _ => Decision::default(),
        },
        (Status::Waiting, Input::PatchProposed { step, proposal }) => match history.gate() {
            Some(gate) if gate.step == step && gate.asks_where_to_go_on() => {
                DecisionBuilder::new(definition, history, now).propose(proposal)
            }
            _ => Decision::default(),
        },
        (_, Input::PatchSaved { step, version, error }) if history.unsaved_repair().is_some_and(|repair| repair.step == step) => {
            let events = vec![Event::PatchSaved { at: now, step, version, error }];
            Decision { events, effects: Vec::new() }
        }
        (Status::Running, Input::ChildBegan { step, workflow }) if history.awaits_child(&step) => {
            DecisionBuilder::new(definition, history, now).record_child_start(step, workflow)
        }
        (Status::Running, Input::ChildWaits { step, waits })
            if history.awaits_child(&step) && history.waiting_children().any(|waiting| *waiting == step) != waits =>
        {
            DecisionBuilder::new(definition, history, now).set_child_waiting(step, waits)
        }
        (Status::Running | Status::Waiting, Input::Pause { by, above }) if history.paused().is_none() => {
            DecisionBuilder::new(definition, history, now).pause(by, above)
        }
        (Status::Running | Status::Waiting, Input::Resume { by, above }) => match history.paused() {
            Some(pause) if pause.above || !above => DecisionBuilder::new(definition, history, now).resume(by),
            _ => Decision::default(),
        },
        // The deadline does not pass while the clock of the run is stopped.
        (Status::Running, Input::DeadlinePassed) if history.is_clock_stopped() => Decision::default(),
        (Status::Running, Input::DeadlinePassed) => DecisionBuilder::new(definition, history, now).pass_deadline(),
        (Status::Running | Status::Waiting, Input::Cancel { reason }) => {
            DecisionBuilder::new(definition, history, now).cancel(reason)
        }
        (Status::NotStarted, _)
        | (
            Status::Running,
            Input::Start(_)
            | Input::GateAnswered { .. }
            | Input::PatchProposed { .. }
            | Input::PatchSaved { .. }
            | Input::Pause { .. }
            | Input::ChildBegan { .. }
            | Input::ChildWaits { .. },
        )
        // The deadline does not pass while the run waits for an answer.
        | (Status::Waiting, _)
        | (Status::Completed | Status::Failed { .. } | Status::Cancelled { .. }, _) => Decision::default(),
    }
}

/// Returns the requested effects without an outcome in the history, to repeat after a restart.
///
/// All of them may happen twice, except [`Effect::Perform`]: the driver keeps a ledger of these effects by step. The
/// time limit of a state includes the duration of the restart, but an outcome that arrived in the meantime still
/// counts.
#[must_use]
pub fn resume(history: &History, now: Timestamp) -> Vec<Effect> {
    match history.status() {
        Status::NotStarted => Vec::new(),
        Status::Completed => close_effects_on_completion(history, history.terminals()),
        Status::Failed { .. } | Status::Cancelled { .. } => {
            close_effects(history.terminals(), history.keep_terminals())
        }
        Status::Waiting => history.gate().into_iter().flat_map(|gate| gate::gate_effects(gate, now)).collect(),
        Status::Running => {
            let deadline = (!history.is_clock_stopped()).then(|| Effect::ArmDeadline { after: history.time_left(now) });
            let pending = match history.current() {
                Some(current) => effects_to_repeat(&current.with_time_left(now), history, now),
                None => history.exchange().map(exchange_effect).into_iter().collect(),
            };
            deadline.into_iter().chain(pending).collect()
        }
    }
}

/// Returns the terminal whose screen must be read before the decision on this outcome of a step, because the next state
/// depends on a pattern, and the result has no text to search. The screen arrives as [`Input::ScreenRead`].
#[must_use]
pub fn wants_screen(definition: &Definition, history: &History, step: &StepId, outcome: &Outcome) -> Option<String> {
    let current = history.current().filter(|current| current.step == *step && !history.has_read_screen(step))?;
    let state = definition.state(&step.place)?;
    let (outcome, found_nothing) = judge_outcome(outcome, current, history.rules(), definition);
    let outcome = &*outcome;
    let result = outcome.result(&step.place, &current.tool, current.limit);
    let ending = ending(history, current, outcome, found_nothing, &result);
    if !ending.rules.searches_each_text() || ending.has_text() {
        return None;
    }
    if ending.timed_out && state.on_timeout().is_some() {
        return None;
    }
    for transition in state.transitions() {
        let (condition, variables) = (transition.condition(), history.variables());
        if condition.depends_on_pattern(ending, variables) {
            let named_session = current.params.get("session_id").and_then(Value::as_str);
            let named_session = named_session.filter(|_| current.tool != tool::EXIT_TERMINAL).map(str::to_owned);
            let mut terminals = history.terminals().clone();
            terminals.record(current, outcome, &result);
            return named_session.or_else(|| terminals.current_terminal().map(str::to_owned));
        }
        if condition.description().is_none() && matches!(condition.holds(ending, variables), Ok(Some(_))) {
            return None;
        }
    }
    None
}

/// Returns whether `events`, the last events of the history, require a record of the screens of the run's terminals
/// ([`Event::ScreensKept`]): the run fails, and its terminals are about to change or to close.
#[must_use]
pub fn wants_last_screens(history: &History, events: &[Event]) -> bool {
    let fails =
        |event: &Event| matches!(event, Event::Failed { .. } | Event::FinallyBegan { end: Branch::Fail { .. }, .. });
    history.last_screens().is_empty() && events.iter().any(fails)
}

/// Returns the end of a state's action, as its conditions examine it. `found_nothing` is true for a wait without a match.
fn ending<'a>(
    history: &'a History,
    current: &'a CurrentStep,
    outcome: &Outcome,
    found_nothing: bool,
    result: &'a Map<String, Value>,
) -> Ending<'a> {
    Ending {
        rules: history.rules(),
        tool: &current.tool,
        result,
        timed_out: *outcome == Outcome::TimedOut || tool::ran_out_of_time(&current.tool, result),
        found_nothing,
        unknown: *outcome == Outcome::Unknown,
        screen: history.screen(&current.step),
    }
}

fn begin(definition: &Definition, start: Start, now: Timestamp) -> Decision {
    let after = start.limits.execution_timeout();
    let started = started_event(definition, start, now);
    let history = History::from_iter([&started]);
    let mut builder = DecisionBuilder::new(definition, &history, now);
    builder.decision.effects.push(Effect::ArmDeadline { after });
    builder.decision.events.push(started);
    builder.begin_with_arguments(definition.initial_state())
}

/// Returns the first event of a run.
fn started_event(definition: &Definition, start: Start, now: Timestamp) -> Event {
    let mut variables = start.variables;
    for (name, value) in &mut variables {
        match value {
            Value::Number(_) | Value::Bool(_) => *value = Value::String(substitute::as_text(value)),
            Value::String(text) => *value = typed_argument(definition.document(), name, text),
            Value::Null | Value::Array(_) | Value::Object(_) => {}
        }
    }
    // In document 000, the variable is the only way to pass a terminal.
    let named_session = variables.get(child::SESSION).and_then(Value::as_str).filter(|session| !session.is_empty());
    let session_id = start.session_id.or_else(|| named_session.map(str::to_owned));
    Event::Started {
        at: now,
        run: start.run,
        definition: definition.shared_document(),
        variables,
        session_id,
        limits: start.limits,
        keep_terminals: start.keep_terminals,
        save_on_success: start.save_on_success,
        semantics_version: SEMANTICS_VERSION,
        parent: start.parent,
        depth: start.depth,
        gateless: start.gateless,
    }
}

/// Builder of one decision.
struct DecisionBuilder<'a> {
    definition: &'a Definition,
    history: &'a History,
    now: Timestamp,
    /// True during a pause of the run, when nothing new may begin.
    paused: bool,
    /// True if the last item of the ended state has ended or an item has failed. The next entry of the state begins
    /// with the first item.
    items_ended: bool,
    decision: Decision,
}

impl<'a> DecisionBuilder<'a> {
    fn new(definition: &'a Definition, history: &'a History, now: Timestamp) -> Self {
        Self {
            definition,
            history,
            now,
            paused: history.paused().is_some(),
            items_ended: false,
            decision: Decision::default(),
        }
    }

    /// Applies an outcome and follows the transition that it selects.
    fn complete(mut self, current: &CurrentStep, outcome: Outcome) -> Decision {
        let CurrentStep { step, tool, limit, entered_at, .. } = current;
        let name = step.place.as_str();
        let elapsed = self.now.since(*entered_at);
        if self.history.child_waits() {
            // The state ended at a gate of its child, so the deadline applies again.
            self.arm_deadline();
        }
        self.record_child_end(step, &outcome);
        let (outcome, found_nothing) = judge_outcome(&outcome, current, self.history.rules(), self.definition);
        let mut outcome = outcome.into_owned();
        let items = self.history.items_in_state(name);
        let has_next_item = items.is_some_and(|items| items.continues_after(&outcome.result(name, tool, *limit)));
        self.items_ended = items.is_some() && !has_next_item;
        if let (Some(items), Outcome::Finished { result }, false) = (items, &mut outcome, has_next_item) {
            let results = items.results_with(result);
            result.insert(items::RESULTS.to_owned(), results);
            if self.history.rules().describes_failures() {
                let failed = items.failed_with(result);
                result.insert(items::FAILED.to_owned(), failed);
            }
        }
        self.record(Event::StateCompleted { at: self.now, step: step.clone(), outcome: outcome.clone(), elapsed });
        let result = outcome.result(name, tool, *limit);
        let mut terminals = self.history.terminals().clone();
        terminals.record(current, &outcome, &result);
        let ending = ending(self.history, current, &outcome, found_nothing, &result);
        let Some(state) = self.definition.state(name) else { return self.fail_unknown_state(name, &terminals) };
        let history = self.history;
        if let Some(items) = items.filter(|_| has_next_item) {
            let branch = Branch::Go { to: name.to_owned(), because: items.progress() };
            return self.follow(name, branch, &history.variables().after(name, &result), &terminals);
        }
        match choose_next(state, ending, history.variables()) {
            Next::Unresolved(unresolved) => {
                let error = self.unresolved_error(name, &unresolved, &history.variables().after(name, &result));
                let branch = Branch::Fail { reason: FailureReason::UnresolvedVariable, error };
                self.follow(name, branch, history.variables(), &terminals)
            }
            Next::Follow(branch) => self.follow(name, branch, &history.variables().after(name, &result), &terminals),
            Next::Judge { choices, otherwise } => self.open_gate(step.clone(), choices, otherwise, result.into_owned()),
            Next::Unknown(error) => {
                let mut context = result.into_owned();
                unknown::add_expectation(&mut context, &current.params);
                let choices = unknown::choices(self.definition, state, self.history.gateless());
                self.open_gate(step.clone(), choices, unknown::failure(error), context)
            }
        }
    }

    /// Follows a branch from a state.
    fn follow(mut self, from: &str, branch: Branch, variables: &impl Lookup, terminals: &Terminals) -> Decision {
        if self.paused {
            return self.defer(Continuation::Leave { from: from.to_owned(), branch });
        }
        match branch {
            Branch::Go { to, because } => {
                self.record(Event::Transitioned { at: self.now, from: from.to_owned(), to: to.clone(), because });
                self.approach(&to, variables, terminals)
            }
            Branch::Complete => self.finish(variables, terminals),
            Branch::Fail { reason, error } => self.fail(reason, error, terminals),
        }
    }

    /// Enters a state, or its `on_exhausted` target if the state has reached its maximum number of visits.
    fn enter(mut self, name: &str, variables: &impl Lookup, terminals: &Terminals) -> Decision {
        if self.next_items(name).is_some() {
            return self.enter_now(name, variables, terminals);
        }
        let mut name = name;
        // Follow at most as many targets as there are states, because a cycle of exhausted states ends the run.
        for _ in self.definition.states() {
            let Some(state) = self.definition.state(name) else { break };
            let Some(max_visits) = state.max_visits().filter(|max_visits| self.history.visits(name) >= *max_visits)
            else {
                break;
            };
            let Some(target) = state.on_exhausted() else { break };
            let because = format!("state '{name}' was visited {max_visits} times");
            self.record(Event::Transitioned { at: self.now, from: name.to_owned(), to: target.to_owned(), because });
            name = target;
        }
        if let Some(max_visits) = self.definition.state(name).and_then(State::max_visits)
            && self.history.visits(name) >= max_visits
        {
            let error = format!("State '{name}' was visited {max_visits} times (max_visits), and no state follows");
            return self.fail(FailureReason::TooManyStates, error, terminals);
        }
        self.enter_now(name, variables, terminals)
    }

    /// Enters a state, unless the run has reached its maximum number of states.
    fn enter_now(mut self, name: &str, variables: &impl Lookup, terminals: &Terminals) -> Decision {
        let max_states = self.history.max_states();
        if self.history.states_executed() >= max_states {
            let error = format!("Maximum states limit ({max_states}) reached - possible infinite loop");
            return self.fail(FailureReason::TooManyStates, error, terminals);
        }
        let (Some(state), Some(run)) = (self.definition.state(name), self.history.run()) else {
            return self.fail_unknown_state(name, terminals);
        };
        let step =
            StepId { run: run.clone(), place: name.to_owned(), visit: self.history.visits(name).saturating_add(1) };
        let visits = self.history.rules().counts_visits().then(|| step.visit.into());
        let entering = Entering { before: variables, visits, item: None };
        if self.history.rules().refuses_unresolved()
            && let Some(unresolved) =
                state.for_each().and_then(|for_each| substitute::unresolved(&for_each.items, &entering))
        {
            let error = self.unresolved_error(name, unresolved, &entering);
            return self.fail(FailureReason::UnresolvedVariable, error, terminals);
        }
        if let Some((for_each, parallel_loop)) = state.for_each_parallel() {
            let refuses_unresolved = self.history.rules().refuses_unresolved();
            return match parallel::item_loop_params(state, for_each, parallel_loop, &entering, refuses_unresolved) {
                Ok(params) => {
                    let (tool, limit, entered_at) = (tool::PARALLEL.to_owned(), time_limit(state), self.now);
                    self.enter_step(CurrentStep { step, tool, params, limit, entered_at })
                }
                Err(EntryError::Unresolved(unresolved)) => {
                    let error = self.unresolved_error(name, &unresolved, &entering);
                    self.fail(FailureReason::UnresolvedVariable, error, terminals)
                }
                Err(EntryError::Items(error)) => {
                    self.fail(FailureReason::BadParameters, format!("State '{name}': {error}"), terminals)
                }
            };
        }
        let (item, is_empty) = match self.next_item(state, &entering) {
            Ok(item) => item,
            Err(error) => {
                return self.fail(FailureReason::BadParameters, format!("State '{name}': {error}"), terminals);
            }
        };
        let variables = &Entering { item, ..entering };
        if is_empty {
            // An empty list needs no action and no variables.
            let (tool, params) = (tool::SET.to_owned(), Map::new());
            let entered_step = CurrentStep { step, tool, params, limit: None, entered_at: self.now };
            return self.enter_step(entered_step);
        }
        let tool = state.action().tool().to_owned();
        if self.history.rules().refuses_unresolved()
            && let Some(unresolved) = state.unresolved(variables)
        {
            let error = self.unresolved_error(name, unresolved, variables);
            return self.fail(FailureReason::UnresolvedVariable, error, terminals);
        }
        let mut params = params(state, variables, terminals);
        if tool == tool::OPEN_TERMINAL && !self.history.arguments_checked() && terminals.is_empty() {
            add_to_environment(&self.exported_arguments(), &mut params);
        }
        let limit = time_limit(state);
        if tool == tool::SLEEP
            && let Err(error) = tool::sleep_duration(&params)
        {
            return self.fail(FailureReason::BadParameters, format!("State '{name}': {error}"), terminals);
        }
        if tool == tool::GATE {
            let entered_step = CurrentStep { step, tool, params, limit, entered_at: self.now };
            return self.enter_gate(entered_step, variables, terminals);
        }
        let entered_at = self.now;
        self.enter_step(CurrentStep { step, tool, params, limit, entered_at })
    }

    /// Returns the items of a state in progress, unless its last item has ended.
    fn next_items(&self, name: &str) -> Option<&'a ItemLoop> {
        self.history.items_in_state(name).filter(|_| !self.items_ended)
    }

    /// Returns the item for the entry of a state with its variable, and true if the list is empty. Records the list at
    /// the first entry.
    fn next_item(
        &mut self,
        state: &State,
        variables: &impl Lookup,
    ) -> Result<(Option<(String, Value)>, bool), ItemsError> {
        let Some(for_each) = state.for_each() else { return Ok((None, false)) };
        if let Some(items) = self.next_items(state.name()) {
            return Ok((items.next().map(|item| (items.name().to_owned(), item.clone())), false));
        }
        let (name, items) = (for_each.name.clone(), for_each.resolve(variables)?);
        let first = items.first().map(|item| (name.clone(), item.clone()));
        let is_empty = first.is_none();
        self.record(Event::ItemsBegan { at: self.now, state: state.name().to_owned(), name, items });
        Ok((first, is_empty))
    }

    fn enter_step(mut self, entered: CurrentStep) -> Decision {
        if entered.tool == tool::PARALLEL {
            return self.enter_parallel(entered);
        }
        // The history still has the answers of the last dialogue.
        self.decision.effects.push(outcome_effect(&entered, &[], self.history, self.now));
        let CurrentStep { step, tool, params, limit, entered_at: at } = entered;
        self.record(Event::StateEntered { at, step, tool, params, limit });
        self.decision
    }

    fn record_child_start(mut self, step: StepId, workflow: String) -> Decision {
        let by = || self.history.run().map(ToString::to_string).unwrap_or_default();
        match self.history.paused() {
            Some(pause) => self.decision.effects.push(Effect::PauseChild { step: step.clone(), by: pause.by.clone() }),
            // The previous daemon may have stopped after it resumed this run and before it resumed the child.
            None if self.history.child_of(&step).is_some() => {
                self.decision.effects.push(Effect::ResumeChild { step: step.clone(), by: by() });
            }
            None => {}
        }
        if self.history.child_of(&step).is_none() {
            self.record(Event::ChildStarted { at: self.now, step, workflow });
        }
        self.decision
    }

    /// Records the end of the run that a step started, if that run began.
    fn record_child_end(&mut self, step: &StepId, outcome: &Outcome) {
        let Some(workflow) = self.history.child_of(step).map(str::to_owned) else { return };
        let (end, error) = child::child_end(outcome);
        self.record(Event::ChildEnded { at: self.now, step: step.clone(), workflow, end, error });
    }

    fn set_child_waiting(mut self, step: StepId, waits: bool) -> Decision {
        let at = self.now;
        // The deadline is disarmed while at least one child waits.
        let others_wait = self.history.waiting_children().any(|waiting| *waiting != step);
        if waits {
            self.record(Event::ChildWaits { at, step });
            self.decision.effects.extend((!others_wait).then_some(Effect::DisarmDeadline));
        } else {
            self.record(Event::ChildGoesOn { at, step });
            if !others_wait {
                self.arm_deadline();
            }
        }
        self.decision
    }

    fn pass_deadline(self) -> Decision {
        let timeout = self.history.limits().execution_timeout().as_secs_f64();
        let place = self.history.last_state().map(|name| format!(" in state '{name}'")).unwrap_or_default();
        let error = format!("Workflow execution timeout ({timeout:?}s) exceeded{place}");
        let terminals = self.terminals_after_abandon();
        self.abandon_pending().fail(FailureReason::TimedOut, error, &terminals)
    }

    fn cancel(self, reason: String) -> Decision {
        let terminals = self.terminals_after_abandon();
        let mut builder = self.abandon_pending();
        builder.record(Event::Cancelled { at: builder.now, reason });
        builder.decision.effects.extend(close_effects(&terminals, builder.history.keep_terminals()));
        builder.decision
    }

    /// Returns the terminals after the current step is abandoned.
    fn terminals_after_abandon(&self) -> Terminals {
        let mut terminals = self.history.terminals().clone();
        if let Some(current) = self.history.current() {
            terminals.abandon(current);
        }
        terminals
    }

    /// Abandons all steps, children and gates that the run waits for.
    fn abandon_pending(mut self) -> Self {
        let mut pending_steps = self.history.awaited_steps();
        pending_steps.extend(self.history.exchange().map(|exchange| exchange.step.clone()));
        pending_steps.extend(self.history.gate().map(|gate| gate.step.clone()));
        self.decision.effects.extend(pending_steps.into_iter().map(|step| Effect::Abandon { step }));
        let at = self.now;
        for step in self.history.children().cloned() {
            let workflow = self.history.child_of(&step).unwrap_or_default().to_owned();
            self.record(Event::ChildEnded { at, step, workflow, end: ChildEnd::Cancelled, error: None });
        }
        if let Some(gate) = self.history.gate() {
            self.record(Event::GateCancelled { at, step: gate.step.clone() });
        }
        self
    }

    fn fail_unknown_state(self, name: &str, terminals: &Terminals) -> Decision {
        self.fail(FailureReason::UnknownState, format!("State '{name}' is not in this definition"), terminals)
    }

    /// Returns the error for a placeholder of a state that has no value.
    fn unresolved_error(&self, state: &str, name: &str, variables: &dyn Lookup) -> String {
        format!("State '{state}': {}", names::missing_value_error(self.definition, self.history, variables, name))
    }

    /// Ends a run that completed, after its finally state.
    fn succeed(mut self, terminals: &Terminals) -> Decision {
        if self.has_finally() {
            return self.begin_finally(Branch::Complete);
        }
        match self.history.finally().map(|finally| finally.end.clone()) {
            Some(Branch::Fail { reason, error }) => self.end_as_failed(reason, error, terminals),
            _ => {
                self.record(Event::Completed { at: self.now });
                self.decision.effects.extend(close_effects_on_completion(self.history, terminals));
                self.decision
            }
        }
    }

    /// Ends a run that failed, after its finally state. If that state fails too, the run keeps the first failure.
    fn fail(self, reason: FailureReason, error: String, terminals: &Terminals) -> Decision {
        if self.has_finally() {
            return self.begin_finally(Branch::Fail { reason, error });
        }
        match self.history.finally().map(|finally| finally.end.clone()) {
            Some(Branch::Fail { reason, error }) => self.end_as_failed(reason, error, terminals),
            _ => self.end_as_failed(reason, error, terminals),
        }
    }

    /// Returns whether the finally state must precede the end of the run. A run without an executed state skips it.
    fn has_finally(&self) -> bool {
        self.definition.finally_state().is_some()
            && self.history.finally().is_none()
            && self.history.states_executed() > 0
    }

    /// Enters the finally state, based on the history with the events decided so far.
    fn begin_finally(mut self, end: Branch) -> Decision {
        self.record(Event::FinallyBegan { at: self.now, end });
        let Some(name) = self.definition.finally_state() else { return self.decision };
        if let Some(from) = self.history.last_state() {
            let (from, to, because) = (from.to_owned(), name.to_owned(), "the run is about to end".to_owned());
            self.record(Event::Transitioned { at: self.now, from, to, because });
        }
        let mut history = self.history.clone();
        history.extend(&self.decision.events);
        let Self { definition, now, mut decision, .. } = self;
        decision.effects.push(Effect::ArmDeadline { after: history.time_left(now) });
        let builder =
            DecisionBuilder { definition, history: &history, now, paused: false, items_ended: false, decision };
        builder.enter_now(name, history.variables(), history.terminals())
    }

    fn end_as_failed(mut self, reason: FailureReason, error: String, terminals: &Terminals) -> Decision {
        self.record(Event::Failed { at: self.now, reason, error });
        self.decision.effects.extend(close_effects(terminals, self.history.keep_terminals()));
        self.decision
    }

    fn record(&mut self, event: Event) {
        self.decision.events.push(event);
    }
}

/// Continuation after the end of a state.
enum Next {
    Follow(Branch),
    /// A condition has a placeholder without a value.
    Unresolved(String),
    /// The result is unexpected for this reason: a gate decides the next state.
    Unknown(String),
    /// A gate determines the choice that holds; if there is none, the run continues with `otherwise`.
    Judge {
        choices: Vec<Choice>,
        otherwise: Branch,
    },
}

/// Chooses the continuation after a state.
fn choose_next(state: &State, ending: Ending<'_>, variables: &Variables) -> Next {
    let on_timeout =
        |because: &str| state.on_timeout().map(|to| Branch::Go { to: to.to_owned(), because: because.to_owned() });
    if ending.timed_out
        && let Some(branch) = on_timeout("the state timed out")
    {
        return Next::Follow(branch);
    }
    let mut choices = Vec::new();
    let mut chosen = None;
    // Conditions see the variables at the state's entry: `{match_text}` is the match of an earlier state, for a
    // comparison with the result of this state.
    for transition in state.transitions() {
        let (condition, to) = (transition.condition(), transition.next_state().to_owned());
        let with_description = |because| Ok((because, condition.resolved_description(ending.rules, variables)?));
        match condition.holds(ending, variables).and_then(|because| because.map(with_description).transpose()) {
            Ok(None) => {}
            Ok(Some((_, Some(description)))) => choices.push(Choice { description, next_state: to, for_person: false }),
            Ok(Some((because, None))) => {
                chosen = Some(Branch::Go { to, because });
                break;
            }
            Err(ConditionError::Unresolved(name)) => return Next::Unresolved(name),
            Err(error) => {
                let error = format!("State '{}': {error}", state.name());
                return Next::Follow(Branch::Fail { reason: FailureReason::BadPattern, error });
            }
        }
    }
    let timeout_branch = || {
        if ending.found_nothing {
            on_timeout("the output did not appear")
        } else if ending.has_failed() && ending.rules.failure_goes_on_timeout() {
            on_timeout("the action failed")
        } else {
            None
        }
    };
    let branch = chosen.or_else(timeout_branch).unwrap_or_else(|| {
        if tool::succeeded(ending.result) {
            Branch::Complete
        } else {
            let error = action_error(state.name(), ending.tool, ending.result);
            Branch::Fail { reason: FailureReason::ActionFailed, error }
        }
    });
    // An explicit failure is not an unexpected result.
    if state.asks_when_unknown() && choices.is_empty() && ending.tool != tool::FAIL {
        let error = match &branch {
            Branch::Fail { error, .. } => Some(error.clone()),
            Branch::Complete if !state.transitions().is_empty() => {
                Some(format!("State '{}' ended with a result that none of its transitions expects", state.name()))
            }
            Branch::Complete | Branch::Go { .. } => None,
        };
        if let Some(error) = error {
            return Next::Unknown(error);
        }
    }
    if choices.is_empty() { Next::Follow(branch) } else { Next::Judge { choices, otherwise: branch } }
}

/// Variables at the entry of a state: the earlier variables, the number of the visit, and the item.
struct Entering<'a, L> {
    before: &'a L,
    visits: Option<Value>,
    item: Option<(String, Value)>,
}

impl<L: Lookup> Lookup for Entering<'_, L> {
    fn get(&self, name: &str) -> Option<&Value> {
        let item = self.item.as_ref().filter(|(item_name, _)| item_name == name).map(|(_, item)| item);
        item.or_else(|| self.visits.as_ref().filter(|_| name == VISITS)).or_else(|| self.before.get(name))
    }

    fn belongs_to_shell(&self, name: &str) -> bool {
        self.before.belongs_to_shell(name)
    }

    fn has_paths(&self) -> bool {
        self.before.has_paths()
    }

    fn evidence(&self) -> Map<String, Value> {
        self.before.evidence()
    }
}

/// Returns the parameters of a state's action, with variables replaced and the run's terminal filled in.
fn params(state: &State, variables: &impl Lookup, terminals: &Terminals) -> Map<String, Value> {
    let action = state.action();
    let is_nested = action.tool() == tool::RUN_WORKFLOW;
    let resolve_param = |(name, value): (&String, &Value)| {
        let value = match action.tool() {
            tool::RUN_WORKFLOW if name == child::DEFINITION => value.clone(),
            tool::PARALLEL if name == WORKFLOWS => resolve_branches(value, variables),
            _ => substitute::value(value, variables, !action.is_text(name)),
        };
        (name.clone(), value)
    };
    let mut params: Map<String, Value> = action.params().iter().map(resolve_param).collect();
    if action.tool() == tool::DIALOGUE {
        params = crate::dialogue::resolve_params(action.params(), variables);
    }
    let has_no_session = params.get("session_id").is_none_or(Value::is_null);
    let default_terminal = match action.tool() {
        tool::RUN_WORKFLOW => terminals.terminal_for_child(),
        // Without a current terminal, a command runs in a separate shell.
        tool::RUN_COMMAND => terminals.current_terminal(),
        _ => terminals.current_or_last(),
    };
    if action.takes_session()
        && has_no_session
        && !state.has_own_host()
        && let Some(session) = default_terminal
    {
        // The terminal already runs on a host.
        params.remove("host");
        params.insert("session_id".to_owned(), session.into());
        if is_nested {
            params.insert(child::INHERITED.to_owned(), true.into());
        }
    }
    if let Some(timeout) = state.timeout().filter(|_| is_command_without_timeout(action)) {
        params.insert("timeout".to_owned(), timeout.min(tool::MAX_COMMAND_TIMEOUT).as_secs_f64().into());
    }
    params
}

/// Returns whether an action is a command without its own timeout. Such a command gets the time limit of its state as
/// timeout, so that its result has the output so far.
fn is_command_without_timeout(action: &Action) -> bool {
    action.tool() == tool::RUN_COMMAND && action.params().get("timeout").is_none_or(Value::is_null)
}

/// Returns the time limit of a state; `None` if the action has its own limit.
fn time_limit(state: &State) -> Option<Duration> {
    let action = state.action();
    if is_command_without_timeout(action) {
        return None;
    }
    let has_own_limit = tool::bounds_itself(action.tool(), action.params())
        || (tool::CALLS.contains(&action.tool())
            && action.params().get("timeout").is_some_and(|timeout| !timeout.is_null()));
    state.timeout().or_else(|| (!has_own_limit).then_some(tool::DEFAULT_TIMEOUT))
}

/// Returns the effects that produce the outcomes that the current step waits for.
fn effects_to_repeat(current: &CurrentStep, history: &History, now: Timestamp) -> Vec<Effect> {
    match history.branches() {
        Some(branches) => parallel::branch_effects(current, branches, history),
        None => vec![outcome_effect(current, history.answers(), history, now)],
    }
}

/// Returns the effect that starts the child run of a `run_workflow` or of a branch.
fn start_run_effect(step: StepId, params: &Map<String, Value>, limit: Option<Duration>, history: &History) -> Effect {
    let parent =
        ParentRun { rules: history.rules(), saves_on_success: history.saves_on_success(), depth: history.depth() };
    match Child::read(params, parent) {
        Ok(child) if child.depth <= MAX_LEVELS => Effect::StartRun { step, child: Box::new(child), limit },
        Ok(_) => {
            let error = format!("Maximum recursion depth ({MAX_LEVELS}) exceeded");
            Effect::Answer { step, outcome: child::refused(error) }
        }
        Err(error) => Effect::Answer { step, outcome: child::refused(error.to_string()) },
    }
}

/// Returns the effect that produces the outcome of a step. `answers` has the earlier answers of a dialogue.
fn outcome_effect(current: &CurrentStep, answers: &[DialogueAnswer], history: &History, now: Timestamp) -> Effect {
    let CurrentStep { step, tool, params, limit, entered_at } = current.clone();
    if tool == tool::RUN_WORKFLOW {
        return start_run_effect(step, &params, limit, history);
    }
    if tool == tool::DIALOGUE {
        return dialogue::turn_effect(current, answers, history.variables(), now);
    }
    if let Some(result) = tool::known_result(&tool, &params) {
        return Effect::Answer { step, outcome: Outcome::Finished { result } };
    }
    if tool == tool::FAIL {
        let message = params.get("message").map(substitute::as_text).unwrap_or_default();
        return Effect::Answer { step, outcome: child::refused(message) };
    }
    match tool::sleep_duration(&params) {
        Ok(duration) if tool == tool::SLEEP => Effect::Sleep { step, until: entered_at.end_of(duration, now), limit },
        _ => Effect::Perform { step, tool, params, limit },
    }
}

/// Returns the effect that performs an exchange with the shell.
fn exchange_effect(exchange: &Exchange) -> Effect {
    let Exchange { step, session_id, set, read, .. } = exchange.clone();
    if set.is_empty() {
        Effect::ReadVariables { step, session_id, names: read }
    } else {
        Effect::SetVariables { step, session_id, variables: set }
    }
}

/// Adds arguments to the environment of a terminal to open. Variables that the author set take precedence.
fn add_to_environment(arguments: &BTreeMap<String, String>, params: &mut Map<String, Value>) {
    if arguments.is_empty() {
        return;
    }
    let environment = params.entry("environment").or_insert(Value::Null);
    if environment.is_null() {
        *environment = Value::Object(Map::new());
    }
    if let Value::Object(environment) = environment {
        for (name, value) in arguments {
            environment.entry(name.as_str()).or_insert_with(|| value.as_str().into());
        }
    }
}

/// Returns the effects that close the open terminals of a run at its end.
fn close_effects(terminals: &Terminals, keep: bool) -> Vec<Effect> {
    if keep {
        return Vec::new();
    }
    let (open, unclaimed) = terminals.to_close();
    let close = open.map(|session_id| Effect::CloseTerminal { session_id: session_id.clone() });
    close.chain(unclaimed.iter().map(|step| Effect::CloseOpened { step: step.clone() })).collect()
}

/// Returns the effects that close the open terminals of a run when it completes. A nested run leaves its terminals to
/// the parent run.
fn close_effects_on_completion(history: &History, terminals: &Terminals) -> Vec<Effect> {
    let is_nested = history.parent().is_some();
    if history.rules().closes_terminals() && !is_nested {
        close_effects(terminals, history.keep_terminals())
    } else {
        Vec::new()
    }
}

fn action_error(state: &str, tool: &str, result: &Map<String, Value>) -> String {
    match result.get("error").map(substitute::as_text).filter(|error| !error.is_empty()) {
        // The error of a time-out already names the state.
        Some(error) if error.starts_with(&format!("State '{state}' ")) => error,
        Some(error) => format!("State '{state}' failed: {error}"),
        None => format!("State '{state}' failed: '{tool}' did not succeed"),
    }
}
