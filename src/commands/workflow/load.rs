//! `steplatch workflow load FILE…`: add files to the library.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use steplatch_protocol::{CreateWorkflow, CreateWorkflowReply, DaemonPaths, LoadFunctions, LoadFunctionsReply};

use crate::failure::{FAILED, Failure};
use crate::print::{BAD, GOOD, QUIET, STRONG};
use crate::{front, print};

#[derive(Debug, Args)]
pub(crate) struct Load {
    /// Files: machines in JSON, and functions in Python syntax (.py)
    ///
    /// A pattern such as 'flows/**/*.py' selects all files that match, also if the shell does not expand it.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Replace saved machines of the same name, and files of functions that differ in origin or were edited in the library
    #[arg(long)]
    overwrite: bool,
    /// Why, for the history of machines
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print the outcome for each file as JSON
    #[arg(long)]
    json: bool,
}

/// The outcome for a file.
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
    /// Loads each file; an invalid one does not prevent the others.
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let mut all = Vec::new();
        for named in select_files(&self.files) {
            let loaded = match named {
                Ok(file) => self.load(file, paths).await?,
                Err((file, error)) => {
                    let reply = CreateWorkflowReply { error: Some(error), ..CreateWorkflowReply::default() };
                    LoadOutcome { file, reply: Reply::Machine(reply) }
                }
            };
            if !self.json || !loaded.success() {
                loaded.show()?;
            }
            all.push(loaded);
        }
        if self.json {
            print::json(&all)?;
        } else if all.len() > 1 {
            print::line(total(&all))?;
        }
        Ok(if all.iter().all(LoadOutcome::success) { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }

    async fn load(&self, file: PathBuf, paths: &DaemonPaths) -> Result<LoadOutcome, Failure> {
        let shown = file.display().to_string();
        let reply = if file.extension().is_some_and(|ending| ending == "py") {
            Reply::Function(functions(&file, self.overwrite, false, paths).await?)
        } else {
            Reply::Machine(match definition(&file) {
                Ok(definition) => {
                    let (overwrite_existing, reason) = (self.overwrite, self.reason.clone());
                    let verb = CreateWorkflow { workflow_definition: definition, overwrite_existing, reason };
                    front::ask(paths, verb).await?
                }
                Err(error) => CreateWorkflowReply { error: Some(error), ..CreateWorkflowReply::default() },
            })
        };
        Ok(LoadOutcome { file: shown, reply })
    }
}

/// Loads a file of functions through the daemon, or only checks it.
pub(super) async fn functions(
    file: &Path,
    overwrite: bool,
    check_only: bool,
    paths: &DaemonPaths,
) -> Result<LoadFunctionsReply, Failure> {
    let shown = file.display();
    let path = std::path::absolute(file).map_err(|error| Failure::usage(format!("'{shown}' is no path: {error}")))?;
    front::ask(paths, LoadFunctions { file: path.display().to_string(), overwrite, check_only }).await
}

/// Returns the selected files, each once; a word without a file comes with the reason.
fn select_files(words: &[String]) -> Vec<Result<PathBuf, (String, String)>> {
    let mut named: Vec<Result<PathBuf, (String, String)>> = Vec::new();
    for word in words {
        // An existing file whose name looks like a pattern is a file.
        let is_pattern = word.contains(['*', '?', '[']) && Path::new(word).symlink_metadata().is_err();
        if !is_pattern {
            named.push(Ok(word.into()));
            continue;
        }
        let before = named.len();
        match glob::glob(word) {
            Ok(found) => named.extend(found.filter_map(Result::ok).filter(|file| is_loadable(file)).map(Ok)),
            Err(error) => {
                named.push(Err((word.clone(), format!("this is no pattern: {error}"))));
                continue;
            }
        }
        if named.len() == before {
            named.push(Err((word.clone(), "no file that ends in .json or .py is called so".to_owned())));
        }
    }
    let mut seen = std::collections::HashSet::new();
    named.retain(|one| one.as_ref().ok().is_none_or(|file| seen.insert(file.clone())));
    named
}

