//! Storage and publication of one run of any kind.
//!
//! Owns the position in the history, the secrets sealed in it, the private part, the summary for lists, and the channel
//! that publishes the progress to followers. A driver appends entries in two steps: [`Recorder::seal`] finds the
//! secrets in them, then [`Recorder::write`] redacts these secrets from the progress of the run, and stores the entries
//! with the progress.

use std::collections::BTreeSet;
use std::sync::Arc;

use steplatch_access::Caller;
use steplatch_store::{Append, AppendError, Appended};
use steplatch_workflow::SEMANTICS_VERSION;
use tokio::sync::watch;

use crate::engine_state::Engine;
use crate::kind::Kind;
use crate::locked::PrivateForm;
use crate::origin::{Environment, ResumeContext};
use crate::run::{Run, RunHeader, RunState, RunStatus};
use crate::seal::{LiveSeal, SealedEntries, SealedEntry};

/// Version of the layout of entries.
pub(crate) const ENTRY_VERSION: u16 = SEMANTICS_VERSION as u16;

/// Permission to store a run as finished together with its last entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settlement {
    /// No work remains.
    Settled,
    /// Work remains: terminals are closing, or the library counts the run.
    Unsettled,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Stored,
    /// The journal already has all data.
    Unchanged,
    /// This daemon must no longer drive the run.
    Lost,
}

/// Stores and publishes one run.
pub(crate) struct Recorder {
    pub(crate) shared: Arc<Engine>,
    pub(crate) caller: Arc<Caller>,
    pub(crate) run: Arc<Run>,
    pub(crate) header: RunHeader,
    progress: watch::Sender<RunStatus>,
    seal: LiveSeal,
    private: PrivateForm,
    environment: Environment,
    /// Number of the last entry.
    seq: u64,
    /// State in the last summary that this daemon stored.
    stored_state: Option<RunState>,
}

/// Initial data of a recorder.
pub(crate) struct RecorderParts {
    pub(crate) caller: Arc<Caller>,
    pub(crate) run: Arc<Run>,
    pub(crate) header: RunHeader,
    pub(crate) progress: watch::Sender<RunStatus>,
    /// Part of the caller's environment that the run needs after a restart.
    pub(crate) environment: Environment,
    pub(crate) seal: LiveSeal,
    /// Stored form of the private part.
    pub(crate) private: PrivateForm,
    /// Number of the last entry; 0 for a new run.
    pub(crate) seq: u64,
}

impl Recorder {
    pub(crate) fn new(shared: Arc<Engine>, parts: RecorderParts) -> Self {
        let RecorderParts { caller, run, header, progress, environment, seal, private, seq } = parts;
        Self { shared, caller, run, header, progress, seal, private, environment, seq, stored_state: None }
    }

    pub(crate) fn live_seal(&self) -> &LiveSeal {
        &self.seal
    }

    /// Adds a secret of the run. All later output of the daemon hides it.
    pub(crate) fn learn(&mut self, secret: &str) {
        self.seal.learn(&self.shared.secrets, secret);
    }

    /// Returns whether the last summary that this daemon stored has this state.
    pub(crate) fn is_stored_as(&self, state: RunState) -> bool {
        self.stored_state == Some(state)
    }

