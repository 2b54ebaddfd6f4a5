//! Sources of secrets: references in a settings file, which contains no secret itself.
//!
//! This crate parses references and reads their values. It stores nothing, and its errors contain no text that may be a
//! secret.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;

/// Valid forms of a reference.
pub const SOURCE_FORMS: &str =
    "env:NAME, file:PATH, keyring:NAME, secret-tool:ATTRIBUTE VALUE …, pass:NAME or command:PROGRAM ARGUMENT …";

/// Time limit of a program. A locked keyring waits for a person.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum length of a secret, in bytes.
pub const MAX_SECRET_BYTES: usize = 8_192;

/// Source of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// An environment variable: `env:NAME`.
    Environment(String),
    /// The content of a file, read on use: `file:PATH`.
    File(PathBuf),
    /// A secret of the user's keyring with the attributes `service steplatch name NAME`: `keyring:NAME`.
    Keyring(String),
    /// A secret of the user's keyring with these attributes and values: `secret-tool:ATTRIBUTE VALUE …`.
    SecretTool(Vec<String>),
    /// The first line of an entry of the password store (<https://www.passwordstore.org>): `pass:NAME`.
    Pass(String),
    /// The output of a program, without a shell: `command:PROGRAM ARGUMENT …`.
    Command(Vec<String>),
}

/// Error of parsing a reference, or of reading its value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The text has none of the forms.
    #[error("must be {SOURCE_FORMS}; a settings file must not contain the secret itself")]
    Form,
    /// The path of the file is relative, so it depends on the working directory.
    #[error("has a relative path; use an absolute path, or a path that begins with ~/")]
    Relative,
    /// The variable is not set, or not text.
    #[error("the variable {0} is not set in the environment of the daemon")]
    NotSet(String),
    /// The file is unreadable.
    #[error("the file {} cannot be read: {reason}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Reason for the failure.
        reason: String,
    },
    /// The program is not installed, failed, or did not end in time.
    #[error("{0}")]
    Program(String),
    /// The value is empty, too long, or not text.
    #[error("{0} has no usable value: it must be text of 1 to {MAX_SECRET_BYTES} bytes")]
    Unusable(String),
}

