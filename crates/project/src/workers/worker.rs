//! A worker: its process, and the requests that wait for its replies.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use parking_lot::Mutex;
use steplatch_python_api::Limits;
use steplatch_python_api::client::{ConversationError, WorkerError, WorkerEvent, WorkerProtocol};
use steplatch_python_api::wire::{Ask, MAX_LINE_BYTES, Reply};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::{OsString, PathBuf};

/// Time for which a request waits for a busy worker.
const BUSY_TIMEOUT: Duration = Duration::from_millis(100);

/// Time limit of a request in addition to that of the function: for compiling the file and sending the reply.
const REQUEST_MARGIN: Duration = Duration::from_secs(1);

/// Method of starting workers.
#[derive(Debug, Clone)]
pub enum WorkerStarter {
    /// As a process that serves requests on its standard input and output.
    Program {
        /// The program, usually the daemon's own executable.
        program: PathBuf,
        /// The arguments that make it a worker.
        arguments: Vec<OsString>,
    },
    /// By this source, each over a stream: for simulations.
    Given(Arc<dyn WorkerSource>),
    /// None: this process executes no functions.
    Disabled,
}

/// A source of workers that are no child processes.
pub trait WorkerSource: fmt::Debug + Send + Sync {
    /// Starts a worker, and returns the stream to it. The worker ends with the stream.
    ///
    /// # Errors
    /// If its start fails.
    fn start(&self) -> io::Result<UnixStream>;
}

/// A worker that no longer answers.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{why}")]
pub struct WorkerExited {
    why: String,
    busy_with_this: bool,
    overran: bool,
}

impl WorkerExited {
    fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), busy_with_this: false, overran: false }
    }

    /// Returns the error for an answer that does not match the request.
    pub(super) fn mismatched_reply(reply: &Reply) -> Self {
        let reply: String = format!("{reply:?}").chars().take(200).collect();
        Self::new(format!("the reply of a worker does not match the request: {reply}"))
    }

    /// Returns whether the worker was executing this request when it ended, rather than an earlier one.
    #[must_use]
    pub fn was_busy_with_this(&self) -> bool {
        self.busy_with_this
    }

    /// Returns whether the request exceeded its time in one operation that the interpreter does not interrupt.
    #[must_use]
    pub fn overran(&self) -> bool {
        self.overran && self.busy_with_this
    }
}

/// A running worker. The drop of this ends its process.
#[derive(Debug)]
pub(super) struct Worker {
    questions: mpsc::UnboundedSender<WorkerRequest>,
    known: Arc<WorkerStatus>,
    /// True if it is for executions that have never overrun their time.
    is_reserved: bool,
}

/// The state of a worker that other tasks see.
#[derive(Debug, Default)]
struct WorkerStatus {
    gone: AtomicBool,
    open: AtomicUsize,
    memory: AtomicUsize,
    /// Since when it is busy with the current request.
    at_it: Mutex<Option<Instant>>,
}

/// The streams to a worker and from it.
type WorkerInput = Box<dyn AsyncWrite + Send + Unpin>;
type WorkerOutput = Box<dyn AsyncRead + Send + Unpin>;

/// Receiver of the answer, if there is one.
type ReplySender = Option<oneshot::Sender<Result<Reply, WorkerExited>>>;

struct WorkerRequest {
    ask: Ask,
    times: Times,
    answer: ReplySender,
    /// Set once the worker has started this request.
    begun: Arc<AtomicBool>,
}

/// Time limits of a worker's silence during a request.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// Of processor time, between two signs of life. The interpreter checks it between operations, so one that exceeds
    /// it is a single operation.
    computing: Duration,
    /// Of wall-clock time, also on an overloaded machine.
    silence: Duration,
}

impl Times {
    fn for_ask(ask: &Ask, limits: &Limits) -> Self {
        let computing = match ask {
            // A replay may be slower than the first execution.
            Ask::Begin(begin) if !begin.history.is_empty() => limits.longest_silence(),
            _ => limits.time,
        };
        Self { computing, silence: limits.longest_silence() }
    }
}

/// A request without an answer.
struct PendingRequest {
    times: Times,
    answer: ReplySender,
    begun: Arc<AtomicBool>,
}

