//! One terminal: what its users may ask, and the task that owns its parts.

mod excerpt;
mod ledger;
mod seat;
mod task;

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::Signal;
use steplatch_ids::TerminalId;
use tokio::sync::{broadcast, mpsc, oneshot};

pub use ledger::Stage;
pub use seat::{HandedBack, HoldKey, Holder};
pub(crate) use task::{FLOODS_AT_ONCE, Parts, run};

use crate::keys::UnknownKey;
use crate::process::{Exit, Survivor};
use crate::screen::{Cursor, Modes, Picture, Size};
use crate::wait::{Quiet, Wait, Waited};

/// A live terminal. Cheap to clone; the terminal itself stays in its task.
///
/// Every method fails with [`Gone`] once the terminal was closed.
#[derive(Debug, Clone)]
pub struct Terminal {
    id: TerminalId,
    pid: i32,
    life: Life,
    requests: mpsc::UnboundedSender<Request>,
}

/// How far a terminal's life has come, for those who hold it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Life(Arc<Stages>);

#[derive(Debug, Default)]
struct Stages {
    ended: OnceLock<Instant>,
    closed: AtomicBool,
}

impl Life {
    /// Its program has ended.
    fn end(&self) {
        // Twice is as good as once.
        let _ = self.0.ended.set(Instant::now());
    }

    /// It is being closed: nobody finds it any more.
    fn close(&self) {
        self.0.closed.store(true, Ordering::Relaxed);
    }
}

/// The terminal was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("the terminal was closed")]
pub struct Gone;

/// Why an input was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum InputError {
    /// A key has no such name; nothing was sent.
    #[error(transparent)]
    Key(#[from] UnknownKey),
    /// The program has ended, and nothing reads what is typed.
    #[error("its program has ended{}", .0.map(|exit| format!(" with exit code {}", exit.code)).unwrap_or_default())]
    Ended(Option<Exit>),
    /// So much input waits for the program to read it that no more is taken.
    #[error("its program does not read: {waiting} bytes of earlier input are still waiting")]
    Full {
        /// Bytes that wait.
        waiting: usize,
    },
    /// Somebody else holds the terminal.
    #[error("{} holds the terminal", .0.name)]
    Held(Holder),
    /// An earlier request for this step began to type it, and whether the program got all of it is unknown.
    #[error("it was begun before, and how much of it reached the program is not known")]
    InDoubt,
    /// The terminal was closed.
    #[error(transparent)]
    Gone(#[from] Gone),
}

/// What to type.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Input {
    /// Text, as it is; `\n` is Enter.
    pub text: String,
    /// Keys by name, typed after the text.
    pub keys: Vec<String>,
    /// Bytes that are sent as they are, after all else: what a person's own terminal produced.
    pub raw: Vec<u8>,
    /// When to answer: at the next prompt, or when the program has been quiet for so long.
    /// Without it, as soon as the input is accepted.
    pub settle: Option<Settle>,
    /// The step that this input belongs to. Asked for again, it is not typed again: the answer is what became of it.
    pub step: Option<String>,
    /// Proves that one holds the terminal.
    pub holder: Option<HoldKey>,
}

/// How long to wait for a program's answer to an input.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Settle {
    /// Silence that counts as an answer.
    pub quiet: Duration,
    /// The longest wait.
    pub at_most: Duration,
}

/// What came of an input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sent {
    /// Offset of the output just before the input.
    pub offset: u64,
    /// The terminal as it is now.
    pub view: View,
}

/// A terminal's screen and state at one moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct View {
    /// The rows of the screen.
    pub screen: String,
    /// Where the cursor stands.
    pub cursor: Cursor,
    /// What the program asked of keyboard and screen.
    pub modes: Modes,
    /// The title that the program set.
    pub title: String,
    /// The size.
    pub size: Size,
    /// Whether a command runs in the foreground, where that can be known.
    pub busy: Option<bool>,
    /// The exit code of the last command, where the shell tells it; of the program, once it has ended.
    pub exit_code: Option<i32>,
    /// How the program ended, once it has.
    pub exit: Option<Exit>,
    /// Process id of the program.
    pub pid: i32,
    /// Offset behind all output so far.
    pub end: u64,
    /// Somebody held the terminal and gave it back, and [`Terminal::handed_back`] was not asked since.
    pub handed_back: bool,
}

/// Which part of the output to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// From this offset on.
    From(u64),
    /// What came after the last input.
    SinceInput,
    /// The last lines.
    Tail(usize),
}

/// How much of a part to return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// Its beginning, up to so many characters.
    Head(usize),
    /// Its beginning and its end, together up to so many characters.
    HeadAndTail(usize),
}

