//! `steplatch schedule …`: runs of workflows at times, when files change, and on requests.

use std::process::ExitCode;

use clap::{ArgGroup, Args, Subcommand};
use steplatch_protocol::{
    AddSchedule, DaemonPaths, FireSchedule, ListSchedules, MissedTimes, Overlap, PauseSchedule, RemoveSchedule,
    RunWorkflow, ScheduleInfo, ScheduleReply,
};

use super::run::{parse_run_timeout, parse_variable, set_workflow};
use crate::failure::Failure;
use crate::print::visible;
use crate::{completion, daemon_client, print};

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    Add(Box<Add>),
    /// List the schedules, with their next and last runs
    List {
        /// Schedule [default: all]
        #[arg(add = completion::schedules())]
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Start a run of a schedule now
    Run(Named),
    /// Pause a schedule; the times of the pause are not missed
    Pause(Named),
    /// Resume a paused schedule
    Resume(Named),
    /// Remove a schedule; its runs remain
    Rm(Named),
}

#[derive(Debug, Args)]
pub(crate) struct Named {
    /// Schedule
    #[arg(add = completion::schedules())]
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Add a schedule that starts runs of a workflow
///
/// Runs begin in the current directory, with its project and library. Their variables are stored; a secret
/// stands in the settings, and the workflow uses {secret:NAME}.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("trigger").required(true).args(["cron", "every", "on_change", "webhook"]))]
pub(crate) struct Add {
    /// Name of the schedule
    name: String,
    /// Workflow: a JSON file, a .py file with a function (FILE.py:NAME selects one of several), or the name of a saved workflow
    #[arg(long, short, value_name = "FILE|NAME", add = completion::files_and_workflows())]
    workflow: String,
    /// Times: minute, hour, day, month and weekday, such as '30 2 * * 1-5', or @daily
    #[arg(long, value_name = "EXPRESSION", help_heading = "Trigger")]
    cron: Option<String>,
    /// Interval, such as 10m
    #[arg(long, value_name = "SPAN", help_heading = "Trigger")]
    every: Option<String>,
    /// Change of a file, or of a file in a directory (repeatable)
    #[arg(long, value_name = "PATH", help_heading = "Trigger")]
    on_change: Vec<String>,
    /// Request with a token, which is printed: POST /hooks/NAME of 'steplatch serve'
    #[arg(long, help_heading = "Trigger")]
    webhook: bool,
    /// Set a workflow variable (repeatable); {scheduled_at} becomes the time for which the run starts
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = parse_variable)]
    input: Vec<(String, String)>,
    /// Time zone of --cron, such as Europe/Berlin [default: of the system]
    #[arg(long, value_name = "ZONE", requires = "cron")]
    timezone: Option<String>,
    /// Times at which no daemon ran: one run for all of them as of the first (catch_up) or the last (latest), or none (skip)
    #[arg(long, value_name = "RULE", default_value = "catch_up", value_parser = ["catch_up", "latest", "skip"])]
    missed: String,
    /// Start while the last run has not ended: left out (skip), after its end (queue), or after cancelling it
    /// (cancel_previous) [default: queue for --on-change, else skip]
    #[arg(long, value_name = "RULE", value_parser = ["skip", "queue", "cancel_previous"])]
    overlap: Option<String>,
    /// Maximum delay of a start, such as 5m, which spreads the starts of several schedules
    #[arg(long, value_name = "SPAN")]
    jitter: Option<String>,
    /// Time limit of each run in seconds (1 to 7200; default 1800); gates and pauses do not count
    #[arg(long, value_name = "SECONDS", value_parser = parse_run_timeout)]
    timeout: Option<f64>,
    /// Replace the schedule with this name
    #[arg(long)]
    replace: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ScheduleCommand {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        match self {
            Self::Add(add) => add.run(paths).await,
            Self::List { name, json } => list(paths, name, json).await,
            Self::Run(Named { name, json }) => start(paths, name, json).await,
            Self::Pause(Named { name, json }) => pause(paths, name, true, json).await,
            Self::Resume(Named { name, json }) => pause(paths, name, false, json).await,
            Self::Rm(Named { name, json }) => {
                let reply = checked(daemon_client::ask(paths, RemoveSchedule { name }).await?)?;
                report(&reply, json, "removed")
            }
        }
    }
}

impl Add {
    async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let mut run = RunWorkflow {
            initial_variables: Some(self.input.into_iter().map(|(name, text)| (name, text.into())).collect()),
            execution_timeout: self.timeout,
            ..RunWorkflow::default()
        };
        set_workflow(&mut run, &self.workflow)?;
        let verb = AddSchedule {
            name: self.name,
            run: Box::new(run),
            cron: self.cron,
            every: self.every,
            paths: Some(self.on_change).filter(|paths| !paths.is_empty()),
            webhook: self.webhook,
            timezone: self.timezone,
            missed: match self.missed.as_str() {
                "latest" => MissedTimes::Latest,
                "skip" => MissedTimes::Skip,
                _ => MissedTimes::CatchUp,
            },
            overlap: self.overlap.map(|overlap| match overlap.as_str() {
                "queue" => Overlap::Queue,
                "cancel_previous" => Overlap::CancelPrevious,
                _ => Overlap::Skip,
            }),
            jitter: self.jitter,
            replace: self.replace,
        };
        let reply = checked(daemon_client::ask(paths, verb).await?)?;
        if let Some(token) = reply.token.as_ref().filter(|_| !self.json) {
            print::line(format!("token: {token}"))?;
            print::remark("the token is not shown again; send it as 'Authorization: Bearer TOKEN'");
        }
        report(&reply, self.json, "added")
    }
}

