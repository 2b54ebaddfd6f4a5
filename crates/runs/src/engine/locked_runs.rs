//! Locking the runs that wait for a person, and resuming them for a person who knows the passphrase.

use std::collections::HashSet;
use std::sync::Arc;

use steplatch_access::{Caller, OpeningKey, is_sealed};
use steplatch_ids::{RunId, StepId};
use steplatch_protocol::ExitTerminal;
use steplatch_sessions::TerminalTools;
use steplatch_store::{AppendError, Journal as _, KnownRun, RunFilter, StorageError};
use steplatch_workflow::{AnsweredBy, Definition, Effect, History, Input, decide};

use super::RecoveryError;
use crate::child;
use crate::engine_state::Engine;
use crate::kind::Kind;
use crate::locked::{Driverless, LOCKED, PrivateForm};
use crate::machine::sessions_at_gate;
use crate::run::{Run, RunState, RunStatus};
use crate::seal::Seal;

impl PrivateForm {
    /// Returns the private part of `run` in the form to store. `None` if the stored one is already right. `asks_person`
    /// states whether the run waits for a person, `has_changed` whether `text` differs from the stored one.
    pub(crate) async fn stored_anew(
        &mut self,
        shared: &Engine,
        run: &RunId,
        (asks_person, has_changed): (bool, bool),
        text: impl FnOnce() -> String,
    ) -> Option<String> {
        let key = if asks_person { shared.approver.sealing_key().await } else { None };
        let is_stored = match (&key, &*self) {
            (None, Self::Plain) => true,
            (Some(key), Self::Sealed(Some(before))) => key == before,
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
    /// Makes the terminal hosts hide the secrets of a run before the daemon seals it: the next daemon does not know
    /// them, and the contents of terminals outlive this one.
    pub(crate) async fn hide_for_next_daemon(&self, private: Option<&str>, seal: &Seal) {
        if private.is_some_and(is_sealed) {
            self.sessions.remember_secrets(seal.secrets()).await;
        }
    }

    /// Returns whether one of these runs, or one below it, waits for a person.
    pub(crate) fn ask_person<'r>(&self, runs: impl IntoIterator<Item = &'r RunId>) -> bool {
        runs.into_iter().filter_map(|run| self.driven(run)).any(|run| run.progress().asks_person)
    }

    /// Reads what a run needs to continue, and its stored form.
    ///
    /// # Errors
    ///
    /// If reading it fails, or `key` does not open it.
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
        let opened = key.and_then(|key| key.open(run, &private));
        opened.map(|opened| (opened, form)).ok_or(RecoveryError::OtherKey)
    }

    /// Returns a run with what its driver needs: the locked run, if it was locked.
    pub(crate) fn driverless(&self, known: &KnownRun) -> Driverless {
        let locked = self.locked.runs().remove(&known.run);
        locked.unwrap_or_else(|| {
            let (run, received, progress) = Run::driven(known.run.clone(), Run::from_journal(known.clone()).about);
            (Arc::new(run), received, progress)
        })
    }

    /// Locks the runs with a sealed private part, and all above them. `left` is in the order in which they began.
    ///
    /// # Errors
    ///
    /// If reading the journal fails.
    pub(crate) async fn lock_sealed(&self, left: &[KnownRun]) -> Result<(), StorageError> {
        let sealed = self.sealed_among(left, None).await?;
        for known in left.iter().filter(|known| sealed.contains(&known.run)) {
            let summary = Run::from_journal(known.clone());
            let (run, received, progress) = Run::driven(known.run.clone(), summary.about.clone());
            let trouble = Some(LOCKED.to_owned());
            // The summary of a run above another may not show it as waiting yet.
            progress.send_replace(RunStatus { state: RunState::Waiting, locked: true, trouble, ..summary.progress() });
            let run = Arc::new(run);
            self.hold_terminals(&run).await;
            self.locked.runs().insert(known.run.clone(), (run, received, progress));
        }
        self.locked.ids.send_replace(sealed.clone());
        if !sealed.is_empty() {
            tracing::info!(runs = sealed.len(), "runs wait for a person and are locked: steplatch approver unlock");
        }
        Ok(())
    }

    /// Returns the history of a machine so far. Its secrets are hidden.
    async fn history_of(&self, run: &Run) -> Option<(Definition, History)> {
        if run.kind() != Kind::Machine {
            return None;
        }
        let history = History::from_iter(&self.events_of(&run.id, 1, &Seal::default()).await.ok()?);
        let definition = Definition::parse(history.definition()?, &TerminalTools).ok()?;
        Some((definition, history))
    }

