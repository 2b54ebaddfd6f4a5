//! A gate as a dialog of a client, and what comes back as an answer.

use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, EnumSchema, LegacyEnumSchema,
    PrimitiveSchemaDefinition,
};
use serde_json::{Map, Value, json};
use steplatch_protocol::{AnswerGate, GateInfo};

use super::Dialog;

/// The field of a choice.
const DECISION: &str = "decision";

/// The field of a text.
const ANSWER: &str = "answer";

/// Lines that are shown of the screen that there is to judge.
const SCREEN_LINES: usize = 12;

/// Returns a gate as a dialog; `wrong` is why the last answer was not taken. `None` for a form that no client knows.
pub(in crate::contract) fn form(
    gate: &GateInfo,
    wrong: Option<&str>,
    knows_titles: bool,
) -> Option<ElicitRequestParams> {
    let schema = match &gate.form {
        Some(form) => form.clone(),
        None if gate.choices.is_empty() => json!({
            "type": "object",
            "properties": {ANSWER: {"type": "string", "title": "Your answer", "minLength": 1}},
            "required": [ANSWER],
        }),
        // Without a default: nobody decides by not deciding.
        None => json!({
            "type": "object",
            "properties": {DECISION: {"type": "string", "title": "Your decision", "enum": gate.choices}},
            "required": [DECISION],
        }),
    };
    let mut requested_schema: ElicitationSchema = serde_json::from_value(schema.clone()).ok()?;
    if !knows_titles {
        for (name, field) in &mut requested_schema.properties {
            if let Some(plain) = untitled(&schema["properties"][name]) {
                *field = plain;
            }
        }
    }
    Some(ElicitRequestParams::FormElicitationParams { meta: None, message: message(gate, wrong), requested_schema })
}

/// A choice with titles as clients before 2025-11-25 know it.
fn untitled(field: &Value) -> Option<PrimitiveSchemaDefinition> {
    let offered = field.get("oneOf")?.as_array()?;
    let texts = |key: &str| offered.iter().filter_map(|one| Some(one.get(key)?.as_str()?.to_owned())).collect();
    let mut plain = LegacyEnumSchema::new(texts("const"));
    let text = |key: &str| field.get(key).and_then(Value::as_str).map(str::to_owned);
    plain.enum_names = Some(texts("title"));
    plain.title = text("title").map(Into::into);
    plain.description = text("description").map(Into::into);
    plain.default = text("default");
    Some(PrimitiveSchemaDefinition::Enum(EnumSchema::Legacy(plain)))
}

fn message(gate: &GateInfo, wrong: Option<&str>) -> String {
    let mut message = String::new();
    if let Some(wrong) = wrong {
        message.push_str(&format!("That was not taken: {wrong}\n\n"));
    }
    message.push_str(&gate.prompt);
    let screen = gate.context.get("screen_content").and_then(Value::as_str).unwrap_or_default().trim_end();
    let lines: Vec<&str> = screen.lines().collect();
    if !lines.is_empty() {
        message.push_str("\n\nThe screen it is about:");
        for line in &lines[lines.len().saturating_sub(SCREEN_LINES)..] {
            message.push_str("\n| ");
            // Foreign text: what would move a cursor is left out.
            message.extend(line.chars().filter(|character| !character.is_control()));
        }
    }
    message.push_str(&format!("\n\n(run {})", gate.run_id));
    message
}

