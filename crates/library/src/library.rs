//! Saving, listing and removing workflows.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;
use steplatch_ids::WorkflowName;

use crate::directory::{self, DirectoryLock};
use crate::document::{self, MAX_FILE_BYTES, Metadata, Status, Stored, to_rfc3339};
use crate::index::{self, Index, Listing};
use crate::{Author, CreateError, DirectoryError, LookupError, ReplaceError, Signature};

/// Maximum length of a name, in characters: see [`WorkflowName`].
const MAX_NAME_CHARS: usize = 64;

/// A library of saved workflows. Cheap to create: it holds only the path of its directory.
#[derive(Debug, Clone)]
pub struct Library {
    directory: PathBuf,
}

/// The result of saving a workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaveOutcome {
    /// True for a new file; false if the library had an equal workflow.
    pub saved: bool,
    /// The name of the workflow in the library.
    pub name: WorkflowName,
}

impl Library {
    /// Returns the library in `directory`. Saving the first workflow creates the directory.
    #[must_use]
    pub fn open(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Returns the directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of a workflow's file. The file need not exist.
    #[must_use]
    pub fn file(&self, name: &WorkflowName) -> PathBuf {
        self.directory.join(file_name(name))
    }

    /// Saves a definition by its name, as a draft. Replaces a workflow of that name only if `overwrite`, and keeps its
    /// counts; also its status, if the definitions are equivalent. Otherwise the definition becomes the next version,
    /// and the previous version stays available.
    ///
    /// # Errors
    /// If the name is in use, missing or invalid, the definition is too long, or writing to the directory fails.
    pub fn create(&self, definition: &Value, overwrite: bool, author: &Author) -> Result<Stored, CreateError> {
        let fields = definition.as_object().ok_or(CreateError::NotAnObject)?;
        let name: WorkflowName = fields.get("name").and_then(Value::as_str).ok_or(CreateError::NoName)?.parse()?;
        if is_reserved(&name) {
            return Err(CreateError::ReservedName { name });
        }
        check_length(definition)?;
        let hash = Signature::of_value(definition);
        let lock = DirectoryLock::wait(&self.directory)?;
        match self.read(&name) {
            Err(LookupError::NotFound { .. }) => {}
            _ if !overwrite => return Err(CreateError::Exists { name }),
            Ok(old) => return self.save_next(&lock, old, definition, author),
            Err(LookupError::Broken { .. }) => {}
            Err(LookupError::Directory(error)) => return Err(error.into()),
        }
        let metadata = self.initial_metadata(&name, hash, Status::Draft)?;
        let stored = Stored { name, definition: definition.clone(), metadata };
        self.save_new(&lock, &stored, author)?;
        Ok(stored)
    }

    /// Replaces the definition `before` with `after` as the next version, under one lock. Returns `None` if the
    /// workflow has another definition now. If the workflow has `after` already, a killed process may have saved the
    /// version without its author; this call then adds the author.
    ///
    /// # Errors
    /// If no workflow has that name, its file is broken, `after` is too long, or writing to the directory fails.
    pub fn replace(
        &self,
        name: &WorkflowName,
        (before, after): (&Value, &Value),
        author: &Author,
    ) -> Result<Option<Stored>, ReplaceError> {
        check_length(after)?;
        if !self.directory.is_dir() {
            return Err(LookupError::NotFound { name: name.clone() }.into());
        }
        let lock = DirectoryLock::wait(&self.directory).map_err(CreateError::from)?;
        let current = self.read(name)?;
        if current.definition == *after {
            if !self.has_record(&current) {
                self.record_saved(&lock, &current, author).map_err(CreateError::from)?;
            }
            return Ok(Some(current));
        }
        if current.definition != *before {
            return Ok(None);
        }
        Ok(Some(self.save_next(&lock, current, after, author)?))
    }

    /// Replaces a definition. The new one becomes the next version, unless the two are equivalent.
    fn save_next(
        &self,
        lock: &DirectoryLock<'_>,
        mut old: Stored,
        definition: &Value,
        author: &Author,
    ) -> Result<Stored, CreateError> {
        let hash = Signature::of_value(definition);
        if old.metadata.hash == hash {
            old.definition = definition.clone();
            self.put(lock, &old)?;
            return Ok(old);
        }
        let replaced = self.record_replaced(lock, &old)?;
        let version = self.next_version(&old.name, replaced)?;
        let metadata = Metadata { hash, version, status: Status::Draft, ..old.metadata };
        let stored = Stored { name: old.name, definition: definition.clone(), metadata };
        self.save_new(lock, &stored, author)?;
        Ok(stored)
    }

    /// Saves a definition whose run completed: as `name`, otherwise by its own name, otherwise as `workflow_` with its
    /// signature. Appends `_2`, `_3` and so on if a file or `is_taken` claims the name. Does not save a definition that
    /// is equivalent to a saved one; the saved definition becomes proven.
    ///
    /// # Errors
    /// As [`Self::create`]; a taken name is not an error.
    pub fn keep_proven(
        &self,
        definition: &Value,
        name: Option<&WorkflowName>,
        is_taken: &dyn Fn(&WorkflowName) -> bool,
        author: &Author,
    ) -> Result<SaveOutcome, CreateError> {
        let fields = definition.as_object().ok_or(CreateError::NotAnObject)?;
        let hash = Signature::of_value(definition);
        let preferred_name = match (name, fields.get("name").and_then(Value::as_str)) {
            (Some(name), _) => name.clone(),
            (None, Some(name)) => name.parse()?,
            (None, None) => format!("workflow_{}", hash.short()).parse()?,
        };
        check_length(definition)?;
        let lock = DirectoryLock::wait(&self.directory)?;
        let listing = Index::read(&self.directory).refresh(&self.directory)?.into_listing();
        let equivalents = || listing.entries.iter().filter(|entry| entry.metadata.hash == hash);
        if let Some(entry) = equivalents().find(|entry| entry.name == preferred_name).or_else(|| equivalents().next()) {
            // Read the file, because the index has only a part of it.
            if entry.metadata.status == Status::Draft
                && let Ok(mut stored) = self.read(&entry.name)
                && stored.metadata.hash == hash
            {
                stored.metadata.status = Status::Proven;
                self.put(&lock, &stored)?;
            }
            return Ok(SaveOutcome { saved: false, name: entry.name.clone() });
        }
        let name = self.free_name(&preferred_name, is_taken);
        let definition = document::with_name(definition.clone(), &name);
        let metadata = self.initial_metadata(&name, hash, Status::Proven)?;
        self.save_new(&lock, &Stored { name: name.clone(), definition, metadata }, author)?;
        Ok(SaveOutcome { saved: true, name })
    }

    /// Reads a saved workflow.
    ///
    /// # Errors
    /// If there is no workflow of that name, or its file is broken.
    pub fn get(&self, name: &WorkflowName) -> Result<Stored, LookupError> {
        self.read(name)
    }

    /// Returns all workflows and invalid files, by name.
    ///
    /// # Errors
    /// If reading the directory fails. A missing directory is empty.
    pub fn list(&self) -> Result<Listing, DirectoryError> {
        let cached = Index::read(&self.directory);
        let index = cached.refresh(&self.directory)?;
        // A failed write of the index only makes the next list slower.
        if index != cached
            && let Some(lock) = DirectoryLock::try_lock(&self.directory)
        {
            let _ = lock.replace(index::INDEX_FILE, index.to_text().as_bytes());
        }
        Ok(index.into_listing())
    }

    /// Removes a saved workflow, even if it is broken. Its versions stay, see [`Self::forget_versions`].
    ///
    /// # Errors
    /// If there is no workflow of that name, or writing to the directory fails.
    pub fn delete(&self, name: &WorkflowName) -> Result<(), LookupError> {
        let not_found = || LookupError::NotFound { name: name.clone() };
        if is_reserved(name) || !self.directory.is_dir() {
            return Err(not_found());
        }
        let lock = DirectoryLock::wait(&self.directory)?;
        if let Ok(stored) = self.read(name) {
            self.record_replaced(&lock, &stored)?;
        }
        lock.remove(&golden_name(name))?;
        if lock.remove(&file_name(name))? { Ok(()) } else { Err(not_found()) }
    }

    /// Saves the golden transcript of a workflow next to it: the actions of each state at the capture, as JSON lines.
    /// Returns its path.
    ///
    /// # Errors
    /// If writing to the directory fails.
    pub fn put_golden(&self, name: &WorkflowName, text: &str) -> Result<PathBuf, DirectoryError> {
        let lock = DirectoryLock::wait(&self.directory)?;
        lock.replace(&golden_name(name), text.as_bytes())?;
        Ok(self.golden_file(name))
    }

    /// Returns the path of a workflow's golden transcript. The file need not exist.
    #[must_use]
    pub fn golden_file(&self, name: &WorkflowName) -> PathBuf {
        self.directory.join(golden_name(name))
    }

    /// Counts a run of the workflow `name` that executed `states` states and finished at `ended_at`. A success proves
    /// the workflow. Returns whether the run is counted: a run of a definition with another `hash` proves nothing
    /// about the saved one.
    ///
    /// # Errors
    /// If there is no workflow of that name, its file is broken, or writing to the directory fails.
    pub fn record_run(
        &self,
        name: &WorkflowName,
        hash: &Signature,
        succeeded: bool,
        states: u64,
        ended_at: SystemTime,
    ) -> Result<bool, LookupError> {
        if !self.directory.is_dir() {
            return Err(LookupError::NotFound { name: name.clone() });
        }
        let lock = DirectoryLock::wait(&self.directory)?;
        let mut stored = self.read(name)?;
        if stored.metadata.hash != *hash {
            return Ok(false);
        }
        let metadata = &mut stored.metadata;
        metadata.run_count = metadata.run_count.saturating_add(1);
        metadata.total_states = states;
        metadata.last_run = Some(to_rfc3339(ended_at));
        if succeeded {
            metadata.success_count = metadata.success_count.saturating_add(1);
            metadata.status = Status::Proven;
        }
        self.put(&lock, &stored)?;
        Ok(true)
    }

    fn read(&self, name: &WorkflowName) -> Result<Stored, LookupError> {
        let not_found = || LookupError::NotFound { name: name.clone() };
        if is_reserved(name) {
            return Err(not_found());
        }
        let file = self.file(name);
        let text = match directory::read(&file, MAX_FILE_BYTES) {
            Ok(text) => text.ok_or_else(not_found)?,
            Err(reason) => return Err(LookupError::Broken { file, reason }),
        };
        document::read(name, &text).map_err(|reason| LookupError::Broken { file, reason })
    }

    fn put(&self, lock: &DirectoryLock<'_>, stored: &Stored) -> Result<(), DirectoryError> {
        lock.replace(&file_name(&stored.name), document::to_text(stored).as_bytes())
    }

    /// Writes the file of a new definition and records it as a version.
    fn save_new(&self, lock: &DirectoryLock<'_>, stored: &Stored, author: &Author) -> Result<(), DirectoryError> {
        self.put(lock, stored)?;
        // The save succeeded. A version without a record has no author, and is recorded when it is replaced.
        let _ = self.record_saved(lock, stored, author);
        Ok(())
    }

    /// Returns the metadata of a new workflow. A re-created workflow continues the version numbers of the removed one.
    fn initial_metadata(
        &self,
        name: &WorkflowName,
        hash: Signature,
        status: Status,
    ) -> Result<Metadata, DirectoryError> {
        let (created, version) = (to_rfc3339(SystemTime::now()), self.next_version(name, 0)?);
        Ok(Metadata { hash, created, version, status, ..Metadata::default() })
    }

    /// Returns `preferred_name`, or if it is in use, the name with the first free number after it.
    fn free_name(&self, preferred_name: &WorkflowName, is_taken: &dyn Fn(&WorkflowName) -> bool) -> WorkflowName {
        let is_free =
            |name: &WorkflowName| !is_reserved(name) && !is_taken(name) && self.file(name).symlink_metadata().is_err();
        let numbered = (2u64..).map(|number| {
            let suffix = format!("_{number}");
            let stem = preferred_name.as_str();
            // A name is ASCII, so it can be cut at any length.
            let prefix = &stem[..stem.len().min(MAX_NAME_CHARS - suffix.len())];
            format!("{prefix}{suffix}").parse().expect("a prefix of a name followed by '_' and digits is a name")
        });
        std::iter::once(preferred_name.clone())
            .chain(numbered)
            .find(is_free)
            .expect("a directory has fewer files than there are numbers")
    }
}

fn file_name(name: &WorkflowName) -> String {
    format!("{name}.json")
}

fn golden_name(name: &WorkflowName) -> String {
    format!("{name}.golden.jsonl")
}

/// Returns whether a workflow of this name would have the index as its file.
fn is_reserved(name: &WorkflowName) -> bool {
    file_name(name) == index::INDEX_FILE
}

fn check_length(definition: &Value) -> Result<(), CreateError> {
    // Metadata takes a few hundred bytes.
    let max_bytes = MAX_FILE_BYTES - MAX_FILE_BYTES / 256;
    let bytes = serde_json::to_string_pretty(definition).map_or(usize::MAX, |text| {
        // In the file, each line is indented by two more spaces.
        text.len() + 2 * text.bytes().filter(|byte| *byte == b'\n').count()
    });
    if bytes > max_bytes { Err(CreateError::TooLarge { bytes, max_bytes }) } else { Ok(()) }
}
