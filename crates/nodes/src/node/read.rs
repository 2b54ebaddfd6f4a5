//! The reader of node declarations. Reports all problems at once.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::{Path, Segment};
use steplatch_workflow::{Problem, Problems, suggestion, suggestion_or_known};

use super::schema::schema_of;
use super::{Node, NodeId, Seconds};
use crate::kind::NodeType;

/// Properties of a declaration of every kind.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Common {
    /// Name of the node, unique in its workspace
    pub(super) id: NodeId,
    /// Purpose of the node, in one sentence
    #[serde(default)]
    pub(super) description: Option<String>,
    /// Time limit of one call, in seconds
    #[serde(default)]
    pub(super) timeout: Option<Seconds>,
}

impl Node {
    /// Parses a declaration and checks it without its context.
    ///
    /// # Errors
    /// Returns every problem, each with a JSON pointer.
    pub fn parse(document: &Value) -> Result<Self, Problems> {
        let mut problems = Vec::new();
        let node = parse(document, &mut problems);
        match node {
            Some(node) if problems.is_empty() => Ok(node),
            _ => Err(Problems::new(problems)),
        }
    }

    /// Returns warnings for the author; the node can run.
    #[must_use]
    pub fn warnings(&self) -> Vec<Problem> {
        self.kind.warnings()
    }
}

fn parse(document: &Value, problems: &mut Vec<Problem>) -> Option<Node> {
    let Value::Object(fields) = document else {
        problems.push(Problem::error("", "a node must be an object"));
        return None;
    };
    let kind = match fields.get("type") {
        Some(Value::String(word)) => match NodeType::ALL.iter().find(|(_, known)| known == word) {
            Some((kind, _)) => *kind,
            None => {
                let words: Vec<&str> = NodeType::ALL.iter().map(|(_, word)| *word).collect();
                let nearest = suggestion(word, words.iter().copied());
                let nearest = if nearest.is_empty() { format!("; there are {}", words.join(", ")) } else { nearest };
                problems.push(Problem::error("/type", format!("there is no node of type '{word}'{nearest}")));
                return None;
            }
        },
        Some(_) => {
            problems.push(Problem::error("/type", "'type' must be a string"));
            return None;
        }
        None => {
            problems.push(Problem::error("", "'type' is missing"));
            return None;
        }
    };
    let common_keys = keys::<Common>();
    let is_common = |key: &String| common_keys.contains(key);
    let (common, own_fields): (Map<String, Value>, Map<String, Value>) =
        fields.clone().into_iter().filter(|(key, _)| key != "type").partition(|(key, _)| is_common(key));
    let common: Option<Common> = read_object(&common, "", "a node", &[], problems);
    let kind = kind.read(&own_fields, &common_keys, problems);
    let Common { id, description, timeout } = common?;
    Some(Node { id, description, timeout, kind: kind? })
}

/// Reads an object as a `T` and reports all problems. An error about an unknown key may suggest a key of `T` or one of
/// `suggested_keys`.
pub(crate) fn read_object<T: DeserializeOwned + JsonSchema>(
    fields: &Map<String, Value>,
    pointer: &str,
    subject: &str,
    suggested_keys: &[String],
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let known_keys = keys::<T>();
    let mut valid_fields = Map::new();
    for (key, value) in fields {
        if !known_keys.contains(key) {
            let candidates = known_keys.iter().chain(suggested_keys).map(String::as_str);
            let message = format!("unknown key '{key}' in {subject}{}", suggestion_or_known(key, candidates));
            problems.push(Problem::error(format!("{pointer}/{}", escape_key(key)), message));
        } else if !value.is_null() {
            valid_fields.insert(key.clone(), value.clone());
        }
    }
    let mut is_valid = true;
    loop {
        let error = match serde_path_to_error::deserialize(Value::Object(valid_fields.clone())) {
            Ok(read) => {
                let properties = &schema_of::<T>()["properties"];
                let range_problems = valid_fields.iter().filter_map(|(key, value)| {
                    Some(Problem::error(
                        format!("{pointer}/{}", escape_key(key)),
                        range_error(&properties[key], value)?,
                    ))
                });
                problems.extend(range_problems);
                return Some(read).filter(|_| is_valid);
            }
            Err(error) => error,
        };
        let suffix = json_pointer(error.path());
        let message = error.inner().to_string().replace('`', "'");
        if message.contains("did not match any variant") {
            // The check of each variant has already reported its problems.
            return None;
        }
        if let Some(missing) = message.strip_prefix("missing field ")
            && suffix.is_empty()
        {
            // A present field was invalid: it has been reported, and removed to find further problems.
            let is_present = fields.get(missing.trim_matches('\'')).is_some_and(|value| !value.is_null());
            if !is_present {
                problems.push(Problem::error(pointer, format!("{missing} is missing")));
            }
            return None;
        }
        is_valid = false;
        problems.push(Problem::error(format!("{pointer}{suffix}"), message));
        let key = suffix.split('/').nth(1).map(|key| key.replace("~1", "/").replace("~0", "~"));
        if key.is_none_or(|key| valid_fields.shift_remove(&key).is_none()) {
            return None;
        }
    }
}

/// Returns the error for a number outside the range of its property. The type may have a larger range.
fn range_error(property: &Value, value: &Value) -> Option<String> {
    let number = value.as_f64()?;
    let [minimum, maximum] = ["minimum", "maximum"].map(|bound| property[bound].as_f64());
    let is_within = minimum.is_none_or(|minimum| number >= minimum) && maximum.is_none_or(|maximum| number <= maximum);
    (!is_within).then(|| match (minimum, maximum) {
        (Some(minimum), Some(maximum)) => format!("{number} is not a number from {minimum} to {maximum}"),
        (Some(minimum), None) => format!("{number} is less than {minimum}"),
        (None, maximum) => format!("{number} is more than {}", maximum.unwrap_or_default()),
    })
}

fn json_pointer(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } => pointer.push_str(&format!("/{}", escape_key(key))),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    pointer
}

/// Writes a key as a part of a JSON pointer (RFC 6901).
fn escape_key(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn keys<T: JsonSchema>() -> Vec<String> {
    schema_of::<T>()["properties"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
}
