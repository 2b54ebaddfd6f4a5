//! How runs begin: asked for, started by another run, or left behind by another daemon.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use steplatch_access::{Caller, OpeningKey};
use steplatch_clock as clock;
use steplatch_ids::{RunId, StepId};
use steplatch_library::Signature;
use steplatch_sessions::TerminalTools;
use steplatch_store::{Append, AppendError, Appended, Journal, KnownRun, RunFilter};
use steplatch_workflow::{Definition, History, Input, Start};
use tokio::sync::mpsc;

use super::child;
use super::drive::{Driver, Found, Parts};
use super::function::{FoundFunction, Given};
use super::origin::Origin;
use super::pins::References;
use super::remote::FoundRemote;
use super::run::{About, Run};
use super::source::Source;
use super::start_key::StartKey;
use crate::seal::Seal;
use crate::shared::Shared;

/// Runs that may be under way at once: each takes memory for as long as it lasts.
const MOST: usize = 10_000;

/// What a new run is made of.
pub(crate) struct Beginning {
    pub(super) definition: Definition,
    pub(super) source: Source,
    pub(super) start: Start,
    /// A name under which only one run begins.
    pub(super) key: Option<StartKey>,
}

impl Shared {
    /// Begins a run, which goes on by itself from here, or finds the one that began under the same key or id.
    /// Returns once it is written down.
    ///
    /// # Errors
    /// In whole sentences, when it can not begin.
    pub(super) async fn begin(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        beginning: Beginning,
    ) -> Result<Arc<Run>, String> {
        self.begin_with(caller, beginning, None).await
    }

    /// Begins a run as [`Self::begin`]. `given` is what its variables were made of, where that was no map of texts.
    ///
    /// # Errors
    /// In whole sentences, when it can not begin.
    pub(super) async fn begin_with(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        beginning: Beginning,
        given: Option<Given>,
    ) -> Result<Arc<Run>, String> {
        let (shared, caller) = (self.clone(), caller.clone());
        // Spawned so that a dropped connection can not cancel it: once the start is in the journal, the run needs a driver.
        let beginning = tokio::spawn(async move { shared.begin_to_the_end(caller, beginning, given).await });
        beginning.await.unwrap_or_else(|error| Err(format!("the run could not be started: {error}")))
    }

    async fn begin_to_the_end(
        self: Arc<Self>,
        caller: Arc<Caller>,
        beginning: Beginning,
        given: Option<Given>,
    ) -> Result<Arc<Run>, String> {
        let Beginning { definition, source, start, key } = beginning;
        if self.stopping.is_cancelled() {
            return Err("the daemon is stopping; ask again".to_owned());
        }
        let caller = self.pinned(caller, || References::of_machine(definition.document())).await?;
        let id = start.run.clone();
        let variables = || Given { input: Value::Object(start.variables.clone()), params: Map::new() };
        let Given { mut input, mut params } = given.unwrap_or_else(variables);
        let named = Seal::default().of(&definition);
        named.hide_named(&mut params);
        if let Value::Object(fields) = &mut input {
            named.hide_named(fields);
        }
        let about = About {
            workflow: definition.name().map_or_else(|| "unnamed".to_owned(), ToString::to_string),
            started: clock::now(),
            input,
            params,
            parent: start.parent.clone(),
            signature: Some(Signature::of(definition.document())),
            pins: caller.pins.as_ref().and_then(|pins| pins.signature()),
            request: StartKey::request(key.as_ref()),
            source,
        };
        let (run, received, progress) = Run::driven(id.clone(), about.clone());
        let run = Arc::new(run);
        if let Some(run) = self.register(&run)? {
            return Ok(run);
        }
        let parts = Parts { caller, definition, run: id.clone(), about, inputs: run.inputs(), progress };
        let mut driver = Driver::new(self.clone(), parts);
        match driver.begin(start, key.map(StartKey::into_text)).await {
            Ok((Appended::Written { .. }, effects)) => {
                self.drivers.spawn(driver.drive(effects, received));
                Ok(run)
            }
            Ok((Appended::Existing { run: existing }, _)) => {
                self.lock().remove(&id);
                self.known(&existing).await
            }
            // The id is that of the step that starts it, so it is the same run.
            Err(AppendError::Conflict { run: existing, .. }) => {
                self.lock().remove(&id);
                self.known(&existing).await
            }
            Err(AppendError::Storage(error)) => {
                self.lock().remove(&id);
                Err(format!("the run was not started, because it can not be written down: {error}"))
            }
        }
    }

