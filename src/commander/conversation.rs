//! The main loop of the conversation: it reads lines, executes them, and shows events.
//!
//! Either the person types a line or the loop waits for a call in the foreground; other calls continue in the
//! background and appear above the line. The loop waits for a call until it ends, exceeds a time limit, or asks a
//! question, which needs a line.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::Value;
use steplatch_protocol::{DaemonPaths, ReconnectingClient};
use tokio::signal::unix::{SignalKind, signal};

use super::editor::{Lines, Typed};
use super::line::{Kind, Target};
use super::order::{self, Order};
use super::reference::{self, PinnedRefs};
use super::screen::Screen;
use super::session::{ParsedLine, PendingText, ResolvedText, Session, State};
use super::work::{Outcome, Work};
use crate::failure::Failure;
use crate::print::{self, visible};
use crate::run_view::{Shown, View};

/// Time after which a call moves to the background.
pub(super) const BACKGROUND_DELAY: Duration = Duration::from_secs(2);

/// The exit code of a script whose last line waits for an answer.
pub(super) const WAITING: u8 = 3;

/// The exit code of an interrupted script, as in shells.
const INTERRUPTED: u8 = 130;

/// A call in the foreground.
#[derive(Debug, Clone, Copy)]
pub(super) struct Foreground {
    pub(super) number: usize,
    /// The time at which it moves to the background; `None` waits for its end.
    until: Option<Instant>,
    /// True if the person has requested its end.
    pub(super) ending: bool,
}

/// A conversation of a person or a script with the daemon.
#[derive(Debug)]
pub(crate) struct Conversation<'a> {
    pub(super) place: &'a DaemonPaths,
    pub(super) session: Session,
    pub(super) work: Work,
    pub(super) screen: Screen,
    /// The views of runs, by the number of their call.
    pub(super) views: HashMap<usize, Shown>,
    pub(super) foreground: Option<Foreground>,
    /// The exit code of the last line.
    pub(super) code: u8,
    pub(super) over: bool,
    /// True if the conversation ends once it awaits no call.
    stopping: bool,
    /// Lines with references that have their results now.
    pub(super) later: VecDeque<(PendingText, Value)>,
    /// The run with a question left open by Ctrl-C, and when.
    pub(super) left: Option<(String, Instant)>,
}

impl<'a> Conversation<'a> {
    pub(crate) fn new(place: &'a DaemonPaths, daemon: ReconnectingClient, lines: Lines) -> Self {
        Self {
            place,
            session: Session::default(),
            work: Work::new(daemon),
            screen: Screen { lines },
            views: HashMap::new(),
            foreground: None,
            code: 0,
            over: false,
            stopping: false,
            later: VecDeque::new(),
            left: None,
        }
    }

    /// Runs until the person leaves or the input ends. Returns the exit code of the last line.
    pub(crate) async fn converse(mut self) -> Result<ExitCode, Failure> {
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut terminated = signal(SignalKind::terminate())?;
        let mut hung_up = signal(SignalKind::hangup())?;
        let mut ticks = tokio::time::interval(Duration::from_millis(100));
        if self.screen.is_interactive() {
            self.greets().await?;
        }
        while !self.over {
            if let Some((pending, value)) = self.later.pop_front() {
                tokio::select! {
                    done = self.performs(pending, value) => if let Err(failure) = done {
                        self.fails(failure.message(), failure.code())?;
                    },
                    _ = interrupted.recv() => self.screen.print_remark("interrupted")?,
                }
                continue;
            }
            if self.foreground.is_none() {
                if self.stopping {
                    break;
                }
                self.screen.lines.ask();
            }
            let until = self.foreground.and_then(|foreground| foreground.until);
            tokio::select! {
                typed = self.screen.lines.next(), if self.screen.lines.is_reading_line() => tokio::select! {
                    done = self.reads(typed) => done?,
                    _ = interrupted.recv() => self.screen.print_remark("interrupted")?,
                },
                news = self.work.next() => self.handle_event(news)?,
                () = patience(until) => self.move_to_background()?,
                _ = interrupted.recv() => self.interrupts()?,
                _ = terminated.recv() => self.over = true,
                _ = hung_up.recv() => self.over = true,
                _ = ticks.tick(), if self.moves() => self.moves_on()?,
            }
        }
        self.leaves()
    }

    /// Shows the targets of calls, and the open questions.
    async fn greets(&mut self) -> Result<(), Failure> {
        let catalog = self.work.catalog().await?;
        let count = |kind: Kind| match catalog.names(kind).len() {
            1 => format!("1 {}", kind.noun()),
            count => format!("{count} {}s", kind.noun()),
        };
        let counts = Kind::ALL.map(count).join(", ");
        self.screen.print_remark(&format!("{counts} here; /help teaches, Ctrl-D leaves"))?;
        self.screen.lines.change_words(|words| words.catalog = catalog);
        for (_, gate) in self.work.questions().await? {
            self.session.add_question(gate, None, false);
        }
        self.show_question()?;
        Ok(())
    }

