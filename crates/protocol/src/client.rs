//! The client that every front-end uses.
//!
//! Owns one connection, which concurrent calls share. One task reads results and
//! events and passes them to the calls that wait for them. Dropping a call cancels
//! it in the daemon, too.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};

use crate::codec::{Line, LineReader, MAX_LINE_BYTES};
use crate::message::{ErrorCode, FromClient, FromDaemon, Refusal};
use crate::verb::Verb;

/// A connection to the daemon. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
    next_request: AtomicU64,
    pending: Mutex<PendingRequests>,
}

#[derive(Debug, Default)]
struct PendingRequests {
    results: HashMap<u64, oneshot::Sender<FromDaemon>>,
    events: HashMap<u64, mpsc::UnboundedSender<Value>>,
    /// True if the connection has ended; no more results will come.
    closed: bool,
}

/// Reason why a call has no reply.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The connection ended before the reply arrived. The command may have been executed.
    #[error("the connection to the daemon was lost")]
    Lost,
    /// The daemon did not execute the command.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The reply is not a valid reply to the verb.
    #[error("the daemon's reply to {verb} cannot be read")]
    Garbled {
        /// The verb that was called.
        verb: &'static str,
        /// The error of the parser.
        #[source]
        source: serde_json::Error,
    },
}

/// The events of one subscription, in order.
#[derive(Debug)]
pub struct Events {
    receiver: mpsc::UnboundedReceiver<Value>,
    request_id: u64,
    shared: Arc<Shared>,
}

impl Events {
    /// Returns the next event; `None` once the connection has ended.
    pub async fn next(&mut self) -> Option<Value> {
        self.receiver.recv().await
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.shared.lock().events.remove(&self.request_id);
        self.shared.cancel(self.request_id);
    }
}

impl Shared {
    fn lock(&self) -> parking_lot::MutexGuard<'_, PendingRequests> {
        self.pending.lock()
    }

    fn cancel(&self, request_id: u64) {
        let message = FromClient::Cancel { request_id: request_id.into() };
        // Ignore the error, because the daemon cancels all requests of an ended connection.
        let _ = self.send(&message);
    }

    fn send(&self, message: &FromClient) -> Result<(), CallError> {
        let mut line = serde_json::to_vec(message).expect("a message contains only JSON");
        if line.len() > MAX_LINE_BYTES {
            // The daemon's refusal would concern the connection, and so all callers that share it.
            let error =
                format!("the request takes {} MB; at most {} MB can be sent", line.len() >> 20, MAX_LINE_BYTES >> 20);
            return Err(Refusal { code: ErrorCode::InvalidParams, error }.into());
        }
        line.push(b'\n');
        self.outgoing.send(line).map_err(|_| CallError::Lost)
    }

    fn close(&self) {
        let mut pending = self.lock();
        pending.closed = true;
        pending.results.clear();
        pending.events.clear();
    }
}

/// Cancels a call that is dropped before its result arrives.
struct CancelOnDrop<'a> {
    shared: &'a Shared,
    request_id: u64,
    has_result: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if !self.has_result {
            self.shared.lock().results.remove(&self.request_id);
            self.shared.cancel(self.request_id);
        }
    }
}

