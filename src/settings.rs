//! The settings, each with the origin of its value.
//!
//! A setting is one row of [`KEYS`]. Its value comes from the environment, otherwise from the user's file
//! (`$XDG_CONFIG_HOME/steplatch/config.toml`, TOML 1.0, <https://toml.io/en/v1.0.0>), otherwise from the row. An
//! invalid value is reported as a problem and never silently replaced by the default. The `steplatch.toml` of a project
//! declares nodes and has no settings, because one daemon serves many projects.
//!
//! Remote services, remote hosts, rules of notifications and secrets are separate tables ([`remotes`], [`hosts`],
//! [`notify`], [`secrets`]). [`reload`] applies changes while a daemon runs, and [`watch`] detects them.

pub(crate) mod hosts;
pub(crate) mod hosts_file;
pub(crate) mod notify;
pub(crate) mod reload;
pub(crate) mod remotes;
pub(crate) mod secrets;
mod watch;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steplatch_protocol::{EngineKind, ToolListSize};
use steplatch_workflow::Proof;
use toml::Table;

use self::hosts::HostSetting;
use self::notify::NotifySetting;
use self::remotes::Remote;
use self::secrets::ConfiguredSecret;

/// A setting.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    /// The table and the name in the file, joined by a dot.
    pub(crate) name: &'static str,
    /// Environment variable.
    pub(crate) variable: &'static str,
    /// Earlier names. They are still read if the current names are absent.
    former: Option<FormerNames>,
    /// Description for people.
    pub(crate) description: &'static str,
    /// Type and default of the value.
    kind: Kind,
    /// True if a running daemon applies a new value.
    pub(crate) hot: bool,
}

/// Earlier names of a setting.
#[derive(Debug, Clone)]
struct FormerNames {
    /// Name in the file.
    name: &'static str,
    /// Name in the environment.
    variable: &'static str,
}

/// The type of a setting, with its default.
#[derive(Debug, Clone)]
enum Kind {
    /// A whole number within bounds.
    Number(u64, RangeInclusive<u64>),
    /// `true` or `false`, in any case.
    Flag(bool),
    /// Text, with a check whose error is the reason that a value is invalid.
    Text(&'static str, fn(&str) -> Result<(), String>),
}

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    /// A whole number.
    Number(u64),
    /// A flag.
    Flag(bool),
    /// Text.
    Text(String),
}

