//! Starting a run of any kind.

use std::sync::Arc;

use steplatch_access::Caller;
use steplatch_ids::RunId;
use steplatch_store::{AppendError, Appended};

use super::recorder::{Recorder, RecorderParts};
use super::runner::{Attempt, RunKind, drive};
use super::start_error::StartError;
use crate::engine_state::Engine;
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
    pub(crate) about: RunHeader,
    /// Part of the caller's environment that the run needs after a restart.
    pub(crate) environment: Environment,
    /// Knows the names of fields that hold secrets.
    pub(crate) seal: Seal,
    /// A name under which only one run begins.
    pub(crate) key: Option<StartKey>,
}

impl Engine {
    /// Begins a run. `begin` makes the kind of run and its first entries, which it has applied. Returns once the
    /// journal has these, or the run that began before under the same key or id.
    ///
    /// # Errors
    /// If it cannot begin.
    pub(crate) async fn launch<K: RunKind>(
        self: &Arc<Self>,
        parts: LaunchParts,
        begin: impl FnOnce(Recorder) -> (K, Vec<K::Entry>) + Send,
    ) -> Result<Arc<Run>, StartError> {
        let LaunchParts { caller, run, about, environment, seal, key } = parts;
        let (run, inputs, progress) = Run::driven(run, about.clone());
        let run = Arc::new(run);
        if let Some(known) = self.register(&run)? {
            return Ok(known);
        }
        let (seal, private, seq) = (LiveSeal::new(seal), PrivateForm::default(), 0);
        let parts = RecorderParts { caller, run: run.clone(), about, progress, environment, seal, private, seq };
        let (kind, entries) = begin(Recorder::new(self.clone(), parts));
        let (mut kind, mut entries) = (Box::new(kind), entries);
        kind.prepare(&mut entries).await;
        match kind.record_first(&entries, key.map(StartKey::into_text)).await {
            Ok(Appended::Written { .. }) => {
                self.drivers.spawn(drive(kind, inputs, Attempt::First));
                Ok(run)
            }
            // A conflict: the id is that of the step that starts it, so it is the same run.
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
/// Those of `start`, and when its task panics.
pub(crate) async fn uncancelled(
    start: impl Future<Output = Result<Arc<Run>, StartError>> + Send + 'static,
) -> Result<Arc<Run>, StartError> {
    tokio::spawn(start).await.unwrap_or_else(|error| Err(StartError::Interrupted(error)))
}
