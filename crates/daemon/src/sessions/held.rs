//! Terminals of runs that wait for a person.
//!
//! A person who judges what a terminal shows approves what the run does there next. What an agent types meanwhile would be
//! executed with it, so the terminal takes no input but the run's own and a person's until the question is answered.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use steplatch_ids::RunId;

/// Which terminals are held, by which runs.
#[derive(Debug, Default)]
pub(crate) struct HeldTerminals(Mutex<HashMap<RunId, Vec<String>>>);

impl HeldTerminals {
    /// Holds these terminals for a run, and lets go of others that it held.
    pub(crate) fn hold(&self, run: &RunId, terminals: Vec<String>) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if terminals.is_empty() {
            held.remove(run);
        } else {
            held.insert(run.clone(), terminals);
        }
    }

    /// Returns the run that holds a terminal, if it is another one than `actor`.
    pub(super) fn holder(&self, terminal: &str, actor: Option<&RunId>) -> Option<RunId> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |(run, terminals): &(&RunId, &Vec<String>)| {
            actor != Some(*run) && terminals.iter().any(|held| held == terminal)
        };
        held.iter().find(holds).map(|(run, _)| run.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_held_for_one_run_until_it_lets_go() {
        let held = HeldTerminals::default();
        let (run, other) = (RunId::random(), RunId::random());
        held.hold(&run, vec!["term_a".to_owned(), "term_b".to_owned()]);
        assert_eq!((held.holder("term_a", None), held.holder("term_c", None)), (Some(run.clone()), None));
        assert_eq!((held.holder("term_a", Some(&run)), held.holder("term_a", Some(&other))), (None, Some(run.clone())));
        held.hold(&run, vec!["term_b".to_owned()]);
        assert_eq!((held.holder("term_a", None), held.holder("term_b", None)), (None, Some(run.clone())));
        held.hold(&run, Vec::new());
        assert_eq!(held.holder("term_b", None), None);
    }
}
