//! Paths of a daemon, and the record of the running daemon.
//!
//! One daemon serves one user and one state directory. Its socket is in a runtime
//! directory that only the user can enter. Each state directory has a runtime directory
//! of its own, named by a checksum of its path. Environment:
//! `STEPLATCH_STATE_DIR`, and the XDG base directories
//! (<https://specifications.freedesktop.org/basedir-spec/>).

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Directories of one daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonPaths {
    state: PathBuf,
    /// Directory of the runtime directories of this user, if the runtime directory is in it.
    runtime_base: Option<PathBuf>,
    runtime: PathBuf,
}

/// Record that a running daemon writes into its state directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonRecord {
    /// Process id of the daemon.
    pub pid: u32,
    /// The socket on which it listens.
    pub socket: PathBuf,
    /// Version of the daemon.
    pub version: String,
}

/// Reason why a directory is not private to this user.
#[derive(Debug, thiserror::Error)]
pub enum NotPrivate {
    /// The directory belongs to another user.
    #[error("directory '{}' belongs to user {owner}, not to you; remove it or set XDG_RUNTIME_DIR to a directory of yours", .directory.display())]
    Foreign {
        /// Path of the directory.
        directory: PathBuf,
        /// User id of the owner.
        owner: u32,
    },
    /// The path exists and is not a directory.
    #[error("'{}' is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// The system reported an error.
    #[error("directory '{}' cannot be used", .directory.display())]
    System {
        /// Path of the directory.
        directory: PathBuf,
        /// Error from the system.
        #[source]
        source: io::Error,
    },
}

fn path_from_environment(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Returns the default state directory of this user.
fn default_state_dir() -> Option<PathBuf> {
    path_from_environment("XDG_STATE_HOME")
        .or_else(|| path_from_environment("HOME").map(|home| home.join(".local/state")))
        .map(|directory| directory.join("steplatch"))
}

impl DaemonPaths {
    /// Returns the paths for the state directory `state`, or for the configured or default one.
    ///
    /// # Errors
    /// If neither `STEPLATCH_STATE_DIR`, `XDG_STATE_HOME` nor `HOME` is set.
    pub fn from_environment(state: Option<&Path>) -> io::Result<Self> {
        let requested_state = state.map(Path::to_owned).or_else(|| path_from_environment("STEPLATCH_STATE_DIR"));
        let Some(state) = requested_state.or_else(default_state_dir) else {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "no state directory: set HOME, XDG_STATE_HOME or STEPLATCH_STATE_DIR",
            ));
        };
        let state = std::path::absolute(state)?;
        let user = rustix::process::getuid().as_raw();
        let base = path_from_environment("XDG_RUNTIME_DIR")
            .map_or_else(|| PathBuf::from(format!("/tmp/steplatch-{user}")), |directory| directory.join("steplatch"));
        let runtime = base.join(fingerprint(&state));
        Ok(Self { state, runtime_base: Some(base), runtime })
    }

    /// Returns whether this is the default state directory, which commands use unless configured otherwise.
    #[must_use]
    pub fn is_default(&self) -> bool {
        default_state_dir().is_some_and(|default| default == self.state)
    }

    /// Returns paths in these directories, for tests.
    #[must_use]
    pub fn new(state: PathBuf, runtime: PathBuf) -> Self {
        Self { state, runtime_base: None, runtime }
    }

    /// Returns the state directory, which outlives the daemon.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Returns the runtime directory, whose content is used only while the daemon runs.
    #[must_use]
    pub fn runtime(&self) -> &Path {
        &self.runtime
    }

    /// Returns the directory of all runtime directories of this user, if the runtime directory is in it.
    #[must_use]
    pub fn runtime_base(&self) -> Option<&Path> {
        self.runtime_base.as_deref()
    }

    /// Creates the runtime directory if it is missing and makes it accessible only to this user.
    ///
    /// # Errors
    /// If the directory or its parent belongs to another user, is not a directory, or the system reports an error.
    pub fn ensure_runtime(&self) -> Result<(), NotPrivate> {
        // The owner of the parent could replace the directory.
        if let Some(base) = &self.runtime_base {
            ensure_private(base)?;
        }
        ensure_private(&self.runtime)
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

    /// Returns the directory of the shell integration.
    #[must_use]
    pub fn shell(&self) -> PathBuf {
        self.runtime.join("shell")
    }

    /// Returns the directory of the records about remote hosts.
    #[must_use]
    pub fn hosts(&self) -> PathBuf {
        self.state.join("hosts")
    }

    /// Returns the paths of the terminal host that serves a client on another computer: one directory in the default
    /// state directory, which outlives logins.
    ///
    /// # Errors
    /// If the client name is invalid, or there is no home directory.
    pub fn hosted(client: &str) -> io::Result<Self> {
        if client.is_empty() || client.len() > 64 || !client.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a client name must consist of letters and digits",
            ));
        }
        let no_state_dir = || io::Error::new(io::ErrorKind::NotFound, "no state directory: set HOME or XDG_STATE_HOME");
        let directory = std::path::absolute(
            default_state_dir().ok_or_else(no_state_dir)?.join("hosted").join(&client[..client.len().min(16)]),
        )?;
        Ok(Self::new(directory.clone(), directory))
    }

    /// Returns the directory of links to recordings of terminals.
    #[must_use]
    pub fn recordings(&self) -> PathBuf {
        self.state.join("recordings")
    }

    /// Returns the log of the terminal host.
    #[must_use]
    pub fn host_log(&self) -> PathBuf {
        self.runtime.join("host.log")
    }

    /// Returns the log of the daemon.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.runtime.join("daemon.log")
    }

    /// Returns the file that a daemon locks while it owns the state directory.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.state.join("daemon.lock")
    }

    /// Returns the record of the last daemon of this state directory, which may have exited.
    #[must_use]
    pub fn running(&self) -> Option<DaemonRecord> {
        serde_json::from_slice(&fs::read(self.lock()).ok()?).ok()
    }

    /// Returns whether a process holds the lock of the state directory. The recorded process id alone is no evidence: a
    /// container that starts again with the same state directory gives it to another process.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        let Ok(file) = fs::File::open(self.lock()) else { return false };
        // A daemon that starts meanwhile retries. Closing the file releases the lock.
        matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock))
    }
}

