//! Events of a watched screen: the rows that changed, as cells without secrets.
//!
//! The terminal host answers with the rows that have changed (`screen_follower.rs`). This module masks secrets in the
//! whole screen and then omits the rows that a viewer already has. It compares masked rows, because a secret may wrap
//! over rows, and a newly known secret also changes rows.

use std::fmt::Write as _;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use serde_json::Value;
use steplatch_access::{Caller, Redactor};
use steplatch_host::{HostedTerminal, Hosts, SeenActivity};
use steplatch_protocol::{
    HoldTerminal, HoldTerminalReply, ReadScrollback, ReadScrollbackReply, ScreenChange, ScreenCursor, ScreenEvent,
    ScreenRow, ScreenRun, ScreenState, TerminalsEvent, WatchScreen, WatchScreenReply, WatchTerminalsReply,
};
use steplatch_terminal::{Colour, CursorShape, Modes, MouseReports, Picture, Run, ScreenUpdate, Style, Underline};
use tokio::time::{Instant, sleep, sleep_until};

use crate::attach::Seat;
use crate::error::SessionError;
use crate::event_sink::{Disconnected, EventSink};
use crate::screen_follower::ScreenFollower;
use crate::sessions::Sessions;

/// Minimum time between two events, about 60 frames a second.
const MIN_INTERVAL: Duration = Duration::from_millis(15);

/// Maximum time between two events.
const MAX_INTERVAL: Duration = Duration::from_secs(60);

/// Minimum number of output chunks of a flood, between two samples of a screen.
const MIN_FLOOD_CHUNKS: u64 = 8;

/// Maximum number of consecutive flood samples at the full rate, about a third of a second. Afterwards the screen is
/// sampled less often.
const MAX_FLOOD_SAMPLES: u32 = 20;

/// Time between two samples during a flood.
const FLOOD_INTERVAL: Duration = Duration::from_millis(33);

/// Maximum number of rows of the scrollback: all that the emulator stores.
const MAX_SCROLLBACK_ROWS: u16 = 1000;

/// Minimum time between two events about the states of terminals.
const ACTIVITY_INTERVAL: Duration = Duration::from_millis(250);

/// Time from the first change after a pause to its event. A client then reads the states of all terminals; the delay
/// keeps that request from slowing the echo of the key that caused the change.
const ACTIVITY_DELAY: Duration = Duration::from_millis(30);

/// A watched screen, for one client.
#[derive(Debug)]
pub struct ScreenEvents {
    terminal: HostedTerminal,
    secrets: Redactor,
    interval: Duration,
}

/// A terminal that a client holds, until it cancels its request or disconnects.
#[derive(Debug)]
pub struct HeldTerminal {
    _seat: Seat,
}

impl HeldTerminal {
    /// Holds the terminal until this future is dropped. Not boxed: the attribute would drop `self`, because the body
    /// does not use it.
    pub async fn forward(self) -> Result<(), Disconnected> {
        std::future::pending().await
    }
}

/// The states of all terminals, watched for one client.
#[derive(Debug)]
pub struct ActivityEvents {
    hosts: Hosts,
    last_activity: SeenActivity,
}

impl ActivityEvents {
    /// Waits until a state may have changed. Cancel-safe.
    pub async fn next(&mut self) {
        self.hosts.watch_activity(&mut self.last_activity).await;
    }

    /// Sends an event whenever a state may have changed, until the client disconnects.
    #[boxed]
    pub async fn forward(mut self, request_id: &Value, sink: &EventSink) -> Result<(), Disconnected> {
        loop {
            self.next().await;
            sleep(ACTIVITY_DELAY).await;
            sink.event(request_id, &TerminalsEvent::TerminalsChanged).await?;
            sleep(ACTIVITY_INTERVAL - ACTIVITY_DELAY).await;
        }
    }
}

