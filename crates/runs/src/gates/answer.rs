//! Answers to gates: their form, and what a gate accepts.

use serde_json::{Map, Value};
use steplatch_access::{Caller, PassphraseError};
use steplatch_protocol::{AnswerGate, Decide, GateInfo, Passphrase};
use steplatch_workflow::{By, Field, Form, Proof};

use super::open_gate::OpenGate;

/// An answer to a gate, as it was sent.
#[derive(Debug)]
pub struct GateAnswer {
    pub(super) run_id: String,
    pub(super) gate_id: Option<String>,
    answer: String,
    number: Option<usize>,
    form: Option<Map<String, Value>>,
    pub(super) passphrase: Option<Passphrase>,
    /// The digest of the gate that was shown.
    pub(super) digest: Option<String>,
    /// Whether it was sent as an agent's decision, which never answers a gate for people.
    pub(super) decides: bool,
}

impl From<AnswerGate> for GateAnswer {
    fn from(verb: AnswerGate) -> Self {
        let AnswerGate { run_id, gate_id, answer, number, form, passphrase, digest } = verb;
        Self { run_id, gate_id, answer, number, form, passphrase, digest, decides: false }
    }
}

impl From<Decide> for GateAnswer {
    fn from(verb: Decide) -> Self {
        let Decide { run_id, gate_id, answer, form } = verb;
        Self { run_id, gate_id, answer, number: None, form, passphrase: None, digest: None, decides: true }
    }
}

impl GateAnswer {
    /// Returns the author of the answer, the surface that was used, and the proof.
    pub(super) async fn by(&self, caller: &Caller, proof: Option<Proof>) -> By {
        let mut through = caller.through().await;
        if self.decides {
            through.push_str(" decide");
        }
        By { who: caller.who().await, through: Some(through), proof, shown: self.digest.clone() }
    }
}

/// An answer that passed every check.
pub(super) struct VerifiedAnswer {
    /// The choice, the text, or the JSON of the form.
    pub(super) choice: String,
    pub(super) by: By,
}

impl OpenGate {
    /// Reads an answer to this gate, of which `info` is shown: a choice, the JSON of a form with all of its fields, or
    /// a text.
    ///
    /// # Errors
    ///
    /// With a whole sentence, when the gate does not accept it.
    pub(super) fn read(&self, info: &GateInfo, given: &GateAnswer) -> Result<String, String> {
        if let Some(form) = &self.form {
            let form =
                Form::read(form).map_err(|problems| format!("The form can not be read: {}", problems.join("; ")))?;
            let typed = || match serde_json::from_str(&given.answer) {
                Ok(Value::Object(fields)) => Ok(fields),
                _ => {
                    let names: Vec<&str> = form.fields().iter().map(Field::name).collect();
                    Err(format!(
                        "The gate asks for a form, answered as an object with its fields: {}",
                        names.join(", ")
                    ))
                }
            };
            let fields = given.form.clone().map_or_else(typed, Ok)?;
            let filled = form.fill(&fields);
            return match filled {
                Ok(filled) => Ok(Value::Object(filled).to_string()),
                Err(wrong) => Err(format!("The form is not filled in well: {}", wrong.join("; "))),
            };
        }
        if given.form.is_some() {
            return Err("The gate has no form; answer it with a text or one of its choices".to_owned());
        }
        // A choice may hold a secret; its masked form is accepted as the answer.
        let all = || self.choices.iter().zip(&info.choices);
        let is_meant = |(choice, shown): &(&String, &String)| **choice == given.answer || **shown == given.answer;
        if let Some(number) = given.number {
            let chosen = number.checked_sub(1).and_then(|at| all().nth(at));
            return match chosen.filter(|chosen| given.answer.is_empty() || is_meant(chosen)) {
                Some((choice, _)) => Ok(choice.clone()),
                None => Err(format!("Choice {number} is not what was answered; choices are {}", listed(&info.choices))),
            };
        }
        let exactly = all().find(|(choice, _)| **choice == given.answer);
        let mut meant = all().filter(is_meant);
        match exactly.or_else(|| meant.next()) {
            Some(_) if exactly.is_none() && meant.next().is_some() => Err(
                "Several choices are shown like that, because parts of them are hidden as secrets; answer by number"
                    .to_owned(),
            ),
            Some((choice, _)) => Ok(choice.clone()),
            None if given.answer.trim().is_empty() => Err(match self.choices.is_empty() {
                true => "answer is required; the gate takes any text".to_owned(),
                false => format!("answer is required; it must be one of: {}", listed(&info.choices)),
            }),
            None if self.choices.is_empty() => Ok(given.answer.clone()),
            None => {
                let answer: String = given.answer.chars().take(200).collect();
                Err(format!("Invalid choice '{answer}'. Must be one of: {}", listed(&info.choices)))
            }
        }
    }
}

