//! Questions that runs wait for, as those who may answer see them, and their answers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use steplatch_access::{Caller, MASK, NoPerson, NotPassed, Secrets};
use steplatch_clock as clock;
use steplatch_ids::{RunId, StepId};
use steplatch_library::Signature;
use steplatch_protocol::{AnswerGate, AnswerGateReply, Decide, GateInfo, GetGate, GetGateReply, Passphrase};
use steplatch_workflow::{AnsweredBy, By, Event, Field, Form, Gate, Input, Proof, Timestamp};

use super::locked::NotOpened;
use super::report;
use super::run::{Run, RunState};
use crate::runs::Runs;

/// How long an answer may take to be written down.
pub(super) const TAKEN_WITHIN: Duration = Duration::from_secs(10);

/// The hexadecimal digits of a digest: 128 bits, so that two questions with the same digest can not be made.
const DIGEST_DIGITS: usize = 32;

/// The fewest digits of a digest that name a question.
const SHORTEST_DIGEST: usize = 8;

/// Runs that are looked at for their gates, below one run.
const MOST_LOOKED_AT: usize = 1000;

/// Returns the question of a machine whole, secrets hidden.
pub(super) fn info(run: &Run, gate: &Gate, secrets: &Secrets) -> GateInfo {
    let info = GateInfo {
        gate_id: gate.step.to_string(),
        run_id: run.id.to_string(),
        prompt: gate.prompt(),
        choices: gate.choices().into_iter().map(str::to_owned).collect(),
        form: gate.form().cloned(),
        answered_by: gate.answered_by().name().to_owned(),
        created_at: clock::to_iso8601(gate.opened_at),
        expires_at: gate.expires_at().map(clock::to_iso8601),
        context: gate.context.clone(),
        ..GateInfo::default()
    };
    shown(info, run, secrets)
}

/// Hides the secrets in a whole question of a run, and adds the digest of what is shown of it and of the definition that says what
/// follows. A secret that is learned later changes the digest.
pub(super) fn shown(mut info: GateInfo, run: &Run, secrets: &Secrets) -> GateInfo {
    secrets.mask_fields(&mut info.context);
    info.prompt = secrets.masked(info.prompt);
    info.choices = info.choices.into_iter().map(|choice| secrets.masked(choice)).collect();
    if let Some(form) = &mut info.form {
        secrets.mask_in(form);
    }
    let definition = (&run.about.signature, &run.about.pins);
    let GateInfo { gate_id, prompt, choices, form, answered_by, context, .. } = &info;
    let all = serde_json::json!([gate_id, prompt, choices, form, answered_by, context, definition]).to_string();
    info.masked = all.contains(MASK);
    info.digest = Signature::of_text(&all).as_str()[..DIGEST_DIGITS].to_owned();
    info
}

/// Leaves out of a question what reports have no room for.
fn reported(mut info: GateInfo) -> GateInfo {
    let mut context = info.context.clone();
    context.values_mut().for_each(|field| report::shorten(field, report::LONGEST_TEXT));
    info.shortened = context != info.context;
    GateInfo { context, ..info }
}

/// An answer, as somebody gives it.
#[derive(Debug)]
pub struct Given {
    run_id: String,
    pub(super) gate_id: Option<String>,
    answer: String,
    number: Option<usize>,
    form: Option<Map<String, Value>>,
    passphrase: Option<Passphrase>,
    /// The digest of what was shown.
    pub(super) digest: Option<String>,
    /// It was given as an agent gives one: never to a question for people.
    decides: bool,
}

impl From<AnswerGate> for Given {
    fn from(verb: AnswerGate) -> Self {
        let AnswerGate { run_id, gate_id, answer, number, form, passphrase, digest } = verb;
        Self { run_id, gate_id, answer, number, form, passphrase, digest, decides: false }
    }
}

impl From<Decide> for Given {
    fn from(verb: Decide) -> Self {
        let Decide { run_id, gate_id, answer, form } = verb;
        Self { run_id, gate_id, answer, number: None, form, passphrase: None, digest: None, decides: true }
    }
}

impl Given {
    /// Who gives it, through what, and what proves that.
    async fn by(&self, caller: &Caller, proof: Option<Proof>) -> By {
        let mut through = caller.through().await;
        if self.decides {
            through.push_str(" decide");
        }
        By { who: caller.who().await, through: Some(through), proof, shown: self.digest.clone() }
    }
}

/// An answer that passed every check.
pub(super) struct VerifiedAnswer {
    /// The choice, the text, or the JSON of the form.
    pub(super) choice: String,
    pub(super) by: By,
}

