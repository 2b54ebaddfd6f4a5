//! States with one execution for each item of a list: `for_each`.
//!
//! Each item is a separate visit with its own step, so pauses, cancellations and restarts work as for any action.
//! Transitions are evaluated after the last item, or after an item that failed. The result of that visit contains the
//! results of all items in the field `results`.

use serde_json::{Map, Value};

use crate::substitute::{self, Lookup};
use crate::tool;

/// Maximum number of items of a list.
pub(crate) const MAX_ITEMS: u32 = 1000;

/// Default for the maximum number of items of a list.
pub(crate) const DEFAULT_MAX_ITEMS: u32 = 100;

/// Default name of the variable with the current item.
pub(crate) const DEFAULT_ITEM_NAME: &str = "item";

/// The result field with the results of all items.
pub(crate) const RESULTS: &str = "results";

/// The result field that lists the items that failed.
pub(crate) const FAILED: &str = "failed";

/// Tools that cannot be repeated for items, because they ask, end the run, or have several results.
pub(crate) const UNREPEATABLE_TOOLS: &[&str] = &[tool::GATE, tool::RETURN, tool::FAIL, tool::PARALLEL];

/// The items that a state is executed for, with placeholders.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ForEach {
    /// A list, or text with one item per line; with variables to replace.
    pub(crate) items: Value,
    /// The variable of the current item.
    pub(crate) name: String,
    /// Maximum number of items of the list.
    pub(crate) max_items: u32,
    /// Settings for parallel child runs of a `run_workflow`; `None` for one item after the other.
    pub(crate) parallel: Option<ForEachParallel>,
}

/// Parallel execution of the child runs of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ForEachParallel {
    /// Maximum number of child runs in progress.
    pub(crate) max_parallel: u32,
    /// True if the first failure cancels the other runs.
    pub(crate) fail_fast: bool,
}

/// Reason the items of a state are not a list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ItemsError {
    #[error("for_each has {count} items, more than the {max_items} that max_items allows")]
    TooMany { count: usize, max_items: u32 },
    #[error("for_each needs a list or lines, not {0}")]
    NoList(String),
}

impl ForEach {
    /// Returns the items: the elements of a list or of a JSON list, or the non-blank lines of text.
    pub(crate) fn resolve(&self, variables: &impl Lookup) -> Result<Vec<Value>, ItemsError> {
        let items = match substitute::value(&self.items, variables, true) {
            Value::Array(items) => items,
            Value::String(text) => match serde_json::from_str(&text) {
                Ok(Value::Array(items)) => items,
                _ => text.lines().map(str::trim_end).filter(|line| !line.is_empty()).map(Value::from).collect(),
            },
            other => return Err(ItemsError::NoList(crate::definition::kind(&other))),
        };
        if items.len() > self.max_items as usize {
            return Err(ItemsError::TooMany { count: items.len(), max_items: self.max_items });
        }
        Ok(items)
    }
}

/// The items of a state in progress.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ItemLoop {
    state: String,
    name: String,
    items: Vec<Value>,
    /// Number of items that have begun.
    begun: usize,
    results: Vec<Value>,
}

impl ItemLoop {
    pub(crate) fn begin(state: &str, name: &str, items: &[Value]) -> Self {
        Self { state: state.to_owned(), name: name.to_owned(), items: items.to_vec(), begun: 0, results: Vec::new() }
    }

    /// Returns whether the loop belongs to this state.
    pub(crate) fn belongs_to(&self, state: &str) -> bool {
        self.state == state
    }

    /// Returns the variable of the current item.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the next item.
    pub(crate) fn next(&self) -> Option<&Value> {
        self.items.get(self.begun)
    }

    /// Returns the progress as text: the number of the next item, and the total.
    pub(crate) fn progress(&self) -> String {
        format!("item {} of {}", self.begun + 1, self.items.len())
    }

    /// Begins the next item and returns it.
    pub(crate) fn begin_next(&mut self) -> Option<&Value> {
        self.begun += 1;
        self.items.get(self.begun - 1)
    }

