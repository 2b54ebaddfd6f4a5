//! The versions of machines: earlier definitions of a workflow, with their times, authors and reasons.
//!
//! Owns `.versions/NAME/N.json` of a library, one file for each saved version. Keeps the newest 50, even after the
//! removal of the workflow. Git ignores these files, because it has versions of its own.

use std::path::PathBuf;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steplatch_ids::WorkflowName;

use crate::directory::{self, DirectoryLock};
use crate::document::{MAX_FILE_BYTES, Stored, to_rfc3339};
use crate::{DirectoryError, Library, LookupError, Signature};

/// The directory of all versions, within the library's directory.
const VERSIONS_DIRECTORY: &str = ".versions";

/// Maximum number of versions that are kept for a workflow.
pub const MAX_VERSIONS: usize = 50;

/// Maximum size on disk of a version without its definition, in bytes.
const MAX_METADATA_BYTES: usize = 16 << 10;

/// Maximum length of an author's or surface's name, in characters.
const MAX_NAME_CHARS: usize = 200;

/// Maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 1000;

/// Version of the file format. Files of a newer format are ignored.
const FORMAT: u32 = 1;

/// Author of a version, and the reason for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// Name of the person, client or run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The surface: the command line, an MCP client, the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// The reason, as the author wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Author {
    /// Shortens the strings to their limits and drops blank strings.
    fn shorten(self) -> Self {
        let shorten = |text: Option<String>, max_chars: usize| {
            text.map(|text| text.chars().take(max_chars).collect::<String>()).filter(|text| !text.trim().is_empty())
        };
        Self {
            by: shorten(self.by, MAX_NAME_CHARS),
            through: shorten(self.through, MAX_NAME_CHARS),
            reason: shorten(self.reason, MAX_REASON_CHARS),
        }
    }
}

/// A version of a workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedVersion {
    /// Version number, starting at 1. Numbers increase and are never reused.
    pub version: u32,
    /// The saved definition.
    pub definition: Value,
    /// The signature of the definition.
    pub hash: Signature,
    /// Time of the save, in RFC 3339; `None` if its file has none.
    pub saved_at: Option<String>,
    /// The author.
    pub author: Author,
    /// True for the version with the current definition of the workflow.
    pub is_current: bool,
}

/// Error of looking up a version.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    /// The workflow has other versions.
    #[error("workflow '{name}' has no version {version}; there are {}", list_numbers(.available))]
    NoVersion {
        /// The workflow.
        name: WorkflowName,
        /// The version.
        version: u32,
        /// The existing versions, the newest first.
        available: Vec<u32>,
    },
    /// The workflow has no versions, or reading them failed.
    #[error(transparent)]
    Lookup(#[from] LookupError),
}

