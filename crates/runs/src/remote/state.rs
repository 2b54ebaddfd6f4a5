//! How far the run of a remote workflow is, folded from its history, and what is to be done next.
//!
//! Pure: times come from entries, and from whoever asks.

use std::time::Duration;

use serde_json::Value;
use steplatch_workflow::{Pause, Timestamp};

use super::entry::Entry;
use crate::engine::WorkClock;
use crate::run::RunState;

/// What has to be remembered of a run to go on with it.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) phase: Phase,
    /// Since when nothing new is asked, and who wants that.
    pub(super) paused: Option<Pause>,
    /// How often the service was asked to start it, and certainly did not.
    pub(super) refusals: u32,
    /// How often it changed at its service.
    pub(super) tellings: u32,
    /// Whether it stood in line.
    pub(super) queued: bool,
    /// The run there, once it is started.
    pub(super) there: Option<ServiceRun>,
    /// How it ended.
    pub(super) end: Option<End>,
    /// How long it was at work there, without pauses and what it waited for somebody.
    clock: WorkClock,
}

/// Where a run is.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Phase {
    /// The service is to be asked to start it, not before a time if there is one.
    #[default]
    ToStart,
    /// The same, after a refusal.
    ToStartAt(Timestamp),
    /// The service was asked, and nothing came of that yet.
    Starting,
    /// The service works on it.
    UnderWay,
    /// The service is to be asked to cancel it.
    Cancelling {
        reason: String,
        late: bool,
    },
    Over,
}

/// A run of a service.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ServiceRun {
    pub(super) correlation_id: String,
    pub(super) instance: String,
    /// When the service started it.
    pub(super) since: Timestamp,
    /// What it said last.
    pub(super) status: Option<String>,
    /// What it waits for.
    pub(super) gate: Option<Value>,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) at: Timestamp,
    pub(super) state: RunState,
    pub(super) error: Option<String>,
    pub(super) result: Value,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Next {
    /// Stand in line, not before a time, and ask the service to start it.
    Start { not_before: Option<Timestamp> },
    /// Nobody knows whether the service started it: an answer that was waited for can not come any more.
    Unknown,
    /// Look how it is.
    Look,
    /// Ask the service to cancel it.
    Cancel,
    /// Nothing, until somebody lets it go on.
    Rest,
    /// Nothing any more.
    Nothing,
}

