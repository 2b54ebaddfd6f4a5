//! Encodings that programs print: Base64, hexadecimal digits, and URL escapes.
//!
//! The redactor searches for the complete encoding of a secret. In Base64 (RFC 4648) a secret within a longer text
//! begins at one of three offsets in a group of three bytes, and its first and last characters depend on the
//! neighbouring bytes. Without those characters, the encoding is part of the encoding of every text with the secret at
//! that offset.

use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Minimum length of a secret with hidden encodings, in bytes. Encodings of shorter secrets occur by chance in other
/// text.
const MIN_SECRET_BYTES: usize = 8;

/// Returns the distinct encodings of a secret, except the secret itself; none for a short secret.
pub(super) fn encodings(secret: &str) -> Vec<String> {
    let bytes = secret.as_bytes();
    if bytes.len() < MIN_SECRET_BYTES {
        return Vec::new();
    }
    let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut forms =
        vec![hexadecimal.to_uppercase(), hexadecimal, percent_encoded(bytes, true), percent_encoded(bytes, false)];
    for offset in 0..3 {
        forms.extend([base64_at(offset, bytes, &STANDARD_NO_PAD), base64_at(offset, bytes, &URL_SAFE_NO_PAD)]);
    }
    forms.sort_unstable();
    forms.dedup();
    forms.retain(|encoding| encoding != secret);
    forms
}

/// Returns the Base64 form of bytes at `offset` in a group of three, without the characters that depend on neighbouring
/// bytes.
fn base64_at(offset: usize, bytes: &[u8], engine: &impl base64::Engine) -> String {
    let mut padded = vec![0; offset];
    padded.extend_from_slice(bytes);
    let text = engine.encode(&padded);
    // A character has six bits.
    let start = (offset * 8).div_ceil(6);
    let end = padded.len() * 8 / 6;
    text[start..end].to_owned()
}

/// Returns bytes percent-encoded (RFC 3986, section 2.1), except the unreserved characters. Programs use hexadecimal
/// digits of either case.
fn percent_encoded(bytes: &[u8], upper_case: bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            _ if upper_case => text.push_str(&format!("%{byte:02X}")),
            _ => text.push_str(&format!("%{byte:02x}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn encodings_match_those_of_common_tools() {
        let forms = encodings("s3cr3t/p~w?");
        for expected in ["73336372337", "733363723374", "s3cr3t%2Fp~w%3F", "s3cr3t%2fp~w%3f"] {
            assert!(forms.iter().any(|encoding| encoding.starts_with(expected)), "{expected}: {forms:?}");
        }
        assert!(encodings("short").is_empty());
        assert!(encodings("0123456789").iter().all(|encoding| encoding != "0123456789"));
    }

    proptest! {
        #[test]
        fn text_with_a_secret_contains_its_encoding(
            before in proptest::collection::vec(any::<u8>(), 0..5),
            secret in "[ -~]{8,40}",
            after in proptest::collection::vec(any::<u8>(), 0..5),
        ) {
            let text = [&before[..], secret.as_bytes(), &after[..]].concat();
            let forms = encodings(&secret);
            for encoded in [STANDARD.encode(&text), URL_SAFE.encode(&text)] {
                prop_assert!(forms.iter().any(|encoding| encoded.contains(encoding.as_str())), "{encoded}: {forms:?}");
            }
        }
    }
}
