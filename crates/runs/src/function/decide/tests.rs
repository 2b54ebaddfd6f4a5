use serde_json::{Map, json};

use super::*;
use crate::time_span::TimeSpan;

const AT: Timestamp = Timestamp(9_000_000);

fn run() -> RunId {
    "run_0000000000000000".parse().unwrap_or_else(|error| panic!("{error}"))
}

fn kind(call: Value) -> CallKind {
    serde_json::from_value(call).unwrap_or_else(|error| panic!("{error}"))
}

fn sleep() -> CallKind {
    CallKind::Sleep { seconds: 1.0 }
}

fn gate() -> CallKind {
    kind(json!({"call": "gate", "prompt": "Go on?", "timeout": 60.0, "choices": ["yes", "no"], "form": null,
                "answered_by": null, "context": null}))
}

fn child() -> CallKind {
    kind(json!({"call": "run_workflow", "workflow": "inner", "input": null, "params": {}, "timeout": null}))
}

fn node() -> CallKind {
    CallKind::Run { node: "a".to_owned(), input: Value::Null, timeout: Some(5.0), kwargs: Map::new() }
}

fn call_of(ordinal: u64, kind: CallKind) -> Call {
    Call { ordinal, within: None, kind }
}

/// A call of the root function with the same number in the run and in the function.
fn called(number: u64, kind: CallKind) -> Entry {
    Entry::Called { at: AT, number, frame: ROOT, within: None, call: call_of(number, kind) }
}

fn nested_call(number: u64, outer: u64, kind: CallKind) -> Entry {
    let call = Call { ordinal: number, within: Some(outer), kind };
    Entry::Called { at: AT, number, frame: ROOT, within: Some(outer), call }
}

fn paused(above: bool) -> Entry {
    Entry::Paused { at: AT, by: "you".to_owned(), above }
}

fn cancelling() -> Entry {
    Entry::Cancelling { at: AT, reason: "enough".to_owned() }
}

fn state(entries: impl IntoIterator<Item = Entry>) -> FunctionState {
    let mut state = FunctionState::default();
    entries.into_iter().for_each(|entry| state.apply(&entry));
    state
}

fn waiting(calls: Vec<Call>, abandoned: Vec<u64>, waits: Vec<u64>) -> Result<Progress, RaisedError> {
    Ok(Progress { calls, abandoned, state: State::Waiting(waits) })
}

fn failure(kind: FailureKind, message: &str) -> Failure {
    Failure { kind, exception: "ValueError".to_owned(), message: message.to_owned(), frames: Vec::new() }
}

/// The numbers of the calls that entries abandon.
fn abandoned(entries: &[Entry]) -> Vec<u64> {
    let number = |entry: &Entry| match entry {
        Entry::Abandoned { number, .. } => Some(*number),
        _ => None,
    };
    entries.iter().filter_map(number).collect()
}

#[test]
fn new_calls_continue_the_numbering_of_the_run() {
    let state = state([called(1, sleep()), called(2, node())]);
    let advance = state.advance(
        &run(),
        (ROOT, AT),
        &[],
        waiting(vec![call_of(3, sleep()), call_of(4, gate())], vec![], vec![3]),
        false,
    );
    let numbers: Vec<u64> = advance.calls.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [3, 4]);
    let entries = [called(3, sleep()), called(4, gate())];
    assert_eq!((advance.entries.as_slice(), advance.ended), (entries.as_slice(), None));
}

