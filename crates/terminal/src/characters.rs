//! Output in slices that end between characters.
//!
//! A read may end in the middle of a character (UTF-8, RFC 3629). The parser
//! behind this completes such a character from the next slice, and loses the one
//! after it when that slice soon ends in the middle of another. So no slice that
//! it gets ends inside a character: the beginning of one waits here for its end.

/// What replaces bytes that are no character: U+FFFD.
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// Keeps the beginning of a character until the rest of it comes.
#[derive(Debug, Default)]
pub(crate) struct Utf8Assembler {
    begun: Vec<u8>,
}

impl Utf8Assembler {
    /// Passes `bytes` to `sink` in slices of at most `most` bytes (at least 4) that end between characters.
    pub(crate) fn pass(&mut self, mut bytes: &[u8], most: usize, mut sink: impl FnMut(&[u8])) {
        while let Some(wanted) = self.begun.first().map(|&lead| length(lead)) {
            match bytes.first() {
                None => return,
                Some(&byte) if is_continuation(byte) => {
                    self.begun.push(byte);
                    bytes = &bytes[1..];
                    if self.begun.len() == wanted {
                        sink(&std::mem::take(&mut self.begun));
                    }
                }
                Some(_) => {
                    // It never ends: what comes is something else.
                    self.begun.clear();
                    sink(REPLACEMENT);
                }
            }
        }
        while !bytes.is_empty() {
            let end = bytes.len().min(most);
            let cut = end - unfinished(&bytes[..end]);
            if cut > 0 {
                sink(&bytes[..cut]);
            }
            if end == bytes.len() {
                self.begun.extend_from_slice(&bytes[cut..]);
                return;
            }
            bytes = &bytes[cut..];
        }
    }
}

/// How many bytes the character that begins with `lead` has.
fn length(lead: u8) -> usize {
    match lead {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    }
}

fn is_continuation(byte: u8) -> bool {
    (0x80..=0xbf).contains(&byte)
}

/// How many bytes at the end are the beginning of a character.
fn unfinished(bytes: &[u8]) -> usize {
    let tail = bytes.iter().rev().take(4).take_while(|byte| is_continuation(**byte)).count();
    match bytes.len().checked_sub(tail + 1).map(|lead| length(bytes[lead])) {
        Some(wanted) if wanted > tail + 1 => tail + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_character_that_never_ends_is_replaced() {
        let mut characters = Utf8Assembler::default();
        let mut out = Vec::new();
        characters.pass(b"a\xe6\xbc", 4096, |slice| out.extend_from_slice(slice));
        characters.pass(b"\x1b[m", 4096, |slice| out.extend_from_slice(slice));
        assert_eq!(out, "a\u{fffd}\x1b[m".as_bytes());
    }

    proptest! {
        #[test]
        fn text_passes_whole_and_every_slice_of_it_is_text(
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
                    out.push_str(std::str::from_utf8(slice).expect("a slice of whole characters"));
                });
                last = cut;
            }
            prop_assert_eq!(out, text);
        }
    }
}
