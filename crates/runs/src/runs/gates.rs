//! Gates of runs: pending gates, and the delivery of answers.

use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use serde_json::Value;
use steplatch_access::{Caller, PersonRefusal};
use steplatch_ids::{RunId, StepId};
use steplatch_protocol::{AnswerGateReply, GateInfo, GetGate, GetGateReply};
use steplatch_sessions::NOT_COMPARED;
use steplatch_workflow::{Input, Proof};

use super::locked::UnlockError;
use crate::gates::{
    AmbiguousGate, AnswerError, ClosedGateError, GateAnswer, GateEnd, GateProof, NotWaiting, OpenGate, VerifiedAnswer,
    shorten_for_report,
};
use crate::lookup::parse_run_id;
use crate::machine::TERMINAL;
use crate::run::{Disposition, Run, RunState};
use crate::runs::Runs;

/// Time limit of a gate's driver for storing an answer.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// Minimum digits of a digest that identify a question.
const MIN_DIGEST_DIGITS: usize = 8;

/// Maximum number of descendants of a run that a search for gates covers.
const MAX_SEARCHED_RUNS: usize = 1000;

/// Returns the error for a run that does not wait for an answer, or cannot accept one.
fn not_waiting_error(run: &Run) -> NotWaiting {
    match run.progress().blocked_reason.filter(|_| run.state() == RunState::Waiting) {
        Some(blocked_reason) => NotWaiting::Stuck { blocked_reason },
        None => NotWaiting::State { state: run.state() },
    }
}

/// Returns the parts of a question's terminals that the daemon does not compare before the run continues.
fn unchecked_terminals(info: &GateInfo) -> Vec<String> {
    let described = info.context.get(TERMINAL).and_then(Value::as_str).filter(|_| info.answered_by == "human");
    let lines = described.into_iter().flat_map(str::lines).map(str::trim);
    lines.filter(|line| line.starts_with(NOT_COMPARED)).map(str::to_owned).collect()
}

impl Runs {
    /// Returns a run and its waiting descendants.
    pub(crate) fn family(&self, run: &Arc<Run>) -> Vec<Arc<Run>> {
        let (mut family, mut next) = (vec![run.clone()], 0);
        // There are no cycles. The limit bounds the search.
        while let Some(run) = family.get(next).filter(|_| family.len() < MAX_SEARCHED_RUNS) {
            let children = run.progress().waiting_children;
            family.extend(children.iter().filter_map(|child| self.shared.driven(child)));
            next += 1;
        }
        family
    }

    /// Returns the runs that have their own gate.
    fn runs_with_gates(&self, run: &Arc<Run>) -> Vec<Arc<Run>> {
        let has_gate = |run: &Arc<Run>| !run.progress().gates.is_empty();
        self.family(run).into_iter().filter(has_gate).collect()
    }

    /// Returns whether a run or a descendant needs an answer to continue.
    pub(crate) fn waits_for_answer(&self, run: &Arc<Run>) -> bool {
        !self.runs_with_gates(run).is_empty()
    }

    /// Returns the pending gates of a run and its descendants for reports, the oldest first.
    pub(crate) fn pending_gates(&self, run: &Arc<Run>) -> Vec<GateInfo> {
        self.all_gates(run).into_iter().map(shorten_for_report).collect()
    }

    /// Returns the pending gates of a run and its descendants unshortened, the oldest first.
    fn all_gates(&self, run: &Arc<Run>) -> Vec<GateInfo> {
        let secrets = &self.shared.secrets;
        let gates = |run: &Arc<Run>| -> Vec<GateInfo> {
            let holds = self.shared.sessions.held();
            let info = |gate: &OpenGate| {
                let info = gate.info(run, secrets);
                let requires = gate.is_for_person().then(|| self.shared.approver.requires_since(gate.opened_at));
                let requires = requires.filter(|proof| *proof > Proof::None).map(|proof| proof.name().to_owned());
                GateInfo { typed: holds.typed(&run.id, &info.gate_id), requires, ..info }
            };
            run.progress().gates.iter().map(info).collect()
        };
        let mut pending: Vec<GateInfo> = self.runs_with_gates(run).iter().flat_map(gates).collect();
        pending.sort_by(|left, right| left.created_at.cmp(&right.created_at));
        pending
    }

