//! Secret values, and their removal from text by value.
//!
//! A typed secret can reappear anywhere: on a screen, in a match, in the parameters of an event. All text that leaves
//! the daemon therefore passes through this module. A secret of fewer than [`MIN_SECRET_CHARS`] characters is not
//! masked, because it occurs by chance in any text. A secret that is a short word is masked only as a whole word.

mod encodings;
mod known;
mod own_words;
mod parts;
mod stream;
mod words;

use std::ops::Range;
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::{Map, Value};
use steplatch_host::MachineSecretSink;
use steplatch_ids::TerminalId;
use steplatch_terminal::{Picture, SecretText};
use tokio::sync::watch;

use known::{KnownSecrets, Scope};
use parts::{Cuts, part_ranges};
pub use stream::RedactedStream;
pub use words::is_short_word;
use words::{contains_secret, replace_secret, secret_ranges, strip_secret_prefix_at_end, strip_secret_suffix_at_start};

/// Minimum length of a secret, in characters.
const MIN_SECRET_CHARS: usize = 4;

/// Minimum length of a value in a secret line, in characters. Shorter values, such as ports, are not secrets.
const MIN_VALUE_CHARS: usize = 6;

/// Maximum number of secrets typed by tools, and of lines typed with the echo off in one terminal. The daemon keeps all
/// of them while it runs, because their text remains readable. It refuses further secrets.
const MAX_TYPED_SECRETS: usize = 1000;

/// Maximum number of secrets in all. Runs register most of them: the secrets in their input.
const MAX_SECRETS: usize = 50_000;

/// Minimum length of a secret that is hidden across line ends, in bytes. Halves of shorter secrets are adjacent by
/// chance.
const MIN_WRAPPED_BYTES: usize = 8;

/// The text that replaces a secret.
pub const MASK: &str = "••••••";

/// The known secrets: the secrets hidden everywhere, and for one terminal also the lines typed with its echo off. Cheap
/// to clone.
///
/// ```
/// use steplatch_access::{MASK, Redactor};
///
/// let secrets = Redactor::default();
/// secrets.add("hunter22");
/// assert_eq!(secrets.masked("login: ann, password: hunter22".to_owned()), format!("login: ann, password: {MASK}"));
/// // Encodings of it are hidden as well.
/// assert!(secrets.masked("dG9rZW46IGh1bnRlcjIy".to_owned()).contains(MASK));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    known: Arc<RwLock<KnownSecrets>>,
    /// Number of learned secrets that are hidden everywhere.
    learned: Arc<watch::Sender<u64>>,
    terminal: Option<TerminalId>,
}

/// The maximum number of hidden secrets is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{MAX_TYPED_SECRETS} lines are hidden as secrets, the maximum until the daemon ends: type this without secret, or \
     where the program does not show it, or restart the daemon with: steplatch daemon restart"
)]
pub struct TooManySecrets;

impl Redactor {
    /// Registers a secret, without the line ends around it.
    pub fn add(&self, secret: &str) {
        self.hide(&SecretText { terminal: None, text: secret.to_owned() });
    }

    /// Registers a secret that a tool types.
    ///
    /// # Errors
    ///
    /// If the secret exceeds the limit. No part of it is registered in this case.
    pub fn add_typed(&self, secret: &str) -> Result<(), TooManySecrets> {
        let mut known = self.known.write();
        let mut new_lines: Vec<&str> = Vec::new();
        for line in hideable_lines(secret).chain(hideable_lines(secret).flat_map(values_in)) {
            if !known.has(&Scope::Everywhere, line) && !new_lines.contains(&line) {
                new_lines.push(line);
            }
        }
        if known.typed + new_lines.len() > MAX_TYPED_SECRETS {
            return Err(TooManySecrets);
        }
        known.typed += new_lines.len();
        new_lines.into_iter().for_each(|line| self.keep_secret(&mut known, Scope::Everywhere, line));
        Ok(())
    }

    /// Registers text to hide, everywhere or in one terminal.
    pub fn hide(&self, secret: &SecretText) {
        let scope = secret.terminal.clone().map_or(Scope::Everywhere, Scope::Terminal);
        let mut known = self.known.write();
        for line in hideable_lines(&secret.text) {
            if known.len() >= MAX_SECRETS || (scope != Scope::Everywhere && known.len_in(&scope) >= MAX_TYPED_SECRETS) {
                tracing::warn!(terminal = ?secret.terminal, "too many secrets: a new one is not redacted");
                return;
            }
            self.keep_secret(&mut known, scope.clone(), line);
        }
    }

    fn keep_secret(&self, known: &mut KnownSecrets, scope: Scope, line: &str) {
        let is_everywhere = scope == Scope::Everywhere;
        if known.keep_secret(scope, line) && is_everywhere {
            self.learned.send_modify(|learned| *learned += 1);
        }
    }

    /// Returns a receiver of the number of learned secrets that are hidden everywhere.
    pub fn learned(&self) -> watch::Receiver<u64> {
        self.learned.subscribe()
    }

