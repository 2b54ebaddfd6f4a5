//! Random machines over every action of the language.

use serde_json::{Map, Value, json};

use crate::random::Random;

/// Name of the machine that is not the daemon's.
pub(crate) const REMOTE: &str = "box";

/// Number of answers that a dialogue gives.
pub(crate) const ANSWERS: u64 = 2;

/// Maximum depth of machines within machines.
const MAX_DEPTH: u32 = 2;

/// Returns the definition of a random machine.
pub(crate) fn machine(random: &mut Random) -> Value {
    nested(random, MAX_DEPTH)
}

fn nested(random: &mut Random, depth: u32) -> Value {
    let count = 1 + random.below(5);
    let mut states = Map::new();
    for number in 0..count {
        let mut state = state(random, depth, number);
        if number + 1 < count {
            state["transitions"] = json!([{"condition": "success", "next_state": format!("s{}", number + 1)}]);
        }
        states.insert(format!("s{number}"), state);
    }
    json!({"initial_state": "s0", "states": states})
}

fn state(random: &mut Random, depth: u32, number: u64) -> Value {
    let here = !random.one_in(3);
    let on_host = |mut params: Value| {
        if !here {
            params["host"] = REMOTE.into();
        }
        params
    };
    let action = |tool: &str, params: Value| json!({"tool": tool, "params": params});
    let mut state = match random.below(if depth == 0 { 11 } else { 14 }) {
        0..=2 => json!({"action": action("run_command", on_host(json!({"command": "make"})))}),
        3 => json!({"action": action("open_terminal", on_host(json!({"shell": "bash"})))}),
        4 => json!({"action": action("send_input", json!({"input_text": "yes\n"}))}),
        5 => json!({"action": action("put_file", on_host(json!({"path": format!("/srv/{number}"), "content": "x"})))}),
        6 => json!({"action": action("exit_terminal", json!({}))}),
        7 => json!({"action": action("sleep", json!({"seconds": 0.05}))}),
        8 => json!({"action": action("run_node", json!({"node_id": "notify", "input": "x"}))}),
        9 => {
            let rules = json!([{"when": "sure", "type": "yes\n", "times": ANSWERS}]);
            json!({"action": action("dialogue", json!({"input_text": "./install\n", "rules": rules}))})
        }
        10 => {
            json!({"action": action("gate", json!({"prompt": "Go on?", "choices": ["yes"], "answered_by": "anyone"}))})
        }
        11 => json!({"action": action("run_workflow", json!({"workflow_definition": nested(random, depth - 1)}))}),
        12 => {
            let workflows: Vec<Value> =
                (0..2 + random.below(2)).map(|_| json!({"workflow_definition": nested(random, depth - 1)})).collect();
            json!({"action": action("parallel", json!({"workflows": workflows}))})
        }
        _ => json!({
            "for_each": {"items": ["a", "b"], "as": "item"},
            "action": action("run_command", json!({"command": "echo {item}"})),
        }),
    };
    // Some limits pass, most do not.
    state["timeout"] = if random.one_in(8) { json!(1) } else { json!(3000) };
    state
}
