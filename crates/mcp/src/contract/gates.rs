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

/// Number of times that a person may fill in one form before the gate waits for an answer from elsewhere.
pub(super) const MAX_ATTEMPTS: usize = 3;

/// Maximum number of remembered gates whose dialog went unanswered.
const MAX_UNANSWERED: usize = 1000;

/// The name of the question; a call asks one at a time.
const QUESTION: &str = "gate";

const UNREACHED: &str = "This gate waits for a person, and the client could not ask one.";
const NO_SUCH_FORM: &str = "This gate asks for a form that clients cannot show.";
const TOO_LONG: &str = "This gate asks more than a dialog shows whole.";

/// The state of asking people through their clients.
#[derive(Debug, Default)]
pub(super) struct Elicitor {
    /// Gates whose dialog returned without an answer. An agent's read of its run does not repeat the question.
    unanswered: Mutex<VecDeque<String>>,
    pub(super) asked: OpenQuestions,
}

/// State of a call during a question to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ElicitationState {
    /// The run that the call is about.
    run: String,
    /// The run whose gate it is: that one, or one below it.
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
        let asked = |field: &str| arguments.and_then(|asked| asked.get(field));
        let wait = asked("wait_seconds").and_then(Value::as_f64).unwrap_or(RUN_WAIT_SECONDS);
        let detail = asked("detail").cloned().unwrap_or_else(|| json!(RunDetail::Brief));
        Self { daemon, call, wait, detail }
    }

    async fn run(&mut self, run_id: &str, wait_seconds: f64) -> Result<Value, AskError> {
        let params = json!({"run_id": run_id, "wait_seconds": wait_seconds, "detail": self.detail});
        Ok(waiting::ask(self.daemon, GetRun::NAME, params, self.call.progress.as_mut()).await?.0)
    }
}

impl Elicitor {
    pub(super) fn asked_in_vain(&self, gate: &GateInfo) -> bool {
        self.unanswered.lock().contains(&gate.gate_id)
    }

    /// Leaves the answer to a gate to others, and remembers not to ask about it again.
    fn leave(&self, reply: Value, gate: &GateInfo, daemon: &ReconnectingClient, reason: &str) -> GateStep {
        self.give_up(gate);
        leave_to_others(reply, gate, daemon, reason)
    }

    /// Remembers not to ask about a gate again.
    pub(super) fn give_up(&self, gate: &GateInfo) {
        let mut unanswered = self.unanswered.lock();
        if unanswered.len() == MAX_UNANSWERED {
            unanswered.pop_front();
        }
        unanswered.push_back(gate.gate_id.clone());
    }

