//! Reloading of a running daemon's settings: when their file changes, or on request.

use std::collections::BTreeMap;

use steplatch_daemon::Configuration;
use steplatch_remote::Config;
use tokio::sync::watch::Sender;

use super::watch::Watch;
use super::{BadSettings, Settings};
use crate::print;

/// The settings of the daemon, and the channel for changes.
pub(crate) struct Reload {
    settings: Settings,
    /// The last complaint, so that the log has it once.
    complaint: Option<BadSettings>,
    told: Sender<Configuration>,
}

impl Reload {
    /// Creates it with the `settings` at the daemon's start.
    pub(crate) fn new(settings: Settings, told: Sender<Configuration>) -> Self {
        Self { settings, complaint: None, told }
    }

    /// Applies changes, forever; `asked` waits for a request.
    pub(crate) async fn apply_changes(mut self, mut asked: impl AsyncFnMut()) {
        let mut watch = super::file().and_then(|file| {
            let failed = |error: &notify::Error| {
                tracing::warn!(%error, "the settings cannot be watched; send SIGHUP after a change");
            };
            Watch::for_file(&file).inspect_err(failed).ok()
        });
        // The file may have changed between the start and the watch.
        self.again();
        loop {
            let was_asked = match &mut watch {
                Some(watch) => tokio::select! {
                    () = watch.changed() => false,
                    () = asked() => true,
                },
                None => {
                    asked().await;
                    true
                }
            };
            if was_asked {
                // A request logs a complaint again, and also that there is none.
                self.complaint = None;
            }
            self.again();
            if was_asked {
                tracing::info!("the settings were read again");
            }
        }
    }

    /// Reads the settings again.
    fn again(&mut self) {
        let read = Settings::load();
        self.apply(read);
    }

    /// Applies new settings; invalid ones change nothing.
    fn apply(&mut self, read: Result<Settings, BadSettings>) {
        let settings = match read {
            Ok(settings) => settings,
            Err(bad) if self.complaint.as_ref() == Some(&bad) => return,
            Err(bad) => {
                tracing::warn!("the settings were not changed: {bad}");
                self.complaint = Some(bad);
                return;
            }
        };
        self.complaint = None;
        for unknown in settings.unknown.iter().filter(|unknown| !self.settings.unknown.contains(unknown)) {
            tracing::warn!("{unknown}");
        }
        // First, so that the new filter applies to the log of the other changes.
        if settings.log() != self.settings.log() {
            print::log_filter(settings.log());
        }
        for key in settings.changed_since(&self.settings) {
            if key.hot {
                tracing::info!("{} changed and is applied", key.name);
            } else {
                tracing::warn!("{} changed and is applied by the next start: steplatch daemon restart", key.name);
            }
        }
        let before: BTreeMap<&str, &Config> = self.settings.services().collect();
        let after: BTreeMap<&str, &Config> = settings.services().collect();
        for (name, config) in &after {
            match before.get(name) {
                Some(old) if old == config => {}
                Some(_) => tracing::info!("remote '{name}' changed and is applied"),
                None => tracing::info!("remote '{name}' was added"),
            }
        }
        for name in before.keys().filter(|name| !after.contains_key(*name)) {
            tracing::info!("remote '{name}' was removed");
        }
        self.told.send_if_modified(|configuration| {
            let new = settings.configuration();
            let changed = *configuration != new;
            *configuration = new;
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
    fn what_changed_is_told_once_and_a_mistake_changes_nothing() {
        let (sender, mut receiver) = tokio::sync::watch::channel(Configuration::default());
        let mut reload = Reload::new(read("", &[]).unwrap(), sender);
        reload.apply(read("tools.library = true", &[]));
        assert!(receiver.has_changed().unwrap());
        assert!(receiver.borrow_and_update().library_tools);
        reload.apply(read("tools.library = true # a remark", &[]));
        assert!(!receiver.has_changed().unwrap(), "a remark is no change");
        reload.apply(read("tools.library = 'perhaps'", &[]));
        assert!(!receiver.has_changed().unwrap());
        assert!(receiver.borrow().library_tools, "it stays as it was");
        reload.apply(read("tools.library = true\n[[remote]]\nname = 'a'\n", &[]));
        assert_eq!(receiver.borrow_and_update().remotes[0].name, "a");
        reload.apply(read("", &[]));
        assert!(!receiver.borrow_and_update().library_tools, "what is taken out is the default again");
    }
}
