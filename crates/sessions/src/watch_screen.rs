//! Watching a screen: the rows that change, as cells without secrets.
//!
//! The terminal host answers with the rows that have changed (`screen_follower.rs`). This module masks secrets in the
//! whole screen, and omits what a viewer has already, after masking: a secret may wrap over rows, and a late secret
//! changes rows, too.

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
use crate::event_sink::{Disconnected, EventSink};
use crate::screen_follower::ScreenFollower;
use crate::sessions::Sessions;
use crate::trouble::SessionError;

/// Minimum time between two events. A screen shows no more than 60 pictures a second.
const MIN_INTERVAL: Duration = Duration::from_millis(15);

/// Maximum time between two events.
const MAX_INTERVAL: Duration = Duration::from_secs(60);

/// A screen that receives this number of pieces of output between two looks is unreadable.
const FLOOD_PIECES: u64 = 8;

/// After this number of such looks in a row, a third of a second, the looks at a screen become rarer …
const FLOOD_LOOKS: u32 = 20;

/// … with this time in between.
const FLOOD_INTERVAL: Duration = Duration::from_millis(33);

/// Maximum number of rows above a screen: as many as the emulator keeps with their colours.
const MAX_SCROLLBACK_ROWS: u16 = 1000;

/// Minimum time between two events about the states of terminals.
const ACTIVITY_INTERVAL: Duration = Duration::from_millis(250);

/// The time from the first change after a pause to its event. A client looks at all terminals after an event, and that look must not
/// delay the echo of the key that made the change.
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
    /// Keeps the hold until the drop of this. Not boxed: the attribute would drop `self` at the call, which the body does
    /// not name.
    pub async fn forward(self) -> Result<(), Disconnected> {
        std::future::pending().await
    }
}

/// The states of all terminals, watched for one client.
#[derive(Debug)]
pub struct ActivityEvents {
    hosts: Hosts,
}

impl ActivityEvents {
    /// Sends an event whenever a state may have changed, until the client disconnects.
    #[boxed]
    pub async fn forward(self, request_id: &Value, sink: &EventSink) -> Result<(), Disconnected> {
        let mut seen = SeenActivity::default();
        loop {
            self.hosts.watch_activity(&mut seen).await;
            sleep(ACTIVITY_DELAY).await;
            sink.event(request_id, &TerminalsEvent::TerminalsChanged).await?;
            sleep(ACTIVITY_INTERVAL - ACTIVITY_DELAY).await;
        }
    }
}

impl Sessions {
    /// Reads a screen and what scrolled away.
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
                lines: (0_u16..).zip(&picture.rows).map(|(row, runs)| row_of(row, runs)).collect(),
                foreground: picture.foreground.to_string(),
                background: picture.background.to_string(),
                palette: picture.palette.iter().map(|(index, rgb)| (*index, rgb.to_string())).collect(),
                error: None,
            },
            Err(trouble) => {
                let error = Some(self.describe_trouble(&verb.session_id, trouble).await);
                ReadScrollbackReply { error, ..ReadScrollbackReply::default() }
            }
        }
    }

    /// Watches the states of all terminals.
    pub fn watch_terminals(&self) -> (WatchTerminalsReply, ActivityEvents) {
        (WatchTerminalsReply { success: true, error: None }, ActivityEvents { hosts: self.hosts.clone() })
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
            Err(trouble) => {
                let error = Some(self.describe_trouble(&verb.session_id, trouble).await);
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
            Err(trouble) => {
                let error = Some(self.describe_trouble(&verb.session_id, trouble).await);
                (HoldTerminalReply { success: false, session_id: verb.session_id, error }, None)
            }
        }
    }
}

impl ScreenEvents {
    /// Sends what changes until the terminal closes or the client disconnects. A client that reads slowly misses the
    /// states in between, and receives the latest one.
    #[boxed]
    pub async fn forward(self, request_id: &Value, sink: &EventSink) -> Result<(), Disconnected> {
        let mut follower = ScreenFollower::new(self.terminal, self.interval);
        let mut pace = FramePace::new(self.interval);
        let mut shown = None;
        loop {
            let known = follower.known();
            let update = match follower.next().await {
                Ok(update) => update,
                Err(_) => return sink.event(request_id, &ScreenEvent::ScreenClosed).await,
            };
            let pieces = known.map_or(0, |known| update.version.wrapping_sub(known));
            let due = Instant::now() + pace.after(pieces);
            let screen = Shown::from_update(update, &self.secrets);
            if let Some(change) = screen.change_from(shown.as_ref()) {
                sink.event(request_id, &ScreenEvent::ScreenChanged(Box::new(change))).await?;
                shown = Some(screen);
            }
            // Also what looks the same was a look: a program that prints one line again and again draws all the time.
            sleep_until(due).await;
        }
    }
}

/// The time between two looks at a screen. A flood of output halves the number of looks: it is unreadable, and each
/// look costs the daemon and the host of the terminal. The pace recognises a flood by the amount of output and not by
/// the clock, so that a busy machine changes nothing.
#[derive(Debug)]
struct FramePace {
    interval: Duration,
    /// Number of consecutive looks that met a flood.
    in_a_row: u32,
}

impl FramePace {
    fn new(interval: Duration) -> Self {
        Self { interval, in_a_row: 0 }
    }

    /// Returns the time to the next look, after a look with `pieces` pieces of output before it.
    fn after(&mut self, pieces: u64) -> Duration {
        self.in_a_row = if pieces >= FLOOD_PIECES { self.in_a_row.saturating_add(1) } else { 0 };
        if self.in_a_row < FLOOD_LOOKS { self.interval } else { self.interval.max(FLOOD_INTERVAL) }
    }
}

