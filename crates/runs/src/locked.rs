//! Locked runs: while a run waits for a person, the daemon seals the data that the run needs to continue.
//!
//! Owns the set of locked runs of the last daemon and decides the stored form of the private part of a run. If the
//! approver has a passphrase, the approver's key (`approver/key.rs`) seals the private part of a run that waits for a
//! person, itself or through a descendant. The journal stores it in plain form again together with the entry that ends
//! the wait. A daemon that finds sealed runs does not drive them or their ancestors until a client gives the
//! passphrase.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex as SyncMutex, MutexGuard};
use steplatch_access::{SealingKey, is_sealed};
use steplatch_ids::RunId;
use tokio::sync::{Mutex, watch};

use crate::run::{Run, RunInputs, RunStatus};

/// Message about a locked run, with the command that unlocks it.
pub(super) const LOCKED: &str = "the run waits for a person and is locked since the daemon restarted; the approver's \
                                 passphrase opens it: steplatch approver unlock";

/// The locked runs of a daemon.
#[derive(Debug, Default)]
pub(super) struct LockedRuns {
    runs: SyncMutex<HashMap<RunId, UndrivenRun>>,
    /// Ids of the locked runs, until each run has its driver.
    pub(crate) ids: watch::Sender<HashSet<RunId>>,
    /// Held to open or cancel locked runs, so that no run is both unlocked and cancelled.
    pub(crate) unlock_lock: Mutex<()>,
    /// Changes whenever a passphrase is set or removed.
    pub(crate) key_changes: watch::Sender<u64>,
}

/// A run with the data that its driver needs. Followers of a locked run keep following the run after it is unlocked.
pub(super) type UndrivenRun = (Arc<Run>, RunInputs, watch::Sender<RunStatus>);

impl LockedRuns {
    pub(crate) fn runs(&self) -> MutexGuard<'_, HashMap<RunId, UndrivenRun>> {
        self.runs.lock()
    }

    /// Returns a locked run.
    pub(super) fn get(&self, run: &RunId) -> Option<Arc<Run>> {
        self.runs().get(run).map(|(run, ..)| run.clone())
    }

    pub(crate) fn count(&self) -> usize {
        self.ids.borrow().len()
    }

    /// Returns the ids of all locked runs.
    pub(super) fn ids(&self) -> HashSet<RunId> {
        self.ids.borrow().clone()
    }

    pub(super) fn contains(&self, run: &RunId) -> bool {
        self.ids.borrow().contains(run)
    }

    /// Waits until a run is not locked: it has a driver, or has finished.
    pub(super) async fn wait_until_unlocked(&self, run: &RunId) {
        // This struct owns the sender.
        let _ = self.ids.subscribe().wait_for(|ids| !ids.contains(run)).await;
    }

    /// Returns a receiver that changes whenever a passphrase is set or removed.
    pub(super) fn key_changes(&self) -> watch::Receiver<u64> {
        self.key_changes.subscribe()
    }
}

/// Stored form of the private part of a run.
#[derive(Debug, Clone, Default)]
pub(super) enum PrivateForm {
    #[default]
    Plain,
    /// Sealed with this key; `None` if another daemon sealed it, possibly with another key.
    Sealed(Option<SealingKey>),
}

impl PrivateForm {
    /// Returns the form of a stored text.
    pub(super) fn from_text(text: &str) -> Self {
        if is_sealed(text) { Self::Sealed(None) } else { Self::Plain }
    }
}
