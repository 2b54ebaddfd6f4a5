//! An outer engine's work for a function: the calls, timers and nested runs that the engine schedules.
//!
//! Owns the list of this work and the part of the list that the engine has received. Pure: the driver of the run adds
//! and removes work, and reports the difference to the engine after each turn.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use serde_json::Value;
use steplatch_workflow::{EngineAnswer, FunctionTurn, FunctionWork, FunctionWorkKind};
use tokio::sync::oneshot;

use super::work::CallOutcome;

/// Maximum size of one call's outcome, in bytes of JSON. A Temporal payload has at most 2 MB. The outcome of a node
/// contains its output twice. The daemon shortens the output to 512 KiB, so the outcome fits unless JSON escapes most
/// of it.
pub(super) const MAX_OUTCOME_BYTES: usize = 1_900_000;

/// Maximum duration of a turn of a function that does not wait. The engine delivers new inputs before the next turn, so
/// that a pause also reaches such a function.
const MAX_TURN: Duration = Duration::from_millis(200);

/// Prefix of the name of the next-turn timer. The number of the current turn follows. When the timer ends, the engine
/// requests another turn.
const NEXT_PREFIX: &str = "next/";

/// Delay before the engine's request for the next turn of a function that does not wait.
const NEXT_TURN_DELAY: Duration = Duration::from_millis(1);

/// Work of the engine for one function.
#[derive(Debug, Default)]
pub(super) struct OuterWork {
    items: BTreeMap<String, FunctionWorkKind>,
    /// Outcomes of ended timers, by the names of the timers.
    timers: HashMap<String, (u64, CallOutcome)>,
    /// Calls in progress, and performed calls that still lack an answer, by number.
    calls: HashMap<u64, OuterCall>,
    /// The names of the work that the engine has received.
    reported: BTreeSet<String>,
    /// True if this daemon has reported anything.
    has_reported: bool,
    /// The turn that the engine waits for.
    turn: Option<PendingTurn>,
    /// The last turn, and its answer.
    last: Option<(u64, EngineAnswer)>,
}

/// A call that this daemon performs for the engine.
#[derive(Debug, Default)]
struct OuterCall {
    outcome: Option<Value>,
    reply: Option<oneshot::Sender<EngineAnswer>>,
}

/// A turn that has not ended yet.
#[derive(Debug)]
struct PendingTurn {
    number: u64,
    /// For each input of the turn, true if the input had an effect.
    taken: Vec<bool>,
    began: Instant,
    reply: oneshot::Sender<EngineAnswer>,
}

impl OuterWork {
    /// Adds work of the engine for a call.
    pub(super) fn add(&mut self, number: u64, kind: FunctionWorkKind) {
        self.items.insert(number.to_string(), kind);
    }

    /// Adds a timer of the engine. The timer ends with `outcome`, unless the call ends first. `part` distinguishes a
    /// call's timers.
    pub(super) fn add_timer(&mut self, number: u64, part: Option<String>, after: Duration, outcome: CallOutcome) {
        let id = part.map_or_else(|| number.to_string(), |part| format!("{number}/{part}"));
        self.items.insert(id.clone(), FunctionWorkKind::Timer { after });
        self.timers.insert(id, (number, outcome));
    }

    /// Removes a timer that has ended and returns its outcome; `None` if the run no longer waits for it.
    pub(super) fn take_timer(&mut self, id: &str) -> Option<(u64, CallOutcome)> {
        self.items.remove(id);
        self.timers.remove(id)
    }

    /// Removes all work of the engine for a call.
    pub(super) fn remove(&mut self, number: u64) {
        let (own, parts) = (number.to_string(), format!("{number}/"));
        self.items.retain(|id, _| *id != own && !id.starts_with(&parts));
        self.timers.retain(|id, _| *id != own && !id.starts_with(&parts));
        self.calls.remove(&number);
    }

