//! Remote hosts for terminals.

use std::time::Duration;

use async_recursion::async_recursion as boxed;
use steplatch_clock as clock;
use steplatch_host::{RemoteHostConfig, RemoteHostState, RemoteHostStatus};
use steplatch_protocol::{CheckHost, CheckHostReply, ListHostsReply, RemoteHostInfo};

use crate::sessions::Sessions;

/// Maximum wait for a connection, in seconds.
const MAX_TIMEOUT_SECONDS: u32 = 600;

/// Maximum wait for the daemon to read a changed configuration.
const CONFIG_READ_TIMEOUT: Duration = Duration::from_secs(3);

impl Sessions {
    /// Returns the configured hosts, sorted by name.
    pub(crate) fn remote_hosts(&self) -> Vec<RemoteHostInfo> {
        self.hosts.remote_status().into_iter().map(to_host_info).collect()
    }

    /// Lists the configured hosts.
    #[must_use]
    pub fn list_hosts(&self) -> ListHostsReply {
        ListHostsReply { success: true, hosts: self.remote_hosts() }
    }

    /// Connects to a remote host now.
    #[boxed]
    pub async fn check_host(&self, verb: CheckHost) -> CheckHostReply {
        if !(1..=MAX_TIMEOUT_SECONDS).contains(&verb.timeout_seconds) {
            let error =
                format!("timeout_seconds must be between 1 and {MAX_TIMEOUT_SECONDS}, not {}", verb.timeout_seconds);
            return CheckHostReply { error: Some(error), ..CheckHostReply::default() };
        }
        if let Some(ssh) = verb.ssh {
            let added = RemoteHostConfig { name: verb.host.clone(), ssh };
            // Ignore a timeout, because the reply reports a missing host as unknown.
            let _ = tokio::time::timeout(CONFIG_READ_TIMEOUT, self.hosts.await_remote(&added)).await;
        }
        let checked = self.hosts.check_remote(&verb.host, Duration::from_secs(verb.timeout_seconds.into())).await;
        let host = self.hosts.remote_status().into_iter().find(|status| status.config.name == verb.host);
        CheckHostReply {
            success: checked.is_ok(),
            host: host.map(to_host_info),
            question: None,
            error: checked.err().map(|error| error.to_string()),
        }
    }
}

fn to_host_info(status: RemoteHostStatus) -> RemoteHostInfo {
    let (state, since, error) = match status.state {
        RemoteHostState::Idle => ("idle", None, None),
        RemoteHostState::Connecting => ("connecting", None, None),
        RemoteHostState::Connected => ("connected", None, None),
        RemoteHostState::Lost { since, reason } => {
            ("lost", Some(clock::system_iso8601(since)), Some(reason.to_string()))
        }
    };
    RemoteHostInfo {
        name: status.config.name,
        ssh: status.config.ssh,
        state: state.to_owned(),
        since,
        error,
        version: status.version,
        terminals: status.terminals,
    }
}
