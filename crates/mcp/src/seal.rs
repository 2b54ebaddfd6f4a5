//! Sealing of the state that a client carries between two rounds of a call.
//!
//! Since 2026-07-28 a question to the client's person is a result of the call, and its answer comes with the same call
//! again (<https://modelcontextprotocol.io/specification/2026-07-28>, multi round-trip requests). The state that the
//! client returns is untrusted: the server accepts it only unchanged, for the same call, in time, and once.
//!
//! All servers of a state directory seal with one key in it, so that any of them can continue the call, even after a
//! restart. Each server remembers its own used seals. Where single use matters, as with gates, the target of the seal
//! has closed by then and refuses a second use as well.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{JsonObject, RequestStateCodec, RequestStateError, SealOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steplatch_protocol::ensure_private;
use tokio::sync::OnceCell;

/// Validity period of a sealed state.
const SEAL_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Maximum number of remembered used seals.
const MAX_USED_SEALS: usize = 10_000;

/// The name of the file with the key.
const KEY_FILE: &str = "mcp.key";

type Key = [u8; RequestStateCodec::MIN_KEY_LENGTH];

/// Seals and opens states.
#[derive(Debug)]
pub(crate) struct Seals {
    /// Directory of the key. Without one, the server uses its own random key.
    folder: Option<PathBuf>,
    codec: OnceCell<RequestStateCodec>,
    lifetime: Duration,
    used: Mutex<VecDeque<u128>>,
}

/// The content of a seal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestState {
    /// Names of the questions.
    pub(crate) asked: Vec<String>,
    /// State for the next round.
    pub(crate) state: Value,
    /// The number that identifies this seal.
    once: u128,
}

/// Reason for the rejection of a seal.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SealError {
    #[error("this requestState is too old, so nothing was answered; ask again, about a run with get_run")]
    Expired,
    #[error(
        "this requestState was not given by this server for this call, so nothing was answered; ask again, \
         about a run with get_run"
    )]
    Foreign,
    #[error("this requestState was used before, so nothing was answered; ask again, about a run with get_run")]
    Used,
}

impl Seals {
    /// Creates seals with the key of a state `folder`, or with their own key.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, codec: OnceCell::new(), lifetime: SEAL_LIFETIME, used: Mutex::default() }
    }

    /// Seals the state that `call` needs to continue. It is valid for that call only.
    pub(crate) async fn close(&self, asked: Vec<String>, state: Value, call: &str) -> String {
        let mut once = [0; 16];
        getrandom::fill(&mut once).expect("the operating system has randomness");
        let carried = RequestState { asked, state, once: u128::from_le_bytes(once) };
        let options = SealOptions::new().associated_data(call.as_bytes()).ttl(self.lifetime);
        self.codec().await.seal_json_with(&carried, &options).expect("the carried state contains only JSON")
    }

    /// Opens the seal that a `call` returned.
    ///
    /// # Errors
    /// If it is not a seal for that call, is too old, or used already.
    pub(crate) async fn open(&self, sealed: &str, call: &str) -> Result<RequestState, SealError> {
        let opened = self.codec().await.open_json_with(sealed, call.as_bytes());
        let carried: RequestState = opened.map_err(|error| match error {
            RequestStateError::Expired => SealError::Expired,
            _ => SealError::Foreign,
        })?;
        let used = self.used.lock();
        if used.contains(&carried.once) { Err(SealError::Used) } else { Ok(carried) }
    }

    /// Marks a seal as used.
    ///
    /// # Errors
    /// If the seal is used already.
    pub(crate) fn mark_used(&self, carried: &RequestState) -> Result<(), SealError> {
        let mut used = self.used.lock();
        if used.contains(&carried.once) {
            return Err(SealError::Used);
        }
        if used.len() == MAX_USED_SEALS {
            used.pop_front();
        }
        used.push_back(carried.once);
        Ok(())
    }

    async fn codec(&self) -> &RequestStateCodec {
        self.codec
            .get_or_init(|| async {
                let folder = self.folder.clone();
                let key = tokio::task::spawn_blocking(move || match folder {
                    Some(folder) => load_or_create_key(&folder).unwrap_or_else(|error| {
                        let folder = folder.display();
                        tracing::warn!(%error, %folder, "questions to people do not outlive this server");
                        random_key()
                    }),
                    None => random_key(),
                });
                let key = key.await.unwrap_or_else(|_| random_key());
                RequestStateCodec::try_new(key).expect("the key has the required length")
            })
            .await
    }
}

fn random_key() -> Key {
    let mut key = Key::default();
    getrandom::fill(&mut key).expect("the operating system has randomness");
    key
}

