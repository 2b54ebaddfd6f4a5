//! The outcomes and durations of actions in a rehearsal.

use std::time::Duration;

use serde_json::{Map, Value, json};
use steplatch_ids::StepId;

use super::stubs::{Answers, Stub, Stubs};
use super::{CurrentState, MissingStub, PRINTS, Source, StubUses, ordinal};
use crate::event::Outcome;
use crate::history::History;
use crate::{dialogue, items, parallel, substitute, time, tool};

/// The outcome of an action.
pub(super) struct StubResult {
    pub(super) outcome: Outcome,
    pub(super) duration: Duration,
    pub(super) source: Source,
}

/// Returns the outcome of a state's action from its stub. Without a stub, returns the default outcome, if there is one.
pub(super) fn act(
    stubs: &Stubs,
    used: &mut StubUses,
    history: &History,
    step: &StepId,
    current: &CurrentState,
    sleep_duration: Option<Duration>,
) -> Result<StubResult, MissingStub> {
    let name = step.place.as_str();
    let stub_entry = match stubs.states.get(name) {
        Some(answers) => {
            let use_index = used.states.entry(name.to_owned()).or_default();
            Some((next_answer(answers, use_index, "state", name)?, Source::State))
        }
        None => match stubs.tools.get(&current.tool) {
            Some(answers) => {
                let use_index = used.tools.entry(current.tool.clone()).or_default();
                Some((next_answer(answers, use_index, "tool", &current.tool)?, Source::Tool))
            }
            None => None,
        },
    };
    let default_duration = sleep_duration.unwrap_or(Duration::ZERO);
    let Some((stub, source)) = stub_entry else {
        let result = default_result(name, current, history).ok_or_else(|| {
            let stub = match current.tool.as_str() {
                tool::DIALOGUE => "{\"prints\": [\"…\"]}",
                _ => "{\"match_text\": \"…\"}",
            };
            format!(
                "State '{name}' waits for output that no stub provides; add it under \"states\": \
                 \"{name}\": {stub}, or \"timeout\""
            )
        })?;
        return Ok(limit_duration(current, Outcome::Finished { result }, default_duration, Source::Usual));
    };
    Ok(match stub {
        Stub::OutcomeUnknown => StubResult { outcome: Outcome::Unknown, duration: Duration::ZERO, source },
        Stub::Timeout => {
            let (outcome, duration) = time_out(name, current, stubs.default_wait_timeout)?;
            StubResult { outcome, duration, source }
        }
        Stub::Result(fields) if fields.contains_key(PRINTS) && current.tool != tool::DIALOGUE => {
            match output_result(current, fields) {
                Some(result) => limit_duration(current, Outcome::Finished { result }, default_duration, source),
                None => {
                    let (outcome, duration) = time_out(name, current, stubs.default_wait_timeout)?;
                    StubResult { outcome, duration, source }
                }
            }
        }
        Stub::Result(fields) => {
            let failed = fields.get("success") == Some(&Value::Bool(false));
            let default_result = if failed { None } else { default_result(name, current, history) };
            let mut result = default_result.unwrap_or_else(|| session_result(&current.params));
            result.extend(fields.clone());
            let duration = fields.get("elapsed_time").and_then(Value::as_f64).map(Duration::from_secs_f64);
            limit_duration(current, Outcome::Finished { result }, duration.unwrap_or(default_duration), source)
        }
    })
}