/// A part of the output, as text. Lines look as they did when they were finished.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Excerpt {
    /// The text, or its beginning.
    pub head: String,
    /// Its end, where something between was left out.
    pub tail: Option<String>,
    /// Bytes of text that were left out, after `head`. Not characters: to count those, all of it would be read.
    pub left_out: u64,
    /// Offset behind `head`, to read on from.
    pub next: u64,
    /// Offset of the oldest output that is still held, where older output was asked for and dropped.
    pub dropped_before: Option<u64>,
}

/// What can be told of a terminal without looking at its screen.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Description {
    /// Its id.
    pub id: TerminalId,
    /// The command line that was asked for.
    pub command: String,
    /// A name besides the id.
    pub name: Option<String>,
    /// Who opened it.
    pub opened_by: Option<String>,
    /// When it was opened.
    pub created: SystemTime,
    /// When it was last typed into or printed.
    pub last_activity: SystemTime,
    /// Process id of the program.
    pub pid: i32,
    /// The title that the program set.
    pub title: String,
    /// The size.
    pub size: Size,
    /// Whether a command runs in the foreground, where that can be known.
    pub busy: Option<bool>,
    /// As in [`View::exit_code`].
    pub exit_code: Option<i32>,
    /// How the program ended, once it has.
    pub exit: Option<Exit>,
    /// Clients that are attached.
    pub viewers: usize,
    /// Who holds it, if somebody does.
    pub holder: Option<Holder>,
}

/// How a terminal is to be closed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Closing {
    /// The signal to begin with; SIGHUP without one. SIGKILL asks nobody.
    pub signal: Option<Signal>,
}

/// What closing a terminal came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Closed {
    /// How the program ended.
    pub exit: Option<Exit>,
    /// Processes that could not be ended.
    pub survivors: Vec<Survivor>,
}

/// What an attached client sees first, and then as it comes.
#[derive(Debug)]
pub struct Attached {
    /// Escape sequences that show the screen as it is.
    pub snapshot: String,
    /// The size of the screen.
    pub size: Size,
    /// The output from then on, as the program wrote it.
    pub output: broadcast::Receiver<Output>,
}

/// A portion of output, or its end.
#[derive(Debug, Clone)]
pub enum Output {
    /// Bytes as the program wrote them.
    Bytes(Arc<[u8]>),
    /// The screen has another size now.
    Resized(Size),
    /// The program has ended.
    Ended(Exit),
}

#[derive(Debug)]
pub(crate) enum Request {
    Send(Input, oneshot::Sender<Result<Sent, InputError>>),
    Wait(Wait, u64, oneshot::Sender<(Waited, View)>),
    /// Whoever asked for the wait of this number no longer listens.
    Forget(u64),
    /// The wait ends at the first prompt, quiet or end.
    Ready(Quiet, Duration, oneshot::Sender<View>),
    View(bool, oneshot::Sender<View>),
    Picture(oneshot::Sender<Picture>),
    Read(Part, Limit, oneshot::Sender<Excerpt>),
    Describe(oneshot::Sender<Description>),
    Resize(Size, oneshot::Sender<()>),
    Signal(Signal, oneshot::Sender<Result<(), Option<Exit>>>),
    Attach(oneshot::Sender<Attached>),
    Hold(Holder, HoldKey, oneshot::Sender<Result<(), Holder>>),
    GiveBack(HoldKey, oneshot::Sender<()>),
    HandedBack(oneshot::Sender<Option<HandedBack>>),
    Stage(String, oneshot::Sender<Option<Stage>>),
    Close(Closing, oneshot::Sender<Closed>),
}

impl Terminal {
    pub(crate) fn new(id: TerminalId, pid: i32, life: Life, requests: mpsc::UnboundedSender<Request>) -> Self {
        Self { id, pid, life, requests }
    }

    /// Returns the process id of its program.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether it is still open; one that is being opened is not yet.
    pub(crate) fn is_open(&self) -> bool {
        !self.requests.is_closed() && !self.life.0.closed.load(Ordering::Relaxed)
    }

    /// When its program ended, if it has.
    pub(crate) fn ended(&self) -> Option<Instant> {
        self.life.0.ended.get().copied()
    }

