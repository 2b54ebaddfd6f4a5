//! The implementation of an interpreter with the crate `monty`.
//!
//! The crate measures time, and memory if the process has its allocator (`monty-alloc`). Memory is one number for the
//! whole process, so this module resets it around each piece of an execution's work. A process with that allocator must
//! run executions on one thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::monty::{FunctionCall, MontyRun, ResolveFutures, RunProgress};
use monty_types::{
    BASELINE_MEMORY, CompileOptions, ExcType, ExtFunctionResult, LIVE_MEMORY, MontyException, MontyObject,
    NameLookupResult, PrintWriter, ResourceLimits, ResourceTracker,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use steplatch_python_api::{CANCELLED, Failure, FailureKind, Limits};

use super::{Arrival, Compiled, Paused, RequestError, Resume, Step, Stop};
use crate::source::Source;
use crate::value::{from_json, to_json};

/// The function of a program's calls.
const CALL_FUNCTION: &str = "_steplatch_ask";
/// The variable that describes the functions of a program's file.
const FUNCTIONS_VARIABLE: &str = "_steplatch_functions";
/// The initial value of a program.
const START_VARIABLE: &str = "_steplatch_start";

/// The code that follows a file.
const ENTER_CODE: &str = "\nawait _steplatch_enter(_steplatch_start)\n";

/// A compiled file.
pub(crate) struct MontyProgram {
    source: Arc<Source>,
    run: MontyRun,
    functions: Value,
    /// The packed form of the compiled file: most of the data of an execution.
    packed: Arc<[u8]>,
}

impl MontyProgram {
    /// Compiles `text`, the runnable form of the file of `source`, after the prelude.
    pub(crate) fn compile(source: &Arc<Source>, prelude: &str, text: &str) -> Result<Self, Failure> {
        let names = [CALL_FUNCTION, FUNCTIONS_VARIABLE, START_VARIABLE].map(str::to_owned).to_vec();
        let code = [prelude, text, ENTER_CODE].concat();
        let run = MontyRun::new(code, source.file(), names, CompileOptions::default())
            .map_err(|error| to_failure(source, &error, None))?;
        let packed = postcard::to_allocvec(&run).unwrap_or_default().into();
        Ok(Self { source: source.clone(), run, functions: source.functions(), packed })
    }
}

impl Compiled for MontyProgram {
    fn start(&self, initial_value: &Value, limits: &Limits) -> Step {
        let (source, packed) = (self.source.clone(), self.packed.clone());
        let info = Arc::new(ExecutionInfo { source, packed, limits: limits.clone() });
        let limits = ResourceLimits::default()
            .max_duration(limits.time)
            .max_memory(limits.memory)
            .max_recursion_depth(limits.recursion)
            // The execution counts its calls itself.
            .max_suspensions(usize::MAX);
        run_counted(info, 0, |print| {
            let call = MontyObject::Function { name: CALL_FUNCTION.to_owned(), docstring: None };
            let inputs = vec![call, from_json(&self.functions), from_json(initial_value)];
            self.run.clone().start(inputs, ResourceTracker::new(limits), print)
        })
    }
}

/// The facts about an execution that stay the same from its beginning to its end.
#[derive(Clone)]
struct ExecutionInfo {
    source: Arc<Source>,
    packed: Arc<[u8]>,
    limits: Limits,
}

/// A program that made a call.
struct Calling {
    info: Arc<ExecutionInfo>,
    memory: usize,
    call: Box<FunctionCall>,
}

impl Paused for Calling {
    fn resume(self: Box<Self>, resume: Resume<'_>) -> Step {
        let Self { info, memory, call } = *self;
        let mut call = unbox(call);
        call.tracker_mut().set_max_duration(info.limits.time);
        run_counted(info, memory, |print| match resume {
            Resume::Return(value) => call.resume(wrap_answer(Arrival::Value(value)), print),
            Resume::Raise { exception, message } => call.resume(make_exception(exception, message), print),
            Resume::Later => call.resume_pending(print),
            Resume::Abort(message) => call.abort(make_exception("RuntimeError", message), print),
            Resume::Arrived(..) | Resume::AllRaise(..) => {
                unreachable!("a program in a call has no waiting tasks to resume")
            }
        })
    }

    fn set_time_limit(&mut self, time: Duration) {
        Arc::make_mut(&mut self.info).limits.time = time;
    }

    fn park(self: Box<Self>) -> Box<dyn Paused> {
        match pack(&self.call, &self.info) {
            Some(bytes) => Box::new(Parked { info: self.info, memory: self.memory, is_call: true, bytes }),
            None => self,
        }
    }
}

/// A program whose tasks all wait.
struct Waiting {
    info: Arc<ExecutionInfo>,
    memory: usize,
    futures: Box<ResolveFutures>,
}

impl Paused for Waiting {
    fn resume(self: Box<Self>, resume: Resume<'_>) -> Step {
        let Self { info, memory, futures } = *self;
        let futures = unbox(futures);
        run_counted(info, memory, |print| match resume {
            Resume::Arrived(number, answer) => {
                futures.resume(vec![(number, ExtFunctionResult::Return(wrap_answer(answer)))], print)
            }
            Resume::AllRaise(numbers, (exception, message)) => {
                let answer = || ExtFunctionResult::Return(wrap_answer(Arrival::Raise(exception, message)));
                futures.resume(numbers.iter().map(|number| (*number, answer())).collect(), print)
            }
            Resume::Abort(message) => futures.abort(make_exception("RuntimeError", message), print),
            Resume::Return(_) | Resume::Raise { .. } | Resume::Later => {
                unreachable!("a waiting program has no open call")
            }
        })
    }

    fn set_time_limit(&mut self, time: Duration) {
        Arc::make_mut(&mut self.info).limits.time = time;
    }

    fn park(self: Box<Self>) -> Box<dyn Paused> {
        match pack(&self.futures, &self.info) {
            Some(bytes) => Box::new(Parked { info: self.info, memory: self.memory, is_call: false, bytes }),
            None => self,
        }
    }
}

/// Moves a program out of its box. The box was allocated while memory was not counted, so its release must not be
/// counted either.
#[expect(clippy::boxed_local, reason = "the box must be released before counting begins")]
fn unbox<T>(program: Box<T>) -> T {
    *program
}

/// A program in a long pause, compressed to a few kilobytes.
struct Parked {
    info: Arc<ExecutionInfo>,
    memory: usize,
    is_call: bool,
    bytes: Box<[u8]>,
}

impl Paused for Parked {
    fn resume(self: Box<Self>, resume: Resume<'_>) -> Step {
        let Self { info, memory, is_call, bytes } = *self;
        let awake: Box<dyn Paused> = if is_call {
            Box::new(Calling { call: unpack(&bytes, &info), info, memory })
        } else {
            Box::new(Waiting { futures: unpack(&bytes, &info), info, memory })
        };
        drop(bytes);
        awake.resume(resume)
    }

    fn set_time_limit(&mut self, time: Duration) {
        Arc::make_mut(&mut self.info).limits.time = time;
    }

    fn park(self: Box<Self>) -> Box<dyn Paused> {
        self
    }
}

/// Packs a program. Its known compiled file serves as the dictionary, so the result is small.
fn pack(program: &impl Serialize, info: &ExecutionInfo) -> Option<Box<[u8]>> {
    let serialized = postcard::to_allocvec(program).ok()?;
    Some(lz4_flex::block::compress_prepend_size_with_dict(&serialized, &info.packed).into())
}

fn unpack<T: DeserializeOwned>(bytes: &[u8], info: &ExecutionInfo) -> T {
    let serialized = lz4_flex::block::decompress_size_prepended_with_dict(bytes, &info.packed);
    let serialized = serialized.expect("a packed program can be decompressed");
    postcard::from_bytes(&serialized).expect("a packed program can be deserialized")
}

/// Reads the arguments of a call: its name, and its parameters by name.
fn read_arguments(arguments: &[MontyObject]) -> Result<Value, RequestError> {
    let [MontyObject::String(call), MontyObject::Dict(fields)] = arguments else {
        return Err(RequestError::NoContext);
    };
    let mut parameters = Map::new();
    for (name, value) in fields {
        let name = name.to_string();
        let value = to_json(value).map_err(|cause| match call.as_str() {
            "ended" => RequestError::Result(cause),
            call => RequestError::Parameter { parameter: name.clone(), call: call.to_owned(), cause },
        })?;
        parameters.insert(name, value);
    }
    Ok(Value::Array(vec![Value::from(call.as_str()), Value::Object(parameters)]))
}

/// Packs an answer for the prelude. The prelude unpacks, raises or executes the answer, because an exception that the
/// interpreter itself delivers to one of several gathered functions cannot be caught within that function.
fn wrap_answer(answer: Arrival<'_>) -> MontyObject {
    MontyObject::List(match answer {
        Arrival::Value(value) => vec![from_json(value)],
        Arrival::Raise(exception, message) => {
            [exception, message].map(|text| MontyObject::String(text.to_owned())).to_vec()
        }
        Arrival::Inline(ordinal) => vec![from_json(&ordinal.into()), MontyObject::None, MontyObject::None],
    })
}

fn make_exception(exception: &str, message: &str) -> MontyException {
    let kind = exception.parse().unwrap_or(ExcType::RuntimeError);
    MontyException::new(kind, Some(message.to_owned()))
}

/// Runs a program from one stop to the next. `memory_before` is its current memory, in bytes.
fn run_counted(
    info: Arc<ExecutionInfo>,
    memory_before: usize,
    work: impl FnOnce(PrintWriter<'_>) -> Result<RunProgress, MontyException>,
) -> Step {
    let is_counting = LIVE_MEMORY.load(Ordering::Relaxed) > 0;
    let baseline = LIVE_MEMORY.load(Ordering::Relaxed).saturating_sub(memory_before);
    if is_counting {
        BASELINE_MEMORY.store(baseline, Ordering::Relaxed);
    }
    let mut printed = String::new();
    let progress = run_on(&mut printed, info.limits.sent_bytes, work);
    // Values that leave the interpreter no longer count: the JSON of a call, and the printed text.
    let mut released_bytes = printed.capacity();
    let next = match progress {
        Ok(RunProgress::FunctionCall(mut call)) => {
            let call_arguments = std::mem::take(&mut call.args);
            let before = LIVE_MEMORY.load(Ordering::Relaxed);
            let arguments = read_arguments(&call_arguments);
            released_bytes += LIVE_MEMORY.load(Ordering::Relaxed).saturating_sub(before);
            Next::Called(call, arguments)
        }
        Ok(RunProgress::ResolveFutures(futures)) => Next::Waiting(futures),
        Ok(RunProgress::Complete(object)) => Next::Finished(Stop::Returned(to_json(&object))),
        Ok(RunProgress::OsCall(_) | RunProgress::NameLookup(_)) => unreachable!("run_on answers these"),
        Err(error) => Next::Finished(Stop::Failed(to_failure(&info.source, &error, Some(&info.limits)))),
    };
    let memory = LIVE_MEMORY.load(Ordering::Relaxed).saturating_sub(baseline + released_bytes);
    let stop = match next {
        Next::Called(call, arguments) => {
            let number = call.call_id;
            Stop::Called { number, arguments, paused: Box::new(Calling { info, memory, call: Box::new(call) }) }
        }
        Next::Waiting(futures) => {
            let mut numbers = futures.pending_call_ids().to_vec();
            // Sort the numbers for binary searches, because there may be thousands.
            numbers.sort_unstable();
            Stop::Waiting { numbers, paused: Box::new(Waiting { info, memory, futures: Box::new(futures) }) }
        }
        Next::Finished(stop) => stop,
    };
    Step { printed, stop }
}

enum Next {
    Called(FunctionCall, Result<Value, RequestError>),
    Waiting(ResolveFutures),
    Finished(Stop),
}

/// Resumes after all stops that have a fixed answer: undefined names, and functions of the operating system.
fn run_on(
    printed: &mut String,
    max_bytes: usize,
    work: impl FnOnce(PrintWriter<'_>) -> Result<RunProgress, MontyException>,
) -> Result<RunProgress, MontyException> {
    let mut progress = work(PrintWriter::CollectString(printed, Some(max_bytes)))?;
    loop {
        let print = PrintWriter::CollectString(printed, Some(max_bytes));
        progress = match progress {
            RunProgress::NameLookup(lookup) => lookup.resume(NameLookupResult::Undefined, print)?,
            // The interpreter treats every called undefined name as a function of the host.
            RunProgress::FunctionCall(call) if call.function_name != CALL_FUNCTION || call.object_id.is_some() => {
                let name = call.function_name.clone();
                call.resume(ExtFunctionResult::NotFound(name), print)?
            }
            RunProgress::OsCall(call) => {
                let message = "a workflow has no files, no environment and no clock of its own; \
                           ask a node for what it needs, and ctx.now() for the time";
                call.resume(make_exception("PermissionError", message), print)?
            }
            other => return Ok(other),
        };
    }
}

/// Converts an exception to a failure with the messages of this crate.
fn to_failure(source: &Source, error: &MontyException, limits: Option<&Limits>) -> Failure {
    let message = error.message().unwrap_or_default();
    let (kind, message) = match (error.exc_type(), limits) {
        (ExcType::MemoryError, Some(limits)) if message.ends_with(&format!("> {} bytes", limits.memory)) => {
            let limit = limits.memory >> 20;
            (FailureKind::Memory, format!("the function needs more memory than its limit of {limit} MiB"))
        }
        (ExcType::MemoryError, Some(limits)) if message.ends_with(&format!("> {} bytes", limits.sent_bytes)) => {
            let limit = limits.sent_bytes >> 10;
            (
                FailureKind::SentBytes,
                format!("the function prints more than its limit of {limit} KiB between two calls"),
            )
        }
        (ExcType::TimeoutError, Some(limits)) if message.starts_with("time limit exceeded: ") => {
            let limit = limits.time;
            (
                FailureKind::Time,
                format!("the function computed for longer than its limit of {limit:?} between two calls"),
            )
        }
        (ExcType::RecursionError, Some(limits)) => {
            let limit = limits.recursion;
            (FailureKind::Recursion, format!("the function calls itself more deeply than its limit of {limit} levels"))
        }
        (_, None) => {
            let unsupported = message.strip_prefix("The monty syntax parser does not yet support ");
            let message =
                unsupported.map_or_else(|| message.to_owned(), |feature| format!("workflows cannot use {feature}"));
            (FailureKind::Unreadable, message)
        }
        // The prelude uses this class for `CancelledError`, because the interpreter lacks that class.
        (ExcType::KeyboardInterrupt, _) => (FailureKind::Cancelled, message.to_owned()),
        _ => (FailureKind::Raised, message.to_owned()),
    };
    let exception = match kind {
        FailureKind::Cancelled => CANCELLED.to_owned(),
        _ => error.exc_type().to_string(),
    };
    let frames = error.traceback().iter().filter_map(|frame| {
        let to = if frame.end.line == frame.start.line { frame.end.column } else { u32::MAX };
        // For an invalid file, the position is the only information.
        let to = (!frame.hide_caret || limits.is_none()).then_some(to);
        source.frame(frame.start.line, frame.start.column, to, frame.frame_name.as_deref())
    });
    Failure::new(kind, &exception, message).with_frames(frames.collect())
}
