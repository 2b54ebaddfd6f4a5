//! `steplatch runs wait`: wait until runs end, or wait at a gate.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use steplatch_protocol::{DaemonPaths, RunRecord};

use super::{all, find, run_duration};
use crate::commands::gates::gate_line;
use crate::failure::Failure;
use crate::print::{self, visible};
use crate::run_changes::{RunChanges, has_ended};
use crate::translation::for_people;
use crate::wait::{TimeLimit, WaitOptions, WaitOutcome};
use crate::{completion, daemon_client};

/// Wait until runs end or wait at a gate, and print a line for each
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Wait {
    /// Runs: ids or unambiguous prefixes [default: all that are in progress]
    #[arg(value_name = "RUN", add = completion::runs_in_progress())]
    runs: Vec<String>,
    /// Return at the first run instead of waiting for all
    #[arg(long)]
    any: bool,
    /// Wait for the end of the runs, also across gates
    #[arg(long)]
    through_gates: bool,
    #[command(flatten)]
    options: WaitOptions,
}

const HELP: &str = "\
Examples:
  steplatch runs wait run_c54r && make publish     # publishes if the run completes
  steplatch runs wait --any --timeout 600          # the first run in progress, for 10 minutes

Exit codes: 0 all completed, 1 a run failed or was cancelled, 3 one waits at a gate, 124 timed out.";

impl Wait {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let mut runs = BTreeSet::new();
        for run in &self.runs {
            runs.insert(find(paths, run).await?);
        }
        if self.runs.is_empty() {
            for state in ["running", "waiting"] {
                runs.extend(all(paths, Some(state)).await?.into_iter().map(|run| run.run_id));
            }
            if runs.is_empty() {
                print::remark("no run is in progress");
                return Ok(ExitCode::SUCCESS);
            }
        }
        let limit = TimeLimit::start(self.options.timeout);
        let mut changes = RunChanges::for_runs(daemon_client::reconnecting_client(paths)?, Some(runs.clone()));
        let mut outcomes: BTreeMap<String, WaitOutcome> = BTreeMap::new();
        while outcomes.len() < runs.len() {
            let update = tokio::select! {
                update = changes.next() => update?,
                () = limit.passed() => {
                    let unfinished: Vec<_> = runs.iter().filter(|run| !outcomes.contains_key(*run)).cloned().collect();
                    return Err(Failure::timed_out(format!("still in progress: {}", unfinished.join(", "))));
                }
            };
            let record = update.record;
            match outcome(&record, self.through_gates) {
                // The gate was answered during the wait for other runs.
                None => _ = outcomes.remove(&record.run_id),
                Some(outcome) => {
                    if outcomes.insert(record.run_id.clone(), outcome) != Some(outcome) {
                        self.print(&record)?;
                    }
                    if self.any {
                        return Ok(outcome.exit_code());
                    }
                }
            }
        }
        Ok(outcomes.into_values().max().unwrap_or(WaitOutcome::Done).exit_code())
    }

    fn print(&self, record: &RunRecord) -> Result<(), Failure> {
        if self.options.json {
            print::json_line(&document(record))?;
        } else {
            let detail = detail(record);
            let line = format!("{}  {}  {}  {detail}", record.run_id, visible(&record.workflow_id), record.state);
            print::line(line.trim_end())?;
        }
        Ok(())
    }
}

/// Returns the outcome of the wait for a run. `None` while the run is in progress.
fn outcome(record: &RunRecord, through_gates: bool) -> Option<WaitOutcome> {
    match record.state.as_str() {
        "completed" => Some(WaitOutcome::Done),
        _ if has_ended(record) => Some(WaitOutcome::Failed),
        state if state == "waiting" || !record.pending_gates.is_empty() => {
            Some(WaitOutcome::Asks).filter(|_| !through_gates)
        }
        _ => None,
    }
}

/// Describes a run beyond its state on one line: the duration and error, or the open gates.
pub(crate) fn detail(record: &RunRecord) -> String {
    if has_ended(record) {
        let error = record.error.as_deref().map(|error| error.trim_end().lines().next_back().unwrap_or_default());
        let error = error.map(|error| format!(": {}", visible(&for_people(error)))).unwrap_or_default();
        return format!("in {}{error}", run_duration(record));
    }
    match record.pending_gates.as_slice() {
        [] if record.locked => "locked; unlock with: steplatch approver unlock".to_owned(),
        [] => String::new(),
        gates => gates.iter().map(gate_line).collect::<Vec<_>>().join("; "),
    }
}

/// Returns a run as a JSON object.
pub(crate) fn document(record: &RunRecord) -> Value {
    json!({
        "run_id": record.run_id,
        "workflow_id": record.workflow_id,
        "state": record.state,
        "error": record.error,
        "result": record.result,
        "gates": record.pending_gates,
    })
}

#[cfg(test)]
mod tests {
    use steplatch_protocol::GateInfo;

    use super::*;

    #[test]
    fn wait_ends_at_the_end_of_a_run_and_at_a_gate() {
        let run = |state: &str| RunRecord { state: state.to_owned(), ..RunRecord::default() };
        let nested = RunRecord { pending_gates: vec![GateInfo::default()], ..run("running") };
        for (record, rests, through) in [
            (run("pending"), None, None),
            (run("running"), None, None),
            (nested, Some(WaitOutcome::Asks), None),
            (run("waiting"), Some(WaitOutcome::Asks), None),
            (run("completed"), Some(WaitOutcome::Done), Some(WaitOutcome::Done)),
            (run("failed"), Some(WaitOutcome::Failed), Some(WaitOutcome::Failed)),
            (run("cancelled"), Some(WaitOutcome::Failed), Some(WaitOutcome::Failed)),
        ] {
            assert_eq!((outcome(&record, false), outcome(&record, true)), (rests, through), "{}", record.state);
        }
    }
}
