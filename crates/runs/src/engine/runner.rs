//! The task (driver) that drives one run of any kind.

use std::collections::BTreeSet;

use steplatch_store::{AppendError, Appended};
use steplatch_workflow::Input;
use tokio::sync::watch;

use super::recorder::{Recorder, Settlement, Written};
use super::recovery::Recovery;
use crate::run::{Disposition, RunInput, RunInputs, RunStatus};
use crate::seal::{SealedEntries, SealedEntry};

/// Attempt to perform effects: the first one, or a possible repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    First,
    /// Another daemon drove the run, and may have performed the stored effects.
    AfterRestart,
}

impl Attempt {
    pub(crate) fn is_repeated(self) -> bool {
        self == Self::AfterRestart
    }
}

/// The result of handling an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handled {
    /// The journal has the input and its consequences.
    Recorded,
    /// The input has no effect in the run's current state.
    Ignored,
    /// The run did not accept the input: the engine that decides the run is unreachable, or has not answered.
    Unanswered,
    /// This daemon must no longer drive the run.
    Lost,
}

impl Handled {
    /// Returns `Recorded` if this daemon may still drive the run, otherwise `Lost`.
    pub(crate) fn recorded(is_ours: bool) -> Self {
        if is_ours { Self::Recorded } else { Self::Lost }
    }
}

/// One kind of run: its entries, their meaning and their effects.
/// Methods that return a `bool` return false when this daemon must no longer drive the run.
pub(crate) trait RunKind: Recovery {
    /// Type of the stored entries.
    type Entry: SealedEntry;
    /// Event that the run waits for, in addition to inputs.
    type Event: Send;

    fn recorder(&self) -> &Recorder;

    fn recorder_mut(&mut self) -> &mut Recorder;

    /// Returns the progress of the run.
    fn progress(&self) -> RunStatus;

    fn is_over(&self) -> bool;

    /// Returns whether work remains after the last entry of the run.
    fn leaves_work(&self) -> bool;

