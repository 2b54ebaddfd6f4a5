//! `steplatch watch`: one line for each event of runs and terminals.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use steplatch_protocol::{
    AwaitOutput, AwaitReason, AwaitUntil, ContentMode, DaemonPaths, GetScreenContent, ListTerminalSessions,
    ReconnectingClient, RunRecord, SessionInfo, Since, WatchTerminals,
};
use tokio::sync::mpsc;

use super::gates::gate_line;
use super::runs::{find, wait as run_wait};
use super::terminal::wait as terminal_wait;
use crate::failure::Failure;
use crate::outer_terminal::NotificationWriter;
use crate::print::{self, QUIET, STRONG, padded, visible};
use crate::run_changes::{RECONNECT_TIMEOUT, RunChange, RunChanges, RunUpdate, has_ended, subscribe_with_retries};
use crate::wait::{TimeLimit, WaitOptions, WaitOutcome};
use crate::{completion, daemon_client};

/// Follow runs, gates and terminals, with a line for each event
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Watch {
    /// Runs and terminals: ids, names of terminals, or unambiguous prefixes of run ids [default: all]
    #[arg(value_name = "TARGET", add = completion::runs_and_terminals())]
    targets: Vec<String>,
    /// Print matches of this regular expression in the terminals instead of their prompts (repeatable)
    #[arg(long, short, value_name = "REGEX", requires = "targets")]
    pattern: Vec<String>,
    /// End at the first event
    #[arg(long)]
    any: bool,
    #[command(flatten)]
    options: WaitOptions,
}

const HELP: &str = "\
Events: a run started, paused, resumed, completed, failed or was cancelled; a gate opened or closed; a \
terminal was opened, is at its prompt, asks for input, matched a pattern, ended or was closed. What holds at the start, such as an open gate, is an \
event too. With targets, the command ends when all of them have ended.

Examples:
  steplatch watch                    # all runs, gates and terminals, until Ctrl-C
  steplatch watch run_c54r build     # a run and the terminal 'build', until both have ended
  steplatch watch --any --timeout 600 run_c54r run_d81x server -p 'ERROR|panicked'

Exit codes: 0 all ended well, 1 a run or program failed, 124 timed out; with --any, 3 if the first event is a gate \
or a question of a program.";

/// Maximum number of events that wait for the printer.
const EVENT_CAPACITY: usize = 64;

/// A printed event.
struct Event {
    /// Id of the run, or name of the terminal on the command line.
    subject: String,
    /// Kind of the event, as one word.
    kind: &'static str,
    /// Details on one line.
    detail: String,
    /// Details as JSON.
    data: Value,
    /// Determines the exit code, of the last events or of the first one with `--any`.
    outcome: WaitOutcome,
    /// True if this is the last event of the subject.
    is_last: bool,
}

impl Watch {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let limit = TimeLimit::start(self.options.timeout);
        let daemon = daemon_client::reconnecting_client(paths)?;
        let targets = Targets::find(paths, &daemon, &self.targets).await?;
        if targets.terminals.is_empty() && !self.pattern.is_empty() {
            return Err(Failure::usage("--pattern needs a terminal among the targets"));
        }
        let mut remaining_targets = targets.runs.len() + targets.terminals.len();
        let is_bounded = remaining_targets > 0;
        let (sender, mut events) = mpsc::channel(EVENT_CAPACITY);
        if !targets.runs.is_empty() || !is_bounded {
            let selection = Some(targets.runs).filter(|_| is_bounded);
            tokio::spawn(watch_runs(RunChanges::for_runs(daemon.clone(), selection), sender.clone()));
        }
        for terminal in targets.terminals {
            tokio::spawn(watch_terminal(daemon.clone(), terminal, self.pattern.clone(), None, sender.clone()));
        }
        if !is_bounded {
            tokio::spawn(watch_terminals(daemon.clone(), sender.clone()));
        }
        drop(sender);
        let _notifications = NotificationWriter::start(daemon);
        let mut worst = WaitOutcome::Done;
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                () = limit.passed() => {
                    let message = if self.any { "nothing happened" } else { "stopped watching" };
                    return Err(Failure::timed_out(message));
                }
            };
            let Some(event) = event.transpose()? else { return Ok(worst.exit_code()) };
            self.print(&event)?;
            if self.any {
                return Ok(event.outcome.exit_code());
            }
            if event.is_last {
                worst = worst.max(event.outcome);
                remaining_targets = remaining_targets.saturating_sub(1);
                if is_bounded && remaining_targets == 0 {
                    return Ok(worst.exit_code());
                }
            }
        }
    }

    fn print(&self, event: &Event) -> Result<(), Failure> {
        let now = jiff::Timestamp::now();
        if self.options.json {
            let mut document = event.data.clone();
            document["timestamp"] = format!("{now:.3}").into();
            document["event"] = event.kind.into();
            print::json_line(&document)?;
            return Ok(());
        }
        let time = now.strftime("%H:%M:%S");
        let Event { subject, kind, detail, .. } = event;
        let line =
            format!("{QUIET}{time}{QUIET:#}  {}  {STRONG}{}{STRONG:#}  {detail}", padded(subject, 20), padded(kind, 9));
        print::line(line.trim_end())?;
        Ok(())
    }
}

