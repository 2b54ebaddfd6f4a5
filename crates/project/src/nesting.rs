//! Graphs that call graphs: limits their depth, and rejects cycles.

use std::collections::{BTreeMap, BTreeSet};

use steplatch_nodes::NodeKind;
use steplatch_nodes::graph::Graph;

use super::project::NodeDeclaration;

/// Maximum nesting depth of graphs.
const MAX_LEVELS: usize = 16;

/// Returns the nodes that a graph may call, each with the place of its step.
pub fn calls(graph: &Graph) -> impl Iterator<Item = (usize, &str)> {
    graph.steps().iter().enumerate().flat_map(|(index, step)| {
        let called = [Some(&step.node), step.on_error.fallback()];
        called.into_iter().flatten().map(move |node| (index, node.as_str()))
    })
}

/// Returns the graphs that must not run because of what they call, by name, each with the reason.
pub(super) fn troubles(nodes: &BTreeMap<String, NodeDeclaration>) -> Vec<(String, String)> {
    let graphs: BTreeMap<&str, BTreeSet<&str>> = nodes
        .iter()
        .filter_map(|(name, declared)| match &declared.node.kind {
            NodeKind::Graph(graph) => Some((name.as_str(), calls(graph).map(|(_, called)| called).collect())),
            _ => None,
        })
        .collect();
    let called = |name: &str| graphs[name].iter().copied().filter(|called| graphs.contains_key(called));
    // In each round, a graph gets a level once its callees have one; graphs in a cycle never get one.
    let mut levels: BTreeMap<&str, usize> = BTreeMap::new();
    for level in 1.. {
        let ready = |name: &&str| !levels.contains_key(*name) && called(name).all(|called| levels.contains_key(called));
        let of_round: Vec<&str> = graphs.keys().copied().filter(ready).collect();
        if of_round.is_empty() {
            break;
        }
        levels.extend(of_round.into_iter().map(|name| (name, level)));
    }
    let trouble = |name: &str| match levels.get(name) {
        Some(level) if *level <= MAX_LEVELS => None,
        Some(level) => Some(format!("graphs are nested {level} deep in it; the limit is {MAX_LEVELS}")),
        None => {
            let next = |name: &str| called(name).find(|called| !levels.contains_key(called));
            let circle = circle(name, next);
            Some(format!("it calls graphs that call each other in a circle: {}", circle.join(" → ")))
        }
    };
    graphs.keys().filter_map(|name| Some(((*name).to_owned(), trouble(name)?))).collect()
}

/// Follows `next` from `name` until a name repeats, and returns the cycle.
fn circle<'n>(name: &'n str, next: impl Fn(&str) -> Option<&'n str>) -> Vec<&'n str> {
    let mut path = vec![name];
    while let Some(called) = next(path[path.len() - 1]) {
        if let Some(begin) = path.iter().position(|passed| *passed == called) {
            path.push(called);
            return path.split_off(begin);
        }
        path.push(called);
    }
    path
}
