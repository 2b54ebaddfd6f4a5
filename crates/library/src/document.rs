//! One file of the library: a definition, and the statistics of its runs.

use std::time::SystemTime;

use jiff::{Timestamp, Unit};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use steplatch_ids::WorkflowName;

use crate::{FileError, Signature};

/// Maximum size of a saved workflow on disk, in bytes. The largest permitted machines take a tenth of it.
pub(crate) const MAX_FILE_BYTES: usize = 1 << 20;

/// Status of a workflow: a draft, or known to work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// New, or edited since its last completed run.
    #[default]
    Draft,
    /// A run of this definition has completed.
    Proven,
}

/// Metadata of a workflow, stored next to its definition.
///
/// Read key by key: other programs also write such files. A value of an unexpected type is considered missing, so that
/// invalid metadata never make a definition unreadable.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Value")]
pub struct Metadata {
    /// The signature of the definition.
    pub hash: Signature,
    /// Time of the first save, in RFC 3339.
    pub created: String,
    /// Version number, starting at 1; a change of behaviour increases it. Stored as text, `"1.0"` for 1; a number
    /// is valid too.
    #[serde(serialize_with = "serialize_version")]
    pub version: u32,
    /// Draft or proven.
    pub status: Status,
    /// Number of its finished runs.
    pub run_count: u64,
    /// Number of runs that achieved the purpose of the workflow.
    pub success_count: u64,
    /// End time of the last run, in RFC 3339.
    pub last_run: Option<String>,
    /// Number of states that the last run executed.
    pub total_states: u64,
    /// Keys written by a newer build or another program; kept unchanged.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Metadata {
    /// Returns whether the counts include a run that finished at `time` or later, to the second.
    #[must_use]
    pub fn counts(&self, time: SystemTime) -> bool {
        // The formatted times sort chronologically.
        self.last_run.as_ref().is_some_and(|last| *last >= to_rfc3339(time))
    }

    /// Returns whether the workflow was first saved at `time` or later, to the second.
    #[must_use]
    pub fn is_created_since(&self, time: SystemTime) -> bool {
        self.created >= to_rfc3339(time)
    }
}

impl From<Value> for Metadata {
    fn from(value: Value) -> Self {
        let mut fields = match value {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        Self {
            hash: take_field(&mut fields, "hash"),
            created: take_field(&mut fields, "created"),
            version: fields.shift_remove("version").map_or(0, |version| parse_version(&version)),
            status: take_field(&mut fields, "status"),
            run_count: take_field(&mut fields, "run_count"),
            success_count: take_field(&mut fields, "success_count"),
            last_run: take_field(&mut fields, "last_run"),
            total_states: take_field(&mut fields, "total_states"),
            other: fields,
        }
    }
}

/// Takes a value out of `fields`; the default if it is missing or of another type.
fn take_field<T: DeserializeOwned + Default>(fields: &mut Map<String, Value>, key: &str) -> T {
    fields.shift_remove(key).and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
}

/// Reads a version: the integer part of a number, or of a string that begins with a number. Any other value counts as
/// 1.
fn parse_version(value: &Value) -> u32 {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    text[..digits].parse().unwrap_or(1)
}

// serde requires this signature.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn serialize_version<S: Serializer>(version: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{version}.0"))
}

/// A saved workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Name of the workflow and of its file.
    pub name: WorkflowName,
    /// Definition, including the name.
    pub definition: Value,
    /// The metadata of the workflow, with the hash of the current definition. An edited definition is a draft.
    pub metadata: Metadata,
}

#[derive(Serialize, Deserialize)]
struct File {
    definition: Value,
    #[serde(default)]
    metadata: Metadata,
}

/// Reads the file of the workflow `name`.
///
/// # Errors
/// The defect of the file.
pub(crate) fn read(name: &WorkflowName, text: &[u8]) -> Result<Stored, FileError> {
    let value: Value = serde_json::from_slice(text).map_err(FileError::NotJson)?;
    if !value.is_object() {
        return Err(FileError::NotObject);
    }
    let File { definition, mut metadata } = serde_json::from_value(value).map_err(FileError::Form)?;
    if !definition.is_object() {
        return Err(FileError::Definition);
    }
    let hash = Signature::of_value(&definition);
    if metadata.hash != hash {
        metadata.status = Status::Draft;
        // Without a hash, an edit and a save by another program look the same.
        if !metadata.hash.as_str().is_empty() || metadata.version == 0 {
            metadata.version = metadata.version.saturating_add(1);
        }
        metadata.hash = hash;
    }
    Ok(Stored { name: name.clone(), definition: with_name(definition, name), metadata })
}

/// Returns the text of the file. It is deterministic, with the keys in document order.
pub(crate) fn to_text(stored: &Stored) -> String {
    let file = File { definition: stored.definition.clone(), metadata: stored.metadata.clone() };
    let mut text = serde_json::to_string_pretty(&file).expect("all keys are strings");
    text.push('\n');
    text
}

/// Returns the definition with `name` as its name. The name becomes the first key if the definition had none.
pub(crate) fn with_name(definition: Value, name: &WorkflowName) -> Value {
    let Value::Object(mut fields) = definition else { return definition };
    let value = Value::from(name.as_str());
    match fields.get_mut("name") {
        Some(old) => *old = value,
        None => {
            fields.shift_insert(0, "name".to_owned(), value);
        }
    }
    Value::Object(fields)
}

/// Returns a time in RFC 3339, to the second; 1970 for an invalid time.
pub(crate) fn to_rfc3339(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).and_then(|time| time.round(Unit::Second));
    time.unwrap_or(Timestamp::UNIX_EPOCH).to_string()
}
