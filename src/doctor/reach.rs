//! Checks of the settings, the daemon and its hosts, remote services, and addresses.

use std::time::Duration;

use steplatch_protocol::{
    ConnectError, DaemonPaths, DaemonStatus, DaemonStatusReply, GetApprover, GetApproverReply, ListRemoteWorkflows,
    RefreshWorkflows, RemoteInfo, connect,
};

use super::{Checks, ask};
use crate::commands::approver::unconfirmed_setting;
use crate::commands::config;
use crate::settings::Settings;
use crate::{daemon_client, passphrase, print};

/// Time limit of a connection to an address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) async fn settings() -> Checks {
    let mut checks = Checks::for_section("Settings");
    let file = crate::settings::file().map(|file| file.display().to_string()).unwrap_or_default();
    let is_fatal = Settings::load().is_err();
    let problems = config::problems().await;
    for problem in &problems {
        if is_fatal {
            checks.add_problem(
                "settings",
                problem,
                "fix it: the daemon does not start with it, and a running one keeps its old settings",
            );
        } else {
            checks.add_warning("settings", problem, "fix it, and check again with: steplatch config check");
        }
    }
    if problems.is_empty() {
        let exists = std::path::Path::new(&file).exists();
        checks.add_good("settings", if exists { format!("ok, {file}") } else { "defaults (no config file)".into() });
    }
    checks
}

pub(super) async fn daemon(daemon_paths: &DaemonPaths) -> Checks {
    let mut checks = Checks::for_section("The daemon");
    let reply = tokio::time::timeout(super::probe::ANSWER_TIMEOUT, async {
        let (client, _) = connect(daemon_paths, daemon_client::hello("steplatch")).await?;
        let status = client.call(DaemonStatus {}).await;
        Ok(match status {
            Ok(status) => client.call(GetApprover {}).await.map(|approver| (status, approver)),
            Err(error) => Err(error),
        })
    });
    const RESTART: &str = "restart it with: steplatch daemon restart (terminals and runs survive)";
    match reply.await {
        Err(_) => checks.add_problem("daemon", "it does not answer", RESTART),
        Ok(Err(ConnectError::NotRunning(_))) => checks.add_absent("daemon", "not running; it starts on demand"),
        Ok(Err(error)) => checks.add_problem("daemon", error.to_string(), RESTART),
        Ok(Ok(Err(error))) => checks.add_problem("daemon", error.to_string(), RESTART),
        Ok(Ok(Ok((status, approver)))) => {
            check_daemon(&mut checks, &status, RESTART);
            match approver.is_set {
                true => checks.add_good("approver", "a passphrase is set: answers to gates for people need it"),
                false => checks.add_absent("approver", passphrase::RECOMMENDED),
            }
            check_gates(&mut checks, &approver);
        }
    }
    checks
}

/// Adds a finding with the proof that gates require, and the meaning of that proof.
fn check_gates(checks: &mut Checks, approver: &GetApproverReply) {
    let requires = approver.requires.as_deref().unwrap_or("none");
    let meaning = match requires {
        "none" => "any answer counts unless it comes over an interface of agents",
        "dialog" => "the statement of an MCP client counts that a person accepted its dialog",
        "terminal" => {
            "any terminal that steplatch does not manage counts. Programs can create one, as script(1) does, so only a \
             passphrase or a passkey excludes programs that run as you"
        }
        "passphrase" => "an answer needs the approver's passphrase",
        _ => "an answer needs the signature of a passkey",
    };
    let message = format!("gates for people require '{requires}': {meaning}");
    match &approver.unconfirmed {
        Some(weaker_value) => checks.add_warning("gates", message, unconfirmed_setting(weaker_value)),
        None => checks.add_good("gates", message),
    }
}

fn check_daemon(checks: &mut Checks, status: &DaemonStatusReply, restart: &str) {
    let uptime = print::duration(Duration::try_from_secs_f64(status.uptime_seconds).unwrap_or_default());
    let message = format!(
        "version {}, pid {}, up {uptime}; terminals: {}, runs: {}",
        status.version, status.pid, status.terminals, status.runs
    );
    if status.version == env!("CARGO_PKG_VERSION") {
        checks.add_good("daemon", message);
    } else {
        let message = format!("{message}; this program is version {}", env!("CARGO_PKG_VERSION"));
        checks.add_warning("daemon", message, restart);
    }
    for host in &status.hosts {
        let message = format!("version {}, pid {}, terminals: {}", host.version, host.pid, host.terminals);
        let end = "end it with its terminals: steplatch daemon stop";
        match host.state.as_str() {
            "current" => checks.add_good("host", message),
            "older" => {
                let message = format!("{message}; older version: it opens no new terminals");
                checks.add_warning("host", message, "it ends with its last terminal");
            }
            "foreign" => checks.add_problem("host", format!("{message}; its protocol version differs"), end),
            _ => checks.add_problem("host", format!("{message}; it does not answer"), end),
        }
    }
}

