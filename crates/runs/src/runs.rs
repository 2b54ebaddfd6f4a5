//! Start, wait, cancel and reports of runs. The submodules implement the other verbs.

mod delete;
mod gates;
mod list;
mod locked;
mod lookup;
mod pause;
mod repair;
mod rerun;
mod secret_answers;
mod startable;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use serde_json::{Map, Value};
use steplatch_access::Caller;
use steplatch_ids::RunId;
use steplatch_library::Signature;
use steplatch_project::{Project, SessionError};
use steplatch_protocol::{
    CallTool, CancelWorkflow, CancelWorkflowReply, DrawWorkflowReply, EngineKind, ExecuteWorkflow,
    ExecuteWorkflowReply, GetRun, GetWorkflowRun, GetWorkflowRunReply, NodeReply, RunComparison, RunRecord, RunReply,
    RunWorkflow, Subscribe, SubscribeReply, ToolInfo, Until,
};
use steplatch_services::{RemoteIds, arguments, check};
use steplatch_sessions::TerminalTools;
use steplatch_store::{AppendError, Journal, OpenError, StorageError};
use steplatch_workflow::{Definition, GatelessNames, History, InvalidLimits, Limits, Start};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::definition_source::RunTarget;
use crate::dependencies::RunDependencies;
use crate::engine_state::{Engine, RetentionPolicy, open_journal};
use crate::event::{HistoryError, RunEvents, Unreadable};
use crate::function::{FunctionLocation, RunArguments};
use crate::kind::Kind;
use crate::lookup::{RunLookupError, parse_run_id};
use crate::machine::{self, MachineLaunch, prepare, rehearsal_report};
use crate::not_started::not_started;
use crate::outer::NOT_SERVED;
use crate::remote::RemoteLaunch;
use crate::result_error::NodeCallError;
use crate::run::{Run, RunState, RunStatus};
use crate::seal::Seal;
use crate::start_key::StartKey;
use crate::time_span::TimeSpan;
use crate::{function, remote, run, source};

/// Default wait of a start for the end of its run.
const DEFAULT_WAIT: Duration = Duration::from_secs(20);

/// Maximum wait of one command.
const MAX_WAIT: Duration = Duration::from_secs(7200);

/// Maximum characters of a name in a reply without a run.
const MAX_NAME_CHARS: usize = 80;

/// Maximum wait of a cancel for the end of its run.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of concurrent starts. A start needs ten times the memory of its run. One journal transaction can
/// contain all concurrent starts.
const MAX_CONCURRENT_STARTS: usize = 512;

/// Maximum bytes of the definition and variables of a new run on Temporal, whose payloads have at most 2 MB.
const MAX_BYTES_ON_TEMPORAL: usize = 1_500_000;

/// Maximum number of concurrent reports: each needs a whole history in memory.
const MAX_CONCURRENT_REPORTS: usize = 128;

/// All runs.
#[derive(Debug)]
pub struct Runs {
    pub(crate) shared: Arc<Engine>,
    /// Permits to start a run.
    starts: Semaphore,
    /// Permits to read a run's history for its report.
    reports: Semaphore,
}

impl Runs {
    /// Opens the journal. Creates a missing journal.
    ///
    /// # Errors
    ///
    /// If opening the journal fails.
    #[boxed]
    pub async fn open(
        path: PathBuf,
        dependencies: RunDependencies,
        retention: RetentionPolicy,
    ) -> Result<Self, OpenError> {
        let journal = Arc::new(open_journal(path.clone(), retention.disk).await?);
        Ok(Self::new(journal, path.parent().unwrap_or(&path), dependencies, retention))
    }

    /// Creates the runs of an open journal. `state` is the directory with the token of workers.
    pub fn new(
        journal: Arc<dyn Journal>,
        state: &Path,
        dependencies: RunDependencies,
        retention: RetentionPolicy,
    ) -> Self {
        Self {
            shared: Arc::new(Engine::new(journal, state, dependencies, retention)),
            starts: Semaphore::new(MAX_CONCURRENT_STARTS),
            reports: Semaphore::new(MAX_CONCURRENT_REPORTS),
        }
    }

