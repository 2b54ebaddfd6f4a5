//! Randomly generated machines and inputs.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use steplatch_workflow::{History, Input, Limits, Outcome, ShellAnswer, Start};

use super::machine::{fields, start};

/// Returns a condition, selected by a number.
fn condition(pick: u8) -> Value {
    match pick % 11 {
        0 => json!({}),
        1 => json!({"success": true}),
        2 => json!("failure"),
        3 => json!({"pattern_match": "ok|{s0_match_text}"}),
        4 => json!({"field_equals": {"exit_code": 0}}),
        5 => json!("timeout"),
        6 => json!({"outcome_unknown": true}),
        7 => json!({"field_contains": {"screen_content": "{match_text}"}}),
        8 => json!({"description": format!("number {pick} of {{match_text}}")}),
        9 => json!({"success": true, "description": format!("it worked, {pick}")}),
        _ => json!({"pattern_not_match": "error"}),
    }
}

fn action(pick: u8) -> Value {
    match pick % 17 {
        0 => json!({"tool": "send_input", "params": {"input_text": "{match_text} {s1_error|sh} {answer}"}}),
        1 => json!({"tool": "await_output", "params": {"pattern": "{match_text}"}}),
        2 => json!({"tool": "open_terminal"}),
        3 => json!({"tool": "exit_terminal", "params": {"session_id": "{session_id}"}}),
        4 => json!({"tool": "sleep", "params": {"seconds": "{exit_code}"}}),
        5 => json!({"tool": "run_workflow", "params": {"workflow_name": "w{exit_code}"}}),
        6 => json!({"tool": "run_workflow", "params": {"workflow_name": "w", "max_states": "{match_text}"}}),
        7 => json!({"tool": "fail", "params": {"message": "{error}"}}),
        8 => json!({"tool": "gate", "params": {"prompt": "{match_text}", "choices": ["0", "{match_text}"]}}),
        10 => json!({"tool": "run_command", "params": {"command": "{output} {s0_output} {set}"}}),
        11 => json!({"tool": "set", "params": {"set": "{exit_code}", "deep": {"x": ["{s0_output}", null]}}}),
        12 => json!({"tool": "return", "params": {"result": "{deep.x.0}"}}),
        9 => json!({"tool": "gate", "params": {"prompt": "how?", "choices": ["0"], "timeout": "{exit_code}"}}),
        13 => json!({"tool": "parallel", "params": {"workflows": {
            "a": {"workflow_name": "w"}, "b": {"workflow_name": "w{exit_code}"}, "c": {"workflow_name": "{match_text}"}
        }, "max_parallel": 2}}),
        14 => json!({"tool": "parallel", "params": {"workflows": [
            {"workflow_name": "w"}, {"workflow_name": "w"}, {"workflow_name": "w"}
        ], "fail_fast": true}}),
        15 => json!({"tool": "parallel", "params": {"workflows": [], "max_parallel": "{exit_code}"}}),
        _ => json!({"tool": "get_screen_content", "params": {"session_id": null}}),
    }
}

/// Returns the items of a state; most states have none.
fn items(pick: u8, tool: &Value) -> Option<Value> {
    let is_single = ["gate", "return", "fail", "parallel"].iter().any(|single| tool == single);
    match pick % 20 {
        _ if is_single => None,
        0 => Some(json!("{match_text}\n{exit_code}")),
        1 => Some(json!(["a", "{exit_code}"])),
        2 => Some(json!({"items": "{s0_results}", "as": "set", "max_items": 2})),
        3 => Some(json!([])),
        4..12 if tool == "run_workflow" => {
            Some(json!({"items": ["a", "b", "c"], "max_parallel": 2, "fail_fast": pick.is_multiple_of(2)}))
        }
        _ => None,
    }
}

fn contracts() -> impl Strategy<Value = (Value, Value)> {
    let arguments = prop::sample::select(vec![
        json!({}),
        json!({"A": "needed"}),
        json!({"A": {"required": false}, "B": {"default": "b", "secret": true}}),
        json!({"A": "needed", "B": {"schema": {"enum": ["0", "ok"]}}}),
    ]);
    let return_values = prop::sample::select(vec![json!({}), json!({"X": "left"}), json!({"X": {"required": false}})]);
    (arguments, return_values)
}

