//! A limit on the length of control strings that the parsers buffer.
//!
//! Both parsers after this filter buffer an operating system command (OSC, ECMA-48 8.3.89) until its terminator,
//! without a limit. A program that prints `ESC ]` and then gigabytes would exhaust the daemon's memory. So this filter
//! cancels an OSC longer than [`MAX_OSC_BYTES`] and drops the rest of it. The screen has lower limits for the addresses
//! of hyperlinks (OSC 8).

/// Maximum length of an OSC that passes the filter, in bytes. Titles, directories and colours are far shorter.
pub(crate) const MAX_OSC_BYTES: usize = 16 * 1024;

const ESC: u8 = 0x1b;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const BEL: u8 = 0x07;

/// A filter before the parsers that drops OSCs beyond [`MAX_OSC_BYTES`].
#[derive(Debug, Default)]
pub(crate) struct ControlStringLimiter {
    state: State,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    #[default]
    Text,
    /// After an `ESC` that is not passed yet; the kind of its sequence is still unknown.
    Escape,
    /// Inside a passed OSC of this length in bytes.
    Passing { length: usize },
    /// Inside a dropped OSC.
    Dropping,
}

impl ControlStringLimiter {
    /// Returns whether the bytes so far end outside an OSC or escape sequence prefix.
    pub(crate) fn is_outside(&self) -> bool {
        matches!(self.state, State::Text)
    }

    /// Passes `bytes` to `sink` in order, as slices, without the dropped bytes.
    pub(crate) fn pass(&mut self, bytes: &[u8], mut sink: impl FnMut(&[u8])) {
        let mut position = 0;
        while position < bytes.len() {
            let rest = &bytes[position..];
            match self.state {
                State::Text => {
                    let stop = memchr::memchr(ESC, rest).map_or(rest.len(), |esc| esc + 1);
                    if stop > 0 && rest[stop - 1] == ESC {
                        // Hold the `ESC` back, because it belongs to the next sequence.
                        emit(&mut sink, &rest[..stop - 1]);
                        self.state = State::Escape;
                    } else {
                        emit(&mut sink, rest);
                    }
                    position += stop;
                }
                State::Escape => match rest[0] {
                    b']' => {
                        sink(b"\x1b]");
                        self.state = State::Passing { length: 0 };
                        position += 1;
                    }
                    // `ESC ESC`: pass the first `ESC`; the second one begins a sequence.
                    ESC => {
                        sink(&[ESC]);
                        position += 1;
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
                    position += take;
                    self.state = State::Passing { length: length + take };
                    if ended {
                        position += self.finish_string(rest[take], Some(&mut sink));
                    }
                }
                State::Dropping => match end_of_string(rest) {
                    None => position = bytes.len(),
                    Some(stop) => {
                        position += stop;
                        position += self.finish_string(rest[stop], None::<&mut fn(&[u8])>);
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
    fn endless_title_is_cancelled() {
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
        fn output_is_the_same_for_any_division_into_reads(
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
