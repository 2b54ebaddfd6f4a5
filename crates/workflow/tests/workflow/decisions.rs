//! Decisions, step by step.

use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use steplatch_workflow::{
    Decision, Effect, Event, FailureReason, History, Input, Limits, LogEntry, Outcome, SEMANTICS_VERSION, Start,
    Status, Timestamp, decide, resume, wants_screen,
};

use crate::machine::{Machine, definition, fields, start};

/// Returns a state that types text and has these transitions.
fn typing_state(transitions: &Value) -> Value {
    json!({"action": {"tool": "send_input", "params": {"input_text": "make\n"}}, "transitions": transitions})
}

/// Returns a machine that continues to `then` if a transition with this condition holds after its first state.
fn deciding_machine(tool: &str, transition: &Value) -> Value {
    let mut transition = transition.clone();
    transition["next_state"] = "then".into();
    let params = if tool == "await_output" { json!({"pattern": "x"}) } else { json!({}) };
    json!({
        "initial_state": "first",
        "states": {
            "first": {"action": {"tool": tool, "params": params}, "transitions": [transition]},
            "then": typing_state(&json!([]))
        }
    })
}

fn two_states() -> Value {
    json!({
        "name": "build",
        "initial_state": "make",
        "states": {
            "make": typing_state(&json!([{"condition": "success", "next_state": "wait"}])),
            "wait": {"action": {"tool": "await_output", "params": {"pattern": "\\$ $", "timeout": 60}}}
        }
    })
}

fn looping_machine() -> Value {
    json!({"initial_state": "again", "states": {"again": typing_state(&json!([{"condition": {}, "next_state": "again"}]))}})
}

fn limited_start(max_states: u32) -> Start {
    Start { limits: Limits::new(max_states, 1800.0).expect("the limits are valid"), ..start() }
}

fn terminals() -> Value {
    json!({
        "initial_state": "open",
        "states": {
            "open": {"action": {"tool": "open_terminal"}, "transitions": [{"condition": "success", "next_state": "type"}]},
            "type": typing_state(&json!([
                {"condition": {"field_equals": {"message": "another"}}, "next_state": "open"},
                {"condition": {"field_equals": {"message": "close"}}, "next_state": "close"}
            ])),
            "close": {"action": {"tool": "exit_terminal"}, "transitions": [{"condition": "success", "next_state": "type"}]}
        }
    })
}

#[test]
fn run_visits_states_and_completes_without_a_transition() {
    let mut run = Machine::start(&two_states());
    assert_eq!(run.state(), "make");
    run.succeed();
    assert_eq!((run.state(), run.because()), ("wait", "the action succeeded"));
    run.result(&json!({"success": true, "match_text": "$ ", "screen_content": "done\n$ "}));
    assert!(run.completed());
    assert_eq!((run.history.final_state(), run.history.states_executed()), (Some("wait"), 2));
    assert_eq!(run.last.effects, [], "the run opened no terminal to close");
}

#[test]
fn node_call_uses_its_own_timeout() {
    let limit = |params: Value, timeout: Value| {
        let state = json!({"action": {"tool": "run_node", "params": params}, "timeout": timeout});
        let run = Machine::start(&json!({"initial_state": "call", "states": {"call": state}}));
        run.history.current().unwrap().limit
    };
    let usual = Some(Duration::from_secs(30));
    assert_eq!(limit(json!({"node_id": "build"}), Value::Null), usual);
    assert_eq!(limit(json!({"node_id": "build", "timeout": null}), Value::Null), usual);
    assert_eq!(limit(json!({"node_id": "build", "timeout": 600}), Value::Null), None);
    assert_eq!(limit(json!({"node_id": "build", "timeout": 600}), json!(2)), Some(Duration::from_secs(2)));
}

