//! Nodes and graphs that a machine calls.
//!
//! A node that makes calls itself is a run of its own, which is found again by the
//! name of the step. Of any other one nobody knows, once a daemon is gone, whether
//! it was called.

use std::sync::Arc;

use serde_json::{Map, Value};
use steplatch_nodes::NodeKind;
use steplatch_protocol::{Command, NodeReply, RunGraph, RunNode, Verb as _};
use steplatch_workflow::Outcome;

use super::child::Watched;
use super::start_key::StartKey;
use super::{Runs, Shared, function, pins};
use crate::caller::Caller;
use crate::nodes::NodeCall;

/// What a step calls.
pub(super) struct Wanted {
    pub(super) graph: bool,
    pub(super) params: Map<String, Value>,
    /// The name under which it is done once.
    pub(super) step: String,
    /// Whether another daemon may have called it.
    pub(super) again: bool,
}

/// Calls a node, and returns what came of it. The call ends with whoever waits for it.
pub(super) async fn perform(shared: &Arc<Shared>, caller: &Arc<Caller>, wanted: Wanted) -> Outcome {
    let Wanted { graph, params, step, again } = wanted;
    let name = if graph { RunGraph::NAME } else { RunNode::NAME };
    let (id, input, timeout) = match Command::parse(name, Value::Object(params)) {
        Some(Ok((Command::RunNode(RunNode { node_id, input, timeout }), _))) => (node_id, input, timeout),
        Some(Ok((Command::RunGraph(RunGraph { graph_id, input, timeout }), _))) => (graph_id, input, timeout),
        Some(Err(invalid)) => return refused(invalid.to_string()),
        _ => return refused(format!("there is no verb '{name}'")),
    };
    let project = match shared.projects.of(caller).await {
        Ok(project) => project,
        Err(error) => return refused(error),
    };
    if let Some(Err(error)) = caller.pins.as_ref().map(|pins| pins::check_node(pins, &project, &id)) {
        return refused(error);
    }
    match project.kind(&id) {
        Some(NodeKind::Graph(_)) => {}
        Some(NodeKind::Function(_)) if !graph => {}
        // What returns its input may be called twice, and what is not there was never called.
        Some(kind) if again && !matches!(kind, NodeKind::Identity(_)) => return Outcome::Unknown,
        _ => {
            let runs = Runs { shared: shared.clone() };
            let called = NodeCall { id, input, timeout, graph };
            return told(shared.nodes.call_in(&runs, caller, &project, called, None).await);
        }
    }
    let key = Some(StartKey::of_step(step.to_string()));
    let run = match shared.begin_call(caller, &project, id.clone(), input.clone(), timeout, key).await {
        Ok(run) => run,
        Err(error) => return refused(error),
    };
    let _watched = Watched::new(shared, run.clone());
    run.over_within(None).await;
    match function::result_of(shared, &run).await {
        Ok(reply) => told(reply),
        Err(error) => {
            let run_id = Some(run.id.to_string());
            told(NodeReply { error: Some(error), node_id: id, input, run_id, ..NodeReply::default() })
        }
    }
}

fn told(reply: NodeReply) -> Outcome {
    match serde_json::to_value(reply) {
        Ok(Value::Object(result)) => Outcome::Finished { result },
        _ => refused("the node returned what is no JSON".to_owned()),
    }
}

fn refused(error: String) -> Outcome {
    let fields = [("success".to_owned(), false.into()), ("error".to_owned(), error.into())];
    Outcome::Finished { result: Map::from_iter(fields) }
}
