//! One worker: its process, and who waits for an answer of it.

use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use steplatch_python_api::Limits;
use steplatch_python_api::client::{Conversation, ConversationError, Heard, Lost};
use steplatch_python_api::wire::{Ask, LONGEST, Reply};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::{OsString, PathBuf};

/// How long somebody waits for a worker that is at something else.
const PATIENCE: Duration = Duration::from_millis(100);

/// What a question may take besides the computing of a function: compiling its file, and the answer itself.
const MARGIN: Duration = Duration::from_secs(1);

/// How workers are started.
#[derive(Debug, Clone)]
pub enum WorkerStarter {
    /// As a process that serves on its standard input and output.
    Program {
        /// The program, usually this very one.
        program: PathBuf,
        /// What makes it a worker.
        arguments: Vec<OsString>,
    },
    /// Not at all: nothing is executed here.
    Nobody,
}

/// Why a worker does not answer any more.
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

    /// One that answered something else than it was asked.
    pub(super) fn senseless(reply: &Reply) -> Self {
        let reply: String = format!("{reply:?}").chars().take(200).collect();
        Self::new(format!("a worker answered something else than it was asked: {reply}"))
    }

    /// Whether it was at what was asked when it ended, rather than at something before it.
    #[must_use]
    pub fn was_busy_with_this(&self) -> bool {
        self.busy_with_this
    }

    /// Whether what was asked computed for longer than it may, in one operation that the interpreter does not interrupt.
    #[must_use]
    pub fn overran(&self) -> bool {
        self.overran && self.busy_with_this
    }
}

/// A worker that was started. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Worker {
    questions: mpsc::UnboundedSender<WorkerRequest>,
    known: Arc<WorkerStatus>,
    /// Whether it is for executions that have never overrun their time.
    is_reserved: bool,
}

/// What is known of a worker from outside of its task.
#[derive(Debug, Default)]
struct WorkerStatus {
    gone: AtomicBool,
    open: AtomicUsize,
    memory: AtomicUsize,
    /// Since when it is at one question.
    at_it: Mutex<Option<Instant>>,
}

/// Who waits for an answer, if anybody does.
type ReplySender = Option<oneshot::Sender<Result<Reply, WorkerExited>>>;

struct WorkerRequest {
    ask: Ask,
    times: Times,
    answer: ReplySender,
    /// Whether it is the one that the worker is at, or was.
    begun: Arc<AtomicBool>,
}

/// How long a worker may be silent over a question.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// Of the processor's time, between two signs. The interpreter counts it between operations, so one that takes more is a single
    /// operation.
    computing: Duration,
    /// Of any time, also that of a machine with too much to do.
    silence: Duration,
}

impl Times {
    fn of(ask: &Ask, limits: &Limits) -> Self {
        let computing = match ask {
            // What was fast enough once may be slower now.
            Ask::Begin(begin) if !begin.history.is_empty() => limits.longest_silence(),
            _ => limits.time,
        };
        Self { computing, silence: limits.longest_silence() }
    }
}

/// A question that is not answered yet.
struct PendingRequest {
    times: Times,
    answer: ReplySender,
    begun: Arc<AtomicBool>,
}

impl Worker {
    pub(super) fn start(starter: &WorkerStarter, is_reserved: bool) -> Result<Self, WorkerExited> {
        let WorkerStarter::Program { program, arguments } = starter else {
            return Err(WorkerExited::new("functions are not executed by this daemon"));
        };
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir("/")
            // It needs nothing of anybody, and gets nothing.
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| {
                WorkerExited::new(format!("a process to execute functions could not be started: {error}"))
            })?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(WorkerExited::new("the pipes of a worker are gone"));
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

    /// Returns how many questions it has not answered yet.
    pub(super) fn open(&self) -> usize {
        self.known.open.load(Ordering::Relaxed)
    }

