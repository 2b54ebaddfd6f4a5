//! The approver's passphrase: if one is set, answers to gates for people require it.
//!
//! Owns the file `approver.json` of the state directory: a hash (Argon2id, as a PHC string,
//! <https://github.com/P-H-C/phc-string-format>), the time of its setting, and a key pair that the passphrase opens.
//! The file does not contain the passphrase itself. After a removal, `approver.cleared.json` has the private key
//! unencrypted. If the file is unreadable, the passphrase is unknown, and the approver refuses answers.
//!
//! The passphrase prevents agents on the daemon's own surfaces from answering as a person, and prevents runs in a copy
//! of the state from continuing without the person. It does not protect against a process that writes this user's
//! files.

mod key;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{self, PasswordHasher as _, PasswordVerifier as _};
use async_recursion::async_recursion as boxed;
use serde::{Deserialize, Serialize};
use steplatch_clock as clock;
use steplatch_protocol::{
    GetApproverReply, LowerRequirement, LowerRequirementReply, Passphrase, SetApprover, SetApproverReply,
};
use steplatch_workflow::{Proof, Timestamp};
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::JoinError;

use crate::private_file;
use crate::requirement::ProofRequirement;
use key::StoredKey;
pub use key::{KeyError, OpeningKey, SealingKey, is_sealed};

/// Minimum length of a passphrase that can be set, in characters.
const MIN_PASSPHRASE_CHARS: usize = 6;

/// Maximum length of a passphrase, in bytes.
const MAX_PASSPHRASE_BYTES: usize = 1024;

/// Delay after the first wrong attempt. Each subsequent wrong attempt doubles the delay.
const FIRST_DELAY: Duration = Duration::from_secs(1);

/// Maximum delay.
const MAX_DELAY: Duration = Duration::from_secs(300);

/// Length of a hash's salt, in bytes.
const SALT_BYTES: usize = 16;

/// Proof of a person that gates for people require; it may change while the daemon runs.
pub trait ProofPolicy: std::fmt::Debug + Send + Sync {
    /// Returns the weakest proof that counts now.
    fn weakest(&self) -> Proof;

    /// Returns the number of minutes that a tab of the page may keep the passphrase; 0 if it may not keep it.
    fn remember_minutes(&self) -> u64 {
        0
    }
}

/// A constant requirement.
impl ProofPolicy for Proof {
    fn weakest(&self) -> Proof {
        *self
    }
}

/// Guards the gates for people.
#[derive(Debug)]
pub struct Approver {
    file: PathBuf,
    /// Lock for reading and writing the file, so that checks and changes of the passphrase exclude each other.
    check_lock: Mutex<()>,
    /// The current sealing key, for every append of a waiting run.
    sealing_cache: parking_lot::Mutex<CachedKey>,
    requirement: ProofRequirement,
}

/// The sealing key of one version of the file; without a file, both fields are `None`.
#[derive(Debug, Default)]
struct CachedKey {
    version: Option<FileVersion>,
    key: Option<SealingKey>,
}

/// Identifies the content of a file that is only ever replaced: device, inode, length, and the time of the last inode
/// change in seconds and nanoseconds.
type FileVersion = (u64, u64, u64, i64, i64);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Stored {
    version: u32,
    hash: String,
    since: String,
    /// Wrong attempts, by source. The file stores the attempts with the hash, so that a restart does not reset them.
    #[serde(default)]
    tries: BTreeMap<String, Attempts>,
    /// The first key seals runs that wait for a person; any of the keys may open such a run. Older daemons stored no
    /// key; the first correct passphrase adds a key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    keys: Vec<StoredKey>,
}

/// Wrong attempts from one source.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Attempts {
    /// Number of consecutive wrong attempts.
    wrong: u32,
    /// End of the delay; until then, further attempts from this source are refused.
    until: Option<Timestamp>,
}

/// Version of the file format.
const FILE_VERSION: u32 = 1;

/// File next to `approver.json` with the private key, after the removal of the passphrase.
const CLEARED_KEY_FILE: &str = "approver.cleared.json";

/// The source of a passphrase. A wrong passphrase delays only further attempts from the same source: guesses over the
/// network do not delay an answer in a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptSource {
    /// The daemon's socket.
    Socket,
    /// A client over the network.
    Network(IpAddr),
}

