//! Secrets: `[secrets.NAME]` tables of the user's configuration file, which name the origin of a value.

use std::path::Path;

use serde_json::json;
use steplatch_daemon::{SecretKeep, SecretOrigin, SecretSetting};
use steplatch_notify::Span;
use steplatch_secret::{SOURCE_FORMS, SecretSource, SourceError};

use super::{Origin, Problem, SettingRow};

/// Key of the secrets in the file, and prefix of their keys in the list of settings.
pub(super) const SECRETS: &str = "secrets";

/// Keys of a secret, with their descriptions.
const KEYS: [(&str, &str); 2] = [
    ("from", "origin of the value"),
    ("keep", "time for which a value is used again: once, run, or a time such as 10m"),
];

/// Origin of a value that a person types.
const ASK: &str = "ask";

/// A secret, with the origin of its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfiguredSecret {
    /// The secret.
    pub(crate) setting: SecretSetting,
    is_keep_set: bool,
    origin: Origin,
}

impl ConfiguredSecret {
    /// Returns the settings of the secret for a list of settings. The value is not among them.
    pub(crate) fn rows(&self) -> impl Iterator<Item = SettingRow> {
        let from = match &self.setting.from {
            SecretOrigin::Source(source) => json!(source.reference()),
            SecretOrigin::Person => json!(ASK),
        };
        let keep = match self.setting.keep {
            SecretKeep::Once => json!("once"),
            SecretKeep::Run => json!("run"),
            SecretKeep::For(time) => json!(format!("{}s", time.as_secs())),
        };
        let keep_origin = if self.is_keep_set { self.origin.clone() } else { Origin::Default };
        let values = [(from, self.origin.clone()), (keep, keep_origin)];
        KEYS.into_iter().zip(values).map(|((key, description), (value, origin))| SettingRow {
            name: format!("{SECRETS}.{}.{key}", self.setting.name),
            value,
            origin,
            description,
        })
    }
}

/// The secrets of the configuration, and the problems in it.
#[derive(Default)]
pub(super) struct SecretSettings {
    pub(super) secrets: Vec<ConfiguredSecret>,
    pub(super) problems: Vec<Problem>,
    pub(super) unknown_keys: Vec<Problem>,
}

impl SecretSettings {
    /// Reads the value of [`SECRETS`] in the file.
    pub(super) fn read_file(&mut self, path: &Path, value: &toml::Value) {
        let to_problem = |problem: String| Problem { location: path.display().to_string(), problem };
        let Some(tables) = value.as_table() else {
            return self.problems.push(to_problem(format!("a secret is a table [{SECRETS}.NAME] with from")));
        };
        for (name, value) in tables {
            let Some(table) = value.as_table() else {
                // The value may be the secret itself, so the message does not contain it.
                self.problems.push(to_problem(format!("secret '{name}' is a table [{SECRETS}.{name}] with from")));
                continue;
            };
            if !is_name(name) {
                let problem = format!("the name of secret '{name}' must be 1 to 64 letters, digits, '_' or '-'");
                self.problems.push(to_problem(problem));
            }
            for key in table.keys().filter(|key| KEYS.iter().all(|(known, _)| known != key)) {
                let hint = super::suggestion(key, KEYS.iter().map(|(known, _)| *known));
                let hint = if hint.is_empty() { "; keys are from, keep".to_owned() } else { hint };
                self.unknown_keys.push(to_problem(format!("'{key}' is not a setting of secret '{name}'{hint}")));
            }
            let from = read_origin(table.get("from"));
            let keep = read_keep(table.get("keep"));
            match (from, keep) {
                (Ok(from), Ok(keep)) => self.secrets.push(ConfiguredSecret {
                    setting: SecretSetting { name: name.clone(), from, keep },
                    is_keep_set: table.contains_key("keep"),
                    origin: Origin::File(path.to_owned()),
                }),
                (from, keep) => {
                    let problems = [("from", from.err()), ("keep", keep.err())];
                    let problems = problems.into_iter().filter_map(|(key, problem)| Some((key, problem?)));
                    self.problems.extend(
                        problems.map(|(key, problem)| to_problem(format!("{key} of secret '{name}' {problem}"))),
                    );
                }
            }
        }
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=64).contains(&name.len())
        && name.bytes().all(is_part)
        // A number in braces is a repetition in a pattern.
        && !name.starts_with('-')
        && name.bytes().any(|byte| !byte.is_ascii_digit())
}

