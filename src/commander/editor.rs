//! Input lines: edited by a person at their terminal, or read unchanged from a script.
//!
//! A thread owns standard input and reads one line per request. Between two lines nothing reads, so that input for a
//! called program stays there. Another thread prints above the line in the editor, because printing may have to wait
//! for the editor.

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

/// Maximum number of texts waiting for the printer above a line, so that a blocked terminal does not accumulate them
/// forever.
const MAX_WAITING_TEXTS: usize = 1000;

enum Ask {
    Line,
    Remember(String),
}

/// The purpose of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prompt {
    Line,
    /// A question needs an answer.
    Answer,
    /// The input is hidden.
    Secret,
}

/// The state of the prompt and of completion, shared with the thread that draws them.
#[derive(Debug, Default)]
pub(crate) struct EditorState {
    pub(crate) words: Mutex<Words>,
    prompt: AtomicU8,
    coloured: bool,
}

/// The source of lines.
#[derive(Debug)]
pub(crate) struct Lines {
    asks: threads::Sender<Ask>,
    typed: mpsc::Receiver<Typed>,
    above: Option<AbovePrinter>,
    state: Arc<EditorState>,
    /// The terminal's original mode, restored at the end, because the editor may be in the middle of a line then.
    before: Option<Termios>,
    /// True from the request for a line until its arrival.
    line_requested: bool,
}

/// Printer above the line in the editor.
#[derive(Debug)]
struct AbovePrinter {
    texts: threads::Sender<String>,
    waiting: Arc<AtomicUsize>,
    left_out: usize,
}

impl Lines {
    /// Returns lines that a person edits, with a history in `history`.
    ///
    /// # Errors
    /// If the terminal is unusable.
    pub(crate) fn edited(history: PathBuf) -> io::Result<Self> {
        let state = Arc::new(EditorState { coloured: print::coloured(), ..EditorState::default() });
        let before = tcgetattr(io::stdin())?;
        // Keys typed during a call appear once there is a line for them.
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Drain, &silent)?;
        let (asks, asked) = threads::channel();
        let (sender, typed) = mpsc::channel(1);
        let (ready, started) = threads::channel();
        let helper = LineHelper(state.clone());
        std::thread::spawn(move || match editor(helper, &history) {
            Ok((mut editor, printer)) => {
                // The receiver waits for this message.
                let _ = ready.send(Ok(printer));
                edits(&mut editor, &history, &asked, &sender);
            }
            Err(error) => {
                let _ = ready.send(Err(error));
            }
        });
        let mut printer = started.recv().map_err(io::Error::other)?.map_err(io::Error::other)?;
        let (texts, printed) = threads::channel::<String>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let count = waiting.clone();
        std::thread::spawn(move || {
            for text in printed {
                count.fetch_sub(1, Ordering::Relaxed);
                // A failed print means that the terminal has closed, which also ends the input.
                let _ = printer.print(text);
            }
        });
        let above = Some(AbovePrinter { texts, waiting, left_out: 0 });
        Ok(Self { asks, typed, above, state, before: Some(before), line_requested: false })
    }

    /// Returns the lines of standard input, unchanged.
    pub(crate) fn plain() -> Self {
        let (asks, asked) = threads::channel();
        let (sender, typed) = mpsc::channel(1);
        std::thread::spawn(move || {
            let mut lines = io::stdin().lock().lines();
            for ask in asked {
                if matches!(ask, Ask::Line) {
                    let line = lines.next().and_then(Result::ok).map_or(Typed::Closed, Typed::Line);
                    if sender.blocking_send(line).is_err() {
                        return;
                    }
                }
            }
        });
        Self { asks, typed, above: None, state: Arc::default(), before: None, line_requested: false }
    }

    /// Returns whether a person edits the lines.
    pub(crate) fn has_editor(&self) -> bool {
        self.above.is_some()
    }

    /// Requests a line, without an earlier request for one.
    pub(crate) fn ask(&mut self) {
        if !self.line_requested {
            self.line_requested = true;
            // An ended thread has reported the end of the input.
            let _ = self.asks.send(Ask::Line);
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
        let _ = self.asks.send(Ask::Remember(line.to_owned()));
    }

    /// Prints a text above the line in the editor.
    pub(crate) fn print_above(&mut self, text: String) {
        let Some(above) = &mut self.above else { return };
        if above.waiting.load(Ordering::Relaxed) >= MAX_WAITING_TEXTS {
            above.left_out += 1;
            return;
        }
        let missing = match std::mem::take(&mut above.left_out) {
            0 => String::new(),
            texts => format!("… {texts} lines were left out here, because the terminal took no more\n"),
        };
        above.waiting.fetch_add(1, Ordering::Relaxed);
        let _ = above.texts.send(missing + &text);
    }

    /// Discards input from before the question, except while the editor has a line.
    pub(crate) fn forget_typed(&self) {
        if self.has_editor() && !self.line_requested {
            // If the terminal refuses, the earlier input counts as an answer.
            let _ = tcflush(io::stdin(), QueueSelector::IFlush);
        }
    }

    /// Shows the purpose of a line in the prompt, also during its input.
    pub(crate) fn show(&self, prompt: Prompt) {
        self.state.prompt.store(prompt as u8, Ordering::Relaxed);
    }

    /// Changes the candidates of completion.
    pub(crate) fn change_words(&self, change: impl FnOnce(&mut Words)) {
        change(&mut self.state.words.lock());
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let Some(before) = self.before.take() else { return };
        // Ignores a failure, because the program is exiting.
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &before);
        if self.line_requested {
            // The editor is in the middle of a line and has enabled bracketed paste.
            let _ = print::bytes(b"\x1b[?2004l\n");
        }
    }
}