/// All settings.
pub(crate) const KEYS: &[Key] = &[
    Key {
        name: "terminals.max",
        variable: "STEPLATCH_TERMINALS_MAX",
        former: Some(FormerNames { name: "terminals.most", variable: "STEPLATCH_TERMINALS_MOST" }),
        description: "maximum number of open terminals",
        kind: Kind::Number(50, 1..=10_000),
        hot: false,
    },
    Key {
        name: "terminals.grace_seconds",
        variable: "STEPLATCH_TERMINALS_GRACE_SECONDS",
        former: None,
        description: "seconds that a terminal stays readable after its program exited",
        kind: Kind::Number(600, 0..=31_536_000),
        hot: false,
    },
    Key {
        name: "terminals.idle_seconds",
        variable: "STEPLATCH_TERMINALS_IDLE_SECONDS",
        former: None,
        description: "seconds without use after which a terminal is closed (0 = never)",
        kind: Kind::Number(0, 0..=31_536_000),
        hot: false,
    },
    Key {
        name: "terminals.history_memory_mb",
        variable: "STEPLATCH_TERMINALS_HISTORY_MEMORY_MB",
        former: None,
        description: "memory for the older output of each terminal, compressed",
        kind: Kind::Number(16, 1..=4_096),
        hot: false,
    },
    Key {
        name: "terminals.history_disk_mb",
        variable: "STEPLATCH_TERMINALS_HISTORY_DISK_MB",
        former: None,
        description: "disk space for older output of each terminal beyond that memory, compressed (0 = none)",
        kind: Kind::Number(64, 0..=1_048_576),
        hot: false,
    },
    Key {
        name: "terminals.log_inputs",
        variable: "STEPLATCH_TERMINALS_LOG_INPUTS",
        former: None,
        description: "log the inputs, waits and commands of terminals, and their authors; captures are made from this log",
        kind: Kind::Flag(true),
        hot: false,
    },
    Key {
        name: "runs.max",
        variable: "STEPLATCH_RUNS_MAX",
        former: Some(FormerNames { name: "runs.most", variable: "STEPLATCH_RUNS_MOST" }),
        description: "maximum number of finished runs to keep; the oldest are removed first",
        kind: Kind::Number(1_000, 0..=1_000_000),
        hot: false,
    },
    Key {
        name: "runs.days",
        variable: "STEPLATCH_RUNS_DAYS",
        former: None,
        description: "days to keep a finished run (0 = unlimited)",
        kind: Kind::Number(90, 0..=36_500),
        hot: false,
    },
    Key {
        name: "runs.disk_mb",
        variable: "STEPLATCH_RUNS_DISK_MB",
        former: None,
        description: "disk space for the histories of all runs; the oldest finished ones are removed first",
        kind: Kind::Number(4_096, 1..=1_048_576),
        hot: false,
    },
    Key {
        name: "tools.library",
        variable: "STEPLATCH_TOOLS_LIBRARY",
        former: None,
        description: "offer proven workflows of the library as MCP tools",
        kind: Kind::Flag(false),
        hot: true,
    },
    Key {
        name: "mcp.tools",
        variable: "STEPLATCH_MCP_TOOLS",
        former: None,
        description: "tools that MCP clients are offered: core, full, or auto (full for clients that load tools on demand)",
        kind: Kind::Text("auto", check_tool_list_size),
        hot: true,
    },
    Key {
        name: "mcp.read_commands",
        variable: "STEPLATCH_MCP_READ_COMMANDS",
        former: None,
        description: "commands that the tool read_command runs, separated by semicolons: words, * for an argument, ** for any number",
        kind: Kind::Text("", check_read_commands),
        hot: true,
    },
    Key {
        name: "gates.require",
        variable: "STEPLATCH_GATES_REQUIRE",
        former: None,
        description: "minimum proof of a person for gates: none, dialog, terminal, passphrase or passkey",
        kind: Kind::Text("none", check_proof),
        hot: true,
    },
    Key {
        name: "gates.remember_minutes",
        variable: "STEPLATCH_GATES_REMEMBER_MINUTES",
        former: None,
        description: "minutes for which a tab of the page may keep the approver's passphrase (0 = never)",
        kind: Kind::Number(0, 0..=60),
        hot: true,
    },
    Key {
        name: "commands.pagers",
        variable: "STEPLATCH_COMMANDS_PAGERS",
        former: None,
        description: "open pagers and editors in shells that are started for one command",
        kind: Kind::Flag(false),
        hot: true,
    },
    Key {
        name: "commands.integrate",
        variable: "STEPLATCH_COMMANDS_INTEGRATE",
        former: None,
        description: "set up exit codes in shells within ssh, su or docker with their first command",
        kind: Kind::Flag(false),
        hot: true,
    },
    Key {
        name: "engine.kind",
        variable: "STEPLATCH_ENGINE_KIND",
        former: None,
        description: "default engine of runs: sqlite (this daemon), or temporal (through 'steplatch worker')",
        kind: Kind::Text(EngineKind::Sqlite.name(), check_engine),
        hot: true,
    },
    Key {
        name: "temporal.program",
        variable: "STEPLATCH_TEMPORAL_PROGRAM",
        former: None,
        description: "program of the worker for Temporal, if it is neither beside this program nor in the PATH",
        kind: Kind::Text("", |_| Ok(())),
        hot: false,
    },
    Key {
        name: "serve.start",
        variable: "STEPLATCH_SERVE_START",
        former: None,
        description: "start of the page's server in the background: on_demand (with 'steplatch open') or with_daemon",
        kind: Kind::Text(ON_DEMAND, check_serve_start),
        hot: false,
    },
    Key {
        name: "daemon.log",
        variable: crate::print::LOG_VARIABLE,
        former: None,
        description: "log filter of the daemon: a level, or levels of modules, such as info,steplatch=debug",
        kind: Kind::Text(crate::print::DEFAULT_LOG_FILTER, crate::print::check_log_filter),
        hot: true,
    },
];

