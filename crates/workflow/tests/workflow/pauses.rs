//! Runs that are paused and resumed.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use steplatch_workflow::{
    Definition, Effect, Event, History, Input, NONE_OF_THESE, Start, Status, Timestamp, decide, resume,
};

use crate::generated::{Luck, lucks, machines, next_input, starts};
use crate::machine::{Machine, Tools, start};

fn two_states() -> Value {
    json!({
        "initial_state": "type",
        "states": {
            "type": {"action": {"tool": "send_input", "params": {"session_id": "term_1", "input_text": "make\n"}},
                     "transitions": [{"condition": "success", "next_state": "rest"}]},
            "rest": {"action": {"tool": "sleep", "params": {"seconds": 5}}}
        }
    })
}

fn pause() -> Input {
    Input::Pause { by: "ana".into(), above: false }
}

fn go_on() -> Input {
    Input::Resume { by: "bo".into(), above: false }
}

#[test]
fn step_in_progress_ends_and_the_next_waits_for_resume() {
    let mut run = Machine::start(&two_states());
    let at = run.now;
    assert_eq!(run.input(pause()).events, [Event::Paused { at, by: "ana".into(), above: false }]);
    assert_eq!(run.last.effects, [Effect::DisarmDeadline]);
    assert_eq!(run.input(pause()).events, [], "it is paused already");
    let [Event::StateCompleted { .. }, Event::HeldBack { .. }] = &run.succeed().events[..] else {
        panic!("{:?}", run.last)
    };
    assert_eq!(run.last.effects, []);
    assert_eq!((run.history.status(), run.state()), (&Status::Running, "(none)"));
    assert_eq!(resume(&run.history, run.now), [], "the next daemon has nothing to do either");
    let events = run.input(go_on()).events.clone();
    let [Event::Resumed { by, .. }, Event::Transitioned { .. }, Event::StateEntered { .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((by.as_str(), run.state()), ("bo", "rest"));
    assert_eq!(run.input(go_on()).events, [], "it is in progress");
    run.succeed();
    assert!(run.completed());
}

#[test]
fn time_of_a_paused_run_stops() {
    let hour = Duration::from_secs(3600);
    let mut run = Machine::start(&two_states());
    run.wait(Duration::from_secs(100));
    run.input(pause());
    run.wait(hour);
    assert_eq!(run.input(Input::DeadlinePassed).events, [], "a late timer ends nothing");
    assert!(!resume(&run.history, run.now).iter().any(|effect| matches!(effect, Effect::ArmDeadline { .. })));
    run.succeed();
    run.input(go_on());
    let armed = Effect::ArmDeadline { after: Duration::from_secs(1700) };
    assert_eq!(run.last.effects[0], armed, "half an hour, of which 100 s are gone");
    run.wait(Duration::from_secs(1700));
    run.input(Input::DeadlinePassed);
    assert_eq!(run.error(), "Workflow execution timeout (1800.0s) exceeded in state 'rest'");
}

#[test]
fn pause_at_a_gate_counts_once_and_gate_can_be_answered() {
    let mut run = Machine::start(&json!({
        "initial_state": "look",
        "states": {
            "look": {"action": {"tool": "list_terminal_sessions"},
                     "transitions": [{"condition": {"description": "good"}, "next_state": "rest"}]},
            "rest": {"action": {"tool": "sleep", "params": {"seconds": 5}}}
        }
    }));
    run.succeed();
    let left = run.history.time_left(run.now);
    run.wait(Duration::from_secs(60));
    run.input(pause());
    run.wait(Duration::from_secs(60));
    let step = run.history.gate().unwrap().step.clone();
    let answer = Input::GateAnswered { step, choice: "good".into(), by: "cy".into() };
    let [Event::GateAnswered { .. }, Event::HeldBack { .. }] = &run.input(answer).events[..] else {
        panic!("{:?}", run.last)
    };
    assert_eq!(run.last.effects, [], "neither the next state begins nor the time");
    run.wait(Duration::from_secs(60));
    run.input(go_on());
    assert_eq!((run.state(), run.history.variables().get("answer")), ("rest", Some(&json!("good"))));
    assert_eq!(run.history.time_left(run.now), left, "three minutes, none of which counts twice");
}

#[test]
fn answer_of_the_shell_waits_too() {
    let document = json!({
        "arguments": {"ROOT": "where"}, "initial_state": "rest",
        "states": {"rest": {"action": {"tool": "sleep", "params": {"seconds": 5}}}}
    });
    let mut run = Machine::start_with(&document, Start { session_id: Some("term_1".into()), ..start() });
    run.input(pause());
    let [Event::VariablesTold { .. }, Event::HeldBack { .. }] = &run.shell_reports(&json!({"ROOT": "/x"})).events[..]
    else {
        panic!("{:?}", run.last)
    };
    run.input(go_on());
    assert!(matches!(run.last.events[1], Event::ContractChecked { holds: true, .. }), "{:?}", run.last);
    assert_eq!(run.state(), "rest");
}

#[test]
fn paused_run_can_be_cancelled_at_once() {
    for ends_first in [false, true] {
        let mut run = Machine::start(&two_states());
        run.input(pause());
        if ends_first {
            run.succeed();
        }
        run.input(Input::Cancel { reason: "enough".into() });
        assert_eq!(run.history.status(), &Status::Cancelled { reason: "enough".into() });
        assert_eq!(run.history.paused(), None);
        assert_eq!(run.input(go_on()).events, []);
    }
}

#[test]
fn run_pauses_with_its_children() {
    let mut run = Machine::start(&json!({
        "initial_state": "nest",
        "states": {"nest": {"action": {"tool": "run_workflow", "params": {"workflow_name": "inner"}}}}
    }));
    let step = run.step();
    let began = Input::ChildBegan { step: step.clone(), workflow: "inner".into() };
    run.input(pause());
    let rests = Effect::PauseChild { step: step.clone(), by: "ana".into() };
    assert_eq!(
        run.input(began.clone()).effects,
        std::slice::from_ref(&rests),
        "a child that is about to begin is paused too"
    );
    assert_eq!(run.input(began.clone()).effects, [rests], "and when the next daemon finds it");
    let effects = &run.input(go_on()).effects;
    assert_eq!(effects[1], Effect::ResumeChild { step: step.clone(), by: "bo".into() });
    assert!(
        matches!(run.input(began).effects[..], [Effect::ResumeChild { .. }]),
        "the last daemon may not have reported it: {:?}",
        run.last
    );

    let above = |paused: bool| Input::Pause { by: "ana".into(), above: paused };
    let from_above = Input::Resume { by: "ana".into(), above: true };
    let mut child = Machine::start(&two_states());
    child.input(above(true));
    child.input(from_above.clone());
    assert_eq!(child.history.paused(), None);
    child.input(above(false));
    child.input(above(true));
    assert_eq!(child.input(from_above).events, [], "a directly paused run is resumed directly");
    child.input(go_on());
    assert_eq!(child.history.paused(), None);
}

/// An event without its times.
fn timeless(event: &Event) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| !matches!(name.as_str(), "at" | "elapsed" | "expires_at"));
                fields.values_mut().for_each(strip);
            }
            Value::Array(values) => values.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(event).expect("an event is JSON");
    strip(&mut value);
    value
}