/// Watched runs and terminals.
struct Targets {
    runs: BTreeSet<String>,
    /// Ids or names of terminals.
    terminals: Vec<String>,
}

impl Targets {
    /// Finds the runs and terminals of the command line. A terminal takes precedence over a prefix of a run's id.
    async fn find(paths: &DaemonPaths, daemon: &ReconnectingClient, arguments: &[String]) -> Result<Self, Failure> {
        let mut targets = Self { runs: BTreeSet::new(), terminals: Vec::new() };
        if arguments.is_empty() {
            return Ok(targets);
        }
        let sessions = daemon.call(ListTerminalSessions {}).await?.sessions;
        for target in arguments {
            if sessions.iter().any(|session| session.is_named(target)) {
                targets.terminals.push(target.clone());
            } else {
                let to_failure =
                    |failure: Failure| Failure::usage(format!("no terminal '{target}'; {}", failure.message()));
                targets.runs.insert(find(paths, target).await.map_err(to_failure)?);
            }
        }
        targets.terminals.sort_unstable();
        targets.terminals.dedup();
        Ok(targets)
    }
}

type Sender = mpsc::Sender<Result<Event, Failure>>;

/// Sends the events of runs until the receiver closes.
async fn watch_runs(mut changes: RunChanges, sender: Sender) {
    loop {
        match changes.next().await {
            Ok(RunUpdate { record, changes }) => {
                for change in changes {
                    if sender.send(Ok(run_event(&record, &change))).await.is_err() {
                        return;
                    }
                }
            }
            Err(error) => {
                let _ = sender.send(Err(error)).await;
                return;
            }
        }
    }
}

fn run_event(record: &RunRecord, change: &RunChange) -> Event {
    let workflow = visible(&record.workflow_id);
    let pause_author = || record.paused.as_ref().map(|pause| format!(" by {}", visible(&pause.by))).unwrap_or_default();
    let (kind, detail) = match change {
        RunChange::Started => ("started", workflow),
        RunChange::GateOpened(gate) => ("gate", format!("{workflow}: {}", gate_line(gate))),
        RunChange::GateClosed(gate) => ("closed", format!("{workflow}: gate {gate}")),
        RunChange::Paused => ("paused", format!("{workflow}{}", pause_author())),
        RunChange::Resumed => ("resumed", workflow),
        RunChange::Ended => {
            let kind = match record.state.as_str() {
                "completed" => "completed",
                "cancelled" => "cancelled",
                _ => "failed",
            };
            (kind, format!("{workflow} {}", run_wait::detail(record)))
        }
    };
    let mut data = json!({"run_id": record.run_id, "workflow_id": record.workflow_id, "state": record.state});
    match change {
        RunChange::GateOpened(gate) => data["gate"] = json!(gate),
        RunChange::GateClosed(gate) => data["gate_id"] = gate.as_str().into(),
        RunChange::Ended => data = run_wait::document(record),
        RunChange::Started | RunChange::Paused | RunChange::Resumed => {}
    }
    let outcome = match change {
        RunChange::GateOpened(_) => WaitOutcome::Asks,
        RunChange::Ended if record.state != "completed" => WaitOutcome::Failed,
        _ => WaitOutcome::Done,
    };
    Event {
        subject: record.run_id.clone(),
        kind,
        detail,
        data,
        outcome,
        is_last: has_ended(record) && *change == RunChange::Ended,
    }
}

