//! The variables of a contract in a shell: set and read without a trace on the screen.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use steplatch_access::Caller;
use steplatch_protocol::{AwaitOutput, AwaitUntil, GetVariables, SetVariables};
use steplatch_sessions::{Sessions, ShellQueryError};
use steplatch_workflow::{Definition, History, Input, ShellAnswer, State, secret_variable};

use super::act;

/// Maximum time that a shell may still be busy with the last input, in seconds.
const PROMPT_TIMEOUT_SECONDS: f64 = 10.0;

/// Sets and exports variables in the shell of a terminal.
pub(crate) async fn set(
    sessions: &Sessions,
    caller: &Arc<Caller>,
    mut session_id: String,
    variables: BTreeMap<String, String>,
) -> ShellAnswer {
    if let Err(error) = act::check_was_shown(sessions, caller, &mut session_id).await {
        return ShellAnswer::Failed { error };
    }
    if let Err(error) = wait_for_prompt(sessions, caller, &session_id, variables.keys().cloned().collect()).await {
        return failed_answer(error);
    }
    let reply = sessions.set_variables(caller, SetVariables { session_id, variables, export: true }).await;
    match reply.error {
        None => ShellAnswer::Told { values: BTreeMap::new() },
        Some(error) => ShellAnswer::Failed { error },
    }
}

/// Reads variables in the shell of a terminal. Does not mask secrets.
pub(crate) async fn read(
    sessions: &Sessions,
    caller: &Arc<Caller>,
    session_id: String,
    names: Vec<String>,
) -> ShellAnswer {
    if let Err(error) = wait_for_prompt(sessions, caller, &session_id, names.clone()).await {
        return failed_answer(error);
    }
    match sessions.unmasked_variables(&GetVariables { session_id, names }).await {
        Ok(values) => ShellAnswer::Told { values },
        Err(error) => failed_answer(error),
    }
}

fn failed_answer(error: ShellQueryError) -> ShellAnswer {
    let (ShellQueryError::Busy(error) | ShellQueryError::Otherwise(error)) = error;
    ShellAnswer::Failed { error }
}

/// Waits until the last command that a machine typed has finished. Returns immediately for a program that cannot report
/// its variables.
///
/// # Errors
///
/// If the shell will not report its variables.
async fn wait_for_prompt(
    sessions: &Sessions,
    caller: &Arc<Caller>,
    session_id: &str,
    names: Vec<String>,
) -> Result<(), ShellQueryError> {
    let verb = GetVariables { session_id: session_id.to_owned(), names };
    if let Err(error @ ShellQueryError::Otherwise(_)) = sessions.unmasked_variables(&verb).await {
        return Err(error);
    }
    // Wait even if the shell answered, because the last input may not have started yet.
    let wait = AwaitOutput {
        session_id: session_id.to_owned(),
        until: AwaitUntil::Prompt,
        timeout: PROMPT_TIMEOUT_SECONDS,
        ..AwaitOutput::default()
    };
    sessions.wait(caller, wait).await;
    Ok(())
}

/// Returns the secrets that an input contains: values that the contract declares as secret, and variables that a state
/// types as a secret.
pub(super) fn input_secrets(definition: &Definition, history: &History, input: &Input) -> Vec<String> {
    let mut found = Vec::new();
    match input {
        Input::Start(start) => {
            let variable_value = |name: &str| start.variables.get(name).and_then(Value::as_str).map(str::to_owned);
            let contract = definition.arguments().iter().chain(definition.return_values());
            for variable in contract.filter(|variable| variable.is_secret()) {
                found.extend(variable_value(variable.name()).into_iter().chain(variable.default().map(str::to_owned)));
            }
            found.extend(definition.secrets().filter_map(|name| variable_value(&secret_variable(name))));
            for typed in definition.states().iter().flat_map(State::secret_texts) {
                let named =
                    |name: &&String| typed.contains(&format!("{{{name}}}")) || typed.contains(&format!("{{{name}|"));
                found.extend(start.variables.keys().filter(named).filter_map(|name| variable_value(name)));
                if !typed.contains('{') {
                    found.push(typed.to_owned());
                }
            }
        }
        Input::ShellAnswered { answer: ShellAnswer::Told { values }, .. } if history.exchange().is_some() => {
            let secret = |name: &str| {
                let variable = definition.arguments().get(name).or_else(|| definition.return_values().get(name));
                variable.is_some_and(steplatch_workflow::ContractVariable::is_secret)
            };
            let secrets = values.iter().filter(|(name, _)| secret(name));
            found.extend(secrets.filter_map(|(_, value)| value.clone()));
        }
        _ => {}
    }
    found
}
