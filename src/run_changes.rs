//! Live changes of runs: starts, gates, pauses, ends.
//!
//! [`RunChanges`] subscribes to the changes that the daemon publishes, reads the records of changed runs, and compares
//! each with the previous record. After a restart of the daemon, [`RunChanges`] subscribes again and compares every
//! record, so that neither ends nor open gates are missed. The daemon collects changes for 0.1 s; a gate that opens and
//! closes within this time is not reported.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use steplatch_protocol::{
    AskError, Change, Events, GateInfo, GetWorkflowRun, ListWorkflowRuns, ReconnectingClient, RunRecord, Verb, Watch,
};

use crate::failure::Failure;

/// Maximum time that a client tries to reach a daemon again after losing the connection.
pub(crate) const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Maximum number of runs per request.
const MAX_PAGE_RUNS: u32 = 1000;

/// A change of one run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RunChange {
    /// The run started.
    Started,
    /// A gate of the run or of a descendant opened.
    GateOpened(Box<GateInfo>),
    /// The gate with this id was answered, timed out or was withdrawn.
    GateClosed(String),
    /// The run paused.
    Paused,
    /// The run resumed.
    Resumed,
    /// The run completed, failed or was cancelled. Its record has the state.
    Ended,
}

/// A run with its latest changes. The first update of a run may have no changes.
#[derive(Debug)]
pub(crate) struct RunUpdate {
    pub(crate) record: RunRecord,
    pub(crate) changes: Vec<RunChange>,
}

/// Returns whether a run has ended.
pub(crate) fn has_ended(record: &RunRecord) -> bool {
    matches!(record.state.as_str(), "completed" | "failed" | "cancelled")
}

/// Returns the changes between two records of a run. Without a previous record, returns the changes that lead to the
/// current state, including the start if the run `is_new`.
fn changes_between(before: Option<&RunRecord>, now: &RunRecord, is_new: bool) -> Vec<RunChange> {
    let mut changes = Vec::new();
    if before.is_none() && is_new {
        changes.push(RunChange::Started);
    }
    let previous_gates = before.map(|record| record.pending_gates.as_slice()).unwrap_or_default();
    let is_in = |gates: &[GateInfo], gate: &GateInfo| gates.iter().any(|present| present.gate_id == gate.gate_id);
    let closed_gates = previous_gates.iter().filter(|gate| !is_in(&now.pending_gates, gate));
    changes.extend(closed_gates.map(|gate| RunChange::GateClosed(gate.gate_id.clone())));
    let new_gates = now.pending_gates.iter().filter(|gate| !is_in(previous_gates, gate));
    changes.extend(new_gates.map(|gate| RunChange::GateOpened(Box::new(gate.clone()))));
    match (before.is_some_and(|record| record.paused.is_some()), now.paused.is_some()) {
        (false, true) => changes.push(RunChange::Paused),
        (true, false) if !has_ended(now) => changes.push(RunChange::Resumed),
        _ => {}
    }
    if has_ended(now) && before.is_none_or(|record| !has_ended(record)) {
        changes.push(RunChange::Ended);
    }
    changes
}

/// Subscribes to events. Retries for at most `retry_timeout`, because the daemon may be stopping or starting.
///
/// # Errors
/// If the daemon is unreachable.
pub(crate) async fn subscribe_with_retries<V: Verb + Clone>(
    daemon: &ReconnectingClient,
    verb: &V,
    retry_timeout: Duration,
) -> Result<(V::Reply, Events), Failure> {
    let started_at = Instant::now();
    loop {
        let result = match daemon.client().await {
            Ok(client) => client.subscribe(verb.clone()).await.map_err(AskError::from),
            Err(error) => Err(error.into()),
        };
        match result {
            Ok(subscription) => return Ok(subscription),
            Err(_) if started_at.elapsed() < retry_timeout => tokio::time::sleep(RETRY_PAUSE).await,
            Err(error) => return Err(error.into()),
        }
    }
}

/// A subscription to the changes of runs, across restarts of the daemon.
pub(crate) struct RunChanges {
    daemon: ReconnectingClient,
    /// Ids of the runs to report. `None` reports all runs.
    selected_runs: Option<BTreeSet<String>>,
    records: HashMap<String, RunRecord>,
    /// Nearest selected ancestor of each nested run with a change. Empty if there is none.
    ancestors: HashMap<String, String>,
    events: Option<Events>,
    /// True once the records of the existing runs were read.
    has_listed: bool,
    updates: VecDeque<RunUpdate>,
}

impl RunChanges {
    /// Creates a subscription to the selected runs, or to all runs with `None`.
    pub(crate) fn for_runs(daemon: ReconnectingClient, selected_runs: Option<BTreeSet<String>>) -> Self {
        Self {
            daemon,
            selected_runs,
            records: HashMap::new(),
            ancestors: HashMap::new(),
            events: None,
            has_listed: false,
            updates: VecDeque::new(),
        }
    }

    /// Returns the next run with changes. The first updates report the initial state of each selected run, or, without
    /// a selection, of the runs that are paused or have an open gate.
    ///
    /// # Errors
    /// If the daemon is unreachable, or does not know a selected run.
    pub(crate) async fn next(&mut self) -> Result<RunUpdate, Failure> {
        loop {
            if let Some(update) = self.updates.pop_front() {
                return Ok(update);
            }
            match &mut self.events {
                None => {
                    let retry_timeout = if self.has_listed { RECONNECT_TIMEOUT } else { Duration::ZERO };
                    let (reply, events) = subscribe_with_retries(&self.daemon, &Watch {}, retry_timeout).await?;
                    if let Some(error) = reply.error {
                        return Err(Failure::work(error));
                    }
                    self.events = Some(events);
                    self.read_all().await?;
                }
                Some(events) => match events.next().await.map(serde_json::from_value::<Change>) {
                    Some(Ok(Change::Run { run_id })) => self.read_changed(run_id).await?,
                    // Ignore changes that are not about runs, and unknown changes of a newer daemon.
                    Some(Ok(Change::Tools) | Err(_)) => {}
                    None => self.events = None,
                },
            }
        }
    }

