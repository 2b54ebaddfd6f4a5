//! Encryption of everything that Temporal stores.
//!
//! The codec seals payloads with ChaCha20-Poly1305 under a key that the hosts share, so that the server, its database,
//! its page and their backups contain no definitions, outputs or secrets. Names of workflows, of task queues and of
//! runs are not payloads, and Temporal does not pass search attributes to a codec, because they stay readable. Workers
//! write all other payloads, so the codec refuses an unsealed payload: without the key, a client of the server cannot
//! change a run.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use prost::Message as _;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use temporalio_common::data_converters::{
    DataConverter, DefaultFailureConverter, PayloadCodec, PayloadConversionError, PayloadConverter,
    SerializationContextData,
};
use temporalio_common::protos::temporal::api::common::v1::Payload;

/// The encoding of a sealed payload.
const ENCODING: &[u8] = b"binary/steplatch-sealed-1";

/// Prefix of the encodings of all versions.
const ENCODING_PREFIX: &[u8] = b"binary/steplatch-sealed-";

/// Length of a key, in bytes.
const KEY_BYTES: usize = 32;

/// Reason why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file is unusable.
    #[error("the key '{}' cannot be used: {cause}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// Other users can read the file.
    #[error("the key '{}' can be read by other users; protect it with: chmod 600 '{}'", .0.display(), .0.display())]
    NotPrivate(PathBuf),
    /// The file does not have 64 hexadecimal digits.
    #[error("the key '{}' is not 64 hexadecimal digits; copy it from a host that has it", .0.display())]
    Unreadable(PathBuf),
}

/// Reason for refusing a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The system has no random numbers.
    #[error("the system has no randomness")]
    NoRandomness,
    /// The payload has no seal.
    #[error(
        "a payload is not sealed, so it does not come from a worker with the key of this namespace, and is refused; \
         docs/temporal.md says how the run goes on"
    )]
    NotSealed,
    /// The seal is of another key, or the payload has changed.
    #[error("a payload is sealed with another key: all hosts need the same one (steplatch worker --key FILE)")]
    AnotherKey,
    /// The seal is of a newer version.
    #[error("a payload has a form that this version does not know: update Steplatch here")]
    Unreadable,
}

impl From<SealError> for PayloadConversionError {
    fn from(error: SealError) -> Self {
        Self::EncodingError(error.into())
    }
}

/// Seals payloads.
pub struct Codec {
    key: Arc<LessSafeKey>,
    random: SystemRandom,
}

impl std::fmt::Debug for Codec {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Codec(…)")
    }
}

impl Codec {
    /// Reads the key from a file. Creates a missing file.
    ///
    /// # Errors
    /// If reading or creating the file fails, or other users can read it.
    pub fn of_file(path: &Path) -> Result<Self, KeyError> {
        let failed = |cause| KeyError::File { path: path.to_owned(), cause };
        match fs::metadata(path) {
            Ok(metadata) if metadata.mode() & 0o077 != 0 => return Err(KeyError::NotPrivate(path.to_owned())),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => create_key_file(path).map_err(failed)?,
            Err(error) => return Err(failed(error)),
        }
        let text = fs::read_to_string(path).map_err(failed)?;
        let key = decode_hex(text.trim()).ok_or_else(|| KeyError::Unreadable(path.to_owned()))?;
        Ok(Self::new(&key))
    }

    /// Creates a codec with this key.
    #[must_use]
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        let key = UnboundKey::new(&CHACHA20_POLY1305, key).expect("a key of this cipher has 32 bytes");
        Self { key: Arc::new(LessSafeKey::new(key)), random: SystemRandom::new() }
    }

    /// Returns the converter of values of a client.
    #[must_use]
    pub fn into_converter(self) -> DataConverter {
        DataConverter::new(PayloadConverter::default(), DefaultFailureConverter::new(true), self)
    }

    fn seal(&self, payload: &Payload) -> Result<Payload, SealError> {
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(|_| SealError::NoRandomness)?;
        let mut data = payload.encode_to_vec();
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(ENCODING), &mut data)
            // The cipher accepts any payload of Temporal's size.
            .map_err(|_| SealError::Unreadable)?;
        let data = [&nonce[..], &data].concat();
        let metadata = HashMap::from([("encoding".to_owned(), ENCODING.to_vec())]);
        Ok(Payload { metadata, data, ..Payload::default() })
    }

    fn open(&self, payload: Payload) -> Result<Payload, SealError> {
        match payload.metadata.get("encoding").map(Vec::as_slice) {
            Some(ENCODING) => {}
            Some(encoding) if encoding.starts_with(ENCODING_PREFIX) => return Err(SealError::Unreadable),
            _ => return Err(SealError::NotSealed),
        }
        let (nonce, sealed) = payload.data.split_at_checked(NONCE_LEN).ok_or(SealError::AnotherKey)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError::AnotherKey)?;
        let mut sealed = sealed.to_vec();
        let opened = self.key.open_in_place(nonce, Aad::from(ENCODING), &mut sealed);
        Payload::decode(&*opened.map_err(|_| SealError::AnotherKey)?).map_err(|_| SealError::Unreadable)
    }
}

