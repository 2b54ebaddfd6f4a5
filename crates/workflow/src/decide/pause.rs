//! Pausing and resuming of runs.
//!
//! An action in progress continues to its end, and the history records the end. The decision on the outcome is made
//! then, and takes effect when the run resumes. A run therefore continues after a week's pause exactly as it would have
//! without one.

use steplatch_ids::StepId;

use super::{Decision, DecisionBuilder, Effect};
use crate::event::{Continuation, Event};

impl DecisionBuilder<'_> {
    /// Pauses the run and its children: nothing new begins.
    pub(super) fn pause(mut self, by: String, above: bool) -> Decision {
        if !self.history.is_clock_stopped() {
            self.decision.effects.push(Effect::DisarmDeadline);
        }
        let pause_effect = |step: &StepId| Effect::PauseChild { step: step.clone(), by: by.clone() };
        self.decision.effects.extend(self.history.children().map(pause_effect));
        self.record(Event::Paused { at: self.now, by, above });
        self.decision
    }

    /// Resumes the run and its children and continues with the deferred decision.
    pub(super) fn resume(mut self, by: String) -> Decision {
        self.paused = false;
        self.record(Event::Resumed { at: self.now, by: by.clone() });
        if self.history.gate().is_none() && !self.history.child_waits() {
            self.arm_deadline();
        }
        let resume_effect = |step: &StepId| Effect::ResumeChild { step: step.clone(), by: by.clone() };
        self.decision.effects.extend(self.history.children().map(resume_effect));
        self.begin_due_branches();
        let history = self.history;
        match history.deferred().cloned() {
            None => self.decision,
            Some(Continuation::Leave { from, branch }) => {
                self.follow(&from, branch, history.variables(), history.terminals())
            }
            Some(Continuation::Judge { step, choices, otherwise, context }) => {
                self.open_gate(step, choices, otherwise, context)
            }
            Some(Continuation::Contract { purpose, learned, error, read, then }) => {
                self.settle(purpose, learned, error, &read, then.as_deref())
            }
        }
    }

    /// Defers a continuation until the run resumes.
    pub(super) fn defer(mut self, continuation: Continuation) -> Decision {
        self.record(Event::HeldBack { at: self.now, onward: continuation });
        self.decision
    }

    /// Arms the deadline of the run, except during a pause.
    pub(super) fn arm_deadline(&mut self) {
        if !self.paused {
            self.decision.effects.push(Effect::ArmDeadline { after: self.history.time_left(self.now) });
        }
    }
}
