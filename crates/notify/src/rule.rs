//! Rules of the settings file: one table `[[notify]]` each.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steplatch_clock::Span;
use steplatch_remote::{Filter, Token, is_loopback};
use toml::Table;

use crate::occasion::{Kind, Occasion};
use crate::quiet_hours::QuietHours;

/// Keys of a rule, with their descriptions.
pub const KEYS: &[(&str, &str)] = &[
    ("name", "name of the rule"),
    ("when", "occasions of notifications"),
    ("workflows", "globs of the workflows; all without it"),
    ("group", "name of the group that gates name as approvers; without it, the rule concerns all gates"),
    ("terminals", "globs of the terminals; all without it"),
    ("min_wait", "minimum time that something waits for a person before its notification"),
    ("quiet", "hours of each day without notifications, in local time"),
    ("remind_after", "time until a second notification"),
    ("include", "additional content of messages: prompt"),
    ("webhook", "address that receives CloudEvents"),
    ("secret", "source of the secret that signs requests of the webhook"),
    ("ntfy", "address of a topic of ntfy"),
    ("token", "source of the access token for ntfy"),
    ("command", "program with arguments"),
    ("desktop", "notifications of the desktop"),
    ("terminal", "notifications of the terminals in which attach, ui and watch run"),
];

/// Keys of the ways. A rule has one of these keys.
const WAYS: [&str; 5] = ["webhook", "ntfy", "command", "desktop", "terminal"];

/// A rule: the occasions, and the way to notify of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Unique name.
    pub name: String,
    /// Kinds of occasions.
    pub when: Vec<Kind>,
    /// Globs of the workflows.
    pub workflows: Vec<String>,
    /// Group of approvers. The rule concerns only gates that name the group.
    pub group: Option<String>,
    /// Globs of the terminals.
    pub terminals: Vec<String>,
    /// Minimum age of a lasting occasion.
    pub min_wait: Span,
    /// Hours without notifications.
    pub quiet: Option<QuietHours>,
    /// Time until a second notification.
    pub remind_after: Option<Span>,
    /// True if messages include the prompts of gates.
    pub include_prompt: bool,
    /// The way of delivery.
    pub way: Way,
}

/// A way to reach a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// Requests to an address.
    Webhook {
        /// The address.
        url: String,
        /// The secret that signs requests.
        secret: Option<Token>,
    },
    /// A topic of ntfy.
    Ntfy {
        /// The address of the topic.
        url: String,
        /// The access token.
        token: Option<Token>,
    },
    /// A program with its arguments.
    Command(Vec<String>),
    /// The notifications of the desktop.
    Desktop,
    /// The terminals of people's front-ends.
    Terminal,
}

impl Way {
    /// Returns the key of the way.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Webhook { .. } => "webhook",
            Self::Ntfy { .. } => "ntfy",
            Self::Command(_) => "command",
            Self::Desktop => "desktop",
            Self::Terminal => "terminal",
        }
    }

    /// Returns the destination for people. Omits the path of an address, because the path is often a secret.
    #[must_use]
    pub fn destination(&self) -> String {
        match self {
            Self::Webhook { url, .. } | Self::Ntfy { url, .. } => match reqwest::Url::parse(url) {
                Ok(url) => format!("{}/…", url.origin().ascii_serialization()),
                Err(_) => String::new(),
            },
            Self::Command(arguments) => arguments.first().cloned().unwrap_or_default(),
            Self::Desktop | Self::Terminal => String::new(),
        }
    }

    /// Returns whether a failed delivery is repeated.
    #[must_use]
    pub fn repeats(&self) -> bool {
        matches!(self, Self::Webhook { .. } | Self::Ntfy { .. })
    }

    /// Returns whether a delivery can be withdrawn.
    #[must_use]
    pub fn withdraws(&self) -> bool {
        matches!(self, Self::Webhook { .. } | Self::Desktop | Self::Terminal)
    }

    /// Returns the source of the way's token or secret, with its key.
    #[must_use]
    pub fn token(&self) -> Option<(&'static str, &Token)> {
        match self {
            Self::Webhook { secret, .. } => secret.as_ref().map(|secret| ("secret", secret)),
            Self::Ntfy { token, .. } => token.as_ref().map(|token| ("token", token)),
            Self::Command(_) | Self::Desktop | Self::Terminal => None,
        }
    }

    fn default_rule_name(&self) -> String {
        let name = match self {
            Self::Webhook { url, .. } => {
                reqwest::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned))
            }
            Self::Command(arguments) => arguments.first().and_then(|first| first.rsplit('/').next()).map(str::to_owned),
            Self::Ntfy { .. } | Self::Desktop | Self::Terminal => None,
        };
        name.filter(|name| is_name(name)).unwrap_or_else(|| self.name().to_owned())
    }
}