    /// Returns the bytes that it had in use when it answered last.
    pub(super) fn memory(&self) -> usize {
        self.known.memory.load(Ordering::Relaxed)
    }

    /// Whether it is at one question for longer than others wait for it.
    pub(super) fn is_held_up(&self) -> bool {
        let at_it = self.known.at_it.lock().unwrap_or_else(PoisonError::into_inner);
        at_it.is_some_and(|since| since.elapsed() > PATIENCE)
    }

    /// Asks, and waits for the answer; `limits` tell how long it may be silent over it. `None` when it is at something
    /// else for so long that somebody else had better be asked.
    pub(super) async fn ask(&self, ask: Ask, limits: &Limits) -> Result<Option<Reply>, WorkerExited> {
        let (answer, mut answered) = oneshot::channel();
        let begun = Arc::new(AtomicBool::new(false));
        let times = Times::of(&ask, limits);
        self.put(WorkerRequest { ask, times, answer: Some(answer), begun: begun.clone() });
        loop {
            tokio::select! {
                answered = &mut answered => {
                    return answered.unwrap_or_else(|_| Err(WorkerExited::new("the worker ended"))).map(Some);
                }
                () = tokio::time::sleep(PATIENCE) => {
                    if !begun.load(Ordering::Relaxed) && self.is_held_up() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Tells it to forget an execution.
    pub(super) fn forget(&self, execution: u64) {
        let ask = Ask::Forget { execution };
        let times = Times::of(&ask, &Limits::default());
        self.put(WorkerRequest { ask, times, answer: None, begun: Arc::default() });
    }

    fn put(&self, question: WorkerRequest) {
        self.known.open.fetch_add(1, Ordering::Relaxed);
        // One that is gone lets go of the question, which is an answer too.
        let _ = self.questions.send(question);
    }
}

/// What keeps a worker's process.
struct Task {
    child: Child,
    conversation: Conversation,
    /// What was asked and is not answered, in order, as in the conversation.
    open: VecDeque<PendingRequest>,
    /// Written by a task of its own: a worker that is busy does not read, and one that writes must be read.
    lines: mpsc::UnboundedSender<Vec<u8>>,
    heard: mpsc::Receiver<String>,
    /// When it was heard of last, or was asked something while it had nothing to do.
    sign: Instant,
    /// When it is looked at next, if it stays silent.
    look_at: Instant,
    /// The processor's time that it had used at the first look since.
    used: Option<Duration>,
    known: Arc<WorkerStatus>,
}

impl Task {
    fn new(child: Child, input: ChildStdin, output: ChildStdout, known: Arc<WorkerStatus>) -> Self {
        let (lines, to_write) = mpsc::unbounded_channel();
        let (read, heard) = mpsc::channel(1);
        tokio::spawn(write(input, to_write));
        tokio::spawn(listen(output, read));
        let (conversation, open) = (Conversation::new(), VecDeque::new());
        let now = Instant::now();
        Self { child, conversation, open, lines, heard, sign: now, look_at: now, used: None, known }
    }

    async fn run(mut self, mut asked: mpsc::UnboundedReceiver<WorkerRequest>) {
        let mut overran = false;
        let why = loop {
            tokio::select! {
                question = asked.recv() => match question {
                    Some(question) => self.ask(question),
                    // Nobody can ask any more.
                    None => return,
                },
                line = self.heard.recv() => match line.map(|line| self.take(&line)) {
                    Some(Ok(())) => {}
                    Some(Err(error)) => break Lost::from(error).to_string(),
                    None => match self.child.wait().await {
                        Ok(status) => break Lost::of(status).to_string(),
                        Err(error) => break Lost::from(error).to_string(),
                    },
                },
                () = tokio::time::sleep_until(self.look_at), if !self.open.is_empty() => match self.look() {
                    Silence::Borne => {}
                    Silence::Computing(seconds) => {
                        overran = true;
                        break format!("it computed for more than {seconds} s in one operation");
                    }
                    Silence::TooLong(seconds) => break format!("the worker said nothing for {seconds} s and was killed"),
                }
            }
        };
        self.known.gone.store(true, Ordering::Relaxed);
        let _ = self.child.start_kill();
        // Whoever asked meanwhile is told by the end of the channel.
        for (at, PendingRequest { answer, .. }) in self.open.drain(..).enumerate() {
            if let Some(answer) = answer {
                let _ = answer.send(Err(WorkerExited { why: why.clone(), busy_with_this: at == 0, overran }));
            }
        }
        let _ = self.child.wait().await;
    }

    fn ask(&mut self, question: WorkerRequest) {
        if self.open.is_empty() {
            self.note_sign();
        }
        let (_, line) = self.conversation.ask(question.ask);
        let WorkerRequest { times, answer, begun, .. } = question;
        self.open.push_back(PendingRequest { times, answer, begun });
        if self.open.len() == 1 {
            self.begins();
        }
        // One that does not read any more is noticed by its end.
        let _ = self.lines.send(line);
    }

    fn take(&mut self, line: &str) -> Result<(), ConversationError> {
        self.note_sign();
        if let Heard::Reply(_, reply) = self.conversation.heard(line)? {
            self.known.open.fetch_sub(1, Ordering::Relaxed);
            self.known.memory.store(self.conversation.memory(), Ordering::Relaxed);
            if let Some(PendingRequest { answer: Some(answer), .. }) = self.open.pop_front() {
                // Whoever asked may have gone.
                let _ = answer.send(Ok(reply));
            }
            self.begins();
        }
        Ok(())
    }

    fn note_sign(&mut self) {
        self.sign = Instant::now();
        self.look_at = self.sign + MARGIN;
        self.used = None;
    }

    /// Looks at a worker that is silent over a question. The processor's time that it used distinguishes one that computes from one
    /// that waits for the processor.
    fn look(&mut self) -> Silence {
        let Some(PendingRequest { times, .. }) = self.open.front() else { return Silence::Borne };
        let (now, used) = (Instant::now(), self.child.id().and_then(processor_time));
        let since = *self.used.get_or_insert(used.unwrap_or_default());
        let computed = used.unwrap_or_default().saturating_sub(since);
        if computed > times.computing {
            return Silence::Computing(times.computing.as_secs_f64());
        }
        if now - self.sign >= times.silence {
            return Silence::TooLong(times.silence.as_secs_f64());
        }
        // No earlier can it have computed so long.
        let left = (times.computing - computed).max(MARGIN);
        self.look_at = (now + left).min(self.sign + times.silence);
        Silence::Borne
    }

    /// Notes which question it is at now.
    fn begins(&self) {
        let first = self.open.front();
        if let Some(first) = first {
            first.begun.store(true, Ordering::Relaxed);
        }
        let mut at_it = self.known.at_it.lock().unwrap_or_else(PoisonError::into_inner);
        *at_it = first.map(|_| Instant::now());
    }
}

/// What a look at a silent worker found.
enum Silence {
    /// It has time left.
    Borne,
    /// It used so many seconds of the processor's time.
    Computing(f64),
    /// It said nothing for so many seconds, and computed less.
    TooLong(f64),
}

/// Returns the processor's time that a process has used.
fn processor_time(process: u32) -> Option<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(process.try_into().ok()?)).ok()?;
    Some(clock.now().ok()?.into())
}

async fn write(mut input: ChildStdin, mut lines: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if input.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// Passes on what a worker says, line by line, until its end or a line that makes no sense.
async fn listen(output: ChildStdout, read: mpsc::Sender<String>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = String::new();
        let taken = (&mut output).take(LONGEST).read_line(&mut line).await;
        // A line without an end is one that somebody died in, or a longer one than workers say.
        if taken.is_err() || line.pop() != Some('\n') || read.send(line).await.is_err() {
            return;
        }
    }
}
