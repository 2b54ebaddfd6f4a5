//! Answers to gates: their form, and the checks of a gate.

use serde_json::{Map, Value};
use steplatch_access::{Caller, PasskeyRefusal, SignedText};
use steplatch_protocol::{AnswerGate, Decide, GateInfo, PasskeyAssertion, Passphrase};
use steplatch_workflow::{By, Field, Form, Proof, SignedAnswer};

use super::error::InvalidAnswer;
use super::open_gate::OpenGate;

/// Maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 500;

/// Returns a reason on one line, unless it is empty.
fn to_reason(text: &str) -> Option<String> {
    Some(text.split_whitespace().collect::<Vec<_>>().join(" ")).filter(|reason| !reason.is_empty())
}

/// An answer to a gate, as received.
#[derive(Debug)]
pub struct GateAnswer {
    pub(crate) run_id: String,
    pub(crate) gate_id: Option<String>,
    answer: String,
    number: Option<usize>,
    form: Option<Map<String, Value>>,
    pub(crate) passphrase: Option<Passphrase>,
    /// The signature of a passkey.
    pub(crate) passkey: Option<Box<PasskeyAssertion>>,
    /// Digest of the gate that the sender saw.
    pub(crate) digest: Option<String>,
    reason: Option<String>,
    /// True if the client sent it as an agent's decision. Such a decision never answers a gate for people.
    pub(crate) is_agent_decision: bool,
}

impl From<AnswerGate> for GateAnswer {
    fn from(verb: AnswerGate) -> Self {
        let AnswerGate { run_id, gate_id, answer, number, form, passphrase, passkey, digest, reason } = verb;
        let reason = reason.as_deref().and_then(to_reason);
        Self { run_id, gate_id, answer, number, form, passphrase, passkey, digest, reason, is_agent_decision: false }
    }
}

impl From<Decide> for GateAnswer {
    fn from(verb: Decide) -> Self {
        let Decide { run_id, gate_id, answer, form } = verb;
        Self {
            run_id,
            gate_id,
            answer,
            number: None,
            form,
            passphrase: None,
            passkey: None,
            digest: None,
            reason: None,
            is_agent_decision: true,
        }
    }
}

impl GateAnswer {
    /// Returns the author of the answer, the used surface, and the proof.
    pub(crate) async fn author(&self, caller: &Caller, proof: Option<GateProof>, signed: Option<SignedAnswer>) -> By {
        let mut surface = caller.display_surface().await;
        if self.is_agent_decision {
            surface.push_str(" decide");
        }
        let (shown, signed) = (self.digest.clone(), signed.map(Box::new));
        let (proof, required) = proof.map(|GateProof { provided, required }| (provided, required)).unzip();
        let reason = self.reason.clone();
        By { name: caller.display_name().await, surface: Some(surface), proof, shown, signed, required, reason }
    }

    /// Returns the text that a passkey signs.
    ///
    /// # Errors
    /// If the answer has an unsigned part.
    pub(crate) fn signed_text<'a>(&'a self, info: &'a GateInfo) -> Result<SignedText<'a>, PasskeyRefusal> {
        if self.form.is_some() {
            return Err(PasskeyRefusal::Unsigned);
        }
        let GateInfo { gate_id, digest, .. } = info;
        let reason = self.reason.as_deref().unwrap_or_default();
        Ok(SignedText { gate_id, digest, number: self.number, answer: &self.answer, reason })
    }
}

/// Proof that a person answered, as given and as required.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GateProof {
    pub(crate) provided: Proof,
    pub(crate) required: Proof,
}

/// An answer that passed every check.
pub(crate) struct VerifiedAnswer {
    /// The choice, the text, or the JSON of the form.
    pub(crate) choice: String,
    pub(crate) by: By,
}

