//! Return values that are unreadable at the end of the run: the shell that has them is closed, or is none.

use super::document::escaped;
use super::{Problem, State, reach};
use crate::contract::Contract;
use crate::tool;

/// Shells that report their variables.
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// Returns a warning for every return value that the shell has to report although it may not be able to. It reports
/// before a finally state, so only states on the ways from the initial state count.
pub(super) fn warnings(return_values: &Contract, initial: &str, states: &[State]) -> Vec<Problem> {
    let reached = reach::reached(initial, states);
    let closes = states.iter().find(|state| {
        reached.contains(state.name.as_str()) && state.action.tool == tool::EXIT_TERMINAL && state.ends().completes
    });
    let other = states.iter().find_map(|state| {
        let shell = state.action.params.get("shell").and_then(serde_json::Value::as_str)?;
        let name = shell.rsplit('/').next().unwrap_or(shell);
        let reports = SHELLS.contains(&name) || shell.contains('{') || shell.is_empty();
        (state.action.tool == tool::OPEN_TERMINAL && !reports).then_some((&state.name, shell))
    });
    let why = match (closes, other) {
        (Some(state), _) => format!("state '{}' closes the terminal and may end the run", state.name),
        (None, Some((state, shell))) => format!("'{shell}', which state '{state}' opens, does not report variables"),
        (None, None) => return Vec::new(),
    };
    let warning = |name: &str| {
        let message = format!(
            "{name} is read from the shell after the last state, but {why}; make it of variables: \
             {{\"from\": \"{{STATE_FIELD}}\"}}"
        );
        Problem::warning(format!("/return_values/{}", escaped(name)), message)
    };
    return_values.names_in_shell().map(warning).collect()
}
