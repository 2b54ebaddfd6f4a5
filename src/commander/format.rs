//! Formatting of results and lists for people.

use std::time::Duration;

use serde_json::Value;
use steplatch_protocol::{GateInfo, NodeReply};

use super::line::Target;
use super::session::{Entry, State};
use crate::print::{self, BAD, GOOD, QUIET, STRONG, duration, fitted, visible};

/// Number of lines shown from the beginning and from the end of a longer output.
const EDGE_LINES: usize = 100;

/// Splits text into lines without control characters and omits the middle of a long text.
pub(crate) fn lines(text: &str, number: usize) -> Vec<String> {
    let all: Vec<&str> = text.lines().collect();
    let omitted = all.len().saturating_sub(2 * EDGE_LINES);
    if omitted == 0 {
        return all.into_iter().map(visible).collect();
    }
    let middle = format!("{QUIET}… {omitted} lines are omitted; /show {number} shows all{QUIET:#}");
    let (head, tail) = (&all[..EDGE_LINES], &all[all.len() - EDGE_LINES..]);
    head.iter().copied().map(visible).chain([middle]).chain(tail.iter().copied().map(visible)).collect()
}

/// Converts a value to text: strings unchanged, null as nothing, other values as indented JSON.
pub(crate) fn full_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    }
}

/// Returns the line `✓ ::3 @greet in 12 ms`, or one with the error of the call.
pub(crate) fn end_line(number: usize, target: &Target, error: Option<&str>, took: Duration) -> String {
    let target = visible(&target.to_string());
    let time = duration(took);
    match error {
        None => format!("{GOOD}✓{GOOD:#} {QUIET}::{number} {target} in {time}{QUIET:#}"),
        Some(error) => {
            let error = error.lines().map(visible).collect::<Vec<_>>().join("\n  ");
            format!("{BAD}✗{BAD:#} {QUIET}::{number} {target} in {time}:{QUIET:#} {error}")
        }
    }
}

/// Returns the lines that a node printed on standard error.
pub(crate) fn stderr_lines(reply: &NodeReply) -> Vec<String> {
    let stderr = reply.attributes.get("stderr").and_then(Value::as_str).unwrap_or_default();
    stderr.lines().map(|line| format!("{QUIET}{}{QUIET:#}", visible(line))).collect()
}

/// Returns the lines that show a result with all its fields.
pub(crate) fn result(number: usize, target: &Target, result: &Value) -> Vec<String> {
    let mut rows = vec![format!("{STRONG}::{number}{STRONG:#} {}", visible(&target.to_string()))];
    for (name, value) in result.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        let text = full_text(value);
        let mut lines = text.lines();
        let (first, rest) = (lines.next().unwrap_or_default(), lines);
        rows.push(format!("  {QUIET}{name:<10}{QUIET:#} {}", visible(first)));
        rows.extend(rest.map(|line| format!("  {:<10} {}", "", visible(line)).trim_end().to_owned()));
    }
    rows
}

/// Returns the state of a call in a word, its duration, and a remark.
fn state(entry: &Entry) -> (&'static str, String, String) {
    match &entry.state {
        State::Waiting => ("waits", String::new(), "for an earlier result".to_owned()),
        State::Running => {
            let run = entry.run.clone().unwrap_or_default();
            ("running", duration(entry.began.elapsed()), run)
        }
        State::Done { result, took, .. } => {
            let success = result["success"] == true;
            let value = if success { &result["output"] } else { &result["error"] };
            let value = super::reference::value_to_text(value);
            let first_line = visible(value.lines().next().unwrap_or_default());
            let first_line = if first_line == "null" { String::new() } else { first_line };
            (if success { "done" } else { "failed" }, duration(*took), first_line)
        }
        State::Discarded => ("done", String::new(), "not kept any more".to_owned()),
    }
}

/// Returns calls as a table.
pub(crate) fn call_rows<'a>(entries: impl Iterator<Item = (usize, &'a Entry)>) -> Vec<String> {
    let rows = entries.map(|(number, entry)| {
        let (word, time, detail) = state(entry);
        vec![format!("::{number}"), visible(&entry.target.to_string()), word.to_owned(), time, fitted(&detail, 60)]
    });
    table(["RESULT", "CALL", "STATE", "TOOK", "ABOUT"], rows)
}

/// Returns questions as a table.
pub(crate) fn questions(gates: &[(String, GateInfo)]) -> Vec<String> {
    let rows = gates.iter().map(|(workflow, gate)| {
        let choices = match gate.choices.len() {
            0 => "any text".to_owned(),
            choices => format!("{choices} choices"),
        };
        let prompt = visible(gate.prompt.lines().next().unwrap_or_default());
        vec![gate.run_id.clone(), visible(workflow), print::ago(&gate.created_at), choices, prompt]
    });
    table(["RUN", "WORKFLOW", "ASKED", "ANSWER", "QUESTION"], rows)
}

/// Returns rows below their heads, cut to the width of the terminal; nothing if there are no rows.
pub(crate) fn table<const N: usize>(heads: [&str; N], rows: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let rows: Vec<_> = std::iter::once(heads.map(str::to_owned).to_vec()).chain(rows).collect();
    if rows.len() == 1 {
        return Vec::new();
    }
    let width = print::width();
    let cut = |line: &str| width.map_or_else(|| line.to_owned(), |width| fitted(line, width));
    let table = print::table(&rows);
    let lines = table.lines().map(cut).enumerate();
    lines.map(|(index, line)| if index == 0 { format!("{STRONG}{line}{STRONG:#}") } else { line }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commander::line::Kind;

    fn plain(lines: &[String]) -> Vec<String> {
        lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    #[test]
    fn long_outputs_lose_their_middle_and_move_no_cursor() {
        let text: String = (1..=250).map(|number| format!("{number}\x1b[2J\n")).collect();
        let lines = plain(&lines(&text, 7));
        assert_eq!(lines.len(), 201);
        assert_eq!((lines[0].as_str(), lines[99].as_str()), ("1␛[2J", "100␛[2J"));
        assert_eq!(lines[100], "… 50 lines are omitted; /show 7 shows all");
        assert_eq!((lines[101].as_str(), lines[200].as_str()), ("151␛[2J", "250␛[2J"));
    }

    #[test]
    fn result_is_shown_part_by_part() {
        let target = Target { kind: Kind::Node, name: "greet".to_owned() };
        let value = json!({"success": true, "output": "a\nb\n", "error": null, "attributes": {"exit_code": 0}});
        assert_eq!(
            plain(&result(2, &target, &value)),
            [
                "::2 @greet",
                "  success    true",
                "  output     a",
                "             b",
                "  attributes {",
                "               \"exit_code\": 0",
                "             }"
            ]
        );
        let failed = end_line(3, &target, Some("it broke:\nhere"), Duration::from_millis(12));
        assert_eq!(anstream::adapter::strip_str(&failed).to_string(), "✗ ::3 @greet in 12 ms: it broke:\n  here");
    }
}
