//! Conditions of transitions.
//!
//! The tests in a condition are defined in `condition/test.rs`.

mod read;
mod test;

use std::fmt;

use serde_json::{Map, Value};
use steplatch_pattern::{Pattern, PatternError, TooMuchWork};

use crate::rules::Rules;
use crate::substitute::{self, Lookup};
use crate::tool;
pub(crate) use test::{ConditionKeys, Test, Word};

/// Condition of a transition: all of its tests must hold.
#[derive(Debug, Clone)]
pub struct Condition {
    pub(crate) tests: Vec<Test>,
    /// Text that a person or an agent must also judge.
    pub(crate) description: Option<String>,
}

/// Reason that a condition cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// The pattern does not compile after its variables are replaced.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The search exceeded its work limit.
    #[error(transparent)]
    TooMuchWork(#[from] TooMuchWork),
    /// The placeholder of the variable with this name has no value.
    #[error("{{{0}}} has no value")]
    Unresolved(String),
}

/// Result fields that a pattern search examines, in this order.
const SEARCHED_FIELDS: [&str; 2] = ["match_text", "screen_content"];

/// The facts that a condition examines: the end of a state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ending<'a> {
    pub(crate) rules: Rules,
    pub(crate) tool: &'a str,
    pub(crate) result: &'a Map<String, Value>,
    /// True if the time limit of the state passed.
    pub(crate) timed_out: bool,
    /// True if an `await_output` ended without a match.
    pub(crate) found_nothing: bool,
    /// True if the daemon stopped while the action was in progress, so that its outcome is unknown.
    pub(crate) unknown: bool,
    /// The screen of the run's terminal, read because the result has no text.
    pub(crate) screen: Option<&'a str>,
}

