//! Rehearsals: runs whose actions return stubbed results, on a simulated clock.
//!
//! [`decide`] makes the decisions, as in a real run. A rehearsal opens no terminal, types nothing and waits for
//! nothing, so it takes no time and always gives the same result.

mod act;
mod secrets;
mod stubs;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use steplatch_clock::Timestamp;
use steplatch_ids::StepId;

use crate::child::SESSION;
use crate::contract::HIDDEN;
use crate::decide::{Effect, Input, Start, decide};
use crate::definition::{Definition, secret_variable};
use crate::event::{Event, Limits, Outcome, ShellAnswer, Side};
use crate::form::{Field, Form};
use crate::history::{History, Status};
use crate::time::seconds;
use crate::{dialogue, substitute, tool};
use act::{StubResult, act};
use secrets::Secrets;
pub(crate) use stubs::StubFile;
pub use stubs::Stubs;

/// The field of a stub with the texts that the program prints; in a dialogue, one text for each turn.
pub(crate) const PRINTS: &str = "prints";

/// The terminal of a run that opens no terminal and receives none.
const GIVEN_TERMINAL: &str = "term_given";

/// The report of a rehearsal, with secrets hidden.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rehearsal {
    /// Events, in order.
    pub path: Vec<RehearsalStep>,
    /// End of the rehearsal.
    pub end: RehearsalEnd,
    /// The last executed state, or `validation_failed` or `return_validation_failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_state: Option<String>,
    /// Number of executed states.
    pub states_executed: u32,
    /// Duration of the run according to the stubs.
    #[serde(with = "seconds")]
    pub elapsed_time: Duration,
    /// Return values of the run.
    pub return_values: BTreeMap<String, String>,
    /// Unused stubs, each as a sentence without a full stop.
    pub left_over: Vec<String>,
}

/// End of a rehearsal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum RehearsalEnd {
    /// The run completed.
    Completed,
    /// The run failed.
    Failed {
        /// The error.
        error: String,
    },
    /// A stub is missing.
    Stuck {
        /// The missing stub, and its place.
        error: String,
    },
}

/// One event of a rehearsal.
// Nearly half of the steps have the large variant, so boxing would save nothing.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RehearsalStep {
    /// The run executed a state.
    State {
        /// Time of the state's entry, in seconds since the run began.
        at: f64,
        /// The state.
        state: String,
        /// Number of the visit to the state, from 1.
        visit: u32,
        /// The action.
        tool: String,
        /// The parameters of the action, with all variables replaced.
        params: Map<String, Value>,
        /// The result of the action.
        result: Map<String, Value>,
        /// Origin of the result.
        source: Source,
        /// Duration of the action, in seconds.
        elapsed_time: f64,
    },
    /// The run went from one state to another.
    Transition {
        /// Time in seconds since the run began.
        at: f64,
        /// The state that the run left.
        from: String,
        /// The next state.
        to: String,
        /// The reason, as text.
        because: String,
    },
    /// A stub answered a gate.
    Gate {
        /// Time in seconds since the run began.
        at: f64,
        /// The state whose end is judged.
        state: String,
        /// The choices.
        choices: Vec<String>,
        /// The answer.
        answer: String,
    },
    /// The run checked one side of the contract with the shell.
    Contract {
        /// Time in seconds since the run began.
        at: f64,
        /// The side.
        side: Side,
        /// The variables that are set.
        variables: BTreeMap<String, String>,
        /// True if the run may continue.
        holds: bool,
        /// The error.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

/// Origin of an action's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A stub for the state.
    State,
    /// A stub for the tool.
    Tool,
    /// The default result of the tool.
    Usual,
    /// The rules. They know the result without an action.
    Rules,
}

