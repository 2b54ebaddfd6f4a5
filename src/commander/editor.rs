//! Input lines: edited by a person at their terminal, or read unchanged from a script.
//!
//! A thread owns standard input and reads one line per request. Between two lines it does not read, so that a called
//! program receives its own input. Another thread prints above the line in the editor, because printing may have to
//! wait for the editor.

use std::borrow::Cow;
use std::io::{self, BufRead as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc as threads};

use parking_lot::Mutex;
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{ColorMode, CompletionType, Config, Context, Editor, ExternalPrinter as _, Helper};
use tokio::sync::mpsc;
use unicode_width::UnicodeWidthStr as _;

use super::completion::{Words, candidates};
use crate::print::{self, GOOD, STRONG};

/// The outcome of a request for a line.
#[derive(Debug)]
pub(crate) enum Typed {
    Line(String),
    /// Ctrl-C at the prompt.
    Interrupted,
    /// Ctrl-D, or the end of the input.
    Closed,
}

/// Maximum number of lines in the history.
const MAX_HISTORY_LINES: usize = 5000;

/// Maximum number of texts that wait for the printer above a line. Bounds the memory used if the terminal blocks.
const MAX_QUEUED_TEXTS: usize = 1000;

enum Request {
    Line,
    Remember(String),
}

/// Kind of input in the next line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prompt {
    Line,
    /// An answer to a question.
    Answer,
    /// A hidden answer.
    Secret,
}

/// The state of the prompt and of completion, shared with the thread that draws them.
#[derive(Debug, Default)]
pub(crate) struct EditorState {
    pub(crate) words: Mutex<Words>,
    prompt: AtomicU8,
    uses_colours: bool,
}

/// The source of lines.
#[derive(Debug)]
pub(crate) struct Lines {
    requests: threads::Sender<Request>,
    typed: mpsc::Receiver<Typed>,
    above: Option<AbovePrinter>,
    state: Arc<EditorState>,
    /// The terminal's original mode. Restored at the end, because the editor may be in the middle of a line.
    original_mode: Option<Termios>,
    /// True from the request for a line until the line arrives.
    line_requested: bool,
}

/// Printer above the line in the editor.
#[derive(Debug)]
struct AbovePrinter {
    texts: threads::Sender<String>,
    queued: Arc<AtomicUsize>,
    omitted: usize,
}

impl Lines {
    /// Creates a source of lines that a person edits, with the history in the file `history`.
    ///
    /// # Errors
    /// If the terminal is unusable.
    pub(crate) fn with_editor(history: PathBuf) -> io::Result<Self> {
        let state = Arc::new(EditorState { uses_colours: print::is_coloured(), ..EditorState::default() });
        let original_mode = tcgetattr(io::stdin())?;
        // Do not echo keys typed during a call; they appear in the next line.
        let mut mode_without_echo = original_mode.clone();
        mode_without_echo.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Drain, &mode_without_echo)?;
        let (requests, requested) = threads::channel();
        let (sender, typed) = mpsc::channel(1);
        let (ready, started) = threads::channel();
        let helper = LineHelper(state.clone());
        std::thread::spawn(move || match editor(helper, &history) {
            Ok((mut editor, printer)) => {
                // Cannot fail: the receiver waits for this message.
                let _ = ready.send(Ok(printer));
                handle_requests(&mut editor, &history, &requested, &sender);
            }
            Err(error) => {
                let _ = ready.send(Err(error));
            }
        });
        let mut printer = started.recv().map_err(io::Error::other)?.map_err(io::Error::other)?;
        let (texts, printed) = threads::channel::<String>();
        let queued = Arc::new(AtomicUsize::new(0));
        let count = queued.clone();
        std::thread::spawn(move || {
            for text in printed {
                count.fetch_sub(1, Ordering::Relaxed);
                // Ignore a failure: it means that the terminal has closed, and that also ends the input.
                let _ = printer.print(text);
            }
        });
        let above = Some(AbovePrinter { texts, queued, omitted: 0 });
        Ok(Self { requests, typed, above, state, original_mode: Some(original_mode), line_requested: false })
    }

    /// Creates a source of the unchanged lines of standard input.
    pub(crate) fn from_stdin() -> Self {
        let (requests, requested) = threads::channel();
        let (sender, typed) = mpsc::channel(1);
        std::thread::spawn(move || {
            let mut lines = io::stdin().lock().lines();
            for request in requested {
                if matches!(request, Request::Line) {
                    let line = lines.next().and_then(Result::ok).map_or(Typed::Closed, Typed::Line);
                    if sender.blocking_send(line).is_err() {
                        return;
                    }
                }
            }
        });
        Self { requests, typed, above: None, state: Arc::default(), original_mode: None, line_requested: false }
    }

    /// Returns whether a person edits the lines.
    pub(crate) fn has_editor(&self) -> bool {
        self.above.is_some()
    }

    /// Requests a line, unless one is already requested.
    pub(crate) fn request_line(&mut self) {
        if !self.line_requested {
            self.line_requested = true;
            // Ignore a failure, because the thread has ended and reported the end of the input.
            let _ = self.requests.send(Request::Line);
        }
    }

    /// Returns whether a requested line has not arrived.
    pub(crate) fn is_reading_line(&self) -> bool {
        self.line_requested
    }

    /// Returns the requested line. Cancellation-safe.
    pub(crate) async fn next(&mut self) -> Typed {
        let typed = self.typed.recv().await.unwrap_or(Typed::Closed);
        self.line_requested = false;
        typed
    }

    /// Adds a line to the history.
    pub(crate) fn remember(&self, line: &str) {
        let _ = self.requests.send(Request::Remember(line.to_owned()));
    }

    /// Prints text above the line in the editor.
    pub(crate) fn print_above(&mut self, text: String) {
        let Some(above) = &mut self.above else { return };
        if above.queued.load(Ordering::Relaxed) >= MAX_QUEUED_TEXTS {
            above.omitted += 1;
            return;
        }
        let omission_note = match std::mem::take(&mut above.omitted) {
            0 => String::new(),
            texts => format!("… {texts} lines were omitted here, because the terminal accepted no more\n"),
        };
        above.queued.fetch_add(1, Ordering::Relaxed);
        let _ = above.texts.send(omission_note + &text);
    }

    /// Discards input typed before the question, except while a line is being edited.
    pub(crate) fn discard_input(&self) {
        if self.has_editor() && !self.line_requested {
            // Ignore a failure, because the earlier input is then treated as an answer.
            let _ = tcflush(io::stdin(), QueueSelector::IFlush);
        }
    }

    /// Changes the prompt, also while a line is being edited.
    pub(crate) fn set_prompt(&self, prompt: Prompt) {
        self.state.prompt.store(prompt as u8, Ordering::Relaxed);
    }

    /// Changes the candidates of completion.
    pub(crate) fn change_words(&self, change: impl FnOnce(&mut Words)) {
        change(&mut self.state.words.lock());
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let Some(original_mode) = self.original_mode.take() else { return };
        // Ignore a failure, because the program is exiting.
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &original_mode);
        if self.line_requested {
            // The editor is in the middle of a line and has enabled bracketed paste.
            let _ = print::bytes(b"\x1b[?2004l\n");
        }
    }
}

