//! Tokens: their sources, and their removal from texts.

use steplatch_secret::{MAX_SECRET_BYTES, SecretSource, SourceError};

/// Valid lengths of a token in bytes. A shorter one could occur in other text by chance.
const TOKEN_BYTES: std::ops::RangeInclusive<usize> = 4..=MAX_SECRET_BYTES;

/// The placeholder that replaces a token.
const MASK: &str = "••••••";

/// Source of a token. Debug output never shows the token.
#[derive(Clone, PartialEq, Eq)]
pub enum Token {
    /// The token itself, from an environment variable.
    Value(String),
    /// A reference in a settings file.
    Source(SecretSource),
}

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Value(_) => formatter.write_str("Value(…)"),
            Self::Source(source) => source.fmt(formatter),
        }
    }
}

/// Error of reading a token. Its text contains neither the token nor text that may be a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The reference is invalid, or its value is missing.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The value is unusable as a token.
    #[error(
        "cannot be sent as a token: it must be {} to {} visible ASCII characters on one line",
        TOKEN_BYTES.start(), TOKEN_BYTES.end()
    )]
    Unusable,
}

impl Token {
    /// Parses a reference to a token.
    ///
    /// # Errors
    ///
    /// For any other text. The text may be a token, so the error does not contain it.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        Ok(Self::Source(SecretSource::parse(text)?))
    }

    /// Returns the source of the token, as displayed to people.
    #[must_use]
    pub fn reference(&self) -> String {
        match self {
            Self::Value(_) => "in WORKFLOWS_API_TOKEN".to_owned(),
            Self::Source(source) => source.reference(),
        }
    }

    /// Returns whether reading the token runs a program, which takes long.
    #[must_use]
    pub fn runs_program(&self) -> bool {
        matches!(self, Self::Source(source) if source.runs_program())
    }

    /// Reads the token from its source on each call.
    ///
    /// # Errors
    ///
    /// If the token is missing, or invalid in a header.
    pub async fn resolve(&self) -> Result<Secret, TokenError> {
        match self {
            Self::Value(value) => Secret::new(value),
            Self::Source(source) => Secret::new(&source.read(|name| std::env::var_os(name)).await?),
        }
    }
}

/// A token, to send with requests and to remove from answers.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

impl Secret {
    /// Checks a token and removes the final newline of editors.
    ///
    /// # Errors
    ///
    /// If the token is invalid in a header: too short, too long, or not made of visible ASCII characters.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        let is_usable = TOKEN_BYTES.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_usable { Ok(Self(text.to_owned())) } else { Err(TokenError::Unusable) }
    }

    /// Returns the text of the token, for requests and for masking.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Replaces the token in a text, even in its JSON form. If invisible characters within the token hide it, removes
    /// all invisible characters from the text.
    #[must_use]
    pub fn mask(&self, text: &str) -> String {
        if !text.is_ascii() || text.contains(char::is_control) {
            let visible = visible_text(text);
            if visible.contains(&self.0) && !text.contains(&self.0) {
                return visible.replace(&self.0, MASK);
            }
        }
        let masked = text.replace(&self.0, MASK);
        let quoted = serde_json::Value::from(self.0.as_str()).to_string();
        masked.replace(&quoted[1..quoted.len() - 1], MASK)
    }

    /// Replaces the token in every text of a value, including the names of fields.
    #[must_use]
    pub fn mask_value(&self, value: serde_json::Value) -> serde_json::Value {
        use serde_json::Value;
        match value {
            Value::String(text) => self.mask(&text).into(),
            Value::Array(values) => values.into_iter().map(|value| self.mask_value(value)).collect(),
            Value::Object(fields) => {
                fields.into_iter().map(|(name, value)| (self.mask(&name), self.mask_value(value))).collect()
            }
            scalar => scalar,
        }
    }
}

/// Returns a text without invisible characters.
fn visible_text(text: &str) -> String {
    crate::text::clean(text, usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_with_invisible_characters_is_found() {
        let secret = Secret::new("FLOWTOKEN-99887766").expect("a token");
        for text in
            ["a FLOWTOKEN-99887766 b", "a FLOWTO\u{200b}KEN-998\u{1b}[31m87766 b", "a FLOW\u{ad}TOKEN-99887766 b"]
        {
            let masked = secret.mask(text);
            assert!(masked.starts_with("a ") && masked.ends_with(" b") && masked.len() < 24, "{masked:?}");
            let masked = secret.mask_value(serde_json::json!([{text: text}]));
            assert!(!visible_text(&masked.to_string()).contains(secret.expose()), "{masked}");
        }
        assert_eq!(secret.mask("a\u{200b}b"), "a\u{200b}b", "text without a token is unchanged");
    }
}
