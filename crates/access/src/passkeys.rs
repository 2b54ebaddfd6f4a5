//! Passkeys: keys on devices of the person, whose signatures prove answers to gates.
//!
//! Owns the file `passkeys.json` of the state directory: public keys with their names. A passkey is registered with a ticket, which
//! only a person in a terminal of their own gets. What a signature is worth is decided in the crate `passkey`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steplatch_clock::{Clock, to_iso8601};
use steplatch_passkey::{Assertion, Challenge, PasskeyError, PublicKey, Registration, SignedText, register, verify};
use steplatch_protocol::{
    AddPasskeyReply, ListPasskeysReply, PasskeyAssertion, PasskeyInfo, RegisterPasskey, RegisterPasskeyReply,
    RemovePasskey, RemovePasskeyReply,
};
use steplatch_workflow::SignedAnswer;

use crate::page::{Exchange, SecretHash, TicketTable, secret};
use crate::private_file;

/// How long a ticket lasts: a browser is opened, and a person finds their device.
const TICKET_TIME: Duration = Duration::from_secs(300);

/// The most passkeys.
const MOST_PASSKEYS: usize = 32;

/// The longest name, in characters.
const LONGEST_NAME: usize = 60;

/// The version of the file.
const VERSION: u32 = 1;

/// The passkeys of one state directory.
#[derive(Debug)]
pub struct Passkeys {
    file: PathBuf,
    clock: Clock,
    /// Also held while the file is changed.
    tickets: Mutex<TicketTable>,
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

/// Why a signature does not prove an answer.
#[derive(Debug, thiserror::Error)]
pub enum PasskeyRefusal {
    /// The passkey is not registered here, or was removed.
    #[error("This passkey is not registered; register one with: steplatch gates passkey add")]
    Unknown,
    /// The signature is none of this answer.
    #[error("The signature of the passkey is refused: {0}")]
    Refused(#[from] PasskeyError),
    /// A form that is not part of what is signed.
    #[error("An answer that a passkey signs has its form as JSON in 'answer', not in 'form'")]
    Unsigned,
    /// The file can not be read.
    #[error("The passkeys can not be read, so none is accepted: {0}")]
    Unreadable(#[from] io::Error),
}

impl Passkeys {
    /// Creates the passkeys of a state directory.
    pub fn new(state: &Path, clock: Clock) -> Self {
        Self { file: state.join("passkeys.json"), clock, tickets: Mutex::new(TicketTable::lasting(TICKET_TIME)) }
    }

    /// Issues a ticket. The caller has checked that a person asks.
    pub fn issue(&self) -> AddPasskeyReply {
        match secret() {
            Ok(ticket) => {
                self.tickets.lock().issue(SecretHash::of(&ticket.0), self.clock.now());
                let expires_seconds = TICKET_TIME.as_secs();
                AddPasskeyReply { success: true, ticket: Some(ticket), expires_seconds, ..AddPasskeyReply::default() }
            }
            Err(error) => {
                let error = Some(format!("The system gives no random numbers: {error}"));
                AddPasskeyReply { error, ..AddPasskeyReply::default() }
            }
        }
    }

    /// Registers the passkey of a browser that has a ticket.
    pub fn register(&self, verb: &RegisterPasskey) -> RegisterPasskeyReply {
        let refused = |error: String| RegisterPasskeyReply { error: Some(error), ..Default::default() };
        let registration =
            Registration { client_data: &verb.client_data, authenticator_data: &verb.authenticator_data };
        let registered = match register(registration, &Challenge::of_ticket(&verb.ticket.0)) {
            Ok(registered) => registered,
            Err(error) => return refused(format!("The passkey is refused: {error}")),
        };
        let now = self.clock.now();
        let mut tickets = self.tickets.lock();
        let mut stored = match self.stored() {
            Ok(stored) => stored,
            Err(error) => return refused(format!("The passkeys can not be read, so none is added: {error}")),
        };
        if stored.len() >= MOST_PASSKEYS {
            return refused(format!(
                "There are {MOST_PASSKEYS} passkeys already; remove one: steplatch gates passkey remove"
            ));
        }
        if stored.iter().any(|known| known.public_key == registered.public_key) {
            return refused("This passkey is registered already".to_owned());
        }
        if tickets.exchange(&SecretHash::of(&verb.ticket.0), "passkey", now) != Exchange::First {
            return refused(
                "This ticket has expired, was used before, or is none: it lasts 5 minutes and registers one passkey; get another \
                 one with: steplatch gates passkey add"
                    .to_owned(),
            );
        }
        let name: String = verb.name.chars().filter(|character| !character.is_control()).take(LONGEST_NAME).collect();
        let name = if name.trim().is_empty() { "passkey".to_owned() } else { name.trim().to_owned() };
        let passkey = StoredPasskey {
            credential_id: registered.credential_id,
            public_key: registered.public_key,
            name,
            origin: registered.origin,
            added: to_iso8601(now),
        };
        let info = passkey.info();
        stored.push(passkey);
        match self.store(stored) {
            Ok(()) => {
                tracing::info!(passkey = info.passkey_id, name = info.name, "a passkey is registered");
                RegisterPasskeyReply { success: true, passkey: Some(info), error: None }
            }
            Err(error) => refused(format!("The passkey could not be stored: {error}")),
        }
    }

    /// Lists the passkeys.
    pub fn list(&self) -> ListPasskeysReply {
        match self.stored() {
            Ok(stored) => {
                let passkeys = stored.iter().map(StoredPasskey::info).collect();
                ListPasskeysReply { success: true, passkeys, error: None }
            }
            Err(error) => ListPasskeysReply {
                error: Some(format!("The passkeys can not be read: {error}")),
                ..ListPasskeysReply::default()
            },
        }
    }

    /// Removes a passkey. The caller has checked that a person asks.
    pub fn remove(&self, verb: &RemovePasskey) -> RemovePasskeyReply {
        let refused = |error: String| RemovePasskeyReply { error: Some(error), ..Default::default() };
        let _alone = self.tickets.lock();
        let mut stored = match self.stored() {
            Ok(stored) => stored,
            Err(error) => return refused(format!("The passkeys can not be read: {error}")),
        };
        let wanted = verb.passkey_id.as_str();
        let mut meant = stored.iter().enumerate().filter(|(_, passkey)| {
            !wanted.is_empty() && (passkey.public_key.fingerprint().starts_with(wanted) || passkey.name == wanted)
        });
        let at = match (meant.next(), meant.next()) {
            (Some((at, _)), None) => at,
            (None, _) => {
                return refused(format!(
                    "No passkey is called '{wanted}'; list them with: steplatch gates passkey list"
                ));
            }
            (Some(_), Some(_)) => {
                return refused(format!("Several passkeys are called '{wanted}'; write more of the id"));
            }
        };
        let removed = stored.remove(at).info();
        match self.store(stored) {
            Ok(()) => RemovePasskeyReply { success: true, passkey: Some(removed), error: None },
            Err(error) => refused(format!("The passkey could not be removed: {error}")),
        }
    }

    /// Checks a signature of an answer. Returns what is kept of it.
    ///
    /// # Errors
    /// When no registered passkey has signed this answer to this question, on its page, after its device verified the person.
    pub fn check(&self, assertion: &PasskeyAssertion, signed: SignedText<'_>) -> Result<SignedAnswer, PasskeyRefusal> {
        let PasskeyAssertion { credential_id, client_data, authenticator_data, signature } = assertion.clone();
        let credential_id = credential_id.trim_end_matches('=');
        let stored = self.stored()?;
        let passkey = stored.iter().find(|passkey| passkey.credential_id == credential_id);
        let passkey = passkey.ok_or(PasskeyRefusal::Unknown)?;
        let parts =
            Assertion { client_data: &client_data, authenticator_data: &authenticator_data, signature: &signature };
        verify(&passkey.public_key, &passkey.origin, parts, &Challenge::of_answer(&signed))?;
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
        if stored.version > VERSION {
            let version = stored.version;
            return Err(io::Error::other(format!(
                "'{}' has version {version}, of a newer steplatch",
                self.file.display()
            )));
        }
        Ok(stored.passkeys)
    }

    fn store(&self, passkeys: Vec<StoredPasskey>) -> io::Result<()> {
        private_file::write(&self.file, &StoredPasskeys { version: VERSION, passkeys })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use steplatch_clock::ManualClock;
    use steplatch_passkey::SoftAuthenticator;

    use super::*;

    const ORIGIN: &str = "http://localhost:7878";
    const ANSWER: SignedText<'static> =
        SignedText { gate_id: "run_a/ask/1", digest: "d", number: Some(1), answer: "yes" };

    fn registration(key: &SoftAuthenticator, ticket: &str) -> RegisterPasskey {
        let client = SoftAuthenticator::client_data("webauthn.create", &Challenge::of_ticket(ticket), ORIGIN);
        let [client_data, authenticator_data] = key.registers(&client, "localhost", SoftAuthenticator::REGISTERED);
        let ticket = steplatch_protocol::PageSecret(ticket.to_owned());
        RegisterPasskey { ticket, client_data, authenticator_data, name: "phone\n".to_owned() }
    }

    fn signature(key: &SoftAuthenticator) -> PasskeyAssertion {
        let client = SoftAuthenticator::client_data("webauthn.get", &Challenge::of_answer(&ANSWER), ORIGIN);
        let [client_data, authenticator_data, signature] = key.signs(&client, "localhost", SoftAuthenticator::VERIFIED);
        PasskeyAssertion { credential_id: "YWJj".to_owned(), client_data, authenticator_data, signature }
    }

    #[test]
    fn a_ticket_registers_one_passkey_which_signs_until_it_is_removed() {
        let state = tempfile::tempdir().unwrap();
        let passkeys = Passkeys::new(state.path(), Clock::system());
        let key = SoftAuthenticator::new();
        let ticket = passkeys.issue().ticket.unwrap();
        assert!(matches!(passkeys.check(&signature(&key), ANSWER), Err(PasskeyRefusal::Unknown)));
        let registered = passkeys.register(&registration(&key, &ticket.0));
        assert!(registered.success, "{registered:?}");
        assert_eq!(passkeys.list().passkeys[0].name, "phone");
        let again = passkeys.register(&registration(&SoftAuthenticator::new(), &ticket.0));
        assert!(again.error.unwrap().contains("was used before"));
        let file = state.path().join("passkeys.json");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

        let signed = passkeys.check(&signature(&key), ANSWER).unwrap();
        assert_eq!((signed.passkey.as_str(), signed.answer.as_str(), signed.number), ("phone", "yes", Some(1)));
        let other = SignedText { answer: "no", ..ANSWER };
        assert!(matches!(passkeys.check(&signature(&key), other), Err(PasskeyRefusal::Refused(_))));
        let forged = signature(&SoftAuthenticator::new());
        assert!(matches!(passkeys.check(&forged, ANSWER), Err(PasskeyRefusal::Refused(_))));

        let passkey_id = registered.passkey.unwrap().passkey_id[..4].to_owned();
        assert!(passkeys.remove(&RemovePasskey { passkey_id }).success);
        assert!(matches!(passkeys.check(&signature(&key), ANSWER), Err(PasskeyRefusal::Unknown)));
        assert!(passkeys.remove(&RemovePasskey::default()).error.unwrap().contains("steplatch gates passkey list"));
    }

    #[test]
    fn without_a_ticket_that_holds_nothing_is_registered() {
        let state = tempfile::tempdir().unwrap();
        let clock = ManualClock::new(steplatch_clock::now());
        let passkeys = Passkeys::new(state.path(), clock.clock());
        let key = SoftAuthenticator::new();
        assert!(!passkeys.register(&registration(&key, "made-up")).success);
        let ticket = passkeys.issue().ticket.unwrap();
        let of_another = RegisterPasskey { ticket: ticket.clone(), ..registration(&key, "made-up") };
        assert!(passkeys.register(&of_another).error.unwrap().contains("another question"));
        clock.advance(TICKET_TIME + Duration::from_secs(1));
        assert!(passkeys.register(&registration(&key, &ticket.0)).error.unwrap().contains("has expired"));
        assert!(passkeys.list().passkeys.is_empty());
        std::fs::write(state.path().join("passkeys.json"), r#"{"version": 9, "passkeys": []}"#).unwrap();
        assert!(passkeys.list().error.unwrap().contains("of a newer steplatch"));
        assert!(matches!(passkeys.check(&signature(&key), ANSWER), Err(PasskeyRefusal::Unreadable(_))));
    }
}
