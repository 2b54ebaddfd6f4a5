//! Rules of notifications: `[[notify]]` tables of the user's configuration file. `steplatch_notify` defines their keys.

use std::path::Path;

use serde_json::Value;
use steplatch_notify::{KEYS, Rule};

use super::{Origin, Problem, SettingRow};

/// Key of the rules in the file, and prefix of their keys in the list of settings.
pub(super) const NOTIFY: &str = "notify";

/// A rule, with the origin of its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotifySetting {
    /// The rule.
    pub(crate) rule: Rule,
    /// Names of the keys in the file.
    set_keys: Vec<&'static str>,
    origin: Origin,
}

impl NotifySetting {
    /// Returns the settings of the rule for a list of settings, without those of other ways.
    pub(crate) fn rows(&self) -> impl Iterator<Item = SettingRow> {
        let Self { rule, set_keys, origin } = self;
        KEYS.iter().skip(1).map(|(key, description)| (key, description, rule.value(key))).filter_map(
            move |(key, description, value)| {
                let is_set = set_keys.contains(key);
                let is_listed = is_set || !matches!(value, Value::Null);
                is_listed.then(|| SettingRow {
                    name: format!("{NOTIFY}.{}.{key}", rule.name),
                    value,
                    origin: if is_set { origin.clone() } else { Origin::Default },
                    description,
                })
            },
        )
    }
}

/// The rules of the configuration, and the problems in it.
#[derive(Default)]
pub(super) struct NotifySettings {
    pub(super) rules: Vec<NotifySetting>,
    pub(super) problems: Vec<Problem>,
    pub(super) unknown_keys: Vec<Problem>,
}

impl NotifySettings {
    /// Reads the value of [`NOTIFY`] in the file.
    pub(super) fn read_file(&mut self, path: &Path, value: &toml::Value) {
        let to_problem = |problem: String| Problem { location: path.display().to_string(), problem };
        let Some(tables) = super::tables(value) else {
            return self.problems.push(to_problem(super::not_tables_problem("a rule of notifications", NOTIFY)));
        };
        let names = || KEYS.iter().map(|(key, _)| *key);
        for (position, table) in tables.into_iter().enumerate() {
            let number = position + 1;
            for key in table.keys().filter(|key| names().all(|name| name != *key)) {
                let known = names().collect::<Vec<_>>().join(", ");
                let hint = super::suggestion(key, names());
                let hint = if hint.is_empty() { format!("; keys are {known}") } else { hint };
                let problem = format!("'{key}' is not a setting of notify rule {number}{hint}");
                self.unknown_keys.push(to_problem(problem));
            }
            let is_taken = |name: &str| self.rules.iter().any(|known| known.rule.name == name);
            match Rule::read(table, number, is_taken) {
                Ok(rule) => {
                    let set_keys = names().filter(|name| table.contains_key(*name)).collect();
                    self.rules.push(NotifySetting { rule, set_keys, origin: Origin::File(path.to_owned()) });
                }
                Err(problems) => {
                    self.problems.extend(problems.into_iter().map(|problem| to_problem(problem.to_string())));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read, read_problems};
    use super::*;

    #[test]
    fn rules_are_read_and_listed_without_paths_of_addresses() {
        let text = "[[notify]]\nwhen = ['gate']\nwebhook = 'https://hooks.example.com/T0/secret'\nsecret = 'env:X'\n\
                    [[notify]]\nwhen = ['password']\ndesktop = true\nwhem = 1\nnaem = 'x'\nother_thing = 2\n";
        let settings = read(text, &[]).unwrap();
        assert_eq!(settings.configuration().notifications.len(), 2);
        let rows: Vec<SettingRow> = settings.notifications.iter().flat_map(NotifySetting::rows).collect();
        let row = |name: &str| {
            let row = rows.iter().find(|row| row.name == name).unwrap();
            (row.value.to_string(), row.origin.to_string())
        };
        assert_eq!(
            row("notify.hooks.example.com.webhook"),
            ("\"https://hooks.example.com/…\"".into(), "/c.toml".into())
        );
        assert_eq!(row("notify.hooks.example.com.secret"), ("\"env:X\"".into(), "/c.toml".into()));
        assert_eq!(row("notify.desktop.min_wait"), ("\"0s\"".into(), "default".into()));
        assert!(rows.iter().all(|row| row.name != "notify.desktop.webhook"));
        let unknown: Vec<String> = settings.unknown.iter().map(ToString::to_string).collect();
        for part in [
            "'whem' is not a setting of notify rule 2; did you mean 'when'?",
            "'naem' is not a setting of notify rule 2; did you mean 'name'?",
            "'other_thing' is not a setting of notify rule 2; keys are name, when, workflows",
        ] {
            assert!(unknown.iter().any(|problem| problem.contains(part)), "no {part:?} in {unknown:?}");
        }
    }

    #[test]
    fn problems_of_rules_are_reported_with_the_file() {
        let problems = read_problems("[[notify]]\nwhen = ['gates']\ndesktop = true\n", &[]);
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0].starts_with("/c.toml: when of notify rule 1 has the unknown occasion 'gates'"),
            "{problems:?}"
        );
        assert_eq!(
            read_problems("notify = true\n", &[]),
            ["/c.toml: a rule of notifications is a separate table, which begins with [[notify]]"]
        );
    }
}