    /// Returns the run with the gate of an answer: `named_run` or a descendant.
    async fn find_answered_run(&self, named_run: Arc<Run>, gate_id: Option<&str>) -> Result<Arc<Run>, AmbiguousGate> {
        let runs_with_gates = self.runs_with_gates(&named_run);
        if let Some(step) = gate_id.and_then(|gate| gate.parse::<StepId>().ok()) {
            let has_gate = |run: &&Arc<Run>| run.id == step.run;
            if let Some(run) = runs_with_gates.iter().find(has_gate) {
                return Ok(run.clone());
            }
            // A run without a pending gate still reports its last answer.
            return Ok(self.find(&step.run).await.unwrap_or(named_run));
        }
        match &runs_with_gates[..] {
            [] => Ok(named_run),
            [only] => Ok(only.clone()),
            _ => {
                let gates = self.pending_gates(&named_run).into_iter().map(|gate| gate.gate_id).collect();
                Err(AmbiguousGate { gates })
            }
        }
    }

    /// Returns one gate without shortening it.
    #[boxed]
    pub async fn gate(&self, verb: &GetGate) -> GetGateReply {
        let refusal = |error: String| GetGateReply { error: Some(error), ..GetGateReply::default() };
        let run = match self.find_by_text(&verb.run_id).await {
            Ok(run) => run,
            Err(error) => return refusal(error.to_string()),
        };
        let gates = self.all_gates(&run);
        let gate = match (&verb.gate_id, &gates[..]) {
            (Some(id), _) => gates.iter().find(|gate| gate.gate_id == *id),
            (None, [only]) => Some(only),
            (None, []) => None,
            (None, several) => {
                let gates = several.iter().map(|gate| gate.gate_id.clone()).collect();
                return refusal(AmbiguousGate { gates }.to_string());
            }
        };
        match gate {
            Some(gate) => {
                // The gate of a descendant is always treated as a later gate of this run.
                let has_closed_gate = gate.run_id != run.id.as_str() || self.has_closed_gate(&run).await;
                GetGateReply { success: true, gate: Some(gate.clone()), asked_before: has_closed_gate, error: None }
            }
            None => {
                let gate = verb.gate_id.as_deref();
                let before = self.closed_gate_error(&run, gate).await;
                refusal(before.map_or_else(|| not_waiting_error(&run).to_string(), |closed| closed.to_string()))
            }
        }
    }

    /// Returns whether a gate of a run has closed, with or without an answer. True for a run with an unreadable
    /// history.
    async fn has_closed_gate(&self, run: &Run) -> bool {
        self.shared.closed_gates(run).await.is_none_or(|gates| !gates.is_empty())
    }

