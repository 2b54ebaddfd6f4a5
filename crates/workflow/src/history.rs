//! The state of a run, folded from its events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use steplatch_clock::Timestamp;
use steplatch_ids::{RunId, StepId};

use crate::contract::typed_argument;
use crate::event::{
    Branch, By, Choice, Continuation, DialogueAnswer, Event, FailureReason, LastScreen, Limits, NONE_OF_THESE, Outcome,
    Purpose, ShellAnswer, Side,
};
use crate::gateless::GatelessNames;
use crate::items::ItemLoop;
use crate::parallel::{Branches, Parallel, left_open};
use crate::question::{AnsweredBy, Question};
use crate::repair::{DECLINE, Proposal};
use crate::rules::Rules;
use crate::substitute::as_text;
use crate::tool;
use crate::variables::Variables;

/// The status of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Status {
    /// The run has not begun.
    #[default]
    NotStarted,
    /// The run is in progress.
    Running,
    /// The run waits for an answer at a gate; its clock is stopped.
    Waiting,
    /// The run completed.
    Completed,
    /// The run failed.
    Failed {
        /// The kind of failure.
        reason: FailureReason,
        /// The error.
        error: String,
    },
    /// The run was cancelled.
    Cancelled {
        /// The reason.
        reason: String,
    },
}

/// The pause of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Pause {
    /// Start of the pause.
    pub since: Timestamp,
    /// Requester of the pause.
    pub by: String,
    /// True if the parent run requested the pause.
    pub above: bool,
}

/// The current state of a run, and the action that the run waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct CurrentStep {
    /// The state, and the number of the visit to it.
    pub step: StepId,
    /// The tool of the action.
    pub tool: String,
    /// The parameters of the action.
    pub params: Map<String, Value>,
    /// Time limit of the state.
    pub limit: Option<Duration>,
    /// Time of the state's entry.
    pub entered_at: Timestamp,
}

/// Minimum remaining time of a state for a repeated request of its action. An outcome that already exists arrives
/// within this time.
const MIN_TIME_LEFT: Duration = Duration::from_secs(1);

impl CurrentStep {
    /// Returns the step with its remaining time limit, for a repeated request of its action.
    pub(crate) fn with_time_left(&self, now: Timestamp) -> Self {
        Self { limit: self.limit_left(now), ..self.clone() }
    }

    /// Returns the remaining time limit.
    pub(crate) fn limit_left(&self, now: Timestamp) -> Option<Duration> {
        let elapsed = now.since(self.entered_at);
        self.limit.map(|limit| limit.saturating_sub(elapsed).max(MIN_TIME_LEFT).min(limit))
    }
}

/// A request to the shell that has no answer yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// The step of the request.
    pub step: StepId,
    /// The terminal of the shell.
    pub session_id: String,
    /// The purpose of the request.
    pub purpose: Purpose,
    /// The variables to set, with their values.
    pub set: BTreeMap<String, String>,
    /// The variables to read.
    pub read: Vec<String>,
    /// The next state if the contract holds; `None` if the run then completes.
    pub then: Option<String>,
}

/// A gate that waits for an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// The step of the gate.
    pub step: StepId,
    /// The question or choices.
    pub asks: GateRequest,
    /// Basis of the answer.
    pub context: Map<String, Value>,
    /// Opening time of the gate.
    pub opened_at: Timestamp,
    /// The ids of the terminals that a person sees; `None` if they are not recorded.
    pub terminals: Option<Vec<String>>,
}

/// The subject of a gate.
#[derive(Debug, Clone, PartialEq)]
pub enum GateRequest {
    /// The branch that the run takes from the end of a state.
    Judgement {
        /// The choices, except "none of these".
        choices: Vec<Choice>,
        /// Branch to take if the answer is that no choice holds.
        otherwise: Branch,
    },
    /// Acceptance of a patch of the machine.
    Patch {
        /// The patch.
        proposal: Box<Proposal>,
        /// The gate that was open at the proposal. It waits again if a person declines the patch.
        over: Box<Gate>,
    },
    /// The question of a state's action.
    Answer {
        /// The question.
        question: Question,
        /// Deadline of a valid answer.
        expires_at: Option<Timestamp>,
        /// The entered state whose action is the gate.
        entered: Box<CurrentStep>,
    },
}

impl Gate {
    /// Returns the question as text.
    #[must_use]
    pub fn prompt(&self) -> String {
        match &self.asks {
            GateRequest::Judgement { otherwise: Branch::Fail { reason: FailureReason::Unexpected, error }, .. } => {
                format!("{error}. Where should the run continue?")
            }
            GateRequest::Judgement { .. } => format!("Which condition holds after state '{}'?", self.step.place),
            GateRequest::Patch { proposal, .. } => proposal.prompt(),
            GateRequest::Answer { question, .. } => question.prompt.clone(),
        }
    }

    /// Returns the possible answers; empty if any text is an answer.
    #[must_use]
    pub fn choices(&self) -> Vec<&str> {
        match &self.asks {
            GateRequest::Judgement { choices, .. } => {
                choices.iter().map(|choice| choice.description.as_str()).chain([NONE_OF_THESE]).collect()
            }
            GateRequest::Patch { proposal, .. } => proposal.answers().collect(),
            GateRequest::Answer { question, .. } => question.choices.iter().map(String::as_str).collect(),
        }
    }

