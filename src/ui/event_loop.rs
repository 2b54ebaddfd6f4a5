//! The loop of the full screen: events in, effects and cells out.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use ratatui::Terminal;
use rustix::process::{Signal, kill_current_process_group};
use steplatch_protocol::DaemonPaths;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::effects::Hands;
use super::event::{Effect, UiEvent};
use super::feeds::Feeds;
use super::key::{KeyReader, TerminalInput};
use super::model::Model;
use super::own_screen::OwnScreen;
use super::update::update;
use super::view;
use crate::attach::{self, AttachEnd, DetachKey};
use crate::failure::Failure;
use crate::keyboard::Keyboard;
use crate::{front, print};

/// Time that the rest of a key's sequence may take: an escape alone is a key.
const SEQUENCE_TIME: Duration = Duration::from_millis(40);

/// Minimum time between two pictures.
const FRAME_TIME: Duration = Duration::from_millis(16);

/// Interval at which durations on the screen grow.
const CLOCK_TIME: Duration = Duration::from_secs(1);

/// Time that a process that no shell controls waits for a suspension that does not come.
const SUSPENSION_TIME: Duration = Duration::from_millis(200);

/// Maximum number of waiting events.
const EVENT_CAPACITY: usize = 256;

/// Reason for leaving the full screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaving {
    ByKey,
    /// With the number of the signal.
    BySignal(u8),
}

/// Shows the full screen until the person leaves it.
///
/// # Errors
/// If the terminal is unusable, or no daemon starts at the beginning.
pub(crate) async fn show(place: &DaemonPaths, opens: Option<String>) -> Result<Leaving, Failure> {
    let daemon = front::steady_at(place, "ui")?;
    // As every command, this starts a daemon if there is none. Afterwards only the person starts one.
    daemon.client().await.map_err(|error| Failure::work(error.to_string()))?;
    let (sender, events) = mpsc::channel(EVENT_CAPACITY);
    let _quiet = QuietLogs::begin();
    let screen = OwnScreen::take(print::coloured())?;
    let mut terminal = Terminal::new(screen)?;
    let size = terminal.size()?;
    let mut desk = Desk {
        place,
        model: Model::new(size.width, size.height, now(), opens),
        feeds: Feeds::begin(daemon.clone(), sender.clone()),
        hands: Hands { daemon, sender },
        events,
        began: Instant::now(),
        keys: KeyReader::default(),
        was_handed_over: false,
        keyboard: Some(Keyboard::open()?),
        continued: signal(SignalKind::from_raw(Signal::CONT.as_raw()))?,
    };
    desk.serve(&mut terminal).await
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// Keeps logs off the screen until its drop. Where standard error is a file, they go there.
struct QuietLogs;

impl QuietLogs {
    fn begin() -> Option<Self> {
        io::stderr().is_terminal().then(|| {
            print::log_filter(Some("off"));
            Self
        })
    }
}

impl Drop for QuietLogs {
    fn drop(&mut self) {
        print::log_filter(None);
    }
}

/// Everything that the loop has.
struct Desk<'a> {
    place: &'a DaemonPaths,
    model: Model,
    feeds: Feeds,
    hands: Hands,
    events: mpsc::Receiver<UiEvent>,
    began: Instant,
    keys: KeyReader,
    /// True if another program, or the shell, had the terminal since the last key.
    was_handed_over: bool,
    /// Closed while another component reads the keyboard.
    keyboard: Option<Keyboard>,
    continued: tokio::signal::unix::Signal,
}

