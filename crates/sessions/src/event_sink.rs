//! The write half of a connection: replies and events, one line each.
//!
//! Sources of events write to an [`EventSink`], and do not depend on the socket or its commands. A client that does not
//! read slows down only its own sources.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use serde::Serialize;
use serde_json::{Value, json};
use steplatch_protocol::{ErrorCode, FromDaemon, MAX_LINE_BYTES, PROTOCOL_VERSION, Refusal};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;

use crate::backlog::Backlog;

/// The write half of a connection. Writes one message at a time. Cheap to clone.
#[derive(Clone)]
pub struct EventSink {
    writer: Arc<Mutex<Writer>>,
    backlog: Backlog,
}

struct Writer {
    stream: Box<dyn AsyncWrite + Send + Unpin>,
    /// The unwritten part of a line. If a command is cancelled while its result is written, the next writer completes
    /// the line.
    unsent: Vec<u8>,
}

/// The client has disconnected.
#[derive(Debug)]
pub struct Disconnected;

impl EventSink {
    /// Returns a sink that writes to `stream`.
    pub fn new(stream: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let writer = Writer { stream: Box::new(stream), unsent: Vec::new() };
        Self { writer: Arc::new(Mutex::new(writer)), backlog: Backlog::new() }
    }

    /// Returns the backlog of the client.
    pub fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// Closes the write half after writing everything.
    #[boxed]
    pub async fn shutdown(&self) -> std::io::Result<()> {
        self.writer.lock().await.stream.shutdown().await
    }

    /// Writes one message.
    ///
    /// # Errors
    /// If the client has disconnected.
    #[boxed]
    pub async fn send(&self, message: &FromDaemon) -> Result<(), Disconnected> {
        let _unwritten = self.backlog.count_unwritten();
        let mut writer = self.writer.lock().await;
        let Writer { stream, unsent } = &mut *writer;
        let line_start = unsent.len();
        serde_json::to_writer(&mut *unsent, message).expect("a message contains only JSON");
        if unsent.len() - line_start > MAX_LINE_BYTES {
            // Send a substitute, because the client would drop the line, and its command would wait forever.
            unsent.truncate(line_start);
            let substitute = match message {
                FromDaemon::Result { request_id, .. } => {
                    let error =
                        format!("the reply is longer than {} MB; ask for less of it at once", MAX_LINE_BYTES >> 20);
                    refused(Refusal { code: ErrorCode::Internal, error }, request_id.clone())
                }
                FromDaemon::Event { request_id, event } if !event["data"].is_null() => {
                    // The client still learns that the event occurred.
                    let mut event = event.clone();
                    event["data"] = json!({"left_out": format!("it is longer than {} MB", MAX_LINE_BYTES >> 20)});
                    FromDaemon::Event { request_id: request_id.clone(), event }
                }
                FromDaemon::Event { .. } | FromDaemon::Error { .. } => return Ok(()),
            };
            serde_json::to_writer(&mut *unsent, &substitute).expect("a message contains only JSON");
        }
        unsent.push(b'\n');
        while !unsent.is_empty() {
            let written = stream.write(unsent).await.map_err(|_| Disconnected)?;
            if written == 0 {
                return Err(Disconnected);
            }
            unsent.drain(..written);
        }
        Ok(())
    }

    /// Sends an event to the client of the command `request_id`.
    pub async fn event(&self, request_id: &Value, event: &impl Serialize) -> Result<(), Disconnected> {
        let event = serde_json::to_value(event).expect("an event contains only JSON");
        self.send(&FromDaemon::Event { request_id: request_id.clone(), event }).await
    }
}

/// Returns the message that refuses a command.
pub fn refused(refusal: Refusal, request_id: Value) -> FromDaemon {
    if refusal.code == ErrorCode::UnsupportedProtocol {
        tracing::info!(supported = PROTOCOL_VERSION, "a client requested an unsupported protocol version");
    }
    FromDaemon::Result {
        success: false,
        data: Value::Null,
        error: Some(refusal.error),
        error_code: Some(refusal.code),
        warnings: Vec::new(),
        request_id,
    }
}