    /// Returns the choices that only a person may make, although an agent may answer the gate.
    #[must_use]
    pub fn choices_for_person(&self) -> Vec<&str> {
        match &self.asks {
            GateRequest::Judgement { choices, .. } => {
                choices.iter().filter(|choice| choice.for_person).map(|choice| choice.description.as_str()).collect()
            }
            GateRequest::Patch { .. } | GateRequest::Answer { .. } => Vec::new(),
        }
    }

    /// Returns the form to fill in, if the answer has several fields.
    #[must_use]
    pub fn form(&self) -> Option<&Value> {
        match &self.asks {
            GateRequest::Judgement { .. } | GateRequest::Patch { .. } => None,
            GateRequest::Answer { question, .. } => question.form.as_ref(),
        }
    }

    /// Returns the actors that may answer.
    #[must_use]
    pub fn answered_by(&self) -> AnsweredBy {
        match &self.asks {
            GateRequest::Judgement { .. } => AnsweredBy::Agent,
            GateRequest::Patch { .. } => AnsweredBy::Human,
            GateRequest::Answer { question, .. } => question.answered_by,
        }
    }

    /// Returns the groups of approvers that notifications reach, each with the seconds until then.
    #[must_use]
    pub fn approvers(&self) -> BTreeMap<String, u64> {
        match &self.asks {
            GateRequest::Judgement { .. } | GateRequest::Patch { .. } => BTreeMap::new(),
            GateRequest::Answer { question, .. } => question.approvers.clone(),
        }
    }

    /// Returns the deadline of a valid answer.
    #[must_use]
    pub fn expires_at(&self) -> Option<Timestamp> {
        match &self.asks {
            GateRequest::Judgement { .. } | GateRequest::Patch { .. } => None,
            GateRequest::Answer { expires_at, .. } => *expires_at,
        }
    }

    /// Returns whether the gate asks where the run continues after an unexpected result. A patch of the machine can be
    /// proposed at such a gate.
    #[must_use]
    pub fn asks_where_to_go_on(&self) -> bool {
        let GateRequest::Judgement { otherwise, .. } = &self.asks else { return false };
        matches!(otherwise, Branch::Fail { reason: FailureReason::Unexpected, .. })
    }
}

/// A patch of the machine that a person accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Repair {
    /// The step of the question about the patch.
    pub step: StepId,
    /// Time of the acceptance.
    pub at: Timestamp,
    /// The state that the run waited in.
    pub state: String,
    /// Reason for the proposal.
    pub reason: String,
    /// Author of the proposal.
    pub proposed_by: String,
    /// Person that accepted the patch.
    pub accepted_by: By,
    /// The document before the patch.
    pub before: Arc<Value>,
    /// The document with the patch applied.
    pub definition: Arc<Value>,
    /// Result of saving the patched machine in the library; `None` before that.
    pub saving: Option<PatchSaving>,
}

/// Result of saving a patched machine in the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchSaving {
    /// The version in the library.
    pub version: Option<u32>,
    /// The error of a refusal by the library.
    pub error: Option<String>,
}

/// The field of a gate's context with the output of the state when its workflow was recorded.
pub const RECORDED: &str = "recorded";

/// The field of a gate's context with the screen.
const SCREEN_FIELD: &str = "screen_content";

/// The state of a run after the events that were applied.
///
/// Applying an event never fails.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    events_applied: usize,
    status: Status,
    run: Option<RunId>,
    definition: Option<Arc<Value>>,
    semantics_version: u32,
    parent: Option<StepId>,
    depth: u32,
    recursion_depth: u32,
    limits: Limits,
    keep_terminals: bool,
    save_on_success: bool,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    variables: Variables,
    visits: BTreeMap<String, u32>,
    states_executed: u32,
    last_state: Option<String>,
    current: Option<CurrentStep>,
    /// The items of a state, until its last item has ended.
    items: Option<ItemLoop>,
    /// Answers in the current step, if it is a dialogue.
    answers: Vec<DialogueAnswer>,
    /// The screen for the conditions of a step; `None` if reading it failed.
    screen: Option<(StepId, Option<String>)>,
    exchange: Option<Exchange>,
    gate: Option<Gate>,
    /// Workflows, nodes and graphs that the run starts by name and that never ask a person.
    gateless: GatelessNames,
    /// The last gate that a person answered.
    approved_at: Option<StepId>,
    /// The terminals that this person saw, if the history has them.
    approved_terminals: Option<Vec<String>>,
    /// The last answer to a gate with its reason, if it has one.
    decision: Option<String>,
    /// Number of proposed patches of the machine.
    proposals: u32,
    /// The accepted patches, in order.
    repairs: Vec<Repair>,
    /// The branches of the current step, if it is a `parallel`.
    branches: Option<Branches>,
    /// The workflows of the current step's child runs, by the step or part that started them.
    children: BTreeMap<StepId, String>,
    /// The steps of the child runs that wait for an answer.
    waiting: BTreeSet<StepId>,
    paused: Option<Pause>,
    /// The continuation that is deferred until the end of the pause.
    deferred: Option<Continuation>,
    /// Stop time of the run's clock, if the clock is stopped.
    clock_stopped_at: Option<Timestamp>,
    /// Total duration of earlier stops of the clock.
    stopped_duration: Duration,
    /// Number of requests to the shell.
    exchanges: u32,
    /// The arguments with a known value.
    arguments: BTreeMap<String, String>,
    arguments_checked: bool,
    /// The finally state of the run, once it has begun.
    finally: Option<FinallyPhase>,
    return_values: BTreeMap<String, String>,
    /// Value from a `return` action.
    result: Option<Value>,
    /// The screens of the run's terminals when it failed.
    last_screens: Vec<LastScreen>,
    terminals: Terminals,
}

