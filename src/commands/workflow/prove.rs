//! `steplatch workflow prove`: runs of a captured workflow, compared with its recording.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use steplatch_capture::{Golden, GoldenStep, Proof, remove_volatile_text};
use steplatch_protocol::{CancelWorkflow, DaemonPaths, DescribeWorkflow, RunDifference, RunWorkflow};
use steplatch_workflow::{ContractVariable, Definition, tool};

use super::{golden, source};
use crate::commands::run::{parse_variable, run_to_end};
use crate::difference::show_differences;
use crate::failure::{FAILED, Failure};
use crate::print::{self, GOOD, QUIET, STRONG, padded, visible};
use crate::question::Person;
use crate::typed_inputs::typed_inputs;
use crate::{completion, daemon_client, run_steps, secret_arguments};

/// Run a captured workflow again in fresh terminals and compare it with its recording
///
/// Shows the input that will be typed and runs the workflow twice with the values of the recording, and once more with
/// other values if some are given. The states, exit codes and outputs of commands must equal those of the recording,
/// except for identifiers, temporary paths, times and speeds. The recording stores the proof, with date, version and
/// host.
#[derive(Debug, Args)]
pub(crate) struct Prove {
    /// Name of a saved workflow
    #[arg(value_name = "NAME", add = completion::workflows())]
    workflow: String,
    /// Another value of an argument, for one more run (repeatable)
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = parse_variable)]
    input: Vec<(String, String)>,
    /// If only outputs differ, show the differences, ask, and update the recording with the new outputs. Outputs that
    /// differ between the runs are no longer compared
    #[arg(long)]
    update: bool,
    /// Update the recording without asking
    #[arg(long, requires = "update")]
    yes: bool,
    /// Print the proof, or the differences, as JSON
    #[arg(long)]
    json: bool,
}

/// Number of runs with the values of the recording.
const RECORDED_RUNS: usize = 2;

