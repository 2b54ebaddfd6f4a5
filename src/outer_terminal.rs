//! Notifications of a person by the terminal in which a front-end runs: OSC 9, OSC 777 or OSC 99.
//!
//! The terminal shows them on the person's desktop, also through ssh. The sequence is chosen by what the environment
//! tells about the terminal; one that knows none of them ignores OSC 9. `attach` writes them between the sequences of
//! the program that it shows.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use steplatch_protocol::{Client, Events, ReconnectingClient, TerminalNotification, WatchNotifications};
use tokio::task::AbortHandle;

/// Pause between two attempts to reach a daemon after losing the connection.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Maximum length of a text in a sequence, in characters.
const MAX_CHARS: usize = 500;

/// Maximum number of notifications that wait for the end of a string.
const MAX_WAITING: usize = 10;

/// The sequence that a terminal understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sequence {
    /// `OSC 9 ; text`, of iTerm2 and most others.
    Osc9,
    /// `OSC 777 ; notify ; title ; text`, of rxvt-unicode.
    Osc777,
    /// `OSC 99`, of kitty, which can also withdraw (<https://sw.kovidgoyal.net/kitty/desktop-notifications/>).
    Osc99,
}

/// The terminal of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OuterTerminal {
    sequence: Sequence,
    /// True within tmux, which passes a wrapped sequence on if its option `allow-passthrough` is set.
    is_in_tmux: bool,
}

impl OuterTerminal {
    /// Returns the terminal that the environment describes.
    fn detect(variable: impl Fn(&str) -> Option<String>) -> Self {
        let value = |name: &str| variable(name).unwrap_or_default();
        let (program, term) = (value("TERM_PROGRAM").to_ascii_lowercase(), value("TERM"));
        let is_set = |name: &str| !value(name).is_empty();
        let sequence = if is_set("KITTY_WINDOW_ID") || term == "xterm-kitty" {
            Sequence::Osc99
        } else if matches!(program.as_str(), "wezterm" | "ghostty")
            || term.starts_with("foot")
            || term.starts_with("rxvt-unicode")
            || is_set("VTE_VERSION")
        {
            Sequence::Osc777
        } else {
            Sequence::Osc9
        };
        Self { sequence, is_in_tmux: is_set("TMUX") }
    }

    /// Returns the terminal of this process.
    pub(crate) fn of_process() -> Self {
        Self::detect(|name| std::env::var(name).ok())
    }

    /// Returns the bytes that show or withdraw a notification. Empty if the terminal cannot withdraw it.
    fn encode(self, notification: &TerminalNotification) -> String {
        // The daemon removes control characters; this process trusts only itself.
        let clean = |text: &str| -> String {
            text.chars().map(|sign| if sign.is_control() { ' ' } else { sign }).take(MAX_CHARS).collect()
        };
        let id: String = notification.id.chars().filter(char::is_ascii_alphanumeric).collect();
        let (title, body) = (clean(&notification.title), clean(&notification.body));
        let text = match (self.sequence, notification.is_withdrawn) {
            (Sequence::Osc99, true) => format!("\x1b]99;i={id}:p=close;\x1b\\"),
            (Sequence::Osc9 | Sequence::Osc777, true) => return String::new(),
            // Base64 keeps every character.
            (Sequence::Osc99, false) => format!(
                "\x1b]99;i={id}:d=0:e=1;{}\x1b\\\x1b]99;i={id}:p=body:e=1;{}\x1b\\",
                STANDARD.encode(title),
                STANDARD.encode(body)
            ),
            (Sequence::Osc777, false) => {
                format!("\x1b]777;notify;{};{}\x07", title.replace(';', ","), body.replace(';', ","))
            }
            // A number at the beginning would be another command, such as that for progress.
            (Sequence::Osc9, false) => format!("\x1b]9;steplatch: {title}. {body}\x07"),
        };
        match self.is_in_tmux {
            true => format!("\x1bPtmux;{}\x1b\\", text.replace('\x1b', "\x1b\x1b")),
            false => text,
        }
    }
}

/// The notifications of one daemon for this terminal.
pub(crate) struct Notifications {
    terminal: OuterTerminal,
    /// `None` if the daemon does not know the verb.
    events: Option<Events>,
}

impl Notifications {
    /// Subscribes to the notifications of a daemon.
    pub(crate) async fn subscribe(client: &Client) -> Self {
        let events = client.subscribe(WatchNotifications {}).await.ok().map(|(_, events)| events);
        Self { terminal: OuterTerminal::of_process(), events }
    }

