//! `steplatch serve`

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use steplatch_http::{Token, token_file};
use steplatch_protocol::{Place, ensure_private};

use crate::failure::Failure;
use crate::listening::{Listening, Listens, told_to_end};
use crate::print::{self, QUIET, STRONG};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Serve {
    #[command(subcommand)]
    command: Option<Asked>,

    #[command(flatten)]
    listening: Listening,

    /// Print where it listens as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Asked {
    /// Tell where the token is that requests carry, or make a new one
    Token {
        /// Make a new one; the old one opens nothing any more
        #[arg(long)]
        new: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Serve {
    pub(super) async fn run(self, place: &Place) -> Result<ExitCode, Failure> {
        match self.command {
            Some(Asked::Token { new, json }) => token(place, new, json),
            None => serve(place, self.listening, self.json).await,
        }
    }
}

async fn serve(place: &Place, listening: Listening, json: bool) -> Result<ExitCode, Failure> {
    let listens = listening.listen(place, "http").await?;
    tell(&listens, json)?;
    let server = listens.server.with_api();
    // Heard before anything is answered, so that whoever saw the address can end us.
    let end = async {
        if let Err(failure) = told_to_end().await {
            tracing::error!(error = failure.message(), "serving ends");
        }
    };
    server.serve(end).await;
    Ok(ExitCode::SUCCESS)
}

/// Says where it listens and how it is entered.
fn tell(listens: &Listens, json: bool) -> Result<(), Failure> {
    let Listens { url, token, token_file, .. } = listens;
    if json {
        let mut told = json!({"success": true, "url": url, "api": format!("{url}/api/v1")});
        if let Some(file) = token_file {
            told["token_file"] = file.display().to_string().into();
        }
        if let Some(token) = token {
            told["token"] = token.as_str().into();
        }
        return Ok(print::json_line(&told)?);
    }
    print::line(format!("{STRONG}steplatch listens on {url}{STRONG:#}"))?;
    let row = |name: &str, says: &str| print::line(format!("  {QUIET}{}{QUIET:#}  {says}", print::padded(name, 7)));
    row("API", &format!("{url}/api/v1, described at {url}/api/openapi.json"))?;
    row("health", &format!("{url}/health, {url}/metrics"))?;
    match (token, token_file) {
        (Some(token), Some(file)) => {
            row("token", token)?;
            row("", &format!("made just now and shown this once; it is kept in {}", file.display()))?;
        }
        (_, Some(file)) => row("token", &format!("in {}", file.display()))?,
        (_, None) => row("token", "as in STEPLATCH_HTTP_TOKEN")?,
    }
    let value = match token_file {
        Some(file) => format!("$(cat {})", file.display()),
        None => "$STEPLATCH_HTTP_TOKEN".to_owned(),
    };
    row("try it", &format!("curl -H \"Authorization: Bearer {value}\" {url}/api/v1/runs"))?;
    print::line(format!("{QUIET}ctrl-c ends it; runs and terminals go on without it{QUIET:#}"))?;
    Ok(())
}

fn token(place: &Place, new: bool, json: bool) -> Result<ExitCode, Failure> {
    let file = token_file(place.state());
    let shown = file.display().to_string();
    if new {
        ensure_private(place.state()).map_err(|error| Failure::work(error.to_string()))?;
        let token = Token::renew(place.state()).map_err(|error| Failure::work(error.to_string()))?;
        if json {
            print::json(&json!({"success": true, "file": shown, "token": token}))?;
        } else {
            print::line(token)?;
            print::note(&format!("kept in {shown}; the one before opens nothing any more"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !file.exists() {
        return Err(Failure::work(
            "there is no token yet; 'steplatch serve' makes one, and so does: steplatch serve token --new",
        ));
    }
    if json {
        print::json(&json!({"success": true, "file": shown}))?;
    } else {
        print::line(shown)?;
    }
    Ok(ExitCode::SUCCESS)
}
