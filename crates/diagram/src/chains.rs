//! Chains of states as one card each, for the overview of a large machine.

use super::cards::{Card, Kind, Line, Row, RowTarget, targets};

/// Minimum number of states to join into one card.
const MIN_CHAIN_STATES: usize = 3;

/// Joins each chain of states into one card. Returns the cards and the number of the initial card; `None` without a
/// chain.
///
/// In a chain, each state but the last leads only to the next state, and no other state leads there. The full name of
/// the card has a line for each state. Gates, nested runs and states that may complete a run keep their own cards.
pub(super) fn join_chains(cards: Vec<Card>, initial: usize) -> Option<(Vec<Card>, usize)> {
    let next_states: Vec<Option<usize>> = (0..cards.len()).map(|state| next_in_chain(&cards, state, initial)).collect();
    // A cycle of inner states only has no head.
    let heads = (0..cards.len()).filter(|state| !next_states.contains(&Some(*state)));
    let chains = heads.map(|head| std::iter::successors(Some(head), |state| next_states[*state]).collect::<Vec<_>>());
    let chains: Vec<Vec<usize>> = chains.filter(|chain| chain.len() >= MIN_CHAIN_STATES).collect();
    if chains.is_empty() {
        return None;
    }
    let singles = (0..cards.len()).filter(|state| !chains.iter().flatten().any(|joined| joined == state));
    let groups: Vec<Vec<usize>> = singles.map(|state| vec![state]).chain(chains.iter().cloned()).collect();
    let group_of = |state: usize| groups.iter().position(|group| group.contains(&state)).unwrap_or(0);
    let joined = groups.iter().map(|group| {
        let states: Vec<&Card> = group.iter().map(|state| &cards[*state]).collect();
        let mut card = join(&states);
        for row in &mut card.rows {
            if let RowTarget::To { state, .. } = &mut row.target {
                *state = group_of(*state);
            }
        }
        card
    });
    Some((joined.collect(), group_of(initial)))
}

/// Returns the card of a chain, or a copy of the only card.
fn join(states: &[&Card]) -> Card {
    let [first, .., last] = states else { return states[0].clone() };
    let mut rows = last.rows.clone();
    if states.iter().any(|card| has_failure(card)) && !has_failure(last) {
        rows.push(Row { line: Line::new("a failed state: fails"), target: RowTarget::Fails });
    }
    let displayed = Line::new(&format!("{} … {}", first.name.displayed, last.name.displayed)).displayed;
    let names: Vec<&str> = states.iter().map(|card| card.name.full()).collect();
    let name = Line { displayed, full_text: Some(names.join("\n")) };
    Card::new(name, Line::new(&format!("{} states", states.len())), Kind::Plain, rows)
}

/// Returns the next state of a chain, if the state and the next one belong to the same chain.
fn next_in_chain(cards: &[Card], state: usize, initial: usize) -> Option<usize> {
    let [next] = targets(&cards[state])[..] else { return None };
    let may_complete = cards[state].rows.iter().any(|row| row.target == RowTarget::Completes);
    let is_plain = [state, next].iter().all(|state| cards[*state].kind == Kind::Plain);
    let sources = cards.iter().filter(|card| targets(card).contains(&next)).count();
    (is_plain && !may_complete && next != state && next != initial && sources == 1).then_some(next)
}

fn has_failure(card: &Card) -> bool {
    card.rows.iter().any(|row| row.target == RowTarget::Fails)
}