/// Maximum number of addresses with separate counts of wrong attempts; the remaining addresses share one count.
const MAX_ADDRESSES: usize = 64;

/// Key of the shared count.
const OTHER_ADDRESSES_KEY: &str = "other addresses";

impl AttemptSource {
    /// Returns the key of this source in the count of wrong attempts.
    fn key(self, attempts: &BTreeMap<String, Attempts>) -> String {
        let address = match self {
            Self::Socket => return "socket".to_owned(),
            // All loopback addresses are this computer, and one computer may have many IPv6 addresses.
            Self::Network(address) if address.to_canonical().is_loopback() => "loopback".to_owned(),
            Self::Network(address) => match address.to_canonical() {
                IpAddr::V4(address) => address.to_string(),
                IpAddr::V6(address) => {
                    let [a, b, c, d, ..] = address.segments();
                    format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
                }
            },
        };
        match attempts.contains_key(&address) || attempts.len() < MAX_ADDRESSES {
            true => address,
            false => OTHER_ADDRESSES_KEY.to_owned(),
        }
    }
}

/// Reason why a passphrase is refused.
#[derive(Debug, thiserror::Error)]
pub enum PassphraseError {
    #[error(
        "This needs the approver's passphrase: 'steplatch gates answer' asks for it, in the approver's own terminal"
    )]
    /// A passphrase is set, and the request has none.
    Missing,
    #[error("Wrong passphrase; try again in {0} s")]
    /// The passphrase is wrong. Seconds until the check of the next attempt.
    Wrong(u64),
    #[error("The passphrase was not checked after earlier wrong ones; try again in {0} s")]
    /// Earlier attempts were wrong. Seconds until the check of the next attempt.
    TooSoon(u64),
    #[error("The approver's passphrase cannot be read, so nothing is approved: {0}")]
    /// Reading the file with its hash failed.
    Unreadable(ApproverError),
}

/// Failure to read or change the stored passphrase.
#[derive(Debug, thiserror::Error)]
pub enum ApproverError {
    /// Reading or writing the file failed.
    #[error("'{}': {cause}", .file.display())]
    Storage {
        /// Path of the file.
        file: PathBuf,
        /// Error from the system.
        cause: io::Error,
    },
    /// Writing a change failed. The caller names the file.
    #[error("{0}")]
    Write(io::Error),
    /// The file has an unknown format.
    #[error("'{}': {cause}", .file.display())]
    Malformed {
        /// Path of the file.
        file: PathBuf,
        /// The position and the cause.
        cause: serde_json::Error,
    },
    /// A newer build wrote the file.
    #[error("'{}' has version {version}, of a newer steplatch", .file.display())]
    Newer {
        /// Path of the file.
        file: PathBuf,
        /// Version of the file.
        version: u32,
    },
    /// The stored hash is invalid.
    #[error("{0}")]
    MalformedHash(password_hash::phc::Error),
    /// Hashing the passphrase failed.
    #[error("{0}")]
    Hash(password_hash::Error),
    /// Generating, sealing or opening the key of the passphrase failed.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The thread that does the work ended.
    #[error(transparent)]
    Interrupted(#[from] JoinError),
}

impl PassphraseError {
    /// Returns whether another passphrase may help.
    pub fn wants_another(&self) -> bool {
        !matches!(self, Self::Unreadable(_))
    }

    /// Returns the delay in seconds before a retry with the same passphrase, if the passphrase was not checked.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        match self {
            Self::TooSoon(seconds) => Some(*seconds),
            Self::Missing | Self::Wrong(_) | Self::Unreadable(_) => None,
        }
    }
}

impl Approver {
    /// Creates the approver of a state directory.
    pub fn new(state: &Path, policy: Arc<dyn ProofPolicy>) -> Self {
        Self {
            file: state.join("approver.json"),
            check_lock: Mutex::default(),
            sealing_cache: parking_lot::Mutex::default(),
            requirement: ProofRequirement::new(state, policy),
        }
    }

    /// Returns the weakest proof of a person that gates for people accept now. A stricter setting applies from this
    /// call onwards.
    pub fn requires(&self) -> Proof {
        self.requirement.current()
    }

