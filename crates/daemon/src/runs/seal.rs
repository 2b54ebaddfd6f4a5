//! Secrets, kept out of the histories that a run goes on from.
//!
//! A run that is interrupted needs the secrets it was given; somebody who reads
//! its history must not see them. So an entry has a mark in the place of each
//! secret, and what the marks stand for is kept apart, until the run is over. From
//! then on a mark is all that there is.
//!
//! A mark is U+FDD0, the number of the secret, U+FDD1. These two are noncharacters,
//! meant for such use inside of a program (Unicode 16, section 23.7); one that came
//! in with foreign text is written as a mark without a number.

use serde::Serialize;
use serde_json::{Map, Value};
use steplatch_workflow::{Definition, filtered_forms};

use crate::secrets::{MASK, hideable};

const OPEN: char = '\u{FDD0}';
const CLOSE: char = '\u{FDD1}';

/// Where an entry may hold what somebody else wrote. Everything else is words of ours, which no secret can be part of
/// by more than chance; and an entry must stay readable when its marks stand for nothing any more.
const FOREIGN: [&str; 15] = [
    "variables",
    "definition",
    "params",
    "result",
    "context",
    "set",
    "values",
    "because",
    "error",
    "reason",
    "choices",
    "choice",
    "question",
    "screen",
    "substituted",
];

/// The secrets of one run.
#[derive(Debug, Clone, Default)]
pub(super) struct Seal {
    secrets: Vec<String>,
    /// Fields of these names hold secrets, however short: variables that the contract calls so.
    names: Vec<String>,
}

impl Seal {
    /// Returns a seal that knows these secrets already, in this order.
    pub(super) fn knowing(secrets: Vec<String>) -> Self {
        Self { secrets, names: Vec::new() }
    }

    /// Returns the same for a run of `definition`.
    pub(super) fn of(self, definition: &Definition) -> Self {
        let contract = definition.arguments().iter().chain(definition.return_values());
        let secret = contract.filter(|variable| variable.is_secret());
        Self { names: secret.map(|variable| variable.name().to_owned()).collect(), ..self }
    }

    /// Hides the variables that are secret by their names.
    pub(super) fn hide_named(&self, variables: &mut Map<String, Value>) {
        for name in &self.names {
            if let Some(value) = variables.get_mut(name).filter(|value| !value.is_null()) {
                *value = MASK.into();
            }
        }
    }

    /// Returns all that it knows, in the order in which it came.
    pub(super) fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// Learns a secret, line by line, and in the forms that filters write. Returns what is new of it.
    pub(super) fn learn(&mut self, secret: &str) -> Vec<String> {
        let before = self.secrets.len();
        if !secret.is_empty() && hideable(secret).next().is_none() && !self.secrets.iter().any(|known| known == secret)
        {
            // Too short to be looked for in texts, and hidden where a field bears its name.
            self.secrets.push(secret.to_owned());
            return Vec::new();
        }
        for line in hideable(secret) {
            for form in std::iter::once(line.to_owned()).chain(filtered_forms(line)) {
                if !self.secrets.contains(&form) {
                    self.secrets.push(form);
                }
            }
        }
        self.secrets[before..].to_vec()
    }

    /// Returns an entry as it is stored.
    pub(super) fn close(&self, entry: &impl Serialize) -> String {
        if self.secrets.is_empty() {
            let text = serde_json::to_string(entry).expect("an entry has only JSON in it");
            if !text.contains(OPEN) {
                return text;
            }
        }
        self.closed_entry(serde_json::to_value(entry).expect("an entry has only JSON in it"))
    }

    /// The secrets that are looked for in texts, with their numbers.
    fn looked_for(&self) -> impl Iterator<Item = (usize, &String)> {
        self.secrets.iter().enumerate().filter(|(_, secret)| hideable(secret).next().is_some())
    }

    fn closed_entry(&self, mut entry: Value) -> String {
        if let Value::Object(fields) = &mut entry {
            for (name, value) in fields {
                match name.as_str() {
                    "outcome" | "answer" | "otherwise" => self.close_fields(value),
                    _ if FOREIGN.contains(&name.as_str()) => self.close_in(value),
                    _ => {}
                }
            }
        }
        entry.to_string()
    }

    fn close_fields(&self, value: &mut Value) {
        if let Value::Object(fields) = value {
            let foreign = fields.iter_mut().filter(|(name, _)| FOREIGN.contains(&name.as_str()));
            foreign.for_each(|(_, value)| self.close_in(value));
        }
    }

