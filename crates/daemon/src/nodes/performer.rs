//! One call of a node of a project, with all the calls that it leads to.

use std::ffi::OsString;
use std::sync::Arc;

use serde_json::Value;
use steplatch_nodes::graph::{Driver, DriverError, GraphEvent, StepCall, StepOutcome, drive};
use steplatch_nodes::{Call, ErrorType, Nobody, Node, NodeKind, NodeResult, Resolving, Running, Surroundings};
use steplatch_terminal::Programs;
use steplatch_workflow::Timestamp;
use tokio::sync::Semaphore;

use super::project::Project;
use crate::caller::Caller;
use crate::moment;
use crate::secrets::Secrets;

/// Performs the nodes of a project for one caller. The MCP servers that it starts go on until it is closed.
pub(super) struct Performer {
    nodes: steplatch_nodes::Nodes,
    project: Arc<Project>,
    turns: Arc<Semaphore>,
}

/// Secrets by reference: variables of the caller's environment. What was asked for is seen in no reply from then on.
struct OfEnvironment {
    environment: Vec<(OsString, OsString)>,
    hidden: Arc<Secrets>,
}

impl steplatch_nodes::Secrets for OfEnvironment {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        let found = self.environment.iter().find(|(key, _)| key == name);
        let value = found.and_then(|(_, value)| value.to_str()).filter(|value| !value.is_empty());
        if let Some(value) = value {
            self.hidden.add(value);
        }
        Box::pin(std::future::ready(value.map(str::to_owned)))
    }
}

impl Performer {
    /// `turns` are shared by everybody: so many calls are under way at once.
    pub(super) fn new(
        project: Arc<Project>,
        caller: &Caller,
        programs: Programs,
        hidden: Arc<Secrets>,
        turns: Arc<Semaphore>,
    ) -> Arc<Self> {
        let nodes = steplatch_nodes::Nodes::new(Surroundings {
            folder: project.folder.clone(),
            environment: caller.environment.clone(),
            programs,
            secrets: Arc::new(OfEnvironment { environment: caller.environment.clone(), hidden }),
            others: Arc::new(Nobody),
        });
        Arc::new(Self { nodes, project, turns })
    }

    /// Calls a node of the project, which must be there.
    pub(super) fn call(self: Arc<Self>, id: String, call: Call) -> Running<'static> {
        Box::pin(async move {
            let project = self.project.clone();
            let node = &project.nodes.get(&id).expect("a graph is checked against the nodes of its project").node;
            match &node.kind {
                NodeKind::Graph(graph) => {
                    let input = call.input.clone();
                    let driven = drive(Arc::new(InMemory { performer: self }), node, graph, &[], call).await;
                    driven.unwrap_or_else(|error| broke_off(node, input, &error))
                }
                _ => self.one(node, call).await,
            }
        })
    }

    async fn one(&self, node: &Node, call: Call) -> NodeResult {
        let turn = tokio::select! {
            turn = self.turns.acquire() => turn,
            () = call.interrupt.cancelled() => {
                return NodeResult::failed(node, call.input, ErrorType::Interrupted, "The call was interrupted.");
            }
        };
        let _turn = turn.expect("the semaphore is never closed");
        self.nodes.run(node, call).await
    }

    /// Ends the MCP servers that were started.
    pub(super) async fn close(&self) {
        self.nodes.close().await;
    }
}

fn broke_off(node: &Node, input: Value, error: &DriverError) -> NodeResult {
    let message = format!("A call of the graph broke off, and what came of it is not known: {}.", error.0);
    NodeResult::failed(node, input, ErrorType::Unknown, message)
}

/// A graph that is run once, as long as somebody waits for it; its history is the memory of whoever drives it.
struct InMemory {
    performer: Arc<Performer>,
}

impl Driver for InMemory {
    async fn append(&self, _: &[GraphEvent]) -> Result<(), DriverError> {
        Ok(())
    }

    async fn call(&self, call: StepCall) -> StepOutcome {
        let StepCall { node, input, interrupt, .. } = call;
        let call = Call { input, interrupt, ..Call::default() };
        StepOutcome::Finished { result: Box::new(self.performer.clone().call(node.to_string(), call).await) }
    }

    fn now(&self) -> Timestamp {
        moment::now()
    }
}
