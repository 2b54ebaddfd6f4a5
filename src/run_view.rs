//! The display of a run: a line for each state.
//!
//! On a terminal, the line of the current state is animated. Otherwise a line is printed when its state ends.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use serde_json::Value;
use steplatch_protocol::{GateInfo, RunEvent};

use crate::action::{self, Outcome, detail};
use crate::calls_view::Calls;
use crate::print::{self, BAD, GOOD, QUIET, STRONG, duration, fitted, padded, visible, width};
use crate::question;
use crate::translation::for_people;

/// A display of the events of a run.
pub(crate) trait View {
    /// Shows one event.
    fn show(&mut self, event: &RunEvent) -> io::Result<()>;

    /// Shows a question of the run.
    fn question(&mut self, _gate: &GateInfo) -> io::Result<()> {
        Ok(())
    }

    /// Shows the description of the next prompt.
    fn lead(&mut self, _text: &str) -> io::Result<()> {
        Ok(())
    }

    /// Shows a prompt for input.
    fn prompt(&mut self, _text: &str) -> io::Result<()> {
        Ok(())
    }

    /// Returns whether the last prompt is still the last line on the screen.
    fn has_prompt_at_end(&self) -> bool {
        false
    }

    /// Shows a remark that is not an event of the run.
    fn remark(&mut self, _text: &str) -> io::Result<()> {
        Ok(())
    }

    /// Returns whether the display has an animated line now.
    fn is_animated(&self) -> bool {
        false
    }