type Edits = Editor<LineHelper, FileHistory>;

fn editor(
    helper: LineHelper,
    history: &PathBuf,
) -> rustyline::Result<(Edits, impl rustyline::ExternalPrinter + use<>)> {
    let config = Config::builder()
        .max_history_size(MAX_HISTORY_LINES)?
        .history_ignore_space(true)
        .history_ignore_dups(true)?
        .completion_type(CompletionType::List)
        // Without forced colours, the editor would not call the highlighter for prompts and secrets. The highlighter
        // itself omits colours where they are unwanted.
        .color_mode(ColorMode::Forced)
        .build();
    let mut editor = Edits::with_config(config)?;
    editor.set_helper(Some(helper));
    // The first session has no history, and an unreadable history is not fatal.
    if let Err(error) = editor.load_history(history) {
        tracing::debug!(%error, "earlier lines cannot be read");
    }
    let printer = editor.create_external_printer()?;
    Ok((editor, printer))
}

/// Handles requests until the requester is dropped.
fn handle_requests(
    editor: &mut Edits,
    history: &PathBuf,
    requested: &threads::Receiver<Request>,
    typed: &mpsc::Sender<Typed>,
) {
    for request in requested {
        let line = match request {
            Request::Remember(line) => {
                // Append, because another session may write the same history.
                let appended = editor
                    .add_history_entry(line)
                    .and_then(|new| if new { editor.append_history(history) } else { Ok(()) });
                if let Err(error) = appended {
                    tracing::debug!(%error, "a line cannot be added to the history");
                }
                continue;
            }
            Request::Line => editor.readline(PROMPT),
        };
        let line = match line {
            Ok(line) => Typed::Line(line),
            Err(ReadlineError::Interrupted) => Typed::Interrupted,
            Err(ReadlineError::Eof) => Typed::Closed,
            Err(error) => {
                tracing::debug!(%error, "the terminal cannot be read");
                Typed::Closed
            }
        };
        if typed.blocking_send(line).is_err() {
            return;
        }
    }
}

/// Prompt of a line. Has the width of [`QUESTION_PROMPT`], because the editor counts the columns of this prompt.
const PROMPT: &str = "› ";
const QUESTION_PROMPT: &str = "? ";

/// Completes words and draws the prompt.
struct LineHelper(Arc<EditorState>);

impl LineHelper {
    fn has_prompt(&self, prompt: Prompt) -> bool {
        self.0.prompt.load(Ordering::Relaxed) == prompt as u8
    }
}

impl Completer for LineHelper {
    type Candidate = String;

    fn complete(&self, line: &str, cursor: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        if self.has_prompt(Prompt::Secret) {
            return Ok((cursor, Vec::new()));
        }
        let words = self.0.words.lock();
        let (word_start, mut found) = candidates(line, cursor, &words);
        // A space follows a complete name; a reference may continue.
        if let [only] = &mut found[..]
            && !only.starts_with("::")
            && line[cursor..].is_empty()
        {
            only.push(' ');
        }
        Ok((word_start, found))
    }
}

impl Highlighter for LineHelper {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        let (text, style) = if self.has_prompt(Prompt::Line) { (prompt, GOOD) } else { (QUESTION_PROMPT, STRONG) };
        if self.0.uses_colours { format!("{style}{text}{style:#}").into() } else { text.into() }
    }

    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if !self.has_prompt(Prompt::Secret) {
            return line.into();
        }
        // One symbol per column, because the editor computes the cursor's position from the width.
        "•".repeat(line.width()).into()
    }

    fn highlight_char(&self, _: &str, _: usize, _: CmdKind) -> bool {
        self.has_prompt(Prompt::Secret)
    }
}

impl Hinter for LineHelper {
    type Hint = String;
}

impl Validator for LineHelper {}

impl Helper for LineHelper {}
