//! Line-by-line answer of a person to a gate: a choice or text on one line, the fields of a form one after the other,
//! and the approver's passphrase if the gate requires it.
//!
//! Pure: the lines are parameters, and the texts to show and the answer to send are return values. The caller owns the
//! terminal.

use serde_json::{Map, Value};
use steplatch_protocol::{AnswerGate, AnswerGateReply, GateInfo, Passphrase};
use steplatch_workflow::{Field, Form};

use crate::print::visible;
use crate::question::{REASON_WORD, is_shown_whole, parse_choice};

/// Question with its partial answer.
#[derive(Debug, Clone)]
pub(crate) struct GatePrompt {
    gate: GateInfo,
    form: Option<Form>,
    /// True if the person can see the whole question. Otherwise the prompt accepts no answer.
    is_whole: bool,
    step: Step,
}

#[derive(Debug, Clone)]
enum Step {
    /// The only line of the answer.
    Answer,
    /// The next field of the form, with the values of the fields before it.
    Field { index: usize, filled: Map<String, Value> },
    /// The approver's passphrase, for a complete answer.
    Passphrase(Box<AnswerGate>),
}

impl GatePrompt {
    pub(crate) fn new(gate: GateInfo) -> Self {
        let is_whole = is_shown_whole(&gate);
        Self::from_gate(gate, is_whole)
    }

    /// Creates a prompt for a view that scrolls through the question, and that accepts no answer before the end of the
    /// question was visible.
    pub(crate) fn scrolled(gate: GateInfo) -> Self {
        let is_whole = !gate.shortened;
        Self::from_gate(gate, is_whole)
    }

    fn from_gate(gate: GateInfo, is_whole: bool) -> Self {
        // The answer to an unreadable form is typed as JSON text.
        let form = gate.form.as_ref().and_then(|form| Form::read(form).ok());
        let mut prompt = Self { gate, form, is_whole, step: Step::Answer };
        prompt.begin();
        prompt
    }

    pub(crate) fn gate(&self) -> &GateInfo {
        &self.gate
    }

    /// Returns whether the next line is typed without echo.
    pub(crate) fn is_secret(&self) -> bool {
        match self.step {
            Step::Passphrase(_) => true,
            Step::Field { .. } => self.field().is_some_and(Field::is_secret),
            Step::Answer => false,
        }
    }

    /// Returns whether an empty line leaves the question open, instead of leaving a field empty.
    pub(crate) fn can_skip(&self) -> bool {
        if !self.is_whole {
            return true;
        }
        match (&self.step, self.field()) {
            (Step::Answer | Step::Passphrase(_), _) => true,
            (Step::Field { index, .. }, Some(field)) => {
                *index == 0 && field.is_required() && field.default_in_words().is_none()
            }
            _ => false,
        }
    }

    /// Starts the question from its first line.
    pub(crate) fn begin(&mut self) {
        self.step = match &self.form {
            Some(_) => Step::Field { index: 0, filled: Map::new() },
            None => Step::Answer,
        };
    }

    /// Returns the text before the next prompt: the description of a field, and its choices.
    pub(crate) fn lead(&self) -> Vec<String> {
        if !self.is_whole {
            return Vec::new();
        }
        self.field().map(field_lead).unwrap_or_default()
    }

    /// Returns the index of the field for the next line.
    pub(crate) fn field_index(&self) -> Option<usize> {
        match self.step {
            Step::Field { index, .. } => Some(index),
            _ => None,
        }
    }

    /// Returns the prompt for the next line.
    pub(crate) fn prompt(&self) -> String {
        match (&self.step, self.field()) {
            _ if !self.is_whole => "press Enter to leave it open:".to_owned(),
            (Step::Passphrase(_), _) => "the approver's passphrase:".to_owned(),
            (_, Some(field)) => format!("{}:", field_prompt(field)),
            _ if self.gate.choices.is_empty() => "your answer:".to_owned(),
            _ => "your answer, by number or text:".to_owned(),
        }
    }

