//! `steplatch runs diff`: two runs beside each other.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use steplatch_protocol::{DaemonPaths, GetRun, RunDetail};

use crate::difference::show_differences;
use crate::failure::{FAILED, Failure};
use crate::print::{self, GOOD, QUIET, STRONG, duration, visible};
use crate::{completion, front, pick};

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
        let one = pick::run(paths, Some(self.one)).await?;
        let other = pick::run(paths, Some(self.other)).await?;
        let verb =
            GetRun { run_id: one, compare_with: Some(other), detail: Some(RunDetail::Brief), ..GetRun::default() };
        let reply = front::ask(paths, verb).await?;
        let Some(compared) = reply.comparison else {
            return Err(Failure::usage(reply.error.unwrap_or_else(|| "the runs cannot be compared".to_owned())));
        };
        if let Some(error) = &compared.error {
            return Err(Failure::usage(error.clone()).with(&compared));
        }
        let none = Value::Null;
        let input = |index: usize| compared.inputs.get(index).unwrap_or(&none);
        if self.json {
            print::json(&compared)?;
        } else {
            show_inputs(input(0), input(1))?;
            show_differences(&compared.differences)?;
            let time = |seconds: f64| duration(Duration::try_from_secs_f64(seconds).unwrap_or_default());
            let times: Vec<String> = compared.elapsed_time.iter().map(|seconds| time(*seconds)).collect();
            let verdict = if compared.same { format!("{GOOD}✓{GOOD:#} the same, ") } else { String::new() };
            print::line(format!("{verdict}{QUIET}{}{QUIET:#}", times.join(" and ")))?;
        }
        Ok(if compared.same { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }
}

/// Prints the differences of the runs' initial variables.
fn show_inputs(one: &Value, other: &Value) -> Result<(), Failure> {
    let fields = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let (one, other) = (fields(one), fields(other));
    let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
    names.sort();
    names.dedup();
    let text = |value: Option<&Value>| value.map_or_else(|| "(none)".to_owned(), |value| visible(&value.to_string()));
    for name in names.into_iter().filter(|name| one.get(*name) != other.get(*name)) {
        let (before, after) = (text(one.get(name)), text(other.get(name)));
        print::line(format!("{STRONG}{}{STRONG:#}: {before} → {after}", visible(name)))?;
    }
    Ok(())
}
