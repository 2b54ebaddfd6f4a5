//! `steplatch gates …`

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use steplatch_protocol::{AnswerGate, GateInfo, GetWorkflowRun, Place};

use super::runs::{find, listed, not_found};
use crate::failure::Failure;
use crate::print::{self, QUIET, STRONG, visible};
use crate::{front, question};

#[derive(Debug, Subcommand)]
pub(crate) enum Gates {
    /// List the questions that runs wait for, the oldest first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Answer a question that a run waits for
    Answer(Answer),
}

#[derive(Debug, Args)]
pub(crate) struct Answer {
    /// The run: its id, or an unambiguous beginning of it
    run: String,
    /// The choice, by its number or in its words; any text where there is nothing to choose from
    choice: String,
    /// Which question, where the run has several
    #[arg(long, value_name = "ID")]
    gate: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs that may wait at once and are all listed.
const MOST: u32 = 1000;

impl Gates {
    pub(super) async fn run(self, place: &Place) -> Result<ExitCode, Failure> {
        match self {
            Self::List { json } => list(place, json).await,
            Self::Answer(command) => command.run(place).await,
        }
    }
}

async fn list(place: &Place, json: bool) -> Result<ExitCode, Failure> {
    let runs = listed(place, None, Some("waiting".to_owned()), MOST).await?;
    let mut gates: Vec<_> =
        runs.iter().flat_map(|run| run.pending_gates.iter().map(move |gate| (&run.workflow_id, gate))).collect();
    gates.sort_by(|one, other| one.1.created_at.cmp(&other.1.created_at));
    if json {
        print::json(&json!({ "gates": gates.iter().map(|(_, gate)| gate).collect::<Vec<_>>() }))?;
    } else if gates.is_empty() {
        print::note("no run waits for an answer");
    } else {
        for (index, (workflow, gate)) in gates.iter().enumerate() {
            if index > 0 {
                print::line("")?;
            }
            print::line(format!("{STRONG}{}{STRONG:#} {QUIET}{}{QUIET:#}", visible(workflow), gate.run_id))?;
            told(gate, "  ").iter().try_for_each(print::line)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Lines that are shown of what there is to judge.
const SCREEN_LINES: usize = 12;

/// Tells a question, what there is to judge, its choices and how to answer, one line each.
pub(super) fn told(gate: &GateInfo, indent: &str) -> Vec<String> {
    let since = print::ago(&gate.created_at);
    let mut lines = vec![format!("{indent}{} {QUIET}asked {since}{QUIET:#}", visible(&gate.prompt))];
    let screen = gate.context.get("screen_content").or_else(|| gate.context.get("match_text")).and_then(Value::as_str);
    let seen: Vec<&str> = screen.unwrap_or_default().trim_end().lines().collect();
    let shown = seen.iter().skip(seen.len().saturating_sub(SCREEN_LINES));
    lines.extend(shown.map(|line| format!("{indent}  {QUIET}│{QUIET:#} {}", visible(line))));
    let choices = gate.choices.iter().enumerate();
    lines.extend(
        choices.map(|(index, choice)| format!("{indent}  {STRONG}{}{STRONG:#}  {}", index + 1, visible(choice))),
    );
    let answer = if gate.choices.is_empty() { "TEXT" } else { "NUMBER" };
    lines.push(format!("{indent}{QUIET}answer with: steplatch gates answer {} {answer}{QUIET:#}", gate.run_id));
    lines
}

impl Answer {
    async fn run(self, place: &Place) -> Result<ExitCode, Failure> {
        let id = find(place, &self.run).await?;
        let record = front::ask(place, GetWorkflowRun { run_id: id.clone() }).await?;
        let Some(run) = record.run else { return Err(not_found(&id)) };
        let gate = match (&self.gate, &run.pending_gates[..]) {
            // Only the daemon knows who was faster.
            (asked, []) => {
                let answer = AnswerGate { run_id: id, gate_id: asked.clone(), answer: self.choice.clone() };
                return self.give(place, answer).await;
            }
            (None, [gate]) => gate,
            (Some(asked), gates) => gates.iter().find(|gate| gate.gate_id == *asked).ok_or_else(|| {
                let there: Vec<&str> = gates.iter().map(|gate| gate.gate_id.as_str()).collect();
                Failure::usage(format!(
                    "gate '{}' does not wait in run {id}; there is {}",
                    visible(asked),
                    there.join(", ")
                ))
            })?,
            (None, gates) => {
                let there: Vec<&str> = gates.iter().map(|gate| gate.gate_id.as_str()).collect();
                let error = format!("run {id} waits for several answers; say which with --gate: {}", there.join(", "));
                return Err(Failure::usage(error));
            }
        };
        let choice = question::chosen(gate, &self.choice).map_err(|error| {
            let choices = gate.choices.iter().enumerate();
            let choices: Vec<String> =
                choices.map(|(index, choice)| format!("\n  {}  {}", index + 1, visible(choice))).collect();
            Failure::usage(format!("{error}{}", choices.concat()))
        })?;
        let answer = AnswerGate { run_id: id, gate_id: Some(gate.gate_id.clone()), answer: choice };
        self.give(place, answer).await
    }

    async fn give(&self, place: &Place, answer: AnswerGate) -> Result<ExitCode, Failure> {
        let choice = visible(&answer.answer);
        let reply = front::ask(place, answer).await?;
        if !reply.success {
            let error = reply.error.clone();
            let error = error.unwrap_or_else(|| "the answer was not taken, and the daemon did not say why".to_owned());
            return Err(Failure::work(error).with(&reply));
        }
        if self.json {
            print::json(&reply)?;
        } else {
            print::line(format!("answered: {choice}; the run is now {}", reply.status))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
