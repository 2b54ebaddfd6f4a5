//! Actions on terminals, as verbs and as steps of runs.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use serde_json::{Map, Value};
use steplatch_access::Caller;
use steplatch_protocol::{Command, VerbInfo};

use crate::answer::VerbReply;
use crate::sessions::Sessions;

/// Performs a command that is also an action of workflows.
#[boxed]
pub async fn act(sessions: &Sessions, caller: &Arc<Caller>, action: Command, step: Option<String>) -> VerbReply {
    match action {
        Command::OpenTerminal(verb) => VerbReply::from_reply(sessions.open(caller, verb, step).await),
        Command::RunCommand(verb) => VerbReply::from_reply(sessions.run_command(caller, verb, step).await),
        Command::SendInput(verb) => VerbReply::from_reply(sessions.send(caller, verb, step).await),
        Command::AwaitOutput(verb) => VerbReply::from_reply(sessions.wait(caller, verb).await),
        Command::GetScreenContent(verb) => VerbReply::from_reply(sessions.read(caller, verb).await),
        Command::ListTerminalSessions(_) => VerbReply::from_reply(sessions.list().await),
        Command::ExitTerminal(verb) => VerbReply::from_reply(sessions.exit_once(caller, verb, step).await),
        Command::PutFile(verb) => VerbReply::from_reply(sessions.put_file(caller, verb, step).await),
        Command::GetFile(verb) => VerbReply::from_reply(sessions.get_file(caller, verb, step).await),
        other => VerbReply::failure(format!("a workflow cannot do {other:?}")),
    }
}

/// Performs `action`, with its parameters, for the step of a run, and returns its result.
#[boxed]
pub async fn perform(
    sessions: &Sessions,
    caller: &Arc<Caller>,
    action: &VerbInfo,
    params: Map<String, Value>,
    step: String,
) -> Map<String, Value> {
    let answer = match Command::parse(action.name, Value::Object(params)) {
        Some(Ok((command, _))) => act(sessions, caller, command, Some(step)).await,
        Some(Err(invalid)) => VerbReply::failure(invalid.to_string()),
        None => VerbReply::failure(format!("there is no verb '{}'", action.name)),
    };
    match answer.data {
        Value::Object(mut result) => {
            // Some failed verbs have the reason in another field.
            if !answer.success && !result.contains_key("error") {
                let reason = answer.error.or_else(|| result.get("message").and_then(Value::as_str).map(str::to_owned));
                result.extend(reason.map(|reason| ("error".to_owned(), reason.into())));
            }
            result
        }
        value => Map::from_iter([("success".to_owned(), Value::Bool(answer.success)), ("value".to_owned(), value)]),
    }
}
