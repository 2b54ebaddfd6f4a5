//! A person at a terminal of the daemon: raw keys in, raw output out.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::process::ExitCode;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use steplatch_protocol::{AttachTerminal, CallError, Client, Place, ResizeTerminal, TerminalEvent, WriteTerminal};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::failure::Failure;
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

impl DetachKey {
    fn name(self) -> String {
        format!("ctrl-{}", char::from(self.0 | 0x40).to_ascii_lowercase())
    }
}

/// Puts the person's own terminal back as it was.
struct RawMode {
    before: Termios,
}

/// What programs may have switched on in the person's terminal, switched off again: the alternate screen,
/// the mouse, focus reports, bracketed paste, application keys, colours; and the cursor shown.
const RESTORE: &str =
    "\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[?1l\x1b>\x1b[<u\x1b[m\x1b[?25h";

impl RawMode {
    fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?;
        Ok(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // On the way out there is nobody left to tell of a failure.
        let mut out = io::stdout().lock();
        let _ = out.write_all(RESTORE.as_bytes());
        let _ = out.flush();
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

/// How it ended.
enum Left {
    Detached,
    Ended(Option<i32>),
    Lost,
}

/// Lets a person use the terminal `id` until it ends or they leave it.
pub(crate) async fn attach(place: &Place, id: &str, key: DetachKey) -> Result<ExitCode, Failure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Failure::usage(
            "attach needs a terminal of yours on standard input and output; to read one use: steplatch terminal screen",
        ));
    }
    let client = front::client(place).await?;
    let (joined, mut events) = client.subscribe(AttachTerminal { session_id: id.to_owned(), masked: false }).await?;
    if let Some(error) = joined.error {
        return Err(Failure::work(error));
    }
    let session = joined.session_id;
    let raw = RawMode::enter()?;
    let mut out = io::stdout();
    // What stood on the screen scrolls away rather than being overwritten.
    write!(out, "\x1b]0;{session} ({} detaches)\x07", key.name())?;
    draw(&mut out, &joined.snapshot)?;
    resize(&client, &session).await?;
    let mut keys = keyboard();
    let mut resized = signal(SignalKind::window_change())?;
    let left = loop {
        tokio::select! {
            event = events.next() => match event.map(serde_json::from_value::<TerminalEvent>) {
                Some(Ok(TerminalEvent::TerminalOutput { bytes })) => {
                    out.write_all(&STANDARD.decode(bytes).unwrap_or_default())?;
                    out.flush()?;
                }
                Some(Ok(TerminalEvent::TerminalRedrawn { snapshot })) => draw(&mut out, &snapshot)?,
                Some(Ok(TerminalEvent::TerminalEnded { exit_code })) => break Left::Ended(exit_code),
                Some(Ok(TerminalEvent::TerminalResized { .. }) | Err(_)) => {}
                None => break Left::Lost,
            },
            typed = keys.recv() => {
                let Some(typed) = typed else { break Left::Detached };
                let before = typed.iter().position(|byte| *byte == key.0);
                let sent = &typed[..before.unwrap_or(typed.len())];
                if !sent.is_empty() {
                    write_keys(&client, &session, sent).await?;
                }
                if before.is_some() {
                    break Left::Detached;
                }
            }
            _ = resized.recv() => resize(&client, &session).await?,
        }
    };
    // An agent that works in this terminal finds it as wide as it was.
    if matches!(left, Left::Detached) {
        let verb = ResizeTerminal { session_id: session.clone(), cols: joined.cols, rows: joined.rows };
        client.call(verb).await?;
    }
    drop(raw);
    print::line("")?;
    match left {
        Left::Detached => {
            print::note(&format!("detached; the terminal goes on: steplatch terminal attach {session}"));
            Ok(ExitCode::SUCCESS)
        }
        Left::Ended(code) => {
            let code = code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
            print::note(&format!("the program in {session} ended{code}"));
            Ok(ExitCode::SUCCESS)
        }
        Left::Lost => Err(CallError::Lost.into()),
    }
}

fn draw(out: &mut io::Stdout, snapshot: &str) -> io::Result<()> {
    out.write_all(snapshot.as_bytes())?;
    out.flush()
}

async fn write_keys(client: &Client, session: &str, bytes: &[u8]) -> Result<(), Failure> {
    let verb = WriteTerminal { session_id: session.to_owned(), bytes: STANDARD.encode(bytes) };
    // A program that ended says so in an event that is on its way.
    client.call(verb).await.map(drop).map_err(Failure::from)
}

/// Gives the terminal the size of the person's own.
async fn resize(client: &Client, session: &str) -> Result<(), Failure> {
    let size = tcgetwinsize(io::stdout()).map_err(io::Error::from)?;
    if size.ws_col >= 2 && size.ws_row >= 2 {
        let verb = ResizeTerminal { session_id: session.to_owned(), cols: size.ws_col, rows: size.ws_row };
        client.call(verb).await?;
    }
    Ok(())
}

/// Reads what the person types, in a thread of its own: a read can not be taken back.
fn keyboard() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut buffer = [0u8; 4096];
        let mut input = io::stdin().lock();
        while let Ok(count @ 1..) = input.read(&mut buffer) {
            if sender.blocking_send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
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
