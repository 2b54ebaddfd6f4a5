//! The token that every request carries.
//!
//! Owns the file `http-token` of the state directory: 256 random bits, readable by their owner only. The server reads
//! the file again after each change, so it rejects a replaced token immediately. A token from the environment takes
//! precedence over the file, which stays unchanged.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;

/// The number of random bytes of a token.
const BYTES: usize = 32;

/// Minimum length of a token from the environment, in characters.
const MIN_TOKEN_CHARS: usize = 16;

/// Maximum length of such a token.
const MAX_TOKEN_CHARS: usize = 512;

/// Reason for the lack of a token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file is unusable.
    #[error("the token in '{}' cannot be used: {source}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Other users can read the file.
    #[error("others can read the token in '{}'; make a new one with: steplatch serve token --new", .0.display())]
    Exposed(PathBuf),
    /// The text is not a token.
    #[error("{0} must be {MIN_TOKEN_CHARS} to {MAX_TOKEN_CHARS} visible ASCII characters without blanks")]
    Unfit(String),
}

/// Returns the file of the token of a state directory.
#[must_use]
pub fn token_file(state: &Path) -> PathBuf {
    state.join("http-token")
}

/// The token that a server requires.
#[derive(Debug)]
pub struct Token {
    kept: StoredToken,
}

#[derive(Debug)]
enum StoredToken {
    /// A token for the lifetime of the process.
    Here(Secret),
    /// A token in a file, with the last read version.
    File(PathBuf, Mutex<Option<(Version, Secret)>>),
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
struct Version {
    inode: u64,
    modified: (i64, i64),
}

impl Version {
    fn read(file: &Path) -> io::Result<Self> {
        let found = fs::metadata(file)?;
        Ok(Self { inode: found.ino(), modified: (found.mtime(), found.mtime_nsec()) })
    }
}

impl Token {
    /// Uses a given token; `called` is its name in error messages.
    ///
    /// # Errors
    /// If it is too short, or invalid in a header.
    pub fn from_text(text: &str, called: &str) -> Result<Self, TokenError> {
        if !is_fit(text) {
            return Err(TokenError::Unfit(called.to_owned()));
        }
        Ok(Self { kept: StoredToken::Here(Secret(text.to_owned())) })
    }

    /// Returns the token of a state directory, whose file exists and is private. Returns its text too if it was just
    /// created.
    ///
    /// # Errors
    /// If reading or creating the file fails, or other users can read it.
    pub fn read_or_create(state: &Path) -> Result<(Self, Option<String>), TokenError> {
        let file = token_file(state);
        let made = match fs::symlink_metadata(&file) {
            Ok(found) if !found.is_file() => {
                let source = io::Error::new(io::ErrorKind::InvalidInput, "it is not a file");
                return Err(TokenError::File { file, source });
            }
            Ok(found) if found.mode() & 0o077 != 0 => return Err(TokenError::Exposed(file)),
            Ok(_) => None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(&file, false)?,
            Err(source) => return Err(TokenError::File { file, source }),
        };
        let token = Self { kept: StoredToken::File(file.clone(), Mutex::default()) };
        // Reports an unreadable file now rather than at each request.
        read(&file)?;
        Ok((token, made))
    }

    /// Creates a new token for a state directory, and returns its text. The server then rejects the old one.
    ///
    /// # Errors
    /// If writing the file fails.
    pub fn renew(state: &Path) -> Result<String, TokenError> {
        Ok(make(&token_file(state), true)?.expect("a token that replaces what is there is made"))
    }