/// Returns whether a step runs a command in a separate shell.
fn opens_shell(current: &CurrentStep) -> bool {
    current.tool == tool::RUN_COMMAND && current.params.get("session_id").is_none_or(Value::is_null)
}

/// The last part of a run: its finally state and the states after it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FinallyPhase {
    /// End of the run after these states.
    pub(crate) end: Branch,
    began: Timestamp,
    /// The last state before the finally state.
    last_state: Option<String>,
}

/// Minimum time for the finally state and the states after it, even if the run exceeds its time limit.
const MIN_FINALLY_TIME: Duration = Duration::from_secs(60);

/// Number of additional states allowed from the finally state on.
const ADDITIONAL_FINALLY_STATES: u32 = 20;

/// The terminals that a run works with.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Terminals {
    rules: Rules,
    given: Option<String>,
    /// Terminals that the run opened, or took over from a nested run that opened them. A failure closes them.
    open: Vec<String>,
    /// The terminal that a nested run left open, for a run without a terminal.
    taken_over: Option<String>,
    /// The terminal that an error names if none is open.
    last: Option<String>,
    /// Terminals in the results of failed openings. No action works on them.
    failed: Vec<String>,
    /// Terminals that the branches of a `parallel` left open. Actions use them only by name.
    left_by_branches: Vec<String>,
    /// Steps with an unknown outcome that may have opened a terminal.
    unclaimed: Vec<StepId>,
}

impl Terminals {
    fn begin(rules: Rules, given: Option<String>) -> Self {
        Self { rules, given, ..Self::default() }
    }

    /// Records the effect of an action on the terminals.
    pub(crate) fn record(&mut self, current: &CurrentStep, outcome: &Outcome, result: &Map<String, Value>) {
        let session = |fields: &Map<String, Value>| {
            fields.get("session_id").and_then(Value::as_str).filter(|id| !id.is_empty()).map(str::to_owned)
        };
        let succeeded = tool::succeeded(result);
        match current.tool.as_str() {
            tool::OPEN_TERMINAL if matches!(outcome, Outcome::TimedOut | Outcome::Unknown) => self.abandon(current),
            tool::OPEN_TERMINAL => match session(result) {
                Some(session) if succeeded => self.add_open(session),
                Some(session) => self.failed.push(session),
                None => {}
            },
            tool::RUN_COMMAND if matches!(outcome, Outcome::TimedOut | Outcome::Unknown) => self.abandon(current),
            // A separate shell stays open while the command continues.
            tool::RUN_COMMAND if opens_shell(current) => {
                if let Some(session) = session(result) {
                    self.add_open(session);
                }
            }
            tool::EXIT_TERMINAL if succeeded => {
                if let Some(closed) = session(&current.params).or_else(|| session(result)) {
                    self.remove_closed(&closed);
                }
            }
            tool::RUN_WORKFLOW if succeeded && self.rules.follows_terminals() && self.current_terminal().is_none() => {
                if let Some(terminal) = session(result) {
                    let open_terminals = result.get("open_terminals").and_then(Value::as_array).into_iter().flatten();
                    if open_terminals.filter_map(Value::as_str).any(|open| open == terminal) {
                        self.add_open(terminal.clone());
                    }
                    self.taken_over = Some(terminal);
                }
                self.take_over(result);
            }
            tool::RUN_WORKFLOW if succeeded => self.take_over(result),
            _ => {}
        }
    }

    /// Takes over the terminals that a nested run left open, so that this run closes them. Actions use them only by
    /// name.
    fn take_over(&mut self, result: &Map<String, Value>) {
        let left_open =
            result.get("open_terminals").and_then(Value::as_array).filter(|_| self.rules.closes_terminals());
        for terminal in left_open.into_iter().flatten().filter_map(Value::as_str) {
            if !self.open.iter().any(|open| open == terminal) {
                self.open.insert(0, terminal.to_owned());
            }
        }
    }

    /// Records that the outcome of a step will never arrive. The step may have opened a terminal.
    pub(crate) fn abandon(&mut self, current: &CurrentStep) {
        if current.tool == tool::OPEN_TERMINAL || opens_shell(current) {
            self.unclaimed.push(current.step.clone());
        }
    }

    /// Returns the terminals that the run closes at its end, and the steps that may have opened a terminal.
    pub(crate) fn to_close(&self) -> (impl Iterator<Item = &String>, &[StepId]) {
        (self.open.iter().chain(&self.failed).chain(&self.left_by_branches), &self.unclaimed)
    }

    fn add_open(&mut self, opened: String) {
        if !self.open.contains(&opened) {
            self.open.push(opened.clone());
        }
        self.last = Some(opened);
    }

    fn remove_closed(&mut self, closed: &str) {
        self.open.retain(|open| open != closed);
        let is_closed = |terminal: &mut String| *terminal == closed;
        let closed_given = if self.rules.follows_terminals() { self.given.take_if(is_closed) } else { None };
        let removed = closed_given.or(self.taken_over.take_if(is_closed));
        if self.last.is_none() {
            self.last = removed;
        }
    }

    /// Returns the terminals that the run must close when it fails.
    pub(crate) fn open(&self) -> &[String] {
        &self.open
    }

