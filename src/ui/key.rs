//! Keys of the person's terminal, parsed from the bytes that the terminal sends.
//!
//! Pure. Supports the sequences of xterm and compatible terminals; unknown sequences have no effect. A paste arrives as
//! one text (bracketed paste), so that pasted text never acts as commands.

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    /// A letter with the control key.
    Ctrl(char),
    Enter,
    Escape,
    Tab,
    BackTab,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
}

/// An action of the mouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MouseAction {
    /// The left button was pressed.
    Press,
    WheelUp,
    WheelDown,
}

/// Input from the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TerminalInput {
    Key(Key),
    /// An action of the mouse on a cell. Columns and rows count from 0.
    Mouse {
        action: MouseAction,
        col: u16,
        row: u16,
    },
    Paste(String),
    /// The window received the focus (true) or lost it.
    Focus(bool),
}

/// Maximum length of an incomplete sequence.
const MAX_SEQUENCE_BYTES: usize = 32;

/// Maximum length of a paste. Further bytes are dropped.
const MAX_PASTE_BYTES: usize = 64 * 1024;

const PASTE_BEGIN: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// Parser of keys. Buffers an incomplete sequence.
#[derive(Debug, Default)]
pub(crate) struct KeyReader {
    pending: Vec<u8>,
    paste: Option<Vec<u8>>,
}

impl KeyReader {
    /// Parses bytes. Returns the complete inputs.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Vec<TerminalInput> {
        self.pending.extend_from_slice(bytes);
        let mut inputs = Vec::new();
        while let Some(input) = self.next() {
            inputs.extend(input);
        }
        inputs
    }

    /// Returns whether a sequence may be incomplete. The caller then flushes after a timeout.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.pending.is_empty() && self.paste.is_none()
    }

    /// Handles a timeout: a pending escape is a key, and other pending bytes are dropped.
    pub(crate) fn flush(&mut self) -> Vec<TerminalInput> {
        let is_escape = self.pending == b"\x1b";
        self.pending.clear();
        is_escape.then_some(TerminalInput::Key(Key::Escape)).into_iter().collect()
    }

    /// Parses the next input. `Some(None)` for bytes without a meaning, `None` if more bytes are needed.
    fn next(&mut self) -> Option<Option<TerminalInput>> {
        if let Some(paste) = &mut self.paste {
            let Some(end) = find_bytes(&self.pending, PASTE_END) else {
                // The end may be split between two reads.
                let safe_length = self.pending.len().saturating_sub(PASTE_END.len());
                paste.extend(self.pending.drain(..safe_length));
                paste.truncate(MAX_PASTE_BYTES);
                return None;
            };
            paste.extend_from_slice(&self.pending[..end]);
            paste.truncate(MAX_PASTE_BYTES);
            let text = String::from_utf8_lossy(paste).into_owned();
            self.pending.drain(..end + PASTE_END.len());
            self.paste = None;
            return Some(Some(TerminalInput::Paste(text)));
        }
        let (length, input) = match self.pending.as_slice() {
            [] => return None,
            [0x1b, sequence @ ..] => match parse_sequence(sequence)? {
                (length, Sequence::PasteBegin) => {
                    self.pending.drain(..=length);
                    self.paste = Some(Vec::new());
                    return Some(None);
                }
                (length, Sequence::Input(input)) => (length + 1, input),
            },
            [byte @ 0x80..=0xff, ..] => {
                let length = match byte {
                    0xc2..=0xdf => 2,
                    0xe0..=0xef => 3,
                    0xf0..=0xf4 => 4,
                    _ => 1,
                };
                if self.pending.len() < length {
                    return None;
                }
                let text = std::str::from_utf8(&self.pending[..length]).ok();
                let character = text.and_then(|text| text.chars().next());
                (
                    if character.is_some() { length } else { 1 },
                    character.map(|character| TerminalInput::Key(Key::Char(character))),
                )
            }
            [byte, ..] => (1, byte_key(*byte).map(TerminalInput::Key)),
        };
        self.pending.drain(..length);
        Some(input)
    }
}

/// Returns the key of a byte.
fn byte_key(byte: u8) -> Option<Key> {
    match byte {
        b'\r' | b'\n' => Some(Key::Enter),
        b'\t' => Some(Key::Tab),
        0x7f | 0x08 => Some(Key::Backspace),
        1..=26 => Some(Key::Ctrl(char::from(byte | 0x60))),
        b' '..=b'~' => Some(Key::Char(char::from(byte))),
        _ => None,
    }
}

enum Sequence {
    Input(Option<TerminalInput>),
    PasteBegin,
}

/// Parses the sequence after an escape. Returns the length without the escape and the input, or `None` if the sequence
/// is incomplete.
fn parse_sequence(bytes: &[u8]) -> Option<(usize, Sequence)> {
    match bytes {
        [] => None,
        [b'[', parameters @ ..] => {
            let Some(end) = parameters.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
                return (parameters.len() > MAX_SEQUENCE_BYTES).then_some((bytes.len(), Sequence::Input(None)));
            };
            let sequence = &bytes[..end + 2];
            if sequence == &PASTE_BEGIN[1..] {
                return Some((sequence.len(), Sequence::PasteBegin));
            }
            Some((sequence.len(), Sequence::Input(control_sequence(&parameters[..end], parameters[end]))))
        }
        [b'O', letter, ..] => Some((2, Sequence::Input(letter_key(*letter).map(TerminalInput::Key)))),
        [b'O'] => None,
        // The second escape begins a new sequence, so the first one was a key.
        [0x1b, ..] => Some((0, Sequence::Input(Some(TerminalInput::Key(Key::Escape))))),
        // Keys with Alt have no meaning here.
        [_, ..] => Some((1, Sequence::Input(None))),
    }
}

