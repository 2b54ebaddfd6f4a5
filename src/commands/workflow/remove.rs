//! `steplatch workflow rm NAME…`: remove workflows from the library.

use std::process::ExitCode;

use clap::Args;
use steplatch_protocol::{DaemonPaths, DeleteWorkflow, ForgetWorkflowVersions};

use crate::failure::{FAILED, Failure, USAGE};
use crate::{daemon_client, print};

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Names of workflows, or of files of functions such as notes.py with all their declarations
    #[arg(required = true, add = crate::completion::workflows())]
    names: Vec<String>,
    /// Also remove their versions
    #[arg(long)]
    purge: bool,
    /// Print the outcome for each workflow as JSON
    #[arg(long)]
    json: bool,
}

impl Remove {
    /// Removes each workflow. A missing workflow does not prevent the others.
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let mut code = ExitCode::SUCCESS;
        let mut replies = Vec::new();
        for name in self.names {
            let reply = daemon_client::ask(paths, DeleteWorkflow { name: name.clone() }).await?;
            if !reply.success {
                code = ExitCode::from(USAGE);
            }
            if !reply.success {
                print::error(reply.error.as_deref().unwrap_or(&format!("'{name}' was not removed")));
            } else if !self.json {
                print::line(format!("removed {}", reply.file.as_deref().unwrap_or(&name)))?;
                if !reply.removed_besides.is_empty() {
                    let declarations = reply
                        .removed_besides
                        .iter()
                        .map(|declarations| format!("{} ({})", declarations.id, declarations.kind));
                    print::remark(&format!("also removed: {}", declarations.collect::<Vec<_>>().join(", ")));
                }
                if let Some(remaining) = &reply.remaining {
                    print::remark(&format!("'{name}' is {remaining} now"));
                }
                if !self.purge && reply.file.as_deref().is_some_and(|file| file.ends_with(".json")) {
                    print::remark(&format!("its versions stay; restore it with: steplatch workflow revert {name}"));
                }
            }
            let is_machine = reply.file.as_deref().is_some_and(|file| file.ends_with(".json"));
            if self.purge && is_machine && reply.remaining.is_some() {
                print::remark(&format!("its versions stay, because another workflow has the name '{name}' now"));
            } else if self.purge && reply.success && is_machine {
                let forget_reply = daemon_client::ask(paths, ForgetWorkflowVersions { name }).await?;
                if let Some(error) = forget_reply.error {
                    print::error(&error);
                    code = ExitCode::from(FAILED);
                }
            }
            replies.push(reply);
        }
        if self.json {
            print::json(&replies)?;
        }
        Ok(code)
    }
}