    /// Returns whether `text` is the token, in constant time for texts of the same length.
    pub(crate) fn is(&self, text: &str) -> bool {
        let same = |secret: &Secret| bool::from(secret.0.as_bytes().ct_eq(text.as_bytes()));
        match &self.kept {
            StoredToken::Here(secret) => same(secret),
            StoredToken::File(file, known) => {
                let mut known = known.lock();
                let now = match Version::read(file) {
                    Ok(now) => now,
                    Err(error) => {
                        tracing::warn!(file = %file.display(), %error, "the token file cannot be checked");
                        return false;
                    }
                };
                if known.as_ref().is_none_or(|(version, _)| *version != now) {
                    *known = match read(file) {
                        Ok(secret) => Some((now, secret)),
                        Err(error) => {
                            tracing::warn!(%error, "the token cannot be read; requests are refused");
                            None
                        }
                    };
                }
                known.as_ref().is_some_and(|(_, secret)| same(secret))
            }
        }
    }
}

fn is_fit(text: &str) -> bool {
    (MIN_TOKEN_CHARS..=MAX_TOKEN_CHARS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn read(file: &Path) -> Result<Secret, TokenError> {
    let text = fs::read_to_string(file).map_err(|source| TokenError::File { file: file.to_owned(), source })?;
    let text = text.trim();
    if !is_fit(text) {
        return Err(TokenError::Unfit(format!("the token in '{}'", file.display())));
    }
    Ok(Secret(text.to_owned()))
}

/// Creates a token in `file` atomically. `None` if an existing one must stay.
fn make(file: &Path, replace: bool) -> Result<Option<String>, TokenError> {
    let failed = |source| TokenError::File { file: file.to_owned(), source };
    let mut random = [0; BYTES];
    getrandom::fill(&mut random).map_err(|error| failed(io::Error::other(error.to_string())))?;
    let text = format!("slt_{}", URL_SAFE_NO_PAD.encode(random));
    // Two processes that start at the same time write different files, and one of them is first.
    let new = file.with_extension(format!("new-{}", std::process::id()));
    let _ = fs::remove_file(&new);
    let mut out = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).map_err(failed)?;
    out.write_all(format!("{text}\n").as_bytes()).and_then(|()| out.sync_all()).map_err(failed)?;
    let existing = match replace {
        true => fs::rename(&new, file),
        false => {
            let linked = fs::hard_link(&new, file);
            let _ = fs::remove_file(&new);
            linked
        }
    };
    match existing {
        Ok(()) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_is_made_once_for_its_owner_only() {
        let state = tempfile::tempdir().unwrap();
        let (token, made) = Token::read_or_create(state.path()).unwrap();
        let made = made.expect("there was none");
        assert!(made.len() > 43 && token.is(&made), "{made}");
        assert_eq!(fs::metadata(token_file(state.path())).unwrap().permissions().mode() & 0o777, 0o600);
        let (again, none) = Token::read_or_create(state.path()).unwrap();
        assert!(none.is_none() && again.is(&made), "shown once");
        for wrong in ["", "slt_", &made[1..], &format!("{made} "), &made.to_uppercase()] {
            assert!(!token.is(wrong), "{wrong}");
        }
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn an_old_token_opens_nothing_once_it_is_replaced() {
        let state = tempfile::tempdir().unwrap();
        let (token, old) = Token::read_or_create(state.path()).unwrap();
        let old = old.unwrap();
        assert!(token.is(&old));
        let new = Token::renew(state.path()).unwrap();
        assert!(new != old && token.is(&new) && !token.is(&old));
        fs::remove_file(token_file(state.path())).unwrap();
        assert!(!token.is(&new), "without a token nobody is let in");
    }

    #[test]
    fn a_token_that_others_can_read_is_refused() {
        let state = tempfile::tempdir().unwrap();
        Token::read_or_create(state.path()).unwrap();
        let file = token_file(state.path());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let error = Token::read_or_create(state.path()).unwrap_err().to_string();
        assert!(error.contains("others can read") && error.contains("serve token --new"), "{error}");
        Token::renew(state.path()).unwrap();
        assert!(Token::read_or_create(state.path()).is_ok());
    }

    #[test]
    fn a_token_that_is_none_is_refused_and_never_printed() {
        for unfit in ["", "short", "has a blank in it, and more", "ümlaut-ümlaut-ümlaut", &"x".repeat(513)] {
            let error = Token::from_text(unfit, "STEPLATCH_HTTP_TOKEN").unwrap_err().to_string();
            assert!(error.starts_with("STEPLATCH_HTTP_TOKEN must be"), "{error}");
        }
        let token = Token::from_text("0123456789abcdef", "it").unwrap();
        assert!(token.is("0123456789abcdef") && !format!("{token:?}").contains("0123"));
    }
}
