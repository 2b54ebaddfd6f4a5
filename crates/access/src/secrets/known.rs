//! The known secrets, with the scopes of their hiding.
//!
//! A search considers only the secrets of its scope. A remote host may register many false secrets. These must not
//! affect local text.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use steplatch_ids::TerminalId;
use steplatch_terminal::SecretText;

use super::encodings::encodings;
use super::hideable_lines;

/// Maximum number of secrets with hidden encodings. Each secret has up to nine, and a search includes all of them.
const MAX_ENCODED_SECRETS: usize = 1000;

/// Maximum number of secrets of a remote host with hidden encodings.
const MAX_HOST_ENCODED_SECRETS: usize = 100;

/// Maximum number of secrets of a remote host's open terminals. Its terminal host keeps no more.
const MAX_HOST_SECRETS: usize = 1000;

/// Maximum length of a secret of a remote host, in bytes.
const MAX_HOST_SECRET_BYTES: usize = 4 << 10;

/// Maximum total length of the secrets of a remote host, in bytes.
const MAX_HOST_BYTES: usize = 1 << 20;

/// The scope of a local secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    /// All text.
    Everywhere,
    /// The text of one terminal.
    Terminal(TerminalId),
}

/// The secrets of one scope.
#[derive(Debug, Default)]
struct SecretSet {
    /// Secrets in order of arrival, the newest last.
    arrived: Vec<Arc<str>>,
    known: HashSet<Arc<str>>,
    /// Secrets with their encodings, longest first, so that a secret that contains another one is masked completely.
    values: Arc<Vec<String>>,
}

impl SecretSet {
    /// Adds a secret, with its encodings if `is_encoded`. Returns false for a known secret.
    fn add(&mut self, text: &str, is_encoded: bool) -> bool {
        if self.known.contains(text) {
            return false;
        }
        let text: Arc<str> = text.into();
        self.arrived.push(text.clone());
        self.known.insert(text.clone());
        let encodings = if is_encoded { encodings(&text) } else { Vec::new() };
        let values = Arc::make_mut(&mut self.values);
        for text in encodings.into_iter().chain([text.as_ref().to_owned()]) {
            let index = values.partition_point(|value| value.len() >= text.len());
            values.insert(index, text);
        }
        true
    }
}

/// The secrets of a remote host.
#[derive(Debug, Default)]
struct HostSecrets {
    everywhere: SecretSet,
    terminals: HashMap<TerminalId, SecretSet>,
    len: usize,
    bytes: usize,
    /// True if the host has exceeded its limits.
    hides_all: bool,
}

/// All known secrets.
#[derive(Debug, Default)]
pub(super) struct KnownSecrets {
    everywhere: SecretSet,
    terminals: HashMap<TerminalId, SecretSet>,
    /// Number of local secrets.
    len: usize,
    /// Number of secrets typed by tools.
    pub(super) typed: usize,
    hosts: HashMap<String, HostSecrets>,
    /// The hosts of remote terminals.
    terminal_hosts: HashMap<TerminalId, String>,
}

impl KnownSecrets {
    /// Returns the number of local secrets.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of secrets of a scope.
    pub(super) fn len_in(&self, scope: &Scope) -> usize {
        self.set(scope).map_or(0, |set| set.arrived.len())
    }

    /// Returns whether a scope has a secret.
    pub(super) fn has(&self, scope: &Scope, text: &str) -> bool {
        self.set(scope).is_some_and(|set| set.known.contains(text))
    }

    fn set(&self, scope: &Scope) -> Option<&SecretSet> {
        match scope {
            Scope::Everywhere => Some(&self.everywhere),
            Scope::Terminal(terminal) => self.terminals.get(terminal),
        }
    }

    /// Remembers a local secret. Returns false for a known secret.
    pub(super) fn keep_secret(&mut self, scope: Scope, text: &str) -> bool {
        let is_encoded = self.len < MAX_ENCODED_SECRETS;
        let set = match scope {
            Scope::Everywhere => &mut self.everywhere,
            Scope::Terminal(terminal) => self.terminals.entry(terminal).or_default(),
        };
        let is_new = set.add(text, is_encoded);
        self.len += usize::from(is_new);
        is_new
    }

    /// Returns whether a secret of a remote host is already hidden, alone or with all other text.
    pub(super) fn has_for_host(&self, host: &str, secret: &SecretText) -> bool {
        let Some(secrets) = self.hosts.get(host) else { return false };
        let set = match &secret.terminal {
            None => Some(&secrets.everywhere),
            Some(terminal) => secrets.terminals.get(terminal),
        };
        secrets.hides_all || set.is_some_and(|set| hideable_lines(&secret.text).all(|line| set.known.contains(line)))
    }

