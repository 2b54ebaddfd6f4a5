//! Attaching to a terminal: its current screen, its output as it arrives, and the writer's seat on request.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_recursion::async_recursion as boxed;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use steplatch_access::{Caller, RedactedStream};
use steplatch_host::{AttachEvent, Attached, HostedTerminal};
use steplatch_protocol::{AttachTerminal, AttachTerminalReply, HandBackTerminal, HandBackTerminalReply, TerminalEvent};
use steplatch_terminal::{HoldKey, LockHolder};
use tokio::sync::watch;
use tokio::time::timeout;

use super::error::SessionError;
use crate::ending::ShutdownMode;
use crate::event_sink::{Disconnected, EventSink};
use crate::sessions::Sessions;

/// Maximum delay of output that may begin a secret, if no output follows. Clients that request masked output store it,
/// so a delay does no harm.
const HOLD_BACK_TIMEOUT: Duration = Duration::from_secs(3600);

/// Maximum length of a person's note on returning a terminal, in characters.
const MAX_NOTE_CHARS: usize = 2000;

/// The output of a terminal for one attached client.
#[derive(Debug)]
pub struct TerminalEvents {
    attached: Attached,
    /// Masks secrets in the output, if the client requested that.
    mask: Option<RedactedStream>,
    /// Returns the seat when the client disconnects.
    _seat: Option<Seat>,
}

/// The writer's seat. A client holds the seat while it is connected.
#[derive(Debug)]
pub(crate) struct Seat {
    terminal: HostedTerminal,
    key: HoldKey,
    ending: watch::Receiver<Option<ShutdownMode>>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.ending.borrow().is_some_and(ShutdownMode::keeps_terminals) {
            // The client reconnects to the next daemon, and the terminal's host waits for it.
            return;
        }
        let (terminal, key) = (self.terminal.clone(), self.key.clone());
        // When this process ends, there is no runtime to spawn on, and the terminal's host waits for the client to
        // reconnect to the next daemon.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // Ignore the error, because a terminal that has ended has no holder.
                let _ = terminal.give_back(key).await;
            });
        }
    }
}

impl Sessions {
    /// Attaches a client to a terminal. The events carry its later output.
    #[boxed]
    pub async fn attach(&self, caller: &Caller, verb: AttachTerminal) -> (AttachTerminalReply, Option<TerminalEvents>) {
        let session_id = verb.session_id.clone();
        let wants_mask = verb.masked;
        match self.try_attach(caller, verb).await {
            Ok((terminal, attached, seat)) => {
                let secrets = self.secrets.within(terminal.id());
                let mut mask = wants_mask.then(|| RedactedStream::new(Arc::new(secrets)));
                let reply = AttachTerminalReply {
                    success: true,
                    session_id: terminal.id().to_string(),
                    snapshot: mask_snapshot(&mut mask, attached.snapshot.clone()),
                    cols: attached.size.cols,
                    rows: attached.size.rows,
                    error: None,
                };
                (reply, Some(TerminalEvents { attached, mask, _seat: seat }))
            }
            Err(error) => {
                let error = Some(self.describe_error(&session_id, error).await);
                (AttachTerminalReply { session_id, error, ..AttachTerminalReply::default() }, None)
            }
        }
    }

    async fn try_attach(
        &self,
        caller: &Caller,
        verb: AttachTerminal,
    ) -> Result<(HostedTerminal, Attached, Option<Seat>), SessionError> {
        let terminal = self.find(&verb.session_id).await?;
        let seat = match verb.hold_key {
            None => None,
            Some(key) => Some(self.take_seat(caller, &terminal, key).await?),
        };
        let attached = terminal.attach().await?;
        Ok((terminal, attached, seat))
    }

    /// Takes the writer's seat of a terminal for a client.
    pub(crate) async fn take_seat(
        &self,
        caller: &Caller,
        terminal: &HostedTerminal,
        key: String,
    ) -> Result<Seat, SessionError> {
        let key = HoldKey(key);
        let holder = LockHolder { name: caller.display_name().await, since: SystemTime::now() };
        terminal.hold(holder, key.clone()).await?;
        Ok(Seat { terminal: terminal.clone(), key, ending: self.ending.clone() })
    }