    /// Holds the terminals of a locked machine while its gate is open.
    async fn hold_terminals(&self, run: &Run) {
        let Some((definition, history)) = self.history_of(run).await else { return };
        if let Some(gate) = history.gate().filter(|gate| gate.answered_by() == AnsweredBy::Human) {
            let terminals = sessions_at_gate(&definition, &history);
            self.sessions.held().hold(&run.id, gate.step.to_string(), terminals);
        }
    }

    /// Records a locked run as cancelled, with its terminals and the runs below it. Returns false if it is no longer
    /// locked.
    ///
    /// # Errors
    ///
    /// If writing the journal fails.
    pub(crate) async fn cancel_locked(self: &Arc<Self>, run: &Arc<Run>) -> Result<bool, AppendError> {
        let _alone = self.locked.opening.lock().await;
        if !self.locked.contains(&run.id) {
            return Ok(false);
        }
        let is_below = |id: &RunId, family: &[Arc<Run>]| {
            let below = |run: &Run| run.about.parent.as_ref().is_some_and(|step: &StepId| step.run == *id);
            family.iter().filter(|run| below(run)).cloned().collect::<Vec<_>>()
        };
        let locked: Vec<Arc<Run>> = self.locked.runs().values().map(|(run, ..)| run.clone()).collect();
        let driven: Vec<Arc<Run>> = self.lock().values().cloned().collect();
        let (mut all, mut at) = (vec![run.clone()], 0);
        while let Some(run) = all.get(at).cloned() {
            is_below(&run.id, &driven).iter().for_each(|run| run.cancel(child::LEFT_ALONE));
            all.extend(is_below(&run.id, &locked));
            at += 1;
        }
        for run in all {
            let error = Some("cancelled while it was locked".to_owned());
            let ended = Some(self.clock.now());
            let over =
                RunStatus { seq: run.progress().seq, state: RunState::Cancelled, ended, error, ..RunStatus::default() };
            self.write_summary(&run, &over).await?;
            self.close_terminals(&run).await;
            self.sessions.held().release(&run.id);
            let locked = self.locked.runs().remove(&run.id);
            if let Some((_, _, progress)) = locked {
                progress.send_replace(over);
            }
            self.locked.ids.send_if_modified(|ids| ids.remove(&run.id));
            self.listener.run_changed(&run.id);
        }
        Ok(true)
    }

    /// Closes the terminals that a machine would close on a cancel now.
    async fn close_terminals(&self, run: &Run) {
        let Some((definition, history)) = self.history_of(run).await else { return };
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

    /// Returns the runs with a sealed private part that does not open with `key`, and all above them: a run does not
    /// continue without one below it.
    ///
    /// # Errors
    ///
    /// If reading the journal fails.
    async fn sealed_among(&self, left: &[KnownRun], key: Option<&OpeningKey>) -> Result<HashSet<RunId>, StorageError> {
        let mut locked = HashSet::new();
        let is_closed =
            |run: &RunId, private: &str| is_sealed(private) && key.is_none_or(|key| key.open(run, private).is_none());
        for known in left.iter().rev() {
            let run = &known.run;
            // The write that seals a run also stores its state as waiting.
            let waits = known.summary.as_ref().is_some_and(|summary| summary.state == RunState::Waiting.name());
            if locked.contains(run)
                || (waits && self.journal.private(run).await?.is_some_and(|private| is_closed(run, &private)))
            {
                locked.insert(run.clone());
                // A child began after its parent, so the loop reaches it before the parent.
                let above = Run::from_journal(known.clone()).about.parent.map(|step| step.run);
                locked.extend(above.filter(|above| left.iter().any(|known| known.run == *above)));
            }
        }
        Ok(locked)
    }

    /// Resumes the locked runs that `key` opens. Returns how many there were.
    ///
    /// # Errors
    ///
    /// If reading the journal fails.
    pub(crate) async fn unlock(self: &Arc<Self>, key: &OpeningKey) -> Result<usize, StorageError> {
        let _alone = self.locked.opening.lock().await;
        let locked = self.locked.ids();
        if locked.is_empty() {
            return Ok(0);
        }
        let unfinished = RunFilter { finished: Some(false), ..RunFilter::default() };
        let left = self.journal.runs(unfinished).await?;
        let left: Vec<KnownRun> = left.into_iter().rev().filter(|known| locked.contains(&known.run)).collect();
        let closed = self.sealed_among(&left, Some(key)).await?;
        let opened: Vec<KnownRun> = left.into_iter().filter(|known| !closed.contains(&known.run)).collect();
        let count = opened.len();
        self.resume_all(opened, Some(key), &closed).await;
        self.locked.ids.send_replace(closed);
        Ok(count)
    }
}
