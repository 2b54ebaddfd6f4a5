//! The token of requests.
//!
//! Owns the file `http-token` of the state directory: 256 random bits, readable by their owner only. The server reads
//! the file again after each change, so it rejects a replaced token immediately. A token from the environment takes
//! precedence over the file and leaves it unchanged.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;

/// Number of random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// Minimum length of a token from the environment, in characters.
const MIN_TOKEN_CHARS: usize = 16;

/// Maximum length of a token from the environment, in characters.
const MAX_TOKEN_CHARS: usize = 512;

/// Failure to read or create a token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file is unusable.
    #[error("the token file '{}' is not usable: {source}", .file.display())]
    File {
        /// Path of the file.
        file: PathBuf,
        /// Error from the system.
        #[source]
        source: io::Error,
    },
    /// Other users can read the file.
    #[error("the token in '{}' is readable by other users; create a new one with: steplatch serve token --new", .0.display())]
    Exposed(PathBuf),
    /// The text is not a token.
    #[error("{0} must be {MIN_TOKEN_CHARS} to {MAX_TOKEN_CHARS} visible ASCII characters without spaces")]
    Invalid(String),
}

/// Returns the file of the token of a state directory.
#[must_use]
pub fn token_file(state: &Path) -> PathBuf {
    state.join("http-token")
}

/// The token that a server requires.
#[derive(Debug)]
pub struct Token {
    source: TokenSource,
}

#[derive(Debug)]
enum TokenSource {
    /// A token for the lifetime of the process.
    Memory(Secret),
    /// A token in a file, with the last version read.
    File(PathBuf, Mutex<Option<(FileVersion, Secret)>>),
}

/// The text of a token. Its debug output hides it.
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Secret(…)")
    }
}

/// Identifies a version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    inode: u64,
    modified: (i64, i64),
}

impl FileVersion {
    fn read(file: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(file)?;
        Ok(Self { inode: metadata.ino(), modified: (metadata.mtime(), metadata.mtime_nsec()) })
    }
}

impl Token {
    /// Uses a token; `name` is its name in error messages.
    ///
    /// # Errors
    /// If the token is too short, or invalid in a header.
    pub fn from_text(text: &str, name: &str) -> Result<Self, TokenError> {
        if !is_valid(text) {
            return Err(TokenError::Invalid(name.to_owned()));
        }
        Ok(Self { source: TokenSource::Memory(Secret(text.to_owned())) })
    }

    /// Returns the token of a state directory. Creates a missing token, and then also returns its text.
    ///
    /// # Errors
    /// If reading or creating the file fails, or other users can read it.
    pub fn read_or_create(state: &Path) -> Result<(Self, Option<String>), TokenError> {
        let file = token_file(state);
        let new_text = match fs::symlink_metadata(&file) {
            Ok(metadata) if !metadata.is_file() => {
                let source = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
                return Err(TokenError::File { file, source });
            }
            Ok(metadata) if metadata.mode() & 0o077 != 0 => return Err(TokenError::Exposed(file)),
            Ok(_) => None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => create(&file, false)?,
            Err(source) => return Err(TokenError::File { file, source }),
        };
        let token = Self { source: TokenSource::File(file.clone(), Mutex::default()) };
        // Report an unreadable file now rather than at each request.
        read(&file)?;
        Ok((token, new_text))
    }

    /// Creates a new token for a state directory and returns its text. The server then rejects the old one.
    ///
    /// # Errors
    /// If writing the file fails.
    pub fn renew(state: &Path) -> Result<String, TokenError> {
        Ok(create(&token_file(state), true)?.expect("a token that may replace another is always created"))
    }

    /// Returns whether `text` is the token, in constant time for strings of the same length.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let is_equal = |secret: &Secret| bool::from(secret.0.as_bytes().ct_eq(text.as_bytes()));
        match &self.source {
            TokenSource::Memory(secret) => is_equal(secret),
            TokenSource::File(file, cached) => {
                let mut cached = cached.lock();
                let current = match FileVersion::read(file) {
                    Ok(current) => current,
                    Err(error) => {
                        tracing::warn!(file = %file.display(), %error, "failed to check the token file; requests are refused");
                        return false;
                    }
                };
                if cached.as_ref().is_none_or(|(version, _)| *version != current) {
                    *cached = match read(file) {
                        Ok(secret) => Some((current, secret)),
                        Err(error) => {
                            tracing::warn!(%error, "failed to read the token; requests are refused");
                            None
                        }
                    };
                }
                cached.as_ref().is_some_and(|(_, secret)| is_equal(secret))
            }
        }
    }
}

