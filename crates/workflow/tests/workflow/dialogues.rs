//! Dialogues: their answers, records, and repetitions after a restart.

use std::time::Duration;

use serde_json::{Map, Value, json};
use steplatch_workflow::{Effect, Event, Input, Limits, Outcome, Start, Stubs, decide, rehearse, resume};

use crate::machine::{Machine, Tools, definition, fields, problems, start};

/// Returns a machine with one dialogue in its given terminal.
fn machine(params: &Value) -> Value {
    json!({"initial_state": "install", "states": {
        "install": {"action": {"tool": "dialogue", "params": params},
                    "transitions": [{"condition": "success", "next_state": "done"},
                                    {"condition": "timeout", "next_state": "late"}]},
        "done": {"action": {"tool": "return", "params": {"result": "{install_groups.1}, {install_answers}, {user}"}}},
        "late": {"action": {"tool": "fail", "params": {"message": "late"}}}
    }})
}

fn params() -> Value {
    json!({"input_text": "./install.sh\n",
           "rules": [{"when": "user (?P<user>\\w+)\\?", "type": "{user}:{NAME}\n"},
                     {"when": "[Pp]assword:", "secret": "PW", "times": 1}],
           "until": "Installed (\\S+)", "timeout": 60})
}

fn start_with_variables(document: &Value, variables: &Value) -> Machine {
    let variables: Map<String, Value> = fields(variables);
    Machine::start_with(document, Start { session_id: Some("term_1".to_owned()), variables, ..start() })
}

/// Returns the step and the parameters of the requested turn.
fn requested_turn(machine: &Machine) -> (String, Value) {
    machine
        .last
        .effects
        .iter()
        .find_map(|effect| match effect {
            Effect::Perform { step, tool, params, .. } if tool == "dialogue" => {
                Some((step.to_string(), params.clone().into()))
            }
            _ => None,
        })
        .unwrap_or_else(|| panic!("a turn, not {:?}", machine.last.effects))
}

/// Delivers the end of the awaited turn.
fn end_turn(machine: &mut Machine, heard: &Value) {
    let step = machine.history.awaited_steps().pop().expect("the run awaits a turn");
    machine.wait(Duration::from_secs(1));
    machine.input(Input::Outcome { step, outcome: Outcome::Finished { result: fields(heard) } });
}

#[test]
fn each_answer_is_recorded_before_typing_under_its_own_step() {
    let mut machine = start_with_variables(&machine(&params()), &json!({"NAME": "ana", "PW": "hunter2"}));
    let (step, first) = requested_turn(&machine);
    assert_eq!(step, "run_0123456789abcdef/install/1/1");
    assert_eq!(
        first,
        json!({"session_id": "term_1", "input_text": "./install.sh\n", "timeout": 60.0,
               "patterns": ["Installed (\\S+)", "user (?P<user>\\w+)\\?", "[Pp]assword:"]})
    );
    end_turn(
        &mut machine,
        &json!({"success": true, "reason": "match", "matched": 1, "match_text": "user root?",
                                "groups": ["root"], "offset": 40}),
    );
    let Some(Event::QuestionAnswered { answer, .. }) = machine.last.events.first() else { panic!("no answer") };
    assert_eq!((answer.input_text.as_str(), answer.since), ("root:ana\n", Some(40)));
    let (step, second) = requested_turn(&machine);
    assert_eq!(step, "run_0123456789abcdef/install/1/2");
    assert_eq!(
        (&second["input_text"], &second["since"], &second["timeout"]),
        (&json!("root:ana\n"), &json!(40), &json!(59.0))
    );
    end_turn(
        &mut machine,
        &json!({"success": true, "reason": "match", "matched": 2, "match_text": "Password:", "offset": 60}),
    );
    assert!(
        !serde_json::to_string(&machine.last.events).expect("the value serializes").contains("hunter2"),
        "the history has no secret text"
    );
    let (_, third) = requested_turn(&machine);
    assert_eq!((&third["input_text"], &third["secret"]), (&json!("hunter2\n"), &json!(true)));
    assert_eq!(third["patterns"].as_array().map(Vec::len), Some(2), "the password rule is used up");
    end_turn(
        &mut machine,
        &json!({"success": true, "reason": "match", "matched": 0, "match_text": "Installed 1.2",
                                "groups": ["1.2"], "offset": 99}),
    );
    machine.input(Input::Outcome {
        step: machine.step(),
        outcome: Outcome::Finished { result: fields(&json!({"success": true, "result": "1.2, 2, root"})) },
    });
    assert!(machine.completed());
    assert_eq!(machine.params_in_state("done"), json!({"result": "1.2, 2, root"}));
}

