//! References to earlier results in a line: `::0`, `::-1`, `::last`, `::greet`, `::0['attributes']['exit_code']`.
//!
//! The references of a typed line are bound to numbers of results, so that later results do not change the line. Pure:
//! results are parameters.

use serde_json::Value;

/// The part of a reference that selects a result.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Anchor {
    /// The result with this number, counted from 0.
    Number(usize),
    /// A result counted from the end: 1 is the last one.
    FromEnd(usize),
    /// The last result with this name.
    Name(String),
}

/// A part of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    /// A negative index counts from the end.
    Index(i64),
}

/// Text with references, bound to the numbers of their results.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PinnedRefs(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// The text in the line, the number of the result, and the path within it.
    Reference(String, usize, Vec<Step>),
}

/// Parses the references in `text` and binds them. `names` are the names of all earlier calls, in order.
///
/// `\::` and `a::b` are not references.
///
/// # Errors
/// If a reference has no result, or is incomplete.
pub(crate) fn parse_references(text: &str, names: &[&str]) -> Result<PinnedRefs, String> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("\\::") {
            plain.push_str("::");
            rest = after;
            continue;
        }
        let is_inside_word = plain.ends_with(|before: char| before.is_alphanumeric() || matches!(before, '_' | ':'));
        if !is_inside_word
            && let Some(after) = rest.strip_prefix("::")
            && let Some((anchor, after)) = parse_anchor(after)
        {
            let (path, after) = parse_path(after)?;
            let reference_text = &rest[..rest.len() - after.len()];
            let number = resolve_anchor(reference_text, &anchor, names)?;
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Reference(reference_text.to_owned(), number, path));
            rest = after;
            continue;
        }
        plain.push(character);
        rest = &rest[character.len_utf8()..];
    }
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Ok(PinnedRefs(pieces))
}

/// Parses the anchor. Returns it and the remaining text.
fn parse_anchor(text: &str) -> Option<(Anchor, &str)> {
    let (is_from_end, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let end = digits.find(|character: char| !character.is_ascii_digit()).unwrap_or(digits.len());
    // `::0x1f` and `::1st` are not references.
    let is_number = end > 0 && !digits[end..].starts_with(|next: char| next.is_alphanumeric() || next == '_');
    if is_number {
        // A number that overflows is larger than all existing numbers.
        let number = digits[..end].parse().unwrap_or(usize::MAX);
        return Some((if is_from_end { Anchor::FromEnd(number) } else { Anchor::Number(number) }, &digits[end..]));
    }
    if !text.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return None;
    }
    let is_name_char = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    let end = text.find(|character: char| !is_name_char(character)).unwrap_or(text.len());
    // A dash at the end of a word is not part of a name.
    let name = text[..end].trim_end_matches('-');
    let anchor = if name == "last" { Anchor::FromEnd(1) } else { Anchor::Name(name.to_owned()) };
    Some((anchor, &text[name.len()..]))
}

/// Parses `['key'][0]…`. Returns the steps and the remaining text.
fn parse_path(mut text: &str) -> Result<(Vec<Step>, &str), String> {
    let mut steps = Vec::new();
    while let Some(inner) = text.strip_prefix('[') {
        let unclosed = || "write a part of a result as ['output'] or [0]; a closing ] is missing".to_owned();
        let (step, after) = match inner.chars().next() {
            Some(quote @ ('\'' | '"')) => {
                let (key, after) = inner[1..].split_once(quote).ok_or_else(unclosed)?;
                (Step::Key(key.to_owned()), after.strip_prefix(']').ok_or_else(unclosed)?)
            }
            Some('-' | '0'..='9') => {
                let (index, after) = inner.split_once(']').ok_or_else(unclosed)?;
                let Ok(index) = index.parse() else { break };
                (Step::Index(index), after)
            }
            // A bracket of the surrounding text.
            _ => break,
        };
        steps.push(step);
        text = after;
    }
    Ok((steps, text))
}

fn resolve_anchor(reference_text: &str, anchor: &Anchor, names: &[&str]) -> Result<usize, String> {
    let count = names.len();
    let escape_hint = "write \\:: for a literal ::";
    let available = match count {
        0 => "there are no results yet".to_owned(),
        1 => "there is only ::0".to_owned(),
        _ => format!("there are ::0 to ::{}", count - 1),
    };
    let found = match anchor {
        Anchor::Number(number) => Some(*number).filter(|number| *number < count),
        Anchor::FromEnd(back) => count.checked_sub(*back).filter(|number| *number < count),
        Anchor::Name(name) => names.iter().rposition(|known| known == name),
    };
    found.ok_or_else(|| match anchor {
        Anchor::Name(name) => format!("{reference_text} refers to nothing: '{name}' was not called yet; {escape_hint}"),
        Anchor::Number(_) | Anchor::FromEnd(_) => {
            format!("{reference_text} refers to nothing: {available}; {escape_hint}")
        }
    })
}

