//! The sessions of browsers. Performs no I/O: callers pass the time and store the table.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use steplatch_clock::Timestamp;
use steplatch_protocol::is_format;

use super::SecretHash;
use super::share::{MAX_SHARES, Share};

/// Lifetime of a session without use.
const IDLE_TIMEOUT: Duration = Duration::from_secs(12 * 3600);

/// Maximum lifetime of a session.
pub(super) const MAX_SESSION_TIME: Duration = Duration::from_secs(30 * 24 * 3600);

/// Maximum age of the stored time of the last use.
const USE_PRECISION: Duration = Duration::from_secs(300);

/// Maximum number of sessions. A new session replaces the one with the longest idle time.
const MAX_SESSIONS: usize = 64;

/// Maximum browser name length, in characters.
const MAX_BROWSER_CHARS: usize = 200;

/// Minimum length of a prefix that selects a session, in characters.
const MIN_PREFIX_CHARS: usize = 2;

/// All sessions, in their stored form.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SessionTable {
    sessions: Vec<PageSession>,
    /// Sessions of read-only links, stored separately, because an earlier version would treat them as full sessions.
    #[serde(default)]
    viewers: Vec<PageSession>,
    #[serde(default)]
    shares: Vec<Share>,
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
    /// Id of the link that began the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    share: Option<String>,
}

/// A checked session.
#[derive(Debug)]
pub(super) struct CheckedSession {
    pub(super) id: String,
    /// The only terminal that the session may show.
    pub(super) terminal: Option<String>,
    /// True if the stored time of the last use was outdated.
    pub(super) is_worth_storing: bool,
}

/// Error of exceeding the maximum number of links.
#[derive(Debug)]
pub(super) struct TooManyShares;

/// Result of a search for a session by a prefix of its id.
#[derive(Debug)]
pub(super) enum PrefixMatch {
    Unique(String),
    Several,
    None,
}

impl PageSession {
    /// Returns the expiry time of the session without another use.
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
        share: Option<&Share>,
        now: Timestamp,
    ) {
        self.remove_expired(now);
        let sessions = if share.is_some() { &mut self.viewers } else { &mut self.sessions };
        let share_id = share.map(|share| &share.id);
        // A browser that uses a link replaces only browsers with the same link, so that it cannot log out others.
        let age = |session: &&PageSession| (session.share.as_ref() != share_id, session.used);
        if sessions.len() >= MAX_SESSIONS
            && let Some(oldest) = sessions.iter().min_by_key(age).map(|session| session.id.clone())
        {
            sessions.retain(|session| session.id != oldest);
        }
        let browser = browser
            .chars()
            .filter(|character| !character.is_control() && !is_format(*character))
            .take(MAX_BROWSER_CHARS);
        let share = share.map(|share| share.id.clone());
        sessions.push(PageSession { id, cookie, half, browser: browser.collect(), began: now, used: now, share });
    }

    /// Adds a link.
    ///
    /// # Errors
    /// If there are too many links.
    pub(super) fn add_share(&mut self, share: Share, now: Timestamp) -> Result<(), TooManyShares> {
        self.remove_expired(now);
        if self.shares.len() >= MAX_SHARES {
            return Err(TooManyShares);
        }
        self.shares.push(share);
        Ok(())
    }

    /// Returns the link of a ticket.
    pub(super) fn find_share(&mut self, ticket: &SecretHash, now: Timestamp) -> Option<Share> {
        self.remove_expired(now);
        self.shares.iter().find(|share| share.accepts(ticket)).cloned()
    }

    /// Returns the links, each with the number of its sessions.
    pub(super) fn shares(&mut self, now: Timestamp) -> Vec<(Share, usize)> {
        self.remove_expired(now);
        let count =
            |share: &Share| self.viewers.iter().filter(|viewer| viewer.share.as_ref() == Some(&share.id)).count();
        self.shares.iter().map(|share| (share.clone(), count(share))).collect()
    }

    fn all(&self) -> impl Iterator<Item = &PageSession> {
        self.sessions.iter().chain(&self.viewers)
    }

    /// Returns whether a session has this cookie.
    pub(super) fn has_cookie(&mut self, cookie: &SecretHash, now: Timestamp) -> bool {
        self.remove_expired(now);
        self.all().fold(false, |known, session| known | session.cookie.equals(cookie))
    }

    /// Finds the session with these halves and records its use.
    pub(super) fn check(&mut self, cookie: &SecretHash, half: &SecretHash, now: Timestamp) -> Option<CheckedSession> {
        self.remove_expired(now);
        let session = self
            .sessions
            .iter_mut()
            .chain(&mut self.viewers)
            .find(|session| session.cookie.equals(cookie) & session.half.equals(half))?;
        let share = self.shares.iter().find(|share| session.share.as_ref() == Some(&share.id));
        let terminal = share.map(|share| share.terminal.clone());
        let is_worth_storing = now.since(session.used) >= USE_PRECISION;
        if is_worth_storing {
            session.used = now;
        }
        Some(CheckedSession { id: session.id.clone(), terminal, is_worth_storing })
    }

    /// Returns the unexpired sessions, most recently used first.
    pub(super) fn unexpired_sessions(&mut self, now: Timestamp) -> Vec<PageSession> {
        self.remove_expired(now);
        let mut sessions = self.sessions.clone();
        sessions.sort_by_key(|session| std::cmp::Reverse((session.used, session.began)));
        sessions
    }

    /// Returns the session whose id begins with `prefix`.
    pub(super) fn find_by_prefix(&mut self, prefix: &str, now: Timestamp) -> PrefixMatch {
        self.remove_expired(now);
        if prefix.chars().count() < MIN_PREFIX_CHARS {
            return PrefixMatch::None;
        }
        let ids = self.all().map(|session| &session.id).chain(self.shares.iter().map(|share| &share.id));
        let mut matches = ids.filter(|id| id.starts_with(prefix));
        match (matches.next(), matches.next()) {
            (Some(id), None) => PrefixMatch::Unique(id.clone()),
            (Some(_), Some(_)) => PrefixMatch::Several,
            (None, _) => PrefixMatch::None,
        }
    }

    /// Ends a session, or a link with its sessions. Returns the number of ended sessions.
    pub(super) fn end(&mut self, id: &str) -> usize {
        let count = self.all().count();
        self.shares.retain(|share| share.id != id);
        for sessions in [&mut self.sessions, &mut self.viewers] {
            sessions.retain(|session| session.id != id && session.share.as_deref() != Some(id));
        }
        count - self.all().count()
    }

    /// Ends all sessions and links. Returns the number of ended sessions.
    pub(super) fn end_all(&mut self, now: Timestamp) -> usize {
        self.remove_expired(now);
        std::mem::take(self).all().count()
    }

    fn remove_expired(&mut self, now: Timestamp) {
        self.shares.retain(|share| share.is_valid(now));
        self.sessions.retain(|session| now < session.expires());
        // Sessions of a link end with it.
        let shares = &self.shares;
        self.viewers.retain(|viewer| {
            now < viewer.expires() && shares.iter().any(|share| viewer.share.as_ref() == Some(&share.id))
        });
    }
}
