//! The groups of a pattern that a wait matched.
//!
//! A wait returns the matches of the groups as a list. For a machine they are an object: `"0"` is the whole match,
//! `"1"` the first group, and a named group is also stored under its name.

use serde_json::{Map, Value};
use steplatch_pattern::Pattern;

use crate::substitute;

/// Returns the groups of a wait's match as an object; `None` without a match, or if the result already has the object.
pub(crate) fn groups_of_match(params: &Map<String, Value>, result: &Map<String, Value>) -> Option<Value> {
    let match_text = result.get("match_text").and_then(Value::as_str)?;
    let sources: Vec<String> = patterns(params).map(substitute::as_text).collect();
    let source = match (&sources[..], result.get("pattern").and_then(Value::as_str)) {
        ([pattern], _) => Some(pattern.as_str()),
        (_, matched_pattern) => matched_pattern,
    };
    let pattern = source.and_then(|source| Pattern::new(source).ok());
    let texts = match result.get("groups") {
        Some(Value::Array(texts)) => texts.clone(),
        // A stub of a rehearsal may have only the matched text.
        None | Some(Value::Null) => group_matches(pattern.as_ref()?, match_text),
        Some(_) => return None,
    };
    let mut groups = Map::from_iter([("0".to_owned(), match_text.into())]);
    for (index, text) in texts.into_iter().enumerate() {
        let name = pattern.as_ref().and_then(|pattern| pattern.group_names().get(index)?.clone());
        groups.extend(name.map(|name| (name, text.clone())));
        groups.insert((index + 1).to_string(), text);
    }
    Some(groups.into())
}

/// Returns the matches of the named groups of a result, by name.
pub(crate) fn named_groups(result: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    let groups = result.get("groups").and_then(Value::as_object).into_iter().flatten();
    groups.map(|(name, text)| (name.as_str(), text)).filter(|(name, _)| !is_number(name))
}

/// Returns the match of a named group of a result.
pub(crate) fn named_group<'r>(result: &'r Map<String, Value>, name: &str) -> Option<&'r Value> {
    result.get("groups")?.as_object()?.get(name).filter(|_| !is_number(name))
}

/// Returns the patterns that a wait searches for.
pub(crate) fn patterns(params: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let list = params.get("patterns").and_then(Value::as_array).into_iter().flatten();
    params
        .get("pattern")
        .into_iter()
        .chain(list)
        .filter(|pattern| pattern.as_str().is_some_and(|text| !text.is_empty()))
}

/// Returns the names of the groups in the source of a pattern. The source may have placeholders.
pub(crate) fn group_names_in(source: &str) -> impl Iterator<Item = &str> {
    source.split("(?P<").skip(1).filter_map(|rest| rest.split_once('>')).map(|(name, _)| name)
}

/// Returns whether a group name is a number.
pub(crate) fn is_number(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the matches of the groups of a pattern in text.
fn group_matches(pattern: &Pattern, text: &str) -> Vec<Value> {
    let Ok(Some(found)) = pattern.find_at(text, 0) else { return Vec::new() };
    found.groups.into_iter().map(|range| range.and_then(|range| text.get(range)).into()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().expect("the value is an object").clone()
    }

    #[test]
    fn groups_are_found_by_number_and_by_name() {
        let test = json!({"pattern": "v(?P<major>\\d+)\\.(\\d+)(x)?"});
        let several = json!({"pattern": "a(.)", "patterns": ["b(?P<rest>.)"]});
        for (params, result, expected) in [
            (
                &test,
                json!({"match_text": "v1.2", "groups": ["1", "2", null]}),
                json!({"0": "v1.2", "major": "1", "1": "1", "2": "2", "3": null}),
            ),
            (&test, json!({"match_text": "v1.2"}), json!({"0": "v1.2", "major": "1", "1": "1", "2": "2", "3": null})),
            (
                &several,
                json!({"match_text": "bx", "pattern": "b(?P<rest>.)", "groups": ["x"]}),
                json!({"0": "bx", "rest": "x", "1": "x"}),
            ),
            (&json!({"pattern": "("}), json!({"match_text": "(", "groups": ["y"]}), json!({"0": "(", "1": "y"})),
        ] {
            assert_eq!(groups_of_match(&map(params), &map(&result)), Some(expected), "{params} {result}");
        }
        for none in
            [json!({"match_text": null, "groups": []}), json!({}), json!({"match_text": "x", "groups": {"0": "x"}})]
        {
            assert_eq!(groups_of_match(&map(&test), &map(&none)), None, "{none}");
        }
    }

    #[test]
    fn group_names_are_read_from_a_pattern_with_placeholders() {
        let names: Vec<_> = group_names_in("^{user} (?P<a>x)(?:y)(?P<b_1>{z})(?P=a)(?P<").collect();
        assert_eq!(names, ["a", "b_1"]);
        let result = map(&json!({"groups": {"0": "x", "1": "y", "name": "y"}}));
        assert_eq!(named_groups(&result).collect::<Vec<_>>(), [("name", &json!("y"))]);
        assert_eq!((named_group(&result, "name"), named_group(&result, "1")), (Some(&json!("y")), None));
    }
}