/// Reads the origin of a value. The text may be the value itself, so the error does not contain it.
fn read_origin(value: Option<&toml::Value>) -> Result<SecretOrigin, String> {
    match value.map(toml::Value::as_str) {
        None => Err(format!("is missing; it is {SOURCE_FORMS} or {ASK}")),
        Some(Some(ASK)) => Ok(SecretOrigin::Person),
        Some(Some(text)) => match SecretSource::parse(text) {
            Ok(source) => Ok(SecretOrigin::Source(source)),
            Err(SourceError::Form) => Err(format!("must be {SOURCE_FORMS} or {ASK}; not the secret itself")),
            Err(error) => Err(error.to_string()),
        },
        Some(None) => Err(format!("must be text: {SOURCE_FORMS} or {ASK}")),
    }
}

fn read_keep(value: Option<&toml::Value>) -> Result<SecretKeep, String> {
    match value.map(|value| value.as_str().map(str::trim)) {
        None => Ok(SecretKeep::default()),
        Some(Some("once")) => Ok(SecretKeep::Once),
        Some(Some("run")) => Ok(SecretKeep::Run),
        Some(text) => match text.and_then(|text| text.parse::<Span>().ok()) {
            Some(Span(time)) if !time.is_zero() => Ok(SecretKeep::For(time)),
            _ => Err("must be once, run, or a number with a unit, at most 30 days, such as 90s, 10m or 8h".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read, read_problems};

    #[test]
    fn secrets_are_listed_with_their_origins() {
        let text = "[secrets.deploy-token]\nfrom = 'command:op read op://x/y'\nkeep = '10m'\n\
                    [secrets.PIN]\nfrom = 'ask'\n[secrets.k]\nfrom = 'env:K'\nkeep = 'once'\nkep = 1\n";
        let settings = read(text, &[]).expect("valid settings");
        let rows: Vec<String> = settings
            .secrets
            .iter()
            .flat_map(super::ConfiguredSecret::rows)
            .map(|row| format!("{} = {} ({})", row.name, row.value, row.origin))
            .collect();
        assert_eq!(
            rows,
            [
                r#"secrets.PIN.from = "ask" (/c.toml)"#,
                r#"secrets.PIN.keep = "run" (default)"#,
                r#"secrets.deploy-token.from = "command:op read op://x/y" (/c.toml)"#,
                r#"secrets.deploy-token.keep = "600s" (/c.toml)"#,
                r#"secrets.k.from = "env:K" (/c.toml)"#,
                r#"secrets.k.keep = "once" (/c.toml)"#,
            ]
        );
        let unknown: Vec<String> = settings.unknown.iter().map(ToString::to_string).collect();
        assert_eq!(unknown, ["/c.toml: 'kep' is not a setting of secret 'k'; did you mean 'keep'?"]);
    }

    #[test]
    fn invalid_secrets_are_named_and_not_shown() {
        let text = "[secrets]\nplain = 'hunter22'\n[secrets.a]\nkeep = 'ever'\n[secrets.b]\nfrom = 'hunter22'\n\
                    [secrets.c]\nfrom = 'file:key'\nkeep = '0s'\n[secrets.'x y']\nfrom = 'ask'\n[secrets.5]\nfrom = 3\n";
        let problems = read_problems(text, &[]);
        let forms = super::SOURCE_FORMS;
        let mut expected = vec![
            "/c.toml: secret 'plain' is a table [secrets.plain] with from".to_owned(),
            format!("/c.toml: from of secret 'a' is missing; it is {forms} or ask"),
            "/c.toml: keep of secret 'a' must be once, run, or a number with a unit, at most 30 days, such as 90s, 10m or 8h"
                .to_owned(),
            format!("/c.toml: from of secret 'b' must be {forms} or ask; not the secret itself"),
            "/c.toml: from of secret 'c' has a relative path; use an absolute path, or a path that begins with ~/".to_owned(),
            "/c.toml: keep of secret 'c' must be once, run, or a number with a unit, at most 30 days, such as 90s, 10m or 8h"
                .to_owned(),
            "/c.toml: the name of secret 'x y' must be 1 to 64 letters, digits, '_' or '-'".to_owned(),
            "/c.toml: the name of secret '5' must be 1 to 64 letters, digits, '_' or '-'".to_owned(),
            format!("/c.toml: from of secret '5' must be text: {forms} or ask"),
        ];
        expected.sort();
        let mut problems = problems;
        problems.sort();
        assert_eq!(problems, expected);
        assert_eq!(
            read_problems("secrets = 'hunter22'\n", &[]),
            ["/c.toml: a secret is a table [secrets.NAME] with from"]
        );
    }
}