impl Prove {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let definition = source::read_definition(&self.workflow, paths).await?;
        let reply = daemon_client::ask(paths, DescribeWorkflow { name: self.workflow.clone() }).await?;
        let (Some(file), Some(metadata)) = (reply.file, reply.metadata) else {
            return Err(Failure::usage(format!(
                "'{}' is not saved; only saved workflows can be proved",
                self.workflow
            )));
        };
        let Some(mut golden) = golden::read(&self.workflow, paths).await? else {
            return Err(Failure::usage(format!(
                "'{}' has no recording to compare with; steplatch workflow capture --save makes one",
                self.workflow
            )));
        };
        let arguments = definition.arguments();
        if let Some((name, _)) = self.input.iter().find(|(name, _)| arguments.get(name).is_none()) {
            let names: Vec<&str> = arguments.iter().map(ContractVariable::name).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(Failure::usage(format!(
                "'{name}' is not an argument of '{}', whose arguments are: {names}",
                self.workflow
            )));
        }
        if !self.json {
            print_inputs(&definition)?;
        }
        let Runs { ids, differences, observed } = self.perform_runs(paths, &definition, &golden).await?;
        let only_output = differences.iter().all(|difference| difference.what == "output");
        if !differences.is_empty() {
            show(&differences, self.json)?;
            if !only_output || !self.confirms_update().await? {
                for state in varying_states(&observed) {
                    print::remark(&format!("the output of '{}' differs between runs", visible(state)));
                }
                if only_output && !self.update {
                    print::remark(
                        "only outputs differ: --update stores them in the recording, and no longer compares those that differ \
                         between runs",
                    );
                }
                print::error("not proved");
                return Ok(ExitCode::from(FAILED));
            }
            update_golden(&mut golden, &observed);
        }
        let count = ids.len();
        golden.header.proof = Some(Proof {
            at: jiff::Timestamp::now().to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            hash: metadata.hash,
            runs: ids,
        });
        let path = golden::path(Path::new(&file));
        write_golden(&path, &golden)?;
        if self.json {
            print::json(&golden.header)?;
        } else {
            let path = path.display();
            print::line(format!("{GOOD}✓{GOOD:#} {STRONG}proved{STRONG:#} by {count} runs {QUIET}({path}){QUIET:#}"))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Returns whether to update the recording. Without `--yes`, a person decides after seeing the differences.
    ///
    /// # Errors
    /// If there is no person to ask.
    async fn confirms_update(&self) -> Result<bool, Failure> {
        if !self.update || self.yes {
            return Ok(self.update);
        }
        let Some(mut person) = Person::at_terminal() else {
            return Err(Failure::usage("--update asks a person: run it in a terminal, or add --yes"));
        };
        person.listen();
        print::ask("Update the recording? [y/N] ")?;
        let answer = person.line().await.unwrap_or_default();
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    /// Performs the runs of a proof. Asks for secrets once.
    ///
    /// # Errors
    /// If a run does not complete.
    async fn perform_runs(
        &self,
        paths: &DaemonPaths,
        definition: &Definition,
        golden: &Golden,
    ) -> Result<Runs, Failure> {
        let daemon = daemon_client::reconnecting_client(paths)?;
        let mut secrets = RunWorkflow { workflow_name: Some(self.workflow.clone()), ..RunWorkflow::default() };
        secret_arguments::ask(&daemon, &mut secrets).await?;
        let secrets = secrets.initial_variables.unwrap_or_default();
        let mut runs = Runs::default();
        let other_runs = usize::from(!self.input.is_empty());
        for run_index in 0..RECORDED_RUNS + other_runs {
            let recorded = golden.header.inputs.iter().map(|(name, value)| (name.clone(), value_text(value).into()));
            let mut variables: BTreeMap<String, Value> = recorded.chain(secrets.clone()).collect();
            let has_other_values = run_index >= RECORDED_RUNS;
            if has_other_values {
                // Ignore case, because the option may name an argument in another case.
                let is_replaced = |name: &String| self.input.iter().any(|(input, _)| input.eq_ignore_ascii_case(name));
                variables.retain(|name, _| !is_replaced(name));
                variables.extend(self.input.iter().map(|(name, text)| (name.clone(), text.as_str().into())));
            }
            let verb = RunWorkflow {
                workflow_name: Some(self.workflow.clone()),
                initial_variables: Some(variables),
                ..RunWorkflow::default()
            };
            let reply = run_to_end(&daemon, verb).await?;
            if reply.status != "completed" {
                if reply.status == "waiting" {
                    // Cancel the run, so that the proof leaves no waiting run.
                    daemon_client::ask(paths, CancelWorkflow { run_id: reply.run_id.clone() }).await?;
                }
                let error = reply.error.unwrap_or_else(|| format!("it is {}", reply.status));
                return Err(Failure::work(format!("not proved: run {} did not complete: {error}", reply.run_id)));
            }
            let is_recorded = |step: &GoldenStep| {
                let state = definition.state(&step.state);
                state.is_none_or(|state| state.action().tool() != tool::RETURN)
            };
            let events = run_steps::read_events(paths, &reply.run_id).await?;
            if let Some(state) = run_steps::asking_states(&events).first() {
                let run = &reply.run_id;
                let error = format!("not proved: in run {run}, state '{state}' found none of the expected screens");
                return Err(Failure::work(error));
            }
            let mut observed = steplatch_capture::run_steps(&events);
            observed.retain(is_recorded);
            // With other values, outputs differ: compare only the states and the exit codes.
            let differences = golden.differences(&observed).into_iter();
            runs.differences.extend(differences.filter(|difference| !has_other_values || difference.what != "output"));
            runs.ids.push(reply.run_id);
            if !has_other_values {
                runs.observed.push(observed);
            }
        }
        Ok(runs)
    }
}

/// The runs of a proof.
#[derive(Default)]
struct Runs {
    ids: Vec<String>,
    differences: Vec<RunDifference>,
    /// Observed steps of each run with the values of the recording.
    observed: Vec<Vec<GoldenStep>>,
}

fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Prints the input that a machine types and the commands that it runs.
fn print_inputs(definition: &Definition) -> Result<(), Failure> {
    print::line("It types:")?;
    let inputs = typed_inputs(definition);
    let width = inputs.iter().map(|(state, _)| state.len()).max().unwrap_or(0);
    for (state, typed) in inputs {
        print::line(format!("  {QUIET}{}{QUIET:#}  {}", padded(&state, width), visible(&typed)))?;
    }
    Ok(())
}

/// Returns the states whose outputs differ between the runs.
fn varying_states(observed: &[Vec<GoldenStep>]) -> Vec<&str> {
    let [first, others @ ..] = observed else { return Vec::new() };
    let differs = |(index, step): &(usize, &GoldenStep)| {
        let counterparts = others.iter().filter_map(|run| run.get(*index)).filter(|other| other.state == step.state);
        step.has_output
            && counterparts
                .into_iter()
                .any(|other| remove_volatile_text(&other.prints) != remove_volatile_text(&step.prints))
    };
    first.iter().enumerate().filter(differs).map(|(_, step)| step.state.as_str()).collect()
}

/// Stores the outputs of the last run. Marks outputs that differ between runs. Later proofs do not compare marked
/// outputs.
fn update_golden(golden: &mut Golden, observed: &[Vec<GoldenStep>]) {
    let varying = varying_states(observed);
    let Some(newest) = observed.last() else { return };
    for (golden, step) in golden.steps.iter_mut().zip(newest) {
        if golden.state == step.state && step.has_output {
            golden.prints.clone_from(&step.prints);
            golden.varies |= varying.contains(&step.state.as_str());
        }
    }
}

fn show(differences: &[RunDifference], json: bool) -> Result<(), Failure> {
    if json { Ok(print::json(&differences)?) } else { show_differences(differences) }
}

/// Replaces the file of a recording.
fn write_golden(path: &Path, golden: &Golden) -> Result<(), Failure> {
    let directory = path.parent().unwrap_or_else(|| Path::new("."));
    let replace = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(golden.text().as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    replace().map_err(|error| Failure::work(format!("'{}' cannot be written: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_output_is_accepted_and_not_compared_again() {
        let step = |state: &str, prints: &str| GoldenStep {
            state: state.to_owned(),
            prints: prints.to_owned(),
            exit_code: Some(0),
            has_output: true,
            ..GoldenStep::default()
        };
        let run = |count: &str| vec![step("count", count), step("make", "built in 3 s")];
        let mut golden = Golden { steps: vec![step("count", "1 row"), step("make", "made")], ..Golden::default() };
        let observed = [run("2 rows"), run("3 rows")];
        assert_eq!(varying_states(&observed), ["count"]);
        update_golden(&mut golden, &observed);
        let steps: Vec<_> = golden.steps.iter().map(|step| (step.prints.as_str(), step.varies)).collect();
        assert_eq!(steps, [("3 rows", true), ("built in 3 s", false)]);
        assert_eq!(golden.differences(&run("4 rows")), []);
    }
}
