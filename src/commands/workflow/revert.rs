//! `steplatch workflow revert NAME [VERSION]`: return to an earlier version of a machine.

use std::process::ExitCode;

use clap::Args;
use steplatch_protocol::{DaemonPaths, RevertWorkflow};

use crate::failure::Failure;
use crate::{completion, daemon_client, print};

/// Go back to an earlier version of a workflow: saves a new version that equals it
#[derive(Debug, Args)]
pub(crate) struct Revert {
    /// Name of the workflow; a removed one is restored
    #[arg(add = completion::workflows())]
    name: String,
    /// Version [default: the one before the current one]
    version: Option<u32>,
    /// Reason, for its history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Revert {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let Self { name, version, reason, json } = self;
        let reply = daemon_client::ask(paths, RevertWorkflow { name, version, reason }).await?;
        if let Some(error) = reply.error.clone() {
            for problem in &reply.validation_errors {
                print::error(&print::visible(problem));
            }
            return Err(Failure::usage(error).with(&reply));
        }
        if json {
            print::json(&reply)?;
        } else {
            print::line(format!(
                "{} is version {}, which equals {}",
                reply.workflow_name, reply.version, reply.equals
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