    /// Advances the animation.
    fn tick(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Widths of the columns for names. Longer names shift their line.
const STATE_COLUMNS: usize = 16;
const TOOL_COLUMNS: usize = 18;

/// Maximum number of shown lines of a failed run's last screen or output.
const MAX_SCREEN_LINES: usize = 12;

/// The state or call in progress.
#[derive(Debug, Clone)]
struct CurrentStep {
    state: String,
    tool: String,
    detail: String,
    since: Instant,
}

/// The state of a run, collected from its events.
#[derive(Debug, Default)]
struct RunSummary {
    current: Option<CurrentStep>,
    states: u32,
    /// Start of the run (ISO 8601, UTC).
    began: String,
    /// The last screen or output of an action, with its label.
    evidence: Option<(&'static str, String)>,
    /// Return values of the run, with their names.
    return_values: Vec<(String, String)>,
    calls: Calls,
    /// The last failed state. Its line follows with the next event, because that event may be a transition that handles
    /// the failure.
    failed: Option<FailedState>,
}

/// A failed state, with the parts of its line.
#[derive(Debug)]
struct FailedState {
    state: String,
    tool: String,
    detail: String,
    time: String,
}

impl RunSummary {
    /// Stores the return values if the event has them.
    fn record_return_values(&mut self, event: &RunEvent) {
        if event.data.get("side").is_some_and(|side| side == "return_values") {
            let values = event.data.get("variables").and_then(Value::as_object);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            self.return_values =
                values.into_iter().flatten().map(|(name, value)| (name.clone(), text(value))).collect();
        }
    }

    fn enter_state(&mut self, event: &RunEvent) -> CurrentStep {
        let text = |name: &str| event.data.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let tool = text("tool");
        let detail = detail(&tool, event.data.get("params").unwrap_or(&Value::Null));
        let current = CurrentStep { state: text("state"), tool, detail, since: since(&event.timestamp) };
        self.states += 1;
        self.current = Some(current.clone());
        current
    }

    /// Returns the line of an answer. In a state with the tool `gate`, the line of the state shows the answer instead.
    fn record_answer(&mut self, event: &RunEvent, width: Option<usize>) -> Option<String> {
        let text = |name: &str| event.data.get(name).and_then(Value::as_str).unwrap_or_default();
        let answer = question::format_answer(event.data.get("answer").unwrap_or(&Value::Null));
        let reason = question::format_reason(text("reason"));
        let detail = format!("{} answered: {answer}{reason}", visible(text("by")));
        if let Some(state) = self.current.as_mut().filter(|state| state.tool == "gate") {
            state.detail = detail;
            return None;
        }
        Some(format_line(&format!("{GOOD}✓{GOOD:#}"), text("state"), "gate", &detail, "", width))
    }

    /// Returns the line of an ended state. Delays the line of a failed state until the next event.
    fn leave_state(&mut self, event: &RunEvent, width: Option<usize>) -> Option<String> {
        let current = self.current.take()?;
        let result = event.data.get("result").unwrap_or(&Value::Null);
        let seconds = event.data.get("elapsed_time").and_then(Value::as_f64).unwrap_or_default();
        // A failed command shows its output; the screen would belong to an earlier state.
        for (field, label) in [("screen_content", "the last screen"), ("output", "the last output")] {
            let text = result.get(field).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
            if let Some(text) = text {
                self.evidence = Some((label, text.trim_end().to_owned()));
                break;
            }
        }
        let outcome = Outcome::from_result(event.data.get("outcome").and_then(Value::as_str), result);
        let (mark, style) = outcome.mark();
        let detail = action::join_outcome(&current.detail, &outcome.describe(&current.tool, result));
        let time = match event.is_taken_over() {
            true => "taken over".to_owned(),
            false => duration(Duration::from_secs_f64(seconds)),
        };
        let CurrentStep { state, tool, .. } = current;
        if outcome == Outcome::Failed {
            self.failed = Some(FailedState { state, tool, detail, time });
            return None;
        }
        Some(format_line(&format!("{style}{mark}{style:#}"), &state, &tool, &detail, &time, width))
    }

    /// Returns the line of a failed state whose following event is `event`. A failure with a transition is not marked
    /// as an error.
    fn take_failed_line(&mut self, event: &RunEvent, width: Option<usize>) -> Option<String> {
        let FailedState { state, tool, detail, time } = self.failed.take()?;
        let (mark, style) = match event.event_type.as_str() {
            "transition" => ("·", QUIET),
            _ => Outcome::Failed.mark(),
        };
        Some(format_line(&format!("{style}{mark}{style:#}"), &state, &tool, &detail, &time, width))
    }

    fn end_lines(&self, event: &RunEvent) -> Vec<String> {
        let time = duration_between(&self.began, &event.timestamp).map(|took| format!(" in {}", duration(took)));
        let time = time.unwrap_or_default();
        let states = match self.states {
            // A function has no states.
            0 => String::new(),
            1 => ", 1 state".to_owned(),
            states => format!(", {states} states"),
        };
        let mut lines = Vec::new();
        match event.event_type.as_str() {
            "workflow_completed" => lines.push(format!("{GOOD}✓{GOOD:#} {STRONG}completed{STRONG:#}{time}{states}")),
            "workflow_cancelled" => lines.push(format!("{BAD}✗{BAD:#} {STRONG}cancelled{STRONG:#}{time}{states}")),
            _ => {
                // The last line of a traceback is the error.
                let error = event.data.get("traceback").or_else(|| event.data.get("error"));
                let error = error.and_then(Value::as_str).unwrap_or("no reason was given");
                lines.push(format!(
                    "{BAD}✗{BAD:#} {STRONG}failed{STRONG:#}{time}{states}: {}",
                    print::harmless(&for_people(error))
                ));
                if let Some((label, text)) = &self.evidence {
                    let evidence: Vec<&str> = text.lines().collect();
                    lines.push(format!("  {QUIET}{label}:{QUIET:#}"));
                    let last_lines = evidence.iter().skip(evidence.len().saturating_sub(MAX_SCREEN_LINES));
                    lines.extend(last_lines.map(|line| format!("  {QUIET}│{QUIET:#} {line}")));
                }
            }
        }
        if event.event_type == "workflow_completed" {
            lines.extend(self.return_values.iter().map(|(name, value)| format!("  {name} = {}", visible(value))));
            // The return values of a machine are already shown.
            match event.data.get("result").filter(|_| self.states == 0) {
                None | Some(Value::Null) => {}
                Some(Value::String(text)) => lines.extend(text.lines().map(|line| format!("  {}", visible(line)))),
                Some(other) => lines.push(format!("  {}", visible(&other.to_string()))),
            }
        }
        lines
    }
}

/// Returns the time between the timestamps of two events. Timestamps are also correct for a watcher that joins late.
pub(crate) fn duration_between(earlier: &str, later: &str) -> Option<Duration> {
    let parse = |timestamp: &str| timestamp.parse::<jiff::Timestamp>().ok();
    parse(later)?.duration_since(parse(earlier)?).try_into().ok()
}

/// Converts a timestamp to an instant. Returns the current instant for an invalid or future timestamp.
pub(crate) fn since(timestamp: &str) -> Instant {
    let now = Instant::now();
    print::elapsed_between(timestamp, None).and_then(|age| now.checked_sub(age)).unwrap_or(now)
}

/// Formats `  ✓ state  tool  detail … time`, cut to the width of the terminal if there is one.
pub(crate) fn format_line(
    mark: &str,
    state: &str,
    tool: &str,
    detail: &str,
    time: &str,
    width: Option<usize>,
) -> String {
    let head = format!("{}  {}  ", padded(state, STATE_COLUMNS), padded(tool, TOOL_COLUMNS));
    let head_columns = 4 + unicode_width::UnicodeWidthStr::width(head.as_str());
    // The widest time is "59 min 59 s".
    let room = width.unwrap_or(100).min(120).saturating_sub(head_columns + 12);
    let detail = match width {
        Some(_) => padded(&fitted(detail, room), room),
        None => padded(detail, room),
    };
    format!(
        "  {mark} {}  {QUIET}{}{QUIET:#}  {detail} {QUIET}{time:>10}{QUIET:#}",
        padded(state, STATE_COLUMNS),
        padded(tool, TOOL_COLUMNS)
    )
    .trim_end()
    .to_owned()
}

/// Formats the line of an ended branch of a `parallel`.
fn branch_line(event: &RunEvent, width: Option<usize>) -> String {
    let number = || format!("{}", event.data.get("branch").and_then(Value::as_u64).unwrap_or_default());
    let name = event.data.get("name").and_then(Value::as_str).map_or_else(number, visible);
    let result = event.data.get("result").unwrap_or(&Value::Null);
    let (mark, style) = Outcome::from_result(None, result).mark();
    let detail = Outcome::from_result(None, result).describe("run_workflow", result);
    let seconds = result.get("total_elapsed_time").and_then(Value::as_f64).unwrap_or_default();
    let time = duration(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    format_line(&format!("{style}{mark}{style:#}"), &name, "branch", &detail, &time, width)
}

fn title_line(event: &RunEvent) -> String {
    format!("{STRONG}{}{STRONG:#} {QUIET}{}{QUIET:#}", event.workflow_id, event.run_id)
}

/// A line-by-line display of a run. On a terminal, the line of the current state is animated.
#[derive(Debug, Default)]
pub(crate) struct LineView {
    summary: RunSummary,
    /// Id of the shown run, to distinguish it from nested runs.
    run: String,
    /// Nested runs in progress, by id.
    nested: HashMap<String, RunSummary>,
    /// True if standard output is a terminal.
    is_terminal: bool,
    frame: usize,
    /// True if the next line replaces the last line on the screen.
    is_line_open: bool,
}

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Formats the line of an event about a run that a remote service executes.
fn remote_line(event: &RunEvent, width: Option<usize>) -> String {
    let text = |name: &str| visible(event.data.get(name).and_then(Value::as_str).unwrap_or_default());
    let question = event.data.get("pending_gate").and_then(|gate| gate.get("prompt")).and_then(Value::as_str);
    let text = match (event.event_type.as_str(), question) {
        ("remote_queued", _) => "queued: its service is at its limit of concurrent runs".to_owned(),
        ("remote_refused", _) => format!("not started yet, next try {}: {}", text("again_at"), text("error")),
        ("remote_started", _) => format!("started by its service as {}", text("workflow_instance_id")),
        ("remote_cancelling", _) => format!("cancel requested from its service: {}", text("reason")),
        (_, Some(prompt)) => format!("waits at its service for an answer: {}", visible(prompt)),
        _ => format!("status at its service: {}", text("status")),
    };
    let text = width.map_or(text.clone(), |width| fitted(&text, width.saturating_sub(2)));
    format!("  {QUIET}{text}{QUIET:#}")
}

/// Delay before the animated line of a state in progress.
const ANIMATION_DELAY: Duration = Duration::from_millis(150);

impl LineView {
    /// Creates a display on standard output, with animation if standard output `is_terminal`.
    pub(crate) fn new(is_terminal: bool) -> Self {
        Self { is_terminal, ..Self::default() }
    }

    /// Returns the number of columns after `used_columns` columns. `None` if standard output is not a terminal.
    fn width(&self, used_columns: usize) -> Option<usize> {
        if self.is_terminal { width().map(|width| width.saturating_sub(used_columns)) } else { None }
    }

    /// Records an event and returns the lines that the event adds.
    ///
    /// For callers that print the lines themselves, for example above a line of input, with a prefix of `used_columns`
    /// columns.
    pub(crate) fn event_lines(&mut self, event: &RunEvent, used_columns: usize) -> Vec<String> {
        if self.run.is_empty() {
            self.run.clone_from(&event.run_id);
        }
        if event.run_id != self.run {
            let width = self.width(used_columns + 2);
            let failed = self.nested.get_mut(&event.run_id).and_then(|summary| summary.take_failed_line(event, width));
            let nested = self.nested_line(event, used_columns);
            return failed.into_iter().chain(nested).map(|line| format!("  {line}")).collect();
        }
        let width = self.width(used_columns);
        let failed = self.summary.take_failed_line(event, width);
        failed.into_iter().chain(self.own_lines(event, used_columns)).collect()
    }

    /// Returns the lines that an event of the shown run adds.
    fn own_lines(&mut self, event: &RunEvent, used_columns: usize) -> Vec<String> {
        let text = |name: &str| event.data.get(name).and_then(Value::as_str).unwrap_or_default();
        match event.event_type.as_str() {
            "workflow_started" => {
                self.summary.began.clone_from(&event.timestamp);
                vec![title_line(event)]
            }
            "state_entered" => {
                self.summary.enter_state(event);
                Vec::new()
            }
            "state_completed" => {
                let width = self.width(used_columns);
                self.summary.leave_state(event, width).into_iter().collect()
            }
            "log" => {
                let lines = text("text").lines();
                lines.map(|line| format!("    {QUIET}│{QUIET:#} {}", visible(line))).collect()
            }
            "question_answered" => {
                let answer = action::dialogue_answer(&event.data);
                let answer = self.width(used_columns + 6).map_or(answer.clone(), |width| fitted(&answer, width));
                vec![format!("    {QUIET}│ {answer}{QUIET:#}")]
            }
            "branch_ended" => vec![branch_line(event, self.width(used_columns))],
            "gate_answered" => {
                let width = self.width(used_columns);
                self.summary.record_answer(event, width).into_iter().collect()
            }
            "gate_timeout" | "gate_cancelled" => {
                let detail =
                    if event.event_type == "gate_timeout" { "timed out without an answer" } else { "withdrawn" };
                vec![format_line(
                    &format!("{QUIET}◌{QUIET:#}"),
                    text("state"),
                    "gate",
                    detail,
                    "",
                    self.width(used_columns),
                )]
            }
            "workflow_paused" => {
                let by = visible(text("by"));
                let resume = format!("resume it with: steplatch runs resume {}", event.run_id);
                vec![format!("  {QUIET}paused by {by}; {resume}{QUIET:#}")]
            }
            "workflow_resumed" => vec![format!("  {QUIET}resumed by {}{QUIET:#}", visible(text("by")))],
            "contract_checked" => {
                self.summary.record_return_values(event);
                Vec::new()
            }
            remote if remote.starts_with("remote_") => vec![remote_line(event, self.width(used_columns))],
            _ if event.is_last() => self.summary.end_lines(event),
            _ => {
                let width = self.width(used_columns);
                self.summary.calls.record(event, width).into_iter().collect()
            }
        }
    }

    /// Records an event of a nested run. Returns the line that the event adds, for example at the end of a state.
    fn nested_line(&mut self, event: &RunEvent, used_columns: usize) -> Option<String> {
        let width = self.width(used_columns + 2);
        let summary = self.nested.entry(event.run_id.clone()).or_default();
        let added_line = match event.event_type.as_str() {
            "state_entered" => {
                summary.enter_state(event);
                None
            }
            "state_completed" => summary.leave_state(event, width),
            "gate_answered" => summary.record_answer(event, width),
            "branch_ended" => Some(branch_line(event, width)),
            remote if remote.starts_with("remote_") => Some(remote_line(event, width)),
            _ => summary.calls.record(event, width),
        };
        if event.is_last() {
            self.nested.remove(&event.run_id);
        }
        added_line
    }

    /// Returns the state or call in progress.
    fn current(&self) -> Option<CurrentStep> {
        let current_call = self.summary.calls.oldest().map(|current_call| CurrentStep {
            state: current_call.name.clone(),
            tool: current_call.node.clone(),
            detail: current_call.input.clone(),
            since: current_call.started,
        });
        self.summary.current.clone().or(current_call)
    }

    /// Returns the line of the state or call in progress, for a display that is not animated.
    pub(crate) fn current_line(&self) -> Option<String> {
        let current = self.current()?;
        let time = duration(current.since.elapsed());
        let mark = format!("{QUIET}▸{QUIET:#}");
        Some(format_line(&mark, &current.state, &current.tool, &current.detail, &time, self.width(0)))
    }

    /// Removes the animated line before other output.
    pub(crate) fn clear_animation(&mut self) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        self.clear(&mut out)?;
        out.flush()
    }

    fn clear(&mut self, out: &mut impl io::Write) -> io::Result<()> {
        if std::mem::take(&mut self.is_line_open) {
            // Move to the beginning of the line and erase it.
            write!(out, "\r\x1b[2K")?;
        }
        Ok(())
    }
}

impl View for LineView {
    fn show(&mut self, event: &RunEvent) -> io::Result<()> {
        let lines = self.event_lines(event, 0);
        let mut out = anstream::stdout().lock();
        if !lines.is_empty() {
            self.clear(&mut out)?;
        }
        lines.iter().try_for_each(|line| writeln!(out, "{}", print::harmless(line)))
    }

    fn question(&mut self, gate: &GateInfo) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        self.clear(&mut out)?;
        question::gate_lines(gate, self.width(0)).iter().try_for_each(|line| writeln!(out, "{line}"))
    }

    fn lead(&mut self, text: &str) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        self.clear(&mut out)?;
        writeln!(out, "    {text}")
    }

    fn prompt(&mut self, text: &str) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        self.clear(&mut out)?;
        write!(out, "  {QUIET}{text}{QUIET:#} ")?;
        self.is_line_open = true;
        out.flush()
    }

