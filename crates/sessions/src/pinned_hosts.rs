//! Other machines that runs use: each is the one that the run was started with.

use steplatch_access::{Caller, HostPin, Pins};

use crate::sessions::{Sessions, THIS_MACHINE, patience};

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

    /// Returns where connections to a machine lead now; `None` if there is no such machine.
    pub async fn host_pin(&self, host: &str) -> Option<HostPin> {
        self.hosts.remote_target(host).await.ok().map(HostPin::from)
    }

    /// Returns the machine of a terminal, if that is another one.
    #[must_use]
    pub fn machine_of(&self, session: &str) -> Option<String> {
        self.hosts.machine_of(session)
    }

    /// Checks that a machine is the one that a run was started with, before something is sent there: by its configuration, and by the
    /// connection that is used, which is made here if there is none.
    ///
    /// # Errors
    /// When it is another machine, or is not reached.
    pub(crate) async fn check_pinned(&self, caller: &Caller, host: &str) -> Result<(), String> {
        let Some(pins) = caller.pins.as_ref().filter(|pins| pins.hosts.is_some()) else { return Ok(()) };
        let now = self.host_pin(host).await;
        pins.check_host(host, now.as_ref()).map_err(|error| error.to_string())?;
        self.hosts.check_remote(host, patience(caller)).await.map_err(|error| error.to_string())?;
        // The connection may have been made long ago, or just now after a wait in which the configuration was changed.
        self.check_connection(pins, host)
    }

    /// Checks the machine of a terminal, before something is typed there: the connection to it is the one that is used, so its
    /// configuration is not read again.
    ///
    /// # Errors
    /// When the connection leads to another machine than the run was started with.
    pub(crate) fn check_pinned_terminal(&self, caller: &Caller, session: &str) -> Result<(), String> {
        let Some(pins) = &caller.pins else { return Ok(()) };
        let Some(host) = self.machine_of(session) else { return Ok(()) };
        // A terminal that a definition has by its name alone is on a machine that it does not name.
        match pins.hosts.iter().flatten().any(|(known, _)| *known == host) {
            true => self.check_connection(pins, &host),
            false => Ok(()),
        }
    }

    fn check_connection(&self, pins: &Pins, host: &str) -> Result<(), String> {
        match self.hosts.dialed_target(host) {
            Ok(Some(dialed)) => {
                let mut dialed = HostPin::from(dialed);
                if dialed.keys.is_empty() {
                    // The first connection to a machine is dialled before its key is known: a person confirmed the key then,
                    // and it is known since.
                    let pinned = pins.hosts.iter().flatten().find(|(known, _)| *known == host);
                    dialed.keys =
                        pinned.and_then(|(_, pin)| pin.as_ref()).map(|pin| pin.keys.clone()).unwrap_or_default();
                }
                pins.check_host(host, Some(&dialed))
            }
            // It has not been connected to since it was configured, or by a way that cannot say.
            Ok(None) => Ok(()),
            Err(_) => pins.check_host(host, None),
        }
        .map_err(|error| error.to_string())
    }
}
