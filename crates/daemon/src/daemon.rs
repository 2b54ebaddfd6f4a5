//! A daemon: its parts, its socket, its end.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{GetSockOpt as _, sockopt};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use steplatch_access::{OwnProcesses, Redactor, Standing, join_group};
use steplatch_clock::Clock;
use steplatch_host::{DialedTargets, Hosts, OpenSsh, RemoteSetup, Starter};
use steplatch_project::{WorkerStarter, Workers};
use steplatch_protocol::{Client, DaemonPaths, NotPrivate, ensure_private};
use steplatch_runs::RetentionPolicy;
use steplatch_sessions::ShutdownMode;
use steplatch_store::{OpenError, StorageError};
use steplatch_terminal::Integration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, watch};

use crate::configuration::{self, Configuration};
use crate::connection;
use crate::dispatcher::{Dispatcher, DispatcherParts};
use crate::lock::{LockError, LockPlace, LockWatch, StateLock};
use crate::ssh_environment::DaemonSshEnvironment;
use crate::ssh_questions::SshQuestions;

/// The setup of a daemon.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its directories.
    pub place: DaemonPaths,
    /// The way to start the terminal host process.
    pub host: Starter,
    /// The way to start the worker processes, which execute functions.
    pub workers: WorkerStarter,
    /// Retention of finished runs.
    pub runs: RetentionPolicy,
    /// The configuration that may change while it runs. Without a sender it never changes.
    pub configuration: watch::Receiver<Configuration>,
    /// The time of runs. Terminals and the programs in them follow the system's clock.
    pub clock: Clock,
}

/// Reason why a daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another daemon owns the state.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A directory is accessible to other users.
    #[error(transparent)]
    Folder(#[from] NotPrivate),
    /// The path of the socket is longer than sockets allow.
    #[error(
        "the path of the socket is too long for the system ({length} bytes): '{path}'; set XDG_RUNTIME_DIR to a directory with a shorter path"
    )]
    SocketPath {
        /// The path.
        path: String,
        /// Its length.
        length: usize,
    },
    /// The journal of runs is unusable.
    #[error("the journal of runs cannot be opened: {}; {}", error_with_causes(.0), what_to_do(.0))]
    Journal(#[from] OpenError),
    /// The system refused.
    #[error("the daemon could not start: {0}")]
    System(#[from] io::Error),
}

/// Explains how to continue without an unusable journal.
fn what_to_do(error: &OpenError) -> &'static str {
    match error {
        OpenError::Newer { .. } => "start a newer version, or select another directory with --state-dir",
        OpenError::Foreign { .. } => "select another directory with --state-dir",
        OpenError::File { .. } => "check its permissions, or select another directory with --state-dir",
        // There is nothing wrong with the file.
        OpenError::Storage { cause: StorageError::Full(_), .. } => {
            "leave the file where it is: once there is space, its runs are there again"
        }
        OpenError::Storage { cause: StorageError::ReadOnly(_), .. } => {
            "check its permissions, or select another directory with --state-dir"
        }
        OpenError::Storage { cause: StorageError::Damaged(_), .. } => {
            "if this persists, move the file away: its runs are not listed then, and new runs go to a new file"
        }
        OpenError::Storage { .. } => {
            "leave the file where it is, and look for errors of its disk; if another process has the file open, end it"
        }
    }
}

/// Formats an error with all of its causes.
fn error_with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source()).map(|cause| format!(": {cause}"));
    format!("{error}{}", causes.collect::<String>())
}

/// Maximum length of the path of a socket, see unix(7).
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    service: Arc<Dispatcher>,
    listener: UnixListener,
    ours: OwnProcesses,
    lock: StateLock,
    lock_watch: LockWatch,
}

