//! The outcome of a finished machine, for the run that started it.

use serde_json::{Map, Value};
use steplatch_workflow::{
    Event, History, LOG_OMITTED, LogBuilder, MAX_CHILD_LOG_BYTES, MAX_CHILD_VARIABLES_BYTES, OMITTED_VARIABLES,
    Outcome, child_outcome,
};

use super::report;
use crate::child::refused_outcome;
use crate::engine_state::Engine;
use crate::result_error::ResultError;
use crate::run::Run;
use crate::seal::Seal;

/// Returns the outcome of a finished machine for a waiting machine. `with_log` includes the log.
pub(crate) async fn outcome(shared: &Engine, run: &Run, with_log: bool) -> Outcome {
    let events = match shared.events_of(&run.id, 1, &Seal::default()).await {
        Ok(events) => events,
        Err(error) => return refused_outcome(format!("failed to read the outcome of run {}: {error}", run.id)),
    };
    let (outcome, log) = if with_log {
        let (history, log) = fold_with_log(&events);
        (child_outcome(history.history(), run.state().name()), Some(log))
    } else {
        (child_outcome(&History::from_iter(&events), run.state().name()), None)
    };
    match outcome {
        Outcome::Finished { mut result } => {
            let progress = run.progress();
            let saving = run.header.source.saving(progress.library_copy.as_ref(), progress.save_error.as_deref());
            let mut set = |name: &str, value: Value| drop(result.insert(name.to_owned(), value));
            set("workflow_name", run.header.workflow.clone().into());
            set("workflow_saved", saving.saved.is_some().into());
            // A null overwrites no variable, so `{saved_workflow_name}` is always the name of a saved workflow.
            set("saved_workflow_name", saving.saved.into());
            if let Some(name) = saving.duplicate_of {
                set("duplicate_of", name.into());
            }
            // Use a separate field, because the field `error` of a child is the reason of its failure, and this child
            // did not fail.
            if let Some(error) = saving.error {
                set("saving_error", error.into());
            }
            if let Some(Value::Object(variables)) = result.get_mut("final_variables") {
                shared.secrets.mask_fields(variables);
                let omitted = omit_longest(variables, MAX_CHILD_VARIABLES_BYTES);
                if !omitted.is_empty() {
                    result.insert(OMITTED_VARIABLES.to_owned(), omitted.into());
                }
            }
            if let Some(mut log) = log.map(Value::Array) {
                shared.secrets.mask_in(&mut log);
                if log.to_string().len() > MAX_CHILD_LOG_BYTES {
                    result.insert(LOG_OMITTED.to_owned(), true.into());
                } else {
                    result.insert(report::LOG.to_owned(), log);
                }
            }
            Outcome::Finished { result }
        }
        other => other,
    }
}

/// Folds the events of a run and returns its log. The log contains no logs of its child runs.
fn fold_with_log(events: &[Event]) -> (LogBuilder, Vec<Value>) {
    let mut log = LogBuilder::default();
    let mut entries: Vec<Value> = events.iter().flat_map(|event| report::entries_of(event, &mut log)).collect();
    for entry in &mut entries {
        for field in ["result", "variables_after"] {
            entry.get_mut(field).and_then(Value::as_object_mut).into_iter().for_each(report::remove_nested_logs);
        }
    }
    (log, entries)
}

/// Removes the longest variables until all have at most `max_bytes` bytes as JSON and returns their names.
fn omit_longest(variables: &mut Map<String, Value>, max_bytes: usize) -> Vec<String> {
    let size = |(name, value): (&String, &Value)| (name.len() + value.to_string().len(), name.clone());
    let mut sizes: Vec<(usize, String)> = variables.iter().map(size).collect();
    sizes.sort_unstable();
    let mut total: usize = sizes.iter().map(|(size, _)| size).sum();
    let mut omitted = Vec::new();
    while let Some((size, name)) = sizes.pop().filter(|_| total > max_bytes) {
        total -= size;
        variables.shift_remove(&name);
        omitted.push(name);
    }
    omitted
}

/// Returns the result of a completed machine for a waiting function.
///
/// # Errors
///
/// If reading the history fails, or the history contains no result.
pub(crate) async fn value(shared: &Engine, run: &Run) -> Result<Value, ResultError> {
    let events = shared.events_of(&run.id, 1, &Seal::default()).await?;
    match child_outcome(&History::from_iter(&events), run.state().name()) {
        Outcome::Finished { result } => Ok(Value::Object(result)),
        _ => Err(ResultError::NoResult),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_are_complete_or_omitted() {
        let long = "x".repeat(900);
        let all = json!({"a": "1", "b": long, "c": "y".repeat(80), "d": [1, 2]});
        let mut variables = all.as_object().unwrap().clone();
        assert_eq!(omit_longest(&mut variables, 2000), [] as [&str; 0]);
        assert_eq!(json!(variables), all);
        assert_eq!(omit_longest(&mut variables, 100), ["b"]);
        assert_eq!(json!(variables), json!({"a": "1", "c": "y".repeat(80), "d": [1, 2]}));
    }
}