    /// Asks the person about the gate that a run waits at, if it is for one and their client can show it; otherwise
    /// adds where to answer to the reply.
    ///
    /// # Errors
    /// If the daemon is unreachable.
    pub(super) async fn reach(&self, reply: Value, caller: &Caller<'_, '_>) -> Result<GateStep, AskError> {
        let daemon = caller.daemon;
        let Some(gate) = gate_for_people(&reply, daemon).await? else {
            return Ok(GateStep::Reply(reply));
        };
        if !caller.call.asker.takes_forms() || self.asked_in_vain(&gate) {
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
        Ok(question(reply, &gate, None, caller))
    }

    /// Continues a call that had asked a person. Returns `None` if the question is not from this server.
    ///
    /// # Errors
    /// If the daemon is unreachable.
    pub(super) async fn resume(
        &self,
        round: CallRound,
        caller: &mut Caller<'_, '_>,
    ) -> Result<Option<GateStep>, AskError> {
        let Some(Ok(standing)) = round.carried.map(serde_json::from_value::<ElicitationState>) else { return Ok(None) };
        let response = match round.came {
            ClientInput::Moot => return self.proceed(&standing.run, caller.wait, caller).await.map(Some),
            ClientInput::Late => Err("This gate waits for a person, and nobody answered its dialog."),
            ClientInput::Unreachable => Err(UNREACHED),
            ClientInput::Nothing => Ok(None),
            ClientInput::Answers(mut answers) => {
                Ok(answers.remove(QUESTION).and_then(|said| serde_json::from_value::<ElicitResult>(said).ok()))
            }
        };
        let response = match response {
            // There was no dialog or no answer, so this repeats the question.
            Ok(None) => return self.proceed(&standing.run, 0.0, caller).await.map(Some),
            Ok(Some(response)) => Ok(response),
            Err(why) => Err(why),
        };
        let record = caller.daemon.call(GetWorkflowRun { run_id: standing.gate_run.clone() }).await?;
        let gates = record.run.map(|run| run.pending_gates).unwrap_or_default();
        let Some(gate) = gates.into_iter().find(|gate| gate.gate_id == standing.gate) else {
            // The gate was already answered elsewhere: return the current state of the run.
            return self.proceed(&standing.run, 0.0, caller).await.map(Some);
        };
        let why = match response.map(|response| dialog::read(&gate, response)) {
            Err(why) | Ok(DialogOutcome::LeftOpen(why)) => why.to_owned(),
            Ok(DialogOutcome::Answered(answer)) => match answered(
                AnswerGate { digest: Some(standing.digest.clone()), ..answer },
                caller.daemon,
                &caller.call.asker,
            )
            .await?
            {
                Ok(()) => return self.proceed(&standing.run, caller.wait, caller).await.map(Some),
                Err(Refused { why, again: true }) if standing.attempts + 1 < MAX_ATTEMPTS => {
                    let reply = caller.run(&standing.run, 0.0).await?;
                    let rejected = Some((why.as_str(), standing.attempts + 1));
                    return Ok(Some(question(reply, &gate, rejected, caller)));
                }
                Err(Refused { why, .. }) => why,
            },
        };
        let reply = caller.run(&standing.run, 0.0).await?;
        Ok(Some(self.leave(reply, &gate, caller.daemon, &why)))
    }

    async fn proceed(&self, run: &str, wait: f64, caller: &mut Caller<'_, '_>) -> Result<GateStep, AskError> {
        let reply = caller.run(run, wait).await?;
        self.reach(reply, caller).await
    }
}

/// Returns the question to the person; `rejected` is the reason for the last rejection, and the number of rejected
/// answers.
fn question(reply: Value, gate: &GateInfo, rejected: Option<(&str, usize)>, caller: &Caller<'_, '_>) -> GateStep {
    let (rejected, attempts) = rejected.map_or((None, 0), |(rejected, attempts)| (Some(rejected), attempts));
    let form = match dialog::form(gate, rejected, caller.call.asker.knows_titles()) {
        Ok(form) => form,
        Err(NoDialog::Form) => return leave_to_others(reply, gate, caller.daemon, NO_SUCH_FORM),
        Err(NoDialog::TooLong) => return leave_to_others(reply, gate, caller.daemon, TOO_LONG),
    };
    let standing = ElicitationState {
        run: reply["run_id"].as_str().unwrap_or_default().to_owned(),
        gate_run: gate.run_id.clone(),
        gate: gate.gate_id.clone(),
        digest: gate.digest.clone(),
        attempts,
    };
    let carried = serde_json::to_value(standing).expect("where a call stands has only JSON in it");
    let request = InputRequest::Elicitation(ElicitRequest::new(form));
    let questions = InputRequests::from([(QUESTION.to_owned(), request)]);
    let moot = Box::pin(closed(gate.clone(), caller.daemon.clone()));
    GateStep::Ask(Ask { questions, carried: Some(carried), moot })
}

/// Rejection of an answer: the reason, and true if the person may answer again.
pub(super) struct Refused {
    pub(super) why: String,
    pub(super) again: bool,
}

/// Sends a person's answer to the daemon, marked as given by a person.
pub(super) async fn answered(
    answer: AnswerGate,
    daemon: &ReconnectingClient,
    asker: &ClientContext<'_>,
) -> Result<Result<(), Refused>, AskError> {
    let client = asker.name().unwrap_or_else(|| "an MCP client".to_owned());
    let client: String = client.chars().take(40).collect();
    let person = daemon.for_person(&format!("mcp elicitation in {client}"), asker.peer());
    let reply = person.call(answer).await?;
    Ok(if reply.success { Ok(()) } else { Err(Refused { why: reply.error.unwrap_or_default(), again: reply.misread }) })
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

/// Returns the reply of a call that leaves the answer to its gate to others.
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
    let place = daemon.place();
    let folder = match place.is_usual() {
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
async fn closed(gate: GateInfo, daemon: ReconnectingClient) {
    let mut events = daemon.follow(&gate.run_id, 1);
    let ends = |event: &RunEvent| {
        let this = event.data.get("gate_id").is_some_and(|id| *id == gate.gate_id);
        event.is_last()
            || (this && ["gate_answered", "gate_timeout", "gate_cancelled"].contains(&event.event_type.as_str()))
    };
    loop {
        match events.next().await {
            Ok(Some(event)) if ends(&event) => return,
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