impl Daemon {
    /// Takes the state folder and begins to listen; [`Daemon::serve`] serves the clients.
    ///
    /// # Errors
    /// If the state has another owner, or the system refuses a folder, a lock or a socket.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let place = options.place;
        let alone = !matches!(options.host, Starter::InProcess(_));
        let (joined, in_group) = watch::channel(!alone);
        if alone {
            // The kernel takes ten milliseconds, during which the daemon opens the state. It starts no process before
            // that.
            tokio::task::spawn_blocking(move || {
                if let Err(error) = join_group() {
                    tracing::info!(%error, "the daemon could not join a control group of its own");
                }
                joined.send_replace(true);
            });
        }
        ensure_private(place.state())?;
        ensure_private(place.runtime())?;
        let lock = StateLock::acquire(&place).await?;
        let listener = listen(&place)?;
        let mut starter = options.host;
        let program = match &starter {
            Starter::Program { program, .. } => Some(program.clone()),
            Starter::InProcess(_) => None,
        };
        if let Starter::InProcess(terminals) = &mut starter {
            terminals.integration = Some(Integration::install(&place.shell())?);
            terminals.history_folder = Some(place.state().to_owned());
        }
        let secrets = Arc::new(Redactor::default());
        let hidden = secrets.clone();
        let hosts = Hosts::find(place.runtime(), place.state(), starter, env!("CARGO_PKG_VERSION"), move |secret| {
            hidden.hide(&secret);
        })
        .await?;
        let questions = Arc::new(SshQuestions::default());
        let ssh = Arc::new(DaemonSshEnvironment::new(program, place.state(), questions.clone()));
        hosts.reach(RemoteSetup {
            notes: place.hosts(),
            transport: Arc::new(OpenSsh {
                program: "ssh".into(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                environment: ssh.clone(),
                dialed: DialedTargets::default(),
            }),
            questions: questions.clone(),
            secrets: secrets.clone(),
        });
        configuration::follow_hosts(options.configuration.clone(), hosts.clone());
        let ours = OwnProcesses::new(hosts.clone(), alone);
        let (first, mut may_start) = (hosts.clone(), in_group.clone());
        tokio::spawn(async move {
            // The thread has ended, so it has made its attempt.
            let _ = may_start.wait_for(|joined| *joined).await;
            if let Err(error) = first.prepare().await {
                tracing::warn!(%error, "no terminal host could be started; the next terminal tries again");
            }
        });
        let parts = DispatcherParts {
            place,
            hosts,
            ssh,
            questions,
            workers: Workers::new(options.workers),
            secrets,
            keep: options.runs,
            configuration: options.configuration,
            clock: options.clock,
        };
        let service = Arc::new(Dispatcher::start(parts, alone.then_some(in_group)).await?);
        let lock_watch = lock.watch();
        Ok(Self { service, listener, ours, lock, lock_watch })
    }

    /// Returns a client over a pipe in this process, with the same lines as over the socket.
    #[must_use]
    pub fn client(&self) -> Client {
        let (server_end, client_end) = tokio::io::duplex(256 * 1024);
        tokio::spawn(connection::serve(self.service.clone(), server_end, Standing::internal()));
        Client::from_stream(client_end)
    }

    /// Returns a handle that shuts the daemon down.
    #[must_use]
    pub fn stopper(&self) -> ShutdownHandle {
        ShutdownHandle { stop: self.service.stop.clone(), listen_again: self.service.listen_again.clone() }
    }

