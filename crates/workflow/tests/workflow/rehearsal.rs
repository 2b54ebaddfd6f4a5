//! Rehearsals.

use std::time::Duration;

use expect_test::expect;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use steplatch_workflow::{Definition, Limits, Rehearsal, RehearsalEnd, RehearsalStep, Stubs, rehearse};

use crate::generated::machines;
use crate::machine::{Tools, definition, fields};

/// Plays a machine without variables and with the usual limits.
fn play(document: &Value, stubs: &Value) -> Rehearsal {
    play_with(document, stubs, &json!({}), Limits::default())
}

fn play_with(document: &Value, stubs: &Value, variables: &Value, limits: Limits) -> Rehearsal {
    let definition = definition(document);
    let stubs = Stubs::read(stubs, &definition, &Tools).unwrap_or_else(|problems| panic!("{problems}"));
    rehearse(&definition, &stubs, fields(variables), limits)
}

/// Returns the problems of stubs.
fn stub_problems(document: &Value, stubs: &Value) -> String {
    Stubs::read(stubs, &definition(document), &Tools).expect_err("the stubs have problems").to_string()
}

/// Returns the path as text: states with their times, and transitions with their reasons.
fn path_text(rehearsal: &Rehearsal) -> String {
    let line = |passage: &RehearsalStep| match passage {
        RehearsalStep::State { at, state, visit, elapsed_time, source, .. } => {
            format!("{at:.1} {state}#{visit} {elapsed_time:.1}s {source:?}")
        }
        RehearsalStep::Transition { to, because, .. } => format!("  -> {to}: {because}"),
        RehearsalStep::Gate { answer, .. } => format!("  judged: {answer}"),
        RehearsalStep::Contract { side, holds, .. } => format!("  {side:?} {holds}"),
    };
    let path: Vec<String> = rehearsal.path.iter().map(line).collect();
    format!("{}\n{:?} after {:?}\n", path.join("\n"), rehearsal.end, rehearsal.elapsed_time)
}

#[test]
fn node_call_succeeds_unless_stubbed() {
    let call = |input: &str, ways: Value| json!({"action": {"tool": "run_node", "params": {"node_id": "count", "input": input}}, "transitions": ways});
    let document = json!({
        "initial_state": "one",
        "states": {
            "one": call("x", json!([{"condition": {"field_equals": {"output": "", "input": "x"}}, "next_state": "two"}])),
            "two": call("{one_node_id}", json!([{"condition": {"field_contains": {"output": "7"}}, "next_state": "three"}])),
            "three": {"action": {"tool": "sleep", "params": {"seconds": 0}}}
        }
    });
    let stubs = json!({"states": {"two": {"output": "17 lines", "attributes": {"exit_code": 0}}}});
    let played = play(&document, &stubs);
    assert_eq!((&played.end, played.final_state.as_deref()), (&RehearsalEnd::Completed, Some("three")));
    let RehearsalStep::State { params, .. } = &played.path[2] else { panic!("{played:?}") };
    assert_eq!(params["input"], "count");
    assert!(stub_problems(&document, &json!({"states": {"two": {"outptu": ""}}})).contains("did you mean 'output'"));
}

/// A build that is repeated until it succeeds, awaited, and judged.
fn build() -> Value {
    json!({
        "name": "build", "initial_state": "open",
        "arguments": {"PROJECT_ROOT": "where"}, "return_values": {"STATUS": "how it went"},
        "states": {
            "open": {"action": {"tool": "open_terminal"}, "transitions": [{"condition": "success", "next_state": "make"}]},
            "make": {
                "action": {"tool": "send_input", "params": {"input_text": "make\n"}},
                "transitions": [{"condition": "success", "next_state": "wait"}]
            },
            "wait": {
                "action": {"tool": "await_output", "params": {"pattern": "done|error", "timeout": 20}},
                "transitions": [
                    {"condition": {"pattern_match": "error"}, "next_state": "pause"},
                    {"condition": "timeout", "next_state": "pause"},
                    {"condition": "success", "next_state": "judge"}
                ]
            },
            "pause": {
                "action": {"tool": "sleep", "params": {"seconds": 5}},
                "transitions": [{"condition": "success", "next_state": "make"}]
            },
            "judge": {
                "action": {"tool": "get_screen_content"},
                "transitions": [{"condition": {"description": "there are no warnings"}, "next_state": "end"}]
            },
            "end": {"action": {"tool": "list_terminal_sessions"}}
        }
    })
}

