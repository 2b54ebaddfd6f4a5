//! The Rust sources of a directory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Returns the sources in and below a directory, in order. None if the directory does not exist.
///
/// # Errors
/// If a directory below it is unreadable.
pub(crate) fn rust_sources(directory: &Path) -> std::io::Result<BTreeSet<PathBuf>> {
    let mut sources = BTreeSet::new();
    if !directory.exists() {
        return Ok(sources);
    }
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            sources.extend(rust_sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.insert(path);
        }
    }
    Ok(sources)
}
