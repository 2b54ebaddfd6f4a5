//! The rules that hold at the end of every schedule.

use std::collections::BTreeMap;

use serde_json::Value;
use steplatch_ids::{RunId, StepId};
use steplatch_ledger::{Effect, EffectKey};
use steplatch_workflow::{Event, History, Outcome};

use crate::disk::Disk;
use crate::limits;
use crate::world::{Report, World};

/// Reads the histories of machines in the journal. Functions have entries of another kind.
fn histories(disk: &Disk) -> BTreeMap<RunId, Vec<Event>> {
    let read_events = |run: &RunId| -> Option<Vec<Event>> {
        let records = disk.history(run).into_iter();
        records.map(|record| serde_json::from_str(&record.text).ok()).collect()
    };
    disk.runs().into_iter().filter_map(|known| Some((known.run.clone(), read_events(&known.run)?))).collect()
}

/// Returns whether every run has ended.
pub(crate) fn is_over(disk: &Disk) -> bool {
    let finished =
        |known: &steplatch_store::KnownRun| known.summary.as_ref().is_some_and(|summary| summary.finished_at.is_some());
    disk.runs().iter().all(finished)
}

/// Returns the broken rule of unfinished runs.
pub(crate) fn unfinished(disk: &Disk) -> String {
    let status = |(run, events): (&RunId, &Vec<Event>)| {
        let history: History = events.iter().collect();
        (!history.is_over()).then(|| format!("{run} is not over: {:?}", history.status()))
    };
    let histories = histories(disk);
    histories
        .iter()
        .find_map(status)
        .unwrap_or_else(|| "a run does not begin, or is never listed as finished".to_owned())
}

/// Checks the rules.
///
/// # Errors
/// If a rule is broken.
pub(crate) fn check(world: &World) -> Result<Report, String> {
    let performed = world.stage.performed();
    let may_repeat = |key: &EffectKey| world.has_killed_hosts && opens_shared_terminal(key);
    if let Some((key, count)) = performed.iter().find(|(key, count)| **count > 1 && !may_repeat(key)) {
        return Err(format!("{:?} of {} was performed {count} times", key.effect, key.step));
    }
    let mut report = Report { effects: performed.values().sum(), ..Report::default() };
    let histories = histories(&world.disk);
    report.runs = u32::try_from(world.disk.runs().len()).unwrap_or(u32::MAX);
    for events in histories.values() {
        report.unknown += check_outcomes(world, &performed, events)?;
    }
    if let Some(rule) = limits::find_broken_limit(&histories, &world.outages) {
        return Err(rule);
    }
    Ok(report)
}

/// Returns whether an effect opens the terminal that calls of a project's node share. After the end of its host, the next
/// call starts the program again.
fn opens_shared_terminal(key: &EffectKey) -> bool {
    key.effect == Effect::Open && key.step.starts_with("nodes of ")
}

/// Checks that a host that still runs has a terminal, and that no run has left one open.
///
/// # Errors
/// If the rule is broken.
pub(crate) fn check_hosts(world: &World, computer: usize) -> Result<(), String> {
    for host in world.running_hosts(computer).filter(|_| !world.has_lost_link) {
        let open = world.stage.open_terminals(host);
        if open.is_empty() {
            return Err(format!("host {host} runs without a terminal"));
        }
        if open.contains(&true) {
            return Err(format!("a run has left a terminal of host {host} open"));
        }
    }
    Ok(())
}

/// Checks the outcomes of a run. Returns the number of unknown outcomes.
fn check_outcomes(world: &World, performed: &BTreeMap<EffectKey, u32>, events: &[Event]) -> Result<u32, String> {
    let mut tools: BTreeMap<&StepId, (&str, String)> = BTreeMap::new();
    let mut unknown = 0;
    for event in events {
        match event {
            Event::StateEntered { step, tool, params, .. } => {
                tools.insert(step, (tool, Value::Object(params.clone()).to_string()));
            }
            Event::StateCompleted { step, outcome, .. } => {
                let (tool, params) = tools.remove(step).unwrap_or_default();
                let was_performed = |effect| performed.contains_key(&EffectKey::new(effect, step.to_string()));
                match outcome {
                    Outcome::Finished { result } if result.get("outcome_unknown") == Some(&Value::Bool(true)) => {
                        return Err(format!(
                            "{step} ({tool}) is recorded as a failure although its outcome is unknown"
                        ));
                    }
                    Outcome::Finished { result } if result.get("success") == Some(&Value::Bool(false)) => {
                        let error = result.get("error").and_then(Value::as_str).unwrap_or_default();
                        let session = result.get("session_id").and_then(Value::as_str).unwrap_or_default();
                        let has_acted = was_performed(Effect::Run) || was_performed(Effect::Type);
                        let is_honest = match has_acted {
                            true => error.contains("timed out"),
                            false => {
                                is_honest_failure(world, tool, error) || world.stage.names_closed_terminal(session)
                            }
                        };
                        if !is_honest {
                            return Err(format!(
                                "{step} ({tool}) is recorded as a failure because of a restart: {error}"
                            ));
                        }
                    }
                    Outcome::Finished { .. } => {
                        if let Some(effect) = effect_of(tool).filter(|effect| !was_performed(*effect)) {
                            return Err(format!(
                                "{step} is recorded as a success, although {effect:?} was not performed"
                            ));
                        }
                    }
                    Outcome::Unknown if world.has_killed_hosts || world.has_lost_link => unknown += 1,
                    // A node is not called again.
                    Outcome::Unknown if tool == "run_node" => unknown += 1,
                    // The input may have closed its terminal.
                    Outcome::Unknown if world.stage.names_closed_terminal(&params) => unknown += 1,
                    Outcome::Unknown => {
                        return Err(format!("{step} ({tool}) is recorded as unknown, although nothing was lost"));
                    }
                    Outcome::TimedOut => {}
                }
            }
            _ => {}
        }
    }
    Ok(unknown)
}

/// Returns whether an action may fail with this error, for example because its terminal has closed.
fn is_honest_failure(world: &World, tool: &str, error: &str) -> bool {
    let has_no_terminal = error.contains("session_id is required");
    // The failure belongs to a child run, and that run is checked too.
    let is_of_children = matches!(tool, "run_workflow" | "parallel");
    let has_timed_out = error.contains("timed out") || error.contains("exceeded its time limit");
    let has_closed = world.stage.names_closed_terminal(error) || error.contains("the terminal was closed");
    let is_out_of_reach =
        world.has_lost_link && (error.contains("was not reached") || error.contains("is not connected"));
    let is_lost = world.has_killed_hosts && (error == "Session not found" || error.contains("has exited"));
    let is_not_repeated = match tool {
        "run_graph" | "run_node" => error.contains("it is not repeated") || error.contains("is unknown"),
        _ => false,
    };
    let is_at_terminal_limit = error.contains("terminals are open, which is the limit");
    tool == "fail"
        || is_not_repeated
        || is_lost
        || is_out_of_reach
        || is_at_terminal_limit
        || has_no_terminal
        || is_of_children
        || has_timed_out
        || has_closed
}

/// Returns the effect of a tool that a success implies.
fn effect_of(tool: &str) -> Option<Effect> {
    match tool {
        "open_terminal" => Some(Effect::Open),
        "run_command" => Some(Effect::Run),
        "send_input" => Some(Effect::Type),
        _ => None,
    }
}
