//! Seals for the state that a client carries between two rounds of a call.
//!
//! Since 2026-07-28 a question to the client's person is a result of the call, and the client repeats the call with the
//! answer (<https://modelcontextprotocol.io/specification/2026-07-28>, multi round-trip requests). The state that the
//! client returns is untrusted: the server accepts it only unchanged, for the same call, in time, and once.
//!
//! All servers of a state directory use one key that is stored in it, so that any of them can continue the call, even
//! after a restart. Each server remembers its own used seals. Where single use matters, as with gates, the gate has
//! closed by then and refuses a second use as well.

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

/// Validity period of a seal.
const SEAL_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Maximum number of remembered used seals.
const MAX_USED_SEALS: usize = 10_000;

/// Name of the key file.
const KEY_FILE: &str = "mcp.key";

type Key = [u8; RequestStateCodec::MIN_KEY_LENGTH];

/// Seals and opens states.
#[derive(Debug)]
pub(crate) struct Seals {
    /// Directory of the key. Without a directory, the server uses its own random key.
    directory: Option<PathBuf>,
    codec: OnceCell<RequestStateCodec>,
    lifetime: Duration,
    used: Mutex<VecDeque<u128>>,
}

/// The content of a seal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestState {
    /// Names of the questions.
    pub(crate) questions: Vec<String>,
    /// State for the next round.
    pub(crate) state: Value,
    /// Random number that identifies this seal.
    nonce: u128,
}

/// Reason for the rejection of a seal.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SealError {
    #[error("this requestState has expired, so nothing was answered; repeat the call, or for a run call get_run")]
    Expired,
    #[error(
        "this requestState is not from this server for this call, so nothing was answered; repeat the call, \
         or for a run call get_run"
    )]
    Foreign,
    #[error("this requestState was used before, so nothing was answered; repeat the call, or for a run call get_run")]
    Used,
}

impl Seals {
    /// Creates seals with the key of a state directory, or with their own key.
    pub(crate) fn new(directory: Option<PathBuf>) -> Self {
        Self { directory, codec: OnceCell::new(), lifetime: SEAL_LIFETIME, used: Mutex::default() }
    }

