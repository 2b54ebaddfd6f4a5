//! A child process: start, wait and signals.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, waitid};
use serde::{Deserialize, Serialize};
use tokio::io::unix::AsyncFd;

use super::orphans::{OrphanOrigin, Orphans};
use super::spawn::{Program, SpawnError, Streams, spawn};
use super::system::register_with_reactor;
use super::tree::{OrphanMatcher, start_time};

/// Exit of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The exit code. If a signal ended the program, 128 plus the signal's number, as in shells.
    pub code: i32,
    /// The signal that ended the program, if any.
    pub signal: Option<i32>,
}

/// A program that leads its own session.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    pidfd: AsyncFd<OwnedFd>,
    orphans: Orphans,
    origin: Arc<OrphanOrigin>,
    is_reaped: AtomicBool,
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.is_reaped.load(Ordering::Relaxed) {
            // No caller waits for the exit: kill the program, and let the collector of orphans reap it.
            signal_group(self.pid, Signal::KILL);
            self.orphans.remove(self.pid);
            let _ = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }
}

impl Child {
    /// Starts `program` on these streams. Blocks until the exec.
    pub(crate) fn start(program: &Program, streams: Streams, orphans: &Orphans) -> Result<Self, SpawnError> {
        // Start it under the lock, so that an early exit is not treated as an orphan's.
        let (pid, pidfd) = orphans.start_tracked(|| {
            let pid = spawn(program, streams)?;
            let pidfd = pidfd_open(pid, PidfdFlags::NONBLOCK).map_err(io::Error::from)?;
            Ok::<_, SpawnError>((pid, (pid, pidfd)))
        })?;
        // An ended program has no start time; 0 is earlier than the start of any remaining process.
        let origin = Arc::new(orphans.register_origin(start_time(pid).unwrap_or(0)));
        let is_reaped = AtomicBool::new(false);
        Ok(Self { pid, pidfd: register_with_reactor(pidfd)?, orphans: orphans.clone(), origin, is_reaped })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns the matcher that distinguishes its orphans from other terminals' orphans.
    pub(crate) fn orphan_matcher(&self) -> OrphanMatcher {
        OrphanMatcher { origin: self.origin.clone(), orphans: self.orphans.clone() }
    }

    /// Returns whether the program was reaped, so that its process id may refer to another process.
    pub(crate) fn is_reaped(&self) -> bool {
        self.is_reaped.load(Ordering::Relaxed)
    }

    /// Waits for the program and returns its exit. Every later call returns an error.
    pub(crate) async fn wait(&self) -> io::Result<Exit> {
        loop {
            let mut ready = self.pidfd.readable().await?;
            match waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG)? {
                None => ready.clear_ready(),
                Some(status) => {
                    self.orphans.remove(self.pid);
                    self.is_reaped.store(true, Ordering::Relaxed);
                    let signal = status.terminating_signal();
                    let code = status.exit_status().or(signal.map(|signal| 128 + signal)).unwrap_or(-1);
                    return Ok(Exit { code, signal });
                }
            }
        }
    }
}

/// Sends a signal to a process group. Ignores the error if the group has ended.
pub(crate) fn signal_group(group: Pid, signal: Signal) {
    let _ = rustix::process::kill_process_group(group, signal);
}
