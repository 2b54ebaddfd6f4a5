//! The daemon: startup, socket and shutdown.

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
use steplatch_host::{DialedTargets, Hosts, OpenSsh, RemoteSetup, Role, Starter, Transport};
use steplatch_project::{WorkerStarter, Workers};
use steplatch_protocol::{Client, DaemonPaths, NotPrivate, ensure_private};
use steplatch_runs::RetentionPolicy;
use steplatch_sessions::ShutdownMode;
use steplatch_store::{Journal, OpenError, StorageError};
use steplatch_terminal::Integration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, watch};

use crate::askpass;
use crate::configuration::{self, Configuration};
use crate::connection;
use crate::dispatcher::{Dispatcher, DispatcherParts};
use crate::lock::{LockError, LockFileState, LockWatch, StateLock};
use crate::ssh_environment::DaemonSshEnvironment;
use crate::ssh_questions::SshQuestions;

/// The setup of a daemon.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directories.
    pub paths: DaemonPaths,
    /// The way to start the terminal host process.
    pub host: Starter,
    /// The way to start the worker processes. These processes execute functions.
    pub workers: WorkerStarter,
    /// Retention of finished runs.
    pub runs: RetentionPolicy,
    /// The configuration. It may change at run time; without a sender it is constant.
    pub configuration: watch::Receiver<Configuration>,
    /// The clock of runs. Terminals and their programs use the system's clock.
    pub clock: Clock,
    /// The parts that a test provides.
    pub substitutes: Substitutes,
}

/// Parts of a daemon that a test provides instead of the system's.
#[derive(Debug, Clone, Default)]
pub struct Substitutes {
    /// The journal of runs, instead of the file in the state directory.
    pub journal: Option<Arc<dyn Journal>>,
    /// The transport to remote hosts, instead of OpenSSH.
    pub transport: Option<Arc<dyn Transport>>,
}

/// Error that prevented the start of a daemon.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another daemon owns the state.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A directory is accessible to other users.
    #[error(transparent)]
    Directory(#[from] NotPrivate),
    /// The path of the socket exceeds the system's limit.
    #[error(
        "the path of the socket is too long for the system ({length} bytes): '{path}'; set XDG_RUNTIME_DIR to a directory with a shorter path"
    )]
    SocketPath {
        /// The path.
        path: String,
        /// The length.
        length: usize,
    },
    /// The journal of runs cannot be opened.
    #[error("the journal of runs cannot be opened: {}; {}", error_with_causes(.0), journal_advice(.0))]
    Journal(#[from] OpenError),
    /// A system call failed.
    #[error("the daemon could not start: {0}")]
    System(#[from] io::Error),
}

/// Explains how to continue without an unusable journal.
fn journal_advice(error: &OpenError) -> &'static str {
    match error {
        OpenError::Newer { .. } => "start a newer version, or select another directory with --state-dir",
        OpenError::Foreign { .. } => "select another directory with --state-dir",
        OpenError::File { .. } => "check its permissions, or select another directory with --state-dir",
        // The file is intact.
        OpenError::Storage { cause: StorageError::Full(_), .. } => {
            "do not move the file: its runs are available again once there is space"
        }
        OpenError::Storage { cause: StorageError::ReadOnly(_), .. } => {
            "check its permissions, or select another directory with --state-dir"
        }
        OpenError::Storage { cause: StorageError::Damaged(_), .. } => {
            "if this persists, move the file: its runs are then not listed, and new runs use a new file"
        }
        OpenError::Storage { .. } => {
            "do not move the file, and check its disk for errors; if another process has the file open, end it"
        }
    }
}

/// Formats an error with all of its causes.
fn error_with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source()).map(|cause| format!(": {cause}"));
    format!("{error}{}", causes.collect::<String>())
}

/// Maximum length of a socket path, in bytes; see unix(7).
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    service: Arc<Dispatcher>,
    listener: UnixListener,
    own_processes: OwnProcesses,
    lock: StateLock,
    lock_watch: LockWatch,
}