    /// Returns the secrets learned after the first `before`, the newest first, and the number of all learned ones.
    pub fn learned_since(&self, before: u64) -> (Vec<String>, u64) {
        let known = self.known.read();
        let learned = *self.learned.borrow();
        let count = usize::try_from(learned.saturating_sub(before)).unwrap_or(usize::MAX);
        (known.arrived_everywhere().rev().take(count).map(str::to_owned).collect(), learned)
    }

    /// Returns all secrets that this redactor hides, without their encodings, the longest first.
    pub fn known(&self) -> Vec<String> {
        let mut known = self.known.read().known(self.terminal.as_ref());
        known.sort_by_key(|text| std::cmp::Reverse(text.len()));
        known
    }

    /// Returns the redactor for the text of one terminal.
    pub fn within(&self, terminal: &TerminalId) -> Self {
        Self { known: self.known.clone(), learned: self.learned.clone(), terminal: Some(terminal.clone()) }
    }

    /// Returns the secrets that this redactor hides, with their encodings, the longest first.
    fn values(&self) -> Arc<Vec<String>> {
        self.known.read().values(self.terminal.as_ref())
    }

    /// Returns whether this redactor hides all text, because the remote host of the terminal exceeded its limits of
    /// secrets.
    fn hides_all(&self) -> bool {
        self.known.read().hides_all(self.terminal.as_ref())
    }

    /// Calls `search` with the secrets, the longest first.
    fn with_values<T>(&self, search: impl FnOnce(&[String]) -> T) -> T {
        search(&self.values())
    }

    /// Returns `text` with all secrets masked, including secrets divided by line ends.
    pub fn masked(&self, mut text: String) -> String {
        if self.hides_all() && !text.is_empty() {
            return MASK.to_owned();
        }
        mask_text(&mut text, &self.values());
        text
    }

    /// Returns `text`, if any, with all secrets masked.
    pub fn masked_if(&self, text: Option<String>) -> Option<String> {
        text.map(|text| self.masked(text))
    }

    /// Returns the rows of a screen with all secrets masked, including secrets wrapped over several rows, and long parts
    /// of secrets.
    pub fn masked_screen(&self, mut screen: String) -> String {
        if self.hides_all() && !screen.is_empty() {
            return MASK.to_owned();
        }
        let values = self.values();
        mask_whole(&mut screen, &values);
        let joined_rows = |screen: &str| screen.replace('\n', "");
        let mut joined = joined_rows(&screen);
        // Mask each character of a divided secret, so that the rows keep their width.
        for secret in values.iter().filter(|secret| !secret.is_empty()) {
            let mut hidden_positions = Vec::new();
            let parts = part_ranges(&joined, secret, &Cuts::default());
            for found in secret_ranges(&joined, secret).chain(parts) {
                let first = joined[..found.start].chars().count();
                hidden_positions.extend(first..first + joined[found].chars().count());
            }
            if hidden_positions.is_empty() {
                continue;
            }
            hidden_positions.sort_unstable();
            // Line ends do not count.
            let mut position = 0;
            let hide = |character: char| {
                let is_hidden = character != '\n' && hidden_positions.binary_search(&position).is_ok();
                position += usize::from(character != '\n');
                if is_hidden { '•' } else { character }
            };
            screen = screen.chars().map(hide).collect();
            joined = joined_rows(&screen);
        }
        screen
    }

    /// Returns the cells of a screen with all secrets masked, including secrets wrapped over several rows, long parts of
    /// secrets, and the parts that the screen cuts: at its first cell, at its right edge and at the cursor.
    pub fn masked_picture(&self, mut picture: Picture) -> Picture {
        if self.hides_all() {
            for run in picture.rows.iter_mut().flatten() {
                run.text = run.text.chars().map(|_| '•').collect();
                run.link = None;
            }
            return picture;
        }
        let values = self.values();
        if values.is_empty() {
            return picture;
        }
        let mut hidden_positions: Vec<CharacterPosition> = Vec::new();
        // The spaces at the end of a row may or may not belong to the wrapped text.
        for to_row_end in [false, true] {
            let positions = characters_in_order(&picture, to_row_end);
            let text: String = positions.iter().map(|cell| cell.character).collect();
            let cuts = cuts_of(&picture, &positions);
            for secret in values.iter() {
                for found in secret_ranges(&text, secret).chain(part_ranges(&text, secret, &cuts)) {
                    let first = text[..found.start].chars().count();
                    let length = text[found].chars().count();
                    hidden_positions.extend(positions[first..first + length].iter().filter_map(|cell| cell.position));
                }
            }
        }
        hidden_positions.sort_unstable();
        for (row, runs) in picture.rows.iter_mut().enumerate() {
            for (index, run) in runs.iter_mut().enumerate() {
                let is_hidden = |character: usize| hidden_positions.binary_search(&(row, index, character)).is_ok();
                let characters = run.text.chars().enumerate();
                run.text =
                    characters.map(|(character, original)| if is_hidden(character) { '•' } else { original }).collect();
                // A link with a mask would lead elsewhere.
                run.link = run.link.take().filter(|link| !values.iter().any(|secret| contains_secret(link, secret)));
            }
        }
        picture
    }

