//! Output in slices that end between characters.
//!
//! A read may end in the middle of a character (UTF-8, RFC 3629). The next parser completes such a character from the
//! next slice, but loses the following character if that slice soon ends in the middle of another. So an incomplete
//! character waits here for its remaining bytes, and no slice for the parser ends inside a character.

/// Replacement of bytes that are not a character: U+FFFD.
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// Buffers the first bytes of a character until its last byte arrives.
#[derive(Debug, Default)]
pub(crate) struct Utf8Assembler {
    incomplete: Vec<u8>,
}

impl Utf8Assembler {
    /// Passes `bytes` to `sink` in slices of at most `max_bytes` bytes (at least 4) that end between characters.
    pub(crate) fn pass(&mut self, mut bytes: &[u8], max_bytes: usize, mut sink: impl FnMut(&[u8])) {
        while !self.incomplete.is_empty() {
            let Some((&byte, rest)) = bytes.split_first() else { return };
            self.incomplete.push(byte);
            if std::str::from_utf8(&self.incomplete).is_ok() {
                sink(&std::mem::take(&mut self.incomplete));
            } else if !is_incomplete_character(&self.incomplete) {
                // The byte does not continue the character.
                self.incomplete.clear();
                sink(REPLACEMENT);
                break;
            }
            bytes = rest;
        }
        while !bytes.is_empty() {
            let end = bytes.len().min(max_bytes);
            let cut = end - incomplete_suffix_length(&bytes[..end]);
            if cut > 0 {
                sink(&bytes[..cut]);
            }
            if end == bytes.len() {
                self.incomplete.extend_from_slice(&bytes[cut..]);
                return;
            }
            bytes = &bytes[cut..];
        }
    }
}

/// Returns whether `bytes` are the beginning of a character, without its last byte.
fn is_incomplete_character(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

/// Returns the number of bytes at the end that belong to an incomplete character.
fn incomplete_suffix_length(bytes: &[u8]) -> usize {
    // A character has at most 4 bytes.
    let lengths = 1..=bytes.len().min(3);
    lengths.rev().find(|&length| is_incomplete_character(&bytes[bytes.len() - length..])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn endless_character_is_replaced() {
        let mut characters = Utf8Assembler::default();
        let mut out = Vec::new();
        characters.pass(b"a\xe6\xbc", 4096, |slice| out.extend_from_slice(slice));
        characters.pass(b"\x1b[m", 4096, |slice| out.extend_from_slice(slice));
        assert_eq!(out, "a\u{fffd}\x1b[m".as_bytes());
    }

    /// A byte that cannot continue the bytes before it is a separate mistake, as in the parser.
    #[test]
    fn invalid_bytes_pass_unchanged() {
        for bytes in [b"\xed\xa8 ".as_slice(), b"\xe0\x80", b"\xf0\x80\x80", b"\xf4\x90", b"\xc0\x80", b"\xf5\x80"] {
            let (mut characters, mut out) = (Utf8Assembler::default(), String::new());
            for byte in bytes.chunks(1) {
                characters.pass(byte, 4096, |slice| out.push_str(&String::from_utf8_lossy(slice)));
            }
            assert_eq!(out, String::from_utf8_lossy(bytes), "{bytes:x?}");
        }
    }

    proptest! {
        #[test]
        fn text_passes_unchanged_in_slices_of_whole_characters(
            text in "[a-zé漢👍\\x1b]{0,60}",
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
            most in 4usize..20,
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let (mut characters, mut out, mut last) = (Utf8Assembler::default(), String::new(), 0);
            for cut in cuts {
                characters.pass(&bytes[last..cut], most, |slice| {
                    assert!(!slice.is_empty() && slice.len() <= most);
                    out.push_str(std::str::from_utf8(slice).expect("every slice ends between characters"));
                });
                last = cut;
            }
            prop_assert_eq!(out, text);
        }
    }
}