/// Rehearses a run of `definition` to its end. `variables` are the initial variables.
///
/// Pure: the same arguments give the same rehearsal. Secrets of the contract and secret inputs are hidden.
#[must_use]
pub fn rehearse(
    definition: &Definition,
    stubs: &Stubs,
    mut variables: Map<String, Value>,
    limits: Limits,
) -> Rehearsal {
    for name in definition.secrets() {
        variables.entry(secret_variable(name)).or_insert_with(|| HIDDEN.into());
    }
    let opens_terminal = definition.opens_terminal();
    let session_variable = variables.get(SESSION).map(substitute::as_text);
    let session_id =
        stubs.session_id.clone().or(session_variable).or_else(|| (!opens_terminal).then(|| GIVEN_TERMINAL.to_owned()));
    let run = "run_0000000000000000".parse().expect("the id is valid");
    let mut state = RehearsalState::new(definition, stubs);
    state.secrets.learn_values(variables.iter().map(|(name, value)| (name, substitute::as_text(value))));
    state.secrets.learn_values(stubs.shell.iter().map(|(name, value)| (name, value.clone())));
    let is_in_shell = |name: &str| session_id.is_some() || stubs.shell.contains_key(name);
    if let Err(invalid) = definition.check_start(&variables, is_in_shell) {
        return state.refuse_start(invalid.to_string());
    }
    let start = Start {
        run,
        session_id,
        variables,
        limits,
        keep_terminals: false,
        save_on_success: false,
        parent: None,
        depth: 0,
        gateless: crate::GatelessNames::default(),
    };
    let mut input = Input::Start(start);
    // A decision may have several inputs: all branches that cannot start have their outcomes at once.
    let mut inputs = VecDeque::new();
    let missing_stub = loop {
        match state.handle_input(input) {
            Ok(more) => inputs.extend(more),
            Err(missing) => break Some(missing),
        }
        match inputs.pop_front() {
            Some(next) => input = next,
            None => break None,
        }
    };
    state.finish(missing_stub)
}

/// A rehearsal in progress.
struct RehearsalState<'a> {
    definition: &'a Definition,
    stubs: &'a Stubs,
    history: History,
    now: Timestamp,
    deadline: Option<Timestamp>,
    /// Current variables of the shell.
    shell: BTreeMap<String, String>,
    used: StubUses,
    /// Origin of the current state's result, and the current state.
    current: Option<(Source, CurrentState)>,
    path: Vec<RehearsalStep>,
    secrets: Secrets,
    /// True if the current `parallel` has its result.
    has_parallel_result: bool,
    /// Texts that the program of the current dialogue prints in its next turns.
    pending_prints: Option<VecDeque<String>>,
}

/// Number of uses of each stub, by key.
#[derive(Debug, Default)]
struct StubUses {
    states: BTreeMap<String, usize>,
    tools: BTreeMap<String, usize>,
    gates: BTreeMap<String, usize>,
}

/// An entered state.
struct CurrentState {
    tool: String,
    params: Map<String, Value>,
    limit: Option<Duration>,
    entered_at: Timestamp,
}

/// Description of a missing stub, as a sentence without a full stop.
type MissingStub = String;

impl<'a> RehearsalState<'a> {
    fn new(definition: &'a Definition, stubs: &'a Stubs) -> Self {
        Self {
            definition,
            stubs,
            history: History::new(),
            now: Timestamp(0),
            deadline: None,
            shell: stubs.shell.clone(),
            used: StubUses::default(),
            current: None,
            path: Vec::new(),
            secrets: Secrets::from_definition(definition),
            has_parallel_result: false,
            pending_prints: None,
        }
    }

    /// Decides on an input and answers the effects of the decision from the stubs. Returns the next inputs; none if
    /// the run has ended.
    fn handle_input(&mut self, input: Input) -> Result<Vec<Input>, MissingStub> {
        let decision = decide(self.definition, &self.history, input, self.now);
        for event in &decision.events {
            self.add_event(event);
        }
        self.history.extend(&decision.events);
        let mut next_inputs = Vec::new();
        for effect in decision.effects {
            next_inputs.extend(self.answer(effect)?);
        }
        Ok(next_inputs)
    }

