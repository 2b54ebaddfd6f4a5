//! The record of the page server of a state directory.
//!
//! The server locks the file of the record (flock(2)) while it runs. Readers ignore the record of a server that has
//! ended, because another user's program may listen on its port.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Record that the page server writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageServerRecord {
    /// Process id.
    pub pid: i32,
    /// The port at `localhost`.
    pub port: u16,
    /// The version of the program.
    pub version: String,
}

impl PageServerRecord {
    /// Returns the file of the record in a runtime directory.
    #[must_use]
    pub fn file(runtime: &Path) -> PathBuf {
        runtime.join("serve.lock")
    }

    /// Returns the record of the last server, which may have ended.
    #[must_use]
    pub fn last(runtime: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(Self::file(runtime)).ok()?).ok()
    }

    /// Returns the record of the running server, if it has written one.
    #[must_use]
    pub fn running(runtime: &Path) -> Option<Self> {
        let file = File::open(Self::file(runtime)).ok()?;
        match file.try_lock_shared() {
            // A server that has just started may not have replaced the record of an ended one.
            Err(TryLockError::WouldBlock) => {
                Self::last(runtime).filter(|record| Path::new("/proc").join(record.pid.to_string()).exists())
            }
            Ok(()) => {
                let _ = file.unlock();
                None
            }
            Err(TryLockError::Error(_)) => None,
        }
    }

    /// Returns the address of the page.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://localhost:{}/", self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_of_an_ended_server_has_no_address() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(PageServerRecord::running(folder.path()), None);
        let record = PageServerRecord { pid: 1, port: 7878, version: "1".to_owned() };
        std::fs::write(PageServerRecord::file(folder.path()), serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(PageServerRecord::running(folder.path()), None);
        let server = File::open(PageServerRecord::file(folder.path())).unwrap();
        server.try_lock().unwrap();
        assert_eq!(PageServerRecord::running(folder.path()).unwrap().url(), "http://localhost:7878/");
        server.unlock().unwrap();
        assert_eq!(PageServerRecord::running(folder.path()), None);
    }
}
