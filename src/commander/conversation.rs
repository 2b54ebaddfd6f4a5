//! The main loop of the conversation: reads lines, executes them, and shows events.
//!
//! The loop either reads a line or waits for a call in the foreground. Other calls continue in the background, and
//! their output appears above the line. The wait ends when the call ends, exceeds a time limit, or opens a gate,
//! because the answer needs a line.

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
use crate::run_view::{LineView, View};

/// Maximum time of a call in the foreground.
pub(super) const BACKGROUND_DELAY: Duration = Duration::from_secs(2);

/// The exit code of a script whose last line waits for an answer.
pub(super) const WAITING_EXIT_CODE: u8 = 3;

/// The exit code of an interrupted script, as in shells.
const INTERRUPTED_EXIT_CODE: u8 = 130;

/// A call in the foreground.
#[derive(Debug, Clone, Copy)]
pub(super) struct Foreground {
    pub(super) number: usize,
    /// End of the call's time in the foreground. `None` to wait for the end of the call.
    until: Option<Instant>,
    /// True if the person has cancelled the call.
    pub(super) is_cancelled: bool,
}

/// A conversation of a person or a script with the daemon.
#[derive(Debug)]
pub(crate) struct Conversation<'a> {
    pub(super) paths: &'a DaemonPaths,
    pub(super) session: Session,
    pub(super) work: Work,
    pub(super) screen: Screen,
    /// Views of runs, by the number of the call.
    pub(super) views: HashMap<usize, LineView>,
    pub(super) foreground: Option<Foreground>,
    /// The exit code of the last line.
    pub(super) exit_code: u8,
    pub(super) is_closed: bool,
    /// True if the conversation ends once no call is in the foreground.
    ends_after_calls: bool,
    /// Texts whose references are resolved, to be executed next.
    pub(super) ready_texts: VecDeque<(PendingText, Value)>,
    /// The run whose question Ctrl-C left open, and the time of the Ctrl-C.
    pub(super) skipped_question: Option<(String, Instant)>,
}

impl<'a> Conversation<'a> {
    pub(crate) fn new(paths: &'a DaemonPaths, daemon: ReconnectingClient, lines: Lines) -> Self {
        Self {
            paths,
            session: Session::default(),
            work: Work::new(daemon),
            screen: Screen { lines },
            views: HashMap::new(),
            foreground: None,
            exit_code: 0,
            is_closed: false,
            ends_after_calls: false,
            ready_texts: VecDeque::new(),
            skipped_question: None,
        }
    }

    /// Runs until the person leaves or the input ends. Returns the exit code of the last line.
    pub(crate) async fn converse(mut self) -> Result<ExitCode, Failure> {
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut terminated = signal(SignalKind::terminate())?;
        let mut hung_up = signal(SignalKind::hangup())?;
        let mut ticks = tokio::time::interval(Duration::from_millis(100));
        if self.screen.is_interactive() {
            self.greet().await?;
        }
        while !self.is_closed {
            if let Some((pending, value)) = self.ready_texts.pop_front() {
                tokio::select! {
                    done = self.perform(pending, value) => if let Err(failure) = done {
                        self.show_failure(failure.message(), failure.code())?;
                    },
                    _ = interrupted.recv() => self.screen.print_remark("interrupted")?,
                }
                continue;
            }
            if self.foreground.is_none() {
                if self.ends_after_calls {
                    break;
                }
                self.screen.lines.request_line();
            }
            let until = self.foreground.and_then(|foreground| foreground.until);
            tokio::select! {
                typed = self.screen.lines.next(), if self.screen.lines.is_reading_line() => tokio::select! {
                    done = self.handle_typed(typed) => done?,
                    _ = interrupted.recv() => self.screen.print_remark("interrupted")?,
                },
                event = self.work.next() => self.handle_event(event)?,
                () = sleep_until(until) => self.move_to_background()?,
                _ = interrupted.recv() => self.handle_interrupt()?,
                _ = terminated.recv() => self.is_closed = true,
                _ = hung_up.recv() => self.is_closed = true,
                _ = ticks.tick(), if self.is_animated() => self.advance_animation()?,
            }
        }
        self.finish()
    }

