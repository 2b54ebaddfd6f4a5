//! How a run of a function is cancelled.
//!
//! What the run had begun is ended. Then `asyncio.CancelledError` is raised wherever
//! its function waits, and the function has some time for its `except` and `finally`:
//! what it asks for meanwhile is done. The run ends cancelled, whatever the function
//! makes of it. Each step is in the journal, so that a daemon which finds the run in
//! the middle of it goes on there.

use std::time::Duration;

use steplatch_clock as clock;
use steplatch_python_api::{FailureKind, State};
use steplatch_workflow::Timestamp;

use super::entry::Entry;
use super::frame::{Frame, FrameInput};
use super::history::ROOT;
use super::run::FunctionRun;
use super::work::until;

/// How long a cancelled run waits for the end of its calls before it raises in its function.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// How long a cancelled function may take to clean up.
const CLEANS_UP_WITHIN: Duration = Duration::from_secs(5);

/// How long a function may compute until its next call, where the cancel can be raised.
const COMPUTES_FOR: Duration = Duration::from_secs(1);

/// A cancel, in the history of a run that is not over yet.
#[derive(Debug, Clone)]
pub(super) struct Cancel {
    /// Why.
    pub(super) reason: String,
    /// Whether the function was told.
    pub(super) is_told: bool,
}

/// What a driver knows of the end of a run that is being cancelled.
#[derive(Debug, Default)]
pub(super) struct CancelProgress {
    /// When the function has to be done with cleaning up.
    pub(super) cleans_up_until: Option<Timestamp>,
    /// Whether this daemon was asked for the cancel.
    is_asked_for: bool,
    /// Whether the function was left at something that took too long.
    is_given_up: bool,
    /// How the function of the run failed, if it did.
    raised: Option<FailureKind>,
}

impl FunctionRun {
    /// Cancels the run. Raises in its function, if that waits; a second cancel ends the run at once. Returns false when this
    /// run is not ours to go on with.
    pub(super) async fn cancel(&mut self, at: Timestamp, reason: String) -> bool {
        let is_again = std::mem::replace(&mut self.ending.is_asked_for, true);
        if self.folded.cancel.is_some() && !is_again {
            // Asked of the last daemon, and asked again because that ended.
            return true;
        }
        // A cancel is raised where the function waits. A paused one may wait for nothing but its resumption.
        let waits = self.folded.open.has_of_frame(ROOT) || self.folded.paused.is_some();
        let is_function = matches!(self.frames.get(&ROOT), Some(Frame::Function { .. }));
        if self.folded.cancel.is_some() || self.ending.is_given_up || !is_function || !waits {
            return self.cancel_at_once(at, reason).await;
        }
        self.append(vec![Entry::Cancelling { at, reason }]).await && self.tell_of_cancel().await
    }

    /// Ends the run without telling its function.
    pub(super) async fn cancel_at_once(&mut self, at: Timestamp, reason: String) -> bool {
        let entries = self.folded.ended_by(&self.recorder.run.id, at, Entry::Cancelled { at, reason });
        self.append(entries).await
    }

    /// Goes on with a cancel that is in the history already.
    pub(super) async fn resume_cancel(&mut self) -> bool {
        match &self.folded.cancel {
            Some(cancel) if cancel.is_told => {
                // The time between two daemons does not count.
                self.ending.cleans_up_until = Some(clock::now().after(CLEANS_UP_WITHIN));
                true
            }
            Some(_) => self.tell_of_cancel().await,
            None => true,
        }
    }

    /// Ends what the run has begun, and raises in its function.
    async fn tell_of_cancel(&mut self) -> bool {
        // Frames below the function make no more calls.
        self.frames.retain(|number, _| *number == ROOT);
        self.to_begin.clear();
        tokio::select! {
            () = self.work.settle(ENDS_WITHIN) => {}
            () = self.recorder.shared.stopping.cancelled() => return false,
        }
        if let Some(Frame::Function { held, .. }) = self.frames.get_mut(&ROOT) {
            held.clear();
        }
        self.ending.cleans_up_until = Some(clock::now().after(CLEANS_UP_WITHIN));
        self.function_goes_on(ROOT, vec![Entry::Interrupted { at: clock::now() }], FrameInput::Cancelled).await
    }

    /// Waits until a function may not compute any longer because its run is cancelled.
    pub(super) fn out_of_patience(&self) -> impl Future<Output = ()> + use<> {
        let (cancelling, cleans_up_until) = (self.recorder.run.cancelling.clone(), self.ending.cleans_up_until);
        async move {
            match cleans_up_until {
                Some(at) => until(at).await,
                None => {
                    cancelling.cancelled().await;
                    tokio::time::sleep(COMPUTES_FOR).await;
                }
            }
        }
    }

    /// Writes down what is known, and leaves the function where it is.
    pub(super) async fn give_up(&mut self, entries: Vec<Entry>) -> bool {
        self.ending.is_given_up = true;
        self.append(entries).await
    }

    /// Notes how the function of the run failed, if it did.
    pub(super) fn note_raised(&mut self, frame: u64, state: &State) {
        if let (ROOT, State::Failed(failure)) = (frame, state) {
            self.ending.raised = Some(failure.kind);
        }
    }

    /// Makes the end of a run that is cancelled one that says so, whatever its function came to.
    pub(super) fn with_cancelled_end(&self, entries: Vec<Entry>) -> Vec<Entry> {
        let raised = self.ending.raised;
        let reason = match &self.folded.cancel {
            Some(cancel) => cancel.reason.clone(),
            None if raised == Some(FailureKind::Cancelled) => "the function raised asyncio.CancelledError".to_owned(),
            None => return entries,
        };
        let ends = |entry| match entry {
            // One that fails by its time limit did not fail by itself.
            Entry::Failed { at, error, .. } if raised.is_some_and(|kind| kind != FailureKind::Cancelled) => {
                Entry::Cancelled { at, reason: format!("{reason}; its function failed when it was told: {error}") }
            }
            Entry::Completed { at, .. } | Entry::Failed { at, .. } | Entry::Cancelled { at, .. } => {
                Entry::Cancelled { at, reason: reason.clone() }
            }
            entry => entry,
        };
        entries.into_iter().map(ends).collect()
    }
}
