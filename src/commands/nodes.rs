//! `steplatch nodes …`: list, show and call nodes.

use std::io::{IsTerminal as _, Read as _};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Map, Value};
use steplatch_protocol::{
    BrokenNode, DaemonPaths, DescribeNode, DescribeNodeReply, ListNodes, ListNodesReply, NodeReply, RunNode,
};

use crate::daemon_client;
use crate::failure::Failure;
use crate::print::{self, BAD, QUIET, STRONG, visible};

#[derive(Debug, Subcommand)]
pub(crate) enum Nodes {
    /// List the nodes that this project declares, in steplatch.toml or steplatch.json
    List(List),
    /// Show a node and its declaration
    Show(Show),
    /// Call a node and print its output; exit code 0 if it succeeded, 1 if it failed
    Run(Run),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only entries with this text in their name or description
    containing: Option<String>,
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Name of the node, or of a graph
    #[arg(add = crate::completion::nodes())]
    name: String,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Name of the node
    #[arg(add = crate::completion::nodes())]
    name: String,
    #[command(flatten)]
    given: NodeInput,
}

/// The input of a call, and the format of its output.
#[derive(Debug, Args)]
pub(super) struct NodeInput {
    /// Input, as text; - reads standard input
    #[arg(allow_negative_numbers = true)]
    input: Option<String>,
    /// The input is JSON
    #[arg(long)]
    input_json: bool,
    /// Time limit in seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
    /// Print the whole result as JSON
    #[arg(long)]
    json: bool,
}

impl Nodes {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        match self {
            Self::List(command) => command.run(paths).await,
            Self::Show(command) => command.run(paths).await,
            Self::Run(Run { name, given }) => {
                let (input, timeout) = (given.input()?, given.timeout()?);
                let reply = daemon_client::ask(paths, RunNode { node_id: name, input, timeout }).await?;
                given.print_reply(&reply)
            }
        }
    }
}

