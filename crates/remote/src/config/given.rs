//! Configured values, before the check of their keys.

use std::ops::RangeInclusive;

use super::SettingError;

/// A value of a table, or of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawValue {
    /// Text.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// `true` or `false`.
    Boolean(bool),
    /// A list of texts.
    List(Vec<String>),
    /// Text of a type not yet known, as in variables of the environment.
    Written(String),
    /// Anything else, by the name of its kind.
    Other(&'static str),
}

impl From<&toml::Value> for RawValue {
    fn from(value: &toml::Value) -> Self {
        match value {
            toml::Value::String(text) => Self::Text(text.clone()),
            toml::Value::Integer(number) => Self::Whole(*number),
            toml::Value::Boolean(boolean) => Self::Boolean(*boolean),
            toml::Value::Array(values) => {
                let texts = values.iter().map(|value| value.as_str().map(str::to_owned));
                texts.collect::<Option<_>>().map_or(Self::Other("a list"), Self::List)
            }
            toml::Value::Float(_) => Self::Other("a number with a point"),
            toml::Value::Datetime(_) => Self::Other("a time"),
            toml::Value::Table(_) => Self::Other("a table"),
        }
    }
}

impl RawValue {
    /// Reads a list in the form of a variable: separated by commas, with optional blanks around them.
    #[must_use]
    pub(crate) fn separated(text: &str) -> Self {
        Self::List(text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect())
    }

    /// Returns the value as an error message shows it.
    fn describe(&self) -> String {
        match self {
            Self::Text(text) | Self::Written(text) if text.chars().count() > 100 => "a long text".to_owned(),
            Self::Text(text) | Self::Written(text) => format!("'{}'", text.escape_debug()),
            Self::Whole(number) => number.to_string(),
            Self::Boolean(boolean) => boolean.to_string(),
            Self::List(_) => "a list".to_owned(),
            Self::Other(kind) => (*kind).to_owned(),
        }
    }

    fn wrong(&self, expected: &'static str) -> SettingError {
        SettingError::WrongKind { given: self.describe(), expected }
    }

    pub(crate) fn boolean(&self) -> Result<bool, SettingError> {
        let wrong_type = || self.wrong("true or false");
        match self {
            Self::Boolean(boolean) => Ok(*boolean),
            Self::Text(text) | Self::Written(text) => {
                text.trim().to_ascii_lowercase().parse().map_err(|_| wrong_type())
            }
            _ => Err(wrong_type()),
        }
    }

    pub(crate) fn whole_number(&self, bounds: RangeInclusive<u64>) -> Result<u64, SettingError> {
        let number = match self {
            Self::Whole(number) => u64::try_from(*number).ok(),
            Self::Written(text) => text.trim().parse().ok(),
            _ => None,
        };
        let (least, most) = (*bounds.start(), *bounds.end());
        let out_of_bounds = || SettingError::OutOfBounds { given: self.describe(), least, most };
        number.filter(|number| bounds.contains(number)).ok_or_else(out_of_bounds)
    }

    pub(crate) fn text(&self) -> Result<String, SettingError> {
        match self {
            Self::Text(text) | Self::Written(text) => Ok(text.clone()),
            _ => Err(self.wrong("text")),
        }
    }

    pub(crate) fn list(&self) -> Result<Vec<String>, SettingError> {
        match self {
            Self::List(texts) => Ok(texts.clone()),
            _ => Err(self.wrong("a list of texts")),
        }
    }
}
