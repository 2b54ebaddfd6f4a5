//! The layers of a picture: the layer of each state, and the order within a layer.
//!
//! Back edges lead to a state on the current search path. Without them there is no cycle, and each state is below all
//! states that lead to it.

use std::collections::BTreeSet;

/// Number of times that the order within layers is improved, from the top and from below.
const SWEEPS: usize = 6;

/// The layers of a picture, from the top: the numbers of states, from the left.
#[derive(Debug)]
pub(super) struct Layers {
    pub(super) rows: Vec<Vec<usize>>,
    /// The layer of each state.
    pub(super) layer_of: Vec<usize>,
    /// True for each state that the initial one reaches.
    pub(super) reached: Vec<bool>,
}

/// Arranges states by the states that each leads to. The picture begins with `initial`.
pub(super) fn assign_layers(targets: &[Vec<usize>], initial: usize) -> Layers {
    let count = targets.len();
    let (finished, back, reached) = search(targets, initial);
    // A state is finished after all of its targets, without back edges. So in reverse, it precedes its targets.
    let mut layer_of = vec![0; count];
    for &from in finished.iter().rev() {
        for &to in targets[from].iter().filter(|to| !back.contains(&(from, **to))) {
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
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        let order: Vec<usize> =
            if down { (1..rows.len()).collect() } else { (0..rows.len().saturating_sub(1)).rev().collect() };
        for layer in order {
            let neighbour_row = if down { layer - 1 } else { layer + 1 };
            let links = if down { &sources } else { targets };
            let positions = middle_positions(&rows[layer], &rows[neighbour_row], links);
            let mut positioned: Vec<(f64, usize)> = positions.into_iter().zip(rows[layer].iter().copied()).collect();
            // A stable sort: a state without a preferred position keeps its position.
            positioned.sort_by(|a, b| a.0.total_cmp(&b.0));
            rows[layer] = positioned.into_iter().map(|(_, state)| state).collect();
        }
    }
    Layers { rows, layer_of, reached }
}

/// Returns for each state of a row the mean position of the states in another row that are linked to it.
#[allow(clippy::cast_precision_loss, reason = "a machine has at most a hundred states")]
fn middle_positions(row: &[usize], other_row: &[usize], links: &[Vec<usize>]) -> Vec<f64> {
    let position = |(own_position, state): (usize, &usize)| {
        let linked = links[*state].iter().filter_map(|link| other_row.iter().position(|other| other == link));
        let (sum, count) = linked.fold((0.0, 0.0), |(sum, count), position| (sum + position as f64, count + 1.0));
        if count == 0.0 { own_position as f64 } else { sum / count }
    };
    row.iter().enumerate().map(position).collect()
}

/// Searches depth first, from the initial state and then from the states that it does not reach. Returns the states in
/// the order in which they are finished, the back edges, and the states that the initial one reaches.
fn search(targets: &[Vec<usize>], initial: usize) -> (Vec<usize>, BTreeSet<(usize, usize)>, Vec<bool>) {
    let count = targets.len();
    let (mut visited, mut on_path) = (vec![false; count], vec![false; count]);
    let (mut finished, mut back) = (Vec::new(), BTreeSet::new());
    let mut reached = vec![false; count];
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
                    back.insert((state, to));
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
            reached.clone_from(&visited);
        }
    }
    (finished, back, reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_stands_below_all_that_lead_to_it_but_for_ways_back() {
        // 0 → 1 → 2 → 3, 0 → 3, 2 → 1 back, 3 → 3 to itself; nothing leads to 4.
        let layers = assign_layers(&[vec![1, 3], vec![2], vec![3, 1], vec![3], vec![2]], 0);
        assert_eq!(layers.layer_of, [0, 1, 2, 3, 0]);
        assert_eq!(layers.reached, [true, true, true, true, false]);
        assert_eq!(layers.rows.iter().map(Vec::len).sum::<usize>(), 5);
    }

    #[test]
    fn rows_are_ordered_by_what_leads_there() {
        let layers = assign_layers(&[vec![1, 2], vec![4], vec![3], vec![], vec![]], 0);
        let place = |row: usize, state: usize| layers.rows[row].iter().position(|other| *other == state);
        assert_eq!(place(1, 1) < place(1, 2), place(2, 4) < place(2, 3), "lines do not cross: {:?}", layers.rows);
    }
}
