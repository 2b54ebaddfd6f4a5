//! Child runs: the action `run_workflow`.
//!
//! A child is a separate run with the variables that the action passes. The child works in an existing terminal only if
//! the action names the terminal or the child inherits its parent's terminal. The parent sees only the fields of one
//! result.

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

/// The parameter with a whole definition. Its placeholders belong to the child and stay unchanged.
pub(crate) const DEFINITION: &str = "workflow_definition";

/// The parameter that marks `session_id` as the parent's terminal, inherited rather than named by the action. A
/// definition cannot set this parameter.
pub(crate) const INHERITED: &str = "session_inherited";

/// The variable that names the first terminal of a run.
pub(crate) const SESSION: &str = "session_id";

/// A run that another run starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Child {
    /// Workflow of the child.
    pub workflow: ChildWorkflow,
    /// The terminal that the child works in.
    pub session_id: Option<String>,
    /// True if `session_id` is the parent's terminal, because the action named no terminal.
    pub inherits: bool,
    /// The initial variables: strings, lists and objects.
    pub variables: BTreeMap<String, Value>,
    /// The limits of the child.
    pub limits: Limits,
    /// True if the child's terminals stay open when it fails or is cancelled.
    pub keep_terminals: bool,
    /// True if the library saves the child's workflow on completion, provided that it is [`ChildWorkflow::Inline`]. The
    /// same applies to the runs below the child.
    pub save_on_success: bool,
    /// Number of levels below the first run, from 1.
    pub depth: u32,
}

impl Child {
    /// Returns the terminal passed to the child. `None` if the child's workflow opens its own terminal and the action
    /// named none.
    #[must_use]
    pub fn terminal(&self, definition: &Definition) -> Option<&str> {
        self.session_id.as_deref().filter(|_| !self.inherits || !definition.opens_terminal())
    }
}

/// Workflow of a child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildWorkflow {
    /// The workflow with this name in the library.
    Named(WorkflowName),
    /// A definition in the action's parameters.
    Inline(Value),
}

/// The properties of a run that its children depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ParentRun {
    pub(crate) rules: Rules,
    pub(crate) saves_on_success: bool,
    /// Number of runs above this run.
    pub(crate) depth: u32,
}

impl Child {
    /// Reads the child from an action's parameters, after the replacement of all variables.
    ///
    /// # Errors
    /// Returns the first problem with the parameters.
    pub(crate) fn read(params: &Map<String, Value>, parent: ParentRun) -> Result<Self, InvalidChild> {
        let param = |key: &str| params.get(key).filter(|value| !value.is_null());
        if let Some(problem) = problems(params, |_| false).into_iter().next() {
            return Err(problem);
        }
        let workflow = match (param(DEFINITION), param("workflow_name").and_then(Value::as_str)) {
            (Some(document), _) => ChildWorkflow::Inline(document.clone()),
            (None, name) => ChildWorkflow::Named(name.unwrap_or_default().parse()?),
        };
        let variables = param("initial_variables").and_then(Value::as_object);
        let variable = |(name, value): (&String, &Value)| {
            let value = if is_scalar(value) { substitute::as_text(value).into() } else { value.clone() };
            (name.clone(), value)
        };
        let variables: BTreeMap<String, Value> = variables.into_iter().flatten().map(variable).collect();
        let text_param = |key: &str| param(key).map(substitute::as_text);
        let inherits = params.get(INHERITED) == Some(&Value::Bool(true));
        let session_id = text_param("session_id").filter(|session| !session.is_empty());
        let named_session =
            session_id.clone().filter(|_| !inherits).or_else(|| variables.get(SESSION)?.as_str().map(str::to_owned));
        let named_session = named_session.filter(|session| !session.is_empty() && parent.rules.follows_terminals());
        Ok(Self {
            workflow,
            inherits: inherits && named_session.is_none(),
            session_id: named_session.or(session_id),
            variables,
            limits: limits(params)?,
            keep_terminals: text_param("keep_terminals").as_deref() == Some("true"),
            save_on_success: parent.saves_on_success && text_param("save_on_success").as_deref() != Some("false"),
            depth: parent.depth.saturating_add(1),
        })
    }
}

fn is_scalar(value: &Value) -> bool {
    !value.is_array() && !value.is_object()
}

/// Returns the problems with the parameters. Skips values that `is_open` reports as not known yet.
pub(crate) fn problems(params: &Map<String, Value>, is_open: impl Fn(&Value) -> bool) -> Vec<InvalidChild> {
    let param = |key: &str| params.get(key).filter(|value| !value.is_null());
    let mut problems = Vec::new();
    match (param(DEFINITION), param("workflow_name")) {
        (None, None) => problems.push(InvalidChild::MissingWorkflow),
        (Some(_), Some(_)) => problems.push(InvalidChild::ConflictingWorkflows),
        (Some(document), None) if !document.is_object() => problems.push(InvalidChild::DefinitionNotObject),
        (None, Some(name)) if !is_open(name) => match name.as_str().map(str::parse::<WorkflowName>) {
            Some(Ok(_)) => {}
            Some(Err(error)) => problems.push(InvalidChild::InvalidName(error)),
            None => problems.push(InvalidChild::NameNotText),
        },
        _ => {}
    }
    match param("initial_variables") {
        None => {}
        Some(Value::Object(_)) => {}
        Some(value) if is_open(value) => {}
        Some(_) => problems.push(InvalidChild::VariablesNotObject),
    }
    for key in ["max_states", "execution_timeout"] {
        if let Some(value) = param(key).filter(|value| !is_open(value)) {
            let single_param = Map::from_iter([(key.to_owned(), value.clone())]);
            problems.extend(limits(&single_param).err().map(InvalidChild::InvalidLimit));
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
    let defaults = Limits::default();
    let max_states = match number("max_states")? {
        None => defaults.max_states(),
        // The cast saturates: a number outside the range of u32 is also outside the limits, and is reported there.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Some(number) if number.fract() == 0.0 => number as u32,
        Some(_) => return Err(InvalidLimit::NotWhole("max_states")),
    };
    let timeout = number("execution_timeout")?.unwrap_or_else(|| defaults.execution_timeout().as_secs_f64());
    Ok(Limits::new(max_states, timeout)?)
}

/// Returns the kind of a child's end according to its outcome, and the error if the child did not complete.
pub(crate) fn child_end(outcome: &Outcome) -> (ChildEnd, Option<String>) {
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

/// Returns the outcome of an action that failed with `error`.
pub(crate) fn refused(error: String) -> Outcome {
    let fields = [("success".to_owned(), false.into()), ("error".to_owned(), error.into())];
    Outcome::Finished { result: Map::from_iter(fields) }
}
