//! Checked machine workflows.
//!
//! A [`Definition`] is valid by construction: the initial state and every target exist, every bound holds, and every
//! pattern without variables compiles. An invalid document gives [`Problems`]: all of them at once, each with a JSON
//! pointer. A definition keeps its document unchanged and serializes to it.

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
    /// The last state, executed before a run ends.
    finally_state: Option<String>,
    states: Vec<State>,
    /// The names of the secrets that `{secret:NAME}` refers to.
    secrets: BTreeSet<String>,
    /// True if something in it may read the output of a command with the newlines at its end.
    reads_raw_output: bool,
    /// Variables that nothing in the definition gives a value.
    needs: Vec<NeededVariable>,
    warnings: Vec<Problem>,
}

/// One entry of a machine.
#[derive(Debug, Clone)]
pub struct State {
    name: String,
    action: Action,
    transitions: Vec<Transition>,
    timeout: Option<Duration>,
    /// True if it names the machine of its terminal.
    has_own_host: bool,
    on_timeout: Option<String>,
    max_visits: Option<u32>,
    on_exhausted: Option<String>,
    /// A gate decides where the run continues if the state found nothing that it expects.
    asks_when_unknown: bool,
    /// The items for its executions.
    for_each: Option<ForEach>,
}

/// Action of a state.
#[derive(Debug, Clone)]
pub struct Action {
    tool: String,
    params: Map<String, Value>,
    /// True if the run's terminal fills in a missing session.
    takes_session: bool,
    /// Parameters that stay text when their whole value is one variable.
    text_params: Vec<String>,
}

/// A transition to another state, with its condition.
#[derive(Debug, Clone)]
pub struct Transition {
    condition: Condition,
    next_state: String,
}

impl Definition {
    /// Reads a definition and checks it in every respect that needs no run.
    ///
    /// [`decide`](crate::decide()) determines what happens next in a run of it: the caller appends the events and
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
    /// let outcome = Input::Outcome { step: step.expect("it sleeps first"), outcome: Outcome::Finished { result } };
    /// history.extend(&decide(&definition, &history, outcome, Timestamp(1_000_000)).events);
    /// assert_eq!(*history.status(), Status::Completed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns every problem, and the warnings beside them.
    pub fn parse(document: &Value, tools: &dyn ToolCatalog) -> Result<Self, Problems> {
        parse::parse(document, tools)
    }

    /// Returns whether something in it may read the output of a command with the newlines at its end.
    pub(crate) fn reads_raw_output(&self) -> bool {
        self.reads_raw_output
    }

    /// As [`Self::parse`], from the text of a file.
    ///
    /// # Errors
    /// Also when the text is not JSON: one problem, with line and column.
    pub fn from_text(text: &str, tools: &dyn ToolCatalog) -> Result<Self, Problems> {
        match Self::document_in(text.as_bytes()) {
            Ok(document) => Self::parse(&document, tools),
            Err(error) => Err(Problems::new(vec![Problem::error("", format!("this is not JSON: {error}"))])),
        }
    }

    /// Returns the document in the text of a file: of a workflow, or of the library, which stores metadata beside it.
    ///
    /// # Errors
    /// The text is not JSON.
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

    /// Returns the document, shared with histories of its runs.
    #[must_use]
    pub fn shared_document(&self) -> Arc<Value> {
        self.document.clone()
    }

    /// Returns the workflow's name, when it has one.
    #[must_use]
    pub fn name(&self) -> Option<&WorkflowName> {
        self.name.as_ref()
    }

    /// Returns the purpose of the workflow, in its author's words.
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

    /// Returns the name of the last state before a run ends, completed or failed.
    #[must_use]
    pub fn finally_state(&self) -> Option<&str> {
        self.finally_state.as_deref()
    }

    /// Returns the states, in the order of the document.
    #[must_use]
    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// Returns the state of that name.
    #[must_use]
    pub fn state(&self, name: &str) -> Option<&State> {
        self.states.iter().find(|state| state.name == name)
    }

    /// Returns the names of the secrets that its states refer to. A run has each as the variable [`secret_variable`].
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(String::as_str)
    }

    /// Returns suggestions for the author, if nothing is wrong.
    #[must_use]
    pub fn advice(&self) -> Vec<Problem> {
        gated::advice(&self.states).into_iter().collect()
    }

    /// Returns the warnings about suspicious, yet allowed parts.
    #[must_use]
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }
}

