//! The approver's key pair: only the passphrase opens what it seals.
//!
//! Owns the format of sealed texts, and of the key in `approver.json`. Sealing needs the public key and no person, so
//! a daemon without the passphrase can seal. The private key is sealed to a second key pair that Argon2id derives from
//! the passphrase and a salt: another passphrase seals the private key anew, and sealed texts are unchanged.
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

/// The prefix of a sealed text; the number is the version of its format.
const PREFIX: &str = "sealed:1:";

/// The purpose of seals (the `info` of HPKE): a seal made for runs does not open for another purpose.
const OF_RUN: &[u8] = b"steplatch private part of a run";
const OF_KEY: &[u8] = b"steplatch private key of the approver";

/// Bytes of a salt, and of an encapsulated key.
const SALT: usize = 16;
const ENCAPPED: usize = 32;

/// Maximum number of stored keys: the newest, and those of removed passphrases.
const MAX_KEYS: usize = 4;

/// Returns whether a text is a sealed one.
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

/// Seals what a run needs to continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealingKey(PublicKey);

/// Opens everything that the newest [`SealingKey`] and those before it sealed.
#[derive(Clone)]
pub struct OpeningKey(Vec<PrivateKey>);

impl std::fmt::Debug for OpeningKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("OpeningKey(…)")
    }
}

/// Error of making, sealing or opening a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The system gives no random bytes.
    #[error("{0}")]
    Randomness(getrandom::Error),
    /// Deriving a key from the passphrase failed.
    #[error("{0}")]
    Derivation(argon2::Error),
    /// HPKE does not seal the key.
    #[error("the approver's key cannot be sealed")]
    Seal,
    /// The text is not the passphrase of the key, or the file is damaged.
    #[error("the approver's key does not open with the passphrase")]
    Open,
}

impl StoredKey {
    /// Returns the key pairs of `key`, to be opened by `passphrase`. Derives a key for each, which takes as long as
    /// checking a passphrase.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub(super) fn sealed(key: &OpeningKey, passphrase: &Passphrase) -> Result<Vec<Self>, KeyError> {
        key.0.iter().map(|key| Self::from_key(key, passphrase)).collect()
    }

    fn from_key(key: &PrivateKey, passphrase: &Passphrase) -> Result<Self, KeyError> {
        let mut salt = [0; SALT];
        getrandom::fill(&mut salt).map_err(KeyError::Randomness)?;
        let of_passphrase = derived(passphrase, &salt)?;
        let (public, of_passphrase) = (X25519HkdfSha256::sk_to_pk(key), X25519HkdfSha256::sk_to_pk(&of_passphrase));
        let private = seal(&of_passphrase, OF_KEY, &key.to_bytes(), &public.to_bytes()).ok_or(KeyError::Seal)?;
        Ok(Self { public: STANDARD.encode(public.to_bytes()), salt: STANDARD.encode(salt), private })
    }

    /// Returns the public key. `None` for a damaged file.
    pub(super) fn sealing(&self) -> Option<SealingKey> {
        PublicKey::from_bytes(&STANDARD.decode(&self.public).ok()?).ok().map(SealingKey)
    }

    /// Returns the private keys, which `passphrase` opens. Takes as long as checking a passphrase for each.
    ///
    /// # Errors
    /// If it is not the passphrase of these keys, or the file is damaged.
    pub(super) fn open(all: &[Self], passphrase: &Passphrase) -> Result<OpeningKey, KeyError> {
        all.iter().map(|key| key.private_key(passphrase)).collect::<Result<_, _>>().map(OpeningKey)
    }

    fn private_key(&self, passphrase: &Passphrase) -> Result<PrivateKey, KeyError> {
        let opened = || -> Option<PrivateKey> {
            let of_passphrase = derived(passphrase, &STANDARD.decode(&self.salt).ok()?).ok()?;
            let public = STANDARD.decode(&self.public).ok()?;
            PrivateKey::from_bytes(&open(&of_passphrase, OF_KEY, &self.private, &public)?).ok()
        };
        opened().ok_or(KeyError::Open)
    }
}

impl SealingKey {
    /// Returns the private part of `run`, sealed. It opens as a part of that run only. `None` where sealing to the
    /// public key fails.
    pub fn seal(&self, run: &RunId, text: &str) -> Option<String> {
        seal(&self.0, OF_RUN, text.as_bytes(), run.as_str().as_bytes())
    }
}

impl OpeningKey {
    /// Returns a new key.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub(super) fn generate() -> Result<Self, KeyError> {
        let mut ikm = [0; ENCAPPED];
        getrandom::fill(&mut ikm).map_err(KeyError::Randomness)?;
        Ok(Self(vec![X25519HkdfSha256::derive_keypair(&ikm).0]))
    }

    /// Returns a new key that opens what the keys of `before` do, up to [`MAX_KEYS`]. A text sealed later does not open
    /// with the keys of `before`.
    ///
    /// # Errors
    /// As [`Self::generate`].
    pub(super) fn succeeding(before: &Self) -> Result<Self, KeyError> {
        let mut keys = Self::generate()?.0;
        keys.extend(before.0.iter().take(MAX_KEYS - 1).cloned());
        Ok(Self(keys))
    }

    /// Returns the keys as they are, in Base64, for a file that needs no passphrase.
    pub(super) fn plain(&self) -> Vec<String> {
        self.0.iter().map(|key| STANDARD.encode(key.to_bytes())).collect()
    }

    /// Reads what [`Self::plain`] wrote.
    pub(super) fn read(plain: &[String]) -> Option<Self> {
        let key = |text: &String| PrivateKey::from_bytes(&STANDARD.decode(text).ok()?).ok();
        plain.iter().map(key).collect::<Option<_>>().map(Self)
    }

    /// Returns the private part of `run`. `None` where another key sealed it, or where it belongs to another run.
    pub fn open(&self, run: &RunId, sealed: &str) -> Option<String> {
        let opened = self.0.iter().find_map(|key| open(key, OF_RUN, sealed, run.as_str().as_bytes()))?;
        String::from_utf8(opened).ok()
    }
}

