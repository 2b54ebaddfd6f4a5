//! Atomic replacement of files that other programs own.
//!
//! The client may write the same file at any moment. The new text therefore derives from the current one and goes to a
//! file beside it. A rename puts it into place only if the original is unchanged.

use std::fs::{self, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Maximum size of a configuration, in bytes. Claude Code keeps its history in its own, which grows to megabytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Number of attempts of a replacement while another program keeps writing.
const MAX_ATTEMPTS: u32 = 10;

/// Maximum number of links, as in the kernel.
const MAX_LINKS: usize = 40;

/// A failure of reading or replacing a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Not a regular file.
    #[error("it is no file")]
    NoFile,
    /// Larger than any configuration.
    #[error("it is larger than {} MB", MAX_FILE_BYTES >> 20)]
    TooLarge,
    /// Not UTF-8.
    #[error("it is not text in UTF-8")]
    NoText,
    /// The file has no write permission.
    #[error("it may not be written; allow it with: chmod u+w")]
    ReadOnly,
    /// Another program keeps writing the file.
    #[error("another program keeps writing it; close that and try again")]
    Contended,
}

impl FileError {
    fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// Returns the text of a file; `None` if it does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<String>, FileError> {
    Ok(look(path)?.map(|(text, _)| text))
}

fn look(path: &Path) -> Result<Option<(String, Metadata)>, FileError> {
    let unreadable = FileError::system("it cannot be read");
    let about = match fs::metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    if !about.is_file() {
        return Err(FileError::NoFile);
    }
    let mut bytes = Vec::new();
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(FileError::TooLarge);
    }
    let text = String::from_utf8(bytes).map_err(|_| FileError::NoText)?;
    Ok(Some((text, about)))
}

/// Replaces the text of a file by the result of `make`, and keeps its mode and owner; a link stays a link. `make`
/// receives `None` if there is no file, and runs again when another program wrote in the meantime. Returns the value
/// that `make` returned beside the text. Does not write an equal text. A new file is readable by its owner only if
/// `private`.
///
/// # Errors
/// The errors of `make`, and failures of reading or replacing the file, which stays unchanged then.
pub(crate) fn replace<T, E: From<FileError>>(
    path: &Path,
    private: bool,
    mut make: impl FnMut(Option<&str>) -> Result<(T, String), E>,
) -> Result<T, E> {
    let real = destination(path);
    for _ in 0..MAX_ATTEMPTS {
        let before = look(&real)?;
        let text = before.as_ref().map(|(text, _)| text.as_str());
        let (made, new) = make(text)?;
        if new == text.unwrap_or_default() {
            return Ok(made);
        }
        let about = before.as_ref().map(|(_, about)| about);
        if about.is_some_and(|about| about.permissions().mode() & 0o222 == 0) {
            return Err(FileError::ReadOnly.into());
        }
        let beside = write_beside(&real, about, private, &new)?;
        // Checked as late as possible; the remaining window is one system call.
        if look(&real)?.as_ref().map(|(text, _)| text.as_str()) != text {
            continue;
        }
        let failed = FileError::system("it cannot be replaced");
        match text {
            Some(_) => beside.persist(&real).map_err(|error| failed(error.error))?,
            None => match beside.persist_noclobber(&real) {
                Ok(file) => file,
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(failed(error.error).into()),
            },
        };
        return Ok(made);
    }
    Err(FileError::Contended.into())
}

/// Writes `text` to a new temporary file in the directory of `path`, with the mode and owner of the file it replaces.
fn write_beside(
    path: &Path,
    replaced: Option<&Metadata>,
    private: bool,
    text: &str,
) -> Result<tempfile::NamedTempFile, FileError> {
    let failed = FileError::system("its directory cannot be written");
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(&failed)?;
    let mode = if private { 0o600 } else { 0o666 };
    let mut beside = tempfile::Builder::new()
        .prefix(".steplatch-")
        .permissions(fs::Permissions::from_mode(mode))
        .tempfile_in(folder)
        .map_err(&failed)?;
    beside.write_all(text.as_bytes()).map_err(&failed)?;
    if let Some(about) = replaced {
        let own = beside.as_file().metadata().map_err(&failed)?;
        if (own.uid(), own.gid()) != (about.uid(), about.gid()) {
            let kept = FileError::system("its owner cannot be kept");
            std::os::unix::fs::fchown(beside.as_file(), Some(about.uid()), Some(about.gid())).map_err(kept)?;
        }
        // After the owner, because chown clears the special bits.
        let mode = fs::Permissions::from_mode(about.permissions().mode() & 0o7777);
        beside.as_file().set_permissions(mode).map_err(&failed)?;
    }
    beside.as_file().sync_all().map_err(&failed)?;
    Ok(beside)
}

/// Returns the target of a path after links, whether it exists or not.
fn destination(path: &Path) -> PathBuf {
    let mut at = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = at.read_link() else { break };
        at = at.parent().unwrap_or(Path::new("/")).join(target);
    }
    at
}
