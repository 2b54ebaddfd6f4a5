//! The gates of a machine.
//!
//! The action `gate` asks a question, and the answer is its result. If conditions of transitions have descriptions, a
//! gate offers the descriptions as choices. The branch for "none of these" is chosen when the gate opens, because the
//! end of the state is available then.

use serde_json::{Map, Value};
use steplatch_clock::Timestamp;
use steplatch_ids::StepId;

use super::{Decision, DecisionBuilder, Effect};
use crate::event::{Branch, By, Choice, Continuation, Event, FailureReason, NONE_OF_THESE, Outcome};
use crate::history::{CurrentStep, Gate, GateRequest, Terminals};
use crate::question::Question;
use crate::substitute::Lookup;
use crate::variables::Variables;

impl DecisionBuilder<'_> {
    /// Opens a gate that asks which of the choices holds, and waits.
    pub(super) fn open_gate(
        mut self,
        step: StepId,
        choices: Vec<Choice>,
        otherwise: Branch,
        context: Map<String, Value>,
    ) -> Decision {
        if self.paused {
            return self.defer(Continuation::Judge { step, choices, otherwise, context });
        }
        self.record(Event::GateOpened {
            at: self.now,
            step: step.clone(),
            choices: choices.clone(),
            otherwise: otherwise.clone(),
            context: context.clone(),
        });
        let asks = GateRequest::Judgement { choices, otherwise };
        let gate = Gate { step, asks, context, opened_at: self.now, terminals: None };
        self.decision.effects.push(Effect::DisarmDeadline);
        self.decision.effects.extend(gate_effects(&gate, self.now));
        self.decision
    }

    /// Enters a state whose action opens a gate, and waits.
    pub(super) fn enter_gate(
        mut self,
        entered: CurrentStep,
        variables: &impl Lookup,
        terminals: &Terminals,
    ) -> Decision {
        let (question, question_timeout) = match Question::read(&entered.params) {
            Ok(parsed) => parsed,
            Err(error) => {
                let error = format!("State '{}': {error}", entered.step.place);
                return self.fail(FailureReason::BadParameters, error, terminals);
            }
        };
        let limit = entered.limit.or(question_timeout);
        let expires_at = limit.map(|limit| self.now.after(limit));
        let context = variables.evidence();
        let (step, at) = (entered.step.clone(), self.now);
        self.record(Event::StateEntered {
            at,
            step: step.clone(),
            tool: entered.tool.clone(),
            params: entered.params.clone(),
            limit,
        });
        self.record(Event::GateAsked {
            at,
            step: step.clone(),
            question: question.clone(),
            expires_at,
            context: context.clone(),
            terminals: None,
        });
        let entered = Box::new(CurrentStep { limit, ..entered });
        let asks = GateRequest::Answer { question, expires_at, entered };
        let gate = Gate { step, asks, context, opened_at: at, terminals: None };
        self.decision.effects.push(Effect::DisarmDeadline);
        self.decision.effects.extend(gate_effects(&gate, self.now));
        self.decision
    }

    /// Ends a gate without an answer, because its time has passed.
    pub(super) fn expire_gate(mut self, gate: &Gate) -> Decision {
        let GateRequest::Answer { entered, .. } = &gate.asks else { return Decision::default() };
        self.record(Event::GateExpired { at: self.now, step: gate.step.clone() });
        self.arm_deadline();
        self.complete(entered, Outcome::TimedOut)
    }

    /// Continues with the answer to a gate. Ignores an answer that is not among the choices.
    pub(super) fn pass_gate(mut self, gate: &Gate, choice: String, by: By) -> Decision {
        let (choices, otherwise) = match &gate.asks {
            GateRequest::Patch { proposal, over } => {
                return self.pass_patch(gate, proposal, over, choice, by);
            }
            GateRequest::Judgement { choices, otherwise } => (choices, otherwise),
            GateRequest::Answer { question, .. } if !question.accepts(&choice) => return Decision::default(),
            GateRequest::Answer { question, entered, .. } => {
                let form_values = question.parse_form_answer(&choice);
                let choice = form_values.clone().map_or(choice, |form_values| Value::Object(form_values).to_string());
                let fields =
                    [("success", true.into()), ("answer", choice.as_str().into()), ("by", by.name.as_str().into())];
                let surface = by.surface.as_deref().map(|surface| ("through", surface.into()));
                let reason = ("reason", by.reason.as_deref().unwrap_or_default().into());
                let fields = fields.into_iter().chain(surface).chain([reason]);
                let fields = fields.map(|(name, value)| (name.to_owned(), value));
                let result = fields.chain(form_values.into_iter().flatten()).collect();
                self.record(Event::GateAnswered { at: self.now, step: gate.step.clone(), choice, by });
                // The time limit of the gate no longer applies.
                self.decision.effects.push(Effect::Abandon { step: gate.step.clone() });
                self.arm_deadline();
                return self.complete(entered, Outcome::Finished { result });
            }
        };
        let chosen = choices.iter().find(|possible| possible.description == choice);
        let branch = match chosen {
            Some(chosen) => {
                Branch::Go { to: chosen.next_state.clone(), because: format!("{} judged: {choice}", by.name) }
            }
            None if choice == NONE_OF_THESE => otherwise.clone(),
            None => return Decision::default(),
        };
        let history = self.history;
        let variables = Answered { before: history.variables(), answer: choice.as_str().into() };
        self.record(Event::GateAnswered { at: self.now, step: gate.step.clone(), choice, by });
        self.arm_deadline();
        self.follow(&gate.step.place, branch, &variables, history.terminals())
    }
}

/// Returns the effects that open a gate and limit its time.
pub(super) fn gate_effects(gate: &Gate, now: Timestamp) -> Vec<Effect> {
    let step = gate.step.clone();
    let time_limit = gate.expires_at().map(|at| at.since(gate.opened_at));
    let expire = time_limit
        .map(|time_limit| Effect::ExpireGate { step: step.clone(), at: gate.opened_at.end_of(time_limit, now) });
    let choices = gate.choices().into_iter().map(str::to_owned).collect();
    let open = Effect::OpenGate {
        step: step.clone(),
        prompt: gate.prompt(),
        choices,
        form: gate.form().cloned(),
        context: gate.context.clone(),
    };
    [open].into_iter().chain(expire).collect()
}

/// Variables after the answer to a gate.
struct Answered<'a> {
    before: &'a Variables,
    answer: Value,
}

impl Lookup for Answered<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        if name == "answer" { Some(&self.answer) } else { self.before.get(name) }
    }

    fn belongs_to_shell(&self, name: &str) -> bool {
        self.before.belongs_to_shell(name)
    }

    fn has_paths(&self) -> bool {
        self.before.has_paths()
    }
}
