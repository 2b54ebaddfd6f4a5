//! Gates for people, shown as dialogs by the client.
//!
//! Only an accepted dialog with a decision is an answer. Any other result leaves the gate open: many clients decline
//! automatically when no person is present. For a client without dialogs, the reply states where to answer.

pub(super) mod dialog;

use std::collections::VecDeque;

use parking_lot::Mutex;
use rmcp::model::{ElicitRequest, ElicitResult, InputRequest, InputRequests};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steplatch_protocol::{
    AnswerGate, AskError, GateInfo, GetApprover, GetRun, GetWorkflowRun, RUN_WAIT_SECONDS, ReconnectingClient,
    RunDetail, RunEvent, Verb as _,
};

use self::dialog::NoDialog;
use super::tasks::OpenQuestions;
use super::waiting;
use crate::offer::{Call, CallRound, ClientContext, ClientInput, ClientQuestions};

/// Maximum number of times that a person may fill in one form. After that, the gate must be answered elsewhere.
pub(super) const MAX_ATTEMPTS: usize = 3;

/// Maximum number of remembered gates whose dialog went unanswered.
const MAX_UNANSWERED: usize = 1000;

/// Name of the question; a call has one question at a time.
const QUESTION_NAME: &str = "gate";

const CLIENT_UNREACHABLE: &str = "This gate waits for a person, and the client could not show a dialog.";
const UNSUPPORTED_FORM: &str = "This gate has a form that clients cannot show.";
const TOO_LONG: &str = "This gate's question is too long for a dialog.";

/// State of questions to people through their clients.
#[derive(Debug, Default)]
pub(super) struct Elicitor {
    /// Gates whose dialog returned without an answer. Their question is not repeated when the agent reads the run.
    unanswered: Mutex<VecDeque<String>>,
    pub(super) open_questions: OpenQuestions,
}

/// State of a call during a question to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ElicitationState {
    /// The run that the call is about.
    run: String,
    /// The run that waits for an answer to the gate: the run of the call, or a descendant of that run.
    gate_run: String,
    gate: String,
    /// Digest of the shown content.
    digest: String,
    /// Number of rejected answers.
    attempts: usize,
}

/// A call about a run, and the client for questions.
pub(super) struct Caller<'a, 'c> {
    pub(super) daemon: &'a ReconnectingClient,
    pub(super) call: &'a mut Call<'c>,
    /// Maximum time to wait for the run, in seconds.
    wait_seconds: f64,
    /// Level of detail of a run in replies.
    detail: Value,
}

/// The outcome of a call.
pub(super) enum GateStep {
    Reply(Value),
    InputRequired(ClientQuestions),
}

/// The outcome of a dialog.
pub(super) enum DialogOutcome {
    Answered(Box<AnswerGate>),
    /// No answer, with the reason.
    LeftOpen(&'static str),
}

impl<'a, 'c> Caller<'a, 'c> {
    pub(super) fn new(daemon: &'a ReconnectingClient, call: &'a mut Call<'c>) -> Self {
        let arguments = call.arguments.as_ref();
        let argument = |field: &str| arguments.and_then(|arguments| arguments.get(field));
        let wait_seconds = argument("wait_seconds").and_then(Value::as_f64).unwrap_or(RUN_WAIT_SECONDS);
        let detail = argument("detail").cloned().unwrap_or_else(|| json!(RunDetail::Brief));
        Self { daemon, call, wait_seconds, detail }
    }

    async fn get_run(&mut self, run_id: &str, wait_seconds: f64) -> Result<Value, AskError> {
        let params = json!({"run_id": run_id, "wait_seconds": wait_seconds, "detail": self.detail});
        Ok(waiting::call_with_progress(self.daemon, GetRun::NAME, params, self.call.progress.as_mut()).await?.0)
    }
}

impl Elicitor {
    pub(super) fn is_unanswered(&self, gate: &GateInfo) -> bool {
        self.unanswered.lock().contains(&gate.gate_id)
    }

    /// Leaves the gate open for others and shows no further dialog for it.
    fn leave_open(&self, reply: Value, gate: &GateInfo, daemon: &ReconnectingClient, reason: &str) -> GateStep {
        self.mark_unanswered(gate);
        leave_to_others(reply, gate, daemon, reason)
    }

    /// Records that a gate's dialog went unanswered.
    pub(super) fn mark_unanswered(&self, gate: &GateInfo) {
        let mut unanswered = self.unanswered.lock();
        if unanswered.len() == MAX_UNANSWERED {
            unanswered.pop_front();
        }
        unanswered.push_back(gate.gate_id.clone());
    }

