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
use steplatch_python_api::wire::{MAX_LINE_BYTES, Reply, Request};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::{OsString, PathBuf};

/// Maximum wait of a request for a busy worker.
const BUSY_TIMEOUT: Duration = Duration::from_millis(100);

/// Time limit of a request in addition to the function's limit: for compiling the file and sending the reply.
const REQUEST_MARGIN: Duration = Duration::from_secs(1);

/// Way to start workers.
#[derive(Debug, Clone)]
pub enum WorkerStarter {
    /// As a process that serves requests on its standard input and output.
    Program {
        /// The program, usually the daemon's own executable.
        program: PathBuf,
        /// The arguments that make it a worker.
        arguments: Vec<OsString>,
    },
    /// As a stream from a custom source, for simulations.
    Custom(Arc<dyn WorkerSource>),
    /// No workers: this process executes no functions.
    Disabled,
}

/// A source of workers that are not child processes.
pub trait WorkerSource: fmt::Debug + Send + Sync {
    /// Starts a worker and returns the stream to it. The worker exits when the stream closes.
    ///
    /// # Errors
    /// If the worker does not start.
    fn start(&self) -> io::Result<UnixStream>;
}

/// Error of a worker that exited or became unresponsive.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub struct WorkerExited {
    reason: String,
    was_executing_request: bool,
    overran: bool,
}

impl WorkerExited {
    fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), was_executing_request: false, overran: false }
    }

    /// Returns the error for a reply that does not match the request.
    pub(super) fn mismatched_reply(reply: &Reply) -> Self {
        let reply: String = format!("{reply:?}").chars().take(200).collect();
        Self::new(format!("the reply of a worker does not match the request: {reply}"))
    }

    /// Returns whether the worker was executing this request, rather than an earlier one, when the worker exited.
    #[must_use]
    pub fn was_busy_with_this(&self) -> bool {
        self.was_executing_request
    }

    /// Returns whether the request exceeded its time in one operation that the interpreter does not interrupt.
    #[must_use]
    pub fn overran(&self) -> bool {
        self.overran && self.was_executing_request
    }
}

/// A running worker. Dropping it ends the process.
#[derive(Debug)]
pub(super) struct Worker {
    requests: mpsc::UnboundedSender<WorkerRequest>,
    status: Arc<WorkerStatus>,
    /// True if files that have exceeded their time limit must not use the worker.
    is_reserved: bool,
}

/// State of a worker that is visible to other tasks.
#[derive(Debug, Default)]
struct WorkerStatus {
    has_exited: AtomicBool,
    pending_requests: AtomicUsize,
    /// Bytes in use at the last reply.
    memory: AtomicUsize,
    /// Start of the current request, if there is one.
    busy_since: Mutex<Option<Instant>>,
}

/// The stream to a worker.
type WorkerInput = Box<dyn AsyncWrite + Send + Unpin>;

/// The stream from a worker.
type WorkerOutput = Box<dyn AsyncRead + Send + Unpin>;

/// Sender of the reply to the caller, if the caller waits for one.
type ReplySender = Option<oneshot::Sender<Result<Reply, WorkerExited>>>;

struct WorkerRequest {
    ask: Request,
    silence_limits: SilenceLimits,
    reply_sender: ReplySender,
    /// Set once the worker has started this request.
    has_begun: Arc<AtomicBool>,
}

/// Time limits of a worker that sends no output during a request.
#[derive(Debug, Clone, Copy)]
struct SilenceLimits {
    /// Limit of processor time without output. The interpreter checks the function's limit between operations, so only
    /// a single operation exceeds it.
    computing: Duration,
    /// Limit of wall-clock time, sufficient on an overloaded computer.
    silence: Duration,
}

impl SilenceLimits {
    fn for_ask(ask: &Request, limits: &Limits) -> Self {
        let computing = match ask {
            // A replay may be slower than the first execution.
            Request::Begin(begin) if !begin.history.is_empty() => limits.max_silence(),
            _ => limits.time,
        };
        Self { computing, silence: limits.max_silence() }
    }
}

/// A request that waits for its reply.
struct PendingRequest {
    silence_limits: SilenceLimits,
    reply_sender: ReplySender,
    has_begun: Arc<AtomicBool>,
}