fn control_sequence(parameters: &[u8], last: u8) -> Option<TerminalInput> {
    if let [b'<', report @ ..] = parameters {
        return mouse_input(report, last);
    }
    let first = parameters.split(|byte| *byte == b';').next().unwrap_or_default();
    let key = match (last, first) {
        (b'I', b"") => return Some(TerminalInput::Focus(true)),
        (b'O', b"") => return Some(TerminalInput::Focus(false)),
        (b'Z', _) => Some(Key::BackTab),
        (b'~', b"1" | b"7") => Some(Key::Home),
        (b'~', b"4" | b"8") => Some(Key::End),
        (b'~', b"5") => Some(Key::PageUp),
        (b'~', b"6") => Some(Key::PageDown),
        _ => letter_key(last),
    };
    key.map(TerminalInput::Key)
}

/// Parses a report of the mouse: button, column and row, from 1 on (SGR coordinates of xterm, mode 1006). The final `m`
/// is the release of a button.
fn mouse_input(report: &[u8], last: u8) -> Option<TerminalInput> {
    /// Bits of the button for Shift, Alt and Ctrl.
    const MODIFIERS: u16 = 0b1_1100;
    let mut numbers = std::str::from_utf8(report).ok()?.split(';').map(|number| number.parse::<u16>().ok());
    let (button, col, row) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let action = match (last, button & !MODIFIERS) {
        (b'M', 0) => MouseAction::Press,
        (b'M', 64) => MouseAction::WheelUp,
        (b'M', 65) => MouseAction::WheelDown,
        _ => return None,
    };
    Some(TerminalInput::Mouse { action, col: col.checked_sub(1)?, row: row.checked_sub(1)? })
}

fn letter_key(letter: u8) -> Option<Key> {
    Some(match letter {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'H' => Key::Home,
        b'F' => Key::End,
        b'M' => Key::Enter,
        _ => return None,
    })
}

fn find_bytes(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(bytes: &[u8]) -> Vec<TerminalInput> {
        let mut reader = KeyReader::default();
        let mut inputs = reader.read(bytes);
        inputs.extend(reader.flush());
        inputs
    }

    #[test]
    fn keys_are_read_as_sent_by_terminals() {
        for (bytes, key) in [
            (&b"a"[..], Key::Char('a')),
            ("ü".as_bytes(), Key::Char('ü')),
            ("漢".as_bytes(), Key::Char('漢')),
            (b"\r", Key::Enter),
            (b"\x1b", Key::Escape),
            (b"\x7f", Key::Backspace),
            (b"\x03", Key::Ctrl('c')),
            (b"\x1b[A", Key::Up),
            (b"\x1bOB", Key::Down),
            (b"\x1b[1;5C", Key::Right),
            (b"\x1b[5~", Key::PageUp),
            (b"\x1b[H", Key::Home),
            (b"\x1b[4~", Key::End),
            (b"\x1b[Z", Key::BackTab),
        ] {
            assert_eq!(keys(bytes), [TerminalInput::Key(key)], "{bytes:?}");
        }
        assert_eq!(keys(b"\x1b[I\x1b[O"), [TerminalInput::Focus(true), TerminalInput::Focus(false)]);
        assert_eq!(keys(b"\x1b[99X\x1bq\x1b[>1u"), [], "unknown sequences have no effect");
        let mouse = |action, col, row| TerminalInput::Mouse { action, col, row };
        assert_eq!(
            keys(b"\x1b[<0;5;3M\x1b[<0;5;3m\x1b[<64;1;1M\x1b[<69;200;60M"),
            [
                mouse(MouseAction::Press, 4, 2),
                mouse(MouseAction::WheelUp, 0, 0),
                mouse(MouseAction::WheelDown, 199, 59)
            ]
        );
        for other in
            [&b"\x1b[<2;5;3M"[..], b"\x1b[<32;5;3M", b"\x1b[<0;0;3M", b"\x1b[<0;5M", b"\x1b[<0;99999;1M", b"\x1b[<M"]
        {
            assert_eq!(keys(other), [], "{other:?}");
        }
        assert_eq!(keys(b"\x1b\x1b"), [TerminalInput::Key(Key::Escape), TerminalInput::Key(Key::Escape)]);
    }

    #[test]
    fn paste_is_one_text_without_keys() {
        let pasted = keys(b"a\x1b[200~yes\rq\x1b[A\x1b[201~b");
        let text = TerminalInput::Paste("yes\rq\x1b[A".to_owned());
        assert_eq!(pasted, [TerminalInput::Key(Key::Char('a')), text, TerminalInput::Key(Key::Char('b'))]);
    }

    proptest! {
        #[test]
        fn keys_do_not_depend_on_how_bytes_are_divided(
            parts in prop::collection::vec(prop::sample::select(vec![
                "a", "\r", "ü", "漢", "\x1b[A", "\x1bOB", "\x1b[5~", "\x1b[200~x\ry\x1b[201~", "\x1b[I", "\x03", "\x1b[<0;12;3M", "\x1b[<65;1;1M",
            ]), 0..12),
            at in 0usize..200,
        ) {
            let bytes = parts.concat().into_bytes();
            let at = at.min(bytes.len());
            let mut reader = KeyReader::default();
            let mut divided = reader.read(&bytes[..at]);
            divided.extend(reader.read(&bytes[at..]));
            divided.extend(reader.flush());
            prop_assert_eq!(divided, keys(&bytes));
        }
    }
}