impl List {
    async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let reply = daemon_client::ask(paths, ListNodes { containing: self.containing }).await?;
        if !reply.success {
            return Err(Failure::work(reply.error.as_deref().unwrap_or("the nodes cannot be listed")).with(&reply));
        }
        if self.json {
            print::json(&reply)?;
            return Ok(ExitCode::SUCCESS);
        }
        let ListNodesReply { nodes, broken, files, directory, .. } = &reply;
        let rows = nodes.iter().map(|node| {
            vec![node.id.clone(), node.kind.clone(), visible(node.description.as_deref().unwrap_or_default())]
        });
        print_table(["NAME", "TYPE", "DESCRIPTION"], rows)?;
        print_sources(files, directory, broken)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints rows below the `heads`, cut to the width of the terminal. Prints nothing if there are no rows.
pub(super) fn print_table<const N: usize>(
    heads: [&str; N],
    rows: impl Iterator<Item = Vec<String>>,
) -> std::io::Result<()> {
    let rows: Vec<_> = std::iter::once(heads.map(str::to_owned).to_vec()).chain(rows).collect();
    if rows.len() == 1 {
        return Ok(());
    }
    for (index, line) in print::table(&rows).lines().enumerate() {
        let line = print::width().map_or_else(|| line.to_owned(), |width| print::fitted(line, width));
        print::line(if index == 0 { format!("{STRONG}{line}{STRONG:#}") } else { line })?;
    }
    Ok(())
}

/// Prints the files that declare the listed nodes, and the invalid declarations in them.
pub(super) fn print_sources(files: &[String], directory: &str, broken: &[BrokenNode]) -> std::io::Result<()> {
    if files.is_empty() {
        let example = "[nodes.NAME] with type = \"bash\" and command = \"…\"";
        print::remark(&format!("{directory} declares none; declare one in its steplatch.toml: {example}"));
    } else {
        print::remark(&format!("in {}", files.join(" and ")));
    }
    for BrokenNode { id, file, reason } in broken {
        let what = id.as_ref().map_or_else(|| file.clone(), |id| format!("{} in {file}", visible(id)));
        let reason: Vec<String> = reason.lines().map(visible).collect();
        print::line(format!("{BAD}broken{BAD:#} {what}: {}", reason.join("\n  ")))?;
    }
    Ok(())
}

impl Show {
    async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let reply = daemon_client::ask(paths, DescribeNode { node_id: self.name }).await?;
        if !reply.success {
            return Err(Failure::usage(reply.error.as_deref().unwrap_or("there is no such node")).with(&reply));
        }
        if self.json {
            print::json(&reply)?;
        } else {
            describe(&reply).iter().try_for_each(print::line)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn describe(reply: &DescribeNodeReply) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(node) = &reply.node {
        lines.push(format!("{STRONG}{}{STRONG:#} {QUIET}{}{QUIET:#}", visible(&node.id), node.kind));
        lines.extend(node.description.as_deref().map(visible));
    }
    let empty = Map::new();
    let declaration = reply.declaration.as_ref().and_then(Value::as_object).unwrap_or(&empty);
    // The path of the file is printed last.
    let shown_elsewhere = ["id", "type", "description", "steps", "file"];
    let fields: Vec<_> = declaration.iter().filter(|(name, _)| !shown_elsewhere.contains(&name.as_str())).collect();
    let file = reply.node.as_ref().and_then(|node| node.file.as_deref());
    let names = fields.iter().map(|(name, _)| name.len()).chain(file.map(|_| "file".len()));
    let width = names.max().unwrap_or_default();
    let mut add_field = |name: &str, value: &str| {
        for (index, line) in value.lines().enumerate() {
            let name = print::padded(if index == 0 { name } else { "" }, width);
            lines.push(format!("  {QUIET}{name}{QUIET:#}  {}", visible(line)));
        }
    };
    for (name, value) in fields {
        add_field(name, &value_text(value));
    }
    file.iter().for_each(|file| add_field("file", file));
    let steps = declaration.get("steps").and_then(Value::as_array).into_iter().flatten();
    let steps: Vec<Vec<String>> = steps.map(step_row).collect();
    if !steps.is_empty() {
        let heads = ["STEP", "NODE", "INPUT", "DEPENDS ON", "ON ERROR"].map(str::to_owned).to_vec();
        let rows: Vec<_> = std::iter::once(heads).chain(steps).collect();
        lines.push(String::new());
        lines.extend(print::table(&rows).lines().map(|line| format!("  {line}")));
    }
    lines.extend(reply.warnings.iter().map(|warning| visible(warning)));
    lines
}

fn step_row(step: &Value) -> Vec<String> {
    let dependencies = step["depends_on"].as_array().into_iter().flatten().map(value_text);
    let dependencies: Vec<String> = dependencies.collect();
    let policy = &step["on_error"];
    let word = |policy: &Value| policy["policy"].as_str().map_or_else(|| value_text(policy), str::to_owned);
    let then = policy.get("then").map(|then| format!(", then {}", word(then)));
    let on_error = word(policy) + &then.unwrap_or_default();
    let cells = [
        value_text(&step["id"]),
        value_text(&step["node"]),
        value_text(&step["input"]),
        dependencies.join(", "),
        on_error,
    ];
    cells.map(|cell| visible(&cell)).to_vec()
}

/// Converts a value to text: strings unchanged, null as nothing, other values as JSON.
fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

impl NodeInput {
    /// Reads the input and parses it with `--input-json`.
    ///
    /// # Errors
    /// If standard input is not text, or the input is not valid JSON.
    pub(super) fn input(&self) -> Result<Value, Failure> {
        let text = match self.input.as_deref() {
            None if self.input_json => {
                return Err(Failure::usage("--input-json needs an input"));
            }
            None => return Ok(Value::Null),
            Some("-") => {
                let mut text = String::new();
                let result = std::io::stdin().lock().read_to_string(&mut text);
                result.map_err(|error| Failure::system("standard input cannot be read as text", &error))?;
                text
            }
            Some(text) => text.to_owned(),
        };
        if !self.input_json {
            return Ok(text.into());
        }
        serde_json::from_str(&text).map_err(|error| Failure::usage(format!("the input is not valid JSON: {error}")))
    }

    /// Returns the time limit, if there is one.
    ///
    /// # Errors
    /// If it is not from 0 seconds to a day.
    pub(super) fn timeout(&self) -> Result<Option<f64>, Failure> {
        match self.timeout {
            Some(seconds) if !(0.0..=86_400.0).contains(&seconds) => {
                Err(Failure::usage(format!("--timeout is in seconds, from 0 to 86400, not {seconds}")))
            }
            timeout => Ok(timeout),
        }
    }

    /// Prints the outcome of a call: its output on standard output, its messages on standard error.
    pub(super) fn print_reply(&self, reply: &NodeReply) -> Result<ExitCode, Failure> {
        if self.json && reply.success {
            print::json(reply)?;
        } else if !self.json {
            print_output(&reply.output)?;
            let stderr = reply.attributes.get("stderr").and_then(Value::as_str).unwrap_or_default();
            stderr.lines().for_each(|line| print::remark(&visible(line)));
        }
        if reply.success {
            return Ok(ExitCode::SUCCESS);
        }
        let error = reply.error.clone().unwrap_or_else(|| "it failed without a reason".to_owned());
        let failure = if reply.node_type.is_none() && reply.error_type.as_deref() == Some("not_found") {
            Failure::usage(error)
        } else {
            Failure::work(error)
        };
        Err(failure.with(reply))
    }
}

/// Prints an output: unchanged for a program, without control characters for a person.
fn print_output(value: &Value) -> std::io::Result<()> {
    match value {
        Value::Null => Ok(()),
        Value::String(text) if std::io::stdout().is_terminal() => text.lines().map(visible).try_for_each(print::line),
        // The output of a command has lost its final newline.
        Value::String(text) if text.is_empty() || text.ends_with('\n') => print::unchanged(text),
        Value::String(text) => print::unchanged(&format!("{text}\n")),
        other => print::json(other),
    }
}
