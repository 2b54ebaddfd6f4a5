//! Terminals of runs that wait for a person.
//!
//! A person who answers a gate approves the next action of the run in a terminal. Input by an agent in the meantime
//! would change the effect of that action, so the terminal accepts input only from the run and from people. The hold
//! ends after the answer, once the run has typed into a terminal or begun to wait for its output; reading the screen
//! does not end it. The hold counts input by people, because the person who answers may not be the person who typed.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use steplatch_ids::{RunId, StepId};
use steplatch_protocol::TypedInput;

/// Maximum number of input records for one gate; the last record also counts the input of further people.
const MAX_INPUT_RECORDS: usize = 20;

/// Held terminals, by the runs that hold them.
#[derive(Debug, Default)]
pub struct HeldTerminals(Mutex<HashMap<RunId, TerminalHold>>);

/// The terminals that one run holds.
#[derive(Debug, Default)]
struct TerminalHold {
    /// The id of the gate.
    gate: String,
    /// The ids or names of the terminals.
    terminals: Vec<String>,
    /// The step that types into a terminal after the answer.
    acting_step: Option<String>,
    /// The input typed since the gate opened, for each terminal and person. Each daemon counts from zero.
    typed: Vec<TypedInput>,
    /// Number of the hold; the lowest one takes precedence.
    number: u64,
}

/// Use of a terminal by an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalUse {
    /// The step types, or ends the program.
    Acts,
    /// The step waits for output.
    Reads,
    /// The step does not affect an existing terminal, or only reads it.
    Nothing,
}

impl TerminalUse {
    /// Returns the use by an action of a state machine.
    pub fn for_tool(tool: &str) -> Self {
        match tool {
            "run_command" | "send_input" | "dialogue" | "exit_terminal" => Self::Acts,
            "await_output" => Self::Reads,
            _ => Self::Nothing,
        }
    }
}

/// A terminal, by its id and by its name, since runs use either.
#[derive(Debug, Clone)]
pub(super) struct TerminalKey {
    pub(super) id: String,
    pub(super) name: Option<String>,
}

impl HeldTerminals {
    /// Holds these terminals for a run with an open gate and releases the other terminals of the run.
    pub fn hold(&self, run: &RunId, gate: String, terminals: Vec<String>) {
        let mut holds = self.lock();
        let number = holds.values().map(|held| held.number).max().unwrap_or(0) + 1;
        let held = holds.entry(run.clone()).or_insert_with(|| TerminalHold { number, ..TerminalHold::default() });
        if held.gate != gate {
            *held = TerminalHold { gate, number: held.number, ..TerminalHold::default() };
        }
        (held.terminals, held.acting_step) = (terminals, None);
    }

    /// Records a step of a run after its gate. Releases the terminals once a step has typed into a terminal, or begins
    /// to wait for output. That output may depend on others' input.
    pub fn record_step(&self, run: &RunId, step: &StepId, terminal_use: TerminalUse) {
        let mut holds = self.lock();
        let Some(held) = holds.get_mut(run) else { return };
        let step = step.to_string();
        match (&held.acting_step, terminal_use) {
            (Some(acting_step), _) if *acting_step != step => drop(holds.remove(run)),
            (_, TerminalUse::Acts) => held.acting_step = Some(step),
            (_, TerminalUse::Reads) => drop(holds.remove(run)),
            (_, TerminalUse::Nothing) => {}
        }
    }

