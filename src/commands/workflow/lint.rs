//! `steplatch workflow lint FILE…`

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use steplatch_daemon::TerminalTools;
use steplatch_ids::WorkflowName;
use steplatch_protocol::{DescribeWorkflow, Place};
use steplatch_workflow::{Definition, Problem, Severity};

use crate::failure::{Failure, USAGE};
use crate::{front, print};

#[derive(Debug, Args)]
pub(crate) struct Lint {
    /// Files with workflows, in JSON, or names of saved workflows; a file that exists comes first
    #[arg(required = true, value_name = "FILE|NAME")]
    files: Vec<String>,
    /// Print the problems as JSON
    #[arg(long)]
    json: bool,
}

impl Lint {
    /// Prints the problems of every file; one that can not be read has that for a problem and does not hide the others.
    pub(super) async fn run(self, place: &Place) -> Result<ExitCode, Failure> {
        let mut found: Vec<(&String, Vec<Problem>)> = Vec::new();
        for file in &self.files {
            found.push((file, problems(file, place).await?));
        }
        if self.json {
            let told = |(file, problems): &(&String, Vec<Problem>)| json!({"file": file, "problems": problems});
            print::json(&found.iter().map(told).collect::<Vec<_>>())?;
        } else {
            for (file, problems) in &found {
                if problems.is_empty() {
                    print::line(format!("{file}: in order"))?;
                }
                for problem in problems {
                    print::line(format!("{file}: {problem}"))?;
                }
            }
        }
        let wrong = found.iter().flat_map(|(_, problems)| problems).any(|problem| problem.severity == Severity::Error);
        Ok(if wrong { ExitCode::from(USAGE) } else { ExitCode::SUCCESS })
    }
}

async fn problems(file: &str, place: &Place) -> Result<Vec<Problem>, Failure> {
    // Only what can be a name needs the daemon; a path with an ending never is one.
    let is_name = !Path::new(file).exists() && file.parse::<WorkflowName>().is_ok();
    let parsed = if is_name {
        let reply = front::ask(place, DescribeWorkflow { name: file.to_owned() }).await?;
        match reply.definition {
            Some(definition) => Definition::parse(&definition, &TerminalTools),
            None => {
                let error = reply.error.unwrap_or_else(|| "there is no such workflow".to_owned());
                return Ok(vec![Problem::error("", format!("there is no file of that name. {error}"))]);
            }
        }
    } else {
        match std::fs::read_to_string(file) {
            Ok(text) => Definition::from_text(&text, &TerminalTools),
            Err(error) => return Ok(vec![Problem::error("", format!("the file can not be read: {error}"))]),
        }
    };
    Ok(match parsed {
        Ok(definition) => definition.warnings().to_vec(),
        Err(problems) => problems.into_iter().collect(),
    })
}
