//! Requests to the daemon: calls and runs, each in a task that sends events.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};
use steplatch_protocol::{
    AnswerGate, AnswerGateReply, AskError, CallError, CancelWorkflow, FollowError, GateInfo, GetRun, GetWorkflowRun,
    ListGraphs, ListNodes, ListWorkflowRuns, ListWorkflows, NodeReply, ReconnectingClient, RunEvent, RunGraph, RunNode,
    RunReply, RunWorkflow,
};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::catalog::Catalog;
use super::line::{Kind, Target};
use super::reference;
use crate::child_runs::ChildRuns;
use crate::failure::Failure;

/// An event about the call with this number.
#[derive(Debug)]
pub(crate) enum JobEvent {
    /// The run of the call is known.
    Run(usize, String),
    Event(usize, RunEvent),
    /// The run waits for an answer.
    GateOpened(usize, Box<GateInfo>),
    Ended(usize, Outcome),
}

/// The outcome of a call.
#[derive(Debug)]
pub(crate) enum Outcome {
    Node(Box<NodeReply>),
    Run(Box<RunReply>),
    /// The call did not happen, or its outcome is unknown.
    Nothing(String),
}

/// The calls in progress.
#[derive(Debug)]
pub(crate) struct Work {
    daemon: ReconnectingClient,
    sender: mpsc::Sender<JobEvent>,
    events: mpsc::Receiver<JobEvent>,
    tasks: HashMap<usize, AbortHandle>,
}

/// Maximum number of events that wait in the channel. Tasks wait while it is full.
const EVENT_CAPACITY: usize = 64;

/// Number of seconds to wait for a run's cleanup after its end.
const CLEANUP_TIMEOUT_SECONDS: f64 = 10.0;

/// Maximum number of listed workflows of a library.
const MAX_WORKFLOWS: u32 = 10_000;

/// Maximum number of listed waiting runs.
const MAX_WAITING_RUNS: u32 = 1000;

impl Work {
    pub(crate) fn new(daemon: ReconnectingClient) -> Self {
        let (sender, events) = mpsc::channel(EVENT_CAPACITY);
        Self { daemon, sender, events, tasks: HashMap::new() }
    }

    pub(crate) fn daemon(&self) -> &ReconnectingClient {
        &self.daemon
    }

    /// Returns the next event. Cancellation-safe.
    pub(crate) async fn next(&mut self) -> JobEvent {
        let event = self.events.recv().await.expect("this struct has a sender, so the channel stays open");
        if let JobEvent::Ended(number, _) = event {
            self.tasks.remove(&number);
        }
        event
    }

    /// Starts the call with this number.
    pub(crate) fn begin(&mut self, number: usize, target: &Target, input: Value) {
        let (daemon, sender, name) = (self.daemon.clone(), self.sender.clone(), target.name.clone());
        let task = match target.kind {
            Kind::Workflow => {
                let verb = run_request(target, &input);
                tokio::spawn(async move {
                    let outcome = start_and_follow_run(&daemon, &sender, number, verb).await;
                    let _ = sender.send(JobEvent::Ended(number, outcome)).await;
                })
            }
            Kind::Node | Kind::Graph => {
                let is_graph = target.kind == Kind::Graph;
                tokio::spawn(async move {
                    let reply = if is_graph {
                        daemon.call(RunGraph { graph_id: name, input, timeout: None }).await
                    } else {
                        daemon.call(RunNode { node_id: name, input, timeout: None }).await
                    };
                    let outcome = reply.map_or_else(
                        |error| Outcome::Nothing(error_text(error)),
                        |reply| Outcome::Node(Box::new(reply)),
                    );
                    let _ = sender.send(JobEvent::Ended(number, outcome)).await;
                })
            }
        };
        self.tasks.insert(number, task.abort_handle());
    }

    /// Follows a run started elsewhere, from its beginning.
    pub(crate) fn follow(&mut self, number: usize, run: String) {
        let (daemon, sender) = (self.daemon.clone(), self.sender.clone());
        let task = tokio::spawn(async move {
            let outcome = follow_run(&daemon, &sender, number, run).await;
            let _ = sender.send(JobEvent::Ended(number, outcome)).await;
        });
        self.tasks.insert(number, task.abort_handle());
    }

    /// Aborts a call. A run continues in the daemon.
    pub(crate) fn abandon(&mut self, number: usize) {
        if let Some(task) = self.tasks.remove(&number) {
            task.abort();
        }
    }

    /// Cancels a run. Its end arrives as an event.
    pub(crate) fn cancel(&self, run: String) {
        let daemon = self.daemon.clone();
        tokio::spawn(async move {
            if let Err(error) = daemon.call(CancelWorkflow { run_id: run }).await {
                tracing::warn!(%error, "a run cannot be cancelled");
            }
        });
    }