/// Returns the name of the variable that has the value of a secret: `secret:NAME`. No report lists it.
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

    /// Returns the state's time limit, when its author set one.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Returns whether the state names the machine of its terminal, so that it opens one there.
    pub(crate) fn has_own_host(&self) -> bool {
        self.has_own_host
    }

    /// Returns the next state after a timeout, and after a failed action without a transition that holds.
    #[must_use]
    pub fn on_timeout(&self) -> Option<&str> {
        self.on_timeout.as_deref()
    }

    /// Returns the maximum number of visits to the state, if its author set a limit.
    #[must_use]
    pub fn max_visits(&self) -> Option<u32> {
        self.max_visits
    }

    /// Returns the next state in place of one more visit.
    #[must_use]
    pub fn on_exhausted(&self) -> Option<&str> {
        self.on_exhausted.as_deref()
    }

    /// Returns whether a gate decides where the run continues if the state would fail or none of its transitions holds.
    #[must_use]
    pub fn asks_when_unknown(&self) -> bool {
        self.asks_when_unknown
    }

    /// Returns the items for the executions of the state, one after the other.
    pub(crate) fn for_each(&self) -> Option<&ForEach> {
        self.for_each.as_ref()
    }

    /// Returns the items for each of which the state starts a run, several at once.
    pub(crate) fn for_each_at_once(&self) -> Option<(&ForEach, ForEachParallel)> {
        let for_each = self.for_each.as_ref()?;
        Some((for_each, for_each.parallel?))
    }

    /// Returns the items for the executions of the state, as their author wrote them: a list or a text.
    #[must_use]
    pub fn items(&self) -> Option<&Value> {
        self.for_each.as_ref().map(|for_each| &for_each.items)
    }

    /// Returns the texts that the state types as secrets, as their author wrote them.
    #[must_use]
    pub fn secret_texts(&self) -> Vec<&str> {
        let params = &self.action.params;
        if self.action.tool == tool::DIALOGUE {
            return dialogue::secret_texts(params).collect();
        }
        let is_secret = params.get("secret").is_some_and(|secret| *secret == Value::Bool(true) || *secret == "true");
        params.get("input_text").and_then(Value::as_str).filter(|_| is_secret).into_iter().collect()
    }

    /// Returns the parameters with variables to replace, each with its pointer within the parameters. A nested
    /// definition is not among them: its placeholders are its own.
    pub(crate) fn replaced_params(&self) -> Vec<(String, &Value)> {
        let mut replaced = Vec::new();
        for (name, value) in &self.action.params {
            let pointer = format!("/{}", document::escaped(name));
            match self.action.tool.as_str() {
                tool::RUN_WORKFLOW if name == child::DEFINITION => {}
                tool::PARALLEL if name == parallel::WORKFLOWS => {
                    for (key, entry) in parallel::entries(&self.action.params).unwrap_or_default() {
                        let branch_pointer = format!("{pointer}/{}", document::escaped(&key));
                        let params =
                            entry.as_object().into_iter().flatten().filter(|(name, _)| *name != child::DEFINITION);
                        replaced.extend(
                            params
                                .map(|(name, value)| (format!("{branch_pointer}/{}", document::escaped(name)), value)),
                        );
                    }
                }
                _ => replaced.push((pointer, value)),
            }
        }
        replaced
    }

    /// Returns every text of the state with variables to replace.
    pub(crate) fn texts(&self) -> Vec<&str> {
        let params = self.replaced_params().into_iter().flat_map(|(_, value)| substitute::texts_in(value));
        let items = self.for_each.iter().flat_map(|for_each| substitute::texts_in(&for_each.items));
        params.chain(items).chain(self.transitions.iter().flat_map(|transition| transition.condition.texts())).collect()
    }

    /// Returns the first placeholder in the parameters of the action that has no value. A `fail` has none: it ends the
    /// run in its author's words, regardless of values.
    pub(crate) fn unresolved(&self, variables: &dyn Lookup) -> Option<&str> {
        if self.action.tool == tool::FAIL {
            return None;
        }
        if self.action.tool == tool::DIALOGUE {
            return dialogue::unresolved(&self.action.params, variables);
        }
        self.replaced_params().into_iter().find_map(|(_, value)| substitute::unresolved(value, variables))
    }
}

impl Action {
    /// Returns the tool that performs the action.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Returns the parameters, their variables not replaced.
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
