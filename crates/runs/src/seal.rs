//! Seals of runs: histories store marks in place of secrets.
//!
//! An interrupted run needs its secrets, but a reader of its history must not see them. So an entry contains a mark
//! instead of each secret. The journal stores the values of the marks separately until the run has finished; after
//! that, only the marks remain.
//!
//! A mark is U+FDD0, the number of the secret, U+FDD1. Both are noncharacters for internal use by programs (Unicode 16,
//! section 23.7). A noncharacter in foreign text becomes a mark without a number.
//!
//! A [`SealedEntry`] knows its foreign texts. A [`LiveSeal`] seals the entries of a run in progress. A live seal hides
//! the secrets of the run, and every secret of the daemon that an entry contains, including secrets learned later.

use std::collections::BTreeSet;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use steplatch_access::{MASK, Redactor, hideable_lines, hides_in_names, rename_fields};
use steplatch_ids::RunId;
use steplatch_store::Record;
use steplatch_workflow::{Definition, Event, filtered_forms, secret_variable};

use crate::engine_state::Engine;

const MARK_START: char = '\u{FDD0}';
const MARK_END: char = '\u{FDD1}';

/// Fields of an entry that may hold foreign text. All other text is the daemon's own and contains a secret only by
/// chance; a mark there could make the entry unreadable after the deletion of the values.
const FOREIGN_FIELDS: [&str; 22] = [
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
    "match_text",
    "groups",
    "input_text",
    "screens",
    "items",
    "proposal",
    // Name of a branch.
    "name",
];

/// The secrets of one run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seal {
    secrets: Vec<String>,
    /// Names of fields that hold secrets of any length: variables that the contract declares as secret.
    names: Vec<String>,
}

impl Seal {
    /// Returns a seal with these secrets, in this order.
    pub(crate) fn with_secrets(secrets: Vec<String>) -> Self {
        Self { secrets, names: Vec::new() }
    }

    /// Returns the seal for a run of `definition`.
    pub(crate) fn with_definition(self, definition: &Definition) -> Self {
        let contract = definition.arguments().iter().chain(definition.return_values());
        let secret = contract.filter(|variable| variable.is_secret());
        let names = secret.map(|variable| variable.name().to_owned()).chain(definition.secrets().map(secret_variable));
        Self { names: names.collect(), ..self }
    }

    /// Hides the variables that are secret by their names.
    pub(crate) fn hide_named(&self, variables: &mut Map<String, Value>) {
        for name in &self.names {
            if let Some(value) = variables.get_mut(name).filter(|value| !value.is_null()) {
                *value = MASK.into();
            }
        }
    }

    /// Returns all known secrets, oldest first.
    pub(crate) fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// Learns a secret, line by line, and in the forms that filters write. Returns the new forms.
    pub(crate) fn learn(&mut self, secret: &str) -> Vec<String> {
        let before = self.secrets.len();
        if !secret.is_empty()
            && hideable_lines(secret).next().is_none()
            && !self.secrets.iter().any(|known| known == secret)
        {
            // The secret is too short to search for in texts. Hide it only in the field with its name.
            self.secrets.push(secret.to_owned());
            return Vec::new();
        }
        for line in hideable_lines(secret) {
            for form in std::iter::once(line.to_owned()).chain(filtered_forms(line)) {
                if !self.secrets.contains(&form) {
                    self.secrets.push(form);
                }
            }
        }
        self.secrets[before..].to_vec()
    }

    /// Returns whether `text` contains a searchable secret.
    pub(crate) fn hides_some_of(&self, text: &str) -> bool {
        self.searchable_secrets().any(|(_, secret)| text.contains(secret))
    }

    /// Returns the stored form of an entry.
    pub(crate) fn close(&self, entry: &impl Serialize) -> String {
        if self.secrets.is_empty() {
            let text = serde_json::to_string(entry).expect("an entry contains only JSON");
            if !text.contains(MARK_START) {
                return text;
            }
        }
        self.seal_entry(serde_json::to_value(entry).expect("an entry contains only JSON"))
    }

    /// Returns the secrets that are long enough for a search in texts, with their numbers.
    fn searchable_secrets(&self) -> impl Iterator<Item = (usize, &String)> {
        self.secrets.iter().enumerate().filter(|(_, secret)| hideable_lines(secret).next().is_some())
    }

