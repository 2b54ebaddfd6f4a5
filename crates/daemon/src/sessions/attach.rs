//! Joining a terminal: its screen now, its output as it comes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use steplatch_protocol::{AttachTerminal, AttachTerminalReply, TerminalEvent};
use steplatch_terminal::{Attached, Output, Terminal};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::Sessions;
use crate::connection::{Disconnected, Outgoing};

/// The output of a terminal for one client that joined it.
#[derive(Debug)]
pub(crate) struct TerminalEvents {
    terminal: Terminal,
    output: Receiver<Output>,
}

impl Sessions {
    pub(crate) async fn attach(&self, verb: AttachTerminal) -> (AttachTerminalReply, Option<TerminalEvents>) {
        let joined = async {
            let terminal = self.find(&verb.session_id).await?;
            let attached = terminal.attach().await.map_err(|gone| gone.to_string())?;
            Ok::<_, String>((terminal, attached))
        };
        match joined.await {
            Ok((terminal, Attached { snapshot, size, output })) => {
                let reply = AttachTerminalReply {
                    success: true,
                    session_id: terminal.id().to_string(),
                    snapshot,
                    cols: size.cols,
                    rows: size.rows,
                    error: None,
                };
                (reply, Some(TerminalEvents { terminal, output }))
            }
            Err(error) => {
                let reply = AttachTerminalReply {
                    session_id: verb.session_id,
                    error: Some(error),
                    ..AttachTerminalReply::default()
                };
                (reply, None)
            }
        }
    }
}

impl TerminalEvents {
    /// Sends the output until the terminal or the client is gone. A client that falls behind is shown the
    /// screen anew instead of everything it missed.
    pub(crate) async fn forward(mut self, request_id: &Value, outgoing: &Outgoing) -> Result<(), Disconnected> {
        loop {
            let event = match self.output.recv().await {
                Ok(Output::Bytes(bytes)) => TerminalEvent::TerminalOutput { bytes: STANDARD.encode(bytes) },
                Ok(Output::Resized(size)) => TerminalEvent::TerminalResized { cols: size.cols, rows: size.rows },
                Ok(Output::Ended(exit)) => {
                    let event = TerminalEvent::TerminalEnded { exit_code: Some(exit.code) };
                    return outgoing.event(request_id, &event).await;
                }
                Err(RecvError::Lagged(_)) => match self.terminal.attach().await {
                    Ok(Attached { snapshot, output, .. }) => {
                        self.output = output;
                        TerminalEvent::TerminalRedrawn { snapshot }
                    }
                    Err(_) => continue,
                },
                Err(RecvError::Closed) => {
                    return outgoing.event(request_id, &TerminalEvent::TerminalEnded { exit_code: None }).await;
                }
            };
            outgoing.event(request_id, &event).await?;
        }
    }
}