/// Engines that the setting `engine.kind` accepts.
const ENGINES: [EngineKind; 2] = [EngineKind::Sqlite, EngineKind::Temporal];

/// Returns the engine with this name.
pub(crate) fn parse_engine(name: &str) -> Result<EngineKind, String> {
    let engine = ENGINES.into_iter().find(|engine| engine.name() == name);
    engine.ok_or_else(|| format!("must be one of {}", ENGINES.map(EngineKind::name).join(", ")))
}

fn check_engine(name: &str) -> Result<(), String> {
    parse_engine(name).map(drop)
}

/// Values of `serve.start`.
const ON_DEMAND: &str = "on_demand";
const WITH_DAEMON: &str = "with_daemon";

fn check_serve_start(name: &str) -> Result<(), String> {
    match name {
        ON_DEMAND | WITH_DAEMON => Ok(()),
        _ => Err(format!("must be one of {ON_DEMAND}, {WITH_DAEMON}")),
    }
}

fn find_proof(name: &str) -> Option<Proof> {
    Proof::ALL.into_iter().find(|proof| proof.name() == name)
}

fn check_tool_list_size(name: &str) -> Result<(), String> {
    let names = ToolListSize::ALL.map(ToolListSize::name).join(", ");
    find_tool_list_size(name).map(drop).ok_or_else(|| format!("must be one of {names}"))
}

fn find_tool_list_size(name: &str) -> Option<ToolListSize> {
    ToolListSize::ALL.into_iter().find(|size| size.name() == name)
}

fn check_read_commands(list: &str) -> Result<(), String> {
    steplatch_daemon::AllowedCommand::parse_list(list)
        .map(drop)
        .map_err(|error| format!("is not a list of commands: {error}"))
}

fn check_proof(name: &str) -> Result<(), String> {
    let names = Proof::ALL.map(Proof::name).join(", ");
    find_proof(name).map(drop).ok_or_else(|| format!("must be one of {names}"))
}

/// The current settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    values: BTreeMap<&'static str, (Value, Origin)>,
    /// Remote services, with unique names.
    pub(crate) remotes: Vec<Remote>,
    /// Remote hosts, with unique names.
    pub(crate) hosts: Vec<HostSetting>,
    /// Rules of notifications, with unique names.
    pub(crate) notifications: Vec<NotifySetting>,
    /// Secrets, with unique names.
    pub(crate) secrets: Vec<ConfiguredSecret>,
    /// Unknown keys of the file.
    pub(crate) unknown: Vec<Problem>,
}

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The default.
    Default,
    /// The file.
    File(PathBuf),
    /// An environment variable.
    Environment(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File(path) => write!(formatter, "{}", path.display()),
            Self::Environment(variable) => formatter.write_str(variable),
        }
    }
}

/// One setting of a separate table.
pub(crate) struct SettingRow {
    /// Name among the settings.
    pub(crate) name: String,
    /// The value. Of a token, only the source.
    pub(crate) value: serde_json::Value,
    /// The origin of the value.
    pub(crate) origin: Origin,
    /// The description.
    pub(crate) description: &'static str,
}

/// The separate tables that have been read.
#[derive(Default)]
struct SeparateTables {
    services: remotes::RemoteSettings,
    hosts: hosts::HostSettings,
    notifications: notify::NotifySettings,
    secrets: secrets::SecretSettings,
}

/// An invalid part of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {problem}")]
pub(crate) struct Problem {
    /// File, environment variable, or key.
    location: String,
    problem: String,
}

/// All problems of an invalid configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadSettings(pub(crate) Vec<Problem>);

impl fmt::Display for BadSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        formatter.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for BadSettings {}

