//! Documentation for authors: the schema and the page.

use expect_test::expect;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use steplatch_pattern::Pattern;
use steplatch_workflow::{Definition, Problem, ToolCatalog, documentation, schema};

use crate::generated::machines;
use crate::machine::Tools;

/// A catalog with one tool that has a schema, and without gates for conditions.
struct Described;

impl ToolCatalog for Described {
    fn tools(&self) -> Vec<String> {
        vec!["send_input".to_owned()]
    }

    fn check(&self, _: &str, _: &Map<String, Value>) -> Vec<Problem> {
        Vec::new()
    }

    fn schema(&self, _: &str) -> Option<Value> {
        Some(json!({
            "type": "object",
            "description": "Type into a terminal",
            "properties": {
                "session_id": {"type": "string", "description": "Terminal to type into"},
                "input_text": {"type": "string", "description": "What to type: a | b"},
                "wait_for_quiet_ms": {"type": "integer", "minimum": 0, "default": 10, "description": "Quiet to wait for"}
            },
            "required": ["session_id", "input_text"]
        }))
    }

    fn takes_session(&self, _: &str) -> bool {
        true
    }
}

/// Returns the places of a value that violate a schema. Supports the keywords in our schema, and panics at any other.
fn first_misfit(root: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    let words = match schema {
        Value::Bool(true) => return None,
        Value::Object(words) => words,
        _ => return Some(at.to_owned()),
    };
    let fits = |schema: &Value| first_misfit(root, schema, value, at).is_none();
    let number = |word: &Value| word.as_f64().expect("the keyword has a number");
    let count = |word: &Value| number(word) as usize;
    let object = value.as_object();
    let text = value.as_str();
    for (word, expected) in words {
        let holds = match word.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" | "format" => true,
            "$ref" => {
                let pointer = expected.as_str().expect("the keyword has a reference").trim_start_matches('#');
                let inner = first_misfit(root, root.pointer(pointer).expect("the reference resolves"), value, at);
                if inner.is_some() {
                    return inner;
                }
                true
            }
            "type" => {
                let is = |kind: &Value| match kind.as_str().expect("the keyword has a type") {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "null" => value.is_null(),
                    "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
                    "number" => value.is_number(),
                    other => panic!("no type {other}"),
                };
                expected.as_array().map_or_else(|| is(expected), |kinds| kinds.iter().any(is))
            }
            "const" => value == expected,
            "enum" => expected.as_array().expect("the value is a list").contains(value),
            "anyOf" => expected.as_array().expect("the value is a list").iter().any(fits),
            "oneOf" => {
                expected.as_array().expect("the value is a list").iter().filter(|schema| fits(schema)).count() == 1
            }
            "pattern" => text.is_none_or(|text| {
                Pattern::new(expected.as_str().expect("the keyword has a pattern"))
                    .expect("the keyword has a pattern")
                    .is_match(text)
                    .expect("the search stays within its work limit")
            }),
            "minLength" => text.is_none_or(|text| text.chars().count() >= count(expected)),
            "maxLength" => text.is_none_or(|text| text.chars().count() <= count(expected)),
            "minimum" => value.as_f64().is_none_or(|value| value >= number(expected)),
            "maximum" => value.as_f64().is_none_or(|value| value <= number(expected)),
            "maxItems" => value.as_array().is_none_or(|items| items.len() <= count(expected)),
            "minProperties" => object.is_none_or(|fields| fields.len() >= count(expected)),
            "maxProperties" => object.is_none_or(|fields| fields.len() <= count(expected)),
            "required" => object.is_none_or(|fields| {
                expected
                    .as_array()
                    .expect("the keyword has a list")
                    .iter()
                    .all(|name| fields.contains_key(name.as_str().expect("the keyword has a name")))
            }),
            "propertyNames" => object.is_none_or(|fields| {
                fields.keys().all(|name| first_misfit(root, expected, &name.as_str().into(), at).is_none())
            }),
            "properties" | "additionalProperties" => {
                let empty = Map::new();
                let known = words.get("properties").and_then(Value::as_object).unwrap_or(&empty);
                for (name, field) in object.into_iter().flatten() {
                    let inner = if word == "properties" { known.get(name) } else { Some(expected) };
                    let concerns = word == "properties" || !known.contains_key(name);
                    let misfit = inner
                        .filter(|_| concerns)
                        .and_then(|inner| first_misfit(root, inner, field, &format!("{at}/{name}")));
                    if misfit.is_some() {
                        return misfit;
                    }
                }
                true
            }
            "if" => !fits(expected) || words.get("then").is_none_or(fits),
            "then" => true,
            "items" => {
                let mut items = value.as_array().into_iter().flatten().enumerate();
                let misfit =
                    items.find_map(|(index, item)| first_misfit(root, expected, item, &format!("{at}/{index}")));
                if misfit.is_some() {
                    return misfit;
                }
                true
            }
            other => panic!("the schema has the word {other}, which this test does not know"),
        };
        if !holds {
            return Some(format!("{at} ({word})"));
        }
    }
    None
}