    /// Returns the weakest proof that a gate opened at `opened_at` accepts: the strictest requirement since then.
    pub fn requires_since(&self, opened_at: Timestamp) -> Proof {
        self.requirement.strictest_since(opened_at)
    }

    /// Applies a weaker setting for a person who knows the passphrase, if one is set.
    #[boxed]
    pub async fn lower_requirement(
        &self,
        verb: LowerRequirement,
        source: AttemptSource,
        by: String,
    ) -> LowerRequirementReply {
        let required = |require: Proof| Some(require.name().to_owned());
        match self.verify(verb.passphrase.as_ref(), source).await {
            Ok(_) => {
                let requires = required(self.requirement.lower(by));
                LowerRequirementReply { success: true, requires, ..LowerRequirementReply::default() }
            }
            Err(error) => LowerRequirementReply {
                requires: required(self.requires()),
                passphrase_wanted: error.wants_another(),
                retry_after_seconds: error.retry_after_seconds(),
                error: Some(error.to_string()),
                ..LowerRequirementReply::default()
            },
        }
    }

    /// Checks that `passphrase` is the approver's and returns whether one is set. Any value passes if none is set.
    ///
    /// # Errors
    ///
    /// If the passphrase is wrong or not checked. Each wrong attempt delays the next attempt from the same source
    /// longer.
    #[boxed]
    pub async fn verify(
        &self,
        passphrase: Option<&Passphrase>,
        source: AttemptSource,
    ) -> Result<bool, PassphraseError> {
        let _guard = self.check_lock.lock().await;
        self.check_locked(passphrase, source).await.map(|stored| stored.is_some())
    }

    /// Checks a passphrase like [`Self::verify`], and returns the key that it opens; `None` if no passphrase is set.
    /// Takes twice as long.
    ///
    /// # Errors
    /// Same as [`Self::verify`].
    #[boxed]
    pub async fn opening_key(
        &self,
        passphrase: Option<&Passphrase>,
        source: AttemptSource,
    ) -> Result<Option<OpeningKey>, PassphraseError> {
        let _guard = self.check_lock.lock().await;
        self.open_locked(passphrase, source).await
    }

    /// Same as [`Self::opening_key`], for a caller that holds `check_lock`.
    async fn open_locked(
        &self,
        passphrase: Option<&Passphrase>,
        source: AttemptSource,
    ) -> Result<Option<OpeningKey>, PassphraseError> {
        let stored = self.check_locked(passphrase, source).await?;
        let Some((Stored { keys, .. }, passphrase)) = stored.zip(passphrase.cloned()) else { return Ok(None) };
        run_blocking(move || Ok(StoredKey::open_all(&keys, &passphrase)?))
            .await
            .map(Some)
            .map_err(PassphraseError::Unreadable)
    }

    /// Returns the key that seals the private parts of runs that wait for a person. `None` if no passphrase is set.
    /// Returns the last known key while the file is unreadable.
    #[boxed]
    pub async fn sealing_key(&self) -> Option<SealingKey> {
        // Read the version before the file, so that the next call detects a change in the meantime.
        let fresh = match self.version().await {
            Ok(None) => Some(CachedKey::default()),
            Ok(version) if version != self.sealing_cache.lock().version => self.stored().await.ok().map(|stored| {
                let key = stored.and_then(|stored| stored.keys.first().and_then(StoredKey::sealing_key));
                CachedKey { version, key }
            }),
            Ok(_) | Err(_) => None,
        };
        let mut cached = self.sealing_cache.lock();
        if let Some(fresh) = fresh {
            *cached = fresh;
        }
        cached.key.clone()
    }

