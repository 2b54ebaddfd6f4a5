//! One execution of a function: it makes calls, receives answers, and ends.
//!
//! Everything that an execution does follows from its file, its initial values and the answers in their order. So its
//! state needs no storage: [`Execution::replay`] restores it from its history. An execution takes answers one at a
//! time, and runs after each until it stops, so that only their order matters.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};
use steplatch_python_api::{
    Answer, CANCELLED, Call, CallKind, Divergence, Entry, Failure, FailureKind, Limits, Progress, REPLAY_TIME_FACTOR,
    Start, State,
};

use crate::interpreter::{Arrival, Paused, RequestError, Resume, Step, Stop};
use crate::program::Program;
use crate::value::weight;

/// One execution. To end it early, drop it.
pub struct Execution {
    standing: ExecutionPhase,
    /// The number of the last call.
    last: u64,
    most: u64,
    /// Bytes of calls and output since the last answer, and their limit.
    told: usize,
    most_told: usize,
    /// The calls that have no answer, with the numbers under which the program awaits them.
    open: BTreeMap<u64, u32>,
    /// The open calls that it answers itself by executing a function, until the function has ended.
    inlined: BTreeSet<u64>,
    /// The inputs that arrived during a blocking call of the program.
    early: VecDeque<(u64, EarlyInput)>,
    /// True if a cancellation takes effect as soon as all of it waits.
    cancelling: bool,
    /// The calls that raised because of the cancellation and that the next progress reports.
    cancelled: Vec<u64>,
    /// The number under which the program awaits that nothing else waits any more: its function ended, and functions
    /// that it gathered may still clean up.
    resting: Option<u32>,
    /// Maximum number of awaited numbers besides those of open calls and `resting`.
    strays: usize,
    /// True if progress lists the awaited calls.
    lists_waits: bool,
    state: State,
}

/// An input for a call.
enum EarlyInput {
    Answer(Answer),
    /// The execution is to execute the function node itself.
    Inline,
}

enum ExecutionPhase {
    /// At a call that stops it.
    Stopped {
        ordinal: u64,
        paused: Box<dyn Paused>,
    },
    /// All of it waits.
    Waiting {
        numbers: Vec<u32>,
        paused: Box<dyn Paused>,
    },
    Over,
}

impl Execution {
    /// Begins one.
    #[must_use]
    pub fn begin(program: &Program, start: &Start, limits: &Limits) -> (Self, Progress) {
        Self::begin_as(program, start, limits, false)
    }

    /// Begins one. `is_cancelled` states whether its history cancels it: its end then waits for what it gathered.
    fn begin_as(program: &Program, start: &Start, limits: &Limits, is_cancelled: bool) -> (Self, Progress) {
        let mut execution = Self {
            standing: ExecutionPhase::Over,
            last: 0,
            most: limits.calls,
            told: 0,
            most_told: limits.told,
            open: BTreeMap::new(),
            inlined: BTreeSet::new(),
            early: VecDeque::new(),
            cancelling: false,
            cancelled: Vec::new(),
            resting: None,
            strays: 0,
            lists_waits: true,
            state: State::Waiting(Vec::new()),
        };
        let mut calls = Vec::new();
        if program.entry(&start.id).is_some() {
            let Start { id, input, params, at } = start;
            let given = json!({ "id": id, "input": input, "params": params, "at": at, "cancelled": is_cancelled });
            let step = program.compiled().start(&given, limits);
            execution.run(step, &mut calls);
        } else {
            let message = format!("no workflow and no function node '{}' is declared in the file", start.id);
            execution.end(State::Failed(Failure::new(FailureKind::Unknown, "LookupError", message)));
        }
        let progress = execution.progress(calls);
        (execution, progress)
    }

    /// Answers a call. Ignored if the call has an answer already, was abandoned or never existed.
    pub fn answer(&mut self, ordinal: u64, answer: Answer) -> Progress {
        self.supply_input(ordinal, EarlyInput::Answer(answer))
    }

    /// Leaves a `run` call to the execution, whose file declares the function node: it executes the function as a part
    /// of itself, with the same module variables. Calls of the function name this call as [`Call::within`], and
    /// [`CallKind::Ended`] reports its end. The call stays open until the caller answers it for that; an earlier answer
    /// abandons the function.
    pub fn inline(&mut self, ordinal: u64) -> Progress {
        self.supply_input(ordinal, EarlyInput::Inline)
    }

