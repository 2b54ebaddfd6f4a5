//! The terminal host, a process that keeps terminals for a daemon, and the relay that connects a remote daemon to a
//! host here.

use std::ffi::OsString;
use std::io::BufReader;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use steplatch_host::{Identity, Relay, Starter, serve};
use steplatch_protocol::DaemonPaths;
use steplatch_terminal::{Integration, Options, Terminals};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::daemon_client;
use crate::failure::Failure;
use crate::settings::Settings;

/// Relay a connection between a daemon on a remote computer and its terminal host here
#[derive(Debug, clap::Args)]
pub(crate) struct HostRelay {
    /// Use standard input and output
    #[arg(long, required = true)]
    stdio: bool,
    /// Name of the client
    #[arg(long)]
    client: String,
}

impl HostRelay {
    /// Serves the connection until one side closes it.
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let paths = hosted_paths(&self.client)?;
        paths.ensure_runtime().map_err(|error| Failure::work(error.to_string()))?;
        let relay = Relay {
            directory: paths.runtime().to_owned(),
            starter: hosted_starter(&paths, &self.client)?,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let served = relay.serve(BufReader::new(std::io::stdin()), std::io::stdout()).await;
        served.map_err(|error| Failure::work(error.to_string()))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the paths of the host that belongs to a client on a remote computer.
pub(super) fn hosted_paths(client: &str) -> Result<DaemonPaths, Failure> {
    DaemonPaths::hosted(client).map_err(|error| Failure::usage(error.to_string()))
}

/// Maximum time for the start of a host through a login shell. The shell first runs the user's profile.
const LOGIN_START_TIMEOUT: Duration = Duration::from_secs(30);

/// Login shells that take a command with `-c`.
const LOGIN_SHELLS: [&str; 8] = ["ash", "bash", "dash", "fish", "ksh", "mksh", "sh", "zsh"];

/// Returns the command that starts a host for a client on a remote computer. The command uses the user's login shell,
/// so that the terminals have the environment of a login and not of an ssh command.
fn hosted_starter(paths: &DaemonPaths, client: &str) -> Result<Starter, Failure> {
    let program = daemon_client::starter()?.program;
    let host = ["daemon", "host", "--hosted", client].map(OsString::from);
    let (log, start_time) = (paths.host_log(), LOGIN_START_TIMEOUT);
    Ok(match login_shell() {
        Some((shell, script)) => {
            let login = ["-l".into(), "-c".into(), OsString::from(script), program.clone().into_os_string()];
            let arguments = login.into_iter().chain(host.clone()).collect();
            // A startup file may replace the login shell (exec fish -l).
            let fallback = Some((program, host.into()));
            Starter::Program { program: shell, arguments, fallback, log, start_time }
        }
        None => Starter::Program { program, arguments: host.into(), fallback: None, log, start_time },
    })
}

/// Returns the user's login shell, and a script that makes it execute its arguments as a program.
fn login_shell() -> Option<(PathBuf, &'static str)> {
    let shell = PathBuf::from(std::env::var_os("SHELL")?);
    let name = shell.file_name()?.to_str()?.to_owned();
    if !LOGIN_SHELLS.contains(&name.as_str()) || !Path::new(&shell).is_absolute() {
        return None;
    }
    let script = if name == "fish" { "exec $argv" } else { r#"exec "$0" "$@""# };
    Some((shell, script))
}

/// Keeps terminals for clients of the socket on standard input. Ends once there are neither terminals nor clients.
pub(super) async fn serve_terminals(paths: &DaemonPaths) -> Result<ExitCode, Failure> {
    // The host must survive the terminal that started the daemon. Ignore a failure, because it is already a session
    // leader.
    let _ = rustix::process::setsid();
    let to_failure = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| Failure::system(&what, &error)
    };
    let listener =
        take_listener().map_err(to_failure("only the daemon starts this command, with a socket as standard input"))?;
    let descriptors = raise_descriptor_limit();
    let integration =
        Integration::install(&paths.shell()).map_err(to_failure("the shell integration cannot be written"))?;
    let settings = Settings::load().map_err(|error| Failure::usage(error.to_string()))?;
    let options = Options {
        adopt_orphans: true,
        // Do not store histories in the runtime directory, because it is usually in memory.
        history_directory: Some(paths.state().to_owned()),
        integration: Some(integration),
        descriptors,
        ..settings.terminals()
    };
    let terminals = Terminals::new(options).map_err(to_failure("the terminal host could not start"))?;
    let identity = Identity { version: env!("CARGO_PKG_VERSION").to_owned() };
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut hung_up = signal(SignalKind::hangup())?;
    let mut listen_requests = signal(SignalKind::user_defined1())?;
    let listen_again = Arc::new(Notify::new());
    let listen_notify = listen_again.clone();
    let end_requested = async {
        loop {
            tokio::select! {
                _ = terminated.recv() => break,
                _ = interrupted.recv() => break,
                // The host has no controlling terminal.
                _ = hung_up.recv() => {}
                // A daemon has not found the host's socket.
                _ = listen_requests.recv() => listen_notify.notify_one(),
            }
        }
    };
    tokio::select! {
        served = serve(listener, terminals.clone(), identity, listen_again) => {
            served.map_err(to_failure("the terminal host cannot accept connections"))?;
        }
        () = end_requested => terminals.close_all().await,
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes the listening socket from standard input and replaces standard input by `/dev/null`.
fn take_listener() -> std::io::Result<UnixListener> {
    let socket = std::os::unix::net::UnixListener::from(rustix::stdio::stdin().as_fd().try_clone_to_owned()?);
    // Fail if standard input is not a socket.
    socket.local_addr()?;
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    socket.set_nonblocking(true)?;
    UnixListener::from_std(socket)
}

/// Raises the limit of descriptors: each terminal takes two or three, and the usual limit is 1,024. Returns the
/// previous limit for the programs in the terminals, because some of these programs iterate over all descriptors up to
/// the limit.
fn raise_descriptor_limit() -> Option<u64> {
    let previous = getrlimit(Resource::Nofile);
    let mut raised = getrlimit(Resource::Nofile);
    raised.current = raised.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files could not be raised");
        return None;
    }
    previous.current
}