    /// Returns the names of all targets.
    ///
    /// # Errors
    /// If the daemon cannot return them.
    pub(crate) async fn catalog(&self) -> Result<Catalog, Failure> {
        let nodes = self.daemon.call(ListNodes::default()).await?;
        let graphs = self.daemon.call(ListGraphs::default()).await?;
        let workflows = self.daemon.call(ListWorkflows { containing: None, limit: MAX_WORKFLOWS }).await?;
        // An unreadable project is considered empty; `/nodes` and `/graphs` show the problem.
        Ok(Catalog {
            nodes: nodes.nodes.into_iter().map(|node| node.id).collect(),
            graphs: graphs.graphs.into_iter().map(|graph| graph.id).collect(),
            workflows: workflows.workflows.into_iter().map(|workflow| workflow.name).collect(),
        })
    }

    /// Returns the open questions for people, with the names of their workflows, the oldest first.
    ///
    /// # Errors
    /// If the daemon cannot return them.
    pub(crate) async fn questions(&self) -> Result<Vec<(String, GateInfo)>, Failure> {
        let verb =
            ListWorkflowRuns { state: Some("waiting".to_owned()), limit: Some(MAX_WAITING_RUNS), ..Default::default() };
        let runs = self.daemon.call(verb).await?.runs.into_iter();
        let gates = runs.flat_map(|run| {
            let (id, workflow) = (run.run_id, run.workflow_id);
            run.pending_gates.into_iter().map(move |gate| (gate.run_id == id, workflow.clone(), gate))
        });
        let mut gates: Vec<_> = gates.filter(|(.., gate)| gate.answered_by != "agent").collect();
        // A run also lists the questions of its descendants. Sort the entry of the asking run first, for `dedup_by`.
        gates.sort_by(|(own, _, gate), (others_own, _, other)| {
            let key = |gate: &GateInfo, own: &bool| (gate.created_at.clone(), gate.gate_id.clone(), !own);
            key(gate, own).cmp(&key(other, others_own))
        });
        gates.dedup_by(|left, right| left.2.gate_id == right.2.gate_id);
        let gates = gates.into_iter().map(|(_, workflow, gate)| (workflow, gate)).collect();
        Ok(gates)
    }

    /// Returns whether the gate of an answer is open.
    ///
    /// # Errors
    /// If the daemon cannot return it.
    pub(crate) async fn is_open(&self, answer: &AnswerGate) -> Result<bool, Failure> {
        let gate = answer.gate_id.as_deref().unwrap_or_default();
        Ok(open_gate(&self.daemon, &answer.run_id, gate).await?.is_some())
    }

