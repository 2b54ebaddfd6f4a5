//! Typed text before its Enter, according to the keys alone.

/// The typed line, not entered yet.
///
/// Follows plain text and the few keys that take all or the last of it away. Any other key leaves the line counted as
/// begun: it is better to refuse a line than to spoil one.
#[derive(Debug, Default)]
pub(super) struct Draft {
    text: Vec<u8>,
    /// True if it includes a key with an unknown effect on the line.
    edited: bool,
    /// The last key takes the line away: Ctrl-U, of which the screen shows what it has left.
    cleared: bool,
    /// True if it is from before the current prompt, and the program that ran then may have read it.
    ahead: bool,
    /// The run that typed all of it.
    by: Option<String>,
    /// The run that ended the line before it.
    entered_by: Option<String>,
    /// True if it includes a key that does not mean the same in every mode of every shell.
    uncertain: bool,
    /// True if its last part was typed in canonical mode, in which the kernel keeps it until Enter.
    pub(super) is_held: bool,
    /// The last byte, and how much of the marker of a paste has matched.
    last: u8,
    matched: usize,
    /// A paste has begun.
    is_paste: bool,
}

/// Returns whether a key ends the line: Enter, and what gives it up, Ctrl-C. The shell begins a new one.
fn is_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n' | 0x03)
}

/// Maximum bytes that a draft keeps; of a longer one, the length does not matter.
const MAX_DRAFT_BYTES: usize = 4096;

/// Blanks between the end of a line and a prompt at the right; no command begins with that many.
const GAP: &str = "    ";

/// Returns the line after a prompt. Text after a gap is a prompt at the right.
fn line_of(seen: String) -> String {
    if seen.starts_with(GAP) { String::new() } else { seen.trim().to_owned() }
}

/// Returns whether there is nothing to run in a text: it has blanks and comments alone.
pub(super) fn is_blank(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#'))
}

impl Draft {
    /// Takes in the keys of a run, or of something else.
    pub(super) fn type_in(&mut self, bytes: &[u8], by: Option<&str>) {
        if !bytes.is_empty() {
            self.ahead = false;
        }
        for &byte in bytes {
            if self.is_empty() {
                self.by = by.map(str::to_owned);
            } else if self.by.as_deref() != by {
                self.by = None;
            }
            self.type_byte(byte, by);
        }
    }

    /// Returns whether the line is empty, according to the keys.
    fn is_empty(&self) -> bool {
        self.text.is_empty() && !self.edited
    }

    /// Returns whether there is nothing to run on the line. Of what was typed before the prompt, `seen` shows what is left.
    pub(super) fn is_blank(&self, seen: impl FnOnce() -> Option<String>) -> bool {
        !self.edited && is_blank(&self.text()) || self.ahead && self.standing(seen).is_none()
    }

    /// Returns whether this run typed all of it.
    pub(super) fn is_by(&self, run: &str) -> bool {
        self.by.as_deref() == Some(run)
    }

    /// Returns whether this run ended the last line.
    pub(super) fn is_entered_by(&self, run: &str) -> bool {
        self.entered_by.as_deref() == Some(run)
    }