    fn seal_entry(&self, mut entry: Value) -> String {
        if let Value::Object(fields) = &mut entry {
            for (name, value) in fields {
                match name.as_str() {
                    "outcome" | "answer" | "otherwise" => self.close_fields(value),
                    _ if FOREIGN_FIELDS.contains(&name.as_str()) => self.close_in(value),
                    _ => {}
                }
            }
        }
        entry.to_string()
    }

    fn close_fields(&self, value: &mut Value) {
        if let Value::Object(fields) = value {
            let foreign = fields.iter_mut().filter(|(name, _)| FOREIGN_FIELDS.contains(&name.as_str()));
            foreign.for_each(|(_, value)| self.close_in(value));
        }
    }

    /// Hides the secrets in `text`.
    pub(crate) fn close_text(&self, text: &mut String) {
        if text.contains(MARK_START) || self.hides_some_of(text) {
            *text = seal_text(text, || self.searchable_secrets());
        }
    }

    /// Hides the secrets in `text`, if present.
    pub(crate) fn close_if(&self, text: Option<&mut String>) {
        text.into_iter().for_each(|text| self.close_text(text));
    }

    /// Hides the secrets in every text of these fields, and in their names by the rule of [`hides_in_names`].
    pub(crate) fn close_all(&self, fields: &mut Map<String, Value>) {
        fields.values_mut().for_each(|field| self.close_in(field));
        rename_fields(fields, |name| self.sealed_name(name));
    }

    /// Returns the stored form of a field name, if it differs from the name.
    fn sealed_name(&self, name: &str) -> Option<String> {
        let hidden = || self.searchable_secrets().filter(|(_, secret)| hides_in_names(secret));
        let changes = name.contains(MARK_START) || hidden().any(|(_, secret)| name.contains(secret));
        changes.then(|| seal_text(name, hidden))
    }

    /// Hides the secrets in every text of a value, and in the names of fields by the rule of [`hides_in_names`].
    pub(crate) fn close_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.close_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.close_in(item)),
            Value::Object(fields) => {
                for (name, field) in &mut *fields {
                    let number = field
                        .as_str()
                        .filter(|_| self.names.contains(name))
                        .and_then(|value| self.secrets.iter().position(|secret| secret == value));
                    match number {
                        Some(number) => *field = mark(Some(number)).into(),
                        None => self.close_in(field),
                    }
                }
                rename_fields(fields, |name| self.sealed_name(name));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns the entry stored as `text`, in JSON; a mark without a known value appears as hidden.
    pub(crate) fn open(&self, text: String) -> String {
        if !has_marks(&text) {
            return text;
        }
        let mut unsealed = String::with_capacity(text.len());
        let mut remaining = text.as_str();
        while let Some((before, tail)) = remaining.split_once(MARK_START) {
            unsealed.push_str(before);
            let is_mark =
                |number: &str| number.len() <= MAX_NUMBER_DIGITS && number.bytes().all(|byte| byte.is_ascii_digit());
            // An older daemon stored the text of a program unchanged.
            let Some((number, after)) = tail.split_once(MARK_END).filter(|(number, _)| is_mark(number)) else {
                unsealed.push(MARK_START);
                remaining = tail;
                continue;
            };
            if number.is_empty() {
                unsealed.push(MARK_START);
            } else {
                match number.parse().ok().and_then(|number: usize| self.secrets.get(number)) {
                    Some(secret) => unsealed.push_str(&in_json(secret)),
                    None => unsealed.push_str(MASK),
                }
            }
            remaining = after;
        }
        unsealed.push_str(remaining);
        unsealed
    }
}

/// Returns whether a stored entry has marks in place of secrets.
pub(crate) fn has_marks(text: &str) -> bool {
    text.contains(MARK_START)
}

/// Replaces numbered secrets with marks. Works in one pass, and so does not search in marks. Of two secrets at one
/// position, replaces the longer, so that no part of it remains.
fn seal_text<'a, S: Iterator<Item = (usize, &'a String)>>(text: &str, secrets: impl Fn() -> S) -> String {
    let mut closed = String::with_capacity(text.len());
    let mut remaining = text;
    while let Some(character) = remaining.chars().next() {
        let matching = secrets().filter(|(_, secret)| remaining.starts_with(secret.as_str()));
        if let Some((number, secret)) = matching.max_by_key(|(_, secret)| secret.len()) {
            closed.push_str(&mark(Some(number)));
            remaining = &remaining[secret.len()..];
            continue;
        }
        if character == MARK_START {
            closed.push_str(&mark(None));
        } else {
            closed.push(character);
        }
        remaining = &remaining[character.len_utf8()..];
    }
    closed
}

