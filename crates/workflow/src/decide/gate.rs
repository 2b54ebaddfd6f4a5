//! What a machine lets somebody else judge.
//!
//! A transition whose condition has a description can not be chosen here: a gate
//! asks, with the descriptions as choices. What follows on "none of these" is
//! decided when the gate opens, while the end of the state is at hand.

use serde_json::{Map, Value};
use steplatch_ids::StepId;

use super::{Decision, Effect, Move, Way};
use crate::event::{Choice, Event};
use crate::history::Gate;
use crate::substitute::Lookup;
use crate::variables::Variables;

/// The choice that is there besides the descriptions.
pub const NONE_OF_THESE: &str = "none of these";

impl Move<'_> {
    /// Asks which of the choices holds, and waits.
    pub(super) fn open_gate(
        mut self,
        step: StepId,
        choices: Vec<Choice>,
        otherwise: Way,
        context: Map<String, Value>,
    ) -> Decision {
        let gate = Gate { step, choices, otherwise, context, opened_at: self.now };
        self.decision.effects.push(Effect::DisarmDeadline);
        self.decision.effects.push(asking(&gate));
        let Gate { step, choices, otherwise, context, opened_at: at } = gate;
        self.record(Event::GateOpened { at, step, choices, otherwise, context });
        self.decision
    }

    /// Goes where an answer leads. An answer that is none of the choices decides nothing.
    pub(super) fn pass_gate(mut self, gate: &Gate, choice: String, by: String) -> Decision {
        let chosen = gate.choices.iter().find(|possible| possible.description == choice);
        let way = match chosen {
            Some(chosen) => Way::Go { to: chosen.next_state.clone(), because: format!("{by} judged: {choice}") },
            None if choice == NONE_OF_THESE => gate.otherwise.clone(),
            None => return Decision::default(),
        };
        let history = self.history;
        let variables = Answered { before: history.variables(), answer: choice.as_str().into() };
        self.record(Event::GateAnswered { at: self.now, step: gate.step.clone(), choice, by });
        let after = history.time_left(self.now);
        self.decision.effects.push(Effect::ArmDeadline { after });
        self.follow(&gate.step.place, way, &variables, history.terminals())
    }
}

/// Returns the effect that brings a gate its answer.
pub(super) fn asking(gate: &Gate) -> Effect {
    let descriptions = gate.choices.iter().map(|choice| choice.description.clone());
    Effect::OpenGate {
        step: gate.step.clone(),
        prompt: gate.prompt(),
        choices: descriptions.chain([NONE_OF_THESE.to_owned()]).collect(),
        context: gate.context.clone(),
    }
}

/// Variables as they are once a gate was answered.
struct Answered<'a> {
    before: &'a Variables,
    answer: Value,
}

impl Lookup for Answered<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        if name == "answer" { Some(&self.answer) } else { self.before.get(name) }
    }

    fn is_of_shell(&self, name: &str) -> bool {
        self.before.is_of_shell(name)
    }
}
