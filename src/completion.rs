//! Completion of ids and names by the shell.
//!
//! The script printed by `steplatch completions SHELL` runs this program with the words of the command line, and this
//! program prints candidates. A running daemon supplies ids and names. A completion starts no daemon, and offers no ids
//! and names if the daemon does not reply within a time limit.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _};
use clap_complete::env::Shells;
use steplatch_protocol::{
    DaemonPaths, Hello, ListGraphs, ListHosts, ListNodes, ListNotifications, ListRemoteWorkflows, ListSchedules,
    ListServices, ListTerminalSessions, ListWorkflowRuns, ListWorkflows, RemoteHostInfo, RunRecord, Verb, connect,
};

use crate::daemon_client;
use crate::print::{fitted, visible};

/// Environment variable of a shell script's request for candidates.
const COMPLETE_VARIABLE: &str = "STEPLATCH_COMPLETE";

/// Time limit of a request to the daemon.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum number of offered runs, the newest first.
const MAX_RUNS: u32 = 100;

/// Answers a request for candidates and exits. Returns if the program was started for another purpose.
pub(crate) fn answer(command: fn() -> clap::Command) {
    CompleteEnv::with_factory(command).var(COMPLETE_VARIABLE).complete();
}

/// Returns the script that makes a shell request candidates. `None` for an unknown shell.
pub(crate) fn script(shell: &str) -> Option<Vec<u8>> {
    let shells = Shells::builtins();
    let mut script = Vec::new();
    // Writing to memory does not fail.
    shells
        .completer(shell)?
        .write_registration(COMPLETE_VARIABLE, "steplatch", "steplatch", "steplatch", &mut script)
        .ok()?;
    Some(script)
}

/// Completes the ids of runs.
pub(crate) fn runs() -> ArgValueCompleter {
    completer(|current| complete_runs(current, |_| true))
}

/// Completes the ids of runs that have not ended.
pub(crate) fn runs_in_progress() -> ArgValueCompleter {
    completer(|current| complete_runs(current, |run| matches!(run.state.as_str(), "pending" | "running" | "waiting")))
}

/// Completes the states of runs.
pub(crate) fn run_states() -> ArgValueCompleter {
    completer(|current| {
        let states = ["pending", "running", "waiting", "completed", "failed", "cancelled"];
        states.into_iter().filter_map(|state| candidate(current, state, None)).collect()
    })
}

/// Completes the ids of open gates.
pub(crate) fn gates() -> ArgValueCompleter {
    completer(|current| {
        let request = ListWorkflowRuns { state: Some("waiting".to_owned()), ..ListWorkflowRuns::default() };
        let runs = ask_daemon(request).map(|reply| reply.runs).unwrap_or_default();
        let gates = runs.iter().flat_map(|run| {
            run.pending_gates.iter().filter(|gate| gate.run_id == run.run_id).map(|gate| (&gate.gate_id, &gate.prompt))
        });
        gates.filter_map(|(id, prompt)| id_candidate(current, id, prompt)).collect()
    })
}

/// Completes the ids and names of open terminals.
pub(crate) fn terminals() -> ArgValueCompleter {
    completer(complete_terminals)
}

/// Completes terminals and runs.
pub(crate) fn runs_and_terminals() -> ArgValueCompleter {
    completer(|current| {
        let mut candidates = complete_terminals(current);
        candidates.extend(complete_runs(current, |run| run.completed_at.is_none()));
        candidates
    })
}

/// Completes the names of saved workflows.
pub(crate) fn workflows() -> ArgValueCompleter {
    completer(complete_workflows)
}

/// Completes files and the names of saved workflows.
pub(crate) fn files_and_workflows() -> ArgValueCompleter {
    completer(|current| {
        let mut candidates = complete_workflows(current);
        candidates.extend(PathCompleter::file().complete(OsStr::new(current)));
        candidates
    })
}

/// Completes the names of the nodes of the project.
pub(crate) fn nodes() -> ArgValueCompleter {
    completer(|current| {
        let nodes = ask_daemon(ListNodes::default()).map(|reply| reply.nodes).unwrap_or_default();
        nodes.iter().filter_map(|node| candidate(current, &node.id, node.description.as_deref())).collect()
    })
}

/// Completes the names of the graphs of the project.
pub(crate) fn graphs() -> ArgValueCompleter {
    completer(|current| {
        let graphs = ask_daemon(ListGraphs::default()).map(|reply| reply.graphs).unwrap_or_default();
        graphs.iter().filter_map(|graph| candidate(current, &graph.id, graph.description.as_deref())).collect()
    })
}

/// Completes the names of remote services.
pub(crate) fn remotes() -> ArgValueCompleter {
    completer(|current| {
        let remotes = ask_daemon(ListRemoteWorkflows::default()).map(|reply| reply.remotes).unwrap_or_default();
        remotes.iter().filter_map(|remote| candidate(current, &remote.name, Some(&remote.base_url))).collect()
    })
}

/// Completes files and the names of remote hosts, followed by a colon.
pub(crate) fn files() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let mut candidates = PathCompleter::any().complete(current);
        if let Some(current) = current.to_str().filter(|current| !current.contains(['/', ':'])) {
            let hosts = ask_daemon(ListHosts {}).map(|reply| reply.hosts).unwrap_or_default();
            let host = |host: &RemoteHostInfo| candidate(current, &format!("{}:", host.name), Some(&host.ssh));
            candidates.extend(hosts.iter().filter_map(host));
        }
        candidates
    })
}