/// Formats texts as Python does a list of them.
fn listed(texts: &[String]) -> String {
    let quoted = |text: &String| {
        let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
        let mut quoted = String::from(quote);
        for character in text.chars() {
            match character {
                '\n' => quoted.push_str("\\n"),
                '\r' => quoted.push_str("\\r"),
                '\t' => quoted.push_str("\\t"),
                '\\' => quoted.push_str("\\\\"),
                _ if character == quote => quoted.extend(['\\', quote]),
                _ => quoted.push(character),
            }
        }
        quoted.push(quote);
        quoted
    };
    format!("[{}]", texts.iter().map(quoted).collect::<Vec<_>>().join(", "))
}

/// Why an answer is rejected.
#[derive(Debug, thiserror::Error)]
pub(super) enum AnswerError {
    #[error("{0}")]
    Refused(String),
    /// The gate does not accept it.
    #[error("{0}")]
    Misread(String),
    #[error(transparent)]
    NotApproved(PassphraseError),
}

#[cfg(test)]
mod tests {
    use steplatch_ids::{RunId, StepId};
    use steplatch_workflow::{AnsweredBy, Timestamp};

    use super::*;

    fn read(choices: &[&str], answer: &str) -> Result<String, String> {
        let choices: Vec<String> = choices.iter().map(|choice| (*choice).to_owned()).collect();
        let info = GateInfo { choices: choices.clone(), ..GateInfo::default() };
        let step = StepId { run: RunId::random(), place: "gate".to_owned(), visit: 1 };
        let gate = OpenGate {
            step,
            opened_at: Timestamp(0),
            prompt: String::new(),
            choices,
            form: None,
            answered_by: AnsweredBy::Anyone,
            context: Map::new(),
            expires_at: None,
        };
        gate.read(&info, &AnswerGate { answer: answer.to_owned(), ..AnswerGate::default() }.into())
    }

    #[test]
    fn an_answer_that_is_not_taken_is_refused_in_the_words_of_the_document() {
        // 003 L674: `Invalid choice 'd'. Must be one of: ['a', 'b', 'c']`
        let refused = read(&["a", "b", "c"], "d").unwrap_err();
        assert_eq!(refused, "Invalid choice 'd'. Must be one of: ['a', 'b', 'c']");
        // 003 L1038: `answer is required`
        for choices in [&[][..], &["a"]] {
            assert!(read(choices, " ").unwrap_err().starts_with("answer is required"));
        }
        assert_eq!(read(&[], "anything").unwrap(), "anything");
    }

    #[test]
    fn choices_are_listed_as_python_lists_them() {
        let choices = ["it's", "say \"so\"", "both ' and \"", "a\\b\nc"].map(str::to_owned);
        assert_eq!(listed(&choices), r#"["it's", 'say "so"', 'both \' and "', 'a\\b\nc']"#);
        assert_eq!(listed(&[]), "[]");
    }
}
