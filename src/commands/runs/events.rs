//! `steplatch runs events`: the events of a run.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use steplatch_protocol::{DaemonPaths, FollowError, RunEvent};

use super::not_found;
use super::stories::{Stories, StorySelection};
use crate::action::{self, Outcome};
use crate::failure::Failure;
use crate::print::{self, BAD, GOOD, QUIET, STRONG, visible};
use crate::{completion, daemon_client, pick, question};

#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Run: its id or an unambiguous prefix; without one the only run, or one picked from a list
    #[arg(value_name = "RUN", add = completion::runs())]
    id: Option<String>,
    /// Start at event N
    #[arg(long, value_name = "N", default_value_t = 1)]
    from: u64,
    /// Keep printing new events until the run ends
    #[arg(long, short)]
    follow: bool,
    /// Include the events of nested runs
    #[arg(long)]
    nested: bool,
    /// Print each event as one JSON line
    #[arg(long)]
    json: bool,
}

impl Events {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let id = pick::run(paths, self.id).await?;
        let selection = StorySelection { follow: self.follow, nested: self.nested };
        let unknown = |error| match error {
            FollowError::Unknown(_) => not_found(&id),
            error => Failure::from(error),
        };
        let mut stories =
            Stories::follow_run(daemon_client::reconnecting_client(paths)?, &id, self.from.max(1), selection)
                .await
                .map_err(unknown)?;
        while let Some((event, depth)) = stories.next().await.map_err(unknown)? {
            if self.json {
                print::json_line(&event)?;
            } else {
                print::line(format!("{}{}", "  ".repeat(depth), event_line(&event)))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Formats an event: `  12  09:41:22.123  state_entered  wait  await_output /done/`.
fn event_line(event: &RunEvent) -> String {
    let text = |name: &str| event.data.get(name).and_then(Value::as_str).map(visible).unwrap_or_default();
    let value = |name: &str| event.data.get(name).unwrap_or(&Value::Null);
    // Omit the date, because it is usually the same on all lines.
    let time = event.timestamp.split_once('T').map_or(event.timestamp.as_str(), |(_, time)| time.trim_end_matches('Z'));
    let (style, description) = match event.event_type.as_str() {
        "workflow_started" => (STRONG, variables(value("input"))),
        "state_entered" => {
            (QUIET, format!("{}  {} {}", text("state"), text("tool"), action::detail(&text("tool"), value("params"))))
        }
        "state_completed" => {
            let outcome = match Outcome::from_result(value("outcome").as_str(), value("result")) {
                Outcome::TimedOut => "timed out".to_owned(),
                Outcome::Succeeded => "succeeded".to_owned(),
                Outcome::Unknown => "outcome unknown".to_owned(),
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
        "question_answered" => (QUIET, format!("{}  {}", text("state"), action::dialogue_answer(&event.data))),
        "transition" => (QUIET, format!("{} → {}  {}", text("from"), text("to"), text("because"))),
        "gate_waiting" => {
            let choices = value("choices").as_array().into_iter().flatten().filter_map(Value::as_str).map(visible);
            (STRONG, format!("{}  {}", text("state"), choices.collect::<Vec<_>>().join(" | ")))
        }
        "gate_answered" => {
            let through = value("through").as_str().map(|through| format!(" through {}", visible(through)));
            let (answer, through) = (question::format_answer(value("answer")), through.unwrap_or_default());
            let reason = question::format_reason(value("reason").as_str().unwrap_or_default());
            (STRONG, format!("{}  {answer}{reason} (by {}{through})", text("state"), text("by")))
        }
        "contract_checked" => {
            let error_suffix =
                if value("success") == &Value::Bool(false) { format!(": {}", text("error")) } else { String::new() };
            (QUIET, format!("{}  {}{error_suffix}", text("side"), variables(value("variables"))))
        }
        "branch_began" | "branch_ended" => {
            let name = value("name").as_str().map_or_else(|| value("branch").to_string(), visible);
            let error = value("result").get("error").and_then(Value::as_str).map(visible).unwrap_or_default();
            let style = if error.is_empty() { QUIET } else { BAD };
            (style, format!("{}  {name}  {error}", text("state")).trim_end().to_owned())
        }
        "items_began" => {
            let count = value("items").as_array().map_or(0, Vec::len);
            (QUIET, format!("{}  {count} items as {}", text("state"), text("as")))
        }
        "nested_workflow_started" => (STRONG, format!("{}  {}", text("workflow_id"), text("child_run_id"))),
        "nested_workflow_completed" => (GOOD, text("workflow_id")),
        "nested_workflow_failed" | "nested_workflow_cancelled" => {
            (BAD, format!("{}  {}", text("workflow_id"), text("error")).trim_end().to_owned())
        }
        "nested_workflow_waiting" | "nested_workflow_resumed" | "gate_timeout" | "gate_cancelled" => {
            (QUIET, text("state"))
        }
        "workflow_paused" | "workflow_resumed" => (STRONG, format!("by {}", text("by"))),
        "workflow_completed" => (GOOD, String::new()),
        "workflow_failed" => (BAD, text("error")),
        "workflow_cancelled" => (BAD, text("reason")),
        // This version does not know the type of the event: show its data as JSON.
        _ => (QUIET, visible(&Value::Object(event.data.clone()).to_string())),
    };
    let description = if event.is_taken_over() { format!("{description}  taken over") } else { description };
    let name = print::padded(&event.event_type, 18);
    format!("{QUIET}{:>4}  {time}{QUIET:#}  {style}{name}{style:#}  {}", event.seq, print::fitted(&description, 160))
        .trim_end()
        .to_owned()
}

fn variables(values: &Value) -> String {
    let format_variable = |(name, value): (&String, &Value)| {
        format!("{}={}", visible(name), value.as_str().map_or_else(|| value.to_string(), visible))
    };
    values.as_object().into_iter().flatten().map(format_variable).collect::<Vec<_>>().join(", ")
}
