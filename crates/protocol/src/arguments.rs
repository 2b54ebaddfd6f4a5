//! Tolerant parsing of the parameters of a verb.
//!
//! Models send numbers and lists as strings, `null` for omitted fields, and wrap all parameters in `{"request": …}`.
//! Values with a clear meaning are converted; others are refused with the field's name and the values that it accepts.
//! Names from other programs ([`SYNONYMS`]) are replaced by ours, with a warning. Any other unknown field is ignored
//! with a warning by verbs that only read, and refused by all others, which would otherwise do something unintended.

use serde_json::{Map, Value};

use crate::Verb;

/// A verb with its parsed parameters.
#[derive(Debug)]
pub struct ParsedVerb<V> {
    /// The verb with its parameters.
    pub verb: V,
    /// Warnings in whole sentences, about parameters that were ignored or renamed.
    pub warnings: Vec<String>,
}

/// Parameters that a verb does not accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.join("; "))]
pub struct InvalidArguments {
    /// All problems, each a fragment that names its field.
    pub problems: Vec<String>,
}

impl InvalidArguments {
    fn single(problem: impl Into<String>) -> Self {
        Self { problems: vec![problem.into()] }
    }
}

/// Parses the parameters of a request.
///
/// # Errors
/// If a required field is missing or a value is invalid. Lists all problems.
pub fn read<V: Verb>(parameters: Value) -> Result<ParsedVerb<V>, InvalidArguments> {
    let schema = V::schema();
    let mut fields = unwrap_request(parameters)?;
    let mut warnings = Vec::new();
    let mut problems = Vec::new();
    let known_fields = schema["properties"].as_object().expect("the schema of a verb has properties");
    let names: Vec<String> = fields.keys().cloned().collect();
    for name in names {
        match known_fields.get(&name) {
            None => {
                let value = fields.shift_remove(&name).unwrap_or_default();
                match resolve_synonym(&name, value, known_fields) {
                    Some((meaning, value)) if !fields.contains_key(meaning) => {
                        let inserted = convert_value(as_list(meaning, value), &known_fields[meaning])
                            .map(|value| fields.insert(meaning.to_owned(), value));
                        match inserted {
                            Ok(_) => warnings.push(format!("'{name}' was interpreted as '{meaning}'")),
                            Err(problem) => problems.push(format!("{name} {problem}")),
                        }
                    }
                    _ if V::TRAITS.read_only => {
                        warnings.push(format!("ignored {}", describe_unknown_field(&name, known_fields)));
                    }
                    _ => problems.push(describe_unknown_field(&name, known_fields)),
                }
            }
            Some(_) if fields[&name].is_null() => {
                fields.shift_remove(&name);
            }
            Some(field_schema) => {
                let value = fields[&name].take();
                match convert_value(as_list(&name, value), field_schema) {
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
        // Include the warnings, because an ignored field may be the missing one, misspelt.
        problems.extend(warnings);
        return Err(InvalidArguments { problems });
    }
    let verb =
        serde_json::from_value(Value::Object(fields)).map_err(|error| InvalidArguments::single(error.to_string()))?;
    Ok(ParsedVerb { verb, warnings })
}

/// Checks parameters against a verb's schema without parsing them. Returns each problem with the name of its field.
///
/// Values for which `is_unresolved` returns true are not known yet and are not checked.
pub fn check(
    schema: &Value,
    parameters: &Map<String, Value>,
    is_unresolved: impl Fn(&Value) -> bool,
) -> Vec<(String, String)> {
    let empty = Map::new();
    let known_fields = schema["properties"].as_object().unwrap_or(&empty);
    let mut problems = Vec::new();
    for (name, value) in parameters {
        match known_fields.get(name) {
            None => problems.push((
                name.clone(),
                suggest_field(name, known_fields).map_or_else(
                    || format!("unknown parameter '{name}'"),
                    |candidate| format!("unknown parameter '{name}'; did you mean '{candidate}'?"),
                ),
            )),
            Some(schema) if !value.is_null() && !is_unresolved(value) => {
                if let Err(problem) = convert_value(value.clone(), schema) {
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

/// Returns whether parameters are wrapped: `{"request": {…}}` or `{"request": "{…}"}`, as some clients send them.
#[must_use]
pub fn is_wrapped(parameters: &Map<String, Value>) -> bool {
    parameters.len() == 1 && parameters.contains_key("request")
}

/// Unwraps parameters that are wrapped in a `request`. An invalid `request` stays unchanged, and [`read`] reports its
/// problem.
#[must_use]
pub fn unwrapped(parameters: Map<String, Value>) -> Map<String, Value> {
    if !is_wrapped(&parameters) {
        return parameters;
    }
    unwrap_request(Value::Object(parameters.clone())).unwrap_or(parameters)
}

fn unwrap_request(parameters: Value) -> Result<Map<String, Value>, InvalidArguments> {
    match parameters {
        Value::Null => Ok(Map::new()),
        Value::Object(mut fields) => {
            if !is_wrapped(&fields) {
                return Ok(fields);
            }
            match fields.get_mut("request").map(Value::take) {
                None => Ok(fields),
                Some(Value::String(text)) => match serde_json::from_str(&text) {
                    Ok(Value::Object(inner)) => Ok(inner),
                    Ok(other) => {
                        Err(InvalidArguments::single(format!("request must be an object, not {}", type_name(&other))))
                    }
                    Err(error) => Err(InvalidArguments::single(format!("request is a string but not JSON: {error}"))),
                },
                Some(Value::Object(inner)) => Ok(inner),
                Some(Value::Null) => Ok(Map::new()),
                Some(other) => {
                    Err(InvalidArguments::single(format!("request must be an object, not {}", type_name(&other))))
                }
            }
        }
        other => Err(InvalidArguments::single(format!("parameters must be an object, not {}", type_name(&other)))),
    }
}

/// Names of fields in other programs, and our names. Times in milliseconds are converted to seconds.
const SYNONYMS: &[(&str, &str)] = &[
    ("arguments", "initial_variables"),
    ("cmd", "command"),
    ("columns", "cols"),
    ("cwd", "working_directory"),
    ("dir", "working_directory"),
    ("directory", "working_directory"),
    ("env", "environment"),
    ("input", "input_text"),
    ("inputs", "initial_variables"),
    ("key", "keys"),
    ("name", "workflow_name"),
    ("regex", "pattern"),
    ("run_id", "run_ids"),
    ("session", "session_id"),
    ("session", "session_ids"),
    ("session_id", "session_ids"),
    ("state", "status"),
    ("status", "state"),
    ("terminal", "session_id"),
    ("terminal", "session_ids"),
    ("terminal_id", "session_id"),
    ("text", "input_text"),
    ("timeout_ms", "timeout"),
    ("timeout_seconds", "timeout"),
    ("variables", "initial_variables"),
    ("workdir", "working_directory"),
    ("workflow", "workflow_name"),
    ("workflow_id", "workflow_name"),
    ("workflow_id", "name"),
    ("workflow_name", "name"),
    ("workflow_name", "workflow_id"),
];

/// List fields that also accept a single item without a list.
const LIST_FIELDS: &[&str] = &["keys", "run_ids", "session_ids"];

/// Wraps the single item of a list field in a list; returns other values unchanged.
fn as_list(name: &str, value: Value) -> Value {
    match &value {
        Value::String(text) if LIST_FIELDS.contains(&name) && !text.starts_with("[\"") => Value::Array(vec![value]),
        _ => value,
    }
}

/// Returns the field that the synonym `name` means, with the value in its unit.
fn resolve_synonym(name: &str, value: Value, known_fields: &Map<String, Value>) -> Option<(&'static str, Value)> {
    let meaning = field_for_synonym(name, known_fields)?;
    let value = match name.strip_suffix("_ms").and_then(|_| parse_number(&value)?.as_f64()) {
        Some(milliseconds) => serde_json::Number::from_f64(milliseconds / 1000.0).map_or(value, Value::Number),
        None => value,
    };
    Some((meaning, value))
}

/// Describes an unknown field, with the most similar known field or a list of all fields.
fn describe_unknown_field(name: &str, known_fields: &Map<String, Value>) -> String {
    let short_name: String = name.chars().take(60).collect();
    match most_similar_field(name, known_fields) {
        Some(candidate) => format!("unknown field '{short_name}', did you mean '{candidate}'?"),
        None if known_fields.is_empty() => format!("unknown field '{short_name}', there are no fields"),
        None => {
            let fields: Vec<&str> = known_fields.keys().map(String::as_str).collect();
            format!("unknown field '{short_name}', the fields are {}", fields.join(", "))
        }
    }
}

/// Returns the known field that `name` probably means: by [`SYNONYMS`], or the field with the most similar name.
fn suggest_field<'a>(name: &str, known_fields: &'a Map<String, Value>) -> Option<&'a str> {
    field_for_synonym(name, known_fields).or_else(|| most_similar_field(name, known_fields))
}

/// Returns the known field for `name` in [`SYNONYMS`].
fn field_for_synonym(name: &str, known_fields: &Map<String, Value>) -> Option<&'static str> {
    let synonym = SYNONYMS.iter().find(|(word, meaning)| *word == name && known_fields.contains_key(*meaning));
    synonym.map(|(_, meaning)| *meaning)
}

/// Returns the known field whose name is most similar to `name`, if any is similar enough.
fn most_similar_field<'a>(name: &str, known_fields: &'a Map<String, Value>) -> Option<&'a str> {
    known_fields
        .keys()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate.as_str()))
        .filter(|(similarity, _)| *similarity > 0.75)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, candidate)| candidate)
}

