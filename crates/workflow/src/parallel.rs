//! Parallel child runs: the action `parallel`, and a `for_each` of `run_workflow` with `max_parallel`.
//!
//! Each child is a *branch*: a part of the action's step ([`StepId::part`](steplatch_ids::StepId::part)), numbered from
//! 1 in the order of the document. The start of a branch is recorded before its run starts, its end when the outcome
//! arrives. The state ends when all branches have ended, or after the first failure if `fail_fast` is set.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use steplatch_ids::{RunId, StepId};

use crate::child;
use crate::event::Outcome;
use crate::items::value_of;
use crate::rules::Rules;
use crate::substitute::Lookup;
use crate::{items, substitute, tool};

/// The parameter with the workflows: a list, or an object with a name for each workflow.
pub(crate) const WORKFLOWS: &str = "workflows";

/// The parameter with the maximum number of branches in progress.
pub(crate) const MAX_PARALLEL: &str = "max_parallel";

/// The parameter that makes the first failure cancel the other branches.
pub(crate) const FAIL_FAST: &str = "fail_fast";

/// Default for the maximum number of branches in progress.
pub(crate) const DEFAULT_AT_ONCE: u32 = 4;

/// Upper bound of the maximum number of branches in progress.
pub(crate) const MAX_AT_ONCE: u32 = 32;

/// Maximum number of branches of one action.
pub(crate) const MAX_BRANCHES: u32 = crate::items::MAX_ITEMS;

/// The fields of the result of the action.
pub(crate) const FIELDS: [&str; 5] =
    [crate::items::RESULTS, "runs", crate::items::FAILED, "open_terminals", "recursion_depth"];

/// The parameter with the items of a `for_each`, in the order of its workflows. The engine sets it.
pub(crate) const ITEMS: &str = "items";

/// The fields of a child's outcome that its branch keeps. The variables are in the child's own record.
const KEPT_FIELDS: [&str; 12] = [
    "success",
    "run_id",
    "status",
    "error",
    "result",
    "return_values",
    "final_state",
    "states_executed",
    "total_elapsed_time",
    "open_terminals",
    "recursion_depth",
    "workflow_name",
];

/// Maximum number of failures in the action's error.
const MAX_SHOWN_FAILURES: usize = 3;

/// Problem with the parameters of a `parallel`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidParallel {
    #[error("'workflows' must be a list of workflows, or an object with a name for each")]
    NoWorkflows,
    #[error("{0} is not an object with the parameters of a run_workflow")]
    NoObject(String),
    #[error("'workflows' has {0} entries, more than {MAX_BRANCHES}")]
    TooMany(usize),
    #[error("'max_parallel' must be a whole number from 1 to {MAX_AT_ONCE}")]
    MaxParallel,
    #[error("'fail_fast' must be true or false")]
    FailFast,
}

impl InvalidParallel {
    /// Returns the invalid parameter.
    pub(crate) fn param(&self) -> &'static str {
        match self {
            Self::NoWorkflows | Self::NoObject(_) | Self::TooMany(_) => WORKFLOWS,
            Self::MaxParallel => MAX_PARALLEL,
            Self::FailFast => FAIL_FAST,
        }
    }
}

/// Returns the entries of the parameter `workflows`, each with its key: a name, or the index in the list. `None` if the
/// parameter is neither a list nor an object.
pub(crate) fn entries(params: &Map<String, Value>) -> Option<Vec<(String, &Value)>> {
    match params.get(WORKFLOWS)? {
        Value::Array(entries) => {
            Some(entries.iter().enumerate().map(|(index, entry)| (index.to_string(), entry)).collect())
        }
        Value::Object(entries) => Some(entries.iter().map(|(name, entry)| (name.clone(), entry)).collect()),
        _ => None,
    }
}

/// Returns the entries of the parameter `workflows` with variables replaced. A nested definition stays unchanged,
/// because its placeholders belong to the nested run.
pub(crate) fn resolve_branches(workflows: &Value, variables: &impl Lookup) -> Value {
    let field = |(name, value): (&String, &Value)| {
        let is_definition = name == child::DEFINITION;
        (name.clone(), if is_definition { value.clone() } else { substitute::value(value, variables, true) })
    };
    let branch = |entry: &Value| match entry {
        Value::Object(params) => Value::Object(params.iter().map(field).collect()),
        other => substitute::value(other, variables, true),
    };
    match workflows {
        Value::Array(all) => all.iter().map(branch).collect(),
        Value::Object(all) => all.iter().map(|(name, entry)| (name.clone(), branch(entry))).collect(),
        other => other.clone(),
    }
}

