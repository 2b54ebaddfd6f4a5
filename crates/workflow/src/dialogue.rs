//! Dialogues: the questions of a program, and the rules that answer them.
//!
//! A dialogue is an action with turns. In each turn the driver types an answer, if there is one, and then waits until a
//! pattern matches, the program exits or asks, or the timeout passes. [`Dialogue::after`] returns the next answer, or the
//! result of the action. The answer is recorded before it is typed, and its input has its own step ([`StepId::part`]),
//! so a restart neither repeats nor loses an answer.
//!
//! The placeholders in the text of an answer are replaced after the match of its question, and may name the groups of
//! the question. A dialogue that has begun continues during a pause of the run, like any action.

mod read;
mod script;

use std::time::Duration;

use serde_json::{Map, Value, json};
use steplatch_clock::Timestamp;
use steplatch_pattern::Pattern;

use crate::definition::secret_variable;
use crate::event::DialogueAnswer;
use crate::history::CurrentStep;
use crate::substitute::{self, Lookup, as_text};
use crate::{groups, time, tool};
pub(crate) use read::{
    DEFAULT_TIMEOUT_SECONDS, InvalidDialogue, MAX_ANSWERS, MAX_RULES, MAX_TIMEOUT_SECONDS, problems,
};
pub use script::{Conversation, DialogueScript};

/// The fields of a dialogue's result.
pub(crate) const FIELDS: [&str; 10] = [
    "session_id",
    "match_text",
    "groups",
    "pattern",
    "reason",
    "answers",
    "answered",
    "exit_code",
    "screen_content",
    "timeout_occurred",
];

/// The parameter with the rules.
pub(crate) const RULES: &str = "rules";

/// The key of a rule with the text of its answer.
const TYPE_KEY: &str = "type";

/// The key of a rule with the name of the secret that is its answer.
const SECRET_KEY: &str = "secret";

/// Maximum number of characters of the screen's last lines in an error.
const MAX_QUESTION_CHARS: usize = 200;

/// Maximum number of the screen's last lines in an error.
const MAX_LAST_LINES: usize = 3;

/// A dialogue, with all variables replaced except in the texts of its answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Dialogue {
    rules: Vec<Rule>,
    /// The patterns that end the dialogue. Without patterns, the shell's prompt or the end of the program ends it.
    until: Vec<String>,
    timeout: Duration,
    max_answers: u32,
}

/// Answer to a question.
#[derive(Debug, Clone, PartialEq)]
struct Rule {
    /// The pattern of the question.
    when: String,
    text: String,
    keys: Vec<String>,
    /// True if the answer is hidden.
    secret: bool,
    /// Name of the argument or secret that is the answer.
    secret_name: Option<String>,
    /// Maximum number of uses of the rule.
    times: Option<u32>,
}

/// Continuation after a turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Next {
    /// The answer to a question.
    Answer(DialogueAnswer),
    /// The dialogue has ended, with this result.
    Ended(Map<String, Value>),
}

/// Returns the parameters of the turn that follows these answers: the text to type, if any, and the patterns to await.
/// `timeout` is the remaining time of the dialogue in seconds.
///
/// # Errors
/// If the parameters of the dialogue are invalid.
pub(crate) fn turn(
    current: &CurrentStep,
    answers: &[DialogueAnswer],
    variables: &dyn Lookup,
    now: Timestamp,
) -> Result<Map<String, Value>, InvalidDialogue> {
    let spent = now.since(current.entered_at);
    Ok(Dialogue::read(&current.params)?.turn(&current.params, answers, spent, variables))
}

impl Dialogue {
    /// Returns the parameters of a turn. `params` has the terminal, and the text for the first turn.
    fn turn(
        &self,
        params: &Map<String, Value>,
        answers: &[DialogueAnswer],
        spent: Duration,
        variables: &dyn Lookup,
    ) -> Map<String, Value> {
        let remaining = self.timeout.saturating_sub(spent);
        let mut turn = Map::new();
        let mut put = |name: &str, value: Value| drop(turn.insert(name.to_owned(), value));
        for name in ["session_id", "input_text"] {
            // Only the first turn types the `input_text` of the dialogue.
            let is_typed = name == "session_id" || answers.is_empty();
            if let Some(value) = params.get(name).filter(|value| is_typed && !value.is_null()) {
                put(name, as_text(value).into());
            }
        }
        if let Some(answer) = answers.last() {
            put("input_text", self.typed_text(answer, variables).into());
            put("since", answer.since.into());
            if !answer.keys.is_empty() {
                put("keys", answer.keys.clone().into());
            }
            if answer.secret {
                put("secret", true.into());
            }
        }
        put("patterns", self.patterns(answers).map(|(pattern, _)| pattern).collect::<Vec<_>>().into());
        put("timeout", remaining.as_secs_f64().into());
        turn
    }