#[test]
fn start_records_everything_for_a_replay() {
    let variables = fields(&json!({"user": "ana", "count": 3, "deep": {"a": 1}, "sure": true}));
    let limits = Limits::new(7, 60.0).unwrap();
    let run = Machine::start_with(
        &two_states(),
        Start { session_id: Some("term_1".into()), variables, limits, keep_terminals: true, ..start() },
    );
    let [
        Event::Started { definition, variables, semantics_version: SEMANTICS_VERSION, .. },
        Event::StateEntered { .. },
    ] = &run.last.events[..]
    else {
        panic!("{:?}", run.last.events)
    };
    assert_eq!(**definition, two_states());
    assert_eq!(Value::from(variables.clone()), json!({"user": "ana", "count": "3", "deep": {"a": 1}, "sure": "true"}));
    let [Effect::ArmDeadline { after }, Effect::Perform { step, tool, params, limit }] = &run.last.effects[..] else {
        panic!("{:?}", run.last.effects)
    };
    assert_eq!(*after, Duration::from_secs(60));
    assert_eq!((step.to_string().as_str(), tool.as_str()), ("run_0123456789abcdef/make/1", "send_input"));
    assert_eq!(Value::from(params.clone()), json!({"input_text": "make\n", "session_id": "term_1"}));
    assert_eq!(*limit, Some(Duration::from_secs(30)));
    let standard = |name| run.history.variables().get(name).and_then(Value::as_str);
    assert_eq!(standard("run_id"), Some("run_0123456789abcdef"));
    assert_eq!(standard("workflow_name"), Some("build"));
    assert_eq!(standard("session_id"), Some("term_1"));
}

#[test]
fn invalid_inputs_are_ignored() {
    let mut run = Machine::start(&two_states());
    let first = run.step();
    let succeed = || Outcome::Finished { result: fields(&json!({"success": true})) };
    run.input(Input::Start(start()));
    assert_eq!(run.last, Decision::default(), "a second start");
    run.succeed();
    run.input(Input::Outcome { step: first, outcome: succeed() });
    assert_eq!(run.last, Decision::default(), "an outcome of an earlier step");
    run.succeed();
    let step = "run_0123456789abcdef/wait/1".parse().unwrap();
    for late in
        [Input::Outcome { step, outcome: succeed() }, Input::DeadlinePassed, Input::Cancel { reason: "late".into() }]
    {
        run.input(late);
        assert_eq!(run.last, Decision::default(), "an input after the end");
    }
    let decision = decide(&run.definition, &History::new(), Input::DeadlinePassed, run.now);
    assert_eq!(decision, Decision::default(), "an input before the start");
}

#[test]
fn first_transition_that_holds_is_taken() {
    let mut run = Machine::start(&json!({
        "initial_state": "a",
        "states": {
            "a": typing_state(&json!([
                {"condition": {"success": false}, "next_state": "b"},
                {"condition": {"success": true, "field_equals": {"message": "no"}}, "next_state": "b"},
                {"condition": {"success": true, "field_contains": {"message": "ok"}}, "next_state": "c"},
                {"condition": {}, "next_state": "b"}
            ])),
            "b": typing_state(&json!([])),
            "c": typing_state(&json!([]))
        }
    }));
    run.result(&json!({"success": true, "message": "all ok"}));
    assert_eq!(run.state(), "c");
    assert_eq!(run.because(), "the action succeeded and message contains 'ok'");
}

#[test]
fn conditions_hold_as_listed() {
    let ok = json!({"success": true});
    let broken = json!({"success": false, "error": "broken pipe"});
    let screen = json!({"success": true, "match_text": "v1.2", "screen_content": "built\n$ "});
    let nothing = json!({"success": true, "match_text": null, "screen_content": "still busy"});
    for (tool, transition, result, holds) in [
        ("send_input", json!({"condition": {"success": true}}), &ok, true),
        ("send_input", json!({"condition": {"success": true}}), &broken, false),
        ("send_input", json!({"condition": "success"}), &ok, true),
        ("send_input", json!({"condition": "failure"}), &broken, true),
        ("send_input", json!({"condition": "failure"}), &ok, false),
        // A result without `success` is successful.
        ("list_terminal_sessions", json!({"condition": "success"}), &json!({"sessions": []}), true),
        ("get_screen_content", json!({"condition": {"pattern_match": "^\\$ $"}}), &screen, true),
        ("get_screen_content", json!({"condition": {"pattern_match": "v1\\.2 built"}}), &screen, true),
        ("get_screen_content", json!({"condition": {"pattern_match": "error"}}), &screen, false),
        ("get_screen_content", json!({"condition": {"pattern_not_match": "error"}}), &screen, true),
        ("get_screen_content", json!({"condition": {"pattern_not_match": "built"}}), &screen, false),
        ("get_screen_content", json!({"condition": "pattern_match", "pattern": "built"}), &screen, true),
        ("get_screen_content", json!({"condition": "pattern_no_match", "pattern": "built"}), &screen, false),
        ("get_screen_content", json!({"condition": {"pattern_match": "(?<=built\\n)\\$"}}), &screen, true),
        ("send_input", json!({"condition": {"field_equals": {"error": null}}}), &ok, true),
        ("send_input", json!({"condition": {"field_equals": {"error": "broken pipe"}}}), &broken, true),
        ("send_input", json!({"condition": {"field_contains": {"error": "pipe"}}}), &broken, true),
        ("send_input", json!({"condition": {"field_contains": {"error": ""}}}), &ok, false),
        ("await_output", json!({"condition": {"timeout_occurred": true}}), &nothing, true),
        ("await_output", json!({"condition": {"timeout_occurred": false}}), &nothing, false),
        ("await_output", json!({"condition": "timeout"}), &nothing, true),
        ("await_output", json!({"condition": "timeout"}), &screen, false),
        ("await_output", json!({"condition": {"timeout_occurred": false}}), &screen, true),
        ("send_input", json!({"condition": "timeout"}), &ok, false),
        ("send_input", json!({"condition": {"outcome_unknown": false}}), &ok, true),
        ("send_input", json!({"condition": {"outcome_unknown": true}}), &ok, false),
        ("send_input", json!({"condition": {"success": true, "outcome_unknown": true}}), &ok, false),
    ] {
        let mut run = Machine::start(&deciding_machine(tool, &transition));
        run.result(result);
        assert_eq!(run.state() == "then", holds, "{tool} {transition} {result}");
    }
}