/// Reads the maximum number of branches in progress.
///
/// # Errors
/// If the value is not a whole number from 1 to [`MAX_AT_ONCE`].
pub(crate) fn read_max_parallel(value: Option<&Value>) -> Result<u32, InvalidParallel> {
    match value.filter(|value| !value.is_null()) {
        None => Ok(DEFAULT_AT_ONCE),
        Some(value) => {
            let number = substitute::as_text(value).trim().parse::<u32>().ok();
            number.filter(|number| (1..=MAX_AT_ONCE).contains(number)).ok_or(InvalidParallel::MaxParallel)
        }
    }
}

/// The parameters of a `parallel`, with all variables replaced.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parallel<'p> {
    /// The parameters of each branch, with its key.
    branches: Vec<(String, &'p Map<String, Value>)>,
    /// The shared definition of branches without their own. A loop over items stores its definition only here.
    shared_definition: Option<&'p Value>,
    /// The item of each branch.
    items: Option<&'p Vec<Value>>,
    /// True if the branches have names.
    is_named: bool,
    max_parallel: usize,
    fail_fast: bool,
}

impl<'p> Parallel<'p> {
    /// Reads the parameters.
    ///
    /// # Errors
    /// Returns the first problem of the parameters. An invalid branch fails alone.
    pub(crate) fn read(params: &'p Map<String, Value>) -> Result<Self, InvalidParallel> {
        let entries = entries(params).ok_or(InvalidParallel::NoWorkflows)?;
        if entries.len() > MAX_BRANCHES as usize {
            return Err(InvalidParallel::TooMany(entries.len()));
        }
        let object = |(key, entry): (String, &'p Value)| match entry.as_object() {
            Some(params) => Ok((key, params)),
            None => Err(InvalidParallel::NoObject(format!("workflow {key}"))),
        };
        let fail_fast = match params.get(FAIL_FAST).map(substitute::as_text).as_deref() {
            None | Some("false" | "null") => false,
            Some("true") => true,
            Some(_) => return Err(InvalidParallel::FailFast),
        };
        Ok(Self {
            branches: entries.into_iter().map(object).collect::<Result<_, _>>()?,
            shared_definition: params.get(child::DEFINITION),
            items: params.get(ITEMS).and_then(Value::as_array),
            is_named: params.get(WORKFLOWS).is_some_and(Value::is_object),
            max_parallel: read_max_parallel(params.get(MAX_PARALLEL))? as usize,
            fail_fast,
        })
    }

    /// Returns the parameters of a branch for a `run_workflow`.
    pub(crate) fn branch(&self, number: usize) -> Option<Map<String, Value>> {
        let mut params = self.own_params(number)?.clone();
        if let Some(shared) = self.shared_definition {
            params.insert(child::DEFINITION.to_owned(), shared.clone());
        }
        Some(params)
    }