    /// Returns the patterns to await after these answers, each with the index of its rule. The patterns that end the
    /// dialogue have no rule, and precede the others.
    fn patterns(&self, answers: &[DialogueAnswer]) -> impl Iterator<Item = (&str, Option<usize>)> {
        let used: Vec<usize> = self.rules.iter().enumerate().map(|(index, _)| times_used(answers, index)).collect();
        let rules = self.rules.iter().enumerate();
        let active = rules.filter(move |(index, rule)| rule.times.is_none_or(|times| used[*index] < times as usize));
        let until = self.until.iter().map(|pattern| (pattern.as_str(), None));
        until.chain(active.map(|(index, rule)| (rule.when.as_str(), Some(index))))
    }

    /// Returns the continuation after a turn. `matched` in its result is the index of the matching pattern.
    pub(crate) fn after(
        &self,
        answers: &[DialogueAnswer],
        turn_result: &Map<String, Value>,
        variables: &dyn Lookup,
    ) -> Next {
        if !tool::succeeded(turn_result) {
            return Next::Ended(self.result(answers, turn_result, None, None));
        }
        let matched = turn_result.get("matched").and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
        match matched.and_then(|index| self.patterns(answers).nth(index)) {
            Some((pattern, None)) => Next::Ended(self.result(answers, turn_result, Some(pattern), None)),
            Some((pattern, Some(_))) if answers.len() >= self.max_answers as usize => {
                let error = format!(
                    "{} answers were typed (max_answers), and /{pattern}/ appeared again: {}",
                    self.max_answers,
                    question(turn_result)
                );
                Next::Ended(self.result(answers, turn_result, None, Some(error)))
            }
            Some((pattern, Some(rule))) => Next::Answer(self.answer(rule, pattern, turn_result, variables)),
            None => {
                let error = self.failure(answers, turn_result);
                Next::Ended(self.result(answers, turn_result, None, error))
            }
        }
    }

    fn answer(
        &self,
        index: usize,
        when: &str,
        turn_result: &Map<String, Value>,
        variables: &dyn Lookup,
    ) -> DialogueAnswer {
        let Rule { text, keys, secret, .. } = &self.rules[index];
        let groups = match match_groups(when, turn_result) {
            Some(Value::Object(groups)) => groups,
            _ => Map::new(),
        };
        let rule = u32::try_from(index).unwrap_or(u32::MAX);
        let since = turn_result.get("offset").and_then(Value::as_u64);
        let (match_text, input_text, keys, secret) = (question(turn_result), String::new(), keys.clone(), *secret);
        let answer = DialogueAnswer { rule, match_text, groups, since, input_text, keys, secret };
        if secret {
            return answer;
        }
        let input_text = self.resolve_text(text, &answer, variables);
        DialogueAnswer { input_text, ..answer }
    }

    /// Returns the text that an answer types.
    fn typed_text(&self, answer: &DialogueAnswer, variables: &dyn Lookup) -> String {
        match self.rules.get(answer.rule as usize) {
            // Enter follows a secret, as if a person typed it.
            Some(Rule { secret_name: Some(name), .. }) => {
                format!("{}\n", value_of_secret(name, variables).map(as_text).unwrap_or_default())
            }
            Some(rule) if answer.secret => self.resolve_text(&rule.text, answer, variables),
            _ => answer.input_text.clone(),
        }
    }

    /// Returns the text of a rule with its variables and the matches of the question replaced.
    fn resolve_text(&self, text: &str, answer: &DialogueAnswer, variables: &dyn Lookup) -> String {
        let (match_text, groups) = (answer.match_text.as_str().into(), answer.groups.clone().into());
        substitute::text(text, &QuestionVariables { before: variables, text: match_text, groups })
    }