    fn supply_input(&mut self, ordinal: u64, input: EarlyInput) -> Progress {
        let mut calls = Vec::new();
        if self.open.contains_key(&ordinal) && !self.early.iter().any(|(early, _)| *early == ordinal) {
            match (std::mem::replace(&mut self.standing, ExecutionPhase::Over), input) {
                (ExecutionPhase::Stopped { ordinal: stopped, paused }, EarlyInput::Answer(answer))
                    if stopped == ordinal =>
                {
                    self.open.remove(&ordinal);
                    let step = paused.resume(match &answer {
                        Answer::Value(value) => Resume::Return(value),
                        Answer::Raise { exception, message } => Resume::Raise { exception, message },
                    });
                    self.run(step, &mut calls);
                }
                (standing @ ExecutionPhase::Stopped { .. }, input) => {
                    self.early.push_back((ordinal, input));
                    self.standing = standing;
                }
                (ExecutionPhase::Waiting { numbers, paused }, input) => {
                    self.early.push_back((ordinal, input));
                    let step = Step { printed: String::new(), stop: Stop::Waiting { numbers, paused } };
                    self.run(step, &mut calls);
                }
                (ExecutionPhase::Over, _) => {}
            }
        }
        self.progress(calls)
    }

    /// Raises `asyncio.CancelledError` in everything that it waits for, all at once. Functions that it executes as the
    /// answers to calls receive it where they wait, and their callers after them. A blocking call defers the
    /// cancellation to the next wait.
    fn cancel(&mut self) -> Progress {
        let mut calls = Vec::new();
        self.cancelling = true;
        match std::mem::replace(&mut self.standing, ExecutionPhase::Over) {
            ExecutionPhase::Waiting { numbers, paused } => {
                let step = Step { printed: String::new(), stop: Stop::Waiting { numbers, paused } };
                self.run(step, &mut calls);
            }
            standing => self.standing = standing,
        }
        self.progress(calls)
    }

    /// Returns its state.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Compresses it for a long wait, at the cost of some 100 µs. Nothing else changes.
    pub fn park(&mut self) {
        self.standing = match std::mem::replace(&mut self.standing, ExecutionPhase::Over) {
            ExecutionPhase::Stopped { ordinal, paused } => ExecutionPhase::Stopped { ordinal, paused: paused.park() },
            ExecutionPhase::Waiting { numbers, paused } => ExecutionPhase::Waiting { numbers, paused: paused.park() },
            ExecutionPhase::Over => ExecutionPhase::Over,
        };
    }

    /// Restores a new execution from an earlier one's history. The progress has the calls that the history does not
    /// have: they came after its last record. A call of the history without an answer there and without a wait for it
    /// now is abandoned. Calls `at_it` before each entry. A history with [`Entry::Cancelled`] at the end also cancels
    /// an execution.
    ///
    /// # Errors
    /// If the function does something else than the history has.
    pub fn replay(
        program: &Program,
        start: &Start,
        limits: &Limits,
        history: Vec<Entry>,
        mut at_it: impl FnMut(),
    ) -> Result<(Self, Progress), Box<Divergence>> {
        if history.is_empty() {
            return Ok(Self::begin(program, start, limits));
        }
        let is_cancelled = history.contains(&Entry::Cancelled);
        let patient = Limits { time: limits.time * REPLAY_TIME_FACTOR, ..limits.clone() };
        let (mut execution, progress) = Self::begin_as(program, start, &patient, is_cancelled);
        let mut asked: VecDeque<Call> = progress.calls.into();
        for entry in history {
            at_it();
            match entry {
                Entry::Called(recorded) => match asked.pop_front() {
                    Some(call) if call == recorded => {}
                    call => return Err(Divergence::boxed(Some(recorded), call, &execution.state)),
                },
                Entry::Answered { .. } | Entry::Inlined { .. } | Entry::Cancelled if !asked.is_empty() => {
                    return Err(Divergence::boxed(None, asked.pop_front(), &execution.state));
                }
                Entry::Answered { ordinal, answer } => asked.extend(execution.answer(ordinal, answer).calls),
                Entry::Inlined { ordinal } => asked.extend(execution.inline(ordinal).calls),
                Entry::Cancelled => asked.extend(execution.cancel().calls),
            }
        }
        match &mut execution.standing {
            ExecutionPhase::Stopped { paused, .. } | ExecutionPhase::Waiting { paused, .. } => {
                paused.allow(limits.time);
            }
            ExecutionPhase::Over => {}
        }
        let progress = Progress { calls: asked.into(), abandoned: Vec::new(), state: execution.state.clone() };
        Ok((execution, progress))
    }

