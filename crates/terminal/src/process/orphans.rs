//! Orphaned processes that this process has adopted.
//!
//! A child subreaper (prctl(2), `PR_SET_CHILD_SUBREAPER`) becomes the parent of every descendant
//! whose own parent ends first. So this process can still find a process that left its session, and
//! is responsible for reaping it at its end. Only a process that owns all of its children adopts;
//! tests share theirs.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

/// The children that a caller waits for; every other child is an orphan.
#[derive(Debug, Clone, Default)]
pub(crate) struct Orphans {
    waited_for: Arc<Mutex<HashSet<i32>>>,
    families: Arc<Mutex<OrphanOrigins>>,
    /// True if every child of this process without a waiting caller is from a terminal.
    adopting: Arc<AtomicBool>,
}

/// Start times of the open terminals, by the number of each.
#[derive(Debug, Default)]
struct OrphanOrigins {
    next: u64,
    began: BTreeMap<u64, Ticks>,
}

/// A time as the kernel counts it for processes: clock ticks since it booted, see proc_pid_stat(5), field 22.
pub(crate) type Ticks = u64;

/// A terminal's place among the possible origins of orphans, during the life of this value.
#[derive(Debug)]
pub(crate) struct OrphanOrigin {
    number: u64,
    began: Ticks,
    families: Arc<Mutex<OrphanOrigins>>,
}

impl OrphanOrigin {
    /// Returns whether an orphan that started then can have come from this terminal, and from no other.
    pub(super) fn claim(&self, started: Ticks) -> Claim {
        let families = self.families.lock();
        let others = families.began.iter().any(|(number, began)| *number != self.number && *began <= started);
        match (self.began <= started, others) {
            (false, _) => Claim::No,
            (true, false) => Claim::Sure,
            (true, true) => Claim::Shared,
        }
    }
}

impl Drop for OrphanOrigin {
    fn drop(&mut self) {
        self.families.lock().began.remove(&self.number);
    }
}

/// The terminal of an orphan that carries no sign of where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// Not this terminal's.
    No,
    /// No other terminal's.
    Sure,
    /// This terminal's or another one's.
    Shared,
}

impl Orphans {
    /// Runs `start` and records the child that it started, before the collector can reap it.
    pub(crate) fn adding<T, E>(&self, start: impl FnOnce() -> Result<(Pid, T), E>) -> Result<T, E> {
        let mut waited_for = self.waited_for.lock();
        let (pid, rest) = start()?;
        waited_for.insert(pid.as_raw_nonzero().get());
        Ok(rest)
    }

    pub(crate) fn remove(&self, pid: Pid) {
        self.waited_for.lock().remove(&pid.as_raw_nonzero().get());
    }

    /// Records a terminal opened at `began`.
    pub(crate) fn family(&self, began: Ticks) -> OrphanOrigin {
        let mut families = self.families.lock();
        families.next += 1;
        let number = families.next;
        families.began.insert(number, began);
        OrphanOrigin { number, began, families: self.families.clone() }
    }

    /// Returns whether this child of ours is from a terminal, whichever that was.
    pub(super) fn includes(&self, pid: i32) -> bool {
        self.adopting.load(Ordering::Relaxed) && !self.waited_for.lock().contains(&pid)
    }

    /// Makes this process the parent of its orphaned descendants and reaps them as they end. Each of its children
    /// without a waiting caller is an orphan then.
    ///
    /// # Errors
    /// If the system does not let a process adopt or observe its children.
    pub(crate) fn adopt(&self) -> std::io::Result<()> {
        self.adopting.store(true, Ordering::Relaxed);
        self.adopt_beside_others(Duration::ZERO)
    }

    /// The same for a process with other children, which are not orphans: an ended child stays with its owner for as
    /// long as `grace`.
    ///
    /// # Errors
    /// If the system does not let a process adopt or observe its children.
    pub(crate) fn adopt_beside_others(&self, grace: Duration) -> std::io::Result<()> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let mut ended = signal(SignalKind::child())?;
        let orphans = self.clone();
        tokio::spawn(async move {
            let mut left = BTreeMap::new();
            loop {
                let due = left.values().min().map(|since| *since + grace);
                tokio::select! {
                    heard = ended.recv() => if heard.is_none() { return },
                    () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
                }
                orphans.collect(&mut left, grace);
            }
        });
        Ok(())
    }

    /// Collects orphans that have ended `grace` ago; those still running stay. `left` has those that have ended later.
    fn collect(&self, left: &mut BTreeMap<i32, Instant>, grace: Duration) {
        let waited_for = self.waited_for.lock();
        let now = Instant::now();
        let mut ended = children_of_this_process();
        ended.retain(|pid| !waited_for.contains(pid) && has_ended(*pid));
        left.retain(|pid, _| ended.contains(pid));
        for pid in ended {
            let since = *left.entry(pid).or_insert(now);
            if now.duration_since(since) >= grace
                && let Some(id) = Pid::from_raw(pid)
            {
                let _ = waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
                left.remove(&pid);
            }
        }
    }
}

/// Returns whether a child has ended and nothing has reaped it.
fn has_ended(child: i32) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Pid::from_raw(child).is_some_and(|child| matches!(waitid(WaitId::Pid(child), options), Ok(Some(_))))
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