    /// Resumes the runs that the last daemon left.
    #[boxed]
    pub async fn recover(&self) {
        self.shared.recover().await;
        let shared = self.shared.clone();
        tokio::spawn(async move { shared.forget_finished().await });
    }

    /// Returns the number of runs with a driver.
    pub fn count_in_progress(&self) -> usize {
        self.shared.lock().len()
    }

    /// Stops driving every run. The next daemon resumes them, except the daemon's own questions, whose programs wait no
    /// longer then.
    #[boxed]
    pub async fn leave(&self) {
        let questions: Vec<String> = self.shared.secret_answers.values.lock().keys().map(ToString::to_string).collect();
        for run_id in questions {
            self.cancel(CancelWorkflow { run_id }).await;
        }
        self.shared.stopping.cancel();
        self.shared.drivers.close();
        // Ignore a timeout, because a run that closes terminals may take long, and the next daemon completes the work.
        let _ = tokio::time::timeout(CANCEL_TIMEOUT, self.shared.drivers.wait()).await;
        self.shared.empty_log().await;
    }

    /// Starts a run of a saved workflow and waits for its end if requested. A repeated request with the same `step`
    /// returns the run that the first request started.
    #[boxed]
    pub async fn execute(
        &self,
        caller: &Arc<Caller>,
        verb: ExecuteWorkflow,
        step: Option<String>,
    ) -> ExecuteWorkflowReply {
        let ExecuteWorkflow { workflow_id, input, params, wait, until, idempotency_key, .. } = verb;
        let refusal = |error: Option<String>| ExecuteWorkflowReply { error, ..ExecuteWorkflowReply::default() };
        let session_id = match self.find_terminal(caller, verb.session_id, verb.workspace).await {
            Ok(terminal) => terminal,
            Err(error) => return refusal(Some(error.to_string())),
        };
        let run_arguments = RunArguments { input, params: params.unwrap_or_default() };
        let start = RunWorkflow {
            workflow_name: Some(workflow_id),
            session_id,
            initial_variables: Some(run_arguments.as_variables()),
            execution_timeout: verb.timeout.or(verb.execution_timeout),
            idempotency_key,
            ..RunWorkflow::default()
        };
        let run = match self.start(caller, start, Some(run_arguments), step).await {
            Ok(run) => run,
            Err(reply) => return refusal(reply.error),
        };
        match until {
            Some(Until::Gate) => self.wait_until_idle(&run, MAX_WAIT).await,
            None if wait => run.wait_until_over(MAX_WAIT).await,
            _ => {}
        }
        let report = Box::pin(self.report(&run)).await;
        let (result, run_id, state) = (completed_result(&report), report.run_id, report.status);
        ExecuteWorkflowReply { success: true, run_id, state, result, error: report.error, traceback: report.traceback }
    }

    /// Returns `session_id` if it names a terminal, and `None` if it names a session of the caller's project.
    ///
    /// # Errors
    ///
    /// If `session_id` is neither, or `workspace` is not a session of the project.
    async fn find_terminal(
        &self,
        caller: &Caller,
        session_id: Option<String>,
        workspace: Option<String>,
    ) -> Result<Option<String>, SessionError> {
        let projects = &self.shared.projects;
        if let Some(name) = workspace {
            projects.check_session(caller, &name).await?;
        }
        let Some(name) = session_id else { return Ok(None) };
        match projects.check_session(caller, &name).await {
            Ok(()) => Ok(None),
            Err(error) => self.shared.sessions.exists(&name).await.map(|()| Some(name)).map_err(|_| error),
        }
    }

    /// Starts a run for a node that makes calls of its own, and waits for the end of the run. A repeated request with
    /// the same `step` does not call the node again.
    ///
    /// # Errors
    ///
    /// If the run does not start, or has no result.
    pub(crate) async fn call_node(
        &self,
        caller: &Arc<Caller>,
        project: &Project,
        node: String,
        input: Value,
        timeout: Option<TimeSpan>,
        step: Option<String>,
    ) -> Result<NodeReply, NodeCallError> {
        let key = step.map(StartKey::for_step);
        let run = self.shared.begin_call(caller, project, node, input, timeout, key).await?;
        run.finished().await;
        Ok(function::node_call_result(&self.shared, &run).await?)
    }