    /// Returns the length of the typed text in bytes, up to [`MAX_DRAFT_BYTES`].
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns the typed text, according to the keys.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }

    /// Forgets the typed line, and returns the keys that take it away: Ctrl-U, from the end of the line. `seen` looks
    /// at the text after the prompt on the screen, if it knows the prompt.
    ///
    /// # Errors
    /// If no client typed the line, or after keys with an unknown effect on it: no key takes that away in every mode of
    /// every shell. The error is the typed line.
    pub(super) fn clear(&mut self, seen: impl FnOnce() -> Option<String>) -> Result<&'static [u8], String> {
        let seen = seen().map(line_of);
        let shows_nothing = seen.as_deref() == Some("");
        if self.is_empty() {
            return match seen {
                Some(seen) if !seen.is_empty() => Err(seen),
                _ => Ok(b""),
            };
        }
        // The program that ran before this prompt has read text of that time that is not visible.
        if self.uncertain && !(self.ahead && shows_nothing) {
            return Err(seen.filter(|seen| !seen.is_empty()).unwrap_or_else(|| self.text()));
        }
        self.begin_line();
        Ok(b"\x15")
    }

    /// Begins a new line, and keeps the run that ended the last one.
    fn begin_line(&mut self) {
        *self = Self { entered_by: self.entered_by.take(), ..Self::default() };
    }

    fn type_byte(&mut self, byte: u8, by: Option<&str>) {
        let last = std::mem::replace(&mut self.last, byte);
        self.follow_paste(byte);
        self.cleared = byte == 0x15;
        self.uncertain |= !(0x20..0x7f).contains(&byte) && !is_end(byte) && !matches!(byte, 0x08 | 0x7f | 0x15);
        match byte {
            // After Ctrl-V, after Escape and within a paste, it is a part of the line.
            byte if is_end(byte) && byte != 0x03 && (matches!(last, 0x16 | 0x1b) || self.is_paste) => {
                (self.edited, self.uncertain) = (true, true);
            }
            byte if is_end(byte) => {
                self.entered_by = by.map(str::to_owned);
                self.begin_line();
            }
            // Backspace takes a character.
            0x08 | 0x7f if !self.edited => {
                while let Some(last) = self.text.pop() {
                    if last & 0xc0 != 0x80 {
                        break;
                    }
                }
            }
            // Ctrl-U takes the line, with the cursor at its end.
            0x15 if !self.edited => self.text.clear(),
            0x00..0x20 | 0x7f if byte != b'\t' => self.edited = true,
            _ if self.text.len() < MAX_DRAFT_BYTES => self.text.push(byte),
            _ => {}
        }
    }

    /// Returns the text that `seen` finds after the prompt and that no client has typed.
    pub(super) fn untyped(&self, seen: impl FnOnce() -> Option<String>) -> Option<String> {
        seen().map(line_of).filter(|seen| self.is_empty() && !seen.is_empty())
    }

    /// Returns the text that `seen` finds on the line and that no known key has put there: the shell
    /// has (`print -z` of zsh), or it is a part of what was typed while a program ran.
    pub(super) fn unknown(&self, seen: impl FnOnce() -> Option<String>) -> Option<String> {
        let is_known = !self.is_empty() && !self.ahead;
        if is_known { None } else { seen().map(|seen| seen.trim().to_owned()).filter(|seen| !seen.is_empty()) }
    }

    /// Records where a bracketed paste begins and ends: `CSI 200 ~` and `CSI 201 ~`.
    fn follow_paste(&mut self, byte: u8) {
        const BEGIN: &[u8] = b"\x1b[200~";
        const END: &[u8] = b"\x1b[201~";
        let marker = if self.is_paste { END } else { BEGIN };
        self.matched = match marker.get(self.matched) {
            Some(expected) if *expected == byte => self.matched + 1,
            _ => usize::from(byte == marker[0]),
        };
        if self.matched == marker.len() {
            (self.is_paste, self.matched) = (!self.is_paste, 0);
        }
    }

    /// Records a new prompt. Text typed before it may be on its line, or a program may have read it.
    pub(super) fn record_prompt(&mut self) {
        self.ahead = !self.is_empty();
    }

    /// Returns the text on the line. `seen` looks at the text after the prompt on the screen, if it knows the prompt.
    pub(super) fn standing(&self, seen: impl FnOnce() -> Option<String>) -> Option<String> {
        let text = self.text();
        if self.is_empty() {
            return None;
        }
        let seen = seen().map(line_of);
        // Typed ahead: on the line if it is visible there.
        let is_seen = || seen.as_ref().is_some_and(|seen| seen.contains(text.trim()));
        if self.ahead && (text.trim().is_empty() || !is_seen()) {
            return None;
        }
        match seen {
            // A key that takes all of the line away has left nothing of the effects of other keys.
            Some(seen) if seen.is_empty() && self.cleared => None,
            // Text that keys like Up and Ctrl-R have put there differs from the typed text.
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
        draft.type_in(keys, None);
        draft.standing(|| None)
    }

    #[test]
    fn text_that_no_client_typed_is_seen_behind_the_prompt() {
        let untyped = |keys: &[u8], seen: Option<&str>| {
            let mut draft = Draft::default();
            draft.type_in(keys, None);
            draft.untyped(|| seen.map(str::to_owned))
        };
        assert_eq!(untyped(b"", Some("touch EVIL; ")).as_deref(), Some("touch EVIL;"));
        assert_eq!(untyped(b"", Some(" ")), None);
        assert_eq!(untyped(b"", None), None);
        assert_eq!(untyped(b"ls", Some("ls")), None, "it is known who typed it");
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
    fn a_line_is_a_runs_own_while_nothing_else_typed_into_it() {
        let mut draft = Draft::default();
        draft.type_in(b"make ", Some("run"));
        assert!(draft.is_by("run") && !draft.is_by("other"));
        draft.type_in(b"all", Some("run"));
        assert!(draft.is_by("run"));
        draft.type_in(b"; ", None);
        draft.type_in(b"x", Some("run"));
        assert!(!draft.is_by("run"), "a part of it was typed by another client");
        draft.type_in(b"\recho ", Some("run"));
        assert!(draft.is_by("run"), "a new line");
        draft.type_in(b"\x15", None);
        draft.type_in(b"ls", Some("run"));
        assert!(draft.is_by("run"), "an empty line belongs to no client");
    }

    #[test]
    fn what_was_only_typed_is_taken_away_and_what_was_edited_is_named() {
        let clears = |keys: &[u8], seen: Option<&str>| {
            let mut draft = Draft::default();
            draft.type_in(keys, None);
            draft.clear(|| seen.map(str::to_owned))
        };
        assert_eq!(clears(b"", None), Ok(&b""[..]));
        assert_eq!(clears(b"", Some("typed by no client")), Err("typed by no client".to_owned()));
        assert_eq!(clears(b"", Some("      right")), Ok(&b""[..]), "a prompt at the right");
        assert_eq!(clears(b"ls -l", Some("")), Ok(&b"\x15"[..]), "it may not have been drawn yet");
        for keys in [
            &b"\x1b[A"[..],
            b"\x12echo",
            b"EVIL;\x15\x18",
            b"    EVIL\x01",
            b"\x16",
            b"ls\t\t",
            "na\u{ef}ve".as_bytes(),
        ] {
            assert!(clears(keys, Some("")).is_err() && clears(keys, None).is_err(), "{keys:?}");
        }
        for keys in [&b"EVIL\x16\r"[..], b"EVIL\x1b\r", b"\x1b[200~EVIL;\r"] {
            assert!(clears(keys, Some("")).is_err(), "no line was ended by {keys:?}");
        }
        assert_eq!(
            clears(b"\x1b[200~one\rtwo\x1b[201~\r", Some("")),
            Ok(&b""[..]),
            "the paste is over, and was entered"
        );
    }

    #[test]
    fn what_was_typed_ahead_stands_only_if_it_can_be_seen() {
        let mut draft = Draft::default();
        draft.type_in(b"yes", None);
        draft.record_prompt();
        assert_eq!(draft.standing(|| Some(String::new())), None, "a program has read it");
        assert!(draft.is_blank(|| Some(String::new())) && !draft.is_blank(|| Some("yes".into())));
        assert_eq!(draft.standing(|| Some("yes".into())).as_deref(), Some("yes"));
        assert_eq!(draft.unknown(|| Some("es ".into())).as_deref(), Some("es"), "a program has read a part");
        assert_eq!(draft.unknown(|| Some(String::new())), None);
        let mut blanks = Draft::default();
        blanks.type_in(b"  ", None);
        blanks.record_prompt();
        assert_eq!(blanks.standing(|| Some(String::new())), None, "keys of a program");
        draft.type_in(b"!", None);
        assert_eq!(draft.standing(|| None).as_deref(), Some("yes!"));
        assert_eq!(draft.unknown(|| Some("yes!".into())), None, "it is known who typed it");
        draft.type_in(b"\rmake ", None);
        draft.record_prompt();
        assert_eq!(draft.standing(|| Some("make".into())).as_deref(), Some("make "), "a row has no blanks at its end");
    }

    #[test]
    fn after_keys_that_are_not_understood_the_screen_says_what_stands() {
        let mut draft = Draft::default();
        draft.type_in(b"\x1b[A", None);
        assert_eq!(draft.standing(|| Some("echo before ".into())).as_deref(), Some("echo before"));
        assert!(draft.standing(|| Some(String::new())).is_some(), "it may not have been drawn yet");
        draft.type_in(b"\x15", None);
        assert_eq!(draft.standing(|| Some("left".into())).as_deref(), Some("left"), "it took only a part");
        assert_eq!(draft.standing(|| Some(" ".into())), None);
        assert!(draft.standing(|| None).is_some(), "nobody knows");
    }
}
