//! Error messages for placeholders without a value.

use serde_json::Value;

use crate::child_outcome::{LOG_OMITTED, MAX_CHILD_LOG_BYTES, MAX_CHILD_VARIABLES_BYTES, OMITTED_VARIABLES};
use crate::definition::Definition;
use crate::history::History;
use crate::substitute::Lookup;

/// Returns the error for `{name}` without a value: the reason, and the notation for a literal `{name}`.
pub(super) fn missing_value_error(
    definition: &Definition,
    history: &History,
    variables: &dyn Lookup,
    name: &str,
) -> String {
    let source_state = definition.states().iter().map(crate::State::name).find(|state| {
        let field = name.strip_prefix(state).and_then(|rest| rest.strip_prefix('_'));
        field.is_some_and(|field| !field.is_empty())
    });
    if let Some(reason) = source_state.and_then(|state| omission_reason(variables, state, name)) {
        return format!("{{{name}}} has no value: {reason}");
    }
    let reason = match source_state {
        Some(state) if history.visits(state) == 0 => format!("state '{state}' has not been executed"),
        Some(state) => format!("the last result of state '{state}' does not have it"),
        None if definition.arguments().get(name).is_some() => {
            "the argument was not given, and has no default".to_owned()
        }
        None => "nothing has set it".to_owned(),
    };
    format!("{{{name}}} has no value: {reason}. If it is meant as text, write {{{{{name}}}}}")
}

/// Returns the reason that the result of a state's nested run omits `{name}`, and other sources of the value.
fn omission_reason(variables: &dyn Lookup, state: &str, name: &str) -> Option<String> {
    let field_of_state = |field: &str| variables.get(&format!("{state}_{field}"));
    let mut parts = name.strip_prefix(state)?.strip_prefix('_')?.split('.');
    match (parts.next()?, parts.next()) {
        ("final_variables", Some(variable)) => {
            let omitted = field_of_state(OMITTED_VARIABLES)?.as_array()?;
            omitted.iter().find(|omitted| omitted.as_str() == Some(variable))?;
            Some(format!(
                "the variables of the nested run are longer than {} KiB together, so the longest were left out, '{variable}' \
                 among them. Have that workflow return it, and read {{{state}_result}} or {{{state}_return_values}}, which \
                 are whole",
                MAX_CHILD_VARIABLES_BYTES >> 10
            ))
        }
        ("execution_log", _) => {
            field_of_state(LOG_OMITTED).filter(|omitted| **omitted == Value::Bool(true))?;
            let run = field_of_state("run_id").and_then(Value::as_str).unwrap_or("that run");
            Some(format!(
                "the log of the nested run is longer than {} KiB, so it was left out. Have that workflow return what you \
                 need, and read {{{state}_result}} or {{{state}_return_values}}; get_run of {run} has the log",
                MAX_CHILD_LOG_BYTES >> 10
            ))
        }
        _ => None,
    }
}