    fn answer(&mut self, effect: Effect) -> Result<Option<Input>, MissingStub> {
        let input = match effect {
            Effect::Perform { step, tool, params, .. } if tool == tool::DIALOGUE => self.take_turn(step, &params)?,
            // The stub of a `parallel` is the result of all its branches.
            Effect::StartRun { step, .. } if self.is_branch_without_stub(&step) => {
                let fields = [("success", true.into()), ("status", "completed".into())];
                let result = fields.map(|(name, value): (&str, Value)| (name.to_owned(), value)).into_iter().collect();
                Input::Outcome { step, outcome: Outcome::Finished { result } }
            }
            Effect::StartRun { .. } if self.history.current().is_some_and(|current| current.tool == tool::PARALLEL) => {
                match self.history.current().map(|current| current.step.clone()) {
                    Some(step) if !self.has_parallel_result => {
                        self.has_parallel_result = true;
                        self.act(step, None)?
                    }
                    _ => return Ok(None),
                }
            }
            Effect::Perform { step, .. } | Effect::StartRun { step, .. } => self.act(step, None)?,
            Effect::Sleep { step, until, .. } => self.act(step, Some(until.since(self.now)))?,
            Effect::Answer { step, outcome } => {
                self.set_source(Source::Rules);
                Input::Outcome { step, outcome }
            }
            Effect::OpenGate { step, choices, form, .. } => self.answer_gate(step, choices, form.as_ref())?,
            Effect::SetVariables { step, variables, .. } => {
                self.shell.extend(variables);
                Input::ShellAnswered { step, answer: ShellAnswer::Told { values: BTreeMap::new() } }
            }
            Effect::ReadVariables { step, names, .. } => {
                let value = |name: String| (name.clone(), self.shell.get(&name).cloned());
                let values = names.into_iter().map(value).collect();
                Input::ShellAnswered { step, answer: ShellAnswer::Told { values } }
            }
            Effect::ArmDeadline { after } => {
                self.deadline = Some(self.now.after(after));
                return Ok(None);
            }
            Effect::DisarmDeadline => {
                self.deadline = None;
                return Ok(None);
            }
            // Stubs answer gates immediately, and a rehearsal never pauses.
            Effect::ExpireGate { .. }
            | Effect::PauseChild { .. }
            | Effect::ResumeChild { .. }
            | Effect::Abandon { .. }
            | Effect::CloseTerminal { .. }
            | Effect::CloseOpened { .. } => return Ok(None),
        };
        Ok(Some(input))
    }

    /// Answers the action of the current state and advances the clock by the duration of the action.
    fn act(&mut self, step: StepId, sleep_duration: Option<Duration>) -> Result<Input, MissingStub> {
        let Some((_, current)) = &self.current else { return Ok(Input::DeadlinePassed) };
        let StubResult { outcome, duration, source } =
            act(self.stubs, &mut self.used, &self.history, &step, current, sleep_duration)?;
        self.set_source(source);
        let end = self.now.after(duration);
        if let Some(deadline) = self.deadline.filter(|deadline| *deadline < end) {
            self.now = deadline;
            return Ok(Input::DeadlinePassed);
        }
        self.now = end;
        Ok(Input::Outcome { step, outcome })
    }

    /// Answers a turn of a dialogue with the next text of its stub.
    fn take_turn(&mut self, turn: StepId, params: &Map<String, Value>) -> Result<Input, MissingStub> {
        if self.pending_prints.is_none() {
            let Some(step) = self.history.current().map(|current| current.step.clone()) else {
                return Ok(Input::DeadlinePassed);
            };
            let input = self.act(step, None)?;
            let Input::Outcome { outcome: Outcome::Finished { result }, .. } = &input else { return Ok(input) };
            let Some(texts) = result.get(PRINTS) else { return Ok(input) };
            self.pending_prints = Some(match texts {
                Value::Array(texts) => texts.iter().map(substitute::as_text).collect(),
                text => VecDeque::from([substitute::as_text(text)]),
            });
        }
        self.secrets.learn_params(params);
        let patterns = params.get("patterns").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let result = match self.pending_prints.as_mut().and_then(VecDeque::pop_front) {
            Some(text) => dialogue::rehearsed_turn(patterns, &text),
            None => dialogue::rehearsed_end(),
        };
        Ok(Input::Outcome { step: turn, outcome: Outcome::Finished { result } })
    }