#[test]
fn turn_is_repeated_after_a_restart_with_the_same_step() {
    let mut machine = start_with_variables(&machine(&params()), &json!({"NAME": "ana", "PW": "x"}));
    let received = json!({"success": true, "reason": "match", "matched": 1, "match_text": "user a?", "groups": ["a"], "offset": 7});
    end_turn(&mut machine, &received);
    let (step, turn_params) = requested_turn(&machine);
    let repeated_effects = resume(&machine.history, machine.now);
    let repeated_effects = repeated_effects.iter().find_map(|effect| match effect {
        Effect::Perform { step, params, .. } => Some((step.to_string(), Value::from(params.clone()))),
        _ => None,
    });
    assert_eq!(repeated_effects, Some((step, turn_params)));
    let before: steplatch_ids::StepId = "run_0123456789abcdef/install/1/1".parse().expect("the step id is valid");
    let stale = Input::Outcome { step: before, outcome: Outcome::Finished { result: fields(&received) } };
    assert!(decide(&machine.definition, &machine.history, stale, machine.now).events.is_empty());
}

#[test]
fn dialogue_fails_like_any_action() {
    let document = machine(&params());
    let variables = json!({"NAME": "ana", "PW": "x"});
    let mut unanswered = start_with_variables(&document, &variables);
    end_turn(&mut unanswered, &json!({"success": true, "reason": "input", "screen_content": "Overwrite? [y/N]"}));
    assert_eq!(
        unanswered.error(),
        "State 'install' failed: the program asks a question that no rule answers: Overwrite? [y/N]"
    );
    let mut timed_out = start_with_variables(&document, &variables);
    end_turn(&mut timed_out, &json!({"success": true, "reason": "timeout"}));
    assert_eq!(timed_out.state(), "late");
    let mut interrupted = start_with_variables(&document, &variables);
    let step = interrupted.history.awaited_steps().pop().expect("the run awaits a turn");
    interrupted.input(Input::Outcome { step, outcome: Outcome::Unknown });
    assert!(
        interrupted.error().starts_with("State 'install' failed: It is not known whether 'dialogue' happened"),
        "{}",
        interrupted.error()
    );
    let mut cancelled = start_with_variables(&document, &variables);
    let step = cancelled.history.awaited_steps().pop().expect("the run awaits a turn");
    cancelled.input(Input::Cancel { reason: "enough".to_owned() });
    assert!(cancelled.last.effects.contains(&Effect::Abandon { step }));
}

#[test]
fn unresolved_placeholder_fails_before_typing() {
    let document = json!({"initial_state": "a", "states": {"a": {"action": {"tool": "dialogue", "params": {
        "rules": [{"when": "q (?P<word>.)", "type": "{word}{groups.1}{match_text}{later}\n"}]}}}}});
    let machine = start_with_variables(&document, &json!({"later": "1"}));
    assert_eq!(requested_turn(&machine).1["patterns"], json!(["q (?P<word>.)"]));
    let mut start = start();
    start.session_id = Some("term_1".to_owned());
    let machine = Machine::start_with(&document, start);
    assert_eq!(
        machine.error(),
        "State 'a': {later} has no value: nothing has set it. If it is meant as text, write {{later}}"
    );
}

