//! `steplatch workflow rm NAME…`

use std::process::ExitCode;

use clap::Args;
use steplatch_protocol::{DeleteWorkflow, Place};

use crate::failure::{Failure, USAGE};
use crate::{front, print};

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Names of workflows
    #[arg(required = true)]
    names: Vec<String>,
    /// Print what came of each as JSON
    #[arg(long)]
    json: bool,
}

impl Remove {
    /// Removes each; one that is not there does not keep the others.
    pub(super) async fn run(self, place: &Place) -> Result<ExitCode, Failure> {
        let mut code = ExitCode::SUCCESS;
        let mut replies = Vec::new();
        for name in self.names {
            let reply = front::ask(place, DeleteWorkflow { name: name.clone() }).await?;
            if !reply.success {
                code = ExitCode::from(USAGE);
            }
            if self.json {
                replies.push(reply);
            } else if reply.success {
                print::line(format!("removed {}", reply.file.as_deref().unwrap_or(&name)))?;
                if let Some(remaining) = reply.remaining {
                    print::note(&format!("'{name}' is {remaining} now"));
                }
            } else {
                print::error(&reply.error.unwrap_or_else(|| format!("'{name}' was not removed")));
            }
        }
        if self.json {
            print::json(&replies)?;
        }
        Ok(code)
    }
}
