//! The command line: all commands and their dispatch.

pub(crate) mod approver;
pub(crate) mod askpass;
mod bundle;
pub(crate) mod config;
mod cp;
mod daemon;
mod docs;
mod doctor;
mod example_workflows;
mod examples;
pub(crate) mod gates;
pub(crate) mod graphs;
mod host;
mod hosts;
mod hosts_install;
mod init;
mod man;
mod mcp;
mod moment;
mod nodes;
pub(crate) mod notify;
mod open;
mod overview;
mod remote;
mod run;
pub(crate) mod runs;
mod schedule;
mod self_check;
mod serve;
mod services;
mod setup;
pub(crate) mod terminal;
mod tour;
mod uninstall;
mod watch;
mod worker;
mod workflow;

pub(crate) use run::file_and_workflow;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::commander::Commander;
use crate::failure::Failure;
use crate::ui::Ui;
use crate::{completion, daemon_client, print};

const START_WITH: &str = "Start with:
  steplatch tour           try it in ten minutes: a terminal, a question, a workflow, a gate
  steplatch setup          give your agents terminals and workflows
  steplatch terminal open  open a terminal; 'terminal attach' takes you into it
  steplatch examples       workflows to run with 'steplatch run FILE', and to change
  steplatch open           see terminals, runs and questions in the browser";

/// The version, followed by the commit and its date in a published binary (`cargo xtask dist`).
const BUILD: &str = match option_env!("STEPLATCH_BUILD") {
    Some(build) => build,
    None => env!("CARGO_PKG_VERSION"),
};

/// Drive real terminals and run repeatable workflows, for agents and people
#[derive(Debug, Parser)]
#[command(
    name = "steplatch",
    version,
    long_version = BUILD,
    max_term_width = overview::MAX_COLUMNS,
    after_help = START_WITH
)]
pub(crate) struct Arguments {
    /// State directory; each has a daemon of its own [env: STEPLATCH_STATE_DIR] [default: ~/.local/state/steplatch]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    state_dir: Option<PathBuf>,

    /// Log more on standard error
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub(crate) verbose: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a workflow and show its steps live
    Run(run::Run),
    /// Save, list, check and draw workflows
    #[command(subcommand)]
    Workflow(workflow::Workflow),
    /// List, show, follow and cancel runs
    #[command(subcommand)]
    Runs(runs::Runs),
    /// Start runs at times, when files change, and on requests
    #[command(subcommand)]
    Schedule(schedule::ScheduleCommand),
    /// List and answer gates: questions that runs wait for
    #[command(subcommand)]
    Gates(gates::Gates),
    /// List and test the notifications of what waits for you
    #[command(subcommand)]
    Notify(notify::Notify),
    /// Require a passphrase to approve human gates
    #[command(subcommand)]
    Approver(approver::Approver),
    Examples(example_workflows::Examples),
    Init(init::Init),
    /// List, show and call the nodes of this project
    #[command(subcommand)]
    Nodes(nodes::Nodes),
    /// List and run the graphs of this project
    #[command(subcommand)]
    Graph(graphs::Graphs),
    Up(services::Up),
    Down(services::Down),
    Restart(services::Restart),
    Ps(services::Ps),
    Logs(services::Logs),
    /// Add, check and list remote hosts for terminals
    #[command(subcommand)]
    Hosts(hosts::HostsCommand),
    Cp(cp::Cp),
    /// List and refresh the workflows of remote services
    #[command(subcommand)]
    Remote(remote::Remote),
    /// Open, drive, watch and close terminals
    #[command(subcommand)]
    Terminal(terminal::Terminal),
    Watch(watch::Watch),
    Ui(Ui),
    Open(open::Open),
    /// Call nodes, graphs and workflows and answer gates, line by line
    Commander(Commander),
    /// Register steplatch with the MCP clients on this computer
    Setup(setup::Setup),
    /// Check the installation and suggest fixes
    Doctor(doctor::Doctor),
    Docs(docs::Docs),
    Tour(tour::Tour),
    /// Find a newer version of steplatch
    #[command(subcommand, name = "self")]
    Own(self_check::SelfCommand),
    /// Remove steplatch from clients, this computer and remote hosts
    Uninstall(uninstall::Uninstall),
    /// Serve an MCP client on standard input and output, or over HTTP
    Mcp(mcp::Mcp),
    /// Serve the page, and an HTTP API with events and MCP
    Serve(serve::Serve),
    /// Start, stop and inspect the daemon
    #[command(subcommand)]
    Daemon(daemon::Daemon),
    /// Show and check settings
    #[command(subcommand)]
    Config(config::Config),
    Worker(worker::Worker),
    #[command(hide = true)]
    Askpass(askpass::Askpass),
    #[command(hide = true)]
    Host(host::HostRelay),
    Man(man::Man),
    /// Print a script for a shell to complete commands, ids and names
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

const COMPLETIONS: &str = "\
Add one of these lines to the configuration of your shell:
  bash   source <(steplatch completions bash)
  zsh    source <(steplatch completions zsh)
  fish   steplatch completions fish | source

Ids and names come from the running daemon.";

impl Arguments {
    /// Returns the grammar of the command line, the same on every computer.
    pub(crate) fn grammar() -> clap::Command {
        examples::add(Self::command())
    }

    /// Parses the command line. Also returns whether its command prints JSON.
    ///
    /// # Errors
    /// If it is invalid, or requests help.
    pub(crate) fn read() -> Result<(Self, bool), clap::Error> {
        let grammar = Self::grammar();
        let template = overview::template(&grammar);
        let grammar = grammar.help_template(template);
        let grammar = grammar.mut_arg("state_dir", |argument| argument.help(overview::state_directory()));
        let matches = grammar.try_get_matches()?;
        let json = wants_json(&matches);
        Ok((Self::from_arg_matches(&matches)?, json))
    }

