//! A person at a terminal of the daemon: raw keys in, raw output out.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::termios::tcgetwinsize;
use steplatch_ids::random_name;
use steplatch_protocol::{
    AttachTerminal, AttachTerminalReply, CallError, Client, DaemonPaths, Events, GetScreenContent, HandBackTerminal,
    ResizeTerminal, TerminalEvent, WriteTerminal,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;
use crate::keyboard::{Keyboard, RawMode};
use crate::{front, print};

/// The key that leaves a terminal: the byte that it sends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DetachKey(u8);

impl FromStr for DetachKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        match lower.strip_prefix("ctrl-").or_else(|| lower.strip_prefix('^')).map(str::as_bytes) {
            Some([key @ (b'a'..=b'z' | b'[' | b'\\' | b']' | b'^' | b'_')]) => Ok(Self(key & 0x1f)),
            _ => Err("a detach key is ctrl- and a letter, or ctrl-\\, ctrl-], ctrl-^ or ctrl-_".to_owned()),
        }
    }
}

impl Default for DetachKey {
    fn default() -> Self {
        Self(b'\\' & 0x1f)
    }
}

impl DetachKey {
    pub(crate) fn name(self) -> String {
        format!("ctrl-{}", char::from(self.0 | 0x40).to_ascii_lowercase())
    }
}

/// A line at the bottom of the screen that states how to leave, for the first seconds.
///
/// It appears only on a blank row. Output that may have moved or replaced the row leaves it to scroll away.
struct Hint {
    /// Time of its removal.
    until: tokio::time::Instant,
    /// Number of bytes of output that may still come before the row counts as changed.
    quiet: usize,
    is_shown: bool,
}

impl Hint {
    /// Maximum time on the screen.
    const SHOWN: Duration = Duration::from_secs(5);
    /// A shell that draws its prompt again after a resize writes fewer bytes.
    const QUIET: usize = 256;

    fn none() -> Self {
        Self { until: tokio::time::Instant::now(), quiet: 0, is_shown: false }
    }

    /// Shows `text` on the last row, if `used` rows leave it blank.
    fn show(out: &mut io::Stdout, text: &str, used: usize) -> io::Result<Self> {
        let Ok(size) = tcgetwinsize(io::stdout()) else { return Ok(Self::none()) };
        if used >= usize::from(size.ws_row) {
            return Ok(Self::none());
        }
        let text = print::fitted(text, usize::from(size.ws_col));
        write!(out, "\x1b7\x1b[{};1H\x1b[2m{text}\x1b[22m\x1b8", size.ws_row)?;
        out.flush()?;
        Ok(Self { until: tokio::time::Instant::now() + Self::SHOWN, quiet: Self::QUIET, is_shown: true })
    }

    /// Takes note of output of the program.
    fn output(&mut self, bytes: &[u8]) {
        self.quiet = self.quiet.saturating_sub(bytes.len());
        self.is_shown &= self.quiet > 0 && !bytes.contains(&b'\n');
    }

    /// Removes the line, if it is still there.
    fn remove(&mut self, out: &mut io::Stdout) -> io::Result<()> {
        if std::mem::take(&mut self.is_shown)
            && let Ok(size) = tcgetwinsize(io::stdout())
        {
            write!(out, "\x1b7\x1b[{};1H\x1b[2K\x1b8", size.ws_row)?;
            out.flush()?;
        }
        Ok(())
    }
}

/// End of a person's attachment to a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttachEnd {
    /// By the detach key; the terminal keeps running.
    Detached,
    /// Its program ended, with this exit code where known.
    Ended(Option<i32>),
}

/// A terminal that the person has attached to, across restarts of the daemon.
struct Joined<'a> {
    place: &'a DaemonPaths,
    session: String,
    hold_key: Option<String>,
    client: Client,
    events: Events,
    title: String,
}

