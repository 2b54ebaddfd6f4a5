//! A run, as it is reported to who asks.

use serde_json::{Map, Value};
use steplatch_protocol::{GateInfo, RunReply};
use steplatch_workflow::{Event, History, execution_log};

use super::run::{Run, RunState};
use crate::moment;
use crate::secrets::Secrets;

/// Characters of a text in a report, at the most; its head and tail are kept.
pub(super) const LONGEST_TEXT: usize = 2000;

/// … and at the least, in the report of a long run.
const SHORTEST_CUT: usize = 200;

/// Characters that the screens of a whole report may come to, about: a model reads it.
const BUDGET: usize = 30_000;

/// Tells how far `run` is, from its history.
pub(super) fn of(run: &Run, events: &[Event], gate: Option<GateInfo>, secrets: &Secrets) -> RunReply {
    let history = History::from_iter(events);
    let progress = run.progress();
    let end = progress.ended.unwrap_or_else(moment::now);
    let log = execution_log(events);
    // A screen stands in each result, and again among the variables.
    let longest = (BUDGET / (2 * log.len().max(1))).clamp(SHORTEST_CUT, LONGEST_TEXT);
    let fitting = |mut value: Value| {
        secrets.mask_in(&mut value);
        shorten(&mut value, longest);
        value
    };
    let log = log.into_iter().filter_map(|entry| serde_json::to_value(entry).ok());
    let variables = match fitting(Value::Object(history.variables().to_map())) {
        Value::Object(variables) => variables,
        _ => Map::new(),
    };
    RunReply {
        success: matches!(progress.state, RunState::Running | RunState::Waiting | RunState::Completed),
        run_id: run.id.to_string(),
        status: progress.state.name().to_owned(),
        workflow_name: Some(run.about.workflow.clone()),
        final_state: history.final_state().map(str::to_owned),
        states_executed: history.states_executed(),
        total_elapsed_time: end.since(run.about.started).as_secs_f64(),
        execution_log: log.map(fitting).collect(),
        final_variables: variables,
        return_values: history
            .return_values()
            .iter()
            .map(|(name, value)| (name.clone(), Value::String(secrets.masked(value.clone()))))
            .collect(),
        session_id: history.session_id().map(str::to_owned),
        recursion_depth: history.recursion_depth(),
        workflow_signature: run.about.signature.as_ref().map(ToString::to_string),
        workflow_saved: progress.kept.as_ref().is_some_and(|kept| kept.saved),
        saved_workflow_name: progress.kept.as_ref().map(|kept| kept.name.to_string()),
        pending_gate: gate,
        error: secrets.masked_if(progress.error.or(progress.trouble)),
        ..RunReply::default()
    }
}

/// Cuts texts that are longer than `longest`, keeping their ends and saying what is missing.
pub(super) fn shorten(value: &mut Value, longest: usize) {
    match value {
        Value::String(text) => {
            let length = text.chars().count();
            if length > longest {
                let half = longest / 2;
                let head: String = text.chars().take(half).collect();
                let tail: String = text.chars().skip(length - half).collect();
                *text = format!("{head}\n[… {} characters left out of this report …]\n{tail}", length - 2 * half);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| shorten(item, longest)),
        Value::Object(fields) => fields.values_mut().for_each(|field| shorten(field, longest)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_ends_and_says_what_is_missing() {
        let mut value = Value::String(format!("begin{}end", "x".repeat(5000)));
        shorten(&mut value, 2000);
        let text = value.as_str().unwrap();
        assert!(text.starts_with("begin") && text.ends_with("end"));
        assert!(text.contains("[… 3008 characters left out of this report …]"), "{text}");
    }
}
