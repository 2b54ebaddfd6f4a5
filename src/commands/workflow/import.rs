//! `steplatch workflow import`: a workflow from a recording by another program.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use steplatch_capture::{
    ImportedRecording, RecordedScreen, ScriptLogs, Timeline, TimelineEvent, expect_script, import_recording,
    script_files, script_recording,
};
use steplatch_protocol::{CaptureWorkflow, DaemonPaths};
use steplatch_recording::{RecordedEvent, recorded_events};
use steplatch_terminal::{Replay, Size};

use super::capture::CaptureOptions;
use crate::failure::Failure;

/// Maximum size of an imported file.
const MAX_FILE_BYTES: u64 = 32 << 20;

/// Make a workflow from a recording by another program
///
/// FILE is an asciicast with input events (asciinema rec --capture-input, versions 2 and 3), the timing file of script
/// (script --log-io FILE --log-timing FILE, with its logs beside it), or a script of autoexpect. Prints what `workflow capture` prints; all of it
/// is inferred from text, so prove the workflow before you rely on it. Text that was typed without an echo becomes a
/// secret argument.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    options: CaptureOptions,
}

impl Import {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let log = read_recording(&self.file)?;
        let log = serde_json::to_value(log).map_err(|error| Failure::work(error.to_string()))?;
        let verb = CaptureWorkflow { imported: vec![log], ..CaptureWorkflow::default() };
        self.options.capture(paths, verb).await
    }
}

/// Reads a recording. The content determines the format.
fn read_recording(path: &Path) -> Result<ImportedRecording, Failure> {
    let bytes = read_bounded(path)?;
    let text = String::from_utf8_lossy(&bytes);
    let timeline = if let Some(files) = script_files(&text) {
        let read_log =
            |name: &Option<String>| name.as_ref().map(|name| read_bounded(&path.with_file_name(name))).transpose();
        let output = read_log(&files.output)?.unwrap_or_default();
        let input = if files.input == files.output { None } else { Some(read_log(&files.input)?.unwrap_or_default()) };
        script_recording(&text, ScriptLogs { output: &output, input: input.as_deref() })
    } else if bytes.first() == Some(&b'{') {
        parse_asciicast(&bytes)?
    } else if let Some(timeline) = expect_script(&text) {
        timeline
    } else {
        return Err(Failure::work(format!(
            "{} is not an asciicast, a timing file of script in the advanced format, or a script of autoexpect",
            path.display()
        )));
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(import_recording(&name, timeline, &mut ReplayedScreen(Replay::new(DEFAULT_SIZE))))
}

/// Size of the screen of a recording that does not state one.
const DEFAULT_SIZE: Size = Size { cols: 80, rows: 24 };

/// Screen of a recorded terminal.
struct ReplayedScreen(Replay);

impl RecordedScreen for ReplayedScreen {
    fn draw(&mut self, output: &str) {
        self.0.draw(output);
    }

    fn resize(&mut self, cols: u16, rows: u16) {
        if let Some(size) = (Size { cols, rows }).checked() {
            self.0.resize(size);
        }
    }

    fn rows(&self) -> Vec<String> {
        let rows = self.0.picture().rows;
        let text = |row: &Vec<steplatch_terminal::Run>| row.iter().map(|run| run.text.as_str()).collect::<String>();
        rows.iter().map(|row| text(row).trim_end().to_owned()).collect()
    }
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, Failure> {
    let to_failure = |error: std::io::Error| Failure::work(format!("cannot read {}: {error}", path.display()));
    let file = std::fs::File::open(path).map_err(to_failure)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(to_failure)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(Failure::work(format!("{} is longer than {} MiB", path.display(), MAX_FILE_BYTES >> 20)));
    }
    Ok(bytes)
}

fn parse_asciicast(mut bytes: &[u8]) -> Result<Timeline, Failure> {
    let header = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let header: serde_json::Value = serde_json::from_slice(header).unwrap_or_default();
    let (events, damage) = recorded_events(&mut bytes).map_err(|error| Failure::work(error.to_string()))?;
    if let Some(damage) = damage.as_ref().filter(|_| events.is_empty()) {
        return Err(Failure::work(format!("the asciicast cannot be read: {damage}")));
    }
    let mut undecided: Vec<String> = Vec::new();
    undecided.extend(damage.map(|damage| format!("the recording is incomplete: {damage}")));
    if !events.iter().any(|(_, event)| matches!(event, RecordedEvent::Input(_))) {
        undecided.push("the recording has no input: record it with asciinema rec --capture-input".to_owned());
    }
    let to_timeline_event = |(time, event)| {
        let event = match event {
            RecordedEvent::Output(text) => TimelineEvent::Output(text),
            RecordedEvent::Input(text) => TimelineEvent::Input(text),
            RecordedEvent::Resize { cols, rows } => TimelineEvent::Resize { cols, rows },
            RecordedEvent::Exit(code) => TimelineEvent::Exit(code),
        };
        (time, event)
    };
    let dimension = |version_3: &serde_json::Value, version_2: &serde_json::Value| {
        version_3.as_u64().or(version_2.as_u64()).and_then(|cells| u16::try_from(cells).ok())
    };
    let term = &header["term"];
    let size = dimension(&term["cols"], &header["width"]).zip(dimension(&term["rows"], &header["height"]));
    let command = header["command"].as_str().or_else(|| header["term"]["command"].as_str()).unwrap_or_default();
    Ok(Timeline {
        command: command.to_owned(),
        size,
        events: events.into_iter().map(to_timeline_event).collect(),
        undecided,
        ..Timeline::default()
    })
}
