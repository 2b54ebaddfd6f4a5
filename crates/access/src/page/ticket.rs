//! Unexpired and recently used tickets. Pure: callers pass the time.

use std::time::Duration;

use steplatch_clock::Timestamp;

use super::SecretHash;

/// Lifetime of a ticket.
pub(super) const TICKET_LIFETIME: Duration = Duration::from_secs(60);

/// Retention period of a used ticket, to detect a second use.
const USED_TICKET_LIFETIME: Duration = Duration::from_secs(600);

/// Maximum number of tickets; a new ticket replaces the oldest one.
const MAX_TICKETS: usize = 32;

/// All tickets.
#[derive(Debug)]
pub(crate) struct TicketTable {
    /// Lifetime of a ticket.
    lifetime: Duration,
    tickets: Vec<Ticket>,
}

#[derive(Debug)]
struct Ticket {
    hash: SecretHash,
    issued: Timestamp,
    /// Id of the session that the ticket began.
    used_by: Option<String>,
}

/// Result of an exchange.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// The ticket is valid; this is its first use.
    First,
    /// The ticket was used before, for this session.
    UsedBefore(String),
    /// The ticket does not exist or has expired.
    Unknown,
}

impl TicketTable {
    /// Creates a table of tickets with this lifetime.
    pub(crate) fn with_lifetime(lifetime: Duration) -> Self {
        Self { lifetime, tickets: Vec::new() }
    }

    /// Adds a ticket.
    pub(crate) fn issue(&mut self, hash: SecretHash, now: Timestamp) {
        self.remove_expired(now);
        if self.tickets.len() >= MAX_TICKETS {
            self.tickets.remove(0);
        }
        self.tickets.push(Ticket { hash, issued: now, used_by: None });
    }

    /// Returns whether a ticket was issued and has not expired, used or not.
    pub(crate) fn contains(&mut self, hash: &SecretHash, now: Timestamp) -> bool {
        self.remove_expired(now);
        self.tickets.iter().any(|ticket| ticket.hash.equals(hash))
    }

    /// Uses a ticket for the session `id`.
    pub(crate) fn exchange(&mut self, hash: &SecretHash, id: &str, now: Timestamp) -> Exchange {
        self.remove_expired(now);
        let Some(ticket) = self.tickets.iter_mut().find(|ticket| ticket.hash.equals(hash)) else {
            return Exchange::Unknown;
        };
        match &ticket.used_by {
            Some(session) => Exchange::UsedBefore(session.clone()),
            None => {
                ticket.used_by = Some(id.to_owned());
                Exchange::First
            }
        }
    }

    fn remove_expired(&mut self, now: Timestamp) {
        let lifetime = self.lifetime;
        self.tickets.retain(|ticket| {
            let limit = if ticket.used_by.is_some() { USED_TICKET_LIFETIME } else { lifetime };
            // A clock that is set back ends a ticket instead of extending it.
            ticket.issued <= now && now.since(ticket.issued) < limit
        });
    }
}
