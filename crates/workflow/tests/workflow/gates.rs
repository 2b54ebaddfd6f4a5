//! Gates of a machine.

use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use steplatch_workflow::{
    AnsweredBy, By, Decision, Effect, FailureReason, History, Input, NONE_OF_THESE, Outcome, Start, Status, resume,
    terminals_ahead,
};

use crate::machine::{Machine, fields, problems, start};

fn final_state(tool: &str) -> Value {
    json!({"action": {"tool": tool, "params": {"input_text": "{answer}"}}})
}

/// Returns a machine with judged transitions between decidable transitions.
fn judged_state() -> Value {
    json!({
        "initial_state": "build",
        "states": {
            "build": {
                "action": {"tool": "send_input"},
                "transitions": [
                    {"condition": {"field_equals": {"exit_code": 2}}, "next_state": "mend"},
                    {"condition": {"description": "no warnings", "success": true}, "next_state": "ship"},
                    {"condition": {"description": "only old warnings from {run_id}"}, "next_state": "note"},
                    {"condition": {"field_equals": {"exit_code": 1}}, "next_state": "mend"},
                    {"condition": {"description": "never asked after exit code 1"}, "next_state": "note"}
                ]
            },
            "ship": final_state("send_input"), "note": final_state("send_input"), "mend": {"action": {"tool": "send_input"}}
        }
    })
}

fn at_gate(result: &Value) -> Machine {
    let mut run = Machine::start(&judged_state());
    run.result(result);
    run
}

fn choices(run: &Machine) -> Vec<String> {
    let gates = run.last.effects.iter().filter_map(|effect| match effect {
        Effect::OpenGate { choices, .. } => Some(choices.clone()),
        _ => None,
    });
    gates.flatten().collect()
}

fn answer(run: &mut Machine, choice: &str) {
    let step = run.history.gate().expect("a gate is open").step.clone();
    run.input(Input::GateAnswered { step, choice: choice.to_owned(), by: "ana".into() });
}

#[test]
fn gate_offers_choices_before_the_first_decided_transition() {
    let run = at_gate(&json!({"success": true, "exit_code": 0, "screen_content": "built"}));
    assert_eq!(*run.history.status(), Status::Waiting);
    assert_eq!(
        choices(&run),
        ["no warnings", "only old warnings from run_0123456789abcdef", "never asked after exit code 1", NONE_OF_THESE]
    );
    assert_eq!(run.history.gate().unwrap().context["screen_content"], "built");
    let run = at_gate(&json!({"success": false, "exit_code": 1}));
    assert_eq!(choices(&run), ["only old warnings from run_0123456789abcdef", NONE_OF_THESE]);
    let run = at_gate(&json!({"success": true, "exit_code": 2}));
    assert_eq!((run.state(), choices(&run)), ("mend", Vec::new()));
}

/// The screen of the state that opened the terminal does not show what the command printed.
#[test]
fn gate_shows_the_last_result_and_no_older_screen() {
    let step = |tool: &str, params: Value, next: &str| json!({"action": {"tool": tool, "params": params}, "transitions": [{"condition": "success", "next_state": next}]});
    let mut run = Machine::start(&json!({"initial_state": "open", "states": {
        "open": step("open_terminal", json!({}), "plan"),
        "plan": step("run_command", json!({"command": "./plan"}), "nap"),
        "nap": step("sleep", json!({"seconds": 0}), "ask"),
        "ask": {"action": {"tool": "gate", "params": {"prompt": "Apply?"}}},
    }}));
    run.result(&json!({"success": true, "session_id": "t", "screen_content": "me@host:~$"}));
    run.result(&json!({"success": true, "exit_code": 0, "output": "3 servers change\n"}));
    run.result(&json!({"success": true}));
    assert_eq!(Value::from(run.history.gate().unwrap().context.clone()), json!({"output": "3 servers change"}));

    // A long output keeps its end, and reports the omission.
    let mut run = Machine::start(&json!({"initial_state": "plan", "states": {
        "plan": step("run_command", json!({"command": "./plan"}), "ask"),
        "ask": {"action": {"tool": "gate", "params": {"prompt": "Apply?"}}},
    }}));
    run.result(&json!({"success": true, "exit_code": 0, "output": format!("{}end", "x".repeat(8000))}));
    let context = &run.history.gate().unwrap().context;
    let output = context["output"].as_str().unwrap();
    assert!(output.starts_with("[3 characters before this are not shown]\nx") && output.ends_with("end"), "{output}");
}