    /// Releases the terminals that a run held.
    pub fn release(&self, run: &RunId) {
        self.lock().remove(run);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Returns the run other than `actor` that holds a terminal. If several runs hold the terminal, only the run that
    /// opened its gate first counts.
    pub(super) fn holder(&self, terminal: &TerminalKey, actor: Option<&RunId>) -> Option<RunId> {
        let holds = self.lock();
        let first = holds.iter().filter(|(_, held)| held.has(terminal)).min_by_key(|(_, held)| held.number);
        first.map(|(run, _)| run.clone()).filter(|run| actor != Some(run))
    }

    /// Returns whether a run holds a terminal for a gate. A person has approved the actions there of this run and of
    /// the runs that it has started since.
    pub(super) fn is_approved_at(&self, gate: &str, run: &RunId, terminal: &TerminalKey) -> bool {
        self.lock().get(run).is_some_and(|held| held.gate == gate && held.has(terminal))
    }

    /// Returns whether a run itself holds a terminal.
    pub(super) fn is_held_by(&self, run: &RunId, terminal: &TerminalKey) -> bool {
        self.lock().get(run).is_some_and(|held| held.has(terminal))
    }

    /// Counts input into a terminal, if a run holds it.
    pub(super) fn count_input(&self, terminal: &TerminalKey, input: &TypedInput) {
        let mut holds = self.lock();
        for held in holds.values_mut().filter(|held| held.has(terminal)) {
            let is_same = |known: &&mut TypedInput| known.session_id == input.session_id && known.by == input.by;
            let is_full = held.typed.len() >= MAX_INPUT_RECORDS;
            match held.typed.iter_mut().rev().find(|known| is_full || is_same(known)) {
                Some(known) => {
                    known.bytes = known.bytes.saturating_add(input.bytes);
                    known.last_at.clone_from(&input.last_at);
                }
                None => held.typed.push(input.clone()),
            }
        }
    }

    /// Returns the input into the terminals held for a gate since it opened.
    pub fn typed(&self, run: &RunId, gate: &str) -> Vec<TypedInput> {
        let holds = self.lock();
        holds.get(run).filter(|held| held.gate == gate).map(|held| held.typed.clone()).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, TerminalHold>> {
        self.0.lock()
    }
}

impl TerminalHold {
    fn has(&self, terminal: &TerminalKey) -> bool {
        self.terminals.iter().any(|held| *held == terminal.id || Some(held) == terminal.name.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminals(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn key(id: &str) -> TerminalKey {
        TerminalKey { id: id.to_owned(), name: Some("work".to_owned()) }
    }

    #[test]
    fn terminal_is_held_by_id_or_name_for_the_first_run() {
        let held = HeldTerminals::default();
        let (first, second) = (RunId::random(), RunId::random());
        held.hold(&first, "1".to_owned(), terminals(&["work"]));
        held.hold(&second, "1".to_owned(), terminals(&["term_a"]));
        assert_eq!(
            (held.holder(&key("term_a"), Some(&first)), held.holder(&key("term_a"), Some(&second))),
            (None, Some(first.clone()))
        );
        held.release(&first);
        assert_eq!(held.holder(&key("term_a"), None), Some(second));
        assert!(!held.is_held_by(&first, &key("term_a")) && !held.is_empty());
    }

    #[test]
    fn answered_terminal_is_held_until_the_run_acts() {
        let held = HeldTerminals::default();
        let run = RunId::random();
        let step = |visit: u32| StepId { run: run.clone(), place: "s".to_owned(), visit };
        let is_held = || held.is_held_by(&run, &key("term_a"));
        held.hold(&run, "1".to_owned(), terminals(&["term_a"]));
        held.record_step(&run, &step(1), TerminalUse::Nothing);
        held.record_step(&run, &step(1), TerminalUse::for_tool("get_screen_content"));
        assert!(is_held(), "reading the screen does not release the terminal");
        held.record_step(&run, &step(2), TerminalUse::Acts);
        held.record_step(&run, &step(2), TerminalUse::Acts);
        assert!(is_held(), "the terminal is held while the step types");
        held.record_step(&run, &step(3), TerminalUse::Nothing);
        assert!(!is_held());
        held.hold(&run, "2".to_owned(), terminals(&["term_a"]));
        held.record_step(&run, &step(4), TerminalUse::for_tool("await_output"));
        assert!(!is_held(), "waiting for output releases the terminal");
    }

    #[test]
    fn terminal_is_held_for_one_run_until_released() {
        let held = HeldTerminals::default();
        let (run, other_run) = (RunId::random(), RunId::random());
        held.hold(&run, "1".to_owned(), terminals(&["term_a", "term_b"]));
        assert_eq!((held.holder(&key("term_a"), None), held.holder(&key("term_c"), None)), (Some(run.clone()), None));
        assert_eq!(
            (held.holder(&key("term_a"), Some(&run)), held.holder(&key("term_a"), Some(&other_run))),
            (None, Some(run.clone()))
        );
        held.hold(&run, "1".to_owned(), terminals(&["term_b"]));
        assert_eq!((held.holder(&key("term_a"), None), held.holder(&key("term_b"), None)), (None, Some(run.clone())));
        held.release(&run);
        assert_eq!(held.holder(&key("term_b"), None), None);
    }

    #[test]
    fn inputs_are_counted_per_terminal_and_person() {
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
            held.count_input(&TerminalKey { id: typed.0.to_owned(), name: None }, &input(typed.0, typed.1, typed.2));
        }
        held.hold(&run, "1".to_owned(), terminals(&["term_a", "term_b"]));
        assert_eq!(
            held.typed(&run, "1"),
            [TypedInput { bytes: 5, ..input("term_a", "ann", 2) }, input("term_b", "ann", 1)]
        );
        for person in 0..100 {
            held.count_input(&key("term_a"), &input("term_a", &person.to_string(), 1));
        }
        let records = held.typed(&run, "1");
        assert_eq!((records.len(), records.iter().map(|typed| typed.bytes).sum::<u64>()), (MAX_INPUT_RECORDS, 106));
        held.hold(&run, "2".to_owned(), terminals(&["term_a"]));
        assert!(held.typed(&run, "1").is_empty() && held.typed(&run, "2").is_empty());
    }
}