    /// Returns the match of a group, masked if it is part of a secret that the full match contains.
    pub fn masked_group(&self, group: Option<String>, full_match: &str) -> Option<String> {
        let group = self.masked(group?);
        let values = self.values();
        let is_part = values.iter().any(|secret| full_match.contains(secret) && overlaps(secret, &group));
        Some(if is_part { MASK.to_owned() } else { group })
    }

    /// Returns the number of bytes of context on each side of a portion that are needed to find every secret that the
    /// portion cuts.
    pub fn reach(&self) -> usize {
        // Include the line ends that may divide the secret.
        self.values().first().map_or(0, |longest| longest.len() + longest.len() / 8)
    }

    /// Returns a portion of `text` with all parts of secrets in `text` masked.
    pub fn masked_portion(&self, text: &str, portion: Range<usize>) -> String {
        if self.hides_all() && !portion.is_empty() {
            return MASK.to_owned();
        }
        mask_ranges(text, portion.clone(), self.secret_ranges(text))
    }

    /// Masks a fragment of unknown text: whole secrets, and parts of secrets at its cuts. Such a part is the end of a
    /// secret at the beginning of the fragment, the beginning of a secret at the end of the fragment, or the whole
    /// fragment. Masks single characters, too, because a client may read one character at a time.
    /// [`Self::masked_portion`] masks less if the surrounding text is known.
    pub fn masked_at_cuts(&self, text: &str) -> String {
        if self.hides_all() && !text.is_empty() {
            return MASK.to_owned();
        }
        // The bytes without line ends, because line ends may divide a secret, and the offsets of these bytes in the
        // text.
        let (offsets, letters): (Vec<usize>, Vec<u8>) =
            text.bytes().enumerate().filter(|(_, byte)| !is_line_end(byte)).unzip();
        if letters.is_empty() {
            return text.to_owned();
        }
        let mut hidden_ranges = self.secret_ranges(text);
        for secret in self.values().iter().map(String::as_bytes) {
            if secret.windows(letters.len()).any(|part| part == letters) {
                return MASK.to_owned();
            }
            let lengths = || (1..=secret.len().min(letters.len())).rev();
            if let Some(prefix_length) = lengths().find(|length| secret.ends_with(&letters[..*length])) {
                hidden_ranges.push(0..offsets[prefix_length - 1] + 1);
            }
            if let Some(suffix_length) = lengths().find(|length| secret.starts_with(&letters[letters.len() - length..]))
            {
                hidden_ranges.push(offsets[letters.len() - suffix_length]..text.len());
            }
        }
        mask_ranges(text, 0..text.len(), hidden_ranges)
    }

    /// Returns the ranges of secrets in `text`, including secrets divided by line ends.
    fn secret_ranges(&self, text: &str) -> Vec<Range<usize>> {
        let values = self.values();
        let mut ranges = find_wrapped(text, &values);
        ranges.extend(values.iter().flat_map(|secret| secret_ranges(text, secret)));
        ranges
    }

    /// Masks the parts of a divided secret at the end of `head` and at the beginning of `tail`.
    pub fn masked_cut(&self, head: String, tail: Option<String>) -> (String, Option<String>) {
        let (mut head, mut tail) = (self.masked(head), self.masked_if(tail));
        for secret in self.values().iter() {
            let cuts = secret.char_indices().map(|(cut, _)| cut).skip(MIN_SECRET_CHARS - 1);
            for cut in cuts.collect::<Vec<_>>().into_iter().rev() {
                if let Some(remainder) = strip_secret_prefix_at_end(&head, secret, cut) {
                    head = format!("{remainder}{MASK}");
                }
                if let Some(remainder) =
                    tail.as_deref().and_then(|tail| strip_secret_suffix_at_start(tail, secret, cut))
                    && secret[cut..].chars().count() >= MIN_SECRET_CHARS
                {
                    tail = Some(format!("{MASK}{remainder}"));
                }
            }
        }
        (head, tail)
    }

    /// Returns text that was cut out of other text, such as a row of a screen, with all secrets and parts of divided
    /// secrets masked.
    pub fn masked_fragment(&self, text: String) -> String {
        let (_, text) = self.masked_cut(String::new(), Some(text));
        let (text, _) = self.masked_cut(text.unwrap_or_default(), None);
        let is_middle =
            text.chars().count() >= MIN_SECRET_CHARS && self.values().iter().any(|secret| secret.contains(&text));
        if is_middle { MASK.to_owned() } else { text }
    }

    /// Returns `value` with all secrets masked, like [`Self::mask_in`].
    pub fn masked_value(&self, mut value: Value) -> Value {
        self.mask_in(&mut value);
        value
    }

    /// Masks secrets in every string of `fields`, like [`Self::mask_in`].
    pub fn mask_fields(&self, fields: &mut Map<String, Value>) {
        if let Value::Object(masked) = self.masked_value(Value::Object(std::mem::take(fields))) {
            *fields = masked;
        }
    }

