//! `steplatch serve`: the HTTP server.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use steplatch_http::{Token, token_file};
use steplatch_protocol::{DaemonPaths, ensure_private};

use crate::failure::Failure;
use crate::http_listener::{HttpListener, ListenOptions};
use crate::print::{self, QUIET};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Serve {
    #[command(subcommand)]
    command: Option<ServeRequest>,

    #[command(flatten)]
    options: ListenOptions,

    /// Print the address as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum ServeRequest {
    /// Show where the access token is, or create a new one
    Token {
        /// Create a new token; the old one becomes invalid
        #[arg(long)]
        new: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Serve {
    pub(super) async fn run(self, place: &DaemonPaths) -> Result<ExitCode, Failure> {
        match self.command {
            Some(ServeRequest::Token { new, json }) => token(place, new, json),
            None => serve(place, self.options, self.json).await,
        }
    }
}

/// The services, by name and path.
const ROWS: [(&str, &str); 5] = [
    ("api", "/api/v1"),
    ("described", "/api/openapi.json"),
    ("mcp", "/mcp"),
    ("health", "/health"),
    ("metrics", "/metrics"),
];

async fn serve(place: &DaemonPaths, options: ListenOptions, json: bool) -> Result<ExitCode, Failure> {
    let listener = options.listen(place).await?;
    listener.print_address(&ROWS, json)?;
    if !json {
        let (token, url) = (listener.token_in_shell(), &listener.url);
        print::line(format!(
            "  {QUIET}try it   {QUIET:#}  curl -H \"Authorization: Bearer {token}\" {url}/api/v1/runs"
        ))?;
        print::line(format!("{QUIET}ctrl-c ends it; runs and terminals continue{QUIET:#}"))?;
    }
    HttpListener::serve(listener.server.with_api()).await?;
    Ok(ExitCode::SUCCESS)
}

fn token(place: &DaemonPaths, new: bool, json: bool) -> Result<ExitCode, Failure> {
    let file = token_file(place.state());
    let shown = file.display().to_string();
    if new {
        ensure_private(place.state()).map_err(|error| Failure::work(error.to_string()))?;
        let token = Token::renew(place.state()).map_err(|error| Failure::work(error.to_string()))?;
        if json {
            print::json(&json!({"success": true, "file": shown, "token": token}))?;
        } else {
            print::line(token)?;
            print::note(&format!("stored in {shown}; the old token is invalid now"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !file.exists() {
        return Err(Failure::work("there is no token yet; create one with: steplatch serve token --new"));
    }
    if json {
        print::json(&json!({"success": true, "file": shown}))?;
    } else {
        print::line(shown)?;
    }
    Ok(ExitCode::SUCCESS)
}
