//! What can be said about a service.

use std::time::Duration;

/// A remote service, as it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// What it is called here.
    pub name: String,
    /// Whether it is used at all.
    pub enabled: bool,
    /// Where it is: `https`, or `http` on loopback; without a slash at its end.
    pub base_url: String,
    /// The MCP server whose `workflows-list-tool` is asked for the list, instead of the REST route: its URL.
    pub discovery_mcp: Option<String>,
    /// What it is asked with.
    pub token: Option<Token>,
    /// How often the list is asked for; never by itself after the start without.
    pub discovery_interval: Option<Duration>,
    /// How long one run may take.
    pub execution_timeout: Duration,
    /// Runs that may be under way there at once.
    pub max_concurrent_executions: usize,
    /// Globs of the names that are offered, `!` excludes; all without.
    pub filter_patterns: Vec<String>,
    /// The longest time between two looks at a run.
    pub status_check_interval: Duration,
    /// How often a question that failed in passing is asked again. Starts never are.
    pub retry_attempts: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            enabled: false,
            base_url: String::new(),
            discovery_mcp: None,
            token: None,
            discovery_interval: None,
            execution_timeout: Duration::from_secs(300),
            max_concurrent_executions: 10,
            filter_patterns: Vec::new(),
            status_check_interval: Duration::from_secs(5),
            retry_attempts: 3,
        }
    }
}

/// Where a token is. It is never part of a configuration that is printed.
#[derive(Clone, PartialEq, Eq)]
pub enum Token {
    /// The token itself, out of a variable of the environment.
    Value(String),
    /// In a variable of the environment: `env:NAME`.
    Environment(String),
    /// In a file, which is read when it is needed: `file:PATH`.
    File(std::path::PathBuf),
    /// In the keyring of the user: `keyring:NAME`.
    Keyring(String),
}

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Value(_) => formatter.write_str("Value(…)"),
            Self::Environment(name) => write!(formatter, "Environment({name})"),
            Self::File(path) => write!(formatter, "File({})", path.display()),
            Self::Keyring(name) => write!(formatter, "Keyring({name})"),
        }
    }
}
