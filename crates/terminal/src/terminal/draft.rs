//! Unentered text, derived from the typed keys.

/// The typed line before its Enter.
///
/// Follows plain text and the few keys that erase the line or its last character. After any other key, the line is
/// considered not empty, so that no other input is appended to the line.
#[derive(Debug, Default)]
pub(super) struct Draft {
    text: Vec<u8>,
    /// True after a key with an unknown effect on the line.
    has_unknown_edit: bool,
    /// True if the last key was Ctrl-U (erase the line). The screen shows the remaining text.
    ends_with_clear_key: bool,
    /// True if the text was typed before the current prompt. The program that ran then may have read it.
    is_typed_ahead: bool,
    /// The run that typed the whole line.
    by: Option<String>,
    /// The run that ended the previous line.
    entered_by: Option<String>,
    /// True after a key whose effect depends on the shell or its mode.
    has_ambiguous_key: bool,
    /// True if the last text was typed in canonical mode. In that mode, the kernel holds the text until Enter.
    pub(super) is_held: bool,
    /// The last byte.
    last: u8,
    /// Number of matched bytes of a paste's marker.
    matched_marker_bytes: usize,
    /// True during a paste.
    is_paste: bool,
}

/// Returns whether the shell begins a new line after a key: Enter or Ctrl-C.
fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n' | 0x03)
}

/// Maximum length of a draft, in bytes. Further text is not stored.
const MAX_DRAFT_BYTES: usize = 4096;

/// Spaces between the end of a line and a right prompt. No command begins with that many spaces.
const RIGHT_PROMPT_GAP: &str = "    ";

/// Returns the line after a prompt. Text after a gap is a right prompt.
fn first_line(screen_text: String) -> String {
    if screen_text.starts_with(RIGHT_PROMPT_GAP) { String::new() } else { screen_text.trim().to_owned() }
}

/// Returns whether a text contains nothing to run: only spaces and comments.
pub(super) fn is_blank(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#'))
}

impl Draft {
    /// Takes in keys typed by the run `by`, or by another client.
    pub(super) fn type_in(&mut self, bytes: &[u8], by: Option<&str>) {
        if !bytes.is_empty() {
            self.is_typed_ahead = false;
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

    /// Returns whether the line is empty according to the keys.
    fn is_empty(&self) -> bool {
        self.text.is_empty() && !self.has_unknown_edit
    }

    /// Returns whether the line contains nothing to run. `screen_text` returns the text after the prompt, including the
    /// rest of text typed before the prompt.
    pub(super) fn is_blank(&self, screen_text: impl FnOnce() -> Option<String>) -> bool {
        !self.has_unknown_edit && is_blank(&self.text()) || self.is_typed_ahead && self.line_text(screen_text).is_none()
    }

    /// Returns whether this run typed the whole line.
    pub(super) fn is_by(&self, run: &str) -> bool {
        self.by.as_deref() == Some(run)
    }

    /// Returns whether this run ended the last line.
    pub(super) fn is_entered_by(&self, run: &str) -> bool {
        self.entered_by.as_deref() == Some(run)
    }

    /// Returns the length of the typed text, in bytes, up to [`MAX_DRAFT_BYTES`].
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns the typed text according to the keys.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }

    /// Clears the draft and returns the keys that erase the typed line: Ctrl-U at the end of the line. `screen_text`
    /// returns the text after the prompt on the screen, if the prompt is known.
    ///
    /// # Errors
    /// If no client typed the line, or after keys with an ambiguous effect: no key erases such a line in every mode of
    /// every shell. The error is the text of the line.
    pub(super) fn clear(&mut self, screen_text: impl FnOnce() -> Option<String>) -> Result<&'static [u8], String> {
        let screen_text = screen_text().map(first_line);
        let shows_nothing = screen_text.as_deref() == Some("");
        if self.is_empty() {
            return match screen_text {
                Some(screen_text) if !screen_text.is_empty() => Err(screen_text),
                _ => Ok(b""),
            };
        }
        // Invisible text typed before this prompt was read by the previous program, so an ambiguous key does not
        // matter.
        if self.has_ambiguous_key && !(self.is_typed_ahead && shows_nothing) {
            return Err(screen_text.filter(|screen_text| !screen_text.is_empty()).unwrap_or_else(|| self.text()));
        }
        self.begin_line();
        Ok(b"\x15")
    }

    /// Begins a new line and keeps the run that ended the last line.
    fn begin_line(&mut self) {
        *self = Self { entered_by: self.entered_by.take(), ..Self::default() };
    }

