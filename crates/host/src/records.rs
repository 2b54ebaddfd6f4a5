//! Notes of the running hosts, in a persistent directory.
//!
//! Hosts listen in the runtime directory, which another environment does not find, and which may disappear while they
//! live. A note holds the socket and the process id of a host; a host whose socket was removed receives a signal to
//! listen again.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// The socket of a host and its process id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostRecord {
    pub(crate) socket: PathBuf,
    pub(crate) pid: u32,
    /// The steps of runs that the host may have performed, if it has ended and the daemon knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) doubted: Option<BTreeSet<String>>,
}

/// The time between two checks, because no event announces a change.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum number of such checks for a host that has to listen again, also on a busy machine.
pub(crate) const MAX_LOOKS: usize = 500;

impl HostRecord {
    /// Returns whether the noted process is running and is a host.
    pub(crate) fn lives(&self) -> bool {
        // Another program may have its number now.
        fs::read(format!("/proc/{}/cmdline", self.pid)).is_ok_and(|line| {
            let mut words = line.split(|&byte| byte == 0).skip(1);
            words.next() == Some(b"daemon") && words.next() == Some(b"host")
        })
    }

    /// Waits a moment in which a host that lives may begin to listen.
    pub(crate) async fn moment(&self) {
        tokio::time::sleep(LOOK_INTERVAL).await;
    }

    /// Signals the host to listen again where it listened, and waits a moment until it does.
    pub(crate) async fn listen_again(&self) {
        let asked = Pid::from_raw(self.pid.cast_signed()).is_some_and(|pid| kill_process(pid, Signal::USR1).is_ok());
        for _ in 0..MAX_LOOKS {
            if !asked || self.socket.exists() {
                return;
            }
            // No event announces a new file here, so the caller looks again; this happens once after a logout.
            self.moment().await;
        }
    }
}

fn file(folder: &Path, socket: &Path) -> PathBuf {
    folder.join(socket.file_name().unwrap_or_default()).with_extension("note")
}

/// Returns the file that a host leaves when it ends without results that its clients still need.
pub(crate) fn end_mark(socket: &Path) -> PathBuf {
    socket.with_extension("over")
}

/// Records a host.
pub(crate) fn add(folder: &Path, socket: &Path, pid: u32) -> io::Result<()> {
    let note = HostRecord { socket: socket.to_owned(), pid, doubted: None };
    let text = rmp_serde::to_vec_named(&note).map_err(io::Error::other)?;
    fs::write(file(folder, socket), text)
}

/// Records which steps are in doubt because of a host that has ended: later daemons doubt no others because of it. The
/// old note stays if the write fails.
pub(crate) fn doubt(folder: &Path, record: &HostRecord) -> io::Result<()> {
    replace(&file(folder, &record.socket), record)
}

/// Writes a note atomically.
pub(crate) fn replace(target: &Path, note: &impl Serialize) -> io::Result<()> {
    let bytes = rmp_serde::to_vec_named(note).map_err(io::Error::other)?;
    let mut written = tempfile::NamedTempFile::new_in(target.parent().unwrap_or(Path::new(".")))?;
    written.write_all(&bytes)?;
    written.persist(target)?;
    Ok(())
}

/// Forgets a host.
pub(crate) fn remove(folder: &Path, socket: &Path) {
    // A host without a note needs no removal.
    let _ = fs::remove_file(file(folder, socket));
}

/// Returns every note; skips unreadable files.
pub(crate) fn all(folder: &Path) -> io::Result<Vec<HostRecord>> {
    let entries = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let notes = entries.filter(|path| path.extension().is_some_and(|extension| extension == "note"));
    Ok(notes.filter_map(|path| rmp_serde::from_slice(&fs::read(path).ok()?).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_there_until_it_is_removed_and_what_is_none_is_overlooked() {
        let folder = tempfile::tempdir().unwrap();
        let socket = Path::new("/somewhere/host-1.sock");
        add(folder.path(), socket, 7).unwrap();
        fs::write(folder.path().join("other.note"), "not a note").unwrap();
        let noted = all(folder.path()).unwrap();
        assert_eq!(noted, [HostRecord { socket: socket.to_owned(), pid: 7, doubted: None }]);
        assert!(!noted[0].lives());
        let doubted = HostRecord { doubted: Some(["run/a/1".to_owned()].into()), ..noted[0].clone() };
        doubt(folder.path(), &doubted).unwrap();
        assert_eq!(all(folder.path()).unwrap(), [doubted]);
        remove(folder.path(), socket);
        assert_eq!(all(folder.path()).unwrap(), []);
    }
}