/// A screen without secrets, as a viewer draws it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    cols: u16,
    rows: Vec<Vec<Run>>,
    state: ScreenState,
}

impl Shown {
    pub(crate) fn from_update(update: ScreenUpdate, secrets: &Redactor) -> Self {
        let ScreenUpdate { picture, modes, title, exit, .. } = update;
        let picture = secrets.masked_picture(picture);
        let state = state_of(&picture, modes, secrets.masked(title), exit.map(|exit| exit.code));
        Self { cols: picture.cols, rows: picture.rows, state }
    }

    /// Returns the difference from the content that a viewer has; all of it if the viewer has nothing, or another size.
    pub(crate) fn change_from(&self, before: Option<&Self>) -> Option<ScreenChange> {
        let before = before.filter(|before| before.cols == self.cols && before.rows.len() == self.rows.len());
        if before == Some(self) {
            return None;
        }
        let rows = (0_u16..)
            .zip(&self.rows)
            .filter(|(row, runs)| before.is_none_or(|before| before.rows.get(usize::from(*row)) != Some(*runs)));
        let changed = rows.map(|(row, runs)| row_of(row, runs)).collect();
        Some(ScreenChange {
            cols: self.cols,
            rows: u16::try_from(self.rows.len()).unwrap_or(u16::MAX),
            whole: before.is_none(),
            changed,
            state: self.state.clone(),
        })
    }
}

fn state_of(picture: &Picture, modes: Modes, title: String, exit_code: Option<i32>) -> ScreenState {
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

fn row_of(row: u16, runs: &[Run]) -> ScreenRow {
    let links = (0_u16..).zip(runs).filter_map(|(index, run)| Some((index, run.link.clone()?)));
    ScreenRow { row, runs: runs.iter().map(run).collect(), links: links.collect() }
}

fn run(run: &Run) -> ScreenRun {
    ScreenRun(run.col, run.cols, run.text.clone(), style(&run.style, run.wide))
}

/// Returns the words of a style, as [`ScreenRun`] describes them.
fn style(style: &Style, wide: bool) -> String {
    let mut words = String::new();
    let mut colour = |sign: char, colour: Colour| match colour {
        Colour::Default => {}
        // Writing to a text does not fail.
        Colour::Indexed(index) => drop(write!(words, "{sign}{index},")),
        Colour::Rgb(rgb) => drop(write!(words, "{sign}{rgb},")),
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
    let words_of = [
        (style.bold, "B"),
        (style.dim, "D"),
        (style.italic, "I"),
        (style.strike, "S"),
        (style.inverse, "R"),
        (style.hidden, "H"),
        (!underline.is_empty(), underline),
        (wide, "W"),
    ];
    for (_, word) in words_of.into_iter().filter(|(is_set, _)| *is_set) {
        words.push_str(word);
        words.push(',');
    }
    words.pop();
    words
}

#[cfg(test)]
mod tests {
    use steplatch_terminal::Rgb;

    use super::*;

    #[test]
    fn a_flood_is_looked_at_half_as_often_until_it_pauses() {
        let interval = Duration::from_millis(15);
        let mut pace = FramePace::new(interval);
        for _ in 1..FLOOD_LOOKS {
            assert_eq!(pace.after(FLOOD_PIECES), interval);
        }
        assert_eq!([pace.after(1000), pace.after(FLOOD_PIECES)], [FLOOD_INTERVAL; 2]);
        assert_eq!([pace.after(1), pace.after(1000)], [interval; 2], "the next change is shown at once");
        assert!((0..100).all(|_| pace.after(FLOOD_PIECES - 1) == interval), "a film is no flood");
        let mut slow = FramePace::new(Duration::from_millis(500));
        assert!((0..100).all(|_| slow.after(1000) == Duration::from_millis(500)));
    }

    fn shown(texts: &[&str]) -> Shown {
        let run = |text: &&str| Run {
            col: 0,
            cols: u16::try_from(text.len()).unwrap(),
            wide: false,
            text: (*text).to_owned(),
            style: Style::default(),
            link: None,
        };
        let rows = texts.iter().map(|text| if text.is_empty() { Vec::new() } else { vec![run(text)] }).collect();
        Shown { cols: 80, rows, state: ScreenState::default() }
    }

    #[test]
    fn a_viewer_receives_what_it_has_not() {
        let first = shown(&["one", "two", ""]);
        let all = first.change_from(None).unwrap();
        assert!(all.whole && all.changed.len() == 3 && (all.cols, all.rows) == (80, 3));
        assert_eq!(first.change_from(Some(&first)), None);
        let second = shown(&["one", "2", "three"]);
        let change = second.change_from(Some(&first)).unwrap();
        let rows: Vec<u16> = change.changed.iter().map(|row| row.row).collect();
        assert_eq!((change.whole, rows), (false, vec![1, 2]));
        let larger = shown(&["one", "2", "three", ""]);
        assert!(larger.change_from(Some(&second)).unwrap().whole, "another size is another screen");
        let mut moved = second.clone();
        moved.state.title = "vim".to_owned();
        let change = moved.change_from(Some(&second)).unwrap();
        assert!(change.changed.is_empty() && change.state.title == "vim");
    }

    #[test]
    fn a_style_is_a_list_of_words() {
        assert_eq!(style(&Style::default(), false), "");
        let all = Style {
            fg: Colour::Indexed(9),
            bg: Colour::Rgb(Rgb(1, 2, 255)),
            bold: true,
            underline: Underline::Curled,
            underline_colour: Some(Colour::Indexed(1)),
            inverse: true,
            ..Style::default()
        };
        assert_eq!(style(&all, true), "f9,b#0102ff,u1,B,R,U3,W");
    }
}