/// Sends the events of all terminals. Of terminals that already exist, only events from now on are sent.
async fn watch_terminals(daemon: ReconnectingClient, sender: Sender) {
    let mut known_terminals: Option<BTreeSet<String>> = None;
    loop {
        let retry_timeout = if known_terminals.is_some() { RECONNECT_TIMEOUT } else { Duration::ZERO };
        let mut events = match subscribe_with_retries(&daemon, &WatchTerminals {}, retry_timeout).await {
            Ok((_, events)) => events,
            Err(error) => {
                let _ = sender.send(Err(error)).await;
                return;
            }
        };
        loop {
            let sessions = match daemon.call(ListTerminalSessions {}).await {
                Ok(reply) => reply.sessions,
                // The daemon has ended: subscribe again. The subscription waits for the next daemon.
                Err(_) => break,
            };
            let running = sessions.into_iter().filter(|session| session.exit_code.is_none());
            let is_first = known_terminals.is_none();
            let known_terminals = known_terminals.get_or_insert_default();
            for session in running {
                if known_terminals.insert(session.session_id.clone()) {
                    tokio::spawn(watch_listed(daemon.clone(), session, is_first, sender.clone()));
                }
            }
            if events.next().await.is_none() {
                break;
            }
        }
    }
}

/// Sends the events of a terminal, including its opening and its end.
async fn watch_listed(daemon: ReconnectingClient, session: SessionInfo, existed: bool, sender: Sender) {
    let name = session.name.clone().unwrap_or_else(|| session.session_id.clone());
    let new_event = |kind, detail: String| Event {
        subject: name.clone(),
        kind,
        detail,
        data: json!({"terminal": name, "session_id": session.session_id}),
        outcome: WaitOutcome::Done,
        is_last: false,
    };
    let since = if existed {
        // `next_offset` is the end of the current output.
        let verb = GetScreenContent {
            session_id: session.session_id.clone(),
            content_mode: ContentMode::Tail,
            line_count: Some(1),
            ..GetScreenContent::default()
        };
        match daemon.call(verb).await {
            Ok(reply) if reply.success => reply.next_offset.map(Since::Offset),
            _ => return,
        }
    } else {
        if sender.send(Ok(new_event("opened", visible(&session.command)))).await.is_err() {
            return;
        }
        None
    };
    let (terminal_sender, mut events) = mpsc::channel(1);
    tokio::spawn(watch_terminal(daemon.clone(), session.session_id.clone(), Vec::new(), since, terminal_sender));
    while let Some(event) = events.recv().await {
        let event = match event {
            Ok(mut event) => {
                event.data["terminal"] = name.as_str().into();
                Event { subject: name.clone(), ..event }
            }
            // The terminal is open: the error is about the daemon.
            Err(_) if is_listed(&daemon, &session.session_id).await => return,
            Err(_) => new_event("closed", String::new()),
        };
        if sender.send(Ok(event)).await.is_err() {
            return;
        }
    }
}

/// Returns whether a terminal is open, or true if the daemon does not reply.
async fn is_listed(daemon: &ReconnectingClient, terminal: &str) -> bool {
    match daemon.call(ListTerminalSessions {}).await {
        Ok(listed) => listed.sessions.iter().any(|session| session.session_id == terminal),
        Err(_) => true,
    }
}

