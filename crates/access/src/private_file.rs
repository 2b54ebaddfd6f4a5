//! Files of the state directory that only their owner can read.

use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::Serialize;

/// Writes `stored` as JSON, whole or not at all, for its owner only.
///
/// # Errors
/// If writing it fails; the old file remains.
pub(crate) fn write(file: &Path, stored: &impl Serialize) -> io::Result<()> {
    write_text(file, &serde_json::to_string(stored).map_err(io::Error::other)?)
}

/// Writes a text, whole or not at all, for its owner only.
///
/// # Errors
/// If writing it fails; the old file remains.
pub fn write_text(file: &Path, text: &str) -> io::Result<()> {
    let new = file.with_extension("new");
    // A half-written file has the permissions of its author.
    let _ = std::fs::remove_file(&new);
    let written = (|| {
        let mut out = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()?;
        std::fs::rename(&new, file)
    })();
    if written.is_err() {
        // A partial file is useless, and may contain a hash of a secret.
        let _ = std::fs::remove_file(&new);
    }
    written
}