/// Creates `directory` and its parents if they are missing and makes it accessible only to this user.
///
/// # Errors
/// If it belongs to another user, is not a directory, or the system reports an error.
pub fn ensure_private(directory: &Path) -> Result<(), NotPrivate> {
    let system_error = |source| NotPrivate::System { directory: directory.to_owned(), source };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => NotPrivate::NotADirectory(directory.to_owned()),
        _ => system_error(source),
    })?;
    // Do not follow a link, because another user could have created it in a directory that everyone can write to.
    let metadata = fs::symlink_metadata(directory).map_err(system_error)?;
    if !metadata.is_dir() {
        return Err(NotPrivate::NotADirectory(directory.to_owned()));
    }
    if metadata.uid() != rustix::process::getuid().as_raw() {
        return Err(NotPrivate::Foreign { directory: directory.to_owned(), owner: metadata.uid() });
    }
    if metadata.mode() & 0o077 != 0 {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).map_err(system_error)?;
    }
    Ok(())
}

/// Returns a short, stable name for a path: FNV-1a of 64 bits, <http://www.isthe.com/chongo/tech/comp/fnv/>. The hash
/// is not cryptographic.
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
    fn directory_is_made_private() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("a/b");
        ensure_private(&directory).unwrap();
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
        ensure_private(&directory).unwrap();
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn link_or_file_in_place_of_the_directory_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let link = base.path().join("link");
        std::os::unix::fs::symlink(base.path(), &link).unwrap();
        assert!(matches!(ensure_private(&link), Err(NotPrivate::NotADirectory(_))));
        let file = base.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(ensure_private(&file), Err(NotPrivate::NotADirectory(_))));
    }

    #[test]
    fn each_state_directory_has_its_own_socket() {
        let paths = |state: Option<&str>| DaemonPaths::from_environment(state.map(Path::new)).unwrap();
        let [first, second, default] = [Some("/tmp/one"), Some("/tmp/other"), None].map(paths);
        assert_ne!(first.socket(), second.socket());
        assert_eq!(first.socket(), paths(Some("/tmp/one")).socket());
        assert_eq!(default.runtime().parent(), default.runtime_base());
        assert_eq!(default.runtime_base(), first.runtime_base());
    }

    #[test]
    fn parent_of_the_runtime_directory_is_checked() {
        let base = tempfile::tempdir().unwrap();
        let link = base.path().join("link");
        std::os::unix::fs::symlink(base.path(), &link).unwrap();
        let runtime = link.join("0123");
        let paths = DaemonPaths { state: base.path().to_owned(), runtime_base: Some(link), runtime };
        assert!(matches!(paths.ensure_runtime(), Err(NotPrivate::NotADirectory(_))));
    }
}