    fn close_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if text.contains(OPEN) || self.looked_for().any(|(_, secret)| text.contains(secret)) {
                    *text = self.closed(text);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.close_in(item)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    let number = field
                        .as_str()
                        .filter(|_| self.names.contains(name))
                        .and_then(|value| self.secrets.iter().position(|secret| secret == value));
                    match number {
                        Some(number) => *field = mark(Some(number)).into(),
                        None => self.close_in(field),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// In one pass, so that no mark is taken for text; of two secrets in one place the longer is taken, which leaves
    /// no rest behind.
    fn closed(&self, text: &str) -> String {
        let mut closed = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let here = self.looked_for().filter(|(_, secret)| rest.starts_with(secret.as_str()));
            if let Some((number, secret)) = here.max_by_key(|(_, secret)| secret.len()) {
                closed.push_str(&mark(Some(number)));
                rest = &rest[secret.len()..];
                continue;
            }
            if character == OPEN {
                closed.push_str(&mark(None));
            } else {
                closed.push(character);
            }
            rest = &rest[character.len_utf8()..];
        }
        closed
    }

    /// Returns the entry that was stored as `text`, in JSON; a mark that stands for nothing known shows as hidden.
    pub(super) fn open(&self, text: String) -> String {
        if !text.contains(OPEN) {
            return text;
        }
        let mut opened = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some((before, behind)) = rest.split_once(OPEN) {
            opened.push_str(before);
            let Some((number, after)) = behind.split_once(CLOSE) else {
                opened.push(OPEN);
                rest = behind;
                continue;
            };
            if number.is_empty() {
                opened.push(OPEN);
            } else {
                match number.parse().ok().and_then(|number: usize| self.secrets.get(number)) {
                    Some(secret) => opened.push_str(&in_json(secret)),
                    None => opened.push_str(MASK),
                }
            }
            rest = after;
        }
        opened.push_str(rest);
        opened
    }
}

fn mark(number: Option<usize>) -> String {
    let number = number.map(|number| number.to_string()).unwrap_or_default();
    format!("{OPEN}{number}{CLOSE}")
}

fn in_json(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_short_secret_is_hidden_where_a_field_bears_its_name() {
        let mut seal = Seal { names: vec!["PIN".to_owned()], ..Seal::default() };
        assert!(seal.learn("917").is_empty(), "it is not looked for anywhere else");
        let entry = json!({"event": "started", "variables": {"PIN": "917", "N": "917", "list": ["917"]}});
        let stored = seal.close(&entry);
        assert_eq!(serde_json::from_str::<Value>(&seal.open(stored.clone())).unwrap(), entry);
        let shown: Value = serde_json::from_str(&Seal::default().open(stored)).unwrap();
        assert_eq!(shown["variables"], json!({"PIN": MASK, "N": "917", "list": ["917"]}));
    }

    #[test]
    fn an_entry_hides_its_secrets_and_gives_them_back_to_who_has_the_key() {
        let mut seal = Seal::default();
        assert_eq!(seal.learn("hun\"ter2\n"), ["hun\"ter2", "\"hun\\\"ter2\""]);
        assert_eq!(seal.learn("hun\"ter2-and-more").len(), 3, "as it is, as JSON and as a pattern");
        assert!(
            seal.learn("hun\"ter2").is_empty() && seal.learn("abc").is_empty(),
            "known, and too short to be hidden"
        );
        let entry = json!({
            "event": "state_entered",
            "params": {"input_text": "hun\"ter2-and-more\n", "also": ["x hun\"ter2", 7]},
            "outcome": {"kind": "hun\"ter2", "result": {"screen": "\u{FDD0}0\u{FDD1}"}},
        });
        let stored = seal.close(&entry);
        assert!(!stored.contains("-and-more"));
        assert_eq!(serde_json::from_str::<Value>(&seal.open(stored.clone())).unwrap(), entry);
        let shown: Value = serde_json::from_str(&Seal::default().open(stored)).unwrap();
        assert_eq!(shown["params"], json!({"input_text": format!("{MASK}\n"), "also": [format!("x {MASK}"), 7]}));
        assert_eq!(shown["outcome"], entry["outcome"], "what a program printed stands for no secret");
    }

    proptest! {
        #[test]
        fn what_is_closed_is_opened_as_it_was(
            secrets in prop::collection::vec("[a\"\\\\\u{FDD0}0-3]{4,6}", 0..3),
            texts in prop::collection::vec("[a\"\\\\\u{FDD0}\u{FDD1}0-3]{0,20}", 1..5),
        ) {
            let mut seal = Seal::default();
            for secret in &secrets {
                seal.learn(secret);
            }
            let entry = json!({"variables": texts, "event": "started"});
            let opened = seal.open(seal.close(&entry));
            prop_assert_eq!(serde_json::from_str::<Value>(&opened).unwrap(), entry);
        }
    }
}
