//! Starts of runs of functions: from a file, from the library, or after a restart of the daemon.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use serde_json::{Map, Value};
use steplatch_access::Caller;
use steplatch_ids::{RunId, StepId};
use steplatch_library::Signature;
use steplatch_project::{Function, FunctionWorkflow, Project, python};
use steplatch_protocol::{EngineKind, RunReply, RunWorkflow};
use steplatch_python_api::{Declaration, Kind, Limits, Start};
use steplatch_workflow::substitute;

use super::entry::{Entry, Started};
use super::history::FunctionState;
use super::node::DeclaredNodes;
use super::run::frame::Frame;
use super::run::{FunctionRun, OwnFile};
use crate::definition_source::DefinitionSource;
use crate::engine::{LaunchParts, StartError, uncancelled};
use crate::engine_state::Engine;
use crate::not_started::not_started;
use crate::origin::Environment;
use crate::pins::{References, callable, check_nodes};
use crate::run::{Run, RunHeader};
use crate::seal::Seal;
use crate::source::read_definition_file;
use crate::start_key::StartKey;
use crate::time_span::TimeSpan;

/// The arguments of a function, of any JSON type.
pub(crate) struct RunArguments {
    pub(crate) input: Value,
    pub(crate) params: Map<String, Value>,
}

impl RunArguments {
    /// Converts the arguments to variables of a machine.
    pub(crate) fn as_variables(&self) -> BTreeMap<String, Value> {
        let input = Some(("input", &self.input)).filter(|(_, input)| !input.is_null());
        let all = self.params.iter().map(|(name, value)| (name.as_str(), value)).chain(input);
        all.map(|(name, value)| (name.to_owned(), value.clone())).collect()
    }

    /// Converts the arguments to a remote workflow's arguments. An input object without parameters is used directly.
    /// Any other input that is not null or empty becomes the argument `input`, unless a parameter has this name.
    pub(crate) fn into_arguments(self) -> Map<String, Value> {
        match self.input {
            Value::Object(fields) if self.params.is_empty() => fields,
            Value::Null => self.params,
            Value::String(text) if text.is_empty() => self.params,
            input => {
                let mut params = self.params;
                params.entry("input").or_insert(input);
                params
            }
        }
    }

    /// Converts variables of a machine, where numbers and booleans are text. The variable `input` is also the input.
    fn from_variables(variables: BTreeMap<String, Value>) -> Self {
        let param = |(name, value)| match value {
            Value::Null => None,
            Value::Number(_) | Value::Bool(_) => Some((name, substitute::as_text(&value).into())),
            Value::String(_) | Value::Array(_) | Value::Object(_) => Some((name, value)),
        };
        let params: Map<String, Value> = variables.into_iter().filter_map(param).collect();
        Self { input: params.get("input").cloned().unwrap_or_default(), params }
    }
}

