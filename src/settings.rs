//! What can be configured, and where each value comes from.
//!
//! A setting is one row of [`KEYS`]. Its value is the environment's, else that of
//! the user's file (`$XDG_CONFIG_HOME/steplatch/config.toml`, TOML 1.0,
//! <https://toml.io/en/v1.0.0>), else the default. A value that can not be meant
//! is an error that names its place, never silently the default.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use toml::{Table, Value};

/// One thing that can be configured: a whole number.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    /// Table and name in the file, with a dot between.
    pub(crate) name: &'static str,
    /// The variable in the environment.
    pub(crate) variable: &'static str,
    /// What it says.
    pub(crate) about: &'static str,
    default: u64,
    bounds: RangeInclusive<u64>,
}

/// Everything that can be configured.
pub(crate) const KEYS: &[Key] = &[
    Key {
        name: "terminals.most",
        variable: "STEPLATCH_TERMINALS_MOST",
        about: "terminals that may be open at once",
        default: 50,
        bounds: 1..=10_000,
    },
    Key {
        name: "terminals.grace_seconds",
        variable: "STEPLATCH_TERMINALS_GRACE_SECONDS",
        about: "how long a terminal stays readable after its program ended",
        default: 600,
        bounds: 0..=31_536_000,
    },
    Key {
        name: "terminals.idle_seconds",
        variable: "STEPLATCH_TERMINALS_IDLE_SECONDS",
        about: "how long a terminal may be unused before it is closed (0: for ever)",
        default: 0,
        bounds: 0..=31_536_000,
    },
    Key {
        name: "terminals.history_memory_mb",
        variable: "STEPLATCH_TERMINALS_HISTORY_MEMORY_MB",
        about: "memory for the older output of each terminal, compressed",
        default: 16,
        bounds: 1..=4_096,
    },
    Key {
        name: "terminals.history_disk_mb",
        variable: "STEPLATCH_TERMINALS_HISTORY_DISK_MB",
        about: "disk for the output of each that memory has no room for, compressed (0: none)",
        default: 64,
        bounds: 0..=1_048_576,
    },
    Key {
        name: "runs.most",
        variable: "STEPLATCH_RUNS_MOST",
        about: "finished runs that are kept; those that finished first go first",
        default: 1_000,
        bounds: 0..=1_000_000,
    },
    Key {
        name: "runs.days",
        variable: "STEPLATCH_RUNS_DAYS",
        about: "how long a finished run is kept (0: for ever)",
        default: 90,
        bounds: 0..=36_500,
    },
    Key {
        name: "runs.disk_mb",
        variable: "STEPLATCH_RUNS_DISK_MB",
        about: "disk for the histories of all runs; the oldest finished ones give way",
        default: 4_096,
        bounds: 1..=1_048_576,
    },
];

/// The settings in force.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    values: BTreeMap<&'static str, (u64, Origin)>,
    /// What is in the file and means nothing.
    pub(crate) unknown: Vec<String>,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody said otherwise.
    Default,
    /// The file.
    File(PathBuf),
    /// A variable in the environment.
    Environment(&'static str),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File(path) => write!(formatter, "{}", path.display()),
            Self::Environment(variable) => formatter.write_str(variable),
        }
    }
}

/// A configuration that can not be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub(crate) struct BadSetting {
    place: String,
    problem: String,
}

impl Settings {
    /// Reads the settings of this user.
    pub(crate) fn load() -> Result<Self, BadSetting> {
        let path = file();
        let text = match path.as_ref().map(std::fs::read_to_string) {
            Some(Ok(text)) => Some(text),
            Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
                let place = path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
                return Err(BadSetting { place, problem: format!("it can not be read: {error}") });
            }
            _ => None,
        };
        Self::read(path.zip(text), |variable| std::env::var_os(variable))
    }

    fn read(file: Option<(PathBuf, String)>, variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, BadSetting> {
        let mut values: BTreeMap<_, _> = KEYS.iter().map(|key| (key.name, (key.default, Origin::Default))).collect();
        let mut unknown = Vec::new();
        if let Some((path, text)) = file {
            let place = path.display().to_string();
            let table: Table = text.parse().map_err(|error: toml::de::Error| BadSetting {
                place: place.clone(),
                problem: error.to_string().trim_end().to_owned(),
            })?;
            for (name, value) in flat(&table) {
                let Some(key) = KEYS.iter().find(|key| key.name == name) else {
                    unknown.push(format!("{place}: '{name}' is not a setting{}", nearest(&name)));
                    continue;
                };
                let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
                values.insert(key.name, (key.checked(number, &value, &place)?, Origin::File(path.clone())));
            }
        }
        for key in KEYS {
            if let Some(given) = variable(key.variable).filter(|given| !given.is_empty()) {
                let given = given.to_string_lossy();
                let number = key.checked(given.trim().parse().ok(), &given, key.variable)?;
                values.insert(key.name, (number, Origin::Environment(key.variable)));
            }
        }
        Ok(Self { values, unknown })
    }

    /// Returns every setting with its value and where that comes from.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static Key, u64, &Origin)> {
        KEYS.iter().map(|key| {
            let (value, origin) = &self.values[key.name];
            (key, *value, origin)
        })
    }

    fn number(&self, name: &str) -> u64 {
        self.values.get(name).expect("a setting that is asked for is a row of the table").0
    }

    /// Returns which finished runs are kept.
    pub(crate) fn runs(&self) -> steplatch_daemon::KeptRuns {
        let days = self.number("runs.days");
        let time = (days > 0).then(|| Duration::from_secs(days * 86_400));
        let most = usize::try_from(self.number("runs.most")).unwrap_or(usize::MAX);
        steplatch_daemon::KeptRuns { most, time, disk: Some(self.number("runs.disk_mb") << 20) }
    }

    /// What holds for terminals.
    pub(crate) fn terminals(&self) -> steplatch_terminal::Options {
        let size = |name| usize::try_from(self.number(name)).expect("the bounds of a setting fit a machine word");
        steplatch_terminal::Options {
            most: size("terminals.most"),
            grace: Duration::from_secs(self.number("terminals.grace_seconds")),
            idle: Some(self.number("terminals.idle_seconds")).filter(|idle| *idle > 0).map(Duration::from_secs),
            history_budget: size("terminals.history_memory_mb") << 20,
            history_on_disk: size("terminals.history_disk_mb") << 20,
            ..steplatch_terminal::Options::default()
        }
    }
}