/// Returns the result of an action whose program prints the text of a stub and ends with the stub's exit code. `None`
/// if the wait of the action has no match in the text.
fn output_result(current: &CurrentState, fields: &Map<String, Value>) -> Option<Map<String, Value>> {
    let CurrentState { tool, params, .. } = current;
    let text = fields.get(PRINTS).map(substitute::as_text).unwrap_or_default();
    let exit_code = fields.get("exit_code").cloned().filter(|code| !code.is_null());
    let mut result = session_result(params);
    result.insert("success".to_owned(), true.into());
    if tool == tool::RUN_COMMAND {
        let code = exit_code.unwrap_or_else(|| 0.into());
        result.insert("success".to_owned(), (code == 0).into());
        result.extend([("exit_code".to_owned(), code), ("output".to_owned(), text.into())]);
        return Some(result);
    }
    let pattern = params.get("pattern").filter(|pattern| pattern.as_str().is_some_and(|pattern| !pattern.is_empty()));
    let more_patterns = params.get("patterns").and_then(Value::as_array).into_iter().flatten();
    let patterns: Vec<Value> = pattern.into_iter().chain(more_patterns).cloned().collect();
    let turn_result = dialogue::rehearsed_turn(&patterns, &text);
    if turn_result.contains_key("match_text") {
        result.extend(turn_result.into_iter().filter(|(name, _)| name != "matched"));
        return Some(result);
    }
    let until = params.get("until").and_then(Value::as_str).filter(|until| *until != "match");
    match until {
        None if !patterns.is_empty() => return None,
        None => {}
        Some(until) => {
            let fields = [("match_text", Value::Null), ("reason", until.into())];
            result.extend(fields.map(|(name, value)| (name.to_owned(), value)));
            result.extend(exit_code.map(|code| ("exit_code".to_owned(), code)));
        }
    }
    result.insert("screen_content".to_owned(), text.into());
    Some(result)
}

fn next_answer<'s>(
    answers: &'s Answers<Stub>,
    use_index: &mut usize,
    kind: &str,
    name: &str,
) -> Result<&'s Stub, MissingStub> {
    let answer = answers.get(*use_index).ok_or_else(|| {
        let time = ordinal(*use_index + 1);
        format!(
            "There is no {time} result for {kind} '{name}'; add one to its list, or write one result without a list for all uses"
        )
    });
    *use_index += 1;
    answer
}

/// Returns an outcome after a duration, or a time-out if the time limit of the state passes before.
fn limit_duration(current: &CurrentState, outcome: Outcome, duration: Duration, source: Source) -> StubResult {
    match current.limit {
        Some(limit) if duration > limit => StubResult { outcome: Outcome::TimedOut, duration: limit, source },
        _ => StubResult { outcome, duration, source },
    }
}

/// Returns the time-out of the state, or of an action with its own time limit.
fn time_out(
    name: &str,
    current: &CurrentState,
    default_wait_timeout: Option<Duration>,
) -> Result<(Outcome, Duration), MissingStub> {
    let is_dialogue = current.tool == tool::DIALOGUE;
    let own_limit = matches!(current.tool.as_str(), tool::AWAIT_OUTPUT | tool::SEND_INPUT)
        .then(|| own_timeout(&current.params).or(default_wait_timeout).unwrap_or(tool::DEFAULT_TIMEOUT))
        .or_else(|| {
            is_dialogue.then(|| {
                own_timeout(&current.params).unwrap_or(Duration::from_secs_f64(dialogue::DEFAULT_TIMEOUT_SECONDS))
            })
        });
    match (current.limit, own_limit) {
        (Some(limit), own_limit) if own_limit.is_none_or(|own_limit| own_limit >= limit) => {
            Ok((Outcome::TimedOut, limit))
        }
        (_, Some(own_limit)) => {
            let mut result = session_result(&current.params);
            let fields = [("success", json!(true)), ("match_text", Value::Null), ("timeout_occurred", json!(true))];
            result.extend(fields.map(|(name, value)| (name.to_owned(), value)));
            result.insert("reason".to_owned(), "timeout".into());
            if is_dialogue {
                result.insert("success".to_owned(), false.into());
                let error = format!("the dialogue did not end within {}", time::seconds_text(own_limit));
                result.insert("error".to_owned(), error.into());
            }
            Ok((Outcome::Finished { result }, own_limit))
        }
        (_, None) => {
            Err(format!("State '{name}' has no timeout, so it cannot time out; give it one or another result"))
        }
    }
}

