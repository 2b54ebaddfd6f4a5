//! The only unsafe calls of this project, with the reasons why they are sound.
#![expect(unsafe_code, reason = "this file exists to hold these calls and to explain them")]

use std::convert::Infallible;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::mem::size_of;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr;

use rustix::process::{Pid, Resource, Rlimit, WaitId, WaitIdOptions};
use tokio::io::unix::AsyncFd;

/// Registers a descriptor with the reactor.
///
/// # Errors
/// If the reactor cannot watch the descriptor, or is full.
pub(super) fn register_with_reactor(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: `register` requires a descriptor that stays open and unchanged during its registration. An `OwnedFd` is
    // open until its drop, does not change behind a shared reference, and belongs to the `AsyncFd` after this call.
    Ok(unsafe { AsyncFd::register(fd) }?)
}

/// Returns unused pages of the heap to the system, if the allocator is glibc's. Takes some milliseconds for a heap of
/// hundreds of megabytes.
pub(crate) fn return_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: any thread may call malloc_trim(3) at any time (MT-Safe), which takes and returns numbers.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// A program to execute as the leader of a new session, with the values that its process needs before the exec.
pub(super) struct Execution<'a> {
    /// The files that may be the program, in search order.
    pub(super) candidates: &'a [CString],
    /// The arguments, beginning with the name of the program.
    pub(super) arguments: &'a [CString],
    /// The complete environment.
    pub(super) environment: &'a [CString],
    /// The working directory.
    pub(super) directory: &'a CStr,
    /// The standard input, output and error. Their numbers are above 2.
    pub(super) streams: [BorrowedFd<'a>; 3],
    /// True if its standard input is the controlling terminal.
    pub(super) has_terminal: bool,
    /// Maximum number of open descriptors, if it differs from this process.
    pub(super) descriptors: Option<Rlimit>,
}

/// The failed step of an execution, with the system's error.
#[derive(Debug)]
pub(super) enum ExecutionError {
    /// Changing to the directory.
    Directory(io::Error),
    /// Executing the program.
    Program(io::Error),
    /// Everything else.
    System(io::Error),
}

/// Size of the stack of a process before its exec, in bytes. The process calls no function with a large frame.
const STACK_BYTES: usize = 64 << 10;

/// The last signal of the kernel, and the size of its signal sets in bytes.
const MAX_SIGNAL: c_int = 64;
const SIGNAL_SET_BYTES: usize = size_of::<u64>();

/// Exit code of a process whose exec failed. No code reads it.
const EXEC_FAILED_CODE: c_int = 127;

/// Executes a program in a new process.
///
/// As after vfork(2), the new process shares the memory of this process, and the calling thread sleeps until the exec.
/// A fork(2) would copy the page tables of a process that may hold gigabytes. posix_spawn(3) cannot limit the
/// descriptors.
///
/// # Errors
/// If the process does not start, or its exec fails.
pub(super) fn execute(execution: &Execution<'_>) -> Result<Pid, ExecutionError> {
    let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect();
    let mut arguments: Vec<_> = pointers(execution.arguments);
    arguments.insert(0, SHELL.as_ptr());
    let environment: Vec<_> = pointers(execution.environment);
    let mut process = NewProcess { execution, arguments, environment, failure: None };
    let mut stack = Box::<[u128]>::new_uninit_slice(STACK_BYTES / size_of::<u128>());
    let top = stack.as_mut_ptr_range().end;
    // Block all signals, so that no handler of this process runs in the new process on the shared memory.
    let mask = set_signal_mask(u64::MAX).map_err(ExecutionError::System)?;
    // SAFETY: clone(2) runs `run_new_process` on a separate stack, which is aligned and larger than needed, grows
    // downwards, and lives until the end of this function. CLONE_VFORK keeps this thread here until the new process has
    // executed a program or ended, so that `process` and everything that it refers to outlive its use, and have one
    // user at a time. Other threads run on; the new process uses no memory of theirs. Without CLONE_SETTLS both
    // libraries, glibc and musl, leave the thread's storage to the new process; only errno is written there, and not
    // read after the call. CLONE_FILES and CLONE_SIGHAND are not set: descriptors and signal handlers are copies.
    let pid = unsafe {
        libc::clone(
            run_new_process,
            top.cast::<c_void>(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            ptr::from_mut(&mut process).cast::<c_void>(),
        )
    };
    let error = io::Error::last_os_error();
    set_signal_mask(mask).expect("the previous mask is valid");
    let Some(pid) = Pid::from_raw(pid).filter(|_| pid > 0) else { return Err(ExecutionError::System(error)) };
    match process.failure {
        None => Ok(pid),
        Some(failure) => {
            // Reap the ended process.
            let _ = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
            Err(failure)
        }
    }
}

/// The shell that executes a script without an interpreter line, as in execvp(3).
const SHELL: &CStr = c"/bin/sh";

/// A process before its exec.
struct NewProcess<'a> {
    execution: &'a Execution<'a>,
    /// The shell's name, then the arguments. A script without an interpreter line replaces the program's name.
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    failure: Option<ExecutionError>,
}

