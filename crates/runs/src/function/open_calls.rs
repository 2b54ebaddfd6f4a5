//! The calls of a run that have no answer yet.
//!
//! A function may wait for tens of thousands of calls at once, and each answer requires some lookups. So every query
//! made after an answer has an index: the calls that wait for a person, the descendants of a call, the call with a
//! function's own number, and the calls that have lost their enclosing call.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use steplatch_python_api::Call;

use super::calls::InlineExecution;
use super::calls::{CallTarget, PendingCall};

/// Open calls, by their numbers.
#[derive(Debug, Default)]
pub(super) struct OpenCalls {
    calls: BTreeMap<u64, PendingCall>,
    /// Calls that wait for a person or another client.
    waiting: BTreeSet<u64>,
    /// Calls made to answer another call or the run itself, by the number of that call.
    children: HashMap<u64, BTreeSet<u64>>,
    /// Calls of each frame.
    frames: HashMap<u64, BTreeSet<u64>>,
    /// Calls of functions, by frame and by their number within the frame.
    ordinals: HashMap<(u64, u64), u64>,
    /// Calls made within a call that has closed.
    orphans: BTreeSet<u64>,
}

impl OpenCalls {
    pub(super) fn insert(&mut self, number: u64, open: PendingCall) {
        self.remove(number);
        if open.waits_for_answer() {
            self.waiting.insert(number);
        }
        self.children.entry(open.parent()).or_default().insert(number);
        self.frames.entry(open.frame).or_default().insert(number);
        if let CallTarget::Call(Call { ordinal, .. }) = &open.target {
            self.ordinals.insert((open.frame, *ordinal), number);
        }
        if open.within.is_some_and(|within| !self.calls.contains_key(&within)) {
            self.orphans.insert(number);
        }
        self.calls.insert(number, open);
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<PendingCall> {
        let open = self.calls.remove(&number)?;
        self.waiting.remove(&number);
        self.orphans.remove(&number);
        take_from(&mut self.children, open.parent(), number);
        take_from(&mut self.frames, open.frame, number);
        if let CallTarget::Call(Call { ordinal, .. }) = &open.target {
            self.ordinals.remove(&(open.frame, *ordinal));
        }
        let within = |other: &&u64| self.calls.get(other).is_some_and(|open| open.within == Some(number));
        self.orphans.extend(self.children.get(&number).into_iter().flatten().filter(within));
        Some(open)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Records the progress of a call that its caller executes itself.
    pub(super) fn set_inlined(&mut self, number: u64, inlined: InlineExecution) {
        if let Some(open) = self.calls.get_mut(&number) {
            open.inlined = Some(inlined);
        }
    }

    pub(super) fn get(&self, number: u64) -> Option<&PendingCall> {
        self.calls.get(&number)
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.calls.contains_key(&number)
    }

    /// Returns all open calls, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &PendingCall)> {
        self.calls.iter().map(|(number, open)| (*number, open))
    }

    /// Returns the calls that wait for a person or another client, oldest first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (u64, &PendingCall)> {
        self.waiting.iter().map(|number| (*number, &self.calls[number]))
    }

    /// Returns whether a call waits for a person or another client.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns whether a frame has an open call.
    pub(super) fn has_of_frame(&self, frame: u64) -> bool {
        self.frames.contains_key(&frame)
    }

    /// Returns the calls of a frame, oldest first.
    pub(super) fn of_frame(&self, frame: u64) -> impl Iterator<Item = (u64, &PendingCall)> {
        self.frames.get(&frame).into_iter().flatten().map(|number| (*number, &self.calls[number]))
    }

    /// Returns all calls made, directly or indirectly, to answer a call, oldest first.
    pub(super) fn descendants(&self, number: u64) -> BTreeSet<u64> {
        let (mut all, mut next) = (BTreeSet::new(), vec![number]);
        while let Some(number) = next.pop() {
            let children = self.children.get(&number).into_iter().flatten();
            next.extend(children.filter(|number| all.insert(**number)));
        }
        all
    }

    /// Returns the number of a call of a function, by its number among the calls of that function.
    pub(super) fn number_of(&self, frame: u64, ordinal: u64) -> Option<u64> {
        self.ordinals.get(&(frame, ordinal)).copied()
    }

    /// Returns the calls made within a call that has closed.
    pub(super) fn orphans(&self) -> Vec<u64> {
        self.orphans.iter().copied().collect()
    }
}

/// Removes a number from the set at a key, and the set once it is empty.
fn take_from(sets: &mut HashMap<u64, BTreeSet<u64>>, key: u64, number: u64) {
    if let Some(set) = sets.get_mut(&key) {
        set.remove(&number);
        if set.is_empty() {
            sets.remove(&key);
        }
    }
}
