//! Input of a tab, typed in order and only once.
//!
//! An input has a name, and the terminal's ledger remembers it. After a lost connection, the tab sends unacknowledged
//! inputs again under the same names. After a restart of the daemon, this module sends these inputs again to the new
//! daemon.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use steplatch_protocol::{CallError, ReconnectingClient, WriteTerminal};
use tokio::sync::mpsc;

use super::message::{ToTab, TypedByTab};

/// Maximum time to reach the daemon again before an input is considered lost.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Maximum input name length, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// An input that a tab has sent.
#[derive(Debug)]
pub(super) struct TabInput {
    pub(super) terminal: String,
    pub(super) key: Option<String>,
    pub(super) name: String,
    pub(super) input: TypedByTab,
}

/// Types inputs until the tab closes.
pub(super) async fn type_inputs(
    person: ReconnectingClient,
    mut inputs: mpsc::Receiver<TabInput>,
    replies: mpsc::Sender<ToTab>,
) {
    while let Some(TabInput { terminal, key, name, input }) = inputs.recv().await {
        let error = type_input(&person, &terminal, key, &name, input).await.err();
        if replies.send(ToTab::Typed { terminal, n: name, error }).await.is_err() {
            return;
        }
    }
}

async fn type_input(
    person: &ReconnectingClient,
    terminal: &str,
    hold_key: Option<String>,
    name: &str,
    input: TypedByTab,
) -> Result<(), String> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err(format!("the name of an input must have 1 to {MAX_NAME_BYTES} bytes"));
    }
    let TypedByTab { text, keys, paste, mouse } = input;
    let bytes = STANDARD.encode(text.unwrap_or_default());
    let verb = WriteTerminal { session_id: terminal.to_owned(), bytes, keys, paste, mouse, hold_key };
    let step = format!("page-{name}");
    let began = Instant::now();
    loop {
        let result = match person.running().await {
            Ok(client) => client.call_once(&verb, &step).await,
            Err(_) => Err(CallError::Lost),
        };
        match result {
            Ok(reply) => return reply.error.map_or(Ok(()), Err),
            Err(CallError::Lost) if began.elapsed() < RECONNECT_TIMEOUT => tokio::time::sleep(RETRY_PAUSE).await,
            Err(error) => return Err(error.to_string()),
        }
    }
}
