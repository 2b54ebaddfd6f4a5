//! The client of a daemon: starts the runs of a schedule, and answers their gates.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use steplatch_protocol::{Client, Decide, Hello, ListWorkflowRuns, PROTOCOL_VERSION, RunWorkflow};

use crate::stage::Stage;

/// Pause before a request is repeated.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// The runs of a schedule.
#[derive(Debug, Default)]
pub(crate) struct Plan(Mutex<BTreeMap<u64, PlannedRun>>);

/// Workflow of a planned run.
#[derive(Debug, Clone)]
pub(crate) enum PlannedWorkflow {
    /// A machine, by its definition.
    Machine(Value),
    /// The function `flow` of a file with this text.
    Function(String),
}

#[derive(Debug, Clone)]
struct PlannedRun {
    starts_at: Duration,
    workflow: PlannedWorkflow,
    /// The time limit of the run, in seconds.
    timeout_seconds: Option<f64>,
    is_begun: bool,
}

impl Plan {
    pub(crate) fn add(
        &self,
        number: u64,
        starts_at: Duration,
        workflow: PlannedWorkflow,
        timeout_seconds: Option<f64>,
    ) {
        self.0.lock().insert(number, PlannedRun { starts_at, workflow, timeout_seconds, is_begun: false });
    }

    /// Replaces text in all definitions.
    pub(crate) fn replace(&self, text: &str, with: &str) {
        for planned_run in self.0.lock().values_mut() {
            if let PlannedWorkflow::Machine(definition) = &mut planned_run.workflow {
                let replaced = definition.to_string().replace(text, with);
                *definition = serde_json::from_str(&replaced).expect("the definition stays valid JSON");
            }
        }
    }

    pub(crate) fn is_begun(&self) -> bool {
        self.0.lock().values().all(|planned_run| planned_run.is_begun)
    }
}

/// Begins each run at its time, and repeats the request until a daemon has accepted the run.
pub(crate) async fn begin_runs(client: Client, plan: Arc<Plan>, stage: Arc<Stage>, directory: PathBuf) {
    loop {
        let due = plan
            .0
            .lock()
            .iter()
            .find(|(_, run)| !run.is_begun && run.starts_at <= stage.now())
            .map(|(number, run)| (*number, run.clone()));
        let Some((number, planned_run)) = due else {
            if plan.is_begun() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let (workflow_definition, workflow_file, workflow_name) = match planned_run.workflow {
            PlannedWorkflow::Machine(definition) => (Some(definition), None, None),
            PlannedWorkflow::Function(text) => {
                let file = directory.join(format!("flow{number}.py"));
                std::fs::write(&file, text).expect("the temporary file is writable");
                (None, Some(file.display().to_string()), Some("flow".to_owned()))
            }
        };
        let request = RunWorkflow {
            workflow_definition,
            workflow_file,
            workflow_name,
            execution_timeout: planned_run.timeout_seconds,
            save_on_success: false,
            idempotency_key: Some(format!("run {number}")),
            wait_seconds: Some(0.0),
            ..RunWorkflow::default()
        };
        match client.call(request).await {
            Ok(reply) if !reply.run_id.is_empty() => {
                stage.log(|| format!("{} begins", reply.run_id));
                stage.record_activity();
                plan.0.lock().entry(number).and_modify(|run| run.is_begun = true);
            }
            Ok(reply) => {
                stage.log(|| format!("run {number} does not begin: {:?}", reply.error));
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            // The daemon has exited.
            Err(_) => return,
        }
    }
}

/// Answers each gate some time after it opens.
pub(crate) async fn answer_gates(client: Client) {
    loop {
        tokio::time::sleep(RETRY_PAUSE).await;
        let waiting = ListWorkflowRuns { state: Some("waiting".to_owned()), ..ListWorkflowRuns::default() };
        let Ok(reply) = client.call(waiting).await else { return };
        for run in reply.runs {
            let answer = Decide { run_id: run.run_id, answer: "yes".to_owned(), ..Decide::default() };
            // A refused answer is repeated while the run waits.
            let _ = client.call(answer).await;
        }
    }
}

/// Returns the first request of a client in a directory.
pub(crate) fn hello(directory: &Path) -> Hello {
    let environment = [("HOME", directory.display().to_string()), ("PATH", "/usr/bin:/bin".to_owned())];
    Hello {
        protocol_version: PROTOCOL_VERSION,
        client: "simulation".to_owned(),
        cwd: Some(directory.display().to_string()),
        environment: Some(environment.map(|(name, value)| (name.to_owned(), value)).into()),
        person: false,
        peer: None,
        surface: None,
    }
}
