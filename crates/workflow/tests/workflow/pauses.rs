//! Runs that are paused and resumed.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use steplatch_workflow::{
    Definition, Effect, Event, History, Input, NONE_OF_THESE, Start, Status, Timestamp, decide, resume,
};

use crate::generated::{RandomOutcome, machines, next_input, random_outcomes, starts};
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

fn pause_input() -> Input {
    Input::Pause { by: "ana".into(), above: false }
}

fn resume_input() -> Input {
    Input::Resume { by: "bo".into(), above: false }
}

#[test]
fn step_in_progress_ends_and_the_next_waits_for_resume() {
    let mut run = Machine::start(&two_states());
    let at = run.now;
    assert_eq!(run.input(pause_input()).events, [Event::Paused { at, by: "ana".into(), above: false }]);
    assert_eq!(run.last.effects, [Effect::DisarmDeadline]);
    assert_eq!(run.input(pause_input()).events, [], "a second pause has no effect");
    let [Event::StateCompleted { .. }, Event::HeldBack { .. }] = &run.succeed().events[..] else {
        panic!("{:?}", run.last)
    };
    assert_eq!(run.last.effects, []);
    assert_eq!((run.history.status(), run.state()), (&Status::Running, "(none)"));
    assert_eq!(resume(&run.history, run.now), [], "a restarted daemon has nothing to do");
    let events = run.input(resume_input()).events.clone();
    let [Event::Resumed { by, .. }, Event::Transitioned { .. }, Event::StateEntered { .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((by.as_str(), run.state()), ("bo", "rest"));
    assert_eq!(run.input(resume_input()).events, [], "resuming a running run has no effect");
    run.succeed();
    assert!(run.completed());
}

#[test]
fn time_of_a_paused_run_stops() {
    let hour = Duration::from_secs(3600);
    let mut run = Machine::start(&two_states());
    run.wait(Duration::from_secs(100));
    run.input(pause_input());
    run.wait(hour);
    assert_eq!(run.input(Input::DeadlinePassed).events, [], "an outdated timer has no effect");
    assert!(!resume(&run.history, run.now).iter().any(|effect| matches!(effect, Effect::ArmDeadline { .. })));
    run.succeed();
    run.input(resume_input());
    let armed = Effect::ArmDeadline { after: Duration::from_secs(1700) };
    assert_eq!(run.last.effects[0], armed, "30 minutes minus the elapsed 100 s");
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
    let time_left = run.history.time_left(run.now);
    run.wait(Duration::from_secs(60));
    run.input(pause_input());
    run.wait(Duration::from_secs(60));
    let step = run.history.gate().unwrap().step.clone();
    let answer = Input::GateAnswered { step, choice: "good".into(), by: "cy".into() };
    let [Event::GateAnswered { .. }, Event::HeldBack { .. }] = &run.input(answer).events[..] else {
        panic!("{:?}", run.last)
    };
    assert_eq!(run.last.effects, [], "neither the next state nor the clock starts");
    run.wait(Duration::from_secs(60));
    run.input(resume_input());
    assert_eq!((run.state(), run.history.variables().get("answer")), ("rest", Some(&json!("good"))));
    assert_eq!(run.history.time_left(run.now), time_left, "time in a pause at a gate is not counted twice");
}

#[test]
fn paused_run_defers_the_answer_of_the_shell() {
    let document = json!({
        "arguments": {"ROOT": "where"}, "initial_state": "rest",
        "states": {"rest": {"action": {"tool": "sleep", "params": {"seconds": 5}}}}
    });
    let mut run = Machine::start_with(&document, Start { session_id: Some("term_1".into()), ..start() });
    run.input(pause_input());
    let [Event::VariablesTold { .. }, Event::HeldBack { .. }] = &run.shell_reports(&json!({"ROOT": "/x"})).events[..]
    else {
        panic!("{:?}", run.last)
    };
    run.input(resume_input());
    assert!(matches!(run.last.events[1], Event::ContractChecked { holds: true, .. }), "{:?}", run.last);
    assert_eq!(run.state(), "rest");
}

#[test]
fn paused_run_can_be_cancelled_at_once() {
    for ends_first in [false, true] {
        let mut run = Machine::start(&two_states());
        run.input(pause_input());
        if ends_first {
            run.succeed();
        }
        run.input(Input::Cancel { reason: "enough".into() });
        assert_eq!(run.history.status(), &Status::Cancelled { reason: "enough".into() });
        assert_eq!(run.history.paused(), None);
        assert_eq!(run.input(resume_input()).events, []);
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
    run.input(pause_input());
    let rests = Effect::PauseChild { step: step.clone(), by: "ana".into() };
    assert_eq!(
        run.input(began.clone()).effects,
        std::slice::from_ref(&rests),
        "a child that is about to begin is paused too"
    );
    assert_eq!(run.input(began.clone()).effects, [rests], "also after a restart of the daemon");
    let effects = &run.input(resume_input()).effects;
    assert_eq!(effects[1], Effect::ResumeChild { step: step.clone(), by: "bo".into() });
    assert!(
        matches!(run.input(began).effects[..], [Effect::ResumeChild { .. }]),
        "the previous daemon may not have resumed the child: {:?}",
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
    assert_eq!(child.input(from_above).events, [], "a parent does not resume a directly paused run");
    child.input(resume_input());
    assert_eq!(child.history.paused(), None);
}

/// Returns the JSON of an event without its times.
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
    let mut value = serde_json::to_value(event).expect("events serialize");
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

/// Runs a machine to its end, pausing wherever `rests` is `true`, and returns the events.
fn play(
    definition: &Definition,
    start: Start,
    random_outcomes: &[RandomOutcome],
    rests: &[bool],
) -> Result<Vec<Event>, TestCaseError> {
    let mut now = Timestamp(0);
    let (mut history, mut events) = (History::new(), Vec::new());
    let mut rests = rests.iter().copied();
    let mut random_outcomes = random_outcomes.iter().cycle();
    let mut input = Input::Start(start);
    loop {
        now.0 += 1_000;
        let rests = history.started_at().is_some() && rests.next().unwrap_or(false);
        let inputs = if rests { vec![pause_input(), input, resume_input()] } else { vec![input] };
        for input in inputs {
            let paused = history.paused().is_some() && input != resume_input();
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
        input = next_input(&history, random_outcomes.next().expect("a cycle never ends"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn pauses_never_change_the_path_of_a_run(
        document in machines(), start in starts(), script in prop::collection::vec(random_outcomes(), 1..8),
        rests in prop::collection::vec(any::<bool>(), 0..40),
    ) {
        let definition = Definition::parse(&document, &Tools).expect("generated machines are valid");
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
fn paused_run_defers_the_answer_none_of_these() {
    let mut run = Machine::start(&json!({
        "initial_state": "look",
        "states": {"look": {"action": {"tool": "list_terminal_sessions"},
                            "transitions": [{"condition": {"description": "good"}, "next_state": "look"}]}}
    }));
    run.succeed();
    run.input(pause_input());
    let step = run.history.gate().unwrap().step.clone();
    run.input(Input::GateAnswered { step, choice: NONE_OF_THESE.into(), by: "cy".into() });
    assert_eq!(run.history.status(), &Status::Running, "the run is not complete yet");
    run.input(resume_input());
    assert!(run.completed());
}