    /// Waits for the next notification and returns its bytes. `None` once the daemon has exited, or if it is of an
    /// older version. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            let event = self.events.as_mut()?.next().await;
            let Some(event) = event else {
                self.events = None;
                return None;
            };
            let notification = serde_json::from_value(event).ok();
            let bytes = notification.map(|notification| self.terminal.encode(&notification)).unwrap_or_default();
            if !bytes.is_empty() {
                return Some(bytes);
            }
        }
    }

    /// Waits like [`Self::next`], forever if no more notifications arrive.
    pub(crate) async fn next_or_never(&mut self) -> String {
        match self.next().await {
            Some(bytes) => bytes,
            None => std::future::pending().await,
        }
    }
}

/// Task that writes notifications to standard output until it is dropped.
#[derive(Debug)]
pub(crate) struct NotificationWriter(AbortHandle);

impl NotificationWriter {
    /// Starts the task, unless standard output is not a terminal. The runtime must have a single thread, so that no
    /// other output is interrupted.
    pub(crate) fn start(daemon: ReconnectingClient) -> Option<Self> {
        io::stdout().is_terminal().then(|| Self(tokio::spawn(write_notifications(daemon)).abort_handle()))
    }
}

impl Drop for NotificationWriter {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn write_notifications(daemon: ReconnectingClient) {
    loop {
        if let Ok(client) = daemon.running().await {
            let mut notifications = Notifications::subscribe(&client).await;
            while let Some(bytes) = notifications.next().await {
                let mut out = io::stdout();
                if out.write_all(bytes.as_bytes()).and_then(|()| out.flush()).is_err() {
                    return;
                }
            }
            if !client.is_closed() {
                // An older daemon does not know the verb.
                return;
            }
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// Notifications that wait for a place between the sequences of a program.
#[derive(Debug, Default)]
pub(crate) struct WaitingNotifications(VecDeque<String>);

impl WaitingNotifications {
    /// Adds the bytes of a notification. If too many wait, the oldest one is dropped.
    pub(crate) fn add(&mut self, bytes: String) {
        if self.0.len() >= MAX_WAITING {
            self.0.pop_front();
        }
        self.0.push_back(bytes);
    }

    /// Writes all of them.
    pub(crate) fn write(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        self.0.drain(..).try_for_each(|bytes| out.write_all(bytes.as_bytes()))?;
        out.flush()
    }
}

/// Follows the output of a program, to find places between its sequences and characters.
///
/// The daemon never cuts a sequence, except a long string such as a picture.
#[derive(Debug, Default)]
pub(crate) struct OutputBoundary {
    place: Place,
    is_after_escape: bool,
    /// Number of bytes that complete the last character.
    missing_bytes: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    #[default]
    Text,
    String,
    /// A string that begins with this many bytes of [`TMUX_PREFIX`].
    TmuxPrefix(usize),
    /// A wrapped sequence for the terminal around tmux. Within it, each escape is doubled.
    TmuxPassthrough,
}

/// Beginning of the strings that tmux passes on.
const TMUX_PREFIX: &[u8] = b"tmux;";

impl OutputBoundary {
    /// Records output.
    pub(crate) fn record(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let is_after_escape = std::mem::take(&mut self.is_after_escape);
            self.is_after_escape = *byte == 0x1b && !(is_after_escape && self.place == Place::TmuxPassthrough);
            self.place = match (self.place, byte) {
                (Place::TmuxPassthrough, b'\\') if is_after_escape => Place::Text,
                (Place::TmuxPassthrough, _) => Place::TmuxPassthrough,
                (place, 0x1b) => place,
                (_, b'P') if is_after_escape => Place::TmuxPrefix(0),
                (_, b']' | b'_' | b'^' | b'X') if is_after_escape => Place::String,
                // Besides its terminator, any other sequence ends a string.
                _ if is_after_escape => Place::Text,
                (_, 0x07 | 0x18 | 0x1a) => Place::Text,
                (Place::TmuxPrefix(count), byte) if TMUX_PREFIX[count] == *byte => match count + 1 {
                    count if count == TMUX_PREFIX.len() => Place::TmuxPassthrough,
                    count => Place::TmuxPrefix(count),
                },
                (Place::TmuxPrefix(_), _) => Place::String,
                (place, _) => place,
            };
            self.missing_bytes = match byte {
                0xc2..=0xdf => 1,
                0xe0..=0xef => 2,
                0xf0..=0xf4 => 3,
                0x80..=0xbf => self.missing_bytes.saturating_sub(1),
                _ => 0,
            };
        }
    }

    /// Returns whether another sequence may be written now.
    pub(crate) fn is_reached(&self) -> bool {
        self.place == Place::Text && !self.is_after_escape && self.missing_bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notification(is_withdrawn: bool) -> TerminalNotification {
        let (title, body) = ("a;b\x1b]0;x\x07 waits".to_owned(), "Since 12:05.\nlink".to_owned());
        TerminalNotification { id: "0f;1".to_owned(), title, body, is_withdrawn }
    }

    #[test]
    fn terminal_gets_a_sequence_that_it_knows() {
        let shown = |variables: &[(&str, &str)]| {
            let value =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            let terminal = OuterTerminal::detect(value);
            (terminal.encode(&notification(false)), terminal.encode(&notification(true)))
        };
        let osc9 = "\x1b]9;steplatch: a;b ]0;x  waits. Since 12:05. link\x07";
        let osc777 = "\x1b]777;notify;a,b ]0,x  waits;Since 12:05. link\x07";
        let plain = |text: &str| (text.to_owned(), String::new());
        assert_eq!(shown(&[("TERM", "xterm-256color")]), plain(osc9));
        assert_eq!(shown(&[("TERM_PROGRAM", "iTerm.app")]), plain(osc9));
        assert_eq!(shown(&[]), plain(osc9));
        for variables in [[("TERM_PROGRAM", "WezTerm")], [("TERM", "foot-extra")], [("VTE_VERSION", "7600")]] {
            assert_eq!(shown(&variables), plain(osc777));
        }
        let (kitty, withdrawn) = shown(&[("KITTY_WINDOW_ID", "1"), ("TERM_PROGRAM", "WezTerm")]);
        assert!(kitty.starts_with("\x1b]99;i=0f1:d=0:e=1;YTti") && kitty.ends_with("\x1b\\"), "{kitty:?}");
        assert_eq!(withdrawn, "\x1b]99;i=0f1:p=close;\x1b\\");
        let (in_tmux, _) = shown(&[("TMUX", "/tmp/tmux"), ("TERM", "screen")]);
        assert_eq!(in_tmux, format!("\x1bPtmux;\x1b{osc9}\x1b\\"));
    }

    #[test]
    fn newest_notifications_wait() {
        let mut waiting = WaitingNotifications::default();
        (0..12).for_each(|number| waiting.add(format!("{number} ")));
        let mut out = Vec::new();
        waiting.write(&mut out).unwrap();
        waiting.write(&mut out).unwrap();
        assert_eq!(out, b"2 3 4 5 6 7 8 9 10 11 ");
    }

    #[test]
    fn notification_waits_for_the_end_of_a_string_or_character() {
        let is_reached = |bytes: &[u8]| {
            let mut boundary = OutputBoundary::default();
            bytes.chunks(1).for_each(|bytes| boundary.record(bytes));
            boundary.is_reached()
        };
        for complete in ["", "text", "\x1b[31m", "\x1b]0;title\x07", "\x1bPq#0\x1b\\", "é€🦀", "\x1b]8;;\x18"] {
            assert!(is_reached(complete.as_bytes()), "{complete:?}");
        }
        for incomplete in ["\x1b", "\x1bPq#0", "\x1b]52;c;aaaa", "\x1b]0;t\x1b", "\x1bPtmux;\x1b\x1b[m"] {
            assert!(!is_reached(incomplete.as_bytes()), "{incomplete:?}");
        }
        // A killed program leaves a string open; the terminal leaves it at the next sequence.
        for left in ["\x1bPq#0\x1b[m", "\x1b]0;t\x1b[2J", "\x1bPtmux;\x1b\x1b]9;t\x07\x1b\\", "\x1bPtm\x1b[m"] {
            assert!(is_reached(left.as_bytes()), "{left:?}");
        }
        for inner in ["\x1bPtmux;\x1b\x1b]9;t\x07", "\x1bPtmux;\x1b\x1bPq\x1b\x1b\\", "\x1b]0;t\x1b]0;u"] {
            assert!(!is_reached(inner.as_bytes()), "{inner:?}");
        }
        assert!(!is_reached(&"🦀".as_bytes()[..3]) && !is_reached(&"é".as_bytes()[..1]));
    }
}