/// Maximum digits of the number in a mark.
const MAX_NUMBER_DIGITS: usize = 9;

/// An entry that knows which of its texts are foreign: not written by this program.
pub(crate) trait SealedEntry: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Returns the entry in JSON with marks in place of the secrets in every foreign text. It stays readable without
    /// the secrets.
    fn sealed_text(&self, seal: &Seal) -> String;
}

/// Entries of machines identify their foreign texts by field names.
impl SealedEntry for Event {
    fn sealed_text(&self, seal: &Seal) -> String {
        seal.close(self)
    }
}

/// The seal of a run in progress.
#[derive(Debug, Default)]
pub(crate) struct LiveSeal {
    seal: Seal,
    /// Number of secrets of the daemon at the last search of all entries.
    searched: u64,
    /// Number of secrets stored with the run.
    stored: usize,
}

/// Entries in stored form, and further changes to store.
#[derive(Debug)]
pub(crate) struct SealedEntries {
    pub(crate) texts: Vec<String>,
    /// Earlier entries that contain secrets which the daemon learned later.
    pub(crate) redacted: Vec<(u64, String)>,
    /// True if the run now has secrets that the journal does not store with it.
    pub(crate) has_learned: bool,
}

impl LiveSeal {
    /// Returns the seal of a new run.
    pub(crate) fn new(seal: Seal) -> Self {
        Self { seal, searched: 0, stored: 0 }
    }

    /// Returns the seal of a run that another daemon left. Registers its secrets with the daemon.
    pub(crate) fn recover(seal: Seal, daemon: &Redactor) -> Self {
        seal.secrets().iter().for_each(|secret| daemon.add(secret));
        let stored = seal.secrets().len();
        Self { seal, searched: 0, stored }
    }

    pub(crate) fn seal(&self) -> &Seal {
        &self.seal
    }

    /// Returns whether `value` contains a secret of the run.
    pub(crate) fn hides(&self, value: &Value) -> bool {
        let mut closed = value.clone();
        self.seal.close_in(&mut closed);
        closed != *value
    }

    /// Seals the new entries of `run` (after number `last`). `own` are the secrets of the run. Other secrets of the
    /// daemon that an entry contains become secrets of the run.
    pub(crate) async fn close<E: SealedEntry>(
        &mut self,
        shared: &Engine,
        run: &RunId,
        last: u64,
        entries: &[E],
        own: &BTreeSet<String>,
    ) -> SealedEntries {
        for secret in own.iter().filter(|secret| hideable_lines(secret).next().is_some()) {
            self.learn(&shared.secrets, secret);
        }
        // The daemon may learn more secrets during this call. The next call searches for them.
        let searched = shared.secrets.learned_since(u64::MAX).1;
        let mut texts: Vec<String> = entries.iter().map(plain).collect();
        let known = shared.secrets.known();
        let found: Vec<String> = known.into_iter().filter(|secret| contains_secret(secret, &texts)).collect();
        found.iter().for_each(|secret| self.learn(&shared.secrets, secret));
        let redacted = if last > 0 {
            self.redacted::<E>(shared, run, searched).await
        } else {
            // The search above covered all existing entries.
            self.searched = searched;
            Vec::new()
        };
        for (text, entry) in texts.iter_mut().zip(entries) {
            if text.contains(MARK_START) || !self.seal.secrets.is_empty() {
                *text = entry.sealed_text(&self.seal);
            }
        }
        let has_learned = self.stored < self.seal.secrets.len();
        self.stored = self.seal.secrets.len();
        SealedEntries { texts, redacted, has_learned }
    }

    /// Learns a secret of the run and registers it with the daemon.
    pub(crate) fn learn(&mut self, daemon: &Redactor, secret: &str) {
        for form in self.seal.learn(secret) {
            daemon.add(&form);
        }
    }

    /// Returns the earlier entries that contain secrets which the daemon has learned since the last search, in their
    /// new stored form. Afterwards, the entries count as searched for the first `searched` secrets.
    async fn redacted<E: SealedEntry>(&mut self, shared: &Engine, run: &RunId, searched: u64) -> Vec<(u64, String)> {
        let (new_secrets, _) = shared.secrets.learned_since(self.searched);
        if new_secrets.is_empty() {
            self.searched = searched;
            return Vec::new();
        }
        let records = match shared.journal.read(run, 1).await {
            Ok(records) => records,
            Err(error) => {
                tracing::error!(%run, %error, "failed to search the entries of a run for a secret; the daemon \
                     retries");
                return Vec::new();
            }
        };
        self.searched = searched;
        let seal = self.seal.clone();
        let (found, redacted) = shared.run_blocking(move || redact::<E>(seal, &new_secrets, records)).await;
        found.iter().for_each(|secret| self.learn(&shared.secrets, secret));
        redacted
    }
}

