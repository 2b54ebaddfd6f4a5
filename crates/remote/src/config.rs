//! The configuration of a service, from a table of the settings file or from the environment.
//!
//! Reports all errors at once, each with its place and its bounds. No error contains a token.

mod error;
mod given;
mod keys;
mod token;

use std::ffi::OsString;
use std::time::Duration;

use reqwest::Url;

pub use error::SettingError;
pub use given::RawValue;
pub use keys::{KEYS, Key};
pub use token::{Secret, Token, TokenError};

use crate::filter;

/// A configured remote service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Its name in this installation.
    pub name: String,
    /// True if it is in use at all.
    pub enabled: bool,
    /// Its URL: `https`, or `http` on loopback; without a trailing slash.
    pub base_url: String,
    /// The URL of the MCP server whose `workflows-list-tool` returns the list, instead of the REST route.
    pub discovery_mcp: Option<String>,
    /// Token of the service.
    pub token: Option<Token>,
    /// Interval between two requests of the list; without one, only at the start.
    pub discovery_interval: Option<Duration>,
    /// Time limit of one run.
    pub execution_timeout: Duration,
    /// The most runs that may be in progress there at once.
    pub max_concurrent_executions: usize,
    /// Globs of the offered names, `!` excludes; without any, all of them.
    pub filter_patterns: Vec<String>,
    /// The longest time between two status requests for a run.
    pub status_check_interval: Duration,
    /// Maximum number of repetitions of a temporarily failed request. Starts never repeat.
    pub retry_attempts: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            enabled: false,
            base_url: String::new(),
            discovery_mcp: None,
            token: None,
            discovery_interval: None,
            execution_timeout: Duration::from_secs(300),
            max_concurrent_executions: 10,
            filter_patterns: Vec::new(),
            status_check_interval: Duration::from_secs(5),
            retry_attempts: 3,
        }
    }
}

/// An invalid setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place} {problem}.")]
pub struct ConfigError {
    /// Its place: a variable of the environment, or a key and its service.
    pub place: String,
    /// The problem and the allowed values, without a full stop.
    pub problem: SettingError,
}

impl Config {
    /// Reads a service of this name from the keys and values of a table.
    ///
    /// # Errors
    ///
    /// All invalid settings: an invalid name or unknown key, a value of the wrong kind or out of bounds, a token in
    /// clear text, and an enabled service without a URL.
    pub fn read<'a>(
        name: &str,
        values: impl IntoIterator<Item = (&'a str, RawValue)>,
    ) -> Result<Self, Vec<ConfigError>> {
        let mut reading = ConfigReader::new(name, |key| format!("{key} of remote '{name}'"));
        if !is_name(name) {
            let place = format!("The name of remote '{}'", name.escape_debug());
            reading.invalid.push(ConfigError { place, problem: SettingError::Name });
        }
        for (key, given) in values {
            match keys::find(key) {
                Some(_) if key == "token" => match given {
                    RawValue::Text(text) => match Token::parse(&text) {
                        Ok(token) => reading.config.token = Some(token),
                        Err(error) => reading.wrong("token", error.into()),
                    },
                    _ => reading.wrong("token", SettingError::TokenForm),
                },
                Some(_) => reading.read_key(key, given),
                None => reading.wrong(key, SettingError::UnknownKey),
            }
        }
        reading.end()
    }