    /// Returns the last published progress.
    pub(crate) fn published(&self) -> watch::Ref<'_, RunStatus> {
        self.progress.borrow()
    }

    /// Publishes the progress of the run to followers.
    pub(crate) fn publish(&self, status: RunStatus) {
        self.progress.send_replace(RunStatus { seq: self.seq, ..status });
        self.shared.listener.run_changed(&self.run.id);
    }

    /// Publishes that a finished run no longer waits, so that the sender of the last answer sees the answer as
    /// recorded. Followers see the run as finished, with its last entry, only after the cleanup of its resources.
    pub(super) fn publish_closing(&self) {
        let is_changed = self.progress.send_if_modified(|published_status| {
            let waits = published_status.state == RunState::Waiting;
            if waits {
                let RunStatus { seq, waiting_children, .. } = std::mem::take(published_status);
                let seq = seq.max(self.seq.saturating_sub(1));
                *published_status = RunStatus { seq, waiting_children, ..RunStatus::default() };
            }
            waits
        });
        if is_changed {
            self.shared.listener.run_changed(&self.run.id);
        }
    }

    /// Replaces the secrets in new entries with marks. `own` are the secrets of the run. The header also
    /// hides the found secrets.
    pub(super) async fn seal<E: SealedEntry>(&mut self, entries: &[E], own: &BTreeSet<String>) -> SealedEntries {
        let sealed = self.seal.close(&self.shared, &self.run.id, self.seq, entries, own).await;
        if sealed.has_learned {
            self.header.mask(&self.shared.secrets);
        }
        sealed
    }

    /// Stores the first entries of a run. Only one run starts under the idempotency key `key`.
    ///
    /// # Errors
    /// If the journal refuses them.
    pub(super) async fn write_first(
        &mut self,
        sealed: SealedEntries,
        status: &RunStatus,
        settlement: Settlement,
        key: Option<String>,
    ) -> Result<Appended, AppendError> {
        let append = self.build_append(sealed, status, settlement).await;
        let appended = self.shared.write_first(Append { key, ..append }).await?;
        if let Appended::Written { last } = &appended {
            self.seq = *last;
        }
        Ok(appended)
    }

    /// Stores entries and the progress that follows from them. Waits while the journal is full. Does nothing without
    /// new data.
    pub(super) async fn write(&mut self, sealed: SealedEntries, status: &RunStatus, settlement: Settlement) -> Written {
        let append = self.build_append(sealed, status, settlement).await;
        if append.texts.is_empty() && append.redacted.is_empty() && append.private.is_none() {
            return Written::Unchanged;
        }
        match self.shared.append_retrying(append, &self.progress).await {
            Some(last) => {
                self.seq = last;
                Written::Stored
            }
            None => Written::Lost,
        }
    }

    /// Stores the run as finished, unless it is already. Returns false when this daemon must no longer drive the run.
    pub(super) async fn write_finished(&mut self, status: &RunStatus) -> bool {
        if self.is_stored_as(status.state) {
            return true;
        }
        self.stored_state = Some(status.state);
        let mut append = Append::new(self.run.id.clone(), self.seq, ENTRY_VERSION, Vec::new());
        append.summary = Some(status.summary(&self.header));
        self.shared.append_retrying(append, &self.progress).await.is_some()
    }

    /// Returns the permission to store a run with the progress `status` as finished, together with its last entry.
    pub(super) fn settlement(&self, status: &RunStatus, leaves_work: bool) -> Settlement {
        let is_awaited =
            self.shared.is_parent_locked(self.header.parent.as_ref()) || self.secrets_receiver(status).is_some();
        if status.state.is_over() && (leaves_work || is_awaited) { Settlement::Unsettled } else { Settlement::Settled }
    }

    /// Returns the function that started this run, if it has to store this run's result with secrets first: once the
    /// run is considered finished, the journal deletes the values of the marks.
    fn secrets_receiver(&self, status: &RunStatus) -> Option<Arc<Run>> {
        let returned = status.returned.as_deref().filter(|returned| self.seal.hides(returned));
        let parent = returned.and(self.header.parent.as_ref()).and_then(|step| self.shared.driven(&step.run));
        parent.filter(|parent| parent.kind() == Kind::Function)
    }

    async fn build_append(&mut self, sealed: SealedEntries, status: &RunStatus, settlement: Settlement) -> Append {
        let SealedEntries { texts, redacted, has_learned } = sealed;
        let private = self.update_private(status.asks_person, has_learned || self.seq == 0).await;
        let mut append = Append { redacted, ..Append::new(self.run.id.clone(), self.seq, ENTRY_VERSION, texts) };
        if !status.state.is_over() || settlement == Settlement::Settled {
            if !self.is_stored_as(status.state) || private.is_some() {
                self.stored_state = Some(status.state);
                append.summary = Some(status.summary(&self.header));
            }
        } else if self.stored_state.is_none() {
            self.stored_state = Some(RunState::Running);
            append.summary = Some(RunStatus { state: RunState::Running, ..RunStatus::default() }.summary(&self.header));
        }
        append.private = private;
        append
    }

    /// Returns the private part in its new stored form, if the form changes.
    async fn update_private(&mut self, asks_person: bool, has_changed: bool) -> Option<String> {
        let seal = self.seal.seal();
        let text = || ResumeContext::new(&self.caller, self.environment, seal).text();
        let private =
            self.private.update_stored_form(&self.shared, &self.run.id, (asks_person, has_changed), text).await;
        self.shared.hide_for_next_daemon(private.as_deref(), seal).await;
        private
    }

    /// Waits until the ancestors can receive the end of this run, because a locked parent must be unlocked, and a
    /// parent must have stored a result with secrets. Returns false when the daemon stops first.
    pub(super) async fn wait_for_parents(&self, status: &RunStatus) -> bool {
        let parent = self.header.parent.as_ref();
        if self.shared.is_parent_locked(parent) {
            self.publish(status.clone());
            if !self.shared.wait_until_parent_opens(parent).await {
                return false;
            }
        }
        let Some(parent) = self.secrets_receiver(status) else { return true };
        self.publish(status.clone());
        let mut parent_progress = parent.follow();
        tokio::select! {
            () = self.run.result_taken.cancelled() => true,
            // The parent does not wait for this run, or has stopped waiting.
            _ = parent_progress.wait_for(|progress| progress.state.is_over()) => true,
            () = self.run.cancelling.cancelled() => true,
            () = self.shared.stopping.cancelled() => false,
        }
    }

    /// Removes the finished run from the runs in progress.
    pub(super) fn finish(&self) {
        self.shared.remove_finished(&self.run.id, !self.seal.seal().secrets().is_empty());
    }
}