#[test]
fn problems_are_named_with_their_place() {
    let document = json!({"initial_state": "a", "arguments": {"PW": {"secret": true}}, "states": {"a": {"action": {
        "tool": "dialogue", "params": {"rule": [], "rules": [{"wenn": "x", "when": "(", "type": "x"}], "until": "ok"}}}}});
    expect_test::expect![[r#"
        /states/a/action/params/rule: unknown key 'rule' in a dialogue, did you mean 'rules'?
        /states/a/action/params/rules/0/wenn: unknown key 'wenn' in a rule, known are when, type, press, secret, times
        /states/a/action/params/rules/0/when: pattern '(' does not compile: unclosed group at position 0
        /arguments/PW: warning: the secret argument 'PW' is not exported, and no state uses {PW}; write {PW|sh} where it is typed, or add "export": true if programs are to find it in their environment"#]].assert_eq(&problems(&document));
    let document = json!({"initial_state": "a", "arguments": {"PW": {"secret": true}}, "states": {"a": {"action": {
        "tool": "dialogue", "params": {"rules": [{"when": "x", "secret": "PASS"}, {"when": "{groups.1}", "type": "{groups.1}\n"},
        {"when": "licence", "type": "yes"}, {"when": "key", "type": "yes", "press": "enter"}, {"when": "[yn]", "type": "y"}]}}}}});
    let warnings: Vec<String> = definition(&document).warnings().iter().map(ToString::to_string).collect();
    expect_test::expect![[r#"
        /arguments/PW: warning: the secret argument 'PW' is not exported, and no state uses {PW}; write {PW|sh} where it is typed, or add "export": true if programs are to find it in their environment
        /states/a/action/params/rules/2/type: warning: the text is not entered: it does not end with \n, and no key is pressed after it
        /states/a/action/params/rules/1/when: warning: {groups} is neither an argument nor a result of a state, did you mean 'a_groups'? Start runs with it: add groups to initial_variables. To use it as literal text, write {{groups}}"#]].assert_eq(&warnings.join("\n"));
}

#[test]
fn rehearsal_applies_the_rules_to_program_text() {
    let definition = definition(&machine(&params()));
    let stubs = json!({"states": {"install": {"prints": ["user root?", "Password:", "Installed 3"]}}});
    let stubs = Stubs::read(&stubs, &definition, &Tools).unwrap_or_else(|problems| panic!("{problems}"));
    let variables = fields(&json!({"NAME": "ana", "PW": "hunter2"}));
    let rehearsal = rehearse(&definition, &stubs, variables.clone(), Limits::default());
    let report = serde_json::to_value(&rehearsal).expect("the value serializes");
    assert_eq!(report["end"], json!({"status": "completed"}), "{report}");
    assert_eq!(report["path"][0]["result"]["answered"][0]["typed"], "root:ana\n");
    assert!(!report["path"][0]["result"].to_string().contains("hunter2"));
    for (stub, end) in [
        (
            json!({"prints": "user root?"}),
            "State 'install' failed: the program ended with exit code 0 before /Installed (\\S+)/ came",
        ),
        (
            json!({"prints": ["What now?"]}),
            "State 'install' failed: the program asks a question that no rule answers: What now?",
        ),
        (json!("timeout"), "State 'late' failed: late"),
    ] {
        let stubs = json!({"states": {"install": stub}});
        let stubs = Stubs::read(&stubs, &definition, &Tools).unwrap_or_else(|problems| panic!("{problems}"));
        let report = serde_json::to_value(rehearse(&definition, &stubs, variables.clone(), Limits::default()));
        assert_eq!(report.expect("the value serializes")["end"]["error"], end);
    }
}

#[test]
fn later_dialogue_starts_with_its_own_text() {
    let action = |text: &str| {
        let rules = json!([{"when": "[Pp]assword:", "secret": "PW", "times": 1}]);
        json!({"tool": "dialogue", "params": {"input_text": text, "rules": rules, "until": "ok"}})
    };
    let document = json!({"initial_state": "one", "states": {
        "one": {"action": action("./one\n"), "transitions": [{"condition": "success", "next_state": "two"}]},
        "two": {"action": action("./two\n")},
    }});
    let mut machine = start_with_variables(&document, &json!({"PW": "hunter2"}));
    let matched = |text: &str, matched: u32| json!({"success": true, "reason": "match", "matched": matched, "match_text": text, "groups": [], "offset": 9});
    end_turn(&mut machine, &matched("Password:", 1));
    end_turn(&mut machine, &matched("ok", 0));
    let (step, turn_params) = requested_turn(&machine);
    assert_eq!(
        (step.as_str(), &turn_params["input_text"]),
        ("run_0123456789abcdef/two/1/1", &json!("./two\n")),
        "{turn_params}"
    );
    let repeated_effects = resume(&machine.history, machine.now);
    assert!(
        machine.last.effects.iter().all(|effect| repeated_effects.contains(effect)),
        "a restarted daemon repeats the effects: {repeated_effects:?}"
    );
}
