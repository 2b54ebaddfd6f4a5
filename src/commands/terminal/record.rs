//! `steplatch terminal record`: a live recording, or one of what was shown already.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use steplatch_protocol::{DaemonPaths, RecordTerminal, RecordingFormat};

use super::{check_success, parse_seconds};
use crate::commands::moment::parse_age;
use crate::failure::Failure;
use crate::record::record;
use crate::{completion, daemon_client, print};

/// Record a terminal from now on, or what it has shown
///
/// Without --format, --since or --commands, it records the output until the terminal ends or ctrl-c. With one of them, or
/// a file that ends with .png or .svg, it writes what the terminal has shown until now and returns: each terminal keeps
/// its recent output with its times. Secrets are hidden.
#[derive(Debug, Args)]
pub(crate) struct Record {
    /// Id or name of the terminal
    #[arg(value_name = "TERMINAL", add = completion::terminals())]
    id: String,
    /// New file to write; - is standard output, of a live recording [default: TERMINAL.cast]
    file: Option<PathBuf>,
    /// Format of what was shown
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Begin at this age, such as 90s or 10m
    #[arg(long, value_name = "AGE", value_parser = parse_since)]
    since: Option<u32>,
    /// Begin with the last so many commands of the shell
    #[arg(long, value_name = "NUMBER", conflicts_with = "since", value_parser = clap::value_parser!(u32).range(1..))]
    commands: Option<u32>,
    /// Maximum pause in a replay
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    idle_limit: Option<f64>,
    /// Maximum size of the file [default: 5000000]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    max_bytes: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// An animated PNG
    Apng,
    /// An animated SVG
    Svg,
    /// A recording for asciinema
    Cast,
}

fn parse_since(text: &str) -> Result<u32, String> {
    let seconds = parse_age(text).and_then(|seconds| u32::try_from(seconds).ok());
    seconds.ok_or_else(|| "must be an age such as 90s, 10m or 2h".to_owned())
}

impl Record {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let named_format = self.file.as_deref().and_then(format_of);
        let is_live = self.format.or(named_format.filter(|format| *format != Format::Cast)).is_none()
            && self.since.is_none()
            && self.commands.is_none();
        if is_live && self.max_bytes.is_none() && !self.json {
            return record(paths, &self.id, self.file, self.idle_limit).await;
        }
        if is_live {
            return Err(Failure::usage("--max-bytes and --json need --format, --since or --commands".to_owned()));
        }
        let format = self.format.or(named_format).unwrap_or(Format::Cast);
        let (format, ending) = match format {
            Format::Apng => (RecordingFormat::Apng, "png"),
            Format::Svg => (RecordingFormat::Svg, "svg"),
            Format::Cast => (RecordingFormat::Cast, "cast"),
        };
        let file = self.file.unwrap_or_else(|| format!("{}.{ending}", self.id).into());
        if file.as_os_str() == "-" {
            return Err(Failure::usage("what was shown is written to a file: give its name in place of -".to_owned()));
        }
        let path = std::path::absolute(&file)?;
        if path.symlink_metadata().is_ok() {
            return Err(Failure::usage(format!("'{}' already exists; choose another file", file.display())));
        }
        let path = path.to_str().ok_or_else(|| Failure::usage("the name of the file is not UTF-8".to_owned()))?;
        let verb = RecordTerminal {
            session_id: self.id,
            path: path.to_owned(),
            format: Some(format),
            since: self.since.map(f64::from),
            commands: self.commands,
            idle_limit: self.idle_limit,
            max_bytes: self.max_bytes,
        };
        let reply = daemon_client::ask(paths, verb).await?;
        check_success(reply.success, reply.error.as_ref(), &reply)?;
        if self.json {
            print::json(&reply)?;
            return Ok(ExitCode::SUCCESS);
        }
        let size = reply.file.as_ref().map_or(0, |file| file.size);
        let (duration, frames) = (reply.duration.unwrap_or_default(), reply.frames.unwrap_or_default());
        let unit = if format == RecordingFormat::Cast { "events" } else { "screens" };
        print::line(format!("{}: {frames} {unit}, {duration:.1} s, {size} bytes", file.display()))?;
        if reply.is_cut {
            let begin = reply.begins_at.unwrap_or_default();
            print::remark(&format!("older output is no longer held; the recording begins at {begin}"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the format of a file by its name.
fn format_of(file: &std::path::Path) -> Option<Format> {
    match file.extension()?.to_str()? {
        "png" | "apng" => Some(Format::Apng),
        "svg" => Some(Format::Svg),
        "cast" => Some(Format::Cast),
        _ => None,
    }
}
