//! The nodes that a run can call.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use steplatch_access::Caller;
use steplatch_ids::RunId;
use steplatch_nodes::{Call, Node, NodeKind, NodeResult};

use crate::nodes::{ExecutorFactory, InvalidNodes, NodeExecutor, PtyNodes};

/// Nodes by their ids, and their executor.
pub(super) struct DeclaredNodes {
    nodes: HashMap<String, Node>,
    executors: ExecutorFactory,
    panes: Arc<PtyNodes>,
    performer: OnceLock<NodeExecutor>,
}

impl DeclaredNodes {
    /// Reads declarations and adds the built-in node. The first declaration of an id counts.
    ///
    /// # Errors
    ///
    /// Returns all problems of the declarations.
    pub(super) fn read(documents: &[Value], executors: &ExecutorFactory, run: &RunId) -> Result<Self, InvalidNodes> {
        let mut nodes = HashMap::new();
        let mut invalid = Vec::new();
        for document in documents.iter().chain([&json!({"id": "identity", "type": "identity"})]) {
            let id = document.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
            match Node::parse(document) {
                Ok(node) => drop(nodes.entry(id).or_insert(node)),
                Err(problems) => invalid.push((id, problems)),
            }
        }
        if !invalid.is_empty() {
            return Err(InvalidNodes::new(invalid));
        }
        let (executors, panes) = (executors.clone(), executors.panes(run.to_string()));
        Ok(Self { nodes, executors, panes, performer: OnceLock::new() })
    }

    pub(super) fn get(&self, id: &str) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// Performs a node that makes no calls itself.
    pub(super) async fn perform(&self, caller: &Arc<Caller>, node: &Node, call: Call, step: String) -> NodeResult {
        let create = || self.executors.performer(caller, caller.directory.clone(), self.panes.clone());
        Box::pin(self.performer.get_or_init(create).run(node, call, &step)).await
    }

    /// Returns the values of the secrets that calls have referred to so far.
    pub(super) fn secrets(&self) -> BTreeSet<String> {
        self.performer.get().map(NodeExecutor::resolved).unwrap_or_default()
    }

    /// Takes over the nodes' terminals from an earlier daemon.
    pub(super) fn adopt(&self, terminals: BTreeMap<String, Option<String>>) {
        for (node, terminal) in terminals {
            if self.nodes.get(&node).is_some_and(|node| matches!(node.kind, NodeKind::Pty(_))) {
                match terminal {
                    Some(terminal) => self.panes.adopt(node, terminal),
                    None => self.panes.adopt_unknown_terminal(&node),
                }
            }
        }
    }

    /// Takes over the terminal that a call of another daemon was about to use or open.
    pub(super) fn adopt_unknown_terminal(&self, node: &str) {
        self.panes.adopt_unknown_terminal(node);
    }

    /// Stops the programs that nodes keep running between calls.
    pub(super) async fn close(&self, caller: &Caller) {
        if let Some(performer) = self.performer.get() {
            performer.close().await;
        }
        self.panes.close(caller).await;
    }
}
