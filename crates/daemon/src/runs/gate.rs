//! Questions that runs wait for, as those who may answer see them, and their answers.

use std::sync::Arc;
use std::time::Duration;

use steplatch_ids::{RunId, StepId};
use steplatch_protocol::{AnswerGate, AnswerGateReply, GateInfo};
use steplatch_workflow::{AnsweredBy, Event, Gate, Input};

use super::run::Run;
use super::{Runs, report};
use crate::caller::{Caller, descends_from};
use crate::moment;
use crate::secrets::Secrets;

/// How long an answer may take to be written down.
pub(super) const TAKEN_WITHIN: Duration = Duration::from_secs(10);

/// Runs that are looked at for their gates, below one run.
const MOST_LOOKED_AT: usize = 1000;

/// A gate as it is told.
pub(super) fn info(run: &RunId, gate: &Gate, secrets: &Secrets) -> GateInfo {
    let mut context = gate.context.clone();
    secrets.mask_fields(&mut context);
    context.values_mut().for_each(|field| report::shorten(field, report::LONGEST_TEXT));
    GateInfo {
        gate_id: gate.step.to_string(),
        run_id: run.to_string(),
        prompt: secrets.masked(gate.prompt()),
        choices: gate.choices().into_iter().map(|choice| secrets.masked(choice.to_owned())).collect(),
        answered_by: gate.answered_by().name().to_owned(),
        created_at: moment::told(gate.opened_at),
        expires_at: gate.expires_at().map(moment::told),
        context,
    }
}

impl Runs {
    /// Returns a run, and those below it that wait for somebody.
    pub(super) fn family(&self, run: &Arc<Run>) -> Vec<Arc<Run>> {
        let (mut family, mut at) = (vec![run.clone()], 0);
        // None of them is below itself, and through more gates than that nobody looks.
        while let Some(run) = family.get(at).filter(|_| family.len() < MOST_LOOKED_AT) {
            let below = run.progress().below;
            family.extend(below.iter().filter_map(|below| self.shared.driven(below)));
            at += 1;
        }
        family
    }

    /// Returns those of them that ask somebody themselves.
    fn asking(&self, run: &Arc<Run>) -> Vec<Arc<Run>> {
        let asks = |run: &Arc<Run>| {
            let progress = run.progress();
            progress.gate.is_some() || !progress.questions.is_empty()
        };
        self.family(run).into_iter().filter(asks).collect()
    }

    /// Returns whether somebody has to answer before a run, or one below it, goes on.
    pub(super) fn asks(&self, run: &Arc<Run>) -> bool {
        !self.asking(run).is_empty()
    }

    /// Returns the gates that a run and those below it wait at, the oldest first.
    pub(super) fn pending_gates(&self, run: &Arc<Run>) -> Vec<GateInfo> {
        let secrets = &self.shared.secrets;
        let gates = |run: &Arc<Run>| -> Vec<GateInfo> {
            let progress = run.progress();
            let gate = progress.gate.iter().map(|gate| info(&run.id, gate, secrets));
            gate.chain(progress.questions.iter().map(|question| question.info(secrets))).collect()
        };
        let mut pending: Vec<GateInfo> = self.asking(run).iter().flat_map(gates).collect();
        pending.sort_by(|one, other| one.created_at.cmp(&other.created_at));
        pending
    }

    /// Returns the run that an answer is for: this one, or the one below it whose gate is meant.
    fn answered(&self, asked: Arc<Run>, gate_id: Option<&str>) -> Result<Arc<Run>, String> {
        let asking = self.asking(&asked);
        if let Some(step) = gate_id.and_then(|gate| gate.parse::<StepId>().ok()) {
            let is_meant = |run: &&Arc<Run>| run.id == step.run;
            return Ok(asking.iter().find(is_meant).cloned().unwrap_or(asked));
        }
        match &asking[..] {
            [] => Ok(asked),
            [only] => Ok(only.clone()),
            _ => {
                let ids: Vec<String> = self.pending_gates(&asked).into_iter().map(|gate| gate.gate_id).collect();
                Err(format!("Several gates wait; say which with gate_id: {}", ids.join(", ")))
            }
        }
    }

    /// Passes a judgement on to the run that waits for it. Returns once it is written down.
    pub(crate) async fn answer(&self, caller: &Caller, verb: AnswerGate) -> AnswerGateReply {
        let run_id = verb.run_id.clone();
        match self.try_answer(caller, verb).await {
            Ok(status) => AnswerGateReply { success: true, run_id, status, error: None },
            Err((status, error)) => AnswerGateReply { success: false, run_id, status, error: Some(error) },
        }
    }

