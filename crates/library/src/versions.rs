//! The versions of machines: earlier definitions of a workflow, each with its time, its author and the reason.
//!
//! Owns `.versions/NAME/N.json` of a library, one file for each saved version. Keeps the newest 50, also after the
//! removal of the workflow. Git ignores them, since it has its own versions.

use std::path::PathBuf;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steplatch_ids::WorkflowName;

use crate::document::{MAX_FILE_BYTES, Stored, to_rfc3339};
use crate::folder::{self, FolderLock};
use crate::{FolderError, Library, LookupError, Signature};

/// The directory of all versions, in that of the library.
const FOLDER: &str = ".versions";

/// Maximum number of kept versions of a workflow.
pub const MAX_VERSIONS: usize = 50;

/// Maximum size on disk of a version without its definition, in bytes.
const MAX_METADATA_BYTES: usize = 16 << 10;

/// Maximum length of the name of an author or of a surface, in characters.
const MAX_NAME_CHARS: usize = 200;

/// Maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 1000;

/// Version of the form of a file. Files of a newer one remain untouched.
const FORMAT: u32 = 1;

/// Author of a version, and the reason for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// The person, the client or the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The surface: the command line, an MCP client, the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// The reason, in the author's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Author {
    /// Returns it with texts that a file can hold.
    fn bounded(self) -> Self {
        let bounded = |text: Option<String>, max_chars: usize| {
            text.map(|text| text.chars().take(max_chars).collect::<String>()).filter(|text| !text.trim().is_empty())
        };
        Self {
            by: bounded(self.by, MAX_NAME_CHARS),
            through: bounded(self.through, MAX_NAME_CHARS),
            reason: bounded(self.reason, MAX_REASON_CHARS),
        }
    }
}

/// A version of a workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedVersion {
    /// Its number, from 1. Numbers grow, and do not repeat.
    pub version: u32,
    /// The definition of the save.
    pub definition: Value,
    /// The signature of the definition.
    pub hash: Signature,
    /// Time of the save, as in RFC 3339; `None` where its file has none.
    pub saved_at: Option<String>,
    /// Its author.
    pub author: Author,
    /// True if the name refers to it now.
    pub is_current: bool,
}

/// Error of looking up a version.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    /// There are versions, and not this one.
    #[error("workflow '{name}' has no version {version}; there are {}", in_words(.there))]
    NoVersion {
        /// The workflow.
        name: WorkflowName,
        /// The version.
        version: u32,
        /// The versions that are there, the newest first.
        there: Vec<u32>,
    },
    /// The workflow has no versions, or reading them failed.
    #[error(transparent)]
    Lookup(#[from] LookupError),
}