    /// Writes the beginning of a registered run down. Returns the number of its last entry, or the run that began before under
    /// the same key or id.
    ///
    /// # Errors
    /// In a whole sentence, when it can not be written.
    pub(super) async fn begun(&self, run: &Run, append: Append) -> Result<Result<u64, Arc<Run>>, String> {
        let written = self.write_first(append).await;
        if !matches!(written, Ok(Appended::Written { .. })) {
            self.lock().remove(&run.id);
        }
        match written {
            Ok(Appended::Written { last }) => Ok(Ok(last)),
            Ok(Appended::Existing { run: existing }) => self.known(&existing).await.map(Err),
            // The id is that of the step that starts it, so it is the same run.
            Err(AppendError::Conflict { run: existing, .. }) => self.known(&existing).await.map(Err),
            Err(AppendError::Storage(error)) => {
                Err(format!("the run was not started, because it can not be written down: {error}"))
            }
        }
    }

    /// Notes that a run is under way. Returns the one that is already, under the same id.
    ///
    /// # Errors
    /// When there are too many.
    pub(super) fn register(&self, run: &Arc<Run>) -> Result<Option<Arc<Run>>, String> {
        let mut driven = self.lock();
        if let Some(run) = driven.get(&run.id) {
            return Ok(Some(run.clone()));
        }
        if driven.len() >= MOST {
            return Err(format!("{MOST} runs are under way, which is the limit; cancel one with cancel_run"));
        }
        driven.insert(run.id.clone(), run.clone());
        Ok(None)
    }

    pub(super) async fn known(&self, id: &RunId) -> Result<Arc<Run>, String> {
        match self.find(id).await {
            Ok(Some(run)) => Ok(run),
            Ok(None) => Err(format!("run {id} was forgotten just now; ask again")),
            Err(error) => Err(format!("what is known of run {id} can not be read: {error}")),
        }
    }

    /// Goes on with everything that another daemon left.
    pub(super) async fn recover(self: &Arc<Self>) {
        let unfinished = RunFilter { finished: Some(false), ..RunFilter::default() };
        let left = match self.journal.runs(unfinished).await {
            Ok(left) => left,
            Err(error) => {
                tracing::error!(%error, "what the last daemon left can not be read");
                return;
            }
        };
        // The oldest first, as they began.
        let left: Vec<KnownRun> = left.into_iter().rev().collect();
        let cleared = self.approver.cleared_key().await;
        if cleared.is_none()
            && let Err(error) = self.lock_sealed(&left).await
        {
            tracing::error!(%error, "what the last daemon left can not be read");
            return;
        }
        let locked = self.locked.ids();
        let left = left.into_iter().filter(|known| !locked.contains(&known.run)).collect();
        self.take_up(left, cleared.as_ref(), &locked).await;
    }

