//! Text files that a project reads: files of functions, and files of declarations.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

/// Maximum size of a file in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reason for an unreadable file, as a clause that completes the caller's sentence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileReadError {
    /// The extension of the file is not `.py`.
    #[error("its name does not end in .py")]
    NotPython,
    /// The file belongs to another user.
    #[error("it belongs to another user")]
    OtherUser,
    /// There is no such file.
    #[error("it does not exist")]
    NotThere,
    /// The path is a directory.
    #[error("it is a directory")]
    Directory,
    /// The path is a pipe or a device.
    #[error("it is not a file")]
    NotFile,
    /// Reading the file fails.
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
    /// The file is longer than [`MAX_FILE_BYTES`].
    #[error("it has more than {} KB, the limit", MAX_FILE_BYTES >> 10)]
    TooLarge,
    /// The file is not text.
    #[error("it is not UTF-8")]
    NotUtf8,
}

/// Reads a text file. Blocks.
///
/// # Errors
///
/// The reason, as a clause that completes the caller's sentence.
pub(crate) fn read(path: &Path) -> Result<String, FileReadError> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => FileReadError::NotThere,
        _ => FileReadError::Unreadable(error),
    };
    // Opening a pipe would block until a writer opens it.
    let found = fs::metadata(path).map_err(unreadable)?;
    if found.is_dir() {
        return Err(FileReadError::Directory);
    }
    if !found.is_file() {
        return Err(FileReadError::NotFile);
    }
    let mut text = Vec::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(FileReadError::TooLarge);
    }
    String::from_utf8(text).map_err(|_| FileReadError::NotUtf8)
}