/// A question, with what can be answered to it.
pub(super) struct Asked {
    /// As it is told.
    pub(super) info: GateInfo,
    /// As it was asked, in the order of those that are told.
    pub(super) choices: Vec<String>,
    pub(super) form: Option<Value>,
}

impl Asked {
    /// Returns what the run is told: a choice, the JSON of a form with all of its fields, or a text.
    fn read(&self, given: &Given) -> Result<String, String> {
        if let Some(form) = &self.form {
            let form =
                Form::read(form).map_err(|problems| format!("The form can not be read: {}", problems.join("; ")))?;
            let typed = || match serde_json::from_str(&given.answer) {
                Ok(Value::Object(fields)) => Ok(fields),
                _ => {
                    let names: Vec<&str> = form.fields().iter().map(Field::name).collect();
                    Err(format!(
                        "The gate asks for a form, answered as an object with its fields: {}",
                        names.join(", ")
                    ))
                }
            };
            let fields = given.form.clone().map_or_else(typed, Ok)?;
            let filled = form.fill(&fields);
            return match filled {
                Ok(filled) => Ok(Value::Object(filled).to_string()),
                Err(wrong) => Err(format!("The form is not filled in well: {}", wrong.join("; "))),
            };
        }
        if given.form.is_some() {
            return Err("The gate has no form; answer it with a text or one of its choices".to_owned());
        }
        // A choice may hold a secret, and then what is shown of it is what can be answered.
        let all = || self.choices.iter().zip(&self.info.choices);
        let is_meant = |(choice, shown): &(&String, &String)| **choice == given.answer || **shown == given.answer;
        if let Some(number) = given.number {
            let chosen = number.checked_sub(1).and_then(|at| all().nth(at));
            return match chosen.filter(|chosen| given.answer.is_empty() || is_meant(chosen)) {
                Some((choice, _)) => Ok(choice.clone()),
                None => {
                    Err(format!("Choice {number} is not what was answered; choices are {}", listed(&self.info.choices)))
                }
            };
        }
        let exactly = all().find(|(choice, _)| **choice == given.answer);
        let mut meant = all().filter(is_meant);
        match exactly.or_else(|| meant.next()) {
            Some(_) if exactly.is_none() && meant.next().is_some() => Err(
                "Several choices are shown like that, because parts of them are hidden as secrets; answer by number"
                    .to_owned(),
            ),
            Some((choice, _)) => Ok(choice.clone()),
            None if given.answer.trim().is_empty() => Err(match self.choices.is_empty() {
                true => "answer is required; the gate takes any text".to_owned(),
                false => format!("answer is required; it must be one of: {}", listed(&self.info.choices)),
            }),
            None if self.choices.is_empty() => Ok(given.answer.clone()),
            None => {
                let answer: String = given.answer.chars().take(200).collect();
                Err(format!("Invalid choice '{answer}'. Must be one of: {}", listed(&self.info.choices)))
            }
        }
    }
}

/// Returns texts as Python writes a list of them.
fn listed(texts: &[String]) -> String {
    let quoted = |text: &String| {
        let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
        let mut quoted = String::from(quote);
        for character in text.chars() {
            match character {
                '\n' => quoted.push_str("\\n"),
                '\r' => quoted.push_str("\\r"),
                '\t' => quoted.push_str("\\t"),
                '\\' => quoted.push_str("\\\\"),
                _ if character == quote => quoted.extend(['\\', quote]),
                _ => quoted.push(character),
            }
        }
        quoted.push(quote);
        quoted
    };
    format!("[{}]", texts.iter().map(quoted).collect::<Vec<_>>().join(", "))
}

/// Says that a run waits for no answer, or can not take one.
pub(super) fn not_waiting(run: &Run) -> NotTaken {
    if let Some(trouble) = run.progress().trouble.filter(|_| run.state() == RunState::Waiting) {
        return refused(trouble);
    }
    refused(format!("Run is not waiting for input (state: {})", run.state().name()))
}

/// Why an answer is not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotTaken {
    #[error("{0}")]
    Refused(String),
    /// It is none that the gate takes.
    #[error("{0}")]
    Misread(String),
    #[error(transparent)]
    NotApproved(NotPassed),
}

pub(super) fn refused(why: String) -> NotTaken {
    NotTaken::Refused(why)
}