    /// Answers a gate and returns the reply. `None` if the reply was lost and the gate is closed.
    ///
    /// # Errors
    /// If the daemon is unreachable.
    pub(crate) async fn answer(&self, answer: &AnswerGate) -> Result<Option<AnswerGateReply>, Failure> {
        loop {
            match self.daemon.call(answer.clone()).await {
                Ok(reply) => return Ok(Some(reply)),
                // The answer may have arrived. While the gate is open, sending the answer again is safe.
                Err(AskError::Call(CallError::Lost)) => {
                    let gate = answer.gate_id.as_deref().unwrap_or_default();
                    if open_gate(&self.daemon, &answer.run_id, gate).await?.is_none() {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.tasks.values().for_each(AbortHandle::abort);
    }
}

/// Builds the request for `%name text`.
fn run_request(target: &Target, input: &Value) -> RunWorkflow {
    let variables =
        (!input.is_null()).then(|| BTreeMap::from([("input".to_owned(), reference::value_to_text(input).into())]));
    let (file, workflow) = target.file().map_or((None, Some(target.name.as_str())), |(file, workflow)| {
        // The daemon refuses an invalid path and reports the typed name.
        let path = std::path::absolute(file).map_or_else(|_| file.to_owned(), |file| file.display().to_string());
        (Some(path), workflow)
    });
    RunWorkflow {
        workflow_name: workflow.map(str::to_owned),
        workflow_file: file,
        initial_variables: variables,
        save_on_success: false,
        wait_seconds: Some(0.0),
        ..RunWorkflow::default()
    }
}

async fn start_and_follow_run(
    daemon: &ReconnectingClient,
    sender: &mpsc::Sender<JobEvent>,
    number: usize,
    verb: RunWorkflow,
) -> Outcome {
    match daemon.call(verb).await {
        Err(error) => Outcome::Nothing(error_text(error)),
        Ok(reply) if reply.run_id.is_empty() => {
            Outcome::Nothing(reply.error.unwrap_or_else(|| "the run did not start".to_owned()))
        }
        Ok(reply) => follow_run(daemon, sender, number, reply.run_id).await,
    }
}

async fn follow_run(
    daemon: &ReconnectingClient,
    sender: &mpsc::Sender<JobEvent>,
    number: usize,
    run: String,
) -> Outcome {
    // Ignore a failure, because the receiver was dropped and this task is about to end.
    let _ = sender.send(JobEvent::Run(number, run.clone())).await;
    if let Err(error) = forward_events(daemon, sender, number, &run).await {
        let error = match error {
            FollowError::Unknown(_) => {
                format!("the daemon does not know run {run} any more; /runs lists those it knows")
            }
            error => format!("run {run} cannot be followed any further: {error}; /show {run} shows its state"),
        };
        return Outcome::Nothing(error);
    }
    // A run's cleanup follows its last event.
    match daemon.call(GetRun { run_id: run, wait_seconds: Some(CLEANUP_TIMEOUT_SECONDS), ..GetRun::default() }).await {
        Ok(reply) => Outcome::Run(Box::new(reply)),
        Err(error) => Outcome::Nothing(error_text(error)),
    }
}

/// Sends the events of a run and of its nested runs, until the last event of the run.
async fn forward_events(
    daemon: &ReconnectingClient,
    sender: &mpsc::Sender<JobEvent>,
    number: usize,
    run: &str,
) -> Result<(), FollowError> {
    let mut events = daemon.follow(run, 1);
    let mut child_runs = ChildRuns::new(daemon.clone());
    loop {
        let event = tokio::select! {
            event = events.next() => match event? {
                Some(event) => event,
                None => return Ok(()),
            },
            event = child_runs.next() => event,
        };
        child_runs.follow_started_run(&event);
        // A nested run's events come before the end of the state that started it.
        for nested in child_runs.take_ended(&event).await {
            let _ = sender.send(JobEvent::Event(number, nested)).await;
        }
        let gate = event.data.get("gate_id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let (is_waiting, asking_run) = (event.event_type == "gate_waiting", event.run_id.clone());
        let _ = sender.send(JobEvent::Event(number, event)).await;
        // The events of a run also include events of gates that are already answered.
        if is_waiting && let Ok(Some(gate)) = open_gate(daemon, &asking_run, &gate).await {
            let _ = sender.send(JobEvent::GateOpened(number, Box::new(gate))).await;
        }
    }
}

/// Returns the gate called `id` of a run while it is open.
async fn open_gate(daemon: &ReconnectingClient, run: &str, id: &str) -> Result<Option<GateInfo>, AskError> {
    let reply = daemon.call(GetWorkflowRun { run_id: run.to_owned() }).await?;
    let gates = reply.run.map(|run| run.pending_gates).unwrap_or_default();
    Ok(gates.into_iter().find(|gate| gate.gate_id == id))
}

/// Returns the message about a failed request.
fn error_text(error: AskError) -> String {
    Failure::from(error).message().to_owned()
}

/// Returns JSON Pointers to the shortened variables in the result of a run.
fn shortened_variables(reply: &RunReply) -> Vec<String> {
    let paths = reply.shortened_values.iter().filter_map(|value| value.path.strip_prefix("/final_variables"));
    paths.map(|path| format!("/attributes/variables{path}")).collect()
}

impl Outcome {
    /// Returns the result as a JSON object for references, with the same fields for every kind of call.
    pub(crate) fn value(&self, target: &Target, input: &Value) -> Value {
        match self {
            Self::Node(reply) => serde_json::to_value(&**reply).unwrap_or_default(),
            Self::Nothing(error) => json!({
                "success": false, "output": null, "error": error, "error_type": null,
                "node_type": target.kind.noun(), "node_id": target.name, "input": input, "attributes": {},
            }),
            Self::Run(reply) => {
                let returned = || (!reply.return_values.is_empty()).then(|| json!(reply.return_values));
                json!({
                    "success": reply.status == "completed",
                    "output": reply.result.clone().or_else(returned),
                    "error": reply.error,
                    "error_type": (reply.status != "completed").then_some(&reply.status),
                    "node_type": "workflow",
                    "node_id": reply.workflow_name,
                    "input": input,
                    "attributes": {
                        "run_id": reply.run_id,
                        "status": reply.status,
                        "final_state": reply.final_state,
                        "seconds": reply.total_elapsed_time,
                        "variables": reply.final_variables,
                        "return_values": reply.return_values,
                        "shortened": shortened_variables(reply),
                    },
                })
            }
        }
    }
}
