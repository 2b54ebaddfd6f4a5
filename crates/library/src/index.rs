//! The entries of the list of workflows, and the index file that caches them.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_ids::WorkflowName;

use crate::directory::{self, FoundFile, Stamp};
use crate::document::{self, MAX_FILE_BYTES, Metadata};
use crate::functions::METADATA_SUFFIX;
use crate::{DirectoryError, FileError, Stored};

/// Name of the index file; no workflow can have this name.
pub(crate) const INDEX_FILE: &str = "index.json";
/// Version of the format. Raise it when the meaning of an entry changes; the library then rebuilds the index.
const FORMAT: u32 = 2;
/// Maximum size of an index, in bytes; a larger file is not an index.
const MAX_INDEX_BYTES: usize = 256 << 20;

/// A workflow in the list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The name.
    pub name: WorkflowName,
    /// The purpose, as its author wrote it.
    pub description: Option<String>,
    /// The arguments, as its author wrote them.
    pub arguments: Map<String, Value>,
    /// The return values, as its author wrote them.
    pub return_values: Map<String, Value>,
    /// Number of its states.
    pub state_count: usize,
    /// The metadata.
    pub metadata: Metadata,
}

/// An invalid file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    /// File name within the directory.
    pub file: String,
    /// The defect.
    pub reason: String,
}

/// The content of the library.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// The workflows, by name.
    pub entries: Vec<Entry>,
    /// The invalid files, by name.
    pub broken: Vec<Broken>,
}

#[derive(Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Index {
    format: u32,
    files: Vec<IndexedFile>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct IndexedFile {
    stamp: Option<Stamp>,
    #[serde(flatten)]
    listing: CachedListing,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CachedListing {
    Entry(Box<Entry>),
    Broken(Broken),
}

impl Index {
    /// Reads the index; an empty one if there is no valid one.
    pub(crate) fn read(directory: &std::path::Path) -> Self {
        let text = directory::read(&directory.join(INDEX_FILE), MAX_INDEX_BYTES).ok().flatten();
        let index: Option<Self> = text.and_then(|text| serde_json::from_slice(&text).ok());
        index.filter(|index| index.format == FORMAT).unwrap_or_default()
    }

    /// Returns the index of the current files. Reads the changed files first.
    pub(crate) fn refresh(&self, directory: &std::path::Path) -> Result<Self, DirectoryError> {
        let indexed: HashMap<String, &IndexedFile> =
            self.files.iter().map(|indexed| (indexed.listing.file_name(), indexed)).collect();
        let files = directory::files(directory, ".json")?.into_iter().filter(|found| {
            let name = found.name.to_string_lossy();
            // Metadata files of functions are not workflows.
            name != INDEX_FILE && !name.ends_with(METADATA_SUFFIX)
        });
        let index_file = |found: FoundFile| {
            let cached = indexed.get(&*found.name.to_string_lossy()).filter(|indexed| indexed.stamp == found.stamp);
            match cached {
                // A file that was unreadable may be readable now, with the same stamp.
                Some(indexed) if found.stamp.is_some() && matches!(indexed.listing, CachedListing::Entry(_)) => {
                    Some((*indexed).clone())
                }
                _ => Some(IndexedFile { stamp: found.stamp.clone(), listing: CachedListing::read_file(&found)? }),
            }
        };
        Ok(Self { format: FORMAT, files: files.filter_map(index_file).collect() })
    }

    /// Returns the text of the file.
    pub(crate) fn to_text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("all keys are strings");
        text.push('\n');
        text
    }

    pub(crate) fn into_listing(self) -> Listing {
        let mut listing = Listing::default();
        for file in self.files {
            match file.listing {
                CachedListing::Entry(entry) => listing.entries.push(*entry),
                CachedListing::Broken(broken) => listing.broken.push(broken),
            }
        }
        listing.entries.sort_unstable_by(|first, second| first.name.cmp(&second.name));
        listing
    }
}

impl CachedListing {
    /// Reads a file; `None` if it was removed in the meantime.
    fn read_file(found: &FoundFile) -> Option<Self> {
        let file = found.name.to_string_lossy().into_owned();
        let stored = parse_name(&file).and_then(|name| match directory::read(&found.path, MAX_FILE_BYTES)? {
            Some(text) => document::read(&name, &text).map(Some),
            None => Ok(None),
        });
        match stored {
            Ok(stored) => stored.map(|stored| Self::Entry(Box::new(Entry::from_stored(&stored)))),
            Err(error) => Some(Self::Broken(Broken { file, reason: error.to_string() })),
        }
    }

    fn file_name(&self) -> String {
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

fn parse_name(file: &str) -> Result<WorkflowName, FileError> {
    let stem = file.strip_suffix(".json").unwrap_or(file);
    stem.parse().map_err(FileError::Name)
}
