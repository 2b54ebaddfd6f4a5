//! Diagnosis of the installation, with fixes.
//!
//! The diagnosis changes nothing, except that the probe of a server may start a daemon. Each finding is a [`Check`].

mod machine;
mod notifications;
mod probe;
mod reach;

use std::path::Path;

use serde::Serialize;
use steplatch_protocol::DaemonPaths;

use crate::clients::entry::{FoundEntry, NAME, OwnEntry, is_same_file};
use crate::clients::{CLIENTS, Client, Scope, UserPaths, edit, file};
use crate::failure::Failure;
use crate::{daemon_client, print};

/// State of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// Working.
    Ok,
    /// Absent, but not a problem.
    Absent,
    /// Working, with a possible problem.
    Warning,
    /// Not working.
    Problem,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// Section of the report.
    pub(crate) section: &'static str,
    /// Subject of the finding.
    #[serde(rename = "about")]
    pub(crate) subject: String,
    /// State of the subject.
    pub(crate) state: State,
    /// Description of the state.
    #[serde(rename = "said")]
    pub(crate) message: String,
    /// Suggested fix, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

/// The findings of one section.
struct Checks {
    section: &'static str,
    checks: Vec<Check>,
}

impl Checks {
    fn for_section(section: &'static str) -> Self {
        Self { section, checks: Vec::new() }
    }

    fn add(&mut self, subject: &str, state: State, message: impl Into<String>, fix: Option<String>) {
        self.checks.push(Check {
            section: self.section,
            subject: subject.to_owned(),
            state,
            message: message.into(),
            fix,
        });
    }

    fn add_good(&mut self, subject: &str, message: impl Into<String>) {
        self.add(subject, State::Ok, message, None);
    }

    fn add_absent(&mut self, subject: &str, message: impl Into<String>) {
        self.add(subject, State::Absent, message, None);
    }

    fn add_warning(&mut self, subject: &str, message: impl Into<String>, fix: impl Into<String>) {
        self.add(subject, State::Warning, message, Some(fix.into()));
    }

    fn add_problem(&mut self, subject: &str, message: impl Into<String>, fix: impl Into<String>) {
        self.add(subject, State::Problem, message, Some(fix.into()));
    }
}

/// Examines everything, section by section. `report` receives the findings of each section immediately.
/// `selected_clients` are the names of the clients to examine; an empty list means all.
///
/// # Errors
/// If the environment is unreadable, or `report` fails.
pub(crate) async fn examine(
    daemon_paths: &DaemonPaths,
    selected_clients: &[String],
    mut report: impl FnMut(&[Check]) -> Result<(), Failure>,
) -> Result<Vec<Check>, Failure> {
    let user_paths = UserPaths::from_environment()?;
    let own_entry = OwnEntry::find(&user_paths)?;
    let mut findings = Vec::new();
    let mut finish = |checks: Checks| {
        report(&checks.checks)?;
        findings.extend(checks.checks);
        Ok::<_, Failure>(())
    };
    finish(machine::check_computer(&user_paths, &own_entry, daemon_paths))?;
    finish(reach::settings().await)?;
    finish(reach::daemon(daemon_paths).await)?;
    finish(check_server(&own_entry, daemon_paths).await)?;
    finish(check_clients(&user_paths, &own_entry, selected_clients).await)?;
    finish(reach::remotes(daemon_paths).await)?;
    finish(notifications::check(daemon_paths, &user_paths).await)?;
    Ok(findings)
}

/// Starts the server like a client, once for each era of the protocol.
async fn check_server(own_entry: &OwnEntry, daemon_paths: &DaemonPaths) -> Checks {
    let mut checks = Checks::for_section("The MCP server");
    let state = daemon_paths.state().display().to_string();
    let arguments = ["mcp".to_owned(), "--state-dir".to_owned(), state];
    for (subject, era) in [("handshake", probe::Era::Handshake), ("stateless", probe::Era::Stateless)] {
        let command = probe::Command { program: &own_entry.program, arguments: &arguments, environment: &[] };
        match probe::probe_server(command, era).await {
            Ok(server) => check_answer(&mut checks, subject, &server),
            Err(reason) => checks.add_problem(
                subject,
                reason,
                "see its log with: steplatch -v mcp, and check the daemon with: steplatch daemon status",
            ),
        }
    }
    checks
}

/// Maximum time for a server to exit after its client has disconnected. A longer time causes a warning.
const MAX_END_TIME: std::time::Duration = std::time::Duration::from_millis(1_000);

fn check_answer(checks: &mut Checks, subject: &str, server: &probe::ServerFacts) {
    let message = format!(
        "{} tools, speaks {}; answered after {}, listed in {}, ended in {}",
        server.tools,
        server.revision,
        print::duration(server.started),
        print::duration(server.listed),
        print::duration(server.ended)
    );
    if server.ended > MAX_END_TIME {
        checks.add_warning(
            subject,
            message,
            "the server should exit as soon as its client disconnects; check the load of this computer",
        );
    } else {
        checks.add_good(subject, message);
    }
}