    /// Returns the error of a turn without a match; `None` if the program ended as expected.
    fn failure(&self, answers: &[DialogueAnswer], turn_result: &Map<String, Value>) -> Option<String> {
        let code = turn_result.get("exit_code").and_then(Value::as_i64);
        let lines = last_lines(turn_result);
        let awaited = self.until.iter().map(|pattern| format!("/{pattern}/")).collect::<Vec<_>>().join(" or ");
        match turn_result.get("reason").and_then(Value::as_str).unwrap_or_default() {
            "prompt" | "exit" if self.until.is_empty() => {
                let code = code.filter(|code| *code != 0)?;
                Some(with_lines(format!("the program ended with exit code {code}"), &lines))
            }
            "prompt" | "exit" => {
                let code = code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
                Some(with_lines(format!("the program ended{code} before {awaited} came"), &lines))
            }
            "input" => {
                let exhausted_rule = self.rules.iter().enumerate().find(|(index, rule)| {
                    rule.times.is_some_and(|times| times_used(answers, *index) >= times as usize)
                        && Pattern::new(&rule.when)
                            .ok()
                            .is_some_and(|when| matches!(when.find_at(&lines, 0), Ok(Some(_))))
                });
                Some(match exhausted_rule {
                    Some((_, Rule { when, times, .. })) => with_lines(
                        format!(
                            "/{when}/ appeared again after its maximum number of answers (times:  {})",
                            times.unwrap_or(0)
                        ),
                        &lines,
                    ),
                    None => with_lines("the program asks a question that no rule answers".to_owned(), &lines),
                })
            }
            _ => {
                let missing_event = if awaited.is_empty() { "the end of the program" } else { &awaited };
                let error = format!("{missing_event} did not appear within {}", time::seconds_text(self.timeout));
                Some(with_lines(error, &lines))
            }
        }
    }

    /// Returns the result of the action. `until` is the pattern that ended the dialogue.
    fn result(
        &self,
        answers: &[DialogueAnswer],
        turn_result: &Map<String, Value>,
        until: Option<&str>,
        error: Option<String>,
    ) -> Map<String, Value> {
        let mut result = Map::new();
        let mut put = |name: &str, value: Value| drop(result.insert(name.to_owned(), value));
        let turn_field = |name: &str| turn_result.get(name).cloned().unwrap_or_default();
        put("success", (error.is_none() && tool::succeeded(turn_result)).into());
        for name in ["session_id", "reason", "exit_code", "screen_content"] {
            put(name, turn_field(name));
        }
        put("pattern", until.map_or(Value::Null, Value::from));
        put("match_text", if until.is_some() { turn_field("match_text") } else { Value::Null });
        let mut names = Map::new();
        for answer in answers {
            let named_groups = answer.groups.iter().filter(|(name, _)| !groups::is_number(name));
            names.extend(named_groups.map(|(name, text)| (name.clone(), text.clone())));
        }
        if let Some(Value::Object(groups)) = until.and_then(|until| match_groups(until, turn_result)) {
            names.extend(groups);
        }
        put("groups", names.into());
        put("answers", answers.len().into());
        put("answered", answers.iter().map(|answer| self.answer_report(answer)).collect());
        put("timeout_occurred", (turn_result.get("reason").is_some_and(|reason| reason == "timeout")).into());
        let error = error.map(Value::from).or_else(|| turn_result.get("error").cloned()).unwrap_or_default();
        put("error", error);
        result
    }

    /// Returns an answer for the result of the action, without secret texts.
    fn answer_report(&self, answer: &DialogueAnswer) -> Value {
        let when = self.rules.get(answer.rule as usize).map(|rule| rule.when.as_str());
        let mut report = json!({"when": when, "match_text": answer.match_text});
        if !answer.secret {
            report["typed"] = answer.input_text.as_str().into();
        }
        if !answer.keys.is_empty() {
            report["keys"] = answer.keys.clone().into();
        }
        report
    }
}

/// Returns the result of a turn in a rehearsal: the first match of a pattern in the text of the program.
pub(crate) fn rehearsed_turn(patterns: &[Value], text: &str) -> Map<String, Value> {
    let matches = patterns.iter().enumerate().filter_map(|(index, pattern)| {
        let found = Pattern::new(pattern.as_str()?).ok()?.find_at(text, 0).ok()??;
        Some((found.range.start, index, found))
    });
    let turn_result = match matches.min_by_key(|(start, index, _)| (*start, *index)) {
        Some((_, index, found)) => {
            let group = |range: Option<std::ops::Range<usize>>| range.and_then(|range| text.get(range));
            json!({"success": true, "reason": "match", "matched": index, "match_text": text.get(found.range),
                   "groups": found.groups.into_iter().map(group).collect::<Vec<_>>(), "screen_content": text})
        }
        None => json!({"success": true, "reason": "input", "screen_content": text}),
    };
    match turn_result {
        Value::Object(turn_result) => turn_result,
        _ => Map::new(),
    }
}