    async fn reads(&mut self, typed: Typed) -> Result<(), Failure> {
        let line = match typed {
            Typed::Line(line) => {
                self.left = None;
                line
            }
            Typed::Closed => {
                self.over = true;
                return Ok(());
            }
            Typed::Interrupted => return Ok(self.leaves_questions()?),
        };
        let meaning = self.session.read(&line);
        // The history omits answers, which may be confidential, and `/quit`.
        let passes = match &meaning {
            ParsedLine::Answer(..) => true,
            ParsedLine::Order(word, _) => matches!(order::called(word), Ok(Order::Answer | Order::Quit)),
            _ => false,
        };
        let to_target = matches!(meaning, ParsedLine::Call(..));
        if !passes && (to_target || line.trim_start().starts_with(['@', '#', '%', '/', ':'])) {
            self.screen.lines.remember(&line);
        }
        match self.does(meaning).await {
            Ok(()) => Ok(()),
            Err(failure) => Ok(self.fails(failure.message(), failure.code())?),
        }
    }

    async fn does(&mut self, meaning: ParsedLine) -> Result<(), Failure> {
        let (pending, text) = match meaning {
            ParsedLine::Nothing => return Ok(()),
            ParsedLine::Misread(error) => return Err(Failure::usage(error)),
            ParsedLine::Call(target, text) => return self.calls(&target, text, false).await,
            ParsedLine::Quietly(target, text) => return self.calls(&target, text, true).await,
            ParsedLine::Order(word, text) => (PendingText::Order(word), text),
            ParsedLine::Look(number, text) => (PendingText::Look(number), text),
            ParsedLine::Answer(gate, text) => (PendingText::Answer(gate), text),
        };
        self.code = 0;
        match self.session.filled(&text).map_err(Failure::usage)? {
            ResolvedText::Ready(value) => self.performs(pending, value).await,
            ResolvedText::Waits(numbers) => {
                self.session.waits(pending, text);
                self.code = WAITING;
                Ok(self.screen.print_remark(&format!("this waits for {}", still_coming(&numbers)))?)
            }
        }
    }

    async fn performs(&mut self, pending: PendingText, value: Value) -> Result<(), Failure> {
        match pending {
            PendingText::Call(number) => self.starts(number, value),
            PendingText::Order(word) => return self.carries_out(&word, &argument_text(&value)).await,
            PendingText::Look(number) => self.screen.print_output(number, &value)?,
            PendingText::Answer(gate) => return self.answers(&gate, &reference::value_to_text(&value)).await,
        }
        Ok(())
    }

    /// Calls a target, and waits for it unless `quietly`.
    async fn calls(&mut self, target: &Target, text: PinnedRefs, quietly: bool) -> Result<(), Failure> {
        let catalog = self.work.catalog().await?;
        let target = catalog.resolve_target(target);
        self.screen.lines.change_words(|words| words.catalog = catalog);
        let target = target.map_err(Failure::usage)?;
        let filled = self.session.filled(&text).map_err(Failure::usage)?;
        self.code = 0;
        let shown = visible(&target.to_string());
        let number = self.session.begins(target, true, quietly, Instant::now());
        let names = self.session.names().into_iter().map(str::to_owned).collect();
        self.screen.lines.change_words(|words| words.called = names);
        match filled {
            ResolvedText::Ready(value) => self.starts(number, value),
            ResolvedText::Waits(numbers) => {
                self.session.waits(PendingText::Call(number), text);
                self.screen.print_remark(&format!("::{number} {shown} waits for {}", still_coming(&numbers)))?;
                // The awaited call may need an answer, which is a line.
                if !self.screen.is_interactive() {
                    self.code = WAITING;
                    return Ok(());
                }
            }
        }
        if quietly {
            self.screen.print_remark(&format!("::{number} {shown} runs in the background"))?;
        } else {
            self.watches(number, self.screen.is_interactive().then_some(BACKGROUND_DELAY));
        }
        Ok(())
    }

    /// Puts a call in the foreground, for as long as `patience`.
    pub(super) fn watches(&mut self, number: usize, patience: Option<Duration>) {
        let until = patience.map(|patience| Instant::now() + patience);
        self.foreground = Some(Foreground { number, until, ending: false });
    }

    pub(super) fn starts(&mut self, number: usize, value: Value) {
        let target = self.session.entry(number).target.clone();
        self.session.under_way(number, value.clone(), Instant::now());
        if target.kind == Kind::Workflow {
            self.views.insert(number, Shown::new(io::stdout().is_terminal()));
        }
        self.work.begin(number, &target, value);
    }

    /// Follows a run started elsewhere, and waits for it.
    pub(super) fn follows(&mut self, workflow: String, run: String) {
        let target = Target { kind: Kind::Workflow, name: workflow };
        let number = self.session.begins(target, false, false, Instant::now());
        self.session.under_way(number, Value::Null, Instant::now());
        self.views.insert(number, Shown::new(io::stdout().is_terminal()));
        self.work.follow(number, run);
        self.watches(number, None);
    }

