//! Gates for people, shown as dialogs by the client.
//!
//! Only an accepted dialog that contains a decision is an answer. Any other result leaves the gate open: many clients
//! decline automatically when no person is present. For a client without dialogs the reply states where to answer.

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
use crate::offer::{Ask, Call, CallRound, ClientContext, ClientInput};

/// Maximum number of times that a person may fill in one form. Then the gate waits for an answer from elsewhere.
pub(super) const MAX_ATTEMPTS: usize = 3;

/// Maximum number of remembered gates whose dialog went unanswered.
const MAX_UNANSWERED: usize = 1000;

/// Name of the question; a call asks one question at a time.
const QUESTION_NAME: &str = "gate";

const CLIENT_UNREACHABLE: &str = "This gate waits for a person, and the client could not ask one.";
const NO_SUCH_FORM: &str = "This gate asks for a form that clients cannot show.";
const TOO_LONG: &str = "This gate asks more than a dialog shows whole.";

/// The state of asking people through their clients.
#[derive(Debug, Default)]
pub(super) struct Elicitor {
    /// Gates whose dialog returned without an answer. When the agent reads its run, the question is not repeated.
    unanswered: Mutex<VecDeque<String>>,
    pub(super) open_questions: OpenQuestions,
}

/// State of a call during a question to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ElicitationState {
    /// The run that the call is about.
    run: String,
    /// The run that waits at the gate: the same run, or one of its descendants.
    gate_run: String,
    gate: String,
    /// Digest of the shown content.
    digest: String,
    /// Number of rejected answers.
    attempts: usize,
}

/// The request for a run, and the client for questions in return.
pub(super) struct Caller<'a, 'c> {
    pub(super) daemon: &'a ReconnectingClient,
    pub(super) call: &'a mut Call<'c>,
    /// Time that the request waits for the run, in seconds.
    wait: f64,
    /// Level of detail of a run in replies.
    detail: Value,
}

/// The outcome of a call.
pub(super) enum GateStep {
    Reply(Value),
    Ask(Ask),
}

/// The outcome of a dialog.
pub(super) enum DialogOutcome {
    Answered(AnswerGate),
    /// No answer, with the reason in words.
    LeftOpen(&'static str),
}

impl<'a, 'c> Caller<'a, 'c> {
    pub(super) fn new(daemon: &'a ReconnectingClient, call: &'a mut Call<'c>) -> Self {
        let arguments = call.arguments.as_ref();
        let argument = |field: &str| arguments.and_then(|arguments| arguments.get(field));
        let wait = argument("wait_seconds").and_then(Value::as_f64).unwrap_or(RUN_WAIT_SECONDS);
        let detail = argument("detail").cloned().unwrap_or_else(|| json!(RunDetail::Brief));
        Self { daemon, call, wait, detail }
    }

    async fn run(&mut self, run_id: &str, wait_seconds: f64) -> Result<Value, AskError> {
        let params = json!({"run_id": run_id, "wait_seconds": wait_seconds, "detail": self.detail});
        Ok(waiting::call_with_progress(self.daemon, GetRun::NAME, params, self.call.progress.as_mut()).await?.0)
    }
}

impl Elicitor {
    pub(super) fn is_unanswered(&self, gate: &GateInfo) -> bool {
        self.unanswered.lock().contains(&gate.gate_id)
    }