    /// Removes all work.
    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.timers.clear();
        self.calls.clear();
    }

    /// Returns whether the engine currently requests to perform the call.
    pub(super) fn is_requested(&self, number: u64) -> bool {
        self.calls.contains_key(&number)
    }

    /// Registers a request of the engine to perform a call. Returns whether the caller must begin it.
    pub(super) fn request_call(&mut self, number: u64, reply: oneshot::Sender<EngineAnswer>) -> bool {
        if !matches!(self.items.get(&number.to_string()), Some(FunctionWorkKind::Call { .. })) {
            // The function no longer waits for the call, or the journal has its answer. The engine may have
            // disconnected.
            let _ = reply.send(EngineAnswer::Done);
            return false;
        }
        let is_new = !self.calls.contains_key(&number);
        let call = self.calls.entry(number).or_default();
        match &call.outcome {
            // The engine has lost the first reply or its connection, and repeats the request.
            Some(outcome) => _ = reply.send(EngineAnswer::Called { outcome: outcome.clone() }),
            None => call.reply = Some(reply),
        }
        is_new
    }

    /// Sends the outcome of a call to the engine. The engine returns the outcome as an input.
    pub(super) fn complete_call(&mut self, number: u64, result: CallOutcome) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        let outcome = result.passed();
        call.outcome = Some(outcome.clone());
        if let Some(reply) = call.reply.take() {
            let _ = reply.send(EngineAnswer::Called { outcome });
        }
    }

    /// Begins a turn. Returns whether the caller must apply the inputs of the turn. False for an earlier turn, because
    /// it already has an answer, and for the turn in progress.
    pub(super) fn begin_turn(&mut self, number: u64, reply: oneshot::Sender<EngineAnswer>, now: Instant) -> bool {
        if let Some((_, answer)) = self.last.as_ref().filter(|(last, _)| number <= *last) {
            let _ = reply.send(answer.clone());
            return false;
        }
        match &mut self.turn {
            Some(turn) if turn.number == number => {
                turn.reply = reply;
                false
            }
            turn => {
                *turn = Some(PendingTurn { number, taken: Vec::new(), began: now, reply });
                true
            }
        }
    }

    /// Records whether the next input of the turn had an effect.
    pub(super) fn record_taken(&mut self, taken: bool) {
        if let Some(turn) = &mut self.turn {
            turn.taken.push(taken);
        }
    }

    /// Returns whether the engine waits for a turn.
    pub(super) fn is_in_turn(&self) -> bool {
        self.turn.is_some()
    }

    /// Returns whether the current turn must end. A turn ends when the function waits, or after [`MAX_TURN`] if
    /// outcomes are always ready. `is_ready` is true if more outcomes are available.
    pub(super) fn is_turn_over(&self, is_ready: bool, now: Instant) -> bool {
        self.turn.as_ref().is_some_and(|turn| !is_ready || now.duration_since(turn.began) >= MAX_TURN)
    }

    /// Returns whether the function continues only in the next turn. The engine requests that turn on its own.
    pub(super) fn is_between_turns(&self) -> bool {
        self.turn.is_none() && self.items.keys().any(|id| id.starts_with(NEXT_PREFIX))
    }

    /// Ends the turn: answers the engine with the turn and the new work. If the function can continue without waiting
    /// (`is_ready`), the engine soon requests the next turn.
    pub(super) fn end_turn(&mut self, turn: FunctionTurn, is_ready: bool) {
        let Some(PendingTurn { number, taken, reply, .. }) = self.turn.take() else { return };
        self.items.retain(|id, _| !id.starts_with(NEXT_PREFIX));
        if is_ready {
            self.items.insert(format!("{NEXT_PREFIX}{number}"), FunctionWorkKind::Timer { after: NEXT_TURN_DELAY });
        }
        let begun = self.items.iter().filter(|(id, _)| !self.reported.contains(*id));
        let begun = begun.map(|(id, kind)| FunctionWork { id: id.clone(), kind: kind.clone() }).collect();
        let ended = self.reported.iter().filter(|id| !self.items.contains_key(*id)).cloned().collect();
        let is_first_report = !std::mem::replace(&mut self.has_reported, true);
        let answer = EngineAnswer::Advanced {
            turn: Box::new(FunctionTurn { whole: is_first_report, begun, ended, taken, ..turn }),
        };
        self.reported = self.items.keys().cloned().collect();
        self.last = Some((number, answer.clone()));
        // The engine may have disconnected; it repeats the request.
        let _ = reply.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use steplatch_workflow::FunctionWorkKind::Call;

    use super::*;

    fn turn(work: &mut OuterWork, number: u64) -> FunctionTurn {
        let (reply, mut answer) = oneshot::channel();
        if work.begin_turn(number, reply, Instant::now()) {
            work.end_turn(FunctionTurn::default(), false);
        }
        match answer.try_recv().unwrap() {
            EngineAnswer::Advanced { turn } => *turn,
            other => panic!("{other:?}"),
        }
    }

    fn names(begun: &[FunctionWork]) -> Vec<&str> {
        begun.iter().map(|work| work.id.as_str()).collect()
    }

    #[test]
    fn turn_reports_changes_once_and_repeats_identically() {
        let mut work = OuterWork::default();
        work.add(1, Call { number: 1 });
        work.add_timer(2, None, Duration::from_secs(1), CallOutcome::value(Value::Null));
        let first = turn(&mut work, 1);
        assert!(first.whole);
        assert_eq!((names(&first.begun), &first.ended[..]), (vec!["1", "2"], &[][..]));
        work.remove(1);
        work.add(3, Call { number: 3 });
        assert_eq!(turn(&mut work, 1), first, "a repeated turn has the same answer");
        let second = turn(&mut work, 2);
        assert_eq!((names(&second.begun), &second.ended[..]), (vec!["3"], &["1".to_owned()][..]));
        assert!(!second.whole && turn(&mut work, 3) == FunctionTurn::default());
    }

    #[test]
    fn turn_of_a_busy_function_ends_and_the_engine_continues() {
        let mut work = OuterWork::default();
        for number in 1..=2 {
            let (now, (reply, mut answer)) = (Instant::now(), oneshot::channel());
            assert!(
                work.begin_turn(number, reply, now) && !work.is_turn_over(true, now) && work.is_turn_over(false, now)
            );
            assert!(work.is_turn_over(true, now + MAX_TURN) && !work.is_between_turns());
            work.end_turn(FunctionTurn::default(), true);
            assert!(work.is_between_turns());
            let EngineAnswer::Advanced { turn } = answer.try_recv().unwrap() else { panic!("no turn") };
            assert_eq!(names(&turn.begun), [format!("next/{number}")]);
            assert!(work.take_timer(&format!("next/{number}")).is_none(), "the timer of a turn produces no event");
        }
        assert_eq!(turn(&mut work, 3).begun, [], "a waiting function requests no turn");
        assert!(!work.is_between_turns());
    }

    #[test]
    fn call_begins_once_and_keeps_its_outcome_until_answered() {
        let mut work = OuterWork::default();
        work.add(1, Call { number: 1 });
        let ask = |work: &mut OuterWork| {
            let (reply, answer) = oneshot::channel();
            (work.request_call(1, reply), answer)
        };
        let (is_new, lost) = ask(&mut work);
        assert!(is_new);
        drop(lost);
        let (is_new, mut second) = ask(&mut work);
        assert!(!is_new && second.try_recv().is_err());
        work.complete_call(1, CallOutcome::value(7));
        let outcome = second.try_recv().unwrap();
        assert!(matches!(outcome, EngineAnswer::Called { .. }));
        let (is_new, mut third) = ask(&mut work);
        assert_eq!((is_new, third.try_recv().unwrap()), (false, outcome));
        work.remove(1);
        assert_eq!(ask(&mut work).1.try_recv().unwrap(), EngineAnswer::Done);
    }

    #[test]
    fn call_ends_only_its_own_timers() {
        let mut work = OuterWork::default();
        let second = Duration::from_secs(1);
        work.add_timer(1, Some("step/7".to_owned()), second, CallOutcome::Begin);
        work.add_timer(12, None, second, CallOutcome::Begin);
        work.remove(1);
        assert_eq!(names(&turn(&mut work, 1).begun), ["12"]);
        assert!(work.take_timer("1/step/7").is_none() && work.take_timer("12").is_some());
    }

    #[test]
    fn too_large_outcome_is_passed_as_its_size() {
        let large = CallOutcome::value("x".repeat(MAX_OUTCOME_BYTES + 1)).passed();
        let read: CallOutcome = serde_json::from_value(large).unwrap();
        assert!(matches!(read, CallOutcome::TooLarge { bytes } if bytes > MAX_OUTCOME_BYTES));
        let node = CallOutcome::TimedOut("late".to_owned());
        assert!(
            matches!(serde_json::from_value(node.passed()).unwrap(), CallOutcome::TimedOut(text) if text == "late")
        );
    }
}
