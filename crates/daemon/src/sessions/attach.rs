//! Joining a terminal: its screen now, its output as it comes, and the writer's seat for who wants it.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use steplatch_host::{AttachEvent, Attached, HostedTerminal};
use steplatch_protocol::{AttachTerminal, AttachTerminalReply, HandBackTerminal, HandBackTerminalReply, TerminalEvent};
use steplatch_terminal::{HoldKey, Holder};

use super::Sessions;
use super::trouble::{Trouble, held};
use crate::caller::Caller;
use crate::connection::{Disconnected, Outgoing};

/// The output of a terminal for one client that joined it.
#[derive(Debug)]
pub(crate) struct TerminalEvents {
    attached: Attached,
    /// Gives the seat back when the client is gone.
    _seat: Option<Seat>,
}

/// The writer's seat, for as long as the client that took it is there.
#[derive(Debug)]
struct Seat {
    terminal: HostedTerminal,
    key: HoldKey,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let (terminal, key) = (self.terminal.clone(), self.key.clone());
        // When this process ends, there is nothing to spawn on, and the terminal's host waits for the client to come
        // back to the next one.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // A terminal that is gone is free.
                let _ = terminal.give_back(key).await;
            });
        }
    }
}

impl Sessions {
    pub(crate) async fn attach(
        &self,
        caller: &Caller,
        verb: AttachTerminal,
    ) -> (AttachTerminalReply, Option<TerminalEvents>) {
        let session_id = verb.session_id.clone();
        match self.try_attach(caller, verb).await {
            Ok((terminal, attached, seat)) => {
                let reply = AttachTerminalReply {
                    success: true,
                    session_id: terminal.id().to_string(),
                    snapshot: attached.snapshot.clone(),
                    cols: attached.size.cols,
                    rows: attached.size.rows,
                    error: None,
                };
                (reply, Some(TerminalEvents { attached, _seat: seat }))
            }
            Err(trouble) => {
                let error = Some(self.words(&session_id, trouble).await);
                (AttachTerminalReply { session_id, error, ..AttachTerminalReply::default() }, None)
            }
        }
    }

    async fn try_attach(
        &self,
        caller: &Caller,
        verb: AttachTerminal,
    ) -> Result<(HostedTerminal, Attached, Option<Seat>), Trouble> {
        let terminal = self.find(&verb.session_id).await?;
        let seat = match verb.hold_key {
            None => None,
            Some(key) => {
                let key = HoldKey(key);
                let holder = Holder { name: caller.person_name(), since: SystemTime::now() };
                terminal.hold(holder, key.clone()).await?.map_err(|holder| held(&holder))?;
                Some(Seat { terminal: terminal.clone(), key })
            }
        };
        let attached = terminal.attach().await?;
        Ok((terminal, attached, seat))
    }

    pub(crate) async fn hand_back(&self, verb: HandBackTerminal) -> HandBackTerminalReply {
        let handed_back = async {
            let terminal = self.find(&verb.session_id).await?;
            Ok::<_, Trouble>(terminal.give_back(HoldKey(verb.hold_key)).await?)
        };
        let error = self.failure(&verb.session_id, handed_back.await).await;
        HandBackTerminalReply { success: error.is_none(), error }
    }
}

impl TerminalEvents {
    /// Sends the output until the terminal or the client is gone. A client that falls behind is shown the
    /// screen anew instead of everything it missed.
    pub(crate) async fn forward(mut self, request_id: &Value, outgoing: &Outgoing) -> Result<(), Disconnected> {
        loop {
            let event = match self.attached.next().await {
                Some(AttachEvent::Bytes(bytes)) => TerminalEvent::TerminalOutput { bytes: STANDARD.encode(bytes) },
                Some(AttachEvent::Redrawn(snapshot)) => TerminalEvent::TerminalRedrawn { snapshot },
                Some(AttachEvent::Resized(size)) => TerminalEvent::TerminalResized { cols: size.cols, rows: size.rows },
                Some(AttachEvent::Ended(exit)) => {
                    let event = TerminalEvent::TerminalEnded { exit_code: Some(exit.code) };
                    return outgoing.event(request_id, &event).await;
                }
                Some(AttachEvent::Closed) | None => {
                    return outgoing.event(request_id, &TerminalEvent::TerminalEnded { exit_code: None }).await;
                }
            };
            outgoing.event(request_id, &event).await?;
        }
    }
}
