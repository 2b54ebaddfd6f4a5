//! Text that is typed and not entered, although the run then waits for what a command prints.

use serde_json::Value;

use super::document::escaped;
use super::{Problem, State};
use crate::tool;

/// Returns a warning for every input that looks like a command, does not end with a line feed, and is waited for.
pub(super) fn warnings(states: &[State]) -> Vec<Problem> {
    let typed = states.iter().filter(|state| state.action.tool == tool::SEND_INPUT);
    typed.filter_map(|state| warning(state, states)).collect()
}

fn warning(state: &State, states: &[State]) -> Option<Problem> {
    let params = &state.action.params;
    let text = params.get("input_text").and_then(Value::as_str)?;
    let has_keys = params.get("keys").is_some_and(|keys| !keys.is_null());
    // A variable may end with a line feed, and single keys are for programs that read them one by one.
    let is_entered = text.ends_with(['\n', '\r', '}', '\u{1b}']) || text.chars().any(char::is_control);
    let is_word =
        text.chars().count() > 2 && text.starts_with(|first: char| first.is_alphanumeric() || "./~$".contains(first));
    if has_keys || is_entered || !is_word {
        return None;
    }
    let next = state.transitions.iter().filter_map(|transition| {
        states.iter().find(|next| next.name == transition.next_state && next.action.tool == tool::AWAIT_OUTPUT)
    });
    let mut waits =
        std::iter::once(state).filter(|state| tool::waits(tool::SEND_INPUT, &state.action.params)).chain(next);
    let for_command = |wait: &&State| {
        let for_prompt = wait.action.params.get("until").is_some_and(|until| *until == "prompt");
        for_prompt || text.contains(' ')
    };
    let wait = waits.find(for_command)?;
    let pointer = format!("/states/{}/action/params/input_text", escaped(&state.name));
    let message = format!("the text is not entered before state '{}' waits: it does not end with \\n", wait.name);
    Some(Problem::warning(pointer, message))
}
