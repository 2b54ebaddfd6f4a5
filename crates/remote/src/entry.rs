//! One workflow of a service, as offered by the daemon.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::answer_error::EntryError;
use crate::text::clean;
use crate::{metadata, schema};

/// Maximum length of an id; a longer one is invalid.
const MAX_ID_CHARS: usize = 200;
/// Maximum length of a displayed title.
const MAX_TITLE_CHARS: usize = 200;
/// Maximum length of a displayed description. Common clients pass up to 2,048 characters to a model.
const MAX_DESCRIPTION_CHARS: usize = 1_000;
/// Maximum length of a category or a version.
const MAX_WORD_CHARS: usize = 60;

/// A workflow of a remote service. Its texts are cleaned but still untrusted: see
/// [`RemoteWorkflow::description_with_origin`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RemoteWorkflow {
    /// Id of the workflow at the service, as in paths; 1 to 200 characters.
    pub id: String,
    /// Title of the workflow; never empty, at most 200 characters.
    pub title: String,
    /// Description of the workflow; at most 1,000 characters.
    pub description: String,
    /// Category of the workflow; by default `workflow`.
    pub category: String,
    /// Version of the workflow; by default `1.0.0`.
    pub version: String,
    /// JSON Schema of the input, cleaned: an object, without references to other documents.
    pub input_schema: Value,
    /// Parts of the service's schema that were omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Callers' way of waiting for a run of the workflow.
    pub execution: Execution,
    /// Additional fields from the service, cleaned: at most 8 KiB and eight levels.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "metadata::read")]
    pub metadata: Option<Map<String, Value>>,
    /// Hash of the title, description and schema as the service sent them: SHA-256 in hexadecimal.
    pub hash: String,
}

/// Callers' way of waiting for a run of a workflow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Execution {
    /// A call waits until the run has ended.
    Sync,
    /// A call may return while the run continues.
    #[default]
    Async,
}

impl RemoteWorkflow {
    /// Reads one entry of a list. Accepts both forms of entries: `name` and `inputSchema`, `title` and `inputs`.
    ///
    /// # Errors
    ///
    /// If the entry cannot be offered, as a sentence without a full stop.
    pub fn read(entry: &Value) -> Result<Self, EntryError> {
        let Value::Object(fields) = entry else { return Err(EntryError::NotObject) };
        let id = parse_id(fields.get("id")).ok_or(EntryError::NoId)?;
        let raw_title = first_text(fields, &["title", "name"]);
        let title = clean(raw_title.unwrap_or_default(), MAX_TITLE_CHARS);
        if title.is_empty() {
            return Err(EntryError::NoTitle);
        }
        let raw_description = first_text(fields, &["description"]);
        let description = match clean(raw_description.unwrap_or_default(), MAX_DESCRIPTION_CHARS) {
            description if description.is_empty() => format!("Workflow {id}"),
            description => description,
        };
        let raw_schema = fields.get("inputSchema").or_else(|| fields.get("inputs"));
        let schema = schema::clean(raw_schema.unwrap_or(&Value::Null));
        let word = |names: &[&str], default: &str| match clean(
            first_text(fields, names).unwrap_or_default(),
            MAX_WORD_CHARS,
        ) {
            word if word.is_empty() => default.to_owned(),
            word => word,
        };
        let is_sync =
            first_text(fields, &["executionType"]).is_some_and(|text| text.trim().eq_ignore_ascii_case("sync"));
        Ok(Self {
            hash: pin_hash(raw_title, raw_description, raw_schema),
            id,
            title,
            description,
            category: word(&["category"], "workflow"),
            version: word(&["version"], "1.0.0"),
            input_schema: schema.schema,
            notes: schema.notes,
            execution: if is_sync { Execution::Sync } else { Execution::Async },
            metadata: fields.get("metadata").and_then(metadata::clean),
        })
    }

    /// Returns the description preceded by its origin, for models and people.
    #[must_use]
    pub fn description_with_origin(&self, remote: &str) -> String {
        format!("From the workflow service '{remote}': {}", self.description)
    }
}

/// Parses an id: text or an integer. An unprintable id is invalid, and so is an id that no path can contain.
pub(crate) fn parse_id(value: Option<&Value>) -> Option<String> {
    let id = match value? {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_i64() || number.is_u64() => number.to_string(),
        _ => return None,
    };
    // As a path segment, one or two dots refer to another directory, in any encoding.
    let is_usable = !matches!(id.as_str(), "" | "." | "..") && clean(&id, MAX_ID_CHARS) == id;
    is_usable.then_some(id)
}

fn first_text<'a>(fields: &'a Map<String, Value>, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| fields.get(*name)?.as_str()).filter(|text| !text.trim().is_empty())
}

/// Returns the hash of the texts and the schema. It does not depend on the order of fields in the schema.
fn pin_hash(title: Option<&str>, description: Option<&str>, schema: Option<&Value>) -> String {
    let mut canonical = String::new();
    write_canonical(&serde_json::json!([title, description, schema]), &mut canonical);
    to_hexadecimal(&Sha256::digest(canonical))
}

/// Writes a value with sorted fields, as defined in RFC 8785.
fn write_canonical(value: &Value, output: &mut String) {
    match value {
        Value::Array(values) => {
            output.push('[');
            for value in values {
                write_canonical(value, output);
                output.push(',');
            }
            output.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            output.push('{');
            for (name, value) in fields {
                output.push_str(&Value::from(name.as_str()).to_string());
                output.push(':');
                write_canonical(value, output);
                output.push(',');
            }
            output.push('}');
        }
        scalar => output.push_str(&scalar.to_string()),
    }
}

pub(crate) fn to_hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
