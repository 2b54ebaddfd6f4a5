//! Logins to the page: tickets, and the sessions of browsers that exchanged one.
//!
//! A person gets a ticket in their own terminal, and a browser exchanges it for a session. The two halves of a session
//! go to the browser once; `page-sessions.json` of the state directory stores only hashes of them. A session represents
//! a program of the user; it does not prove that a person is present.

mod redirect;
mod session;
mod share;
mod ticket;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use steplatch_clock::{Clock, to_iso8601};
use steplatch_protocol::{
    BeginPageSession, BeginPageSessionReply, CheckPageSession, CheckPageSessionReply, EndPageSessions,
    EndPageSessionsReply, ListPageSessionsReply, OpenPage, OpenPageReply, PageSecret, PageSessionInfo, PageShareInfo,
    ShareTerminalReply,
};
use subtle::ConstantTimeEq as _;

use crate::private_file;
use redirect::RedirectFiles;
use session::{MAX_SESSION_TIME, PrefixMatch, SessionTable};
use share::{DEFAULT_SHARE_TIME, MAX_SHARE_TIME, MAX_SHARES, Share};
use ticket::TICKET_LIFETIME;
pub(crate) use ticket::{Exchange, TicketTable};

/// Number of random bytes in a ticket, and in each half of a session.
const SECRET_BYTES: usize = 32;

/// The SHA-256 hash of a secret, as stored. Secrets are random, so they cannot be guessed from their hashes.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct SecretHash(String);

impl SecretHash {
    /// Hashes a secret.
    pub fn from_secret(secret: &str) -> Self {
        Self(URL_SAFE_NO_PAD.encode(Sha256::digest(secret.as_bytes())))
    }

    /// Returns the hash as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares two hashes in constant time.
    fn equals(&self, expected: &Self) -> bool {
        bool::from(self.0.as_bytes().ct_eq(expected.0.as_bytes()))
    }
}

/// Generates a random secret.
///
/// # Errors
/// If the system has no random numbers.
pub fn random_secret() -> io::Result<PageSecret> {
    let mut random = [0; SECRET_BYTES];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(PageSecret(URL_SAFE_NO_PAD.encode(random)))
}

/// Returns an id derived from a random secret. The id is not secret, and the page shows it.
fn derive_id(source: &PageSecret) -> String {
    source.0.chars().filter(char::is_ascii_alphanumeric).take(8).collect::<String>().to_lowercase()
}

/// The logins to the page of one state directory.
#[derive(Debug)]
pub struct PageLogins {
    file: PathBuf,
    clock: Clock,
    logins: Arc<Mutex<Logins>>,
}

#[derive(Debug)]
struct Logins {
    tickets: TicketTable,
    files: RedirectFiles,
    sessions: SessionTable,
}

