//! Terminals of runs that wait for a person.
//!
//! A person who judges what a terminal shows approves what the run does there next. What an agent types meanwhile would be
//! executed with it, so the terminal takes no input but the run's own and a person's until the question is answered. What
//! people type is counted: the person who answers may not be the one who typed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use steplatch_ids::RunId;
use steplatch_protocol::TypedInput;

/// The most accounts of input that are kept for one question; further people are counted with the last one.
const MOST_ACCOUNTS: usize = 20;

/// Which terminals are held, by which runs.
#[derive(Debug, Default)]
pub(crate) struct HeldTerminals(Mutex<HashMap<RunId, Held>>);

/// What one run holds.
#[derive(Debug, Default)]
struct Held {
    /// The id of the question.
    gate: String,
    terminals: Vec<String>,
    /// What was typed into them since the question, for each terminal and person. Counted anew by each daemon.
    typed: Vec<TypedInput>,
}

impl HeldTerminals {
    /// Holds these terminals for a run that asks a question, and lets go of others that it held.
    pub(crate) fn hold(&self, run: &RunId, gate: String, terminals: Vec<String>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = all.entry(run.clone()).or_default();
        if held.gate != gate {
            *held = Held { gate, ..Held::default() };
        }
        held.terminals = terminals;
    }

    /// Lets go of what a run held.
    pub(crate) fn release(&self, run: &RunId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(run);
    }

    /// Returns the run that holds a terminal, if it is another one than `actor`.
    pub(super) fn holder(&self, terminal: &str, actor: Option<&RunId>) -> Option<RunId> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |(run, held): &(&RunId, &Held)| actor != Some(*run) && held.has(terminal);
        all.iter().find(holds).map(|(run, _)| run.clone())
    }

    /// Counts input of `input.bytes` bytes that was typed into a terminal, if a run holds that.
    pub(super) fn count(&self, input: &TypedInput) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for held in all.values_mut().filter(|held| held.has(&input.session_id)) {
            let is_same = |known: &&mut TypedInput| known.session_id == input.session_id && known.by == input.by;
            let is_full = held.typed.len() >= MOST_ACCOUNTS;
            match held.typed.iter_mut().rev().find(|known| is_full || is_same(known)) {
                Some(known) => {
                    known.bytes = known.bytes.saturating_add(input.bytes);
                    known.last_at.clone_from(&input.last_at);
                }
                None => held.typed.push(input.clone()),
            }
        }
    }

    /// Returns what was typed since a question into the terminals that are held for it.
    pub(crate) fn typed(&self, run: &RunId, gate: &str) -> Vec<TypedInput> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(run).filter(|held| held.gate == gate).map(|held| held.typed.clone()).unwrap_or_default()
    }
}

impl Held {
    fn has(&self, terminal: &str) -> bool {
        self.terminals.iter().any(|held| held == terminal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminals(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_terminal_is_held_for_one_run_until_it_lets_go() {
        let held = HeldTerminals::default();
        let (run, other) = (RunId::random(), RunId::random());
        held.hold(&run, "1".to_owned(), terminals(&["term_a", "term_b"]));
        assert_eq!((held.holder("term_a", None), held.holder("term_c", None)), (Some(run.clone()), None));
        assert_eq!((held.holder("term_a", Some(&run)), held.holder("term_a", Some(&other))), (None, Some(run.clone())));
        held.hold(&run, "1".to_owned(), terminals(&["term_b"]));
        assert_eq!((held.holder("term_a", None), held.holder("term_b", None)), (None, Some(run.clone())));
        held.release(&run);
        assert_eq!(held.holder("term_b", None), None);
    }

    #[test]
    fn what_is_typed_is_counted_for_each_terminal_and_person_until_the_next_question() {
        let held = HeldTerminals::default();
        let run = RunId::random();
        let input = |session: &str, by: &str, bytes: u64| TypedInput {
            session_id: session.to_owned(),
            by: by.to_owned(),
            bytes,
            last_at: bytes.to_string(),
        };
        held.hold(&run, "1".to_owned(), terminals(&["term_a", "term_b"]));
        for typed in [("term_a", "ann", 3), ("term_c", "ann", 9), ("term_b", "ann", 1), ("term_a", "ann", 2)] {
            held.count(&input(typed.0, typed.1, typed.2));
        }
        held.hold(&run, "1".to_owned(), terminals(&["term_a", "term_b"]));
        assert_eq!(
            held.typed(&run, "1"),
            [TypedInput { bytes: 5, ..input("term_a", "ann", 2) }, input("term_b", "ann", 1)]
        );
        for person in 0..100 {
            held.count(&input("term_a", &person.to_string(), 1));
        }
        let all = held.typed(&run, "1");
        assert_eq!((all.len(), all.iter().map(|typed| typed.bytes).sum::<u64>()), (MOST_ACCOUNTS, 106));
        held.hold(&run, "2".to_owned(), terminals(&["term_a"]));
        assert!(held.typed(&run, "1").is_empty() && held.typed(&run, "2").is_empty());
    }
}