impl Sessions {
    /// Reads a screen and the rows that scrolled off it.
    #[boxed]
    pub async fn scrollback(&self, verb: ReadScrollback) -> ReadScrollbackReply {
        let read = async {
            let terminal = self.find(&verb.session_id).await?;
            let max_rows = verb.rows.unwrap_or(MAX_SCROLLBACK_ROWS).min(MAX_SCROLLBACK_ROWS);
            let picture = terminal.scrollback(max_rows.into()).await?;
            Ok::<_, SessionError>(self.secrets.within(terminal.id()).masked_picture(picture))
        };
        match read.await {
            Ok(picture) => ReadScrollbackReply {
                success: true,
                cols: picture.cols,
                lines: (0_u16..).zip(&picture.rows).map(|(row, runs)| to_screen_row(row, runs)).collect(),
                foreground: picture.foreground.to_string(),
                background: picture.background.to_string(),
                palette: picture.palette.iter().map(|(index, rgb)| (*index, rgb.to_string())).collect(),
                error: None,
            },
            Err(error) => {
                let error = Some(self.describe_error(&verb.session_id, error).await);
                ReadScrollbackReply { error, ..ReadScrollbackReply::default() }
            }
        }
    }

    /// Watches the states of all terminals.
    pub fn watch_terminals(&self) -> (WatchTerminalsReply, ActivityEvents) {
        (
            WatchTerminalsReply { success: true, error: None },
            ActivityEvents { hosts: self.hosts.clone(), last_activity: SeenActivity::default() },
        )
    }

    /// Watches the screen of a terminal. The events begin with the whole screen.
    #[boxed]
    pub async fn watch_screen(&self, verb: WatchScreen) -> (WatchScreenReply, Option<ScreenEvents>) {
        match self.find(&verb.session_id).await {
            Ok(terminal) => {
                let secrets = self.secrets.within(terminal.id());
                let interval = Duration::from_millis(verb.interval_ms).clamp(MIN_INTERVAL, MAX_INTERVAL);
                let reply = WatchScreenReply { success: true, session_id: terminal.id().to_string(), error: None };
                (reply, Some(ScreenEvents { terminal, secrets, interval }))
            }
            Err(error) => {
                let error = Some(self.describe_error(&verb.session_id, error).await);
                (WatchScreenReply { success: false, session_id: verb.session_id, error }, None)
            }
        }
    }

    /// Holds a terminal for a client.
    #[boxed]
    pub async fn hold(&self, caller: &Caller, verb: HoldTerminal) -> (HoldTerminalReply, Option<HeldTerminal>) {
        let held = async {
            let terminal = self.find(&verb.session_id).await?;
            let seat = self.take_seat(caller, &terminal, verb.hold_key.clone()).await?;
            Ok::<_, SessionError>((terminal, seat))
        };
        match held.await {
            Ok((terminal, seat)) => {
                let reply = HoldTerminalReply { success: true, session_id: terminal.id().to_string(), error: None };
                (reply, Some(HeldTerminal { _seat: seat }))
            }
            Err(error) => {
                let error = Some(self.describe_error(&verb.session_id, error).await);
                (HoldTerminalReply { success: false, session_id: verb.session_id, error }, None)
            }
        }
    }
}

impl ScreenEvents {
    /// Sends the changes until the terminal closes or the client disconnects. A slow client misses intermediate screens
    /// and receives the latest one.
    #[boxed]
    pub async fn forward(self, request_id: &Value, sink: &EventSink) -> Result<(), Disconnected> {
        let mut follower = ScreenFollower::new(self.terminal, self.interval);
        let mut pace = FramePace::new(self.interval);
        let mut last_sent = None;
        loop {
            let known = follower.known();
            let update = match follower.next().await {
                Ok(update) => update,
                Err(_) => return sink.event(request_id, &ScreenEvent::ScreenClosed).await,
            };
            let chunks = known.map_or(0, |known| update.version.wrapping_sub(known));
            let due = Instant::now() + pace.next_interval(chunks);
            let screen = MaskedScreen::from_update(update, &self.secrets);
            if let Some(change) = screen.change_from(last_sent.as_ref()) {
                sink.event(request_id, &ScreenEvent::ScreenChanged(Box::new(change))).await?;
                last_sent = Some(screen);
            }
            // Wait after an unchanged screen, too, because a program may print the same line continuously.
            sleep_until(due).await;
        }
    }
}

