//! The description of an action for people: its subject and its outcome, in a few words.

use anstyle::Style;
use serde_json::{Map, Value};

use crate::print::{BAD, GOOD, QUIET, visible};

/// Returns whether an action succeeded.
pub(crate) fn succeeded(result: &Value) -> bool {
    result.get("success") != Some(&Value::Bool(false)) && !result.is_null()
}

/// Returns the subject of an action, in a few words.
pub(crate) fn detail(tool: &str, params: &Value) -> String {
    let text = |name: &str| params.get(name).and_then(Value::as_str).unwrap_or_default();
    match tool {
        "open_terminal" => match params.get("command").and_then(Value::as_array) {
            Some(command) => command.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
            None if text("shell").is_empty() => "bash".to_owned(),
            None => text("shell").to_owned(),
        },
        "send_input" => {
            let keys = params.get("keys").and_then(Value::as_array);
            let keys: Vec<String> =
                keys.into_iter().flatten().filter_map(Value::as_str).map(|key| format!("<{key}>")).collect();
            format!("{}{}", visible(text("input_text")), keys.concat())
        }
        "await_output" if !text("pattern").is_empty() => format!("/{}/", visible(text("pattern"))),
        "await_output" => text("until").to_owned(),
        "dialogue" => {
            let rules = params.get("rules").and_then(Value::as_array).map_or(0, Vec::len);
            let rules = if rules == 1 { "1 rule".to_owned() } else { format!("{rules} rules") };
            let until = match params.get("until") {
                Some(Value::String(until)) => format!(" until /{}/", visible(until)),
                _ => String::new(),
            };
            format!("{} {rules}{until}", visible(text("input_text"))).trim_start().to_owned()
        }
        "run_command" => visible(text("command")),
        "set" => visible(&params.to_string()),
        "return" => params.get("result").map(|result| visible(&result.to_string())).unwrap_or_default(),
        "get_screen_content" => text("content_mode").to_owned(),
        "run_workflow" if text("workflow_name").is_empty() => {
            let name = params.get("workflow_definition").and_then(|inner| inner.get("name")?.as_str());
            name.unwrap_or("unnamed").to_owned()
        }
        "run_workflow" => text("workflow_name").to_owned(),
        "parallel" => match params.get("workflows") {
            Some(Value::Object(workflows)) => visible(&workflows.keys().cloned().collect::<Vec<_>>().join(", ")),
            Some(Value::Array(workflows)) => format!("{} workflows", workflows.len()),
            _ => String::new(),
        },
        "run_node" | "run_graph" => {
            let input = match params.get("input") {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => visible(text),
                Some(value) => visible(&value.to_string()),
            };
            format!("{}{} {input}", text("node_id"), text("graph_id")).trim_end().to_owned()
        }
        "fail" => visible(text("message")),
        "sleep" => params.get("seconds").map(|seconds| format!("{seconds} s")).unwrap_or_default(),
        _ => String::new(),
    }
}

/// Returns a question of a dialogue and its answer on one line.
pub(crate) fn dialogue_answer(data: &Map<String, Value>) -> String {
    let text = |name: &str| data.get(name).and_then(Value::as_str).map(|text| visible(text.trim()));
    let keys = data.get("keys").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let keys: String = keys.map(|key| format!("<{key}>")).collect();
    let input = text("input_text").unwrap_or_else(|| "(secret)".to_owned());
    format!("{} → {input}{keys}", text("match_text").unwrap_or_default())
}

/// The outcome of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Succeeded,
    Failed,
    TimedOut,
    /// The daemon stopped during the action.
    Unknown,
}

impl Outcome {
    /// Determines the outcome from the result and from the outcome field of an event.
    pub(crate) fn from_result(outcome: Option<&str>, result: &Value) -> Self {
        let is_true = |name: &str| result.get(name) == Some(&Value::Bool(true));
        match outcome {
            Some("unknown") => Self::Unknown,
            Some("timed_out") => Self::TimedOut,
            _ if is_true("outcome_unknown") => Self::Unknown,
            _ if is_true("timeout_occurred") => Self::TimedOut,
            _ if succeeded(result) => Self::Succeeded,
            _ => Self::Failed,
        }
    }

    /// Returns the symbol of the outcome and its style.
    pub(crate) fn mark(self) -> (&'static str, Style) {
        match self {
            Self::Succeeded => ("✓", GOOD),
            Self::Failed => ("✗", BAD),
            Self::TimedOut => ("◌", QUIET),
            Self::Unknown => ("?", BAD),
        }
    }

    /// Describes the outcome. Empty for a success without details.
    pub(crate) fn describe(self, tool: &str, result: &Value) -> String {
        let text = |name: &str| result.get(name).and_then(Value::as_str);
        match self {
            Self::TimedOut => return "timed out".to_owned(),
            Self::Unknown => return "unknown: the daemon exited in the meantime".to_owned(),
            Self::Failed if tool != "run_workflow" => {
                return text("error").map(visible).unwrap_or_default();
            }
            Self::Succeeded | Self::Failed => {}
        }
        match tool {
            "await_output" => match text("match_text") {
                Some(match_text) => visible(match_text),
                None => match result.get("exit_code").and_then(Value::as_i64) {
                    Some(code) => format!("exit code {code}"),
                    None => text("reason").unwrap_or_default().to_owned(),
                },
            },
            "run_node" | "run_graph" => {
                visible(text("output").unwrap_or_default().trim().lines().next().unwrap_or_default())
            }
            "open_terminal" => text("session_id").unwrap_or_default().to_owned(),
            // The nested run's events appear under its own id.
            "run_workflow" => {
                let parts =
                    [text("run_id").map(str::to_owned), text("status").map(str::to_owned), text("error").map(visible)];
                parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
            }
            _ => String::new(),
        }
    }
}

/// Joins the subject and the outcome of an action.
pub(crate) fn join_outcome(detail: &str, outcome: &str) -> String {
    match (detail, outcome) {
        (detail, "") => detail.to_owned(),
        ("", outcome) => outcome.to_owned(),
        (detail, outcome) => format!("{detail} → {outcome}"),
    }
}
