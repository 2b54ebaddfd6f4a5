//! Dispatch on the kind of a run, and recovery of all runs.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Weak};

use serde_json::Value;
use steplatch_access::{Caller, OpeningKey};
use steplatch_ids::{RunId, StepId};
use steplatch_protocol::{ExitTerminal, GateInfo, RunEvent, RunReply};
use steplatch_store::{KnownRun, RunFilter};
use steplatch_workflow::Outcome;

use crate::child::ABANDONED_REASON;
use crate::engine::RecoveredRun;
use crate::engine_state::Engine;
use crate::event::Unreadable;
use crate::function::{self, FunctionRun};
use crate::gates::ClosedGate;
use crate::kind::Kind;
use crate::machine::{self, MachineRun};
use crate::remote::{self, RemoteRun};
use crate::result_error::ResultError;
use crate::run::{Run, RunStatus};

impl Engine {
    /// Returns the events that followers of a run see, for at most `max_entries` entries starting at number `from`.
    /// Some entries produce no event.
    pub(super) async fn events_for_followers(
        &self,
        run: &Run,
        from: u64,
        max_entries: usize,
    ) -> Result<Vec<Option<RunEvent>>, Unreadable> {
        let records = self.journal.read_some(&run.id, from, max_entries).await?;
        match run.kind() {
            Kind::Machine => self.machine_events(run, from, records).await,
            Kind::Function => records.iter().map(|record| function::event(run, record)).collect(),
            Kind::Remote => records.iter().map(|record| remote::event(run, record)).collect(),
        }
    }

    /// Returns the report of a run with this progress, and with the gate that the run waits for.
    pub(super) async fn build_report(
        &self,
        run: &Arc<Run>,
        progress: RunStatus,
        gate: Option<GateInfo>,
    ) -> Result<RunReply, Unreadable> {
        let records = self.journal.read(&run.id, 1).await?;
        let (run, secrets) = (run.clone(), self.secrets.clone());
        self.run_blocking(move || match run.kind() {
            Kind::Machine => machine::build_report(&run, progress, records, gate, &secrets),
            Kind::Function => function::report(&run, progress, &records, &secrets)
                .map(|report| RunReply { pending_gate: gate, ..report }),
            Kind::Remote => remote::report(&run, progress, &records, &secrets),
        })
        .await
    }

    /// Returns the outcome of a finished run for a waiting machine. `with_log` includes the log of a machine.
    pub(super) async fn outcome_of(&self, run: &Run, with_log: bool) -> Outcome {
        match run.kind() {
            Kind::Machine => machine::outcome(self, run, with_log).await,
            Kind::Function => function::run_outcome(self, run).await,
            Kind::Remote => remote::outcome_of(self, run).await,
        }
    }

    /// Returns the result of a completed run for a waiting function.
    ///
    /// # Errors
    ///
    /// If reading its result fails.
    pub(super) async fn result_value(&self, run: &Run) -> Result<Value, ResultError> {
        match run.kind() {
            Kind::Machine => machine::value(self, run).await,
            Kind::Function => function::return_value(self, run).await,
            Kind::Remote => remote::result_of(self, run).await,
        }
    }

    /// Returns the closed gates of a run, in the order of their closing. `None` if its history is unreadable.
    pub(super) async fn closed_gates(&self, run: &Run) -> Option<Vec<ClosedGate>> {
        let records = self.journal.read(&run.id, 1).await.ok()?;
        let closed_gate = match run.kind() {
            Kind::Machine => machine::closed_gate,
            Kind::Function => function::closed_gate,
            Kind::Remote => return Some(Vec::new()),
        };
        records.iter().filter_map(|record| closed_gate(&run.id, record).transpose()).collect::<Result<_, _>>().ok()
    }

    /// Resumes all runs that another daemon left.
    pub(super) async fn recover(self: &Arc<Self>) {
        let filter = RunFilter { finished: Some(false), ..RunFilter::default() };
        let known_runs = match self.journal.runs(filter).await {
            Ok(known_runs) => known_runs,
            Err(error) => {
                tracing::error!(%error, "failed to resume the runs of the last daemon: the journal cannot be read");
                return;
            }
        };
        // Oldest first.
        let known_runs: Vec<KnownRun> = known_runs.into_iter().rev().collect();
        let unfinished_ids: HashSet<RunId> = known_runs.iter().map(|known| known.run.clone()).collect();
        // Query hosts before this daemon sends requests of its own.
        let mut queried_connections = BTreeSet::new();
        let unsettled = self.sessions.unsettled(&mut queried_connections).await;
        let cleared = self.approver.cleared_key().await;
        if cleared.is_none()
            && let Err(error) = self.lock_sealed(&known_runs).await
        {
            tracing::error!(%error, "failed to resume the runs of the last daemon: the journal cannot be read");
            return;
        }
        let locked = self.locked.ids();
        let known_runs = known_runs.into_iter().filter(|known| !locked.contains(&known.run)).collect();
        let pending = self.resume_all(known_runs, cleared.as_ref(), &locked).await;
        let mut stale = Vec::new();
        for step in unsettled {
            let Some(run) = run_of_step(&step) else { continue };
            let is_needed = match pending.get(&run) {
                Some(Some(steps)) => steps.iter().any(|pending| *pending.to_string() == step),
                Some(None) => true,
                // The run is locked, or cannot resume.
                None => unfinished_ids.contains(&run),
            };
            if !is_needed {
                // An earlier daemon stored the result, but stopped before it settled the step.
                stale.push((run, step));
            }
        }
        let shared = Arc::downgrade(self);
        let stopping = self.stopping.clone();
        tokio::spawn(stopping.run_until_cancelled_owned(settle_later(shared, stale, queried_connections)));
    }

