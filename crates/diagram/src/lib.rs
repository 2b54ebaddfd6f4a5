//! Diagrams of machines, in Mermaid's language and as SVG with this crate's own layout.
//!
//! Pure: the same definition gives the same text.

mod cards;
mod chains;
mod layers;
mod routes;
mod subject;
mod svg;

use std::fmt::Write as _;

use steplatch_workflow::{Definition, PossibleOutcomes, State, tool};

pub use svg::{collapsed_svg, svg};

/// Maximum length of a label in a Mermaid diagram, in characters.
const MAX_LABEL_CHARS: usize = 60;

/// Returns a machine as a state diagram in Mermaid's language.
///
/// Source of the format: <https://mermaid.js.org/syntax/stateDiagram.html>.
#[must_use]
pub fn mermaid(definition: &Definition) -> String {
    let mut graph = String::from("stateDiagram-v2\n");
    if let Some(name) = definition.name() {
        // A diagram may begin with its title, between two lines of dashes.
        graph = format!("---\ntitle: {name}\n---\n{graph}");
    }
    let states = definition.states();
    let id = |name: &str| states.iter().position(|state| state.name() == name).unwrap_or(states.len());
    for (index, state) in states.iter().enumerate() {
        // The name of a state may be a keyword of Mermaid, such as `end`, so a number identifies each state.
        let subject = subject::subject(state);
        let subject = if subject.is_empty() { subject } else { format!(" {}", label(&subject)) };
        let _ = writeln!(graph, "    state \"{}: {}{subject}\" as s{index}", state.name(), state.action().tool());
    }
    let _ = writeln!(graph, "    [*] --> s{}", id(definition.initial_state()));
    for (index, state) in states.iter().enumerate() {
        for transition in state.transitions() {
            let label = label(&transition.condition().to_string());
            let _ = writeln!(graph, "    s{index} --> s{}: {label}", id(transition.next_state()));
        }
        if let Some(target) = state.on_timeout() {
            let _ = writeln!(graph, "    s{index} --> s{}: {}", id(target), on_timeout(state));
        }
        if let Some(target) = state.on_exhausted() {
            let _ = writeln!(graph, "    s{index} --> s{}: {}", id(target), on_exhausted(state));
        }
        for End { when, completes } in ends(state) {
            let target = if completes { "[*]" } else { "failed" };
            let when = if when.is_empty() { String::new() } else { format!(": {when}") };
            let _ = writeln!(graph, "    s{index} --> {target}{when}");
        }
    }
    if states.iter().any(|state| state.ends().fails) {
        // Mermaid has one mark for all ends, but the end of a failed run must look different.
        graph.push_str("    classDef bad stroke:#b3261e,color:#b3261e\n    class failed bad\n");
    }
    graph
}

/// Returns the condition for the `on_timeout` of a state.
fn on_timeout(state: &State) -> &'static str {
    match state.action().tool() {
        // Neither tool can fail.
        tool::SLEEP | tool::GATE => "on timeout",
        _ => "on timeout or failure",
    }
}

/// Returns the condition for the `on_exhausted` of a state.
fn on_exhausted(state: &State) -> String {
    format!("after {} visits", state.max_visits().unwrap_or_default())
}

/// A possible end of a run in a state.
struct End {
    /// The condition; empty if there is only one end.
    when: &'static str,
    /// True if the run completes, rather than fails.
    completes: bool,
}

/// Returns the possible ends of a run in a state, completion first.
fn ends(state: &State) -> Vec<End> {
    let PossibleOutcomes { completes, fails } = state.ends();
    let has_next_state = !state.transitions().is_empty() || state.on_timeout().is_some();
    let when = |is_only_end: bool, outcome: &'static str, otherwise: &'static str| match (has_next_state, is_only_end) {
        (true, true) => "otherwise",
        (true, false) => otherwise,
        (false, true) => "",
        (false, false) => outcome,
    };
    let completion = completes.then(|| End { when: when(!fails, "success", "otherwise, success"), completes: true });
    // With `on_timeout`, a known failure leads to its state; only an unknown outcome ends the run.
    let failure = if state.on_timeout().is_some() { "otherwise, outcome unknown" } else { "otherwise, failure" };
    let failure_end = fails.then(|| End { when: when(!completes, "failure", failure), completes: false });
    completion.into_iter().chain(failure_end).collect()
}

/// Escapes and truncates text for a label of Mermaid: `#`, `;` and other characters are special there.
fn label(text: &str) -> String {
    let mut label = String::new();
    for (index, character) in text.chars().enumerate() {
        if index == MAX_LABEL_CHARS {
            label.push('…');
            break;
        }
        match character {
            '#' | ';' | '"' | '<' | '>' | ':' | '&' | '%' | '\\' | '`' => {
                let _ = write!(label, "#{};", u32::from(character));
            }
            control if control.is_control() => label.push(' '),
            other => label.push(other),
        }
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mermaid_syntax_is_escaped_by_character_codes() {
        assert_eq!(label("a: <b>;\n\"c\" #1"), "a#58; #60;b#62;#59; #34;c#34; #35;1");
        assert_eq!(label(&"é".repeat(70)).chars().count(), MAX_LABEL_CHARS + 1);
    }
}
