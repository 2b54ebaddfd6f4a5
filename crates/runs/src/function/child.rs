//! Child runs of a function.

use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value};
use steplatch_access::Caller;
use steplatch_ids::{RunId, StepId};
use steplatch_nodes::NodeResult;
use steplatch_project::{FunctionWorkflow, SavedMachine, WorkflowRef};
use steplatch_protocol::{EngineKind, NodeReply};
use steplatch_python_api::{Answer, Declaration, Limits};
use steplatch_services::check;
use steplatch_sessions::TerminalTools;
use steplatch_workflow::{Definition, EngineAnswer, GatelessNames, Limits as RunLimits, Outcome, Timestamp};
use tokio_util::sync::CancellationToken;

use super::begin::RunArguments;
use super::entry::{Entry, Started};
use super::run::OwnFile;
use super::work::{CallOutcome, after};
use crate::child::{ChildError, ChildStartError, RunningChild, give_up, outcome_with, report_waits};
use crate::definition_source::{DefinitionSource, ResolvedTarget};
use crate::engine::StartError;
use crate::engine_state::Engine;
use crate::event::Unreadable;
use crate::machine::{MachineLaunch, prepare};
use crate::outer::start_answer;
use crate::quota::DescendantQuota;
use crate::remote::RemoteLaunch;
use crate::result_error::{CallResultError, ResultError};
use crate::run::{Run, RunInbox, RunState, RunStatus};
use crate::seal::Seal;
use crate::time_span::TimeSpan;

/// Maximum nesting depth of runs that functions start.
const MAX_DEPTH: u32 = 16;

/// The request of a call to start a run.
#[derive(Clone)]
pub(super) struct ChildRequest {
    /// Step of the call. The daemon finds the run by it.
    pub(super) step: StepId,
    pub(super) workflow: String,
    pub(super) input: Value,
    pub(super) params: Map<String, Value>,
    /// Number of ancestors of the run.
    pub(super) depth: u32,
    pub(super) called_at: Timestamp,
    pub(super) timeout: Option<TimeSpan>,
}

/// Parameters of a run of a function that a step of another run starts.
pub(crate) struct ChildFunctionLaunch {
    pub(crate) run: RunId,
    pub(crate) step: StepId,
    pub(crate) input: Value,
    pub(crate) params: Map<String, Value>,
    /// Number of ancestors of the run.
    pub(crate) depth: u32,
    /// Maximum working time.
    pub(crate) timeout: Option<TimeSpan>,
    /// Engine that decides the run: the engine of its parent.
    pub(crate) engine: EngineKind,
}

/// Starts the run, or finds it, and waits for its end. Searches `file` for workflows first.
///
/// The future has a named type because the call is recursive: a driver awaits the future, and the future starts another
/// driver.
pub(super) fn perform(
    shared: Arc<Engine>,
    caller: Arc<Caller>,
    parent: RunInbox,
    file: Option<Arc<OwnFile>>,
    request: ChildRequest,
    interrupt: CancellationToken,
) -> Pin<Box<dyn Future<Output = CallOutcome> + Send>> {
    Box::pin(async move {
        let ChildRequest { ref step, called_at, timeout, .. } = request;
        let (step, workflow) = (step.clone(), request.workflow.clone());
        let start_run = async |id| {
            if request.depth > MAX_DEPTH {
                return Err(ChildError::TooDeep(MAX_DEPTH));
            }
            Ok(begin_child(&shared, &caller, id, file.as_deref(), request.clone(), EngineKind::Sqlite).await?)
        };
        let child = match RunningChild::start(&shared, &parent, &step, start_run).await {
            Ok(child) => child,
            Err(error @ (ChildError::QuotaExceeded(_) | ChildError::TooDeep(_))) => {
                let message = error.to_string();
                return CallOutcome::Answer(Answer::Raise { exception: "RuntimeError".to_owned(), message });
            }
            Err(error) => return CallOutcome::refused(error.to_string()),
        };
        let run = &child.run;
        tokio::select! {
            biased;
            () = run.finished() => {}
            never = report_waits(run, &parent, &step) => match never {},
            () = interrupt.cancelled() => give_up(run).await,
            () = after(&shared.clock, called_at, timeout) => {
                give_up(run).await;
                // A child that completed before its cancellation has an outcome, with the terminals that it leaves
                // open.
                if run.state() != RunState::Completed {
                    let limit = timeout.unwrap_or_default();
                    return CallOutcome::TimedOut(format!("Workflow '{workflow}' took longer than {limit} s"));
                }
            }
        }
        call_outcome(&shared, run, &workflow).await
    })
}

