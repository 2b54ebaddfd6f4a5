//! Child runs: the action `run_workflow`.
//!
//! A child is a separate run. It has only the variables that the action passes, and works in an existing terminal only
//! if the action names one or it inherits its parent's. Its parent sees only the fields of one result.

mod error;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_ids::WorkflowName;

use crate::definition::Definition;
use crate::event::{ChildEnd, Limits, Outcome};
use crate::rules::Rules;
use crate::substitute;
pub(crate) use error::InvalidChild;
use error::InvalidLimit;

/// Maximum number of levels of runs below a run.
pub const MAX_LEVELS: u32 = 5;

/// The parameter that holds a whole definition. Its placeholders are the child's and stay unchanged.
pub(crate) const DEFINITION: &str = "workflow_definition";

/// The parameter that marks the terminal as the parent's, in the absence of a name. A definition cannot set it.
pub(crate) const INHERITED: &str = "session_inherited";

/// The variable that names the terminal in which a run begins.
pub(crate) const SESSION: &str = "session_id";

/// A run that another one starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Child {
    /// Workflow that it runs.
    pub workflow: ChildWorkflow,
    /// The terminal that it works in.
    pub session_id: Option<String>,
    /// True if that is its parent's terminal, because the action named none.
    pub inherits: bool,
    /// The variables that it begins with: texts, lists and objects.
    pub variables: BTreeMap<String, Value>,
    /// The limits of the child.
    pub limits: Limits,
    /// True if its terminals stay open when it fails or is cancelled.
    pub keep_terminals: bool,
    /// True if the library saves it when it completes, if it is [`ChildWorkflow::Inline`], and those below it.
    pub save_on_success: bool,
    /// Number of levels below the first run, from 1.
    pub depth: u32,
}

impl Child {
    /// Returns the terminal passed to the child. `None` if the child's workflow opens its own and the action named
    /// none.
    #[must_use]
    pub fn terminal(&self, definition: &Definition) -> Option<&str> {
        self.session_id.as_deref().filter(|_| !self.inherits || !definition.opens_terminal())
    }
}

/// Workflow of a child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildWorkflow {
    /// The workflow of this name in the library.
    Named(WorkflowName),
    /// This document.
    Inline(Value),
}

/// The properties of a run that decide about its children.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ParentRun {
    pub(crate) rules: Rules,
    pub(crate) saves_on_success: bool,
    /// Number of runs above it.
    pub(crate) depth: u32,
}

impl Child {
    /// Reads the child from an action's parameters, with all variables replaced.
    ///
    /// # Errors
    /// Returns the first problem of the parameters.
    pub(crate) fn read(params: &Map<String, Value>, parent: ParentRun) -> Result<Self, InvalidChild> {
        let set = |key: &str| params.get(key).filter(|value| !value.is_null());
        if let Some(problem) = problems(params, |_| false).into_iter().next() {
            return Err(problem);
        }
        let workflow = match (set(DEFINITION), set("workflow_name").and_then(Value::as_str)) {
            (Some(document), _) => ChildWorkflow::Inline(document.clone()),
            (None, name) => ChildWorkflow::Named(name.unwrap_or_default().parse()?),
        };
        let variables = set("initial_variables").and_then(Value::as_object);
        let variable = |(name, value): (&String, &Value)| {
            let value = if is_scalar(value) { substitute::as_text(value).into() } else { value.clone() };
            (name.clone(), value)
        };
        let variables: BTreeMap<String, Value> = variables.into_iter().flatten().map(variable).collect();
        let word = |key: &str| set(key).map(substitute::as_text);
        let inherits = params.get(INHERITED) == Some(&Value::Bool(true));
        let session_id = word("session_id").filter(|session| !session.is_empty());
        let named =
            session_id.clone().filter(|_| !inherits).or_else(|| variables.get(SESSION)?.as_str().map(str::to_owned));
        let named = named.filter(|session| !session.is_empty() && parent.rules.follows_terminals());
        Ok(Self {
            workflow,
            inherits: inherits && named.is_none(),
            session_id: named.or(session_id),
            variables,
            limits: limits(params)?,
            keep_terminals: word("keep_terminals").as_deref() == Some("true"),
            save_on_success: parent.saves_on_success && word("save_on_success").as_deref() != Some("false"),
            depth: parent.depth.saturating_add(1),
        })
    }
}