/// Completes the names of remote hosts.
pub(crate) fn hosts() -> ArgValueCompleter {
    completer(|current| {
        let hosts = ask_daemon(ListHosts {}).map(|reply| reply.hosts).unwrap_or_default();
        hosts.iter().filter_map(|host| candidate(current, &host.name, Some(&host.ssh))).collect()
    })
}

/// Completes the names of rules of notifications.
pub(crate) fn notification_rules() -> ArgValueCompleter {
    completer(|current| {
        let rules = ask_daemon(ListNotifications {}).map(|reply| reply.rules).unwrap_or_default();
        rules.iter().filter_map(|rule| candidate(current, &rule.name, Some(&rule.way))).collect()
    })
}

/// Completes the names of the services of the project.
pub(crate) fn services() -> ArgValueCompleter {
    completer(|current| {
        let services = ask_daemon(ListServices::default()).map(|reply| reply.services).unwrap_or_default();
        services.iter().filter_map(|info| candidate(current, &info.name, Some(info.state.name()))).collect()
    })
}

/// Completes the names of schedules.
pub(crate) fn schedules() -> ArgValueCompleter {
    completer(|current| {
        let schedules = ask_daemon(ListSchedules::default()).map(|reply| reply.schedules).unwrap_or_default();
        schedules.iter().filter_map(|schedule| candidate(current, &schedule.name, Some(&schedule.trigger))).collect()
    })
}

fn completer(candidates: fn(&str) -> Vec<CompletionCandidate>) -> ArgValueCompleter {
    // A word that is not UTF-8 is not the beginning of an id or name.
    ArgValueCompleter::new(move |current: &OsStr| current.to_str().map(candidates).unwrap_or_default())
}

fn complete_runs(current: &str, matches: fn(&RunRecord) -> bool) -> Vec<CompletionCandidate> {
    let newest = ListWorkflowRuns { limit: Some(MAX_RUNS), ..ListWorkflowRuns::default() };
    let runs = ask_daemon(newest).map(|reply| reply.runs).unwrap_or_default();
    let describe = |run: &RunRecord| format!("{} {}", run.workflow_id, run.state);
    runs.iter()
        .filter(|run| matches(run))
        .filter_map(|run| id_candidate(current, &run.run_id, &describe(run)))
        .collect()
}

fn complete_terminals(current: &str) -> Vec<CompletionCandidate> {
    let sessions = ask_daemon(ListTerminalSessions {}).map(|reply| reply.sessions).unwrap_or_default();
    let names = sessions.iter().flat_map(|session| {
        let name = session.name.as_deref().unwrap_or(&session.session_id);
        candidate(current, name, Some(&session.command))
    });
    let mut candidates: Vec<_> = names.collect();
    if !current.is_empty() {
        let named_sessions = sessions.iter().filter(|session| session.name.is_some());
        candidates.extend(
            named_sessions.filter_map(|session| candidate(current, &session.session_id, Some(&session.command))),
        );
    }
    candidates
}

fn complete_workflows(current: &str) -> Vec<CompletionCandidate> {
    let workflows = ask_daemon(ListWorkflows::default()).map(|reply| reply.workflows).unwrap_or_default();
    workflows
        .iter()
        .filter_map(|workflow| candidate(current, &workflow.name, workflow.description.as_deref()))
        .collect()
}

/// Returns a candidate if it begins with `current`.
fn candidate(current: &str, value: &str, description: Option<&str>) -> Option<CompletionCandidate> {
    let help = description.map(|text| fitted(&visible(text.lines().next().unwrap_or_default()), 60)).map(Into::into);
    value.starts_with(current).then(|| CompletionCandidate::new(value).help(help))
}

/// Returns the id of a run or gate as a candidate. Omits the prefix `run_` if `current` omits it.
fn id_candidate(current: &str, id: &str, description: &str) -> Option<CompletionCandidate> {
    let digits = id.strip_prefix("run_").unwrap_or(id);
    candidate(current, id, Some(description)).or_else(|| candidate(current, digits, Some(description)))
}

/// Sends `verb` to a running daemon. `None` without a reply within the time limit.
fn ask_daemon<V: Verb>(verb: V) -> Option<V::Reply> {
    let paths = DaemonPaths::from_environment(state_dir().as_deref()).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let hello = Hello { environment: None, ..daemon_client::hello("steplatch") };
    let reply = runtime.block_on(async {
        let request = async {
            let (client, _) = connect(&paths, hello).await.ok()?;
            client.call(verb).await.ok()
        };
        tokio::time::timeout(REQUEST_TIMEOUT, request).await.ok().flatten()
    });
    runtime.shutdown_background();
    reply
}

/// Returns the state directory that the completed command line names.
fn state_dir() -> Option<PathBuf> {
    let mut arguments = std::env::args_os();
    while let Some(argument) = arguments.next() {
        if argument == "--state-dir" {
            return arguments.next().map(PathBuf::from);
        }
        if let Some(directory) = argument.to_str().and_then(|argument| argument.strip_prefix("--state-dir=")) {
            return Some(PathBuf::from(directory));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_script_calls_this_program() {
        for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
            let script = String::from_utf8(script(shell).unwrap()).unwrap();
            assert!(script.contains(COMPLETE_VARIABLE) && script.contains("steplatch"), "{shell}: {script}");
        }
        assert!(script("tcsh").is_none());
    }

    #[test]
    fn id_is_completed_with_and_without_its_prefix() {
        let value = |current: &str| {
            id_candidate(current, "run_abc", "hello completed").map(|found| found.get_value().to_owned())
        };
        assert_eq!(value(""), Some("run_abc".into()));
        assert_eq!(value("run_a"), Some("run_abc".into()));
        assert_eq!(value("ab"), Some("abc".into()));
        assert_eq!(value("b"), None);
    }
}