impl Ending<'_> {
    /// Returns whether the action failed. False for an unknown outcome: the action may have succeeded.
    pub(crate) fn has_failed(&self) -> bool {
        !self.unknown && !tool::succeeded(self.result)
    }

    /// Returns the result fields that a pattern search examines.
    fn searched_fields(&self) -> &'static [&'static str] {
        if self.tool == tool::RUN_COMMAND { &[tool::OUTPUT] } else { &SEARCHED_FIELDS }
    }

    /// Returns whether the result has text for a pattern search.
    pub(crate) fn has_text(&self) -> bool {
        self.searched_fields().iter().any(|field| self.result.get(*field).is_some_and(|text| !text.is_null()))
    }

    /// Returns the texts to search for a pattern: `match_text` and `screen_content` joined by a space, then each
    /// separately, so that `^` and `$` also match at the start and the end of each text.
    fn searched_texts(&self) -> Vec<String> {
        let field = |name| self.result.get(name).map(substitute::as_text).unwrap_or_default();
        if self.tool == tool::RUN_COMMAND && self.has_text() {
            let output = field(tool::OUTPUT);
            let trimmed = self.trimmed_output().filter(|output| !output.is_empty());
            let with_end = trimmed.map(|output| format!("{output}\n"));
            // With `limit`, the end of a long output is separate.
            let tail = self.result.get("omitted").and_then(|omitted| omitted.get("tail")).map(substitute::as_text);
            return [Some(output), with_end, tail].into_iter().flatten().collect();
        }
        let [matched, screen] = SEARCHED_FIELDS.map(field);
        if !self.rules.searches_each_text() {
            return vec![format!("{matched} {screen}")];
        }
        let screen = match self.screen {
            Some(screen) if !self.has_text() => screen.to_owned(),
            _ => screen,
        };
        match (matched.is_empty(), screen.is_empty()) {
            (_, true) => vec![matched],
            (true, false) => vec![format!(" {screen}"), screen],
            (false, false) => vec![format!("{matched} {screen}"), matched, screen],
        }
    }

    /// Returns the output of a command if its result has no trailing newlines, although the command printed them.
    pub(crate) fn trimmed_output(&self) -> Option<&str> {
        let is_trimmed = self.tool == tool::RUN_COMMAND && self.rules.trims_output();
        self.result.get(tool::OUTPUT).and_then(Value::as_str).filter(|_| is_trimmed)
    }

    /// Returns whether a pattern matches one of the texts.
    fn is_match(&self, pattern: &Pattern) -> Result<bool, TooMuchWork> {
        for text in self.searched_texts() {
            if pattern.is_match(&text)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Condition {
    /// Returns whether the condition holds only after a time-out.
    #[must_use]
    pub fn requires_timeout(&self) -> bool {
        self.tests.iter().any(Test::requires_timeout)
    }

    /// Returns whether the condition requires output of the action: less time for the action cannot make the condition
    /// hold.
    pub(crate) fn demands_output(&self) -> bool {
        !self.tests.is_empty() && self.tests.iter().all(Test::demands_output)
    }

    /// Returns the reason that the condition holds, or `None` if it does not. Ignores the part that a gate judges.
    pub(crate) fn holds(&self, ending: Ending<'_>, variables: &impl Lookup) -> Result<Option<String>, ConditionError> {
        let mut reasons = Vec::new();
        for test in &self.tests {
            match test.holds(ending, variables)? {
                Some(reason) => reasons.push(reason),
                None => return Ok(None),
            }
        }
        Ok(Some(if reasons.is_empty() { "it is always taken".to_owned() } else { reasons.join(" and ") }))
    }

    /// Returns whether the result depends on a pattern: the condition has a pattern, and all tests before the pattern
    /// hold.
    pub(crate) fn depends_on_pattern(&self, ending: Ending<'_>, variables: &impl Lookup) -> bool {
        for test in &self.tests {
            if test.pattern().is_some() {
                return true;
            }
            if !matches!(test.holds(ending, variables), Ok(Some(_))) {
                return false;
            }
        }
        false
    }

    /// Returns all texts with variables to replace.
    pub(crate) fn texts(&self) -> Vec<&str> {
        let texts = self.tests.iter().flat_map(Test::texts);
        texts.chain(self.description.as_deref()).collect()
    }

    /// Returns the fields of a result that the tests examine.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.tests.iter().filter_map(Test::field)
    }

    /// Returns the description that a gate judges, if any, with its variables replaced.
    pub(crate) fn resolved_description(
        &self,
        rules: Rules,
        variables: &impl Lookup,
    ) -> Result<Option<String>, ConditionError> {
        let Some(description) = &self.description else { return Ok(None) };
        check_resolved(rules, description, variables)?;
        Ok(Some(substitute::text(description, variables)))
    }

    /// Returns the description that a gate judges, with its placeholders.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }
}

/// Checks that every placeholder in text has a value, if the rules require it.
fn check_resolved(rules: Rules, text: &str, variables: &impl Lookup) -> Result<(), ConditionError> {
    match substitute::unresolved_in(text, variables) {
        Some(name) if rules.refuses_unresolved() => Err(ConditionError::Unresolved(name.to_owned())),
        _ => Ok(()),
    }
}

/// Displays the condition in a short notation: `success and exit_code = 0`.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tests = self.tests.iter().map(Test::to_string);
        let judged = self.description.iter().map(|description| format!("judged: {description}"));
        let parts: Vec<String> = tests.chain(judged).collect();
        f.write_str(if parts.is_empty() { "always" } else { "" })?;
        f.write_str(&parts.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::test::PatternText;
    use super::*;
    use crate::event::SEMANTICS_VERSION;
    use crate::variables::Variables;
    use serde_json::json;

    /// Returns the end of an action that returned `result`.
    fn ending(result: &Map<String, Value>) -> Ending<'_> {
        let rules = Rules::for_version(SEMANTICS_VERSION);
        let (timed_out, found_nothing, unknown, screen) = (false, false, false, None);
        Ending { rules, tool: "send_input", result, timed_out, found_nothing, unknown, screen }
    }

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().expect("the value is an object").clone()
    }

    #[test]
    fn condition_variables_keep_their_type() {
        let variables = Variables::begin(Rules::default(), map(&json!({"code": 3, "name": "a.b", "bad": "("})));
        let result = map(&json!({"success": true, "exit_code": 3, "screen_content": "say a.b"}));
        let holds = |test: Test| Condition { tests: vec![test], description: None }.holds(ending(&result), &variables);
        let equals = |value: Value| Test::FieldEquals { field: "exit_code".into(), value };
        assert_eq!(holds(equals(json!("{code}"))), Ok(Some("exit_code equals 3".into())));
        let contains = Test::FieldContains { field: "screen_content".into(), text: "say {name}".into() };
        assert_eq!(holds(contains), Ok(Some("screen_content contains 'say a.b'".into())));
        let template = |text: &str| Test::Pattern { pattern: PatternText::Template(text.into()), found: true };
        assert_eq!(holds(template("^ say {name|regex}$")), Ok(Some(r"pattern '^ say a\.b$' was found".into())));
        assert!(matches!(holds(template("{bad}")), Err(ConditionError::Pattern(_))));
    }

    #[test]
    fn pattern_is_searched_in_both_texts_joined_and_separately() {
        let (both, screen) =
            (json!({"match_text": "v1.2", "screen_content": "ok\nbuilt"}), json!({"screen_content": "ok\n$ "}));
        let (matched, nothing) = (json!({"match_text": "v1.2", "screen_content": ""}), json!({"success": true}));
        for (result, pattern, before, now) in [
            // Document 000, lines 707-711 and 717-721: match_text, a space and screen_content, as far as present.
            (&both, r"v1\.2 ok", true, true),
            (&both, "^v1.2 ok$", true, true),
            (&screen, r"^ ok", true, true),
            (&both, "built v1", false, false),
            // A single line of either text.
            (&screen, "^ok$", false, true),
            (&both, "^ok$", false, true),
            (&both, "^v1.2$", false, true),
            (&both, r"\Aok", false, true),
            (&matched, "^v1.2$", false, true),
            (&matched, "ok", false, false),
            (&nothing, "^$", false, true),
            (&nothing, ".", true, false),
        ] {
            for (version, expected) in [(3, before), (SEMANTICS_VERSION, now)] {
                let (result, rules) = (map(result), Rules::for_version(version));
                let ending = Ending { rules, ..ending(&result) };
                let holds = |found: bool| {
                    let pattern = PatternText::Compiled(Pattern::new(pattern).unwrap());
                    let condition = Condition { tests: vec![Test::Pattern { pattern, found }], description: None };
                    condition.holds(ending, &Variables::default()).unwrap().is_some()
                };
                assert_eq!(holds(true), expected, "/{pattern}/ in {result:?}, version {version}");
                assert_eq!(holds(false), !expected, "not /{pattern}/ in {result:?}, version {version}");
            }
        }
    }

    #[test]
    fn screen_is_searched_only_if_the_result_has_no_text() {
        let found = |result: Value| {
            let (result, pattern) = (map(&result), PatternText::Compiled(Pattern::new("^ready$").unwrap()));
            let condition = Condition { tests: vec![Test::Pattern { pattern, found: true }], description: None };
            let ending = Ending { screen: Some("$ make\nready\n$ "), ..ending(&result) };
            condition.holds(ending, &Variables::default()).unwrap().is_some()
        };
        assert!(found(json!({"success": true, "total_sessions": 1})));
        assert!(found(json!({"success": true, "match_text": null, "screen_content": null})));
        assert!(!found(json!({"success": true, "screen_content": ""})), "an empty screen counts as text");
        assert!(!found(json!({"success": true, "match_text": "x"})));
    }

    #[test]
    fn empty_condition_always_holds() {
        let result = map(&json!({"success": false}));
        let always = Condition { tests: Vec::new(), description: None };
        assert_eq!(always.holds(ending(&result), &Variables::default()), Ok(Some("it is always taken".into())));
    }
}
