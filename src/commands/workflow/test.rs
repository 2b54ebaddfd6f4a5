//! `steplatch workflow test`: execution of a workflow with stubs.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value};
use steplatch_daemon::TerminalTools;
use steplatch_protocol::DaemonPaths;
use steplatch_workflow::{Limits, Rehearsal, RehearsalEnd, RehearsalStep, Source, Stubs, rehearse};

use super::{golden, recorded, source};
use crate::action::{self, Outcome};
use crate::failure::{FAILED, Failure, USAGE};
use crate::print::{self, BAD, GOOD, QUIET, STRONG, duration, fitted, padded, visible};

/// Description of stub files in the long help.
const STUB_FILE: &str = r#"A stub file is JSON; every part may be left out:

  {
    "states": {"wait": [{"match_text": "error"}, "timeout", {"match_text": "done", "elapsed_time": 3}],
               "look": {"screen_content": "0 warnings"}},
    "tools":  {"send_input": {"success": true}},
    "gates":  {"judge": "the build has no warnings"},
    "shell":  {"PROJECT_ROOT": "/x", "BUILD_STATUS": "green"},
    "session_id": "term_1"
  }

  states      the result of the action of a state: an object with fields, "timeout" or "outcome_unknown".
              A list is used up in order, and one visit more is an error; what stands without a list
              is the result of every visit. elapsed_time is how many seconds it takes (0 without it).
  tools       the same, for all states with that tool that are not named above
  gates       the judgement after a state: the text of the choice, or "none of these"
  shell       variables that the shell has: arguments before the run, return values after it
  session_id  the terminal that the run is given; a workflow that opens none has one anyway

Without a stub, open_terminal makes an id up, sleep takes its time, run_workflow completes, and the others succeed.
Only what a program prints is never guessed: an await_output that waits for a pattern needs a result.

Exit code: 0 completed, 1 failed, 2 not valid, or the stubs do not determine the next state."#;

/// Dry-run a workflow against stubbed results, or against the recording that it was captured from
#[derive(Debug, Args)]
#[command(after_long_help = STUB_FILE)]
pub(crate) struct Test {
    /// File with the workflow, in JSON, or the name of a saved one
    #[arg(value_name = "FILE|NAME", add = crate::completion::files_and_workflows())]
    workflow: String,
    /// JSON file with the results of actions, gates and the shell; --help shows an example
    #[arg(long, value_name = "FILE")]
    stub: Option<PathBuf>,
    /// Use the results, answers and variables of a run: its id or an unambiguous prefix
    #[arg(long, value_name = "RUN", conflicts_with = "stub", add = crate::completion::runs())]
    from: Option<String>,
    /// Print the stub file of the run of --from, for editing
    #[arg(long, requires = "from")]
    print_stubs: bool,
    /// Set a workflow variable (repeatable)
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = super::super::run::parse_variable)]
    input: Vec<(String, String)>,
    /// Maximum number of states to execute
    #[arg(long, value_name = "N", default_value_t = 100)]
    max_states: u32,
    /// Time limit of the run in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1800.0)]
    timeout: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Test {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let limits = Limits::new(self.max_states, self.timeout).map_err(|error| Failure::usage(error.to_string()))?;
        let definition = source::read_definition(&self.workflow, paths).await?;
        let mut variables = Map::new();
        let stubs = match (&self.stub, self.from) {
            (None, None) => match golden::read(&self.workflow, paths).await? {
                Some(golden) => {
                    variables = golden.variables(&definition);
                    let stubs = golden.stubs(|state| definition.state(state).is_some());
                    Stubs::read(&stubs, &definition, &TerminalTools)
                        .map_err(|problems| Failure::usage(format!("its recording does not fit it:\n{problems}")))?
                }
                None => Stubs::default(),
            },
            (None, Some(run)) => {
                let run = crate::pick::run(paths, Some(run)).await?;
                let recorded = recorded::read(paths, &run, &definition).await?;
                if self.print_stubs {
                    print::json(&recorded.stubs)?;
                    return Ok(ExitCode::SUCCESS);
                }
                variables = recorded.variables;
                Stubs::read(&recorded.stubs, &definition, &TerminalTools)
                    .map_err(|problems| Failure::usage(format!("run {run} does not fit the workflow:\n{problems}")))?
            }
            (Some(file), _) => {
                let text = std::fs::read_to_string(file)
                    .map_err(|error| Failure::usage(format!("'{}' cannot be read: {error}", file.display())))?;
                Stubs::from_text(&text, &definition, &TerminalTools).map_err(|problems| {
                    Failure::usage(format!("the stubs in '{}' do not fit the workflow:\n{problems}", file.display()))
                })?
            }
        };
        variables.extend(self.input.into_iter().map(|(name_widths, value)| (name_widths, Value::String(value))));
        let rehearsal = rehearse(&definition, &stubs, variables, limits);
        if self.json {
            print::json(&rehearsal)?;
        } else {
            show(&rehearsal)?;
        }
        Ok(match rehearsal.end {
            RehearsalEnd::Completed => ExitCode::SUCCESS,
            RehearsalEnd::Failed { .. } => ExitCode::from(FAILED),
            RehearsalEnd::Stuck { .. } => ExitCode::from(USAGE),
        })
    }
}

