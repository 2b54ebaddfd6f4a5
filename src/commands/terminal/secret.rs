//! `steplatch terminal secret`: types a password into a terminal that asks for one.

use std::process::ExitCode;

use clap::Args;
use steplatch_protocol::{DaemonPaths, EnterSecret};

use crate::failure::{FAILED, Failure};
use crate::passphrase::Source;
use crate::print::{self, QUIET};
use crate::{completion, daemon_client};

/// Type a password into a terminal whose program asks for one, or refuse an agent's request for it
///
/// The password goes to the program only. An agent that waits for it learns that it was entered.
#[derive(Debug, Args)]
pub(crate) struct Secret {
    /// Id or name of the terminal
    #[arg(value_name = "TERMINAL", add = completion::terminals())]
    id: String,
    /// Refuse the request, with a reason for the agent
    #[arg(long, value_name = "REASON", num_args = 0..=1, default_missing_value = "")]
    refuse: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Secret {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let secret = match self.refuse {
            Some(_) => None,
            None => {
                let mut source = Source::select(false)?;
                Some(source.next(&format!("password for {}: ", print::visible(&self.id))).await?)
            }
        };
        let verb = EnterSecret { session_id: self.id, secret, reason: self.refuse };
        let is_refusal = verb.secret.is_none();
        let reply = daemon_client::ask(paths, verb).await?;
        if self.json {
            print::json(&reply)?;
            return Ok(if reply.success { ExitCode::SUCCESS } else { FAILED.into() });
        }
        if let Some(error) = reply.error {
            return Err(Failure::work(error));
        }
        let outcome = if is_refusal { "refused" } else { "entered" };
        print::remark(&format!("{QUIET}{outcome}{QUIET:#}"));
        Ok(ExitCode::SUCCESS)
    }
}
