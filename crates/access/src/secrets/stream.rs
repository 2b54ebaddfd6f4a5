//! Masking of secrets in a stream of output, regardless of how it is divided into portions.
//!
//! Escape sequences, line ends and portions may divide a word that a person sees as a whole, and a title is text as
//! well. The search therefore compares a secret with the visible characters, regardless of sequences between them, and
//! with the text of each control string. A mask has the width of the secret, so that the layout does not change.
//!
//! A redacted stream holds back the end of a portion only while it may be the beginning of a secret. The next portion
//! decides, or the reader flushes the held text when no more output arrives.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use unicode_width::UnicodeWidthChar as _;

use super::Redactor;

/// Maximum length of held text, in characters, beyond the longest secret: a program may print endless sequences after
/// the beginning of a secret.
const MAX_HELD_CHARS: usize = 64 * 1024;

/// A stream of output with masked secrets.
#[derive(Debug)]
pub struct RedactedStream {
    secrets: Arc<Redactor>,
    state: State,
    /// The received bytes of an incomplete character.
    partial_character: Vec<u8>,
    held: VecDeque<Item>,
}

/// A character, or a byte of a sequence, that is held back.
#[derive(Debug, Clone, Copy)]
struct Item {
    kind: Kind,
    character: char,
    /// A byte that is not part of any character.
    raw: Option<u8>,
    is_hidden: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Shown on the screen.
    Shown,
    /// Text of a control string, such as a title.
    ControlText,
    /// A sequence or a control character, invisible to a reader.
    Invisible,
}

/// The state of the stream in ECMA-48, reduced to what separates text from sequences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    Escape,
    /// `ESC` and an intermediate byte.
    Charset,
    /// `ESC [`, up to its final byte.
    Control,
    /// `ESC ]`, `ESC P` and others, up to their terminator.
    ControlString,
    /// An `ESC` in a control string.
    Terminator,
}

/// Secrets by their first characters, so that each position of a stream needs few comparisons.
struct SecretIndex<'a> {
    by_first: HashMap<char, Vec<&'a str>>,
    longest: usize,
}

impl<'a> SecretIndex<'a> {
    fn new(secrets: &'a [String]) -> Self {
        let mut by_first: HashMap<char, Vec<&'a str>> = HashMap::new();
        for secret in secrets {
            by_first.entry(secret.chars().next().unwrap_or_default()).or_default().push(secret);
        }
        Self { by_first, longest: secrets.iter().map(String::len).max().unwrap_or(0) }
    }

    fn starting_with(&self, first: char) -> &[&'a str] {
        self.by_first.get(&first).map_or(&[], Vec::as_slice)
    }
}

impl RedactedStream {
    /// Creates a stream that begins in plain text. Later secrets are hidden as soon as they are known.
    pub fn new(secrets: Arc<Redactor>) -> Self {
        Self { secrets, state: State::default(), partial_character: Vec::new(), held: VecDeque::new() }
    }

    /// Accepts a portion and returns the decided part of the stream.
    pub fn pass(&mut self, portion: &[u8]) -> Vec<u8> {
        for &byte in portion {
            self.push_byte(byte);
        }
        let mut out = Vec::with_capacity(portion.len());
        let undecided = self.mask_complete(false);
        self.release(undecided, &mut out);
        out
    }