    /// Returns the state that the run is in then, or that with why the answer was not taken.
    async fn try_answer(&self, caller: &Caller, verb: AnswerGate) -> Result<String, (String, String)> {
        let asked = self.find(&verb.run_id).await.map_err(|error| (String::new(), error))?;
        let state = asked.state().name().to_owned();
        let run = self.answered(asked, verb.gate_id.as_deref()).map_err(|error| (state, error))?;
        if run.is_function() {
            return self.answer_function(caller, &run, &verb).await;
        }
        let refused = |error: String| (run.state().name().to_owned(), error);
        let before = run.progress();
        let Some(gate) = before.gate else {
            let error = match self.answered_before(&run, verb.gate_id.as_deref()).await {
                Some(answered) => answered,
                None => format!("Run '{}' waits for no answer: it is {}", run.id, run.state().name()),
            };
            return Err(refused(error));
        };
        let info = info(&run.id, &gate, &self.shared.secrets);
        if let Some(asked) = verb.gate_id.as_deref().filter(|asked| *asked != info.gate_id) {
            let error = match self.answered_before(&run, Some(asked)).await {
                Some(answered) => answered,
                None => format!("Gate '{asked}' is not the one that waits, which is '{}'", info.gate_id),
            };
            return Err(refused(error));
        }
        if gate.answered_by() == AnsweredBy::Human
            && let Some(why) = self.no_person(caller).await
        {
            return Err(refused(why));
        }
        // A choice may hold a secret, and then what is shown of it is what can be answered.
        let given = |(choice, shown): &(&str, &String)| *choice == verb.answer || **shown == verb.answer;
        let choices = gate.choices();
        let (choice, shown) = match choices.iter().copied().zip(&info.choices).find(given) {
            Some(chosen) => chosen,
            None if choices.is_empty() => (verb.answer.as_str(), &verb.answer),
            None => {
                let answer: String = verb.answer.chars().take(200).collect();
                return Err(refused(format!("'{answer}' is none of the choices: {}", info.choices.join(" | "))));
            }
        };
        let by = caller.who();
        let input = Input::GateAnswered { step: gate.step.clone(), choice: choice.to_owned(), by: by.clone() };
        run.tell(input);
        run.reaches(|now| now.seq > before.seq || now.state.is_over(), TAKEN_WITHIN).await;
        let seal = super::Seal::default();
        let next = self.shared.events_of(&run.id, before.seq + 1, &seal).await;
        match next.ok().and_then(|events| events.into_iter().next()) {
            // What is secret in it is hidden where it is read again.
            Some(Event::GateAnswered { choice: taken, by: who, .. })
                if (taken == choice || taken == *shown) && who == by =>
            {
                Ok(run.state().name().to_owned())
            }
            Some(Event::GateAnswered { at, by, choice: taken, .. }) => {
                let at = moment::told(at);
                Err(refused(format!("The gate was already answered by {by} at {at}: {taken}")))
            }
            Some(_) => Err(refused(format!("Run '{}' waits no longer: it is {}", run.id, run.state().name()))),
            None => {
                let why = run.progress().trouble.map(|trouble| format!(": {trouble}")).unwrap_or_default();
                Err(refused(format!("The answer is not written down yet{why}; look with get_run")))
            }
        }
    }

    /// Says why whoever asks is taken for no person, if that is so.
    pub(super) async fn no_person(&self, caller: &Caller) -> Option<String> {
        if !caller.person {
            return Some(
                "This gate waits for a person: they answer it with 'steplatch gates list' and 'steplatch gates answer', in a \
                 terminal of their own"
                    .to_owned(),
            );
        }
        let hosts = self.shared.sessions.hosts().await;
        let kept = caller.process.is_some_and(|process| {
            // A host within this process, as tests have it, keeps no shell that could be told from them.
            let keeps =
                |pid| hosts.iter().any(|host| host.pid != std::process::id() && Ok(host.pid) == u32::try_from(pid));
            descends_from(process, keeps)
        });
        kept.then(|| {
            "This gate waits for a person, and this command runs in a terminal that steplatch keeps, where an agent may \
             type; answer it in a terminal of your own"
                .to_owned()
        })
    }

    /// Says who answered this gate before, or the last one where none is named, if somebody did.
    async fn answered_before(&self, run: &Run, gate_id: Option<&str>) -> Option<String> {
        let events = self.shared.events_of(&run.id, 1, &super::Seal::default()).await.ok()?;
        events.into_iter().rev().find_map(|event| match event {
            Event::GateAnswered { at, step, choice, by } if gate_id.is_none_or(|gate| *gate == step.to_string()) => {
                let at = moment::told(at);
                Some(format!("The gate was already answered by {by} at {at}: {choice}"))
            }
            _ => None,
        })
    }
}
