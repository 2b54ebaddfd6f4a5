//! The connection of one client, with one line per message.
//!
//! Every command runs in a separate task, so a long wait does not delay a short command. The outgoing queue is bounded:
//! a client that does not read slows down only its own events and commands (`backlog.rs`).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use steplatch_access::{Caller, ConnectionId, Standing};
use steplatch_protocol::{Command, ErrorCode, FromClient, FromDaemon, Line, LineReader, Refusal, VERBS, take_session};
use steplatch_sessions::{EventSink, VerbReply, refused};
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;

use crate::dispatcher::Dispatcher;

/// The commands in progress of a connection.
type InFlight = Arc<Mutex<HashMap<String, AbortHandle>>>;

/// Serves one client until it disconnects or the daemon stops. `standing` determines whether the client's process is
/// treated as a person.
pub(crate) async fn serve(
    service: Arc<Dispatcher>,
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
    standing: Standing,
) {
    let (reading, writing) = tokio::io::split(stream);
    let sink = EventSink::new(writing);
    let _counted = service.count_client();
    let in_flight = InFlight::default();
    tokio::select! {
        () = read_messages(&service, reading, sink.clone(), &in_flight, standing) => {}
        _ = service.wait_until_stopped() => {}
    }
    // The client's waits end with its connection; runs do not.
    for (_, command) in in_flight.lock().drain() {
        command.abort();
    }
    // Send pending replies, unless the client does not read.
    let _ = tokio::time::timeout(std::time::Duration::from_secs(1), sink.shutdown()).await;
}

async fn read_messages(
    service: &Arc<Dispatcher>,
    stream: impl AsyncRead + Unpin,
    sink: EventSink,
    in_flight: &InFlight,
    standing: Standing,
) {
    let mut lines = LineReader::new(BufReader::new(stream));
    let connection = Some(ConnectionId::next());
    let mut caller = Arc::new(Caller { standing: standing.clone(), connection, ..Caller::unknown() });
    loop {
        sink.backlog().wait_until_readable().await;
        let line = match lines.next().await {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(%error, "a connection failed");
                return;
            }
        };
        let message = match &line {
            Line::TooLong => Err("Message too long"),
            Line::Bytes(bytes) => serde_json::from_slice::<Value>(bytes).map_err(|_| "Invalid JSON"),
        };
        let message = message.and_then(|value| serde_json::from_value(value).map_err(|_| "Invalid message"));
        let sent = match message {
            Err(problem) => sink.send(&FromDaemon::Error { error: problem.to_owned(), supported: None }).await,
            Ok(FromClient::Cancel { request_id }) => {
                let command = in_flight.lock().remove(&request_id.to_string());
                if let Some(command) = command {
                    command.abort();
                }
                Ok(())
            }
            Ok(FromClient::Command { command_type, params, request_id, step, is_repeated }) => {
                match parse_command(&command_type, params) {
                    Err(refusal) => sink.send(&refused(refusal, request_id)).await,
                    Ok(ParsedCommand { command: Command::Hello(hello), warnings, .. }) => {
                        let answer = match service.hello(&hello) {
                            Ok(answer) => {
                                let named_caller = service.caller(hello);
                                caller = Arc::new(Caller { standing: standing.clone(), connection, ..named_caller });
                                result_message(answer, warnings, request_id)
                            }
                            Err(refusal) => refused(refusal, request_id),
                        };
                        sink.send(&answer).await
                    }
                    Ok(ParsedCommand { command, sessions, warnings }) => {
                        // Wait before the next read, because a command that waits for its turn would need more memory
                        // than its reply.
                        let turn = sink.backlog().wait_for_turn(&command).await;
                        let task = Task { request_id, sessions, warnings, sink: sink.clone(), step, is_repeated, turn };
                        spawn_command(service, &caller, command, task, in_flight);
                        Ok(())
                    }
                }
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

struct Task {
    request_id: Value,
    /// The sessions that the command names.
    sessions: Vec<String>,
    warnings: Vec<String>,
    sink: EventSink,
    step: Option<String>,
    is_repeated: bool,
    /// Held until the reply is written.
    turn: Option<OwnedSemaphorePermit>,
}

fn spawn_command(service: &Arc<Dispatcher>, caller: &Arc<Caller>, command: Command, task: Task, in_flight: &InFlight) {
    // Box the command, because a task reserves memory for all moved values, and thousands of commands may wait at once.
    let command = Box::new(command);
    let (service, caller, in_flight_commands) = (service.clone(), caller.clone(), in_flight.clone());
    let key = task.request_id.to_string();
    // Hold the lock until the task is registered, so that it cannot end earlier.
    let mut tasks = in_flight.lock();
    let name = key.clone();
    let command_count = task.sink.backlog().count_command();
    let running = tokio::spawn(async move {
        let _command_count = command_count;
        let Task { request_id, sessions, warnings, sink, step, is_repeated, turn: _turn } = task;
        let _repeated = step.as_ref().filter(|_| is_repeated).map(|step| service.record_repeated(step));
        let (answer, following) = match Box::pin(service.check_session(&caller, &sessions)).await {
            Some(reply) => (reply, None),
            None => service.answer(&caller, command, step).await,
        };
        // Ignore an error: later work stops on its own without a client.
        let _ = sink.send(&result_message(answer, warnings, request_id.clone())).await;
        if let Some(following) = following {
            Box::pin(following.forward(&request_id, &sink)).await;
        }
        in_flight_commands.lock().remove(&name);
    });
    tasks.insert(key, running.abort_handle());
}

/// A parsed command.
struct ParsedCommand {
    command: Command,
    /// The sessions that it names.
    sessions: Vec<String>,
    warnings: Vec<String>,
}

fn parse_command(name: &str, mut params: Value) -> Result<ParsedCommand, Refusal> {
    let invalid = |error: String| Refusal { code: ErrorCode::InvalidParams, error };
    let sessions = take_session(name, &mut params).map_err(|error| invalid(error.to_string()))?;
    match Command::parse(name, params) {
        Some(Ok((command, warnings))) => Ok(ParsedCommand { command, sessions, warnings }),
        Some(Err(error)) => Err(invalid(error.to_string())),
        None => {
            let known: Vec<&str> = VERBS.iter().map(|verb| verb.name).collect();
            let error = format!("unknown command '{name}'; this daemon knows {}", known.join(", "));
            Err(Refusal { code: ErrorCode::UnknownCommand, error })
        }
    }
}

fn result_message(reply: VerbReply, warnings: Vec<String>, request_id: Value) -> FromDaemon {
    let VerbReply { success, error, data } = reply;
    FromDaemon::Result { success, data, error, error_code: None, warnings, request_id }
}