    /// Remembers a secret of a remote host. Beyond the limits, all later text of the host is hidden.
    pub(super) fn add_for_host(&mut self, host: &str, secret: SecretText) {
        if !self.hosts.contains_key(host) {
            self.hosts.insert(host.to_owned(), HostSecrets::default());
        }
        let Some(secrets) = self.hosts.get_mut(host).filter(|secrets| !secrets.hides_all) else { return };
        for line in hideable_lines(&secret.text) {
            let (bytes, is_encoded) = (secrets.bytes + line.len(), secrets.len < MAX_HOST_ENCODED_SECRETS);
            let set = match &secret.terminal {
                None => &mut secrets.everywhere,
                Some(terminal) => secrets.terminals.entry(terminal.clone()).or_default(),
            };
            if set.known.contains(line) {
                continue;
            }
            if secrets.len >= MAX_HOST_SECRETS || line.len() > MAX_HOST_SECRET_BYTES || bytes > MAX_HOST_BYTES {
                tracing::warn!(
                    host,
                    "a remote host registered more secrets than its limits allow: all further text of its terminals \
                     is hidden"
                );
                *secrets = HostSecrets { hides_all: true, ..HostSecrets::default() };
                return;
            }
            set.add(line, is_encoded);
            (secrets.len, secrets.bytes) = (secrets.len + 1, bytes);
        }
    }

    /// Records that a terminal is on a remote host.
    pub(super) fn place(&mut self, terminal: &TerminalId, host: &str) {
        self.terminal_hosts.insert(terminal.clone(), host.to_owned());
    }

    /// Forgets the secrets of a closed terminal of a remote host.
    pub(super) fn forget(&mut self, terminal: &TerminalId) {
        let host_secrets = self.terminal_hosts.get(terminal).and_then(|host| self.hosts.get_mut(host));
        if let Some(secrets) = host_secrets
            && let Some(set) = secrets.terminals.remove(terminal)
        {
            secrets.len -= set.arrived.len();
            secrets.bytes -= set.arrived.iter().map(|text| text.len()).sum::<usize>();
        }
    }

    fn host_secrets(&self, terminal: Option<&TerminalId>) -> Option<&HostSecrets> {
        self.hosts.get(self.terminal_hosts.get(terminal?)?)
    }

    /// Returns whether all text of a terminal is hidden.
    pub(super) fn hides_all(&self, terminal: Option<&TerminalId>) -> bool {
        self.host_secrets(terminal).is_some_and(|secrets| secrets.hides_all)
    }

    /// Returns the sets whose secrets are hidden in the text of a terminal, or in other text if `terminal` is `None`.
    fn sets(&self, terminal: Option<&TerminalId>) -> impl Iterator<Item = &SecretSet> {
        let host_secrets = self.host_secrets(terminal);
        let local_set = terminal.and_then(|terminal| self.terminals.get(terminal));
        let remote_set = terminal.and_then(|terminal| host_secrets?.terminals.get(terminal));
        let sets = [Some(&self.everywhere), local_set, host_secrets.map(|secrets| &secrets.everywhere), remote_set];
        sets.into_iter().flatten().filter(|set| !set.arrived.is_empty())
    }

    /// Returns the secrets that are hidden everywhere, in order of arrival.
    pub(super) fn arrived_everywhere(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.everywhere.arrived.iter().map(AsRef::as_ref)
    }

    /// Returns the secrets that are hidden in the text of a terminal, without their encodings.
    pub(super) fn known(&self, terminal: Option<&TerminalId>) -> Vec<String> {
        self.sets(terminal).flat_map(|set| &set.arrived).map(|text| text.as_ref().to_owned()).collect()
    }