type Edits = Editor<LineHelper, FileHistory>;

fn editor(aid: LineHelper, history: &PathBuf) -> rustyline::Result<(Edits, impl rustyline::ExternalPrinter + use<>)> {
    let config = Config::builder()
        .max_history_size(MAX_HISTORY_LINES)?
        .history_ignore_space(true)
        .history_ignore_dups(true)?
        .completion_type(CompletionType::List)
        // Without colours the editor would not call the highlighter for prompts and secrets; this program decides about
        // colours.
        .color_mode(ColorMode::Forced)
        .build();
    let mut editor = Edits::with_config(config)?;
    editor.set_helper(Some(aid));
    // The first session has no history, and an unreadable one is not fatal.
    if let Err(error) = editor.load_history(history) {
        tracing::debug!(%error, "earlier lines cannot be read");
    }
    let printer = editor.create_external_printer()?;
    Ok((editor, printer))
}

/// Reads a line per request, until the requester is dropped.
fn edits(editor: &mut Edits, history: &PathBuf, asked: &threads::Receiver<Ask>, typed: &mpsc::Sender<Typed>) {
    for ask in asked {
        let line = match ask {
            Ask::Remember(line) => {
                // Appended, because another session may write the same history.
                let kept = editor
                    .add_history_entry(line)
                    .and_then(|new| if new { editor.append_history(history) } else { Ok(()) });
                if let Err(error) = kept {
                    tracing::debug!(%error, "a line cannot be added to the history");
                }
                continue;
            }
            Ask::Line => editor.readline(PROMPT),
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

/// As wide as the other prompt, because the editor counts the columns of the first.
const PROMPT: &str = "› ";
const QUESTION: &str = "? ";

/// Completes words and draws the prompt.
struct LineHelper(Arc<EditorState>);

impl LineHelper {
    fn asks_for(&self, prompt: Prompt) -> bool {
        self.0.prompt.load(Ordering::Relaxed) == prompt as u8
    }
}

impl Completer for LineHelper {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        if self.asks_for(Prompt::Secret) {
            return Ok((at, Vec::new()));
        }
        let words = self.0.words.lock();
        let (begins, mut found) = candidates(line, at, &words);
        // A blank follows a complete name; a reference may continue.
        if let [only] = &mut found[..]
            && !only.starts_with("::")
            && line[at..].is_empty()
        {
            only.push(' ');
        }
        Ok((begins, found))
    }
}

impl Highlighter for LineHelper {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        let (text, style) = if self.asks_for(Prompt::Line) { (prompt, GOOD) } else { (QUESTION, STRONG) };
        if self.0.coloured { format!("{style}{text}{style:#}").into() } else { text.into() }
    }

    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if !self.asks_for(Prompt::Secret) {
            return line.into();
        }
        // As wide as the input, because the cursor's position follows from it.
        "•".repeat(line.width()).into()
    }

    fn highlight_char(&self, _: &str, _: usize, _: CmdKind) -> bool {
        self.asks_for(Prompt::Secret)
    }
}

impl Hinter for LineHelper {
    type Hint = String;
}

impl Validator for LineHelper {}

impl Helper for LineHelper {}
