//! What the outcome of an action means for a machine.
//!
//! An action that returned something may have failed all the same, by the rules of the run. Its outcome is stored as it is
//! judged here, so that conditions, variables, logs and events agree on it.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::event::Outcome;
use crate::history::CurrentStep;
use crate::rules::Rules;
use crate::{substitute, time, tool};

/// Returns the outcome of a step as the rules of the run judge it.
pub(crate) fn judged<'o>(outcome: &'o Outcome, current: &CurrentStep, rules: Rules) -> Cow<'o, Outcome> {
    let Outcome::Finished { result } = outcome else { return Cow::Borrowed(outcome) };
    let error = if rules.unmatched_wait_fails() && outcome.found_nothing(current) {
        missed(&current.params, result)
    } else {
        return Cow::Borrowed(outcome);
    };
    let mut result = result.clone();
    result.insert("success".to_owned(), false.into());
    result.insert("error".to_owned(), error.into());
    Cow::Owned(Outcome::Finished { result })
}

impl Outcome {
    /// Returns whether an `await_output` ended without what it waited for. Only for an outcome that is not judged yet.
    pub(crate) fn found_nothing(&self, current: &CurrentStep) -> bool {
        match self {
            Self::Finished { result } => tool::found_nothing(&current.tool, &current.params, result),
            Self::TimedOut | Self::Unknown => false,
        }
    }
}

/// Returns why a wait ended without what it waited for, as a sentence without a full stop.
fn missed(params: &Map<String, Value>, result: &Map<String, Value>) -> String {
    let text = |fields: &Map<String, Value>, name: &str| {
        fields.get(name).map(substitute::as_text).filter(|text| !text.is_empty())
    };
    let until = text(params, "until").filter(|until| until != "match");
    let more = params.get("patterns").and_then(Value::as_array).into_iter().flatten().map(substitute::as_text);
    let patterns: Vec<String> =
        text(params, "pattern").into_iter().chain(more).map(|pattern| format!("/{pattern}/")).collect();
    let awaited = match (&until, &patterns[..]) {
        (None, []) => "what it waited for".to_owned(),
        (None, patterns) => patterns.join(" or "),
        (Some(until), []) => format!("'{until}'"),
        (Some(until), patterns) => format!("{} or '{until}'", patterns.join(" or ")),
    };
    match text(result, "reason").as_deref() {
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
                .map(|time| format!(" within {}", time::spoken(time)))
                .unwrap_or_default();
            format!("{awaited} did not come{within}")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn a_wait_says_what_did_not_come_and_why_it_ended() {
        for (params, result, expected) in [
            (json!({"pattern": "OK", "timeout": 2}), json!({"reason": "timeout"}), "/OK/ did not come within 2s"),
            (json!({"pattern": "OK"}), json!({"timeout_occurred": true}), "/OK/ did not come"),
            (
                json!({"pattern": "a", "patterns": ["b"], "timeout": "0.5"}),
                json!({}),
                "/a/ or /b/ did not come within 0.5s",
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
            (json!({}), json!({"elapsed_time": 1.5}), "what it waited for did not come within 1.5s"),
        ] {
            assert_eq!(missed(&map(&params), &map(&result)), expected, "{params} {result}");
        }
    }
}