/// Problem of a value. The message follows the field name.
#[derive(Debug, thiserror::Error)]
enum ValueError {
    /// The value has the wrong type, or is not among the choices.
    #[error("must be {expected}, not {actual}")]
    Wrong {
        /// Values that the field accepts.
        expected: String,
        /// The value, shortened for display.
        actual: String,
    },
    /// An item of a list is invalid.
    #[error("has an item that {0}")]
    Item(Box<Self>),
    /// The string for an object is not JSON.
    #[error("is a string but not JSON: {0}")]
    NotJson(serde_json::Error),
    /// A value of an object of strings is not a string.
    #[error("must have strings as values; '{name}' is {actual}")]
    NotString {
        /// The key of the value.
        name: String,
        /// The type of the value.
        actual: &'static str,
    },
    /// A number is too small or too large.
    #[error("{}", out_of_bounds(*.min, *.max, .actual))]
    OutOfBounds {
        /// Minimum of the field.
        min: Option<f64>,
        /// Maximum of the field.
        max: Option<f64>,
        /// The rejected number.
        actual: Value,
    },
}

fn out_of_bounds(min: Option<f64>, max: Option<f64>, actual: &Value) -> String {
    match (min, max) {
        (Some(min), Some(max)) => format!("must be between {min} and {max}, not {actual}"),
        (Some(min), None) => format!("must be at least {min}, not {actual}"),
        (None, Some(max)) => format!("must be at most {max}, not {actual}"),
        (None, None) => format!("is out of bounds: {actual}"),
    }
}