    /// Reads the record of every run that may have changed.
    async fn read_all(&mut self) -> Result<(), Failure> {
        let mut runs: BTreeSet<String> = match &self.selected_runs {
            Some(runs) => runs.clone(),
            None => self.records.keys().cloned().collect(),
        };
        if self.selected_runs.is_none() {
            for state in ["running", "waiting"] {
                runs.extend(self.list_in_state(state).await?);
            }
        }
        for run in runs {
            self.read(&run).await?;
        }
        self.has_listed = true;
        Ok(())
    }

    async fn list_in_state(&self, state: &str) -> Result<Vec<String>, Failure> {
        let mut runs: Vec<String> = Vec::new();
        loop {
            let (state, before) = (Some(state.to_owned()), runs.last().cloned());
            let page = ListWorkflowRuns { state, before, limit: Some(MAX_PAGE_RUNS), ..ListWorkflowRuns::default() };
            let reply = self.daemon.call(page).await?;
            let is_last = reply.runs.len() < MAX_PAGE_RUNS as usize;
            runs.extend(reply.runs.into_iter().map(|run| run.run_id));
            if is_last {
                return Ok(runs);
            }
        }
    }

    async fn read_changed(&mut self, run: String) -> Result<(), Failure> {
        let Some(runs) = &self.selected_runs else { return self.read(&run).await };
        if runs.contains(&run) {
            return self.read(&run).await;
        }
        let ancestor = match self.ancestors.get(&run) {
            Some(ancestor) => ancestor.clone(),
            None => {
                let ancestor = self.selected_ancestor(&run).await?.unwrap_or_default();
                self.ancestors.insert(run, ancestor.clone());
                ancestor
            }
        };
        // The record of an ancestor lists the gates of its descendants.
        if ancestor.is_empty() { Ok(()) } else { self.read(&ancestor).await }
    }

    /// Returns the nearest ancestor of a run among the selected runs.
    async fn selected_ancestor(&self, run: &str) -> Result<Option<String>, Failure> {
        let mut run = run.to_owned();
        loop {
            let reply = self.daemon.call(GetWorkflowRun { run_id: run }).await?;
            let Some(parent) = reply.run.and_then(|record| record.parent_run_id) else { return Ok(None) };
            if self.selected_runs.as_ref().is_some_and(|runs| runs.contains(&parent)) {
                return Ok(Some(parent));
            }
            run = parent;
        }
    }

    /// Reads the record of a run and queues the changes for [`Self::next`].
    async fn read(&mut self, run: &str) -> Result<(), Failure> {
        let is_first = !self.records.contains_key(run);
        if self.records.get(run).is_some_and(has_ended) {
            return Ok(());
        }
        let reply = self.daemon.call(GetWorkflowRun { run_id: run.to_owned() }).await?;
        let Some(mut record) = reply.run else {
            // The daemon may have removed a finished run in the meantime.
            return match &self.selected_runs {
                Some(_) if is_first => Err(crate::commands::runs::not_found(run)),
                _ => Ok(()),
            };
        };
        if self.selected_runs.is_none() {
            // Descendants are reported separately, with their own gates.
            record.pending_gates.retain(|gate| gate.gate_id.starts_with(&format!("{run}/")));
        }
        let changes = changes_between(self.records.get(run), &record, self.has_listed && self.selected_runs.is_none());
        self.records.insert(run.to_owned(), record.clone());
        if !changes.is_empty() || (is_first && self.selected_runs.is_some()) {
            self.updates.push_back(RunUpdate { record, changes });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use steplatch_protocol::PauseInfo;

    use super::*;

    fn record(state: &str, gates: &[&str]) -> RunRecord {
        let gate = |id: &&str| GateInfo { gate_id: (*id).to_owned(), ..GateInfo::default() };
        RunRecord {
            run_id: "run_a".to_owned(),
            state: state.to_owned(),
            pending_gates: gates.iter().map(gate).collect(),
            ..RunRecord::default()
        }
    }

    #[test]
    fn changes_are_derived_from_two_records() {
        let gate = |id: &str| RunChange::GateOpened(Box::new(record("waiting", &[id]).pending_gates.remove(0)));
        let closed = |id: &str| RunChange::GateClosed(id.to_owned());
        let running = record("running", &[]);
        let paused = RunRecord { paused: Some(PauseInfo::default()), ..running.clone() };
        let cases = [
            (None, running.clone(), vec![]),
            (None, record("waiting", &["a"]), vec![gate("a")]),
            (None, record("failed", &[]), vec![RunChange::Ended]),
            (Some(running.clone()), running.clone(), vec![]),
            (Some(record("waiting", &["a"])), record("waiting", &["a"]), vec![]),
            (Some(record("waiting", &["a"])), record("waiting", &["b"]), vec![closed("a"), gate("b")]),
            (Some(record("waiting", &["a"])), record("completed", &[]), vec![closed("a"), RunChange::Ended]),
            (Some(running.clone()), paused.clone(), vec![RunChange::Paused]),
            (Some(paused.clone()), running.clone(), vec![RunChange::Resumed]),
            (Some(paused), record("cancelled", &[]), vec![RunChange::Ended]),
        ];
        for (before, now, changes) in cases {
            assert_eq!(changes_between(before.as_ref(), &now, false), changes, "{before:?} → {now:?}");
        }
        assert_eq!(changes_between(None, &running, true), [RunChange::Started]);
    }
}
