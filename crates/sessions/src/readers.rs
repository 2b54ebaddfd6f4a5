//! Reading state of each client for each terminal: its offset, the rows of a full screen, its last match.
//!
//! The state is only in memory. A client that reconnects begins again.

use std::collections::HashMap;

use parking_lot::Mutex;
use steplatch_access::ConnectionId;
use steplatch_ids::TerminalId;
use steplatch_protocol::HighlightInfo;

/// Maximum number of readings; a further reading replaces the least recently used one. A reading with the rows of a
/// screen has about 5 KB.
const MAX_READINGS: usize = 256;

/// The part of one terminal that one client has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// End of the output that the client has seen.
    pub(crate) offset: Option<u64>,
    /// Version of the last screen that the client has seen.
    pub(crate) version: Option<u64>,
    /// The rows of that screen, if a full-screen program controlled it.
    pub(crate) rows: Option<Vec<String>>,
    /// Highlights of that screen.
    pub(crate) highlighted: Vec<HighlightInfo>,
    /// The offset after its last match.
    pub(crate) matched: Option<u64>,
    /// The offset of its last input.
    pub(crate) typed: Option<u64>,
    /// The last line of its last input with text, unless that was a secret.
    pub(crate) typed_line: Option<String>,
}

impl Reading {
    /// Returns the start offset of the next wait: the end of the last match or the last input, whichever is later;
    /// `None` without either.
    pub(crate) fn unmatched_offset(&self) -> Option<u64> {
        self.matched.max(self.typed)
    }
}

/// The readings of all clients.
#[derive(Debug, Default)]
pub(crate) struct Readers(Mutex<Readings>);

#[derive(Debug, Default)]
struct Readings {
    entries: HashMap<(ConnectionId, TerminalId), (Reading, u64)>,
    /// Number of uses. It orders the entries by their last use.
    uses: u64,
}

impl Readers {
    /// Returns the part of a terminal that a client has seen.
    pub(crate) fn reading(&self, client: ConnectionId, terminal: &TerminalId) -> Reading {
        let readings = self.0.lock();
        readings.entries.get(&(client, terminal.clone())).map(|(reading, _)| reading.clone()).unwrap_or_default()
    }

    /// Updates the part of a terminal that a client has seen.
    pub(crate) fn update_reading(
        &self,
        client: ConnectionId,
        terminal: &TerminalId,
        change: impl FnOnce(&mut Reading),
    ) {
        let mut readings = self.0.lock();
        readings.uses += 1;
        let current_use = readings.uses;
        let key = (client, terminal.clone());
        if readings.entries.len() >= MAX_READINGS && !readings.entries.contains_key(&key) {
            let oldest = readings.entries.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                readings.entries.remove(&oldest);
            }
        }
        let (reading, used) = readings.entries.entry(key).or_default();
        *used = current_use;
        change(reading);
    }

    /// Forgets a closed terminal.
    pub(crate) fn forget(&self, terminal: &TerminalId) {
        self.0.lock().entries.retain(|(_, known), _| known != terminal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_starts_after_the_last_match_or_input() {
        let begins = |matched, typed| Reading { matched, typed, ..Reading::default() }.unmatched_offset();
        assert_eq!(begins(None, None), None);
        assert_eq!(begins(Some(5), None), Some(5));
        assert_eq!(begins(None, Some(3)), Some(3));
        assert_eq!(begins(Some(5), Some(3)), Some(5));
        assert_eq!(begins(Some(5), Some(9)), Some(9));
    }

    #[test]
    fn each_client_has_its_own_position_and_oldest_is_dropped() {
        let readers = Readers::default();
        let terminal = TerminalId::random();
        let (first, second) = (ConnectionId::next(), ConnectionId::next());
        readers.update_reading(first, &terminal, |reading| reading.offset = Some(5));
        assert_eq!(readers.reading(first, &terminal).offset, Some(5));
        assert_eq!(readers.reading(second, &terminal), Reading::default());
        for offset in 0..MAX_READINGS as u64 {
            readers.update_reading(second, &TerminalId::random(), |reading| reading.offset = Some(offset));
        }
        assert_eq!(readers.reading(first, &terminal), Reading::default());
        assert_eq!(readers.0.lock().entries.len(), MAX_READINGS);
        readers.update_reading(first, &terminal, |reading| reading.matched = Some(1));
        readers.forget(&terminal);
        assert_eq!(readers.reading(first, &terminal), Reading::default());
    }
}