fn is_scalar(value: &Value) -> bool {
    !value.is_array() && !value.is_object()
}

/// Returns the problems of the parameters, except of `open` ones: their values are not known yet.
pub(crate) fn problems(params: &Map<String, Value>, open: impl Fn(&Value) -> bool) -> Vec<InvalidChild> {
    let set = |key: &str| params.get(key).filter(|value| !value.is_null());
    let mut problems = Vec::new();
    match (set(DEFINITION), set("workflow_name")) {
        (None, None) => problems.push(InvalidChild::NoWorkflow),
        (Some(_), Some(_)) => problems.push(InvalidChild::TwoWorkflows),
        (Some(document), None) if !document.is_object() => problems.push(InvalidChild::DefinitionType),
        (None, Some(name)) if !open(name) => match name.as_str().map(str::parse::<WorkflowName>) {
            Some(Ok(_)) => {}
            Some(Err(error)) => problems.push(InvalidChild::Name(error)),
            None => problems.push(InvalidChild::NameType),
        },
        _ => {}
    }
    match set("initial_variables") {
        None => {}
        Some(Value::Object(_)) => {}
        Some(value) if open(value) => {}
        Some(_) => problems.push(InvalidChild::VariablesType),
    }
    for key in ["max_states", "execution_timeout"] {
        if let Some(value) = set(key).filter(|value| !open(value)) {
            let alone = Map::from_iter([(key.to_owned(), value.clone())]);
            problems.extend(limits(&alone).err().map(InvalidChild::Limit));
        }
    }
    problems
}

fn limits(params: &Map<String, Value>) -> Result<Limits, InvalidLimit> {
    let number = |key: &'static str| match params.get(key).filter(|value| !value.is_null()) {
        None => Ok(None),
        Some(value) => {
            let number = substitute::as_text(value).trim().parse::<f64>().ok();
            number.map(Some).ok_or(InvalidLimit::NotNumber(key))
        }
    };
    let usual = Limits::default();
    let max_states = match number("max_states")? {
        None => usual.max_states(),
        // A number outside the bounds of a u32 is outside the bounds of the field too, and gets that report.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Some(number) if number.fract() == 0.0 => number as u32,
        Some(_) => return Err(InvalidLimit::NotWhole("max_states")),
    };
    let timeout = number("execution_timeout")?.unwrap_or_else(|| usual.execution_timeout().as_secs_f64());
    Ok(Limits::new(max_states, timeout)?)
}

/// Returns the end of a child, read from its outcome, and the reason if it did not complete.
pub(crate) fn end_of(outcome: &Outcome) -> (ChildEnd, Option<String>) {
    let Outcome::Finished { result } = outcome else {
        // A parent that stops waiting for a child cancels it.
        return (ChildEnd::Cancelled, None);
    };
    let end = match result.get("status").and_then(Value::as_str) {
        Some("completed") => ChildEnd::Completed,
        Some("cancelled") => ChildEnd::Cancelled,
        _ => ChildEnd::Failed,
    };
    let error = result.get("error").filter(|error| end != ChildEnd::Completed && !error.is_null());
    (end, error.map(substitute::as_text))
}

/// Returns the outcome of an impossible action.
pub(crate) fn refused(error: String) -> Outcome {
    let fields = [("success".to_owned(), false.into()), ("error".to_owned(), error.into())];
    Outcome::Finished { result: Map::from_iter(fields) }
}