    /// Returns a question about the gate that a run waits for, if the gate is for people and the client can show the
    /// question. Otherwise adds instructions to the reply.
    ///
    /// # Errors
    /// If the daemon is unreachable.
    pub(super) async fn ask_person(&self, reply: Value, caller: &Caller<'_, '_>) -> Result<GateStep, AskError> {
        let daemon = caller.daemon;
        let Some(gate) = gate_for_people(&reply, daemon).await? else {
            return Ok(GateStep::Reply(reply));
        };
        if !caller.call.client.supports_forms() || self.is_unanswered(&gate) {
            return Ok(leave_to_others(reply, &gate, daemon, "This gate waits for a person."));
        }
        if daemon.call(GetApprover {}).await?.is_set {
            return Ok(leave_to_others(
                reply,
                &gate,
                daemon,
                "This gate waits for a person and the approver's passphrase.",
            ));
        }
        Ok(ask_question(reply, &gate, None, caller))
    }

    /// Continues a call after its question to a person. Returns `None` if the question is not from this server.
    ///
    /// # Errors
    /// If the daemon is unreachable.
    pub(super) async fn resume(
        &self,
        round: CallRound,
        caller: &mut Caller<'_, '_>,
    ) -> Result<Option<GateStep>, AskError> {
        let Some(Ok(state)) = round.carried_state.map(serde_json::from_value::<ElicitationState>) else {
            return Ok(None);
        };
        let response = match round.input {
            ClientInput::NoLongerNeeded => {
                return self.proceed(&state.run, caller.wait_seconds, caller).await.map(Some);
            }
            ClientInput::TimedOut => Err("This gate waits for a person, and its dialog was not answered in time."),
            ClientInput::Unreachable => Err(CLIENT_UNREACHABLE),
            ClientInput::Nothing => Ok(None),
            ClientInput::Answers(mut answers) => {
                Ok(answers.remove(QUESTION_NAME).and_then(|value| serde_json::from_value::<ElicitResult>(value).ok()))
            }
        };
        let response = match response {
            // There was no dialog or no answer: repeat the question.
            Ok(None) => return self.proceed(&state.run, 0.0, caller).await.map(Some),
            Ok(Some(response)) => Ok(response),
            Err(reason) => Err(reason),
        };
        let record = caller.daemon.call(GetWorkflowRun { run_id: state.gate_run.clone() }).await?;
        let gates = record.run.map(|run| run.pending_gates).unwrap_or_default();
        let Some(gate) = gates.into_iter().find(|gate| gate.gate_id == state.gate) else {
            // The gate was already answered elsewhere: return the current state of the run.
            return self.proceed(&state.run, 0.0, caller).await.map(Some);
        };
        let reason = match response.map(|response| dialog::read(&gate, response)) {
            Err(reason) | Ok(DialogOutcome::LeftOpen(reason)) => reason.to_owned(),
            Ok(DialogOutcome::Answered(answer)) => match submit_answer(
                AnswerGate { digest: Some(state.digest.clone()), ..*answer },
                caller.daemon,
                &caller.call.client,
            )
            .await?
            {
                Ok(()) => return self.proceed(&state.run, caller.wait_seconds, caller).await.map(Some),
                Err(Rejection { reason, may_retry: true }) if state.attempts + 1 < MAX_ATTEMPTS => {
                    let reply = caller.get_run(&state.run, 0.0).await?;
                    let rejection = Some((reason.as_str(), state.attempts + 1));
                    return Ok(Some(ask_question(reply, &gate, rejection, caller)));
                }
                Err(Rejection { reason, .. }) => reason,
            },
        };
        let reply = caller.get_run(&state.run, 0.0).await?;
        Ok(Some(self.leave_open(reply, &gate, caller.daemon, &reason)))
    }

