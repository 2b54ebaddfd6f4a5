//! Read-only links to terminals. Pure: callers pass the time.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use steplatch_clock::Timestamp;

use super::SecretHash;

/// Default lifetime of a link.
pub(super) const DEFAULT_SHARE_TIME: Duration = Duration::from_secs(3600);

/// Maximum lifetime of a link.
pub(super) const MAX_SHARE_TIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// Maximum number of links.
pub(super) const MAX_SHARES: usize = 32;

/// A link. Several browsers may use a link until it expires.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Share {
    pub(super) id: String,
    ticket: SecretHash,
    /// Id of the terminal.
    pub(super) terminal: String,
    pub(super) began: Timestamp,
    pub(super) expires: Timestamp,
}

impl Share {
    pub(super) fn new(id: String, ticket: SecretHash, terminal: String, now: Timestamp, lifetime: Duration) -> Self {
        Self { id, ticket, terminal, began: now, expires: now.after(lifetime) }
    }

    /// Returns whether a ticket belongs to the link.
    pub(super) fn accepts(&self, ticket: &SecretHash) -> bool {
        self.ticket.equals(ticket)
    }

    /// Returns whether the link is valid at this time. A clock that is set back ends a link instead of extending it.
    pub(super) fn is_valid(&self, now: Timestamp) -> bool {
        self.began <= now && now < self.expires
    }
}