impl PinnedRefs {
    /// Returns text without references.
    pub(crate) fn plain(text: &str) -> Self {
        Self(vec![Piece::Text(text.to_owned())])
    }

    /// Returns the numbers of the referenced results.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = usize> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Reference(_, number, _) => Some(*number),
        })
    }

    /// Replaces the references with their results. A reference without other text yields the result itself. Within
    /// text, a result becomes a string, as JSON unless it is a string already. Empty text becomes `null`.
    ///
    /// # Errors
    /// If a result, or the referenced part of it, does not exist.
    pub(crate) fn fill_in<'a>(&self, result: impl Fn(usize) -> Result<&'a Value, String>) -> Result<Value, String> {
        let select_part = |reference_text: &str, number: usize, path: &[Step]| {
            select_part(reference_text, number, result(number)?, path)
        };
        match &self.0[..] {
            [] => Ok(Value::Null),
            [Piece::Reference(reference_text, number, path)] => select_part(reference_text, *number, path),
            pieces => {
                let texts = pieces.iter().map(|piece| match piece {
                    Piece::Text(text) => Ok(text.clone()),
                    Piece::Reference(reference_text, number, path) => {
                        Ok(value_to_text(&select_part(reference_text, *number, path)?))
                    }
                });
                Ok(Value::String(texts.collect::<Result<String, String>>()?))
            }
        }
    }
}

/// Converts a value for use within text: a string without its final line end, other values as JSON.
pub(crate) fn value_to_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.strip_suffix('\n').unwrap_or(text).to_owned(),
        other => other.to_string(),
    }
}