fn is_of_a_pause(event: &Event) -> bool {
    matches!(event, Event::Paused { .. } | Event::HeldBack { .. } | Event::Resumed { .. })
}

/// Returns whether an event starts something, or ends the run.
fn begins(event: &Event) -> bool {
    !(is_of_a_pause(event)
        || matches!(
            event,
            Event::StateCompleted { .. }
                | Event::BranchEnded { .. }
                | Event::GateAnswered { .. }
                | Event::VariablesTold { .. }
        ))
}

/// Plays a machine to its end, pausing wherever `rests` is `true`, and returns the events.
fn play(definition: &Definition, start: Start, lucks: &[Luck], rests: &[bool]) -> Result<Vec<Event>, TestCaseError> {
    let mut now = Timestamp(0);
    let (mut history, mut events) = (History::new(), Vec::new());
    let mut rests = rests.iter().copied();
    let mut lucks = lucks.iter().cycle();
    let mut input = Input::Start(start);
    loop {
        now.0 += 1_000;
        let rests = history.started_at().is_some() && rests.next().unwrap_or(false);
        let inputs = if rests { vec![pause(), input, go_on()] } else { vec![input] };
        for input in inputs {
            let paused = history.paused().is_some() && input != go_on();
            let decision = decide(definition, &history, input, now);
            if paused {
                prop_assert!(!decision.events.iter().any(begins), "{:?}", decision);
                let starts = |effect: &Effect| {
                    !matches!(effect, Effect::Abandon { .. } | Effect::Answer { .. } | Effect::CloseTerminal { .. })
                };
                prop_assert!(!decision.effects.iter().any(starts), "{:?}", decision);
            }
            history.extend(&decision.events);
            events.extend(decision.events);
            prop_assert_eq!(&History::from_iter(&events), &history);
        }
        if history.is_over() {
            return Ok(events);
        }
        input = next_input(&history, lucks.next().expect("a cycle"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn pauses_never_change_the_path_of_a_run(
        document in machines(), start in starts(), script in prop::collection::vec(lucks(), 1..8),
        rests in prop::collection::vec(any::<bool>(), 0..40),
    ) {
        let definition = Definition::parse(&document, &Tools).expect("a generated machine");
        let restless = play(&definition, start.clone(), &script, &[])?;
        let rested = play(&definition, start, &script, &rests)?;
        let without: Vec<Value> = rested.iter().filter(|event| !is_of_a_pause(event)).map(timeless).collect();
        prop_assert_eq!(without, restless.iter().map(timeless).collect::<Vec<_>>());
        // Every event has a stored form.
        let stored = serde_json::to_string(&rested).unwrap();
        prop_assert_eq!(serde_json::from_str::<Vec<Event>>(&stored).unwrap(), rested);
    }
}

#[test]
fn none_of_these_is_held_back_too() {
    let mut run = Machine::start(&json!({
        "initial_state": "look",
        "states": {"look": {"action": {"tool": "list_terminal_sessions"},
                            "transitions": [{"condition": {"description": "good"}, "next_state": "look"}]}}
    }));
    run.succeed();
    run.input(pause());
    let step = run.history.gate().unwrap().step.clone();
    run.input(Input::GateAnswered { step, choice: NONE_OF_THESE.into(), by: "cy".into() });
    assert_eq!(run.history.status(), &Status::Running, "it is not complete yet");
    run.input(go_on());
    assert!(run.completed());
}
