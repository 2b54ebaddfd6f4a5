//! Evaluation of an action's outcome by the rules of a machine.
//!
//! An action that returned a result may still have failed by the rules of the run. The history has the judged outcome,
//! so that conditions, variables, logs and events agree on it.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::definition::Definition;
use crate::event::Outcome;
use crate::history::CurrentStep;
use crate::rules::Rules;
use crate::{groups, substitute, time, tool};

/// Returns the outcome of a step by the rules of the run, and true if the step is a wait that found nothing.
pub(crate) fn judge_outcome<'o>(
    outcome: &'o Outcome,
    current: &CurrentStep,
    rules: Rules,
    definition: &Definition,
) -> (Cow<'o, Outcome>, bool) {
    let Outcome::Finished { result } = outcome else { return (Cow::Borrowed(outcome), false) };
    let CurrentStep { tool, params, .. } = current;
    let mut judged = Cow::Borrowed(result);
    if rules.names_groups() && tool::waits(tool, params) {
        if let Some(Value::Object(waited)) = result.get("waited") {
            let field = |name: &str| (name.to_owned(), waited.get(name).cloned().unwrap_or_default());
            judged.to_mut().extend(tool::WAIT_FIELDS.map(field));
        }
        if let Some(groups) = groups::groups_of_match(params, &judged) {
            judged.to_mut().insert("groups".to_owned(), groups);
        }
    }
    if rules.trims_output()
        && tool == tool::RUN_COMMAND
        && let Some(Value::String(printed)) = result.get(tool::OUTPUT)
    {
        // Nearly every output has a trailing newline, so copy the raw output only if the definition reads it.
        if definition.reads_raw_output() {
            judged.to_mut().insert(tool::RAW_OUTPUT.to_owned(), printed.as_str().into());
        }
        if printed.ends_with('\n') {
            judged.to_mut().insert(tool::OUTPUT.to_owned(), printed.trim_end_matches('\n').into());
        }
    }
    let found_nothing = tool::found_nothing(tool, params, &judged);
    let error = if found_nothing && rules.unmatched_wait_fails() {
        Some(missed_wait_error(params, &judged))
    } else {
        command_error(tool, result)
    };
    if let Some(error) = error {
        judged.to_mut().insert("success".to_owned(), false.into());
        judged.to_mut().insert("error".to_owned(), error.into());
    }
    let outcome = match judged {
        Cow::Borrowed(_) => Cow::Borrowed(outcome),
        Cow::Owned(result) => Cow::Owned(Outcome::Finished { result }),
    };
    (outcome, found_nothing)
}

/// Maximum number of characters of an output line in an error.
const MAX_LINE_CHARS: usize = 200;

/// Error of a command in a shell that reports no exit codes.
const EXIT_CODE_UNKNOWN: &str = "the shell reports no exit codes, so it is unknown whether the command succeeded; \
                                 \"integrate\": true has the shell report them";

/// Returns the reason for considering a completed command failed: the exit code and the last printed line, or an
/// unknown exit code.
fn command_error(tool: &str, result: &Map<String, Value>) -> Option<String> {
    if tool != tool::RUN_COMMAND || !tool::succeeded(result) {
        return None;
    }
    if result.get("exit_code_unknown") == Some(&Value::Bool(true)) {
        return Some(EXIT_CODE_UNKNOWN.to_owned());
    }
    let code = result.get("exit_code").and_then(Value::as_i64).filter(|code| *code != 0)?;
    let output = result.get("output").and_then(Value::as_str).unwrap_or_default();
    let last = output.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let last = last.map(|line| format!(": {}", truncated_line(line)));
    Some(format!("the command ended with exit code {code}{}", last.unwrap_or_default()))
}

/// Returns a line of a screen or an output, truncated to [`MAX_LINE_CHARS`] for an error.
fn truncated_line(line: &str) -> String {
    line.chars().take(MAX_LINE_CHARS).collect()
}

