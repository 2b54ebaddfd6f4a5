//! Nodes and graphs that a machine calls. A node that makes calls itself becomes a separate run. The next daemon finds
//! that run by the step's name. For any other node, a restarted daemon cannot know whether an earlier one called it.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use serde_json::{Map, Value};
use steplatch_access::Caller;
use steplatch_nodes::NodeKind;
use steplatch_protocol::{Command, NodeReply, RunGraph, RunNode, Verb as _};
use steplatch_workflow::Outcome;

use super::child::CancelOnDrop;
use super::start_key::StartKey;
use super::{function, pins};
use crate::engine::{Attempt, StartError, begin_for_step};
use crate::engine_state::Engine;
use crate::nodes::{self, NodeCall};
use crate::result_error::{CallResultError, NodeCallError};
use crate::runs::Runs;
use crate::time_span::TimeSpan;

/// The call of a node or graph by a step.
pub(super) struct NodeCallRequest {
    pub(super) graph: bool,
    pub(super) params: Map<String, Value>,
    /// Name of the step. The node is called once for each name.
    pub(super) step: String,
    /// Attempt of the call: an earlier daemon may have made it already.
    pub(super) attempt: Attempt,
}

/// Calls a node and returns its outcome. Dropping the future ends the call.
pub(super) async fn perform(shared: &Arc<Engine>, caller: &Arc<Caller>, request: NodeCallRequest) -> Outcome {
    let NodeCallRequest { graph, params, step, attempt } = request;
    let name = if graph { RunGraph::NAME } else { RunNode::NAME };
    let (id, input, timeout) = match Command::parse(name, Value::Object(params)) {
        Some(Ok((Command::RunNode(RunNode { node_id, input, timeout }), _))) => (node_id, input, timeout),
        Some(Ok((Command::RunGraph(RunGraph { graph_id, input, timeout }), _))) => (graph_id, input, timeout),
        Some(Err(invalid)) => return refused_outcome(invalid.to_string()),
        _ => return refused_outcome(format!("there is no verb '{name}'")),
    };
    let timeout = timeout.map(TimeSpan::from_seconds);
    let project = match shared.projects.find_project(caller).await {
        Ok(project) => project,
        Err(error) => return refused_outcome(error.to_string()),
    };
    if let Some(Err(error)) = caller.pins.as_ref().map(|pins| pins::check_node(pins, &project, &id)) {
        return refused_outcome(error.to_string());
    }
    match project.kind(&id) {
        Some(NodeKind::Graph(_)) => {}
        Some(NodeKind::Function(_)) if !graph => {}
        // Repeating the call of an identity node is harmless, and a missing node was never called.
        Some(kind) if attempt.is_repeated() && !matches!(kind, NodeKind::Identity(_)) => return Outcome::Unknown,
        _ => {
            let call = NodeCall { id, input, timeout, graph };
            return to_outcome(shared.nodes.call(caller, &project, call, None).await);
        }
    }
    let key = StartKey::for_step(step.to_string());
    let begin = || shared.begin_call(caller, &project, id.clone(), input.clone(), timeout, Some(key.clone()));
    let run = match begin_for_step(StartError::lacks_room, begin).await {
        Ok(run) => run,
        Err(error) => return refused_outcome(error.to_string()),
    };
    let _cancel_guard = CancelOnDrop::new(shared, run.clone());
    run.finished().await;
    match function::node_call_result(shared, &run).await {
        Ok(reply) => to_outcome(reply),
        Err(error) => to_outcome(no_result_reply(&NodeCall { id, input, timeout, graph }, &error)),
    }
}

impl Runs {
    /// Calls a node of the caller's project, at most once for the same `step`. A node that makes calls itself becomes a
    /// run.
    #[boxed]
    pub async fn run_node(&self, caller: &Arc<Caller>, verb: RunNode, step: Option<String>) -> NodeReply {
        let RunNode { node_id, input, timeout } = verb;
        let timeout = timeout.map(TimeSpan::from_seconds);
        self.call_in_project(caller, NodeCall { id: node_id, input, timeout, graph: false }, step).await
    }

    /// Runs a graph of the caller's project, at most once for the same `step`.
    #[boxed]
    pub async fn run_graph(&self, caller: &Arc<Caller>, verb: RunGraph, step: Option<String>) -> NodeReply {
        let RunGraph { graph_id, input, timeout } = verb;
        let timeout = timeout.map(TimeSpan::from_seconds);
        self.call_in_project(caller, NodeCall { id: graph_id, input, timeout, graph: true }, step).await
    }

    async fn call_in_project(&self, caller: &Arc<Caller>, request: NodeCall, step: Option<String>) -> NodeReply {
        let project = match self.shared.projects.find_project(caller).await {
            Ok(project) => project,
            Err(error) => return nodes::refusal(&request, None, error.to_string()),
        };
        let makes_calls = match project.kind(&request.id) {
            Some(NodeKind::Graph(_)) => true,
            Some(NodeKind::Function(_)) => !request.graph,
            _ => false,
        };
        if !makes_calls {
            return self.shared.nodes.call(caller, &project, request, step).await;
        }
        let NodeCall { id, input, timeout, .. } = request.clone();
        let reply = self.call_node(caller, &project, id, input, timeout, step).await;
        reply.unwrap_or_else(|error| match error {
            NodeCallError::NotStarted(error) => nodes::refusal(&request, None, error.to_string()),
            NodeCallError::NoResult(error) => no_result_reply(&request, &error),
        })
    }
}

/// Returns the reply to a call whose run finished without a result.
fn no_result_reply(request: &NodeCall, error: &CallResultError) -> NodeReply {
    let run_id = Some(error.run().to_string());
    NodeReply { run_id, ..nodes::refusal(request, Some(error.error_type()), error.to_string()) }
}

fn to_outcome(reply: NodeReply) -> Outcome {
    match serde_json::to_value(reply) {
        Ok(Value::Object(result)) => Outcome::Finished { result },
        _ => refused_outcome("the node's output is not JSON".to_owned()),
    }
}

fn refused_outcome(error: String) -> Outcome {
    let fields = [("success".to_owned(), false.into()), ("error".to_owned(), error.into())];
    Outcome::Finished { result: Map::from_iter(fields) }
}
