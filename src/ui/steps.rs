//! The steps of a run, computed from its events, with their inputs, outputs and durations.
//!
//! Pure. Steps are states of machines, calls of functions and graphs, child runs, and gates.

use serde_json::Value;
use steplatch_protocol::RunEvent;

use crate::action::{Outcome, succeeded};
use crate::print;

/// Maximum number of steps. The oldest are dropped.
const MAX_STEPS: usize = 5000;

/// Maximum number of lines shown for a value, and of characters shown for a line.
const MAX_LINES: usize = 2000;
const MAX_LINE_CHARS: usize = 4000;

/// Progress of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepState {
    Running,
    /// The step waits for an answer.
    Waiting,
    Succeeded,
    Failed,
    TimedOut,
    Unknown,
}

impl StepState {
    fn from_outcome(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Succeeded,
            Outcome::Failed => Self::Failed,
            Outcome::TimedOut => Self::TimedOut,
            Outcome::Unknown => Self::Unknown,
        }
    }
}

/// A step of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    /// Identity within the run while the step is in progress.
    key: String,
    pub(crate) name: String,
    /// Tool of a state, or `node`, `graph`, `run`, `branch` or `gate`.
    pub(crate) kind: String,
    pub(crate) state: StepState,
    /// Time of the start (ISO 8601, UTC).
    pub(crate) began: String,
    pub(crate) ended: Option<String>,
    pub(crate) input: Value,
    pub(crate) output: Value,
    /// True if an earlier run performed the step.
    pub(crate) is_taken_over: bool,
    /// The run that the step started.
    pub(crate) child: Option<String>,
    /// Log of a function, or the questions that a dialogue answered.
    pub(crate) log: Vec<String>,
}

impl Step {
    /// Returns the entered state of a machine as `NAME/VISIT`. `None` for other steps.
    pub(crate) fn entered_state(&self) -> Option<String> {
        let (state, visit) = self.key.strip_prefix("state ")?.rsplit_once(' ')?;
        Some(format!("{state}/{visit}"))
    }
}

/// The steps of one run, the oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Steps {
    pub(crate) steps: Vec<Step>,
    /// Number of dropped steps.
    pub(crate) omitted: usize,
    /// True if the run has ended.
    pub(crate) has_ended: bool,
}

impl Steps {
    /// Records an event. Events must arrive in order.
    pub(crate) fn record(&mut self, event: &RunEvent) {
        let data = &event.data;
        let text = |name: &str| data.get(name).and_then(Value::as_str).unwrap_or_default();
        let value = |name: &str| data.get(name).cloned().unwrap_or(Value::Null);
        let number = |name: &str| data.get(name).map(Value::to_string).unwrap_or_default();
        match event.event_type.as_str() {
            "state_entered" => {
                let key = format!("state {} {}", text("state"), number("visit"));
                self.start_step(event, key, text("state"), text("tool"), value("params"));
            }
            "state_completed" => {
                let key = format!("state {} {}", text("state"), number("visit"));
                let result = value("result");
                let state =
                    StepState::from_outcome(Outcome::from_result(data.get("outcome").and_then(Value::as_str), &result));
                let child = result.get("run_id").and_then(Value::as_str).map(str::to_owned);
                self.end_step(event, &key, state, result);
                if let (Some(child), Some(step)) = (child, self.find_last(&key)) {
                    step.child.get_or_insert(child);
                }
            }
            "branch_began" => {
                let name = if text("name").is_empty() {
                    format!("branch {}", number("branch"))
                } else {
                    text("name").to_owned()
                };
                let key = format!("branch {} {}", text("state"), number("branch"));
                self.start_step(event, key.clone(), &name, "branch", Value::Null);
                if let Some(step) = self.find_last(&key) {
                    step.child = Some(text("child_run_id").to_owned()).filter(|child| !child.is_empty());
                }
            }
            "branch_ended" => {
                let result = value("result");
                let state = StepState::from_outcome(Outcome::from_result(None, &result));
                self.end_step(event, &format!("branch {} {}", text("state"), number("branch")), state, result);
            }
            "node_started" | "graph_started" => {
                let kind = if event.event_type == "graph_started" { "graph" } else { "node" };
                let name = [text("step_id"), text("node_id"), text("graph_id")];
                let name = name.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
                self.start_step(event, format!("call {}", number("call")), name, kind, value("input"));
            }
            "node_completed" | "graph_completed" | "graph_failed" | "node_error" | "node_timeout" => {
                let result = value("result");
                let has_failed =
                    data.get("success") == Some(&Value::Bool(false)) || !result.is_null() && !succeeded(&result);
                let state = match event.event_type.as_str() {
                    "node_timeout" => StepState::TimedOut,
                    "node_completed" | "graph_completed" if !has_failed => StepState::Succeeded,
                    _ => StepState::Failed,
                };
                let output = if result.is_null() { value("error") } else { result };
                self.end_step(event, &format!("call {}", number("call")), state, output);
            }
            "nested_workflow_started" => {
                let key = format!("run {}", text("child_run_id"));
                self.start_step(event, key.clone(), text("workflow_id"), "run", value("input"));
                let child = text("child_run_id").to_owned();
                if let Some(step) = self.find_last(&key) {
                    step.child = Some(child);
                }
            }
            "nested_workflow_completed" | "nested_workflow_failed" | "nested_workflow_cancelled" => {
                let is_done = event.event_type == "nested_workflow_completed";
                let state = if is_done { StepState::Succeeded } else { StepState::Failed };
                let result = value("result");
                let output = if result.is_null() { value("error") } else { result };
                self.end_step(event, &format!("run {}", text("child_run_id")), state, output);
            }
            "gate_waiting" => {
                let key = format!("gate {}", text("gate_id"));
                let prompt = if text("prompt").is_empty() { text("state") } else { text("prompt") };
                self.start_step(event, key.clone(), prompt, "gate", value("context"));
                if let Some(step) = self.find_last(&key) {
                    step.state = StepState::Waiting;
                }
            }
            "gate_answered" => {
                self.end_step(
                    event,
                    &format!("gate {}", text("gate_id")),
                    StepState::Succeeded,
                    Value::Object(data.clone()),
                );
            }
            "gate_timeout" => {
                self.end_step(event, &format!("gate {}", text("gate_id")), StepState::TimedOut, Value::Null);
            }
            "gate_cancelled" => {
                self.end_step(event, &format!("gate {}", text("gate_id")), StepState::Failed, "withdrawn".into());
            }
            "question_answered" => self.add_log_line(crate::action::dialogue_answer(data)),
            "log" => {
                for line in text("text").lines() {
                    self.add_log_line(print::visible(line));
                }
            }
            _ if event.is_last() => {
                self.has_ended = true;
                for step in self.steps.iter_mut().filter(|step| step.ended.is_none()) {
                    step.ended = Some(event.timestamp.clone());
                    step.state = StepState::Failed;
                }
            }
            _ => {}
        }
    }

