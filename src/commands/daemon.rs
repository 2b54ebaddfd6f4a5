//! `steplatch daemon …`: start, stop and status of the daemon.

pub(crate) mod unit;

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use clap::Subcommand;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use steplatch_daemon::{Clock, Options, ShutdownMode, Substitutes, WorkerStarter};
use steplatch_host::{Hosts, Role, START_TIME, Starter};
use steplatch_protocol::{
    CallError, Client, ConnectError, DaemonPaths, DaemonStatus, DaemonStatusReply, StopDaemon, StopDaemonReply,
    connect, ensure_private, host_advice,
};
use steplatch_terminal::TERMINAL_VARIABLE;
use tokio::signal::unix::{SignalKind, signal};

use super::host;
use crate::failure::{FAILED, Failure};
use crate::settings::Settings;
use crate::settings::reload::Reload;
use crate::{daemon_client, page_server, print};

#[derive(Debug, Subcommand)]
pub(crate) enum Daemon {
    /// Start the daemon if it is not running
    Start {
        /// Stay in the foreground and log to standard error
        #[arg(long)]
        foreground: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Stop the daemon and close its terminals
    Stop {
        /// Leave the terminals open for the next daemon
        #[arg(long)]
        keep_terminals: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Restart the daemon; its terminals stay open
    Restart {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show daemon status
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Start the daemon at login, as a service of systemd
    Enable {
        /// Print the unit, and write nothing
        #[arg(long, conflicts_with = "json")]
        print: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove the service that 'enable' has written; terminals stay open
    Disable {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run as the daemon that `start` starts
    #[command(hide = true)]
    Serve,
    /// Run as the terminal host, which the daemon starts with a listening socket as standard input
    #[command(hide = true)]
    Host {
        /// Keep the terminals of this client on a remote computer instead
        #[arg(long, value_name = "CLIENT")]
        hosted: Option<String>,
    },
}

impl Daemon {
    /// Returns whether this process serves many clients, rather than sending requests for one.
    pub(super) fn serves_many_clients(&self) -> bool {
        matches!(self, Self::Serve | Self::Host { .. } | Self::Start { foreground: true, .. })
    }

    pub(super) async fn run(self, paths: DaemonPaths) -> Result<ExitCode, Failure> {
        match self {
            Self::Start { foreground: true, .. } => serve(paths, Detached::No).await,
            Self::Start { json, .. } => start(&paths, json).await,
            Self::Stop { keep_terminals, json } => stop(&paths, keep_terminals, json).await,
            Self::Restart { json } => restart(&paths, json).await,
            Self::Enable { print, json } => unit::enable(&paths, print, json),
            Self::Disable { json } => unit::disable(json),
            Self::Host { hosted: None } => host::serve_terminals(&paths).await,
            Self::Host { hosted: Some(client) } => host::serve_terminals(&host::hosted_paths(&client)?).await,
            Self::Status { json } => status(&paths, json).await,
            Self::Serve => serve(paths, Detached::Yes).await,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detached {
    Yes,
    No,
}

/// The message that the daemon prints on standard output once it listens.
const READY_MESSAGE: &str = "ready";

/// Maximum number of attempts to start a daemon, if another process stops it before it replies.
const MAX_START_ATTEMPTS: usize = 3;

async fn start(paths: &DaemonPaths, json: bool) -> Result<ExitCode, Failure> {
    // Several clients may find no daemon at the same time. The first client starts a daemon, and the others then find
    // it.
    let _lock = lock_start(paths).await?;
    let mut attempts = 0;
    let (started, status) = loop {
        attempts += 1;
        match ensure_started(paths).await? {
            Ok(result) => break result,
            Err(_) if attempts < MAX_START_ATTEMPTS => {}
            Err(lost) => return Err(lost),
        }
    };
    if json {
        print::json(&status)?;
    } else {
        let outcome = if started { "started" } else { "already running" };
        print::line(format!("daemon {outcome}: pid {}, socket {}", status.pid, status.socket))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts the daemon unless it is running, and requests the status of the daemon. The flag is true if this call started
/// the daemon. The inner error means that the daemon exited in the meantime.
async fn ensure_started(paths: &DaemonPaths) -> Result<Result<(bool, DaemonStatusReply), Failure>, Failure> {
    let hello = daemon_client::hello("steplatch");
    let was_started = match connect(paths, hello.clone()).await {
        Ok(_) => false,
        // A daemon that closes the connection is about to end.
        Err(ConnectError::NotRunning(_) | ConnectError::HungUp(_)) => {
            wait_for_predecessor(paths).await?;
            let must_start = connect(paths, hello.clone()).await.is_err();
            if must_start {
                spawn(paths)?;
            }
            must_start
        }
        Err(error) => return Err(error.into()),
    };
    let client = match connect(paths, hello).await {
        Ok((client, _)) => client,
        Err(lost @ (ConnectError::NotRunning(_) | ConnectError::HungUp(_))) => return Ok(Err(lost.into())),
        Err(error) => return Err(error.into()),
    };
    match client.call(DaemonStatus {}).await {
        Ok(status) => Ok(Ok((was_started, status))),
        Err(lost @ CallError::Lost) => Ok(Err(lost.into())),
        Err(error) => Err(error.into()),
    }
}

/// Waits for the exit of a daemon that no longer listens, but still holds the lock of its state directory.
async fn wait_for_predecessor(paths: &DaemonPaths) -> Result<(), Failure> {
    let Some(running) = paths.running().filter(|_| paths.is_locked()) else { return Ok(()) };
    let process = Pid::from_raw(running.pid.cast_signed()).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let Some(process) = process else { return Ok(()) };
    // The daemon may run without its socket, for example after a logout that removed the runtime directory.
    if pidfd_send_signal(&process, Signal::USR1).is_ok() {
        for _ in 0..100 {
            if connect(paths, daemon_client::hello("steplatch")).await.is_ok() {
                return Ok(());
            }
            if has_exited(&process) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    wait_for_exit(running.pid, process).await
}

/// Returns whether a process has exited.
fn has_exited(process: &OwnedFd) -> bool {
    const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&NO_WAIT)), Ok(1..))
}

/// Locks the start of daemons for this state directory and waits while another client holds the lock. Closing the
/// file releases the lock.
async fn lock_start(paths: &DaemonPaths) -> Result<std::fs::File, Failure> {
    ensure_private(paths.state()).map_err(|error| Failure::work(error.to_string()))?;
    let path = paths.state().join("start.lock");
    let lock_task = tokio::task::spawn_blocking(move || {
        let file = OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok::<_, io::Error>(file)
    });
    lock_task
        .await
        .map_err(io::Error::other)?
        .map_err(|error| Failure::system("the state directory cannot be locked", &error))
}

/// Value of [`TERMINAL_VARIABLE`] in the environment of a daemon.
const DAEMON_TERMINAL: &str = "daemon";

/// Starts a daemon in its own session and waits until the daemon listens, or returns the daemon's error.
fn spawn(paths: &DaemonPaths) -> Result<(), Failure> {
    paths.ensure_runtime().map_err(|error| Failure::work(error.to_string()))?;
    let start_error = |error: io::Error| Failure::system("the daemon could not be started", &error);
    let mut daemon = std::process::Command::new(daemon_client::starter()?.program)
        .args(["daemon", "serve", "--state-dir"])
        .arg(paths.state())
        .current_dir("/")
        // The daemon belongs to no terminal, even if it starts within one. This value makes every daemon treat the
        // descendants of this daemon as programs, not as a person.
        .env(TERMINAL_VARIABLE, DAEMON_TERMINAL)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start_error)?;
    let (stdout, stderr) = (daemon.stdout.take(), daemon.stderr.take());
    let mut line = String::new();
    if let Some(stdout) = stdout {
        io::BufReader::new(stdout).read_line(&mut line).map_err(start_error)?;
    }
    if line.trim() == READY_MESSAGE {
        return Ok(());
    }
    // The daemon has closed standard output without the message, so it has failed: read its error.
    let mut error_text = String::new();
    if let Some(stderr) = stderr {
        stderr.take(64 * 1024).read_to_string(&mut error_text).map_err(start_error)?;
    }
    let error_text = error_text.trim().trim_start_matches("error: ");
    Err(Failure::work(if error_text.is_empty() { "the daemon exited before it was ready" } else { error_text }))
}

async fn stop(paths: &DaemonPaths, keep_terminals: bool, json: bool) -> Result<ExitCode, Failure> {
    let client = match connect(paths, daemon_client::hello("steplatch")).await {
        Ok((client, _)) => client,
        // The terminal hosts of a killed daemon still run.
        Err(ConnectError::NotRunning(_)) if !keep_terminals && close_orphans_and_report(paths, json).await? => {
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => return Err(error.into()),
    };
    let reply = stop_and_wait(&client, keep_terminals).await?;
    if json {
        print::json(&reply)?;
    } else {
        let terminals = match (reply.terminals, keep_terminals) {
            (0, _) => String::new(),
            (1, false) => ", and its terminal was closed".to_owned(),
            (many, false) => format!(", and its {many} terminals were closed"),
            (1, true) => "; its terminal stays open".to_owned(),
            (many, true) => format!("; its {many} terminals stay open"),
        };
        let remote_terminals = match reply.remote_terminals {
            0 => String::new(),
            1 => "; 1 terminal on a remote host stays open".to_owned(),
            many => format!("; {many} terminals on remote hosts stay open"),
        };
        let runs = match reply.runs {
            0 => "",
            1 => "; its run continues when it starts again, unless it needs a closed terminal",
            _ => "; its runs continue when it starts again, unless they need a closed terminal",
        };
        print::line(format!("daemon stopped: pid {}{terminals}{remote_terminals}{runs}", reply.pid))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Stops the daemon, if it runs, and closes all local terminals.
pub(super) async fn stop_all(paths: &DaemonPaths) -> Result<(), Failure> {
    match connect(paths, daemon_client::hello("steplatch")).await {
        Ok((client, _)) => stop_and_wait(&client, false).await.map(drop),
        Err(ConnectError::NotRunning(_)) => close_orphans(paths).await.map(drop),
        Err(error) => Err(error.into()),
    }
}

/// Closes the terminals of hosts without a daemon and prints the number of terminals. Returns whether there were any
/// hosts.
async fn close_orphans_and_report(paths: &DaemonPaths, json: bool) -> Result<bool, Failure> {
    let Some(terminals) = close_orphans(paths).await? else { return Ok(false) };
    if json {
        print::json(&serde_json::json!({"pid": null, "terminals": terminals}))?;
    } else {
        print::line(format!("no daemon was running; closed terminals of an earlier one: {terminals}"))?;
    }
    Ok(true)
}

/// Closes the terminals of hosts without a daemon. Returns the number of terminals, or `None` without a host.
async fn close_orphans(paths: &DaemonPaths) -> Result<Option<usize>, Failure> {
    let Ok(hosts) = Hosts::find(
        Role::Visitor,
        paths.runtime(),
        paths.state(),
        host_starter(paths)?,
        env!("CARGO_PKG_VERSION"),
        drop,
    )
    .await
    else {
        return Ok(None);
    };
    let statuses = hosts.status().await;
    hosts.shut_down().await;
    let terminals = statuses.iter().map(|host| host.terminals).sum();
    Ok((!statuses.is_empty()).then_some(terminals))
}

async fn restart(paths: &DaemonPaths, json: bool) -> Result<ExitCode, Failure> {
    match daemon_client::running(paths).await {
        Ok(client) => {
            stop_and_wait(&client, true).await?;
        }
        Err(_) if connect(paths, daemon_client::hello("steplatch")).await.is_err_and(is_absent) => {}
        Err(error) => return Err(error),
    }
    start(paths, json).await
}

fn is_absent(error: ConnectError) -> bool {
    matches!(error, ConnectError::NotRunning(_))
}

/// Requests the daemon to stop and waits until its process has exited.
async fn stop_and_wait(client: &Client, keep_terminals: bool) -> Result<StopDaemonReply, Failure> {
    let status = client.call(DaemonStatus {}).await?;
    // Open the processes before the request, because their ids may be reused afterwards.
    let open_process = |pid: u32| Some((pid, pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).ok()?));
    let process = open_process(status.pid);
    let hosts: Vec<_> = status.hosts.iter().filter_map(|host| open_process(host.pid)).collect();
    let reply = client.call(StopDaemon { keep_terminals }).await?;
    if let Some((pid, process)) = process {
        wait_for_exit(pid, process).await?;
    }
    if !keep_terminals {
        wait_for_hosts(hosts).await?;
    }
    Ok(reply)
}

/// Waits for the exit of terminal hosts. Fails if one keeps running.
async fn wait_for_hosts(hosts: Vec<(u32, OwnedFd)>) -> Result<(), Failure> {
    /// Maximum wait for the exit of a host.
    const EXIT_TIMEOUT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
    let remaining = tokio::task::spawn_blocking(move || {
        let is_running = |process: &OwnedFd| {
            !matches!(poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&EXIT_TIMEOUT)), Ok(1..))
        };
        hosts.iter().filter(|(_, process)| is_running(process)).map(|(pid, _)| pid.to_string()).collect::<Vec<_>>()
    });
    match remaining.await.map_err(io::Error::other)?.as_slice() {
        [] => Ok(()),
        pids => Err(Failure::work(format!(
            "the daemon has ended, but its terminal host (pid {}) has not: its terminals are still open; end it with: kill {}",
            pids.join(", "),
            pids.join(" ")
        ))),
    }
}

/// Waits until a process has exited. Its descriptor is readable then, see pidfd_open(2).
async fn wait_for_exit(pid: u32, process: OwnedFd) -> Result<(), Failure> {
    const EXIT_TIMEOUT: Timespec = Timespec { tv_sec: STOP_TIMEOUT.as_secs().cast_signed() + 5, tv_nsec: 0 };
    let poll_result =
        tokio::task::spawn_blocking(move || poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&EXIT_TIMEOUT)));
    match poll_result.await.map_err(io::Error::other)?.map_err(io::Error::from)? {
        0 => Err(Failure::work(format!(
            "the daemon (pid {pid}) has not ended yet; check again with: steplatch daemon status"
        ))),
        _ => Ok(()),
    }
}

async fn status(paths: &DaemonPaths, json: bool) -> Result<ExitCode, Failure> {
    let client = match connect(paths, daemon_client::hello("steplatch")).await {
        Ok((client, _)) => client,
        Err(error @ ConnectError::NotRunning(_)) => {
            if json {
                let reply = serde_json::json!({"running": false, "state_dir": paths.state()});
                return Err(Failure::work(error.to_string()).with(&reply));
            }
            // Without a daemon, the error message is the output of this command.
            print::line(error)?;
            return Ok(ExitCode::from(FAILED));
        }
        Err(error) => return Err(error.into()),
    };
    let status = client.call(DaemonStatus {}).await?;
    if json {
        print::json(&status)?;
    } else {
        print::line(status_text(&status))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn status_text(status: &DaemonStatusReply) -> String {
    let rows = [
        ("daemon", format!("pid {}, version {}, protocol {}", status.pid, status.version, status.protocol_version)),
        ("socket", status.socket.clone()),
        ("state", status.state_dir.clone()),
        ("uptime", print::duration(std::time::Duration::from_secs_f64(status.uptime_seconds))),
        ("terminals", status.terminals.to_string()),
        ("runs", status.runs.to_string()),
        ("clients", status.clients.to_string()),
    ];
    let hosts = status.hosts.iter().map(|host| {
        // The client chooses the text, because older daemons send none.
        let state = host_advice(&host.state).map(|advice| format!(", {advice}")).unwrap_or_default();
        vec!["host".to_owned(), format!("pid {}, version {}, {} open{state}", host.pid, host.version, host.terminals)]
    });
    let rows = rows.map(|(name, value)| vec![name.to_owned(), value]).into_iter().chain(hosts);
    print::table(&rows.collect::<Vec<_>>())
}

/// Runs the daemon until it stops.
async fn serve(paths: DaemonPaths, detached: Detached) -> Result<ExitCode, Failure> {
    if detached == Detached::Yes {
        // The daemon must survive the terminal that started it. Ignore a failure, because it is already a session
        // leader.
        let _ = rustix::process::setsid();
    }
    // Check the settings here, where errors are visible, because the host process cannot print them.
    let settings = Settings::load().map_err(|error| Failure::usage(error.to_string()))?;
    for unknown in &settings.unknown {
        tracing::warn!("{unknown}");
    }
    let log = paths.log();
    let page = settings.serves_with_daemon().then(|| paths.clone());
    let host = host_starter(&paths)?;
    let workers =
        WorkerStarter::Program { program: daemon_client::starter()?.program, arguments: vec!["worker".into()] };
    print::set_log_filter(settings.log());
    let runs = settings.runs();
    let (settings_sender, configuration) = tokio::sync::watch::channel(settings.configuration());
    let daemon = steplatch_daemon::Daemon::start(Options {
        paths,
        host,
        workers,
        runs,
        configuration,
        clock: Clock::system(),
        substitutes: Substitutes::default(),
    })
    .await
    .map_err(|error| Failure::work(error.to_string()))?;
    enforce_end(daemon.stopper());
    let stopper = daemon.stopper();
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    // A daemon has no controlling terminal; SIGHUP reloads the settings instead of ending it.
    let mut hung_up = signal(SignalKind::hangup())?;
    let mut listen_requests = signal(SignalKind::user_defined1())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminated.recv() => break,
                _ = interrupted.recv() => break,
                // A client has not found the socket of this daemon.
                _ = listen_requests.recv() => stopper.listen_again(),
            }
        }
        // Only `daemon stop` also closes the terminals.
        stopper.stop(ShutdownMode::KeepTerminals);
    });
    tokio::spawn(Reload::new(settings, settings_sender).apply_changes(async move || _ = hung_up.recv().await));
    match detached {
        Detached::No => print::remark("the daemon listens; end it with ctrl-c"),
        Detached::Yes => {
            print::line(READY_MESSAGE)?;
            io::stdout().flush()?;
            log_to(&log)?;
        }
    }
    if let Some(paths) = page {
        tokio::spawn(page_server::start_with_daemon(paths));
    }
    daemon.serve().await.map_err(|error| Failure::system("the daemon cannot accept clients", &error))?;
    Ok(ExitCode::SUCCESS)
}

/// Maximum time for a daemon to stop. The limits of runs, nodes and terminals are shorter.
const STOP_TIMEOUT: Duration = Duration::from_secs(25);

/// Time to write the reason to the log. A blocked log may be the reason that the daemon has not stopped.
const LOG_TIMEOUT: Duration = Duration::from_secs(1);

/// Ends this process if the daemon has not stopped in time.
fn enforce_end(stopper: steplatch_daemon::ShutdownHandle) {
    end_after(STOP_TIMEOUT, async move { stopper.wait_until_stopped().await }, || {
        std::thread::spawn(|| {
            tracing::error!(
                "the daemon did not end within {} s and is killed; the next one finds the remaining terminals and runs",
                STOP_TIMEOUT.as_secs()
            );
        });
        std::thread::sleep(LOG_TIMEOUT);
        std::process::exit(1);
    });
}

/// Calls `end` after `time`, counted from the request to stop. Uses its own thread, because the threads of the runtime
/// may be blocked.
fn end_after(time: Duration, stopped: impl Future<Output = ()> + Send + 'static, end: impl FnOnce() + Send + 'static) {
    let runtime = tokio::runtime::Handle::current();
    std::thread::spawn(move || {
        runtime.block_on(stopped);
        std::thread::sleep(time);
        end();
    });
}

/// Returns the command that starts a terminal host: this program.
fn host_starter(paths: &DaemonPaths) -> Result<Starter, Failure> {
    let arguments = ["daemon", "host", "--state-dir"].map(OsString::from).into_iter();
    Ok(Starter::Program {
        program: daemon_client::starter()?.program,
        arguments: arguments.chain([paths.state().as_os_str().to_owned()]).collect(),
        fallback: None,
        log: paths.host_log(),
        start_time: START_TIME,
    })
}

/// Redirects standard output and standard error to the log and truncates it.
fn log_to(path: &std::path::Path) -> io::Result<()> {
    let log = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(path)?;
    rustix::stdio::dup2_stdout(&log)?;
    rustix::stdio::dup2_stderr(&log)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn stuck_daemon_is_ended_despite_busy_threads() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (ended, end) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        runtime.spawn(async move {
            end_after(Duration::from_millis(50), async move { drop(stopped.await) }, move || ended.send(()).unwrap());
            // It occupies the only thread of the runtime.
            let _ = released.recv();
        });
        assert!(
            end.recv_timeout(Duration::from_millis(500)).is_err(),
            "the daemon is not ended before the request to stop"
        );
        stop.send(()).unwrap();
        end.recv_timeout(Duration::from_secs(60)).unwrap();
        release.send(()).unwrap();
    }
}
