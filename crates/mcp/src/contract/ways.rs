//! Ways to the daemon, one for each client by name, so that what it opens bears its name.
//!
//! The first client has the way that was there before anybody came, which over standard input is all there is to it.

use std::sync::{Mutex, PoisonError};

use steplatch_protocol::Steady;

/// Clients that have ways of their own at the same time; who was first gives way.
const MOST: usize = 64;

/// Characters of a name, at the most.
const LONGEST_NAME: usize = 80;

/// Ways to the daemon.
#[derive(Debug)]
pub(super) struct Ways {
    first: Steady,
    known: Mutex<Vec<(String, Steady)>>,
}

impl Ways {
    pub(super) fn new(first: Steady) -> Self {
        Self { first, known: Mutex::default() }
    }

    /// The way for nobody in particular.
    pub(super) fn anybody(&self) -> &Steady {
        &self.first
    }

    /// The way of a client that calls itself so.
    pub(super) fn of(&self, name: Option<String>) -> Steady {
        let Some(name) = name else { return self.first.clone() };
        let name: String = name.chars().take(LONGEST_NAME).collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, way)) = known.iter().find(|(known, _)| *known == name) {
            return way.clone();
        }
        let way = match known.is_empty() {
            true => self.first.named(&name),
            false => self.first.apart(&name),
        };
        if known.len() == MOST {
            // Not the first: it would come back over the same connection under another name.
            known.remove(1);
        }
        known.push((name, way.clone()));
        way
    }
}
