//! One pseudo-terminal: a thin layer over the kernel's, see pty(7).

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::Pid;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, ptsname, unlockpt};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios, Winsize, tcgetattr, tcgetpgrp,
    tcsetattr, tcsetwinsize,
};
use tokio::io::unix::AsyncFd;

use super::system::watched;
use crate::screen::Size;

/// The side of a pseudo-terminal that we hold. Reads and writes never block.
#[derive(Debug)]
pub(crate) struct Pty {
    master: AsyncFd<OwnedFd>,
}

/// Treatment of typed input by the terminal itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Discipline {
    /// True if it collects lines and hands them over whole (ICANON).
    pub(crate) whole_lines: bool,
    /// True if it shows typed input (ECHO).
    pub(crate) echo: bool,
    /// Mode in which the program reads.
    pub(crate) reading: Reading,
    /// A carriage return reaches the program as such (ICRNL and INLCR unset), even if it reads it only after it has
    /// changed that: the kernel translates a character on its arrival.
    pub(crate) keeps_returns: bool,
    /// The characters that the terminal turns into signals; none where it passes all on (ISIG unset).
    pub(crate) signal_characters: [u8; 3],
}

/// Mode in which a program reads typed input, according to the modes of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Whole lines, which the terminal collects.
    Lines,
    /// Key by key, as line editors do: readline and fish take Enter as a carriage return, ZLE turns carriage returns and line feeds
    /// around, and output is still processed.
    Keys,
    /// Byte by byte.
    Bytes,
}

impl Reading {
    fn from_modes(modes: &Termios) -> Self {
        if modes.local_modes.contains(LocalModes::ICANON) {
            return Self::Lines;
        }
        let (input, output) = (modes.input_modes, modes.output_modes);
        let is_editor = !input.contains(InputModes::ICRNL) || input.contains(InputModes::INLCR);
        match is_editor && output.contains(OutputModes::OPOST) {
            true => Self::Keys,
            false => Self::Bytes,
        }
    }
}

impl Discipline {
    /// Returns whether the program gets whole lines, from the terminal or from a line editor.
    pub(crate) fn reads_lines(self) -> bool {
        self.reading != Reading::Bytes
    }

    /// Returns whether the program reads whole lines and has them not shown, as for a password.
    pub(crate) fn is_unseen(self) -> bool {
        self.whole_lines && !self.echo
    }
}

/// Result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// Nothing ever again: no process has the other side open.
    End,
}

impl Pty {
    /// Opens a pair and returns our side and the program's.
    pub(crate) fn open(size: Size) -> io::Result<(Self, OwnedFd)> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let slave = ioctl_tiocgptpeer(&master, flags)?;
        let mut modes = tcgetattr(&slave)?;
        // Backspace in a cooked line takes a whole character, not the last byte of it.
        modes.input_modes |= InputModes::IUTF8;
        tcsetattr(&slave, OptionalActions::Now, &modes)?;
        let status = rustix::fs::fcntl_getfl(&master)?;
        rustix::fs::fcntl_setfl(&master, status | OFlags::NONBLOCK)?;
        let pty = Self { master: watched(master)? };
        pty.resize(size)?;
        Ok((pty, slave))
    }

    /// Waits until there may be something to read.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.master.readable().await.map(|mut guard| guard.retain_ready())
    }

    /// Waits until there may be room to write.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.master.writable().await.map(|mut guard| guard.retain_ready())
    }

    /// Reads what is there.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<Read> {
        let result = self.master.try_io(tokio::io::Interest::READABLE, |fd| Ok(rustix::io::read(fd, &mut *buffer)?));
        match result {
            Ok(0) => Ok(Read::End),
            Ok(count) => Ok(Read::Bytes(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Read::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Read::Nothing),
            // Linux reports with EIO that the other side is closed everywhere.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => Ok(Read::End),
            Err(error) => Err(error),
        }
    }

    /// Returns whether there is something to read. [`Pty::read`] may find nothing if the reactor has no news yet.
    /// Costly: poll(2) on a terminal waits for the kernel worker that moves its output.
    pub(crate) fn has_unread(&self) -> bool {
        let mut polled = [PollFd::new(self.master.get_ref(), PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut polled, Some(&at_once)), Ok(1..))
    }

    /// Returns whether there is typed input that the program can read and has not read. In a mode that hands over whole
    /// lines, an unfinished line does not count.
    pub(crate) fn has_unread_input(&self) -> bool {
        // The kernel counts input at the program's side only (FIONREAD, see tty_ioctl(4)).
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let unread = ioctl_tiocgptpeer(self.master.get_ref(), flags).and_then(rustix::io::ioctl_fionread);
        unread.is_ok_and(|unread| unread > 0)
    }

    /// Writes as much as there is room for, and returns how much that was.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.master.try_io(tokio::io::Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, bytes)?)) {
            Ok(count) => Ok(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Changes the size; the kernel notifies the foreground program (SIGWINCH).
    pub(crate) fn resize(&self, size: Size) -> io::Result<()> {
        let window = Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(self.master.get_ref(), window)?)
    }

    /// The process group in the foreground, if there is one.
    pub(crate) fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(self.master.get_ref()).ok()
    }

    /// Returns the terminal's mode for typed input, as the program has set it (termios(3)).
    pub(crate) fn line_discipline(&self) -> Option<Discipline> {
        let modes = tcgetattr(self.master.get_ref()).ok()?;
        let reading = Reading::from_modes(&modes);
        let echo = modes.local_modes.contains(LocalModes::ECHO);
        let keeps_returns = !modes.input_modes.intersects(InputModes::ICRNL | InputModes::INLCR);
        let keys = [SpecialCodeIndex::VINTR, SpecialCodeIndex::VQUIT, SpecialCodeIndex::VSUSP];
        let is_signalled = modes.local_modes.contains(LocalModes::ISIG);
        let signal_characters = keys.map(|key| if is_signalled { modes.special_codes[key] } else { 0 });
        Some(Discipline { whole_lines: reading == Reading::Lines, echo, reading, keeps_returns, signal_characters })
    }

    /// Returns the settings with which the terminal changes, drops or ends typed input (termios(3)), as one text. Line editors set the
    /// rest, whenever they begin and end.
    pub(crate) fn input_settings(&self) -> Option<String> {
        let modes = tcgetattr(self.master.get_ref()).ok()?;
        let keys = [
            SpecialCodeIndex::VINTR,
            SpecialCodeIndex::VQUIT,
            SpecialCodeIndex::VERASE,
            SpecialCodeIndex::VKILL,
            SpecialCodeIndex::VEOF,
            SpecialCodeIndex::VEOL,
            SpecialCodeIndex::VEOL2,
            SpecialCodeIndex::VSTART,
            SpecialCodeIndex::VSTOP,
            SpecialCodeIndex::VSUSP,
            SpecialCodeIndex::VREPRINT,
            SpecialCodeIndex::VWERASE,
            SpecialCodeIndex::VLNEXT,
            SpecialCodeIndex::VDISCARD,
        ];
        let keys = keys.map(|key| modes.special_codes[key]);
        Some(format!("{:?} {:?} {keys:?}", modes.input_modes, modes.local_modes))
    }

    /// The path of the program's side.
    pub(crate) fn device(&self) -> Option<PathBuf> {
        let name = ptsname(self.master.get_ref(), Vec::new()).ok()?;
        Some(PathBuf::from(OsStr::from_bytes(name.as_bytes())))
    }
}