#[test]
fn terminal_screen_is_searched_if_the_result_has_no_text() {
    // Document 001, lines 303-304: pattern_match searches the current screen.
    let session = |run: &Machine, outcome: &Outcome| wants_screen(&run.definition, &run.history, &run.step(), outcome);
    let start_in_terminal = || Start { session_id: Some("term_1".into()), ..start() };
    let list_outcome = Outcome::Finished { result: fields(&json!({"success": true, "total_sessions": 1})) };
    let ready = json!({"condition": {"success": true, "pattern_match": "^ready$"}});
    let document = deciding_machine("list_terminal_sessions", &ready);
    for (screen, expected) in [(Some("$ make\nready"), "then"), (Some("$ make"), "(none)"), (None, "(none)")] {
        let mut run = Machine::start_with(&document, start_in_terminal());
        assert_eq!(session(&run, &list_outcome).as_deref(), Some("term_1"));
        let (step, session_id) = (run.step(), "term_1".to_owned());
        let screen_read = Input::ScreenRead { step, session_id, screen: screen.map(str::to_owned) };
        assert_eq!(run.input(screen_read.clone()).effects, []);
        assert_eq!(session(&run, &list_outcome), None, "the screen is read only once");
        assert_eq!(*run.input(screen_read), Decision::default());
        assert_eq!(History::from_iter(&run.events), run.history);
        run.outcome(list_outcome.clone());
        assert_eq!((run.state(), run.history.variables().get("screen_content")), (expected, None));
    }
    // A timed-out action has no text, so the screen of its terminal is read.
    let mut document = deciding_machine("send_input", &json!({"condition": {"pattern_match": "ready"}}));
    document["states"]["first"]["action"]["params"]["session_id"] = "term_2".into();
    let run = Machine::start_with(&document, start_in_terminal());
    assert_eq!(session(&run, &Outcome::TimedOut).as_deref(), Some("term_2"));
    document["states"]["first"]["on_timeout"] = "then".into();
    let run = Machine::start_with(&document, start_in_terminal());
    assert_eq!(session(&run, &Outcome::TimedOut), None, "on_timeout needs no condition");
    // No screen is read if there is a text, no terminal, or no pattern to decide.
    let wants = |transition: &Value, start: Start, result: &Value| {
        let run = Machine::start_with(&deciding_machine("list_terminal_sessions", transition), start);
        session(&run, &Outcome::Finished { result: fields(result) }).is_some()
    };
    assert!(!wants(&ready, start_in_terminal(), &json!({"success": true, "screen_content": ""})));
    assert!(!wants(&ready, start_in_terminal(), &json!({"success": false})));
    assert!(!wants(&ready, start(), &json!({"success": true})));
    assert!(!wants(&json!({"condition": "success"}), start_in_terminal(), &json!({"success": true})));
    let closing = json!({"condition": {"pattern_match": "ready"}});
    let run = Machine::start_with(&deciding_machine("exit_terminal", &closing), start_in_terminal());
    let closed = Outcome::Finished { result: fields(&json!({"success": true, "session_id": "term_1"})) };
    assert_eq!(session(&run, &closed), None, "the terminal has closed");
}

