//! Callers, and the redaction of secrets.
//!
//! Owns the evidence about a caller (its process, ancestors, terminal and passphrase), the approver of gates, passkeys,
//! logins to the page, and the redaction of all text that leaves the daemon. Independent of terminal sessions and runs.

mod approver;
mod askpass;
mod caller;
mod named_secrets;
mod page;
mod passkeys;
mod peer;
mod pins;
mod private_file;
mod requirement;
mod secrets;
mod standing;

pub use approver::{
    Approver, ApproverError, AttemptSource, KeyError, OpeningKey, PassphraseChange, PassphraseError, ProofPolicy,
    SealingKey, is_sealed,
};
pub use askpass::{ASKPASS_FILE, add_askpass, add_askpass_without_terminal};
pub use caller::{Caller, ConnectionId};
pub use named_secrets::{NamedSecret, NamedSecretError, NamedSecrets, ResolvingSecret};
pub use page::{PageLogins, SecretHash, random_secret};
pub use passkeys::{PasskeyRefusal, Passkeys};
pub use peer::{PasswordReader, ReaderRefusal, join_group};
pub use pins::{DefinitionKind, HostDifference, HostPin, PinError, Pins};
pub use private_file::{write_program as write_private_program, write_text as write_private_text};
pub use secrets::{
    MASK, RedactedStream, Redactor, TooManySecrets, hideable_lines, hides_in_names, is_short_word, rename_fields,
};
pub use standing::{OwnProcesses, PersonRefusal, Standing};
pub use steplatch_passkey::SignedText;