/// Returns the result of a rehearsed turn that ends the program.
pub(crate) fn rehearsed_end() -> Map<String, Value> {
    let fields = [("success", true.into()), ("reason", "exit".into()), ("exit_code", 0.into())];
    fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}

/// Returns the parameters of a dialogue with variables replaced, except in the texts of its answers.
pub(crate) fn resolve_params(params: &Map<String, Value>, variables: &impl Lookup) -> Map<String, Value> {
    let rule = |rule: &Value| match rule {
        Value::Object(keys) => {
            let key = |(key, value): (&String, &Value)| {
                let value = if key == TYPE_KEY { value.clone() } else { substitute::value(value, variables, true) };
                (key.clone(), value)
            };
            Value::Object(keys.iter().map(key).collect())
        }
        other => substitute::value(other, variables, true),
    };
    let param = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::Array(rules) if name == RULES => Value::Array(rules.iter().map(rule).collect()),
            other => substitute::value(other, variables, true),
        };
        (name.clone(), value)
    };
    params.iter().map(param).collect()
}

/// Returns the rules in the parameters of a dialogue, each with its index.
fn indexed_rules(params: &Map<String, Value>) -> impl Iterator<Item = (usize, &Map<String, Value>)> {
    let rules = params.get(RULES).and_then(Value::as_array).into_iter().flatten().enumerate();
    rules.filter_map(|(index, rule)| Some((index, rule.as_object()?)))
}

/// Returns whether a pointer within the parameters refers to the text of an answer.
pub(crate) fn is_answer(pointer: &str) -> bool {
    let index = pointer.strip_prefix("/rules/").and_then(|rest| rest.strip_suffix("/type"));
    index.is_some_and(groups::is_number)
}

/// Returns the first placeholder in the parameters without a value, now or after the match of a question.
pub(crate) fn unresolved<'p>(params: &'p Map<String, Value>, variables: &dyn Lookup) -> Option<&'p str> {
    let unresolved_now = |value: &'p Value| substitute::unresolved(value, variables);
    let unresolved_later = |value: &'p Value| {
        substitute::unresolved_except(value.as_str()?, variables, |root| comes_from_question(params, root))
    };
    let in_rules = || {
        let mut keys = indexed_rules(params).flat_map(|(_, rule)| rule);
        keys.find_map(|(key, value)| if key == TYPE_KEY { unresolved_later(value) } else { unresolved_now(value) })
    };
    let mut other_params = params.iter().filter(|(name, _)| *name != RULES);
    let in_others = other_params.find_map(|(_, value)| unresolved_now(value));
    let secret = || secret_names(params).map(|(_, name)| name).find(|name| value_of_secret(name, variables).is_none());
    in_others.or_else(in_rules).or_else(secret)
}

/// Returns the names of the secrets that are answers, with their pointers within the parameters.
pub(crate) fn secret_names(params: &Map<String, Value>) -> impl Iterator<Item = (String, &str)> {
    indexed_rules(params).filter_map(|(index, rule)| {
        let name = rule.get(SECRET_KEY).and_then(Value::as_str).filter(|name| !matches!(*name, "true" | "false"))?;
        Some((format!("/{RULES}/{index}/{SECRET_KEY}"), name))
    })
}

/// Returns the texts of secret answers.
pub(crate) fn secret_texts(params: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let is_secret = |rule: &Map<String, Value>| rule.get(SECRET_KEY).is_some_and(|value| *value == Value::Bool(true));
    indexed_rules(params).filter(move |(_, rule)| is_secret(rule)).filter_map(|(_, rule)| rule.get(TYPE_KEY)?.as_str())
}

/// Returns the typed texts without a following key, with their pointers within the parameters.
pub(crate) fn texts_without_key(params: &Map<String, Value>) -> impl Iterator<Item = (String, &str)> {
    let first = params.get("input_text").and_then(Value::as_str).map(|text| ("/input_text".to_owned(), text));
    let answers = indexed_rules(params).filter(|(_, rule)| rule.get("press").is_none_or(Value::is_null));
    let answers = answers.filter_map(|(index, rule)| {
        Some((format!("/{RULES}/{index}/{TYPE_KEY}"), rule.get(TYPE_KEY).and_then(Value::as_str)?))
    });
    first.into_iter().chain(answers)
}

