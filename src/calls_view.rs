//! The calls of a run as lines: nodes, steps of graphs, and events emitted by functions.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use steplatch_protocol::RunEvent;

use crate::action::join_outcome;
use crate::print::{BAD, GOOD, QUIET, visible};
use crate::run_view::{duration_between, format_line, since};

/// Node calls in progress, by number.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    open: BTreeMap<u64, CallLine>,
}

/// A node call in progress.
#[derive(Debug, Clone)]
pub(crate) struct CallLine {
    /// Name of the graph's step, or of the node.
    pub(crate) name: String,
    pub(crate) node: String,
    /// The input, formatted as one line.
    pub(crate) input: String,
    started_at: String,
    /// Local start time of the call.
    pub(crate) started: Instant,
}

impl Calls {
    /// Returns the call that has been in progress longest.
    pub(crate) fn oldest(&self) -> Option<&CallLine> {
        self.open.values().next()
    }

    /// Records an event. Returns the line for the event, if it has one.
    pub(crate) fn record(&mut self, event: &RunEvent, width: Option<usize>) -> Option<String> {
        let text = |name: &str| event.data.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let call = event.data.get("call").and_then(Value::as_u64);
        match event.event_type.as_str() {
            "node_started" | "nested_workflow_started" => {
                let node = [text("node_id"), text("workflow_id")].concat();
                let step = text("step_id");
                let name = if step.is_empty() { node.clone() } else { step };
                let input = format_brief(event.data.get("input").unwrap_or(&Value::Null));
                let line = CallLine {
                    name,
                    node,
                    input,
                    started_at: event.timestamp.clone(),
                    started: since(&event.timestamp),
                };
                call.map(|call| self.open.insert(call, line));
                None
            }
            "node_completed" | "node_error" | "node_timeout" => {
                let call = call.and_then(|call| self.open.remove(&call));
                Some(format_ended_call(event, call, width))
            }
            "nested_workflow_completed" | "nested_workflow_failed" | "nested_workflow_cancelled" => {
                let call = call.and_then(|call| self.open.remove(&call))?;
                Some(format_nested_run(event, &call, width))
            }
            "graph_step_skipped" | "graph_step_not_run" => {
                let detail = match event.event_type.as_str() {
                    "graph_step_skipped" => "skipped".to_owned(),
                    _ => format!("not run, because '{}' failed", text("because")),
                };
                Some(format_line(&format!("{QUIET}◌{QUIET:#}"), &text("step_id"), "step", &detail, "", width))
            }
            event_type if !RunEvent::is_own(event_type) => {
                let fields: Vec<String> =
                    event.data.iter().map(|(name, value)| format!("{name}={}", format_brief(value))).collect();
                let mark = format!("{QUIET}·{QUIET:#}");
                Some(format_line(&mark, &visible(&event.event_type), "event", &fields.join(" "), "", width))
            }
            _ => None,
        }
    }
}

fn format_ended_call(event: &RunEvent, call: Option<CallLine>, width: Option<usize>) -> String {
    let empty = Value::Object(Map::new());
    let result = event.data.get("result").unwrap_or(&empty);
    let text = |value: &Value| value.as_str().map(str::to_owned).unwrap_or_default();
    let error = [text(&result["error"]), event.data.get("error").map(text).unwrap_or_default()].concat();
    let is_success = event.event_type == "node_completed" && event.data.get("success") != Some(&Value::Bool(false));
    let (mark, style, summary) =
        if is_success { ("✓", GOOD, format_brief(&result["output"])) } else { ("✗", BAD, first_line(&error)) };
    let id = event.data.get("node_id").map(text).unwrap_or_default();
    let (name, input, time) = match &call {
        Some(call) => (call.name.clone(), call.input.as_str(), format_duration(call, event)),
        None => (id, "", String::new()),
    };
    let kind = text(&result["node_type"]);
    // For a command, the output is more informative than the input.
    let detail = if summary == input { summary } else { join_outcome(input, &summary) };
    format_line(&format!("{style}{mark}{style:#}"), &visible(&name), &kind, &detail, &time, width)
}

fn format_nested_run(event: &RunEvent, call: &CallLine, width: Option<usize>) -> String {
    let data = |name: &str| event.data.get(name).map(format_brief).unwrap_or_default();
    let (mark, style, summary) = match event.event_type.as_str() {
        "nested_workflow_completed" => ("✓", GOOD, data("result")),
        "nested_workflow_failed" => ("✗", BAD, data("error")),
        _ => ("✗", BAD, "cancelled".to_owned()),
    };
    let detail = join_outcome(&call.input, &summary);
    format_line(
        &format!("{style}{mark}{style:#}"),
        &visible(&call.name),
        "run",
        &detail,
        &format_duration(call, event),
        width,
    )
}

fn format_duration(call: &CallLine, event: &RunEvent) -> String {
    let elapsed = duration_between(&call.started_at, &event.timestamp);
    // Omit durations below one millisecond.
    elapsed.filter(|elapsed| *elapsed >= Duration::from_millis(1)).map(crate::print::duration).unwrap_or_default()
}

/// Formats a value for use within a line. Of a string, only the first line is used.
fn format_brief(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => first_line(text),
        value => visible(&value.to_string()),
    }
}

fn first_line(text: &str) -> String {
    visible(text.trim().lines().next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(event_type: &str, data: Value, at: &str) -> RunEvent {
        let Value::Object(data) = data else { panic!("the data is not an object") };
        RunEvent {
            seq: 1,
            run_id: "run".to_owned(),
            workflow_id: "flow".to_owned(),
            event_type: event_type.to_owned(),
            data,
            timestamp: format!("2026-01-01T00:00:{at}Z"),
        }
    }

    #[test]
    fn ended_call_is_reported_with_its_input() {
        let mut calls = Calls::default();
        let result = json!({"success": true, "output": "two\nlines", "node_type": "bash"});
        for (event, expected) in [
            (event("node_started", json!({"node_id": "say", "call": 1, "input": "hello"}), "00.000"), None),
            (
                event("node_completed", json!({"node_id": "say", "call": 1, "result": result}), "00.250"),
                Some("say bash hello → two 250 ms"),
            ),
            (event("node_started", json!({"node_id": "say", "call": 2, "step_id": "one"}), "01.000"), None),
            (event("node_timeout", json!({"call": 2, "error": "too long"}), "03.000"), Some("one too long 2.0 s")),
            (
                event(
                    "node_completed",
                    json!({"call": 3, "node_id": "say", "success": false,
                                               "result": {"error": "broken", "node_type": "bash"}}),
                    "03.000",
                ),
                Some("say bash broken"),
            ),
            (event("draft_ready", json!({"round": 1}), "03.000"), Some("draft_ready event round=1")),
            (event("graph_step_completed", json!({"step_id": "one"}), "03.000"), None),
        ] {
            let line = calls.record(&event, None).map(|line| anstream::adapter::strip_str(&line).to_string());
            let words = line.map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" "));
            assert_eq!(words.as_deref(), expected, "{}", event.event_type);
        }
        assert!(calls.oldest().is_none());
    }
}
