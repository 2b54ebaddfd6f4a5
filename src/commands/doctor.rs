//! `steplatch doctor`: the report of the diagnosis.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use steplatch_protocol::DaemonPaths;

use super::setup;
use crate::doctor::{Check, State, examine};
use crate::failure::Failure;
use crate::print::{self, BAD, GOOD, QUIET, STRONG};

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Check only this client (repeatable)
    #[arg(long, value_name = "NAME", value_parser = setup::names())]
    client: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let checks =
            examine(paths, &self.client, |section| if self.json { Ok(()) } else { print_section(section) }).await?;
        let count = |state| checks.iter().filter(|check| check.state == state).count();
        let (problems, warnings) = (count(State::Problem), count(State::Warning));
        let reply = json!({"success": problems == 0, "problems": problems, "warnings": warnings, "checks": checks});
        if problems > 0 {
            let sentence = match problems {
                1 => "1 problem; its fix is below it".to_owned(),
                many => format!("{many} problems; the fix of each is below it"),
            };
            return Err(Failure::work(sentence).with(&reply));
        }
        if self.json {
            print::json(&reply)?;
        } else {
            print::line(match warnings {
                0 => "ok: no problems".to_owned(),
                1 => "ok: 1 warning".to_owned(),
                many => format!("ok: {many} warnings"),
            })?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Width of the column of subjects.
const SUBJECT_COLUMNS: usize = 21;

fn print_section(section: &[Check]) -> Result<(), Failure> {
    let Some(first) = section.first() else { return Ok(()) };
    print::line(format!("{STRONG}{}{STRONG:#}", first.section))?;
    for check in section {
        let symbol = match check.state {
            State::Ok => format!("{GOOD}✓{GOOD:#}"),
            State::Absent => format!("{QUIET}·{QUIET:#}"),
            State::Warning => format!("{STRONG}!{STRONG:#}"),
            State::Problem => format!("{BAD}✗{BAD:#}"),
        };
        let message = print::hanging(&check.message, SUBJECT_COLUMNS + 6);
        print::line(format!("  {symbol} {}  {message}", print::padded(&check.subject, SUBJECT_COLUMNS)))?;
        if let Some(fix) = &check.fix {
            // Not wrapped, because people copy commands from it.
            print::line(format!("{}{QUIET}→{QUIET:#} {}", " ".repeat(SUBJECT_COLUMNS + 6), print::visible(fix)))?;
        }
    }
    print::line("")?;
    Ok(())
}
