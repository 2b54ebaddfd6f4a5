//! The approver's key pair: only the passphrase opens text that the key has sealed.
//!
//! Owns the format of sealed text, and of the key in `approver.json`. Sealing needs only the public key, so a daemon
//! without the passphrase can seal. The private key is sealed to a second key pair that Argon2id derives from the
//! passphrase and a salt: a new passphrase seals the private key again, and leaves sealed text unchanged.
//!
//! Every seal is HPKE in base mode (RFC 9180, <https://www.rfc-editor.org/rfc/rfc9180>) with DHKEM(X25519,
//! HKDF-SHA256), HKDF-SHA256 and ChaCha20Poly1305. A sealed text is `sealed:1:` and the Base64 of the encapsulated
//! key, 32 bytes, with the ciphertext after it.

use argon2::Argon2;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hpke::aead::ChaCha20Poly1305;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable, Kem, OpModeR, OpModeS, Serializable, single_shot_open, single_shot_seal};
use serde::{Deserialize, Serialize};
use steplatch_ids::RunId;
use steplatch_protocol::Passphrase;

type PublicKey = <X25519HkdfSha256 as Kem>::PublicKey;
type PrivateKey = <X25519HkdfSha256 as Kem>::PrivateKey;
type EncappedKey = <X25519HkdfSha256 as Kem>::EncappedKey;

/// Prefix of sealed text; the number is the version of the format.
const PREFIX: &str = "sealed:1:";

/// HPKE `info` for parts of runs. A seal does not open with another `info`.
const RUN_PART_INFO: &[u8] = b"steplatch private part of a run";

/// HPKE `info` for the approver's private key.
const APPROVER_KEY_INFO: &[u8] = b"steplatch private key of the approver";

/// Length of a salt, in bytes.
const SALT_BYTES: usize = 16;

/// Length of an encapsulated key, in bytes.
const ENCAPPED_KEY_BYTES: usize = 32;

/// Length of the seed of a key pair, in bytes.
const SEED_BYTES: usize = 32;

/// Maximum number of stored keys: the newest key, and the keys of removed passphrases.
const MAX_KEYS: usize = 4;

/// Returns whether `text` is sealed.
pub fn is_sealed(text: &str) -> bool {
    text.starts_with(PREFIX)
}

/// A stored key pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredKey {
    /// The public key, in Base64.
    public: String,
    /// The salt of the key pair derived from the passphrase, in Base64.
    salt: String,
    /// The private key, sealed to that key pair.
    private: String,
}

/// Seals the private part of a run: the data that the run needs to continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealingKey(PublicKey);

/// Opens all seals of the newest [`SealingKey`] and its predecessors.
#[derive(Clone)]
pub struct OpeningKey(Vec<PrivateKey>);

impl std::fmt::Debug for OpeningKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("OpeningKey(…)")
    }
}

/// Failure to generate, seal or open a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The system provides no random bytes.
    #[error("{0}")]
    Randomness(getrandom::Error),
    /// Deriving a key from the passphrase failed.
    #[error("{0}")]
    Derivation(argon2::Error),
    /// Sealing the key failed.
    #[error("failed to seal the approver's key")]
    Seal,
    /// The passphrase does not belong to the key, or the file is damaged.
    #[error("the approver's key does not open with the passphrase")]
    Open,
}

impl StoredKey {
    /// Seals each private key of `key` with `passphrase`. Derives a key for each of them; a derivation takes as long as
    /// checking a passphrase.
    ///
    /// # Errors
    /// If the system provides no random bytes.
    pub(super) fn seal_all(key: &OpeningKey, passphrase: &Passphrase) -> Result<Vec<Self>, KeyError> {
        key.0.iter().map(|key| Self::from_key(key, passphrase)).collect()
    }

    fn from_key(key: &PrivateKey, passphrase: &Passphrase) -> Result<Self, KeyError> {
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(KeyError::Randomness)?;
        let passphrase_key = derive_key(passphrase, &salt)?;
        let (public, passphrase_public) =
            (X25519HkdfSha256::sk_to_pk(key), X25519HkdfSha256::sk_to_pk(&passphrase_key));
        let private =
            seal(&passphrase_public, APPROVER_KEY_INFO, &key.to_bytes(), &public.to_bytes()).ok_or(KeyError::Seal)?;
        Ok(Self { public: STANDARD.encode(public.to_bytes()), salt: STANDARD.encode(salt), private })
    }