    /// Returns whether the stream holds text back.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty() || !self.partial_character.is_empty()
    }

    /// Returns the held text, for a caller that expects no more output soon.
    pub fn flush(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.mask_complete(true);
        self.release(self.held.len(), &mut out);
        out.append(&mut self.partial_character);
        out
    }

    fn push_byte(&mut self, byte: u8) {
        if !self.partial_character.is_empty() {
            if (0x80..=0xbf).contains(&byte) {
                self.partial_character.push(byte);
                match std::str::from_utf8(&self.partial_character) {
                    Ok(text) => {
                        let character = text.chars().next().expect("non-empty UTF-8 has a character");
                        self.partial_character.clear();
                        self.hold(self.text_kind(), character, None);
                    }
                    Err(error) if error.error_len().is_some() => self.hold_invalid_bytes(),
                    Err(_) => {}
                }
                return;
            }
            self.hold_invalid_bytes();
        }
        if byte >= 0x80 {
            self.partial_character.push(byte);
            if std::str::from_utf8(&self.partial_character).is_err_and(|error| error.error_len().is_some()) {
                self.hold_invalid_bytes();
            }
            return;
        }
        let (kind, next) = self.classify(byte);
        self.state = next;
        self.hold(kind, char::from(byte), None);
    }

    /// Returns the kind of an ASCII byte, and the state after it.
    fn classify(&self, byte: u8) -> (Kind, State) {
        use Kind::{ControlText, Invisible, Shown};
        const ESC: u8 = 0x1b;
        match (self.state, byte) {
            // CAN and SUB end every sequence.
            (_, 0x18 | 0x1a) => (Invisible, State::Text),
            (State::ControlString, ESC) => (Invisible, State::Terminator),
            (_, ESC) => (Invisible, State::Escape),
            (State::Text, b'\t' | b' '..=b'~') => (Shown, State::Text),
            (State::Text, _) => (Invisible, State::Text),
            (State::Escape, b'[') => (Invisible, State::Control),
            (State::Escape, b']' | b'P' | b'X' | b'^' | b'_') => (Invisible, State::ControlString),
            (State::Escape | State::Charset | State::Terminator, b' '..=b'/') => (Invisible, State::Charset),
            (State::Escape | State::Charset, b'0'..=b'~') => (Invisible, State::Text),
            (State::Control, b'@'..=b'~') => (Invisible, State::Text),
            (State::ControlString, 0x07) => (Invisible, State::Text),
            (State::ControlString, b' '..=b'~' | b'\t') => (ControlText, State::ControlString),
            (State::Terminator, b'[') => (Invisible, State::Control),
            (State::Terminator, b']' | b'P' | b'X' | b'^' | b'_') => (Invisible, State::ControlString),
            (State::Terminator, _) => (Invisible, State::Text),
            (state @ (State::Escape | State::Charset | State::Control | State::ControlString), _) => (Invisible, state),
        }
    }

    fn text_kind(&self) -> Kind {
        match self.state {
            State::Text => Kind::Shown,
            State::ControlString => Kind::ControlText,
            State::Escape | State::Charset | State::Control | State::Terminator => Kind::Invisible,
        }
    }

    /// Holds the bytes of an invalid character, to pass them on unchanged.
    fn hold_invalid_bytes(&mut self) {
        let kind = self.text_kind();
        for byte in std::mem::take(&mut self.partial_character) {
            self.hold(kind, char::REPLACEMENT_CHARACTER, Some(byte));
        }
    }

    fn hold(&mut self, kind: Kind, character: char, raw: Option<u8>) {
        self.held.push_back(Item { kind, character, raw, is_hidden: false });
    }

    /// Masks every complete secret. Returns the number of decided items: an incomplete secret may begin after them,
    /// unless this is the end of the stream.
    fn mask_complete(&mut self, is_end: bool) -> usize {
        let secrets = self.secrets.clone();
        if secrets.hides_all() {
            for item in &mut self.held {
                item.is_hidden = item.kind != Kind::Invisible;
            }
            return self.held.len();
        }
        secrets.with_values(|secrets| {
            let mut decided = self.held.len();
            if secrets.is_empty() {
                return decided;
            }
            let secrets = &SecretIndex::new(secrets);
            let shown: Vec<usize> =
                (0..self.held.len()).filter(|index| self.held[*index].kind == Kind::Shown).collect();
            decided = decided.min(self.mask_sequence(&shown, secrets));
            let mut control_text: Vec<usize> = Vec::new();
            for index in 0..self.held.len() {
                if self.held[index].kind == Kind::ControlText {
                    control_text.push(index);
                } else if !control_text.is_empty() {
                    // The control string has ended, so a secret in it is complete.
                    self.mask_sequence(&control_text, secrets);
                    control_text.clear();
                }
            }
            decided = decided.min(self.mask_sequence(&control_text, secrets));
            if is_end {
                self.held.len()
            } else {
                decided.max(self.held.len().saturating_sub(MAX_HELD_CHARS + secrets.longest))
            }
        })
    }

    /// Masks the complete secrets in the items at `indices`, in their order. Returns the index of the first incomplete
    /// secret.
    fn mask_sequence(&mut self, indices: &[usize], secrets: &SecretIndex<'_>) -> usize {
        let mut decided = self.held.len();
        for first in 0..indices.len() {
            for secret in secrets.starting_with(self.held[indices[first]].character) {
                let mut candidates = indices[first..].iter();
                let mut is_complete = true;
                let matches = secret.chars().all(|expected| match candidates.next() {
                    Some(index) => self.held[*index].character == expected && self.held[*index].raw.is_none(),
                    None => {
                        is_complete = false;
                        true
                    }
                });
                if matches && is_complete {
                    let length = secret.chars().count();
                    for index in &indices[first..first + length] {
                        self.held[*index].is_hidden = true;
                    }
                } else if matches {
                    decided = decided.min(indices[first]);
                }
            }
        }
        decided
    }

    fn release(&mut self, count: usize, out: &mut Vec<u8>) {
        for item in self.held.drain(..count) {
            match item {
                Item { is_hidden: true, character, .. } => {
                    for _ in 0..character.width().unwrap_or(0) {
                        out.extend_from_slice("•".as_bytes());
                    }
                }
                Item { raw: Some(byte), .. } => out.push(byte),
                Item { character, .. } => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stream(secrets: &[&str]) -> RedactedStream {
        let redactor = Redactor::default();
        secrets.iter().for_each(|secret| redactor.add(secret));
        RedactedStream::new(Arc::new(redactor))
    }

    fn mask_portions(secrets: &[&str], portions: &[&str]) -> String {
        let mut stream = stream(secrets);
        let mut out: Vec<u8> = portions.iter().flat_map(|portion| stream.pass(portion.as_bytes())).collect();
        out.extend(stream.flush());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn secret_is_hidden_across_portions() {
        assert_eq!(mask_portions(&["hunter2!"], &["is hunter2!."]), "is ••••••••.");
        assert_eq!(mask_portions(&["hunter2!"], &["is hun", "t", "er2!."]), "is ••••••••.");
        assert_eq!(mask_portions(&["hunter2!"], &["is hun", "ting"]), "is hunting");
        assert_eq!(mask_portions(&["漢字パス"], &["漢字パス|"]), "••••••••|");
    }

    #[test]
    fn sequences_within_a_secret_are_kept() {
        let colours = "\x1b[1mhun\x1b[0;32mter\r\n2\x1b]0;title\x07!\x1b[m";
        assert_eq!(mask_portions(&["hunter2!"], &[colours]), "\x1b[1m•••\x1b[0;32m•••\r\n•\x1b]0;title\x07•\x1b[m");
        let title = "\x1b]0;ssh hunter2! x\x1b\\hunter";
        assert_eq!(mask_portions(&["hunter2!"], &[title]), "\x1b]0;ssh •••••••• x\x1b\\hunter");
        assert_eq!(mask_portions(&["hunter2!"], &["\x1b]0;hunter\x07\x1b]0;2!\x07"]), "\x1b]0;hunter\x07\x1b]0;2!\x07");
    }

    #[test]
    fn overlapping_secrets_are_both_hidden() {
        assert_eq!(mask_portions(&["abcd", "cdefgh"], &["xabcdefghx"]), "x••••••••x");
        assert_eq!(mask_portions(&["abcd", "abcdefgh"], &["abcd", "efg abcdefgh"]), "••••efg ••••••••");
    }

    #[test]
    fn only_possible_secrets_are_held_back() {
        let mut stream = stream(&["hunter2!"]);
        assert_eq!(stream.pass(b"plain text"), b"plain text");
        assert!(!stream.is_holding());
        assert_eq!(stream.pass(b"a hunt"), b"a ");
        assert!(stream.is_holding());
        assert_eq!(stream.flush(), b"hunt");
        assert_eq!(stream.pass(b"\xff\xfe"), b"\xff\xfe");
        assert_eq!(stream.pass("é".as_bytes().get(..1).unwrap()), b"");
        assert_eq!(stream.pass("é".as_bytes().get(1..).unwrap()), "é".as_bytes());
    }

    #[test]
    fn endless_sequences_are_not_held_forever() {
        let mut stream = stream(&["hunter2!"]);
        let mut passed_bytes = stream.pass(b"hunter").len();
        for _ in 0..100 {
            passed_bytes += stream.pass(&b"\x1b[m".repeat(1000)).len();
        }
        assert!(stream.held.len() <= MAX_HELD_CHARS + 8 && passed_bytes > 200_000);
    }

    proptest! {
        #[test]
        fn cut_position_does_not_matter(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "ab", "abc", "a", "b", "aba", "secret", "sec", "ret", "\x1b[31m", "\r\n", "\x1b]0;", "\x07", "\x1b\\",
                "\x1b(B", "漢", "é", "\x1b", " ", "\x18",
            ]), 0..40),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        ) {
            let secrets = ["abab", "secret", "aba漢", "bsec"];
            let bytes = pieces.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let run = |cuts: &[usize]| {
                let (mut stream, mut out, mut last) = (stream(&secrets), Vec::new(), 0);
                for cut in cuts {
                    out.extend(stream.pass(&bytes[last..*cut]));
                    last = *cut;
                }
                out.extend(stream.flush());
                out
            };
            let undivided = run(&[bytes.len()]);
            prop_assert_eq!(&run(&cuts), &undivided);
            // The visible text contains no secret, and without secrets nothing changes.
            let mut reader = stream(&[]);
            undivided.iter().for_each(|byte| reader.push_byte(*byte));
            let shown: String =
                reader.held.iter().filter(|item| item.kind == Kind::Shown).map(|item| item.character).collect();
            prop_assert!(secrets.iter().all(|secret| !shown.contains(secret)));
            prop_assert_eq!(reader.flush(), undivided);
        }
    }
}