    /// Masks secrets in every string of `value`, except in fields that programs rely on.
    pub fn mask_in(&self, value: &mut Value) {
        if self.hides_all() {
            *value = Value::String(MASK.to_owned());
            return;
        }
        let values = self.values();
        if !values.is_empty() {
            mask_in(value, &values);
        }
    }
}

/// Secrets of a remote host are hidden only in its own terminals. Elsewhere, they could mask words of questions.
impl MachineSecretSink for Redactor {
    fn place(&self, terminal: &TerminalId, host: &str) {
        self.known.write().place(terminal, host);
    }

    fn hide_on(&self, host: &str, secret: SecretText) {
        // Avoid the write lock for known secrets, so that a flood of them does not block readers.
        if self.known.read().has_for_host(host, &secret) {
            return;
        }
        self.known.write().add_for_host(host, secret);
    }

    fn forget(&self, terminal: &TerminalId) {
        self.known.write().forget(terminal);
    }
}

/// Returns the parts of `text` that can be hidden: its lines, trimmed, if they are long enough.
pub fn hideable_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split(['\n', '\r']).map(str::trim).filter(|line| line.chars().count() >= MIN_SECRET_CHARS)
}

/// Returns the values in a secret line of a shell or a protocol, if they are long enough: the text after
/// `=`, after `-p`, after a name with a colon, and the password of an address. Programs print them without the line.
fn values_in(line: &str) -> Vec<&str> {
    let value_end = |text: &'_ str| -> usize {
        match text.chars().next() {
            Some(quote @ ('"' | '\'')) => text[1..].find(quote).map_or(text.len(), |end| end + 2),
            _ => text.find(char::is_whitespace).unwrap_or(text.len()),
        }
    };
    let mut values = Vec::new();
    for (index, _) in line.match_indices('=') {
        let value = &line[index + 1..];
        values.push(&value[..value_end(value)]);
    }
    if let Some((_, value)) = line.split_once(": ") {
        values.push(value);
        // A scheme precedes a token: `Authorization: Bearer TOKEN`.
        values.extend(value.rsplit_once(' ').map(|(_, last)| last));
    }
    for word in line.split_whitespace() {
        let short_option = word.strip_prefix("-p").filter(|tail| !tail.starts_with('-'));
        let password = word.split_once("://").and_then(|(_, tail)| tail.rsplit_once('@')?.0.split_once(':'));
        values.extend(short_option.into_iter().chain(password.map(|(_, password)| password)));
    }
    let trimmed = values.into_iter().map(|value| value.trim().trim_matches(['"', '\'']));
    trimmed.filter(|value| value.chars().count() >= MIN_VALUE_CHARS).collect()
}

/// Returns whether a secret is hidden in field names as well as in text. Names of protocol fields consist of lowercase
/// letters and underscores, so such a secret would break them.
pub fn hides_in_names(secret: &str) -> bool {
    secret.chars().any(|character| !character.is_ascii_lowercase() && character != '_')
}

/// Renames the fields with a new name from `name`, in order. A number distinguishes names that collide.
pub fn rename_fields(fields: &mut Map<String, Value>, name: impl Fn(&str) -> Option<String>) {
    if !fields.keys().any(|old_name| name(old_name).is_some()) {
        return;
    }
    let mut renamed = Map::with_capacity(fields.len());
    for (old_name, field) in std::mem::take(fields) {
        let base_name = name(&old_name).unwrap_or(old_name);
        let mut unique = base_name.clone();
        for number in 2.. {
            if !renamed.contains_key(&unique) {
                break;
            }
            unique = format!("{base_name} ({number})");
        }
        renamed.insert(unique, field);
    }
    *fields = renamed;
}

/// The position of a character of a picture: its row, the run in the row, and the character in the run.
type CharacterPosition = (usize, usize, usize);

/// A character of a picture, or a space between its runs.
struct PictureCharacter {
    character: char,
    /// The row and the column, counted from 0. The column of a character that shares its cell is that of the cell or a
    /// later one.
    cell: (usize, usize),
    /// Number of columns.
    width: usize,
    /// `None` for a space between runs.
    position: Option<CharacterPosition>,
}

/// Returns every character of a picture from top to bottom, with the spaces between runs.
fn characters_in_order(picture: &Picture, to_row_end: bool) -> Vec<PictureCharacter> {
    let mut characters = Vec::new();
    for (row, runs) in picture.rows.iter().enumerate() {
        let space =
            |col: u16| PictureCharacter { character: ' ', cell: (row, usize::from(col)), width: 1, position: None };
        let mut end = 0;
        for (index, run) in runs.iter().enumerate() {
            characters.extend((end..run.col).map(space));
            let width = if run.wide { 2 } else { 1 };
            characters.extend(run.text.chars().enumerate().map(|(index_in_run, character)| PictureCharacter {
                character,
                cell: (row, usize::from(run.col) + width * index_in_run),
                width,
                position: Some((row, index, index_in_run)),
            }));
            end = run.col + run.cols;
        }
        if to_row_end {
            characters.extend((end..picture.cols).map(space));
        }
    }
    characters
}

