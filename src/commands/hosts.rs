//! `steplatch hosts …`: remote hosts for terminals.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use steplatch_host::RemoteHostConfig;
use steplatch_protocol::{CheckHost, CheckHostReply, DaemonPaths, ListHosts, RemoteHostInfo};

use super::{hosts_install, run};
use crate::failure::Failure;
use crate::settings::{Settings, hosts_file};
use crate::{completion, daemon_client, print};

#[derive(Debug, Subcommand)]
pub(crate) enum HostsCommand {
    /// Add a host to the configuration and connect to it
    Add(Add),
    /// List the hosts and the states of their connections
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Connect to a host now and show its state
    Check(Check),
    /// Remove a host from the configuration; its terminals stay open there
    Remove {
        /// Name of the host
        #[arg(add = completion::hosts())]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Name of the host, as in `steplatch terminal open --host NAME`
    name: String,
    /// Destination, as ssh takes it: user@host, or an alias of ~/.ssh/config
    #[arg(long, value_name = "TARGET")]
    ssh: String,
    /// First install this program on the host, in ~/.local/share/steplatch/bin
    #[arg(long)]
    install: bool,
    /// Program to install, built for the host [default: this one]
    #[arg(long, value_name = "FILE", requires = "install")]
    program: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Name of the host
    #[arg(add = completion::hosts())]
    name: String,
    /// Maximum wait in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Message if no host is configured.
const NO_HOSTS: &str = "no host is configured; add one with: steplatch hosts add NAME --ssh TARGET";

/// Maximum time for the first connection to a new host, in seconds. Includes the time to answer questions from ssh.
const FIRST_CONNECTION_TIMEOUT_SECONDS: u32 = 120;

impl HostsCommand {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        match self {
            Self::Add(add) => add.run(paths).await,
            Self::List { json } => list(paths, json).await,
            Self::Check(Check { name, timeout, json }) => {
                let reply = check_host(paths, &name, None, timeout, json).await?;
                if json {
                    print::json(&reply)?;
                } else if let Some(host) = &reply.host {
                    print::line(describe_host(host))?;
                }
                Ok(ExitCode::SUCCESS)
            }
            Self::Remove { name, json } => {
                let path = hosts_file::remove(&name).map_err(|error| Failure::usage(error.to_string()))?;
                if json {
                    print::json(&serde_json::json!({"success": true, "removed": name, "file": path}))?;
                } else {
                    print::line(format!("{name} removed from {}", path.display()))?;
                }
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

impl Add {
    async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let config = RemoteHostConfig { name: self.name, ssh: self.ssh };
        hosts_file::check(&config).map_err(|error| Failure::usage(error.to_string()))?;
        if self.install {
            hosts_install::install(&config.ssh, self.program.as_deref(), self.json).await?;
        }
        let (path, _) = hosts_file::add(&config).map_err(|error| Failure::usage(error.to_string()))?;
        if !self.json {
            print::remark(&format!("{} is in {}; connecting", config.name, path.display()));
        }
        let reply =
            check_host(paths, &config.name, Some(config.ssh), FIRST_CONNECTION_TIMEOUT_SECONDS, self.json).await?;
        if self.json {
            print::json(&reply)?;
        } else if let Some(host) = &reply.host {
            print::line(describe_host(host))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Connects to a host. A person at this terminal answers the questions from ssh.
async fn check_host(
    paths: &DaemonPaths,
    name: &str,
    ssh: Option<String>,
    timeout: u32,
    json: bool,
) -> Result<CheckHostReply, Failure> {
    let daemon = daemon_client::reconnecting_client(paths)?;
    let verb = CheckHost { host: name.to_owned(), ssh, timeout_seconds: timeout };
    loop {
        let reply = daemon.call(verb.clone()).await?;
        let Some(run) = reply.question.clone() else {
            return match reply.success {
                true => Ok(reply),
                false => Err(Failure::work(reply.error.clone().unwrap_or_default()).with(&reply)),
            };
        };
        let (end, _) = run::watch(&daemon, run.clone(), json).await?;
        if end == run::WatchEnd::AtGate {
            let message = format!("ssh waits for an answer; give it with: steplatch gates answer {run}");
            return Err(Failure::work(message).with(&reply));
        }
    }
}

/// Describes the connection to a host.
fn describe_host(host: &RemoteHostInfo) -> String {
    let version = host.version.as_ref().map(|version| format!(", version {version}")).unwrap_or_default();
    let terminals = match host.terminals {
        0 => String::new(),
        1 => ", 1 terminal".to_owned(),
        many => format!(", {many} terminals"),
    };
    format!("{}: {}{version}{terminals}", host.name, host.state)
}

async fn list(paths: &DaemonPaths, json: bool) -> Result<ExitCode, Failure> {
    let reply = daemon_client::ask(paths, ListHosts {}).await?;
    if json {
        print::json(&reply)?;
        return Ok(ExitCode::SUCCESS);
    }
    if reply.hosts.is_empty() {
        print::remark(NO_HOSTS);
        // A table in another form is not a host.
        let unknown = Settings::load().map(|settings| settings.unknown).unwrap_or_default();
        unknown.iter().for_each(|problem| print::remark(&problem.to_string()));
        return Ok(ExitCode::SUCCESS);
    }
    let head = ["HOST", "STATE", "VERSION", "TERMINALS", "SSH"].map(str::to_owned).to_vec();
    let rows = reply.hosts.iter().map(|host| {
        let state = match &host.since {
            Some(since) => format!("{} {}", host.state, print::ago(since)),
            None => host.state.clone(),
        };
        let version = host.version.clone().unwrap_or_default();
        vec![host.name.clone(), state, version, host.terminals.to_string(), print::visible(&host.ssh)]
    });
    print::line(print::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))?;
    for (host, error) in reply.hosts.iter().filter_map(|host| Some((host, host.error.as_ref()?))) {
        print::remark(&format!("{}: {}", host.name, print::visible(error)));
    }
    Ok(ExitCode::SUCCESS)
}
