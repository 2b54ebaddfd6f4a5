//! How runs of functions begin: from a file or the library, or left behind by another daemon.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, Weak};

use serde_json::{Map, Value};
use steplatch_access::{Caller, OpeningKey};
use steplatch_clock as clock;
use steplatch_ids::{RunId, StepId};
use steplatch_library::Signature;
use steplatch_project::{Function, FunctionWorkflow, Project, python};
use steplatch_protocol::{RunReply, RunWorkflow};
use steplatch_python_api::{Declaration, Kind, Limits, Start};
use steplatch_store::{Append, Journal as _, KnownRun};
use steplatch_workflow::substitute;

use super::cancel::Ending;
use super::drive::{Driver, OwnFile};
use super::entry::{Entry, Started};
use super::frame::Frame;
use super::history::{Folded, ROOT, child_step};
use super::node::Declared;
use super::work::Work;
use crate::drive::ENTRY_VERSION;
use crate::locked::PrivateForm;
use crate::origin::Origin;
use crate::pins::{References, callable, check_nodes};
use crate::run::{About, Progress, Run, RunState};
use crate::runs::not_started;
use crate::seal::{LiveSeal, Seal};
use crate::shared::Shared;
use crate::source::{Source, read};
use crate::start_key::StartKey;

/// A run that another daemon left, ready to go on.
pub(crate) struct FoundFunction(Driver);

impl FoundFunction {
    pub(crate) fn id(&self) -> &RunId {
        &self.0.run
    }

    /// Whether it waits for the run that this step starts.
    pub(crate) fn awaits(&self, step: &StepId) -> bool {
        let Driver { run, folded, .. } = &self.0;
        folded.open.iter().any(|(number, _)| child_step(run, number) == *step)
    }

    /// Publishes how far it is.
    pub(crate) fn publish(&self) {
        if self.0.folded.end.is_none() {
            self.0.publish();
        }
    }

    /// Goes on with it, to its end or until the daemon stops.
    pub(crate) async fn resume(self) {
        self.0.drive(true).await;
    }
}

/// What a function is given, of any kind that JSON has.
pub(crate) struct Given {
    pub(crate) input: Value,
    pub(crate) params: Map<String, Value>,
}

impl Given {
    /// What a machine is given of it, as text.
    pub(crate) fn as_variables(&self) -> BTreeMap<String, String> {
        let input = Some(("input", &self.input)).filter(|(_, input)| !input.is_null());
        let all = self.params.iter().map(|(name, value)| (name.as_str(), value)).chain(input);
        all.map(|(name, value)| (name.to_owned(), substitute::as_text(value))).collect()
    }

    /// What a remote workflow is given of it: the parameters, or the input where that is an object and there are none.
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

    /// What is text only: variables, of which one may be the input.
    fn of_variables(variables: BTreeMap<String, String>) -> Self {
        let params: Map<String, Value> = variables.into_iter().map(|(name, value)| (name, value.into())).collect();
        Self { input: params.get("input").cloned().unwrap_or_default(), params }
    }
}

