//! The weakest proof of a person that gates accept, over time.
//!
//! The setting `gates.require` is in a file that an agent may be able to write. A stricter value applies immediately. A
//! weaker value applies after a person has confirmed it ([`ProofRequirement::lower`]), and only to later questions,
//! because a question requires the strictest value since its beginning. `gates.json` of the state directory stores the
//! history of the values, so that a restarted daemon knows them. This does not protect against a program that can also
//! write that file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use steplatch_clock as clock;
use steplatch_workflow::{Proof, Timestamp};

use crate::approver::ProofPolicy;
use crate::private_file;

/// Name of the file in the state directory.
const FILE_NAME: &str = "gates.json";

/// Version of the file format.
const FILE_VERSION: u32 = 1;

/// Maximum number of stored changes; merging the two oldest keeps the stricter value.
const MAX_CHANGES: usize = 64;

/// The proof that gates require, and its history.
#[derive(Debug)]
pub(crate) struct ProofRequirement {
    file: PathBuf,
    policy: Arc<dyn ProofPolicy>,
    /// In chronological order; never empty.
    changes: Mutex<Vec<RequirementChange>>,
}

/// A value and the start of its application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RequirementChange {
    at: Timestamp,
    require: Proof,
    /// The person who lowered the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    version: u32,
    changes: Vec<RequirementChange>,
}

impl ProofRequirement {
    pub(crate) fn new(state: &Path, policy: Arc<dyn ProofPolicy>) -> Self {
        let file = state.join(FILE_NAME);
        let stored = std::fs::read_to_string(&file).ok().and_then(|text| match serde_json::from_str::<Stored>(&text) {
            Ok(stored) if stored.version == FILE_VERSION && !stored.changes.is_empty() => Some(stored.changes),
            Ok(_) | Err(_) => {
                // Refusing all answers would not protect anything, because a program that can damage the file can also
                // remove it.
                tracing::warn!(file = %file.display(), "failed to read the file; the setting gates.require applies");
                None
            }
        });
        let initial_changes = || vec![RequirementChange { at: Timestamp(0), require: policy.weakest(), by: None }];
        let changes = Mutex::new(stored.unwrap_or_else(initial_changes));
        let requirement = Self { file, policy, changes };
        if requirement.current() > Proof::None {
            requirement.write(&requirement.changes.lock());
        }
        requirement
    }

    /// Returns the number of minutes that a tab of the page may keep the passphrase; 0 if it may not keep it.
    pub(crate) fn remember_minutes(&self) -> u64 {
        self.policy.remember_minutes()
    }

    /// Returns the current value. Records the setting if it is stricter.
    pub(crate) fn current(&self) -> Proof {
        self.updated_changes().last().map_or(Proof::Passkey, |change| change.require)
    }

    /// Returns the strictest value since a time.
    pub(crate) fn strictest_since(&self, since: Timestamp) -> Proof {
        let changes = self.updated_changes();
        let replaced_count = changes.iter().skip(1).take_while(|next| next.at < since).count();
        changes.iter().skip(replaced_count).map(|change| change.require).max().unwrap_or(Proof::Passkey)
    }

    /// Returns the setting if it is weaker than the current value, because a person has not confirmed it.
    pub(crate) fn unconfirmed(&self) -> Option<Proof> {
        let setting = self.policy.weakest();
        (setting < self.current()).then_some(setting)
    }

    /// Applies the setting. The caller has checked that the request is a person's.
    pub(crate) fn lower(&self, by: String) -> Proof {
        let mut changes = self.updated_changes();
        let require = self.policy.weakest();
        if changes.last().is_some_and(|last| require < last.require) {
            self.add(&mut changes, RequirementChange { at: clock::now(), require, by: Some(by) });
        }
        require
    }

