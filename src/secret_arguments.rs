//! Secret arguments of a machine that a person starts. Missing values are requested from the person, without echo.

use std::path::Path;

use serde_json::Value;
use steplatch_protocol::{DescribeWorkflow, ReconnectingClient, RunWorkflow};

use crate::failure::Failure;
use crate::passphrase;
use crate::question::Person;

/// A secret argument without a value.
#[derive(Debug, PartialEq, Eq)]
struct SecretArgument {
    name: String,
    description: Option<String>,
}

/// Requests every required secret argument whose value is neither on the command line nor in the environment. Ignores
/// an unreadable workflow, because the daemon reports the error.
///
/// # Errors
/// If the person gives no value.
pub(crate) async fn ask(daemon: &ReconnectingClient, verb: &mut RunWorkflow) -> Result<(), Failure> {
    // The shell of an existing terminal may have the values.
    let Some(mut person) = Person::at_terminal().filter(|_| verb.session_id.is_none()) else { return Ok(()) };
    let variables = verb.initial_variables.get_or_insert_default();
    let is_missing = |argument: &SecretArgument| {
        let is_set = variables.keys().any(|name| name.eq_ignore_ascii_case(&argument.name));
        !is_set && std::env::var_os(&argument.name).is_none()
    };
    let required = match (&verb.workflow_file, &verb.workflow_name) {
        (Some(file), _) => read_file_arguments(Path::new(file)),
        (None, Some(name)) => read_saved_arguments(daemon, name).await,
        (None, None) => Vec::new(),
    };
    let missing_arguments: Vec<SecretArgument> = required.into_iter().filter(is_missing).collect();
    for SecretArgument { name, description } in missing_arguments {
        let note = description.map(|description| format!(" ({description})")).unwrap_or_default();
        let answer = passphrase::ask(&mut person, &format!("{name}{note}: ")).await;
        person.end_question();
        let value = answer.map_err(|_| Failure::usage(format!("argument {name} was not given")))?;
        variables.insert(name, value.0.into());
    }
    Ok(())
}

/// Returns the secret arguments of a machine in a file.
fn read_file_arguments(file: &Path) -> Vec<SecretArgument> {
    let document = std::fs::read(file).ok().and_then(|text| serde_json::from_slice(&text).ok());
    document.as_ref().map(document_arguments).unwrap_or_default()
}

fn document_arguments(document: &Value) -> Vec<SecretArgument> {
    let required = |(_, argument): &(&String, &Value)| {
        argument["secret"] == true && argument["required"] != false && argument["default"].is_null()
    };
    let arguments = document["arguments"].as_object().into_iter().flatten().filter(required);
    let text = |text: &Value| text.as_str().map(str::to_owned);
    arguments
        .map(|(name, argument)| SecretArgument { name: name.clone(), description: text(&argument["description"]) })
        .collect()
}

/// Returns the secret arguments of a saved machine.
async fn read_saved_arguments(daemon: &ReconnectingClient, name: &str) -> Vec<SecretArgument> {
    let Ok(reply) = daemon.call(DescribeWorkflow { name: name.to_owned() }).await else { return Vec::new() };
    let required = reply
        .arguments
        .into_iter()
        .filter(|argument| argument.secret && argument.required && argument.default.is_none());
    required.map(|argument| SecretArgument { name: argument.name, description: argument.description }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn required_secret_arguments_are_requested() {
        let document = json!({"arguments": {
            "PW": {"secret": true, "description": "of the database"}, "A": "plain", "B": {"secret": true, "default": "x"},
            "C": {"secret": true, "required": false}, "KEY": {"secret": true, "required": true}}});
        let arguments: Vec<_> =
            document_arguments(&document).into_iter().map(|argument| (argument.name, argument.description)).collect();
        assert_eq!(arguments, [("PW".to_owned(), Some("of the database".to_owned())), ("KEY".to_owned(), None)]);
        assert!(
            document_arguments(&json!([])).is_empty() && read_file_arguments(Path::new("/nowhere/at.json")).is_empty()
        );
    }
}
