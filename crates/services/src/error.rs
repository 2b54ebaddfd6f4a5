//! Errors of discovery and of invalid arguments.

use std::sync::Arc;

use steplatch_remote::schema::Violation;
use steplatch_remote::{AnswerError, RequestError, TokenError};
use steplatch_workflow::Problems;
use tokio::task::JoinError;

/// Error of fetching the list of a service. The last valid list stays.
#[derive(Debug, thiserror::Error)]
pub(super) enum DiscoveryError {
    /// The service is disabled, or no longer configured.
    #[error("the service '{name}' is not enabled")]
    NotUsed {
        /// The name of the service.
        name: String,
    },
    /// The service returned no list.
    #[error(transparent)]
    Service(#[from] RequestError),
    /// The token of the service cannot be read.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The settings do not describe a valid MCP server.
    #[error("the MCP server is not valid: {0}")]
    Server(Problems),
    /// The daemon's own directory was removed.
    #[error(transparent)]
    Directory(#[from] std::io::Error),
    /// The MCP server failed.
    #[error("{message}")]
    Tool {
        /// The server's error, cleaned and without the token; at most 500 characters.
        message: String,
    },
    /// The answer of the MCP server is not a list.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The thread that stores the list ended.
    #[error("the list could not be stored: {0}")]
    NotStored(JoinError),
    /// The task that waits for the list ended.
    #[error(transparent)]
    Interrupted(JoinError),
    /// The daemon is stopping.
    #[error("the daemon is stopping")]
    Stopping,
}

/// Error of a discovery, shared by all callers that wait for it.
pub(super) type SharedDiscoveryError = Arc<DiscoveryError>;

/// No service with this name is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnknownService {
    /// The requested name.
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
            names => write!(out, "the configured services are {}", names.join(", ")),
        }
    }
}

/// Arguments that the schema of a tool does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidArguments {
    /// The name of the tool.
    pub tool: String,
    /// All violations of the schema.
    pub violations: Vec<Violation>,
}

impl std::error::Error for InvalidArguments {}

impl std::fmt::Display for InvalidArguments {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "the arguments of {} are invalid, so nothing was started: ", self.tool)?;
        for (index, Violation { path, problem }) in self.violations.iter().enumerate() {
            let (separator, colon) = (if index > 0 { "; " } else { "" }, if path.is_empty() { "" } else { ": " });
            write!(out, "{separator}{path}{colon}{problem}")?;
        }
        Ok(())
    }
}
