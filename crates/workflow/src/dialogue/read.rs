//! The parser of the parameters of a dialogue.

use std::time::Duration;

use serde_json::{Map, Value};
use steplatch_pattern::Pattern;

use super::{Dialogue, RULES, Rule, SECRET_KEY, TYPE_KEY};
use crate::substitute::{as_text, has_placeholder};

/// Maximum number of rules of a dialogue.
pub(crate) const MAX_RULES: usize = 50;
/// Default and upper bound of the maximum number of answers.
pub(crate) const DEFAULT_MAX_ANSWERS: u32 = 20;
pub(crate) const MAX_ANSWERS: u32 = 200;
/// Default and upper bound of the time limit, in seconds.
pub(crate) const DEFAULT_TIMEOUT_SECONDS: f64 = 60.0;
pub(crate) const MAX_TIMEOUT_SECONDS: f64 = 3600.0;

/// Problem with the parameters of a dialogue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct InvalidDialogue {
    /// JSON pointer into the parameters.
    pub(crate) pointer: String,
    /// The problem, as a sentence without a full stop.
    pub(crate) message: String,
}

impl Dialogue {
    /// Reads the parameters of an action, with variables replaced.
    ///
    /// # Errors
    /// Returns the first problem.
    pub(crate) fn read(params: &Map<String, Value>) -> Result<Self, InvalidDialogue> {
        let mut reader = Reader { problems: Vec::new(), is_final: true };
        let dialogue = reader.dialogue(params);
        match reader.problems.into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok(dialogue),
        }
    }
}

/// Returns all problems of the parameters in a definition. Values with placeholders are still unknown.
pub(crate) fn problems(params: &Map<String, Value>) -> Vec<InvalidDialogue> {
    let mut reader = Reader { problems: Vec::new(), is_final: false };
    reader.dialogue(params);
    reader.problems
}

/// The reader of a dialogue.
struct Reader {
    problems: Vec<InvalidDialogue>,
    /// True if all variables are replaced.
    is_final: bool,
}

impl Reader {
    fn add_problem(&mut self, pointer: &str, message: impl Into<String>) {
        self.problems.push(InvalidDialogue { pointer: pointer.to_owned(), message: message.into() });
    }

    /// Returns whether the value is unknown until the state is entered.
    fn is_open(&self, value: &Value) -> bool {
        !self.is_final && value.as_str().is_some_and(has_placeholder)
    }

    fn dialogue(&mut self, params: &Map<String, Value>) -> Dialogue {
        let param = |key: &str| params.get(key).filter(|value| !value.is_null());
        let rules = match param(RULES) {
            Some(Value::Array(rules)) if (1..=MAX_RULES).contains(&rules.len()) => {
                rules.iter().enumerate().filter_map(|(index, rule)| self.rule(index, rule)).collect()
            }
            Some(Value::Array(rules)) => {
                self.add_problem("/rules", format!("a dialogue must have 1 to {MAX_RULES} rules, not {}", rules.len()));
                Vec::new()
            }
            Some(open) if self.is_open(open) => Vec::new(),
            _ => {
                let pointer = if params.contains_key(RULES) { "/rules" } else { "" };
                self.add_problem(
                    pointer,
                    "'rules' must be a list of rules: [{\"when\": \"pattern\", \"type\": \"text\\n\"}, …]",
                );
                Vec::new()
            }
        };
        let until = match param("until") {
            None => Vec::new(),
            Some(Value::Array(all)) => {
                let read_pattern =
                    |(index, pattern): (usize, &Value)| self.pattern(&format!("/until/{index}"), pattern);
                all.iter().enumerate().filter_map(read_pattern).collect()
            }
            Some(one) => self.pattern("/until", one).into_iter().collect(),
        };
        if let Some(value) = param("input_text").filter(|value| !value.is_string() && !value.is_number()) {
            self.add_problem("/input_text", format!("'input_text' must be a string, not {value}"));
        }
        let timeout = self
            .number("/timeout", "timeout", param("timeout"), 0.1, MAX_TIMEOUT_SECONDS)
            .unwrap_or(DEFAULT_TIMEOUT_SECONDS);
        let max_answers = self.number("/max_answers", "max_answers", param("max_answers"), 1.0, f64::from(MAX_ANSWERS));
        Dialogue {
            rules,
            until,
            timeout: Duration::from_secs_f64(timeout),
            max_answers: max_answers.map_or(DEFAULT_MAX_ANSWERS, to_u32),
        }
    }

