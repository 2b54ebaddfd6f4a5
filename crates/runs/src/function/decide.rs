//! Decisions on an event of a function's run: entries to store, and the work after that. Pure: the driver runs the
//! interpreter beforehand, and performs the work afterwards.

use std::collections::HashMap;

use serde_json::Value;
use steplatch_ids::RunId;
use steplatch_python_api::{Answer, Call, CallKind, Entry as Step, Failure, FailureKind, Progress, State};
use steplatch_workflow::{By, Input, Timestamp};

use super::calls::{CallTarget, PendingCall, ROOT};
use super::entry::Entry;
use super::gate::{step, to_answer};
use super::history::Cancel;
use super::history::FunctionState;
use super::run::FunctionEvent;
use super::work::CallOutcome;

/// Failure of a function.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RaisedError {
    /// The text of the exception by `str()`, or its name if the text is empty.
    pub(super) error: String,
    /// The full Python traceback.
    pub(super) traceback: Option<String>,
}

impl From<Failure> for RaisedError {
    fn from(failure: Failure) -> Self {
        let traceback = Some(failure.to_string());
        let error = if failure.message.is_empty() { failure.exception } else { failure.message };
        Self { error, traceback }
    }
}

/// Consequences of the progress of a function.
#[derive(Debug, Default)]
pub(super) struct Advance {
    /// Entries to store before the driver performs anything.
    pub(super) entries: Vec<Entry>,
    /// The calls whose work is cancelled, because their answers are no longer needed.
    pub(super) dropped: Vec<u64>,
    /// The calls that the function abandoned, by their numbers within the function. A call that the function makes and
    /// abandons in one step is open only after the run has applied the entries.
    pub(super) closed: Vec<u64>,
    /// New calls to perform, by their numbers.
    pub(super) calls: Vec<(u64, CallKind)>,
    /// The end of the function, if it has ended.
    pub(super) ended: Option<Result<Value, RaisedError>>,
}

/// Calls that are no longer needed.
#[derive(Debug, Default)]
pub(super) struct Abandonment {
    /// Entries that record the abandonment.
    pub(super) entries: Vec<Entry>,
    /// All calls, including closed ones.
    pub(super) calls: Vec<u64>,
}

/// Manner of cancelling a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CancelDecision {
    /// A cancel is already in progress.
    Ignore,
    /// The driver raises the exception in the function of the run.
    Raise,
    /// The run ends without an exception in its function.
    EndNow,
}

/// The state of a run at the arrival of a cancel.
#[derive(Debug, Clone, Copy)]
pub(super) struct CancelSituation {
    /// True if this daemon already received a cancel.
    pub(super) was_received_here: bool,
    /// True if the driver abandoned the function because it computed for too long.
    pub(super) is_abandoned: bool,
    /// True if the run is a function, and not a call of a node.
    pub(super) is_function: bool,
}

/// The journaled history of a function.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FunctionSteps {
    /// Calls that the function made and answers that it received.
    pub(super) steps: Vec<Step>,
    /// Answers that the function has not received yet.
    pub(super) deferred: Vec<DeferredAnswer>,
}

/// An answer that a function receives when the run resumes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DeferredAnswer {
    /// The number of the call within the run.
    pub(super) number: u64,
    /// The number of the call among the function's own.
    pub(super) ordinal: u64,
    pub(super) answer: Answer,
}

impl FunctionState {
    /// Returns the event of an input in this state; `None` if the input has no effect.
    pub(super) fn event_for_input(&self, run: &RunId, input: Input) -> Option<FunctionEvent> {
        match input {
            Input::Cancel { reason } => Some(FunctionEvent::Cancelled { reason }),
            Input::GateAnswered { step: gate, choice, by } => {
                let number = u64::from(gate.visit);
                // Another answer arrived earlier, or the gate belongs to another run.
                let CallTarget::Call(Call { kind: kind @ CallKind::Gate { .. }, .. }) = &self.open.get(number)?.target
                else {
                    return None;
                };
                let outcome = CallOutcome::Answer(to_answer(kind, choice, &by));
                (step(run, number)? == gate).then_some(FunctionEvent::Outcome { number, outcome, by: Some(by) })
            }
            Input::ChildWaits { step, waits } => Some(FunctionEvent::Child { number: u64::from(step.visit), waits }),
            Input::Pause { by, above } => {
                let is_running = self.paused.is_none() && self.cancel.is_none();
                is_running.then_some(FunctionEvent::Paused { by, above })
            }
            // A directly paused run does not resume with its parent.
            Input::Resume { by, above } => {
                let pause = self.paused.as_ref().filter(|pause| !above || pause.above);
                pause.map(|_| FunctionEvent::Resumed { by })
            }
            Input::ChildBegan { step, .. } => Some(FunctionEvent::ChildBegan { number: u64::from(step.visit) }),
            // Functions receive no other inputs.
            _ => None,
        }
    }

