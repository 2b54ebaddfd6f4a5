//! Programs without a terminal: pipes for streams, and a family of processes that ends as a whole.
//!
//! For callers that need the output and the errors of a program separately, or speak a protocol with it. The processes
//! of a program are found and ended like the processes of a terminal. A dropped [`Piped`] ends its family in the
//! background, so that a cancelled caller leaves no process running.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use steplatch_ids::TerminalId;
use tokio::net::unix::pipe::{self, Receiver, Sender};
use tokio::time::timeout;

use super::TERMINAL_VARIABLE;
use super::child::{Child, Exit};
use super::orphans::Orphans;
use super::spawn::{Program, SpawnError, Streams};
use super::tree::{SessionLeader, Survivor, end_all, end_left};

/// Maximum time to wait for the exit of a killed program.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The programs on pipes of this process. Cheap to clone; clones share their children.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    orphans: Orphans,
}

/// A program to start on pipes.
#[derive(Debug, Clone)]
pub struct PipedSpec {
    /// The program and its arguments; the lookup of the program uses the `PATH` of `environment`.
    pub arguments: Vec<OsString>,
    /// The working directory.
    pub directory: PathBuf,
    /// The complete environment, except for the variable that marks its family.
    pub environment: Vec<(OsString, OsString)>,
    /// Source of its standard input.
    pub stdin: Stdin,
    /// The unique name of its family. [`Programs::end_left`] of another process finds the family by this name. `None`
    /// for a random name.
    pub family: Option<String>,
}

/// Source of a program's standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// Empty: the program reads the end of input at once.
    Nothing,
    /// A pipe from this process, see [`Piped::take_stdin`].
    Piped,
}

/// A program that runs on pipes.
#[derive(Debug)]
pub struct Piped {
    /// `None` once the program has ended.
    family: Option<ProcessFamily>,
    stdin: Option<Sender>,
    stdout: Option<Receiver>,
    stderr: Option<Receiver>,
}

/// A program, and the mark of the processes that it started.
#[derive(Debug)]
struct ProcessFamily {
    child: Child,
    mark: String,
}

/// The result of ending a program and all its processes.
#[derive(Debug, Default)]
pub struct ProcessEnd {
    /// Exit of the program itself; `None` if it did not end.
    pub exit: Option<Exit>,
    /// The processes that did not end.
    pub survivors: Vec<Survivor>,
}

impl Programs {
    /// Returns a set without any program.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes this process the parent of its orphaned descendants, so that it can find all of them.
    ///
    /// Only for a process that starts every child through this set, because the collector reaps any other ended child
    /// before its owner can. Without this call, only an environment variable identifies a descendant that leaves the
    /// session.
    ///
    /// # Errors
    /// If the system does not let a process adopt or observe its children.
    pub fn adopt_orphans(&self) -> io::Result<()> {
        self.orphans.adopt()
    }

    /// Makes this process the parent of its orphaned descendants, next to other children.
    ///
    /// An ended child remains for its owner to reap during `grace`. Then the collector reaps it as an orphan.
    ///
    /// # Errors
    /// If the system does not let a process adopt or observe its children.
    pub fn adopt_orphans_beside_others(&self, grace: Duration) -> io::Result<()> {
        self.orphans.adopt_beside_others(grace)
    }

    /// Ends the processes of a family whose starting process has ended. Returns the processes that did not end.
    pub async fn end_left(&self, family: &str) -> Vec<Survivor> {
        end_left(family.to_owned()).await
    }

    /// Starts a program as the leader of its own session, without a terminal.
    ///
    /// # Errors
    /// If the program or its directory does not exist, or the system has no resources.
    pub async fn start(&self, spec: PipedSpec) -> Result<Piped, SpawnError> {
        let mark = spec.family.clone().unwrap_or_else(|| TerminalId::random().as_str().to_owned());
        let orphans = self.orphans.clone();
        let handle = tokio::runtime::Handle::current();
        let started = tokio::task::spawn_blocking(move || {
            // Registration with the reactor needs its context, and the start of a program blocks until the exec.
            let _context = handle.enter();
            start(spec, mark, &orphans)
        });
        started.await.map_err(io::Error::other)?
    }
}

fn start(spec: PipedSpec, mark: String, orphans: &Orphans) -> Result<Piped, SpawnError> {
    let mut environment = spec.environment;
    environment.retain(|(key, _)| key != TERMINAL_VARIABLE);
    environment.push((TERMINAL_VARIABLE.into(), mark.clone().into()));
    let program = Program { arguments: spec.arguments, directory: spec.directory, environment, descriptors: None };
    let (input, stdin) = match spec.stdin {
        Stdin::Nothing => (File::open("/dev/null")?.into(), None),
        Stdin::Piped => {
            let (own_end, child_end) = pipe::pipe()?;
            (child_end.into_blocking_fd()?, Some(own_end))
        }
    };
    let (output, stdout) = output_pipe()?;
    let (error, stderr) = output_pipe()?;
    let child = Child::start(&program, Streams::Pipes { input, output, error }, orphans)?;
    Ok(Piped { family: Some(ProcessFamily { child, mark }), stdin, stdout: Some(stdout), stderr: Some(stderr) })
}

/// Creates a pipe for output and returns the program's end and the end of this process.
fn output_pipe() -> io::Result<(OwnedFd, Receiver)> {
    let (child_end, own_end) = pipe::pipe()?;
    Ok((child_end.into_blocking_fd()?, own_end))
}

impl Piped {
    /// Takes the write end of its standard input. A drop signals the end of input to the program.
    pub fn take_stdin(&mut self) -> Option<Sender> {
        self.stdin.take()
    }

    /// Takes the read end of its standard output.
    pub fn take_stdout(&mut self) -> Option<Receiver> {
        self.stdout.take()
    }

    /// Takes the read end of its standard error.
    pub fn take_stderr(&mut self) -> Option<Receiver> {
        self.stderr.take()
    }

    /// Waits for the program itself and returns its exit. Processes that it started may continue.
    ///
    /// A cancelled call can be repeated.
    ///
    /// # Errors
    /// If an earlier wait has returned the exit.
    pub async fn wait(&mut self) -> io::Result<Exit> {
        let family = self.family.as_ref().ok_or_else(|| io::Error::other("the program was waited for before"))?;
        let exit = family.child.wait().await?;
        self.family = None;
        Ok(exit)
    }

    /// Ends the program and all processes that it started, even in other sessions.
    ///
    /// Sends `first`, then SIGTERM, then SIGKILL. Takes at most a few seconds, and continues even if the caller stops
    /// waiting.
    pub async fn end(mut self, first: Option<Signal>) -> ProcessEnd {
        let Some(family) = self.family.take() else { return ProcessEnd::default() };
        tokio::spawn(family.end(first)).await.unwrap_or_default()
    }
}

impl ProcessFamily {
    async fn end(self, first: Option<Signal>) -> ProcessEnd {
        let leader = SessionLeader { pid: self.child.pid(), is_reaped: false };
        let survivors = end_all(leader, self.mark, first, self.child.orphan_matcher()).await;
        let exit = timeout(EXIT_TIMEOUT, self.child.wait()).await.ok().and_then(Result::ok);
        ProcessEnd { exit, survivors }
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        // Without a runtime, the drop of `child` kills the leader and its group.
        if let Some(family) = self.family.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(family.end(Some(Signal::KILL)));
        }
    }
}
