//! Inputs and commands that a machine will type and run, for a person who reads them in advance.

use serde_json::Value;
use steplatch_workflow::{Definition, tool};

/// Returns the typed input of each state, with its name, in the order of the definition, with masked secrets.
pub(crate) fn typed_inputs(definition: &Definition) -> Vec<(String, String)> {
    let mut inputs = Vec::new();
    for state in definition.states() {
        let params = state.action().params();
        let param = |name: &str| params.get(name).map(text).unwrap_or_default();
        let typed = match state.action().tool() {
            tool::RUN_COMMAND => param("command"),
            tool::SEND_INPUT if params.get("secret") == Some(&Value::Bool(true)) => "••••••".to_owned(),
            tool::SEND_INPUT => {
                let typed = format!("{}{}", param("input_text").trim_end_matches('\n'), keys(params.get("keys")));
                // Enter alone takes what the program offers.
                if typed.is_empty() { "<enter>".to_owned() } else { typed }
            }
            tool::GATE => format!("(a person is asked: {})", param("prompt")),
            _ => continue,
        };
        inputs.push((state.name().to_owned(), typed));
    }
    inputs
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn keys(keys: Option<&Value>) -> String {
    let keys = keys.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    keys.map(|key| format!("<{key}>")).collect()
}
