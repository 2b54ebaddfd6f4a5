//! Passkeys: keys on devices of the person, whose signatures prove answers to gates.
//!
//! Owns the file `passkeys.json` of the state directory: public keys with their names. A browser registers a passkey
//! with a ticket. Only a person in their own terminal gets such a ticket. The file stores the passkey only after that
//! person has confirmed its fingerprint in the terminal, because a program may have used the ticket first, for another
//! passkey. The crate `passkey` verifies signatures.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steplatch_clock::{Clock, Timestamp, to_iso8601};
use steplatch_passkey::{Assertion, Challenge, PasskeyError, PublicKey, Registration, SignedText, register, verify};
use steplatch_protocol::{
    AddPasskeyReply, AwaitPasskey, AwaitPasskeyReply, ConfirmPasskey, ConfirmPasskeyReply, ListPasskeysReply,
    PasskeyAssertion, PasskeyInfo, RegisterPasskey, RegisterPasskeyReply, RemovePasskey, RemovePasskeyReply,
};
use steplatch_workflow::SignedAnswer;
use tokio::sync::watch;

use crate::page::{Exchange, SecretHash, TicketTable, random_secret};
use crate::private_file;

/// Lifetime of a ticket: time to open a browser and find a device.
const TICKET_LIFETIME: Duration = Duration::from_secs(300);

/// Maximum number of passkeys.
const MAX_PASSKEYS: usize = 32;

/// Maximum passkey name length, in characters.
const MAX_NAME_CHARS: usize = 60;

/// Version of the file format.
const FILE_VERSION: u32 = 1;

/// The passkeys of one state directory.
#[derive(Debug)]
pub struct Passkeys {
    file: PathBuf,
    clock: Clock,
    /// The lock is also held during a change of the file.
    pending: Mutex<PendingPasskeys>,
    /// Changes when a browser has registered a passkey.
    registrations: watch::Sender<()>,
}

/// State in memory only: tickets, and passkeys that wait for the person's confirmation.
#[derive(Debug)]
struct PendingPasskeys {
    tickets: TicketTable,
    passkeys: Vec<PendingPasskey>,
}

/// A passkey that a browser has registered.
#[derive(Debug)]
struct PendingPasskey {
    ticket: SecretHash,
    since: Timestamp,
    passkey: StoredPasskey,
}