    fn own_params(&self, number: usize) -> Option<&'p Map<String, Value>> {
        self.branches.get(number.checked_sub(1)?).map(|(_, params)| *params)
    }

    /// Returns whether the terminals that a branch leaves open stay open until the parent run ends.
    pub(crate) fn keeps_terminals(&self, number: usize) -> bool {
        let keeps = self.own_params(number).and_then(|params| params.get("keep_terminals"));
        keeps.map(substitute::as_text).as_deref() == Some("true")
    }

    /// Returns the name of a branch, if it has one.
    pub(crate) fn name(&self, number: usize) -> Option<String> {
        let (key, _) = self.branches.get(number.checked_sub(1)?)?;
        self.is_named.then(|| key.clone())
    }

    /// Returns the numbers of the branches to begin next.
    pub(crate) fn due(&self, branches: &Branches) -> std::ops::RangeInclusive<usize> {
        let free = self.max_parallel.saturating_sub(branches.open().count());
        let last = if self.is_over(branches) { 0 } else { (branches.begun + free).min(self.branches.len()) };
        branches.begun + 1..=last
    }

    /// Returns whether the action waits for no more branches.
    pub(crate) fn is_over(&self, branches: &Branches) -> bool {
        branches.ended.len() == self.branches.len()
            || (self.fail_fast && branches.ended.values().any(|result| !tool::succeeded(result)))
    }

    /// Returns the outcome of the action. A branch without a result was cancelled, or never began.
    pub(crate) fn outcome(&self, step: &StepId, branches: &Branches, rules: Rules) -> Outcome {
        let no_fields = Map::new();
        let (mut results, mut runs, mut failed, mut open) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut failures = Vec::new();
        let mut max_depth = 0;
        for (index, (key, _)) in self.branches.iter().enumerate() {
            let branch_result = branches.ended.get(&(index + 1));
            let result = branch_result.unwrap_or(&no_fields);
            let status = match branch_result {
                Some(result) => result.get("status").cloned().unwrap_or_else(|| "failed".into()),
                None if index < branches.begun => "cancelled".into(),
                None => "not_started".into(),
            };
            let mut run = Map::new();
            let label = if self.is_named { "name" } else { "index" };
            run.insert(label.to_owned(), self.label(index, key));
            run.insert("status".to_owned(), status.clone());
            let run_id = (index < branches.begun).then(|| RunId::started_by(&step.part(index + 1)).as_str().into());
            run.extend(run_id.clone().map(|run_id: Value| ("run_id".to_owned(), run_id)));
            for field in ["total_elapsed_time", "error"] {
                let value = result.get(field).filter(|value| !value.is_null());
                run.extend(value.map(|value| (field.to_owned(), value.clone())));
            }
            if branch_result.is_none_or(|result| !tool::succeeded(result)) {
                let error = result.get("error").filter(|error| !error.is_null()).unwrap_or(&status);
                let error = substitute::as_text(error);
                failed.push(if rules.describes_failures() {
                    let item = self.items.and_then(|items| items.get(index));
                    items::failure((label, self.label(index, key)), item, error.clone(), run_id)
                } else {
                    self.label(index, key)
                });
                failures.push(format!("{key}: {error}"));
            }
            results.push((key.clone(), value_of(result)));
            runs.push(Value::Object(run));
            if self.keeps_terminals(index + 1) {
                open.extend(left_open(result).map(Value::from));
            }
            max_depth = max_depth.max(result.get("recursion_depth").and_then(Value::as_u64).unwrap_or_default());
        }
        let results = if self.is_named {
            Value::Object(results.into_iter().collect())
        } else {
            results.into_iter().map(|(_, value)| value).collect()
        };
        let mut result = Map::new();
        result.insert("success".to_owned(), failed.is_empty().into());
        if !failures.is_empty() {
            result.insert("error".to_owned(), self.error(&failures).into());
        }
        let fields = [results, runs.into(), failed.into(), open.into(), max_depth.into()];
        result.extend(FIELDS.map(str::to_owned).into_iter().zip(fields));
        Outcome::Finished { result }
    }

    fn label(&self, index: usize, key: &str) -> Value {
        if self.is_named { key.into() } else { index.into() }
    }

    fn error(&self, failures: &[String]) -> String {
        let more = match failures.len().saturating_sub(MAX_SHOWN_FAILURES) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let first_failures = failures.iter().take(MAX_SHOWN_FAILURES).cloned().collect::<Vec<_>>().join("; ");
        format!("{} of {} workflows did not complete: {first_failures}{more}", failures.len(), self.branches.len())
    }
}

/// The progress of the branches of the current step.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Branches {
    /// Number of branches that have begun.
    begun: usize,
    /// Kept fields of the outcomes, by branch number.
    ended: BTreeMap<usize, Map<String, Value>>,
}

impl Branches {
    /// Records that a branch began. Branches begin in order.
    pub(crate) fn begin(&mut self, number: usize) {
        self.begun = self.begun.max(number);
    }

    /// Records that a branch ended.
    pub(crate) fn end(&mut self, number: usize, result: Map<String, Value>) {
        self.ended.insert(number, result);
    }

    /// Returns the numbers of the branches that are in progress.
    pub(crate) fn open(&self) -> impl Iterator<Item = usize> + '_ {
        (1..=self.begun).filter(|number| !self.ended.contains_key(number))
    }

    /// Returns whether any branch has begun.
    pub(crate) fn have_begun(&self) -> bool {
        self.begun > 0
    }

    /// Returns whether a branch is in progress.
    pub(crate) fn is_open(&self, number: usize) -> bool {
        (1..=self.begun).contains(&number) && !self.ended.contains_key(&number)
    }
}