    /// Passes an answer to the run that waits for it. Returns once the journal has stored the answer.
    #[boxed]
    pub async fn answer(&self, caller: &Caller, answer: GateAnswer) -> AnswerGateReply {
        let run_id = answer.run_id.clone();
        let parsed_id = parse_run_id(&run_id);
        if let Err(refusal) = self.unlock_for(caller, parsed_id.as_ref().ok(), &answer).await {
            let error = Some(refusal.to_string());
            let (passphrase_wanted, retry_after_seconds) = match refusal {
                UnlockError::NotPassed(refusal) => (refusal.wants_another(), refusal.retry_after_seconds()),
                UnlockError::Unreadable(_) => (false, None),
            };
            let status = RunState::Waiting.name().to_owned();
            let refusal_reply = AnswerGateReply { run_id, status, error, ..AnswerGateReply::default() };
            return AnswerGateReply { passphrase_wanted, retry_after_seconds, ..refusal_reply };
        }
        let unmatched_reply = |error: String| AnswerGateReply {
            run_id: run_id.clone(),
            error: Some(error),
            ..AnswerGateReply::default()
        };
        let lookup = match parsed_id {
            Ok(id) => self.find(&id).await,
            Err(error) => Err(error),
        };
        let named_run = match lookup {
            Ok(run) => run,
            Err(error) => return unmatched_reply(error.to_string()),
        };
        let status = named_run.state().name().to_owned();
        let run = match self.find_answered_run(named_run, answer.gate_id.as_deref()).await {
            Ok(run) => run,
            Err(error) => return AnswerGateReply { status, ..unmatched_reply(error.to_string()) },
        };
        // Of two simultaneous answers, the second sees the result of the first.
        let _answering_guard = run.answering.lock().await;
        let result = self.answer_gate(caller, &run, &answer).await;
        let passphrase_wanted = matches!(&result, Err(AnswerError::NotApproved(error)) if error.wants_another());
        AnswerGateReply {
            success: result.is_ok(),
            run_id,
            status: run.state().name().to_owned(),
            passphrase_wanted,
            retry_after_seconds: match &result {
                Err(AnswerError::NotApproved(error)) => error.retry_after_seconds(),
                _ => None,
            },
            misread: matches!(result, Err(AnswerError::Misread(_))),
            remarks: result.as_ref().cloned().unwrap_or_default(),
            error: result.err().map(|error| error.to_string()),
        }
    }

    /// Unlocks the locked runs if an answer is for one of them and may come from a person. `run_id` is the run that the
    /// answer names.
    ///
    /// # Errors
    ///
    /// If the answer lacks the approver's passphrase.
    async fn unlock_for(
        &self,
        caller: &Caller,
        run_id: Option<&RunId>,
        answer: &GateAnswer,
    ) -> Result<(), UnlockError> {
        let run_of = |gate: &str| gate.split_once('/')?.0.parse::<RunId>().ok();
        let gate_run_id = answer.gate_id.as_deref().and_then(run_of);
        if !run_id.into_iter().chain(gate_run_id.as_ref()).any(|run| self.is_locked(run)) {
            return Ok(());
        }
        match caller.person_refusal().await {
            None | Some(PersonRefusal::Hidden) if !answer.is_agent_decision => {
                self.unlock_with(answer.passphrase.as_ref(), caller.source()).await.map(drop)
            }
            // A later check refuses the answer, with a specific message.
            _ => Ok(()),
        }
    }

    /// Passes an answer to the run of its gate. Returns once the journal has stored the answer, with the terminals that
    /// the daemon does not check before the run continues.
    async fn answer_gate(
        &self,
        caller: &Caller,
        run: &Arc<Run>,
        answer: &GateAnswer,
    ) -> Result<Vec<String>, AnswerError> {
        let open_gates = run.progress().gates;
        let gate = match (answer.gate_id.as_deref(), &open_gates[..]) {
            (Some(id), _) => open_gates.iter().find(|gate| gate.step.to_string() == id),
            (None, [only]) => Some(only),
            (None, []) => None,
            (None, several) => {
                let gates = several.iter().map(|gate| gate.step.to_string()).collect();
                return Err(AmbiguousGate { gates }.into());
            }
        };
        let Some(gate) = gate else {
            let before = self.closed_gate_error(run, answer.gate_id.as_deref()).await;
            return Err(match (before, answer.gate_id.as_deref(), &open_gates[..]) {
                (Some(closed), ..) => closed.into(),
                (None, Some(id), [only]) => AnswerError::OtherGate { gate: id.to_owned(), open: only.step.clone() },
                (None, Some(id), [_, ..]) => AnswerError::UnknownGate { gate: id.to_owned(), run: run.id.clone() },
                (None, ..) => not_waiting_error(run).into(),
            });
        };
        let info = gate.info(run, &self.shared.secrets);
        let VerifiedAnswer { choice, by } = self.verify_answer(caller, gate, &info, answer).await?;
        let choice = self.conceal(&run.id, gate.form.as_ref(), choice)?;
        let input = Input::GateAnswered { step: gate.step.clone(), choice, by };
        match run.request(input, STORE_TIMEOUT).await {
            Some(Disposition::Recorded) => {
                let mut remarks = unchecked_terminals(&info);
                remarks.extend(run.progress().pause(&self.shared.secrets).map(|pause| {
                    format!(
                        "the run is paused by {}, and continues only after: steplatch runs resume {}",
                        pause.by, run.id
                    )
                }));
                Ok(remarks)
            }
            Some(Disposition::Ignored) => {
                let before = self.closed_gate_error(run, Some(&info.gate_id)).await;
                let closed_meanwhile =
                    || AnswerError::ClosedMeanwhile { gate: info.gate_id.clone(), state: run.state() };
                Err(before.map_or_else(closed_meanwhile, AnswerError::from))
            }
            None => Err(AnswerError::NotStored { blocked_reason: run.progress().blocked_reason }),
        }
    }

