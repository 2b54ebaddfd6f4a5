//! The file that something in the library was loaded from, as it is now.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use steplatch_library::{Origin, Signature, Stamp};

/// The most bytes that a file of functions has.
pub(super) const MOST_BYTES: u64 = 1 << 20;

/// An original, looked at.
#[derive(Debug)]
pub(super) struct Original {
    pub(super) path: PathBuf,
    pub(super) stamp: Option<Stamp>,
    /// What stands in it, or why that is not known.
    pub(super) text: Result<String, String>,
}

/// Returns where the original of a file in the library at `folder` is.
pub(super) fn path(folder: &Path, origin: &Origin) -> PathBuf {
    // A library is shared together with the project in which it lies, wherever that is.
    folder.parent().unwrap_or(folder).join(&origin.file)
}

/// Returns how the library at `folder` names a file that is loaded into it.
pub(super) fn of(folder: &Path, file: &Path, text: &str) -> Origin {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let file = real(file);
    let within = folder.parent().and_then(|parent| file.strip_prefix(real(parent)).ok().map(Path::to_owned));
    Origin { file: within.unwrap_or(file), hash: Signature::of_text(text) }
}

impl Original {
    /// Looks at the original of a file in the library at `folder`. Blocks.
    pub(super) fn read(folder: &Path, origin: &Origin) -> Self {
        let path = path(folder, origin);
        let stamp = Stamp::at(&path);
        let text = if is_trusted(&path, folder) {
            read(&path)
        } else {
            Err("it belongs to somebody else, or does not end in .py".to_owned())
        };
        Self { text, stamp, path }
    }
}

/// Tells whether what stands at `path` may be taken into the library: a library that came from somewhere names files,
/// and what a stranger puts there must not run by name.
fn is_trusted(path: &Path, folder: &Path) -> bool {
    let owner = |path: &Path| fs::metadata(path).ok().map(|found| found.uid());
    let us = rustix::process::geteuid().as_raw();
    let is_ours = owner(path).is_none_or(|uid| uid == us || uid == 0 || owner(folder) == Some(uid));
    is_ours && path.extension().is_some_and(|ending| ending == "py")
}

/// Reads a file of functions that somebody names. Blocks.
///
/// # Errors
/// In words that follow "it can not be used, because ".
pub(super) fn read(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => "it is not there".to_owned(),
        _ => format!("it can not be read: {error}"),
    };
    // Opening a pipe would wait for somebody to write into it.
    let found = fs::metadata(path).map_err(unreadable)?;
    if found.is_dir() {
        return Err("it is a folder".to_owned());
    }
    if !found.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut text = Vec::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(MOST_BYTES + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(format!("it has more than {} KB, which is the most", MOST_BYTES >> 10));
    }
    String::from_utf8(text).map_err(|_| "it is not UTF-8".to_owned())
}
