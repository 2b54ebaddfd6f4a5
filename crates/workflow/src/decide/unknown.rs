//! The end of a state with an unexpected result: a person or an agent decides how the run continues.
//!
//! A state with `on_unknown` does not fail immediately. The run stops at a gate that shows the expected texts and the
//! most similar line. Programs in the terminal continue meanwhile, and the respondent may type there first.

use serde_json::{Map, Value};

use super::Branch;
use super::approval::Approvals;
use crate::definition::{Definition, State};
use crate::event::{Choice, FailureReason};
use crate::gateless::GatelessNames;
use crate::substitute;

/// Fields that such a gate adds to the result of the action in its context.
const EXPECTED_FIELD: &str = "expected";
const NEAREST_FIELD: &str = "nearest_line";

/// Maximum number of lines, from the end of a screen, that are compared with the expected texts.
const MAX_COMPARED_LINES: usize = 60;

/// The ends of a pattern that waits for a question. Captured workflows write the first end for a line without a line
/// feed, and the second for a complete line. Earlier versions wrote the third.
const QUESTION_ENDS: [&str; 3] = [r" *\Z", r"\s*\Z", " *$"];

/// Minimum similarity of the nearest line, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.2;

/// Returns the states where a run may continue: the first successor, the state itself, and all other states. Only a
/// person may choose a state past a gate for a person; otherwise an agent could bypass the gate.
pub(crate) fn choices(definition: &Definition, state: &State, gateless: &GatelessNames) -> Vec<Choice> {
    let approvals = Approvals::new(definition, state, gateless);
    let choice = |description: String, to: &str| Choice {
        description,
        next_state: to.to_owned(),
        for_person: approvals.passes_gate(to),
    };
    let successor = state.transitions().first().map(|transition| {
        let to = transition.next_state();
        choice(format!("go on with '{to}'"), to)
    });
    let again = choice(format!("do '{}' again", state.name()), state.name());
    let is_other = |name: &&str| {
        *name != state.name() && successor.as_ref().is_none_or(|successor| successor.next_state != **name)
    };
    let other_states = definition.states().iter().map(State::name).filter(is_other);
    let other_states: Vec<Choice> = other_states.map(|name| choice(format!("go to '{name}'"), name)).collect();
    successor.into_iter().chain([again]).chain(other_states).collect()
}

/// Returns the branch to a failure of the run with this error.
pub(super) fn failure(error: String) -> Branch {
    Branch::Fail { reason: FailureReason::Unexpected, error }
}

/// Adds the expected texts and the most similar line to the result of an action.
pub(super) fn add_expectation(result: &mut Map<String, Value>, params: &Map<String, Value>) {
    let text = |key: &str| result.get(key).map(substitute::as_text).filter(|text| !text.is_empty());
    let screen = text("screen_content").or_else(|| text("output")).unwrap_or_default();
    let pattern = params.get("pattern").and_then(Value::as_str);
    let more_patterns =
        params.get("patterns").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let patterns: Vec<&str> = pattern.into_iter().chain(more_patterns).filter(|pattern| !pattern.is_empty()).collect();
    if patterns.is_empty() {
        return;
    }
    // The program waits for input with an unexpected question, the last line of the screen.
    let is_at_question = result.get("reason").is_some_and(|reason| reason == "input")
        && patterns.iter().any(|pattern| QUESTION_ENDS.iter().any(|end| pattern.ends_with(end)));
    let question = screen.lines().rev().map(str::trim).find(|line| !line.is_empty()).filter(|_| is_at_question);
    let nearest = question.map(str::to_owned).or_else(|| nearest_line(&patterns, &screen));
    result.insert(EXPECTED_FIELD.to_owned(), patterns.join("\n").into());
    if let Some(line) = nearest {
        result.insert(NEAREST_FIELD.to_owned(), line.into());
    }
}

/// Returns the line that is most similar to one of the patterns, if any line is similar.
fn nearest_line(patterns: &[&str], text: &str) -> Option<String> {
    // The question is the last line of a pattern over several lines.
    let last_line_text = |pattern: &str| approximate_text(pattern.rsplit(r"[\s\S]*?").next().unwrap_or(pattern));
    let expected: Vec<String> = patterns.iter().map(|pattern| last_line_text(pattern)).collect();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let lines = &lines[lines.len().saturating_sub(MAX_COMPARED_LINES)..];
    let mut best: Option<(f64, &str)> = None;
    for line in lines {
        let normalized_line: String =
            line.chars().take(300).map(|character| if character.is_ascii_digit() { '0' } else { character }).collect();
        for expected in &expected {
            let similarity = strsim::normalized_levenshtein(expected, &normalized_line);
            if similarity >= MIN_SIMILARITY && best.is_none_or(|(best_score, _)| similarity >= best_score) {
                best = Some((similarity, line));
            }
        }
    }
    best.map(|(_, line)| line.to_owned())
}

/// Returns an approximation of the text that a pattern matches, without anchors and repetitions, and with 0 for digits.
fn approximate_text(pattern: &str) -> String {
    let mut text = String::new();
    let mut characters = pattern.chars().take(300);
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('d') => text.push('0'),
                Some('S' | 'w') => text.push('x'),
                Some('s') => text.push(' '),
                Some('A' | 'Z' | 'z' | 'b' | 'B') => {}
                Some(escaped) => text.push(escaped),
                None => {}
            },
            '^' | '$' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '|' => {}
            digit if digit.is_ascii_digit() => text.push('0'),
            other => text.push(other),
        }
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_line_is_the_changed_question() {
        let screen = "Reading lists...\nDo you really want to continue? [yes/no] ";
        let pattern = r"2\) +Paris\s[\s\S]*?^Do you want to continue\? \[Y/n\] *\Z";
        assert_eq!(nearest_line(&[pattern], screen).as_deref(), Some("Do you really want to continue? [yes/no]"));
        assert_eq!(nearest_line(&[pattern], "x\ny"), None);
    }
}
