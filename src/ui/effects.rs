//! Requests of the full screen to the daemon: answers to gates, and the control of runs.
//!
//! Each request runs in its own task and sends its result as an event, so that no request blocks the event loop.

use std::time::Duration;

use steplatch_protocol::{
    AnswerGate, AnswerGateReply, CancelWorkflow, DaemonStatus, GetGate, PauseWorkflow, PauseWorkflowReply,
    ReconnectingClient, ResumeWorkflow, RunWorkflow,
};
use tokio::sync::mpsc;

use super::event::{Effect, UiEvent, refusal_text};

/// Performer of effects. Each effect runs in a separate task and sends its result as an event.
#[derive(Debug)]
pub(crate) struct EffectRunner {
    pub(crate) daemon: ReconnectingClient,
    pub(crate) sender: mpsc::Sender<UiEvent>,
}

impl EffectRunner {
    /// Starts an effect. Ignores effects on the person's own terminal, because the event loop performs them itself.
    pub(crate) fn perform(&self, effect: Effect) {
        let (daemon, sender) = (self.daemon.clone(), self.sender.clone());
        tokio::spawn(async move {
            let event = match effect {
                Effect::ShowGate { run_id, gate_id } => {
                    let verb = GetGate { run_id, gate_id: Some(gate_id.clone()) };
                    let gate = match daemon.call(verb).await {
                        Ok(reply) => reply.gate.map(Box::new).ok_or_else(|| refusal_text(reply.error)),
                        Err(error) => Err(error.to_string()),
                    };
                    UiEvent::Gate { gate_id, gate }
                }
                Effect::Answer(answer) => {
                    let reply = send_answer(&daemon, &answer, &sender).await.map(Box::new);
                    UiEvent::Answered { answer, reply }
                }
                Effect::EnterSecret(verb) => {
                    let outcome = if verb.secret.is_some() { "the password was typed" } else { "refused" };
                    UiEvent::Done(match daemon.call(*verb).await {
                        Ok(reply) if reply.success => Ok(reply.warning.unwrap_or_else(|| outcome.to_owned())),
                        Ok(reply) => Err(refusal_text(reply.error)),
                        Err(error) => Err(error.to_string()),
                    })
                }
                Effect::Cancel(run_id) => UiEvent::Done(match daemon.call(CancelWorkflow { run_id }).await {
                    Ok(reply) if reply.success => Ok(format!("{}: {}", reply.run_id, reply.message)),
                    Ok(reply) => Err(refusal_text(reply.error)),
                    Err(error) => Err(error.to_string()),
                }),
                Effect::Pause(run_id) => UiEvent::Done(control_result(daemon.call(PauseWorkflow { run_id }).await)),
                Effect::Resume(run_id) => UiEvent::Done(control_result(daemon.call(ResumeWorkflow { run_id }).await)),
                Effect::RunAgain(request) => {
                    let again = Some((*request).clone());
                    let verb = RunWorkflow { again, wait_seconds: Some(0.0), ..RunWorkflow::default() };
                    let reply = daemon.call(verb).await.map(Box::new).map_err(|error| error.to_string());
                    UiEvent::RanAgain { request, reply }
                }
                // The client repeats the call, because a daemon that is being killed may accept a connection and then
                // close it.
                Effect::StartDaemon => match daemon.call(DaemonStatus {}).await {
                    // The lists arrive after the connection, and show that the daemon is available.
                    Ok(_) => return,
                    Err(error) => UiEvent::Done(Err(error.to_string())),
                },
                Effect::Attach { .. } | Effect::Suspend | Effect::Redraw | Effect::Copy(_) | Effect::Leave => return,
            };
            // Ignore a failure, because the person may have left the full screen.
            let _ = sender.send(event).await;
        });
    }
}

/// Sends an answer. Repeats it after each pause that the daemon requires because of wrong passphrases.
async fn send_answer(
    daemon: &ReconnectingClient,
    answer: &AnswerGate,
    sender: &mpsc::Sender<UiEvent>,
) -> Result<AnswerGateReply, String> {
    loop {
        let reply = daemon.call(answer.clone()).await.map_err(|error| error.to_string())?;
        let Some(seconds) = reply.retry_after_seconds else { return Ok(reply) };
        let _ = sender.send(UiEvent::AnswerDelayed(seconds)).await;
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
}

fn control_result<E: std::fmt::Display>(reply: Result<PauseWorkflowReply, E>) -> Result<String, String> {
    match reply {
        Ok(reply) if reply.success => Ok(format!("{}: {}", reply.run_id, reply.message)),
        Ok(reply) => Err(refusal_text(reply.error)),
        Err(error) => Err(error.to_string()),
    }
}
