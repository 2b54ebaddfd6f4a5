//! `steplatch hosts …`: other machines for terminals.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use steplatch_host::RemoteHostConfig;
use steplatch_protocol::{CheckHost, CheckHostReply, DaemonPaths, ListHosts, RemoteHostInfo};

use super::{hosts_install, run};
use crate::failure::Failure;
use crate::settings::hosts_file;
use crate::{completion, front, print};

#[derive(Debug, Subcommand)]
pub(crate) enum HostsCommand {
    /// Add a machine to the configuration and connect to it
    Add(Add),
    /// List the machines and how they are reached
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Connect to a machine now and show its state
    Check(Check),
    /// Remove a machine from the configuration; its terminals stay open there
    Remove {
        /// Name of the machine
        #[arg(add = completion::hosts())]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Name of the machine, as in `steplatch terminal open --host NAME`
    name: String,
    /// Destination, as ssh takes it: user@machine, or an alias of ~/.ssh/config
    #[arg(long, value_name = "TARGET")]
    ssh: String,
    /// First install this program there, in ~/.local/share/steplatch/bin
    #[arg(long)]
    install: bool,
    /// Program to install: one that is built for the machine [default: this one]
    #[arg(long, value_name = "FILE", requires = "install")]
    program: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Name of the machine
    #[arg(add = completion::hosts())]
    name: String,
    /// Longest wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The message if there are no machines.
const NONE: &str = "no host is configured; add one with: steplatch hosts add NAME --ssh TARGET";

/// Maximum time of a new machine for its first answer, in seconds. It includes the answers to questions of ssh.
const FIRST_TIMEOUT: u32 = 120;

impl HostsCommand {
    pub(super) async fn run(self, place: &DaemonPaths) -> Result<ExitCode, Failure> {
        match self {
            Self::Add(add) => add.run(place).await,
            Self::List { json } => list(place, json).await,
            Self::Check(Check { name, timeout, json }) => {
                let reply = checked(place, &name, None, timeout, json).await?;
                if json {
                    print::json(&reply)?;
                } else if let Some(host) = &reply.host {
                    print::line(described(host))?;
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
    async fn run(self, place: &DaemonPaths) -> Result<ExitCode, Failure> {
        let config = RemoteHostConfig { name: self.name, ssh: self.ssh };
        hosts_file::check(&config).map_err(|error| Failure::usage(error.to_string()))?;
        if self.install {
            hosts_install::install(&config.ssh, self.program.as_deref(), self.json).await?;
        }
        let (path, _) = hosts_file::add(&config).map_err(|error| Failure::usage(error.to_string()))?;
        if !self.json {
            print::remark(&format!("{} is in {}; connecting", config.name, path.display()));
        }
        let reply = checked(place, &config.name, Some(config.ssh), FIRST_TIMEOUT, self.json).await?;
        if self.json {
            print::json(&reply)?;
        } else if let Some(host) = &reply.host {
            print::line(described(host))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Connects to a machine. A person at the terminal answers its questions here.
async fn checked(
    place: &DaemonPaths,
    name: &str,
    ssh: Option<String>,
    timeout: u32,
    json: bool,
) -> Result<CheckHostReply, Failure> {
    let daemon = front::steady(place)?;
    let verb = CheckHost { host: name.to_owned(), ssh, timeout_seconds: timeout };
    loop {
        let reply = daemon.call(verb.clone()).await?;
        let Some(run) = reply.question.clone() else {
            return match reply.success {
                true => Ok(reply),
                false => Err(Failure::work(reply.error.clone().unwrap_or_default()).with(&reply)),
            };
        };
        let (rest, _) = run::watch(&daemon, run.clone(), json).await?;
        if rest == run::Rest::Waits {
            let words = format!("ssh waits for an answer; give it with: steplatch gates answer {run}");
            return Err(Failure::work(words).with(&reply));
        }
    }
}

/// Returns the way to a machine, in words.
fn described(host: &RemoteHostInfo) -> String {
    let version = host.version.as_ref().map(|version| format!(", version {version}")).unwrap_or_default();
    let terminals = match host.terminals {
        0 => String::new(),
        1 => ", 1 terminal".to_owned(),
        many => format!(", {many} terminals"),
    };
    format!("{}: {}{version}{terminals}", host.name, host.state)
}

async fn list(place: &DaemonPaths, json: bool) -> Result<ExitCode, Failure> {
    let reply = front::ask(place, ListHosts {}).await?;
    if json {
        print::json(&reply)?;
        return Ok(ExitCode::SUCCESS);
    }
    if reply.hosts.is_empty() {
        print::remark(NONE);
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
