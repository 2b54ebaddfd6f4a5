//! Reaching the daemon, and starting it when there is none.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::net::UnixStream;

use crate::client::{CallError, Client};
use crate::daemon::{Hello, HelloReply};
use crate::place::DaemonPaths;
use crate::{ErrorCode, PROTOCOL_VERSION};

/// Start of a daemon: the program, which then gets `daemon start`.
#[derive(Debug, Clone)]
pub struct Starter {
    /// The program, usually this very one.
    pub program: PathBuf,
}

/// Reason for a missing connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No process listens on the socket.
    #[error("no daemon is running for '{}'; start it with: steplatch daemon start", .0.display())]
    NotRunning(PathBuf),
    /// The daemon could not be started.
    #[error("the daemon could not be started: {0}")]
    NotStarted(StartError),
    /// The daemon speaks another version of the contract.
    #[error("{0}")]
    OtherVersion(String),
    /// The daemon hung up before it said hello.
    #[error("the daemon hung up: {0}")]
    HungUp(#[source] CallError),
    /// The system refused.
    #[error("the daemon cannot be reached: {0}")]
    System(#[from] io::Error),
}

/// Failure of the program to start the daemon.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system does not run the program.
    #[error("{}: {cause}", .program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// The error of the system.
        cause: io::Error,
    },
    /// The program ended with an error.
    #[error("{complaint}")]
    Refused {
        /// Output of the program: the first 64 KiB.
        complaint: String,
    },
    /// The program ended without a daemon, and printed nothing.
    #[error("it ended with {0}")]
    Silent(ExitStatus),
}

/// Connects to the daemon of `place` and says hello.
///
/// # Errors
/// If none is running, or it does not understand us.
pub async fn connect(place: &DaemonPaths, hello: Hello) -> Result<(Client, HelloReply), ConnectError> {
    let socket = place.socket();
    let stream = match UnixStream::connect(&socket).await {
        Ok(stream) => stream,
        // Its owner may have been started with another XDG_RUNTIME_DIR, and noted where it listens.
        Err(first) if absent(&first) => match place.running().filter(|running| running.socket != socket) {
            Some(running) => match UnixStream::connect(&running.socket).await {
                Ok(stream) => stream,
                Err(error) if absent(&error) => return Err(not_running(place)),
                Err(error) => return Err(error.into()),
            },
            None => return Err(not_running(place)),
        },
        Err(error) => return Err(error.into()),
    };
    greet(Client::from_stream(stream), hello).await
}

/// Returns whether no process listens; a daemon that ends while this connection waits in its queue resets it.
fn absent(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound};
    matches!(error.kind(), NotFound | ConnectionRefused | ConnectionReset | BrokenPipe)
}

fn not_running(place: &DaemonPaths) -> ConnectError {
    ConnectError::NotRunning(place.state().to_owned())
}

/// Time limit of a daemon's hello, also while it reads its journal at its start. A caller that shares its connection
/// holds up the others in the meantime.
const HELLO_TIMEOUT: Duration = Duration::from_secs(60);

async fn greet(client: Client, mut hello: Hello) -> Result<(Client, HelloReply), ConnectError> {
    if hello.protocol_version == 0 {
        hello.protocol_version = PROTOCOL_VERSION;
    }
    let silent = |_| io::Error::new(io::ErrorKind::TimedOut, "it does not answer; see: steplatch daemon status");
    match tokio::time::timeout(HELLO_TIMEOUT, client.call(hello)).await.map_err(silent)? {
        Ok(reply) => Ok((client, reply)),
        Err(CallError::Refused(refusal)) if refusal.code == ErrorCode::UnsupportedProtocol => {
            Err(ConnectError::OtherVersion(refusal.error))
        }
        Err(error) => Err(ConnectError::HungUp(error)),
    }
}

/// Connects to the daemon of `place`; starts it first when none is running.
///
/// # Errors
/// If it cannot be started, or does not understand us.
pub async fn connect_or_start(
    place: &DaemonPaths,
    hello: Hello,
    starter: &Starter,
) -> Result<(Client, HelloReply), ConnectError> {
    match connect(place, hello.clone()).await {
        Err(ConnectError::NotRunning(_)) => {}
        other => return other,
    }
    let program = starter.program.clone();
    let state = place.state().to_owned();
    let started = tokio::task::spawn_blocking(move || start(&program, &state)).await;
    started.map_err(io::Error::other)?.map_err(ConnectError::NotStarted)?;
    connect(place, hello).await
}

/// Runs `daemon start`, which returns once the daemon listens, or has reported why it does not.
///
/// It is the parent of the daemon and ends, so that the daemon has no parent that could end it: a client that is ended
/// with all of its children must not take the daemon with it.
fn start(program: &Path, state: &Path) -> Result<(), StartError> {
    let program_error = |cause: io::Error| StartError::Program { program: program.to_owned(), cause };
    let mut child = Command::new(program)
        .args(["daemon", "start", "--state-dir"])
        .arg(state)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // What opens a front-end is not for the daemon, nor for what the daemon starts.
        .env_remove("STEPLATCH_HTTP_TOKEN")
        .spawn()
        .map_err(program_error)?;
    let mut complaint = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        // What cannot be read is not worth more than the exit code.
        let _ = stderr.by_ref().take(64 * 1024).read_to_string(&mut complaint);
    }
    let status = child.wait().map_err(program_error)?;
    if status.success() {
        return Ok(());
    }
    let complaint = complaint.trim().trim_start_matches("error: ").to_owned();
    Err(if complaint.is_empty() { StartError::Silent(status) } else { StartError::Refused { complaint } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_daemon_that_does_not_say_hello_is_not_waited_for_without_end() {
        let (ours, _daemon) = UnixStream::pair().unwrap();
        let silent = greet(Client::from_stream(ours), Hello::default()).await.unwrap_err();
        assert!(silent.to_string().starts_with("the daemon cannot be reached: it does not answer"), "{silent}");
    }
}
