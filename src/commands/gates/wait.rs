//! `steplatch gates wait`: wait until a gate opens.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;
use steplatch_protocol::{DaemonPaths, GateInfo, RunRecord};

use super::gate_line;
use crate::commands::runs::find;
use crate::failure::Failure;
use crate::print::{self, visible};
use crate::run_changes::{RunChange, RunChanges, has_ended};
use crate::wait::{TimeLimit, WaitOptions, WaitOutcome};
use crate::{completion, daemon_client};

/// Wait until a gate is open, and print a line for it
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Wait {
    /// Only gates of these runs and their nested runs: ids or unambiguous prefixes [default: all runs]
    #[arg(value_name = "RUN", add = completion::runs_in_progress())]
    runs: Vec<String>,
    /// Only gates that people may answer
    #[arg(long)]
    human: bool,
    #[command(flatten)]
    options: WaitOptions,
}

const HELP: &str = "\
Example:
  steplatch gates wait --human && notify-send 'a run waits for you'

Exit codes: 0 a gate is open, 1 the runs ended without one, 124 timed out.";

impl Wait {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let mut runs = BTreeSet::new();
        for run in &self.runs {
            runs.insert(find(paths, run).await?);
        }
        let limit = TimeLimit::start(self.options.timeout);
        let selection = Some(runs.clone()).filter(|runs| !runs.is_empty());
        let mut changes = RunChanges::for_runs(daemon_client::reconnecting_client(paths)?, selection);
        loop {
            let update = tokio::select! {
                update = changes.next() => update?,
                () = limit.passed() => return Err(Failure::timed_out("no gate is open")),
            };
            let open_gates = update.changes.iter().filter_map(|change| match change {
                RunChange::GateOpened(gate) if self.is_selected(gate) => Some(gate),
                _ => None,
            });
            let open_gates: Vec<_> = open_gates.collect();
            if !open_gates.is_empty() {
                open_gates.into_iter().try_for_each(|gate| self.print(&update.record, gate))?;
                return Ok(WaitOutcome::Done.exit_code());
            }
            if has_ended(&update.record) && runs.remove(&update.record.run_id) && runs.is_empty() {
                return Err(Failure::work("the runs ended without an open gate"));
            }
        }
    }

    fn is_selected(&self, gate: &GateInfo) -> bool {
        !self.human || gate.answered_by != "agent"
    }

    fn print(&self, record: &RunRecord, gate: &GateInfo) -> Result<(), Failure> {
        if self.options.json {
            print::json_line(gate)?;
        } else {
            print::line(format!("{}  {}  {}", gate.gate_id, visible(&record.workflow_id), gate_line(gate)))?;
        }
        Ok(())
    }
}