impl OpenGate {
    /// Reads an answer to this gate, seen by clients as `info`: a choice, the JSON of a form with all of its fields, or
    /// a text.
    ///
    /// # Errors
    ///
    /// If the gate does not accept the answer.
    pub(crate) fn read(&self, info: &GateInfo, gate_answer: &GateAnswer) -> Result<String, InvalidAnswer> {
        if gate_answer.reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON_CHARS) {
            return Err(InvalidAnswer::LongReason);
        }
        if let Some(form) = &self.form {
            let form = Form::read(form).map_err(|problems| InvalidAnswer::BrokenForm { problems })?;
            let parse_typed = || match serde_json::from_str(&gate_answer.answer) {
                Ok(Value::Object(fields)) => Ok(fields),
                _ => {
                    let names = form.fields().iter().map(Field::name);
                    Err(InvalidAnswer::NotFields { fields: names.map(str::to_owned).collect() })
                }
            };
            let fields = gate_answer.form.clone().map_or_else(parse_typed, Ok)?;
            let filled = form.fill(&fields);
            return match filled {
                Ok(filled) => Ok(Value::Object(filled).to_string()),
                Err(problems) => Err(InvalidAnswer::Fields { problems }),
            };
        }
        if gate_answer.form.is_some() {
            return Err(InvalidAnswer::NoForm);
        }
        // A choice may hold a secret; the gate accepts its masked form as the answer.
        let all = || self.choices.iter().zip(&info.choices);
        let matches_shown_text =
            |(choice, shown): &(&String, &String)| **choice == gate_answer.answer || **shown == gate_answer.answer;
        if let Some(number) = gate_answer.number {
            let chosen = number.checked_sub(1).and_then(|at| all().nth(at));
            return match chosen.filter(|chosen| gate_answer.answer.is_empty() || matches_shown_text(chosen)) {
                Some((choice, _)) => Ok(choice.clone()),
                None => Err(InvalidAnswer::Number { number, choices: info.choices.clone() }),
            };
        }
        let exact_match = all().find(|(choice, _)| **choice == gate_answer.answer);
        let mut matches = all().filter(matches_shown_text);
        match exact_match.or_else(|| matches.next()) {
            Some(_) if exact_match.is_none() && matches.next().is_some() => Err(InvalidAnswer::AmbiguousChoice),
            Some((choice, _)) => Ok(choice.clone()),
            None if gate_answer.answer.trim().is_empty() => Err(match self.choices.is_empty() {
                true => InvalidAnswer::Empty,
                false => InvalidAnswer::NoChoice { choices: info.choices.clone() },
            }),
            None if self.choices.is_empty() => Ok(gate_answer.answer.clone()),
            None => {
                let answer = gate_answer.answer.chars().take(200).collect();
                Err(InvalidAnswer::OtherChoice { answer, choices: info.choices.clone() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use steplatch_ids::{RunId, StepId};
    use steplatch_workflow::{AnsweredBy, Timestamp};

    use super::*;

    fn read(choices: &[&str], answer: &str) -> Result<String, InvalidAnswer> {
        let choices: Vec<String> = choices.iter().map(|choice| (*choice).to_owned()).collect();
        let info = GateInfo { choices: choices.clone(), ..GateInfo::default() };
        let step = StepId { run: RunId::random(), place: "gate".to_owned(), visit: 1 };
        let gate = OpenGate {
            step,
            opened_at: Timestamp(0),
            prompt: String::new(),
            choices,
            choices_for_person: Vec::new(),
            form: None,
            answered_by: AnsweredBy::Anyone,
            approvers: std::collections::BTreeMap::new(),
            context: Map::new(),
            expires_at: None,
            on_timeout: None,
        };
        gate.read(&info, &AnswerGate { answer: answer.to_owned(), ..AnswerGate::default() }.into())
    }

    #[test]
    fn rejected_answer_has_the_documented_message() {
        // 003 L674: `Invalid choice 'd'. Must be one of: ['a', 'b', 'c']`
        let error = read(&["a", "b", "c"], "d").unwrap_err().to_string();
        assert_eq!(error, "Invalid choice 'd'. Must be one of: ['a', 'b', 'c']");
        let error = read(&["red", "blue"], "2").unwrap_err().to_string();
        let advice = "Choice 2 is answered with its text: blue";
        assert_eq!(error, format!("Invalid choice '2'. Must be one of: ['red', 'blue']. {advice}"));
        for number in ["0", "3", "-1"] {
            let error = read(&["red", "blue"], number).unwrap_err().to_string();
            assert_eq!(error, format!("Invalid choice '{number}'. Must be one of: ['red', 'blue']"));
        }
        // 003 L1038: `answer is required`
        for choices in [&[][..], &["a"]] {
            assert!(read(choices, " ").unwrap_err().to_string().starts_with("answer is required"));
        }
        assert_eq!(read(&[], "anything").unwrap(), "anything");
    }
}