impl Settings {
    /// Reads the settings of this user.
    ///
    /// # Errors
    /// If the file or the environment is invalid. The error has all problems, including unknown keys, although these
    /// alone would only cause warnings.
    pub(crate) fn load() -> Result<Self, BadSettings> {
        let path = file();
        let text = match path.as_deref().map(read_settings_file) {
            Some(Ok(text)) => Some(text),
            Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
                let file = path.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
                return Err(BadSettings(vec![Problem {
                    location: file,
                    problem: format!("it cannot be read: {error}"),
                }]));
            }
            _ => None,
        };
        Self::read(path.zip(text), |variable| std::env::var_os(variable))
    }

    fn read(file: Option<(PathBuf, String)>, variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, BadSettings> {
        let default = KEYS.iter().map(|key| (key.name, (key.kind.default(), Origin::Default)));
        let mut settings = Self {
            values: default.collect(),
            remotes: Vec::new(),
            hosts: Vec::new(),
            notifications: Vec::new(),
            secrets: Vec::new(),
            unknown: Vec::new(),
        };
        let mut problems = Vec::new();
        let mut tables = SeparateTables::default();
        if let Some((path, text)) = file {
            settings.read_file(&path, &text, &mut tables, &mut problems);
        }
        for key in KEYS {
            let names = [Some(key.variable), key.former.as_ref().map(|former| former.variable)];
            let configured = names
                .into_iter()
                .flatten()
                .find_map(|name| variable(name).filter(|text| !text.is_empty()).map(|text| (name, text)));
            match configured.map(|(name, text)| (name, key.read_text(&text.to_string_lossy(), name))) {
                Some((name, Ok(value))) => {
                    settings.values.insert(key.name, (value, Origin::Environment(name)));
                }
                Some((_, Err(problem))) => problems.push(problem),
                None => {}
            }
        }
        let SeparateTables { mut services, mut hosts, mut notifications, mut secrets } = tables;
        services.read_environment(&variable);
        settings.remotes = services.remotes;
        settings.unknown.append(&mut services.unknown_keys);
        problems.append(&mut services.problems);
        settings.hosts = hosts.hosts;
        settings.unknown.append(&mut hosts.unknown_keys);
        problems.append(&mut hosts.problems);
        settings.notifications = notifications.rules;
        settings.unknown.append(&mut notifications.unknown_keys);
        problems.append(&mut notifications.problems);
        settings.secrets = secrets.secrets;
        settings.unknown.append(&mut secrets.unknown_keys);
        problems.append(&mut secrets.problems);
        if problems.is_empty() {
            return Ok(settings);
        }
        problems.append(&mut settings.unknown);
        Err(BadSettings(problems))
    }

    /// Applies the values of a file and collects its problems.
    fn read_file(&mut self, path: &Path, text: &str, tables: &mut SeparateTables, problems: &mut Vec<Problem>) {
        let file = path.display().to_string();
        let mut table: Table = match text.parse::<Table>() {
            Ok(table) => table,
            Err(error) => {
                let problem = error.to_string().trim_end().to_owned();
                return problems.push(Problem { location: file, problem });
            }
        };
        if let Some(value) = table.remove(remotes::REMOTE) {
            tables.services.read_file(path, &value);
        }
        if let Some(value) = table.remove(hosts::HOST) {
            tables.hosts.read_file(path, &value);
        }
        if let Some(value) = table.remove(notify::NOTIFY) {
            tables.notifications.read_file(path, &value);
        }
        if let Some(value) = table.remove(secrets::SECRETS) {
            tables.secrets.read_file(path, &value);
        }
        let values = flatten(&table);
        for (name, value) in &values {
            let is_former = |key: &Key| key.former.as_ref().is_some_and(|former| former.name == name);
            let Some(key) = KEYS.iter().find(|key| key.name == name || is_former(key)) else {
                let hint = match name.split('.').next() {
                    Some("hosts" | "host" | "machines") => {
                        "; a machine is a table [[host]] with name and ssh".to_owned()
                    }
                    _ => suggestion(name, KEYS.iter().map(|key| key.name)),
                };
                let problem = format!("'{name}' is not a setting{hint}");
                self.unknown.push(Problem { location: file.clone(), problem });
                continue;
            };
            if key.name != name && values.iter().any(|(current, _)| current == key.name) {
                continue;
            }
            match key.read_toml(value, &file) {
                Ok(value) => {
                    self.values.insert(key.name, (value, Origin::File(path.to_owned())));
                }
                Err(problem) => problems.push(problem),
            }
        }
    }

    /// Returns every setting with its value and origin.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static Key, &Value, &Origin)> {
        KEYS.iter().map(|key| {
            let (value, origin) = &self.values[key.name];
            (key, value, origin)
        })
    }

    /// Returns the settings with other values than in `previous`.
    pub(crate) fn changed_since<'a>(&'a self, previous: &'a Self) -> impl Iterator<Item = &'static Key> + 'a {
        KEYS.iter().filter(|key| self.values[key.name].0 != previous.values[key.name].0)
    }

    /// Returns the configurations of the remote services with their names.
    fn services(&self) -> impl Iterator<Item = (&str, &steplatch_remote::Config)> {
        self.remotes.iter().map(|remote| (remote.config.name.as_str(), &remote.config))
    }

    fn value(&self, name: &str) -> &Value {
        &self.values.get(name).expect("every requested setting is in KEYS").0
    }

    fn number(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Number(number) => *number,
            value => unreachable!("{name} must be a number, and is {value:?}"),
        }
    }

    /// Returns the retention of finished runs.
    pub(crate) fn runs(&self) -> steplatch_daemon::RetentionPolicy {
        let days = self.number("runs.days");
        let time = (days > 0).then(|| Duration::from_secs(days * 86_400));
        let max_runs = usize::try_from(self.number("runs.max")).unwrap_or(usize::MAX);
        steplatch_daemon::RetentionPolicy { max_runs, time, disk: Some(self.number("runs.disk_mb") << 20) }
    }

    /// Returns the options of terminals.
    pub(crate) fn terminals(&self) -> steplatch_terminal::Options {
        let size = |name| usize::try_from(self.number(name)).expect("the bounds of a setting fit usize");
        steplatch_terminal::Options {
            max_terminals: size("terminals.max"),
            grace: Duration::from_secs(self.number("terminals.grace_seconds")),
            idle: Some(self.number("terminals.idle_seconds")).filter(|idle| *idle > 0).map(Duration::from_secs),
            history_budget: size("terminals.history_memory_mb") << 20,
            history_on_disk: size("terminals.history_disk_mb") << 20,
            logs_inputs: *self.value("terminals.log_inputs") == Value::Flag(true),
            ..steplatch_terminal::Options::default()
        }
    }

    /// Returns the settings that a daemon applies while it runs.
    pub(crate) fn configuration(&self) -> steplatch_daemon::Configuration {
        steplatch_daemon::Configuration {
            library_tools: *self.value("tools.library") == Value::Flag(true),
            tool_list_size: match self.value("mcp.tools") {
                Value::Text(name) => find_tool_list_size(name).unwrap_or_default(),
                value => unreachable!("a size must be text, and is {value:?}"),
            },
            read_commands: match self.value("mcp.read_commands") {
                // The check of the setting has parsed it.
                Value::Text(list) => steplatch_daemon::AllowedCommand::parse_list(list).unwrap_or_default(),
                value => unreachable!("a list must be text, and is {value:?}"),
            },
            command_pagers: *self.value("commands.pagers") == Value::Flag(true),
            command_integration: *self.value("commands.integrate") == Value::Flag(true),
            engine: match self.value("engine.kind") {
                Value::Text(name) => parse_engine(name).unwrap_or_default(),
                value => unreachable!("an engine must be text, and is {value:?}"),
            },
            remotes: self.remotes.iter().map(|remote| remote.config.clone()).collect(),
            hosts: self.hosts.iter().map(|host| host.config.clone()).collect(),
            notifications: self.notifications.iter().map(|setting| setting.rule.clone()).collect(),
            secrets: self.secrets.iter().map(|secret| secret.setting.clone()).collect(),
            remember_minutes: self.number("gates.remember_minutes"),
            gate_proof: match self.value("gates.require") {
                Value::Text(name) => find_proof(name).unwrap_or(Proof::Passphrase),
                value => unreachable!("a proof must be text, and is {value:?}"),
            },
        }
    }

    /// Returns the program of the worker for Temporal, if it is set.
    pub(crate) fn temporal_program(&self) -> Option<PathBuf> {
        match self.value("temporal.program") {
            Value::Text(program) if !program.is_empty() => Some(PathBuf::from(program)),
            _ => None,
        }
    }

    /// Returns whether the daemon starts the server of the page.
    pub(crate) fn serves_with_daemon(&self) -> bool {
        matches!(self.value("serve.start"), Value::Text(start) if start == WITH_DAEMON)
    }

    /// Returns the filter of the daemon's logs, if one is set.
    pub(crate) fn log(&self) -> Option<&str> {
        match &self.values["daemon.log"] {
            (_, Origin::Default) => None,
            (Value::Text(filter), _) => Some(filter),
            value => unreachable!("a filter must be text, and is {value:?}"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(formatter),
            Self::Flag(flag) => flag.fmt(formatter),
            Self::Text(text) => text.fmt(formatter),
        }
    }
}

