//! `steplatch terminal secret`: types a password into a terminal that asks for one.

use std::process::ExitCode;

use clap::Args;
use steplatch_protocol::{DaemonPaths, EnterSecret, ListTerminalSessions};

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
        let (secret, program) = match self.refuse {
            Some(_) => (None, None),
            None => {
                let mut source = Source::select(false)?;
                let program = self.show_request(paths).await?;
                (Some(source.next("password: ").await?), Some(program))
            }
        };
        let verb = EnterSecret { session_id: self.id, secret, program, reason: self.refuse };
        let is_refusal = verb.secret.is_none();
        let reply = daemon_client::ask(paths, verb).await?;
        if self.json {
            print::json(&reply)?;
            return Ok(if reply.success { ExitCode::SUCCESS } else { FAILED.into() });
        }
        if let Some(error) = reply.error {
            return Err(Failure::work(error));
        }
        if let Some(warning) = reply.warning {
            print::remark(&warning);
        }
        let outcome = if is_refusal { "refused" } else { "entered" };
        print::remark(&format!("{QUIET}{outcome}{QUIET:#}"));
        Ok(ExitCode::SUCCESS)
    }

    /// Shows a person which program reads the password and who asked for it. Returns the program.
    async fn show_request(&self, paths: &DaemonPaths) -> Result<String, Failure> {
        let listed = daemon_client::ask(paths, ListTerminalSessions {}).await?.sessions;
        let info = listed.into_iter().find(|info| info.is_named(&self.id)).ok_or_else(|| {
            Failure::work(format!("there is no terminal '{}'; 'steplatch terminal list' has them", self.id))
        })?;
        let Some(program) = info.password_program else {
            return Err(Failure::work("no program in this terminal reads a hidden line now"));
        };
        print::remark(&format!("{} reads it in {}", print::visible(&program), print::visible(&self.id)));
        if let Some(request) = info.secret_request {
            let who = request.requested_by.unwrap_or_else(|| "an agent".to_owned());
            let reason = request.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            print::remark(&print::visible(&format!("{who} waits for it{reason}")));
        }
        Ok(program)
    }
}