/// Where a function is found that is to be run.
pub(crate) enum FunctionFrom<'f> {
    /// In a file that somebody names.
    File(&'f str),
    /// In the library.
    Library(&'f FunctionWorkflow),
}

impl Shared {
    /// Begins a run of a function, or finds the one that began under the same key. Returns once it is
    /// written down.
    ///
    /// # Errors
    /// With the reply that says why nothing was started.
    pub(crate) async fn begin_function(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        verb: &RunWorkflow,
        from: FunctionFrom<'_>,
        given: Option<Given>,
        key: Option<StartKey>,
    ) -> Result<Arc<Run>, Box<RunReply>> {
        let invalid = |error: String| not_started("definition_invalid", error);
        let meaningless = [
            ("session_id", verb.session_id.is_some()),
            ("max_states", verb.max_states.is_some()),
            ("workflow_definition", verb.workflow_definition.is_some()),
        ];
        if let Some((name, _)) = meaningless.iter().find(|(_, given)| *given) {
            return Err(invalid(format!("'{name}' means nothing to a workflow that is a function; leave it out")));
        }
        let (name, text, declared, workflow, source) = match from {
            FunctionFrom::File(file) => {
                let path: PathBuf = caller.folder.join(file);
                let shown = path.display().to_string();
                let text = read(path.clone()).await;
                let text =
                    text.map_err(|error| invalid(format!("workflow file '{shown}' can not be read: {error}")))?;
                let name = path.file_name().map_or_else(|| shown.clone(), |name| Path::new(name).display().to_string());
                let declared = self.workers.load(&name, &text).await;
                let declared = declared.map_err(|error| invalid(format!("the workflow is not valid:\n{error}")))?;
                let workflow = workflow_of(&declared, verb.workflow_name.as_deref())
                    .map_err(|error| invalid(format!("'{shown}' {error}")))?;
                (name, text, declared, workflow, Source::Function)
            }
            FunctionFrom::Library(found) => {
                let (text, declared) = (found.text().to_owned(), found.declared().to_owned());
                (found.file(), text, declared, found.id.clone(), Source::of_function(found))
            }
        };
        let nodes = nodes_of(self, caller, &declared).await.map_err(|error| not_started("execution_error", error))?;
        let variables = || Given::of_variables(verb.initial_variables.clone().unwrap_or_default());
        let Given { input, params } = given.unwrap_or_else(variables);
        let started = Started {
            at: clock::now(),
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
            timeout: verb.execution_timeout,
            one_heap: true,
        };
        let begun = self.clone().begin_written(caller.clone(), started, source, None, key).await;
        begun.map_err(|error| not_started("execution_error", error))
    }

    /// Begins a run, or finds the one that began under the same key or id. Returns once it is written down.
    ///
    /// # Errors
    /// In whole sentences, when it can not begin.
    pub(super) async fn begin_written(
        self: Arc<Self>,
        caller: Arc<Caller>,
        started: Started,
        source: Source,
        parent: Option<StepId>,
        key: Option<StartKey>,
    ) -> Result<Arc<Run>, String> {
        // Whoever asked may go away at any moment, and a run that is written down must be driven.
        let beginning = tokio::spawn(self.begin_to_its_end(caller, started, source, parent, key));
        beginning.await.unwrap_or_else(|error| Err(format!("the run could not be started: {error}")))
    }

    async fn begin_to_its_end(
        self: Arc<Self>,
        caller: Arc<Caller>,
        started: Started,
        source: Source,
        parent: Option<StepId>,
        key: Option<StartKey>,
    ) -> Result<Arc<Run>, String> {
        if self.stopping.is_cancelled() {
            return Err("the daemon is stopping; ask again".to_owned());
        }
        let declared = Arc::new(Declared::read(&started.nodes, &self.hands, &started.run)?);
        let caller = self.pinned(caller, || References::of_functions(&started.text, &started.nodes)).await?;
        let mut about = About {
            workflow: started.workflow.clone(),
            started: started.at,
            input: started.input.clone(),
            params: started.params.clone(),
            parent,
            signature: (!started.is_call).then(|| Signature::of_text(&started.text)),
            pins: caller.pins.as_ref().and_then(|pins| pins.signature_with(&started.nodes)),
            request: StartKey::request(key.as_ref()),
            source,
        };
        about.mask(&self.secrets);
        let (run, inputs, progress) = Run::driven(started.run.clone(), about.clone());
        let run = Arc::new(run);
        if let Some(known) = self.register(&run)? {
            return Ok(known);
        }
        let mut append = Append::new(run.id.clone(), 0, ENTRY_VERSION, Vec::new());
        let beginning = Progress { state: RunState::Running, ..Progress::default() };
        append.summary = Some(beginning.summary(&about));
        append.key = key.map(StartKey::into_text);
        let (file, depth) = (self.file_of(&started), started.depth);
        let (frame, timeout) = (self.frame_of(&started, file.as_deref()), started.limit());
        let entry = Entry::Started(Box::new(started));
        let mut folded = Folded::default();
        folded.apply(&entry);
        let mut seal = LiveSeal::default();
        append.texts = seal.close(&self, &run.id, 0, &[entry], &BTreeSet::new()).await.texts;
        append.private = Some(Origin::whole(&caller, seal.seal()).text());
        match self.begun(&run, append).await? {
            Ok(last) => {
                let driver = Driver {
                    shared: self.clone(),
                    caller,
                    run: run.id.clone(),
                    cancelling: run.cancelling.clone(),
                    taken: run.taken.clone(),
                    learned: self.secrets.learned(),
                    key_changes: self.locked.key_changes(),
                    about,
                    seal,
                    private: PrivateForm::default(),
                    inputs,
                    progress,
                    declared,
                    frames: HashMap::from([(ROOT, frame)]),
                    folded,
                    seq: last,
                    told: Some(RunState::Running),
                    work: Work::default(),
                    below: HashMap::new(),
                    to_begin: Vec::new(),
                    depth,
                    timeout,
                    file,
                    counted: false,
                    ending: Ending::default(),
                };
                self.drivers.spawn(driver.drive(false));
                Ok(run)
            }
            Err(known) => Ok(known),
        }
    }

    /// Makes a run of a function out of what the journal has of it. `callers` are those who are known already, by what
    /// the journal has of them: many runs were begun by few.
    pub(crate) async fn found_function(
        self: &Arc<Self>,
        known: KnownRun,
        key: Option<&OpeningKey>,
        callers: &mut HashMap<String, (Arc<Caller>, Seal)>,
    ) -> Result<FoundFunction, String> {
        let id = known.run.clone();
        let unreadable = |error: &dyn std::fmt::Display| format!("its history can not be read: {error}");
        let (text, private) = self.private_part(&id, key).await?;
        let (caller, seal) = match callers.get(&text) {
            Some(known) => known.clone(),
            None => {
                let origin: Origin = serde_json::from_str(&text)
                    .map_err(|error| format!("what it needs to go on can not be read: {error}"))?;
                let (caller, seal) = origin.into_parts();
                callers.entry(text).or_insert((Arc::new(caller), seal)).clone()
            }
        };
        let records = self.journal.read(&id, 1).await.map_err(|error| unreadable(&error))?;
        let mut entries = Vec::with_capacity(records.len());
        for record in &records {
            entries.push(Entry::read(record, &seal).map_err(|error| unreadable(&error))?);
        }
        let mut folded = Folded::default();
        entries.iter().for_each(|entry| folded.apply(entry));
        let Some(Entry::Started(started)) = entries.into_iter().next() else {
            return Err("its history does not begin with its start".to_owned());
        };
        let declared = Declared::read(&started.nodes, &self.hands, &id)?;
        declared.adopt(std::mem::take(&mut folded.terminals));
        let file = self.file_of(&started);
        let frame = self.frame_of(&started, file.as_deref());
        let (run, inputs, progress) = self.driverless(&known);
        let about = run.about.clone();
        // Looked up before any run goes on: a run that was over may have been counted, and others are counted after it.
        let counted = match (&about.source, &folded.end) {
            (Source::SavedFunction { folder, file, .. }, Some(_)) => {
                self.workflows.has_counted(folder, file, &about.workflow, &id).await
            }
            _ => false,
        };
        let (cancelling, taken) = (run.cancelling.clone(), run.taken.clone());
        self.lock().insert(id.clone(), run);
        Ok(FoundFunction(Driver {
            shared: self.clone(),
            caller,
            run: id,
            cancelling,
            taken,
            learned: self.secrets.learned(),
            key_changes: self.locked.key_changes(),
            about,
            seal: LiveSeal::found(seal, &self.secrets),
            private,
            inputs,
            progress,
            declared: Arc::new(declared),
            frames: HashMap::from([(ROOT, frame)]),
            folded,
            seq: records.len() as u64,
            told: None,
            work: Work::default(),
            below: HashMap::new(),
            to_begin: Vec::new(),
            depth: started.depth,
            timeout: started.limit(),
            file,
            counted,
            ending: Ending::default(),
        }))
    }

    /// Returns the file of a run, which all runs of the same text share; none where it is a call of a node.
    fn file_of(&self, started: &Started) -> Option<Arc<OwnFile>> {
        if started.is_call {
            return None;
        }
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|file| file.strong_count() > 0);
        let is_same = |file: &Arc<OwnFile>| file.name == started.file && *file.text == *started.text;
        let known = files.iter().filter_map(Weak::upgrade).find(is_same);
        Some(known.unwrap_or_else(|| {
            let file = Arc::new(OwnFile { name: started.file.clone(), text: started.text.as_str().into() });
            files.push(Arc::downgrade(&file));
            file
        }))
    }

    /// Returns what the run itself is: a function, or a call of a node.
    fn frame_of(&self, started: &Started, file: Option<&OwnFile>) -> Frame {
        let Started { workflow, input, params, limits, .. } = started;
        let (id, input, params) = (workflow.clone(), input.clone(), params.clone());
        match file {
            None => Frame::Once { node: id, input, timeout: started.timeout },
            Some(OwnFile { name, text }) => {
                let (file, text, limits) = (name.clone(), text.clone(), limits.clone());
                let start = Start { id, input, params, at: Some(started.at.as_seconds()) };
                let function = Function { file, text, start, limits };
                let execution = Box::new(self.workers.execution(function));
                Frame::Function { execution, of: None, held: Vec::new() }
            }
        }
    }

    /// Begins a run that is a call of one node of a project, which makes calls itself.
    ///
    /// # Errors
    /// In whole sentences, when it can not begin.
    pub(crate) async fn begin_call(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        project: &Project,
        node: String,
        input: Value,
        timeout: Option<f64>,
        key: Option<StartKey>,
    ) -> Result<Arc<Run>, String> {
        let started = Started {
            at: clock::now(),
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
        self.clone().begin_written(caller.clone(), started, Source::Function, None, key).await
    }
}

impl Started {
    /// Returns the seconds that the run may be at work; those of a call are for the call.
    fn limit(&self) -> Option<f64> {
        self.timeout.filter(|_| !self.is_call)
    }
}

/// Returns what a function of a file can call: what the file declares, then what the project does.
///
/// # Errors
/// In a whole sentence, when the project can not be read.
pub(super) async fn nodes_of(shared: &Shared, caller: &Caller, declared: &[Declaration]) -> Result<Vec<Value>, String> {
    let mut nodes: Vec<Value> = declared.iter().filter_map(|declared| python::document(declared, None)).collect();
    let project = shared.projects.of(caller).await?;
    caller.pins.as_ref().map_or(Ok(()), |pins| check_nodes(pins, &project))?;
    let is_own = |id: &Value| declared.iter().any(|declared| *id == *declared.id);
    nodes.extend(callable(caller, &project).into_iter().filter(|node| !is_own(&node["id"])));
    Ok(nodes)
}

/// Returns the workflow that is meant: the one of this name, or the only one.
pub(super) fn workflow_of(declared: &[Declaration], name: Option<&str>) -> Result<String, String> {
    let workflows: Vec<&str> = declared
        .iter()
        .filter(|declared| declared.kind == Kind::Workflow)
        .map(|declared| declared.id.as_str())
        .collect();
    match (name, &workflows[..]) {
        (_, []) => Err("declares no workflow; add Workflow(id=…, session=session, fn=…)".to_owned()),
        (Some(name), all) if all.contains(&name) => Ok(name.to_owned()),
        (Some(name), all) => Err(format!("declares no workflow '{name}'; there are: {}", all.join(", "))),
        (None, [only]) => Ok((*only).to_owned()),
        (None, all) => Err(format!("declares several workflows; say which with workflow_name: {}", all.join(", "))),
    }
}
