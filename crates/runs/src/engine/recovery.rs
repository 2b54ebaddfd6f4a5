//! Recovery of runs of any kind after a restart of the daemon.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use steplatch_access::{Caller, OpeningKey};
use steplatch_ids::{RunId, StepId};
use steplatch_store::{KnownRun, Record};

use super::recorder::{Recorder, RecorderParts};
use super::recovery_error::RecoveryError;
use super::runner::{Attempt, RunKind, drive};
use crate::engine_state::Engine;
use crate::event::Unreadable;
use crate::origin::{Environment, ResumeContext};
use crate::run::{Run, RunHeader, RunInputs};
use crate::seal::{LiveSeal, Seal};

/// Recovery of a kind of run.
pub(crate) trait Recovery: Send + Sized + 'static {
    /// The parsed history.
    type History: Send;

    /// True if a run can continue without its caller, since older daemons stored no caller.
    const CONTINUES_WITHOUT_CALLER: bool = false;

    /// Reads a history.
    ///
    /// # Errors
    /// If reading it fails.
    fn read(
        shared: &Arc<Engine>,
        header: &RunHeader,
        run: &RunId,
        records: Vec<Record>,
        seal: Seal,
    ) -> impl Future<Output = Result<StoredRun<Self::History>, RecoveryError>> + Send;

    /// Returns the run at the end of its history.
    fn resume(history: Self::History, recorder: Recorder) -> Self;

    /// Returns whether the run waits for the child that this step starts.
    fn awaits(&self, step: &StepId) -> bool;

    /// Returns the steps whose results the run still needs. `None` if this daemon does not know them.
    fn pending_steps(&self) -> Option<Vec<StepId>>;
}

/// The stored data of a run.
pub(crate) struct StoredRun<H> {
    pub(crate) history: H,
    /// The secrets of the run, and the names of fields with secrets.
    pub(crate) seal: Seal,
    pub(crate) environment: Environment,
}

/// A run of any kind that an earlier daemon left, ready to resume.
pub(crate) trait RecoveredRun: Send {
    fn run(&self) -> &Arc<Run>;

    /// Returns whether the run waits for the child that this step starts.
    fn awaits(&self, step: &StepId) -> bool;

    /// Returns the steps whose results the run still needs. `None` if this daemon does not know them.
    fn pending_steps(&self) -> Option<Vec<StepId>>;

    /// Publishes the progress of the run to followers.
    fn publish(&self);

    /// Drives the run to its end, or until the daemon stops.
    fn resume(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

struct Recovered<K> {
    kind: Box<K>,
    inputs: RunInputs,
}

impl<K: RunKind> RecoveredRun for Recovered<K> {
    fn run(&self) -> &Arc<Run> {
        &self.kind.recorder().run
    }

    fn awaits(&self, step: &StepId) -> bool {
        self.run().id == step.run && self.kind.awaits(step)
    }

    fn pending_steps(&self) -> Option<Vec<StepId>> {
        self.kind.pending_steps()
    }

    fn publish(&self) {
        // Followers see a finished run as finished only after the cleanup of its resources.
        if !self.kind.is_over() {
            self.kind.publish();
        }
    }

    fn resume(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(drive(self.kind, self.inputs, Attempt::AfterRestart))
    }
}

/// Callers of runs, by their stored form: many runs share a caller.
pub(crate) type KnownCallers = HashMap<String, (Arc<Caller>, Seal)>;

impl Engine {
    /// Restores a run from the journal. `key` opens a sealed private part.
    ///
    /// # Errors
    ///
    /// If the run cannot continue.
    pub(crate) async fn recover_run<K: RunKind>(
        self: &Arc<Self>,
        known: KnownRun,
        key: Option<&OpeningKey>,
        callers: &mut KnownCallers,
    ) -> Result<Box<dyn RecoveredRun>, RecoveryError> {
        let (text, private) = self.private_part(&known.run, key).await?;
        let (caller, seal) = match callers.get(&text) {
            Some(known) => known.clone(),
            None => {
                let origin = match serde_json::from_str::<ResumeContext>(&text) {
                    Ok(origin) => origin,
                    Err(_) if K::CONTINUES_WITHOUT_CALLER => ResumeContext::default(),
                    Err(error) => return Err(RecoveryError::ResumeContext(error)),
                };
                let (caller, seal) = origin.into_parts();
                callers.entry(text).or_insert((Arc::new(caller), seal)).clone()
            }
        };
        let records = self.journal.read(&known.run, 1).await.map_err(Unreadable::from)?;
        let seq = records.len() as u64;
        let header = Run::from_journal(known.clone()).header;
        let StoredRun { history, seal, environment } = K::read(self, &header, &known.run, records, seal).await?;
        let (run, inputs, progress) = self.undriven_run(&known);
        self.lock().insert(known.run, run.clone());
        let seal = LiveSeal::recover(seal, &self.secrets);
        let parts = RecorderParts { caller, run, header, progress, environment, seal, private, seq };
        let kind = Box::new(K::resume(history, Recorder::new(self.clone(), parts)));
        Ok(Box::new(Recovered { kind, inputs }))
    }
}