fn document_misfit(document: &Value, tools: &dyn ToolCatalog) -> Option<String> {
    let schema = schema(tools);
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    first_misfit(&schema, &schema, document, "")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn accepted_documents_match_the_schema(document in machines()) {
        prop_assert!(Definition::parse(&document, &Tools).is_ok());
        prop_assert_eq!(document_misfit(&document, &Tools), None);
    }
}

#[test]
fn schema_names_the_invalid_place() {
    let document = |state: &Value| json!({"initial_state": "a", "states": {"a": state}});
    let typing = |params: &Value| document(&json!({"action": {"tool": "send_input", "params": params}}));
    let leading = |condition: &Value| {
        document(&json!({
            "action": {"tool": "send_input", "params": {"input_text": "x"}},
            "transitions": [{"condition": condition, "next_state": "a"}]
        }))
    };
    // Document 001, lines 241-248: a word that needs a pattern has a pattern next to it.
    let beside = |word: &str, pattern: Value| {
        let mut document = leading(&json!(word));
        document["states"]["a"]["transitions"][0]["pattern"] = pattern;
        document
    };
    for (right, document) in [
        (true, typing(&json!({"input_text": "{x}", "wait_for_quiet_ms": 5}))),
        (true, typing(&json!({"input_text": "x", "wait_for_quiet_ms": "{pause}", "session_id": null}))),
        (false, typing(&json!({"input_text": "x", "wait_for_quiet_ms": "soon"}))),
        (false, typing(&json!({"input_text": "x", "wait_for_quiet_ms": -1}))),
        (false, typing(&json!({"wait_for_quiet_ms": 1}))),
        (false, typing(&json!({"input_txt": "x"}))),
        (false, document(&json!({"action": {"tool": "send_input"}}))),
        (false, document(&json!({"action": {"tool": "type", "params": {}}}))),
        (false, leading(&json!("pattern_match"))),
        (false, leading(&json!("pattern_no_match"))),
        (false, beside("pattern_no_match", Value::Null)),
        (true, beside("pattern_match", json!("ready"))),
        (true, beside("pattern_no_match", json!("ready"))),
        (true, beside("success", Value::Null)),
        (true, leading(&json!("success"))),
        (false, leading(&json!("pattern"))),
        (false, leading(&json!({"success": "yes"}))),
        (false, leading(&json!({"description": "nobody is there to judge"}))),
        (true, document(&json!({"action": {"tool": "sleep", "params": {"seconds": 1}}, "timeout": 7200}))),
        (false, document(&json!({"action": {"tool": "sleep", "params": {"seconds": 1}}, "timeout": 7201}))),
        (false, document(&json!({"action": {"tool": "sleep", "params": {"seconds": 1}}, "retries": 1}))),
        (
            true,
            document(
                &json!({"action": {"tool": "run_workflow", "params": {"workflow_definition": leading(&json!({}))}}}),
            ),
        ),
        (
            false,
            document(
                &json!({"action": {"tool": "run_workflow", "params": {"workflow_definition": leading(&json!(7))}}}),
            ),
        ),
    ] {
        assert_eq!(document_misfit(&document, &Described).is_none(), right, "{document}");
    }
    let mut document = typing(&json!({"input_text": "x"}));
    document["arguments"] = json!({"HOME": "x", "JOBS": {"default": 4, "schema": {"type": "integer"}}});
    assert_eq!(document_misfit(&document, &Described), None);
    document["arguments"] = json!({"home": "x"});
    assert_eq!(document_misfit(&document, &Described), None, "names may have lower-case letters");
    document["arguments"] = json!({"1st": "x"});
    assert!(document_misfit(&document, &Described).is_some());
}

