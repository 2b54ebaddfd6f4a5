//! Programs without a terminal: pipes for streams, and a family of processes that ends as a whole.
//!
//! For callers that want the output and the errors of a program apart, or speak a protocol with it.
//! The search for its processes, and their end, use the same signs as those of a terminal. A
//! dropped [`Piped`] ends its family in the background, so that a cancelled caller leaves nothing
//! running.

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

/// Time limit for the report of a killed program's exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The programs on pipes of this process. Cheap to clone; the clones know of each other's children.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    orphans: Orphans,
}

/// A program to start on pipes.
#[derive(Debug, Clone)]
pub struct PipedSpec {
    /// The program and its arguments; the lookup of the program uses the `PATH` of `environment`.
    pub arguments: Vec<OsString>,
    /// The folder it starts in.
    pub folder: PathBuf,
    /// Its environment, complete but for the variable that marks its family.
    pub environment: Vec<(OsString, OsString)>,
    /// Source of its standard input.
    pub stdin: Stdin,
    /// The name of its family, by which [`Programs::end_left`] finds it in another process; names are unique. Without
    /// one it gets a random name.
    pub family: Option<String>,
}

/// Source of a program's standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// There is nothing to read: it sees the end at once.
    Nothing,
    /// From us, see [`Piped::take_stdin`].
    Piped,
}

/// A program that runs on pipes.
#[derive(Debug)]
pub struct Piped {
    /// Taken when it has ended.
    family: Option<ProcessGroupKey>,
    stdin: Option<Sender>,
    stdout: Option<Receiver>,
    stderr: Option<Receiver>,
}

/// Key for finding a family.
#[derive(Debug)]
struct ProcessGroupKey {
    child: Child,
    mark: String,
}

/// The result of ending a program and all that it started.
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

    /// Makes this process the parent of its orphaned descendants, so that none of them can hide.
    ///
    /// Only for a process that starts every child through this set: the collector reaps any other child that ends
    /// before its owner learns of it. Without this call, a variable of the environment identifies a descendant that
    /// leaves the session.
    ///
    /// # Errors
    /// If the system does not let a process adopt or observe its children.
    pub fn adopt_orphans(&self) -> io::Result<()> {
        self.orphans.adopt()
    }

    /// Makes this process the parent of its orphaned descendants, and leaves them alone.
    ///
    /// For a process that also has other children. An ended child stays with its owner for as long as `grace`, then the
    /// collector reaps it as an orphan.
    ///
    /// # Errors
    /// If the system does not let a process adopt or observe its children.
    pub fn adopt_orphans_beside_others(&self, grace: Duration) -> io::Result<()> {
        self.orphans.adopt_beside_others(grace)
    }

    /// Ends the processes that an ended process started as this family. Returns the processes that did not end.
    pub async fn end_left(&self, family: &str) -> Vec<Survivor> {
        end_left(family.to_owned()).await
    }

    /// Starts a program as the leader of its own session, without a terminal.
    ///
    /// # Errors
    /// If the program or its folder is not there, or the system has nothing to give.
    pub async fn start(&self, spec: PipedSpec) -> Result<Piped, SpawnError> {
        let mark = spec.family.clone().unwrap_or_else(|| TerminalId::random().as_str().to_owned());
        let orphans = self.orphans.clone();
        let handle = tokio::runtime::Handle::current();
        let started = tokio::task::spawn_blocking(move || {
            // Registering with the reactor needs its context, and starting a program takes the time of an exec.
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
    let program = Program { arguments: spec.arguments, folder: spec.folder, environment, descriptors: None };
    let (input, stdin) = match spec.stdin {
        Stdin::Nothing => (File::open("/dev/null")?.into(), None),
        Stdin::Piped => {
            let (own_end, child_end) = pipe::pipe()?;
            (child_end.into_blocking_fd()?, Some(own_end))
        }
    };
    let (output, stdout) = outlet()?;
    let (error, stderr) = outlet()?;
    let child = Child::start(&program, Streams::Pipes { input, output, error }, orphans)?;
    Ok(Piped { family: Some(ProcessGroupKey { child, mark }), stdin, stdout: Some(stdout), stderr: Some(stderr) })
}

/// Returns the program's end of a pipe that it writes to, and ours.
fn outlet() -> io::Result<(OwnedFd, Receiver)> {
    let (child_end, own_end) = pipe::pipe()?;
    Ok((child_end.into_blocking_fd()?, own_end))
}

impl Piped {
    /// Returns our end of its standard input, once. Dropping it signals the end of input to the program.
    pub fn take_stdin(&mut self) -> Option<Sender> {
        self.stdin.take()
    }

    /// Returns our end of its standard output, once.
    pub fn take_stdout(&mut self) -> Option<Receiver> {
        self.stdout.take()
    }

    /// Returns our end of its standard error, once.
    pub fn take_stderr(&mut self) -> Option<Receiver> {
        self.stderr.take()
    }

    /// Waits until the program itself has ended and returns how. What it started may continue.
    ///
    /// Safe to begin again after a cancellation.
    ///
    /// # Errors
    /// If an earlier wait has returned the exit.
    pub async fn wait(&mut self) -> io::Result<Exit> {
        let family = self.family.as_ref().ok_or_else(|| io::Error::other("it was waited for before"))?;
        let exit = family.child.wait().await?;
        self.family = None;
        Ok(exit)
    }

    /// Ends the program and everything that it started, wherever that went.
    ///
    /// `first` is the signal to begin with; then come SIGTERM and SIGKILL. Takes a few seconds at most, and runs to
    /// its end even if the caller stops waiting.
    pub async fn end(mut self, first: Option<Signal>) -> ProcessEnd {
        let Some(family) = self.family.take() else { return ProcessEnd::default() };
        tokio::spawn(family.end(first)).await.unwrap_or_default()
    }
}

impl ProcessGroupKey {
    async fn end(self, first: Option<Signal>) -> ProcessEnd {
        let leader = SessionLeader { pid: self.child.pid(), collected: false };
        let survivors = end_all(leader, self.mark, first, self.child.kin()).await;
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
