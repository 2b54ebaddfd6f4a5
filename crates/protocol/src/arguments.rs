//! Reading what a caller sent as the parameters of a verb.
//!
//! Models send numbers as text, lists as text, `null` for "leave it", and wrap it
//! all in `{"request": …}`. What is meant is plain, so it is taken; what is not
//! plain is refused with the field's name and what it should be. Unknown fields are
//! left out and reported, with the known one that looks most like them.

use serde_json::{Map, Value};

use crate::Verb;

/// Parameters that were read.
#[derive(Debug)]
pub struct Read<V> {
    /// The verb with its parameters.
    pub verb: V,
    /// What was left out or taken otherwise than it was written, in whole sentences.
    pub warnings: Vec<String>,
}

/// Parameters that are not a verb's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.join("; "))]
pub struct InvalidArguments {
    /// Every problem that was found, each a fragment that names its field.
    pub problems: Vec<String>,
}

impl InvalidArguments {
    fn one(problem: impl Into<String>) -> Self {
        Self { problems: vec![problem.into()] }
    }
}

/// Reads parameters as they came in.
///
/// # Errors
/// When a required one is missing or one can not be understood; all such problems are listed.
pub fn read<V: Verb>(parameters: Value) -> Result<Read<V>, InvalidArguments> {
    let schema = V::schema();
    let mut fields = unwrap(parameters)?;
    let mut warnings = Vec::new();
    let mut problems = Vec::new();
    let known = schema["properties"].as_object().expect("the schema of a verb has properties");
    let names: Vec<String> = fields.keys().cloned().collect();
    for name in names {
        match known.get(&name) {
            None => {
                fields.shift_remove(&name);
                warnings.push(unknown(&name, known));
            }
            Some(_) if fields[&name].is_null() => {
                fields.shift_remove(&name);
            }
            Some(wanted) => {
                let value = fields[&name].take();
                match understand(value, wanted) {
                    Ok(value) => fields[&name] = value,
                    Err(problem) => problems.push(format!("{name} {problem}")),
                }
            }
        }
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for name in required.filter(|name| !fields.contains_key(*name)) {
        problems.push(format!("{name} is required"));
    }
    if !problems.is_empty() {
        // A misspelt field is often the missing one.
        problems.extend(warnings);
        return Err(InvalidArguments { problems });
    }
    let verb =
        serde_json::from_value(Value::Object(fields)).map_err(|error| InvalidArguments::one(error.to_string()))?;
    Ok(Read { verb, warnings })
}

/// Checks parameters against a verb's schema without reading them: each problem with the field it is about.
///
/// A value for which `open` holds is not known yet and may be anything.
pub fn check(schema: &Value, parameters: &Map<String, Value>, open: impl Fn(&Value) -> bool) -> Vec<(String, String)> {
    let empty = Map::new();
    let known = schema["properties"].as_object().unwrap_or(&empty);
    let mut problems = Vec::new();
    for (name, value) in parameters {
        match known.get(name) {
            None => problems.push((
                name.clone(),
                nearest(name, known).map_or_else(
                    || format!("unknown parameter '{name}'"),
                    |candidate| format!("unknown parameter '{name}'; did you mean '{candidate}'?"),
                ),
            )),
            Some(wanted) if !value.is_null() && !open(value) => {
                if let Err(problem) = understand(value.clone(), wanted) {
                    problems.push((name.clone(), format!("{name} {problem}")));
                }
            }
            Some(_) => {}
        }
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let missing = required.filter(|name| !parameters.contains_key(*name));
    problems.extend(missing.map(|name| (name.to_owned(), format!("{name} is required"))));
    problems
}

/// Takes parameters out of `{"request": {…}}` and `{"request": "{…}"}`.
fn unwrap(parameters: Value) -> Result<Map<String, Value>, InvalidArguments> {
    match parameters {
        Value::Null => Ok(Map::new()),
        Value::Object(mut fields) => {
            if fields.len() != 1 {
                return Ok(fields);
            }
            match fields.get_mut("request").map(Value::take) {
                None => Ok(fields),
                Some(Value::String(text)) => match serde_json::from_str(&text) {
                    Ok(Value::Object(inner)) => Ok(inner),
                    Ok(other) => Err(InvalidArguments::one(format!("request must be an object, not {}", kind(&other)))),
                    Err(error) => Err(InvalidArguments::one(format!("request is text but not JSON: {error}"))),
                },
                Some(Value::Object(inner)) => Ok(inner),
                Some(Value::Null) => Ok(Map::new()),
                Some(other) => Err(InvalidArguments::one(format!("request must be an object, not {}", kind(&other)))),
            }
        }
        other => Err(InvalidArguments::one(format!("parameters must be an object, not {}", kind(&other)))),
    }
}

fn unknown(name: &str, known: &Map<String, Value>) -> String {
    let shown: String = name.chars().take(60).collect();
    match nearest(name, known) {
        Some(candidate) => format!("unknown field '{shown}' was ignored; did you mean '{candidate}'?"),
        None => format!("unknown field '{shown}' was ignored"),
    }
}

/// The known name that looks most like `name`, if one looks like it at all.
fn nearest<'a>(name: &str, known: &'a Map<String, Value>) -> Option<&'a str> {
    known
        .keys()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate.as_str()))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, candidate)| candidate)
}

