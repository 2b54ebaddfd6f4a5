//! A software authenticator for tests: performs no user verification, and sets the flags that the test requests.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use sha2::{Digest as _, Sha256};

use crate::challenge::Challenge;

/// An authenticator with one key, whose id is `YWJj`.
#[derive(Debug)]
pub struct SoftAuthenticator {
    key_pair: EcdsaKeyPair,
}

impl Default for SoftAuthenticator {
    fn default() -> Self {
        Self::new()
    }
}

impl SoftAuthenticator {
    /// Flags for a person who is present and verified.
    pub const VERIFIED: u8 = 0x05;
    /// Flags of a registration: [`Self::VERIFIED`], and a key follows the header.
    pub const REGISTERED: u8 = 0x45;

    /// Creates an authenticator with a new key.
    ///
    /// # Panics
    /// If the system provides no random numbers.
    #[must_use]
    pub fn new() -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random);
        let document = document.expect("the system provides random numbers");
        let key_pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document.as_ref(), &random);
        Self { key_pair: key_pair.expect("a new key can be read") }
    }

    /// Returns the client data that a browser collects, as JSON.
    #[must_use]
    pub fn client_data(kind: &str, challenge: &Challenge, origin: &str) -> String {
        let challenge = challenge.text();
        format!(r#"{{"type":"{kind}","challenge":"{challenge}","origin":"{origin}","extra":[1]}}"#)
    }

    /// Returns the header of an authenticator's data.
    pub(crate) fn header(host: &str, flags: u8) -> Vec<u8> {
        let mut data = Sha256::digest(host.as_bytes()).to_vec();
        data.extend([flags, 0, 0, 0, 0]);
        data
    }

    /// Registers the key. Returns client data and authenticator data, as base64url.
    #[must_use]
    pub fn register(&self, client_data: &str, host: &str, flags: u8) -> [String; 2] {
        let mut data = Self::header(host, flags);
        data.extend([0; 16]);
        data.extend([0, 3, b'a', b'b', b'c']);
        let point = self.key_pair.public_key().as_ref();
        data.extend([0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20]);
        data.extend(&point[1..33]);
        data.extend([0x22, 0x58, 0x20]);
        data.extend(&point[33..]);
        [client_data.as_bytes(), &data].map(|bytes| URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Signs client data. Returns client data, authenticator data and signature, as base64url.
    ///
    /// # Panics
    /// If the system provides no random numbers.
    #[must_use]
    pub fn sign(&self, client_data: &str, host: &str, flags: u8) -> [String; 3] {
        let data = Self::header(host, flags);
        let signed = [&data[..], &Sha256::digest(client_data.as_bytes())[..]].concat();
        let signature = self.key_pair.sign(&SystemRandom::new(), &signed).expect("the system provides random numbers");
        [client_data.as_bytes(), &data, signature.as_ref()].map(|bytes| URL_SAFE_NO_PAD.encode(bytes))
    }
}