    /// Returns the public key. `None` for a damaged file.
    pub(super) fn sealing_key(&self) -> Option<SealingKey> {
        PublicKey::from_bytes(&STANDARD.decode(&self.public).ok()?).ok().map(SealingKey)
    }

    /// Opens the private keys with `passphrase`. Takes as long for each as checking a passphrase.
    ///
    /// # Errors
    /// If the passphrase does not belong to these keys, or the file is damaged.
    pub(super) fn open_all(keys: &[Self], passphrase: &Passphrase) -> Result<OpeningKey, KeyError> {
        keys.iter().map(|key| key.private_key(passphrase)).collect::<Result<_, _>>().map(OpeningKey)
    }

    fn private_key(&self, passphrase: &Passphrase) -> Result<PrivateKey, KeyError> {
        let open_key = || -> Option<PrivateKey> {
            let passphrase_key = derive_key(passphrase, &STANDARD.decode(&self.salt).ok()?).ok()?;
            let public = STANDARD.decode(&self.public).ok()?;
            PrivateKey::from_bytes(&open(&passphrase_key, APPROVER_KEY_INFO, &self.private, &public)?).ok()
        };
        open_key().ok_or(KeyError::Open)
    }
}

impl SealingKey {
    /// Returns the private part of `run`, sealed. It opens only as part of that run. `None` if sealing to the public
    /// key fails.
    pub fn seal(&self, run: &RunId, text: &str) -> Option<String> {
        seal(&self.0, RUN_PART_INFO, text.as_bytes(), run.as_str().as_bytes())
    }
}

impl OpeningKey {
    /// Returns a new key.
    ///
    /// # Errors
    /// If the system provides no random bytes.
    pub(super) fn generate() -> Result<Self, KeyError> {
        let mut ikm = [0; SEED_BYTES];
        getrandom::fill(&mut ikm).map_err(KeyError::Randomness)?;
        Ok(Self(vec![X25519HkdfSha256::derive_keypair(&ikm).0]))
    }

    /// Returns a new key that also opens the seals of `previous`, with up to [`MAX_KEYS`] keys. Later seals do not open
    /// with the keys of `previous`.
    ///
    /// # Errors
    /// Same as [`Self::generate`].
    pub(super) fn successor_of(previous: &Self) -> Result<Self, KeyError> {
        let mut keys = Self::generate()?.0;
        keys.extend(previous.0.iter().take(MAX_KEYS - 1).cloned());
        Ok(Self(keys))
    }

    /// Returns the unsealed keys in Base64, for a file that needs no passphrase.
    pub(super) fn to_base64(&self) -> Vec<String> {
        self.0.iter().map(|key| STANDARD.encode(key.to_bytes())).collect()
    }

    /// Reads the keys that [`Self::to_base64`] wrote.
    pub(super) fn from_base64(keys: &[String]) -> Option<Self> {
        let key = |text: &String| PrivateKey::from_bytes(&STANDARD.decode(text).ok()?).ok();
        keys.iter().map(key).collect::<Option<_>>().map(Self)
    }

    /// Returns the private part of `run`. `None` if another key sealed it, or if it belongs to another run.
    pub fn open(&self, run: &RunId, sealed: &str) -> Option<String> {
        let opened = self.0.iter().find_map(|key| open(key, RUN_PART_INFO, sealed, run.as_str().as_bytes()))?;
        String::from_utf8(opened).ok()
    }
}

/// Derives the private key of a passphrase.
fn derive_key(passphrase: &Passphrase, salt: &[u8]) -> Result<PrivateKey, KeyError> {
    let mut ikm = [0; SEED_BYTES];
    let result = Argon2::default().hash_password_into(passphrase.0.as_bytes(), salt, &mut ikm);
    result.map_err(KeyError::Derivation)?;
    Ok(X25519HkdfSha256::derive_keypair(&ikm).0)
}

fn seal(public_key: &PublicKey, info: &[u8], text: &[u8], aad: &[u8]) -> Option<String> {
    let (encapped, ciphertext) =
        single_shot_seal::<ChaCha20Poly1305, HkdfSha256, X25519HkdfSha256>(&OpModeS::Base, public_key, info, text, aad)
            .ok()?;
    Some(format!("{PREFIX}{}", STANDARD.encode([encapped.to_bytes().as_slice(), &ciphertext].concat())))
}

