//! Reasons why a setting of a service is invalid.

use super::keys;
use super::token::{FORMS, TokenError};
use crate::filter::{MAX_PATTERN_CHARS, MAX_PATTERNS};

/// The problem of a setting and the allowed values, without a full stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// The name of a service has other characters, or too many of them.
    #[error("must be 1 to 64 letters, digits, '.', '_' or '-'")]
    Name,
    /// No setting has this key.
    #[error("is not known; the keys are {}", keys::names())]
    UnknownKey,
    /// The value of a variable is not UTF-8.
    #[error("is no text in UTF-8")]
    NotUtf8,
    /// The value is of another kind.
    #[error("is {given}, and must be {expected}")]
    WrongKind {
        /// The value, shortened for people.
        given: String,
        /// The kind that the key takes.
        expected: &'static str,
    },
    /// The value is not a whole number within the bounds.
    #[error("is {given}, and must be a whole number from {least} to {most}")]
    OutOfBounds {
        /// The value, shortened for people.
        given: String,
        /// The least value of the key.
        least: u64,
        /// Its largest value.
        most: u64,
    },
    /// The filter has too many patterns.
    #[error("has {count} patterns, and may have up to {MAX_PATTERNS}")]
    TooManyPatterns {
        /// The number of patterns.
        count: usize,
    },
    /// A pattern of the filter is empty or too long.
    #[error("has the pattern '{}', and each must have 1 to {MAX_PATTERN_CHARS} characters", .beginning.escape_debug())]
    PatternLength {
        /// The first 20 characters of the pattern.
        beginning: String,
    },
    /// The text is not a URL.
    #[error("is no URL; it {URL_FORM}")]
    NotUrl,
    /// The URL has a user or a password.
    #[error("has credentials in its URL; write them as the token")]
    UrlCredentials,
    /// The URL has a query or a fragment.
    #[error("has a '?' or a '#' in its URL; only a path may follow the host")]
    UrlQuery,
    /// The URL leads to where no token may go.
    #[error("is '{url}', and {URL_FORM}")]
    UrlScheme {
        /// The URL as written.
        url: String,
    },
    /// The token is not text.
    #[error("{FORMS}")]
    TokenForm,
    /// The token is unusable.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The service is enabled and has no URL.
    #[error("is missing, and the service is enabled; say where it is")]
    NoUrl,
}

/// Required form of a URL that receives a token.
const URL_FORM: &str = "must be a URL with https, or with http on loopback, such as https://flows.example.com/team";