    /// Returns the consequences of a function's progress. The function continued at time `at` because of `entries`. The
    /// run has not applied these entries yet. `is_replayed`: a replay made the progress, so the function has already
    /// abandoned all calls that it does not wait for.
    pub(super) fn advance(
        &self,
        run: &RunId,
        (frame, at): (u64, Timestamp),
        entries: &[Entry],
        progress: Result<Progress, RaisedError>,
        is_replayed: bool,
    ) -> Advance {
        let Progress { calls, abandoned, state } = match progress {
            Ok(progress) => progress,
            Err(error) => return Advance { ended: Some(Err(error)), ..Advance::default() },
        };
        let mut advance = Advance { closed: abandoned, ..Advance::default() };
        if let (true, State::Waiting(waits)) = (is_replayed, &state) {
            advance.closed.extend(self.open_ordinals_except(frame, waits));
        }
        for ordinal in &advance.closed {
            // The answered call is still open here, but not abandoned.
            if let Some(number) = self.open.number_of(frame, *ordinal).filter(|number| !closes(entries, *number)) {
                let Abandonment { entries, calls } = self.abandon(run, number, at);
                advance.entries.extend(entries);
                advance.dropped.extend(calls);
            }
        }
        for (number, call) in (self.last + 1..).zip(calls) {
            advance.calls.push((number, call.kind.clone()));
            let within = call.within.map(|within| self.open.number_of(frame, within).unwrap_or(ROOT));
            advance.entries.push(Entry::Called { at, number, frame, within, call });
        }
        advance.ended = match state {
            State::Waiting(_) => None,
            State::Completed(result) => Some(Ok(result)),
            State::Failed(failure) => Some(Err(RaisedError::from(failure))),
        };
        advance
    }

    /// Returns the entries that end the run with the result of its function. Omits the gates that `entries` close. The
    /// run has not applied `entries` yet.
    pub(super) fn root_end_entries(
        &self,
        run: &RunId,
        at: Timestamp,
        entries: &[Entry],
        ended: Result<Value, RaisedError>,
    ) -> Vec<Entry> {
        let end = match ended {
            Ok(result) => Entry::Completed { at, result },
            Err(RaisedError { error, traceback }) => Entry::Failed { at, error, traceback, result: None },
        };
        let mut ending = self.ended_by(run, at, end);
        ending.retain(|entry| !matches!(entry, Entry::Abandoned { number, .. } if closes(entries, *number)));
        ending
    }

    /// Returns the work to cancel with an abandoned call: the call and its descendants.
    pub(super) fn abandon(&self, run: &RunId, number: u64, at: Timestamp) -> Abandonment {
        let mut abandonment = self.abandon_below(run, number, at);
        abandonment.calls.push(number);
        abandonment.entries.extend(self.abandoned(run, number, at));
        abandonment
    }

    /// Returns the work to cancel with an answered call: its descendants.
    pub(super) fn abandon_below(&self, run: &RunId, number: u64, at: Timestamp) -> Abandonment {
        let calls: Vec<u64> = self.open.descendants(number).into_iter().collect();
        let entries = calls.iter().filter_map(|number| self.abandoned(run, *number, at)).collect();
        Abandonment { entries, calls }
    }

    fn abandoned(&self, run: &RunId, number: u64, at: Timestamp) -> Option<Entry> {
        let open = self.open.get(number)?;
        Some(Entry::Abandoned { at, number, label: open.label(run, number) })
    }

    /// Returns the entry for a child that starts or stops waiting for a person; `None` if the journal has the entry
    /// already.
    pub(super) fn child_wait_entry(&self, at: Timestamp, number: u64, waits: bool) -> Option<Entry> {
        let is_known = self.waiting_children.contains(&number);
        match waits {
            true if !is_known && self.open.contains(number) => Some(Entry::ChildWaits { at, number }),
            false if is_known => Some(Entry::ChildContinues { at, number }),
            _ => None,
        }
    }

