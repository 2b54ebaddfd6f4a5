//! A daemon: its parts, its socket, its end.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use steplatch_protocol::{Client, NotPrivate, Place, ensure_private};
use steplatch_terminal::{Integration, Terminals};
use tokio::net::UnixListener;
use tokio::sync::watch;

use crate::connection;
use crate::lock::{LockError, StateLock};
use crate::service::Service;

/// How a daemon is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its folders.
    pub place: Place,
    /// What holds for its terminals. Where the shell integration and the older output lie is the daemon's to say.
    pub terminals: steplatch_terminal::Options,
}

/// Why a daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another one has the state.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A folder is not only ours.
    #[error(transparent)]
    Folder(#[from] NotPrivate),
    /// The path of the socket is longer than sockets allow.
    #[error(
        "the path of the socket is too long for the system ({length} bytes): '{path}'; set XDG_RUNTIME_DIR to a shorter folder"
    )]
    SocketPath {
        /// The path.
        path: String,
        /// Its length.
        length: usize,
    },
    /// The system refused.
    #[error("the daemon could not start: {0}")]
    System(#[from] io::Error),
}

/// The longest path of a socket, see unix(7).
const LONGEST_SOCKET_PATH: usize = 107;

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    service: Arc<Service>,
    listener: UnixListener,
    _lock: StateLock,
}

impl Daemon {
    /// Takes the state folder and begins to listen; clients are served once [`Daemon::serve`] runs.
    ///
    /// # Errors
    /// When the state has another owner, or the system refuses a folder, a lock or a socket.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let place = options.place;
        ensure_private(place.state())?;
        ensure_private(place.runtime())?;
        let lock = StateLock::acquire(&place)?;
        let socket = place.socket();
        let length = socket.as_os_str().len();
        if length > LONGEST_SOCKET_PATH {
            return Err(StartError::SocketPath { path: socket.display().to_string(), length });
        }
        // Whoever left it is gone, or the lock would be theirs.
        match std::fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let listener = UnixListener::bind(&socket)?;
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))?;
        let integration = Some(Integration::install(&place.runtime().join("shell"))?);
        // The runtime folder lies in memory as a rule, and memory is what there is too little of.
        let history_folder = Some(place.state().to_owned());
        let terminals =
            Terminals::new(steplatch_terminal::Options { integration, history_folder, ..options.terminals })?;
        let service = Arc::new(Service::new(place, terminals));
        Ok(Self { service, listener, _lock: lock })
    }

    /// Returns a client over a pipe in this process, with the same lines as over the socket.
    #[must_use]
    pub fn client(&self) -> Client {
        let (ours, theirs) = tokio::io::duplex(256 * 1024);
        tokio::spawn(connection::serve(self.service.clone(), ours));
        Client::over(theirs)
    }

    /// Returns something that ends the daemon when told to.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper { stop: self.service.stop.clone() }
    }

    /// Serves clients until somebody stops the daemon; then closes terminals and ends.
    ///
    /// # Errors
    /// When no more clients can be accepted.
    pub async fn serve(self) -> io::Result<()> {
        let user = rustix::process::getuid().as_raw();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => match stream.peer_cred() {
                        Ok(peer) if peer.uid() == user || peer.uid() == 0 => {
                            tokio::spawn(connection::serve(self.service.clone(), stream));
                        }
                        peer => tracing::warn!(?peer, "a connection of somebody else was refused"),
                    },
                    Err(error) if is_passing(&error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        // Out of descriptors: some have to be given back first.
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    Err(error) => return Err(error),
                },
                () = self.service.stopped() => break,
            }
        }
        // Nobody finds us any more, and who is connected gets an end of stream.
        let _ = std::fs::remove_file(self.service.place.socket());
        self.service.close().await;
        Ok(())
    }
}

fn is_passing(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let passing = [Errno::MFILE, Errno::NFILE, Errno::CONNABORTED, Errno::INTR, Errno::NOBUFS, Errno::NOMEM];
    passing.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Ends a daemon.
#[derive(Debug, Clone)]
pub struct Stopper {
    stop: watch::Sender<bool>,
}

impl Stopper {
    /// Tells the daemon to end.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}
