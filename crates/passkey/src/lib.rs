//! Verification of passkeys (Web Authentication Level 3, <https://www.w3.org/TR/webauthn-3/>): registrations, and
//! signatures of answers.
//!
//! Uses no files, clock or randomness. The challenge of a signature is a hash of the question and the answer, so the
//! signature covers both, and can be verified later from stored data. Keys are ECDSA on P-256 with SHA-256 (ES256),
//! because every authenticator supports this algorithm. User verification (a PIN, a fingerprint) is always required;
//! attestation is not, because the model of the device does not matter. Counters are not compared: keys that are
//! synchronized between devices have none.

mod challenge;
#[cfg(test)]
mod fuzz;
mod key;
#[cfg(any(test, feature = "soft-authenticator"))]
mod soft_authenticator;
mod verify;

pub use challenge::{Challenge, SignedText};
pub use key::{InvalidKey, PublicKey};
#[cfg(any(test, feature = "soft-authenticator"))]
pub use soft_authenticator::SoftAuthenticator;
pub use verify::{Assertion, PasskeyError, Registered, Registration, register, verify};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Decodes base64url (RFC 4648, section 5), with or without padding.
fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()
}
