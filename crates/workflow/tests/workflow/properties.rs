//! What holds for every machine, whatever its states return.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use steplatch_workflow::{
    Definition, Effect, Event, History, Input, Limits, Outcome, Start, Timestamp, decide, execution_log, resume,
};

use crate::machine::{Tools, fields, start};

/// One condition, by a number that picks it.
fn condition(pick: u8) -> Value {
    match pick % 9 {
        0 => json!({}),
        1 => json!({"success": true}),
        2 => json!("failure"),
        3 => json!({"pattern_match": "ok|{s0_match_text}"}),
        4 => json!({"field_equals": {"exit_code": 0}}),
        5 => json!("timeout"),
        6 => json!({"outcome_unknown": true}),
        7 => json!({"field_contains": {"screen_content": "{match_text}"}}),
        _ => json!({"pattern_not_match": "error"}),
    }
}

fn action(pick: u8) -> Value {
    match pick % 6 {
        0 => json!({"tool": "send_input", "params": {"input_text": "{match_text} {s1_error|sh}"}}),
        1 => json!({"tool": "await_output", "params": {"pattern": "{match_text}"}}),
        2 => json!({"tool": "open_terminal"}),
        3 => json!({"tool": "exit_terminal", "params": {"session_id": "{session_id}"}}),
        4 => json!({"tool": "sleep", "params": {"seconds": "{exit_code}"}}),
        _ => json!({"tool": "get_screen_content", "params": {"session_id": null}}),
    }
}

/// A machine of a few states, connected at random.
fn machines() -> impl Strategy<Value = Value> {
    let transition = (any::<u8>(), any::<u8>());
    let state = (any::<u8>(), prop::collection::vec(transition, 0..4), prop::option::of(any::<u8>()));
    prop::collection::vec(state, 1..5).prop_map(|states| {
        let count = states.len();
        let target = |pick: u8| format!("s{}", usize::from(pick) % count);
        let transition = |(pick, to)| json!({"condition": condition(pick), "next_state": target(to)});
        let mut document = Map::new();
        for (index, (pick, transitions, on_timeout)) in states.into_iter().enumerate() {
            let transitions: Vec<Value> = transitions.into_iter().map(transition).collect();
            let state = json!({
                "action": action(pick), "transitions": transitions, "on_timeout": on_timeout.map(target)
            });
            document.insert(format!("s{index}"), state);
        }
        json!({"name": "machine", "initial_state": "s0", "states": document})
    })
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    let text = prop::sample::select(vec!["", "ok", "error (", "{session_id}", "a{2}", "0"]);
    let result =
        (any::<bool>(), prop::option::of(text.clone()), text, 0..3).prop_map(|(success, matched, screen, code)| {
            Outcome::Finished {
                result: fields(&json!({
                    "success": success, "match_text": matched, "screen_content": screen, "exit_code": code,
                    "session_id": format!("term_{code}")
                })),
            }
        });
    prop_oneof![8 => result, 1 => Just(Outcome::TimedOut), 1 => Just(Outcome::Unknown)]
}

fn started(max_states: u32) -> Start {
    Start { limits: Limits::new(max_states, 1800.0).expect("limits within bounds"), ..start() }
}

proptest! {
    #[test]
    fn a_run_ends_within_its_limit_and_every_replay_decides_the_same(
        document in machines(), script in prop::collection::vec(outcomes(), 1..8), max_states in 1u32..12,
    ) {
        let definition = Definition::parse(&document, &Tools).expect("a generated machine");
        let mut history = History::new();
        let mut log: Vec<Event> = Vec::new();
        let mut decided = Vec::new();
        let mut input = Input::Start(started(max_states));
        let mut outcomes = script.into_iter().cycle();
        let mut now = Timestamp(0);
        loop {
            let decision = decide(&definition, &history, input.clone(), now);
            history.extend(&decision.events);
            decided.push((log.len(), input, now, decision.clone()));
            log.extend(decision.events);
            prop_assert!(history.states_executed() <= max_states);
            let Some(current) = history.current() else { break };
            // Whoever is in flight was asked for, and would be asked for again.
            let asked = |effects: &[Effect]| effects.iter().filter(|effect| {
                matches!(effect, Effect::Perform { step, .. } | Effect::Sleep { step, .. } if *step == current.step)
            }).count();
            prop_assert_eq!(asked(&decision.effects), 1);
            prop_assert_eq!(asked(&resume(&history, now)), 1);
            now.0 += 1_000;
            input = Input::Outcome { step: current.step.clone(), outcome: outcomes.next().expect("a cycle") };
        }
        prop_assert!(history.is_over());
        prop_assert!(decided.len() <= max_states as usize + 1);

        // The same prefix of history, folded anew, also from its stored form, gives the same decision.
        let stored = serde_json::to_string(&log).expect("events have a stored form");
        let read: Vec<Event> = serde_json::from_str(&stored).expect("the stored form reads back");
        prop_assert_eq!(&read, &log);
        for (length, input, now, expected) in decided {
            let folded = History::from_iter(&read[..length]);
            prop_assert_eq!(folded.events_applied(), length);
            prop_assert_eq!(decide(&definition, &folded, input, now), expected);
        }
        prop_assert_eq!(History::from_iter(&log), history);
        // Every state that was executed is told in the log, in order.
        let told = execution_log(&log).iter().filter(|entry| {
            matches!(entry, steplatch_workflow::LogEntry::Execution { .. })
        }).count();
        prop_assert_eq!(told, log.iter().filter(|event| matches!(event, Event::StateCompleted { .. })).count());
    }

    #[test]
    fn a_run_that_does_not_complete_closes_every_terminal_it_left_open(
        document in machines(), script in prop::collection::vec(outcomes(), 0..6), cancel in any::<bool>(),
    ) {
        let definition = Definition::parse(&document, &Tools).expect("a generated machine");
        let mut history = History::new();
        let mut last = decide(&definition, &history, Input::Start(started(100)), Timestamp(0));
        history.extend(&last.events);
        let end = if cancel { Input::Cancel { reason: "enough".into() } } else { Input::DeadlinePassed };
        let mut script = script.into_iter();
        while let Some(current) = history.current() {
            let step = current.step.clone();
            let input = script.next().map_or(end.clone(), |outcome| Input::Outcome { step, outcome });
            last = decide(&definition, &history, input, Timestamp(1));
            history.extend(&last.events);
        }
        let closed: Vec<_> = last.effects.iter().filter_map(|effect| match effect {
            Effect::CloseTerminal { session_id } => Some(session_id.clone()),
            _ => None,
        }).collect();
        let completed = history.error().is_none();
        prop_assert_eq!(closed, if completed { Vec::new() } else { history.open_terminals().to_vec() });
    }
}
