//! `steplatch config …`: the settings and their origins.

use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

use crate::failure::Failure;
use crate::print::{self, QUIET};
use crate::settings::hosts::HostSetting;
use crate::settings::notify::NotifySetting;
use crate::settings::remotes::Remote;
use crate::settings::secrets::ConfiguredSecret;
use crate::settings::{Settings, file};

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show every setting, its value and its origin
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check the configuration and report all problems
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Config {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Show { json } => show(json).await,
            Self::Check { json } => check(json).await,
        }
    }
}

async fn show(json: bool) -> Result<ExitCode, Failure> {
    let settings = Settings::load().map_err(|bad| Failure::usage(bad.to_string()))?;
    let mut rows: Vec<(String, Value, String, &str)> = Vec::new();
    for (key, value, origin) in settings.all() {
        rows.push((key.name.to_owned(), json!(value), origin.to_string(), key.description));
    }
    let services = settings.remotes.iter().flat_map(Remote::rows);
    let hosts = settings.hosts.iter().flat_map(HostSetting::rows);
    let notifications = settings.notifications.iter().flat_map(NotifySetting::rows);
    let secrets = settings.secrets.iter().flat_map(ConfiguredSecret::rows);
    rows.extend(
        services
            .chain(hosts)
            .chain(notifications)
            .chain(secrets)
            .map(|row| (row.name, row.value, row.origin.to_string(), row.description)),
    );
    let missing_tokens_by_name = missing_tokens(&settings, true).await;
    if json {
        let documents = rows.into_iter().map(|(name, value, origin, about)| {
            let mut document = json!({"value": value, "origin": origin, "about": about});
            if [".token", ".secret"].iter().any(|key| name.ends_with(key)) && !value.is_null() {
                let problem = missing_tokens_by_name.get(&name);
                document["resolves"] = problem.is_none().into();
                problem.inspect(|problem| document["problem"] = problem.as_str().into());
            }
            (name, document)
        });
        print::json(&documents.collect::<serde_json::Map<_, _>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let head = ["SETTING", "VALUE", "FROM", "DESCRIPTION"].map(str::to_owned).to_vec();
    let lines = rows.iter().map(|(name, value, origin, about)| {
        let mut cell = format_cell(value);
        if missing_tokens_by_name.contains_key(name) {
            cell.push_str(" (missing)");
        }
        vec![name.clone(), cell, origin.clone(), (*about).to_owned()]
    });
    let mut table: Vec<Vec<String>> = std::iter::once(head).chain(lines).collect();
    print_described(&mut table)?;
    for (name, problem) in &missing_tokens_by_name {
        print::remark(&format!("{name}: {problem}"));
    }
    if let Some(file) = file() {
        print::remark(&format!("change them in {}, or in the environment", file.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Minimum width for descriptions next to the other columns. On narrower terminals, each description is on its own
/// line.
const MIN_DESCRIPTION_COLUMNS: usize = 50;

/// Prints a table whose last column is a description, wrapped to the terminal.
fn print_described(table: &mut [Vec<String>]) -> io::Result<()> {
    let descriptions: Vec<String> = table.iter_mut().filter_map(Vec::pop).collect();
    let text = print::table(table);
    let rows: Vec<&str> = text.lines().collect();
    let left_columns = rows.iter().map(|row| row.width()).max().unwrap_or_default() + 2;
    let is_narrow = print::width().is_some_and(|width| width < left_columns + MIN_DESCRIPTION_COLUMNS);
    for (index, (row, description)) in rows.iter().zip(&descriptions).enumerate() {
        if !is_narrow {
            print::line(
                format!("{}{}", print::padded(row, left_columns), print::hanging(description, left_columns)).trim_end(),
            )?;
        } else if index == 0 {
            print::line(row)?;
        } else {
            print::line(format!("{row}\n  {QUIET}{}{QUIET:#}", print::hanging(description, 2)))?;
        }
    }
    Ok(())
}

/// Formats a value as the cell of a table.
fn format_cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => print::visible(text),
        Value::Array(values) => values.iter().map(format_cell).collect::<Vec<_>>().join(", "),
        value => value.to_string(),
    }
}

async fn check(json: bool) -> Result<ExitCode, Failure> {
    let problems = problems().await;
    if !problems.is_empty() {
        let reply = json!({"success": false, "problems": problems});
        return Err(Failure::usage(problems.join("\n")).with(&reply));
    }
    if json {
        print::json(&json!({"success": true, "problems": []}))?;
    } else {
        print::line("configuration: ok")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns all problems of this user's configuration.
pub(crate) async fn problems() -> Vec<String> {
    match Settings::load() {
        Ok(settings) => {
            let mut problems: Vec<String> = settings.unknown.iter().map(ToString::to_string).collect();
            let missing = missing_tokens(&settings, false).await;
            problems.extend(missing.into_iter().map(|(name, problem)| format!("{name}: {problem}")));
            problems
        }
        Err(bad) => bad.0.iter().map(ToString::to_string).collect(),
    }
}

/// Returns the names of the settings of tokens and secrets that do not resolve, with the reasons. `include_disabled` includes those of
/// disabled services.
async fn missing_tokens(settings: &Settings, include_disabled: bool) -> BTreeMap<String, String> {
    let services = settings.remotes.iter().map(|remote| &remote.config);
    let services = services.filter(|config| include_disabled || config.enabled);
    let tokens = services.filter_map(|config| Some((format!("remote.{}.token", config.name), config.token.as_ref()?)));
    let rules = settings.notifications.iter().map(|setting| &setting.rule);
    let secrets = rules.filter_map(|rule| {
        let (key, token) = rule.way.token()?;
        Some((format!("notify.{}.{key}", rule.name), token))
    });
    let mut missing = BTreeMap::new();
    for (name, token) in tokens.chain(secrets) {
        if let Err(error) = token.resolve().await {
            missing.insert(name, error.to_string());
        }
    }
    missing
}