/// Returns the `new_secrets` secrets that an entry contains, and every entry that changes once the seal knows them.
fn redact<E: SealedEntry>(
    mut seal: Seal,
    new_secrets: &[String],
    records: Vec<Record>,
) -> (Vec<String>, Vec<(u64, String)>) {
    let unsealed_texts: Vec<String> = records.iter().map(|record| seal.open(record.text.clone())).collect();
    let found: Vec<String> =
        new_secrets.iter().filter(|secret| contains_secret(secret, &unsealed_texts)).cloned().collect();
    found.iter().for_each(|secret| drop(seal.learn(secret)));
    if seal.secrets.is_empty() {
        return (found, Vec::new());
    }
    // New secrets come last, so the existing marks keep their numbers.
    let redacted = records.into_iter().zip(unsealed_texts).filter_map(|(record, unsealed_texts)| {
        let entry: E = serde_json::from_str(&unsealed_texts).ok()?;
        let (before, text) = (plain(&entry), entry.sealed_text(&seal));
        // An entry of an older daemon without secrets stays the same.
        (text != before && text != record.text).then_some((record.seq, text))
    });
    let redacted = redacted.collect();
    (found, redacted)
}

fn plain(entry: &impl Serialize) -> String {
    serde_json::to_string(entry).expect("an entry contains only JSON")
}

/// Returns whether one of these JSON strings contains a secret, or its form after a filter.
fn contains_secret(secret: &str, texts: &[String]) -> bool {
    let mut forms = std::iter::once(secret.to_owned()).chain(filtered_forms(secret)).map(|form| in_json(&form));
    forms.any(|form| texts.iter().any(|text| text.contains(&form)))
}

