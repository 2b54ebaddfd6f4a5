//! Recordings of `script` (util-linux) in the advanced format of its timing file.
//!
//! Each line of the timing file has a type, the seconds since the previous line, and a number of bytes. The types
//! are `O` (output), `I` (input), `S` (signal) and `H` (header).

use super::{Timeline, TimelineEvent};
use crate::OmittedInput;

/// The names of the logs that a timing file belongs to, without their directories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptFiles {
    /// The log of output.
    pub output: Option<String>,
    /// The log of input. It may be the same file as the log of output.
    pub input: Option<String>,
}

/// The contents of the logs.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScriptLogs<'l> {
    /// The log of output.
    pub output: &'l [u8],
    /// The log of input; `None` if it is in the log of output.
    pub input: Option<&'l [u8]>,
}

/// Returns the logs of a timing file. `None` if the file does not have the advanced format.
#[must_use]
pub fn script_files(timing: &str) -> Option<ScriptFiles> {
    timing.strip_prefix("H ")?;
    let file = |name: &str| {
        let path = header_value(timing, name)?;
        let base = path.rsplit('/').next().filter(|base| !base.is_empty() && *base != "..")?;
        Some(base.to_owned())
    };
    Some(ScriptFiles { output: file("OUTPUT_LOG"), input: file("INPUT_LOG") })
}

fn header_value<'t>(timing: &'t str, name: &str) -> Option<&'t str> {
    timing.lines().find_map(|line| {
        let mut words = line.splitn(4, ' ');
        let is_named = words.next() == Some("H") && words.next().is_some() && words.next() == Some(name);
        is_named.then(|| words.next()).flatten()
    })
}

/// Returns the timeline of a recording of `script`.
#[must_use]
pub fn script_recording(timing: &str, logs: ScriptLogs<'_>) -> Timeline {
    let header_size = |name: &str| header_value(timing, name)?.trim().parse::<u16>().ok().filter(|size| *size > 0);
    let mut timeline = Timeline {
        command: header_value(timing, "COMMAND").unwrap_or_default().to_owned(),
        size: header_size("COLUMNS").zip(header_size("LINES")),
        ..Timeline::default()
    };
    let (mut output, mut input) = (LogReader::new(logs.output), logs.input.map(LogReader::new));
    let mut seconds = 0.0;
    for (index, line) in timing.lines().enumerate() {
        let mut words = line.split(' ');
        let (kind, time) = (words.next().unwrap_or_default(), words.next().and_then(|time| time.parse::<f64>().ok()));
        let count = words.next().and_then(|count| count.parse::<usize>().ok());
        seconds += time.filter(|time| time.is_finite() && *time > 0.0).unwrap_or_default();
        let event = match (kind, count) {
            ("S", _) if line.contains("SIGWINCH") => {
                let dimension = |name: &str| {
                    let dimension = line.split([' ', ',']).find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
                    dimension.and_then(|dimension| dimension.parse::<u16>().ok()).filter(|dimension| *dimension > 0)
                };
                let Some((cols, rows)) = dimension("COLS").zip(dimension("ROWS")) else { continue };
                TimelineEvent::Resize { cols, rows }
            }
            ("O", Some(count)) => TimelineEvent::Output(output.take(count)),
            ("I", Some(count)) => TimelineEvent::Input(input.as_mut().unwrap_or(&mut output).take(count)),
            ("H", _) | ("", None) => continue,
            _ => {
                if timeline.omitted_inputs.len() < 100 {
                    let reason = format!("line {} of the timing file is neither output nor input", index + 1);
                    timeline.omitted_inputs.push(OmittedInput { input: kind.chars().take(20).collect(), reason });
                }
                continue;
            }
        };
        timeline.events.push((seconds, event));
    }
    if let Some(code) = header_value(timing, "EXIT_CODE").and_then(|code| code.trim().parse().ok()) {
        timeline.events.push((seconds, TimelineEvent::Exit(code)));
    }
    if !timeline.events.iter().any(|(_, event)| matches!(event, TimelineEvent::Input(_))) {
        timeline.undecided.push("the recording has no input; record it with script --log-io or --log-in".to_owned());
    }
    timeline
}

/// Reader of a log in portions. A character that two portions share is in the later portion.
struct LogReader<'b> {
    rest: &'b [u8],
    incomplete_bytes: Vec<u8>,
}

impl<'b> LogReader<'b> {
    /// Skips the first line, written by `script`.
    fn new(log: &'b [u8]) -> Self {
        let begin = if log.starts_with(b"Script started on ") {
            log.iter().position(|byte| *byte == b'\n').map_or(log.len(), |end| end + 1)
        } else {
            0
        };
        Self { rest: &log[begin..], incomplete_bytes: Vec::new() }
    }

    fn take(&mut self, count: usize) -> String {
        let (portion, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        self.incomplete_bytes.extend_from_slice(portion);
        let end = match std::str::from_utf8(&self.incomplete_bytes) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.incomplete_bytes.len(),
        };
        let text = String::from_utf8_lossy(&self.incomplete_bytes[..end]).into_owned();
        self.incomplete_bytes.drain(..end);
        text
    }
}
