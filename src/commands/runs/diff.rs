//! `steplatch runs diff`: comparison of two runs.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use steplatch_protocol::{DaemonPaths, GetRun, RunDetail};

use crate::difference::show_differences;
use crate::failure::{FAILED, Failure};
use crate::print::{self, GOOD, QUIET, STRONG, duration, visible};
use crate::{completion, daemon_client, pick};

/// Compare two runs: what they were started with, their states, exit codes and outputs, and the time that they took
///
/// Identifiers, temporary paths, times and speeds in outputs count as equal. The first difference is shown first. Exit code: 0 the
/// same, 1 different.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// Id of a run, or its beginning
    #[arg(value_name = "RUN", add = completion::runs())]
    one: String,
    /// Id of the other run
    #[arg(value_name = "OTHER", add = completion::runs())]
    other: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Diff {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let run_id = pick::run(paths, Some(self.one)).await?;
        let other_run_id = pick::run(paths, Some(self.other)).await?;
        let verb =
            GetRun { run_id, compare_with: Some(other_run_id), detail: Some(RunDetail::Brief), ..GetRun::default() };
        let reply = daemon_client::ask(paths, verb).await?;
        let Some(comparison) = reply.comparison else {
            return Err(Failure::usage(reply.error.unwrap_or_else(|| "the runs cannot be compared".to_owned())));
        };
        if let Some(error) = &comparison.error {
            return Err(Failure::usage(error.clone()).with(&comparison));
        }
        let none = Value::Null;
        let input = |index: usize| comparison.inputs.get(index).unwrap_or(&none);
        if self.json {
            print::json(&comparison)?;
        } else {
            show_inputs(input(0), input(1))?;
            show_differences(&comparison.differences)?;
            let time = |seconds: f64| duration(Duration::try_from_secs_f64(seconds).unwrap_or_default());
            let times: Vec<String> = comparison.elapsed_time.iter().map(|seconds| time(*seconds)).collect();
            let verdict = if comparison.same { format!("{GOOD}✓{GOOD:#} the same, ") } else { String::new() };
            print::line(format!("{verdict}{QUIET}{}{QUIET:#}", times.join(" and ")))?;
        }
        Ok(if comparison.same { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }
}

/// Prints the differences of the runs' initial variables.
fn show_inputs(left_inputs: &Value, right_inputs: &Value) -> Result<(), Failure> {
    let fields = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let (left_inputs, right_inputs) = (fields(left_inputs), fields(right_inputs));
    let mut names: Vec<&String> = left_inputs.keys().chain(right_inputs.keys()).collect();
    names.sort();
    names.dedup();
    let text = |value: Option<&Value>| value.map_or_else(|| "(none)".to_owned(), |value| visible(&value.to_string()));
    for name in names.into_iter().filter(|name| left_inputs.get(*name) != right_inputs.get(*name)) {
        let (before, after) = (text(left_inputs.get(name)), text(right_inputs.get(name)));
        print::line(format!("{STRONG}{}{STRONG:#}: {before} → {after}", visible(name)))?;
    }
    Ok(())
}