    /// Returns the writer's seat of a terminal that a person holds.
    #[boxed]
    pub async fn hand_back(&self, verb: HandBackTerminal) -> HandBackTerminalReply {
        let handed_back = async {
            let terminal = self.find(&verb.session_id).await?;
            let key = HoldKey(verb.hold_key);
            let note = verb.note.map(|note| note.trim().chars().take(MAX_NOTE_CHARS).collect::<String>());
            match note.filter(|note| !note.is_empty()) {
                Some(note) => terminal.hand_back(key, note).await?,
                None => terminal.give_back(key).await?,
            }
            Ok::<_, SessionError>(())
        };
        let error = self.failure(&verb.session_id, handed_back.await).await;
        HandBackTerminalReply { success: error.is_none(), error }
    }
}

impl TerminalEvents {
    /// Sends the output until the terminal ends or the client disconnects. A client that falls behind receives a new
    /// snapshot of the screen instead of the missed output.
    #[boxed]
    pub async fn forward(mut self, request_id: &Value, sink: &EventSink) -> Result<(), Disconnected> {
        loop {
            let output = match self.next().await {
                Next::Output(output) => output,
                Next::Quiet => {
                    self.send_held(request_id, sink).await?;
                    continue;
                }
            };
            if !matches!(output, Some(AttachEvent::Bytes(_) | AttachEvent::Redrawn(_))) {
                // The held output precedes this event.
                self.send_held(request_id, sink).await?;
            }
            let event = match output {
                Some(AttachEvent::Bytes(bytes)) => match &mut self.mask {
                    None => TerminalEvent::TerminalOutput { bytes: STANDARD.encode(bytes) },
                    Some(mask) => match mask.pass(&bytes) {
                        passed if passed.is_empty() => continue,
                        passed => TerminalEvent::TerminalOutput { bytes: STANDARD.encode(passed) },
                    },
                },
                Some(AttachEvent::Redrawn(snapshot)) => {
                    if let Some(mask) = &mut self.mask {
                        // The snapshot contains the held output, too.
                        drop(mask.flush());
                    }
                    TerminalEvent::TerminalRedrawn { snapshot: mask_snapshot(&mut self.mask, snapshot) }
                }
                Some(AttachEvent::Resized(size)) => TerminalEvent::TerminalResized { cols: size.cols, rows: size.rows },
                Some(AttachEvent::Ended(exit)) => {
                    let event = TerminalEvent::TerminalEnded { exit_code: Some(exit.code) };
                    return sink.event(request_id, &event).await;
                }
                Some(AttachEvent::Closed) | None => {
                    return sink.event(request_id, &TerminalEvent::TerminalEnded { exit_code: None }).await;
                }
            };
            sink.event(request_id, &event).await?;
        }
    }

    async fn next(&mut self) -> Next {
        if self.mask.as_ref().is_some_and(RedactedStream::is_holding) {
            return timeout(HOLD_BACK_TIMEOUT, self.attached.next()).await.map_or(Next::Quiet, Next::Output);
        }
        Next::Output(self.attached.next().await)
    }

    async fn send_held(&mut self, request_id: &Value, sink: &EventSink) -> Result<(), Disconnected> {
        let held = self.mask.as_mut().map(RedactedStream::flush).unwrap_or_default();
        if held.is_empty() {
            return Ok(());
        }
        sink.event(request_id, &TerminalEvent::TerminalOutput { bytes: STANDARD.encode(held) }).await
    }
}

/// Next event: output, or a silence that releases the held output.
enum Next {
    Output(Option<AttachEvent>),
    Quiet,
}

/// Masks the secrets of a snapshot. A held part follows with the output.
fn mask_snapshot(mask: &mut Option<RedactedStream>, snapshot: String) -> String {
    match mask {
        None => snapshot,
        Some(mask) => String::from_utf8_lossy(&mask.pass(snapshot.as_bytes())).into_owned(),
    }
}