impl Kind {
    fn default(&self) -> Value {
        match self {
            Self::Number(default, _) => Value::Number(*default),
            Self::Flag(default) => Value::Flag(*default),
            Self::Text(default, _) => Value::Text((*default).to_owned()),
        }
    }
}

impl Key {
    /// Reads a value from a file.
    fn read_toml(&self, value: &toml::Value, location: &str) -> Result<Value, Problem> {
        let parsed = match (&self.kind, value) {
            (Kind::Number(..), toml::Value::Integer(number)) => u64::try_from(*number).ok().map(Value::Number),
            (Kind::Flag(_), toml::Value::Boolean(flag)) => Some(Value::Flag(*flag)),
            // The texts that are valid in the environment are also valid here.
            (Kind::Flag(_) | Kind::Text(..), toml::Value::String(text)) => return self.read_text(text, location),
            _ => None,
        };
        self.check(parsed, value, location)
    }

    /// Reads a value from the text of an environment variable.
    fn read_text(&self, text: &str, location: &str) -> Result<Value, Problem> {
        let text = text.trim();
        let value = match self.kind {
            Kind::Number(..) => text.parse().ok().map(Value::Number),
            Kind::Flag(_) if text.eq_ignore_ascii_case("true") => Some(Value::Flag(true)),
            Kind::Flag(_) if text.eq_ignore_ascii_case("false") => Some(Value::Flag(false)),
            Kind::Flag(_) => None,
            Kind::Text(..) => Some(Value::Text(text.to_owned())),
        };
        self.check(value, &text, location)
    }

