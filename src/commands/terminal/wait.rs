//! `steplatch terminal wait`: wait for output, a prompt or the end of a program.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use steplatch_protocol::{
    AwaitOutput, AwaitOutputReply, AwaitReason, AwaitTarget, AwaitUntil, DaemonPaths, ReconnectingClient,
};
use tokio::task::JoinSet;

use crate::failure::Failure;
use crate::print::{self, visible};
use crate::wait::{TimeLimit, WaitOptions, WaitOutcome};
use crate::{completion, daemon_client};

/// Wait for output, a prompt or the end of terminals, and print a line for each
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Wait {
    /// Ids or names of the terminals
    #[arg(value_name = "TERMINAL", required = true, add = completion::terminals())]
    terminals: Vec<String>,
    /// Wait for output that matches this regular expression (repeatable; the first match counts)
    #[arg(long, short, value_name = "REGEX")]
    pattern: Vec<String>,
    /// Wait for this as well [default: prompt without --pattern, otherwise nothing else]
    #[arg(long, value_enum, value_name = "EVENT")]
    until: Option<Until>,
    /// Search the screen as drawn, for full-screen programs
    #[arg(long, requires = "pattern")]
    screen: bool,
    /// Return at the first terminal instead of waiting for all
    #[arg(long)]
    any: bool,
    #[command(flatten)]
    options: WaitOptions,
}

const HELP: &str = "\
The end of the program ends every wait.

Examples:
  steplatch terminal wait build                    # until the command in 'build' has ended
  steplatch terminal wait server -p 'listening on' --timeout 60
  steplatch terminal wait one two --until exit --any

Exit codes: 0 matched, at the prompt after exit code 0, or ended with exit code 0; 1 the command or \
program failed, the shell ran nothing of the typed line, or the program exited without a match; 3 a program asks for input; 124 timed out.";

/// An event that ends a wait besides a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Until {
    /// The shell is at its prompt, or the program asks for input
    Prompt,
    /// The program asks for input
    Input,
    /// The program exited
    Exit,
    /// Half a second without output
    Quiet,
}

impl From<Until> for AwaitUntil {
    fn from(until: Until) -> Self {
        match until {
            Until::Prompt => Self::Prompt,
            Until::Input => Self::Input,
            Until::Exit => Self::Exit,
            Until::Quiet => Self::Quiet,
        }
    }
}

impl Wait {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let until = self.until.or(self.pattern.is_empty().then_some(Until::Prompt));
        let until = until.map_or(AwaitUntil::Match, AwaitUntil::from);
        let limit = TimeLimit::start(self.options.timeout);
        let daemon = daemon_client::reconnecting_client(paths)?;
        let mut waits = JoinSet::new();
        for terminal in &self.terminals {
            let verb = AwaitOutput {
                session_id: terminal.clone(),
                patterns: Some(self.pattern.clone()).filter(|patterns| !patterns.is_empty()),
                target: if self.screen { AwaitTarget::Screen } else { AwaitTarget::Output },
                until,
                ..AwaitOutput::default()
            };
            let (daemon, terminal) = (daemon.clone(), terminal.clone());
            waits.spawn(async move { (await_output(&daemon, verb).await, terminal) });
        }
        let mut pending = self.terminals.clone();
        let mut worst = WaitOutcome::Done;
        loop {
            let next_wait = tokio::select! {
                next_wait = waits.join_next() => next_wait,
                () = limit.passed() => return Err(Failure::timed_out(format!("still waiting for: {}", pending.join(", ")))),
            };
            let Some(next_wait) = next_wait else { return Ok(worst.exit_code()) };
            let (reply, terminal) = next_wait.map_err(|error| Failure::work(error.to_string()))?;
            let reply = reply?;
            pending.retain(|other| *other != terminal);
            if self.options.json {
                print::json_line(&document(&terminal, &reply))?;
            } else {
                print::line(format!("{}  {}", visible(&terminal), describe(&reply)).trim_end())?;
            }
            worst = worst.max(outcome(&reply, until));
            if self.any {
                return Ok(worst.exit_code());
            }
        }
    }
}

/// Maximum wait per request, in seconds.
const REQUEST_TIMEOUT_SECONDS: f64 = 3600.0;

