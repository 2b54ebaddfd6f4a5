//! State of a run of a remote workflow, folded from its history, and its next step.
//!
//! Pure: times come from entries and from the caller.

use std::time::Duration;

use serde_json::Value;
use steplatch_workflow::{Pause, Timestamp};

use super::entry::Entry;
use crate::engine::WorkClock;
use crate::run::RunState;

/// State of a run, the starting point of its driver.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) phase: Phase,
    /// Time and client of the current pause.
    pub(super) paused: Option<Pause>,
    /// Number of starts that the service certainly refused.
    pub(super) refusals: u32,
    /// Number of recorded status changes at the service.
    pub(super) status_changes: u32,
    /// True if the run has waited in the queue.
    pub(super) queued: bool,
    /// The run at the service, once it has started.
    pub(super) remote: Option<ServiceRun>,
    /// End of the run.
    pub(super) end: Option<End>,
    /// Working time at the service, without pauses and waits for an answer.
    clock: WorkClock,
}

/// The phase of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Phase {
    /// The driver must send the start to the service.
    #[default]
    ToStart,
    /// The driver must repeat the start after a refusal.
    ToStartAt(Timestamp),
    /// The driver has sent the start to the service, and has recorded no answer.
    Starting,
    /// The service performs the run.
    InProgress,
    /// The driver must send the cancel to the service.
    Cancelling {
        reason: String,
        timed_out: bool,
    },
    Finished,
}

/// A run of a service.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ServiceRun {
    pub(super) correlation_id: String,
    pub(super) instance: String,
    /// Start time at the service.
    pub(super) since: Timestamp,
    /// Last status of the run.
    pub(super) status: Option<String>,
    /// The gate that the run waits for, if any.
    pub(super) gate: Option<Value>,
}

/// End of a run.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) at: Timestamp,
    pub(super) state: RunState,
    pub(super) error: Option<String>,
    pub(super) result: Value,
}

/// The next step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Next {
    /// Wait in the queue, not before a time, and send the start to the service.
    Start { not_before: Option<Timestamp> },
    /// It is unknown whether the service started the run: no answer to the start can arrive any longer.
    Unknown,
    /// Request the status of the run.
    Poll,
    /// Send the cancel to the service.
    Cancel,
    /// Nothing, until an answer arrives or the run resumes.
    Wait,
    /// Nothing, since the run has finished.
    Nothing,
}