    /// Returns the secrets of the run, to be sealed wherever they occur in an entry.
    fn own_secrets(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// Publishes the progress of the run to followers.
    fn publish(&self) {
        self.recorder().publish(self.progress());
    }

    /// Looks up data for the first entries, before the journal stores them.
    fn prepare(&mut self, _: &mut [Self::Entry]) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Performs the effects of the stored entries.
    fn start(&mut self, attempt: Attempt) -> impl Future<Output = bool> + Send;

    /// Waits for an event. Safe to drop and call again.
    fn next_event(&mut self) -> impl Future<Output = Self::Event> + Send;

    /// Handles an event: applies, records and performs its consequences.
    fn handle_event(&mut self, event: Self::Event) -> impl Future<Output = bool> + Send;

    /// Handles an input: applies, records and performs its consequences.
    fn handle_input(&mut self, input: Input) -> impl Future<Output = Handled> + Send;

    /// Ends everything that the run has started, once the run has finished. Returns false when the daemon stops first.
    fn close(&mut self, inputs: &mut RunInputs) -> impl Future<Output = bool> + Send;

    /// Does the work at the end, before the journal stores the run as finished: the library saves or counts it.
    fn settle(&mut self) -> impl Future<Output = ()> + Send;

    /// Prepares the run for the next daemon; by default, stores the secrets that this daemon has learned.
    fn stop(&mut self) -> impl Future<Output = ()> + Send {
        // The next daemon may not know the secrets that this daemon has learned.
        async {
            self.record(&[]).await;
        }
    }

    /// Ends tasks whose results are no longer needed.
    fn release(&mut self) {}

    /// Stores the first entries. The run has applied them already. Only one run starts under the idempotency key `key`.
    ///
    /// # Errors
    /// If the journal refuses them.
    fn record_first(
        &mut self,
        entries: &[Self::Entry],
        key: Option<String>,
    ) -> impl Future<Output = Result<Appended, AppendError>> + Send {
        async move {
            let (sealed, now, settlement) = self.sealed(entries).await;
            let appended = self.recorder_mut().write_first(sealed, &now, settlement, key).await?;
            if matches!(appended, Appended::Written { .. }) && !self.is_over() {
                self.publish();
            }
            Ok(appended)
        }
    }

    /// Stores entries that the run has already applied, and everything else that has changed about the run: secrets
    /// that the daemon has learned, and the form of the private part. Returns false when this daemon must no longer
    /// drive the run.
    fn record(&mut self, entries: &[Self::Entry]) -> impl Future<Output = bool> + Send {
        async move {
            let (sealed, now, settlement) = self.sealed(entries).await;
            let asks_person = now.asks_person;
            let is_changed = match self.recorder_mut().write(sealed, &now, settlement).await {
                Written::Stored => true,
                Written::Unchanged => asks_person != self.recorder().published().asks_person,
                Written::Lost => return false,
            };
            match self.is_over() {
                false if is_changed => self.publish(),
                false => {}
                true => self.recorder().publish_closing(),
            }
            true
        }
    }

    /// Writes the marks of secrets into entries and returns the progress after redacting these secrets from it.
    #[doc(hidden)]
    fn sealed(
        &mut self,
        entries: &[Self::Entry],
    ) -> impl Future<Output = (SealedEntries, RunStatus, Settlement)> + Send {
        async move {
            let own = self.own_secrets();
            let sealed = self.recorder_mut().seal(entries, &own).await;
            let now = self.progress();
            let settlement = self.recorder().settlement(&now, self.leaves_work());
            (sealed, now, settlement)
        }
    }
}

/// Message to a run.
enum Message<E> {
    Stopping,
    Input(Box<RunInput>),
    /// The daemon has learned a secret, or the approver's passphrase has changed.
    Changed,
    Event(E),
}

/// Drives a run to its end, or until the daemon stops.
pub(crate) async fn drive<K: RunKind>(mut run: Box<K>, mut inputs: RunInputs, attempt: Attempt) {
    if !drive_to_end(&mut *run, &mut inputs, attempt).await {
        run.release();
    }
}

/// Returns false when the driver leaves the run unchanged.
async fn drive_to_end<K: RunKind>(run: &mut K, inputs: &mut RunInputs, attempt: Attempt) -> bool {
    let shared = run.recorder().shared.clone();
    let (mut learned, mut key_changes) = (shared.secrets.learned(), shared.locked.key_changes());
    if !Box::pin(run.start(attempt)).await {
        return false;
    }
    while !run.is_over() {
        let message = next(run, inputs, &mut learned, &mut key_changes).await;
        // Box the future, so that an idle run does not reserve the memory of its handlers.
        if !Box::pin(handle(run, message)).await {
            return false;
        }
    }
    Box::pin(finish(run, inputs)).await
}

/// Waits for the next message. Polls events last, so that a pause or a cancel also reaches a run with many ready
/// events.
async fn next<K: RunKind>(
    run: &mut K,
    inputs: &mut RunInputs,
    learned: &mut watch::Receiver<u64>,
    key_changes: &mut watch::Receiver<u64>,
) -> Message<K::Event> {
    let stopping = run.recorder().shared.stopping.clone();
    tokio::select! {
        biased;
        () = stopping.cancelled() => Message::Stopping,
        input = inputs.recv() => input.map_or(Message::Stopping, Message::Input),
        Ok(()) = learned.changed() => Message::Changed,
        Ok(()) = key_changes.changed() => Message::Changed,
        event = run.next_event() => Message::Event(event),
    }
}

/// Handles a message. Returns false when the driver leaves the run unchanged.
async fn handle<K: RunKind>(run: &mut K, message: Message<K::Event>) -> bool {
    match message {
        Message::Stopping => {
            run.stop().await;
            false
        }
        Message::Input(input) => {
            let RunInput { input, reply } = *input;
            let handled = run.handle_input(input).await;
            if let Some(reply) = reply {
                // The requester may have stopped waiting.
                let _ = match handled {
                    Handled::Recorded => reply.send(Disposition::Recorded),
                    Handled::Ignored => reply.send(Disposition::Ignored),
                    // The requester notices the dropped reply.
                    Handled::Unanswered | Handled::Lost => Ok(()),
                };
            }
            handled != Handled::Lost
        }
        Message::Changed => run.record(&[]).await,
        Message::Event(event) => run.handle_event(event).await,
    }
}

/// Finishes the run after the cleanup of its resources. Returns false when the driver leaves the run to the next
/// daemon.
async fn finish<K: RunKind>(run: &mut K, inputs: &mut RunInputs) -> bool {
    if !run.close(inputs).await {
        return false;
    }
    if !run.recorder().is_stored_as(run.progress().state) {
        // Do this before the summary, because the next daemon does not recover a finished run.
        run.settle().await;
        if !run.record(&[]).await {
            return false;
        }
        if !run.recorder().wait_for_parents(&run.progress()).await {
            run.stop().await;
            return false;
        }
        let now = run.progress();
        if !run.recorder_mut().write_finished(&now).await {
            return false;
        }
    }
    // Include abandoned steps, and steps whose results an earlier daemon stored.
    run.recorder().shared.sessions.settle(&format!("{}/", run.recorder().run.id));
    run.release();
    run.publish();
    run.recorder().finish();
    true
}