    /// Runs until it needs answers.
    fn run(&mut self, mut step: Step, calls: &mut Vec<Call>) {
        self.told = 0;
        loop {
            let Step { printed, stop } = step;
            let text = printed.strip_suffix('\n').unwrap_or(&printed);
            self.told += printed.len();
            if let Stop::Called { arguments: Ok(arguments), .. } = &stop {
                self.told += weight(arguments);
            }
            if !printed.is_empty() {
                calls.push(self.numbered(None, CallKind::Log { text: text.to_owned() }));
            }
            step = match stop {
                Stop::Called { paused, .. } if self.last >= self.most => {
                    let most = self.most;
                    paused.resume(Resume::Abort(&format!("{TOO_MANY} of {most} calls")))
                }
                Stop::Called { paused, .. } if self.told > self.most_told => {
                    let most = self.most_told >> 10;
                    paused.resume(Resume::Abort(&format!("{TOO_LONG} of {most} KiB")))
                }
                Stop::Called { number, arguments, paused } => match arguments.and_then(read) {
                    Err(error) => paused.resume(Resume::Raise { exception: "TypeError", message: &error.to_string() }),
                    // It waits for the second answer to a call.
                    Ok(Request::Inline { of }) => {
                        if self.inlined.contains(&of) {
                            self.open.insert(of, number);
                        } else {
                            self.strays += 1;
                        }
                        paused.resume(Resume::Later)
                    }
                    Ok(Request::Rest) => {
                        self.resting = Some(number);
                        paused.resume(Resume::Later)
                    }
                    Ok(Request::Call { within, kind }) => {
                        let (wants_answer, stops) = (kind.wants_answer(), kind.stops());
                        if let CallKind::Ended { of, .. } = &*kind {
                            self.inlined.remove(of);
                        }
                        let call = self.numbered(within, *kind);
                        let ordinal = call.ordinal;
                        calls.push(call);
                        if wants_answer {
                            self.open.insert(ordinal, number);
                        }
                        if stops {
                            self.standing = ExecutionPhase::Stopped { ordinal, paused };
                            return;
                        }
                        paused.resume(if wants_answer { Resume::Later } else { Resume::Return(&Value::Null) })
                    }
                },
                Stop::Waiting { numbers, paused } if self.cancelling => {
                    let raising = self.interrupted(&numbers);
                    paused.resume(Resume::AllRaise(&raising, (CANCELLED, "the run was cancelled")))
                }
                Stop::Waiting { numbers, paused } => match self.next_early(&numbers) {
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
                        if let Some(number) = self.resting.take() {
                            step = paused.resume(Resume::Arrived(number, Arrival::Value(&Value::Null)));
                            continue;
                        }
                        let message = "the function waits for something that nobody was asked for";
                        self.end(State::Failed(Failure::new(FailureKind::Stuck, "RuntimeError", message)));
                        return;
                    }
                    None => {
                        self.standing = ExecutionPhase::Waiting { numbers, paused };
                        return;
                    }
                },
                Stop::Returned(Ok(result)) if weight(&result) > self.most_told => {
                    let most = self.most_told >> 10;
                    let message = format!("the result is larger than its limit of {most} KiB");
                    return self.end(State::Failed(Failure::new(FailureKind::Told, "ValueError", message)));
                }
                Stop::Returned(Ok(result)) => return self.end(State::Completed(result)),
                Stop::Returned(Err(error)) => {
                    let message = format!("the result is not JSON: {error}");
                    let failure = Failure::new(FailureKind::NotJson, "TypeError", message);
                    return self.end(State::Failed(failure));
                }
                Stop::Failed(mut failure) => {
                    if failure.kind == FailureKind::Raised && failure.message.starts_with(TOO_MANY) {
                        failure.kind = FailureKind::Calls;
                    } else if failure.kind == FailureKind::Raised && failure.message.starts_with(TOO_LONG) {
                        failure.kind = FailureKind::Told;
                    }
                    if failure.frames.is_empty() {
                        // The interpreter does not report where it stopped; this is the best approximation.
                        let place = match self.last {
                            0 => "before its first call".to_owned(),
                            last => format!("after call {last}"),
                        };
                        failure.message = format!("{} ({place})", failure.message);
                    }
                    return self.end(State::Failed(failure));
                }
            };
        }
    }

    /// Takes the first early input that is still waited for.
    fn next_early(&mut self, numbers: &[u32]) -> Option<(u64, u32, EarlyInput)> {
        while let Some((ordinal, input)) = self.early.pop_front() {
            self.inlined.remove(&ordinal);
            if let Some(number) = self.open.remove(&ordinal)
                && is_in(numbers, number)
            {
                return Some((ordinal, number, input));
            }
        }
        None
    }

    /// Returns whether one of these numbers gets its answer from outside, rather than from a function in this
    /// execution.
    fn waits_for_others(&self, numbers: &[u32]) -> bool {
        self.open.iter().any(|(ordinal, number)| !self.inlined.contains(ordinal) && is_in(numbers, *number))
    }

    /// Takes the calls with an answer from outside, and returns their numbers.
    fn interrupted(&mut self, numbers: &[u32]) -> Vec<u32> {
        self.cancelling = false;
        self.early.clear();
        let inlined = &self.inlined;
        let interrupted =
            self.open.extract_if(.., |ordinal, number| !inlined.contains(ordinal) && is_in(numbers, *number));
        let (ordinals, numbers): (Vec<u64>, Vec<u32>) = interrupted.unzip();
        self.cancelled.extend(ordinals);
        numbers
    }

    fn numbered(&mut self, within: Option<u64>, kind: CallKind) -> Call {
        self.last += 1;
        Call { ordinal: self.last, within, kind }
    }

    fn end(&mut self, state: State) {
        self.standing = ExecutionPhase::Over;
        self.early.clear();
        self.inlined.clear();
        self.state = state;
    }

    fn progress(&mut self, calls: Vec<Call>) -> Progress {
        let mut abandoned = self.take_abandoned();
        abandoned.append(&mut self.cancelled);
        if !matches!(self.standing, ExecutionPhase::Over) {
            self.state = State::Waiting(if self.lists_waits { self.waits() } else { Vec::new() });
        }
        Progress { calls, abandoned, state: self.state.clone() }
    }

    /// Takes the open calls that the program awaits no more.
    fn take_abandoned(&mut self) -> Vec<u64> {
        let waited = |number: &u32| match &self.standing {
            ExecutionPhase::Stopped { .. } => true,
            ExecutionPhase::Waiting { numbers, .. } => is_in(numbers, *number),
            ExecutionPhase::Over => false,
        };
        let none = match &self.standing {
            ExecutionPhase::Stopped { .. } => true,
            // So many awaited numbers include the numbers of all open calls. There may be thousands.
            ExecutionPhase::Waiting { numbers, .. } => {
                numbers.len() >= self.open.len() + usize::from(self.resting.is_some()) + self.strays
            }
            ExecutionPhase::Over => self.open.is_empty(),
        };
        if none {
            return Vec::new();
        }
        let abandoned = self.open.iter().filter(|(_, number)| !waited(number)).map(|(ordinal, _)| *ordinal);
        let abandoned: Vec<u64> = abandoned.collect();
        for ordinal in &abandoned {
            self.open.remove(ordinal);
        }
        abandoned
    }

    /// Returns the calls with awaited answers that have not come early, in order.
    fn waits(&self) -> Vec<u64> {
        let early: BTreeSet<u64> = self.early.iter().map(|(ordinal, _)| *ordinal).collect();
        self.open.keys().copied().filter(|ordinal| !early.contains(ordinal)).collect()
    }

    /// Leaves the awaited calls out of all further progress. The caller knows them, and every answer would list
    /// thousands.
    pub(crate) fn leave_out_waits(&mut self) {
        self.lists_waits = false;
    }
}

