//! Recording of a terminal: the current screen, then the output, until the program ends or the person stops.
//!
//! A recording contains the program's output and no input. The daemon masks secrets in the output before it sends it.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use steplatch_ids::InvalidId;
use steplatch_protocol::{
    AttachTerminal, AttachTerminalReply, Client, DaemonPaths, Events, GetScreenContent, TerminalEvent, ensure_private,
};
use steplatch_recording::{Catalog, Events as RecordedEvents, Header};
use tokio::signal::unix::{SignalKind, signal};

use crate::attach::RECONNECT_TIMEOUT;
use crate::failure::Failure;
use crate::{daemon_client, print};

/// Records the terminal `id` in `file`, by default in a file named after the terminal. `-` is standard output.
pub(crate) async fn record(
    paths: &DaemonPaths,
    id: &str,
    file: Option<PathBuf>,
    idle_limit: Option<f64>,
) -> Result<ExitCode, Failure> {
    let (client, attachment, mut events) = attach(paths, id).await?;
    if let Some(error) = attachment.error {
        return Err(Failure::work(error));
    }
    let file = file.unwrap_or_else(|| format!("{}.cast", attachment.session_id).into());
    let mut out = create(&file)?;
    let (started_at, now) = (Instant::now(), SystemTime::now());
    if file != Path::new("-")
        && let Err(error) = add_to_catalog(paths, &file, &attachment.session_id, now)
    {
        print::remark(&format!("the page will not list this recording: {error}"));
    }
    let timestamp = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let title = (id != attachment.session_id).then(|| id.to_owned());
    out.write_all(Header::line((attachment.cols, attachment.rows), timestamp, idle_limit, title).as_bytes())?;
    let mut encoder = RecordedEvents::default();
    let mut size = (attachment.cols, attachment.rows);
    if let Some(first) = encoder.output(started_at.elapsed(), attachment.snapshot.as_bytes()) {
        out.write_all(first.as_bytes())?;
    }
    out.flush()?;
    if let Some(code) = earlier_exit_code(&client, &attachment.session_id).await? {
        out.write_all(encoder.exit(started_at.elapsed(), code).as_bytes())?;
        print::remark(&format!("the program had already ended; its screen is in {}", file.display()));
        return Ok(ExitCode::SUCCESS);
    }
    // Before the message, because a signal would end the process.
    let (mut interrupted, mut terminated) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    print::remark(&format!("recording {} to {}; ctrl-c ends it", attachment.session_id, file.display()));
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            _ = interrupted.recv() => break,
            _ = terminated.recv() => break,
        };
        let elapsed = started_at.elapsed();
        let line = match event.map(serde_json::from_value::<TerminalEvent>) {
            Some(Ok(TerminalEvent::TerminalOutput { bytes })) => {
                encoder.output(elapsed, &STANDARD.decode(bytes).unwrap_or_default())
            }
            Some(Ok(TerminalEvent::TerminalRedrawn { snapshot })) => encoder.output(elapsed, snapshot.as_bytes()),
            Some(Ok(TerminalEvent::TerminalResized { cols, rows })) => {
                size = (cols, rows);
                Some(encoder.resize(elapsed, cols, rows))
            }
            Some(Ok(TerminalEvent::TerminalEnded { exit_code })) => {
                if let Some(code) = exit_code {
                    out.write_all(encoder.exit(elapsed, code).as_bytes())?;
                }
                out.flush()?;
                break;
            }
            Some(Err(_)) => None,
            // The daemon has ended and the terminal has not. The screen from the next daemon shows the missed output.
            None => {
                let (client, reattached, next_events) = attach_again(paths, &attachment.session_id).await?;
                if let Some(error) = reattached.error {
                    print::remark(&format!("the terminal no longer exists: {error}"));
                    break;
                }
                events = next_events;
                if (reattached.cols, reattached.rows) != size {
                    size = (reattached.cols, reattached.rows);
                    out.write_all(encoder.resize(elapsed, reattached.cols, reattached.rows).as_bytes())?;
                }
                if let Some(line) = encoder.output(elapsed, reattached.snapshot.as_bytes()) {
                    out.write_all(line.as_bytes())?;
                }
                match earlier_exit_code(&client, &attachment.session_id).await? {
                    None => None,
                    Some(code) => {
                        out.write_all(encoder.exit(elapsed, code).as_bytes())?;
                        out.flush()?;
                        break;
                    }
                }
            }
        };
        if let Some(line) = line {
            // Flush, so that readers of the file see the line immediately and a killed process loses nothing.
            out.write_all(line.as_bytes())?;
            out.flush()?;
        }
    }
    print::remark(&format!("recorded {:.1} s in {}", started_at.elapsed().as_secs_f64(), file.display()));
    Ok(ExitCode::SUCCESS)
}

/// Adds a recording to the list of the page.
///
/// # Errors
/// If the directory of recordings is unusable.
fn add_to_catalog(paths: &DaemonPaths, file: &Path, session: &str, began: SystemTime) -> Result<(), String> {
    let directory = paths.recordings();
    ensure_private(&directory).map_err(|error| error.to_string())?;
    let terminal = session.parse().map_err(|error: InvalidId| error.to_string())?;
    Catalog::new(directory).add(file, &terminal, began).map(drop).map_err(|error| error.to_string())
}

async fn attach(paths: &DaemonPaths, id: &str) -> Result<(Client, AttachTerminalReply, Events), Failure> {
    let client = daemon_client::client(paths).await?;
    let verb = AttachTerminal { session_id: id.to_owned(), masked: true, ..AttachTerminal::default() };
    let (reply, events) = client.subscribe(verb).await?;
    Ok((client, reply, events))
}

/// Attaches again after a lost connection. Retries, because the daemon may be stopping or starting.
async fn attach_again(paths: &DaemonPaths, id: &str) -> Result<(Client, AttachTerminalReply, Events), Failure> {
    let began = Instant::now();
    loop {
        match attach(paths, id).await {
            Err(_) if began.elapsed() < RECONNECT_TIMEOUT => tokio::time::sleep(Duration::from_millis(50)).await,
            attached => return attached,
        }
    }
}

/// Returns the exit code if the program has already ended. The daemon does not repeat the event about the end.
async fn earlier_exit_code(client: &Client, session: &str) -> Result<Option<i32>, Failure> {
    let verb = GetScreenContent { session_id: session.to_owned(), ..GetScreenContent::default() };
    let content = client.call(verb).await?;
    Ok(content.exit_code.filter(|_| content.success && !content.process_running))
}

/// Creates a file that only its owner can read, because screens may be confidential.
fn create(file: &Path) -> Result<Box<dyn Write>, Failure> {
    if file == Path::new("-") {
        if io::stdout().is_terminal() {
            return Err(Failure::usage("a terminal cannot show a recording; name a file, or pipe the output"));
        }
        return Ok(Box::new(io::stdout()));
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Ok(created) => Ok(Box::new(created)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Failure::usage(format!("'{}' already exists; choose another file", file.display())))
        }
        Err(error) => Err(Failure::usage(format!("'{}' cannot be written: {error}", file.display()))),
    }
}
