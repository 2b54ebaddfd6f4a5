//! Possible ends of a run in a state, from the state alone.
//!
//! An action ends in one of a few [`OutcomeKind`]s. A run may end at an ending that no transition is sure to take and
//! that no `on_timeout` leads on from: it completes if the action succeeded and fails if it did not, as in `decide`.
//! The contents of fields and screens are unknown beforehand, except that a pattern either matches a text or does not.

use super::State;
use crate::condition::Condition;
use crate::tool;

/// The ways in which a run may end in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PossibleOutcomes {
    /// True if it may do its task.
    pub completes: bool,
    /// True if it may break off.
    pub fails: bool,
}

/// The outcome of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutcomeKind {
    Succeeded,
    /// An `await_output` ended without a match.
    FoundNothing,
    Failed,
    /// The state's limit passed.
    TimedOut,
    /// The daemon stopped while the action was in progress.
    Unknown,
}

impl State {
    /// Returns the possible ends of a run here.
    pub fn ends(&self) -> PossibleOutcomes {
        let left: Vec<OutcomeKind> =
            self.endings().into_iter().filter(|ending| !self.surely_leads_on(*ending)).collect();
        PossibleOutcomes {
            completes: left.iter().any(|ending| ending.is_success()),
            // A run that may not enter the state once more fails there too.
            fails: left.iter().any(|ending| !ending.is_success())
                || (self.max_visits.is_some() && self.on_exhausted.is_none())
                // Its items may not be a list, or be too many.
                || self.for_each.is_some(),
        }
    }

    /// Returns whether a run may end here at all.
    pub(crate) fn may_end(&self) -> bool {
        let PossibleOutcomes { completes, fails } = self.ends();
        completes || fails
    }

    /// Returns the possible outcomes of the action.
    fn endings(&self) -> Vec<OutcomeKind> {
        let tool = self.action.tool();
        let mut endings = match tool {
            // Neither waits for an answer: one always succeeds, the other never does.
            tool::SLEEP => vec![OutcomeKind::Succeeded],
            tool::SET | tool::RETURN => return vec![OutcomeKind::Succeeded],
            tool::FAIL => return vec![OutcomeKind::Failed],
            // It gets an answer, or expires without one.
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
            endings.push(OutcomeKind::TimedOut);
        }
        endings
    }

    /// Returns whether the state always leads to another one.
    fn surely_leads_on(&self, ending: OutcomeKind) -> bool {
        let unsuccessful = matches!(ending, OutcomeKind::TimedOut | OutcomeKind::FoundNothing | OutcomeKind::Failed);
        let late = unsuccessful && self.on_timeout().is_some();
        let conditions = || self.transitions.iter().map(|transition| &transition.condition);
        // Conditions on one pattern only: each with whether it must match.
        let patterns: Vec<(&str, bool)> = conditions().filter_map(|condition| ending.leaves_to(condition)).collect();
        late || conditions().any(|condition| ending.surely_holds(condition))
            || patterns.iter().any(|(pattern, found)| patterns.contains(&(*pattern, !*found)))
    }
}

impl OutcomeKind {
    /// Returns whether the action succeeded.
    pub(crate) fn is_success(self) -> bool {
        self == Self::Succeeded
    }

    fn surely_holds(self, condition: &Condition) -> bool {
        condition.description.is_none() && condition.tests.iter().all(|test| test.is_decided_by(self) == Some(true))
    }

    /// Returns the one pattern that a condition depends on, if everything else in it holds.
    fn leaves_to(self, condition: &Condition) -> Option<(&str, bool)> {
        let mut open = condition.tests.iter().filter(|test| test.is_decided_by(self) != Some(true));
        match (open.next()?, open.next(), &condition.description) {
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
    fn what_no_transition_is_sure_to_take_is_an_end() {
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
    fn a_time_out_that_leads_on_is_no_end() {
        let state = |more: Value| {
            let mut state = json!({"action": {"tool": "await_output", "params": {"pattern": "x"}}, "transitions": [
                {"condition": {"success": true, "timeout_occurred": false}, "next_state": "a"}
            ]});
            state.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            state
        };
        assert_eq!(ends(&state(json!({}))), "fails", "what did not come fails a run");
        assert_eq!(ends(&state(json!({"timeout": 3, "on_timeout": "a"}))), "fails", "the terminal may be gone");
        let nap = |more: Value| {
            json!({"action": {"tool": "sleep", "params": {"seconds": 9}}, "timeout": 1,
            "transitions": [{"condition": "success", "next_state": "a"}], "on_timeout": more})
        };
        assert_eq!((ends(&nap(Value::Null)), ends(&nap("a".into()))), ("fails", "goes on"));
    }
}
