//! Warnings about a typed command without Enter, followed by a wait for its output.

use serde_json::Value;

use super::document::escaped;
use super::{Problem, State};
use crate::{dialogue, tool};

/// Returns a warning for every input that looks like a command, does not end with a line feed, and precedes a wait for
/// the command's output.
pub(super) fn warnings(states: &[State]) -> Vec<Problem> {
    let inputs = states.iter().filter(|state| state.action.tool == tool::SEND_INPUT);
    let answers = states.iter().filter(|state| state.action.tool == tool::DIALOGUE).flat_map(dialogue_warnings);
    inputs.filter_map(|state| warning(state, states)).chain(answers).collect()
}

/// Returns a warning for every text of a dialogue without a line feed or a key at its end.
fn dialogue_warnings(state: &State) -> impl Iterator<Item = Problem> + '_ {
    let texts = dialogue::texts_without_key(&state.action.params).filter(|(_, text)| is_unentered_command(text));
    texts.map(|(place, _)| {
        let pointer = format!("/states/{}/action/params{place}", escaped(&state.name));
        Problem::warning(pointer, "the text is not entered: it does not end with \\n, and no key is pressed after it")
    })
}

/// Returns whether text looks like a command and does not end with a line feed.
fn is_unentered_command(text: &str) -> bool {
    // A variable may end with a line feed. Single keys are for programs that read key by key.
    let is_entered = text.ends_with(['\n', '\r', '}', '\u{1b}']) || text.chars().any(char::is_control);
    let is_word =
        text.chars().count() > 2 && text.starts_with(|first: char| first.is_alphanumeric() || "./~$".contains(first));
    is_word && !is_entered
}

fn warning(state: &State, states: &[State]) -> Option<Problem> {
    let params = &state.action.params;
    let text = params.get("input_text").and_then(Value::as_str)?;
    let has_keys = params.get("keys").is_some_and(|keys| !keys.is_null());
    if has_keys || !is_unentered_command(text) {
        return None;
    }
    let next_waits = state.transitions.iter().filter_map(|transition| {
        states.iter().find(|next| next.name == transition.next_state && next.action.tool == tool::AWAIT_OUTPUT)
    });
    let mut waits =
        std::iter::once(state).filter(|state| tool::waits(tool::SEND_INPUT, &state.action.params)).chain(next_waits);
    let awaits_output = |wait: &&State| {
        let awaits_prompt = wait.action.params.get("until").is_some_and(|until| *until == "prompt");
        awaits_prompt || text.contains(' ')
    };
    let wait = waits.find(awaits_output)?;
    let pointer = format!("/states/{}/action/params/input_text", escaped(&state.name));
    let message = format!("the text is not entered before state '{}' waits: it does not end with \\n", wait.name);
    Some(Problem::warning(pointer, message))
}
