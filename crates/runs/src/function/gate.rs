//! Questions that functions ask, and their answers.

use std::time::Duration;

use serde_json::{Map, Value};
use steplatch_access::{Caller, Secrets};
use steplatch_clock as clock;
use steplatch_ids::{RunId, StepId};
use steplatch_protocol::GateInfo;
use steplatch_python_api::{Answer, Call, CallKind};
use steplatch_store::Journal as _;
use steplatch_workflow::{By, Form, Input, Timestamp};

use super::entry::{Asked as EntryAsked, Entry};
use super::history::{Open, What, waits_for_somebody};
use crate::gate::{
    Asked, Given, NotTaken, TAKEN_WITHIN, VerifiedAnswer, already_answered, not_waiting, not_written, refused, shown,
};
use crate::run::Run;
use crate::runs::Runs;
use crate::seal::Seal;

/// Who answers unless the function says otherwise.
pub(super) const HUMAN: &str = "human";

/// Who may be meant to answer.
const ANSWERERS: [&str; 3] = [HUMAN, "agent", "anyone"];

fn known(answerer: &str) -> Option<&'static str> {
    ANSWERERS.into_iter().find(|known| *known == answerer)
}

/// A question that a function waits for.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    step: StepId,
    at: Timestamp,
    prompt: String,
    /// What can be answered; without any, every text can.
    choices: Vec<String>,
    /// What is to be filled in instead.
    form: Option<Value>,
    answered_by: String,
    context: Map<String, Value>,
    /// Until when an answer counts.
    expires_at: Option<Timestamp>,
}

impl Question {
    pub(super) fn of(run: &RunId, number: u64, open: &Open) -> Option<Self> {
        let (at, What::Call(Call { kind, .. })) = (open.at, &open.what) else { return None };
        let CallKind::Gate { prompt, choices, form, answered_by, context, timeout } = kind else { return None };
        if !waits_for_somebody(kind) || complaint(kind).is_some() {
            return None;
        }
        Some(Self {
            step: step(run, number)?,
            at,
            prompt: prompt.clone(),
            choices: choices.clone().unwrap_or_default(),
            form: asked_form(form.as_ref()).and_then(|form| Form::read(form).ok()).map(|form| form.schema()),
            answered_by: answered_by.as_deref().map_or(Some(HUMAN), known)?.to_owned(),
            expires_at: timeout.and_then(|seconds| Some(at.after(Duration::try_from_secs_f64(seconds).ok()?))),
            context: match context {
                None => Map::new(),
                Some(Value::Object(context)) => context.clone(),
                Some(other) => Map::from_iter([("context".to_owned(), other.clone())]),
            },
        })
    }

    /// Returns the question whole, secrets hidden.
    pub(crate) fn info(&self, run: &Run, secrets: &Secrets) -> GateInfo {
        let info = GateInfo {
            gate_id: self.step.to_string(),
            run_id: self.step.run.to_string(),
            prompt: self.prompt.clone(),
            choices: self.choices.clone(),
            form: self.form.clone(),
            answered_by: self.answered_by.clone(),
            created_at: clock::to_iso8601(self.at),
            expires_at: self.expires_at.map(clock::to_iso8601),
            context: self.context.clone(),
            ..GateInfo::default()
        };
        shown(info, run, secrets)
    }
}

/// Returns the name of a gate, which answers carry; one run has fewer calls than that.
pub(super) fn step(run: &RunId, number: u64) -> Option<StepId> {
    Some(StepId { run: run.clone(), place: "gate".to_owned(), visit: u32::try_from(number).ok()? })
}

/// Whether a call asks a person something.
pub(super) fn is_for_person(kind: &CallKind) -> bool {
    let CallKind::Gate { answered_by, .. } = kind else { return false };
    waits_for_somebody(kind) && complaint(kind).is_none() && answered_by.as_deref().is_none_or(|who| who == HUMAN)
}

/// Returns what is wrong with how a function asks, for its author.
pub(super) fn complaint(kind: &CallKind) -> Option<String> {
    let CallKind::Gate { prompt, choices, form, answered_by, .. } = kind else { return None };
    if prompt.trim().is_empty() {
        return Some("ctx.gate needs a prompt: what is asked".to_owned());
    }
    for (at, choice) in choices.iter().flatten().enumerate() {
        if choice.trim().is_empty() || choices.iter().flatten().take(at).any(|other| other == choice) {
            return Some(format!("a choice of ctx.gate is empty or there twice: '{choice}'"));
        }
    }
    if choices.as_ref().is_some_and(Vec::is_empty) {
        return Some("ctx.gate with choices needs one at least".to_owned());
    }
    if let Some(other) = answered_by.as_deref().filter(|answerer| known(answerer).is_none()) {
        return Some(format!("answered_by is one of {}, not '{other}'", ANSWERERS.join(", ")));
    }
    let form = asked_form(form.as_ref())?;
    if choices.is_some() {
        return Some("ctx.gate takes choices or a form, not both".to_owned());
    }
    Form::read(form).err().map(|problems| format!("the form of ctx.gate is not good: {}", problems.join("; ")))
}

