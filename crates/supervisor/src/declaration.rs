//! The table of a service.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum number of restarts in a row, unless the declaration has another one.
pub const DEFAULT_MAX_RESTARTS: u32 = 5;

/// Time in which a service becomes ready, unless the declaration has another one.
const DEFAULT_READY_TIMEOUT: Duration = Duration::from_secs(60);

/// Time in which a service ends after the request, unless the declaration has another one.
const DEFAULT_STOP_GRACE: Duration = Duration::from_secs(10);

/// Maximum of all times, in seconds.
const MAX_SECONDS: f64 = 86_400.0;

/// The keys of a service.
const KEYS: [&str; 11] = [
    "command",
    "description",
    "directory",
    "env",
    "host",
    "ready",
    "restart",
    "max_restarts",
    "after",
    "stop",
    "stalled_after",
];

/// Maximum length of a name, in characters.
const MAX_NAME_CHARS: usize = 64;

/// A declaration that is not a service, as the end of a sentence about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidService(String);

/// The rule for a service that has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestartPolicy {
    /// It stays ended.
    Never,
    /// It is started again unless its exit code was 0.
    #[default]
    OnFailure,
    /// It is started again.
    Always,
}

/// The condition for a service to be ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadyCondition {
    /// Its output matches a regular expression.
    Pattern(String),
    /// One of its processes listens on a TCP port.
    Port(u16),
    /// A request to an address gets a status from 200 to 299.
    Url(String),
}

/// The condition for a service to be ready, with its time limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readiness {
    /// The condition.
    pub condition: ReadyCondition,
    /// Time limit.
    pub timeout: Duration,
}

/// The way to end a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopMethod {
    /// Keys to press, such as `ctrl-c`. A signal is sent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Name of the signal, such as `TERM`.
    pub signal: String,
    /// Time after which its processes are killed.
    pub grace: Duration,
}

impl Default for StopMethod {
    fn default() -> Self {
        Self { keys: Vec::new(), signal: "TERM".to_owned(), grace: DEFAULT_STOP_GRACE }
    }
}

/// A service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServiceDeclaration {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Working directory, relative to the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Variables in addition to those of the client. Values may refer to secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Remote host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The condition to be ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Readiness>,
    /// The rule for its end.
    #[serde(default)]
    pub restart: RestartPolicy,
    /// Maximum number of restarts in a row.
    pub max_restarts: u32,
    /// Services that are ready before it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// The way to end it.
    #[serde(default)]
    pub stop: StopMethod,
    /// Time without output after which it is reported as stalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_after: Option<Duration>,
}

impl ServiceDeclaration {
    /// Reads the table of the service `name`.
    ///
    /// # Errors
    /// If the name or a value is invalid, with the key.
    pub fn parse(name: &str, table: &Value) -> Result<Self, InvalidService> {
        let invalid = |reason: String| InvalidService(reason);
        let is_valid_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.len() <= MAX_NAME_CHARS
            && name.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '-' | '_'));
        if !is_valid_name {
            return Err(invalid(
                "the name of a service is a letter, then letters, digits, '-' and '_', at most 64".to_owned(),
            ));
        }
        let table = Table::read("", table)?;
        table.check_keys(&KEYS)?;
        let ready = table.get("ready").map(read_readiness).transpose()?;
        let host = table.text("host")?;
        if host.is_some() && matches!(ready, Some(Readiness { condition: ReadyCondition::Port(_), .. })) {
            return Err(invalid(
                "ready.port is for services of this machine; for a remote host, give ready.pattern or ready.url"
                    .to_owned(),
            ));
        }
        Ok(Self {
            command: read_command(&table)?,
            description: table.text("description")?,
            directory: table.text("directory")?,
            environment: table.texts_by_name("env")?,
            host,
            ready,
            restart: match table.text("restart")?.as_deref() {
                None => RestartPolicy::default(),
                Some("never") => RestartPolicy::Never,
                Some("on_failure") => RestartPolicy::OnFailure,
                Some("always") => RestartPolicy::Always,
                Some(other) => {
                    return Err(invalid(format!("restart must be never, on_failure or always, not '{other}'")));
                }
            },
            max_restarts: match table.get("max_restarts") {
                None => DEFAULT_MAX_RESTARTS,
                Some(value) => value
                    .as_u64()
                    .and_then(|count| u32::try_from(count).ok())
                    .filter(|count| *count <= 1000)
                    .ok_or_else(|| invalid("max_restarts must be a number from 0 to 1000".to_owned()))?,
            },
            after: table.texts("after")?,
            stop: table.get("stop").map(read_stop).transpose()?.unwrap_or_default(),
            stalled_after: table.seconds("stalled_after")?,
        })
    }

    /// Returns the keys in which two declarations differ.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let fields = |declaration: &Self| match serde_json::to_value(declaration) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let (ours, theirs) = (fields(self), fields(other));
        let names: std::collections::BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        names.into_iter().filter(|name| ours.get(*name) != theirs.get(*name)).cloned().collect()
    }
}