impl State {
    pub(super) fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Began(_) => {}
            Entry::Queued { .. } => self.queued = true,
            Entry::Starting { .. } => self.phase = Phase::Starting,
            Entry::NotStarted { retry_at, .. } => {
                self.refusals += 1;
                self.phase = Phase::ToStartAt(*retry_at);
            }
            Entry::Started { at, correlation_id, instance } => {
                let (correlation_id, instance) = (correlation_id.clone(), instance.clone());
                self.remote = Some(ServiceRun { correlation_id, instance, since: *at, status: None, gate: None });
                // A cancel may have arrived while the start was in progress.
                if !matches!(self.phase, Phase::Cancelling { .. }) {
                    self.phase = Phase::InProgress;
                }
            }
            Entry::StatusChanged { status, gate, .. } => {
                self.status_changes += 1;
                if let Some(remote) = &mut self.remote {
                    (remote.status, remote.gate) = (Some(status.clone()), gate.clone());
                }
            }
            Entry::Paused { at, by, by_parent } => {
                self.paused = Some(Pause { since: *at, by: by.clone(), above: *by_parent });
            }
            Entry::Resumed { .. } => self.paused = None,
            Entry::Cancelling { reason, timed_out, .. } => {
                self.phase = Phase::Cancelling { reason: reason.clone(), timed_out: *timed_out };
            }
            Entry::Completed { at, result } => self.end(*at, RunState::Completed, None, result),
            Entry::Failed { at, error, result } => self.end(*at, RunState::Failed, Some(error.clone()), result),
            Entry::Cancelled { at, reason, result } => {
                self.end(*at, RunState::Cancelled, Some(reason.clone()), result);
            }
        }
        let at_work = self.phase == Phase::InProgress && self.paused.is_none() && self.gate().is_none();
        self.clock.apply(entry.time(), at_work);
    }

    fn end(&mut self, at: Timestamp, state: RunState, error: Option<String>, result: &Value) {
        self.phase = Phase::Finished;
        self.end = Some(End { at, state, error, result: result.clone() });
    }

    /// Returns the service's gate that the run waits for.
    pub(super) fn gate(&self) -> Option<&Value> {
        self.remote.as_ref()?.gate.as_ref()
    }

    /// Returns the public state of the run. A run that waits for an answer at its service is considered waiting.
    pub(super) fn run_state(&self) -> RunState {
        match &self.end {
            Some(end) => end.state,
            None if self.gate().is_some() => RunState::Waiting,
            None => RunState::Running,
        }
    }

    /// Returns the next step. `expects_reply`: this daemon still expects an answer from the service.
    pub(super) fn next(&self, expects_reply: bool) -> Next {
        match &self.phase {
            Phase::Finished => Next::Nothing,
            Phase::Starting if expects_reply => Next::Wait,
            Phase::Starting => Next::Unknown,
            // The cancel arrived while the start was in progress, so there is no id to cancel.
            Phase::Cancelling { .. } if self.remote.is_none() && expects_reply => Next::Wait,
            Phase::Cancelling { .. } if self.remote.is_none() => Next::Unknown,
            Phase::Cancelling { .. } => Next::Cancel,
            _ if self.paused.is_some() => Next::Wait,
            Phase::ToStart => Next::Start { not_before: None },
            Phase::ToStartAt(retry_at) => Next::Start { not_before: Some(*retry_at) },
            Phase::InProgress => Next::Poll,
        }
    }

    /// Moves a start of work after `now` to `now`, so that a clock that was set back does not extend the limit.
    pub(super) fn limit_start_to(&mut self, now: Timestamp) {
        self.clock.begin_by(now);
    }

    /// Returns the end of the working time `limit`, if no pause follows; `None` while its clock does not run.
    pub(super) fn work_deadline(&self, limit: Duration) -> Option<Timestamp> {
        self.clock.deadline(limit)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * 1_000_000)
    }

    fn fold(entries: &[Entry]) -> State {
        let mut state = State::default();
        entries.iter().for_each(|entry| state.apply(entry));
        state
    }

    fn started(seconds: i64) -> Entry {
        Entry::Started { at: at(seconds), correlation_id: "c".to_owned(), instance: "i".to_owned() }
    }

    fn gate(seconds: i64, gate: Option<Value>) -> Entry {
        Entry::StatusChanged { at: at(seconds), status: "RUNNING".to_owned(), gate }
    }

    fn cancelling(seconds: i64) -> Entry {
        Entry::Cancelling { at: at(seconds), reason: "so".to_owned(), timed_out: false }
    }

    #[test]
    fn start_is_requested_once_and_unknown_without_an_answer() {
        let starting = [Entry::Starting { at: at(1) }];
        assert_eq!(fold(&[]).next(false), Next::Start { not_before: None });
        assert_eq!(fold(&starting).next(true), Next::Wait, "the answer may still arrive");
        assert_eq!(fold(&starting).next(false), Next::Unknown, "another daemon sent the request");
        let refusal = Entry::NotStarted { at: at(2), error: "429".to_owned(), retry_at: at(9) };
        let retried = fold(&[starting[0].clone(), refusal]);
        assert_eq!((retried.next(false), retried.refusals), (Next::Start { not_before: Some(at(9)) }, 1));
        assert_eq!(fold(&[starting[0].clone(), started(2)]).next(false), Next::Poll);
    }

    #[test]
    fn cancel_during_a_start_is_sent_once_the_run_has_an_id() {
        let early = [Entry::Starting { at: at(1) }, cancelling(2)];
        assert_eq!(fold(&early).next(true), Next::Wait);
        assert_eq!(fold(&early).next(false), Next::Unknown);
        let started_run = fold(&[early[0].clone(), early[1].clone(), started(3)]);
        assert_eq!(started_run.next(false), Next::Cancel);
    }

    #[test]
    fn pauses_and_waits_for_people_are_not_working_time() {
        let mut state = fold(&[Entry::Starting { at: at(1) }, started(10)]);
        assert_eq!(state.work_deadline(Duration::from_secs(60)), Some(at(70)));
        state.apply(&gate(20, Some(json!({"prompt": "ship?"}))));
        assert_eq!((state.work_deadline(Duration::from_secs(60)), state.run_state()), (None, RunState::Waiting));
        state.apply(&gate(500, None));
        assert_eq!(state.work_deadline(Duration::from_secs(60)), Some(at(550)));
        state.apply(&Entry::Paused { at: at(510), by: "me".to_owned(), by_parent: false });
        assert_eq!((state.work_deadline(Duration::from_secs(60)), state.next(false)), (None, Next::Wait));
        state.apply(&Entry::Resumed { at: at(600), by: "me".to_owned() });
        assert_eq!((state.work_deadline(Duration::from_secs(60)), state.next(false)), (Some(at(640)), Next::Poll));
    }

    #[test]
    fn paused_run_can_be_cancelled() {
        let paused = Entry::Paused { at: at(3), by: "me".to_owned(), by_parent: false };
        let state = fold(&[Entry::Starting { at: at(1) }, started(2), paused, cancelling(4)]);
        assert_eq!(state.next(false), Next::Cancel);
    }
}
