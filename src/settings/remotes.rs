//! Remote services: tables of the user's file, and one service from the environment.
//!
//! Services are settings of the user and not of a project, because their workflows are tools for every client of the
//! daemon. `steplatch_remote` defines the keys of a service and their limits.

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Value, json};
use steplatch_remote::{Config, KEYS, RawValue};

use super::{Origin, Problem, SettingRow};

/// Key of the services in the file, and prefix of their keys in the list of settings.
pub(super) const REMOTE: &str = "remote";

/// Key of a service's name, in addition to [`KEYS`].
const NAME: &str = "name";

/// A service, with the origin of its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remote {
    /// The configuration.
    pub(crate) config: Config,
    /// Names of the keys with a value in the configuration.
    set_keys: Vec<&'static str>,
    /// The file or the environment.
    origin: Origin,
}

impl Remote {
    /// Returns the settings of the service for a list of settings.
    pub(crate) fn rows(&self) -> impl Iterator<Item = SettingRow> {
        KEYS.iter().map(|key| SettingRow {
            name: format!("{REMOTE}.{}.{}", self.config.name, key.name),
            value: value(&self.config, key.name),
            origin: match (&self.origin, self.set_keys.contains(&key.name)) {
                (_, false) => Origin::Default,
                (Origin::File(path), true) => Origin::File(path.clone()),
                (_, true) => Origin::Environment(key.variable),
            },
            description: key.description,
        })
    }
}

/// Returns the value of a key as JSON.
fn value(config: &Config, key: &str) -> Value {
    let milliseconds = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    match key {
        "enabled" => json!(config.enabled),
        "base_url" => json!(config.base_url),
        "discovery_mcp" => json!(config.discovery_mcp),
        "token" => json!(config.token.as_ref().map(steplatch_remote::Token::reference)),
        "discovery_interval" => json!(config.discovery_interval.map_or(0, milliseconds)),
        "execution_timeout" => json!(milliseconds(config.execution_timeout)),
        "max_concurrent_executions" => json!(config.max_concurrent_executions),
        "filter_patterns" => json!(config.filter_patterns),
        "status_check_interval" => json!(milliseconds(config.status_check_interval)),
        "retry_attempts" => json!(config.retry_attempts),
        _ => Value::Null,
    }
}

/// The services of the configuration, and the problems in it.
#[derive(Default)]
pub(super) struct RemoteSettings {
    pub(super) remotes: Vec<Remote>,
    pub(super) problems: Vec<Problem>,
    pub(super) unknown_keys: Vec<Problem>,
}

impl RemoteSettings {
    /// Reads the value of [`REMOTE`] in the file.
    pub(super) fn read_file(&mut self, path: &Path, value: &toml::Value) {
        let file = path.display().to_string();
        let Some(tables) = super::tables(value) else {
            let problem = super::not_tables_problem("a remote service", REMOTE);
            return self.problems.push(Problem { location: file, problem });
        };
        for (position, table) in tables.into_iter().enumerate() {
            let name = match table.get(NAME) {
                None => name_from_host(table).unwrap_or_else(|| format!("remote-{}", position + 1)),
                Some(toml::Value::String(name)) => name.clone(),
                Some(value) => {
                    let problem =
                        format!("the name of the remote service {} must be a string, not {value}", position + 1);
                    self.problems.push(Problem { location: file.clone(), problem });
                    continue;
                }
            };
            let mut set_keys = Vec::new();
            let mut values = Vec::new();
            for (key, value) in table.iter().filter(|(key, _)| *key != NAME) {
                if let Some(row) = KEYS.iter().find(|row| row.name == key) {
                    set_keys.push(row.name);
                    values.push((row.name, RawValue::from(value)));
                } else {
                    let names = KEYS.iter().map(|key| key.name).chain([NAME]);
                    let problem =
                        format!("'{key}' is not a setting of remote '{name}'{}", super::suggestion(key, names));
                    self.unknown_keys.push(Problem { location: file.clone(), problem });
                }
            }
            match Config::read(&name, values) {
                Ok(config) => self.add(Remote { config, set_keys, origin: Origin::File(path.to_owned()) }, &file),
                Err(invalid) => self.problems.extend(invalid.into_iter().map(|invalid| Problem {
                    location: file.clone(),
                    problem: format!("{} {}", lower_first(&invalid.subject), invalid.problem),
                })),
            }
        }
    }

    /// Reads the service from the environment, if there is one.
    pub(super) fn read_environment(&mut self, variable: impl Fn(&str) -> Option<OsString>) {
        match Config::from_environment(&variable) {
            Ok(None) => {}
            Ok(Some(config)) => {
                let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
                let keys: Vec<_> = KEYS.iter().filter(|key| is_set(key.variable)).collect();
                let variable = keys.first().map_or("the environment", |key| key.variable);
                let set_keys = keys.iter().map(|key| key.name).collect();
                self.add(Remote { config, set_keys, origin: Origin::Environment(variable) }, variable);
            }
            Err(invalid) => self.problems.extend(
                invalid
                    .into_iter()
                    .map(|invalid| Problem { location: invalid.subject, problem: invalid.problem.to_string() }),
            ),
        }
    }

