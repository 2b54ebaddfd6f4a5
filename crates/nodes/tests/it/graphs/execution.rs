//! A graph whose nodes a test simulates.

use serde_json::{Value, json};
use steplatch_nodes::graph::{Effect, Graph, GraphEvent, GraphInput, Progress, StepOutcome, decide, result};
use steplatch_nodes::{ErrorType, Node, NodeKind, NodeResult};
use steplatch_workflow::Timestamp;

pub(crate) fn graph_node(steps: Value) -> Node {
    Node::parse(&json!({"id": "g", "type": "graph", "steps": steps})).unwrap_or_else(|problems| panic!("{problems}"))
}

pub(crate) fn graph_of(node: &Node) -> &Graph {
    let NodeKind::Graph(graph) = &node.kind else { panic!("{node:?}") };
    graph
}

fn any_node() -> Node {
    Node::parse(&json!({"id": "n", "type": "identity"})).unwrap()
}

pub(crate) fn done(output: impl Into<Value>) -> StepOutcome {
    StepOutcome::Finished { result: Box::new(NodeResult::succeeded(&any_node(), Value::Null, output)) }
}

pub(crate) fn failed(error: &str) -> StepOutcome {
    StepOutcome::Finished { result: Box::new(NodeResult::failed(&any_node(), Value::Null, ErrorType::ExitCode, error)) }
}

/// A graph in progress.
pub(crate) struct GraphExecution {
    pub(crate) node: Node,
    pub(crate) history: Vec<GraphEvent>,
    pub(crate) progress: Progress,
    /// Current actions, as text: `a1` is the first attempt of step a, `a@5` waits until second 5.
    pub(crate) open: Vec<String>,
    pub(crate) effects: Vec<Effect>,
    now: i64,
}

impl GraphExecution {
    pub(crate) fn begin(node: Node, input: impl Into<Value>) -> Self {
        let progress = Progress::new(graph_of(&node));
        let mut execution = Self { node, history: Vec::new(), progress, open: Vec::new(), effects: Vec::new(), now: 0 };
        execution.apply_input(GraphInput::Start { input: input.into() });
        execution
    }

    /// Ends a step's attempt with an outcome and returns the effects that are open afterwards.
    pub(crate) fn finish(&mut self, step: &str, outcome: StepOutcome) -> Vec<String> {
        let open = self.open.iter().position(|open| step_name(open) == step && !open.contains('@'));
        let open = self.open.remove(open.unwrap_or_else(|| panic!("{step} does not run: {:?}", self.open)));
        let attempt = open[step.len()..].parse().unwrap();
        self.apply_input(GraphInput::AttemptEnded { step: step.parse().unwrap(), attempt, outcome });
        self.open.clone()
    }

    /// Ends the delay of a step and returns the effects that are open afterwards.
    pub(crate) fn finish_delay(&mut self, step: &str) -> Vec<String> {
        let open = self.open.iter().position(|open| open.contains('@') && step_name(open) == step).unwrap();
        let open = self.open.remove(open);
        self.now = open.split('@').nth(1).unwrap().parse().unwrap();
        self.apply_input(GraphInput::DelayOver { step: step.parse().unwrap() });
        self.open.clone()
    }

    pub(crate) fn apply_input(&mut self, input: GraphInput) {
        let now = Timestamp(self.now * 1_000_000);
        let decision = decide(graph_of(&self.node), &self.progress, input, now);
        for event in &decision.events {
            self.progress.apply(event);
        }
        self.history.extend(decision.events);
        self.open.extend(decision.effects.iter().map(|effect| match effect {
            Effect::Run { step, attempt, .. } => format!("{step}{attempt}"),
            Effect::Wait { step, until } => format!("{step}@{}", until.0 / 1_000_000),
        }));
        self.effects.extend(decision.effects);
        let folded = Progress::from_history(graph_of(&self.node), &self.history);
        assert_eq!(folded, self.progress, "folding the history gives the decided progress");
    }

    /// Returns the input of a step's last call.
    pub(crate) fn last_input(&self, step_id: &str) -> Value {
        let input = self.effects.iter().rev().find_map(|effect| match effect {
            Effect::Run { step, input, .. } if step.as_str() == step_id => Some(input.clone()),
            _ => None,
        });
        input.unwrap()
    }

    pub(crate) fn result(&self) -> NodeResult {
        result(&self.node, graph_of(&self.node), &self.progress)
    }
}

fn step_name(open: &str) -> &str {
    open.split('@').next().unwrap().trim_end_matches(|character: char| character.is_ascii_digit())
}
