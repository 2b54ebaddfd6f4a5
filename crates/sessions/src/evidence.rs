//! Recordings of what terminals have shown, made after the fact from their logs of output.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_recursion::async_recursion as boxed;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use steplatch_access::{Caller, RedactedStream, Redactor};
use steplatch_clock::system_iso8601;
use steplatch_host::{AskError, HostedTerminal, Refusal};
use steplatch_protocol::{PutFile, RecordTerminal, RecordTerminalReply, RecordingFormat};
use steplatch_recording::{Events, Header, frames};
use steplatch_terminal::{
    LoggedAction, LoggedInput, OutputRecording, QueryFilter, RECORDING_WINDOW_MILLIS, RecordedChange, RecordedOutput,
    Replay, Size,
};

use crate::error::SessionError;
use crate::sessions::Sessions;

/// Maximum size of a file, unless the request has another one.
const DEFAULT_MAX_BYTES: u64 = 5_000_000;

/// Maximum pause, unless the request has another one.
const DEFAULT_IDLE_LIMIT: Duration = Duration::from_secs(2);

/// A recording as the content of a file.
struct Encoded {
    bytes: Vec<u8>,
    frames: u64,
    duration: Duration,
}

/// The part of a recording to encode.
struct Selection {
    recording: OutputRecording,
    begin_millis: u64,
    idle_limit: Duration,
    title: Option<String>,
}

impl Sessions {
    /// Writes what a terminal has shown to a new file, with secrets hidden.
    #[boxed]
    pub async fn record_terminal(&self, caller: &Arc<Caller>, verb: RecordTerminal) -> RecordTerminalReply {
        let session_id = verb.session_id.clone();
        match self.try_record(caller, verb).await {
            Ok(reply) => reply,
            Err(error) => {
                let error = Some(self.describe_error(&session_id, error).await);
                RecordTerminalReply { session_id, error, ..RecordTerminalReply::default() }
            }
        }
    }

    async fn try_record(
        &self,
        caller: &Arc<Caller>,
        verb: RecordTerminal,
    ) -> Result<RecordTerminalReply, SessionError> {
        let terminal = self.find(&verb.session_id).await?;
        // Writing refuses a file that appears later.
        if tokio::fs::symlink_metadata(caller.directory.join(&verb.path)).await.is_ok() {
            return Err(format!("'{}' already exists; choose another file", verb.path).into());
        }
        let recording = terminal.recording().await.map_err(|error| {
            match error {
            AskError::Refused(Refusal::NotUnderstood) => SessionError::Message(
                "an earlier version of steplatch opened this terminal and kept no recording; a terminal opened now has \
                 one"
                .to_owned(),
            ),
            error => error.into(),
        }
        })?;
        let Some(oldest) = recording.events.first().map(|event| event.at_millis) else {
            let message = "no output is recorded: the terminal has printed nothing, or terminals.log_inputs is off";
            return Err(message.to_owned().into());
        };
        let (begin_millis, is_cut) = match begin_of(&terminal, &verb).await? {
            Some(begin) => (begin.max(oldest), recording.is_cut && begin < oldest),
            None => (oldest, recording.is_cut),
        };
        let idle_limit = match verb.idle_limit {
            None => DEFAULT_IDLE_LIMIT,
            Some(seconds) => {
                Duration::try_from_secs_f64(seconds).map_err(|_| "idle_limit must be positive".to_owned())?
            }
        };
        let secrets = Arc::new(self.secrets.within(terminal.id()));
        let title = terminal.describe().await?.name.map(|name| secrets.masked(name));
        let selection = Selection { recording, begin_millis, idle_limit, title };
        let format = verb.format.unwrap_or_else(|| format_of(&verb.path));
        let encoding = tokio::task::spawn_blocking(move || encode(&selection, format, &secrets));
        let encoded = encoding.await.map_err(|error| format!("the recording was not made: {error}"))??;
        let max_bytes = verb.max_bytes.unwrap_or(DEFAULT_MAX_BYTES);
        if encoded.bytes.len() as u64 > max_bytes {
            let message = format!(
                "the recording has {} bytes, and max_bytes is {max_bytes}; select less with since or commands, use the \
                 format svg or cast, or give a larger max_bytes",
                encoded.bytes.len()
            );
            return Err(message.into());
        }
        let file = PutFile {
            path: verb.path,
            content: None,
            content_base64: Some(STANDARD.encode(&encoded.bytes)),
            from: None,
            // As of a live recording: for its owner.
            mode: Some("0600".to_owned()),
            overwrite: false,
            host: None,
        };
        let written = self.put_file(caller, file, None).await;
        if let Some(error) = written.error {
            return Err(error.into());
        }
        Ok(RecordTerminalReply {
            success: written.success,
            session_id: terminal.id().to_string(),
            file: written.file,
            begins_at: Some(system_iso8601(SystemTime::UNIX_EPOCH + Duration::from_millis(begin_millis))),
            duration: Some((encoded.duration.as_secs_f64() * 1e3).round() / 1e3),
            frames: Some(encoded.frames),
            is_cut,
            error: None,
        })
    }
}

