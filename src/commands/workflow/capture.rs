//! `steplatch workflow capture`: a workflow from the input of terminals.

use std::process::ExitCode;

use clap::Args;
use steplatch_protocol::{CaptureWorkflow, CaptureWorkflowReply, DaemonPaths};
use unicode_width::UnicodeWidthStr as _;

use crate::failure::{FAILED, Failure};
use crate::print::{self, GOOD, STRONG, fitted, padded, visible};
use crate::translation::for_people;
use crate::{completion, daemon_client, pick};

/// Make a workflow from the input of terminals
///
/// Prints the workflow, and on standard error the assumptions, the omissions and the open decisions. Saves nothing
/// without --save.
#[derive(Debug, Args)]
pub(crate) struct Capture {
    /// Ids or names of terminals; without one the only open terminal, or one picked from a list
    #[arg(value_name = "TERMINAL", add = completion::terminals())]
    terminals: Vec<String>,
    #[command(flatten)]
    options: CaptureOptions,
    /// Capture only this number of the last commands
    #[arg(long, value_name = "COMMANDS", conflicts_with_all = ["from", "since"])]
    last: Option<u32>,
    /// Capture only input since this time: an age such as 15m, or a timestamp
    #[arg(long, value_name = "TIME", value_parser = crate::commands::moment::parse_moment)]
    since: Option<String>,
    /// Number of the first input to capture, as `terminal inputs --json` lists them
    #[arg(long, value_name = "NUMBER")]
    from: Option<u64>,
    /// Number of the last input to capture
    #[arg(long, value_name = "NUMBER")]
    to: Option<u64>,
}

/// Output of a capture, of terminals or of a recording.
#[derive(Debug, Args)]
pub(super) struct CaptureOptions {
    /// Name of the workflow
    #[arg(long, short)]
    name: String,
    /// Purpose of the workflow
    #[arg(long, short)]
    description: Option<String>,
    /// Make a typed value an argument (repeatable)
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = super::super::run::parse_variable)]
    input: Vec<(String, String)>,
    /// Terminal with another execution of the same procedure: differences become arguments (repeatable)
    #[arg(long, value_name = "TERMINAL", add = completion::terminals())]
    against: Vec<String>,
    /// A file that must exist at the end (repeatable)
    #[arg(long, value_name = "FILE")]
    expect: Vec<String>,
    /// Keep commands that only display information
    #[arg(long)]
    keep: bool,
    /// Save the workflow in the library, with its recording
    #[arg(long)]
    save: bool,
    /// Replace a saved workflow of that name
    #[arg(long, requires = "save")]
    overwrite: bool,
    /// Print the whole reply as JSON
    #[arg(long)]
    json: bool,
}

impl Capture {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let session_ids =
            if self.terminals.is_empty() { vec![pick::terminal(paths, None).await?] } else { self.terminals };
        let verb = CaptureWorkflow {
            session_ids,
            from: self.from,
            to: self.to,
            since: self.since,
            last_commands: self.last,
            ..CaptureWorkflow::default()
        };
        self.options.capture(paths, verb).await
    }
}

impl CaptureOptions {
    /// Adds these options to `verb`, requests the capture, and prints the reply.
    pub(super) async fn capture(self, paths: &DaemonPaths, verb: CaptureWorkflow) -> Result<ExitCode, Failure> {
        let verb = CaptureWorkflow {
            name: self.name,
            description: self.description,
            inputs: self.input.into_iter().collect(),
            compare_with: self.against,
            expect: self.expect,
            keep_read_only_commands: self.keep,
            save: self.save,
            overwrite_existing: self.overwrite,
            ..verb
        };
        let reply = daemon_client::ask(paths, verb).await?;
        if self.json {
            print::json(&reply)?;
        } else {
            show(&reply)?;
        }
        Ok(if reply.success { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }
}

fn show(reply: &CaptureWorkflowReply) -> Result<(), Failure> {
    if reply.path.is_none() && !reply.workflow_definition.is_null() {
        print::json(&reply.workflow_definition)?;
    }
    for note in format_notes(reply) {
        print::remark(&note);
    }
    if let Some(path) = &reply.path {
        print::line(format!("{GOOD}✓{GOOD:#} saved as {STRONG}{}{STRONG:#}", visible(path)))?;
    }
    if let Some(next) = &reply.next_step {
        print::remark(&visible(&for_people(next)));
    }
    if let Some(error) = &reply.error {
        print::error(&visible(error));
    }
    Ok(())
}

/// Maximum width of the column for states and inputs.
const MAX_COLUMN_WIDTH: usize = 32;

/// Formats the notes that a person should read before the first use of the workflow, in columns: the kind of the note,
/// the state or input, and the text.
fn format_notes(reply: &CaptureWorkflowReply) -> Vec<String> {
    let guesses = reply.guesses.iter().map(|guess| {
        let sentence = format!("{} ({})", guess.guess, guess.reason);
        ("assumed", guess.state.clone(), sentence)
    });
    let omissions = reply.left_out.iter().map(|omission| {
        let line = omission.input.lines().next().unwrap_or_default();
        ("left out", line.to_owned(), omission.reason.clone())
    });
    let sentences = reply.undecided.iter().chain(&reply.warnings);
    let undecided = sentences.map(|sentence| ("to decide", String::new(), sentence.clone()));
    let rows: Vec<_> = guesses
        .chain(omissions)
        .chain(undecided)
        .map(|(kind, subject, sentence)| {
            (kind, fitted(&visible(&subject), MAX_COLUMN_WIDTH), visible(&for_people(&sentence)))
        })
        .collect();
    let width = rows.iter().map(|(_, subject, _)| subject.width()).max().unwrap_or(0);
    let line = |(kind, subject, sentence): (&str, String, String)| match subject.as_str() {
        // A note about the whole workflow has no state or input, because the text begins in that column.
        "" => format!("{kind:<9}  {sentence}"),
        subject => format!("{kind:<9}  {STRONG}{}{STRONG:#}  {sentence}", padded(subject, width)),
    };
    rows.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use steplatch_protocol::{CaptureGuess, CaptureOmission};

    use super::*;

    #[test]
    fn notes_are_in_columns_and_name_options() {
        let reply = CaptureWorkflowReply {
            guesses: vec![CaptureGuess {
                state: "sh_setup_sh".to_owned(),
                guess: "it waits for /x/".to_owned(),
                reason: "it stood there".to_owned(),
            }],
            left_out: vec![CaptureOmission {
                input: "ls\n-la".to_owned(),
                reason: "it only looks around; keep: true keeps it".to_owned(),
            }],
            undecided: vec![
                "state 'x' types the date '2026-01-31': add it to inputs to make it an argument".to_owned(),
            ],
            ..CaptureWorkflowReply::default()
        };
        let plain: Vec<String> =
            format_notes(&reply).iter().map(|note| anstream::adapter::strip_str(note).to_string()).collect();
        assert_eq!(
            plain,
            [
                "assumed    sh_setup_sh  it waits for /x/ (it stood there)",
                "left out   ls           it only looks around; --keep keeps it",
                "to decide  state 'x' types the date '2026-01-31': make it an argument with -i NAME=VALUE",
            ]
        );
    }
}
