//! Records of the running hosts, in a persistent directory.
//!
//! Hosts listen in the runtime directory. That directory depends on the environment and may be removed while hosts run.
//! A record holds the socket and the process id of a host. A host whose socket was removed receives a signal to listen
//! again.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// Record of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostRecord {
    pub(crate) socket: PathBuf,
    pub(crate) pid: u32,
    /// Steps of runs that the ended host may have performed, if the daemon knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) doubted: Option<BTreeSet<String>>,
}

/// Poll interval for a change that no event announces.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum number of checks whether a host listens; enough for a busy computer.
pub(crate) const MAX_POLLS: usize = 500;

impl HostRecord {
    /// Returns whether the process is running and is a host.
    pub(crate) fn is_alive(&self) -> bool {
        // Another program may have the process id now.
        fs::read(format!("/proc/{}/cmdline", self.pid)).is_ok_and(|line| {
            let mut words = line.split(|&byte| byte == 0).skip(1);
            words.next() == Some(b"daemon") && words.next() == Some(b"host")
        })
    }

    /// Waits between two checks that the host listens.
    pub(crate) async fn wait_poll_interval(&self) {
        tokio::time::sleep(POLL_INTERVAL).await;
    }

    /// Signals the host to create its socket again and waits for the socket for a limited time.
    pub(crate) async fn listen_again(&self) {
        let is_signalled =
            Pid::from_raw(self.pid.cast_signed()).is_some_and(|pid| kill_process(pid, Signal::USR1).is_ok());
        for _ in 0..MAX_POLLS {
            if !is_signalled || self.socket.exists() {
                return;
            }
            self.wait_poll_interval().await;
        }
    }
}

fn record_file(directory: &Path, socket: &Path) -> PathBuf {
    directory.join(socket.file_name().unwrap_or_default()).with_extension("note")
}

/// Returns the path of the mark that an ending host writes if no client still needs its results.
pub(crate) fn end_mark(socket: &Path) -> PathBuf {
    socket.with_extension("over")
}

/// Records a host.
pub(crate) fn add(directory: &Path, socket: &Path, pid: u32) -> io::Result<()> {
    let record = HostRecord { socket: socket.to_owned(), pid, doubted: None };
    let text = rmp_serde::to_vec_named(&record).map_err(io::Error::other)?;
    fs::write(record_file(directory, socket), text)
}

/// Adds to a record the steps that are in doubt because the host has ended. Keeps the old record if the write fails.
pub(crate) fn record_uncertain_steps(directory: &Path, record: &HostRecord) -> io::Result<()> {
    replace(&record_file(directory, &record.socket), record)
}

/// Writes a record atomically.
pub(crate) fn replace(target: &Path, record: &impl Serialize) -> io::Result<()> {
    let bytes = rmp_serde::to_vec_named(record).map_err(io::Error::other)?;
    let mut file = tempfile::NamedTempFile::new_in(target.parent().unwrap_or(Path::new(".")))?;
    file.write_all(&bytes)?;
    file.persist(target)?;
    Ok(())
}

/// Removes the record of a host.
pub(crate) fn remove(directory: &Path, socket: &Path) {
    // Ignore the error, because the host may have no record.
    let _ = fs::remove_file(record_file(directory, socket));
}

/// Returns all readable records.
pub(crate) fn all(directory: &Path) -> io::Result<Vec<HostRecord>> {
    let entries = fs::read_dir(directory)?.flatten().map(|entry| entry.path());
    let record_files = entries.filter(|path| path.extension().is_some_and(|extension| extension == "note"));
    Ok(record_files.filter_map(|path| rmp_serde::from_slice(&fs::read(path).ok()?).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_exists_until_removed_and_other_files_are_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let socket = Path::new("/somewhere/host-1.sock");
        add(directory.path(), socket, 7).unwrap();
        fs::write(directory.path().join("other.note"), "not a note").unwrap();
        let records = all(directory.path()).unwrap();
        assert_eq!(records, [HostRecord { socket: socket.to_owned(), pid: 7, doubted: None }]);
        assert!(!records[0].is_alive());
        let uncertain = HostRecord { doubted: Some(["run/a/1".to_owned()].into()), ..records[0].clone() };
        record_uncertain_steps(directory.path(), &uncertain).unwrap();
        assert_eq!(all(directory.path()).unwrap(), [uncertain]);
        remove(directory.path(), socket);
        assert_eq!(all(directory.path()).unwrap(), []);
    }
}