/// Document 001, lines 81-95 (defaults of parameters, `session_id` auto-injected) and 284-310 (the five words).
#[test]
fn documentation_has_every_key_and_every_parameter() {
    let page = documentation(&Described);
    let actions = page.find("## Actions").expect("the page has a section for actions");
    expect![[r###"
        ## Actions

        ### send_input

        Type into a terminal

        | key | type | what |
        |---|---|---|
        | `session_id` | string | Terminal to type into; auto-injected if left out: the run's terminal |
        | `input_text` | string, required | What to type: a \| b |
        | `wait_for_quiet_ms` | integer | Quiet to wait for (at least 0; default 10) |

        ### dialogue

        Answer the questions of the program in the terminal by rules, in any order. Succeeds when `until` is
        found; fails at a question that no rule answers, if the program exits, and at the timeout.

        | key | type | what |
        |---|---|---|
        | `rules` | array, required | Answers to questions: [{"when": pattern, "type": "text\n"}, …]; a rule may also have press (keys, after the text), secret (true, or instead of type the name of a secret argument, which is typed with Enter) and times (maximum number of answers) |
        | `until` | string, array | Pattern or patterns that end the dialogue; test which one matched with {"field_equals": {"pattern": …}}. Without it, the shell's prompt or the exit of the program ends the dialogue, and the exit code must be 0 |
        | `input_text` | string | Text to type first, such as the command that asks the questions |
        | `timeout` | number | Maximum total time in seconds (default 60) (0.1 to 3600.0) |
        | `max_answers` | integer | Maximum number of answers (default 20) (1 to 200) |
        | `session_id` | string | Terminal to work in (default: the terminal of the run) |

        ### sleep

        Wait for time to pass.

        | key | type | what |
        |---|---|---|
        | `seconds` | number, required | Seconds to wait (0.0 to 7200.0) |

        ### set

        Set variables to values of any form: each parameter is a variable. Later states use it as {name}.

        ### return

        End the run as completed, with a result of any form. Return values of the contract are returned beside it.

        | key | type | what |
        |---|---|---|
        | `result` | any | Result of the run |

        ### fail

        Fail: without a transition for the failure, the run fails with this message.

        | key | type | what |
        |---|---|---|
        | `message` | string, required | Message for readers: the reason for the failure |

        ### gate

        Ask a person or an agent, and wait for the answer, which is the result's `answer` and the variable `answer`.
        Without an answer in time, the state times out. The clock of the run is stopped in the meantime.

        | key | type | what |
        |---|---|---|
        | `prompt` | string, required | Question to ask |
        | `choices` | array | Possible answers; if omitted, any text is an answer |
        | `form` | object | Form to fill in instead: {"type": "object", "properties": {NAME: {"type": "string" \| "number" \| "integer" \| "boolean", "title"?, "description"?, "default"?, "enum"?}}, "required": [NAME]}; each field is part of the result |
        | `timeout` | number | Seconds to wait (0 to 31536000; default: no limit) |
        | `answered_by` | string | Person or agent that may answer: human (default), agent or anyone |
        | `approvers` | any | Groups of notification rules that send at once: a name, or a list of names |
        | `escalate_after` | object | Groups of notification rules that send later, with seconds: {"leads": 3600} |
    "###]]
    .assert_eq(&page[actions..page.find("\n### run_workflow").expect("the page has a section for run_workflow")]);
    for word in ["success", "failure", "timeout", "pattern_match", "pattern_no_match"] {
        assert!(page.contains(&format!("\n| `{word}` | ")), "no {word} in:\n{page}");
    }
    for key in
        ["initial_state", "on_timeout", "field_contains", "outcome_unknown", "pattern_no_match", "secret", "export"]
    {
        assert!(page.contains(&format!("| `{key}` |")), "no {key} in:\n{page}");
    }
}