    fn check(&self, value: Option<Value>, value_text: &dyn fmt::Display, location: &str) -> Result<Value, Problem> {
        let name = self.name;
        let problem = match (&self.kind, value) {
            (Kind::Number(_, bounds), Some(Value::Number(number))) if bounds.contains(&number) => {
                return Ok(Value::Number(number));
            }
            (Kind::Number(_, bounds), _) => {
                format!("{name} must be a whole number from {} to {}, not {value_text}", bounds.start(), bounds.end())
            }
            (Kind::Flag(_), Some(value)) => return Ok(value),
            (Kind::Flag(_), None) => format!("{name} must be true or false, not {value_text}"),
            (Kind::Text(_, check), Some(Value::Text(text))) => match check(&text) {
                Ok(()) => return Ok(Value::Text(text)),
                Err(reason) => format!("{name} cannot be '{text}': {reason}"),
            },
            (Kind::Text(..), _) => format!("{name} must be a string, not {value_text}"),
        };
        Err(Problem { location: location.to_owned(), problem })
    }
}

/// Maximum size of a settings file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads the text of a regular file. Refuses other files, because they may be endless or block.
fn read_settings_file(path: &Path) -> std::io::Result<String> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(std::io::Error::other("it is not a file"));
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(std::io::Error::other(format!(
            "it has {} bytes, more than the limit of {MAX_FILE_BYTES}",
            metadata.len()
        )));
    }
    std::fs::read_to_string(path)
}

