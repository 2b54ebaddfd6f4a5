//! Public keys of passkeys.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Bytes of a coordinate of a point on P-256.
const COORDINATE: usize = 32;

/// Sign of an uncompressed point (SEC 1, 2.3.3).
const UNCOMPRESSED: u8 = 4;

/// A public key of ECDSA on P-256: the point, not compressed. As text it is base64 for addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey([u8; 1 + 2 * COORDINATE]);

/// A text or bytes that are not a public key of this kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is no public key of ECDSA on P-256 (ES256)")]
pub struct InvalidKey;

impl PublicKey {
    /// Reads a key as authenticators write it: a COSE key (RFC 9053, 7.1.1) in the canonical form of CTAP2, which fixes
    /// its bytes but for the coordinates. Leaves bytes after it alone.
    pub(crate) fn from_cose(bytes: &[u8]) -> Result<Self, InvalidKey> {
        // {1 (kty): 2 (EC2), 3 (alg): -7 (ES256), -1 (crv): 1 (P-256), -2 (x): 32 bytes, -3 (y): 32 bytes}
        const BEFORE_X: [u8; 10] = [0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20];
        const BEFORE_Y: [u8; 3] = [0x22, 0x58, 0x20];
        let rest = bytes.strip_prefix(&BEFORE_X).ok_or(InvalidKey)?;
        let (x, rest) = rest.split_at_checked(COORDINATE).ok_or(InvalidKey)?;
        let rest = rest.strip_prefix(&BEFORE_Y).ok_or(InvalidKey)?;
        let y = rest.get(..COORDINATE).ok_or(InvalidKey)?;
        let mut point = [UNCOMPRESSED; 1 + 2 * COORDINATE];
        point[1..=COORDINATE].copy_from_slice(x);
        point[1 + COORDINATE..].copy_from_slice(y);
        Ok(Self(point))
    }

    /// Returns the point.
    pub(crate) fn point(&self) -> &[u8] {
        &self.0
    }

    /// Returns a short name: the beginning of the SHA-256 hash of the point.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let hash = Sha256::digest(self.0);
        hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TryFrom<String> for PublicKey {
    type Error = InvalidKey;

    fn try_from(text: String) -> Result<Self, InvalidKey> {
        let bytes = crate::decoded(&text).ok_or(InvalidKey)?;
        let point: [u8; 1 + 2 * COORDINATE] = bytes.try_into().map_err(|_| InvalidKey)?;
        if point[0] == UNCOMPRESSED { Ok(Self(point)) } else { Err(InvalidKey) }
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        key.to_string()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}