    /// Leaves the gate open for others, and does not ask about it again.
    fn leave(&self, reply: Value, gate: &GateInfo, daemon: &ReconnectingClient, reason: &str) -> GateStep {
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

    /// Asks the person about the gate that a run waits at, if the gate is for people and the client can show it.
    /// Otherwise adds to the reply where to answer.
    ///
    /// # Errors
    /// If the daemon is unreachable.
    pub(super) async fn ask_person(&self, reply: Value, caller: &Caller<'_, '_>) -> Result<GateStep, AskError> {
        let daemon = caller.daemon;
        let Some(gate) = gate_for_people(&reply, daemon).await? else {
            return Ok(GateStep::Reply(reply));
        };
        if !caller.call.asker.takes_forms() || self.is_unanswered(&gate) {
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

    /// Continues a call after its question to a person. Returns `None` if this server did not ask the question.
    ///
    /// # Errors
    /// If the daemon is unreachable.
    pub(super) async fn resume(
        &self,
        round: CallRound,
        caller: &mut Caller<'_, '_>,
    ) -> Result<Option<GateStep>, AskError> {
        let Some(Ok(state)) = round.carried.map(serde_json::from_value::<ElicitationState>) else { return Ok(None) };
        let response = match round.came {
            ClientInput::Moot => return self.proceed(&state.run, caller.wait, caller).await.map(Some),
            ClientInput::Late => Err("This gate waits for a person, and nobody answered its dialog."),
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
                AnswerGate { digest: Some(state.digest.clone()), ..answer },
                caller.daemon,
                &caller.call.asker,
            )
            .await?
            {
                Ok(()) => return self.proceed(&state.run, caller.wait, caller).await.map(Some),
                Err(Refused { reason, may_retry: true }) if state.attempts + 1 < MAX_ATTEMPTS => {
                    let reply = caller.run(&state.run, 0.0).await?;
                    let rejected = Some((reason.as_str(), state.attempts + 1));
                    return Ok(Some(ask_question(reply, &gate, rejected, caller)));
                }
                Err(Refused { reason, .. }) => reason,
            },
        };
        let reply = caller.run(&state.run, 0.0).await?;
        Ok(Some(self.leave(reply, &gate, caller.daemon, &reason)))
    }

    async fn proceed(&self, run: &str, wait: f64, caller: &mut Caller<'_, '_>) -> Result<GateStep, AskError> {
        let reply = caller.run(run, wait).await?;
        self.ask_person(reply, caller).await
    }
}

/// Returns the question to the person. `rejected` has the reason for the last rejection and the number of rejections.
fn ask_question(reply: Value, gate: &GateInfo, rejected: Option<(&str, usize)>, caller: &Caller<'_, '_>) -> GateStep {
    let (rejected, attempts) = rejected.map_or((None, 0), |(rejected, attempts)| (Some(rejected), attempts));
    let form = match dialog::form(gate, rejected, caller.call.asker.knows_titles()) {
        Ok(form) => form,
        Err(NoDialog::Form) => return leave_to_others(reply, gate, caller.daemon, NO_SUCH_FORM),
        Err(NoDialog::TooLong) => return leave_to_others(reply, gate, caller.daemon, TOO_LONG),
    };
    let state = ElicitationState {
        run: reply["run_id"].as_str().unwrap_or_default().to_owned(),
        gate_run: gate.run_id.clone(),
        gate: gate.gate_id.clone(),
        digest: gate.digest.clone(),
        attempts,
    };
    let carried = serde_json::to_value(state).expect("the state of a call contains only JSON");
    let request = InputRequest::Elicitation(ElicitRequest::new(form));
    let questions = InputRequests::from([(QUESTION_NAME.to_owned(), request)]);
    let moot = Box::pin(wait_until_closed(gate.clone(), caller.daemon.clone()));
    GateStep::Ask(Ask { questions, carried: Some(carried), moot })
}

/// Rejection of an answer: the reason, and true if the person may answer again.
pub(super) struct Refused {
    pub(super) reason: String,
    pub(super) may_retry: bool,
}

/// Sends a person's answer to the daemon, marked as given by a person.
pub(super) async fn submit_answer(
    answer: AnswerGate,
    daemon: &ReconnectingClient,
    client: &ClientContext<'_>,
) -> Result<Result<(), Refused>, AskError> {
    let client_name = client.name().unwrap_or_else(|| "an MCP client".to_owned());
    let client_name: String = client_name.chars().take(40).collect();
    let person = daemon.for_person(&format!("mcp elicitation in {client_name}"), client.peer());
    let reply = person.call(answer).await?;
    Ok(if reply.success {
        Ok(())
    } else {
        Err(Refused { reason: reply.error.unwrap_or_default(), may_retry: reply.misread })
    })
}

/// Returns the oldest gate for people that a run waits at, its own or one of its descendants'.
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
            format!("{instructions} Tell the person so; get_run with wait_seconds returns after the answer.").into();
    }
    GateStep::Reply(reply)
}

/// Returns the reason that a person answers a gate elsewhere, and the command that answers it.
pub(super) fn where_to_answer(gate: &GateInfo, daemon: &ReconnectingClient, reason: &str) -> String {
    let place = daemon.paths();
    let folder = match place.is_default() {
        true => String::new(),
        false => format!(" --state-dir {}", quoted(&place.state().display().to_string())),
    };
    let gate = gate.name_with_digest();
    format!("{reason} A person answers it in a terminal of their own, with: steplatch gates answer {gate}{folder}.")
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._-+@:".contains(character);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
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
            // Even if following the run fails, the gate may still receive an answer.
            Err(error) => {
                tracing::debug!(%error, "a run cannot be followed");
                return std::future::pending().await;
            }
        }
    }
}
