//! The performer of node calls.
//!
//! [`Nodes`] holds the resources that calls share: the started programs, the HTTP client, and the running MCP servers.
//! A call never returns an error: failures are in its [`NodeResult`].

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
use crate::secrets::resolve_all;
use crate::template::TemplateValues;

/// Performs nodes. Cheap to clone.
#[derive(Clone)]
pub struct Nodes {
    shared: Arc<Shared>,
}

struct Shared {
    node_environment: NodeEnvironment,
    http_client: HttpClient,
    servers: Servers,
}

/// Failure to prepare a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NodeFailure {
    /// Kind of the failure.
    pub kind: ErrorType,
    /// Error message, as a complete sentence.
    pub message: String,
}

impl Nodes {
    /// Creates the performer, without running servers.
    #[must_use]
    pub fn new(node_environment: NodeEnvironment) -> Self {
        let http_client = HttpClient::default();
        let servers = Servers::new(http_client.clone());
        Self { shared: Arc::new(Shared { node_environment, http_client, servers }) }
    }

    /// Performs one call of a node, to its end. Nodes of the kinds `pty`, `function` and `graph` fail as unsupported,
    /// because the daemon performs them.
    ///
    /// Dropping the future ends the call and discards the result. For a result, use the call's interrupt.
    #[boxed]
    pub async fn run(&self, node: &Node, call: Call) -> NodeResult {
        let input = call.input.clone();
        if !node.kind.node_type().is_performed_here() {
            let message = format!("Node '{}' is of a kind that cannot be performed here.", node.id);
            return NodeResult::failed(node, input, ErrorType::Unsupported, message);
        }
        // A declaration consists of strings and numbers, and JSON can represent all of them.
        let declared = serde_json::to_value(&node.kind).unwrap_or_default();
        let Shared { node_environment, http_client, servers } = &*self.shared;
        let limit = CallLimit::for_call(node, &call);
        let template_values = tokio::select! {
            template_values = TemplateValues::new(&declared, &input, &*node_environment.secrets) => template_values,
            failure = limit.wait_until_reached() => Err(failure),
        };
        let template_values = match template_values {
            Ok(template_values) => template_values,
            Err(failure) => return NodeResult::from_outcome(node, input, failure.into()),
        };
        let context = CallContext {
            call: &call,
            limit: &limit,
            template_values: &template_values,
            node_environment,
            http_client,
            servers,
        };
        let outcome = node.kind.perform(&context).await;
        let secret_mask = template_values.secret_mask();
        let outcome = ExecutorOutcome {
            output: secret_mask.value(outcome.output),
            failure: outcome.failure.map(|failure| Failure::new(failure.kind, secret_mask.text(failure.message))),
            attributes: secret_mask.map(outcome.attributes),
        };
        NodeResult::from_outcome(node, secret_mask.value(input), outcome)
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
    /// If a secret is unknown.
    #[boxed]
    pub async fn secrets(&self, names: Vec<String>) -> Result<BTreeMap<String, String>, NodeFailure> {
        let values = resolve_all(names, &*self.shared.node_environment.secrets).await;
        values.map_err(|failure| NodeFailure { kind: failure.kind, message: failure.message })
    }

    /// Stops the running MCP servers. A later call restarts its server.
    #[boxed]
    pub async fn close(&self) {
        self.shared.servers.close().await;
    }
}

/// Returns an input as text: strings unchanged, other values as JSON.
pub(crate) fn as_text(input: &Value) -> String {
    steplatch_workflow::substitute::as_text(input)
}