/// Starts the servers that the clients' configurations name.
async fn check_clients(user_paths: &UserPaths, own_entry: &OwnEntry, selected_clients: &[String]) -> Checks {
    let mut checks = Checks::for_section("Clients");
    for client in CLIENTS
        .iter()
        .filter(|client| selected_clients.is_empty() || selected_clients.iter().any(|name| name == client.name))
    {
        let mut has_entry = false;
        for scope in [Scope::User, Scope::Project] {
            let path = client.file(scope, user_paths);
            let Some(path) =
                path.filter(|path| scope == Scope::User || client.file(Scope::User, user_paths).as_ref() != Some(path))
            else {
                continue;
            };
            let subject =
                if scope == Scope::User { client.label.to_owned() } else { format!("{} (project)", client.label) };
            let setup = setup_command(client, scope);
            let text = match file::read(&path) {
                Ok(None) => continue,
                Ok(Some(text)) => text,
                Err(error) => {
                    checks.add_problem(
                        &subject,
                        format!("{}: {error}", user_paths.display_path(&path)),
                        "fix the file",
                    );
                    has_entry = true;
                    continue;
                }
            };
            if scope == Scope::User
                && let Some(settings) = client.project_settings(&text, user_paths)
                && let Ok(Some(found)) = edit::find_entry(client.format, &settings)
            {
                has_entry = true;
                let subject = format!("{} (this project)", client.label);
                check_entry(&mut checks, &subject, &found, own_entry, user_paths, &setup).await;
            }
            match edit::find_entry(client.format, &text) {
                Ok(None) => {}
                Ok(Some(found)) => {
                    has_entry = true;
                    check_entry(&mut checks, &subject, &found, own_entry, user_paths, &setup).await;
                }
                Err(error) => {
                    has_entry = true;
                    let message = format!("{} cannot be read: {error}", user_paths.display_path(&path));
                    checks.add_problem(&subject, message, "fix the file; the client cannot read it either");
                }
            }
        }
        match (has_entry, client.is_present(Scope::User, user_paths), selected_clients.is_empty()) {
            (true, ..) => {}
            (false, true, true) => {
                checks.add_warning(
                    client.label,
                    "has no entry for steplatch",
                    format!("add it with: {}", setup_command(client, Scope::User)),
                );
            }
            (false, false, true) => checks.add_absent(client.label, "not found"),
            (false, _, false) => {
                let setup = setup_command(client, Scope::User);
                checks.add_problem(client.label, "has no entry for steplatch", format!("add it with: {setup}"));
            }
        }
    }
    checks
}

fn setup_command(client: &Client, scope: Scope) -> String {
    let scope = if scope == Scope::Project { " --scope project" } else { "" };
    format!("steplatch setup --client {}{scope}", client.name)
}

/// Starts the server of one entry, or connects to it, and adds the finding.
async fn check_entry(
    checks: &mut Checks,
    subject: &str,
    found: &FoundEntry,
    own_entry: &OwnEntry,
    user_paths: &UserPaths,
    setup: &str,
) {
    let description = print::visible(&found.describe());
    let Some(command) = &found.command else {
        match &found.url {
            Some(url) => match reach::check_address(url).await {
                Ok(()) => checks.add_good(subject, format!("connects to {url}, which accepts connections")),
                Err(reason) => checks.add_problem(
                    subject,
                    format!("connects to {url}, and {reason}"),
                    format!("start it with: steplatch serve, or remove the entry and run: {setup}"),
                ),
            },
            None => checks.add_problem(subject, "has an entry that starts nothing", format!("fix it with: {setup}")),
        }
        return;
    };
    let Some(program) = user_paths.find(command) else {
        let message = format!("starts '{description}': program not found");
        return checks.add_problem(subject, message, format!("fix it with: {setup}"));
    };
    let environment: Vec<_> = found.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let command = probe::Command { program: &program, arguments: &found.args, environment: &environment };
    match probe::probe_server(command, probe::Era::Handshake).await {
        Err(reason) => {
            checks.add_problem(
                subject,
                format!("starts '{description}', and {reason}"),
                format!("fix it with: {setup}"),
            );
        }
        Ok(server) if server.name != NAME => {
            let message = format!("starts '{description}', which is another server: {}", print::visible(&server.name));
            checks.add_problem(subject, message, format!("fix it with: {setup}"));
        }
        Ok(server) if server.version != env!("CARGO_PKG_VERSION") || !is_this_program(&program, own_entry) => {
            let message = format!("starts another steplatch ({}): '{description}'", print::visible(&server.version));
            checks.add_warning(subject, message, format!("to start this one: {setup}"));
        }
        Ok(server) => checks.add_good(subject, format!("starts '{description}': {} tools", server.tools)),
    }
}

/// Returns whether a program is this one.
fn is_this_program(program: &Path, own_entry: &OwnEntry) -> bool {
    is_same_file(program, &own_entry.program)
}

/// Returns the daemon's reply to one verb, or the error as text.
async fn ask<V: steplatch_protocol::Verb>(daemon_paths: &DaemonPaths, verb: V) -> Result<V::Reply, String> {
    let reply = tokio::time::timeout(probe::ANSWER_TIMEOUT, daemon_client::ask(daemon_paths, verb)).await;
    match reply {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(failure)) => Err(failure.message().to_owned()),
        Err(_) => Err(format!("the daemon did not answer within {}", print::duration(probe::ANSWER_TIMEOUT))),
    }
}