    /// Returns the open terminal for an action that names none: the given terminal of the run, else the last opened
    /// terminal, else the terminal that a nested run left open.
    pub(crate) fn current_terminal(&self) -> Option<&str> {
        self.given.as_ref().or(self.open.last()).or(self.taken_over.as_ref()).map(String::as_str)
    }

    /// Returns the terminal that a nested run inherits.
    pub(crate) fn terminal_for_child(&self) -> Option<&str> {
        if self.rules.follows_terminals() { self.current_terminal() } else { self.current_or_last() }
    }

    /// Returns whether the shell of the contract started before the run opened a terminal, so that the arguments must
    /// be exported. The first terminal that a run opens has the arguments in its environment.
    pub(crate) fn shell_predates_run(&self) -> bool {
        self.given.is_some()
            || self.current_terminal().is_some_and(|session| self.taken_over.as_deref() == Some(session))
    }

    /// Returns whether the run has no terminal so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.current_or_last().is_none()
    }

    /// Returns the terminal for an action that names none. If all are closed, returns the last terminal, so that the
    /// error can name it.
    pub(crate) fn current_or_last(&self) -> Option<&str> {
        self.current_terminal().or(self.last.as_deref())
    }
}

impl History {
    /// Returns the history of a run that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies one more event.
    pub fn apply(&mut self, event: &Event) {
        self.events_applied += 1;
        match event {
            Event::Started {
                at,
                run,
                definition,
                variables,
                session_id,
                limits,
                keep_terminals,
                save_on_success,
                semantics_version,
                parent,
                depth,
                gateless,
            } => {
                self.gateless.clone_from(gateless);
                self.status = Status::Running;
                self.started_at = Some(*at);
                self.run = Some(run.clone());
                self.limits = *limits;
                self.keep_terminals = *keep_terminals;
                self.save_on_success = *save_on_success;
                self.semantics_version = *semantics_version;
                let rules = self.rules();
                self.parent.clone_from(parent);
                self.depth = *depth;
                self.recursion_depth = *depth;
                self.terminals = Terminals::begin(rules, session_id.clone());
                self.variables = Variables::begin(rules, variables.clone());
                self.variables.set_standard("run_id", run.as_str());
                if let Some(name) = definition.get("name").and_then(Value::as_str) {
                    self.variables.set_standard("workflow_name", name);
                }
                if let Some(session) = session_id {
                    self.variables.set_standard("session_id", session.as_str());
                }
                for side in ["arguments", "return_values"] {
                    let names = definition.get(side).and_then(Value::as_object);
                    self.variables.leave_to_shell(names.into_iter().flat_map(Map::keys));
                }
                if rules.fills_arguments() {
                    self.variables.add_defaults(defaults(definition));
                }
                self.definition = Some(definition.clone());
            }
            Event::StateEntered { at, step, tool, params, limit } => {
                self.states_executed += 1;
                self.visits.insert(step.place.clone(), step.visit);
                self.last_state = Some(step.place.clone());
                if self.rules().counts_visits() {
                    self.variables.set_visits(step.visit);
                }
                self.items.take_if(|items| !items.belongs_to(&step.place));
                if let Some(items) = &mut self.items {
                    let name = items.name().to_owned();
                    if let Some(item) = items.begin_next() {
                        self.variables.set_item(name, item.clone());
                    }
                }
                self.branches = (tool == tool::PARALLEL).then(Branches::default);
                self.current = Some(CurrentStep {
                    step: step.clone(),
                    tool: tool.clone(),
                    params: params.clone(),
                    limit: *limit,
                    entered_at: *at,
                });
            }
            Event::ItemsBegan { state, name, items, .. } => self.items = Some(ItemLoop::begin(state, name, items)),
            Event::QuestionAnswered { answer, .. } => self.answers.push(answer.clone()),
            Event::ScreenRead { step, screen, .. } => self.screen = Some((step.clone(), screen.clone())),
            Event::StateCompleted { step, outcome, .. } => {
                self.screen = None;
                self.waiting.clear();
                self.complete(step, outcome);
            }
            Event::ChildStarted { step, workflow, .. } => {
                self.children.insert(step.clone(), workflow.clone());
            }
            Event::ChildEnded { step, .. } => {
                self.children.remove(step);
                self.waiting.remove(step);
            }
            Event::ChildWaits { step, .. } => {
                self.waiting.insert(step.clone());
            }
            Event::ChildGoesOn { step, .. } => {
                self.waiting.remove(step);
            }
            Event::BranchBegan { step, .. } => {
                if let (Some(number), Some(branches)) = (self.branch_number(step), &mut self.branches) {
                    branches.begin(number);
                }
            }
            Event::BranchEnded { step, result, .. } => {
                self.waiting.remove(step);
                if let (Some(number), Some(branches)) = (self.branch_number(step), &mut self.branches) {
                    branches.end(number, result.clone());
                    self.terminals.left_by_branches.extend(left_open(result).map(str::to_owned));
                }
            }
            Event::Paused { at, by, above } => {
                self.paused = Some(Pause { since: *at, by: by.clone(), above: *above });
            }
            Event::HeldBack { onward, .. } => self.deferred = Some(onward.clone()),
            Event::Resumed { .. } => (self.paused, self.deferred) = (None, None),
            Event::Transitioned { .. } => {}
            Event::GateOpened { at, step, choices, otherwise, context } => {
                self.status = Status::Waiting;
                self.gate = Some(Gate {
                    step: step.clone(),
                    asks: GateRequest::Judgement { choices: choices.clone(), otherwise: otherwise.clone() },
                    context: context.clone(),
                    opened_at: *at,
                    terminals: None,
                });
            }
            Event::GateAsked { at, step, question, expires_at, context, terminals } => {
                if let Some(entered) = self.current.take_if(|current| current.step == *step) {
                    let (question, expires_at, entered) = (question.clone(), *expires_at, Box::new(entered));
                    self.status = Status::Waiting;
                    self.gate = Some(Gate {
                        step: step.clone(),
                        asks: GateRequest::Answer { question, expires_at, entered },
                        context: context.clone(),
                        opened_at: *at,
                        terminals: terminals.clone(),
                    });
                }
            }
            Event::PatchProposed { at, step, proposal, terminals } => {
                self.proposals += 1;
                if let Some(over) = self.gate.take() {
                    let field = |name: &str| Some((name.to_owned(), over.context.get(name)?.clone()));
                    let mut context = proposal.context();
                    context.extend([RECORDED, SCREEN_FIELD].into_iter().filter_map(field));
                    let (proposal, over) = (proposal.clone(), Box::new(over));
                    let asks = GateRequest::Patch { proposal, over };
                    let terminals = terminals.clone();
                    self.gate = Some(Gate { step: step.clone(), asks, context, opened_at: *at, terminals });
                }
            }
            Event::PatchSaved { step, version, error, .. } => {
                let saving = PatchSaving { version: *version, error: error.clone() };
                if let Some(repair) = self.repairs.iter_mut().find(|repair| repair.step == *step) {
                    repair.saving = Some(saving);
                }
            }
            Event::GateAnswered { at, step, choice, by } if self.is_proposal(step) => {
                self.approve(step);
                self.answer_proposal(*at, choice, by);
            }
            Event::GateAnswered { step, choice, by, .. } => {
                self.decision = by.decision(choice);
                if self.gate.as_ref().is_some_and(|gate| gate.answered_by() == AnsweredBy::Human) {
                    self.approve(step);
                }
                self.close_gate(step);
                self.variables.set_standard("answer", choice.as_str());
            }
            Event::GateExpired { step, .. } => self.close_gate(step),
            // The next event, the end of the run or the answer about a patch, closes the gate.
            Event::GateCancelled { .. } => {}
            Event::VariablesAsked { step, session_id, purpose, set, read, then, .. } => {
                self.exchanges += 1;
                self.exchange = Some(Exchange {
                    step: step.clone(),
                    session_id: session_id.clone(),
                    purpose: *purpose,
                    set: set.clone(),
                    read: read.clone(),
                    then: then.clone(),
                });
            }
            Event::VariablesTold { step, answer, .. } => self.record_shell_answer(step, answer),
            Event::ContractChecked { side: Side::Arguments, values, substituted, .. } => {
                self.arguments_checked = true;
                let document = self.definition.as_deref().unwrap_or(&Value::Null);
                let typed = |(name, text): (&String, &String)| (name.clone(), typed_argument(document, name, text));
                self.variables.add_arguments(substituted.iter().map(typed));
                self.arguments.clone_from(values);
            }
            Event::ContractChecked { side: Side::ReturnValues, values, .. } => self.return_values.clone_from(values),
            Event::FinallyBegan { at, end } => {
                self.abandon_all();
                self.status = Status::Running;
                self.items = None;
                let last_state = self.last_state.clone();
                self.finally = Some(FinallyPhase { end: end.clone(), began: *at, last_state });
            }
            Event::ScreensKept { screens, .. } => self.last_screens.clone_from(screens),
            Event::Completed { at } => self.end(Status::Completed, *at),
            Event::Failed { at, reason, error } => {
                self.end(Status::Failed { reason: *reason, error: error.clone() }, *at);
            }
            Event::Cancelled { at, reason } => self.end(Status::Cancelled { reason: reason.clone() }, *at),
        }
        self.update_clock(event.time());
    }

