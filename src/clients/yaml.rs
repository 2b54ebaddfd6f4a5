//! Server entries in YAML (<https://yaml.org/spec/1.2.2/>), as stored by goose: mappings in `extensions`.
//!
//! `yaml-edit` changes the syntax tree, so that comments, order and whitespace of everything else stay unchanged.

use serde_json::Value;
use yaml_edit::{Mapping, Scalar, YamlFile, YamlNode};

use super::entry::{FoundEntry, NAME};
use super::json::Change;
use super::text::{Unreadable, is_blank, line_end};

/// The mapping that contains the servers.
pub(super) const SERVERS: &str = "extensions";

/// Returns the document as a value.
pub(super) fn value(text: &str) -> Result<Value, Unreadable> {
    let root = parse(text)?.and_then(|file| root(&file));
    Ok(root.map_or_else(|| Value::Object(serde_json::Map::new()), |root| mapping_value(&root)))
}

/// Returns the steplatch entry, if there is one.
pub(super) fn find(text: &str) -> Result<Option<FoundEntry>, Unreadable> {
    let document = value(text)?;
    let not_a_mapping = |what: &str| Err(Unreadable::without_place(format!("{what} is not a mapping")));
    match (&document[SERVERS], &document[SERVERS][NAME]) {
        (Value::Null | Value::Object(_), Value::Null) => Ok(None),
        (_, entry @ Value::Object(_)) => Ok(Some(FoundEntry::from_value(entry))),
        (Value::Object(_), _) => not_a_mapping(&format!("the entry '{NAME}'")),
        _ => not_a_mapping(&format!("'{SERVERS}'")),
    }
}

/// Returns the text with the change applied.
pub(super) fn change(text: &str, change: Change<'_>) -> Result<String, Unreadable> {
    let Some((file, root)) = parse(text)?.and_then(|file| Some((file.clone(), root(&file)?))) else {
        let Change::Add(entry) = change else { return Ok(text.to_owned()) };
        let end = if is_blank(text) || text.ends_with('\n') { "" } else { "\n" };
        return Ok(
            format!("{text}{end}{SERVERS}:\n{}", indented(&format_lines(NAME, entry))).replace('\n', line_end(text))
        );
    };
    let servers = root.get_mapping(SERVERS);
    match (change, servers) {
        (Change::Add(entry), Some(servers)) => set(&servers, NAME, entry),
        (Change::Add(entry), None) => {
            let mut servers = serde_json::Map::new();
            servers.insert(NAME.to_owned(), entry.clone());
            set(&root, SERVERS, &Value::Object(servers));
        }
        (Change::Set(properties), Some(servers)) => {
            if let Some(entry) = servers.get_mapping(NAME) {
                properties.iter().for_each(|(name, value)| set(&entry, name, value));
            }
        }
        (Change::Remove, Some(servers)) => {
            servers.remove(NAME);
        }
        (Change::Set(_) | Change::Remove, None) => {}
    }
    Ok(file.to_string())
}

/// Parses a file. `None` if it has only whitespace and comments.
fn parse(text: &str) -> Result<Option<YamlFile>, Unreadable> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(None);
    }
    let file: YamlFile =
        text.parse().map_err(|error: yaml_edit::YamlError| Unreadable::without_place(error.to_string()))?;
    let mut documents = file.documents();
    match (documents.next().map(|document| document.as_mapping().is_some()), documents.next()) {
        (Some(true), None) => Ok(Some(file)),
        (_, Some(_)) => Err(Unreadable::without_place("it has several documents")),
        _ => Err(Unreadable::without_place("the document is not a mapping")),
    }
}

fn root(file: &YamlFile) -> Option<Mapping> {
    file.document()?.as_mapping()
}

/// Sets a property to a JSON value.
fn set(mapping: &Mapping, name: &str, value: &Value) {
    let node = format_lines(name, value).parse::<YamlFile>().ok().and_then(|file| root(&file)?.get(name));
    if let Some(value) = node {
        mapping.set(name, value);
    }
}

/// Formats a property in the lines of a block.
fn format_lines(name: &str, value: &Value) -> String {
    match value {
        Value::Object(properties) => {
            let nested: String = properties.iter().map(|(name, value)| format_lines(name, value)).collect();
            format!("{name}:\n{}", indented(&nested))
        }
        // Strings, numbers and lists of JSON are YAML, too.
        _ => format!("{name}: {value}\n"),
    }
}

fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("  {line}\n")).collect()
}

fn mapping_value(mapping: &Mapping) -> Value {
    let entries = mapping.iter().map(|(key, value)| (text_of(&key), node_value(&value)));
    Value::Object(entries.collect())
}

/// Returns the value of a node. A tag or an alias stays as its text.
fn node_value(node: &YamlNode) -> Value {
    if let Some(mapping) = node.as_mapping() {
        return mapping_value(mapping);
    }
    if let Some(sequence) = node.as_sequence() {
        return sequence.values().map(|value| node_value(&value)).collect();
    }
    if let Some(number) = node.to_i64() {
        return number.into();
    }
    if let Some(switch) = node.to_bool() {
        return switch.into();
    }
    match text_of(node) {
        text if text.is_empty() || text == "null" || text == "~" => Value::Null,
        text => text.into(),
    }
}

fn text_of(node: &YamlNode) -> String {
    node.as_scalar().map_or_else(|| node.to_string(), Scalar::as_string)
}