fn mark(number: Option<usize>) -> String {
    let number = number.map(|number| number.to_string()).unwrap_or_default();
    format!("{MARK_START}{number}{MARK_END}")
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
    fn short_secret_is_hidden_in_a_field_of_its_name() {
        let mut seal = Seal { names: vec!["PIN".to_owned()], ..Seal::default() };
        assert!(seal.learn("917").is_empty(), "a short secret is not searched for elsewhere");
        let entry = json!({"event": "started", "variables": {"PIN": "917", "N": "917", "list": ["917"]}});
        let stored = seal.close(&entry);
        assert_eq!(serde_json::from_str::<Value>(&seal.open(stored.clone())).unwrap(), entry);
        let masked: Value = serde_json::from_str(&Seal::default().open(stored)).unwrap();
        assert_eq!(masked["variables"], json!({"PIN": MASK, "N": "917", "list": ["917"]}));
    }

    #[test]
    fn entry_hides_its_secrets_and_opens_with_the_key() {
        let mut seal = Seal::default();
        assert_eq!(seal.learn("hun\"ter2\n"), ["hun\"ter2", "\"hun\\\"ter2\""]);
        assert_eq!(
            seal.learn("hun\"ter2-and-more").len(),
            3,
            "the secret is learned unchanged, as JSON and as a pattern"
        );
        assert!(
            seal.learn("hun\"ter2").is_empty() && seal.learn("abc").is_empty(),
            "known secrets and short secrets add no new form"
        );
        let entry = json!({
            "event": "state_entered",
            "params": {"input_text": "hun\"ter2-and-more\n", "also": ["x hun\"ter2", 7]},
            "outcome": {"kind": "hun\"ter2", "result": {"screen": "\u{FDD0}0\u{FDD1}"}},
        });
        let stored = seal.close(&entry);
        assert!(!stored.contains("-and-more"));
        assert_eq!(serde_json::from_str::<Value>(&seal.open(stored.clone())).unwrap(), entry);
        let masked: Value = serde_json::from_str(&Seal::default().open(stored)).unwrap();
        assert_eq!(masked["params"], json!({"input_text": format!("{MASK}\n"), "also": [format!("x {MASK}"), 7]}));
        assert_eq!(masked["outcome"], entry["outcome"], "printed text is never taken for a mark");
    }

    #[test]
    fn answer_of_a_dialogue_hides_its_secrets() {
        let mut seal = Seal::default();
        seal.learn("hunter2");
        let answer = steplatch_workflow::DialogueAnswer {
            rule: 0,
            match_text: "hunter2?".to_owned(),
            groups: Map::from_iter([("1".to_owned(), "hunter2".into())]),
            since: Some(7),
            input_text: "say hunter2\n".to_owned(),
            keys: Vec::new(),
            secret: false,
        };
        let step = "run_0123456789abcdef/a/1".parse().unwrap();
        let stored = seal.close(&Event::QuestionAnswered { at: steplatch_workflow::Timestamp(1), step, answer });
        assert!(!stored.contains("hunter2"), "{stored}");
    }

    #[test]
    fn secrets_in_field_names_are_hidden() {
        let mut seal = Seal::default();
        seal.learn("hun-ter2");
        seal.learn("output");
        let entry = json!({
            "event": "started",
            "params": {"of hun-ter2": {"hun-ter2": 1}, "output": "output", "\u{FDD0}0\u{FDD1}": 2},
        });
        let stored = seal.close(&entry);
        assert!(!stored.contains("hun-ter2"), "{stored}");
        assert_eq!(serde_json::from_str::<Value>(&seal.open(stored.clone())).unwrap(), entry);
        let masked: Value = serde_json::from_str(&Seal::default().open(stored)).unwrap();
        let params = json!({format!("of {MASK}"): {MASK: 1}, "output": MASK, "\u{FDD0}0\u{FDD1}": 2});
        assert_eq!(masked["params"], params);
    }

    #[derive(Debug, Clone, PartialEq, Serialize, serde::Deserialize)]
    struct LogLine {
        text: String,
    }

    impl SealedEntry for LogLine {
        fn sealed_text(&self, seal: &Seal) -> String {
            let mut line = self.clone();
            seal.close_text(&mut line.text);
            plain(&line)
        }
    }

    fn stored(texts: &[&str]) -> Vec<Record> {
        let text = |text: &&str| plain(&LogLine { text: (*text).to_owned() });
        let record = |(index, text)| Record { seq: index as u64 + 1, version: 1, text };
        texts.iter().map(text).enumerate().map(record).collect()
    }

    #[test]
    fn entry_with_a_secret_learned_later_is_redacted() {
        let mut seal = Seal::default();
        seal.learn("first secret");
        let mut records = stored(&["nothing", "an older \u{FDD0} one", "both: 'sec\"ond' and first secret"]);
        records.push(Record {
            seq: 4,
            version: 2,
            text: seal.close(&json!({"error": "first secret"})).replace("error", "said"),
        });
        let (found, redacted) =
            redact::<LogLine>(seal.clone(), &["sec\"ond".to_owned(), "elsewhere".to_owned()], records);
        assert_eq!(found, ["sec\"ond"]);
        found.iter().for_each(|secret| drop(seal.learn(secret)));
        let redacted: Vec<(u64, String)> = redacted
            .into_iter()
            .map(|(seq, text)| {
                assert!(!text.contains("first secret") && !text.contains("ond"), "{text}");
                let output: LogLine = serde_json::from_str(&seal.open(text)).unwrap();
                (seq, output.text)
            })
            .collect();
        let reported = [(2, "an older \u{FDD0} one".to_owned()), (3, "both: 'sec\"ond' and first secret".to_owned())];
        assert_eq!(redacted, reported, "entries without secrets, or sealed earlier, are unchanged");
    }

    #[test]
    fn secret_is_found_in_every_form_written_by_filters() {
        let texts = [plain(&json!({"command": "echo 'it'\\''s me'", "quoted": "\"a\\\"b\""}))];
        assert!(contains_secret("it's me", &texts) && contains_secret("a\"b", &texts));
        assert!(!contains_secret("command it", &texts));
    }

    proptest! {
        #[test]
        fn sealed_text_opens_unchanged(
            secrets in prop::collection::vec("[a\"\\\\\u{FDD0}0-3]{4,6}", 0..3),
            texts in prop::collection::vec("[a\"\\\\\u{FDD0}\u{FDD1}0-3]{0,20}", 1..5),
        ) {
            let mut seal = Seal::default();
            for secret in &secrets {
                seal.learn(secret);
            }
            let named: Map<String, Value> = texts.iter().map(|text| (text.clone(), text.clone().into())).collect();
            let entry = json!({"variables": texts, "params": named, "event": "started"});
            let opened = seal.open(seal.close(&entry));
            prop_assert_eq!(serde_json::from_str::<Value>(&opened).unwrap(), entry);
        }
    }
}
