//! The server that has the page of a state directory: which one it is, and its start in the background.
//!
//! Owns the file `serve.lock` of the runtime directory. The server holds its lock (flock(2)) as long as it runs, so
//! that no browser opens the address of an ended server: another user's program may listen there.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use steplatch_protocol::{DaemonPaths, PageServerRecord, ensure_private};

use crate::failure::Failure;
use crate::front;

/// Port of the page, unless another program has it or the last page had another port.
const USUAL_PORT: u16 = 7878;

/// Time that a server may take to listen, or to end.
const SERVER_TIMEOUT: Duration = Duration::from_secs(10);

/// The time between two looks at the file.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Number of attempts of a server to become the owner of the page.
const MAX_ATTEMPTS: usize = 5;

/// The place of the server of the page, held while it runs.
#[derive(Debug)]
pub(crate) struct ServerLock(File);

impl Drop for ServerLock {
    fn drop(&mut self) {
        // A forked child that has not reached its `exec` holds the same lock, so closing is not enough.
        let _ = self.0.unlock();
    }
}

fn file(place: &DaemonPaths) -> PathBuf {
    PageServerRecord::file(place.runtime())
}

fn opened(place: &DaemonPaths) -> Result<File, Failure> {
    ensure_private(place.runtime()).map_err(|error| Failure::work(error.to_string()))?;
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(file(place));
    open.map_err(|error| failed(&error))
}

fn failed(error: &io::Error) -> Failure {
    Failure::system("the record of the page's server cannot be used", error)
}

/// Becomes the server of the page. `None` if there is one. Retries for a short time, because commands that look for the
/// server hold the lock for a moment.
pub(crate) async fn acquire(place: &DaemonPaths) -> Result<Option<ServerLock>, Failure> {
    for _ in 0..MAX_ATTEMPTS {
        if let Some(lock) = locked(place)? {
            return Ok(Some(lock));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(None)
}

fn locked(place: &DaemonPaths) -> Result<Option<ServerLock>, Failure> {
    let file = opened(place)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(ServerLock(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(failed(&error)),
    }
}

impl ServerLock {
    /// Records that this process serves the page at `port`.
    pub(crate) fn record(&mut self, port: u16) -> Result<(), Failure> {
        let pid = Pid::as_raw(Some(rustix::process::getpid()));
        let record = PageServerRecord { pid, port, version: env!("CARGO_PKG_VERSION").to_owned() };
        let written = serde_json::to_string(&record).map_err(io::Error::other).and_then(|text| {
            self.0.set_len(0)?;
            self.0.rewind()?;
            self.0.write_all(text.as_bytes())
        });
        written.map_err(|error| failed(&error))
    }
}

/// Returns the server of the page, if one runs.
pub(crate) async fn running(place: &DaemonPaths) -> Result<Option<PageServerRecord>, Failure> {
    let end = tokio::time::Instant::now() + SERVER_TIMEOUT;
    loop {
        if locked(place)?.is_some() {
            return Ok(None);
        }
        // A server that has just started writes its record once it listens.
        if let Some(record) = PageServerRecord::last(place.runtime()).filter(|record| is_alive(record.pid)) {
            return Ok(Some(record));
        }
        if tokio::time::Instant::now() > end {
            return Err(Failure::work("the server of the page does not come up; end it with: steplatch serve stop"));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn is_alive(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

/// The server of the page, an earlier or a new one.
#[derive(Debug)]
pub(crate) struct RunningServer {
    /// The server.
    pub(crate) record: PageServerRecord,
    /// Reason of a new server for not listening at the usual port.
    pub(crate) elsewhere: Option<Failure>,
}

/// Returns the server of the page, and starts one in the background if none runs. Replaces a server of another version.
/// If the usual port is taken, that is not an error: the server listens at a free one.
pub(crate) async fn running_or_started(place: &DaemonPaths) -> Result<RunningServer, Failure> {
    match running(place).await? {
        Some(record) if record.version == env!("CARGO_PKG_VERSION") => {
            return Ok(RunningServer { record, elsewhere: None });
        }
        Some(_) => {
            stop(place).await?;
        }
        None => {}
    }
    // The same port again: a browser keeps its session and its bookmarks for one.
    let usual = PageServerRecord::last(place.runtime()).map_or(USUAL_PORT, |record| record.port);
    let ended = || Failure::work("the server of the page ended; start it with: steplatch serve");
    let started = spawn(place, usual).await;
    match (started, running(place).await?) {
        (_, Some(record)) => Ok(RunningServer { record, elsewhere: None }),
        (Ok(()), None) => Err(ended()),
        (Err(failure), None) => {
            // Another program has the usual port.
            spawn(place, 0).await?;
            let record = running(place).await?.ok_or_else(ended)?;
            Ok(RunningServer { record, elsewhere: Some(failure) })
        }
    }
}

/// Starts the server of the page as the daemon starts, and logs where it is. A failure ends no daemon.
pub(crate) async fn start_with_daemon(place: DaemonPaths) {
    match running_or_started(&place).await {
        Ok(RunningServer { record, elsewhere: None }) => tracing::info!("the page is at {}", record.url()),
        Ok(RunningServer { record, elsewhere: Some(failure) }) => {
            tracing::warn!("the page is at {}: {}", record.url(), failure.message());
        }
        Err(failure) => tracing::warn!("the page is not served: {}", failure.message()),
    }
}

/// Ends the server of the page. Returns which one it was.
pub(crate) async fn stop(place: &DaemonPaths) -> Result<Option<PageServerRecord>, Failure> {
    let Some(record) = running(place).await? else { return Ok(None) };
    if let Some(pid) = Pid::from_raw(record.pid) {
        kill_process(pid, Signal::TERM)
            .map_err(|error| Failure::system("the server cannot be ended", &error.into()))?;
    }
    let end = tokio::time::Instant::now() + SERVER_TIMEOUT;
    while locked(place)?.is_none() {
        if tokio::time::Instant::now() > end {
            return Err(Failure::work(format!("the server (pid {}) does not end", record.pid)));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(Some(record))
}

/// Starts a server in its own session and waits until it listens, or returns its error.
async fn spawn(place: &DaemonPaths, port: u16) -> Result<(), Failure> {
    let start_error = |error: io::Error| Failure::system("the server of the page could not be started", &error);
    let mut command = std::process::Command::new(front::starter()?.program);
    command.args(["serve", "--detached", "--json", "--port", &port.to_string(), "--state-dir"]).arg(place.state());
    // Programs that start from the page begin at home.
    command.current_dir(std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir()).unwrap_or("/".into()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let starting = tokio::task::spawn_blocking(move || {
        let mut server = command.spawn()?;
        let mut line = String::new();
        if let Some(stdout) = server.stdout.take() {
            io::BufReader::new(stdout).read_line(&mut line)?;
        }
        Ok(line)
    });
    let line = starting.await.map_err(io::Error::other).map_err(start_error)?.map_err(start_error)?;
    let reply: Value = serde_json::from_str(&line).unwrap_or_default();
    match reply["success"] == true {
        true => Ok(()),
        false => {
            let complaint = reply["error"].as_str().unwrap_or("the server of the page ended before it was ready");
            Err(Failure::work(complaint))
        }
    }
}