fn in_words(versions: &[u32]) -> String {
    versions.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// One file.
#[derive(Serialize, Deserialize)]
struct VersionFile {
    format: u32,
    version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    saved_at: Option<String>,
    #[serde(flatten)]
    author: Author,
    definition: Value,
}

impl Library {
    /// Returns the versions of a workflow, the newest first. A removed one has versions, none of which is current.
    ///
    /// # Errors
    /// If there is neither a workflow of that name nor a version, or the file of the workflow is broken.
    pub fn versions(&self, name: &WorkflowName) -> Result<Vec<SavedVersion>, LookupError> {
        let current = match self.get(name) {
            Ok(stored) => Some(stored),
            Err(LookupError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let mut versions: Vec<SavedVersion> = self.recorded(name)?;
        if let Some(Stored { definition, metadata, .. }) = current {
            let recorded = versions.iter_mut().find(|version| version.version == metadata.version);
            match recorded.filter(|version| version.hash == metadata.hash) {
                Some(version) => {
                    // Its name and description may be other ones.
                    (version.definition, version.is_current) = (definition, true);
                }
                None => {
                    versions.retain(|version| version.version != metadata.version);
                    versions.push(SavedVersion {
                        version: metadata.version,
                        definition,
                        hash: metadata.hash,
                        saved_at: None,
                        author: Author::default(),
                        is_current: true,
                    });
                }
            }
        }
        if versions.is_empty() {
            return Err(LookupError::NotFound { name: name.clone() });
        }
        versions.sort_unstable_by_key(|version| std::cmp::Reverse(version.version));
        Ok(versions)
    }

    /// Returns one version of a workflow.
    ///
    /// # Errors
    /// If there is none of that number, or as [`Self::versions`].
    pub fn version(&self, name: &WorkflowName, version: u32) -> Result<SavedVersion, VersionError> {
        let versions = self.versions(name)?;
        let available: Vec<u32> = versions.iter().map(|version| version.version).collect();
        let found = versions.into_iter().find(|found| found.version == version);
        found.ok_or_else(|| VersionError::NoVersion { name: name.clone(), version, there: available })
    }

    /// Forgets the versions of a workflow but the current one. Returns how many there were.
    ///
    /// # Errors
    /// If writing to the directory fails.
    pub fn forget_versions(&self, name: &WorkflowName) -> Result<usize, FolderError> {
        let recorded = self.numbers(name)?;
        if recorded.is_empty() {
            return Ok(0);
        }
        let locked = FolderLock::wait(self.folder())?;
        let current = self.get(name).ok().map(|stored| stored.metadata.version);
        let mut forgotten = 0;
        for version in recorded {
            if Some(version) != current && locked.remove(&file_name(name, version))? {
                forgotten += 1;
            }
        }
        Ok(forgotten)
    }

    /// Returns the number that the next version of a workflow gets, where `current` is there now.
    pub(crate) fn next_version(&self, name: &WorkflowName, current: u32) -> Result<u32, FolderError> {
        let newest = self.numbers(name)?.into_iter().max().unwrap_or(0);
        Ok(newest.max(current).saturating_add(1))
    }

    /// Records the current version before its replacement, unless it has a record. Returns its number, which is another
    /// one where another definition has that number.
    pub(crate) fn record_replaced(&self, locked: &FolderLock<'_>, stored: &Stored) -> Result<u32, FolderError> {
        let Stored { name, definition, metadata } = stored;
        let known = self.read_version(name, metadata.version);
        let version = match known {
            Some(known) if known.hash == metadata.hash => return Ok(metadata.version),
            // A file that came from elsewhere may have a number that is in use here.
            Some(_) => self.next_version(name, metadata.version)?,
            None => metadata.version,
        };
        self.put_version(
            locked,
            name,
            VersionFile {
                format: FORMAT,
                version,
                saved_at: None,
                author: Author::default(),
                definition: definition.clone(),
            },
        )?;
        Ok(version)
    }

    /// Returns whether the current version of a workflow has an unchanged record.
    pub(crate) fn has_record(&self, stored: &Stored) -> bool {
        let Stored { name, metadata, .. } = stored;
        self.read_version(name, metadata.version).is_some_and(|known| known.hash == metadata.hash)
    }

    /// Records the definition just saved, and forgets the oldest versions beyond the limit.
    pub(crate) fn record_saved(
        &self,
        locked: &FolderLock<'_>,
        stored: &Stored,
        author: &Author,
    ) -> Result<(), FolderError> {
        let Stored { name, definition, metadata } = stored;
        self.put_version(
            locked,
            name,
            VersionFile {
                format: FORMAT,
                version: metadata.version,
                saved_at: Some(to_rfc3339(SystemTime::now())),
                author: author.clone().bounded(),
                definition: definition.clone(),
            },
        )?;
        let mut numbers = self.numbers(name)?;
        numbers.sort_unstable_by_key(|number| std::cmp::Reverse(*number));
        for old in numbers.into_iter().skip(MAX_VERSIONS) {
            locked.remove(&file_name(name, old))?;
        }
        Ok(())
    }

    fn put_version(&self, locked: &FolderLock<'_>, name: &WorkflowName, file: VersionFile) -> Result<(), FolderError> {
        locked.make(FOLDER)?;
        if !self.folder().join(FOLDER).join(".gitignore").exists() {
            locked.put(&format!("{FOLDER}/.gitignore"), b"*\n")?;
        }
        locked.make(&format!("{FOLDER}/{name}"))?;
        let mut text = serde_json::to_string_pretty(&file).expect("texts are the only keys");
        text.push('\n');
        locked.put(&file_name(name, file.version), text.as_bytes())
    }

    /// Returns the recorded versions. Leaves out other files.
    fn recorded(&self, name: &WorkflowName) -> Result<Vec<SavedVersion>, FolderError> {
        let numbers = self.numbers(name)?;
        Ok(numbers.into_iter().filter_map(|version| self.read_version(name, version)).collect())
    }

    fn read_version(&self, name: &WorkflowName, version: u32) -> Option<SavedVersion> {
        let file = self.folder().join(file_name(name, version));
        let text = folder::read(&file, MAX_FILE_BYTES + MAX_METADATA_BYTES).ok()??;
        let file: VersionFile = serde_json::from_slice(&text).ok()?;
        let is_sound = file.format <= FORMAT && file.version == version && file.definition.is_object();
        is_sound.then(|| SavedVersion {
            version,
            hash: Signature::of_value(&file.definition),
            definition: file.definition,
            saved_at: file.saved_at,
            author: file.author,
            is_current: false,
        })
    }

    /// Returns the numbers of the recorded versions.
    fn numbers(&self, name: &WorkflowName) -> Result<Vec<u32>, FolderError> {
        let found = folder::files(&versions_folder(self, name), ".json")?;
        Ok(found.iter().filter_map(|found| found.name.to_str()?.strip_suffix(".json")?.parse().ok()).collect())
    }
}

fn versions_folder(library: &Library, name: &WorkflowName) -> PathBuf {
    library.folder().join(FOLDER).join(name.as_str())
}

fn file_name(name: &WorkflowName, version: u32) -> String {
    format!("{FOLDER}/{name}/{version}.json")
}
