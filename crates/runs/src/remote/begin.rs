//! How runs of remote workflows begin, or are found again by another daemon.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};
use steplatch_access::Caller;
use steplatch_clock as clock;
use steplatch_ids::{RunId, StepId};
use steplatch_protocol::ToolInfo;
use steplatch_store::{Append, Journal as _, KnownRun};

use super::drive::{Driver, Sealing};
use super::entry::{Began, Entry};
use super::state::State;
use crate::drive::ENTRY_VERSION;
use crate::origin::Origin;
use crate::run::{About, Progress, Run, RunState};
use crate::seal::LiveSeal;
use crate::shared::Shared;
use crate::source::Source;
use crate::start_key::StartKey;

/// What a run of a remote workflow begins with.
pub(crate) struct BeginsRemote {
    pub(crate) run: RunId,
    /// The tool that was called; its arguments are checked.
    pub(crate) tool: ToolInfo,
    pub(crate) input: Map<String, Value>,
    /// Seconds that whoever starts it gives it.
    pub(crate) timeout: Option<f64>,
    /// The step of another run that starts it.
    pub(crate) parent: Option<StepId>,
    /// A name under which only one run begins.
    pub(crate) key: Option<StartKey>,
}

/// A run that another daemon left, ready to go on.
pub(crate) struct FoundRemote(Driver);

impl FoundRemote {
    pub(crate) fn id(&self) -> &RunId {
        &self.0.began.run
    }

    /// Goes on with it, to its end or until the daemon stops.
    pub(crate) async fn resume(self) {
        self.0.drive().await;
    }
}

impl Shared {
    /// Begins a run of a remote workflow, or finds the one that began under the same key or id. Returns once it is
    /// written down.
    ///
    /// # Errors
    /// In whole sentences, when it can not begin.
    pub(crate) async fn begin_remote(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        begins: BeginsRemote,
    ) -> Result<Arc<Run>, String> {
        let (shared, caller) = (self.clone(), caller.clone());
        // Whoever asked may go away at any moment, and a run that is written down must be driven.
        let beginning = tokio::spawn(async move { shared.begin_remote_to_its_end(&caller, begins).await });
        beginning.await.unwrap_or_else(|error| Err(format!("the run could not be started: {error}")))
    }

    async fn begin_remote_to_its_end(
        self: Arc<Self>,
        caller: &Caller,
        begins: BeginsRemote,
    ) -> Result<Arc<Run>, String> {
        if self.stopping.is_cancelled() {
            return Err("the daemon is stopping; ask again".to_owned());
        }
        let BeginsRemote { run, tool, input, timeout, parent, key } = begins;
        let began = Began {
            at: clock::now(),
            run: run.clone(),
            tool: tool.name.clone(),
            service: tool.remote.unwrap_or_default(),
            workflow_id: tool.workflow_id,
            input,
            timeout,
        };
        let input = Value::Object(began.input.clone());
        let source = Source::Remote { service: began.service.clone() };
        let (workflow, params) = (tool.name, Map::new());
        let request = StartKey::request(key.as_ref());
        let mut about =
            About { workflow, started: began.at, input, params, parent, signature: None, pins: None, request, source };
        about.mask(&self.secrets);
        let (run, inputs, progress) = Run::driven(run, about.clone());
        let run = Arc::new(run);
        if let Some(known) = self.register(&run)? {
            return Ok(known);
        }
        let mut append = Append::new(run.id.clone(), 0, ENTRY_VERSION, Vec::new());
        let beginning = Progress { state: RunState::Running, ..Progress::default() };
        append.summary = Some(beginning.summary(&about));
        append.key = key.map(StartKey::into_text);
        let (entry, mut seal, origin) =
            (Entry::Began(Box::new(began.clone())), LiveSeal::default(), Origin::bare(caller));
        append.texts = seal.close(&self, &run.id, 0, &[entry], &BTreeSet::new()).await.texts;
        append.private = Some(origin.sealed_by(seal.seal()).text());
        let sealing = Sealing { seal, origin };
        match self.begun(&run, append).await? {
            Ok(last) => {
                tracing::info!(
                    run = %began.run,
                    workflow = began.tool,
                    service = began.service,
                    workflow_id = began.workflow_id,
                    "a run of a remote workflow started"
                );
                let driver =
                    Driver::new(self.clone(), began, about, inputs, progress, (State::default(), last), sealing);
                self.drivers.spawn(driver.drive());
                Ok(run)
            }
            Err(known) => Ok(known),
        }
    }

    /// Makes a run of a remote workflow out of what the journal has of it.
    pub(crate) async fn found_remote(self: &Arc<Self>, known: KnownRun) -> Result<FoundRemote, String> {
        let id = known.run.clone();
        let unreadable = |error: &dyn std::fmt::Display| format!("its history can not be read: {error}");
        let private = self.journal.private(&id).await.map_err(|error| unreadable(&error))?.unwrap_or_default();
        // A run goes on without an origin that can not be read.
        let origin: Origin = serde_json::from_str(&private).unwrap_or_default();
        let seal = origin.clone().into_parts().1;
        let records = self.journal.read(&id, 1).await.map_err(|error| unreadable(&error))?;
        let mut state = State::default();
        let mut began = None;
        for record in &records {
            let entry = Entry::read(record, &seal).map_err(|error| unreadable(&error))?;
            state.apply(&entry);
            if let Entry::Began(first) = entry {
                began = Some(*first);
            }
        }
        let began = began.ok_or_else(|| "its history does not begin with its start".to_owned())?;
        let about = Run::told(known).about;
        let (run, inputs, progress) = Run::driven(id.clone(), about.clone());
        self.lock().insert(id, Arc::new(run));
        let last = records.len() as u64;
        let sealing = Sealing { seal: LiveSeal::found(seal, &self.secrets), origin };
        Ok(FoundRemote(Driver::new(self.clone(), began, about, inputs, progress, (state, last), sealing)))
    }
}