impl Daemon {
    /// Acquires the state directory and begins to listen; [`Daemon::serve`] serves the clients.
    ///
    /// # Errors
    /// If another daemon owns the state, or the system refuses a directory, a lock or a socket.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let paths = options.paths;
        let is_separate = matches!(options.host, Starter::Program { .. });
        let (joined, in_group) = watch::channel(!is_separate);
        if is_separate {
            // Joining takes ten milliseconds, so the daemon opens its state in the meantime. The daemon starts no
            // process before it has joined the group.
            tokio::task::spawn_blocking(move || {
                if let Err(error) = join_group() {
                    tracing::info!(%error, "the daemon could not join its own control group");
                }
                joined.send_replace(true);
            });
        }
        ensure_private(paths.state())?;
        paths.ensure_runtime()?;
        let lock = StateLock::acquire(&paths).await?;
        let listener = listen(&paths)?;
        let mut starter = options.host;
        let program = match &starter {
            Starter::Program { program, .. } => Some(program.clone()),
            Starter::InProcess(_) | Starter::Custom(_) => None,
        };
        if let Starter::InProcess(terminals) = &mut starter {
            terminals.integration = Some(Integration::install(&paths.shell())?);
            terminals.history_directory = Some(paths.state().to_owned());
        }
        let secrets = Arc::new(Redactor::default());
        let redactor = secrets.clone();
        let hosts = Hosts::find(
            Role::Daemon,
            paths.runtime(),
            paths.state(),
            starter,
            env!("CARGO_PKG_VERSION"),
            move |secret| {
                redactor.hide(&secret);
            },
        )
        .await?;
        let askpass = program.as_deref().and_then(|program| match askpass::install(program, paths.state()) {
            Ok(file) => Some(file),
            Err(error) => {
                tracing::warn!(%error, "failed to write the askpass program; sudo -A cannot request a password from a person");
                None
            }
        });
        let questions = Arc::new(SshQuestions::default());
        let ssh = Arc::new(DaemonSshEnvironment::new(program, paths.state(), questions.clone()));
        let Substitutes { journal, transport } = options.substitutes;
        let open_ssh = || OpenSsh {
            program: "ssh".into(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            environment: ssh.clone(),
            dialed: DialedTargets::default(),
        };
        hosts.enable_remote(RemoteSetup {
            notes: paths.hosts(),
            transport: transport.unwrap_or_else(|| Arc::new(open_ssh())),
            questions: questions.clone(),
            secrets: secrets.clone(),
        });
        configuration::follow_hosts(options.configuration.clone(), hosts.clone());
        let own_processes = OwnProcesses::new(hosts.clone(), is_separate);
        let (early_hosts, mut joined_group) = (hosts.clone(), in_group.clone());
        tokio::spawn(async move {
            // Ignore an error, because the thread has finished its attempt.
            let _ = joined_group.wait_for(|joined| *joined).await;
            if let Err(error) = early_hosts.prepare().await {
                tracing::warn!(%error, "failed to start a terminal host; the next terminal starts one");
            }
        });
        let parts = DispatcherParts {
            paths,
            hosts,
            ssh,
            questions,
            workers: Workers::new(options.workers),
            secrets,
            askpass,
            retention: options.runs,
            configuration: options.configuration,
            clock: options.clock,
            journal,
        };
        let service = Arc::new(Dispatcher::start(parts, is_separate.then_some(in_group)).await?);
        let lock_watch = lock.watch();
        Ok(Self { service, listener, own_processes, lock, lock_watch })
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

    /// Serves clients until the daemon stops, or its state directory disappears; then closes terminals, unless the mode
    /// keeps them, and returns.
    ///
    /// # Errors
    ///
    /// If the socket accepts no more clients.
    pub async fn serve(mut self) -> io::Result<()> {
        let user = rustix::process::getuid().as_raw();
        let mode = loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => match stream.peer_cred() {
                        Ok(peer) if peer.uid() == user || peer.uid() == 0 => {
                            // Do this before the first command, because the process may end, or pass its socket on.
                            let handle = process_handle(&stream, peer.pid());
                            let standing = Standing::for_process(peer.uid(), handle, self.own_processes.clone());
                            tokio::spawn(connection::serve(self.service.clone(), stream, standing));
                        }
                        peer => tracing::warn!(?peer, "refused a connection of another user"),
                    },
                    Err(error) if is_temporary(&error) => {
                        tracing::warn!(%error, "failed to accept a connection");
                        // Descriptors are exhausted: wait until some are closed.
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    Err(error) => return Err(error),
                },
                () = self.service.listen_again.notified() => match listen(&self.service.paths) {
                    Ok(listener) => self.listener = listener,
                    Err(error) => tracing::warn!(%error, "failed to recreate the socket"),
                },
                mode = self.service.wait_until_stopped() => break mode,
                lost = self.lock.wait_until_lost(&mut self.lock_watch) => {
                    let state = self.service.paths.state().display();
                    tracing::error!(%state, "the state directory was removed or replaced, so this daemon stops; its \
                                             terminals stay open");
                    // The socket in a recreated directory may belong to another daemon.
                    break if lost == LockFileState::Replaced { ShutdownMode::GiveWay } else { ShutdownMode::KeepTerminals };
                }
            }
        };
        // Without the socket no new client finds the daemon. Connected clients get an end of stream.
        if mode != ShutdownMode::GiveWay {
            let _ = std::fs::remove_file(self.service.paths.socket());
        }
        self.service.close(mode).await;
        Ok(())
    }
}