#[test]
fn failed_action_without_a_transition_fails_the_run() {
    let mut run = Machine::start(&two_states());
    run.result(&json!({"success": false, "error": "Session 'x' not found"}));
    expect!["State 'make' failed: Session 'x' not found"].assert_eq(run.error());
    assert!(matches!(run.history.status(), Status::Failed { reason: FailureReason::ActionFailed, .. }));

    let mut run = Machine::start(&two_states());
    run.result(&json!({"success": false}));
    expect!["State 'make' failed: 'send_input' did not succeed"].assert_eq(run.error());
}

#[test]
fn on_timeout_precedes_all_other_transitions() {
    let mut document = deciding_machine("send_input", &json!({"condition": {}}));
    document["states"]["first"]["on_timeout"] = "late".into();
    document["states"]["first"]["timeout"] = 1.5.into();
    document["states"]["late"] = typing_state(&json!([]));
    let mut run = Machine::start(&document);
    assert_eq!(run.history.current().unwrap().limit, Some(Duration::from_millis(1500)));
    run.outcome(Outcome::TimedOut);
    assert_eq!((run.state(), run.because()), ("late", "the state timed out"));
}

#[test]
fn timed_out_state_without_on_timeout_uses_its_conditions() {
    let mut run = Machine::start(&deciding_machine("send_input", &json!({"condition": {"timeout_occurred": true}})));
    run.outcome(Outcome::TimedOut);
    assert_eq!((run.state(), run.because()), ("then", "time ran out"));
    assert_eq!(run.history.variables().get("error"), Some(&json!("State 'first' timed out after 30s")));
    assert_eq!(run.history.variables().get("first_success"), Some(&json!(false)));

    let mut run = Machine::start(&deciding_machine("send_input", &json!({"condition": "success"})));
    run.outcome(Outcome::TimedOut);
    expect!["State 'first' timed out after 30s"].assert_eq(run.error());
}

#[test]
fn unmatched_await_takes_on_timeout_after_all_transitions() {
    let nothing = json!({"success": true, "match_text": null, "screen_content": "busy", "timeout_occurred": true});
    let mut document = deciding_machine("await_output", &json!({"condition": {"pattern_match": "busy"}}));
    document["states"]["first"]["on_timeout"] = "late".into();
    document["states"]["late"] = typing_state(&json!([]));
    let mut run = Machine::start(&document);
    run.result(&nothing);
    assert_eq!(run.state(), "then");

    document["states"]["first"]["transitions"][0]["condition"] = json!({"pattern_match": "ready"});
    let mut run = Machine::start(&document);
    run.result(&nothing);
    assert_eq!((run.state(), run.because()), ("late", "the output did not appear"));

    document["states"]["first"].as_object_mut().unwrap().remove("on_timeout");
    let mut run = Machine::start(&document);
    run.result(&nothing);
    expect!["State 'first' failed: /x/ did not appear"].assert_eq(run.error());
}

#[test]
fn unmatched_wait_is_not_a_success() {
    let nothing = json!({"success": true, "match_text": null, "screen_content": "busy", "reason": "timeout"});
    let exited = json!({"success": true, "match_text": null, "reason": "exit", "exit_code": 1});
    for (condition, result, taken) in [
        ("success", &nothing, false),
        ("success", &exited, false),
        ("failure", &nothing, true),
        ("timeout", &exited, true),
    ] {
        let mut run = Machine::start(&deciding_machine("await_output", &json!({"condition": condition})));
        run.result(result);
        assert_eq!(run.state() == "then", taken, "{condition} after {result}");
    }
    let mut run = Machine::start(&deciding_machine("await_output", &json!({"condition": "success"})));
    run.result(&exited);
    expect!["State 'first' failed: the program ended with exit code 1 before /x/ came"].assert_eq(run.error());
    assert_eq!(run.history.variables().get("first_success"), Some(&json!(false)));
    // The judged outcome is stored.
    let Some(Event::StateCompleted { outcome: Outcome::Finished { result }, .. }) = run.last.events.first() else {
        panic!("{:?}", run.last.events)
    };
    assert_eq!((&result["success"], &result["reason"]), (&json!(false), &json!("exit")));
}

