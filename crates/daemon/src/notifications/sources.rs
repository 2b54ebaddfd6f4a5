//! Sources of occasions: runs, terminals and remote hosts.
//!
//! A source waits for changes. Only the beginning of a password prompt is reported by no system, so terminals are
//! looked at again after their last activity, a few times at growing intervals.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use steplatch_clock::{Timestamp, parse_iso8601};
use steplatch_notify::{Kind, Observation, Occasion, Subject};
use steplatch_protocol::{
    AgentActivity, Change, GateInfo, ListWorkflowRuns, ListWorkflowRunsReply, RunRecord, SessionInfo,
};
use steplatch_runs::Runs;
use steplatch_sessions::Sessions;
use tokio::sync::mpsc::Sender;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::changes::Subscription;

/// Maximum number of runs that are looked at when a daemon starts.
const MAX_RUNS: u32 = 1_000;

/// Pause before another attempt to read the runs.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Minimum time between two looks at the terminals.
const MIN_LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Pauses between looks at the terminals after their last activity.
const LOOK_PAUSES_MS: [u64; 4] = [500, 1_500, 4_000, 12_000];

/// Observation of a source.
#[derive(Debug)]
pub(super) enum Observed {
    /// The open occasions of a scope.
    Open { scope: Scope, observations: Vec<Observation> },
    /// The end of a run.
    End(Box<Observation>),
    /// All earlier ends have been reported, and each later one is reported when it happens.
    EndsListed,
}

/// Occasions that a source has looked at.
#[derive(Debug)]
pub(super) enum Scope {
    Gates,
    GatesOfRun(String),
    /// All terminals except those of hosts that do not answer, whose state is not known.
    Terminals {
        unknown: Vec<String>,
    },
    /// All occasions of a kind.
    Kind(Kind),
    /// All hosts except those that are connecting, whose state is not known.
    Hosts {
        connecting: Vec<String>,
    },
}

impl Scope {
    pub(super) fn contains(&self, occasion: &Occasion) -> bool {
        match self {
            Self::Gates => occasion.kind == Kind::Gate,
            Self::GatesOfRun(run) => occasion.kind == Kind::Gate && occasion.subject.run_id.as_ref() == Some(run),
            Self::Terminals { unknown } => occasion.kind.is_about_terminal() && !unknown.contains(&occasion.key),
            Self::Kind(kind) => occasion.kind == *kind,
            Self::Hosts { connecting } => occasion.kind == Kind::HostLost && !connecting.contains(&occasion.key),
        }
    }
}