impl PendingPasskeys {
    fn remove_expired(&mut self, now: Timestamp) {
        self.passkeys.retain(|pending| pending.since <= now && now.since(pending.since) < TICKET_LIFETIME);
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredPasskeys {
    version: u32,
    passkeys: Vec<StoredPasskey>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredPasskey {
    credential_id: String,
    public_key: PublicKey,
    name: String,
    origin: String,
    added: String,
}

impl StoredPasskey {
    fn info(&self) -> PasskeyInfo {
        PasskeyInfo {
            passkey_id: self.public_key.fingerprint(),
            name: self.name.clone(),
            origin: self.origin.clone(),
            credential_id: self.credential_id.clone(),
            public_key: self.public_key.to_string(),
            added: self.added.clone(),
        }
    }
}

/// Reason why a signature does not prove an answer.
#[derive(Debug, thiserror::Error)]
pub enum PasskeyRefusal {
    /// No passkey with this id is registered.
    #[error("This passkey is not registered; register one with: steplatch gates passkey add")]
    Unknown,
    /// The signature does not belong to this answer.
    #[error("The signature of the passkey is refused: {0}")]
    Refused(#[from] PasskeyError),
    /// The form is not part of the signed text.
    #[error("An answer signed by a passkey must have its form as JSON in 'answer', not in 'form'")]
    Unsigned,
    /// Reading the file failed.
    #[error("The passkeys cannot be read, so none is accepted: {0}")]
    Unreadable(#[from] io::Error),
}

impl Passkeys {
    /// Creates the passkeys of a state directory.
    pub fn new(state: &Path, clock: Clock) -> Self {
        let pending = PendingPasskeys { tickets: TicketTable::with_lifetime(TICKET_LIFETIME), passkeys: Vec::new() };
        let registrations = watch::Sender::new(());
        Self { file: state.join("passkeys.json"), clock, pending: Mutex::new(pending), registrations }
    }

    /// Issues a ticket. The caller has checked that the request is a person's.
    pub fn issue(&self) -> AddPasskeyReply {
        match random_secret() {
            Ok(ticket) => {
                self.pending.lock().tickets.issue(SecretHash::from_secret(&ticket.0), self.clock.now());
                let expires_seconds = TICKET_LIFETIME.as_secs();
                AddPasskeyReply { success: true, ticket: Some(ticket), expires_seconds, ..AddPasskeyReply::default() }
            }
            Err(error) => {
                let error = Some(format!("The system provides no random numbers: {error}"));
                AddPasskeyReply { error, ..AddPasskeyReply::default() }
            }
        }
    }

    /// Registers the passkey of a browser that has a ticket. Its signatures are valid after the confirmation.
    pub fn register(&self, verb: &RegisterPasskey) -> RegisterPasskeyReply {
        let refusal = |error: String| RegisterPasskeyReply { error: Some(error), ..Default::default() };
        let registration =
            Registration { client_data: &verb.client_data, authenticator_data: &verb.authenticator_data };
        let new_key = match register(registration, &Challenge::for_ticket(&verb.ticket.0)) {
            Ok(new_key) => new_key,
            Err(error) => return refusal(format!("The passkey is refused: {error}")),
        };
        let now = self.clock.now();
        let mut pending = self.pending.lock();
        pending.remove_expired(now);
        let stored = match self.stored() {
            Ok(stored) => stored,
            Err(error) => return refusal(format!("The passkeys cannot be read, so none is added: {error}")),
        };
        if stored.len() >= MAX_PASSKEYS {
            return refusal(too_many_passkeys());
        }
        let pending_passkeys = pending.passkeys.iter().map(|pending| &pending.passkey);
        if stored.iter().chain(pending_passkeys).any(|passkey| passkey.public_key == new_key.public_key) {
            return refusal("This passkey is already registered".to_owned());
        }
        let ticket = SecretHash::from_secret(&verb.ticket.0);
        if pending.tickets.exchange(&ticket, "passkey", now) != Exchange::First {
            return refusal(
                "This ticket is invalid, used or expired: a ticket lasts 5 minutes and registers one passkey; get \
                 another one with: steplatch gates passkey add"
                    .to_owned(),
            );
        }
        let name: String = verb.name.chars().filter(|character| !character.is_control()).take(MAX_NAME_CHARS).collect();
        let name = if name.trim().is_empty() { "passkey".to_owned() } else { name.trim().to_owned() };
        let passkey = StoredPasskey {
            credential_id: new_key.credential_id,
            public_key: new_key.public_key,
            name,
            origin: new_key.origin,
            added: to_iso8601(now),
        };
        let info = passkey.info();
        pending.passkeys.push(PendingPasskey { ticket, since: now, passkey });
        self.registrations.send_replace(());
        tracing::info!(
            passkey = info.passkey_id,
            name = info.name,
            "a passkey is registered and waits for confirmation"
        );
        RegisterPasskeyReply { success: true, passkey: Some(info), error: None }
    }

    /// Waits until a browser has registered a passkey with a ticket and returns the passkey.
    #[boxed]
    pub async fn await_registration(&self, verb: &AwaitPasskey) -> AwaitPasskeyReply {
        let ticket = SecretHash::from_secret(&verb.ticket.0);
        let mut registrations = self.registrations.subscribe();
        let passkey = async {
            loop {
                registrations.mark_unchanged();
                let passkey = {
                    let pending = self.pending.lock();
                    let mut passkeys = pending.passkeys.iter();
                    passkeys.find(|pending| pending.ticket == ticket).map(|pending| pending.passkey.info())
                };
                match passkey {
                    Some(passkey) => return Some(passkey),
                    None => registrations.changed().await.ok()?,
                }
            }
        };
        match self.clock.timeout(TICKET_LIFETIME, passkey).await {
            Ok(Some(passkey)) => AwaitPasskeyReply { success: true, passkey: Some(passkey), error: None },
            _ => AwaitPasskeyReply {
                error: Some("No browser registered a passkey within 5 minutes, so the ticket has expired".to_owned()),
                ..AwaitPasskeyReply::default()
            },
        }
    }

    /// Stores a passkey that a browser has registered, or discards it. The caller has checked that the request is a
    /// person's.
    pub fn confirm(&self, verb: &ConfirmPasskey) -> ConfirmPasskeyReply {
        let refusal = |error: String| ConfirmPasskeyReply { error: Some(error), ..Default::default() };
        let mut pending = self.pending.lock();
        pending.remove_expired(self.clock.now());
        let has_fingerprint = |pending: &PendingPasskey| pending.passkey.public_key.fingerprint() == verb.passkey_id;
        let Some(index) = pending.passkeys.iter().position(has_fingerprint) else {
            return refusal(
                "No passkey with this fingerprint waits for confirmation: confirm a passkey by its complete fingerprint \
                 within 5 minutes after the browser has registered it; register one with: steplatch gates passkey add"
                    .to_owned(),
            );
        };
        let info = pending.passkeys[index].passkey.info();
        if !verb.discard {
            let mut stored = match self.stored() {
                Ok(stored) => stored,
                Err(error) => return refusal(format!("The passkeys cannot be read, so none is added: {error}")),
            };
            if stored.len() >= MAX_PASSKEYS {
                return refusal(too_many_passkeys());
            }
            stored.push(pending.passkeys[index].passkey.clone());
            if let Err(error) = self.store(stored) {
                return refusal(format!("The passkey could not be stored: {error}"));
            }
            tracing::info!(passkey = info.passkey_id, name = info.name, "a passkey is confirmed");
        }
        pending.passkeys.remove(index);
        ConfirmPasskeyReply { success: true, passkey: Some(info), error: None }
    }

    /// Lists the passkeys.
    pub fn list(&self) -> ListPasskeysReply {
        match self.stored() {
            Ok(stored) => {
                let passkeys = stored.iter().map(StoredPasskey::info).collect();
                ListPasskeysReply { success: true, passkeys, error: None }
            }
            Err(error) => ListPasskeysReply {
                error: Some(format!("The passkeys cannot be read: {error}")),
                ..ListPasskeysReply::default()
            },
        }
    }

    /// Removes a passkey. The caller has checked that the request is a person's.
    pub fn remove(&self, verb: &RemovePasskey) -> RemovePasskeyReply {
        let refusal = |error: String| RemovePasskeyReply { error: Some(error), ..Default::default() };
        let _guard = self.pending.lock();
        let mut stored = match self.stored() {
            Ok(stored) => stored,
            Err(error) => return refusal(format!("The passkeys cannot be read: {error}")),
        };
        let query = verb.passkey_id.as_str();
        let mut matches = stored.iter().enumerate().filter(|(_, passkey)| {
            !query.is_empty() && (passkey.public_key.fingerprint().starts_with(query) || passkey.name == query)
        });
        let index = match (matches.next(), matches.next()) {
            (Some((index, _)), None) => index,
            (None, _) => {
                return refusal(format!("No passkey is named '{query}'; list them with: steplatch gates passkey list"));
            }
            (Some(_), Some(_)) => {
                return refusal(format!("Several passkeys match '{query}'; use more characters of the id"));
            }
        };
        let passkey = stored.remove(index).info();
        match self.store(stored) {
            Ok(()) => RemovePasskeyReply { success: true, passkey: Some(passkey), error: None },
            Err(error) => refusal(format!("The passkey could not be removed: {error}")),
        }
    }

    /// Checks a signature of an answer. Returns the signed answer to store.
    ///
    /// # Errors
    /// Unless a registered passkey has signed this answer to this question on its page, with user verification.
    pub fn check(&self, assertion: &PasskeyAssertion, signed: SignedText<'_>) -> Result<SignedAnswer, PasskeyRefusal> {
        let PasskeyAssertion { credential_id, client_data, authenticator_data, signature } = assertion.clone();
        let credential_id = credential_id.trim_end_matches('=');
        let stored = self.stored()?;
        let passkey = stored.iter().find(|passkey| passkey.credential_id == credential_id);
        let passkey = passkey.ok_or(PasskeyRefusal::Unknown)?;
        let parts =
            Assertion { client_data: &client_data, authenticator_data: &authenticator_data, signature: &signature };
        verify(&passkey.public_key, &passkey.origin, parts, &Challenge::for_answer(&signed))?;
        Ok(SignedAnswer {
            public_key: passkey.public_key.to_string(),
            passkey: passkey.name.clone(),
            origin: passkey.origin.clone(),
            answer: signed.answer.to_owned(),
            number: signed.number,
            client_data,
            authenticator_data,
            signature,
        })
    }

    fn stored(&self) -> io::Result<Vec<StoredPasskey>> {
        let text = match std::fs::read(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let stored: StoredPasskeys = serde_json::from_slice(&text)?;
        if stored.version > FILE_VERSION {
            let version = stored.version;
            return Err(io::Error::other(format!(
                "'{}' has version {version}, of a newer steplatch",
                self.file.display()
            )));
        }
        Ok(stored.passkeys)
    }

    fn store(&self, passkeys: Vec<StoredPasskey>) -> io::Result<()> {
        private_file::write(&self.file, &StoredPasskeys { version: FILE_VERSION, passkeys })
    }
}

fn too_many_passkeys() -> String {
    format!("There are already {MAX_PASSKEYS} passkeys; remove one with: steplatch gates passkey remove")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use steplatch_clock::ManualClock;
    use steplatch_passkey::SoftAuthenticator;

    use super::*;

    const ORIGIN: &str = "http://localhost:7878";
    const ANSWER: SignedText<'static> =
        SignedText { gate_id: "run_a/ask/1", digest: "d", number: Some(1), answer: "yes", reason: "" };

    fn registration(key: &SoftAuthenticator, ticket: &str) -> RegisterPasskey {
        let client = SoftAuthenticator::client_data("webauthn.create", &Challenge::for_ticket(ticket), ORIGIN);
        let [client_data, authenticator_data] = key.register(&client, "localhost", SoftAuthenticator::REGISTERED);
        let ticket = steplatch_protocol::PageSecret(ticket.to_owned());
        RegisterPasskey { ticket, client_data, authenticator_data, name: "phone\n".to_owned() }
    }

    fn signature(key: &SoftAuthenticator) -> PasskeyAssertion {
        let client = SoftAuthenticator::client_data("webauthn.get", &Challenge::for_answer(&ANSWER), ORIGIN);
        let [client_data, authenticator_data, signature] = key.sign(&client, "localhost", SoftAuthenticator::VERIFIED);
        PasskeyAssertion { credential_id: "YWJj".to_owned(), client_data, authenticator_data, signature }
    }

    #[test]
    fn confirmed_passkey_signs_until_it_is_removed() {
        let state = tempfile::tempdir().unwrap();
        let passkeys = Passkeys::new(state.path(), Clock::system());
        let key = SoftAuthenticator::new();
        let ticket = passkeys.issue().ticket.unwrap();
        assert!(matches!(passkeys.check(&signature(&key), ANSWER), Err(PasskeyRefusal::Unknown)));
        let reply = passkeys.register(&registration(&key, &ticket.0));
        assert!(reply.success, "{reply:?}");
        assert!(passkeys.list().passkeys.is_empty());
        let result = passkeys.check(&signature(&key), ANSWER);
        assert!(matches!(result, Err(PasskeyRefusal::Unknown)), "the passkey is not confirmed");
        let fingerprint = reply.passkey.clone().unwrap().passkey_id;
        let by_prefix = ConfirmPasskey { passkey_id: fingerprint[..8].to_owned(), discard: false };
        assert!(!passkeys.confirm(&by_prefix).success, "the confirmation requires the complete fingerprint");
        let confirm = ConfirmPasskey { passkey_id: fingerprint, discard: false };
        assert!(passkeys.confirm(&confirm).success && !passkeys.confirm(&confirm).success);
        assert_eq!(passkeys.list().passkeys[0].name, "phone");
        let reused_ticket = passkeys.register(&registration(&SoftAuthenticator::new(), &ticket.0));
        assert!(reused_ticket.error.unwrap().contains("used or expired"));
        let file = state.path().join("passkeys.json");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

        let answer = passkeys.check(&signature(&key), ANSWER).unwrap();
        assert_eq!((answer.passkey.as_str(), answer.answer.as_str(), answer.number), ("phone", "yes", Some(1)));
        let other_answer = SignedText { answer: "no", ..ANSWER };
        assert!(matches!(passkeys.check(&signature(&key), other_answer), Err(PasskeyRefusal::Refused(_))));
        let forged = signature(&SoftAuthenticator::new());
        assert!(matches!(passkeys.check(&forged, ANSWER), Err(PasskeyRefusal::Refused(_))));

        let passkey_id = reply.passkey.unwrap().passkey_id[..4].to_owned();
        assert!(passkeys.remove(&RemovePasskey { passkey_id }).success);
        assert!(matches!(passkeys.check(&signature(&key), ANSWER), Err(PasskeyRefusal::Unknown)));
        assert!(passkeys.remove(&RemovePasskey::default()).error.unwrap().contains("steplatch gates passkey list"));
    }

    #[tokio::test]
    async fn registered_passkey_can_be_discarded_or_expires() {
        let state = tempfile::tempdir().unwrap();
        let clock = ManualClock::new(steplatch_clock::now());
        let passkeys = Passkeys::new(state.path(), clock.clock());
        let key = SoftAuthenticator::new();
        let ticket = passkeys.issue().ticket.unwrap();
        let verb = AwaitPasskey { ticket: ticket.clone() };
        let (awaited, registered) = tokio::join!(passkeys.await_registration(&verb), async {
            tokio::task::yield_now().await;
            passkeys.register(&registration(&key, &ticket.0))
        });
        assert_eq!(awaited.passkey, registered.passkey);
        let passkey_id = awaited.passkey.unwrap().passkey_id;
        assert!(passkeys.confirm(&ConfirmPasskey { passkey_id: passkey_id.clone(), discard: true }).success);
        assert!(!passkeys.confirm(&ConfirmPasskey { passkey_id, discard: false }).success);
        assert!(passkeys.list().passkeys.is_empty());

        // A confirmation after the timeout is refused.
        let ticket = passkeys.issue().ticket.unwrap();
        let registered = passkeys.register(&registration(&key, &ticket.0)).passkey.unwrap();
        clock.advance(TICKET_LIFETIME);
        let confirm = ConfirmPasskey { passkey_id: registered.passkey_id, discard: false };
        assert!(passkeys.confirm(&confirm).error.unwrap().contains("within 5 minutes"));
    }

    #[test]
    fn registration_requires_a_valid_ticket() {
        let state = tempfile::tempdir().unwrap();
        let clock = ManualClock::new(steplatch_clock::now());
        let passkeys = Passkeys::new(state.path(), clock.clock());
        let key = SoftAuthenticator::new();
        assert!(!passkeys.register(&registration(&key, "made-up")).success);
        let ticket = passkeys.issue().ticket.unwrap();
        let mismatched = RegisterPasskey { ticket: ticket.clone(), ..registration(&key, "made-up") };
        assert!(passkeys.register(&mismatched).error.unwrap().contains("another question"));
        clock.advance(TICKET_LIFETIME + Duration::from_secs(1));
        assert!(passkeys.register(&registration(&key, &ticket.0)).error.unwrap().contains("used or expired"));
        assert!(passkeys.list().passkeys.is_empty());
        std::fs::write(state.path().join("passkeys.json"), r#"{"version": 9, "passkeys": []}"#).unwrap();
        assert!(passkeys.list().error.unwrap().contains("of a newer steplatch"));
        assert!(matches!(passkeys.check(&signature(&key), ANSWER), Err(PasskeyRefusal::Unreadable(_))));
    }
}