    fn rule(&mut self, index: usize, rule: &Value) -> Option<Rule> {
        let pointer = format!("/{RULES}/{index}");
        let Value::Object(keys) = rule else {
            self.add_problem(&pointer, "a rule must be an object: {\"when\": \"pattern\", \"type\": \"text\\n\"}");
            return None;
        };
        let key_value = |key: &str| keys.get(key).filter(|value| !value.is_null());
        let when = match key_value("when") {
            Some(when) => self.pattern(&format!("{pointer}/when"), when),
            None => {
                self.add_problem(&pointer, "'when' is missing: the pattern of the question");
                None
            }
        };
        let text = match key_value(TYPE_KEY) {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => {
                self.add_problem(
                    &format!("{pointer}/{TYPE_KEY}"),
                    format!("'{TYPE_KEY}' must be a string, not {other}"),
                );
                String::new()
            }
        };
        let keys = match key_value("press") {
            None => Vec::new(),
            Some(Value::String(key)) => vec![key.clone()],
            Some(Value::Array(keys)) if keys.iter().all(Value::is_string) => keys.iter().map(as_text).collect(),
            Some(_) => {
                self.add_problem(
                    &format!("{pointer}/press"),
                    "'press' must be a key, such as \"enter\", or a list of keys",
                );
                Vec::new()
            }
        };
        let (secret, name) = match key_value(SECRET_KEY) {
            None | Some(Value::Bool(false)) => (false, None),
            Some(Value::Bool(true)) => (true, None),
            Some(Value::String(name)) => (true, Some(name)),
            Some(_) => {
                self.add_problem(
                    &format!("{pointer}/{SECRET_KEY}"),
                    "'secret' must be true, or the name of the argument to type",
                );
                (true, None)
            }
        };
        if name.is_some() && key_value(TYPE_KEY).is_some() {
            let message = "'secret' and 'type' both name the text to type; write \"secret\": true beside 'type'";
            self.add_problem(&format!("{pointer}/{SECRET_KEY}"), message);
        }
        if name.is_none() && text.is_empty() && keys.is_empty() {
            self.add_problem(&pointer, "the rule has no answer: give 'type', 'press' or 'secret'");
        }
        let times = self
            .number(&format!("{pointer}/times"), "times", key_value("times"), 1.0, f64::from(MAX_ANSWERS))
            .map(to_u32);
        Some(Rule { when: when?, text, keys, secret, secret_name: name.cloned(), times })
    }

    fn pattern(&mut self, pointer: &str, value: &Value) -> Option<String> {
        match value {
            Value::String(pattern) if pattern.is_empty() => self.add_problem(pointer, "a pattern must not be empty"),
            Value::String(pattern) if self.is_open(value) => return Some(pattern.clone()),
            Value::String(pattern) => match Pattern::new(pattern) {
                Ok(_) => return Some(pattern.clone()),
                Err(error) => self.add_problem(pointer, error.to_string()),
            },
            other => self.add_problem(pointer, format!("a pattern must be a string, not {other}")),
        }
        None
    }

    fn number(&mut self, pointer: &str, name: &str, value: Option<&Value>, min: f64, max: f64) -> Option<f64> {
        let value = value?;
        if self.is_open(value) {
            return None;
        }
        let number = as_text(value).trim().parse().ok().filter(|number| (min..=max).contains(number));
        if number.is_none() {
            self.add_problem(pointer, format!("'{name}' must be a number from {min} to {max}, not {value}"));
        }
        number
    }
}

/// Converts a number that is known to be small.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the number was checked to be small")]
fn to_u32(number: f64) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_problem_has_its_json_pointer() {
        let params = json!({
            "rules": [{"when": "(", "type": "x\n"}, {"type": "x"}, {"when": "a"}, 7, {"when": "a", "press": 3, "type": "{x}"},
                      {"when": "{open}(", "secret": "PW"}, {"when": "b", "secret": "PW", "type": "x"},
                      {"when": "c", "type": "x\n", "times": 0}],
            "until": ["ok", 5, ""], "timeout": "soon", "max_answers": "{many}"
        });
        let found: Vec<String> = problems(params.as_object().expect("the value is an object"))
            .into_iter()
            .map(|problem| format!("{}: {}", problem.pointer, problem.message))
            .collect();
        expect_test::expect![[r#"
            /rules/0/when: pattern '(' does not compile: unclosed group at position 0
            /rules/1: 'when' is missing: the pattern of the question
            /rules/2: the rule has no answer: give 'type', 'press' or 'secret'
            /rules/3: a rule must be an object: {"when": "pattern", "type": "text\n"}
            /rules/4/press: 'press' must be a key, such as "enter", or a list of keys
            /rules/6/secret: 'secret' and 'type' both name the text to type; write "secret": true beside 'type'
            /rules/7/times: 'times' must be a number from 1 to 200, not 0
            /until/1: a pattern must be a string, not 5
            /until/2: a pattern must not be empty
            /timeout: 'timeout' must be a number from 0.1 to 3600, not "soon""#]]
        .assert_eq(&found.join("\n"));
        let none = problems(&Map::new());
        assert_eq!((none.len(), none[0].pointer.as_str()), (1, ""));
    }

    #[test]
    fn numbers_may_be_strings() {
        let params = json!({"rules": [{"when": "a", "type": "7", "press": "enter", "times": "2"}], "timeout": "1.5"});
        let dialogue =
            Dialogue::read(params.as_object().expect("the value is an object")).expect("the dialogue is valid");
        assert_eq!((dialogue.timeout, dialogue.max_answers), (Duration::from_millis(1500), DEFAULT_MAX_ANSWERS));
        let Rule { text, keys, times, .. } = &dialogue.rules[0];
        assert_eq!((text.as_str(), keys.as_slice(), *times), ("7", ["enter".to_owned()].as_slice(), Some(2)));
    }
}