impl Client {
    /// Returns a client over `stream`, which separate tasks read and write until either side closes it.
    pub fn from_stream<S>(stream: S) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (read_half, mut write_half) = tokio::io::split(stream);
        let (outgoing, mut outgoing_lines) = mpsc::unbounded_channel::<Vec<u8>>();
        let shared = Arc::new(Shared { outgoing, next_request: AtomicU64::new(1), pending: Mutex::default() });
        tokio::spawn(async move {
            while let Some(line) = outgoing_lines.recv().await {
                if write_half.write_all(&line).await.is_err() {
                    break;
                }
            }
            // All clones of the client were dropped. Shut down, so that the daemon knows that no request will follow.
            let _ = write_half.shutdown().await;
        });
        // A weak reference, so that the reader does not keep the connection open once all clones are dropped.
        let weak_shared = Arc::downgrade(&shared);
        tokio::spawn(async move {
            let mut lines = LineReader::new(BufReader::new(read_half));
            while let Some(line) = next_message(&mut lines).await {
                let Some(shared) = weak_shared.upgrade() else { return };
                shared.deliver(line);
            }
            if let Some(shared) = weak_shared.upgrade() {
                shared.close();
            }
        });
        Self { shared }
    }

    /// Returns whether the connection has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.lock().closed
    }

    /// Calls `verb` and returns its reply, which may report a failure.
    ///
    /// ```no_run
    /// use steplatch_protocol::{DaemonPaths, Hello, ListTerminalSessions, connect};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let paths = DaemonPaths::from_environment(None)?;
    /// let (client, _) = connect(&paths, Hello { client: "example".to_owned(), ..Hello::default() }).await?;
    /// for terminal in client.call(ListTerminalSessions {}).await?.sessions {
    ///     println!("{}: {}", terminal.session_id, terminal.command);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the daemon refused, or the connection was lost.
    pub async fn call<V: Verb>(&self, verb: V) -> Result<V::Reply, CallError> {
        Ok(self.call_with_warnings(verb).await?.0)
    }

    /// Like [`Client::call`], with the daemon's warnings about the parameters.
    ///
    /// # Errors
    /// Same as [`Client::call`].
    pub async fn call_with_warnings<V: Verb>(&self, verb: V) -> Result<(V::Reply, Vec<String>), CallError> {
        let params = serde_json::to_value(verb).expect("the parameters of a verb contain only JSON");
        let (data, warnings) = self.send_request(self.next_request_id(), V::NAME, params, None).await?;
        let reply = serde_json::from_value(data).map_err(|source| CallError::Garbled { verb: V::NAME, source })?;
        Ok((reply, warnings))
    }

    /// Calls the verb `name` with raw JSON parameters and returns the raw reply with the daemon's warnings.
    ///
    /// # Errors
    /// Same as [`Client::call`].
    pub async fn call_raw(&self, name: &str, params: Value) -> Result<(Value, Vec<String>), CallError> {
        self.send_request(self.next_request_id(), name, params, None).await
    }

    /// Like [`Client::call`], for a named step. For a repeated `step`, also over another connection, the daemon does
    /// not open a terminal or type again.
    ///
    /// # Errors
    /// Same as [`Client::call`].
    pub async fn call_once<V: Verb>(&self, verb: &V, step: &str) -> Result<V::Reply, CallError> {
        let params = serde_json::to_value(verb).expect("the parameters of a verb contain only JSON");
        let (data, _) = self.call_raw_once(V::NAME, params, Step { name: step, is_repeated: false }).await?;
        serde_json::from_value(data).map_err(|source| CallError::Garbled { verb: V::NAME, source })
    }

    /// Like [`Client::call_raw`], for a step.
    ///
    /// # Errors
    /// Same as [`Client::call`].
    pub(crate) async fn call_raw_once(
        &self,
        name: &str,
        params: Value,
        step: Step<'_>,
    ) -> Result<(Value, Vec<String>), CallError> {
        self.send_request(self.next_request_id(), name, params, Some(step)).await
    }

    /// Subscribes with `verb` and returns its reply and its events.
    ///
    /// # Errors
    /// Same as [`Client::call`].
    pub async fn subscribe<V: Verb>(&self, verb: V) -> Result<(V::Reply, Events), CallError> {
        let request_id = self.next_request_id();
        let (sender, receiver) = mpsc::unbounded_channel();
        self.shared.lock().events.insert(request_id, sender);
        let events = Events { receiver, request_id, shared: self.shared.clone() };
        let params = serde_json::to_value(verb).expect("the parameters of a verb contain only JSON");
        let (data, _) = self.send_request(request_id, V::NAME, params, None).await?;
        let reply = serde_json::from_value(data).map_err(|source| CallError::Garbled { verb: V::NAME, source })?;
        Ok((reply, events))
    }

    fn next_request_id(&self) -> u64 {
        self.shared.next_request.fetch_add(1, Ordering::Relaxed)
    }

    async fn send_request(
        &self,
        request_id: u64,
        name: &str,
        params: Value,
        step: Option<Step<'_>>,
    ) -> Result<(Value, Vec<String>), CallError> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut pending = self.shared.lock();
            if pending.closed {
                return Err(CallError::Lost);
            }
            pending.results.insert(request_id, sender);
        }
        let mut guard = CancelOnDrop { shared: &self.shared, request_id, has_result: false };
        let (command_type, request_id) = (name.to_owned(), request_id.into());
        let is_repeated = step.as_ref().is_some_and(|step| step.is_repeated);
        let step = step.map(|step| step.name.to_owned());
        let command = FromClient::Command { command_type, params, request_id, step, is_repeated };
        self.shared.send(&command)?;
        let result = receiver.await;
        guard.has_result = true;
        match result.map_err(|_| CallError::Lost)? {
            FromDaemon::Result { error_code: Some(code), error, .. } => {
                Err(Refusal { code, error: error.unwrap_or_default() }.into())
            }
            FromDaemon::Result { data, warnings, .. } => Ok((data, warnings)),
            FromDaemon::Event { .. } | FromDaemon::Error { .. } => {
                unreachable!("only results are sent to waiters")
            }
        }
    }
}