fn read_command(table: &Table<'_>) -> Result<Vec<String>, InvalidService> {
    let command = match table.get("command") {
        Some(Value::String(line)) if !line.trim().is_empty() => {
            vec!["bash".to_owned(), "-c".to_owned(), line.clone()]
        }
        Some(Value::Array(_)) => table.texts("command")?,
        _ => Vec::new(),
    };
    if command.is_empty() {
        return Err(InvalidService(
            "command must be a command line, or a list of a program and its arguments".to_owned(),
        ));
    }
    Ok(command)
}

fn read_readiness(value: &Value) -> Result<Readiness, InvalidService> {
    let table = Table::read("ready.", value)?;
    table.check_keys(&["pattern", "port", "url", "timeout"])?;
    let port = |value: &Value| value.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
    let condition = match (table.text("pattern")?, table.get("port"), table.text("url")?) {
        (Some(pattern), None, None) => ReadyCondition::Pattern(pattern),
        (None, Some(value), None) => ReadyCondition::Port(
            port(value).ok_or_else(|| InvalidService("ready.port must be a number from 1 to 65535".to_owned()))?,
        ),
        (None, None, Some(url)) if url.starts_with("http://") || url.starts_with("https://") => {
            ReadyCondition::Url(url)
        }
        (None, None, Some(_)) => {
            return Err(InvalidService("ready.url must begin with http:// or https://".to_owned()));
        }
        _ => return Err(InvalidService("ready needs exactly one of pattern, port and url".to_owned())),
    };
    Ok(Readiness { condition, timeout: table.seconds("timeout")?.unwrap_or(DEFAULT_READY_TIMEOUT) })
}

fn read_stop(value: &Value) -> Result<StopMethod, InvalidService> {
    let table = Table::read("stop.", value)?;
    table.check_keys(&["keys", "signal", "grace"])?;
    let default = StopMethod::default();
    let keys = match table.get("keys") {
        Some(Value::String(key)) => vec![key.clone()],
        _ => table.texts("keys")?,
    };
    let signal = table.text("signal")?;
    if signal.is_some() && !keys.is_empty() {
        return Err(InvalidService("stop needs keys or a signal, not both".to_owned()));
    }
    let grace = table.seconds("grace")?.unwrap_or(default.grace);
    Ok(StopMethod { keys, signal: signal.unwrap_or(default.signal), grace })
}

/// A table of a declaration, with its place in errors.
struct Table<'v> {
    place: &'static str,
    fields: &'v Map<String, Value>,
}

impl<'v> Table<'v> {
    fn read(place: &'static str, value: &'v Value) -> Result<Self, InvalidService> {
        let name = place.trim_end_matches('.');
        match value {
            Value::Object(fields) => Ok(Self { place, fields }),
            _ if name.is_empty() => Err(InvalidService("a service must be a table".to_owned())),
            _ => Err(InvalidService(format!("{name} must be a table"))),
        }
    }