#[test]
fn answer_selects_the_transition_and_is_a_variable() {
    let mut run = at_gate(&json!({"success": true}));
    answer(&mut run, "no warnings");
    assert_eq!((run.state(), run.because()), ("ship", "ana judged: no warnings"));
    assert_eq!(run.params(), json!({"input_text": "no warnings"}));
    assert_eq!(run.history.variables().get("answer"), Some(&json!("no warnings")));
    assert_eq!(*run.history.status(), Status::Running);
}

#[test]
fn none_of_these_takes_the_default_path() {
    let mut run = at_gate(&json!({"success": false, "exit_code": 1}));
    answer(&mut run, NONE_OF_THESE);
    assert_eq!(run.state(), "mend");
    let mut run = at_gate(&json!({"success": true}));
    answer(&mut run, NONE_OF_THESE);
    assert!(run.completed());
    let mut run = at_gate(&json!({"success": false, "error": "no"}));
    answer(&mut run, NONE_OF_THESE);
    expect!["State 'build' failed: no"].assert_eq(run.error());
}

#[test]
fn unexpected_result_asks_for_the_next_state() {
    let document = json!({
        "initial_state": "wait",
        "states": {
            "wait": {
                "action": {"tool": "await_output", "params": {"pattern": "^Port: *$"}},
                "transitions": [{"condition": "success", "next_state": "type"}],
                "on_unknown": "ask"
            },
            "type": final_state("send_input"),
            "end": final_state("send_input")
        }
    });
    let unknown = json!({"success": true, "match_text": null, "reason": "timeout", "screen_content": "Ports: "});
    let at_gate = || {
        let mut run = Machine::start(&document);
        run.result(&unknown);
        run
    };
    let mut run = at_gate();
    assert_eq!(*run.history.status(), Status::Waiting);
    assert_eq!(choices(&run), ["go on with 'type'", "do 'wait' again", "go to 'end'", NONE_OF_THESE]);
    let gate = run.history.gate().unwrap();
    assert_eq!((&gate.context["expected"], &gate.context["nearest_line"]), (&json!("^Port: *$"), &json!("Ports:")));
    assert!(gate.prompt().starts_with("State 'wait' failed: /^Port: *$/ did not appear"), "{}", gate.prompt());
    answer(&mut run, "go on with 'type'");
    assert_eq!(run.state(), "type");
    let mut run = at_gate();
    answer(&mut run, "do 'wait' again");
    assert_eq!(run.state(), "wait");
    let mut run = at_gate();
    answer(&mut run, NONE_OF_THESE);
    assert!(matches!(run.history.status(), Status::Failed { reason: FailureReason::Unexpected, .. }));
}

#[test]
fn unknown_or_late_answers_are_ignored() {
    let mut run = at_gate(&json!({"success": true}));
    let step = run.history.gate().unwrap().step.clone();
    answer(&mut run, "perhaps");
    assert_eq!(run.last, Decision::default());
    run.input(Input::Outcome { step: step.clone(), outcome: Outcome::Unknown });
    assert_eq!(run.last, Decision::default());
    answer(&mut run, "no warnings");
    run.input(Input::GateAnswered { step, choice: NONE_OF_THESE.into(), by: "bo".into() });
    assert_eq!((run.last.clone(), run.state()), (Decision::default(), "ship"));
}

#[test]
fn time_at_a_gate_does_not_count() {
    let mut run = Machine::start(&judged_state());
    run.wait(Duration::from_secs(1000));
    run.result(&json!({"success": true}));
    assert_eq!(run.last.effects[0], Effect::DisarmDeadline);
    run.wait(Duration::from_secs(86_400));
    run.input(Input::DeadlinePassed);
    assert_eq!(run.last, Decision::default(), "the deadline does not apply at a gate");
    let effects = resume(&run.history, run.now);
    assert!(matches!(effects[..], [Effect::OpenGate { .. }]), "{effects:?}");
    answer(&mut run, "no warnings");
    let remaining = Duration::from_micros(1_800_000_000 - 1_000_250_000);
    assert_eq!(run.last.effects[0], Effect::ArmDeadline { after: remaining });
    assert_eq!(resume(&run.history, run.now)[0], Effect::ArmDeadline { after: remaining });
    assert_eq!(History::from_iter(&run.events), run.history);
}

