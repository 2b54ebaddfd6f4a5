//! Questions of `ssh`. It runs this program as its `SSH_ASKPASS` (see ssh(1)).

use std::process::ExitCode;

use steplatch_protocol::AskSshQuestion;

use crate::failure::Failure;
use crate::{daemon_client, print};

/// Sends the question (the first argument) to the daemon that started `ssh`, and prints the answer for `ssh`.
pub(crate) async fn pass_on(ticket: String) -> Result<ExitCode, Failure> {
    // A message that needs no answer, for example that a security key waits for a touch.
    if std::env::var_os("SSH_ASKPASS_PROMPT").is_some_and(|kind| kind == "none") {
        return Ok(ExitCode::SUCCESS);
    }
    let question = std::env::args().nth(1).unwrap_or_default();
    let daemon = daemon_client::running(&daemon_client::daemon_paths(None)?).await?;
    let reply = daemon.call(AskSshQuestion { ticket, question }).await?;
    match reply.answer {
        Some(answer) => {
            print::line(answer)?;
            Ok(ExitCode::SUCCESS)
        }
        None => Err(Failure::work(reply.error.unwrap_or_default())),
    }
}
