//! Paths of a daemon, and its owner.
//!
//! One daemon serves one user and one state folder. Its socket lies in a folder
//! that only the user can enter; which one follows from the state folder, so that
//! two state folders have two daemons. Environment: `STEPLATCH_STATE_DIR`, and the
//! XDG base directories (<https://specifications.freedesktop.org/basedir-spec/>).

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The folders of one daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonPaths {
    state: PathBuf,
    runtime: PathBuf,
}

/// Notes of a running daemon about itself in its state folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonRecord {
    /// Its process id.
    pub pid: u32,
    /// The socket on which it listens.
    pub socket: PathBuf,
    /// Its version.
    pub version: String,
}

/// A folder that is not private to this user.
#[derive(Debug, thiserror::Error)]
pub enum NotPrivate {
    /// The directory belongs to another user.
    #[error("directory '{}' belongs to user {owner}, not to you; remove it or set XDG_RUNTIME_DIR to a directory of yours", .folder.display())]
    Foreign {
        /// The folder.
        folder: PathBuf,
        /// The owner.
        owner: u32,
    },
    /// Something that is not a folder has its name.
    #[error("'{}' is not a directory", .0.display())]
    NotAFolder(PathBuf),
    /// The system refused.
    #[error("directory '{}' cannot be used", .folder.display())]
    System {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The user's own state folder.
fn usual() -> Option<PathBuf> {
    variable("XDG_STATE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".local/state")))
        .map(|folder| folder.join("steplatch"))
}

impl DaemonPaths {
    /// Returns the place for `state` folder, or the user's own without one.
    ///
    /// # Errors
    /// If neither `STEPLATCH_STATE_DIR`, `XDG_STATE_HOME` nor `HOME` is set.
    pub fn from_environment(state: Option<&Path>) -> io::Result<Self> {
        let usual = usual();
        let asked = state.map(Path::to_owned).or_else(|| variable("STEPLATCH_STATE_DIR"));
        let Some(state) = asked.or_else(|| usual.clone()) else {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "no state directory: set HOME, XDG_STATE_HOME or STEPLATCH_STATE_DIR",
            ));
        };
        let state = std::path::absolute(state)?;
        let user = rustix::process::getuid().as_raw();
        let base = variable("XDG_RUNTIME_DIR")
            .map_or_else(|| PathBuf::from(format!("/tmp/steplatch-{user}")), |folder| folder.join("steplatch"));
        let runtime = if Some(&state) == usual.as_ref() { base } else { base.join(fingerprint(&state)) };
        Ok(Self { state, runtime })
    }

    /// Returns whether a command of this user finds the daemon here without further settings.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        usual().is_some_and(|usual| usual == self.state)
    }

    /// Returns a place in given folders, for tests.
    #[must_use]
    pub fn new(state: PathBuf, runtime: PathBuf) -> Self {
        Self { state, runtime }
    }

    /// Returns the folder of lasting data.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Returns the folder of data that lasts as long as the daemon.
    #[must_use]
    pub fn runtime(&self) -> &Path {
        &self.runtime
    }

    /// Returns the socket on which the daemon listens.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.runtime.join("daemon.sock")
    }

    /// Returns the path of the journal of runs.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.state.join("steplatch.db")
    }

    /// Returns the path of the shell integration.
    #[must_use]
    pub fn shell(&self) -> PathBuf {
        self.runtime.join("shell")
    }

    /// Returns the directory of notes about other machines with terminals.
    #[must_use]
    pub fn hosts(&self) -> PathBuf {
        self.state.join("hosts")
    }

    /// The place of the terminal host that belongs to a client on another machine: a directory in the user's usual state, where it
    /// outlives every login.
    ///
    /// # Errors
    /// If the name is not that of a client, or there is no home.
    pub fn hosted(client: &str) -> io::Result<Self> {
        if client.is_empty() || client.len() > 64 || !client.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name of a client is letters and digits"));
        }
        let missing = || io::Error::new(io::ErrorKind::NotFound, "no state directory: set HOME or XDG_STATE_HOME");
        let folder =
            std::path::absolute(usual().ok_or_else(missing)?.join("hosted").join(&client[..client.len().min(16)]))?;
        Ok(Self { state: folder.clone(), runtime: folder })
    }

    /// Returns the directory of links to recordings of terminals.
    #[must_use]
    pub fn recordings(&self) -> PathBuf {
        self.state.join("recordings")
    }

    /// Returns the log of the process that keeps the terminals.
    #[must_use]
    pub fn host_log(&self) -> PathBuf {
        self.runtime.join("host.log")
    }

    /// Returns the log of the daemon.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.runtime.join("daemon.log")
    }

    /// Returns the file whose lock states that a daemon owns this state.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.state.join("daemon.lock")
    }

    /// Returns the notes about itself of the daemon that owns this state, if it wrote some. It may have died since.
    #[must_use]
    pub fn running(&self) -> Option<DaemonRecord> {
        serde_json::from_slice(&fs::read(self.lock()).ok()?).ok()
    }
}

/// Makes `folder` and its parents if they are not there, and sees to it that only this user can enter it.
///
/// # Errors
/// If it belongs to another user, is not a directory, or the system refuses.
pub fn ensure_private(folder: &Path) -> Result<(), NotPrivate> {
    let system = |source| NotPrivate::System { folder: folder.to_owned(), source };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => NotPrivate::NotAFolder(folder.to_owned()),
        _ => system(source),
    })?;
    // Not through a link: in a folder that all may write to, another user could have put one there.
    let found = fs::symlink_metadata(folder).map_err(system)?;
    if !found.is_dir() {
        return Err(NotPrivate::NotAFolder(folder.to_owned()));
    }
    if found.uid() != rustix::process::getuid().as_raw() {
        return Err(NotPrivate::Foreign { folder: folder.to_owned(), owner: found.uid() });
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(system)?;
    }
    Ok(())
}

/// A short name for a path that stays the same on every start: FNV-1a of 64 bits,
/// <http://www.isthe.com/chongo/tech/comp/fnv/>. It tells folders apart, it protects nothing.
fn fingerprint(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_private() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("a/b");
        ensure_private(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        ensure_private(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_link_in_place_of_the_folder_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let link = base.path().join("link");
        std::os::unix::fs::symlink(base.path(), &link).unwrap();
        assert!(matches!(ensure_private(&link), Err(NotPrivate::NotAFolder(_))));
        let file = base.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(ensure_private(&file), Err(NotPrivate::NotAFolder(_))));
    }

    #[test]
    fn two_state_folders_have_two_sockets() {
        let one = DaemonPaths::from_environment(Some(Path::new("/tmp/one"))).unwrap();
        let other = DaemonPaths::from_environment(Some(Path::new("/tmp/other"))).unwrap();
        assert_ne!(one.socket(), other.socket());
        assert_eq!(one.socket(), DaemonPaths::from_environment(Some(Path::new("/tmp/one"))).unwrap().socket());
    }
}
