//! Gates for people, put to the person at the client.
//!
//! How a person is reached follows from what the client can do: by a result that asks for input (2026-07-28), by a
//! dialog (`elicitation/create`, before that), or by nothing but words that say where to answer. Only an accepted dialog
//! with a decision in it is an answer. Whatever else comes back leaves the gate open: many clients decline by
//! themselves where nobody is there to be asked.

pub(crate) mod dialog;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequestParams, ClientResult, ElicitRequest, ElicitResult, InputRequest, InputRequests, InputRequiredResult,
    ProtocolVersion, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};
use steplatch_protocol::{
    AnswerGate, AskError, GateInfo, GetApprover, GetRun, GetWorkflowRun, RUN_WAIT_SECONDS, RunEvent, RunWorkflow,
    Steady, Verb as _,
};

use crate::progress::Listener;
use crate::seal::{Seals, same_call};
use crate::server::is_modern;
use crate::tasks::Tried;

/// How long a dialog is open. Later the gate is answered elsewhere.
const DIALOG: Duration = Duration::from_secs(600);

/// How often a person is asked again who filled a form in badly.
const ATTEMPTS: usize = 3;

/// Dialogs of one call: no person answers more in a row.
const MOST_DIALOGS: usize = 100;

/// Gates that are remembered as asked about in vain.
const MOST_UNANSWERED: usize = 1000;

/// The name of a question among the input that a result asks for; there is one at a time.
const QUESTION: &str = "gate";

/// Whoever a call can ask.
#[derive(Debug)]
pub(crate) struct People {
    seals: Seals,
    /// Gates whose dialog came back without an answer. Nobody is asked about one again and again because an agent looks
    /// at its run again and again.
    unanswered: Mutex<VecDeque<String>>,
    pub(crate) tried: Tried,
}

/// How the person at a client is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channel {
    /// By a result that asks for input.
    Rounds,
    /// By a dialog.
    Dialog,
    /// Not at all.
    Elsewhere,
}

/// A call of a tool that may end at a gate.
pub(crate) struct Call<'c> {
    pub(crate) daemon: &'c Steady,
    pub(crate) context: &'c RequestContext<RoleServer>,
    pub(crate) listener: Option<Listener>,
    /// What it has in common with the same call made again.
    same: String,
    /// How long it waits for a run, in seconds.
    wait: f64,
}

/// What a call comes to.
pub(crate) enum Reached {
    Reply(Value),
    Input(InputRequiredResult),
}

/// What came of a dialog.
pub(crate) enum Dialog {
    Answered(AnswerGate),
    /// Nothing that is an answer, in words.
    LeftOpen(&'static str),
    /// Somebody else was faster, or the time of the gate is up.
    Closed,
}

impl<'c> Call<'c> {
    /// A call of a tool, if it is one that may end at a gate.
    pub(crate) fn of(
        verb: &str,
        request: &CallToolRequestParams,
        daemon: &'c Steady,
        context: &'c RequestContext<RoleServer>,
    ) -> Option<Self> {
        if ![RunWorkflow::NAME, GetRun::NAME].contains(&verb) {
            return None;
        }
        let arguments = request.arguments.clone().map_or(Value::Null, Value::Object);
        // Some wrap what they ask for.
        let asked = arguments.get("request").unwrap_or(&arguments);
        let wait = asked.get("wait_seconds").and_then(Value::as_f64).unwrap_or(RUN_WAIT_SECONDS);
        let same = same_call(&request.name, &arguments);
        Some(Self { daemon, context, listener: None, same, wait })
    }

    /// What is asked about a task, which is no call of a tool.
    pub(crate) fn of_a_task(daemon: &'c Steady, context: &'c RequestContext<RoleServer>) -> Self {
        Self { daemon, context, listener: None, same: String::new(), wait: 0.0 }
    }

    /// Whether the client can ask its person.
    pub(crate) fn can_ask(&self) -> bool {
        self.channel() != Channel::Elsewhere
    }

