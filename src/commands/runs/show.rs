//! `steplatch runs show`: the record of a run.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use serde_json::{Map, Value};
use steplatch_protocol::{
    DaemonPaths, GetRun, GetWorkflowRun, ListTerminalSessions, RerunInfo, RunEvent, RunRecord, RunReply,
};

use super::{not_found, run_duration};
use crate::commands::gates;
use crate::failure::Failure;
use crate::front;
use crate::print::{self, BAD, GOOD, QUIET, STRONG, visible};
use crate::question::bounded_content;
use crate::run_view::Shown;
use crate::translation::for_people;

/// Shows one run.
pub(super) async fn show(paths: &DaemonPaths, id: &str, json: bool) -> Result<ExitCode, Failure> {
    if json {
        let (record, report) = look_up(paths, id).await?;
        print::json(&merge_report(&record, &report))?;
    } else {
        lines(paths, id).await?.iter().try_for_each(print::line)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a run as lines.
pub(super) async fn lines(paths: &DaemonPaths, id: &str) -> Result<Vec<String>, Failure> {
    let (record, report) = look_up(paths, id).await?;
    let is_open = is_open(paths, &report).await?;
    let steps = match front::steady(paths)?.events(id, 1, MAX_EVENTS).await {
        Ok(found) => step_lines(&found.events),
        Err(error) => vec![format!("  {QUIET}the steps cannot be read: {error}{QUIET:#}")],
    };
    Ok(run_lines(&record, &report, is_open, steps))
}

/// Maximum number of requested events: more than any history has.
const MAX_EVENTS: u64 = 1 << 40;

/// Maximum number of shown steps; of a longer run, the last ones.
const MAX_STEPS: usize = 100;

/// Returns the steps of a run as `steplatch run` draws them, and the current one.
fn step_lines(events: &[RunEvent]) -> Vec<String> {
    let mut view = Shown::new(std::io::stdout().is_terminal());
    let mut lines = Vec::new();
    for event in events {
        let drawn = view.event_lines(event, 0);
        // The record has the start and the end of the run.
        if event.event_type != "workflow_started" && !event.is_last() {
            lines.extend(drawn);
        }
    }
    let omitted = lines.len().saturating_sub(MAX_STEPS);
    if omitted > 0 {
        let run = events.first().map(|event| event.run_id.as_str()).unwrap_or_default();
        let note = format!("  {QUIET}… {omitted} earlier lines: steplatch runs events {run}{QUIET:#}");
        lines.splice(..omitted, [note]);
    }
    lines.extend(view.current_line());
    lines
}

/// Returns whether the terminal of a run is open: a failed run closes its own.
async fn is_open(paths: &DaemonPaths, report: &RunReply) -> Result<bool, Failure> {
    let Some(terminal) = &report.session_id else { return Ok(false) };
    let listed = front::ask(paths, ListTerminalSessions {}).await?;
    // A terminal stays viewable after the end of its program.
    Ok(listed.sessions.iter().any(|session| session.session_id == *terminal))
}

async fn look_up(paths: &DaemonPaths, id: &str) -> Result<(RunRecord, RunReply), Failure> {
    let record = front::ask(paths, GetWorkflowRun { run_id: id.to_owned() }).await?;
    let Some(record) = record.run else { return Err(not_found(id)) };
    let report = front::ask(paths, GetRun { run_id: id.to_owned(), wait_seconds: None, ..GetRun::default() }).await?;
    Ok((record, report))
}

/// Merges the record with the further fields of the report.
fn merge_report(record: &RunRecord, report: &RunReply) -> Map<String, Value> {
    let fields = |value: Result<Value, serde_json::Error>| match value {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let mut merged = fields(serde_json::to_value(record));
    for (name, value) in fields(serde_json::to_value(report)) {
        // The success is that of the request, and the record has the state already.
        if !matches!(name.as_str(), "success" | "status" | "workflow_name") {
            let existing = merged.entry(name).or_insert(Value::Null);
            if existing.is_null() {
                *existing = value;
            }
        }
    }
    merged
}

/// Returns a fact about a run as a line.
fn fact(name: &str, value: &str) -> String {
    format!("  {QUIET}{name:<9}{QUIET:#} {value}")
}

/// Returns a run as lines, with its `steps`. `is_open`: its terminal is open.
fn run_lines(record: &RunRecord, report: &RunReply, is_open: bool, steps: Vec<String>) -> Vec<String> {
    let style = match record.state.as_str() {
        "completed" => GOOD,
        "failed" | "cancelled" => BAD,
        _ => STRONG,
    };
    let mut lines =
        vec![format!("{STRONG}{}{STRONG:#} {QUIET}{}{QUIET:#}", visible(&record.workflow_id), record.run_id)];
    let mut say = |name: &str, value: String| lines.push(fact(name, &value));
    say("state", format!("{style}{}{style:#}", record.state));
    if let Some(pause) = &record.paused {
        say(
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
        say(
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
    say(
        "started",
        format!("{} {QUIET}{}{QUIET:#}", print::ago(&record.started_at), print::local_time(&record.started_at)),
    );
    say("duration", run_duration(record));
    if let Some(state) = &report.final_state {
        let states = if report.states_executed == 1 { "1 state" } else { "states" };
        let count = if report.states_executed == 1 { String::new() } else { format!("{} ", report.states_executed) };
        say("at", format!("{state} {QUIET}({count}{states} executed){QUIET:#}"));
    }
    if let Some(terminal) = &report.session_id {
        let closed = if is_open { String::new() } else { format!(" {QUIET}(closed){QUIET:#}") };
        say("terminal", format!("{terminal}{closed}"));
    }
    if let Some(unsaved) = report.error.as_ref().filter(|_| report.success) {
        say("unsaved", visible(unsaved));
    }
    if let Some(parent) = &record.parent_run_id {
        say("parent", parent.clone());
    }
    if let Some(RerunInfo { run_id, from_state, .. }) = &record.again {
        let from = from_state.as_ref().map(|state| format!(" {QUIET}from {}{QUIET:#}", visible(state)));
        say("again", format!("{run_id}{}", from.unwrap_or_default()));
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), visible);
    match &record.input {
        Value::Object(fields) => {
            for (index, (name, value)) in fields.iter().enumerate() {
                say(if index == 0 { "input" } else { "" }, format!("{} = {}", visible(name), text(value)));
            }
        }
        Value::Null => {}
        Value::String(nothing) if nothing.is_empty() => {}
        other => say("input", text(other)),
    }
    for (index, (name, value)) in record.params.iter().enumerate() {
        say(if index == 0 { "params" } else { "" }, format!("{} = {}", visible(name), text(value)));
    }
    if !steps.is_empty() {
        lines.push(String::new());
        lines.extend(steps);
        lines.push(String::new());
    }
    let mut say = |name: &str, value: String| lines.push(fact(name, &value));
    for (index, (name, value)) in report.return_values.iter().enumerate() {
        say(if index == 0 { "returned" } else { "" }, format!("{name} = {}", text(value)));
    }
    match &report.result {
        None | Some(Value::Null) => {}
        Some(result) => {
            let shown = result.as_str().map_or_else(|| result.to_string(), str::to_owned);
            for (index, line) in shown.lines().enumerate() {
                say(if index == 0 { "result" } else { "" }, visible(line));
            }
        }
    }
    // The last line of a traceback is the error.
    let error = record.traceback.as_deref().or(record.error.as_deref()).map(for_people).unwrap_or_default();
    for (index, line) in error.lines().enumerate() {
        say(if index == 0 { "error" } else { "" }, visible(line));
    }
    let mut screen = |title: &str, screen: &str| {
        lines.push(format!("  {QUIET}{title}:{QUIET:#}"));
        lines.extend(screen.lines().map(|line| format!("  {QUIET}│{QUIET:#} {}", visible(line))));
    };
    if report.last_screens.is_empty() {
        report.last_screen.iter().for_each(|last| screen("the last screen", last));
    }
    report.last_screens.iter().for_each(|(session, last)| screen(&format!("the last screen of {session}"), last));
    for gate in &record.pending_gates {
        lines.push(String::new());
        lines.extend(gates::question_lines(gate, &bounded_content(gate), "  "));
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}
