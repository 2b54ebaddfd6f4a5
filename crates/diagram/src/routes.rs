//! The positions of cards and the routes of the lines between them.
//!
//! A line leaves a card next to the row of its transition, or below a card with a single row. The line goes down into
//! the gap between two layers, across on a track of that gap, and down onto its target card. A line over several layers
//! uses a lane next to all cards: backward lines on the left, forward lines on the right. So no line crosses a card,
//! and each of several parallel lines has its own track or lane.

mod bundles;
mod landings;

use std::collections::BTreeMap;

use super::cards::{Card, HEAD_HEIGHT, ROW_HEIGHT, RowTarget};
use super::layers::Layers;
use bundles::{gather_bundles, number_ports};
use landings::{place_landings, separate_landings, straighten};

/// Pixels between parallel lines.
const TRACK_SPACING: f64 = 10.0;
/// Pixels between a card and the nearest line on its left or right.
const CARD_MARGIN: f64 = 14.0;
/// Pixels between a card and the nearest track above or below it.
const GAP_PADDING: f64 = 18.0;
/// Pixels around the picture.
const PICTURE_MARGIN: f64 = 24.0;

/// A picture: the corners of the cards, and the lines.
#[derive(Debug)]
pub(super) struct Plan {
    /// The upper left corner of each card.
    pub(super) corners: Vec<(f64, f64)>,
    pub(super) lines: Vec<Route>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A line, and the short lines that join it from further rows of the card.
#[derive(Debug)]
pub(super) struct Route {
    /// The corners of the line, from its card to its target card.
    pub(super) points: Vec<(f64, f64)>,
    /// The short lines of further rows, each from its row to the line.
    pub(super) stubs: Vec<Stub>,
    /// True if a run takes the line only on a time-out.
    pub(super) is_timeout: bool,
}

/// A short line from a row to the line that it joins.
#[derive(Debug)]
pub(super) struct Stub {
    pub(super) from: (f64, f64),
    pub(super) to: (f64, f64),
    /// True if a run takes the line on a time-out.
    pub(super) is_timeout: bool,
}

/// All transitions from one state to another. They share a line.
struct Bundle {
    from: usize,
    to: usize,
    /// The indexes of the rows, each with true if its condition is a time-out.
    rows: Vec<(usize, bool)>,
    side: Side,
    course: Course,
    /// Index of the line on its side of the card, from the inside.
    port: usize,
    /// Position of the line's end on its target, from 0 to 1 of the target's width.
    landing: f64,
    /// Index of the lane, from the inside.
    lane: usize,
}

/// A line's side of its card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
    Below,
}

/// The direction of a line between layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    /// To the next layer.
    Next,
    /// To the same state.
    Loop,
    /// To the same layer or a higher one, along the left.
    Back,
    /// To a layer below the next one, along the right.
    Ahead,
}

#[allow(clippy::cast_precision_loss, reason = "counts of lines, of which there are at most a few thousand")]
fn pixels(count: usize) -> f64 {
    count as f64 * TRACK_SPACING
}

