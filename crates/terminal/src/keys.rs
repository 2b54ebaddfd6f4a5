//! Translates keys by name, and text, into the bytes that a program expects.
//!
//! Follows xterm (<https://invisible-island.net/xterm/ctlseqs/ctlseqs.html>, "PC-Style Function Keys") and, where a
//! program enabled it, the kitty keyboard protocol (<https://sw.kovidgoyal.net/kitty/keyboard-protocol/>, flag 1).

use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

use crate::screen::Modes;

/// Error for an unknown key name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error(
    "'{name}' is not a key; keys are single characters, enter, tab, escape, backspace, space, up, down, left, right, \
     home, end, page-up, page-down, insert, delete and f1 to f12, with ctrl-, alt- or shift- before them; the mouse is click:LABEL"
)]
pub struct UnknownKey {
    name: String,
}

#[derive(Debug, Clone, Copy, Default)]
struct Modifiers {
    shift: bool,
    alt: bool,
    ctrl: bool,
}

impl Modifiers {
    /// 1 + shift + 2·alt + 4·ctrl, as xterm and kitty number them.
    fn number(self) -> u8 {
        1 + u8::from(self.shift) + 2 * u8::from(self.alt) + 4 * u8::from(self.ctrl)
    }

    fn has_any(self) -> bool {
        self.number() > 1
    }
}

/// Returns the bytes of one key, such as `enter`, `ctrl-c`, `up`, `shift-tab` or `x`.
///
/// `disambiguate` is true if the program enabled the unambiguous keys of the kitty protocol.
///
/// # Errors
/// If there is no key of this name.
pub(crate) fn key(name: &str, modes: Modes, disambiguate: bool) -> Result<Vec<u8>, UnknownKey> {
    let unknown = || UnknownKey { name: name.chars().take(40).collect() };
    let mut modifiers = Modifiers::default();
    let mut rest = name.trim();
    // Accept "ctrl-c", "C-c", "ctrl+c" and "^c". A lone "-" or "+" is the key itself.
    while let Some((prefix, remainder)) = rest.split_once(['-', '+']).filter(|(_, remainder)| !remainder.is_empty()) {
        match prefix.to_ascii_lowercase().as_str() {
            "ctrl" | "control" | "c" => modifiers.ctrl = true,
            "alt" | "meta" | "option" | "m" | "a" => modifiers.alt = true,
            "shift" | "s" => modifiers.shift = true,
            _ => break,
        }
        rest = remainder;
    }
    if let Some(remainder) = rest.strip_prefix('^').filter(|remainder| remainder.chars().count() == 1) {
        modifiers.ctrl = true;
        rest = remainder;
    }
    let mut characters = rest.chars();
    if let (Some(character), None) = (characters.next(), characters.next()) {
        return Ok(character_key(character, modifiers, disambiguate));
    }
    let key_name = rest.to_ascii_lowercase().replace('_', "-");
    // Accept the names of browsers, such as ArrowDown.
    let key_name =
        key_name.strip_prefix("arrow").map_or(key_name.as_str(), |direction| direction.trim_start_matches('-'));
    match key_name {
        "enter" | "return" | "cr" => Ok(control_key(b'\r', 13, modifiers, disambiguate)),
        "tab" if modifiers.shift && !disambiguate => Ok(b"\x1b[Z".to_vec()),
        "tab" => Ok(control_key(b'\t', 9, modifiers, disambiguate)),
        "escape" | "esc" => {
            Ok(if disambiguate { unambiguous(27, modifiers) } else { control_key(0x1b, 27, modifiers, false) })
        }
        "backspace" | "bspace" => Ok(match (modifiers.ctrl, disambiguate) {
            (true, false) => control_key(0x08, 127, Modifiers { ctrl: false, ..modifiers }, false),
            _ => control_key(0x7f, 127, modifiers, disambiguate),
        }),
        "space" => Ok(character_key(' ', modifiers, disambiguate)),
        "up" => Ok(cursor_key(b'A', modifiers, modes)),
        "down" => Ok(cursor_key(b'B', modifiers, modes)),
        "right" => Ok(cursor_key(b'C', modifiers, modes)),
        "left" => Ok(cursor_key(b'D', modifiers, modes)),
        "home" => Ok(cursor_key(b'H', modifiers, modes)),
        "end" => Ok(cursor_key(b'F', modifiers, modes)),
        "insert" => Ok(tilde_key(2, modifiers)),
        "delete" | "del" => Ok(tilde_key(3, modifiers)),
        "page-up" | "pageup" | "pgup" | "ppage" => Ok(tilde_key(5, modifiers)),
        "page-down" | "pagedown" | "pgdn" | "npage" => Ok(tilde_key(6, modifiers)),
        _ => key_name
            .strip_prefix('f')
            .and_then(|number| number.parse::<u8>().ok())
            .and_then(|number| function_key(number, modifiers))
            .ok_or_else(unknown),
    }
}

