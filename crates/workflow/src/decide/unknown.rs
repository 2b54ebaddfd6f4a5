//! The end of a state with an unexpected result: a person or an agent decides how the run continues.
//!
//! A state with `on_unknown` does not fail at once. The run stops at a gate that shows the expected texts and the line
//! that is nearest to them. Programs in the terminal continue in the meantime; the respondent may type there first.

use serde_json::{Map, Value};

use super::Branch;
use super::approval::Approvals;
use crate::definition::{Definition, State};
use crate::event::{Choice, FailureReason};
use crate::gateless::GatelessNames;
use crate::substitute;

/// The fields with the basis of an answer at such a gate, in addition to the result of the action.
const EXPECTED: &str = "expected";
const NEAREST: &str = "nearest_line";

/// Number of the last lines of a screen in the comparison with the expected texts.
const COMPARED_LINES: usize = 60;

/// The ends of a pattern that waits for a question. Captured workflows write the first for a line without an end, the
/// second for one that has ended, and earlier versions wrote the third.
const QUESTION_ENDS: [&str; 3] = [r" *\Z", r"\s*\Z", " *$"];

/// Minimum similarity of a near line, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.2;

/// Returns the states at which a run may continue: the state's successors, the state again, or any other state. A state
/// after a gate for a person is a person's choice, or an agent would pass the gate.
pub(crate) fn choices(definition: &Definition, state: &State, gateless: &GatelessNames) -> Vec<Choice> {
    let approvals = Approvals::new(definition, state, gateless);
    let choice = |description: String, to: &str| Choice {
        description,
        next_state: to.to_owned(),
        for_person: approvals.passes_gate(to),
    };
    let goes_on = state.transitions().first().map(|transition| {
        let to = transition.next_state();
        choice(format!("go on with '{to}'"), to)
    });
    let again = choice(format!("do '{}' again", state.name()), state.name());
    let is_other = |name: &&str| *name != state.name() && goes_on.as_ref().is_none_or(|one| one.next_state != **name);
    let others = definition.states().iter().map(State::name).filter(is_other);
    let others: Vec<Choice> = others.map(|name| choice(format!("go to '{name}'"), name)).collect();
    goes_on.into_iter().chain([again]).chain(others).collect()
}

/// Returns the error with which a run fails if that is the answer.
pub(super) fn failure(error: String) -> Branch {
    Branch::Fail { reason: FailureReason::Unexpected, error }
}

/// Adds the expected texts to the result of an action, and the line that comes nearest.
pub(super) fn explain(result: &mut Map<String, Value>, params: &Map<String, Value>) {
    let text = |key: &str| result.get(key).map(substitute::as_text).filter(|text| !text.is_empty());
    let shown = text("screen_content").or_else(|| text("output")).unwrap_or_default();
    let pattern = params.get("pattern").and_then(Value::as_str);
    let more_patterns =
        params.get("patterns").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let patterns: Vec<&str> = pattern.into_iter().chain(more_patterns).filter(|pattern| !pattern.is_empty()).collect();
    if patterns.is_empty() {
        return;
    }
    // Instead of an expected question, the program that waits for input has another one in its last line.
    let asked = result.get("reason").is_some_and(|reason| reason == "input")
        && patterns.iter().any(|pattern| QUESTION_ENDS.iter().any(|end| pattern.ends_with(end)));
    let question = shown.lines().rev().map(str::trim).find(|line| !line.is_empty()).filter(|_| asked);
    let nearest = question.map(str::to_owned).or_else(|| nearest_line(&patterns, &shown));
    result.insert(EXPECTED.to_owned(), patterns.join("\n").into());
    if let Some(line) = nearest {
        result.insert(NEAREST.to_owned(), line.into());
    }
}

/// Returns the line that is most similar to one of the patterns, if any is near.
fn nearest_line(patterns: &[&str], text: &str) -> Option<String> {
    // Of a pattern over several lines, the last line is the question.
    let last = |pattern: &str| plain(pattern.rsplit(r"[\s\S]*?").next().unwrap_or(pattern));
    let expected: Vec<String> = patterns.iter().map(|pattern| last(pattern)).collect();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let lines = &lines[lines.len().saturating_sub(COMPARED_LINES)..];
    let mut best: Option<(f64, &str)> = None;
    for line in lines {
        let known: String =
            line.chars().take(300).map(|character| if character.is_ascii_digit() { '0' } else { character }).collect();
        for expected in &expected {
            let alike = strsim::normalized_levenshtein(expected, &known);
            if alike >= MIN_SIMILARITY && best.is_none_or(|(best_score, _)| alike >= best_score) {
                best = Some((alike, line));
            }
        }
    }
    best.map(|(_, line)| line.to_owned())
}

/// Returns roughly the text that a pattern matches: without anchors and repetitions, with 0 for digits.
fn plain(pattern: &str) -> String {
    let mut text = String::new();
    let mut signs = pattern.chars().take(300);
    while let Some(character) = signs.next() {
        match character {
            '\\' => match signs.next() {
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
    fn the_nearest_line_is_the_changed_question() {
        let screen = "Reading lists...\nDo you really want to continue? [yes/no] ";
        let pattern = r"2\) +Paris\s[\s\S]*?^Do you want to continue\? \[Y/n\] *\Z";
        assert_eq!(nearest_line(&[pattern], screen).as_deref(), Some("Do you really want to continue? [yes/no]"));
        assert_eq!(nearest_line(&[pattern], "x\ny"), None);
    }
}