/// Returns `value` as the schema wants it, or what is wrong with it.
fn understand(value: Value, schema: &Value) -> Result<Value, String> {
    let wrong = |value: &Value, wanted: &str| Err(format!("must be {wanted}, not {}", shown(value)));
    match (schema["type"].as_str(), value) {
        (Some("integer"), value) => match integer(&value) {
            Some(number) => in_bounds(number.into(), schema),
            None => wrong(&value, "a whole number"),
        },
        (Some("number"), value) => match number(&value) {
            Some(number) => in_bounds(number, schema),
            None => wrong(&value, "a number"),
        },
        (Some("boolean"), Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true.into()),
        (Some("boolean"), Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false.into()),
        (Some("boolean"), value) if !value.is_boolean() => wrong(&value, "true or false"),
        (Some("string"), value) => match (schema["enum"].as_array(), value.as_str()) {
            (_, None) => wrong(&value, "text"),
            (Some(choices), Some(_)) if !choices.contains(&value) => {
                let choices: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
                wrong(&value, &format!("one of {}", choices.join(", ")))
            }
            _ => Ok(value),
        },
        (Some("array"), Value::String(text)) => match serde_json::from_str::<Value>(&text) {
            Ok(list @ Value::Array(_)) => understand(list, schema),
            _ => wrong(&Value::String(text), "a list"),
        },
        (Some("array"), Value::Array(items)) => {
            let items = items.into_iter().map(|item| understand(item, &schema["items"]));
            items.collect::<Result<Vec<_>, _>>().map(Value::Array).map_err(|problem| format!("holds what {problem}"))
        }
        (Some("array"), value) => wrong(&value, "a list"),
        (Some("object"), Value::String(text)) => match serde_json::from_str::<Value>(&text) {
            Ok(object @ Value::Object(_)) => understand(object, schema),
            Ok(_) => wrong(&Value::String(text), "an object"),
            Err(error) => Err(format!("is text but not JSON: {error}")),
        },
        (Some("object"), Value::Object(fields)) => texts(fields, schema).map(Value::Object),
        (Some("object"), value) => wrong(&value, "an object"),
        (_, value) => Ok(value),
    }
}

/// In an object whose values are text, numbers and booleans are taken as their text.
fn texts(mut fields: Map<String, Value>, schema: &Value) -> Result<Map<String, Value>, String> {
    if schema["additionalProperties"]["type"] == "string" {
        for (name, value) in &mut fields {
            match value {
                Value::String(_) => {}
                Value::Number(_) | Value::Bool(_) => *value = Value::String(value.to_string()),
                other => return Err(format!("must hold text under '{name}', not {}", kind(other))),
            }
        }
    }
    Ok(fields)
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => text.trim().parse().ok().or_else(|| whole(text.trim().parse().ok()?)),
        _ => None,
    }
}

fn whole(number: f64) -> Option<i64> {
    // Beyond 2^53 a double is not one whole number but several.
    (number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0).then_some(number as i64)
}

fn number(value: &Value) -> Option<Value> {
    match value {
        Value::Number(_) => Some(value.clone()),
        Value::String(text) => serde_json::Number::from_f64(text.trim().parse().ok()?).map(Value::Number),
        _ => None,
    }
}

