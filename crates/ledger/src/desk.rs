//! Requests for effects, and the rules of their answers.

use std::collections::BTreeMap;

use crate::effect::{EffectKey, names_step};
use crate::ledger::{EffectState, Ledger, LedgerLimits};

/// Requests for the effects of steps. `W` waits for a result `R`, `N` receives the notice of an abandoned step, and `T`
/// is a terminal.
///
/// Decides on requests for effects (perform, or wait for the same effect), and on the shells of single commands. The
/// caller performs the effects and answers the waiters.
#[derive(Debug)]
pub struct EffectDesk<W, R, N, T> {
    ledger: Ledger<Performing<W, N>, R>,
    /// Terminals of single commands, by their steps, until they close or belong to their clients.
    shells: BTreeMap<String, Shell<T>>,
}

/// A terminal of a single command.
#[derive(Debug)]
struct Shell<T> {
    terminal: T,
    /// True if the command is still running or has unread output. The client owns the terminal of a settled step.
    is_left_open: bool,
}

/// An effect in progress.
#[derive(Debug)]
struct Performing<W, N> {
    waiters: Vec<W>,
    listener: N,
    /// True if the requester settled the step before the end of the effect.
    is_abandoned: bool,
}

/// Answer to a request for an effect.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission<R> {
    /// The caller performs the effect now, and reports its end.
    Perform,
    /// The effect is in progress. The desk keeps the waiter until its end.
    Wait,
    /// The effect is finished, with this result.
    Answer(R),
    /// The effect began before, and the ledger has no result. No process may perform it again.
    Unknown,
}

/// End of an effect.
#[derive(Debug)]
pub enum EffectEnd<R> {
    /// The effect took place, perhaps in part. The result has this size in bytes.
    Performed(R, usize),
    /// Nothing has changed: a repeated request performs the effect.
    Refused,
    /// The result will never arrive.
    Lost,
}

impl<W, R: Clone, N, T: Clone> EffectDesk<W, R, N, T> {
    /// Returns a desk without entries.
    #[must_use]
    pub fn new(limits: LedgerLimits) -> Self {
        Self { ledger: Ledger::new(limits), shells: BTreeMap::new() }
    }

    /// Handles a request for an effect. `is_settled_later` is true if the requester settles the step once it has stored
    /// the result. `listener` receives the notice if the requester abandons the step while the effect is in progress.
    pub fn request(&mut self, key: EffectKey, is_settled_later: bool, waiter: W, listener: N) -> Admission<R> {
        match self.ledger.find(&key) {
            None => {
                let performing = Performing { waiters: vec![waiter], listener, is_abandoned: false };
                self.ledger.begin(key, is_settled_later, performing);
                Admission::Perform
            }
            Some(EffectState::Performing(performing)) => {
                performing.waiters.push(waiter);
                Admission::Wait
            }
            Some(EffectState::Performed(result)) => Admission::Answer(result.clone()),
            Some(EffectState::Unknown) => Admission::Unknown,
        }
    }

    /// Registers a waiter for an effect in progress, or returns the result of a finished effect, including a settled
    /// opening. `Err` returns the waiter if there is no result.
    ///
    /// # Errors
    /// If the ledger does not know the effect or its result.
    pub fn wait_for(&mut self, key: &EffectKey, waiter: W) -> Result<Option<R>, W> {
        if let Some(EffectState::Performing(performing)) = self.ledger.find(key) {
            performing.waiters.push(waiter);
            return Ok(None);
        }
        self.ledger.stored_result(key).cloned().map(Some).ok_or(waiter)
    }

    /// Returns the result of an effect: `Some(None)` if it is in progress or without a known result.
    pub fn result(&mut self, key: &EffectKey) -> Option<Option<&R>> {
        self.ledger.find(key).map(|state| match state {
            EffectState::Performed(result) => Some(result),
            EffectState::Performing(_) | EffectState::Unknown => None,
        })
    }

    /// Records the end of an effect in progress. Returns its waiters.
    pub fn end(&mut self, key: &EffectKey, end: EffectEnd<R>) -> Vec<W> {
        let performing = match end {
            EffectEnd::Performed(result, bytes) => self.ledger.finish(key, result, bytes),
            EffectEnd::Refused => self.ledger.withdraw(key),
            EffectEnd::Lost => self.ledger.lose(key),
        };
        performing.map(|performing| performing.waiters).unwrap_or_default()
    }

    /// Records the terminal of a single command, before the end of its opening. Returns the terminal if the requester
    /// has abandoned its step in the meantime, because the caller closes it.
    pub fn add_shell(&mut self, opening: &EffectKey, terminal: T) -> Option<T> {
        match self.ledger.find(opening) {
            Some(EffectState::Performing(performing)) if !performing.is_abandoned => {
                self.shells.insert(opening.step.clone(), Shell { terminal, is_left_open: false });
                None
            }
            _ => Some(terminal),
        }
    }

    /// Drops the shells of single commands that are no longer open.
    pub fn retain_shells(&mut self, is_open: impl Fn(&T) -> bool) {
        self.shells.retain(|_, shell| is_open(&shell.terminal));
    }