impl Desk<'_> {
    async fn serve(&mut self, terminal: &mut Terminal<OwnScreen>) -> Result<Leaving, Failure> {
        let mut resized = signal(SignalKind::window_change())?;
        let mut terminated = signal(SignalKind::terminate())?;
        let mut hung_up = signal(SignalKind::hangup())?;
        let mut clock = tokio::time::interval(CLOCK_TIME);
        let mut drawn: Option<tokio::time::Instant> = None;
        let mut is_changed = true;
        loop {
            let frame_at = drawn.map(|drawn| drawn + FRAME_TIME).filter(|_| is_changed);
            if is_changed && frame_at.is_none_or(|at| at <= tokio::time::Instant::now()) {
                self.feeds.want(self.model.wanted());
                self.draw(terminal)?;
                (drawn, is_changed) = (Some(tokio::time::Instant::now()), false);
                continue;
            }
            let change_at = self.model.next_change().map(|at| tokio::time::Instant::from_std(self.began + at));
            let event = tokio::select! {
                // Keys first: a flood of events must not delay them.
                biased;
                _ = terminated.recv() => return Ok(Leaving::BySignal(15)),
                _ = hung_up.recv() => return Ok(Leaving::BySignal(1)),
                bytes = next_key(self.keyboard.as_mut()) => {
                    // The terminal has closed.
                    let Some(bytes) = bytes else { return Ok(Leaving::BySignal(1)) };
                    if self.input(&bytes, terminal).await? {
                        return Ok(Leaving::ByKey);
                    }
                    is_changed = true;
                    continue;
                }
                () = tokio::time::sleep(SEQUENCE_TIME), if self.keys.is_waiting() => {
                    let inputs = self.keys.flush();
                    if self.take_inputs(inputs, terminal).await? {
                        return Ok(Leaving::ByKey);
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
                () = until(frame_at) => continue,
                Some(event) = self.events.recv() => event,
                () = until(change_at) => UiEvent::Tick,
                _ = clock.tick(), if self.model.is_moving() => UiEvent::Tick,
            };
            is_changed = true;
            if self.take(event, terminal).await? {
                return Ok(Leaving::ByKey);
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

    async fn input(&mut self, bytes: &[u8], terminal: &mut Terminal<OwnScreen>) -> Result<bool, Failure> {
        let inputs = self.keys.read(bytes);
        self.take_inputs(inputs, terminal).await
    }

    async fn take_inputs(
        &mut self,
        inputs: Vec<TerminalInput>,
        terminal: &mut Terminal<OwnScreen>,
    ) -> Result<bool, Failure> {
        for input in inputs {
            if self.take(UiEvent::Input(input), terminal).await? {
                return Ok(true);
            }
            // Input after the key that handed the terminal over is not for the list.
            if std::mem::take(&mut self.was_handed_over) {
                break;
            }
        }
        Ok(false)
    }

    /// Takes an event. Returns whether the person leaves.
    async fn take(&mut self, event: UiEvent, terminal: &mut Terminal<OwnScreen>) -> Result<bool, Failure> {
        for effect in update(&mut self.model, self.began.elapsed(), now(), event) {
            match effect {
                Effect::Leave => return Ok(true),
                Effect::Redraw => terminal.clear()?,
                Effect::Suspend => self.suspend(terminal).await?,
                Effect::Attach { terminal: id, hold } => {
                    let left = self.attach(&id, hold, terminal).await?;
                    // Boxed: an event may have effects, which may be events.
                    Box::pin(self.take(UiEvent::CameBack(left), terminal)).await?;
                }
                effect => self.hands.perform(effect),
            }
        }
        Ok(false)
    }

    /// Hands the person's terminal to a terminal of the daemon, and takes it again.
    async fn attach(
        &mut self,
        id: &str,
        hold: bool,
        terminal: &mut Terminal<OwnScreen>,
    ) -> Result<Result<String, String>, Failure> {
        let name = self.model.terminal(id).and_then(|session| session.name.clone()).unwrap_or_else(|| id.to_owned());
        self.keyboard = None;
        terminal.backend_mut().suspend();
        let left = attach::visit(self.place, id, DetachKey::default(), hold).await;
        // The shell's next prompt begins a line.
        print::line("")?;
        terminal.backend_mut().resume()?;
        terminal.clear()?;
        self.keys = KeyReader::default();
        self.was_handed_over = true;
        self.keyboard = Some(Keyboard::open()?);
        Ok(match left {
            Ok(AttachEnd::Detached) if hold => Ok(format!("you left {name} and gave it back; it keeps running")),
            Ok(AttachEnd::Detached) => Ok(format!("you left {name}; it keeps running")),
            Ok(AttachEnd::Ended(Some(code))) => Ok(format!("the program in {name} ended with exit code {code}")),
            Ok(AttachEnd::Ended(None)) => Ok(format!("the program in {name} ended")),
            Err(failure) => Err(failure.message().to_owned()),
        })
    }

    /// Stops this process and those beside it, as Ctrl-Z does, until the shell continues them.
    async fn suspend(&mut self, terminal: &mut Terminal<OwnScreen>) -> Result<(), Failure> {
        self.keyboard = None;
        terminal.backend_mut().suspend();
        let stopped = kill_current_process_group(Signal::TSTP);
        if stopped.is_ok() {
            // Without a shell that could continue it, the group does not stop (POSIX, orphaned process group).
            let _ = tokio::time::timeout(SUSPENSION_TIME, self.continued.recv()).await;
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

async fn until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
