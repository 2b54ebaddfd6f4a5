//! The write lock of a terminal. Only the holder may type.
//!
//! Without a holder, every client may type. A person who takes over holds the lock, and the terminal refuses the input
//! of all other clients with the name of the holder and the start of the hold. The lock stores a record of that period
//! for the next client that reads without holding it.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// Holder of a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    /// The name of the holder.
    pub name: String,
    /// Start of the hold.
    pub since: SystemTime,
}

/// Proof of a hold, created by the client that takes the lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HoldKey(pub String);

/// A client's hold of the terminal, as reported to clients that return to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// The client that held it.
    pub holder: LockHolder,
    /// Time of the release.
    pub until: SystemTime,
    /// Offset of the output at the start of the hold.
    pub from: u64,
    /// Offset of the output at the release.
    pub to: u64,
    /// Note to the next client that types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The write lock of one terminal.
#[derive(Debug, Default)]
pub(super) struct WriteLock {
    held: Option<(LockHolder, HoldKey, u64)>,
    handed_back: Option<Handover>,
}

impl WriteLock {
    /// Takes the lock, or takes it again with the same key. Returns the holder if another client holds it.
    pub(super) fn acquire(&mut self, holder: LockHolder, key: HoldKey, offset: u64) -> Result<(), LockHolder> {
        match &self.held {
            Some((_, holder_key, _)) if *holder_key == key => Ok(()),
            Some((holder, ..)) => Err(holder.clone()),
            None => {
                self.held = Some((holder, key, offset));
                Ok(())
            }
        }
    }

    /// Releases the lock with the key of the holder and stores a note to the next client that types.
    pub(super) fn give_back(&mut self, key: &HoldKey, note: Option<String>, now: SystemTime, offset: u64) {
        if let Some((holder, _, from)) = self.held.take_if(|(_, holder_key, _)| holder_key == key) {
            // Merge holds without a read between them.
            let (from, earlier_note) = match self.handed_back.take() {
                Some(earlier) => (earlier.from, earlier.note),
                None => (from, None),
            };
            self.handed_back = Some(Handover { holder, until: now, from, to: offset, note: note.or(earlier_note) });
        }
    }

    /// Checks that a client with this key may type. The error is the holder.
    pub(super) fn admits(&self, key: Option<&HoldKey>) -> Result<(), LockHolder> {
        match &self.held {
            Some((holder, holder_key, _)) if key != Some(holder_key) => Err(holder.clone()),
            _ => Ok(()),
        }
    }

    pub(super) fn holder(&self) -> Option<&LockHolder> {
        self.held.as_ref().map(|(holder, ..)| holder)
    }

    pub(super) fn was_handed_back(&self) -> bool {
        self.handed_back.is_some()
    }

    /// Takes the record of a client's hold of the terminal.
    pub(super) fn take_handed_back(&mut self) -> Option<Handover> {
        self.handed_back.take()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(text: &str) -> HoldKey {
        HoldKey(text.to_owned())
    }

    fn ann() -> LockHolder {
        LockHolder { name: "ann".to_owned(), since: SystemTime::UNIX_EPOCH }
    }

    #[test]
    fn holder_excludes_others_from_typing_and_holding() {
        let mut lock = WriteLock::default();
        assert_eq!(lock.admits(None), Ok(()));
        lock.acquire(ann(), key("a"), 10).unwrap();
        assert_eq!(lock.admits(None), Err(ann()));
        assert_eq!(lock.admits(Some(&key("b"))), Err(ann()));
        assert_eq!(lock.admits(Some(&key("a"))), Ok(()));
        let bob = LockHolder { name: "bob".to_owned(), since: SystemTime::UNIX_EPOCH };
        assert_eq!(lock.acquire(bob, key("b"), 11), Err(ann()));
        lock.give_back(&key("b"), None, SystemTime::UNIX_EPOCH, 12);
        assert_eq!(lock.holder(), Some(&ann()), "another client's key does not release the lock");
    }

    #[test]
    fn handover_covers_all_holds_since_the_last_report() {
        let mut lock = WriteLock::default();
        let later = SystemTime::UNIX_EPOCH + Duration::from_secs(9);
        for (taken, given) in [(10, 20), (30, 40)] {
            lock.acquire(ann(), key("a"), taken).unwrap();
            lock.give_back(&key("a"), (given == 20).then(|| "see /etc".to_owned()), later, given);
        }
        let reported = lock.take_handed_back().unwrap();
        assert_eq!((reported.from, reported.to, reported.until), (10, 40, later));
        assert_eq!(reported.note.as_deref(), Some("see /etc"), "a release without a note keeps the previous note");
        assert!(lock.take_handed_back().is_none());
    }

    #[test]
    fn returning_holder_with_the_key_still_holds() {
        let mut lock = WriteLock::default();
        lock.acquire(ann(), key("a"), 10).unwrap();
        assert_eq!(lock.acquire(ann(), key("a"), 50), Ok(()));
        assert_eq!(lock.admits(Some(&key("a"))), Ok(()));
    }
}
