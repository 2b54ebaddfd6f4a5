//! The effect of keys on a line, as an editor of lines reads them.

use crate::template::key_at;

/// A part of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// A character of a text.
    Text(char),
    /// A key with a name.
    Key(&'static str),
    /// A control character, or a sequence, of a key without a name.
    Other(&'t str),
    /// A report of the terminal itself: an answer to a query, a mark around pasted text, an event of its mouse.
    Report,
}

/// Returns the first part of an input, and its bytes.
pub(super) fn token(text: &str) -> Option<(Token<'_>, usize)> {
    let sign = text.chars().next()?;
    if let Some(end) = report(text) {
        return Some((Token::Report, end));
    }
    if let Some((name, length)) = key_at(text).filter(|(name, _)| *name != "escape") {
        return Some((Token::Key(name), length));
    }
    match sign {
        '\r' | '\n' => Some((Token::Key("enter"), 1)),
        '\x1b' => {
            let length = sequence(text).unwrap_or(1);
            Some(if length == 1 { (Token::Key("escape"), 1) } else { (Token::Other(&text[..length]), length) })
        }
        sign if sign.is_control() => Some((Token::Other(&text[..sign.len_utf8()]), sign.len_utf8())),
        sign => Some((Token::Text(sign), sign.len_utf8())),
    }
}

/// Returns the bytes of a control sequence that a text begins with.
fn sequence(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("\x1b[").or_else(|| text.strip_prefix("\x1bO"))?;
    let end = rest.find(|sign: char| ('@'..='~').contains(&sign))?;
    let is_whole = rest[..end].chars().all(|sign| (' '..='?').contains(&sign)) && end <= 32;
    is_whole.then_some(2 + end + 1)
}

/// Returns the bytes of a report that a terminal sends by itself, where a text begins with it.
fn report(text: &str) -> Option<usize> {
    if let Some(rest) = text.strip_prefix("\x1b]").or_else(|| text.strip_prefix("\x1bP")) {
        let ends = [("\x07", 1), ("\x1b\\", 2)].map(|(end, length)| rest.find(end).map(|at| at + length));
        return ends.into_iter().flatten().min().map(|end| 2 + end);
    }
    let length = sequence(text).filter(|_| text.starts_with("\x1b["))?;
    let (parameters, sign) = (&text[2..length - 1], &text[length - 1..length]);
    let is_report = match sign {
        "~" => matches!(parameters, "200" | "201"),
        "R" | "c" | "n" | "y" => !parameters.is_empty(),
        // Without the mark, it is a character of the keyboard protocol of kitty.
        "u" => parameters.starts_with('?'),
        "M" | "m" => parameters.starts_with('<'),
        "I" | "O" => parameters.is_empty(),
        _ => false,
    };
    is_report.then_some(length)
}

/// Returns the names of the keys of an input that is nothing else.
pub(super) fn named_keys(input: &str) -> Option<Vec<String>> {
    let (mut keys, mut rest) = (Vec::new(), input);
    while let Some((token, length)) = token(rest) {
        let Token::Key(name) = token else { return None };
        keys.push(name.to_owned());
        rest = &rest[length..];
    }
    Some(keys)
}

/// An input as an editor of lines reads it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct EditedLine {
    /// The text, with its corrections.
    pub(super) text: String,
    /// Parts typed without a key in between.
    pub(super) pieces: Vec<String>,
    /// Keys with an effect on the line that its characters do not show: completion, history.
    pub(super) keys: Vec<String>,
    /// Enter ends it.
    pub(super) is_entered: bool,
    /// The key that ends it, such as ctrl-c.
    pub(super) end: Option<&'static str>,
    /// True after a key without a name.
    pub(super) has_unknown_key: bool,
}

impl EditedLine {
    /// Reads an input.
    pub(super) fn from_input(input: &str) -> Self {
        let mut line = Self { pieces: vec![String::new()], ..Self::default() };
        let (mut signs, mut at): (Vec<char>, usize) = (Vec::new(), 0);
        let mut rest = input;
        while let Some((token, length)) = token(rest) {
            rest = &rest[length..];
            match token {
                Token::Text(sign) => {
                    signs.insert(at, sign);
                    at += 1;
                    line.pieces.last_mut().into_iter().for_each(|piece| piece.push(sign));
                    continue;
                }
                Token::Report => continue,
                Token::Key("enter") => line.is_entered = true,
                Token::Key(name @ ("ctrl-c" | "ctrl-d" | "ctrl-z")) if rest.is_empty() => line.end = Some(name),
                Token::Key("left") => at = at.saturating_sub(1),
                Token::Key("right") => at = (at + 1).min(signs.len()),
                Token::Key("home") | Token::Other("\x01") => at = 0,
                Token::Key("end") | Token::Other("\x05") => at = signs.len(),
                Token::Key("delete") => {
                    signs.drain(at..(at + 1).min(signs.len()));
                }
                Token::Other("\x7f" | "\x08") => {
                    if at > 0 {
                        at -= 1;
                        signs.remove(at);
                    }
                    if let Some(piece) = line.pieces.last_mut() {
                        piece.pop();
                    }
                    continue;
                }
                Token::Other("\x15") => {
                    signs.drain(..at);
                    at = 0;
                    line.pieces.clear();
                }
                Token::Other("\x0b") => signs.truncate(at),
                Token::Other("\x17") => {
                    let is_word = |at: usize| at.checked_sub(1).map(|at| signs[at] != ' ');
                    let mut begin = at;
                    while is_word(begin) == Some(false) {
                        begin -= 1;
                    }
                    while is_word(begin) == Some(true) {
                        begin -= 1;
                    }
                    signs.drain(begin..at);
                    at = begin;
                    line.pieces.clear();
                }
                Token::Key(name) => line.keys.push(name.to_owned()),
                Token::Other(_) => line.has_unknown_key = true,
            }
            line.pieces.push(String::new());
        }
        line.pieces.retain(|piece| !piece.is_empty());
        line.text = signs.into_iter().collect();
        line
    }

    /// Returns whether the line is exactly its characters.
    pub(super) fn is_plain(&self) -> bool {
        self.keys.is_empty() && !self.has_unknown_key
    }
}
