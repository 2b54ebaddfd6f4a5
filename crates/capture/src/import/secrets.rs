//! Typed values without an echo, masked in all texts of a log.

use std::collections::HashMap;

use crate::session_log::Moment;

/// Placeholder for a secret in texts.
const MASK: &str = "••••••";

/// Minimum length of a masked value, in bytes: shorter values occur in many words.
const MIN_SECRET_BYTES: usize = 4;

/// Typed values without an echo.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    values: Vec<String>,
}

impl Secrets {
    /// Adds a value. Each of its lines is a secret.
    pub(super) fn add(&mut self, value: &str) {
        let lines = value.split(['\r', '\n']).flat_map(|line| [line, line.trim()]);
        self.values.extend(lines.filter(|line| line.len() >= MIN_SECRET_BYTES).map(str::to_owned));
    }

    /// Masks the values in the texts of a log.
    pub(super) fn mask(mut self, moments: &mut [Moment]) {
        // Longer values come first, so that masking a value does not leave a part of a longer one.
        self.values.sort_by(|a, b| (b.len(), a).cmp(&(a.len(), b)));
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
            let input_texts = [&mut input.text, &mut input.row, &mut input.screen].map(Option::as_mut);
            for text in texts.into_iter().chain(input_texts).flatten() {
                *text = mask_text(text, &index);
            }
        }
    }
}

/// Values by their first bytes, the longest first.
type Index<'v> = HashMap<&'v [u8], Vec<&'v str>>;

fn mask_text(text: &str, values_by_prefix: &Index<'_>) -> String {
    let (mut result, mut copied_end, mut index) = (String::with_capacity(text.len()), 0, 0);
    while let Some(prefix) = text.as_bytes().get(index..index + MIN_SECRET_BYTES) {
        let values = values_by_prefix.get(prefix).filter(|_| text.is_char_boundary(index));
        let value = values.and_then(|values| values.iter().find(|value| text[index..].starts_with(**value)));
        let Some(value) = value else {
            index += 1;
            continue;
        };
        result.push_str(&text[copied_end..index]);
        result.push_str(MASK);
        index += value.len();
        copied_end = index;
    }
    result + &text[copied_end..]
}

/// Returns the output after a hidden value, with a mask for a partial echo of the value.
pub(super) fn mask_echo(value: &str, printed: &str) -> String {
    let line = printed.lines().next().unwrap_or_default();
    let echo_length = value.chars().zip(line.chars()).take_while(|(typed, shown)| typed == shown);
    let echo_length: usize = echo_length.map(|(character, _)| character.len_utf8()).sum();
    let is_echo = echo_length >= MIN_SECRET_BYTES || echo_length >= 1 && line.trim_end().len() == echo_length;
    if is_echo { format!("{MASK}{}", &printed[echo_length..]) } else { printed.to_owned() }
}
