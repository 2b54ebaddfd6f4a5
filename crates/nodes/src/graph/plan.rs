//! The order of a graph's steps, derived from their dependencies.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use steplatch_workflow::substitute::{self, Lookup};
use steplatch_workflow::{Problem, suggestion};

use super::{MAX_STEPS, Step};

/// The order of the steps, by their indices in the declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// The dependencies of each step.
    dependencies: Vec<Vec<usize>>,
    /// All steps, each after its dependencies, otherwise in declared order.
    order: Vec<usize>,
}

impl Plan {
    pub(super) fn from_steps(steps: &[Step]) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        if steps.is_empty() || steps.len() > MAX_STEPS {
            let message = format!("a graph has 1 to {MAX_STEPS} steps, not {}", steps.len());
            return Err(vec![Problem::error("/steps", message)]);
        }
        let mut indices: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, step) in steps.iter().enumerate() {
            let pointer = format!("/steps/{index}/id");
            if step.id.as_str() == INPUT {
                problems.push(Problem::error(pointer, "a step cannot be called 'input', which is the graph's input"));
            } else if *indices.entry(step.id.as_str()).or_insert(index) != index {
                problems.push(Problem::error(pointer, format!("two steps are called '{}'", step.id)));
            }
        }
        let mut dependencies = Vec::with_capacity(steps.len());
        for (index, step) in steps.iter().enumerate() {
            let mut step_dependencies = BTreeSet::new();
            for (position, dependency) in step.depends_on.iter().enumerate() {
                let pointer = format!("/steps/{index}/depends_on/{position}");
                match indices.get(dependency.as_str()) {
                    Some(target) if *target == index => {
                        problems.push(Problem::error(pointer, format!("step '{}' depends on itself", step.id)));
                    }
                    Some(target) => drop(step_dependencies.insert(*target)),
                    None => {
                        let nearest = suggestion(dependency.as_str(), indices.keys().copied());
                        let message =
                            format!("step '{}' depends on '{dependency}', which does not exist{nearest}", step.id);
                        problems.push(Problem::error(pointer, message));
                    }
                }
            }
            for name in referenced_names(&step.input) {
                match indices.get(name.as_str()) {
                    Some(target) if *target == index => {
                        let message = format!("step '{}' takes its own output as its input", step.id);
                        problems.push(Problem::error(format!("/steps/{index}/input"), message));
                    }
                    Some(target) => drop(step_dependencies.insert(*target)),
                    // Braces also have other uses, so unknown names stay unchanged.
                    None => {}
                }
            }
            dependencies.push(step_dependencies.into_iter().collect::<Vec<_>>());
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        match sort_steps(&dependencies) {
            Ok(order) => Ok(Self { dependencies, order }),
            Err(cycle) => {
                let names: Vec<&str> = cycle.iter().map(|index| steps[*index].id.as_str()).collect();
                let message = format!("steps depend on each other in a circle: {}", names.join(" → "));
                Err(vec![Problem::error(format!("/steps/{}/depends_on", cycle[0]), message)])
            }
        }
    }

    /// Returns the dependencies of a step.
    pub(super) fn dependencies(&self, step: usize) -> &[usize] {
        &self.dependencies[step]
    }

    pub(super) fn order(&self) -> &[usize] {
        &self.order
    }

    pub(super) fn final_step(&self) -> usize {
        *self.order.last().expect("a graph has at least one step")
    }
}

/// Name of the graph's own input.
pub(super) const INPUT: &str = "input";

/// Records looked-up names.
#[derive(Default)]
struct StepReferences(RefCell<BTreeSet<String>>);

impl Lookup for StepReferences {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.borrow_mut().insert(name.to_owned());
        None
    }
}

fn referenced_names(input: &Value) -> BTreeSet<String> {
    let references = StepReferences::default();
    let _ = substitute::value(input, &references, true);
    references.0.into_inner()
}

/// Returns the steps in order, or a cycle, with its first step repeated at the end.
fn sort_steps(dependencies: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut order = Vec::with_capacity(dependencies.len());
    let mut placed = vec![false; dependencies.len()];
    while order.len() < dependencies.len() {
        let is_ready =
            |index: &usize| !placed[*index] && dependencies[*index].iter().all(|dependency| placed[*dependency]);
        match (0..dependencies.len()).find(is_ready) {
            Some(index) => {
                placed[index] = true;
                order.push(index);
            }
            None => return Err(find_cycle(dependencies, &placed)),
        }
    }
    Ok(order)
}

/// Finds a cycle among the unplaced steps. Each of them depends on another unplaced step.
fn find_cycle(dependencies: &[Vec<usize>], placed: &[bool]) -> Vec<usize> {
    let is_unplaced = |index: &usize| !placed[*index];
    let mut path: Vec<usize> = (0..dependencies.len()).find(is_unplaced).into_iter().collect();
    while let Some(next) = path.last().and_then(|last| dependencies[*last].iter().copied().find(is_unplaced)) {
        if let Some(start) = path.iter().position(|visited| *visited == next) {
            let mut cycle = path.split_off(start);
            cycle.push(next);
            return cycle;
        }
        path.push(next);
    }
    path
}
