//! `steplatch runs patch`: a repair of the machine of a run that stopped.

use std::io::Read as _;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use steplatch_protocol::{DaemonPaths, ProposePatch};

use crate::failure::{FAILED, Failure};
use crate::print::{self, BAD, GOOD, QUIET, STRONG, visible};
use crate::{completion, front, pick};

/// Propose a repair of a workflow, for a run that stopped at a screen that the workflow does not know
///
/// The patch is a JSON Patch (RFC 6902). It is checked: the patched workflow has to be valid and to pass its recording, and what it
/// weakens is named. Then a person accepts it at a gate: 'steplatch gates answer', or the page. An accepted patch becomes the next
/// version of the saved workflow, and the run goes on with it.
#[derive(Debug, Args)]
pub(crate) struct Patch {
    /// Run that waits: its id or an unambiguous prefix
    #[arg(value_name = "RUN", add = completion::runs_in_progress())]
    run: String,
    /// File with the patch; - reads standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Why, in a sentence for the person who decides
    #[arg(long, short, value_name = "TEXT")]
    reason: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Patch {
    pub(super) async fn run(self, place: &DaemonPaths) -> Result<ExitCode, Failure> {
        let run_id = pick::run(place, Some(self.run)).await?;
        let patch: Value = serde_json::from_str(&read(&self.file)?)
            .map_err(|error| Failure::usage(format!("'{}' is no JSON: {error}", visible(&self.file))))?;
        let reply = front::ask(place, ProposePatch { run_id, patch, reason: self.reason }).await?;
        if self.json {
            print::json(&reply)?;
        } else {
            for line in reply.difference.lines() {
                let line = visible(line);
                print::line(match line.chars().next() {
                    Some('+') => format!("{GOOD}{line}{GOOD:#}"),
                    Some('-') => format!("{BAD}{line}{BAD:#}"),
                    Some('@') => format!("{QUIET}{line}{QUIET:#}"),
                    _ => line,
                })?;
            }
            for weakened in &reply.weakens {
                print::line(format!("{BAD}!{BAD:#} {STRONG}weakens{STRONG:#}: {}", visible(weakened)))?;
            }
            for checked in &reply.checked {
                print::line(format!("{GOOD}✓{GOOD:#} {}", visible(checked)))?;
            }
            match (&reply.gate_id, &reply.error) {
                (_, Some(error)) => print::error(&visible(error)),
                (Some(gate), None) => print::line(format!("accept or decline it with: steplatch gates answer {gate}"))?,
                (None, None) => {}
            }
        }
        Ok(if reply.success { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }
}

fn read(file: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let reading = match file {
        "-" => std::io::stdin().read_to_string(&mut text).map(drop),
        _ => std::fs::read_to_string(file).map(|read| text = read),
    };
    reading.map_err(|error| Failure::usage(format!("'{}' cannot be read: {error}", visible(file))))?;
    Ok(text)
}