/// Returns whether a file that a pattern matches is loadable: the library's metadata files are not.
fn is_loadable(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let is_ours = name.ends_with(".meta.json") || name == "index.json";
    file.is_file() && (name.ends_with(".py") || name.ends_with(".json")) && !is_ours
}

/// Reads a workflow, or a file of the library, in which it is beside its metadata.
fn definition(file: &Path) -> Result<Value, String> {
    let text = std::fs::read(file).map_err(|error| format!("the file cannot be read: {error}"))?;
    let mut document: Value = serde_json::from_slice(&text).map_err(|error| format!("this is not JSON: {error}"))?;
    match document.get_mut("definition") {
        Some(definition @ Value::Object(_)) => Ok(definition.take()),
        _ => Ok(document),
    }
}

impl LoadOutcome {
    fn success(&self) -> bool {
        match &self.reply {
            Reply::Machine(reply) => reply.success,
            Reply::Function(reply) => reply.success,
        }
    }

    fn show(&self) -> std::io::Result<()> {
        match &self.reply {
            Reply::Machine(reply) => show_machine(&self.file, reply),
            Reply::Function(reply) if reply.success => show_functions(&self.file, reply),
            Reply::Function(reply) => {
                print::error(&wrong(&self.file, reply));
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
            let about = declared.description.as_deref().unwrap_or_default().lines().next().unwrap_or_default();
            vec![format!("  {}", declared.id), declared.kind.clone(), print::visible(about)]
        })
        .collect();
    for line in print::table(&rows).lines() {
        print::line(print::width().map_or_else(|| line.to_owned(), |width| print::fitted(line, width)))?;
    }
    for warning in &reply.warnings {
        let message = print::visible_lines(&warning.message, "  ");
        print::remark(&format!("{file}{}: warning: {message}", line(warning.line)));
    }
    Ok(())
}

/// Returns the problems of a file of functions: every problem with its line, the interpreter's messages unchanged.
pub(super) fn wrong(file: &str, reply: &LoadFunctionsReply) -> String {
    if reply.problems.is_empty() {
        let error = reply.error.clone().unwrap_or_else(|| format!("{file} was not loaded"));
        return print::visible_lines(&error, "");
    }
    let mut text = String::new();
    for (index, problem) in reply.problems.iter().enumerate() {
        let begin = if index == 0 { "" } else { "\n" };
        let message = print::visible_lines(&problem.message, "");
        // The interpreter's message shows the place itself, in its own aligned lines.
        let gap = if message.contains("File \"") { "\n" } else { " " };
        // Writing to a String does not fail.
        let _ = write!(text, "{begin}{file}{}:{gap}{message}", line(problem.line));
    }
    text
}

fn line(line: Option<u32>) -> String {
    line.map(|line| format!(", line {line}")).unwrap_or_default()
}

/// Counts the outcomes of all files.
fn total(all: &[LoadOutcome]) -> String {
    let good = all.iter().filter(|loaded| loaded.success());
    let (mut files, mut workflows, mut nodes, mut graphs) = (0, 0, 0, 0);
    for loaded in good {
        files += 1;
        match &loaded.reply {
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
    let counted = |count: usize, what: &str| match count {
        0 => None,
        1 => Some(format!("1 {what}")),
        count => Some(format!("{count} {what}s")),
    };
    let declared = [counted(workflows, "workflow"), counted(nodes, "node"), counted(graphs, "graph")];
    let declared: Vec<String> = declared.into_iter().flatten().collect();
    let what = if declared.is_empty() { String::new() } else { format!(": {}", declared.join(", ")) };
    let invalid = all.len() - files;
    let mark = if invalid == 0 { format!("{GOOD}✓{GOOD:#}") } else { format!("{BAD}✗{BAD:#}") };
    let rest = if invalid == 0 { String::new() } else { format!("{QUIET}; {invalid} not{QUIET:#}") };
    format!("{mark} {STRONG}{files} of {} files loaded{STRONG:#}{what}{rest}", all.len())
}