/// Converts `value` to the type of the schema.
fn convert_value(value: Value, schema: &Value) -> Result<Value, ValueError> {
    let wrong_value = |value: &Value, expected: &str| {
        Err(ValueError::Wrong { expected: expected.to_owned(), actual: describe_value(value) })
    };
    match (schema["type"].as_str(), value) {
        (Some("integer"), value) => match parse_integer(&value) {
            Some(number) => check_bounds(number.into(), schema),
            None => wrong_value(&value, "a whole number"),
        },
        (Some("number"), value) => match parse_number(&value) {
            Some(number) => check_bounds(number, schema),
            None => wrong_value(&value, "a number"),
        },
        (Some("boolean"), Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true.into()),
        (Some("boolean"), Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false.into()),
        (Some("boolean"), value) if !value.is_boolean() => wrong_value(&value, "true or false"),
        (Some("string"), value) => match (schema["enum"].as_array(), value.as_str()) {
            (_, None) => wrong_value(&value, "a string"),
            (Some(choices), Some(_)) if !choices.contains(&value) => {
                let choices: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
                wrong_value(&value, &format!("one of {}", choices.join(", ")))
            }
            _ => Ok(value),
        },
        (Some("array"), Value::String(text)) => match serde_json::from_str::<Value>(&text) {
            Ok(list @ Value::Array(_)) => convert_value(list, schema),
            _ => wrong_value(&Value::String(text), "a list"),
        },
        (Some("array"), Value::Array(items)) => {
            let items = items.into_iter().map(|item| convert_value(item, &schema["items"]));
            items.collect::<Result<Vec<_>, _>>().map(Value::Array).map_err(|error| ValueError::Item(Box::new(error)))
        }
        (Some("array"), value) => wrong_value(&value, "a list"),
        (Some("object"), Value::String(text)) => match serde_json::from_str::<Value>(&text) {
            Ok(object @ Value::Object(_)) => convert_value(object, schema),
            Ok(_) => wrong_value(&Value::String(text), "an object"),
            Err(error) => Err(ValueError::NotJson(error)),
        },
        (Some("object"), Value::Object(fields)) => stringify_values(fields, schema).map(Value::Object),
        (Some("object"), value) => wrong_value(&value, "an object"),
        (_, value) => Ok(value),
    }
}

