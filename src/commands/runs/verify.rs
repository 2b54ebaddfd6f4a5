//! `steplatch runs verify`: another check of the signatures of a run's answers.

use std::collections::HashMap;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};
use steplatch_passkey::{Assertion, Challenge, PublicKey, SignedText, verify};
use steplatch_protocol::{DaemonPaths, ListPasskeys, PasskeyInfo, RunEvent};
use steplatch_workflow::{Form, SignedAnswer};

use crate::failure::{FAILED, Failure};
use crate::print::{self, BAD, GOOD, QUIET, visible};
use crate::{completion, daemon_client, pick, question};

/// Check the signatures of a run's answers again
///
/// An answer that a passkey signed is stored with its signature, which covers the shown question and the answer. This
/// command verifies the signature without the daemon, and reports whether the passkey is still registered.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 all signatures are valid, 1 a signature is invalid.")]
pub(crate) struct Verify {
    /// Run: its id or an unambiguous prefix; without one the only run, or one picked from a list
    #[arg(value_name = "RUN", add = completion::runs())]
    id: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// An answer of a run, with the result of the check of its signature.
#[derive(Debug, PartialEq, Serialize)]
struct CheckedAnswer {
    gate_id: String,
    by: String,
    answer: Value,
    proof: Option<String>,
    /// True if the signature is valid. `None` without a signature.
    holds: Option<bool>,
    /// Fingerprint of the passkey that signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    passkey_id: Option<String>,
    /// Name of the passkey.
    #[serde(skip_serializing_if = "Option::is_none")]
    passkey: Option<String>,
    registered: bool,
    /// Reason that the signature is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Verify {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let run = pick::run(paths, self.id).await?;
        let daemon = daemon_client::reconnecting_client(paths)?;
        let passkeys = daemon.call(ListPasskeys {}).await?.passkeys;
        let mut events = daemon.follow(&run, 1);
        let newest = events.newest_seq().await.map_err(|error| Failure::work(error.to_string()))?;
        let (mut answers, mut questions) = (Vec::new(), HashMap::new());
        while let Some(event) = events.next().await.map_err(|error| Failure::work(error.to_string()))? {
            questions.extend(AskedQuestion::from_event(&event));
            answers.extend(check_answer(&event, &questions, &passkeys));
            if event.seq >= newest {
                break;
            }
        }
        let has_failed = answers.iter().any(|answer| answer.holds == Some(false));
        if self.json {
            print::json(&serde_json::json!({"success": !has_failed, "run_id": run, "answers": answers}))?;
        } else if answers.is_empty() {
            print::remark("no gate of this run was answered");
        } else {
            answers.iter().map(answer_line).try_for_each(print::line)?;
        }
        Ok(if has_failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
    }
}

/// The answers that a gate permits.
#[derive(Debug, Clone, Default)]
struct AskedQuestion {
    choices: Vec<String>,
    form: Option<Value>,
}

impl AskedQuestion {
    /// Reads the question from an event. Returns it with the id of its gate.
    fn from_event(event: &RunEvent) -> Option<(String, Self)> {
        if event.event_type != "gate_waiting" {
            return None;
        }
        let gate_id = event.data.get("gate_id")?.as_str()?.to_owned();
        let choices = event.data.get("choices").and_then(Value::as_array).into_iter().flatten();
        let choices = choices.filter_map(Value::as_str).map(str::to_owned).collect();
        let form = event.data.get("form").filter(|form| !form.is_null()).cloned();
        Some((gate_id, Self { choices, form }))
    }