    /// Starts a run and waits for its end, or for a gate, as long as requested. A repeated request with the same
    /// `step` returns the run that the first request started.
    #[boxed]
    pub async fn run(&self, caller: &Arc<Caller>, verb: RunWorkflow, step: Option<String>) -> RunReply {
        let wait = verb.wait_seconds.map_or(DEFAULT_WAIT, clamp_wait);
        let (workflow_name, session_id) = requested_names(&verb);
        let reply = match self.start(caller, verb, None, step).await {
            Ok(run) => {
                self.wait_until_idle(&run, wait).await;
                Box::pin(self.report(&run)).await
            }
            Err(reply) => RunReply { workflow_name, session_id, ..*reply },
        };
        let available_workflows = Box::pin(self.shared.available_workflows(caller)).await;
        RunReply { available_workflows, ..reply }
    }

    /// Calls a tool that is a workflow, with checked arguments, like [`Self::run`].
    #[boxed]
    pub async fn call_tool(
        &self,
        caller: &Arc<Caller>,
        tool: ToolInfo,
        verb: CallTool,
        step: Option<String>,
    ) -> RunReply {
        let CallTool { arguments, wait_seconds, idempotency_key, .. } = verb;
        let default_wait = if tool.sync { MAX_WAIT } else { DEFAULT_WAIT };
        let wait = wait_seconds.map_or(default_wait, clamp_wait);
        let workflow_name = if tool.remote.is_some() { tool.name.clone() } else { tool.workflow_id.clone() };
        let start = if tool.remote.is_some() {
            // Start the tool that was found, because a saved workflow may have the same name.
            let key =
                StartKey::for_call(idempotency_key.as_deref(), &tool.name, &arguments, step, &self.shared.secrets);
            let known_run = match self.run_with_key(key.as_ref()).await {
                Ok(known_run) => known_run,
                Err(reply) => return RunReply { workflow_name: Some(workflow_name), ..*reply },
            };
            let (run, engine) = (RunId::random(), self.shared.engine_policy.default_engine());
            let launch = RemoteLaunch { run, tool, input: arguments, timeout: None, parent: None, key, engine };
            Box::pin(self.start_remote(caller, launch, known_run)).await
        } else {
            let input = match arguments.get("input") {
                _ if arguments.is_empty() => Value::Null,
                Some(input) => input.clone(),
                None => Value::Object(arguments.clone()),
            };
            let run_arguments = RunArguments { input, params: arguments };
            let verb = RunWorkflow {
                workflow_name: Some(tool.workflow_id),
                initial_variables: Some(run_arguments.as_variables()),
                idempotency_key,
                ..RunWorkflow::default()
            };
            self.start(caller, verb, Some(run_arguments), step).await
        };
        match start {
            Ok(run) => {
                self.wait_until_idle(&run, wait).await;
                Box::pin(self.report(&run)).await
            }
            Err(reply) => RunReply { workflow_name: Some(workflow_name), ..*reply },
        }
    }

    /// Returns the service's ids of a run of a remote workflow. `None` for other runs, and for a run that its service
    /// has not started.
    #[boxed]
    pub async fn remote_ids(&self, id: &RunId) -> Option<RemoteIds> {
        let run = self.find(id).await.ok().filter(|run| run.kind() == Kind::Remote)?;
        remote::remote_ids(&self.shared, &run).await
    }

    /// Starts a run once a permit is free, because a start needs much more memory than a wait for a permit, or for the
    /// end of the run.
    pub(crate) async fn start(
        &self,
        caller: &Arc<Caller>,
        verb: RunWorkflow,
        run_arguments: Option<RunArguments>,
        step: Option<String>,
    ) -> Result<Arc<Run>, Box<RunReply>> {
        let _permit = self.starts.acquire().await.expect("the semaphore is never closed");
        Box::pin(self.start_unqueued(caller, verb, run_arguments, step)).await
    }

