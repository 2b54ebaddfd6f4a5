//! `steplatch config …`

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;

use crate::failure::Failure;
use crate::print;
use crate::settings::{Settings, file};

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print every setting with its value and where that comes from
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what is wrong with the configuration
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Config {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Show { json } => show(json),
            Self::Check { json } => check(json),
        }
    }
}

fn show(json: bool) -> Result<ExitCode, Failure> {
    let settings = Settings::load().map_err(|bad| Failure::usage(bad.to_string()))?;
    if json {
        let rows = settings.all().map(|(key, value, origin)| {
            (key.name.to_owned(), json!({"value": value, "origin": origin.to_string(), "about": key.about}))
        });
        print::json(&rows.collect::<serde_json::Map<_, _>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let head = ["SETTING", "VALUE", "FROM", "WHAT IT SAYS"].map(str::to_owned).to_vec();
    let rows = settings.all().map(|(key, value, origin)| {
        vec![key.name.to_owned(), print::visible(&value.to_string()), origin.to_string(), key.about.to_owned()]
    });
    print::line(print::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))?;
    if let Some(file) = file() {
        print::note(&format!("change them in {}, or in the environment", file.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn check(json: bool) -> Result<ExitCode, Failure> {
    let problems = problems();
    if !problems.is_empty() {
        let reply = json!({"success": false, "problems": problems});
        return Err(Failure::usage(problems.join("\n")).with(&reply));
    }
    if json {
        print::json(&json!({"success": true, "problems": []}))?;
    } else {
        print::line("the configuration is in order")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Everything that is wrong with the configuration of this user.
pub(super) fn problems() -> Vec<String> {
    let problems = match Settings::load() {
        Ok(settings) => settings.unknown,
        Err(bad) => bad.0,
    };
    problems.iter().map(ToString::to_string).collect()
}
