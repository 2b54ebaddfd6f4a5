//! Saving, listing, removing and counting files of functions.

use std::time::SystemTime;

use steplatch_ids::WorkflowName;

use crate::directory::{self, DirectoryLock};
use crate::document::{MAX_FILE_BYTES, to_rfc3339};
use crate::function_file::{Declares, FoundFunctions, FunctionFile, FunctionMetadata, Origin};
use crate::{CreateError, DirectoryError, FileError, Library, LookupError, Signature};

/// Suffix of files of functions.
const FUNCTIONS_SUFFIX: &str = ".py";
/// Suffix of their metadata.
pub(crate) const METADATA_SUFFIX: &str = ".meta.json";

impl Library {
    /// Returns the path of a file of functions. The file need not exist.
    #[must_use]
    pub fn function_path(&self, name: &WorkflowName) -> std::path::PathBuf {
        self.directory().join(functions_file_name(name))
    }

    /// Returns the files of functions by name, without reading them.
    ///
    /// # Errors
    /// If reading the directory fails. A missing directory is empty.
    pub fn functions(&self) -> Result<Vec<FoundFunctions>, DirectoryError> {
        let files = directory::files(self.directory(), FUNCTIONS_SUFFIX)?.into_iter().map(|found| {
            let file = found.name.to_string_lossy().into_owned();
            let stem = file.strip_suffix(FUNCTIONS_SUFFIX).unwrap_or(&file);
            let name = stem.parse();
            let metadata_stamp = directory::stamp(&self.directory().join(format!("{stem}{METADATA_SUFFIX}")));
            FoundFunctions { name, stamp: found.stamp, metadata_stamp, file }
        });
        Ok(files.collect())
    }

    /// Reads a file of functions. Its metadata may be missing or invalid.
    ///
    /// # Errors
    /// If there is no file of that name, or reading its text fails.
    pub fn function_file(&self, name: &WorkflowName) -> Result<FunctionFile, LookupError> {
        let file = self.function_path(name);
        let broken = |reason: FileError| LookupError::Broken { file: file.clone(), reason };
        let text = directory::read(&file, MAX_FILE_BYTES).map_err(broken)?;
        let text = text.ok_or_else(|| LookupError::NotFound { name: name.clone() })?;
        let text = String::from_utf8(text).map_err(|_| broken(FileError::NotUtf8))?;
        let metadata = directory::read(&self.directory().join(metadata_file_name(name)), MAX_FILE_BYTES);
        let (metadata, metadata_error) = FunctionMetadata::read(metadata, &text);
        let metadata_error = metadata_error.map(|error| error.to_string());
        Ok(FunctionFile { name: name.clone(), text, metadata, metadata_error })
    }

    /// Saves a file of functions as `name`. Replaces another text only if it has the signature `replaces`, and keeps
    /// the counts. The workflows of a changed text become drafts.
    ///
    /// # Errors
    /// If another text exists, the text is too long, or writing to the directory fails.
    pub fn keep_functions(
        &self,
        name: &WorkflowName,
        text: &str,
        origin: Option<Origin>,
        declares: Vec<Declares>,
        replaces: Option<&Signature>,
    ) -> Result<FunctionFile, CreateError> {
        if text.len() > MAX_FILE_BYTES {
            return Err(CreateError::TooLarge { bytes: text.len(), max_bytes: MAX_FILE_BYTES });
        }
        let lock = DirectoryLock::wait(self.directory())?;
        let metadata = match self.function_file(name) {
            Ok(saved) if saved.text == text || replaces == Some(&saved.metadata.hash) => saved.metadata,
            // The caller cannot know the signature of an unreadable file.
            Ok(_) | Err(LookupError::Broken { .. }) => return Err(CreateError::Exists { name: name.clone() }),
            Err(LookupError::NotFound { .. }) => {
                FunctionMetadata { created: to_rfc3339(SystemTime::now()), ..FunctionMetadata::default() }
            }
            Err(LookupError::Directory(error)) => return Err(error.into()),
        };
        let mut metadata = metadata.for_text(text);
        metadata.origin = origin;
        metadata.declares = declares;
        // Write the text first: if the second write fails, the text is considered edited.
        lock.replace(&functions_file_name(name), text.as_bytes())?;
        lock.replace(&metadata_file_name(name), metadata.to_text().as_bytes())?;
        Ok(FunctionFile { name: name.clone(), text: text.to_owned(), metadata, metadata_error: None })
    }

    /// Removes a file of functions and its metadata, even an unreadable file.
    ///
    /// # Errors
    /// If there is no file of that name, or writing to the directory fails.
    pub fn delete_functions(&self, name: &WorkflowName) -> Result<(), LookupError> {
        let not_found = || LookupError::NotFound { name: name.clone() };
        if !self.directory().is_dir() {
            return Err(not_found());
        }
        let lock = DirectoryLock::wait(self.directory())?;
        let removed = lock.remove(&functions_file_name(name))?;
        lock.remove(&metadata_file_name(name))?;
        if removed { Ok(()) } else { Err(not_found()) }
    }

    /// Counts the finished run `run` of the workflow `id` of a file. A success proves the workflow. Returns whether the
    /// run is counted, by this or an earlier call: a run of a text with another `hash` proves nothing about the saved
    /// one.
    ///
    /// # Errors
    /// If there is no file of that name, or reading it or writing to the directory fails.
    pub fn record_function_run(
        &self,
        name: &WorkflowName,
        id: &str,
        run: &str,
        hash: &Signature,
        succeeded: bool,
        ended_at: SystemTime,
    ) -> Result<bool, LookupError> {
        if !self.directory().is_dir() {
            return Err(LookupError::NotFound { name: name.clone() });
        }
        let lock = DirectoryLock::wait(self.directory())?;
        let FunctionFile { mut metadata, .. } = self.function_file(name)?;
        if metadata.hash != *hash {
            return Ok(false);
        }
        let counts = metadata.workflows.entry(id.to_owned()).or_default();
        if counts.has_counted(run) {
            return Ok(true);
        }
        counts.count(run, succeeded, ended_at);
        lock.replace(&metadata_file_name(name), metadata.to_text().as_bytes())?;
        Ok(true)
    }
}

fn functions_file_name(name: &WorkflowName) -> String {
    format!("{name}{FUNCTIONS_SUFFIX}")
}

fn metadata_file_name(name: &WorkflowName) -> String {
    format!("{name}{METADATA_SUFFIX}")
}
