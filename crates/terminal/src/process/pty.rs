//! One pseudo-terminal: a thin layer over the kernel's interface, see pty(7).

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

use super::system::register_with_reactor;
use crate::screen::Size;

/// The master side of a pseudo-terminal. Reads and writes never block.
#[derive(Debug)]
pub(crate) struct Pty {
    master: AsyncFd<OwnedFd>,
}

/// Settings of the terminal for typed input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Discipline {
    /// True if the terminal passes input in whole lines (ICANON).
    pub(crate) whole_lines: bool,
    /// True if the terminal shows typed input (ECHO).
    pub(crate) echo: bool,
    /// Reading mode of the program.
    pub(crate) reading: Reading,
    /// True if carriage returns reach the program unchanged (ICRNL and INLCR unset). The kernel translates characters
    /// at their arrival, before the program reads them.
    pub(crate) keeps_returns: bool,
    /// The characters that the terminal turns into signals; 0 if it passes all characters (ISIG unset).
    pub(crate) signal_characters: [u8; 3],
}

/// A program's unit of reading typed input, according to the modes of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Whole lines from the terminal.
    Lines,
    /// Key by key, as in line editors: readline and fish read Enter as a carriage return, ZLE swaps carriage returns
    /// and line feeds, and the terminal still processes output.
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
    /// Returns whether the program reads whole lines, from the terminal or a line editor.
    pub(crate) fn reads_lines(self) -> bool {
        self.reading != Reading::Bytes
    }

    /// Returns whether the program reads whole lines without an echo, as for a password.
    pub(crate) fn hides_input(self) -> bool {
        self.whole_lines && !self.echo
    }
}

/// Result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    Bytes(usize),
    /// No output is available now.
    Nothing,
    /// No output will follow: no process has the other side open.
    End,
}

impl Pty {
    /// Opens a pseudo-terminal and returns the master side and the program's side.
    pub(crate) fn open(size: Size) -> io::Result<(Self, OwnedFd)> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let slave = ioctl_tiocgptpeer(&master, flags)?;
        let mut modes = tcgetattr(&slave)?;
        // Let backspace in canonical mode erase a whole UTF-8 character instead of its last byte.
        modes.input_modes |= InputModes::IUTF8;
        tcsetattr(&slave, OptionalActions::Now, &modes)?;
        let status = rustix::fs::fcntl_getfl(&master)?;
        rustix::fs::fcntl_setfl(&master, status | OFlags::NONBLOCK)?;
        let pty = Self { master: register_with_reactor(master)? };
        pty.resize(size)?;
        Ok((pty, slave))
    }

    /// Waits until output may be available.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.master.readable().await.map(|mut guard| guard.retain_ready())
    }

    /// Waits until a write may be possible.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.master.writable().await.map(|mut guard| guard.retain_ready())
    }

    /// Reads the available output.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<Read> {
        let result = self.master.try_io(tokio::io::Interest::READABLE, |fd| Ok(rustix::io::read(fd, &mut *buffer)?));
        match result {
            Ok(0) => Ok(Read::End),
            Ok(count) => Ok(Read::Bytes(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Read::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Read::Nothing),
            // Linux returns EIO once every process has closed the other side.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => Ok(Read::End),
            Err(error) => Err(error),
        }
    }

    /// Returns whether output is available. [`Pty::read`] may still return nothing if the reactor has no event yet.
    /// Costly: poll(2) on a terminal waits for the kernel worker that moves its output.
    pub(crate) fn has_unread(&self) -> bool {
        let mut polled = [PollFd::new(self.master.get_ref(), PollFlags::IN)];
        let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut polled, Some(&no_wait)), Ok(1..))
    }

    /// Returns whether the program has not read all available input. In canonical mode, an unfinished line does not
    /// count.
    pub(crate) fn has_unread_input(&self) -> bool {
        // The kernel counts input only at the program's side (FIONREAD, see tty_ioctl(4)).
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let unread = ioctl_tiocgptpeer(self.master.get_ref(), flags).and_then(rustix::io::ioctl_fionread);
        unread.is_ok_and(|unread| unread > 0)
    }

    /// Writes as many bytes as possible and returns their number.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.master.try_io(tokio::io::Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, bytes)?)) {
            Ok(count) => Ok(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Changes the size. The kernel notifies the foreground program (SIGWINCH).
    pub(crate) fn resize(&self, size: Size) -> io::Result<()> {
        let window = Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(self.master.get_ref(), window)?)
    }

    /// Returns the process group in the foreground, if there is one.
    pub(crate) fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(self.master.get_ref()).ok()
    }

    /// Returns the terminal's current settings for typed input (termios(3)).
    pub(crate) fn line_discipline(&self) -> Option<Discipline> {
        let modes = tcgetattr(self.master.get_ref()).ok()?;
        let reading = Reading::from_modes(&modes);
        let echo = modes.local_modes.contains(LocalModes::ECHO);
        let keeps_returns = !modes.input_modes.intersects(InputModes::ICRNL | InputModes::INLCR);
        let keys = [SpecialCodeIndex::VINTR, SpecialCodeIndex::VQUIT, SpecialCodeIndex::VSUSP];
        let has_signal_keys = modes.local_modes.contains(LocalModes::ISIG);
        let signal_characters = keys.map(|key| if has_signal_keys { modes.special_codes[key] } else { 0 });
        Some(Discipline { whole_lines: reading == Reading::Lines, echo, reading, keeps_returns, signal_characters })
    }

    /// Returns the settings that make the terminal change, drop or end typed input (termios(3)), as one text. Excludes
    /// the settings that line editors change at their start and end.
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

    /// Returns the path of the program's side.
    pub(crate) fn device(&self) -> Option<PathBuf> {
        let name = ptsname(self.master.get_ref(), Vec::new()).ok()?;
        Some(PathBuf::from(OsStr::from_bytes(name.as_bytes())))
    }
}