/// Time between two samples of a screen. Sampling slows down during a flood, because a flood of output is unreadable.
/// The amount of output, and not the clock, indicates a flood, so that the load of the computer does not matter.
#[derive(Debug)]
struct FramePace {
    interval: Duration,
    /// Number of consecutive samples during a flood.
    flooded_samples: u32,
}

impl FramePace {
    fn new(interval: Duration) -> Self {
        Self { interval, flooded_samples: 0 }
    }

    /// Returns the time to the next sample, after a sample with `chunks` chunks of output before it.
    fn next_interval(&mut self, chunks: u64) -> Duration {
        self.flooded_samples = if chunks >= MIN_FLOOD_CHUNKS { self.flooded_samples.saturating_add(1) } else { 0 };
        if self.flooded_samples < MAX_FLOOD_SAMPLES { self.interval } else { self.interval.max(FLOOD_INTERVAL) }
    }
}

/// A screen for viewers, with masked secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MaskedScreen {
    cols: u16,
    rows: Vec<Vec<Run>>,
    state: ScreenState,
}

impl MaskedScreen {
    pub(crate) fn from_update(update: ScreenUpdate, secrets: &Redactor) -> Self {
        let ScreenUpdate { picture, modes, title, exit, .. } = update;
        let picture = secrets.masked_picture(picture);
        let state = to_screen_state(&picture, modes, secrets.masked(title), exit.map(|exit| exit.code));
        Self { cols: picture.cols, rows: picture.rows, state }
    }

    /// Returns the difference from the screen of a viewer, if any. Returns the whole screen if the viewer has no screen
    /// of this size.
    pub(crate) fn change_from(&self, before: Option<&Self>) -> Option<ScreenChange> {
        let before = before.filter(|before| before.cols == self.cols && before.rows.len() == self.rows.len());
        if before == Some(self) {
            return None;
        }
        let rows = (0_u16..)
            .zip(&self.rows)
            .filter(|(row, runs)| before.is_none_or(|before| before.rows.get(usize::from(*row)) != Some(*runs)));
        let changed = rows.map(|(row, runs)| to_screen_row(row, runs)).collect();
        Some(ScreenChange {
            cols: self.cols,
            rows: u16::try_from(self.rows.len()).unwrap_or(u16::MAX),
            whole: before.is_none(),
            changed,
            state: self.state.clone(),
        })
    }
}

fn to_screen_state(picture: &Picture, modes: Modes, title: String, exit_code: Option<i32>) -> ScreenState {
    let cursor = picture.cursor.map(|cell| ScreenCursor {
        row: cell.row,
        col: cell.col,
        shape: match cell.shape {
            CursorShape::Block => "block",
            CursorShape::Underline => "underline",
            CursorShape::Bar => "bar",
        }
        .to_owned(),
    });
    ScreenState {
        cursor,
        foreground: picture.foreground.to_string(),
        background: picture.background.to_string(),
        palette: picture.palette.iter().map(|(index, rgb)| (*index, rgb.to_string())).collect(),
        title,
        alternate: modes.alternate_screen,
        bracketed_paste: modes.bracketed_paste,
        mouse: match modes.mouse {
            MouseReports::None => None,
            MouseReports::Buttons => Some("buttons".to_owned()),
            MouseReports::Drags => Some("drags".to_owned()),
            MouseReports::Moves => Some("moves".to_owned()),
        },
        exit_code,
    }
}

fn to_screen_row(row: u16, runs: &[Run]) -> ScreenRow {
    let links = (0_u16..).zip(runs).filter_map(|(index, run)| Some((index, run.link.clone()?)));
    ScreenRow { row, runs: runs.iter().map(to_screen_run).collect(), links: links.collect() }
}

fn to_screen_run(run: &Run) -> ScreenRun {
    ScreenRun(run.col, run.cols, run.text.clone(), style_attributes(&run.style, run.wide))
}

