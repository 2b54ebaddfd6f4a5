//! The loop of the full screen: handles events, performs effects and draws.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use ratatui::Terminal;
use rustix::process::{Signal, kill_current_process_group};
use steplatch_protocol::DaemonPaths;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::effects::EffectRunner;
use super::event::{Effect, UiEvent};
use super::feeds::Feeds;
use super::key::{KeyReader, TerminalInput};
use super::model::Model;
use super::own_screen::{OwnScreen, copy_to_clipboard};
use super::update::update;
use super::view;
use crate::attach::{self, AttachEnd, DetachKey};
use crate::failure::Failure;
use crate::keyboard::Keyboard;
use crate::outer_terminal::NotificationWriter;
use crate::{daemon_client, print};

/// Maximum time between the bytes of a key's sequence. Later, an escape alone is a key.
const SEQUENCE_TIMEOUT: Duration = Duration::from_millis(40);

/// Minimum time between two frames.
const MIN_FRAME_INTERVAL: Duration = Duration::from_millis(16);

/// Interval between updates of durations on the screen.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum wait for the end of a suspension that may not take place, because there is no shell.
const SUSPENSION_TIMEOUT: Duration = Duration::from_millis(200);

/// Maximum number of events that wait in the channel.
const EVENT_CAPACITY: usize = 256;

/// Reason that the full screen was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitReason {
    ByKey,
    /// Contains the number of the signal.
    BySignal(u8),
}

/// Shows the full screen until the person leaves it.
///
/// # Errors
/// If the terminal is unusable, or the daemon cannot be started.
pub(crate) async fn show(paths: &DaemonPaths, requested_item: Option<String>) -> Result<ExitReason, Failure> {
    let daemon = daemon_client::reconnecting_client_at(paths, "ui")?;
    // Start a daemon if none is running, like all commands. Later, only the person starts one.
    daemon.client().await.map_err(|error| Failure::work(error.to_string()))?;
    let (sender, events) = mpsc::channel(EVENT_CAPACITY);
    let _quiet = QuietLogs::begin();
    let screen = OwnScreen::take(print::is_coloured())?;
    let mut terminal = Terminal::new(screen)?;
    let size = terminal.size()?;
    let mut event_loop = EventLoop {
        paths,
        notifications: NotificationWriter::start(daemon.clone()),
        model: Model::new(size.width, size.height, now(), requested_item),
        feeds: Feeds::begin(daemon.clone(), sender.clone()),
        effects: EffectRunner { daemon, sender },
        events,
        started_at: Instant::now(),
        keys: KeyReader::default(),
        was_handed_over: false,
        keyboard: Some(Keyboard::open()?),
        continued: signal(SignalKind::from_raw(Signal::CONT.as_raw()))?,
    };
    event_loop.serve(&mut terminal).await
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// Guard that keeps logs off the screen. If standard error is not a terminal, logs are unaffected.
struct QuietLogs;

impl QuietLogs {
    fn begin() -> Option<Self> {
        io::stderr().is_terminal().then(|| {
            print::set_log_filter(Some("off"));
            Self
        })
    }
}

impl Drop for QuietLogs {
    fn drop(&mut self) {
        print::set_log_filter(None);
    }
}

/// State and connections of the loop.
struct EventLoop<'a> {
    paths: &'a DaemonPaths,
    /// `None` while the person is attached to a terminal, which shows notifications itself.
    notifications: Option<NotificationWriter>,
    model: Model,
    feeds: Feeds,
    effects: EffectRunner,
    events: mpsc::Receiver<UiEvent>,
    started_at: Instant,
    keys: KeyReader,
    /// True if another program or the shell has used the terminal since the last key.
    was_handed_over: bool,
    /// `None` while another component reads the keyboard.
    keyboard: Option<Keyboard>,
    continued: tokio::signal::unix::Signal,
}