    /// Returns the changes. Adds the setting if it is stricter than the last value.
    fn updated_changes(&self) -> MutexGuard<'_, Vec<RequirementChange>> {
        let mut changes = self.changes.lock();
        let require = self.policy.weakest();
        if changes.last().is_none_or(|last| require > last.require) {
            self.add(&mut changes, RequirementChange { at: clock::now(), require, by: None });
        }
        changes
    }

    fn add(&self, changes: &mut Vec<RequirementChange>, change: RequirementChange) {
        changes.push(change);
        if changes.len() > MAX_CHANGES {
            let first = changes.remove(0);
            changes[0] = RequirementChange { at: first.at, require: first.require.max(changes[0].require), by: None };
        }
        self.write(changes);
    }

    fn write(&self, changes: &[RequirementChange]) {
        let stored = Stored { version: FILE_VERSION, changes: changes.to_vec() };
        // Only log the error, because this daemon applies the requirement in any case.
        if let Err(error) = private_file::write(&self.file, &stored) {
            tracing::warn!(%error, file = %self.file.display(), "failed to store the requirement of gates");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Setting(Mutex<Proof>);

    impl ProofPolicy for Setting {
        fn weakest(&self) -> Proof {
            *self.0.lock()
        }
    }

    #[test]
    fn weaker_setting_applies_after_confirmation() {
        let state = tempfile::tempdir().unwrap();
        let setting = Arc::new(Setting(Mutex::new(Proof::Terminal)));
        let requirement = ProofRequirement::new(state.path(), setting.clone());
        let opened_at = clock::now();
        *setting.0.lock() = Proof::None;
        assert_eq!((requirement.current(), requirement.unconfirmed()), (Proof::Terminal, Some(Proof::None)));
        // The next daemon does not apply the weaker setting either.
        let requirement = ProofRequirement::new(state.path(), setting.clone());
        assert_eq!((requirement.current(), requirement.strictest_since(opened_at)), (Proof::Terminal, Proof::Terminal));
        assert_eq!(requirement.lower("ana".to_owned()), Proof::None);
        let later = Timestamp(clock::now().0 + 1);
        assert_eq!(
            (requirement.strictest_since(opened_at), requirement.strictest_since(later)),
            (Proof::Terminal, Proof::None)
        );
        assert_eq!((requirement.current(), requirement.unconfirmed()), (Proof::None, None));
        let requirement = ProofRequirement::new(state.path(), setting);
        assert_eq!(requirement.strictest_since(opened_at), Proof::Terminal, "the history is stored");
    }

    #[test]
    fn stricter_setting_applies_at_once_to_open_gates() {
        let state = tempfile::tempdir().unwrap();
        let setting = Arc::new(Setting(Mutex::new(Proof::None)));
        let requirement = ProofRequirement::new(state.path(), setting.clone());
        assert!(!state.path().join(FILE_NAME).exists(), "the weakest requirement is not stored");
        let opened_at = clock::now();
        *setting.0.lock() = Proof::Passphrase;
        assert_eq!(requirement.strictest_since(opened_at), Proof::Passphrase);
        // The requirement is raised and then lowered by a person while the gate is open.
        *setting.0.lock() = Proof::Dialog;
        requirement.lower("ana".to_owned());
        assert_eq!((requirement.strictest_since(opened_at), requirement.current()), (Proof::Passphrase, Proof::Dialog));
    }

    #[test]
    fn history_is_limited_and_keeps_the_strictest_value() {
        let state = tempfile::tempdir().unwrap();
        let setting = Arc::new(Setting(Mutex::new(Proof::Passkey)));
        let requirement = ProofRequirement::new(state.path(), setting.clone());
        for _ in 0..MAX_CHANGES {
            *setting.0.lock() = Proof::None;
            requirement.lower("ana".to_owned());
            *setting.0.lock() = Proof::Dialog;
            requirement.current();
        }
        assert_eq!(requirement.changes.lock().len(), MAX_CHANGES);
        assert_eq!(requirement.strictest_since(Timestamp(0)), Proof::Passkey);
    }

    #[test]
    fn setting_applies_if_the_file_is_unreadable() {
        let state = tempfile::tempdir().unwrap();
        std::fs::write(state.path().join(FILE_NAME), "{").unwrap();
        assert_eq!(ProofRequirement::new(state.path(), Arc::new(Proof::Dialog)).current(), Proof::Dialog);
    }
}
