//! Runs that began under older rules and follow them to their end.

use serde_json::{Value, json};
use steplatch_workflow::{Event, History, Outcome, SEMANTICS_VERSION, Start, wants_screen};

use crate::machine::{Machine, fields, start};

/// Starts a run as if it had begun under this version.
fn begun_under(version: u32, document: &Value, start: Start) -> Machine {
    let mut run = Machine::start_with(document, start);
    let Event::Started { semantics_version, .. } = &mut run.events[0] else { panic!("{:?}", run.events) };
    *semantics_version = version;
    run.history = History::from_iter(&run.events);
    run
}

fn start_in(session: &str) -> Start {
    Start { session_id: Some(session.to_owned()), ..start() }
}

#[test]
fn failed_action_takes_on_timeout_from_version_4_on() {
    let document = json!({
        "initial_state": "type",
        "states": {
            "type": {"action": {"tool": "send_input"}, "on_timeout": "mend"},
            "mend": {"action": {"tool": "sleep", "params": {"seconds": 0}}}
        }
    });
    let failed_result = json!({"success": false, "error": "gone"});
    let mut old = begun_under(3, &document, start());
    old.result(&failed_result);
    assert_eq!(old.error(), "State 'type' failed: gone");
    let mut new = begun_under(SEMANTICS_VERSION, &document, start());
    new.result(&failed_result);
    assert_eq!(new.state(), "mend");
}

#[test]
fn closed_terminal_is_passed_on_up_to_version_3() {
    let document = json!({
        "initial_state": "close",
        "states": {
            "close": {"action": {"tool": "exit_terminal"}, "transitions": [{"condition": "success", "next_state": "nest"}]},
            "nest": {"action": {"tool": "run_workflow", "params": {"workflow_name": "inner"}}}
        }
    });
    let closed = json!({"success": true, "session_id": "term_1"});
    for (version, expected) in [(3, json!("term_1")), (SEMANTICS_VERSION, Value::Null)] {
        let mut run = begun_under(version, &document, start_in("term_1"));
        run.result(&closed);
        assert_eq!(run.params()["session_id"], expected, "version {version}");
    }
}

#[test]
fn pattern_is_not_searched_on_the_screen_up_to_version_3() {
    let document = json!({
        "initial_state": "nap",
        "states": {"nap": {
            "action": {"tool": "sleep", "params": {"seconds": 0}},
            "transitions": [{"condition": {"pattern_match": "ready"}, "next_state": "nap"}]
        }}
    });
    let outcome = Outcome::Finished { result: fields(&json!({"success": true})) };
    for (version, expected) in [(3, None), (SEMANTICS_VERSION, Some("term_1"))] {
        let run = begun_under(version, &document, start_in("term_1"));
        let session = wants_screen(&run.definition, &run.history, &run.step(), &outcome);
        assert_eq!(session.as_deref(), expected, "version {version}");
    }
}

#[test]
fn secret_is_exported_up_to_version_3() {
    let document = json!({
        "arguments": {"TOKEN": {"secret": true}},
        "initial_state": "rest",
        "states": {
            "rest": {"action": {"tool": "sleep", "params": {"seconds": 0}}, "transitions": [{"condition": {}, "next_state": "open"}]},
            "open": {"action": {"tool": "open_terminal"}}
        }
    });
    for (version, expected) in [(3, json!({"environment": {"TOKEN": "hunter2"}})), (SEMANTICS_VERSION, json!({}))] {
        let variables = fields(&json!({"TOKEN": "hunter2"}));
        let mut run = begun_under(version, &document, Start { variables, ..start() });
        run.succeed();
        assert_eq!(run.params(), expected, "version {version}");
    }
}

#[test]
fn unresolved_placeholder_is_typed_up_to_version_4() {
    let document = json!({
        "arguments": {"MODE": {"default": "debug"}},
        "initial_state": "rest",
        "states": {
            "rest": {"action": {"tool": "sleep", "params": {"seconds": 0}}, "transitions": [{"condition": {}, "next_state": "type"}]},
            "type": {"action": {"tool": "send_input", "params": {"input_text": "{MODE} {rest_x} {success.y}"}}}
        }
    });
    for (version, expected) in [(3, "{MODE} {rest_x} {success.y}"), (4, "{MODE} {rest_x} {success.y}")] {
        let mut run = begun_under(version, &document, start_in("term_1"));
        run.shell_reports(&json!({"MODE": "debug"}));
        run.succeed();
        assert_eq!(run.params()["input_text"], expected, "version {version}");
    }
    let mut run = begun_under(SEMANTICS_VERSION, &document, start_in("term_1"));
    run.shell_reports(&json!({"MODE": "debug"}));
    run.succeed();
    assert!(run.error().starts_with("State 'type': {rest_x} has no value"), "{}", run.error());
}

#[test]
fn unmatched_wait_is_a_success_up_to_version_4() {
    let document = json!({
        "initial_state": "wait",
        "states": {
            "wait": {
                "action": {"tool": "await_output", "params": {"pattern": "ok"}},
                "transitions": [{"condition": "success", "next_state": "deploy"}]
            },
            "deploy": {"action": {"tool": "sleep", "params": {"seconds": 0}}}
        }
    });
    let nothing = json!({"success": true, "match_text": null, "timeout_occurred": true});
    for version in [3, 4] {
        let mut run = begun_under(version, &document, start_in("term_1"));
        run.result(&nothing);
        assert_eq!(run.state(), "deploy", "version {version}");
    }
    let mut run = begun_under(SEMANTICS_VERSION, &document, start_in("term_1"));
    run.result(&nothing);
    assert_eq!(run.error(), "State 'wait' failed: /ok/ did not appear");
}

