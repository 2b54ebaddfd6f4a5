//! Reload of a running daemon's settings when the file changes or on request.

use std::collections::BTreeMap;

use steplatch_daemon::Configuration;
use steplatch_remote::Config;
use tokio::sync::watch::Sender;

use super::watch::Watch;
use super::{BadSettings, Settings};
use crate::print;

/// Reloader of a daemon's settings.
pub(crate) struct Reload {
    settings: Settings,
    /// The last logged problems. They are not logged again.
    logged_problems: Option<BadSettings>,
    sender: Sender<Configuration>,
}

impl Reload {
    /// Creates a reloader for the settings of a starting daemon.
    pub(crate) fn new(settings: Settings, sender: Sender<Configuration>) -> Self {
        Self { settings, logged_problems: None, sender }
    }

    /// Applies changes, forever. `request` completes when a reload is requested.
    pub(crate) async fn apply_changes(mut self, mut request: impl AsyncFnMut()) {
        let mut watch = super::file().and_then(|file| {
            let warn = |error: &notify::Error| {
                tracing::warn!(%error, "the settings cannot be watched; send SIGHUP after a change");
            };
            Watch::for_file(&file).inspect_err(warn).ok()
        });
        // The file may have changed between the start of the daemon and the start of the watch.
        self.reload();
        loop {
            let is_requested = match &mut watch {
                Some(watch) => tokio::select! {
                    () = watch.changed() => false,
                    () = request() => true,
                },
                None => {
                    request().await;
                    true
                }
            };
            if is_requested {
                // After a request, log known problems again.
                self.logged_problems = None;
            }
            self.reload();
            if is_requested {
                tracing::info!("the settings were read again");
            }
        }
    }

    /// Reads the settings again.
    fn reload(&mut self) {
        let loaded = Settings::load();
        self.apply(loaded);
    }

    /// Applies new settings. Invalid settings change nothing.
    fn apply(&mut self, loaded: Result<Settings, BadSettings>) {
        let settings = match loaded {
            Ok(settings) => settings,
            Err(bad) if self.logged_problems.as_ref() == Some(&bad) => return,
            Err(bad) => {
                tracing::warn!("the settings were not changed: {bad}");
                self.logged_problems = Some(bad);
                return;
            }
        };
        self.logged_problems = None;
        for unknown in settings.unknown.iter().filter(|unknown| !self.settings.unknown.contains(unknown)) {
            tracing::warn!("{unknown}");
        }
        // Set the filter first, so that it applies to the messages about the other changes.
        if settings.log() != self.settings.log() {
            print::set_log_filter(settings.log());
        }
        for key in settings.changed_since(&self.settings) {
            if key.hot {
                tracing::info!("{} changed and is applied", key.name);
            } else if key.name.starts_with("terminals.") {
                // The host of the terminals outlives the daemon.
                let step = "steplatch daemon stop, which closes all terminals";
                tracing::warn!("{} changed and is applied by the next terminal host: {step}", key.name);
            } else {
                tracing::warn!("{} changed and is applied by the next start: steplatch daemon restart", key.name);
            }
        }
        let old_services: BTreeMap<&str, &Config> = self.settings.services().collect();
        let new_services: BTreeMap<&str, &Config> = settings.services().collect();
        for (name, config) in &new_services {
            match old_services.get(name) {
                Some(old) if old == config => {}
                Some(_) => tracing::info!("remote '{name}' changed and is applied"),
                None => tracing::info!("remote '{name}' was added"),
            }
        }
        for name in old_services.keys().filter(|name| !new_services.contains_key(*name)) {
            tracing::info!("remote '{name}' was removed");
        }
        if settings.notifications != self.settings.notifications {
            tracing::info!("the rules of notifications changed and are applied");
        }
        if settings.secrets != self.settings.secrets {
            tracing::info!("the secrets changed and are applied");
        }
        self.sender.send_if_modified(|configuration| {
            let new_configuration = settings.configuration();
            let changed = *configuration != new_configuration;
            *configuration = new_configuration;
            changed
        });
        self.settings = settings;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::*;

    #[test]
    fn change_is_reported_once_and_an_error_changes_nothing() {
        let (sender, mut receiver) = tokio::sync::watch::channel(Configuration::default());
        let mut reload = Reload::new(read("", &[]).unwrap(), sender);
        reload.apply(read("tools.library = true", &[]));
        assert!(receiver.has_changed().unwrap());
        assert!(receiver.borrow_and_update().library_tools);
        reload.apply(read("tools.library = true # a remark", &[]));
        assert!(!receiver.has_changed().unwrap(), "an unknown key changes nothing");
        reload.apply(read("tools.library = 'perhaps'", &[]));
        assert!(!receiver.has_changed().unwrap());
        assert!(receiver.borrow().library_tools, "invalid settings change nothing");
        reload.apply(read("tools.library = true\n[[remote]]\nname = 'a'\n", &[]));
        assert_eq!(receiver.borrow_and_update().remotes[0].name, "a");
        reload.apply(read("", &[]));
        assert!(!receiver.borrow_and_update().library_tools, "a removed setting gets its default");
    }
}
