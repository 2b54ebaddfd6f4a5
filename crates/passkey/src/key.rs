//! Public keys of passkeys.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Length of a coordinate of a point on P-256, in bytes.
const COORDINATE_BYTES: usize = 32;

/// First byte of an uncompressed point (SEC 1, 2.3.3).
const UNCOMPRESSED: u8 = 4;

/// An ECDSA public key on P-256: the uncompressed point. Its text form is base64url (RFC 4648, section 5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey([u8; 1 + 2 * COORDINATE_BYTES]);

/// Error for text or bytes that are not an ECDSA public key on P-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not a public key of ECDSA on P-256 (ES256)")]
pub struct InvalidKey;

impl PublicKey {
    /// Parses a key from an authenticator: a COSE key (RFC 9053, 7.1.1) in the canonical form of CTAP2. Only the
    /// coordinates vary in that form. Ignores any bytes after the key.
    pub(crate) fn from_cose(bytes: &[u8]) -> Result<Self, InvalidKey> {
        // {1 (kty): 2 (EC2), 3 (alg): -7 (ES256), -1 (crv): 1 (P-256), -2 (x): 32 bytes, -3 (y): 32 bytes}
        const BEFORE_X: [u8; 10] = [0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20];
        const BEFORE_Y: [u8; 3] = [0x22, 0x58, 0x20];
        let coordinates = bytes.strip_prefix(&BEFORE_X).ok_or(InvalidKey)?;
        let (x, remainder) = coordinates.split_at_checked(COORDINATE_BYTES).ok_or(InvalidKey)?;
        let remainder = remainder.strip_prefix(&BEFORE_Y).ok_or(InvalidKey)?;
        let y = remainder.get(..COORDINATE_BYTES).ok_or(InvalidKey)?;
        let mut point = [UNCOMPRESSED; 1 + 2 * COORDINATE_BYTES];
        point[1..=COORDINATE_BYTES].copy_from_slice(x);
        point[1 + COORDINATE_BYTES..].copy_from_slice(y);
        Ok(Self(point))
    }

    /// Returns the point.
    pub(crate) fn point(&self) -> &[u8] {
        &self.0
    }

    /// Returns a short identifier: the beginning of the SHA-256 hash of the point.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let hash = Sha256::digest(self.0);
        hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TryFrom<String> for PublicKey {
    type Error = InvalidKey;

    fn try_from(text: String) -> Result<Self, InvalidKey> {
        let bytes = crate::decode(&text).ok_or(InvalidKey)?;
        let point: [u8; 1 + 2 * COORDINATE_BYTES] = bytes.try_into().map_err(|_| InvalidKey)?;
        if point[0] == UNCOMPRESSED { Ok(Self(point)) } else { Err(InvalidKey) }
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        key.to_string()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}
