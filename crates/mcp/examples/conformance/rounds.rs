//! The suite's tools that request input from their client.

use rmcp::ErrorData;
use rmcp::model::{GetPromptResult, InputRequest, InputRequests, InputResponses, PromptMessage, Role};
use serde_json::{Value, json};
use steplatch_mcp::offer::{Ask, Call, ClientInput, Outcome, ToolReply};

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

fn ask<T, const N: usize>(questions: [(&str, InputRequest); N], carried: Option<Value>) -> Outcome<T> {
    let questions: InputRequests = questions.into_iter().map(|(name, question)| (name.to_owned(), question)).collect();
    Outcome::Ask(Ask::new(questions, carried))
}

/// Returns the answers, if they are an object.
fn answers(call: &mut Call<'_>) -> Result<InputResponses, ErrorData> {
    match std::mem::take(&mut call.round.came) {
        ClientInput::Answers(answers) => Ok(answers.into_iter().filter(|(_, answer)| answer.is_object()).collect()),
        ClientInput::Nothing => Ok(InputResponses::new()),
        ClientInput::Moot | ClientInput::Late => Err(invalid_params("nobody answered")),
        ClientInput::Unreachable => Err(invalid_params("the client cannot be asked that")),
    }
}

/// Returns the text that a model answered, or the value of a field of a form.
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
    Some(match answers(call) {
        Ok(answers) => asking(&name, call, &answers, jobs),
        Err(error) => Outcome::Refused(error),
    })
}

fn asking(name: &str, call: &mut Call<'_>, answers: &InputResponses, jobs: &Jobs) -> Outcome<ToolReply> {
    let argument = |name: &str| {
        let arguments = call.arguments.as_ref();
        arguments.and_then(|arguments| arguments.get(name)).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let carried = call.round.carried.take();
    let whole = |question: &str| {
        answers.get(question).map(|answer| {
            format!("action={}, content={}", answer["action"].as_str().unwrap_or_default(), answer["content"])
        })
    };
    let text = |name: &str| json!({name: {"type": "string"}});
    match name {
        "test_sampling" => match field(answers, "sampled", "text") {
            Some(text) => text_result(format!("LLM response: {text}")),
            None => ask([("sampled", sampling(&argument("prompt"), 100))], Some(json!(name))),
        },
        "test_elicitation" => match whole("user") {
            Some(answer) => text_result(format!("User response: {answer}")),
            None => {
                let fields = json!({
                    "username": {"type": "string", "description": "User's response"},
                    "email": {"type": "string", "description": "User's email address"},
                });
                ask([("user", form(&argument("message"), fields))], Some(json!(name)))
            }
        },
        "test_elicitation_sep1034_defaults" | "test_elicitation_sep1330_enums" => match whole("values") {
            Some(answer) => text_result(format!("Elicitation completed: {answer}")),
            None => {
                let fields = if name.ends_with("defaults") { with_defaults() } else { with_choices() };
                ask([("values", optional_form("Please fill in", fields))], Some(json!(name)))
            }
        },
        "test_streaming_elicitation" | "test_input_required_result_elicitation" => {
            match field(answers, "user_name", "name") {
                Some(name) => text_result(format!("Hello, {name}!")),
                // The answer alone is enough to continue, so no state is carried and answers from any client are
                // accepted.
                None => ask([("user_name", form("What is your name?", text("name")))], None),
            }
        }
        "test_input_required_result_sampling" => match field(answers, "capital_question", "text") {
            Some(text) => text_result(text),
            None => ask([("capital_question", sampling("What is the capital of France?", 100))], None),
        },
        "test_input_required_result_list_roots" => match answers.get("client_roots") {
            Some(answer) => text_result(format!("The client has {}", answer["roots"])),
            None => ask([("client_roots", roots())], None),
        },
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            match (carried.as_ref().and_then(Value::as_str), field(answers, "confirm", "ok")) {
                (Some("begun"), Some(_)) => text_result("state-ok"),
                _ => {
                    let fields = json!({"ok": {"type": "boolean"}});
                    ask([("confirm", form("Please confirm", fields))], Some(json!("begun")))
                }
            }
        }
        "test_input_required_result_multiple_inputs" => {
            let greeting = field(answers, "greeting", "text");
            match (field(answers, "user_name", "name"), greeting, answers.get("client_roots")) {
                (Some(name), Some(greeting), Some(roots)) if carried.is_some() => {
                    text_result(format!("{greeting}, {name}, with {}", roots["roots"]))
                }
                _ => ask(
                    [
                        ("user_name", form("What is your name?", text("name"))),
                        ("greeting", sampling("Generate a greeting", 50)),
                        ("client_roots", roots()),
                    ],
                    Some(json!("all at once")),
                ),
            }
        }
        "test_input_required_result_multi_round" => {
            let first = || ask([("step1", form("Step 1: What is your name?", text("name")))], Some(json!({})));
            match carried.as_ref().and_then(|carried| carried.get("name")).and_then(Value::as_str) {
                None => match field(answers, "step1", "name").filter(|_| carried.is_some()) {
                    Some(name) => second(&name),
                    None => first(),
                },
                Some(name) => match field(answers, "step2", "color") {
                    Some(color) => text_result(format!("{name} likes {color}")),
                    None => second(name),
                },
            }
        }
        "test_input_required_result_capabilities" => {
            let asked = [
                ("user_name", form("What is your name?", text("name"))),
                ("greeting", sampling("Generate a greeting", 50)),
                ("client_roots", roots()),
            ];
            let asked: InputRequests = asked
                .into_iter()
                .filter(|(_, question)| call.asker.takes(question))
                .map(|(name, question)| (name.to_owned(), question))
                .collect();
            match asked.is_empty() || !answers.is_empty() {
                true => text_result("Nothing is left to be asked."),
                false => Outcome::Ask(Ask::new(asked, None)),
            }
        }
        "test_tool_with_task" => match field(answers, "user_name", "name") {
            Some(name) => jobs.greet(&name, call),
            None => ask([("user_name", form("What is your name?", text("name")))], Some(json!(name))),
        },
        _ => Outcome::Unknown,
    }
}

fn second(name: &str) -> Outcome<ToolReply> {
    let color = form("Step 2: What is your favorite color?", json!({"color": {"type": "string"}}));
    ask([("step2", color)], Some(json!({"name": name})))
}

fn with_defaults() -> Value {
    json!({
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    })
}

fn with_choices() -> Value {
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

/// Writes the prompt that requests input.
pub(crate) fn prompt(call: &mut Call<'_>) -> Outcome<GetPromptResult> {
    match answers(call) {
        Err(error) => Outcome::Refused(error),
        Ok(answers) => match field(&answers, "user_context", "context") {
            Some(context) => {
                let text = format!("Consider this: {context}");
                Outcome::Done(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]))
            }
            None => {
                let fields = json!({"context": {"type": "string"}});
                ask([("user_context", form("What context should the prompt use?", fields))], None)
            }
        },
    }
}
