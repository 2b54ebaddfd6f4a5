//! Typed values without an echo: they stand in no text of a log.

use std::collections::HashMap;

use crate::session_log::Moment;

/// Placeholder for a secret in texts.
const MASK: &str = "••••••";

/// Minimum length of a value for a search in texts, in bytes: a shorter one stands in many words.
const MIN_SECRET_BYTES: usize = 4;

/// Typed values without an echo.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    values: Vec<String>,
}

impl Secrets {
    /// Adds a value. Each of its lines is one.
    pub(super) fn add(&mut self, value: &str) {
        let lines = value.split(['\r', '\n']).flat_map(|line| [line, line.trim()]);
        self.values.extend(lines.filter(|line| line.len() >= MIN_SECRET_BYTES).map(str::to_owned));
    }

    /// Takes the values out of the texts of a log.
    pub(super) fn mask(mut self, moments: &mut [Moment]) {
        // A value that is part of another one must not break that one.
        self.values.sort_by(|one, other| (other.len(), one).cmp(&(one.len(), other)));
        self.values.dedup();
        let mut index: Index<'_> = HashMap::new();
        for value in &self.values {
            index.entry(&value.as_bytes()[..MIN_SECRET_BYTES]).or_default().push(value);
        }
        if index.is_empty() {
            return;
        }
        for moment in moments {
            let input = &mut moment.input;
            let texts = [Some(&mut moment.printed), moment.output.as_mut()];
            let of_input = [&mut input.text, &mut input.row, &mut input.screen].map(Option::as_mut);
            for text in texts.into_iter().chain(of_input).flatten() {
                *text = masked(text, &index);
            }
        }
    }
}

/// Values by their first bytes, the longest first.
type Index<'v> = HashMap<&'v [u8], Vec<&'v str>>;

fn masked(text: &str, index: &Index<'_>) -> String {
    let (mut made, mut plain, mut at) = (String::with_capacity(text.len()), 0, 0);
    while let Some(begin) = text.as_bytes().get(at..at + MIN_SECRET_BYTES) {
        let values = index.get(begin).filter(|_| text.is_char_boundary(at));
        let found = values.and_then(|values| values.iter().find(|value| text[at..].starts_with(**value)));
        let Some(value) = found else {
            at += 1;
            continue;
        };
        made.push_str(&text[plain..at]);
        made.push_str(MASK);
        at += value.len();
        plain = at;
    }
    made + &text[plain..]
}

/// Returns the output behind a hidden value, without an echo of the beginning of the value.
pub(super) fn without_echo(value: &str, printed: &str) -> String {
    let line = printed.lines().next().unwrap_or_default();
    let same = value.chars().zip(line.chars()).take_while(|(one, other)| one == other);
    let same: usize = same.map(|(sign, _)| sign.len_utf8()).sum();
    let is_echo = same >= MIN_SECRET_BYTES || same >= 1 && line.trim_end().len() == same;
    if is_echo { format!("{MASK}{}", &printed[same..]) } else { printed.to_owned() }
}
