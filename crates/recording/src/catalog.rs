//! The catalog of recordings: a directory of links to files, each named after its start time and its terminal.
//!
//! A recording remains at the path that its owner selected. If the owner moves or deletes it, it leaves the catalog.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use steplatch_ids::TerminalId;
use steplatch_terminal::Size;

use crate::player::header;

/// Maximum number of links. The oldest links are removed first; their files remain.
const MAX_LINKS: usize = 1000;

/// The catalog of recordings in a directory.
#[derive(Debug, Clone)]
pub struct Catalog {
    directory: PathBuf,
}

/// The id of a recording: its start time in milliseconds since 1970, and its terminal, as `1700000000000-term_…`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordingId {
    began_millis: u64,
    terminal: TerminalId,
}

/// Error for a string that is not a recording ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a recording ID")]
pub struct InvalidRecordingId;

/// A listed recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// The id of the recording.
    pub id: RecordingId,
    /// The file of the recording.
    pub file: PathBuf,
    /// The length of the file in bytes.
    pub length: u64,
    /// Time of the last write to the file.
    pub changed: SystemTime,
    /// The name of the terminal, or another title.
    pub title: Option<String>,
    /// The initial size of the screen. `None` if the file is not a recording.
    pub size: Option<Size>,
}

impl RecordingId {
    /// Returns the start time of the recording.
    #[must_use]
    pub fn began(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.began_millis)
    }

    /// Returns the terminal.
    #[must_use]
    pub fn terminal(&self) -> &TerminalId {
        &self.terminal
    }
}

impl fmt::Display for RecordingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Leading zeros make the order of names the order of times.
        write!(f, "{:013}-{}", self.began_millis, self.terminal.as_str())
    }
}

impl FromStr for RecordingId {
    type Err = InvalidRecordingId;

    fn from_str(text: &str) -> Result<Self, InvalidRecordingId> {
        let (began, terminal) = text.split_once('-').ok_or(InvalidRecordingId)?;
        let id = Self {
            began_millis: began.parse().map_err(|_| InvalidRecordingId)?,
            terminal: terminal.parse().map_err(|_| InvalidRecordingId)?,
        };
        // A recording has only one id, so other spellings are invalid.
        if id.to_string() == text { Ok(id) } else { Err(InvalidRecordingId) }
    }
}

impl Catalog {
    /// Creates the catalog of a directory. The directory need not exist.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Adds a link to a file. The directory must exist.
    ///
    /// # Errors
    /// If the system refuses the link.
    pub fn add(&self, file: &Path, terminal: &TerminalId, began: SystemTime) -> io::Result<RecordingId> {
        let file = std::path::absolute(file)?;
        let since = began.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut id = RecordingId {
            began_millis: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            terminal: terminal.clone(),
        };
        // Two recordings of a terminal can begin at the same time.
        while let Err(error) = symlink(&file, self.directory.join(id.to_string())) {
            if error.kind() != io::ErrorKind::AlreadyExists {
                return Err(error);
            }
            id.began_millis += 1;
        }
        let ids = self.ids()?;
        for old_id in ids.iter().take(ids.len().saturating_sub(MAX_LINKS)) {
            // Ignore the error, because another recorder may have removed the link.
            let _ = fs::remove_file(self.directory.join(old_id.to_string()));
        }
        Ok(id)
    }

    /// Returns the recordings whose files exist, the newest first.
    ///
    /// # Errors
    /// If reading the directory fails.
    pub fn list(&self) -> io::Result<Vec<CatalogEntry>> {
        Ok(self.ids()?.into_iter().rev().filter_map(|id| self.entry(id)).collect())
    }

    /// Returns a recording, if its file exists.
    #[must_use]
    pub fn entry(&self, id: RecordingId) -> Option<CatalogEntry> {
        let file = fs::read_link(self.directory.join(id.to_string())).ok()?;
        let metadata = fs::metadata(&file).ok()?;
        let header = header(&file).ok();
        Some(CatalogEntry {
            id,
            length: metadata.len(),
            changed: metadata.modified().unwrap_or(UNIX_EPOCH),
            title: header.as_ref().and_then(|header| header.title.clone()),
            size: header.map(|header| header.size),
            file,
        })
    }

    fn ids(&self) -> io::Result<Vec<RecordingId>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut ids: Vec<RecordingId> =
            entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
        ids.sort();
        Ok(ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_listed_newest_first_while_their_files_exist() {
        let base = tempfile::tempdir().unwrap();
        let catalog = Catalog::new(base.path().join("recordings"));
        assert_eq!(catalog.list().unwrap(), []);
        fs::create_dir(base.path().join("recordings")).unwrap();
        let terminal = TerminalId::random();
        let began = UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        let (older_file, newer_file) = (base.path().join("one.cast"), base.path().join("two.cast"));
        fs::write(&older_file, "{\"version\":3,\"term\":{\"cols\":80,\"rows\":24},\"title\":\"build\"}\n").unwrap();
        fs::write(&newer_file, "something else").unwrap();
        let first = catalog.add(&older_file, &terminal, began).unwrap();
        let second = catalog.add(&newer_file, &terminal, began).unwrap();
        assert_ne!(first, second);
        let entries = catalog.list().unwrap();
        assert_eq!(entries.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>(), [second.clone(), first.clone()]);
        assert_eq!((entries[0].size, entries[1].size), (None, Some(Size { cols: 80, rows: 24 })));
        assert_eq!((entries[1].title.as_deref(), entries[1].id.began()), (Some("build"), began));
        fs::remove_file(&newer_file).unwrap();
        assert_eq!(catalog.list().unwrap().len(), 1);
        assert!(catalog.entry(second).is_none());
    }

    #[test]
    fn recording_id_has_only_one_spelling() {
        let id = RecordingId { began_millis: 1_700_000_000_123, terminal: TerminalId::random() };
        assert_eq!(id.to_string().parse(), Ok(id.clone()));
        for text in ["", "..", "1-x", "../1700000000123-term_0", "-term_", &format!("+{id}"), &format!("0{id}")] {
            assert!(text.parse::<RecordingId>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_the_newest_links_are_kept() {
        let base = tempfile::tempdir().unwrap();
        let catalog = Catalog::new(base.path().to_owned());
        let terminal = TerminalId::random();
        let file = base.path().join("one.cast");
        fs::write(&file, "x").unwrap();
        for number in 0..MAX_LINKS + 3 {
            catalog.add(&file, &terminal, UNIX_EPOCH + Duration::from_millis(number as u64)).unwrap();
        }
        let ids = catalog.ids().unwrap();
        assert_eq!((ids.len(), ids[0].began_millis), (MAX_LINKS, 3));
        assert!(file.exists());
    }
}
