//! Starting and recovering runs of remote workflows.

use std::sync::Arc;

use serde_json::{Map, Value};
use steplatch_access::Caller;
use steplatch_ids::{RunId, StepId};
use steplatch_protocol::{EngineKind, ToolInfo};

use super::entry::{Entry, RemoteStart};
use super::run::RemoteRun;
use super::state::State;
use crate::definition_source::DefinitionSource;
use crate::engine::{LaunchParts, StartError, uncancelled};
use crate::engine_state::Engine;
use crate::origin::Environment;
use crate::run::{Run, RunHeader};
use crate::seal::Seal;
use crate::start_key::StartKey;
use crate::time_span::TimeSpan;

/// The data of a new run of a remote workflow.
pub(crate) struct RemoteLaunch {
    pub(crate) run: RunId,
    /// The called tool, with checked arguments.
    pub(crate) tool: ToolInfo,
    pub(crate) input: Map<String, Value>,
    /// Time limit, given by the caller.
    pub(crate) timeout: Option<TimeSpan>,
    /// Step of another run that starts this run.
    pub(crate) parent: Option<StepId>,
    /// Idempotency key. Only one run starts with this key.
    pub(crate) key: Option<StartKey>,
    /// Engine that shows the run. The service performs the work on every engine.
    pub(crate) engine: EngineKind,
}

impl Engine {
    /// Starts a run of a remote workflow, or finds the run that started under the same key or id. Returns once the
    /// start is in the journal.
    ///
    /// # Errors
    ///
    /// If the run cannot start.
    pub(crate) async fn begin_remote(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        launch: RemoteLaunch,
    ) -> Result<Arc<Run>, StartError> {
        let (shared, caller) = (self.clone(), caller.clone());
        uncancelled(async move { shared.launch_remote(caller, launch).await }).await
    }

    async fn launch_remote(self: Arc<Self>, caller: Arc<Caller>, launch: RemoteLaunch) -> Result<Arc<Run>, StartError> {
        if self.stopping.is_cancelled() {
            return Err(StartError::Stopping);
        }
        let RemoteLaunch { run, tool, input, timeout, parent, key, engine } = launch;
        let start = RemoteStart {
            at: self.clock.now(),
            run: run.clone(),
            tool: tool.name.clone(),
            service: tool.remote.unwrap_or_default(),
            workflow_id: tool.workflow_id,
            input,
            timeout,
        };
        let input = Value::Object(start.input.clone());
        let source = DefinitionSource::Remote { service: start.service.clone() };
        let (workflow, params) = (tool.name, Map::new());
        let request = StartKey::request(key.as_ref());
        let mut header = RunHeader {
            workflow,
            started: start.at,
            input,
            params,
            parent,
            signature: None,
            pins: None,
            hosts: Vec::new(),
            request,
            rerun: None,
            schedule: caller.schedule.clone(),
            source,
            engine,
        };
        header.mask(&self.secrets);
        let (seal, environment) = (Seal::default(), Environment::Empty);
        let parts = LaunchParts { caller, run, header, environment, seal, key };
        self.launch(parts, |recorder| {
            let mut run = RemoteRun::new(recorder, start.clone(), State::default());
            let entry = Entry::Began(Box::new(start));
            run.state.apply(&entry);
            (run, vec![entry])
        })
        .await
    }
}