/// The step of a request.
pub(crate) struct Step<'a> {
    pub(crate) name: &'a str,
    /// True if an earlier request of the step may have reached a daemon.
    pub(crate) is_repeated: bool,
}

impl Shared {
    fn deliver(&self, message: FromDaemon) {
        match &message {
            FromDaemon::Result { request_id, .. } => {
                let sender = request_id.as_u64().and_then(|id| self.lock().results.remove(&id));
                if let Some(sender) = sender {
                    // Ignore the error, because the call was dropped.
                    let _ = sender.send(message);
                }
            }
            FromDaemon::Event { request_id, event } => {
                if let Some(id) = request_id.as_u64()
                    && let Some(sender) = self.lock().events.get(&id)
                {
                    let _ = sender.send(event.clone());
                }
            }
            FromDaemon::Error { error, supported } => {
                tracing::warn!(error, ?supported, "the daemon reported an error");
                // An error without a request id concerns all requests.
                let senders: Vec<_> = self.lock().results.drain().collect();
                for (id, sender) in senders {
                    let _ = sender.send(FromDaemon::Result {
                        success: false,
                        data: Value::Null,
                        error: Some(error.clone()),
                        error_code: Some(if supported.is_some() {
                            ErrorCode::UnsupportedProtocol
                        } else {
                            ErrorCode::Internal
                        }),
                        warnings: Vec::new(),
                        request_id: id.into(),
                    });
                }
            }
        }
    }
}

async fn next_message<R>(lines: &mut LineReader<R>) -> Option<FromDaemon>
where
    R: tokio::io::AsyncBufRead + Unpin,
{
    loop {
        let line: io::Result<Option<Line>> = lines.next().await;
        match line {
            Ok(None) | Err(_) => return None,
            Ok(Some(Line::TooLong)) => tracing::warn!("dropped an overlong message from the daemon"),
            Ok(Some(Line::Bytes(bytes))) => match serde_json::from_slice(&bytes) {
                Ok(message) => return Some(message),
                Err(error) => tracing::warn!(%error, "dropped an unreadable message from the daemon"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn overlong_request_is_refused_and_the_connection_survives() {
        let (client_stream, daemon_stream) = tokio::io::duplex(1 << 16);
        let client = Client::from_stream(client_stream);
        let error = client.call_raw("CREATE_WORKFLOW", json!({"text": "x".repeat(MAX_LINE_BYTES)})).await.unwrap_err();
        assert_eq!(error.to_string(), "the request takes 16 MB; at most 16 MB can be sent");
        tokio::spawn(async move {
            let (read_half, mut write_half) = tokio::io::split(daemon_stream);
            let mut lines = LineReader::new(BufReader::new(read_half));
            while let Ok(Some(Line::Bytes(line))) = lines.next().await {
                let message: Value = serde_json::from_slice(&line).unwrap();
                let result = json!({"type": "result", "success": true, "request_id": message["request_id"]});
                write_half.write_all(format!("{result}\n").as_bytes()).await.unwrap();
            }
        });
        client.call_raw("DAEMON_STATUS", Value::Null).await.unwrap();
    }
}
