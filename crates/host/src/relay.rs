//! The remote end of a connection. Finds or starts the terminal host there, and copies bytes to and from it.
//!
//! The client starts a relay through OpenSSH and uses its standard input and output. First they exchange JSON lines:
//! the relay's [`RelayHello`] after [`MARK`] (after possible output of a login shell), the client's [`RelayRequest`],
//! and the [`RelayReply`]. Then the connection belongs to a link (`steplatch-link`) with the terminal host.

use std::io::{self, BufRead, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::hosts::{HostState, Hosts, HostsError, Starter, is_socket};
use crate::wire::{HEAD_BYTES, HostRequest, Refusal, Role, first_frame, read_body, write_frame};

/// Text before the greeting of a relay.
pub(crate) const MARK: &str = "steplatch-relay ";

/// Maximum length of a line of the greeting, in bytes.
pub(crate) const MAX_LINE_BYTES: usize = 64 << 10;

/// Maximum wait of a relay for a host that listens but does not answer.
const OPENING_TIMEOUT: Duration = Duration::from_secs(20);

/// Pause between two attempts to reach a host.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Greeting of a relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RelayHello {
    /// The version of its program.
    pub(crate) version: String,
}

impl Default for RelayHello {
    fn default() -> Self {
        Self { version: "of an unknown version".to_owned() }
    }
}

/// Request of the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RelayRequest {
    /// Connect to the host that opens new terminals. The relay starts one if there is none.
    OpenCurrent,
    /// Connect to any running host. The relay does not start one.
    OpenExisting,
    /// Connect to the host of this socket.
    Open(String),
}

/// The answer of the relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RelayReply {
    /// The connection now reaches a host.
    Open {
        /// Socket of the host; it identifies the host.
        socket: String,
        /// True if the host opens new terminals, because it has the relay's version.
        #[serde(default)]
        is_current: bool,
        /// The sockets of the other hosts.
        #[serde(default)]
        others: Vec<String>,
    },
    /// The host has ended, and its terminals with it.
    Gone,
    /// The host cannot be reached, for this reason.
    Failed(String),
}

/// Settings of a relay.
#[derive(Debug)]
pub struct Relay {
    /// Directory of the sockets and records of the hosts.
    pub directory: PathBuf,
    /// Starter of hosts.
    pub starter: Starter,
    /// The version of the program.
    pub version: String,
}

/// Reason why a relay ended early.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The client sent an invalid request.
    #[error("the remote host sent an invalid relay request: {0}")]
    Request(String),
    /// The connection or the host has ended.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Relay {
    /// Greets over `output`, reads the request from `input`, and then copies bytes between them and the host until
    /// either side ends.
    ///
    /// # Errors
    /// If the request is invalid, or the connection ends before it reaches the host.
    #[boxed]
    pub async fn serve(
        self,
        mut input: impl BufRead + Send + 'static,
        mut output: impl Write + Send + 'static,
    ) -> Result<(), RelayError> {
        send_line(&mut output, MARK, &RelayHello { version: self.version.clone() })?;
        let mut line = String::new();
        input.by_ref().take(MAX_LINE_BYTES as u64).read_line(&mut line)?;
        let request = serde_json::from_str(&line).map_err(|error| RelayError::Request(error.to_string()))?;
        let reply = match self.find_host(request).await {
            Ok(reply) => reply,
            Err(error) => RelayReply::Failed(error.to_string()),
        };
        let RelayReply::Open { socket, .. } = &reply else {
            return Ok(send_line(&mut output, "", &reply)?);
        };
        match connect_link(&self.directory.join(socket)) {
            Ok(stream) => {
                send_line(&mut output, "", &reply)?;
                copy_both_ways(stream, input, output)
            }
            Err(error) => Ok(send_line(&mut output, "", &RelayReply::Failed(error.to_string()))?),
        }
    }

    /// Finds the requested host.
    async fn find_host(&self, request: RelayRequest) -> Result<RelayReply, HostsError> {
        let start_error = HostsError::NotStarted;
        // The lock prevents two relays from starting two hosts.
        let lock = std::fs::File::create(self.directory.join("relay.lock")).map_err(start_error)?;
        let lock = tokio::task::spawn_blocking(move || flock(&lock, FlockOperation::LockExclusive).map(|()| lock));
        let _lock =
            lock.await.map_err(io::Error::other).map_err(start_error)?.map_err(io::Error::from).map_err(start_error)?;
        let began = tokio::time::Instant::now();
        loop {
            let hosts = Hosts::find(
                Role::Visitor,
                &self.directory,
                &self.directory,
                self.starter.clone(),
                &self.version,
                |_| {},
            )
            .await;
            let hosts = hosts.map_err(start_error)?;
            if request == RelayRequest::OpenCurrent {
                hosts.prepare().await?;
            }
            let listening = hosts.listening();
            let socket = match &request {
                RelayRequest::OpenCurrent => listening.iter().find(|(_, state)| *state == HostState::Current),
                RelayRequest::OpenExisting => listening.first(),
                RelayRequest::Open(socket) => listening.iter().find(|(known, _)| known == socket),
            };
            match socket {
                Some((socket, state)) => {
                    let other_sockets = listening.iter().map(|(known, _)| known).filter(|known| *known != socket);
                    return Ok(RelayReply::Open {
                        socket: socket.clone(),
                        is_current: *state == HostState::Current,
                        others: other_sockets.cloned().collect(),
                    });
                }
                None if !self.has_socket(&request) => return Ok(RelayReply::Gone),
                None if began.elapsed() > OPENING_TIMEOUT => {
                    return Ok(RelayReply::Failed("the terminal host there does not answer".to_owned()));
                }
                // The host is busy or stopped, and still has its terminals.
                None => tokio::time::sleep(RETRY_PAUSE).await,
            }
        }
    }

    /// Returns whether the socket of the requested host exists. A host removes its socket at its end.
    fn has_socket(&self, request: &RelayRequest) -> bool {
        matches!(request, RelayRequest::Open(socket) if is_socket(socket) && self.directory.join(socket).exists())
    }
}