fn select_part(reference_text: &str, number: usize, result: &Value, path: &[Step]) -> Result<Value, String> {
    if path.is_empty() {
        return match result.get("output") {
            Some(output) if !output.is_null() => Ok(output.clone()),
            _ if result["success"] == false => {
                Err(format!("{reference_text} has no output, because it failed; see ::{number}['error']"))
            }
            _ => Err(format!("{reference_text} has no output; show the whole result with: /show {number}")),
        };
    }
    let mut value = result;
    let mut reached = format!("::{number}");
    let mut pointer = String::new();
    for step in path {
        let (next, name) = match (step, value) {
            (Step::Key(key), Value::Object(fields)) => (fields.get(key), key.replace('~', "~0").replace('/', "~1")),
            (Step::Index(index), Value::Array(items)) => {
                let index = usize::try_from(*index)
                    .ok()
                    .or_else(|| items.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?));
                (index.and_then(|index| items.get(index)), index.unwrap_or_default().to_string())
            }
            _ => (None, String::new()),
        };
        let step_text = match step {
            Step::Key(key) => format!("['{key}']"),
            Step::Index(index) => format!("[{index}]"),
        };
        value = next.ok_or_else(|| {
            let available = match value {
                Value::Object(fields) if fields.is_empty() => "the value is empty".to_owned(),
                Value::Object(fields) => {
                    format!("there is {}", fields.keys().map(String::as_str).collect::<Vec<_>>().join(", "))
                }
                Value::Array(items) => format!("it has {} items", items.len()),
                _ => "the value has no parts".to_owned(),
            };
            format!("{reference_text} refers to nothing: {reached} has no {step_text}; {available}")
        })?;
        reached.push_str(&step_text);
        pointer = format!("{pointer}/{name}");
    }
    // Refuse a shortened value, so that no line uses a part of a value.
    let is_part_of =
        |shortened: &str| shortened.strip_prefix(&pointer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let shortened = result["attributes"]["shortened"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if shortened.into_iter().any(is_part_of) {
        return Err(format!(
            "{reference_text} is longer than the report on a run shows, so it is not whole here; have the workflow return it, and use \
             ::{number} or ::{number}['attributes']['return_values']"
        ));
    }
    Ok(value.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Resolves references to three results: `greet` said hello, `list` returned parts, and `greet` failed.
    fn fill_in(text: &str) -> Result<Value, String> {
        let results = [
            json!({"success": true, "output": "hello\n", "input": "you", "attributes": {"exit_code": 0}}),
            json!({"success": true, "output": {"a": [1, {"b": null}]}, "input": null, "attributes": {}}),
            json!({"success": false, "output": null, "error": "it broke", "attributes": {"exit_code": 3}}),
        ];
        parse_references(text, &["greet", "list", "greet"])?.fill_in(|number| Ok(&results[number]))
    }

    #[test]
    fn truncated_value_is_not_usable() {
        let variables = json!({"LONG": "xx", "LIST": ["a", {"b/c": "xx"}], "SHORT": "y"});
        let shortened = ["/attributes/variables/LONG", "/attributes/variables/LIST/1/b~1c"];
        let run = json!({"success": true, "attributes": {"status": "completed", "variables": variables, "shortened": shortened}});
        let fill_in = |text: &str| parse_references(text, &["run"])?.fill_in(|_| Ok(&run));
        for (path, expected) in [
            ("['status']", Some(json!("completed"))),
            ("['variables']['SHORT']", Some(json!("y"))),
            ("['variables']['LIST'][-2]", Some(json!("a"))),
            ("['variables']['LONG']", None),
            ("['variables']['LIST'][-1]['b/c']", None),
            ("['variables']['LIST']", None),
            ("['variables']", None),
        ] {
            let got = fill_in(&format!("::0['attributes']{path}"));
            match expected {
                Some(_) => assert_eq!(got.ok(), expected, "{path}"),
                None => assert!(got.as_ref().is_err_and(|error| error.contains("not whole")), "{path}: {got:?}"),
            }
        }
    }

    #[test]
    fn references_are_found_and_filled_in() {
        let table = [
            ("", Value::Null),
            ("no reference: a, b", json!("no reference: a, b")),
            ("::0", json!("hello\n")),
            ("say ::0!", json!("say hello!")),
            ("::0::0", json!("hellohello")),
            ("::-2", json!({"a": [1, {"b": null}]})),
            ("::list and ::0['input']", json!("{\"a\":[1,{\"b\":null}]} and you")),
            ("::list['output'][\"a\"][-2]", json!(1)),
            ("::1['output']['a'][1]['b']", Value::Null),
            ("::last['error']", json!("it broke")),
            ("::greet['attributes']['exit_code']", json!(3)),
            ("(::0)[x]", json!("(hello)[x]")),
            ("::0[x]", json!("hello[x]")),
            ("::0- ::list- x", json!("hello- {\"a\":[1,{\"b\":null}]}- x")),
        ];
        for (text, value) in table {
            assert_eq!(fill_in(text), Ok(value), "{text:?}");
        }
    }

    #[test]
    fn similar_text_is_not_a_reference() {
        for text in ["std::last", "a::0", "fe80::1", ":: x", "::", "::0x1f", "::1st", ":::0", "::_x"] {
            assert_eq!(fill_in(text), Ok(json!(text)), "{text:?}");
        }
        assert_eq!(fill_in("\\::0 and \\::last"), Ok(json!("::0 and ::last")));
    }

    #[test]
    fn unresolved_reference_gives_the_reason() {
        let table = [
            ("::3", "::3 refers to nothing: there are ::0 to ::2; write \\:: for a literal ::"),
            ("::-4", "::-4 refers to nothing: there are ::0 to ::2; write \\:: for a literal ::"),
            ("::-0", "::-0 refers to nothing: there are ::0 to ::2; write \\:: for a literal ::"),
            (
                "::99999999999999999999",
                "::99999999999999999999 refers to nothing: there are ::0 to ::2; write \\:: for a literal ::",
            ),
            ("::gret", "::gret refers to nothing: 'gret' was not called yet; write \\:: for a literal ::"),
            ("::last", "::last has no output, because it failed; see ::2['error']"),
            (
                "::0['outpt']",
                "::0['outpt'] refers to nothing: ::0 has no ['outpt']; there is success, output, input, attributes",
            ),
            (
                "::list['output']['a'][2]",
                "::list['output']['a'][2] refers to nothing: ::1['output']['a'] has no [2]; it has 2 items",
            ),
            (
                "::0['input']['x']",
                "::0['input']['x'] refers to nothing: ::0['input'] has no ['x']; the value has no parts",
            ),
            ("::0['input", "write a part of a result as ['output'] or [0]; a closing ] is missing"),
        ];
        for (text, error) in table {
            assert_eq!(fill_in(text), Err(error.to_owned()), "{text:?}");
        }
        assert!(parse_references("::last", &[]).unwrap_err().contains("there are no results yet"));
        assert!(parse_references("::1", &["one"]).unwrap_err().contains("there is only ::0"));
    }

    #[test]
    fn reference_is_bound_when_it_is_typed() {
        let pinned = parse_references("::last ::one ::0", &["one", "two"]).unwrap();
        assert_eq!(pinned.numbers().collect::<Vec<_>>(), [1, 0, 0]);
    }
}
