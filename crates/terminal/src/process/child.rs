//! A running program that is ours to wait for.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, waitid};
use serde::{Deserialize, Serialize};
use tokio::io::unix::AsyncFd;

use super::orphans::{OrphanOrigin, Orphans};
use super::spawn::{Program, SpawnError, Streams, spawn};
use super::system::watched;
use super::tree::{OrphanMatcher, started};

/// Exit of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The exit code; for a program that a signal ended, 128 and the signal's number, as shells have it.
    pub code: i32,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
}

/// A program that leads its own session.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    pidfd: AsyncFd<OwnedFd>,
    orphans: Orphans,
    family: Arc<OrphanOrigin>,
    collected: AtomicBool,
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.collected.load(Ordering::Relaxed) {
            // Nothing will wait for its exit any more: kill it, and let the collector of orphans reap it.
            signal_group(self.pid, Signal::KILL);
            self.orphans.remove(self.pid);
            let _ = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }
}

impl Child {
    /// Starts `program` on these streams. Blocks for the time of an exec.
    pub(crate) fn start(program: &Program, streams: Streams, orphans: &Orphans) -> Result<Self, SpawnError> {
        // Under the lock, so that an early end does not count as an orphan's.
        let (pid, pidfd) = orphans.adding(|| {
            let pid = spawn(program, streams)?;
            let pidfd = pidfd_open(pid, PidfdFlags::NONBLOCK).map_err(io::Error::from)?;
            Ok::<_, SpawnError>((pid, (pid, pidfd)))
        })?;
        // An ended program began before anything that it left behind.
        let family = Arc::new(orphans.family(started(pid).unwrap_or(0)));
        let collected = AtomicBool::new(false);
        Ok(Self { pid, pidfd: watched(pidfd)?, orphans: orphans.clone(), family, collected })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns the mark that distinguishes its orphans from those of other terminals.
    pub(crate) fn kin(&self) -> OrphanMatcher {
        OrphanMatcher { family: self.family.clone(), orphans: self.orphans.clone() }
    }

    /// Returns whether it has ended and was collected, so that its number may mean another process.
    pub(crate) fn is_collected(&self) -> bool {
        self.collected.load(Ordering::Relaxed)
    }

    /// Waits until the program has ended and returns how. Every later call returns an error.
    pub(crate) async fn wait(&self) -> io::Result<Exit> {
        loop {
            let mut ready = self.pidfd.readable().await?;
            match waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG)? {
                None => ready.clear_ready(),
                Some(status) => {
                    self.orphans.remove(self.pid);
                    self.collected.store(true, Ordering::Relaxed);
                    let signal = status.terminating_signal();
                    let code = status.exit_status().or(signal.map(|signal| 128 + signal)).unwrap_or(-1);
                    return Ok(Exit { code, signal });
                }
            }
        }
    }
}

/// Sends a signal to the processes of a group; an ended group needs none.
pub(crate) fn signal_group(group: Pid, signal: Signal) {
    let _ = rustix::process::kill_process_group(group, signal);
}