    /// Handles the next line. Returns the answer once it is complete.
    ///
    /// # Errors
    /// If the line is invalid, so that the person must type it again.
    pub(crate) fn line(&mut self, line: &str) -> Result<Option<AnswerGate>, String> {
        if !self.is_whole {
            let gate = &self.gate.gate_id;
            return Err(format!(
                "the question is not completely visible here; read it with: steplatch gates show {gate}, then answer it with: \
                 steplatch gates answer {gate} ANSWER"
            ));
        }
        match &mut self.step {
            Step::Answer => {
                let (choice, reason) = match parse_choice(&self.gate, line) {
                    Ok(choice) => (choice, None),
                    // A reason may follow, as in '2 because a test fails'.
                    Err(error) => {
                        let (choice, reason) = line.split_once(REASON_WORD).ok_or(error)?;
                        (parse_choice(&self.gate, choice.trim_end_matches(','))?, Some(reason.to_owned()))
                    }
                };
                let (answer, number) = choice;
                Ok(Some(AnswerGate { answer, number, reason, ..self.empty_answer() }))
            }
            Step::Field { index, filled } => {
                let fields = self.form.as_ref().map(Form::fields).unwrap_or_default();
                let Some(field) = fields.get(*index) else { return Ok(None) };
                let value = field.typed(line).map_err(|problem| format!("'{}' {problem}", visible(field.label())))?;
                filled.insert(field.name().to_owned(), value);
                *index += 1;
                if *index < fields.len() {
                    return Ok(None);
                }
                let form = std::mem::take(filled);
                Ok(Some(AnswerGate { form: Some(form), ..self.empty_answer() }))
            }
            Step::Passphrase(_) if line.is_empty() => Err("the passphrase is empty".to_owned()),
            Step::Passphrase(answer) => {
                let passphrase = Some(Passphrase(line.to_owned()));
                Ok(Some(AnswerGate { passphrase, ..(**answer).clone() }))
            }
        }
    }

    /// Handles the rejection of an answer: the next prompt asks for the passphrase if it is missing or wrong, otherwise
    /// for the whole answer. Returns the message to show; the first request for a passphrase needs none.
    pub(crate) fn handle_rejection(&mut self, answer: AnswerGate, reply: &AnswerGateReply) -> Option<String> {
        let is_first_request = reply.passphrase_wanted && answer.passphrase.is_none();
        if reply.passphrase_wanted {
            self.step = Step::Passphrase(Box::new(AnswerGate { passphrase: None, ..answer }));
        } else {
            self.begin();
        }
        (!is_first_request).then(|| reply.error.clone().unwrap_or_else(|| "the answer was rejected".to_owned()))
    }

    fn field(&self) -> Option<&Field> {
        match (&self.step, &self.form) {
            (Step::Field { index, .. }, Some(form)) => form.fields().get(*index),
            _ => None,
        }
    }

    fn empty_answer(&self) -> AnswerGate {
        let GateInfo { run_id, gate_id, digest, .. } = self.gate.clone();
        AnswerGate { run_id, gate_id: Some(gate_id), digest: Some(digest), ..AnswerGate::default() }
    }
}

/// Returns the prompt for a field, with its constraint.
fn field_prompt(field: &Field) -> String {
    let expected = match field.choices().len() {
        0 => field.constraint(),
        _ => "by number or text".to_owned(),
    };
    let details = match field.default_in_words() {
        Some(default) => format!("{expected}; {} if left empty", visible(&default)),
        None if field.is_required() => expected,
        None => format!("{expected}; may be left empty"),
    };
    format!("{} ({details})", visible(field.label()))
}

/// Returns the description of a field and its choices with their numbers.
fn field_lead(field: &Field) -> Vec<String> {
    let description = field.description().map(visible).into_iter();
    let choices = field.choices().into_iter().enumerate();
    description.chain(choices.map(|(index, choice)| format!("{}  {}", index + 1, visible(&choice)))).collect()
}

