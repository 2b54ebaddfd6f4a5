//! Locked runs: what a run needs to go on is sealed while it waits for a person.
//!
//! Owns which runs that the last daemon left are locked, and decides in which form the private part of a run is stored. Where
//! the approver has a passphrase, the private part of a run that waits for a person, itself or through a run below it, is
//! sealed with the approver's key (`approver/key.rs`). It is stored plain again together with the entry that ends the wait.
//! A daemon that finds sealed runs leaves them and the runs above them alone until the passphrase is given.

use std::collections::HashSet;
use std::sync::Arc;

use steplatch_ids::RunId;
use steplatch_protocol::{SetApprover, SetApproverReply, UnlockRuns, UnlockRunsReply};
use steplatch_store::{Journal as _, KnownRun, RunFilter, StorageError};
use tokio::sync::{Mutex, watch};

use super::run::{Run, RunState};
use super::{Runs, Shared};
use crate::approver::{NotPassed, OpeningKey, Source, is_sealed};

/// Why a locked run does not go on, and what opens it.
pub(super) const LOCKED: &str = "the run waits for a person and is locked since the daemon was started anew; the approver's \
                                 passphrase opens it: steplatch approver unlock";

/// Why a run does not go on whose private part opens with no passphrase that is known.
const OTHER_KEY: &str = "what it needs to go on is sealed with another approver's passphrase than the one that is set";

/// The locked runs of a daemon.
#[derive(Debug, Default)]
pub(super) struct LockedRuns {
    runs: watch::Sender<HashSet<RunId>>,
    /// Held while runs are unlocked, so that who gives the passphrase second finds them under way.
    unlocking: Mutex<()>,
    /// Changes whenever a passphrase is set or taken away.
    key_changes: watch::Sender<u64>,
}

impl LockedRuns {
    pub(super) fn contains(&self, run: &RunId) -> bool {
        self.runs.borrow().contains(run)
    }

    pub(super) fn all(&self) -> HashSet<RunId> {
        self.runs.borrow().clone()
    }

    fn count(&self) -> usize {
        self.runs.borrow().len()
    }

    pub(super) fn remove(&self, run: &RunId) {
        self.runs.send_if_modified(|runs| runs.remove(run));
    }

    /// Waits until a run is not locked.
    pub(super) async fn opened(&self, run: &RunId) {
        // The sender is ours.
        let _ = self.runs.subscribe().wait_for(|runs| !runs.contains(run)).await;
    }

    /// Returns a receiver that changes whenever a passphrase is set or taken away.
    pub(super) fn key_changes(&self) -> watch::Receiver<u64> {
        self.key_changes.subscribe()
    }
}

/// In which form the private part of a run is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PrivateForm {
    is_sealed: bool,
}

impl PrivateForm {
    /// The form of a text that was stored.
    pub(super) fn of(text: &str) -> Self {
        Self { is_sealed: is_sealed(text) }
    }

    /// Returns the private part of `run` as it is to be stored from now on. `None` where that is as it is stored already.
    /// `asks_person` says whether the run waits for a person, `has_changed` whether `text` is another one.
    pub(super) async fn stored_anew(
        &mut self,
        shared: &Shared,
        run: &RunId,
        (asks_person, has_changed): (bool, bool),
        text: impl FnOnce() -> String,
    ) -> Option<String> {
        let key = if asks_person { shared.approver.sealing_key().await } else { None };
        if !has_changed && key.is_some() == self.is_sealed {
            return None;
        }
        let text = text();
        let sealed = key.and_then(|key| key.seal(run, &text));
        self.is_sealed = sealed.is_some();
        Some(sealed.unwrap_or(text))
    }
}