impl SecretSource {
    /// Parses a reference. A path after `~/` is in the home directory.
    ///
    /// # Errors
    ///
    /// For any other text. The text may be a secret, so the error does not contain it.
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let (kind, rest) = text.split_once(':').ok_or(SourceError::Form)?;
        if rest.trim().is_empty() || rest.contains('\0') {
            return Err(SourceError::Form);
        }
        match kind {
            "env" if is_name(rest) => Ok(Self::Environment(rest.to_owned())),
            "keyring" if is_name(rest) => Ok(Self::Keyring(rest.to_owned())),
            "file" => {
                let path = match (rest.strip_prefix("~/"), std::env::var_os("HOME")) {
                    (Some(relative), Some(home)) => Path::new(&home).join(relative),
                    _ => PathBuf::from(rest),
                };
                if path.is_absolute() { Ok(Self::File(path)) } else { Err(SourceError::Relative) }
            }
            "secret-tool" => match shell_words::split(rest) {
                Ok(words) if words.len() % 2 == 0 && words.iter().step_by(2).all(|word| is_name(word)) => {
                    Ok(Self::SecretTool(words))
                }
                _ => Err(SourceError::Form),
            },
            // An option would be executed as one.
            "pass" if !rest.starts_with('-') => Ok(Self::Pass(rest.to_owned())),
            "command" => match shell_words::split(rest) {
                Ok(words) if words.first().is_some_and(|program| !program.is_empty()) => Ok(Self::Command(words)),
                _ => Err(SourceError::Form),
            },
            _ => Err(SourceError::Form),
        }
    }

    /// Returns whether reading the value runs a program, which takes long.
    #[must_use]
    pub fn runs_program(&self) -> bool {
        !matches!(self, Self::Environment(_) | Self::File(_))
    }

    /// Returns the reference, as displayed to people.
    #[must_use]
    pub fn reference(&self) -> String {
        match self {
            Self::Environment(name) => format!("env:{name}"),
            Self::File(path) => format!("file:{}", path.display()),
            Self::Keyring(name) => format!("keyring:{name}"),
            Self::SecretTool(words) => format!("secret-tool:{}", shell_words::join(words)),
            Self::Pass(name) => format!("pass:{name}"),
            Self::Command(words) => format!("command:{}", shell_words::join(words)),
        }
    }

    /// Reads the value from its source on each call, without the final newline. `variable` returns a variable of the
    /// environment. Programs run for at most 30 seconds: a keyring is read with `secret-tool`, the program of the Secret
    /// Service (<https://specifications.freedesktop.org/secret-service/>).
    ///
    /// # Errors
    ///
    /// If the value is missing or unusable.
    pub async fn read(&self, variable: impl Fn(&str) -> Option<OsString>) -> Result<String, SourceError> {
        match self {
            Self::Environment(name) => match variable(name).map(OsString::into_string) {
                Some(Ok(value)) if !value.is_empty() => self.usable(value),
                Some(Err(_)) => Err(self.unusable()),
                _ => Err(SourceError::NotSet(name.clone())),
            },
            Self::File(path) => {
                let path = path.clone();
                let read_task = tokio::task::spawn_blocking(move || read_file(&path));
                self.usable(read_task.await.unwrap_or_else(|_| Err(self.unusable()))?)
            }
            Self::Keyring(name) => {
                self.look_up("secret-tool", &["service", "steplatch", "name", name].map(str::to_owned)).await
            }
            Self::SecretTool(words) => self.look_up("secret-tool", words).await,
            Self::Pass(name) => {
                let output = self.output("pass", &["show".to_owned(), name.clone()]).await?;
                match output {
                    (status, text) if status.success() => self.usable(text.lines().next().unwrap_or_default().into()),
                    (status, _) => Err(SourceError::Program(format!(
                        "pass show {} failed ({status}); try the command in a terminal",
                        shell_words::quote(name)
                    ))),
                }
            }
            Self::Command(words) => {
                let (program, arguments) = words.split_first().ok_or(SourceError::Form)?;
                match self.output(program, arguments).await? {
                    (status, text) if status.success() => self.usable(text),
                    (status, _) => Err(SourceError::Program(format!(
                        "{program} failed ({status}); try the command in a terminal: {}",
                        shell_words::join(words)
                    ))),
                }
            }
        }
    }

    /// Reads a keyring with `program`, which has the command line of `secret-tool`.
    async fn look_up(&self, program: &str, attributes: &[String]) -> Result<String, SourceError> {
        let arguments: Vec<String> = std::iter::once("lookup".to_owned()).chain(attributes.iter().cloned()).collect();
        match self.output(program, &arguments).await? {
            (status, text) if status.success() && !text.is_empty() => self.usable(text),
            _ => {
                let attributes = shell_words::join(attributes);
                let name = self.reference();
                Err(SourceError::Program(format!(
                    "the keyring has no secret '{name}'; store it with: secret-tool store --label=steplatch {attributes}"
                )))
            }
        }
    }

    /// Returns the result and the output of a program.
    async fn output(&self, program: &str, arguments: &[String]) -> Result<(ExitStatus, String), SourceError> {
        let mut command = tokio::process::Command::new(program);
        command.args(arguments).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let error = |problem: String| SourceError::Program(format!("{program} {problem}"));
        let mut child = command.spawn().map_err(|cause| match (cause.kind(), program) {
            (std::io::ErrorKind::NotFound, "secret-tool") => error(
                "is not installed, and reads the keyring; install the package libsecret-tools or libsecret".to_owned(),
            ),
            (std::io::ErrorKind::NotFound, _) => error("is not installed".to_owned()),
            _ => error(format!("did not start: {cause}")),
        })?;
        let mut bytes = Vec::new();
        let output = async {
            let stdout = child.stdout.take().expect("the output is a pipe");
            stdout.take(MAX_SECRET_BYTES as u64 + 3).read_to_end(&mut bytes).await?;
            // A program with more output is killed.
            if bytes.len() > MAX_SECRET_BYTES + 2 { Ok(None) } else { child.wait().await.map(Some) }
        };
        match tokio::time::timeout(PROGRAM_TIMEOUT, output).await {
            Ok(Ok(None)) => Err(self.unusable()),
            Ok(Ok(Some(status))) => {
                let text = String::from_utf8(bytes).map_err(|_| self.unusable())?;
                Ok((status, text))
            }
            Ok(Err(cause)) => Err(error(format!("has output that cannot be read: {cause}"))),
            Err(_) => Err(error(format!(
                "did not end within {} seconds; if it waits for a person, unlock its store first",
                PROGRAM_TIMEOUT.as_secs()
            ))),
        }
    }

    /// Returns a value without its final newline, which editors and programs add.
    fn usable(&self, mut text: String) -> Result<String, SourceError> {
        if text.ends_with('\n') {
            text.pop();
            if text.ends_with('\r') {
                text.pop();
            }
        }
        if text.is_empty() || text.len() > MAX_SECRET_BYTES || text.contains('\0') {
            return Err(self.unusable());
        }
        Ok(text)
    }

    fn unusable(&self) -> SourceError {
        SourceError::Unusable(self.reference())
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=200).contains(&name.len()) && name.bytes().all(is_part)
}