/// Returns the patterns of a dialogue: the patterns of its rules, and the patterns that end the dialogue.
pub(crate) fn patterns(params: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let until = params.get("until").into_iter().flat_map(|until| match until {
        Value::Array(all) => all.iter().collect(),
        one => vec![one],
    });
    indexed_rules(params).filter_map(|(_, rule)| rule.get("when")).chain(until).filter_map(Value::as_str)
}

/// Returns whether a placeholder in the text of an answer gets its value from the match of the question.
pub(crate) fn comes_from_question(params: &Map<String, Value>, root: &str) -> bool {
    matches!(root, "match_text" | "groups")
        || patterns(params).any(|when| groups::group_names_in(when).any(|name| name == root))
}

/// The variables of an answer: the variables of the run, overridden by the match of the question.
struct QuestionVariables<'a> {
    before: &'a dyn Lookup,
    text: Value,
    groups: Value,
}

impl Lookup for QuestionVariables<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        match name {
            "match_text" => Some(&self.text),
            "groups" => Some(&self.groups),
            _ => {
                let named_group = || self.groups.get(name).filter(|_| !groups::is_number(name));
                named_group().or_else(|| self.before.get(name))
            }
        }
    }

    fn belongs_to_shell(&self, name: &str) -> bool {
        self.before.belongs_to_shell(name)
    }

    fn has_paths(&self) -> bool {
        true
    }
}

/// Returns the value of the argument or secret that a rule names.
fn value_of_secret<'v>(name: &str, variables: &'v dyn Lookup) -> Option<&'v Value> {
    variables.get(name).or_else(|| variables.get(&secret_variable(name)))
}

fn times_used(answers: &[DialogueAnswer], rule: usize) -> usize {
    answers.iter().filter(|answer| answer.rule as usize == rule).count()
}

/// Returns the groups of a turn's match as an object.
fn match_groups(pattern: &str, turn_result: &Map<String, Value>) -> Option<Value> {
    groups::groups_of_match(&Map::from_iter([("pattern".to_owned(), pattern.into())]), turn_result)
}

/// Returns the question that a turn matched.
fn question(turn_result: &Map<String, Value>) -> String {
    turn_result.get("match_text").map(as_text).unwrap_or_default()
}

/// Returns the last lines on the screen, truncated.
fn last_lines(turn_result: &Map<String, Value>) -> String {
    let screen = turn_result.get("screen_content").map(as_text).unwrap_or_default();
    let mut lines: Vec<&str> =
        screen.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(MAX_LAST_LINES).collect();
    lines.reverse();
    lines.join("\n").chars().rev().take(MAX_QUESTION_CHARS).collect::<Vec<_>>().into_iter().rev().collect()
}

fn with_lines(error: String, lines: &str) -> String {
    if lines.is_empty() { error } else { format!("{error}: {}", lines.replace('\n', " / ")) }
}

#[cfg(test)]
mod tests {
    use steplatch_ids::StepId;

    use super::*;

    struct NoVariables;

