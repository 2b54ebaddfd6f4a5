//! One file of functions in the library: its text, and the statistics of its runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_ids::{InvalidId, WorkflowName};

use crate::document::{Status, to_rfc3339};
use crate::{FileError, Signature, Stamp};

/// A file of functions in the library.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionFile {
    /// The name without the suffix.
    pub name: WorkflowName,
    /// The source text.
    pub text: String,
    /// The metadata, with the hash of the current text. The workflows of an edited text are drafts.
    pub metadata: FunctionMetadata,
    /// Error of reading the metadata, if the reading failed.
    pub metadata_error: Option<String>,
}

/// Metadata of a file of functions, kept in `NAME.meta.json` next to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FunctionMetadata {
    /// The signature of the text.
    pub hash: Signature,
    /// Time of the first load, in RFC 3339.
    pub created: String,
    /// Version number of the text, starting at 1.
    pub version: u32,
    /// The source file of a loaded file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The declarations at the time of loading, for people who read the file. The library does not use them.
    pub declares: Vec<Declares>,
    /// The runs of its workflows, by their ids.
    pub workflows: BTreeMap<String, Counts>,
    /// Keys written by a newer build; kept unchanged.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The source file of a loaded text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The path; a relative path begins at the directory that contains the library.
    pub file: PathBuf,
    /// The signature of its text at the time of loading.
    pub hash: Signature,
}

/// A summary of a file's declaration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declares {
    /// The id.
    pub id: String,
    /// `workflow`, `graph`, or the type of a node.
    pub kind: String,
    /// The purpose, as its author wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The statistics of the runs of a workflow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Draft or proven.
    pub status: Status,
    /// Number of its finished runs.
    pub run_count: u64,
    /// Number of runs that achieved the purpose of the workflow.
    pub success_count: u64,
    /// End time of the last run, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run: Option<String>,
    /// The ids of the last counted runs, at most 32, so that no run counts twice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<String>,
}

/// Maximum number of ids of counted runs in the metadata of a workflow: more than can finish at the same time.
const MAX_COUNTED_RUNS: usize = 32;

/// A file of functions, not yet read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFunctions {
    /// File name within the directory.
    pub file: String,
    /// The name without the suffix, or the error if that is not a workflow name.
    pub name: Result<WorkflowName, InvalidId>,
    /// The stamp of the file; `None` for anything but a regular file.
    pub stamp: Option<Stamp>,
    /// The stamp of its metadata.
    pub metadata_stamp: Option<Stamp>,
}

impl FunctionMetadata {
    /// Reads the metadata of a file with this text. Invalid metadata count as missing, and their error is returned.
    pub(crate) fn read(bytes: Result<Option<Vec<u8>>, FileError>, text: &str) -> (Self, Option<FileError>) {
        let parsed = bytes.and_then(|bytes| match bytes {
            Some(bytes) => serde_json::from_slice::<Self>(&bytes).map(Some).map_err(FileError::Form),
            None => Ok(None),
        });
        let (metadata, error) = match parsed {
            Ok(metadata) => (metadata.unwrap_or_default(), None),
            Err(reason) => (Self::default(), Some(reason)),
        };
        (metadata.for_text(text), error)
    }

    /// Returns the metadata for this text. A different text becomes the next version.
    pub(crate) fn for_text(mut self, text: &str) -> Self {
        let hash = Signature::of_text(text);
        if self.hash != hash {
            self.version = self.version.saturating_add(1);
            self.workflows.values_mut().for_each(|counts| counts.status = Status::Draft);
            self.hash = hash;
        }
        self
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("all keys are strings");
        text.push('\n');
        text
    }

    /// Returns whether a user has edited the text in the library since it was loaded.
    #[must_use]
    pub fn is_edited(&self) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.hash != self.hash)
    }
}

impl Counts {
    /// Returns whether the run `run` is already counted.
    #[must_use]
    pub fn has_counted(&self, run: &str) -> bool {
        self.counted.iter().any(|counted| counted == run)
    }

    pub(crate) fn count(&mut self, run: &str, has_succeeded: bool, ended_at: SystemTime) {
        if self.counted.len() >= MAX_COUNTED_RUNS {
            self.counted.remove(0);
        }
        self.counted.push(run.to_owned());
        self.run_count = self.run_count.saturating_add(1);
        self.last_run = Some(to_rfc3339(ended_at));
        if has_succeeded {
            self.success_count = self.success_count.saturating_add(1);
            self.status = Status::Proven;
        }
    }
}