fn character_key(character: char, modifiers: Modifiers, disambiguate: bool) -> Vec<u8> {
    if disambiguate && (modifiers.ctrl || modifiers.alt) {
        return unambiguous(u32::from(character.to_ascii_lowercase()), modifiers);
    }
    let mut bytes = Vec::new();
    if modifiers.alt {
        bytes.push(0x1b);
    }
    let shifted = if modifiers.shift { character.to_ascii_uppercase() } else { character };
    let controlled = match shifted.to_ascii_uppercase() {
        upper @ '@'..='_' if modifiers.ctrl => Some(upper as u8 & 0x1f),
        ' ' | '2' if modifiers.ctrl => Some(0),
        '/' | '7' if modifiers.ctrl => Some(0x1f),
        '?' | '8' if modifiers.ctrl => Some(0x7f),
        _ => None,
    };
    match controlled {
        Some(byte) => bytes.push(byte),
        None => bytes.extend_from_slice(shifted.encode_utf8(&mut [0; 4]).as_bytes()),
    }
    bytes
}

/// Returns the bytes of enter, tab, escape or backspace: one byte, unless the program distinguishes their modifiers.
fn control_key(byte: u8, code: u32, modifiers: Modifiers, disambiguate: bool) -> Vec<u8> {
    if disambiguate && modifiers.has_any() {
        unambiguous(code, modifiers)
    } else if modifiers.alt {
        vec![0x1b, byte]
    } else {
        vec![byte]
    }
}

fn unambiguous(code: u32, modifiers: Modifiers) -> Vec<u8> {
    if modifiers.has_any() { format!("\x1b[{code};{}u", modifiers.number()) } else { format!("\x1b[{code}u") }
        .into_bytes()
}

fn cursor_key(letter: u8, modifiers: Modifiers, modes: Modes) -> Vec<u8> {
    if modifiers.has_any() {
        format!("\x1b[1;{}{}", modifiers.number(), char::from(letter)).into_bytes()
    } else {
        vec![0x1b, if modes.application_cursor { b'O' } else { b'[' }, letter]
    }
}

fn tilde_key(number: u8, modifiers: Modifiers) -> Vec<u8> {
    let mut text = format!("\x1b[{number}");
    if modifiers.has_any() {
        let _ = write!(text, ";{}", modifiers.number());
    }
    text.push('~');
    text.into_bytes()
}

fn function_key(number: u8, modifiers: Modifiers) -> Option<Vec<u8>> {
    match number {
        1..=4 => {
            let letter = char::from(b'P' + number - 1);
            Some(if modifiers.has_any() {
                format!("\x1b[1;{}{letter}", modifiers.number()).into_bytes()
            } else {
                format!("\x1bO{letter}").into_bytes()
            })
        }
        5..=12 => Some(tilde_key([15, 17, 18, 19, 20, 21, 23, 24][usize::from(number - 5)], modifiers)),
        _ => None,
    }
}

/// Minimum length of a paste, in bytes. Shorter text is typed even if the program accepts pastes.
const MIN_PASTE_BYTES: usize = 1024;

/// Returns the bytes of typed text: `\n` becomes Enter, other characters stay unchanged.
///
/// A single long line is sent as a paste if the program accepts pastes, so that a line editor processes it immediately.
/// Line ends after the paste are still Enter.
#[must_use]
pub(crate) fn text(text: &str, modes: Modes) -> Vec<u8> {
    let body = text.trim_end_matches(['\r', '\n']);
    let is_one_line = !body.bytes().any(|byte| (byte < 0x20 && byte != b'\t') || byte == 0x7f);
    if modes.bracketed_paste && body.len() > MIN_PASTE_BYTES && is_one_line {
        let mut bytes = b"\x1b[200~".to_vec();
        bytes.extend_from_slice(body.as_bytes());
        bytes.extend_from_slice(b"\x1b[201~");
        bytes.extend_from_slice(&typed_bytes(&text[body.len()..]));
        return bytes;
    }
    typed_bytes(text)
}

