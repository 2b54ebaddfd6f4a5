//! The person's own terminal: keys as bytes, and the raw mode. In raw mode, every key arrives immediately.
//!
//! A thread reads the keyboard, because reads block. The thread can stop without waiting for another key, so that it
//! takes no input from the component that reads next.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

/// Control sequence that resets the modes that programs may have set in the person's terminal, and shows the cursor:
/// the alternate screen, the mouse, reports, bracketed paste, the keyboard protocols, keyboard lock and insert mode,
/// margins (which move the cursor), inverse video, character sets, application keys and colours.
pub(crate) const RESTORE_SEQUENCE: &str = concat!(
    "\x1b[?1049l\x1b[?47l\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l\x1b[?1004l",
    "\x1b[?2031l\x1b[?2048l\x1b[?5522l\x1b[?2026l\x1b[?2004l\x1b[<99u\x1b[=0u\x1b[>4m\x1b[2l\x1b[4l\x1b[20l",
    "\x1b7\x1b[?6l\x1b[?69l\x1b[?45l\x1b[?1045l\x1b[r\x1b8\x1b[!p\x1b[?7h\x1b[?5l\x0f\x1b(B\x1b)B\x1b[0 q\x1b[?1l\x1b>\x1b[m\x1b[?25h",
);

/// Raw mode of the person's own terminal. Dropping it restores the terminal.
#[derive(Debug)]
pub(crate) struct RawMode {
    original_mode: Termios,
}

impl RawMode {
    pub(crate) fn enter() -> io::Result<Self> {
        let original_mode = tcgetattr(io::stdin())?;
        let mode = Self { original_mode };
        mode.set()?;
        Ok(mode)
    }

    /// Enters the raw mode again after a suspension. The shell used the terminal during the suspension.
    pub(crate) fn set(&self) -> io::Result<()> {
        let mut raw = self.original_mode.clone();
        raw.make_raw();
        Ok(tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?)
    }

    /// Restores the terminal for a suspension.
    pub(crate) fn unset(&self) {
        // Ignore a failure, because the program is exiting or being suspended.
        let mut out = io::stdout().lock();
        let _ = out.write_all(RESTORE_SEQUENCE.as_bytes());
        let _ = out.flush();
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.original_mode);
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        self.unset();
    }
}

/// The keyboard of the person's terminal. At most one is open at a time.
#[derive(Debug)]
pub(crate) struct Keyboard {
    keys: mpsc::Receiver<Vec<u8>>,
    /// Closing this end stops the thread.
    stop_pipe: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Keyboard {
    /// Opens the keyboard.
    pub(crate) fn open() -> io::Result<Self> {
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        let (sender, keys) = mpsc::channel(16);
        let thread =
            std::thread::Builder::new().name("keyboard".to_owned()).spawn(move || read_all(&stopped, &sender))?;
        Ok(Self { keys, stop_pipe: Some(stop), thread: Some(thread) })
    }

    /// Returns the bytes of the next keys; `None` once the terminal has closed. Cancellation-safe.
    pub(crate) async fn next(&mut self) -> Option<Vec<u8>> {
        self.keys.recv().await
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        // Wake the thread: it waits for capacity in the channel or for a key.
        self.keys.close();
        self.stop_pipe = None;
        if let Some(thread) = self.thread.take() {
            // Ignore a panic of the thread, because the panic hook has reported it.
            let _ = thread.join();
        }
    }
}

/// Reads keys until the terminal or the receiver closes, or the other end of `stopped` closes.
fn read_all(stopped: &OwnedFd, sender: &mpsc::Sender<Vec<u8>>) {
    let input = io::stdin();
    let mut buffer = [0u8; 4096];
    loop {
        let mut polled = [PollFd::new(&input, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) if !polled[1].revents().is_empty() => return,
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return,
        }
        match rustix::io::read(&input, &mut buffer) {
            Ok(count @ 1..) => {
                if sender.blocking_send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(_) | Err(_) => return,
        }
    }
}
