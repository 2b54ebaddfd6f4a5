//! The layers of a picture: the layer of each state, and the order within a layer.
//!
//! A back edge leads to a state on the current search path. Without back edges there is no cycle, and each state is
//! below all states that lead to it.

use std::collections::BTreeSet;

/// Number of passes that improve the order within layers, downwards and upwards in turn.
const SWEEP_COUNT: usize = 6;

/// The layers of a picture.
#[derive(Debug)]
pub(super) struct Layers {
    /// The numbers of the states of each layer, from the left; the top layer first.
    pub(super) rows: Vec<Vec<usize>>,
    /// The layer of each state.
    pub(super) layer_of: Vec<usize>,
    /// True for each state that is reachable from the initial state.
    pub(super) reachable: Vec<bool>,
}

/// Arranges states in layers; `targets` has the states that each state leads to. The search begins at `initial`.
pub(super) fn assign_layers(targets: &[Vec<usize>], initial: usize) -> Layers {
    let count = targets.len();
    let (finished, back_edges, reachable) = search(targets, initial);
    // Without back edges, a state is finished after all of its targets, so in reverse order the state precedes its
    // targets.
    let mut layer_of = vec![0; count];
    for &from in finished.iter().rev() {
        for &to in targets[from].iter().filter(|to| !back_edges.contains(&(from, **to))) {
            layer_of[to] = layer_of[to].max(layer_of[from] + 1);
        }
    }
    let deepest = layer_of.iter().copied().max().unwrap_or(0);
    let mut rows = vec![Vec::new(); deepest + 1];
    for &state in finished.iter().rev() {
        rows[layer_of[state]].push(state);
    }
    let mut sources = vec![Vec::new(); count];
    for (from, to) in targets.iter().enumerate().flat_map(|(from, to)| to.iter().map(move |to| (from, *to))) {
        sources[to].push(from);
    }
    for sweep in 0..SWEEP_COUNT {
        let is_downward = sweep % 2 == 0;
        let order: Vec<usize> =
            if is_downward { (1..rows.len()).collect() } else { (0..rows.len().saturating_sub(1)).rev().collect() };
        for layer in order {
            let neighbour_row = if is_downward { layer - 1 } else { layer + 1 };
            let links = if is_downward { &sources } else { targets };
            let positions = mean_positions(&rows[layer], &rows[neighbour_row], links);
            let mut positioned: Vec<(f64, usize)> = positions.into_iter().zip(rows[layer].iter().copied()).collect();
            // A stable sort: a state without a preferred position keeps its position.
            positioned.sort_by(|a, b| a.0.total_cmp(&b.0));
            rows[layer] = positioned.into_iter().map(|(_, state)| state).collect();
        }
    }
    Layers { rows, layer_of, reachable }
}

/// Returns, for each state of a row, the mean position of its linked states in another row.
#[allow(clippy::cast_precision_loss, reason = "a machine has at most a hundred states")]
fn mean_positions(row: &[usize], other_row: &[usize], links: &[Vec<usize>]) -> Vec<f64> {
    let position = |(own_position, state): (usize, &usize)| {
        let linked = links[*state].iter().filter_map(|link| other_row.iter().position(|other| other == link));
        let (sum, count) = linked.fold((0.0, 0.0), |(sum, count), position| (sum + position as f64, count + 1.0));
        if count == 0.0 { own_position as f64 } else { sum / count }
    };
    row.iter().enumerate().map(position).collect()
}

/// Searches depth first, from the initial state and then from the unreached states. Returns the states in their
/// finishing order, the back edges, and true for each state that the initial state reaches.
fn search(targets: &[Vec<usize>], initial: usize) -> (Vec<usize>, BTreeSet<(usize, usize)>, Vec<bool>) {
    let count = targets.len();
    let (mut visited, mut on_path) = (vec![false; count], vec![false; count]);
    let (mut finished, mut back_edges) = (Vec::new(), BTreeSet::new());
    let mut reachable = vec![false; count];
    for (root_index, root) in std::iter::once(initial).chain(0..count).enumerate() {
        if root >= count || visited[root] {
            continue;
        }
        visited[root] = true;
        on_path[root] = true;
        let mut path = vec![(root, 0)];
        while let Some((state, next)) = path.last_mut() {
            let state = *state;
            if let Some(&to) = targets[state].get(*next) {
                *next += 1;
                if on_path[to] {
                    back_edges.insert((state, to));
                } else if !visited[to] {
                    visited[to] = true;
                    on_path[to] = true;
                    path.push((to, 0));
                }
            } else {
                on_path[state] = false;
                finished.push(state);
                path.pop();
            }
        }
        if root_index == 0 {
            reachable.clone_from(&visited);
        }
    }
    (finished, back_edges, reachable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_below_its_predecessors_except_for_back_edges() {
        // 0 → 1 → 2 → 3, 0 → 3, 2 → 1 back, 3 → 3 to itself; state 4 has no predecessor.
        let layers = assign_layers(&[vec![1, 3], vec![2], vec![3, 1], vec![3], vec![2]], 0);
        assert_eq!(layers.layer_of, [0, 1, 2, 3, 0]);
        assert_eq!(layers.reachable, [true, true, true, true, false]);
        assert_eq!(layers.rows.iter().map(Vec::len).sum::<usize>(), 5);
    }

    #[test]
    fn rows_are_ordered_by_their_predecessors() {
        let layers = assign_layers(&[vec![1, 2], vec![4], vec![3], vec![], vec![]], 0);
        let position = |row: usize, state: usize| layers.rows[row].iter().position(|other| *other == state);
        assert_eq!(position(1, 1) < position(1, 2), position(2, 4) < position(2, 3), "lines cross: {:?}", layers.rows);
    }
}
