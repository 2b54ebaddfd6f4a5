//! Registrations and signatures of an authenticator in software.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};

use super::*;
use crate::challenge::SignedText;

const ORIGIN: &str = "http://localhost:7878";
const EVERYTHING: u8 = PRESENT | VERIFIED;

const ANSWER: SignedText<'static> =
    SignedText { gate_id: "run_a/ask/1", digest: "0123abcd", number: Some(1), answer: "yes" };

/// An authenticator with one key.
struct Authenticator {
    pair: EcdsaKeyPair,
}

impl Authenticator {
    fn new() -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        Self { pair: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document.as_ref(), &random).unwrap() }
    }

    fn head(host: &str, flags: u8) -> Vec<u8> {
        let mut data = Sha256::digest(host.as_bytes()).to_vec();
        data.extend([flags, 0, 0, 0, 0]);
        data
    }

    fn registers(&self, client: &str, host: &str, flags: u8) -> Result<Registered, PasskeyError> {
        let mut data = Self::head(host, flags);
        data.extend([0; MODEL]);
        data.extend([0, 3, b'a', b'b', b'c']);
        let point = self.pair.public_key().as_ref();
        data.extend([0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20]);
        data.extend(&point[1..33]);
        data.extend([0x22, 0x58, 0x20]);
        data.extend(&point[33..]);
        let (client, data) = (URL_SAFE_NO_PAD.encode(client), URL_SAFE_NO_PAD.encode(data));
        let registration = Registration { client_data: &client, authenticator_data: &data };
        register(registration, &Challenge::of_ticket("ticket"))
    }

    /// Signs, and checks the signature for an answer.
    fn signs(&self, client: &str, host: &str, flags: u8, checked: &SignedText<'_>) -> Result<(), PasskeyError> {
        let key = self.registers(&created(ORIGIN), "localhost", EVERYTHING | HAS_KEY).unwrap().public_key;
        let data = Self::head(host, flags);
        let signed = [&data[..], &Sha256::digest(client.as_bytes())[..]].concat();
        let signature = self.pair.sign(&SystemRandom::new(), &signed).unwrap();
        let [client, data, signature] =
            [client.as_bytes(), &data[..], signature.as_ref()].map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
        let assertion = Assertion { client_data: &client, authenticator_data: &data, signature: &signature };
        verify(&key, ORIGIN, assertion, &Challenge::of_answer(checked))
    }
}

