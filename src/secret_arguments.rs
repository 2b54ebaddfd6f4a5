//! Secret arguments of a machine that a person starts: each one without a value is requested, without echo.

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

/// Asks for every secret argument that the workflow needs and that neither the command line nor the environment has.
/// The daemon reports the error of an unreadable workflow.
///
/// # Errors
/// If the person gives none.
pub(crate) async fn ask(daemon: &ReconnectingClient, verb: &mut RunWorkflow) -> Result<(), Failure> {
    // The shell of an existing terminal may have them.
    let Some(mut person) = Person::here().filter(|_| verb.session_id.is_none()) else { return Ok(()) };
    let given = verb.initial_variables.get_or_insert_default();
    let is_missing = |argument: &SecretArgument| {
        let is_given = given.keys().any(|name| name.eq_ignore_ascii_case(&argument.name));
        !is_given && std::env::var_os(&argument.name).is_none()
    };
    let needed = match (&verb.workflow_file, &verb.workflow_name) {
        (Some(file), _) => of_file(Path::new(file)),
        (None, Some(name)) => of_saved(daemon, name).await,
        (None, None) => Vec::new(),
    };
    let missing: Vec<SecretArgument> = needed.into_iter().filter(is_missing).collect();
    for SecretArgument { name, description } in missing {
        let about = description.map(|about| format!(" ({about})")).unwrap_or_default();
        let answer = passphrase::ask(&mut person, &format!("{name}{about}: ")).await;
        person.end_question();
        let value = answer.map_err(|_| Failure::usage(format!("argument {name} was not given")))?;
        given.insert(name, value.0.into());
    }
    Ok(())
}

/// Returns the secret arguments of a machine in a file.
fn of_file(file: &Path) -> Vec<SecretArgument> {
    let document = std::fs::read(file).ok().and_then(|text| serde_json::from_slice(&text).ok());
    document.as_ref().map(of_document).unwrap_or_default()
}

fn of_document(document: &Value) -> Vec<SecretArgument> {
    let needed = |(_, argument): &(&String, &Value)| {
        argument["secret"] == true && argument["required"] != false && argument["default"].is_null()
    };
    let arguments = document["arguments"].as_object().into_iter().flatten().filter(needed);
    let text = |text: &Value| text.as_str().map(str::to_owned);
    arguments
        .map(|(name, about)| SecretArgument { name: name.clone(), description: text(&about["description"]) })
        .collect()
}

/// Returns the secret arguments of a saved machine.
async fn of_saved(daemon: &ReconnectingClient, name: &str) -> Vec<SecretArgument> {
    let Ok(described) = daemon.call(DescribeWorkflow { name: name.to_owned() }).await else { return Vec::new() };
    let needed = described.arguments.into_iter().filter(|one| one.secret && one.required && one.default.is_none());
    needed.map(|one| SecretArgument { name: one.name, description: one.description }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_that_are_secret_and_needed_are_asked_for() {
        let document = json!({"arguments": {
            "PW": {"secret": true, "description": "of the database"}, "A": "plain", "B": {"secret": true, "default": "x"},
            "C": {"secret": true, "required": false}, "KEY": {"secret": true, "required": true}}});
        let asked: Vec<_> = of_document(&document).into_iter().map(|one| (one.name, one.description)).collect();
        assert_eq!(asked, [("PW".to_owned(), Some("of the database".to_owned())), ("KEY".to_owned(), None)]);
        assert!(of_document(&json!([])).is_empty() && of_file(Path::new("/nowhere/at.json")).is_empty());
    }
}
