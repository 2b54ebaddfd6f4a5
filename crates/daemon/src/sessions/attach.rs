//! Joining a terminal: its screen now, its output as it comes.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use steplatch_protocol::{AttachTerminal, AttachTerminalReply, TerminalEvent};
use steplatch_terminal::{Attached, Output, Terminal};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

use super::Sessions;
use crate::connection::{Disconnected, Outgoing};
use crate::secrets::MaskedStream;

/// How long the beginning of what may be a secret is held back when nothing follows it.
const HELD_BACK: Duration = Duration::from_millis(200);

/// The output of a terminal for one client that joined it.
#[derive(Debug)]
pub(crate) struct TerminalEvents {
    terminal: Terminal,
    output: Receiver<Output>,
    /// Takes secrets out of it, for a client that asked for that.
    mask: Option<MaskedStream>,
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
                let mut mask = verb.masked.then(|| MaskedStream::new(Arc::clone(&self.secrets)));
                let snapshot = masked(&mut mask, snapshot);
                let reply = AttachTerminalReply {
                    success: true,
                    session_id: terminal.id().to_string(),
                    snapshot,
                    cols: size.cols,
                    rows: size.rows,
                    error: None,
                };
                (reply, Some(TerminalEvents { terminal, output, mask }))
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
            let output = match self.next().await {
                Next::Output(output) => output,
                Next::Quiet => {
                    self.send_held(request_id, outgoing).await?;
                    continue;
                }
            };
            if !matches!(output, Ok(Output::Bytes(_)) | Err(RecvError::Lagged(_))) {
                // What was held back came before this.
                self.send_held(request_id, outgoing).await?;
            }
            let event = match output {
                Ok(Output::Bytes(bytes)) => match &mut self.mask {
                    None => TerminalEvent::TerminalOutput { bytes: STANDARD.encode(bytes) },
                    Some(mask) => match mask.pass(&bytes) {
                        passed if passed.is_empty() => continue,
                        passed => TerminalEvent::TerminalOutput { bytes: STANDARD.encode(passed) },
                    },
                },
                Ok(Output::Resized(size)) => TerminalEvent::TerminalResized { cols: size.cols, rows: size.rows },
                Ok(Output::Ended(exit)) => {
                    let event = TerminalEvent::TerminalEnded { exit_code: Some(exit.code) };
                    return outgoing.event(request_id, &event).await;
                }
                Err(RecvError::Lagged(_)) => match self.terminal.attach().await {
                    Ok(Attached { snapshot, output, .. }) => {
                        self.output = output;
                        if let Some(mask) = &mut self.mask {
                            // The screen has it, too.
                            drop(mask.flush());
                        }
                        TerminalEvent::TerminalRedrawn { snapshot: masked(&mut self.mask, snapshot) }
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

    async fn next(&mut self) -> Next {
        if self.mask.as_ref().is_some_and(MaskedStream::is_holding) {
            return timeout(HELD_BACK, self.output.recv()).await.map_or(Next::Quiet, Next::Output);
        }
        Next::Output(self.output.recv().await)
    }

    async fn send_held(&mut self, request_id: &Value, outgoing: &Outgoing) -> Result<(), Disconnected> {
        let held = self.mask.as_mut().map(MaskedStream::flush).unwrap_or_default();
        if held.is_empty() {
            return Ok(());
        }
        outgoing.event(request_id, &TerminalEvent::TerminalOutput { bytes: STANDARD.encode(held) }).await
    }
}

/// What comes next: output, or nothing for so long that what was held back is due.
enum Next {
    Output(Result<Output, RecvError>),
    Quiet,
}

/// A snapshot as a client may see it. What is held back of it comes with the output.
fn masked(mask: &mut Option<MaskedStream>, snapshot: String) -> String {
    match mask {
        None => snapshot,
        Some(mask) => String::from_utf8_lossy(&mask.pass(snapshot.as_bytes())).into_owned(),
    }
}
