//! The record of the page server of a state directory.
//!
//! The server locks the file of the record (flock(2)) while it runs. Readers ignore the record of a server that has
//! exited, because another user's program may listen on its port.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Record that the page server writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageServerRecord {
    /// Process id.
    pub pid: i32,
    /// Port on `localhost`.
    pub port: u16,
    /// Version of the program.
    pub version: String,
}

impl PageServerRecord {
    /// Returns the file of the record in a runtime directory.
    #[must_use]
    pub fn file(runtime: &Path) -> PathBuf {
        runtime.join("serve.lock")
    }

    /// Returns the record of the last server, which may have exited.
    #[must_use]
    pub fn last(runtime: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(Self::file(runtime)).ok()?).ok()
    }

    /// Returns the record of the running server, if it has written one.
    #[must_use]
    pub fn running(runtime: &Path) -> Option<Self> {
        let file = File::open(Self::file(runtime)).ok()?;
        match file.try_lock_shared() {
            // A server that has just started may not have replaced its predecessor's record yet.
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
    fn record_of_an_exited_server_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(PageServerRecord::running(directory.path()), None);
        let record = PageServerRecord { pid: 1, port: 7878, version: "1".to_owned() };
        std::fs::write(PageServerRecord::file(directory.path()), serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(PageServerRecord::running(directory.path()), None);
        let server = File::open(PageServerRecord::file(directory.path())).unwrap();
        server.try_lock().unwrap();
        assert_eq!(PageServerRecord::running(directory.path()).unwrap().url(), "http://localhost:7878/");
        server.unlock().unwrap();
        assert_eq!(PageServerRecord::running(directory.path()), None);
    }
}