/// Returns the process that opened a connection, with a handle that refers to no later process with its id. `None` if
/// it has exited.
fn process_handle(stream: &UnixStream, pid: Option<i32>) -> Option<(i32, OwnedFd)> {
    let pid = pid?;
    let handle = match sockopt::PeerPidfd.get(stream) {
        Ok(handle) => handle,
        // A kernel before 6.5 does not report it. The process may have exited since, and another process may have its
        // id.
        Err(Errno::ENOPROTOOPT) => pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?,
        Err(_) => return None,
    };
    Some((pid, handle))
}

/// Listens on the socket that clients connect to.
fn listen(paths: &DaemonPaths) -> Result<UnixListener, StartError> {
    paths.ensure_runtime()?;
    let socket = paths.socket();
    let length = socket.as_os_str().len();
    if length > MAX_SOCKET_PATH_BYTES {
        return Err(StartError::SocketPath { path: socket.display().to_string(), length });
    }
    // The daemon that created the socket has exited, since otherwise it would hold the lock.
    match std::fs::remove_file(&socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let listener = UnixListener::bind(&socket)?;
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn is_temporary(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let temporary_errors = [Errno::MFILE, Errno::NFILE, Errno::CONNABORTED, Errno::INTR, Errno::NOBUFS, Errno::NOMEM];
    temporary_errors.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Handle that shuts a daemon down.
#[derive(Debug, Clone)]
pub struct ShutdownHandle {
    stop: watch::Sender<Option<ShutdownMode>>,
    listen_again: Arc<Notify>,
}

impl ShutdownHandle {
    /// Makes the daemon recreate a removed socket.
    pub fn listen_again(&self) {
        self.listen_again.notify_one();
    }

    /// Waits until a request to stop the daemon arrives.
    pub async fn wait_until_stopped(&self) {
        // An unreachable daemon has stopped.
        let _ = self.stop.subscribe().wait_for(Option::is_some).await;
    }

    /// Requests the daemon to stop.
    pub fn stop(&self, mode: ShutdownMode) {
        self.stop.send_replace(Some(mode));
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn only_a_damaged_journal_is_to_be_moved() {
        let advice = |cause: StorageError| journal_advice(&OpenError::Storage { path: PathBuf::new(), cause });
        let cause = || Box::new(io::Error::other("x"));
        assert!(advice(StorageError::Damaged(cause())).contains("move the file:"));
        for cause in [StorageError::Full(cause()), StorageError::Failed(cause())] {
            assert!(advice(cause).contains("do not move the file"));
        }
        assert!(!advice(StorageError::ReadOnly(cause())).contains("move the file:"));
    }
}