#[test]
fn rehearsal_takes_the_path_and_time_of_a_run() {
    let stubs = json!({
        "states": {"wait": [{"match_text": "error", "elapsed_time": 3}, "timeout", {"match_text": "done"}]},
        "gates": {"judge": ["there are no warnings"]},
        "shell": {"PROJECT_ROOT": "/x", "STATUS": "green"}
    });
    let rehearsal = play(&build(), &stubs);
    expect![[r#"
        0.0 open#1 0.0s Usual
          -> make: the action succeeded
          Arguments true
        0.0 make#1 0.0s Usual
          -> wait: the action succeeded
        0.0 wait#1 3.0s State
          -> pause: pattern 'error' was found
        3.0 pause#1 5.0s Usual
          -> make: the action succeeded
        8.0 make#2 0.0s Usual
          -> wait: the action succeeded
        8.0 wait#2 20.0s State
          -> pause: time ran out
        28.0 pause#2 5.0s Usual
          -> make: the action succeeded
        33.0 make#3 0.0s Usual
          -> wait: the action succeeded
        33.0 wait#3 0.0s State
          -> judge: the action succeeded
        33.0 judge#1 0.0s Usual
          judged: there are no warnings
          -> end: the stub file judged: there are no warnings
        33.0 end#1 0.0s Usual
          ReturnValues true
        Completed after 33s
    "#]]
    .assert_eq(&path_text(&rehearsal));
    assert_eq!(rehearsal.return_values["STATUS"], "green");
    assert_eq!((rehearsal.states_executed, rehearsal.final_state.as_deref()), (11, Some("end")));
    assert_eq!(rehearsal.left_over, Vec::<String>::new());
}

#[test]
fn rehearsal_reports_missing_stubs() {
    let end = |stubs: Value| match play_with(&build(), &stubs, &json!({"PROJECT_ROOT": "/x"}), Limits::default()).end {
        RehearsalEnd::Stuck { error } => error,
        other => panic!("{other:?}"),
    };
    expect![[
        r#"State 'wait' waits for output that no stub provides; add it under "states": "wait": {"match_text": "…"}, or "timeout""#
    ]]
    .assert_eq(&end(json!({})));
    expect![
        "There is no 2nd result for state 'wait'; add one to its list, or write one result without a list for all uses"
    ]
    .assert_eq(&end(json!({"states": {"wait": ["timeout"]}})));
    expect![[
        r#"State 'judge' asks for a judgement; add one of 'there are no warnings', 'none of these' under "gates""#
    ]]
    .assert_eq(&end(json!({"states": {"wait": {"match_text": "done"}}})));
    expect!["State 'pause' has no timeout, so it cannot time out; give it one or another result"]
        .assert_eq(&end(json!({"states": {"wait": ["timeout"], "pause": "timeout"}})));
}

#[test]
fn endless_run_ends_at_its_limits() {
    let stubs = json!({"states": {"wait": "timeout"}, "shell": {"PROJECT_ROOT": "/x"}});
    let failed = |limits| match play_with(&build(), &stubs, &json!({}), limits).end {
        RehearsalEnd::Failed { error } => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        failed(Limits::new(10, 1800.0).expect("the limits are valid")),
        "Maximum states limit (10) reached - possible infinite loop"
    );
    let error = failed(Limits::new(100, 60.0).expect("the limits are valid"));
    assert_eq!(error, "Workflow execution timeout (60.0s) exceeded in state 'wait'");
}

#[test]
fn contracts_use_the_shell_and_failures_match_a_run() {
    let wait_stub = json!({"wait": {"match_text": "done"}});
    let missing = play(&build(), &json!({"states": wait_stub}));
    let RehearsalEnd::Failed { error } = &missing.end else { panic!("{missing:?}") };
    assert!(error.contains("argument PROJECT_ROOT (where) is missing"), "{error}");
    assert_eq!(missing.final_state.as_deref(), Some("validation_failed"));

    let stubs = json!({
        "states": {"wait": {"match_text": "done"}, "judge": {"success": false, "error": "gone"}},
        "gates": {"judge": "none of these"}
    });
    let failed = play_with(&build(), &stubs, &json!({"PROJECT_ROOT": "/x"}), Limits::default());
    assert_eq!(failed.end, RehearsalEnd::Failed { error: "State 'judge' failed: gone".to_owned() });
}

#[test]
fn action_longer_than_its_state_times_out() {
    let document = json!({"initial_state": "a", "states": {
        "a": {"action": {"tool": "send_input", "params": {"input_text": "x"}}, "timeout": 2, "on_timeout": "b"},
        "b": {"action": {"tool": "sleep", "params": {"seconds": 9}}, "timeout": 4, "on_timeout": "c"},
        "c": {"action": {"tool": "run_workflow", "params": {"workflow_name": "other"}}}
    }});
    let rehearsal = play(&document, &json!({"tools": {"send_input": {"elapsed_time": 2.5}}}));
    assert_eq!(rehearsal.end, RehearsalEnd::Completed);
    assert_eq!(rehearsal.elapsed_time, Duration::from_secs(6));
    let sources: Vec<String> = path_text(&rehearsal).lines().map(|line| line.trim().to_owned()).collect();
    assert!(sources.contains(&"0.0 a#1 2.0s Tool".to_owned()), "{sources:?}");
}

#[test]
fn misspelt_stubs_are_named_with_suggestions() {
    let stubs = json!({
        "state": {},
        "states": {"wiat": {}, "wait": [{"match_txt": "x"}, "timout", 7], "pause": {"elapsed_time": "soon"}},
        "tools": {"open_terminals": {}, "sleep": {}},
        "gates": {"wait": "yes", "judge": ["there are no warning"]},
        "shell": {"PROJECT_ROT": "/x", "STATUS": []}
    });
    expect![[r#"
        /state: unknown key 'state' in a stub file, did you mean 'states'?
        /states/wiat: there is no state 'wiat' in this workflow, did you mean 'wait'?
        /states/wait/0: no known field is named 'match_txt', did you mean 'match_text'?
        /states/wait/1: 'timout' is not an outcome; use an object with fields, or one of timeout, outcome_unknown, did you mean 'timeout'?
        /states/wait/2: a result must be an object with fields, or one of timeout, outcome_unknown, not 7
        /states/pause: 'elapsed_time' must be a number of seconds from 0 to 100000, not "soon"
        /tools/open_terminals: there is no tool 'open_terminals' that a workflow can use, did you mean 'open_terminal'?
        /gates/wait: there is no state 'wait' with a gate
        /gates/judge: state 'judge' does not offer 'there are no warning'; it offers 'there are no warnings', 'none of these'
        /shell/PROJECT_ROT: 'PROJECT_ROT' is neither an argument nor a return value of this workflow, did you mean 'PROJECT_ROOT'?
        /shell/STATUS: the value of a variable must be a string, not a list"#]]
    .assert_eq(&stub_problems(&build(), &stubs));
    let machine = json!({"initial_state": "a", "states": {
        "a": {"action": {"tool": "send_input", "params": {"input_text": "x"}},
              "transitions": [{"condition": {"field_equals": {"verdict.level": 1}}, "next_state": "a"}]}
    }});
    assert!(stub_problems(&machine, &json!({"states": {"a": {"verdit": 1}}})).contains("did you mean 'verdict'?"));
    assert_eq!(play(&machine, &json!({"states": {"a": {"something_else": 1}}})).end, RehearsalEnd::Completed);
}

#[test]
fn unused_answers_are_reported() {
    let document = json!({"initial_state": "a", "states": {"a": {"action": {"tool": "list_terminal_sessions"}}}});
    let stubs = json!({"states": {"a": [{}, {}]}, "tools": {"send_input": {}}});
    let unused_stubs = play(&document, &stubs).left_over;
    assert_eq!(
        unused_stubs,
        ["of 2 answers for state 'a' only 1 were used", "stub for tool 'send_input' was not used"]
    );
}

/// Stubs for states by number; some are lists that may be too short.
fn stubs() -> impl Strategy<Value = Value> {
    let stub = prop::sample::select(vec![
        json!({"match_text": "ok", "exit_code": 0, "session_id": "term_1", "elapsed_time": 40}),
        json!({"success": false, "screen_content": "error (", "exit_code": 2}),
        json!("timeout"),
        json!("outcome_unknown"),
        json!({"match_text": "a{2}", "recursion_depth": 3, "elapsed_time": 1000}),
    ]);
    let answers = (prop::collection::vec(stub, 1..6), any::<bool>())
        .prop_map(|(stubs, always)| if always { stubs[0].clone() } else { Value::Array(stubs) });
    let shell = prop::sample::select(vec![json!({}), json!({"A": "0", "B": "ok", "X": "1"})]);
    (prop::collection::vec(prop::option::of(answers), 5), shell).prop_map(|(answers, shell)| {
        let states: Map<String, Value> =
            answers.into_iter().enumerate().filter_map(|(index, stub)| Some((format!("s{index}"), stub?))).collect();
        json!({"states": states, "shell": shell})
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_rehearsal_ends_and_is_repeatable(
        document in machines(), stubs in stubs(), max_states in 1u32..40, judged in any::<bool>(),
    ) {
        let definition = Definition::parse(&document, &Tools).expect("generated machines are valid");
        let mut stubs = stubs;
        for (name, of) in [("states", "states"), ("shell", "arguments")] {
            let known: Vec<String> = document[of].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
            let returned = document["return_values"].as_object().expect("the value is an object");
            let is_used = |key: &String| known.contains(key) || (name == "shell" && returned.contains_key(key));
            stubs[name].as_object_mut().expect("the value is an object").retain(|key, _| is_used(key));
        }
        if judged {
            let asks = |state: &&steplatch_workflow::State| {
                state.transitions().iter().any(|transition| transition.condition().description().is_some())
            };
            let gates = definition.states().iter().filter(asks);
            stubs["gates"] = gates.map(|state| (state.name().to_owned(), json!("none of these"))).collect::<Map<_, _>>().into();
        }
        let stubs = Stubs::read(&stubs, &definition, &Tools).expect("the stubs fit the machine");
        let limits = Limits::new(max_states, 1800.0).expect("the limits are valid");
        let play = || rehearse(&definition, &stubs, fields(&json!({"A": "0"})), limits);
        let first = play();
        prop_assert_eq!(&first, &play());
        // A finally state has its own states and time.
        prop_assert!(first.states_executed <= max_states + 20);
        prop_assert!(first.elapsed_time <= limits.execution_timeout() + Duration::from_secs(60));
        let executed = first.path.iter().filter(|passage| matches!(passage, RehearsalStep::State { .. })).count();
        // The interrupted state has no end, even after the finally state, and neither has a stuck state.
        prop_assert!(executed + 2 >= first.states_executed as usize && executed <= first.states_executed as usize);
        if first.end == RehearsalEnd::Completed {
            prop_assert_eq!(executed, first.states_executed as usize);
        }
    }
}

/// A machine that reveals its secrets in every possible way.
fn careless_machine() -> Value {
    json!({
        "initial_state": "open",
        "arguments": {
            "TOKEN": {"secret": true}, "PIN": {"secret": true}, "KEY": {"secret": true, "default": "default-key-1"},
            "USER_NAME": "who"
        },
        "return_values": {"OUT_TOKEN": {"secret": true}},
        "states": {
            "open": {"action": {"tool": "open_terminal"}, "transitions": [{"condition": "success", "next_state": "login"}]},
            "login": {
                "action": {"tool": "send_input", "params": {"input_text": "{USER_NAME}-pass\n", "secret": true}},
                "transitions": [{"condition": "success", "next_state": "say"}]
            },
            "say": {
                "action": {"tool": "send_input", "params": {"input_text": "echo {TOKEN} {TOKEN|sh} {TOKEN|json} {TOKEN|regex}\n"}},
                "transitions": [{"condition": {"field_contains": {"screen_content": "{TOKEN}"}}, "next_state": "pin"}]
            },
            "pin": {
                "action": {"tool": "send_input", "params": {"input_text": "{PIN}\n"}},
                "transitions": [{"condition": {"field_equals": {"message": "{TOKEN}"}}, "next_state": "nested"}]
            },
            "nested": {
                "action": {"tool": "run_workflow", "params": {
                    "workflow_definition": {
                        "initial_state": "a", "arguments": {"INNER": {"secret": true}},
                        "states": {"a": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}
                    },
                    "initial_variables": {"INNER": "inner-secret", "OTHER": "seen"}
                }},
                "transitions": [{"condition": "success", "next_state": "judge"}]
            },
            "judge": {
                "action": {"tool": "get_screen_content"},
                "transitions": [{"condition": {"description": "{TOKEN} was printed"}, "next_state": "end"}]
            },
            "end": {"action": {"tool": "get_screen_content"}}
        }
    })
}

/// Text that needs different quoting in a shell, in JSON and in a pattern.
const TOKEN: &str = r#"it's "QUOTED" \d secret"#;

fn careless_stubs() -> Value {
    json!({
        "states": {
            "login": {"screen_content": "Password: ana-pass refused"},
            "say": {"screen_content": format!("got {TOKEN}, default-key-1, out-secret")},
            "pin": {"message": TOKEN, "PIN": 917, "env": {"PIN": "917", "lines": ["917", "0917"]}},
            "nested": {"return_values": {"INNER": "x"}, "message": "inner-secret and seen"},
            "end": {"success": false, "error": format!("{TOKEN} was refused, and so was inner-secret")}
        },
        "gates": {"judge": format!("{TOKEN} was printed")},
        "shell": {"OUT_TOKEN": "out-secret"}
    })
}

/// Returns the secrets of [`careless_machine`] that occur in a text.
fn revealed_secrets(text: &str) -> Vec<&'static str> {
    let secrets = ["QUOTED", "default-key", "inner-secret", "out-secret", "ana-pass", "\"917", "917,", "917\\n"];
    secrets.into_iter().filter(|secret| text.contains(secret)).collect()
}

#[test]
fn rehearsal_shows_no_secrets() {
    let variables = json!({"TOKEN": TOKEN, "PIN": "917", "USER_NAME": "ana"});
    let rehearsal = play_with(&careless_machine(), &careless_stubs(), &variables, Limits::default());
    assert_eq!(rehearsal.states_executed, 7, "{rehearsal:#?}");
    let text = serde_json::to_string(&rehearsal).unwrap();
    assert_eq!(revealed_secrets(&text), [""; 0], "{text}");
    let state = |name: &str| {
        let of = |passage: &RehearsalStep| match passage {
            RehearsalStep::State { state, params, result, .. } if state == name => {
                Some((Value::Object(params.clone()), Value::Object(result.clone())))
            }
            _ => None,
        };
        rehearsal.path.iter().find_map(of).unwrap()
    };
    assert_eq!(state("login").0["input_text"], "••••••");
    assert_eq!(state("login").1["screen_content"], "Password: •••••• refused");
    assert_eq!(state("say").0["input_text"], "echo •••••• •••••• •••••• ••••••\n");
    assert_eq!(
        state("say").1["screen_content"],
        "got ••••••, ••••••, ••••••",
        "defaults and return values are hidden too"
    );
    assert_eq!(state("pin").0["input_text"], "••••••");
    // A short secret is not hidden inside longer text.
    assert_eq!(state("pin").1["env"], json!({"PIN": "••••••", "lines": ["••••••", "0917"]}));
    assert_eq!(state("nested").0["initial_variables"], json!({"INNER": "••••••", "OTHER": "seen"}));
    assert_eq!(state("nested").1["return_values"], json!({"INNER": "••••••"}));
    let failed = RehearsalEnd::Failed {
        error: "State 'end' failed: •••••• was refused, and so was ••••••".into()
    };
    assert_eq!(rehearsal.end, failed);
}

#[test]
fn stuck_or_returning_rehearsal_shows_no_secret_either() {
    let variables = json!({"TOKEN": TOKEN, "PIN": "917", "USER_NAME": "ana"});
    let mut stubs = careless_stubs();
    stubs["gates"] = json!({"judge": format!("{TOKEN} was not printed")});
    let stuck = play_with(&careless_machine(), &stubs, &variables, Limits::default());
    let RehearsalEnd::Stuck { error } = &stuck.end else { panic!("{:?}", stuck.end) };
    assert!(error.contains("does not offer '•••••• was not printed'"), "{error}");
    let mut stubs = careless_stubs();
    stubs["gates"] = json!({"judge": "none of these"});
    let returned = play_with(&careless_machine(), &stubs, &variables, Limits::default());
    assert_eq!(returned.end, RehearsalEnd::Completed);
    assert_eq!(returned.return_values["OUT_TOKEN"], "••••••");
    for rehearsal in [stuck, returned] {
        let text = serde_json::to_string(&rehearsal).unwrap();
        assert_eq!(revealed_secrets(&text), [""; 0], "{text}");
    }
}

#[test]
fn form_is_answered_with_its_fields() {
    let form =
        json!({"properties": {"version": {"type": "string"}, "count": {"type": "integer"}}, "required": ["version"]});
    let document = json!({"initial_state": "ask", "states": {
        "ask": {
            "action": {"tool": "gate", "params": {"prompt": "Which?", "form": form}},
            "transitions": [{"condition": {"field_equals": {"count": 3}}, "next_state": "three"}],
        },
        "three": {"action": {"tool": "send_input", "params": {"input_text": "{ask_version}"}}},
    }});
    let stuck = |gates: Value| match play(&document, &json!({"gates": gates})).end {
        RehearsalEnd::Stuck { error } => error,
        other => panic!("{other:?}"),
    };
    assert!(stuck(json!({})).contains("add an object with its fields version, count"), "{}", stuck(json!({})));
    assert_eq!(
        stuck(json!({"ask": {"count": "some"}})),
        "State 'ask' does not accept its answer: 'version' must be filled in; 'count' must be a whole number, not \"some\""
    );
    let played = play(&document, &json!({"gates": {"ask": {"version": "1.2", "count": 3}}}));
    assert_eq!(played.end, RehearsalEnd::Completed, "{}", path_text(&played));
    assert_eq!(played.final_state.as_deref(), Some("three"));
}
