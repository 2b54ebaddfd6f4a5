//! The entries of a list, and the index file that saves reading all other files for it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_ids::WorkflowName;

use crate::document::{self, MAX_FILE_BYTES, Metadata};
use crate::folder::{self, FoundFile, Stamp};
use crate::functions::ABOUT;
use crate::{FileError, FolderError, Stored};

/// The name of the file. No workflow can have this name.
pub(crate) const FILE: &str = "index.json";
/// Raised when the meaning of an entry changes; the library replaces an index with another format.
const FORMAT: u32 = 2;
/// Maximum size of an index, in bytes; a larger file is not an index.
const MAX_INDEX_BYTES: usize = 256 << 20;

/// A workflow, as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub name: WorkflowName,
    /// Its purpose, in its author's words.
    pub description: Option<String>,
    /// The variables that it takes, as its author wrote them.
    pub arguments: Map<String, Value>,
    /// The variables that it leaves, as its author wrote them.
    pub return_values: Map<String, Value>,
    /// Number of its states.
    pub state_count: usize,
    /// Its metadata.
    pub metadata: Metadata,
}

/// A file that is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    /// Its name within the folder.
    pub file: String,
    /// Its defect.
    pub reason: String,
}

/// Everything in the library.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// The workflows, by name.
    pub entries: Vec<Entry>,
    /// The files that are not workflows, by name.
    pub broken: Vec<Broken>,
}

#[derive(Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Index {
    format: u32,
    files: Vec<Indexed>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Indexed {
    stamp: Option<Stamp>,
    #[serde(flatten)]
    told: CachedListing,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CachedListing {
    Entry(Box<Entry>),
    Broken(Broken),
}

impl Index {
    /// Reads the index; an empty one when there is no valid one.
    pub(crate) fn read(folder: &std::path::Path) -> Self {
        let text = folder::read(&folder.join(FILE), MAX_INDEX_BYTES).ok().flatten();
        let read: Option<Self> = text.and_then(|text| serde_json::from_slice(&text).ok());
        read.filter(|index| index.format == FORMAT).unwrap_or_default()
    }

    /// Returns the index of the current files, reading those that this one does not know.
    pub(crate) fn renewed(&self, folder: &std::path::Path) -> Result<Self, FolderError> {
        let known: HashMap<String, &Indexed> = self.files.iter().map(|known| (known.told.file(), known)).collect();
        let files = folder::files(folder, ".json")?.into_iter().filter(|found| {
            let name = found.name.to_string_lossy();
            // The metadata of functions are not a workflow, and not a mistake of a person.
            name != FILE && !name.ends_with(ABOUT)
        });
        let renew = |found: FoundFile| {
            let same = known.get(&*found.name.to_string_lossy()).filter(|known| known.stamp == found.stamp);
            match same {
                // A file may be readable by now after a failed read, without a trace in its stamp.
                Some(known) if found.stamp.is_some() && matches!(known.told, CachedListing::Entry(_)) => {
                    Some((*known).clone())
                }
                _ => Some(Indexed { stamp: found.stamp.clone(), told: CachedListing::read_file(&found)? }),
            }
        };
        Ok(Self { format: FORMAT, files: files.filter_map(renew).collect() })
    }

    /// Returns the text of the file.
    pub(crate) fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("texts are the only keys");
        text.push('\n');
        text
    }

    pub(crate) fn into_listing(self) -> Listing {
        let mut listing = Listing::default();
        for file in self.files {
            match file.told {
                CachedListing::Entry(entry) => listing.entries.push(*entry),
                CachedListing::Broken(broken) => listing.broken.push(broken),
            }
        }
        listing.entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        listing
    }
}

impl CachedListing {
    /// Reads a file; none if it was removed in the meantime.
    fn read_file(found: &FoundFile) -> Option<Self> {
        let file = found.name.to_string_lossy().into_owned();
        let read = name(&file).and_then(|name| match folder::read(&found.path, MAX_FILE_BYTES)? {
            Some(text) => document::read(&name, &text).map(Some),
            None => Ok(None),
        });
        match read {
            Ok(stored) => stored.map(|stored| Self::Entry(Box::new(Entry::from_stored(&stored)))),
            Err(error) => Some(Self::Broken(Broken { file, reason: error.to_string() })),
        }
    }

    fn file(&self) -> String {
        match self {
            Self::Entry(entry) => format!("{}.json", entry.name),
            Self::Broken(broken) => broken.file.clone(),
        }
    }
}

impl Entry {
    fn from_stored(stored: &Stored) -> Self {
        let description = stored.definition.get("description").and_then(Value::as_str);
        let object = |key: &str| stored.definition.get(key).and_then(Value::as_object);
        Self {
            name: stored.name.clone(),
            description: description.map(str::to_owned),
            arguments: object("arguments").cloned().unwrap_or_default(),
            return_values: object("return_values").cloned().unwrap_or_default(),
            state_count: object("states").map_or(0, Map::len),
            metadata: stored.metadata.clone(),
        }
    }
}

fn name(file: &str) -> Result<WorkflowName, FileError> {
    let stem = file.strip_suffix(".json").unwrap_or(file);
    stem.parse().map_err(FileError::Name)
}