    /// Serves clients until the daemon stops, or its state directory disappears; then closes terminals, unless they
    /// should stay open, and returns.
    ///
    /// # Errors
    ///
    /// If the socket accepts no more clients.
    pub async fn serve(mut self) -> io::Result<()> {
        let user = rustix::process::getuid().as_raw();
        let ending = loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => match stream.peer_cred() {
                        Ok(peer) if peer.uid() == user || peer.uid() == 0 => {
                            // Determined before the first command: the process may end, or pass its socket on.
                            let handle = handle_of(&stream, peer.pid());
                            let standing = Standing::for_process(peer.uid(), handle, self.ours.clone());
                            tokio::spawn(connection::serve(self.service.clone(), stream, standing));
                        }
                        peer => tracing::warn!(?peer, "a connection of another user was refused"),
                    },
                    Err(error) if is_passing(&error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        // Out of descriptors: waits until some are closed.
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    Err(error) => return Err(error),
                },
                () = self.service.listen_again.notified() => match listen(&self.service.place) {
                    Ok(listener) => self.listener = listener,
                    Err(error) => tracing::warn!(%error, "the socket cannot be made again"),
                },
                ending = self.service.stopped() => break ending,
                lost = self.lock.lost(&mut self.lock_watch) => {
                    let state = self.service.place.state().display();
                    tracing::error!(%state, "the state directory was removed or replaced, so this daemon ends; its terminals stay open");
                    // In a recreated directory, the socket may be another daemon's.
                    break if lost == LockPlace::Replaced { ShutdownMode::GiveWay } else { ShutdownMode::KeepTerminals };
                }
            }
        };
        // No new client finds the daemon, and connected clients get an end of stream.
        if ending != ShutdownMode::GiveWay {
            let _ = std::fs::remove_file(self.service.place.socket());
        }
        self.service.close(ending).await;
        Ok(())
    }
}

/// Returns the process that opened a connection, with a handle that refers to no later process with its id. `None` if
/// it has ended.
fn handle_of(stream: &UnixStream, pid: Option<i32>) -> Option<(i32, OwnedFd)> {
    let pid = pid?;
    let handle = match sockopt::PeerPidfd.get(stream) {
        Ok(handle) => handle,
        // A kernel before 6.5 does not report it. The process may have ended since, and another one have its id.
        Err(Errno::ENOPROTOOPT) => pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?,
        Err(_) => return None,
    };
    Some((pid, handle))
}

/// Listens where clients look for a daemon.
fn listen(place: &DaemonPaths) -> Result<UnixListener, StartError> {
    ensure_private(place.runtime())?;
    let socket = place.socket();
    let length = socket.as_os_str().len();
    if length > MAX_SOCKET_PATH_BYTES {
        return Err(StartError::SocketPath { path: socket.display().to_string(), length });
    }
    // The daemon that created it has ended, since otherwise it would hold the lock.
    match std::fs::remove_file(&socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let listener = UnixListener::bind(&socket)?;
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn is_passing(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let passing = [Errno::MFILE, Errno::NFILE, Errno::CONNABORTED, Errno::INTR, Errno::NOBUFS, Errno::NOMEM];
    passing.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Ends a daemon.
#[derive(Debug, Clone)]
pub struct ShutdownHandle {
    stop: watch::Sender<Option<ShutdownMode>>,
    listen_again: Arc<Notify>,
}

impl ShutdownHandle {
    /// Makes the daemon create its socket again, where it was removed.
    pub fn listen_again(&self) {
        self.listen_again.notify_one();
    }

    /// Waits until the daemon is to end.
    pub async fn stopped(&self) {
        // A daemon that cannot be reached has ended.
        let _ = self.stop.subscribe().wait_for(Option::is_some).await;
    }

    /// Makes the daemon end.
    pub fn stop(&self, ending: ShutdownMode) {
        self.stop.send_replace(Some(ending));
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn only_a_damaged_journal_is_to_be_moved_away() {
        let advice = |cause: StorageError| what_to_do(&OpenError::Storage { path: PathBuf::new(), cause });
        let cause = || Box::new(io::Error::other("x"));
        assert!(advice(StorageError::Damaged(cause())).contains("move the file away"));
        for cause in [StorageError::Full(cause()), StorageError::Failed(cause())] {
            assert!(advice(cause).contains("leave the file where it is"));
        }
        assert!(!advice(StorageError::ReadOnly(cause())).contains("move the file away"));
    }
}