/// Says what an answer lacks that has no such proof.
fn unproved(required: Proof) -> String {
    let how = match required {
        Proof::None => "given by a person",
        Proof::Dialog => "given in a dialog of an MCP client, or in a terminal of your own",
        Proof::Terminal => "typed in a terminal of your own, with 'steplatch gates answer'",
        Proof::Passphrase => "given with the approver's passphrase, which 'steplatch approver set' sets",
    };
    format!("This gate takes an answer only if it is {how} (setting gates.require = \"{}\")", required.name())
}

/// Says who was first.
pub(super) fn already_answered(by: &By, at: Timestamp, answer: &str) -> String {
    format!("The gate was already answered by {by} at {}: {answer}", clock::to_iso8601(at))
}

/// Says that the journal did not take an answer yet.
pub(super) fn not_written(run: &Run) -> NotTaken {
    let why = run.progress().trouble.map(|trouble| format!(": {trouble}")).unwrap_or_default();
    refused(format!("The answer is not written down yet{why}; look with get_run"))
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

    /// Returns the gates that a run and those below it wait at, as far as reports tell them, the oldest first.
    pub(super) fn pending_gates(&self, run: &Arc<Run>) -> Vec<GateInfo> {
        self.whole_gates(run).into_iter().map(reported).collect()
    }

    /// Returns the gates that a run and those below it wait at, the oldest first.
    fn whole_gates(&self, run: &Arc<Run>) -> Vec<GateInfo> {
        let secrets = &self.shared.secrets;
        let gates = |run: &Arc<Run>| -> Vec<GateInfo> {
            let progress = run.progress();
            let gate = progress.gate.iter().map(|gate| {
                let info = info(run, gate, secrets);
                GateInfo { typed: self.shared.sessions.held().typed(&run.id, &info.gate_id), ..info }
            });
            gate.chain(progress.questions.iter().map(|question| question.info(run, secrets))).collect()
        };
        let mut pending: Vec<GateInfo> = self.asking(run).iter().flat_map(gates).collect();
        pending.sort_by(|one, other| one.created_at.cmp(&other.created_at));
        pending
    }

    /// Returns the run that an answer is for: this one, or the one below it whose gate is meant.
    async fn meant(&self, asked: Arc<Run>, gate_id: Option<&str>) -> Result<Arc<Run>, String> {
        let asking = self.asking(&asked);
        if let Some(step) = gate_id.and_then(|gate| gate.parse::<StepId>().ok()) {
            let is_meant = |run: &&Arc<Run>| run.id == step.run;
            if let Some(run) = asking.iter().find(is_meant) {
                return Ok(run.clone());
            }
            // One that asks no more knows who answered it.
            return Ok(self.find(step.run.as_str()).await.unwrap_or(asked));
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

    /// Shows a question whole.
    pub async fn gate(&self, verb: &GetGate) -> GetGateReply {
        let refused = |error: String| GetGateReply { error: Some(error), ..GetGateReply::default() };
        let run = match self.find(&verb.run_id).await {
            Ok(run) => run,
            Err(error) => return refused(error),
        };
        let gates = self.whole_gates(&run);
        let gate = match (&verb.gate_id, &gates[..]) {
            (Some(id), _) => gates.iter().find(|gate| gate.gate_id == *id),
            (None, [only]) => Some(only),
            (None, []) => None,
            (None, several) => {
                let ids: Vec<&str> = several.iter().map(|gate| gate.gate_id.as_str()).collect();
                return refused(format!("Several gates wait; say which with gate_id: {}", ids.join(", ")));
            }
        };
        match gate {
            Some(gate) => {
                // One of a run below it is not the first that anyone was asked in its name.
                let asked_before = gate.run_id != run.id.as_str() || self.asked_before(&run).await;
                GetGateReply { success: true, gate: Some(gate.clone()), asked_before, error: None }
            }
            None => {
                let gate = verb.gate_id.as_deref();
                let before = match run.is_function() {
                    true => self.answered_in_function(&run, gate).await,
                    false => self.answered_before(&run, gate).await,
                };
                refused(before.unwrap_or_else(|| not_waiting(&run).to_string()))
            }
        }
    }

    /// Whether a question of a run is over, however it ended. One whose history can not be read may have asked.
    async fn asked_before(&self, run: &Run) -> bool {
        if run.is_function() {
            return self.asked_before_in_function(run).await;
        }
        let is_end = |event: &Event| {
            matches!(event, Event::GateAnswered { .. } | Event::GateExpired { .. } | Event::GateCancelled { .. })
        };
        self.shared
            .events_of(&run.id, 1, &crate::seal::Seal::default())
            .await
            .map_or(true, |events| events.iter().any(is_end))
    }

    /// Passes an answer on to the run that waits for it. Returns once it is written down.
    pub async fn answer(&self, caller: &Caller, given: Given) -> AnswerGateReply {
        let run_id = given.run_id.clone();
        if let Err(why) = self.unlock_for(caller, &given).await {
            let error = Some(why.to_string());
            let (passphrase_wanted, retry_after_seconds) = match why {
                NotOpened::NotPassed(why) => (why.wants_another(), why.retry_after_seconds()),
                NotOpened::Unreadable(_) => (false, None),
            };
            let status = RunState::Waiting.name().to_owned();
            let refused = AnswerGateReply { run_id, status, error, ..AnswerGateReply::default() };
            return AnswerGateReply { passphrase_wanted, retry_after_seconds, ..refused };
        }
        let unmeant = |error: String| AnswerGateReply {
            run_id: run_id.clone(),
            error: Some(error),
            ..AnswerGateReply::default()
        };
        let asked = match self.find(&run_id).await {
            Ok(asked) => asked,
            Err(error) => return unmeant(error),
        };
        let status = asked.state().name().to_owned();
        let run = match self.meant(asked, given.gate_id.as_deref()).await {
            Ok(run) => run,
            Err(error) => return AnswerGateReply { status, ..unmeant(error) },
        };
        // Of two that answer at once, the second finds what the first one left.
        let _first = run.answering.lock().await;
        let taken = if run.is_function() {
            self.answer_function(caller, &run, &given).await
        } else {
            self.answer_machine(caller, &run, &given).await
        };
        let passphrase_wanted = matches!(&taken, Err(NotTaken::NotApproved(why)) if why.wants_another());
        AnswerGateReply {
            success: taken.is_ok(),
            run_id,
            status: run.state().name().to_owned(),
            passphrase_wanted,
            retry_after_seconds: match &taken {
                Err(NotTaken::NotApproved(why)) => why.retry_after_seconds(),
                _ => None,
            },
            misread: matches!(taken, Err(NotTaken::Misread(_))),
            error: taken.err().map(|why| why.to_string()),
        }
    }

    /// Opens the locked runs if an answer is for one of them and can be a person's.
    ///
    /// # Errors
    /// When it carries no passphrase, or one that is not the approver's.
    async fn unlock_for(&self, caller: &Caller, given: &Given) -> Result<(), NotOpened> {
        let is_meant = |id: &str| id.parse::<RunId>().is_ok_and(|id| self.is_locked(&id));
        let gate = given.gate_id.as_deref().and_then(|gate| gate.split_once('/')).map(|(run, _)| run);
        if !is_meant(&given.run_id) && !gate.is_some_and(is_meant) {
            return Ok(());
        }
        match caller.no_person().await {
            None | Some(NoPerson::Hidden) if !given.decides => {
                self.unlock_with(given.passphrase.as_ref(), caller.source()).await.map(drop)
            }
            // It is refused below, in its own words.
            _ => Ok(()),
        }
    }

    async fn answer_machine(&self, caller: &Caller, run: &Arc<Run>, given: &Given) -> Result<(), NotTaken> {
        let before = run.progress();
        let Some(gate) = before.gate else {
            return Err(match self.answered_before(run, given.gate_id.as_deref()).await {
                Some(answered) => NotTaken::Refused(answered),
                None => not_waiting(run),
            });
        };
        let info = info(run, &gate, &self.shared.secrets);
        if let Some(asked) = given.gate_id.as_deref().filter(|asked| *asked != info.gate_id) {
            return Err(match self.answered_before(run, Some(asked)).await {
                Some(answered) => NotTaken::Refused(answered),
                None => refused(format!("Gate '{asked}' is not the one that waits, which is '{}'", info.gate_id)),
            });
        }
        let form = gate.form().cloned();
        let asked = Asked { choices: gate.choices().into_iter().map(str::to_owned).collect(), form, info };
        let VerifiedAnswer { choice, by } = self.admitted(caller, &asked, given).await?;
        let input = Input::GateAnswered { step: gate.step.clone(), choice: choice.clone(), by: by.clone() };
        run.tell(input);
        run.reaches(|now| now.seq > before.seq || now.state.is_over(), TAKEN_WITHIN).await;
        let seal = crate::seal::Seal::default();
        let next = self.shared.events_of(&run.id, before.seq + 1, &seal).await;
        match next.ok().and_then(|events| events.into_iter().next()) {
            // No other answer is under way: one that was written down is this one.
            Some(Event::GateAnswered { step, by: who, .. }) if step == gate.step && who == by => Ok(()),
            Some(Event::GateAnswered { at, by, choice: taken, .. }) => Err(refused(already_answered(&by, at, &taken))),
            Some(Event::GateExpired { .. }) => {
                Err(refused(format!("Gate '{}' waits no longer: nobody answered it in time", gate.step)))
            }
            Some(_) => Err(refused(format!("Run '{}' waits no longer: it is {}", run.id, run.state().name()))),
            None => Err(not_written(run)),
        }
    }

    /// Looks at an answer, and at who gives it. Returns what the run is told.
    pub(super) async fn admitted(
        &self,
        caller: &Caller,
        asked: &Asked,
        given: &Given,
    ) -> Result<VerifiedAnswer, NotTaken> {
        let approver = &self.shared.approver;
        let human = asked.info.answered_by == AnsweredBy::Human.name();
        // An agent that asks for leave does not give it to itself.
        if human && given.decides {
            return Err(refused(NoPerson::Agent.to_string()));
        }
        match caller.no_person().await.filter(|_| human) {
            // What the kernel hides, the passphrase proves.
            Some(NoPerson::Hidden) if approver.told().await.is_set => {}
            Some(why) => return Err(refused(why.to_string())),
            None => {}
        }
        let is_of_another =
            |digest: &String| digest.len() < SHORTEST_DIGEST || !asked.info.digest.starts_with(digest.as_str());
        if given.digest.as_ref().is_some_and(is_of_another) {
            return Err(refused(format!(
                "Gate '{0}' is shown otherwise than when this answer was given; read it again: steplatch gates show {0}",
                asked.info.gate_id
            )));
        }
        let choice = asked.read(given).map_err(NotTaken::Misread)?;
        let mut proof = None;
        if human {
            let passed = approver.passes(given.passphrase.as_ref(), caller.source()).await;
            let knows_passphrase = passed.map_err(NotTaken::NotApproved)?;
            let shown = if knows_passphrase { Proof::Passphrase } else { caller.proof().await };
            let required = approver.requires();
            if shown < required {
                return Err(refused(unproved(required)));
            }
            proof = Some(shown);
        }
        Ok(VerifiedAnswer { choice, by: given.by(caller, proof).await })
    }

    /// Says who answered this gate before, or the last one where none is named, if somebody did.
    async fn answered_before(&self, run: &Run, gate_id: Option<&str>) -> Option<String> {
        let events = self.shared.events_of(&run.id, 1, &crate::seal::Seal::default()).await.ok()?;
        events.into_iter().rev().find_map(|event| match event {
            Event::GateAnswered { at, step, choice, by } if gate_id.is_none_or(|gate| *gate == step.to_string()) => {
                Some(already_answered(&by, at, &choice))
            }
            Event::GateExpired { step, .. } if gate_id.is_some_and(|gate| *gate == step.to_string()) => {
                Some(format!("Gate '{step}' waits no longer: nobody answered it in time"))
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(choices: &[&str]) -> Asked {
        let choices: Vec<String> = choices.iter().map(|choice| (*choice).to_owned()).collect();
        let info = GateInfo { choices: choices.clone(), ..GateInfo::default() };
        Asked { info, choices, form: None }
    }

    fn given(answer: &str) -> Given {
        AnswerGate { answer: answer.to_owned(), ..AnswerGate::default() }.into()
    }

    #[test]
    fn an_answer_that_is_not_taken_is_refused_in_the_words_of_the_document() {
        // 003 L674: `Invalid choice 'd'. Must be one of: ['a', 'b', 'c']`
        let refused = asked(&["a", "b", "c"]).read(&given("d")).unwrap_err();
        assert_eq!(refused, "Invalid choice 'd'. Must be one of: ['a', 'b', 'c']");
        // 003 L1038: `answer is required`
        for choices in [&[][..], &["a"]] {
            assert!(asked(choices).read(&given(" ")).unwrap_err().starts_with("answer is required"));
        }
        assert_eq!(asked(&[]).read(&given("anything")).unwrap(), "anything");
    }

    #[test]
    fn choices_are_listed_as_python_lists_them() {
        let choices = ["it's", "say \"so\"", "both ' and \"", "a\\b\nc"].map(str::to_owned);
        assert_eq!(listed(&choices), r#"["it's", 'say "so"', 'both \' and "', 'a\\b\nc']"#);
        assert_eq!(listed(&[]), "[]");
    }
}