/// Waits without a time limit: repeats the request when it times out.
pub(crate) async fn await_output(daemon: &ReconnectingClient, verb: AwaitOutput) -> Result<AwaitOutputReply, Failure> {
    loop {
        let reply = daemon.call(AwaitOutput { timeout: REQUEST_TIMEOUT_SECONDS, ..verb.clone() }).await?;
        // With `ran_nothing`, the prompt has appeared: the wait has ended, and is considered failed.
        if !reply.success && !reply.ran_nothing {
            return Err(Failure::work(
                reply.error.as_deref().unwrap_or("the wait failed, and the daemon gave no reason"),
            )
            .with(&reply));
        }
        if reply.reason != AwaitReason::Timeout {
            return Ok(reply);
        }
    }
}

/// Returns the outcome of a wait for `until`.
pub(crate) fn outcome(reply: &AwaitOutputReply, until: AwaitUntil) -> WaitOutcome {
    let outcome_if = |is_done: bool| if is_done { WaitOutcome::Done } else { WaitOutcome::Failed };
    let succeeded = reply.exit_code.is_none_or(|code| code == 0);
    match reply.reason {
        AwaitReason::Match | AwaitReason::Quiet | AwaitReason::Run => WaitOutcome::Done,
        AwaitReason::Prompt => outcome_if(succeeded && !reply.ran_nothing),
        AwaitReason::Exit => outcome_if(until == AwaitUntil::Exit && succeeded),
        AwaitReason::Input if until == AwaitUntil::Input => WaitOutcome::Done,
        AwaitReason::Input => WaitOutcome::Asks,
        AwaitReason::Replaced | AwaitReason::Timeout | AwaitReason::Error => WaitOutcome::Failed,
    }
}

/// Returns the JSON name of the reason in a reply.
pub(crate) fn reason_name(reply: &AwaitOutputReply) -> String {
    serde_json::to_value(reply.reason).ok().and_then(|reason| Some(reason.as_str()?.to_owned())).unwrap_or_default()
}

/// Describes the end of a wait: `prompt  exit code 0`, `match  BUILD OK`.
fn describe(reply: &AwaitOutputReply) -> String {
    format!("{}  {}", reason_name(reply), detail(reply)).trim_end().to_owned()
}

/// Describes the end of a wait beyond its reason: the match, the exit code or the state of the terminal.
pub(crate) fn detail(reply: &AwaitOutputReply) -> String {
    match (&reply.match_text, reply.exit_code) {
        (Some(text), _) => visible(text.trim_end()),
        (None, _) if reply.ran_nothing => "the shell ran nothing of the line".to_owned(),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) if reply.password => "asks for a password".to_owned(),
        (None, None) => String::new(),
    }
}

/// Returns the end of a wait as a JSON object: the reply, and the name of the terminal on the command line.
fn document(terminal: &str, reply: &AwaitOutputReply) -> Value {
    let mut document = json!(reply);
    document["terminal"] = terminal.into();
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_depends_on_the_end_of_the_wait() {
        use AwaitUntil::{Exit, Input, Match, Prompt, Quiet};
        use WaitOutcome::{Asks, Done, Failed};
        let reply = |reason, exit_code| AwaitOutputReply { reason, exit_code, ..AwaitOutputReply::default() };
        for (reply, until, expected) in [
            (reply(AwaitReason::Match, None), Match, Done),
            (reply(AwaitReason::Prompt, Some(0)), Prompt, Done),
            (reply(AwaitReason::Prompt, None), Prompt, Done),
            (reply(AwaitReason::Prompt, Some(2)), Prompt, Failed),
            (reply(AwaitReason::Input, None), Prompt, Asks),
            (reply(AwaitReason::Input, None), Input, Done),
            (reply(AwaitReason::Quiet, None), Quiet, Done),
            (reply(AwaitReason::Exit, Some(0)), Exit, Done),
            (reply(AwaitReason::Exit, Some(1)), Exit, Failed),
            (reply(AwaitReason::Exit, Some(0)), Match, Failed),
            (reply(AwaitReason::Replaced, None), Prompt, Failed),
        ] {
            assert_eq!(outcome(&reply, until), expected, "{reply:?}");
        }
        let nothing = AwaitOutputReply { ran_nothing: true, ..reply(AwaitReason::Prompt, None) };
        assert_eq!(outcome(&nothing, Prompt), Failed);
    }
}