    async fn start_unqueued(
        &self,
        caller: &Arc<Caller>,
        verb: RunWorkflow,
        run_arguments: Option<RunArguments>,
        step: Option<String>,
    ) -> Result<Arc<Run>, Box<RunReply>> {
        let is_python = verb.workflow_file.as_deref().is_some_and(|file| file.ends_with(".py"));
        if verb.rehearse.is_some() && is_python {
            return Err(refuse_rehearsal());
        }
        let key = StartKey::for_workflow(&verb, run_arguments.as_ref(), step, &self.shared.secrets);
        let known_run = self.run_with_key(key.as_ref()).await?;
        match (verb.again.clone(), known_run) {
            (Some(_), Some(run)) => Ok(run),
            (Some(request), None) => Box::pin(self.rerun(caller, verb, request, key)).await,
            (None, known_run) => self.start_named(caller, verb, run_arguments, key, known_run).await,
        }
    }

    /// Starts a run of the workflow that a request names, or returns the `known_run` under the same key.
    async fn start_named(
        &self,
        caller: &Arc<Caller>,
        verb: RunWorkflow,
        run_arguments: Option<RunArguments>,
        key: Option<StartKey>,
        known_run: Option<Arc<Run>>,
    ) -> Result<Arc<Run>, Box<RunReply>> {
        let engine = verb.engine.unwrap_or_else(|| self.shared.engine_policy.default_engine());
        if let Some(file) = verb.workflow_file.as_deref().filter(|file| file.ends_with(".py")) {
            return match known_run {
                Some(run)
                    if run.kind() == Kind::Function
                        && self.started_with_file(&run, caller.directory.join(file)).await =>
                {
                    Ok(run)
                }
                Some(run) => key_conflict(&run, key.as_ref()),
                None => {
                    self.check_engine_served(engine).await?;
                    let from = FunctionLocation::File(file);
                    self.shared.begin_function(caller, &verb, from, run_arguments, key, engine).await
                }
            };
        }
        let target = match self.shared.requested_target(caller, &verb).await {
            Ok(RunTarget::Function(_) | RunTarget::Remote(_)) if verb.rehearse.is_some() => {
                return Err(refuse_rehearsal());
            }
            Ok(RunTarget::Function(workflow)) => {
                return match known_run {
                    Some(run) if run.kind() == Kind::Function && run.header.workflow == workflow.id => Ok(run),
                    Some(run) => key_conflict(&run, key.as_ref()),
                    None => {
                        self.check_engine_served(engine).await?;
                        let from = FunctionLocation::Library(&workflow);
                        self.shared.begin_function(caller, &verb, from, run_arguments, key, engine).await
                    }
                };
            }
            Ok(RunTarget::Remote(tool)) => {
                let variables = || arguments(&tool, verb.initial_variables.clone().unwrap_or_default());
                let input = run_arguments.map_or_else(variables, RunArguments::into_arguments);
                let timeout = verb.execution_timeout.map(TimeSpan::from_seconds);
                let run = RunId::random();
                let launch = RemoteLaunch { run, tool: *tool, input, timeout, parent: None, key, engine };
                return self.start_remote(caller, launch, known_run).await;
            }
            Ok(RunTarget::Machine(definition, source)) => Ok((*definition, source)),
            Err(reply) => Err(reply),
        };
        if let Some(run) = known_run {
            // A definition that the lookup no longer finds is considered unchanged.
            let has_changed = target.is_ok_and(|(definition, _)| {
                run.header.signature.as_ref().is_some_and(|known| *known != Signature::of_value(definition.document()))
            });
            return if has_changed && verb.idempotency_key.is_some() {
                key_conflict(&run, key.as_ref())
            } else {
                Ok(run)
            };
        }
        let (definition, source) = target?;
        let variables = verb.initial_variables.clone().unwrap_or_default();
        // A null is a missing variable.
        let variables: Map<String, Value> = variables.into_iter().filter(|(_, value)| !value.is_null()).collect();
        let limits = limits(&verb).map_err(|error| not_started("execution_error", error.to_string()))?;
        if let Some(stubs) = &verb.rehearse {
            return Err(rehearsal_report(&definition, stubs, variables, limits, &self.shared.secrets));
        }
        let start = Start {
            run: RunId::random(),
            session_id: verb.session_id,
            variables,
            limits,
            keep_terminals: verb.keep_terminals,
            save_on_success: verb.save_on_success,
            parent: None,
            depth: 0,
            gateless: GatelessNames::default(),
        };
        let launch = MachineLaunch { definition, source, start, key, engine, rerun: None };
        self.launch_machine(caller, launch, run_arguments).await
    }

