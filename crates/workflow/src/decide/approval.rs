//! The gates for a person that a run would pass if it continued in another state.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::definition::{Definition, State};
use crate::gateless::{GatelessNames, may_ask_person};

/// The approvals by a person, given or still required, of a run that waits in a state.
pub(super) struct Approvals<'d> {
    entrances: Vec<Entrance<'d>>,
    /// The states that the run can reach from `waiting_state` without passing a gate.
    reachable: BTreeSet<&'d str>,
    /// The state of the waiting run.
    waiting_state: &'d str,
}

/// A start of a path through a machine, and the states up to the next gates.
struct Entrance<'d> {
    /// The state after a gate; `None` for the start of a run.
    approved: Option<&'d str>,
    /// The states that are reachable from there without passing a gate, and the next gates.
    reachable: BTreeSet<&'d str>,
}

/// The states of a machine.
struct GatedMachine<'d> {
    states: BTreeMap<&'d str, &'d State>,
    /// The states that may ask a person.
    gates: BTreeSet<&'d str>,
}

impl<'d> Approvals<'d> {
    pub(super) fn new(definition: &'d Definition, waiting_state: &'d State, gateless: &GatelessNames) -> Self {
        let machine = GatedMachine::new(definition, gateless);
        let starts = [definition.initial_state()].into_iter().chain(definition.finally_state());
        let begin = Entrance { approved: None, reachable: machine.reachable(starts) };
        let gates = machine.gates.iter().filter_map(|name| machine.states.get(name));
        let approved: BTreeSet<&str> = gates.flat_map(|gate| gate.targets()).collect();
        let after_gates = approved
            .into_iter()
            .map(|approved| Entrance { approved: Some(approved), reachable: machine.reachable([approved]) });
        let entrances = [begin].into_iter().chain(after_gates).collect();
        // A run in a gate continues only after an answer.
        let is_gate = machine.gates.contains(waiting_state.name());
        let reachable = if is_gate { BTreeSet::new() } else { machine.reachable(waiting_state.targets()) };
        Self { entrances, reachable, waiting_state: waiting_state.name() }
    }

    /// Returns whether the run passes a gate for a person by going to the state `to`.
    ///
    /// False if `to` is reachable without a gate, from the start of the run or from the waiting state. Also false if
    /// each answer that may have led to the waiting state also leads to `to`: the run then repeats approved states. The
    /// state directly after a gate always needs a new answer.
    pub(super) fn passes_gate(&self, to: &str) -> bool {
        let is_reachable_from_start =
            |entrance: &Entrance<'_>| entrance.approved.is_none() && entrance.reachable.contains(to);
        if self.reachable.contains(to) || self.entrances.iter().any(is_reachable_from_start) {
            return false;
        }
        let is_approved = self.entrances.iter().any(|entrance| entrance.approved == Some(to));
        let mut possible_entrances =
            self.entrances.iter().filter(|entrance| entrance.reachable.contains(self.waiting_state)).peekable();
        is_approved
            || possible_entrances.peek().is_none()
            || possible_entrances.any(|entrance| !entrance.reachable.contains(to))
    }
}

impl<'d> GatedMachine<'d> {
    fn new(definition: &'d Definition, gateless: &GatelessNames) -> Self {
        let asks = |state: &&State| {
            let action = state.action();
            let action_value: Value = json!({"tool": action.tool(), "params": action.params()});
            may_ask_person(&action_value, &|name| gateless.contains(name))
        };
        Self {
            states: definition.states().iter().map(|state| (state.name(), state)).collect(),
            gates: definition.states().iter().filter(asks).map(State::name).collect(),
        }
    }

