//! `steplatch workflow show NAME`: a saved workflow.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use steplatch_protocol::{ContractVariable, DaemonPaths, DescribeWorkflow, DescribeWorkflowReply, FunctionSource};

use crate::failure::Failure;
use crate::print::{BAD, QUIET, STRONG};
use crate::{daemon_client, print};

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Name of the workflow; NAME@2 is its version 2
    #[arg(add = crate::completion::workflows())]
    name: String,
    /// Print everything as JSON, with the definition and a diagram
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let reply = daemon_client::ask(paths, DescribeWorkflow { name: self.name }).await?;
        if !reply.success {
            return Err(Failure::usage(reply.error.as_deref().unwrap_or("there is no such workflow")).with(&reply));
        }
        if self.json {
            print::json(&reply)?;
        } else {
            print::line(describe(&reply).trim_end())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn describe(reply: &DescribeWorkflowReply) -> String {
    let mut page = String::new();
    let name = reply.name.as_deref().unwrap_or_default();
    // Writing to a String does not fail, here or below.
    let _ = writeln!(page, "{STRONG}{name}{STRONG:#}");
    if let Some(description) = &reply.description {
        let _ = writeln!(page, "{}", print::visible_lines(description, ""));
    }
    page.push('\n');
    for (title, variables) in [("arguments", &reply.arguments), ("returns", &reply.return_values)] {
        if !variables.is_empty() {
            let rows: Vec<Vec<String>> = variables.iter().map(variable_row).collect();
            let _ = write!(page, "{}", format_block(title, &print::table(&rows)));
        }
    }
    if let Some(FunctionSource { declares, .. }) = &reply.source {
        let rows = declares.iter().map(|declared| {
            let description = declared.description.as_deref().unwrap_or_default().lines().next().unwrap_or_default();
            vec![declared.id.clone(), declared.kind.clone(), print::visible(description)]
        });
        let _ = write!(page, "{}", format_block("declares", &print::table(&rows.collect::<Vec<_>>())));
    }
    if let Some(FunctionSource { metadata, .. }) = reply.source.as_ref().filter(|source| !source.metadata.is_empty()) {
        let rows = metadata.iter().map(|(name, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            vec![print::visible(name), print::visible(&value)]
        });
        let _ = write!(page, "{}", format_block("metadata", &print::table(&rows.collect::<Vec<_>>())));
    }
    if let Some(definition) = &reply.definition {
        let _ = write!(page, "{}", format_block("states", &format_states(definition)));
    }
    if let Some(metadata) = &reply.metadata {
        let mut runs = match metadata.run_count {
            0 => "none yet".to_owned(),
            count => format!("{count}, of which {} succeeded", metadata.success_count),
        };
        if let Some(last) = &metadata.last_run {
            let _ = write!(runs, "; the last one ended at {}", print::local_time(last));
        }
        let facts = [
            ("status", format!("{}, version {}", metadata.status, metadata.version)),
            ("runs", runs),
            ("created", print::local_time(&metadata.created)),
            ("signature", metadata.hash.get(..16).unwrap_or(&metadata.hash).to_owned()),
        ];
        for (title, fact) in facts {
            let _ = write!(page, "{}", format_block(title, &print::visible(&fact)));
        }
    }
    let line = reply.source.as_ref().and_then(|source| source.line).map(|line| format!(", line {line}"));
    let file = format!("{}{}", reply.file.as_deref().unwrap_or_default(), line.unwrap_or_default());
    let _ = write!(page, "{}", format_block("file", &file));
    if let Some(FunctionSource { loaded_from, note, .. }) = &reply.source {
        for (title, text) in
            [("loaded", loaded_from.as_ref().map(|file| format!("from {file}"))), ("note", note.clone())]
        {
            let _ =
                write!(page, "{}", format_block(title, &print::visible_lines(text.as_deref().unwrap_or_default(), "")));
        }
    }
    for problem in &reply.problems {
        let _ = writeln!(page, "{BAD}problem{BAD:#}  {}", print::visible(problem));
    }
    page
}

/// Formats text with its title in a column on the left.
fn format_block(title: &str, text: &str) -> String {
    let mut block = String::new();
    for (index, line) in text.lines().enumerate() {
        let title = if index == 0 { title } else { "" };
        let _ = writeln!(block, "{QUIET}{}{QUIET:#}{line}", print::padded(title, 11));
    }
    block
}

fn variable_row(variable: &ContractVariable) -> Vec<String> {
    let ContractVariable { name, description, required, default, secret, export, schema } = variable;
    let mut properties = Vec::new();
    properties.push(if *required { "required".to_owned() } else { "optional".to_owned() });
    if let Some(default) = default {
        properties.push(format!("default {default}"));
    }
    if *secret {
        properties.push("secret".to_owned());
    }
    match export {
        Some(true) => properties.push("exported".to_owned()),
        Some(false) => properties.push("not exported".to_owned()),
        None => {}
    }
    if let Some(schema) = schema {
        properties.push(schema.to_string());
    }
    let description = print::visible(description.as_deref().unwrap_or_default());
    vec![name.clone(), print::visible(&properties.join(", ")), description]
}

/// Formats the states of a possibly invalid definition as a table. A `*` marks the initial state.
fn format_states(definition: &Value) -> String {
    let rows = definition["states"].as_object().into_iter().flatten().map(|(name, state)| {
        let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        let transitions = state["transitions"].as_array().into_iter().flatten();
        let mut targets: Vec<String> = transitions.map(|transition| text(&transition["next_state"])).collect();
        if let Some(target) = state["on_timeout"].as_str() {
            targets.push(format!("{target} (on timeout)"));
        }
        let start_mark = if definition["initial_state"] == name.as_str() { "*" } else { "" };
        let next_states = if targets.is_empty() { "end".to_owned() } else { format!("-> {}", targets.join(", ")) };
        let row = [format!("{name}{start_mark}"), text(&state["action"]["tool"]), next_states];
        row.map(|cell| print::visible(&cell)).to_vec()
    });
    print::table(&rows.collect::<Vec<_>>())
}
