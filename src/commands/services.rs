//! `steplatch up`, `down`, `restart`, `ps` and `logs`: the services of a project.

use std::process::ExitCode;

use clap::Args;
use steplatch_protocol::{
    AwaitOutput, AwaitReason, ContentMode, DaemonPaths, GetScreenContent, ListServices, ReconnectingClient,
    RestartServices, ServiceInfo, ServiceState, ServicesReply, Since, StartServices, StopServices,
};

use crate::failure::Failure;
use crate::print::visible;
use crate::{completion, daemon_client, print};

/// Time limit of one wait for output; another one follows.
const WAIT_SECONDS: f64 = 3600.0;

/// Maximum number of characters of output in one reply.
const MAX_PAGE_CHARS: u32 = 200_000;

/// Start services of this project, and wait until they are ready
///
/// Services are tables [services.NAME] in steplatch.toml. A service that runs is left alone.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Services, with those that they need [default: all]
    #[arg(value_name = "NAME", add = completion::services())]
    names: Vec<String>,
    /// Return without waiting
    #[arg(long, short)]
    detach: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Stop services of this project, and those that need them
#[derive(Debug, Args)]
pub(crate) struct Down {
    /// Services [default: all]
    #[arg(value_name = "NAME", add = completion::services())]
    names: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Stop services and start them again, as they are declared now
#[derive(Debug, Args)]
pub(crate) struct Restart {
    /// Services [default: all that run]
    #[arg(value_name = "NAME", add = completion::services())]
    names: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// List the services of this project, with their ports
#[derive(Debug, Args)]
pub(crate) struct Ps {
    /// Also list the running services of other projects
    #[arg(long, short)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Print the output of a service
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Service
    #[arg(add = completion::services())]
    name: String,
    /// Print further output as it appears, until the service ends
    #[arg(long, short)]
    follow: bool,
    /// Print only the last lines
    #[arg(long, short = 'n', value_name = "LINES")]
    tail: Option<u32>,
    /// Print JSON
    #[arg(long, conflicts_with = "follow")]
    json: bool,
}

impl Up {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let verb = StartServices { names: self.names, detach: self.detach };
        report(daemon_client::ask(paths, verb).await?, self.json)
    }
}

impl Down {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let reply = daemon_client::ask(paths, StopServices { names: self.names }).await?;
        if reply.success && reply.services.is_empty() && !self.json {
            print::remark("none of these services runs");
            return Ok(ExitCode::SUCCESS);
        }
        report(reply, self.json)
    }
}

impl Restart {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        report(daemon_client::ask(paths, RestartServices { names: self.names }).await?, self.json)
    }
}

impl Ps {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let reply = daemon_client::ask(paths, ListServices { all: self.all }).await?;
        if reply.success && reply.services.is_empty() && !self.json {
            reply.problems.iter().for_each(|problem| print::remark(&visible(problem)));
            print::remark(
                "this project declares no services; add a table [services.NAME] to steplatch.toml: steplatch docs services",
            );
            return Ok(ExitCode::SUCCESS);
        }
        report(reply, self.json)
    }
}

/// Prints services.
fn report(reply: ServicesReply, json: bool) -> Result<ExitCode, Failure> {
    if json {
        if let Some(error) = &reply.error {
            return Err(Failure::work(error.clone()).with(&reply));
        }
        print::json(&reply)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !reply.services.is_empty() {
        let head = ["SERVICE", "STATE", "PORTS", "PID", "SINCE", "TERMINAL"].map(str::to_owned).to_vec();
        let rows = reply.services.iter().map(row);
        print::line(print::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))?;
    }
    for info in &reply.services {
        if let Some(reason) = info.reason.as_ref().filter(|_| reply.error.is_none()) {
            print::remark(&format!("{}: {}", info.name, print::visible_lines(reason, "  ")));
        }
    }
    reply.problems.iter().for_each(|problem| print::remark(&visible(problem)));
    match reply.error {
        Some(error) => Err(Failure::work(error)),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn row(info: &ServiceInfo) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let ports: Vec<String> = info.ports.iter().map(u16::to_string).collect();
    let state = match (info.state, info.restarts) {
        (state, 0) => state.name().to_owned(),
        (state, restarts) => format!("{} (restart {restarts})", state.name()),
    };
    let is_started = !matches!(info.state, ServiceState::Down | ServiceState::Waiting);
    vec![
        info.name.clone(),
        state,
        or_dash(Some(ports.join(", ")).filter(|ports| !ports.is_empty())),
        or_dash(info.pid.map(|pid| pid.to_string())),
        or_dash(info.started_at.as_ref().filter(|_| is_started).map(|at| print::ago(at))),
        or_dash(info.terminal.as_ref().map(|name| visible(name))),
    ]
}

impl Logs {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let daemon = daemon_client::reconnecting_client(paths)?;
        let listed = daemon.call(ListServices::default()).await?;
        let service = listed.services.iter().find(|info| info.name == self.name);
        let Some(service) = service else {
            let names: Vec<&str> = listed.services.iter().map(|info| info.name.as_str()).collect();
            let error = format!("there is no service '{}'; services are {}", self.name, names.join(", "));
            return Err(Failure::usage(error));
        };
        let Some(session_id) = service.session_id.clone() else {
            return Err(Failure::work(format!(
                "service '{}' is {}, and has no output; start it: steplatch up {}",
                self.name,
                service.state.name(),
                self.name
            )));
        };
        let first = match self.tail {
            Some(lines) => GetScreenContent {
                session_id: session_id.clone(),
                content_mode: ContentMode::Tail,
                line_count: Some(lines),
                limit: Some(MAX_PAGE_CHARS),
                ..GetScreenContent::default()
            },
            None => page(&session_id, 0),
        };
        let mut verb = first;
        loop {
            let reply = daemon.call(verb).await?;
            if let Some(error) = &reply.error {
                return Err(Failure::work(error.clone()).with(&reply));
            }
            if self.json {
                print::json(&reply)?;
                return Ok(ExitCode::SUCCESS);
            }
            let text = reply.screen_content.unwrap_or_default();
            if !text.is_empty() {
                print::unchanged(&print::harmless(&text))?;
                if !self.follow && !reply.truncated && !text.ends_with('\n') {
                    print::line("")?;
                }
            }
            let offset = reply.next_offset.unwrap_or_default();
            if !reply.truncated && (!self.follow || !reply.process_running) {
                return Ok(ExitCode::SUCCESS);
            }
            if !reply.truncated {
                wait_for_output(&daemon, &session_id, offset).await?;
            }
            verb = page(&session_id, offset);
        }
    }
}

fn page(session_id: &str, offset: u64) -> GetScreenContent {
    GetScreenContent {
        session_id: session_id.to_owned(),
        content_mode: ContentMode::History,
        offset: Some(offset),
        limit: Some(MAX_PAGE_CHARS),
        ..GetScreenContent::default()
    }
}

/// Waits for output after an offset, or the end of the program.
async fn wait_for_output(daemon: &ReconnectingClient, session_id: &str, offset: u64) -> Result<(), Failure> {
    loop {
        let verb = AwaitOutput {
            session_id: session_id.to_owned(),
            pattern: "[^\\n]\\n|\\n".to_owned(),
            timeout: WAIT_SECONDS,
            since: Some(Since::Offset(offset)),
            ..AwaitOutput::default()
        };
        let reply = daemon.call(verb).await?;
        match (reply.reason, reply.error) {
            (AwaitReason::Timeout, _) => {}
            (AwaitReason::Error, Some(error)) => return Err(Failure::work(error)),
            _ => return Ok(()),
        }
    }
}
