//! Saving, finding and forgetting workflows.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;
use steplatch_ids::WorkflowName;

use crate::document::{self, MAX_FILE_BYTES, Metadata, Status, Stored, to_rfc3339};
use crate::folder::{self, FolderLock};
use crate::index::{self, Index, Listing};
use crate::{Author, CreateError, FolderError, LookupError, ReplaceError, Signature};

/// Maximum length of a name, in characters: see [`WorkflowName`].
const MAX_NAME_CHARS: usize = 64;

/// A library of saved workflows. Cheap to make; it holds nothing but the path of its directory.
#[derive(Debug, Clone)]
pub struct Library {
    folder: PathBuf,
}

/// The result of keeping a workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaveOutcome {
    /// True for a new file; otherwise one with the same content was there.
    pub saved: bool,
    /// The name of the workflow in the library.
    pub name: WorkflowName,
}

impl Library {
    /// Returns the library in `folder`. Saving the first workflow creates the folder.
    #[must_use]
    pub fn open(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Returns the directory.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the file of a workflow, whether or not there is one.
    #[must_use]
    pub fn file(&self, name: &WorkflowName) -> PathBuf {
        self.folder.join(file_name(name))
    }

    /// Saves a definition under its own name, as a draft. Replaces one of that name only if `overwrite`; the counts of
    /// that one stay, and its status too if it does the same. A definition that does something else is a new version,
    /// and the previous one stays.
    ///
    /// # Errors
    /// If the name is in use, missing or not possible, the definition is too long, or writing to the directory fails.
    pub fn create(&self, definition: &Value, overwrite: bool, author: &Author) -> Result<Stored, CreateError> {
        let fields = definition.as_object().ok_or(CreateError::NotAnObject)?;
        let name: WorkflowName = fields.get("name").and_then(Value::as_str).ok_or(CreateError::NoName)?.parse()?;
        if is_reserved(&name) {
            return Err(CreateError::ReservedName { name });
        }
        check_length(definition)?;
        let hash = Signature::of_value(definition);
        let locked = FolderLock::wait(&self.folder)?;
        match self.read(&name) {
            Err(LookupError::NotFound { .. }) => {}
            _ if !overwrite => return Err(CreateError::Exists { name }),
            Ok(old) => return self.put_next(&locked, old, definition, author),
            Err(LookupError::Broken { .. }) => {}
            Err(LookupError::Folder(error)) => return Err(error.into()),
        }
        let metadata = self.first(&name, hash, Status::Draft)?;
        let stored = Stored { name, definition: definition.clone(), metadata };
        self.put_new(&locked, &stored, author)?;
        Ok(stored)
    }

    /// Replaces the definition `before` by `after` as the next version, under one lock. Returns nothing where the
    /// workflow has another definition by now. Where it has `after`, a killed process may have left the version without
    /// its author; this call adds the author.
    ///
    /// # Errors
    /// If there is none of that name, its file is broken, `after` is too long, or writing to the directory fails.
    pub fn replace(
        &self,
        name: &WorkflowName,
        (before, after): (&Value, &Value),
        author: &Author,
    ) -> Result<Option<Stored>, ReplaceError> {
        check_length(after)?;
        if !self.folder.is_dir() {
            return Err(LookupError::NotFound { name: name.clone() }.into());
        }
        let locked = FolderLock::wait(&self.folder).map_err(CreateError::from)?;
        let current = self.read(name)?;
        if current.definition == *after {
            if !self.has_record(&current) {
                self.record_saved(&locked, &current, author).map_err(CreateError::from)?;
            }
            return Ok(Some(current));
        }
        if current.definition != *before {
            return Ok(None);
        }
        Ok(Some(self.put_next(&locked, current, after, author)?))
    }

    /// Puts a definition in the place of another one: as the next version, unless it does the same.
    fn put_next(
        &self,
        locked: &FolderLock<'_>,
        mut old: Stored,
        definition: &Value,
        author: &Author,
    ) -> Result<Stored, CreateError> {
        let hash = Signature::of_value(definition);
        if old.metadata.hash == hash {
            old.definition = definition.clone();
            self.put(locked, &old)?;
            return Ok(old);
        }
        let replaced = self.record_replaced(locked, &old)?;
        let version = self.next_version(&old.name, replaced)?;
        let metadata = Metadata { hash, version, status: Status::Draft, ..old.metadata };
        let stored = Stored { name: old.name, definition: definition.clone(), metadata };
        self.put_new(locked, &stored, author)?;
        Ok(stored)
    }

    /// Keeps a definition that ran to its end, as `name`, else under its own name, else as `workflow_` with its
    /// signature; with `_2`, `_3` and so on where a file here has that name, or `is_taken`. Does not save a definition
    /// that does the same as a saved one again; that one is proven now.
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
        let wanted_name = match (name, fields.get("name").and_then(Value::as_str)) {
            (Some(name), _) => name.clone(),
            (None, Some(own)) => own.parse()?,
            (None, None) => format!("workflow_{}", hash.short()).parse()?,
        };
        check_length(definition)?;
        let locked = FolderLock::wait(&self.folder)?;
        let known = Index::read(&self.folder).renewed(&self.folder)?.into_listing();
        let alike = || known.entries.iter().filter(|entry| entry.metadata.hash == hash);
        if let Some(entry) = alike().find(|entry| entry.name == wanted_name).or_else(|| alike().next()) {
            // Read again because an index holds less than a file; it was whole a moment ago, under the same lock.
            if entry.metadata.status == Status::Draft
                && let Ok(mut stored) = self.read(&entry.name)
                && stored.metadata.hash == hash
            {
                stored.metadata.status = Status::Proven;
                self.put(&locked, &stored)?;
            }
            return Ok(SaveOutcome { saved: false, name: entry.name.clone() });
        }
        let name = self.free_name(&wanted_name, is_taken);
        let definition = document::with_name(definition.clone(), &name);
        let metadata = self.first(&name, hash, Status::Proven)?;
        self.put_new(&locked, &Stored { name: name.clone(), definition, metadata }, author)?;
        Ok(SaveOutcome { saved: true, name })
    }