/// Places the cards and routes the lines.
pub(super) fn plan(cards: &[Card], layers: &Layers) -> Plan {
    let rough_left = card_positions(cards, layers, &vec![(0, 0); cards.len()]);
    let mut bundles = gather_bundles(cards, layers, &rough_left);
    let ports = number_ports(&mut bundles, cards.len());
    let left_positions = card_positions(cards, layers, &ports);
    place_landings(&mut bundles, cards, &left_positions);
    straighten(&mut bundles, cards, &left_positions);
    separate_landings(&mut bundles, cards, layers, &left_positions);
    let lanes = [Course::Back, Course::Ahead].map(|course| assign_lanes(&mut bundles, layers, course));

    let edge_of = |state: usize| {
        (
            left_positions[state] - pixels(ports[state].0) - CARD_MARGIN,
            left_positions[state] + cards[state].width + pixels(ports[state].1) + CARD_MARGIN,
        )
    };
    let picture_left = (0..cards.len()).map(|state| edge_of(state).0).fold(f64::INFINITY, f64::min);
    let picture_right = (0..cards.len()).map(|state| edge_of(state).1).fold(f64::NEG_INFINITY, f64::max);

    // All horizontal parts are in gaps. Gap 0 is above the first layer, gap n below the nth layer.
    let mut crossings: Vec<Vec<(f64, f64, usize, bool)>> = vec![Vec::new(); layers.rows.len() + 1];
    let line_coordinates: Vec<LineCoordinates> = bundles
        .iter()
        .map(|bundle| coordinates_of(bundle, cards, &left_positions, (picture_left, picture_right)))
        .collect();
    for (index, (bundle, coordinates)) in bundles.iter().zip(&line_coordinates).enumerate() {
        let (below, above) = (layers.layer_of[bundle.from] + 1, layers.layer_of[bundle.to]);
        match bundle.course {
            Course::Next => crossings[below].push((coordinates.exit, coordinates.landing, index, false)),
            Course::Loop => crossings[above].push((coordinates.exit, coordinates.landing, index, true)),
            Course::Back | Course::Ahead => {
                crossings[below].push((coordinates.exit, coordinates.lane, index, false));
                crossings[above].push((coordinates.lane, coordinates.landing, index, true));
            }
        }
    }
    let mut tracks = BTreeMap::new();
    let counts: Vec<usize> =
        crossings.iter().enumerate().map(|(gap, crossings)| assign_tracks(gap, crossings, &mut tracks)).collect();

    let (mut gaps, mut tops, mut y) = (Vec::new(), Vec::new(), PICTURE_MARGIN + 20.0);
    for (layer, row) in layers.rows.iter().enumerate() {
        gaps.push(y);
        y += 2.0 * GAP_PADDING + pixels(counts[layer]);
        tops.push(y);
        y += row.iter().map(|state| cards[*state].height).fold(0.0, f64::max);
    }
    gaps.push(y);
    let last = counts.last().copied().unwrap_or(0);
    let height = y + PICTURE_MARGIN + if last == 0 { 0.0 } else { GAP_PADDING + pixels(last) };

    let shift = PICTURE_MARGIN + pixels(lanes[0]) + TRACK_SPACING - picture_left;
    let corners: Vec<(f64, f64)> =
        left_positions.iter().enumerate().map(|(state, left)| (left + shift, tops[layers.layer_of[state]])).collect();
    let track_y = |gap: usize, index: usize, into: bool| {
        gaps[gap] + GAP_PADDING + pixels(tracks.get(&(gap, index, into)).copied().unwrap_or(0))
    };
    let lines = bundles.iter().zip(&line_coordinates).enumerate().map(|(index, (bundle, coordinates))| {
        let (below, above) = (layers.layer_of[bundle.from] + 1, layers.layer_of[bundle.to]);
        let (exit, lane, landing) = (coordinates.exit + shift, coordinates.lane + shift, coordinates.landing + shift);
        let (card, corner) = (&cards[bundle.from], corners[bundle.from]);
        let row_y = |row: usize| corner.1 + HEAD_HEIGHT + ROW_HEIGHT * (0.5 + row_number(row));
        let row_x = if bundle.side == Side::Left { corner.0 } else { corner.0 + card.width };
        // A loop begins at its lowest row, so that the line passes its other rows.
        let main_row = if bundle.course == Course::Loop { bundle.rows.len() - 1 } else { 0 };
        let begin_y = row_y(bundle.rows[main_row].0);
        let mut points = match bundle.side {
            Side::Below => vec![(exit, corner.1 + card.height)],
            Side::Left | Side::Right => vec![(row_x, begin_y), (exit, begin_y)],
        };
        match bundle.course {
            Course::Next => {
                let y = track_y(below, index, false);
                points.extend([(exit, y), (landing, y)]);
            }
            Course::Loop => {
                let y = track_y(above, index, true);
                points.extend([(exit, y), (landing, y)]);
            }
            Course::Back | Course::Ahead => {
                let (out, into) = (track_y(below, index, false), track_y(above, index, true));
                points.extend([(exit, out), (lane, out), (lane, into), (landing, into)]);
            }
        }
        points.push((landing, corners[bundle.to].1));
        let stub = |(row, is_timeout): &(usize, bool)| Stub {
            from: (row_x, row_y(*row)),
            to: (exit, row_y(*row)),
            is_timeout: *is_timeout,
        };
        let stubs = bundle.rows.iter().enumerate().filter(|(index, _)| *index != main_row).map(|(_, row)| stub(row));
        // The line is dashed if the condition of each row is a time-out.
        let is_timeout = bundle.rows.iter().all(|(_, is_timeout)| *is_timeout);
        Route { points, stubs: stubs.collect(), is_timeout }
    });
    let lines = lines.collect();
    Plan { corners, lines, width: picture_right + shift + pixels(lanes[1]) + TRACK_SPACING + PICTURE_MARGIN, height }
}

