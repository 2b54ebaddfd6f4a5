//! Tokens: their sources, and their removal from texts.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use tokio::io::AsyncReadExt as _;

/// Valid forms of a token in a settings file.
pub(super) const TOKEN_FORMS: &str =
    "must be env:NAME, file:PATH or keyring:NAME; a settings file must not contain the token itself";

/// Time limit of reading a keyring. A locked keyring waits for a person.
const KEYRING_TIMEOUT: Duration = Duration::from_secs(10);

/// Valid lengths of a token in bytes. A shorter one could occur in other text by chance.
const TOKEN_BYTES: std::ops::RangeInclusive<usize> = 4..=8_192;

/// The placeholder that replaces a token.
const MASK: &str = "••••••";

/// Source of a token. Debug output never shows the token.
#[derive(Clone, PartialEq, Eq)]
pub enum Token {
    /// The token itself, from an environment variable.
    Value(String),
    /// The environment variable that contains the token: `env:NAME`.
    Environment(String),
    /// The file that contains the token, read on use: `file:PATH`.
    File(PathBuf),
    /// The name of the token in the user's keyring: `keyring:NAME`.
    Keyring(String),
}

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Value(_) => formatter.write_str("Value(…)"),
            Self::Environment(name) => write!(formatter, "Environment({name})"),
            Self::File(path) => write!(formatter, "File({})", path.display()),
            Self::Keyring(name) => write!(formatter, "Keyring({name})"),
        }
    }
}

/// Error of reading a token. Its text contains neither the token nor text that may be a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The text has none of the three forms.
    #[error("{TOKEN_FORMS}")]
    Form,
    /// The path of the file is relative, so it depends on the working directory.
    #[error("has a relative path; use an absolute path, or a path that begins with ~/")]
    Relative,
    /// The variable is not set.
    #[error("the variable {0} is not set in the environment of the daemon")]
    NotSet(String),
    /// The file is unreadable.
    #[error("the token cannot be read from {}: {reason}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Reason for the failure.
        reason: String,
    },
    /// The keyring has no such token, or there is no keyring.
    #[error("{0}")]
    Keyring(String),
    /// The value is unusable as a token.
    #[error(
        "cannot be sent as a token: it must be {} to {} visible ASCII characters on one line",
        TOKEN_BYTES.start(), TOKEN_BYTES.end()
    )]
    Unusable,
}

impl Token {
    /// Parses a source: `env:NAME`, `file:PATH` or `keyring:NAME`. A path after `~/` is in the home directory.
    ///
    /// # Errors
    ///
    /// For any other text. The text may be a token, so the error does not contain it.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let is_name = |name: &str| {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
            (1..=200).contains(&name.len()) && name.bytes().all(is_part)
        };
        match text.split_once(':') {
            Some(("env", name)) if is_name(name) => Ok(Self::Environment(name.to_owned())),
            Some(("keyring", name)) if is_name(name) => Ok(Self::Keyring(name.to_owned())),
            Some(("file", path)) if !path.is_empty() && !path.contains('\0') => {
                let path = match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
                    (Some(relative), Some(home)) => Path::new(&home).join(relative),
                    _ => PathBuf::from(path),
                };
                if path.is_absolute() { Ok(Self::File(path)) } else { Err(TokenError::Relative) }
            }
            _ => Err(TokenError::Form),
        }
    }

    /// Returns the source of the token, as displayed to people.
    #[must_use]
    pub fn reference(&self) -> String {
        match self {
            Self::Value(_) => "in WORKFLOWS_API_TOKEN".to_owned(),
            Self::Environment(name) => format!("env:{name}"),
            Self::File(path) => format!("file:{}", path.display()),
            Self::Keyring(name) => format!("keyring:{name}"),
        }
    }

    /// Reads the token from its source on each call. Reads a keyring with `secret-tool`, the program of the Secret
    /// Service (<https://specifications.freedesktop.org/secret-service/>), for at most ten seconds.
    ///
    /// # Errors
    ///
    /// If the token is missing, or invalid in a header.
    #[boxed]
    pub async fn resolve(&self) -> Result<Secret, TokenError> {
        match self {
            Self::Value(value) => Secret::new(value),
            Self::Environment(name) => match std::env::var_os(name).map(OsString::into_string) {
                Some(Ok(value)) if !value.is_empty() => Secret::new(&value),
                Some(Err(_)) => Err(TokenError::Unusable),
                _ => Err(TokenError::NotSet(name.clone())),
            },
            Self::File(path) => {
                let path = path.clone();
                let read_task = tokio::task::spawn_blocking(move || read_file(&path));
                read_task.await.unwrap_or(Err(TokenError::Unusable))
            }
            Self::Keyring(name) => read_keyring(name, "secret-tool").await,
        }
    }
}

fn read_file(path: &Path) -> Result<Secret, TokenError> {
    let file_error = |reason: String| TokenError::File { path: path.to_owned(), reason };
    let io_error = |error: std::io::Error| file_error(error.to_string());
    // Reading a pipe would block until a process writes to it.
    if !std::fs::metadata(path).map_err(io_error)?.is_file() {
        return Err(file_error("it is not a file".to_owned()));
    }
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(io_error)?;
    file.take(*TOKEN_BYTES.end() as u64 + 3).read_to_string(&mut text).map_err(io_error)?;
    Secret::new(&text)
}

async fn read_keyring(name: &str, program: &str) -> Result<Secret, TokenError> {
    let mut command = tokio::process::Command::new(program);
    command.args(["lookup", "service", "steplatch", "name", name]).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => TokenError::Keyring(
            "the keyring requires the program secret-tool, which is not installed; install the package \
             libsecret-tools or libsecret"
                .to_owned(),
        ),
        _ => TokenError::Keyring(format!("secret-tool did not start: {error}")),
    })?;
    let mut text = String::new();
    let output = async {
        let stdout = child.stdout.take().expect("the output is a pipe");
        stdout.take(*TOKEN_BYTES.end() as u64 + 3).read_to_string(&mut text).await?;
        child.wait().await
    };
    match tokio::time::timeout(KEYRING_TIMEOUT, output).await {
        Ok(Ok(status)) if status.success() && !text.is_empty() => Secret::new(&text),
        Ok(Ok(_)) => Err(TokenError::Keyring(format!(
            "the keyring has no token '{name}'; store it with: secret-tool store --label='steplatch {name}' service \
             steplatch name {name}"
        ))),
        Ok(Err(error)) => Err(TokenError::Keyring(format!("the output of secret-tool cannot be read: {error}"))),
        Err(_) => Err(TokenError::Keyring(format!(
            "the keyring did not respond within {} seconds; unlock it if it is locked",
            KEYRING_TIMEOUT.as_secs()
        ))),
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

    // Other programs in place of `secret-tool`: `printf` prints its first argument, `false` fails, and another program
    // is missing.
    #[tokio::test]
    async fn keyring_is_queried_with_its_program() {
        let lookup = async |program| read_keyring("work", program).await;
        assert_eq!(lookup("printf").await, Secret::new("lookup"));
        let error_text = async |program| lookup(program).await.expect_err("no token").to_string();
        assert!(
            error_text("false")
                .await
                .contains("secret-tool store --label='steplatch work' service steplatch name work")
        );
        assert!(error_text("steplatch-no-such-program").await.contains("which is not installed"));
        assert_eq!(lookup("echo").await, Err(TokenError::Unusable));
        assert!(lookup("yes").await.is_err(), "endless output is rejected");
    }
}
