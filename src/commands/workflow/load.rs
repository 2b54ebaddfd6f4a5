//! `steplatch workflow load FILE…`: adds files to the library.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use steplatch_protocol::{CreateWorkflow, CreateWorkflowReply, DaemonPaths, LoadFunctions, LoadFunctionsReply};
use steplatch_workflow::Definition;

use crate::failure::{FAILED, Failure};
use crate::print::{BAD, GOOD, QUIET, STRONG};
use crate::{daemon_client, print};

#[derive(Debug, Args)]
pub(crate) struct Load {
    /// Files: machines in JSON, and functions in Python syntax (.py)
    ///
    /// A pattern such as 'flows/**/*.py' selects all files that match, also if the shell does not expand it.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Replace saved machines of the same name, and files of functions that have another origin or were edited in the
    /// library
    #[arg(long)]
    overwrite: bool,
    /// Reason, for the history of machines
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print the outcome for each file as JSON
    #[arg(long)]
    json: bool,
}

/// Outcome for a file.
#[derive(Serialize)]
struct LoadOutcome {
    file: String,
    #[serde(flatten)]
    reply: Reply,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Reply {
    Machine(CreateWorkflowReply),
    Function(LoadFunctionsReply),
}

impl Load {
    /// Loads each file. An invalid file does not prevent the others.
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let mut outcomes = Vec::new();
        for selected in select_files(&self.files) {
            let outcome = match selected {
                Ok(file) => self.load(file, paths).await?,
                Err((file, error)) => {
                    let reply = CreateWorkflowReply { error: Some(error), ..CreateWorkflowReply::default() };
                    LoadOutcome { file, reply: Reply::Machine(reply) }
                }
            };
            if !self.json || !outcome.is_success() {
                outcome.print()?;
            }
            outcomes.push(outcome);
        }
        if self.json {
            print::json(&outcomes)?;
        } else if outcomes.len() > 1 {
            print::line(summary(&outcomes))?;
        }
        Ok(if outcomes.iter().all(LoadOutcome::is_success) { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }

    async fn load(&self, file: PathBuf, paths: &DaemonPaths) -> Result<LoadOutcome, Failure> {
        let name = file.display().to_string();
        let reply = if file.extension().is_some_and(|extension| extension == "py") {
            Reply::Function(load_functions(&file, self.overwrite, false, paths).await?)
        } else {
            Reply::Machine(match read_definition(&file) {
                Ok(definition) => {
                    let (overwrite_existing, reason) = (self.overwrite, self.reason.clone());
                    let verb = CreateWorkflow { workflow_definition: definition, overwrite_existing, reason };
                    daemon_client::ask(paths, verb).await?
                }
                Err(error) => CreateWorkflowReply { error: Some(error), ..CreateWorkflowReply::default() },
            })
        };
        Ok(LoadOutcome { file: name, reply })
    }
}

/// Loads a file of functions through the daemon, or only checks it.
pub(super) async fn load_functions(
    file: &Path,
    overwrite: bool,
    check_only: bool,
    paths: &DaemonPaths,
) -> Result<LoadFunctionsReply, Failure> {
    let path = std::path::absolute(file)
        .map_err(|error| Failure::usage(format!("'{}' is not a path: {error}", file.display())))?;
    daemon_client::ask(paths, LoadFunctions { file: path.display().to_string(), overwrite, check_only }).await
}

/// Returns the selected files without duplicates. A pattern without a match becomes an error.
fn select_files(arguments: &[String]) -> Vec<Result<PathBuf, (String, String)>> {
    let mut selected: Vec<Result<PathBuf, (String, String)>> = Vec::new();
    for argument in arguments {
        // The name of an existing file may look like a pattern.
        let is_pattern = argument.contains(['*', '?', '[']) && Path::new(argument).symlink_metadata().is_err();
        if !is_pattern {
            selected.push(Ok(argument.into()));
            continue;
        }
        let count = selected.len();
        match glob::glob(argument) {
            Ok(paths) => selected.extend(paths.filter_map(Result::ok).filter(|file| is_loadable(file)).map(Ok)),
            Err(error) => {
                selected.push(Err((argument.clone(), format!("this is not a valid pattern: {error}"))));
                continue;
            }
        }
        if selected.len() == count {
            selected.push(Err((argument.clone(), "no .json or .py file matches".to_owned())));
        }
    }
    let mut seen = std::collections::HashSet::new();
    selected.retain(|entry| entry.as_ref().ok().is_none_or(|file| seen.insert(file.clone())));
    selected
}

/// Returns whether a file that a pattern matches can be loaded. The metadata files of a library cannot.
fn is_loadable(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let is_library_file = name.ends_with(".meta.json") || name == "index.json";
    file.is_file() && (name.ends_with(".py") || name.ends_with(".json")) && !is_library_file
}

/// Reads a workflow from its file, or from a file of the library.
fn read_definition(file: &Path) -> Result<Value, String> {
    let text = std::fs::read(file).map_err(|error| format!("the file cannot be read: {error}"))?;
    Definition::document_in(&text).map_err(|error| format!("this is not JSON: {error}"))
}

impl LoadOutcome {
    fn is_success(&self) -> bool {
        match &self.reply {
            Reply::Machine(reply) => reply.success,
            Reply::Function(reply) => reply.success,
        }
    }

