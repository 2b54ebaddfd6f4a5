//! Starting a run of any kind.

use std::sync::Arc;

use steplatch_access::Caller;
use steplatch_ids::RunId;
use steplatch_store::{AppendError, Appended};

use super::recorder::{Recorder, RecorderParts};
use super::runner::{Attempt, RunKind, drive};
use super::start_error::StartError;
use crate::engine_state::{Engine, RETRY_PAUSES};
use crate::locked::PrivateForm;
use crate::origin::Environment;
use crate::run::{Run, RunHeader};
use crate::seal::{LiveSeal, Seal};
use crate::start_key::StartKey;

/// Initial data of a run of any kind.
pub(crate) struct LaunchParts {
    /// The caller for whom the run works.
    pub(crate) caller: Arc<Caller>,
    pub(crate) run: RunId,
    pub(crate) header: RunHeader,
    /// Part of the caller's environment that the run needs after a restart.
    pub(crate) environment: Environment,
    /// Seal with the names of fields that hold secrets.
    pub(crate) seal: Seal,
    /// Idempotency key. Only one run starts with this key.
    pub(crate) key: Option<StartKey>,
}

impl Engine {
    /// Begins a run. `begin` creates the run of its kind and its first entries, already applied. Returns once the
    /// journal has stored these entries. If a run has already started under the same key or id, returns that run.
    ///
    /// # Errors
    /// If the run cannot begin.
    pub(crate) async fn launch<K: RunKind>(
        self: &Arc<Self>,
        parts: LaunchParts,
        begin: impl FnOnce(Recorder) -> (K, Vec<K::Entry>) + Send,
    ) -> Result<Arc<Run>, StartError> {
        let LaunchParts { caller, run, header, environment, seal, key } = parts;
        let (run, inputs, progress) = Run::driven(run, header.clone());
        let run = Arc::new(run);
        if let Some(known) = self.register(&run)? {
            return Ok(known);
        }
        let (seal, private, seq) = (LiveSeal::new(seal), PrivateForm::default(), 0);
        let parts = RecorderParts { caller, run: run.clone(), header, progress, environment, seal, private, seq };
        let (kind, entries) = begin(Recorder::new(self.clone(), parts));
        let (mut kind, mut entries) = (Box::new(kind), entries);
        kind.prepare(&mut entries).await;
        match kind.record_first(&entries, key.map(StartKey::into_text)).await {
            Ok(Appended::Written { .. }) => {
                self.drivers.spawn(drive(kind, inputs, Attempt::First));
                Ok(run)
            }
            // On a conflict, the id is derived from the starting step, so the existing run is the same run.
            Ok(Appended::Existing { run: existing }) | Err(AppendError::Conflict { run: existing, .. }) => {
                self.lock().remove(&run.id);
                self.known(&existing).await
            }
            Err(AppendError::Storage(error)) => {
                self.lock().remove(&run.id);
                Err(StartError::NotStored(error))
            }
        }
    }
}

/// Runs `start` in a separate task, so that a dropped connection cannot cancel it: once the start is in the journal,
/// the run needs a driver.
///
/// # Errors
/// If `start` fails, or its task panics.
pub(crate) async fn uncancelled(
    start: impl Future<Output = Result<Arc<Run>, StartError>> + Send + 'static,
) -> Result<Arc<Run>, StartError> {
    tokio::spawn(start).await.unwrap_or_else(|error| Err(StartError::Interrupted(error)))
}

/// Starts the run of a step with `begin`. Retries while the journal is full; this only delays the step.
///
/// # Errors
/// If `begin` fails, and `lacks_room` returns false for the error.
pub(crate) async fn begin_for_step<T, E, B>(lacks_room: impl Fn(&E) -> bool, begin: impl Fn() -> B) -> Result<T, E>
where
    B: Future<Output = Result<T, E>>,
    E: std::fmt::Display,
{
    let mut pause = RETRY_PAUSES.0;
    loop {
        match Box::pin(begin()).await {
            Err(error) if lacks_room(&error) => {
                tracing::warn!(%error, "the run of a step waits for space in the journal");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY_PAUSES.1);
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use steplatch_store::StorageError;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn start_of_a_step_retries_only_while_the_journal_is_full() {
        let full = || StartError::NotStored(StorageError::Full("full".into()));
        for (last, expected) in [(Ok(7), Some(7)), (Err(StartError::Stopping), None)] {
            let (last, attempts) = (Cell::new(Some(last)), Cell::new(0));
            let begin = async || {
                attempts.set(attempts.get() + 1);
                if attempts.get() < 9 { Err(full()) } else { last.take().expect("exactly one further attempt is made") }
            };
            let result = begin_for_step(StartError::lacks_room, begin).await;
            assert_eq!((result.ok(), attempts.get()), (expected, 9));
        }
    }
}