    /// Leaves the terminal of a single command to its client, because the command is still running or has unread
    /// output. The client owns the terminal once it settles the step by its own name: this confirms that the client has
    /// the result.
    pub fn leave_shell(&mut self, step: &str) {
        if let Some(shell) = self.shells.get_mut(step) {
            shell.is_left_open = true;
        }
    }

    /// Records that the requester of `steps`, as [`names_step`] takes it, no longer needs their results, because it has
    /// stored the results, or has abandoned the steps. Calls `notify` for each effect in progress. Returns the
    /// terminals to close.
    pub fn settle(&mut self, steps: &str, mut notify: impl FnMut(&N)) -> Vec<T> {
        self.ledger.settle(steps);
        for (key, performing) in self.ledger.performing() {
            if names_step(steps, &key.step) {
                performing.is_abandoned = true;
                notify(&performing.listener);
            }
        }
        let following = self.shells.range(steps.to_owned()..).map(|(step, _)| step);
        let settled: Vec<String> = following.take_while(|step| names_step(steps, step)).cloned().collect();
        let shells = settled.iter().filter_map(|step| self.shells.remove(step));
        // If a run ends before it stored the result, no client knows the terminal.
        let is_run = steps.ends_with('/');
        shells.filter(|shell| is_run || !shell.is_left_open).map(|shell| shell.terminal).collect()
    }

    /// Returns whether a step has an effect, or is settled.
    #[must_use]
    pub fn has_step(&self, step: &str) -> bool {
        self.ledger.has_step(step)
    }

    /// Returns whether the ledger has an effect that its requester settles later and has not settled.
    #[must_use]
    pub fn has_unsettled(&self) -> bool {
        self.ledger.has_unsettled()
    }

    /// Returns whether the ledger has an effect whose requester sends no report, and may request it again.
    #[must_use]
    pub fn has_unreported(&self) -> bool {
        self.ledger.has_unreported()
    }

    /// Returns the steps with effects that their requesters settle later and have not settled.
    #[must_use]
    pub fn unsettled(&self) -> Vec<String> {
        self.ledger.unsettled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::Effect;

    type Desk = EffectDesk<u8, &'static str, (), u8>;

    const LIMITS: LedgerLimits = LedgerLimits { max_names: 100, max_result_bytes: 1000 };

    fn open() -> EffectKey {
        EffectKey::new(Effect::Open, "run/a/1")
    }

    #[test]
    fn one_request_performs_an_effect_for_all() {
        let mut desk = Desk::new(LIMITS);
        assert_eq!(desk.request(open(), true, 1, ()), Admission::Perform);
        assert_eq!(desk.request(open(), true, 2, ()), Admission::Wait);
        assert_eq!(desk.wait_for(&open(), 3), Ok(None));
        assert_eq!(desk.end(&open(), EffectEnd::Performed("id", 2)), [1, 2, 3]);
        assert_eq!(desk.request(open(), true, 4, ()), Admission::Answer("id"));
        assert_eq!(desk.end(&open(), EffectEnd::Lost), [0; 0]);
        desk.settle("run/a/1", |()| {});
        assert_eq!(desk.request(open(), true, 5, ()), Admission::Unknown);
        assert_eq!(desk.wait_for(&open(), 6), Ok(Some("id")), "a settled opening still has its terminal to close");
    }

    #[test]
    fn refused_effect_is_performed_by_the_next_request() {
        let mut desk = Desk::new(LIMITS);
        assert_eq!(desk.request(open(), true, 1, ()), Admission::Perform);
        assert_eq!(desk.end(&open(), EffectEnd::Refused), [1]);
        assert_eq!(desk.request(open(), true, 2, ()), Admission::Perform);
    }

    #[test]
    fn shell_of_a_settled_step_closes_unless_left_to_its_client() {
        let mut desk = Desk::new(LIMITS);
        desk.request(open(), true, 1, ());
        assert_eq!(desk.add_shell(&open(), 7), None);
        desk.end(&open(), EffectEnd::Performed("id", 2));
        assert_eq!(desk.settle("run/a/", |()| {}), [7]);
        assert_eq!(desk.settle("run/a/", |()| {}), [0; 0]);
        let other = EffectKey::new(Effect::Open, "run/b/1");
        desk.request(other.clone(), true, 1, ());
        assert_eq!(desk.add_shell(&other, 8), None);
        desk.leave_shell("run/b/1");
        assert_eq!(desk.settle("run/b/1", |()| {}), [0; 0]);
        let unknown = EffectKey::new(Effect::Open, "run/c/1");
        desk.request(unknown.clone(), true, 1, ());
        assert_eq!(desk.add_shell(&unknown, 9), None);
        desk.leave_shell("run/c/1");
        assert_eq!(desk.settle("run/", |()| {}), [9], "the run ended before it stored the terminal of its command");
    }

    #[test]
    fn shell_opened_for_an_abandoned_step_is_returned() {
        let mut desk = Desk::new(LIMITS);
        desk.request(open(), true, 1, ());
        let mut notice_count = 0;
        desk.settle("run/a/1", |()| notice_count += 1);
        assert_eq!((desk.add_shell(&open(), 7), notice_count), (Some(7), 1));
        desk.end(&open(), EffectEnd::Performed("id", 2));
        assert!(!desk.has_unsettled());
    }
}
