//! One execution of a function: it makes calls, receives answers, and ends.
//!
//! The file, the initial values and the answers in their order determine everything that an execution does. So its
//! state needs no storage: [`Execution::replay`] restores it from its history. An execution takes one answer at a time,
//! and runs after each answer until it stops, so that only the order of answers matters.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};
use steplatch_python_api::{
    Answer, CANCELLED, Call, CallKind, Divergence, Entry, Failure, FailureKind, Limits, Progress, REPLAY_TIME_FACTOR,
    Start, State,
};

use crate::interpreter::{Arrival, Paused, RequestError, Resume, Step, Stop};
use crate::program::Program;
use crate::value::text_bytes;

/// An execution. Dropping this value ends the execution early.
pub struct Execution {
    phase: ExecutionPhase,
    /// The number of the last call.
    last_ordinal: u64,
    max_calls: u64,
    /// Bytes of calls and output since the last answer, and their limit.
    sent_bytes: usize,
    max_sent_bytes: usize,
    /// Calls without an answer, with the program's numbers for awaiting them.
    open_calls: BTreeMap<u64, u32>,
    /// Open calls that the execution answers itself by executing a function, until the function has ended.
    inlined: BTreeSet<u64>,
    /// The inputs that arrived during a blocking call of the program.
    early_inputs: VecDeque<(u64, EarlyInput)>,
    /// True if a cancellation takes effect once all tasks wait.
    is_cancelling: bool,
    /// Calls that the cancellation interrupted, for the next progress.
    cancelled_calls: Vec<u64>,
    /// The program's number for awaiting the end of all other waits: its function has ended, and gathered functions may
    /// still be cleaning up.
    cleanup_number: Option<u32>,
    /// Maximum number of awaited numbers that belong neither to open calls nor to `cleanup_number`.
    stray_count: usize,
    /// True if [`Progress`] lists the awaited calls.
    lists_waits: bool,
    state: State,
}

/// An input for a call.
enum EarlyInput {
    Answer(Answer),
    /// The execution executes the function node itself.
    Inline,
}

enum ExecutionPhase {
    /// At a call that blocks the program.
    Stopped {
        ordinal: u64,
        paused: Box<dyn Paused>,
    },
    /// All tasks wait.
    Waiting {
        numbers: Vec<u32>,
        paused: Box<dyn Paused>,
    },
    Ended,
}

impl Execution {
    /// Begins an execution.
    #[must_use]
    pub fn begin(program: &Program, start: &Start, limits: &Limits) -> (Self, Progress) {
        Self::begin_as(program, start, limits, false)
    }

    /// Begins an execution. `is_cancelled` is true if the history cancels the execution: its end then awaits gathered
    /// functions.
    fn begin_as(program: &Program, start: &Start, limits: &Limits, is_cancelled: bool) -> (Self, Progress) {
        let mut execution = Self {
            phase: ExecutionPhase::Ended,
            last_ordinal: 0,
            max_calls: limits.calls,
            sent_bytes: 0,
            max_sent_bytes: limits.sent_bytes,
            open_calls: BTreeMap::new(),
            inlined: BTreeSet::new(),
            early_inputs: VecDeque::new(),
            is_cancelling: false,
            cancelled_calls: Vec::new(),
            cleanup_number: None,
            stray_count: 0,
            lists_waits: true,
            state: State::Waiting(Vec::new()),
        };
        let mut calls = Vec::new();
        if program.entry(&start.id).is_some() {
            let Start { id, input, params, at } = start;
            let initial_value =
                json!({ "id": id, "input": input, "params": params, "at": at, "cancelled": is_cancelled });
            let step = program.compiled().start(&initial_value, limits);
            execution.run(step, &mut calls);
        } else {
            let message = format!("the file declares no workflow or function node '{}'", start.id);
            execution.end(State::Failed(Failure::new(FailureKind::Unknown, "LookupError", message)));
        }
        let progress = execution.progress(calls);
        (execution, progress)
    }

