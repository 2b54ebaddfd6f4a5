//! One pseudo-terminal: a thin layer over the kernel's, see pty(7).

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::OFlags;
use rustix::process::Pid;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, Winsize, tcgetattr, tcgetpgrp, tcsetattr, tcsetwinsize,
};
use tokio::io::unix::AsyncFd;

use super::system::watched;
use crate::screen::Size;

/// The side of a pseudo-terminal that we hold. Reads and writes never block.
#[derive(Debug)]
pub(crate) struct Pty {
    master: AsyncFd<OwnedFd>,
}

/// What a read gave.
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
            // EIO is how Linux says that the other side is closed everywhere.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => Ok(Read::End),
            Err(error) => Err(error),
        }
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

    /// Changes the size; the kernel tells the foreground program (SIGWINCH).
    pub(crate) fn resize(&self, size: Size) -> io::Result<()> {
        let window = Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(self.master.get_ref(), window)?)
    }

    /// Whether the program reads whole lines and has them not echoed, as for a password.
    pub(crate) fn reads_unseen(&self) -> bool {
        tcgetattr(self.master.get_ref()).is_ok_and(|modes| {
            modes.local_modes.contains(LocalModes::ICANON) && !modes.local_modes.contains(LocalModes::ECHO)
        })
    }

    /// The process group in the foreground, if there is one.
    pub(crate) fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(self.master.get_ref()).ok()
    }
}