    /// Returns the secrets that are hidden in the text of a terminal, with their encodings, the longest first.
    pub(super) fn values(&self, terminal: Option<&TerminalId>) -> Arc<Vec<String>> {
        let mut sets = self.sets(terminal);
        let Some(first) = sets.next() else { return Arc::default() };
        let Some(second) = sets.next() else { return first.values.clone() };
        let mut merged = first.values.as_ref().clone();
        merged.extend(second.values.iter().cloned());
        merged.extend(sets.flat_map(|set| set.values.iter().cloned()));
        // A stable sort is fast for few sorted runs.
        merged.sort_by_key(|text| std::cmp::Reverse(text.len()));
        Arc::new(merged)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use steplatch_host::MachineSecretSink as _;
    use steplatch_terminal::{Picture, Rgb, Run, Style};

    use super::super::{MASK, RedactedStream, Redactor};
    use super::*;

    /// Returns the secrets of a daemon with one terminal on `box`, one on `other` and one local terminal.
    fn secrets() -> (Redactor, [TerminalId; 3]) {
        let (secrets, terminals) = (Redactor::default(), [(); 3].map(|()| TerminalId::random()));
        secrets.place(&terminals[0], "box");
        secrets.place(&terminals[1], "other");
        (secrets, terminals)
    }

    fn secret_for(terminal: Option<&TerminalId>, text: &str) -> SecretText {
        SecretText { terminal: terminal.cloned(), text: text.to_owned() }
    }

    #[test]
    fn remote_secrets_are_masked_only_in_terminals_of_their_host() {
        let (secrets, [on_box, on_other, local]) = secrets();
        secrets.hide_on("box", secret_for(None, "DELETE"));
        for terminal in [&on_box, &on_other, &local] {
            secrets.hide_on("box", secret_for(Some(terminal), "EVERYTHING"));
        }
        let question = "DELETE EVERYTHING?".to_owned();
        assert_eq!(secrets.within(&on_box).masked(question.clone()), format!("{MASK} {MASK}?"));
        for secrets_elsewhere in [secrets.clone(), secrets.within(&on_other), secrets.within(&local)] {
            assert_eq!(secrets_elsewhere.masked(question.clone()), question);
            let mut reply = json!({"question": question});
            secrets_elsewhere.mask_in(&mut reply);
            assert_eq!(reply, json!({"question": question}));
            assert!(secrets_elsewhere.known().is_empty());
        }
        assert_eq!(secrets.learned_since(0), (Vec::new(), 0), "no journal is searched for remote secrets");
        // Local secrets are hidden on remote hosts, too.
        secrets.add("hunter22");
        assert_eq!(secrets.within(&on_box).masked("hunter22 DELETE".to_owned()), format!("{MASK} {MASK}"));
    }

    #[test]
    fn secret_that_precedes_its_terminal_is_masked() {
        let (secrets, terminal) = (Redactor::default(), TerminalId::random());
        secrets.hide_on("box", secret_for(Some(&terminal), "hunter22"));
        assert_eq!(secrets.within(&terminal).masked("hunter22".to_owned()), "hunter22");
        secrets.place(&terminal, "box");
        assert_eq!(secrets.within(&terminal).masked("hunter22".to_owned()), MASK);
    }

    #[test]
    fn host_beyond_its_limits_has_only_its_own_text_hidden() {
        let words = |count: usize, length: usize| -> Vec<String> {
            (0..count).map(|number| format!("{}{number}", "x".repeat(length))).collect()
        };
        for (case, texts) in [
            ("51,000 words", words(51_000, 8)),
            ("one secret more than the limit", words(MAX_HOST_SECRETS + 1, 8)),
            ("a long secret", words(1, MAX_HOST_SECRET_BYTES + 1)),
            ("200 secrets of a megabyte", words(200, 1 << 20)),
            ("more bytes than the limit", words(300, 4000)),
        ] {
            let (secrets, [on_box, on_other, local]) = secrets();
            texts.iter().for_each(|text| secrets.hide_on("box", secret_for(None, text)));
            let within = secrets.within(&on_box);
            let text = || "text".to_owned();
            assert_eq!(within.masked(text()), MASK, "{case}");
            assert_eq!(within.masked_screen(text()), MASK, "{case}");
            assert_eq!(within.masked_portion("text", 1..3), MASK, "{case}");
            assert_eq!(within.masked_fragment(text()), MASK, "{case}");
            assert_eq!(within.masked_cut(text(), Some(text())), (MASK.to_owned(), Some(MASK.to_owned())), "{case}");
            assert_eq!(within.masked_group(Some(text()), "text"), Some(MASK.to_owned()), "{case}");
            assert_eq!(within.masked(String::new()), "", "{case}");
            let run = Run { col: 0, cols: 4, wide: false, text: text(), style: Style::default(), link: Some(text()) };
            let (foreground, background) = (Rgb(0, 0, 0), Rgb(0, 0, 0));
            let rows = vec![vec![run]];
            let picture = Picture { cols: 80, rows, cursor: None, foreground, background, palette: Vec::new() };
            let masked = within.masked_picture(picture);
            assert_eq!((masked.rows[0][0].text.as_str(), &masked.rows[0][0].link), ("••••", &None), "{case}");
            let mut stream = RedactedStream::new(Arc::new(within));
            assert_eq!(stream.pass(b"te\x1b[1mxt\x1b]0;text\x07"), "••\x1b[1m••\x1b]••••••\x07".as_bytes(), "{case}");
            for secrets_elsewhere in [secrets.clone(), secrets.within(&on_other), secrets.within(&local)] {
                assert_eq!(secrets_elsewhere.masked(text()), "text", "{case}");
                assert!(secrets_elsewhere.values().is_empty(), "{case}");
            }
            secrets.add("hunter22");
            for secrets_elsewhere in [secrets.clone(), secrets.within(&on_other), secrets.within(&local)] {
                assert_eq!(secrets_elsewhere.masked("hunter22".to_owned()), MASK, "{case}: local secrets are hidden");
            }
            let secrets = secrets.known.read();
            let host_secrets = &secrets.hosts["box"];
            assert!(host_secrets.hides_all && host_secrets.everywhere.values.is_empty(), "no secrets are kept: {case}");
        }
    }

    #[test]
    fn closed_terminals_make_room_for_other_secrets() {
        let secrets = Redactor::default();
        for _ in 0..3 * MAX_HOST_SECRETS {
            let terminal = TerminalId::random();
            secrets.place(&terminal, "box");
            secrets.hide_on("box", secret_for(Some(&terminal), "hunter22"));
            assert_eq!(secrets.within(&terminal).masked("a hunter22".to_owned()), format!("a {MASK}"));
            secrets.forget(&terminal);
        }
        let secrets = secrets.known.read();
        assert_eq!((secrets.hosts["box"].len, secrets.hosts["box"].bytes), (0, 0));
    }
}
