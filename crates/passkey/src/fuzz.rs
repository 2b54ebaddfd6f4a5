//! Input from a browser: registrations and signatures, with mistakes in every part.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use steplatch_fuzz::Target;

use crate::challenge::{Challenge, SignedText};
use crate::key::PublicKey;
use crate::verify::{Assertion, Registration, register, verify};

const ORIGIN: &str = "http://localhost:7878";

const ANSWER: SignedText<'static> = SignedText { gate_id: "run_a/ask/1", digest: "d", number: Some(1), answer: "yes" };

const WORDS: &[&str] = &[
    "\"type\":\"webauthn.create\"",
    "\"type\":\"webauthn.get\"",
    "\"origin\":\"http://localhost:7878\"",
    "\"crossOrigin\":true",
    "\"challenge\":",
];

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Splits an input at its first line end: the data of the browser, and the rest.
fn parts(input: &[u8]) -> (&[u8], &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    (&input[..end], input.get(end + 1..).unwrap_or_default())
}

#[test]
fn registration() {
    let target = Target {
        corpus: concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/registration"),
        dictionary: WORDS,
        longest: 2048,
    };
    target.run(|input| {
        let (client, data) = parts(input);
        let (client_data, authenticator_data) = (encoded(client), encoded(data));
        let sent = Registration { client_data: &client_data, authenticator_data: &authenticator_data };
        let registered = register(sent, &Challenge::of_ticket("ticket"));
        assert!(register(sent, &Challenge::of_ticket("another")).is_err(), "it is for one ticket");
        if let Ok(registered) = &registered {
            assert!(!registered.origin.is_empty());
            let again = PublicKey::try_from(registered.public_key.to_string());
            assert!(again.is_ok_and(|key| key == registered.public_key), "a stored key is read as the same");
            // The authenticator verified the person who was there.
            assert_eq!(data[32] & 0x05, 0x05);
        }
        registered.map(|registered| registered.credential_id.len()).map_err(|error| error.to_string())
    });
}

/// An input is the data of the browser, a line end, the point of the key, the length of the signature, the signature, and the data
/// of the authenticator.
#[test]
fn assertion() {
    let target =
        Target { corpus: concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/assertion"), dictionary: WORDS, longest: 2048 };
    target.run(|input| {
        let (client, rest) = parts(input);
        let (point, rest) = rest.split_at(rest.len().min(65));
        let length = rest.first().map_or(0, |length| usize::from(*length)).min(rest.len().saturating_sub(1));
        let (signature, data) = rest.get(1..).unwrap_or_default().split_at(length);
        let Ok(key) = PublicKey::try_from(encoded(point)) else { return "no key".to_owned() };
        let (client_data, authenticator_data, signature) = (encoded(client), encoded(data), encoded(signature));
        let sent =
            Assertion { client_data: &client_data, authenticator_data: &authenticator_data, signature: &signature };
        let verified = verify(&key, ORIGIN, sent, &Challenge::of_answer(&ANSWER));
        let other = SignedText { answer: "no", ..ANSWER };
        assert!(verify(&key, ORIGIN, sent, &Challenge::of_answer(&other)).is_err(), "it signs one answer");
        assert!(verify(&key, "http://localhost:1", sent, &Challenge::of_answer(&ANSWER)).is_err());
        if verified.is_ok() {
            assert_eq!(data[32] & 0x05, 0x05, "the authenticator verified the person who was there");
        }
        format!("{verified:?}")
    });
}
