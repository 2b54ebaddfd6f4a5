//! The tools that a machine may use, as the contract describes them.

use serde_json::{Map, Value};
use steplatch_protocol::{VERBS, VerbInfo, check};
use steplatch_workflow::{Problem, ToolCatalog};

/// The terminal tools: what a machine can do in this daemon, besides what every machine can.
#[derive(Debug, Clone, Copy)]
pub struct TerminalTools;

/// The six tools that are actions of machines.
const ACTIONS: [&str; 6] =
    ["open_terminal", "send_input", "await_output", "get_screen_content", "list_terminal_sessions", "exit_terminal"];

fn verb(tool: &str) -> Option<&'static VerbInfo> {
    VERBS.iter().find(|verb| verb.tool == Some(tool) && ACTIONS.contains(&tool))
}

impl ToolCatalog for TerminalTools {
    fn tools(&self) -> Vec<String> {
        ACTIONS.iter().map(ToString::to_string).collect()
    }

    fn check(&self, tool: &str, params: &Map<String, Value>) -> Vec<Problem> {
        let Some(verb) = verb(tool) else { return Vec::new() };
        // What holds a variable is known only when the state is entered.
        let open = |value: &Value| value.to_string().contains('{');
        check(&(verb.parameters)(), params, open)
            .into_iter()
            .filter(|(field, _)| field != "session_id" || params.contains_key(field))
            .map(|(field, problem)| Problem::error(format!("/{field}"), problem))
            .collect()
    }

    fn schema(&self, tool: &str) -> Option<Value> {
        verb(tool).map(|verb| (verb.parameters)())
    }

    fn has_judges(&self) -> bool {
        true
    }

    fn takes_session(&self, tool: &str) -> bool {
        verb(tool).is_some_and(|verb| !(verb.parameters)()["properties"]["session_id"].is_null())
    }

    fn takes_text(&self, tool: &str, param: &str) -> bool {
        let Some(verb) = verb(tool) else { return false };
        let schema = &(verb.parameters)()["properties"][param];
        [&schema["type"], &schema["items"]["type"], &schema["additionalProperties"]["type"]]
            .into_iter()
            .any(|kind| kind == "string")
    }
}