fn list_numbers(versions: &[u32]) -> String {
    versions.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// The content of a version's file.
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
    /// Returns the versions of a workflow, newest first. A removed workflow has no current version.
    ///
    /// # Errors
    /// If there is neither a workflow nor a version of that name, or the file of the workflow is broken.
    pub fn versions(&self, name: &WorkflowName) -> Result<Vec<SavedVersion>, LookupError> {
        let current = match self.get(name) {
            Ok(stored) => Some(stored),
            Err(LookupError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let mut versions: Vec<SavedVersion> = self.read_versions(name)?;
        if let Some(Stored { definition, metadata, .. }) = current {
            let recorded = versions.iter_mut().find(|version| version.version == metadata.version);
            match recorded.filter(|version| version.hash == metadata.hash) {
                Some(version) => {
                    // The name and the description may differ.
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
    /// Same as [`Self::versions`], or if there is no version of that number.
    pub fn version(&self, name: &WorkflowName, version: u32) -> Result<SavedVersion, VersionError> {
        let versions = self.versions(name)?;
        let available: Vec<u32> = versions.iter().map(|version| version.version).collect();
        let found = versions.into_iter().find(|found| found.version == version);
        found.ok_or_else(|| VersionError::NoVersion { name: name.clone(), version, available })
    }

    /// Removes the versions of a workflow except the current one. Returns their number.
    ///
    /// # Errors
    /// If writing to the directory fails.
    pub fn forget_versions(&self, name: &WorkflowName) -> Result<usize, DirectoryError> {
        let recorded = self.version_numbers(name)?;
        if recorded.is_empty() {
            return Ok(0);
        }
        let lock = DirectoryLock::wait(self.directory())?;
        let current = self.get(name).ok().map(|stored| stored.metadata.version);
        let mut forgotten = 0;
        for version in recorded {
            if Some(version) != current && lock.remove(&file_name(name, version))? {
                forgotten += 1;
            }
        }
        Ok(forgotten)
    }

    /// Returns the number of the next version of a workflow whose current version is `current`.
    pub(crate) fn next_version(&self, name: &WorkflowName, current: u32) -> Result<u32, DirectoryError> {
        let newest = self.version_numbers(name)?.into_iter().max().unwrap_or(0);
        Ok(newest.max(current).saturating_add(1))
    }

    /// Records the current version before its replacement, unless it has a record. Returns the number of the version: a
    /// new number if another definition's record has the same number.
    pub(crate) fn record_replaced(&self, lock: &DirectoryLock<'_>, stored: &Stored) -> Result<u32, DirectoryError> {
        let Stored { name, definition, metadata } = stored;
        let recorded = self.read_version(name, metadata.version);
        let version = match recorded {
            Some(recorded) if recorded.hash == metadata.hash => return Ok(metadata.version),
            // A copied file may have a number that is in use here.
            Some(_) => self.next_version(name, metadata.version)?,
            None => metadata.version,
        };
        self.put_version(
            lock,
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
        self.read_version(name, metadata.version).is_some_and(|recorded| recorded.hash == metadata.hash)
    }

    /// Records a saved definition and removes the oldest versions beyond the limit.
    pub(crate) fn record_saved(
        &self,
        lock: &DirectoryLock<'_>,
        stored: &Stored,
        author: &Author,
    ) -> Result<(), DirectoryError> {
        let Stored { name, definition, metadata } = stored;
        self.put_version(
            lock,
            name,
            VersionFile {
                format: FORMAT,
                version: metadata.version,
                saved_at: Some(to_rfc3339(SystemTime::now())),
                author: author.clone().shorten(),
                definition: definition.clone(),
            },
        )?;
        let mut numbers = self.version_numbers(name)?;
        numbers.sort_unstable_by_key(|number| std::cmp::Reverse(*number));
        for number in numbers.into_iter().skip(MAX_VERSIONS) {
            lock.remove(&file_name(name, number))?;
        }
        Ok(())
    }

    fn put_version(
        &self,
        lock: &DirectoryLock<'_>,
        name: &WorkflowName,
        file: VersionFile,
    ) -> Result<(), DirectoryError> {
        lock.create_directory(VERSIONS_DIRECTORY)?;
        if !self.directory().join(VERSIONS_DIRECTORY).join(".gitignore").exists() {
            lock.replace(&format!("{VERSIONS_DIRECTORY}/.gitignore"), b"*\n")?;
        }
        lock.create_directory(&format!("{VERSIONS_DIRECTORY}/{name}"))?;
        let mut text = serde_json::to_string_pretty(&file).expect("all keys are strings");
        text.push('\n');
        lock.replace(&file_name(name, file.version), text.as_bytes())
    }

    /// Reads the recorded versions and ignores other files.
    fn read_versions(&self, name: &WorkflowName) -> Result<Vec<SavedVersion>, DirectoryError> {
        let numbers = self.version_numbers(name)?;
        Ok(numbers.into_iter().filter_map(|version| self.read_version(name, version)).collect())
    }

    fn read_version(&self, name: &WorkflowName, version: u32) -> Option<SavedVersion> {
        let file = self.directory().join(file_name(name, version));
        let text = directory::read(&file, MAX_FILE_BYTES + MAX_METADATA_BYTES).ok()??;
        let file: VersionFile = serde_json::from_slice(&text).ok()?;
        let is_valid = file.format <= FORMAT && file.version == version && file.definition.is_object();
        is_valid.then(|| SavedVersion {
            version,
            hash: Signature::of_value(&file.definition),
            definition: file.definition,
            saved_at: file.saved_at,
            author: file.author,
            is_current: false,
        })
    }

    /// Returns the numbers of the recorded versions.
    fn version_numbers(&self, name: &WorkflowName) -> Result<Vec<u32>, DirectoryError> {
        let files = directory::files(&versions_directory(self, name), ".json")?;
        Ok(files.iter().filter_map(|file| file.name.to_str()?.strip_suffix(".json")?.parse().ok()).collect())
    }
}

fn versions_directory(library: &Library, name: &WorkflowName) -> PathBuf {
    library.directory().join(VERSIONS_DIRECTORY).join(name.as_str())
}

fn file_name(name: &WorkflowName, version: u32) -> String {
    format!("{VERSIONS_DIRECTORY}/{name}/{version}.json")
}