    /// Returns the states that are reachable from `from` without passing a gate, including `from` and the next gates.
    fn reachable(&self, from: impl IntoIterator<Item = &'d str>) -> BTreeSet<&'d str> {
        let (mut found, mut pending): (BTreeSet<&'d str>, Vec<&'d str>) = (BTreeSet::new(), from.into_iter().collect());
        while let Some(name) = pending.pop() {
            if let (Some(state), true) = (self.states.get(name), found.insert(name))
                && !self.gates.contains(name)
            {
                pending.extend(state.targets());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::definition::{Problem, ToolCatalog};

    struct NoTools;

    impl ToolCatalog for NoTools {
        fn tools(&self) -> Vec<String> {
            ["run_command", "run_graph", "run_node"].map(str::to_owned).to_vec()
        }

        fn check(&self, _: &str, _: &Map<String, Value>) -> Vec<Problem> {
            Vec::new()
        }

        fn takes_session(&self, _: &str) -> bool {
            false
        }
    }

    /// Returns an action by a short name.
    fn action(kind: &str) -> Value {
        let asks = |who: &str| json!({"tool": "gate", "params": {"prompt": "Go?", "answered_by": who}});
        let inline = |who: &str| json!({"initial_state": "q", "states": {"q": {"action": asks(who)}}});
        let run = |params: Value| json!({"tool": "run_workflow", "params": params});
        match kind {
            "human" | "agent" => asks(kind),
            "inline" => run(json!({"workflow_definition": inline("human")})),
            "inline agent" => run(json!({"workflow_definition": inline("agent")})),
            "computed" => run(json!({"workflow_name": "appr{suffix}"})),
            "parallel" => json!({"tool": "parallel", "params": {"workflows": [{"workflow_name": "approval"}]}}),
            "graph" => json!({"tool": "run_graph", "params": {"graph_id": "approval"}}),
            "node" => json!({"tool": "run_node", "params": {"node_id": "build"}}),
            "work" => json!({"tool": "run_command", "params": {"command": "make"}}),
            name => run(json!({"workflow_name": name})),
        }
    }

    /// Returns the states of a machine (`name kind: next next`) that a run in `at` reaches only past a gate.
    fn states_past_gates(states: &[&str], at: &str) -> Vec<String> {
        let state = |written: &&str| {
            let (head, next) = written.split_once(':').unwrap_or((written, ""));
            let (name, kind) = head.split_once(' ').unwrap_or((head, "work"));
            let transitions: Vec<Value> = next
                .split_whitespace()
                .map(|to| json!({"condition": {"field_equals": {"answer": to}}, "next_state": to}))
                .collect();
            (name.to_owned(), json!({"action": action(kind), "transitions": transitions}))
        };
        let all: Map<String, Value> = states.iter().map(state).collect();
        let first = states[0].split([' ', ':']).next().expect("the state has a name");
        let document = json!({"initial_state": first, "states": all});
        let definition = Definition::parse(&document, &NoTools).unwrap_or_else(|problems| panic!("{problems}"));
        let gateless = GatelessNames { workflows: ["quiet".to_owned()].into(), nodes: ["build".to_owned()].into() };
        let approvals = Approvals::new(&definition, definition.state(at).expect("the state exists"), &gateless);
        let names = definition.states().iter().map(State::name);
        names.filter(|name| approvals.passes_gate(name)).map(str::to_owned).collect()
    }

    #[test]
    fn every_possible_question_to_a_person_is_a_gate() {
        for kind in ["human", "inline", "approval", "computed", "parallel", "graph"] {
            let ask = format!("ask {kind}: deploy");
            let machine = ["a: ask", &ask, "deploy: done", "done"];
            assert_eq!(states_past_gates(&machine, "a"), ["deploy", "done"], "{kind}");
            assert_eq!(
                states_past_gates(&machine, "ask"),
                ["deploy", "done"],
                "{kind}: without the asking state itself"
            );
        }
        for kind in ["agent", "inline agent", "quiet", "node", "work"] {
            let ask = format!("ask {kind}: deploy");
            assert_eq!(states_past_gates(&["a: ask", &ask, "deploy: done", "done"], "a"), [""; 0], "{kind}");
        }
    }

    #[test]
    fn state_requires_all_gates_that_no_path_avoids() {
        let machine = ["a: q hotfix", "q human: dep", "hotfix human: dep", "dep: done", "done"];
        assert_eq!(states_past_gates(&machine, "a"), ["dep", "done"]);
        let free = ["a: q dep", "q human: dep", "dep: done", "done"];
        assert_eq!(states_past_gates(&free, "a"), [""; 0], "one path has no gate for a person");
        let second = ["a: q", "q human: b", "b: r", "r human: c", "c: d", "d"];
        assert_eq!(states_past_gates(&second, "b"), ["b", "c", "d"], "the second gate is not passed with the first");
        let round = ["a: q", "q human: b", "b: r", "r human: c", "c: b2", "b2: d b", "d"];
        assert_eq!(states_past_gates(&round, "b"), ["b", "c", "b2", "d"], "the run may have come from either gate");
    }

    #[test]
    fn person_repeats_an_approved_state_and_anyone_later_ones() {
        let machine = ["q human: go stop", "go: check", "check: done", "done", "stop: tidy", "tidy"];
        assert_eq!(states_past_gates(&machine, "go"), ["go", "stop", "tidy"]);
        assert_eq!(states_past_gates(&machine, "check"), ["go", "stop", "tidy"]);
        assert_eq!(states_past_gates(&machine, "stop"), ["go", "check", "done", "stop"], "the person refused to go on");
        assert_eq!(states_past_gates(&machine, "tidy"), ["go", "check", "done", "stop"], "the person refused to go on");
        let checked_repetition = ["q human: go", "go: check", "check: go done", "done"];
        assert_eq!(
            states_past_gates(&checked_repetition, "check"),
            [""; 0],
            "a transition of the machine leads to the state"
        );
        let twice = ["q human: go", "go: go done", "done"];
        assert_eq!(states_past_gates(&twice, "go"), [""; 0], "the machine repeats the state by itself");
    }
}
