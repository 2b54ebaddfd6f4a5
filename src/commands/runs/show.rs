//! `steplatch runs show`: the record of a run.

use std::process::ExitCode;

use serde_json::{Map, Value};
use steplatch_protocol::{DaemonPaths, GetRun, GetWorkflowRun, ListTerminalSessions, RunRecord, RunReply};

use super::{not_found, took};
use crate::action::{self, Outcome};
use crate::commands::gates;
use crate::failure::Failure;
use crate::front;
use crate::print::{self, BAD, GOOD, QUIET, STRONG, visible};
use crate::question::bounded;
use crate::translation::for_people;

/// Shows one run.
pub(super) async fn show(place: &DaemonPaths, id: &str, json: bool) -> Result<ExitCode, Failure> {
    let (record, report) = looked_up(place, id).await?;
    if json {
        print::json(&together(&record, &report))?;
    } else {
        let is_open = is_open(place, &report).await?;
        run_lines(&record, &report, is_open).iter().try_for_each(print::line)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a run as lines.
pub(super) async fn lines(place: &DaemonPaths, id: &str) -> Result<Vec<String>, Failure> {
    let (record, report) = looked_up(place, id).await?;
    let is_open = is_open(place, &report).await?;
    Ok(run_lines(&record, &report, is_open))
}

/// Returns whether the terminal of a run is open: a failed run closes its own.
async fn is_open(place: &DaemonPaths, report: &RunReply) -> Result<bool, Failure> {
    let Some(terminal) = &report.session_id else { return Ok(false) };
    let listed = front::ask(place, ListTerminalSessions {}).await?;
    // A terminal whose program has ended can still be viewed.
    Ok(listed.sessions.iter().any(|session| session.session_id == *terminal))
}

async fn looked_up(place: &DaemonPaths, id: &str) -> Result<(RunRecord, RunReply), Failure> {
    let record = front::ask(place, GetWorkflowRun { run_id: id.to_owned() }).await?;
    let Some(record) = record.run else { return Err(not_found(id)) };
    let report = front::ask(place, GetRun { run_id: id.to_owned(), wait_seconds: None, ..GetRun::default() }).await?;
    Ok((record, report))
}

/// Merges the record with the further fields of the report.
fn together(record: &RunRecord, report: &RunReply) -> Map<String, Value> {
    let fields = |value: Result<Value, serde_json::Error>| match value {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let mut all = fields(serde_json::to_value(record));
    for (name, value) in fields(serde_json::to_value(report)) {
        // The report's success says nothing about the run, and the state is in the record already.
        if !matches!(name.as_str(), "success" | "status" | "workflow_name") {
            let known = all.entry(name).or_insert(Value::Null);
            if known.is_null() {
                *known = value;
            }
        }
    }
    all
}

/// Returns a run as lines. `is_open` is whether its terminal is open.
fn run_lines(record: &RunRecord, report: &RunReply, is_open: bool) -> Vec<String> {
    let style = match record.state.as_str() {
        "completed" => GOOD,
        "failed" | "cancelled" => BAD,
        _ => STRONG,
    };
    let mut lines =
        vec![format!("{STRONG}{}{STRONG:#} {QUIET}{}{QUIET:#}", visible(&record.workflow_id), record.run_id)];
    let mut say = |name: &str, value: String| lines.push(format!("  {QUIET}{name:<9}{QUIET:#} {value}"));
    say("state", format!("{style}{}{style:#}", record.state));
    if let Some(pause) = &record.paused {
        say(
            "paused",
            format!("by {} {} {QUIET}{}{QUIET:#}", visible(&pause.by), print::ago(&pause.since), pause.since),
        );
    }
    say("began", format!("{} {QUIET}{}{QUIET:#}", print::ago(&record.started_at), record.started_at));
    say("took", took(record));
    if let Some(state) = &report.final_state {
        let states = if report.states_executed == 1 { "1 state" } else { "states" };
        let count = if report.states_executed == 1 { String::new() } else { format!("{} ", report.states_executed) };
        say("at", format!("{state} {QUIET}({count}{states} executed){QUIET:#}"));
    }
    if let Some(last) = report.execution_log.iter().rev().find(|entry| entry["phase"] == "execution") {
        let text = |name: &str| last[name].as_str().unwrap_or_default();
        let outcome = Outcome::of(None, &last["result"]).describe(text("tool"), &last["result"]);
        let told = action::led_to(&action::detail(text("tool"), &last["params"]), &outcome);
        say(
            "last",
            format!("{} {} {QUIET}{}{QUIET:#}", text("state"), text("tool"), print::fitted(&told, 80))
                .trim_end()
                .to_owned(),
        );
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
    let screen = report.last_screen.as_deref().unwrap_or_default();
    if !screen.is_empty() {
        lines.push(format!("  {QUIET}the last screen:{QUIET:#}"));
        lines.extend(screen.lines().map(|line| format!("  {QUIET}│{QUIET:#} {}", visible(line))));
    }
    for gate in &record.pending_gates {
        lines.push(String::new());
        lines.extend(gates::question_lines(gate, &bounded(gate), "  "));
    }
    lines
}