#[test]
fn run_at_a_gate_can_be_cancelled() {
    let mut run = Machine::start_with(&judged_state(), Start { session_id: Some("term_1".into()), ..start() });
    run.result(&json!({"success": true}));
    let step = run.history.gate().unwrap().step.clone();
    run.input(Input::Cancel { reason: "enough".into() });
    assert_eq!(run.last.effects, [Effect::Abandon { step }]);
    assert!(run.history.is_over() && run.history.gate().is_none());
}

#[test]
fn unanswerable_descriptions_are_refused() {
    let document = |descriptions: &[Value]| {
        let mut document = judged_state();
        document["states"]["build"]["transitions"] = descriptions
            .iter()
            .map(|description| json!({"condition": {"description": description}, "next_state": "ship"}))
            .collect();
        document["states"]["ship"]["transitions"] = json!([
            {"condition": {"success": true}, "next_state": "note"}, {"condition": {"success": false}, "next_state": "mend"}
        ]);
        document
    };
    let descriptions =
        [json!("same"), json!("same"), json!(" "), json!("none of these"), json!(7), json!("x".repeat(501))];
    expect![[r#"
        /states/build/transitions/2/condition/description: 'description' must have 1 to 500 characters and not only spaces, not 1
        /states/build/transitions/3/condition/description: 'none of these' is always offered as a choice
        /states/build/transitions/4/condition/description: 'description' must be a string, not 7
        /states/build/transitions/5/condition/description: 'description' must have 1 to 500 characters and not only spaces, not 501
        /states/build/transitions/1/condition/description: another transition of this state has the same description"#]]
    .assert_eq(&problems(&document(&descriptions)));
}

/// A machine that opens a gate before it continues.
fn asking_machine(params: &Value) -> Value {
    json!({
        "initial_state": "ask",
        "states": {
            "ask": {
                "action": {"tool": "gate", "params": params},
                "transitions": [
                    {"condition": {"field_equals": {"answer": "ship"}}, "next_state": "ship"},
                    {"condition": "timeout", "next_state": "late"},
                ],
            },
            "ship": {"action": {"tool": "send_input", "params": {"input_text": "ship # {answer} {ask_by}\n"}}},
            "late": {"action": {"tool": "send_input", "params": {"input_text": "late\n"}}},
        },
    })
}

fn try_answer(run: &mut Machine, choice: &str) -> bool {
    let step = run.history.gate().expect("a gate is open").step.clone();
    let input = Input::GateAnswered { step, choice: choice.into(), by: "ann".into() };
    !run.input(input).events.is_empty()
}

#[test]
fn action_asks_and_the_answer_is_its_result() {
    let params = json!({"prompt": "Ship {what}?", "choices": ["ship", "stop"]});
    let start = Start { variables: fields(&json!({"what": "it"})), ..start() };
    let mut run = Machine::start_with(&asking_machine(&params), start);
    let gate = run.history.gate().unwrap();
    assert_eq!((gate.prompt().as_str(), gate.choices()), ("Ship it?", vec!["ship", "stop"]));
    assert_eq!(gate.answered_by(), AnsweredBy::Human);
    assert_eq!(run.history.status(), &Status::Waiting);
    let time_left = run.history.time_left(run.now);
    run.wait(Duration::from_secs(100_000));
    assert_eq!(run.history.time_left(run.now), time_left, "the time of a gate does not count");
    assert!(!try_answer(&mut run, "perhaps"), "an unknown choice is ignored");
    assert!(try_answer(&mut run, "ship"));
    assert_eq!(run.params()["input_text"], "ship # ship ann\n");
    let rearmed =
        run.last.effects.iter().any(|effect| matches!(effect, Effect::ArmDeadline { after } if *after == time_left));
    assert!(rearmed, "{:?}", run.last.effects);
    assert!(run.history.gate().is_none());
}

#[test]
fn open_question_takes_any_text_and_unanswered_one_times_out() {
    let mut run = Machine::start(&asking_machine(&json!({"prompt": "How?", "timeout": "60", "answered_by": "anyone"})));
    assert!(run.history.gate().unwrap().choices().is_empty());
    let expires = run.history.gate().unwrap().expires_at().unwrap();
    assert_eq!(expires.since(run.now), Duration::from_secs(60));
    let step = run.history.gate().unwrap().step.clone();
    run.wait(Duration::from_secs(61));
    // A restarted daemon opens the gate again, with the same deadline.
    let repeated_effects = resume(&run.history, run.now);
    assert!(
        matches!(&repeated_effects[..], [Effect::OpenGate { .. }, Effect::ExpireGate { at, .. }] if *at == expires),
        "{repeated_effects:?}"
    );
    let failed = Outcome::Finished { result: fields(&json!({"success": false})) };
    assert!(run.input(Input::Outcome { step: step.clone(), outcome: failed }).events.is_empty());
    run.input(Input::Outcome { step: step.clone(), outcome: Outcome::TimedOut });
    assert_eq!(run.state(), "late");
    assert!(
        run.input(Input::GateAnswered { step, choice: "x".into(), by: "bob".into() }).events.is_empty(),
        "the answer is too late"
    );
    let mut run = Machine::start(&asking_machine(&json!({"prompt": "How?"})));
    assert!(try_answer(&mut run, "gently"));
    assert!(run.completed(), "an answer without a transition is still a success");
}

#[test]
fn invalid_question_is_reported_in_advance_and_when_asked() {
    let problems = |params: &Value| problems(&asking_machine(params));
    for (params, problem) in [
        (json!({}), "'prompt' must contain the question"),
        (json!({"prompt": " "}), "/params/prompt: 'prompt' must contain the question"),
        (json!({"prompt": "?", "choices": []}), "'choices' must have 1 to 20 entries"),
        (json!({"prompt": "?", "choices": ["a", "a"]}), "'choices' has duplicate entries"),
        (json!({"prompt": "?", "timeout": -1}), "'timeout' of a gate must be a number of seconds"),
        (
            json!({"prompt": "?", "form": {"properties": {"a": {"type": "map"}}}}),
            "/params/form: field 'a' has type \"map\"",
        ),
        (json!({"prompt": "?", "form": {"properties": {"by": {"type": "string"}}}}), "'by' is a reserved variable"),
        (
            json!({"prompt": "?", "choices": ["a"], "form": {"properties": {"a": {"type": "string"}}}}),
            "a gate must have either 'choices' or a 'form', not both",
        ),
        (json!({"prompt": "?", "approvers": 7}), "'approvers' must be the name of a group of notifications, or a list"),
        (json!({"prompt": "?", "approvers": ["the team"]}), "'approvers' must be the name of a group"),
        (json!({"prompt": "?", "escalate_after": {"leads": "soon"}}), "'escalate_after' must have groups"),
        (
            json!({"prompt": "?", "escalate_after": 60}),
            "'escalate_after' must have groups of notifications with seconds",
        ),
        (json!({"prompt": "?", "answered_by": "cat"}), "'answered_by' must be human, agent or anyone, not \"cat\""),
        (json!({"prompt": "?", "choice": ["a"]}), "unknown key 'choice' in a gate, did you mean 'choices'?"),
    ] {
        let found = problems(&params);
        assert!(found.contains(problem), "no {problem:?} in {found}");
    }
    let start = Start { variables: fields(&json!({"wait": "soon"})), ..start() };
    let run = Machine::start_with(&asking_machine(&json!({"prompt": "?", "timeout": "{wait}"})), start);
    assert!(run.error().starts_with("State 'ask': 'timeout' of a gate must be a number"), "{}", run.error());
}

#[test]
fn form_fields_are_parts_of_the_result() {
    let form = json!({"type": "object", "required": ["version"], "properties": {
        "version": {"type": "string", "title": "Version of {what}"},
        "count": {"type": "integer", "minimum": 1, "default": 2},
    }});
    let mut document = asking_machine(&json!({"prompt": "Which?", "form": form}));
    document["states"]["ask"]["transitions"][0]["condition"] = json!({"field_equals": {"count": 3}});
    document["states"]["ship"]["action"]["params"]["input_text"] =
        json!("{ask_version} x{ask_count} {answer} {ask_by}");
    let tea_start = || Start { variables: fields(&json!({"what": "tea"})), ..start() };
    let mut run = Machine::start_with(&document, tea_start());
    let form_schema = run.history.gate().unwrap().form().unwrap().clone();
    assert_eq!(form_schema["properties"]["version"]["title"], "Version of tea");
    let opens = run.last.effects.iter().any(|effect| matches!(effect, Effect::OpenGate { form: Some(_), .. }));
    assert!(opens, "{:?}", run.last.effects);
    for wrong in ["3", "{}", r#"{"version": "1", "count": 0}"#, r#"{"version": "1", "who": 1}"#] {
        assert!(!try_answer(&mut run, wrong), "{wrong}");
        assert_eq!(run.history.status(), &Status::Waiting);
    }
    assert!(try_answer(&mut run, r#"{"count": "3", "version": "1.2"}"#));
    assert_eq!(run.params()["input_text"], r#"1.2 x3 {"version":"1.2","count":3} ann"#);
    assert_eq!(History::from_iter(&run.events), run.history);
    let mut other = Machine::start_with(&asking_machine(&json!({"prompt": "?", "form": form})), tea_start());
    assert!(try_answer(&mut other, r#"{"version": "1"}"#));
    assert_eq!(other.history.variables().get("ask_count"), Some(&json!(2)), "its default");
}

#[test]
fn form_broken_by_a_variable_is_reported_when_asked() {
    let form = json!({"properties": {"count": {"type": "{kind}"}}});
    let start = Start { variables: fields(&json!({"kind": "heap"})), ..start() };
    let run = Machine::start_with(&asking_machine(&json!({"prompt": "?", "form": form})), start);
    assert!(run.error().starts_with("State 'ask': field 'count' has type \"heap\""), "{}", run.error());
}

#[test]
fn author_of_an_answer_is_read_from_histories_of_any_age() {
    let parse = |text: &str| serde_json::from_str::<By>(text).unwrap();
    assert_eq!(parse(r#""ana""#), By::from("ana"));
    let by = By { name: "ana".into(), surface: Some("cli".into()), ..By::default() };
    let text = serde_json::to_string(&by).unwrap();
    assert_eq!((parse(&text), by.to_string().as_str()), (by, "ana (cli)"));
    assert_eq!(serde_json::to_string(&By::from("ana")).unwrap(), r#""ana""#);
}

#[test]
fn terminals_named_after_a_question_are_known_when_asked() {
    let run = |params: Value| json!({"tool": "run_workflow", "params": params});
    let in_terminal =
        |session: &str| json!({"tool": "run_command", "params": {"session_id": session, "command": "make"}});
    let inner = json!({"initial_state": "x", "states": {
        "x": {"action": in_terminal("inner"), "transitions": [{"condition": "success", "next_state": "y"}]},
        "y": {"action": in_terminal("{own}")}}});
    let to = |next: &str| json!([{"condition": "success", "next_state": next}]);
    let document = json!({"initial_state": "before", "states": {
        "before": {"action": in_terminal("before"), "transitions": to("q")},
        "q": {"action": {"tool": "gate", "params": {"prompt": "Go?"}}, "transitions": to("go"), "timeout": 9, "on_timeout": "late"},
        "go": {"action": in_terminal("work"), "transitions": to("named")},
        "named": {"action": in_terminal("{place}"), "transitions": to("later")},
        "later": {"action": in_terminal("{go_session_id}-{missing}"), "transitions": to("nested")},
        "nested": {"action": run(json!({"workflow_definition": inner, "session_id": "given"})), "transitions": to("several")},
        "several": {"action": {"tool": "parallel", "params": {"workflows": [{"workflow_name": "w", "initial_variables": {"session_id": "branch"}}]}}},
        "late": {"action": in_terminal("late")},
        "elsewhere": {"action": in_terminal("elsewhere")},
        "tidy": {"action": {"tool": "exit_terminal", "params": {"session_id": "tidied"}}},
    }, "finally": "tidy"});
    let variables = fields(&json!({"place": "there", "missing": "x"}));
    let mut run = Machine::start_with(&document, Start { session_id: Some("own".into()), variables, ..start() });
    run.result(&json!({"success": true}));
    let ahead = terminals_ahead(&run.definition, &run.history);
    let mut sessions = ahead.sessions;
    sessions.sort();
    assert_eq!(sessions, ["branch", "given", "inner", "late", "there", "tidied", "work"]);
    assert_eq!(ahead.computed, ["{go_session_id}-{missing}"]);
    // The recorded content counts for the answer.
    run.history.show_terminals(vec!["term_1".to_owned()]);
    assert_eq!(run.history.approved_terminals(), None, "no person has answered");
    let step = run.history.gate().expect("a gate is open").step.clone();
    run.input(Input::GateAnswered {
        step,
        choice: "yes".to_owned(),
        by: By { name: "ana".to_owned(), ..By::default() },
    });
    assert_eq!(run.history.approved_terminals(), Some(&["term_1".to_owned()][..]));
}
