//! Files of the state directory that only their owner can read.

use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::Serialize;

/// Writes `stored` as JSON, atomically, readable only by its owner.
///
/// # Errors
/// If writing the file fails; the old file remains.
pub(crate) fn write(file: &Path, stored: &impl Serialize) -> io::Result<()> {
    write_text(file, &serde_json::to_string(stored).map_err(io::Error::other)?)
}

/// Writes `text`, atomically, readable only by its owner.
///
/// # Errors
/// If writing the file fails; the old file remains.
pub fn write_text(file: &Path, text: &str) -> io::Result<()> {
    write_with_mode(file, text, 0o600)
}

/// Writes a program, atomically, readable and executable only by its owner.
///
/// # Errors
/// If writing the file fails; the old file remains.
pub fn write_program(file: &Path, text: &str) -> io::Result<()> {
    write_with_mode(file, text, 0o700)
}

fn write_with_mode(file: &Path, text: &str, mode: u32) -> io::Result<()> {
    let temporary_file = file.with_extension("new");
    // A leftover temporary file may have other permissions.
    let _ = std::fs::remove_file(&temporary_file);
    let result = (|| {
        let mut out = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary_file)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()?;
        std::fs::rename(&temporary_file, file)
    })();
    if result.is_err() {
        // A partial file is useless, and may contain the hash of a secret.
        let _ = std::fs::remove_file(&temporary_file);
    }
    result
}
