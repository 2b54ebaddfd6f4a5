//! Performing calls of nodes.
//!
//! [`Nodes`] is all that calls share: the programs that were started, the HTTP
//! client, the MCP servers that are kept running. A call never fails as such: what
//! went wrong is in its [`NodeResult`].

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use steplatch_terminal::Programs;

use crate::call::{Call, Cut};
use crate::http::Web;
use crate::mcp::Servers;
use crate::node::{Node, NodeKind, Pty};
use crate::result::{Came, ErrorType, Failure, NodeResult};
use crate::secrets::Secrets;
use crate::template::Filling;
use crate::{bash, http, llm, mcp};

/// Performs nodes. Cheap to clone.
#[derive(Clone)]
pub struct Nodes {
    shared: Arc<Shared>,
}

struct Shared {
    surroundings: Surroundings,
    web: Web,
    servers: Servers,
}

/// What nodes are performed with.
pub struct Surroundings {
    /// Where relative folders begin, and programs start that name none.
    pub folder: PathBuf,
    /// The environment that programs inherit.
    pub environment: Vec<(OsString, OsString)>,
    /// The programs of this process, of which those of nodes are some.
    pub programs: Programs,
    /// Where secrets come from.
    pub secrets: Arc<dyn Secrets>,
}

impl Surroundings {
    /// Returns this process's folder and environment, without secrets.
    ///
    /// # Errors
    /// When this process's folder is gone.
    pub fn of_this_process() -> std::io::Result<Self> {
        Ok(Self {
            folder: std::env::current_dir()?,
            environment: std::env::vars_os().collect(),
            programs: Programs::new(),
            secrets: Arc::new(BTreeMap::new()),
        })
    }
}

/// Why a node can not begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NodeFailure {
    /// In what way.
    pub kind: ErrorType,
    /// As a whole sentence.
    pub message: String,
}

impl Nodes {
    /// Begins without a call.
    #[must_use]
    pub fn new(surroundings: Surroundings) -> Self {
        let web = Web::default();
        let servers = Servers::new(web.clone());
        Self { shared: Arc::new(Shared { surroundings, web, servers }) }
    }

    /// Performs one call of a node, to its end. Those of the kinds `pty`, `function` and `graph` are data here, and fail as
    /// unsupported: whoever has terminals and runs performs them.
    ///
    /// Dropped before, it ends what it started, and nobody is told what came of it; to have a result, interrupt it.
    pub async fn run(&self, node: &Node, call: Call) -> NodeResult {
        let input = call.input.clone();
        if let NodeKind::Pty(_) | NodeKind::Function(_) | NodeKind::Graph(_) = node.kind {
            let message = format!("Node '{}' is of a kind that can not be run here.", node.id);
            return NodeResult::failed(node, input, ErrorType::Unsupported, message);
        }
        // A declaration is made of texts and numbers, which JSON has all of.
        let declared = serde_json::to_value(&node.kind).unwrap_or_default();
        let cut = Cut::of(node, &call);
        let filling = tokio::select! {
            filling = Filling::new(&declared, &input, &*self.shared.surroundings.secrets) => filling,
            failure = cut.reached() => Err(failure),
        };
        let filling = match filling {
            Ok(filling) => filling,
            Err(failure) => return NodeResult::of(node, input, failure.into()),
        };
        let came = self.perform(&node.kind, &filling, &call, &cut).await;
        let hidden = filling.hidden();
        let came = Came {
            output: hidden.value(came.output),
            failure: came.failure.map(|failure| Failure::new(failure.kind, hidden.text(failure.message))),
            attributes: hidden.map(came.attributes),
        };
        NodeResult::of(node, hidden.value(input), came)
    }

    async fn perform(&self, kind: &NodeKind, filling: &Filling, call: &Call, cut: &Cut) -> Came {
        let Shared { surroundings, web, servers } = &*self.shared;
        // What connects to a server is large, and every other call would have room for it.
        match kind {
            NodeKind::Identity(_) => Came::success(call.input.clone()),
            // It has to end its programs before it says that it is over.
            NodeKind::Bash(bash) => bash::run(bash, filling, surroundings, call.family.clone(), cut).await,
            NodeKind::Http(http) => within(cut, http::run(http, filling, web)).await,
            NodeKind::Mcp(mcp) => within(cut, Box::pin(mcp::run(mcp, filling, servers, surroundings))).await,
            NodeKind::Llm(llm) => llm::run(llm, filling, web, call.on_text.as_ref(), cut).await,
            NodeKind::Pty(_) | NodeKind::Function(_) | NodeKind::Graph(_) => {
                Failure::new(ErrorType::Unsupported, "Nodes of this kind are not run here.").into()
            }
        }
    }

    /// Returns how the program of a node that stays is started: in which folder, and with which variables set.
    ///
    /// # Errors
    /// With the reason, when a secret that the declaration refers to is not to be had.
    pub async fn start_of(&self, pty: &Pty) -> Result<(PathBuf, BTreeMap<String, String>), NodeFailure> {
        let surroundings = &self.shared.surroundings;
        let declared = serde_json::to_value(pty).unwrap_or_default();
        let filling = Filling::new(&declared, &Value::Null, &*surroundings.secrets).await;
        let filling = filling.map_err(|failure| NodeFailure { kind: failure.kind, message: failure.message })?;
        let environment = pty.env.iter().map(|(name, value)| (name.clone(), filling.text(value))).collect();
        Ok((bash::folder(pty.cwd.as_deref(), &filling, surroundings), environment))
    }

    /// Ends the MCP servers that were kept running. They are started again for whoever calls one afterwards.
    pub async fn close(&self) {
        self.shared.servers.close().await;
    }
}

async fn within(cut: &Cut, work: impl Future<Output = Came>) -> Came {
    tokio::select! {
        came = work => came,
        failure = cut.reached() => failure.into(),
    }
}

/// Returns the text form of an input: a text as it is, JSON for what has parts.
pub(crate) fn as_text(input: &Value) -> String {
    steplatch_workflow::substitute::as_text(input)
}
