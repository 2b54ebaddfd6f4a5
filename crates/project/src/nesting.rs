//! Nesting of graphs: limits its depth, and rejects cycles.

use std::collections::{BTreeMap, BTreeSet};

use steplatch_nodes::NodeKind;
use steplatch_nodes::graph::Graph;

use super::project::NodeDeclaration;

/// Maximum nesting depth of graphs.
const MAX_DEPTH: usize = 16;

/// Returns the nodes that a graph may call, each with the index of the calling step.
pub fn called_nodes(graph: &Graph) -> impl Iterator<Item = (usize, &str)> {
    graph.steps().iter().enumerate().flat_map(|(index, step)| {
        let called = [Some(&step.node), step.on_error.fallback()];
        called.into_iter().flatten().map(move |node| (index, node.as_str()))
    })
}

/// Returns the names of graphs that nest too deeply or in a cycle, with the reasons.
pub(super) fn nesting_errors(nodes: &BTreeMap<String, NodeDeclaration>) -> Vec<(String, String)> {
    let graphs: BTreeMap<&str, BTreeSet<&str>> = nodes
        .iter()
        .filter_map(|(name, declared)| match &declared.node.kind {
            NodeKind::Graph(graph) => Some((name.as_str(), called_nodes(graph).map(|(_, called)| called).collect())),
            _ => None,
        })
        .collect();
    let called = |name: &str| graphs[name].iter().copied().filter(|called| graphs.contains_key(called));
    // In each round, a graph gets a level once its callees have levels. Graphs in a cycle never get a level.
    let mut levels: BTreeMap<&str, usize> = BTreeMap::new();
    for level in 1.. {
        let is_ready =
            |name: &&str| !levels.contains_key(*name) && called(name).all(|called| levels.contains_key(called));
        let ranked: Vec<&str> = graphs.keys().copied().filter(is_ready).collect();
        if ranked.is_empty() {
            break;
        }
        levels.extend(ranked.into_iter().map(|name| (name, level)));
    }
    let nesting_error = |name: &str| match levels.get(name) {
        Some(level) if *level <= MAX_DEPTH => None,
        Some(level) => Some(format!("it nests graphs {level} levels deep; the limit is {MAX_DEPTH}")),
        None => {
            let next = |name: &str| called(name).find(|called| !levels.contains_key(called));
            let cycle = find_cycle(name, next);
            Some(format!("it calls graphs that form a cycle: {}", cycle.join(" → ")))
        }
    };
    graphs.keys().filter_map(|name| Some(((*name).to_owned(), nesting_error(name)?))).collect()
}

/// Follows `next` from `name` until a name repeats and returns the cycle.
fn find_cycle<'n>(name: &'n str, next: impl Fn(&str) -> Option<&'n str>) -> Vec<&'n str> {
    let mut path = vec![name];
    while let Some(called) = next(path[path.len() - 1]) {
        if let Some(start) = path.iter().position(|visited| *visited == called) {
            path.push(called);
            return path.split_off(start);
        }
        path.push(called);
    }
    path
}
