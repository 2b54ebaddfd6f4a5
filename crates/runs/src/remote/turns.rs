//! An outer engine's view of a run of a remote workflow: this daemon drives the run; the engine follows it in turns.
//!
//! Each turn reports the status of the run, and the engine waits for one call that ends once the status changes.

use serde_json::Value;
use steplatch_workflow::{EngineAnswer, FunctionTurn, FunctionWork, FunctionWorkKind};
use tokio::sync::oneshot;

/// Status of a run for the engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ReportedStatus {
    /// Status in the service's own word.
    pub(super) status: String,
    /// True if the run waits at a gate of the service.
    pub(super) gate: bool,
    /// True if the run waits for a person.
    pub(super) waits: bool,
    /// Client that has paused the run, during a pause.
    pub(super) paused: Option<String>,
    /// True if the run has finished.
    pub(super) is_over: bool,
}

/// The turns of one run.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The last turn, with its reported status and its answer.
    last: Option<(u64, ReportedStatus, EngineAnswer)>,
    /// The engine's call that waits for a change.
    waiting: Option<oneshot::Sender<EngineAnswer>>,
}

impl Turns {
    /// Returns whether the inputs of a turn must be applied: the run has already applied the inputs of a repeated turn.
    pub(super) fn is_new(&self, turn: u64) -> bool {
        self.last.as_ref().is_none_or(|(last, ..)| turn > *last)
    }

    /// Answers a turn. `taken` is true for each input with an effect. A repeated turn has the same answer.
    pub(super) fn end(
        &mut self,
        turn: u64,
        taken: Vec<bool>,
        reported: ReportedStatus,
        reply: oneshot::Sender<EngineAnswer>,
    ) {
        if self.is_new(turn) {
            let follow = FunctionWork { id: turn.to_string(), kind: FunctionWorkKind::Call { number: turn } };
            let ReportedStatus { status, gate, waits, paused, .. } = reported.clone();
            let report = FunctionTurn {
                // Calls of earlier turns also end.
                whole: true,
                begun: vec![follow],
                taken,
                shown: status,
                gate,
                waits,
                paused,
                ..FunctionTurn::default()
            };
            self.last = Some((turn, reported, EngineAnswer::Advanced { turn: Box::new(report) }));
        }
        if let Some((_, _, answer)) = &self.last {
            // The engine may have disconnected; it repeats the request.
            let _ = reply.send(answer.clone());
        }
    }

    /// Makes a call wait until the status differs from the report of the turn with that number. A call of a turn that
    /// is not the last one, or that an earlier daemon reported, ends immediately.
    pub(super) fn follow(&mut self, number: u64, status: &ReportedStatus, reply: oneshot::Sender<EngineAnswer>) {
        let is_current = self.last.as_ref().is_some_and(|(turn, reported, _)| *turn == number && reported == status);
        self.waiting = Some(reply);
        if !is_current {
            self.answer();
        }
    }

    /// Ends the call that waits, if the status has changed.
    pub(super) fn record_status(&mut self, status: &ReportedStatus) {
        if self.last.as_ref().is_none_or(|(_, reported, _)| reported != status) {
            self.answer();
        }
    }

    fn answer(&mut self) {
        if let Some(reply) = self.waiting.take() {
            // The engine may have disconnected; it repeats the request.
            let _ = reply.send(EngineAnswer::Called { outcome: Value::Null });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(status: &str) -> ReportedStatus {
        ReportedStatus { status: status.to_owned(), ..ReportedStatus::default() }
    }

    fn turn(turns: &mut Turns, number: u64, status: ReportedStatus) -> FunctionTurn {
        let (reply, mut answer) = oneshot::channel();
        turns.end(number, Vec::new(), status, reply);
        match answer.try_recv().unwrap() {
            EngineAnswer::Advanced { turn } => *turn,
            other => panic!("{other:?}"),
        }
    }

    fn follow(turns: &mut Turns, number: u64, status: &ReportedStatus) -> oneshot::Receiver<EngineAnswer> {
        let (reply, answer) = oneshot::channel();
        turns.follow(number, status, reply);
        answer
    }

    #[test]
    fn call_ends_once_the_run_differs_from_the_reported_status() {
        let mut turns = Turns::default();
        assert_eq!(turn(&mut turns, 1, at("RUNNING")).shown, "RUNNING");
        let mut call = follow(&mut turns, 1, &at("RUNNING"));
        turns.record_status(&at("RUNNING"));
        assert!(call.try_recv().is_err());
        turns.record_status(&at("WAITING"));
        assert!(call.try_recv().is_ok());
        turn(&mut turns, 2, at("WAITING"));
        assert!(follow(&mut turns, 1, &at("WAITING")).try_recv().is_ok(), "a call of an earlier turn ends at once");
        assert!(follow(&mut turns, 2, &at("COMPLETED")).try_recv().is_ok(), "the run has continued in the meantime");
    }

    #[test]
    fn repeated_turn_is_identical_and_replaces_the_lost_call() {
        let mut turns = Turns::default();
        let first = turn(&mut turns, 1, at("RUNNING"));
        assert!(!turns.is_new(1) && turns.is_new(2));
        assert_eq!(turn(&mut turns, 1, at("WAITING")), first);
        drop(follow(&mut turns, 1, &at("RUNNING")));
        let mut repeated_call = follow(&mut turns, 1, &at("RUNNING"));
        turns.record_status(&at("WAITING"));
        assert!(repeated_call.try_recv().is_ok());
    }

    #[test]
    fn call_reported_by_an_earlier_daemon_ends_at_once() {
        assert!(follow(&mut Turns::default(), 4, &at("RUNNING")).try_recv().is_ok());
    }
}
