//! Laws for every graph, with every outcome of its nodes in any order.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use steplatch_nodes::Node;
use steplatch_nodes::graph::{Effect, Ending, GraphEvent, Progress, Status, StepOutcome, resume};

use crate::graphs::execution::{GraphExecution, done, failed, graph_of};

#[derive(Debug, Clone)]
struct Plan {
    document: Value,
    /// The open effects that end next, and their outcomes.
    moves: Vec<(usize, u8)>,
}

fn policy() -> impl Strategy<Value = Value> {
    let ending = prop_oneof![
        Just(json!("fail")),
        Just(json!({"policy": "skip", "value": "-"})),
        Just(json!({"policy": "fallback", "node": "m"})),
    ];
    prop_oneof![
        ending.clone(),
        (1..3_u8, ending)
            .prop_map(|(count, then)| json!({"policy": "retry", "count": count, "delay": 1, "then": then})),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
    let steps = prop::collection::vec((prop::collection::vec(any::<prop::sample::Index>(), 0..3), policy()), 1..9);
    let max_parallel = prop::option::of(1..4_u16);
    let moves = prop::collection::vec((any::<usize>(), 0..4_u8), 200);
    (steps, max_parallel, moves, any::<bool>()).prop_map(|(steps, max_parallel, moves, backwards)| {
        let mut declared: Vec<Value> = steps
            .iter()
            .enumerate()
            .map(|(index, (before, policy))| {
                let name = |at: usize| format!("s{}x", char::from(b'a' + u8::try_from(at).unwrap()));
                let mut after: Vec<String> =
                    if index == 0 { Vec::new() } else { before.iter().map(|at| name(at.index(index))).collect() };
                // One dependency comes only from the input.
                let input = after.pop().map_or_else(|| json!("{input}"), |name| json!(format!("{{{name}}}")));
                json!({"id": name(index), "node": "n", "depends_on": after, "input": input, "on_error": policy})
            })
            .collect();
        if backwards {
            declared.reverse();
        }
        let document = json!({"id": "g", "type": "graph", "steps": declared, "max_parallel": max_parallel});
        Plan { document, moves }
    })
}

/// Plays a plan to its end and checks the invariants after every step.
fn play(plan: &Plan) -> GraphExecution {
    let node = Node::parse(&plan.document).unwrap();
    let max_parallel = plan.document["max_parallel"].as_u64();
    let mut execution = GraphExecution::begin(node, "in");
    for (choice, outcome) in &plan.moves {
        assert_parallel(&execution, max_parallel);
        assert_resumable(&execution);
        if execution.open.is_empty() {
            break;
        }
        let open = execution.open[choice % execution.open.len()].clone();
        match open.split_once('@') {
            Some((step, _)) => drop(execution.finish_delay(step)),
            None => {
                let step = open.trim_end_matches(|character: char| character.is_ascii_digit());
                let outcome = match outcome {
                    0 | 1 => done(open.clone()),
                    2 => failed("x"),
                    _ if choice % 2 == 0 => StepOutcome::TimedOut,
                    _ => StepOutcome::Unknown,
                };
                drop(execution.finish(step, outcome));
            }
        }
    }
    execution
}

fn assert_parallel(execution: &GraphExecution, max_parallel: Option<u64>) {
    let running = execution.open.iter().filter(|open| !open.contains('@')).count();
    assert_eq!(running, execution.progress.running());
    assert!(max_parallel.is_none_or(|max_parallel| running as u64 <= max_parallel), "{:?}", execution.open);
}

/// A driver that resumes from the history alone has the same effects left to perform.
fn assert_resumable(execution: &GraphExecution) {
    let progress = Progress::from_history(graph_of(&execution.node), &execution.history);
    let mut resumed_effects: Vec<String> = resume(graph_of(&execution.node), &progress)
        .iter()
        .map(|effect| match effect {
            Effect::Run { step, attempt, .. } => format!("{step}{attempt}"),
            Effect::Wait { step, until } => format!("{step}@{}", until.0 / 1_000_000),
        })
        .collect();
    let mut open = execution.open.clone();
    resumed_effects.sort();
    open.sort();
    assert_eq!(resumed_effects, open);
}

proptest! {
    #[test]
    fn every_graph_ends(plan in plan()) {
        let execution = play(&plan);
        prop_assert!(execution.progress.ended().is_some(), "{:?}", execution.open);
        prop_assert_eq!(execution.open.len(), 0);
        let failed = execution.history.iter().any(|event| matches!(event,
            GraphEvent::StepEnded { ending: Ending::Failed { .. } | Ending::NotRun { .. }, .. }));
        prop_assert_eq!(execution.result().success, !failed);
    }

    #[test]
    fn every_step_ends_once_and_starts_after_its_dependencies(plan in plan()) {
        let execution = play(&plan);
        let graph = graph_of(&execution.node);
        let mut endings: BTreeMap<String, Ending> = BTreeMap::new();
        for event in &execution.history {
            match event {
                GraphEvent::AttemptStarted { step, .. } => {
                    prop_assert!(!endings.contains_key(step.as_str()), "{} began after its end", step);
                    for before in graph.dependencies(step) {
                        let ending = endings.get(before.as_str());
                        let fine = matches!(ending, Some(Ending::Completed | Ending::Skipped { .. }));
                        prop_assert!(fine, "{} began after {}: {:?}", step, before, ending);
                    }
                }
                GraphEvent::StepEnded { step, ending } => {
                    prop_assert!(endings.insert(step.to_string(), ending.clone()).is_none(), "{} ended twice", step);
                }
                _ => {}
            }
        }
        prop_assert_eq!(endings.len(), graph.steps().len());
        for step in graph.steps() {
            let broken = graph.dependencies(&step.id).any(|before| {
                matches!(execution.progress.status(before), Some(Status::Ended(Ending::Failed { .. } | Ending::NotRun { .. })))
            });
            let not_run = matches!(execution.progress.status(&step.id), Some(Status::Ended(Ending::NotRun { .. })));
            prop_assert_eq!(broken, not_run);
        }
    }

    #[test]
    fn possibly_made_attempt_is_followed_only_by_another_node(plan in plan()) {
        let execution = play(&plan);
        let mut last: BTreeMap<String, (String, bool)> = BTreeMap::new();
        let mut attempts: BTreeMap<String, u32> = BTreeMap::new();
        for event in &execution.history {
            match event {
                GraphEvent::AttemptStarted { step, attempt, node, .. } => {
                    let count = attempts.entry(step.to_string()).or_default();
                    *count += 1;
                    prop_assert_eq!(*attempt, *count);
                    if let Some((before, true)) = last.get(step.as_str()) {
                        prop_assert_ne!(before.as_str(), node.as_str());
                    }
                    last.insert(step.to_string(), (node.to_string(), false));
                }
                GraphEvent::AttemptEnded { step, outcome, .. } => {
                    if let Some(entry) = last.get_mut(step.as_str()) {
                        entry.1 = *outcome == StepOutcome::Unknown;
                    }
                }
                _ => {}
            }
        }
    }

    #[test]
    fn events_round_trip_through_text(plan in plan()) {
        let execution = play(&plan);
        let written = serde_json::to_string(&execution.history).unwrap();
        let read: Vec<GraphEvent> = serde_json::from_str(&written).unwrap();
        prop_assert_eq!(read, execution.history);
    }
}
