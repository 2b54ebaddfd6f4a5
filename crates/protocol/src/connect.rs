//! Connections to the daemon, which is started if none is running.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::net::UnixStream;

use crate::client::{CallError, Client};
use crate::daemon::{Hello, HelloReply};
use crate::paths::DaemonPaths;
use crate::{ErrorCode, PROTOCOL_VERSION};

/// Program that starts a daemon, with the arguments `daemon start`.
#[derive(Debug, Clone)]
pub struct Starter {
    /// Path of the program, usually that of this process.
    pub program: PathBuf,
}

/// Reason why the daemon is not connected.
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
    /// A process of another user listens on the socket.
    #[error("'{}' is a socket of user {user}, not yours; remove it or set XDG_RUNTIME_DIR to a directory of yours", .socket.display())]
    OtherUser {
        /// Path of the socket.
        socket: PathBuf,
        /// User id of the process.
        user: u32,
    },
    /// The daemon closed the connection before it replied to the hello.
    #[error("the daemon closed the connection: {0}")]
    HungUp(#[source] CallError),
    /// The system reported an error.
    #[error("the daemon cannot be reached: {0}")]
    System(#[from] io::Error),
}

/// Failure of the program to start the daemon.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system cannot run the program.
    #[error("{}: {cause}", .program.display())]
    Program {
        /// Path of the program.
        program: PathBuf,
        /// Error from the system.
        cause: io::Error,
    },
    /// The program exited with an error.
    #[error("{error_output}")]
    Refused {
        /// Error output of the program: the first 64 KiB.
        error_output: String,
    },
    /// The program failed and printed nothing.
    #[error("the program failed with {0}")]
    Silent(ExitStatus),
}

/// Connects to the daemon of `paths` and says hello.
///
/// # Errors
/// If no daemon is running, or it speaks another version.
pub async fn connect(paths: &DaemonPaths, hello: Hello) -> Result<(Client, HelloReply), ConnectError> {
    let socket = paths.socket();
    let stream = match connect_own(&socket).await {
        // A daemon with another XDG_RUNTIME_DIR listens elsewhere and has recorded its socket.
        Err(SocketError::NotListening) => match paths.running().filter(|running| running.socket != socket) {
            Some(running) => connect_own(&running.socket).await,
            None => Err(SocketError::NotListening),
        },
        result => result,
    };
    match stream {
        Ok(stream) => greet(Client::from_stream(stream), hello).await,
        Err(SocketError::NotListening) => Err(ConnectError::NotRunning(paths.state().to_owned())),
        Err(SocketError::Other(error)) => Err(error),
    }
}

/// Failure to connect to a socket.
enum SocketError {
    /// No process listens on it.
    NotListening,
    Other(ConnectError),
}

impl From<io::Error> for SocketError {
    /// A daemon that exits resets the connections that wait in its queue.
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound};
        match error.kind() {
            NotFound | ConnectionRefused | ConnectionReset | BrokenPipe => Self::NotListening,
            _ => Self::Other(error.into()),
        }
    }
}

/// Connects to a socket on which a process of this user, or of root, listens. The hello carries the environment of the
/// client, which no other user must receive.
async fn connect_own(socket: &Path) -> Result<UnixStream, SocketError> {
    let stream = UnixStream::connect(socket).await?;
    let listener = stream.peer_cred()?.uid();
    if is_trusted(listener, rustix::process::getuid().as_raw()) {
        return Ok(stream);
    }
    Err(SocketError::Other(ConnectError::OtherUser { socket: socket.to_owned(), user: listener }))
}

fn is_trusted(listener: u32, user: u32) -> bool {
    listener == user || listener == 0
}

/// Handshake timeout. The daemon may still be reading its journal, and callers that share the connection wait.
const HELLO_TIMEOUT: Duration = Duration::from_secs(60);

async fn greet(client: Client, mut hello: Hello) -> Result<(Client, HelloReply), ConnectError> {
    if hello.protocol_version == 0 {
        hello.protocol_version = PROTOCOL_VERSION;
    }
    let timeout_error =
        |_| io::Error::new(io::ErrorKind::TimedOut, "it does not respond; see: steplatch daemon status");
    match tokio::time::timeout(HELLO_TIMEOUT, client.call(hello)).await.map_err(timeout_error)? {
        Ok(reply) => Ok((client, reply)),
        Err(CallError::Refused(refusal)) if refusal.code == ErrorCode::UnsupportedProtocol => {
            Err(ConnectError::OtherVersion(refusal.error))
        }
        Err(error) => Err(ConnectError::HungUp(error)),
    }
}

/// Connects to the daemon of `paths` and starts it first if none is running.
///
/// # Errors
/// If it cannot be started, or speaks another version.
pub async fn connect_or_start(
    paths: &DaemonPaths,
    hello: Hello,
    starter: &Starter,
) -> Result<(Client, HelloReply), ConnectError> {
    match connect(paths, hello.clone()).await {
        Err(ConnectError::NotRunning(_)) => {}
        result => return result,
    }
    let program = starter.program.clone();
    let state = paths.state().to_owned();
    let result = tokio::task::spawn_blocking(move || start_daemon(&program, &state)).await;
    result.map_err(io::Error::other)?.map_err(ConnectError::NotStarted)?;
    connect(paths, hello).await
}

/// Runs `daemon start`, which returns once the daemon listens, or reports an error.
///
/// The program starts the daemon and exits, so that the daemon is not a child of this client: killing the client with
/// all of its children does not stop the daemon.
fn start_daemon(program: &Path, state: &Path) -> Result<(), StartError> {
    let program_error = |cause: io::Error| StartError::Program { program: program.to_owned(), cause };
    let mut child = Command::new(program)
        .args(["daemon", "start", "--state-dir"])
        .arg(state)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // The token gives access to front-ends; the daemon and its children do not need it.
        .env_remove("STEPLATCH_HTTP_TOKEN")
        .spawn()
        .map_err(program_error)?;
    let mut error_output = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        // Ignore the error, because the exit code is reported.
        let _ = stderr.by_ref().take(64 * 1024).read_to_string(&mut error_output);
    }
    let status = child.wait().map_err(program_error)?;
    if status.success() {
        return Ok(());
    }
    let error_output = error_output.trim().trim_start_matches("error: ").to_owned();
    Err(if error_output.is_empty() { StartError::Silent(status) } else { StartError::Refused { error_output } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unanswered_hello_times_out() {
        let (client_stream, _daemon_stream) = UnixStream::pair().unwrap();
        let error = greet(Client::from_stream(client_stream), Hello::default()).await.unwrap_err();
        assert!(error.to_string().starts_with("the daemon cannot be reached: it does not respond"), "{error}");
    }
}