/// Returns the reason a wait ended without a match, as a sentence without a full stop.
fn missed_wait_error(params: &Map<String, Value>, result: &Map<String, Value>) -> String {
    let text = |fields: &Map<String, Value>, name: &str| {
        fields.get(name).map(substitute::as_text).filter(|text| !text.is_empty())
    };
    let until = text(params, "until").filter(|until| until != "match");
    let patterns: Vec<String> =
        groups::patterns(params).map(|pattern| format!("/{}/", substitute::as_text(pattern))).collect();
    let awaited = match (&until, &patterns[..]) {
        (None, []) => "the awaited output".to_owned(),
        (None, patterns) => patterns.join(" or "),
        (Some(until), []) => format!("'{until}'"),
        (Some(until), patterns) => format!("{} or '{until}'", patterns.join(" or ")),
    };
    let reads = text(params, "reads");
    let echo = match reads.as_deref() {
        Some("line") => " as a program that reads a line",
        Some("shown") => " with its echo on",
        Some("hidden") => " with its echo off",
        _ => "",
    };
    match text(result, "reason").as_deref() {
        Some("input") if reads.is_some() => format!("the program waited for input, but not at {awaited}{echo}"),
        Some("exit") => {
            let code = text(result, "exit_code").map(|code| format!(" with exit code {code}")).unwrap_or_default();
            format!("the program ended{code} before {awaited} came")
        }
        Some(reason) if reason != "timeout" && result.get("timeout_occurred") != Some(&Value::Bool(true)) => {
            format!("the wait ended with '{reason}' before {awaited} came")
        }
        _ => {
            let seconds = text(params, "timeout").or_else(|| text(result, "elapsed_time"));
            let within = seconds
                .and_then(|seconds| seconds.trim().parse().ok())
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                .map(|time| format!(" within {}", time::seconds_text(time)))
                .unwrap_or_default();
            let question = text(result, "screen_content")
                .filter(|_| reads.is_none() && result.get("awaiting_input") == Some(&Value::Bool(true)))
                .and_then(|screen| screen.lines().rev().map(str::trim).find(|row| !row.is_empty()).map(truncated_line))
                .map_or_else(String::new, |row| format!("; the program waits for input at '{row}'"));
            match reads {
                Some(_) => format!("the program did not wait for input at {awaited}{echo}{within}"),
                None => format!("{awaited} did not appear{within}{question}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().expect("the value is an object").clone()
    }

    #[test]
    fn command_fails_by_its_exit_code() {
        for (tool, result, expected) in [
            ("run_command", json!({"success": true, "exit_code": 0, "output": "ok"}), None),
            ("run_command", json!({"success": true, "exit_code": null}), None),
            (
                "run_command",
                json!({"success": true, "exit_code": null, "exit_code_unknown": true}),
                Some(EXIT_CODE_UNKNOWN),
            ),
            (
                "run_command",
                json!({"success": true, "exit_code": 2, "output": "a\n  No rule\n\n"}),
                Some("the command ended with exit code 2: No rule"),
            ),
            (
                "run_command",
                json!({"success": true, "exit_code": 1, "output": ""}),
                Some("the command ended with exit code 1"),
            ),
            ("run_command", json!({"success": false, "exit_code": 1, "error": "the command ended the shell"}), None),
            ("await_output", json!({"success": true, "exit_code": 1}), None),
        ] {
            assert_eq!(command_error(tool, &map(&result)).as_deref(), expected, "{tool} {result}");
        }
    }

    #[test]
    fn wait_reports_its_missing_pattern_and_its_end() {
        for (params, result, expected) in [
            (json!({"pattern": "OK", "timeout": 2}), json!({"reason": "timeout"}), "/OK/ did not appear within 2s"),
            (json!({"pattern": "OK"}), json!({"timeout_occurred": true}), "/OK/ did not appear"),
            (
                json!({"pattern": "a", "patterns": ["b"], "timeout": "0.5"}),
                json!({}),
                "/a/ or /b/ did not appear within 0.5s",
            ),
            (
                json!({"until": "prompt"}),
                json!({"reason": "exit", "exit_code": 1}),
                "the program ended with exit code 1 before 'prompt' came",
            ),
            (
                json!({"until": "prompt", "pattern": "OK"}),
                json!({"reason": "input"}),
                "the wait ended with 'input' before /OK/ or 'prompt' came",
            ),
            (
                json!({"pattern": "Key:", "reads": "hidden"}),
                json!({"reason": "input"}),
                "the program waited for input, but not at /Key:/ with its echo off",
            ),
            (
                json!({"pattern": "Go on", "reads": "any", "timeout": 2}),
                json!({"reason": "timeout"}),
                "the program did not wait for input at /Go on/ within 2s",
            ),
            (json!({}), json!({"elapsed_time": 1.5}), "the awaited output did not appear within 1.5s"),
            (
                json!({"until": "prompt", "timeout": 2}),
                json!({"timeout_occurred": true, "awaiting_input": true, "screen_content": "$ sh ask\nGo on? \n\n"}),
                "'prompt' did not appear within 2s; the program waits for input at 'Go on?'",
            ),
            (
                json!({"until": "prompt", "timeout": 2}),
                json!({"timeout_occurred": true, "awaiting_input": false, "screen_content": "$ make"}),
                "'prompt' did not appear within 2s",
            ),
        ] {
            assert_eq!(missed_wait_error(&map(&params), &map(&result)), expected, "{params} {result}");
        }
    }
}