    /// Answers a call. Does nothing if the call has an answer already, was abandoned or never existed.
    pub fn answer(&mut self, ordinal: u64, answer: Answer) -> Progress {
        self.supply_input(ordinal, EarlyInput::Answer(answer))
    }

    /// Leaves a `run` call to the execution: it executes the function node as a part of itself, with the same module
    /// variables. The execution's file declares the node. Calls of the function name this call as [`Call::within`], and
    /// [`CallKind::Ended`] reports its end. The call stays open until the caller answers it after that report; an
    /// earlier answer abandons the function.
    pub fn inline(&mut self, ordinal: u64) -> Progress {
        self.supply_input(ordinal, EarlyInput::Inline)
    }

    fn supply_input(&mut self, ordinal: u64, input: EarlyInput) -> Progress {
        let mut calls = Vec::new();
        if self.open_calls.contains_key(&ordinal) && !self.early_inputs.iter().any(|(early, _)| *early == ordinal) {
            match (std::mem::replace(&mut self.phase, ExecutionPhase::Ended), input) {
                (ExecutionPhase::Stopped { ordinal: stopped, paused }, EarlyInput::Answer(answer))
                    if stopped == ordinal =>
                {
                    self.open_calls.remove(&ordinal);
                    let step = paused.resume(match &answer {
                        Answer::Value(value) => Resume::Return(value),
                        Answer::Raise { exception, message } => Resume::Raise { exception, message },
                    });
                    self.run(step, &mut calls);
                }
                (phase @ ExecutionPhase::Stopped { .. }, input) => {
                    self.early_inputs.push_back((ordinal, input));
                    self.phase = phase;
                }
                (ExecutionPhase::Waiting { numbers, paused }, input) => {
                    self.early_inputs.push_back((ordinal, input));
                    let step = Step { printed: String::new(), stop: Stop::Waiting { numbers, paused } };
                    self.run(step, &mut calls);
                }
                (ExecutionPhase::Ended, _) => {}
            }
        }
        self.progress(calls)
    }

    /// Raises `asyncio.CancelledError` in all waits at once. Functions that the execution executes as answers to calls
    /// receive the exception where they wait, and their callers receive it after them. A blocking call defers the
    /// cancellation to the next wait.
    fn cancel(&mut self) -> Progress {
        let mut calls = Vec::new();
        self.is_cancelling = true;
        match std::mem::replace(&mut self.phase, ExecutionPhase::Ended) {
            ExecutionPhase::Waiting { numbers, paused } => {
                let step = Step { printed: String::new(), stop: Stop::Waiting { numbers, paused } };
                self.run(step, &mut calls);
            }
            phase => self.phase = phase,
        }
        self.progress(calls)
    }

    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Compresses the execution for a long wait. Takes about 100 µs. Nothing else changes.
    pub fn park(&mut self) {
        self.phase = match std::mem::replace(&mut self.phase, ExecutionPhase::Ended) {
            ExecutionPhase::Stopped { ordinal, paused } => ExecutionPhase::Stopped { ordinal, paused: paused.park() },
            ExecutionPhase::Waiting { numbers, paused } => ExecutionPhase::Waiting { numbers, paused: paused.park() },
            ExecutionPhase::Ended => ExecutionPhase::Ended,
        };
    }