fn read_file(path: &Path) -> Result<String, SourceError> {
    let file_error = |reason: String| SourceError::File { path: path.to_owned(), reason };
    let io_error = |error: std::io::Error| file_error(error.to_string());
    // Reading a pipe would block until a process writes to it.
    if !std::fs::metadata(path).map_err(io_error)?.is_file() {
        return Err(file_error("it is not a file".to_owned()));
    }
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(io_error)?;
    file.take(MAX_SECRET_BYTES as u64 + 3).read_to_string(&mut text).map_err(io_error)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> SecretSource {
        SecretSource::parse(text).expect(text)
    }

    async fn read(text: &str) -> Result<String, SourceError> {
        source(text).read(|name| (name == "SET").then(|| "value".into())).await
    }

    #[test]
    fn references_are_parsed_and_shown_unchanged() {
        for text in [
            "env:A_B",
            "file:/run/a b",
            "keyring:work",
            "secret-tool:service github user 'ana b'",
            "pass:web/example.com",
            "command:op read 'op://vault/item one/password'",
        ] {
            assert_eq!(source(text).reference(), text);
        }
        for text in [
            "",
            "hunter2",
            "env:",
            "env:A B",
            "keyring:a/b",
            "secret-tool:service",
            "secret-tool:'",
            "pass:-c",
            "command:",
            "command: ",
            "command:''",
            "command:'",
            "vault:x",
            "env:A\0",
        ] {
            assert_eq!(SecretSource::parse(text), Err(SourceError::Form), "{text}");
        }
        assert_eq!(SecretSource::parse("file:relative"), Err(SourceError::Relative));
    }

    #[tokio::test]
    async fn values_are_read_without_the_final_newline() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("key");
        for (content, value) in
            [("a b", "a b"), ("a b\n", "a b"), ("one\r\n", "one"), ("two\nlines\n\n", "two\nlines\n")]
        {
            std::fs::write(&file, content).expect("a file");
            assert_eq!(read(&format!("file:{}", file.display())).await.as_deref(), Ok(value));
        }
        assert_eq!(read("env:SET").await.as_deref(), Ok("value"));
        assert_eq!(read("command:printf '%s\\n' 'a b'").await.as_deref(), Ok("a b"));
    }

    #[tokio::test]
    async fn errors_name_the_source_and_the_next_step() {
        let directory = tempfile::tempdir().expect("a directory");
        let text = async |reference: &str| read(reference).await.expect_err(reference).to_string();
        assert_eq!(text("env:UNSET").await, "the variable UNSET is not set in the environment of the daemon");
        assert!(text(&format!("file:{}", directory.path().display())).await.ends_with("it is not a file"));
        assert_eq!(
            text("command:sh -c 'echo hunter2; exit 3' x").await,
            "sh failed (exit status: 3); try the command in a terminal: sh -c 'echo hunter2; exit 3' x"
        );
        assert_eq!(text("command:steplatch-no-such-program").await, "steplatch-no-such-program is not installed");
        for unusable in ["command:true", "command:yes", "command:printf '\\377'"] {
            assert!(text(unusable).await.contains("has no usable value"), "{unusable}");
        }
    }

    // Other programs in place of `secret-tool`: `printf` prints its first argument, and `false` fails.
    #[tokio::test]
    async fn keyring_is_queried_with_its_program() {
        let keyring = source("keyring:work");
        let attributes = ["service", "steplatch", "name", "work"].map(str::to_owned);
        assert_eq!(keyring.look_up("printf", &attributes).await.as_deref(), Ok("lookup"));
        let error = keyring.look_up("false", &attributes).await.expect_err("no secret").to_string();
        assert!(error.ends_with("secret-tool store --label=steplatch service steplatch name work"), "{error}");
    }
}
