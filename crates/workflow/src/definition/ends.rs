//! Possible ends of a run in a state, derived from the state alone.
//!
//! An action ends with one of a few [`OutcomeKind`]s. A run may end after an outcome that neither a transition nor
//! `on_timeout` is certain to handle: it completes if the action succeeded and fails otherwise, as in `decide`. The
//! contents of fields and screens are not known in advance, but a pattern either matches text or does not.

use super::State;
use crate::condition::Condition;
use crate::tool;

/// The possible ends of a run in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PossibleOutcomes {
    /// True if the run may complete.
    pub completes: bool,
    /// True if the run may fail.
    pub fails: bool,
}

/// The kind of an action's outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutcomeKind {
    Succeeded,
    /// An `await_output` ended without a match.
    FoundNothing,
    Failed,
    /// The time limit of the state passed.
    TimedOut,
    /// The daemon stopped while the action was in progress.
    Unknown,
}

impl State {
    /// Returns the possible ends of a run in this state.
    pub fn ends(&self) -> PossibleOutcomes {
        let final_outcomes: Vec<OutcomeKind> =
            self.possible_outcomes().into_iter().filter(|outcome| !self.always_continues(*outcome)).collect();
        PossibleOutcomes {
            completes: final_outcomes.iter().any(|outcome| outcome.is_success()),
            // A run also fails at the maximum number of visits.
            fails: final_outcomes.iter().any(|outcome| !outcome.is_success())
                || (self.max_visits.is_some() && self.on_exhausted.is_none())
                // The items may not be a list, or may be too many.
                || self.for_each.is_some(),
        }
    }

    /// Returns whether a run may end in this state.
    pub(crate) fn may_end(&self) -> bool {
        let PossibleOutcomes { completes, fails } = self.ends();
        completes || fails
    }

    /// Returns the possible outcomes of the action.
    fn possible_outcomes(&self) -> Vec<OutcomeKind> {
        let tool = self.action.tool();
        let mut outcomes = match tool {
            tool::SLEEP => vec![OutcomeKind::Succeeded],
            tool::SET | tool::RETURN => return vec![OutcomeKind::Succeeded],
            tool::FAIL => return vec![OutcomeKind::Failed],
            // The gate gets an answer or expires.
            tool::GATE if self.action.params().contains_key("timeout") => {
                vec![OutcomeKind::Succeeded, OutcomeKind::TimedOut]
            }
            tool::GATE => vec![OutcomeKind::Succeeded],
            _ if tool::waits(tool, self.action.params()) => {
                vec![OutcomeKind::Succeeded, OutcomeKind::FoundNothing, OutcomeKind::Failed, OutcomeKind::Unknown]
            }
            _ => vec![OutcomeKind::Succeeded, OutcomeKind::Failed, OutcomeKind::Unknown],
        };
        if self.timeout.is_some()
            || !tool::bounds_itself(tool, self.action.params())
            || matches!(tool, tool::RUN_COMMAND | tool::DIALOGUE)
        {
            outcomes.push(OutcomeKind::TimedOut);
        }
        outcomes
    }

    /// Returns whether the state leads to another state after this outcome in every case.
    fn always_continues(&self, outcome: OutcomeKind) -> bool {
        let unsuccessful = matches!(outcome, OutcomeKind::TimedOut | OutcomeKind::FoundNothing | OutcomeKind::Failed);
        let goes_to_timeout = unsuccessful && self.on_timeout().is_some();
        let conditions = || self.transitions.iter().map(|transition| &transition.condition);
        // The patterns of conditions that depend only on a pattern, each with true if it must match.
        let patterns: Vec<(&str, bool)> =
            conditions().filter_map(|condition| outcome.decisive_pattern(condition)).collect();
        goes_to_timeout
            || conditions().any(|condition| outcome.always_satisfies(condition))
            || patterns.iter().any(|(pattern, found)| patterns.contains(&(*pattern, !*found)))
    }
}

impl OutcomeKind {
    /// Returns whether the action succeeded.
    pub(crate) fn is_success(self) -> bool {
        self == Self::Succeeded
    }

    fn always_satisfies(self, condition: &Condition) -> bool {
        condition.description.is_none() && condition.tests.iter().all(|test| test.is_decided_by(self) == Some(true))
    }

