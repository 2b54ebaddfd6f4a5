//! Locking the runs that wait for a person, and resuming them for a person who knows the passphrase.

use std::collections::HashSet;
use std::sync::Arc;

use steplatch_access::{Caller, OpeningKey, is_sealed};
use steplatch_ids::{RunId, StepId};
use steplatch_protocol::ExitTerminal;
use steplatch_sessions::TerminalTools;
use steplatch_store::{AppendError, KnownRun, RunFilter, StorageError};
use steplatch_workflow::{AnsweredBy, Definition, Effect, History, Input, decide};

use super::RecoveryError;
use crate::child;
use crate::engine_state::Engine;
use crate::kind::Kind;
use crate::locked::{LOCKED, PrivateForm, UndrivenRun};
use crate::machine::sessions_at_gate;
use crate::run::{Run, RunState, RunStatus};
use crate::seal::Seal;

impl PrivateForm {
    /// Returns the private part of `run` in its new stored form, or `None` if the stored form is up to date.
    /// `asks_person`: the run waits for a person. `has_changed`: `text` differs from the stored text.
    pub(crate) async fn update_stored_form(
        &mut self,
        shared: &Engine,
        run: &RunId,
        (asks_person, has_changed): (bool, bool),
        text: impl FnOnce() -> String,
    ) -> Option<String> {
        let key = if asks_person { shared.approver.sealing_key().await } else { None };
        let is_stored = match (&key, &*self) {
            (None, Self::Plain) => true,
            (Some(key), Self::Sealed(Some(sealed_for))) => key == sealed_for,
            _ => false,
        };
        if is_stored && !has_changed {
            return None;
        }
        let text = text();
        let sealed = key.as_ref().and_then(|key| key.seal(run, &text));
        *self = if sealed.is_some() { Self::Sealed(key) } else { Self::Plain };
        Some(sealed.unwrap_or(text))
    }
}

impl Engine {
    /// Sends the secrets of a run to the terminal hosts before the daemon seals the run: terminals outlive this daemon,
    /// and the next daemon does not know the secrets.
    pub(crate) async fn hide_for_next_daemon(&self, private: Option<&str>, seal: &Seal) {
        if private.is_some_and(is_sealed) {
            self.sessions.remember_secrets(seal.secrets()).await;
        }
    }

