//! Atomic replacement of files that other programs own.
//!
//! The client may write the same file at any time. The new text is therefore derived from the current text and written
//! to a file next to the original. A rename puts it into place only if the original is unchanged.

use std::fs::{self, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Maximum size of a configuration, in bytes. Claude Code also keeps its history in its configuration, and that file
/// grows to megabytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Number of attempts of a replacement while another program keeps writing.
const MAX_ATTEMPTS: u32 = 10;

/// Maximum number of links, as in the kernel.
const MAX_LINKS: usize = 40;

/// A failure of reading or replacing a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// A system call failed.
    #[error("{operation}: {source}")]
    System {
        /// The operation.
        operation: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The path is not a regular file.
    #[error("it is not a file")]
    NoFile,
    /// The file is larger than any configuration.
    #[error("it is larger than {} MB", MAX_FILE_BYTES >> 20)]
    TooLarge,
    /// The file is not UTF-8.
    #[error("it is not text in UTF-8")]
    NoText,
    /// The file has no write permission.
    #[error("it is read-only; make it writable with: chmod u+w")]
    ReadOnly,
    /// Another program keeps writing the file.
    #[error("another program keeps writing it; close that program and try again")]
    Contended,
}

impl FileError {
    fn system(operation: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { operation, source }
    }
}

/// Returns the text of a file; `None` if it does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<String>, FileError> {
    Ok(read_with_metadata(path)?.map(|(text, _)| text))
}

fn read_with_metadata(path: &Path) -> Result<Option<(String, Metadata)>, FileError> {
    let to_error = FileError::system("it cannot be read");
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(to_error(error)),
    };
    if !metadata.is_file() {
        return Err(FileError::NoFile);
    }
    let mut bytes = Vec::new();
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(to_error(error)),
    };
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(to_error)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(FileError::TooLarge);
    }
    let text = String::from_utf8(bytes).map_err(|_| FileError::NoText)?;
    Ok(Some((text, metadata)))
}

/// Replaces the text of a file with the result of `make` and keeps its mode and owner; a link stays a link. `make`
/// receives `None` if there is no file, and runs again if another program wrote in the meantime. Returns the value that
/// `make` returned with the text. Does not write an unchanged text. With `private`, only the owner can read a new file.
///
/// # Errors
/// If `make` fails, or reading or replacing the file fails; the file then stays unchanged.
pub(crate) fn replace<T, E: From<FileError>>(
    path: &Path,
    private: bool,
    mut make: impl FnMut(Option<&str>) -> Result<(T, String), E>,
) -> Result<T, E> {
    let target = resolve_links(path);
    for _ in 0..MAX_ATTEMPTS {
        let current = read_with_metadata(&target)?;
        let text = current.as_ref().map(|(text, _)| text.as_str());
        let (value, new_text) = make(text)?;
        if new_text == text.unwrap_or_default() {
            return Ok(value);
        }
        let metadata = current.as_ref().map(|(_, metadata)| metadata);
        if metadata.is_some_and(|metadata| metadata.permissions().mode() & 0o222 == 0) {
            return Err(FileError::ReadOnly.into());
        }
        let temporary = write_temporary(&target, metadata, private, &new_text)?;
        // Checks as late as possible: only one system call follows.
        if read_with_metadata(&target)?.as_ref().map(|(text, _)| text.as_str()) != text {
            continue;
        }
        let failed = FileError::system("it cannot be replaced");
        match text {
            Some(_) => temporary.persist(&target).map_err(|error| failed(error.error))?,
            None => match temporary.persist_noclobber(&target) {
                Ok(file) => file,
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(failed(error.error).into()),
            },
        };
        return Ok(value);
    }
    Err(FileError::Contended.into())
}

/// Writes `text` to a new temporary file in the directory of `path`, with the mode and owner of the file it replaces.
fn write_temporary(
    path: &Path,
    replaced: Option<&Metadata>,
    private: bool,
    text: &str,
) -> Result<tempfile::NamedTempFile, FileError> {
    let failed = FileError::system("its directory cannot be written");
    let directory = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory).map_err(&failed)?;
    let mode = if private { 0o600 } else { 0o666 };
    let mut temporary = tempfile::Builder::new()
        .prefix(".steplatch-")
        .permissions(fs::Permissions::from_mode(mode))
        .tempfile_in(directory)
        .map_err(&failed)?;
    temporary.write_all(text.as_bytes()).map_err(&failed)?;
    if let Some(replaced) = replaced {
        let created = temporary.as_file().metadata().map_err(&failed)?;
        if (created.uid(), created.gid()) != (replaced.uid(), replaced.gid()) {
            let to_error = FileError::system("its owner cannot be kept");
            std::os::unix::fs::fchown(temporary.as_file(), Some(replaced.uid()), Some(replaced.gid()))
                .map_err(to_error)?;
        }
        // Sets the mode after the owner, because chown clears the special bits.
        let mode = fs::Permissions::from_mode(replaced.permissions().mode() & 0o7777);
        temporary.as_file().set_permissions(mode).map_err(&failed)?;
    }
    temporary.as_file().sync_all().map_err(&failed)?;
    Ok(temporary)
}

/// Follows the links of a path. The target need not exist.
fn resolve_links(path: &Path) -> PathBuf {
    let mut resolved = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = resolved.read_link() else { break };
        resolved = resolved.parent().unwrap_or(Path::new("/")).join(target);
    }
    resolved
}
