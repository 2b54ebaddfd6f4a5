//! `steplatch workflow load FILE…`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use steplatch_protocol::{CreateWorkflow, CreateWorkflowReply, Place};

use crate::failure::{Failure, USAGE};
use crate::{front, print};

#[derive(Debug, Args)]
pub(crate) struct Load {
    /// Files with workflows, in JSON
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Replace saved workflows of the same names
    #[arg(long)]
    overwrite: bool,
    /// Print what came of each file as JSON
    #[arg(long)]
    json: bool,
}

impl Load {
    /// Saves each; one that is wrong does not keep the others.
    pub(super) async fn run(self, place: &Place) -> Result<ExitCode, Failure> {
        let mut replies = Vec::new();
        for file in &self.files {
            let reply = match definition(file) {
                Ok(definition) => {
                    let verb = CreateWorkflow { workflow_definition: definition, overwrite_existing: self.overwrite };
                    front::ask(place, verb).await?
                }
                Err(error) => CreateWorkflowReply { error: Some(error), ..CreateWorkflowReply::default() },
            };
            if !self.json || !reply.success {
                show(file, &reply)?;
            }
            replies.push(reply);
        }
        if self.json {
            print::json(&replies)?;
        }
        let saved = replies.iter().all(|reply| reply.success);
        Ok(if saved { ExitCode::SUCCESS } else { ExitCode::from(USAGE) })
    }
}

/// Reads a workflow, or what the library made of one: then it stands beside its metadata.
fn definition(file: &Path) -> Result<Value, String> {
    let text = std::fs::read(file).map_err(|error| format!("the file can not be read: {error}"))?;
    let mut document: Value = serde_json::from_slice(&text).map_err(|error| format!("this is not JSON: {error}"))?;
    match document.get_mut("definition") {
        Some(definition @ Value::Object(_)) => Ok(definition.take()),
        _ => Ok(document),
    }
}

fn show(file: &Path, reply: &CreateWorkflowReply) -> std::io::Result<()> {
    let file = file.display();
    if let (true, Some(name)) = (reply.success, &reply.workflow_name) {
        print::line(format!("{file}: saved as {name} in {}", reply.stored_file.as_deref().unwrap_or_default()))?;
    } else if reply.validation_errors.is_empty() {
        let error = reply.error.as_deref().unwrap_or("it was not saved");
        print::error(&format!("{file}: {}", error.replace("overwrite_existing=true", "--overwrite")));
    } else {
        for problem in &reply.validation_errors {
            print::error(&format!("{file}: {}", print::visible(problem)));
        }
    }
    for warning in &reply.warnings {
        print::note(&format!("{file}: warning: {}", print::visible(warning)));
    }
    Ok(())
}
