//! Short form of the reply about a run.
//!
//! A model pays for every byte of a reply, and the log of a run repeats screens and variables in every entry. The short
//! form keeps every key of a reply. A log entry holds the action and the changes of its state. Long strings are cut to
//! one line. Screens are omitted, except the last one of a run that failed.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::RunReply;

/// Maximum string length, in characters.
const MAX_LINE_CHARS: usize = 100;

/// Maximum number of log entries from the beginning.
const MAX_FIRST_ENTRIES: usize = 8;

/// Maximum number of log entries from the end.
const MAX_LAST_ENTRIES: usize = 16;

/// Maximum size of one object in bytes.
const MAX_OBJECT_BYTES: usize = 400;

/// Maximum number of workflow names.
const MAX_WORKFLOWS: usize = 5;

/// Fields of a result that are omitted: large, constant, or meaningful only to the daemon.
const OMITTED_FIELDS: &[&str] = &[
    "screen_content",
    "timestamp",
    "session_id",
    "success",
    "message",
    "web_url",
    "cursor",
    "offset",
    "process_running",
    "elapsed_time",
    "groups",
    "timeout_occurred",
    "shell",
    "pid",
    "cols",
    "rows",
    "awaiting_input",
    "busy",
    "survivors",
    "alternate_screen",
    "title",
    "cwd",
    "execution_log",
    "available_workflows",
];

impl RunReply {
    /// Returns the short form of the reply: about 2 KB at most for eight successful states, 6 KB for any number.
    #[must_use]
    pub fn shortened(self) -> Self {
        let failed = self.status == "failed";
        Self {
            execution_log: short_log(self.execution_log),
            final_variables: short_variables(self.final_variables),
            workflow_signature: short_object(self.workflow_signature),
            // Only a caller whose workflow was not found needs the other names.
            available_workflows: if self.run_id.is_empty() { short_list(self.available_workflows) } else { Vec::new() },
            total_elapsed_time: rounded(self.total_elapsed_time),
            last_screen: self.last_screen.filter(|_| failed),
            last_screens: if failed { self.last_screens } else { BTreeMap::new() },
            ..self
        }
    }
}

/// Rounds seconds to milliseconds.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

fn short_log(log: Vec<Value>) -> Vec<Value> {
    let mut entries: Vec<Map<String, Value>> = Vec::new();
    let mut variables = Map::new();
    for entry in log {
        let Value::Object(entry) = entry else { continue };
        match entry.get("phase").and_then(Value::as_str) {
            Some("execution") => entries.push(short_execution(entry, &mut variables)),
            // A transition becomes part of the state that it leaves. The status of the reply states the end of the run.
            Some("transition") => {
                if let (Some(last), Some(next)) =
                    (entries.last_mut(), entry.get("to_state").filter(|next| next.is_string()))
                {
                    last.insert("next_state".to_owned(), next.clone());
                }
            }
            Some("pre_execution_validation" | "post_execution_validation") if entry["success"] == true => {}
            _ => entries.push(short_entry(entry)),
        }
    }
    let omitted_count = entries.len().saturating_sub(MAX_FIRST_ENTRIES + MAX_LAST_ENTRIES);
    if omitted_count > 0 {
        let note = json!({"left_out": format!("{omitted_count} entries; get_run with detail=full has them")});
        let note = note.as_object().cloned().unwrap_or_default();
        entries.splice(MAX_FIRST_ENTRIES..MAX_FIRST_ENTRIES + omitted_count, [note]);
    }
    entries.into_iter().map(Value::Object).collect()
}