/// Time that a client waits for a daemon that went away.
pub(crate) const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl<'a> Joined<'a> {
    async fn join(
        place: &'a DaemonPaths,
        id: &str,
        key: DetachKey,
        hold: bool,
    ) -> Result<(Self, AttachTerminalReply), Failure> {
        let hold_key = hold.then(random_name);
        let client = front::client(place).await?;
        let verb = AttachTerminal { session_id: id.to_owned(), hold_key: hold_key.clone(), masked: false };
        let (reply, events) = client.subscribe(verb).await?;
        if let Some(error) = reply.error {
            return Err(Failure::work(error));
        }
        let held = if hold { "held by you, " } else { "" };
        let title = format!("{id} ({held}{} detaches)", key.name());
        let joined = Self { place, session: reply.session_id.clone(), hold_key, client, events, title };
        Ok((joined, reply))
    }

    /// Attaches again through the next daemon, and returns a drawing of the current screen.
    async fn join_again(&mut self) -> Result<String, Failure> {
        let began = Instant::now();
        loop {
            match self.try_again().await {
                Ok(reply) => match reply.error {
                    None => return Ok(reply.snapshot),
                    Some(error) => return Err(Failure::work(error)),
                },
                // Retries, because the daemon may be stopping or starting.
                Err(_) if began.elapsed() < RECONNECT_TIMEOUT => tokio::time::sleep(Duration::from_millis(50)).await,
                Err(error) => return Err(error),
            }
        }
    }

    async fn try_again(&mut self) -> Result<AttachTerminalReply, Failure> {
        let client = front::client(self.place).await?;
        let verb = AttachTerminal { session_id: self.session.clone(), hold_key: self.hold_key.clone(), masked: false };
        let (reply, events) = client.subscribe(verb).await?;
        (self.client, self.events) = (client, events);
        Ok(reply)
    }

    /// Sends keys exactly once, also across a restart of the daemon. Returns the reason of a refusal.
    async fn types(&mut self, bytes: &[u8], out: &mut io::Stdout) -> Result<Option<String>, Failure> {
        let (session_id, hold_key) = (self.session.clone(), self.hold_key.clone());
        let verb = WriteTerminal { session_id, bytes: STANDARD.encode(bytes), hold_key, ..WriteTerminal::default() };
        let step = random_name();
        loop {
            match self.client.call_once(&verb, &step).await {
                // If the program has ended, its last event is on the way.
                Ok(reply) => return Ok(reply.error),
                Err(CallError::Lost) => draw(out, &self.join_again().await?)?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sets the terminal's size; a daemon that is away receives it after reconnection.
    async fn resize(&self, cols: u16, rows: u16) {
        let verb = ResizeTerminal { session_id: self.session.clone(), cols, rows };
        let _ = self.client.call(verb).await;
    }

    /// Sets the terminal to the size of the person's own.
    async fn fit(&self) -> Result<(), Failure> {
        let size = tcgetwinsize(io::stdout()).map_err(io::Error::from)?;
        if size.ws_col >= 2 && size.ws_row >= 2 {
            self.resize(size.ws_col, size.ws_row).await;
        }
        Ok(())
    }

    /// Returns the number of used rows of the screen, from the top; all of them if that is unknown.
    async fn used_rows(&self) -> usize {
        let verb = GetScreenContent { session_id: self.session.clone(), ..GetScreenContent::default() };
        let content = self.client.call(verb).await.ok().and_then(|reply| reply.screen_content);
        content.map_or(usize::MAX, |content| content.lines().count())
    }

    /// Restores the terminal's size and releases the hold, so that an agent finds the same width and may type again.
    async fn leave(&self, cols: u16, rows: u16) {
        self.resize(cols, rows).await;
        if let Some(hold_key) = self.hold_key.clone() {
            // If the daemon is away, it releases the hold when it notices that this client has disconnected.
            let _ = self.client.call(HandBackTerminal { session_id: self.session.clone(), hold_key, note: None }).await;
        }
    }
}

/// Attaches a person to the terminal `id` until it ends or they leave it; with `hold`, nothing else can type.
pub(crate) async fn attach(place: &DaemonPaths, id: &str, key: DetachKey, hold: bool) -> Result<ExitCode, Failure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Failure::usage(
            "attach needs a terminal on standard input and output; to read a screen use: steplatch terminal screen",
        ));
    }
    let left = visit(place, id, key, hold).await?;
    print::line("")?;
    match left {
        AttachEnd::Detached => {
            print::remark(&format!("detached; the terminal keeps running: steplatch terminal attach {id}"));
        }
        AttachEnd::Ended(code) => {
            let code = code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
            print::remark(&format!("the program in {id} ended{code}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// As [`attach`], without a remark at the end. Returns how the person left, and the terminal's id.
pub(crate) async fn visit(place: &DaemonPaths, id: &str, key: DetachKey, hold: bool) -> Result<AttachEnd, Failure> {
    let (mut joined, found) = Joined::join(place, id, key, hold).await?;
    let raw = RawMode::enter()?;
    let mut out = io::stdout();
    name(&mut out, &joined.title)?;
    draw(&mut out, &found.snapshot)?;
    joined.fit().await?;
    let mut hint = Hint::show(&mut out, &joined.title, joined.used_rows().await)?;
    let mut keys = Keyboard::open()?;
    let mut resized = signal(SignalKind::window_change())?;
    let left = loop {
        tokio::select! {
            event = joined.events.next() => match event.map(serde_json::from_value::<TerminalEvent>) {
                Some(Ok(TerminalEvent::TerminalOutput { bytes })) => {
                    let bytes = STANDARD.decode(bytes).unwrap_or_default();
                    hint.output(&bytes);
                    out.write_all(&bytes)?;
                    out.flush()?;
                }
                Some(Ok(TerminalEvent::TerminalRedrawn { snapshot })) => draw(&mut out, &snapshot)?,
                Some(Ok(TerminalEvent::TerminalEnded { exit_code })) => break AttachEnd::Ended(exit_code),
                Some(Ok(TerminalEvent::TerminalResized { .. }) | Err(_)) => {}
                // The daemon went away; the terminal still exists.
                None => draw(&mut out, &joined.join_again().await?)?,
            },
            typed = keys.next() => {
                let Some(typed) = typed else { break AttachEnd::Detached };
                hint.remove(&mut out)?;
                let before = typed.iter().position(|byte| *byte == key.0);
                let sent = &typed[..before.unwrap_or(typed.len())];
                if !sent.is_empty()
                    && let Some(refused) = joined.types(sent, &mut out).await?
                {
                    // In the title, where it does not disturb the program's drawing.
                    name(&mut out, &refused)?;
                }
                if before.is_some() {
                    break AttachEnd::Detached;
                }
            }
            _ = resized.recv() => joined.fit().await?,
            () = tokio::time::sleep_until(hint.until), if hint.is_shown => hint.remove(&mut out)?,
        }
    };
    if matches!(left, AttachEnd::Detached) {
        joined.leave(found.cols, found.rows).await;
    }
    drop(raw);
    Ok(left)
}

/// Sets the title of the window.
fn name(out: &mut io::Stdout, title: &str) -> io::Result<()> {
    write!(out, "\x1b]0;{title}\x07")?;
    out.flush()
}

/// Draws a screen; the previous content scrolls away rather than being overwritten.
fn draw(out: &mut io::Stdout, snapshot: &str) -> io::Result<()> {
    out.write_all(snapshot.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detach_keys_have_names() {
        for (text, byte, name) in [("ctrl-\\", 0x1c, "ctrl-\\"), ("ctrl-]", 0x1d, "ctrl-]"), ("^A", 1, "ctrl-a")] {
            let key: DetachKey = text.parse().unwrap();
            assert_eq!((key.0, key.name().as_str()), (byte, name));
        }
        assert!("x".parse::<DetachKey>().is_err());
    }
}