    async fn run(&mut self, run_id: &str, wait_seconds: f64) -> Result<Value, AskError> {
        let params = json!({"run_id": run_id, "wait_seconds": wait_seconds});
        let answer = match &mut self.listener {
            Some(listener) => listener.ask(self.daemon, GetRun::NAME, params).await,
            None => self.daemon.call_raw(GetRun::NAME, params).await,
        };
        Ok(answer?.0)
    }

    fn client(&self) -> String {
        self.context.client_info().map_or_else(|| "an MCP client".to_owned(), |client| client.name)
    }

    fn channel(&self) -> Channel {
        let capabilities = self.context.client_capabilities().unwrap_or_default();
        // One that says nothing about modes has the form, which was there first.
        let forms = capabilities.elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none());
        match (forms, is_modern(self.context)) {
            (false, _) => Channel::Elsewhere,
            (true, true) => Channel::Rounds,
            (true, false) => Channel::Dialog,
        }
    }

    /// Whether the client knows choices with titles of their own.
    pub(crate) fn knows_titles(&self) -> bool {
        let version = self.context.protocol_version();
        version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2025_11_25.as_str())
    }
}

impl People {
    pub(crate) fn new() -> Self {
        Self { seals: Seals::new(), unanswered: Mutex::default(), tried: Tried::default() }
    }