/// Runs in the new process.
extern "C" fn run_new_process(process: *mut c_void) -> c_int {
    // SAFETY: `execute` passes a pointer to a value that it does not access in the meantime.
    let process = unsafe { &mut *process.cast::<NewProcess<'_>>() };
    let Err(failure) = process.execute();
    process.failure = Some(failure);
    // SAFETY: _exit(2) ends only this process, and runs no code of the parent.
    unsafe { libc::_exit(EXEC_FAILED_CODE) }
}

impl NewProcess<'_> {
    /// Prepares this process and executes the program.
    ///
    /// Other threads of the parent are running and may hold any lock, so this function only makes system calls. This
    /// function allocates nothing, does not panic, and its errors consist of a number. The calls of `rustix` used here
    /// only pass their arguments to the kernel.
    fn execute(&mut self) -> Result<Infallible, ExecutionError> {
        let execution = self.execution;
        let failed = |error: rustix::io::Errno| ExecutionError::System(error.into());
        // A signal that is ignored before the exec stays ignored: under nohup, every shell would ignore SIGHUP. Also,
        // no handler of this program may run here once signals are unblocked.
        for signal in 1..=MAX_SIGNAL {
            restore_default(signal);
        }
        if let Some(limit) = execution.descriptors {
            rustix::process::setrlimit(Resource::Nofile, limit).map_err(failed)?;
        }
        rustix::process::setsid().map_err(failed)?;
        let [input, output, error] = execution.streams;
        rustix::stdio::dup2_stdin(input).map_err(failed)?;
        rustix::stdio::dup2_stdout(output).map_err(failed)?;
        rustix::stdio::dup2_stderr(error).map_err(failed)?;
        if execution.has_terminal {
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin()).map_err(failed)?;
        }
        close_other_descriptors();
        rustix::process::chdir(execution.directory).map_err(|error| ExecutionError::Directory(error.into()))?;
        set_signal_mask(0).map_err(ExecutionError::System)?;
        Err(ExecutionError::Program(self.execute_first()))
    }

    /// Executes the first candidate that can be executed, as execvp(3) does. Returns the error if there is none.
    fn execute_first(&mut self) -> io::Error {
        let mut denied = None;
        let mut last_error = io::Error::from_raw_os_error(libc::ENOENT);
        for candidate in self.execution.candidates {
            // SAFETY: the file and all texts end with NUL, both lists with a null pointer, and all outlive the call.
            // `arguments` has the shell's name before the program's arguments.
            unsafe { libc::execve(candidate.as_ptr(), self.arguments.as_ptr().add(1), self.environment.as_ptr()) };
            last_error = io::Error::last_os_error();
            if last_error.raw_os_error() == Some(libc::ENOEXEC) {
                if let Some(name) = self.arguments.get_mut(1) {
                    *name = candidate.as_ptr();
                }
                // SAFETY: as above, with a script in the place of the program's name.
                unsafe { libc::execve(SHELL.as_ptr(), self.arguments.as_ptr(), self.environment.as_ptr()) };
                last_error = io::Error::last_os_error();
            }
            match last_error.raw_os_error() {
                Some(libc::EACCES) => denied = last_error.raw_os_error(),
                // The directory does not contain the program or is not reachable.
                Some(
                    libc::ENOENT | libc::ESTALE | libc::ENOTDIR | libc::ENODEV | libc::ETIMEDOUT | libc::ENAMETOOLONG,
                ) => {}
                _ => return last_error,
            }
        }
        denied.map_or(last_error, io::Error::from_raw_os_error)
    }
}

/// Sets the signals that the calling thread blocks, as bits, and returns the previous ones. Unlike pthread_sigmask(3),
/// includes the signals that the C library uses itself.
fn set_signal_mask(mask: u64) -> io::Result<u64> {
    let mut previous = 0u64;
    // SAFETY: rt_sigprocmask(2) reads and writes sets of the given size, or fails if this is not the kernel's size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            ptr::from_ref(&mask),
            ptr::from_mut(&mut previous),
            SIGNAL_SET_BYTES,
        )
    };
    if result == 0 { Ok(previous) } else { Err(io::Error::last_os_error()) }
}

/// Restores the default action of a signal in this process. Ignores the error: SIGKILL and SIGSTOP cannot be changed.
fn restore_default(signal: c_int) {
    // Larger than the kernel's `struct sigaction` everywhere. Zeros are SIG_DFL without flags.
    let default = [0u64; 8];
    // SAFETY: rt_sigaction(2) reads the action and writes nothing. Unlike sigaction(3) of musl, the system call takes
    // no lock.
    unsafe {
        libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), ptr::null::<c_void>(), SIGNAL_SET_BYTES);
    }
}

/// Closes all descriptors except the standard streams. Ignores the error of a kernel before 5.9: descriptors of this
/// program close at the exec, and only inherited descriptors remain.
fn close_other_descriptors() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: close_range(2) closes the copies of this process, and no code uses them afterwards.
    unsafe {
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0 as libc::c_uint);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    #[test]
    fn program_blocks_and_ignores_no_signal() {
        let ignored = [libc::SIGUSR2, libc::SIGTTIN, libc::SIGRTMIN() + 5];
        for signal in ignored {
            // SAFETY: this installs no handler.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        let blocked = 1 << (libc::SIGALRM - 1) | 1 << (libc::SIGRTMIN() + 5);
        let before = set_signal_mask(blocked).unwrap();
        let (reader, output) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let null = File::open("/dev/null").unwrap();
        let arguments = [c"grep".into(), c"^Sig".into(), c"/proc/self/status".into()];
        let execution = Execution {
            candidates: &[c"/bin/grep".into(), c"/usr/bin/grep".into()],
            arguments: &arguments,
            environment: &[],
            directory: c"/",
            streams: [null.as_fd(), output.as_fd(), null.as_fd()],
            has_terminal: false,
            descriptors: None,
        };
        let pid = execute(&execution).unwrap();
        assert_eq!(set_signal_mask(before).unwrap(), blocked);
        drop(output);
        let mut status = String::new();
        File::from(reader).read_to_string(&mut status).unwrap();
        rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED).unwrap();
        for set in ["SigBlk", "SigIgn", "SigPnd"] {
            assert!(status.contains(&format!("{set}:\t{:016x}\n", 0)), "{status}");
        }
    }
}
