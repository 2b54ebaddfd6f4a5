//! Graphs: steps in the order of their dependencies.
//!
//! A [`Graph`] is valid by construction: every dependency exists and there is no cycle. [`decide`] is a pure function
//! of the [`Progress`]. The progress is folded from a history, so that an interrupted run continues where it stopped.
//! The daemon performs the decisions.

mod decide;
mod event;
mod plan;
mod policy;
mod progress;
mod read;
mod result;

use std::num::NonZeroU16;

use serde::Serialize;
use serde_json::Value;
use steplatch_workflow::{Problem, Problems, suggestion};

pub use decide::{Decision, Effect, GraphInput, decide, hold, resume};
pub use event::{Ending, GraphEvent, StepOutcome};
pub use policy::{OnFailure, Policy, Retry};
pub use progress::{Progress, Status};
pub use result::result;

use crate::node::NodeId;
use plan::Plan;

/// Maximum number of steps of a graph.
pub const MAX_STEPS: usize = 500;

/// Steps in the order of their dependencies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Graph {
    steps: Vec<Step>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_parallel: Option<NonZeroU16>,
    #[serde(skip)]
    plan: Plan,
}

/// A step of a graph: a node, and its input.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// Name of the step, unique in the graph; `input` is reserved for the graph's input
    pub id: NodeId,
    /// Node that the step calls
    pub node: NodeId,
    /// The node's input: `{step_id}` is the output of a step, on which it then depends, `{input}` the graph's input
    pub input: Value,
    /// Steps that must have finished before this step
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<NodeId>,
    /// Error policy of the step
    pub on_error: Policy,
}

impl Graph {
    /// Returns a graph of these steps.
    ///
    /// # Errors
    /// If step names repeat, or a dependency is unknown, is the step itself, or is part of a cycle.
    pub fn new(steps: Vec<Step>, max_parallel: Option<NonZeroU16>) -> Result<Self, Problems> {
        let plan = Plan::from_steps(&steps).map_err(Problems::new)?;
        Ok(Self { steps, max_parallel, plan })
    }

    /// Returns the steps in the order of their declaration.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the maximum number of steps in progress; `None` for no maximum.
    #[must_use]
    pub fn max_parallel(&self) -> Option<NonZeroU16> {
        self.max_parallel
    }

    /// Returns the ids of the steps that must finish before a step, including the steps that its input refers to.
    pub fn dependencies(&self, step: &NodeId) -> impl Iterator<Item = &NodeId> {
        let index = self.steps.iter().position(|known| known.id == *step);
        index.into_iter().flat_map(|index| self.plan.dependencies(index)).map(|index| &self.steps[*index].id)
    }

    /// Returns the step whose output is the graph's output: the last one in dependency order.
    #[must_use]
    pub fn final_step(&self) -> &Step {
        &self.steps[self.plan.final_step()]
    }

    /// Returns a problem for each node that a step calls and that is not in `known`, the ids of all existing nodes.
    #[must_use]
    pub fn check_nodes(&self, known: &[&str]) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (index, step) in self.steps.iter().enumerate() {
            let called_nodes =
                [Some((&step.node, "node")), step.on_error.fallback().map(|node| (node, "on_error/node"))];
            for (node, place) in called_nodes.into_iter().flatten() {
                if !known.contains(&node.as_str()) {
                    let nearest = suggestion(node.as_str(), known.iter().copied());
                    let message = format!("step '{}' calls node '{node}', which does not exist{nearest}", step.id);
                    problems.push(Problem::error(format!("/steps/{index}/{place}"), message));
                }
            }
        }
        problems
    }

    fn index(&self, step: &NodeId) -> Option<usize> {
        self.steps.iter().position(|known| known.id == *step)
    }
}