impl PageLogins {
    /// Reads the sessions of `state`. Unreadable sessions are ended: their browsers must log in again. Files with
    /// tickets are in `runtime`, a private directory.
    pub fn open(state: &Path, runtime: &Path, clock: Clock) -> Self {
        let file = state.join("page-sessions.json");
        let sessions = match std::fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text).unwrap_or_else(|error| {
                tracing::warn!(file = %file.display(), %error, "failed to read the page sessions, which are ended");
                SessionTable::default()
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => SessionTable::default(),
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "failed to read the page sessions, which are ended");
                SessionTable::default()
            }
        };
        let files = RedirectFiles::new(runtime);
        let logins = Logins { tickets: TicketTable::with_lifetime(TICKET_LIFETIME), files, sessions };
        Self { file, clock, logins: Arc::new(Mutex::new(logins)) }
    }

    /// Issues a ticket, and on request writes a file that redirects a browser to the page with it. The caller has
    /// checked that the request is a person's. Requires a tokio runtime, where a task removes the file.
    pub fn open_page(&self, verb: &OpenPage) -> OpenPageReply {
        let mut reply = self.issue();
        if let (Some(address), Some(ticket)) = (&verb.address, &reply.ticket) {
            let result = self.logins.lock().files.write(&address.0, &ticket.0);
            match result {
                Ok(file) => {
                    let (logins, hash) = (Arc::downgrade(&self.logins), SecretHash::from_secret(&ticket.0));
                    let expiry = self.clock.sleep(TICKET_LIFETIME);
                    tokio::spawn(async move {
                        expiry.await;
                        if let Some(logins) = logins.upgrade() {
                            logins.lock().files.remove(&hash);
                        }
                    });
                    reply.file = Some(file.display().to_string());
                }
                Err(error) => return OpenPageReply { error: Some(error.to_string()), ..OpenPageReply::default() },
            }
        }
        reply
    }

    /// Issues a ticket.
    fn issue(&self) -> OpenPageReply {
        let ticket = match random_secret() {
            Ok(ticket) => ticket,
            Err(error) => {
                let error = Some(format!("The system provides no random numbers: {error}"));
                return OpenPageReply { error, ..OpenPageReply::default() };
            }
        };
        self.logins.lock().tickets.issue(SecretHash::from_secret(&ticket.0), self.clock.now());
        let expires_seconds = TICKET_LIFETIME.as_secs();
        OpenPageReply { success: true, ticket: Some(ticket), expires_seconds, ..OpenPageReply::default() }
    }

    /// Returns whether the ticket was issued and has not expired. A cheap check, before the client is inspected.
    pub fn contains_ticket(&self, verb: &BeginPageSession) -> bool {
        let (ticket, now) = (SecretHash::from_secret(&verb.ticket.0), self.clock.now());
        let mut logins = self.logins.lock();
        logins.sessions.find_share(&ticket, now).is_some() || logins.tickets.contains(&ticket, now)
    }

    /// Exchanges a ticket for a session. A second use of a ticket ends its session, because one of the ticket's two
    /// holders is not its owner.
    pub fn begin(&self, verb: &BeginPageSession) -> BeginPageSessionReply {
        let refusal = |error: &str| BeginPageSessionReply { error: Some(error.to_owned()), ..Default::default() };
        let (cookie, half, id_source) = match (random_secret(), random_secret(), random_secret()) {
            (Ok(cookie), Ok(half), Ok(id_source)) => (cookie, half, id_source),
            (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
                return refusal(&format!("The system provides no random numbers: {error}"));
            }
        };
        let id = derive_id(&id_source);
        let now = self.clock.now();
        let mut logins = self.logins.lock();
        let ticket = SecretHash::from_secret(&verb.ticket.0);
        logins.files.remove(&ticket);
        let hashes = (SecretHash::from_secret(&cookie.0), SecretHash::from_secret(&half.0));
        if let Some(share) = logins.sessions.find_share(&ticket, now) {
            logins.sessions.begin(id.clone(), hashes, &verb.browser, Some(&share), now);
            self.store(&logins.sessions);
            return BeginPageSessionReply {
                success: true,
                session_id: Some(id),
                cookie: Some(cookie),
                half: Some(half),
                expires_seconds: share.expires.since(now).as_secs(),
                terminal: Some(share.terminal),
                error: None,
            };
        }
        match logins.tickets.exchange(&ticket, &id, now) {
            Exchange::Unknown => refusal(
                "This ticket is invalid or expired: a ticket lasts 60 seconds and opens the page once; get another \
                 one with: steplatch open",
            ),
            Exchange::UsedBefore(session) => {
                logins.sessions.end(&session);
                self.store(&logins.sessions);
                refusal(
                    "This ticket was used before, so another program may have it: the session that it began was ended; get \
                     another one with: steplatch open",
                )
            }
            Exchange::First => {
                logins.sessions.begin(id.clone(), hashes, &verb.browser, None, now);
                if !self.store(&logins.sessions) {
                    tracing::warn!("a page session could not be stored, and ends with the daemon");
                }
                BeginPageSessionReply {
                    success: true,
                    session_id: Some(id),
                    cookie: Some(cookie),
                    half: Some(half),
                    expires_seconds: MAX_SESSION_TIME.as_secs(),
                    terminal: None,
                    error: None,
                }
            }
        }
    }

    /// Creates a read-only link to the terminal with this id. The caller has checked that the request is a person's.
    pub fn share(&self, terminal: String, seconds: Option<u64>) -> ShareTerminalReply {
        let refusal = |error: String| ShareTerminalReply { error: Some(error), ..ShareTerminalReply::default() };
        let lifetime = seconds.map_or(DEFAULT_SHARE_TIME, Duration::from_secs);
        if lifetime.is_zero() || lifetime > MAX_SHARE_TIME {
            return refusal(format!(
                "A link must last between 1 second and {} days",
                MAX_SHARE_TIME.as_secs() / 86_400
            ));
        }
        let (ticket, id) = match (random_secret(), random_secret()) {
            (Ok(ticket), Ok(id_source)) => (ticket, derive_id(&id_source)),
            (Err(error), _) | (_, Err(error)) => {
                return refusal(format!("The system provides no random numbers: {error}"));
            }
        };
        let now = self.clock.now();
        let hash = SecretHash::from_secret(&ticket.0);
        let share = Share::new(id.clone(), hash, terminal.clone(), now, lifetime);
        let expires = to_iso8601(share.expires);
        let mut logins = self.logins.lock();
        if logins.sessions.add_share(share, now).is_err() {
            return refusal(format!(
                "There are already {MAX_SHARES} links; end one with: steplatch serve sessions end ID"
            ));
        }
        if !self.store(&logins.sessions) {
            tracing::warn!("a link to a terminal could not be stored, and ends with the daemon");
        }
        let (share_id, session_id) = (Some(id), Some(terminal));
        ShareTerminalReply {
            success: true,
            share_id,
            ticket: Some(ticket),
            session_id,
            expires: Some(expires),
            error: None,
        }
    }

    /// Checks both halves of a session and records its use.
    pub fn check(&self, verb: &CheckPageSession) -> CheckPageSessionReply {
        let (cookie, half) = (SecretHash::from_secret(&verb.cookie.0), SecretHash::from_secret(&verb.half.0));
        let mut logins = self.logins.lock();
        let Some(session) = logins.sessions.check(&cookie, &half, self.clock.now()) else {
            let error = "This browser is not logged in, or its session has ended; log in with: steplatch open";
            let cookie_is_known = logins.sessions.has_cookie(&cookie, self.clock.now());
            return CheckPageSessionReply { cookie_is_known, error: Some(error.to_owned()), ..Default::default() };
        };
        if session.is_worth_storing {
            self.store(&logins.sessions);
        }
        // An older server would treat the session of a link as a full one.
        if session.terminal.is_some() && !verb.may_be_link {
            let error = "This browser uses a read-only link, which shows only one terminal";
            return CheckPageSessionReply { error: Some(error.to_owned()), ..Default::default() };
        }
        let (session_id, terminal) = (Some(session.id), session.terminal);
        CheckPageSessionReply { success: true, cookie_is_known: true, session_id, terminal, error: None }
    }

    /// Lists the sessions, most recently used first.
    pub fn list(&self) -> ListPageSessionsReply {
        let mut logins = self.logins.lock();
        let sessions =
            logins.sessions.unexpired_sessions(self.clock.now()).into_iter().map(|session| PageSessionInfo {
                session_id: session.id.clone(),
                browser: session.browser.clone(),
                began: to_iso8601(session.began),
                used: to_iso8601(session.used),
                expires: to_iso8601(session.expires()),
            });
        let sessions = sessions.collect();
        let shares = logins.sessions.shares(self.clock.now()).into_iter().map(|(share, browsers)| PageShareInfo {
            share_id: share.id,
            session_id: share.terminal,
            began: to_iso8601(share.began),
            expires: to_iso8601(share.expires),
            browsers,
        });
        ListPageSessionsReply { success: true, sessions, shares: shares.collect() }
    }

    /// Ends one session, or all sessions together with all tickets.
    pub fn end(&self, verb: &EndPageSessions) -> EndPageSessionsReply {
        let refusal = |error: String| EndPageSessionsReply { error: Some(error), ..Default::default() };
        let mut logins = self.logins.lock();
        let ended = match &verb.session_id {
            None => {
                logins.tickets = TicketTable::with_lifetime(TICKET_LIFETIME);
                logins.files.clear();
                logins.sessions.end_all(self.clock.now())
            }
            Some(prefix) => match logins.sessions.find_by_prefix(prefix, self.clock.now()) {
                PrefixMatch::Unique(id) => logins.sessions.end(&id),
                PrefixMatch::Several => {
                    return refusal(format!(
                        "Several page sessions begin with '{prefix}'; use more characters of the id"
                    ));
                }
                PrefixMatch::None => {
                    return refusal(format!(
                        "No page session begins with '{prefix}'; list them with: steplatch serve sessions"
                    ));
                }
            },
        };
        if !self.store(&logins.sessions) {
            return refusal(
                "The end of the session could not be stored: the session is ended only until the daemon restarts"
                    .to_owned(),
            );
        }
        EndPageSessionsReply { success: true, ended, error: None }
    }

    /// Stores the sessions. Returns whether that succeeded.
    fn store(&self, sessions: &SessionTable) -> bool {
        let result = private_file::write(&self.file, sessions);
        if let Err(error) = &result {
            tracing::warn!(file = %self.file.display(), %error, "failed to store the page sessions");
        }
        result.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use steplatch_clock::ManualClock;

    use super::*;

    fn login(logins: &PageLogins) -> (BeginPageSession, BeginPageSessionReply) {
        let ticket = logins.issue().ticket.unwrap();
        let verb = BeginPageSession { ticket, browser: "Firefox".to_owned() };
        let reply = logins.begin(&verb);
        assert!(reply.success, "{reply:?}");
        (verb, reply)
    }

    fn session_halves(reply: &BeginPageSessionReply) -> CheckPageSession {
        let (cookie, half) = (reply.cookie.clone().unwrap(), reply.half.clone().unwrap());
        CheckPageSession { cookie, half, ..CheckPageSession::default() }
    }

    #[test]
    fn session_outlives_the_daemon() {
        let state = tempfile::tempdir().unwrap();
        let logins = PageLogins::open(state.path(), state.path(), Clock::system());
        let (_, reply) = login(&logins);
        assert!(logins.check(&session_halves(&reply)).success);
        let file = state.path().join("page-sessions.json");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&file).unwrap();
        let halves = session_halves(&reply);
        assert!(!text.contains(&halves.cookie.0) && !text.contains(&halves.half.0), "only hashes are stored");
        let next_logins = PageLogins::open(state.path(), state.path(), Clock::system());
        assert_eq!(next_logins.check(&halves).session_id, reply.session_id);
        let sessions = next_logins.list().sessions;
        assert_eq!((sessions.len(), sessions[0].browser.as_str()), (1, "Firefox"));
    }

    #[test]
    fn both_halves_are_required() {
        let state = tempfile::tempdir().unwrap();
        let logins = PageLogins::open(state.path(), state.path(), Clock::system());
        let (first, second) = (session_halves(&login(&logins).1), session_halves(&login(&logins).1));
        let mixed =
            CheckPageSession { cookie: first.cookie.clone(), half: second.half.clone(), ..CheckPageSession::default() };
        assert!(!logins.check(&mixed).success);
        assert!(!logins.check(&CheckPageSession { cookie: first.cookie.clone(), ..Default::default() }).success);
        assert!(!logins.check(&CheckPageSession { half: first.half.clone(), ..Default::default() }).success);
        assert!(
            !logins
                .check(&CheckPageSession {
                    cookie: first.half.clone(),
                    half: first.cookie.clone(),
                    ..CheckPageSession::default()
                })
                .success
        );
        assert!(logins.check(&first).success && logins.check(&second).success);
    }

    #[test]
    fn reused_ticket_ends_its_session() {
        let state = tempfile::tempdir().unwrap();
        let logins = PageLogins::open(state.path(), state.path(), Clock::system());
        let (verb, reply) = login(&logins);
        let reused_ticket = logins.begin(&verb);
        assert!(reused_ticket.error.unwrap().contains("used before"));
        assert!(!logins.check(&session_halves(&reply)).success);
    }

    #[test]
    fn tickets_and_sessions_expire() {
        let state = tempfile::tempdir().unwrap();
        let clock = ManualClock::new(steplatch_clock::now());
        let logins = PageLogins::open(state.path(), state.path(), clock.clock());
        for (seconds, is_accepted) in [(59, true), (61, false)] {
            let ticket = logins.issue().ticket.unwrap();
            clock.advance(Duration::from_secs(seconds));
            let reply = logins.begin(&BeginPageSession { ticket, browser: String::new() });
            assert_eq!(reply.success, is_accepted, "after {seconds} s: {reply:?}");
            assert_eq!(reply.half.is_some() && reply.cookie.is_some(), is_accepted);
            if let Some(error) = reply.error {
                assert!(error.contains("invalid or expired") && error.ends_with("steplatch open"), "{error}");
            }
        }
        logins.end(&EndPageSessions::default());
        let (_, reply) = login(&logins);
        for _ in 0..70 {
            clock.advance(Duration::from_secs(11 * 3600));
            if !logins.check(&session_halves(&reply)).success {
                break;
            }
        }
        let sessions = logins.list().sessions;
        assert!(sessions.is_empty(), "a constantly used session ends after a month: {sessions:?}");
        let (_, reply) = login(&logins);
        clock.advance(Duration::from_secs(13 * 3600));
        let check = logins.check(&session_halves(&reply));
        assert!(!check.success, "an unused session ends after half a day");
        assert!(check.error.unwrap().ends_with("log in with: steplatch open"));
    }

    #[tokio::test]
    async fn redirect_file_is_removed_when_its_ticket_is_used_or_expires() {
        let state = tempfile::tempdir().unwrap();
        let clock = ManualClock::new(steplatch_clock::now());
        let logins = PageLogins::open(state.path(), state.path(), clock.clock());
        let verb = OpenPage { address: Some(PageSecret("http://localhost:7878/".to_owned())) };
        let reply = logins.open_page(&verb);
        let (file, ticket) = (PathBuf::from(reply.file.unwrap()), reply.ticket.unwrap());
        assert!(std::fs::read_to_string(&file).unwrap().contains(&ticket.0));
        assert!(logins.begin(&BeginPageSession { ticket, browser: String::new() }).success);
        assert!(!file.exists(), "the ticket is used");

        let file = PathBuf::from(logins.open_page(&verb).file.unwrap());
        clock.advance(Duration::from_secs(61));
        while file.exists() {
            tokio::task::yield_now().await;
        }
        assert!(logins.open_page(&OpenPage::default()).file.is_none());
        let elsewhere = OpenPage { address: Some(PageSecret("https://evil.example/".to_owned())) };
        assert!(!logins.open_page(&elsewhere).success);
    }

    #[test]
    fn link_shows_only_its_terminal_until_it_ends() {
        let state = tempfile::tempdir().unwrap();
        let clock = ManualClock::new(steplatch_clock::now());
        let logins = PageLogins::open(state.path(), state.path(), clock.clock());
        let share = logins.share("term_1".to_owned(), Some(600));
        let begin =
            || logins.begin(&BeginPageSession { ticket: share.ticket.clone().unwrap(), browser: "Safari".to_owned() });
        let [first, second] = [begin(), begin()];
        assert_eq!((first.terminal.as_deref(), first.expires_seconds), (Some("term_1"), 600));
        let check = |reply: &BeginPageSessionReply| {
            logins.check(&CheckPageSession { may_be_link: true, ..session_halves(reply) })
        };
        assert_eq!(check(&second).terminal.as_deref(), Some("term_1"));
        let older_server = logins.check(&session_halves(&first));
        assert!(!older_server.success && older_server.error.unwrap().contains("read-only"));
        let text = std::fs::read_to_string(state.path().join("page-sessions.json")).unwrap();
        assert!(!text.contains(&share.ticket.as_ref().unwrap().0));
        let list = logins.list();
        assert_eq!((list.sessions.len(), list.shares[0].browsers), (0, 2), "{list:?}");
        // The next daemon knows the link; an earlier version reads only full sessions.
        let next_logins = PageLogins::open(state.path(), state.path(), clock.clock());
        assert!(next_logins.check(&CheckPageSession { may_be_link: true, ..session_halves(&first) }).success);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["sessions"], serde_json::json!([]));
        clock.advance(Duration::from_secs(601));
        assert!(!check(&first).success && !begin().success && logins.list().shares.is_empty());

        let share = logins.share("term_2".to_owned(), None);
        let viewer = logins.begin(&BeginPageSession { ticket: share.ticket.unwrap(), browser: String::new() });
        let (_, full_session) = login(&logins);
        assert_eq!(logins.end(&EndPageSessions { session_id: share.share_id }).ended, 1);
        assert!(!check(&viewer).success && check(&full_session).success && check(&full_session).terminal.is_none());
        for seconds in [0, 8 * 86_400, u64::MAX] {
            assert!(logins.share("term_1".to_owned(), Some(seconds)).error.unwrap().contains("7 days"));
        }
        for _ in 0..MAX_SHARES {
            assert!(logins.share("term_1".to_owned(), None).success);
        }
        assert!(logins.share("term_1".to_owned(), None).error.unwrap().contains("serve sessions end"));
        assert_eq!(logins.end(&EndPageSessions::default()).ended, 1);
        assert!(logins.list().shares.is_empty());
    }

    #[test]
    fn sessions_are_ended_by_a_prefix_of_their_id() {
        let state = tempfile::tempdir().unwrap();
        let logins = PageLogins::open(state.path(), state.path(), Clock::system());
        let (_, reply) = login(&logins);
        let other_reply = login(&logins).1;
        let unknown = logins.end(&EndPageSessions { session_id: Some("-".to_owned()) });
        assert!(!unknown.success && unknown.error.unwrap().contains("steplatch serve sessions"));
        assert!(logins.end(&EndPageSessions { session_id: reply.session_id.clone() }).success);
        assert!(!logins.check(&session_halves(&reply)).success && logins.check(&session_halves(&other_reply)).success);
        assert_eq!(logins.end(&EndPageSessions::default()).ended, 1);
        assert!(!logins.check(&session_halves(&other_reply)).success);
        assert!(logins.list().sessions.is_empty());
    }
}