    fn add(&mut self, remote: Remote, location: &str) {
        let name = &remote.config.name;
        if self.remotes.iter().any(|remote| remote.config.name == *name) {
            let problem = format!("two remote services are called '{name}'; give one of them another name");
            return self.problems.push(Problem { location: location.to_owned(), problem });
        }
        self.remotes.push(remote);
    }
}

/// Returns the host in the URL of a service as a name that does not depend on the order of the tables.
fn name_from_host(table: &toml::Table) -> Option<String> {
    let (_, authority) = table.get("base_url")?.as_str()?.split_once("://")?;
    let host = authority.split(['/', ':', '?', '#']).next()?.to_ascii_lowercase();
    let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    ((1..=64).contains(&host.len()) && host.bytes().all(is_host_byte)).then_some(host)
}

/// Returns text with its first letter in lower case.
fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read, read_problems};
    use super::*;

    #[test]
    fn services_are_listed_with_the_source_of_each_value() {
        let text = "\
[[remote]]
name = 'flows'
enabled = true
base_url = 'https://flows.example.com/team/'
token = 'env:FLOWS_TOKEN'
discovery_interval = 60000
filter_patterns = ['deploy*', '!*old']

[[remote]]
base_url = 'http://127.0.0.1:7878'
";
        let environment =
            [("WORKFLOWS_API_BASE_URL", "https://other.example.com"), ("WORKFLOWS_API_TOKEN", "sk-very-secret")];
        let settings = read(text, &environment).unwrap();
        let names: Vec<&str> = settings.remotes.iter().map(|remote| remote.config.name.as_str()).collect();
        assert_eq!(names, ["flows", "127.0.0.1", "default"]);
        let rows: Vec<SettingRow> = settings.remotes.iter().flat_map(Remote::rows).collect();
        let row = |name: &str| {
            let row = rows.iter().find(|row| row.name == name).unwrap();
            (row.value.clone(), row.origin.to_string())
        };
        assert_eq!(row("remote.flows.base_url"), (json!("https://flows.example.com/team"), "/c.toml".into()));
        assert_eq!(row("remote.flows.token"), (json!("env:FLOWS_TOKEN"), "/c.toml".into()));
        assert_eq!(row("remote.flows.discovery_interval"), (json!(60_000), "/c.toml".into()));
        assert_eq!(row("remote.flows.filter_patterns"), (json!(["deploy*", "!*old"]), "/c.toml".into()));
        assert_eq!(row("remote.flows.retry_attempts"), (json!(3), "default".into()));
        assert_eq!(row("remote.default.token"), (json!("in WORKFLOWS_API_TOKEN"), "WORKFLOWS_API_TOKEN".into()));
        assert!(rows.iter().all(|row| !row.value.is_null() || matches!(row.origin, Origin::Default)));
        assert_eq!(rows.len(), 3 * KEYS.len());
        assert_eq!(settings.configuration().remotes.len(), 3);
        assert!(!format!("{settings:?}").contains("sk-very-secret"));
    }

    #[test]
    fn all_problems_with_a_service_are_reported_at_once() {
        let text = "\
[[remote]]
name = 'a b'
enabled = true
token = 'sk-in-clear-text'

[[remote]]
name = 'b'
execution_timeout = 10
base_ur = 'x'
";
        let problems = read_problems(text, &[("WORKFLOWS_ENABLED", "perhaps"), ("WORKFLOW_RETRY_ATTEMPTS", "11")]);
        let all = problems.join("\n");
        assert!(!all.contains("clear-text"), "{all}");
        for part in [
            "/c.toml: the name of remote 'a b' must be 1 to 64 letters",
            "/c.toml: token of remote 'a b' must be env:NAME, file:PATH, keyring:NAME, secret-tool:ATTRIBUTE VALUE …, pass:NAME or command:PROGRAM ARGUMENT …",
            "/c.toml: base_url of remote 'a b' is missing",
            "/c.toml: execution_timeout of remote 'b' is 10, ",
            "WORKFLOWS_ENABLED: is 'perhaps', but must be true or false",
            "WORKFLOW_RETRY_ATTEMPTS: is '11', ",
            "/c.toml: 'base_ur' is not a setting of remote 'b'; did you mean 'base_url'?",
        ] {
            assert!(all.contains(part), "no {part:?} in:\n{all}");
        }
        let twice =
            super::super::tests::read_problems("[[remote]]\nname = 'default'\n", &[("WORKFLOWS_ENABLED", "false")]);
        assert_eq!(
            twice,
            ["WORKFLOWS_ENABLED: two remote services are called 'default'; give one of them another name"]
        );
        let single = super::super::tests::read_problems("[remote]\nenabled = true\n", &[]);
        assert_eq!(single, ["/c.toml: a remote service is a separate table, which begins with [[remote]]"]);
    }

    #[test]
    fn unknown_key_of_a_service_is_reported_and_ignored() {
        let settings = read("[[remote]]\nname = 'a'\nenable = true\n", &[]).unwrap();
        let unknown: Vec<String> = settings.unknown.iter().map(ToString::to_string).collect();
        assert_eq!(unknown, ["/c.toml: 'enable' is not a setting of remote 'a'; did you mean 'enabled'?"]);
        assert!(!settings.remotes[0].config.enabled);
    }
}
