//! The sessions of browsers. Performs no I/O: callers pass the time and store the table.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use steplatch_clock::Timestamp;
use steplatch_protocol::is_format;

use super::SecretHash;

/// Lifetime of a session without use.
const IDLE_TIMEOUT: Duration = Duration::from_secs(12 * 3600);

/// Maximum lifetime of a session.
pub(super) const MAX_SESSION_TIME: Duration = Duration::from_secs(30 * 24 * 3600);

/// Maximum age of the stored time of the last use.
const USE_PRECISION: Duration = Duration::from_secs(300);

/// Maximum number of sessions. A further session replaces the session with the longest idle time.
const MAX_SESSIONS: usize = 64;

/// Maximum length of the name of a browser, in characters.
const MAX_BROWSER_CHARS: usize = 200;

/// Minimum length of a prefix that selects a session, in characters.
const MIN_PREFIX_CHARS: usize = 2;

/// All sessions, in their stored form.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SessionTable {
    sessions: Vec<PageSession>,
}

/// A logged-in browser.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PageSession {
    pub(super) id: String,
    cookie: SecretHash,
    half: SecretHash,
    pub(super) browser: String,
    pub(super) began: Timestamp,
    pub(super) used: Timestamp,
}

/// A checked session.
#[derive(Debug)]
pub(super) struct CheckedSession {
    pub(super) id: String,
    /// True if the stored time of the last use was outdated.
    pub(super) is_worth_storing: bool,
}

/// The result of a search for a session by a prefix of its id.
#[derive(Debug)]
pub(super) enum PrefixMatch {
    Unique(String),
    Several,
    None,
}

impl PageSession {
    /// Returns the time at which the session expires without another use.
    pub(super) fn expires(&self) -> Timestamp {
        self.used.after(IDLE_TIMEOUT).min(self.began.after(MAX_SESSION_TIME))
    }
}

impl SessionTable {
    /// Adds a session, with the hashes of its cookie and of its half of the origin.
    pub(super) fn begin(
        &mut self,
        id: String,
        (cookie, half): (SecretHash, SecretHash),
        browser: &str,
        now: Timestamp,
    ) {
        self.remove_expired(now);
        if self.sessions.len() >= MAX_SESSIONS
            && let Some(oldest) =
                self.sessions.iter().min_by_key(|session| session.used).map(|session| session.id.clone())
        {
            self.end(&oldest);
        }
        let browser = browser
            .chars()
            .filter(|character| !character.is_control() && !is_format(*character))
            .take(MAX_BROWSER_CHARS);
        self.sessions.push(PageSession { id, cookie, half, browser: browser.collect(), began: now, used: now });
    }

    /// Returns whether a session has this cookie.
    pub(super) fn has_cookie(&mut self, cookie: &SecretHash, now: Timestamp) -> bool {
        self.remove_expired(now);
        self.sessions.iter().fold(false, |known, session| known | session.cookie.equals(cookie))
    }

    /// Finds the session with these halves, and records its use.
    pub(super) fn check(&mut self, cookie: &SecretHash, half: &SecretHash, now: Timestamp) -> Option<CheckedSession> {
        self.remove_expired(now);
        let session =
            self.sessions.iter_mut().find(|session| session.cookie.equals(cookie) & session.half.equals(half))?;
        let is_worth_storing = now.since(session.used) >= USE_PRECISION;
        if is_worth_storing {
            session.used = now;
        }
        Some(CheckedSession { id: session.id.clone(), is_worth_storing })
    }

    /// Returns the unexpired sessions, the most recently used first.
    pub(super) fn live(&mut self, now: Timestamp) -> Vec<PageSession> {
        self.remove_expired(now);
        let mut live = self.sessions.clone();
        live.sort_by_key(|session| std::cmp::Reverse((session.used, session.began)));
        live
    }

    /// Returns the session whose id begins with `prefix`.
    pub(super) fn find_by_prefix(&mut self, prefix: &str, now: Timestamp) -> PrefixMatch {
        self.remove_expired(now);
        if prefix.chars().count() < MIN_PREFIX_CHARS {
            return PrefixMatch::None;
        }
        let mut matches = self.sessions.iter().filter(|session| session.id.starts_with(prefix));
        match (matches.next(), matches.next()) {
            (Some(session), None) => PrefixMatch::Unique(session.id.clone()),
            (Some(_), Some(_)) => PrefixMatch::Several,
            (None, _) => PrefixMatch::None,
        }
    }

    /// Ends a session. Returns whether there was one.
    pub(super) fn end(&mut self, id: &str) -> bool {
        let count = self.sessions.len();
        self.sessions.retain(|session| session.id != id);
        self.sessions.len() < count
    }

    /// Ends all sessions. Returns their number.
    pub(super) fn end_all(&mut self, now: Timestamp) -> usize {
        self.remove_expired(now);
        std::mem::take(&mut self.sessions).len()
    }

    fn remove_expired(&mut self, now: Timestamp) {
        self.sessions.retain(|session| now < session.expires());
    }
}