#[test]
fn transition_treating_an_unmatched_wait_as_success_is_warned() {
    let warned = |transitions: Value| {
        let state =
            json!({"action": {"tool": "await_output", "params": {"pattern": "ok"}}, "transitions": transitions});
        let document = json!({"initial_state": "wait", "states": {"wait": state, "end": typing_state(&json!([]))}});
        definition(&document).warnings().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let to = |condition: Value| json!({"condition": condition, "next_state": "end"});
    for fine in [
        json!([to(json!("success"))]),
        json!([to(json!({"pattern_match": "^ok"})), to(json!("success"))]),
        json!([to(json!({"pattern_match": "ok"})), to(json!("timeout"))]),
        json!([to(json!({"pattern_match": "ok"})), to(json!({}))]),
        json!([to(json!("failure")), to(json!("success"))]),
    ] {
        assert_eq!(warned(fine.clone()), "", "{fine}");
    }
    expect![
        "/states/wait/transitions/0/condition: warning: never holds: a wait that finds nothing fails; remove 'success'"
    ]
    .assert_eq(&warned(json!([to(json!({"success": true, "timeout_occurred": true}))])));
    for first in [json!({"pattern_match": "ok"}), json!({"success": true, "timeout_occurred": false})] {
        expect![[r#"/states/wait/transitions/1/condition: warning: is not taken if the wait finds nothing, because that is a failure; use the condition "timeout" for it, or {} for all other results"#]]
            .assert_eq(&warned(json!([to(first), to(json!("success"))])));
    }
}

#[test]
fn any_failed_action_takes_on_timeout_after_all_transitions() {
    // Document 000, lines 1252-1301 (test_timeout_handling): recovery from a wait in a missing session.
    let broken = json!({"success": false, "error": "Session 'x' not found"});
    for tool in ["await_output", "send_input", "open_terminal", "list_terminal_sessions"] {
        let mut document = deciding_machine(tool, &json!({"condition": "success"}));
        document["states"]["first"]["on_timeout"] = "mend".into();
        document["states"]["mend"] = typing_state(&json!([]));
        let mut run = Machine::start(&document);
        run.result(&broken);
        assert_eq!((run.state(), run.because()), ("mend", "the action failed"), "{tool}");

        document["states"]["first"]["transitions"][0]["condition"] = "failure".into();
        let mut run = Machine::start(&document);
        run.result(&broken);
        assert_eq!(run.state(), "then", "a transition comes first: {tool}");

        let mut run = Machine::start(&document);
        run.result(&json!({"success": true, "match_text": "x"}));
        assert!(run.completed(), "{tool}");
    }
}

#[test]
fn unknown_outcome_does_not_take_on_timeout() {
    let mut document = deciding_machine("send_input", &json!({"condition": "success"}));
    document["states"]["first"]["on_timeout"] = "then".into();
    let mut run = Machine::start(&document);
    run.outcome(Outcome::Unknown);
    assert!(run.error().starts_with("State 'first' failed: It is not known whether 'send_input' happened"));
}

#[test]
fn workflow_judges_an_unknown_outcome() {
    let mut run = Machine::start(&deciding_machine("send_input", &json!({"condition": {"outcome_unknown": true}})));
    run.outcome(Outcome::Unknown);
    assert_eq!((run.state(), run.because()), ("then", "the outcome is unknown"));

    let mut run = Machine::start(&two_states());
    run.outcome(Outcome::Unknown);
    expect![
        "State 'make' failed: It is not known whether 'send_input' happened: the daemon, the terminal or its host ended in the meantime"
    ]
    .assert_eq(run.error());
}

#[test]
fn state_is_limited_by_its_timeout_or_its_action() {
    for (action, timeout, expected) in [
        (json!({"tool": "send_input"}), json!(null), Some(30_000)),
        (json!({"tool": "open_terminal"}), json!(2), Some(2_000)),
        (json!({"tool": "await_output", "params": {"pattern": "x"}}), json!(null), None),
        (json!({"tool": "await_output", "params": {"pattern": "x"}}), json!(0.1), Some(100)),
        (json!({"tool": "sleep", "params": {"seconds": 90}}), json!(null), None),
    ] {
        let state = json!({"action": action, "timeout_seconds": timeout});
        let run = Machine::start(&json!({"initial_state": "s", "states": {"s": state}}));
        let limit = run.history.current().unwrap().limit;
        assert_eq!(limit, expected.map(Duration::from_millis), "{action} {timeout}");
    }
}

#[test]
fn last_allowed_state_may_finish_but_not_continue() {
    let mut run = Machine::start_with(&two_states(), limited_start(2));
    run.succeed();
    run.result(&json!({"success": true, "match_text": "$"}));
    assert!(run.completed());
    assert_eq!(run.history.states_executed(), 2);

    let mut run = Machine::start_with(&looping_machine(), limited_start(3));
    run.succeed();
    run.succeed();
    assert_eq!(run.step().visit, 3);
    run.succeed();
    expect!["Maximum states limit (3) reached - possible infinite loop"].assert_eq(run.error());
    assert_eq!((run.history.states_executed(), run.history.final_state()), (3, Some("again")));
}

#[test]
fn deadline_ends_the_run_immediately() {
    let mut run = Machine::start(&terminals());
    run.result(&json!({"success": true, "session_id": "term_1"}));
    let step = run.step();
    run.input(Input::DeadlinePassed);
    // Document 000, line 453, and then the state.
    expect!["Workflow execution timeout (1800.0s) exceeded in state 'type'"].assert_eq(run.error());
    assert_eq!(run.last.effects[0], Effect::Abandon { step });
    assert_eq!(run.closed(), ["term_1"]);
    assert_eq!(run.history.current(), None);
}

#[test]
fn cancelling_closes_only_terminals_of_the_run() {
    let mut run = Machine::start_with(&terminals(), Start { session_id: Some("term_mine".into()), ..start() });
    run.result(&json!({"success": true, "session_id": "term_1"}));
    run.input(Input::Cancel { reason: "wrong branch".into() });
    assert_eq!(*run.history.status(), Status::Cancelled { reason: "wrong branch".into() });
    assert_eq!(run.closed(), ["term_1"]);
}

#[test]
fn terminals_stay_open_if_the_run_keeps_them() {
    let mut run = Machine::start_with(&terminals(), Start { keep_terminals: true, ..start() });
    run.result(&json!({"success": true, "session_id": "term_1"}));
    run.result(&json!({"success": false, "error": "gone"}));
    expect!["State 'type' failed: gone"].assert_eq(run.error());
    assert_eq!(run.closed(), [""; 0]);
    assert_eq!(run.history.open_terminals(), ["term_1"]);
}

#[test]
fn actions_use_the_last_opened_terminal_that_is_open() {
    let mut run = Machine::start(&terminals());
    run.result(&json!({"success": true, "session_id": "term_1"}));
    assert_eq!(run.params()["session_id"], "term_1");
    run.result(&json!({"success": true, "message": "another"}));
    assert_eq!(run.params(), json!({}), "opening takes no session");
    run.result(&json!({"success": true, "session_id": "term_2"}));
    assert_eq!(run.params()["session_id"], "term_2");
    run.result(&json!({"success": true, "message": "close"}));
    assert_eq!(run.params()["session_id"], "term_2");
    run.result(&json!({"success": true, "session_id": "term_2"}));
    assert_eq!(run.params()["session_id"], "term_1");
    run.result(&json!({"success": false}));
    assert_eq!(run.closed(), ["term_1"], "the other terminal is already closed");
}

#[test]
fn named_terminal_precedes_given_and_opened_ones() {
    let mut document = terminals();
    let mut run = Machine::start_with(&document, Start { session_id: Some("term_mine".into()), ..start() });
    run.result(&json!({"success": true, "session_id": "term_1"}));
    assert_eq!(run.params()["session_id"], "term_mine");

    document["states"]["type"]["action"]["params"]["session_id"] = "{open_session_id}".into();
    let mut run = Machine::start_with(&document, Start { session_id: Some("term_mine".into()), ..start() });
    run.result(&json!({"success": true, "session_id": "term_1"}));
    assert_eq!(run.params()["session_id"], "term_1");
}

#[test]
fn unopened_terminal_does_not_belong_to_the_run() {
    let mut run = Machine::start(&terminals());
    run.result(&json!({"success": false, "session_id": "", "error": "no such shell"}));
    assert_eq!(run.history.open_terminals(), [""; 0]);
    assert_eq!(run.closed(), [""; 0]);
}

#[test]
fn parameters_take_variables_from_earlier_states() {
    let state = |params: Value, next: &str| {
        json!({
            "action": {"tool": "send_input", "params": params},
            "transitions": [{"condition": {}, "next_state": next}]
        })
    };
    let mut run = Machine::start_with(
        &json!({
            "initial_state": "first",
            "states": {
                "first": state(json!({"input_text": "hi {user}, ${nobody} {{user}}"}), "second"),
                "second": state(json!({
                    "input_text": "{exit_code}",
                    "wait_for_quiet_ms": "{exit_code}",
                    "text": "{match_text}/{first_match_text}/{success}/{error}"
                }), "third"),
                "third": state(json!({"input_text": "{first_match_text|sh} {match_text}", "again": "${third_x}"}), "first")
            }
        }),
        Start { variables: fields(&json!({"user": "ana"})), ..start() },
    );
    assert_eq!(run.params(), json!({"input_text": "hi ana, ${nobody} {user}"}));
    run.result(&json!({"success": false, "error": "oh", "match_text": "{user} it's", "exit_code": 3}));
    assert_eq!(
        run.params(),
        json!({"input_text": "3", "wait_for_quiet_ms": 3, "text": "{user} it's/{user} it's/false/oh"})
    );
    run.result(&json!({"success": true, "match_text": null}));
    // A null overwrites nothing.
    let quoted = r"'{user} it'\''s' {user} it's";
    assert_eq!(run.params(), json!({"input_text": quoted, "again": "${third_x}"}));
}

#[test]
fn conditions_see_the_variables_before_the_action() {
    let mut run = Machine::start(&json!({
        "initial_state": "before",
        "states": {
            "before": {"action": {"tool": "get_screen_content"}, "transitions": [{"condition": {}, "next_state": "after"}]},
            "after": {
                "action": {"tool": "get_screen_content"},
                "transitions": [{"condition": {"field_equals": {"screen_content": "{screen_content}"}}, "next_state": "same"}]
            },
            "same": typing_state(&json!([]))
        }
    }));
    run.result(&json!({"success": true, "screen_content": "{3}"}));
    run.result(&json!({"success": true, "screen_content": "{3}"}));
    assert_eq!((run.state(), run.because()), ("same", "screen_content equals \"{3}\""));
}

#[test]
fn invalid_resolved_pattern_fails_the_run() {
    let document = deciding_machine("send_input", &json!({"condition": {"pattern_match": "{prompt}$"}}));
    let with = |prompt: &str| Start { variables: fields(&json!({ "prompt": prompt })), ..start() };
    let mut run = Machine::start_with(&document, with("a("));
    run.succeed();
    expect!["State 'first': pattern 'a($' does not compile: unclosed group at position 1"].assert_eq(run.error());

    let mut run = Machine::start_with(&document, with(r"(a*)*\1c"));
    run.result(&json!({"success": true, "screen_content": format!("{}!c", "a".repeat(60))}));
    expect![[r"State 'first': pattern '(a*)*\1c$' takes too much work on this text"]].assert_eq(run.error());
    assert!(matches!(run.history.status(), Status::Failed { reason: FailureReason::BadPattern, .. }));
}

#[test]
fn restart_does_not_lengthen_a_sleep() {
    let document = json!({
        "initial_state": "pause",
        "states": {"pause": {"action": {"tool": "sleep", "params": {"seconds": "{pause}"}}}}
    });
    let with = |pause: &str| Start { variables: fields(&json!({ "pause": pause })), ..start() };
    let mut run = Machine::start_with(&document, with("90"));
    let until = run.now.after(Duration::from_secs(90));
    let sleep = Effect::Sleep { step: run.step(), until, limit: None };
    assert_eq!(run.last.effects[1], sleep);
    run.wait(Duration::from_secs(80));
    assert_eq!(
        resume(&run.history, run.now),
        [Effect::ArmDeadline { after: Duration::from_secs(1720) }, sleep],
        "the sleep is requested again after a restart"
    );
    run.succeed();
    assert!(run.completed());

    let run = Machine::start_with(&document, with("soon"));
    expect![[r#"State 'pause': 'seconds' of a sleep must be a number from 0 to 7200, not "soon""#]]
        .assert_eq(run.error());
}

#[test]
fn restart_repeats_requests_without_an_outcome() {
    let mut run = Machine::start(&terminals());
    assert_eq!(resume(&run.history, run.now), run.last.effects);
    run.result(&json!({"success": true, "session_id": "term_1"}));
    let [Effect::Perform { step, tool, params, limit: Some(limit) }] = run.last.effects.as_slice() else {
        panic!("{:?}", run.last.effects)
    };
    let asked_within =
        |limit| Effect::Perform { step: step.clone(), tool: tool.clone(), params: params.clone(), limit: Some(limit) };
    let (limit, asked) = (*limit, |limit| vec![asked_within(limit)]);
    let soon = Timestamp(run.now.0 + 2_000_000);
    assert_eq!(resume(&run.history, soon)[1..], asked(limit - Duration::from_secs(2)));
    let next_hour = Timestamp(run.now.0 + 3_600_000_000);
    assert_eq!(
        resume(&run.history, next_hour),
        [vec![Effect::ArmDeadline { after: Duration::ZERO }], asked(Duration::from_secs(1))].concat(),
        "the daemon's downtime counts, but a late outcome is still evaluated"
    );
    run.input(Input::Cancel { reason: "enough".into() });
    assert_eq!(resume(&run.history, run.now), [Effect::CloseTerminal { session_id: "term_1".into() }]);
    assert_eq!(resume(&History::new(), run.now), []);
}

#[test]
fn possibly_opened_terminal_is_closed() {
    // The run ends during the opening, or does not learn its outcome.
    type End = fn(&mut Machine);
    let ends: [(&str, End); 4] = [
        ("cancelled", |run| drop(run.input(Input::Cancel { reason: "enough".into() }).clone())),
        ("out of time", |run| drop(run.input(Input::DeadlinePassed).clone())),
        ("timed out", |run| drop(run.outcome(Outcome::TimedOut).clone())),
        ("unknown", |run| drop(run.outcome(Outcome::Unknown).clone())),
    ];
    for (name, end) in ends {
        let mut run = Machine::start(&terminals());
        let step = run.step();
        end(&mut run);
        assert!(run.history.error().is_some(), "{name}");
        let close = Effect::CloseOpened { step };
        assert!(run.last.effects.contains(&close), "{name}: {:?}", run.last.effects);
        assert_eq!(resume(&run.history, run.now), [close], "{name}: a daemon that resumes the run closes it");
    }
    // The opening reports failure but names a terminal.
    let mut run = Machine::start(&terminals());
    run.result(&json!({"success": false, "error": "no prompt came", "session_id": "term_1"}));
    assert!(run.history.error().is_some());
    let close = [Effect::CloseTerminal { session_id: "term_1".into() }];
    assert_eq!(run.last.effects, close);
    assert_eq!(resume(&run.history, run.now), close);
    // A failed opening without a terminal leaves nothing to close.
    let mut run = Machine::start(&terminals());
    run.result(&json!({"success": false, "error": "no such program", "session_id": ""}));
    assert_eq!(resume(&run.history, run.now), []);
}

#[test]
fn history_of_another_definition_fails_without_a_panic() {
    let mut run = Machine::start(&two_states());
    run.definition = definition(&looping_machine());
    run.succeed();
    expect!["State 'make' is not in this definition"].assert_eq(run.error());
}

#[test]
fn log_describes_the_run() {
    let mut run = Machine::start_with(&two_states(), Start { variables: fields(&json!({"user": "ana"})), ..start() });
    run.now = Timestamp(1_700_000_000_000_000);
    run.result(&json!({"success": true, "message": "sent"}));
    run.result(&json!({"success": false, "error": "Session 'x' not found"}));
    let log = serde_json::to_value(run.log()).unwrap();
    assert_eq!(
        log,
        json!([
            {
                "phase": "execution", "state": "make", "tool": "send_input", "params": {"input_text": "make\n"},
                "result": {"success": true, "message": "sent"},
                "variables_after": {
                    "user": "ana", "run_id": "run_0123456789abcdef", "workflow_name": "build", "success": true,
                    "message": "sent", "error": null, "make_success": true, "make_message": "sent"
                },
                "tool_success": true, "elapsed_time": 0.25
            },
            {
                "phase": "transition", "from_state": "make", "to_state": "wait", "condition_met": true,
                "because": "the action succeeded", "state": "make", "next_state": "wait"
            },
            {
                "phase": "execution", "state": "wait", "tool": "await_output",
                "params": {"pattern": "\\$ $", "timeout": 60},
                "result": {"success": false, "error": "Session 'x' not found"},
                "variables_after": {
                    "user": "ana", "run_id": "run_0123456789abcdef", "workflow_name": "build", "success": false,
                    "message": "sent", "error": "Session 'x' not found",
                    "wait_success": false, "wait_error": "Session 'x' not found"
                },
                "tool_success": false, "elapsed_time": 0.25
            },
            {
                "phase": "transition", "from_state": "wait", "to_state": null, "condition_met": false,
                "message": "No matching transition condition", "state": "wait"
            },
            {"phase": "error", "state": "wait", "error": "State 'wait' failed: Session 'x' not found"}
        ])
    );
}

#[test]
fn log_of_a_cancelled_run_has_the_cancellation() {
    let mut run = Machine::start(&two_states());
    run.input(Input::Cancel { reason: "enough".into() });
    assert_eq!(run.log(), [LogEntry::Error { state: Some("make".into()), error: "Cancelled: enough".into() }]);
}
