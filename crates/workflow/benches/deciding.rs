//! Benchmarks of deciding and of folding a history.
//!
//! Goals: 100,000 decisions per second for a machine of 100 states; 100,000 events folded within a second.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Map, Value, json};
use steplatch_workflow::{
    Decision, Definition, Event, GatelessNames, History, Input, Limits, Outcome, Problem, Start, Timestamp,
    ToolCatalog, decide,
};

struct Tools;

impl ToolCatalog for Tools {
    fn tools(&self) -> Vec<String> {
        vec!["send_input".to_owned(), "await_output".to_owned()]
    }

    fn check(&self, _: &str, _: &Map<String, Value>) -> Vec<Problem> {
        Vec::new()
    }

    fn takes_session(&self, _: &str) -> bool {
        true
    }
}

/// Returns a ring of 100 states that type and wait in turn, each with typical transitions.
fn ring() -> Definition {
    let state = |index: usize| {
        let next = format!("state_{}", (index + 1) % 100);
        let action = if index.is_multiple_of(2) {
            json!({"tool": "send_input", "params": {"input_text": "make {target|sh} # {match_text}\n"}})
        } else {
            json!({"tool": "await_output", "params": {"pattern": "done|failed", "timeout": 60}})
        };
        let transitions = json!([
            {"condition": {"pattern_match": "failed|[Ee]rror"}, "next_state": "state_0"},
            {"condition": {"field_equals": {"exit_code": 2}}, "next_state": "state_0"},
            {"condition": {"success": true}, "next_state": next}
        ]);
        (format!("state_{index}"), json!({"action": action, "transitions": transitions}))
    };
    let states: Map<String, Value> = (0..100).map(state).collect();
    Definition::parse(&json!({"name": "ring", "initial_state": "state_0", "states": states}), &Tools)
        .expect("the machine is valid")
}

/// Returns the result of a terminal tool, with a screen of ordinary size.
fn outcome() -> Outcome {
    let screen = "$ make target\ncc -O2 -c main.c\ncc -o main main.o\n".repeat(10);
    let result = json!({
        "success": true, "session_id": "term_1", "match_text": "done", "screen_content": screen, "elapsed_time": 0.02,
        "timestamp": "2026-01-01T00:00:00Z", "exit_code": 0, "offset": 12345, "reason": "match"
    });
    Outcome::Finished { result: result.as_object().expect("the value is an object").clone() }
}

fn started(definition: &Definition) -> (History, Vec<Event>) {
    let start = Start {
        run: "run_0123456789abcdef".parse().expect("the run id is valid"),
        session_id: Some("term_1".to_owned()),
        variables: Map::from_iter([("target".to_owned(), "all".into())]),
        limits: Limits::new(1000, 7200.0).expect("the limits are valid"),
        keep_terminals: false,
        save_on_success: false,
        parent: None,
        depth: 0,
        gateless: GatelessNames::default(),
    };
    let mut history = History::new();
    let Decision { events, .. } = decide(definition, &history, Input::Start(start), Timestamp(0));
    history.extend(&events);
    (history, events)
}

fn input(history: &History, outcome: &Outcome) -> Input {
    let step = history.current().expect("a step is in progress").step.clone();
    Input::Outcome { step, outcome: outcome.clone() }
}

fn deciding(criterion: &mut Criterion) {
    let definition = ring();
    let outcome = outcome();
    let (mut history, mut events) = started(&definition);
    // Halfway through its longest run, every state has been entered and has set its variables.
    for _ in 0..500 {
        let decision = decide(&definition, &history, input(&history, &outcome), Timestamp(1));
        history.extend(&decision.events);
        events.extend(decision.events);
    }
    let mut group = criterion.benchmark_group("decide");
    group.throughput(Throughput::Elements(1));
    group.bench_function("one of 100 states, in the 501st", |bencher| {
        bencher.iter_batched(
            || input(&history, &outcome),
            |input| black_box(decide(&definition, &history, input, Timestamp(2))),
            criterion::BatchSize::SmallInput,
        );
    });
    group.bench_function("and apply, for a whole run", |bencher| {
        let (mut history, _) = started(&definition);
        bencher.iter(|| {
            if history.states_executed() == 1000 {
                history = started(&definition).0;
            }
            let decision = decide(&definition, &history, input(&history, &outcome), Timestamp(2));
            history.extend(&decision.events);
        });
    });
    group.finish();

    let mut group = criterion.benchmark_group("fold");
    group.sample_size(10);
    group.throughput(Throughput::Elements(100_000));
    let many_events: Vec<Event> = events.iter().skip(1).cycle().take(99_999).cloned().collect();
    group.bench_function("100,000 events", |bencher| {
        bencher.iter(|| black_box(History::from_iter(events[..1].iter().chain(&many_events))));
    });
    let stored: Vec<String> =
        many_events.iter().map(|event| serde_json::to_string(event).expect("events serialize")).collect();
    group.bench_function("100,000 events, from their stored form", |bencher| {
        bencher.iter(|| {
            let mut history = History::from_iter(&events[..1]);
            for text in &stored {
                history.apply(&serde_json::from_str(text).expect("the stored form is readable"));
            }
            black_box(history)
        });
    });
    group.finish();
}

criterion_group!(benches, deciding);
criterion_main!(benches);