/// Sends the events of a terminal until its program ends or the receiver closes. With `since`, it first waits for
/// output after that position.
async fn watch_terminal(
    daemon: ReconnectingClient,
    terminal: String,
    patterns: Vec<String>,
    mut since: Option<Since>,
    sender: Sender,
) {
    if since.is_some() && !wait_for_output(&daemon, &terminal, since, &sender).await {
        return;
    }
    loop {
        let verb = AwaitOutput { session_id: terminal.clone(), since, ..AwaitOutput::default() };
        let verb = match patterns.is_empty() {
            true => AwaitOutput { until: AwaitUntil::Prompt, ..verb },
            false => AwaitOutput { patterns: Some(patterns.clone()), ..verb },
        };
        let reply = match terminal_wait::await_output(&daemon, verb).await {
            Ok(reply) => reply,
            Err(error) => {
                let _ = sender.send(Err(error)).await;
                return;
            }
        };
        let is_last = matches!(reply.reason, AwaitReason::Exit | AwaitReason::Replaced);
        let kind = match reply.reason {
            AwaitReason::Match => "match",
            AwaitReason::Exit => "exit",
            AwaitReason::Replaced => "replaced",
            AwaitReason::Prompt => "prompt",
            AwaitReason::Input => "input",
            AwaitReason::Quiet | AwaitReason::Run | AwaitReason::Timeout | AwaitReason::Error => "quiet",
        };
        let data = json!({
            "terminal": terminal, "session_id": reply.session_id, "match_text": reply.match_text,
            "groups": reply.groups, "pattern": reply.pattern, "exit_code": reply.exit_code, "offset": reply.offset,
            "awaiting_input": reply.awaiting_input, "password": reply.password,
        });
        let outcome = terminal_wait::outcome(&reply, AwaitUntil::Exit);
        let detail = terminal_wait::detail(&reply);
        let event = Event { subject: terminal.clone(), kind, detail, data, outcome, is_last };
        if sender.send(Ok(event)).await.is_err() || is_last {
            return;
        }
        since = Some(Since::Offset(reply.offset));
        // A program that stays at its prompt causes the next event only after further output.
        if patterns.is_empty() && !wait_for_output(&daemon, &terminal, since, &sender).await {
            return;
        }
    }
}

/// Waits for output after a position, or for the end of the program. Sends the error and returns false if the wait
/// fails, for example because the terminal was closed.
async fn wait_for_output(daemon: &ReconnectingClient, terminal: &str, since: Option<Since>, sender: &Sender) -> bool {
    let verb =
        AwaitOutput { session_id: terminal.to_owned(), since, pattern: r"\S".to_owned(), ..AwaitOutput::default() };
    match terminal_wait::await_output(daemon, verb).await {
        Ok(_) => true,
        Err(error) => {
            let _ = sender.send(Err(error)).await;
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use steplatch_protocol::GateInfo;

    use super::*;

    #[test]
    fn run_event_is_one_line_with_the_next_step() {
        let record = |state: &str| RunRecord {
            run_id: "run_a".to_owned(),
            workflow_id: "release".to_owned(),
            state: state.to_owned(),
            started_at: "2026-01-01T10:00:00Z".to_owned(),
            completed_at: Some("2026-01-01T10:00:02Z".to_owned()),
            error: (state == "failed").then(|| "Traceback\nit broke\n".to_owned()),
            ..RunRecord::default()
        };
        let gate = GateInfo {
            gate_id: "run_a/ask/1".to_owned(),
            prompt: "Deploy?\nnow".to_owned(),
            choices: vec!["yes".to_owned(), "no".to_owned()],
            ..GateInfo::default()
        };
        for (record, change, kind, detail, outcome) in [
            (record("running"), RunChange::Started, "started", "release", WaitOutcome::Done),
            (
                record("waiting"),
                RunChange::GateOpened(Box::new(gate)),
                "gate",
                "release: Deploy?⏎now (yes | no), answer with: steplatch gates answer run_a/ask/1",
                WaitOutcome::Asks,
            ),
            (record("completed"), RunChange::Ended, "completed", "release in 2.0 s", WaitOutcome::Done),
            (record("failed"), RunChange::Ended, "failed", "release in 2.0 s: it broke", WaitOutcome::Failed),
        ] {
            let event = run_event(&record, &change);
            assert_eq!((event.kind, event.detail.as_str(), event.outcome), (kind, detail, outcome));
            assert_eq!(event.is_last, change == RunChange::Ended);
        }
    }
}