/// Reads what came back. Only what was accepted with a decision in it is an answer.
pub(in crate::contract) fn read(gate: &GateInfo, result: ElicitResult) -> Dialog {
    match result.action {
        ElicitationAction::Accept => {}
        ElicitationAction::Decline => return Dialog::LeftOpen("The dialog was declined, and the gate is still open."),
        _ => return Dialog::LeftOpen("The dialog was closed, and the gate is still open."),
    }
    let content = match result.content {
        Some(Value::Object(content)) => content,
        _ => Map::new(),
    };
    let named = || {
        let (run_id, gate_id) = (gate.run_id.clone(), Some(gate.gate_id.clone()));
        AnswerGate { run_id, gate_id, ..AnswerGate::default() }
    };
    if gate.form.is_some() {
        if content.is_empty() {
            return UNDECIDED;
        }
        return Dialog::Answered(AnswerGate { form: Some(content), ..named() });
    }
    let field = if gate.choices.is_empty() { ANSWER } else { DECISION };
    match content.get(field).and_then(Value::as_str).filter(|text| !text.trim().is_empty()) {
        Some(text) => Dialog::Answered(AnswerGate { answer: text.to_owned(), ..named() }),
        None => UNDECIDED,
    }
}

const UNDECIDED: Dialog = Dialog::LeftOpen("The dialog came back without a decision, and the gate is still open.");

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

    fn came_back(gate: &GateInfo, result: Value) -> Result<AnswerGate, &'static str> {
        match read(gate, serde_json::from_value(result).unwrap()) {
            Dialog::Answered(answer) => Ok(answer),
            Dialog::LeftOpen(why) => Err(why),
        }
    }

    #[test]
    fn only_an_accepted_decision_is_an_answer() {
        let answer = came_back(&gate(), json!({"action": "accept", "content": {"decision": "no"}})).unwrap();
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
            assert!(came_back(&gate(), result.clone()).unwrap_err().contains("still open"), "{result}");
        }
        let form = GateInfo { form: Some(json!({"properties": {}})), choices: Vec::new(), ..gate() };
        assert!(came_back(&form, json!({"action": "accept", "content": {}})).is_err());
        let answer = came_back(&form, json!({"action": "accept", "content": {"count": 3}})).unwrap();
        assert_eq!(answer.form.unwrap()["count"], 3);
    }

    #[test]
    fn a_dialog_says_what_it_is_about_and_has_nothing_chosen_before() {
        let mut gate = gate();
        let screen: String = (1..=20).map(|line| format!("line {line}\u{1b}[2J\n")).collect();
        gate.context.insert("screen_content".to_owned(), screen.into());
        let shown = serde_json::to_value(form(&gate, Some("'x' is wrong"), true).unwrap()).unwrap();
        let message = shown["message"].as_str().unwrap();
        assert!(
            message.starts_with("That was not taken: 'x' is wrong\n\nRelease?\n\nThe screen it is about:\n| line 9[")
        );
        assert!(message.ends_with("| line 20[2J\n\n(run run_x)") && !message.contains('\u{1b}'), "{message}");
        let decision = &shown["requestedSchema"]["properties"]["decision"];
        assert_eq!((&decision["enum"], decision.get("default")), (&json!(["yes", "no"]), None));
        assert_eq!(shown["requestedSchema"]["required"], json!(["decision"]));
    }

    #[test]
    fn a_form_is_shown_as_each_client_knows_it() {
        let schema = json!({"type": "object", "required": ["place"], "properties": {
            "place": {"type": "string", "title": "Where", "oneOf": [{"const": "eu", "title": "Europe"}], "default": "eu"},
            "count": {"type": "integer", "minimum": 1, "default": 2},
            "share": {"type": "number"},
            "loud": {"type": "boolean", "default": false},
            "mail": {"type": "string", "format": "email", "minLength": 3},
        }});
        let gate = GateInfo { form: Some(schema.clone()), choices: Vec::new(), ..gate() };
        let shown =
            |titles: bool| serde_json::to_value(form(&gate, None, titles).unwrap()).unwrap()["requestedSchema"].clone();
        assert_eq!(shown(true), schema);
        let place = &shown(false)["properties"]["place"];
        assert_eq!((&place["enum"], &place["enumNames"]), (&json!(["eu"]), &json!(["Europe"])));
        assert_eq!((&place["title"], &place["default"], place.get("oneOf")), (&json!("Where"), &json!("eu"), None));
    }
}
