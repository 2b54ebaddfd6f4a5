//! Reader of the lines of an asciicast file, versions 2 and 3.
//!
//! A file is not trusted, because it may end anywhere and contain anything. The reader returns everything before the
//! first damaged line, and the damage as a value.

use std::io::{self, BufRead};
use std::time::Duration;

use serde::Deserialize;
use steplatch_terminal::Size;

/// Maximum length of a line, in bytes.
const MAX_LINE_BYTES: u64 = 8 << 20;

/// Maximum duration of a recording.
const MAX_DURATION: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Half of a millisecond, added to round a time.
const HALF_MILLISECOND: Duration = Duration::from_micros(500);

/// Reason why the rest of a file is unreadable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A line is not an event.
    #[error("line {line} is damaged: {defect}")]
    Line {
        /// The number of the line, counted from 1.
        line: u64,
        /// The defect of the line.
        defect: String,
    },
    /// The last line is not complete.
    #[error("the file ends within line {line}")]
    CutOff {
        /// The number of the line, counted from 1.
        line: u64,
    },
}

/// The first line of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FileHeader {
    version: u8,
    pub(crate) size: Size,
    /// Start time of the recording, in seconds since 1970.
    pub(crate) timestamp: Option<u64>,
    pub(crate) title: Option<String>,
    /// Maximum pause of a replay.
    pub(crate) idle_limit: Option<Duration>,
}

#[derive(Deserialize)]
struct RawHeader {
    version: u8,
    /// Version 3.
    term: Option<RawTerm>,
    /// Version 2.
    width: Option<u16>,
    height: Option<u16>,
    timestamp: Option<serde_json::Number>,
    title: Option<String>,
    idle_time_limit: Option<f64>,
}

#[derive(Deserialize)]
struct RawTerm {
    cols: u16,
    rows: u16,
}

/// Content of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EventContent {
    Output(String),
    Resize(Size),
    Marker(String),
    Exit(i32),
    Input(String),
    /// An event that neither a replay nor an import uses.
    Other,
}

/// An event and its time since the beginning, in whole milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) time: Duration,
    pub(crate) content: EventContent,
}

/// Position in a file, after a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FilePosition {
    /// Number of bytes before the position.
    pub(crate) offset: u64,
    /// Number of lines before the position.
    pub(crate) lines: u64,
    /// The exact time of the last event before the position.
    pub(crate) time: Duration,
}

impl FileHeader {
    fn parse(line: &str) -> Result<Self, String> {
        let raw: RawHeader = serde_json::from_str(line).map_err(|error| format!("not a header: {error}"))?;
        let (cols, rows) = match (raw.version, &raw.term) {
            (3, Some(term)) => (term.cols, term.rows),
            (2, _) => (raw.width.unwrap_or_default(), raw.height.unwrap_or_default()),
            (3, None) => return Err("no screen size".to_owned()),
            (version, _) => return Err(format!("version {version} of the format is not supported, only 2 and 3")),
        };
        let size = Size { cols, rows }.checked().ok_or_else(|| format!("{cols}x{rows} is not a screen size"))?;
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
        Ok(Self {
            version: raw.version,
            size,
            timestamp: raw.timestamp.and_then(|number| number.as_u64().or_else(|| Some(number.as_f64()? as u64))),
            title: raw.title.filter(|title| !title.is_empty()),
            idle_limit: raw.idle_time_limit.and_then(seconds),
        })
    }
}

/// Reads the header.
///
/// # Errors
/// If reading the file fails. The inner result is an error if the file does not begin with a header.
pub(crate) fn read_header(
    file: &mut impl BufRead,
    position: &mut FilePosition,
) -> io::Result<Result<FileHeader, Damage>> {
    match read_line(file, position)? {
        Line::Complete(text) | Line::Incomplete(text) if !text.is_empty() => {
            Ok(FileHeader::parse(&text).map_err(|defect| Damage::Line { line: position.lines, defect }))
        }
        Line::Damaged(damage) => Ok(Err(damage)),
        _ => Ok(Err(Damage::Line { line: 1, defect: "the file is empty".to_owned() })),
    }
}

