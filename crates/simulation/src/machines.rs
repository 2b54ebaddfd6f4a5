//! Random machines over every action of the language, and one small machine for each action.

use serde_json::{Map, Value, json};

use crate::random::Random;

/// Configured name of the remote host.
pub(crate) const REMOTE: &str = "box";

/// Number of answers that a dialogue gives.
pub(crate) const ANSWERS: u64 = 2;

/// Placeholder for the directory of files. The world replaces it with a temporary directory.
pub(crate) const FILES_DIRECTORY: &str = "/simulated";

/// Maximum depth of machines within machines.
pub(crate) const MAX_DEPTH: u32 = 2;

/// Every action of the language. A new action needs an arm in [`state_of`].
pub(crate) const ACTIONS: [&str; 19] = [
    "open_terminal",
    "run_command",
    "send_input",
    "await_output",
    "get_screen_content",
    "list_terminal_sessions",
    "exit_terminal",
    "put_file",
    "get_file",
    "run_node",
    "run_graph",
    "dialogue",
    "sleep",
    "set",
    "return",
    "fail",
    "gate",
    "run_workflow",
    "parallel",
];

/// Actions with an effect in a terminal or on a file, possibly on the remote host.
pub(crate) const REMOTE_ACTIONS: [&str; 7] =
    ["open_terminal", "run_command", "send_input", "exit_terminal", "put_file", "get_file", "dialogue"];

/// Time limit of most states, in seconds. Longer than any delay of an effect.
pub(crate) const STATE_TIMEOUT: u64 = 3000;

/// Returns the definition of a random machine.
pub(crate) fn machine(random: &mut Random, depth: u32) -> Value {
    let count = 1 + random.below(5);
    // Most machines have a terminal.
    let open_state = (!random.one_in(4)).then(|| state_of("open_terminal", &|params| params, 0, &Value::Null));
    let states = (0..count).map(|number| state(random, depth, number, number + 1 == count));
    chain(open_state.into_iter().chain(states).collect())
}

/// Returns a small machine around one action, on the local or the remote computer. The action has a terminal, and a
/// command with an effect.
pub(crate) fn scenario(tool: &str, is_remote: bool) -> Value {
    let command = json!({"action": {"tool": "run_command", "params": {"command": "make"}}});
    let add_host = |mut params: Value| {
        if is_remote {
            params["host"] = REMOTE.into();
        }
        params
    };
    let open_state = json!({"action": {"tool": "open_terminal", "params": add_host(json!({"shell": "bash"}))}});
    let inner = chain(vec![command.clone()]);
    let action = state_of(tool, &add_host, 1, &inner);
    let states = match tool {
        "open_terminal" | "return" | "fail" => vec![command, action],
        "run_command" => vec![action.clone(), open_state, action],
        _ => vec![open_state, action, command],
    };
    let states = states.into_iter().map(|mut state| {
        state["timeout"] = STATE_TIMEOUT.into();
        state
    });
    chain(states.collect())
}

/// Returns a machine with these states, one after another.
fn chain(states: Vec<Value>) -> Value {
    let count = states.len();
    let named_states = states.into_iter().enumerate().map(|(number, mut state)| {
        if number + 1 < count {
            state["transitions"] = json!([{"condition": "success", "next_state": format!("s{}", number + 1)}]);
        }
        (format!("s{number}"), state)
    });
    json!({"initial_state": "s0", "states": named_states.collect::<Map<_, _>>()})
}