    /// Returns whether the loop continues with the next item after this result.
    pub(crate) fn continues_after(&self, result: &Map<String, Value>) -> bool {
        self.begun < self.items.len() && tool::succeeded(result)
    }

    /// Adds the result of the current item.
    pub(crate) fn add_result(&mut self, result: &Map<String, Value>) {
        self.results.push(value_of(result));
    }

    /// Returns the results of all items up to the current item, whose result is `result`. Returns an empty list for a
    /// list without items, although its state was executed once.
    pub(crate) fn results_with(&self, result: &Map<String, Value>) -> Value {
        if self.items.is_empty() {
            return Value::Array(Vec::new());
        }
        self.results.iter().cloned().chain([value_of(result)]).collect()
    }

    /// Returns the failures after this result of the current item: at most this item, because a failure ends the loop.
    pub(crate) fn failed_with(&self, result: &Map<String, Value>) -> Value {
        let Some(index) = self.begun.checked_sub(1).filter(|_| !tool::succeeded(result)) else {
            return Value::Array(Vec::new());
        };
        let error = result.get("error").map(substitute::as_text).unwrap_or_default();
        let run_id = result.get("run_id").filter(|run_id| run_id.is_string()).cloned();
        Value::Array(vec![failure(("index", index.into()), self.items.get(index), error, run_id)])
    }
}

/// Returns an entry of a list of failures. `label` is the name and value of the field that identifies it.
pub(crate) fn failure(label: (&str, Value), item: Option<&Value>, error: String, run_id: Option<Value>) -> Value {
    let (name, label) = label;
    let fields = [(name, Some(label)), ("item", item.cloned()), ("error", Some(error.into())), ("run_id", run_id)];
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(fields.collect())
}

/// Fields that may have the value of an item. The first non-empty field counts.
const VALUE_FIELDS: [&str; 5] = [tool::RESULT, tool::OUTPUT, "return_values", "match_text", "answer"];

/// Returns the value of a result in the results of a list: the action's value, output or match.
pub(crate) fn value_of(result: &Map<String, Value>) -> Value {
    let has_value = |value: &&Value| match value {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    let value = VALUE_FIELDS.iter().find_map(|field| result.get(*field).filter(has_value));
    value.cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::variables::Variables;

    fn resolved(items: Value, max_items: u32) -> Result<Vec<Value>, ItemsError> {
        ForEach { items, name: DEFAULT_ITEM_NAME.to_owned(), max_items, parallel: None }.resolve(&Variables::default())
    }

    #[test]
    fn items_are_elements_or_lines() {
        assert_eq!(resolved(json!(["a", 2]), 5).unwrap(), [json!("a"), json!(2)]);
        assert_eq!(resolved(json!("a\nb \r\n\n c\n"), 5).unwrap(), [json!("a"), json!("b"), json!(" c")]);
        assert_eq!(resolved(json!("[1, \"x\"]"), 5).unwrap(), [json!(1), json!("x")]);
        assert_eq!(resolved(json!(""), 5).unwrap(), [] as [Value; 0]);
        assert_eq!(resolved(json!("a\nb"), 1), Err(ItemsError::TooMany { count: 2, max_items: 1 }));
        assert!(matches!(resolved(json!({"a": 1}), 1), Err(ItemsError::NoList(_))));
        assert!(matches!(resolved(json!(null), 1), Err(ItemsError::NoList(_))));
    }

    #[test]
    fn value_of_an_item_is_the_main_result_of_its_action() {
        let value = |result: Value| value_of(result.as_object().unwrap());
        assert_eq!(value(json!({"success": true, "output": "x\n", "exit_code": 0})), json!("x\n"));
        assert_eq!(value(json!({"success": true, "return_values": {}, "result": {"a": 1}})), json!({"a": 1}));
        assert_eq!(value(json!({"success": true, "return_values": {"A": "1"}})), json!({"A": "1"}));
        assert_eq!(value(json!({"success": true})), json!(null));
    }
}
