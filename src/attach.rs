//! Attachment of a person to a terminal of the daemon: raw keys in, raw output out.

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
use crate::outer_terminal::{Notifications, OutputBoundary, WaitingNotifications};
use crate::{daemon_client, print};

/// The key that detaches from a terminal, as the byte that the key sends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DetachKey(u8);

impl FromStr for DetachKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        match lower.strip_prefix("ctrl-").or_else(|| lower.strip_prefix('^')).map(str::as_bytes) {
            Some([key @ (b'a'..=b'z' | b'[' | b'\\' | b']' | b'^' | b'_')]) => Ok(Self(key & 0x1f)),
            _ => Err("the detach key must be ctrl- with a letter, or ctrl-\\, ctrl-], ctrl-^ or ctrl-_".to_owned()),
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

/// A line at the bottom of the screen that names the detach key during the first seconds.
///
/// The line appears only on a blank row, and stays once output may have moved or replaced that row.
struct Hint {
    /// Time of the line's removal.
    until: tokio::time::Instant,
    /// Number of further output bytes that leave the row unchanged. Beyond it, the row counts as changed.
    unchanged_bytes: usize,
    is_shown: bool,
}

impl Hint {
    /// Maximum time on the screen.
    const MAX_TIME: Duration = Duration::from_secs(5);
    /// Maximum number of bytes of output that leave the row unchanged: more than a shell writes to redraw its prompt.
    const MAX_UNCHANGED_BYTES: usize = 256;

    fn none() -> Self {
        Self { until: tokio::time::Instant::now(), unchanged_bytes: 0, is_shown: false }
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
        Ok(Self {
            until: tokio::time::Instant::now() + Self::MAX_TIME,
            unchanged_bytes: Self::MAX_UNCHANGED_BYTES,
            is_shown: true,
        })
    }

    /// Records output of the program.
    fn record_output(&mut self, bytes: &[u8]) {
        self.unchanged_bytes = self.unchanged_bytes.saturating_sub(bytes.len());
        self.is_shown &= self.unchanged_bytes > 0 && !bytes.contains(&b'\n');
    }

    /// Removes the line, if it is still unchanged.
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
    /// The person pressed the detach key; the terminal keeps running.
    Detached,
    /// The program exited, with this exit code if known.
    Ended(Option<i32>),
}

/// A person's attachment to a terminal, across restarts of the daemon.
struct Attachment<'a> {
    paths: &'a DaemonPaths,
    session: String,
    hold_key: Option<String>,
    client: Client,
    events: Events,
    notifications: Notifications,
    title: String,
}