    fn check_keys(&self, known: &[&str]) -> Result<(), InvalidService> {
        match self.fields.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => {
                Err(InvalidService(format!("unknown key '{}{key}'; known are {}", self.place, known.join(", "))))
            }
            None => Ok(()),
        }
    }

    fn get(&self, key: &str) -> Option<&'v Value> {
        self.fields.get(key)
    }

    fn wrong(&self, key: &str, expected: &str) -> InvalidService {
        InvalidService(format!("{}{key} must be {expected}", self.place))
    }

    fn text(&self, key: &str) -> Result<Option<String>, InvalidService> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
            Some(_) => Err(self.wrong(key, "a text")),
        }
    }

    fn texts(&self, key: &str) -> Result<Vec<String>, InvalidService> {
        let wrong = || self.wrong(key, "a list of texts");
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
            }
            Some(_) => Err(wrong()),
        }
    }

    fn texts_by_name(&self, key: &str) -> Result<BTreeMap<String, String>, InvalidService> {
        let wrong = || self.wrong(key, "a table of texts");
        let Some(value) = self.get(key) else { return Ok(BTreeMap::new()) };
        let fields = value.as_object().ok_or_else(wrong)?;
        fields
            .iter()
            .map(|(name, value)| Ok((name.clone(), value.as_str().map(str::to_owned).ok_or_else(wrong)?)))
            .collect()
    }

    fn seconds(&self, key: &str) -> Result<Option<Duration>, InvalidService> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let seconds = value.as_f64().filter(|seconds| *seconds > 0.0 && *seconds <= MAX_SECONDS);
        seconds
            .map(|seconds| Some(Duration::from_secs_f64(seconds)))
            .ok_or_else(|| self.wrong(key, "a number of seconds"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_table_is_read() {
        let table = json!({
            "command": "npm run dev", "directory": "web", "env": {"PORT": "3000"},
            "ready": {"port": 3000, "timeout": 5}, "restart": "always", "max_restarts": 2, "after": ["db"],
            "stop": {"keys": "ctrl-c", "grace": 2}, "stalled_after": 300,
        });
        let service = ServiceDeclaration::parse("web", &table).unwrap();
        assert_eq!(service.command, ["bash", "-c", "npm run dev"]);
        let ready = Readiness { condition: ReadyCondition::Port(3000), timeout: Duration::from_secs(5) };
        assert_eq!(
            (service.ready.clone(), service.restart, service.max_restarts),
            (Some(ready), RestartPolicy::Always, 2)
        );
        assert_eq!(
            (service.stop.keys.clone(), service.stop.grace),
            (vec!["ctrl-c".to_owned()], Duration::from_secs(2))
        );
        let stored: ServiceDeclaration = serde_json::from_value(json!(service)).unwrap();
        assert_eq!(stored, service);
        let other = ServiceDeclaration { max_restarts: 3, ..service.clone() };
        assert_eq!(service.differences(&other), ["max_restarts"]);
        let list = ServiceDeclaration::parse("db", &json!({"command": ["postgres", "-D", "data"]})).unwrap();
        assert_eq!((list.command.len(), list.max_restarts, list.stop), (3, 5, StopMethod::default()));
    }

    #[test]
    fn mistakes_are_named() {
        for (name, table, error) in [
            ("1st", json!({"command": "x"}), "the name of a service"),
            ("web", json!("x"), "a service must be a table"),
            ("web", json!({}), "command must be"),
            ("web", json!({"command": []}), "command must be"),
            ("web", json!({"command": "x", "comand": 1}), "unknown key 'comand'; known are command"),
            ("web", json!({"command": "x", "ready": {"prot": 1}}), "unknown key 'ready.prot'"),
            ("web", json!({"command": "x", "ready": {}}), "exactly one of"),
            ("web", json!({"command": "x", "ready": {"port": 1, "url": "http://x"}}), "exactly one of"),
            ("web", json!({"command": "x", "ready": {"port": 70000}}), "ready.port must be"),
            ("web", json!({"command": "x", "ready": {"url": "localhost"}}), "ready.url must begin"),
            (
                "web",
                json!({"command": "x", "ready": {"port": 1, "timeout": 0}}),
                "ready.timeout must be a number of seconds",
            ),
            ("web", json!({"command": "x", "restart": "sometimes"}), "not 'sometimes'"),
            ("web", json!({"command": "x", "after": "db"}), "after must be a list"),
            ("web", json!({"command": "x", "env": {"A": 1}}), "env must be a table of texts"),
            ("web", json!({"command": "x", "stop": {"keys": "ctrl-c", "signal": "TERM"}}), "not both"),
            ("web", json!({"command": "x", "host": "box", "ready": {"port": 1}}), "for services of this machine"),
        ] {
            let reason = ServiceDeclaration::parse(name, &table).unwrap_err().to_string();
            assert!(reason.contains(error), "{table}: {reason}");
        }
    }
}
