//! Encodings in which programs print their input: Base64, hexadecimal digits, and the escapes of URLs.
//!
//! The redactor hides the encoding of a whole secret unchanged. In Base64 (RFC 4648) a secret within a longer text
//! begins at one of three places of a group of three bytes, and its first and last characters depend on the
//! neighbouring bytes. The remainder without those characters occurs in every text that has the secret at such a place.

use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Minimum bytes of a secret whose encodings are hidden: the encodings of shorter ones occur in other texts by chance.
const MIN_SECRET_BYTES: usize = 8;

/// Returns the encodings of a secret that differ from it and from each other; none for a short secret.
pub(super) fn encodings(secret: &str) -> Vec<String> {
    let bytes = secret.as_bytes();
    if bytes.len() < MIN_SECRET_BYTES {
        return Vec::new();
    }
    let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut all = vec![hexadecimal.to_uppercase(), hexadecimal, escaped(bytes, true), escaped(bytes, false)];
    for place in 0..3 {
        all.extend([base64_at(place, bytes, &STANDARD_NO_PAD), base64_at(place, bytes, &URL_SAFE_NO_PAD)]);
    }
    all.sort_unstable();
    all.dedup();
    all.retain(|encoding| encoding != secret);
    all
}

/// Returns the Base64 form of bytes after `place` others, without the characters that depend on their neighbours.
fn base64_at(place: usize, bytes: &[u8], engine: &impl base64::Engine) -> String {
    let mut whole = vec![0; place];
    whole.extend_from_slice(bytes);
    let text = engine.encode(&whole);
    // A character has six bits.
    let first = (place * 8).div_ceil(6);
    let last = whole.len() * 8 / 6;
    text[first..last].to_owned()
}

/// Returns bytes with escapes as in a URL (RFC 3986, section 2.1), for all but its unreserved characters. Both cases of the digits mean
/// the same there, and programs use either.
fn escaped(bytes: &[u8], in_upper_case: bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            _ if in_upper_case => text.push_str(&format!("%{byte:02X}")),
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
    fn the_encodings_are_those_of_the_usual_tools() {
        let all = encodings("s3cr3t/p~w?");
        for expected in ["73336372337", "733363723374", "s3cr3t%2Fp~w%3F", "s3cr3t%2fp~w%3f"] {
            assert!(all.iter().any(|encoding| encoding.starts_with(expected)), "{expected}: {all:?}");
        }
        assert!(encodings("short").is_empty());
        assert!(encodings("0123456789").iter().all(|encoding| encoding != "0123456789"));
    }

    proptest! {
        #[test]
        fn every_text_that_has_the_secret_has_an_encoding_in_its_own(
            before in proptest::collection::vec(any::<u8>(), 0..5),
            secret in "[ -~]{8,40}",
            after in proptest::collection::vec(any::<u8>(), 0..5),
        ) {
            let text = [&before[..], secret.as_bytes(), &after[..]].concat();
            let all = encodings(&secret);
            for encoded in [STANDARD.encode(&text), URL_SAFE.encode(&text)] {
                prop_assert!(all.iter().any(|encoding| encoded.contains(encoding.as_str())), "{encoded}: {all:?}");
            }
        }
    }
}