/// Returns the attributes of a style, as [`ScreenRun`] describes them.
fn style_attributes(style: &Style, is_wide: bool) -> String {
    let mut attributes = String::new();
    let mut colour = |prefix: char, colour: Colour| match colour {
        Colour::Default => {}
        // Ignore the result: writing to a string does not fail.
        Colour::Indexed(index) => drop(write!(attributes, "{prefix}{index},")),
        Colour::Rgb(rgb) => drop(write!(attributes, "{prefix}{rgb},")),
    };
    colour('f', style.fg);
    colour('b', style.bg);
    if let Some(line) = style.underline_colour {
        colour('u', line);
    }
    let underline = match style.underline {
        Underline::None => "",
        Underline::Single => "U1",
        Underline::Double => "U2",
        Underline::Curled => "U3",
        Underline::Dotted => "U4",
        Underline::Dashed => "U5",
    };
    let flags = [
        (style.bold, "B"),
        (style.dim, "D"),
        (style.italic, "I"),
        (style.strike, "S"),
        (style.inverse, "R"),
        (style.hidden, "H"),
        (!underline.is_empty(), underline),
        (is_wide, "W"),
    ];
    for (_, attribute) in flags.into_iter().filter(|(is_set, _)| *is_set) {
        attributes.push_str(attribute);
        attributes.push(',');
    }
    attributes.pop();
    attributes
}

#[cfg(test)]
mod tests {
    use steplatch_terminal::Rgb;

    use super::*;

    #[test]
    fn flood_is_sampled_half_as_often_until_it_pauses() {
        let interval = Duration::from_millis(15);
        let mut pace = FramePace::new(interval);
        for _ in 1..MAX_FLOOD_SAMPLES {
            assert_eq!(pace.next_interval(MIN_FLOOD_CHUNKS), interval);
        }
        assert_eq!([pace.next_interval(1000), pace.next_interval(MIN_FLOOD_CHUNKS)], [FLOOD_INTERVAL; 2]);
        assert_eq!(
            [pace.next_interval(1), pace.next_interval(1000)],
            [interval; 2],
            "the next change is shown at once"
        );
        assert!(
            (0..100).all(|_| pace.next_interval(MIN_FLOOD_CHUNKS - 1) == interval),
            "a steady animation is not a flood"
        );
        let mut slow = FramePace::new(Duration::from_millis(500));
        assert!((0..100).all(|_| slow.next_interval(1000) == Duration::from_millis(500)));
    }

    fn shown_rows(texts: &[&str]) -> MaskedScreen {
        let run = |text: &&str| Run {
            col: 0,
            cols: u16::try_from(text.len()).unwrap(),
            wide: false,
            text: (*text).to_owned(),
            style: Style::default(),
            link: None,
        };
        let rows = texts.iter().map(|text| if text.is_empty() { Vec::new() } else { vec![run(text)] }).collect();
        MaskedScreen { cols: 80, rows, state: ScreenState::default() }
    }

    #[test]
    fn viewer_receives_only_missing_rows() {
        let first = shown_rows(&["one", "two", ""]);
        let all = first.change_from(None).unwrap();
        assert!(all.whole && all.changed.len() == 3 && (all.cols, all.rows) == (80, 3));
        assert_eq!(first.change_from(Some(&first)), None);
        let second = shown_rows(&["one", "2", "three"]);
        let change = second.change_from(Some(&first)).unwrap();
        let rows: Vec<u16> = change.changed.iter().map(|row| row.row).collect();
        assert_eq!((change.whole, rows), (false, vec![1, 2]));
        let larger = shown_rows(&["one", "2", "three", ""]);
        assert!(larger.change_from(Some(&second)).unwrap().whole, "a resized screen is sent whole");
        let mut moved = second.clone();
        moved.state.title = "vim".to_owned();
        let change = moved.change_from(Some(&second)).unwrap();
        assert!(change.changed.is_empty() && change.state.title == "vim");
    }

    #[test]
    fn style_is_a_list_of_words() {
        assert_eq!(style_attributes(&Style::default(), false), "");
        let all = Style {
            fg: Colour::Indexed(9),
            bg: Colour::Rgb(Rgb(1, 2, 255)),
            bold: true,
            underline: Underline::Curled,
            underline_colour: Some(Colour::Indexed(1)),
            inverse: true,
            ..Style::default()
        };
        assert_eq!(style_attributes(&all, true), "f9,b#0102ff,u1,B,R,U3,W");
    }
}