impl PayloadCodec for Codec {
    fn encode(
        &self,
        _: &SerializationContextData,
        payloads: Vec<Payload>,
    ) -> BoxFuture<'static, Result<Vec<Payload>, PayloadConversionError>> {
        let sealed: Result<Vec<Payload>, SealError> = payloads.iter().map(|payload| self.seal(payload)).collect();
        async { Ok(sealed?) }.boxed()
    }

    fn decode(
        &self,
        _: &SerializationContextData,
        payloads: Vec<Payload>,
    ) -> BoxFuture<'static, Result<Vec<Payload>, PayloadConversionError>> {
        let opened: Result<Vec<Payload>, SealError> = payloads.into_iter().map(|payload| self.open(payload)).collect();
        if let Err(error) = &opened {
            // The SDK fails the task with this payload, and the server retries it.
            tracing::error!("{error}");
        }
        async { Ok(opened?) }.boxed()
    }
}

fn create_key_file(path: &Path) -> io::Result<()> {
    let mut key = [0; KEY_BYTES];
    SystemRandom::new().fill(&mut key).map_err(|_| io::Error::other("the system has no randomness"))?;
    let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    if let Some(directory) = path.parent() {
        // Create the state directory, because the worker may be the first program here.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let temporary_path = path.with_extension(format!("new{}", std::process::id()));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary_path)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    // If two workers create the file at once, both use the first one.
    let linked = fs::hard_link(&temporary_path, path);
    fs::remove_file(&temporary_path)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

fn decode_hex(text: &str) -> Option<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    if text.len() != 2 * KEY_BYTES || !text.is_ascii() {
        return None;
    }
    for (byte, index) in key.iter_mut().zip(0..) {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(text: &str) -> Payload {
        let metadata = HashMap::from([("encoding".to_owned(), b"json/plain".to_vec())]);
        Payload { metadata, data: text.as_bytes().to_vec(), ..Payload::default() }
    }

    #[test]
    fn sealed_payload_hides_its_text_and_opens_with_its_key_only() {
        let (codec, other_codec) = (Codec::new(&[1; KEY_BYTES]), Codec::new(&[2; KEY_BYTES]));
        let plain = payload("\"hunter2\"");
        let sealed = codec.seal(&plain).unwrap();
        assert!(!sealed.data.windows(7).any(|part| part == b"hunter2"));
        assert_ne!(sealed.data, codec.seal(&plain).unwrap().data, "equal texts are not seen to be equal");
        assert_eq!(codec.open(sealed.clone()), Ok(plain.clone()));
        assert_eq!(other_codec.open(sealed.clone()), Err(SealError::AnotherKey));
        let mut damaged = sealed.clone();
        *damaged.data.last_mut().unwrap() ^= 1;
        assert_eq!(codec.open(damaged), Err(SealError::AnotherKey));
        let short = Payload { data: vec![1; NONCE_LEN - 1], ..sealed };
        assert_eq!(codec.open(short), Err(SealError::AnotherKey));
    }

    #[test]
    fn unsealed_payload_is_refused() {
        let codec = Codec::new(&[1; KEY_BYTES]);
        assert_eq!(codec.open(payload("\"yes\"")), Err(SealError::NotSealed));
        assert_eq!(codec.open(Payload::default()), Err(SealError::NotSealed));
        // A payload that claims to be sealed is not thereby sealed.
        let sealed = codec.seal(&payload("\"yes\"")).unwrap();
        let claims = Payload { data: payload("\"yes\"").encode_to_vec(), ..sealed.clone() };
        assert_eq!(codec.open(claims), Err(SealError::AnotherKey));
        let newer = HashMap::from([("encoding".to_owned(), b"binary/steplatch-sealed-2".to_vec())]);
        assert_eq!(codec.open(Payload { metadata: newer, ..sealed }), Err(SealError::Unreadable));
        let decoding = codec.decode(&SerializationContextData::None, vec![payload("1")]);
        let refused = decoding.now_or_never().unwrap().unwrap_err();
        assert!(refused.to_string().contains("not sealed"), "{refused}");
    }

    #[test]
    fn key_is_created_once_and_refused_if_others_can_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = std::env::temp_dir().join(format!("steplatch-temporal-key-{}", std::process::id()));
        // The directory is created with the key.
        let path = directory.join("key");
        let sealed = Codec::of_file(&path).unwrap().seal(&payload("x")).unwrap();
        assert_eq!(Codec::of_file(&path).unwrap().open(sealed), Ok(payload("x")));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Codec::of_file(&path), Err(KeyError::NotPrivate(_))));
        fs::write(&path, "no key").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(Codec::of_file(&path), Err(KeyError::Unreadable(_))));
        fs::remove_dir_all(&directory).unwrap();
    }
}