    /// Returns the version of the file; `None` without a file.
    async fn version(&self) -> io::Result<Option<FileVersion>> {
        match tokio::fs::metadata(&self.file).await {
            Ok(metadata) => {
                Ok(Some((metadata.dev(), metadata.ino(), metadata.len(), metadata.ctime(), metadata.ctime_nsec())))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the key of a removed passphrase. This key opens the passphrase's seals without a person. Deletes the key
    /// if a passphrase is set, because a daemon that is killed during a change of the passphrase leaves the old key
    /// behind.
    #[boxed]
    pub async fn cleared_key(&self) -> Option<OpeningKey> {
        let cleared = self.file.with_file_name(CLEARED_KEY_FILE);
        if self.file.exists() {
            // Ignore the error, because the file may not exist.
            let _ = tokio::fs::remove_file(&cleared).await;
            return None;
        }
        let text = tokio::fs::read_to_string(cleared).await.ok()?;
        OpeningKey::from_base64(&serde_json::from_str::<Vec<String>>(&text).ok()?)
    }

    /// Checks a passphrase, for a caller that holds `check_lock`. Returns the stored data; `None` if no passphrase is
    /// set.
    async fn check_locked(
        &self,
        passphrase: Option<&Passphrase>,
        source: AttemptSource,
    ) -> Result<Option<Stored>, PassphraseError> {
        let Some(mut stored) = self.stored().await.map_err(PassphraseError::Unreadable)? else { return Ok(None) };
        let Some(passphrase) = passphrase.filter(|passphrase| !passphrase.0.is_empty()) else {
            return Err(PassphraseError::Missing);
        };
        let now = clock::now();
        let remaining_delay = |attempts: &Attempts| {
            let remaining = attempts.until.map(|until| until.since(now)).unwrap_or_default();
            // A clock set back must not extend the delay beyond a wrong passphrase's delay.
            remaining.min(MAX_DELAY)
        };
        let key = source.key(&stored.tries);
        let mut attempts = stored.tries.get(&key).copied().unwrap_or_default();
        let delay = remaining_delay(&attempts);
        if !delay.is_zero() {
            return Err(PassphraseError::TooSoon(whole_seconds(delay)));
        }
        let (passphrase, hash, has_keys) = (passphrase.clone(), stored.hash.clone(), !stored.keys.is_empty());
        let check = run_blocking(move || {
            let hash = PasswordHash::new(&hash).map_err(ApproverError::MalformedHash)?;
            if passphrase.0.len() > MAX_PASSPHRASE_BYTES
                || Argon2::default().verify_password(passphrase.0.as_bytes(), &hash).is_err()
            {
                return Ok(None);
            }
            let new_keys =
                if has_keys { Vec::new() } else { StoredKey::seal_all(&OpeningKey::generate()?, &passphrase)? };
            Ok(Some(new_keys))
        });
        if let Some(new_keys) = check.await.map_err(PassphraseError::Unreadable)? {
            let has_changed = stored.tries.remove(&key).is_some() || !new_keys.is_empty();
            stored.keys.extend(new_keys);
            if has_changed {
                self.store_attempts(stored.clone()).await?;
            }
            return Ok(Some(stored));
        }
        let delay = FIRST_DELAY.saturating_mul(1 << attempts.wrong.min(16)).min(MAX_DELAY);
        attempts = Attempts { wrong: attempts.wrong.saturating_add(1), until: Some(clock::now().after(delay)) };
        tracing::warn!(in_a_row = attempts.wrong, from = key, "wrong approver's passphrase");
        // Drop the sources without a remaining delay.
        if stored.tries.len() >= MAX_ADDRESSES {
            stored.tries.retain(|_, attempts| !remaining_delay(attempts).is_zero());
        }
        stored.tries.insert(key, attempts);
        self.store_attempts(stored).await?;
        Err(PassphraseError::Wrong(whole_seconds(delay)))
    }

    /// Stores the attempts. A failure refuses the passphrase, because wrong attempts would otherwise have no delay.
    async fn store_attempts(&self, stored: Stored) -> Result<(), PassphraseError> {
        let file = self.file.clone();
        let result = run_blocking(move || {
            private_file::write(&file, &stored).map_err(|cause| ApproverError::Storage { file, cause })
        });
        result.await.map_err(PassphraseError::Unreadable)
    }

    /// Returns the state of the passphrase and the proof that gates require.
    #[boxed]
    pub async fn status(&self) -> GetApproverReply {
        let requires = Some(self.requires().name().to_owned());
        let unconfirmed = self.requirement.unconfirmed().map(|setting| setting.name().to_owned());
        let remember_minutes = Some(self.requirement.remember_minutes()).filter(|minutes| *minutes > 0);
        GetApproverReply { requires, unconfirmed, remember_minutes, ..self.passphrase_status().await }
    }

    async fn passphrase_status(&self) -> GetApproverReply {
        match self.stored().await {
            Ok(stored) => GetApproverReply {
                success: true,
                is_set: stored.is_some(),
                since: stored.map(|stored| stored.since),
                ..GetApproverReply::default()
            },
            Err(error) => GetApproverReply {
                is_set: true,
                error: Some(PassphraseError::Unreadable(error).to_string()),
                ..GetApproverReply::default()
            },
        }
    }

    /// Begins to set or remove a passphrase, for a caller who knows the current one. No passphrase can be checked until
    /// the caller applies or drops the change.
    ///
    /// # Errors
    ///
    /// Returns a reply with the reason and changes nothing.
    pub async fn change(
        &self,
        verb: SetApprover,
        source: AttemptSource,
    ) -> Result<PassphraseChange<'_>, Box<SetApproverReply>> {
        if let Some(new_passphrase) = &verb.passphrase
            && (new_passphrase.0.chars().count() < MIN_PASSPHRASE_CHARS
                || new_passphrase.0.len() > MAX_PASSPHRASE_BYTES)
        {
            let is_set = !matches!(self.stored().await, Ok(None));
            let error = format!(
                "A passphrase must have at least {MIN_PASSPHRASE_CHARS} characters, and at most {MAX_PASSPHRASE_BYTES} bytes"
            );
            return Err(failure_reply(is_set, error));
        }
        let guard = self.check_lock.lock().await;
        match self.open_locked(verb.current.as_ref(), source).await {
            Ok(key) => Ok(PassphraseChange { approver: self, new_passphrase: verb.passphrase, key, _guard: guard }),
            Err(PassphraseError::Missing) => {
                let missing = failure_reply(true, "Changing the passphrase requires the current one".to_owned());
                Err(Box::new(SetApproverReply { passphrase_wanted: true, ..*missing }))
            }
            Err(error) => Err(Box::new(SetApproverReply {
                passphrase_wanted: error.wants_another(),
                retry_after_seconds: error.retry_after_seconds(),
                ..*failure_reply(true, error.to_string())
            })),
        }
    }

    async fn stored(&self) -> Result<Option<Stored>, ApproverError> {
        let file = self.file.clone();
        run_blocking(move || {
            let text = match std::fs::read_to_string(&file) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(cause) => return Err(ApproverError::Storage { file, cause }),
            };
            match serde_json::from_str::<Stored>(&text) {
                Ok(stored) if stored.version == FILE_VERSION => Ok(Some(stored)),
                Ok(stored) => Err(ApproverError::Newer { file, version: stored.version }),
                Err(cause) => Err(ApproverError::Malformed { file, cause }),
            }
        })
        .await
    }
}

/// A change of the passphrase by a caller who knows the current one, if one is set.
#[derive(Debug)]
pub struct PassphraseChange<'a> {
    approver: &'a Approver,
    new_passphrase: Option<Passphrase>,
    /// The key of the current passphrase.
    key: Option<OpeningKey>,
    _guard: MutexGuard<'a, ()>,
}

