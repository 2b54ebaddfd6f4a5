//! Dialogues outside of machines: the rules of a node.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{Dialogue, Next, problems, secret_names};
use crate::definition::{Problem, secret_variable, suggestion_or_known};
use crate::event::DialogueAnswer;
use crate::substitute::{Lookup, Placeholder, placeholders};

/// The parameters of a script. The caller supplies the terminal.
const KEYS: [&str; 4] = ["rules", "until", "timeout", "max_answers"];

/// A caller's rules for answering the questions of a program, turn by turn: the parameters of the action `dialogue`
/// without the terminal and the first text.
#[derive(Debug, Clone, PartialEq)]
pub struct DialogueScript {
    dialogue: Dialogue,
    params: Map<String, Value>,
}

/// A dialogue in progress.
#[derive(Debug, Clone)]
pub struct Conversation<'s> {
    script: &'s DialogueScript,
    secrets: SecretVariables,
    answers: Vec<DialogueAnswer>,
}

/// The values of the secrets that a script refers to, by the names of their variables.
#[derive(Debug, Clone, Default)]
struct SecretVariables(BTreeMap<String, Value>);

impl Lookup for SecretVariables {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

impl DialogueScript {
    /// Reads the rules.
    ///
    /// # Errors
    /// Returns all problems, each with its JSON pointer.
    pub fn read(params: &Map<String, Value>) -> Result<Self, Vec<Problem>> {
        let unknown = params.keys().filter(|key| !KEYS.contains(&key.as_str()));
        let unknown = unknown.map(|key| {
            Problem::error(
                format!("/{key}"),
                format!("unknown key '{key}' in a dialogue{}", suggestion_or_known(key, KEYS.into_iter())),
            )
        });
        let problem = problems(params).into_iter().map(|problem| Problem::error(problem.pointer, problem.message));
        let problems: Vec<Problem> = unknown.chain(problem).collect();
        match Dialogue::read(params) {
            Ok(dialogue) if problems.is_empty() => Ok(Self { dialogue, params: params.clone() }),
            Ok(_) => Err(problems),
            Err(problem) if problems.is_empty() => Err(vec![Problem::error(problem.pointer, problem.message)]),
            Err(_) => Err(problems),
        }
    }

    /// Returns the names of the secrets that the answers refer to.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        let rules = self.params.get(super::RULES).and_then(Value::as_array).into_iter().flatten();
        let texts = rules.filter_map(|rule| rule.get(super::TYPE_KEY)?.as_str());
        let in_texts = texts.flat_map(placeholders).filter(Placeholder::is_secret);
        let in_texts = in_texts.filter_map(|placeholder| placeholder.root().strip_prefix("secret:").map(str::to_owned));
        let mut names: Vec<String> =
            secret_names(&self.params).map(|(_, name)| name.to_owned()).chain(in_texts).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Begins a dialogue with the values of the secrets, by name.
    #[must_use]
    pub fn begin(&self, secrets: BTreeMap<String, String>) -> Conversation<'_> {
        let variable = |(name, value): (String, String)| (secret_variable(&name), Value::from(value));
        let secrets = SecretVariables(secrets.into_iter().map(variable).collect());
        Conversation { script: self, secrets, answers: Vec::new() }
    }
}

impl Conversation<'_> {
    /// Returns the parameters of the next turn: the text for the terminal `session`, if any, and the patterns to await.
    /// `spent` is the time since the dialogue began.
    #[must_use]
    pub fn turn(&self, session: &str, spent: Duration) -> Map<String, Value> {
        let begin = [("session_id".to_owned(), session.into())];
        self.script.dialogue.turn(&Map::from_iter(begin), &self.answers, spent, &self.secrets)
    }

    /// Handles the result of a turn. Returns the dialogue's result once it has ended: `success`, `error`, `pattern`,
    /// `match_text`, `groups`, `answers`, `answered`, `reason`, `exit_code`.
    pub fn handle_turn(&mut self, turn_result: &Map<String, Value>) -> Option<Map<String, Value>> {
        match self.script.dialogue.after(&self.answers, turn_result, &self.secrets) {
            Next::Ended(result) => Some(result),
            Next::Answer(answer) => {
                self.answers.push(answer);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().expect("the value is an object").clone()
    }

    #[test]
    fn questions_are_answered_until_the_end_pattern() {
        let params = object(&json!({
            "rules": [{"when": "Name (\\w+)\\? ", "type": "{groups.1}\n"}, {"when": "Password: ", "secret": "PW"},
                      {"when": "Token: ", "type": "t-{secret:TOKEN}\n", "secret": true}],
            "until": "done"
        }));
        let script = DialogueScript::read(&params).expect("the rules are valid");
        assert_eq!(script.secrets(), ["PW", "TOKEN"]);
        let secrets = BTreeMap::from([("PW".to_owned(), "p w".to_owned()), ("TOKEN".to_owned(), "42".to_owned())]);
        let mut talk = script.begin(secrets);
        let typed_text = |talk: &Conversation<'_>| talk.turn("term_1", Duration::ZERO).get("input_text").cloned();
        assert_eq!(typed_text(&talk), None);
        for (question, answer) in [("Name ana? ", "ana\n"), ("Password: ", "p w\n"), ("Token: ", "t-42\n")] {
            let turn = talk.turn("term_1", Duration::ZERO);
            let patterns = turn["patterns"].as_array().expect("the turn has patterns").clone();
            assert_eq!(talk.handle_turn(&super::super::rehearsed_turn(&patterns, question)), None, "{question}");
            assert_eq!(typed_text(&talk), Some(answer.into()));
        }
        let turn = talk.turn("term_1", Duration::ZERO);
        let received =
            super::super::rehearsed_turn(turn["patterns"].as_array().expect("the turn has patterns"), "all done");
        let result = talk.handle_turn(&received).expect("the dialogue has ended");
        assert_eq!((&result["success"], &result["answers"]), (&json!(true), &json!(3)));
        assert!(!json!(result["answered"]).to_string().contains("p w"), "{result:?}");
    }

    #[test]
    fn problems_have_json_pointers() {
        let problems =
            DialogueScript::read(&object(&json!({"rules": [{"type": "x"}], "session_id": "a"}))).unwrap_err();
        let places: Vec<&str> = problems.iter().map(|problem| problem.pointer.as_str()).collect();
        assert_eq!(places, ["/session_id", "/rules/0"]);
    }
}