/// Returns the terminals that a successful branch left open.
pub(crate) fn left_open(result: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let succeeded = tool::succeeded(result);
    let open = result.get("open_terminals").and_then(Value::as_array).filter(|_| succeeded);
    open.into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the kept fields of the outcome of a branch; `None` if the time limit of the action passed.
pub(crate) fn kept_result(outcome: Outcome) -> Option<Map<String, Value>> {
    match outcome {
        Outcome::TimedOut => None,
        Outcome::Finished { mut result } => {
            result.retain(|field, _| KEPT_FIELDS.contains(&field.as_str()));
            Some(result)
        }
        Outcome::Unknown => {
            let Outcome::Finished { result } = child::refused("its outcome is unknown".to_owned()) else { return None };
            Some(result)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::SEMANTICS_VERSION;

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().expect("the value is an object").clone()
    }

    #[test]
    fn parameters_are_read_and_problems_named() {
        let error = |params: Value| Parallel::read(&object(&params)).unwrap_err();
        assert_eq!(error(json!({})), InvalidParallel::NoWorkflows);
        assert_eq!(error(json!({"workflows": "a"})), InvalidParallel::NoWorkflows);
        assert_eq!(error(json!({"workflows": ["a"]})), InvalidParallel::NoObject("workflow 0".to_owned()));
        assert_eq!(error(json!({"workflows": [], "max_parallel": 0})), InvalidParallel::MaxParallel);
        assert_eq!(error(json!({"workflows": [], "max_parallel": 33})), InvalidParallel::MaxParallel);
        assert_eq!(error(json!({"workflows": [], "fail_fast": "maybe"})), InvalidParallel::FailFast);
        let params = object(&json!({"workflows": [{}, {}, {}], "max_parallel": "2", "fail_fast": "true"}));
        let parallel = Parallel::read(&params).unwrap();
        assert_eq!((parallel.max_parallel, parallel.fail_fast, parallel.is_named), (2, true, false));
        assert_eq!(parallel.due(&Branches::default()), 1..=2);
    }

    #[test]
    fn error_lists_the_first_failures() {
        let params = object(&json!({"workflows": {"a": {}, "b": {}, "c": {}, "d": {}, "e": {}}}));
        let parallel = Parallel::read(&params).unwrap();
        let mut branches = Branches::default();
        for (number, success) in [(1, false), (2, true), (3, false), (4, false), (5, false)] {
            branches.begin(number);
            branches.end(number, object(&json!({"success": success, "status": "x", "error": "no"})));
        }
        let step = "run_0123456789abcdef/fan/1".parse().expect("the step id is valid");
        let result = |rules| match parallel.outcome(&step, &branches, rules) {
            Outcome::Finished { result } => result,
            other => panic!("{other:?}"),
        };
        let now = result(Rules::for_version(SEMANTICS_VERSION));
        assert_eq!(now["error"], "4 of 5 workflows did not complete: a: no; c: no; d: no; and 1 more");
        assert_eq!(result(Rules::for_version(5))["failed"], json!(["a", "c", "d", "e"]));
        let failed = now["failed"].as_array().unwrap();
        let run_id = &now["runs"][2]["run_id"];
        assert_eq!((failed.len(), &failed[1]), (4, &json!({"name": "c", "error": "no", "run_id": run_id})));
    }

    #[test]
    fn failure_has_its_item() {
        let params = object(&json!({"workflows": [{}, {}, {}], "items": ["web1", {"host": "web2"}, "web3"]}));
        let parallel = Parallel::read(&params).unwrap();
        let mut branches = Branches::default();
        branches.begin(2);
        branches.end(1, object(&json!({"success": true})));
        branches.end(2, object(&json!({"success": false, "error": "unreachable"})));
        let step = "run_0123456789abcdef/fan/1".parse().expect("the step id is valid");
        let outcome = parallel.outcome(&step, &branches, Rules::for_version(SEMANTICS_VERSION));
        let Outcome::Finished { result } = outcome else { panic!("the action has not finished") };
        let run_id = &result["runs"][1]["run_id"];
        assert_eq!(
            result["failed"],
            json!([
                {"index": 1, "item": {"host": "web2"}, "error": "unreachable", "run_id": run_id},
                {"index": 2, "item": "web3", "error": "not_started"}
            ])
        );
    }
}