    pub(crate) fn asked_in_vain(&self, gate: &GateInfo) -> bool {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).contains(&gate.gate_id)
    }

    /// Leaves a gate to be answered elsewhere, and does not ask about it again.
    fn leave(&self, reply: Value, gate: &GateInfo, call: &Call<'_>, why: &str) -> Reached {
        self.give_up(gate);
        left(reply, gate, call, why)
    }

    /// Does not ask about a gate again.
    pub(crate) fn give_up(&self, gate: &GateInfo) {
        let mut unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        if unanswered.len() == MOST_UNANSWERED {
            unanswered.pop_front();
        }
        unanswered.push_back(gate.gate_id.clone());
    }

    /// Puts the gate that a run waits at to the person, if it is for one and they can be reached, and goes on with what
    /// they answer. Returns the reply of the call, with where to answer if that is left.
    ///
    /// # Errors
    /// When the daemon can not be asked.
    pub(crate) async fn reach(&self, mut reply: Value, call: &mut Call<'_>) -> Result<Reached, AskError> {
        let run = reply["run_id"].as_str().unwrap_or_default().to_owned();
        let (mut wrong, mut attempts, mut gates) = (None, 0, 0);
        loop {
            let Some(gate) = gate_for_people(&reply, call.daemon).await? else {
                return Ok(Reached::Reply(reply));
            };
            let channel = call.channel();
            if channel == Channel::Elsewhere || self.asked_in_vain(&gate) {
                return Ok(left(reply, &gate, call, "This gate waits for a person."));
            }
            if call.daemon.call(GetApprover {}).await?.is_set {
                return Ok(left(reply, &gate, call, "This gate waits for a person and the approver's passphrase."));
            }
            if channel == Channel::Rounds {
                return Ok(self.question(&run, &gate, wrong.as_deref(), call));
            }
            gates += 1;
            if gates > MOST_DIALOGS {
                return Ok(left(reply, &gate, call, "This run asks more than one call can."));
            }
            match dialog(&gate, wrong.as_deref(), call).await? {
                Dialog::LeftOpen(why) => return Ok(self.leave(reply, &gate, call, why)),
                Dialog::Closed => reply = call.run(&run, call.wait).await?,
                Dialog::Answered(answer) => match answered(answer, call).await? {
                    Ok(()) => {
                        (wrong, attempts) = (None, 0);
                        reply = call.run(&run, call.wait).await?;
                    }
                    Err(Refused { why, again }) => {
                        attempts += 1;
                        reply = call.run(&run, 0.0).await?;
                        if !again || attempts == ATTEMPTS {
                            return Ok(self.leave(reply, &gate, call, &why));
                        }
                        wrong = Some(why);
                    }
                },
            }
        }
    }

    /// Takes the answer to a question that an earlier round of this call ended with, and goes on.
    ///
    /// # Errors
    /// With what is said to a client that carried something else than it was given; the other one is the daemon's.
    pub(crate) async fn answered(
        &self,
        sealed: &str,
        request: &CallToolRequestParams,
        call: &mut Call<'_>,
    ) -> Result<Result<Reached, AskError>, ErrorData> {
        let refused = |error: &dyn std::fmt::Display| ErrorData::invalid_params(error.to_string(), None);
        let carried = self.seals.open(sealed, &call.same).map_err(|error| refused(&error))?;
        let response = request.input_responses.as_ref().and_then(|responses| responses.get(QUESTION));
        let response = response.and_then(|response| serde_json::from_value::<ElicitResult>(response.clone()).ok());
        let Some(response) = response else {
            // Nobody was asked, so they are asked again.
            return Ok(self.again(&carried.run, call).await);
        };
        if !self.seals.spend(&carried) {
            return Err(refused(&crate::seal::Unsealed::Used));
        }
        Ok(self.take(&carried, response, call).await)
    }

    async fn again(&self, run: &str, call: &mut Call<'_>) -> Result<Reached, AskError> {
        let reply = call.run(run, 0.0).await?;
        self.reach(reply, call).await
    }

    async fn take(
        &self,
        carried: &crate::seal::Carried,
        response: ElicitResult,
        call: &mut Call<'_>,
    ) -> Result<Reached, AskError> {
        let record = call.daemon.call(GetWorkflowRun { run_id: carried.gate_run.clone() }).await?;
        let gates = record.run.map(|run| run.pending_gates).unwrap_or_default();
        let Some(gate) = gates.into_iter().find(|gate| gate.gate_id == carried.gate) else {
            // Somebody else was faster: the run is as far as it is.
            return self.again(&carried.run, call).await;
        };
        match dialog::read(&gate, response) {
            Dialog::LeftOpen(why) => {
                let reply = call.run(&carried.run, 0.0).await?;
                Ok(self.leave(reply, &gate, call, why))
            }
            Dialog::Closed => self.again(&carried.run, call).await,
            Dialog::Answered(answer) => match answered(answer, call).await? {
                Ok(()) => {
                    let reply = call.run(&carried.run, call.wait).await?;
                    self.reach(reply, call).await
                }
                Err(Refused { why, again: true }) => Ok(self.question(&carried.run, &gate, Some(&why), call)),
                Err(Refused { why, again: false }) => {
                    let reply = call.run(&carried.run, 0.0).await?;
                    Ok(self.leave(reply, &gate, call, &why))
                }
            },
        }
    }

    /// Ends this round of the call with a question.
    fn question(&self, run: &str, gate: &GateInfo, wrong: Option<&str>, call: &Call<'_>) -> Reached {
        let state = self.seals.close(run, &gate.run_id, &gate.gate_id, &call.same);
        let Some(form) = dialog::form(gate, wrong, call.knows_titles()) else {
            let reply = json!({"success": true, "run_id": run, "status": "waiting", "pending_gate": gate});
            return left(reply, gate, call, "This gate asks for a form that clients can not show.");
        };
        let request = InputRequest::Elicitation(ElicitRequest::new(form));
        let requests = InputRequests::from([(QUESTION.to_owned(), request)]);
        Reached::Input(InputRequiredResult::new(Some(requests), Some(state)))
    }
}

/// Why an answer was not taken, and whether another one may be.
pub(crate) struct Refused {
    pub(crate) why: String,
    pub(crate) again: bool,
}

/// Passes on what a person answered, as theirs.
pub(crate) async fn answered(answer: AnswerGate, call: &Call<'_>) -> Result<Result<(), Refused>, AskError> {
    let client: String = call.client().chars().take(40).collect();
    let person = call.daemon.for_person(&format!("mcp elicitation in {client}"));
    let reply = person.call(answer).await?;
    Ok(if reply.success { Ok(()) } else { Err(Refused { why: reply.error.unwrap_or_default(), again: reply.misread }) })
}