    /// Restores an execution from its history. The progress has the calls after the last record of the history. A call
    /// is abandoned if the history has no answer to it and the function no longer waits for it. Calls `before_entry`
    /// before each entry. A history with [`Entry::Cancelled`] at the end also cancels the execution.
    ///
    /// # Errors
    /// If the function differs from its history.
    pub fn replay(
        program: &Program,
        start: &Start,
        limits: &Limits,
        history: Vec<Entry>,
        mut before_entry: impl FnMut(),
    ) -> Result<(Self, Progress), Box<Divergence>> {
        if history.is_empty() {
            return Ok(Self::begin(program, start, limits));
        }
        let is_cancelled = history.contains(&Entry::Cancelled);
        let replay_limits = Limits { time: limits.time * REPLAY_TIME_FACTOR, ..limits.clone() };
        let (mut execution, progress) = Self::begin_as(program, start, &replay_limits, is_cancelled);
        let mut new_calls: VecDeque<Call> = progress.calls.into();
        for entry in history {
            before_entry();
            match entry {
                Entry::Called(recorded) => match new_calls.pop_front() {
                    Some(call) if call == recorded => {}
                    call => return Err(Divergence::boxed(Some(recorded), call, &execution.state)),
                },
                Entry::Answered { .. } | Entry::Inlined { .. } | Entry::Cancelled if !new_calls.is_empty() => {
                    return Err(Divergence::boxed(None, new_calls.pop_front(), &execution.state));
                }
                Entry::Answered { ordinal, answer } => new_calls.extend(execution.answer(ordinal, answer).calls),
                Entry::Inlined { ordinal } => new_calls.extend(execution.inline(ordinal).calls),
                Entry::Cancelled => new_calls.extend(execution.cancel().calls),
            }
        }
        match &mut execution.phase {
            ExecutionPhase::Stopped { paused, .. } | ExecutionPhase::Waiting { paused, .. } => {
                paused.set_time_limit(limits.time);
            }
            ExecutionPhase::Ended => {}
        }
        let progress = Progress { calls: new_calls.into(), abandoned: Vec::new(), state: execution.state.clone() };
        Ok((execution, progress))
    }

    /// Runs until the program needs answers.
    fn run(&mut self, mut step: Step, calls: &mut Vec<Call>) {
        self.sent_bytes = 0;
        loop {
            let Step { printed, stop } = step;
            let text = printed.strip_suffix('\n').unwrap_or(&printed);
            self.sent_bytes += printed.len();
            if let Stop::Called { arguments: Ok(arguments), .. } = &stop {
                self.sent_bytes += text_bytes(arguments);
            }
            if !printed.is_empty() {
                calls.push(self.make_call(None, CallKind::Log { text: text.to_owned() }));
            }
            step = match stop {
                Stop::Called { paused, .. } if self.last_ordinal >= self.max_calls => {
                    let limit = self.max_calls;
                    paused.resume(Resume::Abort(&format!("{TOO_MANY_CALLS} of {limit} calls")))
                }
                Stop::Called { paused, .. } if self.sent_bytes > self.max_sent_bytes => {
                    let limit = self.max_sent_bytes >> 10;
                    paused.resume(Resume::Abort(&format!("{TOO_MANY_BYTES} of {limit} KiB")))
                }
                Stop::Called { number, arguments, paused } => match arguments.and_then(parse_request) {
                    Err(error) => paused.resume(Resume::Raise { exception: "TypeError", message: &error.to_string() }),
                    // The program waits for the answer to a call that it executes itself.
                    Ok(Request::Inline { of }) => {
                        if self.inlined.contains(&of) {
                            self.open_calls.insert(of, number);
                        } else {
                            self.stray_count += 1;
                        }
                        paused.resume(Resume::Later)
                    }
                    Ok(Request::Rest) => {
                        self.cleanup_number = Some(number);
                        paused.resume(Resume::Later)
                    }
                    Ok(Request::Call { within, kind }) => {
                        let (wants_answer, stops) = (kind.wants_answer(), kind.stops());
                        if let CallKind::Ended { of, .. } = &*kind {
                            self.inlined.remove(of);
                        }
                        let call = self.make_call(within, *kind);
                        let ordinal = call.ordinal;
                        calls.push(call);
                        if wants_answer {
                            self.open_calls.insert(ordinal, number);
                        }
                        if stops {
                            self.phase = ExecutionPhase::Stopped { ordinal, paused };
                            return;
                        }
                        paused.resume(if wants_answer { Resume::Later } else { Resume::Return(&Value::Null) })
                    }
                },
                Stop::Waiting { numbers, paused } if self.is_cancelling => {
                    let raising = self.take_interrupted(&numbers);
                    paused.resume(Resume::AllRaise(&raising, (CANCELLED, "the run was cancelled")))
                }
                Stop::Waiting { numbers, paused } => match self.take_early_input(&numbers) {
                    Some((ordinal, number, input)) => paused.resume(Resume::Arrived(
                        number,
                        match &input {
                            EarlyInput::Answer(Answer::Value(value)) => Arrival::Value(value),
                            EarlyInput::Answer(Answer::Raise { exception, message }) => {
                                Arrival::Raise(exception, message)
                            }
                            EarlyInput::Inline => {
                                self.inlined.insert(ordinal);
                                Arrival::Inline(ordinal)
                            }
                        },
                    )),
                    None if !self.waits_for_others(&numbers) => {
                        if let Some(number) = self.cleanup_number.take() {
                            step = paused.resume(Resume::Arrived(number, Arrival::Value(&Value::Null)));
                            continue;
                        }
                        let message = "the function waits, but none of its calls is open";
                        self.end(State::Failed(Failure::new(FailureKind::Stuck, "RuntimeError", message)));
                        return;
                    }
                    None => {
                        self.phase = ExecutionPhase::Waiting { numbers, paused };
                        return;
                    }
                },
                Stop::Returned(Ok(result)) if text_bytes(&result) > self.max_sent_bytes => {
                    let limit = self.max_sent_bytes >> 10;
                    let message = format!("the result is larger than its limit of {limit} KiB");
                    return self.end(State::Failed(Failure::new(FailureKind::SentBytes, "ValueError", message)));
                }
                Stop::Returned(Ok(result)) => return self.end(State::Completed(result)),
                Stop::Returned(Err(error)) => {
                    let message = format!("the result is not JSON: {error}");
                    let failure = Failure::new(FailureKind::NotJson, "TypeError", message);
                    return self.end(State::Failed(failure));
                }
                Stop::Failed(mut failure) => {
                    if failure.kind == FailureKind::Raised && failure.message.starts_with(TOO_MANY_CALLS) {
                        failure.kind = FailureKind::Calls;
                    } else if failure.kind == FailureKind::Raised && failure.message.starts_with(TOO_MANY_BYTES) {
                        failure.kind = FailureKind::SentBytes;
                    }
                    if failure.frames.is_empty() {
                        // The interpreter does not report where it stopped; this is the best approximation.
                        let position = match self.last_ordinal {
                            0 => "before its first call".to_owned(),
                            last_ordinal => format!("after call {last_ordinal}"),
                        };
                        failure.message = format!("{} ({position})", failure.message);
                    }
                    return self.end(State::Failed(failure));
                }
            };
        }
    }