    /// Returns the index of the most informative step: the last failed step if the run has ended, otherwise the last
    /// step.
    pub(crate) fn most_informative(&self) -> usize {
        let failed = self.steps.iter().rposition(|step| step.state == StepState::Failed);
        failed.filter(|_| self.has_ended).unwrap_or(self.steps.len().saturating_sub(1))
    }

    fn start_step(&mut self, event: &RunEvent, key: String, name: &str, kind: &str, input: Value) {
        if self.steps.len() == MAX_STEPS {
            self.steps.remove(0);
            self.omitted += 1;
        }
        self.steps.push(Step {
            key,
            name: print::visible(name),
            kind: print::visible(kind),
            state: StepState::Running,
            began: event.timestamp.clone(),
            ended: None,
            input,
            output: Value::Null,
            is_taken_over: event.is_taken_over(),
            child: None,
            log: Vec::new(),
        });
    }

    fn end_step(&mut self, event: &RunEvent, key: &str, state: StepState, output: Value) {
        if let Some(step) = self.steps.iter_mut().rev().find(|step| step.key == key && step.ended.is_none()) {
            step.ended = Some(event.timestamp.clone());
            step.state = state;
            step.output = output;
        }
    }

    fn add_log_line(&mut self, line: String) {
        if let Some(step) = self.steps.last_mut() {
            step.log.push(line);
        }
    }

    fn find_last(&mut self, key: &str) -> Option<&mut Step> {
        self.steps.iter_mut().rev().find(|step| step.key == key)
    }
}

/// Formats a value as lines for a person: the fields of an object one after the other, and texts unchanged. A long
/// value is cut, with a remark.
pub(crate) fn value_lines(value: &Value) -> Vec<String> {
    let mut lines = all_lines(value);
    if lines.len() > MAX_LINES {
        lines.truncate(MAX_LINES);
        lines.push("… further lines are omitted; see all with: steplatch runs events RUN".to_owned());
    }
    lines
}

/// Returns the first lines of text, up to [`MAX_LINES`] + 1.
fn text_lines(text: &str) -> Vec<String> {
    let line = |line: &str| match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => print::visible(&line[..end]) + "…",
        None => print::visible(line),
    };
    text.lines().take(MAX_LINES + 1).map(line).collect()
}

