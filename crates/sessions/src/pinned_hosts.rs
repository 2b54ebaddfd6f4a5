//! Checks that the remote hosts of a run are the same as at its start.

use std::time::Duration;

use async_recursion::async_recursion as boxed;
use steplatch_access::{Caller, HostPin, PinError, Pins};
use steplatch_host::{ConnectFailure, HostTarget, RemoteError, RemoteHostConfig};
use tokio::time::{Instant, sleep};

use crate::error::SessionError;
use crate::sessions::{Sessions, THIS_MACHINE, connect_timeout};

/// Maximum wait of a run's start for `ssh`'s report of a host's target.
const TARGET_TIMEOUT: Duration = Duration::from_secs(30);

/// First pause before the next query of `ssh`; each pause is twice as long as the last.
const MIN_RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Maximum pause before the next query of `ssh`.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(10);

/// Reason for sending nothing to a remote host for a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PinnedHostError {
    /// The host is a different machine than at the start of the run.
    #[error(transparent)]
    Differs(#[from] PinError),
    /// The host is unreachable, or its target was not reported.
    #[error(transparent)]
    Unreached(#[from] RemoteError),
}

impl From<PinnedHostError> for SessionError {
    fn from(error: PinnedHostError) -> Self {
        Self::NotAsked(error.to_string())
    }
}

/// Returns whether a host name refers to this computer.
#[must_use]
pub fn is_this_machine(host: &str) -> bool {
    host == THIS_MACHINE
}

impl Sessions {
    /// Returns the names of the hosts that the user has configured.
    #[must_use]
    pub fn host_names(&self) -> Vec<String> {
        self.hosts.remote_status().into_iter().map(|status| status.config.name).collect()
    }

    /// Returns the current target of connections to a remote host, if the report arrives in time; `None` if there is no
    /// such host.
    #[boxed]
    pub async fn host_pin(&self, host: &str) -> Option<HostPin> {
        match self.target_within(host, TARGET_TIMEOUT).await {
            Ok(target) => target.map(HostPin::from),
            Err(error) => {
                tracing::warn!(%error, host, "the target of a host is unknown");
                let config = self.remote_config(host)?;
                Some(HostTarget::configured(&config).into())
            }
        }
    }

    fn remote_config(&self, host: &str) -> Option<RemoteHostConfig> {
        self.hosts.remote_status().into_iter().map(|status| status.config).find(|config| config.name == host)
    }

    /// Queries `ssh` for the target of a remote host and retries if it does not answer. Returns `None` without such a
    /// host.
    async fn target_within(&self, host: &str, timeout: Duration) -> Result<Option<HostTarget>, RemoteError> {
        let (began, mut pause) = (Instant::now(), MIN_RETRY_PAUSE);
        loop {
            match self.hosts.remote_target(host).await {
                Ok(target) => return Ok(Some(target)),
                Err(RemoteError::Unknown { .. }) => return Ok(None),
                Err(RemoteError::Failed { reason: ConnectFailure::Connection(_), .. })
                    if began.elapsed() + pause < timeout =>
                {
                    sleep(pause).await;
                    pause = (pause * 2).min(MAX_RETRY_PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the host of a terminal, unless it is this one.
    #[must_use]
    pub fn machine_of(&self, session: &str) -> Option<String> {
        self.hosts.machine_of(session)
    }

    /// Checks that a host is the same machine as at the start of a run, before the daemon sends requests there. Checks
    /// its configuration and the current connection. Connects if there is no connection.
    ///
    /// # Errors
    /// If the host is a different machine, or unreachable.
    pub(crate) async fn check_pinned(&self, caller: &Caller, host: &str) -> Result<(), PinnedHostError> {
        let Some(pins) = caller.pins.as_ref().filter(|pins| pins.hosts.is_some()) else { return Ok(()) };
        let began = Instant::now();
        let current_pin = self.target_within(host, connect_timeout(caller)).await?.map(HostPin::from);
        pins.check_host(host, current_pin.as_ref())?;
        self.hosts.reach_remote(host, connect_timeout(caller).saturating_sub(began.elapsed())).await?;
        // The connection may be older or newer than the checked configuration.
        Ok(self.check_connection(pins, host)?)
    }

    /// Checks the host of a terminal before an input. Checks only the connection that the terminal uses, not the
    /// configuration.
    ///
    /// # Errors
    /// If the connection leads to a different machine than at the start of the run.
    pub(crate) fn check_pinned_terminal(&self, caller: &Caller, session: &str) -> Result<(), PinnedHostError> {
        let Some(pins) = &caller.pins else { return Ok(()) };
        let Some(host) = self.machine_of(session) else { return Ok(()) };
        // A definition that names only a terminal does not pin its host.
        match pins.hosts.iter().flatten().any(|(known, _)| *known == host) {
            true => Ok(self.check_connection(pins, &host)?),
            false => Ok(()),
        }
    }

    fn check_connection(&self, pins: &Pins, host: &str) -> Result<(), PinError> {
        match self.hosts.dialed_target(host) {
            Ok(Some(target)) => {
                let mut pin = HostPin::from(target);
                if pin.keys.is_empty() {
                    // The first connection had no known key, and a person then confirmed the key. Assume the pinned
                    // keys.
                    let pinned = pins.hosts.iter().flatten().find(|(known, _)| *known == host);
                    pin.keys = pinned.and_then(|(_, pin)| pin.as_ref()).map(|pin| pin.keys.clone()).unwrap_or_default();
                }
                pins.check_host(host, Some(&pin))
            }
            // There was no connection since its configuration, or its transport cannot report the target.
            Ok(None) => Ok(()),
            Err(_) => pins.check_host(host, None),
        }
    }
}