    /// Decides how to cancel the run.
    pub(super) fn cancelled(&self, situation: CancelSituation) -> CancelDecision {
        let CancelSituation { was_received_here, is_abandoned, is_function } = situation;
        if self.cancel.is_some() && !was_received_here {
            // The cancel is a repetition: the last daemon received it before it stopped.
            return CancelDecision::Ignore;
        }
        // The driver raises a cancel in a waiting function, but a paused function may wait only for its resumption.
        let waits = self.open.has_of_frame(ROOT) || self.paused.is_some();
        if self.cancel.is_some() || is_abandoned || !is_function || !waits {
            CancelDecision::EndNow
        } else {
            CancelDecision::Raise
        }
    }

    /// Replaces the end of a run under cancellation with a cancelled end. `raised`: the failure of its function, if it
    /// failed.
    pub(super) fn with_cancelled_end(&self, entries: Vec<Entry>, raised: Option<FailureKind>) -> Vec<Entry> {
        let reason = match &self.cancel {
            Some(Cancel { reason, .. }) => reason.clone(),
            None if raised == Some(FailureKind::Cancelled) => "the function raised asyncio.CancelledError".to_owned(),
            None => return entries,
        };
        let ends = |entry| match entry {
            // A failure by the time limit is not a failure of the function itself.
            Entry::Failed { at, error, .. } if raised.is_some_and(|kind| kind != FailureKind::Cancelled) => {
                Entry::Cancelled {
                    at,
                    reason: format!("{reason}; its function failed during the cancellation: {error}"),
                }
            }
            Entry::Completed { at, .. } | Entry::Failed { at, .. } | Entry::Cancelled { at, .. } => {
                Entry::Cancelled { at, reason: reason.clone() }
            }
            entry => entry,
        };
        entries.into_iter().map(ends).collect()
    }
}

/// Returns whether one of these entries answers or abandons a call.
fn closes(entries: &[Entry], number: u64) -> bool {
    let closes = |entry: &Entry| match entry {
        Entry::Abandoned { number: closed, .. } | Entry::Answered { number: closed, .. } => *closed == number,
        _ => false,
    };
    entries.iter().any(closes)
}

impl PendingCall {
    /// Returns the entry that answers the call.
    pub(super) fn answered(
        &self,
        run: &RunId,
        (at, number): (Timestamp, u64),
        answer: Answer,
        by: Option<By>,
        is_timeout: bool,
    ) -> Entry {
        let timeout = self.timeout().filter(|_| is_timeout);
        Entry::Answered { at, number, answer, by, label: self.label(run, number), timeout }
    }
}

impl FunctionSteps {
    /// Returns the calls and answers of a function, from the entries of its run. `last` is a step that is not in the
    /// journal yet.
    pub(super) fn from_entries(frame: u64, entries: impl IntoIterator<Item = Entry>, last: Option<Step>) -> Self {
        let (mut steps, mut deferred) = (Vec::new(), Vec::new());
        let (mut ordinals, mut is_paused) = (HashMap::new(), false);
        for entry in entries {
            match entry {
                Entry::Called { number, frame: of, call, .. } if of == frame => {
                    ordinals.insert(number, call.ordinal);
                    steps.push(Step::Called(call));
                }
                Entry::Answered { number, answer, .. } => {
                    let Some(&ordinal) = ordinals.get(&number) else { continue };
                    if is_paused {
                        deferred.push(DeferredAnswer { number, ordinal, answer });
                    } else {
                        steps.push(Step::Answered { ordinal, answer });
                    }
                }
                // The function receives the answer here, before its next calls.
                Entry::AnswerDelivered { number, .. } => {
                    if let Some(at) = deferred.iter().position(|deferred| deferred.number == number) {
                        let DeferredAnswer { ordinal, answer, .. } = deferred.remove(at);
                        steps.push(Step::Answered { ordinal, answer });
                    }
                }
                Entry::Inlined { number, .. } => {
                    steps.extend(ordinals.get(&number).map(|ordinal| Step::Inlined { ordinal: *ordinal }));
                }
                Entry::Interrupted { .. } if frame == ROOT => {
                    deferred.clear();
                    is_paused = false;
                    steps.push(Step::Cancelled);
                }
                Entry::Paused { .. } => is_paused = true,
                Entry::Resumed { .. } => is_paused = false,
                _ => {}
            }
        }
        steps.extend(last);
        Self { steps, deferred }
    }
}

#[cfg(test)]
mod tests;