    /// Takes the first early input that the program still awaits.
    fn take_early_input(&mut self, numbers: &[u32]) -> Option<(u64, u32, EarlyInput)> {
        while let Some((ordinal, input)) = self.early_inputs.pop_front() {
            self.inlined.remove(&ordinal);
            if let Some(number) = self.open_calls.remove(&ordinal)
                && is_in(numbers, number)
            {
                return Some((ordinal, number, input));
            }
        }
        None
    }

    /// Returns whether one of these numbers awaits an answer from outside this execution.
    fn waits_for_others(&self, numbers: &[u32]) -> bool {
        self.open_calls.iter().any(|(ordinal, number)| !self.inlined.contains(ordinal) && is_in(numbers, *number))
    }

    /// Takes the open calls with answers from outside and returns the numbers that await them.
    fn take_interrupted(&mut self, numbers: &[u32]) -> Vec<u32> {
        self.is_cancelling = false;
        self.early_inputs.clear();
        let inlined = &self.inlined;
        let interrupted =
            self.open_calls.extract_if(.., |ordinal, number| !inlined.contains(ordinal) && is_in(numbers, *number));
        let (ordinals, numbers): (Vec<u64>, Vec<u32>) = interrupted.unzip();
        self.cancelled_calls.extend(ordinals);
        numbers
    }

