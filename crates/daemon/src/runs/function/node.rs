//! The nodes that a file declares, for the calls of its function.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};
use steplatch_nodes::{Call, ErrorType, Nobody, Node, NodeKind, NodeResult, Nodes, Surroundings};
use steplatch_python::{Answer, Declaration, Kind};
use steplatch_terminal::Programs;

use crate::caller::Caller;

/// Nodes by their ids, and what they are performed with.
pub(super) struct Declared {
    nodes: HashMap<String, Node>,
    caller: Arc<Caller>,
    performed: OnceLock<Nodes>,
}

impl Declared {
    /// Reads the declarations that [`documents`] made, and adds the node that everybody has.
    ///
    /// # Errors
    /// With everything that is wrong with them.
    pub(super) fn read(documents: &[Value], caller: &Arc<Caller>) -> Result<Self, String> {
        let mut nodes = HashMap::new();
        let mut problems = String::new();
        for document in documents.iter().chain([&json!({"id": "identity", "type": "identity"})]) {
            let id = document.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
            match Node::parse(document) {
                Ok(node) => drop(nodes.entry(id).or_insert(node)),
                Err(wrong) => problems.push_str(&format!("the node '{id}' is not valid:\n{wrong}\n")),
            }
        }
        let (caller, performed) = (caller.clone(), OnceLock::new());
        if problems.is_empty() { Ok(Self { nodes, caller, performed }) } else { Err(problems.trim_end().to_owned()) }
    }

    pub(super) fn get(&self, id: &str) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// Returns what performs them; made for the first that needs it.
    pub(super) fn nodes(&self) -> Nodes {
        let made = || {
            Nodes::new(Surroundings {
                folder: self.caller.folder.clone(),
                environment: self.caller.environment.clone(),
                programs: Programs::new(),
                secrets: Arc::new(BTreeMap::new()),
                others: Arc::new(Nobody),
            })
        };
        self.performed.get_or_init(made).clone()
    }

    /// Ends what nodes keep running between calls.
    pub(super) async fn close(&self) {
        if let Some(nodes) = self.performed.get() {
            nodes.close().await;
        }
    }

    /// Returns the answer to a call that may have been performed by another daemon, which did not live to tell.
    pub(super) fn in_doubt(&self, id: &str, input: Value) -> Option<Answer> {
        let node = self.get(id).filter(|node| !matches!(node.kind, NodeKind::Identity(_)))?;
        let message =
            "The daemon ended while the node was running; whether it was done is not known, and it is not done again.";
        Some(answer_of(NodeResult::failed(node, input, ErrorType::Unknown, message)))
    }
}

/// Returns the nodes of a file as documents. Functions and graphs are none that can be called yet.
pub(super) fn documents(declarations: &[Declaration]) -> Vec<Value> {
    let document = |declared: &Declaration| {
        let kind = match declared.kind {
            Kind::Bash => "bash",
            Kind::Pty => "pty",
            Kind::Http => "http",
            Kind::Mcp => "mcp",
            Kind::Llm => "llm",
            Kind::Workflow | Kind::Function | Kind::Graph => return None,
        };
        let mut fields: Map<String, Value> = declared.settings.clone();
        fields.insert("id".to_owned(), declared.id.clone().into());
        fields.insert("type".to_owned(), kind.into());
        if let Some(description) = &declared.description {
            fields.insert("description".to_owned(), description.clone().into());
        }
        Some(Value::Object(fields))
    };
    declarations.iter().filter_map(document).collect()
}

/// Performs one call.
pub(super) async fn perform(nodes: Nodes, node: Node, call: Call) -> Answer {
    answer_of(nodes.run(&node, call).await)
}

fn answer_of(result: NodeResult) -> Answer {
    Answer::Value(serde_json::to_value(result).expect("a result has only JSON in it"))
}
