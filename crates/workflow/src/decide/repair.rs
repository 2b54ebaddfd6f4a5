//! Patches of the machine of a run that stopped at an unknown screen.
//!
//! A proposal opens a gate for a person above the open gate. If the person declines the patch, the open gate waits
//! again. If the person accepts, the run continues with the patched document, in the state that the answer names.

use steplatch_ids::StepId;

use super::gate::gate_effects;
use super::{Branch, Decision, DecisionBuilder, Input, unknown};
use crate::event::{By, Event};
use crate::history::{Gate, GateRequest, History};
use crate::repair::{ACCEPT_AND_ASK, DECLINE, Proposal};

/// Suffix of the place of a question about a patch. No state name has this suffix.
const PLACE_SUFFIX: &str = "-patch";

/// Returns the place of the questions about patches in a state.
fn place(state: &str) -> String {
    format!("{state}{PLACE_SUFFIX}")
}

/// Returns whether a gate asks about a patch.
#[must_use]
pub fn asks_about_patch(gate: &StepId) -> bool {
    gate.place.ends_with(PLACE_SUFFIX)
}

/// Returns the proposal that an input accepts, if any. From this input on, its document is the definition for
/// [`decide`](super::decide).
#[must_use]
pub fn accepted_patch<'h>(history: &'h History, input: &Input) -> Option<&'h Proposal> {
    let Input::GateAnswered { step, choice, .. } = input else { return None };
    let gate = history.gate().filter(|gate| gate.step == *step)?;
    match &gate.asks {
        GateRequest::Patch { proposal, .. } if proposal.is_accepted_by(choice) => Some(proposal),
        _ => None,
    }
}

impl DecisionBuilder<'_> {
    /// Asks a person about a patch, above the open gate.
    pub(super) fn propose(mut self, proposal: Box<Proposal>) -> Decision {
        let Some(earlier_gate) = self.history.gate() else { return self.decision };
        let (run, place) = (earlier_gate.step.run.clone(), place(&earlier_gate.step.place));
        let step = StepId { run, place, visit: self.history.proposals().saturating_add(1) };
        let proposed = Event::PatchProposed { at: self.now, step, proposal, terminals: None };
        let mut history = self.history.clone();
        history.apply(&proposed);
        self.record(proposed);
        self.decision.effects.extend(history.gate().into_iter().flat_map(|gate| gate_effects(gate, self.now)));
        self.decision
    }

    /// Continues with the answer to a proposal.
    pub(super) fn pass_patch(
        mut self,
        gate: &Gate,
        proposal: &Proposal,
        earlier_gate: &Gate,
        choice: String,
        by: By,
    ) -> Decision {
        if choice != DECLINE && !proposal.is_accepted_by(&choice) {
            return Decision::default();
        }
        let because = format!("{} accepted a patch: {}", by.name, proposal.reason);
        let answer = Event::GateAnswered { at: self.now, step: gate.step.clone(), choice: choice.clone(), by };
        if choice == DECLINE {
            self.record(answer);
            self.decision.effects.extend(gate_effects(earlier_gate, self.now));
            return self.decision;
        }
        // The earlier gate no longer needs an answer.
        self.record(Event::GateCancelled { at: self.now, step: earlier_gate.step.clone() });
        let mut history = self.history.clone();
        history.apply(&answer);
        self.record(answer);
        let state = earlier_gate.step.place.as_str();
        if choice == ACCEPT_AND_ASK
            && let (GateRequest::Judgement { otherwise, .. }, Some(state_definition)) =
                (&earlier_gate.asks, self.definition.state(state))
        {
            let choices = unknown::choices(self.definition, state_definition, self.history.gateless());
            return self.open_gate(earlier_gate.step.clone(), choices, otherwise.clone(), earlier_gate.context.clone());
        }
        let Some(chosen) = proposal.choices.iter().find(|possible| possible.description == choice) else {
            return self.decision;
        };
        let branch = Branch::Go { to: chosen.next_state.clone(), because };
        self.arm_deadline();
        self.follow(state, branch, history.variables(), history.terminals())
    }
}