fn is_valid(text: &str) -> bool {
    (MIN_TOKEN_CHARS..=MAX_TOKEN_CHARS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn read(file: &Path) -> Result<Secret, TokenError> {
    let text = fs::read_to_string(file).map_err(|source| TokenError::File { file: file.to_owned(), source })?;
    let text = text.trim();
    if !is_valid(text) {
        return Err(TokenError::Invalid(format!("the token in '{}'", file.display())));
    }
    Ok(Secret(text.to_owned()))
}

/// Creates a token in `file` atomically. Returns `None` if the file exists and `replace` is false.
fn create(file: &Path, replace: bool) -> Result<Option<String>, TokenError> {
    let file_error = |source| TokenError::File { file: file.to_owned(), source };
    let mut random = [0; TOKEN_BYTES];
    getrandom::fill(&mut random).map_err(|error| file_error(io::Error::other(error.to_string())))?;
    let text = format!("slt_{}", URL_SAFE_NO_PAD.encode(random));
    // Two processes that start at the same time write different files.
    let new_file = file.with_extension(format!("new-{}", std::process::id()));
    let _ = fs::remove_file(&new_file);
    let mut out =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new_file).map_err(file_error)?;
    out.write_all(format!("{text}\n").as_bytes()).and_then(|()| out.sync_all()).map_err(file_error)?;
    let result = match replace {
        true => fs::rename(&new_file, file),
        false => {
            let link_result = fs::hard_link(&new_file, file);
            let _ = fs::remove_file(&new_file);
            link_result
        }
    };
    match result {
        Ok(()) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(file_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn token_is_created_once_and_private() {
        let state = tempfile::tempdir().unwrap();
        let (token, text) = Token::read_or_create(state.path()).unwrap();
        let text = text.expect("a new token is returned");
        assert!(text.len() > 43 && token.matches(&text), "{text}");
        assert_eq!(fs::metadata(token_file(state.path())).unwrap().permissions().mode() & 0o777, 0o600);
        let (same_token, no_text) = Token::read_or_create(state.path()).unwrap();
        assert!(no_text.is_none() && same_token.matches(&text), "an existing token is not returned");
        for wrong in ["", "slt_", &text[1..], &format!("{text} "), &text.to_uppercase()] {
            assert!(!token.matches(wrong), "{wrong}");
        }
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 1, "no temporary file remains");
    }

    #[test]
    fn replaced_token_is_rejected() {
        let state = tempfile::tempdir().unwrap();
        let (token, old) = Token::read_or_create(state.path()).unwrap();
        let old = old.unwrap();
        assert!(token.matches(&old));
        let new = Token::renew(state.path()).unwrap();
        assert!(new != old && token.matches(&new) && !token.matches(&old));
        fs::remove_file(token_file(state.path())).unwrap();
        assert!(!token.matches(&new), "without a token file every token is rejected");
    }

    #[test]
    fn token_file_readable_by_others_is_refused() {
        let state = tempfile::tempdir().unwrap();
        Token::read_or_create(state.path()).unwrap();
        let file = token_file(state.path());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let error = Token::read_or_create(state.path()).unwrap_err().to_string();
        assert!(error.contains("readable by other users") && error.contains("serve token --new"), "{error}");
        Token::renew(state.path()).unwrap();
        assert!(Token::read_or_create(state.path()).is_ok());
    }

    #[test]
    fn invalid_token_is_refused_and_debug_output_is_redacted() {
        for invalid in ["", "short", "has a blank in it, and more", "ümlaut-ümlaut-ümlaut", &"x".repeat(513)] {
            let error = Token::from_text(invalid, "STEPLATCH_HTTP_TOKEN").unwrap_err().to_string();
            assert!(error.starts_with("STEPLATCH_HTTP_TOKEN must be"), "{error}");
        }
        let token = Token::from_text("0123456789abcdef", "the token").unwrap();
        assert!(token.matches("0123456789abcdef") && !format!("{token:?}").contains("0123"));
    }
}