/// Returns the time limit in the parameters of an action, if any.
fn own_timeout(params: &Map<String, Value>) -> Option<Duration> {
    let seconds = params.get("timeout").and_then(|timeout| match timeout {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    });
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// Returns the default result of an action. `None` if no default is possible, such as for the output of a program.
fn default_result(name: &str, current: &CurrentState, history: &History) -> Option<Map<String, Value>> {
    let CurrentState { tool, params, .. } = current;
    let mut result = session_result(params);
    result.insert("success".to_owned(), true.into());
    match tool.as_str() {
        tool::OPEN_TERMINAL => {
            // Each visit to a state opens its own terminal, with a distinct name.
            let visit = history.current().map_or(1, |current| current.step.visit);
            let number = if visit == 1 { String::new() } else { format!("_{visit}") };
            result.insert("session_id".to_owned(), format!("term_{name}{number}").into());
            result.insert("shell".to_owned(), params.get("shell").cloned().unwrap_or_else(|| "bash".into()));
        }
        tool::AWAIT_OUTPUT => {
            let until = params.get("until").and_then(Value::as_str).filter(|until| *until != "match")?;
            result.insert("match_text".to_owned(), Value::Null);
            result.insert("reason".to_owned(), until.into());
            if matches!(until, "prompt" | "exit") {
                result.insert("exit_code".to_owned(), 0.into());
            }
        }
        // The questions of the program are not known.
        tool::DIALOGUE if params.get("until").is_some_and(|until| !until.is_null()) => return None,
        tool::DIALOGUE => {
            result.insert("reason".to_owned(), "exit".into());
            result.insert("exit_code".to_owned(), 0.into());
            result.insert("answers".to_owned(), 0.into());
        }
        tool::RUN_COMMAND => {
            result.insert("output".to_owned(), "".into());
            result.insert("exit_code".to_owned(), 0.into());
        }
        "get_screen_content" => {
            result.insert("screen_content".to_owned(), "".into());
            result.insert("process_running".to_owned(), true.into());
        }
        "list_terminal_sessions" => {
            let open = history.open_terminals();
            let sessions: Vec<Value> = open.iter().map(|session| json!({"session_id": session})).collect();
            result.insert("total_sessions".to_owned(), sessions.len().into());
            result.insert("sessions".to_owned(), sessions.into());
        }
        tool::RUN_WORKFLOW => {
            result.shift_remove("session_id");
            result.insert("status".to_owned(), "completed".into());
            result.insert("return_values".to_owned(), json!({}));
        }
        tool::PARALLEL => {
            result.shift_remove("session_id");
            let results = match params.get(parallel::WORKFLOWS) {
                Some(Value::Object(all)) => all.keys().map(|name| (name.clone(), Value::Null)).collect(),
                Some(Value::Array(all)) => Value::Array(vec![Value::Null; all.len()]),
                _ => Value::Null,
            };
            result.insert(items::RESULTS.to_owned(), results);
            for list in ["runs", "failed", "open_terminals"] {
                result.insert(list.to_owned(), json!([]));
            }
        }
        call if tool::CALLS.contains(&call) => {
            let param = |name: &str| params.get(name).cloned();
            result.insert("output".to_owned(), "".into());
            result.extend(param("node_id").or_else(|| param("graph_id")).map(|id| ("node_id".to_owned(), id)));
            result.extend(param("input").map(|input| ("input".to_owned(), input)));
        }
        _ => {}
    }
    Some(result)
}

/// Returns a result with only the terminal that the action works on.
fn session_result(params: &Map<String, Value>) -> Map<String, Value> {
    let session_id = params.get("session_id").filter(|session| session.is_string());
    session_id.map(|session| ("session_id".to_owned(), session.clone())).into_iter().collect()
}
