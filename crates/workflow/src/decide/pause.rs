//! Pausing and resuming of runs.
//!
//! An action in progress at the pause of a run continues to its end, which the history records. The decision on it
//! comes then and waits until the run resumes, so that a run continues after a pause of a week exactly as it would have
//! at once.

use steplatch_ids::StepId;

use super::{Decision, DecisionBuilder, Effect};
use crate::event::{Continuation, Event};

impl DecisionBuilder<'_> {
    /// Begins nothing new.
    pub(super) fn pause(mut self, by: String, above: bool) -> Decision {
        if !self.history.stands_still() {
            self.decision.effects.push(Effect::DisarmDeadline);
        }
        let pausing = |step: &StepId| Effect::PauseChild { step: step.clone(), by: by.clone() };
        self.decision.effects.extend(self.history.children().map(pausing));
        self.record(Event::Paused { at: self.now, by, above });
        self.decision
    }

    /// Continues with the waiting decision.
    pub(super) fn resume(mut self, by: String) -> Decision {
        self.paused = false;
        self.record(Event::Resumed { at: self.now, by: by.clone() });
        if self.history.gate().is_none() && !self.history.child_waits() {
            self.rearm();
        }
        let resuming = |step: &StepId| Effect::ResumeChild { step: step.clone(), by: by.clone() };
        self.decision.effects.extend(self.history.children().map(resuming));
        self.go_on_with_branches();
        let history = self.history;
        match history.held().cloned() {
            None => self.decision,
            Some(Continuation::Leave { from, way }) => {
                self.follow(&from, way, history.variables(), history.terminals())
            }
            Some(Continuation::Judge { step, choices, otherwise, context }) => {
                self.open_gate(step, choices, otherwise, context)
            }
            Some(Continuation::Contract { purpose, learned, error, read, then }) => {
                self.settle(purpose, learned, error, &read, then.as_deref())
            }
        }
    }

    /// Keeps the consequence of an end for the time after the pause.
    pub(super) fn hold(mut self, onward: Continuation) -> Decision {
        self.record(Event::HeldBack { at: self.now, onward });
        self.decision
    }

    /// Restarts the time of the run, except during a pause.
    pub(super) fn rearm(&mut self) {
        if !self.paused {
            self.decision.effects.push(Effect::ArmDeadline { after: self.history.time_left(self.now) });
        }
    }
}
