//! Processes that lost their parent and were left to us.
//!
//! A child subreaper (prctl(2), `PR_SET_CHILD_SUBREAPER`) becomes the parent of
//! every descendant whose own parent ends first. That is how a process that left
//! its session can still be found, and it makes us the one who must collect it
//! when it ends. Only a process that is all ours adopts; tests share theirs.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::signal::unix::{SignalKind, signal};

/// The children that somebody waits for; every other child is an orphan.
#[derive(Debug, Clone, Default)]
pub(crate) struct Orphans {
    waited_for: Arc<Mutex<HashSet<i32>>>,
}

impl Orphans {
    /// Runs `start` and notes the child that it started, before anybody can collect it.
    pub(crate) fn adding<T, E>(&self, start: impl FnOnce() -> Result<(Pid, T), E>) -> Result<T, E> {
        let mut waited_for = self.waited_for.lock().unwrap_or_else(PoisonError::into_inner);
        let (pid, rest) = start()?;
        waited_for.insert(pid.as_raw_nonzero().get());
        Ok(rest)
    }

    pub(crate) fn remove(&self, pid: Pid) {
        self.waited_for.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid.as_raw_nonzero().get());
    }

    /// Makes this process the parent of its orphaned descendants and collects them as they end.
    ///
    /// # Errors
    /// When the system does not let a process adopt or hear of its children.
    pub(crate) fn adopt(&self) -> std::io::Result<()> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let mut ended = signal(SignalKind::child())?;
        let orphans = self.clone();
        tokio::spawn(async move {
            while ended.recv().await.is_some() {
                orphans.collect();
            }
        });
        Ok(())
    }

    /// Collects orphans that have ended; those still running stay.
    fn collect(&self) {
        let waited_for = self.waited_for.lock().unwrap_or_else(PoisonError::into_inner);
        for pid in children_of_this_process() {
            if !waited_for.contains(&pid)
                && let Some(pid) = Pid::from_raw(pid)
            {
                let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            }
        }
    }
}

/// Reads `/proc/self/task/*/children`, see proc_pid_children(5).
fn children_of_this_process() -> Vec<i32> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|children| children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}