/// Shortens the entry of an executed state: its action, its result, and the variables that it changed.
fn short_execution(mut entry: Map<String, Value>, variables: &mut Map<String, Value>) -> Map<String, Value> {
    let mut short = Map::new();
    for key in ["state", "tool", "taken_over"] {
        short.extend(entry.remove(key).map(|value| (key.to_owned(), value)));
    }
    if entry.get("tool_success") == Some(&Value::Bool(false)) {
        short.insert("tool_success".to_owned(), false.into());
    }
    if let Some(seconds) = entry.get("elapsed_time").and_then(Value::as_f64) {
        short.insert("elapsed_time".to_owned(), rounded(seconds).into());
    }
    let result = match entry.remove("result") {
        Some(Value::Object(result)) => result,
        _ => Map::new(),
    };
    if let Some(Value::Object(after)) = entry.remove("variables_after") {
        let state = short.get("state").and_then(Value::as_str).map(|state| format!("{state}_")).unwrap_or_default();
        let is_in_result = |name: &str| result.contains_key(name.strip_prefix(&state).unwrap_or(name));
        let changed = after.iter().filter(|(name, value)| variables.get(*name) != Some(value) && !is_in_result(name));
        let changed: Map<String, Value> = changed.map(|(name, value)| (name.clone(), value.clone())).collect();
        let changed = short_variables(changed);
        if !changed.is_empty() {
            short.insert("variables_after".to_owned(), changed.into());
        }
        *variables = after;
    }
    let result: Map<String, Value> = result
        .into_iter()
        .filter(|(name, value)| !OMITTED_FIELDS.contains(&name.as_str()) && !is_empty_value(value) && *value != false)
        .map(|(name, value)| (name, short_value(value)))
        .collect();
    if !result.is_empty() {
        short.insert("result".to_owned(), result.into());
    }
    short
}

/// Variables that every action sets. Their values are in the result of the action.
const STANDARD_VARIABLES: &[&str] =
    &["error", "exit_code", "match_text", "output", "reason", "run_id", "typed", "password"];

/// Returns whether a variable adds nothing to the log: every action sets it, or it is an omitted field of a result.
fn is_standard_variable(name: &str) -> bool {
    let is_field = |field: &&str| name == *field || name.strip_suffix(*field).is_some_and(|state| state.ends_with('_'));
    STANDARD_VARIABLES.contains(&name) || OMITTED_FIELDS.iter().any(is_field)
}

/// Returns whether a variable only reports that a state had no timeout or exit code 0.
fn is_success_value(name: &str, value: &Value) -> bool {
    (name.ends_with("_timed_out") && *value == false) || (name.ends_with("_exit_code") && *value == 0)
}

/// Shortens variables, without those that add nothing.
fn short_variables(variables: Map<String, Value>) -> Map<String, Value> {
    short_object(
        variables
            .into_iter()
            .filter(|(name, value)| {
                !is_standard_variable(name) && !is_empty_value(value) && !is_success_value(name, value)
            })
            .collect(),
    )
}

/// Returns whether a value is null, or a text, list or object without content.
#[must_use]
pub fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn short_entry(entry: Map<String, Value>) -> Map<String, Value> {
    let short_field = |(name, value): (String, Value)| match name.as_str() {
        "timestamp" | "variables" | "validation_result" => None,
        // Keep errors whole.
        "error" => Some((name, value)),
        _ => Some((name, short_value(value))),
    };
    entry.into_iter().filter_map(short_field).collect()
}

/// Cuts the strings of an object to one line and drops fields beyond [`MAX_OBJECT_BYTES`].
fn short_object(fields: Map<String, Value>) -> Map<String, Value> {
    let field_count = fields.len();
    let mut short = Map::new();
    let mut bytes = 0;
    for (name, value) in fields {
        let value = short_value(value);
        bytes += name.len() + value.to_string().len() + 4;
        if bytes > MAX_OBJECT_BYTES {
            break;
        }
        short.insert(name, value);
    }
    if short.len() < field_count {
        let omitted_count = field_count - short.len();
        short.insert("…".to_owned(), format!("{omitted_count} more; get_run with detail=full has them").into());
    }
    short
}

fn short_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(last_line(&text)),
        Value::Array(_) | Value::Object(_) => {
            let text = value.to_string();
            if text.chars().count() > 2 * MAX_LINE_CHARS { Value::String(last_line(&text)) } else { value }
        }
        other => other,
    }
}

