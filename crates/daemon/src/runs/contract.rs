//! The shell's side of a contract: its variables, set and told without a trace.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use steplatch_protocol::{AwaitOutput, AwaitUntil, GetVariables, SetVariables};
use steplatch_workflow::{Definition, History, Input, ShellAnswer};

use crate::caller::Caller;
use crate::secrets::Secrets;
use crate::sessions::{NotAsked, Sessions};

/// Seconds that a shell may still be busy with what was typed last.
const UNTIL_PROMPT: f64 = 10.0;

/// Sets and exports variables in the shell of a terminal.
pub(super) async fn set(
    sessions: &Sessions,
    caller: &Arc<Caller>,
    session_id: String,
    variables: BTreeMap<String, String>,
) -> ShellAnswer {
    if let Err(error) = at_prompt(sessions, caller, &session_id, variables.keys().cloned().collect()).await {
        return ShellAnswer::Failed { error };
    }
    let reply = sessions.set_variables(SetVariables { session_id, variables, export: true }).await;
    match reply.error {
        None => ShellAnswer::Told { values: BTreeMap::new() },
        Some(error) => ShellAnswer::Failed { error },
    }
}

/// Looks variables up in the shell of a terminal, secrets as they are.
pub(super) async fn read(
    sessions: &Sessions,
    caller: &Arc<Caller>,
    session_id: String,
    names: Vec<String>,
) -> ShellAnswer {
    if let Err(error) = at_prompt(sessions, caller, &session_id, names.clone()).await {
        return ShellAnswer::Failed { error };
    }
    match sessions.variables_as_they_are(&GetVariables { session_id, names }).await {
        Ok(values) => ShellAnswer::Told { values },
        Err(NotAsked::Busy(error) | NotAsked::Otherwise(error)) => ShellAnswer::Failed { error },
    }
}

/// Waits until what a machine typed last is done. A program that can never be asked is not waited for.
async fn at_prompt(
    sessions: &Sessions,
    caller: &Arc<Caller>,
    session_id: &str,
    names: Vec<String>,
) -> Result<(), String> {
    let verb = GetVariables { session_id: session_id.to_owned(), names };
    if let Err(NotAsked::Otherwise(error)) = sessions.variables_as_they_are(&verb).await {
        return Err(error);
    }
    // Also when the shell answered: a line that was typed just now may not have begun yet.
    let wait = AwaitOutput {
        session_id: session_id.to_owned(),
        until: AwaitUntil::Prompt,
        timeout: UNTIL_PROMPT,
        ..AwaitOutput::default()
    };
    sessions.wait(caller, wait).await;
    Ok(())
}

/// Learns the secrets that come in with an input, before anybody who follows the run is told of them.
pub(super) fn hide(definition: &Definition, history: &History, input: &Input, secrets: &Secrets) {
    let secret = |name: &str| {
        let variable = definition.arguments().get(name).or_else(|| definition.return_values().get(name));
        variable.is_some_and(steplatch_workflow::ContractVariable::is_secret)
    };
    match input {
        Input::Start(start) => {
            let contract = definition.arguments().iter().chain(definition.return_values());
            for variable in contract.filter(|variable| variable.is_secret()) {
                let given = start.variables.get(variable.name()).and_then(Value::as_str);
                given.into_iter().chain(variable.default()).for_each(|value| secrets.add(value));
            }
        }
        Input::ShellAnswered { answer: ShellAnswer::Told { values }, .. } if history.exchange().is_some() => {
            let told = values.iter().filter(|(name, _)| secret(name));
            told.filter_map(|(_, value)| value.as_deref()).for_each(|value| secrets.add(value));
        }
        _ => {}
    }
}
