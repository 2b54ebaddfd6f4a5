//! `steplatch workflow …`
//!
//! None of these needs a daemon: a definition is looked at where it lies.

mod graph;
mod source;
mod test;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;
use steplatch_daemon::TerminalTools;
use steplatch_workflow::{Definition, Problem, Severity, documentation, schema};

use crate::failure::{Failure, USAGE};
use crate::print;

#[derive(Debug, Subcommand)]
pub(crate) enum Workflow {
    /// Say everything that is wrong with workflows, and where
    Lint {
        /// Files with workflows, in JSON
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Print the problems as JSON
        #[arg(long)]
        json: bool,
    },
    /// Draw a workflow, as a diagram in Mermaid's language or as a picture
    Graph(graph::Graph),
    Test(test::Test),
    /// Print the JSON Schema of workflows
    Schema {
        /// Print a page to read instead, in Markdown
        #[arg(long)]
        documentation: bool,
    },
}

impl Workflow {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Lint { files, json } => lint(&files, json),
            Self::Graph(command) => command.run(),
            Self::Test(command) => command.run(),
            Self::Schema { documentation: true } => {
                print::exactly(&documentation(&TerminalTools))?;
                Ok(ExitCode::SUCCESS)
            }
            Self::Schema { documentation: false } => {
                print::json(&schema(&TerminalTools))?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// Prints the problems of every file; one that can not be read has that for a problem and does not hide the others.
fn lint(files: &[PathBuf], json: bool) -> Result<ExitCode, Failure> {
    let found: Vec<(&PathBuf, Vec<Problem>)> = files.iter().map(|file| (file, problems(file))).collect();
    if json {
        let told = |(file, problems): &(&PathBuf, Vec<Problem>)| json!({"file": file, "problems": problems});
        print::json(&found.iter().map(told).collect::<Vec<_>>())?;
    } else {
        for (file, problems) in &found {
            if problems.is_empty() {
                print::line(format!("{}: in order", file.display()))?;
            }
            for problem in problems {
                print::line(format!("{}: {problem}", file.display()))?;
            }
        }
    }
    let wrong = found.iter().flat_map(|(_, problems)| problems).any(|problem| problem.severity == Severity::Error);
    Ok(if wrong { ExitCode::from(USAGE) } else { ExitCode::SUCCESS })
}

fn problems(file: &Path) -> Vec<Problem> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return vec![Problem::error("", format!("the file can not be read: {error}"))],
    };
    match Definition::from_text(&text, &TerminalTools) {
        Ok(definition) => definition.warnings().to_vec(),
        Err(problems) => problems.into_iter().collect(),
    }
}