/// Generates machines of a few randomly connected states.
pub(crate) fn machines() -> impl Strategy<Value = Value> {
    let transition = (any::<u8>(), any::<u8>());
    let state = (any::<u8>(), prop::collection::vec(transition, 0..4), prop::option::of(any::<u8>()));
    let states = prop::collection::vec(state, 1..5);
    let finally = prop::option::of(any::<u8>());
    (states, contracts(), finally).prop_map(|(states, (arguments, return_values), finally)| {
        let count = states.len();
        let target = |pick: u8| format!("s{}", usize::from(pick) % count);
        let mut document = Map::new();
        for (index, (pick, mut transitions, on_timeout)) in states.into_iter().enumerate() {
            // The conditions of a gate must differ.
            let mut known_conditions = Vec::new();
            transitions.retain(|(pick, _)| {
                let new = !known_conditions.contains(pick);
                known_conditions.push(*pick);
                new
            });
            let transition = |(pick, to)| json!({"condition": condition(pick), "next_state": target(to)});
            let transitions: Vec<Value> = transitions.into_iter().map(transition).collect();
            let action = action(pick);
            let transitions = if action["tool"] == "return" { Vec::new() } else { transitions };
            let max_visits = (pick % 3 == 0).then_some(2);
            let on_exhausted = (pick % 6 == 0).then(|| target(pick));
            let for_each = items(pick, &action["tool"]);
            let state = json!({
                "action": action, "transitions": transitions, "on_timeout": on_timeout.map(target),
                "max_visits": max_visits, "on_exhausted": on_exhausted, "for_each": for_each,
                "on_unknown": if pick % 4 == 0 { "ask" } else { "fail" }
            });
            document.insert(format!("s{index}"), state);
        }
        json!({
            "name": "machine", "arguments": arguments, "return_values": return_values, "initial_state": "s0",
            "finally": finally.map(target), "states": document
        })
    })
}

/// Generates starts of runs.
pub(crate) fn starts() -> impl Strategy<Value = Start> {
    let variables = prop::sample::select(vec![json!({}), json!({"A": "a"}), json!({"A": "a", "B": "ok"})]);
    (1u32..12, any::<bool>(), variables, 0u32..7).prop_map(|(max_states, given, variables, depth)| Start {
        limits: Limits::new(max_states, 1800.0).expect("the limits are valid"),
        session_id: given.then(|| "term_given".to_owned()),
        variables: fields(&variables),
        depth,
        ..start()
    })
}

/// Random outcome of an effect of any kind.
#[derive(Debug, Clone)]
pub(crate) struct RandomOutcome {
    outcome: Outcome,
    shell: Option<Vec<bool>>,
    choice: u8,
}

impl RandomOutcome {
    pub(crate) fn outcome(&self) -> &Outcome {
        &self.outcome
    }
}

pub(crate) fn random_outcomes() -> impl Strategy<Value = RandomOutcome> {
    let text = prop::sample::select(vec!["", "ok", "error (", "{session_id}", "a{2}", "0"]);
    let result =
        (any::<bool>(), prop::option::of(text.clone()), text, 0..3).prop_map(|(success, matched, screen, code)| {
            Outcome::Finished {
                result: fields(&json!({
                    "success": success, "match_text": matched, "screen_content": screen, "exit_code": code,
                    "session_id": format!("term_{code}"), "recursion_depth": code
                })),
            }
        });
    let outcome = prop_oneof![8 => result, 1 => Just(Outcome::TimedOut), 1 => Just(Outcome::Unknown)];
    let shell = prop::option::weighted(0.9, prop::collection::vec(any::<bool>(), 3));
    (outcome, shell, any::<u8>()).prop_map(|(outcome, shell, choice)| RandomOutcome { outcome, shell, choice })
}

/// Returns the next input of a run that waits.
pub(crate) fn next_input(history: &History, random_outcome: &RandomOutcome) -> Input {
    if history.current().is_some() {
        // Branches end in any order.
        let steps = history.awaited_steps();
        let step = steps[usize::from(random_outcome.choice) % steps.len()].clone();
        return Input::Outcome { step, outcome: random_outcome.outcome.clone() };
    }
    if let Some(exchange) = history.exchange() {
        let reported = |set: &Vec<bool>| {
            let value = |(name, set): (&String, &bool)| (name.clone(), set.then(|| "0".to_owned()));
            ShellAnswer::Told { values: exchange.read.iter().zip(set.iter().cycle()).map(value).collect() }
        };
        let failed = || ShellAnswer::Failed { error: "the shell is busy".to_owned() };
        let answer = random_outcome.shell.as_ref().map_or_else(failed, reported);
        return Input::ShellAnswered { step: exchange.step.clone(), answer };
    }
    let gate = history.gate().expect("an unfinished run waits for an input");
    let choices = gate.choices();
    let choice = choices[usize::from(random_outcome.choice) % choices.len()].to_owned();
    Input::GateAnswered { step: gate.step.clone(), choice, by: "somebody".into() }
}
