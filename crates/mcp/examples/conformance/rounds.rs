//! The suite's tools that request input from their client.

use rmcp::ErrorData;
use rmcp::model::{GetPromptResult, InputRequest, InputRequests, InputResponses, PromptMessage, Role};
use serde_json::{Value, json};
use steplatch_mcp::offer::{Call, ClientInput, ClientQuestions, Outcome, ToolReply};

use crate::fixture::{invalid_params, text_result};
use crate::jobs::Jobs;

/// The prompt that requests input.
pub(crate) const PROMPT: &str = "test_input_required_result_prompt";

/// The tools that take no arguments.
pub(crate) const TOOLS: [&str; 12] = [
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_streaming_elicitation",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
    "test_tool_with_task",
];

fn question(method: &str, params: Value) -> InputRequest {
    serde_json::from_value(json!({"method": method, "params": params})).expect("the fixture's questions are valid")
}

pub(crate) fn form(message: &str, properties: Value) -> InputRequest {
    let required: Vec<&String> = properties.as_object().into_iter().flat_map(|fields| fields.keys()).collect();
    let schema = json!({"type": "object", "properties": properties, "required": required});
    question("elicitation/create", json!({"message": message, "requestedSchema": schema}))
}

fn optional_form(message: &str, properties: Value) -> InputRequest {
    let schema = json!({"type": "object", "properties": properties});
    question("elicitation/create", json!({"message": message, "requestedSchema": schema}))
}

fn sampling(text: &str, tokens: u32) -> InputRequest {
    let messages = json!([{"role": "user", "content": {"type": "text", "text": text}}]);
    question("sampling/createMessage", json!({"messages": messages, "maxTokens": tokens}))
}

fn roots() -> InputRequest {
    serde_json::from_value(json!({"method": "roots/list"})).expect("the fixture's questions are valid")
}

fn request_input<T, const N: usize>(questions: [(&str, InputRequest); N], carried_state: Option<Value>) -> Outcome<T> {
    let questions: InputRequests = questions.into_iter().map(|(name, question)| (name.to_owned(), question)).collect();
    Outcome::InputRequired(ClientQuestions::new(questions, carried_state))
}

/// Returns the answers that are objects.
fn take_answers(call: &mut Call<'_>) -> Result<InputResponses, ErrorData> {
    match std::mem::take(&mut call.round.input) {
        ClientInput::Answers(answers) => Ok(answers.into_iter().filter(|(_, answer)| answer.is_object()).collect()),
        ClientInput::Nothing => Ok(InputResponses::new()),
        ClientInput::NoLongerNeeded | ClientInput::TimedOut => Err(invalid_params("the question was not answered")),
        ClientInput::Unreachable => Err(invalid_params("the client does not support the question")),
    }
}

/// Returns a field of the answer to `question`: a model's text, or the value of a form field.
fn field(answers: &InputResponses, question: &str, name: &str) -> Option<String> {
    let content = answers.get(question)?.get("content")?;
    let field = content.get(name)?;
    Some(field.as_str().map_or_else(|| field.to_string(), str::to_owned))
}

/// Calls a tool that requests input; `None` if the call is for another tool.
pub(crate) fn call(call: &mut Call<'_>, jobs: &Jobs) -> Option<Outcome<ToolReply>> {
    let name = call.name.clone();
    if !TOOLS.contains(&name.as_str()) && !["test_sampling", "test_elicitation"].contains(&name.as_str()) {
        return None;
    }
    Some(match take_answers(call) {
        Ok(answers) => call_with_answers(&name, call, &answers, jobs),
        Err(error) => Outcome::Refused(error),
    })
}

