//! The bundles of transitions that share a line, and the side of the card for that line.

use super::super::cards::{Card, RowTarget};
use super::super::layers::Layers;
use super::{Bundle, Course, Side};

/// Gathers the transitions between each pair of states and chooses the side of the card for their line.
pub(super) fn gather_bundles(cards: &[Card], layers: &Layers, left: &[f64]) -> Vec<Bundle> {
    let middle = |state: usize| left[state] + cards[state].width / 2.0;
    let mut bundles: Vec<Bundle> = Vec::new();
    for (from, card) in cards.iter().enumerate() {
        let begin = bundles.len();
        for (row, target) in card.rows.iter().map(|row| row.target).enumerate() {
            let RowTarget::To { state: to, is_timeout } = target else { continue };
            if let Some(bundle) = bundles[begin..].iter_mut().find(|bundle| bundle.to == to) {
                bundle.rows.push((row, is_timeout));
                continue;
            }
            let course = match (layers.layer_of[from], layers.layer_of[to]) {
                _ if from == to => Course::Loop,
                (source, target) if target == source + 1 => Course::Next,
                (source, target) if target > source => Course::Ahead,
                _ => Course::Back,
            };
            let to_left = course == Course::Back || (course == Course::Next && middle(to) < middle(from) - 1.0);
            let side = if to_left { Side::Left } else { Side::Right };
            bundles.push(Bundle {
                from,
                to,
                rows: vec![(row, is_timeout)],
                side,
                course,
                port: 0,
                landing: 0.5,
                lane: 0,
            });
        }
        // The only line of a card leaves below, so that a chain of states forms a straight line.
        if let [bundle] = &mut bundles[begin..]
            && bundle.course == Course::Next
            && bundle.rows.len() == 1
        {
            bundle.side = Side::Below;
        }
        choose_loop_side(&mut bundles[begin..]);
    }
    bundles
}

/// Chooses the side for a card's loop: the side with fewer crossed lines of the rows above.
fn choose_loop_side(bundles: &mut [Bundle]) {
    let Some(index) = bundles.iter().position(|bundle| bundle.course == Course::Loop) else { return };
    let last = bundles[index].rows.iter().map(|(row, _)| *row).max();
    let crossing_count = |side: Side| {
        let others = bundles.iter().enumerate().filter(|(other, bundle)| *other != index && bundle.side == side);
        others.flat_map(|(_, bundle)| &bundle.rows).filter(|(row, _)| Some(*row) < last).count()
    };
    let has_others =
        |side: Side| bundles.iter().enumerate().any(|(other, bundle)| other != index && bundle.side == side);
    let to_left =
        (crossing_count(Side::Left), has_others(Side::Left)) < (crossing_count(Side::Right), has_others(Side::Right));
    bundles[index].side = if to_left { Side::Left } else { Side::Right };
}

/// Numbers the lines on each side of each card and returns the numbers of ports on the left and on the right; a loop has two.
pub(super) fn number_ports(bundles: &mut [Bundle], card_count: usize) -> Vec<(usize, usize)> {
    let mut ports = vec![(0, 0); card_count];
    // From the last row upwards: the line of an upper row runs outside the lines of lower rows and crosses none of them.
    for bundle in bundles.iter_mut().rev() {
        let (left, right) = &mut ports[bundle.from];
        let count = match bundle.side {
            Side::Left => left,
            Side::Right => right,
            Side::Below => continue,
        };
        bundle.port = *count;
        // A loop runs between two ports, so it takes both ports to keep its distance from other lines.
        *count += if bundle.course == Course::Loop { 2 } else { 1 };
    }
    ports
}
