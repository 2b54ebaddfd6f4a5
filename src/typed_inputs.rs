//! Inputs that a machine will type and commands that it will run, for review by a person.

use serde_json::Value;
use steplatch_workflow::{Definition, tool};

use crate::print::MASK;

/// Returns the states that type or run something, with their input, in the order of the definition. Secrets are masked.
pub(crate) fn typed_inputs(definition: &Definition) -> Vec<(String, String)> {
    let mut inputs = Vec::new();
    for state in definition.states() {
        let params = state.action().params();
        let param = |name: &str| params.get(name).map(value_text).unwrap_or_default();
        let typed = match state.action().tool() {
            tool::RUN_COMMAND => param("command"),
            tool::SEND_INPUT if params.get("secret") == Some(&Value::Bool(true)) => MASK.to_owned(),
            tool::SEND_INPUT => {
                let typed =
                    format!("{}{}", param("input_text").trim_end_matches('\n'), format_keys(params.get("keys")));
                // Enter alone accepts the default of the program.
                if typed.is_empty() { "<enter>".to_owned() } else { typed }
            }
            tool::GATE => format!("(a person is asked: {})", param("prompt")),
            _ => continue,
        };
        inputs.push((state.name().to_owned(), typed));
    }
    inputs
}

fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn format_keys(keys: Option<&Value>) -> String {
    let keys = keys.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    keys.map(|key| format!("<{key}>")).collect()
}