    pub(super) fn fails(&mut self, error: &str, code: u8) -> io::Result<()> {
        self.code = code;
        self.still()?;
        self.screen.print_error(error)
    }

    pub(super) fn move_to_background(&mut self) -> io::Result<()> {
        let Some(Foreground { number, .. }) = self.foreground.take() else { return Ok(()) };
        self.still_of(number)?;
        let target = visible(&self.session.entry(number).target.to_string());
        self.screen.print_remark(&format!("::{number} {target} continues in the background; /fg {number} waits for it"))
    }

    /// Handles Ctrl-C during a call in the foreground.
    fn interrupts(&mut self) -> Result<(), Failure> {
        self.stopping = !self.screen.is_interactive();
        let Some(foreground) = self.foreground else {
            // A question may be visible a moment before the editor has the keys.
            return if self.screen.is_interactive() { Ok(self.leaves_questions()?) } else { Ok(()) };
        };
        let number = foreground.number;
        self.still()?;
        let entry = self.session.entry(number);
        let workflow = entry.target.kind == Kind::Workflow && matches!(entry.state, State::Coming);
        match (workflow, entry.ours && !foreground.ending, entry.run.clone()) {
            (false, ..) => {
                self.ends(number)?;
            }
            (true, true, run) => {
                self.foreground = Some(Foreground { ending: true, until: None, ..foreground });
                let what = run.clone().unwrap_or_else(|| "the run".to_owned());
                self.screen.print_remark(&format!("cancelling {what}; Ctrl-C again leaves it to itself"))?;
                if let Some(run) = run {
                    self.work.cancel(run);
                }
            }
            (true, false, run) => {
                self.foreground = None;
                self.session.entry_mut(number).quiet = true;
                let what = run.unwrap_or_else(|| "the run".to_owned());
                let again = format!("/fg {number} watches it again, /cancel {number} cancels it");
                self.screen.print_remark(&format!("{what} is left to itself; {again}"))?;
            }
        }
        Ok(())
    }

    /// Ends a call that is not a run.
    pub(super) fn ends(&mut self, number: usize) -> Result<(), Failure> {
        self.work.abandon(number);
        self.handle_end(number, &Outcome::Nothing("interrupted".to_owned()))
    }

    /// Removes the animated line before other output.
    pub(super) fn still(&mut self) -> io::Result<()> {
        self.foreground.map_or(Ok(()), |foreground| self.still_of(foreground.number))
    }

    pub(super) fn still_of(&mut self, number: usize) -> io::Result<()> {
        self.views.get_mut(&number).map_or(Ok(()), Shown::rest)
    }

    /// Returns whether a line is animated: only while no line is being edited.
    fn moves(&self) -> bool {
        let watched = self.foreground.filter(|_| self.screen.is_interactive() && !self.screen.lines.is_reading_line());
        let view = watched.and_then(|foreground| self.views.get(&foreground.number));
        view.is_some_and(View::moves)
    }

    fn moves_on(&mut self) -> io::Result<()> {
        let view = self.foreground.and_then(|foreground| self.views.get_mut(&foreground.number));
        view.map_or(Ok(()), View::tick)
    }

    /// Prints which calls continue without the person, and which end.
    fn leaves(mut self) -> Result<ExitCode, Failure> {
        self.still()?;
        let mut lines = Vec::new();
        for (number, entry) in self.session.not_over() {
            let target = visible(&entry.target.to_string());
            lines.push(match (&entry.run, &entry.state) {
                (Some(run), _) => {
                    let asked = self.session.questions().find(|question| question.entry == Some(number));
                    let how = match asked.map(|question| question.asking.gate().name_with_digest()) {
                        Some(gate) => format!("answer it with: steplatch gates answer {gate}"),
                        None => format!("see it with: steplatch runs show {run}"),
                    };
                    format!("{target} continues as {run}; {how}")
                }
                (None, State::Waits) => {
                    format!("::{number} {target} did not begin, because what it waits for did not come")
                }
                (None, _) => format!("::{number} {target} ends here"),
            });
        }
        let code = match self.stopping {
            true => INTERRUPTED,
            // A person has seen the error.
            false if self.screen.is_interactive() => 0,
            false => self.code,
        };
        // No more lines follow.
        drop(self.screen);
        lines.iter().for_each(|line| print::remark(line));
        Ok(ExitCode::from(code))
    }
}

/// Returns the text of a command's arguments.
fn argument_text(value: &Value) -> String {
    if value.is_null() { String::new() } else { reference::value_to_text(value) }
}

/// Returns `::0 and ::2, which are still coming`.
fn still_coming(numbers: &[usize]) -> String {
    let mut numbers = numbers.to_vec();
    numbers.dedup();
    match numbers[..] {
        [number] => format!("::{number}, which is still coming"),
        _ => {
            let all: Vec<String> = numbers.iter().map(|number| format!("::{number}")).collect();
            format!("{}, which are still coming", all.join(" and "))
        }
    }
}

async fn patience(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until.into()).await,
        None => pending().await,
    }
}
