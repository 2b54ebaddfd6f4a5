//! Secrets that texts refer to by name: `{secret:NAME}`.

use std::pin::Pin;

use crate::Caller;

/// The secrets of the user's settings and of callers' environments.
pub trait NamedSecrets: std::fmt::Debug + Send + Sync {
    /// Returns the value of a secret, which every later reply hides. `purpose` tells a person who is asked for the value
    /// where it goes: "for workflow 'deploy'".
    ///
    /// # Errors
    /// If there is no such secret, its value cannot be read, or a person refuses it.
    fn resolve<'a>(&'a self, caller: &'a Caller, name: &'a str, purpose: &'a str) -> ResolvingSecret<'a>;
}

/// A future that resolves to the value of a secret.
pub type ResolvingSecret<'a> = Pin<Box<dyn Future<Output = Result<NamedSecret, NamedSecretError>> + Send + 'a>>;

/// The value of a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedSecret {
    /// The value.
    pub value: String,
    /// True if a run uses the value again without another look.
    pub is_kept_in_run: bool,
}

impl std::fmt::Debug for NamedSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("NamedSecret").finish_non_exhaustive()
    }
}

/// Error of reading a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NamedSecretError {
    /// Nothing has this name.
    #[error(
        "secret {0} was not found; add [secrets.{0}] to config.toml (steplatch docs secrets), or set the variable {0} in the \
         environment of the client"
    )]
    Unknown(String),
    /// The settings have no secret with this name.
    #[error("secret {0} was not found; add [secrets.{0}] to config.toml (steplatch docs secrets)")]
    NotConfigured(String),
    /// The source of the settings has no usable value.
    #[error("secret {name} was not read: {reason}")]
    Unreadable {
        /// Name of the secret.
        name: String,
        /// Reason for the failure.
        reason: String,
    },
    /// A person was asked and gave no value.
    #[error("a person was asked for secret {0} and did not give it")]
    NotGiven(String),
}
