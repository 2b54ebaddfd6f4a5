//! `steplatch runs events`

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use steplatch_protocol::{GetRun, Place, RunEvent, RunReply, Subscribe};

use super::{find, not_found};
use crate::action::{self, Outcome};
use crate::failure::Failure;
use crate::front;
use crate::print::{self, BAD, GOOD, QUIET, STRONG, visible};
use crate::question;

#[derive(Debug, Args)]
pub(crate) struct Events {
    /// The run: its id, or an unambiguous beginning of it
    id: String,
    /// Number of the first event wanted
    #[arg(long, value_name = "N", default_value_t = 1)]
    from: u64,
    /// Go on with what happens from now on, until the run is over
    #[arg(long, short)]
    follow: bool,
    /// Print each event as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Events {
    pub(super) async fn run(self, place: &Place) -> Result<ExitCode, Failure> {
        let id = find(place, &self.id).await?;
        let client = front::client(place).await?;
        let report = client.call(GetRun { run_id: id.clone(), wait_seconds: None }).await?;
        if report.status.is_empty() {
            return Err(not_found(&id));
        }
        let mut ahead = Ahead::of(&report);
        let (reply, mut events) = client.subscribe(Subscribe { run_id: id.clone(), from_seq: None }).await?;
        if !reply.success {
            return Err(not_found(&id));
        }
        let mut next = 1;
        while self.follow || !ahead.is_none() {
            let Some(event) = events.next().await else {
                // Beginning another daemon is for somebody else to decide: this one may have been stopped on purpose.
                return Err(Failure::work(format!(
                    "the daemon went away in the middle; see what happens from here on with: \
                     steplatch runs events {id} --from {next} --follow"
                )));
            };
            let event: RunEvent = serde_json::from_value(event)
                .map_err(|error| Failure::work(format!("an event can not be read: {error}")))?;
            ahead.take(&event);
            next = event.seq + 1;
            if event.seq >= self.from {
                if self.json {
                    print::json_line(&event)?;
                } else {
                    print::line(line(&event))?;
                }
            }
            if event.is_last() {
                break;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What a report tells of and what its events have not told yet.
///
/// A subscription does not say which event was the newest when it began. The report does: it has an entry for each
/// end of a state, each transition and each contract, and it counts the states that were entered. Everything that
/// it knows of comes, so this comes to nothing.
struct Ahead {
    entered: u32,
    told: usize,
    gate: Option<String>,
    end: bool,
}

impl Ahead {
    fn of(report: &RunReply) -> Self {
        let phases = ["pre_execution_validation", "execution", "transition", "post_execution_validation"];
        let told = report.execution_log.iter().filter(|entry| phases.iter().any(|phase| entry["phase"] == *phase));
        Self {
            entered: report.states_executed,
            told: told.count(),
            gate: report.pending_gate.as_ref().map(|gate| gate.gate_id.clone()),
            end: !matches!(report.status.as_str(), "running" | "waiting"),
        }
    }

    fn take(&mut self, event: &RunEvent) {
        match event.event_type.as_str() {
            "state_entered" => self.entered = self.entered.saturating_sub(1),
            "state_completed" | "transition" | "contract_checked" => self.told = self.told.saturating_sub(1),
            "gate_waiting" => {
                self.gate.take_if(|gate| event.data.get("gate_id") == Some(&Value::String(gate.clone())));
            }
            _ => {}
        }
    }

    fn is_none(&self) -> bool {
        self.entered == 0 && self.told == 0 && self.gate.is_none() && !self.end
    }
}

/// `  12  09:41:22.123  state_entered  wait  await_output /done/`
fn line(event: &RunEvent) -> String {
    let text = |name: &str| event.data.get(name).and_then(Value::as_str).map(visible).unwrap_or_default();
    let value = |name: &str| event.data.get(name).unwrap_or(&Value::Null);
    // The day is the run's; what differs from line to line is the time.
    let time = event.timestamp.split_once('T').map_or(event.timestamp.as_str(), |(_, time)| time.trim_end_matches('Z'));
    let (style, about) = match event.event_type.as_str() {
        "workflow_started" => (STRONG, variables(value("input"))),
        "state_entered" => {
            (QUIET, format!("{}  {} {}", text("state"), text("tool"), action::detail(&text("tool"), value("params"))))
        }
        "state_completed" => {
            let outcome = match Outcome::of(value("outcome").as_str(), value("result")) {
                Outcome::TimedOut => "time is up".to_owned(),
                Outcome::Succeeded => "succeeded".to_owned(),
                Outcome::Unknown => "nobody knows whether it happened".to_owned(),
                Outcome::Failed => {
                    format!("failed: {}", visible(value("result")["error"].as_str().unwrap_or("no reason was given")))
                }
            };
            let seconds = value("elapsed_time").as_f64().unwrap_or_default();
            (
                QUIET,
                format!(
                    "{}  {outcome} in {}",
                    text("state"),
                    print::duration(std::time::Duration::from_secs_f64(seconds.max(0.0)))
                ),
            )
        }
        "transition" => (QUIET, format!("{} → {}  {}", text("from"), text("to"), text("because"))),
        "gate_waiting" => {
            let choices = value("choices").as_array().into_iter().flatten().filter_map(Value::as_str).map(visible);
            (STRONG, format!("{}  {}", text("state"), choices.collect::<Vec<_>>().join(" | ")))
        }
        "gate_answered" => {
            let through = value("through").as_str().map(|through| format!(" through {}", visible(through)));
            let (answer, through) = (question::answered(value("answer")), through.unwrap_or_default());
            (STRONG, format!("{}  {answer} (by {}{through})", text("state"), text("by")))
        }
        "contract_checked" => {
            let fails =
                if value("success") == &Value::Bool(false) { format!(": {}", text("error")) } else { String::new() };
            (QUIET, format!("{}  {}{fails}", text("side"), variables(value("variables"))))
        }
        "workflow_completed" => (GOOD, String::new()),
        "workflow_failed" => (BAD, text("error")),
        "workflow_cancelled" => (BAD, text("reason")),
        // A kind of event that came after this program: what it says is better than nothing.
        _ => (QUIET, visible(&Value::Object(event.data.clone()).to_string())),
    };
    let name = print::padded(&event.event_type, 18);
    format!("{QUIET}{:>4}  {time}{QUIET:#}  {style}{name}{style:#}  {}", event.seq, print::fitted(&about, 160))
        .trim_end()
        .to_owned()
}

fn variables(values: &Value) -> String {
    let told = |(name, value): (&String, &Value)| {
        format!("{}={}", visible(name), value.as_str().map_or_else(|| value.to_string(), visible))
    };
    values.as_object().into_iter().flatten().map(told).collect::<Vec<_>>().join(", ")
}