/// Returns the path of this user's settings file. The file need not exist.
pub(crate) fn file() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let directory = variable("XDG_CONFIG_HOME").or_else(|| variable("HOME").map(|home| home.join(".config")))?;
    Some(directory.join("steplatch/config.toml"))
}

/// Returns the tables of an array of tables. `None` if the value has another type.
fn tables(value: &toml::Value) -> Option<Vec<&Table>> {
    value.as_array()?.iter().map(toml::Value::as_table).collect()
}

/// Describes the problem of a key that is not an array of tables.
fn not_tables_problem(subject: &str, key: &str) -> String {
    format!("{subject} is a separate table, which begins with [[{key}]]")
}

/// Returns the values of a document with their dotted names.
fn flatten(table: &Table) -> Vec<(String, toml::Value)> {
    let mut values = Vec::new();
    for (name, value) in table {
        match value {
            toml::Value::Table(inner) => {
                values.extend(
                    flatten(inner).into_iter().map(|(inner_name, value)| (format!("{name}.{inner_name}"), value)),
                );
            }
            value => values.push((name.clone(), value.clone())),
        }
    }
    values
}

/// Returns a hint with the most similar name, or an empty text if no name is similar enough.
fn suggestion(name: &str, names: impl Iterator<Item = &'static str>) -> String {
    let similarity = |known: &str| strsim::jaro_winkler(known, name);
    names
        .filter(|known| similarity(known) > 0.75)
        .max_by(|first, second| similarity(first).total_cmp(&similarity(second)))
        .map(|known| format!("; did you mean '{known}'?"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn read(text: &str, environment: &[(&str, &str)]) -> Result<Settings, BadSettings> {
        let variable = |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        Settings::read(Some((PathBuf::from("/c.toml"), text.to_owned())), variable)
    }

    /// Returns all problems.
    pub(super) fn read_problems(text: &str, environment: &[(&str, &str)]) -> Vec<String> {
        read(text, environment).unwrap_err().0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn environment_precedes_file_and_file_precedes_default() {
        let settings = read("[terminals]\nmax = 7\nidle_seconds = 60\n", &[("STEPLATCH_TERMINALS_MAX", "9")]).unwrap();
        let origin = |name: &str| {
            settings.all().find(|(key, ..)| key.name == name).map(|(_, value, origin)| (value.to_string(), origin))
        };
        assert_eq!(origin("terminals.max"), Some(("9".into(), &Origin::Environment("STEPLATCH_TERMINALS_MAX"))));
        assert_eq!(origin("terminals.idle_seconds"), Some(("60".into(), &Origin::File("/c.toml".into()))));
        assert_eq!(origin("terminals.grace_seconds"), Some(("600".into(), &Origin::Default)));
        assert_eq!(settings.terminals().idle, Some(Duration::from_secs(60)));
    }

    #[test]
    fn flags_are_accepted_in_any_case_and_quoted() {
        let library =
            |text: &str, environment: &[(&str, &str)]| read(text, environment).unwrap().configuration().library_tools;
        assert!(!library("", &[]));
        assert!(library("tools.library = true", &[]));
        assert!(library("tools.library = 'True'", &[]));
        assert!(library("tools.library = false", &[("STEPLATCH_TOOLS_LIBRARY", "TRUE")]));
        assert!(!library("tools.library = true", &[("STEPLATCH_TOOLS_LIBRARY", " false ")]));
    }

    #[test]
    fn invalid_setting_is_named_with_its_place() {
        let error_text = |text: &str, environment: &[(&str, &str)]| read(text, environment).unwrap_err().to_string();
        for (text, environment, problem) in [
            ("terminals.max = 0", None, "/c.toml: terminals.max must be a whole number from 1 to 10000, not 0"),
            ("terminals.max = -1", None, "/c.toml: terminals.max must be a whole number from 1 to 10000, not -1"),
            ("terminals.max = true", None, "/c.toml: terminals.max must be a whole number from 1 to 10000, not true"),
            ("tools.library = 1", None, "/c.toml: tools.library must be true or false, not 1"),
            (
                "serve.start = 'always'",
                None,
                "/c.toml: serve.start cannot be 'always': must be one of on_demand, with_daemon",
            ),
            ("daemon.log = 7", None, "/c.toml: daemon.log must be a string, not 7"),
            (
                "",
                Some(("STEPLATCH_TERMINALS_MAX", "many")),
                "STEPLATCH_TERMINALS_MAX: terminals.max must be a whole number from 1 to 10000, not many",
            ),
            (
                "",
                Some(("STEPLATCH_TOOLS_LIBRARY", "yes")),
                "STEPLATCH_TOOLS_LIBRARY: tools.library must be true or false, not yes",
            ),
        ] {
            assert_eq!(error_text(text, environment.as_slice()), problem);
        }
        let broken = error_text("terminals.max = ", &[]);
        assert!(broken.starts_with("/c.toml: TOML parse error at line 1"), "{broken}");
        let filter = error_text("daemon.log = 'steplatch=loud'", &[]);
        assert!(filter.starts_with("/c.toml: daemon.log cannot be 'steplatch=loud': "), "{filter}");
        let settings = read("[terminal]\nmax = 3", &[]).unwrap();
        assert_eq!(
            settings.unknown.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["/c.toml: 'terminal.max' is not a setting; did you mean 'terminals.max'?"]
        );
        let settings = read("[hosts.build]\nssh = 'build'", &[]).unwrap();
        let expected = "/c.toml: 'hosts.build.ssh' is not a setting; a machine is a table [[host]] with name and ssh";
        assert_eq!(settings.unknown[0].to_string(), expected);
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let result =
            read("terminals.max = 0\nterminal.max = 3\ntools.library = 'perhaps'\n", &[("STEPLATCH_RUNS_DAYS", "-1")]);
        let places: Vec<String> = result.unwrap_err().0.into_iter().map(|problem| problem.problem).collect();
        assert_eq!(
            places,
            [
                "terminals.max must be a whole number from 1 to 10000, not 0",
                "tools.library must be true or false, not perhaps",
                "runs.days must be a whole number from 0 to 36500, not -1",
                "'terminal.max' is not a setting; did you mean 'terminals.max'?",
            ]
        );
    }

    #[test]
    fn change_lists_the_settings_with_different_values() {
        let before = read("tools.library = true\nruns.days = 3\n", &[("STEPLATCH_TERMINALS_MAX", "9")]).unwrap();
        let after = read("runs.days = 4\nterminals.max = 2\n", &[("STEPLATCH_TERMINALS_MAX", "9")]).unwrap();
        let changed: Vec<&str> = after.changed_since(&before).map(|key| key.name).collect();
        assert_eq!(changed, ["runs.days", "tools.library"], "terminals.max is from the environment in both");
    }

    #[test]
    fn setting_is_also_read_by_its_former_names() {
        let value = |text: &str, variables: &[(&'static str, &str)]| {
            let settings = read(text, variables).unwrap();
            assert_eq!(settings.unknown, []);
            settings.values["terminals.max"].clone()
        };
        assert_eq!(value("terminals.most = 7", &[]).0, Value::Number(7));
        assert_eq!(value("terminals.most = 7\nterminals.max = 8", &[]).0, Value::Number(8));
        assert_eq!(
            value("", &[("STEPLATCH_TERMINALS_MOST", "9")]),
            (Value::Number(9), Origin::Environment("STEPLATCH_TERMINALS_MOST"))
        );
        let both = [("STEPLATCH_TERMINALS_MOST", "9"), ("STEPLATCH_TERMINALS_MAX", "10")];
        assert_eq!(value("", &both).0, Value::Number(10));
    }
}
