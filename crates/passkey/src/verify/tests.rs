//! Registrations and signatures of a software authenticator.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;
use crate::SoftAuthenticator;
use crate::challenge::SignedText;

const ORIGIN: &str = "http://localhost:7878";
const EVERYTHING: u8 = USER_PRESENT | USER_VERIFIED;

const ANSWER: SignedText<'static> =
    SignedText { gate_id: "run_a/ask/1", digest: "0123abcd", number: Some(1), answer: "yes" };

/// Registers the authenticator's key, and reads it.
fn registers(key: &SoftAuthenticator, client: &str, host: &str, flags: u8) -> Result<Registered, PasskeyError> {
    let [client, data] = key.registers(client, host, flags);
    let registration = Registration { client_data: &client, authenticator_data: &data };
    register(registration, &Challenge::of_ticket("ticket"))
}

/// Signs, and checks the signature for an answer with the key of `registered`.
fn sign(
    [registered, signer]: [&SoftAuthenticator; 2],
    client: &str,
    host: &str,
    flags: u8,
    checked: &SignedText<'_>,
) -> Result<(), PasskeyError> {
    let key = registers(registered, &creation_data(ORIGIN), "localhost", EVERYTHING | HAS_KEY).unwrap().public_key;
    let [client, data, signature] = signer.signs(client, host, flags);
    let assertion = Assertion { client_data: &client, authenticator_data: &data, signature: &signature };
    verify(&key, ORIGIN, assertion, &Challenge::of_answer(checked))
}

fn creation_data(origin: &str) -> String {
    SoftAuthenticator::client_data("webauthn.create", &Challenge::of_ticket("ticket"), origin)
}

fn assertion_data(origin: &str) -> String {
    SoftAuthenticator::client_data("webauthn.get", &Challenge::of_answer(&ANSWER), origin)
}

#[test]
fn registered_passkey_signs_an_answer() {
    let one = SoftAuthenticator::new();
    let registered = registers(&one, &creation_data(ORIGIN), "localhost", EVERYTHING | HAS_KEY).unwrap();
    assert_eq!((registered.credential_id.as_str(), registered.origin.as_str()), ("YWJj", ORIGIN));
    let stored = serde_json::to_string(&registered.public_key).unwrap();
    assert_eq!(serde_json::from_str::<PublicKey>(&stored).unwrap(), registered.public_key);
    assert_eq!(sign([&one, &one], &assertion_data(ORIGIN), "localhost", EVERYTHING, &ANSWER), Ok(()));
}

#[test]
fn any_deviation_is_refused() {
    let one = SoftAuthenticator::new();
    let refused = |client: &str, host: &str, flags: u8, checked: &SignedText<'_>| {
        sign([&one, &one], client, host, flags, checked).unwrap_err()
    };
    assert_eq!(refused(&assertion_data(ORIGIN), "localhost", USER_PRESENT, &ANSWER), PasskeyError::Unverified);
    assert_eq!(refused(&assertion_data(ORIGIN), "localhost", USER_VERIFIED, &ANSWER), PasskeyError::Unverified);
    assert_eq!(refused(&assertion_data(ORIGIN), "elsewhere", EVERYTHING, &ANSWER), PasskeyError::OtherHost);
    let other_port = refused(&assertion_data("http://localhost:8000"), "localhost", EVERYTHING, &ANSWER);
    assert!(matches!(other_port, PasskeyError::OtherOrigin { .. }), "{other_port:?}");
    let another = SignedText { answer: "no", number: Some(2), ..ANSWER };
    assert_eq!(refused(&assertion_data(ORIGIN), "localhost", EVERYTHING, &another), PasskeyError::OtherChallenge);
    assert_eq!(refused(&creation_data(ORIGIN), "localhost", EVERYTHING, &ANSWER), PasskeyError::OtherKind);
    let framed = assertion_data(ORIGIN).replace("\"origin\"", "\"crossOrigin\":true,\"origin\"");
    assert_eq!(refused(&framed, "localhost", EVERYTHING, &ANSWER), PasskeyError::OtherHost);
    assert_eq!(refused("{", "localhost", EVERYTHING, &ANSWER), PasskeyError::Malformed("client data"));
    let other = SoftAuthenticator::new();
    let by_another = sign([&one, &other], &assertion_data(ORIGIN), "localhost", EVERYTHING, &ANSWER);
    assert_eq!(by_another, Err(PasskeyError::WrongSignature));

    let refused = |client: &str, host: &str, flags: u8| registers(&one, client, host, flags).unwrap_err();
    assert_eq!(refused(&creation_data(ORIGIN), "localhost", USER_PRESENT | HAS_KEY), PasskeyError::Unverified);
    let elsewhere = refused(&creation_data("http://evil.example"), "evil.example", EVERYTHING | HAS_KEY);
    assert_eq!(elsewhere, PasskeyError::OtherHost);
    assert_eq!(refused(&assertion_data(ORIGIN), "localhost", EVERYTHING | HAS_KEY), PasskeyError::OtherKind);
}

#[test]
fn foreign_bytes_are_refused_without_a_panic() {
    let client = URL_SAFE_NO_PAD.encode(creation_data(ORIGIN));
    let registers = |data: Vec<u8>| {
        let data = URL_SAFE_NO_PAD.encode(data);
        let registration = Registration { client_data: &client, authenticator_data: &data };
        register(registration, &Challenge::of_ticket("ticket"))
    };
    for length in 0..80 {
        assert!(registers(vec![0xff; length]).is_err());
    }
    // The length of the id exceeds the data.
    let mut data = SoftAuthenticator::header("localhost", EVERYTHING | HAS_KEY);
    data.extend([0; AAGUID_BYTES]);
    data.extend([0xff, 0xff, 1]);
    assert_eq!(registers(data), Err(PasskeyError::Malformed("key")));
    assert!(PublicKey::try_from("AAAA".to_owned()).is_err());
}
