//! That one state folder has one daemon.
//!
//! The lock is the kernel's (flock(2)), so it ends with its owner however that
//! ends. The file says who the owner is, for people and for clients that look for it.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use rustix::fs::{FlockOperation, flock};
use steplatch_protocol::{Place, Running};

/// The ownership of a state folder, for as long as it is kept.
#[derive(Debug)]
pub(crate) struct StateLock {
    file: File,
}

/// Why a state folder could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another daemon has it.
    #[error("a daemon (pid {}, version {}) already owns '{state}' and listens on '{}'; stop it with: steplatch daemon stop", .owner.pid, .owner.version, .owner.socket.display())]
    Owned {
        /// The folder.
        state: String,
        /// The other daemon.
        owner: Running,
    },
    /// Another process has it and did not say who it is.
    #[error("another process owns '{state}'")]
    OwnedBySomebody {
        /// The folder.
        state: String,
    },
    /// The system refused.
    #[error("the state folder '{state}' can not be locked: {source}")]
    System {
        /// The folder.
        state: String,
        /// Why.
        source: io::Error,
    },
}

impl StateLock {
    pub(crate) fn acquire(place: &Place) -> Result<Self, LockError> {
        let state = place.state().display().to_string();
        let system = |source| LockError::System { state: state.clone(), source };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(place.lock())
            .map_err(system)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(match place.running() {
                    Some(owner) => LockError::Owned { state, owner },
                    None => LockError::OwnedBySomebody { state },
                });
            }
            Err(error) => return Err(system(error.into())),
        }
        let mut lock = Self { file };
        let owner =
            Running { pid: std::process::id(), socket: place.socket(), version: env!("CARGO_PKG_VERSION").to_owned() };
        lock.write(&owner).map_err(system)?;
        Ok(lock)
    }

    fn write(&mut self, owner: &Running) -> io::Result<()> {
        let text = serde_json::to_string(owner).map_err(io::Error::other)?;
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())
    }
}

impl Drop for StateLock {
    fn drop(&mut self) {
        // What is left behind would only mislead; whoever can not empty it can not help it.
        let _ = self.file.set_len(0);
    }
}
