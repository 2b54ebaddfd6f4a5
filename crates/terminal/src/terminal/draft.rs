//! What was typed and not entered yet, as far as keys alone can tell.

/// The line that is being typed.
///
/// Follows plain text and the few keys that take all or the last of it away. Any other key leaves the line
/// counted as begun: it is better to refuse a line than to spoil one.
#[derive(Debug, Default)]
pub(super) struct Draft {
    text: Vec<u8>,
    /// A key was pressed whose effect on the line is not known here.
    edited: bool,
    /// The last key was one that takes the line away: Ctrl-U, of which the screen shows what it has left.
    cleared: bool,
    /// It was typed before the prompt that stands now, and may have been read by what ran then.
    ahead: bool,
}

/// No more of a draft than this is kept; it is longer then, and that is enough to know.
const LONGEST: usize = 4096;

/// Blanks between the end of a line and a prompt at the right; nobody begins a command with so many.
const GAP: &str = "    ";

impl Draft {
    /// Takes in what was typed.
    pub(super) fn type_in(&mut self, bytes: &[u8]) {
        if self.ahead && !bytes.is_empty() {
            self.ahead = false;
        }
        for &byte in bytes {
            self.cleared = byte == 0x15;
            match byte {
                // Enter, and what gives a line up: Ctrl-C. The shell begins a new one.
                b'\r' | b'\n' | 0x03 => *self = Self::default(),
                // Backspace takes a character.
                0x08 | 0x7f if !self.edited => {
                    while let Some(last) = self.text.pop() {
                        if last & 0xc0 != 0x80 {
                            break;
                        }
                    }
                }
                // Ctrl-U takes the line, from an end that is where it was typed.
                0x15 if !self.edited => self.text.clear(),
                0x00..0x20 | 0x7f if byte != b'\t' => self.edited = true,
                _ if self.text.len() < LONGEST => self.text.push(byte),
                _ => {}
            }
        }
    }

    /// Notes that a new prompt stands. What was typed before it may be on its line, or may have been read.
    pub(super) fn comes_to_prompt(&mut self) {
        self.ahead = !self.text.is_empty() || self.edited;
    }

    /// Returns what stands on the line. `seen` looks at what the screen shows behind the prompt, where that is known.
    pub(super) fn standing(&self, seen: impl FnOnce() -> Option<String>) -> Option<String> {
        let text = String::from_utf8_lossy(&self.text).into_owned();
        if text.is_empty() && !self.edited {
            return None;
        }
        // Behind a gap stands a prompt at the right.
        let seen = seen().map(|seen| if seen.starts_with(GAP) { String::new() } else { seen.trim().to_owned() });
        // Typed ahead: on the line if it can be seen there.
        if self.ahead && (text.is_empty() || !seen.as_ref().is_some_and(|seen| seen.contains(&text))) {
            return None;
        }
        match seen {
            // A key that takes all of the line away has left nothing of what other keys did to it.
            Some(seen) if seen.is_empty() && self.cleared => None,
            // What keys like Up and Ctrl-R have put there is not what was typed.
            Some(seen) if self.edited => Some(seen),
            _ => Some(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[u8]) -> Option<String> {
        let mut draft = Draft::default();
        draft.type_in(keys);
        draft.standing(|| None)
    }

    #[test]
    fn a_line_stands_until_it_is_entered_given_up_or_taken_back() {
        assert_eq!(typed(b""), None);
        assert_eq!(typed(b"ls -l").as_deref(), Some("ls -l"));
        assert_eq!(typed(b"ls\r"), None);
        assert_eq!(typed(b"ls\r\x1b[Aecho").as_deref(), Some("[Aecho"), "a key that is not understood");
        assert_eq!(typed(b"ls\x03"), None);
        assert_eq!(typed(b"ls\x15"), None);
        assert_eq!(typed("a\u{e9}\x7f\x7f".as_bytes()), None);
        assert_eq!(typed(b"\x12").as_deref(), Some(""), "a search was begun");
    }

    #[test]
    fn what_was_typed_ahead_stands_only_if_it_can_be_seen() {
        let mut draft = Draft::default();
        draft.type_in(b"yes");
        draft.comes_to_prompt();
        assert_eq!(draft.standing(|| Some(String::new())), None, "a program has read it");
        assert_eq!(draft.standing(|| Some("yes".into())).as_deref(), Some("yes"));
        draft.type_in(b"!");
        assert_eq!(draft.standing(|| None).as_deref(), Some("yes!"));
    }

    #[test]
    fn after_keys_that_are_not_understood_the_screen_says_what_stands() {
        let mut draft = Draft::default();
        draft.type_in(b"\x1b[A");
        assert_eq!(draft.standing(|| Some("echo before ".into())).as_deref(), Some("echo before"));
        assert!(draft.standing(|| Some(String::new())).is_some(), "it may not have been drawn yet");
        draft.type_in(b"\x15");
        assert_eq!(draft.standing(|| Some("left".into())).as_deref(), Some("left"), "it took only a part");
        assert_eq!(draft.standing(|| Some(" ".into())), None);
        assert!(draft.standing(|| None).is_some(), "nobody knows");
    }
}