    /// Updates the stops of the run's clock.
    fn update_clock(&mut self, at: Timestamp) {
        match self.clock_stopped_at {
            None if self.is_clock_stopped() => self.clock_stopped_at = Some(at),
            Some(since) if !self.is_clock_stopped() => {
                self.stopped_duration += at.since(since);
                self.clock_stopped_at = None;
            }
            _ => {}
        }
    }

    /// Returns the last answer to a gate with its reason, if it has one.
    #[must_use]
    pub fn decision(&self) -> Option<&str> {
        self.decision.as_deref()
    }

    /// Returns the last gate that a person answered. The answer approved the actions after it.
    #[must_use]
    pub fn approved_at(&self) -> Option<&StepId> {
        self.approved_at.as_ref()
    }

    /// Returns the ids of the terminals that the answering person saw at that gate, if the history has them.
    #[must_use]
    pub fn approved_terminals(&self) -> Option<&[String]> {
        self.approved_terminals.as_deref()
    }

    /// Records the terminals that a person sees at the open gate.
    pub fn show_terminals(&mut self, ids: Vec<String>) {
        if let Some(gate) = &mut self.gate {
            gate.terminals = Some(ids);
        }
    }

    fn approve(&mut self, step: &StepId) {
        self.approved_at = Some(step.clone());
        self.approved_terminals = self.gate.as_mut().and_then(|gate| gate.terminals.take());
    }

    /// Returns the names of workflows, nodes and graphs that never ask a person.
    pub(crate) fn gateless(&self) -> &GatelessNames {
        &self.gateless
    }

