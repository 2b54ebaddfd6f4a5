//! `steplatch notify …`: the rules of notifications, and tests of them.

use std::process::ExitCode;

use clap::Subcommand;
use steplatch_protocol::{DaemonPaths, ListNotifications, NotificationRule, TestNotification};

use crate::failure::Failure;
use crate::print::visible;
use crate::{completion, daemon_client, print};

#[derive(Debug, Subcommand)]
pub(crate) enum Notify {
    /// List the rules of notifications, with their last, pending and failed deliveries
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Send a test message by each rule, and report the results
    Test {
        /// Rule [default: all]
        #[arg(add = completion::notification_rules())]
        rule: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Message without rules.
pub(crate) const NO_RULES: &str =
    "nothing notifies you; add a table [[notify]] to the settings: steplatch docs notifications";

impl Notify {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        match self {
            Self::List { json } => list(paths, json).await,
            Self::Test { rule, json } => test(paths, rule, json).await,
        }
    }
}

async fn list(paths: &DaemonPaths, json: bool) -> Result<ExitCode, Failure> {
    let reply = daemon_client::ask(paths, ListNotifications {}).await?;
    if json {
        print::json(&reply)?;
        return Ok(ExitCode::SUCCESS);
    }
    if reply.rules.is_empty() {
        print::remark(NO_RULES);
        return Ok(ExitCode::SUCCESS);
    }
    let head = ["RULE", "WAY", "WHEN", "LAST", "PENDING", "FAILED"].map(str::to_owned).to_vec();
    let rows = reply.rules.iter().map(|rule| {
        let way = format!("{} {}", rule.way, visible(&rule.destination));
        let last = match (&rule.last_at, &rule.last_occasion) {
            (Some(at), Some(occasion)) => format!("{occasion} {}", print::ago(at)),
            _ => "none".to_owned(),
        };
        let (pending, failures) = (rule.pending.to_string(), rule.failures.to_string());
        vec![rule.name.clone(), way.trim_end().to_owned(), rule.when.join(", "), last, pending, failures]
    });
    print::line(print::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))?;
    for (rule, error) in reply.rules.iter().filter_map(|rule| Some((rule, rule.last_error.as_ref()?))) {
        print::remark(&format!("{}: {}{}", rule.name, visible(error), next_attempt(rule)));
    }
    Ok(ExitCode::SUCCESS)
}

fn next_attempt(rule: &NotificationRule) -> &'static str {
    if rule.pending > 0 { "; it is tried again" } else { "" }
}

async fn test(paths: &DaemonPaths, rule: Option<String>, json: bool) -> Result<ExitCode, Failure> {
    let reply = daemon_client::ask(paths, TestNotification { rule }).await?;
    if let Some(error) = &reply.error {
        return Err(Failure::work(error.clone()).with(&reply));
    }
    if json {
        print::json(&reply)?;
    } else {
        for result in &reply.results {
            let outcome = result.error.as_ref().map_or_else(|| "sent".to_owned(), |error| visible(error));
            print::line(format!("{} ({}): {outcome}", result.rule, result.way))?;
        }
    }
    Ok(if reply.success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
