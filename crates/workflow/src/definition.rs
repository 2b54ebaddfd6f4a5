//! Checked machine workflows.
//!
//! A [`Definition`] is valid by construction: the initial state and every target exist, all numbers are within their
//! limits, and every pattern without variables compiles. An invalid document gives all its [`Problems`] at once, each
//! with a JSON pointer. A definition keeps its document unchanged and serializes to it.

mod catalog;
mod contracts;
mod document;
mod ends;
mod entering;
mod gated;
mod needs;
mod parse;
mod problem;
mod reach;
mod returns;
mod schema;
mod shape;
mod stale;
mod waits;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use steplatch_ids::WorkflowName;

use crate::condition::Condition;
use crate::contract::Contract;
use crate::items::{ForEach, ForEachParallel};
use crate::substitute::Lookup;
use crate::{child, dialogue, parallel, substitute, tool};
pub use catalog::ToolCatalog;
pub(crate) use document::{Diagnostics, JsonPath, escaped, kind};
pub use document::{suggestion, suggestion_or_known};
pub(crate) use ends::OutcomeKind;
pub use ends::PossibleOutcomes;
use needs::NeededVariable;
pub use parse::MAX_DOCUMENT_BYTES;
pub use problem::{Problem, Problems, Severity};
pub use schema::{action_reference, documentation, schema};
pub(crate) use shape::MAX_DESCRIPTION_CHARS;
pub(crate) use shape::{CONDITION_KEYS, CONDITION_WORDS, STUB_KEYS};

/// A machine workflow that passed every check.
#[derive(Debug, Clone)]
pub struct Definition {
    document: Arc<Value>,
    name: Option<WorkflowName>,
    description: Option<String>,
    arguments: Contract,
    return_values: Contract,
    initial_state: String,
    /// The state that a run executes before it ends.
    finally_state: Option<String>,
    states: Vec<State>,
    /// The names of the secrets that `{secret:NAME}` refers to.
    secrets: BTreeSet<String>,
    /// True if the definition may read the output of a command with its trailing newlines.
    reads_raw_output: bool,
    /// Variables that have no value in the definition.
    needs: Vec<NeededVariable>,
    warnings: Vec<Problem>,
}

/// One state of a machine.
#[derive(Debug, Clone)]
pub struct State {
    name: String,
    action: Action,
    transitions: Vec<Transition>,
    timeout: Option<Duration>,
    /// True if the state names the host of its terminal.
    has_own_host: bool,
    on_timeout: Option<String>,
    max_visits: Option<u32>,
    on_exhausted: Option<String>,
    /// True if a gate decides how the run continues after an unexpected result.
    asks_when_unknown: bool,
    /// The items that the state is executed for.
    for_each: Option<ForEach>,
}

/// Action of a state.
#[derive(Debug, Clone)]
pub struct Action {
    tool: String,
    params: Map<String, Value>,
    /// True if a missing session is replaced by the run's terminal.
    takes_session: bool,
    /// Parameters that stay strings if their whole value is one variable.
    text_params: Vec<String>,
}

/// A transition to another state, with its condition.
#[derive(Debug, Clone)]
pub struct Transition {
    condition: Condition,
    next_state: String,
}

impl Definition {
    /// Parses a definition, with all checks that need no run.
    ///
    /// [`decide`](crate::decide()) determines the next events and effects of a run. The caller appends the events and
    /// performs the effects.
    ///
    /// ```
    /// use serde_json::{Map, json};
    /// use steplatch_workflow::{Definition, Effect, History, Input, Limits, Outcome, Start, Status, Timestamp, decide};
    /// # use steplatch_workflow::{Problem, ToolCatalog};
    /// # struct NoTools;
    /// # impl ToolCatalog for NoTools {
    /// #     fn tools(&self) -> Vec<String> { Vec::new() }
    /// #     fn check(&self, _: &str, _: &Map<String, serde_json::Value>) -> Vec<Problem> { Vec::new() }
    /// #     fn takes_session(&self, _: &str) -> bool { false }
    /// # }
    ///
    /// let document = json!({
    ///     "initial_state": "rest",
    ///     "states": {"rest": {"action": {"tool": "sleep", "params": {"seconds": 1}}}}
    /// });
    /// let definition = Definition::parse(&document, &NoTools)?;
    ///
    /// let start = Input::Start(Start {
    ///     run: "run_0123456789abcdef".parse()?,
    ///     session_id: None,
    ///     variables: Map::new(),
    ///     limits: Limits::default(),
    ///     keep_terminals: false,
    ///     save_on_success: false,
    ///     parent: None,
    ///     depth: 0,
    ///     gateless: Default::default(),
    /// });
    /// let mut history = History::new();
    /// let decision = decide(&definition, &history, start, Timestamp(0));
    /// history.extend(&decision.events);
    /// let step = decision.effects.iter().find_map(|effect| match effect {
    ///     Effect::Sleep { step, .. } => Some(step.clone()),
    ///     _ => None,
    /// });
    ///
    /// let result = json!({"success": true}).as_object().cloned().unwrap_or_default();
    /// let outcome = Input::Outcome { step: step.expect("the run sleeps first"), outcome: Outcome::Finished { result } };
    /// history.extend(&decide(&definition, &history, outcome, Timestamp(1_000_000)).events);
    /// assert_eq!(*history.status(), Status::Completed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns all problems, including warnings.
    pub fn parse(document: &Value, tools: &dyn ToolCatalog) -> Result<Self, Problems> {
        parse::parse(document, tools)
    }

