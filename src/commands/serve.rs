//! `steplatch serve`: the HTTP server.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use steplatch_http::{Token, token_file};
use steplatch_protocol::{DaemonPaths, EndPageSessions, ListPageSessions, PageSessionInfo, ensure_private};

use crate::failure::Failure;
use crate::http_listener::{HttpListener, ListenOptions};
use crate::print::{self, QUIET};
use crate::{daemon_client, page_server};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = OTHER_INSTANCES)]
pub(crate) struct Serve {
    #[command(subcommand)]
    command: Option<ServeRequest>,

    #[command(flatten)]
    options: ListenOptions,

    /// Print the address as JSON
    #[arg(long)]
    json: bool,

    /// Detach from the terminal, and end if another server serves the page
    #[arg(long, hide = true)]
    detached: bool,
}

const OTHER_INSTANCES: &str = "Other instances of steplatch use the API to run workflows here.";

#[derive(Debug, Subcommand)]
enum ServeRequest {
    /// List the browsers that are logged in to the page and the links to terminals, and end them
    #[command(args_conflicts_with_subcommands = true)]
    Sessions {
        #[command(subcommand)]
        command: Option<SessionsRequest>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Stop the server of the page, which 'steplatch open' starts
    Stop {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the file of the access token, or create a new token
    Token {
        /// Create a new token; the old one becomes invalid
        #[arg(long)]
        new: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
enum SessionsRequest {
    /// Log a browser out
    End {
        /// Id of the session, or the beginning of it
        #[arg(value_name = "ID", required_unless_present = "all")]
        session: Option<String>,
        /// Log all browsers out
        #[arg(long, conflicts_with = "session")]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Serve {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        match self.command {
            Some(ServeRequest::Token { new, json }) => show_or_renew_token(paths, new, json).await,
            Some(ServeRequest::Sessions { command: None, json }) => list_sessions(paths, json).await,
            Some(ServeRequest::Sessions { command: Some(SessionsRequest::End { session, json, .. }), .. }) => {
                end_sessions(paths, session, json).await
            }
            Some(ServeRequest::Stop { json }) => stop(paths, json).await,
            None => serve(paths, self.options, self.json, self.detached).await,
        }
    }
}

/// Services with their names and paths.
const SERVICES: [(&str, &str); 6] = [
    ("page", "/"),
    ("api", "/api/v1"),
    ("described", "/api/openapi.json"),
    ("mcp", "/mcp"),
    ("health", "/health"),
    ("metrics", "/metrics"),
];

async fn serve(paths: &DaemonPaths, options: ListenOptions, json: bool, detached: bool) -> Result<ExitCode, Failure> {
    let mut lock = page_server::acquire(paths).await?;
    if detached {
        if lock.is_none() {
            return Ok(ExitCode::SUCCESS);
        }
        // The server must survive the terminal that started it. Ignore a failure, because it is already a session
        // leader.
        let _ = rustix::process::setsid();
    }
    let listener = options.listen(paths).await?;
    if let (Some(lock), Some(port)) = (&mut lock, listener.page_port()) {
        lock.record(port)?;
    }
    listener.print_address(&SERVICES, json)?;
    if !json {
        let (token, url) = (listener.token_in_shell(), &listener.url);
        print::line(format!(
            "  {QUIET}try it   {QUIET:#}  curl -H \"Authorization: Bearer {token}\" {url}/api/v1/runs"
        ))?;
        print::line(format!("  {QUIET}log in   {QUIET:#}  steplatch open"))?;
        print::line(format!("{QUIET}ctrl-c stops it; runs and terminals continue{QUIET:#}"))?;
    }
    HttpListener::serve(listener.server.with_api().with_page(), listener.signals).await;
    drop(lock);
    Ok(ExitCode::SUCCESS)
}

/// Lists the browsers that are logged in.
async fn list_sessions(paths: &DaemonPaths, json: bool) -> Result<ExitCode, Failure> {
    let reply = daemon_client::ask(paths, ListPageSessions {}).await?;
    if json {
        print::json(&reply)?;
        return Ok(ExitCode::SUCCESS);
    }
    if reply.sessions.is_empty() && reply.shares.is_empty() {
        print::remark("no browser is logged in; log one in with: steplatch open");
        return Ok(ExitCode::SUCCESS);
    }
    if !reply.sessions.is_empty() {
        print_browsers(reply.sessions)?;
    }
    if !reply.shares.is_empty() {
        let head = ["link", "terminal", "expires", "browsers"].map(str::to_owned).to_vec();
        let rows = reply
            .shares
            .into_iter()
            .map(|share| vec![share.share_id, share.session_id, share.expires, share.browsers.to_string()]);
        print::line(print::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_browsers(sessions: Vec<PageSessionInfo>) -> Result<(), Failure> {
    let head = ["session", "logged in", "last used", "browser"].map(str::to_owned).to_vec();
    let rows =
        sessions.into_iter().map(|session| vec![session.session_id, session.began, session.used, session.browser]);
    print::line(print::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))?;
    Ok(())
}

/// Logs one browser out, or all.
async fn end_sessions(paths: &DaemonPaths, session_id: Option<String>, json: bool) -> Result<ExitCode, Failure> {
    let reply = daemon_client::ask(paths, EndPageSessions { session_id }).await?;
    if !reply.success {
        return Err(Failure::work(reply.error.unwrap_or_else(|| "the session could not be ended".to_owned())));
    }
    if json {
        print::json(&reply)?;
    } else {
        print::line(match reply.ended {
            0 => "ended; no browser used it".to_owned(),
            1 => "1 browser is logged out".to_owned(),
            many => format!("{many} browsers are logged out"),
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Stops the server of the page.
async fn stop(paths: &DaemonPaths, json: bool) -> Result<ExitCode, Failure> {
    let record = page_server::stop(paths).await?;
    if json {
        print::json(&json!({"success": true, "pid": record.map(|record| record.pid)}))?;
        return Ok(ExitCode::SUCCESS);
    }
    match record {
        Some(record) => print::line(format!("server stopped: pid {}, {}", record.pid, record.url()))?,
        None => print::remark("no server of the page is running"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the path of the token file, or creates and prints a new token.
async fn show_or_renew_token(paths: &DaemonPaths, create: bool, json: bool) -> Result<ExitCode, Failure> {
    let file = token_file(paths.state());
    let path = file.display().to_string();
    if create {
        ensure_private(paths.state()).map_err(|error| Failure::work(error.to_string()))?;
        let token = Token::renew(paths.state()).map_err(|error| Failure::work(error.to_string()))?;
        // A logged-in browser has the same access as the token, so also log out the browsers.
        daemon_client::ask(paths, EndPageSessions::default()).await?;
        if json {
            print::json(&json!({"success": true, "file": path, "token": token}))?;
        } else {
            print::line(token)?;
            print::remark(&format!("stored in {path}; the old token is invalid now, and browsers are logged out"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !file.exists() {
        return Err(Failure::work("there is no token yet; create one with: steplatch serve token --new"));
    }
    if json {
        print::json(&json!({"success": true, "file": path}))?;
    } else {
        print::line(path)?;
    }
    Ok(ExitCode::SUCCESS)
}