/// Returns the prompt and the lead of each field of a gate's form, in order.
pub(crate) fn form_fields(gate: &GateInfo) -> Vec<(String, Vec<String>)> {
    let form = gate.form.as_ref().and_then(|form| Form::read(form).ok());
    let fields = form.as_ref().map(Form::fields).unwrap_or_default();
    fields.iter().map(|field| (field_prompt(field), field_lead(field))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form() -> GatePrompt {
        let form = json!({"properties": {
            "version": {"type": "string", "title": "Version", "description": "as it is tagged", "minLength": 3},
            "place": {"enum": ["eu", "us"]},
            "count": {"type": "integer", "default": 2},
            "note": {"type": "string"},
        }, "required": ["version"]});
        GatePrompt::new(GateInfo {
            run_id: "run_x".to_owned(),
            gate_id: "run_x/ask/1".to_owned(),
            form: Some(form),
            ..GateInfo::default()
        })
    }

    #[test]
    fn form_is_requested_field_by_field() {
        let mut asking = form();
        assert_eq!(asking.lead(), ["as it is tagged"]);
        assert_eq!(asking.prompt(), "Version (a text of at least 3 characters):");
        assert_eq!(asking.line("").unwrap_err(), "'Version' must be filled in");
        assert_eq!(asking.line("1").unwrap_err(), "'Version' must have at least 3 characters, not 1");
        assert!(asking.line("1.2").unwrap().is_none());
        assert_eq!(
            (asking.lead(), asking.prompt()),
            (vec!["1  eu".to_owned(), "2  us".to_owned()], "place (by number or text; may be left empty):".to_owned())
        );
        assert!(asking.line("2").unwrap().is_none());
        assert_eq!(asking.prompt(), "count (a whole number; 2 if left empty):");
        assert!(asking.line("").unwrap().is_none());
        let answer = asking.line("").unwrap().unwrap();
        assert_eq!(
            answer.form.unwrap(),
            *json!({"version": "1.2", "place": "us", "count": 2, "note": null}).as_object().unwrap()
        );
        assert_eq!(answer.gate_id.as_deref(), Some("run_x/ask/1"));
    }

    #[test]
    fn choice_may_have_a_reason() {
        let choices = ["yes", "no", "no because of the tests"].map(str::to_owned).to_vec();
        let mut asking = GatePrompt::new(GateInfo { choices, ..GateInfo::default() });
        for (line, answer, reason) in [
            ("2 because a test fails", "no", Some("a test fails")),
            ("No, because a test fails because of me", "no", Some("a test fails because of me")),
            ("yes", "yes", None),
            ("no because of the tests", "no because of the tests", None),
        ] {
            let given = asking.line(line).unwrap().unwrap();
            assert_eq!((given.answer.as_str(), given.reason.as_deref()), (answer, reason), "{line}");
        }
        assert!(asking.line("maybe because it rains").is_err());
        let mut asking = GatePrompt::new(GateInfo::default());
        assert_eq!(asking.line("late because of rain").unwrap().unwrap().answer, "late because of rain");
    }

    #[test]
    fn passphrase_is_requested_without_repeating_the_answer() {
        let gate = GateInfo { choices: vec!["yes".to_owned(), "no".to_owned()], ..GateInfo::default() };
        let mut asking = GatePrompt::new(gate);
        let answer = asking.line("2").unwrap().unwrap();
        let passphrase_request = AnswerGateReply { passphrase_wanted: true, ..AnswerGateReply::default() };
        assert_eq!(asking.handle_rejection(answer, &passphrase_request), None);
        assert!(asking.is_secret() && asking.prompt() == "the approver's passphrase:");
        assert!(asking.line("").is_err());
        let answer_with_passphrase = asking.line("1").unwrap().unwrap();
        assert_eq!(
            (answer_with_passphrase.answer.as_str(), answer_with_passphrase.passphrase),
            ("no", Some(Passphrase("1".to_owned())))
        );
        let wrong_answer = asking.line("1").unwrap().unwrap();
        assert!(asking.handle_rejection(wrong_answer, &passphrase_request).is_some());
        assert!(asking.is_secret());
        let other_answer = asking.line("1").unwrap().unwrap();
        assert!(asking.handle_rejection(other_answer, &AnswerGateReply::default()).is_some());
        assert_eq!(asking.prompt(), "your answer, by number or text:");
    }
}
