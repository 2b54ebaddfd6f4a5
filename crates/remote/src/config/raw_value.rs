//! Configured values, before validation.

use std::ops::RangeInclusive;

use super::SettingError;

/// A value from a table or an environment variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawValue {
    /// Text.
    Text(String),
    /// An integer.
    Integer(i64),
    /// `true` or `false`.
    Boolean(bool),
    /// A list of strings.
    List(Vec<String>),
    /// Text from an environment variable, without a type.
    Untyped(String),
    /// Another type of value, by its name.
    Other(&'static str),
}

impl From<&toml::Value> for RawValue {
    fn from(value: &toml::Value) -> Self {
        match value {
            toml::Value::String(text) => Self::Text(text.clone()),
            toml::Value::Integer(number) => Self::Integer(*number),
            toml::Value::Boolean(boolean) => Self::Boolean(*boolean),
            toml::Value::Array(values) => {
                let texts = values.iter().map(|value| value.as_str().map(str::to_owned));
                texts.collect::<Option<_>>().map_or(Self::Other("a list"), Self::List)
            }
            toml::Value::Float(_) => Self::Other("a decimal number"),
            toml::Value::Datetime(_) => Self::Other("a time"),
            toml::Value::Table(_) => Self::Other("a table"),
        }
    }
}

impl RawValue {
    /// Parses a list from an environment variable: separated by commas, with optional spaces around them.
    #[must_use]
    pub(crate) fn from_comma_separated(text: &str) -> Self {
        Self::List(text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect())
    }

    /// Returns the value as displayed in error messages.
    fn describe(&self) -> String {
        match self {
            Self::Text(text) | Self::Untyped(text) if text.chars().count() > 100 => "a long text".to_owned(),
            Self::Text(text) | Self::Untyped(text) => format!("'{}'", text.escape_debug()),
            Self::Integer(number) => number.to_string(),
            Self::Boolean(boolean) => boolean.to_string(),
            Self::List(_) => "a list".to_owned(),
            Self::Other(kind) => (*kind).to_owned(),
        }
    }

    fn type_error(&self, expected: &'static str) -> SettingError {
        SettingError::WrongKind { value: self.describe(), expected }
    }

    pub(crate) fn to_boolean(&self) -> Result<bool, SettingError> {
        let type_error = || self.type_error("true or false");
        match self {
            Self::Boolean(boolean) => Ok(*boolean),
            Self::Text(text) | Self::Untyped(text) => {
                text.trim().to_ascii_lowercase().parse().map_err(|_| type_error())
            }
            _ => Err(type_error()),
        }
    }

    pub(crate) fn to_integer(&self, bounds: RangeInclusive<u64>) -> Result<u64, SettingError> {
        let number = match self {
            Self::Integer(number) => u64::try_from(*number).ok(),
            Self::Untyped(text) => text.trim().parse().ok(),
            _ => None,
        };
        let (min, max) = (*bounds.start(), *bounds.end());
        let out_of_bounds = || SettingError::OutOfBounds { value: self.describe(), min, max };
        number.filter(|number| bounds.contains(number)).ok_or_else(out_of_bounds)
    }

    pub(crate) fn to_text(&self) -> Result<String, SettingError> {
        match self {
            Self::Text(text) | Self::Untyped(text) => Ok(text.clone()),
            _ => Err(self.type_error("text")),
        }
    }

    pub(crate) fn to_list(&self) -> Result<Vec<String>, SettingError> {
        match self {
            Self::List(texts) => Ok(texts.clone()),
            _ => Err(self.type_error("a list of strings")),
        }
    }
}
