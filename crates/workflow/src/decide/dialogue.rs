//! The turns of a dialogue.

use steplatch_clock::Timestamp;

use super::{Decision, DecisionBuilder, Effect};
use crate::child;
use crate::dialogue::{self, Dialogue, Next};
use crate::event::{DialogueAnswer, Event, Outcome};
use crate::history::CurrentStep;
use crate::substitute::Lookup;
use crate::tool;

impl DecisionBuilder<'_> {
    /// Handles the end of a turn: types the next answer, or ends the action.
    pub(super) fn end_turn(mut self, current: &CurrentStep, outcome: Outcome) -> Decision {
        let Outcome::Finished { result: turn_result } = &outcome else { return self.complete(current, outcome) };
        let answers = self.history.answers();
        let next = match Dialogue::read(&current.params) {
            Ok(dialogue) => dialogue.after(answers, turn_result, self.history.variables()),
            Err(invalid) => {
                return self.complete(current, child::refused(invalid.to_string()));
            }
        };
        match next {
            Next::Ended(result) => self.complete(current, Outcome::Finished { result }),
            Next::Answer(answer) => {
                let answers: Vec<DialogueAnswer> = answers.iter().cloned().chain([answer.clone()]).collect();
                self.record(Event::QuestionAnswered { at: self.now, step: current.step.clone(), answer });
                let current = current.with_time_left(self.now);
                self.decision.effects.push(turn_effect(&current, &answers, self.history.variables(), self.now));
                self.decision
            }
        }
    }
}

/// Returns the effect of the turn that follows these answers.
pub(super) fn turn_effect(
    current: &CurrentStep,
    answers: &[DialogueAnswer],
    variables: &dyn Lookup,
    now: Timestamp,
) -> Effect {
    match dialogue::turn(current, answers, variables, now) {
        Ok(params) => Effect::Perform {
            step: current.step.part(answers.len() + 1),
            tool: tool::DIALOGUE.to_owned(),
            params,
            limit: current.limit,
        },
        Err(invalid) => Effect::Answer { step: current.step.clone(), outcome: child::refused(invalid.to_string()) },
    }
}