    fn type_byte(&mut self, byte: u8, by: Option<&str>) {
        let last = std::mem::replace(&mut self.last, byte);
        self.follow_paste(byte);
        self.ends_with_clear_key = byte == 0x15;
        self.has_ambiguous_key |=
            !(0x20..0x7f).contains(&byte) && !is_line_end(byte) && !matches!(byte, 0x08 | 0x7f | 0x15);
        match byte {
            // After Ctrl-V, after Escape and within a paste, Enter is part of the line.
            byte if is_line_end(byte) && byte != 0x03 && (matches!(last, 0x16 | 0x1b) || self.is_paste) => {
                (self.has_unknown_edit, self.has_ambiguous_key) = (true, true);
            }
            byte if is_line_end(byte) => {
                self.entered_by = by.map(str::to_owned);
                self.begin_line();
            }
            // Backspace erases a character.
            0x08 | 0x7f if !self.has_unknown_edit => {
                while let Some(last) = self.text.pop() {
                    if last & 0xc0 != 0x80 {
                        break;
                    }
                }
            }
            // Ctrl-U at the end of the line erases the line.
            0x15 if !self.has_unknown_edit => self.text.clear(),
            0x00..0x20 | 0x7f if byte != b'\t' => self.has_unknown_edit = true,
            _ if self.text.len() < MAX_DRAFT_BYTES => self.text.push(byte),
            _ => {}
        }
    }

    /// Returns the text of `screen_text` if no client has typed it.
    pub(super) fn untyped_text(&self, screen_text: impl FnOnce() -> Option<String>) -> Option<String> {
        screen_text().map(first_line).filter(|screen_text| self.is_empty() && !screen_text.is_empty())
    }

    /// Returns the text of `screen_text` if the keys do not explain it: the shell inserted it (`print -z` of zsh), or
    /// it was typed while a program ran.
    pub(super) fn unexplained_text(&self, screen_text: impl FnOnce() -> Option<String>) -> Option<String> {
        let is_known = !self.is_empty() && !self.is_typed_ahead;
        if is_known {
            None
        } else {
            screen_text().map(|screen_text| screen_text.trim().to_owned()).filter(|screen_text| !screen_text.is_empty())
        }
    }

    /// Detects the beginning and end of a bracketed paste: `CSI 200 ~` and `CSI 201 ~`.
    fn follow_paste(&mut self, byte: u8) {
        const BEGIN: &[u8] = b"\x1b[200~";
        const END: &[u8] = b"\x1b[201~";
        let marker = if self.is_paste { END } else { BEGIN };
        self.matched_marker_bytes = match marker.get(self.matched_marker_bytes) {
            Some(expected) if *expected == byte => self.matched_marker_bytes + 1,
            _ => usize::from(byte == marker[0]),
        };
        if self.matched_marker_bytes == marker.len() {
            (self.is_paste, self.matched_marker_bytes) = (!self.is_paste, 0);
        }
    }

    /// Records a new prompt. Text typed before it may be on its line, or a program may have read it.
    pub(super) fn record_prompt(&mut self) {
        self.is_typed_ahead = !self.is_empty();
    }

