//! Warnings about return values that cannot be read at the end of a run, because the shell is closed or does not report
//! variables.

use super::document::escaped;
use super::{Problem, State, reach};
use crate::contract::Contract;
use crate::tool;

/// Shells that report their variables.
const REPORTING_SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// Returns a warning for every return value that is read from the shell although the shell may be unable to report it.
/// Return values are read before the finally state, so only states that the initial state reaches count.
pub(super) fn warnings(return_values: &Contract, initial: &str, states: &[State]) -> Vec<Problem> {
    let reached = reach::reachable_states(initial, states);
    let closing_state = states.iter().find(|state| {
        reached.contains(state.name.as_str()) && state.action.tool == tool::EXIT_TERMINAL && state.ends().completes
    });
    let unsupported_shell = states.iter().find_map(|state| {
        let shell = state.action.params.get("shell").and_then(serde_json::Value::as_str)?;
        let name = shell.rsplit('/').next().unwrap_or(shell);
        let reports = REPORTING_SHELLS.contains(&name) || shell.contains('{') || shell.is_empty();
        (state.action.tool == tool::OPEN_TERMINAL && !reports).then_some((&state.name, shell))
    });
    let reason = match (closing_state, unsupported_shell) {
        (Some(state), _) => format!("state '{}' closes the terminal and may be the last state", state.name),
        (None, Some((state, shell))) => format!("'{shell}', which state '{state}' opens, does not report variables"),
        (None, None) => return Vec::new(),
    };
    let warning = |name: &str| {
        let message = format!(
            "{name} is read from the shell after the last state, but {reason}; build it from variables: \
             {{\"from\": \"{{STATE_FIELD}}\"}}"
        );
        Problem::warning(format!("/return_values/{}", escaped(name)), message)
    };
    return_values.names_in_shell().map(warning).collect()
}
