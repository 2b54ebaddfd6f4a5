//! A bound on what a control string may make the parsers remember.
//!
//! Both parsers behind this collect an operating system command (OSC, ECMA-48 8.3.89) until its
//! terminator, however long it grows. A program that prints `ESC ]` and then gigabytes would take
//! the daemon's memory. So this filter cancels an OSC longer than [`MAX_OSC_BYTES`] and drops the
//! rest of it. The screen has narrower bounds for the addresses of hyperlinks (OSC 8).

/// Maximum length of a passed OSC, in bytes. Titles, folders and colours are far shorter.
pub(crate) const MAX_OSC_BYTES: usize = 16 * 1024;

const ESC: u8 = 0x1b;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const BEL: u8 = 0x07;

/// A filter before the parsers that watches for the beginning and end of an OSC.
#[derive(Debug, Default)]
pub(crate) struct ControlStringLimiter {
    state: State,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    #[default]
    Text,
    /// Behind a passed `ESC`; what it begins is still unknown.
    Escape,
    /// Inside a passed OSC of this length in bytes.
    Passing { length: usize },
    /// Inside a dropped OSC.
    Dropping,
}

impl ControlStringLimiter {
    /// Returns whether the bytes that have passed end outside of a control string.
    pub(crate) fn is_outside(&self) -> bool {
        matches!(self.state, State::Text)
    }

    /// Passes `bytes` to `sink` in order, as slices, without the dropped ones.
    pub(crate) fn pass(&mut self, bytes: &[u8], mut sink: impl FnMut(&[u8])) {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            match self.state {
                State::Text => {
                    let stop = memchr::memchr(ESC, rest).map_or(rest.len(), |esc| esc + 1);
                    if stop > 0 && rest[stop - 1] == ESC {
                        // The escape itself waits: it belongs to what follows.
                        emit(&mut sink, &rest[..stop - 1]);
                        self.state = State::Escape;
                    } else {
                        emit(&mut sink, rest);
                    }
                    at += stop;
                }
                State::Escape => match rest[0] {
                    b']' => {
                        sink(b"\x1b]");
                        self.state = State::Passing { length: 0 };
                        at += 1;
                    }
                    // `ESC ESC`: the first one ends, the second one begins.
                    ESC => {
                        sink(&[ESC]);
                        at += 1;
                    }
                    _ => {
                        sink(&[ESC]);
                        self.state = State::Text;
                    }
                },
                State::Passing { length } => {
                    let stop = end_of_string(rest);
                    let (take, ended) = stop.map_or((rest.len(), false), |stop| (stop, true));
                    if length + take > MAX_OSC_BYTES {
                        sink(&[CAN]);
                        self.state = State::Dropping;
                        continue;
                    }
                    emit(&mut sink, &rest[..take]);
                    at += take;
                    self.state = State::Passing { length: length + take };
                    if ended {
                        at += self.finish_string(rest[take], Some(&mut sink));
                    }
                }
                State::Dropping => match end_of_string(rest) {
                    None => at = bytes.len(),
                    Some(stop) => {
                        at += stop;
                        at += self.finish_string(rest[stop], None::<&mut fn(&[u8])>);
                    }
                },
            }
        }
    }

    /// Consumes the byte at the end of a string. An `ESC` begins the next sequence.
    fn finish_string(&mut self, byte: u8, sink: Option<&mut impl FnMut(&[u8])>) -> usize {
        if byte == ESC {
            self.state = State::Escape;
        } else {
            if let Some(sink) = sink {
                sink(&[byte]);
            }
            self.state = State::Text;
        }
        1
    }
}

fn emit(sink: &mut impl FnMut(&[u8]), bytes: &[u8]) {
    if !bytes.is_empty() {
        sink(bytes);
    }
}

fn end_of_string(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| matches!(*byte, ESC | BEL | CAN | SUB))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn passed(pieces: &[&[u8]]) -> Vec<u8> {
        let mut guard = ControlStringLimiter::default();
        let mut out = Vec::new();
        for piece in pieces {
            guard.pass(piece, |bytes| out.extend_from_slice(bytes));
        }
        out
    }

    #[test]
    fn ordinary_output_passes_unchanged() {
        let output = b"a\x1b[1mb\x1b]0;title\x07c\x1b]133;A\x1b\\d\x1bPq123\x1b\\e";
        assert_eq!(passed(&[output]), output);
    }

    #[test]
    fn an_endless_title_is_cancelled() {
        let mut guard = ControlStringLimiter::default();
        let mut out = Vec::new();
        guard.pass(b"a\x1b]0;", |bytes| out.extend_from_slice(bytes));
        for _ in 0..1000 {
            guard.pass(&[b'x'; 4096], |bytes| out.extend_from_slice(bytes));
        }
        guard.pass(b"\x07b", |bytes| out.extend_from_slice(bytes));
        assert!(out.len() <= MAX_OSC_BYTES + 16);
        assert!(out.ends_with(b"\x18b"));
    }

    proptest! {
        #[test]
        fn where_the_reads_are_cut_makes_no_difference(
            bytes in prop::collection::vec(prop::sample::select(b"a8;]\x1b\x07\x18P\\0".to_vec()), 0..200),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let mut pieces: Vec<&[u8]> = Vec::new();
            let mut last = 0;
            for cut in cuts {
                pieces.push(&bytes[last..cut]);
                last = cut;
            }
            pieces.push(&bytes[last..]);
            prop_assert_eq!(passed(&pieces), passed(&[&bytes]));
        }
    }
}
