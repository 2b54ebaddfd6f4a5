//! Documents written by foreign programs and people.

use std::time::Duration;

use serde_json::{Map, Value, json};
use steplatch_fuzz::Target;
use steplatch_workflow::{
    Definition, Event, History, Input, Limits, Outcome, Severity, ShellAnswer, Start, Stubs, Timestamp, decide,
    execution_log, rehearse, resume,
};

use crate::machine::{Tools, fields, start};

/// Maximum number of inputs of a run; the test then abandons the run.
const MAX_INPUTS: u64 = 40;

/// Returns one of the inputs that the run waits for, selected by a number.
fn next_input(history: &History, pick: u64) -> Input {
    let text = ["ok", "error (", "{session_id}", "0", ""][(pick % 5) as usize];
    if let Some(current) = history.current() {
        let result = fields(&json!({
            "success": !pick.is_multiple_of(3), "match_text": text, "screen_content": text, "exit_code": pick % 3,
            "session_id": "term_9j7ayeh6hh", "elapsed_time": 0.5
        }));
        let outcome = match pick % 11 {
            9 => Outcome::TimedOut,
            10 => Outcome::Unknown,
            _ => Outcome::Finished { result },
        };
        return Input::Outcome { step: current.step.clone(), outcome };
    }
    if let Some(exchange) = history.exchange() {
        let value = |name: &String| (name.clone(), (!pick.is_multiple_of(4)).then(|| text.to_owned()));
        let answer = ShellAnswer::Told { values: exchange.read.iter().map(value).collect() };
        return Input::ShellAnswered { step: exchange.step.clone(), answer };
    }
    let gate = history.gate().expect("an unfinished run waits for an input");
    let choices = gate.choices();
    let choice = choices[(pick % choices.len() as u64) as usize].to_owned();
    Input::GateAnswered { step: gate.step.clone(), choice, by: "ann".into() }
}

/// Runs a definition and checks that its history can be stored and replayed. Returns the number of events.
fn run(definition: &Definition, mut pick: u64) -> usize {
    let limits = Limits::new(12, 1800.0).expect("the limits are valid");
    let (mut history, mut events) = (History::new(), Vec::<Event>::new());
    let mut now = Timestamp(1_700_000_000_000_000);
    let mut input = Input::Start(Start { limits, session_id: Some("term_given".to_owned()), ..start() });
    for _ in 0..MAX_INPUTS {
        let decision = decide(definition, &history, input.clone(), now);
        assert_eq!(decide(definition, &history, input, now), decision, "the same input gives the same decision");
        history.extend(&decision.events);
        events.extend(decision.events);
        if history.is_over() {
            break;
        }
        let _ = resume(&history, now);
        now = now.after(Duration::from_millis(250));
        pick = pick.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        input = next_input(&history, pick >> 33);
    }
    let mut replayed = History::new();
    replayed.extend(&events);
    assert!(replayed == history, "a replay of the events gives the same history");
    let stored: Vec<String> =
        events.iter().map(|event| serde_json::to_string(event).expect("events serialize")).collect();
    let reread_events: Vec<Event> =
        stored.iter().map(|line| serde_json::from_str(line).expect("the stored event is valid")).collect();
    let restored_lines: Vec<String> =
        reread_events.iter().map(|event| serde_json::to_string(event).expect("events serialize")).collect();
    assert_eq!(stored, restored_lines, "events round-trip through their stored form");
    let _ = execution_log(&events);
    events.len()
}

#[test]
fn definitions() {
    let target = Target {
        corpus: concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/definitions"),
        dictionary: &[
            "\"states\": {",
            "\"initial_state\": \"a\"",
            "\"action\": {\"tool\": \"sleep\", \"params\": {\"seconds\": 1}}",
            "\"transitions\": [",
            "{\"condition\": {}, \"next_state\": \"a\"}",
            "\"next_state\": ",
            "\"timeout\": ",
            "\"on_timeout\": ",
            "\"arguments\": {",
            "\"return_values\": {",
            "\"default\": ",
            "\"secret\": true",
            "\"required\": false",
            "\"schema\": {\"enum\": [\"ok\"]}",
            "\"pattern_match\": \"(\"",
            "\"pattern_not_match\": ",
            "\"field_equals\": {\"exit_code\": 0}",
            "\"field_contains\": ",
            "\"success\": ",
            "\"failure\"",
            "\"outcome_unknown\": true",
            "\"description\": ",
            "\"tool\": \"gate\"",
            "\"tool\": \"run_workflow\"",
            "\"tool\": \"fail\"",
            "\"choices\": [\"a\"]",
            "\"form\": ",
            "{session_id}",
            "{match_text|sh}",
            "{match_text|regex}",
            "{{",
            "}}",
            "null",
            "true",
            "[]",
            "{}",
            "\\u0000",
            "\\ud800",
            "\\n",
            ", ",
            "~1",
        ],
        max_bytes: 6_000,
    };
    target.run(|input| {
        let Ok(text) = std::str::from_utf8(input) else { return (Vec::new(), 0) };
        let shape = |message: &str| message.split(['\'', '"']).step_by(2).take(3).collect::<String>();
        let definition = match Definition::from_text(text, &Tools) {
            Ok(definition) => definition,
            Err(problems) => {
                assert!(problems.iter().any(|problem| problem.severity == Severity::Error), "{problems}");
                let document: Value = serde_json::from_str(text).unwrap_or_default();
                for problem in &problems {
                    assert!(!problem.message.is_empty());
                    // A missing member is reported at its own place.
                    let parent = problem.pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
                    assert!(
                        document.pointer(&problem.pointer).or_else(|| document.pointer(parent)).is_some(),
                        "the pointer is not in the document: {problem}"
                    );
                }
                return (problems.iter().map(|problem| shape(&problem.message)).collect(), 0);
            }
        };
        let printed = serde_json::to_string(&definition).expect("definitions serialize");
        let reparsed =
            Definition::from_text(&printed, &Tools).unwrap_or_else(|problems| panic!("{problems}\n{printed}"));
        assert_eq!(printed, serde_json::to_string(&reparsed).expect("definitions serialize"));
        assert_eq!(definition.warnings(), reparsed.warnings());
        assert_eq!(format!("{:?}", definition.states()), format!("{:?}", reparsed.states()));
        assert!(definition.state(definition.initial_state()).is_some());
        for transition in definition.states().iter().flat_map(steplatch_workflow::State::transitions) {
            assert!(definition.state(transition.next_state()).is_some());
        }
        let _ = rehearse(&definition, &Stubs::default(), Map::new(), Limits::default());
        let pick = input.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        let events = run(&definition, pick);
        (definition.warnings().iter().map(|problem| shape(&problem.message)).collect(), events)
    });
}
