//! The SVG picture of a machine.

use std::fmt::Write as _;

use steplatch_workflow::Definition;

use super::cards::{Card, HEAD, Kind, Line, ROW, Way, cards};
use super::layers::assign_layers;
use super::routes::{Plan, Route, Stub, plan};

/// The colours, for bright surroundings and for dark ones. Renderers that do not ask paint the bright ones.
const STYLE: &str = "\
text{font:12px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#3d4450}\
.paper{fill:#fbfbfc}.card{fill:#fff;stroke:#8a94a6;stroke-width:1.2}.name{font-weight:bold;font-size:13px;fill:#14181f}\
.tool{fill:#5f6b7c}.rule{stroke:#d5dae2}.line{fill:none;stroke:#4a6fa5;stroke-width:1.4}.late{stroke:#b0622c;stroke-dasharray:5 4}\
.tip{fill:#4a6fa5}.latetip{fill:#b0622c}.mark{fill:#14181f}.ring{fill:none;stroke:#14181f;stroke-width:1.4}.cross{fill:none;stroke:#b3261e;stroke-width:2}.joint{fill:#4a6fa5}.latejoint{fill:#b0622c}\
.nested .card{fill:#eef6ef;stroke:#4f8a5b}.judged .card{fill:#fff7e0;stroke:#b48a1e}.side{stroke:#4f8a5b}.lost{opacity:.5}\
@media (prefers-color-scheme:dark){text{fill:#c3cad6}.paper{fill:#15181d}.card{fill:#1f242c;stroke:#5f6b7c}.name{fill:#f2f4f8}\
.tool{fill:#93a0b4}.rule{stroke:#363d49}.line{stroke:#7fa8e0}.late{stroke:#e09a5f}.tip{fill:#7fa8e0}.latetip{fill:#e09a5f}\
.mark{fill:#f2f4f8}.ring{stroke:#f2f4f8}.cross{stroke:#f2857c}.joint{fill:#7fa8e0}.latejoint{fill:#e09a5f}.nested .card{fill:#1b2a20;stroke:#6fb07c}.judged .card{fill:#2e2713;stroke:#d6ad45}.side{stroke:#6fb07c}}";

/// Returns a machine as a picture in SVG 1.1, which needs no other file.
///
/// Each state is a card with its transitions, in the order in which they are tried. The initial state hangs on a dot; a
/// ring marks where a run may complete, a cross where it may fail. A line begins at the row of its transition, or below
/// a card with only one; rows that lead to the same state join it at a dot. Lines for time-outs are dashed, backward
/// lines go along the left. A state that runs another workflow has double sides, one with a gate has its corners cut,
/// and one that no run reaches is pale.
///
/// Source of the format: <https://www.w3.org/TR/SVG11/>.
#[must_use]
pub fn svg(definition: &Definition) -> String {
    let mut cards = cards(definition);
    let targets: Vec<Vec<usize>> = cards.iter().map(targets).collect();
    let initial = definition.states().iter().position(|state| state.name() == definition.initial_state()).unwrap_or(0);
    let layers = assign_layers(&targets, initial);
    for (card, reached) in cards.iter_mut().zip(&layers.reached) {
        card.reached = *reached;
    }
    let plan = plan(&cards, &layers);
    let Plan { width, height, .. } = plan;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\">\n"
    );
    if let Some(name) = definition.name() {
        let _ = writeln!(out, "<title>{}</title>", escaped(name.as_str()));
    }
    let _ = writeln!(out, "<style>{STYLE}</style>\n<defs>{}{}</defs>", tip("tip"), tip("latetip"));
    out.push_str("<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n");
    for route in &plan.lines {
        draw_line(&mut out, route);
    }
    if let (Some((x, y)), Some(card)) = (plan.corners.get(initial), cards.get(initial)) {
        begin(&mut out, (x + card.width / 2.0, card.width), *y, &plan);
    }
    for (card, corner) in cards.iter().zip(&plan.corners) {
        draw_card(&mut out, card, *corner);
    }
    out.push_str("</svg>\n");
    out
}

fn targets(card: &Card) -> Vec<usize> {
    let mut targets: Vec<usize> = Vec::new();
    for row in &card.rows {
        if let Way::To { state, .. } = row.way
            && !targets.contains(&state)
        {
            targets.push(state);
        }
    }
    targets
}

fn tip(class: &str) -> String {
    format!(
        "<marker id=\"{class}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
         markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"{class}\" d=\"M0 0.5L8 4L0 7.5z\"/></marker>"
    )
}

/// The dot that a run begins at, above its first state.
fn begin(out: &mut String, (x, width): (f64, f64), top: f64, plan: &Plan) {
    // Between the lines that come from the left and those that come from the right, it crosses none.
    let (left, right) = (x - width / 2.0, x + width / 2.0);
    let (mut begin, mut end) = (left, right);
    for route in &plan.lines {
        if let [.., (from, _), _, (at, y)] = route.points[..]
            && (y - top).abs() < 1.0
            && (left..=right).contains(&at)
        {
            if from < at {
                begin = f64::max(begin, at);
            } else {
                end = f64::min(end, at);
            }
        }
    }
    let x = f64::midpoint(begin, end);
    let _ = writeln!(out, "<circle class=\"mark\" cx=\"{x:.1}\" cy=\"16\" r=\"6\"/>");
    let _ = writeln!(out, "<path class=\"line\" marker-end=\"url(#tip)\" d=\"M{x:.1} 22V{top:.1}\"/>");
}