fn send_line(output: &mut impl Write, mark: &str, message: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string(message).map_err(io::Error::other)?;
    writeln!(output, "{mark}{text}")?;
    output.flush()
}

/// Connects to a host and prepares the connection for a link.
pub(crate) fn connect_link(socket: &Path) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    let mut request = Vec::new();
    write_frame(&mut request, 1, &HostRequest::Link);
    stream.write_all(&request)?;
    // Read only the frame of the answer; the next bytes belong to the link.
    let mut answer = vec![0; HEAD_BYTES];
    stream.read_exact(&mut answer)?;
    while first_frame(&answer).map_err(io::Error::other)?.is_none() {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        answer.push(byte[0]);
    }
    let result: Result<(), Refusal> = read_body(&answer[HEAD_BYTES..]).map_err(io::Error::other)?;
    result.map_err(io::Error::other)?;
    Ok(stream)
}

/// Copies bytes in both directions until either side ends. Two blocking threads need less time for each byte than an
/// async runtime.
fn copy_both_ways(
    stream: UnixStream,
    mut input: impl Read + Send + 'static,
    mut output: impl Write,
) -> Result<(), RelayError> {
    let mut to_host = stream.try_clone()?;
    // The thread ends with the process, and the process ends once the host has ended.
    thread::spawn(move || {
        // Ignore errors, because the end of either side ends the relay.
        let _ = copy_and_flush(&mut input, &mut to_host);
        let _ = to_host.shutdown(Shutdown::Both);
    });
    let mut from_host = stream;
    // Ignore the error, because the connection has ended.
    let _ = copy_and_flush(&mut from_host, &mut output);
    Ok(())
}

/// Copies until the end and flushes after each read.
fn copy_and_flush(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.write_all(&bytes[..count])?;
                to.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stopped host, or a host on a busy machine, keeps its terminals, because the near end must not consider the
    /// terminals lost.
    #[tokio::test(start_paused = true)]
    async fn listening_but_silent_host_has_not_ended() {
        let directory = tempfile::tempdir().unwrap();
        let relay = Relay {
            directory: directory.path().to_owned(),
            starter: Starter::InProcess(Box::default()),
            version: "1".to_owned(),
        };
        let open = |socket: &str| relay.find_host(RelayRequest::Open(socket.to_owned()));
        let _silent = std::os::unix::net::UnixListener::bind(directory.path().join("host-1.sock")).unwrap();
        let failed = RelayReply::Failed("the terminal host there does not answer".to_owned());
        assert_eq!(open("host-1.sock").await.unwrap(), failed);
        // An ended host, with or without its socket, and anything that is not a host.
        drop(std::os::unix::net::UnixListener::bind(directory.path().join("host-2.sock")).unwrap());
        for gone in ["host-2.sock", "host-3.sock", "relay.lock", "../host-1.sock"] {
            assert_eq!(open(gone).await.unwrap(), RelayReply::Gone, "{gone}");
        }
    }
}