    /// Checks an answer and its sender. Returns the input for the run.
    async fn verify_answer(
        &self,
        caller: &Caller,
        gate: &OpenGate,
        info: &GateInfo,
        answer: &GateAnswer,
    ) -> Result<VerifiedAnswer, AnswerError> {
        let approver = &self.shared.approver;
        let passes_gate = || gate.read(info, answer).is_ok_and(|choice| gate.choices_for_person.contains(&choice));
        let human = gate.is_for_person() || passes_gate();
        // An agent cannot approve its own request.
        if human && answer.is_agent_decision {
            let gate_id = info.gate_id.clone();
            let behind_gate = AnswerError::BehindGate { gate: gate_id };
            return Err(if gate.is_for_person() { PersonRefusal::Agent.into() } else { behind_gate });
        }
        match caller.person_refusal().await.filter(|_| human) {
            // The passphrase or a signature proves a person even if the kernel hides the process.
            Some(PersonRefusal::Hidden) if answer.passkey.is_some() || approver.status().await.is_set => {}
            Some(reason) => return Err(reason.into()),
            None => {}
        }
        let is_other_question =
            |digest: &String| digest.len() < MIN_DIGEST_DIGITS || !info.digest.starts_with(digest.as_str());
        if answer.digest.as_ref().is_some_and(is_other_question) {
            return Err(AnswerError::Changed { gate: info.gate_id.clone() });
        }
        let choice = gate.read(info, answer)?;
        let (mut proof, mut signed) = (None, None);
        if let Some(assertion) = &answer.passkey {
            // A signature covers the whole digest, and so this question. Check a signature even if the gate requires
            // none, because it claims that a person answers.
            signed = Some(self.shared.passkeys.check(assertion, answer.signed_text(info)?)?);
        }
        if human {
            let given_proof = if signed.is_some() {
                Proof::Passkey
            } else if approver.verify(answer.passphrase.as_ref(), caller.source()).await? {
                Proof::Passphrase
            } else {
                caller.proof().await
            };
            let required = approver.requires_since(gate.opened_at);
            if given_proof < required {
                return Err(AnswerError::Unproved { required });
            }
            proof = Some(GateProof { provided: given_proof, required });
        }
        Ok(VerifiedAnswer { choice, by: answer.author(caller, proof, signed).await })
    }

    /// Returns the end of gate `gate_id`, or the last answer if `gate_id` is `None`.
    async fn closed_gate_error(&self, run: &Run, gate_id: Option<&str>) -> Option<ClosedGateError> {
        let gates = self.shared.closed_gates(run).await?;
        gates.into_iter().rev().find_map(|gate| match (gate.end, gate_id) {
            (GateEnd::Answered { at, answer, by }, id) if id.is_none_or(|id| id == gate.step.to_string()) => {
                Some(ClosedGateError::Answered { by, at, answer })
            }
            (GateEnd::Expired, Some(id)) if id == gate.step.to_string() => {
                Some(ClosedGateError::Expired { gate: gate.step })
            }
            _ => None,
        })
    }
}