impl State {
    pub(super) fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Began(_) => {}
            Entry::Queued { .. } => self.queued = true,
            Entry::Starting { .. } => self.phase = Phase::Starting,
            Entry::NotStarted { again, .. } => {
                self.refusals += 1;
                self.phase = Phase::ToStartAt(*again);
            }
            Entry::Started { at, correlation_id, instance } => {
                let (correlation_id, instance) = (correlation_id.clone(), instance.clone());
                self.there = Some(ServiceRun { correlation_id, instance, since: *at, status: None, gate: None });
                // Somebody may have wanted its end while the service was asked.
                if !matches!(self.phase, Phase::Cancelling { .. }) {
                    self.phase = Phase::UnderWay;
                }
            }
            Entry::Told { status, gate, .. } => {
                self.tellings += 1;
                if let Some(there) = &mut self.there {
                    (there.status, there.gate) = (Some(status.clone()), gate.clone());
                }
            }
            Entry::Paused { at, by, above } => {
                self.paused = Some(Pause { since: *at, by: by.clone(), above: *above });
            }
            Entry::Resumed { .. } => self.paused = None,
            Entry::Cancelling { reason, late, .. } => {
                self.phase = Phase::Cancelling { reason: reason.clone(), late: *late };
            }
            Entry::Completed { at, result } => self.end(*at, RunState::Completed, None, result),
            Entry::Failed { at, error, result } => self.end(*at, RunState::Failed, Some(error.clone()), result),
            Entry::Cancelled { at, reason, result } => {
                self.end(*at, RunState::Cancelled, Some(reason.clone()), result);
            }
        }
        let at_work = self.phase == Phase::UnderWay && self.paused.is_none() && self.gate().is_none();
        self.clock.apply(entry.at(), at_work);
    }

    fn end(&mut self, at: Timestamp, state: RunState, error: Option<String>, result: &Value) {
        self.phase = Phase::Over;
        self.end = Some(End { at, state, error, result: result.clone() });
    }

    /// Returns what the run waits for at its service.
    pub(super) fn gate(&self) -> Option<&Value> {
        self.there.as_ref()?.gate.as_ref()
    }

    /// Returns what lists tell of it. One that waits for somebody at its service waits.
    pub(super) fn run_state(&self) -> RunState {
        match &self.end {
            Some(end) => end.state,
            None if self.gate().is_some() => RunState::Waiting,
            None => RunState::Running,
        }
    }

    /// Returns what is to be done next. `asked` is whether this daemon has an answer of the service to come.
    pub(super) fn next(&self, asked: bool) -> Next {
        match &self.phase {
            Phase::Over => Next::Nothing,
            Phase::Starting if asked => Next::Rest,
            Phase::Starting => Next::Unknown,
            // Its end was wanted while the service was asked to start it: nobody knows what to cancel.
            Phase::Cancelling { .. } if self.there.is_none() && asked => Next::Rest,
            Phase::Cancelling { .. } if self.there.is_none() => Next::Unknown,
            Phase::Cancelling { .. } => Next::Cancel,
            _ if self.paused.is_some() => Next::Rest,
            Phase::ToStart => Next::Start { not_before: None },
            Phase::ToStartAt(again) => Next::Start { not_before: Some(*again) },
            Phase::UnderWay => Next::Look,
        }
    }

    /// Counts the time from `now` on at the latest, so that a clock which was set back holds no limit up.
    pub(super) fn begins_by(&mut self, now: Timestamp) {
        self.clock.begin_by(now);
    }

    /// Returns when the run has been at work for so long, if it goes on without a pause; `None` while it stands.
    pub(super) fn at_work_for(&self, limit: Duration) -> Option<Timestamp> {
        self.clock.reaches(limit)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * 1_000_000)
    }

    fn folded(entries: &[Entry]) -> State {
        let mut state = State::default();
        entries.iter().for_each(|entry| state.apply(entry));
        state
    }

    fn started(seconds: i64) -> Entry {
        Entry::Started { at: at(seconds), correlation_id: "c".to_owned(), instance: "i".to_owned() }
    }

    fn gate(seconds: i64, gate: Option<Value>) -> Entry {
        Entry::Told { at: at(seconds), status: "RUNNING".to_owned(), gate }
    }

    fn cancelling(seconds: i64) -> Entry {
        Entry::Cancelling { at: at(seconds), reason: "so".to_owned(), late: false }
    }

    #[test]
    fn a_start_is_asked_for_once_and_what_nobody_answered_is_unknown() {
        let asked = [Entry::Starting { at: at(1) }];
        assert_eq!(folded(&[]).next(false), Next::Start { not_before: None });
        assert_eq!(folded(&asked).next(true), Next::Rest, "its answer may still come");
        assert_eq!(folded(&asked).next(false), Next::Unknown, "another daemon had asked");
        let refused = Entry::NotStarted { at: at(2), error: "429".to_owned(), again: at(9) };
        let again = folded(&[asked[0].clone(), refused]);
        assert_eq!((again.next(false), again.refusals), (Next::Start { not_before: Some(at(9)) }, 1));
        assert_eq!(folded(&[asked[0].clone(), started(2)]).next(false), Next::Look);
    }

    #[test]
    fn an_end_that_is_wanted_while_the_service_is_asked_comes_as_soon_as_it_can_be_named() {
        let early = [Entry::Starting { at: at(1) }, cancelling(2)];
        assert_eq!(folded(&early).next(true), Next::Rest);
        assert_eq!(folded(&early).next(false), Next::Unknown);
        let named = folded(&[early[0].clone(), early[1].clone(), started(3)]);
        assert_eq!(named.next(false), Next::Cancel);
    }

    #[test]
    fn pauses_and_waits_for_somebody_are_no_work() {
        let mut state = folded(&[Entry::Starting { at: at(1) }, started(10)]);
        assert_eq!(state.at_work_for(Duration::from_secs(60)), Some(at(70)));
        state.apply(&gate(20, Some(json!({"prompt": "ship?"}))));
        assert_eq!((state.at_work_for(Duration::from_secs(60)), state.run_state()), (None, RunState::Waiting));
        state.apply(&gate(500, None));
        assert_eq!(state.at_work_for(Duration::from_secs(60)), Some(at(550)));
        state.apply(&Entry::Paused { at: at(510), by: "me".to_owned(), above: false });
        assert_eq!((state.at_work_for(Duration::from_secs(60)), state.next(false)), (None, Next::Rest));
        state.apply(&Entry::Resumed { at: at(600), by: "me".to_owned() });
        assert_eq!((state.at_work_for(Duration::from_secs(60)), state.next(false)), (Some(at(640)), Next::Look));
    }

    #[test]
    fn a_paused_run_is_cancelled_all_the_same() {
        let paused = Entry::Paused { at: at(3), by: "me".to_owned(), above: false };
        let state = folded(&[Entry::Starting { at: at(1) }, started(2), paused, cancelling(4)]);
        assert_eq!(state.next(false), Next::Cancel);
    }
}
