//! A rehearsal of a machine as the report of a run: the states that would run, with results that the caller provides.

use serde_json::{Map, Value, json};
use steplatch_access::Redactor;
use steplatch_protocol::RunReply;
use steplatch_sessions::TerminalTools;
use steplatch_workflow::{Definition, Limits, Rehearsal, RehearsalEnd, RehearsalStep, Stubs, rehearse, tool};

use super::report::{MAX_TEXT_CHARS, shorten};
use crate::not_started::not_started;

/// Rehearses a machine. The rehearsal opens, types and stores nothing, so the report has no `run_id`.
pub(crate) fn rehearsal_report(
    definition: &Definition,
    stubs: &Map<String, Value>,
    variables: Map<String, Value>,
    limits: Limits,
    secrets: &Redactor,
) -> Box<RunReply> {
    let stubs = match Stubs::read(&Value::Object(stubs.clone()), definition, &TerminalTools) {
        Ok(stubs) => stubs,
        Err(problems) => {
            return not_started("definition_invalid", format!("rehearse does not match the workflow: {problems}"));
        }
    };
    let Rehearsal { path, end, final_state, states_executed, elapsed_time, return_values, left_over } =
        rehearse(definition, &stubs, variables, limits);
    let result = path.iter().rev().find_map(|step| match step {
        RehearsalStep::State { tool, result, .. } if tool == tool::RETURN => result.get("result").cloned(),
        _ => None,
    });
    let mut log: Vec<Value> = path.into_iter().map(entry).collect();
    let mut shortened_values = Vec::new();
    for (index, entry) in log.iter_mut().enumerate() {
        secrets.mask_in(entry);
        shorten(entry, MAX_TEXT_CHARS, &format!("/execution_log/{index}"), &mut shortened_values);
    }
    let (status, error) = match end {
        RehearsalEnd::Completed => ("completed", None),
        RehearsalEnd::Failed { error } => ("failed", Some(error)),
        RehearsalEnd::Stuck { error } => ("failed", Some(format!("the rehearsal needs more: {error}"))),
    };
    Box::new(RunReply {
        success: status == "completed",
        status: status.to_owned(),
        workflow_name: definition.name().map(ToString::to_string),
        final_state,
        states_executed,
        total_elapsed_time: elapsed_time.as_secs_f64(),
        execution_log: log,
        shortened: !shortened_values.is_empty(),
        shortened_values,
        return_values: return_values.into_iter().map(|(name, value)| (name, value.into())).collect(),
        result: result.filter(|_| status == "completed"),
        error: secrets.masked_if(error),
        next_step: (!left_over.is_empty()).then(|| format!("Not used: {}.", left_over.join("; "))),
        ..RunReply::default()
    })
}

/// Returns a step of a rehearsal as an entry of a run's log.
fn entry(step: RehearsalStep) -> Value {
    match step {
        RehearsalStep::State { state, tool, params, result, elapsed_time, .. } => {
            let succeeded = result.get("success") != Some(&Value::Bool(false));
            json!({"phase": "execution", "state": state, "tool": tool, "params": params, "result": result,
                   "tool_success": succeeded, "elapsed_time": elapsed_time})
        }
        RehearsalStep::Transition { from, to, because, .. } => {
            json!({"phase": "transition", "from_state": from, "to_state": to, "condition_met": true, "because": because})
        }
        RehearsalStep::Gate { state, choices, answer, .. } => {
            json!({"phase": "gate", "state": state, "choices": choices, "answer": answer})
        }
        RehearsalStep::Contract { side, variables, holds, error, .. } => {
            let phase = match side {
                steplatch_workflow::Side::Arguments => "pre_execution_validation",
                steplatch_workflow::Side::ReturnValues => "post_execution_validation",
            };
            json!({"phase": phase, "variables": variables, "success": holds, "error": error})
        }
    }
}
