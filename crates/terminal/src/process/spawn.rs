//! Starting a program as the leader of a new session, on a pseudo-terminal or on pipes.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::Pid;

use super::system::between_fork_and_exec;

/// A program to start: what, where, and with which environment (the whole of it).
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// The program and its arguments; the lookup of the program uses the `PATH` of `environment`.
    pub(crate) arguments: Vec<OsString>,
    /// The folder that it starts in.
    pub(crate) folder: PathBuf,
    /// Its environment, complete.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Limit of the descriptors that it may open (RLIMIT_NOFILE, soft), if other than this process.
    pub(crate) descriptors: Option<u64>,
}

/// Reason for which a program did not start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There was no program to start.
    #[error("no program was named")]
    Nothing,
    /// No such program in the `PATH`, or no such file.
    #[error("program '{0}' was not found")]
    NotFound(String),
    /// The program exists and may not be executed.
    #[error("program '{0}' may not be executed")]
    NotExecutable(String),
    /// The folder to start in is not there.
    #[error("folder '{0}' does not exist")]
    NoFolder(PathBuf),
    /// The system had no terminal, process or memory to give.
    #[error("the system could not start it")]
    System(#[from] io::Error),
}

/// Streams that a program reads from and writes to.
#[derive(Debug)]
pub(crate) enum Streams {
    /// The program's side of a pseudo-terminal, which controls its session.
    Terminal(OwnedFd),
    /// No terminal at all: standard input, output and error.
    Pipes { input: Stdio, output: OwnedFd, error: OwnedFd },
}

/// Starts `program` on these streams, as the leader of a new session.
///
/// Returns once the system executes the program, or has failed to; a few hundred microseconds.
pub(super) fn spawn(program: &Program, streams: Streams) -> Result<Pid, SpawnError> {
    let [name, arguments @ ..] = program.arguments.as_slice() else { return Err(SpawnError::Nothing) };
    // Looked at first, because afterwards a missing folder and a missing program are the same error.
    if !program.folder.is_dir() {
        return Err(SpawnError::NoFolder(program.folder.clone()));
    }
    let mut command = Command::new(name);
    command
        .args(arguments)
        .current_dir(&program.folder)
        .env_clear()
        .envs(program.environment.iter().map(|(key, value)| (key, value)));
    let has_terminal = matches!(streams, Streams::Terminal(_));
    match streams {
        Streams::Terminal(slave) => {
            command.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
        }
        Streams::Pipes { input, output, error } => {
            command.stdin(input).stdout(output).stderr(error);
        }
    }
    between_fork_and_exec(&mut command, program.descriptors, has_terminal);
    let child = command.spawn().map_err(|error| {
        let name = name.to_string_lossy().into_owned();
        match error.kind() {
            io::ErrorKind::NotFound => SpawnError::NotFound(name),
            io::ErrorKind::PermissionDenied => SpawnError::NotExecutable(name),
            // E2BIG, ENOMEM, EAGAIN …
            _ => SpawnError::System(error),
        }
    })?;
    // A process id is positive and fits, or there would be no process.
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process that was started has an id");
    Ok(pid)
}