    /// Starts a run of a machine, if its terminal exists, its values are complete, and its engine can run it.
    async fn launch_machine(
        &self,
        caller: &Arc<Caller>,
        mut launch: MachineLaunch,
        run_arguments: Option<RunArguments>,
    ) -> Result<Arc<Run>, Box<RunReply>> {
        let MachineLaunch { definition, start, engine, .. } = &mut launch;
        let variable_session = start.variables.get("session_id").and_then(Value::as_str);
        if let Some(session) = start.session_id.as_deref().or(variable_session).filter(|session| !session.is_empty()) {
            let found = self.shared.sessions.exists(session).await;
            found.map_err(|error| not_started("execution_error", error.to_string()))?;
        }
        let prepared = Box::pin(prepare(definition, caller, self.shared.executors.named_secrets(), start)).await;
        prepared.map_err(|error| not_started("validation_failed", error.to_string()))?;
        self.check_engine_served(*engine).await?;
        if *engine != EngineKind::Sqlite {
            let bytes = definition.document().to_string().len() + serde_json::json!(start.variables).to_string().len();
            if bytes > MAX_BYTES_ON_TEMPORAL {
                let error = format!(
                    "the definition and the variables have {bytes} bytes, but a run on Temporal allows at most \
                     {MAX_BYTES_ON_TEMPORAL}; shorten them, or run it with --on sqlite"
                );
                return Err(not_started("execution_error", error));
            }
        }
        let run = self.shared.begin_with(caller, launch, run_arguments).await;
        run.map_err(|error| not_started("execution_error", error.to_string()))
    }

    /// Refuses a start in an engine that no worker serves.
    async fn check_engine_served(&self, engine: EngineKind) -> Result<(), Box<RunReply>> {
        match engine {
            EngineKind::Temporal if !self.shared.outer.is_served_soon().await => {
                Err(not_started("execution_error", NOT_SERVED.to_owned()))
            }
            EngineKind::Temporal | EngineKind::Sqlite => Ok(()),
        }
    }

    /// Starts a run of a remote workflow, or returns the `known_run` under the same key.
    async fn start_remote(
        &self,
        caller: &Arc<Caller>,
        launch: RemoteLaunch,
        known_run: Option<Arc<Run>>,
    ) -> Result<Arc<Run>, Box<RunReply>> {
        let RemoteLaunch { tool, input, key, engine, .. } = &launch;
        match known_run {
            Some(run) if run.kind() == Kind::Remote && run.header.workflow == tool.name => Ok(run),
            Some(run) => key_conflict(&run, key.as_ref()),
            None => {
                check(tool, input).map_err(|error| not_started("validation_failed", error.to_string()))?;
                self.check_engine_served(*engine).await?;
                let known_run = self.shared.begin_remote(caller, launch).await;
                known_run.map_err(|error| not_started("execution_error", error.to_string()))
            }
        }
    }

    /// Returns whether a run started with the current contents of a file. An unreadable file is considered unchanged.
    async fn started_with_file(&self, run: &Run, file: PathBuf) -> bool {
        let text = source::read_definition_file(file).await;
        let has_changed =
            |text: String| run.header.signature.as_ref().is_some_and(|known| *known != Signature::of_text(&text));
        !text.is_ok_and(has_changed)
    }

    /// Returns the run that started under a key, if there is a key and such a run.
    ///
    /// # Errors
    ///
    /// If the key belongs to another request.
    async fn run_with_key(&self, key: Option<&StartKey>) -> Result<Option<Arc<Run>>, Box<RunReply>> {
        let Some(key) = key else { return Ok(None) };
        // An unreadable journal fails when the engine records the run.
        let Ok(Some(id)) = self.shared.journal.run_with_key(key.as_str()).await else { return Ok(None) };
        match self.shared.find(&id).await {
            Ok(Some(run)) if !key.is_for(run.header.request.as_ref()) => key_conflict(&run, Some(key)).map(Some),
            found => Ok(found.ok().flatten()),
        }
    }

