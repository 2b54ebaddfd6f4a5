//! `steplatch runs verify`: the signatures of the answers of a run, checked again.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use steplatch_passkey::{Assertion, Challenge, PublicKey, SignedText, verify};
use steplatch_protocol::{DaemonPaths, ListPasskeys, PasskeyInfo, RunEvent};
use steplatch_workflow::SignedAnswer;

use crate::failure::{FAILED, Failure};
use crate::print::{self, BAD, GOOD, QUIET, visible};
use crate::{completion, front, pick, question};

/// Check the signatures of a run's answers again
///
/// An answer that a passkey signed is stored with its signature, which is of the question as it was shown and of the answer. This
/// checks it without the daemon, and says whether the passkey is still registered.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 every signature holds, 1 one does not.")]
pub(crate) struct Verify {
    /// Run: its id or an unambiguous prefix; without one the only run, or one picked from a list
    #[arg(value_name = "RUN", add = completion::runs())]
    id: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// An answer of a run, and what its signature proves.
#[derive(Debug, PartialEq, Serialize)]
struct CheckedAnswer {
    gate_id: String,
    by: String,
    answer: Value,
    proof: Option<String>,
    /// Whether the signature holds; nothing where there is none.
    holds: Option<bool>,
    /// The passkey that signed, by its short name.
    #[serde(skip_serializing_if = "Option::is_none")]
    passkey_id: Option<String>,
    /// The name of the passkey, and whether it is registered now.
    #[serde(skip_serializing_if = "Option::is_none")]
    passkey: Option<String>,
    registered: bool,
    /// Why the signature does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Verify {
    pub(super) async fn run(self, place: &DaemonPaths) -> Result<ExitCode, Failure> {
        let run = pick::run(place, self.id).await?;
        let daemon = front::steady(place)?;
        let passkeys = daemon.call(ListPasskeys {}).await?.passkeys;
        let mut events = daemon.follow(&run, 1);
        let newest = events.newest_seq().await.map_err(|error| Failure::work(error.to_string()))?;
        let mut answers = Vec::new();
        while let Some(event) = events.next().await.map_err(|error| Failure::work(error.to_string()))? {
            answers.extend(checked(&event, &passkeys));
            if event.seq >= newest {
                break;
            }
        }
        let fails = answers.iter().any(|answer| answer.holds == Some(false));
        if self.json {
            print::json(&serde_json::json!({"success": !fails, "run_id": run, "answers": answers}))?;
        } else if answers.is_empty() {
            print::note("no gate of this run was answered");
        } else {
            answers.iter().map(line).try_for_each(print::line)?;
        }
        Ok(if fails { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
    }
}

/// Checks the answer that an event tells; nothing if it tells none.
fn checked(event: &RunEvent, passkeys: &[PasskeyInfo]) -> Option<CheckedAnswer> {
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
    let checked = signed.and_then(|signed| {
        let key = PublicKey::try_from(signed.public_key.clone()).map_err(|error| error.to_string())?;
        answer.passkey_id = Some(key.fingerprint());
        answer.passkey = Some(signed.passkey.clone());
        answer.registered = passkeys.iter().any(|known| known.public_key == signed.public_key);
        let shown = text("shown").unwrap_or_default();
        let said =
            SignedText { gate_id: &answer.gate_id, digest: &shown, number: signed.number, answer: &signed.answer };
        let parts = Assertion {
            client_data: &signed.client_data,
            authenticator_data: &signed.authenticator_data,
            signature: &signed.signature,
        };
        verify(&key, &signed.origin, parts, &Challenge::of_answer(&said)).map_err(|error| error.to_string())?;
        match is_same(&answer.answer, &signed.answer) {
            true => Ok(()),
            false => Err(format!("it signs '{}'", visible(&signed.answer))),
        }
    });
    answer.holds = Some(checked.is_ok());
    answer.error = checked.err();
    Some(answer)
}

/// Returns whether the run took the answer that was signed. The fields of a form that were left out have their defaults.
fn is_same(taken: &Value, signed: &str) -> bool {
    let fields = |value: &Value| match value {
        Value::Object(fields) => Some(fields.clone()),
        // The answer to a machine's form is a text with its JSON.
        Value::String(text) => match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => Some(fields),
            _ => None,
        },
        _ => None,
    };
    let signed_fields = fields(&Value::String(signed.to_owned()));
    match (fields(taken), signed_fields) {
        (Some(taken), Some(signed)) => signed
            .iter()
            .all(|(name, value)| taken.get(name).is_some_and(|taken| taken == value || *taken == text_of(value))),
        _ => taken.as_str() == Some(signed),
    }
}

fn text_of(value: &Value) -> Value {
    Value::String(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn line(answer: &CheckedAnswer) -> String {
    let said = question::answered(&answer.answer);
    let said = format!("{}  {} answered: {said}", answer.gate_id, visible(&answer.by));
    let passkey = || {
        let name = answer.passkey.as_deref().map(visible).unwrap_or_default();
        let id = answer.passkey_id.as_deref().unwrap_or_default();
        let now = if answer.registered { "" } else { ", which is not registered now" };
        format!("the passkey {name} {id}{now}")
    };
    match (answer.holds, &answer.error) {
        (Some(true), _) => format!("{GOOD}✓{GOOD:#} {said} {QUIET}signed with {}{QUIET:#}", passkey()),
        (Some(false), error) => {
            let error = error.as_deref().unwrap_or_default();
            format!("{BAD}✗{BAD:#} {said} {BAD}the signature does not hold: {}{BAD:#}", visible(error))
        }
        (None, _) => {
            let proof = answer.proof.as_deref().unwrap_or("none");
            format!("{QUIET}·{QUIET:#} {said} {QUIET}not signed; proof: {proof}{QUIET:#}")
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
    fn an_answer_without_a_signature_is_told_and_one_that_lost_it_does_not_hold() {
        let plain =
            checked(&event(json!({"gate_id": "g", "by": "ana", "answer": "yes", "proof": "terminal"})), &[]).unwrap();
        assert_eq!((plain.holds, plain.error), (None, None));
        let lost =
            checked(&event(json!({"gate_id": "g", "by": "ana", "answer": "yes", "proof": "passkey"})), &[]).unwrap();
        assert_eq!((lost.holds, lost.error.as_deref()), (Some(false), Some("the signature is missing")));
    }

    #[test]
    fn the_answer_that_was_taken_is_compared_with_the_signed_one() {
        assert!(is_same(&json!("yes"), "yes") && !is_same(&json!("yes"), "no"));
        let form = r#"{"version": "1.2", "count": 3}"#;
        assert!(is_same(&json!({"version": "1.2", "count": 3, "note": null}), form));
        assert!(is_same(&json!(r#"{"version":"1.2","count":3}"#), form), "of a machine");
        assert!(!is_same(&json!({"version": "1.3", "count": 3}), form));
    }
}