impl Shared {
    /// Whether one of these runs, or one below it, waits for a person.
    pub(super) fn ask_person<'r>(&self, runs: impl IntoIterator<Item = &'r RunId>) -> bool {
        runs.into_iter().filter_map(|run| self.driven(run)).any(|run| run.progress().asks_person)
    }

    /// Reads what a run needs to go on, and in which form it is stored.
    ///
    /// # Errors
    /// In a whole sentence, when it can not be read, or `key` does not open it.
    pub(super) async fn private_part(
        &self,
        run: &RunId,
        key: Option<&OpeningKey>,
    ) -> Result<(String, PrivateForm), String> {
        let private = self.journal.private(run).await;
        let private = private.map_err(|error| format!("its history can not be read: {error}"))?.unwrap_or_default();
        let form = PrivateForm::of(&private);
        if !form.is_sealed {
            return Ok((private, form));
        }
        let opened = key.and_then(|key| key.open(run, &private));
        opened.map(|opened| (opened, form)).ok_or_else(|| OTHER_KEY.to_owned())
    }

    /// Locks the runs whose private part is sealed, and all above them. `left` is in the order in which they began.
    ///
    /// # Errors
    /// When the journal can not be read.
    pub(super) async fn lock_sealed(&self, left: &[KnownRun]) -> Result<(), StorageError> {
        let locked = self.sealed_among(left, None).await?;
        if !locked.is_empty() {
            tracing::info!(runs = locked.len(), "runs wait for a person and are locked: steplatch approver unlock");
        }
        self.locked.runs.send_replace(locked);
        Ok(())
    }

    /// Returns the runs whose private part is sealed and does not open with `key`, and all above them: a run does not go on
    /// without one below it.
    ///
    /// # Errors
    /// When the journal can not be read.
    async fn sealed_among(&self, left: &[KnownRun], key: Option<&OpeningKey>) -> Result<HashSet<RunId>, StorageError> {
        let mut locked = HashSet::new();
        let is_closed =
            |run: &RunId, private: &str| is_sealed(private) && key.is_none_or(|key| key.open(run, private).is_none());
        for known in left.iter().rev() {
            let run = &known.run;
            // A run is told as waiting in the same write that seals it.
            let waits = known.summary.as_ref().is_some_and(|summary| summary.state == RunState::Waiting.name());
            if locked.contains(run)
                || (waits && self.journal.private(run).await?.is_some_and(|private| is_closed(run, &private)))
            {
                locked.insert(run.clone());
                // A run below another one began after it, so this is reached before the run above.
                let above = Run::told(known.clone()).about.parent.map(|step| step.run);
                locked.extend(above.filter(|above| left.iter().any(|known| known.run == *above)));
            }
        }
        Ok(locked)
    }

    /// Goes on with the locked runs that `key` opens. Returns how many there were.
    async fn unlock(self: &Arc<Self>, key: &OpeningKey) -> usize {
        let _alone = self.locked.unlocking.lock().await;
        let locked = self.locked.all();
        if locked.is_empty() {
            return 0;
        }
        let unfinished = RunFilter { finished: Some(false), ..RunFilter::default() };
        let opening = async {
            let left = self.journal.runs(unfinished).await?;
            let left: Vec<KnownRun> = left.into_iter().rev().filter(|known| locked.contains(&known.run)).collect();
            let closed = self.sealed_among(&left, Some(key)).await?;
            let opened: Vec<KnownRun> = left.into_iter().filter(|known| !closed.contains(&known.run)).collect();
            let count = opened.len();
            self.take_up(opened, Some(key), &closed).await;
            self.locked.runs.send_replace(closed);
            Ok(count)
        };
        opening.await.unwrap_or_else(|error: StorageError| {
            tracing::error!(%error, "locked runs can not be read");
            0
        })
    }
}

impl Runs {
    pub(super) fn is_locked(&self, run: &RunId) -> bool {
        self.shared.locked.contains(run)
    }

    /// Checks a passphrase, and goes on with the locked runs. Returns how many there were.
    ///
    /// # Errors
    /// When it is not the approver's.
    pub(super) async fn unlock_with(
        &self,
        passphrase: Option<&steplatch_protocol::Passphrase>,
        source: Source,
    ) -> Result<usize, NotPassed> {
        match self.shared.approver.opens(passphrase, source).await? {
            Some(key) => Ok(self.shared.unlock(&key).await),
            None => Ok(0),
        }
    }

    /// Goes on with the locked runs for one who knows the passphrase.
    pub(crate) async fn unlock(&self, verb: UnlockRuns, source: Source) -> UnlockRunsReply {
        let locked = self.shared.locked.count();
        match self.unlock_with(verb.passphrase.as_ref(), source).await {
            Ok(0) if locked > 0 => UnlockRunsReply {
                error: Some(format!(
                    "{locked} runs are locked with a passphrase that is not set any more; cancel them"
                )),
                ..UnlockRunsReply::default()
            },
            Ok(runs) => UnlockRunsReply { success: true, runs, ..UnlockRunsReply::default() },
            Err(error) => UnlockRunsReply {
                passphrase_wanted: error.wants_another(),
                retry_after_seconds: error.retry_after_seconds(),
                error: Some(error.to_string()),
                ..UnlockRunsReply::default()
            },
        }
    }

    /// Sets the approver's passphrase, or takes it away. Locked runs go on: who does either knows the passphrase that opens
    /// them.
    pub(crate) async fn set_approver(&self, verb: SetApprover, source: Source) -> SetApproverReply {
        let approver = &self.shared.approver;
        let key = match approver.may_change(&verb, source).await {
            Ok(key) => key,
            Err(refused) => return *refused,
        };
        if let Some(key) = &key {
            self.shared.unlock(key).await;
        }
        let reply = approver.set(verb.passphrase, key.as_ref()).await;
        self.shared.locked.key_changes.send_modify(|changes| *changes += 1);
        reply
    }
}
