//! `steplatch workflow lint FILE…`: the problems of files.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use steplatch_protocol::{DaemonPaths, FileProblem};
use steplatch_workflow::{Problem, Severity};

use super::load;
use super::source::{self, WorkflowSource};
use crate::failure::{Failure, USAGE};
use crate::print;

#[derive(Debug, Args)]
pub(crate) struct Lint {
    /// Files with workflows, in JSON or in Python syntax (.py), or names of saved workflows; an existing file takes precedence
    #[arg(required = true, value_name = "FILE|NAME", add = crate::completion::files_and_workflows())]
    files: Vec<String>,
    /// Print the problems as JSON
    #[arg(long)]
    json: bool,
}

impl Lint {
    /// Prints the problems of every file. An unreadable file counts as a problem.
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let mut file_problems: Vec<(&String, Vec<Problem>)> = Vec::new();
        for file in &self.files {
            file_problems.push((file, find_problems(file, paths).await?));
        }
        if self.json {
            let to_json = |(file, problems): &(&String, Vec<Problem>)| json!({"file": file, "problems": problems});
            print::json(&file_problems.iter().map(to_json).collect::<Vec<_>>())?;
        } else {
            for (file, problems) in &file_problems {
                if problems.is_empty() {
                    print::line(format!("{file}: ok"))?;
                }
                for problem in problems {
                    print::line(format!("{file}: {}", print::visible_lines(&problem.to_string(), "")))?;
                }
            }
        }
        let has_errors =
            file_problems.iter().flat_map(|(_, problems)| problems).any(|problem| problem.severity == Severity::Error);
        Ok(if has_errors { ExitCode::from(USAGE) } else { ExitCode::SUCCESS })
    }
}

async fn find_problems(file: &str, paths: &DaemonPaths) -> Result<Vec<Problem>, Failure> {
    if Path::new(file).extension().is_some_and(|ending| ending == "py") {
        return function_problems(Path::new(file), paths).await;
    }
    Ok(match source::read(file, paths).await? {
        WorkflowSource::Workflow(parsed) => match *parsed {
            Ok(definition) => definition.warnings().iter().cloned().chain(definition.advice()).collect(),
            Err(problems) => problems.into_iter().collect(),
        },
        WorkflowSource::Function(file) => function_problems(&file, paths).await?,
        WorkflowSource::Unreadable(error) => vec![Problem::error("", error)],
    })
}

/// Returns the problems of a file of functions. The daemon checks the file without loading it.
async fn function_problems(file: &Path, paths: &DaemonPaths) -> Result<Vec<Problem>, Failure> {
    let reply = load::load_functions(file, false, true, paths).await?;
    if reply.problems.is_empty() && !reply.success {
        return Ok(vec![Problem::error("", reply.error.unwrap_or_else(|| "it cannot be checked".to_owned()))]);
    }
    let message = |FileProblem { line, message }: FileProblem| {
        let position = line.map(|line| format!("line {line}:")).unwrap_or_default();
        let gap = if message.contains("File \"") { "\n" } else { " " };
        if position.is_empty() { message } else { format!("{position}{gap}{message}") }
    };
    let errors = reply.problems.into_iter().map(|problem| Problem::error("", message(problem)));
    let warnings = reply.warnings.into_iter().map(|problem| Problem::warning("", message(problem)));
    Ok(errors.chain(warnings).collect())
}
