//! The landings: the end positions of lines on their target card.

use super::super::cards::Card;
use super::super::layers::Layers;
use super::{Bundle, Course, LineCoordinates, Side, TRACK_SPACING, coordinates_of};

/// Distributes the lines to each card over its upper edge, in the order of their sources from the left.
pub(super) fn place_landings(bundles: &mut [Bundle], cards: &[Card], left: &[f64]) {
    for (to, card) in cards.iter().enumerate() {
        let source_x = |bundle: &Bundle| match bundle.course {
            Course::Back => f64::NEG_INFINITY,
            Course::Ahead => f64::INFINITY,
            Course::Loop if bundle.side == Side::Left => f64::MIN,
            Course::Loop => f64::MAX,
            Course::Next => left[bundle.from] + cards[bundle.from].width / 2.0,
        };
        let mut incoming: Vec<&mut Bundle> = bundles.iter_mut().filter(|bundle| bundle.to == to).collect();
        incoming.sort_by(|a, b| source_x(a).total_cmp(&source_x(b)));
        let count = incoming.len();
        // The first line that comes straight from above ends in the middle, and remains straight.
        let middle = count / 2;
        let is_straight = |bundle: &Bundle| {
            bundle.side == Side::Below
                && (left[bundle.from] + cards[bundle.from].width / 2.0 - left[to] - card.width / 2.0).abs() < 2.0
        };
        let straight_index = incoming.iter().position(|bundle| is_straight(bundle));
        for (index, bundle) in incoming.into_iter().enumerate() {
            #[allow(clippy::cast_precision_loss, reason = "at most a hundred states lead to one")]
            let share = |part: usize, total: usize| part as f64 / total as f64;
            bundle.landing = match straight_index {
                Some(straight_index) if index == straight_index => 0.5,
                Some(straight_index) if index < straight_index => 0.5 * share(index + 1, straight_index + 1),
                Some(straight_index) => 0.5 + 0.5 * share(index - straight_index, count - straight_index),
                None if count % 2 == 1 && index == middle => 0.5,
                None => share(index + 1, count + 1),
            };
        }
    }
}

/// Moves the landing of a line that is nearly below its exit to the position below it, unless another line is there.
pub(super) fn straighten(bundles: &mut [Bundle], cards: &[Card], left: &[f64]) {
    let coordinates = |bundle: &Bundle| coordinates_of(bundle, cards, left, (0.0, 0.0));
    for index in 0..bundles.len() {
        let bundle = &bundles[index];
        let (LineCoordinates { exit, landing, .. }, card) = (coordinates(bundle), &cards[bundle.to]);
        let on_card = left[bundle.to] + TRACK_SPACING < exit && exit < left[bundle.to] + card.width - TRACK_SPACING;
        let mut other_bundles =
            bundles.iter().enumerate().filter(|(other, other_bundle)| *other != index && other_bundle.to == bundle.to);
        if bundle.course == Course::Next
            && on_card
            && (exit - landing).abs() < 2.0 * TRACK_SPACING
            && other_bundles.all(|(_, other)| (coordinates(other).landing - exit).abs() >= TRACK_SPACING)
        {
            bundles[index].landing = (exit - left[bundles[index].to]) / card.width;
        }
    }
}

/// Moves a landing if another line leaves the layer above at the same position: the two lines would look like one.
pub(super) fn separate_landings(bundles: &mut [Bundle], cards: &[Card], layers: &Layers, left: &[f64]) {
    for index in 0..bundles.len() {
        let coordinates = |bundle: &Bundle| coordinates_of(bundle, cards, left, (0.0, 0.0));
        let to = bundles[index].to;
        let (begin, width, landing) = (left[to], cards[to].width, coordinates(&bundles[index]).landing);
        let others = || bundles.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, other)| other);
        let is_from_above =
            |other: &&Bundle| layers.layer_of[other.from] + 1 == layers.layer_of[to] && other.course != Course::Loop;
        let exits: Vec<f64> = others().filter(is_from_above).map(|other| coordinates(other).exit).collect();
        let landings: Vec<f64> =
            others().filter(|other| other.to == to).map(|other| coordinates(other).landing).collect();
        // Try half the distance, too, because a card with many landings may have little room.
        let find_free = |distance: f64| {
            let on_card = |x: &f64| begin + TRACK_SPACING / 2.0 < *x && *x < begin + width - TRACK_SPACING / 2.0;
            let steps = [0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5].map(|step| landing + step * distance);
            let is_apart =
                |x: &f64| exits.iter().chain(&landings).all(|occupied| (occupied - x).abs() >= distance / 2.0 - 0.5);
            steps.into_iter().filter(on_card).find(is_apart)
        };
        if let Some(x) = find_free(TRACK_SPACING).or_else(|| find_free(TRACK_SPACING / 2.0)) {
            bundles[index].landing = (x - begin) / width;
        }
    }
}