impl Key {
    fn checked(&self, number: Option<u64>, given: &dyn std::fmt::Display, place: &str) -> Result<u64, BadSetting> {
        number.filter(|number| self.bounds.contains(number)).ok_or_else(|| BadSetting {
            place: place.to_owned(),
            problem: format!(
                "{} must be a whole number from {} to {}, not {given}",
                self.name,
                self.bounds.start(),
                self.bounds.end()
            ),
        })
    }
}

/// The file of this user, whether it is there or not.
pub(crate) fn file() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = variable("XDG_CONFIG_HOME").or_else(|| variable("HOME").map(|home| home.join(".config")))?;
    Some(folder.join("steplatch/config.toml"))
}

/// The values of a document, with the names of their tables before their own.
fn flat(table: &Table) -> Vec<(String, Value)> {
    let mut values = Vec::new();
    for (name, value) in table {
        match value {
            Value::Table(inner) => {
                values.extend(flat(inner).into_iter().map(|(rest, value)| (format!("{name}.{rest}"), value)));
            }
            value => values.push((name.clone(), value.clone())),
        }
    }
    values
}

fn nearest(name: &str) -> String {
    let likeness = |key: &Key| strsim::jaro_winkler(key.name, name);
    KEYS.iter()
        .filter(|key| likeness(key) > 0.75)
        .max_by(|one, other| likeness(one).total_cmp(&likeness(other)))
        .map(|key| format!("; did you mean '{}'?", key.name))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, environment: &[(&str, &str)]) -> Result<Settings, BadSetting> {
        let variable = |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        Settings::read(Some((PathBuf::from("/c.toml"), text.to_owned())), variable)
    }

    #[test]
    fn the_environment_goes_before_the_file_and_the_file_before_the_default() {
        let settings =
            read("[terminals]\nmost = 7\nidle_seconds = 60\n", &[("STEPLATCH_TERMINALS_MOST", "9")]).unwrap();
        let origin =
            |name: &str| settings.all().find(|(key, ..)| key.name == name).map(|(_, value, origin)| (value, origin));
        assert_eq!(origin("terminals.most"), Some((9, &Origin::Environment("STEPLATCH_TERMINALS_MOST"))));
        assert_eq!(origin("terminals.idle_seconds"), Some((60, &Origin::File("/c.toml".into()))));
        assert_eq!(origin("terminals.grace_seconds"), Some((600, &Origin::Default)));
        assert_eq!(settings.terminals().idle, Some(Duration::from_secs(60)));
    }

    #[test]
    fn what_can_not_be_meant_is_named_with_its_place() {
        let told = |text: &str, environment: &[(&str, &str)]| read(text, environment).unwrap_err().to_string();
        assert_eq!(
            told("terminals.most = 0", &[]),
            "/c.toml: terminals.most must be a whole number from 1 to 10000, not 0"
        );
        assert_eq!(
            told("", &[("STEPLATCH_TERMINALS_MOST", "many")]),
            "STEPLATCH_TERMINALS_MOST: terminals.most must be a whole number from 1 to 10000, not many"
        );
        assert!(
            told("terminals.most = ", &[]).starts_with("/c.toml: TOML parse error at line 1"),
            "{}",
            told("terminals.most = ", &[])
        );
        let settings = read("[terminal]\nmost = 3", &[]).unwrap();
        assert_eq!(settings.unknown, ["/c.toml: 'terminal.most' is not a setting; did you mean 'terminals.most'?"]);
    }
}