fn in_bounds(value: Value, schema: &Value) -> Result<Value, String> {
    let number = value.as_f64().unwrap_or(f64::NAN);
    let (least, most) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
    if least.is_none_or(|least| number >= least) && most.is_none_or(|most| number <= most) {
        return Ok(value);
    }
    Err(match (least, most) {
        (Some(least), Some(most)) => format!("must be between {least} and {most}, not {value}"),
        (Some(least), None) => format!("must be at least {least}, not {value}"),
        (None, Some(most)) => format!("must be at most {most}, not {value}"),
        (None, None) => format!("is out of bounds: {value}"),
    })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().count() <= 60 => format!("'{text}'"),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => kind(value).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{AwaitOutput, OpenTerminal, RunWorkflow, SendInput};

    fn refused<V: Verb>(parameters: Value) -> Vec<String> {
        match read::<V>(parameters) {
            Ok(_) => panic!("was taken"),
            Err(error) => error.problems,
        }
    }

    #[test]
    fn parameters_are_taken_flat_and_wrapped() {
        for parameters in [
            json!({"session_id": "s", "input_text": "ls\n"}),
            json!({"request": {"session_id": "s", "input_text": "ls\n"}}),
            json!({"request": "{\"session_id\": \"s\", \"input_text\": \"ls\\n\"}"}),
        ] {
            let read = read::<SendInput>(parameters).unwrap();
            assert_eq!((read.verb.session_id.as_str(), read.verb.input_text.as_str()), ("s", "ls\n"));
            assert!(read.warnings.is_empty());
        }
    }

    #[test]
    fn nothing_and_null_are_the_defaults() {
        for parameters in [Value::Null, json!({}), json!({"request": {}}), json!({"cols": null, "environment": null})] {
            let verb = read::<OpenTerminal>(parameters).unwrap().verb;
            assert_eq!((verb.shell.as_str(), verb.cols, verb.rows, verb.wait_ready), ("bash", 120, 40, true));
        }
    }

    #[test]
    fn numbers_lists_and_booleans_may_be_text() {
        let parameters = json!({"cols": "80", "rows": 24.0, "wait_ready": "False", "command": "[\"ls\", \"-l\"]"});
        let verb = read::<OpenTerminal>(parameters).unwrap().verb;
        assert_eq!((verb.cols, verb.rows, verb.wait_ready), (80, 24, false));
        assert_eq!(verb.command.unwrap(), ["ls", "-l"]);
        let wait = read::<AwaitOutput>(json!({"session_id": "s", "pattern": "x", "timeout": "2"})).unwrap().verb;
        assert!((wait.timeout - 2.0).abs() < f64::EPSILON);
    }

    #[test]
    fn variables_may_be_numbers() {
        let verb =
            read::<RunWorkflow>(json!({"workflow_file": "f", "initial_variables": {"n": 3, "b": true}})).unwrap().verb;
        assert_eq!(verb.initial_variables.unwrap()["n"], "3");
    }

    #[test]
    fn every_problem_is_named_with_its_field() {
        assert_eq!(
            refused::<OpenTerminal>(json!({"cols": "wide", "rows": 1, "environment": {"A": []}, "wait_ready": 2})),
            [
                "cols must be a whole number, not 'wide'",
                "rows must be between 2 and 1000, not 1",
                "environment must hold text under 'A', not a list",
                "wait_ready must be true or false, not 2",
            ]
        );
        assert_eq!(refused::<OpenTerminal>(json!([1])), ["parameters must be an object, not a list"]);
        assert_eq!(
            refused::<SendInput>(json!({"request": "{"}))[0].split(':').next(),
            Some("request is text but not JSON")
        );
    }

    #[test]
    fn a_choice_lists_what_can_be_chosen() {
        assert_eq!(
            refused::<AwaitOutput>(json!({"session_id": "s", "until": "forever"})),
            ["until must be one of match, prompt, exit, quiet, not 'forever'"]
        );
    }

    #[test]
    fn a_misspelt_field_is_reported_and_suggested() {
        let read = read::<SendInput>(json!({"session_id": "s", "input_txt": "x"})).unwrap();
        assert_eq!(read.warnings, ["unknown field 'input_txt' was ignored; did you mean 'input_text'?"]);
        assert_eq!(
            refused::<SendInput>(json!({"sesion_id": "s"})),
            ["session_id is required", "unknown field 'sesion_id' was ignored; did you mean 'session_id'?"]
        );
    }
}