    async fn proceed(&self, run: &str, wait: f64, caller: &mut Caller<'_, '_>) -> Result<GateStep, AskError> {
        let reply = caller.get_run(run, wait).await?;
        self.ask_person(reply, caller).await
    }
}

/// Returns the question to the person. `rejection` has the reason for the last rejection and the number of rejections.
fn ask_question(reply: Value, gate: &GateInfo, rejection: Option<(&str, usize)>, caller: &Caller<'_, '_>) -> GateStep {
    let (problem, attempts) = rejection.map_or((None, 0), |(reason, attempts)| (Some(reason), attempts));
    let form = match dialog::form(gate, problem, caller.call.client.supports_titles()) {
        Ok(form) => form,
        Err(NoDialog::Form) => return leave_to_others(reply, gate, caller.daemon, UNSUPPORTED_FORM),
        Err(NoDialog::TooLong) => return leave_to_others(reply, gate, caller.daemon, TOO_LONG),
    };
    let state = ElicitationState {
        run: reply["run_id"].as_str().unwrap_or_default().to_owned(),
        gate_run: gate.run_id.clone(),
        gate: gate.gate_id.clone(),
        digest: gate.digest.clone(),
        attempts,
    };
    let carried_state = serde_json::to_value(state).expect("the state of a call contains only JSON");
    let request = InputRequest::Elicitation(ElicitRequest::new(form));
    let questions = InputRequests::from([(QUESTION_NAME.to_owned(), request)]);
    let no_longer_needed = Box::pin(wait_until_closed(gate.clone(), caller.daemon.clone()));
    GateStep::InputRequired(ClientQuestions { questions, carried_state: Some(carried_state), no_longer_needed })
}

/// Rejection of an answer.
pub(super) struct Rejection {
    pub(super) reason: String,
    /// True if the person may answer again.
    pub(super) may_retry: bool,
}

/// Sends an answer to the daemon, marked as a person's.
pub(super) async fn submit_answer(
    answer: AnswerGate,
    daemon: &ReconnectingClient,
    client: &ClientContext<'_>,
) -> Result<Result<(), Rejection>, AskError> {
    let client_name = client.name().unwrap_or_else(|| "an MCP client".to_owned());
    let client_name: String = client_name.chars().take(40).collect();
    let person = daemon.for_person(&format!("mcp elicitation in {client_name}"), client.peer());
    let reply = person.call(answer).await?;
    Ok(if reply.success {
        Ok(())
    } else {
        Err(Rejection { reason: reply.error.unwrap_or_default(), may_retry: reply.misread })
    })
}

/// Returns the oldest gate for people that a run or a descendant waits for.
async fn gate_for_people(reply: &Value, daemon: &ReconnectingClient) -> Result<Option<GateInfo>, AskError> {
    if reply["status"] != "waiting" {
        return Ok(None);
    }
    let run_id = reply["run_id"].as_str().unwrap_or_default().to_owned();
    let record = daemon.call(GetWorkflowRun { run_id }).await?;
    let gates = record.run.map(|run| run.pending_gates).unwrap_or_default();
    Ok(gates.into_iter().find(|gate| gate.answered_by == "human"))
}

/// Returns the reply of a call whose gate must be answered elsewhere.
fn leave_to_others(mut reply: Value, gate: &GateInfo, daemon: &ReconnectingClient, reason: &str) -> GateStep {
    // The gate may have received an answer in the meantime.
    if reply["status"] == "waiting" {
        let instructions = where_to_answer(gate, daemon, reason);
        reply["next_step"] =
            format!("{instructions} Tell the person; get_run with wait_seconds returns after the answer.").into();
    }
    GateStep::Reply(reply)
}

/// Returns `reason`, followed by a person's command for answering the gate.
pub(super) fn where_to_answer(gate: &GateInfo, daemon: &ReconnectingClient, reason: &str) -> String {
    let paths = daemon.paths();
    let state_option = match paths.is_default() {
        true => String::new(),
        false => format!(" --state-dir {}", quote_for_shell(&paths.state().display().to_string())),
    };
    let gate = gate.name_with_digest();
    format!("{reason} A person answers it in their own terminal, with: steplatch gates answer {gate}{state_option}.")
}

/// Quotes a word for a shell.
fn quote_for_shell(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-+@:".contains(character);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Waits until a gate closes.
async fn wait_until_closed(gate: GateInfo, daemon: ReconnectingClient) {
    let mut events = daemon.follow(&gate.run_id, 1);
    let closes_gate = |event: &RunEvent| {
        let is_this_gate = event.data.get("gate_id").is_some_and(|id| *id == gate.gate_id);
        event.is_last()
            || (is_this_gate
                && ["gate_answered", "gate_timeout", "gate_cancelled"].contains(&event.event_type.as_str()))
    };
    loop {
        match events.next().await {
            Ok(Some(event)) if closes_gate(&event) => return,
            Ok(Some(_)) => {}
            Ok(None) => return,
            // The gate may still be answered even if following the run fails.
            Err(error) => {
                tracing::debug!(%error, "failed to follow a run");
                return std::future::pending().await;
            }
        }
    }
}
