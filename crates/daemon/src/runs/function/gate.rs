//! Questions that functions ask, and their answers.

use std::time::Duration;

use serde_json::{Map, Value};
use steplatch_ids::{RunId, StepId};
use steplatch_protocol::{AnswerGate, GateInfo};
use steplatch_python::{Answer, Call, CallKind};
use steplatch_store::Journal as _;
use steplatch_workflow::{Input, Timestamp};

use super::entry::Entry;
use super::history::{Open, What, waits_for_somebody};
use crate::caller::Caller;
use crate::moment;
use crate::runs::gate::TAKEN_WITHIN;
use crate::runs::run::Run;
use crate::runs::{Runs, report};
use crate::secrets::Secrets;

/// Who answers unless the function says otherwise.
const HUMAN: &str = "human";

/// Who may be meant to answer.
pub(super) const ANSWERERS: [&str; 3] = [HUMAN, "agent", "anyone"];

fn known(answerer: &str) -> Option<&'static str> {
    ANSWERERS.into_iter().find(|known| *known == answerer)
}

/// A question that a function waits for.
#[derive(Debug, Clone)]
pub(in crate::runs) struct Question {
    step: StepId,
    at: Timestamp,
    prompt: String,
    /// What can be answered; without any, every text can.
    choices: Vec<String>,
    answered_by: String,
    context: Map<String, Value>,
    /// Until when an answer counts.
    expires_at: Option<Timestamp>,
}

impl Question {
    pub(super) fn of(run: &RunId, number: u64, open: &Open) -> Option<Self> {
        let (at, What::Call(Call { kind, .. })) = (open.at, &open.what) else { return None };
        let CallKind::Gate { prompt, choices, answered_by, context, timeout, .. } = kind else { return None };
        if !waits_for_somebody(kind) {
            return None;
        }
        Some(Self {
            step: step(run, number)?,
            at,
            prompt: prompt.clone(),
            choices: choices.clone().unwrap_or_default(),
            answered_by: answered_by.as_deref().map_or(Some(HUMAN), known)?.to_owned(),
            expires_at: timeout.and_then(|seconds| Some(at.after(Duration::try_from_secs_f64(seconds).ok()?))),
            context: match context {
                None => Map::new(),
                Some(Value::Object(context)) => context.clone(),
                Some(other) => Map::from_iter([("context".to_owned(), other.clone())]),
            },
        })
    }

    /// The question as it is told.
    pub(in crate::runs) fn info(&self, secrets: &Secrets) -> GateInfo {
        let mut context = self.context.clone();
        secrets.mask_fields(&mut context);
        context.values_mut().for_each(|field| report::shorten(field, report::LONGEST_TEXT));
        GateInfo {
            gate_id: self.step.to_string(),
            run_id: self.step.run.to_string(),
            prompt: secrets.masked(self.prompt.clone()),
            choices: self.choices.iter().map(|choice| secrets.masked(choice.clone())).collect(),
            answered_by: self.answered_by.clone(),
            created_at: moment::told(self.at),
            expires_at: self.expires_at.map(moment::told),
            context,
        }
    }
}

/// Returns the name of a gate, which answers carry; one run has fewer calls than that.
pub(super) fn step(run: &RunId, number: u64) -> Option<StepId> {
    Some(StepId { run: run.clone(), place: "gate".to_owned(), visit: u32::try_from(number).ok()? })
}

impl Runs {
    /// Passes an answer on to a function. Returns the state that the run is in then, once the answer is written down,
    /// or that with why it was not taken.
    pub(in crate::runs) async fn answer_function(
        &self,
        caller: &Caller,
        run: &Run,
        verb: &AnswerGate,
    ) -> Result<String, (String, String)> {
        let refused = |error: String| (run.state().name().to_owned(), error);
        let open = run.progress().questions;
        let named = |id: &str| open.iter().find(|question| question.step.to_string() == *id);
        let question = match (verb.gate_id.as_deref(), &open[..]) {
            (Some(id), _) => named(id),
            (None, [only]) => Some(only),
            (None, []) => None,
            (None, several) => {
                let ids: Vec<String> = several.iter().map(|question| question.step.to_string()).collect();
                return Err(refused(format!("Several gates wait; say which with gate_id: {}", ids.join(", "))));
            }
        };
        let Some(question) = question else {
            let answered = self.answered_in(run, verb.gate_id.as_deref()).await;
            return Err(refused(match (answered, &verb.gate_id) {
                (Some((_, answered)), _) => answered,
                (None, Some(gate)) => format!("Gate '{gate}' does not wait in run '{}'", run.id),
                (None, None) => format!("Run '{}' waits for no answer: it is {}", run.id, run.state().name()),
            }));
        };
        // An agent that asks for leave does not give it to itself.
        if question.answered_by == HUMAN
            && let Some(why) = self.no_person(caller).await
        {
            return Err(refused(why));
        }
        let shown = question.info(&self.shared.secrets).choices;
        let given = question.choices.iter().zip(&shown);
        let answer = match given.into_iter().find(|(choice, shown)| **choice == verb.answer || **shown == verb.answer) {
            Some((choice, _)) => choice.clone(),
            None if question.choices.is_empty() => verb.answer.clone(),
            None => {
                let answer: String = verb.answer.chars().take(200).collect();
                return Err(refused(format!("'{answer}' is none of the choices: {}", shown.join(" | "))));
            }
        };
        let by = caller.who();
        run.tell(Input::GateAnswered { step: question.step.clone(), choice: answer.clone(), by: by.clone() });
        let waits = |question: &Question, open: &[Question]| open.iter().any(|open| open.step == question.step);
        run.reaches(|now| now.state.is_over() || !waits(question, &now.questions), TAKEN_WITHIN).await;
        let taken = self.answered_in(run, Some(&question.step.to_string())).await;
        match taken {
            Some((taken, _)) if taken == (answer, by) => Ok(run.state().name().to_owned()),
            Some((_, by_another)) => Err(refused(by_another)),
            None if waits(question, &run.progress().questions) => {
                let why = run.progress().trouble.map(|trouble| format!(": {trouble}")).unwrap_or_default();
                Err(refused(format!("The answer is not written down yet{why}; look with get_run")))
            }
            None => Err(refused(format!("Gate '{}' waits no longer: nobody answered it in time", question.step))),
        }
    }

    /// Returns how somebody answered this gate, or the last one where none is named, and says so.
    async fn answered_in(&self, run: &Run, gate: Option<&str>) -> Option<((String, String), String)> {
        let records = self.shared.journal.read(&run.id, 1).await.ok()?;
        records.iter().rev().find_map(|record| match Entry::read(record).ok()? {
            Entry::Answered { at, number, answer: Answer::Value(Value::String(answer)), by: Some(by), .. }
                if gate.is_none_or(|gate| step(&run.id, number).is_some_and(|step| step.to_string() == *gate)) =>
            {
                let told = format!("The gate was already answered by {by} at {}: {answer}", moment::told(at));
                Some(((answer, by), told))
            }
            _ => None,
        })
    }
}
