//! `steplatch runs patch`: a proposed repair of the workflow of a run that stopped.

use std::io::Read as _;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use steplatch_protocol::{DaemonPaths, ProposePatch};

use crate::failure::{FAILED, Failure};
use crate::print::{self, BAD, GOOD, QUIET, STRONG, visible};
use crate::{completion, daemon_client, pick};

/// Propose a repair of a workflow, for a run that stopped at an unexpected screen
///
/// The patch is a JSON Patch (RFC 6902). The daemon checks it: the patched workflow must be valid and pass its
/// recording; weakened checks are listed. Then a person accepts it at a gate: 'steplatch gates answer', or the page. An
/// accepted patch becomes the next version of the saved workflow, and the run continues with it.
#[derive(Debug, Args)]
pub(crate) struct Patch {
    /// Waiting run: its id or an unambiguous prefix
    #[arg(value_name = "RUN", add = completion::runs_in_progress())]
    run: String,
    /// File with the patch; - reads standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Reason, in a sentence for the person who decides
    #[arg(long, short, value_name = "TEXT")]
    reason: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Patch {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let run_id = pick::run(paths, Some(self.run)).await?;
        let patch: Value = serde_json::from_str(&read_patch(&self.file)?)
            .map_err(|error| Failure::usage(format!("'{}' is not JSON: {error}", visible(&self.file))))?;
        let reply = daemon_client::ask(paths, ProposePatch { run_id, patch, reason: self.reason }).await?;
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
            for weakened_check in &reply.weakens {
                print::line(format!("{BAD}!{BAD:#} {STRONG}weakens{STRONG:#}: {}", visible(weakened_check)))?;
            }
            for passed_check in &reply.checked {
                print::line(format!("{GOOD}✓{GOOD:#} {}", visible(passed_check)))?;
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

fn read_patch(file: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let result = match file {
        "-" => std::io::stdin().read_to_string(&mut text).map(drop),
        _ => std::fs::read_to_string(file).map(|content| text = content),
    };
    result.map_err(|error| Failure::usage(format!("'{}' cannot be read: {error}", visible(file))))?;
    Ok(text)
}
