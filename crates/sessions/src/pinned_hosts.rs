//! Other machines that runs use: each stays the machine from the start of the run.

use std::time::Duration;

use async_recursion::async_recursion as boxed;
use steplatch_access::{Caller, HostPin, PinError, Pins};
use steplatch_host::{ConnectFailure, HostTarget, RemoteError, RemoteHostConfig};
use tokio::time::{Instant, sleep};

use crate::sessions::{Sessions, THIS_MACHINE, patience};
use crate::trouble::SessionError;

/// Time that the start of a run waits until `ssh` reports where a host leads.
const REPORT_TIME: Duration = Duration::from_secs(30);

/// The first and the longest pause before the next query of `ssh`.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// Reason for sending nothing to a machine for a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PinnedHostError {
    /// The host is another machine than at the start of the run.
    #[error(transparent)]
    Differs(#[from] PinError),
    /// It is unreachable, or its target was not reported.
    #[error(transparent)]
    Unreached(#[from] RemoteError),
}

impl From<PinnedHostError> for SessionError {
    fn from(error: PinnedHostError) -> Self {
        Self::NotAsked(error.to_string())
    }
}

/// Returns whether a name of a host means this machine.
#[must_use]
pub fn is_this_machine(host: &str) -> bool {
    host == THIS_MACHINE
}

impl Sessions {
    /// Returns the names of the machines that the user has configured.
    #[must_use]
    pub fn host_names(&self) -> Vec<String> {
        self.hosts.remote_status().into_iter().map(|status| status.config.name).collect()
    }

    /// Returns the current target of connections to a machine, if the report arrives in time; `None` if there is no
    /// such machine.
    #[boxed]
    pub async fn host_pin(&self, host: &str) -> Option<HostPin> {
        match self.target_within(host, REPORT_TIME).await {
            Ok(target) => target.map(HostPin::from),
            Err(error) => {
                tracing::warn!(%error, host, "where a host leads is not known");
                let config = self.remote_config(host)?;
                Some(HostTarget::configured(&config).into())
            }
        }
    }

    fn remote_config(&self, host: &str) -> Option<RemoteHostConfig> {
        self.hosts.remote_status().into_iter().map(|status| status.config).find(|config| config.name == host)
    }

    /// Asks `ssh` where a machine leads, again and again if it does not answer. Returns `None` if there is no such machine.
    async fn target_within(&self, host: &str, patience: Duration) -> Result<Option<HostTarget>, RemoteError> {
        let (began, mut pause) = (Instant::now(), RETRY_PAUSES.0);
        loop {
            match self.hosts.remote_target(host).await {
                Ok(target) => return Ok(Some(target)),
                Err(RemoteError::Unknown { .. }) => return Ok(None),
                Err(RemoteError::Failed { why: ConnectFailure::Connection(_), .. })
                    if began.elapsed() + pause < patience =>
                {
                    sleep(pause).await;
                    pause = (pause * 2).min(RETRY_PAUSES.1);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the machine of a terminal, if that is another one.
    #[must_use]
    pub fn machine_of(&self, session: &str) -> Option<String> {
        self.hosts.machine_of(session)
    }

    /// Checks that a machine is the one from the start of a run, before the daemon sends something there: by its
    /// configuration, and by the connection in use. Connects if there is no connection.
    ///
    /// # Errors
    /// If it is another machine, or unreachable.
    pub(crate) async fn check_pinned(&self, caller: &Caller, host: &str) -> Result<(), PinnedHostError> {
        let Some(pins) = caller.pins.as_ref().filter(|pins| pins.hosts.is_some()) else { return Ok(()) };
        let began = Instant::now();
        let now = self.target_within(host, patience(caller)).await?.map(HostPin::from);
        pins.check_host(host, now.as_ref())?;
        self.hosts.reach_remote(host, patience(caller).saturating_sub(began.elapsed())).await?;
        // The connection may be old, or new after a wait in which the configuration has changed.
        Ok(self.check_connection(pins, host)?)
    }

    /// Checks the machine of a terminal, before an input: the terminal uses the connection to it, so this does not read
    /// its configuration again.
    ///
    /// # Errors
    /// If the connection leads to another machine than at the start of the run.
    pub(crate) fn check_pinned_terminal(&self, caller: &Caller, session: &str) -> Result<(), PinnedHostError> {
        let Some(pins) = &caller.pins else { return Ok(()) };
        let Some(host) = self.machine_of(session) else { return Ok(()) };
        // A terminal that a definition has by its name alone is on a machine that it does not name.
        match pins.hosts.iter().flatten().any(|(known, _)| *known == host) {
            true => Ok(self.check_connection(pins, &host)?),
            false => Ok(()),
        }
    }

    fn check_connection(&self, pins: &Pins, host: &str) -> Result<(), PinError> {
        match self.hosts.dialed_target(host) {
            Ok(Some(dialed)) => {
                let mut dialed = HostPin::from(dialed);
                if dialed.keys.is_empty() {
                    // The dial of the first connection to a machine comes before its key: a person confirmed the key
                    // then, and later dials know it.
                    let pinned = pins.hosts.iter().flatten().find(|(known, _)| *known == host);
                    dialed.keys =
                        pinned.and_then(|(_, pin)| pin.as_ref()).map(|pin| pin.keys.clone()).unwrap_or_default();
                }
                pins.check_host(host, Some(&dialed))
            }
            // There was no connection to it since its configuration, or only by a way that cannot report this.
            Ok(None) => Ok(()),
            Err(_) => pins.check_host(host, None),
        }
    }
}
