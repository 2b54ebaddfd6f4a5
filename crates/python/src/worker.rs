//! The worker: the process that executes functions.
//!
//! The worker executes on one thread, one request at a time: the interpreter counts the memory of the whole process for
//! the running execution. A function that exceeds a limit fails alone; anything that aborts the process (a native stack
//! overflow, one huge allocation) ends only this worker. A worker keeps no state that must survive it.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufReader, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use monty_types::LIVE_MEMORY;
use steplatch_python_api::wire::{
    Begin, OUT_OF_MEMORY, Reply, Request, RequestLine, ResponseLine, WIRE_VERSION, encode_line, read_line,
};
use steplatch_python_api::{Failure, Progress, State};

use crate::execution::Execution;
use crate::program::Program;

/// The global allocator that a worker process must declare. It counts memory, and ends the process with
/// [`OUT_OF_MEMORY`] if the program would exceed a limit.
pub use monty_alloc::LimitedAllocator as Allocator;

// The client does not depend on the interpreter, so the wire format defines the exit code of its allocator as a number.
const _: () = assert!(OUT_OF_MEMORY == monty_types::OOM_EXIT_CODE);

/// Stack size of the executing thread: several times the need of the deepest allowed recursion.
const STACK_BYTES: usize = 64 << 20;

/// Maximum number of compiled files in memory.
const MAX_COMPILED_FILES: usize = 32;

/// Maximum number of waiting executions in memory; the worker parks others, such as an execution at a gate.
const MAX_AWAKE_EXECUTIONS: usize = 32;

/// Interval of a long operation's progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Serves requests until the input ends. `memory` is the limit of all executions together, in bytes; an execution that
/// exceeds it ends the process.
///
/// # Errors
/// If reading or writing fails, a line is invalid, or the process does not count its memory.
pub fn serve(input: impl Read + Send, output: impl Write + Send, memory: usize) -> io::Result<()> {
    monty_alloc::set_limit(Some(memory), false)
        .map_err(|_| io::Error::other("a worker process must use steplatch_python::worker::Allocator"))?;
    thread::scope(|scope| {
        let executor = thread::Builder::new()
            .name("executions".to_owned())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || Worker::new(output).serve(input))?;
        executor.join().unwrap_or_else(|_| Err(io::Error::other("the interpreter panicked")))
    })
}

/// A worker on the thread of its caller, without a memory limit, for simulations.
pub struct LocalWorker(Worker<Vec<u8>>);

impl LocalWorker {
    /// Creates a worker. Returns the worker and the first bytes to send.
    ///
    /// # Errors
    /// If writing to memory fails. This never happens.
    pub fn new() -> io::Result<(Self, Vec<u8>)> {
        let mut worker = Worker::new(Vec::new());
        worker.send_greeting()?;
        let greeting = std::mem::take(&mut worker.output);
        Ok((Self(worker), greeting))
    }

    /// Executes the request of a line and returns the bytes of the reply.
    ///
    /// # Errors
    /// If the line is invalid.
    pub fn execute(&mut self, line: &str) -> io::Result<Vec<u8>> {
        self.0.execute_line(line)?;
        Ok(std::mem::take(&mut self.0.output))
    }
}

impl std::fmt::Debug for LocalWorker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LocalWorker").finish_non_exhaustive()
    }
}

struct Worker<W> {
    output: W,
    /// Recently used files with their names and texts. The last used file is at the end.
    programs: VecDeque<(String, String, Program)>,
    executions: HashMap<u64, Execution>,
    /// Executions that are not parked. The last resumed execution is at the end. Some executions may have ended.
    awake_executions: VecDeque<u64>,
}

impl<W: Write> Worker<W> {
    fn new(output: W) -> Self {
        Self { output, programs: VecDeque::new(), executions: HashMap::new(), awake_executions: VecDeque::new() }
    }