    /// Returns the kind of runtime that the command needs.
    pub(crate) fn runtime(&self) -> tokio::runtime::Builder {
        match self.command {
            // Many terminals may print at the same time.
            Command::Daemon(ref command) if command.serves_many_clients() => {
                let mut builder = tokio::runtime::Builder::new_multi_thread();
                // The runtime polls for requests after this number of iterations of busy terminals, of half a
                // millisecond each.
                builder.worker_threads(2).event_interval(7);
                builder
            }
            // A front-end only forwards messages; passing each to another thread would take time.
            _ => tokio::runtime::Builder::new_current_thread(),
        }
    }
}

/// Returns whether the given command has `--json`, at any level of subcommands.
fn wants_json(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, inner)) => wants_json(inner),
        // Not every command has the flag.
        None => matches.try_get_one("json").ok().flatten().copied().unwrap_or(false),
    }
}

/// Runs a command.
pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let paths = match arguments.command {
        // An internal worker uses neither directories nor the environment.
        Command::Worker(ref command) if command.is_internal() => return worker::serve().await,
        // Its paths belong to the client on the remote computer.
        Command::Host(command) => return command.run().await,
        _ => daemon_client::daemon_paths(arguments.state_dir.as_deref())?,
    };
    match arguments.command {
        Command::Run(command) => command.run(&paths).await,
        Command::Workflow(command) => command.run(&paths).await,
        Command::Runs(command) => command.run(&paths).await,
        Command::Schedule(command) => command.run(&paths).await,
        Command::Gates(command) => command.run(&paths).await,
        Command::Notify(command) => command.run(&paths).await,
        Command::Approver(command) => command.run(&paths).await,
        Command::Examples(command) => command.run(),
        Command::Init(command) => command.run(),
        Command::Nodes(command) => command.run(&paths).await,
        Command::Graph(command) => command.run(&paths).await,
        Command::Up(command) => command.run(&paths).await,
        Command::Down(command) => command.run(&paths).await,
        Command::Restart(command) => command.run(&paths).await,
        Command::Ps(command) => command.run(&paths).await,
        Command::Logs(command) => command.run(&paths).await,
        Command::Hosts(command) => command.run(&paths).await,
        Command::Cp(command) => command.run(&paths).await,
        Command::Remote(command) => command.run(&paths).await,
        Command::Terminal(command) => command.run(&paths).await,
        Command::Watch(command) => command.run(&paths).await,
        Command::Ui(command) => command.run(&paths).await,
        Command::Open(command) => command.run(&paths).await,
        Command::Commander(command) => command.run(&paths).await,
        Command::Setup(_) if arguments.state_dir.is_some() => Err(Failure::usage(
            "setup registers the server with the default state directory; omit --state-dir. For another directory, set \
             STEPLATCH_STATE_DIR in the environment of the client's entry"
                .to_owned(),
        )),
        Command::Setup(command) => command.run(),
        Command::Doctor(command) => command.run(&paths).await,
        Command::Docs(command) => command.run(),
        Command::Own(command) => command.run().await,
        Command::Tour(command) => command.run(arguments.state_dir.as_deref()),
        Command::Uninstall(command) => command.run(&paths).await,
        Command::Mcp(command) => command.run(paths).await,
        Command::Serve(command) => command.run(&paths).await,
        Command::Daemon(command) => command.run(paths).await,
        Command::Config(command) => command.run().await,
        Command::Man(command) => command.run(),
        Command::Worker(command) => command.run(&paths),
        Command::Askpass(command) => command.run(&paths).await,
        Command::Host(_) => unreachable!("the host relay ran above"),
        Command::Completions { shell } => {
            let unknown = || Failure::usage(format!("there are no completions for {shell}"));
            print::bytes(&completion::script(&shell.to_string()).ok_or_else(unknown)?)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    /// The commands without `--json`, each with its reason.
    const WITHOUT_JSON: [(&str, &str); 11] = [
        ("askpass", "prints an answer for sudo, ssh or git"),
        ("commander", "is a conversation"),
        ("completions", "prints a script for a shell"),
        ("daemon host", "is a process, and prints nothing"),
        ("daemon serve", "is a process, and prints nothing"),
        ("host", "carries bytes"),
        ("man", "writes files of another format"),
        ("terminal attach", "shows a terminal as it is"),
        ("tour", "is a conversation"),
        ("ui", "is a full screen"),
        ("worker", "speaks a protocol of its own"),
    ];

    /// Collects every command without subcommands, by its words.
    fn leaves(command: &clap::Command, words: &str, found: &mut Vec<(String, bool)>) {
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            let words = format!("{words} {}", inner.get_name()).trim().to_owned();
            if inner.has_subcommands() {
                leaves(inner, &words, found);
            } else {
                let json = inner.get_arguments().any(|argument| argument.get_long() == Some("json"));
                found.push((words, json));
            }
        }
    }

    #[test]
    fn every_printing_command_can_print_json() {
        let mut found = Vec::new();
        leaves(&Arguments::command(), "", &mut found);
        assert!(found.len() > 20, "too few commands were found: {found:?}");
        let mut without: Vec<&str> = found.iter().filter(|(_, json)| !json).map(|(words, _)| words.as_str()).collect();
        without.sort_unstable();
        // A command not on the list must have `--json`, and a command on the list must not.
        assert_eq!(without, WITHOUT_JSON.map(|(words, _)| words));
    }
}