    fn answer_gate(&mut self, step: StepId, choices: Vec<String>, form: Option<&Value>) -> Result<Input, MissingStub> {
        let state = step.place.as_str();
        let use_index = self.used.gates.entry(state.to_owned()).or_default();
        let answers = self.stubs.gates.get(state);
        let offered_choices = || choices.iter().map(|choice| format!("'{choice}'")).collect::<Vec<_>>().join(", ");
        let Some(choice) = answers.and_then(|answers| answers.get(*use_index)) else {
            let repetition =
                if *use_index == 0 { String::new() } else { format!(" for the {} time", ordinal(*use_index + 1)) };
            return Err(format!(
                "State '{state}' asks for {}{repetition}; add {} under \"gates\"",
                if choices.is_empty() { "an answer" } else { "a judgement" },
                match form.map(Form::read) {
                    Some(Ok(form)) => {
                        let names: Vec<&str> = form.fields().iter().map(Field::name).collect();
                        format!("an object with its fields {}", names.join(", "))
                    }
                    _ if choices.is_empty() => "one".to_owned(),
                    _ => format!("one of {}", offered_choices()),
                }
            ));
        };
        *use_index += 1;
        if !choices.is_empty() && !choices.contains(choice) {
            return Err(format!("State '{state}' does not offer '{choice}'; it offers {}", offered_choices()));
        }
        if let Some(Ok(form)) = form.map(Form::read) {
            let fields = serde_json::from_str::<Map<String, Value>>(choice);
            let problems = fields.map_or_else(
                |_| vec!["the answer is not an object".to_owned()],
                |fields| form.fill(&fields).err().unwrap_or_default(),
            );
            if !problems.is_empty() {
                return Err(format!("State '{state}' does not accept its answer: {}", problems.join("; ")));
            }
        }
        self.path.push(RehearsalStep::Gate {
            at: self.now.as_seconds(),
            state: state.to_owned(),
            choices: choices.clone(),
            answer: choice.clone(),
        });
        Ok(Input::GateAnswered { step, choice: choice.clone(), by: "the stub file".into() })
    }

    /// Returns whether a step is a branch of a `parallel` without a stub. Such a branch completes.
    fn is_branch_without_stub(&self, step: &StepId) -> bool {
        self.history.current().is_some_and(|current| {
            let is_stubbed =
                self.stubs.states.contains_key(&current.step.place) || self.stubs.tools.contains_key(&current.tool);
            step.number_within(&current.step).is_some() && !is_stubbed
        })
    }

    fn set_source(&mut self, source: Source) {
        if let Some((current_source, _)) = &mut self.current {
            *current_source = source;
        }
    }