impl Worker {
    pub(super) fn start(starter: &WorkerStarter, is_reserved: bool) -> Result<Self, WorkerExited> {
        let failed = |error: io::Error| {
            WorkerExited::new(format!("a process to execute functions could not be started: {error}"))
        };
        let (child, input, output): (_, WorkerInput, WorkerOutput) = match starter {
            WorkerStarter::Disabled => return Err(WorkerExited::new("this daemon executes no functions")),
            WorkerStarter::Custom(source) => {
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
                    // The worker needs no environment variables.
                    .env_clear()
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .kill_on_drop(true)
                    .spawn()
                    .map_err(failed)?;
                let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
                    return Err(WorkerExited::new("a worker has no pipes"));
                };
                (Some(child), Box::new(input), Box::new(output))
            }
        };
        let (requests, request_receiver) = mpsc::unbounded_channel();
        let status = Arc::new(WorkerStatus::default());
        tokio::spawn(Task::new(child, input, output, status.clone()).run(request_receiver));
        Ok(Self { requests, status, is_reserved })
    }

    pub(super) fn has_exited(&self) -> bool {
        self.status.has_exited.load(Ordering::Relaxed)
    }

    pub(super) fn is_reserved(&self) -> bool {
        self.is_reserved
    }

    /// Returns the number of requests without a reply.
    pub(super) fn pending_requests(&self) -> usize {
        self.status.pending_requests.load(Ordering::Relaxed)
    }

    /// Returns the bytes of memory used by the worker at its last reply.
    pub(super) fn memory(&self) -> usize {
        self.status.memory.load(Ordering::Relaxed)
    }

    /// Returns whether the worker has been busy with one request for longer than [`BUSY_TIMEOUT`].
    pub(super) fn is_held_up(&self) -> bool {
        let busy_since = self.status.busy_since.lock();
        busy_since.is_some_and(|since| since.elapsed() > BUSY_TIMEOUT)
    }

    /// Sends a request and waits for the reply. `limits` determine the permitted silence of the worker. Returns `None`
    /// if another request keeps the worker busy for too long; the caller should use another worker.
    pub(super) async fn ask(&self, ask: Request, limits: &Limits) -> Result<Option<Reply>, WorkerExited> {
        let (reply_sender, mut reply_receiver) = oneshot::channel();
        let has_begun = Arc::new(AtomicBool::new(false));
        let silence_limits = SilenceLimits::for_ask(&ask, limits);
        self.send(WorkerRequest {
            ask,
            silence_limits,
            reply_sender: Some(reply_sender),
            has_begun: has_begun.clone(),
        });
        loop {
            tokio::select! {
                reply = &mut reply_receiver => {
                    return reply.unwrap_or_else(|_| Err(WorkerExited::new("the worker exited"))).map(Some);
                }
                () = tokio::time::sleep(BUSY_TIMEOUT) => {
                    if !has_begun.load(Ordering::Relaxed) && self.is_held_up() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Makes the worker discard an execution.
    pub(super) fn forget(&self, execution: u64) {
        let ask = Request::Forget { execution };
        let silence_limits = SilenceLimits::for_ask(&ask, &Limits::default());
        self.send(WorkerRequest { ask, silence_limits, reply_sender: None, has_begun: Arc::default() });
    }

    fn send(&self, request: WorkerRequest) {
        self.status.pending_requests.fetch_add(1, Ordering::Relaxed);
        // A worker that has exited drops the request, and so closes its reply channel.
        let _ = self.requests.send(request);
    }
}

/// The task that owns a worker's process.
struct Task {
    /// `None` for a worker that is not a child process.
    child: Option<Child>,
    protocol: WorkerProtocol,
    /// Requests without a reply, in the order of sending.
    pending: VecDeque<PendingRequest>,
    /// A separate task writes these lines, because writing blocks while the worker is busy.
    input_lines: mpsc::UnboundedSender<Vec<u8>>,
    output_lines: mpsc::Receiver<String>,
    /// Time of the last output, or of the first request after the worker was idle.
    silent_since: Instant,
    /// Time of the next check, if the worker remains silent.
    next_check: Instant,
    /// Processor time used by the worker at the first check of this silence.
    initial_processor_time: Option<Duration>,
    status: Arc<WorkerStatus>,
}

impl Task {
    fn new(child: Option<Child>, input: WorkerInput, output: WorkerOutput, status: Arc<WorkerStatus>) -> Self {
        let (input_lines, input_receiver) = mpsc::unbounded_channel();
        let (output_sender, output_lines) = mpsc::channel(1);
        tokio::spawn(write_lines(input, input_receiver));
        tokio::spawn(read_lines(output, output_sender));
        let (protocol, pending) = (WorkerProtocol::new(), VecDeque::new());
        let now = Instant::now();
        Self {
            child,
            protocol,
            pending,
            input_lines,
            output_lines,
            silent_since: now,
            next_check: now,
            initial_processor_time: None,
            status,
        }
    }

    async fn run(mut self, mut requests: mpsc::UnboundedReceiver<WorkerRequest>) {
        let mut overran = false;
        let reason = loop {
            tokio::select! {
                request = requests.recv() => match request {
                    Some(request) => self.ask(request),
                    // All senders of requests were dropped.
                    None => return,
                },
                line = self.output_lines.recv() => match line.map(|line| self.handle_line(&line)) {
                    Some(Ok(())) => {}
                    Some(Err(error)) => break WorkerError::from(error).to_string(),
                    None => break self.wait_for_exit().await,
                },
                () = tokio::time::sleep_until(self.next_check), if !self.pending.is_empty() => match self.check_silence() {
                    Silence::Tolerated => {}
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
        self.status.has_exited.store(true, Ordering::Relaxed);
        if let Some(child) = &mut self.child {
            let _ = child.start_kill();
        }
        // Requests that are still in the channel fail when the channel is dropped.
        for (index, PendingRequest { reply_sender, .. }) in self.pending.drain(..).enumerate() {
            if let Some(reply_sender) = reply_sender {
                let _ = reply_sender.send(Err(WorkerExited {
                    reason: reason.clone(),
                    was_executing_request: index == 0,
                    overran,
                }));
            }
        }
        if let Some(child) = &mut self.child {
            let _ = child.wait().await;
        }
    }

    /// Waits for the exit of the worker and returns the reason.
    async fn wait_for_exit(&mut self) -> String {
        let Some(child) = &mut self.child else { return "the worker exited".to_owned() };
        match child.wait().await {
            Ok(status) => WorkerError::from_exit_status(status).to_string(),
            Err(error) => WorkerError::from(error).to_string(),
        }
    }

    fn ask(&mut self, request: WorkerRequest) {
        if self.pending.is_empty() {
            self.restart_silence();
        }
        let (_, line) = self.protocol.add_request(request.ask);
        let WorkerRequest { silence_limits, reply_sender, has_begun, .. } = request;
        self.pending.push_back(PendingRequest { silence_limits, reply_sender, has_begun });
        if self.pending.len() == 1 {
            self.mark_current_begun();
        }
        // Ignore the error, because the end of its output reports a worker that no longer reads.
        let _ = self.input_lines.send(line);
    }

    fn handle_line(&mut self, line: &str) -> Result<(), ConversationError> {
        self.restart_silence();
        if let WorkerEvent::Reply(_, reply) = self.protocol.receive(line)? {
            self.status.pending_requests.fetch_sub(1, Ordering::Relaxed);
            self.status.memory.store(self.protocol.memory(), Ordering::Relaxed);
            if let Some(PendingRequest { reply_sender: Some(reply_sender), .. }) = self.pending.pop_front() {
                // The caller may have dropped the request.
                let _ = reply_sender.send(Ok(reply));
            }
            self.mark_current_begun();
        }
        Ok(())
    }

    fn restart_silence(&mut self) {
        self.silent_since = Instant::now();
        self.next_check = self.silent_since + REQUEST_MARGIN;
        self.initial_processor_time = None;
    }

    /// Checks a worker that is silent during a request. The processor time distinguishes computing from waiting for the
    /// processor.
    fn check_silence(&mut self) -> Silence {
        let Some(PendingRequest { silence_limits, .. }) = self.pending.front() else { return Silence::Tolerated };
        let used = self.child.as_ref().and_then(|child| processor_time(child.id()?));
        let now = Instant::now();
        let initial = *self.initial_processor_time.get_or_insert(used.unwrap_or_default());
        let computed = used.unwrap_or_default().saturating_sub(initial);
        if computed > silence_limits.computing {
            return Silence::Computing(silence_limits.computing);
        }
        if now - self.silent_since >= silence_limits.silence {
            return Silence::TooLong(silence_limits.silence);
        }
        // The worker cannot exceed its processor time before then.
        let remaining = (silence_limits.computing - computed).max(REQUEST_MARGIN);
        self.next_check = (now + remaining).min(self.silent_since + silence_limits.silence);
        Silence::Tolerated
    }

    /// Marks the current request as started.
    fn mark_current_begun(&self) {
        let current = self.pending.front();
        if let Some(current) = current {
            current.has_begun.store(true, Ordering::Relaxed);
        }
        let mut busy_since = self.status.busy_since.lock();
        *busy_since = current.map(|_| Instant::now());
    }
}

/// The result of checking a silent worker.
enum Silence {
    /// The worker has time left.
    Tolerated,
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

async fn write_lines(mut input: WorkerInput, mut lines: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if input.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// Forwards the output of a worker, line by line, until its end or an invalid line.
async fn read_lines(output: WorkerOutput, lines: mpsc::Sender<String>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = String::new();
        let result = (&mut output).take(MAX_LINE_BYTES).read_line(&mut line).await;
        // An incomplete line was cut off by the end of the worker, or exceeds the maximum length.
        if result.is_err() || line.pop() != Some('\n') || lines.send(line).await.is_err() {
            return;
        }
    }
}
