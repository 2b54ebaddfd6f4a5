//! Child runs of a state machine: ordinary runs that end with their parent.

mod error;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use steplatch_access::Caller;
use steplatch_ids::{RunId, StepId};
use steplatch_protocol::{EngineKind, ExitTerminal};
use steplatch_services::{arguments, check};
use steplatch_sessions::TerminalTools;
use steplatch_workflow::{Child, ChildWorkflow, Definition, GatelessNames, Input, Outcome, Start};
use tokio_util::sync::CancellationToken;

use super::function::{ChildFunctionLaunch, begin_saved};
use super::machine::{MachineLaunch, prepare};
use super::remote::RemoteLaunch;
use super::run::{Run, RunInbox, RunState, RunStatus};
use crate::definition_source::{DefinitionSource, ResolvedTarget};
use crate::engine::begin_for_step;
use crate::engine_state::Engine;
use crate::quota::DescendantQuota;
use crate::result_error::ResultError;
pub(super) use error::{ChildError, ChildStartError};

/// Time limit for the end of a cancelled child, because a function takes up to 7 seconds to end its calls and clean up.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Reason for the cancellation of an abandoned child.
pub(super) const ABANDONED_REASON: &str = "the run that started it went on without it";

/// Starts the run that a step requests, waits for the end of the run, and returns its outcome. If the step has already
/// started a run, waits for that run.
///
/// The outcome of a branch contains neither its log nor the names of workflows, because the action of a branch does not
/// return them.
///
/// The future has a named type because the call is recursive: a driver awaits the future, and the future starts another
/// driver.
pub(super) fn perform(
    shared: Arc<Engine>,
    caller: Arc<Caller>,
    parent: RunInbox,
    step: StepId,
    child: Child,
    timeout: Option<Duration>,
    is_branch: bool,
) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
    Box::pin(async move {
        let begin_child = |id| begin(&shared, &caller, id, step.clone(), child.clone(), EngineKind::Sqlite);
        let child = match RunningChild::start(&shared, &parent, &step, begin_child).await {
            Ok(child) => child,
            Err(error) => return refused_outcome(error.to_string()),
        };
        let deadline_passed = shared.clock.deadline(timeout.map(|timeout| shared.clock.now().after(timeout)));
        let finished_in_time = async {
            tokio::select! {
                biased;
                () = child.run.finished() => true,
                () = deadline_passed => false,
                never = report_waits(&child.run, &parent, &step) => match never {},
            }
        };
        if !finished_in_time.await {
            give_up(&child.run).await;
            // A child that completed before its cancellation has an outcome, with the terminals that it leaves open.
            if child.run.state() != RunState::Completed {
                return Outcome::TimedOut;
            }
        }
        let mut outcome = shared.outcome_of(&child.run, !is_branch).await;
        if let Outcome::Finished { result } = &mut outcome
            && !is_branch
        {
            let names = shared.available_workflows(&caller).await;
            result.insert("available_workflows".to_owned(), names.into());
        }
        outcome
    })
}

/// A child run that a step of its parent started and waits for. Dropping this value cancels the child, unless the
/// daemon is stopping: then the next daemon continues both runs.
pub(super) struct RunningChild {
    pub(super) run: Arc<Run>,
    _quota: DescendantQuota,
    _cancel: CancelOnDrop,
}

impl RunningChild {
    /// Starts the run of a step with `begin`, or finds the run that the step has already started. Reports the run to
    /// its parent.
    ///
    /// # Errors
    /// If `begin` or the lookup of the run fails, or its root run has too many descendants.
    pub(super) async fn start<B, E>(
        shared: &Arc<Engine>,
        parent: &RunInbox,
        step: &StepId,
        begin: impl Fn(RunId) -> B,
    ) -> Result<Self, ChildError>
    where
        B: Future<Output = Result<Arc<Run>, E>>,
        ChildError: From<E>,
    {
        let id = RunId::started_by(step);
        let known = match shared.find(&id).await {
            Ok(known) => known,
            Err(cause) => return Err(ChildError::Unreadable { run: id, cause }),
        };
        let quota = DescendantQuota::reserve(shared, step, known.is_some())?;
        let run = match known {
            Some(run) => run,
            None => {
                let begin = async || Ok(begin(id.clone()).await?);
                begin_for_step(ChildError::lacks_room, begin).await?
            }
        };
        // A paused parent also pauses its child. A finished parent, or a parent with this entry, ignores the
        // input.
        parent.send(Input::ChildBegan { step: step.clone(), workflow: run.header.workflow.clone() });
        let cancel = CancelOnDrop::new(shared, run.clone());
        Ok(Self { run, _quota: quota, _cancel: cancel })
    }
}

/// Notifies the parent whenever its child starts waiting, starts or stops waiting for a person, or continues.
pub(super) async fn report_waits(child: &Run, parent: &RunInbox, step: &StepId) -> Infallible {
    let mut progress = child.follow();
    loop {
        let current_waits = |now: &RunStatus| (now.waits(), now.asks_person);
        let reported_waits = current_waits(&progress.borrow_and_update());
        let (waits, _) = reported_waits;
        // A repeated input has no effect.
        parent.send(Input::ChildWaits { step: step.clone(), waits });
        if progress.wait_for(|now| current_waits(now) != reported_waits).await.is_err() {
            // The run has finished, and its waiters are notified separately.
            std::future::pending::<()>().await;
        }
    }
}

