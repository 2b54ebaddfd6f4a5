//! `steplatch run FILE`

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use steplatch_protocol::{CancelWorkflow, Client, GetRun, Place, RunEvent, RunReply, RunWorkflow, Subscribe};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{FAILED, Failure};
use crate::run_view::{Shown, View};
use crate::{front, print};

/// A run waits on a gate that a person must answer.
const WAITING: u8 = 3;

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// File with the workflow, in JSON
    file: PathBuf,
    /// A variable to begin with; may be given more than once
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = variable)]
    input: Vec<(String, String)>,
    /// Terminal to work in; without it the workflow opens its own
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// States to execute at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    max_states: Option<u32>,
    /// Seconds that the run may take
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
    /// Leave terminals open when the run fails or is cancelled
    #[arg(long)]
    keep_terminals: bool,
    /// Print the result as JSON, and nothing else
    #[arg(long)]
    json: bool,
}

/// Reads a variable that a run is to begin with.
pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a variable is written as name=value".to_owned()),
    }
}

impl Run {
    pub(super) async fn run(self, place: &Place) -> Result<ExitCode, Failure> {
        let file = std::path::absolute(&self.file)
            .map_err(|error| Failure::usage(format!("'{}' is no path: {error}", self.file.display())))?;
        let client = front::client(place).await?;
        let started = client
            .call(RunWorkflow {
                workflow_file: Some(file.display().to_string()),
                session_id: self.session,
                initial_variables: Some(self.input.into_iter().collect()),
                max_states: self.max_states,
                execution_timeout: self.timeout,
                keep_terminals: self.keep_terminals,
                wait_seconds: Some(0.0),
                ..RunWorkflow::default()
            })
            .await?;
        if started.run_id.is_empty() {
            if self.json {
                print::json(&started)?;
            }
            return Err(Failure::usage(started.error.unwrap_or_else(|| "the run did not start".to_owned())));
        }
        let run = started.run_id;
        if self.json {
            follow(&client, &run, &mut Silent).await?;
        } else {
            follow(&client, &run, &mut Shown::new(std::io::stdout().is_terminal())).await?;
        }
        let reply = client.call(GetRun { run_id: run, wait_seconds: Some(10.0) }).await?;
        if self.json {
            print::json(&reply)?;
        }
        Ok(ExitCode::from(code(&reply)))
    }
}

fn code(reply: &RunReply) -> u8 {
    match reply.status.as_str() {
        "completed" => 0,
        "waiting" => WAITING,
        _ => FAILED,
    }
}

/// Shows the events of a run until its last one. Ctrl-C cancels the run, a second one stops watching.
async fn follow(client: &Client, run: &str, view: &mut dyn View) -> Result<(), Failure> {
    let (reply, mut events) = client.subscribe(Subscribe { run_id: run.to_owned(), from_seq: None }).await?;
    if let Some(error) = reply.error {
        return Err(Failure::work(error));
    }
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(100));
    let mut cancelling = false;
    loop {
        tokio::select! {
            event = events.next() => {
                let Some(event) = event else { return Err(steplatch_protocol::CallError::Lost.into()) };
                let event: RunEvent = serde_json::from_value::<RunEvent>(strip(event))
                    .map_err(|error| Failure::work(format!("an event can not be read: {error}")))?;
                view.show(&event)?;
                if event.is_last() {
                    return Ok(());
                }
            }
            _ = interrupted.recv() => {
                if cancelling {
                    return Err(Failure::work(format!("stopped watching; the run goes on: {run}")));
                }
                cancelling = true;
                client.call(CancelWorkflow { run_id: run.to_owned() }).await?;
            }
            _ = ticks.tick(), if view.moves() => view.tick()?,
        }
    }
}

/// Takes the envelope off an event.
fn strip(mut event: Value) -> Value {
    if let Some(fields) = event.as_object_mut() {
        fields.remove("type");
    }
    event
}

/// Shows nothing.
struct Silent;

impl View for Silent {
    fn show(&mut self, _: &RunEvent) -> std::io::Result<()> {
        Ok(())
    }
}
