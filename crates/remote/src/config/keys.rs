//! The keys of a service's configuration, as a table.

use std::ops::RangeInclusive;

/// A key of a service's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Name of the key in a table.
    pub name: &'static str,
    /// Name of the environment variable.
    pub variable: &'static str,
    /// The default value.
    pub default: &'static str,
    /// The allowed values, as displayed.
    pub bounds: &'static str,
    /// Meaning of the key.
    pub description: &'static str,
}

pub(super) const DISCOVERY_INTERVAL: RangeInclusive<u64> = 0..=86_400_000;
pub(super) const EXECUTION_TIMEOUT: RangeInclusive<u64> = 1_000..=3_600_000;
pub(super) const MAX_CONCURRENT_EXECUTIONS: RangeInclusive<u64> = 1..=100;
pub(super) const STATUS_CHECK_INTERVAL: RangeInclusive<u64> = 1_000..=300_000;
pub(super) const RETRY_ATTEMPTS: RangeInclusive<u64> = 0..=10;

/// All keys, except the name of a service.
pub const KEYS: &[Key] = &[
    Key {
        name: "enabled",
        variable: "WORKFLOWS_ENABLED",
        default: "false",
        bounds: "true or false",
        description: "enables the service",
    },
    Key {
        name: "base_url",
        variable: "WORKFLOWS_API_BASE_URL",
        default: "",
        bounds: "a URL with https, or with http on loopback",
        description: "address of the service",
    },
    Key {
        name: "discovery_mcp",
        variable: "WORKFLOWS_DISCOVERY_MCP_URL",
        default: "",
        bounds: "a URL with https, or with http on loopback",
        description: "MCP server whose tool workflows-list-tool lists the workflows; it also receives the token",
    },
    Key {
        name: "token",
        variable: "WORKFLOWS_API_TOKEN",
        default: "",
        bounds: "a source as for [secrets](secrets.md), such as keyring:NAME; the variable holds the token itself",
        description: "token for requests to the service",
    },
    Key {
        name: "discovery_interval",
        variable: "WORKFLOW_DISCOVERY_INTERVAL",
        default: "0",
        bounds: "0 to 86400000 ms",
        description: "interval between updates of the list (0: only at the start and on demand)",
    },
    Key {
        name: "execution_timeout",
        variable: "WORKFLOW_EXECUTION_TIMEOUT",
        default: "300000",
        bounds: "1000 to 3600000 ms",
        description: "time limit of one run",
    },
    Key {
        name: "max_concurrent_executions",
        variable: "WORKFLOW_MAX_CONCURRENT_EXECUTIONS",
        default: "10",
        bounds: "1 to 100",
        description: "maximum number of concurrent runs at the service; further calls wait",
    },
    Key {
        name: "filter_patterns",
        variable: "WORKFLOW_FILTER_PATTERNS",
        default: "",
        bounds: "up to 100 globs; separated by commas in the variable",
        description: "names of the offered workflows; '!' excludes; empty offers all",
    },
    Key {
        name: "status_check_interval",
        variable: "WORKFLOW_STATUS_CHECK_INTERVAL",
        default: "5000",
        bounds: "1000 to 300000 ms",
        description: "maximum time between two status requests for a run",
    },
    Key {
        name: "retry_attempts",
        variable: "WORKFLOW_RETRY_ATTEMPTS",
        default: "3",
        bounds: "0 to 10",
        description: "number of retries after a temporary failure; starts are never retried",
    },
];

pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Returns the names of all keys, for the error about an unknown key.
pub(super) fn list_names() -> String {
    let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
    format!("name, {}", names.join(", "))
}
