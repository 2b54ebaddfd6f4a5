//! Answers to gates that the journal does not record: the fields of a form whose format is `password`.
//!
//! The daemon hides such a value in all output, and the journal has a mask in its place. Only the daemon's own
//! questions receive the value, from memory.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use steplatch_access::MASK;
use steplatch_ids::RunId;
use steplatch_workflow::{Field, Form};

/// The values of secret fields, for the runs with an [`AnswerTaker`].
#[derive(Debug, Default)]
pub(crate) struct SecretAnswers {
    /// Secret fields by run. A run has an entry if it has an [`AnswerTaker`].
    pub(crate) values: Mutex<HashMap<RunId, Map<String, Value>>>,
}

impl SecretAnswers {
    /// Separates the secret fields from the answer to a form. Returns the answer for the journal, and the secret texts.
    pub(crate) fn conceal(&self, run: &RunId, form: &Value, answer: String) -> (String, Vec<String>) {
        let Ok(form) = Form::read(form) else { return (answer, Vec::new()) };
        let names: Vec<&str> = form.fields().iter().filter(|field| field.is_secret()).map(Field::name).collect();
        let Some(Value::Object(mut fields)) = serde_json::from_str(&answer).ok().filter(|_| !names.is_empty()) else {
            return (answer, Vec::new());
        };
        let mut texts = Vec::new();
        let mut values = self.values.lock();
        for name in names {
            let Some(value) = fields.get_mut(name) else { continue };
            let Value::String(text) = std::mem::replace(value, MASK.into()) else { continue };
            if let Some(values) = values.get_mut(run) {
                values.insert(name.to_owned(), text.as_str().into());
            }
            texts.push(text);
        }
        (Value::Object(fields).to_string(), texts)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn journal_masks_answers_to_secret_fields() {
        let answers = SecretAnswers::default();
        let form =
            json!({"properties": {"name": {"type": "string"}, "code": {"type": "string", "format": "password"}}});
        let run = RunId::random();
        let answer_text = || json!({"name": "ana", "code": "42 43"}).to_string();
        let (stored, texts) = answers.conceal(&run, &form, answer_text());
        assert_eq!((stored, texts), (json!({"name": "ana", "code": MASK}).to_string(), vec!["42 43".to_owned()]));
        assert!(answers.values.lock().is_empty(), "no question of the daemon receives the value");
        answers.values.lock().insert(run.clone(), Map::new());
        answers.conceal(&run, &form, answer_text());
        assert_eq!(Value::from(answers.values.lock()[&run].clone()), json!({"code": "42 43"}));
        let plain = json!({"properties": {"name": {"type": "string"}}});
        assert_eq!(answers.conceal(&run, &plain, answer_text()), (answer_text(), Vec::new()));
    }
}