    fn serve(mut self, input: impl Read) -> io::Result<()> {
        let mut input = BufReader::new(input);
        self.send_greeting()?;
        while let Some(line) = read_line(&mut input)? {
            self.execute_line(&line)?;
        }
        Ok(())
    }

    fn send_greeting(&mut self) -> io::Result<()> {
        self.send(&ResponseLine::Hello { wire: WIRE_VERSION })
    }

    /// Executes the request of a line.
    fn execute_line(&mut self, line: &str) -> io::Result<()> {
        let RequestLine { number, request } = serde_json::from_str(line)?;
        let reply = self.execute(number, request);
        let memory = LIVE_MEMORY.load(std::sync::atomic::Ordering::Relaxed);
        self.send(&ResponseLine::Replied { number, reply, memory })
    }

    fn send(&mut self, line: &ResponseLine) -> io::Result<()> {
        self.output.write_all(&encode_line(line))?;
        self.output.flush()
    }

    fn execute(&mut self, number: u64, request: Request) -> Reply {
        match request {
            Request::Load { file, text } => match self.load_program(file, text) {
                Ok(program) => Reply::Declares(program.declarations().to_vec()),
                Err(failure) => Reply::Refused(failure),
            },
            Request::Begin(begin) => {
                let Begin { execution, file, text, start, limits, history } = *begin;
                self.executions.remove(&execution);
                let program = match self.load_program(file, text) {
                    Ok(program) => program,
                    Err(failure) => return Reply::Refused(failure),
                };
                let mut last_report = Instant::now();
                let report_progress = || {
                    if last_report.elapsed() > PROGRESS_INTERVAL {
                        last_report = Instant::now();
                        // The reply detects a closed connection.
                        let _ = self.send(&ResponseLine::Busy(number));
                    }
                };
                match Execution::replay(&program, &start, &limits, history, report_progress) {
                    Ok((mut execution_state, progress)) => {
                        if matches!(progress.state, State::Waiting(_)) {
                            execution_state.omit_waits();
                            self.executions.insert(execution, execution_state);
                            self.mark_awake(execution);
                        }
                        Reply::Progressed(progress)
                    }
                    Err(divergence) => Reply::Diverged(divergence),
                }
            }
            Request::Answer { execution, ordinal, answer } => {
                self.resume(execution, |paused| paused.answer(ordinal, answer))
            }
            Request::Inline { execution, ordinal } => self.resume(execution, |paused| paused.inline(ordinal)),
            Request::Forget { execution } => {
                self.executions.remove(&execution);
                Reply::Forgotten
            }
        }
    }

    /// Resumes a known execution.
    fn resume(&mut self, execution: u64, resume: impl FnOnce(&mut Execution) -> Progress) -> Reply {
        let Some(paused) = self.executions.get_mut(&execution) else { return Reply::Unknown };
        let progress = resume(paused);
        if !matches!(progress.state, State::Waiting(_)) {
            self.executions.remove(&execution);
        } else {
            self.mark_awake(execution);
        }
        Reply::Progressed(progress)
    }

    fn mark_awake(&mut self, execution: u64) {
        self.awake_executions.retain(|awake| *awake != execution);
        self.awake_executions.push_back(execution);
        if self.awake_executions.len() > MAX_AWAKE_EXECUTIONS
            && let Some(oldest) = self.awake_executions.pop_front()
            && let Some(execution) = self.executions.get_mut(&oldest)
        {
            execution.park();
        }
    }

    /// Returns the compiled file and compiles it if necessary.
    fn load_program(&mut self, file: String, text: String) -> Result<Program, Failure> {
        let position = self.programs.iter().position(|entry| entry.0 == file && entry.1 == text);
        let entry = match position.and_then(|position| self.programs.remove(position)) {
            Some(entry) => entry,
            None => {
                let program = Program::load(&file, &text)?;
                if self.programs.len() == MAX_COMPILED_FILES {
                    self.programs.pop_front();
                }
                (file, text, program)
            }
        };
        let program = entry.2.clone();
        self.programs.push_back(entry);
        Ok(program)
    }
}