    /// Returns whether the definition may read the output of a command with its trailing newlines.
    pub(crate) fn reads_raw_output(&self) -> bool {
        self.reads_raw_output
    }

    /// Same as [`Self::parse`], for the text of a file.
    ///
    /// # Errors
    /// As for [`Self::parse`]. If the text is not JSON, returns one problem with line and column.
    pub fn from_text(text: &str, tools: &dyn ToolCatalog) -> Result<Self, Problems> {
        match Self::document_in(text.as_bytes()) {
            Ok(document) => Self::parse(&document, tools),
            Err(error) => Err(Problems::new(vec![Problem::error("", format!("this is not JSON: {error}"))])),
        }
    }

    /// Returns the document in the text of a file. The file is a workflow, or a library file with metadata next to it.
    ///
    /// # Errors
    /// If the text is not JSON.
    pub fn document_in(text: &[u8]) -> serde_json::Result<Value> {
        let mut document: Value = serde_json::from_slice(text)?;
        Ok(match document.get_mut("definition") {
            Some(definition @ Value::Object(_)) => definition.take(),
            _ => document,
        })
    }

    /// Returns the original document.
    #[must_use]
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// Returns the document, shared by the histories of its runs.
    #[must_use]
    pub fn shared_document(&self) -> Arc<Value> {
        self.document.clone()
    }

    /// Returns the workflow's name, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&WorkflowName> {
        self.name.as_ref()
    }

    /// Returns the author's description of the workflow.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Returns the variables that must be set in the shell before the first state.
    #[must_use]
    pub fn arguments(&self) -> &Contract {
        &self.arguments
    }

    /// Returns the variables that must be set in the shell after the last state.
    #[must_use]
    pub fn return_values(&self) -> &Contract {
        &self.return_values
    }

    /// Returns the name of the state that a run begins with.
    #[must_use]
    pub fn initial_state(&self) -> &str {
        &self.initial_state
    }

    /// Returns the name of the state that a run executes before it completes or fails.
    #[must_use]
    pub fn finally_state(&self) -> Option<&str> {
        self.finally_state.as_deref()
    }

    /// Returns the states, in the order of the document.
    #[must_use]
    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// Returns the state with this name.
    #[must_use]
    pub fn state(&self, name: &str) -> Option<&State> {
        self.states.iter().find(|state| state.name == name)
    }

    /// Returns the names of the secrets that the states refer to. A run has each secret as the variable
    /// [`secret_variable`].
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(String::as_str)
    }

    /// Returns suggestions for the author of a valid definition.
    #[must_use]
    pub fn advice(&self) -> Vec<Problem> {
        gated::advice(&self.states).into_iter().collect()
    }

    /// Returns the warnings about suspicious parts that are allowed.
    #[must_use]
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }
}

/// Returns the name of the variable with the value of a secret: `secret:NAME`. No report lists this variable.
#[must_use]
pub fn secret_variable(name: &str) -> String {
    format!("{}{name}", substitute::SECRET)
}

impl Serialize for Definition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.document.serialize(serializer)
    }
}

impl State {
    /// Returns the state's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the action of the state.
    #[must_use]
    pub fn action(&self) -> &Action {
        &self.action
    }

    /// Returns the transitions of the state, in the order of their checks.
    #[must_use]
    pub fn transitions(&self) -> &[Transition] {
        &self.transitions
    }

    /// Returns the state's time limit, if its author set one.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Returns whether the state names the host of its terminal, and so opens a terminal there.
    pub(crate) fn has_own_host(&self) -> bool {
        self.has_own_host
    }