    /// Returns whether the accepted `answer` is the signed answer. Fills in a form with the signed values like the
    /// gate.
    fn matches_signed(&self, answer: &Value, signed: &SignedAnswer) -> bool {
        if let Some(form) = &self.form {
            let filled = Form::read(form)
                .ok()
                .zip(parse_object(&signed.answer))
                .and_then(|(form, values)| form.fill(&values).ok());
            // A machine stores the answer to a form as JSON text.
            let answer = answer.as_object().cloned().or_else(|| parse_object(answer.as_str()?));
            return filled.is_some() && filled == answer;
        }
        match signed.number {
            Some(number) => number.checked_sub(1).and_then(|index| self.choices.get(index)).is_some_and(|choice| {
                answer.as_str() == Some(choice) && (signed.answer.is_empty() || signed.answer == *choice)
            }),
            None => answer.as_str() == Some(&signed.answer),
        }
    }
}

/// Parses a JSON object.
fn parse_object(text: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(text).ok()
}

/// Checks the answer in an event. `None` if the event has no answer.
fn check_answer(
    event: &RunEvent,
    questions: &HashMap<String, AskedQuestion>,
    passkeys: &[PasskeyInfo],
) -> Option<CheckedAnswer> {
    if event.event_type != "gate_answered" {
        return None;
    }
    let text = |name: &str| event.data.get(name).and_then(Value::as_str).map(str::to_owned);
    let mut answer = CheckedAnswer {
        gate_id: text("gate_id").unwrap_or_default(),
        by: text("by").unwrap_or_default(),
        answer: event.data.get("answer").cloned().unwrap_or_default(),
        proof: text("proof"),
        holds: None,
        passkey_id: None,
        passkey: None,
        registered: false,
        error: None,
    };
    let signed = match event.data.get("signed") {
        Some(signed) => serde_json::from_value::<SignedAnswer>(signed.clone()).map_err(|error| error.to_string()),
        None if answer.proof.as_deref() == Some("passkey") => Err("the signature is missing".to_owned()),
        None => return Some(answer),
    };
    let result = signed.and_then(|signed| {
        let key = PublicKey::try_from(signed.public_key.clone()).map_err(|error| error.to_string())?;
        answer.passkey_id = Some(key.fingerprint());
        answer.passkey = Some(signed.passkey.clone());
        answer.registered = passkeys.iter().any(|passkey| passkey.public_key == signed.public_key);
        let digest = text("shown").unwrap_or_default();
        let reason = text("reason").unwrap_or_default();
        let answer_text = SignedText {
            gate_id: &answer.gate_id,
            digest: &digest,
            number: signed.number,
            answer: &signed.answer,
            reason: &reason,
        };
        let parts = Assertion {
            client_data: &signed.client_data,
            authenticator_data: &signed.authenticator_data,
            signature: &signed.signature,
        };
        verify(&key, &signed.origin, parts, &Challenge::for_answer(&answer_text)).map_err(|error| error.to_string())?;
        let question = questions.get(&answer.gate_id).ok_or("the question is missing")?;
        match question.matches_signed(&answer.answer, &signed) {
            true => Ok(()),
            false => Err(format!("it signs {}", describe_signed(&signed))),
        }
    });
    answer.holds = Some(result.is_ok());
    answer.error = result.err();
    Some(answer)
}

/// Describes the signed answer.
fn describe_signed(signed: &SignedAnswer) -> String {
    match signed.number {
        Some(number) if signed.answer.is_empty() => format!("choice {number}"),
        _ => format!("'{}'", visible(&signed.answer)),
    }
}

fn answer_line(answer: &CheckedAnswer) -> String {
    let summary = question::format_answer(&answer.answer);
    let summary = format!("{}  {} answered: {summary}", answer.gate_id, visible(&answer.by));
    let passkey = || {
        let name = answer.passkey.as_deref().map(visible).unwrap_or_default();
        let id = answer.passkey_id.as_deref().unwrap_or_default();
        let note = if answer.registered { "" } else { ", which is not registered now" };
        format!("the passkey {name} {id}{note}")
    };
    match (answer.holds, &answer.error) {
        (Some(true), _) => format!("{GOOD}✓{GOOD:#} {summary} {QUIET}signed with {}{QUIET:#}", passkey()),
        (Some(false), error) => {
            let error = error.as_deref().unwrap_or_default();
            format!("{BAD}✗{BAD:#} {summary} {BAD}the signature is invalid: {}{BAD:#}", visible(error))
        }
        (None, _) => {
            let proof = answer.proof.as_deref().unwrap_or("none");
            format!("{QUIET}·{QUIET:#} {summary} {QUIET}not signed; proof: {proof}{QUIET:#}")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(data: Value) -> RunEvent {
        RunEvent {
            seq: 1,
            run_id: "run_a".to_owned(),
            workflow_id: "release".to_owned(),
            event_type: "gate_answered".to_owned(),
            data: data.as_object().unwrap().clone(),
            timestamp: "2026-01-01T00:00:00Z".to_owned(),
        }
    }

    #[test]
    fn missing_signature_is_reported_and_a_lost_one_is_invalid() {
        let plain = check_answer(
            &event(json!({"gate_id": "g", "by": "ana", "answer": "yes", "proof": "terminal"})),
            &HashMap::new(),
            &[],
        )
        .unwrap();
        assert_eq!((plain.holds, plain.error), (None, None));
        let unsigned = check_answer(
            &event(json!({"gate_id": "g", "by": "ana", "answer": "yes", "proof": "passkey"})),
            &HashMap::new(),
            &[],
        )
        .unwrap();
        assert_eq!((unsigned.holds, unsigned.error.as_deref()), (Some(false), Some("the signature is missing")));
    }

    fn asked_question(question: &Value) -> AskedQuestion {
        let mut event = event(question.clone());
        event.event_type = "gate_waiting".to_owned();
        AskedQuestion::from_event(&event).unwrap().1
    }

    fn signed(answer: &str, number: Option<usize>) -> SignedAnswer {
        SignedAnswer { answer: answer.to_owned(), number, ..SignedAnswer::default() }
    }

    #[test]
    fn accepted_choice_must_match_the_signed_text_and_number() {
        let question = asked_question(&json!({"gate_id": "g", "choices": ["release", "stop"]}));
        assert!(question.matches_signed(&json!("stop"), &signed("stop", Some(2))));
        assert!(question.matches_signed(&json!("stop"), &signed("stop", None)));
        assert!(
            question.matches_signed(&json!("stop"), &signed("", Some(2))),
            "the number of the choice is sufficient"
        );
        for (taken, answer, number) in [
            ("release", "stop", Some(2)),
            ("release", "", Some(2)),
            ("stop", "stop", Some(1)),
            ("stop", "", Some(9)),
            ("stop", "", Some(0)),
        ] {
            assert!(!question.matches_signed(&json!(taken), &signed(answer, number)), "{taken} {answer} {number:?}");
        }
        let text = asked_question(&json!({"gate_id": "g", "prompt": "Why?"}));
        assert!(text.matches_signed(&json!("because"), &signed("because", None)));
        assert!(!text.matches_signed(&json!("because not"), &signed("because", None)));
    }

    #[test]
    fn accepted_form_must_follow_from_the_signed_fields() {
        let question = asked_question(&json!({"gate_id": "g", "form": {"properties": {
            "version": {"type": "string"},
            "where": {"oneOf": [{"const": "eu", "title": "Europe"}, {"const": "us", "title": "America"}]},
            "count": {"type": "integer", "default": 2},
            "note": {"type": "string"},
        }, "required": ["version"]}}));
        let signed_answer = signed(r#"{"version": "1.2", "where": "America", "count": "3"}"#, None);
        let accepted = json!({"version": "1.2", "where": "us", "count": 3, "note": null});
        assert!(question.matches_signed(&accepted, &signed_answer), "titles and numbers as text match their values");
        assert!(
            question.matches_signed(&json!(accepted.to_string()), &signed_answer),
            "a machine stores the answer as JSON text"
        );
        let short = signed(r#"{"version": "1.2"}"#, None);
        let defaults = json!({"version": "1.2", "where": null, "count": 2, "note": null});
        assert!(question.matches_signed(&defaults, &short), "omitted fields have their defaults");
        for (field, value) in [("note", json!("approved by ana")), ("count", json!(9)), ("version", json!("1.3"))] {
            let mut forged = accepted.clone();
            forged[field] = value;
            assert!(!question.matches_signed(&forged, &signed_answer), "{forged}");
        }
        let mut extended = accepted.clone();
        extended["force"] = json!(true);
        assert!(!question.matches_signed(&extended, &signed_answer), "an additional field invalidates the answer");
        let mut incomplete = accepted;
        incomplete.as_object_mut().unwrap().remove("note");
        assert!(!question.matches_signed(&incomplete, &signed_answer));
    }
}