#[test]
fn completed_run_leaves_terminals_open_up_to_version_4() {
    let document = json!({"initial_state": "open", "states": {"open": {"action": {"tool": "open_terminal"}}}});
    for (version, closed) in [(3, Vec::new()), (4, Vec::new()), (SEMANTICS_VERSION, vec!["term_1"])] {
        let mut run = begun_under(version, &document, start());
        run.result(&json!({"success": true, "session_id": "term_1"}));
        assert!(run.completed());
        assert_eq!(run.closed(), closed, "version {version}");
    }
}

#[test]
fn earlier_stored_run_does_not_save_nested_workflows() {
    let stored = json!({
        "event": "started", "at": 1, "run": "run_0123456789abcdef", "definition": {}, "variables": {},
        "limits": {"max_states": 1, "execution_timeout": 1.0}, "keep_terminals": false, "semantics_version": 3
    });
    let event: Event = serde_json::from_value(stored).unwrap();
    let history = History::from_iter([&event]);
    assert_eq!((history.saves_on_success(), history.semantics_version()), (false, 3));
}

#[test]
fn events_match_the_golden_file() {
    let golden = include_str!("../../golden/events.jsonl");
    steplatch_golden::check_enum::<Event>(golden, steplatch_golden::Tag::Field("event"));
}

#[test]
fn output_keeps_its_final_newlines_up_to_version_5() {
    let document = json!({
        "initial_state": "a",
        "states": {
            "a": {"action": {"tool": "run_command", "params": {"command": "x"}},
                  "transitions": [{"condition": {}, "next_state": "b"}]},
            "b": {"action": {"tool": "run_command", "params": {"command": "{a_output|json} {output|json}"}}}
        }
    });
    for (version, expected) in [(5, r#""3\n\n" "3\n\n""#), (SEMANTICS_VERSION, r#""3" "3""#)] {
        let mut run = begun_under(version, &document, start_in("term_1"));
        run.result(&json!({"success": true, "exit_code": 0, "output": "3\n\n"}));
        assert_eq!(run.params()["command"], expected, "version {version}");
    }
}

#[test]
fn original_output_is_kept_if_it_is_read() {
    let document = |read: &str| {
        json!({
            "initial_state": "a",
            "states": {
                "a": {"action": {"tool": "run_command", "params": {"command": "x"}},
                      "transitions": [{"condition": {}, "next_state": "b"}]},
                "b": {"action": {"tool": "run_command", "params": {"command": read}}}
            }
        })
    };
    for (read, output, expected) in [
        ("{a_raw_output|json}", "3\n\n", r#""3\n\n""#),
        ("{a_raw_output|json}", "3", r#""3""#),
        ("{a_output|json}", "\n", r#""""#),
    ] {
        let mut run = begun_under(SEMANTICS_VERSION, &document(read), start_in("term_1"));
        run.result(&json!({"success": true, "exit_code": 0, "output": output}));
        assert_eq!(run.params()["command"], expected, "{read} of {output:?}");
        let is_kept = run.history.variables().to_map().contains_key("a_raw_output");
        assert_eq!(is_kept, read.contains("raw"), "the raw output is stored only if the definition reads it");
    }
}

#[test]
fn comparison_ignores_final_newlines_of_an_output() {
    for (condition, output, version, holds) in [
        (json!({"field_equals": {"output": "3"}}), "3\n", 5, false),
        (json!({"field_equals": {"output": "3"}}), "3\n", SEMANTICS_VERSION, true),
        (json!({"field_equals": {"output": "3\n"}}), "3\n", 5, true),
        (json!({"field_equals": {"output": "3\n"}}), "3\n", SEMANTICS_VERSION, true),
        (json!({"field_equals": {"output": 3}}), "3\n", SEMANTICS_VERSION, true),
        (json!({"field_equals": {"output": ""}}), "\n", SEMANTICS_VERSION, true),
        (json!({"field_equals": {"output": "3"}}), " 3\n", SEMANTICS_VERSION, false),
        (json!({"field_contains": {"output": "ok\n"}}), "all\nok\n", SEMANTICS_VERSION, true),
        (json!({"field_contains": {"output": "all\n"}}), "all ok\n", SEMANTICS_VERSION, false),
        (json!({"pattern_match": "ok\\n"}), "ok\n", SEMANTICS_VERSION, true),
        (json!({"pattern_match": "ok\\Z"}), "ok\n", SEMANTICS_VERSION, true),
        (json!({"pattern_match": "ok\\Z"}), "ok\n", 5, false),
        (json!({"pattern_match": "."}), "\n", SEMANTICS_VERSION, false),
    ] {
        let document = json!({
            "initial_state": "a",
            "states": {
                "a": {"action": {"tool": "run_command", "params": {"command": "x"}}, "transitions": [
                    {"condition": condition, "next_state": "yes"}, {"condition": {}, "next_state": "no"}]},
                "yes": {"action": {"tool": "sleep", "params": {"seconds": 1}}},
                "no": {"action": {"tool": "sleep", "params": {"seconds": 1}}}
            }
        });
        let mut run = begun_under(version, &document, start_in("term_1"));
        run.result(&json!({"success": true, "exit_code": 0, "output": output}));
        assert_eq!(run.state(), if holds { "yes" } else { "no" }, "{condition} of {output:?}, version {version}");
    }
}