    /// Returns the state of a run, after a wait for its end or a gate if requested.
    #[boxed]
    pub async fn get_run(&self, verb: GetRun) -> RunReply {
        match self.find_by_text(&verb.run_id).await {
            Ok(run) => {
                if let Some(wait) = verb.wait_seconds {
                    self.wait_until_idle(&run, clamp_wait(wait)).await;
                }
                let comparison = match verb.compare_with {
                    Some(other) => Some(Box::pin(self.compare(&run, &other)).await),
                    None => None,
                };
                RunReply { comparison, ..Box::pin(self.report(&run)).await }
            }
            Err(error) => RunReply { run_id: verb.run_id, error: Some(error.to_string()), ..RunReply::default() },
        }
    }

    /// Compares the events of two runs so far.
    async fn compare(&self, run: &Arc<Run>, other_id: &str) -> RunComparison {
        let refusal = |error: String| RunComparison { error: Some(error), ..RunComparison::default() };
        let other_run = match self.find_by_text(other_id).await {
            Ok(other) => other,
            Err(error) => return refusal(error.to_string()),
        };
        let reader = |run: &Arc<Run>| RunEvents::new(self.shared.clone(), run.clone(), 1, None);
        match (reader(run).read_recorded().await, reader(&other_run).read_recorded().await) {
            (Ok(events), Ok(other_events)) => {
                let (run, other_id) = (run.id.to_string(), other_run.id.to_string());
                steplatch_capture::compare_runs((&run, &events), (&other_id, &other_events))
            }
            (Err(error), _) | (_, Err(error)) => refusal(HistoryError::from(error).to_string()),
        }
    }

    /// Cancels a run and waits briefly for its end.
    #[boxed]
    pub async fn cancel(&self, verb: CancelWorkflow) -> CancelWorkflowReply {
        let run_id = verb.run_id;
        let cancelled = match parse_run_id(&run_id) {
            Ok(id) => self.cancel_run(&id).await,
            Err(error) => Err(error.into()),
        };
        match cancelled {
            Ok((before, state)) => CancelWorkflowReply {
                success: true,
                run_id,
                state: state.name().to_owned(),
                message: match state {
                    RunState::Cancelled if !before.is_over() => "Run cancelled".to_owned(),
                    state => format!("Run was already over: {}", state.name()),
                },
                error: None,
            },
            Err(error) => CancelWorkflowReply { run_id, error: Some(error.to_string()), ..Default::default() },
        }
    }

    /// Cancels a run. Returns its states before and after the cancel.
    ///
    /// # Errors
    ///
    /// If there is no such run, the journal does not store its end, or the run does not end in time.
    async fn cancel_run(&self, id: &RunId) -> Result<(RunState, RunState), CancelError> {
        let run = self.find(id).await?;
        let before = run.state();
        if before.is_over() {
            return Ok((before, before));
        }
        if run.is_driven() {
            run.cancel("cancelled on request");
            run.wait_until_over(CANCEL_TIMEOUT).await;
            return match run.state() {
                state if state.is_over() => Ok((before, state)),
                _ => Err(CancelError::Pending { blocked_reason: run.progress().blocked_reason }),
            };
        }
        if !self.shared.cancel_locked(&run).await? {
            // The run is broken for another reason, unless it now has a driver.
            if run.is_driven() {
                return Box::pin(self.cancel_run(id)).await;
            }
            self.shared.write_off(&run).await?;
        }
        Ok((before, RunState::Cancelled))
    }

    /// Returns the record of a run.
    #[boxed]
    pub async fn record(&self, verb: &GetWorkflowRun) -> GetWorkflowRunReply {
        match self.find_by_text(&verb.run_id).await {
            Ok(run) => {
                let mut record = self.to_record(&run);
                if let Some(full_result) = self.result_of(&run).await {
                    (record.result, record.result_shortened) = (full_result, false);
                    self.shared.secrets.mask_in(&mut record.result);
                }
                GetWorkflowRunReply { success: true, run: Some(record), error: None }
            }
            Err(error) => GetWorkflowRunReply { error: Some(error.to_string()), ..GetWorkflowRunReply::default() },
        }
    }