    /// Reads the one service that the environment can configure, named "default". `None` if none of the variables is
    /// set; an empty one counts as not set.
    ///
    /// # Errors
    ///
    /// All invalid settings, by the names of the variables.
    pub fn from_environment(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Option<Self>, Vec<ConfigError>> {
        let mut reading =
            ConfigReader::new("default", |key| keys::find(key).map_or(key, |key| key.variable).to_owned());
        let mut is_there = false;
        for key in KEYS {
            let Some(value) = lookup(key.variable).filter(|value| !value.is_empty()) else { continue };
            is_there = true;
            match value.into_string() {
                Err(_) => reading.wrong(key.name, SettingError::NotUtf8),
                Ok(value) if key.name == "token" => match Secret::new(&value) {
                    Ok(_) => reading.config.token = Some(Token::Value(value)),
                    Err(error) => reading.wrong(key.name, error.into()),
                },
                Ok(value) if key.name == "filter_patterns" => reading.read_key(key.name, RawValue::separated(&value)),
                Ok(value) => reading.read_key(key.name, RawValue::Written(value)),
            }
        }
        if is_there { reading.end().map(Some) } else { Ok(None) }
    }
}

/// A configuration during its reading.
struct ConfigReader<P> {
    config: Config,
    invalid: Vec<ConfigError>,
    place: P,
}

impl<P: Fn(&str) -> String> ConfigReader<P> {
    fn new(name: &str, place: P) -> Self {
        Self { config: Config { name: name.to_owned(), ..Config::default() }, invalid: Vec::new(), place }
    }

    fn wrong(&mut self, key: &str, problem: SettingError) {
        self.invalid.push(ConfigError { place: (self.place)(key), problem });
    }

    fn read_key(&mut self, key: &str, given: RawValue) {
        if let Err(problem) = self.set(key, &given) {
            self.wrong(key, problem);
        }
    }

    fn set(&mut self, key: &str, given: &RawValue) -> Result<(), SettingError> {
        let config = &mut self.config;
        match key {
            "enabled" => config.enabled = given.boolean()?,
            "base_url" => config.base_url = url(&given.text()?)?,
            "discovery_mcp" => config.discovery_mcp = Some(url(&given.text()?)?),
            "discovery_interval" => {
                let interval = given.whole_number(keys::DISCOVERY_INTERVAL)?;
                config.discovery_interval = (interval > 0).then(|| Duration::from_millis(interval));
            }
            "execution_timeout" => {
                config.execution_timeout = Duration::from_millis(given.whole_number(keys::EXECUTION_TIMEOUT)?);
            }
            "max_concurrent_executions" => {
                config.max_concurrent_executions = given.whole_number(keys::MAX_CONCURRENT_EXECUTIONS)? as usize;
            }
            "filter_patterns" => config.filter_patterns = filter::checked(given.list()?)?,
            "status_check_interval" => {
                config.status_check_interval = Duration::from_millis(given.whole_number(keys::STATUS_CHECK_INTERVAL)?);
            }
            "retry_attempts" => config.retry_attempts = given.whole_number(keys::RETRY_ATTEMPTS)? as u32,
            _ => unreachable!("the key was found in KEYS"),
        }
        Ok(())
    }

    fn end(mut self) -> Result<Config, Vec<ConfigError>> {
        let is_told = self.invalid.iter().any(|invalid| invalid.place == (self.place)("base_url"));
        if self.config.enabled && self.config.base_url.is_empty() && !is_told {
            self.wrong("base_url", SettingError::NoUrl);
        }
        if self.invalid.is_empty() { Ok(self.config) } else { Err(self.invalid) }
    }
}

/// Returns whether a name is valid. People and models see names, which are also part of the names of files and metrics.
fn is_name(name: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    (1..=64).contains(&name.len()) && name.chars().all(is_part)
}

/// Reads a URL for sending a token to. Refuses other parts of a URL instead of dropping them, because the author meant
/// something by them.
fn url(text: &str) -> Result<String, SettingError> {
    let Ok(url) = text.trim().parse::<Url>() else { return Err(SettingError::NotUrl) };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(SettingError::UrlCredentials);
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(SettingError::UrlQuery);
    }
    match url.scheme() {
        "https" if url.has_host() => {}
        "http" if is_loopback(&url) => {}
        _ => return Err(SettingError::UrlScheme { url: text.trim().to_owned() }),
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Returns whether a URL leads to this machine and nowhere else.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests;