/// Returns the beginning of the first window with requested output, in milliseconds since 1970; `None` for all that is
/// held.
async fn begin_of(terminal: &HostedTerminal, verb: &RecordTerminal) -> Result<Option<u64>, SessionError> {
    let now = epoch_millis(SystemTime::now());
    match (verb.since, verb.commands) {
        (Some(_), Some(_)) => Err("give since or commands, not both".to_owned().into()),
        (Some(seconds), None) if seconds >= 0.0 => {
            Ok(Some(now.saturating_sub(((seconds * 1e3) as u64).saturating_add(RECORDING_WINDOW_MILLIS))))
        }
        (Some(_), None) => Err("since is a number of seconds, not negative".to_owned().into()),
        (None, None) => Ok(None),
        (None, Some(count)) => {
            let is_command = |input: &LoggedInput| {
                matches!(input.action, LoggedAction::Command { .. } | LoggedAction::Entered { .. })
            };
            let inputs = terminal.inputs(0).await?;
            let times: Vec<u64> =
                inputs.iter().filter(|input| is_command(input)).map(|input| epoch_millis(input.time)).collect();
            let index = times.len().checked_sub(usize::try_from(count).unwrap_or(usize::MAX)).filter(|_| count > 0);
            let begin = index.and_then(|index| times.get(index)).copied();
            let message = || format!("the log of this terminal has {} commands; give fewer, or since", times.len());
            Ok(Some(begin.ok_or_else(message)?.saturating_sub(RECORDING_WINDOW_MILLIS)))
        }
    }
}

/// Returns the format of a file by the ending of its name.
fn format_of(path: &str) -> RecordingFormat {
    let ending = std::path::Path::new(path).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    match ending.to_ascii_lowercase().as_str() {
        "svg" => RecordingFormat::Svg,
        "cast" => RecordingFormat::Cast,
        _ => RecordingFormat::Apng,
    }
}

fn epoch_millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn encode(selection: &Selection, format: RecordingFormat, secrets: &Arc<Redactor>) -> Result<Encoded, String> {
    if format == RecordingFormat::Cast {
        return Ok(encode_cast(selection, secrets));
    }
    let Selection { recording, begin_millis, idle_limit, .. } = selection;
    let frames = frames(recording, *begin_millis, *idle_limit, |picture| secrets.masked_picture(picture));
    let frames = frames.map_err(|error| error.to_string())?;
    let screens: Vec<_> = frames.iter().map(|frame| (&frame.picture, frame.duration)).collect();
    let bytes = match format {
        RecordingFormat::Svg => steplatch_picture::svg(&screens).into_bytes(),
        RecordingFormat::Apng | RecordingFormat::Cast => {
            steplatch_picture::apng(&screens).map_err(|error| error.to_string())?
        }
    };
    Ok(Encoded { bytes, frames: frames.len() as u64, duration: frames.iter().map(|frame| frame.duration).sum() })
}

/// Encodes the printed text, without queries of the program, to which the reader's terminal would answer.
fn encode_cast(selection: &Selection, secrets: &Arc<Redactor>) -> Encoded {
    let Selection { recording, begin_millis, idle_limit, title } = selection;
    let mut replay = Replay::new(Size { cols: 80, rows: 24 });
    let is_before = |event: &&RecordedOutput| event.at_millis < *begin_millis;
    let (before, after) = recording.events.split_at(recording.events.iter().take_while(is_before).count());
    before.iter().for_each(|event| replay.apply(&event.change));
    let mut size = replay.size();
    if before.is_empty()
        && let Some(RecordedChange::Resized(first)) = after.first().map(|event| &event.change)
    {
        size = *first;
    }
    let header =
        Header::line((size.cols, size.rows), begin_millis / 1000, Some(idle_limit.as_secs_f64()), title.clone());
    let (mut filter, mut mask, mut events) =
        (QueryFilter::drawing_only(), RedactedStream::new(secrets.clone()), Events::default());
    let mut lines = vec![header];
    let mut time = Duration::ZERO;
    lines.extend(events.output(time, &mask.pass(replay.snapshot().as_bytes())));
    for event in after {
        time = time.max(Duration::from_millis(event.at_millis.saturating_sub(*begin_millis)));
        match &event.change {
            RecordedChange::Printed(text) => {
                lines.extend(events.output(time, &mask.pass(&filter.pass(text.as_bytes()))));
            }
            RecordedChange::Redrawn(screen) => {
                // The screen contains the held output, too.
                drop(mask.flush());
                filter.reset();
                lines.extend(events.output(time, &mask.pass(screen.as_bytes())));
            }
            RecordedChange::Resized(resized) if *resized == size => {}
            RecordedChange::Resized(resized) => {
                size = *resized;
                lines.extend(events.output(time, &mask.flush()));
                lines.push(events.resize(time, size.cols, size.rows));
            }
        }
    }
    lines.extend(events.output(time, &mask.flush()));
    Encoded { frames: lines.len() as u64 - 1, bytes: lines.concat().into_bytes(), duration: time }
}