    /// Returns the record of a run as in lists, without reading its history. `None` if there is no such run.
    ///
    /// # Errors
    ///
    /// If reading the journal fails.
    #[boxed]
    pub async fn brief_record(&self, run_id: &str) -> Result<Option<RunRecord>, StorageError> {
        match self.find_by_text(run_id).await {
            Ok(run) => Ok(Some(self.to_record(&run))),
            Err(RunLookupError::NotFound { .. }) => Ok(None),
            Err(RunLookupError::Unreadable(error)) => Err(error),
        }
    }

    /// Draws a run's state machine as of its start.
    #[boxed]
    pub async fn draw(&self, run_id: &str) -> DrawWorkflowReply {
        let drawn = async {
            let run = self.find_by_text(run_id).await.map_err(|error| error.to_string())?;
            if run.kind() != Kind::Machine {
                return Err("Only state machines can be drawn".to_owned());
            }
            let events = self.shared.events_of(&run.id, 1, &Seal::default()).await.map_err(HistoryError::from);
            let history = History::from_iter(&events.map_err(|error| error.to_string())?);
            let document = history.definition().ok_or_else(|| "the run has no definition".to_owned())?.clone();
            let definition = Definition::parse(&document, &TerminalTools).map_err(|problems| problems.to_string())?;
            Ok((definition, document))
        };
        match drawn.await {
            Ok((definition, document)) => DrawWorkflowReply {
                success: true,
                svg: Some(steplatch_project::svg(&definition)),
                collapsed_svg: steplatch_project::collapsed_svg(&definition),
                definition: Some(document),
                error: None,
            },
            Err(error) => DrawWorkflowReply { error: Some(error), ..DrawWorkflowReply::default() },
        }
    }

    /// Subscribes to the events of a run, starting at the requested number.
    #[boxed]
    pub async fn subscribe(&self, verb: &Subscribe) -> (SubscribeReply, Option<RunEvents>) {
        let refusal = |error: String| (SubscribeReply { error: Some(error), ..SubscribeReply::default() }, None);
        match self.find_by_text(&verb.run_id).await {
            Ok(run) => {
                let events = RunEvents::new(self.shared.clone(), run, verb.from_seq.unwrap_or(1), verb.at_most);
                match events.newest().await {
                    Ok(newest_seq) => (SubscribeReply { success: true, newest_seq, error: None }, Some(events)),
                    Err(error) => refusal(HistoryError::from(error).to_string()),
                }
            }
            Err(error) => refusal(error.to_string()),
        }
    }

    /// Waits until a run has finished or has an open gate, or until a timeout.
    async fn wait_until_idle(&self, run: &Arc<Run>, timeout: Duration) {
        let mut progress = run.follow();
        let idle = async {
            loop {
                let state = progress.borrow_and_update().state;
                // Also watch the descendants: a child may have its answer before the state of this run changes.
                let mut child_changes = JoinSet::new();
                for run in self.family(run).into_iter().skip(1) {
                    let mut progress = run.follow();
                    progress.mark_unchanged();
                    child_changes.spawn(async move { progress.changed().await });
                }
                let has_gate = run.progress().open_gate || self.waits_for_answer(run);
                if state.is_over() || (state == RunState::Waiting && has_gate) {
                    return;
                }
                let is_dropped = tokio::select! {
                    changed = progress.changed() => changed.is_err(),
                    // The pattern ignores a finished child: this run receives its end.
                    Some(Ok(Ok(()))) = child_changes.join_next() => false,
                };
                if is_dropped {
                    return;
                }
            }
        };
        // On timeout, the caller reports the current state.
        let _ = tokio::time::timeout(timeout, idle).await;
    }

    fn to_record(&self, run: &Arc<Run>) -> RunRecord {
        run.record(self.pending_gates(run), &self.shared.secrets)
    }

    /// Returns the full result of a completed run, from its history if its summary is shortened.
    pub(crate) async fn result_of(&self, run: &Arc<Run>) -> Option<Value> {
        let RunStatus { state: RunState::Completed, result, result_shortened, .. } = run.progress() else {
            return None;
        };
        match result.filter(|_| !result_shortened) {
            Some(full_result) => Some(Arc::unwrap_or_clone(full_result)),
            None => completed_result(&Box::pin(self.report(run)).await),
        }
    }

