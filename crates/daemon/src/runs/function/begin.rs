//! How runs of functions begin: from a file or the library, or left behind by another daemon.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;
use steplatch_ids::RunId;
use steplatch_protocol::{RunReply, RunWorkflow};
use steplatch_python::{Declaration, Kind, Limits, Start};
use steplatch_store::{Append, AppendError, Appended, Journal as _, KnownRun};

use super::drive::{Driver, Work};
use super::entry::{Entry, Started};
use super::history::Folded;
use super::node::{Declared, documents};
use crate::caller::Caller;
use crate::moment;
use crate::nodes::FunctionWorkflow;
use crate::runs::drive::ENTRY_VERSION;
use crate::runs::origin::Origin;
use crate::runs::run::{About, Progress, Run, RunState};
use crate::runs::source::{Source, read};
use crate::runs::{Shared, not_started};
use crate::workers::Function;

/// A run that another daemon left, ready to go on.
pub(in crate::runs) struct Found(Driver);

impl Found {
    /// Goes on with it, to its end or until the daemon stops.
    pub(in crate::runs) async fn resume(self) {
        drive(self.0, true).await;
    }
}

/// Where a function is found that is to be run.
pub(in crate::runs) enum FunctionFrom<'f> {
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
    pub(in crate::runs) async fn begin_function(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        verb: &RunWorkflow,
        from: FunctionFrom<'_>,
        key: Option<String>,
    ) -> Result<Arc<Run>, Box<RunReply>> {
        let invalid = |error: String| not_started("definition_invalid", error);
        let meaningless = [
            ("session_id", verb.session_id.is_some()),
            ("max_states", verb.max_states.is_some()),
            ("execution_timeout", verb.execution_timeout.is_some()),
            ("workflow_definition", verb.workflow_definition.is_some()),
        ];
        if let Some((name, _)) = meaningless.iter().find(|(_, given)| *given) {
            return Err(invalid(format!("'{name}' means nothing to a workflow that is a function; leave it out")));
        }
        let (name, text, nodes, workflow, source) = match from {
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
                (name, text, documents(&declared), workflow, Source::Function)
            }
            FunctionFrom::Library(found) => {
                let loaded = &found.loaded;
                let (folder, hash) = (found.library.clone(), loaded.hash.clone());
                let source = Source::SavedFunction { folder, file: loaded.name.clone(), hash };
                (found.file(), found.text().to_owned(), documents(found.declared()), found.id.clone(), source)
            }
        };
        let params: BTreeMap<String, String> = verb.initial_variables.clone().unwrap_or_default();
        let params: serde_json::Map<String, Value> =
            params.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
        let started = Started {
            at: moment::now(),
            run: RunId::random(),
            workflow,
            file: name,
            text,
            input: params.get("input").cloned().unwrap_or_else(|| Value::String(String::new())),
            params,
            limits: Limits::default(),
            nodes,
        };
        let (shared, caller) = (self.clone(), caller.clone());
        // Whoever asked may go away at any moment, and a run that is written down must be driven.
        let beginning = tokio::spawn(async move { shared.begin_written(caller, started, source, key).await });
        let begun = beginning.await.unwrap_or_else(|error| Err(format!("the run could not be started: {error}")));
        begun.map_err(|error| not_started("execution_error", error))
    }

    async fn begin_written(
        self: Arc<Self>,
        caller: Arc<Caller>,
        started: Started,
        source: Source,
        key: Option<String>,
    ) -> Result<Arc<Run>, String> {
        if self.stopping.is_cancelled() {
            return Err("the daemon is stopping; ask again".to_owned());
        }
        let declared = Declared::read(&started.nodes, &caller)?;
        let about = About {
            workflow: started.workflow.clone(),
            started: started.at,
            input: started.params.clone(),
            parent: None,
            signature: None,
            source,
        };
        let (run, inputs, progress) = Run::driven(started.run.clone(), about.clone());
        let run = Arc::new(run);
        self.register(&run)?;
        let mut append = Append::new(run.id.clone(), 0, ENTRY_VERSION, Vec::new());
        let beginning = Progress { state: RunState::Running, ..Progress::default() };
        append.summary = Some(beginning.summary(&about));
        append.private = Some(Origin::whole(&caller).text());
        append.key = key;
        let execution = self.workers.execution(function(&started));
        let entry = Entry::Started(Box::new(started));
        append.texts = vec![entry.text()];
        let written = self.write_first(append).await;
        if !matches!(written, Ok(Appended::Written { .. })) {
            self.lock().remove(&run.id);
        }
        match written {
            Ok(Appended::Written { last }) => {
                let (folded, told, work) = (Folded::default(), Some(RunState::Running), Work::default());
                let (shared, id) = (self.clone(), run.id.clone());
                let driver = Driver {
                    shared,
                    run: id,
                    about,
                    inputs,
                    progress,
                    execution,
                    declared,
                    folded,
                    seq: last,
                    told,
                    work,
                };
                self.drivers.spawn(drive(driver, false));
                Ok(run)
            }
            Ok(Appended::Existing { run: existing }) => self.known(&existing).await,
            Err(AppendError::Conflict { run: existing, .. }) => self.known(&existing).await,
            Err(AppendError::Storage(error)) => {
                Err(format!("the run was not started, because it can not be written down: {error}"))
            }
        }
    }

    /// Makes a run of a function out of what the journal has of it.
    pub(in crate::runs) async fn found_function(self: &Arc<Self>, known: KnownRun) -> Result<Found, String> {
        let id = known.run.clone();
        let unreadable = |error: &dyn std::fmt::Display| format!("its history can not be read: {error}");
        let private = self.journal.private(&id).await.map_err(|error| unreadable(&error))?;
        let origin: Origin = serde_json::from_str(&private.unwrap_or_default())
            .map_err(|error| format!("what it needs to go on can not be read: {error}"))?;
        let (caller, _) = origin.into_parts();
        let records = self.journal.read(&id, 1).await.map_err(|error| unreadable(&error))?;
        let mut entries = Vec::with_capacity(records.len());
        for record in &records {
            entries.push(Entry::read(record).map_err(|error| unreadable(&error))?);
        }
        let mut folded = Folded::default();
        entries.iter().for_each(|entry| folded.apply(entry));
        let Some(Entry::Started(started)) = entries.into_iter().next() else {
            return Err("its history does not begin with its start".to_owned());
        };
        let declared = Declared::read(&started.nodes, &Arc::new(caller))?;
        let execution = self.workers.execution(function(&started));
        let about = Run::told(known).about;
        let (run, inputs, progress) = Run::driven(id.clone(), about.clone());
        self.lock().insert(id.clone(), Arc::new(run));
        let (shared, seq, told, work) = (self.clone(), records.len() as u64, None, Work::default());
        Ok(Found(Driver { shared, run: id, about, inputs, progress, execution, declared, folded, seq, told, work }))
    }
}

/// Drives a run as far as it goes, and has the library count it when it is over.
async fn drive(driver: Driver, again: bool) {
    let (shared, about, progress) = (driver.shared.clone(), driver.about.clone(), driver.progress.subscribe());
    driver.drive(again).await;
    let Progress { state, ended, .. } = progress.borrow().clone();
    if let (Source::SavedFunction { folder, file, hash }, Some(ended)) = (&about.source, ended) {
        let succeeded = state == RunState::Completed;
        let at = UNIX_EPOCH + Duration::from_micros(u64::try_from(ended.0).unwrap_or(0));
        shared.workflows.note_function(folder, file, &about.workflow, hash, succeeded, at).await;
    }
}

fn function(started: &Started) -> Function {
    Function {
        file: started.file.clone(),
        text: started.text.clone(),
        start: Start { id: started.workflow.clone(), input: started.input.clone(), params: started.params.clone() },
        limits: started.limits.clone(),
    }
}

/// Returns the workflow that is meant: the one of this name, or the only one.
fn workflow_of(declared: &[Declaration], name: Option<&str>) -> Result<String, String> {
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
