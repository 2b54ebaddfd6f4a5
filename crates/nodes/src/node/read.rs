//! The reader of node declarations, which reports all problems at once.

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
    /// Its name, unique in its workspace
    pub(super) id: NodeId,
    /// Its purpose, in a sentence
    #[serde(default)]
    pub(super) description: Option<String>,
    /// Seconds that one call of it may take
    #[serde(default)]
    pub(super) timeout: Option<Seconds>,
}

impl Node {
    /// Reads a declaration and checks everything that needs nothing else.
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
            problems.push(Problem::error("/type", "'type' must be a text"));
            return None;
        }
        None => {
            problems.push(Problem::error("", "'type' is missing"));
            return None;
        }
    };
    let common_keys = keys::<Common>();
    let of_all = |key: &String| common_keys.contains(key);
    let (common, own): (Map<String, Value>, Map<String, Value>) =
        fields.clone().into_iter().filter(|(key, _)| key != "type").partition(|(key, _)| of_all(key));
    let common: Option<Common> = checked(&common, "", "a node", &[], problems);
    let kind = kind.read(&own, &common_keys, problems);
    let Common { id, description, timeout } = common?;
    Some(Node { id, description, timeout, kind: kind? })
}

/// Reads an object as a `T`: its keys are those that `T` has, and `besides`, which are only suggested.
pub(crate) fn checked<T: DeserializeOwned + JsonSchema>(
    fields: &Map<String, Value>,
    pointer: &str,
    what: &str,
    besides: &[String],
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let known = keys::<T>();
    let mut right = Map::new();
    for (key, value) in fields {
        if !known.contains(key) {
            let candidates = known.iter().chain(besides).map(String::as_str);
            let message = format!("unknown key '{key}' in {what}{}", suggestion_or_known(key, candidates));
            problems.push(Problem::error(format!("{pointer}/{}", escaped(key)), message));
        } else if !value.is_null() {
            right.insert(key.clone(), value.clone());
        }
    }
    let mut is_right = true;
    loop {
        let error = match serde_path_to_error::deserialize(Value::Object(right.clone())) {
            Ok(read) if is_right => return Some(read),
            Ok(_) => return None,
            Err(error) => error,
        };
        let place = place(error.path());
        let message = error.inner().to_string().replace('`', "'");
        if message.contains("did not match any variant") {
            // The checks of its parts, one by one, have reported their problems.
            return None;
        }
        if let Some(missing) = message.strip_prefix("missing field ")
            && place.is_empty()
        {
            // An earlier check has reported a present and wrong field already; its removal makes further problems
            // visible.
            let is_there = fields.get(missing.trim_matches('\'')).is_some_and(|value| !value.is_null());
            if !is_there {
                problems.push(Problem::error(pointer, format!("{missing} is missing")));
            }
            return None;
        }
        is_right = false;
        problems.push(Problem::error(format!("{pointer}{place}"), message));
        let key = place.split('/').nth(1).map(|key| key.replace("~1", "/").replace("~0", "~"));
        if key.is_none_or(|key| right.shift_remove(&key).is_none()) {
            return None;
        }
    }
}

fn place(path: &Path) -> String {
    let mut place = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => place.push_str(&format!("/{index}")),
            Segment::Map { key } => place.push_str(&format!("/{}", escaped(key))),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    place
}

/// Writes a key as a part of a JSON pointer (RFC 6901).
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn keys<T: JsonSchema>() -> Vec<String> {
    schema_of::<T>()["properties"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
}