#[allow(clippy::cast_precision_loss, reason = "a state has at most twenty-two rows")]
fn row_number(row: usize) -> f64 {
    row as f64
}

/// The horizontal positions of the vertical parts of a line: at its card, at its target, and in its lane.
struct LineCoordinates {
    exit: f64,
    landing: f64,
    lane: f64,
}

fn coordinates_of(
    bundle: &Bundle,
    cards: &[Card],
    left: &[f64],
    (picture_left, picture_right): (f64, f64),
) -> LineCoordinates {
    let (card_left, card) = (left[bundle.from], &cards[bundle.from]);
    // A loop runs halfway between the ports of other lines.
    let loop_offset = if bundle.course == Course::Loop { TRACK_SPACING / 2.0 } else { 0.0 };
    let exit = match bundle.side {
        Side::Left => card_left - CARD_MARGIN - pixels(bundle.port) - loop_offset,
        Side::Right => card_left + card.width + CARD_MARGIN + pixels(bundle.port) + loop_offset,
        Side::Below => card_left + card.width / 2.0,
    };
    let lane = match bundle.course {
        Course::Back => picture_left - pixels(bundle.lane + 1),
        Course::Next | Course::Loop | Course::Ahead => picture_right + pixels(bundle.lane + 1),
    };
    LineCoordinates { exit, landing: left[bundle.to] + cards[bundle.to].width * bundle.landing, lane }
}

/// Returns the left edge of each card. `ports` has the number of lines on the left and on the right of each card.
fn card_positions(cards: &[Card], layers: &Layers, ports: &[(usize, usize)]) -> Vec<f64> {
    let mut left = vec![0.0; cards.len()];
    let spacing = |count: usize| if count == 0 { CARD_MARGIN } else { 2.0 * CARD_MARGIN + pixels(count) };
    let mut middles: Vec<Option<f64>> = vec![None; cards.len()];
    for (layer, row) in layers.rows.iter().enumerate() {
        // The ideal position of a card is below the middle of the cards that lead to it.
        let ideal_middles: Vec<Option<f64>> = row
            .iter()
            .map(|state| {
                let leads_here = |other: &usize| {
                    cards[*other]
                        .rows
                        .iter()
                        .any(|row| matches!(row.target, RowTarget::To { state: to, .. } if to == *state))
                };
                let above = layers.rows[..layer].last().into_iter().flatten().filter(|other| leads_here(other));
                let middles_above: Vec<f64> = above.filter_map(|other| middles[*other]).collect();
                #[allow(clippy::cast_precision_loss, reason = "a machine has at most a hundred states")]
                (!middles_above.is_empty()).then(|| middles_above.iter().sum::<f64>() / middles_above.len() as f64)
            })
            .collect();
        let mut next = f64::NEG_INFINITY;
        let mut shifts = Vec::new();
        for (state, ideal_middle) in row.iter().zip(&ideal_middles) {
            let width = cards[*state].width;
            let earliest = next + spacing(ports[*state].0);
            let x = match ideal_middle {
                Some(middle) => (middle - width / 2.0).max(earliest),
                None if next == f64::NEG_INFINITY => -width / 2.0,
                None => earliest,
            };
            shifts.extend(ideal_middle.map(|middle| middle - width / 2.0 - x));
            left[*state] = x;
            next = x + width + spacing(ports[*state].1);
        }
        #[allow(clippy::cast_precision_loss, reason = "a machine has at most a hundred states")]
        let shift = if shifts.is_empty() { 0.0 } else { shifts.iter().sum::<f64>() / shifts.len() as f64 };
        for state in row {
            left[*state] += shift;
            middles[*state] = Some(left[*state] + cards[*state].width / 2.0);
        }
    }
    left
}