fn checked(reply: ScheduleReply) -> Result<ScheduleReply, Failure> {
    match &reply.error {
        Some(error) => Err(Failure::work(error.clone()).with(&reply)),
        None => Ok(reply),
    }
}

fn report(reply: &ScheduleReply, json: bool, change: &str) -> Result<ExitCode, Failure> {
    if json {
        print::json(reply)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(schedule) = &reply.schedule else { return Ok(ExitCode::SUCCESS) };
    print::line(
        format!("{} '{}': {} {}", change, schedule.name, visible(&schedule.trigger), zone_of(schedule)).trim_end(),
    )?;
    if !reply.next_times.is_empty() && !schedule.paused {
        let times: Vec<_> = reply.next_times.iter().map(|time| print::local_time(time)).collect();
        print::line(format!("next: {}", times.join(", ")))?;
    }
    if reply.dropped_starts > 0 {
        print::remark(&format!("dropped waiting starts: {}", reply.dropped_starts));
    }
    Ok(ExitCode::SUCCESS)
}

fn zone_of(schedule: &ScheduleInfo) -> String {
    schedule.timezone.as_ref().map(|zone| format!("({})", visible(zone))).unwrap_or_default()
}

async fn pause(paths: &DaemonPaths, name: String, paused: bool, json: bool) -> Result<ExitCode, Failure> {
    let reply = checked(daemon_client::ask(paths, PauseSchedule { name, paused }).await?)?;
    report(&reply, json, if paused { "paused" } else { "resumed" })
}

async fn start(paths: &DaemonPaths, name: String, json: bool) -> Result<ExitCode, Failure> {
    let verb = FireSchedule { name, ..FireSchedule::default() };
    let reply = daemon_client::ask(paths, verb).await?;
    if !reply.success {
        let error = reply.error.clone().unwrap_or_else(|| "the run did not start".to_owned());
        return Err(Failure::work(error).with(&reply));
    }
    if json {
        print::json(&reply)?;
        return Ok(ExitCode::SUCCESS);
    }
    match (&reply.run_id, &reply.active_run_id) {
        (Some(run_id), _) => print::line(run_id)?,
        (None, Some(active)) => print::line(format!("starts when run {active} has ended"))?,
        (None, None) => print::line(&reply.status)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Message without schedules.
const NO_SCHEDULES: &str =
    "there are no schedules; add one: steplatch schedule add NAME --cron '30 2 * * *' --workflow NAME";

async fn list(paths: &DaemonPaths, name: Option<String>, json: bool) -> Result<ExitCode, Failure> {
    let reply = daemon_client::ask(paths, ListSchedules { name }).await?;
    if let Some(error) = &reply.error {
        return Err(Failure::work(error.clone()).with(&reply));
    }
    if json {
        print::json(&reply)?;
        return Ok(ExitCode::SUCCESS);
    }
    if reply.schedules.is_empty() {
        print::remark(NO_SCHEDULES);
        return Ok(ExitCode::SUCCESS);
    }
    let head = ["SCHEDULE", "WORKFLOW", "TRIGGER", "NEXT", "LAST", "OUTCOME"].map(str::to_owned).to_vec();
    let rows = reply.schedules.iter().map(|schedule| {
        let next = match (&schedule.next_start, schedule.paused) {
            (_, true) => "paused".to_owned(),
            (Some(next), false) => print::local_time(next),
            (None, false) => "-".to_owned(),
        };
        let last = schedule.last.as_ref();
        let outcome = last.map_or("-", |last| match (&last.state, &last.run_id) {
            (Some(state), _) => state,
            (None, Some(_)) => "running",
            (None, None) => "not started",
        });
        vec![
            schedule.name.clone(),
            visible(&schedule.workflow),
            format!("{} {}", visible(&schedule.trigger), zone_of(schedule)).trim_end().to_owned(),
            next,
            last.map_or_else(|| "never".to_owned(), |last| print::ago(&last.started_at)),
            outcome.to_owned(),
        ]
    });
    print::line(print::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))?;
    for schedule in &reply.schedules {
        for remark in remarks(schedule) {
            print::remark(&format!("{}: {remark}", schedule.name));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the facts about a schedule that a person should know.
fn remarks(schedule: &ScheduleInfo) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(last) = &schedule.last {
        if let Some(error) = &last.error {
            remarks.push(format!(
                "no run was started for {}: {}",
                print::local_time(&last.scheduled_at),
                visible(error)
            ));
        } else if last.missed_times > 0 {
            let time = print::local_time(&last.scheduled_at);
            remarks.push(format!("the last run, for {time}, covers other missed times: {}", last.missed_times));
        }
    }
    if let Some(active) = schedule.active_run_id.as_ref().filter(|_| schedule.waiting_starts > 0) {
        remarks.push(format!("starts that wait for run {active}: {}", schedule.waiting_starts));
    }
    if schedule.overlapped > 0 {
        remarks.push(format!("starts left out because a run had not ended: {}", schedule.overlapped));
    }
    if schedule.missed_times > 0 {
        remarks.push(format!("times without a run because no daemon ran: {}", schedule.missed_times));
    }
    remarks
}