    fn print(&self) -> std::io::Result<()> {
        match &self.reply {
            Reply::Machine(reply) => show_machine(&self.file, reply),
            Reply::Function(reply) if reply.success => show_functions(&self.file, reply),
            Reply::Function(reply) => {
                print::error(&problem_text(&self.file, reply));
                Ok(())
            }
        }
    }
}

fn show_machine(file: &str, reply: &CreateWorkflowReply) -> std::io::Result<()> {
    if reply.success {
        let path = reply.path.as_deref().unwrap_or_default();
        print::line(format!("{file}: saved as {} in {path}", reply.workflow_name))?;
    } else if reply.name_taken || reply.validation_errors.is_empty() {
        let error = reply.error.as_deref().unwrap_or("it was not saved");
        print::error(&format!("{file}: {}", error.replace("overwrite_existing=true", "--overwrite")));
    } else {
        for problem in &reply.validation_errors {
            print::error(&format!("{file}: {}", print::visible(problem)));
        }
    }
    for warning in &reply.warnings {
        print::remark(&format!("{file}: warning: {}", print::visible(warning)));
    }
    Ok(())
}

fn show_functions(file: &str, reply: &LoadFunctionsReply) -> std::io::Result<()> {
    print::line(format!("{file}: {}", reply.outcome.as_deref().unwrap_or("ok")))?;
    let rows: Vec<Vec<String>> = reply
        .declares
        .iter()
        .map(|declared| {
            let description = declared.description.as_deref().unwrap_or_default().lines().next().unwrap_or_default();
            vec![format!("  {}", declared.id), declared.kind.clone(), print::visible(description)]
        })
        .collect();
    for line in print::table(&rows).lines() {
        print::line(print::width().map_or_else(|| line.to_owned(), |width| print::fitted(line, width)))?;
    }
    for warning in &reply.warnings {
        let message = print::visible_lines(&warning.message, "  ");
        print::remark(&format!("{file}{}: warning: {message}", line_suffix(warning.line)));
    }
    Ok(())
}

/// Formats the problems of a file of functions, each with its line and the unchanged message of the interpreter.
pub(super) fn problem_text(file: &str, reply: &LoadFunctionsReply) -> String {
    if reply.problems.is_empty() {
        let error = reply.error.clone().unwrap_or_else(|| format!("{file} was not loaded"));
        return print::visible_lines(&error, "");
    }
    let mut text = String::new();
    for (index, problem) in reply.problems.iter().enumerate() {
        let separator = if index == 0 { "" } else { "\n" };
        let message = print::visible_lines(&problem.message, "");
        // A message of the interpreter that shows the position consists of aligned lines: begin it on a new line.
        let gap = if message.contains("File \"") { "\n" } else { " " };
        // Writing to a String does not fail.
        let _ = write!(text, "{separator}{file}{}:{gap}{message}", line_suffix(problem.line));
    }
    text
}

fn line_suffix(line: Option<u32>) -> String {
    line.map(|line| format!(", line {line}")).unwrap_or_default()
}

/// Counts the outcomes of all files.
fn summary(outcomes: &[LoadOutcome]) -> String {
    let successes = outcomes.iter().filter(|outcome| outcome.is_success());
    let (mut files, mut workflows, mut nodes, mut graphs) = (0, 0, 0, 0);
    for outcome in successes {
        files += 1;
        match &outcome.reply {
            Reply::Machine(_) => workflows += 1,
            Reply::Function(reply) => {
                for declared in &reply.declares {
                    match declared.kind.as_str() {
                        "workflow" => workflows += 1,
                        "graph" => graphs += 1,
                        _ => nodes += 1,
                    }
                }
            }
        }
    }
    let count_text = |count: usize, noun: &str| match count {
        0 => None,
        1 => Some(format!("1 {noun}")),
        count => Some(format!("{count} {noun}s")),
    };
    let declared = [count_text(workflows, "workflow"), count_text(nodes, "node"), count_text(graphs, "graph")];
    let declared: Vec<String> = declared.into_iter().flatten().collect();
    let declarations = if declared.is_empty() { String::new() } else { format!(": {}", declared.join(", ")) };
    let invalid = outcomes.len() - files;
    let mark = if invalid == 0 { format!("{GOOD}✓{GOOD:#}") } else { format!("{BAD}✗{BAD:#}") };
    let failures = if invalid == 0 { String::new() } else { format!("{QUIET}; {invalid} not{QUIET:#}") };
    format!("{mark} {STRONG}{files} of {} files loaded{STRONG:#}{declarations}{failures}", outcomes.len())
}