    /// Returns the record of a run for lists.
    pub(crate) async fn list_record(&self, run: &Arc<Run>) -> RunRecord {
        let mut record = self.to_record(run);
        // A summary of an older daemon has no result.
        if run.state() == RunState::Completed
            && run.progress().result.is_none()
            && let Some(full_result) = self.result_of(run).await
        {
            (record.result, record.result_shortened) = run::shorten_for_list(&full_result);
            self.shared.secrets.mask_in(&mut record.result);
        }
        record
    }

    async fn report(&self, run: &Arc<Run>) -> RunReply {
        let _permit = self.reports.acquire().await.expect("the semaphore is never closed");
        // Read the status before the history, because a run that finishes in the meantime is then reported as running,
        // not as completed without a result.
        let (progress, gate) = (run.progress(), self.pending_gates(run).into_iter().next());
        let next_step = machine::next_step(&run.id, &progress, gate.as_ref(), &self.shared.secrets);
        let unreadable = |error: Unreadable| RunReply {
            run_id: run.id.to_string(),
            status: progress.state.name().to_owned(),
            workflow_name: Some(run.header.workflow.clone()),
            error: Some(HistoryError::from(error).to_string()),
            ..RunReply::default()
        };
        let report = self.shared.build_report(run, progress.clone(), gate).await.unwrap_or_else(unreadable);
        RunReply { next_step: report.next_step.or(next_step), ..report }
    }
}

/// Returns the wait of a command that requests this many seconds.
fn clamp_wait(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.clamp(0.0, MAX_WAIT.as_secs_f64()))
}

/// Failure to cancel a run.
#[derive(Debug, thiserror::Error)]
enum CancelError {
    /// The lookup of the run failed.
    #[error(transparent)]
    Lookup(#[from] RunLookupError),
    /// The journal does not store the end of a run without a driver.
    #[error("the run cannot be cancelled: {0}")]
    NotStored(#[from] AppendError),
    /// The run has not finished yet.
    #[error(
        "the run was cancelled but is still running: {}",
        .blocked_reason.as_deref().unwrap_or("actions in progress have not finished yet")
    )]
    Pending {
        /// Reason that blocks the run, if known.
        blocked_reason: Option<String>,
    },
}

/// Returns the result of a completed run: the value of a function, or the return values of a machine.
fn completed_result(report: &RunReply) -> Option<Value> {
    let completed = report.status == RunState::Completed.name();
    completed.then(|| report.result.clone().unwrap_or_else(|| report.return_values.clone().into()))
}

fn limits(verb: &RunWorkflow) -> Result<Limits, InvalidLimits> {
    let defaults = Limits::default();
    Limits::new(
        verb.max_states.unwrap_or(defaults.max_states()),
        verb.execution_timeout.unwrap_or(defaults.execution_timeout().as_secs_f64()),
    )
}

/// Returns the names of the workflow and of the terminal in a request, for a reply without a run. Long names are cut.
fn requested_names(verb: &RunWorkflow) -> (Option<String>, Option<String>) {
    let definition_name = || verb.workflow_definition.as_ref()?.get("name")?.as_str();
    let shorten = |text: &str| text.chars().take(MAX_NAME_CHARS).collect();
    (verb.workflow_name.as_deref().or_else(definition_name).map(shorten), verb.session_id.as_deref().map(shorten))
}

/// The `final_state` of a start that is refused because its key belongs to another request.
const KEY_CONFLICT_STATE: &str = "idempotency_conflict";

/// Refuses a start whose key belongs to a run of another workflow, or with another input.
fn key_conflict(run: &Run, key: Option<&StartKey>) -> Result<Arc<Run>, Box<RunReply>> {
    let (id, workflow) = (&run.id, &run.header.workflow);
    let name = key.map_or_else(|| "this step".to_owned(), StartKey::name);
    let error = format!(
        "{name} belongs to run {id} of '{workflow}', which had a different request: a key identifies one workflow with \
         one input; choose another key"
    );
    Err(not_started(KEY_CONFLICT_STATE, error))
}

/// Refuses to rehearse a workflow that is not a machine.
fn refuse_rehearsal() -> Box<RunReply> {
    not_started("definition_invalid", "only machines can be rehearsed; remove rehearse to run it".to_owned())
}