/// Maximum time that a client tries to reach a daemon again after losing its connection.
pub(crate) const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl<'a> Attachment<'a> {
    async fn begin(
        paths: &'a DaemonPaths,
        id: &str,
        key: DetachKey,
        hold: bool,
    ) -> Result<(Self, AttachTerminalReply), Failure> {
        let hold_key = hold.then(random_name);
        let client = daemon_client::client(paths).await?;
        let verb = AttachTerminal { session_id: id.to_owned(), hold_key: hold_key.clone(), masked: false };
        let (reply, events) = client.subscribe(verb).await?;
        if let Some(error) = reply.error {
            return Err(Failure::work(error));
        }
        let hold_note = if hold { "held by you, " } else { "" };
        let title = format!("{id} ({hold_note}{} detaches)", key.name());
        let notifications = Notifications::subscribe(&client).await;
        let session = reply.session_id.clone();
        let attachment = Self { paths, session, hold_key, client, events, notifications, title };
        Ok((attachment, reply))
    }

    /// Attaches again once a daemon is reachable. Returns the current screen.
    async fn attach_again(&mut self) -> Result<String, Failure> {
        let began = Instant::now();
        loop {
            match self.try_attach_again().await {
                Ok(reply) => match reply.error {
                    None => return Ok(reply.snapshot),
                    Some(error) => return Err(Failure::work(error)),
                },
                // The daemon may be stopping or starting: retry.
                Err(_) if began.elapsed() < RECONNECT_TIMEOUT => tokio::time::sleep(Duration::from_millis(50)).await,
                Err(error) => return Err(error),
            }
        }
    }

    async fn try_attach_again(&mut self) -> Result<AttachTerminalReply, Failure> {
        let client = daemon_client::client(self.paths).await?;
        let verb = AttachTerminal { session_id: self.session.clone(), hold_key: self.hold_key.clone(), masked: false };
        let (reply, events) = client.subscribe(verb).await?;
        self.notifications = Notifications::subscribe(&client).await;
        (self.client, self.events) = (client, events);
        Ok(reply)
    }

    /// Sends keys exactly once, even across a restart of the daemon. Returns the error if the daemon refuses them.
    async fn send_keys(&mut self, bytes: &[u8], out: &mut io::Stdout) -> Result<Option<String>, Failure> {
        let (session_id, hold_key) = (self.session.clone(), self.hold_key.clone());
        let verb = WriteTerminal { session_id, bytes: STANDARD.encode(bytes), hold_key, ..WriteTerminal::default() };
        let step = random_name();
        loop {
            match self.client.call_once(&verb, &step).await {
                // If the program has exited, its last event reports that.
                Ok(reply) => return Ok(reply.error),
                Err(CallError::Lost) => draw(out, &self.attach_again().await?)?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sets the terminal's size.
    async fn resize(&self, cols: u16, rows: u16) {
        let verb = ResizeTerminal { session_id: self.session.clone(), cols, rows };
        let _ = self.client.call(verb).await;
    }

    /// Sets the terminal's size to the size of the person's own terminal.
    async fn fit_size(&self) -> Result<(), Failure> {
        let size = tcgetwinsize(io::stdout()).map_err(io::Error::from)?;
        if size.ws_col >= 2 && size.ws_row >= 2 {
            self.resize(size.ws_col, size.ws_row).await;
        }
        Ok(())
    }

    /// Returns the number of used rows from the top of the screen, or `usize::MAX` if unknown.
    async fn used_rows(&self) -> usize {
        let verb = GetScreenContent { session_id: self.session.clone(), ..GetScreenContent::default() };
        let content = self.client.call(verb).await.ok().and_then(|reply| reply.screen_content);
        content.map_or(usize::MAX, |content| content.lines().count())
    }

    /// Restores the terminal's size and releases the hold, so that an agent finds the same width and may type again.
    async fn leave(&self, cols: u16, rows: u16) {
        self.resize(cols, rows).await;
        if let Some(hold_key) = self.hold_key.clone() {
            // Ignore an error, because the daemon also releases the hold when this client disconnects.
            let _ = self.client.call(HandBackTerminal { session_id: self.session.clone(), hold_key, note: None }).await;
        }
    }
}

/// Attaches a person to the terminal `id` until the terminal ends or the person leaves. With `hold`, nothing else can
/// type.
pub(crate) async fn attach(paths: &DaemonPaths, id: &str, key: DetachKey, hold: bool) -> Result<ExitCode, Failure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Failure::usage(
            "attach needs a terminal on standard input and output; to read a screen use: steplatch terminal screen",
        ));
    }
    let end = visit(paths, id, key, hold).await?;
    print::line("")?;
    match end {
        AttachEnd::Detached => {
            print::remark(&format!("detached; the terminal keeps running: steplatch terminal attach {id}"));
        }
        AttachEnd::Ended(code) => {
            let code = code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
            print::remark(&format!("the program in {id} exited{code}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Attaches like [`attach`], without a remark at the end. Returns the reason that the attachment ended.
pub(crate) async fn visit(paths: &DaemonPaths, id: &str, key: DetachKey, hold: bool) -> Result<AttachEnd, Failure> {
    let (mut attachment, reply) = Attachment::begin(paths, id, key, hold).await?;
    let raw = RawMode::enter()?;
    let mut out = io::stdout();
    set_title(&mut out, &attachment.title)?;
    draw(&mut out, &reply.snapshot)?;
    attachment.fit_size().await?;
    let mut hint = Hint::show(&mut out, &attachment.title, attachment.used_rows().await)?;
    let mut keys = Keyboard::open()?;
    let mut resized = signal(SignalKind::window_change())?;
    let (mut boundary, mut waiting) = (OutputBoundary::default(), WaitingNotifications::default());
    let end = loop {
        if boundary.is_reached() {
            waiting.write(&mut out)?;
        }
        tokio::select! {
            event = attachment.events.next() => match event.map(serde_json::from_value::<TerminalEvent>) {
                Some(Ok(TerminalEvent::TerminalOutput { bytes })) => {
                    let bytes = STANDARD.decode(bytes).unwrap_or_default();
                    hint.record_output(&bytes);
                    boundary.record(&bytes);
                    out.write_all(&bytes)?;
                    out.flush()?;
                }
                Some(Ok(TerminalEvent::TerminalRedrawn { snapshot })) => {
                    draw(&mut out, &snapshot)?;
                    boundary = OutputBoundary::default();
                }
                Some(Ok(TerminalEvent::TerminalEnded { exit_code })) => break AttachEnd::Ended(exit_code),
                Some(Ok(TerminalEvent::TerminalResized { .. }) | Err(_)) => {}
                // The daemon exited; the terminal still exists.
                None => {
                    draw(&mut out, &attachment.attach_again().await?)?;
                    boundary = OutputBoundary::default();
                }
            },
            input = keys.next() => {
                let Some(input) = input else { break AttachEnd::Detached };
                hint.remove(&mut out)?;
                let detach_position = input.iter().position(|byte| *byte == key.0);
                let sent_keys = &input[..detach_position.unwrap_or(input.len())];
                if !sent_keys.is_empty()
                    && let Some(error) = attachment.send_keys(sent_keys, &mut out).await?
                {
                    // The title does not disturb the program's screen.
                    set_title(&mut out, &error)?;
                }
                if detach_position.is_some() {
                    break AttachEnd::Detached;
                }
            }
            notification = attachment.notifications.next_or_never() => waiting.add(notification),
            _ = resized.recv() => attachment.fit_size().await?,
            () = tokio::time::sleep_until(hint.until), if hint.is_shown => hint.remove(&mut out)?,
        }
    };
    if matches!(end, AttachEnd::Detached) {
        attachment.leave(reply.cols, reply.rows).await;
    }
    drop(raw);
    Ok(end)
}

/// Sets the title of the window.
fn set_title(out: &mut io::Stdout, title: &str) -> io::Result<()> {
    write!(out, "\x1b]0;{title}\x07")?;
    out.flush()
}

/// Draws a screen. The previous content scrolls off instead of being overwritten.
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
