//! `steplatch terminal inputs`: the input history of a terminal.

use std::process::ExitCode;

use clap::Args;
use steplatch_protocol::{DaemonPaths, InputKind, InputRecord, ReadInputs};

use super::check_success;
use crate::failure::Failure;
use crate::print::{self, QUIET, padded, visible};
use crate::{completion, daemon_client, pick};

/// List what was typed into a terminal and by whom, with commands, waits, sizes and signals
#[derive(Debug, Args)]
pub(crate) struct Inputs {
    /// Id or name of the terminal; without one the only open terminal, or one picked from a list
    #[arg(value_name = "TERMINAL", add = completion::terminals())]
    id: Option<String>,
    /// Maximum number of entries; the newest ones
    #[arg(long, short = 'n', value_name = "COUNT")]
    limit: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Inputs {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let session_id = pick::terminal(paths, self.id).await?;
        let verb = ReadInputs { session_id, limit: self.limit, ..ReadInputs::default() };
        let reply = daemon_client::ask(paths, verb).await?;
        check_success(reply.success, reply.error.as_ref(), &reply)?;
        if self.json {
            print::json(&reply)?;
            return Ok(ExitCode::SUCCESS);
        }
        if reply.inputs.is_empty() {
            print::remark("nothing was typed into it");
        }
        for input in &reply.inputs {
            print::line(input_line(input))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn input_line(input: &InputRecord) -> String {
    let time = input.timestamp.get(11..19).unwrap_or_default();
    let author = padded(&visible(input.by.as_deref().unwrap_or("-")), 18);
    let (kind, content) = describe_input(input);
    format!("{QUIET}{time}  {author}{QUIET:#}  {}  {content}", padded(kind, 8)).trim_end().to_owned()
}

/// Returns the kind of an entry as one word and its content.
fn describe_input(input: &InputRecord) -> (&'static str, String) {
    let text = visible(input.text.as_deref().unwrap_or_default());
    let question = input.row.as_deref().map(|row| format!("{} ← ", visible(row.trim_start()))).unwrap_or_default();
    let reason = visible(input.reason.as_deref().unwrap_or_default());
    match input.kind {
        InputKind::Typed => {
            let keys: String = input.keys.iter().map(|key| format!("<{}>", visible(key))).collect();
            ("typed", format!("{question}{text}{keys}"))
        }
        InputKind::Attached => ("attached", format!("{question}{text}")),
        InputKind::Hidden => ("hidden", format!("{question}••••••")),
        InputKind::Command | InputKind::Entered => {
            let outcome = match (input.exit_code, &input.error) {
                (Some(code), _) => format!("exit code {code}"),
                (None, Some(error)) => visible(error),
                (None, None) => reason,
            };
            let kind = if input.kind == InputKind::Command { "command" } else { "entered" };
            let text = if input.text.is_some() { text } else { "••••••".to_owned() };
            (kind, format!("{text} → {outcome}"))
        }
        InputKind::Wait => {
            let pattern = input.pattern.as_deref().map(|pattern| format!("/{}/ → ", visible(pattern)));
            let matched = input.match_text.as_deref().map_or(reason, visible);
            ("wait", format!("{}{matched}", pattern.unwrap_or_default()))
        }
        InputKind::Resize => {
            ("resize", format!("{}x{}", input.cols.unwrap_or_default(), input.rows.unwrap_or_default()))
        }
        InputKind::Signal => ("signal", input.signal.map(|signal| signal.to_string()).unwrap_or_default()),
    }
}
