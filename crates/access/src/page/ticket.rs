//! The unexpired tickets, and recently used ones. Pure: the time comes in.

use std::time::Duration;

use steplatch_clock::Timestamp;

use super::SecretHash;

/// Lifetime of a ticket.
pub(super) const TICKET_TIME: Duration = Duration::from_secs(60);

/// Time that the table remembers a used ticket, to notice its second use.
const MEMORY_TIME: Duration = Duration::from_secs(600);

/// Maximum number of tickets at a time; the oldest gives way.
const MAX_TICKETS: usize = 32;

/// All tickets.
#[derive(Debug)]
pub(crate) struct TicketTable {
    /// Lifetime of a ticket.
    lasts: Duration,
    tickets: Vec<Ticket>,
}

#[derive(Debug)]
struct Ticket {
    hash: SecretHash,
    issued: Timestamp,
    /// The session that it began.
    used_by: Option<String>,
}

/// The result of an exchange.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// The ticket is valid; this is its first use.
    First,
    /// A further use of the ticket, for this session.
    UsedBefore(String),
    /// There is no such ticket, or it has expired.
    Unknown,
}

impl TicketTable {
    /// Creates a table of tickets with this lifetime.
    pub(crate) fn lasting(lasts: Duration) -> Self {
        Self { lasts, tickets: Vec::new() }
    }

    /// Adds a ticket.
    pub(crate) fn issue(&mut self, hash: SecretHash, now: Timestamp) {
        self.forget(now);
        if self.tickets.len() >= MAX_TICKETS {
            self.tickets.remove(0);
        }
        self.tickets.push(Ticket { hash, issued: now, used_by: None });
    }

    /// Uses a ticket for the session `id`.
    pub(crate) fn exchange(&mut self, hash: &SecretHash, id: &str, now: Timestamp) -> Exchange {
        self.forget(now);
        let Some(ticket) = self.tickets.iter_mut().find(|ticket| ticket.hash.is(hash)) else {
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

    fn forget(&mut self, now: Timestamp) {
        let lasts = self.lasts;
        self.tickets.retain(|ticket| {
            let limit = if ticket.used_by.is_some() { MEMORY_TIME } else { lasts };
            // A clock that was set back ends a ticket rather than extending it.
            ticket.issued <= now && now.since(ticket.issued) < limit
        });
    }
}