/// Returns the key that belongs to a passphrase.
fn derived(passphrase: &Passphrase, salt: &[u8]) -> Result<PrivateKey, KeyError> {
    let mut ikm = [0; ENCAPPED];
    let filled = Argon2::default().hash_password_into(passphrase.0.as_bytes(), salt, &mut ikm);
    filled.map_err(KeyError::Derivation)?;
    Ok(X25519HkdfSha256::derive_keypair(&ikm).0)
}

fn seal(to: &PublicKey, info: &[u8], text: &[u8], aad: &[u8]) -> Option<String> {
    let (encapped, ciphertext) =
        single_shot_seal::<ChaCha20Poly1305, HkdfSha256, X25519HkdfSha256>(&OpModeS::Base, to, info, text, aad).ok()?;
    Some(format!("{PREFIX}{}", STANDARD.encode([encapped.to_bytes().as_slice(), &ciphertext].concat())))
}

fn open(with: &PrivateKey, info: &[u8], sealed: &str, aad: &[u8]) -> Option<Vec<u8>> {
    let bytes = STANDARD.decode(sealed.strip_prefix(PREFIX)?).ok()?;
    let (encapped, ciphertext) = bytes.split_at_checked(ENCAPPED)?;
    let encapped = EncappedKey::from_bytes(encapped).ok()?;
    single_shot_open::<ChaCha20Poly1305, HkdfSha256, X25519HkdfSha256>(
        &OpModeR::Base,
        with,
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

    fn words(text: &str) -> Passphrase {
        Passphrase(text.to_owned())
    }

    fn stored(key: &OpeningKey, passphrase: &str) -> Vec<StoredKey> {
        StoredKey::sealed(key, &words(passphrase)).unwrap()
    }

    #[test]
    fn what_is_sealed_opens_with_the_passphrase_for_its_run_only() {
        let keys = stored(&OpeningKey::generate().unwrap(), "correct horse");
        let (run, other) = (RunId::random(), RunId::random());
        let sealed = keys[0].sealing().unwrap().seal(&run, "DEPLOY_KEY=abc").unwrap();
        assert!(is_sealed(&sealed) && !sealed.contains("abc"), "{sealed}");
        assert!(StoredKey::open(&keys, &words("battery")).is_err());
        let key = StoredKey::open(&keys, &words("correct horse")).unwrap();
        assert_eq!(key.open(&run, &sealed).as_deref(), Some("DEPLOY_KEY=abc"));
        assert_eq!(key.open(&other, &sealed), None, "a text that was put in the place of another run's");
        assert_eq!(OpeningKey::generate().unwrap().open(&run, &sealed), None);
        for damaged in [&sealed[..sealed.len() - 8], "sealed:1:", "sealed:1:AAAA", "sealed:1:%", "plain"] {
            assert_eq!(key.open(&run, damaged), None, "{damaged}");
        }
    }

    #[test]
    fn another_passphrase_opens_what_the_first_one_opened() {
        let first = stored(&OpeningKey::generate().unwrap(), "correct horse");
        let run = RunId::random();
        let sealed = first[0].sealing().unwrap().seal(&run, "text").unwrap();
        let second = stored(&StoredKey::open(&first, &words("correct horse")).unwrap(), "battery staple");
        assert!(StoredKey::open(&second, &words("correct horse")).is_err());
        let key = StoredKey::open(&second, &words("battery staple")).unwrap();
        assert_eq!(key.open(&run, &sealed).as_deref(), Some("text"));
        assert_eq!(second[0].sealing(), first[0].sealing());
    }

    #[test]
    fn a_key_that_succeeds_another_opens_what_that_one_sealed_and_not_the_other_way_round() {
        let before = OpeningKey::generate().unwrap();
        let after = OpeningKey::succeeding(&OpeningKey::read(&before.plain()).unwrap()).unwrap();
        let run = RunId::random();
        let seal = |key: &OpeningKey| stored(key, "words")[0].sealing().unwrap().seal(&run, "text").unwrap();
        assert_eq!(after.open(&run, &seal(&before)).as_deref(), Some("text"));
        assert_eq!(before.open(&run, &seal(&after)), None);
        let many = (0..10).fold(before, |key, _| OpeningKey::succeeding(&key).unwrap());
        assert_eq!(many.plain().len(), MAX_KEYS);
    }

    #[test]
    fn a_damaged_key_is_no_key() {
        let keys = stored(&OpeningKey::generate().unwrap(), "correct horse");
        let key = &keys[0];
        let damaged = StoredKey { public: "AAAA".to_owned(), ..key.clone() };
        assert!(damaged.sealing().is_none() && StoredKey::open(&[damaged], &words("correct horse")).is_err());
        let small = StoredKey { public: STANDARD.encode([0; ENCAPPED]), ..key.clone() };
        assert!(
            small.sealing().is_none_or(|key| key.seal(&RunId::random(), "text").is_none()),
            "a point of small order"
        );
        let damaged = StoredKey { salt: "%".to_owned(), ..key.clone() };
        assert!(StoredKey::open(&[damaged], &words("correct horse")).is_err());
        assert!(OpeningKey::read(&["%".to_owned()]).is_none());
    }
}