fn show(rehearsal: &Rehearsal) -> Result<(), Failure> {
    let name_widths = |step: &RehearsalStep| match step {
        RehearsalStep::State { state, tool, .. } => (state.len(), tool.len()),
        RehearsalStep::Transition { .. } | RehearsalStep::Gate { .. } | RehearsalStep::Contract { .. } => (0, 0),
    };
    let (state, tool) =
        rehearsal.path.iter().map(name_widths).fold((0, 0), |max, width| (max.0.max(width.0), max.1.max(width.1)));
    // A name may have 64 characters. Limit the column, because an unusually long name shifts its own line.
    let columns = Columns { state: state.min(24), tool, width: print::width() };
    for (number, step) in rehearsal.path.iter().enumerate() {
        let has_transition = matches!(rehearsal.path.get(number + 1), Some(RehearsalStep::Transition { .. }));
        print::line(columns.format_line(step, has_transition))?;
    }
    let time = format_seconds(rehearsal.elapsed_time.as_secs_f64());
    let states = if rehearsal.states_executed == 1 {
        "1 state".to_owned()
    } else {
        format!("{} states", rehearsal.states_executed)
    };
    match &rehearsal.end {
        RehearsalEnd::Completed => {
            print::line(format!("{GOOD}✓{GOOD:#} {STRONG}completed{STRONG:#} after {time}, {states}"))?;
            for (name_widths, value) in &rehearsal.return_values {
                print::line(format!("  {name_widths} = {}", visible(value)))?;
            }
        }
        RehearsalEnd::Failed { error } => {
            print::line(format!("{BAD}✗{BAD:#} {STRONG}failed{STRONG:#} after {time}, {states}: {}", visible(error)))?;
        }
        RehearsalEnd::Stuck { error } => {
            print::line(format!("{BAD}?{BAD:#} {STRONG}stuck{STRONG:#} after {time}, {states}"))?;
            print::error(&visible(error));
        }
    }
    for sentence in &rehearsal.left_over {
        print::remark(&format!("note: {sentence}"));
    }
    Ok(())
}

/// Widths of the columns of a path.
struct Columns {
    state: usize,
    tool: usize,
    width: Option<usize>,
}

/// Width of the column of times: `99 min 59 s`.
const TIME_COLUMNS: usize = 11;

impl Columns {
    /// Formats the line of a step. With `has_transition`, a transition follows, and a failure is not marked as an
    /// error.
    fn format_line(&self, step: &RehearsalStep, has_transition: bool) -> String {
        let indent = " ".repeat(TIME_COLUMNS + 2);
        match step {
            RehearsalStep::State { at, state, tool, params, result, source, elapsed_time, .. } => {
                let result = Value::Object(result.clone());
                let outcome = Outcome::from_result(None, &result);
                let (mark, style) =
                    if outcome == Outcome::Failed && has_transition { ("·", QUIET) } else { outcome.mark() };
                let params = Value::Object(params.clone());
                let detail = action::join_outcome(&action::detail(tool, &params), &outcome.describe(tool, &result));
                let mut remarks = Vec::new();
                if *elapsed_time > 0.0 {
                    remarks.push(format!("takes {}", format_seconds(*elapsed_time)));
                }
                remarks.extend(match source {
                    Source::State | Source::Rules => None,
                    Source::Tool => Some("as the tool".to_owned()),
                    Source::Usual => Some("not stubbed".to_owned()),
                });
                let remark = if remarks.is_empty() { String::new() } else { format!("  ({})", remarks.join(", ")) };
                let prefix_width = TIME_COLUMNS + 2 + 2 + self.state + 2 + self.tool + 2;
                let room = self.width.unwrap_or(120).saturating_sub(prefix_width + remark.len()).max(20);
                format!(
                    "{QUIET}{:>TIME_COLUMNS$}{QUIET:#}  {style}{mark}{style:#} {}  {QUIET}{}{QUIET:#}  {}{QUIET}{remark}{QUIET:#}",
                    format_seconds(*at),
                    padded(state, self.state),
                    padded(tool, self.tool),
                    fitted(&detail, room),
                )
            }
            RehearsalStep::Transition { to, because, .. } => {
                format!("{indent}{QUIET}→{QUIET:#} {to}  {QUIET}{}{QUIET:#}", visible(because))
            }
            RehearsalStep::Gate { choices, answer, .. } => {
                let other_choices: Vec<String> =
                    choices.iter().filter(|choice| *choice != answer).map(|other| visible(other)).collect();
                format!("{indent}◆ judged: {}  {QUIET}(not: {}){QUIET:#}", visible(answer), other_choices.join("; "))
            }
            RehearsalStep::Contract { side, variables, holds, .. } => {
                let (mark, style) = if *holds { ("✓", GOOD) } else { ("✗", BAD) };
                let side = match side {
                    steplatch_workflow::Side::Arguments => "arguments",
                    steplatch_workflow::Side::ReturnValues => "return values",
                };
                let values: Vec<String> =
                    variables.iter().map(|(name_widths, value)| format!("{name_widths}={}", visible(value))).collect();
                let values = if values.is_empty() { "none".to_owned() } else { values.join(", ") };
                format!("{indent}{style}{mark}{style:#} {side}: {values}")
            }
        }
    }
}

/// Formats a duration in seconds, with `0 s` for zero.
fn format_seconds(seconds: f64) -> String {
    if seconds == 0.0 { "0 s".to_owned() } else { duration(Duration::from_secs_f64(seconds)) }
}