/// The oldest gate for people that a run waits at, its own or that of one below it.
async fn gate_for_people(reply: &Value, daemon: &Steady) -> Result<Option<GateInfo>, AskError> {
    if reply["status"] != "waiting" {
        return Ok(None);
    }
    let run_id = reply["run_id"].as_str().unwrap_or_default().to_owned();
    let record = daemon.call(GetWorkflowRun { run_id }).await?;
    let gates = record.run.map(|run| run.pending_gates).unwrap_or_default();
    Ok(gates.into_iter().find(|gate| gate.answered_by == "human"))
}

/// The reply of a call whose gate is left to be answered elsewhere.
fn left(mut reply: Value, gate: &GateInfo, call: &Call<'_>, why: &str) -> Reached {
    // It may have been answered while it was looked at.
    if reply["status"] == "waiting" {
        let told = where_to_answer(gate, call, why);
        reply["next_step"] = format!("{told} Tell them so; get_run with wait_seconds goes on when they have.").into();
    }
    Reached::Reply(reply)
}

/// Says why a gate is answered elsewhere, and with which command.
pub(crate) fn where_to_answer(gate: &GateInfo, call: &Call<'_>, why: &str) -> String {
    let place = call.daemon.place();
    let folder = match place.is_usual() {
        true => String::new(),
        false => format!(" --state-dir {}", quoted(&place.state().display().to_string())),
    };
    let run = &gate.run_id;
    format!("{why} A person answers it in a terminal of their own, with: steplatch gates answer {run}{folder}.")
}

/// A word of a shell.
fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._-+@:".contains(character);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Asks the person in a dialog of the client, for as long as anybody waits for their answer.
async fn dialog(gate: &GateInfo, wrong: Option<&str>, call: &mut Call<'_>) -> Result<Dialog, AskError> {
    const UNREACHED: &str = "This gate waits for a person, and the client could not ask one.";
    let Some(form) = dialog::form(gate, wrong, call.knows_titles()) else {
        return Ok(Dialog::LeftOpen("This gate asks for a form that clients can not show."));
    };
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
    let asked = call.context.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
    let Ok(mut asked) = asked else { return Ok(Dialog::LeftOpen(UNREACHED)) };
    let closed = closed(gate, call.daemon.clone());
    tokio::pin!(closed);
    let (began, late) = (Instant::now(), tokio::time::sleep(DIALOG));
    tokio::pin!(late);
    let why = loop {
        tokio::select! {
            said = &mut asked.rx => {
                return Ok(match said {
                    Ok(Ok(ClientResult::ElicitResult(result))) => dialog::read(gate, result),
                    _ => Dialog::LeftOpen(UNREACHED),
                });
            }
            () = &mut closed => break Dialog::Closed,
            () = &mut late => break Dialog::LeftOpen("This gate waits for a person, and nobody answered its dialog."),
            () = sign_of_life(&mut call.listener, began) => {}
            () = call.context.ct.cancelled() => break Dialog::Closed,
        }
    };
    // A dialog that nobody waits for goes away.
    if let Err(error) = asked.cancel(Some("the question is no longer open here".to_owned())).await {
        tracing::debug!(%error, "a dialog can not be taken back");
    }
    Ok(why)
}

async fn sign_of_life(listener: &mut Option<Listener>, began: Instant) {
    match listener {
        Some(listener) => listener.waits_for_a_person(began).await,
        None => std::future::pending().await,
    }
}

/// Waits until a gate is open no more.
async fn closed(gate: &GateInfo, daemon: Steady) {
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
            // Who can not be followed may still be answered.
            Err(error) => {
                tracing::debug!(%error, "a run can not be followed");
                return std::future::pending().await;
            }
        }
    }
}
