//! Orphaned processes that this process has adopted.
//!
//! A child subreaper (prctl(2), `PR_SET_CHILD_SUBREAPER`) becomes the parent of every descendant whose own parent ends
//! first. So this process can still find a descendant that left its session, and must reap the descendant when it ends.
//! Only a process that starts all of its children adopts orphans; tests do not.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

/// The children with a waiting caller. Every other child is an orphan.
#[derive(Debug, Clone, Default)]
pub(crate) struct Orphans {
    waited_for: Arc<Mutex<HashSet<i32>>>,
    origins: Arc<Mutex<OrphanOrigins>>,
    /// True if every child without a waiting caller comes from a terminal.
    adopting: Arc<AtomicBool>,
}

/// Start times of the open terminals, by their numbers.
#[derive(Debug, Default)]
struct OrphanOrigins {
    last_number: u64,
    start_times: BTreeMap<u64, Ticks>,
}

/// Start time of a process, in clock ticks since the boot of the system; see proc_pid_stat(5), field 22.
pub(crate) type Ticks = u64;

/// Registration of a terminal as a possible origin of orphans, until its drop.
#[derive(Debug)]
pub(crate) struct OrphanOrigin {
    number: u64,
    started_at: Ticks,
    origins: Arc<Mutex<OrphanOrigins>>,
}

impl OrphanOrigin {
    /// Returns the claim of this terminal to an orphan with this start time.
    pub(super) fn claim(&self, started: Ticks) -> Claim {
        let origins = self.origins.lock();
        let has_other_origin =
            origins.start_times.iter().any(|(number, started_at)| *number != self.number && *started_at <= started);
        match (self.started_at <= started, has_other_origin) {
            (false, _) => Claim::No,
            (true, false) => Claim::Sure,
            (true, true) => Claim::Shared,
        }
    }
}

impl Drop for OrphanOrigin {
    fn drop(&mut self) {
        self.origins.lock().start_times.remove(&self.number);
    }
}

/// Claim of a terminal to an orphan without a mark of its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// The orphan does not come from this terminal.
    No,
    /// The orphan can only come from this terminal.
    Sure,
    /// The orphan comes from this terminal or another one.
    Shared,
}

impl Orphans {
    /// Runs `start` and records the started child before the collector can reap it.
    pub(crate) fn start_tracked<T, E>(&self, start: impl FnOnce() -> Result<(Pid, T), E>) -> Result<T, E> {
        let mut waited_for = self.waited_for.lock();
        let (pid, rest) = start()?;
        waited_for.insert(pid.as_raw_nonzero().get());
        Ok(rest)
    }

    pub(crate) fn remove(&self, pid: Pid) {
        self.waited_for.lock().remove(&pid.as_raw_nonzero().get());
    }

    /// Registers a terminal opened at `started_at`.
    pub(crate) fn register_origin(&self, started_at: Ticks) -> OrphanOrigin {
        let mut origins = self.origins.lock();
        origins.last_number += 1;
        let number = origins.last_number;
        origins.start_times.insert(number, started_at);
        OrphanOrigin { number, started_at, origins: self.origins.clone() }
    }

    /// Returns whether a child of this process comes from some terminal.
    pub(super) fn includes(&self, pid: i32) -> bool {
        self.adopting.load(Ordering::Relaxed) && !self.waited_for.lock().contains(&pid)
    }

    /// Makes this process the parent of its orphaned descendants and reaps them when they end. Each child without a
    /// waiting caller is treated as an orphan.
    ///
    /// # Errors
    /// If the system does not let a process adopt or observe its children.
    pub(crate) fn adopt(&self) -> std::io::Result<()> {
        self.adopting.store(true, Ordering::Relaxed);
        self.adopt_beside_others(Duration::ZERO)
    }

    /// Makes this process the parent of its orphaned descendants and counts none of them as a process of a family. For
    /// a process with other children: an ended child remains for its owner to reap during `grace`.
    ///
    /// # Errors
    /// If the system does not let a process adopt or observe its children.
    pub(crate) fn adopt_beside_others(&self, grace: Duration) -> std::io::Result<()> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let mut ended = signal(SignalKind::child())?;
        let orphans = self.clone();
        tokio::spawn(async move {
            let mut unreaped = BTreeMap::new();
            loop {
                let due = unreaped.values().min().map(|since| *since + grace);
                tokio::select! {
                    child_signal = ended.recv() => if child_signal.is_none() { return },
                    () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
                }
                orphans.collect(&mut unreaped, grace);
            }
        });
        Ok(())
    }

    /// Reaps orphans that ended at least `grace` ago. `unreaped` has the other ended orphans, with the times of their
    /// detection.
    fn collect(&self, unreaped: &mut BTreeMap<i32, Instant>, grace: Duration) {
        let waited_for = self.waited_for.lock();
        let now = Instant::now();
        let mut ended = own_child_pids();
        ended.retain(|pid| !waited_for.contains(pid) && has_ended(*pid));
        unreaped.retain(|pid, _| ended.contains(pid));
        for pid in ended {
            let noticed_at = *unreaped.entry(pid).or_insert(now);
            if now.duration_since(noticed_at) >= grace
                && let Some(id) = Pid::from_raw(pid)
            {
                let _ = waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
                unreaped.remove(&pid);
            }
        }
    }
}

/// Returns whether a child has ended and is not reaped yet.
fn has_ended(child: i32) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Pid::from_raw(child).is_some_and(|child| matches!(waitid(WaitId::Pid(child), options), Ok(Some(_))))
}

/// Reads `/proc/self/task/*/children`, see proc_pid_children(5).
fn own_child_pids() -> Vec<i32> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|children| children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}