    /// Adds the path entry of an event.
    fn add_event(&mut self, event: &Event) {
        match event {
            Event::StateEntered { at, tool, params, limit, .. } => {
                self.secrets.learn_params(params);
                self.pending_prints = None;
                self.has_parallel_result = false;
                let (tool, params, limit, entered_at) = (tool.clone(), params.clone(), *limit, *at);
                self.current = Some((Source::Usual, CurrentState { tool, params, limit, entered_at }));
            }
            Event::StateCompleted { step, outcome, elapsed, .. } => {
                let Some((source, current)) = self.current.take() else { return };
                self.path.push(RehearsalStep::State {
                    at: current.entered_at.as_seconds(),
                    state: step.place.clone(),
                    visit: step.visit,
                    result: outcome.result(&step.place, &current.tool, current.limit).into_owned(),
                    tool: current.tool,
                    params: current.params,
                    source,
                    elapsed_time: elapsed.as_secs_f64(),
                });
            }
            Event::Transitioned { at, from, to, because } => self.path.push(RehearsalStep::Transition {
                at: at.as_seconds(),
                from: from.clone(),
                to: to.clone(),
                because: because.clone(),
            }),
            Event::ContractChecked { at, side, values, holds, error, .. } => self.path.push(RehearsalStep::Contract {
                at: at.as_seconds(),
                side: *side,
                variables: values.clone(),
                holds: *holds,
                error: error.clone(),
            }),
            Event::Started { .. }
            | Event::ItemsBegan { .. }
            | Event::QuestionAnswered { .. }
            | Event::ScreenRead { .. }
            | Event::ScreensKept { .. }
            | Event::GateOpened { .. }
            | Event::GateAnswered { .. }
            | Event::GateAsked { .. }
            | Event::GateExpired { .. }
            | Event::GateCancelled { .. }
            | Event::PatchProposed { .. }
            | Event::PatchSaved { .. }
            | Event::ChildStarted { .. }
            | Event::ChildEnded { .. }
            | Event::BranchBegan { .. }
            | Event::BranchEnded { .. }
            | Event::ChildWaits { .. }
            | Event::Paused { .. }
            | Event::HeldBack { .. }
            | Event::Resumed { .. }
            | Event::ChildGoesOn { .. }
            | Event::VariablesAsked { .. }
            | Event::VariablesTold { .. }
            | Event::FinallyBegan { .. }
            | Event::Completed { .. }
            | Event::Failed { .. }
            | Event::Cancelled { .. } => {}
        }
    }

    /// Returns the rehearsal of a run that cannot start.
    fn refuse_start(self, error: String) -> Rehearsal {
        self.secrets.redact(Rehearsal {
            path: Vec::new(),
            end: RehearsalEnd::Failed { error },
            final_state: Some("validation_failed".to_owned()),
            states_executed: 0,
            elapsed_time: Duration::ZERO,
            return_values: BTreeMap::new(),
            left_over: Vec::new(),
        })
    }

    /// Returns the rehearsal at its end; `missing_stub` prevents the next step.
    fn finish(self, missing_stub: Option<MissingStub>) -> Rehearsal {
        let end = match (missing_stub, self.history.status()) {
            (Some(error), _) => RehearsalEnd::Stuck { error },
            (None, Status::Completed) => RehearsalEnd::Completed,
            (None, Status::Failed { error, .. } | Status::Cancelled { reason: error }) => {
                RehearsalEnd::Failed { error: error.clone() }
            }
            (None, Status::NotStarted | Status::Running | Status::Waiting) => {
                RehearsalEnd::Stuck { error: "The run waits for an event that no stub provides".to_owned() }
            }
        };
        let left_over = self.unused_stubs();
        self.secrets.redact(Rehearsal {
            end,
            final_state: self.history.final_state().map(str::to_owned),
            states_executed: self.history.states_executed(),
            elapsed_time: self.now.since(Timestamp(0)),
            return_values: self.history.return_values().clone(),
            left_over,
            path: self.path,
        })
    }

    fn unused_stubs(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        let mut report_unused = |kind: &str, name: &str, count: Option<usize>, used: &BTreeMap<String, usize>| {
            let used = used.get(name).copied().unwrap_or(0);
            match count {
                _ if used == 0 => sentences.push(format!("stub for {kind} '{name}' was not used")),
                Some(count) if count > used => {
                    sentences.push(format!("of {count} answers for {kind} '{name}' only {used} were used"));
                }
                _ => {}
            }
        };
        self.stubs
            .states
            .iter()
            .for_each(|(name, answers)| report_unused("state", name, answers.count(), &self.used.states));
        self.stubs
            .tools
            .iter()
            .for_each(|(name, answers)| report_unused("tool", name, answers.count(), &self.used.tools));
        self.stubs
            .gates
            .iter()
            .for_each(|(name, answers)| report_unused("the gate of", name, answers.count(), &self.used.gates));
        sentences
    }
}

/// Returns an ordinal: `2nd`.
fn ordinal(number: usize) -> String {
    let ending = match (number % 10, number % 100) {
        (1, tens) if tens != 11 => "st",
        (2, tens) if tens != 12 => "nd",
        (3, tens) if tens != 13 => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}