    /// Returns a saved workflow.
    ///
    /// # Errors
    /// If there is none of that name, or its file is broken.
    pub fn get(&self, name: &WorkflowName) -> Result<Stored, LookupError> {
        self.read(name)
    }

    /// Returns all workflows, and the files that are broken, each by name.
    ///
    /// # Errors
    /// If reading the directory fails. A missing one is empty.
    pub fn list(&self) -> Result<Listing, FolderError> {
        let before = Index::read(&self.folder);
        let index = before.renewed(&self.folder)?;
        // A failed write of the index costs the next list some time, and nothing else.
        if index != before
            && let Some(locked) = FolderLock::at_once(&self.folder)
        {
            let _ = locked.put(index::FILE, index.text().as_bytes());
        }
        Ok(index.into_listing())
    }

    /// Removes a saved workflow, also a broken one. Its versions stay, see [`Self::forget_versions`].
    ///
    /// # Errors
    /// If there is none of that name, or writing to the directory fails.
    pub fn delete(&self, name: &WorkflowName) -> Result<(), LookupError> {
        let not_found = || LookupError::NotFound { name: name.clone() };
        if is_reserved(name) || !self.folder.is_dir() {
            return Err(not_found());
        }
        let locked = FolderLock::wait(&self.folder)?;
        if let Ok(stored) = self.read(name) {
            self.record_replaced(&locked, &stored)?;
        }
        locked.remove(&golden_name(name))?;
        if locked.remove(&file_name(name))? { Ok(()) } else { Err(not_found()) }
    }

    /// Puts the golden transcript of a workflow beside it: what each state did at the capture, as lines of JSON.
    /// Returns its file.
    ///
    /// # Errors
    /// If writing to the directory fails.
    pub fn put_golden(&self, name: &WorkflowName, text: &str) -> Result<PathBuf, FolderError> {
        let locked = FolderLock::wait(&self.folder)?;
        locked.put(&golden_name(name), text.as_bytes())?;
        Ok(self.golden_file(name))
    }

    /// Returns the file of a workflow's golden transcript, whether or not there is one.
    #[must_use]
    pub fn golden_file(&self, name: &WorkflowName) -> PathBuf {
        self.folder.join(golden_name(name))
    }

