//! `steplatch cp`: copies files and directories between this computer and remote hosts.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use steplatch_protocol::{CopyEvent, CopyFile, CopyFileReply, DaemonPaths, WrittenFile};

use crate::failure::Failure;
use crate::print::{self, QUIET};
use crate::{completion, daemon_client};

/// Copy files between hosts, each checked by its SHA-256 digest
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Cp {
    /// Files and directories to copy; HOST:PATH is on a remote host
    #[arg(required = true, value_name = "SOURCE", add = completion::files())]
    sources: Vec<FileArgument>,
    /// File or directory to copy to; in a directory a copy keeps its name
    #[arg(value_name = "TARGET", add = completion::files())]
    target: FileArgument,
    /// Copy directories with their contents
    #[arg(long, short)]
    recursive: bool,
    /// Fail instead of replacing a file with other content
    #[arg(long, short)]
    no_clobber: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  steplatch cp app.tar.gz build:              to the home directory of host 'build'
  steplatch cp build:/var/log/app.log .       from there
  steplatch cp -r site web:/srv               a directory
A path on a remote host that is not absolute begins at the home directory there.
A local file with a colon in its name is written ./a:b.
Each file is written atomically: whole, or not at all.";

/// Maximum number of attempts of a copy if the connection to the daemon is lost.
const MAX_ATTEMPTS: usize = 5;

/// A path on the command line. `HOST:PATH` is on a remote host.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileArgument {
    host: Option<String>,
    path: String,
}

impl FromStr for FileArgument {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err("a path is empty");
        }
        Ok(match text.split_once(':') {
            Some((host, path)) if !host.is_empty() && !host.contains('/') => {
                let path = if path.is_empty() { "~" } else { path };
                Self { host: Some(host.to_owned()), path: path.to_owned() }
            }
            _ => Self { host: None, path: text.to_owned() },
        })
    }
}

/// Report of a copy, printed as JSON.
#[derive(Debug, Default, Serialize)]
struct CopyReport {
    success: bool,
    files: Vec<WrittenFile>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<String>,
}

impl Cp {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let has_several_sources = self.sources.len() > 1;
        let mut report = CopyReport { success: true, ..CopyReport::default() };
        for source in self.sources {
            let FileArgument { host: to_host, path: mut to } = self.target.clone();
            if has_several_sources && !to.ends_with('/') {
                to.push('/');
            }
            let FileArgument { host: from_host, path: from } = source;
            let recursive = self.recursive;
            let verb = CopyFile { from_host, from, to_host, to, overwrite: !self.no_clobber, recursive };
            copy(paths, &verb, self.json, &mut report).await?;
        }
        if self.json {
            print::json(&report)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Copies one source. After the loss of the connection to the daemon, starts another daemon and repeats the copy. The
/// repetition leaves completed files unchanged.
async fn copy(paths: &DaemonPaths, verb: &CopyFile, json: bool, report: &mut CopyReport) -> Result<(), Failure> {
    let initial_counts = (report.files.len(), report.skipped.len());
    let daemon = daemon_client::reconnecting_client(paths)?;
    for _ in 0..MAX_ATTEMPTS {
        report.files.truncate(initial_counts.0);
        report.skipped.truncate(initial_counts.1);
        let (reply, mut events) = daemon.subscribe(verb.clone()).await?;
        if let Some(error) = &reply.error {
            return Err(Failure::work(error.clone()).with(&reply));
        }
        let mut progress = Progress::new(&reply, json);
        while let Some(event) = events.next().await {
            match serde_json::from_value(event) {
                Ok(CopyEvent::CopyProgress { copied, path }) => progress.show(copied, &path),
                Ok(CopyEvent::FileCopied { file }) => {
                    progress.hide();
                    if !json {
                        print::line(describe_file(&file))?;
                    }
                    report.files.push(file);
                }
                Ok(CopyEvent::FileSkipped { path }) => {
                    progress.hide();
                    print::remark(&format!("left out: {path}"));
                    report.skipped.push(path);
                }
                Ok(CopyEvent::CopyEnded) => return Ok(()),
                Ok(CopyEvent::CopyFailed { error }) => {
                    progress.hide();
                    return Err(Failure::work(error).with(report));
                }
                // An event of a newer daemon.
                Err(_) => {}
            }
        }
        progress.hide();
    }
    Err(Failure::work("the connection to the daemon was lost repeatedly; see 'steplatch doctor'").with(report))
}

/// Describes a written file on one line.
fn describe_file(file: &WrittenFile) -> String {
    let path = match &file.host {
        Some(host) => format!("{host}:{}", file.path),
        None => file.path.clone(),
    };
    let unchanged = if file.unchanged { ", unchanged" } else { "" };
    format!("{}  {QUIET}{}{unchanged}{QUIET:#}", print::visible(&path), print::size(file.size))
}

/// Progress of a copy, on the last line of a terminal. Shows nothing without a terminal.
#[derive(Debug)]
struct Progress {
    total_bytes: u64,
    is_shown: bool,
    is_enabled: bool,
}

impl Progress {
    fn new(reply: &CopyFileReply, json: bool) -> Self {
        Self { total_bytes: reply.size, is_shown: false, is_enabled: !json && std::io::stderr().is_terminal() }
    }

    fn show(&mut self, copied: u64, path: &str) {
        if !self.is_enabled {
            return;
        }
        let line = progress_line(copied, self.total_bytes, path);
        self.write(&format!("\r\x1b[K{QUIET}{line}{QUIET:#}"));
        self.is_shown = true;
    }

    fn hide(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            self.write("\r\x1b[K");
        }
    }

    fn write(&self, text: &str) {
        let mut out = anstream::stderr().lock();
        // Ignore the failure, because the terminal is closed.
        let _ = write!(out, "{text}").and_then(|()| out.flush());
    }
}

fn progress_line(copied: u64, total: u64, path: &str) -> String {
    let percent =
        (copied * 100).checked_div(total).map(|percent| format!("{:>3} %  ", percent.min(100))).unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or(path);
    format!("{percent}{} of {}  {}", print::size(copied), print::size(total), print::visible(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_precedes_a_colon_unless_a_slash_comes_first() {
        let cases = [
            ("build:/etc/hosts", Some("build"), "/etc/hosts"),
            ("build:", Some("build"), "~"),
            ("build:a:b", Some("build"), "a:b"),
            ("./a:b", None, "./a:b"),
            ("/x:y", None, "/x:y"),
            ("a", None, "a"),
            (":a", None, ":a"),
        ];
        for (text, host, path) in cases {
            let expected = FileArgument { host: host.map(str::to_owned), path: path.to_owned() };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        assert!("".parse::<FileArgument>().is_err());
    }

    #[test]
    fn progress_is_a_percentage_or_only_bytes() {
        assert_eq!(progress_line(512 << 10, 2 << 20, "/a/big.iso"), " 25 %  512 KB of 2.0 MB  big.iso");
        assert_eq!(progress_line(10, 0, "cpuinfo"), "10 B of 0 B  cpuinfo");
    }
}