fn created(origin: &str) -> String {
    let challenge = Challenge::of_ticket("ticket").text();
    format!(r#"{{"type":"webauthn.create","challenge":"{challenge}","origin":"{origin}","crossOrigin":false}}"#)
}

fn got(origin: &str) -> String {
    let challenge = Challenge::of_answer(&ANSWER).text();
    format!(r#"{{"type":"webauthn.get","challenge":"{challenge}","origin":"{origin}","extra":[1]}}"#)
}

#[test]
fn a_registered_passkey_signs_an_answer() {
    let authenticator = Authenticator::new();
    let registered = authenticator.registers(&created(ORIGIN), "localhost", EVERYTHING | HAS_KEY).unwrap();
    assert_eq!((registered.credential_id.as_str(), registered.origin.as_str()), ("YWJj", ORIGIN));
    let stored = serde_json::to_string(&registered.public_key).unwrap();
    assert_eq!(serde_json::from_str::<PublicKey>(&stored).unwrap(), registered.public_key);
    assert_eq!(authenticator.signs(&got(ORIGIN), "localhost", EVERYTHING, &ANSWER), Ok(()));
}

#[test]
fn what_is_not_exactly_that_is_refused() {
    let authenticator = Authenticator::new();
    let signs = |client: &str, host: &str, flags: u8, checked: &SignedText<'_>| {
        authenticator.signs(client, host, flags, checked).unwrap_err()
    };
    assert_eq!(signs(&got(ORIGIN), "localhost", PRESENT, &ANSWER), PasskeyError::Unverified);
    assert_eq!(signs(&got(ORIGIN), "localhost", VERIFIED, &ANSWER), PasskeyError::Unverified);
    assert_eq!(signs(&got(ORIGIN), "elsewhere", EVERYTHING, &ANSWER), PasskeyError::OtherHost);
    let other_port = signs(&got("http://localhost:8000"), "localhost", EVERYTHING, &ANSWER);
    assert!(matches!(other_port, PasskeyError::OtherOrigin { .. }), "{other_port:?}");
    let another = SignedText { answer: "no", number: Some(2), ..ANSWER };
    assert_eq!(signs(&got(ORIGIN), "localhost", EVERYTHING, &another), PasskeyError::OtherChallenge);
    assert_eq!(signs(&created(ORIGIN), "localhost", EVERYTHING, &ANSWER), PasskeyError::OtherKind);
    let framed = got(ORIGIN).replace("\"extra\"", "\"crossOrigin\":true,\"extra\"");
    assert_eq!(signs(&framed, "localhost", EVERYTHING, &ANSWER), PasskeyError::OtherHost);
    assert_eq!(signs("{", "localhost", EVERYTHING, &ANSWER), PasskeyError::Malformed("client data"));

    let registers = |client: &str, host: &str, flags: u8| authenticator.registers(client, host, flags).unwrap_err();
    assert_eq!(registers(&created(ORIGIN), "localhost", PRESENT | HAS_KEY), PasskeyError::Unverified);
    assert_eq!(
        registers(&created("http://evil.example"), "evil.example", EVERYTHING | HAS_KEY),
        PasskeyError::OtherHost
    );
    assert_eq!(registers(&got(ORIGIN), "localhost", EVERYTHING | HAS_KEY), PasskeyError::OtherKind);
}

#[test]
fn a_signature_of_another_key_is_refused() {
    let (one, other) = (Authenticator::new(), Authenticator::new());
    let key = one.registers(&created(ORIGIN), "localhost", EVERYTHING | HAS_KEY).unwrap().public_key;
    let client = got(ORIGIN);
    let data = Authenticator::head("localhost", EVERYTHING);
    let signed = [&data[..], &Sha256::digest(client.as_bytes())[..]].concat();
    let signature = other.pair.sign(&SystemRandom::new(), &signed).unwrap();
    let [client, data, signature] =
        [client.as_bytes(), &data[..], signature.as_ref()].map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
    let assertion = Assertion { client_data: &client, authenticator_data: &data, signature: &signature };
    let refused = verify(&key, ORIGIN, assertion, &Challenge::of_answer(&ANSWER));
    assert_eq!(refused, Err(PasskeyError::WrongSignature));
}

#[test]
fn foreign_bytes_are_refused_and_break_nothing() {
    let authenticator = Authenticator::new();
    for length in 0..80 {
        let data = URL_SAFE_NO_PAD.encode(vec![0xff; length]);
        let client = URL_SAFE_NO_PAD.encode(created(ORIGIN));
        let registration = Registration { client_data: &client, authenticator_data: &data };
        assert!(register(registration, &Challenge::of_ticket("ticket")).is_err());
    }
    // The length of the id is more than there is.
    let mut data = Authenticator::head("localhost", EVERYTHING | HAS_KEY);
    data.extend([0; MODEL]);
    data.extend([0xff, 0xff, 1]);
    let (client, data) = (URL_SAFE_NO_PAD.encode(created(ORIGIN)), URL_SAFE_NO_PAD.encode(data));
    let registration = Registration { client_data: &client, authenticator_data: &data };
    assert_eq!(register(registration, &Challenge::of_ticket("ticket")), Err(PasskeyError::Malformed("key")));
    assert!(PublicKey::try_from("AAAA".to_owned()).is_err());
    assert!(authenticator.registers("", "localhost", EVERYTHING).is_err());
}