    /// Shows the targets of calls, and the open questions.
    async fn greet(&mut self) -> Result<(), Failure> {
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

    async fn handle_typed(&mut self, typed: Typed) -> Result<(), Failure> {
        let line = match typed {
            Typed::Line(line) => {
                self.skipped_question = None;
                line
            }
            Typed::Closed => {
                self.is_closed = true;
                return Ok(());
            }
            Typed::Interrupted => return Ok(self.leave_questions()?),
        };
        let meaning = self.session.read(&line);
        // The history omits answers, because they may be confidential, and `/quit`.
        let is_unrecorded = match &meaning {
            ParsedLine::Answer(..) => true,
            ParsedLine::Order(word, _) => matches!(order::find(word), Ok(Order::Answer | Order::Quit)),
            _ => false,
        };
        let is_call = matches!(meaning, ParsedLine::Call(..));
        if !is_unrecorded && (is_call || line.trim_start().starts_with(['@', '#', '%', '/', ':'])) {
            self.screen.lines.remember(&line);
        }
        match self.execute_line(meaning).await {
            Ok(()) => Ok(()),
            Err(failure) => Ok(self.show_failure(failure.message(), failure.code())?),
        }
    }

    async fn execute_line(&mut self, meaning: ParsedLine) -> Result<(), Failure> {
        let (pending, text) = match meaning {
            ParsedLine::Nothing => return Ok(()),
            ParsedLine::Invalid(error) => return Err(Failure::usage(error)),
            ParsedLine::Call(target, text) => return self.call_target(&target, text, false).await,
            ParsedLine::BackgroundCall(target, text) => return self.call_target(&target, text, true).await,
            ParsedLine::Order(word, text) => (PendingText::Order(word), text),
            ParsedLine::Look(number, text) => (PendingText::Look(number), text),
            ParsedLine::Answer(gate, text) => (PendingText::Answer(gate), text),
        };
        self.exit_code = 0;
        match self.session.resolve_text(&text).map_err(Failure::usage)? {
            ResolvedText::Ready(value) => self.perform(pending, value).await,
            ResolvedText::Missing(numbers) => {
                self.session.queue_text(pending, text);
                self.exit_code = WAITING_EXIT_CODE;
                Ok(self.screen.print_remark(&format!("this waits for {}", still_coming(&numbers)))?)
            }
        }
    }

    async fn perform(&mut self, pending: PendingText, value: Value) -> Result<(), Failure> {
        match pending {
            PendingText::Call(number) => self.start_call(number, value),
            PendingText::Order(word) => return self.execute_command(&word, &argument_text(&value)).await,
            PendingText::Look(number) => self.screen.print_output(number, &value)?,
            PendingText::Answer(gate) => return self.answer_question(&gate, &reference::value_to_text(&value)).await,
        }
        Ok(())
    }

    /// Calls a target and waits for the call unless `in_background`.
    async fn call_target(&mut self, target: &Target, text: PinnedRefs, in_background: bool) -> Result<(), Failure> {
        let catalog = self.work.catalog().await?;
        let target = catalog.resolve_target(target);
        self.screen.lines.change_words(|words| words.catalog = catalog);
        let target = target.map_err(Failure::usage)?;
        let resolved = self.session.resolve_text(&text).map_err(Failure::usage)?;
        self.exit_code = 0;
        let shown_target = visible(&target.to_string());
        let number = self.session.begin_call(target, true, in_background, Instant::now());
        let names = self.session.names().into_iter().map(str::to_owned).collect();
        self.screen.lines.change_words(|words| words.call_names = names);
        match resolved {
            ResolvedText::Ready(value) => self.start_call(number, value),
            ResolvedText::Missing(numbers) => {
                self.session.queue_text(PendingText::Call(number), text);
                self.screen.print_remark(&format!("::{number} {shown_target} waits for {}", still_coming(&numbers)))?;
                // The awaited call may need an answer, from a later line.
                if !self.screen.is_interactive() {
                    self.exit_code = WAITING_EXIT_CODE;
                    return Ok(());
                }
            }
        }
        if in_background {
            self.screen.print_remark(&format!("::{number} {shown_target} runs in the background"))?;
        } else {
            self.put_in_foreground(number, self.screen.is_interactive().then_some(BACKGROUND_DELAY));
        }
        Ok(())
    }

    /// Puts a call in the foreground, at most for `timeout`.
    pub(super) fn put_in_foreground(&mut self, number: usize, timeout: Option<Duration>) {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        self.foreground = Some(Foreground { number, until, is_cancelled: false });
    }

    pub(super) fn start_call(&mut self, number: usize, value: Value) {
        let target = self.session.entry(number).target.clone();
        self.session.record_start(number, value.clone(), Instant::now());
        if target.kind == Kind::Workflow {
            self.views.insert(number, LineView::new(io::stdout().is_terminal()));
        }
        self.work.begin(number, &target, value);
    }

    /// Follows a run started elsewhere and waits for it.
    pub(super) fn follow_run(&mut self, workflow: String, run: String) {
        let target = Target { kind: Kind::Workflow, name: workflow };
        let number = self.session.begin_call(target, false, false, Instant::now());
        self.session.record_start(number, Value::Null, Instant::now());
        self.views.insert(number, LineView::new(io::stdout().is_terminal()));
        self.work.follow(number, run);
        self.put_in_foreground(number, None);
    }

    pub(super) fn show_failure(&mut self, error: &str, code: u8) -> io::Result<()> {
        self.exit_code = code;
        self.stop_animation()?;
        self.screen.print_error(error)
    }

    pub(super) fn move_to_background(&mut self) -> io::Result<()> {
        let Some(Foreground { number, .. }) = self.foreground.take() else { return Ok(()) };
        self.stop_animation_of(number)?;
        let target = visible(&self.session.entry(number).target.to_string());
        self.screen.print_remark(&format!("::{number} {target} continues in the background; /fg {number} waits for it"))
    }

    /// Handles Ctrl-C during a call in the foreground.
    fn handle_interrupt(&mut self) -> Result<(), Failure> {
        self.ends_after_calls = !self.screen.is_interactive();
        let Some(foreground) = self.foreground else {
            // A question may be visible shortly before the editor reads keys.
            return if self.screen.is_interactive() { Ok(self.leave_questions()?) } else { Ok(()) };
        };
        let number = foreground.number;
        self.stop_animation()?;
        let entry = self.session.entry(number);
        let workflow = entry.target.kind == Kind::Workflow && matches!(entry.state, State::Running);
        match (workflow, entry.started_here && !foreground.is_cancelled, entry.run.clone()) {
            (false, ..) => {
                self.end_call(number)?;
            }
            (true, true, run) => {
                self.foreground = Some(Foreground { is_cancelled: true, until: None, ..foreground });
                let run_name = run.clone().unwrap_or_else(|| "the run".to_owned());
                self.screen.print_remark(&format!("cancelling {run_name}; Ctrl-C again leaves it to itself"))?;
                if let Some(run) = run {
                    self.work.cancel(run);
                }
            }
            (true, false, run) => {
                self.foreground = None;
                self.session.entry_mut(number).quiet = true;
                let run_name = run.unwrap_or_else(|| "the run".to_owned());
                let advice = format!("/fg {number} watches it again, /cancel {number} cancels it");
                self.screen.print_remark(&format!("{run_name} is left to itself; {advice}"))?;
            }
        }
        Ok(())
    }

    /// Ends a call that is not a run in progress.
    pub(super) fn end_call(&mut self, number: usize) -> Result<(), Failure> {
        self.work.abandon(number);
        self.handle_end(number, &Outcome::Nothing("interrupted".to_owned()))
    }

    /// Removes the animated line of the call in the foreground before other output.
    pub(super) fn stop_animation(&mut self) -> io::Result<()> {
        self.foreground.map_or(Ok(()), |foreground| self.stop_animation_of(foreground.number))
    }

    pub(super) fn stop_animation_of(&mut self, number: usize) -> io::Result<()> {
        self.views.get_mut(&number).map_or(Ok(()), LineView::clear_animation)
    }

    /// Returns whether the view in the foreground is animated. No view is while a line is being edited.
    fn is_animated(&self) -> bool {
        let watched = self.foreground.filter(|_| self.screen.is_interactive() && !self.screen.lines.is_reading_line());
        let view = watched.and_then(|foreground| self.views.get(&foreground.number));
        view.is_some_and(View::is_animated)
    }

    fn advance_animation(&mut self) -> io::Result<()> {
        let view = self.foreground.and_then(|foreground| self.views.get_mut(&foreground.number));
        view.map_or(Ok(()), View::tick)
    }

    /// Ends the conversation. Prints the calls that continue and the calls that end.
    fn finish(mut self) -> Result<ExitCode, Failure> {
        self.stop_animation()?;
        let mut lines = Vec::new();
        for (number, entry) in self.session.unfinished() {
            let target = visible(&entry.target.to_string());
            lines.push(match (&entry.run, &entry.state) {
                (Some(run), _) => {
                    let question = self.session.questions().find(|question| question.entry == Some(number));
                    let how = match question.map(|question| question.asking.gate().name_with_digest()) {
                        Some(gate) => format!("answer it with: steplatch gates answer {gate}"),
                        None => format!("see it with: steplatch runs show {run}"),
                    };
                    format!("{target} continues as {run}; {how}")
                }
                (None, State::Waiting) => {
                    format!("::{number} {target} did not begin, because what it waits for did not come")
                }
                // The run of the call continues. The reply at its end would have named the run.
                (None, _) if entry.target.kind == Kind::Graph => {
                    format!("::{number} {target} continues; see it with: steplatch runs list")
                }
                (None, _) => format!("::{number} {target} ends here"),
            });
        }
        let code = match self.ends_after_calls {
            true => INTERRUPTED_EXIT_CODE,
            // The person has seen the error.
            false if self.screen.is_interactive() => 0,
            false => self.exit_code,
        };
        // Restore the terminal before the remarks.
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

async fn sleep_until(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until.into()).await,
        None => pending().await,
    }
}