/// Returns the key of a state directory. Creates a random one if there is none.
fn load_or_create_key(folder: &Path) -> io::Result<Key> {
    let path = folder.join(KEY_FILE);
    if let Some(key) = read_key(&path)? {
        return Ok(key);
    }
    ensure_private(folder).map_err(io::Error::other)?;
    // Write the key to a temporary file and then link it, which fails if another process was faster. So the file is
    // always complete, and all processes read the same key.
    let mut suffix = [0; 8];
    getrandom::fill(&mut suffix).expect("the operating system has randomness");
    let temporary_path = folder.join(format!(".{KEY_FILE}.{:016x}", u64::from_le_bytes(suffix)));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary_path)?;
    file.write_all(&random_key())?;
    file.sync_all()?;
    let linked = fs::hard_link(&temporary_path, &path);
    fs::remove_file(&temporary_path)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    read_key(&path)?.ok_or_else(|| io::Error::other(format!("'{}' went away", path.display())))
}

fn read_key(path: &Path) -> io::Result<Option<Key>> {
    let key_error = |what: &str| io::Error::other(format!("'{}' {what}; remove it", path.display()));
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !metadata.is_file() || metadata.mode() & 0o077 != 0 {
        return Err(key_error("can be read by others"));
    }
    let key = fs::read(path)?;
    Key::try_from(key).map(Some).map_err(|_| key_error("is not a key"))
}

/// Returns a text that is the same for equal calls: the method, the name and the arguments with their fields sorted.
pub(crate) fn call_fingerprint(method: &str, name: &str, arguments: Option<&JsonObject>) -> String {
    let arguments: BTreeMap<_, _> =
        arguments.into_iter().flatten().map(|(name, value)| (name, sort_fields(value))).collect();
    let arguments = serde_json::to_string(&arguments).expect("arguments contain only JSON");
    format!("{method} {name} {arguments}")
}

fn sort_fields(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            fields.into_iter().map(|(name, value)| (name.clone(), sort_fields(value))).collect()
        }
        Value::Array(items) => items.iter().map(sort_fields).collect(),
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CALL: &str = "tools/call";

    fn get_run(arguments: Value) -> String {
        call_fingerprint(CALL, "get_run", arguments.as_object())
    }

    async fn sealed(seals: &Seals, call: &str) -> String {
        seals.close(vec!["gate".to_owned()], json!({"run": "run_x"}), call).await
    }

    #[tokio::test]
    async fn carried_state_counts_once_for_the_same_call() {
        let seals = Seals::new(None);
        let call = get_run(json!({"run_id": "run_x", "wait_seconds": 1}));
        let carried = sealed(&seals, &call).await;
        let same = get_run(json!({"wait_seconds": 1, "run_id": "run_x"}));
        let opened = seals.open(&carried, &same).await.unwrap();
        assert_eq!((opened.asked.as_slice(), &opened.state["run"]), (["gate".to_owned()].as_slice(), &json!("run_x")));
        let other = get_run(json!({"run_id": "run_z", "wait_seconds": 1}));
        assert!(matches!(seals.open(&carried, &other).await, Err(SealError::Foreign)));
        let prompt =
            call_fingerprint("prompts/get", "get_run", json!({"run_id": "run_x", "wait_seconds": 1}).as_object());
        assert!(matches!(seals.open(&carried, &prompt).await, Err(SealError::Foreign)));
        let middle = carried.len() / 2;
        let changed = if &carried[middle..=middle] == "A" { "B" } else { "A" };
        let tampered = format!("{}{changed}{}", &carried[..middle], &carried[middle + 1..]);
        assert!(matches!(seals.open(&tampered, &call).await, Err(SealError::Foreign)));
        assert!(matches!(Seals::new(None).open(&carried, &call).await, Err(SealError::Foreign)), "another server's");
        assert!(seals.mark_used(&opened).is_ok() && seals.mark_used(&opened).is_err());
        assert!(matches!(seals.open(&carried, &call).await, Err(SealError::Used)));
    }

    #[tokio::test]
    async fn expired_state_is_refused() {
        let seals = Seals { lifetime: Duration::ZERO, ..Seals::new(None) };
        let carried = sealed(&seals, "call").await;
        // The codec reads the system clock, which need not have advanced.
        steplatch_patience::eventually("the seal is too old", async || match seals.open(&carried, "call").await {
            Err(error @ SealError::Expired) => Ok(error),
            other => Err(other.map(|_| ())),
        })
        .await;
    }

    #[tokio::test]
    async fn servers_of_one_directory_share_a_private_key() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("state");
        let of_folder = || Seals::new(Some(folder.clone()));
        let (one, other) = (of_folder(), of_folder());
        // Concurrently: one of them generates the key.
        let (first, second) = tokio::join!(sealed(&one, "call"), sealed(&other, "call"));
        for carried in [&first, &second] {
            assert!(one.open(carried, "call").await.is_ok() && other.open(carried, "call").await.is_ok());
            assert!(of_folder().open(carried, "call").await.is_ok(), "a server started later");
        }
        let key = folder.join(KEY_FILE);
        assert_eq!(fs::metadata(&key).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left over");
        fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        let distrustful = of_folder();
        assert!(matches!(distrustful.open(&first, "call").await, Err(SealError::Foreign)), "others could have read it");
        assert!(distrustful.open(&sealed(&distrustful, "call").await, "call").await.is_ok());
    }
}
