//! The server of the page for a state directory: the record of the server, and its start in the background.
//!
//! Owns the file `serve.lock` in the runtime directory. The server holds the lock on the file (flock(2)) while it runs,
//! so that no browser opens the address of a server that has exited. Another user's program may listen there.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use steplatch_protocol::{DaemonPaths, PageServerRecord};

use crate::daemon_client;
use crate::failure::Failure;

/// Port of the page, unless it is in use or the last server had another port.
const DEFAULT_PORT: u16 = 7878;

/// Maximum time for a server to listen, or to exit.
const SERVER_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between two reads of the file.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of attempts of a server to lock the record.
const MAX_ATTEMPTS: usize = 5;

/// The lock of the page's server, held while it runs.
#[derive(Debug)]
pub(crate) struct ServerLock(File);

impl Drop for ServerLock {
    fn drop(&mut self) {
        // Closing is not enough, because a forked child holds the same lock until its `exec`.
        let _ = self.0.unlock();
    }
}

fn record_file(paths: &DaemonPaths) -> PathBuf {
    PageServerRecord::file(paths.runtime())
}

fn open_record(paths: &DaemonPaths) -> Result<File, Failure> {
    paths.ensure_runtime().map_err(|error| Failure::work(error.to_string()))?;
    let open =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(record_file(paths));
    open.map_err(|error| record_failure(&error))
}

fn record_failure(error: &io::Error) -> Failure {
    Failure::system("the record of the page's server cannot be used", error)
}

/// Makes this process the server of the page. `None` if another server runs. Retries, because commands that look for
/// the server hold the lock briefly.
pub(crate) async fn acquire(paths: &DaemonPaths) -> Result<Option<ServerLock>, Failure> {
    for _ in 0..MAX_ATTEMPTS {
        if let Some(lock) = try_lock(paths)? {
            return Ok(Some(lock));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(None)
}

fn try_lock(paths: &DaemonPaths) -> Result<Option<ServerLock>, Failure> {
    let file = open_record(paths)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(ServerLock(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(record_failure(&error)),
    }
}

impl ServerLock {
    /// Records that this process serves the page at `port`.
    pub(crate) fn record(&mut self, port: u16) -> Result<(), Failure> {
        let pid = Pid::as_raw(Some(rustix::process::getpid()));
        let record = PageServerRecord { pid, port, version: env!("CARGO_PKG_VERSION").to_owned() };
        let result = serde_json::to_string(&record).map_err(io::Error::other).and_then(|text| {
            self.0.set_len(0)?;
            self.0.rewind()?;
            self.0.write_all(text.as_bytes())
        });
        result.map_err(|error| record_failure(&error))
    }
}

/// Returns the server of the page, if one runs.
pub(crate) async fn running(paths: &DaemonPaths) -> Result<Option<PageServerRecord>, Failure> {
    let deadline = tokio::time::Instant::now() + SERVER_TIMEOUT;
    loop {
        if try_lock(paths)?.is_some() {
            return Ok(None);
        }
        // A server that has just started writes its record once it listens.
        if let Some(record) = PageServerRecord::last(paths.runtime()).filter(|record| is_alive(record.pid)) {
            return Ok(Some(record));
        }
        if tokio::time::Instant::now() > deadline {
            return Err(Failure::work("the server of the page does not start; end it with: steplatch serve stop"));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn is_alive(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

/// The running server of the page.
#[derive(Debug)]
pub(crate) struct RunningServer {
    /// Record of the server.
    pub(crate) record: PageServerRecord,
    /// Error that made a new server listen at another port.
    pub(crate) port_error: Option<Failure>,
}

/// Returns the server of the page and starts one in the background if none runs. Replaces a server of another version.
/// If the port is in use, the new server listens at a free port.
pub(crate) async fn ensure_running(paths: &DaemonPaths) -> Result<RunningServer, Failure> {
    match running(paths).await? {
        Some(record) if record.version == env!("CARGO_PKG_VERSION") => {
            return Ok(RunningServer { record, port_error: None });
        }
        Some(_) => {
            stop(paths).await?;
        }
        None => {}
    }
    // Keep the port, because sessions and bookmarks of browsers depend on it.
    let last_port = PageServerRecord::last(paths.runtime()).map_or(DEFAULT_PORT, |record| record.port);
    let end_failure = || Failure::work("the server of the page exited; start it with: steplatch serve");
    let spawn_result = spawn(paths, last_port).await;
    match (spawn_result, running(paths).await?) {
        (_, Some(record)) => Ok(RunningServer { record, port_error: None }),
        (Ok(()), None) => Err(end_failure()),
        (Err(failure), None) => {
            // Another program uses the port: listen at a free one.
            spawn(paths, 0).await?;
            let record = running(paths).await?.ok_or_else(end_failure)?;
            Ok(RunningServer { record, port_error: Some(failure) })
        }
    }
}

/// Starts the server of the page together with the daemon and logs the address. A failure is logged and does not end
/// the daemon.
pub(crate) async fn start_with_daemon(paths: DaemonPaths) {
    match ensure_running(&paths).await {
        Ok(RunningServer { record, port_error: None }) => tracing::info!("the page is at {}", record.url()),
        Ok(RunningServer { record, port_error: Some(failure) }) => {
            tracing::warn!("the page is at {}: {}", record.url(), failure.message());
        }
        Err(failure) => tracing::warn!("the page is not served: {}", failure.message()),
    }
}

/// Stops the server of the page. Returns its record, or `None` if no server runs.
pub(crate) async fn stop(paths: &DaemonPaths) -> Result<Option<PageServerRecord>, Failure> {
    let Some(record) = running(paths).await? else { return Ok(None) };
    if let Some(pid) = Pid::from_raw(record.pid) {
        kill_process(pid, Signal::TERM)
            .map_err(|error| Failure::system("the server cannot be ended", &error.into()))?;
    }
    let deadline = tokio::time::Instant::now() + SERVER_TIMEOUT;
    while try_lock(paths)?.is_none() {
        if tokio::time::Instant::now() > deadline {
            return Err(Failure::work(format!("the server (pid {}) did not exit", record.pid)));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(Some(record))
}

/// Starts a server in its own session and waits until the server listens, or returns the server's error.
async fn spawn(paths: &DaemonPaths, port: u16) -> Result<(), Failure> {
    let start_error = |error: io::Error| Failure::system("the server of the page could not be started", &error);
    let mut command = std::process::Command::new(daemon_client::starter()?.program);
    command.args(["serve", "--detached", "--json", "--port", &port.to_string(), "--state-dir"]).arg(paths.state());
    // Programs started from the page begin in the home directory.
    command.current_dir(std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir()).unwrap_or("/".into()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let start_task = tokio::task::spawn_blocking(move || {
        let mut server = command.spawn()?;
        let mut line = String::new();
        if let Some(stdout) = server.stdout.take() {
            io::BufReader::new(stdout).read_line(&mut line)?;
        }
        Ok(line)
    });
    let line = start_task.await.map_err(io::Error::other).map_err(start_error)?.map_err(start_error)?;
    let reply: Value = serde_json::from_str(&line).unwrap_or_default();
    match reply["success"] == true {
        true => Ok(()),
        false => {
            let error = reply["error"].as_str().unwrap_or("the server of the page exited before it was ready");
            Err(Failure::work(error))
        }
    }
}