/// Returns the state of an action. `add_host` adds the host of the action, and `inner` is the machine of a nested run.
fn state_of(tool: &str, add_host: &dyn Fn(Value) -> Value, number: u64, inner: &Value) -> Value {
    let params = match tool {
        "open_terminal" => add_host(json!({"shell": "bash"})),
        "run_command" => add_host(json!({"command": "make"})),
        "send_input" => json!({"input_text": "yes\n"}),
        "await_output" => json!({"pattern": "done"}),
        "put_file" => add_host(json!({"path": format!("{FILES_DIRECTORY}/{{run_id}}-{number}"), "content": "x"})),
        "get_file" => add_host(
            json!({"path": format!("{FILES_DIRECTORY}/report"), "to": format!("{FILES_DIRECTORY}/{{run_id}}-{number}")}),
        ),
        "run_node" => json!({"node_id": "note", "input": "x"}),
        "run_graph" => json!({"graph_id": "notes", "input": "x"}),
        "dialogue" => {
            json!({"input_text": "./install\n", "rules": [{"when": "sure", "type": "yes\n", "times": ANSWERS}]})
        }
        "sleep" => json!({"seconds": 0.05}),
        "set" => json!({"word": "x"}),
        "return" => json!({"result": 1}),
        "fail" => json!({"message": "no"}),
        "gate" => json!({"prompt": "Go on?", "choices": ["yes"], "answered_by": "anyone"}),
        "run_workflow" => json!({"workflow_definition": inner}),
        "parallel" => {
            let branches = vec![json!({"workflow_definition": inner}); 2 + usize::from(number.is_multiple_of(2))];
            json!({"workflows": branches})
        }
        _ => json!({}),
    };
    json!({"action": {"tool": tool, "params": params}})
}

fn state(random: &mut Random, depth: u32, number: u64, is_last: bool) -> Value {
    let is_local = !random.one_in(3);
    let add_host = |mut params: Value| {
        if !is_local {
            params["host"] = REMOTE.into();
        }
        params
    };
    let tool = match random.below(if depth == 0 { 16 } else { 21 }) {
        0..=2 => "run_command",
        3..=4 => "open_terminal",
        5 => "send_input",
        6 => "put_file",
        7 => "get_file",
        8 => "exit_terminal",
        9 => "sleep",
        10 => "run_node",
        11 => "dialogue",
        12 => "gate",
        13 if is_last => ["return", "fail"][usize::from(random.one_in(3))],
        13 => "set",
        14 => match random.below(3) {
            0 => "await_output",
            1 => "get_screen_content",
            _ => "list_terminal_sessions",
        },
        15 => "for_each",
        16 => "run_graph",
        17..=18 => "run_workflow",
        _ => "parallel",
    };
    let inner = match tool {
        "run_workflow" | "parallel" => machine(random, depth - 1),
        _ => Value::Null,
    };
    let mut state = match tool {
        "for_each" => json!({
            "for_each": {"items": ["a", "b"], "as": "item"},
            "action": {"tool": "run_command", "params": {"command": "echo {item}"}},
        }),
        tool => state_of(tool, &add_host, number, &inner),
    };
    // Some time limits expire, most do not.
    state["timeout"] = if random.one_in(8) { json!(1) } else { json!(STATE_TIMEOUT) };
    state
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use steplatch_actions::TerminalTools;
    use steplatch_workflow::{Definition, ToolCatalog as _, tool};

    use super::*;

    /// Adds the tools of a machine and of all its nested machines.
    fn add_tools(machine: &Value, tools: &mut BTreeSet<String>) {
        for state in machine["states"].as_object().into_iter().flat_map(|states| states.values()) {
            let action = &state["action"];
            tools.extend(action["tool"].as_str().map(str::to_owned));
            add_tools(&action["params"]["workflow_definition"], tools);
            for branch in action["params"]["workflows"].as_array().into_iter().flatten() {
                add_tools(&branch["workflow_definition"], tools);
            }
        }
    }

    #[test]
    fn every_action_of_the_language_is_simulated() {
        let known = TerminalTools.tools().into_iter().chain(tool::MACHINE_TOOLS.iter().map(|tool| (*tool).to_owned()));
        let simulated: BTreeSet<String> = ACTIONS.into_iter().map(str::to_owned).collect();
        assert_eq!(simulated, known.collect());
        let (mut tools, mut random) = (BTreeSet::new(), Random::new(0));
        for _ in 0..500 {
            add_tools(&machine(&mut random, MAX_DEPTH), &mut tools);
        }
        assert_eq!(simulated, tools, "random machines use all simulated actions");
    }

    #[test]
    fn each_scenario_is_a_machine_with_its_action() {
        for action in ACTIONS {
            for is_remote in [false, true] {
                let document = scenario(action, is_remote);
                Definition::parse(&document, &TerminalTools).unwrap_or_else(|problems| panic!("{action}: {problems}"));
                let mut tools = BTreeSet::new();
                add_tools(&document, &mut tools);
                assert!(tools.contains(action), "{action}: {document}");
            }
        }
    }
}