/// Converts numbers and booleans to strings in an object whose values must be strings.
fn stringify_values(mut fields: Map<String, Value>, schema: &Value) -> Result<Map<String, Value>, ValueError> {
    if schema["additionalProperties"]["type"] == "string" {
        for (name, value) in &mut fields {
            match value {
                Value::String(_) => {}
                Value::Number(_) | Value::Bool(_) => *value = Value::String(value.to_string()),
                other => return Err(ValueError::NotString { name: name.clone(), actual: type_name(other) }),
            }
        }
    }
    Ok(fields)
}

fn parse_integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| integer_from_f64(number.as_f64()?)),
        Value::String(text) => text.trim().parse().ok().or_else(|| integer_from_f64(text.trim().parse().ok()?)),
        _ => None,
    }
}

fn integer_from_f64(number: f64) -> Option<i64> {
    // Beyond 2^53 a double does not represent each integer.
    (number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0).then_some(number as i64)
}

fn parse_number(value: &Value) -> Option<Value> {
    match value {
        Value::Number(_) => Some(value.clone()),
        Value::String(text) => serde_json::Number::from_f64(text.trim().parse().ok()?).map(Value::Number),
        _ => None,
    }
}

fn check_bounds(value: Value, schema: &Value) -> Result<Value, ValueError> {
    let number = value.as_f64().unwrap_or(f64::NAN);
    let (min, max) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
    if min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max) {
        return Ok(value);
    }
    Err(ValueError::OutOfBounds { min, max, actual: value })
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn describe_value(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().count() <= 60 => format!("'{text}'"),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => type_name(value).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        AwaitOutput, CaptureWorkflow, DeleteWorkflow, DescribeWorkflow, ListWorkflowRuns, OpenTerminal, RunCommand,
        RunWorkflow, SendInput,
    };

    fn problems<V: Verb>(parameters: Value) -> Vec<String> {
        match read::<V>(parameters) {
            Ok(_) => panic!("the parameters were accepted"),
            Err(error) => error.problems,
        }
    }

    #[test]
    fn parameters_may_be_flat_or_wrapped() {
        for parameters in [
            json!({"session_id": "s", "input_text": "ls\n"}),
            json!({"request": {"session_id": "s", "input_text": "ls\n"}}),
            json!({"request": "{\"session_id\": \"s\", \"input_text\": \"ls\\n\"}"}),
        ] {
            let input = read::<SendInput>(parameters).unwrap();
            assert_eq!((input.verb.session_id.as_str(), input.verb.input_text.as_str()), ("s", "ls\n"));
            assert!(input.warnings.is_empty());
        }
    }

    #[test]
    fn missing_and_null_parameters_have_defaults() {
        for parameters in [Value::Null, json!({}), json!({"request": {}}), json!({"cols": null, "environment": null})] {
            let verb = read::<OpenTerminal>(parameters).unwrap().verb;
            assert_eq!((verb.shell.as_str(), verb.cols, verb.rows, verb.wait_ready), ("bash", 120, 40, true));
        }
    }

    #[test]
    fn numbers_lists_and_booleans_may_be_strings() {
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
        assert_eq!(verb.initial_variables.unwrap()["n"], 3);
    }

    #[test]
    fn every_problem_names_its_field() {
        assert_eq!(
            problems::<OpenTerminal>(json!({"cols": "wide", "rows": 1, "environment": {"A": []}, "wait_ready": 2})),
            [
                "cols must be a whole number, not 'wide'",
                "rows must be between 2 and 1000, not 1",
                "environment must have strings as values; 'A' is a list",
                "wait_ready must be true or false, not 2",
            ]
        );
        assert_eq!(problems::<OpenTerminal>(json!([1])), ["parameters must be an object, not a list"]);
        assert_eq!(
            problems::<SendInput>(json!({"request": "{"}))[0].split(':').next(),
            Some("request is a string but not JSON")
        );
    }

    #[test]
    fn unknown_choice_lists_the_choices() {
        assert_eq!(
            problems::<AwaitOutput>(json!({"session_id": "s", "until": "forever"})),
            ["until must be one of match, prompt, input, exit, quiet, not 'forever'"]
        );
    }

    #[test]
    fn read_only_verb_ignores_unknown_field_with_a_warning() {
        let wait = read::<AwaitOutput>(json!({"session_id": "s", "patern": "x"})).unwrap();
        assert_eq!(wait.warnings, ["ignored unknown field 'patern', did you mean 'pattern'?"]);
        assert_eq!(wait.verb.pattern, "");
    }

    #[test]
    fn other_verb_refuses_unknown_field() {
        assert_eq!(
            problems::<SendInput>(json!({"session_id": "s", "input_txt": "x"})),
            ["unknown field 'input_txt', did you mean 'input_text'?"]
        );
        assert_eq!(
            problems::<SendInput>(json!({"sesion_id": "s"})),
            ["unknown field 'sesion_id', did you mean 'session_id'?", "session_id is required"]
        );
        let [problem] = problems::<RunCommand>(json!({"command": "ls", "enter": true})).try_into().unwrap();
        assert!(
            problem.starts_with("unknown field 'enter', the fields are ") && problem.contains("command"),
            "{problem}"
        );
    }

    #[test]
    fn synonym_is_accepted_with_a_warning() {
        let command = read::<RunCommand>(json!({"cmd": "ls", "cwd": "/", "timeout_ms": "1500"})).unwrap();
        assert_eq!((command.verb.command.as_str(), command.verb.working_directory.as_deref()), ("ls", Some("/")));
        assert!((command.verb.timeout - 1.5).abs() < f64::EPSILON);
        assert_eq!(
            command.warnings,
            [
                "'cmd' was interpreted as 'command'",
                "'cwd' was interpreted as 'working_directory'",
                "'timeout_ms' was interpreted as 'timeout'"
            ]
        );
        let keys = |value: Value| read::<SendInput>(json!({"session_id": "s", "keys": value})).unwrap().verb.keys;
        assert_eq!(keys(json!("ctrl-c")), Some(vec!["ctrl-c".to_owned()]));
        assert_eq!(keys(json!("[\"up\", \"enter\"]")), keys(json!(["up", "enter"])));
        let run = read::<RunWorkflow>(json!({"workflow": "build", "arguments": {"A": "1"}})).unwrap().verb;
        assert_eq!(run.workflow_name.as_deref(), Some("build"));
        assert_eq!(run.initial_variables.map(|variables| variables.len()), Some(1));
        let describe = read::<DescribeWorkflow>(json!({"workflow_name": "build"})).unwrap().verb;
        let delete = read::<DeleteWorkflow>(json!({"workflow_name": "build"})).unwrap().verb;
        assert_eq!((describe.name.as_str(), delete.name.as_str()), ("build", "build"));
        let list = read::<ListWorkflowRuns>(json!({"status": "failed"})).unwrap().verb;
        assert_eq!(list.state.as_deref(), Some("failed"));
        let session_ids =
            |name: &str| read::<CaptureWorkflow>(json!({name: "build", "name": "x"})).unwrap().verb.session_ids;
        assert_eq!(
            (session_ids("session_id"), session_ids("terminal")),
            (vec!["build".to_owned()], vec!["build".to_owned()])
        );
        // Our own name takes precedence, and the other one is then unknown.
        let [problem] =
            problems::<SendInput>(json!({"session_id": "s", "input_text": "a", "text": "b"})).try_into().unwrap();
        assert!(problem.starts_with("unknown field 'text', the fields are "), "{problem}");
        assert_eq!(
            problems::<RunCommand>(json!({"command": "ls", "timeout_ms": -1})),
            ["timeout_ms must be between 0.1 and 3600, not -0.001"]
        );
    }
}
