//! `steplatch runs diff`: two runs beside each other.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use steplatch_capture::Golden;
use steplatch_protocol::DaemonPaths;

use crate::difference::show_differences;
use crate::failure::{FAILED, Failure};
use crate::print::{self, GOOD, QUIET, STRONG, duration, visible};
use crate::{completion, pick, run_steps};

/// Compare two runs: what they were started with, their states, exit codes and outputs, and the time that they took
///
/// Numbers, identifiers and temporary paths in outputs count as equal. The first difference is shown first. Exit code: 0 the
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
    pub(super) async fn run(self, place: &DaemonPaths) -> Result<ExitCode, Failure> {
        let one = pick::run(place, Some(self.one)).await?;
        let other = pick::run(place, Some(self.other)).await?;
        let (first, second) = (run_steps::events(place, &one).await?, run_steps::events(place, &other).await?);
        let (steps, others) = (run_steps::steps(&first), run_steps::steps(&second));
        let differences = Golden { steps, ..Golden::default() }.differences(&others);
        let inputs = (run_steps::input(&first), run_steps::input(&second));
        let total = |times: Vec<f64>| times.iter().sum::<f64>();
        let times = (total(run_steps::times(&first)), total(run_steps::times(&second)));
        let is_same = differences.is_empty() && inputs.0 == inputs.1;
        if self.json {
            print::json(&json!({
                "runs": [one, other],
                "same": is_same,
                "inputs": [inputs.0, inputs.1],
                "elapsed_time": [times.0, times.1],
                "differences": differences,
            }))?;
        } else {
            show_inputs(&inputs.0, &inputs.1)?;
            show_differences(&differences)?;
            let time = |seconds: f64| duration(Duration::try_from_secs_f64(seconds).unwrap_or_default());
            let took = format!("{QUIET}{} and {}{QUIET:#}", time(times.0), time(times.1));
            let verdict = if is_same { format!("{GOOD}✓{GOOD:#} the same, ") } else { String::new() };
            print::line(format!("{verdict}{} states, {took}", others.len()))?;
        }
        Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }
}

/// Prints the variables that the runs were not started with alike.
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