    fn close_gate(&mut self, step: &StepId) {
        if let Some(gate) = self.gate.take_if(|gate| gate.step == *step) {
            self.status = Status::Running;
            if let GateRequest::Answer { entered, .. } = gate.asks {
                self.current = Some(*entered);
            }
        }
    }

    /// Returns whether the gate of this step asks about a patch.
    pub(crate) fn is_proposal(&self, step: &StepId) -> bool {
        self.gate.as_ref().is_some_and(|gate| gate.step == *step && matches!(gate.asks, GateRequest::Patch { .. }))
    }

    /// Applies the answer to a proposed patch. If the patch is declined, the earlier gate waits again.
    fn answer_proposal(&mut self, at: Timestamp, answer: &str, by: &By) {
        let Some(Gate { step, asks: GateRequest::Patch { proposal, over }, .. }) = self.gate.take() else { return };
        if answer == DECLINE {
            self.gate = Some(*over);
            return;
        }
        self.status = Status::Running;
        let before = self.definition.replace(proposal.definition.clone()).unwrap_or_default();
        if self.rules().fills_arguments() {
            self.variables.add_defaults(defaults(&proposal.definition));
        }
        let Proposal { state, definition, reason, by: proposed_by, .. } = *proposal;
        let accepted_by = by.clone();
        let repair = Repair { step, at, state, reason, proposed_by, accepted_by, before, definition, saving: None };
        self.repairs.push(repair);
    }

    fn complete(&mut self, step: &StepId, outcome: &Outcome) {
        if let Some(current) = self.current.take_if(|current| current.step == *step) {
            self.children.clear();
            self.branches = None;
            self.answers.clear();
            let result = outcome.result(&step.place, &current.tool, current.limit);
            match &mut self.items {
                Some(items) if items.continues_after(&result) => items.add_result(&result),
                _ => self.items = None,
            }
            self.variables.record(&step.place, &result);
            self.terminals.record(&current, outcome, &result);
            if current.tool == tool::RETURN {
                self.result = result.get(tool::RESULT).cloned();
            }
            if matches!(current.tool.as_str(), tool::RUN_WORKFLOW | tool::PARALLEL)
                && let Some(reached) = result.get("recursion_depth").and_then(Value::as_u64)
            {
                self.recursion_depth = self.recursion_depth.max(u32::try_from(reached).unwrap_or(u32::MAX));
            }
        }
    }

    fn record_shell_answer(&mut self, step: &StepId, answer: &ShellAnswer) {
        if let Some(exchange) = self.exchange.take_if(|exchange| exchange.step == *step)
            && exchange.purpose.side() == Side::Arguments
        {
            self.arguments.extend(known_values(&exchange, answer));
        }
    }

    fn end(&mut self, status: Status, at: Timestamp) {
        self.status = status;
        self.ended_at = Some(at);
        self.abandon_all();
        self.paused = None;
        self.deferred = None;
    }

    /// Removes everything that the run waits for.
    fn abandon_all(&mut self) {
        if let Some(current) = self.current.take() {
            self.terminals.abandon(&current);
        }
        self.answers.clear();
        self.screen = None;
        self.exchange = None;
        self.gate = None;
        self.branches = None;
        self.children.clear();
        self.waiting.clear();
    }

    /// Returns the number of applied events: the index of the next event.
    #[must_use]
    pub fn events_applied(&self) -> usize {
        self.events_applied
    }