/// Returns whether a number is one of these, which are in order.
fn is_in(numbers: &[u32], number: u32) -> bool {
    numbers.binary_search(&number).is_ok()
}

/// The beginning of the failure's message when a function makes too many calls.
const TOO_MANY: &str = "the function asked and told more than its limit";

/// The beginning of the failure's message when a function sends too many bytes before an answer.
const TOO_LONG: &str = "the function asked and told more before it was answered than its limit";

/// A request of the prelude.
enum Request {
    /// A call.
    Call { within: Option<u64>, kind: Box<CallKind> },
    /// To wait for the second answer to a call that a function executed here answers.
    Inline { of: u64 },
    /// To wait until nothing else waits.
    Rest,
}

/// Reads the arguments of the prelude's call: its name, and its parameters.
fn read(arguments: Value) -> Result<Request, RequestError> {
    let Value::Array(arguments) = arguments else { return Err(RequestError::NoContext) };
    let Ok([Value::String(call), Value::Object(mut asked)]) = <[Value; 2]>::try_from(arguments) else {
        return Err(RequestError::NoContext);
    };
    if call == "inline" {
        let of = asked.get("of").and_then(Value::as_u64).ok_or(RequestError::NoContext)?;
        return Ok(Request::Inline { of });
    }
    if call == "rest" {
        return Ok(Request::Rest);
    }
    let within = asked.remove("within").and_then(|within| within.as_u64());
    Ok(Request::Call { within, kind: Box::new(CallKind::read(&call, asked)?) })
}
