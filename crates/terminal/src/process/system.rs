//! The only three calls of this project that the compiler cannot check, with why they are sound.
#![expect(unsafe_code, reason = "this file exists to hold these calls and to explain them")]

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::unix::AsyncFd;

/// Registers a descriptor with the reactor.
///
/// # Errors
/// If the reactor cannot watch it, or has no room.
pub(super) fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: `register` wants a descriptor that is open, stays open and stays the same during its registration. An
    // `OwnedFd` is open until its drop, does not change behind a shared reference, and belongs to the `AsyncFd` from
    // here on.
    Ok(unsafe { AsyncFd::register(fd) }?)
}

/// Gives the pages of the heap that nothing uses back to the system, where the allocator is glibc's. Takes some milliseconds for a
/// heap of hundreds of megabytes.
pub(crate) fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: any thread may call malloc_trim(3) at any time (MT-Safe), which takes and returns numbers.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Makes the child a session leader, with the terminal on its standard input as controlling terminal if it has one,
/// and gives it the signal handling that a program expects to begin with.
pub(super) fn between_fork_and_exec(command: &mut Command, descriptors: Option<u64>, has_terminal: bool) {
    // A signal ignored before exec stays ignored after it: started under nohup, every shell of ours would be deaf to
    // hang-ups. `Command` itself restores SIGPIPE and the signal mask.
    const DEFAULT: [libc::c_int; 7] =
        [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGCHLD, libc::SIGTSTP, libc::SIGTTOU];
    // SAFETY: the closure runs in the forked child of a process with several threads, so it may only make
    // async-signal-safe calls (signal-safety(7)): signal, setrlimit, setsid and ioctl are system calls without locks or
    // allocation, and the error consists of a number. `signal` gets no handler of ours.
    unsafe {
        command.pre_exec(move || {
            for signal in DEFAULT {
                libc::signal(signal, libc::SIG_DFL);
            }
            if descriptors.is_some() {
                let maximum = getrlimit(Resource::Nofile).maximum;
                setrlimit(Resource::Nofile, Rlimit { current: descriptors, maximum })?;
            }
            rustix::process::setsid()?;
            if has_terminal {
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
            }
            Ok(())
        });
    }
}