    fn make_call(&mut self, within: Option<u64>, kind: CallKind) -> Call {
        self.last_ordinal += 1;
        Call { ordinal: self.last_ordinal, within, kind }
    }

    fn end(&mut self, state: State) {
        self.phase = ExecutionPhase::Ended;
        self.early_inputs.clear();
        self.inlined.clear();
        self.state = state;
    }

    fn progress(&mut self, calls: Vec<Call>) -> Progress {
        let mut abandoned = self.take_abandoned();
        abandoned.append(&mut self.cancelled_calls);
        if !matches!(self.phase, ExecutionPhase::Ended) {
            self.state = State::Waiting(if self.lists_waits { self.waits() } else { Vec::new() });
        }
        Progress { calls, abandoned, state: self.state.clone() }
    }

    /// Takes the open calls that the program no longer awaits.
    fn take_abandoned(&mut self) -> Vec<u64> {
        let is_awaited = |number: &u32| match &self.phase {
            ExecutionPhase::Stopped { .. } => true,
            ExecutionPhase::Waiting { numbers, .. } => is_in(numbers, *number),
            ExecutionPhase::Ended => false,
        };
        let none_is_abandoned = match &self.phase {
            ExecutionPhase::Stopped { .. } => true,
            // With this many awaited numbers, all open calls are awaited. This avoids a search for each of thousands.
            ExecutionPhase::Waiting { numbers, .. } => {
                numbers.len() >= self.open_calls.len() + usize::from(self.cleanup_number.is_some()) + self.stray_count
            }
            ExecutionPhase::Ended => self.open_calls.is_empty(),
        };
        if none_is_abandoned {
            return Vec::new();
        }
        let abandoned = self.open_calls.iter().filter(|(_, number)| !is_awaited(number)).map(|(ordinal, _)| *ordinal);
        let abandoned: Vec<u64> = abandoned.collect();
        for ordinal in &abandoned {
            self.open_calls.remove(ordinal);
        }
        abandoned
    }

    /// Returns the open calls without an early input, in order.
    fn waits(&self) -> Vec<u64> {
        let early_inputs: BTreeSet<u64> = self.early_inputs.iter().map(|(ordinal, _)| *ordinal).collect();
        self.open_calls.keys().copied().filter(|ordinal| !early_inputs.contains(ordinal)).collect()
    }

    /// Omits the awaited calls from all further progress. The caller knows them, and every answer would list thousands.
    pub(crate) fn omit_waits(&mut self) {
        self.lists_waits = false;
    }
}

/// Returns whether sorted numbers contain a number.
fn is_in(numbers: &[u32], number: u32) -> bool {
    numbers.binary_search(&number).is_ok()
}

/// Beginning of the failure's message if a function makes too many calls.
const TOO_MANY_CALLS: &str = "the function made more calls than its limit";

/// Beginning of the failure's message if a function sends too many bytes before an answer.
const TOO_MANY_BYTES: &str = "the function sent more data before an answer than its limit";

/// A request of the prelude.
enum Request {
    /// A call.
    Call { within: Option<u64>, kind: Box<CallKind> },
    /// A wait for the second answer to a call, after the end of the function that this execution executes for it.
    Inline { of: u64 },
    /// A wait for the end of all other waits.
    Rest,
}

/// Reads the arguments of the prelude's call: the name and the parameters of the request.
fn parse_request(arguments: Value) -> Result<Request, RequestError> {
    let Value::Array(arguments) = arguments else { return Err(RequestError::NoContext) };
    let Ok([Value::String(call), Value::Object(mut parameters)]) = <[Value; 2]>::try_from(arguments) else {
        return Err(RequestError::NoContext);
    };
    if call == "inline" {
        let of = parameters.get("of").and_then(Value::as_u64).ok_or(RequestError::NoContext)?;
        return Ok(Request::Inline { of });
    }
    if call == "rest" {
        return Ok(Request::Rest);
    }
    let within = parameters.remove("within").and_then(|within| within.as_u64());
    Ok(Request::Call { within, kind: Box::new(CallKind::read(&call, parameters)?) })
}