    /// Seals the state that `call` needs to continue. It is valid for that call only.
    pub(crate) async fn close(&self, questions: Vec<String>, state: Value, call: &str) -> String {
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).expect("the operating system has randomness");
        let request_state = RequestState { questions, state, nonce: u128::from_le_bytes(nonce) };
        let options = SealOptions::new().associated_data(call.as_bytes()).ttl(self.lifetime);
        self.codec().await.seal_json_with(&request_state, &options).expect("the state contains only JSON")
    }

    /// Opens the seal that a `call` returned.
    ///
    /// # Errors
    /// If the seal is not for that call, has expired, or is already used.
    pub(crate) async fn open(&self, sealed: &str, call: &str) -> Result<RequestState, SealError> {
        let result = self.codec().await.open_json_with(sealed, call.as_bytes());
        let request_state: RequestState = result.map_err(|error| match error {
            RequestStateError::Expired => SealError::Expired,
            _ => SealError::Foreign,
        })?;
        let used = self.used.lock();
        if used.contains(&request_state.nonce) { Err(SealError::Used) } else { Ok(request_state) }
    }

    /// Marks a seal as used.
    ///
    /// # Errors
    /// If the seal is already used.
    pub(crate) fn mark_used(&self, request_state: &RequestState) -> Result<(), SealError> {
        let mut used = self.used.lock();
        if used.contains(&request_state.nonce) {
            return Err(SealError::Used);
        }
        if used.len() == MAX_USED_SEALS {
            used.pop_front();
        }
        used.push_back(request_state.nonce);
        Ok(())
    }

    async fn codec(&self) -> &RequestStateCodec {
        self.codec
            .get_or_init(|| async {
                let directory = self.directory.clone();
                let key = tokio::task::spawn_blocking(move || match directory {
                    Some(directory) => load_or_create_key(&directory).unwrap_or_else(|error| {
                        let directory = directory.display();
                        tracing::warn!(%error, %directory, "no shared key: questions to people end with this server");
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
fn load_or_create_key(directory: &Path) -> io::Result<Key> {
    let path = directory.join(KEY_FILE);
    if let Some(key) = read_key(&path)? {
        return Ok(key);
    }
    ensure_private(directory).map_err(io::Error::other)?;
    // Write the key to a temporary file and then link that file. The link fails if another process was faster. The file
    // is therefore always complete, and all processes read the same key.
    let mut suffix = [0; 8];
    getrandom::fill(&mut suffix).expect("the operating system has randomness");
    let temporary_path = directory.join(format!(".{KEY_FILE}.{:016x}", u64::from_le_bytes(suffix)));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary_path)?;
    file.write_all(&random_key())?;
    file.sync_all()?;
    let result = fs::hard_link(&temporary_path, &path);
    fs::remove_file(&temporary_path)?;
    match result {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    read_key(&path)?.ok_or_else(|| io::Error::other(format!("'{}' has disappeared", path.display())))
}

fn read_key(path: &Path) -> io::Result<Option<Key>> {
    let key_error = |problem: &str| io::Error::other(format!("'{}' {problem}; remove it", path.display()));
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !metadata.is_file() || metadata.mode() & 0o077 != 0 {
        return Err(key_error("is readable by other users"));
    }
    let key = fs::read(path)?;
    Key::try_from(key).map(Some).map_err(|_| key_error("is not a key"))
}

/// Returns a string that is the same for equal calls: the method, the name and the arguments with their fields sorted.
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
        scalar => scalar.clone(),
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

    async fn seal_state(seals: &Seals, call: &str) -> String {
        seals.close(vec!["gate".to_owned()], json!({"run": "run_x"}), call).await
    }

    #[tokio::test]
    async fn seal_opens_only_once_and_for_the_same_call() {
        let seals = Seals::new(None);
        let call = get_run(json!({"run_id": "run_x", "wait_seconds": 1}));
        let sealed = seal_state(&seals, &call).await;
        let same_call = get_run(json!({"wait_seconds": 1, "run_id": "run_x"}));
        let opened = seals.open(&sealed, &same_call).await.unwrap();
        assert_eq!(
            (opened.questions.as_slice(), &opened.state["run"]),
            (["gate".to_owned()].as_slice(), &json!("run_x"))
        );
        let other_call = get_run(json!({"run_id": "run_z", "wait_seconds": 1}));
        assert!(matches!(seals.open(&sealed, &other_call).await, Err(SealError::Foreign)));
        let prompt_call =
            call_fingerprint("prompts/get", "get_run", json!({"run_id": "run_x", "wait_seconds": 1}).as_object());
        assert!(matches!(seals.open(&sealed, &prompt_call).await, Err(SealError::Foreign)));
        let middle = sealed.len() / 2;
        let replacement = if &sealed[middle..=middle] == "A" { "B" } else { "A" };
        let tampered = format!("{}{replacement}{}", &sealed[..middle], &sealed[middle + 1..]);
        assert!(matches!(seals.open(&tampered, &call).await, Err(SealError::Foreign)));
        assert!(matches!(Seals::new(None).open(&sealed, &call).await, Err(SealError::Foreign)), "the key differs");
        assert!(seals.mark_used(&opened).is_ok() && seals.mark_used(&opened).is_err());
        assert!(matches!(seals.open(&sealed, &call).await, Err(SealError::Used)));
    }

    #[tokio::test]
    async fn expired_seal_is_refused() {
        let seals = Seals { lifetime: Duration::ZERO, ..Seals::new(None) };
        let sealed = seal_state(&seals, "call").await;
        // The codec reads the system clock, and that clock may not have advanced.
        steplatch_patience::eventually("the seal has expired", async || match seals.open(&sealed, "call").await {
            Err(error @ SealError::Expired) => Ok(error),
            result => Err(result.map(|_| ())),
        })
        .await;
    }

    #[tokio::test]
    async fn servers_of_one_state_directory_share_a_private_key() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("state");
        let new_seals = || Seals::new(Some(directory.clone()));
        let (first_seals, second_seals) = (new_seals(), new_seals());
        // Seal concurrently: one of the seals generates the key.
        let (first, second) = tokio::join!(seal_state(&first_seals, "call"), seal_state(&second_seals, "call"));
        for sealed in [&first, &second] {
            assert!(first_seals.open(sealed, "call").await.is_ok() && second_seals.open(sealed, "call").await.is_ok());
            assert!(new_seals().open(sealed, "call").await.is_ok(), "a later server opens the seal");
        }
        let key = directory.join(KEY_FILE);
        assert_eq!(fs::metadata(&key).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "no temporary file remains");
        fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        let seals = new_seals();
        assert!(matches!(seals.open(&first, "call").await, Err(SealError::Foreign)), "a readable key is not used");
        assert!(seals.open(&seal_state(&seals, "call").await, "call").await.is_ok());
    }
}