/// An invalid part of a rule, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidRule(pub String);

impl Rule {
    /// Reads the rule number `number` (from 1). A rule without a name is called like its destination, with a number if
    /// an earlier rule has that name. Ignores unknown keys.
    ///
    /// # Errors
    /// All problems of the table.
    pub fn read(table: &Table, number: usize, is_taken: impl Fn(&str) -> bool) -> Result<Self, Vec<InvalidRule>> {
        let mut reader = Reader { table, number, problems: Vec::new() };
        let name: Option<String> = reader.read("name");
        let when = reader.read_kinds();
        let workflows = reader.read_globs("workflows");
        let group: Option<String> = reader.read("group");
        if group.as_ref().is_some_and(|group| !is_name(group)) {
            reader.add("group", "must be 1 to 64 letters, digits, '.', '_' or '-'");
        }
        let terminals = reader.read_globs("terminals");
        let min_wait = reader.read("min_wait").unwrap_or_default();
        let quiet = reader.read("quiet");
        let remind_after = reader.read("remind_after");
        let included: Vec<String> = reader.read("include").unwrap_or_default();
        if let Some(unknown) = included.iter().find(|part| *part != "prompt") {
            reader.add("include", &format!("has '{unknown}'; the only value is prompt"));
        }
        let way = reader.read_way();
        if let Some(name) = &name {
            if !is_name(name) {
                reader.add("name", "must be 1 to 64 letters, digits, '.', '_' or '-'");
            } else if is_taken(name) {
                reader.add("name", &format!("'{name}' is the name of an earlier rule"));
            }
        }
        match way {
            Some(way) if reader.problems.is_empty() => {
                let name = name.unwrap_or_else(|| {
                    let default = way.default_rule_name();
                    let mut names = std::iter::once(default.clone()).chain((2..).map(|n| format!("{default}-{n}")));
                    names.find(|name| !is_taken(name)).expect("a later number is free")
                });
                let include_prompt = !included.is_empty();
                Ok(Self { name, when, workflows, group, terminals, min_wait, quiet, remind_after, include_prompt, way })
            }
            _ => Err(reader.problems),
        }
    }

    /// Returns whether the rule concerns an occasion. `workflows` concerns runs only, and `terminals` terminals only.
    #[must_use]
    pub fn concerns(&self, occasion: &Occasion) -> bool {
        let kind = occasion.kind;
        let is_repaired = kind == Kind::RunRepaired && self.when.contains(&Kind::RunCompleted);
        let admits = |globs: &[String], names: [&Option<String>; 2]| {
            let filter = Filter::new(globs);
            globs.is_empty() || names.into_iter().flatten().any(|name| filter.admits(name))
        };
        let subject = &occasion.subject;
        (self.when.contains(&kind) || is_repaired)
            && (kind != Kind::Gate || self.group.as_ref().is_none_or(|group| subject.approvers.contains_key(group)))
            && (!kind.is_about_run() || admits(&self.workflows, [&subject.workflow, &None]))
            && (!kind.is_about_terminal() || admits(&self.terminals, [&subject.terminal, &subject.terminal_id]))
    }

    /// Returns the minimum age of an occasion before its announcement.
    #[must_use]
    pub fn delay(&self, occasion: &Occasion) -> Duration {
        let escalation = self.group.as_ref().and_then(|group| occasion.subject.approvers.get(group));
        self.min_wait.0.max(Duration::from_secs(escalation.copied().unwrap_or_default()))
    }

    /// Returns the value of a key for the list of settings.
    #[must_use]
    pub fn value(&self, key: &str) -> Value {
        let token = |name| self.way.token().filter(|(key, _)| *key == name).map(|(_, token)| token.reference());
        let seconds = |span: Span| span.0.as_secs();
        match key {
            "when" => self.when.iter().map(|kind| kind.name()).collect(),
            "workflows" => json!(self.workflows),
            "group" => json!(self.group),
            "terminals" => json!(self.terminals),
            "min_wait" => json!(format!("{}s", seconds(self.min_wait))),
            "remind_after" => json!(self.remind_after.map(|span| format!("{}s", seconds(span)))),
            "quiet" => json!(self.quiet.map(|hours| hours.to_string())),
            "include" => {
                if self.include_prompt {
                    json!(["prompt"])
                } else {
                    json!([])
                }
            }
            "secret" | "token" => json!(token(key)),
            key if key != self.way.name() => Value::Null,
            "desktop" | "terminal" => json!(true),
            _ => json!(self.way.destination()),
        }
    }
}