    /// Returns its id.
    #[must_use]
    pub fn id(&self) -> &TerminalId {
        &self.id
    }

    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, Gone> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(request(reply)).map_err(|_| Gone)?;
        answer.await.map_err(|_| Gone)
    }

    /// Types into the terminal, and returns when the program has answered as far as `input.settle` says.
    ///
    /// # Errors
    /// When a key is unknown, the program has ended, or it does not read; nothing was typed then.
    pub async fn send(&self, input: Input) -> Result<Sent, InputError> {
        self.ask(|reply| Request::Send(input, reply)).await?
    }

    /// Waits until what `wait` names happens. Dropping the future ends the wait.
    ///
    /// # Errors
    /// When the terminal was closed.
    pub async fn wait(&self, wait: Wait) -> Result<(Waited, View), Gone> {
        use std::sync::atomic::AtomicU64;
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let forget = ForgetOnDrop { terminal: self, number };
        let waited = self.ask(|reply| Request::Wait(wait, number, reply)).await;
        std::mem::forget(forget);
        waited
    }

    /// Waits until a freshly opened program can be typed into: at its first prompt, or when it falls silent.
    ///
    /// # Errors
    /// When the terminal was closed.
    pub async fn ready(&self, quiet: Quiet, at_most: Duration) -> Result<View, Gone> {
        self.ask(|reply| Request::Ready(quiet, at_most, reply)).await
    }

    /// Returns the screen and state as of now; `colours` keeps the screen's colours.
    ///
    /// # Errors
    /// When the terminal was closed.
    pub async fn view(&self, colours: bool) -> Result<View, Gone> {
        self.ask(|reply| Request::View(colours, reply)).await
    }

    /// Returns the cells of the screen as of now, with their colours.
    ///
    /// # Errors
    /// When the terminal was closed.
    pub async fn picture(&self) -> Result<Picture, Gone> {
        self.ask(Request::Picture).await
    }

    /// Returns a part of the output, as much of it as `limit` allows.
    ///
    /// # Errors
    /// When the terminal was closed.
    pub async fn read(&self, part: Part, limit: Limit) -> Result<Excerpt, Gone> {
        self.ask(|reply| Request::Read(part, limit, reply)).await
    }

    /// Returns what can be told without looking at the screen.
    ///
    /// # Errors
    /// When the terminal was closed.
    pub async fn describe(&self) -> Result<Description, Gone> {
        self.ask(Request::Describe).await
    }

    /// Changes the size.
    ///
    /// # Errors
    /// When the terminal was closed.
    pub async fn resize(&self, size: Size) -> Result<(), Gone> {
        self.ask(|reply| Request::Resize(size, reply)).await
    }

    /// Sends a signal to the foreground program.
    ///
    /// # Errors
    /// When the terminal was closed; inside, how the program had ended already.
    pub async fn signal(&self, signal: Signal) -> Result<Result<(), Option<Exit>>, Gone> {
        self.ask(|reply| Request::Signal(signal, reply)).await
    }

    /// Joins the terminal: its screen now, its output from now on.
    ///
    /// # Errors
    /// When the terminal was closed.
    pub async fn attach(&self) -> Result<Attached, Gone> {
        self.ask(Request::Attach).await
    }

    /// Takes the writer's seat: until it is given back, only inputs with `key` are taken. Taking it again with
    /// the same key changes nothing.
    ///
    /// # Errors
    /// When the terminal was closed; inside, who holds it already.
    pub async fn hold(&self, holder: Holder, key: HoldKey) -> Result<Result<(), Holder>, Gone> {
        self.ask(|reply| Request::Hold(holder, key, reply)).await
    }

    /// Gives the writer's seat back, if `key` is what it was taken with.
    ///
    /// # Errors
    /// When the terminal was closed.
    pub async fn give_back(&self, key: HoldKey) -> Result<(), Gone> {
        self.ask(|reply| Request::GiveBack(key, reply)).await
    }

    /// Returns who held the terminal since this was last asked, if somebody did and gave it back.
    ///
    /// # Errors
    /// When the terminal was closed.
    pub async fn handed_back(&self) -> Result<Option<HandedBack>, Gone> {
        self.ask(Request::HandedBack).await
    }

    /// Returns how far the input of a step has come; none if no such input was ever accepted.
    ///
    /// # Errors
    /// When the terminal was closed.
    pub async fn stage(&self, step: String) -> Result<Option<Stage>, Gone> {
        self.ask(|reply| Request::Stage(step, reply)).await
    }

    /// Ends everything in the terminal and closes it.
    ///
    /// # Errors
    /// When the terminal was closed already.
    pub async fn close(&self, closing: Closing) -> Result<Closed, Gone> {
        self.ask(|reply| Request::Close(closing, reply)).await
    }
}

/// Tells the terminal that nobody listens for a wait any more, unless it is forgotten first.
struct ForgetOnDrop<'a> {
    terminal: &'a Terminal,
    number: u64,
}

impl Drop for ForgetOnDrop<'_> {
    fn drop(&mut self) {
        // A terminal that is gone has forgotten it.
        let _ = self.terminal.requests.send(Request::Forget(self.number));
    }
}

/// The open terminals of a process, by id.
pub(crate) type Open = HashMap<TerminalId, Terminal>;