    /// Settles a step that no run needs any longer. Closes the terminal that the step opened if the history does not
    /// mention it: the run ended while the host did not answer.
    async fn settle_stale_step(&self, run: &RunId, step: &str) {
        let records = self.journal.read(run, 1).await.unwrap_or_default();
        // Without a history, possibly only the remote host claims that the run exists.
        if !records.is_empty()
            && !machine::keeps_terminals(&records)
            && let Ok(Some(session)) = self.sessions.opened_by(step).await
            && !records.iter().any(|record| record.text.contains(&session))
        {
            let caller = Caller { run: Some(run.clone()), ..Caller::unknown() };
            self.sessions.exit(&caller, ExitTerminal { session_id: session, ..ExitTerminal::default() }).await;
        }
        self.sessions.settle(step);
    }

    /// Resumes runs that another daemon left, in the order of their starts. `key` unseals sealed runs. A run whose
    /// parent is in `locked` is not an orphan: its parent resumes later. Returns the steps whose results each resumed
    /// run still needs; `None` if this daemon does not know them.
    pub(super) async fn resume_all(
        self: &Arc<Self>,
        known_runs: Vec<KnownRun>,
        key: Option<&OpeningKey>,
        locked: &HashSet<RunId>,
    ) -> HashMap<RunId, Option<Vec<StepId>>> {
        let mut callers = HashMap::new();
        let mut recovered: Vec<Box<dyn RecoveredRun>> = Vec::with_capacity(known_runs.len());
        for known in known_runs {
            let id = known.run.clone();
            let run = Run::from_journal(known.clone());
            let recovered_run = match run.kind() {
                Kind::Machine => self.recover_run::<MachineRun>(known, key, &mut callers).await,
                Kind::Function => self.recover_run::<FunctionRun>(known, key, &mut callers).await,
                Kind::Remote => self.recover_run::<RemoteRun>(known, key, &mut callers).await,
            };
            match recovered_run {
                Ok(recovered_run) => recovered.push(recovered_run),
                Err(reason) => {
                    tracing::error!(run = %id, reason = reason.to_string(), "failed to resume a run");
                    self.broken().insert(id, reason);
                }
            }
        }
        // Newest first, since the summary of a run depends on its descendants.
        recovered.iter().rev().for_each(|run| run.publish());
        // All runs are registered before the first one continues, since a run may wait for another.
        let by_id: HashMap<&RunId, &Box<dyn RecoveredRun>> =
            recovered.iter().map(|recovered_run| (&recovered_run.run().id, recovered_run)).collect();
        let is_orphan = |run: &&Arc<Run>| {
            run.header.parent.as_ref().is_some_and(|step| {
                !by_id.get(&step.run).is_some_and(|parent| parent.awaits(step)) && !locked.contains(&step.run)
            })
        };
        let orphans: Vec<Arc<Run>> =
            recovered.iter().map(|recovered_run| recovered_run.run()).filter(is_orphan).cloned().collect();
        if !recovered.is_empty() {
            tracing::info!(runs = recovered.len(), "runs of the last daemon are resumed");
        }
        let pending: HashMap<RunId, Option<Vec<StepId>>> = recovered
            .iter()
            .map(|recovered_run| (recovered_run.run().id.clone(), recovered_run.pending_steps()))
            .collect();
        let are_all_known = pending.values().all(Option::is_some);
        self.sessions
            .mark_uncertain(pending.values().flatten().flatten().map(StepId::to_string).collect(), are_all_known);
        for run in recovered {
            self.drivers.spawn(run.resume());
        }
        for run in orphans {
            run.cancel(ABANDONED_REASON);
        }
        pending
    }
}

/// Settles the `stale` steps, then unneeded steps of hosts that the daemon reaches later, such as remote hosts. A run
/// in progress settles its own steps.
async fn settle_later(shared: Weak<Engine>, stale: Vec<(RunId, String)>, mut queried_connections: BTreeSet<u64>) {
    for (run, step) in stale {
        let Some(engine) = shared.upgrade() else { return };
        engine.settle_stale_step(&run, &step).await;
    }
    loop {
        let Some(sessions) = shared.upgrade().map(|shared| shared.sessions.clone()) else { return };
        let changed = sessions.hosts_changed();
        let steps = sessions.unsettled(&mut queried_connections).await;
        let Some(engine) = shared.upgrade() else { return };
        for step in steps {
            let Some(run) = run_of_step(&step) else { continue };
            match engine.find(&run).await {
                Ok(Some(found)) if !found.state().is_over() => {}
                Ok(_) => engine.settle_stale_step(&run, &step).await,
                // The journal is unreadable now.
                Err(_) => {}
            }
        }
        drop((engine, sessions));
        changed.await;
    }
}

/// Returns the run of a step.
fn run_of_step(step: &str) -> Option<RunId> {
    step.split('/').next()?.parse().ok()
}