/// Assigns a lane to each line of a course, with inner lanes for shorter lines. Returns the number of lanes.
fn assign_lanes(bundles: &mut [Bundle], layers: &Layers, course: Course) -> usize {
    let span = |bundle: &Bundle| {
        let (out, into) = (layers.layer_of[bundle.from] + 1, layers.layer_of[bundle.to]);
        (out.min(into), out.max(into))
    };
    let mut course_bundles: Vec<&mut Bundle> = bundles.iter_mut().filter(|bundle| bundle.course == course).collect();
    course_bundles.sort_by_key(|bundle| {
        let (top, bottom) = span(bundle);
        (bottom - top, top)
    });
    let mut lanes: Vec<Vec<(usize, usize)>> = Vec::new();
    for bundle in course_bundles {
        let (top, bottom) = span(bundle);
        let free = lanes.iter().position(|spans| spans.iter().all(|(from, to)| bottom < *from || *to < top));
        let lane = free.unwrap_or(lanes.len());
        if lane == lanes.len() {
            lanes.push(Vec::new());
        }
        lanes[lane].push((top, bottom));
        bundle.lane = lane;
    }
    lanes.len()
}

/// Assigns a track to each line across a gap. Returns the number of tracks.
fn assign_tracks(
    gap: usize,
    crossings: &[(f64, f64, usize, bool)],
    tracks: &mut BTreeMap<(usize, usize, bool), usize>,
) -> usize {
    let mut used_tracks: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut sorted: Vec<_> = crossings.to_vec();
    // Lines from above have the fewest crossings if the shorter lines turn first.
    sorted.sort_by(|a, b| (a.1 - a.0).abs().total_cmp(&(b.1 - b.0).abs()).then(a.2.cmp(&b.2)));
    for (start, end, index, into) in sorted {
        let (from, to) = (start.min(end), start.max(end));
        if to - from < 1.0 {
            // The line is straight.
            tracks.insert((gap, index, into), 0);
            continue;
        }
        let is_apart =
            |(begin, end): &(f64, f64)| to + TRACK_SPACING / 2.0 < *begin || *end + TRACK_SPACING / 2.0 < from;
        let track = used_tracks.iter().position(|track| track.iter().all(is_apart)).unwrap_or(used_tracks.len());
        if track == used_tracks.len() {
            used_tracks.push(Vec::new());
        }
        used_tracks[track].push((from, to));
        tracks.insert((gap, index, into), track);
    }
    used_tracks.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::cards::{Kind, Line, Row};
    use super::super::layers::assign_layers;
    use super::*;

    fn card(targets: &[usize]) -> Card {
        let line = || Line { displayed: "success".to_owned(), full_text: None };
        let target = |state: &usize| Row { line: line(), target: RowTarget::To { state: *state, is_timeout: false } };
        #[allow(clippy::cast_precision_loss, reason = "few rows")]
        let height = HEAD_HEIGHT + ROW_HEIGHT * targets.len() as f64 + 6.0;
        Card {
            name: line(),
            tool: line(),
            kind: Kind::Plain,
            rows: targets.iter().map(target).collect(),
            width: 140.0,
            height,
            is_reachable: true,
        }
    }

    /// Machines as the successors of each state, by number.
    fn machines() -> impl Strategy<Value = Vec<Vec<usize>>> {
        (1usize..30).prop_flat_map(|count| prop::collection::vec(prop::collection::vec(0..count, 0..6), count))
    }

    proptest! {
        #[test]
        fn cards_do_not_overlap_and_lines_avoid_them(targets in machines()) {
            let cards: Vec<Card> = targets.iter().map(|targets| card(targets)).collect();
            let plan = plan(&cards, &assign_layers(&targets, 0));
            let boxes: Vec<_> = plan.corners.iter().zip(&cards)
                .map(|((x, y), card)| (*x, *y, x + card.width, y + card.height)).collect();
            for (index, rectangle) in boxes.iter().enumerate() {
                prop_assert!(rectangle.0 >= 0.0 && rectangle.1 >= 0.0 && rectangle.2 <= plan.width && rectangle.3 <= plan.height);
                for other in &boxes[..index] {
                    prop_assert!(rectangle.2 < other.0 || other.2 < rectangle.0 || rectangle.3 < other.1 || other.3 < rectangle.1);
                }
            }
            for route in &plan.lines {
                for pair in route.points.windows(2) {
                    let ((x, y), (to_x, to_y)) = (pair[0], pair[1]);
                    prop_assert!((x - to_x).abs() < 0.01 || (y - to_y).abs() < 0.01, "lines are horizontal or vertical");
                    let (left, right, top, bottom) = (x.min(to_x), x.max(to_x), y.min(to_y), y.max(to_y));
                    prop_assert!(left >= 0.0 && right <= plan.width && top >= 0.0 && bottom <= plan.height);
                    for rectangle in &boxes {
                        // A line starts and ends by touching an edge.
                        let inside = left < rectangle.2 - 0.5 && right > rectangle.0 + 0.5 && top < rectangle.3 - 0.5 && bottom > rectangle.1 + 0.5;
                        prop_assert!(!inside, "{:?} goes through {:?}", pair, rectangle);
                    }
                }
            }
            // A line starts at a row, except the only line of its card.
            for route in &plan.lines {
                let (x, y) = route.points[0];
                let below = boxes.iter().position(|rectangle| rectangle.0 < x && x < rectangle.2 && (y - rectangle.3).abs() < 0.01);
                prop_assert!(below.is_none_or(|card| cards[card].rows.len() == 1), "{:?} begins below {:?}", route, below);
            }
            // Every stub meets its line.
            for route in &plan.lines {
                for stub in &route.stubs {
                    let met = route.points.windows(2).any(|pair| {
                        (pair[0].0 - stub.to.0).abs() < 0.01
                            && (pair[1].0 - stub.to.0).abs() < 0.01
                            && pair[0].1.min(pair[1].1) <= stub.to.1
                            && stub.to.1 <= pair[0].1.max(pair[1].1)
                    });
                    prop_assert!(met, "{:?} does not meet {:?}", stub, route);
                }
            }
            // Lines that leave the same card do not overlap, vertically or horizontally.
            let segments = |route: &Route| -> Vec<_> { route.points.windows(2).map(|pair| (pair[0], pair[1])).collect() };
            let leaves = |route: &Route| boxes.iter().position(|rectangle| {
                let (x, y) = route.points[0];
                rectangle.0 - 0.5 < x && x < rectangle.2 + 0.5 && rectangle.1 < y && y < rectangle.3 + 0.5
            });
            for (index, route) in plan.lines.iter().enumerate() {
                for other in plan.lines[..index].iter().filter(|other| leaves(other) == leaves(route)) {
                    for (a, b) in segments(route) {
                        for (c, d) in segments(other) {
                            let shared = |a: f64, b: f64, c: f64, d: f64| f64::min(a.max(b), c.max(d)) - f64::max(a.min(b), c.min(d));
                            let upright = a.0 == b.0 && c.0 == d.0 && (a.0 - c.0).abs() < 1.0 && shared(a.1, b.1, c.1, d.1) > 0.5;
                            let level = a.1 == b.1 && c.1 == d.1 && (a.1 - c.1).abs() < 1.0 && shared(a.0, b.0, c.0, d.0) > 0.5;
                            prop_assert!(!upright && !level, "{:?} runs along {:?}", (a, b), (c, d));
                        }
                    }
                }
            }
            let drawn: usize = plan.lines.iter().map(|route| 1 + route.stubs.len()).sum();
            prop_assert_eq!(drawn, targets.iter().map(Vec::len).sum::<usize>());
        }
    }
}