/// Returns the places in the text of a picture at which the screen may cut a secret.
fn cuts_of(picture: &Picture, characters: &[PictureCharacter]) -> Cuts {
    let cursor = picture.cursor.map(|cursor| (usize::from(cursor.row), usize::from(cursor.col)));
    let mut ends = Vec::new();
    let mut offset = 0;
    for (index, PictureCharacter { character, cell, width, .. }) in characters.iter().enumerate() {
        offset += character.len_utf8();
        let next = characters.get(index + 1).map(|next| next.cell);
        let ends_row = next.is_none_or(|next| next.0 > cell.0);
        let is_at_edge = cell.1 + width >= usize::from(picture.cols);
        let is_before_cursor =
            cursor.is_some_and(|cursor| cell.0 == cursor.0 && *cell < cursor && next.is_none_or(|next| next >= cursor));
        if is_before_cursor || (ends_row && is_at_edge) {
            ends.push(offset);
        }
    }
    Cuts { at_start: true, ends }
}

/// Fields with an id or bytes in Base64: a mask would make them useless.
const NON_TEXT_FIELDS: [&str; 5] = ["session_id", "run_id", "bytes", "snapshot", "png"];

/// Masks undivided secrets in `text`.
fn mask_whole(text: &mut String, secrets: &[String]) {
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        if let Some(masked) = replace_secret(text, secret) {
            *text = masked;
        }
    }
}

/// Masks secrets in `text`, including secrets divided by line ends.
fn mask_text(text: &mut String, secrets: &[String]) {
    mask_whole(text, secrets);
    // Start at the end, so that earlier offsets remain valid.
    for part in find_wrapped(text, secrets).into_iter().rev() {
        text.replace_range(part, MASK);
    }
}

/// Returns a portion of `text`, with a mask over these ranges of `text`.
fn mask_ranges(text: &str, portion: Range<usize>, parts: Vec<Range<usize>>) -> String {
    let clipped = parts.into_iter().map(|part| (part.start.max(portion.start), part.end.min(portion.end)));
    let mut hidden_ranges: Vec<(usize, usize)> = clipped.filter(|(begin, end)| begin < end).collect();
    hidden_ranges.sort_unstable();
    let (mut masked, mut position) = (String::new(), portion.start);
    for (begin, end) in hidden_ranges {
        if end <= position {
            continue;
        }
        // A match that begins within the last match shares its mask.
        if begin >= position {
            masked.push_str(&text[position..begin]);
            masked.push_str(MASK);
        }
        position = end;
    }
    masked.push_str(&text[position.min(portion.end)..portion.end]);
    masked
}

