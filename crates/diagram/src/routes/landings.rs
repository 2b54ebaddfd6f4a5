//! The landings: where lines come down on their target card.

use super::super::cards::Card;
use super::super::layers::Layers;
use super::{Across, Bundle, Course, Side, TRACK, across};

/// Spreads the lines that lead to a card over its upper edge, in the order in which they come from the left.
pub(super) fn land(bundles: &mut [Bundle], cards: &[Card], left: &[f64]) {
    for (to, card) in cards.iter().enumerate() {
        let comes_from = |bundle: &Bundle| match bundle.course {
            Course::Back => f64::NEG_INFINITY,
            Course::Ahead => f64::INFINITY,
            Course::Loop if bundle.side == Side::Left => f64::MIN,
            Course::Loop => f64::MAX,
            Course::Next => left[bundle.from] + cards[bundle.from].width / 2.0,
        };
        let mut incoming: Vec<&mut Bundle> = bundles.iter_mut().filter(|bundle| bundle.to == to).collect();
        incoming.sort_by(|one, other| comes_from(one).total_cmp(&comes_from(other)));
        let count = incoming.len();
        // A line straight from above stays straight, where the middle is not another's.
        let middle = count / 2;
        let straight = |bundle: &Bundle| {
            bundle.side == Side::Below
                && (left[bundle.from] + cards[bundle.from].width / 2.0 - left[to] - card.width / 2.0).abs() < 2.0
        };
        let at = incoming.iter().position(|bundle| straight(bundle));
        for (index, bundle) in incoming.into_iter().enumerate() {
            #[allow(clippy::cast_precision_loss, reason = "at most a hundred states lead to one")]
            let share = |part: usize, of: usize| part as f64 / of as f64;
            bundle.landing = match at {
                Some(at) if index == at => 0.5,
                Some(at) if index < at => 0.5 * share(index + 1, at + 1),
                Some(at) => 0.5 + 0.5 * share(index - at, count - at),
                None if count % 2 == 1 && index == middle => 0.5,
                None => share(index + 1, count + 1),
            };
        }
    }
}

/// Lets a line that comes down nearly below its exit come down there, where no other does.
pub(super) fn straighten(bundles: &mut [Bundle], cards: &[Card], left: &[f64]) {
    let place = |bundle: &Bundle| across(bundle, cards, left, (0.0, 0.0));
    for index in 0..bundles.len() {
        let bundle = &bundles[index];
        let (Across { exit, landing, .. }, card) = (place(bundle), &cards[bundle.to]);
        let on_card = left[bundle.to] + TRACK < exit && exit < left[bundle.to] + card.width - TRACK;
        let mut others = bundles.iter().enumerate().filter(|(other, of)| *other != index && of.to == bundle.to);
        if bundle.course == Course::Next
            && on_card
            && (exit - landing).abs() < 2.0 * TRACK
            && others.all(|(_, other)| (place(other).landing - exit).abs() >= TRACK)
        {
            bundles[index].landing = (exit - left[bundles[index].to]) / card.width;
        }
    }
}

/// Moves where a line comes down, if another leaves the layer above at the same place: they would look like one.
pub(super) fn step_aside(bundles: &mut [Bundle], cards: &[Card], layers: &Layers, left: &[f64]) {
    for index in 0..bundles.len() {
        let of = |bundle: &Bundle| across(bundle, cards, left, (0.0, 0.0));
        let to = bundles[index].to;
        let (begin, width, landing) = (left[to], cards[to].width, of(&bundles[index]).landing);
        let others = || bundles.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, other)| other);
        let from_above = |other: &&Bundle| layers.of[other.from] + 1 == layers.of[to] && other.course != Course::Loop;
        let exits: Vec<f64> = others().filter(from_above).map(|other| of(other).exit).collect();
        let landings: Vec<f64> = others().filter(|other| other.to == to).map(|other| of(other).landing).collect();
        // On a card where a crowd comes down there may be little room.
        let free = |air: f64| {
            let on_card = |at: &f64| begin + TRACK / 2.0 < *at && *at < begin + width - TRACK / 2.0;
            let steps = [0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5].map(|step| landing + step * air);
            let apart = |at: &f64| exits.iter().chain(&landings).all(|taken| (taken - at).abs() >= air / 2.0 - 0.5);
            steps.into_iter().filter(on_card).find(apart)
        };
        if let Some(at) = free(TRACK).or_else(|| free(TRACK / 2.0)) {
            bundles[index].landing = (at - begin) / width;
        }
    }
}
