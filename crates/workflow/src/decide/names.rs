//! Description of the reason that a placeholder has no value.

use crate::definition::Definition;
use crate::history::History;

/// Returns the reason that `{name}` has no value in a run so far: what would give it one, and the notation of the text
/// itself.
pub(super) fn no_value(definition: &Definition, history: &History, name: &str) -> String {
    let of_state = definition.states().iter().map(crate::State::name).find(|state| {
        let field = name.strip_prefix(state).and_then(|rest| rest.strip_prefix('_'));
        field.is_some_and(|field| !field.is_empty())
    });
    let reason = match of_state {
        Some(state) if history.visits(state) == 0 => format!("state '{state}' has not been executed"),
        Some(state) => format!("the last result of state '{state}' does not have it"),
        None if definition.arguments().get(name).is_some() => {
            "the argument was not given, and has no default".to_owned()
        }
        None => "nothing has set it".to_owned(),
    };
    format!("{{{name}}} has no value: {reason}. If it is meant as text, write {{{{{name}}}}}")
}