fn all_lines(value: &Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::String(text) => text_lines(text.trim_end()),
        Value::Object(fields) => fields.iter().filter(|(_, value)| !value.is_null()).flat_map(field_lines).collect(),
        other => text_lines(&serde_json::to_string_pretty(other).unwrap_or_default()),
    }
}

fn field_lines((name, value): (&String, &Value)) -> Vec<String> {
    let name = print::visible(name);
    let lines = match value {
        Value::Object(_) | Value::Array(_) => text_lines(&serde_json::to_string_pretty(value).unwrap_or_default()),
        other => all_lines(other),
    };
    match &lines[..] {
        [] => vec![format!("{name}: {}", if value.is_string() { "(empty)" } else { "" }).trim_end().to_owned()],
        [line] => vec![format!("{name}: {line}")],
        lines => std::iter::once(format!("{name}:")).chain(lines.iter().map(|line| format!("  {line}"))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn event(event_type: &str, data: Value, second: u32) -> RunEvent {
        let Value::Object(data) = data else { panic!("the data is not an object") };
        RunEvent {
            seq: u64::from(second) + 1,
            run_id: "run_a".to_owned(),
            workflow_id: "release".to_owned(),
            event_type: event_type.to_owned(),
            data,
            timestamp: format!("2026-01-01T00:00:{second:02}Z"),
        }
    }

    #[test]
    fn steps_begin_end_and_wait() {
        let mut steps = Steps::default();
        for event in [
            event("workflow_started", json!({}), 0),
            event(
                "state_entered",
                json!({"state": "build", "visit": 1, "tool": "run_command", "params": {"command": "make"}}),
                0,
            ),
            event(
                "state_completed",
                json!({"state": "build", "visit": 1, "outcome": "finished", "result": {"success": true, "exit_code": 0}}),
                2,
            ),
            event("state_entered", json!({"state": "ask", "visit": 1, "tool": "gate", "params": {}}), 2),
            event("gate_waiting", json!({"gate_id": "run_a/ask/1", "state": "ask", "prompt": "Deploy?\n"}), 2),
        ] {
            steps.record(&event);
        }
        let describe = |steps: &Steps| {
            steps.steps.iter().map(|step| format!("{} {} {:?}", step.name, step.kind, step.state)).collect::<Vec<_>>()
        };
        assert_eq!(describe(&steps), ["build run_command Succeeded", "ask gate Running", "Deploy?⏎ gate Waiting"]);
        assert_eq!(steps.most_informative(), 2);
        steps.record(&event("gate_answered", json!({"gate_id": "run_a/ask/1", "answer": "yes", "by": "ana"}), 5));
        steps.record(&event("workflow_failed", json!({"error": "it broke"}), 6));
        assert_eq!(describe(&steps), ["build run_command Succeeded", "ask gate Failed", "Deploy?⏎ gate Succeeded"]);
        assert!(steps.has_ended && steps.most_informative() == 1, "the failed step is the most informative");
    }

    #[test]
    fn branches_of_a_parallel_are_steps_with_their_runs() {
        let mut steps = Steps::default();
        let started = json!({"state": "all", "branch": 1, "name": "eu", "child_run_id": "run_b"});
        steps.record(&event("branch_began", started, 0));
        steps.record(&event("branch_began", json!({"state": "all", "branch": 2, "child_run_id": "run_c"}), 0));
        steps.record(&event("branch_ended", json!({"state": "all", "branch": 1, "result": {"success": false}}), 1));
        let branches: Vec<_> =
            steps.steps.iter().map(|step| (&*step.name, step.state, step.child.as_deref())).collect();
        assert_eq!(
            branches,
            [("eu", StepState::Failed, Some("run_b")), ("branch 2", StepState::Running, Some("run_c"))]
        );
    }

    #[test]
    fn long_value_is_truncated_visibly() {
        let lines = value_lines(&json!({"output": "x\n".repeat(10_000), "wide": "y".repeat(10_000)}));
        assert_eq!(lines.len(), MAX_LINES + 1);
        assert!(lines[MAX_LINES].contains("steplatch runs events"));
        let wide = value_lines(&json!("y".repeat(10_000)));
        assert_eq!(wide[0].chars().count(), MAX_LINE_CHARS + 1);
    }

    #[test]
    fn values_are_lines_without_control_characters() {
        let value = json!({"screen": "one\ntwo\x1b[2J", "code": 3, "none": null, "deep": {"a": [1]}, "empty": ""});
        assert_eq!(
            value_lines(&value),
            [
                "screen:",
                "  one",
                "  two␛[2J",
                "code: 3",
                "deep:",
                "  {",
                "    \"a\": [",
                "      1",
                "    ]",
                "  }",
                "empty: (empty)"
            ]
        );
    }
}
