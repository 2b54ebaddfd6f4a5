//! Passwords and questions of programs, from a person. `ssh`, `sudo` and `git` run this program as their askpass program
//! (see ssh(1), sudo(8) and gitcredentials(7)).

use std::process::ExitCode;

use clap::Args;
use steplatch_protocol::{AskPassword, AskSshQuestion, DaemonPaths, QuestionReply};

use crate::failure::Failure;
use crate::{daemon_client, print};

/// Ask a person for the password that sudo, ssh or git reads, and print it
#[derive(Debug, Args)]
pub(crate) struct Askpass {
    /// Prompt of the program
    #[arg(default_value = "")]
    prompt: String,
}

impl Askpass {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        if is_message() {
            return Ok(ExitCode::SUCCESS);
        }
        let daemon = daemon_client::running(paths).await?;
        print_answer(daemon.call(AskPassword { prompt: self.prompt }).await?)
    }
}

/// Sends the question (the first argument) to the daemon that started `ssh`, and prints the answer for `ssh`.
pub(crate) async fn pass_on(ticket: String) -> Result<ExitCode, Failure> {
    if is_message() {
        return Ok(ExitCode::SUCCESS);
    }
    let question = std::env::args().nth(1).unwrap_or_default();
    let daemon = daemon_client::running(&daemon_client::daemon_paths(None)?).await?;
    print_answer(daemon.call(AskSshQuestion { ticket, question }).await?)
}

/// Returns whether `ssh` shows a message that needs no answer, for example that a security key waits for a touch.
fn is_message() -> bool {
    std::env::var_os("SSH_ASKPASS_PROMPT").is_some_and(|kind| kind == "none")
}

fn print_answer(reply: QuestionReply) -> Result<ExitCode, Failure> {
    match reply.answer {
        Some(answer) => {
            print::line(answer)?;
            Ok(ExitCode::SUCCESS)
        }
        None => Err(Failure::work(reply.error.unwrap_or_default())),
    }
}
