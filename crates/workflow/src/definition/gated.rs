//! Advice about machines that ask a person and then act in a terminal that they did not open.

use serde_json::Value;

use super::document::escaped;
use super::{Problem, State};
use crate::question::AnsweredBy;
use crate::tool;

/// Returns advice for the first gate for a person, if the machine acts in a terminal but opens none.
pub(super) fn advice(states: &[State]) -> Option<Problem> {
    let opens = |state: &State| state.action.tool == tool::OPEN_TERMINAL;
    let acts = |state: &State| {
        let is_here = state.action.params.get("host").is_none_or(Value::is_null);
        matches!(state.action.tool.as_str(), tool::SEND_INPUT | tool::DIALOGUE | tool::RUN_COMMAND) && is_here
    };
    if states.iter().any(opens) || !states.iter().any(acts) {
        return None;
    }
    let gate = states.iter().find(|state| asks_person(state))?;
    let pointer = format!("/states/{}/action", escaped(&gate.name));
    let message = "a person is asked, and the run then acts in the terminal of its starter, where functions, aliases or PATH may be \
                   prepared; begin with a state that opens a fresh one (open_terminal)";
    Some(Problem::warning(pointer, message))
}

fn asks_person(state: &State) -> bool {
    let human = AnsweredBy::Human.name();
    state.action.tool == tool::GATE
        && state.action.params.get("answered_by").is_none_or(|who| who.as_str() == Some(human))
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::definition::{Definition, ToolCatalog};

    struct Terminals;

    impl ToolCatalog for Terminals {
        fn tools(&self) -> Vec<String> {
            ["open_terminal", "run_command", "send_input"].map(str::to_owned).to_vec()
        }

        fn check(&self, _: &str, _: &Map<String, Value>) -> Vec<Problem> {
            Vec::new()
        }

        fn takes_session(&self, _: &str) -> bool {
            true
        }

        fn has_judges(&self) -> bool {
            true
        }
    }

    fn advised(first: &Value, gate: &Value, last: &Value) -> bool {
        let to = |next: &str| json!([{"condition": {}, "next_state": next}]);
        let document = json!({"initial_state": "a", "states": {
            "a": {"action": first, "transitions": to("b")},
            "b": {"action": {"tool": "gate", "params": gate}, "transitions": to("c")},
            "c": {"action": last},
        }});
        let definition = Definition::parse(&document, &Terminals).unwrap_or_else(|problems| panic!("{problems}"));
        definition.advice().first().is_some_and(|problem| problem.pointer == "/states/b/action")
    }

    #[test]
    fn gated_machine_is_advised_to_open_a_fresh_terminal() {
        let (wait, open) =
            (json!({"tool": "sleep", "params": {"seconds": 1}}), json!({"tool": "open_terminal", "params": {}}));
        let run = json!({"tool": "run_command", "params": {"command": "make release"}});
        let remote_run = json!({"tool": "run_command", "params": {"command": "make release", "host": "build"}});
        let (human, agent) = (json!({"prompt": "Release?"}), json!({"prompt": "Release?", "answered_by": "agent"}));
        assert!(advised(&wait, &human, &run));
        assert!(!advised(&open, &human, &run), "the machine opens a terminal");
        assert!(!advised(&wait, &agent, &run), "an agent may answer");
        assert!(!advised(&wait, &human, &wait), "the machine acts in no terminal");
        assert!(!advised(&wait, &human, &remote_run), "a shell on a remote host is always new");
    }
}