fn is_line_end(byte: &u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// Returns the parts of secrets that line ends divide, in order and without overlaps.
fn find_wrapped(text: &str, secrets: &[String]) -> Vec<Range<usize>> {
    if !text.trim_end_matches(['\n', '\r']).bytes().any(|byte| is_line_end(&byte)) {
        return Vec::new();
    }
    let joined = text.replace(['\n', '\r'], "");
    let is_long_match = |secret: &&String| secret.len() >= MIN_WRAPPED_BYTES && joined.contains(secret.as_str());
    let candidates: Vec<&String> = secrets.iter().filter(is_long_match).collect();
    if candidates.is_empty() {
        return Vec::new();
    }
    // The offset in the text of each byte that is not a line end.
    let offsets: Vec<usize> =
        text.bytes().enumerate().filter(|(_, byte)| !is_line_end(byte)).map(|(offset, _)| offset).collect();
    let mut is_hidden = vec![false; text.len()];
    for (secret, start) in candidates
        .iter()
        .flat_map(|secret| joined.match_indices(secret.as_str()).map(move |(start, _)| (secret, start)))
    {
        offsets[start..start + secret.len()].iter().for_each(|offset| is_hidden[*offset] = true);
    }
    let mut parts: Vec<Range<usize>> = Vec::new();
    for offset in (0..text.len()).filter(|offset| is_hidden[*offset]) {
        match parts.last_mut().filter(|part| part.end == offset) {
            Some(part) => part.end += 1,
            None => parts.push(offset..offset + 1),
        }
    }
    parts
}

fn mask_in(value: &mut Value, secrets: &[String]) {
    match value {
        Value::String(text) => mask_text(text, secrets),
        Value::Array(items) => items.iter_mut().for_each(|item| mask_in(item, secrets)),
        Value::Object(fields) => {
            let texts = fields.iter_mut().filter(|(name, field)| {
                !NON_TEXT_FIELDS.contains(&name.as_str())
                    && !field.as_str().is_some_and(|text| own_words::is_protocol_word(name, text))
            });
            texts.for_each(|(_, field)| mask_in(field, secrets));
            rename_fields(fields, |name| {
                let hidden = || secrets.iter().filter(|secret| hides_in_names(secret));
                let has_secret = hidden().any(|secret| contains_secret(name, secret));
                has_secret.then(|| {
                    hidden().fold(name.to_owned(), |name, secret| replace_secret(&name, secret).unwrap_or(name))
                })
            });
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns whether `part` is, or ends or begins with, enough of `secret` to reveal it.
fn overlaps(secret: &str, part: &str) -> bool {
    let is_revealing = |text: &str| text.chars().count() >= MIN_SECRET_CHARS;
    let mut cuts = secret.char_indices().map(|(cut, _)| cut).skip(1);
    (is_revealing(part) && secret.contains(part))
        || cuts.any(|cut| {
            (is_revealing(&secret[..cut]) && part.ends_with(&secret[..cut]))
                || (is_revealing(&secret[cut..]) && part.starts_with(&secret[cut..]))
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steplatch_terminal::{CursorCell, CursorShape, Rgb, Run, Style};

    use super::*;

    #[test]
    fn secrets_are_masked_in_unusual_field_names() {
        let secrets = Redactor::default();
        secrets.add("Zebra-77");
        secrets.add("result");
        let mut value = json!({"Zebra-77": 1, "a Zebra-77": {"Zebra-77": "result"}, "••••••": 2, "result": true});
        secrets.mask_in(&mut value);
        let masked = json!({"••••••": 1, "a ••••••": {"••••••": "••••••"}, "•••••• (2)": 2, "result": true});
        assert_eq!(value, masked);
    }

    #[test]
    fn portion_of_text_shows_no_part_of_a_secret() {
        let secrets = Redactor::default();
        secrets.add("FLOWTOKEN-99");
        let text = "the FLOWTOKEN-99 of FLOWTOKEN-99.";
        for begin in 0..text.len() {
            for end in begin..=text.len() {
                let masked = secrets.masked_portion(text, begin..end);
                let plain: String = masked.replace(MASK, "");
                assert!(plain.chars().all(|shown| "the of.".contains(shown)), "{begin}..{end}: {masked}");
            }
        }
        assert_eq!(secrets.masked_portion(text, 2..text.len()), format!("e {MASK} of {MASK}."));
        assert_eq!(secrets.reach(), 27);
        assert_eq!(Redactor::default().masked_portion("abc", 1..2), "b");
    }

    #[test]
    fn fragment_of_unknown_text_shows_no_part_of_a_secret() {
        let secrets = Redactor::default();
        secrets.add("FLOWTOKEN-99");
        secrets.add("KEYKEYKEY");
        let text = "the FLOWTOK\nEN-99 of KEYKEYKEY, so.";
        for begin in 0..text.len() {
            for end in begin..=text.len() {
                let masked = secrets.masked_at_cuts(&text[begin..end]);
                let plain: String = masked.replace(MASK, "");
                assert!(plain.chars().all(|shown| "the of, so.\n".contains(shown)), "{begin}..{end}: {masked}");
            }
        }
        let masked = secrets.masked_at_cuts("99 and then, as it was\nto be");
        assert_eq!(masked, format!("{MASK} and then, as it was\nto be"));
        assert_eq!(secrets.masked_at_cuts("\n"), "\n");
        assert_eq!(Redactor::default().masked_at_cuts("abc"), "abc");
    }

    #[test]
    fn secret_is_removed_everywhere() {
        let secrets = Redactor::default();
        secrets.add("hunter2!\n");
        let mut value = json!({"screen": "password: hunter2!", "list": ["xhunter2!x"], "n": 1});
        secrets.mask_in(&mut value);
        assert_eq!(value, json!({"screen": "password: ••••••", "list": ["x••••••x"], "n": 1}));
    }

    #[test]
    fn secret_is_hidden_across_lines() {
        let secrets = Redactor::default();
        secrets.add("supersecret-value");
        let masked = |text: &str| secrets.masked(text.to_owned());
        assert_eq!(masked("a supersec\nret-value b\n"), "a ••••••\n•••••• b\n");
        assert_eq!(masked("supe\r\nrsecret\r\n-value"), "••••••\r\n••••••\r\n••••••");
        assert_eq!(masked("supersecret-value\nsupersec\nret-value"), "••••••\n••••••\n••••••");
        let mut value = json!({"lines": ["x supersecret\n-value"], "other": "super\nsecret"});
        secrets.mask_in(&mut value);
        assert_eq!(value, json!({"lines": ["x ••••••\n••••••"], "other": "super\nsecret"}));
        // Encodings are hidden too, in lines as folded by base64(1).
        let encoded = "eCBzdXBlcnNlY3JldC12\nYWx1ZSB5";
        assert!(!masked(encoded).contains("dXBlcnNlY3Jld"), "{}", masked(encoded));
        let portion = secrets.masked_portion("a supersec\nret-value b", 6..16);
        assert_eq!(portion, "••••••\n••••••");
        // A short secret is not joined across lines, because its halves may be adjacent by chance.
        secrets.add("pass");
        assert_eq!(masked("com\npa\nss"), "com\npa\nss");
    }

    #[test]
    fn percent_escapes_are_hidden_in_both_cases() {
        let secrets = Redactor::default();
        secrets.add("s3cr3t/p+w?x");
        for shown in ["?t=s3cr3t%2Fp%2Bw%3Fx", "?t=s3cr3t%2fp%2bw%3fx"] {
            assert_eq!(secrets.masked(shown.to_owned()), format!("?t={MASK}"));
        }
    }

    #[test]
    fn secret_within_a_longer_secret_is_masked_completely() {
        let secrets = Redactor::default();
        secrets.add("abcd");
        secrets.add("abcdefgh");
        assert_eq!(secrets.masked("abcdefgh abcd".into()), "•••••• ••••••");
    }

    #[test]
    fn secrets_are_kept_and_excess_secrets_are_refused() {
        // redteam M3: 1,001 lines revealed the input of a person.
        let secrets = Redactor::default();
        secrets.add("of a person");
        let flood: String = (0..=MAX_TYPED_SECRETS).map(|number| format!("secret {number}\n")).collect();
        assert_eq!(secrets.add_typed(&flood), Err(TooManySecrets));
        assert_eq!(
            secrets.masked("secret 7 of a person".to_owned()),
            format!("secret 7 {MASK}"),
            "no part of a refused secret is registered"
        );
        for number in 0..MAX_TYPED_SECRETS {
            assert_eq!(secrets.add_typed(&format!("secret {number}")), Ok(()));
        }
        assert_eq!(secrets.add_typed("secret 7"), Ok(()), "a known secret needs no room");
        assert_eq!(secrets.add_typed("one too many"), Err(TooManySecrets));
        secrets.add("of a run");
        assert_eq!(secrets.masked("of a person, of a run".to_owned()), format!("{MASK}, {MASK}"));
    }

    #[test]
    fn values_of_a_secret_line_are_secrets_too() {
        // redteam M12: echo $TOK showed what `export TOK=VALUE` had hidden.
        for (line, values) in [
            ("export TOK=hunter22", &["hunter22"][..]),
            ("export TOK='two words' OTHER=\"of them\" X=1", &["two words", "of them"]),
            ("mysql -u ana -phunter22 --port=3306", &["hunter22"]),
            ("curl -H 'Authorization: Bearer abc.def'", &["Bearer abc.def", "abc.def"]),
            ("git clone https://ana:hunter22@example.org/x.git", &["hunter22"]),
            ("hunter22", &[]),
        ] {
            assert_eq!(values_in(line), values, "{line}");
        }
        let secrets = Redactor::default();
        secrets.add_typed("export TOK=hunter22\n").unwrap();
        assert_eq!(secrets.masked("TOK is hunter22".to_owned()), format!("TOK is {MASK}"));
    }

    #[test]
    fn secret_equal_to_a_keyword_does_not_break_replies() {
        // redteam M4: with the secret `completed`, no run appeared to complete.
        let secrets = Redactor::default();
        ["completed", "run_", "2026", "human"].iter().for_each(|secret| secrets.add(secret));
        let run = "run_k7q2m8x4rd3tv5ab";
        let mut reply = json!({"status": "completed", "run_id": run, "gate_id": format!("{run}/ask/1"), "answered_by": "human",
            "created_at": "2026-11-22T10:00:00.000Z", "event_type": "workflow_completed",
            "error": "it was not completed by a human", "state": "a completed one", "output": "completed", "title": run});
        secrets.mask_in(&mut reply);
        assert_eq!(
            reply,
            json!({"status": "completed", "run_id": run, "gate_id": format!("{run}/ask/1"), "answered_by": "human",
                "created_at": "2026-11-22T10:00:00.000Z", "event_type": "workflow_completed",
                "error": format!("it was not {MASK} by a {MASK}"), "state": format!("a {MASK} one"), "output": MASK,
                "title": format!("{MASK}k7q2m8x4rd3tv5ab")})
        );
    }

    #[test]
    fn flooded_terminal_reveals_nothing() {
        let (secrets, terminal) = (Redactor::default(), TerminalId::random());
        let typed = |text: String| secrets.hide(&SecretText { terminal: Some(terminal.clone()), text });
        typed("of a person".to_owned());
        (0..2 * MAX_TYPED_SECRETS).for_each(|number| typed(format!("flood {number}")));
        let within = secrets.within(&terminal);
        assert_eq!(within.masked("of a person".to_owned()), MASK);
    }

    #[test]
    fn only_new_secrets_are_reported() {
        let secrets = Redactor::default();
        secrets.add("first one");
        let (all, learned_count) = secrets.learned_since(0);
        assert_eq!((all, learned_count), (vec!["first one".to_owned()], 1));
        let mut learned = secrets.learned();
        learned.mark_unchanged();
        secrets.hide(&SecretText { terminal: Some(TerminalId::random()), text: "of a terminal".to_owned() });
        secrets.add("first one");
        assert!(!learned.has_changed().unwrap(), "known secrets and those of one terminal are not reported");
        secrets.add("second one");
        assert!(learned.has_changed().unwrap());
        assert_eq!(secrets.learned_since(learned_count), (vec!["second one".to_owned()], 2));
        assert_eq!(secrets.learned_since(2), (Vec::new(), 2));
    }

    #[test]
    fn hidden_input_is_masked_in_its_terminal_only() {
        let (secrets, terminal, other_terminal) = (Redactor::default(), TerminalId::random(), TerminalId::random());
        secrets.hide(&SecretText { terminal: Some(terminal.clone()), text: "root".to_owned() });
        assert_eq!(secrets.within(&terminal).masked("root".into()), MASK);
        assert_eq!(secrets.within(&other_terminal).masked("root".into()), "root");
        assert_eq!(secrets.masked("root".into()), "root");
    }

    #[test]
    fn secret_is_hidden_across_rows_groups_and_cuts() {
        let secrets = Redactor::default();
        secrets.add("supersecret-value");
        assert_eq!(secrets.masked_screen("$ x supersec\nret-value\n$".into()), "$ x ••••••••\n•••••••••\n$");
        let group = |text: &str| secrets.masked_group(Some(text.into()), "is supersecret-value").unwrap();
        assert_eq!((group("supersecret").as_str(), group("is").as_str()), ("••••••", "is"));
        let (head, tail) = secrets.masked_cut("a supersec".into(), Some("ret-value b".into()));
        assert_eq!((head.as_str(), tail.as_deref()), ("a ••••••", Some("•••••• b")));
    }

    #[test]
    fn secret_is_hidden_across_colours_and_rows_of_cells() {
        let secrets = Redactor::default();
        let run = |col: u16, text: &str| Run {
            col,
            cols: text.chars().count() as u16,
            wide: false,
            text: text.to_owned(),
            style: Style::default(),
            link: None,
        };
        let picture = Picture {
            cols: 12,
            rows: vec![
                vec![run(0, "$"), run(2, "x"), run(4, "su"), run(6, "per")],
                vec![run(0, "secret-v"), run(8, "ärde y")],
            ],
            cursor: None,
            foreground: Rgb(255, 255, 255),
            background: Rgb(0, 0, 0),
            palette: Vec::new(),
        };
        secrets.add("another one");
        assert_eq!(secrets.masked_picture(picture.clone()), picture);
        secrets.add("supersecret-värde");
        let masked = secrets.masked_picture(picture.clone());
        let texts: Vec<_> = masked.rows.iter().flatten().map(|run| run.text.as_str()).collect();
        assert_eq!(texts, ["$", "x", "••", "•••", "••••••••", "•••• y"]);
        // A secret wrapped at its space: the row is full, and no run contains the space.
        let secrets = Redactor::default();
        secrets.add("super secret-värde");
        let masked = secrets.masked_picture(Picture { cols: 10, ..picture });
        let texts: Vec<_> = masked.rows.iter().flatten().map(|run| run.text.as_str()).collect();
        assert_eq!(texts, ["$", "x", "••", "•••", "••••••••", "•••• y"]);
    }

    #[test]
    fn parts_of_a_secret_are_hidden_at_the_cuts_of_a_screen() {
        let secrets = Redactor::default();
        secrets.add("hunter22-of-ann");
        let row = |text: &str| {
            vec![Run {
                col: 0,
                cols: text.chars().count() as u16,
                wide: false,
                text: text.to_owned(),
                style: Style::default(),
                link: None,
            }]
        };
        let masked = |rows: &[&str], cursor: Option<(u16, u16)>| {
            let picture = Picture {
                cols: 12,
                rows: rows.iter().map(|text| row(text)).collect(),
                cursor: cursor.map(|(row, col)| CursorCell {
                    row,
                    col,
                    wide: false,
                    shape: CursorShape::Block,
                    colour: None,
                }),
                foreground: Rgb(255, 255, 255),
                background: Rgb(0, 0, 0),
                palette: Vec::new(),
            };
            let rows = secrets.masked_picture(picture).rows;
            rows.iter().map(|runs| runs.iter().map(|run| run.text.as_str()).collect()).collect::<Vec<String>>()
        };
        // The rest is not printed yet.
        assert_eq!(masked(&["is hunter"], Some((0, 9))), ["is ••••••"]);
        assert_eq!(masked(&["is hunter"], Some((1, 0))), ["is hunter"]);
        assert_eq!(masked(&["hunter, in"], Some((0, 10))), ["hunter, in"]);
        // The rest is beyond the right edge.
        assert_eq!(masked(&["user: hunter", "next"], None), ["user: ••••••", "next"]);
        // The beginning has been scrolled away.
        assert_eq!(masked(&["of-ann", "$"], None), ["••••••", "$"]);
        assert_eq!(masked(&["$", "of-ann"], None), ["$", "of-ann"]);
        // A long part anywhere, such as in a window or after an erasure.
        assert_eq!(masked(&["| hunter22- |", "x"], None), ["| ••••••••• |", "x"]);
        assert_eq!(secrets.masked_screen("a hunter22- b\nc".into()), "a ••••••••• b\nc");
    }

    #[test]
    fn very_short_text_is_not_a_secret() {
        let secrets = Redactor::default();
        secrets.add("yes\n");
        assert_eq!(secrets.masked("yes, yesterday".into()), "yes, yesterday");
    }
}