impl PassphraseChange<'_> {
    /// Returns the key of the current passphrase.
    pub fn key(&self) -> Option<&OpeningKey> {
        self.key.as_ref()
    }

    /// Applies the change.
    pub async fn apply(self) -> SetApproverReply {
        let Self { approver, new_passphrase, key, _guard } = self;
        let (file, is_set) = (approver.file.clone(), new_passphrase.is_some());
        let cleared = approver.cleared_key().await;
        let result = run_blocking(move || match new_passphrase {
            Some(new_passphrase) => store_passphrase(&file, &new_passphrase, key, cleared.as_ref()),
            None => remove_passphrase(&file, key.as_ref()),
        });
        match result.await {
            Ok(()) => SetApproverReply { success: true, is_set, ..SetApproverReply::default() },
            Err(error) => {
                let file = approver.file.display();
                *failure_reply(!is_set, format!("The passphrase could not be stored in '{file}': {error}"))
            }
        }
    }
}

/// Stores a passphrase. It opens all seals that its predecessor opened.
fn store_passphrase(
    file: &Path,
    new_passphrase: &Passphrase,
    key: Option<OpeningKey>,
    cleared: Option<&OpeningKey>,
) -> Result<(), ApproverError> {
    let mut salt = [0; SALT_BYTES];
    getrandom::fill(&mut salt).map_err(KeyError::Randomness)?;
    let hash: PasswordHash =
        Argon2::default().hash_password_with_salt(new_passphrase.0.as_bytes(), &salt).map_err(ApproverError::Hash)?;
    let key = match (key, cleared) {
        (Some(key), _) => key,
        // The key was stored unencrypted, so it must not seal anything more.
        (None, Some(cleared)) => OpeningKey::successor_of(cleared)?,
        (None, None) => OpeningKey::generate()?,
    };
    let keys = StoredKey::seal_all(&key, new_passphrase)?;
    let (hash, since) = (hash.to_string(), clock::to_iso8601(clock::now()));
    let stored = Stored { version: FILE_VERSION, hash, since, tries: BTreeMap::new(), keys };
    private_file::write(file, &stored).map_err(ApproverError::Write)?;
    // Ignore the error, because the new passphrase opens the seals of that key, and the next start removes the file.
    let _ = std::fs::remove_file(file.with_file_name(CLEARED_KEY_FILE));
    Ok(())
}

