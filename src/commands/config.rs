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
        let settings = match (Settings::load(), &self) {
            (Ok(settings), _) => settings,
            (Err(error), Self::Check { json: true }) => return found(&[error.to_string()]),
            (Err(error), _) => return Err(Failure::usage(error.to_string())),
        };
        match self {
            Self::Show { json: true } => {
                let rows = settings.all().map(|(key, value, origin)| {
                    (key.name.to_owned(), json!({"value": value, "origin": origin.to_string(), "about": key.about}))
                });
                print::json(&rows.collect::<serde_json::Map<_, _>>())?;
            }
            Self::Show { json: false } => {
                let head = ["SETTING", "VALUE", "FROM", "WHAT IT SAYS"].map(str::to_owned).to_vec();
                let rows = settings.all().map(|(key, value, origin)| {
                    vec![key.name.to_owned(), value.to_string(), origin.to_string(), key.about.to_owned()]
                });
                print::line(print::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))?;
                if let Some(file) = file() {
                    print::note(&format!("change them in {}, or in the environment", file.display()));
                }
            }
            Self::Check { json: true } => return found(&settings.unknown),
            Self::Check { json: false } if settings.unknown.is_empty() => print::line("the configuration is in order")?,
            Self::Check { json: false } => return Err(Failure::usage(settings.unknown.join("\n"))),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints what is wrong with the configuration as JSON.
fn found(problems: &[String]) -> Result<ExitCode, Failure> {
    let reply = json!({"success": problems.is_empty(), "problems": problems});
    if !problems.is_empty() {
        return Err(Failure::usage(problems.join("\n")).with(&reply));
    }
    print::json(&reply)?;
    Ok(ExitCode::SUCCESS)
}
