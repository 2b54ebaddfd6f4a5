//! The order of a graph's steps, derived from their dependencies.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use steplatch_workflow::substitute::{self, Lookup};
use steplatch_workflow::{Problem, suggestion};

use super::{MAX_STEPS, Step};

/// The order of the steps, by their places in the declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    before: Vec<Vec<usize>>,
    /// All steps, each after its dependencies; in declared order if that leaves a choice.
    order: Vec<usize>,
}

impl Plan {
    pub(super) fn from_steps(steps: &[Step]) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        if steps.is_empty() || steps.len() > MAX_STEPS {
            let message = format!("a graph has 1 to {MAX_STEPS} steps, not {}", steps.len());
            return Err(vec![Problem::error("/steps", message)]);
        }
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, step) in steps.iter().enumerate() {
            let pointer = format!("/steps/{index}/id");
            if step.id.as_str() == INPUT {
                problems.push(Problem::error(pointer, "a step cannot be called 'input', which is the graph's input"));
            } else if *places.entry(step.id.as_str()).or_insert(index) != index {
                problems.push(Problem::error(pointer, format!("two steps are called '{}'", step.id)));
            }
        }
        let mut before = Vec::with_capacity(steps.len());
        for (index, step) in steps.iter().enumerate() {
            let mut of_step = BTreeSet::new();
            for (position, dependency) in step.depends_on.iter().enumerate() {
                let pointer = format!("/steps/{index}/depends_on/{position}");
                match places.get(dependency.as_str()) {
                    Some(place) if *place == index => {
                        problems.push(Problem::error(pointer, format!("step '{}' depends on itself", step.id)));
                    }
                    Some(place) => drop(of_step.insert(*place)),
                    None => {
                        let nearest = suggestion(dependency.as_str(), places.keys().copied());
                        let message =
                            format!("step '{}' depends on '{dependency}', which does not exist{nearest}", step.id);
                        problems.push(Problem::error(pointer, message));
                    }
                }
            }
            for name in names_in(&step.input) {
                match places.get(name.as_str()) {
                    Some(place) if *place == index => {
                        let message = format!("step '{}' takes its own output as its input", step.id);
                        problems.push(Problem::error(format!("/steps/{index}/input"), message));
                    }
                    Some(place) => drop(of_step.insert(*place)),
                    // Braces have many uses; a name that is not a step stays unchanged.
                    None => {}
                }
            }
            before.push(of_step.into_iter().collect::<Vec<_>>());
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        match in_order(&before) {
            Ok(order) => Ok(Self { before, order }),
            Err(cycle) => {
                let names: Vec<&str> = cycle.iter().map(|index| steps[*index].id.as_str()).collect();
                let message = format!("steps depend on each other in a circle: {}", names.join(" → "));
                Err(vec![Problem::error(format!("/steps/{}/depends_on", cycle[0]), message)])
            }
        }
    }

    /// Returns the dependencies of a step.
    pub(super) fn before(&self, step: usize) -> &[usize] {
        &self.before[step]
    }

    pub(super) fn order(&self) -> &[usize] {
        &self.order
    }

    pub(super) fn last(&self) -> usize {
        *self.order.last().expect("a graph has a step")
    }
}

/// The name of the graph's own input.
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

fn names_in(input: &Value) -> BTreeSet<String> {
    let asked = StepReferences::default();
    let _ = substitute::value(input, &asked, true);
    asked.0.into_inner()
}

/// Returns the steps in order, or a cycle with its first step again at its end.
fn in_order(before: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut order = Vec::with_capacity(before.len());
    let mut placed = vec![false; before.len()];
    while order.len() < before.len() {
        let free = |index: &usize| !placed[*index] && before[*index].iter().all(|dependency| placed[*dependency]);
        match (0..before.len()).find(free) {
            Some(index) => {
                placed[index] = true;
                order.push(index);
            }
            None => return Err(circle(before, &placed)),
        }
    }
    Ok(order)
}

/// Finds a cycle among the unplaced steps: each of them depends on another one of them.
fn circle(before: &[Vec<usize>], placed: &[bool]) -> Vec<usize> {
    let open = |index: &usize| !placed[*index];
    let mut path: Vec<usize> = (0..before.len()).find(open).into_iter().collect();
    while let Some(next) = path.last().and_then(|last| before[*last].iter().copied().find(open)) {
        if let Some(begin) = path.iter().position(|seen| *seen == next) {
            let mut circle = path.split_off(begin);
            circle.push(next);
            return circle;
        }
        path.push(next);
    }
    path
}
