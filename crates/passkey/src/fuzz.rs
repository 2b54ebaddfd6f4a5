//! Fuzz targets for input from a browser: registrations and signatures.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use steplatch_fuzz::Target;

use crate::challenge::{Challenge, SignedText};
use crate::key::PublicKey;
use crate::verify::{Assertion, Registration, register, verify};

const ORIGIN: &str = "http://localhost:7878";

const ANSWER: SignedText<'static> =
    SignedText { gate_id: "run_a/ask/1", digest: "d", number: Some(1), answer: "yes", reason: "" };

const DICTIONARY: &[&str] = &[
    "\"type\":\"webauthn.create\"",
    "\"type\":\"webauthn.get\"",
    "\"origin\":\"http://localhost:7878\"",
    "\"crossOrigin\":true",
    "\"challenge\":",
];

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Splits an input at its first newline into the client data and the remaining bytes.
fn split_input(input: &[u8]) -> (&[u8], &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    (&input[..end], input.get(end + 1..).unwrap_or_default())
}

#[test]
fn registration() {
    let target = Target {
        corpus: concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/registration"),
        dictionary: DICTIONARY,
        max_bytes: 2048,
    };
    target.run(|input| {
        let (client, data) = split_input(input);
        let (client_data, authenticator_data) = (encode(client), encode(data));
        let sent = Registration { client_data: &client_data, authenticator_data: &authenticator_data };
        let registered = register(sent, &Challenge::for_ticket("ticket"));
        assert!(
            register(sent, &Challenge::for_ticket("another")).is_err(),
            "a registration is valid for one ticket only"
        );
        if let Ok(registered) = &registered {
            assert!(!registered.origin.is_empty());
            let reparsed = PublicKey::try_from(registered.public_key.to_string());
            assert!(reparsed.is_ok_and(|key| key == registered.public_key), "a stored key can be read again");
            // The authenticator verified the person.
            assert_eq!(data[32] & 0x05, 0x05);
        }
        registered.map(|registered| registered.credential_id.len()).map_err(|error| error.to_string())
    });
}

/// The input is the client data, a newline, the point of the key, the length of the signature, the signature, and the
/// authenticator data.
#[test]
fn assertion() {
    let target = Target {
        corpus: concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/assertion"),
        dictionary: DICTIONARY,
        max_bytes: 2048,
    };
    target.run(|input| {
        let (client, remainder) = split_input(input);
        let (point, remainder) = remainder.split_at(remainder.len().min(65));
        let length = remainder.first().map_or(0, |length| usize::from(*length)).min(remainder.len().saturating_sub(1));
        let (signature, data) = remainder.get(1..).unwrap_or_default().split_at(length);
        let Ok(key) = PublicKey::try_from(encode(point)) else { return "no key".to_owned() };
        let (client_data, authenticator_data, signature) = (encode(client), encode(data), encode(signature));
        let sent =
            Assertion { client_data: &client_data, authenticator_data: &authenticator_data, signature: &signature };
        let verified = verify(&key, ORIGIN, sent, &Challenge::for_answer(&ANSWER));
        let other_answer = SignedText { answer: "no", ..ANSWER };
        assert!(
            verify(&key, ORIGIN, sent, &Challenge::for_answer(&other_answer)).is_err(),
            "a signature is valid for one answer only"
        );
        assert!(verify(&key, "http://localhost:1", sent, &Challenge::for_answer(&ANSWER)).is_err());
        if verified.is_ok() {
            assert_eq!(data[32] & 0x05, 0x05, "the authenticator verified the person");
        }
        format!("{verified:?}")
    });
}
