//! Errors of a service's settings.

use steplatch_secret::SourceError;

use super::keys;
use super::token::TokenError;
use crate::filter::{MAX_PATTERN_CHARS, MAX_PATTERNS};

/// An invalid setting with the allowed values, as a fragment without a full stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// The name of a service has invalid characters, or too many characters.
    #[error("must be 1 to 64 letters, digits, '.', '_' or '-'")]
    Name,
    /// No setting has this key.
    #[error("is unknown; the keys are {}", keys::list_names())]
    UnknownKey,
    /// The value of a variable is not UTF-8.
    #[error("is not UTF-8 text")]
    NotUtf8,
    /// The value has the wrong type.
    #[error("is {value}, but must be {expected}")]
    WrongKind {
        /// The value as displayed, shortened if it is long.
        value: String,
        /// The expected type.
        expected: &'static str,
    },
    /// The value is not a whole number within the bounds.
    #[error("is {value}, but must be a whole number from {min} to {max}")]
    OutOfBounds {
        /// The value as displayed, shortened if it is long.
        value: String,
        /// Minimum value of the key.
        min: u64,
        /// Maximum value of the key.
        max: u64,
    },
    /// The filter has too many patterns.
    #[error("has {count} patterns, but may have at most {MAX_PATTERNS}")]
    TooManyPatterns {
        /// Number of patterns.
        count: usize,
    },
    /// A pattern of the filter is empty or too long.
    #[error("has the pattern '{}', but each pattern must have 1 to {MAX_PATTERN_CHARS} characters", .beginning.escape_debug())]
    PatternLength {
        /// The first 20 characters of the pattern.
        beginning: String,
    },
    /// The text is not a URL.
    #[error("is not a URL; it {URL_FORM}")]
    NotUrl,
    /// The URL has a user or a password.
    #[error("has credentials in its URL; configure them as the token instead")]
    UrlCredentials,
    /// The URL has a query or a fragment.
    #[error("has a '?' or a '#' in its URL; only a path may follow the host")]
    UrlQuery,
    /// The URL is not safe for a token.
    #[error("is '{url}', but {URL_FORM}")]
    UrlScheme {
        /// The URL as configured.
        url: String,
    },
    /// The token is not text.
    #[error("{}", SourceError::Form)]
    TokenForm,
    /// The token is unusable.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The service is enabled and has no URL.
    #[error("is missing, but the service is enabled; set it to the URL of the service")]
    NoUrl,
}

/// Required form of a URL that receives a token.
const URL_FORM: &str = "must be a URL with https, or with http on loopback, such as https://flows.example.com/team";