    /// Goes on with runs that another daemon left, which are in the order in which they began. `key` opens those that are sealed.
    /// A run below one that is `locked` is waited for.
    pub(super) async fn take_up(
        self: &Arc<Self>,
        left: Vec<KnownRun>,
        key: Option<&OpeningKey>,
        locked: &HashSet<RunId>,
    ) {
        // The youngest tell first what they wait for: what a run above tells depends on it.
        let (mut drivers, mut functions, mut remotes, mut order) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut callers = HashMap::new();
        for known in left {
            let run = known.run.clone();
            let told = Run::told(known.clone());
            let found = if told.is_remote() {
                self.found_remote(known).await.map(|found| remotes.push(found))
            } else if told.is_function() {
                self.found_function(known, key, &mut callers).await.map(|found| {
                    order.push((true, functions.len()));
                    functions.push(found);
                })
            } else {
                self.found(known, key).await.map(|found| {
                    order.push((false, drivers.len()));
                    drivers.push(found);
                })
            };
            match found {
                Ok(()) => {}
                Err(reason) => {
                    tracing::error!(%run, reason, "a run can not go on");
                    self.broken().insert(run, reason);
                }
            }
        }
        for (is_function, at) in order.into_iter().rev() {
            if is_function { functions[at].publish() } else { drivers[at].1.publish_found() }
        }
        // All of them are known before the first goes on: one may wait for another.
        let found = drivers.iter().map(|(run, ..)| &run.id).chain(functions.iter().map(FoundFunction::id));
        let found = found.chain(remotes.iter().map(FoundRemote::id));
        let is_orphan = |run: &Arc<Run>| {
            let parent = run.about.parent.as_ref();
            parent.is_some_and(|step| {
                !is_awaited(step, &drivers)
                    && !functions.iter().any(|function| function.awaits(step))
                    && !locked.contains(&step.run)
            })
        };
        let orphans: Vec<Arc<Run>> = found.filter_map(|id| self.driven(id)).filter(is_orphan).collect();
        let runs = drivers.len() + functions.len() + remotes.len();
        if runs > 0 {
            tracing::info!(runs, "runs of the last daemon go on");
        }
        for (_, driver, received) in drivers {
            self.drivers.spawn(driver.resume(received));
        }
        for found in functions {
            self.drivers.spawn(found.resume());
        }
        for found in remotes {
            self.drivers.spawn(found.resume());
        }
        for run in orphans {
            run.cancel(child::LEFT_ALONE);
        }
    }

    /// Makes a run out of what the journal has of it.
    async fn found(self: &Arc<Self>, known: KnownRun, key: Option<&OpeningKey>) -> Result<Left, String> {
        let id = known.run.clone();
        let unreadable = |error: &dyn std::fmt::Display| format!("its history can not be read: {error}");
        let (text, private) = self.private_part(&id, key).await?;
        let origin: Origin =
            serde_json::from_str(&text).map_err(|error| format!("what it needs to go on can not be read: {error}"))?;
        let (caller, seal) = origin.into_parts();
        for secret in seal.secrets() {
            self.secrets.add(secret);
        }
        let events = self.events_of(&id, 1, &seal).await.map_err(|error| unreadable(&error))?;
        let history = History::from_iter(&events);
        let document = history.definition().ok_or_else(|| "its history does not begin with its start".to_owned())?;
        let definition = Definition::parse(document, &TerminalTools)
            .map_err(|problems| format!("its definition is not valid for this version:\n{problems}"))?;
        let (run, received, progress) = self.driverless(&known);
        let (inputs, about) = (run.inputs(), run.about.clone());
        let parts = Parts { caller: Arc::new(caller), definition, run: id.clone(), about, inputs, progress };
        let found = Found { seq: events.len() as u64, history, seal, private };
        self.lock().insert(id, run.clone());
        Ok((run, Driver::at(self.clone(), parts, found), received))
    }
}

/// A run that another daemon left, ready to go on.
type Left = (Arc<Run>, Driver, mpsc::UnboundedReceiver<Box<Input>>);

/// Whether a step of one of these runs is under way.
fn is_awaited(step: &StepId, runs: &[Left]) -> bool {
    let awaits = |driver: &Driver| driver.history().current().is_some_and(|current| current.step == *step);
    runs.iter().any(|(run, driver, _)| run.id == step.run && awaits(driver))
}