#[test]
fn call_names_its_enclosing_call_by_number() {
    // The function's first call is the second call of the run.
    let mut state = state([]);
    state.apply(&Entry::Called { at: AT, number: 2, frame: ROOT, within: None, call: call_of(1, node()) });
    let inner = |outer| Call { ordinal: 2, within: Some(outer), kind: sleep() };
    let outer_of = |outer| {
        let advance = state.advance(&run(), (ROOT, AT), &[], waiting(vec![inner(outer)], vec![], vec![]), false);
        match &advance.entries[..] {
            [Entry::Called { number: 3, within, .. }] => *within,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(outer_of(1), Some(2));
    assert_eq!(outer_of(7), Some(ROOT), "the enclosing call has already closed");
}

#[test]
fn dropping_a_call_drops_its_descendants() {
    let state = state([called(1, node()), nested_call(2, 1, sleep()), nested_call(3, 2, sleep()), called(4, sleep())]);
    let advance = state.advance(&run(), (ROOT, AT), &[], waiting(vec![], vec![1], vec![4]), false);
    assert_eq!(advance.dropped, [2, 3, 1]);
    assert_eq!(abandoned(&advance.entries), [2, 3, 1], "the innermost calls are recorded first");
    assert_eq!(advance.closed, [1]);
}

#[test]
fn immediately_dropped_call_is_closed_after_recording() {
    let state = state([]);
    let advance = state.advance(&run(), (ROOT, AT), &[], waiting(vec![call_of(1, sleep())], vec![1], vec![]), false);
    assert!(advance.dropped.is_empty() && abandoned(&advance.entries).is_empty());
    assert_eq!((advance.closed, advance.calls.len()), (vec![1], 1));
}

#[test]
fn unawaited_call_is_dropped_only_after_a_replay() {
    let state = state([called(1, sleep()), called(2, sleep())]);
    let advance = |is_replayed| state.advance(&run(), (ROOT, AT), &[], waiting(vec![], vec![], vec![2]), is_replayed);
    assert_eq!(advance(true).dropped, [1]);
    assert!(advance(false).dropped.is_empty());
}

#[test]
fn call_answered_after_a_replay_is_not_abandoned() {
    let state = state([called(1, gate()), called(2, sleep())]);
    let entries = [answered(1, 7)];
    let advance = state.advance(&run(), (ROOT, AT), &entries, waiting(vec![], vec![], vec![2]), true);
    assert!(advance.dropped.is_empty() && advance.entries.is_empty(), "{advance:?}");
    let advance = state.advance(&run(), (ROOT, AT), &entries, waiting(vec![], vec![], vec![]), true);
    assert_eq!(advance.dropped, [2]);
}

#[test]
fn function_ends_with_its_result_or_exception() {
    let end_after = |end| {
        let progress = Progress { calls: vec![], abandoned: vec![], state: end };
        state([]).advance(&run(), (ROOT, AT), &[], Ok(progress), false).ended
    };
    assert_eq!(end_after(State::Completed(json!(7))), Some(Ok(json!(7))));
    let Some(Err(raised)) = end_after(State::Failed(failure(FailureKind::Raised, "no"))) else {
        panic!("the function raised no exception")
    };
    assert_eq!(raised.error, "no");
    let Some(Err(unnamed)) = end_after(State::Failed(failure(FailureKind::Raised, ""))) else {
        panic!("the function raised no exception")
    };
    assert_eq!(unnamed.error, "ValueError", "an exception without a message shows its name");
    let broken = RaisedError { error: "the worker ended".to_owned(), traceback: None };
    let advance = state([called(1, sleep())]).advance(&run(), (ROOT, AT), &[], Err(broken.clone()), true);
    assert_eq!((advance.ended, advance.entries.len()), (Some(Err(broken)), 0));
}

#[test]
fn end_of_the_root_cancels_its_open_gates_once() {
    let state = state([called(1, gate()), called(2, gate()), called(3, sleep())]);
    let closing = [Entry::Abandoned { at: AT, number: 1, label: crate::function::entry::CallLabel::Gate }];
    let entries = state.root_end_entries(&run(), AT, &closing, Ok(json!("done")));
    assert_eq!(abandoned(&entries), [2]);
    assert_eq!(entries.last(), Some(&Entry::Completed { at: AT, result: json!("done") }));
    let failed = RaisedError { error: "no".to_owned(), traceback: Some("Traceback".to_owned()) };
    let entries = state.root_end_entries(&run(), AT, &closing, Err(failed));
    assert!(matches!(entries.last(), Some(Entry::Failed { traceback: Some(_), .. })));
}

#[test]
fn answer_abandons_descendant_calls() {
    let state = state([called(1, node()), nested_call(2, 1, gate()), nested_call(3, 2, sleep())]);
    let below = state.abandon_below(&run(), 1, AT);
    assert_eq!((below.calls, abandoned(&below.entries)), (vec![2, 3], vec![2, 3]));
    let nothing = state.abandon(&run(), 8, AT);
    assert_eq!((nothing.calls, nothing.entries.len()), (vec![8], 0), "a closed call has no entry");
}

#[test]
fn answer_names_its_limit_only_if_exceeded() {
    let state = state([called(1, node())]);
    let open = state.open.get(1).unwrap_or_else(|| panic!("the call is open"));
    let limit = |is_timeout| match open.answered(&run(), (AT, 1), Answer::Value(Value::Null), None, is_timeout) {
        Entry::Answered { timeout, number: 1, .. } => timeout,
        other => panic!("{other:?}"),
    };
    assert_eq!((limit(true), limit(false)), (Some(TimeSpan::from_seconds(5.0)), None));
}

#[test]
fn waiting_child_is_recorded_once_while_its_call_is_open() {
    let mut state = state([called(1, child())]);
    assert_eq!(state.child_wait_entry(AT, 1, false), None);
    let waiting = Entry::ChildWaits { at: AT, number: 1 };
    assert_eq!(state.child_wait_entry(AT, 1, true), Some(waiting.clone()));
    state.apply(&waiting);
    assert_eq!(state.child_wait_entry(AT, 1, true), None);
    assert_eq!(state.child_wait_entry(AT, 1, false), Some(Entry::ChildContinues { at: AT, number: 1 }));
    assert_eq!(state.child_wait_entry(AT, 2, true), None, "the call has closed");
}

#[test]
fn cancel_is_raised_only_in_a_waiting_function() {
    let usual = CancelSituation { was_received_here: false, is_abandoned: false, is_function: true };
    let waiting = state([called(1, sleep())]);
    assert_eq!(waiting.cancelled(usual), CancelDecision::Raise);
    assert_eq!(waiting.cancelled(CancelSituation { is_function: false, ..usual }), CancelDecision::EndNow);
    assert_eq!(waiting.cancelled(CancelSituation { is_abandoned: true, ..usual }), CancelDecision::EndNow);
    assert_eq!(state([]).cancelled(usual), CancelDecision::EndNow, "a computing function is not interrupted");
    assert_eq!(state([paused(false)]).cancelled(usual), CancelDecision::Raise, "a paused function waits to be resumed");
}

#[test]
fn second_cancel_ends_the_run_but_a_repetition_does_not() {
    let state = state([called(1, sleep()), cancelling()]);
    let situation = |was_received_here| CancelSituation { was_received_here, is_abandoned: false, is_function: true };
    assert_eq!(state.cancelled(situation(true)), CancelDecision::EndNow);
    assert_eq!(
        state.cancelled(situation(false)),
        CancelDecision::Ignore,
        "the last daemon already recorded the cancel"
    );
}

#[test]
fn cancelled_run_always_ends_cancelled() {
    let state = state([called(1, sleep()), cancelling()]);
    let reason = |end: Entry, raised| match state.with_cancelled_end(vec![end], raised).pop() {
        Some(Entry::Cancelled { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    let failed = || Entry::Failed { at: AT, error: "no".to_owned(), traceback: None, result: None };
    assert_eq!(reason(Entry::Completed { at: AT, result: Value::Null }, None), "enough");
    assert_eq!(reason(failed(), None), "enough", "a time limit is not a failure of the function");
    assert_eq!(reason(failed(), Some(FailureKind::Cancelled)), "enough");
    let reported = reason(failed(), Some(FailureKind::Raised));
    assert_eq!(reported, "enough; its function failed during the cancellation: no");
}

#[test]
fn function_raising_the_cancel_itself_ends_cancelled() {
    let failed = Entry::Failed { at: AT, error: "no".to_owned(), traceback: None, result: None };
    let ends = |raised| self::state([]).with_cancelled_end(vec![failed.clone()], raised);
    assert!(
        matches!(&ends(Some(FailureKind::Cancelled))[..], [Entry::Cancelled { reason, .. }] if reason.contains("raised"))
    );
    assert_eq!(ends(Some(FailureKind::Raised)), std::slice::from_ref(&failed));
    assert_eq!(ends(None), [failed]);
}

#[test]
fn redundant_pause_and_resume_have_no_effect() {
    let pause = |above| Input::Pause { by: "you".to_owned(), above };
    let resume = |above| Input::Resume { by: "you".to_owned(), above };
    let has_effect = |entries: Vec<Entry>, input| state(entries).event_for_input(&run(), input).is_some();
    assert!(has_effect(vec![], pause(false)));
    assert!(!has_effect(vec![paused(false)], pause(false)));
    assert!(!has_effect(vec![cancelling()], pause(false)), "a cancelled run is not paused");
    assert!(has_effect(vec![paused(false)], resume(false)));
    assert!(!has_effect(vec![], resume(false)));
    assert!(!has_effect(vec![paused(false)], resume(true)), "a directly paused run does not resume with its parent");
    assert!(has_effect(vec![paused(true)], resume(true)));
}

#[test]
fn only_an_open_gate_of_this_run_accepts_an_answer() {
    let state = state([called(1, gate()), called(2, sleep())]);
    let gate_of = |run: &RunId, number| step(run, number).unwrap_or_else(|| panic!("the number is small"));
    let answer = |step| Input::GateAnswered { step, choice: "yes".to_owned(), by: By::default() };
    let event = state.event_for_input(&run(), answer(gate_of(&run(), 1)));
    let Some(FunctionEvent::Outcome { number: 1, outcome: CallOutcome::Answer(Answer::Value(value)), by: Some(_) }) =
        event
    else {
        panic!("no answer")
    };
    assert_eq!(value, "yes");
    assert!(state.event_for_input(&run(), answer(gate_of(&run(), 2))).is_none(), "the call is no gate");
    assert!(state.event_for_input(&run(), answer(gate_of(&run(), 3))).is_none(), "the gate is not open");
    assert!(
        state.event_for_input(&run(), answer(gate_of(&RunId::random(), 1))).is_none(),
        "the gate belongs to another run"
    );
}

#[test]
fn function_receives_no_machine_inputs() {
    let step = step(&run(), 1).unwrap_or_else(|| panic!("the number is small"));
    let screen = Input::ScreenRead { step, session_id: "t".to_owned(), screen: None };
    assert!(state([called(1, gate())]).event_for_input(&run(), screen).is_none());
}

fn answered(number: u64, value: u64) -> Entry {
    let label = crate::function::entry::CallLabel::Other;
    Entry::Answered { at: AT, number, answer: Answer::Value(value.into()), by: None, label, timeout: None }
}

#[test]
fn function_history_has_its_calls_and_received_answers() {
    let nested_call = Entry::Called { at: AT, number: 3, frame: 2, within: None, call: call_of(1, sleep()) };
    let entries = [called(1, sleep()), called(2, node()), nested_call.clone(), answered(3, 30), answered(1, 10)];
    let FunctionSteps { steps, deferred: held } =
        FunctionSteps::from_entries(ROOT, entries.clone(), Some(Step::Cancelled));
    let own_steps = [
        Step::Called(call_of(1, sleep())),
        Step::Called(call_of(2, node())),
        Step::Answered { ordinal: 1, answer: Answer::Value(10.into()) },
        Step::Cancelled,
    ];
    assert_eq!((steps.as_slice(), held.len()), (own_steps.as_slice(), 0));
    let other_steps = FunctionSteps::from_entries(2, entries, None).steps;
    assert_eq!(
        other_steps,
        [Step::Called(call_of(1, sleep())), Step::Answered { ordinal: 1, answer: Answer::Value(30.into()) }]
    );
}

#[test]
fn answers_during_a_pause_are_held_until_delivered() {
    let resumed = Entry::Resumed { at: AT, by: "you".to_owned() };
    let delivered = |number| Entry::AnswerDelivered { at: AT, number };
    let calls = || vec![called(1, sleep()), called(2, sleep()), paused(false), answered(2, 20), answered(1, 10)];
    let steps_after = |more: Vec<Entry>| FunctionSteps::from_entries(ROOT, [calls(), more].concat(), None);
    let held_ordinals = |steps: &FunctionSteps| steps.deferred.iter().map(|held| held.ordinal).collect::<Vec<_>>();
    assert_eq!(held_ordinals(&steps_after(vec![])), [2, 1], "answers are held in the order of arrival");
    assert_eq!(
        held_ordinals(&steps_after(vec![resumed.clone()])),
        [2, 1],
        "the daemon may have stopped before delivering them"
    );
    let half = steps_after(vec![resumed.clone(), delivered(2)]);
    assert_eq!(held_ordinals(&half), [1]);
    assert_eq!(half.steps.last(), Some(&Step::Answered { ordinal: 2, answer: Answer::Value(20.into()) }));
    let interrupted = steps_after(vec![Entry::Interrupted { at: AT }]);
    assert_eq!((held_ordinals(&interrupted), interrupted.steps.last()), (vec![], Some(&Step::Cancelled)));
}
