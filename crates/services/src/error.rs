//! Errors of fetching the list of a service and of finding a service, and refusals of arguments.

use std::sync::Arc;

use steplatch_remote::schema::Violation;
use steplatch_remote::{AnswerError, AskError, TokenError};
use steplatch_workflow::Problems;
use tokio::task::JoinError;

/// Reason why a fetch of a service's list failed. The last one stays.
#[derive(Debug, thiserror::Error)]
pub(super) enum DiscoveryError {
    /// The service is disabled, or not configured any more.
    #[error("the service '{name}' is not used")]
    NotUsed {
        /// The name of the service.
        name: String,
    },
    /// The service gave no list.
    #[error(transparent)]
    Service(#[from] AskError),
    /// The token of the service cannot be read.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The settings make no callable MCP server.
    #[error("the MCP server cannot be asked: {0}")]
    Server(Problems),
    /// The daemon's own directory was removed.
    #[error(transparent)]
    Directory(#[from] std::io::Error),
    /// The MCP server failed; its words, cleaned and without the token.
    #[error("{words}")]
    Tool {
        /// At most 500 characters.
        words: String,
    },
    /// The MCP server answered with something else than a list.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The thread that stores the list ended.
    #[error("the list could not be taken over: {0}")]
    NotStored(JoinError),
    /// The task that waits for the list ended.
    #[error(transparent)]
    Interrupted(JoinError),
    /// The daemon is stopping.
    #[error("the daemon is stopping")]
    Stopping,
}

/// The error of one discovery, for all callers that wait for it.
pub(super) type SharedDiscoveryError = Arc<DiscoveryError>;

/// An unconfigured service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnknownService {
    /// The given name.
    pub(super) name: String,
    /// The names of the configured services.
    pub(super) configured: Vec<String>,
}

impl std::error::Error for UnknownService {}

impl std::fmt::Display for UnknownService {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, configured } = self;
        write!(out, "no remote service '{name}' is configured; ")?;
        match configured.as_slice() {
            [] => out.write_str("add a [[remote]] to the configuration"),
            names => write!(out, "there are {}", names.join(", ")),
        }
    }
}

/// Arguments that the schema of a tool does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidArguments {
    /// The name of the tool.
    pub tool: String,
    /// Every violation, with its place.
    pub violations: Vec<Violation>,
}

impl std::error::Error for InvalidArguments {}

impl std::fmt::Display for InvalidArguments {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "the arguments of {} are not as it takes them, so nothing was started: ", self.tool)?;
        for (index, Violation { path, problem }) in self.violations.iter().enumerate() {
            let (separator, colon) = (if index > 0 { "; " } else { "" }, if path.is_empty() { "" } else { ": " });
            write!(out, "{separator}{path}{colon}{problem}")?;
        }
        Ok(())
    }
}