    /// Returns the status of the run.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Returns whether the run has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !matches!(self.status, Status::NotStarted | Status::Running | Status::Waiting)
    }

    /// Returns the run's id, once it has started.
    #[must_use]
    pub fn run(&self) -> Option<&RunId> {
        self.run.as_ref()
    }

    /// Returns the current document of the run.
    #[must_use]
    pub fn definition(&self) -> Option<&Value> {
        self.definition.as_deref()
    }

    /// Returns the first accepted patch without a request to save it in the library.
    #[must_use]
    pub fn unsaved_repair(&self) -> Option<&Repair> {
        self.repairs.iter().find(|repair| repair.saving.is_none())
    }

    /// Adds a field to the context of the open gate. The event of the gate must have the same field.
    pub fn add_to_gate(&mut self, name: &str, value: Value) {
        if let Some(gate) = &mut self.gate {
            gate.context.insert(name.to_owned(), value);
        }
    }

    /// Returns the accepted patches of the machine, in order.
    #[must_use]
    pub fn repairs(&self) -> &[Repair] {
        &self.repairs
    }

    /// Returns the number of proposed patches.
    pub(crate) fn proposals(&self) -> u32 {
        self.proposals
    }

    /// Replaces the document of the run with an equal document that other runs share.
    pub fn share_definition(&mut self, document: Arc<Value>) {
        debug_assert_eq!(self.definition.as_deref(), Some(&*document));
        self.definition = Some(document);
    }

    /// Returns the version of the rules that the run follows.
    #[must_use]
    pub fn semantics_version(&self) -> u32 {
        self.semantics_version
    }

    /// Returns the rules that the run follows.
    pub(crate) fn rules(&self) -> Rules {
        Rules::for_version(self.semantics_version)
    }

    /// Returns the step of the parent run that started this run.
    #[must_use]
    pub fn parent(&self) -> Option<&StepId> {
        self.parent.as_ref()
    }

    /// Returns the run's depth below the outermost run: 0 for a run without a parent.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Returns the deepest level that this run and the runs below it reached.
    #[must_use]
    pub fn recursion_depth(&self) -> u32 {
        self.recursion_depth
    }

    /// Returns the limits of the run.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns whether the run's terminals stay open when it fails or is cancelled.
    #[must_use]
    pub fn keep_terminals(&self) -> bool {
        self.keep_terminals
    }

    /// Returns whether the library saves nested workflows when they complete.
    #[must_use]
    pub fn saves_on_success(&self) -> bool {
        self.save_on_success
    }

    /// Returns the start time of the run.
    #[must_use]
    pub fn started_at(&self) -> Option<Timestamp> {
        self.started_at
    }

    /// Returns the end time of the run.
    #[must_use]
    pub fn ended_at(&self) -> Option<Timestamp> {
        self.ended_at
    }

    /// Returns the run's variables.
    #[must_use]
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// Returns the name of the last state before the finally state, finished or not. Returns `validation_failed` or
    /// `return_validation_failed` if the run failed because its contract did not hold.
    #[must_use]
    pub fn final_state(&self) -> Option<&str> {
        match self.status {
            Status::Failed { reason: FailureReason::ArgumentsInvalid, .. } => Some("validation_failed"),
            Status::Failed { reason: FailureReason::ReturnValuesInvalid, .. } => Some("return_validation_failed"),
            _ => match &self.finally {
                Some(finally) => finally.last_state.as_deref(),
                None => self.last_state(),
            },
        }
    }

    /// Returns the finally phase of the run, once it has begun.
    pub(crate) fn finally(&self) -> Option<&FinallyPhase> {
        self.finally.as_ref()
    }

    /// Returns the maximum number of states that the run may execute.
    pub(crate) fn max_states(&self) -> u32 {
        let additional = if self.finally.is_some() { ADDITIONAL_FINALLY_STATES } else { 0 };
        self.limits.max_states().saturating_add(additional)
    }

    /// Returns the name of the last state, finished or not, regardless of the end of the run.
    #[must_use]
    pub fn last_state(&self) -> Option<&str> {
        self.last_state.as_deref()
    }

    /// Returns the request to the shell whose answer the run waits for.
    #[must_use]
    pub fn exchange(&self) -> Option<&Exchange> {
        self.exchange.as_ref()
    }

    /// Returns the gate that the run waits at.
    #[must_use]
    pub fn gate(&self) -> Option<&Gate> {
        self.gate.as_ref()
    }

    /// Returns the workflow of the child run that a step started, once the child has begun.
    #[must_use]
    pub fn child_of(&self, step: &StepId) -> Option<&str> {
        self.children.get(step).map(String::as_str)
    }

    /// Returns the steps whose child runs are in progress.
    pub(crate) fn children(&self) -> impl Iterator<Item = &StepId> {
        self.children.keys()
    }

    /// Returns the steps whose child runs wait for an answer.
    pub fn waiting_children(&self) -> impl Iterator<Item = &StepId> {
        self.waiting.iter()
    }

    /// Returns whether a child run of the current step waits for an answer. If so, the clock of this run is stopped.
    #[must_use]
    pub fn child_waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the branches of the current step, if it is a `parallel`.
    pub(crate) fn branches(&self) -> Option<&Branches> {
        self.branches.as_ref()
    }

    fn branch_number(&self, step: &StepId) -> Option<usize> {
        step.number_within(&self.current.as_ref()?.step)
    }

    /// Returns the number of the branch of a step, if the branch is in progress.
    pub(crate) fn open_branch(&self, step: &StepId) -> Option<usize> {
        let number = self.branch_number(step)?;
        self.branches.as_ref().filter(|branches| branches.is_open(number) && !self.branches_are_over()).map(|_| number)
    }

    /// Returns whether the current step no longer waits for a branch.
    fn branches_are_over(&self) -> bool {
        let (Some(current), Some(branches)) = (&self.current, &self.branches) else { return true };
        Parallel::read(&current.params).is_ok_and(|parallel| parallel.is_over(branches))
    }

    /// Returns whether the run waits for the outcome of the run that this step starts.
    #[must_use]
    pub fn awaits_child(&self, step: &StepId) -> bool {
        match &self.branches {
            Some(_) => self.open_branch(step).is_some(),
            None => self.current.as_ref().is_some_and(|current| current.step == *step),
        }
    }

    /// Returns the current pause of the run.
    #[must_use]
    pub fn paused(&self) -> Option<&Pause> {
        self.paused.as_ref()
    }

    /// Returns the continuation that is deferred until the end of the pause.
    pub(crate) fn deferred(&self) -> Option<&Continuation> {
        self.deferred.as_ref()
    }

    /// Returns whether the clock of the run is stopped: during a wait for an answer, and during a pause.
    pub(crate) fn is_clock_stopped(&self) -> bool {
        self.gate.is_some() || self.child_waits() || self.paused.is_some()
    }

    /// Returns the remaining time of the run at `now`. Time at gates and in pauses does not count.
    #[must_use]
    pub fn time_left(&self, now: Timestamp) -> Duration {
        let passed = self.started_at.map_or(Duration::ZERO, |started| now.since(started));
        let current_stop = self.clock_stopped_at.map_or(Duration::ZERO, |since| now.since(since));
        let remaining =
            self.limits.execution_timeout().saturating_sub(passed.saturating_sub(self.stopped_duration + current_stop));
        let of_finally = |finally: &FinallyPhase| MIN_FINALLY_TIME.saturating_sub(now.since(finally.began));
        remaining.max(self.finally.as_ref().map_or(Duration::ZERO, of_finally))
    }

    /// Returns the return values, once they are read and checked; secrets are hidden.
    #[must_use]
    pub fn return_values(&self) -> &BTreeMap<String, String> {
        &self.return_values
    }

    /// Returns the value from a `return` action.
    #[must_use]
    pub fn result(&self) -> Option<&Value> {
        self.result.as_ref()
    }

    /// Returns the screens of the run's terminals when it failed.
    #[must_use]
    pub fn last_screens(&self) -> &[LastScreen] {
        &self.last_screens
    }

    pub(crate) fn arguments(&self) -> &BTreeMap<String, String> {
        &self.arguments
    }

    pub(crate) fn arguments_checked(&self) -> bool {
        self.arguments_checked
    }

    pub(crate) fn exchanges(&self) -> u32 {
        self.exchanges
    }

    /// Returns the number of executed states, the current one included.
    #[must_use]
    pub fn states_executed(&self) -> u32 {
        self.states_executed
    }

    /// Returns the step whose outcome the run waits for.
    #[must_use]
    pub fn current(&self) -> Option<&CurrentStep> {
        self.current.as_ref()
    }

    /// Returns the item loop of a state, if it is in progress.
    pub(crate) fn items_in_state(&self, state: &str) -> Option<&ItemLoop> {
        self.items.as_ref().filter(|items| items.belongs_to(state))
    }

    /// Returns the answers in the current step, if it is a dialogue.
    pub(crate) fn answers(&self) -> &[DialogueAnswer] {
        &self.answers
    }

    /// Returns the steps whose outcomes the run waits for: the current step, the turn of its dialogue, or its branches.
    #[must_use]
    pub fn awaited_steps(&self) -> Vec<StepId> {
        let Some(current) = &self.current else { return Vec::new() };
        match &self.branches {
            Some(branches) if branches.have_begun() && !self.branches_are_over() => {
                branches.open().map(|number| current.step.part(number)).collect()
            }
            None if current.tool == tool::DIALOGUE => vec![current.step.part(self.answers.len() + 1)],
            // The outcome of a `parallel` without open branches is the outcome of the current step.
            _ => vec![current.step.clone()],
        }
    }

    /// Returns the error of the run, after its failure or cancellation.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match &self.status {
            Status::Failed { error, .. } => Some(error),
            Status::Cancelled { reason } => Some(reason),
            Status::NotStarted | Status::Running | Status::Waiting | Status::Completed => None,
        }
    }

    /// Returns the terminals that the run opened and did not close, in the order of opening.
    #[must_use]
    pub fn open_terminals(&self) -> &[String] {
        self.terminals.open()
    }

    /// Returns the current terminal of the run: the given terminal, else the last opened terminal.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.terminals.current_or_last()
    }

    /// Returns whether the screen was read for the conditions of a step, even if reading failed.
    pub(crate) fn has_read_screen(&self, at: &StepId) -> bool {
        self.screen.as_ref().is_some_and(|(step, _)| step == at)
    }

    /// Returns the screen that was read for the conditions of a step.
    pub(crate) fn screen(&self, at: &StepId) -> Option<&str> {
        self.screen.as_ref().filter(|(step, _)| step == at)?.1.as_deref()
    }

    /// Returns whether this terminal of the run is open: the run opened it, or took it over, and did not close it.
    #[must_use]
    pub fn has_opened(&self, session: &str) -> bool {
        self.terminals.open.iter().any(|open| open == session)
    }

    /// Returns the ids of the terminals that the run works with.
    pub fn sessions(&self) -> impl Iterator<Item = &str> {
        let Terminals { given, open, taken_over, .. } = &self.terminals;
        given.iter().chain(open).chain(taken_over).map(String::as_str)
    }

    /// Returns the ids of the terminals that this run or a run below opened and that may still be open.
    pub fn own_sessions(&self) -> impl Iterator<Item = &str> {
        let Terminals { open, failed, left_by_branches, .. } = &self.terminals;
        open.iter().chain(failed).chain(left_by_branches).map(String::as_str)
    }

    pub(crate) fn terminals(&self) -> &Terminals {
        &self.terminals
    }

    pub(crate) fn visits(&self, state: &str) -> u32 {
        self.visits.get(state).copied().unwrap_or(0)
    }
}

