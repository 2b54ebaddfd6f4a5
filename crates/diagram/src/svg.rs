//! The SVG picture of a machine.

use std::fmt::Write as _;

use steplatch_workflow::Definition;

use super::cards::{Card, HEAD_HEIGHT, Kind, Line, ROW_HEIGHT, RowTarget, cards, targets};
use super::chains::join_chains;
use super::layers::assign_layers;
use super::routes::{Plan, Route, Stub, plan};

/// The colours of the light and of the dark theme. Renderers without support for themes use the light one.
const STYLE: &str = "\
text{font:12px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#3d4450}\
.paper{fill:#fbfbfc}.card{fill:#fff;stroke:#8a94a6;stroke-width:1.2}.name{font-weight:bold;font-size:13px;fill:#14181f}\
.tool{fill:#5f6b7c}.rule{stroke:#d5dae2}.line{fill:none;stroke:#4a6fa5;stroke-width:1.4}.late{stroke:#b0622c;stroke-dasharray:5 4}\
.tip{fill:#4a6fa5}.latetip{fill:#b0622c}.mark{fill:#14181f}.ring{fill:none;stroke:#14181f;stroke-width:1.4}.cross{fill:none;stroke:#b3261e;stroke-width:2}.joint{fill:#4a6fa5}.latejoint{fill:#b0622c}\
.nested .card{fill:#eef6ef;stroke:#4f8a5b}.judged .card{fill:#fff7e0;stroke:#b48a1e}.side{stroke:#4f8a5b}.lost{opacity:.5}\
@media (prefers-color-scheme:dark){text{fill:#c3cad6}.paper{fill:#15181d}.card{fill:#1f242c;stroke:#5f6b7c}.name{fill:#f2f4f8}\
.tool{fill:#93a0b4}.rule{stroke:#363d49}.line{stroke:#7fa8e0}.late{stroke:#e09a5f}.tip{fill:#7fa8e0}.latetip{fill:#e09a5f}\
.mark{fill:#f2f4f8}.ring{stroke:#f2f4f8}.cross{stroke:#f2857c}.joint{fill:#7fa8e0}.latejoint{fill:#e09a5f}.nested .card{fill:#1b2a20;stroke:#6fb07c}.judged .card{fill:#2e2713;stroke:#d6ad45}.side{stroke:#6fb07c}}";

/// Returns a machine as a picture in SVG 1.1, without references to other files.
///
/// Each state is a card with its transitions, in the order of evaluation. A dot leads to the initial state. A ring
/// marks a row that may complete a run, and a cross marks a row that may fail it. A line begins at the row of its
/// transition, or below a card with a single row; rows with the same target join the line at a dot. Lines for time-outs
/// are dashed; backward lines go along the left. A state that runs another workflow has double sides, a state with a
/// gate has cut corners, and an unreachable state is pale.
///
/// Source of the format: <https://www.w3.org/TR/SVG11/>.
#[must_use]
pub fn svg(definition: &Definition) -> String {
    draw(definition, cards(definition), initial_state(definition))
}

/// Returns a machine as a picture with one card for each chain of states; `None` if the machine has no chain.
///
/// The title of such a card has the names of its states, one per line.
#[must_use]
pub fn collapsed_svg(definition: &Definition) -> Option<String> {
    let (cards, initial) = join_chains(cards(definition), initial_state(definition))?;
    Some(draw(definition, cards, initial))
}

/// Returns the number of the initial state.
fn initial_state(definition: &Definition) -> usize {
    definition.states().iter().position(|state| state.name() == definition.initial_state()).unwrap_or(0)
}

