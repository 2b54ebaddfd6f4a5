//! The process at the other end of a connection.
//!
//! Gates for people rely on this data. The daemon reads it from the kernel once, when it accepts the connection,
//! because a process can later exit, get another parent or pass its socket on. The daemon refuses unidentified
//! processes.

mod group;
mod lineage;
mod mounts;
mod reader;
mod table;
mod tcp;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

pub use group::join as join_group;
#[cfg(test)]
pub(crate) use lineage::Process;
pub(crate) use lineage::{Cut, Lineage};
pub(crate) use reader::read as read_password_reader;
pub use reader::{PasswordReader, ReaderRefusal};
#[cfg(test)]
pub(crate) use table::Evidence;
pub(crate) use tcp::Location;

/// A process that opened a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) lineage: Lineage,
    pub(crate) program: Program,
    /// True if the process is in the foreground of its controlling terminal.
    pub(crate) has_terminal: bool,
}

/// The executable of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Program {
    /// The executable of this process.
    Ours,
    /// Another executable, with this name.
    Other(String),
    /// The kernel does not show the executable.
    Unknown,
}

impl Program {
    fn from_pid(pid: i32) -> Self {
        let file = |process: &str| {
            let file = std::fs::metadata(format!("/proc/{process}/exe")).ok()?;
            Some((file.dev(), file.ino()))
        };
        match (file(&pid.to_string()), file("self")) {
            (Some(program), Some(own_program)) if program == own_program => Self::Ours,
            (Some(_), _) => {
                let path = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
                let name = path.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
                name.map_or(Self::Unknown, Self::Other)
            }
            (None, _) => Self::Unknown,
        }
    }
}

impl Peer {
    /// Reads the data of a process. With a `handle` from the kernel, the data cannot belong to a later process with the
    /// same id. Blocks for some reads of `/proc`.
    pub(crate) fn read(pid: i32, handle: Option<&OwnedFd>) -> Self {
        let lineage = lineage::read(&table::Proc, pid);
        let peer =
            Self { lineage, program: Program::from_pid(pid), has_terminal: table::is_in_foreground_of_terminal(pid) };
        // Check last, because a process that still exists had its id during all reads.
        if handle.is_some_and(has_exited) {
            return Self { lineage: Lineage::unknown(Cut::Gone), program: Program::Unknown, has_terminal: false };
        }
        peer
    }
}

/// Returns whether the process of a descriptor has exited. The descriptor is then readable: pidfd_open(2).
fn has_exited(handle: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut polled = [PollFd::new(handle, PollFlags::IN)];
    let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
    // If polling the descriptor fails, the process is considered exited.
    !matches!(poll(&mut polled, Some(&no_wait)), Ok(0))
}

/// Returns the local processes at the other end of a TCP connection from this address. Blocks while it reads every
/// descriptor of every readable process.
pub(crate) fn at_address(peer: SocketAddr) -> Location<Vec<Peer>> {
    match tcp::processes_at(peer) {
        Location::Elsewhere => Location::Elsewhere,
        Location::Here(processes) => Location::Here(processes.into_iter().map(|pid| Peer::read(pid, None)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::*;

    #[test]
    fn process_is_known_until_it_exits() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let handle = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap();
        let peer = Peer::read(pid, Some(&handle));
        let (known, own_pid) = (&peer.lineage.known, i32::try_from(std::process::id()).unwrap());
        assert_eq!((known[0].pid, known[1].pid, peer.lineage.cut), (pid, own_pid, None));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(Peer::read(pid, Some(&handle)).lineage, Lineage::unknown(Cut::Gone));
        // A later process with the same id is a different process.
        assert_eq!(Peer::read(own_pid, Some(&handle)).lineage, Lineage::unknown(Cut::Gone));
    }
}