impl Worker {
    pub(super) fn start(starter: &WorkerStarter, is_reserved: bool) -> Result<Self, WorkerExited> {
        let failed = |error: io::Error| {
            WorkerExited::new(format!("a process to execute functions could not be started: {error}"))
        };
        let (child, input, output): (_, WorkerInput, WorkerOutput) = match starter {
            WorkerStarter::Disabled => return Err(WorkerExited::new("this daemon executes no functions")),
            WorkerStarter::Given(source) => {
                let connect = || {
                    let stream = source.start()?;
                    stream.set_nonblocking(true)?;
                    tokio::net::UnixStream::from_std(stream)
                };
                let (output, input) = connect().map_err(failed)?.into_split();
                (None, Box::new(input), Box::new(output))
            }
            WorkerStarter::Program { program, arguments } => {
                let mut child = Command::new(program)
                    .args(arguments)
                    .current_dir("/")
                    // It needs no environment variables, and gets none.
                    .env_clear()
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .kill_on_drop(true)
                    .spawn()
                    .map_err(failed)?;
                let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
                    return Err(WorkerExited::new("the pipes of a worker are gone"));
                };
                (Some(child), Box::new(input), Box::new(output))
            }
        };
        let (questions, asked) = mpsc::unbounded_channel();
        let known = Arc::new(WorkerStatus::default());
        tokio::spawn(Task::new(child, input, output, known.clone()).run(asked));
        Ok(Self { questions, known, is_reserved })
    }

    pub(super) fn is_gone(&self) -> bool {
        self.known.gone.load(Ordering::Relaxed)
    }

    pub(super) fn is_reserved(&self) -> bool {
        self.is_reserved
    }

    /// Returns the number of requests without an answer.
    pub(super) fn open(&self) -> usize {
        self.known.open.load(Ordering::Relaxed)
    }

    /// Returns the bytes of memory that it had in use at its last answer.
    pub(super) fn memory(&self) -> usize {
        self.known.memory.load(Ordering::Relaxed)
    }

    /// Returns whether it has been busy with one request for longer than other requests wait for it.
    pub(super) fn is_held_up(&self) -> bool {
        let at_it = self.known.at_it.lock();
        at_it.is_some_and(|since| since.elapsed() > BUSY_TIMEOUT)
    }

    /// Sends a request and waits for the answer; `limits` say how long the worker may be silent. `None` when the worker
    /// is busy with another request for so long that the caller should use another worker.
    pub(super) async fn ask(&self, ask: Ask, limits: &Limits) -> Result<Option<Reply>, WorkerExited> {
        let (answer, mut answered) = oneshot::channel();
        let begun = Arc::new(AtomicBool::new(false));
        let times = Times::for_ask(&ask, limits);
        self.put(WorkerRequest { ask, times, answer: Some(answer), begun: begun.clone() });
        loop {
            tokio::select! {
                answered = &mut answered => {
                    return answered.unwrap_or_else(|_| Err(WorkerExited::new("the worker ended"))).map(Some);
                }
                () = tokio::time::sleep(BUSY_TIMEOUT) => {
                    if !begun.load(Ordering::Relaxed) && self.is_held_up() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Makes the worker forget an execution.
    pub(super) fn forget(&self, execution: u64) {
        let ask = Ask::Forget { execution };
        let times = Times::for_ask(&ask, &Limits::default());
        self.put(WorkerRequest { ask, times, answer: None, begun: Arc::default() });
    }

    fn put(&self, question: WorkerRequest) {
        self.known.open.fetch_add(1, Ordering::Relaxed);
        // A worker that has ended drops the request, which closes its answer channel.
        let _ = self.questions.send(question);
    }
}

/// The task that owns a worker's process.
struct Task {
    /// None for a worker that is no child process.
    child: Option<Child>,
    conversation: WorkerProtocol,
    /// Requests without an answer, in the order of sending.
    open: VecDeque<PendingRequest>,
    /// Written by a separate task: a busy worker does not read, and a writing worker needs a reader of its output.
    lines: mpsc::UnboundedSender<Vec<u8>>,
    heard: mpsc::Receiver<String>,
    /// The time of its last sign of life, or of the first request after it was idle.
    sign: Instant,
    /// Time of its next check, if it remains silent.
    look_at: Instant,
    /// The processor time that it had used at the first check since.
    used: Option<Duration>,
    known: Arc<WorkerStatus>,
}

impl Task {
    fn new(child: Option<Child>, input: WorkerInput, output: WorkerOutput, known: Arc<WorkerStatus>) -> Self {
        let (lines, to_write) = mpsc::unbounded_channel();
        let (read, heard) = mpsc::channel(1);
        tokio::spawn(write(input, to_write));
        tokio::spawn(listen(output, read));
        let (conversation, open) = (WorkerProtocol::new(), VecDeque::new());
        let now = Instant::now();
        Self { child, conversation, open, lines, heard, sign: now, look_at: now, used: None, known }
    }

    async fn run(mut self, mut asked: mpsc::UnboundedReceiver<WorkerRequest>) {
        let mut overran = false;
        let reason = loop {
            tokio::select! {
                question = asked.recv() => match question {
                    Some(question) => self.ask(question),
                    // All senders of requests were dropped.
                    None => return,
                },
                line = self.heard.recv() => match line.map(|line| self.handle_line(&line)) {
                    Some(Ok(())) => {}
                    Some(Err(error)) => break WorkerError::from(error).to_string(),
                    None => break self.reason().await,
                },
                () = tokio::time::sleep_until(self.look_at), if !self.open.is_empty() => match self.look() {
                    Silence::Borne => {}
                    Silence::Computing(limit) => {
                        overran = true;
                        let seconds = limit.as_secs_f64();
                        break format!("it computed for more than {seconds} s in one operation");
                    }
                    Silence::TooLong(limit) => {
                        break format!("the worker said nothing for {} s and was killed", limit.as_secs_f64());
                    }
                }
            }
        };
        self.known.gone.store(true, Ordering::Relaxed);
        if let Some(child) = &mut self.child {
            let _ = child.start_kill();
        }
        // The end of the channel notifies the other waiting requests.
        for (at, PendingRequest { answer, .. }) in self.open.drain(..).enumerate() {
            if let Some(answer) = answer {
                let _ = answer.send(Err(WorkerExited { why: reason.clone(), busy_with_this: at == 0, overran }));
            }
        }
        if let Some(child) = &mut self.child {
            let _ = child.wait().await;
        }
    }

    /// Waits for the end of the worker and returns its reason.
    async fn reason(&mut self) -> String {
        let Some(child) = &mut self.child else { return "the worker ended".to_owned() };
        match child.wait().await {
            Ok(status) => WorkerError::from_exit_status(status).to_string(),
            Err(error) => WorkerError::from(error).to_string(),
        }
    }

    fn ask(&mut self, question: WorkerRequest) {
        if self.open.is_empty() {
            self.record_sign();
        }
        let (_, line) = self.conversation.ask(question.ask);
        let WorkerRequest { times, answer, begun, .. } = question;
        self.open.push_back(PendingRequest { times, answer, begun });
        if self.open.len() == 1 {
            self.begins();
        }
        // A separate check detects the end of a worker that no longer reads.
        let _ = self.lines.send(line);
    }

    fn handle_line(&mut self, line: &str) -> Result<(), ConversationError> {
        self.record_sign();
        if let WorkerEvent::Reply(_, reply) = self.conversation.receive(line)? {
            self.known.open.fetch_sub(1, Ordering::Relaxed);
            self.known.memory.store(self.conversation.memory(), Ordering::Relaxed);
            if let Some(PendingRequest { answer: Some(answer), .. }) = self.open.pop_front() {
                // The caller may have dropped the request.
                let _ = answer.send(Ok(reply));
            }
            self.begins();
        }
        Ok(())
    }

    fn record_sign(&mut self) {
        self.sign = Instant::now();
        self.look_at = self.sign + REQUEST_MARGIN;
        self.used = None;
    }

    /// Checks a worker that is silent during a request. Its used processor time distinguishes computing from waiting
    /// for the processor.
    fn look(&mut self) -> Silence {
        let Some(PendingRequest { times, .. }) = self.open.front() else { return Silence::Borne };
        let used = self.child.as_ref().and_then(|child| processor_time(child.id()?));
        let now = Instant::now();
        let since = *self.used.get_or_insert(used.unwrap_or_default());
        let computed = used.unwrap_or_default().saturating_sub(since);
        if computed > times.computing {
            return Silence::Computing(times.computing);
        }
        if now - self.sign >= times.silence {
            return Silence::TooLong(times.silence);
        }
        // It cannot have computed that long before then.
        let left = (times.computing - computed).max(REQUEST_MARGIN);
        self.look_at = (now + left).min(self.sign + times.silence);
        Silence::Borne
    }

    /// Marks the current request as started.
    fn begins(&self) {
        let first = self.open.front();
        if let Some(first) = first {
            first.begun.store(true, Ordering::Relaxed);
        }
        let mut at_it = self.known.at_it.lock();
        *at_it = first.map(|_| Instant::now());
    }
}

/// The result of checking a silent worker.
enum Silence {
    /// The worker has time left.
    Borne,
    /// The worker used more processor time than this.
    Computing(Duration),
    /// The worker was silent for this long, and computed less.
    TooLong(Duration),
}

/// Returns the processor time that a process has used.
fn processor_time(process: u32) -> Option<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(process.try_into().ok()?)).ok()?;
    Some(clock.now().ok()?.into())
}

async fn write(mut input: WorkerInput, mut lines: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if input.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// Forwards the output of a worker, line by line, until its end or an invalid line.
async fn listen(output: WorkerOutput, read: mpsc::Sender<String>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = String::new();
        let taken = (&mut output).take(MAX_LINE_BYTES).read_line(&mut line).await;
        // A line without an end was cut off by the end of the worker, or is longer than workers write.
        if taken.is_err() || line.pop() != Some('\n') || read.send(line).await.is_err() {
            return;
        }
    }
}
