//! The effect of keys on a line, as in a line editor.

use crate::template::key_at;

/// A part of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// A character of text.
    Text(char),
    /// A key with a name.
    Key(&'static str),
    /// A control character or sequence of a key without a name.
    Other(&'t str),
    /// A report of the terminal itself: an answer to a query, a mark around pasted text, or a mouse event.
    Report,
}

/// Returns the first token of an input and its length in bytes.
pub(super) fn first_token(text: &str) -> Option<(Token<'_>, usize)> {
    let character = text.chars().next()?;
    if let Some(end) = report_length(text) {
        return Some((Token::Report, end));
    }
    if let Some((name, length)) = key_at(text).filter(|(name, _)| *name != "escape") {
        return Some((Token::Key(name), length));
    }
    match character {
        '\r' | '\n' => Some((Token::Key("enter"), 1)),
        '\x1b' => {
            let length = sequence_length(text).unwrap_or(1);
            Some(if length == 1 { (Token::Key("escape"), 1) } else { (Token::Other(&text[..length]), length) })
        }
        character if character.is_control() => {
            Some((Token::Other(&text[..character.len_utf8()]), character.len_utf8()))
        }
        character => Some((Token::Text(character), character.len_utf8())),
    }
}

/// Returns the length in bytes of the control sequence at the beginning of text.
fn sequence_length(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("\x1b[").or_else(|| text.strip_prefix("\x1bO"))?;
    let end = rest.find(|character: char| ('@'..='~').contains(&character))?;
    let is_complete = rest[..end].chars().all(|character| (' '..='?').contains(&character)) && end <= 32;
    is_complete.then_some(2 + end + 1)
}

/// Returns the length in bytes of the terminal report at the beginning of text.
fn report_length(text: &str) -> Option<usize> {
    if let Some(rest) = text.strip_prefix("\x1b]").or_else(|| text.strip_prefix("\x1bP")) {
        let ends = [("\x07", 1), ("\x1b\\", 2)].map(|(end, length)| rest.find(end).map(|at| at + length));
        return ends.into_iter().flatten().min().map(|end| 2 + end);
    }
    let length = sequence_length(text).filter(|_| text.starts_with("\x1b["))?;
    let (parameters, final_character) = (&text[2..length - 1], &text[length - 1..length]);
    let is_report = match final_character {
        "~" => matches!(parameters, "200" | "201"),
        "R" | "c" | "n" | "y" => !parameters.is_empty(),
        // Without `?`, the sequence is a key of the kitty keyboard protocol.
        "u" => parameters.starts_with('?'),
        "M" | "m" => parameters.starts_with('<'),
        "I" | "O" => parameters.is_empty(),
        _ => false,
    };
    is_report.then_some(length)
}

/// Returns the names of the keys of an input, if it consists only of named keys.
pub(super) fn named_keys(input: &str) -> Option<Vec<String>> {
    let (mut keys, mut rest) = (Vec::new(), input);
    while let Some((token, length)) = first_token(rest) {
        let Token::Key(name) = token else { return None };
        keys.push(name.to_owned());
        rest = &rest[length..];
    }
    Some(keys)
}

/// An input after the corrections of a line editor.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct EditedLine {
    /// The text, with its corrections.
    pub(super) text: String,
    /// Parts of the text that were typed without other keys between their characters.
    pub(super) pieces: Vec<String>,
    /// Keys whose effect depends on the editor: completion, history.
    pub(super) keys: Vec<String>,
    /// True if Enter ends the input.
    pub(super) is_entered: bool,
    /// Another key that ends the input, such as ctrl-c.
    pub(super) end: Option<&'static str>,
    /// True after a key without a name.
    pub(super) has_unknown_key: bool,
}

impl EditedLine {
    /// Reads an input.
    pub(super) fn from_input(input: &str) -> Self {
        let mut line = Self { pieces: vec![String::new()], ..Self::default() };
        let (mut characters, mut cursor): (Vec<char>, usize) = (Vec::new(), 0);
        let mut rest = input;
        while let Some((token, length)) = first_token(rest) {
            rest = &rest[length..];
            match token {
                Token::Text(character) => {
                    characters.insert(cursor, character);
                    cursor += 1;
                    line.pieces.last_mut().into_iter().for_each(|piece| piece.push(character));
                    continue;
                }
                Token::Report => continue,
                Token::Key("enter") => line.is_entered = true,
                Token::Key(name @ ("ctrl-c" | "ctrl-d" | "ctrl-z")) if rest.is_empty() => line.end = Some(name),
                Token::Key("left") => cursor = cursor.saturating_sub(1),
                Token::Key("right") => cursor = (cursor + 1).min(characters.len()),
                Token::Key("home") | Token::Other("\x01") => cursor = 0,
                Token::Key("end") | Token::Other("\x05") => cursor = characters.len(),
                Token::Key("delete") => {
                    characters.drain(cursor..(cursor + 1).min(characters.len()));
                }
                Token::Other("\x7f" | "\x08") => {
                    if cursor > 0 {
                        cursor -= 1;
                        characters.remove(cursor);
                    }
                    if let Some(piece) = line.pieces.last_mut() {
                        piece.pop();
                    }
                    continue;
                }
                Token::Other("\x15") => {
                    characters.drain(..cursor);
                    cursor = 0;
                    line.pieces.clear();
                }
                Token::Other("\x0b") => characters.truncate(cursor),
                Token::Other("\x17") => {
                    let is_word = |end: usize| end.checked_sub(1).map(|last| characters[last] != ' ');
                    let mut begin = cursor;
                    while is_word(begin) == Some(false) {
                        begin -= 1;
                    }
                    while is_word(begin) == Some(true) {
                        begin -= 1;
                    }
                    characters.drain(begin..cursor);
                    cursor = begin;
                    line.pieces.clear();
                }
                Token::Key(name) => line.keys.push(name.to_owned()),
                Token::Other(_) => line.has_unknown_key = true,
            }
            line.pieces.push(String::new());
        }
        line.pieces.retain(|piece| !piece.is_empty());
        line.text = characters.into_iter().collect();
        line
    }

    /// Returns whether the typed characters are the complete line.
    pub(super) fn is_plain(&self) -> bool {
        self.keys.is_empty() && !self.has_unknown_key
    }
}
