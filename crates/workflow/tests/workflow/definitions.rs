//! Accepted definitions, and the problems of refused definitions.

use expect_test::expect;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use steplatch_workflow::{Definition, Problem, Severity, State, ToolCatalog};

use crate::machine::{Tools, definition, problems};

/// Returns a workflow of one state with some keys set.
fn one_state(keys: &Value) -> Value {
    let mut state = json!({"action": {"tool": "send_input", "params": {"input_text": "make\n"}}});
    for (key, value) in keys.as_object().expect("the value is an object") {
        state[key] = value.clone();
    }
    json!({"initial_state": "start", "states": {"start": state}})
}

fn with_condition(transition: &Value) -> Value {
    let mut transition = transition.clone();
    transition["next_state"] = "start".into();
    one_state(&json!({"transitions": [transition]}))
}

#[test]
fn overlong_definition_has_exactly_one_problem() {
    let long = one_state(&json!({"action": {"tool": "send_input", "params": {"input_text": "x".repeat(10 << 20)}}}));
    expect![[r#"
        "the definition takes 10485864 bytes, more than the maximum of 1048576"
    "#]]
    .assert_debug_eq(&problems(&long));
}

#[test]
fn long_unknown_names_are_not_compared() {
    // Comparing each pair of these names would take minutes.
    let name = |letter: &str| letter.repeat(300_000);
    let states = [("a", "b"), ("b", "a")].map(|(state, next)| {
        let transition = json!({"condition": {}, "next_state": format!("{}{next}", name(state))});
        (name(state), json!({"action": {"tool": "sleep", "params": {"seconds": 1}}, "transitions": [transition]}))
    });
    let document = json!({"initial_state": "c", "states": Map::from_iter(states)});
    let started = std::time::Instant::now();
    assert!(Definition::parse(&document, &Tools).is_err());
    assert!(started.elapsed() < std::time::Duration::from_secs(60), "{:?}", started.elapsed());
}

#[test]
fn documented_example_is_valid() {
    let document = json!({
        "name": "build_project",
        "description": "Build and report",
        "arguments": {},
        "return_values": null,
        "initial_state": "start",
        "states": {
            "start": {
                "action": {"tool": "send_input", "params": {"input_text": "make\n"}},
                "transitions": [{"condition": {"success": true}, "next_state": "wait"}],
                "timeout": 30.0,
                "on_timeout": "give_up"
            },
            "wait": {"action": {"tool": "await_output", "params": {"pattern": "\\$ $"}}},
            "give_up": {"action": {"tool": "sleep", "params": {"seconds": 1}}, "transitions": null}
        }
    });
    let definition = definition(&document);
    assert_eq!(definition.name().map(ToString::to_string), Some("build_project".into()));
    assert_eq!(definition.description(), Some("Build and report"));
    let names: Vec<_> = definition.states().iter().map(State::name).collect();
    assert_eq!(names, ["start", "wait", "give_up"]);
    assert_eq!(definition.state("start").unwrap().on_timeout(), Some("give_up"));
    assert_eq!(definition.warnings(), []);
    assert_eq!(serde_json::to_value(&definition).unwrap(), document, "the document serializes unchanged");
}

#[test]
fn all_problems_are_reported_at_once_with_places() {
    let document = json!({
        "name": "build project",
        "descripton": "a typo",
        "initial_state": "begin",
        "states": {
            "start": {
                "action": {"tool": "send_inptu", "params": {}},
                "transitons": [],
                "timeout": 7201,
                "on_timeout": "nowhere"
            },
            "wait/1": {
                "action": {"tool": "await_output", "params": {"timeout": true}, "retries": 3},
                "transitions": [
                    {"condition": {"pattern_match": "a(b"}, "next_state": "start"},
                    {"condition": {"succes": true}, "next_state": "done"},
                    {"condition": "sucess", "next_state": "start"}
                ]
            }
        }
    });
    expect![[r#"
        /descripton: unknown key 'descripton' in a workflow definition, did you mean 'description'?
        /name: 'build project' is not a workflow name (1 to 64 letters, digits, '_' or '-', not beginning with '-')
        /initial_state: Initial state 'begin' not found in states
        /states/start/transitons: unknown key 'transitons' in a state, did you mean 'transitions'?
        /states/start/action/tool: unknown tool 'send_inptu', did you mean 'send_input'?
        /states/start/timeout: a timeout must be a number of seconds from 0.1 to 7200, not 7201
        /states/start/on_timeout: State 'start' timeout target 'nowhere' not found
        /states/wait~11: 'wait/1' is not a valid state name (1 to 64 letters, digits or '_')
        /states/wait~11/action/retries: unknown key 'retries' in an action, known are tool, params
        /states/wait~11/action/params: 'pattern' is missing
        /states/wait~11/transitions/0/condition/pattern_match: pattern 'a(b' does not compile: unclosed group at position 1
        /states/wait~11/transitions/1/condition/succes: unknown key 'succes' in a condition, did you mean 'success'?
        /states/wait~11/transitions/1/next_state: State 'wait/1' references non-existent state 'done'
        /states/wait~11/transitions/2/condition: unknown condition "sucess", did you mean 'success'?"#]]
    .assert_eq(&problems(&document));
}

#[test]
fn missing_and_mistyped_fields_are_reported() {
    for (document, expected) in [
        (json!([]), "a workflow definition must be an object, not a list"),
        (json!({}), "'initial_state' is missing\n'states' is missing"),
        (
            json!({"initial_state": 1, "states": []}),
            "/initial_state: 'initial_state' must be a string, not 1\n/states: 'states' must be an object, not a list",
        ),
        (
            json!({"initial_state": "a", "states": {}}),
            "/states: a workflow must have 1 to 100 states, not 0\n/initial_state: Initial state 'a' not found in states",
        ),
        (json!({"initial_state": "a", "states": {"a": {}}}), "/states/a: 'action' is missing"),
        (json!({"initial_state": "a", "states": {"a": {"action": {}}}}), "/states/a/action: 'tool' is missing"),
        (
            json!({"initial_state": "a", "states": {"a": {"action": {"tool": "send_input", "params": "x"}}}}),
            "/states/a/action/params: 'params' must be an object, not the string \"x\"",
        ),
        (
            one_state(&json!({"timeout": "30"})),
            "/states/start/timeout: a timeout must be a number of seconds from 0.1 to 7200, not the string \"30\"",
        ),
        (
            one_state(&json!({"timeout": 0.05})),
            "/states/start/timeout: a timeout must be a number of seconds from 0.1 to 7200, not 0.05",
        ),
        (
            one_state(&json!({"timeout": 1, "timeout_seconds": 1})),
            "/states/start/timeout_seconds: 'timeout' and 'timeout_seconds' are the same key, give one of them",
        ),
        (
            one_state(&json!({"transitions": {}})),
            "/states/start/transitions: 'transitions' must be a list, not an object",
        ),
        (
            one_state(&json!({"transitions": [{"next_state": "start"}]})),
            "/states/start/transitions/0: 'condition' is missing; write {} for one that always holds",
        ),
        (
            one_state(&json!({"transitions": [{"condition": {}}]})),
            "/states/start/transitions/0: 'next_state' is missing",
        ),
        (
            with_condition(&json!({"condition": 7})),
            "/states/start/transitions/0/condition: a condition must be an object or a word, not 7",
        ),
        (
            with_condition(&json!({"condition": {"success": "yes"}})),
            "/states/start/transitions/0/condition/success: 'success' must be true or false, not the string \"yes\"",
        ),
        (
            with_condition(&json!({"condition": {"field_equals": 3}})),
            "/states/start/transitions/0/condition/field_equals: 'field_equals' must be an object, not 3",
        ),
        (
            with_condition(&json!({"condition": {"field_contains": {"error": []}}})),
            "/states/start/transitions/0/condition/field_contains/error: the value of 'field_contains' must be a string, not a list",
        ),
        (
            with_condition(&json!({"condition": "pattern_match"})),
            "/states/start/transitions/0/condition: condition \"pattern_match\" requires a 'pattern'",
        ),
        (
            with_condition(&json!({"condition": "success", "pattern": "x"})),
            "/states/start/transitions/0/pattern: condition \"success\" takes no 'pattern'",
        ),
        (
            with_condition(&json!({"condition": {"success": true}, "pattern": "x"})),
            "/states/start/transitions/0/pattern: 'pattern' belongs to a condition that is a word, write it as 'pattern_match' in the object",
        ),
        (
            with_condition(&json!({"condition": "pattern_no_match", "pattern": "["})),
            "/states/start/transitions/0/pattern: pattern '[' does not compile: unterminated character set at position 0",
        ),
        (
            one_state(&json!({"action": {"tool": "sleep"}})),
            "/states/start/action/params: 'seconds' of a sleep must be a number from 0 to 7200, not omitted",
        ),
        (
            one_state(&json!({"action": {"tool": "sleep", "params": {"seconds": 9999, "second": 1}}})),
            "/states/start/action/params/second: unknown key 'second' in a sleep, did you mean 'seconds'?\n/states/start/action/params/seconds: 'seconds' of a sleep must be a number from 0 to 7200, not 9999",
        ),
    ] {
        assert_eq!(problems(&document), expected, "{document}");
    }
}

/// A catalog whose daemon cannot open gates for conditions.
struct Unjudged;

impl ToolCatalog for Unjudged {
    fn tools(&self) -> Vec<String> {
        Tools.tools()
    }

    fn check(&self, tool: &str, params: &Map<String, Value>) -> Vec<Problem> {
        Tools.check(tool, params)
    }

    fn takes_session(&self, tool: &str) -> bool {
        Tools.takes_session(tool)
    }
}

#[test]
fn judgement_is_refused_where_no_judge_exists() {
    let document = with_condition(&json!({"condition": {"description": "it looks fine"}}));
    let expected = "/states/start/transitions/0/condition/description: a condition with 'description' is not supported by this version";
    assert_eq!(Definition::parse(&document, &Unjudged).unwrap_err().to_string(), expected);
}

#[test]
fn limits_are_checked() {
    let states = |count: usize| {
        let state = |index: usize| (format!("s{index}"), json!({"action": {"tool": "send_input"}}));
        json!({"initial_state": "s0", "states": (0..count).map(state).collect::<Map<_, _>>()})
    };
    assert!(Definition::parse(&states(100), &Tools).is_ok());
    assert!(problems(&states(101)).starts_with("/states: a workflow must have 1 to 100 states, not 101"));

    let transitions = |count| {
        let always = json!({"condition": {"success": true}, "next_state": "start"});
        one_state(&json!({"transitions": vec![always; count]}))
    };
    assert!(Definition::parse(&transitions(20), &Tools).is_ok());
    assert_eq!(problems(&transitions(21)), "/states/start/transitions: a state has at most 20 transitions, not 21");

    let described = |length| {
        let mut document = one_state(&json!({}));
        document["description"] = "é".repeat(length).into();
        document
    };
    assert!(Definition::parse(&described(500), &Tools).is_ok());
    assert_eq!(problems(&described(501)), "/description: 'description' has 501 characters, at most 500 are allowed");
}

#[test]
fn patterns_and_parameters_with_variables_wait_for_the_run() {
    let document = with_condition(&json!({"condition": {"pattern_match": "({prompt|regex}"}}));
    assert!(Definition::parse(&document, &Tools).is_ok());
    let document = with_condition(&json!({"condition": {"pattern_match": "a{2}("}}));
    assert!(problems(&document).contains("unclosed group at position 4"), "a repetition is not a variable");
    let document = one_state(&json!({"action": {"tool": "sleep", "params": {"seconds": "{pause}"}}}));
    assert!(Definition::parse(&document, &Tools).is_ok());
}

#[test]
fn unknown_state_is_reported_with_a_suggestion() {
    let mut document = one_state(&json!({
        "transitions": [{"condition": {}, "next_state": "strat"}, {"condition": {}, "next_state": "elsewhere"}],
        "on_timeout": "Start"
    }));
    document["initial_state"] = "stat".into();
    expect![[r#"
        /initial_state: Initial state 'stat' not found in states, did you mean 'start'?
        /states/start/transitions/0/next_state: State 'start' references non-existent state 'strat', did you mean 'start'?
        /states/start/transitions/1/next_state: State 'start' references non-existent state 'elsewhere'
        /states/start/on_timeout: State 'start' timeout target 'Start' not found, did you mean 'start'?"#]]
    .assert_eq(&problems(&document));
}

#[test]
fn unreachable_states_and_endless_paths_are_warned_of() {
    let action = json!({"tool": "send_input"});
    let document = json!({
        "initial_state": "a",
        "states": {
            "a": {"action": action, "transitions": [{"condition": "success", "next_state": "b"}]},
            "b": {"action": action, "transitions": [
                {"condition": {"success": true}, "next_state": "c"}, {"condition": "failure", "next_state": "b"}]},
            "c": {"action": action, "transitions": [{"condition": {}, "next_state": "b"}]},
            "lost": {"action": action, "on_timeout": "a"}
        }
    });
    let definition = definition(&document);
    let warnings: Vec<_> = definition.warnings().iter().map(ToString::to_string).collect();
    expect![[r#"
        /states/b: warning: State 'b' cannot reach an end: every path from it continues
        /states/c: warning: State 'c' cannot reach an end: every path from it continues
        /states/lost: warning: State 'lost' cannot be reached from the initial state 'a'"#]]
    .assert_eq(&warnings.join("\n"));
    assert!(definition.warnings().iter().all(|problem| problem.severity == Severity::Warning));
}

#[test]
fn invalid_json_is_one_problem_with_line_and_column() {
    let problems = Definition::from_text("{\n  \"states\": {,\n}", &Tools).unwrap_err();
    expect!["this is not JSON: key must be a string at line 2 column 14"].assert_eq(&problems.to_string());
    let definition = one_state(&json!({}));
    let mut with_schema = definition.clone();
    with_schema["$schema"] = "./machine.schema.json".into();
    // A file of the library has metadata next to it.
    let saved = json!({"definition": definition, "name": "saved", "version": 3});
    for document in [definition, with_schema, saved] {
        assert!(Definition::from_text(&document.to_string(), &Tools).is_ok(), "{document}");
    }
}

#[test]
fn problems_are_sent_with_pointer_message_and_severity() {
    let problems = Definition::parse(&json!(null), &Tools).unwrap_err();
    assert_eq!(
        serde_json::to_value(&problems).unwrap(),
        json!([{
            "pointer": "", "message": "a workflow definition must be an object, not null", "severity": "error"
        }])
    );
}

/// Documents that partly resemble definitions.
fn documents() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "a",
        "b",
        "start",
        "success",
        "failure",
        "timeout",
        "pattern_match",
        "send_input",
        "sleep",
        "await_output",
        "gate",
        "(",
        "{x}",
        "/~",
        "é",
    ]);
    let leaf = prop_oneof![
        words.prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-1i64..400).prop_map(Value::from),
        Just(Value::Null),
    ];
    let keys = prop::sample::select(vec![
        "name",
        "description",
        "arguments",
        "return_values",
        "initial_state",
        "states",
        "action",
        "tool",
        "params",
        "transitions",
        "condition",
        "pattern",
        "next_state",
        "timeout",
        "timeout_seconds",
        "on_timeout",
        "success",
        "pattern_match",
        "field_equals",
        "field_contains",
        "seconds",
        "a",
        "b",
        "start",
    ]);
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keys.clone(), inner), 0..6).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_document_is_valid_or_has_problems_pointing_into_it(
        states in documents(), document in documents(), whole in any::<bool>(),
    ) {
        let document = if whole { document } else { json!({"initial_state": "a", "states": {"a": states}}) };
        match Definition::parse(&document, &Tools) {
            Ok(definition) => prop_assert_eq!(definition.document(), &document),
            Err(problems) => {
                prop_assert!(problems.iter().any(|problem| problem.severity == Severity::Error));
                for problem in &problems {
                    prop_assert!(document.pointer(&problem.pointer).is_some(), "{}", problem);
                }
            }
        }
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in ".*") {
        let _ = Definition::from_text(&text, &Tools);
    }
}

#[test]
fn foreign_keys_are_reported_with_equivalents() {
    let document = json!({
        "start": "a",
        "initial_state": "a",
        "states": {"a": {
            "action": {"tool": "send_input", "params": {}},
            "transitions": [{"when": "success", "next": "a"}, {"condition": {"exit_code": 0}, "next_state": "a"}]
        }, "b": {"tool": "open_terminal", "next": "a"}}
    });
    expect![[r#"
        /start: unknown key 'start' in a workflow definition, did you mean 'initial_state'?
        /states/a/transitions/0/when: unknown key 'when' in a transition, did you mean 'condition'?
        /states/a/transitions/0/next: unknown key 'next' in a transition, did you mean 'next_state'?
        /states/a/transitions/1/condition/exit_code: unknown key 'exit_code' in a condition, write {"field_equals": {"exit_code": …}}
        /states/b/tool: unknown key 'tool' in a state, did you mean 'action'?
        /states/b/next: unknown key 'next' in a state, did you mean 'transitions'?"#]].assert_eq(&problems(&document));
}

#[test]
fn unentered_text_before_a_wait_is_a_warning() {
    let warned = |params: Value, wait: Value| {
        let document = json!({"initial_state": "type", "states": {
            "type": {"action": {"tool": "send_input", "params": params}, "transitions": [{"condition": {}, "next_state": "wait"}]},
            "wait": {"action": {"tool": "await_output", "params": wait}}
        }});
        definition(&document).warnings().iter().map(ToString::to_string).collect::<String>()
    };
    let (prompt, pattern) = (json!({"until": "prompt", "pattern": ""}), json!({"pattern": "x"}));
    for entered in [
        json!({"input_text": "false\n"}),
        json!({"input_text": "{session_id}"}),
        json!({"input_text": "false", "keys": ["enter"]}),
        json!({"input_text": "q"}),
        json!({"input_text": ":wq"}),
        json!({"keys": ["enter"]}),
    ] {
        assert_eq!(warned(entered.clone(), prompt.clone()), "", "{entered}");
    }
    assert_eq!(warned(json!({"input_text": "ggdG"}), pattern.clone()), "");
    let expected = "/states/type/action/params/input_text: warning: the text is not entered before state 'wait' waits: it \
                    does not end with \\n";
    assert_eq!(warned(json!({"input_text": "false"}), prompt), expected);
    assert_eq!(warned(json!({"input_text": "make test"}), pattern), expected);
}