fn typed_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'\n' if index > 0 && text.as_bytes()[index - 1] == b'\r' => {}
            b'\n' => bytes.push(b'\r'),
            _ => bytes.push(byte),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(name: &str) -> String {
        String::from_utf8(key(name, Modes::default(), false).unwrap()).unwrap()
    }

    #[test]
    fn keys_match_xterm() {
        let expected = [
            ("enter", "\r"),
            ("Enter", "\r"),
            ("tab", "\t"),
            ("shift-tab", "\x1b[Z"),
            ("escape", "\x1b"),
            ("backspace", "\x7f"),
            ("ctrl-c", "\x03"),
            ("C-c", "\x03"),
            ("^C", "\x03"),
            ("ctrl+space", "\0"),
            ("ctrl-[", "\x1b"),
            ("alt-b", "\x1bb"),
            ("ctrl-alt-x", "\x1b\x18"),
            ("up", "\x1b[A"),
            ("ctrl-right", "\x1b[1;5C"),
            ("shift-alt-home", "\x1b[1;4H"),
            ("page-down", "\x1b[6~"),
            ("PageUp", "\x1b[5~"),
            ("delete", "\x1b[3~"),
            ("f1", "\x1bOP"),
            ("f5", "\x1b[15~"),
            ("shift-f12", "\x1b[24;2~"),
            ("ArrowDown", "\x1b[B"),
            ("arrow-left", "\x1b[D"),
            ("ctrl-ArrowRight", "\x1b[1;5C"),
            ("NPage", "\x1b[6~"),
            ("x", "x"),
            ("-", "-"),
            ("é", "é"),
        ];
        for (name, sequence) in expected {
            assert_eq!(bytes(name), sequence, "{name}");
        }
    }

    #[test]
    fn cursor_keys_follow_the_mode_of_the_program() {
        let modes = Modes { application_cursor: true, ..Modes::default() };
        assert_eq!(key("up", modes, false).unwrap(), b"\x1bOA");
        assert_eq!(key("ctrl-up", modes, false).unwrap(), b"\x1b[1;5A");
    }

    #[test]
    fn kitty_keyboard_mode_sends_unambiguous_keys() {
        let kitty = |name| String::from_utf8(key(name, Modes::default(), true).unwrap()).unwrap();
        assert_eq!(kitty("escape"), "\x1b[27u");
        assert_eq!(kitty("ctrl-c"), "\x1b[99;5u");
        assert_eq!(kitty("shift-enter"), "\x1b[13;2u");
        assert_eq!(kitty("enter"), "\r");
        assert_eq!(kitty("x"), "x");
    }

    #[test]
    fn unknown_key_error_lists_the_known_keys() {
        let error = key("hyper-q", Modes::default(), false).unwrap_err().to_string();
        assert!(error.starts_with("'hyper-q' is not a key; keys are"), "{error}");
        assert!(key("f13", Modes::default(), false).is_err());
        assert!(key("", Modes::default(), false).is_err());
    }

    #[test]
    fn text_is_sent_unchanged_and_newlines_are_enter() {
        let plain = Modes::default();
        assert_eq!(text("ls; -x Enter C-a\n", plain), b"ls; -x Enter C-a\r");
        assert_eq!(text("a\r\nb\n", plain), b"a\rb\r");
        assert_eq!(text("\u{3}\0", plain), b"\x03\0");
    }

    #[test]
    fn long_line_is_pasted_and_then_entered() {
        let modes = Modes { bracketed_paste: true, ..Modes::default() };
        let long = "x".repeat(MIN_PASTE_BYTES + 1);
        assert_eq!(text(&format!("{long}\n"), modes), format!("\x1b[200~{long}\x1b[201~\r").as_bytes());
        assert_eq!(text("short\n", modes), b"short\r");
        let two_lines = format!("{long}\nb\n");
        assert_eq!(text(&two_lines, modes), two_lines.replace('\n', "\r").as_bytes());
    }
}