    impl Lookup for NoVariables {
        fn get(&self, _: &str) -> Option<&Value> {
            None
        }
    }

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().expect("the value is an object").clone()
    }

    fn dialogue(params: &Value) -> Dialogue {
        Dialogue::read(&map(params)).unwrap_or_else(|invalid| panic!("{}", invalid.message))
    }

    /// Runs the rules on texts of a program. Returns the typed texts and the result.
    fn play(params: &Value, texts: &[&str]) -> (Vec<String>, Map<String, Value>) {
        let dialogue = dialogue(params);
        let mut answers = Vec::new();
        for text in texts {
            let patterns: Vec<Value> = dialogue.patterns(&answers).map(|(pattern, _)| pattern.into()).collect();
            match dialogue.after(&answers, &rehearsed_turn(&patterns, text), &NoVariables) {
                Next::Answer(answer) => answers.push(answer),
                Next::Ended(result) => {
                    return (answers.iter().map(|answer| dialogue.typed_text(answer, &NoVariables)).collect(), result);
                }
            }
        }
        panic!("the dialogue continues after {texts:?}");
    }

    #[test]
    fn questions_are_answered_in_any_order_until_the_end_pattern() {
        let params = json!({"rules": [{"when": "licence\\?", "type": "yes\n"},
                                      {"when": "type '(?P<word>\\w+)' to confirm", "type": "{word} {groups.1}\n"}],
                            "until": ["^Installed (\\S+)", "^Failed"]});
        let (typed_texts, result) =
            play(&params, &["type 'wipe' to confirm", "Do you accept the licence? ", "ok\nInstalled 1.2"]);
        assert_eq!(typed_texts, ["wipe wipe\n", "yes\n"]);
        assert_eq!(
            (&result["success"], &result["answers"], &result["reason"]),
            (&json!(true), &json!(2), &json!("match"))
        );
        assert_eq!((&result["match_text"], &result["pattern"]), (&json!("Installed 1.2"), &json!("^Installed (\\S+)")));
        assert_eq!(result["groups"], json!({"word": "wipe", "0": "Installed 1.2", "1": "1.2"}));
        assert_eq!(result["answered"][1], json!({"when": "licence\\?", "match_text": "licence?", "typed": "yes\n"}));
    }

    #[test]
    fn unmatched_question_fails_with_the_last_lines() {
        let params = json!({"rules": [{"when": "assword:", "type": "x\n", "times": 1}], "until": "ready"});
        let (typed_texts, result) = play(&params, &["Password:", "Sorry.\n\nPassword:"]);
        assert_eq!(typed_texts, ["x\n"]);
        assert_eq!(
            result["error"],
            "/assword:/ appeared again after its maximum number of answers (times:  1): Sorry. / Password:"
        );
        let (_, result) = play(&params, &["one\ntwo\nthree\nOverwrite? [y/N]"]);
        assert_eq!(result["error"], "the program asks a question that no rule answers: two / three / Overwrite? [y/N]");
        assert_eq!((&result["success"], &result["reason"]), (&json!(false), &json!("input")));
    }

    #[test]
    fn answers_are_bounded() {
        let params = json!({"rules": [{"when": "again\\?", "type": "y\n"}], "until": "done", "max_answers": 2});
        let (typed_texts, result) = play(&params, &["again?"; 3]);
        assert_eq!(typed_texts.len(), 2);
        assert_eq!(result["error"], "2 answers were typed (max_answers), and /again\\?/ appeared again: again?");
    }

    #[test]
    fn end_of_the_program_ends_a_dialogue() {
        let turn_result = |value: Value| map(&value);
        let rules = json!([{"when": "x", "type": "y\n"}]);
        let (without, with) =
            (dialogue(&json!({"rules": rules})), dialogue(&json!({"rules": rules, "until": "ready", "timeout": 5})));
        for (dialogue, turn, expected) in [
            (&without, json!({"reason": "prompt", "exit_code": 0}), Value::Null),
            (&without, json!({"reason": "exit", "exit_code": null}), Value::Null),
            (
                &without,
                json!({"reason": "prompt", "exit_code": 2, "screen_content": "no\n$ "}),
                json!("the program ended with exit code 2: no / $"),
            ),
            (&without, json!({"reason": "timeout"}), json!("the end of the program did not appear within 60s")),
            (
                &with,
                json!({"reason": "exit", "exit_code": 0}),
                json!("the program ended with exit code 0 before /ready/ came"),
            ),
            (
                &with,
                json!({"reason": "timeout", "screen_content": "50 %"}),
                json!("/ready/ did not appear within 5s: 50 %"),
            ),
            (&with, json!({"success": false, "error": "Session 'x' not found"}), json!("Session 'x' not found")),
        ] {
            let Next::Ended(result) = dialogue.after(&[], &turn_result(turn.clone()), &NoVariables) else {
                panic!("{turn}")
            };
            assert_eq!(result["error"], expected, "{turn}");
            assert_eq!(result["success"], expected.is_null(), "{turn}");
            assert_eq!(result["timeout_occurred"], turn["reason"] == "timeout", "{turn}");
        }
    }

    #[test]
    fn secret_answer_is_not_repeated_in_the_result() {
        let params = json!({"rules": [{"when": "key:", "type": "k-{groups.0}\n", "secret": true}], "until": "ok"});
        let (typed_texts, result) = play(&params, &["key:", "ok"]);
        assert_eq!(typed_texts, ["k-key:\n"]);
        assert_eq!(result["answered"], json!([{"when": "key:", "match_text": "key:"}]));
    }

    #[test]
    fn turn_has_its_own_step() {
        let step: StepId = "run_0123456789abcdef/ask/2".parse().expect("the step id is valid");
        let turn = step.part(3);
        assert_eq!(turn.to_string(), "run_0123456789abcdef/ask/2/3");
        assert_eq!(turn.to_string().parse(), Ok(turn));
    }
}
