//! Cancellation of a run of a function.
//!
//! The driver first ends the calls of the run. Then it raises `asyncio.CancelledError` where the function waits, allows
//! some time for the function's `except` and `finally` blocks, and performs their calls. The run always ends cancelled,
//! even if the function catches the exception. Each step is in the journal, so that a daemon that recovers the run
//! continues with the next step.

use std::time::Duration;

use steplatch_python_api::{FailureKind, State};
use steplatch_workflow::Timestamp;

use crate::function::calls::ROOT;
use crate::function::decide::{CancelDecision, CancelSituation};
use crate::function::entry::Entry;
use crate::function::run::FunctionRun;
use crate::function::run::frame::{Frame, FrameInput};

/// Maximum wait of a cancelled run for the end of its calls. The run then raises the cancel in its function.
pub(in crate::function) const CALLS_END_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limit of a cancelled function for its cleanup.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit of a function for computing until its next call, where the driver can raise the cancel.
const COMPUTE_TIMEOUT: Duration = Duration::from_secs(1);

/// State of a cancellation in progress.
#[derive(Debug, Default)]
pub(in crate::function) struct CancelProgress {
    /// Deadline of the function's cleanup.
    pub(in crate::function) cleanup_deadline: Option<Timestamp>,
    /// True if this daemon received the cancel.
    is_requested: bool,
    /// True if the driver abandoned the function because it took too long.
    is_abandoned: bool,
    /// Failure of the run's function, if it failed.
    pub(in crate::function) raised: Option<FailureKind>,
}

impl FunctionRun {
    /// Cancels the run: raises the exception in its function, if the function waits. A second cancel ends the run
    /// immediately. Returns false when this daemon must no longer drive the run.
    pub(in crate::function) async fn cancel(&mut self, at: Timestamp, reason: String) -> bool {
        let was_received_here = std::mem::replace(&mut self.cancel_progress.is_requested, true);
        let situation = CancelSituation {
            was_received_here,
            is_abandoned: self.cancel_progress.is_abandoned,
            is_function: matches!(self.frames.get(&ROOT), Some(Frame::Function { .. })),
        };
        match self.function_state.cancelled(situation) {
            CancelDecision::Ignore => true,
            CancelDecision::EndNow => self.cancel_at_once(at, reason).await,
            CancelDecision::Raise => {
                self.append(vec![Entry::Cancelling { at, reason }]).await && self.deliver_cancel().await
            }
        }
    }

    /// Ends the run without notifying its function.
    pub(in crate::function) async fn cancel_at_once(&mut self, at: Timestamp, reason: String) -> bool {
        let entries = self.function_state.ended_by(&self.recorder.run.id, at, Entry::Cancelled { at, reason });
        self.append(entries).await
    }

    /// Resumes a cancel that is in the history already.
    pub(in crate::function) async fn resume_cancel(&mut self) -> bool {
        match &self.function_state.cancel {
            Some(cancel) if cancel.is_raised => {
                // The time without a daemon does not count.
                self.cancel_progress.cleanup_deadline = Some(self.recorder.shared.clock.now().after(CLEANUP_TIMEOUT));
                true
            }
            Some(_) => self.deliver_cancel().await,
            None => true,
        }
    }

    /// Ends the calls of the run and raises the cancel in its function.
    async fn deliver_cancel(&mut self) -> bool {
        // Nested frames make no more calls.
        self.frames.retain(|number, _| *number == ROOT);
        self.to_begin.clear();
        let children = self.end_children();
        tokio::select! {
            ((), ()) = async { tokio::join!(self.work.settle(CALLS_END_TIMEOUT), children) } => {}
            () = self.recorder.shared.stopping.cancelled() => return false,
        }
        if let Some(Frame::Function { deferred, .. }) = self.frames.get_mut(&ROOT) {
            deferred.clear();
        }
        self.cancel_progress.cleanup_deadline = Some(self.recorder.shared.clock.now().after(CLEANUP_TIMEOUT));
        self.resume_function(
            ROOT,
            vec![Entry::Interrupted { at: self.recorder.shared.clock.now() }],
            FrameInput::Cancelled,
        )
        .await
    }

    /// Returns a future that completes when a function of a cancelled run has computed for too long.
    pub(in crate::function) fn wait_for_compute_deadline(&self) -> impl Future<Output = ()> + use<> {
        let (cancelling, clock) = (self.recorder.run.cancelling.clone(), self.recorder.shared.clock.clone());
        let cleanup_deadline = self.cancel_progress.cleanup_deadline;
        async move {
            match cleanup_deadline {
                Some(at) => clock.sleep_until(at).await,
                None => {
                    cancelling.cancelled().await;
                    tokio::time::sleep(COMPUTE_TIMEOUT).await;
                }
            }
        }
    }

    /// Records `entries` and abandons the function.
    pub(in crate::function) async fn give_up(&mut self, entries: Vec<Entry>) -> bool {
        self.cancel_progress.is_abandoned = true;
        self.append(entries).await
    }

    /// Records the kind of failure of the run's function, if it failed.
    pub(in crate::function) fn record_raised(&mut self, frame: u64, state: &State) {
        if let (ROOT, State::Failed(failure)) = (frame, state) {
            self.cancel_progress.raised = Some(failure.kind);
        }
    }
}
