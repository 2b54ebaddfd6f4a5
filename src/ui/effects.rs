//! Effects of the full screen that the daemon performs: answers, and control of runs.

use std::time::Duration;

use steplatch_protocol::{
    AnswerGate, AnswerGateReply, CancelWorkflow, DaemonStatus, GetGate, PauseWorkflow, PauseWorkflowReply,
    ReconnectingClient, ResumeWorkflow,
};
use tokio::sync::mpsc;

use super::event::{Effect, UiEvent};

/// Performs effects in separate tasks, whose results are events.
#[derive(Debug)]
pub(crate) struct Hands {
    pub(crate) daemon: ReconnectingClient,
    pub(crate) sender: mpsc::Sender<UiEvent>,
}

impl Hands {
    /// Begins an effect. Those of the person's own terminal are the loop's.
    pub(crate) fn perform(&self, effect: Effect) {
        let (daemon, sender) = (self.daemon.clone(), self.sender.clone());
        tokio::spawn(async move {
            let event = match effect {
                Effect::ShowGate { run_id, gate_id } => {
                    let verb = GetGate { run_id, gate_id: Some(gate_id.clone()) };
                    let gate = match daemon.call(verb).await {
                        Ok(reply) => reply.gate.map(Box::new).ok_or_else(|| in_words(reply.error)),
                        Err(error) => Err(error.to_string()),
                    };
                    UiEvent::Gate { gate_id, gate }
                }
                Effect::Answer(answer) => {
                    let reply = give(&daemon, &answer, &sender).await.map(Box::new);
                    UiEvent::Answered { answer, reply }
                }
                Effect::Cancel(run_id) => UiEvent::Done(match daemon.call(CancelWorkflow { run_id }).await {
                    Ok(reply) if reply.success => Ok(format!("{}: {}", reply.run_id, reply.message)),
                    Ok(reply) => Err(in_words(reply.error)),
                    Err(error) => Err(error.to_string()),
                }),
                Effect::Pause(run_id) => UiEvent::Done(steered(daemon.call(PauseWorkflow { run_id }).await)),
                Effect::Resume(run_id) => UiEvent::Done(steered(daemon.call(ResumeWorkflow { run_id }).await)),
                // A repeated call: a killed daemon may still accept a connection, and hang up.
                Effect::StartDaemon => match daemon.call(DaemonStatus {}).await {
                    // The lists come with the connection, and say that the daemon is there.
                    Ok(_) => return,
                    Err(error) => UiEvent::Done(Err(error.to_string())),
                },
                Effect::Attach { .. } | Effect::Suspend | Effect::Redraw | Effect::Leave => return,
            };
            // The person may have left the full screen.
            let _ = sender.send(event).await;
        });
    }
}

/// Sends an answer. Keeps its passphrase until the end of the pause after wrong ones.
async fn give(
    daemon: &ReconnectingClient,
    answer: &AnswerGate,
    sender: &mpsc::Sender<UiEvent>,
) -> Result<AnswerGateReply, String> {
    loop {
        let reply = daemon.call(answer.clone()).await.map_err(|error| error.to_string())?;
        let Some(seconds) = reply.retry_after_seconds else { return Ok(reply) };
        let _ = sender.send(UiEvent::AnswerWaits(seconds)).await;
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
}

fn steered<E: std::fmt::Display>(reply: Result<PauseWorkflowReply, E>) -> Result<String, String> {
    match reply {
        Ok(reply) if reply.success => Ok(format!("{}: {}", reply.run_id, reply.message)),
        Ok(reply) => Err(in_words(reply.error)),
        Err(error) => Err(error.to_string()),
    }
}

fn in_words(error: Option<String>) -> String {
    error.unwrap_or_else(|| "the daemon refused it and gave no reason".to_owned())
}