    /// Counts an ended run of the workflow `name`: it executed `states` states and ended at that time. A success proves
    /// the workflow. Returns whether it counts: a run of a definition that has another `hash` than the saved one is not
    /// evidence about it.
    ///
    /// # Errors
    /// If there is none of that name, its file is broken, or writing to the directory fails.
    pub fn record_run(
        &self,
        name: &WorkflowName,
        hash: &Signature,
        succeeded: bool,
        states: u64,
        at: SystemTime,
    ) -> Result<bool, LookupError> {
        if !self.folder.is_dir() {
            return Err(LookupError::NotFound { name: name.clone() });
        }
        let locked = FolderLock::wait(&self.folder)?;
        let mut stored = self.read(name)?;
        if stored.metadata.hash != *hash {
            return Ok(false);
        }
        let metadata = &mut stored.metadata;
        metadata.run_count = metadata.run_count.saturating_add(1);
        metadata.total_states = states;
        metadata.last_run = Some(to_rfc3339(at));
        if succeeded {
            metadata.success_count = metadata.success_count.saturating_add(1);
            metadata.status = Status::Proven;
        }
        self.put(&locked, &stored)?;
        Ok(true)
    }

    fn read(&self, name: &WorkflowName) -> Result<Stored, LookupError> {
        let not_found = || LookupError::NotFound { name: name.clone() };
        if is_reserved(name) {
            return Err(not_found());
        }
        let file = self.file(name);
        let text = match folder::read(&file, MAX_FILE_BYTES) {
            Ok(text) => text.ok_or_else(not_found)?,
            Err(reason) => return Err(LookupError::Broken { file, reason }),
        };
        document::read(name, &text).map_err(|reason| LookupError::Broken { file, reason })
    }

    fn put(&self, locked: &FolderLock<'_>, stored: &Stored) -> Result<(), FolderError> {
        locked.put(&file_name(&stored.name), document::text(stored).as_bytes())
    }

    /// Puts a file with a definition that is new, and records it as a version.
    fn put_new(&self, locked: &FolderLock<'_>, stored: &Stored, author: &Author) -> Result<(), FolderError> {
        self.put(locked, stored)?;
        // The save succeeded. A version without its record has no author, and gets a record at its replacement.
        let _ = self.record_saved(locked, stored, author);
        Ok(())
    }

    /// Returns the metadata of a new workflow. A re-created one continues the version numbers of the removed one.
    fn first(&self, name: &WorkflowName, hash: Signature, status: Status) -> Result<Metadata, FolderError> {
        let (created, version) = (to_rfc3339(SystemTime::now()), self.next_version(name, 0)?);
        Ok(Metadata { hash, created, version, status, ..Metadata::default() })
    }

    /// Returns `wanted_name`, or with the first number after it under which there is no file.
    fn free_name(&self, wanted_name: &WorkflowName, is_taken: &dyn Fn(&WorkflowName) -> bool) -> WorkflowName {
        let is_free =
            |name: &WorkflowName| !is_reserved(name) && !is_taken(name) && self.file(name).symlink_metadata().is_err();
        let numbered = (2u64..).map(|number| {
            let suffix = format!("_{number}");
            let stem = wanted_name.as_str();
            // A name is ASCII, so any length is a border of characters.
            let kept = &stem[..stem.len().min(MAX_NAME_CHARS - suffix.len())];
            format!("{kept}{suffix}").parse().expect("the beginning of a name, digits and '_' are a name")
        });
        std::iter::once(wanted_name.clone())
            .chain(numbered)
            .find(is_free)
            .expect("a folder has fewer files than numbers")
    }
}

fn file_name(name: &WorkflowName) -> String {
    format!("{name}.json")
}

fn golden_name(name: &WorkflowName) -> String {
    format!("{name}.golden.jsonl")
}

/// Returns whether a workflow of that name would have the file of the index.
fn is_reserved(name: &WorkflowName) -> bool {
    file_name(name) == index::FILE
}

fn check_length(definition: &Value) -> Result<(), CreateError> {
    // Metadata take some hundred bytes; a thousandth of the whole remains for them.
    let at_most = MAX_FILE_BYTES - MAX_FILE_BYTES / 256;
    let bytes = serde_json::to_string_pretty(definition).map_or(usize::MAX, |text| {
        // In its file, each line has an indent of two more.
        text.len() + 2 * text.bytes().filter(|byte| *byte == b'\n').count()
    });
    if bytes > at_most { Err(CreateError::TooLarge { bytes, at_most }) } else { Ok(()) }
}