    /// Returns whether one of these runs, or a descendant, waits for a person.
    pub(crate) fn any_asks_person<'r>(&self, runs: impl IntoIterator<Item = &'r RunId>) -> bool {
        runs.into_iter().filter_map(|run| self.driven(run)).any(|run| run.progress().asks_person)
    }

    /// Reads the private part that a run needs to continue, and its stored form in the journal.
    ///
    /// # Errors
    ///
    /// If reading the private part fails, or `key` does not open it.
    pub(crate) async fn private_part(
        &self,
        run: &RunId,
        key: Option<&OpeningKey>,
    ) -> Result<(String, PrivateForm), RecoveryError> {
        let private = self.journal.private(run).await.map_err(RecoveryError::PrivatePart)?.unwrap_or_default();
        let form = PrivateForm::from_text(&private);
        if matches!(form, PrivateForm::Plain) {
            return Ok((private, form));
        }
        let unsealed = key.and_then(|key| key.open(run, &private));
        unsealed.map(|unsealed| (unsealed, form)).ok_or(RecoveryError::OtherKey)
    }

    /// Returns a run with the data for its driver, taken from the locked runs if the run was locked.
    pub(crate) fn undriven_run(&self, known: &KnownRun) -> UndrivenRun {
        let locked = self.locked.runs().remove(&known.run);
        locked.unwrap_or_else(|| {
            let (run, inputs, progress) = Run::driven(known.run.clone(), Run::from_journal(known.clone()).header);
            (Arc::new(run), inputs, progress)
        })
    }

    /// Locks the runs with a sealed private part, and all their ancestors. `unfinished` lists the oldest run first.
    ///
    /// # Errors
    ///
    /// If reading the journal fails.
    pub(crate) async fn lock_sealed(&self, unfinished: &[KnownRun]) -> Result<(), StorageError> {
        let sealed = self.sealed_among(unfinished, None).await?;
        for known in unfinished.iter().filter(|known| sealed.contains(&known.run)) {
            let summary = Run::from_journal(known.clone());
            let (run, inputs, progress) = Run::driven(known.run.clone(), summary.header.clone());
            let blocked_reason = Some(LOCKED.to_owned());
            // The summary of a parent may not show it as waiting yet.
            progress.send_replace(RunStatus {
                state: RunState::Waiting,
                locked: true,
                blocked_reason,
                ..summary.progress()
            });
            let run = Arc::new(run);
            self.hold_terminals(&run).await;
            self.locked.runs().insert(known.run.clone(), (run, inputs, progress));
        }
        self.locked.ids.send_replace(sealed.clone());
        if !sealed.is_empty() {
            tracing::info!(runs = sealed.len(), "runs wait for a person and are locked: steplatch approver unlock");
        }
        Ok(())
    }

    /// Returns the history of a machine so far, with its secrets hidden.
    async fn machine_history(&self, run: &Run) -> Option<(Definition, History)> {
        if run.kind() != Kind::Machine {
            return None;
        }
        let history = History::from_iter(&self.events_of(&run.id, 1, &Seal::default()).await.ok()?);
        let definition = Definition::parse(history.definition()?, &TerminalTools).ok()?;
        Some((definition, history))
    }

    /// Holds the terminals of a locked machine while its gate is open.
    async fn hold_terminals(&self, run: &Run) {
        let Some((definition, history)) = self.machine_history(run).await else { return };
        if let Some(gate) = history.gate().filter(|gate| gate.answered_by() == AnsweredBy::Human) {
            let terminals = sessions_at_gate(&definition, &history);
            self.sessions.held().hold(&run.id, gate.step.to_string(), terminals);
        }
    }

    /// Records a locked run and its descendants as cancelled and closes their terminals. Returns false if the run is
    /// no longer locked.
    ///
    /// # Errors
    ///
    /// If writing the journal fails.
    pub(crate) async fn cancel_locked(self: &Arc<Self>, run: &Arc<Run>) -> Result<bool, AppendError> {
        let _unlock_guard = self.locked.unlock_lock.lock().await;
        if !self.locked.contains(&run.id) {
            return Ok(false);
        }
        let children_of = |id: &RunId, candidates: &[Arc<Run>]| {
            let is_child = |run: &Run| run.header.parent.as_ref().is_some_and(|step: &StepId| step.run == *id);
            candidates.iter().filter(|run| is_child(run)).cloned().collect::<Vec<_>>()
        };
        let locked: Vec<Arc<Run>> = self.locked.runs().values().map(|(run, ..)| run.clone()).collect();
        let driven: Vec<Arc<Run>> = self.lock().values().cloned().collect();
        let (mut family, mut next) = (vec![run.clone()], 0);
        while let Some(run) = family.get(next).cloned() {
            children_of(&run.id, &driven).iter().for_each(|run| run.cancel(child::ABANDONED_REASON));
            family.extend(children_of(&run.id, &locked));
            next += 1;
        }
        for run in family {
            let error = Some("cancelled while it was locked".to_owned());
            let ended = Some(self.clock.now());
            let cancelled =
                RunStatus { seq: run.progress().seq, state: RunState::Cancelled, ended, error, ..RunStatus::default() };
            self.write_summary(&run, &cancelled).await?;
            self.close_terminals(&run).await;
            self.sessions.held().release(&run.id);
            let locked_run = self.locked.runs().remove(&run.id);
            if let Some((_, _, progress)) = locked_run {
                progress.send_replace(cancelled);
            }
            self.locked.ids.send_if_modified(|ids| ids.remove(&run.id));
            self.listener.run_changed(&run.id);
        }
        Ok(true)
    }

    /// Closes the terminals that the machine would close on a cancel now.
    async fn close_terminals(&self, run: &Run) {
        let Some((definition, history)) = self.machine_history(run).await else { return };
        let cancel = Input::Cancel { reason: String::new() };
        let caller = Caller { run: Some(run.id.clone()), ..Caller::unknown() };
        for effect in decide(&definition, &history, cancel, self.clock.now()).effects {
            match effect {
                Effect::CloseTerminal { session_id } => {
                    let exit = ExitTerminal { session_id, ..ExitTerminal::default() };
                    self.sessions.exit(&caller, exit).await;
                }
                Effect::CloseOpened { step } => self.sessions.exit_opened_by(&caller, &step.to_string()).await,
                _ => {}
            }
        }
    }

    /// Returns the runs with a sealed private part that does not open with `key`, and all their ancestors, because a
    /// run does not continue without its children.
    ///
    /// # Errors
    ///
    /// If reading the journal fails.
    async fn sealed_among(
        &self,
        unfinished: &[KnownRun],
        key: Option<&OpeningKey>,
    ) -> Result<HashSet<RunId>, StorageError> {
        let mut locked = HashSet::new();
        let stays_sealed =
            |run: &RunId, private: &str| is_sealed(private) && key.is_none_or(|key| key.open(run, private).is_none());
        for known in unfinished.iter().rev() {
            let run = &known.run;
            // The write that seals a run also stores its state as waiting.
            let waits = known.summary.as_ref().is_some_and(|summary| summary.state == RunState::Waiting.name());
            if locked.contains(run)
                || (waits && self.journal.private(run).await?.is_some_and(|private| stays_sealed(run, &private)))
            {
                locked.insert(run.clone());
                // A child began after its parent, so the loop reaches it before the parent.
                let parent = Run::from_journal(known.clone()).header.parent.map(|step| step.run);
                locked.extend(parent.filter(|parent| unfinished.iter().any(|known| known.run == *parent)));
            }
        }
        Ok(locked)
    }

    /// Resumes the locked runs that `key` opens. Returns their number.
    ///
    /// # Errors
    ///
    /// If reading the journal fails.
    pub(crate) async fn unlock(self: &Arc<Self>, key: &OpeningKey) -> Result<usize, StorageError> {
        let _unlock_guard = self.locked.unlock_lock.lock().await;
        let locked = self.locked.ids();
        if locked.is_empty() {
            return Ok(0);
        }
        let filter = RunFilter { finished: Some(false), ..RunFilter::default() };
        let unfinished = self.journal.runs(filter).await?;
        let unfinished: Vec<KnownRun> =
            unfinished.into_iter().rev().filter(|known| locked.contains(&known.run)).collect();
        let still_locked = self.sealed_among(&unfinished, Some(key)).await?;
        let unlocked: Vec<KnownRun> =
            unfinished.into_iter().filter(|known| !still_locked.contains(&known.run)).collect();
        let count = unlocked.len();
        self.resume_all(unlocked, Some(key), &still_locked).await;
        self.locked.ids.send_replace(still_locked);
        Ok(count)
    }
}