fn is_name(name: &str) -> bool {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(is_name_byte)
}

/// Reader of a table that collects the problems.
struct Reader<'a> {
    table: &'a Table,
    number: usize,
    problems: Vec<InvalidRule>,
}

impl Reader<'_> {
    fn add(&mut self, key: &str, problem: &str) {
        self.problems.push(InvalidRule(format!("{key} of notify rule {} {problem}", self.number)));
    }

    fn read<T: DeserializeOwned>(&mut self, key: &str) -> Option<T> {
        match self.table.get(key)?.clone().try_into() {
            Ok(value) => Some(value),
            Err(error) => {
                let message = error.message().trim();
                let verb = if message.starts_with("must") { "" } else { "is invalid: " };
                self.add(key, &format!("{verb}{message}"));
                None
            }
        }
    }

    fn read_kinds(&mut self) -> Vec<Kind> {
        let known = Kind::ALL.map(Kind::name).join(", ");
        let names: Option<Vec<String>> = self.read("when");
        let names = names.unwrap_or_default();
        if names.is_empty() && self.problems.iter().all(|problem| !problem.0.starts_with("when")) {
            self.add("when", &format!("is missing; it is a list of occasions: {known}"));
        }
        let find = |name: &String| Kind::ALL.into_iter().find(|kind| kind.name() == name);
        for unknown in names.iter().filter(|name| find(name).is_none()) {
            self.add("when", &format!("has the unknown occasion '{unknown}'; occasions are {known}"));
        }
        names.iter().filter_map(find).collect()
    }

    fn read_globs(&mut self, key: &str) -> Vec<String> {
        let globs: Vec<String> = self.read(key).unwrap_or_default();
        if globs.len() > 100 || globs.iter().any(|glob| glob.trim().is_empty() || glob.chars().count() > 200) {
            self.add(key, "must be at most 100 globs of 1 to 200 characters");
        }
        globs
    }

    fn read_way(&mut self) -> Option<Way> {
        let used: Vec<&str> = WAYS.into_iter().filter(|way| self.table.contains_key(*way)).collect();
        let [way] = used[..] else {
            let found = if used.is_empty() { "none".to_owned() } else { used.join(" and ") };
            let ways = WAYS.join(", ");
            let problem = format!("notify rule {} must have one of {ways}, and has {found}", self.number);
            self.problems.push(InvalidRule(problem));
            return None;
        };
        for (key, owner) in [("secret", "webhook"), ("token", "ntfy")] {
            if owner != way && self.table.contains_key(key) {
                self.add(key, &format!("belongs to {owner}, and the rule has {way}"));
            }
        }
        match way {
            "webhook" => Some(Way::Webhook { url: self.read_url("webhook")?, secret: self.read_token("secret") }),
            "ntfy" => Some(Way::Ntfy { url: self.read_url("ntfy")?, token: self.read_token("token") }),
            "command" => {
                let arguments: Vec<String> = self.read("command")?;
                if arguments.first().is_none_or(String::is_empty) || arguments.iter().any(|text| text.contains('\0')) {
                    self.add("command", "must be a program and its arguments, such as [\"notify\", \"me\"]");
                }
                Some(Way::Command(arguments))
            }
            flag => {
                if !self.read::<bool>(flag)? {
                    self.add(flag, "must be true; remove the rule instead");
                }
                Some(if flag == "desktop" { Way::Desktop } else { Way::Terminal })
            }
        }
    }

    /// Reads an address. A message on its way must not be readable by others.
    fn read_url(&mut self, key: &str) -> Option<String> {
        let text: String = self.read(key)?;
        let is_allowed = reqwest::Url::parse(&text).is_ok_and(|url| {
            let is_secure = url.scheme() == "https" || url.scheme() == "http" && is_loopback(&url);
            is_secure && url.username().is_empty() && url.password().is_none() && url.host_str().is_some()
        });
        if !is_allowed {
            self.add(key, "must be an address with https, or with http on this computer, without credentials");
        }
        Some(text)
    }

    fn read_token(&mut self, key: &str) -> Option<Token> {
        let text: String = self.read(key)?;
        // The text may be the token itself, so the message does not contain it.
        Token::parse(&text).map_err(|error| self.add(key, &error.to_string())).ok()
    }
}

#[cfg(test)]
mod tests;