impl EventLoop<'_> {
    async fn serve(&mut self, terminal: &mut Terminal<OwnScreen>) -> Result<ExitReason, Failure> {
        let mut resized = signal(SignalKind::window_change())?;
        let mut terminated = signal(SignalKind::terminate())?;
        let mut hung_up = signal(SignalKind::hangup())?;
        let mut clock = tokio::time::interval(CLOCK_INTERVAL);
        let mut drawn_at: Option<tokio::time::Instant> = None;
        let mut is_changed = true;
        loop {
            let next_frame_at = drawn_at.map(|drawn_at| drawn_at + MIN_FRAME_INTERVAL).filter(|_| is_changed);
            if is_changed && next_frame_at.is_none_or(|at| at <= tokio::time::Instant::now()) {
                self.feeds.select(self.model.feed_selection());
                self.draw(terminal)?;
                (drawn_at, is_changed) = (Some(tokio::time::Instant::now()), false);
                continue;
            }
            let next_change_at =
                self.model.next_change().map(|at| tokio::time::Instant::from_std(self.started_at + at));
            let event = tokio::select! {
                // Poll keys first, so that many events do not delay them.
                biased;
                _ = terminated.recv() => return Ok(ExitReason::BySignal(15)),
                _ = hung_up.recv() => return Ok(ExitReason::BySignal(1)),
                bytes = next_key(self.keyboard.as_mut()) => {
                    // `None`: the terminal has closed.
                    let Some(bytes) = bytes else { return Ok(ExitReason::BySignal(1)) };
                    if self.read_input(&bytes, terminal).await? {
                        return Ok(ExitReason::ByKey);
                    }
                    is_changed = true;
                    continue;
                }
                () = tokio::time::sleep(SEQUENCE_TIMEOUT), if self.keys.is_waiting() => {
                    let inputs = self.keys.flush();
                    if self.handle_inputs(inputs, terminal).await? {
                        return Ok(ExitReason::ByKey);
                    }
                    is_changed = true;
                    continue;
                }
                _ = resized.recv() => {
                    let size = terminal.size()?;
                    UiEvent::Resized { cols: size.width, rows: size.height }
                }
                _ = self.continued.recv() => {
                    terminal.backend_mut().resume()?;
                    terminal.clear()?;
                    UiEvent::Tick
                }
                () = sleep_until(next_frame_at) => continue,
                Some(event) = self.events.recv() => event,
                () = sleep_until(next_change_at) => UiEvent::Tick,
                _ = clock.tick(), if self.model.is_moving() => UiEvent::Tick,
            };
            is_changed = true;
            if self.handle_event(event, terminal).await? {
                return Ok(ExitReason::ByKey);
            }
        }
    }

    fn draw(&mut self, terminal: &mut Terminal<OwnScreen>) -> io::Result<()> {
        let model = &mut self.model;
        terminal.draw(|frame| {
            let area = frame.area();
            // The size may have changed since the last event.
            (model.cols, model.rows) = (area.width, area.height);
            if let Some(cursor) = view::draw(model, frame.buffer_mut()) {
                frame.set_cursor_position(cursor);
            }
        })?;
        Ok(())
    }

    async fn read_input(&mut self, bytes: &[u8], terminal: &mut Terminal<OwnScreen>) -> Result<bool, Failure> {
        let inputs = self.keys.read(bytes);
        self.handle_inputs(inputs, terminal).await
    }

    async fn handle_inputs(
        &mut self,
        inputs: Vec<TerminalInput>,
        terminal: &mut Terminal<OwnScreen>,
    ) -> Result<bool, Failure> {
        for input in inputs {
            if self.handle_event(UiEvent::Input(input), terminal).await? {
                return Ok(true);
            }
            // Input after the key that handed over the terminal does not belong to the list.
            if std::mem::take(&mut self.was_handed_over) {
                break;
            }
        }
        Ok(false)
    }

    /// Handles an event. Returns whether the person leaves.
    async fn handle_event(&mut self, event: UiEvent, terminal: &mut Terminal<OwnScreen>) -> Result<bool, Failure> {
        for effect in update(&mut self.model, self.started_at.elapsed(), now(), event) {
            match effect {
                Effect::Leave => return Ok(true),
                Effect::Redraw => terminal.clear()?,
                Effect::Copy(text) => copy_to_clipboard(&text)?,
                Effect::Suspend => self.suspend(terminal).await?,
                Effect::Attach { terminal: id, hold } => {
                    let result = self.attach(&id, hold, terminal).await?;
                    // Boxed, because the call is recursive.
                    Box::pin(self.handle_event(UiEvent::Detached(result), terminal)).await?;
                }
                effect => self.effects.perform(effect),
            }
        }
        Ok(false)
    }

    /// Attaches the person's terminal to a terminal of the daemon until the person detaches. Returns a remark.
    async fn attach(
        &mut self,
        id: &str,
        hold: bool,
        terminal: &mut Terminal<OwnScreen>,
    ) -> Result<Result<String, String>, Failure> {
        let name = self.model.terminal(id).and_then(|session| session.name.clone()).unwrap_or_else(|| id.to_owned());
        self.keyboard = None;
        terminal.backend_mut().suspend();
        self.notifications = None;
        let end = attach::visit(self.paths, id, DetachKey::default(), hold).await;
        self.notifications = NotificationWriter::start(self.effects.daemon.clone());
        // End the line of the attached terminal.
        print::line("")?;
        terminal.backend_mut().resume()?;
        terminal.clear()?;
        self.keys = KeyReader::default();
        self.was_handed_over = true;
        self.keyboard = Some(Keyboard::open()?);
        Ok(match end {
            Ok(AttachEnd::Detached) if hold => Ok(format!("you left {name} and gave it back; it keeps running")),
            Ok(AttachEnd::Detached) => Ok(format!("you left {name}; it keeps running")),
            Ok(AttachEnd::Ended(Some(code))) => Ok(format!("the program in {name} exited with exit code {code}")),
            Ok(AttachEnd::Ended(None)) => Ok(format!("the program in {name} exited")),
            Err(failure) => Err(failure.message().to_owned()),
        })
    }

    /// Stops the process group until the shell continues it, like Ctrl-Z.
    async fn suspend(&mut self, terminal: &mut Terminal<OwnScreen>) -> Result<(), Failure> {
        self.keyboard = None;
        terminal.backend_mut().suspend();
        let result = kill_current_process_group(Signal::TSTP);
        if result.is_ok() {
            // An orphaned process group does not stop (POSIX), because no shell could continue it: limit the wait.
            let _ = tokio::time::timeout(SUSPENSION_TIMEOUT, self.continued.recv()).await;
        }
        terminal.backend_mut().resume()?;
        terminal.clear()?;
        self.was_handed_over = true;
        self.keyboard = Some(Keyboard::open()?);
        Ok(())
    }
}

async fn next_key(keyboard: Option<&mut Keyboard>) -> Option<Vec<u8>> {
    match keyboard {
        Some(keyboard) => keyboard.next().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(instant: Option<tokio::time::Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