fn asked_form(form: Option<&Value>) -> Option<&Value> {
    form.filter(|form| !form.is_null())
}

/// Returns what the function is answered: the fields of a form, or the text.
pub(super) fn answer_of(kind: &CallKind, choice: String) -> Answer {
    match kind {
        CallKind::Gate { form, .. } if asked_form(form.as_ref()).is_some() => {
            Answer::Value(serde_json::from_str(&choice).unwrap_or_else(|_| choice.into()))
        }
        _ => Answer::Value(choice.into()),
    }
}

impl Runs {
    /// Passes an answer on to a function. Returns once it is written down.
    pub(crate) async fn answer_function(&self, caller: &Caller, run: &Run, given: &Given) -> Result<(), NotTaken> {
        let open = run.progress().questions;
        let with_id = |id: &str| open.iter().find(|question| question.step.to_string() == *id);
        let question = match (given.gate_id.as_deref(), &open[..]) {
            (Some(id), _) => with_id(id),
            (None, [only]) => Some(only),
            (None, []) => None,
            (None, several) => {
                let ids: Vec<String> = several.iter().map(|question| question.step.to_string()).collect();
                return Err(refused(format!("Several gates wait; say which with gate_id: {}", ids.join(", "))));
            }
        };
        let Some(question) = question else {
            let answered = self.answered_in(run, given.gate_id.as_deref()).await;
            return Err(match (answered, &given.gate_id) {
                (Some((_, answered)), _) => refused(answered),
                (None, Some(gate)) => refused(format!("Gate '{gate}' does not wait in run '{}'", run.id)),
                (None, None) => not_waiting(run),
            });
        };
        let asked = Asked {
            info: question.info(run, &self.shared.secrets),
            choices: question.choices.clone(),
            form: question.form.clone(),
        };
        let VerifiedAnswer { choice, by } = self.admitted(caller, &asked, given).await?;
        run.tell(Input::GateAnswered { step: question.step.clone(), choice, by: by.clone() });
        let waits = |question: &Question, open: &[Question]| open.iter().any(|open| open.step == question.step);
        run.reaches(|now| now.state.is_over() || !waits(question, &now.questions), TAKEN_WITHIN).await;
        let gate = question.step.to_string();
        match self.answered_in(run, Some(&gate)).await {
            // No other answer is under way: one that was written down is this one.
            Some((Some(taken), _)) if taken == by => Ok(()),
            Some((_, otherwise)) => Err(refused(otherwise)),
            None if waits(question, &run.progress().questions) => Err(not_written(run)),
            None => Err(refused(format!("Gate '{gate}' waits no longer: the run is {}", run.state().name()))),
        }
    }

    /// Whether a question of a function is over, however it ended. One whose history can not be read may have asked.
    pub(crate) async fn asked_before_in_function(&self, run: &Run) -> bool {
        let Ok(records) = self.shared.journal.read(&run.id, 1).await else { return true };
        records.iter().any(|record| match Entry::read(record, &Seal::default()) {
            Ok(Entry::Answered { asked: EntryAsked::Gate, .. }) | Err(_) => true,
            Ok(_) => false,
        })
    }

    /// Says who answered this gate of a function, or the last one where none is named.
    pub(crate) async fn answered_in_function(&self, run: &Run, gate: Option<&str>) -> Option<String> {
        self.answered_in(run, gate).await.map(|(_, answered)| answered)
    }

    /// Returns who answered this gate, or the last one if no gate is named, with a sentence about it. A gate whose time was up
    /// has no answerer.
    async fn answered_in(&self, run: &Run, gate: Option<&str>) -> Option<(Option<By>, String)> {
        let records = self.shared.journal.read(&run.id, 1).await.ok()?;
        let gate_of = |number: u64| step(&run.id, number).map(|step| step.to_string());
        let meant = |number: u64| gate.is_none_or(|gate| gate_of(number).is_some_and(|id| id == *gate));
        records.iter().rev().find_map(|record| match Entry::read(record, &Seal::default()).ok()? {
            Entry::Answered { at, number, answer: Answer::Value(answer), by: Some(by), .. } if meant(number) => {
                let answer = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
                let told = already_answered(&by, at, &answer);
                Some((Some(by), told))
            }
            Entry::Answered { number, answer: Answer::Raise { .. }, asked: EntryAsked::Gate, .. }
                if gate.is_some() && meant(number) =>
            {
                Some((None, format!("Gate '{}' waits no longer: nobody answered it in time", gate.unwrap_or_default())))
            }
            _ => None,
        })
    }
}