    fn has_prompt_at_end(&self) -> bool {
        self.is_line_open
    }

    fn remark(&mut self, text: &str) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        self.clear(&mut out)?;
        writeln!(out, "  {QUIET}{text}{QUIET:#}")
    }

    fn is_animated(&self) -> bool {
        self.is_terminal && (self.summary.current.is_some() || self.summary.calls.oldest().is_some())
    }

    fn tick(&mut self) -> io::Result<()> {
        let Some(current) = self.current().filter(|current| current.since.elapsed() > ANIMATION_DELAY) else {
            return Ok(());
        };
        let mut out = anstream::stdout().lock();
        self.clear(&mut out)?;
        self.frame = (self.frame + 1) % FRAMES.len();
        let time = duration(current.since.elapsed());
        let mark = format!("{QUIET}{}{QUIET:#}", FRAMES[self.frame]);
        write!(out, "{}", format_line(&mark, &current.state, &current.tool, &current.detail, &time, width()))?;
        self.is_line_open = true;
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(seq: u64, event_type: &str, data: Value) -> RunEvent {
        let Value::Object(data) = data else { panic!("the data is not an object") };
        RunEvent {
            seq,
            run_id: "run_a".to_owned(),
            workflow_id: "retry".to_owned(),
            event_type: event_type.to_owned(),
            data,
            timestamp: "2026-11-26T15:15:44.125Z".to_owned(),
        }
    }

    #[test]
    fn failure_with_a_transition_is_not_an_error() {
        for (next, mark) in [("transition", '·'), ("workflow_failed", '✗'), ("workflow_cancelled", '✗')] {
            let mut view = LineView::new(false);
            let result = json!({"success": false, "error": "the command ended with exit code 1"});
            let entered = json!({"state": "a", "tool": "run_command", "params": {"command": "false"}});
            view.event_lines(&event(1, "workflow_started", json!({})), 0);
            view.event_lines(&event(2, "state_entered", entered), 0);
            let completed = json!({"state": "a", "result": result, "elapsed_time": 0.1});
            assert_eq!(view.event_lines(&event(3, "state_completed", completed), 0), Vec::<String>::new());
            let lines = view.event_lines(&event(4, next, json!({"from": "a", "to": "b", "because": "failure"})), 0);
            let line = anstream::adapter::strip_str(&lines[0]).to_string();
            assert!(line.trim_start().starts_with(mark) && line.contains("exit code 1"), "{next}: {line}");
        }
    }
}