/// Returns the defaults of a document's arguments.
fn defaults(document: &Value) -> impl Iterator<Item = (String, Value)> + '_ {
    let arguments = document.get("arguments").and_then(Value::as_object).into_iter().flatten();
    let default = |argument: &Value| argument.get("default").filter(|default| !default.is_null()).map(as_text);
    arguments
        .filter_map(move |(name, argument)| Some((name.clone(), typed_argument(document, name, &default(argument)?))))
}

/// Returns the values of variables that an answer of the shell makes known.
pub(crate) fn known_values(exchange: &Exchange, answer: &ShellAnswer) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    if let ShellAnswer::Told { values: read_values } = answer {
        values.clone_from(&exchange.set);
        let read_variables =
            exchange.read.iter().filter_map(|name| Some((name.clone(), read_values.get(name)?.clone()?)));
        values.extend(read_variables);
    }
    values
}

impl<'a> Extend<&'a Event> for History {
    fn extend<T: IntoIterator<Item = &'a Event>>(&mut self, events: T) {
        events.into_iter().for_each(|event| self.apply(event));
    }
}

impl<'a> FromIterator<&'a Event> for History {
    fn from_iter<T: IntoIterator<Item = &'a Event>>(events: T) -> Self {
        let mut history = Self::new();
        history.extend(events);
        history
    }
}
