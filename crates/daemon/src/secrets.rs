//! Values that must not be seen, and their removal by value.
//!
//! A secret that was typed can come back anywhere: on a screen, in a match, in the
//! parameters of an event. So whatever leaves the daemon as text passes through
//! here. A secret of fewer than [`SHORTEST`] characters is not removed, because
//! that would black out half of every text.

use std::sync::{PoisonError, RwLock};

use serde_json::Value;

/// The fewest characters that a secret has.
const SHORTEST: usize = 4;

/// How many are remembered; the oldest is forgotten first.
const MOST: usize = 1000;

const MASK: &str = "••••••";

/// The secrets that were typed since the daemon started.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    values: RwLock<Vec<String>>,
}

impl Secrets {
    /// Remembers a secret; line ends around it are not part of it.
    pub(crate) fn add(&self, secret: &str) {
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        for line in secret.split(['\n', '\r']).map(str::trim).filter(|line| line.chars().count() >= SHORTEST) {
            if !values.iter().any(|known| known == line) {
                values.push(line.to_owned());
                // The longest first: one that contains another must not leave its rest behind.
                values.sort_by_key(|value| std::cmp::Reverse(value.len()));
            }
        }
        values.truncate(MOST);
    }

    /// Returns `text` without any secret in it.
    pub(crate) fn masked(&self, text: String) -> String {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        values.iter().fold(text, |text, secret| if text.contains(secret) { text.replace(secret, MASK) } else { text })
    }

    /// Returns `text` without any secret in it, if there is a text.
    pub(crate) fn masked_if(&self, text: Option<String>) -> Option<String> {
        text.map(|text| self.masked(text))
    }

    /// Removes secrets from every text in `value`.
    pub(crate) fn mask_in(&self, value: &mut Value) {
        if self.values.read().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return;
        }
        match value {
            Value::String(text) => *text = self.masked(std::mem::take(text)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_in(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.mask_in(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_is_removed_wherever_it_stands() {
        let secrets = Secrets::default();
        secrets.add("hunter2!\n");
        let mut value = json!({"screen": "password: hunter2!", "list": ["xhunter2!x"], "n": 1});
        secrets.mask_in(&mut value);
        assert_eq!(value, json!({"screen": "password: ••••••", "list": ["x••••••x"], "n": 1}));
    }

    #[test]
    fn a_secret_in_a_longer_secret_leaves_no_rest() {
        let secrets = Secrets::default();
        secrets.add("abcd");
        secrets.add("abcdefgh");
        assert_eq!(secrets.masked("abcdefgh abcd".into()), "•••••• ••••••");
    }

    #[test]
    fn a_short_answer_is_not_taken_for_a_secret() {
        let secrets = Secrets::default();
        secrets.add("yes\n");
        assert_eq!(secrets.masked("yes, yesterday".into()), "yes, yesterday");
    }
}
