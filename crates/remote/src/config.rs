//! Configuration of a service, from a table of the settings file or from the environment.
//!
//! Reports all errors at once, each with its setting and the allowed values. No error contains a token.

mod error;
mod keys;
mod raw_value;
mod token;

use std::ffi::OsString;
use std::time::Duration;

use reqwest::Url;

pub use error::SettingError;
pub use keys::{KEYS, Key};
pub use raw_value::RawValue;
pub use token::{Secret, Token, TokenError};

use crate::filter;

/// A configured remote service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Name of the service in this installation.
    pub name: String,
    /// True if the service is enabled.
    pub enabled: bool,
    /// URL of the service: `https`, or `http` on loopback; without a trailing slash.
    pub base_url: String,
    /// URL of the MCP server whose `workflows-list-tool` returns the list instead of the REST route.
    pub discovery_mcp: Option<String>,
    /// Token of the service.
    pub token: Option<Token>,
    /// Interval between requests for the list. `None` requests it only at startup and on demand.
    pub discovery_interval: Option<Duration>,
    /// Time limit of one run.
    pub execution_timeout: Duration,
    /// Maximum number of concurrent runs at the service.
    pub max_concurrent_executions: usize,
    /// Globs of the names of offered workflows; `!` excludes. If empty, all are offered.
    pub filter_patterns: Vec<String>,
    /// Maximum time between two status requests for a run.
    pub status_check_interval: Duration,
    /// Maximum number of retries of a temporarily failed request. Starts are never retried.
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
#[error("{subject} {problem}.")]
pub struct ConfigError {
    /// The setting: an environment variable, or a key and the name of its service.
    pub subject: String,
    /// The problem and the allowed values, without a full stop.
    pub problem: SettingError,
}

impl Config {
    /// Reads the configuration of a service from the keys and values of a table.
    ///
    /// # Errors
    ///
    /// All invalid settings: an invalid name or unknown key, a value of the wrong kind or out of bounds, a token in
    /// clear text, and an enabled service without a URL.
    pub fn read<'a>(
        name: &str,
        values: impl IntoIterator<Item = (&'a str, RawValue)>,
    ) -> Result<Self, Vec<ConfigError>> {
        let mut reader = ConfigReader::new(name, |key| format!("{key} of remote '{name}'"));
        if !is_valid_name(name) {
            let subject = format!("The name of remote '{}'", name.escape_debug());
            reader.invalid.push(ConfigError { subject, problem: SettingError::Name });
        }
        for (key, value) in values {
            match keys::find(key) {
                Some(_) if key == "token" => match value {
                    RawValue::Text(text) => match Token::parse(&text) {
                        Ok(token) => reader.config.token = Some(token),
                        Err(error) => reader.add_error("token", error.into()),
                    },
                    _ => reader.add_error("token", SettingError::TokenForm),
                },
                Some(_) => reader.read_key(key, value),
                None => reader.add_error(key, SettingError::UnknownKey),
            }
        }
        reader.finish()
    }

    /// Reads the service configured by environment variables, with the name "default". Returns `None` if no variable is
    /// set; an empty variable is considered unset.
    ///
    /// # Errors
    ///
    /// All invalid settings, by the names of the variables.
    pub fn from_environment(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Option<Self>, Vec<ConfigError>> {
        let mut reader = ConfigReader::new("default", |key| keys::find(key).map_or(key, |key| key.variable).to_owned());
        let mut is_set = false;
        for key in KEYS {
            let Some(value) = lookup(key.variable).filter(|value| !value.is_empty()) else { continue };
            is_set = true;
            match value.into_string() {
                Err(_) => reader.add_error(key.name, SettingError::NotUtf8),
                Ok(value) if key.name == "token" => match Secret::new(&value) {
                    Ok(_) => reader.config.token = Some(Token::Value(value)),
                    Err(error) => reader.add_error(key.name, error.into()),
                },
                Ok(value) if key.name == "filter_patterns" => {
                    reader.read_key(key.name, RawValue::from_comma_separated(&value));
                }
                Ok(value) => reader.read_key(key.name, RawValue::Untyped(value)),
            }
        }
        if is_set { reader.finish().map(Some) } else { Ok(None) }
    }
}

/// Reader of a configuration that collects all errors.
struct ConfigReader<P> {
    config: Config,
    invalid: Vec<ConfigError>,
    subject: P,
}

impl<P: Fn(&str) -> String> ConfigReader<P> {
    fn new(name: &str, subject: P) -> Self {
        Self { config: Config { name: name.to_owned(), ..Config::default() }, invalid: Vec::new(), subject }
    }

    fn add_error(&mut self, key: &str, problem: SettingError) {
        self.invalid.push(ConfigError { subject: (self.subject)(key), problem });
    }

    fn read_key(&mut self, key: &str, value: RawValue) {
        if let Err(problem) = self.set_key(key, &value) {
            self.add_error(key, problem);
        }
    }

    fn set_key(&mut self, key: &str, value: &RawValue) -> Result<(), SettingError> {
        let config = &mut self.config;
        match key {
            "enabled" => config.enabled = value.to_boolean()?,
            "base_url" => config.base_url = parse_url(&value.to_text()?)?,
            "discovery_mcp" => config.discovery_mcp = Some(parse_url(&value.to_text()?)?),
            "discovery_interval" => {
                let interval = value.to_integer(keys::DISCOVERY_INTERVAL)?;
                config.discovery_interval = (interval > 0).then(|| Duration::from_millis(interval));
            }
            "execution_timeout" => {
                config.execution_timeout = Duration::from_millis(value.to_integer(keys::EXECUTION_TIMEOUT)?);
            }
            "max_concurrent_executions" => {
                config.max_concurrent_executions = value.to_integer(keys::MAX_CONCURRENT_EXECUTIONS)? as usize;
            }
            "filter_patterns" => config.filter_patterns = filter::check_patterns(value.to_list()?)?,
            "status_check_interval" => {
                config.status_check_interval = Duration::from_millis(value.to_integer(keys::STATUS_CHECK_INTERVAL)?);
            }
            "retry_attempts" => config.retry_attempts = value.to_integer(keys::RETRY_ATTEMPTS)? as u32,
            _ => unreachable!("the key was found in KEYS"),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Config, Vec<ConfigError>> {
        let is_url_invalid = self.invalid.iter().any(|invalid| invalid.subject == (self.subject)("base_url"));
        if self.config.enabled && self.config.base_url.is_empty() && !is_url_invalid {
            self.add_error("base_url", SettingError::NoUrl);
        }
        if self.invalid.is_empty() { Ok(self.config) } else { Err(self.invalid) }
    }
}

/// Returns whether the name of a service is valid. It is part of the names of metrics.
fn is_valid_name(name: &str) -> bool {
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-');
    (1..=64).contains(&name.len()) && name.chars().all(is_allowed)
}

/// Parses a URL that receives a token. Rejects credentials, queries and fragments instead of silently removing them.
fn parse_url(text: &str) -> Result<String, SettingError> {
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

/// Returns whether a URL refers to this host.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests;