/// Returns the last line of `text`, cut to [`MAX_LINE_CHARS`] characters. `…` marks omitted text.
fn last_line(text: &str) -> String {
    let trimmed = text.trim_end();
    let (line, is_cut) = match trimmed.rsplit_once('\n') {
        Some((_, line)) => (line, true),
        None => (trimmed, false),
    };
    let is_long = line.chars().count() > MAX_LINE_CHARS;
    let line: String = line.chars().take(MAX_LINE_CHARS).collect();
    format!("{}{line}{}", if is_cut { "… " } else { "" }, if is_long { "…" } else { "" })
}

fn short_list(mut names: Vec<String>) -> Vec<String> {
    let omitted_count = names.len().saturating_sub(MAX_WORKFLOWS);
    if omitted_count > 0 {
        names.truncate(MAX_WORKFLOWS);
        names.push(format!("… {omitted_count} more: list_workflows"));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(number: usize) -> Vec<Value> {
        let screen = "user@host:~$ make\n".repeat(30);
        let result = json!({"success": true, "session_id": "term_1", "screen_content": screen, "match_text": "ready",
            "exit_code": 0, "reason": "match", "timestamp": "2026-01-01T00:00:00Z"});
        let mut after = json!({"input": "x", "match_text": "ready", "screen_content": screen});
        after[format!("state_{number}_match_text")] = "ready".into();
        after[format!("STEP_{number}")] = format!("value {number}").into();
        vec![
            json!({"phase": "execution", "state": format!("state_{number}"), "tool": "await_output", "params": {},
                "result": result, "variables_after": after, "tool_success": true, "elapsed_time": 0.123_456_789}),
            json!({"phase": "transition", "from_state": format!("state_{number}"), "condition_met": true,
                "to_state": format!("state_{}", number + 1), "state": format!("state_{number}")}),
        ]
    }

    fn reply(states: usize) -> RunReply {
        RunReply {
            success: true,
            status: "completed".to_owned(),
            execution_log: (0..states).flat_map(state).collect(),
            final_variables: json!({"A": "1", "screen": "x\n".repeat(500)}).as_object().cloned().unwrap_or_default(),
            return_values: json!({"LOAD": "0.5"}).as_object().cloned().unwrap_or_default(),
            last_screen: Some("$ ".to_owned()),
            available_workflows: (0..40).map(|number| format!("workflow_{number}")).collect(),
            ..RunReply::default()
        }
    }

    #[test]
    fn short_reply_size_is_bounded() {
        let size = |states| serde_json::to_string(&reply(states).shortened()).map_or(0, |text| text.len());
        assert!(size(8) <= 2048, "{} bytes", size(8));
        assert!(size(60) <= 6144, "{} bytes", size(60));
        assert!(size(1000) <= 6144, "{} bytes", size(1000));
    }

    #[test]
    fn log_entry_has_its_changes_and_next_state() {
        let short = reply(2).shortened();
        assert_eq!(short.execution_log[0].get("taken_over"), None);
        let mut rerun = reply(2);
        rerun.execution_log[0]["taken_over"] = true.into();
        assert_eq!(rerun.shortened().execution_log[0]["taken_over"], true, "an earlier run executed the state");
        let entry = json!({"state": "state_1", "tool": "await_output", "elapsed_time": 0.123,
            "variables_after": {"STEP_1": "value 1"}, "next_state": "state_2",
            "result": {"match_text": "ready", "exit_code": 0, "reason": "match"}});
        assert_eq!(short.execution_log[1], entry);
        assert_eq!(short.return_values, reply(2).return_values, "return values are not shortened");
        assert_eq!(short.last_screen, None);
        assert_eq!(short.available_workflows.len(), MAX_WORKFLOWS + 1, "the reply without a run lists workflows");
        let run = RunReply { run_id: "run_1".to_owned(), ..reply(2) }.shortened();
        assert_eq!(run.available_workflows, [] as [&str; 0]);
        let failed = RunReply { status: "failed".to_owned(), ..reply(2) }.shortened();
        assert_eq!(failed.last_screen.as_deref(), Some("$ "));
    }
}