/// Reads the next event. At the end of the file, and before damage, the position remains unchanged.
///
/// # Errors
/// If reading the file fails. The inner result is an error if the next line is not an event.
pub(crate) fn read_event(
    file: &mut impl BufRead,
    header: &FileHeader,
    position: &mut FilePosition,
) -> io::Result<Result<Option<Event>, Damage>> {
    loop {
        let previous = *position;
        let (text, is_complete) = match read_line(file, position)? {
            Line::End => return Ok(Ok(None)),
            Line::Complete(text) => (text, true),
            Line::Incomplete(text) => (text, false),
            Line::Damaged(damage) => {
                *position = previous;
                return Ok(Err(damage));
            }
        };
        if is_complete && (text.trim().is_empty() || text.starts_with('#')) {
            continue;
        }
        match parse_event(&text, header.version, previous.time) {
            Ok((time, content)) => {
                position.time = time;
                // Round the time, so that whole milliseconds stay unchanged.
                let time =
                    Duration::from_millis(u64::try_from((time + HALF_MILLISECOND).as_millis()).unwrap_or(u64::MAX));
                return Ok(Ok(Some(Event { time, content })));
            }
            Err(defect) => {
                *position = previous;
                let line = previous.lines + 1;
                return Ok(Err(if is_complete { Damage::Line { line, defect } } else { Damage::CutOff { line } }));
            }
        }
    }
}

/// Parses an event: its exact time since the beginning, and its content.
fn parse_event(line: &str, version: u8, previous_time: Duration) -> Result<(Duration, EventContent), String> {
    let (time, code, data): (f64, String, String) =
        serde_json::from_str(line).map_err(|error| format!("not an event: {error}"))?;
    let time = Duration::try_from_secs_f64(time.max(0.0)).map_err(|_| "invalid time".to_owned())?;
    let event_time = if version == 2 { time.max(previous_time) } else { previous_time.saturating_add(time) };
    if event_time > MAX_DURATION {
        return Err("the time is more than ten years after the start".to_owned());
    }
    let size = |data: &str| {
        let (cols, rows) = data.split_once('x')?;
        Size { cols: cols.parse().ok()?, rows: rows.parse().ok()? }.checked()
    };
    let content = match code.as_str() {
        "o" => EventContent::Output(data),
        "r" => EventContent::Resize(size(&data).ok_or("no screen size")?),
        "m" => EventContent::Marker(data),
        "i" => EventContent::Input(data),
        "x" => EventContent::Exit(data.trim().parse().map_err(|_| "no exit code")?),
        _ => EventContent::Other,
    };
    Ok((event_time, content))
}

enum Line {
    Complete(String),
    /// Without a line end: the file may still grow.
    Incomplete(String),
    Damaged(Damage),
    End,
}

fn read_line(file: &mut impl BufRead, position: &mut FilePosition) -> io::Result<Line> {
    let mut bytes = Vec::new();
    let read = io::Read::take(&mut *file, MAX_LINE_BYTES).read_until(b'\n', &mut bytes)? as u64;
    if read == 0 {
        return Ok(Line::End);
    }
    position.offset += read;
    position.lines += 1;
    let is_complete = bytes.last() == Some(&b'\n');
    if is_complete {
        bytes.pop();
    } else if read == MAX_LINE_BYTES {
        let defect = format!("longer than {MAX_LINE_BYTES} bytes");
        return Ok(Line::Damaged(Damage::Line { line: position.lines, defect }));
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) if is_complete => Line::Complete(text),
        Ok(text) => Line::Incomplete(text),
        Err(_) if is_complete => Line::Damaged(Damage::Line { line: position.lines, defect: "not UTF-8".to_owned() }),
        Err(_) => Line::Damaged(Damage::CutOff { line: position.lines }),
    })
}