fn call_with_answers(name: &str, call: &mut Call<'_>, answers: &InputResponses, jobs: &Jobs) -> Outcome<ToolReply> {
    let argument = |name: &str| {
        let arguments = call.arguments.as_ref();
        arguments.and_then(|arguments| arguments.get(name)).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let carried_state = call.round.carried_state.take();
    let action_and_content = |question: &str| {
        answers.get(question).map(|answer| {
            format!("action={}, content={}", answer["action"].as_str().unwrap_or_default(), answer["content"])
        })
    };
    let text_field = |name: &str| json!({name: {"type": "string"}});
    match name {
        "test_sampling" => match field(answers, "sampled", "text") {
            Some(text) => text_result(format!("LLM response: {text}")),
            None => request_input([("sampled", sampling(&argument("prompt"), 100))], Some(json!(name))),
        },
        "test_elicitation" => match action_and_content("user") {
            Some(answer) => text_result(format!("User response: {answer}")),
            None => {
                let fields = json!({
                    "username": {"type": "string", "description": "User's response"},
                    "email": {"type": "string", "description": "User's email address"},
                });
                request_input([("user", form(&argument("message"), fields))], Some(json!(name)))
            }
        },
        "test_elicitation_sep1034_defaults" | "test_elicitation_sep1330_enums" => match action_and_content("values") {
            Some(answer) => text_result(format!("Elicitation completed: {answer}")),
            None => {
                let fields = if name.ends_with("defaults") { fields_with_defaults() } else { fields_with_choices() };
                request_input([("values", optional_form("Please fill in", fields))], Some(json!(name)))
            }
        },
        "test_streaming_elicitation" | "test_input_required_result_elicitation" => {
            match field(answers, "user_name", "name") {
                Some(name) => text_result(format!("Hello, {name}!")),
                // The answer alone is enough to continue, so no state is carried and answers from any client are
                // accepted.
                None => request_input([("user_name", form("What is your name?", text_field("name")))], None),
            }
        }
        "test_input_required_result_sampling" => match field(answers, "capital_question", "text") {
            Some(text) => text_result(text),
            None => request_input([("capital_question", sampling("What is the capital of France?", 100))], None),
        },
        "test_input_required_result_list_roots" => match answers.get("client_roots") {
            Some(answer) => text_result(format!("The client has {}", answer["roots"])),
            None => request_input([("client_roots", roots())], None),
        },
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            match (carried_state.as_ref().and_then(Value::as_str), field(answers, "confirm", "ok")) {
                (Some("begun"), Some(_)) => text_result("state-ok"),
                _ => {
                    let fields = json!({"ok": {"type": "boolean"}});
                    request_input([("confirm", form("Please confirm", fields))], Some(json!("begun")))
                }
            }
        }
        "test_input_required_result_multiple_inputs" => {
            let greeting = field(answers, "greeting", "text");
            match (field(answers, "user_name", "name"), greeting, answers.get("client_roots")) {
                (Some(name), Some(greeting), Some(roots)) if carried_state.is_some() => {
                    text_result(format!("{greeting}, {name}, with {}", roots["roots"]))
                }
                _ => request_input(
                    [
                        ("user_name", form("What is your name?", text_field("name"))),
                        ("greeting", sampling("Generate a greeting", 50)),
                        ("client_roots", roots()),
                    ],
                    Some(json!("all at once")),
                ),
            }
        }
        "test_input_required_result_multi_round" => {
            let first_round =
                || request_input([("step1", form("Step 1: What is your name?", text_field("name")))], Some(json!({})));
            match carried_state.as_ref().and_then(|carried_state| carried_state.get("name")).and_then(Value::as_str) {
                None => match field(answers, "step1", "name").filter(|_| carried_state.is_some()) {
                    Some(name) => second_round(&name),
                    None => first_round(),
                },
                Some(name) => match field(answers, "step2", "color") {
                    Some(color) => text_result(format!("{name} likes {color}")),
                    None => second_round(name),
                },
            }
        }
        "test_input_required_result_capabilities" => {
            let questions = [
                ("user_name", form("What is your name?", text_field("name"))),
                ("greeting", sampling("Generate a greeting", 50)),
                ("client_roots", roots()),
            ];
            let questions: InputRequests = questions
                .into_iter()
                .filter(|(_, question)| call.client.supports(question))
                .map(|(name, question)| (name.to_owned(), question))
                .collect();
            match questions.is_empty() || !answers.is_empty() {
                true => text_result("No question is left."),
                false => Outcome::InputRequired(ClientQuestions::new(questions, None)),
            }
        }
        "test_tool_with_task" => match field(answers, "user_name", "name") {
            Some(name) => jobs.greet(&name, call),
            None => request_input([("user_name", form("What is your name?", text_field("name")))], Some(json!(name))),
        },
        _ => Outcome::Unknown,
    }
}

fn second_round(name: &str) -> Outcome<ToolReply> {
    let color = form("Step 2: What is your favorite color?", json!({"color": {"type": "string"}}));
    request_input([("step2", color)], Some(json!({"name": name})))
}

fn fields_with_defaults() -> Value {
    json!({
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    })
}

fn fields_with_choices() -> Value {
    let titled = |kind: &str| {
        let value =
            |number: usize, title: &str| json!({"const": format!("value{number}"), "title": format!("{title} {kind}")});
        json!([value(1, "First"), value(2, "Second"), value(3, "Third")])
    };
    let options = json!(["option1", "option2", "option3"]);
    json!({
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    })
}

/// Expands the prompt that requests input.
pub(crate) fn prompt(call: &mut Call<'_>) -> Outcome<GetPromptResult> {
    match take_answers(call) {
        Err(error) => Outcome::Refused(error),
        Ok(answers) => match field(&answers, "user_context", "context") {
            Some(context) => {
                let text = format!("Consider this: {context}");
                Outcome::Done(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]))
            }
            None => {
                let fields = json!({"context": {"type": "string"}});
                request_input([("user_context", form("What context should the prompt use?", fields))], None)
            }
        },
    }
}