/// Removes the passphrase. Runs remain sealed until they are stored again, possibly by the next daemon, so a separate
/// file stores their key.
fn remove_passphrase(file: &Path, key: Option<&OpeningKey>) -> Result<(), ApproverError> {
    let cleared = file.with_file_name(CLEARED_KEY_FILE);
    key.map_or(Ok(()), |key| private_file::write(&cleared, &key.to_base64())).map_err(ApproverError::Write)?;
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ApproverError::Write(error)),
        _ => Ok(()),
    }
}

/// Returns the reply to a failed change.
fn failure_reply(is_set: bool, error: String) -> Box<SetApproverReply> {
    Box::new(SetApproverReply { success: false, is_set, error: Some(error), ..SetApproverReply::default() })
}

/// Runs slow work on a blocking thread.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApproverError> + Send + 'static,
) -> Result<T, ApproverError> {
    tokio::task::spawn_blocking(work).await?
}

/// Rounds up to whole seconds, so that a caller who waits that long has waited long enough.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn new_approver(state: &Path) -> Approver {
        Approver::new(state, Arc::new(Proof::default()))
    }

    fn passphrase(text: &str) -> Option<Passphrase> {
        Some(Passphrase(text.to_owned()))
    }

    async fn set_passphrase(approver: &Approver, new: Option<&str>, current: Option<&str>) -> SetApproverReply {
        let verb = SetApprover { passphrase: new.and_then(passphrase), current: current.and_then(passphrase) };
        match approver.change(verb, AttemptSource::Socket).await {
            Ok(change) => change.apply().await,
            Err(refusal) => *refusal,
        }
    }

    /// Ends the delay after a wrong attempt.
    async fn end_delay(approver: &Approver) {
        let stored = approver.stored().await.unwrap().unwrap();
        let without_delay = |(key, attempts): (String, Attempts)| (key, Attempts { until: None, ..attempts });
        let tries = stored.tries.into_iter().map(without_delay).collect();
        approver.store_attempts(Stored { tries, ..stored }).await.unwrap();
    }

    #[test]
    fn failed_replacement_leaves_no_partial_file() {
        // redteam L12: approver.new remained, with the hash in it, when the disk was full.
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("approver.json");
        std::fs::create_dir_all(file.join("in the way")).unwrap();
        let (hash, since) = ("$argon2id$".to_owned(), String::new());
        let stored = Stored { version: FILE_VERSION, hash, since, tries: BTreeMap::new(), keys: Vec::new() };
        assert!(private_file::write(&file, &stored).is_err());
        assert!(!directory.path().join("approver.new").exists());
    }

    #[tokio::test]
    async fn file_has_only_a_hash_of_the_passphrase() {
        let directory = tempfile::tempdir().unwrap();
        let approver = new_approver(directory.path());
        assert!(approver.verify(None, AttemptSource::Socket).await.is_ok(), "no passphrase is set");
        assert!(!set_passphrase(&approver, Some("short"), None).await.success);
        assert!(set_passphrase(&approver, Some("correct horse"), None).await.success);
        let file = directory.path().join("approver.json");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("$argon2id$v=19$") && !text.contains("horse"), "{text}");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(approver.verify(None, AttemptSource::Socket).await, Err(PassphraseError::Missing)));
        assert!(matches!(
            approver.verify(passphrase("").as_ref(), AttemptSource::Socket).await,
            Err(PassphraseError::Missing)
        ));
        assert!(approver.verify(passphrase("correct horse").as_ref(), AttemptSource::Socket).await.is_ok());
        // Another daemon with the same state directory.
        assert!(
            new_approver(directory.path())
                .verify(passphrase("correct horse").as_ref(), AttemptSource::Socket)
                .await
                .is_ok()
        );
        assert!(approver.status().await.is_set);
    }

    #[tokio::test]
    async fn wrong_attempt_during_removal_does_not_restore_passphrase() {
        let directory = tempfile::tempdir().unwrap();
        let approver = std::sync::Arc::new(new_approver(directory.path()));
        set_passphrase(&approver, Some("correct horse"), None).await;
        let verb = SetApprover { passphrase: None, current: passphrase("correct horse") };
        let change = approver.change(verb, AttemptSource::Socket).await.unwrap();
        let guess = {
            let approver = approver.clone();
            tokio::spawn(async move { approver.verify(passphrase("battery").as_ref(), AttemptSource::Socket).await })
        };
        tokio::task::yield_now().await;
        assert!(change.apply().await.success);
        assert!(matches!(guess.await.unwrap(), Ok(false)), "no passphrase is set");
        assert!(!directory.path().join("approver.json").exists());
    }

    #[tokio::test]
    async fn next_passphrase_opens_texts_sealed_before_removal() {
        let directory = tempfile::tempdir().unwrap();
        let approver = new_approver(directory.path());
        let run = steplatch_ids::RunId::random();
        set_passphrase(&approver, Some("correct horse"), None).await;
        let first = approver.sealing_key().await.unwrap();
        let sealed = first.seal(&run, "text").unwrap();
        set_passphrase(&approver, None, Some("correct horse")).await;
        assert!(approver.sealing_key().await.is_none());
        assert_eq!(approver.cleared_key().await.unwrap().open(&run, &sealed).as_deref(), Some("text"));
        set_passphrase(&approver, Some("battery staple"), None).await;
        assert!(approver.cleared_key().await.is_none() && !directory.path().join(CLEARED_KEY_FILE).exists());
        assert_ne!(approver.sealing_key().await.unwrap(), first, "the first key was stored unencrypted");
        let key =
            approver.opening_key(passphrase("battery staple").as_ref(), AttemptSource::Socket).await.unwrap().unwrap();
        assert_eq!(key.open(&run, &sealed).as_deref(), Some("text"));
        // While the file cannot be read, private parts are sealed with the last known key.
        let last_key = approver.sealing_key().await;
        std::fs::write(directory.path().join("approver.json"), "{").unwrap();
        assert_eq!(approver.sealing_key().await, last_key);
    }

    #[tokio::test]
    async fn each_wrong_passphrase_doubles_the_delay() {
        let directory = tempfile::tempdir().unwrap();
        let approver = new_approver(directory.path());
        set_passphrase(&approver, Some("correct horse"), None).await;
        assert!(matches!(
            approver.verify(passphrase("battery").as_ref(), AttemptSource::Socket).await,
            Err(PassphraseError::Wrong(1))
        ));
        let correct = passphrase("correct horse");
        assert!(
            matches!(approver.verify(correct.as_ref(), AttemptSource::Socket).await, Err(PassphraseError::TooSoon(1))),
            "the correct passphrase is delayed as well"
        );
        let next_daemon = new_approver(directory.path());
        assert!(
            matches!(
                next_daemon.verify(correct.as_ref(), AttemptSource::Socket).await,
                Err(PassphraseError::TooSoon(1))
            ),
            "the delay outlives the daemon"
        );
        end_delay(&approver).await;
        assert!(matches!(
            approver.verify(passphrase("staple").as_ref(), AttemptSource::Socket).await,
            Err(PassphraseError::Wrong(2))
        ));
        for expected in [4, 8, 16, 32, 64, 128, 256, 300, 300] {
            end_delay(&approver).await;
            let Err(PassphraseError::Wrong(pause)) =
                approver.verify(passphrase("staple").as_ref(), AttemptSource::Socket).await
            else {
                panic!()
            };
            assert_eq!(pause, expected);
        }
        end_delay(&approver).await;
        assert!(approver.verify(correct.as_ref(), AttemptSource::Socket).await.is_ok());
        assert!(
            matches!(
                approver.verify(passphrase("x").as_ref(), AttemptSource::Socket).await,
                Err(PassphraseError::Wrong(1))
            ),
            "the delays start over"
        );
    }

    #[tokio::test]
    async fn wrong_passphrases_delay_only_their_own_address() {
        let directory = tempfile::tempdir().unwrap();
        let approver = new_approver(directory.path());
        set_passphrase(&approver, Some("correct horse"), None).await;
        let (correct, wrong) = (passphrase("correct horse"), passphrase("guessed"));
        let from = |address: &str| AttemptSource::Network(address.parse().unwrap());
        for address in ["127.0.0.1", "192.168.0.2"] {
            let result = approver.verify(wrong.as_ref(), from(address)).await;
            assert!(matches!(result, Err(PassphraseError::Wrong(1))), "{address}: {result:?}");
        }
        for address in ["127.0.0.9", "::1", "::ffff:127.0.0.1"] {
            let result = approver.verify(correct.as_ref(), from(address)).await;
            assert!(matches!(result, Err(PassphraseError::TooSoon(1))), "{address} is the same computer: {result:?}");
        }
        assert!(approver.verify(correct.as_ref(), AttemptSource::Socket).await.is_ok());
        assert!(approver.verify(correct.as_ref(), from("192.168.0.3")).await.is_ok());
    }

    #[test]
    fn addresses_are_counted_separately_up_to_a_limit() {
        let mut attempts = BTreeMap::new();
        for number in 0..200_u8 {
            let address = AttemptSource::Network(IpAddr::from([10, 0, 0, number]));
            attempts.insert(address.key(&attempts), Attempts::default());
        }
        assert_eq!((attempts.len(), attempts.contains_key(OTHER_ADDRESSES_KEY)), (MAX_ADDRESSES + 1, true));
        let ipv6_source = |last: u16| AttemptSource::Network(IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]));
        assert_eq!(ipv6_source(1).key(&BTreeMap::new()), ipv6_source(2).key(&BTreeMap::new()));
        assert_eq!(AttemptSource::Socket.key(&attempts), "socket");
    }

    #[tokio::test]
    async fn changing_passphrase_requires_the_current_one() {
        let directory = tempfile::tempdir().unwrap();
        let approver = new_approver(directory.path());
        set_passphrase(&approver, Some("correct horse"), None).await;
        let reply = set_passphrase(&approver, None, None).await;
        assert!(!reply.success && reply.is_set && reply.passphrase_wanted, "{reply:?}");
        assert!(!set_passphrase(&approver, Some("another one"), Some("guessed")).await.success);
        end_delay(&approver).await;
        assert!(set_passphrase(&approver, Some("another one"), Some("correct horse")).await.success);
        assert!(approver.verify(passphrase("another one").as_ref(), AttemptSource::Socket).await.is_ok());
        let reply = set_passphrase(&approver, None, Some("another one")).await;
        assert!(reply.success && !reply.is_set);
        assert!(approver.verify(None, AttemptSource::Socket).await.is_ok());
    }

    #[tokio::test]
    async fn unreadable_file_refuses_every_passphrase() {
        let directory = tempfile::tempdir().unwrap();
        let approver = new_approver(directory.path());
        for text in
            ["{", r#"{"version": 9, "hash": "x", "since": "y"}"#, r#"{"version": 1, "hash": "x", "since": "y"}"#]
        {
            std::fs::write(directory.path().join("approver.json"), text).unwrap();
            let error = approver.verify(passphrase("anything").as_ref(), AttemptSource::Socket).await.unwrap_err();
            assert!(matches!(error, PassphraseError::Unreadable(_)), "{error}");
            assert!(!set_passphrase(&approver, Some("new passphrase"), None).await.success, "{text}");
        }
    }
}