    /// Returns the pattern of a condition, and true if it must match, if the result depends only on this pattern.
    fn decisive_pattern(self, condition: &Condition) -> Option<(&str, bool)> {
        let mut undecided = condition.tests.iter().filter(|test| test.is_decided_by(self) != Some(true));
        match (undecided.next()?, undecided.next(), &condition.description) {
            (test, None, None) => test.pattern(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::definition::{Definition, Problem, ToolCatalog};

    struct Terminals;

    impl ToolCatalog for Terminals {
        fn tools(&self) -> Vec<String> {
            ["open_terminal", "await_output"].map(str::to_owned).to_vec()
        }

        fn check(&self, _: &str, _: &Map<String, Value>) -> Vec<Problem> {
            Vec::new()
        }

        fn takes_session(&self, _: &str) -> bool {
            true
        }

        fn has_judges(&self) -> bool {
            true
        }
    }

    fn ends(state: &Value) -> &'static str {
        let document = json!({"initial_state": "a", "states": {"a": state}});
        let definition = Definition::parse(&document, &Terminals).unwrap_or_else(|problems| panic!("{problems}"));
        match definition.states()[0].ends() {
            PossibleOutcomes { completes: true, fails: true } => "either",
            PossibleOutcomes { completes: true, fails: false } => "completes",
            PossibleOutcomes { completes: false, fails: true } => "fails",
            PossibleOutcomes { completes: false, fails: false } => "goes on",
        }
    }

    #[test]
    fn possibly_untaken_transitions_make_a_state_an_end() {
        let cases = |tool: &str, params: Value, cases: &[(Value, &str)]| {
            for (conditions, expected) in cases {
                let to = |condition: &Value| json!({"condition": condition, "next_state": "a"});
                let transitions: Vec<Value> = conditions.as_array().unwrap().iter().map(to).collect();
                let state = json!({"action": {"tool": tool, "params": params}, "transitions": transitions});
                assert_eq!(ends(&state), *expected, "{state}");
            }
        };
        let judged = json!({"success": true, "description": "it works"});
        cases(
            "open_terminal",
            json!({}),
            &[
                (json!([]), "either"),
                (json!(["success"]), "fails"),
                (json!(["failure"]), "completes"),
                (json!(["success", "failure"]), "goes on"),
                (json!([{}]), "goes on"),
                (json!([judged]), "either"),
                (json!([judged, "success"]), "fails"),
                (json!([{"success": true, "pattern_match": "x"}]), "either"),
                (json!([{"pattern_match": "x"}, {"pattern_not_match": "x"}]), "goes on"),
                (json!([{"pattern_match": "x"}, {"success": true, "pattern_not_match": "x"}]), "fails"),
                (json!([{"pattern_match": "x"}, {"pattern_not_match": "y"}]), "either"),
                (json!([{"field_equals": {"success": true}}]), "either"),
                (json!([{"timeout_occurred": true}, {"timeout_occurred": false}]), "goes on"),
                (json!([{"timeout_occurred": true}]), "either"),
                (json!(["success", {"success": false, "outcome_unknown": false}]), "fails"),
                (
                    json!(["success", {"success": false, "outcome_unknown": false}, {"outcome_unknown": true}]),
                    "goes on",
                ),
            ],
        );
        cases("sleep", json!({"seconds": 1}), &[(json!([]), "completes"), (json!(["success"]), "goes on")]);
        cases("fail", json!({"message": "no"}), &[(json!([]), "fails")]);
    }

    #[test]
    fn timeout_with_a_transition_is_not_an_end() {
        let state = |more: Value| {
            let mut state = json!({"action": {"tool": "await_output", "params": {"pattern": "x"}}, "transitions": [
                {"condition": {"success": true, "timeout_occurred": false}, "next_state": "a"}
            ]});
            state.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            state
        };
        assert_eq!(ends(&state(json!({}))), "fails", "a missing match fails a run");
        assert_eq!(ends(&state(json!({"timeout": 3, "on_timeout": "a"}))), "fails", "the terminal may have closed");
        let nap = |more: Value| {
            json!({"action": {"tool": "sleep", "params": {"seconds": 9}}, "timeout": 1,
            "transitions": [{"condition": "success", "next_state": "a"}], "on_timeout": more})
        };
        assert_eq!((ends(&nap(Value::Null)), ends(&nap("a".into()))), ("fails", "goes on"));
    }
}