fn draw(definition: &Definition, mut cards: Vec<Card>, initial: usize) -> String {
    let targets: Vec<Vec<usize>> = cards.iter().map(targets).collect();
    let layers = assign_layers(&targets, initial);
    for (card, is_reachable) in cards.iter_mut().zip(&layers.reachable) {
        card.is_reachable = *is_reachable;
    }
    let plan = plan(&cards, &layers);
    let Plan { width, height, .. } = plan;
    let mut output = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\">\n"
    );
    if let Some(name) = definition.name() {
        let _ = writeln!(output, "<title>{}</title>", escaped(name.as_str()));
    }
    let _ = writeln!(output, "<style>{STYLE}</style>\n<defs>{}{}</defs>", arrowhead("tip"), arrowhead("latetip"));
    output.push_str("<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n");
    for route in &plan.lines {
        draw_line(&mut output, route);
    }
    if let (Some((x, y)), Some(card)) = (plan.corners.get(initial), cards.get(initial)) {
        draw_start(&mut output, (x + card.width / 2.0, card.width), *y, &plan);
    }
    for (card, corner) in cards.iter().zip(&plan.corners) {
        draw_card(&mut output, card, *corner);
    }
    output.push_str("</svg>\n");
    output
}

/// Returns the definition of an arrowhead.
fn arrowhead(class: &str) -> String {
    format!(
        "<marker id=\"{class}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
         markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"{class}\" d=\"M0 0.5L8 4L0 7.5z\"/></marker>"
    )
}

/// Draws the start of a run: a dot above the initial state, with a line to it.
fn draw_start(output: &mut String, (x, width): (f64, f64), top: f64, plan: &Plan) {
    // Lines from the left end left of this line and lines from the right end right of it, so that none cross.
    let (left, right) = (x - width / 2.0, x + width / 2.0);
    let (mut begin, mut end) = (left, right);
    for route in &plan.lines {
        if let [.., (from, _), _, (landing_x, y)] = route.points[..]
            && (y - top).abs() < 1.0
            && (left..=right).contains(&landing_x)
        {
            if from < landing_x {
                begin = f64::max(begin, landing_x);
            } else {
                end = f64::min(end, landing_x);
            }
        }
    }
    let x = f64::midpoint(begin, end);
    let _ = writeln!(output, "<circle class=\"mark\" cx=\"{x:.1}\" cy=\"16\" r=\"6\"/>");
    let _ = writeln!(output, "<path class=\"line\" marker-end=\"url(#tip)\" d=\"M{x:.1} 22V{top:.1}\"/>");
}

fn draw_line(output: &mut String, route: &Route) {
    let (class, tip) = if route.is_timeout { ("line late", "latetip") } else { ("line", "tip") };
    let _ =
        writeln!(output, "<path class=\"{class}\" marker-end=\"url(#{tip})\" d=\"{}\"/>", rounded_path(&route.points));
    for Stub { from, to, is_timeout } in &route.stubs {
        let (class, joint) = if *is_timeout { ("line late", "latejoint") } else { ("line", "joint") };
        let _ = writeln!(output, "<path class=\"{class}\" d=\"M{:.1} {:.1}H{:.1}\"/>", from.0, from.1, to.0);
        // A dot marks a joint; a crossing has no dot.
        let _ = writeln!(output, "<circle class=\"{joint}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>", to.0, to.1);
    }
}

/// Radius of the round corners of a line, in pixels.
const CORNER_RADIUS: f64 = 6.0;

/// Returns the path of a line through points, with round corners.
fn rounded_path(points: &[(f64, f64)]) -> String {
    // Drop the points without a turn of the line.
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for &point in points {
        let is_same = |left: f64, right: f64| (left - right).abs() < 0.5;
        if let [.., before, last] = corners[..]
            && ((is_same(before.0, last.0) && is_same(last.0, point.0))
                || (is_same(before.1, last.1) && is_same(last.1, point.1)))
        {
            corners.pop();
        }
        corners.push(point);
    }
    let mut path = String::new();
    for (index, &(x, y)) in corners.iter().enumerate() {
        let neighbours = index.checked_sub(1).and_then(|before| corners.get(before)).zip(corners.get(index + 1));
        let Some((before, after)) = neighbours else {
            let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
            continue;
        };
        let towards = |(to_x, to_y): (f64, f64)| {
            let distance = (to_x - x).hypot(to_y - y).max(0.001);
            let share = CORNER_RADIUS.min(distance / 2.0) / distance;
            (x + (to_x - x) * share, y + (to_y - y) * share)
        };
        let (before_corner, after_corner) = (towards(*before), towards(*after));
        let _ = write!(
            path,
            "L{:.1} {:.1}Q{x:.1} {y:.1} {:.1} {:.1}",
            before_corner.0, before_corner.1, after_corner.0, after_corner.1
        );
    }
    path
}