    /// Returns the next state after a timeout, and after a failed action if no transition holds.
    #[must_use]
    pub fn on_timeout(&self) -> Option<&str> {
        self.on_timeout.as_deref()
    }

    /// Returns the maximum number of visits to the state, if its author set a limit.
    #[must_use]
    pub fn max_visits(&self) -> Option<u32> {
        self.max_visits
    }

    /// Returns the next state once the maximum number of visits is reached.
    #[must_use]
    pub fn on_exhausted(&self) -> Option<&str> {
        self.on_exhausted.as_deref()
    }

    /// Returns whether a gate decides how the run continues if the state would fail or none of its transitions holds.
    #[must_use]
    pub fn asks_when_unknown(&self) -> bool {
        self.asks_when_unknown
    }

    /// Returns the items that the state is executed for.
    pub(crate) fn for_each(&self) -> Option<&ForEach> {
        self.for_each.as_ref()
    }

    /// Returns the items that the state starts parallel child runs for.
    pub(crate) fn for_each_parallel(&self) -> Option<(&ForEach, ForEachParallel)> {
        let for_each = self.for_each.as_ref()?;
        Some((for_each, for_each.parallel?))
    }

    /// Returns the items that the state is executed for, with placeholders: a list or text.
    #[must_use]
    pub fn items(&self) -> Option<&Value> {
        self.for_each.as_ref().map(|for_each| &for_each.items)
    }

    /// Returns the secret texts that the state types, with placeholders.
    #[must_use]
    pub fn secret_texts(&self) -> Vec<&str> {
        let params = &self.action.params;
        if self.action.tool == tool::DIALOGUE {
            return dialogue::secret_texts(params).collect();
        }
        let is_secret = params.get("secret").is_some_and(|secret| *secret == Value::Bool(true) || *secret == "true");
        params.get("input_text").and_then(Value::as_str).filter(|_| is_secret).into_iter().collect()
    }

    /// Returns the parameters with variables to replace, with their pointers within the parameters. Omits a nested
    /// definition, because its placeholders belong to the nested run.
    pub(crate) fn replaceable_params(&self) -> Vec<(String, &Value)> {
        let mut replaceable = Vec::new();
        for (name, value) in &self.action.params {
            let pointer = format!("/{}", document::escaped(name));
            match self.action.tool.as_str() {
                tool::RUN_WORKFLOW if name == child::DEFINITION => {}
                tool::PARALLEL if name == parallel::WORKFLOWS => {
                    for (key, entry) in parallel::entries(&self.action.params).unwrap_or_default() {
                        let branch_pointer = format!("{pointer}/{}", document::escaped(&key));
                        let params =
                            entry.as_object().into_iter().flatten().filter(|(name, _)| *name != child::DEFINITION);
                        replaceable.extend(
                            params
                                .map(|(name, value)| (format!("{branch_pointer}/{}", document::escaped(name)), value)),
                        );
                    }
                }
                _ => replaceable.push((pointer, value)),
            }
        }
        replaceable
    }

    /// Returns all strings of the state with variables to replace.
    pub(crate) fn texts(&self) -> Vec<&str> {
        let params = self.replaceable_params().into_iter().flat_map(|(_, value)| substitute::texts_in(value));
        let items = self.for_each.iter().flat_map(|for_each| substitute::texts_in(&for_each.items));
        params.chain(items).chain(self.transitions.iter().flat_map(|transition| transition.condition.texts())).collect()
    }

    /// Returns the first placeholder without a value in the parameters of the action. Ignores the placeholders of a
    /// `fail`, because a `fail` ends the run in any case.
    pub(crate) fn unresolved(&self, variables: &dyn Lookup) -> Option<&str> {
        if self.action.tool == tool::FAIL {
            return None;
        }
        if self.action.tool == tool::DIALOGUE {
            return dialogue::unresolved(&self.action.params, variables);
        }
        self.replaceable_params().into_iter().find_map(|(_, value)| substitute::unresolved(value, variables))
    }
}

impl Action {
    /// Returns the tool that performs the action.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Returns the parameters, with placeholders.
    #[must_use]
    pub fn params(&self) -> &Map<String, Value> {
        &self.params
    }

    pub(crate) fn takes_session(&self) -> bool {
        self.takes_session
    }

    pub(crate) fn is_text(&self, param: &str) -> bool {
        self.text_params.iter().any(|text| text == param)
    }
}

impl Transition {
    /// Returns the condition of the transition.
    #[must_use]
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// Returns the next state.
    #[must_use]
    pub fn next_state(&self) -> &str {
        &self.next_state
    }
}