pub(super) async fn remotes(daemon_paths: &DaemonPaths) -> Checks {
    let mut checks = Checks::for_section("Remote services");
    let Ok(settings) = Settings::load() else { return checks };
    if settings.remotes.is_empty() {
        return checks;
    }
    let mut remotes = match ask(daemon_paths, ListRemoteWorkflows::default()).await {
        Ok(reply) => reply.remotes,
        Err(error) => {
            checks.add_problem("services", error, "check the daemon with: steplatch daemon status");
            return checks;
        }
    };
    // The daemon has just started, and its first requests to the services are not finished: refresh now.
    if remotes.iter().any(|remote| remote.enabled && !remote.reachable && remote.error.is_none())
        && let Ok(reply) = ask(daemon_paths, RefreshWorkflows::default()).await
    {
        remotes = reply.remotes;
    }
    for config in settings.remotes.iter().map(|remote| &remote.config) {
        let name = &config.name;
        if !config.enabled {
            checks.add_absent(name, "not used: enabled is false");
            continue;
        }
        match remotes.iter().find(|remote| remote.name == *name) {
            Some(remote) => check_remote(&mut checks, remote),
            None => {
                let message =
                    "the daemon does not know it: the daemon was started with other settings or another environment";
                checks.add_warning(name, message, "restart it with: steplatch daemon restart");
            }
        }
    }
    checks
}

fn check_remote(checks: &mut Checks, remote: &RemoteInfo) {
    let last_listed = remote.last_discovery.as_deref().map_or_else(|| "never".to_owned(), print::ago);
    let message = format!(
        "{}; workflows: {}, listed {last_listed}; running: {}, queued: {}",
        remote.base_url, remote.workflows, remote.running, remote.queued
    );
    let fix = format!("fix the reported problem, then retry with: steplatch remote refresh {}", remote.name);
    if !remote.reachable {
        let reason = remote.error.as_deref().unwrap_or("not reached yet");
        checks.add_problem(&remote.name, format!("{message}; {}", print::visible(reason)), fix);
    } else if remote.skipped.is_empty() {
        checks.add_good(&remote.name, message);
    } else {
        let skipped_message = format!("{message}; left out of its list: {}", remote.skipped.len());
        checks.add_warning(&remote.name, skipped_message, "see why with: steplatch remote list");
    }
}

/// Checks that the address of a URL accepts connections. The error text is a clause without a capital letter.
pub(super) async fn check_address(url: &str) -> Result<(), String> {
    let Some((host, port)) = address(url) else { return Err("the URL has no valid address".to_owned()) };
    match tokio::time::timeout(CONNECT_TIMEOUT, tokio::net::TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(format!("connection failed: {error}")),
        Err(_) => Err("it cannot be reached".to_owned()),
    }
}

/// Returns the host and port of a URL.
fn address(url: &str) -> Option<(&str, u16)> {
    let (scheme, authority) = url.split_once("://")?;
    let authority = authority.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit('@').next()?;
    let default_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    // Colons within brackets belong to an IPv6 address.
    let (host, port) = match authority.rfind(':').filter(|colon| !authority[*colon..].contains(']')) {
        Some(colon) => (&authority[..colon], authority[colon + 1..].parse().ok()?),
        None => (authority, default_port),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{Check, State};

    #[test]
    fn requirement_names_accepted_and_unprevented_answers() {
        for (requires, part) in [
            ("none", "any answer"),
            ("terminal", "Programs can create one, as script(1) does"),
            ("passphrase", "the approver's passphrase"),
        ] {
            let mut checks = Checks::for_section("gates");
            let approver = GetApproverReply { requires: Some(requires.to_owned()), ..GetApproverReply::default() };
            check_gates(&mut checks, &approver);
            let [Check { message, state: State::Ok, .. }] = checks.checks.as_slice() else { panic!("{requires}") };
            assert!(message.contains(requires) && message.contains(part), "{message}");
        }
    }

    #[test]
    fn address_is_taken_from_a_url() {
        for (url, expected) in [
            ("http://127.0.0.1:7878/mcp", Some(("127.0.0.1", 7878))),
            ("https://a.example.com", Some(("a.example.com", 443))),
            ("http://[::1]:80/mcp", Some(("::1", 80))),
            ("http://[::1]/mcp", Some(("::1", 80))),
            ("http://user@host:1?x", Some(("host", 1))),
            ("ftp://host", None),
            ("http://:80", None),
            ("http://host:x", None),
            ("nonsense", None),
        ] {
            assert_eq!(address(url), expected, "{url}");
        }
    }
}