/// Returns the outcome of a finished run that is not a machine, for the machine that waits for it. Includes the return
/// value if it is readable.
pub(super) fn outcome_with(run: &Run, returned: Option<Result<Value, ResultError>>) -> Outcome {
    let state = run.state();
    let mut result = Map::new();
    let mut set = |name: &str, value: Value| drop(result.insert(name.to_owned(), value));
    set("success", (state == RunState::Completed).into());
    set("run_id", run.id.as_str().into());
    set("status", state.name().into());
    set("workflow_name", run.header.workflow.clone().into());
    if let Some(finished_at) = run.progress().ended {
        set("total_elapsed_time", finished_at.since(run.header.started).as_secs_f64().into());
    }
    let mut error = run.progress().error;
    match returned {
        Some(Ok(returned)) => set("result", returned),
        Some(Err(unreadable)) => {
            set("success", false.into());
            error = Some(format!("Run {} {unreadable}", run.id));
        }
        None => {}
    }
    if let Some(error) = error {
        set("error", error.into());
    }
    Outcome::Finished { result }
}

/// Cancels a run and waits for the cleanup of its resources.
pub(super) async fn give_up(run: &Run) {
    run.cancel(ABANDONED_REASON);
    run.wait_until_over(END_TIMEOUT).await;
}

/// Closes the terminals that a completed run has left to its parent. The parent does not use the terminals, because it
/// has finished, or abandoned the run just after its completion.
pub(super) async fn close_left_open(shared: &Engine, caller: &Caller, run: &Arc<Run>) {
    if run.state() != RunState::Completed {
        return;
    }
    let Outcome::Finished { result } = shared.outcome_of(run, false).await else { return };
    let open = result.get("open_terminals").and_then(Value::as_array).into_iter().flatten();
    for session_id in open.filter_map(Value::as_str).map(str::to_owned) {
        shared.sessions.exit(caller, ExitTerminal { session_id, ..ExitTerminal::default() }).await;
    }
}

/// Cancels a run when dropped, because the caller no longer waits for the run.
pub(super) struct CancelOnDrop {
    run: Arc<Run>,
    stopping: CancellationToken,
}

impl CancelOnDrop {
    pub(super) fn new(shared: &Engine, run: Arc<Run>) -> Self {
        Self { run, stopping: shared.stopping.clone() }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if !self.run.state().is_over() && !self.stopping.is_cancelled() {
            self.run.cancel(ABANDONED_REASON);
        }
    }
}

/// Begins the run of a step for a parent that an outer engine decides. The same engine decides the child.
///
/// # Errors
/// If the run does not begin, or is a remote workflow, decided by its service.
pub(super) async fn begin_for_outer_engine(
    shared: &Arc<Engine>,
    caller: &Arc<Caller>,
    run: RunId,
    step: StepId,
    child: Child,
) -> Result<Arc<Run>, ChildStartError> {
    begin(shared, caller, run, step, child, EngineKind::Temporal).await
}

async fn begin(
    shared: &Arc<Engine>,
    caller: &Arc<Caller>,
    run: RunId,
    step: StepId,
    child: Child,
    engine: EngineKind,
) -> Result<Arc<Run>, ChildStartError> {
    let (document, source) = match &child.workflow {
        ChildWorkflow::Inline(document) => {
            (document.clone(), shared.inline_source(caller, child.save_on_success).await)
        }
        ChildWorkflow::Named(name) => match shared.resolve_name(caller, name.as_str()).await? {
            ResolvedTarget::Remote(tool) => {
                let input = arguments(&tool, child.variables);
                check(&tool, &input)?;
                let timeout = Some(child.limits.execution_timeout().into());
                let launch = RemoteLaunch { run, tool: *tool, input, timeout, parent: Some(step), key: None, engine };
                return Ok(shared.begin_remote(caller, launch).await?);
            }
            ResolvedTarget::Machine(saved) => {
                (saved.definition, DefinitionSource::Saved { directory: saved.directory, name: saved.name })
            }
            ResolvedTarget::Function(found) => {
                let params: Map<String, Value> = child.variables.into_iter().collect();
                let input = params.get("input").cloned().unwrap_or_default();
                let timeout = Some(child.limits.execution_timeout().into());
                let launch = ChildFunctionLaunch { run, step, input, params, depth: child.depth, timeout, engine };
                return Ok(begin_saved(shared, caller, &found, launch).await?);
            }
        },
    };
    let definition = Definition::parse(&document, &TerminalTools).map_err(ChildStartError::Definition)?;
    let variables: Map<String, Value> = child.variables.clone().into_iter().collect();
    let mut session_id = child.terminal(&definition).map(str::to_owned);
    if let Some(session) = &session_id
        && let Err(error) = shared.sessions.exists(session).await
    {
        if !child.inherits {
            return Err(error.into());
        }
        // Another client has closed a terminal that the child inherited without naming it: the child begins without a
        // terminal.
        session_id = None;
    }
    let mut start = Start {
        run,
        session_id,
        variables,
        limits: child.limits,
        keep_terminals: child.keep_terminals,
        save_on_success: child.save_on_success,
        parent: Some(step),
        depth: child.depth,
        gateless: GatelessNames::default(),
    };
    Box::pin(prepare(&definition, caller, shared.executors.named_secrets(), &mut start)).await?;
    Ok(shared.begin(caller, MachineLaunch { definition, source, start, key: None, engine, rerun: None }).await?)
}

pub(super) fn refused_outcome(error: String) -> Outcome {
    let fields = [("success".to_owned(), false.into()), ("error".to_owned(), error.into())];
    Outcome::Finished { result: Map::from_iter(fields) }
}
