//! The state of the inputs that carry a step id.
//!
//! An input is typed at most once: a repeated request does not type it again. So each step is noted
//! before anything is typed (*intent*), is *written* once the kernel has all of its bytes, and
//! *done* once the program's answer was awaited. An input that was intended and cannot be written
//! any more is in doubt, and a repeated request returns that.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// How far an input has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// It was accepted; some of it may have reached the program.
    Intent,
    /// All of it was handed to the program's terminal.
    Written,
    /// The answer to it was awaited for the requested time.
    Done,
}

/// Steps that are remembered; only recent requests are ever repeated.
const MOST: usize = 4000;

/// A request for what a person types key by key is repeated within a moment or not at all.
const MOST_KEYS: usize = 256;

/// The inputs of one terminal that carried a step id, newest last.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    entries: VecDeque<Entry>,
    /// Of what a person typed, so that it does not push the others out.
    keys: VecDeque<Entry>,
}

/// One input that was accepted.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    step: String,
    /// Offset of the output just before it.
    pub(super) offset: u64,
    /// Prompts that had been shown by then.
    pub(super) prompts: u64,
    /// Bytes that will have been written to the terminal when the last of it is.
    upto: u64,
    done: bool,
}

impl Ledger {
    /// Notes the intent of `step`; `by_hand` is whether a person types it. Its last byte is byte number `upto` of all
    /// bytes ever written.
    pub(super) fn intend(&mut self, step: &str, by_hand: bool, offset: u64, prompts: u64, upto: u64) {
        let (entries, most) = if by_hand { (&mut self.keys, MOST_KEYS) } else { (&mut self.entries, MOST) };
        if entries.len() == most {
            entries.pop_front();
        }
        entries.push_back(Entry { step: step.to_owned(), offset, prompts, upto, done: false });
    }

    /// Notes that the answer to `step` was awaited.
    pub(super) fn finish(&mut self, step: &str) {
        if let Some(entry) = self.entries.iter_mut().chain(&mut self.keys).find(|entry| entry.step == step) {
            entry.done = true;
        }
    }

    pub(super) fn find(&self, step: &str) -> Option<&Entry> {
        self.entries.iter().chain(&self.keys).rev().find(|entry| entry.step == step)
    }
}

impl Entry {
    /// How far it has come, when `written` bytes have been written in all.
    pub(super) fn stage(&self, written: u64) -> Stage {
        match () {
            () if self.upto > written => Stage::Intent,
            () if self.done => Stage::Done,
            () => Stage::Written,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_goes_from_intent_over_written_to_done() {
        let mut ledger = Ledger::default();
        ledger.intend("run/a/1", false, 7, 2, 10);
        let stage = |ledger: &Ledger, written| ledger.find("run/a/1").map(|entry| entry.stage(written));
        assert_eq!(stage(&ledger, 9), Some(Stage::Intent));
        assert_eq!(stage(&ledger, 10), Some(Stage::Written));
        ledger.finish("run/a/1");
        assert_eq!(stage(&ledger, 10), Some(Stage::Done));
        assert!(ledger.find("run/a/2").is_none());
    }

    #[test]
    fn only_the_newest_steps_are_remembered() {
        let mut ledger = Ledger::default();
        for step in 0..=MOST {
            ledger.intend(&step.to_string(), false, 0, 0, 0);
        }
        for key in 0..10 * MOST {
            ledger.intend(&format!("key {key}"), true, 0, 0, 0);
        }
        assert!(ledger.find("0").is_none());
        assert!(ledger.find("1").is_some() && ledger.find(&MOST.to_string()).is_some());
    }
}