/// Begins the run of a call for an outer engine. The engine starts its part of the run and waits for the end. A
/// repeated request finds the same run.
///
/// The future has a named type because the call is recursive: a driver awaits the future, and the future starts another
/// driver.
pub(super) fn begin_for_outer_engine(
    shared: Arc<Engine>,
    caller: Arc<Caller>,
    file: Option<Arc<OwnFile>>,
    request: ChildRequest,
) -> Pin<Box<dyn Future<Output = EngineAnswer> + Send>> {
    Box::pin(async move {
        let id = RunId::started_by(&request.step);
        let raise =
            |error: String| CallOutcome::Answer(Answer::Raise { exception: "RuntimeError".to_owned(), message: error });
        let to_engine_answer = |outcome: CallOutcome| EngineAnswer::Called { outcome: outcome.passed() };
        if shared.outer.registration(&id).is_none() {
            if request.depth > MAX_DEPTH {
                return to_engine_answer(raise(ChildError::TooDeep(MAX_DEPTH).to_string()));
            }
            if let Err(error) = DescendantQuota::check(&shared, &request.step) {
                return to_engine_answer(raise(error.to_string()));
            }
            let start = begin_child(&shared, &caller, id.clone(), file.as_deref(), request, EngineKind::Temporal).await;
            if let Err(error) = start {
                return to_engine_answer(CallOutcome::refused(error.to_string()));
            }
        }
        let start = start_answer(&shared, &id).await;
        start.unwrap_or_else(|| to_engine_answer(raise(format!("run {id} has already finished"))))
    })
}

async fn begin_child(
    shared: &Arc<Engine>,
    caller: &Arc<Caller>,
    run: RunId,
    file: Option<&OwnFile>,
    request: ChildRequest,
    engine: EngineKind,
) -> Result<Arc<Run>, ChildStartError> {
    let own_function = match file {
        Some(OwnFile { name, text }) => {
            let declared = shared.workers.load(name, text).await?;
            let is_declared = super::begin::choose_workflow(&declared, Some(&request.workflow)).is_ok();
            if is_declared {
                let source = own_function_source(shared, caller, &request, text).await;
                Some((name.clone(), text.to_string(), declared, source))
            } else {
                None
            }
        }
        None => None,
    };
    let (file, text, declared, source) = match own_function {
        Some(function) => function,
        None => match shared.resolve_name(caller, &request.workflow).await? {
            ResolvedTarget::Remote(tool) => {
                let ChildRequest { step, input, params, .. } = request;
                let input = RunArguments { input, params }.into_arguments();
                check(&tool, &input)?;
                let launch =
                    RemoteLaunch { run, tool: *tool, input, timeout: None, parent: Some(step), key: None, engine };
                return Ok(shared.begin_remote(caller, launch).await?);
            }
            ResolvedTarget::Machine(saved) => return begin_machine(shared, caller, run, request, saved, engine).await,
            ResolvedTarget::Function(saved) => {
                let ChildRequest { step, input, params, depth, .. } = request;
                let launch = ChildFunctionLaunch { run, step, input, params, depth, timeout: None, engine };
                return Ok(begin_saved(shared, caller, &saved, launch).await?);
            }
        },
    };
    let ChildRequest { step, workflow, input, params, depth, .. } = request;
    let launch = ChildFunctionLaunch { run, step, input, params, depth, timeout: None, engine };
    let function = (file, text, declared, workflow);
    Ok(begin_function(shared, caller, function, source, launch).await?)
}

/// Returns the source of a function of the parent's file. The library counts the run if it has the same file.
async fn own_function_source(shared: &Engine, caller: &Caller, request: &ChildRequest, text: &str) -> DefinitionSource {
    match shared.workflows.find(caller, &request.workflow).await {
        Ok(WorkflowRef::Function(workflow)) if workflow.text() == text => DefinitionSource::of_function(&workflow),
        _ => DefinitionSource::Function,
    }
}

/// Starts a run of a function of the library.
///
/// # Errors
///
/// If the run cannot start.
pub(crate) async fn begin_saved(
    shared: &Arc<Engine>,
    caller: &Arc<Caller>,
    saved: &FunctionWorkflow,
    launch: ChildFunctionLaunch,
) -> Result<Arc<Run>, StartError> {
    let (text, declared) = (saved.text().to_owned(), saved.declared().to_owned());
    let function = (saved.file(), text, declared, saved.id.clone());
    begin_function(shared, caller, function, DefinitionSource::of_function(saved), launch).await
}