/// Location of the function to run.
pub(crate) enum FunctionLocation<'f> {
    /// In a file given by its path.
    File(&'f str),
    /// In the library.
    Library(&'f FunctionWorkflow),
}

impl Engine {
    /// Starts a run of a function, or finds the run that started under the same key. Returns once the start is in the
    /// journal.
    ///
    /// # Errors
    ///
    /// If the run does not start. The error is a reply with the reason.
    pub(crate) async fn begin_function(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        verb: &RunWorkflow,
        from: FunctionLocation<'_>,
        run_arguments: Option<RunArguments>,
        key: Option<StartKey>,
        engine: EngineKind,
    ) -> Result<Arc<Run>, Box<RunReply>> {
        let invalid = |error: String| not_started("definition_invalid", error);
        let unsupported = [
            ("session_id", verb.session_id.is_some()),
            ("max_states", verb.max_states.is_some()),
            ("workflow_definition", verb.workflow_definition.is_some()),
        ];
        if let Some((name, _)) = unsupported.iter().find(|(_, is_given)| *is_given) {
            return Err(invalid(format!("'{name}' does not apply to a workflow that is a function; remove it")));
        }
        let (name, text, declared, workflow, source) = match from {
            FunctionLocation::File(file) => {
                let path: PathBuf = caller.directory.join(file);
                let display_path = path.display().to_string();
                let text = read_definition_file(path.clone()).await;
                let text =
                    text.map_err(|error| invalid(format!("workflow file '{display_path}' cannot be read: {error}")))?;
                let name =
                    path.file_name().map_or_else(|| display_path.clone(), |name| Path::new(name).display().to_string());
                let declared = self.workers.load(&name, &text).await;
                let declared = declared.map_err(|error| invalid(format!("the workflow is not valid:\n{error}")))?;
                let workflow = choose_workflow(&declared, verb.workflow_name.as_deref())
                    .map_err(|error| invalid(format!("'{display_path}' {error}")))?;
                (name, text, declared, workflow, DefinitionSource::Function)
            }
            FunctionLocation::Library(found) => {
                let (text, declared) = (found.text().to_owned(), found.declared().to_owned());
                (found.file(), text, declared, found.id.clone(), DefinitionSource::of_function(found))
            }
        };
        let start_failure = |error: StartError| not_started("execution_error", error.to_string());
        let nodes = callable_nodes(self, caller, &declared).await.map_err(start_failure)?;
        let variables = || RunArguments::from_variables(verb.initial_variables.clone().unwrap_or_default());
        let RunArguments { input, params } = run_arguments.unwrap_or_else(variables);
        let started = Started {
            at: self.clock.now(),
            run: RunId::random(),
            workflow,
            is_call: false,
            file: name,
            text,
            input: if input.is_null() { "".into() } else { input },
            params,
            limits: Limits::default(),
            nodes,
            depth: 0,
            timeout: verb.execution_timeout.map(TimeSpan::from_seconds),
            one_heap: true,
        };
        self.clone().begin_started(caller.clone(), started, source, None, key, engine).await.map_err(start_failure)
    }

    /// Starts a run, or finds the run that started under the same key or id. Returns once the start is in the journal.
    ///
    /// # Errors
    ///
    /// If the run cannot start.
    pub(super) async fn begin_started(
        self: Arc<Self>,
        caller: Arc<Caller>,
        started: Started,
        source: DefinitionSource,
        parent: Option<StepId>,
        key: Option<StartKey>,
        engine: EngineKind,
    ) -> Result<Arc<Run>, StartError> {
        uncancelled(self.launch_function(caller, started, source, parent, key, engine)).await
    }

    async fn launch_function(
        self: Arc<Self>,
        caller: Arc<Caller>,
        started: Started,
        source: DefinitionSource,
        parent: Option<StepId>,
        key: Option<StartKey>,
        engine: EngineKind,
    ) -> Result<Arc<Run>, StartError> {
        if self.stopping.is_cancelled() {
            return Err(StartError::Stopping);
        }
        let declared = Arc::new(DeclaredNodes::read(&started.nodes, &self.executors, &started.run)?);
        let caller = self.pinned(caller, || References::of_functions(&started.text, &started.nodes)).await?;
        let mut header = RunHeader {
            workflow: started.workflow.clone(),
            started: started.at,
            input: started.input.clone(),
            params: started.params.clone(),
            parent,
            signature: (!started.is_call).then(|| Signature::of_text(&started.text)),
            pins: caller.pins.as_ref().and_then(|pins| pins.signature_with(&started.nodes)),
            hosts: caller.pins.as_ref().map(|pins| pins.describe_hosts()).unwrap_or_default(),
            request: StartKey::request(key.as_ref()),
            rerun: None,
            schedule: caller.schedule.clone(),
            source,
            engine,
        };
        header.mask(&self.secrets);
        let file = self.shared_file(&started);
        let frame = self.root_frame(&started, file.as_deref());
        let (environment, seal, run) = (Environment::Whole, Seal::default(), started.run.clone());
        let parts = LaunchParts { caller, run, header, environment, seal, key };
        self.launch(parts, |recorder| {
            let mut run = FunctionRun::new(recorder, &started, FunctionState::default(), declared, file, frame);
            let entry = Entry::Started(Box::new(started));
            run.function_state.apply(&entry);
            (run, vec![entry])
        })
        .await
    }

    /// Returns the file of a run; `None` for a call of a node. All runs of the same text share one file.
    pub(super) fn shared_file(&self, started: &Started) -> Option<Arc<OwnFile>> {
        if started.is_call {
            return None;
        }
        let mut files = self.files.lock();
        files.retain(|file| file.strong_count() > 0);
        let is_same = |file: &Arc<OwnFile>| file.name == started.file && *file.text == *started.text;
        let known = files.iter().filter_map(Weak::upgrade).find(is_same);
        Some(known.unwrap_or_else(|| {
            let file = Arc::new(OwnFile { name: started.file.clone(), text: started.text.as_str().into() });
            files.push(Arc::downgrade(&file));
            file
        }))
    }

    /// Creates the root frame of the run: a function, or a call of a node.
    pub(super) fn root_frame(&self, started: &Started, file: Option<&OwnFile>) -> Frame {
        let Started { workflow, input, params, limits, .. } = started;
        let (id, input, params) = (workflow.clone(), input.clone(), params.clone());
        match file {
            None => Frame::Once { node: id, input, timeout: started.timeout },
            Some(OwnFile { name, text }) => {
                let (file, text, limits) = (name.clone(), text.clone(), limits.clone());
                let start = Start { id, input, params, at: Some(started.at.as_seconds()) };
                let function = Function { file, text, start, limits };
                let execution = Box::new(self.workers.execution(function));
                Frame::Function { execution, node_call: None, deferred: Vec::new() }
            }
        }
    }

    /// Starts a run that calls one node of a project. The node makes calls itself.
    ///
    /// # Errors
    ///
    /// If the run cannot start.
    pub(crate) async fn begin_call(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        project: &Project,
        node: String,
        input: Value,
        timeout: Option<TimeSpan>,
        key: Option<StartKey>,
    ) -> Result<Arc<Run>, StartError> {
        let started = Started {
            at: self.clock.now(),
            run: RunId::random(),
            workflow: node,
            is_call: true,
            file: String::new(),
            text: String::new(),
            input,
            params: serde_json::Map::new(),
            limits: Limits::default(),
            nodes: callable(caller, project),
            depth: 0,
            timeout,
            one_heap: true,
        };
        let engine = EngineKind::Sqlite;
        self.clone().begin_started(caller.clone(), started, DefinitionSource::Function, None, key, engine).await
    }
}

impl Started {
    /// Returns the run's time limit. The limit of a call belongs to the call.
    pub(super) fn limit(&self) -> Option<TimeSpan> {
        self.timeout.filter(|_| !self.is_call)
    }
}

/// Returns the callable nodes for a function of a file: the declarations of the file, then the project's declarations.
///
/// # Errors
///
/// If reading the project fails, or it has changed since the root run began.
pub(super) async fn callable_nodes(
    shared: &Engine,
    caller: &Caller,
    declared: &[Declaration],
) -> Result<Vec<Value>, StartError> {
    let mut nodes: Vec<Value> = declared.iter().filter_map(|declared| python::document(declared, None)).collect();
    let project = shared.projects.find_project(caller).await?;
    caller.pins.as_ref().map_or(Ok(()), |pins| check_nodes(pins, &project))?;
    let is_own = |id: &Value| declared.iter().any(|declared| *id == *declared.id);
    nodes.extend(callable(caller, &project).into_iter().filter(|node| !is_own(&node["id"])));
    Ok(nodes)
}

/// Error about a file without the requested workflow, as the end of a sentence about the file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WorkflowChoiceError {
    /// The file declares no workflow.
    #[error("declares no workflow; add Workflow(id=…, session=session, fn=…)")]
    None,
    /// The file declares other workflows.
    #[error("declares no workflow '{name}'; there are: {}", .declared.join(", "))]
    Unknown {
        /// The requested name.
        name: String,
        /// The names of the declared workflows.
        declared: Vec<String>,
    },
    /// The file declares several workflows, and the request names none.
    #[error("declares several workflows; choose one with workflow_name: {}", .declared.join(", "))]
    Several {
        /// The names of the declared workflows.
        declared: Vec<String>,
    },
}

/// Returns the workflow with this name, or the only workflow if `name` is `None`.
///
/// # Errors
///
/// If the file does not declare the workflow, or `name` is `None` and the file does not declare exactly one workflow.
pub(crate) fn choose_workflow(declared: &[Declaration], name: Option<&str>) -> Result<String, WorkflowChoiceError> {
    let workflows: Vec<&str> = declared
        .iter()
        .filter(|declared| declared.kind == Kind::Workflow)
        .map(|declared| declared.id.as_str())
        .collect();
    let names = || workflows.iter().map(|name| (*name).to_owned()).collect();
    match (name, &workflows[..]) {
        (_, []) => Err(WorkflowChoiceError::None),
        (Some(name), all) if all.contains(&name) => Ok(name.to_owned()),
        (Some(name), _) => Err(WorkflowChoiceError::Unknown { name: name.to_owned(), declared: names() }),
        (None, [only]) => Ok((*only).to_owned()),
        (None, _) => Err(WorkflowChoiceError::Several { declared: names() }),
    }
}
