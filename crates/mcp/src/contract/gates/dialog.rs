//! Conversion of a gate to a client's dialog, and of the dialog's result to an answer.

use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, EnumSchema, LegacyEnumSchema,
    PrimitiveSchemaDefinition,
};
use serde_json::{Map, Value, json};
use steplatch_protocol::{AnswerGate, GateInfo, visible};

use super::DialogOutcome;

/// Name of the field for a choice.
const DECISION: &str = "decision";

/// Name of the field for text.
const ANSWER: &str = "answer";

/// Maximum message length, in characters and in lines: clients show a dialog in a small window that people rarely
/// scroll.
const MAX_MESSAGE_CHARS: usize = 4000;
const MAX_MESSAGE_LINES: usize = 60;

/// Reason why a gate cannot be shown as a dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::contract) enum NoDialog {
    /// The form does not fit the schema that MCP clients support.
    Form,
    /// The content is too long for a dialog.
    TooLong,
}

/// Returns a gate as a dialog with its complete content; `problem` is the reason for the last rejection.
///
/// # Errors
/// If the dialog cannot show the complete content.
pub(in crate::contract) fn form(
    gate: &GateInfo,
    problem: Option<&str>,
    supports_titles: bool,
) -> Result<ElicitRequestParams, NoDialog> {
    let schema = match &gate.form {
        Some(form) => visible_form(form)?,
        None if gate.choices.is_empty() => json!({
            "type": "object",
            "properties": {ANSWER: {"type": "string", "title": "Your answer", "minLength": 1}},
            "required": [ANSWER],
        }),
        // No default, so that submitting the form unchanged decides nothing.
        None => json!({
            "type": "object",
            "properties": {DECISION: {"type": "string", "title": "Your decision", "enum": shown_choices(gate)}},
            "required": [DECISION],
        }),
    };
    let mut requested_schema: ElicitationSchema = serde_json::from_value(schema.clone()).map_err(|_| NoDialog::Form)?;
    if !supports_titles {
        for (name, field) in &mut requested_schema.properties {
            if let Some(plain) = legacy_choice(&schema["properties"][name]) {
                *field = plain;
            }
        }
    }
    let message = message(gate, problem);
    // People also read the choices and the titles of fields, so these count towards the length.
    let full_text = format!("{message}\n{schema}");
    if gate.shortened
        || gate.masked
        || full_text.chars().count() > MAX_MESSAGE_CHARS
        || message.lines().count() > MAX_MESSAGE_LINES
    {
        return Err(NoDialog::TooLong);
    }
    Ok(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// Returns a choice with titles in the form for clients before 2025-11-25.
fn legacy_choice(field: &Value) -> Option<PrimitiveSchemaDefinition> {
    let choices = field.get("oneOf")?.as_array()?;
    let strings = |key: &str| choices.iter().filter_map(|choice| Some(choice.get(key)?.as_str()?.to_owned())).collect();
    let mut legacy_schema = LegacyEnumSchema::new(strings("const"));
    let string = |key: &str| field.get(key).and_then(Value::as_str).map(str::to_owned);
    legacy_schema.enum_names = Some(strings("title"));
    legacy_schema.title = string("title").map(Into::into);
    legacy_schema.description = string("description").map(Into::into);
    legacy_schema.default = string("default");
    Some(PrimitiveSchemaDefinition::Enum(EnumSchema::Legacy(legacy_schema)))
}

/// Returns a form whose strings contain nothing that a client would interpret, such as control characters.
///
/// # Errors
/// If the value of a choice differs from the text shown for it.
fn visible_form(form: &Value) -> Result<Value, NoDialog> {
    fn make_visible(name: &str, value: &mut Value) -> Result<(), NoDialog> {
        match value {
            Value::String(text) if ["title", "description", "enumNames"].contains(&name) => *text = visible(text),
            Value::String(text) if visible(text) != *text => return Err(NoDialog::Form),
            Value::Array(items) => items.iter_mut().try_for_each(|item| make_visible(name, item))?,
            Value::Object(fields) => {
                if fields.keys().any(|key| visible(key) != *key) {
                    return Err(NoDialog::Form);
                }
                fields.iter_mut().try_for_each(|(name, value)| make_visible(name, value))?;
            }
            _ => {}
        }
        Ok(())
    }
    let mut visible_form = form.clone();
    make_visible("", &mut visible_form)?;
    Ok(visible_form)
}

/// Returns the choices as shown, each different from the others.
fn shown_choices(gate: &GateInfo) -> Vec<String> {
    let visible_choices: Vec<String> = gate.choices.iter().map(|choice| visible(choice)).collect();
    let numbered = |(index, text): (usize, &String)| match visible_choices.iter().filter(|other| *other == text).count()
    {
        1 => text.clone(),
        // The choices differ only in invisible characters.
        _ => format!("{}: {text}", index + 1),
    };
    visible_choices.iter().enumerate().map(numbered).collect()
}

fn message(gate: &GateInfo, problem: Option<&str>) -> String {
    let mut message = String::new();
    if let Some(problem) = problem {
        message.push_str(&format!("Your answer was not accepted: {}\n\n", visible(problem)));
    }
    message.push_str(&visible_lines(&gate.prompt, ""));
    for (name, text) in gate.context_to_judge() {
        let label = if name == "screen_content" { "The screen in question" } else { name };
        match text.contains('\n') {
            true => message.push_str(&format!("\n\n{}:\n{}", visible(label), visible_lines(&text, "| "))),
            false => message.push_str(&format!("\n\n{}: {}", visible(label), visible(&text))),
        }
    }
    gate.remarks().into_iter().for_each(|remark| message.push_str(&format!("\n\n({remark})")));
    message.push_str(&format!("\n\n(gate {})", gate.gate_id));
    message
}

/// Returns the lines of foreign text without anything that a client would interpret.
fn visible_lines(text: &str, indent: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("{indent}{}", visible(line))).collect();
    lines.join("\n")
}

/// Reads the result of a dialog. Only an accepted dialog with a decision is an answer.
pub(in crate::contract) fn read(gate: &GateInfo, result: ElicitResult) -> DialogOutcome {
    match result.action {
        ElicitationAction::Accept => {}
        ElicitationAction::Decline => {
            return DialogOutcome::LeftOpen("The dialog was declined, and the gate is still open.");
        }
        _ => return DialogOutcome::LeftOpen("The dialog was closed, and the gate is still open."),
    }
    let content = match result.content {
        Some(Value::Object(content)) => content,
        _ => Map::new(),
    };
    let new_answer = || {
        let (run_id, gate_id) = (gate.run_id.clone(), Some(gate.gate_id.clone()));
        AnswerGate { run_id, gate_id, ..AnswerGate::default() }
    };
    if gate.form.is_some() {
        if content.is_empty() {
            return UNDECIDED;
        }
        return DialogOutcome::Answered(Box::new(AnswerGate { form: Some(content), ..new_answer() }));
    }
    let field = if gate.choices.is_empty() { ANSWER } else { DECISION };
    match content.get(field).and_then(Value::as_str).filter(|text| !text.trim().is_empty()) {
        Some(text) => {
            let index = shown_choices(gate).iter().position(|shown| shown == text);
            let answer = index.map_or(text, |index| &gate.choices[index]).to_owned();
            DialogOutcome::Answered(Box::new(AnswerGate {
                answer,
                number: index.map(|index| index + 1),
                ..new_answer()
            }))
        }
        None => UNDECIDED,
    }
}

const UNDECIDED: DialogOutcome =
    DialogOutcome::LeftOpen("The dialog returned without a decision, and the gate is still open.");

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> GateInfo {
        GateInfo {
            run_id: "run_x".to_owned(),
            gate_id: "run_x/ask/1".to_owned(),
            prompt: "Release?".to_owned(),
            choices: vec!["yes".to_owned(), "no".to_owned()],
            ..GateInfo::default()
        }
    }

    fn read_result(gate: &GateInfo, result: Value) -> Result<AnswerGate, &'static str> {
        match read(gate, serde_json::from_value(result).unwrap()) {
            DialogOutcome::Answered(answer) => Ok(*answer),
            DialogOutcome::LeftOpen(reason) => Err(reason),
        }
    }

    #[test]
    fn only_an_accepted_decision_is_an_answer() {
        let answer = read_result(&gate(), json!({"action": "accept", "content": {"decision": "no"}})).unwrap();
        assert_eq!((answer.answer.as_str(), answer.gate_id.as_deref()), ("no", Some("run_x/ask/1")));
        for result in [
            json!({"action": "decline"}),
            json!({"action": "cancel"}),
            json!({"action": "decline", "content": {"decision": "yes"}}),
            json!({"action": "cancel", "content": {"decision": "yes"}}),
            json!({"action": "accept"}),
            json!({"action": "accept", "content": {}}),
            json!({"action": "accept", "content": {"decision": " "}}),
            json!({"action": "accept", "content": {"decision": true}}),
            json!({"action": "accept", "content": {"answer": "yes"}}),
            json!({"action": "accept", "content": "yes"}),
        ] {
            assert!(read_result(&gate(), result.clone()).unwrap_err().contains("still open"), "{result}");
        }
        let form = GateInfo { form: Some(json!({"properties": {}})), choices: Vec::new(), ..gate() };
        assert!(read_result(&form, json!({"action": "accept", "content": {}})).is_err());
        let answer = read_result(&form, json!({"action": "accept", "content": {"count": 3}})).unwrap();
        assert_eq!(answer.form.unwrap()["count"], 3);
    }

    #[test]
    fn dialog_has_the_complete_context_and_no_default() {
        let mut gate = gate();
        let screen: String = (1..=20).map(|line| format!("line {line}\u{1b}[2J\n")).collect();
        gate.context.insert("screen_content".to_owned(), screen.into());
        gate.context.insert("command".to_owned(), "rm -rf /srv/data \u{202e}".into());
        let dialog = serde_json::to_value(form(&gate, Some("'x' is wrong"), true).unwrap()).unwrap();
        let message = dialog["message"].as_str().unwrap();
        assert!(
            message.starts_with(
                "Your answer was not accepted: 'x' is wrong\n\nRelease?\n\nThe screen in question:\n| line 1␛[2J\n| line 2"
            ),
            "{message}"
        );
        assert!(message.ends_with("| line 20␛[2J\n\ncommand: rm -rf /srv/data ·\n\n(gate run_x/ask/1)"), "{message}");
        let decision = &dialog["requestedSchema"]["properties"]["decision"];
        assert_eq!((&decision["enum"], decision.get("default")), (&json!(["yes", "no"]), None));
        assert_eq!(dialog["requestedSchema"]["required"], json!(["decision"]));
    }

    #[test]
    fn long_or_shortened_content_has_no_dialog() {
        let gate_with_plan = |text: String| {
            let mut gate = gate();
            gate.context.insert("plan".to_owned(), text.into());
            gate
        };
        assert!(form(&gate_with_plan("step\n".repeat(40)), None, true).is_ok());
        assert_eq!(form(&gate_with_plan("step\n".repeat(100)), None, true).unwrap_err(), NoDialog::TooLong);
        assert_eq!(form(&gate_with_plan("x".repeat(5000)), None, true).unwrap_err(), NoDialog::TooLong);
        let shortened = GateInfo { shortened: true, ..gate() };
        assert_eq!(form(&shortened, None, true).unwrap_err(), NoDialog::TooLong);
    }

    #[test]
    fn form_has_no_control_or_hidden_characters() {
        let form_with_field = |field: Value| {
            let schema = json!({"type": "object", "properties": {"place": field}});
            form(&GateInfo { form: Some(schema), choices: Vec::new(), ..gate() }, None, true)
        };
        let params =
            form_with_field(json!({"type": "string", "title": "Go\u{1b}[2J", "description": "a\u{202e}b"})).unwrap();
        let field = serde_json::to_value(params).unwrap()["requestedSchema"]["properties"]["place"].clone();
        assert_eq!((&field["title"], &field["description"]), (&json!("Go␛[2J"), &json!("a·b")));
        assert_eq!(
            form_with_field(json!({"type": "string", "enum": ["yes", "yes\u{200b}"]})).unwrap_err(),
            NoDialog::Form
        );
        let long_text = "x".repeat(5000);
        assert_eq!(
            form_with_field(json!({"type": "string", "description": long_text})).unwrap_err(),
            NoDialog::TooLong
        );
        let long_choice = GateInfo { choices: vec!["x".repeat(5000), "no".to_owned()], ..gate() };
        assert_eq!(form(&long_choice, None, true).unwrap_err(), NoDialog::TooLong);
        assert_eq!(form(&GateInfo { masked: true, ..gate() }, None, true).unwrap_err(), NoDialog::TooLong);
    }

    #[test]
    fn identical_looking_choices_are_numbered() {
        let gate = GateInfo { choices: vec!["yes\u{200b}".to_owned(), "yes\u{200c}".to_owned()], ..gate() };
        let dialog = serde_json::to_value(form(&gate, None, true).unwrap()).unwrap();
        assert_eq!(dialog["requestedSchema"]["properties"]["decision"]["enum"], json!(["1: yes·", "2: yes·"]));
        let answer = read_result(&gate, json!({"action": "accept", "content": {"decision": "2: yes·"}})).unwrap();
        assert_eq!(answer.answer, "yes\u{200c}");
    }

    #[test]
    fn titled_choices_depend_on_client_support() {
        let schema = json!({"type": "object", "required": ["place"], "properties": {
            "place": {"type": "string", "title": "Where", "oneOf": [{"const": "eu", "title": "Europe"}], "default": "eu"},
            "count": {"type": "integer", "minimum": 1, "default": 2},
            "share": {"type": "number"},
            "loud": {"type": "boolean", "default": false},
            "mail": {"type": "string", "format": "email", "minLength": 3},
        }});
        let gate = GateInfo { form: Some(schema.clone()), choices: Vec::new(), ..gate() };
        let requested_schema = |supports_titles: bool| {
            serde_json::to_value(form(&gate, None, supports_titles).unwrap()).unwrap()["requestedSchema"].clone()
        };
        assert_eq!(requested_schema(true), schema);
        let property = &requested_schema(false)["properties"]["place"];
        assert_eq!((&property["enum"], &property["enumNames"]), (&json!(["eu"]), &json!(["Europe"])));
        assert_eq!(
            (&property["title"], &property["default"], property.get("oneOf")),
            (&json!("Where"), &json!("eu"), None)
        );
    }
}