fn draw_line(out: &mut String, route: &Route) {
    let (class, tip) = if route.late { ("line late", "latetip") } else { ("line", "tip") };
    let _ = writeln!(out, "<path class=\"{class}\" marker-end=\"url(#{tip})\" d=\"{}\"/>", rounded(&route.points));
    for Stub { from, to, late } in &route.stubs {
        let (class, joint) = if *late { ("line late", "latejoint") } else { ("line", "joint") };
        let _ = writeln!(out, "<path class=\"{class}\" d=\"M{:.1} {:.1}H{:.1}\"/>", from.0, from.1, to.0);
        // Where lines only cross there is none.
        let _ = writeln!(out, "<circle class=\"{joint}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>", to.0, to.1);
    }
}

/// Distance from a corner at which a line leaves its direction.
const ROUND: f64 = 6.0;

/// Draws a line through points, its corners round.
fn rounded(points: &[(f64, f64)]) -> String {
    // What does not turn has no corner.
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for &point in points {
        let same = |one: f64, other: f64| (one - other).abs() < 0.5;
        if let [.., before, last] = corners[..]
            && ((same(before.0, last.0) && same(last.0, point.0)) || (same(before.1, last.1) && same(last.1, point.1)))
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
            let part = ROUND.min(distance / 2.0) / distance;
            (x + (to_x - x) * part, y + (to_y - y) * part)
        };
        let (into, out_of) = (towards(*before), towards(*after));
        let _ = write!(path, "L{:.1} {:.1}Q{x:.1} {y:.1} {:.1} {:.1}", into.0, into.1, out_of.0, out_of.1);
    }
    path
}

fn draw_card(out: &mut String, card: &Card, (x, y): (f64, f64)) {
    let Card { width, height, .. } = *card;
    let kind = match card.kind {
        Kind::Plain => "plain",
        Kind::Nested => "nested",
        Kind::Judged => "judged",
    };
    let lost = if card.reached { "" } else { " lost" };
    let _ = writeln!(out, "<g class=\"{kind}{lost}\" transform=\"translate({x:.1} {y:.1})\">");
    match card.kind {
        Kind::Plain => {
            let _ = writeln!(out, "<rect class=\"card\" width=\"{width}\" height=\"{height}\" rx=\"7\"/>");
        }
        Kind::Nested => {
            let _ = writeln!(out, "<rect class=\"card\" width=\"{width}\" height=\"{height}\"/>");
            let _ = writeln!(out, "<path class=\"side\" d=\"M5 0V{height}M{:.1} 0V{height}\"/>", width - 5.0);
        }
        Kind::Judged => {
            let (right, bottom) = (width - 11.0, height - 11.0);
            let _ = writeln!(
                out,
                "<path class=\"card\" d=\"M11 0H{right}L{width} 11V{bottom}L{right} {height}H11L0 {bottom}V11z\"/>"
            );
        }
    }
    draw_text(out, "name", &card.name, 12.0, 19.0);
    draw_text(out, "tool", &card.tool, 12.0, 36.0);
    if !card.rows.is_empty() {
        let _ = writeln!(out, "<path class=\"rule\" d=\"M6 {HEAD}H{:.1}\"/>", width - 6.0);
    }
    let mut middle = HEAD + ROW / 2.0;
    for row in &card.rows {
        draw_text(out, "row", &row.line, 12.0, middle + 4.0);
        let at = width - 14.0;
        match row.way {
            Way::To { .. } => {}
            Way::Completes => {
                let _ = writeln!(
                    out,
                    "<circle class=\"ring\" cx=\"{at}\" cy=\"{middle}\" r=\"6\"/><circle class=\"mark\" cx=\"{at}\" cy=\"{middle}\" r=\"3\"/>"
                );
            }
            Way::Fails => {
                let (left, top) = (at - 4.5, middle - 4.5);
                let _ = writeln!(out, "<path class=\"cross\" d=\"M{left} {top}l9 9m0 -9l-9 9\"/>");
            }
        }
        middle += ROW;
    }
    out.push_str("</g>\n");
}

fn draw_text(out: &mut String, class: &str, line: &Line, x: f64, y: f64) {
    let whole = line.whole.as_ref().map(|whole| format!("<title>{}</title>", escaped(whole))).unwrap_or_default();
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" xml:space=\"preserve\">{}{whole}</text>",
        escaped(&line.shown)
    );
}

/// Makes a text valid in XML 1.0.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Not allowed in XML, not even as numeric references.
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
    fn foreign_text_is_text() {
        assert_eq!(
            escaped("</text><script>\"&'\u{0}\n\u{ffff}"),
            "&lt;/text&gt;&lt;script&gt;&quot;&amp;&#39;  \u{fffd}"
        );
    }

    #[test]
    fn a_line_that_goes_straight_on_has_no_corner() {
        assert_eq!(rounded(&[(1.0, 0.0), (1.0, 5.0), (1.0, 5.0), (1.0, 20.0)]), "M1.0 0.0L1.0 20.0");
        assert_eq!(rounded(&[(0.0, 0.0), (0.0, 20.0), (20.0, 20.0)]), "M0.0 0.0L0.0 14.0Q0.0 20.0 6.0 20.0L20.0 20.0");
    }
}
