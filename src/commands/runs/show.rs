//! `steplatch runs show`: the record of a run.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use serde_json::{Map, Value};
use steplatch_protocol::{
    DaemonPaths, GetRun, GetWorkflowRun, ListTerminalSessions, RerunInfo, RunEvent, RunRecord, RunReply,
};

use super::{not_found, run_duration};
use crate::commands::gates;
use crate::daemon_client;
use crate::failure::Failure;
use crate::print::{self, BAD, GOOD, QUIET, STRONG, visible};
use crate::question::bounded_content;
use crate::run_view::LineView;
use crate::translation::for_people;

/// Prints one run.
pub(super) async fn show(paths: &DaemonPaths, id: &str, json: bool) -> Result<ExitCode, Failure> {
    if json {
        let (record, report) = look_up(paths, id).await?;
        print::json(&merge_report(&record, &report))?;
    } else {
        describe(paths, id).await?.iter().try_for_each(print::line)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the lines that show a run.
pub(super) async fn describe(paths: &DaemonPaths, id: &str) -> Result<Vec<String>, Failure> {
    let (record, report) = look_up(paths, id).await?;
    let is_open = is_open(paths, &report).await?;
    let steps = match daemon_client::reconnecting_client(paths)?.events(id, 1, MAX_EVENTS).await {
        Ok(found) => step_lines(&found.events),
        Err(error) => vec![format!("  {QUIET}the steps cannot be read: {error}{QUIET:#}")],
    };
    Ok(run_lines(&record, &report, is_open, steps))
}

/// Maximum number of requested events. Larger than any history.
const MAX_EVENTS: u64 = 1 << 40;

/// Maximum number of lines about steps. Of more lines, only the last are shown.
const MAX_STEP_LINES: usize = 100;

/// Returns the lines about the steps of a run, as `steplatch run` draws them, including the current step.
fn step_lines(events: &[RunEvent]) -> Vec<String> {
    let mut view = LineView::new(std::io::stdout().is_terminal());
    let mut lines = Vec::new();
    for event in events {
        let event_lines = view.event_lines(event, 0);
        // The record shows the start and the end of the run.
        if event.event_type != "workflow_started" && !event.is_last() {
            lines.extend(event_lines);
        }
    }
    let omitted = lines.len().saturating_sub(MAX_STEP_LINES);
    if omitted > 0 {
        let run = events.first().map(|event| event.run_id.as_str()).unwrap_or_default();
        let note = format!("  {QUIET}… {omitted} earlier lines: steplatch runs events {run}{QUIET:#}");
        lines.splice(..omitted, [note]);
    }
    lines.extend(view.current_line());
    lines
}

/// Returns whether the terminal of a run is still listed.
async fn is_open(paths: &DaemonPaths, report: &RunReply) -> Result<bool, Failure> {
    let Some(terminal) = &report.session_id else { return Ok(false) };
    let reply = daemon_client::ask(paths, ListTerminalSessions {}).await?;
    // A terminal stays listed after the end of its program.
    Ok(reply.sessions.iter().any(|session| session.session_id == *terminal))
}

async fn look_up(paths: &DaemonPaths, id: &str) -> Result<(RunRecord, RunReply), Failure> {
    let record = daemon_client::ask(paths, GetWorkflowRun { run_id: id.to_owned() }).await?;
    let Some(record) = record.run else { return Err(not_found(id)) };
    let report =
        daemon_client::ask(paths, GetRun { run_id: id.to_owned(), wait_seconds: None, ..GetRun::default() }).await?;
    Ok((record, report))
}

/// Adds the fields that only the report has to the record.
fn merge_report(record: &RunRecord, report: &RunReply) -> Map<String, Value> {
    let fields = |value: Result<Value, serde_json::Error>| match value {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let mut merged = fields(serde_json::to_value(record));
    for (name, value) in fields(serde_json::to_value(report)) {
        // The field `success` is about the request, and the record already has the other two.
        if !matches!(name.as_str(), "success" | "status" | "workflow_name") {
            let existing = merged.entry(name).or_insert(Value::Null);
            if existing.is_null() {
                *existing = value;
            }
        }
    }
    merged
}

/// Formats a fact about a run as a line.
fn fact_line(name: &str, value: &str) -> String {
    format!("  {QUIET}{name:<9}{QUIET:#} {value}")
}

/// Formats a run as lines, including its `steps`. `is_open` is true if its terminal is open.
fn run_lines(record: &RunRecord, report: &RunReply, is_open: bool, steps: Vec<String>) -> Vec<String> {
    let style = match record.state.as_str() {
        "completed" => GOOD,
        "failed" | "cancelled" => BAD,
        _ => STRONG,
    };
    let mut lines =
        vec![format!("{STRONG}{}{STRONG:#} {QUIET}{}{QUIET:#}", visible(&record.workflow_id), record.run_id)];
    let mut add_fact = |name: &str, value: String| lines.push(fact_line(name, &value));
    add_fact("state", format!("{style}{}{style:#}", record.state));
    if let Some(pause) = &record.paused {
        add_fact(
            "paused",
            format!("by {} {} {QUIET}{}{QUIET:#}", visible(&pause.by), print::ago(&pause.since), pause.since),
        );
    }
    for repair in &record.repairs {
        let saved = match (repair.version, &repair.error) {
            (Some(version), _) => format!("version {version} of '{}'", visible(&record.workflow_id)),
            (None, Some(error)) => format!("not saved: {}", visible(error)),
            (None, None) => "for this run only".to_owned(),
        };
        add_fact(
            "repaired",
            format!(
                "in {} by {}, accepted by {}: {} {QUIET}({saved}){QUIET:#}",
                visible(&repair.state),
                visible(&repair.proposed_by),
                visible(&repair.accepted_by),
                visible(&repair.reason)
            ),
        );
    }
    add_fact(
        "started",
        format!("{} {QUIET}{}{QUIET:#}", print::ago(&record.started_at), print::local_time(&record.started_at)),
    );
    add_fact("duration", run_duration(record));
    if let Some(state) = &report.final_state {
        let states = if report.states_executed == 1 { "1 state" } else { "states" };
        let count = if report.states_executed == 1 { String::new() } else { format!("{} ", report.states_executed) };
        add_fact("at", format!("{state} {QUIET}({count}{states} executed){QUIET:#}"));
    }
    if let Some(terminal) = &report.session_id {
        let closed_note = if is_open { String::new() } else { format!(" {QUIET}(closed){QUIET:#}") };
        add_fact("terminal", format!("{terminal}{closed_note}"));
    }
    if let Some(save_error) = report.error.as_ref().filter(|_| report.success) {
        add_fact("unsaved", visible(save_error));
    }
    if let Some(parent) = &record.parent_run_id {
        add_fact("parent", parent.clone());
    }
    if let Some(RerunInfo { run_id, from_state, .. }) = &record.again {
        let from = from_state.as_ref().map(|state| format!(" {QUIET}from {}{QUIET:#}", visible(state)));
        add_fact("again", format!("{run_id}{}", from.unwrap_or_default()));
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), visible);
    match &record.input {
        Value::Object(fields) => {
            for (index, (name, value)) in fields.iter().enumerate() {
                add_fact(if index == 0 { "input" } else { "" }, format!("{} = {}", visible(name), text(value)));
            }
        }
        Value::Null => {}
        Value::String(text) if text.is_empty() => {}
        other => add_fact("input", text(other)),
    }
    for (index, (name, value)) in record.params.iter().enumerate() {
        add_fact(if index == 0 { "params" } else { "" }, format!("{} = {}", visible(name), text(value)));
    }
    if !steps.is_empty() {
        lines.push(String::new());
        lines.extend(steps);
        lines.push(String::new());
    }
    let mut add_fact = |name: &str, value: String| lines.push(fact_line(name, &value));
    for (index, (name, value)) in report.return_values.iter().enumerate() {
        add_fact(if index == 0 { "returned" } else { "" }, format!("{name} = {}", text(value)));
    }
    match &report.result {
        None | Some(Value::Null) => {}
        Some(result) => {
            let text = result.as_str().map_or_else(|| result.to_string(), str::to_owned);
            for (index, line) in text.lines().enumerate() {
                add_fact(if index == 0 { "result" } else { "" }, visible(line));
            }
        }
    }
    // The last line of a traceback is the error.
    let error = record.traceback.as_deref().or(record.error.as_deref()).map(for_people).unwrap_or_default();
    for (index, line) in error.lines().enumerate() {
        add_fact(if index == 0 { "error" } else { "" }, visible(line));
    }
    let mut add_screen = |title: &str, screen: &str| {
        lines.push(format!("  {QUIET}{title}:{QUIET:#}"));
        lines.extend(screen.lines().map(|line| format!("  {QUIET}│{QUIET:#} {}", visible(line))));
    };
    if report.last_screens.is_empty() {
        report.last_screen.iter().for_each(|last| add_screen("the last screen", last));
    }
    report.last_screens.iter().for_each(|(session, last)| add_screen(&format!("the last screen of {session}"), last));
    for gate in &record.pending_gates {
        lines.push(String::new());
        lines.extend(gates::question_lines(gate, &bounded_content(gate), "  "));
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}