    /// Returns the text on the line. `screen_text` returns the text after the prompt on the screen, if the prompt is
    /// known.
    pub(super) fn line_text(&self, screen_text: impl FnOnce() -> Option<String>) -> Option<String> {
        let text = self.text();
        if self.is_empty() {
            return None;
        }
        let screen_text = screen_text().map(first_line);
        // Text typed before the prompt is on the line only if it is visible there.
        let is_seen = || screen_text.as_ref().is_some_and(|screen_text| screen_text.contains(text.trim()));
        if self.is_typed_ahead && (text.trim().is_empty() || !is_seen()) {
            return None;
        }
        match screen_text {
            // Ctrl-U has erased the whole line, including the effects of other keys.
            Some(screen_text) if screen_text.is_empty() && self.ends_with_clear_key => None,
            // Keys like Up and Ctrl-R insert text that differs from the typed text.
            Some(screen_text) if self.has_unknown_edit => Some(screen_text),
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
        draft.line_text(|| None)
    }

    #[test]
    fn untyped_text_is_found_after_the_prompt() {
        let untyped_text = |keys: &[u8], screen_text: Option<&str>| {
            let mut draft = Draft::default();
            draft.type_in(keys, None);
            draft.untyped_text(|| screen_text.map(str::to_owned))
        };
        assert_eq!(untyped_text(b"", Some("touch EVIL; ")).as_deref(), Some("touch EVIL;"));
        assert_eq!(untyped_text(b"", Some(" ")), None);
        assert_eq!(untyped_text(b"", None), None);
        assert_eq!(untyped_text(b"ls", Some("ls")), None, "a client typed this text");
    }

    #[test]
    fn line_remains_until_entered_or_erased() {
        assert_eq!(typed(b""), None);
        assert_eq!(typed(b"ls -l").as_deref(), Some("ls -l"));
        assert_eq!(typed(b"ls\r"), None);
        assert_eq!(typed(b"ls\r\x1b[Aecho").as_deref(), Some("[Aecho"), "an unknown key is part of the text");
        assert_eq!(typed(b"ls\x03"), None);
        assert_eq!(typed(b"ls\x15"), None);
        assert_eq!(typed("a\u{e9}\x7f\x7f".as_bytes()), None);
        assert_eq!(typed(b"\x12").as_deref(), Some(""), "Ctrl-R begins a search");
    }

    #[test]
    fn line_belongs_to_a_run_until_another_input() {
        let mut draft = Draft::default();
        draft.type_in(b"make ", Some("run"));
        assert!(draft.is_by("run") && !draft.is_by("other"));
        draft.type_in(b"all", Some("run"));
        assert!(draft.is_by("run"));
        draft.type_in(b"; ", None);
        draft.type_in(b"x", Some("run"));
        assert!(!draft.is_by("run"), "another client typed a part of the line");
        draft.type_in(b"\recho ", Some("run"));
        assert!(draft.is_by("run"), "the new line belongs to the run");
        draft.type_in(b"\x15", None);
        draft.type_in(b"ls", Some("run"));
        assert!(draft.is_by("run"), "an empty line belongs to no client");
    }

    #[test]
    fn typed_text_is_erased_and_edited_text_is_reported() {
        let clears = |keys: &[u8], screen_text: Option<&str>| {
            let mut draft = Draft::default();
            draft.type_in(keys, None);
            draft.clear(|| screen_text.map(str::to_owned))
        };
        assert_eq!(clears(b"", None), Ok(&b""[..]));
        assert_eq!(clears(b"", Some("typed by no client")), Err("typed by no client".to_owned()));
        assert_eq!(clears(b"", Some("      right")), Ok(&b""[..]), "a right prompt is not text");
        assert_eq!(clears(b"ls -l", Some("")), Ok(&b"\x15"[..]), "the text may not have been drawn yet");
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
            "the paste has ended, and was entered"
        );
    }

    #[test]
    fn typed_ahead_text_counts_only_if_visible() {
        let mut draft = Draft::default();
        draft.type_in(b"yes", None);
        draft.record_prompt();
        assert_eq!(draft.line_text(|| Some(String::new())), None, "a program has read the text");
        assert!(draft.is_blank(|| Some(String::new())) && !draft.is_blank(|| Some("yes".into())));
        assert_eq!(draft.line_text(|| Some("yes".into())).as_deref(), Some("yes"));
        assert_eq!(
            draft.unexplained_text(|| Some("es ".into())).as_deref(),
            Some("es"),
            "a program has read a part of the text"
        );
        assert_eq!(draft.unexplained_text(|| Some(String::new())), None);
        let mut spaces = Draft::default();
        spaces.type_in(b"  ", None);
        spaces.record_prompt();
        assert_eq!(spaces.line_text(|| Some(String::new())), None, "keys for a program are not text");
        draft.type_in(b"!", None);
        assert_eq!(draft.line_text(|| None).as_deref(), Some("yes!"));
        assert_eq!(draft.unexplained_text(|| Some("yes!".into())), None, "a client typed this text");
        draft.type_in(b"\rmake ", None);
        draft.record_prompt();
        assert_eq!(
            draft.line_text(|| Some("make".into())).as_deref(),
            Some("make "),
            "trailing spaces are not on the screen"
        );
    }

    #[test]
    fn screen_has_the_line_after_unknown_keys() {
        let mut draft = Draft::default();
        draft.type_in(b"\x1b[A", None);
        assert_eq!(draft.line_text(|| Some("echo before ".into())).as_deref(), Some("echo before"));
        assert!(draft.line_text(|| Some(String::new())).is_some(), "the text may not have been drawn yet");
        draft.type_in(b"\x15", None);
        assert_eq!(
            draft.line_text(|| Some("left".into())).as_deref(),
            Some("left"),
            "Ctrl-U erased only a part of the line"
        );
        assert_eq!(draft.line_text(|| Some(" ".into())), None);
        assert!(draft.line_text(|| None).is_some(), "without the screen, the text is unknown");
    }
}