fn open(private_key: &PrivateKey, info: &[u8], sealed: &str, aad: &[u8]) -> Option<Vec<u8>> {
    let bytes = STANDARD.decode(sealed.strip_prefix(PREFIX)?).ok()?;
    let (encapped, ciphertext) = bytes.split_at_checked(ENCAPPED_KEY_BYTES)?;
    let encapped = EncappedKey::from_bytes(encapped).ok()?;
    single_shot_open::<ChaCha20Poly1305, HkdfSha256, X25519HkdfSha256>(
        &OpModeR::Base,
        private_key,
        &encapped,
        info,
        ciphertext,
        aad,
    )
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passphrase(text: &str) -> Passphrase {
        Passphrase(text.to_owned())
    }

    fn stored_keys(key: &OpeningKey, text: &str) -> Vec<StoredKey> {
        StoredKey::seal_all(key, &passphrase(text)).unwrap()
    }

    #[test]
    fn sealed_text_opens_only_with_the_passphrase_and_its_run() {
        let keys = stored_keys(&OpeningKey::generate().unwrap(), "correct horse");
        let (run, other_run) = (RunId::random(), RunId::random());
        let sealed = keys[0].sealing_key().unwrap().seal(&run, "DEPLOY_KEY=abc").unwrap();
        assert!(is_sealed(&sealed) && !sealed.contains("abc"), "{sealed}");
        assert!(StoredKey::open_all(&keys, &passphrase("battery")).is_err());
        let key = StoredKey::open_all(&keys, &passphrase("correct horse")).unwrap();
        assert_eq!(key.open(&run, &sealed).as_deref(), Some("DEPLOY_KEY=abc"));
        assert_eq!(key.open(&other_run, &sealed), None, "the text belongs to another run");
        assert_eq!(OpeningKey::generate().unwrap().open(&run, &sealed), None);
        for damaged in [&sealed[..sealed.len() - 8], "sealed:1:", "sealed:1:AAAA", "sealed:1:%", "plain"] {
            assert_eq!(key.open(&run, damaged), None, "{damaged}");
        }
    }

    #[test]
    fn new_passphrase_opens_text_sealed_with_the_old_one() {
        let first = stored_keys(&OpeningKey::generate().unwrap(), "correct horse");
        let run = RunId::random();
        let sealed = first[0].sealing_key().unwrap().seal(&run, "text").unwrap();
        let second = stored_keys(&StoredKey::open_all(&first, &passphrase("correct horse")).unwrap(), "battery staple");
        assert!(StoredKey::open_all(&second, &passphrase("correct horse")).is_err());
        let key = StoredKey::open_all(&second, &passphrase("battery staple")).unwrap();
        assert_eq!(key.open(&run, &sealed).as_deref(), Some("text"));
        assert_eq!(second[0].sealing_key(), first[0].sealing_key());
    }

    #[test]
    fn successor_key_opens_older_seals_but_not_the_reverse() {
        let old_key = OpeningKey::generate().unwrap();
        let new_key = OpeningKey::successor_of(&OpeningKey::from_base64(&old_key.to_base64()).unwrap()).unwrap();
        let run = RunId::random();
        let seal = |key: &OpeningKey| stored_keys(key, "words")[0].sealing_key().unwrap().seal(&run, "text").unwrap();
        assert_eq!(new_key.open(&run, &seal(&old_key)).as_deref(), Some("text"));
        assert_eq!(old_key.open(&run, &seal(&new_key)), None);
        let last_key = (0..10).fold(old_key, |key, _| OpeningKey::successor_of(&key).unwrap());
        assert_eq!(last_key.to_base64().len(), MAX_KEYS);
    }

    #[test]
    fn damaged_key_is_rejected() {
        let keys = stored_keys(&OpeningKey::generate().unwrap(), "correct horse");
        let key = &keys[0];
        let damaged = StoredKey { public: "AAAA".to_owned(), ..key.clone() };
        assert!(
            damaged.sealing_key().is_none() && StoredKey::open_all(&[damaged], &passphrase("correct horse")).is_err()
        );
        let small_order = StoredKey { public: STANDARD.encode([0; ENCAPPED_KEY_BYTES]), ..key.clone() };
        assert!(
            small_order.sealing_key().is_none_or(|key| key.seal(&RunId::random(), "text").is_none()),
            "a point of small order is rejected"
        );
        let damaged = StoredKey { salt: "%".to_owned(), ..key.clone() };
        assert!(StoredKey::open_all(&[damaged], &passphrase("correct horse")).is_err());
        assert!(OpeningKey::from_base64(&["%".to_owned()]).is_none());
    }
}
