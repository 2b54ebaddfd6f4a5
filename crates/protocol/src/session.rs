//! Session names in command parameters.
//!
//! Clients written for document 003 send a `session_id` with every workflow command. Here the session is the project of
//! the caller. The name is removed before the parameters are parsed, so that no tool has this field: agents know
//! `session_id` as the id of a terminal.

use serde_json::{Map, Value};

use crate::arguments::InvalidArguments;

/// Name of the default session, which always exists.
pub const DEFAULT_SESSION: &str = "default";

/// Commands that may name a session. `EXECUTE_WORKFLOW` declares these fields itself.
const SESSION_COMMANDS: [&str; 5] =
    ["LIST_WORKFLOWS", "GET_WORKFLOW_RUN", "LIST_WORKFLOW_RUNS", "ANSWER_GATE", "CANCEL_WORKFLOW"];

/// Fields that name a session: that of document 003, and its newer name.
const SESSION_FIELDS: [&str; 2] = ["session_id", "workspace"];

/// Removes the session names from the parameters of a command and returns them: up to one for each field. The
/// parameters of other commands are unchanged.
///
/// # Errors
/// If a name is not a string.
pub fn take_session(command: &str, parameters: &mut Value) -> Result<Vec<String>, InvalidArguments> {
    if !SESSION_COMMANDS.contains(&command) {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    if let Value::Object(fields) = parameters {
        take_names(fields, &mut names)?;
        if let Some(Value::Object(wrapped)) = fields.get_mut("request") {
            take_names(wrapped, &mut names)?;
        }
    }
    Ok(names)
}

fn take_names(fields: &mut Map<String, Value>, names: &mut Vec<String>) -> Result<(), InvalidArguments> {
    for field in SESSION_FIELDS {
        match fields.shift_remove(field) {
            None | Some(Value::Null) => {}
            Some(Value::String(name)) => names.push(name),
            Some(_) => return Err(InvalidArguments { problems: vec![format!("{field} must be a string")] }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // Document 003, lines 910-922, 972 and 1217-1222: every command takes session_id.
    #[test]
    fn session_is_removed_from_commands_that_accept_one() {
        let mut parameters = json!({"session_id": "default", "run_id": "run_x"});
        assert_eq!(take_session("GET_WORKFLOW_RUN", &mut parameters).unwrap(), ["default"]);
        assert_eq!(parameters, json!({"run_id": "run_x"}));
        let mut wrapped = json!({"request": {"workspace": "shop", "session_id": null}});
        assert_eq!(take_session("LIST_WORKFLOWS", &mut wrapped).unwrap(), ["shop"]);
        assert_eq!(wrapped, json!({"request": {}}));
        let mut terminal = json!({"session_id": "term_x"});
        assert!(take_session("EXIT_TERMINAL", &mut terminal).unwrap().is_empty());
        assert_eq!(terminal, json!({"session_id": "term_x"}), "session_id of EXIT_TERMINAL is a terminal");
        let error = take_session("ANSWER_GATE", &mut json!({"session_id": 3})).unwrap_err();
        assert_eq!(error.to_string(), "session_id must be a string");
    }
}