/// Reports gates for people and ends of runs. Ends before `seen_until` are known.
pub(super) async fn watch_runs(
    runs: Arc<Runs>,
    changes: Subscription,
    seen_until: Timestamp,
    includes_prompt: bool,
    sender: Sender<Observed>,
) {
    let list = async |state: Option<&str>| loop {
        let verb = ListWorkflowRuns { state: state.map(str::to_owned), limit: Some(MAX_RUNS), ..Default::default() };
        match runs.list(&verb).await {
            ListWorkflowRunsReply { success: true, runs, .. } => return runs,
            // Without the list, all gates would seem closed.
            ListWorkflowRunsReply { error, .. } => {
                tracing::warn!(error, "failed to read the runs for notifications; retrying");
                sleep(RETRY_PAUSE).await;
            }
        }
    };
    let waiting = list(Some("waiting")).await;
    let observations = waiting.iter().flat_map(|run| open_gates(run, includes_prompt)).collect();
    // An error means that this source is no longer needed.
    if sender.send(Observed::Open { scope: Scope::Gates, observations }).await.is_err() {
        return;
    }
    let ends: Vec<Observation> = list(None).await.iter().filter_map(end_of).collect();
    for end in ends.into_iter().filter(|end| end.since.is_some_and(|since| since >= seen_until)) {
        if sender.send(Observed::End(Box::new(end))).await.is_err() {
            return;
        }
    }
    if sender.send(Observed::EndsListed).await.is_err() {
        return;
    }
    let mut unread = BTreeSet::new();
    loop {
        let changed: Vec<String> = tokio::select! {
            changes = changes.next() => changes.into_iter().filter_map(run_of).collect(),
            () = sleep(RETRY_PAUSE), if !unread.is_empty() => unread.iter().cloned().collect(),
        };
        for run_id in changed {
            let record = match runs.brief_record(&run_id).await {
                Ok(record) => record,
                // Without the record, its gates would seem closed.
                Err(error) => {
                    if unread.insert(run_id.clone()) {
                        tracing::warn!(%error, run_id, "failed to read a run for notifications; retrying");
                    }
                    continue;
                }
            };
            unread.remove(&run_id);
            let observations = record.iter().flat_map(|run| open_gates(run, includes_prompt)).collect();
            let scope = Scope::GatesOfRun(run_id);
            let end = record.as_ref().and_then(end_of).map(|end| Observed::End(Box::new(end)));
            for observed in [Some(Observed::Open { scope, observations }), end].into_iter().flatten() {
                if sender.send(observed).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn run_of(change: Change) -> Option<String> {
    match change {
        Change::Run { run_id } => Some(run_id),
        Change::Tools => None,
    }
}

/// Returns the gates of a run that need a person. The gates of its children are in their own records.
fn open_gates(run: &RunRecord, includes_prompt: bool) -> impl Iterator<Item = Observation> {
    let needs_person = |gate: &&GateInfo| gate.answered_by == "human" || !gate.choices_for_person.is_empty();
    let is_own = |gate: &&GateInfo| gate.run_id == run.run_id;
    run.pending_gates.iter().filter(is_own).filter(needs_person).map(move |gate| Observation {
        kind: Kind::Gate,
        key: gate.gate_id.clone(),
        since: parse_iso8601(&gate.created_at),
        subject: Subject {
            workflow: Some(run.workflow_id.clone()),
            run_id: Some(run.run_id.clone()),
            gate_id: Some(gate.gate_id.clone()),
            approvers: gate.approvers.clone(),
            prompt: includes_prompt.then(|| gate.prompt.clone()),
            ..Subject::default()
        },
    })
}

/// Returns the end of a run that no other run started, unless it was cancelled.
fn end_of(run: &RunRecord) -> Option<Observation> {
    let kind = match run.state.as_str() {
        "failed" => Kind::RunFailed,
        "completed" if run.repairs.is_empty() => Kind::RunCompleted,
        "completed" => Kind::RunRepaired,
        _ => return None,
    };
    let since = run.completed_at.as_deref().and_then(parse_iso8601)?;
    let (workflow, run_id) = (Some(run.workflow_id.clone()), Some(run.run_id.clone()));
    run.parent_run_id.is_none().then(|| Observation {
        kind,
        key: run.run_id.clone(),
        since: Some(since),
        subject: Subject { workflow, run_id, ..Subject::default() },
    })
}

/// Reports terminals that ask for a password or a decision while no client is attached, and held terminals.
pub(super) async fn watch_terminals(sessions: Sessions, sender: Sender<Observed>) {
    let (_, mut activity) = sessions.watch_terminals();
    let mut looks = 0;
    loop {
        let listed = sessions.list().await.sessions;
        let observations = listed.iter().filter_map(terminal_occasion).collect();
        let is_unknown = |terminal: &&SessionInfo| terminal.exit_code.is_none() && terminal.host_lost_since.is_some();
        let unknown = listed.iter().filter(is_unknown).map(|terminal| terminal.session_id.clone()).collect();
        if sender.send(Observed::Open { scope: Scope::Terminals { unknown }, observations }).await.is_err() {
            return;
        }
        let pause = LOOK_PAUSES_MS.get(looks).copied();
        tokio::select! {
            () = activity.next() => {
                looks = 0;
                sleep(MIN_LOOK_INTERVAL).await;
            }
            () = sleep(Duration::from_millis(pause.unwrap_or_default())), if pause.is_some() => looks += 1,
        }
    }
}

fn terminal_occasion(terminal: &SessionInfo) -> Option<Observation> {
    let is_running = terminal.exit_code.is_none() && terminal.host_lost_since.is_none();
    let asks = terminal.agent_activity == Some(AgentActivity::Asks);
    let kind = match &terminal.held_by {
        _ if !is_running => return None,
        Some(_) => Kind::Held,
        None if terminal.attached > 0 => return None,
        None if terminal.password => Kind::Password,
        None if asks => Kind::AgentAsks,
        None => return None,
    };
    Some(Observation {
        kind,
        key: terminal.session_id.clone(),
        since: None,
        subject: Subject {
            terminal_id: Some(terminal.session_id.clone()),
            terminal: terminal.name.clone(),
            by: terminal.held_by.clone().or_else(|| terminal.agent.clone().filter(|_| asks)),
            ..Subject::default()
        },
    })
}

/// Reports occasions that another part of the daemon knows, all of one kind.
pub(super) async fn watch_known(kind: Kind, mut known: watch::Receiver<Vec<Observation>>, sender: Sender<Observed>) {
    loop {
        let observations = known.borrow_and_update().clone();
        let observed = Observed::Open { scope: Scope::Kind(kind), observations };
        if sender.send(observed).await.is_err() || known.changed().await.is_err() {
            return;
        }
    }
}

/// Reports remote hosts that are not reachable.
pub(super) async fn watch_hosts(sessions: Sessions, sender: Sender<Observed>) {
    loop {
        // Begin to wait before the look, so that no change is missed.
        let changed = sessions.hosts_changed();
        let hosts = sessions.list_hosts().hosts;
        let names =
            |state: &'static str| hosts.iter().filter(move |host| host.state == state).map(|host| host.name.clone());
        let scope = Scope::Hosts { connecting: names("connecting").collect() };
        let observations = names("lost").map(|name| Observation {
            kind: Kind::HostLost,
            key: name.clone(),
            // Each failed attempt to connect has another time.
            since: None,
            subject: Subject { host: Some(name), ..Subject::default() },
        });
        let observations = observations.collect();
        if sender.send(Observed::Open { scope, observations }).await.is_err() {
            return;
        }
        changed.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_of_a_lost_host_is_in_no_scope() {
        let occasion = |key: &str| {
            let (kind, key, since) = (Kind::Password, key.to_owned(), Timestamp(0));
            Occasion { kind, key, since, subject: Subject::default() }
        };
        let scope = Scope::Terminals { unknown: vec!["lost".to_owned()] };
        assert!(scope.contains(&occasion("here")) && !scope.contains(&occasion("lost")));
    }
}
