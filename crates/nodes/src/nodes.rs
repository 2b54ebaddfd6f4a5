//! The performer of node calls.
//!
//! [`Nodes`] holds the resources that calls share: the started programs, the HTTP client, and the running MCP servers.
//! A call never returns an error: the failure is in its [`NodeResult`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use serde_json::Value;

use crate::call::{Call, CallLimit};
use crate::context::{CallContext, NodeEnvironment};
use crate::kind::{HttpClient, Pty, Servers};
use crate::node::Node;
use crate::outcome::{ErrorType, ExecutorOutcome, Failure};
use crate::result::NodeResult;
use crate::template::TemplateValues;

/// Performs nodes. Cheap to clone.
#[derive(Clone)]
pub struct Nodes {
    shared: Arc<Shared>,
}

struct Shared {
    node_environment: NodeEnvironment,
    web: HttpClient,
    servers: Servers,
}

/// Failure of a node to begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NodeFailure {
    /// Kind of the failure.
    pub kind: ErrorType,
    /// As a whole sentence.
    pub message: String,
}

impl Nodes {
    /// Begins without a call.
    #[must_use]
    pub fn new(node_environment: NodeEnvironment) -> Self {
        let web = HttpClient::default();
        let servers = Servers::new(web.clone());
        Self { shared: Arc::new(Shared { node_environment, web, servers }) }
    }

    /// Performs one call of a node, to its end. Nodes of the kinds `pty`, `function` and `graph` are only data in this
    /// crate, and fail as unsupported: the daemon performs them.
    ///
    /// Dropping the future ends the call and discards the result. For a result, use the call's interrupt.
    #[boxed]
    pub async fn run(&self, node: &Node, call: Call) -> NodeResult {
        let input = call.input.clone();
        if !node.kind.node_type().is_performed_here() {
            let message = format!("Node '{}' is of a kind that cannot be run here.", node.id);
            return NodeResult::failed(node, input, ErrorType::Unsupported, message);
        }
        // A declaration consists of texts and numbers, all of which JSON can represent.
        let declared = serde_json::to_value(&node.kind).unwrap_or_default();
        let Shared { node_environment, web, servers } = &*self.shared;
        let limit = CallLimit::for_call(node, &call);
        let filling = tokio::select! {
            filling = TemplateValues::new(&declared, &input, &*node_environment.secrets) => filling,
            failure = limit.reached() => Err(failure),
        };
        let filling = match filling {
            Ok(filling) => filling,
            Err(failure) => return NodeResult::from_outcome(node, input, failure.into()),
        };
        let context = CallContext { call: &call, limit: &limit, filling: &filling, node_environment, web, servers };
        let outcome = node.kind.perform(&context).await;
        let hidden = filling.hidden();
        let outcome = ExecutorOutcome {
            output: hidden.value(outcome.output),
            failure: outcome.failure.map(|failure| Failure::new(failure.kind, hidden.text(failure.message))),
            attributes: hidden.map(outcome.attributes),
        };
        NodeResult::from_outcome(node, hidden.value(input), outcome)
    }

    /// Returns the working directory and the variables for starting the program of a persistent node.
    ///
    /// # Errors
    /// If a secret of the declaration is not available.
    #[boxed]
    pub async fn start_of(&self, pty: &Pty) -> Result<(PathBuf, BTreeMap<String, String>), NodeFailure> {
        let start = pty.start(&self.shared.node_environment).await;
        start.map_err(|failure| NodeFailure { kind: failure.kind, message: failure.message })
    }

    /// Returns the values of secrets, by name.
    ///
    /// # Errors
    /// If one of them is unknown.
    #[boxed]
    pub async fn secrets(&self, names: Vec<String>) -> Result<BTreeMap<String, String>, NodeFailure> {
        let mut values = BTreeMap::new();
        for name in names {
            let Some(value) = self.shared.node_environment.secrets.resolve(&name).await else {
                let message = format!("Secret '{name}' is not known here; set it, or correct the reference to it.");
                return Err(NodeFailure { kind: ErrorType::Secret, message });
            };
            values.insert(name, value);
        }
        Ok(values)
    }

    /// Ends the running MCP servers. A later call starts its server again.
    #[boxed]
    pub async fn close(&self) {
        self.shared.servers.close().await;
    }
}

/// Returns the text form of an input: a text unchanged, JSON for an input with parts.
pub(crate) fn as_text(input: &Value) -> String {
    steplatch_workflow::substitute::as_text(input)
}