fn draw_card(output: &mut String, card: &Card, (x, y): (f64, f64)) {
    let Card { width, height, .. } = *card;
    let kind = match card.kind {
        Kind::Plain => "plain",
        Kind::Nested => "nested",
        Kind::Judged => "judged",
    };
    let unreachable_class = if card.is_reachable { "" } else { " lost" };
    let _ = writeln!(output, "<g class=\"{kind}{unreachable_class}\" transform=\"translate({x:.1} {y:.1})\">");
    match card.kind {
        Kind::Plain => {
            let _ = writeln!(output, "<rect class=\"card\" width=\"{width}\" height=\"{height}\" rx=\"7\"/>");
        }
        Kind::Nested => {
            let _ = writeln!(output, "<rect class=\"card\" width=\"{width}\" height=\"{height}\"/>");
            let _ = writeln!(output, "<path class=\"side\" d=\"M5 0V{height}M{:.1} 0V{height}\"/>", width - 5.0);
        }
        Kind::Judged => {
            let (right, bottom) = (width - 11.0, height - 11.0);
            let _ = writeln!(
                output,
                "<path class=\"card\" d=\"M11 0H{right}L{width} 11V{bottom}L{right} {height}H11L0 {bottom}V11z\"/>"
            );
        }
    }
    draw_text(output, "name", &card.name, 12.0, 19.0);
    draw_text(output, "tool", &card.tool, 12.0, 36.0);
    if !card.rows.is_empty() {
        let _ = writeln!(output, "<path class=\"rule\" d=\"M6 {HEAD_HEIGHT}H{:.1}\"/>", width - 6.0);
    }
    let mut middle = HEAD_HEIGHT + ROW_HEIGHT / 2.0;
    for row in &card.rows {
        draw_text(output, "row", &row.line, 12.0, middle + 4.0);
        let mark_x = width - 14.0;
        match row.target {
            RowTarget::To { .. } => {}
            RowTarget::Completes => {
                let _ = writeln!(
                    output,
                    "<circle class=\"ring\" cx=\"{mark_x}\" cy=\"{middle}\" r=\"6\"/><circle class=\"mark\" cx=\"{mark_x}\" cy=\"{middle}\" r=\"3\"/>"
                );
            }
            RowTarget::Fails => {
                let (left, top) = (mark_x - 4.5, middle - 4.5);
                let _ = writeln!(output, "<path class=\"cross\" d=\"M{left} {top}l9 9m0 -9l-9 9\"/>");
            }
        }
        middle += ROW_HEIGHT;
    }
    output.push_str("</g>\n");
}

fn draw_text(output: &mut String, class: &str, line: &Line, x: f64, y: f64) {
    let full_text =
        line.full_text.as_ref().map(|full_text| format!("<title>{}</title>", escaped(full_text))).unwrap_or_default();
    let _ = writeln!(
        output,
        "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" xml:space=\"preserve\">{}{full_text}</text>",
        escaped(&line.displayed)
    );
}

/// Escapes text for XML 1.0.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // XML allows no other control characters, not even as numeric references.
            '\n' => escaped.push('\n'),
            control if control.is_control() => escaped.push(' '),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_for_xml() {
        assert_eq!(
            escaped("</text><script>\"&'\u{0}\n\u{ffff}"),
            "&lt;/text&gt;&lt;script&gt;&quot;&amp;&#39; \n\u{fffd}"
        );
    }

    #[test]
    fn only_turns_have_round_corners() {
        assert_eq!(rounded_path(&[(1.0, 0.0), (1.0, 5.0), (1.0, 5.0), (1.0, 20.0)]), "M1.0 0.0L1.0 20.0");
        assert_eq!(
            rounded_path(&[(0.0, 0.0), (0.0, 20.0), (20.0, 20.0)]),
            "M0.0 0.0L0.0 14.0Q0.0 20.0 6.0 20.0L20.0 20.0"
        );
    }
}
