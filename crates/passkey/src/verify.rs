//! Verification of registrations and signatures (Web Authentication Level 3, 7.1 and 7.2).

use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::challenge::Challenge;
use crate::decode;
use crate::key::PublicKey;

/// Flags of the authenticator's data: a person was present, the person was verified, a key follows.
const USER_PRESENT: u8 = 0x01;
const USER_VERIFIED: u8 = 0x04;
const HAS_KEY: u8 = 0x40;

/// Length of the authenticator's data before the key, in bytes: hash of the host, flags, counter.
const HEADER_BYTES: usize = 37;

/// Length of an authenticator's model id (AAGUID), in bytes.
const AAGUID_BYTES: usize = 16;

/// Maximum length of the id of a credential, in bytes.
const MAX_ID_BYTES: usize = 1023;

/// A browser's response for a new passkey, in base64url.
#[derive(Debug, Clone, Copy)]
pub struct Registration<'a> {
    /// The client data of the browser, as JSON.
    pub client_data: &'a str,
    /// The authenticator data, with the new key.
    pub authenticator_data: &'a str,
}

/// A registered passkey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// Id of the credential, in base64url.
    pub credential_id: String,
    /// Public key of the passkey.
    pub public_key: PublicKey,
    /// Origin of the page that registered the passkey, such as `http://localhost:7878`.
    pub origin: String,
}

/// A browser's response with a signature, in base64url.
#[derive(Debug, Clone, Copy)]
pub struct Assertion<'a> {
    /// The client data of the browser, as JSON.
    pub client_data: &'a str,
    /// The authenticator data.
    pub authenticator_data: &'a str,
    /// The signature of the client data and the authenticator data.
    pub signature: &'a str,
}

/// Error in a registration or a signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PasskeyError {
    /// A part of the message is invalid.
    #[error("its {0} cannot be read")]
    Malformed(&'static str),
    /// The message has another purpose: it is a registration instead of a signature, or the reverse.
    #[error("it is for another purpose than the requested one")]
    OtherKind,
    /// The message is for another question, answer or ticket.
    #[error("it is for another question or answer")]
    OtherChallenge,
    /// A page of another origin created the message.
    #[error("it is from a page at {found}, but the passkey was registered at {registered}")]
    OtherOrigin {
        /// Origin of the page that created the message.
        found: String,
        /// Origin of the page that registered the passkey.
        registered: String,
    },
    /// The message is for another host, or from a frame in a page of another origin.
    #[error("it is for another host")]
    OtherHost,
    /// The authenticator did not verify the person.
    #[error("the authenticator did not verify the person (by PIN, fingerprint or face)")]
    Unverified,
    /// The new key uses an unsupported algorithm.
    #[error("its key is not an ECDSA key on P-256 (ES256)")]
    OtherAlgorithm,
    /// The signature does not match the key.
    #[error("its signature does not match the passkey")]
    WrongSignature,
}

/// Client data from a browser. Unknown fields of newer browsers are ignored.
#[derive(Deserialize)]
struct ClientData {
    #[serde(rename = "type")]
    kind: String,
    challenge: String,
    origin: String,
    #[serde(default, rename = "crossOrigin")]
    cross_origin: bool,
}

/// Verifies the registration of a passkey and returns it.
///
/// # Errors
/// Unless an authenticator that verified the person created it for this challenge, in a top-level page.
pub fn register(registration: Registration<'_>, challenge: &Challenge) -> Result<Registered, PasskeyError> {
    let (client, _) = parse_client_data(registration.client_data, "webauthn.create", challenge)?;
    let data = decode(registration.authenticator_data).ok_or(PasskeyError::Malformed("authenticator data"))?;
    let credential = check_header(&data, &client.origin, HAS_KEY)?;
    let malformed = PasskeyError::Malformed("key");
    let credential = credential.get(AAGUID_BYTES..).ok_or(malformed.clone())?;
    let (length, id_and_key) = credential.split_at_checked(2).ok_or(malformed.clone())?;
    let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
    let (id, key) = id_and_key.split_at_checked(length).filter(|_| length <= MAX_ID_BYTES).ok_or(malformed)?;
    let public_key = PublicKey::from_cose(key).map_err(|_| PasskeyError::OtherAlgorithm)?;
    let credential_id = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, id);
    Ok(Registered { credential_id, public_key, origin: client.origin })
}

/// Verifies a signature by a passkey that was registered at `origin`.
///
/// # Errors
/// If the key, the challenge or the origin differs, or the authenticator did not verify the person.
pub fn verify(
    key: &PublicKey,
    origin: &str,
    assertion: Assertion<'_>,
    challenge: &Challenge,
) -> Result<(), PasskeyError> {
    let (client, bytes) = parse_client_data(assertion.client_data, "webauthn.get", challenge)?;
    if client.origin != origin {
        return Err(PasskeyError::OtherOrigin { found: client.origin, registered: origin.to_owned() });
    }
    let mut signed = decode(assertion.authenticator_data).ok_or(PasskeyError::Malformed("authenticator data"))?;
    check_header(&signed, origin, 0)?;
    let signature = decode(assertion.signature).ok_or(PasskeyError::Malformed("signature"))?;
    signed.extend_from_slice(&Sha256::digest(bytes));
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key.point());
    key.verify(&signed, &signature).map_err(|_| PasskeyError::WrongSignature)
}

/// Parses and checks client data. Also returns their bytes.
fn parse_client_data(text: &str, kind: &str, challenge: &Challenge) -> Result<(ClientData, Vec<u8>), PasskeyError> {
    let malformed = || PasskeyError::Malformed("client data");
    let bytes = decode(text).ok_or_else(malformed)?;
    let client: ClientData = serde_json::from_slice(&bytes).map_err(|_| malformed())?;
    if client.kind != kind {
        return Err(PasskeyError::OtherKind);
    }
    if client.cross_origin {
        return Err(PasskeyError::OtherHost);
    }
    if !challenge.matches(&client.challenge) {
        return Err(PasskeyError::OtherChallenge);
    }
    Ok((client, bytes))
}

/// Checks the header of the authenticator's data and returns the data after it.
fn check_header<'d>(data: &'d [u8], origin: &str, required_flags: u8) -> Result<&'d [u8], PasskeyError> {
    let (header, remainder) =
        data.split_at_checked(HEADER_BYTES).ok_or(PasskeyError::Malformed("authenticator data"))?;
    let host = host(origin).ok_or(PasskeyError::OtherHost)?;
    if header[..32] != Sha256::digest(host.as_bytes())[..] {
        return Err(PasskeyError::OtherHost);
    }
    let flags = header[32];
    match flags & (USER_PRESENT | USER_VERIFIED) == USER_PRESENT | USER_VERIFIED {
        false => Err(PasskeyError::Unverified),
        true if flags & required_flags != required_flags => Err(PasskeyError::Malformed("authenticator data")),
        true => Ok(remainder),
    }
}

/// Returns the host of an origin. `None` unless the origin is `localhost` or uses TLS.
fn host(origin: &str) -> Option<&str> {
    let authority = origin.strip_prefix("https://").or_else(|| {
        origin.strip_prefix("http://").filter(|authority| authority.split(':').next() == Some("localhost"))
    })?;
    authority.split([':', '/']).next().filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests;
