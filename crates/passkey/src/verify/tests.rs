//! Tests with registrations and signatures of a software authenticator.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;
use crate::SoftAuthenticator;
use crate::challenge::SignedText;

const ORIGIN: &str = "http://localhost:7878";
const ALL_FLAGS: u8 = USER_PRESENT | USER_VERIFIED;

const ANSWER: SignedText<'static> =
    SignedText { gate_id: "run_a/ask/1", digest: "0123abcd", number: Some(1), answer: "yes", reason: "" };

/// Registers the key of an authenticator and returns the verified registration.
fn register_key(key: &SoftAuthenticator, client: &str, host: &str, flags: u8) -> Result<Registered, PasskeyError> {
    let [client, data] = key.register(client, host, flags);
    let registration = Registration { client_data: &client, authenticator_data: &data };
    register(registration, &Challenge::for_ticket("ticket"))
}

/// Signs with the key of `signer` and verifies the signature of `checked` with the key of `registered`.
fn sign_and_verify(
    [registered, signer]: [&SoftAuthenticator; 2],
    client: &str,
    host: &str,
    flags: u8,
    checked: &SignedText<'_>,
) -> Result<(), PasskeyError> {
    let key = register_key(registered, &creation_data(ORIGIN), "localhost", ALL_FLAGS | HAS_KEY).unwrap().public_key;
    let [client, data, signature] = signer.sign(client, host, flags);
    let assertion = Assertion { client_data: &client, authenticator_data: &data, signature: &signature };
    verify(&key, ORIGIN, assertion, &Challenge::for_answer(checked))
}

fn creation_data(origin: &str) -> String {
    SoftAuthenticator::client_data("webauthn.create", &Challenge::for_ticket("ticket"), origin)
}

fn assertion_data(origin: &str) -> String {
    SoftAuthenticator::client_data("webauthn.get", &Challenge::for_answer(&ANSWER), origin)
}

#[test]
fn registered_passkey_signs_an_answer() {
    let authenticator = SoftAuthenticator::new();
    let registered = register_key(&authenticator, &creation_data(ORIGIN), "localhost", ALL_FLAGS | HAS_KEY).unwrap();
    assert_eq!((registered.credential_id.as_str(), registered.origin.as_str()), ("YWJj", ORIGIN));
    let stored = serde_json::to_string(&registered.public_key).unwrap();
    assert_eq!(serde_json::from_str::<PublicKey>(&stored).unwrap(), registered.public_key);
    assert_eq!(
        sign_and_verify([&authenticator, &authenticator], &assertion_data(ORIGIN), "localhost", ALL_FLAGS, &ANSWER),
        Ok(())
    );
}

#[test]
fn any_deviation_is_rejected() {
    let authenticator = SoftAuthenticator::new();
    let signature_error = |client: &str, host: &str, flags: u8, checked: &SignedText<'_>| {
        sign_and_verify([&authenticator, &authenticator], client, host, flags, checked).unwrap_err()
    };
    assert_eq!(signature_error(&assertion_data(ORIGIN), "localhost", USER_PRESENT, &ANSWER), PasskeyError::Unverified);
    assert_eq!(signature_error(&assertion_data(ORIGIN), "localhost", USER_VERIFIED, &ANSWER), PasskeyError::Unverified);
    assert_eq!(signature_error(&assertion_data(ORIGIN), "elsewhere", ALL_FLAGS, &ANSWER), PasskeyError::OtherHost);
    let other_port = signature_error(&assertion_data("http://localhost:8000"), "localhost", ALL_FLAGS, &ANSWER);
    assert!(matches!(other_port, PasskeyError::OtherOrigin { .. }), "{other_port:?}");
    let other_answer = SignedText { answer: "no", number: Some(2), ..ANSWER };
    assert_eq!(
        signature_error(&assertion_data(ORIGIN), "localhost", ALL_FLAGS, &other_answer),
        PasskeyError::OtherChallenge
    );
    assert_eq!(signature_error(&creation_data(ORIGIN), "localhost", ALL_FLAGS, &ANSWER), PasskeyError::OtherKind);
    let cross_origin = assertion_data(ORIGIN).replace("\"origin\"", "\"crossOrigin\":true,\"origin\"");
    assert_eq!(signature_error(&cross_origin, "localhost", ALL_FLAGS, &ANSWER), PasskeyError::OtherHost);
    assert_eq!(signature_error("{", "localhost", ALL_FLAGS, &ANSWER), PasskeyError::Malformed("client data"));
    let other_authenticator = SoftAuthenticator::new();
    let wrong_key = sign_and_verify(
        [&authenticator, &other_authenticator],
        &assertion_data(ORIGIN),
        "localhost",
        ALL_FLAGS,
        &ANSWER,
    );
    assert_eq!(wrong_key, Err(PasskeyError::WrongSignature));

    let registration_error =
        |client: &str, host: &str, flags: u8| register_key(&authenticator, client, host, flags).unwrap_err();
    assert_eq!(
        registration_error(&creation_data(ORIGIN), "localhost", USER_PRESENT | HAS_KEY),
        PasskeyError::Unverified
    );
    let other_host = registration_error(&creation_data("http://evil.example"), "evil.example", ALL_FLAGS | HAS_KEY);
    assert_eq!(other_host, PasskeyError::OtherHost);
    assert_eq!(registration_error(&assertion_data(ORIGIN), "localhost", ALL_FLAGS | HAS_KEY), PasskeyError::OtherKind);
}

#[test]
fn invalid_authenticator_data_is_rejected() {
    let client = URL_SAFE_NO_PAD.encode(creation_data(ORIGIN));
    let register_data = |data: Vec<u8>| {
        let data = URL_SAFE_NO_PAD.encode(data);
        let registration = Registration { client_data: &client, authenticator_data: &data };
        register(registration, &Challenge::for_ticket("ticket"))
    };
    for length in 0..80 {
        assert!(register_data(vec![0xff; length]).is_err());
    }
    // The length of the id exceeds the remaining data.
    let mut data = SoftAuthenticator::header("localhost", ALL_FLAGS | HAS_KEY);
    data.extend([0; AAGUID_BYTES]);
    data.extend([0xff, 0xff, 1]);
    assert_eq!(register_data(data), Err(PasskeyError::Malformed("key")));
    assert!(PublicKey::try_from("AAAA".to_owned()).is_err());
}