async fn begin_function(
    shared: &Arc<Engine>,
    caller: &Arc<Caller>,
    (file, text, declared, workflow): (String, String, Vec<Declaration>, String),
    source: DefinitionSource,
    launch: ChildFunctionLaunch,
) -> Result<Arc<Run>, StartError> {
    let ChildFunctionLaunch { run, step, input, params, depth, timeout, engine } = launch;
    let started = Started {
        at: shared.clock.now(),
        run,
        workflow,
        is_call: false,
        file,
        text,
        input: if input.is_null() { Value::String(String::new()) } else { input },
        params,
        limits: Limits::default(),
        nodes: super::begin::callable_nodes(shared, caller, &declared).await?,
        depth,
        timeout,
        one_heap: true,
    };
    shared.clone().begin_started(caller.clone(), started, source, Some(step), None, engine).await
}

async fn begin_machine(
    shared: &Arc<Engine>,
    caller: &Arc<Caller>,
    run: RunId,
    request: ChildRequest,
    saved: SavedMachine,
    engine: EngineKind,
) -> Result<Arc<Run>, ChildStartError> {
    let ChildRequest { step, input, params, depth, .. } = request;
    let definition = Definition::parse(&saved.definition, &TerminalTools)
        .map_err(|cause| ChildStartError::SavedDefinition { name: saved.name.clone(), cause })?;
    let mut variables = params.clone();
    if !input.is_null() {
        variables.entry("input").or_insert_with(|| input.clone());
    }
    let mut start = steplatch_workflow::Start {
        gateless: GatelessNames::default(),
        run,
        session_id: None,
        variables,
        limits: RunLimits::default(),
        keep_terminals: false,
        save_on_success: true,
        parent: Some(step),
        depth,
    };
    Box::pin(prepare(&definition, caller, shared.executors.named_secrets(), &mut start)).await?;
    let source = DefinitionSource::Saved { directory: saved.directory, name: saved.name };
    let launch = MachineLaunch { definition, source, start, key: None, engine, rerun: None };
    Ok(shared.begin_with(caller, launch, Some(RunArguments { input, params })).await?)
}

/// Returns the return value of a run of a function, or the result of a called node. The value contains its secrets only
/// while the run is in memory.
///
/// # Errors
///
/// If reading its history fails.
pub(crate) async fn return_value(shared: &Engine, run: &Run) -> Result<Value, ResultError> {
    if let Some(value) = run.progress().returned {
        return Ok(Value::clone(&value));
    }
    let records = shared.journal.read(&run.id, 1).await.map_err(Unreadable::from)?;
    let result = records.iter().rev().find_map(|record| match Entry::read(record, &Seal::default()) {
        Ok(Entry::Completed { result, .. } | Entry::Failed { result: Some(result), .. }) => Some(result),
        _ => None,
    });
    Ok(result.unwrap_or_default())
}

/// Returns the result of a finished run that is a call of a node.
///
/// # Errors
///
/// If the run has no result.
pub(crate) async fn node_call_result(shared: &Engine, run: &Run) -> Result<NodeReply, CallResultError> {
    let id = || run.id.clone();
    if run.state() == RunState::Cancelled {
        return Err(CallResultError::Cancelled { run: id() });
    }
    let result = return_value(shared, run).await.map_err(|cause| CallResultError::Unreadable { run: id(), cause })?;
    if result.is_null() {
        // The run failed before its node had a result.
        return Err(CallResultError::Failed { run: id(), error: run.progress().error });
    }
    let result: NodeResult =
        serde_json::from_value(result).map_err(|cause| CallResultError::Invalid { run: id(), cause })?;
    Ok(NodeReply { run_id: Some(run.id.to_string()), ..crate::nodes::node_reply(result) })
}

/// Returns the outcome of a finished run of a function, for the machine that waits for it.
pub(crate) async fn run_outcome(shared: &Engine, run: &Run) -> Outcome {
    let result = match run.state() {
        RunState::Completed => Some(return_value(shared, run).await),
        _ => None,
    };
    outcome_with(run, result)
}

/// Returns the reason for a failed run: the error text, preceded by the exception's name from the last line of the
/// traceback.
fn failure_text(failed: &RunStatus) -> String {
    let error = failed.error.clone().unwrap_or_default();
    let name = failed.traceback.as_deref().and_then(|traceback| traceback.strip_suffix(&error)?.rsplit('\n').next());
    format!("{}{error}", name.unwrap_or_default())
}

/// Returns the outcome of a finished run, for the function that waits for it.
pub(super) async fn call_outcome(shared: &Engine, run: &Run, workflow: &str) -> CallOutcome {
    let failed = |error: String| {
        let message = format!("Workflow '{workflow}' ({}) {error}", run.id);
        CallOutcome::Answer(Answer::Raise { exception: "RuntimeError".to_owned(), message })
    };
    match run.state() {
        RunState::Completed => {}
        RunState::Cancelled => return failed("was cancelled".to_owned()),
        _ => return failed(format!("failed: {}", failure_text(&run.progress()))),
    }
    shared.result_value(run).await.map_or_else(|error| failed(error.to_string()), CallOutcome::value)
}
