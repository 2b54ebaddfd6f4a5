//! `steplatch workflow lint FILE…`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use steplatch_daemon::TerminalTools;
use steplatch_workflow::{Definition, Problem, Severity};

use crate::failure::{Failure, USAGE};
use crate::print;

#[derive(Debug, Args)]
pub(crate) struct Lint {
    /// Files with workflows, in JSON
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print the problems as JSON
    #[arg(long)]
    json: bool,
}

impl Lint {
    /// Prints the problems of every file; one that can not be read has that for a problem and does not hide the others.
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let found: Vec<(&PathBuf, Vec<Problem>)> = self.files.iter().map(|file| (file, problems(file))).collect();
        if self.json {
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
