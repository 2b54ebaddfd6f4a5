//! Files of functions: kept, found, replaced, counted and forgotten.

use std::time::SystemTime;

use steplatch_ids::WorkflowName;

use crate::document::{MAX_FILE_BYTES, to_rfc3339};
use crate::folder::{self, FolderLock};
use crate::function_file::{Declares, FoundFunctions, FunctionFile, FunctionMetadata, Origin};
use crate::{CreateError, FileError, FolderError, Library, LookupError, Signature};

/// Suffix of files of functions.
const TEXT: &str = ".py";
/// Suffix of their metadata.
pub(crate) const ABOUT: &str = ".meta.json";

impl Library {
    /// Returns the file of functions of that name, whether or not there is one.
    #[must_use]
    pub fn function_path(&self, name: &WorkflowName) -> std::path::PathBuf {
        self.folder().join(text_name(name))
    }

    /// Returns the files of functions that are there, by name, without a read of any.
    ///
    /// # Errors
    /// If reading the directory fails. A missing one is empty.
    pub fn functions(&self) -> Result<Vec<FoundFunctions>, FolderError> {
        let found = folder::files(self.folder(), TEXT)?.into_iter().map(|found| {
            let file = found.name.to_string_lossy().into_owned();
            let stem = file.strip_suffix(TEXT).unwrap_or(&file);
            let name = stem.parse();
            let about = folder::stamp(&self.folder().join(format!("{stem}{ABOUT}")));
            FoundFunctions { name, stamp: found.stamp, about, file }
        });
        Ok(found.collect())
    }

    /// Returns a file of functions. Its metadata may be missing, or invalid.
    ///
    /// # Errors
    /// If there is none of that name, or reading its text fails.
    pub fn function_file(&self, name: &WorkflowName) -> Result<FunctionFile, LookupError> {
        let file = self.function_path(name);
        let broken = |reason: FileError| LookupError::Broken { file: file.clone(), reason };
        let text = folder::read(&file, MAX_FILE_BYTES).map_err(broken)?;
        let text = text.ok_or_else(|| LookupError::NotFound { name: name.clone() })?;
        let text = String::from_utf8(text).map_err(|_| broken(FileError::NotUtf8))?;
        let kept = folder::read(&self.folder().join(about_name(name)), MAX_FILE_BYTES);
        let (metadata, trouble) = FunctionMetadata::read(kept, &text);
        let trouble = trouble.map(|error| error.to_string());
        Ok(FunctionFile { name: name.clone(), text, metadata, trouble })
    }

    /// Keeps a file of functions as `name`. Replaces another one only if that is the text with the signature `over`;
    /// the counts stay. Its workflows are drafts when the text is another one.
    ///
    /// # Errors
    /// If another one is there, the text is too long, or writing to the directory fails.
    pub fn keep_functions(
        &self,
        name: &WorkflowName,
        text: &str,
        origin: Option<Origin>,
        declares: Vec<Declares>,
        over: Option<&Signature>,
    ) -> Result<FunctionFile, CreateError> {
        if text.len() > MAX_FILE_BYTES {
            return Err(CreateError::TooLarge { bytes: text.len(), at_most: MAX_FILE_BYTES });
        }
        let locked = FolderLock::wait(self.folder())?;
        let metadata = match self.function_file(name) {
            Ok(old) if old.text == text || over == Some(&old.metadata.hash) => old.metadata,
            // An unreadable file has no signature that a caller could know.
            Ok(_) | Err(LookupError::Broken { .. }) => return Err(CreateError::Exists { name: name.clone() }),
            Err(LookupError::NotFound { .. }) => {
                FunctionMetadata { created: to_rfc3339(SystemTime::now()), ..FunctionMetadata::default() }
            }
            Err(LookupError::Folder(error)) => return Err(error.into()),
        };
        let mut metadata = metadata.of_text(text);
        metadata.origin = origin;
        metadata.declares = declares;
        // The text first: beside the metadata of another text it counts as edited, which it is.
        locked.put(&text_name(name), text.as_bytes())?;
        locked.put(&about_name(name), metadata.text().as_bytes())?;
        Ok(FunctionFile { name: name.clone(), text: text.to_owned(), metadata, trouble: None })
    }

    /// Removes a file of functions with its metadata, also an unreadable one.
    ///
    /// # Errors
    /// If there is none of that name, or writing to the directory fails.
    pub fn delete_functions(&self, name: &WorkflowName) -> Result<(), LookupError> {
        let not_found = || LookupError::NotFound { name: name.clone() };
        if !self.folder().is_dir() {
            return Err(not_found());
        }
        let locked = FolderLock::wait(self.folder())?;
        let removed = locked.remove(&text_name(name))?;
        locked.remove(&about_name(name))?;
        if removed { Ok(()) } else { Err(not_found()) }
    }

    /// Counts `run`, an ended one of the workflow `id` of a file. A success proves the workflow. Returns whether the
    /// run counts, now or before: a run of a text that has another `hash` than the saved one is not evidence about it.
    ///
    /// # Errors
    /// If there is none of that name, or reading it or writing to the directory fails.
    pub fn record_function_run(
        &self,
        name: &WorkflowName,
        id: &str,
        run: &str,
        hash: &Signature,
        succeeded: bool,
        at: SystemTime,
    ) -> Result<bool, LookupError> {
        if !self.folder().is_dir() {
            return Err(LookupError::NotFound { name: name.clone() });
        }
        let locked = FolderLock::wait(self.folder())?;
        let FunctionFile { mut metadata, .. } = self.function_file(name)?;
        if metadata.hash != *hash {
            return Ok(false);
        }
        let counts = metadata.workflows.entry(id.to_owned()).or_default();
        if counts.has_counted(run) {
            return Ok(true);
        }
        counts.count(run, succeeded, at);
        locked.put(&about_name(name), metadata.text().as_bytes())?;
        Ok(true)
    }
}

fn text_name(name: &WorkflowName) -> String {
    format!("{name}{TEXT}")
}

fn about_name(name: &WorkflowName) -> String {
    format!("{name}{ABOUT}")
}
